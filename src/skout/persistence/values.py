"""Values as JSON and arrays, and back.

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
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.saving import Given
from . import classes
from .files import DTYPES, FileError

__all__ = ["Reader", "Writer"]

_MAX_DEPTH = 100
# Lists of fewer items are stored item by item, and their items may be shared with other lists.
_FEW = 8
_LARGE = 2**63
# Bytes that parts may make beside the arrays of a file: so many, and this multiple of the arrays.
_SPARE, _COPIES = 2**28, 32
# Of an item of a column: a pointer, and a small object.
_ITEM_BYTES = 64
# Items that a container may have, all levels together: so many, and `_COPIES` times all that the
# file has; and levels, through which hashes go down in a stack.
_ITEMS, _LEVELS = 10_000_000, 1000
_CONTAINERS: dict[type, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
_SEQUENCES = {"list": list, "tuple": tuple}
_SPARSE = {name: getattr(sparse, name) for name in ("csr_matrix", "csr_array", "csc_matrix")}
_BIT_GENERATORS = {
    name: getattr(np.random, name) for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
}
# Booleans, numbers, complex numbers and text of fixed length, in little-endian order.
_SIMPLE = re.compile(r"\|b1|[|<][iu][1248]|<f[248]|<c(8|16)|<U\d{1,9}|\|S\d{1,9}")
_LAST_CHARACTER = 0x10FFFF


class Writer:
    """Turn a model into nodes and arrays; default candidates are left out if they shall be."""

    def __init__(self, candidates: bool = True) -> None:
        self.candidates = candidates
        self.nodes: list[dict[str, Any]] = []
        self.arrays: dict[str, np.ndarray] = {}
        # functions and classes of others, by the names under which they are to be given at load
        self.needs: dict[str, Any] = {}
        # by id; the objects are kept, so that no id is used again
        self._written: dict[int, tuple[Any, int | None]] = {}
        self._depth = 0

    def structure(self, model: Any) -> dict[str, Any]:
        """Return the JSON of a model; its arrays are in `arrays`."""
        return {"root": self.value(model, ""), "nodes": self.nodes}

    def value(self, item: Any, path: str) -> Any:
        """Return the JSON of a value, whose attribute path is for messages."""
        kind = type(item)
        if item is None or kind is bool:
            return item
        if kind in _INLINE:
            return _INLINE[kind](item)
        if isinstance(item, np.generic):
            array = np.asarray(item)  # an empty text has one character there
            return {"scalar": [_dtype_name(array.dtype, path), array.tobytes().hex()]}
        return {"ref": self._number(item, path)}

    def _number(self, item: Any, path: str) -> int:
        """Return the number of the node of an object, which is written at its first visit."""
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
        if self._depth == _MAX_DEPTH:
            raise TypeError(f"{path} is nested more than {_MAX_DEPTH} levels deep.")
        self._depth += 1

    def _node(self, item: Any, path: str) -> dict[str, Any]:
        """Return the JSON of an object that others may refer to."""
        kind = type(item)
        if kind in (list, tuple):
            return {"kind": _CONTAINERS[kind], **self._items(item, path)}
        if kind in _CONTAINERS:  # sorted, so that equal sets make equal files
            items = sorted((self.value(one, path) for one in item), key=json.dumps)
            return {"kind": _CONTAINERS[kind], "items": items}
        if kind is dict:
            pairs = [
                [self.value(key, f"{path} key"), self.value(one, f"{path}[{key!r}]")]
                for key, one in item.items()
            ]
            return {"kind": "dict", "items": pairs}
        if isinstance(item, np.ndarray) and not isinstance(item, np.ma.MaskedArray):
            return self._array(np.asarray(item), path)
        if kind is slice:
            items = [self.value(one, path) for one in (item.start, item.stop, item.step)]
            return {"kind": "slice", "items": items}
        if isinstance(item, np.dtype):
            return {"kind": "dtype", "name": _dtype_name(item, path)}
        if kind.__name__ in _SPARSE and sparse.issparse(item):
            fields = {f: self.value(getattr(item, f), path) for f in ("data", "indices", "indptr")}
            return {"kind": kind.__name__, "shape": list(item.shape), **fields}
        if isinstance(item, np.random.Generator | np.random.RandomState):
            return self._generator(item, path)
        if isinstance(item, functools.partial) and classes.is_saved(item.func) and not item.args:
            keywords = self.value(item.keywords, path)
            return {"kind": "partial", "class": classes.name_of(item.func), "keywords": keywords}
        return self._foreign(item, path)

    def _foreign(self, item: Any, path: str) -> dict[str, Any]:
        """Return the node of a class, a function, or an object of a class that a file may name."""
        if isinstance(item, Given):
            name = item.name or classes.function_name(item.item, path)
            return self._given(name, item.item, path)
        if isinstance(item, type) and classes.is_type(item):
            return {"kind": "type", "name": classes.name_of(item)}
        name = classes.function_path(item)
        if name is not None:
            return {"kind": "function", "name": name}
        if not classes.has_state(item):
            if not callable(item):
                raise TypeError(classes.refusal(item, path, self.candidates))
            return self._given(classes.function_name(item, path), item, path)
        dot = f"{path}." if path else ""
        state = classes.state_of(item, self.candidates, path)
        node = self._class(type(item), path)
        node["state"] = {name: self.value(one, dot + name) for name, one in state.items()}
        return node

    def _class(self, kind: type, path: str) -> dict[str, Any]:
        if classes.is_saved(kind):
            return {"kind": "object", "class": classes.name_of(kind)}
        self._given(kind.__name__, kind, path)
        return {"kind": "own", "class": kind.__name__}

    def _given(self, name: str, item: Any, path: str) -> dict[str, Any]:
        """Return the node of something that is not saved, but given by name at load."""
        if self.needs.setdefault(name, item) is not item:
            raise TypeError(
                f"{path} is {item!r}, and the model has another function or class of the name "
                f"{name!r}. Functions are not saved but given to skout.load by name: rename one."
            )
        return {"kind": "given", "name": name}

    # Many alike -----------------------------------------------------------------------------------

    def _items(self, items: Sequence[Any], path: str) -> dict[str, Any]:
        if len(items) >= _FEW:
            return {"n": len(items), "column": self.column(items, path)}
        return {"items": [self.value(one, f"{path}[{i}]") for i, one in enumerate(items)]}

    def column(self, items: Sequence[Any], path: str) -> dict[str, Any]:
        """Return the JSON of many values, in arrays where they are alike.

        {"same": value}, {"numbers": array}, {"arrays": all of them, one after the other},
        {"lists": "list", "of": the column of all their items}, {"class": ..., "columns": one for
        each attribute}, or {"each": values}.
        """
        self._go_down(path)
        found = self._alike(items, path) if len({type(one) for one in items}) == 1 else None
        if found is None:
            found = {"each": [self.value(one, f"{path}[{i}]") for i, one in enumerate(items)]}
        self._depth -= 1
        return found

    def _alike(self, items: Sequence[Any], path: str) -> dict[str, Any] | None:
        first = items[0]
        kind = type(first)
        if kind in _EQUAL and all(one == first for one in items):
            return {"same": self.value(first, path)}
        if kind is float or (kind is int and max(map(abs, items)) < _LARGE):
            numbers = np.array(items, dtype=np.float64 if kind is float else np.int64)
            return {"numbers": self.value(numbers, path), "python": True}
        if issubclass(kind, np.number | np.bool_) and _SIMPLE.fullmatch(first.dtype.str):
            return {"numbers": self.value(np.array(items), path), "python": False}
        distinct = {id(one) for one in items}
        if len(distinct) == 1:
            return {"same": self.value(first, path)}
        if len(distinct) < len(items) or any(one in self._written for one in distinct):
            return None
        if kind is np.ndarray:
            return self._joined(items, path)
        if kind in (list, tuple):
            ends = np.cumsum([len(one) for one in items])
            flat = [inner for one in items for inner in one]
            return {
                "lists": _CONTAINERS[kind],
                "ends": self.value(ends, path),
                "of": self.column(flat, path),
            }
        if isinstance(first, type) or not classes.has_state(first):
            return None
        states = [classes.state_of(one, self.candidates, path) for one in items]
        if any(state.keys() != states[0].keys() for state in states):
            return None
        columns = {
            name: self.column([state[name] for state in states], f"{path}.{name}")
            for name in states[0]
        }
        return {**self._class(kind, path), "columns": columns}

    def _joined(self, arrays: Sequence[np.ndarray], path: str) -> dict[str, Any] | None:
        """Return arrays of one dtype and width as one array, or those of objects as a column."""
        first = arrays[0]
        if first.dtype == object and all(one.shape == first.shape for one in arrays):
            flat = [inner for one in arrays for inner in one.ravel()]
            return {
                "lists": "objects",
                "shape": list(first.shape),
                "of": self.column(flat, path),
            }
        is_plain = first.ndim > 0 and (first.dtype.fields or first.dtype.kind in "biufc")
        if is_plain and all(
            one.dtype == first.dtype and one.shape[1:] == first.shape[1:] and one.flags.c_contiguous
            for one in arrays
        ):
            ends = np.cumsum([len(one) for one in arrays])
            whole = np.empty((ends[-1], *first.shape[1:]), first.dtype)  # with its padding
            np.concatenate(arrays, out=whole)
            return {"arrays": self.value(whole, path), "ends": self.value(ends, path)}
        return None

    # Arrays ---------------------------------------------------------------------------------------

    def _array(self, array: np.ndarray, path: str) -> dict[str, Any]:
        shape = list(array.shape)
        if array.dtype == object:
            return {"kind": "objects", "shape": shape, **self._items(array.ravel(), path)}
        if array.dtype.fields:
            return self._record(array, path)
        if array.dtype.itemsize == 0:  # empty texts
            array = array.astype(f"{array.dtype.kind}1")
        dtype = _dtype_name(array.dtype, path)
        array = array.astype(np.dtype(dtype), copy=False)
        # in the order in which it is now: products could round differently in the other
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        stored = array.T if order == "F" else array
        stored = stored if stored.flags.c_contiguous else stored.copy(order="C")
        name = str(len(self.arrays))
        self.arrays[name] = _as_numbers(stored) if stored.dtype.kind in "cUS" else stored
        return {"kind": "array", "array": name, "dtype": dtype, "shape": shape, "order": order}

    def _record(self, array: np.ndarray, path: str) -> dict[str, Any]:
        """Return the node of an array of records, field by field: padding is not stored."""
        dtype, names = array.dtype, array.dtype.names or ()
        is_aligned = dtype == np.dtype([(name, dtype[name]) for name in names], align=True)
        fields = [[name, self.value(np.ascontiguousarray(array[name]), path)] for name in names]
        return {"kind": "record", "aligned": is_aligned, "fields": fields}

    def _generator(self, item: Any, path: str) -> dict[str, Any]:
        legacy = isinstance(item, np.random.RandomState)
        state = item.get_state(legacy=False) if legacy else item.bit_generator.state
        if state["bit_generator"] not in _BIT_GENERATORS:
            raise TypeError(f"{path} is {item}, a random generator that cannot be saved.")
        return {"kind": "generator", "legacy": legacy, "state": self.value(state, path)}


class Reader:
    """Make a model of nodes and arrays, and of functions and classes that are given by name."""

    def __init__(self, arrays: Mapping[str, np.ndarray], given: Mapping[str, Any]) -> None:
        self.arrays = arrays
        self.given = given
        self._made: list[Any] = []
        # of each node: the items of a container and of those in it, and its levels
        self._sizes: list[tuple[int, int]] = []
        self._items, self._levels = 0, 0  # of the node that is read
        stored = sum(array.nbytes for name, array in arrays.items() if name != "structure")
        self._left = _SPARE + _COPIES * stored
        self._most = _ITEMS + _COPIES * sum(array.size for array in arrays.values())

    def model(self, structure: dict[str, Any]) -> Any:
        """Return the model of a structure."""
        for node in structure["nodes"]:
            kind = node["kind"]
            if kind not in _READERS:
                raise FileError(f"The file has a part of the unknown kind {kind!r}.")
            self._items, self._levels = 0, 0
            made = _READERS[kind](self, node)
            self._made.append(made)
            self._sizes.append(self._size(made))
        return self.value(structure["root"])

    def _size(self, made: Any) -> tuple[int, int]:
        """Return the size of a node; only what arrays and hashes go through counts by its items."""
        if isinstance(made, np.ndarray) and made.dtype != object:
            return max(1, made.size), 0
        is_container = isinstance(made, list | tuple | set | frozenset | dict | np.ndarray)
        return (1 + self._items, 1 + self._levels) if is_container else (1, 0)

    def value(self, spec: Any) -> Any:
        """Return the value that JSON stands for."""
        if not isinstance(spec, dict):
            if isinstance(spec, list):
                raise FileError("The file has a bare list where a value should be.")
            self._items += 1
            return spec
        ((tag, content),) = spec.items()
        if tag == "ref":
            if type(content) is not int or not 0 <= content < len(self._made):
                raise FileError(f"The file refers to part {content!r}, which does not come before.")
            items, levels = self._sizes[content]
            self._count(items)
            self._levels = max(self._levels, levels)
            if self._levels > _LEVELS:
                raise FileError(f"The file has containers in more than {_LEVELS} levels.")
            return self._made[content]
        if tag not in _TAGS:
            raise FileError(f"The file has a value of the unknown kind {tag!r}.")
        return _TAGS[tag](content)

    def _count(self, n_items: int) -> None:
        """Raise where containers that share their parts are much larger than the file.

        A list that has another one twice, which has another one twice, and so on, takes a line for
        each, and all memory where it becomes an array; the hash of such a tuple never ends.
        """
        self._items += n_items
        if self._items > self._most:
            raise FileError(
                f"The file has a container with more than {self._most} items, which share their "
                "parts."
            )

    def charge(self, n_bytes: int) -> None:
        """Raise where copies, each a line of the file, would take much more than its arrays."""
        self._left -= n_bytes
        if self._left < 0:
            raise FileError("The file has the same arrays in so many parts that memory would end.")

    def values(self, specs: Iterable[Any]) -> list[Any]:
        return [self.value(spec) for spec in specs]

    def items(self, node: dict[str, Any]) -> list[Any]:
        """Return the items of a list."""
        return self.column(node["column"], node["n"]) if "n" in node else self.values(node["items"])

    def column(self, spec: dict[str, Any], n: int) -> list[Any]:
        """Return the n values of a column."""
        if type(n) is not int or n < 0:
            raise FileError(f"The file has a column of {n!r} values.")
        self.charge(_ITEM_BYTES * n)
        values: list[Any] = []
        if "each" in spec:
            values = self.values(spec["each"])
        elif "same" in spec:
            before = self._items
            values = [self.value(spec["same"])] * n
            self._count((n - 1) * (self._items - before))
        elif "numbers" in spec:
            numbers = self._array_of(spec["numbers"])
            values = numbers.tolist() if spec["python"] else list(numbers)
        elif "arrays" in spec:
            whole = self._array_of(spec["arrays"])
            values = _parts(whole, self._array_of(spec["ends"]))
        elif "lists" in spec:
            values = self._lists(spec, n)
        elif "columns" in spec:
            values = self.objects(
                spec, {k: self.column(one, n) for k, one in spec["columns"].items()}, n
            )
        if len(values) != n:
            raise FileError(f"The file has a column of {len(values)} values in place of {n}.")
        return values

    def _lists(self, spec: dict[str, Any], n: int) -> list[Any]:
        self._levels += 1
        if spec["lists"] == "objects":
            shape = tuple(spec["shape"])
            items = self.column(spec["of"], n * math.prod(shape))
            size = math.prod(shape)
            return [_object_array(items[size * i : size * (i + 1)], shape) for i in range(n)]
        make, ends = _SEQUENCES[spec["lists"]], self._array_of(spec["ends"])
        total = int(ends[-1]) if len(ends) else 0
        return [make(part) for part in _parts(self.column(spec["of"], total), ends)]

    def objects(self, spec: dict[str, Any], columns: dict[str, list[Any]], n: int) -> list[Any]:
        """Return objects of one class, whose attributes are in columns."""
        self._levels = 0  # hashes and arrays do not go through objects
        kind = classes.class_of(spec["class"]) if spec["kind"] == "object" else self._own(spec)
        if classes.is_rebuilt(kind):
            self.charge(_size_of(columns))
        return classes.restored(kind, columns, n)

    def _own(self, spec: dict[str, Any]) -> type:
        """Return a class of the user's, which must have been given."""
        name = spec["class"]
        kind = self.given.get(name)
        if kind is None:
            raise FileError(f"The file asks for {name!r} without saying that it needs it.")
        if not isinstance(kind, type) or not classes.is_part(kind):
            raise FileError(
                f"modules must have the class {name!r} of a kernel, sketch, loss, decoder, rows or "
                f"another estimator. Got {kind!r} instead."
            )
        return kind

    def _array_of(self, spec: Any) -> np.ndarray:
        array = self.value(spec)
        if not isinstance(array, np.ndarray):
            raise FileError("The file has a column of what is no array.")
        return array

    def array(self, node: dict[str, Any]) -> np.ndarray:
        raw, shape = self.arrays[node["array"]], tuple(node["shape"])
        dtype = _simple_dtype(node["dtype"])
        if raw.dtype != _stored_as(dtype):
            raise FileError(f"An array of {dtype} is stored as {raw.dtype}.")
        if dtype.kind == "U" and raw.max(initial=0) > _LAST_CHARACTER:
            raise FileError("The file has text with characters that do not exist.")
        if raw.size * raw.itemsize != math.prod(shape) * dtype.itemsize:
            raise FileError(f"An array of shape {shape} is stored with shape {raw.shape}.")
        return raw.reshape(-1).view(dtype).reshape(shape, order=node["order"])


