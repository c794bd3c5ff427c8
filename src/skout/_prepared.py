"""What fitted models prepare once for many predictions, beside the models.

It is no part of a model: files, pickles, copies and clones do without, and prepare it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["prepared"]

T = TypeVar("T")

# For each model what was prepared, by name, together with the parts that it was prepared from.
_STORE: WeakKeyDictionary[Any, dict[str, tuple[tuple[Any, ...], Any]]] = WeakKeyDictionary()


def prepared(owner: Any, name: str, parts: tuple[Any, ...], make: Callable[..., T]) -> T:
    """Return make(*parts), which is kept until a part is another object or the owner is gone.

    Parameters
    ----------
    owner : object
        The model that it belongs to. Neither the parts nor the result may refer to it.
    name : str
    parts : tuple
        Fitted attributes, which a new fit replaces.
    make : callable
        Two threads may call it at the same time, with the same result.

    Examples
    --------
    >>> from skout._prepared import prepared
    >>> class Model: ...
    >>> model, rows = Model(), [3, 1, 2]
    >>> prepared(model, "sorted", (rows,), sorted) is prepared(model, "sorted", (rows,), sorted)
    True
    """
    kept = _STORE.setdefault(owner, {})
    found = kept.get(name)
    if found is None or any(a is not b for a, b in zip(found[0], parts, strict=True)):
        found = kept[name] = (parts, make(*parts))
    return found[1]
