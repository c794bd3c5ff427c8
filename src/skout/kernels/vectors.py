"""Kernels on vectors: their distances and widths; Gaussian, Laplacian, Matern, linear, polynomial.

Vectors are dense or CSR, float32 or float64. The width of a kernel is one over a distance.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn import get_config
from sklearn.base import clone

from .._numerics import arrays
from .._numerics.arrays import float_dtype, is_tensor, n_rows, namespace, row_dots
from .._numerics.typing import Array, Objects, Rng, Rows, SparseMatrix, VectorRows, Weights
from .._numerics.validation import check_choice, check_number, check_squares, check_total_weight
from ..rows import Place, Reduction, Survey
from ..rows.encode import check_matrix
from .base import Block, Kernel, Resolved, RowFunction

# Rows that a median distance is taken over: half a million pairs. From sample to sample it varies
# by 1 % for normal numbers in 10 columns and by 4 % for lognormal ones; of twice as many rows by 1
# and 2.
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

    def encode(self, objects: Objects) -> Rows:
        """Return a finite dense or CSR matrix of float32 or float64."""
        rows: Any = objects
        if sparse.issparse(rows):
            is_matrix = rows.format == "csr" and rows.has_canonical_format
        else:
            is_matrix = type(rows) is np.ndarray and rows.ndim == 2
        # what an estimator has checked is not checked again: then scikit-learn may assume_finite
        is_checked = get_config()["assume_finite"] and is_matrix and rows.shape[1] > 0
        if not is_checked or rows.dtype not in (np.float64, np.float32):
            rows = check_matrix(objects)
        check_squares(rows, "objects")
        encoded: Rows = rows
        return encoded


def block_buffer(A: Rows, m: int, out: Array | None) -> Array:
    """Return `out`, or a new (b, m) block in the precision of A."""
    return arrays.empty((n_rows(A), m), A, float_dtype(A)) if out is None else out


def squared_norms(A: Array) -> Array:
    """Return ||a||^2 of each row, in the dtype of A."""
    if sparse.issparse(A):
        row = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        squares = A.data.astype(np.float64) ** 2
        return np.bincount(row, squares, minlength=A.shape[0]).astype(A.dtype)
    return row_dots(A, A)


# The median of B is taken over so many rows, or up to twice as many, a convention. It is the center
# where the mean is farther from it than ten times (in squares: 100) a typical row: there the mean
# would cost more than two digits.
_CENTER_ROWS, _FAR = 31, 100.0
# CSR rows with at least this share of entries are treated as dense, which take hardly more memory.
_FILLED = 0.5
# Differences that the L1 distance of tensors holds at a time: 1 GiB in double precision.
_DIFFERENCES = 2**27
# What a factor times squared norms may reach: exp of minus that is 0, and products do not overflow.
_LARGE = {np.dtype(np.float32): 1e18, np.dtype(np.float64): 1e200}


class SquaredDistances:
    """Squared Euclidean distances to fixed rows B, times a factor, by one matrix product.

    Dense rows are centered on the mean of B, which distances do not see and rounding does, and the
    norms are two more columns: factor ||a - b||^2 = [a, ||a||^2, 1] . [-2b, 1, ||b||^2].
    Rounding may make them slightly negative. With `snap`, distances within rounding of zero are
    zero. With `over`, no result has the wrong sign: norms in float64 are raised by more than the
    error of the product, about d eps, which needs no second pass; other blocks are clipped, and
    where the error exceeds a hundredth, `snap` is on. With `saturates`, large results need not be
    exact, and a factor that would make products overflow is lowered.
    """

    factor: float
    over: bool
    snap: bool

    def __init__(
        self,
        B: Array,
        factor: float = 1.0,
        *,
        snap: bool = False,
        over: bool = False,
        saturates: bool = False,
    ) -> None:
        # CSR rows that are hardly sparse are centered too, so their blocks become dense
        self.filled: bool = sparse.issparse(B) and bool(B.nnz >= _FILLED * B.shape[0] * B.shape[1])
        if self.filled and sparse.issparse(B):
            B = B.toarray()
        self.B, self.factor, self.snap, self.over = B, factor, snap, over
        self.saturates = saturates
        self.sparse: bool = sparse.issparse(B)
        self._cast: dict[np.dtype, tuple[Array, Array]] = {}  # center, right factor
        if self.sparse:
            self.operand: arrays.RightOperand = arrays.RightOperand(B)
            self.norms: Array = squared_norms(B)
        else:
            xp, B = namespace(B), arrays.cast(B, np.float64)
            center = _center(B) if len(B) else B.sum(axis=0)
            # a number of both precisions, so that blocks of either subtract the same
            with np.errstate(over="ignore"):
                rounded = arrays.cast(arrays.cast(center, np.float32), np.float64)
            self.center: Array = xp.where(xp.isfinite(rounded), rounded, center)
            B = B - self.center
            self.norms = squared_norms(B)
            self.right: Array = arrays.empty((B.shape[1] + 2, len(B)), B, np.float64)
            self.right[:-2] = -2.0 * B.T
            self.right[-2] = 1.0
            self.right[-1] = self.norms
        self.largest_norm: float = float(self.norms.max()) if len(self.norms) else 0.0
        if over:  # 32 eps bounds the error of the three terms; beyond 0.01, k(x, x) is not 1
            error = 32.0 * np.finfo(np.float64).eps * self.largest_norm * abs(factor)
            self.snap |= bool(error > 0.01)

    def __call__(self, A: Array, out: Array | None = None) -> Array:
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

    def _clip(self, out: Array) -> None:
        """Set results to zero that have the wrong sign by rounding."""
        ends = (None, 0.0) if self.factor < 0 else (0.0, None)
        if is_tensor(out):
            namespace(out).clip(out, *ends, out=out)
            return
        # few rows have such numbers: finding them is faster than writing all
        furthest = out.max(axis=1, initial=0.0) if self.factor < 0 else out.min(axis=1, initial=0.0)
        rows = furthest != 0.0  # NaN too
        out[rows] = np.clip(out[rows], *ends)

    def _noise(self, norms: Array, dtype: np.dtype) -> Array:
        """Return a bound on the rounding of the distances, given the squared norms of A."""
        unit = 32.0 * float(np.finfo(dtype).eps) * abs(self._factor_in(dtype))
        return (unit * norms)[:, None] + arrays.cast(unit * self.norms, dtype)

    def _factor_in(self, dtype: np.dtype) -> float:
        """Return the factor, lowered where products would overflow in this precision."""
        if not self.saturates or self.factor == 0.0:
            return self.factor
        # a thousandth of the largest number leaves room for sums
        limit, most = _LARGE[np.dtype(dtype)], 1e-3 * float(np.finfo(dtype).max)
        largest = max(limit / most, self.largest_norm)
        return self.factor * min(1.0, limit / largest / abs(self.factor))

    @functools.cached_property
    def _sparse_twin(self) -> SquaredDistances:
        return SquaredDistances(
            sparse.csr_matrix(self.B), self.factor, snap=self.snap, saturates=self.saturates
        )

    def _product(self, A: Array, out: Array) -> Array:
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
            right = arrays.cast(self._factor_in(dtype) * self.right, dtype)
            if self.over and dtype == np.float64:
                right[-2:] *= 1.0 + len(right) * np.finfo(np.float64).eps
            self._cast[dtype] = (arrays.cast(self.center, dtype), right)
        center, right = self._cast[dtype]
        augmented = arrays.empty((A.shape[0], A.shape[1] + 2), A, dtype)
        centered, norms = augmented[:, :-2], augmented[:, -2]
        xp.subtract(A, center, out=centered)
        row_dots(centered, centered, out=norms)
        augmented[:, -1] = 1.0
        xp.matmul(augmented, right, out=out)
        return norms


def _center(B: Array) -> Array:
    """Return the mean of the rows, or a median where a few far rows pull the mean away.

    Away from most rows, their distances would drown in the rounding of their norms.
    """
    mean: Array = B.mean(axis=0)
    sample = B[:: max(1, len(B) // _CENTER_ROWS)]
    middle = arrays.median(sample)
    spread = arrays.median(squared_norms(sample - middle))
    return middle if (mean - middle) @ (mean - middle) > _FAR * spread else mean


def _manhattan(A: Array, B: Array) -> Array:
    """Return L1 distances."""
    if is_tensor(A):
        size = max(1, _DIFFERENCES // max(1, B.shape[0] * B.shape[1]))
        B, torch = arrays.cast(B, A.dtype), namespace(A)
        return torch.cat([torch.cdist(part, B, p=1.0) for part in A.split(size)])
    if not (n_rows(A) and n_rows(B)):
        return np.zeros((n_rows(A), n_rows(B)))
    if sparse.issparse(A) or sparse.issparse(B):
        from sklearn.metrics.pairwise import manhattan_distances  # slow to import

        # its compiled loops take 32-bit indices alone, and sort rows in place: they are copied
        both = [sparse.csr_matrix(rows, copy=True) for rows in (A, B)]
        for rows in both:
            rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        distances: Array = manhattan_distances(*both)
    else:
        distances = cdist(A, B, "cityblock")
    return distances


# The width of a kernel: a number, or what the training rows say it should be ---------------------


class WithGamma(Kernel):
    """Base of the kernels with a width gamma: a number, "scale" or "median"."""

    gamma: float | str
    #: The distance that gamma is the inverse of: "squared" (Euclidean), "euclidean" or "manhattan".
    unit: str = "squared"
    #: The words that gamma may be.
    gammas: tuple[str, ...] = ("scale", "median")

    def surveyed(self, survey: Survey, rng: Rng, weights: Weights = None) -> Resolved:
        if not isinstance(self.gamma, str):
            return lambda: self._of_length(None)
        check_choice(self.gamma, "gamma", self.gammas)
        if self.gamma == "scale":
            spread = survey.reduce(_SpreadOfRows(), weights)
            return lambda: self._of_length(_scale(self.unit, spread()))
        index, sample_weights = sampled_positions(len(survey.source), rng, weights)
        sample = survey.take(index)
        return lambda: self._of_length(self._median_length(sample(), sample_weights))

    def _median_length(self, rows: Any, weights: np.ndarray | None) -> float:
        """Return the median distance between different rows; of squared distances, twice it."""
        rows = rows.astype(np.float64)
        if self.unit == "manhattan":
            return median_of_pairs(_manhattan(rows, rows), weights)
        squared = 2.0 * median_of_pairs(SquaredDistances(rows, snap=True)(rows), weights)
        return squared if self.unit == "squared" else float(np.sqrt(squared))

    def _of_length(self, length: float | None) -> Kernel:
        """Return a copy whose gamma is one over a length; None leaves gamma, a number."""
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
        if np.ndim(self.gamma):
            raise TypeError(
                f"gamma must be one number. Got {self.gamma!r}: a scale for each column is "
                f"Mahalanobis({type(self).__name__}(), scales), and LearnedMetric() learns them."
            )
        return float(check_number(self.gamma, "gamma"))


@dataclass(frozen=True)
class _Spread:
    """Mean and variance of the numbers in rows, which add up over blocks (Chan et al., 1979)."""

    weight: float  # numbers, each counted with the weight of its row
    mean: float
    squares: float  # weighted sum of (x - mean)^2
    d: int
    low: Array  # of each feature
    high: Array


class _SpreadOfRows(Reduction[_Spread]):
    """Sum over rows for the variance of all their numbers, as in scikit-learn's gamma="scale"."""

    def on(self, place: Place) -> Self:
        return self

    def __call__(self, A: Array, weights: Weights = None) -> _Spread:
        (b, d), xp = A.shape, namespace(A)
        w = arrays.ones(b, A) if weights is None else arrays.cast(weights, np.float64)
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


