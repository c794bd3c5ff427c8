"""The metric of a kernel, learned from the targets: rounds of sketched ridge and its gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tqdm import tqdm

from .._numerics.arrays import cast, float_dtype, namespace, numpy_of, take
from .._numerics.estimators import lasting
from .._numerics.linalg import large_matrices_on, symmetric_eigen
from .._numerics.objects import to_device
from .._numerics.typing import Array, Floats, Ints, Rows, Table
from .._numerics.validation import check_rng
from ..basis import Span, span_of
from ..basis.moments import Moments, TrainingSample
from ..kernels import Kernel, LearnedMetric, Mahalanobis
from ..rows import Memory, Place, Reduction
from ..sketches import SubSample
from ..solvers.folds import TEST, TRAIN, AlphaSearch, deal, least_loss, mean_square
from ..solvers.ridge import Decision, FoldMoments, GramSystem, RidgeOptions, RidgeProblem

# Where nothing else is said, constants of this file are round numbers that were not measured.

# In a metric that was learned the last fit tries so many alphas below and above the best one of the
# rounds: it has more landmarks than they had, and then smaller alphas serve.
_BELOW, _ABOVE = 2, 1
# Rounds try alphas that are so many steps from the best one of the round before.
_NEAR = 1
# Rows are dealt into so many folds, of which one at a time is held out. All of them, one after
# another, of few rows; one alone if there are _ENOUGH.
_FOLDS, _ENOUGH = 5, 3000
# Gradients of so many outputs are taken one by one; of more, the first _LEADING directions of the
# predictions, and _MIXED random mixtures of the rest.
_OUTPUTS, _LEADING, _MIXED = 16, 8, 8
# With more features a metric is a diagonal: a full one has d^2 numbers and its root costs d^3.
_MATRIX = 1000
# Learning ends after so many rounds that did not help: a single one may fail to by chance.
_PATIENCE = 2
# So many rows are all landmarks, if nobody says how many; of more, or of rows elsewhere, some. A
# factor of 3,000 takes less than a second, and there is one for each round and split.
_EXACT, _LANDMARKS = 3000, 1000
# Of targets that are not in memory, so many, a block, show whether some are missing before the work
# begins; the first pass finds the others.
_LOOKED = 8192
_MISSING = (
    "y has missing values, and a metric is learned from whole rows: learn it from those, and give "
    "the kernel of that fit, its `kernel_`, to this one."
)


@dataclass(frozen=True)
class MetricRounds:
    """The rounds in which a metric was learned, `metric_results_`: see `LearnedMetric`."""

    alpha: Floats
    mean_loss: Floats  # of held-out rows, (rounds + 1, n_alphas)
    round: int
    best_alpha: float
    fold_loss: Floats  # of that round, (n_splits, n_alphas)
    held: Ints | None  # the rows held out, where they are one part of the sample


def learned_kernel(
    kernel: LearnedMetric, sample: TrainingSample, alphas: list[float], options: RidgeOptions
) -> tuple[Kernel, MetricRounds]:
    """Return a kernel in the metric learned from the sample, and the losses of held-out rows.

    Each round takes the best alpha. Words such as gamma="scale" are still to be resolved.
    """
    kernel.check()
    if np.isnan(np.asarray(sample.targets.first_rows(_LOOKED))).any():
        raise ValueError(_MISSING)
    seed, n, index = int(check_rng(options.random_state).integers(2**32)), len(sample.rows), None
    if n > kernel.max_rows and sample.rows.pool is None:  # of rows that come in order only, all
        index = np.sort(np.random.default_rng(seed).choice(n, kernel.max_rows, replace=False))
        rows, targets = (
            part.subset(index).gathered(len(index)).in_memory()
            for part in (sample.rows, sample.targets)
        )
        weights = None if sample.weights is None else np.asarray(sample.weights[index])
        sample = TrainingSample(rows, targets, weights)
    if options.fit_intercept:  # targets far from zero would lose their last digits
        sample = replace(sample, origin=sample.rough_mean())
    learning = _Learning(kernel, sample, alphas, options, seed)
    with large_matrices_on(sample.rows.device):
        in_metric, metric = learning.chosen()
    if index is not None and metric.held is not None:
        metric = replace(metric, held=index[metric.held])
    return in_metric, metric


def search_after(
    metric: MetricRounds, sample: TrainingSample, alphas: list[float]
) -> tuple[AlphaSearch, Table | None]:
    """Return a search of the alphas that are left to choose from where a metric was learned.

    The rows held out from that choose: folds of the whole sample, which has taught the metric,
    flatter small alphas. If they are one part of rows on the host, they score the last fit, whose
    landmarks are more, by alphas near the best one of the rounds. If not, the choice of the rounds
    is final, and their table is returned too.
    """
    if metric.held is not None and sample.rows.device is None:
        train = np.setdiff1d(np.arange(len(sample.rows)), metric.held)
        ladder = sorted(alphas)
        best = ladder.index(metric.best_alpha)
        near = ladder[max(0, best - _BELOW) : best + _ABOVE + 1]
        return AlphaSearch(near, [(train, metric.held)]), None
    tried = np.flatnonzero(np.isfinite(metric.fold_loss[0]))
    table = least_loss([alphas[k] for k in tried], metric.fold_loss[:, tried]).results
    return AlphaSearch([metric.best_alpha]), table


@dataclass(frozen=True)
class _Round:
    """A metric W, the held-out loss of each alpha, and f = sum_j coef_j k(landmark_j, .)."""

    scale: Floats | None
    losses: Floats
    kernel: Kernel
    landmarks: Rows
    coef: Floats


@dataclass(frozen=True)
class _Learning:
    """Rounds on a sample: a fit in the metric so far, then the next metric from its gradients."""

    kernel: LearnedMetric
    sample: TrainingSample
    alphas: list[float]
    options: RidgeOptions
    seed: int

    def chosen(self) -> tuple[Mahalanobis, MetricRounds]:
        """Hold out rows, and return the kernel in the metric of the round that serves them best."""
        rows, weights = self.sample.rows, self.sample.weights
        n = len(rows)
        n_splits = min(_FOLDS, n, max(1, math.ceil(_ENOUGH / n)))
        splits = deal(min(_FOLDS, n), n, random_state=self.seed, first=n_splits)
        masks = [np.isin(np.arange(n), test) for _, test in splits]
        rounds = self._rounds(masks)
        losses = np.array([[fit.losses for fit in fits] for fits in rounds])  # round, split, alpha
        mean = losses.mean(axis=1)
        best, which = (int(k) for k in np.unravel_index(mean.argmin(), mean.shape))
        held = None
        if n_splits == 1 and rows.pool is None and (weights is None or np.any(weights[masks[0]])):
            held = np.flatnonzero(masks[0])  # one part of rows that can be read again
        alphas = np.array(self.alphas)
        metric = MetricRounds(alphas, mean, best, self.alphas[which], losses[best], held)
        scale = rounds[best][0].scale
        if n_splits > 1 and best > 0:
            # few rows: learn again from all of them, with the alphas that served best
            scale = None
            for k in mean[:best].argmin(axis=1):
                scale = self._metric(self._fit(scale, None, np.array([k])), None)
        return self.kernel.in_metric(scale), metric

    def _rounds(self, masks: list[np.ndarray]) -> list[list[_Round]]:
        """Return the fits of each round, one a split, until rounds do not help any more."""
        rounds: list[list[_Round]] = []
        means: list[Floats] = []
        order = np.argsort(np.argsort(self.alphas))
        bar = tqdm(range(self.kernel.rounds + 1), desc="metric", disable=not self.options.verbose)
        for number in bar:
            scales: list[Floats | None] = [None] * len(masks)
            tried = np.arange(len(order))
            if number:
                fits = zip(rounds[-1], masks, strict=True)
                scales = [self._metric(fit, held) for fit, held in fits]
                away = np.abs(order - order[means[-1].argmin()])  # from the best alpha so far
                tried = np.flatnonzero(away <= _NEAR)
            metrics = zip(scales, masks, strict=True)
            rounds.append([self._fit(scale, held, tried) for scale, held in metrics])
            means.append(np.mean([fit.losses for fit in rounds[-1]], axis=0))
            if number - np.argmin([mean.min() for mean in means]) >= _PATIENCE:
                break
        return rounds

    def _fit(self, scale: Floats | None, held: np.ndarray | None, tried: Ints) -> _Round:
        """Fit in a metric on the rows that are not held out, and score some alphas by the others.

        All rows are landmarks where they are few, on the host. The loss of alphas that are not
        tried is inf.
        """
        sample, rows, most = self.sample, self.sample.rows, self.kernel.landmarks
        on_host = rows.pool is None and rows.device is None
        is_exact = on_host and len(rows) <= (_EXACT if most is None else most)
        sketch = None
        if is_exact:
            sample = replace(sample, rows=Memory(rows.load()))
        else:  # the same landmarks in each metric
            sketch = SubSample(min(_LANDMARKS if most is None else most, len(rows)))
        rng, kernel = np.random.default_rng(self.seed), self.kernel.in_metric(scale)
        n_jobs = self.options.n_jobs
        span = span_of(kernel, sketch, sample.rows, rng, sample.weights, n_jobs=n_jobs)
        fit = self._exactly if is_exact else self._with_landmarks
        losses = np.full(len(self.alphas), np.inf)
        losses[tried], landmarks, coef = fit(span, sample, held, [self.alphas[k] for k in tried])
        return _Round(scale, losses, span.kernel, landmarks, coef)

    def _exactly(
        self, span: Span, sample: TrainingSample, held: np.ndarray | None, alphas: list[float]
    ) -> tuple[Floats, Rows, Floats]:
        """Return losses, landmarks and the coefficients of the best alpha.

        They are those of a fit by Cholesky factors of the kernel matrix of all rows.
        """
        origin = sample.origin
        T = np.asarray(sample.targets.load(), dtype=np.float64)
        T = T if origin is None else T - origin
        w = np.ones(len(T)) if sample.weights is None else sample.weights
        held = np.zeros(len(T), dtype=bool) if held is None else held
        train, test = np.flatnonzero(~held & (w > 0.0)), np.flatnonzero(held)
        options = RidgeOptions(self.options.fit_intercept, n_jobs=self.options.n_jobs)
        problem = RidgeProblem(span, sample, options, AlphaSearch(alphas))
        system = GramSystem.of(problem, Decision("gram", "direct", "a metric is learned"))
        used, fits, F = system.fits_and_path(alphas, train, test, T)
        losses = np.zeros(len(alphas))
        if w[held].any():
            losses = np.array([mean_square(T[test], predicted, w[test]) for predicted in F])
        coef = fits[int(losses.argmin())][0]
        if coef.shape[1] > _OUTPUTS:
            assert system.K is not None
            fitted = system.K[np.ix_(used, used)] @ coef
            coef = _few_outputs(coef, fitted.T @ fitted, self.seed)
        return losses, take(span.landmarks, used), coef

    def _with_landmarks(
        self, span: Span, sample: TrainingSample, held: np.ndarray | None, alphas: list[float]
    ) -> tuple[Floats, Rows, Floats]:
        """Return what `_exactly` does for a fit with a few landmarks, by a pass over the rows."""
        engine, known_rows = span.factorized
        known_rows = known_rows if span.rows is sample.rows else None
        if held is not None:
            sample = replace(sample, groups=held.astype(int), n_groups=2)
        moments = engine.moments(sample, min(alphas), known_rows=known_rows)
        if not isinstance(moments[0], Moments) or not isinstance(moments[-1], Moments):
            raise ValueError(_MISSING)
        roles = np.array([[TRAIN], [TEST]][: len(moments)])
        folds = FoldMoments(moments, roles, self.options.fit_intercept)
        fits, losses = folds.fits(alphas, 0), np.zeros(len(alphas))
        if held is not None:
            losses = np.array(folds.losses(alphas, 0, fits))
        coef = fits[int(losses.argmin())][0]
        coef = _few_outputs(coef, coef.T @ moments[0].zz @ coef, self.seed)
        return losses, engine.landmarks, engine.on_features(coef)

    def _metric(self, fit: _Round, held: np.ndarray | None) -> Floats:
        """Return the next W, with W'W = M, the average gradient outer product; its trace is d."""
        rows, W, flat = self.sample.rows, fit.scale, self.kernel.diagonal
        d = rows.shape[1]
        if flat is None:  # many columns, or a kernel that adds up features
            adds = getattr(self.kernel._part("kernel"), "adds_features", False)
            flat = hasattr(rows.like, "indptr") or d > _MATRIX or adds
        products = GradientProducts(fit.kernel, fit.landmarks, fit.coef, diagonal=flat)
        S = rows.reduce(products, self.sample.weights, held, n_jobs=self.options.n_jobs)
        if flat:
            M = S if W is None else S * W**2
            return np.sqrt(M * (d / M.sum())) if M.sum() > 0.0 else np.ones(d)
        M = S if W is None else W.T @ S @ W
        values, vectors = symmetric_eigen(0.5 * (M + M.T))
        values = np.maximum(values, 0.0)
        if values.sum() == 0.0:  # a constant function
            return np.eye(d)
        root: Floats = (vectors * np.sqrt(values * (d / values.sum()))) @ vectors.T
        return root


