"""How large must a sketch be? Leverage scores, perfect surrogates, a tolerance or a time budget.

Every result has `plot(ax=None)`, which returns the axes and needs matplotlib, skout[plot].
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ShuffleSplit, check_cv, cross_validate
from tqdm.auto import tqdm

from ._arrays import n_rows, row_slices, stack, take, unique
from ._linalg import symmetric_eigen
from ._validation import check_number, check_rng, check_size
from .basis import KernelBasis
from .decoding import CandidateDecoder
from .gram import KernelMatrix
from .kernels import Kernel, as_kernel
from .metrics import kernel_similarity
from .sketches import PivotedCholesky, Sketch, SubSample, as_sketch, sketch_size

__all__ = ["choose_sketch_size", "leverage_scores", "perfect_h_curve", "sketch_size_search"]

_ROWS = 2**14  # whose coordinates are held at a time
_MAX_SIZE = 2000  # that `choose_sketch_size` tries by itself


def _axes(ax: Any, xlabel: str, ylabel: str) -> Any:
    """Return the axes to draw on, new ones by default."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install skout[plot]") from error
    ax = plt.subplots()[1] if ax is None else ax
    ax.set(xlabel=xlabel, ylabel=ylabel)
    return ax


def _count(value: Any, name: str) -> int:
    return int(check_number(value, name, low=1, integer=True))


def _encoded(kernel: Any, Z: Any, rng: np.random.Generator) -> tuple[Kernel, Any]:
    """Return the kernel, its widths resolved on Z, and the rows of Z."""
    kernel = as_kernel(kernel)
    rows = kernel.encode(Z)
    if n_rows(rows) == 0:
        raise ValueError("Found array with 0 sample(s): there must be at least one object.")
    return kernel.resolve(rows, rng), rows


def _coordinates(basis: KernelBasis, rows: Any) -> Iterator[np.ndarray]:
    """Yield the coordinates of all rows, some rows at a time, in float64."""
    for some in row_slices(n_rows(rows), _ROWS):
        yield basis.transform(take(rows, some)).astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class LeverageScores:
    """Ridge leverage scores, an array of shape (n,) to numpy; `n_pilot` = n if they are exact."""

    scores: np.ndarray
    alpha: float
    n_pilot: int

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.scores, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def effective_dimension(self) -> float:
        """The sum of the scores, Tr K (K + n alpha I)^-1: a rough size for a sketch."""
        return float(self.scores.sum())

    def plot(self, ax: Any = None, *, k: int = 400) -> Any:
        """Draw the k highest scores, largest first (figure 5.2, left)."""
        ax = _axes(ax, "rank", "leverage score")
        highest = np.sort(self.scores)[::-1][:k]
        ax.plot(np.arange(1, len(highest) + 1), highest)
        return ax


def leverage_scores(
    kernel: Any, Z: Any, alpha: float = 1e-4, n_pilot: int | None = None, random_state: Any = None
) -> LeverageScores:
    """Return the ridge leverage scores of objects, exact or approximate.

    The exact scores are diag K (K + n alpha I)^-1. Approximate ones put B B' in the place of K,
    its Nystrom approximation on a uniform pilot sample (Alaoui and Mahoney, 2015):

        l_i = b_i' (B'B + n alpha I)^-1 b_i      at most the exact score, since B B' <= K.

    Parameters
    ----------
    kernel : kernel, str or callable
    Z : array, CSR matrix or objects that the kernel encodes, n of them
    alpha : float > 0, default 1e-4
    n_pilot : int, optional
        Size of the pilot sample; default 10 sqrt(n), at most 2000. From n on the scores are exact.
    random_state : None, int or Generator

    Returns
    -------
    scores : LeverageScores

    Examples
    --------
    >>> import numpy as np
    >>> from skout.selection import leverage_scores
    >>> Z = np.repeat(np.eye(2), [9, 1], axis=0)  # nine objects alike and a single one
    >>> scores = leverage_scores("linear", Z, alpha=0.1)
    >>> np.asarray(scores)[[0, 9]]
    array([0.1, 0.5])
    """
    alpha = float(check_number(alpha, "alpha", strict=True))
    rng = check_rng(random_state)
    kernel, rows = _encoded(kernel, Z, rng)
    n = n_rows(rows)
    m = sketch_size(None, n) if n_pilot is None else min(n, _count(n_pilot, "n_pilot"))
    basis = KernelBasis(kernel, SubSample(m) if m < n else None, random_state=rng).fit(rows)
    gram = sum((B.T @ B for B in _coordinates(basis, rows)), np.zeros((basis.rank_,) * 2))
    values, vectors = symmetric_eigen(gram)
    whitening = vectors / np.sqrt(np.maximum(values, 0.0) + n * alpha)
    parts = [np.square(B @ whitening).sum(axis=1) for B in _coordinates(basis, rows)]
    return LeverageScores(np.minimum(np.concatenate(parts), 1.0), alpha, m)


