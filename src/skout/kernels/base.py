"""What a kernel is, and the algebra of kernels.

A kernel is a scikit-learn estimator that holds hyper-parameters and no data. Its author writes
`encode` (user objects -> rows), `against` (the formula, for blocks of rows) and `diag`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .._numerics import arrays
from .._numerics.arrays import float_dtype, is_tensor, n_rows, row_slices, take
from .._numerics.estimators import PartsByName
from .._numerics.objects import Joint, as_objects
from .._numerics.objects import Rows as ObjectRows
from .._numerics.threads import check_memory, map_blocks, spare_threads
from .._numerics.typing import Array, Objects, Rng, Rows, Weights
from .._numerics.validation import Registry, check_number, resolve
from ..rows import Memory, Survey
from ..rows.encode import check_matrix

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # whose `default` Python has since 3.13

    R = TypeVar("R", bound=Rows, default=Any)
else:
    from typing import TypeVar

    R = TypeVar("R")

#: (A, out=None) -> the Gram block of shape (b, m) of rows A; a tensor where the rows are tensors.
Block: TypeAlias = Callable[..., Array]
RowFunction: TypeAlias = Callable[[Any], Array]

# Rows of each diagonal block of `paired`, of which only the diagonal is kept. 4,000 pairs of 50
# features take 7 ms; with blocks of 64 rows 8, of 256 rows 9, of single rows 215.
_PAIRED_ROWS = 128
# A Gram matrix of 2^20 values takes about 3 ms, which threads need not share; a thread takes 256
# rows at a time, so that all are busy until the end.
_SHARED, _SHARED_ROWS = 2**20, 256
_ADVICE = "Give fewer rows at a time, or fit an estimator with a sketch, which never holds it."

#: Names accepted wherever a kernel is, filled in `skout.kernels`; and scikit-learn's for the same.
KERNELS: Registry[type[Kernel]] = Registry(rbf="gaussian", poly="polynomial")


# Names of pairwise functions of scikit-learn that are no kernels of skout.
_OF_SCIKIT_LEARN = ("additive_chi2", "chi2", "sigmoid")


def as_kernel(spec: KernelLike) -> Kernel:
    """Return a fresh kernel from a kernel, a name, a Gaussian-process kernel or a callable.

    Parameters
    ----------
    spec : Kernel, str or callable (A, B) -> matrix
        A name is one of `KERNELS`.

    Examples
    --------
    >>> from skout.kernels import as_kernel
    >>> as_kernel("gaussian")
    Gaussian()
    """
    if isinstance(spec, Kernel):
        return clone(spec)
    if isinstance(spec, str):
        if spec not in KERNELS:
            _refuse_elsewhere(spec)
        return resolve(spec, KERNELS, "kernel")()
    if callable(spec) and not isinstance(spec, type):
        _refuse_noise(spec)
        _check_pair(spec)
        return PairwiseFunction(spec)
    raise TypeError(
        "A kernel must be a skout kernel, a name, a scikit-learn Gaussian-process kernel or a "
        f"callable (A, B) -> matrix. Got {spec!r} instead."
    )


def _refuse_elsewhere(name: str) -> None:
    """Raise for names of the command line or of scikit-learn, with what stands for them here."""
    kind, _, width = name.partition(":")
    if width and kind in KERNELS:
        made = KERNELS[kind].__name__
        raise ValueError(
            f"Unknown kernel {name!r}, as the command line writes it. In Python it is "
            f"skout.kernels.{made}({width})."
        )
    if name in _OF_SCIKIT_LEARN:
        raise ValueError(
            f"Unknown kernel {name!r}. scikit-learn's function will do: "
            f"kernel=sklearn.metrics.pairwise.{name}_kernel."
        )


def _check_pair(function: Callable[..., Array]) -> None:
    """Raise where a function cannot be called with two sets of rows."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function of C that does not say
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise TypeError(
            "A kernel function takes two sets of rows, (A, B) -> matrix of shape (len(A), len(B)). "
            f"Got one of the parameters {signature}."
        ) from None


def _refuse_noise(function: Callable[..., Array]) -> None:
    """Raise where a Gaussian-process kernel has a part for noise, a WhiteKernel."""
    from sklearn.gaussian_process.kernels import WhiteKernel  # slow to import

    parts = function.get_params().values() if hasattr(function, "get_params") else ()
    if any(isinstance(part, WhiteKernel) for part in [function, *parts]):
        raise ValueError(
            f"{function} has a WhiteKernel, which is noise, not likeness. Leave it out: the "
            "penalty alpha plays its part."
        )


