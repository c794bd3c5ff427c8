"""Kernels on vectors: what they share, their distances and widths, and the Gaussian kernel.

Vectors are dense or CSR, float32 or float64. The width of a kernel is one over a distance.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone

from .._numerics.arrays import (
    RightOperand,
    cast,
    empty,
    float_dtype,
    is_checked,
    is_tensor,
    median,
    n_rows,
    namespace,
    ones,
    row_dots,
)
from .._numerics.validation import check_choice, check_number, check_squares, check_total_weight
from ..rows import Reduction, Survey
from ..rows.encode import check_matrix
from .base import Block, Kernel

__all__ = [
    "DistanceKernel",
    "Gaussian",
    "RadialKernel",
    "Spread",
    "SquaredDistances",
    "VectorKernel",
    "WithGamma",
    "block_buffer",
    "manhattan",
    "median_of_pairs",
    "some_positions",
    "squared_norms",
]

# More rows would not change the bandwidth.
_MEDIAN_ROWS = 1000


class VectorKernel(Kernel):
    """Base of the kernels on real vectors: `encode` checks a matrix, `against` has the formula.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import VectorKernel
    >>> class Affine(VectorKernel):
    ...     def against(self, B):
    ...         return lambda A, out=None: 1.0 + A @ B.T
    ...
    ...     def diag(self, A):
    ...         return 1.0 + (A * A).sum(1)
    >>> Affine()(np.array([[1.0], [2.0]]))
    array([[2., 3.],
           [3., 5.]])
    """

    takes_vectors = True
    compares = "vectors"

    def encode(self, objects: Any) -> Any:
        """Return a finite dense or CSR matrix of float32 or float64."""
        rows = objects if is_checked(objects) else check_matrix(objects)
        check_squares(rows, "objects")
        return rows


def block_buffer(A: Any, m: int, out: Any) -> Any:
    """Return `out`, or a new (b, m) block in the precision of A."""
    return empty((n_rows(A), m), A, float_dtype(A)) if out is None else out


def squared_norms(A: Any) -> Any:
    """Return ||a||^2 of each row, in the dtype of A."""
    if sparse.issparse(A):
        row = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        squares = A.data.astype(np.float64) ** 2
        return np.bincount(row, squares, minlength=A.shape[0]).astype(A.dtype)
    return row_dots(A, A)


# Rows that a median is taken of. It is the centre where the mean is far from it: by more than
# this many times the squared distance of a typical row.
_CENTRE_ROWS, _FAR = 31, 100.0
# CSR rows with at least this share of entries are treated as dense.
_FILLED = 0.5
# Differences that the L1 distance of tensors holds at a time.
_DIFFERENCES = 2**27
# What a factor times squared norms may reach: as good as infinity, and products do not overflow.
_LARGE = {np.dtype(np.float32): 1e18, np.dtype(np.float64): 1e200}


class SquaredDistances:
    """Squared Euclidean distances to fixed rows B, times a factor, by one matrix product.

    Dense rows are centred on the mean of B, which distances do not see and rounding does, and the
    norms ride along as two more columns: factor ||a - b||^2 = [a, ||a||^2, 1] . [-2b, 1, ||b||^2].
    Rounding may make them slightly negative; two ways out: with `snap`, distances that cannot be
    told from rounding are zero; with `over`, float64 norms are raised by more than the product can
    err, by about d eps, and need no second pass over the block; other blocks are clipped, and where
    an error of rounding is more than a hundredth, distances snap. With `saturates` any large result
    is as good as another, and a factor that would make products overflow is lowered.
    """

    def __init__(
        self,
        B: Any,
        factor: float = 1.0,
        *,
        snap: bool = False,
        over: bool = False,
        saturates: bool = False,
    ) -> None:
        # CSR rows that are hardly sparse are centred too, so their blocks become dense
        self.filled = sparse.issparse(B) and B.nnz >= _FILLED * B.shape[0] * B.shape[1]
        B = B.toarray() if self.filled else B
        self.B, self.factor, self.snap, self.over = B, factor, snap, over
        self.saturates = saturates
        self.sparse = sparse.issparse(B)
        self._cast: dict[Any, tuple[Any, Any]] = {}  # centre and right factor of the product
        if self.sparse:
            self.operand = RightOperand(B)
            self.norms = squared_norms(B)
        else:
            xp, B = namespace(B), cast(B, np.float64)
            centre = _centre(B) if len(B) else B.sum(axis=0)
            # a number of both precisions, so that blocks of either subtract the same
            with np.errstate(over="ignore"):
                rounded = cast(cast(centre, np.float32), np.float64)
            self.centre = xp.where(xp.isfinite(rounded), rounded, centre)
            B = B - self.centre
            self.norms = squared_norms(B)
            self.right = empty((B.shape[1] + 2, len(B)), B, np.float64)
            self.right[:-2] = -2.0 * B.T
            self.right[-2] = 1.0
            self.right[-1] = self.norms
        self.largest_norm = float(self.norms.max()) if len(self.norms) else 0.0
        if over:  # or rows would not even be like themselves
            error = 32.0 * np.finfo(np.float64).eps * self.largest_norm * abs(factor)
            self.snap |= bool(error > 0.01)

    def __call__(self, A: Any, out: Any = None) -> Any:
        """Return factor * ||a - b||^2."""
        if sparse.issparse(A) and self.filled:
            A = A.toarray()
        is_sparse = self.sparse or sparse.issparse(A)
        if is_sparse and not self.sparse:
            out = self._sparse_twin(A, out)
        else:
            out = block_buffer(A, n_rows(self.B), out)
            norms = self._product(A, out)
            if self.snap:
                out[namespace(out).abs(out) <= self._noise(norms, float_dtype(out))] = 0.0
        if self.over and not self.snap and (is_sparse or float_dtype(out) != np.float64):
            self._clip(out)
        return out

    def _clip(self, out: Any) -> None:
        """Take back to zero what rounding put on its other side."""
        ends = (None, 0.0) if self.factor < 0 else (0.0, None)
        if is_tensor(out):
            namespace(out).clip(out, *ends, out=out)
            return
        # few rows have such numbers: to look for them is faster than to write all
        furthest = out.max(axis=1, initial=0.0) if self.factor < 0 else out.min(axis=1, initial=0.0)
        rows = furthest != 0.0  # NaN too
        out[rows] = np.clip(out[rows], *ends)

    def _noise(self, norms: Any, dtype: np.dtype) -> Any:
        """Return a bound on the rounding of the distances, given the squared norms of A."""
        unit = 32.0 * float(np.finfo(dtype).eps) * abs(self._factor_in(dtype))
        return (unit * norms)[:, None] + cast(unit * self.norms, dtype)

    def _factor_in(self, dtype: np.dtype) -> float:
        if not self.saturates or self.factor == 0.0:
            return self.factor
        limit, most = _LARGE[np.dtype(dtype)], 1e-3 * float(np.finfo(dtype).max)
        largest = max(limit / most, self.largest_norm)
        return self.factor * min(1.0, limit / largest / abs(self.factor))

    @functools.cached_property
    def _sparse_twin(self) -> SquaredDistances:
        return SquaredDistances(
            sparse.csr_matrix(self.B), self.factor, snap=self.snap, saturates=self.saturates
        )

    def _product(self, A: Any, out: Any) -> Any:
        """Fill `out` and return the squared norms of A."""
        if self.sparse:
            norms = squared_norms(A)
            self.operand.product(A, out)
            factor = self._factor_in(out.dtype)
            out *= out.dtype.type(-2.0 * factor)
            out += (factor * norms)[:, None].astype(out.dtype)
            out += (factor * self.norms).astype(out.dtype)
            return norms
        xp, dtype = namespace(A), float_dtype(out)
        if dtype not in self._cast:
            right = cast(self._factor_in(dtype) * self.right, dtype)
            if self.over and dtype == np.float64:
                right[-2:] *= 1.0 + len(right) * np.finfo(np.float64).eps
            self._cast[dtype] = (cast(self.centre, dtype), right)
        centre, right = self._cast[dtype]
        augmented = empty((A.shape[0], A.shape[1] + 2), A, dtype)
        centred, norms = augmented[:, :-2], augmented[:, -2]
        xp.subtract(A, centre, out=centred)
        row_dots(centred, centred, out=norms)
        augmented[:, -1] = 1.0
        xp.matmul(augmented, right, out=out)
        return norms


def _centre(B: Any) -> Any:
    """Return the mean of the rows, or the median of some where a few far rows pull the mean away.

    Away from most rows, their distances would drown in the rounding of their norms.
    """
    mean = B.mean(axis=0)
    some = B[:: max(1, len(B) // _CENTRE_ROWS)]
    middle = median(some)
    spread = median(squared_norms(some - middle))
    return middle if (mean - middle) @ (mean - middle) > _FAR * spread else mean


def _with_short_indices(A: Any) -> sparse.csr_matrix:
    """Return rows as CSR with the 32-bit indices that scikit-learn's compiled loops take."""
    A = sparse.csr_matrix(A)
    indices, indptr = (some.astype(np.int32, copy=False) for some in (A.indices, A.indptr))
    return sparse.csr_matrix((A.data, indices, indptr), shape=A.shape)


