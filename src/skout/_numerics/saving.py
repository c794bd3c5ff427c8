"""How a class defines what is saved of its objects, see `skout.save`.

By default a file has the attributes of an object, which are restored unchecked. A class that needs
more has one of two methods, or both:

    def __skout_state__(self) -> dict[str, Any]                 what of the object is saved
    @classmethod
    def __skout_restore__(cls, state: dict[str, Any]) -> Self   the object of it, or a FileError

A file may be crafted to do harm: where compiled code would use a number without a bounds check,
`__skout_restore__` checks it. A file names a class by its package, ``skout.kernels.Bags``, so that
modules inside of the package can change.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from .files import FileError
from .typing import State

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Given:
    """A part of the state of an object that is not saved, but passed to `skout.load` by name."""

    item: Any
    name: str | None = None  # the name to pass it by, if not that of the attribute


def require(fits: object, what: str) -> None:
    """Raise a FileError that says "The file has `what`", unless `fits`."""
    if not fits:
        raise FileError(f"The file has {what}.")


def arrays_of(state: State, *names: str) -> list[np.ndarray]:
    """Return the named arrays of a state; a list, which may become a far larger one, is refused."""
    are_arrays = all(isinstance(state[name], np.ndarray) for name in names)
    require(are_arrays, f"{' and '.join(names)} that are no arrays")
    return [state[name] for name in names]


@functools.cache
def name_of(kind: type) -> str:
    """Return the name by which a file knows a class: the shortest path that leads to it."""
    module, name = kind.__module__, kind.__qualname__
    parts = module.split(".")
    for i in range(1, len(parts)):
        with suppress(ImportError):  # of a class that is experimental
            path = ".".join(parts[:i])
            if getattr(sys.modules.get(path), name, None) is kind:
                return f"{path}.{name}"
    return f"{module}.{name}"


def with_attributes(kind: type[T], *states: State) -> list[T]:
    """Return objects with the attributes of a file; no method of their class is called.

    The states have the same names.
    """
    for name in not_attributes(kind, states[0] if states else ()):
        raise FileError(f"{name!r} is no attribute of {kind.__name__} that a file can set.")
    items = [object.__new__(kind) for _ in states]
    for item, state in zip(items, states, strict=True):
        vars(item).update(state)
    return items


def not_attributes(kind: type, names: Iterable[str]) -> list[str]:
    """Return the names that a file must not set: those of methods and properties, and dunders."""
    reserved = _reserved(kind)
    return [name for name in names if name in reserved or name.startswith("__")]


@functools.cache
def _reserved(kind: type) -> frozenset[str]:
    """Return the names of methods and properties; of scikit-learn's classes all but parameters."""
    attributes = {
        name: (value, base) for base in kind.__mro__[::-1] for name, value in vars(base).items()
    }
    parameters = inspect.signature(kind).parameters
    return frozenset(
        name
        for name, (value, base) in attributes.items()
        if callable(value)
        or isinstance(value, property | classmethod | staticmethod)
        or (base.__module__.startswith("sklearn.") and name not in parameters)
    )
