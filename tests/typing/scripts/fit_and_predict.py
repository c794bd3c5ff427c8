"""Regression and classification, as a user with a type checker writes it."""

import numpy as np

from skout import KernelClassifier, KernelMachine, KernelRidge
from skout.kernels import Gaussian, Linear
from skout.losses import Huber
from skout.sketches import SubSample
from skout.typing import KernelLike, Rows, SketchLike, Targets

X = np.random.default_rng(0).standard_normal((50, 3))
y = X[:, 0] + X[:, 1]


def r2(kernel: KernelLike, sketch: SketchLike, X: Rows, y: Targets) -> float:
    model = KernelRidge(kernel, sketch, alpha=[1e-4, 1e-2], random_state=0).fit(X, y)
    return float(model.score(X, y))


r2("gaussian", None, X, y)
r2(Gaussian(0.5) + 2.0 * Linear(), SubSample(20), X.tolist(), y.tolist())
r2(lambda A, B: A @ B.T, "subsample", X, y)
machine: KernelMachine = KernelMachine("laplacian", loss=Huber(0.5), alpha=1e-3).fit(X, y)
residual = y - machine.predict(X)
classes = KernelClassifier(loss="logistic", class_weight="balanced").fit(X, y > 0).predict(X)
print(residual.shape, classes[:3])