def _parts(whole: Any, ends: np.ndarray) -> list[Any]:
    """Return the parts of an array or a list, given where each of them ends."""
    steps = np.diff(ends, prepend=0)
    if ends.ndim != 1 or ends.dtype.kind not in "iu" or np.any(steps < 0):
        raise FileError("The file has a column whose parts overlap.")
    stops = ends.tolist()
    if (stops[-1] if stops else 0) != len(whole):
        raise FileError("The file has a column whose parts are not all of it.")
    return [whole[a:b] for a, b in zip([0, *stops], stops, strict=False)]


def _size_of(columns: Mapping[str, list[Any]]) -> int:
    """Return the bytes of the arrays in attributes."""
    values = [one for column in columns.values() for one in column]
    inner = [more for one in values if isinstance(one, dict) for more in one.values()]
    return sum(one.nbytes for one in (*values, *inner) if isinstance(one, np.ndarray))


# Values inside others -----------------------------------------------------------------------------


def _str(item: str) -> Any:
    if item.isascii() or not any("\ud800" <= character <= "\udfff" for character in item):
        return item
    return {"text": item.encode("utf-32-le", "surrogatepass").hex()}  # JSON would join halves


# Values of these types that are equal are the same; 0.0 and -0.0 are not.
_EQUAL = {int, str, bytes, bool, type(None)}
_INLINE: dict[type, Callable[[Any], Any]] = {
    # other readers of JSON may know no larger numbers, and none that are not finite
    int: lambda item: item if -_LARGE < item < _LARGE else {"int": hex(item)},
    float: lambda item: item if math.isfinite(item) else {"float": struct.pack(">d", item).hex()},
    str: _str,
    bytes: lambda item: {"bytes": item.hex()},
}


