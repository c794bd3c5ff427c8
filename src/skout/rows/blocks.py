"""`Blocks`: blocks of rows in place of arrays, checked, counted and sampled in a first pass."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import n_rows, take
from .._numerics.objects import Rows, column_of
from .._numerics.typing import DType, Objects, RandomState
from .._numerics.validation import check_number, check_rng
from .disk import Disk
from .local import Memory, first_bad_row
from .source import Source, limits
from .stream import Block, Column, Reservoir, Stream, join

# Rows that are sampled for landmarks and widths where the number of rows is unknown: enough for
# sketches of some thousand, and 160 MB at 1,000 features. A convention.
_POOL_ROWS = 20_000


class Blocks:
    """Blocks of rows in place of X and y, for data too large for memory or generated on the fly.

    The `fit` of every estimator takes it as X, with y None. The result does not depend on how the
    rows are cut into blocks.

    Parameters
    ----------
    make : callable or iterable
        A function that returns an iterator of blocks, or what can be iterated over many times. A
        block is (X, y) or (X, y, weight). A generator, which can be read once, is kept for
        further passes: in memory, or in temporary files beyond what `memory_limits` allows. The
        fit of KernelRidge needs no further pass where it is given `landmarks`.
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
    >>> model = KernelRidge("gaussian", "subsample", alpha=1e-6, random_state=0).fit(Blocks(make))
    >>> bool(abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 1e-2)
    True
    """

    def __init__(
        self, make: Callable[[], Iterable[Objects]] | Iterable[Objects], n: int | None = None
    ) -> None:
        if not callable(make) and not isinstance(make, Iterable):
            raise TypeError(
                "make must be an iterable of blocks, or a function that returns one. "
                f"Got {make!r} instead."
            )
        self.make = make
        self.n: int | None = None if n is None else int(check_number(n, "n", low=1, integer=True))

    @property
    def is_once(self) -> bool:
        """Whether the blocks can be read only once, as those of a generator."""
        return not callable(self.make) and iter(self.make) is self.make

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError(
            "Blocks are not an array: give them to the fit of an estimator of skout, or their "
            "parts to partial_fit."
        )

    def __iter__(self) -> Iterator[Block]:
        """Yield the blocks that have rows, checked and copied: (X, y) or (X, y, weight).

        They are copied since a generator may fill the same arrays again for its next block, while
        this one is still in use.
        """
        first: Block | None = None
        made = self.make() if callable(self.make) else self.make
        if not isinstance(made, Iterable):
            raise TypeError(f"make must return an iterable of blocks. It returned {made!r}.")
        for number, item in enumerate(made):
            block = _checked(item, number)
            if first is None:
                first = block
            _check_alike(block, first, number)
            if n_rows(block[0]):
                yield block

    def merged(self, rows: int) -> Iterator[Block]:
        """Yield the blocks, joined to blocks of at least so many rows, but for the last.

        Parameters
        ----------
        rows : int
            Least number of rows of a block.
        """
        parts: list[Block] = []
        for block in self:
            parts.append(block)
            if sum(n_rows(part[0]) for part in parts) >= rows:
                yield tuple(join(column) for column in zip(*parts, strict=True))
                parts = []
        if parts:
            yield tuple(join(column) for column in zip(*parts, strict=True))

    def reread(self) -> Blocks:
        """Return blocks that can be read many times: these, or a copy of those of a generator."""
        return Blocks(_Spool(self), self.n) if self.is_once else self

    def open(
        self,
        seed: RandomState = None,
        size: int = 0,
        visit: Callable[[Objects], None] | None = None,
    ) -> tuple[Source, Source, np.ndarray | None]:
        """Return the rows, the targets and the weights, after a first pass if that is needed.

        Parameters
        ----------
        seed : None, int or Generator, default None
            Of the sample that a first pass takes where the number of rows is not known.
        size : int, default 0
            Least number of rows of the sample: what sketches need.
        visit : callable, optional
            Called with the y of each block in a first pass.
        """
        blocks = self.reread()
        head = next(iter(blocks), None)
        if head is None:
            raise ValueError("Found blocks with 0 sample(s): Blocks must have rows.")
        head = tuple(take(column, slice(0, 1)) for column in head)
        if self.n is not None and visit is None and len(head) == 2:
            return *_columns(blocks, self.n, head), None
        size = max(_POOL_ROWS, size) if self.n is None else 1
        reservoir = Reservoir(size, check_rng(seed).spawn(1)[0])
        weights = blocks._survey(reservoir, visit)
        if self.n not in (None, reservoir.n):
            raise ValueError(f"The blocks have {reservoir.n} rows, and n={self.n} was given.")
        sample = reservoir.columns() if self.n is None else ()
        return *_columns(blocks, reservoir.n, head, sample), weights

    def _survey(
        self, reservoir: Reservoir, visit: Callable[[Objects], None] | None
    ) -> np.ndarray | None:
        """Count the rows, sample them and gather their weights, in one pass."""
        weights = []
        for number, block in enumerate(self):
            _check_finite(block, number, reservoir.n)
            reservoir.add(block)
            weights += [np.array(block[2])] if len(block) == 3 else []
            if visit is not None:
                visit(block[1])
        return np.concatenate(weights) if weights else None


class _Spool:
    """Blocks of a generator, kept: arrays in memory, or in files beyond a limit."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._folder: Path | None = None
        self._blocks: list[Block] = []
        held = 0
        for number, block in enumerate(blocks):
            held += sum(_n_bytes(column) for column in block)
            if held > limits().coordinates_bytes:
                block = tuple(self._filed(c, f"{number}-{i}") for i, c in enumerate(block))
            self._blocks.append(block)

    def _filed(self, column: Objects, name: str) -> Objects | Path:
        """Return the path of a file that has the column; objects stay in memory."""
        is_array = isinstance(column, np.ndarray) and column.dtype.kind in "biuf"
        if not is_array and not sparse.issparse(column):
            return column
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="skout-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / (f"{name}.npy" if is_array else f"{name}.npz")
        if isinstance(column, np.ndarray):
            np.save(path, column)
        else:
            sparse.save_npz(path, column, compressed=False)
        return path

    def __iter__(self) -> Iterator[Block]:
        for block in self._blocks:
            yield tuple(_loaded(column) for column in block)


