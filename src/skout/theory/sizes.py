"""Sketch sizes from a tolerance, from a perfect surrogate, or from a time budget.

Every result has `plot(ax=None)`, which returns the axes and needs matplotlib, skout[plot].
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import ShuffleSplit, cross_validate
from tqdm import tqdm

from .._numerics.arrays import n_rows, take, unique
from .._numerics.extras import axes
from .._numerics.objects import stack
from .._numerics.typing import Axes, Objects, RandomState, Rng, Rows
from .._numerics.validation import check_level, check_number, check_rng, check_size, resolve
from ..basis import KernelBasis
from ..basis.features import KernelMatrix
from ..decoding import CandidateDecoder
from ..kernels import Kernel, as_kernel
from ..kernels.base import KernelLike
from ..kinds.scoring import metrics, score_objects
from ..metrics import mean_reciprocal_rank
from ..sketches import PivotedCholesky, Sketch, SketchLike, as_sketch
from ..solvers.folds import CV, deal
from .leverage import coordinates
from .spectra import encoded

_MAX_SIZE = 2000  # of `choose_sketch_size` by default, as that of sketches


# A tolerance on the reconstruction error ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SketchSize:
    """A sketch size, usable as an int; errors[m] is the relative error of the first m landmarks."""

    size: int
    tolerance: float
    errors: np.ndarray = field(repr=False)

    def __int__(self) -> int:
        return self.size

    __index__ = __int__

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the relative error against the size, in logarithm."""
        ax = axes(ax, "sketch size", "relative reconstruction error")
        ax.semilogy(np.arange(len(self.errors)), np.maximum(self.errors, np.finfo(float).eps))
        ax.axhline(self.tolerance, linestyle=":")
        ax.axvline(self.size, linestyle=":")
        return ax


def choose_sketch_size(
    kernel: KernelLike,
    Z: Objects,
    tolerance: float = 0.01,
    *,
    max_size: int | None = None,
    random_state: RandomState = None,
) -> SketchSize:
    """Find a sketch size from a tolerance on the reconstruction error.

        error(m) = sum_i (k(z_i, z_i) - ||coordinates of z_i||^2) / sum_i k(z_i, z_i) <= tolerance

    Randomly pivoted Cholesky finds landmarks enough. They are then put in an order, each the one
    that those before it explain least, and the first m that keep to the tolerance are counted.
    Uniform sub-sampling may need more where some objects are rare.

    Parameters
    ----------
    kernel : kernel, str or callable
        Widths such as gamma="scale" are resolved on Z.
    Z : array, CSR matrix or objects that the kernel encodes, n of them
        The objects to sketch: inputs, or outputs.
    tolerance : float in (0, 1), default 0.01
        Largest relative error; a smaller one needs a larger sketch.
    max_size : int, optional
        Default 2000. A warning says when it is not enough.
    random_state : None, int or Generator, default None
        Seed of the pivots.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.theory import choose_sketch_size
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.standard_normal((300, 5)) @ rng.standard_normal((5, 40))
    >>> int(choose_sketch_size("linear", Z, tolerance=1e-6, random_state=0))
    5
    """
    tolerance = check_level(tolerance, "tolerance")
    rng = check_rng(random_state)
    kernel, rows = encoded(kernel, Z, rng)
    n = n_rows(rows)
    most = min(_MAX_SIZE, n) if max_size is None else check_size(max_size, n, "max_size")
    trace = KernelMatrix(kernel, rows).diag().sum()
    # of many rows the sketch samples max_rows, and landmarks that are enough for these may not be
    # for all: then a lower tolerance on the sample is tried
    for share in (1.0, 0.7, 0.4):
        sketch = PivotedCholesky(most, tol=share * tolerance)
        basis = KernelBasis(kernel, sketch, random_state=rng).fit(rows)
        explained = sum(np.square(B).sum(axis=0) for B in coordinates(basis, rows))
        errors = np.maximum(1.0 - np.append(0.0, np.cumsum(explained)) / trace, 0.0)
        if errors[-1] <= tolerance or basis.rank_ >= most:
            break
    if errors[-1] > tolerance:
        left = f"{basis.rank_} landmarks leave a relative error of {errors[-1]:.3g} > {tolerance:g}"
        warnings.warn(f"{left}: raise max_size or tolerance.", UserWarning, stacklevel=2)
    return SketchSize(int(np.argmax(errors <= max(tolerance, errors[-1]))), tolerance, errors)


