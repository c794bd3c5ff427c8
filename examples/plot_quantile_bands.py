"""
Quantiles that do not cross
===========================

A mean says nothing about spread. Quantiles do: between the curves of level 0.05 and 0.95 lie nine
tenths of the targets, wherever the noise is wide or narrow. ``JointQuantileRegressor`` learns all
levels in one model.
"""

# %%
# Data with noise that changes
# ----------------------------
# The noise grows with x and leans upwards, so neither a constant band nor a symmetric one fits.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skout import JointQuantileRegressor
from skout.kernels import Gaussian
from skout.metrics import coverage, crossing_loss, interval_width, pinball_loss
from skout.sketches import SubSample


def simulate(n, rng):
    X = rng.uniform(0.0, 3.0, (n, 1))
    noise = rng.gamma(2.0, 1.0, n) - 2.0
    return X, np.sin(2.5 * X[:, 0]) + (0.05 + 0.25 * X[:, 0]) * noise


rng = np.random.default_rng(0)
X, y = simulate(600, rng)
X_test, y_test = simulate(5000, rng)

# %%
# One model, seven levels
# -----------------------
# ``gamma_quantiles`` says how far two levels may go their own ways: 0 makes all curves parallel,
# a large value makes them independent. The penalty is chosen by cross-validation.

levels = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
model = JointQuantileRegressor(
    levels,
    Gaussian(2.0),
    SubSample(50),
    alpha=[1e-5, 1e-4, 1e-3, 1e-2],
    gamma_quantiles=3.0,
    random_state=0,
).fit(X, y)
print("level    share of new targets below")
below = (y_test[:, None] <= model.predict(X_test)).mean(axis=0)
for level, share in zip(levels, below, strict=True):
    print(f"{level:5.2f}    {share:.3f}")

# %%
# ``predict_interval`` takes the two curves of a given coverage, between fitted levels too.

for wanted in (0.5, 0.8, 0.9):
    lower, upper = model.predict_interval(X_test, wanted)
    print(
        f"wanted {wanted:.0%}, covered {coverage(y_test, lower, upper):.1%} of new targets, "
        f"mean width {interval_width(lower, upper):.2f}"
    )

# %%
# Curves that cross, and the remedy
# ---------------------------------
# Levels learned one by one on few rows cross, which no quantiles do. Sorting the predictions of
# each row removes the crossings, and it never increases the pinball loss.

few_X, few_y = X[:60], y[:60]
close = [0.3, 0.4, 0.5, 0.6, 0.7]
alone = JointQuantileRegressor(
    close, Gaussian(8.0), alpha=1e-5, gamma_quantiles=1e4, non_crossing=False
).fit(few_X, few_y)
crossed = alone.predict(X_test)
uncrossed = alone.set_params(non_crossing=True).predict(X_test)
for name, F in (("as learned", crossed), ("sorted", uncrossed)):
    print(
        f"{name:10s}  crossing {crossing_loss(F, close):.4f}, "
        f"pinball loss of new targets {pinball_loss(y_test, F, close):.4f}"
    )

# %%
# Real data
# ---------
# The diabetes data of scikit-learn: ten measurements, and the progression of the disease a year
# later. The band is checked on patients that the model has not seen, in five random splits. Bands
# learned from few rows tend to be a little narrow, which only such a check shows.

D, progression = load_diabetes(return_X_y=True)
covered = []
for seed in range(5):
    D_train, D_test, t_train, t_test = train_test_split(
        D, progression / 100.0, test_size=0.4, random_state=seed
    )
    patients = make_pipeline(
        StandardScaler(),
        JointQuantileRegressor(
            [0.1, 0.5, 0.9], Gaussian(0.02), SubSample(60), alpha=[1e-3, 1e-2, 1e-1], random_state=0
        ),
    ).fit(D_train, t_train)
    low, middle, high = patients.predict(D_test).T
    covered.append(coverage(t_test, low, high))
print(f"80% bands cover {np.mean(covered):.0%} of new patients, {min(covered):.0%} at worst")

# %%
# Pictures
# --------
# Above, the bands over the data, and over new patients; below, five levels learned one by one, each
# in its color, as learned and sorted.

grid = np.linspace(0.0, 3.0, 400)[:, None]
fig, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")

ax, F = axes[0, 0], model.predict(grid)
ax.plot(X[:, 0], y, ".", color="0.5", markersize=3)
for k, shade in enumerate((0.15, 0.25, 0.4)):
    ax.fill_between(grid[:, 0], F[:, k], F[:, -1 - k], color="tab:blue", alpha=shade, linewidth=0)
ax.plot(grid[:, 0], F[:, 3], color="tab:blue")
ax.set(title="50, 80 and 90% bands, and the median", xlabel="x", ylabel="y")

ax, order = axes[0, 1], np.argsort(middle)
rank = np.arange(len(order))
ax.fill_between(rank, low[order], high[order], color="tab:blue", alpha=0.25, linewidth=0)
ax.plot(rank, middle[order], color="tab:blue")
ax.plot(rank, t_test[order], ".", color="0.3", markersize=3)
ax.set(title="Diabetes: 80% bands", xlabel="new patients, by median", ylabel="progression / 100")

colors = plt.colormaps["viridis"](np.linspace(0.0, 0.9, len(close)))
for ax, title, non_crossing in (
    (axes[1, 0], "As learned", False),
    (axes[1, 1], "Sorted", True),
):
    F = alone.set_params(non_crossing=non_crossing).predict(grid)
    ax.plot(few_X[:, 0], few_y, ".", color="0.5", markersize=4)
    for level, curve, color in zip(close, F.T, colors, strict=True):
        ax.plot(grid[:, 0], curve, color=color, linewidth=1.2, label=f"{level}")
    ax.set(title=title, xlabel="x", ylabel="y", xlim=(1.5, 2.8), ylim=(-3.0, 2.5))
    ax.legend(title="level", frameon=False, fontsize="small", loc="upper left")
plt.show()
