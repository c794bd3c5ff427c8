"""Kernel ridge regression, exact or sketched, in memory or streaming."""

from __future__ import annotations

import copy
import functools
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.utils.metaestimators import available_if
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
from ..basis import KernelBasis, span_of
from ..basis.features import LandmarkFeatures, Projection
from ..basis.passes import Sample
from ..kernels import Kernel, as_kernel
from ..rows import (
    Blocks,
    Memory,
    RowMap,
    Source,
    columns,
    encoded,
    encoded_targets,
    encoded_weights,
    reads_once,
    unpacked,
)
from ..sketches import as_sketch, least_rows
from ..solvers.moments import Moments
from .base import Finished, ScoresHoles, first_column
from .checkpoint import NO_HOLES, Bar, open_checkpoint
from .choice import Chooses, check_has_moments, searched
from .doubt import Doubts, check_fitc
from .exact import fit_exact, fit_exact_missing
from .fit import Fit, RidgeSettings
from .holes import fit_exact_related
from .intervals import PredictsIntervals
from .learning import learned_kernel
from .means import warn_of_far_mean
from .path import Judge, Search
from .sketched import fit_from_moments, fit_sketched
from .splits import TRAIN, interleaved_groups
from .tasks import checked_tasks

__all__ = ["KernelRidge"]

# What an earlier fit may have left.
_FITTED = ("basis_", "coef_", "cv_results_", "metric_results_", "_projection", "solver_report_")


# Rows of blocks that can be read only once are gathered until there are so many.
_ONCE_ROWS = 8192


def _has_sketch(model: Any) -> bool:
    if model.sketch is None:
        raise AttributeError(
            "partial_fit needs a sketch: without one the model keeps every row. "
            "Give for instance sketch=SubSample(1000)."
        )
    return True


