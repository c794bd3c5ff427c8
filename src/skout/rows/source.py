"""Rows, wherever they lie: what estimators may ask of them.

An estimator fits in two passes, a `Survey` and `reduce`, and predicts in one, `map`:

    source -> encode, lazily -> survey: widths, landmarks -> reduce: moments -> solve
    source -> encode, lazily -> map: predictions

Engines (`Memory`, `Disk`, `Stream`, `Dask`, `Device`) say how a pass is made, in the memory that
`memory_limits` allows. Nobody else asks where rows lie.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .._numerics.arrays import float_dtype, row_slices, unique
from .._numerics.validation import check_number

__all__ = [
    "MemoryLimits",
    "Progress",
    "Reduction",
    "RowMap",
    "Source",
    "Survey",
    "block_rows",
    "limits",
    "memory_limits",
    "part_of",
]


class RowMap(ABC):
    """What a pass makes of each block of rows: one result a row."""

    #: float64 numbers that it holds for each row while it works
    width: int = 1

    @abstractmethod
    def __call__(self, rows: Any, out: np.ndarray | None = None) -> Any:
        """Return the results of a block, shape (b, ...); they may be written into `out`."""

    def most_rows(self, n: int) -> int | None:
        """Return the most rows of a block of n, if there is a limit besides memory."""
        return None

    def on(self, place: Any) -> RowMap | None:
        """Return what does the same with tensors on a device; None if it runs on the host only."""
        return None

    def finish(self) -> None:
        """Raise where results of a device are wrong: at the end, so that it need not wait."""
        return


class Reduction(ABC):
    """What a pass makes of all rows: a part of each block, and their sum in the order of the rows.

    A part may be of any type. `combine` adds them up two at a time and may write into `total`.
    """

    #: float64 numbers that it holds for each row while it works
    width: int = 1
    #: pieces that it works on one after another, so that a block may be as many times longer
    pieces: int = 1

    @abstractmethod
    def __call__(self, rows: Any, *beside: Any) -> Any:
        """Return the part of a block: its rows, then the targets, weights, ... of these rows."""

    def combine(self, total: Any, part: Any) -> Any:
        """Return total + part; part itself if total is None, at the first block."""
        return part if total is None else total + part

    def finish(self, total: Any) -> Any:
        """Return the result of the pass, in the memory of this process."""
        return total

    def most_rows(self, n: int) -> int | None:
        """Return the most rows of a block of n, if there is a limit besides memory."""
        return None

    def on(self, place: Any) -> Reduction | None:
        """Return what does the same with tensors on a device; None if it runs on the host only."""
        return None


class Progress:
    """Is told how far a pass has come. A subclass may store that, to resume the pass later."""

    def begin(self, blocks: list[slice]) -> tuple[int, Any]:
        """Return how many blocks are done already, and the sum over them."""
        return 0, None

    def advance(self, done: int, total: Any) -> None:
        """Take note of the sum over the first blocks."""


class Survey:
    """Questions about rows that one pass over them answers, before anything is fitted.

    `take` and `reduce` ask, and return a function each, which gives the answer once `run` has
    passed over the rows.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._questions: list[tuple[Any, ...]] = []
        self._answers: list[Any] = []

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.source)

    def take(self, index: np.ndarray) -> Callable[[], Any]:
        """Ask for some rows, in the order of the index."""
        return self._ask("take", index)

    def reduce(self, reduction: Reduction, *beside: Any) -> Callable[[], Any]:
        """Ask for a sum over all rows."""
        return self._ask("reduce", reduction, *beside)

    def _ask(self, *question: Any) -> Callable[[], Any]:
        self._questions.append(question)
        number = len(self._questions) - 1
        return lambda: self._answers[number]

    def then(self, function: Callable[[Any], Any]) -> Survey:
        """Return a survey of what a function makes of the rows, which the same pass answers."""
        return _SurveyOfMade(self, function)

    def part(self, name: str) -> Survey:
        """Return a survey of a part of the rows, `left` say, which the same pass answers.

        If the rows have no such part, it is a survey of the rows themselves.
        """
        return self.then(partial(part_of, name=name))

    def run(self) -> None:
        """Pass over the rows."""
        self._answers = self.source._answered(self._questions)


