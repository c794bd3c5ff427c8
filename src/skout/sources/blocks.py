"""Blocks of rows, which come one after another: checked, counted and sampled in a first pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from .._arrays import Rows, n_rows, take
from .._streams import Reservoir, Stream, join
from .._validation import check_number, check_rng
from ..sketches import as_sketch

__all__ = ["Blocks", "Opened", "check_no_targets"]

# Rows that landmarks and widths are taken from where the number of rows is not known.
_POOL_ROWS = 20_000


@dataclass(frozen=True)
class Opened:
    """Blocks as a fit reads them.

    Attributes
    ----------
    X, y : columns of a stream
        Array-likes that are read in order.
    weights : ndarray of shape (n,), optional
    pool : rows of X, optional
        A sample of them to take landmarks and widths from; None where X is to be used itself.
    pool_targets : those of the pool
    pool_weights : ndarray, optional
    """

    X: Any
    y: Any
    weights: np.ndarray | None = None
    pool: Any = None
    pool_targets: Any = None
    pool_weights: np.ndarray | None = None


class Blocks:
    """Blocks of rows in place of X and y, where the whole is too large or is made on the way.

    `KernelRidge`, `KernelMachine` and `StructuredPredictor` take it as X, with y None. The result
    does not depend on how the rows are cut into blocks.

    Parameters
    ----------
    make : callable or iterable
        A function that returns an iterator of blocks, or what can be iterated over many times. A
        block is (X, y) or (X, y, weight). A generator, which can be read once, will do where
        `fit` is given `landmarks`.
    n : int, optional
        The number of rows. Landmarks are then drawn as from an array of n rows. If it is not
        given, a first pass counts the rows and draws 20,000 of them, or as many as the sketch has,
        for the sketch to be drawn from and widths such as gamma="scale" to be taken from.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelRidge
    >>> from skout.sources import Blocks
    >>> def make():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(10):
    ...         X = rng.uniform(-3, 3, (100, 1))
    ...         yield X, np.sin(X[:, 0])
    >>> model = KernelRidge("gaussian", "subsample", 1e-6, random_state=0).fit(Blocks(make))
    >>> bool(abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 1e-2)
    True
    """

    def __init__(
        self, make: Callable[[], Iterable[Any]] | Iterable[Any], n: int | None = None
    ) -> None:
        if not callable(make) and not isinstance(make, Iterable):
            raise TypeError(
                "make must be an iterable of blocks, or a function that returns one. "
                f"Got {make!r} instead."
            )
        self.make = make
        self.n = None if n is None else int(check_number(n, "n", low=1, integer=True))

    @property
    def is_once(self) -> bool:
        """Whether there can be but one pass: blocks of a generator."""
        return not callable(self.make) and iter(self.make) is self.make

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError(
            "Blocks are not an array: give them to the fit of KernelRidge, KernelMachine or "
            "StructuredPredictor, or their parts to partial_fit."
        )

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the blocks that have rows, checked and copied: (X, y) or (X, y, weight).

        They are copied since a generator may fill the same arrays again for its next block, while
        this one is still in use.
        """
        first: tuple[Any, ...] | None = None
        made = self.make() if callable(self.make) else self.make
        if not isinstance(made, Iterable):
            raise TypeError(f"make must return an iterable of blocks. It returned {made!r}.")
        for number, given in enumerate(made):
            block = _checked(given, number)
            if first is None:
                first = block
            _check_alike(block, first, number)
            if n_rows(block[0]):
                yield block

    def merged(self, rows: int) -> Iterator[tuple[Any, ...]]:
        """Yield blocks of at least so many rows, but for the last."""
        parts: list[tuple[Any, ...]] = []
        for block in self:
            parts.append(block)
            if sum(n_rows(part[0]) for part in parts) >= rows:
                yield tuple(join(column) for column in zip(*parts, strict=True))
                parts = []
        if parts:
            yield tuple(join(column) for column in zip(*parts, strict=True))

    def open(
        self,
        random_state: Any = None,
        sketches: Sequence[Any] = (),
        visit: Callable[[Any], None] | None = None,
    ) -> Opened:
        """Return the columns to read, after a first pass if that is needed.

        Parameters
        ----------
        random_state : None, int or Generator
            Seed of the sample that a first pass takes.
        sketches : sequence of sketches
            Which will be drawn from the sample: it has as many rows as their size.
        visit : callable, optional
            Is shown the y of each block in a first pass.
        """
        if self.is_once:
            raise ValueError(
                "These blocks can be read only once, and more passes are needed. Give a function "
                "that returns a new iterator, or landmarks to the fit of KernelRidge."
            )
        head = next(iter(self), None)
        if head is None:
            raise ValueError("Found blocks with 0 sample(s): Blocks must have rows.")
        head = tuple(take(column, slice(0, 1)) for column in head)
        if self.n is not None and visit is None and len(head) == 2:
            return _columns(self, self.n, head)
        sizes = [getattr(as_sketch(sketch), "size", None) or 0 for sketch in sketches]
        size = max([_POOL_ROWS, *sizes]) if self.n is None else 1
        return self._survey(head, Reservoir(size, check_rng(random_state).spawn(1)[0]), visit)

    def _survey(
        self, head: tuple[Any, ...], reservoir: Reservoir, visit: Callable[[Any], None] | None
    ) -> Opened:
        """Count the rows, sample them and gather their weights, in one pass."""
        weights = []
        for number, block in enumerate(self):
            _check_finite(block, number, reservoir.n)
            reservoir.add(block)
            weights += [block[2]] if len(block) == 3 else []
            if visit is not None:
                visit(block[1])
        gathered = np.concatenate(weights) if weights else None
        if self.n is None:
            return _columns(self, reservoir.n, head, gathered, *reservoir.columns())
        if self.n != reservoir.n:
            raise ValueError(f"The blocks have {reservoir.n} rows, and n={self.n} was given.")
        return _columns(self, self.n, head, gathered)


