"""Slow truths: the formulas of `skout.formulas`, under the names that tests know, and a few more.

Dense matrices only, and every inverse is a pseudo-inverse, so that duplicated rows and
rank-deficient kernels need no special case. Nothing here uses the library that is tested:
`skout.formulas` imports nothing of it.
"""

import numpy as np

from skout.formulas import decode as decode
from skout.formulas import gaussian as gaussian
from skout.formulas import iokr_scores as iokr_scores
from skout.formulas import isokr_scores as isokr_scores
from skout.formulas import projected_kernel as projected_kernel
from skout.formulas import pseudo_inverse as pinv
from skout.formulas import ridge_weights as ridge_weights
from skout.formulas import siokr_scores as siokr_scores
from skout.formulas import sisokr_scores as sisokr_scores
from skout.formulas import sketched_ridge_weights as sketched_ridge_weights

__all__ = ["pinv"]


def linear(A, B):
    return A @ B.T


def polynomial(A, B, degree, gamma, coef0):
    return (gamma * (A @ B.T) + coef0) ** degree


def ridge_with_intercept(Z, T, w, alpha):
    """Minimise sum w/(2 sum w) ||t - B'z - b||^2 + alpha/2 ||B||^2 by an unpenalised column."""
    A = np.column_stack([Z, np.ones(len(Z))])
    penalty = np.sqrt(w.sum() * alpha) * np.eye(Z.shape[1] + 1)[:-1]
    root = np.sqrt(w)[:, None]
    left, right = (
        np.vstack([root * A, penalty]),
        np.vstack([root * T, np.zeros((len(penalty), T.shape[1]))]),
    )
    solution = np.linalg.lstsq(left, right, rcond=None)[0]
    return solution[:-1], solution[-1]


def coordinate_ridge(Z, T, alpha):
    """(Z'Z + n alpha I)^-1 Z'T by QR of [Z; sqrt(n alpha) I]: no squared condition number."""
    n, p = Z.shape
    left = np.vstack([Z, np.sqrt(n * alpha) * np.eye(p)])
    Q, R = np.linalg.qr(left)
    return np.linalg.solve(R, Q[:n].T @ T)


def top_k(S, k):
    """Indices of the k largest of each row by a full stable sort."""
    return np.array(
        [sorted(range(len(row)), key=lambda j: (-row[j], j))[:k] for row in S], dtype=int
    ).reshape(len(S), k)
