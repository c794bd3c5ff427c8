"""Logistic regression of many outputs that say yes or no: labels of sets, pairs of items.

All columns are fitted together, by L-BFGS on products of matrices, along a path of penalties.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from skout.dev import take, unique_columns

from ..clock import Clock
from ..samples import Inputs, Profile, Sample
from .base import FLOPS, Map, Path, Regressor

_STEPS = 100
_STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True, kw_only=True)
class LogisticMap(Map):
    """Logistic regression of coordinates that say yes or no."""

    name = "logistic"
    filled = ("C",)
    takes_sparse = True
    n_cells = len(_STRENGTHS)

    C: float | None = None  # one over the penalty; None is 1

    @classmethod
    def defaults(cls, profile: Profile) -> list[tuple[float, Self]]:
        if profile.is_object or not profile.is_binary:
            return []
        starts = {"dense": (4, "standard"), "sparse": (3, "unit"), "table": (4, "none")}
        place, scaling = starts[profile.layout]
        return [(place, cls(scaling=scaling))]

    def build(self, seed: int, n_jobs: int | None = None, device: str | None = None) -> Regressor:
        return LogisticOutputs(1.0 if self.C is None else self.C)

    def path(self, sample: Sample) -> Path:
        X, T = sample.rows(self.scaling), sample.T
        F = {C: sample.empty() for C in _STRENGTHS}
        for train, held, rows in sample.timed_folds():
            weights = sample.weights(train)
            answers, which, base, gain = _yes_or_no(T[train], weights)
            new, clock = take(X, held), sample.clock
            path = _logistic_path(take(X, train), answers, _STRENGTHS, weights, clock)
            for C, coef, intercept in path:
                F[C][rows] = base + expit(new @ coef + intercept)[:, which] * gain
        for C, values in F.items():
            yield replace(self, C=C), values

    def cost(self, profile: Profile, n: int) -> float:
        steps = 300 if self.C is None else 100  # a path, or one penalty
        q = min(profile.p, profile.p / 3 if profile.p > 60 else profile.p)  # different answers
        slow = 4.0 if profile.is_sparse else 1.0
        return steps * n * q * (4.0 * profile.d * slow / FLOPS + 2.5e-8)


def _yes_or_no(
    T: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the different answers (n, q) of columns (n, p), the number of that of each column
    (p,), the value of no (p,), and what the mean of yes is above it (p,)."""
    base = np.where((T == 0.0).any(axis=0), 0.0, T.min(axis=0))
    says_yes = base != T
    first, which = unique_columns(says_yes)
    counts = np.ones(len(T)) if weights is None else weights
    yes = counts @ says_yes
    gain = counts @ (T - base) / np.where(yes > 0.0, yes, 1.0)
    return says_yes[:, first], which, base, gain


def _logistic_path(
    X: Inputs,
    answers: np.ndarray,
    strengths: Sequence[float],
    weights: np.ndarray | None = None,
    clock: Clock | None = None,
) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Yield C, coefficients (d, q) and intercepts (q,), from strong penalties to weak ones.

    Minimizes mean_i log(1 + exp(-s_i f(x_i))) + 1/(2 C n) ||w||^2 for each answer, s = 1 or -1.
    With weights the mean is that of the weighted rows, and n is their sum. The clock is checked
    at each evaluation of the loss.
    """
    counts = np.ones((len(answers), 1)) if weights is None else weights[:, None]
    d, n, q = X.shape[1], counts.sum(), answers.shape[1]
    signs = np.where(answers, 1.0, -1.0)
    share = np.clip((counts * answers).sum(axis=0) / n, 0.5 / n, 1.0 - 0.5 / n)
    start = np.vstack([np.zeros((d, q)), np.log(share / (1.0 - share))])
    for C in sorted(strengths):
        penalty = 1.0 / (C * n)

        def loss(w: np.ndarray, penalty: float = penalty) -> tuple[float, np.ndarray]:
            if clock is not None:
                clock.check()
            W = w.reshape(d + 1, q)
            margin = signs * (X @ W[:-1] + W[-1])
            mean = (counts * np.logaddexp(0.0, -margin)).sum() / n
            value = mean + 0.5 * penalty * np.vdot(W[:-1], W[:-1])
            slope = -counts * signs * expit(-margin) / n  # (n, q)
            return float(value), np.vstack([X.T @ slope + penalty * W[:-1], slope.sum(0)]).ravel()

        solution = minimize(
            loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}
        )
        start = solution.x.reshape(d + 1, q)
        yield C, start[:-1].copy(), start[-1].copy()


class LogisticOutputs(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Logistic regression of columns that have one value for no and others for yes.

    C is one over the penalty, as in scikit-learn.
    """

    which_: np.ndarray
    base_: np.ndarray
    gain_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: Inputs, y: Any, sample_weight: np.ndarray | None = None) -> LogisticOutputs:
        """Fit all columns."""
        targets = np.reshape(y, (len(y), -1))
        answers, self.which_, self.base_, self.gain_ = _yes_or_no(targets, sample_weight)
        weaker = [C for C in (0.1, 1.0, 10.0) if C < self.C]  # a path is faster, and the same
        path = _logistic_path(X, answers, [*weaker, self.C], sample_weight)
        *_, (_, self.coef_, self.intercept_) = path
        return self

    def predict(self, X: Inputs) -> np.ndarray:
        """Return base + P(yes | x) gain of each column, shape (n, p)."""
        return np.asarray(
            self.base_ + expit(X @ self.coef_ + self.intercept_)[:, self.which_] * self.gain_
        )
