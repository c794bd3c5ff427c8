"""The systems of outputs that have different rows, through products that serve all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._numerics.linalg import positive_solve, symmetric_eigen
from .._numerics.namespace import constant, is_tensor, numpy_of, positions
from .design import Design

__all__ = ["MaskedSystem"]

# Outputs with up to so many rows for each coordinate are solved one after another.
_FEW = 1.0
# Most entries of the targets whose system is solved at once, where outputs are related.
_MOST_ENTRIES = 6000


@dataclass
class MaskedSystem:
    """Z, and for each output the weights w_ij of the rows, 0 where a row does not have it.

    Arrays are NumPy's, or tensors on the card where Z is.

    Attributes
    ----------
    design : Design, shape (n, p)
    T : array of shape (n, d)
        Targets, 0 where they are missing.
    W : array of shape (n, d)
    fit_intercept : bool
    K : ndarray of shape (n, n), optional
        Z Z', where it is at hand.
    """

    design: Design
    T: Any
    W: Any
    fit_intercept: bool = False
    K: np.ndarray | None = None

    @classmethod
    def of(cls, design: Design, targets: np.ndarray, weights: Any, intercept: bool) -> MaskedSystem:
        """Return the system of targets with NaN and of weights of the rows, or None."""
        missing = np.isnan(targets)
        W = (~missing).astype(np.float64)
        if weights is not None:
            W *= weights[:, None]
        T = np.where(missing, 0.0, targets).astype(np.float64)
        near = design.Z.near if design.rows is None else design.rows.near
        return cls(design, near(T), near(W), intercept)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the coefficients."""
        return self.design.shape[1], self.T.shape[1]

    def near(self, array: np.ndarray) -> Any:
        """Return numbers where the products are computed."""
        return constant(array, self.T) if is_tensor(self.T) else array

    def take(self, index: np.ndarray) -> MaskedSystem:
        """Return the systems of some of the rows."""
        at = positions(index, self.T)
        K = None if self.K is None else self.K[np.ix_(index, index)]
        return replace(self, design=self.design.take(index), T=self.T[at], W=self.W[at], K=K)

    def columns(self, index: np.ndarray) -> MaskedSystem:
        """Return the systems of some of the outputs."""
        at = positions(index, self.T)
        return replace(self, T=self.T[:, at], W=self.W[:, at])

    @functools.cached_property
    def n(self) -> Any:
        """Weight of the rows of each output, shape (d,)."""
        return self.W.sum(0)

    @functools.cached_property
    def _safe(self) -> Any:
        return self.n + (self.n <= 0.0)

    @functools.cached_property
    def z_sum(self) -> Any:
        """Sums of the rows of Z that each output has, shape (p, d)."""
        return self.design.adjoint(self.W)

    @functools.cached_property
    def t_sum(self) -> Any:
        return (self.W * self.T).sum(0)

    @functools.cached_property
    def right(self) -> Any:
        """sum_i w_ij z_i y_ij, of centred rows if there is an intercept; shape (p, d)."""
        b = self.design.adjoint(self.W * self.T)
        return b - self.z_sum * (self.t_sum / self._safe) if self.fit_intercept else b

    def gram_product(self, C: Any) -> Any:
        """Return sum_i w_ij z_i z_i' c_j, of centred rows if there is an intercept."""
        out = self.design.adjoint(self.W * self.design.product(C))
        if self.fit_intercept:
            out = out - self.z_sum * ((self.z_sum * C).sum(0) / self._safe)
        return out

    def product(self, alpha: float) -> Callable[[Any], Any]:
        """Return C -> (sum_i w_ij z_i z_i' + n_j alpha I) c_j."""
        return lambda C: self.gram_product(C) + (alpha * self.n) * C

    @functools.cached_property
    def spectrum(self) -> tuple[Any, Any]:
        """Eigenvalues and vectors of the mean of z z' over all entries of T that are there."""
        share = self.W.sum(1) / self.W.sum()
        G = numpy_of(self.design.gram(share))
        p = len(G) - 1
        A = G[:p, :p]
        if self.fit_intercept:
            A = A - np.outer(G[p, :p], G[p, :p])
        values, vectors = symmetric_eigen(A)
        return self.near(np.maximum(values, 0.0)), self.near(np.ascontiguousarray(vectors))

    def preconditioner(self, alpha: float) -> Callable[[Any], Any]:
        """Return R -> M^-1 R, where the rows of each output count as those of all."""
        values, V = self.spectrum
        scale = 1.0 / (values[:, None] + alpha + 1e-15 * values[0]) / self._safe
        return lambda R: V @ (scale * (V.T @ R))

    @property
    def has_few_entries(self) -> bool:
        """Whether a system of all entries that are there is small enough to be solved at once."""
        count, p = int((self.W > 0.0).sum()), self.design.shape[1]
        return self.K is not None and count <= min(_MOST_ENTRIES, 3 * p)

    def by_entries(self, shift: float, M: np.ndarray) -> np.ndarray:
        """Return C = Z'G of outputs related by M, from one system of all entries e = (i, j) (2.20).

        (k(x_i, x_i') M_jj' + shift / w_e) c = y - b_j, and G adds c_e M_j to its row i.
        """
        assert self.K is not None
        i, j = np.nonzero(self.W)
        A = self.K[np.ix_(i, i)]
        A *= M[np.ix_(j, j)]
        A[np.diag_indices_from(A)] += shift / self.W[i, j]
        ones = np.eye(self.T.shape[1])[j] if self.fit_intercept else np.zeros((len(i), 0))
        solved = positive_solve(A, np.column_stack([self.T[i, j], ones]))
        c, U = solved[:, 0], solved[:, 1:]
        if self.fit_intercept:  # b makes the sum of c of each output zero
            c = c - U @ positive_solve(ones.T @ U, (ones.T @ c)[:, None])[:, 0]
        G = np.zeros(self.T.shape)
        np.add.at(G, i, c[:, None] * M[j])
        return self.design.adjoint(G)

    def on_host(self) -> Any:
        """Return what a solver on the host asks of these systems."""
        return _OnHost(self) if is_tensor(self.T) else self

    def by_rows(self) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        """Return the outputs with few rows, those with equal ones together, and the others.

        The first come with the numbers of their rows; outputs without rows are left out. All that
        have rows are among the others where Z is not held.
        """
        W = numpy_of(self.W)
        counts = (W > 0.0).sum(axis=0)
        is_few = counts <= _FEW * self.design.shape[1]
        few, many = np.flatnonzero(is_few & (counts > 0)), np.flatnonzero(~is_few)
        if not self.design.is_held:
            return [], np.flatnonzero(counts)
        masks, codes = np.unique(W[:, few].T > 0.0, axis=0, return_inverse=True)
        codes = codes.reshape(-1)
        sets = [(few[codes == k], np.flatnonzero(mask)) for k, mask in enumerate(masks)]
        return sets, many

    def rows_of(self, rows: np.ndarray, columns: np.ndarray) -> tuple[Any, Any, Any]:
        """Return Z, T and weights of some rows and outputs, here; W is the same for these."""
        at = positions(rows, self.T)
        Z, T, W = (numpy_of(part) for part in (self.design.Z.take(rows), self.T[at], self.W[at]))
        return Z.astype(np.float64), T[:, columns], W[:, columns[0]]

    def intercept(self, coef: np.ndarray) -> np.ndarray:
        """Return the mean over its rows of what is left of each output, zeros without intercept."""
        if not self.fit_intercept:
            return np.zeros(self.T.shape[1])
        left = self.t_sum - (self.z_sum * self.near(coef)).sum(0)
        return numpy_of(left / self._safe)


class _OnHost:
    """A system on a card for a solver here: only products of a few columns travel."""

    def __init__(self, system: MaskedSystem) -> None:
        self.system, self.shape = system, system.shape
        self.n, self.right = numpy_of(system.n), numpy_of(system.right)
        self.spectrum = tuple(numpy_of(part) for part in system.spectrum)
        self.intercept = system.intercept

    def gram_product(self, C: np.ndarray) -> np.ndarray:
        """Return the products of `MaskedSystem`."""
        return numpy_of(self.system.gram_product(self.system.near(C)))
