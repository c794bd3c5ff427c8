"""Kernels on vectors, dense or CSR, float32 or float64."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics.pairwise import manhattan_distances

from .._arrays import RightOperand, float_dtype, n_rows, row_slices
from .._validation import check_choice, check_matrix, check_number
from .base import Block, Kernel
from .packed import pack_objects, set_blocks

__all__ = ["Cosine", "Gaussian", "Laplacian", "Linear", "Matern", "Polynomial", "VectorKernel"]

# "median" looks at this many rows; more would not change the bandwidth.
_MEDIAN_ROWS = 1000
# "scale" reads the data this many rows at a time.
_VARIANCE_ROWS = 8192


class VectorKernel(Kernel):
    """Base of the kernels on real vectors."""

    def encode(self, objects: Any) -> Any:
        """Return a finite dense or CSR matrix of float32 or float64."""
        return check_matrix(objects)


def _squared_norms(A: Any) -> np.ndarray:
    """Return ||a||^2 of each row, in the dtype of A."""
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)


def block_buffer(A: Any, m: int, out: np.ndarray | None) -> np.ndarray:
    """Return `out`, or a new (b, m) block in the precision of A."""
    return np.empty((n_rows(A), m), dtype=float_dtype(A)) if out is None else out


class _SquaredDistances:
    """Squared Euclidean distances to fixed rows B, times a factor, by one matrix product.

    Dense rows are centred on the mean of B, which distances do not see and rounding does, and the
    norms ride along as two more columns: factor ||a - b||^2 = [a, ||a||^2, 1] . [-2b, 1, ||b||^2].
    Rounding may make them slightly negative; two ways out: with `snap`, distances that cannot be
    told from rounding are zero; with `over`, float64 norms are raised by more than the product can
    err, by about d eps, and need no second pass over the block.
    """

    def __init__(
        self, B: Any, factor: float = 1.0, *, snap: bool = False, over: bool = False
    ) -> None:
        self.B, self.factor, self.snap, self.over = B, factor, snap, over
        self.sparse = sparse.issparse(B)
        self._cast: dict[Any, tuple[np.ndarray, np.ndarray]] = {}
        if self.sparse:
            self.operand = RightOperand(B)
            self.norms = _squared_norms(B)
            return
        B = B.astype(np.float64)
        mean = B.mean(axis=0) if len(B) else np.zeros(B.shape[1])
        # a number of both precisions, so that blocks of either subtract the same
        self.centre = mean.astype(np.float32).astype(np.float64)
        B = B - self.centre
        self.norms = _squared_norms(B)
        columns = [-2.0 * B, np.ones((len(B), 1)), self.norms[:, None]]
        self.right = np.ascontiguousarray((factor * np.hstack(columns)).T)

    def __call__(self, A: Any, out: np.ndarray | None = None) -> np.ndarray:
        """Return factor * ||a - b||^2."""
        if sparse.issparse(A) and not self.sparse:
            return self._sparse_twin(A, out)
        out = block_buffer(A, n_rows(self.B), out)
        norms = self._product(A, out)
        if self.snap:
            noise = 32.0 * np.finfo(out.dtype).eps * np.add.outer(norms, self.norms)
            out[np.abs(out) <= abs(self.factor) * noise] = 0.0
        return out

    @functools.cached_property
    def _sparse_twin(self) -> _SquaredDistances:
        return _SquaredDistances(sparse.csr_matrix(self.B), self.factor, snap=self.snap)

    def may_err_in_sign(self, A: Any, dtype: np.dtype) -> bool:
        """Return whether the result may have the wrong sign by rounding."""
        is_sparse = self.sparse or sparse.issparse(A)
        return not self.snap and (is_sparse or not self.over or dtype != np.float64)

    def _product(self, A: Any, out: np.ndarray) -> np.ndarray:
        """Fill `out` and return the squared norms of A."""
        if self.sparse:
            norms = _squared_norms(A)
            self.operand.product(A, out)
            out *= out.dtype.type(-2.0 * self.factor)
            out += (self.factor * norms)[:, None].astype(out.dtype)
            out += (self.factor * self.norms).astype(out.dtype)
            return norms
        centre, right = self._in(out.dtype)
        augmented = np.empty((A.shape[0], A.shape[1] + 2), dtype=out.dtype)
        centred, norms = augmented[:, :-2], augmented[:, -2]
        np.subtract(A, centre, out=centred)
        np.einsum("ij,ij->i", centred, centred, out=norms)
        augmented[:, -1] = 1.0
        np.matmul(augmented, right, out=out)
        return norms

    def _in(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        if dtype not in self._cast:
            right = self.right.astype(dtype)
            if self.over and dtype == np.float64:
                right[-2:] *= 1.0 + len(right) * np.finfo(np.float64).eps
            self._cast[dtype] = (self.centre.astype(dtype), right)
        return self._cast[dtype]


class _WithGamma(VectorKernel):
    """A kernel with a width gamma: a number, "scale" or "median"."""

    gamma: float | str
    #: What gamma is one over: "squared" (Euclidean distance), "euclidean" or "manhattan".
    unit: str = "squared"

    def resolve(
        self, rows: Any, rng: np.random.Generator, weights: np.ndarray | None = None
    ) -> Kernel:
        resolved = clone(self)
        if isinstance(self.gamma, str):
            check_choice(self.gamma, "gamma", ("scale", "median"))
            if self.gamma == "scale":
                length = _scale(self.unit, rows.shape[1], _variance(rows, weights))
            else:
                length = _median(self.unit, _some_rows(rows, rng, weights))
            # constant data: every width gives the same kernel
            resolved.set_params(gamma=1.0 / length if 0 < length < np.inf else 1.0)
        resolved._width()
        return resolved

    def _width(self) -> float:
        if isinstance(self.gamma, str):
            raise ValueError(
                f"gamma={self.gamma!r} depends on the data: fit an estimator with this kernel, or "
                "call kernel.resolve(X, rng) first."
            )
        return float(check_number(self.gamma, "gamma"))


def _variance(rows: Any, weights: np.ndarray | None) -> float:
    """Return the variance of all the numbers in the rows, as scikit-learn's "scale" does."""
    n, d = rows.shape
    weights = np.ones(n) if weights is None else weights
    slices = list(row_slices(n, _VARIANCE_ROWS))

    def mean_of(function: Callable[[Any], Any]) -> float:
        sums = (float(weights[some] @ function(rows[some])) for some in slices)
        return sum(sums) / float(d * weights.sum())

    mean = mean_of(lambda A: np.asarray(A.sum(axis=1, dtype=np.float64)).ravel())
    if not sparse.issparse(rows):
        return mean_of(lambda A: ((A - mean) ** 2).sum(axis=1, dtype=np.float64))
    squares = mean_of(lambda A: np.asarray(A.multiply(A).sum(axis=1, dtype=np.float64)).ravel())
    return squares - mean**2