class Kernel(ABC, PartsByName, Generic[R]):
    """Base of all kernels: when are two objects alike?

    Kernels add, multiply and scale: ``k1 + k2``, ``k1 * k2``, ``2.0 * k1``.
    """

    #: Rows are numeric vectors (dense or CSR), checked as scikit-learn checks X; those of a
    #: `VectorKernel` are.
    takes_vectors: bool = False
    #: The formula takes tensors, see `skout.kernels.namespace`. If it does not say, it is tried.
    runs_on_device: bool = False
    #: k(a x + b y, z) = a k(x, z) + b k(y, z): landmarks can be mixed instead of kernel values.
    is_linear: bool = False
    #: k(y, y) = 1 for every y.
    normalized: bool = False
    #: What it compares: the name of a kind of output in `skout.kinds.KINDS`, by whose metric
    #: predictions are scored; or "vectors", "curves" or "objects".
    compares: str = "objects"
    #: It must learn from outputs before its values can be computed, see `LearnedMetric`.
    learns: bool = False
    #: Names of the parameters that are kernels themselves.
    parts: tuple[str, ...] = ()

    @property
    def _by_name(self) -> dict[str, Any]:  # type: ignore[override]
        return dict.fromkeys(self.parts, as_kernel)

    @abstractmethod
    def encode(self, objects: Objects) -> R:
        """Return the objects of a user as encoded rows, checked; rows are returned as they are.

        Parameters
        ----------
        objects : what the kernel compares, n of them
            Each is encoded by itself: nothing is learned from data.
        """

    @abstractmethod
    def against(self, B: R) -> Block:
        """Return the function (A, out=None) -> K(A, B) of encoded rows A.

        What depends on B alone is computed here, once; `out` is an optional (b, m) buffer to
        fill and return. A function that has no use for it returns a new array.

        Parameters
        ----------
        B : encoded rows, m of them
        """

    @abstractmethod
    def diag(self, A: R) -> Array:
        """Return k(a, a) for each row of A, shape (n,).

        Parameters
        ----------
        A : encoded rows, n of them
        """

    def resolve(self, rows: R, rng: Rng, weights: np.ndarray | None = None) -> Kernel:
        """Return a copy whose data-dependent parameters, such as gamma="scale", are numbers.

        Parameters
        ----------
        rows : encoded rows
        rng : numpy Generator
            For parameters that are computed from a sample of the rows.
        weights : array of shape (n,), optional
            Weights of the rows.
        """
        survey = Survey(Memory.of(rows))
        resolved = self.surveyed(survey, rng, weights)
        survey.run()
        return resolved()

    def surveyed(self, survey: Survey, rng: Rng, weights: Weights = None) -> Resolved:
        """Request what data-dependent parameters need; return a function that makes the copy.

        Kernels whose parameters may be words, such as gamma="scale", override it.

        Parameters
        ----------
        survey : Survey
            The pass over the rows; the function may be called once it has run.
        rng : numpy Generator
        weights : array or source of shape (n,), optional
        """
        if not self.parts:
            return lambda: clone(self)
        parts = {
            name: self._part(name).surveyed(self._survey_of(name, survey), rng, weights)
            for name in self.parts
        }
        return lambda: clone(self).set_params(**{name: make() for name, make in parts.items()})

    def _survey_of(self, name: str, survey: Survey) -> Survey:
        """Return the survey of the rows that a part of the kernel compares."""
        return survey

    def _part(self, name: str) -> Kernel:
        """Return a kernel that this one is made of."""
        kernel = getattr(self, name)
        return kernel if isinstance(kernel, Kernel) else as_kernel(kernel)

    def __call__(self, A: Objects, B: Objects | None = None) -> np.ndarray:
        """Return the Gram matrix K(A, B), or K(A, A)."""
        left = self.encode(A)
        right = left if B is None else self.encode(B)
        self._check_columns(left, right)
        n, m, dtype = n_rows(left), n_rows(right), float_dtype(left)
        check_memory(n, m, "The kernel matrix", _ADVICE, dtype.itemsize)
        block = self.against(right)
        threads = spare_threads() if n * m >= _SHARED else 1
        if threads == 1:
            return block(left)
        K = np.empty((n, m), dtype=dtype)

        def fill_rows(rows: slice) -> None:
            out = K[rows]
            values = block(take(left, rows), out)
            if values is not out:  # a block function may do without the buffer
                out[...] = values

        for _ in map_blocks(fill_rows, row_slices(len(K), _SHARED_ROWS), n_jobs=threads):
            pass
        return K

    def _check_columns(self, A: Rows, B: Rows) -> None:
        """Raise unless encoded vectors are matrices with the same columns."""
        if not self.takes_vectors:
            return
        for rows in (A, B):
            if rows.ndim != 2:
                raise TypeError(
                    f"{type(self).__name__} says takes_vectors = True, and its encode returns rows "
                    f"of shape {rows.shape}, where vectors are a matrix. A kernel of other objects "
                    "says takes_vectors = False."
                )
        if A.shape[1] != B.shape[1]:
            raise ValueError(
                f"A and B must have the same number of columns. Got {A.shape[1]} and {B.shape[1]}."
            )

    def paired(self, A: Objects, B: Objects) -> np.ndarray:
        """Return k(a_i, b_i) for two data sets of equal length, shape (n,).

        Parameters
        ----------
        A, B : objects or encoded rows, n of each
        """
        left, right = self.encode(A), self.encode(B)
        n, m = n_rows(left), n_rows(right)
        if n != m:
            raise ValueError(f"A and B must be of equal length. Got {n} and {m}.")
        self._check_columns(left, right)
        values = [
            np.diagonal(self.against(take(right, rows))(take(left, rows)))
            for rows in row_slices(n, _PAIRED_ROWS)
        ]
        return np.concatenate(values) if values else np.empty(0)

    def __add__(self, other: object) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: object) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        if isinstance(other, Real):  # what `Scaled` checks, True included
            return Scaled(other if isinstance(other, bool) else float(other), self)
        return NotImplemented

    __rmul__ = __mul__