class _SurveyOfMade(Survey):
    """A survey of function(rows), answered by that of the rows."""

    def __init__(self, whole: Survey, function: Callable[[Any], Any]) -> None:
        self.source, self.whole, self.function = whole.source, whole, function

    def take(self, index: np.ndarray) -> Callable[[], Any]:
        answer = self.whole.take(index)
        return lambda: self.function(answer())

    def reduce(self, reduction: Reduction, *beside: Any) -> Callable[[], Any]:
        return self.whole.reduce(_SumOfMade(reduction, self.function), *beside)


class _SumOfMade(Reduction):
    """A sum over what a function makes of the rows; it must be picklable."""

    def __init__(self, base: Reduction, function: Callable[[Any], Any]) -> None:
        self.base, self.function, self.width = base, function, base.width

    def __call__(self, rows: Any, *beside: Any) -> Any:
        return self.base(self.function(rows), *beside)

    def combine(self, total: Any, part: Any) -> Any:
        return self.base.combine(total, part)

    def finish(self, total: Any) -> Any:
        return self.base.finish(total)

    def on(self, place: Any) -> Reduction | None:
        there = self.base.on(place)
        return None if there is None else _SumOfMade(there, self.function)


def part_of(rows: Any, name: str) -> Any:
    """Return a part of the rows, or the rows themselves if they have no part of that name."""
    return getattr(rows, name, rows)


