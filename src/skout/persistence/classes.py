"""Which classes and functions a file may name, what of their objects is saved, and how they are
made again.

A class of skout is known by the shortest path that leads to it, "skout.kernels.Gaussian", and its
module is imported when a file names it. It says itself what is in its file, see
`skout._numerics.saving`. Functions and classes of users are given to `load`: a file brings no code.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._numerics.objects import Rows
from .._numerics.saving import name_of, not_attributes, with_attributes
from . import scikit
from .files import FileError

__all__ = [
    "class_of",
    "function_name",
    "function_of",
    "function_path",
    "has_state",
    "is_part",
    "is_rebuilt",
    "is_saved",
    "is_type",
    "name_of",
    "new_parameters",
    "refusal",
    "restored",
    "state_of",
    "type_of",
]

# What a class of skout must be an attribute of to be in a file: a room, an application. Modules
# inside of them may change, and are in no file.
_MODULES = re.compile(
    r"skout(\.(_numerics|kernels|sketches|losses|basis|solvers|regressors|deep|decoding|predictors"
    r"|apps(\.[a-z]+){1,2}|persistence\.older))?"
)
_BUILTINS = {
    *("bool", "int", "float", "complex", "str", "bytes", "list", "tuple", "dict", "set"),
    *("frozenset", "object"),
}
# The only functions that a file may name beside NumPy's ufuncs: they make numbers of numbers or
# of SMILES. All others are given at load.
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
def class_of(name: str) -> type:
    """Return the class that a file names: one of skout or of scikit-learn whose objects are saved.

    Its module is imported.
    """
    module = name.rpartition(".")[0]
    found = _attribute(name) if _MODULES.fullmatch(module) else scikit.class_of(name)
    if not isinstance(found, type) or not is_saved(found) or name_of(found) != name:
        raise FileError(f"The file names the class {name!r}, which is not skout's.")
    return found


def _attribute(name: str) -> Any:
    """Return what a dotted name of a module of ours leads to, None if it leads nowhere."""
    module, _, last = name.rpartition(".")
    try:
        return getattr(import_module(module), last, None)
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("skout"):  # an extra that is not installed
            raise
        return None


@functools.cache
def is_saved(kind: Any) -> bool:
    """Whether this is a class of skout or of scikit-learn whose objects are saved."""
    if not isinstance(kind, type):
        return False
    if kind.__module__.startswith("skout."):
        is_plain = _is_plain(kind) and not inspect.isabstract(kind)
        is_found = _MODULES.fullmatch(name_of(kind).rpartition(".")[0]) is not None
        return is_found and (is_plain or hasattr(kind, "__skout_restore__"))
    of_others = kind.__module__.startswith(("sklearn.", "scipy."))
    return of_others and scikit.class_of(name_of(kind)) is kind


def _is_plain(kind: type) -> bool:
    """Whether objects are just their attributes: estimators, rows, named tuples, dataclasses."""
    return issubclass(kind, BaseEstimator | Rows) or hasattr(kind, "_fields") or is_dataclass(kind)


def is_part(kind: type) -> bool:
    """Whether objects of a class of users can be saved: estimators and rows."""
    return issubclass(kind, BaseEstimator | Rows) and not scikit.is_unchecked(kind)


def is_type(kind: type) -> bool:
    """Whether a class may be a value itself: those of objects in files, kinds of candidates."""
    with suppress(FileError):
        return type_of(name_of(kind)) is kind
    return False


def type_of(name: str) -> type:
    """Return the class that is a value in a file."""
    module, _, last = name.rpartition(".")
    if module == "numpy":
        found = getattr(np, last, None)
        if isinstance(found, type) and (found is np.ndarray or issubclass(found, np.generic)):
            return found
    if name == "builtins.NoneType":
        return type(None)
    return getattr(builtins, last) if module == "builtins" and last in _BUILTINS else class_of(name)


def function_path(item: Any) -> str | None:
    """Return the name of a function that a file may name, None for anything else."""
    last = getattr(item, "__name__", "")
    if isinstance(item, np.ufunc) and getattr(np, last, None) is item:
        return f"numpy.{last}"
    for name in _FUNCTIONS:
        if name.endswith(f".{last}") and function_of(name) is item:
            return name
    return None


def function_of(name: str) -> Callable[..., Any]:
    """Return the function that a file names, if it may."""
    module, _, last = name.rpartition(".")
    found = getattr(np, last, None) if module == "numpy" else None
    if name not in _FUNCTIONS and not isinstance(found, np.ufunc):
        raise FileError(f"The file names the function {name!r}, which is not allowed.")
    return found or getattr(import_module(module), last)


def function_name(item: Any, path: str) -> str:
    """Return the name under which a function, a class or a partial is to be given at load."""
    function = getattr(item, "func", item)  # of a functools.partial
    name = getattr(function, "__name__", type(item).__name__)
    if name == "<lambda>":
        raise TypeError(
            f"{path} is a lambda. Functions are not saved, but given to skout.load by name, and "
            "this one has none: use a function made by def."
        )
    return name


# Objects ------------------------------------------------------------------------------------------


def has_state(item: Any) -> bool:
    """Whether an object goes into a file by its attributes."""
    kind = type(item)
    return not isinstance(item, type) and (is_saved(kind) or is_part(kind))


def refusal(item: Any, path: str, candidates: bool) -> str:
    """Return why an object cannot be saved, and what to do."""
    kind = type(item)
    package = kind.__module__.partition(".")[0]
    advice = _ADVICE.get(package, "Use what skout has, or keep this part outside the model")
    if package == "sklearn":
        advice = scikit.advice(item)
    elif candidates:
        advice += ", or leave the candidates out: candidates=False"
    return f"{path or 'model'} is of the type {name_of(kind)}, which cannot be saved. {advice}."


def state_of(item: Any, candidates: bool, path: str) -> dict[str, Any]:
    """Return the attributes of an object that go into a file, default candidates if they shall."""
    kind = type(item)
    if not candidates and (hasattr(item, "decode") or hasattr(item, "without_pool")):
        item = _without_candidates(item)
    computed = _computed(kind)
    state = {name: one for name, one in _state(kind, item, path).items() if name not in computed}
    wrong = [] if _is_made(kind) else not_attributes(kind, state)
    if wrong:
        raise TypeError(
            f"{path or 'model'} is of the type {kind.__name__}, and has the attribute {wrong[0]!r} "
            "in place of a method or property of its class, which cannot be saved. Give it "
            "another name."
        )
    return state


def _is_made(kind: type) -> bool:
    """Whether objects are made by a function of their state, which need not be attributes."""
    is_made = hasattr(kind, "__skout_restore__") or scikit.makers(kind) is not None
    return is_made or issubclass(kind, tuple)


def _state(kind: type, item: Any, path: str) -> dict[str, Any]:
    if hasattr(kind, "__skout_state__"):
        return item.__skout_state__()
    if isinstance(item, tuple):
        return item._asdict()  # type: ignore[attr-defined]
    makers = scikit.makers(kind)
    if makers is not None:
        return makers[0](item)
    return scikit.state_of(item, path) if scikit.is_derived(kind) else vars(item)


def _without_candidates(item: Any) -> Any:
    """Return a part of a model without its default candidates, which are its training outputs."""
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
    """Whether objects of a class may hold copies of the arrays in a file."""
    return hasattr(kind, "__skout_restore__") or scikit.is_derived(kind)


def restored(kind: type, columns: dict[str, list[Any]], n: int) -> list[Any]:
    """Return n objects of a class, given all values of each attribute."""
    rows = zip(*columns.values(), strict=True)
    states = [dict(zip(columns, values, strict=True)) for values in rows] or [{} for _ in range(n)]
    if hasattr(kind, "__skout_restore__"):
        return [kind.__skout_restore__(state) for state in states]
    if issubclass(kind, tuple):
        return [kind(**state) for state in states]
    makers = scikit.makers(kind)
    if makers is not None:
        return makers[1](states)
    defaults = new_parameters(kind)
    items = [with_attributes(kind, {**defaults, **state}) for state in states]
    return scikit.finished(kind, items) if scikit.is_derived(kind) else items


@functools.cache
def new_parameters(kind: type) -> dict[str, Any]:
    """Return the parameters of an estimator with a default, which older files may not have."""
    if not issubclass(kind, BaseEstimator):
        return {}
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


@functools.cache
def _computed(kind: type) -> frozenset[str]:
    """Return the names of what is computed from other attributes when it is first asked for."""
    pairs = [pair for base in kind.__mro__ for pair in vars(base).items()]
    return frozenset(name for name, one in pairs if isinstance(one, functools.cached_property))
