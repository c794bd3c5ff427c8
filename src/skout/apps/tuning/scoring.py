"""What models are chosen by: the score of predicted coordinates of held-out rows, once decoded."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from skout.dev import n_rows, resolve, take
from skout.kinds import Kind, metrics

from .folds import Folds
from .given import column_means, column_variances, weighed

# Products of coordinates up to which held-out rows are compared with all training outputs, where
# another decoder does without: candidates would take longer than all the rest.
_MOST_WORK = 4e9
# What the fit of coordinates counts beside the metric: this over the root of the number of rows,
# settled on the training parts of the sets of experiments/ours/tuned.py (`--inside`).
_SMOOTH = 1.5
Objects = Any  # outputs of any kind


@dataclass(frozen=True)
class OutputScoring:
    """A kind of output, and what its predictions are scored by: `scoring` of `Tuned`."""

    kind: Kind
    scoring: str | Callable[..., float] | None = None

    @property
    def metric_name(self) -> str:
        """What the score is called."""
        if self.scoring is None or isinstance(self.scoring, str):
            return self.scoring or self.kind.metric
        if not callable(self.scoring):
            raise TypeError(
                "scoring must be None, the name of a metric or a function of true and predicted "
                f"outputs. Got {self.scoring!r} instead."
            )
        return getattr(self.scoring, "__name__", type(self.scoring).__name__)

    @property
    def is_own(self) -> bool:
        """Whether the score is that of the kind."""
        return self.metric_name == self.kind.metric and not callable(self.scoring)

    @property
    def by_column(self) -> bool:
        """Whether each column of coordinates has a score of its own."""
        return self.is_own and self.kind.estimator_type == "regressor"

    def check(self, Y: Objects) -> Objects:
        """Return outputs as the kind takes them, or say what is wrong with them."""
        Y = self.kind.check(Y)
        has_gaps = self.kind.estimator_type == "regressor" and bool(np.isnan(Y).any())
        if has_gaps and not self.is_own and not callable(self.scoring):
            raise ValueError(
                f"Y has gaps, NaN, and scoring={self.scoring!r} takes whole outputs: leave scoring "
                "out, give a function that passes NaN over, such as skout.metrics.r2, or leave "
                "the rows with gaps out."
            )
        return Y

    def check_weights(self) -> None:
        """Raise where scores cannot be weighted: a function must take weights, too."""
        if callable(self.scoring) and not _takes_weights(self.scoring):
            raise TypeError(
                f"fit has a sample_weight, and scoring={self.metric_name} takes none: give a "
                "function of Y, predictions and sample_weight, as scikit-learn's metrics are."
            )

    def metric(self, basis: Any) -> Callable[..., float]:
        """Return the metric of outputs: a function of truth, prediction and `sample_weight`."""
        if callable(self.scoring):
            return self.scoring
        if self.is_own:
            return self.kind.score
        named = resolve(self.metric_name, metrics(), "scoring")
        return lambda true, pred, **weights: named(basis.kernel_, true, pred, **weights)

    def on_folds(self, basis: Any, Y: Objects, folds: Folds) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function from coordinates of held-out rows to scores, (n_decoders, n_parts)."""
        if self.by_column:
            return column_scores(basis.transform(take(Y, folds.held)), folds)
        if self.is_own:
            return _row_scores(self.kind, basis, Y, folds)
        decoders, metric = list(self.kind.decoders(Y).values()), self.metric(basis)
        by_split = [
            [clone(one).fit(basis, take(Y, train)) for one in decoders] for train, _ in folds.splits
        ]
        truth, weights = take(Y, folds.held), folds.held_weights

        def scores(F: np.ndarray) -> np.ndarray:
            F = F.astype(np.float64, copy=False)
            table = np.empty((len(decoders), folds.n_parts))
            for part, (rows, split) in enumerate(folds.parts):
                more = weighed(None if weights is None else weights[rows])
                for i, decoder in enumerate(by_split[split]):
                    table[i, part] = metric(take(truth, rows), decoder.decode(F[rows]), **more)
            return table

        return scores


def _row_scores(
    kind: Kind, basis: Any, Y: Objects, folds: Folds
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from coordinates to the mean score of rows, by decoder and part.

    Decoders that choose among training outputs differ from split to split, others do not.
    """
    decoders = [decoder.fit(basis, Y) for decoder in kind.decoders(Y).values()]
    pools = [getattr(decoder, "pool_", None) for decoder in decoders]
    sizes = [0 if pool is None else n_rows(pool) for pool in pools]
    shared = [i for i, size in enumerate(sizes) if not size]
    chosen = [i for i, size in enumerate(sizes) if size]
    if shared and max(sizes) * folds.n_held * basis.rank_ > _MOST_WORK:
        chosen = []
    by_split = [
        [clone(decoders[i]).fit(basis, take(Y, train)) for i in chosen] for train, _ in folds.splits
    ]
    truth = take(Y, folds.held)

    def scores(F: np.ndarray) -> np.ndarray:
        table = np.full((len(decoders), folds.n_held), -np.inf)
        if shared:
            table[shared] = kind.decoded_scores([decoders[i] for i in shared], F, truth)
        for own, rows in zip(by_split, folds.spans, strict=True):
            if own:
                table[chosen, rows] = kind.decoded_scores(own, F[rows], take(truth, rows))
        return folds.part_means(table)

    return scores


def _takes_weights(function: Callable[..., float]) -> bool:
    try:
        params = inspect.signature(function).parameters
    except ValueError:  # a function of C that does not say
        return True
    return "sample_weight" in params or any(one.kind == one.VAR_KEYWORD for one in params.values())


def column_scores(truth: np.ndarray, folds: Folds) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from predicted columns to the mean of their R2, shape (1, n_parts).

    A column with gaps counts as much as others: a row that has it counts the more, the fewer do.
    """
    weights, missing = folds.held_weights, np.isnan(truth)
    spread = np.maximum(column_variances(truth, folds.spread_weights), 1e-12)
    if missing.any():
        spread = spread * column_means(1.0 - missing, weights)

    def scores(F: np.ndarray) -> np.ndarray:
        lost = (np.where(missing, 0.0, (F - truth) ** 2) / spread).mean(axis=1)
        return 1.0 - folds.part_means(lost[None])

    return scores


@dataclass
class Merit:
    """What choices are made by.

    A metric of decoded objects is coarse where there are few rows, and many choices are level. How
    well coordinates are predicted then tells them apart: merit = metric + share * R2.
    """

    metric: Callable[[np.ndarray], np.ndarray]  # of coordinates: scores (n_decoders, n_parts)
    truth: np.ndarray  # (n_held, p) coordinates of the held-out rows, NaN where there is none
    folds: Folds

    def __post_init__(self) -> None:
        squares = (self.truth - column_means(self.truth, self.folds.held_weights)) ** 2
        total = np.nansum(squares, axis=1)
        self._spread = max(float(np.average(total, weights=self.folds.spread_weights)), 1e-300)
        self.share = min(0.3, _SMOOTH / np.sqrt(len(np.unique(self.folds.held))))

    def smooth(self, F: np.ndarray) -> np.ndarray:
        """Return what merit has beside the metric, shape (n_parts,)."""
        errors = F - self.truth
        errors[np.isnan(errors)] = 0.0  # of outputs that a row has not
        squares = np.einsum("ij,ij->i", errors, errors)
        return self.share * (1.0 - self.folds.part_means(squares[None])[0] / self._spread)