class Source(ABC):
    """Rows, encoded, wherever they lie.

    Attributes
    ----------
    name : str
        What messages call them.
    like : rows
        A slice of none or one of the rows, in memory: it tells their kind, dtype and width.
    rereadable : bool
        Whether there can be more than one pass.
    has_shortcuts : bool
        Whether a pass may use what this process knows about all rows, such as the features of
        landmarks and which targets are equal. False on a cluster, where sending it costs more.
    """

    name: str = "X"
    like: Any
    rereadable: bool = True
    has_shortcuts: bool = False
    #: whether a cluster must compute the rows before this process has them
    is_remote: bool = False
    #: whether the rows are an array here
    is_array: bool = False
    #: the torch device that passes run on, None for the host
    device: Any = None
    #: a sample to take widths and landmarks from, with its weights, where these rows cannot give
    #: rows at any position
    pool: tuple[Source, Any] | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def tail(self) -> tuple[int, ...]:
        """Shape of a row: (d,) of vectors, () of objects."""
        return tuple(getattr(self.like, "shape", (0,))[1:])

    @property
    def shape(self) -> tuple[int, ...]:
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
    def take(self, index: Any) -> Any:
        """Return some rows, in memory: those of a slice, or at positions in any order."""

    def __getitem__(self, index: Any) -> Any:
        return self.take(index)

    def here(self) -> Any:
        """Return all rows, in memory."""
        return self.take(slice(0, len(self)))

    def in_memory(self) -> Source:
        """Return the rows held in the memory of the host; passes run where they ran."""
        raise TypeError(f"{self.name} cannot be held in memory.")

    def all_for(self, part: Any) -> Any:
        """Return all rows here, but a tensor where it lies for a part with `takes_tensors`."""
        return self.here()

    def chosen(self, index: np.ndarray, beside: np.ndarray) -> tuple[Source, np.ndarray]:
        """Return some rows for one pass, and what lies beside them; all where that is cheaper."""
        return self, beside

    @property
    def at_hand(self) -> Any:
        """All rows if they are in memory, else None: for shortcuts that look at all of them."""
        return None

    @abstractmethod
    def then(self, function: Callable[[Any], Any], like: Any = None) -> Source:
        """Return the rows that a function makes of blocks of these, when they are asked for.

        `like` is a slice of none of the new rows; given, no row is computed to find their kind.
        """

    @abstractmethod
    def subset(self, index: np.ndarray) -> Source:
        """Return the rows at increasing positions as a source; nothing is read."""

    def reordered(self, order: np.ndarray) -> Source | None:
        """Return the rows in another order, nothing read; None where that makes passes slower."""
        return None

    def some(self, n: int) -> Any:
        """Return all rows if they are in memory, else the first n of them."""
        return self.take(slice(0, n)) if self.at_hand is None else self.at_hand

    def gathered(self, most: int) -> Source:
        """Return the rows; those of a cluster in memory, if they are no more than `most`."""
        return self

    def copies(self, share: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Return `unique` of rows in memory, if no more than this share of them is distinct."""
        if self.at_hand is None:
            return None
        first, inverse = unique(self.at_hand)
        return (first, inverse) if len(first) <= share * len(self) else None

    def unique(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first position of each distinct row, and which of them each row is."""
        return unique(self.here() if self.at_hand is None else self.at_hand)

    @abstractmethod
    def map(
        self,
        function: RowMap,
        tail: tuple[int, ...],
        dtype: Any,
        *,
        out: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> Any:
        """Return function(rows) of all rows, shape (n, *tail): an array, a tensor where the rows
        are one on a card, a lazy dask array where they lie on a cluster.

        Parameters
        ----------
        function : RowMap
        tail : tuple of int
        dtype : numpy dtype
        out : ndarray, optional
            Takes the results, whatever its own precision, where they come here.
        n_jobs : int, optional
        """

    @abstractmethod
    def reduce(
        self,
        reduction: Reduction,
        *beside: Any,
        progress: Progress | None = None,
        n_jobs: int | None = None,
    ) -> Any:
        """Return the sum of reduction(rows, *columns beside them) over blocks, finished.

        Parameters
        ----------
        reduction : Reduction
        *beside : Source, ndarray of n rows or None
        progress : Progress, optional
        n_jobs : int, optional
        """

    def _answered(self, questions: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [
            self.take(rest[0]) if what == "take" else self.reduce(*rest)
            for what, *rest in questions
        ]

    def collect(
        self, function: RowMap, tail: tuple[int, ...], dtype: Any, n_jobs: int | None = None
    ) -> np.ndarray:
        """Return function(rows) of all rows as an array here, a few numbers a row."""
        return self.map(function, tail, dtype, n_jobs=n_jobs)

    def map_near(
        self, function: RowMap, tail: tuple[int, ...], dtype: Any, n_jobs: int | None = None
    ) -> Any:
        """Return function(rows) of all rows, a few numbers a row, where passes compute: an array
        here, or a tensor on a card, to be given to further passes.
        """
        return self.collect(function, tail, dtype, n_jobs=n_jobs)

    def near(self, array: np.ndarray) -> Any:
        """Return numbers that lie here where passes compute: the array, or a tensor on a card."""
        return array

    def check_room(self, needed: int, what: str) -> None:
        """Raise if passes compute on a card that has less memory left than is needed."""
        return

    @abstractmethod
    def kept(
        self, function: RowMap, tail: tuple[int, ...], n_jobs: int | None = None
    ) -> Source | None:
        """Return function(rows) as a source for many passes; None if each pass must compute it.

        They are held in memory, here or by the workers of a cluster, if `memory_limits` allows it.
        If not, those of rows that can only be read in order are held in a file.
        """

    def compared(self) -> list[slice]:
        """Return slices of rows that identify the data: all rows, or a sample of those on disk."""
        return list(row_slices(len(self), limits().block_rows))

    def stamp(self) -> str:
        """Return size and time of change of the files that rows are read from, where known."""
        return ""

    def check_sketch(self, sketch: Any) -> None:
        """Raise if a sketch needs what these rows cannot give."""
        return


# How much memory a pass may take: one context, read by every engine ------------------------------


@dataclass(frozen=True)
class MemoryLimits:
    """Rows of a block, and bytes of its features; of all coordinates; of a block on a card.

    `given_bytes` are those of all coordinates if somebody gave a limit. None is as many as there
    is room for, on a device and for values that conjugate gradients keep.
    """

    block_rows: int = 8192  # long blocks keep matrix products near the peak
    block_bytes: int = 2**26
    coordinates_bytes: int = 2**31
    device_bytes: int = 2**31
    given_bytes: int | None = None


# Products of blocks of so many rows are as fast as those of longer ones.
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
        hold; more than that is computed again in each pass. None is 2048 here, and on a card what
        is free there; conjugate gradients may then keep kernel values in a quarter of the memory.
    device_mb : float, default 2048
        Megabytes of the features of a block on a card; a pass takes about three times that.

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
    held = None if coordinates_mb is None else int(coordinates_mb * 2**20)
    here = MemoryLimits.coordinates_bytes if held is None else held
    size = int(block_rows), int(block_mb * 2**20), here, int(device_mb * 2**20)
    token = _LIMITS.set(MemoryLimits(*size, held))
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
    unit = 2 ** (n_blocks.bit_length() // 2)
    return max(1, math.ceil(n / (math.ceil(n_blocks / unit) * unit)))
