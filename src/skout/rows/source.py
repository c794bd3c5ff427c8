"""`Source`: the rows of a data set, in memory, on disk, in a stream, on a cluster or on a GPU.

An estimator fits in two passes over the rows, a `Survey` and `reduce`, and predicts in one, `map`:

    source -> encode, lazily -> survey: widths, landmarks -> reduce: moments -> solve
    source -> encode, lazily -> map: predictions

Subclasses (`Memory`, `Disk`, `Dask`, `Device`) say how a pass is made, in the memory that
`memory_limits` allows. Nothing outside of this package depends on where rows are stored.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from .._numerics.arrays import float_dtype, row_slices, unique
from .._numerics.objects import to_device
from .._numerics.typing import Array, DType, Estimator, Index, Objects, Rows, Shape, TorchDevice
from .._numerics.validation import check_number

#: What a reduction makes of a block of rows, and of all of them.
Term = TypeVar("Term")
#: What lies beside the rows: a source or an array of as many rows, or nothing.
Beside: TypeAlias = Objects | None
#: Of a `Survey`: positions of rows, or a reduction and what lies beside the rows.
Request: TypeAlias = np.ndarray | tuple[Any, ...]


# Compute capabilities of GPUs that multiply float64 at half the rate of float32 or more: P100,
# V100, A100, H100, B100.
_FAST_DOUBLE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}


class Place:
    """A torch device, with the precision of kernel values on it for rows of a dtype."""

    def __init__(self, device: TorchDevice, dtype: np.dtype) -> None:
        self.device = device
        self.dtype: np.dtype = np.dtype(np.float64) if _has_fast_double(device) else dtype

    def moved(self, array: Array, dtype: DType | None = None) -> Array:
        """Return an array as a tensor on the device."""
        return to_device(np.ascontiguousarray(array), self.device, dtype or self.dtype)


def _has_fast_double(device: TorchDevice) -> bool:
    import torch

    if device.type == "cpu":
        return True
    return torch.cuda.get_device_capability(device) in _FAST_DOUBLE


class BlockWork:
    """Work on blocks of rows: the memory it takes for a row, and how long blocks may be."""

    #: float64 numbers that it allocates for each row of a block
    width: int = 1
    #: rows of a block, at most, if something besides memory limits it
    longest: int | None = None
    #: (k, numbers): a pass over rows of so many numbers is cut into k blocks at least, for threads
    #: to share, unless it is short
    shared: tuple[int, int] = (1, 0)


class RowMap(BlockWork, ABC):
    """A function of a block of rows that returns one result per row."""

    @abstractmethod
    def __call__(self, rows: Any, out: np.ndarray | None = None) -> Array:
        """Return the results of a block, shape (b, ...), which may be written into `out`."""

    def on(self, place: Place) -> RowMap | None:
        """Return the same function of tensors on a device; None if it runs on the host only."""
        return None

    def finish(self) -> None:
        """Raise if results on a device were invalid; called once after a pass."""
        return


class Reduction(BlockWork, ABC, Generic[Term]):
    """A sum over all rows: one term per block of rows, added up in the order of the rows.

    A term may be of any type. `combine` adds two of them and may write into `total`.
    """

    #: parts of a block that it works on one after another: blocks may be so many times longer
    pieces: int = 1

    @abstractmethod
    def __call__(self, *block: Any, **_: Any) -> Term:
        """Return the term of a block: its rows, then the targets, weights, ... of these rows.

        A subclass has parameters for those that it takes; no keywords are given.
        """

    def combine(self, total: Term | None, part: Term) -> Term:
        """Return total + part; total is None at the first block."""
        both: Any = total
        return part if total is None else both + part

    def finish(self, total: Term) -> Term:
        """Return the result of the pass, in the memory of this process."""
        return total

    def on(self, place: Place) -> Reduction[Term] | None:
        """Return the same sum over tensors on a device; None if it runs on the host only."""
        return None


class Progress:
    """How far a pass has come; a subclass may store it, to resume the pass later."""

    def begin(self, blocks: list[slice]) -> tuple[int, Any]:
        """Return how many blocks are done already, and the sum over them."""
        return 0, None

    def advance(self, done: int, total: object) -> None:
        """Record the sum over the first blocks; called after each block."""


class Survey:
    """Requests for rows and for sums over rows, all of which one pass serves before a fit.

    `take` and `reduce` record a request and return a function, which returns the result once `run`
    has passed over the rows.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._requests: list[Request] = []
        self._results: list[Any] = []

    def take(self, index: np.ndarray) -> Callable[[], Rows]:
        """Request the rows at these positions, in their order."""
        number = len(self._requests)
        self._requests.append(index)
        return lambda: self._results[number]

    def reduce(self, reduction: Reduction[Term], *beside: Beside) -> Callable[[], Term]:
        """Request a sum over all rows."""
        number = len(self._requests)
        self._requests.append((reduction, *beside))
        return lambda: self._results[number]

    def then(self, function: Callable[[Rows], Rows]) -> Survey:
        """Return a survey of function(rows), which the same pass serves."""
        return _MappedSurvey(self, function)

    def part(self, name: str) -> Survey:
        """Return a survey of the attribute `name` of the rows, of the rows if they have none."""
        return self.then(partial(part_of, name=name))

    def run(self) -> None:
        """Pass over the rows."""
        self._results = self.source._served(self._requests)


