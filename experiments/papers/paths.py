"""Ridge regression of several targets, each with the kernel and alpha that its folds prefer.

The sums (Z'Z, Z'T) of the folds serve every target and every alpha, so this costs one pass over
the data for each kernel, like a path with a common alpha.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.papers.formulas import Sums, ridge_path
from skout import KernelBasis


@dataclass
class Path:
    """Ridge on one basis, with the best alpha of each of d targets."""

    basis: KernelBasis
    alphas: np.ndarray  # (d,)
    cv_mse: np.ndarray  # (d,)
    coef: np.ndarray  # (p, d)
    intercept: np.ndarray  # (d,)


def fit_path(
    kernel: Any,
    sketch: Any,
    X: np.ndarray,
    T: np.ndarray,
    alphas: np.ndarray,
    fold: np.ndarray,
    seed: int,
) -> Path:
    """Fit all alphas; `fold` (n,) numbers the folds from 0."""
    basis = KernelBasis(kernel, sketch, random_state=seed).fit(X)
    Z = basis.transform(X)
    parts = [Sums.of(Z[fold == i], T[fold == i]) for i in range(int(fold.max()) + 1)]
    total = functools.reduce(operator.add, parts)
    errors = np.zeros((len(alphas), T.shape[1]))
    for part in parts:
        path = ridge_path(total - part, alphas.tolist(), intercept=True)
        errors += part.n / total.n * np.array([part.error(*fit) for fit in path])
    best = errors.argmin(axis=0)  # (d,)
    path = list(ridge_path(total, alphas.tolist(), intercept=True))
    targets = range(T.shape[1])
    return Path(
        basis,
        alphas[best],
        errors.min(axis=0),
        np.column_stack([path[i][0][:, j] for i, j in zip(best, targets, strict=True)]),
        np.array([path[i][1][j] for i, j in zip(best, targets, strict=True)]),
    )


class TargetRidge:
    """For each target the path with the least cross-validated error."""

    def __init__(self, paths: Sequence[Path]) -> None:
        table = np.array([path.cv_mse for path in paths])  # (n_kernels, d)
        self.paths, self.choice, self.cv_mse = paths, table.argmin(axis=0), table.min(axis=0)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the predictions, shape (n, d)."""
        F = np.empty((len(X), len(self.choice)))
        for i in np.unique(self.choice):
            path, mine = self.paths[i], self.choice == i
            F[:, mine] = path.basis.transform(X) @ path.coef[:, mine] + path.intercept[mine]
        return F

    def settings(self) -> list[str]:
        """Return kernel and alpha of each target, as text."""
        return [
            f"{self.paths[i].basis.kernel} alpha={self.paths[i].alphas[j]:.1e}"
            for j, i in enumerate(self.choice)
        ]


def folds_of(n: int, n_folds: int, seed: int | None = None) -> np.ndarray:
    """Number n rows into folds: blocks of consecutive rows, or random ones if there is a seed."""
    fold = np.arange(n) * n_folds // n
    return fold if seed is None else np.random.default_rng(seed).permutation(fold)