def _row_sums(A: Array) -> Array:
    sums: Array = A.sum(axis=1, dtype=namespace(A).float64)
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


# Kernels of distances ---------------------------------------------------------------------------


class DistanceKernel(WithGamma, VectorKernel):
    """Base of the kernels of the distance alone: k(x, x) = 1."""

    runs_on_device = True
    normalized = True
    #: whether its distance adds up features, so that a rotation changes its nature
    adds_features = False

    def diag(self, A: VectorRows) -> Array:
        self._width()
        return arrays.ones(n_rows(A), A)


class RadialKernel(DistanceKernel):
    """Base of the kernels of the Euclidean distance: dk(a, b)/da = slopes(a, b) (a - b)."""

    @abstractmethod
    def slopes(self, B: VectorRows) -> RowFunction:
        """Return A -> k'(r)/r, shape (b, m), where r is the distance; zero where r is zero."""

    def gradients(self, B: VectorRows, coef: Array) -> RowFunction:
        """Return A -> gradients at rows A of the q functions f(x) = sum_j coef_j k(x, b_j).

        Parameters
        ----------
        B : rows of shape (m, d)
        coef : array of shape (m, q)

        Returns
        -------
        gradients : callable
            From rows A of shape (b, d) to their gradients, shape (b, q, d).
        """
        # sum_j c_j s_j (a - b_j) = a (S c) - S (c b): one product S [c b, c], about the mean of B
        slopes, (m, d), q = self.slopes(B), B.shape, coef.shape[1]
        if sparse.issparse(B):
            return self._sparse_gradients(slopes, B, coef)
        center = B.mean(axis=0)
        right = arrays.empty((m, q, d + 1), B, np.float64)
        right[:, :, :d] = coef[:, :, None] * arrays.cast(B - center, np.float64)[:, None, :]
        right[:, :, d] = coef
        right = arrays.cast(right.reshape(m, q * (d + 1)), float_dtype(B))

        def of_block(A: Array) -> Array:
            sums = (slopes(A) @ right).reshape(n_rows(A), q, d + 1)
            gradients: Array = sums[:, :, d:] * (A - center)[:, None, :] - sums[:, :, :d]
            return gradients

        return of_block

    @staticmethod
    def _sparse_gradients(slopes: RowFunction, B: Array, coef: np.ndarray) -> RowFunction:
        right = [(sparse.diags_array(c) @ B).tocsr() for c in coef.T]

        def of_block(A: SparseMatrix) -> np.ndarray:
            S = slopes(A)
            sums, dense = S @ coef, A.toarray()
            parts = [s[:, None] * dense - S @ C for s, C in zip(sums.T, right, strict=True)]
            return np.stack(parts, axis=1)

        return of_block