def _few_outputs(coef: Floats, products: Floats, seed: int) -> Floats:
    """Return coefficients of at most _OUTPUTS functions with the same gradient outer products.

    `products` are those of the outputs' predictions, F'F.

    Rotating the outputs changes nothing in the sum over them. The leading directions of the
    predictions are kept; the others are mixed at random, R with E[R R'] = I.
    """
    if coef.shape[1] <= _OUTPUTS:
        return coef
    _, directions = symmetric_eigen(products)  # the largest first
    rotated = coef @ directions
    rest = rotated[:, _LEADING:]
    R = np.random.default_rng(seed).standard_normal((rest.shape[1], _MIXED)) / np.sqrt(_MIXED)
    return np.column_stack([rotated[:, :_LEADING], rest @ R])


@dataclass(eq=False)
class GradientProducts(Reduction[Any]):
    """mean_i sum_q grad f_q(x_i) grad f_q(x_i)', where f_q(x) = sum_j coef_jq k(x, landmark_j).

    For a `Mahalanobis` the gradients are with respect to W x. `diagonal` makes only the diagonal of
    the matrix.
    """

    kernel: Kernel
    landmarks: Rows
    coef: Array
    diagonal: bool = False
    __getstate__ = lasting

    def __post_init__(self) -> None:
        m, q = self.coef.shape
        self.width: int = 3 * m + 3 * q * (self.landmarks.shape[1] + 1)

    @functools.cached_property
    def _gradients(self) -> Callable[[Array], Array]:
        gradients: Callable[[Array], Array] = self.kernel.gradients(self.landmarks, self.coef)
        return gradients

    def on(self, place: Place) -> GradientProducts:
        landmarks = to_device(self.landmarks, place.device, place.dtype)
        coef = place.moved(self.coef)
        return GradientProducts(self.kernel, landmarks, coef, diagonal=self.diagonal)

    def __call__(
        self, rows: Any, weights: Array | None = None, held: Array | None = None
    ) -> tuple[Array, float]:
        G = self._gradients(cast(rows, float_dtype(self.landmarks)))  # (b, q, d)
        b, q, d = G.shape
        shares = G[:, 0, 0] * 0.0 + 1.0 if weights is None else cast(weights, G.dtype)
        if held is not None:
            shares = shares * cast(~held, G.dtype)
        G = G * namespace(G).sqrt(shares)[:, None, None]
        G = G.reshape(b * q, d)
        products = (G * G).sum(axis=0) if self.diagonal else G.T @ G
        return cast(products, np.float64), float(shares.sum())

    def combine(self, total: Any, part: Any) -> Any:
        return part if total is None else (total[0] + part[0], total[1] + part[1])

    def finish(self, total: Any) -> Floats:
        products, weight = total
        mean: Floats = numpy_of(products) / weight
        return mean