def manhattan(A: Any, B: Any) -> Any:
    """Return L1 distances."""
    if is_tensor(A):
        some = max(1, _DIFFERENCES // max(1, B.shape[0] * B.shape[1]))
        B, torch = cast(B, A.dtype), namespace(A)
        return torch.cat([torch.cdist(part, B, p=1.0) for part in A.split(some)])
    if not (n_rows(A) and n_rows(B)):
        return np.zeros((n_rows(A), n_rows(B)))
    if sparse.issparse(A) or sparse.issparse(B):
        from sklearn.metrics.pairwise import manhattan_distances  # slow to import

        return manhattan_distances(*map(_with_short_indices, (A, B)))
    return cdist(A, B, "cityblock")


# The width of a kernel: a number, or what the training rows say it should be ---------------------


class WithGamma(Kernel):
    """A kernel with a width gamma: a number, "scale" or "median"."""

    gamma: float | str
    #: What gamma is one over: "squared" (Euclidean distance), "euclidean" or "manhattan".
    unit: str = "squared"

    def surveyed(
        self, survey: Survey, rng: np.random.Generator, weights: Any = None
    ) -> Callable[[], Kernel]:
        if not isinstance(self.gamma, str):
            return lambda: self._of_length(None)
        check_choice(self.gamma, "gamma", ("scale", "median"))
        if self.gamma == "scale":
            spread = survey.reduce(Spread(), weights)
            return lambda: self._of_length(_scale(self.unit, spread()))
        index, shares = some_positions(len(survey), rng, weights)
        sample = survey.take(index)
        return lambda: self._of_length(_median(self.unit, sample().astype(np.float64), shares))

    def _of_length(self, length: float | None) -> Kernel:
        """Return a copy whose width is one over a length of the data, or a number already."""
        resolved = clone(self)
        if length is not None:
            # constant data: every width gives the same kernel
            resolved.gamma = 1.0 / length if 0 < length < np.inf else 1.0
        resolved._width()
        return resolved

    def _width(self) -> float:
        if isinstance(self.gamma, str):
            raise ValueError(
                f"gamma={self.gamma!r} depends on the data: fit an estimator with this kernel, or "
                "call kernel.resolve(X, rng) first."
            )
        return float(check_number(self.gamma, "gamma"))


@dataclass(frozen=True)
class _Spread:
    """Mean and variance of the numbers in some rows, which add up (Chan et al., 1979)."""

    weight: float  # numbers, each counted with the weight of its row
    mean: float
    squares: float  # weighted sum of (x - mean)^2
    d: int
    low: Any  # of each feature
    high: Any


class Spread(Reduction):
    """The variance of all the numbers in the rows, as scikit-learn's "scale" takes it."""

    def on(self, place: Any) -> Reduction:
        return self

    def __call__(self, A: Any, weights: Any = None) -> _Spread:
        (b, d), xp = A.shape, namespace(A)
        w = ones(b, A) if weights is None else cast(weights, np.float64)
        total = d * float(w.sum())
        mean = float(w @ _row_sums(A)) / total if total else 0.0
        if sparse.issparse(A):
            away = A.copy()
            away.data = (away.data.astype(np.float64) - mean) ** 2
            squares = _row_sums(away) + (d - np.diff(A.indptr)) * mean**2
            low, high = (np.asarray(end.todense()).ravel() for end in (A.min(0), A.max(0)))
        else:
            squares = _row_sums((A - mean) ** 2)
            low, high = xp.amin(A, axis=0), xp.amax(A, axis=0)
        return _Spread(total, mean, float(w @ squares), d, low, high)

    def combine(self, total: _Spread | None, part: _Spread) -> _Spread:
        if total is None:
            return part
        weight = total.weight + part.weight
        away = part.mean - total.mean
        share = part.weight / weight if weight else 0.0
        squares = total.squares + part.squares + away**2 * total.weight * share
        xp = namespace(part.low)
        ends = xp.minimum(total.low, part.low), xp.maximum(total.high, part.high)
        return _Spread(weight, total.mean + share * away, squares, total.d, *ends)


def _row_sums(A: Any) -> Any:
    sums = A.sum(axis=1, dtype=namespace(A).float64)
    return np.asarray(sums).ravel() if sparse.issparse(A) else sums


def _scale(unit: str, spread: _Spread) -> float:
    """Return the typical distance of rows whose d features have this variance."""
    check_total_weight(spread.weight)
    d, variance = spread.d, spread.squares / spread.weight
    length = d * float(np.sqrt(variance)) if unit == "manhattan" else d * variance
    widest = float((spread.high - spread.low).max()) if d else 0.0  # within a feature
    if length < np.finfo(np.float64).tiny and widest > 0.0:
        raise ValueError(
            f"X holds features that differ by no more than {widest:.3g}, whose squares "
            "underflow. Scale the features, for instance with scikit-learn's StandardScaler."
        )
    return float(np.sqrt(length)) if unit == "euclidean" else length


def _median(unit: str, sample: Any, weights: np.ndarray | None) -> float:
    """Return the median distance of different rows; twice that of squared ones."""
    if unit == "manhattan":
        return median_of_pairs(manhattan(sample, sample), weights)
    squared = 2.0 * median_of_pairs(SquaredDistances(sample, snap=True)(sample), weights)
    return squared if unit == "squared" else float(np.sqrt(squared))


# Kernels of distances ---------------------------------------------------------------------------


class DistanceKernel(WithGamma, VectorKernel):
    """A kernel of the distance alone: k(x, x) = 1."""

    runs_on_device = True
    #: whether its distance adds up features, so that a rotation changes its nature
    adds_features = False

    @property
    def normalized(self) -> bool:
        return True

    def diag(self, A: Any) -> Any:
        self._width()
        return ones(n_rows(A), A)


class RadialKernel(DistanceKernel):
    """A kernel of the Euclidean distance: dk(a, b)/da = slopes(a, b) (a - b)."""

    @abstractmethod
    def slopes(self, B: Any) -> Callable[[Any], Any]:
        """Return A -> k'(r)/r, shape (b, m), where r is the distance; zero where r is zero."""

    def gradients(self, B: Any, coef: Any) -> Callable[[Any], Any]:
        """Return A -> gradients of the q functions f(x) = sum_j coef_j k(x, b_j).

        Parameters
        ----------
        B : array, tensor or CSR matrix of shape (m, d)
        coef : array or tensor of shape (m, q)

        Returns
        -------
        gradients : callable
            From rows A, (b, d), to an array of shape (b, q, d).
        """
        # sum_j c_j s_j (a - b_j) = a (S c) - S (c b): one product S [c b, c], about the mean of B
        slopes, (m, d), q = self.slopes(B), B.shape, coef.shape[1]
        if sparse.issparse(B):
            return self._sparse_gradients(slopes, B, coef)
        centre = B.mean(axis=0)
        right = empty((m, q, d + 1), B, np.float64)
        right[:, :, :d] = coef[:, :, None] * cast(B - centre, np.float64)[:, None, :]
        right[:, :, d] = coef
        right = cast(right.reshape(m, q * (d + 1)), float_dtype(B))

        def of_block(A: Any) -> Any:
            sums = (slopes(A) @ right).reshape(n_rows(A), q, d + 1)
            return sums[:, :, d:] * (A - centre)[:, None, :] - sums[:, :, :d]

        return of_block

    @staticmethod
    def _sparse_gradients(slopes: Any, B: Any, coef: np.ndarray) -> Callable[[Any], Any]:
        right = [(sparse.diags_array(c) @ B).tocsr() for c in coef.T]

        def of_block(A: Any) -> np.ndarray:
            S = slopes(A)
            sums, dense = S @ coef, A.toarray()
            parts = [s[:, None] * dense - S @ C for s, C in zip(sums.T, right, strict=True)]
            return np.stack(parts, axis=1)

        return of_block


class Gaussian(RadialKernel):
    """k(x, x') = exp(-gamma ||x - x'||^2).

    Parameters
    ----------
    gamma : float, "scale" or "median", default "scale"
        "scale" is 1/(d var), as in scikit-learn; "median" is 1/(2 median squared distance). Both
        are resolved from the training rows at fit.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Gaussian
    >>> Gaussian(gamma=0.5)(np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    def __init__(self, gamma: float | str = "scale") -> None:
        self.gamma = gamma

    def against(self, B: Any) -> Block:
        # A -> -gamma ||a - b||^2
        exponent = SquaredDistances(B, factor=-self._width(), over=True, saturates=True)

        def block(A: Any, out: Any = None) -> Any:
            K = exponent(A, out)
            return namespace(A).exp(K, out=K)

        return block

    def slopes(self, B: Any) -> Callable[[Any], Any]:
        block = self.against(B)
        return lambda A: -2.0 * self._width() * block(A)

    def waves(self, normal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return draws of its spectral measure, N(0, 2 gamma I), from standard normal columns."""
        return np.sqrt(2.0 * self._width()) * normal


# The median distance, by which widths such as gamma="median" are found ----------------------------


def some_positions(
    n: int, rng: np.random.Generator, weights: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the positions of at most _MEDIAN_ROWS rows, and their weights; none without weight."""
    if weights is None:
        index = np.arange(n)
    else:
        weights = np.asarray(weights, dtype=np.float64)
        check_total_weight(weights.sum())
        index = np.flatnonzero(weights)
        weights = weights[index] if np.ptp(weights[index]) > 0 else None
    if len(index) > _MEDIAN_ROWS and weights is None:
        index = np.sort(rng.choice(index, _MEDIAN_ROWS, replace=False))
    elif len(index) > _MEDIAN_ROWS:  # drawn by weight, each counts as often as it was drawn
        drawn = rng.choice(len(index), _MEDIAN_ROWS, p=weights / weights.sum())
        drawn, weights = np.unique(drawn, return_counts=True)
        index = index[drawn]
    return index, weights


def median_of_pairs(distances: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the median distance between different rows.

    A weight of two counts as a row that is there twice: a pair has the product of its weights.
    """
    i, j = np.triu_indices(len(distances), k=1)
    pairs = distances[i, j]
    apart = pairs > 0
    pairs = pairs[apart]
    if len(pairs) == 0:
        return 0.0
    if weights is None:
        return float(np.median(pairs))
    order = np.argsort(pairs)
    shares = np.cumsum((weights[i] * weights[j])[apart][order])
    # the mean of the two in the middle, which are one but for a tie
    middle = np.searchsorted(shares, 0.5 * shares[-1], side="left")
    after = np.searchsorted(shares, 0.5 * shares[-1], side="right")
    return float(0.5 * (pairs[order[middle]] + pairs[order[after]]))