# A surrogate that predicts perfectly in the span of the sketch (5.20) -----------------------------


@dataclass(frozen=True, eq=False)
class PerfectHCurve:
    """Errors and scores of the projection on the sketched basis, for each sketch size.

    Attributes
    ----------
    table : dict of arrays
        "size", increasing; "mean_mse" and "std_mse" over the draws, of the mean over validation
        outputs of ||h(y) - psi(y)||^2 = k(y, y) - ||z(y)||^2; if decoded, "mean_similarity" and
        "std_similarity" of the mean normalized kernel similarity of decoded and true outputs, or
        "mean_score" and "std_score" of `metric`.
    mean_norm : float, the mean of k(y, y)
    """

    table: dict[str, np.ndarray]
    mean_norm: float

    @property
    def criterion(self) -> str:
        """The criterion of the best size: "score" or "similarity" if decoded, else "mse"."""
        return next(name for name in ("score", "similarity", "mse") if f"mean_{name}" in self.table)

    def best_size(self, tolerance: float = 0.01) -> int:
        """Return the smallest size within tolerance of the best score, or mse / mean_norm.

        Parameters
        ----------
        tolerance : float, default 0.01
        """
        check_number(tolerance, "tolerance")
        scale = 1.0 / (self.mean_norm or 1.0) if self.criterion == "mse" else -1.0
        loss = scale * self.table[f"mean_{self.criterion}"]
        return int(self.table["size"][np.argmax(loss <= loss.min() + tolerance)])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw mean and deviation of the criterion against the size (figure 5.2, center)."""
        ax = axes(ax, "sketch size", f"{self.criterion} of the perfect h")
        mean, std = (self.table[f"{part}_{self.criterion}"] for part in ("mean", "std"))
        ax.errorbar(self.table["size"], mean, std, marker="o", capsize=3)
        return ax


def perfect_h_curve(
    kernel: KernelLike,
    Y: Objects,
    sizes: Iterable[int],
    *,
    Y_val: Objects | None = None,
    candidates: Objects | None = None,
    decode: bool = True,
    metric: str | Callable[[Objects, Objects], float] = "similarity",
    sketch: SketchLike = "subsample",
    n_draws: int = 3,
    random_state: RandomState = None,
    verbose: bool = False,
) -> PerfectHCurve:
    """Score output sketches by the surrogate that predicts perfectly in their span (5.20).

        h(y) = sum_j <e_j, psi(y)> e_j       the projection of psi(y) on the sketched basis

    No regressor into that basis comes nearer to psi(y), and none has to be trained: the curve says
    from which size on the sketch loses little. The mean squared error is a lower bound of what any
    regressor reaches. The similarity of decoded outputs is no upper bound: a prediction that is
    farther from psi(y) may still be nearest to y among the candidates.

    Parameters
    ----------
    kernel : kernel, str or callable
        The output kernel.
    Y : objects
        Training outputs, which the sketches are drawn from.
    sizes : sequence of int
        The sketch sizes to compare.
    Y_val : objects, optional
        Validation outputs; default a random fifth of Y, which is then held out.
    candidates : objects, optional
        Pool to decode from; default the distinct outputs of Y and Y_val.
    decode : bool, default True
        Whether to decode, which may cost more than all the rest.
    metric : str or callable (Y_true, Y_pred) -> float, default "similarity"
        What decoded outputs are scored by, the greater the better: the normalized kernel
        similarity; "mrr", the mean reciprocal rank of the truth among the candidates (figure 5.5);
        a name that `scoring` of a predictor takes; or a function, e.g. minus the mean edit
        distance (figure 5.3).
    sketch : sketch or str, default "subsample"
        Its size is set to each of `sizes`.
    n_draws : int, default 3
        Sketches drawn for each size.
    random_state : None, int or Generator, default None
        Seed of the held-out part and of the draws.
    verbose : bool, default False
        Whether to show a progress bar.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.theory import perfect_h_curve
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 30))  # a space of 4 dimensions
    >>> perfect_h_curve("linear", Y, [1, 2, 3, 4, 8, 16], random_state=0).best_size()
    4
    """
    if sketch is None:
        raise ValueError("sketch must be a sketch or its name, since its size is varied. Got None.")
    sized: Any = clone(as_sketch(sketch))
    n_draws = _positive(n_draws, "n_draws")
    rng = check_rng(random_state)
    resolved, Y, Y_val, train, held = _outputs(kernel, Y, Y_val, rng)
    grid = sorted({check_size(m, n_rows(train), "sizes") for [m] in _trials(sizes, ["sketch"])})
    name = "similarity" if metric == "similarity" else "score"
    scores: dict[str, list[float]] = {"mse": []}
    if decode:
        score = _scorer(metric, resolved, train, Y_val, _pool(resolved, Y, Y_val, candidates))
        scores[name] = []
    seeds = rng.integers(2**31, size=n_draws)  # of the draws, the same ones for each size
    for size, seed in tqdm([(m, s) for m in grid for s in seeds], disable=not verbose):
        sized.set_params(size=size)
        basis = KernelBasis(resolved, sized, random_state=int(seed)).fit(train)
        scores["mse"].append(basis.residual(held).mean())
        if decode:
            scores[name].append(score(basis, basis.transform(held)))
    table = {"size": np.array(grid)}
    for name in scores:
        draws = np.reshape(scores[name], (len(grid), n_draws))
        table |= {f"mean_{name}": draws.mean(axis=1), f"std_{name}": draws.std(axis=1)}
    return PerfectHCurve(table, float(resolved.diag(held).mean()))


def _scorer(
    metric: str | Callable[[Objects, Objects], float],
    kernel: Kernel,
    train: Rows,
    truth: Objects,
    pool: Objects,
) -> Callable[[KernelBasis, np.ndarray], float]:
    """Return the function from a basis and coordinates to the score of what they decode to."""
    if metric != "mrr" and not callable(metric):
        metric = "kernel" if metric == "similarity" else metric
        resolve(metric, metrics(), "metric")

    def score(basis: KernelBasis, F: np.ndarray) -> float:
        decoder = CandidateDecoder().fit(basis, pool)
        if metric == "mrr":
            return mean_reciprocal_rank(decoder.truth_ranks(F, truth))
        return score_objects(metric, kernel, train, truth, decoder.decode(F))

    return score


def _pool(kernel: Kernel, Y: Objects, Y_val: Objects, candidates: Objects | None) -> Objects:
    """Return the distinct objects to decode from: by default all there are."""
    if candidates is not None:
        return take(candidates, unique(kernel.encode(candidates))[0])
    rows = [kernel.encode(Y), kernel.encode(Y_val)]
    first, n = unique(stack(rows))[0], n_rows(rows[0])
    parts: list[Any] = [take(Y, first[first < n]), take(Y_val, first[first >= n] - n)]
    return [*parts[0], *parts[1]] if isinstance(Y, list | tuple) else stack(parts)


def _outputs(kernel: KernelLike, Y: Objects, Y_val: Objects | None, rng: Rng) -> tuple[Any, ...]:
    """Return the kernel, resolved on the training outputs, and both parts: objects, then rows."""
    train = as_kernel(kernel).encode(Y)
    if Y_val is None:
        order, n_val = rng.permutation(n_rows(train)), max(1, n_rows(train) // 5)
        used, rest = np.sort(order[n_val:]), np.sort(order[:n_val])
        Y, Y_val, train = take(Y, used), take(Y, rest), take(train, used)
    held = as_kernel(kernel).encode(Y_val)
    if 0 in (n_rows(train), n_rows(held)):
        raise ValueError("There must be at least one training and one validation output.")
    kernel, train = encoded(kernel, train, rng, "Y")
    return kernel, Y, Y_val, train, held


# A time budget ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SketchSizeSearch:
    """Scores and times of the sketch sizes that were tried.

    Attributes
    ----------
    table : dict of arrays, in the order of the trials
        The sizes, e.g. "regressor__sketch__size"; "mean_score" and "std_score" over the splits;
        "fit_seconds"; "predict_seconds", which includes scoring; "within_budget".
    best_sizes_ : tuple of int
        Those of the best mean score within the budget; if none is, those of the fastest trial.
    best_params_ : dict
        The best sketches, for `model.set_params(**best_params_)`.
    budget_seconds : float
    """

    table: dict[str, np.ndarray]
    best_sizes_: tuple[int, ...]
    best_params_: dict[str, Sketch]
    budget_seconds: float

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the score against the seconds, each point with its sizes (figure 4.2, right)."""
        ax = axes(ax, "seconds to fit and predict", "score")
        mean, std = self.table["mean_score"], self.table["std_score"]
        seconds = self.table["fit_seconds"] + self.table["predict_seconds"]
        ax.errorbar(seconds, mean, std, marker="o", linestyle="", capsize=3)
        columns = [values for name, values in self.table.items() if name.endswith("size")]
        for x, y, *sizes in zip(seconds, mean, *columns, strict=True):
            ax.annotate(", ".join(map(str, sizes)), (x, y))
        if np.isfinite(self.budget_seconds):
            ax.axvline(self.budget_seconds, linestyle=":")
        return ax