def check_no_targets(y: Any, sample_weight: Any) -> None:
    """Raise where something is given beside blocks, which have it already."""
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if given is not None:
            raise ValueError(f"{name} must be None where X are Blocks, which bring their own.")


def _columns(
    blocks: Iterable[Any],
    n: int,
    head: tuple[Any, ...],
    weights: np.ndarray | None = None,
    *pool: Any,
) -> Opened:
    stream = Stream(lambda: iter(blocks), n)
    return Opened(stream.column(0, head[0]), stream.column(1, head[1]), weights, *pool)


def _checked(given: Any, number: int) -> tuple[Any, ...]:
    """Return a block as a tuple of columns of equal length."""
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        size = f" of {len(given)} things" if isinstance(given, tuple | list) else ""
        raise TypeError(
            "A block must be a tuple (X, y) or (X, y, weight). "
            f"Got {type(given).__name__}{size} as block {number}."
        )
    block = tuple(_as_column(column) for column in given)
    sizes = [n_rows(column) for column in block]
    if len(set(sizes)) > 1:
        raise ValueError(f"The parts of block {number} differ in length: {sizes}.")
    return block


def _check_alike(block: tuple[Any, ...], first: tuple[Any, ...], number: int) -> None:
    """Raise where a block has other columns than the first one."""
    if len(block) != len(first):
        raise ValueError(
            f"Block {number} has {len(block)} parts, and the first one {len(first)}: either all "
            "have weights or none."
        )
    for name, own, other in zip("Xyw", block, first, strict=False):
        shapes = [getattr(part, "shape", (0,))[1:] for part in (own, other)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{name} of block {number} has rows of shape {shapes[0]}; those of the first block "
                f"have shape {shapes[1]}."
            )


def _check_finite(block: tuple[Any, ...], number: int, start: int) -> None:
    """Raise where a first pass meets NaN or infinity; `start` rows came before."""
    for name, column in zip("Xyw", block, strict=False):
        values = column.data if sparse.issparse(column) else column
        if getattr(values, "dtype", np.dtype(object)).kind != "f" or np.isfinite(values).all():
            continue
        if sparse.issparse(column):
            bad = int(column.tocoo().row[~np.isfinite(values)].min())
        else:
            bad = int(np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))[0])
        raise ValueError(
            f"{name} contains NaN or infinity in row {start + bad}, which is row {bad} of block "
            f"{number}."
        )


def _as_column(column: Any) -> Any:
    """Return an array, a CSR matrix, or a list of objects: a copy."""
    if sparse.issparse(column):
        return column.tocsr(copy=True)
    if hasattr(column, "to_numpy"):
        return np.array(column.to_numpy())
    if hasattr(column, "shape"):
        own = isinstance(column.dtype, np.dtype) and not isinstance(column, Rows)
        return np.array(column) if own else take(column, np.arange(n_rows(column)))
    column = list(column)
    first = column[0] if column else 0.0
    while isinstance(first, list | tuple | np.ndarray) and len(first):
        first = first[0]
    is_numeric = isinstance(first, Number)
    return np.asarray(column) if is_numeric else column
