"""
Regression with outliers
========================

A sensor follows a smooth curve, but one reading in eight is stuck at a high value. The squared loss
pays for a residual with its square, so the few bad readings pull the curve up. The Huber loss pays
linearly beyond a threshold ``kappa``: a reading that is far off counts no more than one that is
just off.
"""

# %%
# Data
# ----
# The true curve is known here, so that models can be compared with it and not with the readings.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import HuberRegressor
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVR

from skout import KernelMachine, KernelRidge
from skout.kernels import Gaussian
from skout.losses import Huber
from skout.sketches import SubSample

rng = np.random.default_rng(0)
n = 800
X = rng.uniform(0.0, 4.0, (n, 1))


def truth(X):
    return np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 0]


y = truth(X) + 0.1 * rng.standard_normal(n)
stuck = rng.uniform(size=n) < 0.125
y[stuck] = 6.0 + 0.1 * rng.standard_normal(stuck.sum())

# %%
# Models
# ------
# All models use the same Gaussian kernel. Ours are sketched to 50 landmarks and choose the penalty
# by cross-validation with their own loss, so no clean data are needed anywhere. The threshold
# ``kappa`` is set to the size of the noise. From scikit-learn come support vector regression,
# which is exact, and Huber regression on Nyström features; their penalties are set by hand.

gamma, alphas = 2.0, np.logspace(-7, -1, 7)
models = {
    "squared loss": KernelRidge(
        Gaussian(gamma), SubSample(50), alpha=alphas, fit_intercept=True, random_state=0
    ),
    "Huber loss": KernelMachine(
        Gaussian(gamma),
        SubSample(50),
        loss=Huber(0.1),
        alpha=alphas,
        fit_intercept=True,
        random_state=0,
    ),
    "scikit-learn SVR": SVR(kernel="rbf", gamma=gamma, C=1.0, epsilon=0.1),
    "scikit-learn Nystroem + Huber": make_pipeline(
        Nystroem(gamma=gamma, n_components=50, random_state=0),
        HuberRegressor(alpha=1e-3, max_iter=1000),
    ),
}

grid = np.linspace(0.0, 4.0, 400)[:, None]
curves = {name: model.fit(X, y).predict(grid) for name, model in models.items()}
for name, curve in curves.items():
    error = np.sqrt(np.mean((curve - truth(grid)) ** 2))
    print(f"{name:30s}  distance from the true curve {error:.3f}")

# %%
# How sure is the solver?
# -----------------------
# ``duality_gap_`` bounds how far the objective is above its minimum, relative to it. No other
# solver is needed to check it.

huber = models["Huber loss"]
print(f"alpha {huber.alpha_:.0e}, {huber.n_iter_} Newton steps, gap {huber.duality_gap_:.0e}")

# %%
# The curves
# ----------
# The curve of the squared loss is lifted by about the share of bad readings times their distance.
# The robust ones stay with the bulk of the data.

fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.plot(X[:, 0], y, ".", color="0.8", markersize=4, label="readings")
ax.plot(grid[:, 0], truth(grid), color="black", linewidth=3, alpha=0.4, label="true curve")
for (name, curve), style in zip(curves.items(), ("-", "-", "--", ":"), strict=True):
    ax.plot(grid[:, 0], curve, style, linewidth=1.8, label=name)
ax.set(xlabel="x", ylabel="y", title="One reading in eight is stuck at 6")
ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
plt.show()