def sketch_size_search(
    model: BaseEstimator,
    X: Objects,
    Y: Objects,
    sizes: Iterable[int | Sequence[int]],
    budget_seconds: float | None = None,
    *,
    fit_seconds: float | None = None,
    predict_seconds: float | None = None,
    cv: CV = None,
    scoring: str | Callable[..., float] | None = None,
    random_state: RandomState = None,
    verbose: bool = False,
) -> SketchSizeSearch:
    """Try growing sketch sizes of a model as long as it keeps to its time budgets (section 4.5).

    Sizes are tried from small to large, each on the same held-out rows. Once a model takes longer
    than a budget allows, sizes that are as large on every side are not tried.

    Parameters
    ----------
    model : estimator with sketches
        E.g. `sisokr(...)` or a KernelRidge with a sketch. It is cloned, not changed.
    X : what the model takes, n rows
        Inputs.
    Y : targets or objects, n of them
        Outputs.
    sizes : sequence of int or of tuples
        An int sets every sketch of the model, a pair (m_x, m_y) the input and the output sketch.
    budget_seconds : float, optional
        Most seconds that one model may take to fit and predict; default no limit.
    fit_seconds, predict_seconds : float, optional
        Most seconds to fit (T_tr) and to predict the held-out rows (T_inf), each for itself.
    cv : int, splitter or iterable of splits, optional
        A number deals the rows into so many folds at random, by `random_state`. Default one random
        fifth of the rows is held out.
    scoring : None, str or callable (model, X, Y) -> float, default None
        As in scikit-learn; None is the model's own `score`. Higher is better.
    random_state : None, int or Generator, default None
        Seed of the held-out part. The sketches follow the model's own.
    verbose : bool, default False
        Whether to show a progress bar.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelRidge
    >>> from skout.theory import sketch_size_search
    >>> X = np.random.default_rng(0).uniform(-3, 3, (300, 1))
    >>> model = KernelRidge("gaussian", "subsample", alpha=1e-6, random_state=0)
    >>> search = sketch_size_search(model, X, np.sin(2 * X[:, 0]), [2, 40], budget_seconds=60)
    >>> model.set_params(**search.best_params_).sketch
    SubSample(size=40)
    """
    budgets = _budgets(
        budget_seconds=budget_seconds, fit_seconds=fit_seconds, predict_seconds=predict_seconds
    )
    if not hasattr(model, "get_params"):
        raise TypeError(f"model must be an estimator with a sketch. Got {model!r} instead.")
    sketches = _sketches(model)
    planned = _trials(sizes, list(sketches))
    if cv is None:
        seed = int(check_rng(random_state).integers(2**31))
        cv = ShuffleSplit(1, test_size=0.2, random_state=seed)
    splits = deal(cv, n_rows(X), Y, random_state=random_state, stratified=is_classifier(model))
    model = clone(model).set_params(**sketches)
    tried: dict[tuple[int, ...], dict[str, Any]] = {}
    for trial in tqdm(planned, disable=not verbose):
        slow = [other for other, record in tried.items() if not record["within_budget"]]
        if any(np.greater_equal(trial, other).all() for other in slow):
            continue
        sized = {f"{name}__size": m for name, m in zip(sketches, trial, strict=True)}
        result = cross_validate(
            clone(model).set_params(**sized), X, Y, cv=splits, scoring=scoring, error_score="raise"
        )
        tried[trial] = sized | _measured(result, budgets)
    records = list(tried.values())
    table = {name: np.array([record[name] for record in records]) for name in records[0]}
    best = list(tried)[_best(table, budgets)]
    for sketch, m in zip(sketches.values(), best, strict=True):
        sketch.set_params(size=m)
    return SketchSizeSearch(table, best, sketches, budgets["budget_seconds"])