def _scalar(content: Any) -> Any:
    name, text = content
    dtype, data = _simple_dtype(name), bytes.fromhex(text)
    if len(data) != dtype.itemsize:
        raise FileError(f"A number of {dtype} is stored in {len(data)} bytes.")
    return np.frombuffer(data, dtype)[0]


_TAGS: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": lambda text: struct.unpack(">d", bytes.fromhex(text))[0],
    "text": lambda text: bytes.fromhex(text).decode("utf-32-le", "surrogatepass"),
    "bytes": bytes.fromhex,
    "scalar": _scalar,
}


# Dtypes -------------------------------------------------------------------------------------------


def _dtype_name(dtype: np.dtype, path: str) -> str:
    """Return the name of a simple dtype, little-endian."""
    name = dtype.newbyteorder("<").str
    if name == "|O":
        return name
    if dtype.fields or not _SIMPLE.fullmatch(name):
        raise TypeError(
            f"{path} has the dtype {dtype}, which cannot be saved. Make it numbers or text."
        )
    return name


def _simple_dtype(name: str) -> np.dtype:
    if not _SIMPLE.fullmatch(name):
        raise FileError(f"The file has the unknown dtype {name!r}.")
    return np.dtype(name)


def _stored_as(dtype: np.dtype) -> np.dtype:
    """Return the dtype of safetensors in which an array lies in the file."""
    if dtype.kind == "c":
        return np.dtype(f"<f{dtype.itemsize // 2}")
    return {"U": DTYPES["U32"], "S": DTYPES["U8"]}.get(dtype.kind, dtype)


