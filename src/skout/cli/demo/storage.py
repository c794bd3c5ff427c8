"""How many numbers does a fitted predictor keep?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.tree._tree import Tree

__all__ = ["numbers_stored"]

# kept for the reader and for partial_fit, not used to predict
_RECORDS = frozenset({"cv_results_", "_base", "_folds"})
_NODE_FIELDS = 4  # left child, right child, feature, threshold


def numbers_stored(model: Any) -> int:
    """Count the numbers in the arrays that a fitted model keeps for prediction.

    Every fitted attribute and closure is followed, each array counts once however many names it
    has, a sparse matrix counts its values and its indices, a tree its node fields and the values at
    its nodes. Single numbers, hyper-parameters, records and what copies do without are not counted.

    Parameters
    ----------
    model : object
        A fitted estimator, or anything made of estimators, containers and arrays.

    Returns
    -------
    count : int
        How many numbers, whatever their width.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.cli.demo import numbers_stored
    >>> weights = np.ones((3, 4))
    >>> numbers_stored({"weights": weights, "again": weights, "bias": np.ones(4)})
    16
    """
    return _count(model, {})


def _count(thing: Any, seen: dict[Any, Any]) -> int:
    """Count what is in `thing` and not in `seen` (which holds it, so that ids stay unique)."""
    key = _identity(thing)
    if key in seen:
        return 0
    seen[key] = thing
    if isinstance(thing, np.ndarray):
        return thing.size if thing.dtype.kind in "biufc" else _sum(thing.ravel().tolist(), seen)
    if isinstance(thing, Tree):
        return int(thing.value.size + _NODE_FIELDS * thing.node_count)
    return _sum(_parts(thing), seen)


def _sum(parts: Iterable[Any], seen: dict[Any, Any]) -> int:
    return sum(_count(part, seen) for part in parts)


def _identity(thing: Any) -> Any:
    """Return a key that two views of the same numbers share."""
    if isinstance(thing, np.ndarray):
        return thing.__array_interface__["data"][0], thing.size, thing.dtype.str
    return id(thing)


def _parts(thing: Any) -> Iterable[Any]:
    """Return what `thing` is made of; nothing for a scalar or a string."""
    if isinstance(thing, Mapping):
        return thing.values()
    if isinstance(thing, list | tuple | set | frozenset):
        return thing
    if isinstance(thing, BaseEstimator):
        return [v for k, v in _state(thing).items() if _is_fitted(k)]
    if isinstance(thing, FunctionType):
        return [cell.cell_contents for cell in thing.__closure__ or ()]
    if sparse.issparse(thing) or type(thing).__module__.startswith("skout"):
        return _state(thing).values()
    return ()


def _state(thing: Any) -> dict[str, Any]:
    """Return the attributes that a copy gets: not those that are made of others when needed."""
    state = thing.__getstate__()
    return state if isinstance(state, dict) else {}


def _is_fitted(name: str) -> bool:
    return (name.endswith("_") or name.startswith("_")) and name not in _RECORDS
