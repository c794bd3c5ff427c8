"""Which sketch sizes score best within a time budget?"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ShuffleSplit, check_cv, cross_validate
from tqdm.auto import tqdm

from .._numerics.arrays import n_rows
from .._numerics.validation import check_number, check_rng
from ..rows.encode import named
from ..sketches import Sketch, as_sketch
from .common import axes, trials

__all__ = ["SketchSizeSearch", "sketch_size_search"]


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
    model: Any,
    X: Any,
    Y: Any,
    sizes: Iterable[int | Sequence[int]],
    budget_seconds: float | None = None,
    *,
    fit_seconds: float | None = None,
    predict_seconds: float | None = None,
    cv: Any = None,
    scoring: Any = None,
    random_state: Any = None,
    verbose: bool = False,
) -> SketchSizeSearch:
    """Raise the sketch sizes of a model as long as it keeps to its time budgets (section 4.5).

    Sizes are tried from small to large, each on the same held-out rows. Once a model takes longer
    than a budget allows, sizes that are as large on every side are not tried.

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
    fit_seconds, predict_seconds : float, optional
        Most seconds to fit (T_tr) and to predict the held-out rows (T_inf), each for itself.
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
    budgets = _budgets(
        budget_seconds=budget_seconds, fit_seconds=fit_seconds, predict_seconds=predict_seconds
    )
    if not hasattr(model, "get_params"):
        raise TypeError(f"model must be an estimator with a sketch. Got {model!r} instead.")
    sketches = _sketches(model)
    planned = trials(sizes, list(sketches))
    if cv is None:
        seed = int(check_rng(random_state).integers(2**31))
        cv = ShuffleSplit(1, test_size=0.2, random_state=seed)
    with named("cv"):
        cv = check_cv(cv, Y, classifier=is_classifier(model))
        splits = list(cv.split(np.zeros((n_rows(X), 1)), Y))
    model = clone(model).set_params(**sketches)
    found: dict[tuple[int, ...], dict[str, Any]] = {}
    for trial in tqdm(planned, disable=not verbose):
        slow = [other for other, record in found.items() if not record["within_budget"]]
        if any(np.greater_equal(trial, other).all() for other in slow):
            continue
        sized = {f"{name}__size": m for name, m in zip(sketches, trial, strict=True)}
        result = cross_validate(
            clone(model).set_params(**sized), X, Y, cv=splits, scoring=scoring, error_score="raise"
        )
        found[trial] = sized | _measured(result, budgets)
    records = list(found.values())
    table = {name: np.array([record[name] for record in records]) for name in records[0]}
    best = list(found)[_best(table, budgets)]
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
    """Return the trial of the best score within the budgets; if none is, warn: the fastest."""
    if table["within_budget"].any():
        return int(np.argmax(np.where(table["within_budget"], table["mean_score"], -np.inf)))
    limits = ", ".join(f"{name}={s:g}" for name, s in budgets.items() if np.isfinite(s))
    message = f"No sketch size keeps to {limits}: try smaller sizes."
    warnings.warn(message, UserWarning, stacklevel=3)
    return int(np.argmin(table["fit_seconds"] + table["predict_seconds"]))


def _budgets(**given: float | None) -> dict[str, float]:
    """Return the seconds allowed, infinitely many where none are given."""
    return {
        name: np.inf if value is None else float(check_number(value, name))
        for name, value in given.items()
    }


def _sketches(model: Any) -> dict[str, Any]:
    """Return copies of the sketches of a model by their parameters, that of the outputs last."""
    params = model.get_params(deep=True)
    names = [name for name in params if name.split("__")[-1] == "sketch" and params[name]]
    if not names:
        raise ValueError(f'{model!r} has no sketch to size: give it one, e.g. "subsample".')
    names = sorted(names, key=lambda name: name.startswith("output_basis__"))
    return {name: clone(as_sketch(params[name])) for name in names}
