"""Retrieval: candidates are scored for each query, and one of them is the truth."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._numerics.typing import Objects
from .._numerics.validation import check_choice, check_number
from ._checks import as_real, check_rows_given

#: One array of scores a query; the positions of what is right; labels of the candidates.
Scores: TypeAlias = np.ndarray | Sequence[ArrayLike]
Truth: TypeAlias = int | Iterable[int] | None
Truths: TypeAlias = np.ndarray | Sequence[Truth]
Groups: TypeAlias = np.ndarray | Sequence[Hashable] | Sequence[Sequence[Hashable]]


def truth_ranks(
    scores: Scores, truth: Truths, *, groups: Groups | None = None, ties: str = "average"
) -> np.ndarray:
    """Return the rank of the truth among the candidates of each query, shape (n,); 1 is best.

    That is 1 + #above + #tied / 2, where the candidates with a higher and with an equal score are
    counted, and inf where the truth is not among the candidates. A scorer that gives the same score
    to all c candidates has rank (c + 1) / 2.

    Parameters
    ----------
    scores : array of shape (n, c), or sequence of n arrays of shape (c_i,)
        Scores of the candidates of each query, the higher the better: of a shared pool, or of each
        query's own candidates. They may be infinite.
    truth : sequence of n
        For each query the position of the true candidate in its scores, or a collection of
        positions where several are right: the best of them counts, and they do not compete with
        each other. -1, None or an empty collection says that the truth is not a candidate; in a
        collection -1 is left out, so a matrix of positions may be padded with it.
    groups : sequence of c labels, or sequence of n lists or arrays of c_i labels, optional
        Candidates of a query with equal labels are copies of one object. An object counts once,
        with its best score, and copies of the truth are right too. Labels are hashable, like
        strings, integers and tuples.
    ties : {"average", "worst", "best"}, default "average"
        Where the truth comes among objects of equal score: in the middle, last or first. "best"
        flatters: a constant scorer has rank 1.

    Examples
    --------
    >>> from skout.metrics import truth_ranks
    >>> truth_ranks([[0.9, 0.5, 0.1], [0.2, 0.2, 0.2]], [1, 0])
    array([2., 2.])

    Each query has its own candidates, and the last truth is not one of them.

    >>> truth_ranks([[3.0, 2.0, 2.0, 1.0], [1.0, 5.0]], [3, None])
    array([ 4., inf])

    The candidates "b" are one object.

    >>> truth_ranks([[3.0, 2.0, 2.0, 1.0]], [3], groups=["a", "b", "b", "c"])
    array([3.])
    """
    share, pairs = share_of(ties), check_scored(scores, truth)
    objects = [None] * len(pairs) if groups is None else _objects(groups, [row for row, _ in pairs])
    ranks = np.empty(len(pairs))
    for i, ((row, right), codes) in enumerate(zip(pairs, objects, strict=True)):
        if codes is not None:
            row, right = _best_of_copies(row, codes), codes[right]
        ranks[i] = _rank(row, np.unique(right), share)
    return ranks


def hits_at_k(ranks: ArrayLike, k: int) -> float:
    """Return the share of ranks that are at most k.

    Parameters
    ----------
    ranks : array of shape (n,)
        From `truth_ranks`; inf is never a hit, nor is 1.5, a tie for the first place, with k = 1.
    k : int
        At least 1.

    Examples
    --------
    >>> from skout.metrics import hits_at_k
    >>> hits_at_k([1.0, 3.0, 1.5, float("inf")], k=2)
    0.5
    """
    check_number(k, "k", low=1, integer=True)
    return float(np.mean(_check_ranks(ranks) <= k))


def mean_reciprocal_rank(ranks: ArrayLike, k: int | None = None) -> float:
    """Return the mean of 1 / rank; 1 is perfect, and a rank of inf contributes 0.

    Parameters
    ----------
    ranks : array of shape (n,)
        From `truth_ranks`.
    k : int, optional
        For MRR@k: ranks above k contribute 0 too.

    Examples
    --------
    >>> from skout.metrics import mean_reciprocal_rank
    >>> mean_reciprocal_rank([1.0, 2.0, 4.0, float("inf")])
    0.4375
    >>> mean_reciprocal_rank([1.0, 2.0, 4.0, float("inf")], k=3)
    0.375
    """
    checked = _check_ranks(ranks)
    if k is not None:
        checked = np.where(checked <= check_number(k, "k", low=1, integer=True), checked, np.inf)
    return float(np.mean(1.0 / checked))


def mean_rank(ranks: ArrayLike) -> float:
    """Return the mean of the ranks; 1 is perfect.

    Parameters
    ----------
    ranks : array of shape (n,)
        From `truth_ranks`. A rank of inf, a truth that is not among the candidates, is an error.

    Examples
    --------
    >>> from skout.metrics import mean_rank
    >>> mean_rank([1.0, 2.5, 4.0])
    2.5
    """
    checked = _check_ranks(ranks)
    if absent := np.count_nonzero(np.isinf(checked)):
        raise ValueError(
            f"{absent} of {len(checked)} truths were not among the candidates: their rank is inf. "
            "Give them a rank, such as one more than the candidates, or leave them out."
        )
    return float(np.mean(checked))


def share_of(ties: str) -> float:
    """Return which share of the candidates that tie with the truth comes before it."""
    check_choice(ties, "ties", ("average", "worst", "best"))
    return {"best": 0.0, "average": 0.5, "worst": 1.0}[ties]


def _rank(scores: np.ndarray, right: np.ndarray, tied_share: float) -> float:
    """Return the rank of the best of the distinct positions `right`."""
    if not len(right):
        return np.inf
    best = scores[right].max()
    above = np.count_nonzero(scores > best)
    tied = np.count_nonzero(scores == best) - np.count_nonzero(scores[right] == best)
    return 1.0 + above + tied_share * tied


def _best_of_copies(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the best score of each object; `codes` is the number of that of each candidate."""
    best = np.full(codes.max(initial=-1) + 1, scores.min(initial=0), dtype=scores.dtype)
    np.maximum.at(best, codes, scores)
    return best


