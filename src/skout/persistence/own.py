"""Parts that users wrote: kernels, sketches, losses, decoders, rows, transformers.

A file has the name of the class and the attributes of the object, as it has those of ours. The
class is given to `load` by the user, and only such classes are used: a file brings no code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator

from .._numerics.objects import Rows
from .classes import BUILT, name_of, not_attributes, restored, saved_state
from .files import FileError
from .networks import NAMES

__all__ = ["READERS", "is_part", "node"]

# What may stand between BaseEstimator and a class of users, of scikit-learn.
_MIXINS = ("sklearn.base", "sklearn.utils")


def is_part(kind: type) -> bool:
    """Whether objects of a class of users can be saved: estimators and rows."""
    return issubclass(kind, BaseEstimator | Rows)


def node(writer: Any, item: Any, path: str) -> dict[str, Any]:
    """Return the node of an object of a class of users, which is to be given at load."""
    kind, where = type(item), path or "model"
    base = _unsafe_base(kind)
    if base is not None:
        raise TypeError(
            f"{where} is of the type {kind.__name__}, which is derived from {base.__name__}, whose "
            "attributes are checked in a way of their own, and cannot be saved. Hold a "
            f"{base.__name__} as a parameter instead."
        )
    state = saved_state(item, writer.candidates)
    wrong = not_attributes(kind, state)
    if wrong:
        raise TypeError(
            f"{where} is of the type {kind.__name__}, and has the attribute {wrong[0]!r} in place "
            "of a method or property of its class, which cannot be saved. Give it another name."
        )
    writer.given(kind.__name__, kind, path)
    return {**writer.object(kind.__name__, state, path), "kind": "own"}


def _unsafe_base(kind: type) -> type | None:
    """Return a base whose objects are not just their attributes, or go to compiled code."""
    for base in kind.__mro__:
        of_sklearn = base.__module__.startswith("sklearn.")
        is_mixin = base.__module__.startswith(_MIXINS)
        if (of_sklearn and not is_mixin) or base in BUILT or name_of(base) in NAMES:
            return base
    return None


def _read(reader: Any, spec: dict[str, Any]) -> Any:
    """Return the object of a class that the user gave, with the attributes of the file."""
    name = spec["class"]
    kind = reader.given.get(name)
    if kind is None:
        raise FileError(f"The file asks for {name!r} without saying that it needs it.")
    if not isinstance(kind, type) or not is_part(kind) or _unsafe_base(kind) is not None:
        raise FileError(
            f"modules must have the class {name!r} of a kernel, sketch, loss, decoder, rows or "
            f"another estimator. Got {kind!r} instead."
        )
    return restored(kind, {key: reader.value(one) for key, one in spec["state"].items()})


READERS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {"own": _read}
