"""
Rankings: which ice cream parlor first?
=======================================

Six parlors sell ice cream in a town. Everyone ranks all six, by the walk from home and, the less
money they have, by the price, and everyone is a little moody. From the rankings of some people we
predict those of others: a ranking of six items is one of 720 objects.
"""

# %%
# A town
# ------
# A person is a home in the unit square and a budget between 0 and 1. A ranking is a row of ranks:
# entry j is the place of parlor j, 0 the best.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from skout import iokr
from skout.decoding import kemeny
from skout.metrics import kendall_tau

names = ["Aurora", "Bella", "Centrale", "Dolce", "Etna", "Fior"]
places = np.array([[0.2, 0.8], [0.75, 0.85], [0.5, 0.55], [0.15, 0.25], [0.55, 0.15], [0.9, 0.4]])
prices = np.array([3.5, 2.0, 4.5, 2.5, 4.0, 3.0])
rng = np.random.default_rng(0)


def rank(people, mood=0.0):
    """Ranks from 0 by the walk, the price for those of low budget, and the mood."""
    walk = np.linalg.norm(people[:, None, :2] - places, axis=2)
    effort = walk + 0.5 * (1.0 - people[:, 2:]) * (prices - 2.0)
    effort += mood * rng.standard_normal(effort.shape)
    return effort.argsort(axis=1).argsort(axis=1)


new = rng.uniform(size=(500, 3))
R_new = rank(new, mood=0.15)
ceiling = kendall_tau(R_new, rank(new))
print(f"knowing everything but moods gives tau {ceiling:.3f}")

# %%
# Three kernels, two decoders
# ---------------------------
# When are two rankings alike? ``"kendall"`` counts the pairs in the same order, ``"rank_hamming"``
# the parlors of the same rank, ``"lehmer"`` compares the codes by which the ranking is built up.
# ``"rankings"`` searches all 720 rankings, ``"candidates"`` those that someone gave in training.

models = {}
for kernel in ("kendall", "rank_hamming", "lehmer"):
    model = iokr("gaussian", kernel, alpha=np.logspace(-6, 0, 10), random_state=0)
    for decoder in ("rankings", "candidates"):
        models[f"{kernel}, {decoder}"] = clone(model).set_params(
            decoder=decoder, regressor__fit_intercept=True
        )

# %%
# The rival asks the k nearest people: ``kemeny`` finds the ranking that agrees with most of their
# pairwise votes. The best k is found on the training people, each left out in turn.


def neighbors(people, R, new):
    before = R[:, :, None] < R[:, None, :]  # (n, 6, 6)
    search = NearestNeighbors().fit(people)
    taus = {}
    for k in (3, 5, 10, 15, 20, 30, 40):
        if k < len(people):
            near = search.kneighbors(n_neighbors=k, return_distance=False)
            taus[k] = kendall_tau(R, kemeny(before[near].sum(axis=1)))
    near = search.kneighbors(new, max(taus, key=taus.get), return_distance=False)
    return kemeny(before[near].sum(axis=1))


sizes, n_towns = [25, 50, 100, 200, 400], 2
taus = {name: np.zeros(len(sizes)) for name in [*models, "neighbors, kemeny"]}
for i, n in enumerate(sizes):
    for _ in range(n_towns):
        people = rng.uniform(size=(n, 3))
        R = rank(people, mood=0.15)
        for name, model in models.items():
            taus[name][i] += kendall_tau(R_new, model.fit(people, R).predict(new)) / n_towns
        taus["neighbors, kemeny"][i] += kendall_tau(R_new, neighbors(people, R, new)) / n_towns
print(" " * 24 + "".join(f"{n:8d}" for n in sizes) + " people")
for name, row in taus.items():
    print(f"{name:24s}" + "".join(f"{tau:8.3f}" for tau in row))

# %%
# Pictures
# --------
# Left: Kendall's kernel learns from the fewest people, and with it the search over all rankings
# helps most while few are known. Right: the town as seen by the model of 400 people, in the colors
# of the favorite parlor; each tile is a region of one ranking. Without money people walk to Bella
# or Dolce, which are cheap; with money to the nearest.

fig = plt.figure(figsize=(12, 5.5), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[5, 6])
ax = left.subplots()
styles = ["C0o-", "C0o:", "C1o-", "C1o:", "C2o-", "C2o:", "ks--"]
for (name, row), style in zip(taus.items(), styles, strict=True):
    ax.plot(sizes, row, style, label=name)
ax.axhline(ceiling, color="0.6", linewidth=1)
ax.text(sizes[0], ceiling, "all but moods", va="bottom", color="0.4")
ax.set(xscale="log", xlabel="people in training", ylabel="Kendall's tau of new people")
ax.set_xticks(sizes, sizes, minor=False)
ax.minorticks_off()
ax.legend(frameon=False)

side = (np.arange(160) + 0.5) / 160
x, y = np.meshgrid(side, side)
model = models["kendall, rankings"]
axes = right.subplots(2, 2)
palette = ListedColormap(plt.colormaps["Set2"].colors[:6])
for row, (budget, wealth) in zip(axes, ((0.05, "no money"), (0.95, "money")), strict=True):
    town = np.column_stack([x.ravel(), y.ravel(), np.full(x.size, budget)])
    seen = {"truth": rank(town), "predicted": model.predict(town)}
    for ax, (what, ranks) in zip(row, seen.items(), strict=True):
        tile = (ranks @ 6 ** np.arange(6)).reshape(x.shape)  # a number for each ranking
        edge = np.diff(tile, axis=0, append=tile[-1:]) != 0
        edge |= np.diff(tile, axis=1, append=tile[:, -1:]) != 0
        favorite = np.ma.masked_where(edge, ranks.argmin(axis=1).reshape(x.shape))
        ax.pcolormesh(x, y, favorite, cmap=palette, vmin=-0.5, vmax=5.5, rasterized=True)
        for name, place in zip(names, places, strict=True):
            ax.text(*place, name, ha="center", va="center", fontsize="small")
        ax.set(title=f"{what}, {wealth}", xticks=[], yticks=[], aspect="equal")
plt.show()
