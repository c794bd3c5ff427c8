"""Side inputs of the forward way: what made the input, beside the output.

A spectrum depends on its molecule and on the energy it was broken with. With coordinates u(x) in
R^q of a kernel on the side inputs of x, and v(c) of an output, the forward map is ridge regression
with the product of both kernels, whose features are all products u_i v_j:

    g(c, x) = sum_i u_i(x) B_i' v(c)                                  B_i of shape (p_v, p_x)

The score of a candidate stays one inner product of a vector of the query and one of the candidate:

    <g(c, x), z_x(x)> = <v(c), sum_i u_i(x) B_i z_x(x)>
    ||g(c, x)||^2 = sum_ij u_i(x) u_j(x) M_ij(c)        M_ij(c) = <B_i' v(c), B_j' v(c)>
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._numerics.arrays import n_rows, row_slices
from ..basis import KernelBasis
from ..basis.moments import Moments
from ..rows import source
from ..solvers.ridge import ridge, ridge_errors, ridge_paths

__all__ = ["SideInputs", "SideRidge", "fit_sides"]

# Numbers of a block of products of features.
_BLOCK = 2**23


class SideRidge(BaseEstimator):
    """The forward map with side inputs, of fitted parts: from outputs to [v(c), M(c), 0].

    `basis` is v, `coef` is B of shape (q, p_v, p_x), `mean` that of u u' over the training rows,
    shape (q, q): what the lengths of predictions are taken at, for cosines.
    """

    #: whether ||g||^2 is among the coordinates, and rows may be sources, see `skout.rows`
    has_norms = takes_sources = True

    def __init__(self, basis: Any, coef: np.ndarray, mean: np.ndarray) -> None:
        self.basis = basis
        self.coef = coef
        self.mean = mean

    def predict(self, outputs: Any) -> np.ndarray:
        """Return [v(c), M(c), 0], M with the pairs i <= j only."""
        V = self.basis.transform(source(outputs).here())
        G = [V @ B for B in self.coef]
        pairs = zip(*np.triu_indices(len(G)), strict=True)
        M = [np.einsum("ij,ij->i", G[i], G[j]) for i, j in pairs]
        return np.column_stack([V, *M, np.zeros(len(V))])

    def scaled(self, G: np.ndarray, weight: float, cosine: bool) -> np.ndarray:
        """Return the coordinates times a weight; with cosines v(c) at a mean length of 1."""
        p, weight = self.basis.rank_, 1.0 if np.isinf(weight) else weight
        V, M = G[:, :p], G[:, p:-1]
        if not cosine:
            return np.column_stack([np.sqrt(weight) * V, weight * M, G[:, -1]])
        lengths = np.sqrt(np.maximum(self.mean_squares(M), np.finfo(np.float64).tiny))
        return np.column_stack([np.sqrt(weight) * V / lengths[:, None], 0.0 * M, G[:, -1]])

    def mean_squares(self, M: np.ndarray) -> np.ndarray:
        """Return ||g(c, x)||^2 on average over the side inputs of training."""
        return M @ _pairs(self.mean[None])[0]


class SideInputs(BaseEstimator):
    """The vectors of queries that meet those of `SideRidge`, of fitted parts: z_x, u and B."""

    def __init__(self, inputs: Any, side: Any, coef: np.ndarray) -> None:
        self.inputs = inputs
        self.side = side
        self.coef = coef

    @property
    def rank_(self) -> int:
        q, p, _ = self.coef.shape
        return p + q * (q + 1) // 2 + 1

    def transform(self, X: Any) -> np.ndarray:
        """Return [sum_i u_i B_i z_x, -u u' / 2, ||z_x||] of each input."""
        Z, U = self.inputs.transform(X), self.side.transform(X)
        W = sum(U[:, i, None] * (Z @ B.T) for i, B in enumerate(self.coef))
        squares = -0.5 * _pairs(np.einsum("ni,nj->nij", U, U))
        return np.column_stack([W, squares, np.linalg.norm(Z, axis=1)])

    def scaled(self, Z: np.ndarray, weight: float, cosine: bool) -> np.ndarray:
        """Return these for a weight; with cosines at a length of 1 of z_x."""
        p, weight = self.coef.shape[1], 1.0 if np.isinf(weight) else weight
        lengths = np.maximum(Z[:, -1:], np.finfo(np.float64).tiny) if cosine else 1.0
        return np.column_stack([np.sqrt(weight) * Z[:, :p] / lengths, Z[:, p:]])


def _pairs(S: np.ndarray) -> np.ndarray:
    """Return the entries i <= j of symmetric matrices, those off the diagonal twice."""
    i, j = np.triu_indices(S.shape[1])
    return np.where(i == j, 1.0, 2.0) * S[:, i, j]


def fit_sides(
    forward: Any,
    side: Any,
    inputs: Any,
    X: Any,
    outputs: Any,
    folds: list[tuple[np.ndarray, np.ndarray]],
    sample_weight: Any = None,
) -> tuple[SideRidge, SideInputs]:
    """Fit the forward map with side inputs, and the bases `side` and `inputs`.

    The kernel, sketch, penalty and seed are those of the regressor of `forward`. Of several
    penalties the one of the least squared error in folds is taken.
    """
    regressor = forward.regressor
    basis = KernelBasis(
        regressor.kernel,
        getattr(regressor, "sketch", None) or "subsample",
        random_state=getattr(regressor, "random_state", None),
    )
    V, T, U = basis.fit_transform(outputs), inputs.fit_transform(X), side.fit_transform(X)
    w = np.ones(n_rows(T)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    alphas = np.atleast_1d(getattr(regressor, "alpha", 1e-3)).astype(np.float64)
    alpha = alphas[0] if len(alphas) == 1 else _best(alphas, U, V, T, w, folds)
    coef = ridge(_moments(U, V, T, w), float(alpha))[0]
    coef = coef.reshape(U.shape[1], V.shape[1], T.shape[1])
    mean = (w[:, None] * U).T @ U / w.sum()
    return SideRidge(basis, coef, mean), SideInputs(inputs, side, coef)


def _moments(U: np.ndarray, V: np.ndarray, T: np.ndarray, w: np.ndarray) -> Moments:
    """Return the moments of all products u_i v_j, block by block."""
    p = U.shape[1] * V.shape[1]
    total = Moments.zeros(p, T.shape[1])
    for some in row_slices(len(U), max(1, _BLOCK // p)):
        Z = (U[some, :, None] * V[some, None, :]).reshape(-1, p)
        total += Moments.of_block(Z, T[some], w[some])
    return total


def _best(
    alphas: np.ndarray,
    U: np.ndarray,
    V: np.ndarray,
    T: np.ndarray,
    w: np.ndarray,
    folds: list[tuple[np.ndarray, np.ndarray]],
) -> float:
    """Return the penalty of the least squared error in folds."""
    parts = [_moments(U[test], V[test], T[test], w[test]) for _, test in folds]
    total, errors = functools.reduce(operator.add, parts), np.zeros(len(alphas))
    for part in parts:
        found = ridge_paths(total - part, alphas.tolist())
        errors += [part.weight * ridge_errors(part, *pair).sum() for pair in found]
    return float(alphas[np.argmin(errors)])
