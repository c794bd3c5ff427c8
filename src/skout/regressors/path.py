"""Choosing alpha within one fit: by the squared error, or by any score of held-out predictions.

A judge is shown F of each split, of shape (n_alphas, len(held), d): what each alpha of a regressor,
trained on the split's training rows, predicts for the rows that are looked at. Regressors with the
method `fit_judged(X, y, judge, **fit_params)`, as `KernelRidge` and the kernel machines have, make
all of them from what one fit computes anyway (moments, kernel matrix).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from tqdm.auto import tqdm

from .._numerics.validation import check_rng
from ..basis.passes import Sample
from ..rows import source
from .fit import ChosenAlpha
from .splits import Splits, least_loss

__all__ = [
    "Judge",
    "Search",
    "greatest_score",
    "held_rows",
    "mean_square",
    "squared_error",
]

Path = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Held-out rows that are looked at, in all splits together.
_LOOKED_AT = 2000
# The alpha of models that choose none.
_DEFAULT = 1e-3
# Standard errors by which another alpha must be ahead of the default.
_SURE = 2.0


@dataclass(frozen=True)
class Judge:
    """How a regressor chooses among its alphas.

    Attributes
    ----------
    splits : list of (train, test)
        Positions of rows, or masks.
    held : list of ndarrays of int
        The test rows that are looked at, increasing, one array a split: `held_rows`.
    score : callable
        (number of the split, F) -> n_alphas numbers, the greater the better. F has shape
        (n_alphas, len(held), d).
    scoring : str
        What the score is called in `cv_results_`.
    """

    splits: Splits
    held: list[np.ndarray]
    score: Callable[[int, np.ndarray], Sequence[float]]
    scoring: str = ""


class Search(NamedTuple):
    """Which alpha a ridge takes: those to choose from, the splits to try them on, and who judges.

    Attributes
    ----------
    alphas : list of floats
    splits : list of (train, test)
        Without any, nothing is chosen.
    judge : Judge, optional
        None leaves it to the mean squared error of the held-out rows.
    """

    alphas: list[float]
    splits: Splits = ()
    judge: Judge | None = None

    def by_paths(self, sample: Sample, path: Path, verbose: bool = False) -> ChosenAlpha:
        """Choose alpha by fits of their own for each split, where there are no moments.

        `path` maps training rows and held-out rows to the predictions of each alpha for the second,
        shape (n_alphas, h, d).
        """
        alphas, splits, judge = self
        everything = np.arange(len(sample.rows))
        table: list[Any] = []
        for k, (train, test) in enumerate(tqdm(splits, desc="folds", disable=not verbose)):
            held = np.sort(everything[test]) if judge is None else judge.held[k]
            F = path(np.sort(everything[train]), held)
            if judge is not None:
                table.append(judge.score(k, F))
                continue
            truth = np.asarray(sample.targets.take(held), dtype=np.float64)
            w = None if sample.weights is None else sample.weights[held]
            table.append([mean_square(truth, one, w) for one in F])
        if judge is None:
            return ChosenAlpha(*least_loss(alphas, np.array(table)))
        return ChosenAlpha(*greatest_score(alphas, table, judge.scoring))


def held_rows(
    splits: Splits,
    n: int,
    most: int = _LOOKED_AT,
    random_state: Any = None,
    weights: Any = None,
) -> list[np.ndarray]:
    """Return test rows to look at, increasing, one array a split: all, or a random sample.

    Parameters
    ----------
    splits : list of (train, test)
    n : int
        The number of rows.
    most : int, default 2000
        Of all splits together, but at least one of each.
    random_state : None, int or Generator
    weights : ndarray of shape (n,), optional
        Rows without weight are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.regressors.path import held_rows
    >>> [rows.tolist() for rows in held_rows([([2, 3], [0, 1]), ([0, 1], [3, 2])], 4)]
    [[0, 1], [2, 3]]
    """
    # the sketch uses the generator itself, a sample of blocks and the folds its first children
    rng = check_rng(random_state).spawn(3)[2]
    share = max(1, most // len(splits))
    held = []
    for _, test in splits:
        rows = np.unique(np.arange(n)[test])
        if isinstance(weights, np.ndarray):
            rows = rows[weights[rows] > 0.0]
        some = rng.permutation(len(rows))[:share]
        held.append(np.sort(rows[some]))
    return held


def squared_error(y: Any, held: list[np.ndarray]) -> Callable[[int, np.ndarray], Sequence[float]]:
    """Return minus the mean squared error as the score of a judge."""
    targets = source(y)

    def score(k: int, F: np.ndarray) -> list[float]:
        T = targets.take(held[k])
        T = T.toarray() if sparse.issparse(T) else T.reshape(len(T), -1)
        return [-mean_square(T, one) for one in F]

    return score


def mean_square(T: np.ndarray, F: np.ndarray, weights: Any = None) -> float:
    """Return the mean squared error over rows and outputs; NaN in T is left out.

    With holes it is that of each output over the rows that have it, and then of the outputs; one
    that has no row here, or that no training row had, which makes F NaN, says nothing.
    """
    squares = (T - F) ** 2
    missing = np.isnan(squares)
    if not missing.any():
        return float(np.average(squares.mean(axis=1), weights=weights))
    W = (~missing).astype(np.float64)
    W = W if weights is None else W * weights[:, None]
    total, used = (W * np.where(missing, 0.0, squares)).sum(axis=0), W.sum(axis=0)
    return float(np.mean(total[used > 0.0] / used[used > 0.0])) if used.any() else np.nan


def greatest_score(
    alphas: Sequence[float], table: Any, scoring: str = ""
) -> tuple[float, dict[str, Any]]:
    """Return the alpha of greatest mean score, or the default that is as good, and the table.

    The alpha nearest to 1e-3, the default of the models, is kept unless the best is ahead of it by
    more than two standard errors of their difference over the splits: on small data the best is
    often best by chance.

    The table, (n_splits, n_alphas), comes as a dict with "alpha", "mean_score", "std_error" (of
    the mean over the splits), "fold_score" and "scoring", the name of the score.

    Examples
    --------
    >>> from skout.regressors.path import greatest_score
    >>> greatest_score([1e-5, 1e-3], [[0.52, 0.50], [0.50, 0.51]])[0]
    0.001
    >>> greatest_score([1e-5, 1e-3], [[0.60, 0.50], [0.58, 0.51]])[0]
    1e-05
    """
    scores = np.asarray(table, dtype=np.float64)
    mean = scores.mean(axis=0)
    results = {
        "alpha": np.array(alphas),
        "mean_score": mean,
        "std_error": _standard_error(scores),
        "fold_score": scores,
        "scoring": scoring,
    }
    equals = [j for j in range(len(alphas)) if mean[j] == mean.max()]
    best = min(equals, key=lambda j: _from_default(alphas[j]))
    usual = min(range(len(alphas)), key=lambda j: _from_default(alphas[j]))
    ahead = scores[:, [best]] - scores[:, [usual]]
    is_sure = ahead.mean() > _SURE * _standard_error(ahead)[0]
    return alphas[best if is_sure else usual], results


def _standard_error(scores: np.ndarray) -> np.ndarray:
    """Return the standard error of the mean over splits, 0 where there is one."""
    if len(scores) < 2:
        return np.zeros(scores.shape[1])
    return scores.std(axis=0, ddof=1) / np.sqrt(len(scores))


def _from_default(alpha: float) -> tuple[float, float]:
    """Return how far an alpha is from the default, the larger of two first."""
    steps = abs(np.log10(alpha / _DEFAULT)) if alpha > 0.0 else np.inf  # nan: no alpha at all
    return round(float(steps), 9), -alpha