def _measured(result: dict[str, np.ndarray], budgets: dict[str, float]) -> dict[str, Any]:
    """Return scores and seconds of a trial, and whether they keep to the budgets."""
    fit, predict = result["fit_time"].mean(), result["score_time"].mean()
    spent = {"budget_seconds": fit + predict, "fit_seconds": fit, "predict_seconds": predict}
    return {
        "mean_score": result["test_score"].mean(),
        "std_score": result["test_score"].std(),
        "fit_seconds": fit,
        "predict_seconds": predict,
        "within_budget": all(spent[name] <= limit for name, limit in budgets.items()),
    }


def _best(table: dict[str, np.ndarray], budgets: dict[str, float]) -> int:
    """Return the trial of best score within the budgets, or, with a warning, the fastest of all."""
    if table["within_budget"].any():
        return int(np.argmax(np.where(table["within_budget"], table["mean_score"], -np.inf)))
    limits = ", ".join(f"{name}={s:g}" for name, s in budgets.items() if np.isfinite(s))
    message = f"No sketch size keeps to {limits}: try smaller sizes."
    warnings.warn(message, UserWarning, stacklevel=3)
    return int(np.argmin(table["fit_seconds"] + table["predict_seconds"]))


def _budgets(**limits: float | None) -> dict[str, float]:
    """Return the seconds allowed, infinity where there is no limit."""
    return {
        name: np.inf if value is None else float(check_number(value, name))
        for name, value in limits.items()
    }