def _as_numbers(array: np.ndarray) -> np.ndarray:
    """Return a contiguous array with an axis more for the parts of its items."""
    stored = _stored_as(array.dtype)
    n_parts = array.dtype.itemsize // stored.itemsize
    return array.reshape(-1).view(stored).reshape(*array.shape, n_parts)


# Nodes --------------------------------------------------------------------------------------------


def _read_items(make: Callable[[list[Any]], Any], reader: Reader, node: dict[str, Any]) -> Any:
    return make(reader.items(node))


def _read_dict(reader: Reader, node: dict[str, Any]) -> dict[Any, Any]:
    pairs = [(reader.value(key), reader.value(one)) for key, one in node["items"]]
    made = dict(pairs)
    if len(made) < len(pairs):
        raise FileError("The file has a dictionary with the same key twice.")
    return made


def _object_array(items: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    if math.prod(shape) != len(items):
        raise FileError(f"An array of shape {shape} is stored with {len(items)} items.")
    flat = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # which may be sequences, to be left alone
        flat[i] = item
    return flat.reshape(shape)


def _read_record(reader: Reader, node: dict[str, Any]) -> np.ndarray:
    fields = {name: reader.value(spec) for name, spec in node["fields"]}
    if not all(isinstance(one, np.ndarray) and one.dtype != object for one in fields.values()):
        raise FileError("The file has records of what are no arrays.")
    dtype = np.dtype([(name, one.dtype) for name, one in fields.items()], align=node["aligned"])
    shape = next(iter(fields.values())).shape
    reader.charge(math.prod(shape) * dtype.itemsize)
    records = np.zeros(shape, dtype)
    for name, one in fields.items():
        if one.shape != shape:
            raise FileError(f"The file has records with {one.shape} of {name!r}, not {shape}.")
        records[name] = one
    return records


def _read_slice(reader: Reader, node: dict[str, Any]) -> slice:
    start, stop, step = reader.values(node["items"])
    if not all(one is None or isinstance(one, int | str) for one in (start, stop, step)):
        raise FileError("The file has a slice between what are neither positions nor names.")
    return slice(start, stop, step)


def _read_sparse(reader: Reader, node: dict[str, Any]) -> Any:
    parts = tuple(reader.value(node[name]) for name in ("data", "indices", "indptr"))
    if not all(isinstance(part, np.ndarray) for part in parts):
        raise FileError("The file has a sparse matrix of what are no arrays.")
    matrix = _SPARSE[node["kind"]](parts, shape=tuple(node["shape"]))
    matrix.check_format(full_check=True)  # SciPy reads beyond the end where positions are wrong
    return matrix


def _read_generator(reader: Reader, node: dict[str, Any]) -> Any:
    state = reader.value(node["state"])
    bits = _BIT_GENERATORS[state["bit_generator"]](0)
    if node["legacy"]:
        generator = np.random.RandomState(bits)
        generator.set_state(state)
        return generator
    bits.state = state
    return np.random.Generator(bits)


def _read_object(reader: Reader, node: dict[str, Any]) -> Any:
    return reader.objects(node, {k: [reader.value(one)] for k, one in node["state"].items()}, 1)[0]


def _read_partial(reader: Reader, node: dict[str, Any]) -> Any:
    return functools.partial(classes.class_of(node["class"]), **reader.value(node["keywords"]))


def _read_dtype(reader: Reader, node: dict[str, Any]) -> np.dtype:
    return np.dtype(object) if node["name"] == "|O" else _simple_dtype(node["name"])


def _read_given(reader: Reader, node: dict[str, Any]) -> Any:
    if node["name"] not in reader.given:
        raise FileError(f"The file asks for {node['name']!r} without saying that it needs it.")
    return reader.given[node["name"]]


_READERS: dict[str, Callable[[Reader, dict[str, Any]], Any]] = {
    **{name: functools.partial(_read_items, kind) for kind, name in _CONTAINERS.items()},
    "dict": _read_dict,
    "array": Reader.array,
    "objects": lambda reader, node: _object_array(reader.items(node), tuple(node["shape"])),
    "record": _read_record,
    "slice": _read_slice,
    "dtype": _read_dtype,
    **dict.fromkeys(_SPARSE, _read_sparse),
    "generator": _read_generator,
    "type": lambda reader, node: classes.type_of(node["name"]),
    "function": lambda reader, node: classes.function_of(node["name"]),
    "given": _read_given,
    "partial": _read_partial,
    **dict.fromkeys(("object", "own"), _read_object),
}
