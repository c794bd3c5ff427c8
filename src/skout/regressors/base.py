"""What the kernel machines share: coordinates, the convex solver, alpha paths, predictions."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from tqdm.auto import tqdm

from .._numerics.arrays import flatnonzero, numpy_of, take
from .._numerics.linalg import EPS, square_root
from .._numerics.validation import (
    PartsByName,
    check_alphas,
    check_choice,
    check_number,
    check_rng,
)
from ..basis import Engine, KernelBasis, span_of
from ..basis.features import Projection
from ..basis.passes import Sample
from ..kernels import Kernel, as_kernel
from ..losses import Loss, as_loss
from ..metrics import r2
from ..rows import (
    Memory,
    RowMap,
    Source,
    beside,
    encoded,
    encoded_targets,
    encoded_weights,
    unpacked,
)
from ..sketches import as_sketch, least_rows
from ..solvers import Problem, Solution, solve_convex
from ..solvers.design import Design
from ..solvers.problem import Part, check_runs, parts_of
from .choice import Chooses
from .learning import learned_kernel
from .path import Judge, Search
from .splits import least_loss, splits_of

__all__ = ["Finished", "KernelMachineBase", "ScoresHoles", "coordinates_of", "first_column"]


# Targets below this leave the solver, which smooths losses, without digits.
_SMALLEST = 1e-130
# Arrays of the size of the targets that the solver holds at a time.
_COLUMNS = 24
# Landmarks at which rounding errors of predictions are bounded, and most rows that they are then
# measured on.
_PROBED, _PREDICTED = 64, 8192


class Finished(RowMap):
    """What a function makes of the results of another map, as arrays; it must be picklable."""

    def __init__(self, base: RowMap, function: Callable[[Any], Any]) -> None:
        self.base, self.function, self.width = base, function, base.width

    def most_rows(self, n: int) -> int | None:
        return self.base.most_rows(n)

    def __call__(self, rows: Any, out: np.ndarray | None = None) -> Any:
        return self.function(numpy_of(self.base(rows)))

    def on(self, place: Any) -> RowMap | None:
        there = self.base.on(place)
        return None if there is None else Finished(there, self.function)

    def finish(self) -> None:
        self.base.finish()


class KernelMachineBase(Chooses, PartsByName):
    """A model f(x) = A' Theta' z(x) + b, learned by minimising a convex loss."""

    _by_name: ClassVar[dict[str, Any]] = {"kernel": as_kernel, "sketch": as_sketch, "loss": as_loss}

    #: rows and targets may be sources, see `skout.rows`
    takes_sources = True

    kernel: Any
    sketch: Any
    alpha: Any
    cv: Any
    fit_intercept: bool
    tol: float
    max_iter: int
    random_state: Any
    n_jobs: int | None
    verbose: bool
    device: str | None
    _is_vector: bool
    _judge: Judge | None = None  # of a fit that is going on

    def fit_judged(self, X: Any, y: Any, judge: Judge, **fit_params: Any) -> Any:
        """Fit with the alpha whose held-out predictions a judge, see `regressors.path`, likes best.

        Parameters
        ----------
        X, y, **fit_params
            As in `fit`.
        judge : Judge

        Returns
        -------
        self : estimator
        """
        self._judge = judge
        try:
            return self.fit(X, y, **fit_params)
        finally:
            self.__dict__.pop("_judge", None)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Source, Any, Any]:
        """Check what was given to fit: rows, encoded when they are read; y and weights, here."""
        check_alphas(self.alpha, strict=True)
        check_number(self.tol, "tol", strict=True)
        check_number(self.max_iter, "max_iter", low=1, integer=True)
        check_choice(self.fit_intercept, "fit_intercept", (True, False))
        targets: list[Any] = []
        seed, size = self.random_state, least_rows(self.sketch)
        visit = targets.append
        X, y, sample_weight = unpacked(X, y, sample_weight, seed=seed, size=size, visit=visit)
        y = np.concatenate(targets) if targets else y
        rows = encoded(self, as_kernel(self.kernel), X, reset=True, device=self.device)
        if len(rows) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two rows. Got {len(rows)} sample(s)."
            )
        return rows, y, encoded_weights(sample_weight, rows, here=True)

    def _targets(self, y: Any, rows: Source, *, holes: bool = False) -> np.ndarray:
        """Check what was given to fit as y, and hold it here: the solver needs all of it."""
        targets = encoded_targets(y, rows, holes=holes).here()
        largest = float(np.fmax.reduce(np.abs(targets), axis=None))
        if 0.0 < largest < _SMALLEST:
            raise ValueError(
                f"y holds numbers of at most {largest:.3g}, whose squares underflow. "
                "Scale the targets."
            )
        return targets

    def _learn(
        self,
        rows: Source,
        Y: np.ndarray,
        weights: np.ndarray | None,
        loss: Loss,
        task_matrix: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        hidden: int = 0,
    ) -> None:
        """Find the coordinates, choose alpha if there are several, and solve.

        `labels`, where there are any, stratify the folds; so many of the last outputs are `hidden`
        from a judge.
        """
        alphas = check_alphas(self.alpha, strict=True)
        loss.check_outputs(Y.shape[1])
        targets = self._held(rows, Y, loss)
        self.__dict__.pop("metric_results_", None)
        kernel = as_kernel(self.kernel)
        if kernel.learns:
            kernel, self.metric_results_ = learned_kernel(
                kernel, Sample(rows, Memory(Y, "y"), weights), alphas,
                fit_intercept=self.fit_intercept, random_state=self.random_state,
                n_jobs=self.n_jobs, verbose=self.verbose,
            )  # fmt: skip
        self._fit_basis(kernel, rows, weights)
        n = len(Y)
        shares = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
        root = None if task_matrix is None else rows.near(square_root(task_matrix))
        problem = Problem(
            self._design(rows),
            targets,
            rows.near(shares),
            loss,
            alphas[0],
            root,
            self.fit_intercept,
        )
        parts = parts_of(problem, Y)
        self.__dict__.pop("cv_results_", None)
        self.alpha_ = alphas[0]
        if self._judge is not None:
            self._choose_judged(Sample(rows, Memory(Y, "y"), weights), parts, alphas, hidden)
        elif len(alphas) > 1:
            self._choose(problem, parts, alphas, labels)
        self.__dict__.pop("_matrix", None)
        self.coef_ = np.empty((self.basis_.rank_, Y.shape[1]))
        self.intercept_ = np.empty(Y.shape[1])
        self.n_iter_, self.objective_, self.duality_gap_ = 0, 0.0, 0.0
        solutions = []
        for part in parts:  # no comprehension, which is a frame more up to the user's line
            solutions.append(self._solve_part(part, rows))
        for part, (problem, solution) in zip(parts, solutions, strict=True):
            self._certify(part, problem, solution, rows)

    def _solve_part(self, part: Part, rows: Source) -> tuple[Problem, Solution]:
        """Solve for outputs that have the same rows: all of them, where none has holes."""
        problem, columns = part.problem(), part.columns
        assert problem is not None  # every output has rows
        solution = solve_convex(
            replace(problem, alpha=self.alpha_),
            tol=self.tol,
            max_iter=self.max_iter,
            verbose=self.verbose,
        )
        self.coef_[:, columns] = numpy_of(problem.mix(solution.theta))
        self.intercept_[columns] = numpy_of(solution.intercept)
        self.n_iter_ = max(self.n_iter_, solution.n_iter)
        self._warn_if_stopped(solution, rows.precision)
        return problem, solution

    def _certify(self, part: Part, problem: Problem, solution: Solution, rows: Source) -> None:
        """Add the objective of these outputs, as `predict` has it, and note their gap."""
        predicted = self._as_predicted(problem, solution, part.of(rows), part.columns)
        self.objective_ += predicted.primal
        self.duality_gap_ = max(self.duality_gap_, predicted.gap)
        if solution.gap <= self.tol < predicted.gap:
            self._warn_of_rounding(predicted)

    def _fit_basis(self, kernel: Kernel, rows: Source, weights: np.ndarray | None) -> None:
        """Fit the basis on the rows of positive weight, as if there were no others."""
        if weights is not None and not np.all(weights > 0.0):
            used = np.flatnonzero(weights)
            rows, weights = rows.subset(used), weights[used]
        sketch, rng = as_sketch(self.sketch), check_rng(self.random_state)
        place: dict[str, Any] = {"n_jobs": self.n_jobs, "device": self.device}
        engine = span_of(kernel, sketch, rows, rng, weights, **place).engine
        self.basis_, self.kernel_ = KernelBasis.of(engine, kernel, self.sketch), engine.kernel

    def _held(self, rows: Source, Y: np.ndarray, loss: Loss) -> Any:
        """Return targets where the solver will run, a card perhaps, if it can run there."""
        size = f"{len(Y)} rows and {Y.shape[1]} outputs"
        rows.check_room(8 * _COLUMNS * Y.size, f"What the solver holds of {size}")
        Y = Y.astype(np.float64, copy=False)
        targets = rows.near(np.nan_to_num(Y) if np.isnan(Y).any() else Y)  # holes have no weight
        check_runs(loss, targets)
        return targets

    def _design(self, rows: Source) -> Design:
        return coordinates_of(self.basis_.engine_, rows, dtype=None)

    def _choose(
        self, problem: Problem, parts: list[Part], alphas: list[float], labels: np.ndarray | None
    ) -> None:
        """Take the alpha of the least held-out loss."""
        n, weights, stratified = len(problem.Y), numpy_of(problem.weights), labels is not None
        splits = splits_of(self.cv, n, labels, weights, self.random_state, stratified=stratified)
        table = np.zeros((len(splits), len(alphas)))
        for k, split in enumerate(tqdm(splits, desc="folds", disable=not self.verbose)):
            train, test = (np.sort(np.arange(n)[some]) for some in split)
            for part in parts:
                own, held = part.problem(train), part.problem(test)
                if own is None or held is None:  # no row of the split has these outputs
                    continue
                path = self._path(own, held, alphas)
                table[k] += [float(held.weights @ own.loss.value(F, held.Y)) for F in path]
        self.alpha_, self.cv_results_ = least_loss(alphas, table)

    def _choose_judged(
        self, sample: Sample, parts: list[Part], alphas: list[float], hidden: int
    ) -> None:
        """Take the alpha whose held-out predictions the judge likes best."""
        assert self._judge is not None
        d = sample.targets.shape[1]

        def path(train: np.ndarray, held: np.ndarray) -> np.ndarray:
            F = np.full((len(alphas), len(held), d), np.nan)  # of outputs without a row
            for part in parts:
                own, seen = part.problem(train), part.problem(held, rated=False)
                if own is not None and seen is not None:
                    found = [numpy_of(one) for one in self._path(own, seen, alphas)]
                    F[:, :, part.columns] = np.stack(found)
            return F[:, :, : d - hidden]

        search = Search(alphas, self._judge.splits, self._judge)
        chosen = search.by_paths(sample, path, self.verbose)
        self.alpha_, self.cv_results_ = chosen.alpha, chosen.results or {}

    def _path(self, part: Problem, held: Problem, alphas: list[float]) -> list[Any]:
        """Return the predictions of held-out rows by each alpha: one path with warm starts."""
        found: list[Any] = [None] * len(alphas)
        solution: Solution | None = None
        for j in np.argsort(alphas)[::-1]:  # from the most penalised, whose problem is easiest
            fold = replace(part, alpha=alphas[j])
            solution = solve_convex(
                fold, tol=max(self.tol, 1e-3), max_iter=self.max_iter, start=solution
            )
            found[j] = held.predict(solution.theta, solution.intercept)
        return found

    def _as_predicted(
        self, problem: Problem, solution: Solution, rows: Source, columns: Any
    ) -> Solution:
        """Return the solution with the objective that predictions have, which round in their way.

        f(x) = phi(x) . B, with a B that may be large where alpha is small. It makes no difference
        where the largest rounding errors of that product are below the tolerance.
        """
        matrix, features = self._matrix[:, columns], self.basis_.engine_.features
        some = take(self.basis_.landmarks_, slice(0, _PROBED))
        rounding = EPS * float((np.abs(features(some)) @ np.abs(matrix)).max())
        loss, F, Y = problem.loss, solution.F, problem.Y
        slope = loss.lipschitz  # at a kink the gradient says nothing
        if math.isinf(slope):
            slope = float(problem.weights @ abs(loss.gradient(F, Y)).sum(axis=1))
        if rounding * (slope + rounding) <= self.tol * solution.primal:
            return solution
        used = flatnonzero(problem.weights)
        used = used[:: math.ceil(len(used) / _PREDICTED)]
        shares = problem.weights[used] / problem.weights[used].sum()
        prediction = Projection(features, matrix, self.intercept_[columns])
        own = rows.subset(used).map_near(prediction, Y.shape[1:], np.float64, n_jobs=self.n_jobs)
        more = shares @ (loss.value(own, Y[used]) - loss.value(F[used], Y[used]))
        return replace(solution, primal=solution.primal + float(more))

    def _warn_of_rounding(self, solution: Solution) -> None:
        warnings.warn(
            f"The predictions of {type(self).__name__} carry rounding errors, by which their "
            f"objective has a relative duality gap of {solution.gap:.1e}, above tol={self.tol:g}: "
            f"alpha={self.alpha_:g} is too small for this kernel. Raise alpha or tol.",
            ConvergenceWarning,
            stacklevel=7,
        )

    def _warn_if_stopped(self, solution: Solution, dtype: np.dtype) -> None:
        if solution.gap <= self.tol:
            return
        more = " or give float64 rows," if dtype == np.float32 else ""
        warnings.warn(
            f"{type(self).__name__} stopped after {solution.n_iter} Newton steps with a relative "
            f"duality gap of {solution.gap:.1e}, above tol={self.tol:g}: the objective may be that "
            f"much above its minimum. Raise max_iter (now {self.max_iter}),{more} or raise alpha "
            "or tol.",
            ConvergenceWarning,
            stacklevel=7,
        )

    def _map(
        self,
        X: Any,
        tail: tuple[int, ...],
        dtype: Any = None,
        finish: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Return finish(f(x)) of each row, shape (n, *tail); f(x) itself has shape (n, d)."""
        check_is_fitted(self)
        rows = encoded(self, self.kernel_, X, reset=False, device=self.device)
        decision: RowMap = Projection(self.basis_.engine_.features, self._matrix, self.intercept_)
        decision = decision if finish is None else Finished(decision, finish)
        return rows.map(decision, tail, dtype or rows.precision, n_jobs=self.n_jobs)

    def _predicted(self, X: Any) -> Any:
        """Return f(x), of shape (n,) where y was."""
        check_is_fitted(self)
        if self._is_vector:
            return self._map(X, (), finish=first_column)
        return self._map(X, self.coef_.shape[1:])

    @functools.cached_property
    def _matrix(self) -> np.ndarray:
        """What features are multiplied with."""
        return self.basis_.engine_.on_features(self.coef_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ScoresHoles(RegressorMixin):
    """A regressor that is scored on the targets that are there."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
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
        targets = np.asarray(beside(y).here())
        if targets.dtype.kind == "f" and np.isnan(targets).any():
            return r2(targets, numpy_of(self.predict(X)), sample_weight)
        return super().score(X, y, sample_weight)


def coordinates_of(engine: Engine, rows: Source, dtype: Any = np.float64) -> Design:
    """Return the coordinates of all rows: held, in one pass, or made again in each.

    They are of a precision, or of that of the rows, if it is None.
    """
    function = Projection(engine.features, engine.components.T, dtype=dtype)
    Z = rows.kept(function, (engine.rank,), n_jobs=engine.n_jobs)
    if Z is not None:
        return Design(Z, n_jobs=engine.n_jobs)

    def through(B: Any) -> Projection:
        return Projection(engine.features, engine.on_features(B), dtype=dtype)

    return Design(rows.then(function), rows, through, engine.n_jobs)


def first_column(F: Any) -> Any:
    """Return predictions of one output, shape (b, 1), as (b,)."""
    return F[:, 0]
