"""Kernel ridge regression whose kernel rows and targets teach first: a metric, or weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from skout import KernelRidge
from skout.dev import n_rows
from skout.kernels import Gaussian, Laplacian, Learnt, Linear, Mahalanobis, Matern, align_columns
from skout.sketches import SubSample

from .clock import Clock

__all__ = ["KERNELS_OF_VECTORS", "MAX_ROWS", "AlignedRidge", "LearntRidge", "learnt_kernel"]

#: Kernels of vectors, by the names that settings have.
KERNELS_OF_VECTORS = {
    "gaussian": lambda gamma: Gaussian(gamma),
    "laplacian": lambda gamma: Laplacian(gamma),
    "matern": lambda gamma: Matern(gamma, nu=1.5),
    "linear": lambda gamma: Linear(),
}

#: Penalties of which each round of learning takes the best.
_ALPHAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
#: Rows that the rounds learn from.
MAX_ROWS = 4000
# Rows that kernels and outputs are compared on to find weights.
_ALIGNED_ROWS = 600


def _timed(clock: Clock) -> type[Learnt]:
    """Return the kernel whose metric is learned in rounds, each of which asks the clock first."""

    class TimedMetric(Learnt):  # a class, since estimators clone their kernel
        def in_metric(self, scale: Any) -> Mahalanobis:
            clock.check()
            return super().in_metric(scale)

    return TimedMetric


def learnt_kernel(
    settings: dict[str, Any],
    X: Any,
    y: Any,
    seed: Any,
    n_jobs: int | None = None,
    weights: Any = None,
    clock: Clock | None = None,
) -> Any:
    """Return the kernel in a learnt metric, or the weighted sum over groups, of a `LearntRidge`.

    Where no group of columns says anything of the targets, it is the kernel of all columns. Weights
    count where a metric is learnt; groups are compared on the rows as they are. The clock is asked
    before each round.
    """
    of_width = KERNELS_OF_VECTORS[settings["kernel"]]
    groups = settings.get("groups")
    if groups is not None:
        base = of_width("median")
        try:
            return align_columns(base, groups, X, y, n_samples=_ALIGNED_ROWS, random_state=seed)
        except ValueError:  # targets are constant, or no kernel is aligned with them
            return base
    landmarks = settings["landmarks"]
    learned = Learnt if clock is None else _timed(clock)
    kernel = learned(of_width("scale"), landmarks=landmarks, max_rows=MAX_ROWS)
    teacher = KernelRidge(
        kernel,
        SubSample(min(landmarks, n_rows(X))),
        alpha=_ALPHAS,
        random_state=seed,
        n_jobs=n_jobs,
    )
    return teacher.fit(X, y, sample_weight=weights).kernel_


class LearntRidge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Learn a metric, or weights of groups of columns, then fit kernel ridge regression with it.

    Parameters
    ----------
    kernel : "gaussian", "matern" or "laplacian", default "matern"
    sketch : int, optional
        Landmarks of the last fit; None is exact.
    alpha : float, default 1e-3
    landmarks : int, default 300
        Of the rounds that learn a metric.
    groups : sequence of (int, int), optional
        The first column of each, and the one after the last: instead of a metric each has a kernel,
        weighted by ALIGNF.
    random_state : None, int or Generator
    n_jobs : int, optional

    Examples
    --------
    >>> import numpy as np
    >>> from skout.apps.tuning.learnt import LearntRidge
    >>> X = np.random.default_rng(0).standard_normal((400, 8))
    >>> y = np.sin(2.0 * X[:, :1])  # seven features say nothing
    >>> model = LearntRidge(alpha=1e-5, random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.8)
    True
    >>> model = LearntRidge(groups=[(0, 1), (1, 8)], random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.9)
    True
    """

    def __init__(
        self,
        kernel: str = "matern",
        sketch: int | None = None,
        alpha: float = 1e-3,
        landmarks: int = 300,
        groups: Sequence[tuple[int, int]] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.sketch = sketch
        self.alpha = alpha
        self.landmarks = landmarks
        self.groups = groups
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LearntRidge:
        """Find the kernel, then fit with it."""
        how = self.random_state, self.n_jobs, sample_weight
        kernel = learnt_kernel(self.get_params(), X, y, *how)
        sketch = None if self.sketch is None else SubSample(min(self.sketch, n_rows(X)))
        settings = {"random_state": self.random_state, "n_jobs": self.n_jobs}
        ridge = KernelRidge(kernel, sketch, alpha=self.alpha, **settings)
        self.ridge_ = ridge.fit(X, y, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> Any:
        """Return the predictions of the ridge, shape (n, p)."""
        return self.ridge_.predict(X)


class AlignedRidge(LearntRidge):
    """What files of old call a `LearntRidge` with groups."""
