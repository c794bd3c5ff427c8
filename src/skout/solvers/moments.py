"""Ridge regression from moments: sufficient statistics, which add up over blocks of rows.

Where the rows of Z are features of which only the first are whitened, `PartlyWhitened` knows how
their moments become those of coordinates.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, solve_triangular

from .._numerics.arrays import (
    cast,
    contiguous,
    gram,
    is_tensor,
    namespace,
    numpy_of,
    ones,
    sqrt,
    tall_product,
)
from .._numerics.linalg import (
    congruence,
    positive_solve,
    ridge_path,
    ridge_solve,
    triangular_inverse,
    triangular_product,
)
from .._numerics.validation import check_total_weight

__all__ = [
    "Moments",
    "PartlyWhitened",
    "feature_ridge",
    "off_diagonal",
    "partial_whitening",
    "ridge",
    "ridge_errors",
    "ridge_on_features",
    "ridge_paths",
    "ridge_predictions",
    "sum_moments",
]

# Columns of a triangle that are multiplied at a time.
_TRIANGLE = 256


@dataclass
class Moments:
    """The sufficient statistics of ridge regression of T on Z; they add and subtract.

    Attributes
    ----------
    weight : float
        Sum of the sample weights, n when there are none.
    zz : ndarray of shape (p, p)
        Z'Z.
    zt : ndarray of shape (p, d)
        Z'T.
    tt : ndarray of shape (d,)
        The diagonal of T'T, all that a squared error needs.
    z_sum, t_sum : ndarray of shape (p,) and (d,)
        Sums of the rows of Z and of T.
    count : float
        Number of the rows of positive weight; NaN where they were not counted.
    partly : PartlyWhitened, optional
        How Z become coordinates, where they are features of which only some are whitened.
    """

    weight: float
    zz: np.ndarray
    zt: np.ndarray
    tt: np.ndarray
    z_sum: np.ndarray
    t_sum: np.ndarray
    count: float = np.nan
    partly: PartlyWhitened | None = None

    @classmethod
    def zeros(cls, p: int, d: int) -> Moments:
        """Return the moments of no rows."""
        square, cross, d_sum, p_sum = np.zeros((p, p)), np.zeros((p, d)), np.zeros(d), np.zeros(p)
        return cls(0.0, square, cross, d_sum, p_sum, d_sum.copy(), 0.0)

    @classmethod
    def of_block(cls, Z: Any, T: Any, weights: Any, wide: Any = None, zz: Any = None) -> Moments:
        """Return the moments of one block, in arrays or tensors as Z is.

        Parameters
        ----------
        Z : array of shape (b, p)
            Scaled in place when there are weights.
        T : array or CSR matrix of shape (b, d)
            In float64.
        weights : array of shape (b,), optional
        wide : ndarray of shape (b, p + d + 1), optional
            An array that begins with Z: its other columns take T, and all products are one.
        zz : ndarray of shape (p, p), optional
            Z'Z, where it is known.
        """
        p, root = Z.shape[1], ones(len(Z), Z) if weights is None else sqrt(weights)
        if weights is not None:
            Z *= cast(root[:, None], Z.dtype)
        if sparse.issparse(T):
            return cls._of_sparse(Z, sparse.diags_array(root) @ T, root, zz)
        T = T * root[:, None]
        right = namespace(T).concatenate([T, root[:, None]], 1)
        if wide is None:
            zz = gram(Z) if zz is None else zz
            cross = tall_product(cast(right, Z.dtype), Z).T
        else:
            wide[:, p:] = right
            products = gram(wide)
            zz, cross = products[:p, :p], products[:p, p:]
        cross = cast(cross, np.float64)
        weight, count = root @ root, (root > 0.0).sum()
        if not is_tensor(Z):  # whose host does not wait
            weight, count = float(weight), float(count)
        return cls(weight, zz, cross[:, :-1], (T * T).sum(0), cross[:, -1], T.T @ root, count)

    @classmethod
    def _of_sparse(cls, Z: np.ndarray, T: Any, root: np.ndarray, zz: np.ndarray | None) -> Moments:
        cross = (T.T.tocsr().astype(Z.dtype) @ Z).T.astype(np.float64, order="C")
        z_sum = (root.astype(Z.dtype) @ Z).astype(np.float64)
        zz = Z.T @ Z if zz is None else zz
        tt, t_sum, count = T.multiply(T).sum(axis=0), T.T @ root, float(np.count_nonzero(root))
        return cls(float(root @ root), zz, cross, tt, z_sum, t_sum, count)

    def add(self, other: Moments) -> None:
        """Add other moments in place, in float64."""
        self.weight += other.weight
        self.count += other.count
        for name in ("zz", "zt", "tt", "z_sum", "t_sum"):
            total = getattr(self, name)
            total += getattr(other, name)

    def in_double(self) -> Moments:
        """Return the moments with Z'Z in float64."""
        return replace(self, zz=cast(self.zz, np.float64))

    def here(self) -> Moments:
        """Return the moments in arrays; those of tensors on a card are copied."""
        if not is_tensor(self.zz):
            return self
        names = ("zz", "zt", "tt", "z_sum", "t_sum")
        arrays = {name: numpy_of(contiguous(getattr(self, name))) for name in names}
        return replace(self, weight=float(self.weight), count=float(self.count), **arrays)

    def column_sets(self) -> list[Any]:
        """Return the outputs that have the same rows: here all of them."""
        return [slice(None)]

    def of_columns(self, columns: Any) -> Moments:
        """Return the moments of outputs that have the same rows; see `HoledMoments`."""
        if isinstance(columns, slice):
            return self
        names = ("tt", "t_sum")
        own = {name: getattr(self, name)[columns] for name in names}
        return replace(self, zt=self.zt[:, columns], **own)

    def check_weight(self) -> None:
        """Raise where no row has weight."""
        check_total_weight(self.weight)

    def __add__(self, other: Moments) -> Moments:
        return self._combine(other, 1.0)

    def __iadd__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):  # those of outputs with holes know how
            return NotImplemented
        self.add(other)
        return self

    def __sub__(self, other: Moments) -> Moments:
        return self._combine(other, -1.0)

    def _combine(self, other: Moments, sign: float) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        return Moments(
            self.weight + sign * other.weight,
            self.zz + sign * other.zz,
            self.zt + sign * other.zt,
            self.tt + sign * other.tt,
            self.z_sum + sign * other.z_sum,
            self.t_sum + sign * other.t_sum,
            self.count + sign * other.count,
        )

    def map(self, M: np.ndarray) -> Moments:
        """Return the moments of Z M', for a lower triangular M."""
        zz = congruence(M, self.zz)
        zt = triangular_product(M, self.zt)
        return replace(self, zz=zz, zt=zt, z_sum=M @ self.z_sum, partly=None)

    def of_values(self, values: np.ndarray) -> Moments:
        """Return the moments of the targets T V, where these are of a 0/1 matrix T, one 1 a row."""
        tt = self.tt @ values**2
        return replace(self, zt=self.zt @ values, tt=tt, t_sum=self.t_sum @ values)

    def whitened(self) -> Moments:
        """Return the moments of coordinates."""
        return self if self.partly is None else self.map(self.partly.finish())

    def shifted(self, v: np.ndarray) -> Moments:
        """Return the moments of Z + 1 v'."""
        # Z'Z + s v' + v (s + n v)' as one product
        left = np.column_stack([self.z_sum, v])
        zz = left @ np.vstack([v, self.z_sum + self.weight * v])
        zz += self.zz
        zt = self.zt + np.outer(v, self.t_sum)
        return replace(self, zz=zz, zt=zt, z_sum=self.z_sum + self.weight * v, partly=None)


