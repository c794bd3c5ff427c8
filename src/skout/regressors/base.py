"""What the kernel machines share: read, span, problem, solve to a certificate, predict."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import flatnonzero, numpy_of, take
from .._numerics.estimators import PartsByName, all_at_once, new_regressor
from .._numerics.linalg import EPS, square_root
from .._numerics.typing import (
    Array,
    Floats,
    Inputs,
    Ints,
    Labels,
    Objects,
    RandomState,
    Table,
    Weights,
)
from .._numerics.validation import (
    check_alphas,
    check_choice,
    check_number,
    check_rng,
    warn_of_scales,
    warn_user,
)
from ..basis import Engine, KernelBasis, span_of
from ..basis.features import Projection
from ..basis.moments import TrainingSample
from ..kernels import Kernel, LearnedMetric, Precomputed, as_kernel
from ..kernels.base import KernelLike
from ..kernels.vectors import DistanceKernel
from ..losses import Loss, as_loss
from ..metrics import r2
from ..rows import Memory, Source, beside, encoded, encoded_targets, encoded_weights, unpacked
from ..sketches import SketchLike, as_sketch
from ..solvers import ConvexProblem, Solution, solve_convex
from ..solvers.design import coordinates_of
from ..solvers.folds import CV, Alphas, AlphaSearch, ChosenAlpha, Scorer, Splits, choose, deal
from ..solvers.problem import OutputPart, check_runs, parts_of
from ..solvers.ridge import RidgeOptions
from .learning import MetricRounds, learned_kernel

# Targets below this leave the solver, which smooths losses, without digits: it multiplies their
# squares, 1e-260, by weights and widths, and float64 ends at 1e-308.
_SMALLEST = 1e-130
# Arrays of the size of the targets that the solver holds at a time, from above: a fit on a device
# that would fail in the middle is refused at once.
_COLUMNS = 24
# Landmarks at which rounding errors of predictions are bounded, and most rows that they are then
# measured on, a block: enough for the order of magnitude, which is all that is asked.
_PROBED, _PREDICTED = 64, 8192
# What only some fits have.
_OPTIONAL = ("metric_results_", "cv_results_")


@dataclass(frozen=True)
class MachineFit:
    """A fitted machine f(x) = A' Theta' z(x) + b, and its certificate."""

    engine: Engine
    chosen: ChosenAlpha
    coef: Floats  # of the coordinates, A included, (p, d)
    matrix: Floats  # the same of the features, (m, d)
    intercept: Floats  # (d,)
    n_iter: int  # Newton steps
    objective: float  # the minimum that was reached
    duality_gap: float  # a bound on its relative distance to the least
    metric: MetricRounds | None = None  # how the metric of the kernel was learned

    @property
    def projection(self) -> Projection:
        """phi(x) -> f(x), for `Source.map`."""
        return Projection(self.engine.features, self.matrix, self.intercept)

    def of_outputs(self, columns: slice, scale: Floats | float = 1.0) -> MachineFit:
        """Return the fit of some outputs, divided by a scale."""
        parts = (self.coef[:, columns], self.matrix[:, columns], self.intercept[columns])
        coef, matrix, intercept = (part / scale for part in parts)
        return replace(self, coef=coef, matrix=matrix, intercept=intercept)


@dataclass(frozen=True)
class _MachinePath:
    """Fits of a convex problem on parts of its rows: the `Path` of kernel machines.

    Of the outputs, so many of the last are `hidden` from a scorer.
    """

    parts: list[OutputPart]
    splits: Splits
    tol: float
    max_iter: int
    hidden: int

    splits_in_threads = False

    def losses(self, alphas: Sequence[float], split: int) -> Sequence[float]:
        """Return the mean loss of the test rows by each alpha, outputs that have them added up."""
        train, test = self.splits[split]
        total = np.zeros(len(alphas))
        for part in self.parts:
            fitted, held = part.problem(train), part.problem(test)
            if fitted is None or held is None:  # no row of the split has these outputs
                continue
            path = self._path(fitted, held, alphas)
            total += [float(held.weights @ fitted.loss.value(F, held.Y)) for F in path]
        return total.tolist()

    def predictions(self, alphas: Sequence[float], split: int, held: Ints) -> Floats:
        """Return what each alpha predicts for some rows: shape (n_alphas, h, d)."""
        (train, _), d = self.splits[split], self.parts[0].whole.Y.shape[1]
        F = np.full((len(alphas), len(held), d), np.nan)  # of outputs without a row
        for part in self.parts:
            fitted, scored = part.problem(train), part.problem(held, observed=False)
            if fitted is not None and scored is not None:
                path = self._path(fitted, scored, alphas)
                F[:, :, part.columns] = np.stack([numpy_of(predicted) for predicted in path])
        return F[:, :, : d - self.hidden]

    def _path(
        self, fitted: ConvexProblem, held: ConvexProblem, alphas: Sequence[float]
    ) -> list[Array]:
        """Return the predictions of held-out rows by each alpha: one path with warm starts."""
        path: dict[int, Array] = {}
        solution: Solution | None = None
        for j in np.argsort(alphas)[::-1]:  # from the most penalized, whose problem is easiest
            problem = replace(fitted, alpha=alphas[j])
            solution = solve_convex(
                problem, tol=max(self.tol, 1e-3), max_iter=self.max_iter, start=solution
            )
            path[j] = held.predict(solution.theta, solution.intercept)
        return [path[j] for j in range(len(alphas))]


class KernelMachineBase(PartsByName):
    """A model f(x) = A' Theta' z(x) + b, learned by minimizing a convex loss."""

    _by_name: ClassVar[dict[str, Any]] = {"kernel": as_kernel, "sketch": as_sketch, "loss": as_loss}

    if not TYPE_CHECKING:  # by which a checker would take each call for anything
        __new__ = new_regressor
    #: rows and targets may be sources, see `skout.rows`
    takes_sources = True

    kernel: KernelLike
    sketch: SketchLike
    alpha: Alphas
    cv: CV
    fit_intercept: bool
    tol: float
    max_iter: int
    random_state: RandomState
    n_jobs: int | None
    verbose: bool
    device: str | None
    kernel_: Kernel
    alpha_: float
    coef_: Floats
    intercept_: Floats
    n_iter_: int
    objective_: float
    duality_gap_: float
    metric_results_: dict[str, Any]
    cv_results_: Table
    _is_vector: bool

    # Fitting --------------------------------------------------------------------------------------

    def _read(
        self, X: Inputs, y: Objects | None, sample_weight: Weights
    ) -> tuple[Source, Objects, Weights]:
        """Return checked rows, encoded when they are read, and y and weights in memory."""
        check_alphas(self.alpha, strict=True)
        check_number(self.tol, "tol", strict=True)
        check_number(self.max_iter, "max_iter", low=1, integer=True)
        check_choice(self.fit_intercept, "fit_intercept", (True, False))
        targets: list[Any] = []
        X, y, sample_weight = unpacked(
            X, y, sample_weight,
            seed=self.random_state, sketches=[self.sketch], visit=targets.append,
        )  # fmt: skip
        y = np.concatenate(targets) if targets else y
        kernel = as_kernel(self.kernel)
        inputs: Any = X  # no blocks any more
        rows = encoded(self, kernel, inputs, reset=True, device=self.device)
        if len(rows) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two rows. Got {len(rows)} sample(s)."
            )
        if rows.is_array and isinstance(kernel, DistanceKernel):
            warn_of_scales(np.asarray(rows.load()), getattr(self, "feature_names_in_", None))
        return rows, y, encoded_weights(sample_weight, rows, compute=True)

    def _sample(
        self, X: Inputs, y: Objects | None, sample_weight: Weights, *, missing: bool = False
    ) -> TrainingSample:
        """Return what `fit` was given as a sample, whose targets are numbers in memory."""
        rows, y, weights = self._read(X, y, sample_weight)
        targets = np.asarray(encoded_targets(y, rows, missing=missing).load())
        largest = float(np.fmax.reduce(np.abs(targets), axis=None))
        if 0.0 < largest < _SMALLEST:
            raise ValueError(
                f"y holds numbers of at most {largest:.3g}, whose squares underflow. "
                "Scale the targets."
            )
        self._is_vector = targets.ndim == 1
        return TrainingSample(rows, Memory(targets.reshape(len(targets), -1), "y"), weights)

    def _learn(
        self,
        sample: TrainingSample,
        loss: Loss,
        task_matrix: Floats | None = None,
        *,
        labels: np.ndarray | None = None,
        scorer: Scorer | None = None,
        hidden: int = 0,
    ) -> MachineFit:
        """Return the fit of a loss: the span, the problem in its coordinates, alpha, the solution.

        `labels`, where there are any, stratify the folds; so many of the last outputs are `hidden`
        from a scorer.
        """
        alphas, (n, d) = check_alphas(self.alpha, strict=True), sample.targets.shape
        loss.check_outputs(d)
        held = f"What the solver holds of {n} rows and {d} outputs"
        sample.rows.check_device_memory(8 * _COLUMNS * n * d, held)
        kernel, metric = as_kernel(self.kernel), None
        if isinstance(kernel, LearnedMetric):
            options = RidgeOptions(
                self.fit_intercept, random_state=self.random_state, n_jobs=self.n_jobs,
                verbose=self.verbose,
            )  # fmt: skip
            kernel, metric = learned_kernel(kernel, sample, alphas, options)
        engine = self._engine(kernel, sample)  # of landmarks, or of all distinct rows
        parts = self._parts(engine, sample, loss, task_matrix)
        search = self._search(alphas, sample, labels, scorer)
        chosen = ChosenAlpha(max(alphas))
        if search.splits:
            path = _MachinePath(parts, search.splits, self.tol, self.max_iter, hidden)
            chosen = choose(path, search, verbose=self.verbose)
        return replace(self._solved(engine, parts, sample.rows, chosen), metric=metric)

    def _engine(self, kernel: Kernel, sample: TrainingSample) -> Engine:
        """Return the span of the rows of positive weight, as if there were no others."""
        rows, weights = sample.rows, sample.weights
        if weights is not None and not np.all(weights > 0.0):
            used = np.flatnonzero(weights)
            rows, weights = rows.subset(used), weights[used]
        sketch, rng = as_sketch(self.sketch), check_rng(self.random_state)
        span = span_of(kernel, sketch, rows, rng, weights, n_jobs=self.n_jobs, device=self.device)
        return span.engine()

    def _parts(
        self, engine: Engine, sample: TrainingSample, loss: Loss, task_matrix: Floats | None
    ) -> list[OutputPart]:
        """Return the problem in coordinates, on the host or the device that the solver runs on.

        It has a part for outputs that have the same rows: one, where none is missing.
        """
        rows, weights, targets = sample.rows, sample.weights, sample.targets.load()
        Y = targets.astype(np.float64, copy=False)
        Y = np.nan_to_num(Y) if np.isnan(Y).any() else Y  # missing ones have no weight
        Y = rows.device_array(Y)
        check_runs(loss, Y)
        shares = np.full(len(Y), 1.0 / len(Y)) if weights is None else weights / weights.sum()
        root = None if task_matrix is None else rows.device_array(square_root(task_matrix))
        Z, most = coordinates_of(engine, rows, dtype=None), max(check_alphas(self.alpha))
        problem = ConvexProblem(
            Z, Y, rows.device_array(shares), loss, most, root, self.fit_intercept
        )
        return parts_of(problem, targets)

    def _search(
        self,
        alphas: list[float],
        sample: TrainingSample,
        labels: np.ndarray | None,
        scorer: Scorer | None,
    ) -> AlphaSearch:
        """Return which alphas to choose from, and on which splits."""
        if scorer is not None or len(alphas) == 1:
            return AlphaSearch(alphas, () if scorer is None else scorer.splits, scorer)
        n, weights, stratified = len(sample.rows), sample.weights, labels is not None
        splits = deal(self.cv, n, labels, weights, self.random_state, stratified=stratified)
        return AlphaSearch(alphas, splits)

    def _solved(
        self, engine: Engine, parts: list[OutputPart], rows: Source, chosen: ChosenAlpha
    ) -> MachineFit:
        """Solve for outputs that have the same rows in turn: all of them, where none is missing."""
        d = parts[0].whole.Y.shape[1]
        coef, matrix = np.empty((engine.rank, d)), np.empty((engine.features.m, d))
        intercept, n_iter, objective, gap = np.empty(d), 0, 0.0, 0.0
        for part in parts:
            problem = part.problem()
            assert problem is not None  # every output has rows
            solution = solve_convex(
                replace(problem, alpha=chosen.alpha), tol=self.tol, max_iter=self.max_iter,
                verbose=self.verbose,
            )  # fmt: skip
            columns = part.columns
            coef[:, columns] = numpy_of(problem.mix(solution.theta))
            matrix[:, columns] = engine.on_features(coef[:, columns])
            intercept[columns] = numpy_of(solution.intercept)
            projection = Projection(engine.features, matrix[:, columns], intercept[columns])
            predicted = self._as_predicted(problem, solution, part.of(rows), projection, engine)
            n_iter, objective = max(n_iter, solution.n_iter), objective + predicted.primal
            gap = max(gap, predicted.gap)
            if solution.gap > self.tol:
                more = " or give float64 rows," if rows.precision == np.float32 else ""
                self._warn(
                    f" stopped after {solution.n_iter} Newton steps with a relative duality gap of "
                    f"{solution.gap:.1e}, above tol={self.tol:g}: the objective may be that much "
                    f"above its minimum. Raise max_iter (now {self.max_iter}),{more} or raise "
                    "alpha or tol."
                )
            elif predicted.gap > self.tol:
                self._warn(
                    ": its predictions carry rounding errors, by which their objective has a "
                    f"relative duality gap of {predicted.gap:.1e}, above tol={self.tol:g}: "
                    f"alpha={chosen.alpha:g} is too small for this kernel. Raise alpha or tol."
                )
        return MachineFit(engine, chosen, coef, matrix, intercept, n_iter, objective, gap)

    def _warn(self, message: str) -> None:
        warn_user(f"{type(self).__name__}{message}", ConvergenceWarning)

    def _as_predicted(
        self,
        problem: ConvexProblem,
        solution: Solution,
        rows: Source,
        projection: Projection,
        engine: Engine,
    ) -> Solution:
        """Return the solution with the objective that its predictions have.

        Predictions f(x) = phi(x) . B round more than z(x) . coef where B is large, that is where
        alpha is small. If the largest rounding errors are below the tolerance, it stays as it is.
        """
        probed = engine.features(take(engine.landmarks, slice(0, _PROBED)))
        rounding = EPS * float((np.abs(probed) @ np.abs(np.asarray(projection.matrix))).max())
        loss, F, Y = problem.loss, solution.F, problem.Y
        slope = loss.lipschitz  # at a kink the gradient says nothing
        if math.isinf(slope):
            slope = float(problem.weights @ abs(loss.gradient(F, Y)).sum(axis=1))
        if rounding * (slope + rounding) <= self.tol * solution.primal:
            return solution
        used = flatnonzero(problem.weights)
        used = used[:: math.ceil(len(used) / _PREDICTED)]
        shares = problem.weights[used] / problem.weights[used].sum()
        predicted = rows.subset(used).map_on_device(
            projection, Y.shape[1:], np.float64, n_jobs=self.n_jobs
        )
        more = shares @ (loss.value(predicted, Y[used]) - loss.value(F[used], Y[used]))
        return replace(solution, primal=solution.primal + float(more))

    def _take(self, fit: MachineFit) -> None:
        """Become what the solver returned: the only place that writes what a fit finds."""
        for name in _OPTIONAL:
            self.__dict__.pop(name, None)
        self.basis_: KernelBasis = KernelBasis.of(fit.engine, as_kernel(self.kernel), self.sketch)
        self.kernel_, self.alpha_ = fit.engine.kernel, fit.chosen.alpha
        self.coef_, self.intercept_ = fit.coef, fit.intercept
        self.__dict__["_matrix"] = fit.matrix
        self.n_iter_, self.objective_, self.duality_gap_ = (
            fit.n_iter, fit.objective, fit.duality_gap
        )  # fmt: skip
        if fit.metric is not None:
            self.metric_results_ = dict(vars(fit.metric))
        if fit.chosen.results is not None:
            self.cv_results_ = fit.chosen.results

    # Predicting -----------------------------------------------------------------------------------

    def _map(
        self,
        X: Objects,
        tail: tuple[int, ...],
        finish: Callable[[Any], Any] | None = None,
        dtype: DTypeLike | None = None,
    ) -> Any:
        """Return finish(f(x)) of each row, shape (n, *tail); f(x) itself has shape (n, d)."""
        check_is_fitted(self)
        rows = encoded(self, self.kernel_, X, reset=False, device=self.device)
        decision = Projection(self.basis_.engine_.features, self._matrix, self.intercept_)
        function = decision.then(finish)
        return rows.map(function, tail, dtype or rows.precision, n_jobs=self.n_jobs)

    @functools.cached_property
    def _matrix(self) -> Floats:
        """Coefficients of the features, (m, d), which files do not have."""
        return self.basis_.engine_.on_features(self.coef_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        is_matrix = self.kernel == "precomputed" or isinstance(self.kernel, Precomputed)
        tags.input_tags.pairwise = is_matrix
        return tags


class PenalizedRegressor(RegressorMixin):
    """A regressor that chooses alpha by held-out rows, and is scored on observed targets alone."""

    if not TYPE_CHECKING:  # by which a checker would take each call for anything
        __new__ = new_regressor
    alpha: Alphas
    cv: CV
    random_state: RandomState
    _fit: Callable[..., Self]

    @all_at_once
    def fit_scored(
        self,
        X: Objects,
        y: Objects,
        scorer: Scorer,
        sample_weight: Weights = None,
        **options: Objects,
    ) -> Self:
        """Fit with the alpha whose held-out predictions have the best score.

        Parameters
        ----------
        X, y, sample_weight, **options
            As in `fit`.
        scorer : Scorer
            See `skout.solvers.folds`.
        """
        return self._fit(X, y, sample_weight, scorer=scorer, **options)

    def choice_splits(
        self, n: int, y: Objects | None = None, weights: Weights = None, groups: Labels = None
    ) -> Splits:
        """Return the splits of n rows that alpha is chosen on; none where there is a single one.

        Parameters
        ----------
        n, y, weights, groups
            See `skout.solvers.folds.deal`.

        Returns
        -------
        splits : list of (train, test)
        """
        if len(check_alphas(self.alpha)) == 1:
            return []
        return deal(self.cv, n, y, weights, self.random_state, groups=groups)

    def score(self, X: Objects, y: Objects, sample_weight: Weights = None) -> float:
        """Return the coefficient of determination: scikit-learn's, without what is missing in y.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them
        y : array of shape (n,) or (n, d)
            NaN is missing.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        r2 : float
            1 is perfect, 0 as good as the mean; that of each output, averaged.
        """
        targets = np.asarray(beside(y).load())
        if targets.dtype.kind == "f" and np.isnan(targets).any():
            predicted = numpy_of(self.predict(X))  # type: ignore[attr-defined]
            return float(r2(targets, predicted, sample_weight))
        return super().score(X, y, sample_weight)


def first_column(F: Array) -> Any:
    """Return predictions of one output, shape (b, 1), as (b,)."""
    return F[:, 0]
