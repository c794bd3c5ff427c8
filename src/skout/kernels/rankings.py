"""Kernels on rankings, by explicit features: k(a, b) = features(a) . features(b).

A ranking of d items is a row of d ranks: `ranks[i, j]` is the place of item j, the best has 0. The
three maps are those of Korba, Garcia and d'Alche-Buc, "A structured prediction approach for label
ranking" (2018); `skout.decoding.RankingDecoder` inverts them.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from .._numerics.arrays import float_dtype
from .._numerics.typing import Array, Objects
from .._numerics.validation import check_choice
from ..rows.encode import check_matrix
from .base import Block
from .vectors import Linear, VectorKernel


class RankingKernel(VectorKernel):
    """Base of the kernels on rankings. Of one item there is one ranking, and k = 1."""

    compares = "rankings"
    normalized = True

    def encode(self, objects: Objects) -> Array:
        """Return dense ranks from 0, in float32 or float64; rows may count from 0 or from 1."""
        rows = check_matrix(objects, accept_sparse=False)
        d = rows.shape[1]
        low = rows.min(axis=1, keepdims=True)
        proper = (np.sort(rows, axis=1) == low + np.arange(d, dtype=rows.dtype)).all(axis=1)
        wrong = np.flatnonzero(~proper | ~np.isin(low[:, 0], (0.0, 1.0)))
        if len(wrong):
            row = np.array2string(rows[wrong[0]], threshold=20, max_line_width=400)
            raise ValueError(
                f"{type(self).__name__} takes rankings: each row must be a permutation of "
                f"0..{d - 1} or of 1..{d}. Row {wrong[0]} is {row}.{self._hint()}"
            )
        return rows - low if low.any() else rows

    def _hint(self) -> str:
        """Return what an error suggests for rows that are no rankings."""
        return ""

    def features(self, rows: Array) -> np.ndarray:
        """Return vectors, shape (n, q), whose inner products are the kernel of encoded rows."""
        if rows.shape[1] == 1:
            return np.ones((len(rows), 1), dtype=float_dtype(rows))
        return self._features(rows)

    @abstractmethod
    def _features(self, rows: np.ndarray) -> np.ndarray:
        """Return the features of rankings of two items or more."""

    def against(self, B: Array) -> Block:
        linear = Linear().against(self.features(B))
        return lambda A, out=None: linear(self.features(A), out)

    def diag(self, A: Array) -> np.ndarray:
        return np.ones(len(A)) if self.normalized else Linear().diag(self.features(A))


class Kendall(RankingKernel):
    """Kendall's tau as a kernel: the share of pairs of items in the same order minus the others.

    A feature a pair i < j: sign(rank_j - rank_i) / sqrt(d(d-1)/2), that is +1 where i comes first.

    Parameters
    ----------
    ties : bool, default False
        Whether ranks may be equal. Rows are then any finite numbers, of which only the order
        counts; a pair that is tied has the feature 0, and k(y, y) is the share of the others.
        Normalized(Kendall(ties=True)) is the statisticians' tau-b.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Kendall
    >>> Kendall()(np.array([[0, 1, 2], [0, 2, 1], [2, 1, 0]])).round(4)
    array([[ 1.    ,  0.3333, -1.    ],
           [ 0.3333,  1.    , -0.3333],
           [-1.    , -0.3333,  1.    ]])
    """

    def __init__(self, ties: bool = False) -> None:
        self.ties = ties

    @property
    def normalized(self) -> bool:  # type: ignore[override]
        return not self.ties

    def encode(self, objects: Objects) -> Array:
        """Return dense ranks from 0, in float32 or float64; with ties, equal numbers share one."""
        check_choice(self.ties, "ties", (False, True))
        if not self.ties:
            return super().encode(objects)
        return _dense_ranks(check_matrix(objects, accept_sparse=False))

    def _hint(self) -> str:
        return " If ranks may be equal, use Kendall(ties=True)."

    def _features(self, rows: np.ndarray) -> np.ndarray:
        first, second = np.triu_indices(rows.shape[1], k=1)
        signs: np.ndarray = np.sign(rows[:, second] - rows[:, first]).astype(
            float_dtype(rows), copy=False
        )
        signs *= signs.dtype.type(len(first) ** -0.5)
        return signs


def _dense_ranks(rows: np.ndarray) -> np.ndarray:
    """Return for each number how many different smaller ones its row has."""
    order = np.argsort(rows, axis=1)
    ordered = np.take_along_axis(rows, order, axis=1)
    rank = np.zeros(rows.shape, dtype=rows.dtype)
    np.cumsum(ordered[:, 1:] > ordered[:, :-1], axis=1, out=rank[:, 1:])
    ranks = np.empty_like(rank)
    np.put_along_axis(ranks, order, rank, axis=1)
    return ranks


class RankHamming(RankingKernel):
    """Hamming kernel of rankings: the share of the items that have the same rank in both.

    A feature an item j and a rank r, in the order j d + r: 1[rank_j = r] / sqrt(d).

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import RankHamming
    >>> float(RankHamming()(np.array([[0, 1, 2]]), np.array([[0, 2, 1]]))[0, 0].round(4))
    0.3333
    """

    def _features(self, rows: np.ndarray) -> np.ndarray:
        n, d = rows.shape
        dtype = float_dtype(rows)
        same = rows[:, :, None] == np.arange(d)  # (n, d, d)
        features: np.ndarray = same.reshape(n, d * d) * dtype.type(d**-0.5)
        return features


class Lehmer(RankingKernel):
    """Kernel of Lehmer codes c_j = #{i < j : rank_i > rank_j}, (c(a) - m) . (c(b) - m) / v.

    The code has d digits, c_j in 0..j, and every code is that of one ranking. Its mean over all
    rankings, m_j = j/2, is subtracted: distances stay the same, and a penalty draws predictions to
    the mean and not to one ranking; v = d(d-1)(2d+5)/72 makes the mean of k(y, y) one.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Lehmer
    >>> Lehmer()(np.array([[0, 1, 2], [2, 1, 0]])).round(4)
    array([[ 1.3636, -1.3636],
           [-1.3636,  1.3636]])
    """

    normalized = False

    def _features(self, rows: np.ndarray) -> np.ndarray:
        mean, deviation = _code_moments(rows.shape[1])
        return ((lehmer_codes(rows) - mean) / deviation).astype(float_dtype(rows), copy=False)

    def codes(self, features: np.ndarray) -> np.ndarray:
        """Return the codes, not rounded, of vectors in the space of the features, both (n, d)."""
        mean, deviation = _code_moments(features.shape[1])
        return features * deviation + mean


def _code_moments(d: int) -> tuple[Array, float]:
    """Return the mean of the codes of all rankings, and the root of their total variance."""
    return np.arange(d) / 2.0, (d * (d - 1) * (2 * d + 5) / 72.0) ** 0.5


def lehmer_codes(ranks: np.ndarray) -> np.ndarray:
    """Return c_j = #{i < j : rank_i > rank_j} of each row, from 0 to j.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels.rankings import lehmer_codes
    >>> lehmer_codes(np.array([[2, 0, 1]]))
    array([[0, 1, 1]])
    """
    codes = np.empty(ranks.shape, dtype=np.int64)
    for j in range(ranks.shape[1]):
        codes[:, j] = np.count_nonzero(ranks[:, :j] > ranks[:, j, None], axis=1)
    return codes


def ranks_of_codes(codes: np.ndarray) -> np.ndarray:
    """Return the rankings of Lehmer codes: item j enters before c_j of the items 0..j-1.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels.rankings import ranks_of_codes
    >>> ranks_of_codes(np.array([[0, 1, 1]]))
    array([[2, 0, 1]])
    """
    ranks = np.empty(codes.shape, dtype=np.int64)
    for j in range(codes.shape[1]):
        ranks[:, j] = j - codes[:, j]
        ranks[:, :j] += ranks[:, :j] >= ranks[:, j, None]
    return ranks
