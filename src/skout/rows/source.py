"""Rows, wherever they lie: what estimators may ask of them.

An estimator fits in two passes, `survey` and `reduce`, and predicts in one, `map`:

    source -> encode, lazily -> survey: widths, landmarks -> reduce: moments -> solve
    source -> encode, lazily -> map: predictions

Engines (`Memory`, `Disk`, `Stream`, `Dask`, `Device`) say how a pass is made. Nobody else asks
where rows lie.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._arrays import float_dtype

__all__ = ["Progress", "Reduction", "RowMap", "Source", "Survey"]


class RowMap(ABC):
    """What a pass makes of each block of rows: one result a row."""

    #: float64 numbers that it holds for each row while it works
    width: int = 1

    @abstractmethod
    def __call__(self, rows: Any, out: np.ndarray | None = None) -> Any:
        """Return the results of a block, shape (b, ...); in `out` if that is given, or not."""

    def on(self, device: Any, rows: Any) -> RowMap:
        """Return what does the same on a device with blocks of such rows."""
        return self


class Reduction(ABC):
    """What a pass makes of all rows: a part of each block, and their sum in the order of the rows.

    A part may be of any type. Parts are put together two at a time, and `total` may be changed.
    """

    #: float64 numbers that it holds for each row while it works
    width: int = 1

    @abstractmethod
    def __call__(self, rows: Any, *beside: Any) -> Any:
        """Return the part of a block of rows, and of what lies beside them."""

    def combine(self, total: Any, part: Any) -> Any:
        """Return the sum of two parts."""
        return total + part

    def finish(self, total: Any) -> Any:
        """Return the result, here."""
        return total

    def on(self, device: Any, rows: Any) -> Reduction:
        """Return what does the same on a device with blocks of such rows."""
        return self


class Progress:
    """Is told how far a pass is; one that keeps what it is told can resume a pass."""

    def begin(self, n_blocks: int) -> tuple[int, Any]:
        """Return how many blocks are done already, and the sum over them."""
        return 0, None

    def advance(self, done: int, total: Any) -> None:
        """Take note of the sum over the first blocks."""


class Survey:
    """Questions about rows that one pass over them answers, before anything is fitted.

    Ask with `take` and `reduce`, each of which returns a number; `answers` then has as many
    entries after `run`.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.questions: list[tuple[Any, ...]] = []
        self.answers: list[Any] = []

    def take(self, index: np.ndarray) -> int:
        """Ask for some rows, encoded, in the order of the index."""
        return self._ask(("take", index))

    def reduce(self, reduction: Reduction, *beside: Any) -> int:
        """Ask for a sum over all rows."""
        return self._ask(("reduce", reduction, *beside))

    def _ask(self, question: tuple[Any, ...]) -> int:
        self.questions.append(question)
        return len(self.questions) - 1

    def run(self) -> list[Any]:
        """Pass over the rows, and return the answers."""
        self.answers = self.source._answered(self.questions)
        return self.answers


class Source(ABC):
    """Rows, encoded, wherever they lie.

    Attributes
    ----------
    name : str
        What messages call them.
    like : rows
        None or one of them, here: what kind they are of.
    rereadable : bool
        Whether there can be more than one pass.
    """

    name: str = "X"
    like: Any
    rereadable: bool = True

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
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype:
        return getattr(self.like, "dtype", np.dtype(object))

    @property
    def precision(self) -> np.dtype:
        """The precision of kernel values: float32 of float32 rows, else float64."""
        return float_dtype(self)

    @abstractmethod
    def take(self, index: Any) -> Any:
        """Return some rows here: a slice, or positions in any order."""

    def __getitem__(self, index: Any) -> Any:
        return self.take(index)

    def here(self) -> Any:
        """Return all rows here."""
        return self.take(slice(0, len(self)))

    @abstractmethod
    def then(self, function: Callable[[Any], Any], like: Any = None) -> Source:
        """Return the rows that a function makes of blocks of these, when they are asked for.

        `like`, none of the new rows, saves a look at one where that is costly.
        """

    @abstractmethod
    def subset(self, index: np.ndarray) -> Source:
        """Return some of the rows, at increasing positions, where they are."""

    @abstractmethod
    def map(
        self,
        function: RowMap,
        tail: tuple[int, ...],
        dtype: Any,
        *,
        limit: int | None = None,
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
        limit : int, optional
            Most rows of a block.
        out : ndarray, optional
            Takes the results, whatever its own precision, where they come here.
        n_jobs : int, optional
        """

    @abstractmethod
    def reduce(
        self,
        reduction: Reduction,
        *beside: Any,
        limit: int | None = None,
        progress: Progress | None = None,
        n_jobs: int | None = None,
    ) -> Any:
        """Return the sum of reduction(rows, *columns beside them) over blocks, finished.

        Parameters
        ----------
        reduction : Reduction
        *beside : Source, ndarray of n rows or None
        limit : int, optional
            Most rows of a block.
        progress : Progress, optional
        n_jobs : int, optional
        """

    def survey(self) -> Survey:
        """Return a list to put questions on, which one pass will answer."""
        return Survey(self)

    def _answered(self, questions: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [
            self.take(rest[0]) if what == "take" else self.reduce(*rest)
            for what, *rest in questions
        ]

    @abstractmethod
    def kept(self, function: RowMap, tail: tuple[int, ...], n_jobs: int | None = None) -> Source:
        """Return function(rows) as rows for many passes.

        They are held if they fit the memory that `memory_limits` allows: here, or by the workers
        of a cluster. If not, they are made again in each pass, or put into a file.
        """

    def on(self, device: Any) -> Source:
        """Return the rows with passes that run on a device; None is where they are."""
        if device is None or device == "cpu":
            return self
        raise ValueError(
            f"device={device!r} is for rows that this process reads. {self.name} lies on a "
            "cluster: leave out device=."
        )

    def check_sketch(self, sketch: Any) -> None:
        """Raise where a sketch wants what these rows cannot give."""
