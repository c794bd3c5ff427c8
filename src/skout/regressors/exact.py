"""Exact kernel ridge regression on the distinct rows of a sample."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._numerics.arrays import take, unique
from .._numerics.linalg import check_definite, pivoted_cholesky, triangular_inverse
from ..basis.features import KernelMatrix
from ..basis.passes import Sample
from ..kernels import Kernel
from ..sketches import PivotedCholesky
from ..solvers import dual_ridge
from ..solvers.moments import Moments
from .folds import Folds
from .splits import Splits, groups_or_splits

__all__ = ["Exact"]

# Rows by whose span the kernel is replaced while alpha is chosen, where there are more.
_STAND_IN = 1500


class Exact:
    """The kernel matrix of the distinct rows of a sample, and what is solved with it.

    Parameters
    ----------
    kernel : Kernel
        With its parameters resolved.
    sample : Sample
        In memory.
    fit_intercept : bool
    n_jobs : int, optional

    Attributes
    ----------
    landmarks : rows
        The distinct ones.
    number : ndarray of int, shape (n,)
        The distinct row that each row is.
    has_exact_path : bool
        Whether `folds` are of this kernel, and not of a stand-in.
    """

    def __init__(
        self, kernel: Kernel, sample: Sample, fit_intercept: bool, n_jobs: int | None = None
    ) -> None:
        rows = sample.rows.here()
        first, self.number = unique(rows)
        self.landmarks = take(rows, first)
        self.sample, self.fit_intercept = sample, fit_intercept
        self.K = KernelMatrix(kernel, self.landmarks, n_jobs).full()
        self.has_exact_path = len(self.K) <= _STAND_IN
        check_definite(self.K)

    def solve(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Fit on all rows; K is lost. Rows without weight get coefficient 0.

        Returns
        -------
        coef : ndarray of shape (m, d)
        intercept : ndarray of shape (d,)
        """
        K, n = self.K, len(self.number)
        w = np.ones(n) if self.sample.weights is None else self.sample.weights
        total = np.bincount(self.number, w, minlength=len(K))
        used = np.flatnonzero(total)
        sums = sparse.csr_matrix((w, (self.number, np.arange(n))), shape=(len(K), n))
        means = sums[used] @ self.sample.targets.here()
        means /= total[used, None]
        if len(used) < len(K):
            K = K[np.ix_(used, used)]
        solution, intercept = dual_ridge(
            K, means, total[used], alpha, self.fit_intercept, overwrite=True
        )
        if len(used) == len(total):
            return solution, intercept
        coef = np.zeros((len(total), means.shape[1]))
        coef[used] = solution
        return coef, intercept

    def folds(
        self, splits: Splits, rng: np.random.Generator, verbose: bool = False
    ) -> tuple[Folds, np.ndarray]:
        """Return the moments that a path over alphas needs, and coordinates of the distinct rows.

        K = Z Z': ridge regression on the rows of Z is that with the kernel. Up to 1,500 distinct
        rows this is exact. Where there are more, Z Z' is the kernel on the span of 1,500 of them,
        which randomly pivoted Cholesky chooses: for r of n rows, Z takes n r numbers beside the
        n^2 of K, and the moments r^2 a fold; an exact path would take n^3 operations for each
        alpha and fold.
        """
        Z = self._coordinates(rng)
        number, parts = groups_or_splits(splits, len(self.number))
        moments = []
        for some in number:
            w = None if self.sample.weights is None else self.sample.weights[some]
            T = self.sample.targets.take(some).astype(np.float64)
            moments.append(Moments.of_block(Z[self.number[some]], T, w))
        return Folds(moments, parts, self.fit_intercept, verbose), Z

    def _coordinates(self, rng: np.random.Generator) -> np.ndarray:
        """Return Z of the distinct rows, shape (m, r)."""
        m = len(self.K)
        some = np.arange(m)
        if not self.has_exact_path:
            some = PivotedCholesky(_STAND_IN, max_rows=m).draw(m, rng, _Columns(self.K)).indices
        L, kept = pivoted_cholesky(self.K[np.ix_(some, some)])
        return self.K[:, some[kept]] @ triangular_inverse(L).T


class _Columns:
    """A kernel matrix that is known, as sketches ask for it."""

    def __init__(self, K: np.ndarray) -> None:
        self.K = K

    def diag(self) -> np.ndarray:
        return np.diagonal(self.K)

    def columns(self, index: np.ndarray) -> np.ndarray:
        return self.K[:, index]

    def restrict(self, index: np.ndarray) -> _Columns:
        return _Columns(self.K[np.ix_(index, index)])