class _MappedSurvey(Survey):
    """A survey of function(rows), served by that of the rows."""

    def __init__(self, whole: Survey, function: Callable[[Rows], Rows]) -> None:
        self.source, self.whole, self.function = whole.source, whole, function

    def take(self, index: np.ndarray) -> Callable[[], Rows]:
        rows = self.whole.take(index)
        return lambda: self.function(rows())

    def reduce(self, reduction: Reduction[Term], *beside: Beside) -> Callable[[], Term]:
        return self.whole.reduce(_MappedReduction(reduction, self.function), *beside)


class _MappedReduction(Reduction[Term]):
    """A sum over function(rows); it must be picklable."""

    def __init__(self, base: Reduction[Term], function: Callable[[Rows], Rows]) -> None:
        self.base, self.function, self.width = base, function, base.width

    def __call__(self, rows: Rows, *beside: Beside) -> Term:
        return self.base(self.function(rows), *beside)

    def combine(self, total: Term | None, part: Term) -> Term:
        return self.base.combine(total, part)

    def finish(self, total: Term) -> Term:
        return self.base.finish(total)

    def on(self, place: Place) -> Reduction[Term] | None:
        base = self.base.on(place)
        return None if base is None else _MappedReduction(base, self.function)


def part_of(rows: Rows, name: str) -> Rows:
    """Return a part of the rows, or the rows themselves if they have no part of that name."""
    return getattr(rows, name, rows)


