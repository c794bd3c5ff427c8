"""Kernel machines with any convex loss, one or many outputs (chapter 3)."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin
from sklearn.utils.validation import check_is_fitted

from .._numerics.estimators import all_at_once, frames_out
from .._numerics.typing import Inputs, Objects, RandomState, Weights
from ..kernels.base import KernelLike
from ..losses import LossLike, MarginLoss, RadialLoss, as_loss
from ..rows import Blocks, Source
from ..sketches import SketchLike
from ..solvers.folds import CV, Alphas, Scorer
from .base import KernelMachineBase, PenalizedRegressor, first_column
from .tasks import check_task_matrix

# Targets whose mean is more than so many standard deviations from zero are far. Less than that of
# KernelRidge, since the slope of robust losses is bounded and the penalty keeps f near zero: on
# diabetes, whose mean is 2 deviations away, R2 of "huber" on training rows is -0.55 without and
# 0.37 with an intercept, that of "squared" 0.68 and 0.69. Twice as many would not see it; half as
# many, numbers of three classes (mean 1, deviation 0.8) that nobody would call far.
_FAR = 1.5


@frames_out
class KernelMachine(MultiOutputMixin, PenalizedRegressor, KernelMachineBase):
    """Kernel regression with any convex loss: robust, epsilon-insensitive, quantile, squared.

    Minimizes mean_i loss(f(x_i), y_i) + alpha/2 ||f||^2 over the space of the kernel k M, or over
    the span of a sketch of it (3.11), to a certificate: `duality_gap_` bounds how far the objective
    is above its minimum.

    Parameters
    ----------
    kernel : kernel, str or callable, default "gaussian"
    sketch : sketch, str or None, default None
        None is exact, which is cubic in the number of rows.
    alpha : float or sequence of floats, default 1e-3
        Penalty, above 0. Of a sequence, the value with the least cross-validated loss is taken.
    loss : Loss or str, default "huber"
        "squared", "huber", "epsilon_insensitive", "squared_epsilon_insensitive", "pinball", or an
        object of `skout.losses` such as `Huber(kappa=0.5)`, whose parameters a grid search reaches
        as `loss__kappa`.
    task_matrix : array of shape (d, d), optional
        M of a decomposable kernel k M, which relates the outputs (2.13): symmetric and positive
        semi-definite. None is the identity. See `graph_task_matrix`.
    tol : float, default 1e-4
        Relative duality gap to reach.
    max_iter : int, default 200
        Most Newton steps.
    cv, fit_intercept, random_state, n_jobs, verbose
        As in `KernelRidge`.
    device : str, optional
        "cuda" computes on a GPU, the solver and its certificate included; rows on the host are
        streamed to it. Coordinates that do not fit it are made again in each pass. "auto" takes a
        GPU if there is one. None is where the data are.

    Attributes
    ----------
    kernel_, basis_, intercept_, alpha_
        As in `KernelRidge`.
    coef_ : ndarray of shape (p, d)
        Coefficients in the coordinates of the basis, M^(1/2) included.
    objective_ : float
        The minimum that was reached.
    duality_gap_ : float
        A bound on (objective - minimum) / minimum.
    n_iter_ : int
        Newton steps.
    cv_results_ : dict
        "alpha", "mean_loss", "std_loss" and "fold_loss", if `alpha` is a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelMachine
    >>> from skout.losses import Huber
    >>> from skout.sketches import PSparsified
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (500, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_t(1, 500)  # heavy tails
    >>> sketch, loss = PSparsified(40), Huber(0.1)
    >>> model = KernelMachine("gaussian", sketch, alpha=1e-4, loss=loss, random_state=0)
    >>> error = model.fit(X, y).predict(X) - np.sin(X[:, 0])
    >>> bool(np.abs(error).mean() < 0.05)
    True
    """

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        sketch: SketchLike = None,
        *,
        alpha: Alphas = 1e-3,
        loss: LossLike = "huber",
        task_matrix: ArrayLike | None = None,
        cv: CV = 5,
        fit_intercept: bool = False,
        tol: float = 1e-4,
        max_iter: int = 200,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        device: str | None = None,
    ) -> None:
        self.loss = loss
        self.task_matrix = task_matrix
        self.kernel = kernel
        self.sketch = sketch
        self.alpha = alpha
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.device = device

    @overload
    def fit(self, X: Blocks, y: None = None) -> KernelMachine: ...
    @overload
    def fit(self, X: Objects, y: Objects, sample_weight: Weights = None) -> KernelMachine: ...

    @all_at_once
    def fit(
        self, X: Inputs, y: Objects | None = None, sample_weight: Weights = None
    ) -> KernelMachine:
        """Fit the model.

        Parameters
        ----------
        X : array, CSR matrix, objects that the kernel encodes, n of them, or Blocks
            On disk or on a cluster as in `KernelRidge`, with a sketch. There the coordinates stay
            on the workers, and each step of the solver is a pass over them.
        y : array of shape (n,) or (n, d)
            None if X are `Blocks`, which have it. It is held in memory. NaN is missing: outputs
            that have the same rows are fitted together, on these rows.
        sample_weight : array of shape (n,), optional
        """
        return self._fit(X, y, sample_weight)

    def _fit(
        self, X: Inputs, y: Objects | None, sample_weight: Weights, scorer: Scorer | None = None
    ) -> KernelMachine:
        loss = as_loss(self.loss)
        if isinstance(loss, MarginLoss):
            raise ValueError(f"{loss!r} is a loss of labels: use KernelClassifier.")
        sample = self._sample(X, y, sample_weight, missing=True)  # checked and encoded once
        if self.task_matrix is not None and sample.has_missing:
            raise ValueError(
                "y has missing values, and task_matrix relates outputs that have the same rows: "
                "use KernelRidge(task_matrix=...), which takes both, or leave one out."
            )
        M = self.task_matrix
        M = None if M is None else check_task_matrix(M, sample.targets.shape[1])
        fit = self._learn(sample, loss, M, scorer=scorer)  # span, problem, alpha, solution
        self._take(fit)
        # quantiles are not near the mean, and coordinates of outputs, a Source, not far from zero
        if not self.fit_intercept and isinstance(loss, RadialLoss) and not isinstance(X, Source):
            sample.warn_of_far_mean(fit.projection, self.n_jobs, far_from=_FAR)
        return self

    def predict(self, X: Objects) -> np.ndarray:
        """Predict the targets of new rows.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them

        Returns
        -------
        y : ndarray of shape (n,) or (n, d)
            For dask collections a dask array.
        """
        check_is_fitted(self)
        tail, finish = ((), first_column) if self._is_vector else (self.coef_.shape[1:], None)
        predicted: np.ndarray = self._map(X, tail, finish)
        return predicted