def _some_rows(rows: Any, rng: np.random.Generator, weights: np.ndarray | None) -> Any:
    """Return at most _MEDIAN_ROWS rows that have weight, in float64."""
    index = np.arange(n_rows(rows)) if weights is None else np.flatnonzero(weights)
    if len(index) > _MEDIAN_ROWS:
        index = np.sort(rng.choice(index, _MEDIAN_ROWS, replace=False))
    return rows[index].astype(np.float64)


def _scale(unit: str, d: int, variance: float) -> float:
    """Return the typical distance of rows whose d features have this variance."""
    if unit == "squared":
        return d * variance
    return float(np.sqrt(d * variance) if unit == "euclidean" else d * np.sqrt(variance))


def _median(unit: str, sample: Any) -> float:
    """Return the median distance of different rows; twice that of squared ones."""
    if unit == "manhattan":
        return _median_of_pairs(_manhattan(sample, sample))
    squared = 2.0 * _median_of_pairs(_SquaredDistances(sample, snap=True)(sample))
    return squared if unit == "squared" else float(np.sqrt(squared))


def _median_of_pairs(distances: np.ndarray) -> float:
    """Return the median distance between different rows."""
    pairs = distances[np.triu_indices(len(distances), k=1)]
    pairs = pairs[pairs > 0]
    return float(np.median(pairs)) if len(pairs) else 0.0


class Linear(VectorKernel):
    """k(x, x') = x . x'.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Linear
    >>> Linear()(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[ 5., 11.],
           [11., 25.]])
    """

    def against(self, B: Any) -> Block:
        right = RightOperand(B)

        def block(A: Any, out: np.ndarray | None = None) -> np.ndarray:
            return right.product(A, out)

        return block

    def diag(self, A: Any) -> np.ndarray:
        return _squared_norms(A).astype(np.float64)


class Polynomial(_WithGamma):
    """k(x, x') = (gamma x . x' + coef0)^degree.

    Parameters
    ----------
    degree : int, default 3
    gamma : float, "scale" or "median", default "scale"
    coef0 : float, default 1.0
        Non-negative, so that the kernel is positive semi-definite.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Polynomial
    >>> float(Polynomial(degree=2, gamma=1.0, coef0=1.0)(np.array([[1.0, 1.0]]))[0, 0])
    9.0
    """

    def __init__(self, degree: int = 3, gamma: float | str = "scale", coef0: float = 1.0) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def _power(self, K: np.ndarray) -> np.ndarray:
        check_number(self.degree, "degree", low=1, integer=True)
        check_number(self.coef0, "coef0")
        K *= K.dtype.type(self._width())
        K += K.dtype.type(self.coef0)
        return np.power(K, self.degree, out=K)

    def against(self, B: Any) -> Block:
        linear = Linear().against(B)

        def block(A: Any, out: np.ndarray | None = None) -> np.ndarray:
            return self._power(linear(A, out))

        return block

    def diag(self, A: Any) -> np.ndarray:
        return self._power(Linear().diag(A))


