"""How large containers are that share their parts.

A list that has another one twice, which has another one twice, and so on, takes a line for each in
a file, and all memory where it becomes an array; the hash of such a tuple never ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .classes import CLASSES

__all__ = ["too_nested"]

# Items that a container may have, all levels together: so many, and this multiple of all that
# the file has; and levels, through which hashes go down in a stack.
_ITEMS, _COPIES, _LEVELS = 10_000_000, 32, 1000
_CONTAINERS = ("list", "tuple", "set", "frozenset", "objects", "imputer")


def too_nested(nodes: Any, arrays: Mapping[str, np.ndarray]) -> str | None:
    """Return what is wrong with containers that are much larger than their file, else None.

    Nodes need not be proper ones: what else is wrong is for others to say.
    """
    known: list[tuple[int, int]] = []  # items and levels of the nodes so far
    most = _ITEMS + _COPIES * sum(array.size for array in arrays.values())
    for node in nodes:
        specs = _inside(node)
        found = [_of(spec, known) for spec in specs]
        items = _size(node) + sum(size for size, _ in found)
        levels = max((depth for _, depth in found), default=-1) + 1
        most += _COPIES * len(specs)
        if items > most:
            return f"a container with more than {most} items, which share their parts"
        if levels > _LEVELS:
            return f"containers in more than {_LEVELS} levels"
        known.append((items, levels))
    return None


def _of(spec: Any, known: list[tuple[int, int]]) -> tuple[int, int]:
    number = spec.get("ref") if isinstance(spec, dict) else None
    return known[number] if type(number) is int and 0 <= number < len(known) else (1, 0)


def _inside(node: Any) -> list[Any]:
    """Return the values in a container; other objects are not gone through by arrays and hashes."""
    kind = node.get("kind") if isinstance(node, dict) else None
    items, state = (node.get(name) if kind else None for name in ("items", "state"))
    if kind in _CONTAINERS and isinstance(items, list):
        return items
    if kind == "dict" and isinstance(items, list):
        return [one for pair in items if isinstance(pair, list) for one in pair]
    is_tuple = kind == "object" and issubclass(CLASSES.get(str(node.get("class")), object), tuple)
    return list(state.values()) if is_tuple and isinstance(state, dict) else []


def _size(node: Any) -> int:
    shape = node.get("shape") if isinstance(node, dict) and node.get("kind") == "array" else None
    is_shape = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    return max(1, math.prod(shape)) if is_shape and shape else 1
