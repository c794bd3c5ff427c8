"""The classes and functions that a file may name, the attributes it stores, how objects restore.

A file names a class of skout by the shortest import path, "skout.kernels.Gaussian"; its module is
imported when a file names it. A class may define what is saved, see `skout._numerics.saving`.
Functions and classes of users are passed to `load`: a file contains no code.
"""

from __future__ import annotations

import functools
import inspect
import re
from contextlib import suppress
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._numerics.estimators import computed
from .._numerics.objects import Rows
from .._numerics.saving import name_of as name_of
from .._numerics.saving import not_attributes, with_attributes
from .._numerics.typing import Estimator, State
from . import scikit
from .files import FileError, Value

# Packages whose attributes are the classes that files name. Files do not name the modules inside,
# which may change.
_MODULES = re.compile(
    r"skout(\.(_numerics|kernels|sketches|losses|basis|solvers|regressors|deep|decoding|kinds|predictors"
    r"|apps(\.[a-z]+){1,2}|persistence\.older))?"
)
#: New names of classes of skout by the names that older files have.
RENAMED = {"Centred": "Centered", "LearntRidge": "LearnedRidge", "AlignedRidge": "LearnedRidge"}
_BUILTINS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, object),
        type(None),
    )
}
# The only functions that a file may name, beside NumPy's ufuncs: they compute numbers from numbers
# or SMILES and do no harm. All others are passed to `load`.
_FUNCTIONS = {
    "skout.molecules.fingerprints",
    *(f"sklearn.feature_selection.{name}" for name in ("chi2", "f_classif", "f_regression")),
    *(f"sklearn.feature_selection.mutual_info_{name}" for name in ("classif", "regression")),
    "sklearn.feature_selection.r_regression",
}
_ADVICE = {
    "pandas": "Fit on arrays: df.to_numpy() for a frame, list(series) for a column",
    "polars": "Fit on arrays: df.to_numpy() for a frame, list(series) for a column",
    "networkx": "Give (edges, node_labels, edge_labels) triples or SMILES strings to fit",
    "rdkit": "Give SMILES strings to fit",
    "h5py": "Read it into memory: dataset[:]",
    "zarr": "Read it into memory: array[:]",
    "dask": "Compute it: array.compute()",
    "scipy": "Make it a CSR matrix: matrix.tocsr()",
}


# Names --------------------------------------------------------------------------------------------


@functools.cache
def class_of(name: str) -> Any:
    """Return the class of skout or scikit-learn that a file names, importing its module."""
    module, _, last = name.rpartition(".")
    if module.startswith("skout"):
        last = RENAMED.get(last, last)
        name = f"{module}.{last}"
    kind: Any = None
    try:
        if _MODULES.fullmatch(module):
            kind = getattr(import_module(module), last, None)
        else:
            kind = scikit.class_of(name)
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("skout"):  # an extra that is not installed
            raise
    if not is_saved(kind) or name_of(kind) != name:
        raise FileError(f"The file names {name!r}, which is not skout's.")
    return kind


def is_saved(kind: object) -> bool:
    """Whether this is a class of skout or of scikit-learn whose objects are saved."""
    return isinstance(kind, type) and _is_saved(kind)


@functools.cache
def _is_saved(kind: type) -> bool:
    if not kind.__module__.startswith("skout."):
        return scikit.class_of(name_of(kind)) is kind
    # objects that are their attributes, or whose class restores them
    is_estimator = issubclass(kind, BaseEstimator | Rows) and not inspect.isabstract(kind)
    is_record = hasattr(kind, "_fields") or is_dataclass(kind)
    is_known = is_estimator or is_record or hasattr(kind, "__skout_restore__")
    return is_known and _MODULES.fullmatch(name_of(kind).rpartition(".")[0]) is not None


def is_part(kind: type) -> bool:
    """Whether objects of a user's class can be saved: estimators and rows."""
    return not scikit.is_unchecked(kind) and issubclass(kind, BaseEstimator | Rows)


def value_of(name: str) -> Value:
    """Return the class or function of a name that a file has as a value, such as a parameter."""
    module, _, last = name.rpartition(".")
    if module == "builtins" and last in _BUILTINS:
        return _BUILTINS[last]
    if module == "numpy":
        value = getattr(np, last, None)
        is_type = isinstance(value, type) and issubclass(value, np.generic | np.ndarray)
        if is_type or isinstance(value, np.ufunc):
            return value
    return getattr(import_module(module), last) if name in _FUNCTIONS else class_of(name)


