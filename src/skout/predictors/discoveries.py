"""Which best answers to trust: conformal selection, of which few are wrong on average."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._numerics.arrays import n_rows
from .._numerics.validation import all_at_once, check_level, check_rng
from ..decoding.pools import taken
from .answers import Answers
from .lists import Calibrated, Lists, Ranker, plain_pool
from .nonconformity import Softmax, drawn, fit_softmax, logistic, query_features
from .thresholds import checked_labels, masses

__all__ = ["ConformalSelection", "benjamini_hochberg"]


class ConformalSelection(Calibrated):
    """Accept best answers such that a given share of them is wrong at most, on average.

    A logistic regression on part of the calibration data learns how sure the best candidate of a
    query is: its probability among the candidates, its distance to the second, their entropy and
    number. On the other part, p(x) = (1 + number of wrong answers at least as sure) / (n + 1) is a
    conformal p-value, and Benjamini and Hochberg's rule accepts answers of a batch. If the batch is
    exchangeable with the calibration data, which the model must not have seen, the expected share
    of wrong answers among those accepted is at most `fdr` (Jin and Candes, 2023).

    Parameters
    ----------
    model : predictor that ranks candidates, or Pipeline that ends in one
        Fitted. If it is fitted again, calibrate again.
    prior : bool, default False
        Whether confidence may count how often a candidate was among the training outputs.
    share : float, default 0.3
        Part of the calibration rows that confidence is learnt on.
    random_state : None, int or Generator
        Seed of that split.

    Attributes
    ----------
    wrong_ : ndarray
        How sure the wrong answers were on the rows that p-values come from, increasing.

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

    _measured = "wrong_"

    def __init__(
        self, model: Any, *, prior: bool = False, share: float = 0.3, random_state: Any = None
    ) -> None:
        self.model = model
        self.prior = prior
        self.share = share
        self.random_state = random_state

    @all_at_once
    def calibrate(
        self, X: Any, Y: Any, candidates: Any = None, *, groups: Any = None
    ) -> ConformalSelection:
        """Learn how sure answers are, and how sure the wrong ones look.

        Parameters
        ----------
        X : what the model takes, n rows
        Y : objects, n of them
        candidates : objects, CandidateSets or list of lists, optional
            As they will be at prediction; default the distinct training outputs.
        groups : sequence of n labels, optional
            Rows of one label, such as spectra of one molecule, count as one row together.

        Returns
        -------
        self : ConformalSelection
        """
        check_level(self.share, "share")
        n = n_rows(X)
        if n < 4:
            raise ValueError(f"calibrate needs at least 4 rows, two for each part. Got {n}.")
        ranker = Ranker(self.model, type(self).__name__)
        unit = np.arange(n) if groups is None else checked_labels(groups, "groups", n)
        pool = ranker.last.embed(candidates)
        truth = ranker.matched(Y, pool, n)
        if len(np.unique(unit)) < 4:
            raise ValueError(f"groups must have at least 4 labels. Got {len(np.unique(unit))}.")
        learning, _ = drawn(unit, self.share, pool, check_rng(self.random_state))
        self._softmax, self._coef = self._learnt(ranker, X, pool, truth, learning, unit)
        rows = np.flatnonzero(~np.isin(unit, unit[learning]))
        sure, first, _ = self._sure(ranker, X, pool, rows)
        mass = masses(unit[rows])
        wrong = np.flatnonzero(first != truth[rows])
        wrong = wrong[np.argsort(sure[wrong], kind="stable")]
        self.wrong_, self._mass, self._total = sure[wrong], mass[wrong], float(mass.sum())
        self._made_by = ranker.made_by
        return self

    def predict(self, X: Any, candidates: Any = None, fdr: float = 0.1) -> Answers:
        """Return the best candidate of each row of X, and whether to trust it.

        Parameters
        ----------
        X : what the model takes, n rows
            A batch: which answers are accepted depends on the others.
        candidates : objects, CandidateSets or list of lists, optional
        fdr : float, default 0.1
            Expected share of wrong answers among those accepted, between 0 and 1.

        Returns
        -------
        answers : Answers
        """
        check_level(fdr, "fdr")
        self._check_calibrated()
        ranker = self._ranker()
        pool = ranker.last.embed(candidates)
        sure, _, place = self._sure(ranker, X, pool, None)
        p = self._p_values(sure)
        q = benjamini_hochberg(p)
        confidence = 1.0 / (1.0 + np.exp(-sure))
        objects = taken(plain_pool(pool).pool, place)
        return Answers(objects, place, confidence, p, q, q <= fdr)

    def evaluate(
        self, X: Any, Y: Any, candidates: Any = None, fdr: float = 0.1, *, groups: Any = None
    ) -> dict[str, float]:
        """Return how many answers of a batch are accepted, and how many of these are wrong.

        Parameters
        ----------
        X : what the model takes, n rows
        Y : objects, n of them
        candidates : objects, CandidateSets or list of lists, optional
        fdr : float, default 0.1
        groups : sequence of n labels, optional
            Rows of one label count as one row together.

        Returns
        -------
        result : dict
            "fdr", the share of wrong answers among the accepted, 0 if none is; "accepted", their
            share of all; "power", their share of the right ones; "top_1", that of right ones.
        """
        answers = self.predict(X, candidates, fdr)
        n = len(answers)
        ranker = Ranker(self.model, type(self).__name__)
        pool = ranker.last.embed(candidates)
        right = plain_pool(pool).inverse[answers.indices] == ranker.matched(Y, pool, n)
        unit = np.arange(n) if groups is None else checked_labels(groups, "groups", n)
        mass = masses(unit)
        taken_ = float(mass @ answers.accepted)
        good = float(mass @ (answers.accepted & right))
        return {
            "fdr": (taken_ - good) / taken_ if taken_ else 0.0,
            "accepted": taken_ / float(mass.sum()),
            "power": good / float(mass @ right) if right.any() else 0.0,
            "top_1": float(mass @ right) / float(mass.sum()),
        }

    def _learnt(
        self, ranker: Ranker, X: Any, pool: Any, truth: Any, some: np.ndarray, unit: np.ndarray
    ) -> tuple[Softmax, np.ndarray]:
        given = ranker.lists(X, pool, some, prior=self.prior, truth=truth)
        lists, mass = Lists.joined(list(given)), masses(unit[some])
        softmax = fit_softmax(lists, mass)
        right = lists.truth == lists.indptr[:-1]
        return softmax, logistic(_features(lists, softmax), right, mass)

    def _sure(self, ranker: Ranker, X: Any, pool: Any, rows: Any) -> tuple[np.ndarray, ...]:
        """Return the log odds of each best candidate, which one it is, and where it is."""
        empty = np.empty(0, dtype=np.intp)
        parts = [(empty, empty, empty)]
        for lists in ranker.lists(X, pool, rows, prior=self.prior):
            first = lists.indptr[:-1]
            sure = _features(lists, self._softmax) @ self._coef
            parts.append((sure, lists.number[first], lists.place[first]))
        return tuple(map(np.concatenate, zip(*parts, strict=True)))

    def _p_values(self, sure: np.ndarray) -> np.ndarray:
        """Return (1 + mass of wrong answers at least as sure) / (total mass + 1)."""
        above = np.concatenate([np.cumsum(self._mass[::-1])[::-1], [0.0]])
        return (1.0 + above[np.searchsorted(self.wrong_, sure)]) / (self._total + 1.0)


def _features(lists: Lists, softmax: Softmax) -> np.ndarray:
    features = query_features(lists, softmax.log_probabilities(lists))
    return np.column_stack([features, np.ones(len(features))])


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """Return the least level at which each hypothesis is rejected, shape (n,)."""
    # q_(i) = min over j >= i of n p_(j) / j
    order = np.argsort(p, kind="stable")
    q = p[order] * len(p) / np.arange(1, len(p) + 1)
    out = np.empty(len(p))
    out[order] = np.minimum(np.minimum.accumulate(q[::-1])[::-1], 1.0)
    return out
