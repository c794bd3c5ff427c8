"""Scores of predicted objects: by the metric of their kind, a named metric, or a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .._numerics.arrays import row_slices, take
from .._numerics.objects import Rows
from .._numerics.typing import Candidates, Estimator, Ints, KernelRows, Objects
from .._numerics.validation import resolve
from ..decoding import CandidateSets
from ..decoding.base import FittedOutputs, able, keys_of
from ..decoding.pools import are_lists
from ..kernels import Kernel
from ..metrics import mean_reciprocal_rank
from ..metrics.scoring import METRICS
from ..rows import Reduction
from ..solvers.folds import Splits
from .labels import LabelSets
from .registry import KINDS

#: None, the name of a metric, or a function of true and predicted objects.
Scoring = str | Callable[..., float] | None
#: What `scoring` may be beside the names of `metrics`: the squared error in coordinates, and the
#: mean reciprocal rank of the truth among the candidates.
COORDINATES, RECIPROCAL_RANK = "coordinates", "mean_reciprocal_rank"
# Training outputs that are candidates while alpha is chosen; of more, a sample.
_MOST_CANDIDATES = 20_000
# Metrics of what kernels compare and what is no kind of output: inputs may be such, too.
_OTHERS = {"vectors": "r2", "curves": "curve_r2"}


def metrics() -> dict[str, Callable[..., float]]:
    """Return all metrics by name: those of the kinds, and those of objects of any kind.

    All are functions (kernel, Y_true, Y_pred, sample_weight=None) -> float, the greater the better.
    """
    of_kinds = {
        kind.metric: lambda kernel, *outputs, kind=kind, **weights: kind.score(*outputs, **weights)
        for kind in KINDS.values()
    }
    return of_kinds | METRICS


def metric_of(kernel: Kernel, rows: Objects) -> str:
    """Return the name of the metric for objects that a kernel compares: that of their kind, if any.

    If `rows`, some training outputs, are vectors of 0 and 1 alone, they are label sets.
    """
    name = kernel.compares
    if name == "vectors" and not isinstance(rows, Rows):
        values = rows.data if sparse.issparse(rows) else rows
        name = LabelSets.name if np.all((values == 0) | (values == 1)) else name
    return KINDS[name].metric if name in KINDS else _OTHERS.get(name, "exact_matches")


def score_objects(
    scoring: Scoring, kernel: Kernel, rows: Objects, Y_true: Objects, Y_pred: Objects
) -> float:
    """Return the score of predicted objects, by the name of a metric or a function of both.

    None is the metric of `metric_of`, "kernel" the similarity by the model's own kernel.
    """
    if callable(scoring):
        return float(scoring(Y_true, Y_pred))
    name = metric_of(kernel, rows) if scoring is None else scoring
    return float(resolve(name, metrics(), "scoring")(kernel, Y_true, Y_pred))


def check_scoring(scoring: Scoring) -> None:
    """Raise unless `scoring` is None, a function, or a known name."""
    if scoring is None or callable(scoring):
        return
    if not isinstance(scoring, str):
        raise TypeError(
            "scoring must be None, the name of a metric or a function (Y, predictions) -> number. "
            f"Got {scoring!r} instead."
        )
    resolve(scoring, {**metrics(), COORDINATES: None, RECIPROCAL_RANK: None}, "scoring")


def can_be_scored(fitted: FittedOutputs, scoring: Scoring, candidates: Candidates) -> bool:
    """Whether predictions of held-out rows can be decoded and scored; raise if they must be."""
    are_here = fitted.rows is None or fitted.outputs.resident is not None
    has_pool = candidates is not None or fitted.positions is not None or are_here
    if isinstance(scoring, str) and scoring == COORDINATES:
        return False
    if scoring is None:
        return has_pool and hasattr(fitted.basis, "kernel_")
    if not has_pool:
        raise ValueError(
            f"scoring={scoring!r} needs candidates to decode held-out rows, and there are too many "
            'distinct training outputs to keep: give candidates to fit, or scoring="coordinates".'
        )
    return True


def object_score(
    scoring: Scoring,
    basis: Estimator,
    Y: Objects,
    candidates: Candidates,
    predict: Callable[[], Any],
    truth_ranks: Callable[[], np.ndarray],
) -> float:
    """Return the score of predictions of objects Y by `scoring`, the greater the better.

    None is the metric of what the output kernel compares, and the mean reciprocal rank of the truth
    where each query has candidates of its own. Of `predict` and `truth_ranks` one is called.
    """
    if scoring is None and getattr(candidates, "is_per_query", False):
        scoring = RECIPROCAL_RANK
    if scoring == RECIPROCAL_RANK:
        return mean_reciprocal_rank(truth_ranks())
    if callable(scoring):
        return float(scoring(Y, predict()))
    return score_objects(scoring, basis.kernel_, basis.landmarks_, Y, predict())


class DecodedScore:
    """The `score` of a `Scorer`: decodes predictions of held-out rows, and scores the objects.

    Without candidates, those of a split are the outputs of its training rows, of which up to
    20,000 are drawn at random where there are more. The truth is ranked among the outputs of all
    rows.
    """

    decoder: Estimator
    fitted: FittedOutputs
    held: list[np.ndarray]

    def __init__(
        self,
        fitted: FittedOutputs,
        decoder: Estimator,  # fitted on all outputs
        scoring: Scoring,  # see `object_score`
        splits: Splits,  # pairs (train, test)
        held: list[np.ndarray],  # of each split the rows that are scored, increasing
        candidates: Candidates = None,  # one pool for all rows, or one set for each of the n rows
    ) -> None:
        self.fitted, self.decoder, self.held = fitted, decoder, held
        n = len(fitted.outputs)
        self.train: list[Ints] = [np.unique(np.arange(n)[train]) for train, _ in splits]
        self.scored: Ints = np.unique(np.concatenate(held))
        self.truth: Any = fitted.outputs.take(self.scored)
        self.candidates: Any = None
        self.pool: Any = None
        if candidates is not None:
            self.candidates = self._embedded(candidates)
        elif hasattr(decoder, "embed"):
            self.pool = decoder.embed(None)
            rows = fitted.outputs if fitted.rows is None else fitted.rows
            seen = np.zeros((n, len(self.train)), dtype=bool)
            for k, train in enumerate(self.train):
                seen[train, k] = True
            # (n_splits, n_distinct): where an output first is in the training rows of a split, or n
            self.first: Ints = np.minimum(rows.reduce(_FirstSeen(), np.arange(n), seen), n).T
            # equal rows may be of different objects: a split has those that it saw
            self.places: Ints = np.unique(self.first[self.first < n])
            self.objects: Any = fitted.outputs.take(self.places)
        if scoring is None:
            per_query = getattr(self.candidates, "is_per_query", False)
            basis = fitted.basis
            scoring = RECIPROCAL_RANK if per_query else metric_of(basis.kernel_, basis.landmarks_)
        # a function of true and predicted objects; None is the rank of the truth
        self.metric: Callable[..., float] | None = scoring if callable(scoring) else None
        if isinstance(scoring, str) and scoring != RECIPROCAL_RANK:
            self.metric = partial(resolve(scoring, metrics(), "scoring"), fitted.basis.kernel_)
        self.name: str = (
            scoring if isinstance(scoring, str) else getattr(scoring, "__name__", repr(scoring))
        )

    def _embedded(self, candidates: Candidates) -> Any:
        """Return candidates, embedded if the decoder embeds; of sets, those of scored rows only."""
        n, landmarks = len(self.fitted.outputs), self.fitted.basis.landmarks_
        if not isinstance(candidates, CandidateSets) and are_lists(candidates, landmarks):
            candidates = CandidateSets.from_lists(candidates)  # type: ignore[arg-type]
        if isinstance(candidates, CandidateSets):
            if len(candidates) != n:
                raise ValueError(
                    f"candidates must have one set for each of the {n} rows of X, or be one pool "
                    f"for all of them. Got {len(candidates)} sets."
                )
            candidates = candidates.of_queries(self.scored)
        return self.decoder.embed(candidates) if hasattr(self.decoder, "embed") else candidates

    def __call__(self, k: int, F: np.ndarray) -> list[float]:
        """Return the score of each alpha on split k, from predictions F (n_alphas, h, p)."""
        at = np.searchsorted(self.scored, self.held[k])
        truth = take(self.truth, at)
        decoder, pool = self._of_split(k, at)
        if self.metric is None:
            truth_ranks = able(decoder, "truth_ranks", by="scoring").truth_ranks
            scores = [mean_reciprocal_rank(truth_ranks(F_alpha, truth, pool)) for F_alpha in F]
        else:
            if getattr(pool, "is_per_query", False):
                decoded = (decoder.decode(F_alpha, pool) for F_alpha in F)
            else:  # one search serves all alphas
                everything = decoder.decode(F.reshape(-1, F.shape[2]), pool)
                parts = row_slices(F.shape[0] * F.shape[1], F.shape[1])
                decoded = (take(everything, part) for part in parts)
            scores = [float(self.metric(truth, predicted)) for predicted in decoded]
        if np.isnan(scores).any():
            raise ValueError(
                f"scoring={self.name!r} gave nan for {F.shape[1]} held-out predictions: give "
                'another metric, or scoring="coordinates".'
            )
        return scores

    def _of_split(self, k: int, at: np.ndarray) -> tuple[Any, Any]:
        """Return decoder and candidates of split k, for rows `at` among the scored ones."""
        if self.candidates is not None:
            if not getattr(self.candidates, "is_per_query", False):
                return self.decoder, self.candidates
            objects = self.candidates.objects.of_queries(at)
            return self.decoder, replace(self.candidates, objects=objects)
        if self.pool is None:
            return self.fitted.subset(self.train[k]).fitted(clone(self.decoder)), None
        if self.metric is None:  # a truth that no training row has would have no rank
            return self.decoder, self.pool
        # the candidates that its training rows have, as they appear there
        first = self.first[k]
        seen = np.flatnonzero(first < len(self.fitted.outputs))
        if len(seen) > _MOST_CANDIDATES:
            # any sample will do, the same for all alphas
            drawn = np.random.default_rng(0).choice(seen, _MOST_CANDIDATES, replace=False)
            seen = np.sort(drawn)
        seen = seen[np.argsort(first[seen])]
        objects = take(self.objects, np.searchsorted(self.places, first[seen]))
        return self.decoder, self.pool.of_numbers(seen, objects)


class _FirstSeen(Reduction[Any]):
    """A reduction to the first number of each distinct row in the training rows of each split.

    It is the largest integer where a split has no such row. Rows are in order of appearance.
    """

    def __call__(self, rows: KernelRows, *beside: np.ndarray) -> dict[Any, np.ndarray]:
        numbers, seen = beside
        places = np.where(seen, numbers[:, None], np.iinfo(np.int64).max)
        earliest: dict[Any, np.ndarray] = {}
        for key, place in zip(keys_of(rows, numbers), places, strict=True):
            earliest[key] = np.minimum(earliest.get(key, place), place)
        return earliest

    def combine(self, total: dict[Any, np.ndarray] | None, part: dict[Any, np.ndarray]) -> Any:
        if total is None:
            return part
        for key, place in part.items():
            total[key] = np.minimum(total.get(key, place), place)
        return total

    def finish(self, total: dict[Any, np.ndarray]) -> np.ndarray:
        return np.array(list(total.values()))
