"""
How large a sketch? Theory and practice
=======================================

The papers prove that sketches of a certain size lose little. Four of their statements can be
tried on data: when a sketch keeps a kernel matrix (definition 3.4), which sizes the theorems
ask for and which are enough, how fast the part that a sketch does not see gets small (theorem 4.9),
and when a sketch makes predictions better, because it regularizes.
"""

# %%
# Some inputs, a Gaussian kernel, and its spectrum. The *critical radius* says which eigenvalues
# stand out from noise, and the *statistical dimension* how many do.

import matplotlib.pyplot as plt
import numpy as np

from skout import KernelBasis, KernelRidge
from skout.kernels import Gaussian
from skout.sketches import GaussianSketch, PSparsified, SubSample
from skout.theory import (
    critical_radius,
    eigen_decay,
    k_satisfiability,
    reconstruction_error,
    satisfiability_constant,
    spectrum,
    statistical_dimension,
    theorem_3_19_size,
    theorem_4_9_size,
)

rng = np.random.default_rng(0)
n = 200
X = rng.standard_normal((n, 2))
kernel = Gaussian(gamma=0.3)
K = kernel(X)
values = spectrum(kernel, X)
d = statistical_dimension(values)
print(f"critical radius {critical_radius(values):.4f}, statistical dimension {d} of {n}")

# %%
# **When does a sketch keep a kernel matrix?** It must be nearly an isometry on the first
# eigenvectors, by at most 1/2, and small on the others, by at most c. Below: how often ten draws of
# a p-sparsified sketch did, for each size and share p of entries that are not zero. Theorem 3.19
# asks for C_0 d / p^2 rows; the constant of its proof is above ten thousand, but C_0 = 20 would do
# for p = 1. For small p it asks for 1 / p^2 times as many, though as many are enough: what the
# theorem does not cover works.

sizes, shares = [10, 20, 40, 80, 120, 160, 200], [0.05, 0.2, 0.7, 1.0]
kept = np.zeros((len(shares), len(sizes)))
for i, p in enumerate(shares):
    for j, m in enumerate(sizes):
        draws = [PSparsified(m, p=p).draw(n, rng) for _ in range(10)]
        c = satisfiability_constant(p)
        kept[i, j] = np.mean([k_satisfiability(K, draw).satisfied(c) for draw in draws])

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for p, share in zip(shares, kept, strict=True):
    rows = theorem_3_19_size(values, p)
    ax.plot(sizes, share, "o-", label=f"p = {p}: {rows:,.0f} rows for $C_0$ = 1")
ax.set(xlabel="rows of the sketch", ylabel="draws that are K-satisfiable")
ax.legend()

# %%
# **How much of a kernel does a sketch not see?** The reconstruction error (4.13) of new objects,
# with the rate n^(-(1 - gamma) / (1 + gamma)) that theorem 4.9 promises for the squared error at
# the size of (4.14), with Gaussian sketches, for which its constant nu is 1. The dashed line starts
# at the first point measured: other constants are not known.

counts = [100, 200, 400, 800, 1600]
decay = eigen_decay((kernel, rng.standard_normal((600, 2))))
found, asked = [], []
new = rng.standard_normal((300, 2))
for count in counts:
    asked.append(theorem_4_9_size(count, decay.gamma, decay.mu))
    m = max(2, round(asked[-1]))
    rows = rng.standard_normal((count, 2))
    basis = KernelBasis(kernel, GaussianSketch(min(m, count)), random_state=0).fit(rows)
    found.append(reconstruction_error(basis, new) ** 2)
rate = (1 - decay.gamma) / (1 + decay.gamma)
promised = found[0] * (np.array(counts) / counts[0]) ** -rate

fig, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
axes[0].loglog(counts, asked, "o-")
axes[0].set(xlabel="training objects n", ylabel="sketch size of (4.14)")
axes[1].loglog(counts, found, "o-", label="measured at that size")
axes[1].loglog(counts, promised, "--", color="0.5", label=f"$n^{{-{rate:.2f}}}$")
axes[1].set(xlabel="training objects n", ylabel="squared reconstruction error")
axes[1].legend()

# %%
# **When does a sketch regularize?** Noisy targets, and a penalty that is far too small, just right
# or too large. Where alpha is too small, a small sketch is better than all rows: it cannot follow
# the noise. With the right alpha it has nothing to gain.

y = np.sin(2.0 * X[:, 0]) + 0.7 * rng.standard_normal(n)
X_test = rng.standard_normal((1000, 2))
y_test = np.sin(2.0 * X_test[:, 0])
tried = [5, 10, 20, 40, 80, 160, 200]

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for alpha in (1e-8, 1e-3, 1e-1):
    errors = []
    for m in tried:
        models = [
            KernelRidge(kernel, SubSample(m), alpha=alpha, random_state=s).fit(X, y)
            for s in range(10)
        ]
        errors.append(np.mean([np.mean((f.predict(X_test) - y_test) ** 2) for f in models]))
    ax.plot(tried, errors, "o-", label=f"alpha = {alpha:g}")
ax.set(xlabel="rows of the sketch", ylabel="error against the truth", yscale="log")
ax.legend()
plt.show()
