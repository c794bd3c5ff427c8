"""Kernel ridge regression in a metric that is learnt from the outputs first."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from ..._numerics.arrays import n_rows
from ...kernels import Gaussian, Laplacian, Learnt, Linear, Matern
from ...regressors import KernelRidge
from ...sketches import SubSample

__all__ = ["KERNELS_OF_VECTORS", "MAX_ROWS", "FoundRidge", "LearntRidge", "metric_learnt"]

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


def metric_learnt(
    kernel: str, landmarks: int, X: Any, y: Any, seed: Any, n_jobs: int | None = None
) -> Any:
    """Return a kernel in the metric that rows and targets teach, its width a number.

    Parameters
    ----------
    kernel : "gaussian", "matern" or "laplacian"
    landmarks : int
        Of the rounds of learning.
    X, y : rows and targets
    seed : None, int or Generator
    n_jobs : int, optional
    """
    teacher = KernelRidge(
        Learnt(KERNELS_OF_VECTORS[kernel]("scale"), landmarks=landmarks, max_rows=MAX_ROWS),
        SubSample(min(landmarks, n_rows(X))),
        alpha=_ALPHAS,
        random_state=seed,
        n_jobs=n_jobs,
    )
    return teacher.fit(X, y).kernel_


class FoundRidge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Find a kernel by `_found(X, y)`, then fit kernel ridge regression with it."""

    sketch: int | None
    alpha: float
    random_state: Any
    n_jobs: int | None

    def _found(self, X: Any, y: Any) -> Any:
        raise NotImplementedError

    def fit(self, X: Any, y: Any) -> Any:
        """Find the kernel, then fit.

        Parameters
        ----------
        X : matrix of shape (n, d)
        y : array of shape (n, p)

        Returns
        -------
        self : FoundRidge
        """
        settings = {"random_state": self.random_state, "n_jobs": self.n_jobs}
        kernel = self._found(X, y)
        sketch = None if self.sketch is None else SubSample(min(self.sketch, n_rows(X)))
        self.ridge_ = KernelRidge(kernel, sketch, alpha=self.alpha, **settings).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        """Return the predictions of the ridge, shape (n, p)."""
        return self.ridge_.predict(X)


class LearntRidge(FoundRidge):
    """Learn a metric with few landmarks, then fit kernel ridge regression in it.

    Parameters
    ----------
    kernel : "gaussian", "matern" or "laplacian", default "matern"
    sketch : int, optional
        Landmarks of the last fit; None is exact.
    alpha : float, default 1e-3
    landmarks : int, default 300
        Of the rounds of learning.
    random_state : None, int or Generator
    n_jobs : int, optional

    Examples
    --------
    >>> import numpy as np
    >>> from skout.predictors.tuning.learnt import LearntRidge
    >>> X = np.random.default_rng(0).standard_normal((400, 8))
    >>> y = np.sin(2.0 * X[:, :1])  # seven features say nothing
    >>> model = LearntRidge(alpha=1e-5, random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.8)
    True
    """

    def __init__(
        self,
        kernel: str = "matern",
        sketch: int | None = None,
        alpha: float = 1e-3,
        landmarks: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.sketch = sketch
        self.alpha = alpha
        self.landmarks = landmarks
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _found(self, X: Any, y: Any) -> Any:
        return metric_learnt(self.kernel, self.landmarks, X, y, self.random_state, self.n_jobs)
