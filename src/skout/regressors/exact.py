"""Exact kernel ridge regression on the distinct rows of a sample, of which K is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from tqdm.auto import tqdm

from .._numerics.arrays import take, unique
from .._numerics.linalg import check_definite
from .._numerics.validation import check_rng
from ..basis.features import KernelMatrix
from ..basis.passes import Sample
from ..kernels import as_kernel
from ..solvers import dual_ridge

__all__ = ["exact_errors", "exact_ridge", "fit_exact"]


def fit_exact(
    model: Any,
    sample: Sample,
    splits: list[tuple[np.ndarray, np.ndarray]],
    alphas: list[float],
) -> Any:
    """Fit a `KernelRidge` on the distinct rows; equal rows add weights and average targets."""
    rows = sample.rows.here()
    first, inverse = unique(rows)
    model.landmarks_ = take(rows, first)
    rng = check_rng(model.random_state)
    model.kernel_ = as_kernel(model.kernel).resolve(rows, rng, sample.weights)
    K = KernelMatrix(model.kernel_, model.landmarks_, model.n_jobs).full()
    check_definite(K)
    if splits:
        folds = tqdm(splits, desc="folds", disable=not model.verbose)
        intercept = model.fit_intercept
        errors = [exact_errors(K, inverse, sample, f, alphas, intercept) for f in folds]
        model._choose(alphas, errors)
    else:
        model.alpha_ = alphas[0]
    everything = np.arange(len(inverse))
    model._matrix, model.intercept_ = exact_ridge(
        K, inverse, sample, everything, model.alpha_, model.fit_intercept, overwrite=True
    )
    model.solver_report_ = {"solver": "direct"}
    model._prepare()
    return model


def exact_ridge(
    K: np.ndarray,
    inverse: np.ndarray,
    sample: Sample,
    some: np.ndarray,
    alpha: float,
    fit_intercept: bool,
    *,
    overwrite: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Fit on some of the rows; rows without weight get coefficient 0. K may be overwritten.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        The kernel matrix of the distinct rows.
    inverse : ndarray of int, shape (n,)
        The distinct row that each row is.
    sample : Sample
    some : ndarray
        Positions of the rows to fit on, or a mask.
    alpha : float
    fit_intercept : bool
    overwrite : bool, default False
        Whether K may be overwritten.

    Returns
    -------
    coef : ndarray of shape (m, d)
    intercept : ndarray of shape (d,)
    """
    some = np.arange(len(inverse))[some]
    w = np.ones(len(inverse)) if sample.weights is None else sample.weights
    total = np.bincount(inverse[some], w[some], minlength=len(K))
    used = np.flatnonzero(total)
    sums = sparse.csr_matrix((w[some], (inverse[some], some)), shape=(len(K), len(w)))
    means = sums[used] @ sample.targets.here()
    means /= total[used, None]
    if len(used) < len(K):
        K, overwrite = K[np.ix_(used, used)], True
    solution, intercept = dual_ridge(
        K, means, total[used], alpha, fit_intercept, overwrite=overwrite
    )
    if len(used) == len(total):
        return solution, intercept
    coef = np.zeros((len(total), means.shape[1]))
    coef[used] = solution
    return coef, intercept


def exact_errors(
    K: np.ndarray,
    inverse: np.ndarray,
    sample: Sample,
    fold: tuple[np.ndarray, np.ndarray],
    alphas: list[float],
    fit_intercept: bool,
) -> list[float]:
    """Return the mean squared error on the held-out rows of a fold, for each alpha."""
    train, test = fold
    K_test = K[inverse[test]]
    w = None if sample.weights is None else sample.weights[test]
    errors = []
    for alpha in alphas:
        coef, intercept = exact_ridge(K, inverse, sample, train, alpha, fit_intercept)
        squared = (sample.targets.take(test) - K_test @ coef - intercept) ** 2
        errors.append(float(np.average(squared.mean(axis=1), weights=w)))
    return errors