@dataclass(frozen=True, eq=False)
class PerfectHCurve:
    """What a perfect surrogate reaches, for each sketch size.

    Attributes
    ----------
    table : dict of arrays
        "size", increasing; "mean_mse" and "std_mse" over the draws, of the mean over validation
        outputs of ||h(y) - psi(y)||^2 = k(y, y) - ||z(y)||^2; if decoded, "mean_similarity" and
        "std_similarity" of the mean normalised kernel similarity of decoded and true outputs.
    mean_norm : float, the mean of k(y, y)
    """

    table: dict[str, np.ndarray]
    mean_norm: float

    @property
    def criterion(self) -> str:
        """What sizes are judged by: "similarity" if there is one, else "mse"."""
        return "similarity" if "mean_similarity" in self.table else "mse"

    def best_size(self, tolerance: float = 0.01) -> int:
        """Return the smallest size within tolerance of the best similarity, or mse / mean_norm."""
        check_number(tolerance, "tolerance")
        scale = -1.0 if self.criterion == "similarity" else 1.0 / (self.mean_norm or 1.0)
        loss = scale * self.table[f"mean_{self.criterion}"]
        return int(self.table["size"][np.argmax(loss <= loss.min() + tolerance)])

    def plot(self, ax: Any = None) -> Any:
        """Draw mean and deviation of the criterion against the size (figure 5.2, centre)."""
        ax = _axes(ax, "sketch size", f"{self.criterion} of the perfect h")
        mean, std = (self.table[f"{part}_{self.criterion}"] for part in ("mean", "std"))
        ax.errorbar(self.table["size"], mean, std, marker="o", capsize=3)
        return ax


def perfect_h_curve(
    kernel: Any,
    Y: Any,
    sizes: Iterable[int],
    *,
    Y_val: Any = None,
    candidates: Any = None,
    decode: bool = True,
    sketch: Any = "subsample",
    n_draws: int = 3,
    random_state: Any = None,
    verbose: bool = False,
) -> PerfectHCurve:
    """Judge output sketches by the surrogate that predicts perfectly in their span (5.20).

        h(y) = sum_j <e_j, psi(y)> e_j       the projection of psi(y) on the sketched basis

    No regressor into that basis comes nearer to psi(y), and none has to be trained: the curve says
    from which size on the sketch loses nothing.

    Parameters
    ----------
    kernel : kernel, str or callable
    Y : objects
        Training outputs, which the sketches are drawn from.
    sizes : sequence of int
    Y_val : objects, optional
        Validation outputs; default a random fifth of Y, which is then held out.
    candidates : objects, optional
        Pool to decode from; default the distinct outputs of Y and Y_val.
    decode : bool, default True
        Whether to decode, which may cost more than all the rest.
    sketch : sketch or str, default "subsample"
        Its size is set to each of `sizes`.
    n_draws : int, default 3
        Sketches drawn for each size.
    random_state : None, int or Generator
    verbose : bool, default False

    Returns
    -------
    curve : PerfectHCurve

    Examples
    --------
    >>> import numpy as np
    >>> from skout.selection import perfect_h_curve
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 30))  # a space of 4 dimensions
    >>> perfect_h_curve("linear", Y, [1, 2, 3, 4, 8, 16], random_state=0).best_size()
    4
    """
    if sketch is None:
        raise ValueError("sketch must be a sketch or its name, since its size is varied. Got None.")
    sketch, n_draws = clone(as_sketch(sketch)), _count(n_draws, "n_draws")
    rng = check_rng(random_state)
    kernel, train, held = _outputs(kernel, Y, Y_val, rng)
    grid = sorted({check_size(m, n_rows(train), "sizes") for [m] in _trials(sizes, ["sketch"])})
    if decode:
        pool = stack([train, held]) if candidates is None else kernel.encode(candidates)
        pool = take(pool, unique(pool)[0])
    seeds = rng.integers(2**31, size=n_draws)  # of the draws, the same ones for each size
    found: dict[str, list[float]] = {"mse": [], "similarity": []}
    for size, seed in tqdm([(m, s) for m in grid for s in seeds], disable=not verbose):
        sketch.set_params(size=size)
        basis = KernelBasis(kernel, sketch, random_state=int(seed)).fit(train)
        found["mse"].append(basis.residual(held).mean())
        if decode:
            decoded = CandidateDecoder().fit(basis, pool).decode(basis.transform(held))
            found["similarity"].append(kernel_similarity(kernel, held, decoded))
    table = {"size": np.array(grid)}
    for name in found if decode else ["mse"]:
        draws = np.reshape(found[name], (len(grid), n_draws))
        table |= {f"mean_{name}": draws.mean(axis=1), f"std_{name}": draws.std(axis=1)}
    return PerfectHCurve(table, float(kernel.diag(held).mean()))