class Gaussian(RadialKernel):
    """Gaussian kernel exp(-gamma ||x - x'||^2).

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

    def against(self, B: VectorRows) -> Block:
        # A -> -gamma ||a - b||^2
        exponent = SquaredDistances(B, factor=-self._width(), over=True, saturates=True)

        def block(A: Array, out: Array | None = None) -> Array:
            K = exponent(A, out)
            return namespace(A).exp(K, out=K)

        return block

    def slopes(self, B: VectorRows) -> RowFunction:
        block = self.against(B)
        return lambda A: -2.0 * self._width() * block(A)

    def waves(self, normal: np.ndarray, rng: Rng) -> np.ndarray:
        """Return draws of the spectral measure N(0, 2 gamma I), see `Fourier`.

        Parameters
        ----------
        normal : array of shape (d, q)
            Standard normal numbers, which become the draws.
        rng : numpy Generator
            For measures that need further draws; not used here.
        """
        draws: np.ndarray = np.sqrt(2.0 * self._width()) * normal
        return draws


# The median distance of gamma="median" ----------------------------------------------------------


def sampled_positions(n: int, rng: Rng, weights: Weights) -> tuple[np.ndarray, np.ndarray | None]:
    """Return positions of at most _MEDIAN_ROWS rows of positive weight, and their weights."""
    if weights is None:
        index = np.arange(n)
    else:
        weights = np.asarray(weights, dtype=np.float64)
        check_total_weight(weights.sum())
        index = np.flatnonzero(weights)
        weights = weights[index] if np.ptp(weights[index]) > 0 else None
    if len(index) > _MEDIAN_ROWS and weights is None:
        index = np.sort(rng.choice(index, _MEDIAN_ROWS, replace=False))
    elif len(index) > _MEDIAN_ROWS and weights is not None:
        # drawn by weight, each counts as often as it was drawn
        drawn = rng.choice(len(index), _MEDIAN_ROWS, p=weights / weights.sum())
        drawn, weights = np.unique(drawn, return_counts=True)
        index = index[drawn]
    return index, weights


def median_of_pairs(distances: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the median distance between different rows.

    A weight of two counts as a row that occurs twice: a pair has the product of its weights.
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


class Linear(VectorKernel):
    """Linear kernel x . x'.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Linear
    >>> Linear()(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[ 5., 11.],
           [11., 25.]])
    """

    runs_on_device = True
    is_linear = True

    def against(self, B: VectorRows) -> Block:
        return arrays.RightOperand(B).product

    def diag(self, A: VectorRows) -> Array:
        return arrays.cast(squared_norms(A), np.float64)


class Polynomial(WithGamma, VectorKernel):
    """Polynomial kernel (gamma x . x' + coef0)^degree.

    Parameters
    ----------
    degree : int, default 3
        Degree of the products of features.
    gamma : float, "scale" or "median", default "scale"
        "scale" is 1/(d var), "median" is 1/(2 median squared distance).
    coef0 : float, default 1.0
        Non-negative, so that the kernel is positive semi-definite.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Polynomial
    >>> float(Polynomial(degree=2, gamma=1.0, coef0=1.0)(np.array([[1.0, 1.0]]))[0, 0])
    9.0
    """

    runs_on_device = True

    def __init__(self, degree: int = 3, gamma: float | str = "scale", coef0: float = 1.0) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def _power(self, K: Array) -> Array:
        check_number(self.degree, "degree", low=1, integer=True)
        check_number(self.coef0, "coef0")
        K *= float(self._width())
        K += float(self.coef0)
        K **= int(self.degree)
        return K

    def against(self, B: VectorRows) -> Block:
        linear = Linear().against(B)

        def block(A: Array, out: Array | None = None) -> Array:
            return self._power(linear(A, out))

        return block

    def diag(self, A: VectorRows) -> Array:
        return self._power(Linear().diag(A))


class Laplacian(DistanceKernel):
    """Laplacian kernel exp(-gamma ||x - x'||_1).

    Parameters
    ----------
    gamma : float, "scale" or "median", default "scale"
        "scale" is 1/(d std), "median" is 1/(median L1 distance).

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Laplacian
    >>> float(Laplacian(gamma=1.0)(np.array([[0.0]]), np.array([[2.0]]))[0, 0].round(4))
    0.1353
    """

    unit = "manhattan"
    adds_features = True

    def __init__(self, gamma: float | str = "scale") -> None:
        self.gamma = gamma

    def against(self, B: VectorRows) -> Block:
        gamma = self._width()

        def block(A: Array, out: Array | None = None) -> Array:
            xp, out, distances = namespace(A), block_buffer(A, n_rows(B), out), _manhattan(A, B)
            finite = min(gamma, float(np.finfo(float_dtype(distances)).max))  # inf * 0 is NaN
            with np.errstate(over="ignore"):  # infinitely far
                xp.multiply(distances, -finite, out=out)
            return xp.exp(out, out=out)

        return block

    def waves(self, normal: np.ndarray, rng: Rng) -> np.ndarray:
        """Return draws of the spectral measure, Cauchy numbers times gamma: `Gaussian.waves`."""
        return self._width() * normal / rng.standard_normal(normal.shape)

    def gradients(self, B: VectorRows, coef: Array) -> RowFunction:
        """Return A -> gradients at rows A of sum_j coef_j k(., b_j), see `Gaussian.gradients`."""
        # dk(a, b)/da_i = -gamma sign(a_i - b_i) k(a, b)
        block, gamma, dense = self.against(B), self._width(), arrays.dense(B)
        coef = arrays.cast(coef, float_dtype(B))
        # rows W x of equal rows may differ by rounding, and have no sign then
        rounding = 64.0 * float(np.finfo(float_dtype(B)).eps) * float(abs(dense).max())

        def of_block(A: Array) -> Array:
            xp, K, A = namespace(A), block(A), arrays.dense(A)
            G = arrays.empty((len(A), coef.shape[1], A.shape[1]), A, float_dtype(A))
            for i in range(A.shape[1]):
                away = A[:, i, None] - dense[:, i]
                away[xp.abs(away) <= rounding] = 0.0
                G[:, :, i] = -gamma * (xp.sign(away) * K) @ coef
            return G

        return of_block


class Matern(RadialKernel):
    """Matern kernel of the Euclidean distance r, with u = sqrt(2 nu) gamma r.

    exp(-u) for nu = 0.5, (1 + u) exp(-u) for 1.5, (1 + u + u^2/3) exp(-u) for 2.5. gamma is one
    over the length scale of scikit-learn's Matern.

    Parameters
    ----------
    gamma : float, "scale" or "median", default "scale"
        "scale" is 1/sqrt(d var), "median" is 1/sqrt(2 median squared distance).
    nu : 0.5, 1.5 or 2.5, default 1.5
        Smoothness: 0.5 is for rough functions, 2.5 for ones with two derivatives.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Matern
    >>> float(Matern(gamma=1.0, nu=0.5)(np.array([[0.0]]), np.array([[2.0]]))[0, 0].round(4))
    0.1353
    """

    unit = "euclidean"

    def __init__(self, gamma: float | str = "scale", nu: float = 1.5) -> None:
        self.gamma = gamma
        self.nu = nu

    def _distances(self, B: Array) -> SquaredDistances:
        """Return A -> u^2."""
        check_choice(self.nu, "nu", (0.5, 1.5, 2.5))
        width = min(self._width(), 1e153)  # whose square is finite
        return SquaredDistances(B, factor=2.0 * self.nu * width**2, snap=True, saturates=True)

    def against(self, B: VectorRows) -> Block:
        squared = self._distances(B)

        def block(A: Array, out: Array | None = None) -> Array:
            xp, U = namespace(A), squared(A, out)
            xp.sqrt(xp.clip(U, 0.0, None, out=U), out=U)
            decay = xp.exp(-U)
            if self.nu == 0.5:
                U[...] = 1.0
            elif self.nu == 1.5:
                U += 1.0
            else:
                U += 1.0 + U * U / 3.0
            U *= decay
            return U

        return block

    def waves(self, normal: np.ndarray, rng: Rng) -> np.ndarray:
        """Return draws of the spectral measure, t of 2 nu degrees times gamma: `Gaussian.waves`."""
        check_choice(self.nu, "nu", (0.5, 1.5, 2.5))
        heavy = np.sqrt(2.0 * self.nu / rng.chisquare(2.0 * self.nu, normal.shape[1]))
        draws: np.ndarray = self._width() * normal * heavy
        return draws

    def slopes(self, B: VectorRows) -> RowFunction:
        # k'(r)/r = -2 nu gamma^2 exp(-u) times 1/u, 1 and (1 + u)/3
        squared, factor = self._distances(B), -2.0 * self.nu * self._width() ** 2

        def block(A: Array) -> Array:
            xp = namespace(A)
            U = xp.sqrt(xp.clip(squared(A), 0.0, None))
            S = factor * xp.exp(-U)
            if self.nu == 0.5:
                return xp.where(U > 0.0, S / xp.where(U > 0.0, U, 1.0), 0.0)
            return S if self.nu == 1.5 else S * (1.0 + U) / 3.0

        return block