#: What is accepted wherever a kernel is, see `as_kernel`.
KernelLike: TypeAlias = Kernel | str | Callable[..., Array]
#: Makes the kernel whose parameters are numbers, see `Kernel.surveyed`.
Resolved: TypeAlias = Callable[[], Kernel]


class _Combination(Kernel):
    """Base of `Sum` and `Product`; rows are `Joint` where the two kernels encode differently."""

    parts: tuple[str, ...] = ("left", "right")

    def __init__(self, left: KernelLike, right: KernelLike) -> None:
        self.left = left
        self.right = right

    @property
    def takes_vectors(self) -> bool:  # type: ignore[override]
        return any(self._part(name).takes_vectors for name in self.parts)

    @property
    def runs_on_device(self) -> bool:  # type: ignore[override]
        return all(self._part(name).runs_on_device for name in self.parts)

    @property
    def compares(self) -> str:  # type: ignore[override]
        left, right = self._part("left").compares, self._part("right").compares
        return left if left == right else "objects"

    def encode(self, objects: Objects) -> Rows:
        left, right = self._part("left"), self._part("right")
        if isinstance(objects, Joint):
            return Joint(left.encode(objects.left), right.encode(objects.right))
        rows = left.encode(objects)
        if left.takes_vectors and right.takes_vectors and not isinstance(rows, ObjectRows):
            # both see the matrix that is checked already; one of them may pack it into bits
            others = right.encode(rows)
            return Joint(rows, others) if isinstance(others, ObjectRows) else rows
        others = right.encode(objects)
        return rows if others is rows else Joint(rows, others)

    def _survey_of(self, name: str, survey: Survey) -> Survey:
        return survey.part(name)

    def against(self, B: Rows) -> Block:
        left_B, right_B = _sides(B)
        left, right = self._part("left").against(left_B), self._part("right").against(right_B)

        def block(A: Rows, out: Array | None = None) -> Array:
            left_A, right_A = _sides(A)
            K: Array = left(left_A, out)
            self._combine(K, right(right_A))
            return K

        return block

    def diag(self, A: Rows) -> Array:
        left_A, right_A = _sides(A)
        values = arrays.cast(self._part("left").diag(left_A), np.float64) + 0.0  # a copy
        self._combine(values, self._part("right").diag(right_A))
        return values

    @staticmethod
    @abstractmethod
    def _combine(K: Array, other: Array) -> None:
        """Add the values of the right kernel to those of the left one, K, or multiply them."""


def _sides(rows: Rows) -> tuple[Rows, Rows]:
    """Return the rows of the left and of the right kernel."""
    return (rows.left, rows.right) if isinstance(rows, Joint) else (rows, rows)


class Sum(_Combination):
    """Sum of two kernels, k(a, b) = left(a, b) + right(a, b).

    Parameters
    ----------
    left, right : kernel, str or callable
        Kernels of the same objects; each may encode them differently.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Gaussian, Linear
    >>> float((Gaussian(gamma=1.0) + Linear())(np.array([[1.0, 2.0]]))[0, 0])
    6.0
    """

    @staticmethod
    def _combine(K: Array, other: Array) -> None:
        K += other


class Product(_Combination):
    """Product of two kernels, k(a, b) = left(a, b) * right(a, b).

    Parameters
    ----------
    left, right : kernel, str or callable
        As those of `Sum`.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Gaussian, Linear
    >>> float((Gaussian(gamma=1.0) * Linear())(np.array([[1.0, 2.0]]))[0, 0])
    5.0
    """

    @property
    def normalized(self) -> bool:  # type: ignore[override]
        return self._part("left").normalized and self._part("right").normalized

    @staticmethod
    def _combine(K: Array, other: Array) -> None:
        K *= other


