"""Predictions as data frames: of pandas with the index of X, or of polars, where asked for.

scikit-learn's `set_output(transform="pandas")` does so for what transformers return. `FramesOut`
does the same for predictors: `set_output(predict="pandas")`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.metaestimators import available_if

from .arrays import take

__all__ = ["FramesOut", "column_names", "no_frames"]

_CONTAINERS = ("default", "pandas", "polars")
# Methods whose results become frames, and those within which nothing does.
_WRAPPED = ("predict", "predict_interval", "predict_proba", "rank")
_PLAIN = ("calibrate", "evaluate", "fit", "partial_fit", "score", "truth_ranks", "tune")
# Whether a method of an estimator runs: what it calls gets arrays.
_inside: ContextVar[bool] = ContextVar("_inside", default=False)


_SCORE_DOC = """Score the predictions of X, as scikit-learn's `{}` does.

        Parameters
        ----------
        X : what `predict` takes, n rows
        y : targets of these rows
        sample_weight : array of shape (n,), optional

        Returns
        -------
        score : float
        """


@contextmanager
def no_frames() -> Iterator[None]:
    """Within the block, predictions are arrays and objects, as by default."""
    before = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(before)


def column_names(Y: Any) -> list[str] | None:
    """Return the names of the columns of a data frame, or the name of a series; None without.

    Examples
    --------
    >>> from skout._numerics.frames import column_names
    >>> column_names([[1, 2]]) is None
    True
    """
    names = getattr(Y, "column_names", None)  # of pyarrow
    if names is None and hasattr(Y, "shape"):
        names = getattr(Y, "columns", None)
    if names is None and hasattr(Y, "to_numpy") and getattr(Y, "name", None):
        names = [Y.name]
    return None if names is None or callable(names) else [str(name) for name in names]


class FramesOut:
    """Methods that predict give data frames, once `set_output(predict=...)` was called."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "predict"):
            return
        for names, wrap in ((_WRAPPED, _framed), (_PLAIN, _plain)):
            for name in names:
                method = inspect.getattr_static(cls, name, None)
                is_offered = hasattr(method, "check") and hasattr(method, "fn")  # by available_if
                function = method.fn if is_offered else method
                if not inspect.isfunction(function) or hasattr(function, "_is_wrapped"):
                    continue
                wrapped = wrap(function)
                setattr(cls, name, available_if(method.check)(wrapped) if is_offered else wrapped)

    @available_if(lambda self: hasattr(self, "predict"))
    def set_output(self, *, transform: str | None = None, predict: str | None = None) -> Self:
        """Say what predictions are given as.

        Parameters
        ----------
        transform : str, optional
            Of `transform`, as in scikit-learn; for estimators that have one.
        predict : {"default", "pandas", "polars"}, optional
            Of `predict`, `predict_proba`, `predict_interval` and `rank`: arrays and objects, or
            data frames. Columns have the names that the targets had in `fit`, and those of pandas
            the index of X. None leaves it as it is.

        Returns
        -------
        self : estimator
        """
        asked = {"transform": transform, "predict": predict}
        for name, value in asked.items():
            if value is not None and value not in _CONTAINERS:
                raise ValueError(
                    f"{name} must be one of {', '.join(map(repr, _CONTAINERS))}. Got {value!r}."
                )
        given = {name: value for name, value in asked.items() if value is not None}
        self._sklearn_output_config = {**getattr(self, "_sklearn_output_config", {}), **given}
        return self


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method work with arrays; one that fits notes the names of targets."""
    fits = method.__name__ in ("fit", "partial_fit")

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **params: Any) -> Any:
        with no_frames():
            found = method(self, *args, **params)
        if fits and not _inside.get():
            Y = args[1] if len(args) > 1 else params.get("Y", params.get("y"))
            names = column_names(Y)
            if names is not None:
                self.target_names_ = names
            elif method.__name__ == "fit":
                vars(self).pop("target_names_", None)
        return found

    if method.__module__.startswith("sklearn."):  # whose docstring refers to its own pages
        wrapped.__doc__ = _SCORE_DOC.format(method.__qualname__)
    wrapped._is_wrapped = True  # type: ignore[attr-defined]
    return wrapped


def _framed(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method return frames, if they are asked for and nobody inside needs arrays."""

    @functools.wraps(method)
    def wrapped(self: Any, X: Any, *args: Any, **params: Any) -> Any:
        container = getattr(self, "_sklearn_output_config", {}).get("predict", "default")
        if container == "default" or _inside.get():
            with no_frames():
                return method(self, X, *args, **params)
        index = X.index if hasattr(X, "iloc") else None
        if method.__name__ == "rank":
            with no_frames():
                columns = _ranked(self, method, X, *args, **params)
            return _frame(columns, container, index, repeated="row")
        with no_frames():
            found = method(self, X, *args, **params)
        if hasattr(found, "indptr") and hasattr(found, "pool"):
            return _frame(_set_columns(self, found), container, index, repeated="row")
        if isinstance(found, tuple):
            return tuple(_frame(_columns(self, one, method), container, index) for one in found)
        return _frame(_columns(self, found, method), container, index)

    wrapped._is_wrapped = True  # type: ignore[attr-defined]
    return wrapped


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
    if method.__name__ == "predict_proba":
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
    names = next((m.target_names_ for m in (model, inside) if hasattr(m, "target_names_")), [])
    names = names if len(names) == values.shape[1] else range(values.shape[1])
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