def _outputs(kernel: Any, Y: Any, Y_val: Any, rng: np.random.Generator) -> tuple[Kernel, Any, Any]:
    """Return the kernel, resolved on the training outputs, and training and validation rows."""
    train = as_kernel(kernel).encode(Y)
    if Y_val is not None:
        held = as_kernel(kernel).encode(Y_val)
    else:
        order, n_val = rng.permutation(n_rows(train)), max(1, n_rows(train) // 5)
        train, held = take(train, np.sort(order[n_val:])), take(train, np.sort(order[:n_val]))
    if 0 in (n_rows(train), n_rows(held)):
        raise ValueError("There must be at least one training and one validation output.")
    return *_encoded(kernel, train, rng), held


@dataclass(frozen=True, eq=False)
class SketchSize:
    """A sketch size, usable as an int; errors[m] is the relative error of the first m landmarks."""

    size: int
    tolerance: float
    errors: np.ndarray = field(repr=False)

    def __int__(self) -> int:
        return self.size

    __index__ = __int__

    def plot(self, ax: Any = None) -> Any:
        """Draw the relative error against the size, in logarithm."""
        ax = _axes(ax, "sketch size", "relative reconstruction error")
        ax.semilogy(np.arange(len(self.errors)), np.maximum(self.errors, np.finfo(float).eps))
        ax.axhline(self.tolerance, linestyle=":")
        ax.axvline(self.size, linestyle=":")
        return ax


def choose_sketch_size(
    kernel: Any,
    Z: Any,
    tolerance: float = 0.01,
    *,
    max_size: int | None = None,
    random_state: Any = None,
) -> SketchSize:
    """Find a sketch size from a tolerance on the reconstruction error.

        error(m) = sum_i (k(z_i, z_i) - ||coordinates of z_i||^2) / sum_i k(z_i, z_i) <= tolerance

    Randomly pivoted Cholesky finds landmarks enough. They are then put in an order, each the one
    that those before it explain least, and the first m that keep to the tolerance are counted.
    Uniform sub-sampling may need more where some objects are rare.

    Parameters
    ----------
    kernel : kernel, str or callable
    Z : array, CSR matrix or objects that the kernel encodes, n of them
    tolerance : float in (0, 1), default 0.01
    max_size : int, optional
        Default 2000. A warning says when it is not enough.
    random_state : None, int or Generator

    Returns
    -------
    size : SketchSize

    Examples
    --------
    >>> import numpy as np
    >>> from skout.selection import choose_sketch_size
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.standard_normal((300, 5)) @ rng.standard_normal((5, 40))
    >>> int(choose_sketch_size("linear", Z, tolerance=1e-6, random_state=0))
    5
    """
    tolerance = float(check_number(tolerance, "tolerance", strict=True))
    if tolerance >= 1:
        raise ValueError(f"tolerance must be a fraction, below 1. Got {tolerance!r} instead.")
    rng = check_rng(random_state)
    kernel, rows = _encoded(kernel, Z, rng)
    n = n_rows(rows)
    most = min(_MAX_SIZE, n) if max_size is None else check_size(max_size, n, "max_size")
    trace = KernelMatrix(kernel, rows).diag().sum()
    # of many rows the sketch looks at some only, and what is enough for them may not be for all
    for share in (1.0, 0.7, 0.4):
        sketch = PivotedCholesky(most, tol=share * tolerance)
        basis = KernelBasis(kernel, sketch, random_state=rng).fit(rows)
        explained = sum(np.square(B).sum(axis=0) for B in _coordinates(basis, rows))
        errors = np.maximum(1.0 - np.append(0.0, np.cumsum(explained)) / trace, 0.0)
        if errors[-1] <= tolerance or basis.rank_ >= most:
            break
    if errors[-1] > tolerance:
        left = f"{basis.rank_} landmarks leave a relative error of {errors[-1]:.3g} > {tolerance:g}"
        warnings.warn(f"{left}: raise max_size or tolerance.", UserWarning, stacklevel=2)
    return SketchSize(int(np.argmax(errors <= max(tolerance, errors[-1]))), tolerance, errors)


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

    def plot(self, ax: Any = None) -> Any:
        """Draw the score against the seconds, each point with its sizes (figure 4.2, right)."""
        ax = _axes(ax, "seconds to fit and predict", "score")
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
    model: Any,
    X: Any,
    Y: Any,
    sizes: Iterable[int | Sequence[int]],
    budget_seconds: float | None = None,
    *,
    cv: Any = None,
    scoring: Any = None,
    random_state: Any = None,
    verbose: bool = False,
) -> SketchSizeSearch:
    """Raise the sketch sizes of a model as long as it keeps to a time budget (section 4.5).

    Sizes are tried from small to large, each on the same held-out rows. Once a model takes longer
    than the budget to fit and predict, sizes that are as large on every side are not tried.

    Parameters
    ----------
    model : estimator with sketches
        E.g. `sisokr(...)` or a KernelRidge with a sketch. It is cloned, not changed.
    X : what the model takes, n rows
    Y : targets or objects, n of them
    sizes : sequence of int or of tuples
        An int sets every sketch of the model, a pair (m_x, m_y) the input and the output sketch.
    budget_seconds : float, optional
        Most seconds that one model may take to fit and predict; default no limit.
    cv : int, splitter or iterable of splits, optional
        Default one random fifth of the rows is held out.
    scoring : None, str or callable (model, X, Y) -> float, default None
        As in scikit-learn; None is the model's own `score`. Higher is better.
    random_state : None, int or Generator
        Seed of the held-out part. The sketches follow the model's own.
    verbose : bool, default False

    Returns
    -------
    search : SketchSizeSearch

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelRidge
    >>> from skout.selection import sketch_size_search
    >>> X = np.random.default_rng(0).uniform(-3, 3, (300, 1))
    >>> model = KernelRidge("gaussian", "subsample", alpha=1e-6, random_state=0)
    >>> search = sketch_size_search(model, X, np.sin(2 * X[:, 0]), [2, 40], budget_seconds=60)
    >>> model.set_params(**search.best_params_).sketch
    SubSample(size=40)
    """
    budget = np.inf if budget_seconds is None else check_number(budget_seconds, "budget_seconds")
    sketches = _sketches(model)
    trials = _trials(sizes, list(sketches))
    if cv is None:
        seed = int(check_rng(random_state).integers(2**31))
        cv = ShuffleSplit(1, test_size=0.2, random_state=seed)
    cv = check_cv(cv, Y, classifier=is_classifier(model))
    splits = list(cv.split(np.zeros((n_rows(X), 1)), Y))
    model = clone(model).set_params(**sketches)
    found: dict[tuple[int, ...], dict[str, Any]] = {}
    for trial in tqdm(trials, disable=not verbose):
        slow = [other for other, record in found.items() if not record["within_budget"]]
        if any(np.greater_equal(trial, other).all() for other in slow):
            continue
        sized = {f"{name}__size": m for name, m in zip(sketches, trial, strict=True)}
        result = cross_validate(
            clone(model).set_params(**sized), X, Y, cv=splits, scoring=scoring, error_score="raise"
        )
        fit, predict = result["fit_time"].mean(), result["score_time"].mean()
        found[trial] = sized | {
            "mean_score": result["test_score"].mean(),
            "std_score": result["test_score"].std(),
            "fit_seconds": fit,
            "predict_seconds": predict,
            "within_budget": fit + predict <= budget,
        }
    records = list(found.values())
    table = {name: np.array([record[name] for record in records]) for name in records[0]}
    goal = np.where(table["within_budget"], table["mean_score"], -np.inf)
    if not table["within_budget"].any():
        goal = -(table["fit_seconds"] + table["predict_seconds"])
        message = f"No sketch size keeps to budget_seconds={budget:g}: try smaller sizes."
        warnings.warn(message, UserWarning, stacklevel=2)
    best = list(found)[int(np.argmax(goal))]
    for sketch, m in zip(sketches.values(), best, strict=True):
        sketch.set_params(size=m)
    return SketchSizeSearch(table, best, sketches, float(budget))


def _sketches(model: Any) -> dict[str, Any]:
    """Return copies of the sketches of a model by their parameters, that of the outputs last."""
    params = model.get_params(deep=True)
    names = [name for name in params if name.split("__")[-1] == "sketch" and params[name]]
    if not names:
        raise ValueError(f'{model!r} has no sketch to size: give it one, e.g. "subsample".')
    names = sorted(names, key=lambda name: name.startswith("output_basis__"))
    return {name: clone(as_sketch(params[name])) for name in names}


def _trials(sizes: Iterable[Any], params: list[str]) -> list[tuple[int, ...]]:
    """Return distinct tuples, one size for each parameter, from small to large."""
    trials = set()
    for size in sizes:
        trial = (size,) * len(params) if isinstance(size, numbers.Number) else tuple(size)
        if len(trial) != len(params):
            expected = f"ints or tuples of {len(params)}, the sizes of {', '.join(params)}"
            raise ValueError(f"sizes must be {expected}. Got {size!r} instead.")
        trials.add(tuple(_count(m, "sizes") for m in trial))
    if not trials:
        raise ValueError("sizes must have at least one sketch size. Got none.")
    return sorted(trials, key=lambda trial: (sum(trial), trial))