def _of_kernel(name: str) -> Any:
    """Return a property: an attribute of the kernel that is wrapped."""
    return property(lambda self: getattr(self._part("kernel"), name))


class Wrapper(Kernel):
    """A kernel made from one other kernel, on the same rows."""

    parts: tuple[str, ...] = ("kernel",)
    takes_vectors: bool = _of_kernel("takes_vectors")
    compares: str = _of_kernel("compares")
    runs_on_device: bool = _of_kernel("runs_on_device")
    normalized: bool = _of_kernel("normalized")

    def encode(self, objects: Objects) -> Rows:
        rows: Rows = self._part("kernel").encode(objects)
        return rows


class Scaled(Wrapper):
    """Kernel times a number, k(a, b) = factor * kernel(a, b).

    Parameters
    ----------
    factor : float > 0
        What the values are multiplied by.
    kernel : kernel, str or callable
        The kernel that is scaled.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Linear
    >>> float((2.0 * Linear())(np.array([[3.0]]))[0, 0])
    18.0
    """

    normalized = False

    def __init__(self, factor: float, kernel: KernelLike) -> None:
        self.factor = factor
        self.kernel = kernel

    def against(self, B: Rows) -> Block:
        check_number(self.factor, "factor", strict=True)
        base = self._part("kernel").against(B)

        def block(A: Rows, out: Array | None = None) -> Array:
            K: Array = base(A, out)
            K *= float(self.factor)
            return K

        return block

    def diag(self, A: Rows) -> Array:
        factor: float = check_number(self.factor, "factor", strict=True)
        return factor * self._part("kernel").diag(A)


class PairwiseFunction(Kernel):
    """A kernel from any function (A, B) -> matrix, or from a scikit-learn Gaussian-process kernel.

    Parameters
    ----------
    function : callable
        Called with two row sets, dense 2-D arrays or 1-D arrays of objects, and returns the Gram
        matrix. It must be symmetric and positive semi-definite.

    Examples
    --------
    >>> from skout.kernels import PairwiseFunction
    >>> same_length = PairwiseFunction(lambda A, B: [[len(a) == len(b) for b in B] for a in A])
    >>> same_length(["ab", "cd", "e"])
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """

    def __init__(self, function: Callable[..., Array]) -> None:
        self.function = function

    @property
    def takes_vectors(self) -> bool:  # type: ignore[override]
        """Whether a Gaussian-process kernel requires vectors; False for other callables."""
        return bool(getattr(self.function, "requires_vector_input", False))

    @property
    def compares(self) -> str:  # type: ignore[override]
        return "vectors" if self.takes_vectors else "objects"

    def encode(self, objects: Objects) -> Rows:
        """Return numeric matrices as finite float arrays, anything else as an array of objects."""
        if hasattr(objects, "to_numpy") and hasattr(objects, "columns"):
            objects = objects.to_numpy()
        is_matrix = len(getattr(objects, "shape", ())) == 2
        if not (is_matrix or self.takes_vectors):
            return as_objects(objects)
        return check_matrix(objects, accept_sparse=not self.takes_vectors)

    def against(self, B: Rows) -> Block:
        def block(A: Rows, out: Array | None = None) -> Array:
            K = _checked_gram(self.function(A, B), A, B)
            out = arrays.empty(K.shape, K, float_dtype(K)) if out is None else out
            out[...] = K
            return out

        return block

    def diag(self, A: Rows) -> np.ndarray:
        if hasattr(self.function, "diag"):
            return np.asarray(self.function.diag(A), dtype=np.float64)
        rows = (take(A, slice(i, i + 1)) for i in range(n_rows(A)))
        return np.array([float(self.against(row)(row)[0, 0]) for row in rows])


def _checked_gram(K: Array, A: Rows, B: Rows) -> Array:
    """Return the result of a user's function in the precision of A; raise if it is no Gram block.

    NaN would spread through a whole fit before anybody sees it, so each block is checked.
    """
    if not is_tensor(K):
        K = np.asarray(K.toarray() if sparse.issparse(K) else K)
        if K.dtype.kind not in "fiub":
            raise TypeError(
                "The kernel function must return a matrix of real numbers. "
                f"Got {K.dtype} of shape {K.shape} instead."
            )
    K, expected = arrays.cast(K, float_dtype(A)), (n_rows(A), n_rows(B))
    if K.shape != expected:
        raise ValueError(
            f"The kernel function returned shape {K.shape} for inputs of {expected[0]} "
            f"and {expected[1]} rows; expected {expected}."
        )
    if not arrays.namespace(K).isfinite(K).all():
        raise ValueError("The kernel function returned NaN or infinity.")
    return K
