"""The synthetic data of the thesis: sections 3.4.1, 4.5 and 5.3.1."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from .._numerics.linalg import orthonormal
from .._numerics.typing import RandomState
from .._numerics.validation import check_number, check_rng
from .dataset import Dataset

_CITATION = (
    "El Ahmad (2024). Learning deep kernel networks: application to efficient and robust "
    "structured prediction. PhD thesis, Institut Polytechnique de Paris."
)


def make_robust_regression(
    n_train: int = 10_000,
    n_test: int = 10_000,
    *,
    n_features: int = 10,
    outlier_scale: float = 0.25,
    random_state: RandomState = 42,
) -> Dataset:
    """Draw the robust regression of section 3.4.1: a function of Friedman (1991), inputs far off.

    In each part, about sqrt(n) of the n inputs (100 of 10,000) come from a normal distribution
    around 1.5 instead of the uniform one on the unit cube. The targets are f(x) + noise,

        f(x) = 0.1 exp(4 x1) + 4 / (1 + exp(-20 (x2 - 0.5))) + 3 x3 + 2 x4 + x5.

    Parameters
    ----------
    n_train, n_test : int, default 10,000
        Rows of each part.
    n_features : int, default 10
        At least 5; the others have no influence.
    outlier_scale : float, default 0.25
        Standard deviation of the inputs around 1.5. The thesis writes the covariance 0.25 I, a
        standard deviation of 0.5; the program behind its figure draws with 0.25.
    random_state : int, RandomState or None, default 42
        Legacy generator; the default is the very draw of the thesis.

    Returns
    -------
    data : Dataset
        extra["noiseless"] has f(x).

    Examples
    --------
    >>> from skout.datasets import make_robust_regression
    >>> make_robust_regression(900, 100)
    Dataset('robust_regression', X (1000, 10), Y (1000,), train 900, test 100)
    """
    check_number(n_train, "n_train", low=1, integer=True)
    check_number(n_test, "n_test", low=1, integer=True)
    check_number(n_features, "n_features", low=5, integer=True)
    check_number(outlier_scale, "outlier_scale")
    rng = check_random_state(random_state)
    test = _friedman_rows(n_test, n_features, outlier_scale, rng)  # as the authors: test first
    train = _friedman_rows(n_train, n_features, outlier_scale, rng)
    X, f, y = (np.concatenate(sides) for sides in zip(train, test, strict=True))
    return Dataset(
        "robust_regression",
        X,
        y,
        split=_parts(train=n_train, test=n_test),
        extra={"noiseless": f},
        description="Robust regression of section 3.4.1 of the thesis.",
        citation=_CITATION,
    )


def _friedman_rows(
    n: int, d: int, scale: float, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, the function and noisy targets."""
    X = rng.uniform(size=(n, d))
    outside = rng.choice(n, int(np.sqrt(n)), replace=False)
    X[outside] = rng.normal(1.5, scale, size=(len(outside), d))
    step = 4.0 / (1.0 + np.exp(-20.0 * (X[:, 1] - 0.5)))
    f = 0.1 * np.exp(4.0 * X[:, 0]) + step + 3.0 * X[:, 2] + 2.0 * X[:, 3] + X[:, 4]
    return X, f, f + rng.normal(size=n)


def make_low_rank_regression(
    n_train: int = 10_000,
    n_validation: int = 1000,
    n_test: int = 1000,
    *,
    n_features: int = 300,
    random_state: RandomState = 0,
) -> Dataset:
    """Draw the least squares of section 4.5, whose regression function is nearly of low rank.

    Inputs x ~ N(0, C) and outputs y = H x + e, e ~ N(0, E), are in R^d. The eigenvectors of C and
    E are random, their eigenvalues i^(-3/2) and 0.2 i^(-1/10); H = C H0, where the entries of H0
    are standard normal.

    Parameters
    ----------
    n_train : int, default 10,000
        Rows of the training part.
    n_validation, n_test : int, default 1,000
        Rows of the other parts.
    n_features : int, default 300
        The dimension d of inputs and outputs.
    random_state : int, Generator, RandomState or None, default 0
        Seed of the draw.

    Returns
    -------
    data : Dataset
        extra["noiseless"] has H x, shape (n, d).

    Examples
    --------
    >>> from skout.datasets import make_low_rank_regression
    >>> make_low_rank_regression(100, 10, 20, n_features=8)
    Dataset('low_rank_regression', X (130, 8), Y (130, 8), train 100, validation 10, test 20)
    """
    sizes = _check_sizes(n_train, n_validation, n_test)
    d = check_number(n_features, "n_features", low=1, integer=True)
    rng = check_rng(random_state)
    i = np.arange(1, d + 1)
    axes, values = orthonormal(rng.standard_normal((d, d))), i**-1.5  # C = axes diag axes'
    noise_axes, noise_values = orthonormal(rng.standard_normal((d, d))), 0.2 * i**-0.1
    H = (axes * values) @ axes.T @ rng.standard_normal((d, d))
    n = sum(sizes.values())
    X = (rng.standard_normal((n, d)) * np.sqrt(values)) @ axes.T
    noise = (rng.standard_normal((n, d)) * np.sqrt(noise_values)) @ noise_axes.T
    return Dataset(
        "low_rank_regression",
        X,
        X @ H.T + noise,
        split=_parts(**sizes),
        extra={"noiseless": X @ H.T},
        description="Synthetic least squares of section 4.5 of the thesis.",
        citation=_CITATION,
    )


