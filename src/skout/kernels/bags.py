"""Bags of features: kernels with explicit features, named by 64-bit hashes and counted.

k(a, b) = sum over features u of count_u(a) count_u(b): a product of two sparse matrices whose
columns are hashes. Strings and graphs become bags; nothing is learned from data to make them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from scipy import sparse

from .._numerics.arrays import row_slices
from .._numerics.objects import Ragged, pointers
from .._numerics.typing import Objects
from .base import Block, Kernel

# Features that at least this share of the landmarks has are multiplied as a dense matrix. Half and
# double: 0.94 and 1.33 times as long for 2,000 small graphs, 0.87 and 1.07 for 3,000 strings.
_DENSE_SHARE = 0.1
# Numbers of that dense matrix, at most: 256 MB.
_DENSE_LIMIT = 2**25
# Numbers of a Gram block, or of its dense features, that are made at a time: 8 MB. A quarter takes
# 1.17 times as long, more gains nothing.
_PRODUCT = 2**20
# Rows are sorted as a table if that has at most so many times more cells than there are values. For
# 20,000 rows of 8 values the table takes 0.1 times as long as one sort at 4, and as long at 9.
_PADDING = 4
# The constants of splitmix64 (Steele, Lea and Flood, 2014), see `mix`.
ODD = 0x9E3779B97F4A7C15
_BITS = 2**64 - 1


def mix(numbers: np.ndarray, salt: int = 0) -> np.ndarray:
    """Return well-mixed 64-bit numbers; one salt makes a one-to-one map (splitmix64).

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels.bags import mix
    >>> mix(np.array([1, 2], dtype=np.uint64)).tolist()
    [10451216379200822465, 10905525725756348110]
    """
    x = numbers + np.uint64((salt + 1) * ODD & _BITS)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


class Bags(Ragged):
    """Bags of features (uint64): in a row they increase, and their counts are not zero.

    `maker` identifies the kernel that made them: bags of different makers cannot be compared.
    """

    def __init__(
        self, indptr: np.ndarray, features: np.ndarray, counts: np.ndarray, maker: str = ""
    ) -> None:
        super().__init__(indptr, features, counts)
        self.maker = maker

    def like(self, indptr: np.ndarray, *columns: np.ndarray) -> Self:
        features, counts = columns
        return type(self)(indptr, features, counts, self.maker)

    @property
    def features(self) -> np.ndarray:
        return self.columns[0]

    @property
    def counts(self) -> np.ndarray:
        return self.columns[1]

    @classmethod
    def collect(
        cls, n: int, row: np.ndarray, features: np.ndarray, counts: float | np.ndarray = 1.0
    ) -> Self:
        """Return the bags of n objects from a list of occurrences, in any order.

        Occurrence i is of features[i] in object row[i], and weighs counts[i], or `counts` if that
        is a number; weights of one feature in one object are added up.
        """
        if np.ndim(counts) == 0:
            row, features = _sort_by_row(row, features, n)
            each = np.full(len(row), counts, dtype=np.float64)
        else:
            order = _order(row, n, np.argsort(features))
            row, features = row[order], features[order]
            each = np.asarray(counts, dtype=np.float64)[order]
        is_first = np.ones(len(row), dtype=bool)
        is_first[1:] = (row[1:] != row[:-1]) | (features[1:] != features[:-1])
        first = np.flatnonzero(is_first)
        totals = np.add.reduceat(each, first) if len(first) else each
        indptr = np.searchsorted(row[first], np.arange(n + 1))
        return cls(indptr, features[first], totals)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        makers = {part.maker for part in parts}
        if len(makers) > 1:
            raise ValueError(f"Bags of different kernels cannot be joined. Got {sorted(makers)}.")
        return super().concatenate(parts)

    def squared_norms(self) -> np.ndarray:
        """Return the sum of squared counts of each bag."""
        # not by running sums, whose rounding would depend on the other bags
        norms, has_any = np.zeros(len(self)), self.lengths > 0
        if has_any.any():
            norms[has_any] = np.add.reduceat(self.counts**2, self.indptr[:-1][has_any])
        return norms


def work_slices(work: np.ndarray, most: int) -> Iterator[slice]:
    """Yield slices of items of about `most` work each; of no items, one empty slice."""
    number = np.cumsum(work) // max(1, most)
    ends = np.flatnonzero(np.diff(number)) + 1
    for start, stop in zip([0, *ends], [*ends, len(work)], strict=True):
        yield slice(int(start), int(stop))


def sort_within(lengths: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return unsigned integers sorted within parts of the given lengths.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels.bags import sort_within
    >>> sort_within(np.array([2, 0, 3]), np.array([9, 5, 4, 8, 1], dtype=np.uint64)).tolist()
    [5, 9, 1, 4, 8]
    """
    width = lengths.max(initial=0)
    if len(lengths) * width > _PADDING * len(values):
        row = np.repeat(np.arange(len(lengths)), lengths)
        ordered: np.ndarray = values[_order(row, len(lengths), np.argsort(values))]
        return ordered
    # one short sort a row, after what fills the rows up; much faster than one long sort
    table = np.full((len(lengths), width), np.iinfo(values.dtype).max, dtype=values.dtype)
    used = np.arange(width) < lengths[:, None]
    table[used] = values
    table.sort(axis=1)
    return table[used]