class KernelRidge(MultiOutputMixin, ScoresHoles, PredictsIntervals, Doubts, Chooses, PartsByName):
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
    variance : "dtc" or "fitc", default "dtc"
        By which a sketched model approximates the Gaussian process. With too few landmarks standard
        deviations of "dtc" are too large. In "fitc", rows that the sketch does not span count less,
        for predictions too: one more pass, with the alpha of "dtc".

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
        Variance of the noise, of a row of mean weight: s^2 n alpha. The covariance s^2 k has an s
        that gives leave-one-out z-scores a mean square of 1; of a sketch the most likely one.
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
    _row_weights: np.ndarray | None
    _row_count: float | None
    _fitc_shift: float | None
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

    @available_if(_has_sketch)
    @all_at_once
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, landmarks: Any = None) -> Any:
        """Add rows to the model: the result is that of one fit on all rows with these landmarks.

        After `fit` it goes on from there; then only the rows given here are held out in the folds
        that choose alpha.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        y : array of shape (n,) or (n, d)
        sample_weight : array of shape (n,), optional
        landmarks : array, CSR matrix or objects, optional
            Rows that the sketch is drawn from, at the first call; default its X. Widths such as
            gamma="scale" are resolved on them too.

        Returns
        -------
        self : KernelRidge
        """
        alphas = check_alphas(self.alpha)
        check_has_moments(self)
        check_fitc(self, once=True)
        self._add(X, y, sample_weight, landmarks)
        return self._solve_added(alphas)

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
        sample = self._read(X, y, sample_weight)
        self._reset()
        T = sample.targets.at_hand  # None where they are not in memory
        has_missing = T is not None and bool(np.isnan(np.asarray(T)).any())
        if has_missing and checkpoint is not None:
            raise ValueError(NO_HOLES)
        kernel, metric = self._learned(sample, alphas)
        settings = self._settings(sample.targets.shape[1], metric is not None)
        search, table = searched(settings, sample, Search(alphas, judge=judge), groups, metric)
        sketch = as_sketch(self.sketch)
        if sketch is not None and self.variance == "fitc":
            check_fitc(self, has_missing=has_missing)
        if sketch is None:
            solve = fit_exact_missing if has_missing else fit_exact
            solve = solve if settings.tasks is None else fit_exact_related
            fit = solve(settings, kernel, sample, search)
        else:
            with large_matrices_on(sample.rows.device):
                fit = fit_sketched(
                    settings, kernel, sketch, sample, search,
                    drawn_from=self._drawn_from(landmarks), device=self.device,
                    checkpoint=checkpoint, has_missing=has_missing,
                )  # fmt: skip
        self._take(fit, metric, table)
        if checkpoint is not None:
            checkpoint.remove()
        if not self.fit_intercept and not isinstance(X, Source):  # no coordinates of outputs
            warn_of_far_mean(self._projection, sample, T, self.n_jobs)
        return self

    def _check(self, landmarks: Any) -> list[float]:
        """Check the parameters, and return the alphas."""
        alphas = check_alphas(self.alpha)
        check_choice(self.fit_intercept, "fit_intercept", (True, False))
        check_choice(self.variance, "variance", ("dtc", "fitc"))
        if landmarks is not None and self.sketch is None:
            raise ValueError(
                "landmarks are rows to draw a sketch from, and sketch is None: give for instance "
                "sketch=SubSample(1000)."
            )
        check_choice(self.solver, "solver", ("auto", "direct", "cg"))
        check_number(self.tol, "tol", strict=True)
        check_number(self.max_iter, "max_iter", low=1, integer=True)
        return alphas

    def _fit_once(self, blocks: Blocks, landmarks: Any, alphas: list[float]) -> Any:
        """Fit on blocks that can be read once, as they come."""
        if self.solver == "cg":
            raise ValueError(
                'solver="cg" passes over the rows many times, and these blocks can be read only '
                "once: give a function that makes them anew, leave out landmarks, or use "
                'solver="direct".'
            )
        check_fitc(self, once=True)
        self._reset()
        for X, y, *weight in blocks.merged(_ONCE_ROWS):
            self._add(X, y, next(iter(weight), None), None if self._folds else landmarks)
        if self._folds is None:
            raise ValueError("Found blocks with 0 sample(s): Blocks must have rows.")
        return self._solve_added(alphas)

    def _add(self, X: Any, y: Any, sample_weight: Any, landmarks: Any) -> None:
        """Add the moments of some rows to those of earlier ones."""
        alphas = check_alphas(self.alpha)
        first = not hasattr(self, "basis_")
        if not first and landmarks is not None:
            raise ValueError("landmarks can only be given at the first call of partial_fit.")
        sample = self._sample(X, y, sample_weight, reset=first, adds=True)
        if first:
            self._reset()
            self._begin(sample, landmarks, alphas)
        elif sample.targets.shape[1] != self._n_outputs:
            raise ValueError(
                f"y has {sample.targets.shape[1]} outputs; earlier calls had {self._n_outputs}."
            )
        if self.fit_intercept and self._origin is None:
            self._origin = sample.rough_mean()
        n = len(sample.rows)
        groups, parts = interleaved_groups(self.cv, len(alphas), self._n_seen, n)
        sample = replace(sample, groups=groups, n_groups=max(1, len(parts)), origin=self._origin)
        moments = self.basis_.engine_.moments(sample, min(alphas), progress=Bar(self.verbose))
        if self._folds is not None:
            moments = [a + b for a, b in zip(self._folds, moments, strict=True)]
        self._n_seen += len(sample.rows)
        self._folds = moments

    def _solve_added(self, alphas: list[float]) -> Any:
        """Solve on all rows that were given so far."""
        moments, parts = self._folds or [], interleaved_groups(self.cv, len(alphas), 0, 0)[1]
        if self._base is not None:  # the rows of an earlier fit train in every fold
            self._base = self._base.whitened()
            moments = [*moments, self._base]
            parts = [*parts, np.full(len(parts), TRAIN)] if parts else []
        engine, settings = self.basis_.engine_, self._settings(self._n_outputs)
        how: dict[str, Any] = {"origin": self._origin}
        how["report"] = getattr(self, "solver_report_", None)
        fit = fit_from_moments(settings, engine, moments, parts, Search(alphas), **how)
        self._take(replace(fit, moments=self._base))  # those of partial_fit are kept by fold
        return self

    def _begin(self, sample: Sample, landmarks: Any, alphas: list[float]) -> None:
        """Draw the landmarks from the first rows, or from those given for it."""
        self._n_outputs = sample.targets.shape[1]
        kernel, metric = self._learned(sample, alphas)
        drawn = self._drawn_from(landmarks)
        rows, weights = (sample.rows, sample.weights) if drawn is None else (drawn, None)
        rng = check_rng(self.random_state)
        place: dict[str, Any] = {"n_jobs": self.n_jobs, "device": self.device}
        span = span_of(kernel, as_sketch(self.sketch), rows, rng, weights, **place)
        self.basis_ = KernelBasis.of(span.engine, span.engine.kernel, self.sketch)
        self.kernel_, self.landmarks_ = span.engine.kernel, span.engine.landmarks
        if metric is not None:
            self.metric_results_ = metric

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the targets of new rows.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        return_std : bool, default False
            Whether to return the standard deviation of f(x), without noise, as scikit-learn's
            Gaussian process does; see `variance`. That of y is sqrt(std^2 + ``noise_variance_``).

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
        for name in ("coef_", "_projection", "_doubt", "calibration_"):
            self.__dict__.pop(name, None)
        _ = self._projection

    @functools.cached_property
    def _projection(self) -> Projection:
        """phi(x) -> f(x), with the landmarks prepared once."""
        if hasattr(self, "basis_"):
            return Projection(self.basis_.engine_.features, self._matrix, self.intercept_)
        # coefficients of a float64 fit, which may be large, want float64 kernel values
        features = LandmarkFeatures(self.kernel_, astype(self.landmarks_, np.float64))
        return Projection(features, self._matrix, self.intercept_, np.float64)

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {name: v for name, v in state.items() if name not in ("_projection", "_doubt")}

    def __skout_state__(self) -> dict[str, Any]:
        return {**vars(self), "checkpoint": None}  # a file names no other file

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @functools.cached_property
    def coef_(self) -> np.ndarray:
        """Coefficients in the coordinates of `basis_`; if exact, those of ``k(landmarks_, .)``."""
        matrix = self._matrix
        return self.basis_.engine_.on_coordinates(matrix) if hasattr(self, "basis_") else matrix

    @property
    def n_iter_(self) -> int:
        """Steps of the solver; the direct one has one."""
        return self.solver_report_.get("iterations", 1)

    def _reset(self) -> None:
        """Forget an earlier fit."""
        for name in (*_FITTED, "task_matrix_"):
            self.__dict__.pop(name, None)
        self._base = self._folds = self._origin = self._fitc_shift = self._row_weights = None
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

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Sample:
        """Check and encode what was given to fit, blocks that come one by one included."""
        seed, size = self.random_state, least_rows(self.sketch)
        X, y, sample_weight = unpacked(X, y, sample_weight, seed=seed, size=size)
        sample = self._sample(X, y, sample_weight, reset=True)
        if len(sample.rows) < 2:
            raise ValueError("KernelRidge needs at least two rows. Got 1 sample.")
        return sample

    def _settings(self, n_outputs: int, has_learned_metric: bool = False) -> RidgeSettings:
        """Return what solvers read of the parameters."""
        names = (
            *("fit_intercept", "solver", "tol", "max_iter", "cv", "random_state", "n_jobs"),
            *("verbose", "variance"),
        )
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        tasks = checked_tasks(self.task_matrix, n_outputs)
        return RidgeSettings(tasks=tasks, has_learned_metric=has_learned_metric, **given)

    def _learned(self, sample: Sample, alphas: list[float]) -> tuple[Kernel, dict[str, Any] | None]:
        """Return the kernel; if it learns, in a metric learned from the sample, and its losses."""
        return learned_kernel(
            as_kernel(self.kernel), sample, alphas, fit_intercept=self.fit_intercept,
            random_state=self.random_state, n_jobs=self.n_jobs, verbose=self.verbose,
        )  # fmt: skip

    def _drawn_from(self, landmarks: Any) -> Source | None:
        """Return the rows that a sketch is drawn from, where they are not those of the fit."""
        if landmarks is None:
            return None
        return encoded(self, as_kernel(self.kernel), landmarks, reset=False)

    def _take(
        self,
        fit: Fit,
        metric: dict[str, Any] | None = None,
        table: dict[str, Any] | None = None,
    ) -> None:
        """Become what a solver returned: the only place that writes what a fit finds.

        `metric` are the losses of a metric that was learned, `table` those that chose alpha then.
        """
        self.kernel_, self.landmarks_, self.alpha_ = fit.kernel, fit.landmarks, fit.chosen.alpha
        self._matrix, self.intercept_ = fit.matrix, fit.intercept
        self.solver_report_ = fit.report
        if fit.engine is not None:
            self.basis_ = KernelBasis.of(fit.engine, fit.kernel, self.sketch)
        if metric is not None:
            self.metric_results_ = metric
        table = table if fit.chosen.results is None else fit.chosen.results
        if table is not None:
            self.cv_results_ = table
        if fit.task_matrix is not None:
            self.task_matrix_ = fit.task_matrix
        self._base, self._origin, self._fitc_shift = fit.moments, fit.origin, fit.fitc_shift
        self._row_weights, self._row_count = fit.row_weights, fit.row_count
        self._n_outputs = fit.matrix.shape[1]
        self._prepare()

    @property
    def weighs_targets(self) -> bool:
        """Whether the weights a_i(x) depend on the inputs alone, and are those of all outputs."""
        return self.task_matrix is None and not as_kernel(self.kernel).learns

    @property
    def takes_sparse_targets(self) -> bool | None:
        """Whether targets may be a source of CSR matrices, whose moments are sums of a few rows.

        None without a sketch: the kernel matrix is larger than targets are.
        """
        if self.sketch is None:
            return None
        return self.checkpoint is None and self.variance == "dtc" and self.device is None

    def in_halves(self) -> tuple[Any, np.ndarray] | None:
        """Return a model that predicts features g(x), and the matrix H of f(x) = g(x) H.

        None where g(x) has no fewer numbers than f(x), or the model no sketch. With an intercept
        the last of the features is 1.
        """
        m, d = self._matrix.shape
        p = m + self.fit_intercept
        if not hasattr(self, "basis_") or self._is_vector or p >= d:
            return None
        half, H = copy.copy(self), self._matrix
        half._base = half._folds = None  # as large as H, and of no use to predictions
        half._matrix, half.intercept_, half._n_outputs = np.eye(m, p), np.zeros(p), p
        if self.fit_intercept:
            half.intercept_[-1] = 1.0
            H = np.vstack([H, self.intercept_])
        half._prepare()
        return half, H
