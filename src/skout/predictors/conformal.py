"""Conformal prediction sets: sets of candidates that hold the truth with a chosen probability."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows
from .._numerics.estimators import all_at_once, frames_out
from .._numerics.typing import (
    Candidates,
    Estimator,
    Floats,
    Index,
    Labels,
    Objects,
    RandomState,
    Weights,
)
from .._numerics.validation import check_choice, check_level, check_rng
from ..decoding import CandidateSets, EmbeddedPool
from ..decoding.base import able
from .cross_conformal import Fold, Request, crossed_sets, held_out, learned_scores, pools_of
from .lists import Calibrated, Ranker, plain_pool
from .nonconformity import (
    SCORES,
    LearnedScore,
    choose_score,
    is_learned,
    learn_score,
    lists_to_learn,
    sets_within,
    truth_scores,
)
from .out_of_fold import OutOfFold, check_predictor
from .thresholds import (
    checked_labels,
    checked_length,
    checked_weights,
    codes_among,
    conformal_quantile,
    masses,
    new_strata,
    row_masses,
    set_sizes,
    warn_of,
)

AUTO = "auto"
# Rows, or groups of rows, that a learned score needs: two on either side of the split.
_LEAST = 4


@frames_out
class ConformalSets(Calibrated):
    """Sets of candidates that hold the truth with a given probability (split conformal).

    A candidate is in the set when its score is at most q. On calibration data, which the model
    must not have seen, q is the ceil((n + 1) coverage)-th smallest score of the true object; if new
    data are exchangeable with these, P(truth in set) >= coverage. No set is empty.

    Few rows are better used by `calibrate(X, Y, cv=10)`: all of them train, and all calibrate.

    Parameters
    ----------
    model : predictor that ranks candidates, or Pipeline that ends in one
        `StructuredPredictor`, `TwoWay`, `Ensemble`, or what wraps one. Fitted, and if it is fitted
        again, calibrate again; with `cv` it need not be.
    score : str or sequence of str, default "gap"
        The nonconformity score. "gap": how far a candidate scores below the best one. "rank": its
        rank. "softmax": minus the log of its probability, learned from the model's score and rank
        and from how often it was among the training outputs. "cumulative": the probability of all
        that are more likely. "quantile_gap", "quantile_rank": the level of its gap, or rank, among
        quantiles that `JointQuantileRegressor` predicts for the query. Of several names, or "auto",
        which is all, the one of the smallest sets is taken.
    prior : bool, default True
        Whether learned scores may use how often candidates were among the training outputs.
    share : float, default 0.3
        Part of the calibration rows that scores are learned and chosen on; the threshold comes
        from the others. All rows set it where nothing is learned, and with `cv`.
    random_state : None, int or Generator
        Seed of that split, or of the folds.

    Attributes
    ----------
    gaps_ : ndarray of shape (n,)
        Scores of the truth on the rows that set the threshold, increasing; infinite where the truth
        was no candidate.
    score_ : str
        The name of the score in use.
    mean_sizes_ : dict
        If there was a choice: mean size of the sets by each score, at a coverage of 0.9.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import ConformalSets, iokr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (300, 1))
    >>> Y = np.eye(4)[np.clip(np.round(X[:, 0] + rng.normal(0, 0.5, 300)) + 1, 0, 3).astype(int)]
    >>> model = iokr("gaussian", "linear", alpha=1e-2).fit(X[:100], Y[:100])
    >>> sets = ConformalSets(model).calibrate(X[100:200], Y[100:200])
    >>> sets.predict(X[200:]).sizes[:6]
    array([1, 1, 1, 1, 2, 1])
    >>> round(sets.evaluate(X[200:], Y[200:])["coverage"], 2)
    0.92
    """

    _measured = "gaps_"
    # fitted attributes, with the values that score="gap" without folds leaves
    _learned_score: LearnedScore | None = None
    _mass: Floats | None = None  # the weight of each of gaps_
    _kinds: Any = None  # (edges of sizes or None, labels) of strata
    _codes: np.ndarray | None = None  # the stratum of each of gaps_
    _weighted = False
    _folds: tuple[Fold, ...] | list[Fold] = ()

    score_: str
    gaps_: np.ndarray

    def __init__(
        self,
        model: Estimator,
        score: str | Sequence[str] = "gap",
        *,
        prior: bool = True,
        share: float = 0.3,
        random_state: RandomState = None,
    ) -> None:
        self.model = model
        self.score = score
        self.prior = prior
        self.share = share
        self.random_state = random_state

    @all_at_once
    def calibrate(
        self,
        X: Objects,
        Y: Objects,
        candidates: Candidates = None,
        *,
        groups: Labels = None,
        strata: Labels = None,
        weights: Weights = None,
        cv: int | None = None,
    ) -> ConformalSets:
        """Compute the scores of the true objects on held-out data.

        Parameters
        ----------
        X : what the model takes, n rows
        Y : objects, n of them
        candidates : objects, CandidateSets or list of lists, optional
            As they will be at prediction; default the distinct training outputs.
        groups : sequence of n labels, optional
            Rows of one label, such as spectra of one molecule, are dependent: together they count
            as one row. The coverage is that of a row of a new group.
        strata : sequence of n labels or "size", optional
            The promise then holds in each stratum by itself, such as each instrument. "size" is by
            the number of candidates, in quartiles.
        weights : sequence of n numbers, optional
            Where new inputs have another distribution than these (covariate shift): the ratio of
            its density to that of these, up to a factor.
        cv : int, optional
            Number of folds: the rows are those to fit on, too. A copy of the model is fitted
            without each fold, groups together, and kept; candidates are compared with each row
            under the model that has not seen it (cross-conformal, CV+). At least 2 coverage - 1 is
            guaranteed, less a term that is small with few folds; in experiments the coverage is
            about `coverage`. Learned scores come from the other folds, whose models have seen this
            one: for them there is no proof.
        """
        names = self._names()
        n = checked_length(X, Y)
        groups = checked_labels(groups, "groups", n)
        weights = None if weights is None else checked_weights(weights, n)
        self.__dict__.pop("mean_sizes_", None)
        if cv is not None:
            return self._by_folds(names, X, Y, candidates, groups, strata, weights, cv)
        ranker = Ranker(self.model, type(self).__name__)
        fast = names == ["gap"] and ranker.decoder is not None
        pool = self._pool(ranker, candidates, fast, "gaps")
        labels = new_strata(strata, n, lambda: set_sizes(pool, n))
        self._learned_score, self.score_, rows = None, names[0], np.arange(n)
        if fast:
            values = ranker.decoder.gaps(_coordinates(ranker, X), Y, pool)
        else:
            truth = ranker.matched(Y, pool, n)
            score, rows = self._learned(ranker, names, X, pool, truth, groups)
            lists = ranker.lists(X, pool, rows, prior=self.prior, truth=truth)
            values = truth_scores(score, lists)
            self._learned_score, self.score_ = score, score.name
        self._made_by, self._folds, self._outputs = ranker.made_by, (), None
        self._keep(values, rows, groups, weights, labels)
        return self

    def _by_folds(
        self,
        names: list[str],
        X: Objects,
        Y: Objects,
        candidates: Candidates,
        groups: np.ndarray | None,
        strata: Labels,
        weights: Weights,
        cv: int,
    ) -> ConformalSets:
        """Calibrate by folds: score the true objects of each by the model fitted without it."""
        check_predictor(self.model)
        rng = check_rng(self.random_state)
        data = OutOfFold(self.model, X, Y, groups, candidates)
        n, rows = data.n, np.arange(data.n)
        labels = new_strata(strata, n, lambda: data.sizes(rows))
        held = list(held_out(data, cv, rng, type(self).__name__))
        scores, sizes = learned_scores(names, held, data.units, self.prior, rng)
        values = np.empty(n)
        for part, score in zip(held, scores, strict=True):
            lists = part.ranker.lists(part.X, part.pool, prior=self.prior, truth=part.truth)
            values[part.rows] = truth_scores(score, lists)
        mass = self._keep(values, rows, groups, weights, labels)
        every = np.ones(n) if mass is None else mass
        of = np.full(n, -1) if labels[1] is None else labels[1]
        self._folds = [
            Fold.of(part.model, score, *(A[part.rows] for A in (values, every, of)))
            for part, score in zip(held, scores, strict=True)
        ]
        self._made_by, self._learned_score, self.score_ = None, scores[0], scores[0].name
        self._outputs = data.outputs.load() if candidates is None else None
        if sizes:
            self.mean_sizes_: dict[str, float] = sizes
        return self

    def _keep(
        self,
        values: np.ndarray,
        rows: np.ndarray,
        groups: np.ndarray | None,
        weights: Weights,
        strata: tuple[tuple[Any, list[Hashable]] | None, np.ndarray | None],
    ) -> Any:
        """Store the scores of the true objects, increasing; return the mass of each row."""
        kinds, codes = strata
        mass = row_masses(groups, weights, codes, rows)
        order = np.argsort(values, kind="stable")
        self.gaps_, self._mass = values[order], None if mass is None else mass[order]
        self._kinds, self._codes = kinds, None if codes is None else codes[rows][order]
        self._weighted = weights is not None
        return mass

    def predict(
        self,
        X: Objects,
        candidates: Candidates = None,
        coverage: float = 0.9,
        *,
        strata: Labels = None,
        weights: Weights = None,
    ) -> CandidateSets:
        """Return a set of candidates for each row of X, best first.

        Parameters
        ----------
        X : what the model takes, n rows
        candidates : objects, CandidateSets or list of lists, optional
            Default the distinct training outputs.
        coverage : float, default 0.9
            Probability that the truth is in the set, between 0 and 1.
        strata : sequence of n labels, optional
            As in `calibrate`; required if `calibrate` had labels.
        weights : sequence of n numbers, optional
            As in `calibrate`; required if `calibrate` had weights.

        Returns
        -------
        sets : CandidateSets
            `sets[i]` are the objects of row i, `sets.sizes` how many they are. Candidates that the
            kernel cannot tell apart, such as molecules of one fingerprint, are there once.
        """
        ranker, pool = self._ready(candidates, coverage, "within")
        request = self._request(coverage, n_rows(X), pool, strata, weights)
        sets: CandidateSets = self._sets(ranker, X, pool, request)
        return sets

    def threshold(
        self, coverage: float = 0.9, stratum: object = None, weight: float = 1.0
    ) -> float:
        """Return the largest nonconformity score that a candidate of a set may have.

        Parameters
        ----------
        coverage : float, default 0.9
            Probability that the truth is in a set.
        stratum : label, optional
            The stratum of the query, if `calibrate` had strata; with "size" its number, from 0 for
            the smallest sets.
        weight : float, default 1.0
            The weight of the query, if `calibrate` had weights.

        Returns
        -------
        gap : float
            Infinite where the calibration data are too few, or too many truths were no candidate:
            then sets hold every candidate. With `cv`, of all held-out scores together; sets compare
            fold by fold.
        """
        self._check_calibrated()
        check_level(coverage, "coverage")
        if self._kinds is None:
            return self._cut(coverage, None, weight, 3)
        labels = self._kinds[1]
        if stratum not in labels:
            raise ValueError(f"stratum must be one of {labels}. Got {stratum!r} instead.")
        return self._cut(coverage, labels.index(stratum), weight, 3)

    def evaluate(
        self,
        X: Objects,
        Y: Objects,
        candidates: Candidates = None,
        coverage: float = 0.9,
        *,
        groups: Labels = None,
        strata: Labels = None,
        weights: Weights = None,
    ) -> dict[str, object]:
        """Return how often the sets hold the truth, and how large they are.

        Parameters
        ----------
        X : what the model takes, n rows
        Y : objects, n of them
        candidates : objects, CandidateSets or list of lists, optional
        coverage : float, default 0.9
            As in `predict`.
        groups : sequence of n labels, optional
            Rows of one label count as one row together.
        strata, weights : optional
            As in `predict`.

        Returns
        -------
        result : dict
            "coverage", "mean_size", "median_size" and "share_of_one", the sets of one candidate;
            with strata "strata", the coverage, mean size and number of rows of each.
        """
        ranker, pool = self._ready(candidates, coverage, "embed", "gaps", "within")
        n = checked_length(X, Y)
        request = self._request(coverage, n, pool, strata, weights)
        sets = self._sets(ranker, X, pool, request)
        covered = self._covered(ranker, X, Y, pool, sets)
        groups = checked_labels(groups, "groups", n)
        mass = masses(groups)

        def mean(values: np.ndarray, rows: Index = slice(None)) -> float:
            weights = None if mass is None else mass[rows]
            return float(np.average(values[rows], weights=weights))

        result: dict[str, Any] = {
            "coverage": mean(covered),
            "mean_size": mean(sets.sizes),
            "median_size": float(np.median(sets.sizes)),
            "share_of_one": mean(sets.sizes == 1),
        }
        if self._kinds is not None:
            strata_rows = [np.flatnonzero(request.codes == j) for j in range(len(self._kinds[1]))]
            result["strata"] = {
                label: {
                    "coverage": mean(covered, rows),
                    "mean_size": mean(sets.sizes, rows),
                    "rows": len(rows),
                }
                for label, rows in zip(self._kinds[1], strata_rows, strict=True)
                if len(rows)
            }
        return result

    # Nonconformity scores -----------------------------------------------------------------------

    def _names(self) -> list[str]:
        """Return the names of the scores to choose from."""
        score: Any = self.score
        names: list[str] = list(score) if isinstance(score, list | tuple) else [score]
        for name in names:
            check_choice(name, "score", (*SCORES, AUTO))
        if not names:
            raise ValueError("score is empty: give at least one name.")
        check_level(self.share, "share")
        return list(SCORES) if AUTO in names else names

    def _pool(self, ranker: Ranker, candidates: Candidates, fast: bool, *methods: str) -> Any:
        """Return the embedded candidates; if `fast`, as the search of the decoder takes them."""
        if not fast:
            return ranker.last.embed(candidates)
        decoder = able(ranker.decoder, *methods, by=type(self).__name__)
        return decoder.embed(candidates) if hasattr(decoder, "embed") else candidates

    def _learned(
        self,
        ranker: Ranker,
        names: list[str],
        X: Objects,
        pool: Candidates,
        truth: np.ndarray,
        groups: Labels,
    ) -> tuple[LearnedScore, np.ndarray]:
        """Return a score learned on a part of the rows, and the numbers of the other rows."""
        n, rng = len(truth), check_rng(self.random_state)
        if not is_learned(names):
            return LearnedScore(names[0]), np.arange(n)
        unit = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
        n_units = int(unit.max()) + 1
        if n_units < _LEAST:
            raise ValueError(
                f"score={self.score!r} is learned on a part of the calibration rows, or groups, "
                f"which needs {_LEAST} of them. Got {n_units}: give more, or score='gap'."
            )
        lists, units, place, rest = lists_to_learn(
            ranker, X, pool, truth, unit, self.share, self.prior, rng
        )
        name, sizes = choose_score(names, lists, units, place, rng)
        if sizes:
            self.mean_sizes_ = sizes
        return learn_score(name, lists, masses(units), rng), rest

    # Sets -----------------------------------------------------------------------------------------

    def _ready(
        self, candidates: Candidates, coverage: float, *methods: str
    ) -> tuple[Ranker, EmbeddedPool]:
        """Return the model, of folds the first one, and the embedded candidates."""
        self._check_calibrated()
        check_level(coverage, "coverage")
        if self._folds:
            return self._of_fold(self._folds[0].model, candidates)
        ranker = self._ranker()
        return ranker, self._pool(ranker, candidates, self._learned_score is None, *methods)

    def _sets(self, ranker: Ranker, X: Objects, pool: Candidates, request: Request) -> Any:
        """Return the prediction sets of queries."""
        gap = self._cuts(request)
        if self._folds:
            who = type(self).__name__
            pools = pools_of([fold.model for fold in self._folds], pool, who)
            return crossed_sets(list(self._folds), X, pools, request, self.prior, who)
        if self._learned_score is None:
            same = len(gap) > 0 and np.all(gap == gap[0])
            F = _coordinates(ranker, X)
            return ranker.decoder.within(F, float(gap[0]) if same else gap, pool)
        parts, start = [], 0
        for lists in ranker.lists(X, pool, prior=self.prior):
            scores = self._learned_score(lists)
            parts.append(sets_within(scores, lists, gap[start : start + len(lists)]))
            start += len(lists)
        sizes = np.concatenate([[0], *(sizes for sizes, _ in parts)])
        places = np.concatenate([np.empty(0, dtype=np.intp), *(place for _, place in parts)])
        return CandidateSets(plain_pool(pool).pool, np.cumsum(sizes), places)

    def _covered(
        self, ranker: Ranker, X: Objects, Y: Objects, pool: EmbeddedPool, sets: CandidateSets
    ) -> np.ndarray:
        """Return whether the truth of each row is in its set."""
        if self._learned_score is None:  # no gap is finite where the truth is not in the set
            pool = replace(pool, objects=sets)
            gaps: Floats = ranker.decoder.gaps(_coordinates(ranker, X), Y, pool)
            return np.isfinite(gaps)
        truth = ranker.matched(Y, pool, len(sets))
        hit = plain_pool(pool).inverse[sets.indices] == truth[sets.query_of]
        return np.bincount(sets.query_of[hit], minlength=len(sets)) > 0

    # Thresholds -----------------------------------------------------------------------------------

    def _cut(self, coverage: float, code: int | None, weight: float, stacklevel: int) -> float:
        """Return the threshold in a stratum; warn where it is infinite."""
        values, mass, where = self.gaps_, self._mass, ""
        if code is not None and code >= 0:
            rows = self._codes == code
            values, mass = values[rows], None if mass is None else mass[rows]
            where = f" in stratum {self._kinds[1][code]!r}"
        q = conformal_quantile(values, coverage, mass, weight)
        if math.isinf(q):
            warn_of(values, coverage, mass, where, stacklevel)
        return q

    def _request(
        self, coverage: float, n: int, pool: Candidates, strata: Labels, weights: Weights
    ) -> Request:
        """Return the coverage with the stratum and weight of each query."""
        if self._weighted != (weights is not None):
            have = "with" if self._weighted else "without"
            need = "give those of these rows" if self._weighted else "leave them out"
            raise ValueError(f"The sets were calibrated {have} weights: {need}.")
        w = np.ones(n) if weights is None else checked_weights(weights, n)
        return Request(coverage, self._codes_of(strata, n, pool), w)

    def _cuts(self, request: Request) -> np.ndarray:
        """Return the threshold of each query, shape (n,)."""
        pairs = np.column_stack([request.codes, request.weights])
        cells, which = np.unique(pairs, axis=0, return_inverse=True)
        cuts = [self._cut(request.coverage, int(code), float(v), 5) for code, v in cells]
        return np.asarray(cuts)[which.reshape(-1)]

    def _codes_of(self, strata: Labels, n: int, pool: Candidates) -> np.ndarray:
        """Return the number of the stratum of each query, -1 where there are no strata."""
        if self._kinds is None:
            if strata is not None:
                raise ValueError("The sets were calibrated without strata: leave them out.")
            return np.full(n, -1)
        edges, labels = self._kinds
        if edges is not None:
            return np.searchsorted(edges, set_sizes(pool, n))
        if strata is None:
            raise ValueError("The sets were calibrated with strata: give those of these rows.")
        return codes_among(labels, strata, n)


def _coordinates(ranker: Ranker, X: Objects) -> Floats:
    """Return the predicted coordinates of queries."""
    F: Floats = ranker.last.predict_coordinates(ranker.inputs(X))
    return F