# Arguments ---------------------------------------------------------------------------------------


def check_scored(scores: Scores, truth: Truths) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return for each query the scores of its candidates, and the positions of the right ones."""
    rows = [_check_scores(row, i) for i, row in enumerate(_sequence(scores, "scores"))]
    truths = _sequence(truth, "truth")
    if not rows:
        raise ValueError("scores must hold at least one query. Got none instead.")
    _check_length(len(truths), len(rows), "truth")
    return [
        (row, _positions(positions, len(row), i))
        for i, (positions, row) in enumerate(zip(truths, rows, strict=True))
    ]


def _sequence(values: Objects, name: str, one_for: str = "query") -> list[Any]:
    """Return the entries, or rows, of an argument that has one for each query or candidate."""
    if hasattr(values, "shape"):
        values = np.asarray(values)  # a data frame would list its columns
    if isinstance(values, str) or not hasattr(values, "__len__") or getattr(values, "ndim", 1) == 0:
        raise TypeError(
            f"{name} must be a sequence with one entry for each {one_for}. "
            f"Got {type(values).__name__} instead."
        )
    return list(values)


def _check_length(length: int, n_queries: int, name: str) -> None:
    if length != n_queries:
        raise ValueError(
            f"{name} must have one entry for each query. Got {length} and {n_queries} queries "
            "instead."
        )


def _check_scores(row: ArrayLike, query: int) -> np.ndarray:
    """Return the scores of one query, of shape (c,)."""
    expected = f"The scores of query {query} must be an array of numbers of shape (c,)."
    scores = as_real(row, expected)
    if scores.ndim != 1:
        raise ValueError(f"{expected} Got shape {scores.shape} instead.")
    bad = np.flatnonzero(np.isnan(scores))
    if len(bad):
        raise ValueError(f"{expected} Got nan at index {bad[0]} instead.")
    return scores


def _positions(truth: Truth, c: int, query: int) -> np.ndarray:
    """Return the positions of the right candidates of one query; none where it has none."""
    expected = (
        f"The truth of query {query} must be the position of one of its {c} candidates, or several "
        "positions, or -1 or None where it is not a candidate."
    )
    if isinstance(truth, Iterable) and getattr(truth, "ndim", 1) > 0:
        items: list[Any] = list(truth)
    else:
        items = [] if truth is None else [truth]
    for item in items:
        if not isinstance(item, int | np.integer) or isinstance(item, bool):
            raise TypeError(f"{expected} Got {item!r} instead.")
        if not -1 <= item < c:
            raise ValueError(f"{expected} Got {item} instead.")
    right = np.array([item for item in items if item >= 0], dtype=np.intp)
    if len(np.unique(right)) < len(right):
        raise ValueError(
            f"{expected} Got a position twice instead; of a 0/1 mask pass np.flatnonzero(mask)."
        )
    return right


def _objects(groups: Groups, rows: list[np.ndarray]) -> list[np.ndarray]:
    """Return for each query which object each candidate is a copy of, as numbers."""
    entries = _sequence(groups, "groups")
    if not entries or _is_label(entries[0]):
        objects = [_codes(entries)] * len(rows)
    else:
        _check_length(len(entries), len(rows), "groups")
        objects = [_codes(_sequence(labels, "groups", "candidate")) for labels in entries]
    for i, (row, codes) in enumerate(zip(rows, objects, strict=True)):
        if len(codes) != len(row):
            raise ValueError(
                f"groups must have one label for each candidate. Got {len(codes)} labels and "
                f"{len(row)} candidates of query {i} instead."
            )
    return objects


def _is_label(entry: object) -> bool:
    """Return whether this is a single label, not the labels of a query in a list or array."""
    return isinstance(entry, Hashable) and getattr(entry, "ndim", 0) == 0


def _codes(labels: list[Hashable]) -> np.ndarray:
    """Return the number of each label among the distinct ones."""
    try:
        number = {label: code for code, label in enumerate(dict.fromkeys(labels))}
        missing = any(label is None or bool(label != label) for label in number)
    except (TypeError, ValueError) as error:
        raise TypeError(f"groups must hold labels that can be hashed. {error}.") from error
    if missing:
        raise ValueError("groups must have a label for each candidate. Got None or nan instead.")
    return np.array([number[label] for label in labels], dtype=np.intp)


def _check_ranks(ranks: ArrayLike) -> np.ndarray:
    """Return ranks of shape (n,), at least 1 and perhaps infinite."""
    expected = "ranks must be an array of numbers >= 1, inf where there is none, of shape (n,)."
    checked = as_real(ranks, expected)
    check_rows_given(checked.shape, {1}, expected)
    bad = np.flatnonzero(~(checked >= 1))
    if len(bad):
        raise ValueError(f"{expected} Got {checked[bad[0]]} at index {bad[0]} instead.")
    return checked
