"""Kernels from kernels: normalized, of what a function makes of objects, learned sums."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike
from scipy.optimize import nnls

from .._numerics import arrays
from .._numerics.arrays import float_dtype, n_rows, row_slices, take
from .._numerics.linalg import symmetric_eigen
from .._numerics.objects import Rows as ObjectRows
from .._numerics.objects import moved, stack
from .._numerics.typing import Array, Index, Objects, RandomState, Rng, Rows, Weights
from .._numerics.validation import check_number, check_rng
from ..rows import Survey
from .base import Block, Kernel, KernelLike, Resolved, Scaled, Wrapper, as_kernel

# Rows of a kernel matrix that are computed at a time; any number of this size serves.
_ROWS = 512
# A kernel matrix that centering makes this much smaller is constant: double precision leaves about
# 1e-16 of it, times the number of rows.
_CONSTANT = 1e-10
# A small penalty, so that equal kernels get equal weights: without it nnls gives all to the first.
_RIDGE = 1e-8
# Smaller shares of the combination, and smaller alignments, are rounding (of the penalty above).
_ROUNDING = 1e-7


class Normalized(Wrapper):
    """Normalized kernel k(a, b) / sqrt(k(a, a) k(b, b)).

    An object of norm zero is taken as alike to objects of norm zero and to nothing else, so that
    k(y, y) = 1 holds for every y.

    Parameters
    ----------
    kernel : kernel, str or callable
        The kernel that is normalized.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Linear, Normalized
    >>> Normalized(Linear())(np.array([[3.0, 0.0], [5.0, 0.0], [0.0, 0.0]]))
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """

    normalized = True

    def __init__(self, kernel: KernelLike) -> None:
        self.kernel = kernel

    def against(self, B: Rows) -> Block:
        kernel = self._part("kernel")
        base = kernel.against(B)
        right, right_zero = _inverse_norms(kernel.diag(B))
        any_zero = bool(right_zero.any())

        def block(A: Rows, out: Array | None = None) -> Array:
            K: Array = base(A, out)
            left, left_zero = _inverse_norms(kernel.diag(A))
            K *= arrays.cast(left[:, None], K.dtype)
            K *= arrays.cast(right, K.dtype)
            if any_zero and left_zero.any():
                K[left_zero[:, None] & right_zero] = 1.0
            return K

        return block

    def diag(self, A: Rows) -> Array:
        return arrays.ones(n_rows(A), A)


def _inverse_norms(diagonal: Array) -> tuple[Array, Array]:
    """Return (1/sqrt(diagonal), 0 where it is 0) and the mask of the zeros."""
    xp, zero = arrays.namespace(diagonal), diagonal <= 0
    return xp.where(zero, 0.0, 1.0 / xp.sqrt(xp.where(zero, 1.0, diagonal))), zero


class Images(ObjectRows):
    """The encoded rows of `Mapped`, to whose objects the function has been applied already."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.dtype: np.dtype = float_dtype(rows) if arrays.is_float(rows) else np.dtype(object)

    def __len__(self) -> int:
        return n_rows(self.rows)

    def __getitem__(self, index: Index) -> Self:
        return type(self)(self.rows[index])

    @property
    def held(self) -> Any:
        return getattr(self.rows, "held", self.rows)

    def moved(self, move: Callable[[Array], Array]) -> Self:
        return type(self)(moved(self.rows, move))

    def keys(self) -> Sequence[Hashable]:
        return arrays.row_keys(self.rows)

    def astype(self, dtype: DTypeLike, copy: bool = True) -> Self:
        return type(self)(arrays.astype(self.rows, dtype))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        return cls(stack([part.rows for part in parts]))


class Mapped(Wrapper):
    """Kernel of what a function makes of objects, kernel(function(a), function(b)).

    Parameters
    ----------
    function : callable
        Takes a list or array of objects and returns what the kernel encodes, one for each. It must
        look at each object by itself. Use a function of a module, not a lambda, to pickle models.
    kernel : kernel, str or callable
        Of what the function returns.

    Examples
    --------
    >>> from skout.kernels import Gaussian, Mapped
    >>> def lengths(words):
    ...     return [[float(len(word))] for word in words]
    >>> Mapped(lengths, Gaussian(1.0))(["ab", "cd", "xyz"]).round(2)
    array([[1.  , 1.  , 0.37],
           [1.  , 1.  , 0.37],
           [0.37, 0.37, 1.  ]])
    """

    takes_vectors = False
    compares = "objects"

    def __init__(self, function: Callable[[Any], Objects], kernel: KernelLike) -> None:
        self.function = function
        self.kernel = kernel

    def encode(self, objects: Objects) -> Images:
        """Apply the function to the objects, and encode the result."""
        if isinstance(objects, Images):
            return objects
        rows = self._part("kernel").encode(self.function(objects))
        if n_rows(rows) != n_rows(objects):
            raise ValueError(
                f"The function of Mapped made {n_rows(rows)} rows of {n_rows(objects)} objects; it "
                "must make one of each."
            )
        return Images(rows)

    def surveyed(self, survey: Survey, rng: Rng, weights: Weights = None) -> Resolved:
        image = self._part("kernel").surveyed(survey.part("rows"), rng, weights)
        return lambda: Mapped(self.function, image())

    def against(self, B: Images) -> Block:
        base = self._part("kernel").against(B.rows)
        return lambda A, out=None: base(A.rows, out)

    def diag(self, A: Images) -> np.ndarray:
        return self._part("kernel").diag(A.rows)


