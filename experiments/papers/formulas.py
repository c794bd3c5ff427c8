"""Ridge regression as the papers write it, in NumPy, for scripts that try many penalties.

A script that fits a model once calls the library; where it needs the coordinates that each of many
penalties predicts, these few lines give them, with nothing of the library but its kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from sklearn.base import clone

from skout import KernelBasis
from skout.kernels import Gaussian
from skout.metrics import example_f1

__all__ = ["FoldOutputs", "Sums", "dual_weights", "fold_scores", "ridge_path"]


@dataclass
class Sums:
    """What ridge regression needs of rows z with targets t: additive over blocks of rows."""

    n: float
    z: np.ndarray  # (p,)
    t: np.ndarray  # (d,)
    zz: np.ndarray  # (p, p)
    zt: np.ndarray  # (p, d)
    tt: np.ndarray  # (d,)

    @classmethod
    def of(cls, Z: np.ndarray, T: np.ndarray, weights: np.ndarray | None = None) -> Sums:
        W = Z if weights is None else weights[:, None] * Z
        V = T if weights is None else weights[:, None] * T
        n = float(len(Z) if weights is None else weights.sum())
        return cls(n, W.sum(axis=0), V.sum(axis=0), W.T @ Z, W.T @ T, np.einsum("ij,ij->j", V, T))

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            *(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True))
        )

    def __sub__(self, other: Sums) -> Sums:
        return Sums(
            *(a - b for a, b in zip(vars(self).values(), vars(other).values(), strict=True))
        )

    def error(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Return the mean squared error of each target on these rows."""
        error = self.tt + np.einsum("ij,ij->j", coef, self.zz @ coef - 2.0 * self.zt)
        error += intercept * (self.n * intercept - 2.0 * (self.t - self.z @ coef))
        return np.maximum(error, 0.0) / self.n


def ridge_path(
    sums: Sums, alphas: Sequence[float], intercept: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield B = (Z'Z + n alpha I)^-1 Z'T (4.10) and the intercept for each alpha."""
    z, t = (sums.z / sums.n, sums.t / sums.n) if intercept else (0.0 * sums.z, 0.0 * sums.t)
    values, vectors = eigh(sums.zz - sums.n * np.outer(z, z))
    right = vectors.T @ (sums.zt - sums.n * np.outer(z, t))
    for alpha in alphas:
        coef = vectors @ (right / (values + sums.n * alpha)[:, None])
        yield coef, t - z @ coef


def dual_weights(
    K: np.ndarray, K_val: np.ndarray, alphas: Sequence[float]
) -> Iterator[tuple[float, np.ndarray]]:
    """Yield each alpha and K_val (K + n alpha I)^-1 (2.32), what each training output weighs."""
    for alpha in alphas:
        factor = cho_factor(K + len(K) * alpha * np.eye(len(K)), lower=True, overwrite_a=True)
        yield alpha, cho_solve(factor, K_val.T).T


def predictions(
    X: Any, T: np.ndarray, X_val: Any, kernel: Any, sketch: Any, alphas: Sequence[float], seed: int
) -> Iterator[tuple[float, np.ndarray]]:
    """Yield each alpha and the coordinates predicted with it; the kernel is computed once."""
    if sketch is None:
        for alpha, weights in dual_weights(kernel(X), kernel(X_val, X), alphas):
            yield alpha, weights @ T
        return
    basis = KernelBasis(kernel, sketch, random_state=seed)
    Z, Z_val = basis.fit_transform(X), basis.transform(X_val)
    for alpha, (coef, _) in zip(alphas, ridge_path(Sums.of(Z, T), alphas), strict=True):
        yield alpha, Z_val @ coef


@dataclass
class FoldOutputs:
    """Coordinates and decoders of the training outputs of a fold, side by side."""

    coordinates: np.ndarray
    decoders: dict[tuple[Any, str], tuple[slice, Any]]

    @classmethod
    def of(
        cls, Y: np.ndarray, bases: dict[Any, KernelBasis], decoders: dict[str, Any]
    ) -> FoldOutputs:
        parts, ready, end = [], {}, 0
        for name, basis in bases.items():
            parts.append(basis.fit_transform(Y))
            columns = slice(end, end := end + basis.rank_)
            for decoder, blank in decoders.items():
                ready[name, decoder] = (columns, clone(blank).fit(basis, Y, parts[-1]))
        return cls(np.hstack(parts), ready)


def fold_scores(
    X: Any,
    Y: Any,
    fold: Any,
    gamma: float,
    sketch: Any,
    outputs: FoldOutputs,
    alphas: Sequence[float],
    most: int = 1000,
) -> dict[tuple[float, Any, str], float]:
    """Return the F1 of each alpha, output kernel and decoder on `most` held-out rows of a fold."""
    train, val = fold[0], fold[1][:most]
    scores = {}
    kernel = Gaussian(gamma)
    for alpha, F in predictions(
        X[train], outputs.coordinates, X[val], kernel, sketch, alphas, seed=0
    ):
        for (name, decoder), (columns, fitted) in outputs.decoders.items():
            found = fitted.decode(np.ascontiguousarray(F[:, columns]))
            scores[alpha, name, decoder] = example_f1(Y[val], found)
    return scores
