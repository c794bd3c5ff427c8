"""Kernel ridge regression, exact or sketched, in memory or streaming."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import astype, row_keys
from .._numerics.estimators import PartsByName, all_at_once
from .._numerics.linalg import large_matrices_on
from .._numerics.validation import (
    check_alphas,
    check_choice,
    check_rng,
    check_total_weight,
)
from ..basis import KernelBasis
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
    on_device,
    reads_once,
    unpacked,
)
from ..sketches import as_sketch, least_rows
from ..solvers.moments import Moments
from .base import Finished, first_column
from .checkpoint import Bar, digest, open_checkpoint
from .choice import Choice, check_has_moments, check_solver, fit_without_moments
from .exact import fit_exact
from .folds import Folds, looked_at, on_features
from .learning import alphas_and_splits, learnt_kernel, wanted_solver
from .path import Chooses, Judge
from .splits import TRAIN, groups_of_splits, interleaved_groups

__all__ = ["KernelRidge"]

# Targets on disk or on a cluster: the mean of so many is subtracted from all of them.
_ORIGIN_ROWS = 8192
# Rows of blocks that can be read only once are gathered until there are so many.
_ONCE_ROWS = 8192


def _has_sketch(model: KernelRidge) -> bool:
    if model.sketch is None:
        raise AttributeError(
            "partial_fit needs a sketch: without one the model keeps every row. "
            "Give for instance sketch=SubSample(1000)."
        )
    return True


class KernelRidge(MultiOutputMixin, RegressorMixin, Chooses, PartsByName):
    """Kernel ridge regression with one or many outputs.

    Minimises mean_i 1/2 ||y_i - f(x_i)||^2 + alpha/2 ||f||^2, over the whole space of the kernel
    (`sketch=None`) or over the span of a sketch. A sketched fit is one pass over the rows in
    constant memory: it needs only the moments (n, Z'Z, Z'Y) of the coordinates, which add up.

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
        `solver_report_` how near it came. "auto" takes the cheaper, see the page on scale.
    tol, max_iter : float and int, default 1e-3 and 200
        Relative residual at which "cg" stops, and its most steps; a warning says if too few.
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
        "solver", with the "costs" that it was chosen by. Of "cg" also "iterations",
        "relative_residual", "objective", what it may still gain ("objective_gap", an estimate, and
        "objective_bound"), "preconditioner" and "memory_bytes".
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
    _by_name: ClassVar[dict[str, Any]] = {"kernel": as_kernel, "sketch": as_sketch}

    def __init__(
        self,
        kernel: Any = "gaussian",
        sketch: Any = None,
        *,
        alpha: Any = 1e-3,
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
            so for the weights.
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
        alphas = check_alphas(self.alpha)
        check_choice(self.fit_intercept, "fit_intercept", (True, False))
        check_solver(self, X, landmarks)
        checkpoint = open_checkpoint(self, X)
        if landmarks is not None and reads_once(X):
            return self._fit_once(X, landmarks, alphas)
        X, y, sample_weight = unpacked(
            X, y, sample_weight, seed=self.random_state, size=least_rows(self.sketch)
        )
        sample = self._sample(X, y, sample_weight, reset=True)
        if len(sample.rows) < 2:
            raise ValueError("KernelRidge needs at least two rows. Got 1 sample.")
        self._reset()
        kernel = learnt_kernel(self, sample)
        alphas, splits = alphas_and_splits(self, sample, alphas, judge, groups)
        if self.sketch is None:
            return fit_exact(self, kernel, sample, splits, alphas, judge)
        with large_matrices_on(sample.rows.device):
            choice = Choice(wanted_solver(self), sample, splits)
            pool = self._pool(landmarks, sample)
            self._fit_basis(kernel, *pool, remember=landmarks is None, lazily=choice.least)
            choice.decide(self.basis_)
            self._n_outputs = sample.targets.shape[1]
            number, parts = groups_of_splits(splits, len(sample.rows))
            sample = self._prepared(sample, number, len(parts))
            if checkpoint is not None:
                landmark_keys = row_keys(self.landmarks_)
                parts_of = () if choice.later else (self.basis_.components_,)
                solver = "cg" if choice.cg else "direct"
                checkpoint.add_facts(solver=solver, landmarks=digest(*parts_of, landmark_keys))
                checkpoint.add_sample(sample)
            if fit_without_moments(self, sample, alphas, choice, judge, checkpoint):
                return self
            bar = Bar(self.verbose, checkpoint)
            moments = self.basis_._moments(sample, min(alphas), whiten=bool(splits), progress=bar)
            held = [] if judge is None else looked_at(judge, sample.rows, self.basis_)
            self._base = self._solve(moments, parts, alphas, judge, held)
        if checkpoint is not None:
            checkpoint.remove()
        return self

    def _fit_once(self, blocks: Blocks, landmarks: Any, alphas: list[float]) -> KernelRidge:
        """Fit on blocks that can be read once, as they come."""
        self._reset()
        for X, y, *weight in blocks.merged(_ONCE_ROWS):
            self._add(X, y, next(iter(weight), None), None if self._folds else landmarks)
        if self._folds is None:
            raise ValueError("Found blocks with 0 sample(s): Blocks must have rows.")
        return self._solve_added(alphas)

    def _pool(self, landmarks: Any, sample: Sample) -> tuple[Source, Any]:
        """Return the rows that the sketch is drawn from, and their weights."""
        if landmarks is None:
            return sample.rows, sample.weights
        return encoded(self, as_kernel(self.kernel), landmarks, reset=False), None

    @available_if(_has_sketch)
    @all_at_once
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, landmarks: Any = None
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

        Returns
        -------
        self : KernelRidge
        """
        alphas = check_alphas(self.alpha)
        check_has_moments(self)
        self._add(X, y, sample_weight, landmarks)
        return self._solve_added(alphas)

    def _add(self, X: Any, y: Any, sample_weight: Any, landmarks: Any) -> None:
        """Add the moments of some rows to those of earlier ones."""
        alphas = check_alphas(self.alpha)
        first = not hasattr(self, "basis_")
        if not first and landmarks is not None:
            raise ValueError("landmarks can only be given at the first call of partial_fit.")
        sample = self._sample(X, y, sample_weight, reset=first)
        if first:
            self._reset()
            self._fit_basis(learnt_kernel(self, sample), *self._pool(landmarks, sample))
            self._n_outputs = sample.targets.shape[1]
        elif sample.targets.shape[1] != self._n_outputs:
            raise ValueError(
                f"y has {sample.targets.shape[1]} outputs; earlier calls had {self._n_outputs}."
            )
        n = len(sample.rows)
        groups, parts = interleaved_groups(self.cv, len(alphas), self._n_seen, n)
        sample = self._prepared(sample, groups, len(parts))
        moments = self.basis_._moments(sample, min(alphas), progress=Bar(self.verbose))
        if self._folds is not None:
            moments = [a + b for a, b in zip(self._folds, moments, strict=True)]
        self._n_seen += len(sample.rows)
        self._folds = moments

    def _solve_added(self, alphas: list[float]) -> KernelRidge:
        """Solve on all rows that were given so far."""
        assert self._folds is not None
        moments, parts = self._folds, interleaved_groups(self.cv, len(alphas), 0, 0)[1]
        if self._base is not None:  # the rows of an earlier fit train in every fold
            self._base = self._base.whitened()
            moments = [*moments, self._base]
            parts = [*parts, np.full(len(parts), TRAIN)] if parts else []
        self._solve(moments, parts, alphas)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict the targets of new rows.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them

        Returns
        -------
        y : ndarray of shape (n,) or (n, d)
            For dask collections a dask array, for a tensor on a card a tensor there.
        """
        check_is_fitted(self)
        rows = on_device(encoded(self, self.kernel_, X, reset=False), self.device)
        prediction: RowMap = self._projection
        if self._is_vector:
            prediction = Finished(prediction, first_column)
        tail = () if self._is_vector else self._matrix.shape[1:]
        return rows.map(prediction, tail, rows.precision, n_jobs=self.n_jobs)

    def _prepare(self) -> None:
        """Make what predictions need of a new fit: scikit-learn wants it done before `predict`."""
        for name in ("coef_", "_projection"):
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
        return {name: value for name, value in state.items() if name != "_projection"}

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
        for name in ("basis_", "coef_", "cv_results_", "_projection", "solver_report_"):
            self.__dict__.pop(name, None)
        self._base = self._folds = self._origin = None
        self._n_seen = 0

    def _sample(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Sample:
        """Check and encode what was given to fit."""
        rows = encoded(self, as_kernel(self.kernel), X, reset=reset)
        if len(rows) == 0:
            raise ValueError("Found array with 0 sample(s): X must have rows.")
        targets = encoded_targets(y, rows)
        self._is_vector = targets.ndim == 1
        weights = encoded_weights(sample_weight, rows)
        rows, targets = on_device(rows, self.device), columns(targets)
        if self.sketch is None:  # the kernel matrix of all rows is larger than they are
            rows.check_sketch(None)
            rows, targets = rows.in_memory(), Memory(targets.here(), "y")
        return Sample(rows, targets, weights)

    def _prepared(self, sample: Sample, groups: np.ndarray | None, n_groups: int) -> Sample:
        """Add the groups and, if an intercept can make up for it, the origin of the targets."""
        if self.fit_intercept and self._origin is None:
            # any value near the targets will do; the mean of all of them would take one more pass
            some = sample.targets.some(_ORIGIN_ROWS)
            self._origin = some.mean(axis=0, dtype=np.float64)
        return replace(sample, groups=groups, n_groups=max(1, n_groups), origin=self._origin)

    def _fit_basis(
        self,
        kernel: Kernel,
        rows: Source,
        weights: Any = None,
        *,
        remember: bool = False,
        lazily: float = np.inf,
    ) -> None:
        basis = KernelBasis(kernel, self.sketch, n_jobs=self.n_jobs, device=self.device)
        rng = check_rng(self.random_state)
        basis._fit_rows(kernel, rows, rng, weights, remember=remember, lazily=lazily)
        self.basis_ = basis
        self.kernel_ = self.basis_.kernel_
        self.landmarks_ = self.basis_.landmarks_

    def _solve(
        self,
        moments: list[Moments],
        parts: list[np.ndarray],
        alphas: list[float],
        judge: Judge | None = None,
        held: Sequence[np.ndarray] = (),
    ) -> Moments:
        """Choose alpha on the folds, if any, and solve on all rows, whose moments are returned."""
        folds = Folds(moments, parts, self.fit_intercept, self.verbose)
        total = folds.total
        check_total_weight(total.weight)
        self._choose(alphas, folds, judge, held)
        solved = on_features(total, self.basis_, self.alpha_, self.fit_intercept)
        self._matrix, self.intercept_ = solved
        self.solver_report_ = {"solver": "direct"} | getattr(self, "solver_report_", {})
        if self._origin is not None:
            self.intercept_ += self._origin
        self._prepare()
        partly = None if total.partly is None else total.partly._replace(gram=None)
        return replace(total, partly=partly)

    def _choose(
        self, alphas: list[float], folds: Folds, judge: Judge | None, held: Sequence[np.ndarray]
    ) -> None:
        """Take the best alpha, by a judge or by the squared error, and record the scores."""
        results: dict[str, Any] | None
        if judge is not None:
            self.alpha_, results = folds.best_score(alphas, judge, held, self._origin, self.n_jobs)
        else:
            cv = self.cv if self._folds is None else None
            self.alpha_, results = folds.least_error(alphas, cv, self.n_jobs)
        if results is not None:
            self.cv_results_ = results
