"""Logistic regression of output coordinates that say yes or no: labels, and orders of pairs.

All columns are fitted together, by L-BFGS on products of matrices, along a path of penalties.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

__all__ = ["LogisticOutputs", "logistic_path", "yes_or_no"]

_STEPS = 100


def yes_or_no(
    T: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the different answers (n, q) of columns (n, p), the number of that of each column
    (p,), the value of no (p,), and what the mean of yes is above it (p,)."""
    base = np.where((T == 0.0).any(axis=0), 0.0, T.min(axis=0))
    said = base != T
    packed = np.packbits(said, axis=0).T.copy()
    _, first, which = np.unique(
        packed.view([("", packed.dtype)] * packed.shape[1])[:, 0],
        return_index=True,
        return_inverse=True,
    )
    if weights is None:
        gain = (T - base).sum(axis=0) / np.maximum(said.sum(axis=0), 1)
    else:
        yes = weights @ said
        gain = weights @ (T - base) / np.where(yes > 0.0, yes, 1.0)
    return said[:, first], which, base, gain


def logistic_path(
    X: Any, answers: np.ndarray, strengths: Sequence[float], weights: np.ndarray | None = None
) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Yield C, coefficients (d, q) and intercepts (q,), from strong penalties to weak ones.

    Minimises mean_i log(1 + exp(-s_i f(x_i))) + 1/(2 C n) ||w||^2 for each answer, s = 1 or -1.
    With weights the mean is that of the weighted rows, and n is their sum.
    """
    d = X.shape[1]
    n = len(answers) if weights is None else weights.sum()
    counts = 1.0 if weights is None else weights[:, None]
    signs = np.where(answers, 1.0, -1.0)
    q = signs.shape[1]
    share = np.clip(np.average(answers, axis=0, weights=weights), 0.5 / n, 1.0 - 0.5 / n)
    start = np.vstack([np.zeros((d, q)), np.log(share / (1.0 - share))])
    for C in sorted(strengths):
        penalty = 1.0 / (C * n)

        def loss(w: np.ndarray, penalty: float = penalty) -> tuple[float, np.ndarray]:
            W = w.reshape(d + 1, q)
            margin = signs * (X @ W[:-1] + W[-1])
            lost = (counts * np.logaddexp(0.0, -margin)).sum() / n
            value = lost + 0.5 * penalty * np.vdot(W[:-1], W[:-1])
            slope = -counts * signs * expit(-margin) / n  # (n, q)
            return float(value), np.vstack([X.T @ slope + penalty * W[:-1], slope.sum(0)]).ravel()

        found = minimize(
            loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}
        )
        start = found.x.reshape(d + 1, q)
        yield C, start[:-1].copy(), start[-1].copy()


class LogisticOutputs(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Logistic regression of columns that have one value for no and others for yes.

    C is one over the penalty, as in scikit-learn.
    """

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticOutputs:
        """Fit all columns."""
        targets = np.reshape(y, (len(y), -1))
        answers, self.which_, self.base_, self.gain_ = yes_or_no(targets, sample_weight)
        weaker = [C for C in (0.1, 1.0, 10.0) if C < self.C]  # a path is faster, and the same
        path = logistic_path(X, answers, [*weaker, self.C], sample_weight)
        *_, (_, self.coef_, self.intercept_) = path
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return base + P(yes | x) gain of each column, shape (n, p)."""
        share = expit(X @ self.coef_ + self.intercept_)
        return self.base_ + share[:, self.which_] * self.gain_