def _n_bytes(column: Objects) -> int:
    parts = (column.data, column.indices, column.indptr) if sparse.issparse(column) else (column,)
    return sum(getattr(part, "nbytes", 0) for part in parts)


def _loaded(column: Objects | Path) -> Objects:
    if not isinstance(column, Path):
        return column
    is_sparse = column.suffix == ".npz"
    loaded: Objects = sparse.load_npz(column) if is_sparse else np.load(column, allow_pickle=False)
    return loaded


def _columns(
    blocks: Iterable[Block], n: int, head: Block, sample: Block = ()
) -> tuple[Source, Source]:
    """Return X and y of blocks, with a sample of their rows where there is one."""
    stream = Stream(lambda: iter(blocks), n)
    X, y = (Disk(Column(stream, i, head[i]), name) for i, name in enumerate("Xy"))
    if sample:
        weights = sample[2] if len(sample) > 2 else None
        for column, rows in zip((X, y), sample, strict=False):
            column.pool = Memory(rows, column.name), weights
    return X, y


def _checked(item: object, number: int) -> Block:
    """Return a block as a tuple of columns of equal length."""
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        size = f" of {len(item)} things" if isinstance(item, tuple | list) else ""
        raise TypeError(
            "A block must be a tuple (X, y) or (X, y, weight). "
            f"Got {type(item).__name__}{size} as block {number}."
        )
    block = tuple(_as_column(column) for column in item)
    sizes = [n_rows(column) for column in block]
    if len(set(sizes)) > 1:
        raise ValueError(f"The parts of block {number} differ in length: {sizes}.")
    return block


def _check_alike(block: Block, first: Block, number: int) -> None:
    """Raise if a block has other columns than the first one."""
    if len(block) != len(first):
        raise ValueError(
            f"Block {number} has {len(block)} parts, and the first one {len(first)}: either all "
            "have weights or none."
        )
    for name, *pair in zip("Xyw", block, first, strict=False):
        shapes = [getattr(column, "shape", (0,))[1:] for column in pair]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{name} of block {number} has rows of shape {shapes[0]}; those of the first block "
                f"have shape {shapes[1]}."
            )


def _check_finite(block: Block, number: int, start: int) -> None:
    """Raise if a block of the first pass has NaN or infinity; `start` rows came before it.

    NaN in y may be a missing target, which estimators check for.
    """
    for name, column in zip("Xyw", block, strict=False):
        if name == "y" and getattr(column, "dtype", np.dtype(object)).kind == "f":
            column = np.where(np.isnan(column), 0.0, column)
        bad = first_bad_row(column) if hasattr(column, "dtype") else None
        if bad is not None:
            raise ValueError(
                f"{name} contains NaN or infinity in row {start + bad[0]}, which is row {bad[0]} "
                f"of block {number}."
            )


def _as_column(objects: Objects) -> Objects:
    """Return a copy of a column of a block: an array, a CSR matrix, or a list of objects."""
    if sparse.issparse(objects):
        matrix: Objects = objects.tocsr(copy=True)
        return matrix
    column: Any = column_of(objects)
    if hasattr(column, "to_numpy"):
        return np.array(column.to_numpy())
    if hasattr(column, "shape"):
        is_plain = isinstance(column.dtype, np.dtype) and not isinstance(column, Rows)
        return np.array(column) if is_plain else take(column, np.arange(n_rows(column)))
    column = list(column)
    first = column[0] if column else 0.0
    while isinstance(first, list | tuple | np.ndarray) and len(first):
        first = first[0]
    is_numeric = isinstance(first, Number)
    return np.asarray(column) if is_numeric else column
