"""Kernel ridge regression, exact or sketched, in memory or streaming."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import astype
from .._numerics.estimators import PartsByName, all_at_once, computed, frames_out, lasting
from .._numerics.linalg import large_matrices_on
from .._numerics.typing import (
    Floats,
    Inputs,
    Labels,
    Objects,
    PathLike,
    RandomState,
    Rows,
    Table,
    Weights,
)
from .._numerics.validation import (
    check_alphas,
    check_choice,
    check_number,
    check_rng,
    warn_of_scales,
)
from ..basis import KernelBasis, Span, span_of
from ..basis.features import LandmarkFeatures, Projection
from ..basis.moments import AnyMoments, Moments, TrainingSample
from ..kernels import Kernel, LearnedMetric, Precomputed, as_kernel
from ..kernels.base import KernelLike
from ..kernels.vectors import DistanceKernel
from ..rows import (
    Blocks,
    Memory,
    Source,
    columns,
    encoded,
    encoded_targets,
    encoded_weights,
    reads_once,
    unpacked,
)
from ..sketches import SketchLike, as_sketch
from ..solvers.folds import CV, Alphas, AlphaSearch, ChosenAlpha, Scorer, deal
from ..solvers.ridge import (
    NO_MISSING,
    SYSTEMS,
    Fit,
    GrowingMoments,
    RidgeCheckpoint,
    RidgeOptions,
    RidgeProblem,
    decide,
    fit_best,
    open_checkpoint,
    refuse_fitc,
)
from .base import PenalizedRegressor, first_column
from .intervals import Calibration, calibrated, interval
from .learning import MetricRounds, learned_kernel, search_after
from .tasks import check_task_matrix
from .variance import Variance, WithStd, variances_of

# What only some fits have.
_OPTIONAL = ("basis_", "cv_results_", "metric_results_", "task_matrix_", "calibration_")
# Targets are far whose mean is so many deviations from zero; a round number, not measured.
_FAR = 10.0
# Rows of blocks that can be read only once are gathered until there are so many: the longest blocks
# that passes work on by default, see `skout.memory_limits`.
_ONCE_ROWS = 8192


@dataclass(frozen=True)
class Kept:
    """What a `KernelRidge` keeps of a `Fit` beside its public attributes, and of partial_fit."""

    matrix: Floats  # (m, d)
    moments: AnyMoments | None = None  # of the rows given to `fit`
    row_weights: Floats | None = None
    row_count: float | None = None
    fitc_shift: float | None = None
    origin: Floats | None = None
    folds: Sequence[AnyMoments] | None = None  # of the rows given to `partial_fit`, by fold
    n_added: int = 0  # the number of these rows


def _has_sketch(model: KernelRidge) -> bool:
    if model.sketch is None:
        raise AttributeError(
            "partial_fit needs a sketch: without one the model keeps every row. "
            "Give for instance sketch=SubSample(1000)."
        )
    return True


@frames_out
class KernelRidge(MultiOutputMixin, PenalizedRegressor, PartsByName):
    """Kernel ridge regression with one or many outputs.

    Minimizes mean_i 1/2 ||y_i - f(x_i)||^2 + alpha/2 ||f||^2, over the whole space of the kernel
    (`sketch=None`) or over the span of a sketch. A sketched fit is one pass over the rows in
    constant memory: it needs only the moments (n, Z'Z, Z'Y) of the coordinates, which add up.
    Targets may be missing, NaN: each output is then fitted on the rows that have it.

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
        Add an unpenalized constant to each output.
    solver : "auto", "direct" or "cg", default "auto"
        "direct" sums moments in one pass and solves them: n m^2 + m^3 operations. "cg" takes a
        pass for each step of preconditioned conjugate gradients, n m operations, and says in
        `solver_report_` how near it came. "auto" takes the cheaper, see the page on scale; if that
        is "cg" and does not converge, "direct" where memory allows. `solver_report_` says why.
    tol, max_iter : float and int, default 1e-3 and 200
        "cg" stops where predictions of training rows may still change by `tol` standard deviations
        of y (root mean square; with a sketch an estimate), or after `max_iter` steps and a warning.
    random_state : None, int or Generator
        Seed of the sketch and of the folds.
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.
    verbose : bool, default False
    device : str, optional
        "cuda" computes on a GPU, "auto" does if there is one. None is where the data are.
    checkpoint : path, optional
        A file that a sketched fit keeps its progress in, every 30 seconds, until it is done. If it
        is killed, another fit with the same data, parameters and int as random_state goes on from
        there, to the same result. Other data are refused: rows in memory and in `Blocks`, which are
        read once more, are compared, and of arrays on disk a sample, size and time.
    task_matrix : array of shape (d, d), "learned" or None, default None
        M of the kernel k M, which relates the outputs (2.13), so that those with few rows borrow
        from others; see `graph_task_matrix`. "learned" finds it together with f (2.133). With
        missing targets, each output counts by the mean over its own rows: the identity leaves them
        apart.
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
        "solver", "why" it was chosen, with the "costs" of both, and "fell_back_from", the report of
        "cg" before it. Of "cg" also "iterations", "relative_residual" (see `tol`), "objective",
        what it may still gain ("objective_gap", an estimate, and "objective_bound"),
        "preconditioner" and "memory_bytes".
    task_matrix_ : ndarray of shape (d, d)
        M, if there is a `task_matrix`.
    noise_variance_ : ndarray of shape (d,)
        Variance of the noise, of a row of mean weight: s^2 n alpha. The covariance s^2 k has an s
        that gives leave-one-out z-scores a mean square of 1; of a sketch the most likely one.
    calibration_ : Calibration
        What `calibrate` measured, for `predict_interval`.
    metric_results_ : dict
        Of a kernel whose metric is learned, see `skout.kernels.LearnedMetric`.
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
    _by_name: ClassVar[dict[str, Any]] = {"kernel": as_kernel, "sketch": as_sketch}
    __getstate__ = lasting

    kernel_: Kernel
    landmarks_: Rows
    alpha_: float
    intercept_: Floats
    solver_report_: dict[str, Any]
    _kept: Kept
    _is_vector: bool

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        sketch: SketchLike = None,
        *,
        alpha: Alphas = 1e-3,
        task_matrix: ArrayLike | None = None,
        cv: CV = 5,
        fit_intercept: bool = False,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 200,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        device: str | None = None,
        checkpoint: PathLike | None = None,
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

    # Fitting --------------------------------------------------------------------------------------

    @overload
    def fit(self, X: Blocks, *, landmarks: Objects | None = None) -> KernelRidge: ...
    @overload
    def fit(
        self,
        X: Objects,
        y: Objects,
        sample_weight: Weights = None,
        landmarks: Objects | None = None,
        groups: Labels = None,
    ) -> KernelRidge: ...

    @all_at_once
    def fit(
        self,
        X: Inputs,
        y: Objects | None = None,
        sample_weight: Weights = None,
        landmarks: Objects | None = None,
        groups: Labels = None,
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
        """
        return self._fit(X, y, sample_weight, landmarks, groups=groups)

    def _fit(
        self,
        X: Inputs,
        y: Objects | None,
        sample_weight: Weights = None,
        landmarks: Objects | None = None,
        groups: ArrayLike | None = None,
        scorer: Scorer | None = None,
    ) -> KernelRidge:
        alphas, kernel = self._check(landmarks, X), as_kernel(self.kernel)
        metric = checkpoint = None
        if self.checkpoint is not None:
            checkpoint = open_checkpoint(X, self.get_params(deep=False))
        if landmarks is not None and reads_once(X):
            return self._fit_parts(X.merged(_ONCE_ROWS), landmarks)  # type: ignore[union-attr]
        sample = self._read(kernel, X, y, sample_weight)  # checked and encoded once
        options = self._options(sample, kernel.learns, checkpoint)
        if isinstance(kernel, LearnedMetric):
            kernel, metric = learned_kernel(kernel, sample, alphas, options)
        search, table = self._search(alphas, sample, metric, groups, scorer)
        span = self._span(kernel, sample, landmarks)  # landmarks, or all distinct rows
        problem = RidgeProblem(span, sample, options, search)
        decision = decide(problem)  # the only one: moments, rows, products or the kernel matrix
        with large_matrices_on(None if span.is_exact else sample.rows.device):
            system = SYSTEMS[decision.system].of(problem, decision)
            report = {"solver": "direct", "costs": decision.costs, "why": decision.why}
            fit = fit_best(system, search, report)  # alpha by folds, then all rows
        self._take(fit, metric, table)
        if checkpoint is not None:
            checkpoint.remove()
        if not self.fit_intercept and not isinstance(X, Source):  # no coordinates of outputs
            sample.warn_of_far_mean(self.projection_, self.n_jobs, far_from=_FAR)
        return self

    def _check(self, landmarks: Objects | None, X: Inputs) -> list[float]:
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
        if self.solver == "cg" and landmarks is not None and reads_once(X):
            raise ValueError(
                'solver="cg" passes over the rows many times, and these blocks can be read only '
                "once: give a function that makes them anew, leave out landmarks, or use "
                'solver="direct".'
            )
        return alphas

    def _read(
        self,
        kernel: Kernel,
        X: Inputs,
        y: Objects | None,
        weights: Weights,
        *,
        adds: bool = False,
        reset: bool = True,
    ) -> TrainingSample:
        """Check and encode what was given to fit, or to partial_fit, which adds rows."""
        if not adds:  # blocks that come one by one are opened
            seed, sketches = self.random_state, [self.sketch]
            X, y, weights = unpacked(X, y, weights, seed=seed, sketches=sketches)
        inputs: Any = X  # no blocks any more
        rows = encoded(self, kernel, inputs, reset=reset, device=self.device)
        if len(rows) == 0:
            raise ValueError("Found array with 0 sample(s): X must have rows.")
        if not adds and rows.is_array and isinstance(kernel, DistanceKernel):
            warn_of_scales(np.asarray(rows.load()), getattr(self, "feature_names_in_", None))
        targets = encoded_targets(y, rows, missing=True)
        self._is_vector = targets.ndim == 1
        weights = encoded_weights(weights, rows, alone=not adds)
        targets = columns(targets) if self._is_vector else targets
        if self.sketch is None:  # the kernel matrix of all rows is larger than they are
            rows.check_sketch(None)
            rows, targets = rows.in_memory(), Memory(targets.load(), "y")
        if not adds and len(rows) < 2:
            raise ValueError("KernelRidge needs at least two rows. Got 1 sample.")
        sample = TrainingSample(rows, targets, weights)
        if adds or not self.fit_intercept or self.sketch is None:
            return sample
        return replace(sample, origin=sample.rough_mean())

    def _options(
        self,
        sample: TrainingSample,
        is_learned: bool,
        checkpoint: RidgeCheckpoint | None = None,
        *,
        once: bool = False,
    ) -> RidgeOptions:
        """Return the parameters that systems read, or raise where they cannot be combined."""
        M: Any = self.task_matrix
        if isinstance(M, str):
            check_choice(M, "task_matrix", ("learned",))
        elif M is not None:
            M = check_task_matrix(M, sample.targets.shape[1])
        has_missing = not once and sample.has_missing
        is_fitc = self.variance == "fitc" and self.sketch is not None
        if has_missing and checkpoint is not None:
            raise ValueError(NO_MISSING)
        if is_fitc:
            refuse_fitc(
                alpha=min(check_alphas(self.alpha)) == 0.0, cg=self.solver == "cg",
                task_matrix=M is not None, missing=has_missing, once=once,
            )  # fmt: skip
        return RidgeOptions(
            self.fit_intercept, self.solver, self.tol, self.max_iter, M, self.cv,
            self.random_state, self.n_jobs, self.verbose, checkpoint, has_missing,
            is_learned, is_fitc,
        )  # fmt: skip

    def _search(
        self,
        alphas: list[float],
        sample: TrainingSample,
        metric: MetricRounds | None,
        groups: ArrayLike | None,
        scorer: Scorer | None,
    ) -> tuple[AlphaSearch, Table | None]:
        """Return which alphas to choose from on which splits, or the table of a choice made."""
        if scorer is not None:
            return AlphaSearch(alphas, scorer.splits, scorer), None
        if len(alphas) == 1:
            return AlphaSearch(alphas), None
        # a splitter or groups, which somebody gave for a reason, decide themselves
        if metric is not None and groups is None and isinstance(self.cv, int):
            return search_after(metric, sample, alphas)
        n, targets, weights = len(sample.rows), sample.targets.resident, sample.weights
        splits = deal(self.cv, n, targets, weights, self.random_state, groups=groups)
        return AlphaSearch(alphas, splits), None

    def _span(self, kernel: Kernel, sample: TrainingSample, landmarks: Objects | None) -> Span:
        """Draw the sketch from the sample, or from the rows given for it."""
        rows, weights = sample.rows, sample.weights
        if landmarks is not None:
            rows, weights = encoded(self, kernel, landmarks, reset=False), None
        sketch, rng = as_sketch(self.sketch), check_rng(self.random_state)
        return span_of(kernel, sketch, rows, rng, weights, n_jobs=self.n_jobs, device=self.device)

    def _take(
        self,
        fit: Fit,
        metric: MetricRounds | None = None,
        table: Table | None = None,
        grown: GrowingMoments | None = None,
    ) -> None:
        """Become what a solver returned: the only place that writes what a fit finds.

        `metric` is a metric that was learned, `table` the losses that chose alpha then, and `grown`
        are the rows of partial_fit.
        """
        kind: type = type(self)
        for name in (*_OPTIONAL, *computed(kind)):
            self.__dict__.pop(name, None)
        self.kernel_, self.landmarks_, self.alpha_ = fit.kernel, fit.landmarks, fit.chosen.alpha
        self.intercept_, self.solver_report_ = fit.intercept, fit.report
        optional = {
            "basis_": fit.engine and KernelBasis.of(fit.engine, fit.kernel, self.sketch),
            "cv_results_": table if fit.chosen.results is None else fit.chosen.results,
            "metric_results_": metric and dict(vars(metric)),
            "task_matrix_": fit.task_matrix,
        }
        self.__dict__.update({name: part for name, part in optional.items() if part is not None})
        self._kept = Kept(
            fit.matrix, fit.moments, fit.row_weights, fit.row_count, fit.fitc_shift, fit.origin
        )
        if grown is not None:
            self._kept = replace(self._kept, moments=grown.base, folds=grown.folds, n_added=grown.n)
        _ = self.projection_  # scikit-learn wants it made before `predict`

    @property
    def _fitted(self) -> Fit:
        """The `Fit` that the fitted attributes were made of."""
        kept, engine = self._kept, self.basis_.engine_ if hasattr(self, "basis_") else None
        parts = [part for part in [*(kept.folds or []), kept.moments] if part is not None]
        whitened = [part.each(Moments.whitened) for part in parts]
        moments = functools.reduce(operator.add, whitened) if whitened else None
        return Fit(
            self.kernel_, self.landmarks_, kept.matrix, self.intercept_, ChosenAlpha(self.alpha_),
            self.solver_report_, engine, moments, getattr(self, "task_matrix_", None),
            kept.row_weights, kept.row_count, kept.fitc_shift, kept.origin,
        )  # fmt: skip

    # Adding rows ----------------------------------------------------------------------------------

    @available_if(_has_sketch)
    @all_at_once
    def partial_fit(
        self,
        X: Objects,
        y: Objects,
        sample_weight: Weights = None,
        landmarks: Objects | None = None,
    ) -> KernelRidge:
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
        """
        kept, earlier = getattr(self, "_kept", None), None
        no_moments = kept is not None and kept.moments is None and kept.folds is None
        if no_moments or self.solver == "cg":
            raise ValueError(
                "partial_fit adds to the moments of earlier rows, which conjugate gradients do not "
                "make, nor a fit with 2048 landmarks or more on a GPU: give "
                'solver="direct", and begin with partial_fit.'
            )
        if kept is not None:
            if kept.fitc_shift is not None:
                refuse_fitc(once=True)
            if landmarks is not None:
                raise ValueError("landmarks can only be given at the first call of partial_fit.")
            base = None if kept.moments is None else kept.moments.each(Moments.whitened)
            engine, d = self.basis_.engine_, kept.matrix.shape[1]
            earlier = GrowingMoments(engine, d, base, kept.folds, kept.origin, kept.n_added)
        return self._fit_parts([(X, y, sample_weight)], landmarks, earlier)

    def _fit_parts(
        self,
        parts: Iterable[tuple[Objects, Objects, Weights]],
        landmarks: Objects | None,
        rows: GrowingMoments | None = None,
    ) -> KernelRidge:
        """Add parts of rows, (X, y, weights), to earlier ones; the first give the landmarks."""
        alphas, kernel, metric = check_alphas(self.alpha), as_kernel(self.kernel), None
        report = {} if rows is None else self.solver_report_
        for X, y, *more in parts:
            is_first, weights = rows is None, next(iter(more), None)
            sample = self._read(kernel, X, y, weights, adds=True, reset=is_first)
            options = self._options(sample, kernel.learns, once=True)
            if rows is None:
                spanned = kernel
                if isinstance(kernel, LearnedMetric):
                    spanned, metric = learned_kernel(kernel, sample, alphas, options)
                engine = self._span(spanned, sample, landmarks).engine()
                rows = GrowingMoments(engine, sample.targets.shape[1])
            rows = rows.plus(sample, alphas, options)
        if rows is None:
            raise ValueError("Found blocks with 0 sample(s): Blocks must have rows.")
        fit = fit_best(rows.system(alphas, options), AlphaSearch(alphas), report)
        self._take(fit, metric, grown=rows)
        return self

    # Predicting -----------------------------------------------------------------------------------

    def predict(self, X: Objects, return_std: bool = False) -> Any:
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
            For dask collections a dask array, for a tensor on a GPU a tensor.
        std : ndarray of shape (n,) or (n, d)
            If wanted.
        """
        check_is_fitted(self)
        d = self._kept.matrix.shape[1]
        if return_std:
            rows = encoded(self, self.kernel_, X, reset=False)
            with_std = WithStd(self.projection_, self._variances)
            both = rows.map(with_std, (2 * d,), np.float64, n_jobs=self.n_jobs)
            return (both[:, 0], both[:, 1]) if self._is_vector else (both[:, :d], both[:, d:])
        rows = encoded(self, self.kernel_, X, reset=False, device=self.device)
        function = self.projection_.then(first_column) if self._is_vector else self.projection_
        tail = () if self._is_vector else (d,)
        return rows.map(function, tail, rows.precision, n_jobs=self.n_jobs)

    @functools.cached_property
    def projection_(self) -> Projection:
        """phi(x) -> f(x), with the landmarks prepared once: predictions of encoded rows."""
        matrix = self._kept.matrix
        if hasattr(self, "basis_"):
            return Projection(self.basis_.engine_.features, matrix, self.intercept_)
        # coefficients of a float64 fit, which may be large, want float64 kernel values
        features = LandmarkFeatures(self.kernel_, astype(self.landmarks_, np.float64))
        return Projection(features, matrix, self.intercept_, np.float64)

    @functools.cached_property
    def coef_(self) -> Floats:
        """Coefficients in the coordinates of `basis_`; if exact, those of ``k(landmarks_, .)``."""
        matrix = self._kept.matrix
        return self.basis_.engine_.on_coordinates(matrix) if hasattr(self, "basis_") else matrix

    @property
    def n_iter_(self) -> int:
        """Steps of the solver, 1 of the direct one."""
        return int(self.solver_report_.get("iterations", 1))

    @functools.cached_property
    def _variances(self) -> list[Variance]:
        """The variance of f(x) by outputs that have the same rows: made when it is needed."""
        return variances_of(self._fitted, self.fit_intercept, self.n_jobs)

    @property
    def noise_variance_(self) -> Floats:
        """The variance of the noise of each output, of a row of mean weight: s^2 n alpha."""
        noise = np.empty(self._kept.matrix.shape[1])
        for part in self._variances:
            noise[part.columns] = part.scale * part.count * self.alpha_
        return noise

    def calibrate(
        self, X: Objects, y: Objects, *, cv: CV = None, scaled: bool = False
    ) -> KernelRidge:
        """Measure errors on rows that the model, or those of the folds, have not seen.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
            Rows that the model has not been fitted on; with `cv` those that it has.
        y : array of shape (n,) or (n, d)
            NaN is missing.
        cv : int, splitter or iterable of splits, optional
            CV+: a model is fitted for each split, with the alpha, the kernel and, of a sub-sample,
            the landmarks of this one, and kept. About the coverage c is what one gets; the theorem
            promises 2c - 1, less a little, and not even that where folds share alpha, widths and
            landmarks, as here. None is split conformal, which holds c.
        scaled : bool, default False
            Whether intervals are wide where the standard deviation is large: errors then count in
            units of sqrt(std^2 + ``noise_variance_``), that of a new y. Else all have the same
            width, or nearly.
        """
        check_is_fitted(self)
        self.calibration_: Calibration = calibrated(
            self, X, y, self._is_vector, cv=cv, scaled=scaled
        )
        return self

    def predict_interval(
        self, X: Objects, coverage: float = 0.9, *, joint: bool = False
    ) -> tuple[Floats, Floats]:
        """Predict intervals that hold the target with a given probability.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        coverage : float, default 0.9
            For rows that are exchangeable with those of `calibrate`, which must have been called;
            on average over calibrations. What CV+ promises is less, see there.
        joint : bool, default False
            Whether all outputs are in their intervals at the same time with this probability: the
            intervals are the sides of a box. Else each is with this probability. Rows of
            `calibrate` in which an output is missing do not count.

        Returns
        -------
        lower, upper : ndarrays of shape (n,) or (n, d)
            Infinite where the rows of `calibrate` are too few: below c / (1 - c) for the coverage
            c, 9 for 0.9 and 19 for 0.95.
        """
        check_is_fitted(self)
        calibration = getattr(self, "calibration_", None)
        lower, upper = interval(self, calibration, X, coverage, joint)
        return (lower[:, 0], upper[:, 0]) if self._is_vector else (lower, upper)

    # For other parts ------------------------------------------------------------------------------

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

    def in_halves(self) -> tuple[Self, Floats] | None:
        """Return a model that predicts features g(x), and the matrix H of f(x) = g(x) H.

        None where g(x) has no fewer numbers than f(x), or the model no sketch. With an intercept
        the last of the features is 1.
        """
        H = self._kept.matrix
        m, d = H.shape
        p = m + self.fit_intercept
        if not hasattr(self, "basis_") or self._is_vector or p >= d:
            return None
        intercept = np.zeros(p)
        if self.fit_intercept:
            intercept[-1] = 1.0
            H = np.vstack([H, self.intercept_])
        # the moments are as large as H, and of no use to predictions
        fit = replace(self._fitted, matrix=np.eye(m, p), intercept=intercept, moments=None)
        half = copy.copy(self)
        half._take(fit)
        return half, H

    def __skout_state__(self) -> dict[str, Any]:
        return {**vars(self), "checkpoint": None}  # a file names no other file

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        is_matrix = self.kernel == "precomputed" or isinstance(self.kernel, Precomputed)
        tags.input_tags.pairwise = is_matrix
        return tags