def sum_moments(parts: list[Moments], chosen: np.ndarray | None = None) -> Moments:
    """Return the sum of the chosen parts, in their order; None are all of them."""
    picked = parts if chosen is None else [parts[i] for i in np.flatnonzero(chosen)]
    if len(picked) == 1:
        return picked[0]
    total = Moments.zeros(*parts[0].zt.shape)
    for part in picked:
        total += part
    return total


# Solutions ----------------------------------------------------------------------------------------


def _normal_equations(
    moments: Moments, fit_intercept: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return Z'Z and Z'T, centred if there is an intercept, and the means of Z and T."""
    if not fit_intercept:
        return moments.zz, moments.zt, np.zeros_like(moments.z_sum), np.zeros_like(moments.t_sum)
    z_mean, t_mean = moments.z_sum / moments.weight, moments.t_sum / moments.weight
    zz = moments.zz - moments.weight * np.outer(z_mean, z_mean)
    return zz, moments.zt - moments.weight * np.outer(z_mean, t_mean), z_mean, t_mean


def ridge(
    moments: Moments, alpha: float, fit_intercept: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise mean 1/2 ||t - B'z - b||^2 + alpha/2 ||B||^2: B = (Z'Z + n alpha I)^-1 Z'T.

    Returns
    -------
    coef : ndarray of shape (p, d)
    intercept : ndarray of shape (d,)
    """
    zz, zt, z_mean, t_mean = _normal_equations(moments, fit_intercept)
    coef = ridge_solve(zz, zt, moments.weight * alpha)
    return coef, t_mean - z_mean @ coef


def feature_ridge(
    moments: Moments, penalty: np.ndarray, alpha: float, fit_intercept: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise mean 1/2 ||t - B'g - b||^2 + alpha/2 tr(B'PB): B = (G'G + n alpha P)^-1 G'T.

    It is `ridge` in features g that are not orthonormal, without making them so. Raises
    LinAlgError where rounding hides that the matrix is positive definite.
    """
    gg, gt, g_mean, t_mean = _normal_equations(moments, fit_intercept)
    coef = positive_solve(gg + moments.weight * alpha * penalty, gt)
    return coef, t_mean - g_mean @ coef


def ridge_on_features(
    moments: Any,
    on_features: Callable[[np.ndarray], np.ndarray],
    alpha: float,
    fit_intercept: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Solve for all outputs, and return what the features are multiplied with, and the intercept.

    `on_features` maps coefficients of coordinates to those of features.
    """
    if moments.partly is not None:
        penalty = moments.partly.penalty()
        try:
            coef, intercept = _each(moments, feature_ridge, penalty, alpha, fit_intercept)
            return moments.partly.on_features(coef), intercept
        except LinAlgError:  # in coordinates, rounding can be told from the rest
            moments = moments.whitened()
    coef, intercept = _each(moments, ridge, alpha, fit_intercept)
    return on_features(coef), intercept


def _each(moments: Any, solve: Any, *options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Solve for outputs that have the same rows, those of each mask in turn."""
    coef, intercept = np.empty(moments.zt.shape), np.empty(moments.zt.shape[1])
    for columns in moments.column_sets():
        coef[:, columns], intercept[columns] = solve(moments.of_columns(columns), *options)
    return coef, intercept


def ridge_paths(
    moments: Moments, alphas: Sequence[float], fit_intercept: bool = False
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Solve `ridge` for many alphas by one eigendecomposition of Z'Z."""
    zz, zt, z_mean, t_mean = _normal_equations(moments, fit_intercept)
    coefs = ridge_path(zz, zt, moments.weight * np.asarray(alphas))
    return [(coef, t_mean - z_mean @ coef) for coef in coefs]


def ridge_predictions(
    moments: Moments, Z: np.ndarray, alphas: Sequence[float], fit_intercept: bool = False
) -> np.ndarray:
    """Predict other rows by `ridge` for many alphas: F = Z (Z'Z + n alpha I)^-1 Z'T.

    Systems are solved for the rows or for the outputs, whichever are fewer.

    Parameters
    ----------
    moments : Moments
        Of the training rows.
    Z : ndarray of shape (h, p)
    alphas : sequence of floats
    fit_intercept : bool, default False

    Returns
    -------
    F : ndarray of shape (n_alphas, h, d)
    """
    zz, zt, z_mean, t_mean = _normal_equations(moments, fit_intercept)
    shifts, rows = moments.weight * np.asarray(alphas), Z - z_mean
    if len(rows) < zt.shape[1]:
        found = [solved.T @ zt for solved in ridge_path(zz, rows.T, shifts)]
    else:
        found = [rows @ coef for coef in ridge_path(zz, zt, shifts)]
    return np.array(found) + t_mean


def ridge_errors(
    moments: Moments, coef: np.ndarray, intercept: np.ndarray, fitted: np.ndarray | None = None
) -> np.ndarray:
    """Return the mean squared error of each output on the rows behind `moments`.

    sum ||t - B'z - b||^2 = T'T - 2 B'Z'T + B'Z'Z B - 2 b (sum t - B' sum z) + n b^2, diagonals.
    `fitted` is Z'Z B, where it is known.
    """
    fitted = moments.zz @ coef if fitted is None else fitted  # (p, d)
    error = moments.tt + np.einsum("ij,ij->j", coef, fitted - 2.0 * moments.zt)
    error += intercept * (moments.weight * intercept)
    error -= 2.0 * intercept * (moments.t_sum - moments.z_sum @ coef)
    return np.maximum(error, 0.0) / moments.weight


# Features of which some are whitened --------------------------------------------------------------


def partial_whitening(
    C: np.ndarray, size: int, dtype: np.dtype
) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
    """Whiten the first `size` features exactly and subtract their share from the others.

    Features F shaped like K~ = L L' become coordinates Z = F L^(-T) = F C'. Done to every row, that
    costs as much as the moments Z'Z; not done at all, the moments F'F square the condition number
    of K~. In between, the first pivots carry nearly all of it:

        L = [[A, 0], [B, D]]:   (F1, F2) -> (F1 A^(-T), F2 - F1 A^(-T) B') = (Z1, Z2 D')

    Parameters
    ----------
    C : ndarray of shape (p, p)
        Lower triangular, the inverse of L: its blocks on the diagonal are A^-1 and D^-1.
    size : int
        Number of features to whiten, 0 to p.
    dtype : numpy dtype
        Of the blocks.

    Returns
    -------
    apply : callable
        Maps a block F of shape (b, p) in place to (Z1, Z2 D').
    finish : ndarray of shape (p, p)
        The matrix M = diag(I, D^(-1)) that takes the moments of (Z1, Z2 D') to those of Z.
    """
    p = len(C)
    ends = [*range(_TRIANGLE, size, _TRIANGLE), size] if size else []
    starts = [0, *ends[:-1]]
    # columns of C' without the zeros below; the last first, as each needs those before it
    steps = [
        (slice(a, b), np.ascontiguousarray(C[a:b, :b].T, dtype=dtype))
        for a, b in zip(starts, ends, strict=False)
    ][::-1]
    share = off_diagonal(C, size).T.astype(dtype)
    memory = threading.local()  # a product in fresh memory would cost page faults

    def apply(F: np.ndarray) -> np.ndarray:
        if size:
            if len(getattr(memory, "product", ())) < len(F):
                memory.product = np.empty((len(F), p - size), dtype=dtype)
            product = memory.product[: len(F)]
            for some, right in steps:
                F[:, some] = F[:, : some.stop] @ right
            F[:, size:] -= np.matmul(F[:, :size], share, out=product)
        return F

    return apply, _whitening_left(C, size)


def _whitening_left(C: np.ndarray, size: int) -> np.ndarray:
    """Return M = diag(I, D^(-1)), see `partial_whitening`."""
    if size == 0:
        return C
    finish = np.eye(len(C))
    finish[size:, size:] = C[size:, size:]
    return finish


def off_diagonal(C: np.ndarray, size: int) -> np.ndarray:
    """Return the block B of L, see `partial_whitening`."""
    p = len(C)
    if not 0 < size < p:
        return np.zeros((p - size, size))
    return solve_triangular(C, np.eye(p, size), lower=True)[size:]


class PartlyWhitened(NamedTuple):
    """Features of which some are whitened: G = (Z1, Z2 D'), see `partial_whitening`.

    Attributes
    ----------
    C : ndarray of shape (p, p)
    size : int
    gram : ndarray of shape (p, p), optional
        K~ = L L', where it is at hand.
    """

    C: np.ndarray
    size: int
    gram: np.ndarray | None = None

    def penalty(self) -> np.ndarray:
        """Return diag(I, D D'): the function G B has the squared norm tr(B' diag(I, D D') B)."""
        s = self.size
        out = np.eye(len(self.C))
        if self.gram is None:
            D = triangular_inverse(self.C[s:, s:])
            out[s:, s:] = triangular_product(D, D.T)
        else:
            B = off_diagonal(self.C, s)
            out[s:, s:] = self.gram[s:, s:] - B @ B.T
        return out

    def on_features(self, coef: np.ndarray) -> np.ndarray:
        """Return what F is to be multiplied with where G is multiplied with `coef`."""
        out, s = coef.copy(), self.size
        if s:
            out[:s] -= off_diagonal(self.C, s).T @ coef[s:]
            out[:s] = self.C[:s, :s].T @ out[:s]
        return out

    def finish(self) -> np.ndarray:
        """Return the matrix that takes the moments of G to those of Z."""
        return _whitening_left(self.C, self.size)
