"""Rankings: rows of ranks, the place of each item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from .._numerics.typing import Candidates, Ints, Objects, Rows
from ..decoding import Decoder, RankingDecoder, kemeny
from ..kernels import Kendall
from ..metrics.objects import row_taus
from .base import Cells, Coordinates, Kind, values_of

# Items up to which the best ranking is computed exactly: the time of `kemeny` is of order 2^items.
_MOST_ITEMS = 11


@dataclass(frozen=True)
class Rankings(Kind):
    """Rows of the ranks of items; equal ranks are ties.

    In tables a column of texts such as a>b>c, or a column of ranks for each item, the best of which
    has the lowest.
    """

    name = "rankings"
    kernel: ClassVar[Kendall] = Kendall()
    metric = "kendall_tau"
    baseline_name = "the consensus ranking"
    style: ClassVar[str] = "order"
    part: ClassVar[str] = "item "
    separator: ClassVar[str] = ">"

    items: Sequence[str] = ()
    first: int = 0  # the rank of the best, in columns of ranks

    def recognizes(self, Y: Objects) -> bool:
        values = values_of(Y)
        if sparse.issparse(values) or values.ndim != 2 or values.shape[1] < 2:
            return False
        whole = values[np.all(values == values, axis=1)]  # rows without NaN
        return len(whole) > 0 and are_permutations(whole)

    def check(self, Y: Objects) -> np.ndarray:
        ranks = np.asarray(super().check(Y))
        Kendall(ties=not are_permutations(ranks)).encode(ranks)  # raises
        return ranks

    def basis(self, Y: Objects, random_state: int) -> Any:
        if are_permutations(Y):
            return PairOrders()
        return super().basis(Y, random_state).set_params(kernel=Kendall(ties=True))

    def decoders(self, Y: Objects) -> dict[str, Decoder]:
        decoders: dict[str, Decoder] = {"borda": BordaDecoder()}
        if np.shape(Y)[1] <= _MOST_ITEMS:
            decoders["kemeny"] = RankingDecoder(_MOST_ITEMS)
        return decoders

    def is_binary(self, Y: Objects) -> bool:
        return are_permutations(Y)

    def baseline(self, Y: Objects, sample_weight: np.ndarray | None = None) -> Any:
        """Return the consensus ranking: Kemeny's for few items, else the order of mean ranks."""
        ranks = np.asarray(Y)
        if ranks.shape[1] <= _MOST_ITEMS:
            before = [np.average(r[:, None] < ranks, 0, sample_weight) for r in ranks.T]
            return kemeny(np.array(before), _MOST_ITEMS)[None] + ranks.min()
        order = np.argsort(np.average(ranks, axis=0, weights=sample_weight), kind="stable")
        return np.argsort(order, kind="stable")[None] + ranks.min()

    def row_scores(self, true: Objects, pred: Objects) -> np.ndarray:
        return row_taus(np.asarray(true), np.asarray(pred))

    def measures(self, true: Objects, pred: Objects) -> dict[str, np.ndarray]:
        taus = self.row_scores(true, pred)
        return {self.metric: taus, "exact_matches": (taus > 1.0 - 1e-12).astype(float)}

    def reads_text(self, n_columns: int) -> bool:
        return n_columns == 1

    def named(self, columns: Sequence[str]) -> Self:
        return replace(self, items=list(columns))

    def learn(self, cells: Cells, columns: Sequence[str]) -> Self:
        if self.items or not len(cells):
            return self
        if isinstance(cells, np.ndarray):
            return replace(self.named(columns), first=int(cells[0].min()))
        return replace(self, items=sorted(set(self.split(cells[:1])[0])))

    def read(self, cells: Cells) -> np.ndarray:
        """Return the ranks of items, from 0, shape (n, n_items)."""
        if isinstance(cells, np.ndarray):
            # the ranks of candidates may start at another number than those of training
            ranks: np.ndarray = cells - cells.min(axis=1, keepdims=True)
            proper = np.sort(ranks, axis=1) == np.arange(ranks.shape[1])
            for row in cells[~proper.all(axis=1)]:
                raise self._wrong(str(row))
            return ranks
        number = {item: j for j, item in enumerate(self.items)}
        ranks = np.empty((len(cells), len(self.items)))
        for row, cell, order in zip(ranks, cells, self.split(cells), strict=True):
            if sorted(order) != list(self.items):
                raise self._wrong(cell, ", with > between them")
            row[[number[item] for item in order]] = np.arange(len(order))
        return ranks

    def _wrong(self, shown: str, form: str = "") -> ValueError:
        """Return the error for a cell that is no ranking."""
        return ValueError(
            f"{shown!r}, which is no ranking of the {len(self.items)} items "
            f"{', '.join(self.items)}, each once{form}."
        )

    def to_columns(self, objects: Objects) -> np.ndarray:
        ranks = np.asarray(objects, dtype=int)
        lowest: Ints = ranks.min(axis=1, keepdims=True)
        return ranks - lowest + self.first

    def words(self, objects: Objects) -> list[list[str]]:
        orders = np.argsort(np.asarray(objects), axis=1, kind="stable")
        return [[self.items[j] for j in order] for order in orders]

    def split(self, cells: Cells) -> list[list[str]]:
        return [[word.strip() for word in cell.split(">") if word.strip()] for cell in cells]


def are_permutations(Y: Objects) -> bool:
    """Whether every row is a permutation of 0..d-1, or of 1..d."""
    Y = np.asarray(Y)
    if Y.ndim != 2 or Y.dtype.kind not in "biuf":
        return False
    low = Y.min(axis=1, keepdims=True) if Y.size else Y
    proper = np.sort(Y, axis=1) == low + np.arange(Y.shape[1])
    return bool(np.all(proper) and np.all(np.isin(low, (0, 1))))


class PairOrders(Coordinates):
    """Coordinates of rankings: the features of Kendall's kernel.

    They are the order of each pair of items, 1 or -1, over the root of the number of pairs.
    """

    def fit(self, Y: Objects, y: Objects | None = None) -> PairOrders:
        """Store the kernel and the number of pairs of d items, from ranks of shape (n, d)."""
        self.kernel_: Kendall = Kendall()
        self.landmarks_: Rows = self.kernel_.encode(Y[:2])
        self.rank_: int = self.kernel_.features(self.landmarks_).shape[1]
        return self

    def transform(self, Y: Objects) -> np.ndarray:
        """Return the features of rankings, shape (n, d (d - 1) / 2)."""
        return np.asarray(self.kernel_.features(self.kernel_.encode(Y)), dtype=np.float64)

    def combine(self, values: Objects) -> np.ndarray:
        """Return the identity: coordinates are the features of the kernel."""
        return np.eye(self.rank_)


class BordaDecoder(RankingDecoder):
    """Decode rankings by the Borda rule: sort items by the sum of their predicted pair orders.

    The order that agrees with most pairs, which `RankingDecoder` finds, follows even pairs that are
    nearly even; sums over pairs average their errors. It takes no search, for any number of items.
    """

    def decode(self, F: np.ndarray, candidates: Candidates = None) -> np.ndarray:
        """Return the ranking of each row of coordinates; items of equal sums keep their order."""
        self._refuse(candidates)
        first, second = np.triu_indices(self.n_items_, k=1)
        votes = np.zeros((len(F), self.n_items_))
        for pair, i, j in zip((F @ self.directions_).T, first, second, strict=True):
            votes[:, i] += pair
            votes[:, j] -= pair
        order = np.argsort(-votes.round(12), axis=1, kind="stable")
        return np.argsort(order, axis=1, kind="stable") + self._best_rank
