"""Conformal selection: accept best candidates such that few of them are wrong on average."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from .._numerics.arrays import n_rows
from .._numerics.estimators import all_at_once
from .._numerics.typing import Candidates, Estimator, Floats, Labels, Objects, RandomState, Rng
from .._numerics.validation import check_level, check_rng
from ..decoding.pools import EmbeddedPool, taken
from .answers import Answers
from .cross_conformal import held_lists, held_out, pools_of
from .lists import Calibrated, Lists, Ranker, plain_pool
from .nonconformity import Softmax, fit_softmax, lists_to_learn, logistic, query_features
from .out_of_fold import OutOfFold, check_predictor
from .thresholds import checked_labels, checked_length, masses

# Rows, or groups of rows, that a split needs: two on either side.
_LEAST = 4
# Relative standard deviation below which a feature is constant, and is not used.
_TINY = 1e-9
# Queries from which on squares of features are used, too: fewer would not determine them.
_MANY = 500


@dataclass(frozen=True)
class AnswerConfidence:
    """A logistic regression of whether the best candidate of a query is right."""

    softmax: Softmax
    centre: np.ndarray  # (5,) of the features of a query, as their spread
    spread: np.ndarray
    has_squares: bool
    coef: Floats = field(default_factory=lambda: np.empty(0))  # (6,), or (9,) with squares

    @classmethod
    def learned(cls, lists: Lists, weights: np.ndarray) -> AnswerConfidence:
        """Fit the regression to queries with their true candidates, by their weights."""
        softmax = fit_softmax(lists, weights)
        features = _features(lists, softmax)
        centre = np.average(features, axis=0, weights=weights)
        spread = np.sqrt(np.average((features - centre) ** 2, axis=0, weights=weights))
        spread = np.where(spread > _TINY * np.maximum(1.0, np.abs(centre)), spread, np.inf)
        unfitted = cls(softmax, centre, spread, bool(weights.sum() >= _MANY))
        right = lists.truth == lists.indptr[:-1]
        return replace(unfitted, coef=logistic(unfitted._columns(lists), right, weights))

    def __call__(self, lists: Lists) -> Floats:
        """Return the log odds of each query, shape (n,)."""
        log_odds: Floats = self._columns(lists) @ self.coef
        return log_odds

    def _columns(self, lists: Lists) -> Floats:
        """Return the columns of the regression: scaled features, some of their squares, and 1."""
        features = (_features(lists, self.softmax) - self.centre) / self.spread
        squares = features[:, [0, 1, 4] if self.has_squares else []] ** 2
        return np.column_stack([features, squares, np.ones(len(features))])


def _features(lists: Lists, softmax: Softmax) -> np.ndarray:
    """Return `query_features` and the score of the best candidate, shape (n, 5)."""
    features = query_features(lists, softmax.log_probabilities(lists))
    return np.column_stack([features, lists.score[lists.indptr[:-1]]])


class CalibrationPart(NamedTuple):
    """Best candidates of calibration rows, by a model that has not seen these rows."""

    model: Any  # of a fold; None is the model of the estimator
    confidence: AnswerConfidence
    rows: np.ndarray
    log_odds: np.ndarray
    is_wrong: np.ndarray


class ConformalSelection(Calibrated):
    """Accept best candidates such that at most a given share of them is wrong, on average.

    A logistic regression on part of the calibration data learns the probability that the best
    candidate of a query is right: from its score, its probability among the candidates, its
    distance to the second, their entropy and number. On the other part, p(x) = (1 + number of wrong
    answers of at least this confidence) / (n + 1) is a conformal p-value, and Benjamini and
    Hochberg's rule accepts answers of a batch. If
    the rows of the batch are exchangeable with those of calibration, which the model must not have
    seen, the expected share of wrong answers among those accepted is at most `fdr` (Jin and Candes,
    2023).

    Few rows are better used by `calibrate(X, Y, cv=10)`: all of them train, and all calibrate.

    Parameters
    ----------
    model : predictor that ranks candidates, or Pipeline that ends in one
        Fitted, and if it is fitted again, calibrate again; with `cv` it need not be.
    prior : bool, default False
        Whether confidence may count how often a candidate was among the training outputs.
    share : float, default 0.3
        Part of the calibration rows that confidence is learned on, without `cv`.
    random_state : None, int or Generator
        Seed of that split, or of the folds.

    Attributes
    ----------
    wrong_ : ndarray
        Log odds of the wrong answers on the rows that p-values come from, increasing.

    Notes
    -----
    What is guaranteed, and in which units:

    - Rows, without `groups` and `cv`: the theorem above.
    - `groups` in `calibrate` and `predict`: the expected share of accepted *group mass* that is
      wrong, where each row has the mass 1 / rows of its group. p-values and Benjamini and
      Hochberg's rule go by mass. It is the theorem if one row a group is given; for groups of
      several rows it is proved for many groups only, and measured for some hundred.
    - `groups` in `calibrate` alone: the expected share of accepted rows, of a batch whose groups
      are as large as those of calibration. p(x) = (b + wrong rows of at least this confidence) /
      (b + n), b the mean size of the group of a row: rows of one group are wrong together. It is
      proved and measured as above. If the batch has one row of each group, give
      `groups=range(n)`: it is group mass then.
    - `cv`: measured only. A median of p-values may be too small by a factor of 2, and for the false
      discovery rate by folds there is no proof.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import ConformalSelection, iokr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (900, 1))
    >>> Y = np.eye(4)[np.clip(np.round(X[:, 0] + rng.normal(0, 0.5, 900)) + 1, 0, 3).astype(int)]
    >>> model = iokr("gaussian", "linear", alpha=1e-2).fit(X[:100], Y[:100])
    >>> trust = ConformalSelection(model, random_state=0).calibrate(X[100:600], Y[100:600])
    >>> answers = trust.predict(X[600:], fdr=0.1)
    >>> wrong = (answers.objects != Y[600:]).any(axis=1)
    >>> bool(wrong.mean() > 0.2), bool(wrong[answers.accepted].mean() < 0.15)
    (True, True)
    """

    _measured = "_confidences"

    wrong_: np.ndarray

    def __init__(
        self,
        model: Estimator,
        *,
        prior: bool = False,
        share: float = 0.3,
        random_state: RandomState = None,
    ) -> None:
        self.model = model
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
        cv: int | None = None,
    ) -> ConformalSelection:
        """Learn the confidence of best candidates, and store that of wrong ones.

        Parameters
        ----------
        X : what the model takes, n rows
        Y : objects, n of them
        candidates : objects, CandidateSets or list of lists, optional
            As they will be at prediction; default the distinct training outputs.
        groups : sequence of n labels, optional
            Rows of one label, such as spectra of one molecule, count as one row together.
        cv : int, optional
            Number of folds: the rows are those to fit on, too. A copy of the model is fitted
            without each fold, groups together, and kept; confidence is learned from out-of-fold
            candidates of the other folds. A new query gets the candidate with the largest sum of
            confidence over the models of the folds, and the median of their log odds is compared
            with those of all wrong out-of-fold answers; the log odds of a model that has another
            best candidate count as minus infinity. It costs a fit, and at prediction a search, for
            each fold.
        """
        check_level(self.share, "share")
        n = checked_length(X, Y)
        groups = checked_labels(groups, "groups", n)
        rng = check_rng(self.random_state)
        if cv is None:
            ranker = Ranker(self.model, type(self).__name__)
            parts = [self._split(ranker, X, Y, candidates, groups, rng)]
            self._made_by, self._outputs = ranker.made_by, None
        else:
            check_predictor(self.model)
            data = OutOfFold(self.model, X, Y, groups, candidates)
            parts = self._by_folds(data, cv, rng)
            self._made_by = None
            self._outputs = data.outputs.load() if candidates is None else None
        rows, log_odds, is_wrong = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("rows", "log_odds", "is_wrong")
        )
        mass = np.ones(len(rows)) if groups is None else masses(groups[rows])
        wrong = np.flatnonzero(is_wrong)
        wrong = wrong[np.argsort(log_odds[wrong], kind="stable")]
        self.wrong_, self._mass, self._total = log_odds[wrong], mass[wrong], float(mass.sum())
        self._n_rows = len(rows)
        self._group_size = float(np.mean(1.0 / mass))  # of the group of a row, on average
        self._models = [part.model for part in parts]
        self._confidences = [part.confidence for part in parts]
        return self

    def predict(
        self, X: Objects, candidates: Candidates = None, fdr: float = 0.1, *, groups: Labels = None
    ) -> Answers:
        """Return the best candidate of each row of X, and whether it is accepted.

        Parameters
        ----------
        X : what the model takes, n rows
            A batch: which answers are accepted depends on the others.
        candidates : objects, CandidateSets or list of lists, optional
            Default the distinct training outputs.
        fdr : float, default 0.1
            Expected share of wrong answers among those accepted, between 0 and 1: of group mass
            with `groups`, of rows without.
        groups : sequence of n labels, optional
            Rows of one label count as one row together. If `calibrate` had none, each row counted
            as a group there.
        """
        check_level(fdr, "fdr")
        self._check_calibrated()
        groups = checked_labels(groups, "groups", n_rows(X))
        log_odds, confidence, place, pool = self._agreed(X, candidates)
        p = self._p_values(log_odds, by_rows=groups is None)
        q = benjamini_hochberg(p, masses(groups))
        objects = taken(plain_pool(pool).pool, place)
        return Answers(objects, place, confidence, p, q, q <= fdr)

    def evaluate(
        self,
        X: Objects,
        Y: Objects,
        candidates: Candidates = None,
        fdr: float = 0.1,
        *,
        groups: Labels = None,
    ) -> dict[str, float]:
        """Return how many answers of a batch are accepted, and how many of these are wrong.

        Parameters
        ----------
        X : what the model takes, n rows
        Y : objects, n of them
        candidates : objects, CandidateSets or list of lists, optional
        fdr : float, default 0.1
            As in `predict`.
        groups : sequence of n labels, optional
            As in `predict`; all shares below are then of group mass.

        Returns
        -------
        result : dict
            "fdr", the share of wrong answers among the accepted, 0 if none is; "accepted", their
            share of all; "power", their share of the right ones; "top_1", that of right ones.
        """
        answers = self.predict(X, candidates, fdr, groups=groups)
        n = len(answers)
        ranker, pool = self._first_search(candidates)
        right = plain_pool(pool).inverse[answers.indices] == ranker.matched(Y, pool, n)
        mass = np.ones(n) if groups is None else masses(checked_labels(groups, "groups", n))
        accepted = float(mass @ answers.accepted)
        good = float(mass @ (answers.accepted & right))
        return {
            "fdr": (accepted - good) / accepted if accepted else 0.0,
            "accepted": accepted / float(mass.sum()),
            "power": good / float(mass @ right) if right.any() else 0.0,
            "top_1": float(mass @ right) / float(mass.sum()),
        }

    # Calibration ----------------------------------------------------------------------------------

    def _split(
        self,
        ranker: Ranker,
        X: Objects,
        Y: Objects,
        candidates: Candidates,
        groups: np.ndarray | None,
        rng: Rng,
    ) -> CalibrationPart:
        """Learn confidence on a part of the rows, and return the best candidates of the others."""
        n = n_rows(X)
        if n < _LEAST:
            raise ValueError(f"calibrate needs at least 4 rows, two for each part. Got {n}.")
        unit = np.arange(n) if groups is None else groups
        if len(np.unique(unit)) < _LEAST:
            raise ValueError(f"groups must have at least 4 labels. Got {len(np.unique(unit))}.")
        pool = ranker.last.embed(candidates)
        truth = ranker.matched(Y, pool, n)
        lists, units, _, rows = lists_to_learn(
            ranker, X, pool, truth, unit, self.share, self.prior, rng
        )
        confidence = AnswerConfidence.learned(lists, masses(units))
        log_odds, place = _best(confidence, ranker.lists(X, pool, rows, prior=self.prior))
        is_wrong = plain_pool(pool).inverse[place] != truth[rows]
        return CalibrationPart(None, confidence, rows, log_odds, is_wrong)

    def _by_folds(self, data: OutOfFold, cv: int, rng: Rng) -> list[CalibrationPart]:
        """Fit the model without each fold, and return the best candidates of the fold's rows."""
        held = list(held_out(data, cv, rng, type(self).__name__))
        lists, unit, fold = held_lists(held, data.units, self.prior)
        parts = []
        for k, part in enumerate(held):
            of_fold, others = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
            confidence = AnswerConfidence.learned(lists.of(others), masses(unit[others]))
            if len(of_fold) == len(part.rows):  # all were ranked already
                blocks: Iterable[Lists] = [lists.of(of_fold)]
            else:
                blocks = part.ranker.lists(part.X, part.pool, prior=self.prior)
            log_odds, place = _best(confidence, blocks)
            is_wrong = plain_pool(part.pool).inverse[place] != part.truth
            parts.append(CalibrationPart(part.model, confidence, part.rows, log_odds, is_wrong))
        return parts

    # Prediction -----------------------------------------------------------------------------------

    def _first_search(self, candidates: Candidates) -> tuple[Ranker, EmbeddedPool]:
        """Return the model, of folds the first one, and the embedded candidates."""
        model = self._models[0]
        if model is None:
            ranker = self._ranker()
            return ranker, ranker.last.embed(candidates)
        return self._of_fold(model, candidates)

    def _agreed(
        self, X: Objects, candidates: Candidates
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
        """Return log odds, confidence and positions of the best candidates, and the pool.

        The best candidate has the largest sum of confidence over the models of the folds; its log
        odds are the median of theirs, minus infinity where a model has another one.
        """
        first, pool = self._first_search(candidates)
        who = type(self).__name__
        rankers = [first, *(Ranker(model, who) for model in self._models[1:])]
        each = [
            _best(confidence, ranker.lists(X, embedded, prior=self.prior))
            for ranker, confidence, embedded in zip(
                rankers, self._confidences, pools_of(self._models, pool, who), strict=True
            )
        ]
        log_odds, place = (np.array(values) for values in zip(*each, strict=True))  # (k, n)
        number, confidence = plain_pool(pool).inverse[place], expit(log_odds)
        votes = np.array([np.sum(confidence * (number == n), axis=0) for n in number])
        best = np.argmax(votes, axis=0), np.arange(place.shape[1])
        log_odds = np.where(number == number[best], log_odds, -np.inf)
        median = np.sort(log_odds, axis=0)[(len(votes) - 1) // 2]  # the lower one of two
        return median, votes[best] / len(votes), place[best], pool

    def _p_values(self, log_odds: np.ndarray, by_rows: bool) -> np.ndarray:
        """Return p-values, (1 + mass of wrong rows of at least these log odds) / (1 + mass)."""
        mass, total = self._mass, self._total
        if by_rows:  # each row counts 1 / size of the group of a row
            total = self._n_rows / self._group_size
            mass = np.full(len(mass), 1.0 / self._group_size)
        above = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
        return (1.0 + above[np.searchsorted(self.wrong_, log_odds)]) / (1.0 + total)


def _best(confidence: AnswerConfidence, blocks: Iterable[Lists]) -> tuple[np.ndarray, np.ndarray]:
    """Return the log odds of the best candidate of each query, and its position in the pool."""
    parts = [(np.empty(0), np.empty(0, dtype=np.intp))]
    parts += [(confidence(lists), lists.place[lists.indptr[:-1]]) for lists in blocks]
    log_odds, place = zip(*parts, strict=True)
    return np.concatenate(log_odds), np.concatenate(place)


def benjamini_hochberg(p: np.ndarray, mass: np.ndarray | None = None) -> np.ndarray:
    """Return q-values: the smallest level at which each hypothesis is rejected, shape (n,).

    Hypotheses count by their mass, 1 each by default.
    """
    # q_(i) = min over j >= i of (sum of all masses) p_(j) / (sum of mass_(1), ..., mass_(j))
    order = np.argsort(p, kind="stable")
    reached = np.cumsum(np.ones(len(p)) if mass is None else mass[order])
    q = p[order] * reached[-1:] / reached
    out = np.empty(len(p))
    out[order] = np.minimum(np.minimum.accumulate(q[::-1])[::-1], 1.0)
    return out
