"""The writer of models as JSON and arrays.

A structure is {"root": value, "nodes": [node, ...]}. A value is None, a boolean, a number, a text,
or an object with one key: {"ref": i} stands for node i. Nodes are what can be shared: containers,
arrays, objects. A node refers only to nodes before it, so that there are no cycles, and neither
reading nor writing it needs a deep stack.

Many items of a list that are alike are stored as columns: the trees of a forest are one object
with one array of nodes, not thousands of objects (`Writer.column`).
"""

from __future__ import annotations

import functools
import json
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.saving import Given
from .._numerics.typing import Estimator, Json
from . import classes
from .files import Node, Value
from .reading import BIT_GENERATORS, CONTAINERS, SIMPLE, SPARSE, stored_as

_MAX_DEPTH = 100  # levels of nested parts: they are visited by recursion
# Lists of fewer items are stored item by item, so that items may be shared with other lists.
_FEW = 8
_LARGE = 2**63  # what int64 cannot hold


def _text(item: str) -> Value:
    """Return a text, or its code units where it has lone surrogates, which JSON cannot hold."""
    if item.isascii() or not any("\ud800" <= character <= "\udfff" for character in item):
        return item
    return {"text": item.encode("utf-32-le", "surrogatepass").hex()}


_INLINE: dict[type, Callable[[Any], Any]] = {
    # other readers of JSON may know no larger numbers, and none that are not finite
    int: lambda item: item if -_LARGE < item < _LARGE else {"int": hex(item)},
    float: lambda item: item if math.isfinite(item) else {"float": struct.pack(">d", item).hex()},
    str: _text,
    bytes: lambda item: {"bytes": item.hex()},
}
# Values of these types that are equal are the same; 0.0 and -0.0 are not.
_EQUAL = {int, str, bytes, bool, type(None)}