def _sketches(model: BaseEstimator) -> dict[str, Any]:
    """Return copies of the sketches of a model by their parameters, that of the outputs last."""
    params = model.get_params(deep=True)
    names = [name for name in params if name.split("__")[-1] == "sketch" and params[name]]
    if not names:
        raise ValueError(f'{model!r} has no sketch to size: give it one, e.g. "subsample".')
    names = sorted(names, key=lambda name: name.startswith("output_basis__"))
    return {name: clone(as_sketch(params[name])) for name in names}


# What these share ---------------------------------------------------------------------------------


def _positive(value: int, name: str) -> int:
    return int(check_number(value, name, low=1, integer=True))


def _trials(sizes: Iterable[int | Sequence[int]], params: list[str]) -> list[tuple[int, ...]]:
    """Return distinct tuples, one size for each parameter, from small to large."""
    if not isinstance(sizes, Iterable):
        raise TypeError(f"sizes must be a list of sketch sizes. Got {sizes!r} instead.")
    trials = set()
    for size in sizes:
        trial = tuple(size) if isinstance(size, Iterable) else (size,) * len(params)
        if len(trial) != len(params):
            expected = f"ints or tuples of {len(params)}, the sizes of {', '.join(params)}"
            raise ValueError(f"sizes must be {expected}. Got {size!r} instead.")
        trials.add(tuple(_positive(m, "sizes") for m in trial))
    if not trials:
        raise ValueError("sizes must have at least one sketch size. Got none.")
    return sorted(trials, key=lambda trial: (sum(trial), trial))
