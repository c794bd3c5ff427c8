"""Kernel ridge regression, exact or sketched, in memory or streaming."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import astype
from .._numerics.linalg import large_matrices_on
from .._numerics.validation import (
    PartsByName,
    all_at_once,
    check_alphas,
    check_choice,
    check_number,
    check_rng,
)
from ..basis import KernelBasis
from ..basis.features import LandmarkFeatures, Projection
from ..basis.passes import Sample
from ..kernels import Kernel, as_kernel
from ..rows import (
    Memory,
    RowMap,
    columns,
    encoded,
    encoded_targets,
    encoded_weights,
    reads_once,
    unpacked,
)
from ..sketches import as_sketch, least_rows
from ..solvers import cost
from ..solvers.moments import Moments, ridge_on_features, sum_moments
from . import oncard
from .adding import AddsRows
from .base import Finished, ScoresHoles, first_column
from .checkpoint import NO_HOLES, Bar, open_checkpoint
from .choice import Choice, Chooses, fit_without_moments, searched, wanted_solver
from .doubt import Doubts, add_variance
from .exact import fit_exact, fit_exact_holes
from .folds import Folds, looked_at
from .holes import fit_by_coordinates, fit_related, keeps_rows
from .intervals import PredictsIntervals
from .learning import learnt_kernel
from .means import warn_of_far_mean
from .path import Judge, Search
from .splits import groups_of_splits
from .tasks import RelatedFolds, checked_tasks, solve_related

__all__ = ["KernelRidge"]

# What an earlier fit may have left.
_FITTED = ("basis_", "coef_", "cv_results_", "metric_results_", "_projection", "solver_report_")


class KernelRidge(
    MultiOutputMixin, ScoresHoles, PredictsIntervals, Doubts, AddsRows, Chooses, PartsByName
):
    """Kernel ridge regression with one or many outputs.

    Minimises mean_i 1/2 ||y_i - f(x_i)||^2 + alpha/2 ||f||^2, over the whole space of the kernel
    (`sketch=None`) or over the span of a sketch. A sketched fit is one pass over the rows in
    constant memory: it needs only the moments (n, Z'Z, Z'Y) of the coordinates, which add up.
    Targets may have holes, NaN: each output is then fitted on the rows that have it.

    Parameters
    ----------
    kernel : kernel, str or callable, default "gaussian"
    sketch : sketch, str or None, default None
    alpha : float or sequence of floats, default 1e-3
        Penalty. Of a sequence the one with the least cross-validated error; with a sketch all of
        them together cost one pass.
    cv : int, splitter or iterable of splits, default 5
        Used when `alpha` is a sequence. A number deals the rows into so many folds at random, by
        `random_state`; for folds in the order of the rows, or of time, give a splitter.
    fit_intercept : bool, default False
        Add an unpenalised constant to each output.
    solver : "auto", "direct" or "cg", default "auto"
        "direct" sums moments in one pass and solves them: n m^2 + m^3 operations. "cg" takes a
        pass for each step of preconditioned conjugate gradients, n m operations, and says in
        `solver_report_` how near it came. "auto" takes the cheaper, see the page on scale; if that
        is "cg" and does not converge, "direct" where memory allows. A card may take another one
        than a host, and agree with it up to `tol` only.
    tol, max_iter : float and int, default 1e-3 and 200
        "cg" stops where predictions of training rows may still change by `tol` standard deviations
        of y (root mean square; with a sketch an estimate), or after `max_iter` steps and a warning.
    random_state : None, int or Generator
        Seed of the sketch and of the folds.
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.
    verbose : bool, default False
    device : str, optional
        "cuda" computes on a card, "auto" does if there is one. None is where the data are.
    checkpoint : path, optional
        A file that a sketched fit keeps its progress in, every 30 seconds, until it is done. If it
        is killed, another fit with the same data, parameters and int as random_state goes on from
        there, to the same result. Other data are refused: rows in memory and in `Blocks`, which are
        read once more, are compared, and of arrays on disk a sample, size and time.
    task_matrix : array of shape (d, d), "learnt" or None, default None
        M of the kernel k M, which relates the outputs (2.13), so that those with few rows borrow
        from others; see `graph_task_matrix`. "learnt" finds it together with f (2.133). With holes,
        each output counts by the mean over its own rows: the identity leaves them apart.
    variance : "dtc", "fitc" or "fast", default "dtc"
        What `predict(X, return_std=True)` of a sketched model is the root of; "fitc" takes one more
        pass in `fit`. "fast" predicts the logarithm of "dtc" as one more output, fitted on a few of
        the rows, at hardly any cost: a tenth or two off with 500 landmarks or more, further with
        few. Exact models have the variance of the Gaussian process itself.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with its parameters resolved.
    basis_ : KernelBasis
        The coordinates, if sketched.
    coef_ : ndarray of shape (p, d)
        Coefficients in these coordinates; in the exact model those of ``k(landmarks_, .)``.
    landmarks_ : rows
        What predictions compare new rows with: the distinct training rows in the exact model.
    intercept_ : ndarray of shape (d,)
    alpha_ : float
        The penalty used.
    cv_results_ : dict
        "alpha", "mean_loss", "std_loss" and "fold_loss" of the held-out rows, if `alpha` is a
        sequence: mean squared errors. "exact" says, of a model without a sketch, whether its path
        was: with more than 1,500 distinct rows alpha is chosen on the span of 1,500 of them.
    solver_report_ : dict
        "solver", with the "costs" that it was chosen by, and "fell_back_from", the report of "cg"
        before it. Of "cg" also "iterations", "relative_residual" (see `tol`), "objective", what it
        may still gain ("objective_gap", an estimate, and "objective_bound"), "preconditioner" and
        "memory_bytes".
    task_matrix_ : ndarray of shape (d, d)
        M, if there is a `task_matrix`.
    noise_variance_ : ndarray of shape (d,)
        Held-out squared error of each output: leave-one-out, or generalised cross-validation.
    calibration_ : Calibration
        What `calibrate` measured, for `predict_interval`.
    metric_results_ : dict
        Of a kernel whose metric is learnt, see `skout.kernels.Learnt`.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelRidge
    >>> from skout.sketches import SubSample
    >>> X = np.random.default_rng(0).uniform(-3, 3, (500, 1))
    >>> model = KernelRidge("gaussian", SubSample(30), alpha=1e-5, random_state=0)
    >>> bool(model.fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.999)
    True
    """

    #: rows and targets may be sources, see `skout.rows`
    takes_sources = True
    __metadata_request__fit: ClassVar = {"groups": False}  # a search's splitter wants them, too

    _matrix: np.ndarray  # matrix that the features W k(landmarks, x) are multiplied with to predict
    _base: Moments | None  # of the rows given to fit
    _folds: list[Moments] | None  # of the rows given to partial_fit
    _origin: np.ndarray | None
    _n_seen: int
    _n_outputs: int
    solver_report_: dict[str, Any]
    _by_name: ClassVar[dict[str, Any]] = {"kernel": as_kernel, "sketch": as_sketch}

    def __init__(
        self,
        kernel: Any = "gaussian",
        sketch: Any = None,
        *,
        alpha: Any = 1e-3,
        task_matrix: Any = None,
        cv: Any = 5,
        fit_intercept: bool = False,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 200,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        device: str | None = None,
        checkpoint: Any = None,
        variance: str = "dtc",
    ) -> None:
        self.kernel = kernel
        self.sketch = sketch
        self.alpha = alpha
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.device = device
        self.checkpoint = checkpoint
        self.task_matrix = task_matrix
        self.variance = variance

    @all_at_once
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        landmarks: Any = None,
        groups: Any = None,
    ) -> KernelRidge:
        """Fit the model.

        Parameters
        ----------
        X : array, CSR matrix, objects that the kernel encodes, n of them, or Blocks
            Arrays may be on disk: memory maps, HDF5 and zarr arrays, see `skout.sources`. Or on a
            cluster: with a sketch, a dask array or a list of delayed blocks takes one pass where
            they lie.
        y : array of shape (n,) or (n, d)
            None if X are `Blocks`, which have it. Of a dask array the chunks must be those of X;
            so for the weights. NaN is missing: each output is fitted on the rows that have it, as
            by a fit of its own with these landmarks and this alpha, still in one pass. See the
            page on regression for what that takes.
        sample_weight : array of shape (n,), optional
        landmarks : array, CSR matrix or objects, optional
            Rows that the sketch is drawn from, and that widths such as gamma="scale" are resolved
            on; default X.
        groups : array of shape (n,), optional
            Rows of a group are never divided between the training and the test part of a split.

        Returns
        -------
        self : KernelRidge
        """
        return self._fit(X, y, sample_weight, landmarks, groups)

    @all_at_once
    def fit_judged(
        self, X: Any, y: Any, judge: Judge, sample_weight: Any = None, landmarks: Any = None
    ) -> KernelRidge:
        """Fit with the alpha whose held-out predictions a judge, see `regressors.path`, likes best.

        Parameters
        ----------
        X, y, sample_weight, landmarks
            As in `fit`.
        judge : Judge

        Returns
        -------
        self : KernelRidge
        """
        return self._fit(X, y, sample_weight, landmarks, judge=judge)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        landmarks: Any,
        groups: Any = None,
        judge: Judge | None = None,
    ) -> KernelRidge:
        """Fit on all rows, with the best alpha if there are several."""
        alphas = self._check(landmarks)
        checkpoint = None if self.checkpoint is None else open_checkpoint(self, X)
        if landmarks is not None and reads_once(X):
            return self._fit_once(X, landmarks, alphas)
        X, y, sample_weight = unpacked(
            X, y, sample_weight, seed=self.random_state, size=least_rows(self.sketch)
        )
        sample = self._sample(X, y, sample_weight, reset=True)
        if len(sample.rows) < 2:
            raise ValueError("KernelRidge needs at least two rows. Got 1 sample.")
        self._reset()
        T = sample.targets.at_hand  # None where they are not in memory
        holed = T is not None and bool(np.isnan(np.asarray(T)).any())
        if holed and checkpoint is not None:
            raise ValueError(NO_HOLES)
        related = self.task_matrix is not None
        if related:
            checked_tasks(self.task_matrix, sample.targets.shape[1])
        kernel = as_kernel(self.kernel)
        kernel = learnt_kernel(self, sample) if kernel.learns else kernel
        search = Search(alphas, judge=judge)
        if len(alphas) > 1 or judge is not None:
            search = searched(self, sample, T, search, groups)
        self.alpha_ = search.alphas[0]  # unless another is chosen
        if self.sketch is None:
            fit = fit_related if related else fit_exact_holes if holed else fit_exact
            fit(self, kernel, sample, search)
        else:
            with large_matrices_on(sample.rows.device):
                self._fit_sketch(kernel, sample, landmarks, search, checkpoint, holed)
        if checkpoint is not None:
            checkpoint.remove()
        warn_of_far_mean(self, sample, T)
        return self

    def _check(self, landmarks: Any) -> list[float]:
        """Check the parameters, and return the alphas."""
        alphas = check_alphas(self.alpha)
        check_choice(self.fit_intercept, "fit_intercept", (True, False))
        check_choice(self.variance, "variance", ("dtc", "fitc", "fast"))
        if landmarks is not None and self.sketch is None:
            raise ValueError(
                "landmarks are rows to draw a sketch from, and sketch is None: give for instance "
                "sketch=SubSample(1000)."
            )
        check_choice(self.solver, "solver", ("auto", "direct", "cg"))
        check_number(self.tol, "tol", strict=True)
        check_number(self.max_iter, "max_iter", low=1, integer=True)
        return alphas

    def _fit_sketch(
        self,
        kernel: Kernel,
        sample: Sample,
        landmarks: Any,
        search: Search,
        checkpoint: Any,
        holed: bool,
    ) -> None:
        """Fit in the span of a sketch: its basis, one pass for the moments, and their solution.

        Where that is cheaper, without moments: from coordinates that are kept, for targets with
        holes, by conjugate gradients, or on a card.
        """
        alphas, splits, judge = search
        related = self.task_matrix is not None
        few = 0 < least_rows(self.sketch) < min(oncard.LEAST, cost.LEAST_LANDMARKS)
        choice = None  # with few landmarks there is none: moments, solved directly
        if not few or self.solver == "cg":
            choice = Choice(wanted_solver(self), sample, splits, holed or related)
        least = np.inf if choice is None else choice.least
        self._fit_basis(kernel, sample, landmarks, remember=landmarks is None, lazily=least)
        if choice is not None:
            choice.decide(self.basis_)
        self._n_outputs = sample.targets.shape[1]
        groups, parts = groups_of_splits(splits, len(sample.rows)) if splits else (None, [])
        sample = self._prepared(sample, groups, len(parts))
        if holed and keeps_rows(self, sample.targets.here(), len(parts)):
            if related:
                fit_related(self, kernel, sample, search)
            else:
                fit_by_coordinates(self, sample, search)
            return
        self.solver_report_ = {"solver": "direct", "costs": {}}
        if checkpoint is not None:
            checkpoint.add_fit(self, sample, choice)
        if choice is not None and fit_without_moments(self, sample, search, choice, checkpoint):
            return
        whiten, told = bool(splits) or related, self.verbose or checkpoint is not None
        keeps = choice is None or not choice.cg  # or the file has the state of that solver
        bar = Bar(self.verbose, checkpoint if keeps else None) if told else None
        how = {"whiten": whiten, "centre": not holed, "progress": bar}
        moments = self.basis_._moments(sample, min(alphas), **how)
        held = [] if judge is None else looked_at(judge, sample.rows, self.basis_)
        self._base = self._solve(moments, parts, search, held)
        if self.variance != "dtc":
            add_variance(self, sample)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the targets of new rows.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        return_std : bool, default False
            Whether to return standard deviations too: those of f(x), as scikit-learn's Gaussian
            process has them, see `variance`. A new measurement has the variance std^2 +
            ``noise_variance_``, by which they are scaled.

        Returns
        -------
        y : ndarray of shape (n,) or (n, d)
            For dask collections a dask array, for a tensor on a card a tensor there.
        std : ndarray of shape (n,) or (n, d)
            If wanted.
        """
        check_is_fitted(self)
        if return_std:
            return self._with_std(encoded(self, self.kernel_, X, reset=False))
        rows = encoded(self, self.kernel_, X, reset=False, device=self.device)
        prediction: RowMap = self._projection
        if self._is_vector:
            prediction = Finished(prediction, first_column)
        tail = () if self._is_vector else self._matrix.shape[1:]
        return rows.map(prediction, tail, rows.precision, n_jobs=self.n_jobs)

    def _prepare(self) -> None:
        """Make what predictions need of a new fit: scikit-learn wants it done before `predict`."""
        for name in ("coef_", "_projection", "_doubt", "_logs", "calibration_"):
            self.__dict__.pop(name, None)
        _ = self._projection

    @functools.cached_property
    def _projection(self) -> Projection:
        """phi(x) -> f(x), with the landmarks prepared once."""
        if hasattr(self, "basis_"):
            return Projection(self.basis_._features, self._matrix, self.intercept_)
        # coefficients of a float64 fit, which may be large, want float64 kernel values
        features = LandmarkFeatures(self.kernel_, astype(self.landmarks_, np.float64))
        return Projection(features, self._matrix, self.intercept_, np.float64)

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {name: v for name, v in state.items() if name not in ("_projection", "_doubt")}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @functools.cached_property
    def coef_(self) -> np.ndarray:
        """Coefficients in the coordinates of `basis_`; if exact, those of ``k(landmarks_, .)``."""
        matrix = self._matrix
        return self.basis_._on_coordinates(matrix) if hasattr(self, "basis_") else matrix

    @property
    def n_iter_(self) -> int:
        """Steps of the solver; the direct one has one."""
        return self.solver_report_.get("iterations", 1)

    def _reset(self) -> None:
        """Forget an earlier fit."""
        for name in (*_FITTED, "task_matrix_"):
            self.__dict__.pop(name, None)
        self._base = self._folds = self._origin = self._fitc = self._row_weights = None
        self._n_seen = 0

    def _sample(self, X: Any, y: Any, weights: Any, *, reset: bool, adds: bool = False) -> Sample:
        """Check and encode what was given to fit, or to partial_fit, which adds rows."""
        rows = encoded(self, as_kernel(self.kernel), X, reset=reset, device=self.device)
        if len(rows) == 0:
            raise ValueError("Found array with 0 sample(s): X must have rows.")
        targets = encoded_targets(y, rows, holes=True)
        self._is_vector = targets.ndim == 1
        weights = encoded_weights(weights, rows, alone=not adds)
        targets = columns(targets) if self._is_vector else targets
        if self.sketch is None:  # the kernel matrix of all rows is larger than they are
            rows.check_sketch(None)
            rows, targets = rows.in_memory(), Memory(targets.here(), "y")
        return Sample(rows, targets, weights)

    def _prepared(self, sample: Sample, groups: np.ndarray | None, n_groups: int) -> Sample:
        """Add the groups and, if an intercept can make up for it, the origin of the targets."""
        if self.fit_intercept and self._origin is None:
            self._origin = sample.rough_mean()
        return replace(sample, groups=groups, n_groups=max(1, n_groups), origin=self._origin)

    def _fit_basis(
        self,
        kernel: Kernel,
        sample: Sample,
        landmarks: Any,
        *,
        remember: bool = False,
        lazily: float = np.inf,
    ) -> None:
        """Fit the basis on the rows that the sketch is drawn from: all, or those given for it."""
        rows, weights = sample.rows, sample.weights
        if landmarks is not None:
            rows, weights = encoded(self, as_kernel(self.kernel), landmarks, reset=False), None
        self.basis_ = KernelBasis(kernel, self.sketch, n_jobs=self.n_jobs, device=self.device)
        rng, how = check_rng(self.random_state), {"remember": remember, "lazily": lazily}
        self.basis_._fit_rows(kernel, rows, rng, weights, **how)
        self.kernel_, self.landmarks_ = self.basis_.kernel_, self.basis_.landmarks_

    def _solve(
        self, moments: list[Moments], parts: list[np.ndarray], search: Search, held: Any = ()
    ) -> Moments:
        """Choose alpha on the folds, if any, and solve on all rows, whose moments are returned."""
        options, tasks = (moments, parts, self.fit_intercept, self.verbose), self.task_matrix
        folds: Folds | None = Folds(*options) if parts else None
        if tasks is not None:
            folds = RelatedFolds(*options, checked_tasks(tasks, self._n_outputs))
        total = sum_moments(moments) if folds is None else folds.total
        total.check_weight()
        self.alpha_ = max(search.alphas)
        if folds is not None:
            search.by_folds(self, folds, held)
        if tasks is None:
            given = total, self.basis_._on_features, self.alpha_, self.fit_intercept
            self._matrix, self.intercept_ = ridge_on_features(*given)
        else:
            solve_related(self, folds)
        self.solver_report_ = {"solver": "direct"} | getattr(self, "solver_report_", {})
        if self._origin is not None:
            self.intercept_ += self._origin
        self._prepare()
        partly = None if total.partly is None else total.partly._replace(gram=None)
        return replace(total, partly=partly)
