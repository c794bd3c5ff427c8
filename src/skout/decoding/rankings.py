"""Decode over all rankings of d items, without candidates."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.utils.validation import check_array, check_is_fitted

from .._numerics.arrays import row_slices
from .._numerics.threads import held_blas, map_blocks
from .._numerics.typing import Array, Candidates, Floats, Ints, Objects
from .._numerics.validation import check_number
from ..basis import KernelBasis
from ..kernels.rankings import Kendall, Lehmer, RankHamming, ranks_of_codes
from ..rows import block_rows
from ..rows.encode import numbers_in
from .base import Decoder

# Rows that the search over all orders takes at a time: more leave the cache, fewer cost calls.
# 4,000 rankings of 6, 8 and 10 items: half takes 1.35, 1.15 and 0.95 times as long, double 1.04,
# 0.78 and 0.97.
_SEARCH_ROWS = 512
# Gains below this, relative to the weights, are rounding.
_ROUNDING = 1e-12


class RankingDecoder(Decoder):
    """Find the ranking nearest to predicted coordinates, without candidates.

    With features k(a, b) = phi(a) . phi(b) the coordinates f stand for the vector g = f D, D the
    basis functions as vectors, and the ranking sought is arg max of 2 g . phi(c) - k(c, c):

    - `Kendall`: the order with the largest sum of g_ij over i before j, as in `kemeny`; exact up
      to `max_exact` items or where g has no cycle, else by local search, with a warning.
    - `RankHamming`: the best assignment of items to ranks, exact.
    - `Lehmer`: the nearest code, digit by digit, exact.

    Rankings are rows of int64, shape (n, d): the place of each item, where the best has 0, or 1 if
    the training outputs count from 1.

    With Kendall(ties=True) it is the best ranking without ties. Of equally good rankings the one
    that puts the lowest item first, then the lowest of the others, is found by the search over all
    orders; the other searches are deterministic too.

    Parameters
    ----------
    max_exact : int, default 10
        Most items for which Kendall's order is found exactly. Time and memory are d 2^d a row.
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.

    Attributes
    ----------
    kernel_ : Kendall, RankHamming or Lehmer
    n_items_ : int
        d.
    directions_ : ndarray of shape (p, q)
        D, the features that each coordinate stands for.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelBasis
    >>> from skout.decoding import RankingDecoder
    >>> Y = np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2]])
    >>> basis = KernelBasis("kendall").fit(Y)
    >>> RankingDecoder().fit(basis, Y).decode(-basis.transform(Y))
    array([[2, 1, 0],
           [2, 0, 1],
           [1, 2, 0]])
    """

    def __init__(self, max_exact: int = 10, n_jobs: int | None = None) -> None:
        self.max_exact = max_exact
        self.n_jobs = n_jobs

    def fit(self, basis: KernelBasis, Y: Objects, coordinates: np.ndarray | None = None) -> Self:
        check_number(self.max_exact, "max_exact", integer=True)
        kernel = basis.kernel_
        if not isinstance(kernel, Kendall | RankHamming | Lehmer):
            raise TypeError(
                f"RankingDecoder takes the kernels Kendall, RankHamming and Lehmer. Got {kernel!r} "
                'instead, for which use decoder="candidates".'
            )
        self.kernel_ = kernel
        self.n_items_: int = basis.landmarks_.shape[1]
        self._best_rank = _best_rank(Y)
        landmarks: Any = basis.landmarks_  # rankings, as the kernel takes them
        self.directions_: Array = basis.combine(kernel.features(landmarks))
        return self

    def decode(self, F: np.ndarray, candidates: Candidates = None) -> np.ndarray:
        check_is_fitted(self)
        self._refuse(candidates)
        d, max_exact = self.n_items_, self.max_exact

        def decode(block: slice, searched: list[int]) -> np.ndarray:
            G = F[block] @ self.directions_  # (b, q)
            if isinstance(self.kernel_, Kendall):
                return _best_order(_antisymmetric(G, d), max_exact, searched)
            if isinstance(self.kernel_, RankHamming):  # the largest sum of G[i, item, rank]
                each = G.reshape(len(G), d, d)
                ranks = [linear_sum_assignment(scores, maximize=True)[1] for scores in each]
                return np.array(ranks, dtype=np.int64).reshape(len(G), d)
            codes = np.ceil(self.kernel_.codes(G) - 0.5)  # the nearest; halves go to the lower
            return ranks_of_codes(np.clip(codes, 0, np.arange(codes.shape[1])).astype(np.int64))

        return _in_blocks(decode, len(F), d, max_exact, self.n_jobs) + self._best_rank


def _best_rank(Y: Objects) -> int:
    """Return 1 where every ranking counts from 1, else 0."""
    lowest = np.asarray(Y).min(axis=1)
    return int(len(lowest) > 0 and bool(np.all(lowest == 1)))


def kemeny(P: Array, max_exact: int = 10, *, n_jobs: int | None = None) -> np.ndarray:
    """Return the ranking with the largest sum of P[i, j] over the pairs with i before j.

    With P[i, j] = how many voters put i before j, this is Kemeny's consensus, the ranking with the
    largest sum of Kendall's tau to theirs. Where one ranking agrees with every majority it is that
    one. Elsewhere, up to `max_exact` items, dynamic programming over the subsets S of items finds
    V(S) = max over i in S of sum_{j in S} P[i, j] + V(S - i), exactly; beyond, items sorted by
    their row sums (Borda) are moved one at a time to their best place until no move gains, which
    need not be the best ranking: a warning says so.

    Parameters
    ----------
    P : array of shape (d, d) or (n, d, d)
        Weights for i before j; the diagonal does not count.
    max_exact : int, default 10
        Most items for which the search is exact. Time and memory are d 2^d a ranking.
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.

    Returns
    -------
    ranks : ndarray of int64, shape (d,) or (n, d)
        The place of each item, 0 is best; of equally good rankings, exact search puts the lowest
        item first.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.decoding import kemeny
    >>> kemeny([[0, 3, 1], [2, 0, 5], [4, 0, 0]])  # a cycle, broken where it is weakest
    array([2, 0, 1])
    """
    check_number(max_exact, "max_exact", integer=True)
    with numbers_in(P, "P"):
        P = check_array(
            P,
            allow_nd=True,
            ensure_2d=False,
            dtype=np.float64,
            ensure_min_samples=0,
            input_name="P",
        )
    if P.ndim not in (2, 3) or P.shape[-1] != P.shape[-2] or P.shape[-1] == 0:
        raise ValueError(f"P must have shape (d, d) or (n, d, d). Got {P.shape} instead.")
    stack = P if P.ndim == 3 else P[None]

    def decode(block: slice, searched: list[int]) -> np.ndarray:
        return _best_order(stack[block] - stack[block].transpose(0, 2, 1), max_exact, searched)

    ranks = _in_blocks(decode, len(stack), P.shape[-1], max_exact, n_jobs)
    return ranks if P.ndim == 3 else ranks[0]


def _in_blocks(
    decode: Callable[[slice, list[int]], np.ndarray],
    n: int,
    d: int,
    max_exact: int,
    n_jobs: int | None,
) -> np.ndarray:
    """Return decode(rows, searched) of all n rows, in blocks that keep to the memory budget.

    Warn where rankings were not found exactly; `searched` has their numbers.
    """
    searched: list[int] = []
    row_bytes = 8 * (6 * d * d + (3 * 2**d if d <= max_exact else 0))
    blocks = row_slices(n, block_rows(n, row_bytes, _SEARCH_ROWS))
    with held_blas():  # the products are thin: threads of their own would only slow them
        parts = list(map_blocks(lambda block: decode(block, searched), blocks, n_jobs=n_jobs))
    if sum(searched):
        warnings.warn(
            f"{sum(searched)} of {n} rankings of {d} items were found by local search, since pairs "
            "contradict each other in a circle: they may not be the best. max_exact="
            f"{max_exact} is the most items for which all orders are searched; time and memory "
            "double with each item.",
            UserWarning,
            stacklevel=3,
        )
    return np.concatenate([np.empty((0, d), dtype=np.int64), *parts])


# Kendall: W[i, j] = -W[j, i] is what i before j is worth -----------------------------------------


def _antisymmetric(G: np.ndarray, d: int) -> np.ndarray:
    """Return W (b, d, d) whose entries above the diagonal, if any, are the rows of G."""
    first, second = np.triu_indices(d, k=1)
    W = np.zeros((len(G), d, d))
    W[:, first, second] = G
    W[:, second, first] = -G
    return W


def _best_order(W: Floats, max_exact: int, searched: list[int]) -> Ints:
    """Return ranks with the largest sum of W[i, j] over i before j.

    The number of rankings by local search that miss a pair is appended to `searched`.
    """
    d = W.shape[1]
    ranks: Ints = d - 1 - np.count_nonzero(W > 0, axis=2)
    # different numbers of wins: no cycle, and this ranking has every pair right
    hard = np.flatnonzero((np.sort(ranks, axis=1) != np.arange(d)).any(axis=1))
    if len(hard):
        W_hard = W[hard]
        exact = d <= max_exact
        ranks[hard] = best = (_search_subsets if exact else _search_locally)(W_hard)
        if not exact:
            lost = np.abs(W_hard).sum(axis=(1, 2)) / 2.0 - _worth(W_hard, best)
            searched.append(int(np.count_nonzero(lost > _rounding(W_hard))))
    return ranks


def _search_subsets(W: np.ndarray) -> np.ndarray:
    """Return the best ranks, by V(S) = max over i in S of sum_{j in S} W[i, j] + V(S - i)."""
    b, d, _ = W.shape
    subsets = np.arange(2**d)
    holds = (subsets[:, None] >> np.arange(d)) & 1  # (2^d, d)
    sizes, members = holds.sum(axis=1), holds.astype(np.float64)
    weights = np.ascontiguousarray(W.transpose(1, 2, 0))  # (d, d, b)
    V = np.full((2**d, b), -np.inf)
    V[0] = 0.0
    for size in range(d):
        for i in range(d):
            rest = subsets[(sizes == size) & (holds[:, i] == 0)]
            value = members[rest] @ weights[i]
            value += V[rest]
            whole = rest | (1 << i)
            V[whole] = np.maximum(V[whole], value, out=value)
    return _follow(V, W)


def _follow(V: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return the ranking of best total V, traced back place by place; ties go to the lower item."""
    b, d, _ = W.shape
    rows, bits = np.arange(b), 1 << np.arange(d)
    ranks = np.empty((b, d), dtype=np.int64)
    left = np.ones((b, d), dtype=bool)
    for place in range(d):
        S = left @ bits
        rest = S[:, None] & ~bits  # (b, d)
        value = np.einsum("bij,bj->bi", W, left) + V[rest, rows[:, None]]
        item = np.where(left, value, -np.inf).argmax(axis=1)
        ranks[rows, item] = place
        left[rows, item] = False
    return ranks