def _sort_by_row(row: np.ndarray, features: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and features sorted by row, then by feature."""
    if np.any(row[1:] < row[:-1]):
        features = features[_order(row, n, np.arange(len(row)))]
    lengths = np.bincount(row, minlength=n)
    return np.repeat(np.arange(n), lengths), sort_within(lengths, features)


def _order(row: np.ndarray, n: int, order: np.ndarray) -> np.ndarray:
    """Return `order`, stably sorted by row: by digits of 16 bits, which numpy sorts by counting."""
    for shift in range(0, max(1, n - 1).bit_length(), 16):
        digit = (row[order] >> shift).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
    return order


class _RightBags:
    """Fixed bags B, prepared for products A B' with many blocks of bags A.

    Features that many of B have make a dense matrix, the others a sparse one.
    """

    def __init__(self, B: Bags) -> None:
        self._m = len(B)
        order = np.argsort(B.features)
        features = B.features[order]
        starts = np.flatnonzero(np.append(True, features[1:] != features[:-1]))[: len(features)]
        self._vocabulary = features[starts]
        carriers = np.diff(np.append(starts, len(features)))
        common = np.flatnonzero(carriers >= _DENSE_SHARE * self._m)
        common = common[np.argsort(-carriers[common], kind="stable")]
        common = common[: _DENSE_LIMIT // max(1, self._m)]
        # the place of a feature in the dense matrix, -1 for those in the sparse one
        self._place = np.full(len(carriers), -1, dtype=np.int32)
        self._place[common] = np.arange(len(common))
        place = np.repeat(self._place, carriers)
        row, counts = B.row_numbers[order].astype(np.int32), B.counts[order]
        dense, rest = place >= 0, place < 0
        self._common = np.zeros((len(common), self._m))
        self._common[place[dense], row[dense]] = counts[dense]
        # sorted by feature, these are the rows of B' already
        indptr = pointers(np.where(self._place < 0, carriers, 0))
        self._rare = sparse.csr_matrix(
            (counts[rest], row[rest], indptr), shape=(len(carriers), self._m)
        )

    def product(self, A: Bags, out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense product A B'."""
        if out is None:
            out = np.empty((len(A), self._m))
        # few rows at a time: what is made on the way, of b x m numbers or b x common ones, is small
        for rows in row_slices(len(A), max(64, _PRODUCT // max(1, *self._common.shape))):
            self._fill(A[rows], out[rows])
        return out

    def _fill(self, A: Bags, out: np.ndarray) -> None:
        if len(self._vocabulary) == 0:
            out[...] = 0.0
            return
        column = np.searchsorted(self._vocabulary, A.features)
        column[column == len(self._vocabulary)] = 0
        in_both = self._vocabulary[column] == A.features
        column, row, counts = column[in_both], A.row_numbers[in_both], A.counts[in_both]
        place = self._place[column]
        is_common, rest = place >= 0, place < 0
        dense = np.zeros((len(A), len(self._common)))
        dense[row[is_common], place[is_common]] = counts[is_common]
        np.matmul(dense, self._common, out=out)
        if rest.any():
            indptr = pointers(np.bincount(row[rest], minlength=len(A)))
            left = sparse.csr_matrix(
                (counts[rest], column[rest], indptr), shape=(len(A), len(self._vocabulary))
            )
            out += (left @ self._rare).toarray()


class BagKernel(Kernel):
    """Base of the kernels whose features are counted. Its authors write `_bags`."""

    @abstractmethod
    def _bags(self, objects: Objects) -> Bags:
        """Return the bags of the objects."""

    def _maker(self) -> str:
        """Return a text that is equal for kernels whose bags can be compared with each other."""
        params = [
            (name, value.item() if isinstance(value, np.generic) else value)
            for name, value in self.get_params().items()
        ]
        return repr(sorted(params, key=str)) + type(self).__name__

    def encode(self, objects: Objects) -> Bags:
        """Return the bags of features of the objects."""
        maker = self._maker()
        if isinstance(objects, Bags):
            if objects.maker != maker:
                raise ValueError(
                    f"{self!r} got bags of features that another kernel made. Give the objects "
                    "themselves."
                )
            return objects
        bags = self._bags(objects)
        bags.maker = maker
        return bags

    def against(self, B: Bags) -> Block:
        return _RightBags(B).product

    def diag(self, A: Bags) -> np.ndarray:
        return A.squared_norms()
