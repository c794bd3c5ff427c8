"""
Several outputs, some rows corrupted
====================================

Ten stations along a river report a level at each time. Now and then a transmission fails and the
whole report, all ten numbers, is garbage. Three things help: a loss of the norm of the residual,
which counts a report as a whole; a bound on what one report may cost; and a matrix that says which
stations are neighbors.
"""

# %%
# Data
# ----
# A wave travels down the river, so neighboring stations are alike. Of the reports used for
# learning one in six is garbage.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.multioutput import MultiOutputRegressor

from skout import KernelMachine, graph_task_matrix
from skout.kernels import Gaussian
from skout.losses import Huber

rng = np.random.default_rng(0)
stations = np.arange(10)


def river(times):
    """Levels at the stations, shape (n, 10): a tide and a slower flood, both on their way."""
    lag = 0.1 * stations
    tide = np.sin(3.0 * (times[:, None] - lag))
    flood = np.exp(-((times[:, None] - 2.0 - lag) ** 2))
    return tide + 2.0 * flood


n = 120
times = np.sort(rng.uniform(0.0, 6.0, n))
Y = river(times) + 0.7 * rng.standard_normal((n, 10))
garbage = rng.uniform(size=n) < 1 / 6
Y[garbage] = 8.0 * rng.standard_normal((garbage.sum(), 10)) + 4.0
X = times[:, None]

# %%
# Neighbors
# ----------
# The stations form a chain. ``graph_task_matrix`` turns the chain into the matrix M of the kernel
# k M: the penalty then also charges differences between neighbors. We scale M to a mean diagonal
# of one, so that alpha means the same with and without it.

chain = np.diag(np.ones(9), 1) + np.diag(np.ones(9), -1)
M = graph_task_matrix(chain, 0.9)
M *= 10 / np.trace(M)

# %%
# Models
# ------
# scikit-learn's ``MultiOutputRegressor`` fits each station by itself with a squared loss; ours is
# the Huber loss of the norm of a whole report. The penalty of each is the best of a few, scored
# against the true river: the comparison is of what the models can do, not of how alpha is found.

kernel, kappa = Gaussian(1.5), 2.0
alphas = np.logspace(-4, 0, 9)


def separate(alpha):
    ridge = KernelRidge(kernel="rbf", gamma=1.5, alpha=n * alpha)
    return MultiOutputRegressor(ridge)


def joint(alpha, task_matrix=None, loss=None):
    loss = Huber(kappa) if loss is None else loss
    return KernelMachine(kernel, None, loss=loss, alpha=alpha, task_matrix=task_matrix)


candidates = {
    "each station alone, squared loss": separate,
    "squared loss, neighbors": lambda alpha: joint(alpha, M, "squared"),
    "Huber loss of the norm": joint,
    "Huber loss of the norm, neighbors": lambda alpha: joint(alpha, M),
}

grid = np.linspace(0.0, 6.0, 200)
clean = river(grid)


def error(model):
    return np.sqrt(np.mean((model.predict(grid[:, None]) - clean) ** 2))


best = {}
for name, make in candidates.items():
    fits = [make(alpha).fit(X, Y) for alpha in alphas]
    best[name] = min(fits, key=error)
    print(f"{name:36s}  distance from the true river {error(best[name]):.3f}")

# %%
# What the loss does not believe
# ------------------------------
# A report whose residual is longer than ``kappa`` pulls with a constant force, in the direction of
# its residual. The length of the residual also tells which reports to distrust.

robust = best["Huber loss of the norm, neighbors"]
length = np.linalg.norm(robust.predict(X) - Y, axis=1)
flagged = length > 3 * np.median(length)
print(f"{garbage.sum()} reports are garbage, {flagged.sum()} are flagged,", end=" ")
print(f"{(flagged & garbage).sum()} of them rightly")

# %%
# Pictures
# --------

fig, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
ax = axes[0]
station = 4
ax.plot(times, Y[:, station], ".", color="0.75", markersize=4, label="reports")
ax.plot(grid, clean[:, station], color="black", linewidth=3, alpha=0.4, label="true level")
for name in ("each station alone, squared loss", "Huber loss of the norm, neighbors"):
    ax.plot(grid, best[name].predict(grid[:, None])[:, station], label=name)
ax.set(title=f"station {station}", xlabel="time", ylabel="level", ylim=(-4, 7))
ax.legend(frameon=False, fontsize="small")

ax = axes[1]
ax.semilogy(times[~garbage], length[~garbage], ".", label="good reports")
ax.semilogy(times[garbage], length[garbage], "x", color="tab:red", label="garbage")
ax.axhline(3 * np.median(length), color="0.5", linewidth=0.8)
ax.set(title="length of the residual of each report", xlabel="time")
ax.legend(frameon=False, fontsize="small")
plt.show()
