"""The importance of input columns: what the score of a model loses where one is shuffled."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from skout.dev import n_rows, no_frames, take

from ..tables.frames import is_frame, names_in
from .using import SavedModel

# The most rows and columns that are shuffled, how often, and seconds after which no other is.
_ROWS, _COLUMNS, _REPEATS, _SECONDS = 1000, 50, 3, 60.0


@dataclass(frozen=True)
class ImportanceLoss:
    """The loss of score where a column is shuffled, and its deviation over repeats."""

    column: str
    loss: float
    deviation: float


@dataclass(frozen=True)
class Importance:
    """The losses of shuffled columns, the largest first."""

    rows: int  # that were predicted
    columns: int  # of the inputs, of which many are not shuffled
    losses: list[ImportanceLoss] = field(default_factory=list)


def importances(
    saved: SavedModel,
    X: Any,
    truth: Any,
    predicted: Any,
    candidates: Any = None,
    seconds: float = _SECONDS,
    repeats: int = _REPEATS,
) -> Importance:
    """Return how much worse the main metric gets where an input column in use is shuffled."""
    n = n_rows(truth)
    sample = np.unique(np.linspace(0, n - 1, min(n, _ROWS)).round().astype(int))
    X, truth = take(X, sample), take(truth, sample)
    names = saved.inputs.columns
    used = getattr(getattr(saved.model, "encoder_", None), "kinds_", names)
    importance = Importance(len(sample), sum(name in used for name in names))
    if len(sample) < 2:
        return importance
    best = saved.scores(truth, take(predicted, sample)).merit
    rng, start = np.random.default_rng(0), time.perf_counter()
    orders = [rng.permutation(len(sample)) for _ in range(repeats)]
    for j in _chosen(X, names, used):
        scores = []
        for order in orders:
            with no_frames():
                pred = saved.predict(_shuffled(X, j, order), candidates)
            scores.append(best - saved.scores(truth, pred).merit)
        importance.losses.append(
            ImportanceLoss(names[j], float(np.mean(scores)), float(np.std(scores, ddof=1)))
        )
        if time.perf_counter() - start > seconds:
            break
    importance.losses.sort(key=lambda shuffled: -shuffled.loss)
    return importance


def _chosen(X: Any, names: Collection[str], used: Collection[str]) -> list[int]:
    """Return the columns to shuffle: of many those that vary most, or the first of a table."""
    if len(names) <= _COLUMNS or is_frame(X):
        return [j for j, name in enumerate(names) if name in used][:_COLUMNS]
    values = X.astype(float)
    if sparse.issparse(values):
        mean = np.asarray(values.mean(axis=0)).ravel()
        spread = np.asarray(values.multiply(values).mean(axis=0)).ravel() - mean**2
    else:
        spread = np.nanvar(values, axis=0)
    return sorted(map(int, np.argsort(-spread, kind="stable")[:_COLUMNS]))


def _shuffled(X: Any, j: int, order: np.ndarray) -> Any:
    """Return the inputs with one column in another order."""
    if is_frame(X):
        return _shuffled_frame(X, names_in(X)[j], order)
    if len(getattr(X, "shape", ())) != 2:  # objects, which are one column
        return take(X, order)
    if sparse.issparse(X):
        X = X.tocsc()
        return sparse.hstack([X[:, :j], X[:, [j]][order], X[:, j + 1 :]], format="csr")
    changed = np.array(X)
    changed[:, j] = changed[order, j]
    return changed


def _shuffled_frame(X: Any, name: Any, order: np.ndarray) -> Any:
    if isinstance(X, Mapping):
        return {**X, name: take(X[name], order)}
    if hasattr(X, "iloc"):  # pandas
        changed = X.copy()
        changed[name] = X[name].iloc[order].array
        return changed
    if hasattr(X, "with_columns"):  # polars
        return X.with_columns(X[name][order])
    return X.set_column(X.column_names.index(name), name, X[name].take(order))  # pyarrow