class _Distance(_WithGamma):
    """A kernel of the distance alone: k(x, x) = 1."""

    @property
    def normalized(self) -> bool:
        return True

    def diag(self, A: Any) -> np.ndarray:
        self._width()
        return np.ones(n_rows(A))


class Gaussian(_Distance):
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
        exponent = _SquaredDistances(B, factor=-self._width(), over=True)

        def block(A: Any, out: np.ndarray | None = None) -> np.ndarray:
            K = exponent(A, out)
            if exponent.may_err_in_sign(A, K.dtype):
                np.minimum(K, 0.0, out=K)
            return np.exp(K, out=K)

        return block


class Laplacian(_Distance):
    """k(x, x') = exp(-gamma ||x - x'||_1).

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

    def __init__(self, gamma: float | str = "scale") -> None:
        self.gamma = gamma

    def against(self, B: Any) -> Block:
        gamma = self._width()

        def block(A: Any, out: np.ndarray | None = None) -> np.ndarray:
            out = block_buffer(A, n_rows(B), out)
            np.multiply(_manhattan(A, B), -gamma, out=out, casting="same_kind")
            return np.exp(out, out=out)

        return block


def _manhattan(A: Any, B: Any) -> np.ndarray:
    """Return L1 distances."""
    if not (n_rows(A) and n_rows(B)):
        return np.zeros((n_rows(A), n_rows(B)))
    if sparse.issparse(A) or sparse.issparse(B):
        return manhattan_distances(sparse.csr_matrix(A), sparse.csr_matrix(B))
    return cdist(A, B, "cityblock")


class Matern(_Distance):
    """Matern kernel of the Euclidean distance r, with u = sqrt(2 nu) gamma r.

    exp(-u) for nu = 0.5, (1 + u) exp(-u) for 1.5, (1 + u + u^2/3) exp(-u) for 2.5. gamma is one
    over the length scale of scikit-learn's Matern.

    Parameters
    ----------
    gamma : float, "scale" or "median", default "scale"
        "scale" is 1/sqrt(d var), "median" is 1/sqrt(2 median squared distance).
    nu : 0.5, 1.5 or 2.5, default 1.5

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

    def against(self, B: Any) -> Block:
        check_choice(self.nu, "nu", (0.5, 1.5, 2.5))
        squared = _SquaredDistances(B, factor=2.0 * self.nu * self._width() ** 2, snap=True)

        def block(A: Any, out: np.ndarray | None = None) -> np.ndarray:
            U = squared(A, out)
            np.sqrt(np.maximum(U, 0.0, out=U), out=U)
            decay = np.exp(-U)
            if self.nu == 0.5:
                U[...] = 1.0
            elif self.nu == 1.5:
                U += 1.0
            else:
                U += 1.0 + U * U / U.dtype.type(3.0)
            U *= decay
            return U

        return block


def _cosine(common: Any, a: Any, b: Any) -> tuple[Any, Any]:
    return common, np.sqrt(a * b)


class Cosine(VectorKernel):
    """k(x, x') = x . x' / (||x|| ||x'||); a zero vector is alike to zero vectors alone.

    Fingerprints may be given as `PackedBits`, bit vectors or hex strings, as for `Tanimoto`.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Cosine
    >>> float(Cosine()(np.array([[1.0, 0.0]]), np.array([[1.0, 1.0]]))[0, 0].round(4))
    0.7071
    """

    @property
    def normalized(self) -> bool:
        return True

    def encode(self, objects: Any) -> Any:
        """Return a finite dense or CSR matrix of float32 or float64; bits stay packed."""
        packed = pack_objects(objects)
        return super().encode(objects) if packed is None else packed

    def against(self, B: Any) -> Block:
        return set_blocks(_cosine, B, self._of_matrix)

    def _of_matrix(self, B: Any) -> Block:
        unit, zero = _unit_rows(B)
        linear = Linear().against(unit)

        def block(A: Any, out: np.ndarray | None = None) -> np.ndarray:
            unit_a, zero_a = _unit_rows(A)
            K = linear(unit_a, out)
            if zero_a.any() and zero.any():
                K[np.ix_(zero_a, zero)] = 1.0
            return K

        return block

    def diag(self, A: Any) -> np.ndarray:
        return np.ones(n_rows(A))


def _unit_rows(A: Any) -> tuple[Any, np.ndarray]:
    """Return the rows divided by their norms, and the mask of the zero rows."""
    norms = np.sqrt(_squared_norms(A))
    zero = norms == 0
    scale = (1.0 / np.where(zero, 1.0, norms)).astype(float_dtype(A))
    if sparse.issparse(A):
        return sparse.diags_array(scale) @ A, zero
    return A * scale[:, None], zero
