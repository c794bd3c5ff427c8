"""Logistic regression of many binary outputs: labels of sets, pairs of items.

All columns are fitted together, by L-BFGS on products of matrices, along a path of penalties.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from skout.dev import take, unique_columns

from ..clock import Clock
from ..samples import Inputs, Profile, Sample
from .base import FLOPS, Map, Path, Regressor

# Iterations of L-BFGS for a penalty, at most: it begins at the solution of a stronger one.
_STEPS = 100
# Values of C on a path: they cover weak and strong penalties in steps of ten.
_STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True, kw_only=True)
class LogisticMap(Map):
    """Logistic regression of binary coordinates."""

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
            columns, which, base, gain = _binary_columns(T[train], weights)
            new, clock = take(X, held), sample.clock
            path = _logistic_path(take(X, train), columns, _STRENGTHS, weights, clock)
            for C, coef, intercept in path:
                F[C][rows] = base + expit(new @ coef + intercept)[:, which] * gain
        for C, values in F.items():
            yield replace(self, C=C), values

    def cost(self, profile: Profile, n: int) -> float:
        steps = 300 if self.C is None else 100  # a path, or one penalty
        q = min(profile.p, profile.p / 3 if profile.p > 60 else profile.p)  # distinct columns
        slow = 4.0 if profile.is_sparse else 1.0
        return steps * n * q * (4.0 * profile.d * slow / FLOPS + 2.5e-8)


def _binary_columns(
    T: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct binary columns (n, q) of T (n, p), and how columns of T follow from them.

    A column j of T is about base[j] + gain[j] * column which[j]; base and gain are of shape (p,).
    """
    base = np.where((T == 0.0).any(axis=0), 0.0, T.min(axis=0))
    is_above = base != T
    first, which = unique_columns(is_above)
    counts = np.ones(len(T)) if weights is None else weights
    n_above = counts @ is_above
    gain = counts @ (T - base) / np.where(n_above > 0.0, n_above, 1.0)
    return is_above[:, first], which, base, gain


def _logistic_path(
    X: Inputs,
    columns: np.ndarray,
    strengths: Sequence[float],
    weights: np.ndarray | None = None,
    clock: Clock | None = None,
) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Yield C, coefficients (d, q) and intercepts (q,), from strong penalties to weak ones.

    Minimizes mean_i log(1 + exp(-s_i f(x_i))) + 1/(2 C n) ||w||^2 for each column, s = 1 or -1.
    With weights the mean is that of the weighted rows, and n is their sum. The clock is checked
    at each evaluation of the loss.
    """
    counts = np.ones((len(columns), 1)) if weights is None else weights[:, None]
    d, n, q = X.shape[1], counts.sum(), columns.shape[1]
    signs = np.where(columns, 1.0, -1.0)
    share = np.clip((counts * columns).sum(axis=0) / n, 0.5 / n, 1.0 - 0.5 / n)
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
    """Logistic regression of columns of two values: 0, or the lowest one, and another.

    C is one over the penalty, as in scikit-learn.
    """

    which_: np.ndarray
    base_: np.ndarray
    gain_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(
        self, X: Inputs, y: np.ndarray, sample_weight: np.ndarray | None = None
    ) -> LogisticOutputs:
        """Fit all columns."""
        targets = np.reshape(y, (len(y), -1))
        columns, self.which_, self.base_, self.gain_ = _binary_columns(targets, sample_weight)
        weaker = [C for C in (0.1, 1.0, 10.0) if C < self.C]  # a path is faster, and the same
        path = _logistic_path(X, columns, [*weaker, self.C], sample_weight)
        *_, (_, self.coef_, self.intercept_) = path
        return self

    def predict(self, X: Inputs) -> np.ndarray:
        """Return the expected values base + P(x) gain of all columns, shape (n, p)."""
        return np.asarray(
            self.base_ + expit(X @ self.coef_ + self.intercept_)[:, self.which_] * self.gain_
        )