def _search_locally(W: np.ndarray) -> np.ndarray:
    """Return ranks that no move of one item makes better, from those of the row sums.

    The reverse of such ranks, settled in turn, is often better still, and is taken while it is
    (Chanas and Kobylanski, 1996).
    """
    d = W.shape[1]
    order = np.argsort(-W.sum(axis=2), axis=1, kind="stable")
    ranks = _settle(W, np.argsort(order, axis=1))
    active = np.arange(len(W))
    while len(active):
        W_active, old = W[active], ranks[active]
        new = _settle(W_active, d - 1 - old)
        better = _worth(W_active, new) - _worth(W_active, old) > _rounding(W_active)
        active = active[better]
        ranks[active] = new[better]
    return ranks


def _worth(W: Floats, ranks: Ints) -> Floats:
    """Return the sum of W[i, j] over i before j."""
    worth: Floats = np.einsum("bij,bij->b", W, ranks[:, :, None] < ranks[:, None, :])
    return worth


def _rounding(W: Floats) -> Floats:
    """Return the size of gains below which they may be rounding."""
    sizes: Floats = np.abs(W).sum(axis=(1, 2))
    return _ROUNDING * sizes


def _settle(W: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Move items, one at a time, until no move gains."""
    ranks, active = ranks.copy(), np.arange(len(W))
    while len(active):
        before = ranks[active]
        ranks[active] = _move_each(W[active], before)
        active = active[(ranks[active] != before).any(axis=1)]
    return ranks


def _move_each(W: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Move one item after the other to its best place among the others."""
    b, d, _ = W.shape
    rows, places, ranks = np.arange(b), np.arange(d), ranks.copy()
    least = _rounding(W)
    by_place = np.empty((b, d))
    for i in range(d):
        now = ranks[:, i]
        np.put_along_axis(by_place, ranks, W[:, i], axis=1)
        # what i loses to the items before it, if its place is r
        loss = np.cumsum(by_place, axis=1)
        loss -= np.where(places <= now[:, None], by_place, 0.0)
        best = loss.argmin(axis=1)
        new = np.where(loss[rows, now] - loss[rows, best] > least, best, now)[:, None]
        back = (ranks < now[:, None]) & (ranks >= new)
        forth = (ranks > now[:, None]) & (ranks <= new)
        ranks += back.astype(np.int64) - forth
        ranks[:, i] = new[:, 0]
    return ranks
