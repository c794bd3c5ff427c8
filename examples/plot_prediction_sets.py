"""
Prediction sets for blurred postcodes
=====================================

A letter bears a handwritten postcode, and it rained. Where the ink has run, one answer is a guess;
a small set that holds the truth nine times in ten is a promise. ``ConformalSets`` makes the sets
as large as they must be: one town for a dry letter, many for a soaked one.
"""

# %%
# Letters
# -------
# A code of four digits, each cut from the handwritten digits of scikit-learn, is an image of 8 by
# 32 pixels. Rain replaces pixels by stains. There are 600 towns, and the codes are strings: the
# output kernel is our own function, the share of places where two codes agree.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skout import ConformalSets, iokr
from skout.sketches import SubSample

images, digits = load_digits().images / 16.0, load_digits().target
rng = np.random.default_rng(0)
towns = [f"{code:04d}" for code in rng.choice(10_000, 600, replace=False)]


def agreement(A, B):
    a, b = (np.array([list(code) for code in codes]) for codes in (A, B))
    return (a[:, None] == b).mean(axis=2)


def write(n, pool):
    """Return n images of letters, their codes, and how hard it rained on them."""
    codes, rain = rng.choice(towns, n), rng.uniform(size=n)
    drawn = {digit: pool[digits[pool] == int(digit)] for digit in "0123456789"}
    X = np.array([np.hstack([images[rng.choice(drawn[c])] for c in code]) for code in codes])
    stained = rng.uniform(size=X.shape) < 0.8 * rain[:, None, None]
    return np.where(stained, rng.uniform(0.0, 0.6, X.shape), X).reshape(n, -1), codes, rain


pools = train_test_split(np.arange(len(digits)), random_state=0)  # no digit on both sides
X, Y, _ = write(2000, pools[0])
letters, codes, rain = write(4000, pools[1])
X_held, X_new, Y_held, Y_new, rain_held, rain_new = train_test_split(
    letters, codes, rain, train_size=1000, random_state=0
)

# %%
# A model, and its calibration
# ----------------------------
# The model is an ordinary one, and ``embed`` prepares the towns once for all calls. A thousand
# letters that it has not seen tell how far the true town falls short of the best one; that is all
# that the sets need.

alphas = np.logspace(-5, 0, 6)
model = iokr("gaussian", agreement, input_sketch=SubSample(800), alpha=alphas, random_state=0)
model.fit(X, Y)
pool = model.embed(towns)
sets = ConformalSets(model).calibrate(X_held, Y_held, pool)
levels = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]
results = [sets.evaluate(X_new, Y_new, pool, level) for level in levels]
print("wanted  covered  towns on the list")
for level, result in zip(levels, results, strict=True):
    print(f"{level:6.0%} {result['coverage']:8.1%} {result['mean_size']:18.1f}")

# %%
# For whom is the promise?
# ------------------------
# Nine in ten holds over all letters. Lists get longer in the rain, but not long enough: the dry
# letters are covered more often, and the soaked ones less. Who needs the promise for each weather
# calibrates for each.

weather = {"dry": (0.0, 0.25), "damp": (0.25, 0.5), "wet": (0.5, 0.75), "soaked": (0.75, 1.0)}
together, apart = {}, {}
for name, (low, high) in weather.items():
    held, new = (low <= rain_held) & (rain_held < high), (low <= rain_new) & (rain_new < high)
    own = ConformalSets(model).calibrate(X_held[held], Y_held[held], pool)
    together[name] = sets.evaluate(X_new[new], Y_new[new], pool)
    apart[name] = own.evaluate(X_new[new], Y_new[new], pool)
    for how, result in ((", all calibrated together", together), (", on its own", apart)):
        size, covered = result[name]["mean_size"], result[name]["coverage"]
        print(f"{name + how:32s} {size:6.1f} towns, {covered:.1%} covered")

# %%
# Pictures
# --------
# Above: four letters and their lists at 90 %, cut at fifteen towns, the truth in green. Below: the
# promise is kept at every level, up to chance (at 50 % one town each is more than enough); then
# lists and coverage by weather.

shown = [np.argmin(np.abs(rain_new - wet)) for wet in (0.05, 0.35, 0.65, 0.95)]
lists = sets.predict(X_new[shown], pool)
fig = plt.figure(figsize=(12, 6), layout="constrained")
above, below = fig.subfigures(2, 1, height_ratios=[2, 3])
for i, some, name, ax in zip(shown, lists, weather, above.subplots(1, 4), strict=True):
    ax.imshow(X_new[i].reshape(8, 32), cmap="gray_r", vmin=0, vmax=1)
    ax.set(title=f"{name}, {Y_new[i]}: list of {len(some)}", xticks=[], yticks=[])
    for j, code in enumerate(some[:15]):
        style = {"color": "tab:green", "weight": "bold"} if code == Y_new[i] else {"color": "0.3"}
        ax.text(3 + 6.4 * (j % 5), 9.5 + 3 * (j // 5), code, ha="center", **style)

promise, sizes, covered = below.subplots(1, 3)
promise.plot([0.5, 1], [0.5, 1], color="0.7")
promise.plot(levels, [result["coverage"] for result in results], "o")
promise.set(xlabel="wanted", ylabel="covered")
for shift, label, result in ((-0.2, "all together", together), (0.2, "each on its own", apart)):
    place = np.arange(4) + shift
    sizes.bar(place, [result[name]["mean_size"] for name in weather], 0.4, label=label)
    covered.bar(place, [result[name]["coverage"] for name in weather], 0.4)
sizes.set(ylabel="towns on the list", yscale="log")
sizes.legend(title="calibrated", frameon=False)
covered.axhline(0.9, color="0.3", linewidth=1)
covered.set(ylabel="covered", ylim=(0.6, 1.0))
plt.setp((sizes, covered), xticks=range(4), xticklabels=weather)
plt.show()