def value_name(item: Estimator) -> str | None:
    """Return the name of a class or function that files may name, None for others."""
    last = getattr(item, "__name__", "")
    names = [f"numpy.{last}", *(name for name in _FUNCTIONS if name.endswith(f".{last}"))]
    for name in [name_of(item)] if isinstance(item, type) else names:
        with suppress(FileError):
            if value_of(name) is item:
                return name
    return None


def function_name(item: object, path: str) -> str:
    """Return the name by which a function, class or partial is passed to `load`."""
    function = getattr(item, "func", item)  # of a functools.partial
    name = getattr(function, "__name__", type(item).__name__)
    if name == "<lambda>":
        raise TypeError(
            f"{path} is a lambda. Functions are not saved, but passed to skout.load by name, and "
            "this one has none: use a function made by def."
        )
    return name


# Objects ------------------------------------------------------------------------------------------


def has_state(item: Estimator) -> bool:
    """Whether an object is saved by its attributes."""
    kind: type = type(item)
    return not isinstance(item, type) and (is_saved(kind) or is_part(kind))


def refusal(item: Estimator, path: str, candidates: bool) -> str:
    """Return the text of an error: why an object cannot be saved, and what to do."""
    kind: type = type(item)
    package = kind.__module__.partition(".")[0]
    advice = _ADVICE.get(package, "Use what skout has, or keep this part outside the model")
    if package == "sklearn":
        advice = scikit.advice(item)
    elif candidates:
        advice += ", or leave the candidates out: candidates=False"
    return f"{path or 'model'} is of the type {name_of(kind)}, which cannot be saved. {advice}."


def state_of(item: Estimator, candidates: bool, path: str) -> State:
    """Return the attributes of an object that are saved, with or without default candidates."""
    kind: type = type(item)
    makers = _makers(kind)
    if not candidates and (hasattr(item, "decode") or hasattr(item, "without_pool")):
        item = _without_candidates(item)
    if hasattr(kind, "__skout_state__"):
        state = item.__skout_state__()
    elif makers is not None:
        state = makers[0](item)
    else:
        state = scikit.state_of(item, path) if scikit.is_derived(kind) else vars(item)
    state = {name: value for name, value in state.items() if name not in computed(kind)}
    wrong = not_attributes(kind, state) if makers is None else []
    if wrong:
        raise TypeError(
            f"{path or 'model'} is of the type {kind.__name__}, and has the attribute {wrong[0]!r} "
            "in place of a method or property of its class, which cannot be saved. Give it "
            "another name."
        )
    return state


@functools.cache
def _makers(kind: type) -> scikit.Makers | None:
    """Return the functions from object to state and back, None for objects by attributes."""
    if hasattr(kind, "__skout_restore__"):
        return vars, lambda states: [kind.__skout_restore__(state) for state in states]
    if issubclass(kind, tuple):
        return lambda item: item._asdict(), lambda states: [kind(**state) for state in states]
    return scikit.makers(kind)


def _without_candidates(item: Estimator) -> Value:
    """Return a part of a model without its default candidates, the training outputs."""
    is_fitted = not vars(item).keys() <= item.get_params(deep=False).keys()
    if is_fitted and hasattr(item, "without_pool"):
        return item.without_pool()
    if is_fitted and not is_saved(type(item)):
        raise ValueError(
            f"{type(item).__name__} has no method without_pool, which would return a copy without "
            "candidates: write it, or save with candidates=True."
        )
    return item


def is_rebuilt(kind: type) -> bool:
    """Whether restoring objects of a class may copy arrays of the file, which is charged for."""
    return hasattr(kind, "__skout_restore__") or scikit.is_derived(kind)


def restored(kind: type, columns: dict[str, list[Value]], n: int) -> list[Value]:
    """Return n objects of a class from the n values of each attribute."""
    rows = zip(*columns.values(), strict=True)
    states = [dict(zip(columns, values, strict=True)) for values in rows] or [{} for _ in range(n)]
    makers = _makers(kind)
    if makers is not None:
        return makers[1](states)
    defaults = new_parameters(kind)
    items: list[Any] = with_attributes(kind, *({**defaults, **state} for state in states))
    return scikit.finished(kind, items) if scikit.is_derived(kind) else items


@functools.cache
def new_parameters(kind: type) -> State:
    """Return the default parameters of an estimator, for parameters that older files lack."""
    if not issubclass(kind, BaseEstimator):
        return {}
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}
