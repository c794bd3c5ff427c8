"""Kernels from kernels: normalised, of what a function makes of objects, learned sums."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Self

import numpy as np
from scipy.optimize import nnls

from .._numerics.arrays import (
    astype,
    cast,
    float_dtype,
    is_float,
    n_rows,
    namespace,
    ones,
    row_keys,
    row_slices,
    take,
)
from .._numerics.linalg import symmetric_eigen
from .._numerics.objects import Rows, moved, stack
from .._numerics.validation import check_number, check_rng
from ..rows import Survey
from .base import Block, Kernel, Scaled, _Wrapper, as_kernel

__all__ = ["Mapped", "Normalized", "align"]

# Rows of a kernel matrix that are computed at a time.
_ROWS = 512
# A kernel matrix that centring makes this much smaller is constant.
_CONSTANT = 1e-10
# A small penalty, so that equal kernels get equal weights.
_RIDGE = 1e-8
# Smaller shares of the combination, and smaller alignments, are rounding.
_ROUNDING = 1e-7


class Normalized(_Wrapper):
    """k(a, b) / sqrt(k(a, a) k(b, b)).

    An object of norm zero is taken as alike to objects of norm zero and to nothing else, so that
    k(y, y) = 1 holds for every y.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Linear, Normalized
    >>> Normalized(Linear())(np.array([[3.0, 0.0], [5.0, 0.0], [0.0, 0.0]]))
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    @property
    def normalized(self) -> bool:
        return True

    def against(self, B: Any) -> Block:
        kernel = self._part("kernel")
        base = kernel.against(B)
        right, right_zero = _inverse_norms(kernel.diag(B))
        any_zero = bool(right_zero.any())

        def block(A: Any, out: Any = None) -> Any:
            K = base(A, out)
            left, left_zero = _inverse_norms(kernel.diag(A))
            K *= cast(left[:, None], K.dtype)
            K *= cast(right, K.dtype)
            if any_zero and left_zero.any():
                K[left_zero[:, None] & right_zero] = 1.0
            return K

        return block

    def diag(self, A: Any) -> Any:
        return ones(n_rows(A), A)


def _inverse_norms(diagonal: Any) -> tuple[Any, Any]:
    """Return (1/sqrt(diagonal), 0 where it is 0) and the mask of the zeros."""
    xp, zero = namespace(diagonal), diagonal <= 0
    return xp.where(zero, 0.0, 1.0 / xp.sqrt(xp.where(zero, 1.0, diagonal))), zero


class Images(Rows):
    """What a function made of the objects, encoded: the function is not to be called again."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.dtype = float_dtype(rows) if is_float(rows) else np.dtype(object)

    def __len__(self) -> int:
        return n_rows(self.rows)

    def __getitem__(self, index: Any) -> Self:
        return type(self)(self.rows[index])

    @property
    def held(self) -> Any:
        return getattr(self.rows, "held", self.rows)

    def moved(self, move: Callable[[Any], Any]) -> Self:
        return type(self)(moved(self.rows, move))

    def keys(self) -> Sequence[Hashable]:
        return row_keys(self.rows)

    def astype(self, dtype: Any, copy: bool = True) -> Self:
        return type(self)(astype(self.rows, dtype))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        return cls(stack([part.rows for part in parts]))


class Mapped(_Wrapper):
    """k(a, b) = kernel(function(a), function(b)): objects stay objects, the kernel sees features.

    Parameters
    ----------
    function : callable
        Takes a list or array of objects and returns what the kernel encodes, one for each. It must
        look at each object by itself. Use a function of a module, not a lambda, to pickle models.
    kernel : kernel, str or callable

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

    def __init__(self, function: Callable[[Any], Any], kernel: Any) -> None:
        self.function = function
        self.kernel = kernel

    def encode(self, objects: Any) -> Images:
        """Call the function, and encode what it returns."""
        if isinstance(objects, Images):
            return objects
        rows = self._part("kernel").encode(self.function(objects))
        if n_rows(rows) != n_rows(objects):
            raise ValueError(
                f"The function of Mapped made {n_rows(rows)} rows of {n_rows(objects)} objects; it "
                "must make one of each."
            )
        return Images(rows)

    def surveyed(
        self, survey: Survey, rng: np.random.Generator, weights: Any = None
    ) -> Callable[[], Kernel]:
        image = self._part("kernel").surveyed(survey.part("rows"), rng, weights)
        return lambda: Mapped(self.function, image())

    def against(self, B: Any) -> Block:
        base = self._part("kernel").against(B.rows)
        return lambda A, out=None: base(A.rows, out)

    def diag(self, A: Any) -> np.ndarray:
        return self._part("kernel").diag(A.rows)


