"""The systems of outputs that have different rows, through products that serve all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from .._numerics.arrays import (
    constant,
    gram,
    is_tensor,
    numpy_of,
    positions,
    row_slices,
    unique_columns,
)
from .._numerics.factors import cholesky
from .._numerics.linalg import (
    positive_solve,
    positive_solver,
    ridge_solve,
    symmetric_eigen,
    triangular_inverse,
)
from .design import Design
from .moments import PartlyWhitened

__all__ = ["MaskedSystem", "Systems", "balance", "cheaper_by_steps"]

# Digits that conjugate gradients gain, and steps they take for each that they should take.
_DIGITS, _MORE_STEPS = 9.0, 1.1
# Most entries of the targets whose system is solved at once, where outputs are related.
_MOST_ENTRIES = 6000
# Rows that are gathered at once for Z'Z.
_GATHERED = 8192
# Most noise of a preconditioner from products in float32; with more coordinates it is larger.
_MOST_NOISE, _MOST_ROUGH = 0.1, 512
_ROUNDING = 0.5 * float(np.finfo(np.float32).eps)


class Systems:
    """The systems of the outputs, each of the rows that it has; centred, if there is an intercept.

    n are the weights of these rows, z_sum and t_sum the weighted sums of z_i and y_ij over them,
    and spread is the norm of each output about its mean.
    """

    fit_intercept: bool
    n: Any  # (d,)
    z_sum: Any  # (p, d)
    t_sum: Any  # (d,)
    spread: Any  # (d,)

    @functools.cached_property
    def _safe(self) -> Any:
        return self.n + (self.n <= 0.0)

    def _centred(self, products: Any, C: Any = None) -> Any:
        """Return sum_i w_ij z_i x_ij of centred rows, given it of rows as they are.

        x_ij are the targets y_ij, or z_i'c_j.
        """
        if not self.fit_intercept:
            return products
        sums = self.t_sum if C is None else (self.z_sum * C).sum(0)
        return products - self.z_sum * (sums / self._safe)

    def near(self, array: np.ndarray) -> Any:
        """Return numbers where the products are computed."""
        return array

    def intercept(self, coef: np.ndarray) -> np.ndarray:
        """Return the mean over its rows of what is left of each output, zeros without intercept."""
        if not self.fit_intercept:
            return np.zeros(len(self.n))
        left = self.t_sum - (self.z_sum * self.near(coef)).sum(0)
        return numpy_of(left / self._safe)


@dataclass
class MaskedSystem(Systems):
    """Z, and for each output the weights w_ij of the rows, 0 where a row does not have it.

    Arrays are NumPy's, or tensors on the card where Z is. The design may have features in place of
    Z of which only some are whitened, see `partly`: then coefficients c are of these, and their
    penalty is c'Pc.
    """

    design: Design  # (n, p)
    T: Any  # targets, 0 where they are missing, (n, d)
    W: Any  # (n, d)
    fit_intercept: bool = False
    K: np.ndarray | None = None  # Z Z', where it is at hand
    partly: PartlyWhitened | None = None

    @classmethod
    def of(
        cls, design: Design, targets: np.ndarray, weights: Any, intercept: bool, **more: Any
    ) -> MaskedSystem:
        """Return the system of targets with NaN and of weights of the rows, or None."""
        missing = np.isnan(targets)
        W = (~missing).astype(np.float64)
        if weights is not None:
            W *= weights[:, None]
        T = np.where(missing, 0.0, targets).astype(np.float64)
        near = design.Z.near if design.rows is None else design.rows.near
        return cls(design, near(T), near(W), intercept, **more)

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

    def balanced(self) -> MaskedSystem:
        """Return the systems with weights by which every output counts alike."""
        return replace(self, W=self.W * self.near(balance(numpy_of(self.n))))

    @functools.cached_property
    def n(self) -> Any:
        """Weight of the rows of each output, shape (d,)."""
        return self.W.sum(0)

    @functools.cached_property
    def z_sum(self) -> Any:
        """Sums of the rows of Z that each output has, shape (p, d)."""
        return self.design.adjoint(self.W)

    @functools.cached_property
    def t_sum(self) -> Any:
        return (self.W * self.T).sum(0)

    @functools.cached_property
    def spread(self) -> Any:
        """Root of the weighted squares of each output about its mean, shape (d,)."""
        return (self.W * (self.T - self.t_sum / self._safe) ** 2).sum(0) ** 0.5

    @functools.cached_property
    def right(self) -> Any:
        """sum_i w_ij z_i y_ij, of centred rows if there is an intercept; shape (p, d)."""
        return self._centred(self.design.adjoint(self.W * self.T))

    @property
    def may_round(self) -> bool:
        """Whether products in float32 are cheaper."""
        return self.design.is_near

    @functools.cached_property
    def _rounded(self) -> tuple[Design, np.ndarray]:
        """Z and W for products in float32."""
        return self.design.rounded(), self.W.astype(np.float32)

    def gram_product(self, C: Any, single: bool = False) -> Any:
        """Return sum_i w_ij z_i z_i' c_j, of centred rows if there is an intercept."""
        Z, W = self._rounded if single else (self.design, self.W)
        return self._centred(Z.masked(W, C), C)

    @functools.cached_property
    def _penalty(self) -> np.ndarray | None:
        """P, None for the identity."""
        return None if self.partly is None else self.partly.penalty()

    def product(self, alpha: float, single: bool = False) -> Callable[[Any], Any]:
        """Return C -> (sum_i w_ij z_i z_i' + n_j alpha P) c_j; sums in float32 if `single`."""
        P, shift = self._penalty, alpha * self.n
        return lambda C: self.gram_product(C, single) + shift * (C if P is None else P @ C)

    def products(self, alpha: float) -> list[Callable[[Any], Any]]:
        """Return `product` in each precision, the cheapest first."""
        return [self.product(alpha, single) for single in (True, False)[not self.may_round :]]

    @functools.cached_property
    def _mean_square(self) -> np.ndarray:
        """The mean of z z' over all entries of T that are there, of centred rows or not."""
        return self._centred_gram(self.design.gram(self.W.sum(1) / self.W.sum()))

    @functools.cached_property
    def _rough_square(self) -> tuple[np.ndarray, np.ndarray]:
        """The same from products in float32, and its diagonal before rows are centred."""
        G = self._rounded[0].gram(self.W.sum(1) / self.W.sum(), np.float32)
        return self._centred_gram(G), np.diagonal(G)[:-1]

    def _centred_gram(self, G: Any) -> np.ndarray:
        """Return Z'WZ, of centred rows if there is an intercept, of [Z, 1]'W[Z, 1]."""
        G = numpy_of(G)
        A, z_sum = G[:-1, :-1], G[-1, :-1]
        return A - np.outer(z_sum, z_sum) / G[-1, -1] if self.fit_intercept else A

    @functools.cached_property
    def spectrum(self) -> tuple[Any, Any]:
        """Eigenvalues and vectors of the mean of z z' over all entries that are there."""
        values, vectors = symmetric_eigen(self._mean_square)
        return self.near(np.maximum(values, 0.0)), self.near(np.ascontiguousarray(vectors))

    def preconditioner(self, alpha: float) -> Callable[[Any], Any]:
        """Return R -> M^-1 R, where the rows of each output count as those of all."""
        M = self._rough(alpha)
        M = _penalised(self._mean_square, alpha, self._penalty) if M is None else M
        inverse = positive_solver(self.near(M))
        return lambda R: inverse(R / self._safe)

    def _rough(self, alpha: float) -> np.ndarray | None:
        """Return the matrix of `preconditioner` from float32 products, None if these are too noisy.

        An entry has the noise eps |z_j| |z_k|: as M = L L' measures it, they come to at most
        eps |L^-1 diag(|z_j|)|^2.
        """
        if not self.may_round or self.design.shape[1] > _MOST_ROUGH:
            return None
        A, squares = self._rough_square
        M = _penalised(A, alpha, self._penalty)
        factor = cholesky(M.copy())
        if factor is None:
            return None
        inverse = triangular_inverse(factor.L)
        noise = _ROUNDING * float((inverse**2).sum(axis=0) @ squares)
        return M if noise <= _MOST_NOISE else None

    def directly(self, alpha: float, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Solve for outputs that have the same rows, in coordinates or in the rows.

        c = Z'(Z Z' + n alpha I)^-1 T = (Z'Z + n alpha I)^-1 Z'T, of centred and weighted rows.
        """
        if len(rows) < self.design.shape[1]:
            return self._by_rows_alone(alpha, columns, rows)
        A, b = self._square(int(columns[0]), rows), numpy_of(self.right[:, columns])
        shift = alpha * float(self.n[int(columns[0])])
        if self.partly is None:
            return ridge_solve(A, b, shift)
        try:
            return positive_solve(_penalised(A, shift, self._penalty), b)
        except LinAlgError:  # in coordinates, rounding can be told from the rest
            M = self.partly.finish()
            return M.T @ ridge_solve(M @ A @ M.T, M @ b, shift)

    def _square(self, column: int, rows: np.ndarray) -> np.ndarray:
        """Return sum_i w_ij z_i z_i' over the rows that an output has, of centred rows or not."""
        if not self.design.is_near:
            return self._centred_gram(self.design.gram(self.W[:, column]))
        A: Any = None
        for some in row_slices(len(rows), _GATHERED):
            Z, w = self._taken(rows[some], column)
            part = gram(Z if (w == 1.0).all() else Z * np.sqrt(w)[:, None])
            A = part if A is None else A + part
        if not self.fit_intercept:
            return A
        z_sum = self.z_sum[:, column]
        return A - np.outer(z_sum, z_sum) / self.n[column]

    def _taken(self, rows: np.ndarray, column: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of Z in float64, and what they weigh for an output."""
        Z = numpy_of(self.design.Z.take(rows)).astype(np.float64, copy=False)
        return Z, numpy_of(self.W[positions(rows, self.T), column])

    def _by_rows_alone(self, alpha: float, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
        # c = Z'(Z Z' + n alpha I)^-1 T, of centred rows times sqrt(w)
        Z, w = self._taken(rows, int(columns[0]))
        T = numpy_of(self.T[positions(rows, self.T)])[:, columns]
        n, root = w.sum(), np.sqrt(w)[:, None]
        M = None if self.partly is None else self.partly.finish()
        Z = Z if M is None else Z @ M.T
        if self.fit_intercept:
            Z, T = Z - w @ Z / n, T - w @ T / n
        Z, T = Z * root, T * root
        coef = Z.T @ ridge_solve(Z @ Z.T, T, n * alpha, overwrite=True)
        return coef if M is None else M.T @ coef

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
        """Return the outputs to solve directly, those with equal rows together, and the others.

        The first come with the numbers of their rows; outputs without rows are left out. All that
        have rows are among the others where Z is not held.
        """
        there = numpy_of(self.W) > 0.0
        if not self.design.is_held:
            return [], np.flatnonzero(there.any(axis=0))
        first, codes = unique_columns(there)
        counts = there[:, first].sum(axis=0)
        by_steps, _ = cheaper_by_steps(counts, np.bincount(codes), *self.design.shape)
        direct = [
            (np.flatnonzero(codes == k), np.flatnonzero(there[:, column]))
            for k, column in enumerate(first)
            if counts[k] and not by_steps[k]
        ]
        return direct, np.flatnonzero(by_steps[codes])


def balance(n: np.ndarray) -> np.ndarray:
    """Return mean(n) / n_j, with which outputs of n_j rows count alike; 1 where there is none."""
    there = n > 0.0
    return np.where(there, n[there].mean() / np.where(there, n, 1.0), 1.0)


def cheaper_by_steps(
    counts: np.ndarray, sizes: np.ndarray, n: int, p: int
) -> tuple[np.ndarray, float]:
    """Return which sets of outputs conjugate gradients solve in fewer operations, and how many.

    Preconditioned by the mean of all rows, outputs that have n_j of n rows at random converge like
    s^k with s^2 = p/n (n - n_j)/n_j: the eigenvalues lie between (1 - s)^2 and (1 + s)^2. `counts`
    are the rows that the outputs of each set have, and `sizes` how many outputs it has.
    """
    few = np.minimum(counts, p)
    directly = counts * float(p) * p + few**2 * (p / 3.0)
    rate = np.sqrt(p / n * (n - counts) / np.maximum(counts, 1))
    steps = 1.0 + _MORE_STEPS * _DIGITS / -np.log10(np.clip(rate, 1e-6, 0.95))
    by_steps = 4.0 * steps * sizes * n * p  # of few columns, which is slower, but in float32
    shared = n * float(p) * p + p**3
    chosen = (by_steps < directly) & (counts > p)
    if np.where(chosen, directly - by_steps, 0.0).sum() <= shared:
        return np.zeros(len(counts), dtype=bool), float(directly.sum())
    return chosen, float(np.where(chosen, by_steps, directly).sum() + shared)


def _penalised(A: np.ndarray, shift: float, P: np.ndarray | None) -> np.ndarray:
    """Return A + shift P, of which None is the identity."""
    return A + shift * (np.eye(len(A)) if P is None else P)


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
