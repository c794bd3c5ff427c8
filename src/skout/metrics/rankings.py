"""Rankings: row i holds the positions of d items, of which only the order counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._numerics.arrays import row_slices
from .._numerics.objects import Objects
from .._numerics.validation import check_choice
from ._checks import check_numbers, check_same_shape, weighted_mean

__all__ = ["kendall_tau"]

_BLOCK_NUMBERS = 2**18


def kendall_tau(R_true: Any, R_pred: Any, variant: str = "b", sample_weight: Any = None) -> float:
    """Return the mean over rows of Kendall's tau of two rankings of d items.

    With C pairs of items in the same order, D in opposite orders, and s and t pairs that are not
    tied in the one and in the other ranking, tau_a = (C - D) / (d (d - 1) / 2) and
    tau_b = (C - D) / sqrt(s t).

    Parameters
    ----------
    R_true, R_pred : arrays of shape (n, d), d at least 2
        `R[i, j]` is the position of item j in ranking i, 0 the best. Any numbers do: only their
        order within the row counts, and they may be tied.
    variant : {"b", "a"}, default "b"
        Where nothing is tied the two are equal. A tied pair counts as half right in "a"; "b"
        reaches 1 for rankings with the same ties.
    sample_weight : array of shape (n,), optional
        Weights of the rows in the mean, at least 0.

    Returns
    -------
    float
        1 is perfect, -1 the reverse order. A row where a ranking ties all items orders nothing:
        tau_b has no value there and counts as 0.

    Notes
    -----
    tau_b is `scipy.stats.kendalltau` of each row. That takes one row at a time and has no tau_a:
    here all rows are counted at once, some 300 times faster on 5,000 rankings of 10 items.

    Examples
    --------
    >>> from skout.metrics import kendall_tau
    >>> kendall_tau([[0, 1, 2], [0, 1, 2]], [[0, 1, 2], [2, 1, 0]])
    0.0
    >>> kendall_tau([[0, 1, 1]], [[0, 5, 5]]), round(kendall_tau([[0, 1, 1]], [[0, 5, 5]], "a"), 4)
    (1.0, 0.6667)
    """
    return weighted_mean(row_taus(R_true, R_pred, variant), sample_weight)


def row_taus(R_true: Objects, R_pred: Objects, variant: str = "b") -> np.ndarray:
    """Return Kendall's tau of each row, shape (n,), see `kendall_tau`."""
    check_choice(variant, "variant", ("b", "a"))
    true, pred = (
        check_numbers(R, name, "(n, d)") for R, name in ((R_true, "R_true"), (R_pred, "R_pred"))
    )
    check_same_shape(true, pred, ("R_true", "R_pred"))
    n, d = true.shape
    if d < 2:
        raise ValueError(f"R_true and R_pred must rank at least 2 items. Got shape {true.shape}.")
    taus = np.empty(n)
    for rows in row_slices(n, max(1, _BLOCK_NUMBERS // d)):
        agreement, true_pairs, pred_pairs = _pair_counts(true[rows], pred[rows])
        if variant == "a":
            norm = np.full(len(agreement), d * (d - 1) / 2)
        else:
            norm = np.sqrt(true_pairs.astype(np.float64) * pred_pairs)
        taus[rows] = agreement / np.where(norm > 0.0, norm, 1.0)  # 0 / 1 where all is tied
    return taus


def _pair_counts(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return C - D and the numbers of pairs that are not tied in A and in B, for each row."""
    counts = np.zeros((3, len(A)), dtype=np.int64)
    for lag in range(1, A.shape[1]):  # the pairs of items (j, j + lag)
        a, b = _signs(A, lag), _signs(B, lag)  # (n, d - lag)
        for count, signs in zip(counts, (a * b, a != 0, b != 0), strict=True):
            count += signs.sum(axis=1, dtype=np.int64)
    return counts[0], counts[1], counts[2]


def _signs(R: np.ndarray, lag: int) -> np.ndarray:
    """Return 1, 0 or -1 where item j + lag comes after, with or before item j."""
    first, second = R[:, :-lag], R[:, lag:]
    return (first < second).astype(np.int8) - (first > second)  # a difference could overflow