class Writer:
    """Turns a model into nodes and arrays, with or without its default candidates."""

    def __init__(self, candidates: bool = True) -> None:
        self.candidates = candidates
        self.nodes: list[dict[str, Any]] = []
        self.arrays: dict[str, np.ndarray] = {}
        # functions and classes of users, by the names by which they are passed to `load`
        self.needs: dict[str, Any] = {}
        # by id; the objects are kept, so that no id is used again
        self._written: dict[int, tuple[Any, int | None]] = {}
        self._depth = 0

    def structure(self, model: Estimator) -> Node:
        """Return the JSON of a model; its arrays are in `arrays`."""
        return {"root": self.value(model, ""), "nodes": self.nodes}

    def value(self, item: Value, path: str) -> Json:
        """Return the JSON of a value; `path` is where it is in the model, for errors."""
        kind = type(item)
        if item is None or kind is bool:
            return item
        if kind in _INLINE:
            return _INLINE[kind](item)
        if isinstance(item, np.generic):
            array = np.asarray(item)  # an empty text has one character there
            return {"scalar": [_dtype_name(array.dtype, path), array.tobytes().hex()]}
        return {"ref": self._number(item, path)}

    def _number(self, item: Value, path: str) -> int:
        """Return the number of an object's node, which is written when it is first met."""
        if id(item) in self._written:
            number = self._written[id(item)][1]
            if number is None:
                raise TypeError(f"{path or 'model'} contains itself, which cannot be saved.")
            return number
        self._written[id(item)] = item, None
        self._go_down(path)
        node = self._node(item, path)
        self._depth -= 1
        self.nodes.append(node)
        number = len(self.nodes) - 1
        self._written[id(item)] = item, number
        return number

    def _go_down(self, path: str) -> None:
        """Count a level, or raise where there are too many."""
        if self._depth == _MAX_DEPTH:
            raise TypeError(f"{path} is nested more than {_MAX_DEPTH} levels deep.")
        self._depth += 1

    def _node(self, item: Value, path: str) -> Node:
        """Return the JSON of an object that others may refer to."""
        kind = type(item)
        if kind in (list, tuple):
            return {"kind": CONTAINERS[kind], **self._items(item, path)}
        if kind in CONTAINERS:  # sorted, so that equal sets make equal files
            items = sorted((self.value(part, path) for part in item), key=json.dumps)
            return {"kind": CONTAINERS[kind], "items": items}
        if kind is dict:
            pairs = [
                [self.value(key, f"{path} key"), self.value(part, f"{path}[{key!r}]")]
                for key, part in item.items()
            ]
            return {"kind": "dict", "items": pairs}
        if isinstance(item, np.ndarray) and not isinstance(item, np.ma.MaskedArray):
            return self._array(np.asarray(item), path)
        if kind is slice:
            items = [self.value(part, path) for part in (item.start, item.stop, item.step)]
            return {"kind": "slice", "items": items}
        if isinstance(item, np.dtype):
            return {"kind": "dtype", "name": _dtype_name(item, path)}
        if kind.__name__ in SPARSE and sparse.issparse(item):
            fields = {f: self.value(getattr(item, f), path) for f in ("data", "indices", "indptr")}
            return {"kind": kind.__name__, "shape": list(item.shape), **fields}
        if isinstance(item, np.random.Generator | np.random.RandomState):
            return self._generator(item, path)
        if isinstance(item, functools.partial) and classes.is_saved(item.func) and not item.args:
            keywords = self.value(item.keywords, path)
            return {"kind": "partial", "class": classes.name_of(item.func), "keywords": keywords}
        return self._foreign(item, path)

    def _foreign(self, item: Value, path: str) -> Node:
        """Return the node of a class, a function or an object."""
        if isinstance(item, Given):
            return self._given(item.name or classes.function_name(item.item, path), item.item, path)
        name = classes.value_name(item) if callable(item) else None
        if name is not None:
            return {"kind": "named", "name": name}
        if not classes.has_state(item):
            if not callable(item):
                raise TypeError(classes.refusal(item, path, self.candidates))
            return self._given(classes.function_name(item, path), item, path)
        dot = f"{path}." if path else ""
        state = classes.state_of(item, self.candidates, path)
        node = self._class(type(item), path)
        node["state"] = {name: self.value(value, dot + name) for name, value in state.items()}
        return node

    def _class(self, kind: type, path: str) -> Node:
        """Return the part of a node that names the class."""
        if classes.is_saved(kind):
            return {"kind": "object", "class": classes.name_of(kind)}
        self._given(kind.__name__, kind, path)
        return {"kind": "own", "class": kind.__name__}

    def _given(self, name: str, item: Value, path: str) -> Node:
        """Return the node of a part that is not saved, but passed to `load` by name."""
        if self.needs.setdefault(name, item) is not item:
            raise TypeError(
                f"{path} is {item!r}, and the model has another function or class of the name "
                f"{name!r}. Functions are not saved but passed to skout.load by name: rename one."
            )
        return {"kind": "given", "name": name}

    # Many alike -----------------------------------------------------------------------------------

    def _items(self, items: Sequence[Value], path: str) -> Node:
        if len(items) >= _FEW:
            return {"n": len(items), "column": self.column(items, path)}
        return {"items": self._each(items, path)}

    def _each(self, items: Sequence[Value], path: str) -> list[Value]:
        return [self.value(item, f"{path}[{i}]") for i, item in enumerate(items)]

    def column(self, items: Sequence[Value], path: str) -> Node:
        """Return the JSON of many values, in arrays if they are of one type.

        {"same": value}, {"numbers": array}, {"arrays": all of them, one after the other},
        {"lists": "list", "of": the column of all their items}, {"class": ..., "columns": one for
        each attribute}, or {"each": values}.
        """
        self._go_down(path)
        column = self._alike(items, path) if len({type(item) for item in items}) == 1 else None
        if column is None:
            column = {"each": self._each(items, path)}
        self._depth -= 1
        return column

    def _alike(self, items: Sequence[Value], path: str) -> Node | None:
        """Return values of one type as a column of arrays, None where they have no such form."""
        first = items[0]
        kind = type(first)
        if kind in _EQUAL and all(item == first for item in items):
            return {"same": self.value(first, path)}
        if kind is float or (kind is int and max(map(abs, items)) < _LARGE):
            numbers = np.array(items, dtype=np.float64 if kind is float else np.int64)
            return {"numbers": self.value(_narrow(numbers), path), "python": True}
        if issubclass(kind, np.number | np.bool_) and SIMPLE.fullmatch(first.dtype.str):
            return {"numbers": self.value(np.array(items), path), "python": False}
        distinct = {id(item) for item in items}
        if len(distinct) == 1:
            return {"same": self.value(first, path)}
        if len(distinct) < len(items) or not self._written.keys().isdisjoint(distinct):
            return None
        if kind is np.ndarray:
            return self._joined(items, path)
        if kind in (list, tuple):
            ends = self.value(_narrow(np.cumsum([len(item) for item in items])), path)
            flat = self.column([inner for item in items for inner in item], path)
            return {"lists": CONTAINERS[kind], "ends": ends, "of": flat}
        if isinstance(first, type) or not classes.has_state(first):
            return None
        states = [classes.state_of(item, self.candidates, path) for item in items]
        if any(state.keys() != states[0].keys() for state in states):
            return None
        columns = {
            name: self.column([state[name] for state in states], f"{path}.{name}")
            for name in states[0]
        }
        return {**self._class(kind, path), "columns": columns}

    def _joined(self, arrays: Sequence[np.ndarray], path: str) -> Node | None:
        """Return arrays of one dtype and width joined, those of objects as a column, or None."""
        first = arrays[0]
        if first.dtype == object and all(array.shape == first.shape for array in arrays):
            flat = self.column([inner for array in arrays for inner in array.ravel()], path)
            return {"lists": "objects", "shape": list(first.shape), "of": flat}
        is_plain = first.ndim > 0 and (first.dtype.fields or first.dtype.kind in "biufc")
        if is_plain and all(
            array.dtype == first.dtype
            and array.shape[1:] == first.shape[1:]
            and array.flags.c_contiguous
            for array in arrays
        ):
            ends = np.cumsum([len(array) for array in arrays])
            whole = np.empty((ends[-1], *first.shape[1:]), first.dtype)  # with its padding
            np.concatenate(arrays, out=whole)
            return {"arrays": self.value(whole, path), "ends": self.value(_narrow(ends), path)}
        return None

    # Arrays ---------------------------------------------------------------------------------------

    def _array(self, array: np.ndarray, path: str) -> Node:
        """Return the node of an array, and store the array."""
        shape = list(array.shape)
        if array.dtype == object:
            return {"kind": "objects", "shape": shape, **self._items(list(array.ravel()), path)}
        fields = array.dtype.names or ()
        if fields and all(SIMPLE.fullmatch(array.dtype[name].str) for name in fields):
            return self._record(array, path)
        if array.dtype.itemsize == 0:  # empty texts
            array = array.astype(f"{array.dtype.kind}1")
        dtype = _dtype_name(array.dtype, path)
        array = array.astype(np.dtype(dtype), copy=False)
        # in the order in which it is now: products could round differently in the other
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        stored = array.T if order == "F" else array
        stored = stored if stored.flags.c_contiguous else stored.copy(order="C")
        name, is_number = str(len(self.arrays)), stored.dtype.kind not in "cUS"
        self.arrays[name] = stored if is_number else _as_numbers(stored)
        node = {"kind": "array", "array": name}
        if is_number and order == "C":
            return node  # the header says the rest
        return {**node, "dtype": dtype, "shape": shape, "order": order}

    def _record(self, array: np.ndarray, path: str) -> Node:
        """Return the node of an array of records, field by field."""
        dtype, names = array.dtype, array.dtype.names or ()
        is_aligned = dtype == np.dtype([(name, dtype[name]) for name in names], align=True)
        fields = [[name, dtype[name].str, self.value(_narrow(array[name]), path)] for name in names]
        return {"kind": "record", "aligned": is_aligned, "fields": fields}

    def _generator(self, item: Value, path: str) -> Node:
        """Return the node of a random generator."""
        legacy = isinstance(item, np.random.RandomState)
        state = item.get_state(legacy=False) if legacy else item.bit_generator.state
        if state["bit_generator"] not in BIT_GENERATORS:
            raise TypeError(f"{path} is {item}, a random generator that cannot be saved.")
        return {"kind": "generator", "legacy": legacy, "state": self.value(state, path)}


def _dtype_name(dtype: np.dtype, path: str) -> str:
    """Return the name of a simple dtype, little-endian."""
    name = dtype.newbyteorder("<").str
    if name != "|O" and (dtype.fields or not SIMPLE.fullmatch(name)):
        raise TypeError(
            f"{path} has the dtype {dtype}, which cannot be saved. Make it numbers or text."
        )
    return name


def _narrow(array: np.ndarray) -> np.ndarray:
    """Return a contiguous array, integers in the smallest dtype that holds them."""
    dtype = array.dtype
    if dtype.kind in "iu" and array.size:
        ends = (np.min_scalar_type(int(end)) for end in (array.min(), array.max()))
        needed = np.promote_types(*ends)
        dtype = needed if needed.kind in "iu" else dtype
    return np.ascontiguousarray(array, dtype)


def _as_numbers(array: np.ndarray) -> np.ndarray:
    """Return texts or complex numbers as a contiguous array of numbers, with one more axis."""
    stored = stored_as(array.dtype)
    n_parts = array.dtype.itemsize // stored.itemsize
    return array.reshape(-1).view(stored).reshape(*array.shape, n_parts)