class Source(ABC):
    """The rows of a data set, wherever they are stored."""

    #: what messages call them
    name: str = "X"
    #: none or one of the rows, in memory: it has their type, dtype and width
    like: Rows
    #: whether there can be more than one pass
    rereadable: bool = True
    #: whether a pass may use what this process knows about all rows, such as the features of
    #: landmarks and which targets are equal; not on a cluster, where sending it costs more
    has_shortcuts: bool = False
    #: whether a cluster must compute the rows before this process has them
    is_remote: bool = False
    #: whether the rows are an array in memory
    is_array: bool = False
    #: the torch device that passes run on, None for the host
    device: TorchDevice | None = None
    #: where rows cannot be read at any position: a sample, with its weights, to take widths and
    #: landmarks from
    pool: tuple[Source, Array | None] | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def tail(self) -> Shape:
        """Shape of a row: (d,) of vectors, () of objects."""
        return tuple(getattr(self.like, "shape", (0,))[1:])

    @property
    def shape(self) -> Shape:
        return (len(self), *self.tail)

    @property
    def ndim(self) -> int:
        return 1 + len(self.tail)

    @property
    def dtype(self) -> np.dtype:
        return getattr(self.like, "dtype", np.dtype(object))

    @property
    def precision(self) -> np.dtype:
        """The precision of kernel values: float32 of float32 rows, else float64."""
        return float_dtype(self.like)

    @abstractmethod
    def take(self, index: Index) -> Any:
        """Return the rows of a slice, or at positions in any order, in memory."""

    def __getitem__(self, index: Index) -> Any:
        return self.take(index)

    def load(self) -> Any:
        """Return all rows, in the memory of the host."""
        return self.take(slice(0, len(self)))

    def in_memory(self) -> Source:
        """Return a source of the same rows that holds them in the memory of the host."""
        raise TypeError(f"{self.name} cannot be held in memory.")

    def load_for(self, part: object) -> Any:
        """Return all rows on the host; a tensor on its device for a part that `takes_tensors`."""
        return self.load()

    def chosen(self, index: np.ndarray, beside: np.ndarray) -> tuple[Source, np.ndarray]:
        """Return the rows and the entries of `beside` at an index, or all where that is cheaper."""
        return self, beside

    @property
    def resident(self) -> Any:
        """All rows if they are in memory, else None: for shortcuts that need all of them."""
        return None

    @abstractmethod
    def then(self, function: Callable[[Rows], Rows], like: Rows | None = None) -> Source:
        """Return function(rows) as a source, computed block by block when it is read.

        `like` is an empty slice of the result; without it, one row is computed to find its type.
        """

    @abstractmethod
    def subset(self, index: np.ndarray) -> Source:
        """Return the rows at increasing positions as a source; nothing is read."""

    def reordered(self, order: np.ndarray) -> Source | None:
        """Return the rows in another order, or None where that makes passes slower."""
        return None

    def first_rows(self, n: int) -> Any:
        """Return the first n rows, or all of them if they are in memory."""
        return self.take(slice(0, n)) if self.resident is None else self.resident

    def gathered(self, most: int) -> Source:
        """Return the rows, held in memory if they lie on a cluster and are at most `most`."""
        return self

    def copies(self, share: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Return `unique` of rows in memory, if at most this share of them is distinct."""
        if self.resident is None:
            return None
        first, inverse = unique(self.resident)
        return (first, inverse) if len(first) <= share * len(self) else None

    def unique(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first position of each distinct row, and which of them each row is."""
        return unique(self.load())

    @abstractmethod
    def map(
        self,
        function: RowMap,
        tail: Shape,
        dtype: DType,
        *,
        out: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> Array:
        """Return function(rows) of all rows, shape (n, *tail).

        The result is an array, a tensor if the rows are a tensor on a GPU, or a lazy dask array if
        they lie on a cluster. Results on the host are written into `out`, of any precision.
        """

    @abstractmethod
    def reduce(
        self,
        reduction: Reduction[Term],
        *beside: Beside,
        progress: Progress | None = None,
        n_jobs: int | None = None,
    ) -> Term:
        """Return the sum of reduction(rows, *beside) over blocks of rows, finished.

        `beside` are sources or arrays of n rows, or None: targets, weights.
        """

    def _served(self, requests: Sequence[Request]) -> list[Any]:
        return [self.reduce(*r) if isinstance(r, tuple) else self.take(r) for r in requests]

    def collect(
        self, function: RowMap, tail: Shape, dtype: DType, n_jobs: int | None = None
    ) -> np.ndarray:
        """Return function(rows), a few numbers per row, as an array on the host."""
        return self.map(function, tail, dtype, n_jobs=n_jobs)

    def map_on_device(
        self, function: RowMap, tail: Shape, dtype: DType, n_jobs: int | None = None
    ) -> Array:
        """Return function(rows), a few numbers per row, on the device that passes run on."""
        return self.collect(function, tail, dtype, n_jobs=n_jobs)

    def device_array(self, array: np.ndarray) -> Array:
        """Return an array as a tensor on the device that passes run on; itself on the host."""
        return array

    def check_device_memory(self, needed: int, what: str) -> None:
        """Raise if passes run on a device with fewer than `needed` bytes free."""
        return

    @abstractmethod
    def kept(self, function: RowMap, tail: Shape, n_jobs: int | None = None) -> Source | None:
        """Return function(rows) as a source for many passes; None if each pass must compute it.

        The results are held in memory, of this process or of the workers of a cluster, within
        `memory_limits`; beyond, in a file if rows can only be read in order.
        """

    def compared(self) -> list[slice]:
        """Return slices of rows that identify the data in a checkpoint; of those on disk a few."""
        return list(row_slices(len(self), limits().block_rows))

    def stamp(self) -> str:
        """Return size and modification time of the files that rows are read from, if any."""
        return ""

    def check_sketch(self, sketch: Estimator | None) -> None:
        """Raise if a sketch needs rows at positions that this source cannot read."""
        return


# How much memory a pass may use: one context, read by every source -------------------------------


@dataclass(frozen=True)
class MemoryLimits:
    """Memory that a pass may use, see `memory_limits`."""

    block_rows: int = 8192  # long blocks keep matrix products near the peak
    block_bytes: int = 2**26  # of the features of a block
    coordinates_bytes: int = 2**31  # of the coordinates of all rows
    device_bytes: int = 2**31  # of the features of a block on a GPU
    #: `coordinates_bytes` if a user set them; else devices and conjugate gradients use what is free
    requested_bytes: int | None = None


# Matrix products of blocks of this many rows are as fast as those of longer ones, so that blocks of
# more rows take only half of the bytes allowed. Of 1,000 landmarks, blocks of half and of a quarter
# take 1.1 times as long, double 0.9 (a Gaussian kernel) and 1.06 (products Z'Z).
_LONG = 4096
_LIMITS: ContextVar[MemoryLimits] = ContextVar("limits", default=MemoryLimits())  # noqa: B039 - frozen


def limits() -> MemoryLimits:
    """Return the limits in force."""
    return _LIMITS.get()


@contextmanager
def memory_limits(
    *,
    block_rows: int = 8192,
    block_mb: float = 64.0,
    coordinates_mb: float | None = None,
    device_mb: float = 2048.0,
) -> Iterator[None]:
    """Set how much memory passes over rows may take, within a `with` block.

    Parameters
    ----------
    block_rows : int, default 8192
        Most rows of a block, of which each thread works on one.
    block_mb : float, default 64
        Megabytes of the features of a block; half of it where that is 4,096 rows or more.
    coordinates_mb : float, optional
        Megabytes of the coordinates of all rows, which solvers that pass over them many times
        hold; more than that is computed again in each pass. None is 2048 on the host and the free
        memory on a GPU; conjugate gradients may then keep kernel values in a quarter of the memory.
    device_mb : float, default 2048
        Megabytes of the features of a block on a GPU; a pass takes about three times that.

    Examples
    --------
    >>> import numpy as np
    >>> import skout
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> with skout.memory_limits(block_rows=10):
    ...     Z = skout.KernelBasis("gaussian").fit_transform(X)
    """
    check_number(block_rows, "block_rows", low=1, integer=True)
    check_number(block_mb, "block_mb", strict=True)
    if coordinates_mb is not None:
        check_number(coordinates_mb, "coordinates_mb")
    check_number(device_mb, "device_mb", strict=True)
    requested = None if coordinates_mb is None else int(coordinates_mb * 2**20)
    held = MemoryLimits.coordinates_bytes if requested is None else requested
    size = int(block_rows), int(block_mb * 2**20), held, int(device_mb * 2**20)
    token = _LIMITS.set(MemoryLimits(*size, requested))
    try:
        yield
    finally:
        _LIMITS.reset(token)


def block_rows(n: int, row_bytes: int, limit: int | None = None) -> int:
    """Return the number of rows of the blocks that n rows, of `row_bytes` each, are cut into.

    The number of blocks is a multiple of a power of two, so that threads finish together whatever
    their number, which the blocks must not depend on.
    """
    most_rows, most_bytes = limits().block_rows, limits().block_bytes
    fit = most_bytes // max(1, row_bytes)
    most = max(1, min(most_rows, limit or most_rows, fit, max(fit // 2, _LONG)))
    n_blocks = max(1, math.ceil(n / most))
    unit = 1 << (n_blocks.bit_length() // 2)
    return max(1, math.ceil(n / (math.ceil(n_blocks / unit) * unit)))