def make_subspace_regression(
    n_train: int = 50_000,
    n_validation: int = 5000,
    n_test: int = 10_000,
    *,
    n_features: int = 2000,
    n_outputs: int = 1000,
    rank: int = 50,
    noise: float = 0.1,
    random_state: RandomState = 0,
) -> Dataset:
    """Draw the least squares of section 5.3.1, whose outputs lie near a subspace.

    Inputs x ~ N(0, C), where C has random eigenvectors and the eigenvalues j^(-1/2); outputs
    y = U H x + e (5.21), where U has `rank` random orthonormal columns, the entries of H are
    standard normal and e ~ N(0, noise^2 I).

    Parameters
    ----------
    n_train, n_validation, n_test : int, default 50,000, 5,000 and 10,000
        Rows of each part.
    n_features, n_outputs : int, default 2,000 and 1,000
        Dimensions of inputs and outputs.
    rank : int, default 50
        Dimension of the subspace, at most n_outputs.
    noise : float, default 0.1
        Standard deviation.
    random_state : int, Generator, RandomState or None, default 0
        Seed of the draw.

    Returns
    -------
    data : Dataset
        In float32; of the default size, 780 MB.

    Examples
    --------
    >>> from skout.datasets import make_subspace_regression
    >>> make_subspace_regression(100, 10, 20, n_features=8, n_outputs=6, rank=2)
    Dataset('subspace_regression', X (130, 8), Y (130, 6), train 100, validation 10, test 20)
    """
    sizes = _check_sizes(n_train, n_validation, n_test)
    check_number(n_features, "n_features", low=1, integer=True)
    check_number(n_outputs, "n_outputs", low=1, integer=True)
    check_number(noise, "noise")
    if check_number(rank, "rank", low=1, integer=True) > n_outputs:
        raise ValueError(f"rank must be at most n_outputs={n_outputs}. Got {rank!r} instead.")
    rng = check_rng(random_state)
    axes = orthonormal(rng.standard_normal((n_features, n_features)))
    U = orthonormal(rng.standard_normal((n_outputs, rank)))
    H = rng.standard_normal((rank, n_features))
    roots = np.arange(1, n_features + 1) ** -0.25  # of the eigenvalues
    split, n = _parts(**sizes), sum(sizes.values())
    X = np.empty((n, n_features), dtype=np.float32)
    Y = np.empty((n, n_outputs), dtype=np.float32)
    for part, size in sizes.items():  # a part at a time is in float64
        inputs = (rng.standard_normal((size, n_features)) * roots) @ axes.T
        errors = noise * rng.standard_normal((size, n_outputs))
        X[split[part]], Y[split[part]] = inputs, inputs @ H.T @ U.T + errors
    return Dataset(
        "subspace_regression",
        X,
        Y,
        split=split,
        description="Synthetic least squares of section 5.3.1 of the thesis.",
        citation=_CITATION,
    )


def _check_sizes(n_train: int, n_validation: int, n_test: int) -> dict[str, int]:
    sizes = {"train": n_train, "validation": n_validation, "test": n_test}
    for part, size in sizes.items():
        check_number(size, f"n_{part}", low=1, integer=True)
    return sizes


def _parts(**sizes: int) -> dict[str, slice]:
    """Return the rows of parts that follow each other."""
    ends = np.cumsum([0, *sizes.values()]).tolist()
    return {part: slice(a, b) for part, a, b in zip(sizes, ends[:-1], ends[1:], strict=True)}
