"""Values as JSON and arrays, and back.

A structure is {"root": value, "nodes": [node, ...]}. A value is None, a boolean, a number, a text,
or an object with one key: {"ref": i} stands for node i. Nodes are what can be shared: containers,
arrays, objects. A node refers only to nodes before it, so that there are no cycles, and neither
reading nor writing it needs a deep stack.
"""

from __future__ import annotations

import functools
import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from ..decoding import FaissIndex
from . import foreign
from .classes import CLASSES, TYPES, name_of, public_name, restored, saved_state
from .files import DTYPES, FileError
from .nesting import too_nested

__all__ = ["Reader", "Writer"]

_MAX_DEPTH = 100
_LARGE = 2**63
# Bytes that parts may make beside the arrays of a file: so many, and this multiple of the arrays.
_SPARE, _COPIES = 2**28, 32
_CONTAINERS: dict[type, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
_SPARSE = {name: getattr(sparse, name) for name in ("csr_matrix", "csr_array", "csc_matrix")}
_BIT_GENERATORS = {
    kind.__name__: kind
    for kind in (
        np.random.MT19937,
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.Philox,
        np.random.SFC64,
    )
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
        self._known: dict[int, tuple[Any, int | None]] = {}
        self._depth = 0

    def structure(self, model: Any) -> dict[str, Any]:
        """Return the JSON of a model; its arrays are in `arrays`."""
        root = self.value(model, "")
        wrong = too_nested(self.nodes, self.arrays)
        if wrong is not None:
            raise TypeError(f"The model has {wrong}. It could not be loaded again.")
        return {"root": root, "nodes": self.nodes}

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
        if id(item) in self._known:
            number = self._known[id(item)][1]
            if number is None:
                raise TypeError(f"{path or 'model'} contains itself, which cannot be saved.")
            return number
        if self._depth == _MAX_DEPTH:
            raise TypeError(f"{path} is nested more than {_MAX_DEPTH} levels deep.")
        self._known[id(item)] = item, None
        self._depth += 1
        node = self.node(item, path)
        self._depth -= 1
        number = self.add(node)["ref"]
        self._known[id(item)] = item, number
        return number

    def node(self, item: Any, path: str) -> dict[str, Any]:
        """Return the JSON of an object that others may refer to."""
        kind = type(item)
        if kind in _CONTAINERS:
            items = [self.value(one, f"{path}[{i}]") for i, one in enumerate(item)]
            if kind in (set, frozenset):
                items.sort(key=json.dumps)  # so that equal sets make equal files
            return {"kind": _CONTAINERS[kind], "items": items}
        if kind is dict:
            pairs = [
                [self.value(key, f"{path} key"), self.value(one, f"{path}[{key!r}]")]
                for key, one in item.items()
            ]
            return {"kind": "dict", "items": pairs}
        if isinstance(item, np.ndarray) and not isinstance(item, np.ma.MaskedArray):
            return self._array(item, path)
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
        if isinstance(item, type) and TYPES.get(name_of(item)) is item:
            return {"kind": "type", "name": name_of(item)}
        if CLASSES.get(name_of(kind)) is kind:
            return self.object(name_of(kind), saved_state(item, self.candidates), path)
        return foreign.node(self, item, path)

    def object(self, name: str, state: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Return the node of an object with these attributes."""
        dot = f"{path}." if path else ""
        values = {attribute: self.value(one, dot + attribute) for attribute, one in state.items()}
        return {"kind": "object", "class": name, "state": values}

    def _array(self, item: np.ndarray, path: str) -> dict[str, Any]:
        array = np.asarray(item)
        shape = list(array.shape)
        if array.dtype == object:
            items = [self.value(one, f"{path}[{i}]") for i, one in enumerate(array.ravel())]
            return {"kind": "objects", "shape": shape, "items": items}
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

    def _generator(self, item: Any, path: str) -> dict[str, Any]:
        legacy = isinstance(item, np.random.RandomState)
        state = item.get_state(legacy=False) if legacy else item.bit_generator.state
        if state["bit_generator"] not in _BIT_GENERATORS:
            raise TypeError(f"{path} is {item}, a random generator that cannot be saved.")
        return {"kind": "generator", "legacy": legacy, "state": self.value(state, path)}

    def add(self, node: dict[str, Any]) -> dict[str, int]:
        """Add a node, and return the value that refers to it."""
        self.nodes.append(node)
        return {"ref": len(self.nodes) - 1}

    def given(self, name: str, item: Any, path: str) -> dict[str, Any]:
        """Return the node of something that is not saved, but given by name at load."""
        if self.needs.setdefault(name, item) is not item:
            raise TypeError(
                f"{path} is {item!r}, and the model has another function or class of the name "
                f"{name!r}. Functions are not saved but given to skout.load by name: rename one."
            )
        return {"kind": "given", "name": name}


class Reader:
    """Make a model of nodes and arrays, and of functions and classes that are given by name."""

    def __init__(self, arrays: Mapping[str, np.ndarray], given: Mapping[str, Any]) -> None:
        self.arrays = arrays
        self.given = given
        self._made: list[Any] = []
        stored = sum(array.nbytes for name, array in arrays.items() if name != "structure")
        self._left = _SPARE + _COPIES * stored

    def model(self, structure: dict[str, Any]) -> Any:
        """Return the model of a structure."""
        wrong = too_nested(structure["nodes"], self.arrays)
        if wrong is not None:
            raise FileError(f"The file has {wrong}.")
        for node in structure["nodes"]:
            kind = node["kind"]
            if kind not in _READERS:
                raise FileError(f"The file has a part of the unknown kind {kind!r}.")
            self._made.append(_READERS[kind](self, node))
        return self.value(structure["root"])

    def value(self, spec: Any) -> Any:
        """Return the value that JSON stands for."""
        if not isinstance(spec, dict):
            if isinstance(spec, list):
                raise FileError("The file has a bare list where a value should be.")
            return spec
        ((tag, content),) = spec.items()
        if tag == "ref":
            if type(content) is not int or not 0 <= content < len(self._made):
                raise FileError(f"The file refers to part {content!r}, which does not come before.")
            return self._made[content]
        if tag not in _TAGS:
            raise FileError(f"The file has a value of the unknown kind {tag!r}.")
        return _TAGS[tag](content)

    def charge(self, n_bytes: int) -> None:
        """Raise where copies, each a line of the file, would take much more than its arrays."""
        self._left -= n_bytes
        if self._left < 0:
            raise FileError("The file has the same arrays in so many parts that memory would end.")

    def values(self, specs: list[Any]) -> list[Any]:
        return [self.value(spec) for spec in specs]

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


# Values inside others -----------------------------------------------------------------------------


def _str(item: str) -> Any:
    if item.isascii() or not any("\ud800" <= character <= "\udfff" for character in item):
        return item
    return {"text": item.encode("utf-32-le", "surrogatepass").hex()}  # JSON would join halves


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


def _read_dict(reader: Reader, node: dict[str, Any]) -> dict[Any, Any]:
    pairs = [(reader.value(key), reader.value(one)) for key, one in node["items"]]
    found = dict(pairs)
    if len(found) < len(pairs):
        raise FileError("The file has a dictionary with the same key twice.")
    return found


def _read_objects(reader: Reader, node: dict[str, Any]) -> np.ndarray:
    items, shape = reader.values(node["items"]), tuple(node["shape"])
    if math.prod(shape) != len(items):
        raise FileError(f"An array of shape {shape} is stored with {len(items)} items.")
    flat = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # which may be sequences, to be left alone
        flat[i] = item
    return flat.reshape(shape)


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
    name = node["class"]
    state = {attribute: reader.value(spec) for attribute, spec in node["state"].items()}
    reader.charge(_grown(name, state))
    if name in CLASSES:
        return restored(CLASSES[name], state)
    return foreign.restored(name, state)


def _grown(name: str, state: dict[str, Any]) -> int:
    """Return the bytes that an object takes to build what it has for its rows, bins or words."""
    if public_name(name) == name_of(FaissIndex):
        return getattr(state.get("embedding_"), "nbytes", 0)
    n, *width = getattr(state.get("_fit_X"), "shape", (0,))  # of scikit-learn's neighbours
    leaf = state.get("leaf_size")
    n_leaves = n // max(leaf, 1) + 1 if isinstance(leaf, int) else n
    edges, words = state.get("bin_edges_", ()), state.get("vocabulary_", ())
    bins = sum(getattr(one, "nbytes", 0) for one in edges) if isinstance(edges, np.ndarray) else 0
    n_words = len(words) if isinstance(words, dict) else 0
    return 16 * n + 32 * n_leaves * sum(width) + 2 * bins + 8 * n_words


def _read_type(reader: Reader, node: dict[str, Any]) -> type:
    return TYPES[node["name"]] if node["name"] in TYPES else foreign.own_type(node["name"])


def _read_dtype(reader: Reader, node: dict[str, Any]) -> np.dtype:
    return np.dtype(object) if node["name"] == "|O" else _simple_dtype(node["name"])


def _read_items(kind: type, reader: Reader, node: dict[str, Any]) -> Any:
    return kind(reader.values(node["items"]))


_READERS: dict[str, Callable[[Reader, dict[str, Any]], Any]] = {
    **{name: functools.partial(_read_items, kind) for kind, name in _CONTAINERS.items()},
    "dict": _read_dict,
    "array": Reader.array,
    "objects": _read_objects,
    "slice": _read_slice,
    "dtype": _read_dtype,
    **dict.fromkeys(_SPARSE, _read_sparse),
    "generator": _read_generator,
    "type": _read_type,
    "object": _read_object,
    **foreign.READERS,
}
