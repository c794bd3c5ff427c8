"""Predictions as data frames: of pandas with the index of X, or of polars."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

from .arrays import take

__all__ = ["in_frames"]


def in_frames(
    container: str,
    method: Callable[..., Any],
    model: Any,
    X: Any,
    *args: Any,
    **params: Any,
) -> Any:
    """Return what a method of a model predicts for X in frames, of pandas or of polars."""
    index = X.index if hasattr(X, "iloc") else None
    if method.__name__ == "rank":
        columns = _ranked(model, method, X, *args, **params)
        return _frame(columns, container, index, repeated="row")
    found = method(model, X, *args, **params)
    if hasattr(found, "indptr") and hasattr(found, "pool"):
        return _frame(_set_columns(model, found), container, index, repeated="row")
    if isinstance(found, tuple):
        return tuple(_frame(_columns(model, one, method), container, index) for one in found)
    return _frame(_columns(model, found, method), container, index)


def _columns(model: Any, found: Any, method: Callable[..., Any]) -> dict[str, Any]:
    """Return predictions as columns by their names."""
    if sparse.issparse(found):
        found = found.toarray()
    values = np.asarray(found) if hasattr(found, "shape") else _objects(found)
    if values.ndim > 2:
        raise ValueError(f"Predictions of shape {values.shape} are no table: use set_output().")
    if values.ndim == 1:
        values = values[:, None]
    names = _names(model, values.shape[1], method)
    return {name: values[:, j] for j, name in enumerate(names)}


def _objects(found: Any) -> np.ndarray:
    out = np.empty(len(found), dtype=object)
    out[:] = list(found)
    return out


def _names(model: Any, width: int, method: Callable[..., Any]) -> list[str]:
    """Return names of columns: classes, those of the targets, levels of quantiles, or y0, y1."""
    if method.__name__ == "predict_proba" and hasattr(model, "classes_"):
        return [str(one) for one in model.classes_]
    known = getattr(model, "target_names_", None) or []
    if len(known) == width:
        return list(known)
    base = known[0] if len(known) == 1 else "y"
    if width == 1:
        return [base]
    levels = getattr(model, "quantiles_", None)
    if levels is not None and len(levels) == width:
        return [f"{base}: {level:g}" for level in levels]
    return [f"{base}{j}" for j in range(width)]


def _ranked(
    model: Any,
    method: Callable[..., Any],
    X: Any,
    candidates: Any = None,
    *args: Any,
    **params: Any,
) -> dict[str, np.ndarray]:
    """Return one row for each candidate of each query: its row, rank, position, itself, score."""
    searcher = model if hasattr(model, "embed") else getattr(model, "searcher_", None)
    embed = getattr(searcher, "embed", None)
    if embed is not None and candidates is not None:  # once, and what they are is known then
        candidates = embed(candidates)
    found = method(model, X, candidates, *args, **params)
    indices, scores = (np.asarray(one) for one in found)
    row, rank = np.nonzero(indices >= 0)  # shorter sets are padded with -1
    place = indices[row, rank]
    columns = {"row": row, "rank": rank + 1, "position": place}
    if embed is not None:
        pools = embed(None) if candidates is None else candidates
        pool = getattr(pools, "parts", [pools])[0]  # an ensemble embeds for each member
        at = pool.objects.indices[pool.objects.indptr[row] + place] if pool.is_per_query else place
        columns |= _candidates(model, take(pool.pool, at))
    return columns | {"score": scores[row, rank]}


def _set_columns(model: Any, sets: Any) -> dict[str, np.ndarray]:
    """Return one row for each member of each set: its row, rank, position in the pool, itself."""
    sizes, place = np.diff(sets.indptr), np.asarray(sets.indices)
    rank = np.arange(len(place)) - np.repeat(sets.indptr[:-1], sizes)
    row = np.repeat(np.arange(len(sizes)), sizes)
    own = _candidates(model, take(sets.pool, place))
    return {"row": row, "rank": rank + 1, "position": place, **own}


def _candidates(model: Any, objects: Any) -> dict[str, np.ndarray]:
    """Return candidates as a column, or as one for each column of theirs; {} if neither will do."""
    if isinstance(objects, list | tuple):
        return {"candidate": _objects(objects)}
    values = objects.toarray() if sparse.issparse(objects) else objects
    values = values.to_numpy() if hasattr(values, "to_numpy") else values
    if not isinstance(values, np.ndarray) or values.ndim > 2:
        return {}
    if values.ndim == 1:
        return {"candidate": values}
    inside = getattr(model, "model", None)  # of prediction sets
    known = getattr(model, "target_names_", None) or getattr(inside, "target_names_", None) or []
    names = known if len(known) == values.shape[1] else range(values.shape[1])
    return {f"candidate: {name}": values[:, j] for j, name in enumerate(names)}


def _frame(columns: dict[str, Any], container: str, index: Any, repeated: str = "") -> Any:
    """Return a frame; in one of pandas the index stands for the numbers of rows."""
    try:
        library = import_module(container)
    except ImportError as error:
        raise ImportError(
            f'set_output(predict="{container}") needs {container}: pip install {container}'
        ) from error
    if container == "polars":
        return library.DataFrame({name: _for_polars(values) for name, values in columns.items()})
    if repeated:
        rows = columns.pop(repeated)
        index = rows if index is None else index[rows]
        found = library.DataFrame(columns, index=index)
        found.index.name = found.index.name or repeated
        return found
    return library.DataFrame(columns, index=index)


def _for_polars(values: np.ndarray) -> Any:
    return values.tolist() if values.dtype == object else values