def align(
    kernels: Sequence[KernelLike],
    X: Objects,
    Y: Objects,
    *,
    output_kernel: KernelLike = "linear",
    n_samples: int = 2000,
    random_state: RandomState = None,
) -> Kernel:
    """Return a weighted sum of kernels that is aligned with the output kernel (ALIGNF).

    The weights mu >= 0, ||mu|| = 1, maximize the alignment of the centered kernel matrix of sum_k
    mu_k kernel_k on X with that of the output kernel on Y, i.e. the cosine of the angle between
    them (Cortes, Mohri and Rostamizadeh 2012).

    Parameters
    ----------
    kernels : sequence of kernels or names
        On X. A parameter that depends on data, such as gamma="scale", is resolved on the sample.
    X : objects that all the kernels encode
        Inputs, n of them.
    Y : objects that the output kernel encodes, one for each of X
        Outputs.
    output_kernel : kernel, name or callable, default "linear"
        On Y.
    n_samples : int, default 2000
        If there are more rows, as many are drawn, without replacement. Time and memory are of the
        order of n_samples^2 for each kernel.
    random_state : None, int or Generator, default None
        Seed of the sample.

    Returns
    -------
    kernel : Kernel
        An ordinary sum of scaled kernels; the weights are their `factor`. Kernels of weight zero
        are left out, so is a kernel that is constant on the sample. Kernels that are multiples of
        each other share their weight.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Gaussian, Linear, align
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> align([Linear(), Gaussian(0.5)], X, X @ [[1.0], [2.0], [3.0]])
    Scaled(factor=1.0, kernel=Linear())
    """
    if not isinstance(kernels, Sequence) or isinstance(kernels, str) or len(kernels) == 0:
        raise TypeError(f"kernels must be a non-empty list of kernels. Got {kernels!r} instead.")
    candidates = [as_kernel(kernel) for kernel in kernels]
    if n_rows(X) != n_rows(Y):
        raise ValueError(f"X and Y must be of equal length. Got {n_rows(X)} and {n_rows(Y)}.")
    rng, n = check_rng(random_state), n_rows(X)
    check_number(n_samples, "n_samples", low=2, integer=True)
    if n < 2:
        raise ValueError(f"Alignment needs at least two rows. Got {n}.")
    index = np.sort(rng.choice(n, n_samples, replace=False)) if n > n_samples else np.arange(n)
    _, target, norm = _centered_gram(as_kernel(output_kernel), take(Y, index), rng)
    if norm == 0.0:
        raise ValueError(
            f"The output kernel {output_kernel!r} is constant on the sample: all outputs are the "
            "same to it, and no kernel is better than another."
        )
    resolved, matrices, norms = zip(
        *(_centered_gram(kernel, take(X, index), rng) for kernel in candidates), strict=True
    )
    shares = _shares(matrices, target)
    # shares are of matrices of norm 1
    weights = np.array([s / n if s > 0.0 else 0.0 for s, n in zip(shares, norms, strict=True)])
    weights /= np.sqrt(np.sum(weights**2))
    parts = [Scaled(float(w), kernel) for w, kernel in zip(weights, resolved, strict=True) if w > 0]
    return functools.reduce(operator.add, parts)


def _centered_gram(kernel: Kernel, objects: Objects, rng: Rng) -> tuple[Kernel, np.ndarray, float]:
    """Return the kernel resolved on objects, H K H / ||H K H|| with H = I - 11'/n, and the norm.

    Matrix and norm of a constant kernel are zero.
    """
    rows = kernel.encode(objects)
    kernel, n = kernel.resolve(rows, rng), n_rows(rows)
    block = kernel.against(rows)
    K = np.concatenate([block(take(rows, part)) for part in row_slices(n, _ROWS)])
    K = K.astype(np.float64, copy=False)
    size = np.sqrt(np.vdot(K, K))
    K -= K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    norm = float(np.sqrt(np.vdot(K, K)))
    if norm <= _CONSTANT * size:
        return kernel, np.zeros_like(K), 0.0
    K /= norm
    return kernel, K, norm


def _shares(matrices: Sequence[np.ndarray], target: np.ndarray) -> np.ndarray:
    """Return v >= 0 that minimizes ||sum_k v_k K_k - target||^2, of matrices of norm 1 or 0."""
    M = np.array([[np.vdot(K, L) for L in matrices] for K in matrices])
    a = np.array([np.vdot(K, target) for K in matrices])
    if a.max() <= _ROUNDING:
        raise ValueError(
            "None of the kernels is aligned with the output kernel: on the sample, likeness of X "
            "says nothing about likeness of Y. Give other kernels, or check that the rows of X and "
            "Y belong together."
        )
    # v' M v - 2 v' a = ||A v - b||^2 + constant with A = D^(1/2) U', b = D^(-1/2) U' a
    values, vectors = symmetric_eigen(M)
    keep = values > _CONSTANT * values.max()
    root = np.sqrt(values[keep])
    A = root[:, None] * vectors[:, keep].T
    b = (vectors[:, keep].T @ a) / root
    p = len(a)
    v, _ = nnls(np.vstack([A, np.sqrt(_RIDGE) * np.eye(p)]), np.concatenate([b, np.zeros(p)]))
    return np.where(v > _ROUNDING * v.max(), v, 0.0)