def align(
    kernels: Sequence[Any],
    X: Any,
    Y: Any,
    *,
    output_kernel: Any = "linear",
    n_samples: int = 2000,
    random_state: Any = None,
) -> Kernel:
    """Combine kernels so that objects are alike when their outputs are (ALIGNF).

    The weights mu >= 0, ||mu|| = 1, maximise the alignment of the centred kernel matrix of sum_k
    mu_k kernel_k on X with that of the output kernel on Y, i.e. the cosine of the angle between
    them (Cortes, Mohri and Rostamizadeh 2012).

    Parameters
    ----------
    kernels : sequence of kernels or names
        On X. A parameter that depends on data, such as gamma="scale", is resolved on the sample.
    X : objects that all the kernels encode
    Y : objects that the output kernel encodes, one for each of X
    output_kernel : kernel, name or callable, default "linear"
    n_samples : int, default 2000
        If there are more rows, as many are drawn, without replacement. Time and memory are of the
        order of n_samples^2 for each kernel.
    random_state : None, int or Generator

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
    kernels = _check_kernels(kernels)
    if n_rows(X) != n_rows(Y):
        raise ValueError(f"X and Y must be of equal length. Got {n_rows(X)} and {n_rows(Y)}.")
    rng = check_rng(random_state)
    index = _sample(n_rows(X), n_samples, rng)
    target, norm = _centred(*_resolved(as_kernel(output_kernel), take(Y, index), rng))
    if norm == 0.0:
        raise ValueError(
            f"The output kernel {output_kernel!r} is constant on the sample: all outputs are the "
            "same to it, and no kernel is better than another."
        )
    chosen = [_resolved(kernel, take(X, index), rng) for kernel in kernels]
    found = [_centred(*pair) for pair in chosen]
    shares = _shares([K for K, _ in found], target)
    # shares are of matrices of norm 1
    weights = np.array([s / n if s > 0.0 else 0.0 for s, (_, n) in zip(shares, found, strict=True)])
    weights /= np.sqrt(np.sum(weights**2))
    parts = [
        Scaled(float(w), kernel) for w, (kernel, _) in zip(weights, chosen, strict=True) if w > 0.0
    ]
    return functools.reduce(operator.add, parts)


def _check_kernels(kernels: Any) -> list[Kernel]:
    if not isinstance(kernels, Sequence) or isinstance(kernels, str) or len(kernels) == 0:
        raise TypeError(f"kernels must be a non-empty list of kernels. Got {kernels!r} instead.")
    return [as_kernel(kernel) for kernel in kernels]


def _sample(n: int, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Return the sorted numbers of the rows that are compared."""
    check_number(n_samples, "n_samples", low=2, integer=True)
    if n < 2:
        raise ValueError(f"Alignment needs at least two rows. Got {n}.")
    return np.sort(rng.choice(n, n_samples, replace=False)) if n > n_samples else np.arange(n)


def _resolved(kernel: Kernel, objects: Any, rng: np.random.Generator) -> tuple[Kernel, Any]:
    """Return the kernel with numeric parameters, and its rows."""
    rows = kernel.encode(objects)
    return kernel.resolve(rows, rng), rows


def _centred(kernel: Kernel, rows: Any) -> tuple[np.ndarray, float]:
    """Return H K H / ||H K H||, H = I - 11'/n, and the norm; zero for a constant kernel."""
    block, n = kernel.against(rows), n_rows(rows)
    K = np.concatenate([block(take(rows, some)) for some in row_slices(n, _ROWS)])
    K = K.astype(np.float64, copy=False)
    size = np.sqrt(np.vdot(K, K))
    K -= K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    norm = float(np.sqrt(np.vdot(K, K)))
    if norm <= _CONSTANT * size:
        return np.zeros_like(K), 0.0
    K /= norm
    return K, norm


def _shares(matrices: list[np.ndarray], target: np.ndarray) -> np.ndarray:
    """Return v >= 0 that minimises ||sum_k v_k K_k - target||^2, of matrices of norm 1 or 0."""
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
