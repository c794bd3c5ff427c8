"""The reader of models from JSON and arrays, see `writing`: everything is checked."""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.typing import Json
from . import classes
from .files import DTYPES, FileError, Node, Value

# A crafted file must not fill the memory. Bytes that a model may allocate beside the arrays of its
# file: 256 MiB, and 32 times the arrays, far more than any model of ours does.
_SPARE, _COPIES = 2**28, 32
# Bytes of an item of a column: a pointer, and a small object.
_ITEM_BYTES = 64
# Items that a container may have, all levels together: ten million, and `_COPIES` times those of
# the file; and levels of nesting, since hashing a tuple takes a stack frame for each.
_ITEMS, _LEVELS = 10_000_000, 1000
CONTAINERS: dict[type, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
MAKE = {name: kind for kind, name in CONTAINERS.items()}
SPARSE = {name: getattr(sparse, name) for name in ("csr_matrix", "csr_array", "csc_matrix")}
BIT_GENERATORS = {
    name: getattr(np.random, name) for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
}
#: Booleans, numbers, complex numbers and text of fixed length, in little-endian order.
SIMPLE = re.compile(r"\|b1|[|<][iu][1248]|<f[248]|<c(8|16)|<U\d{1,9}|\|S\d{1,9}")
_LAST_CHARACTER = 0x10FFFF


class Reader:
    """Builds a model from nodes and arrays, and from functions and classes passed to `load`."""

    def __init__(self, arrays: Mapping[str, np.ndarray], provided: Mapping[str, object]) -> None:
        self.arrays = arrays
        self.provided = provided
        self._made: list[Any] = []
        # items and levels of nesting of each node, and of the one that is being read
        self._sizes: list[tuple[int, int]] = []
        self._items, self._levels = 0, 0
        stored = sum(array.nbytes for name, array in arrays.items() if name != "structure")
        self._left = _SPARE + _COPIES * stored
        self._most = _ITEMS + _COPIES * sum(array.size for array in arrays.values())

    def model(self, structure: Node) -> Value:
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

    def _size(self, made: object) -> tuple[int, int]:
        """Return the numbers of items and levels of a node; objects count as one item."""
        if isinstance(made, np.ndarray) and made.dtype != object:
            return max(1, made.size), 0
        is_container = isinstance(made, list | tuple | set | frozenset | dict | np.ndarray)
        return (1 + self._items, 1 + self._levels) if is_container else (1, 0)

    def value(self, spec: Json) -> Json:
        """Return the value of JSON: itself, a node that it refers to, or a tagged value."""
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
        """Count items, and raise where containers that share parts have far more than the file.

        A list that has another one twice, which has another one twice, and so on, takes a line for
        each, and all memory where it becomes an array; the hash of such a tuple never ends.
        """
        self._items += n_items
        if self._items > self._most:
            what = f"a container with more than {self._most} items, which share their parts"
            raise FileError(f"The file has {what}.")

    def charge(self, n_bytes: int) -> None:
        """Count bytes of copies, and raise where there are far more of them than in the file."""
        self._left -= n_bytes
        if self._left < 0:
            raise FileError("The file has the same arrays in so many parts that memory would end.")

    def values(self, specs: Iterable[Json]) -> list[Value]:
        """Return the values of a list of JSON."""
        return [self.value(spec) for spec in specs]

    def items(self, node: Node) -> list[Value]:
        """Return the items of a list."""
        return self.column(node["column"], node["n"]) if "n" in node else self.values(node["items"])

    def column(self, spec: Node, n: int) -> list[Value]:
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
            values = _parts(self._array_of(spec["arrays"]), self._array_of(spec["ends"]))
        elif "lists" in spec:
            values = self._lists(spec, n)
        elif "columns" in spec:
            values = self.objects(spec, n)
        if len(values) != n:
            raise FileError(f"The file has a column of {len(values)} values in place of {n}.")
        return values

    def _lists(self, spec: Node, n: int) -> list[Value]:
        """Return n lists, tuples or arrays of objects, from one column of all their items."""
        before, self._levels = self._levels, 0
        if spec["lists"] == "objects":
            shape = tuple(spec["shape"])
            size = math.prod(shape)
            items = self.column(spec["of"], n * size)
            made = [_object_array(items[size * i : size * (i + 1)], shape) for i in range(n)]
        else:
            ends = self._array_of(spec["ends"])
            items = self.column(spec["of"], int(ends[-1]))
            made = [MAKE[spec["lists"]](part) for part in _parts(items, ends)]
        self._levels = max(before, self._levels + 1)
        return made

    def objects(self, spec: Node, n: int) -> list[Value]:
        """Return n objects of one class, from columns of attributes or the attributes of one."""
        before, self._levels = self._levels, 0
        kind = classes.class_of(spec["class"]) if spec["kind"] == "object" else self._own(spec)
        if "columns" in spec:
            columns = {name: self.column(column, n) for name, column in spec["columns"].items()}
        else:
            columns = {name: [self.value(column)] for name, column in spec["state"].items()}
        # hashes and arrays do not go through objects
        self._levels = max(before, self._levels + 1 if issubclass(kind, tuple) else 0)
        if classes.is_rebuilt(kind):
            self.charge(_size_of(columns))
        return classes.restored(kind, columns, n)

    def _own(self, spec: Node) -> type:
        """Return a user's class that was passed to `load`, or raise."""
        name = spec["class"]
        kind: Any = self.provided.get(name)
        if kind is None:
            raise FileError(f"The file asks for {name!r} without saying that it needs it.")
        if not isinstance(kind, type) or not classes.is_part(kind):
            raise FileError(
                f"modules must have the class {name!r} of a kernel, sketch, loss, decoder, rows or "
                f"another estimator. Got {kind!r} instead."
            )
        return kind

    def _array_of(self, spec: Json) -> np.ndarray:
        array = self.value(spec)
        if not isinstance(array, np.ndarray):
            raise FileError("The file has a column of what is no array.")
        return array

    def array(self, node: Node) -> np.ndarray:
        """Return the array of a node, in its dtype and shape."""
        raw = self.arrays[node["array"]]
        if "dtype" not in node:
            return raw
        dtype, shape = _simple_dtype(node["dtype"]), tuple(node["shape"])
        if raw.dtype != stored_as(dtype):
            raise FileError(f"An array of {dtype} is stored as {raw.dtype}.")
        if dtype.kind == "U" and raw.max(initial=0) > _LAST_CHARACTER:
            raise FileError("The file has text with characters that do not exist.")
        if raw.size * raw.itemsize != math.prod(shape) * dtype.itemsize:
            raise FileError(f"An array of shape {shape} is stored with shape {raw.shape}.")
        return raw.reshape(-1).view(dtype).reshape(shape, order=node["order"])


def _parts(whole: Value, ends: np.ndarray) -> list[Value]:
    """Return the slices of an array or a list that end at these positions."""
    stops = np.append(0, ends).astype(np.int64)
    is_split = ends.ndim == 1 and ends.dtype.kind in "iu" and not np.any(stops[1:] < stops[:-1])
    if not is_split or stops[-1] != len(whole):
        raise FileError("The file has a column whose parts are not one after the other.")
    return [whole[a:b] for a, b in pairwise(stops.tolist())]


def _size_of(columns: Mapping[str, list[Value]]) -> int:
    """Return the bytes of the arrays in attributes."""
    values = [value for column in columns.values() for value in column]
    values += [inner for value in values if isinstance(value, dict) for inner in value.values()]
    return sum([value.nbytes for value in values if isinstance(value, np.ndarray)])


def _simple_dtype(name: str) -> np.dtype:
    if not SIMPLE.fullmatch(name):
        raise FileError(f"The file has the unknown dtype {name!r}.")
    return np.dtype(name)


def stored_as(dtype: np.dtype) -> np.dtype:
    """Return the dtype of safetensors that an array is stored in."""
    if dtype.kind == "c":
        return np.dtype(f"<f{dtype.itemsize // 2}")
    return {"U": DTYPES["U32"], "S": DTYPES["U8"]}.get(dtype.kind, dtype)


def _scalar(content: Json) -> Value:
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


# Nodes --------------------------------------------------------------------------------------------


def _read_dict(reader: Reader, node: Node) -> dict[Value, Value]:
    pairs = [(reader.value(key), reader.value(value)) for key, value in node["items"]]
    made = dict(pairs)
    if len(made) < len(pairs):
        raise FileError("The file has a dictionary with the same key twice.")
    return made


def _object_array(items: list[Value], shape: tuple[int, ...]) -> np.ndarray:
    if math.prod(shape) != len(items):
        raise FileError(f"An array of shape {shape} is stored with {len(items)} items.")
    flat = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # which may be sequences, to be left alone
        flat[i] = item
    return flat.reshape(shape)


def _read_record(reader: Reader, node: Node) -> np.ndarray:
    fields = {name: reader.value(spec) for name, _, spec in node["fields"]}
    if not all(
        isinstance(column, np.ndarray) and column.dtype != object for column in fields.values()
    ):
        raise FileError("The file has records of what are no arrays.")
    dtypes = [(name, _simple_dtype(dtype)) for name, dtype, _ in node["fields"]]
    dtype = np.dtype(dtypes, align=node["aligned"])
    shape = next(iter(fields.values())).shape
    reader.charge(math.prod(shape) * dtype.itemsize)
    records = np.zeros(shape, dtype)
    for name, column in fields.items():
        if column.shape != shape:
            raise FileError(f"The file has records with {column.shape} of {name!r}, not {shape}.")
        records[name] = column
    return records


def _read_slice(reader: Reader, node: Node) -> slice:
    start, stop, step = reader.values(node["items"])
    if not all(end is None or isinstance(end, int | str) for end in (start, stop, step)):
        raise FileError("The file has a slice between what are neither positions nor names.")
    return slice(start, stop, step)


def _read_sparse(reader: Reader, node: Node) -> Value:
    parts = tuple(reader.value(node[name]) for name in ("data", "indices", "indptr"))
    if not all(isinstance(part, np.ndarray) for part in parts):
        raise FileError("The file has a sparse matrix of what are no arrays.")
    matrix = SPARSE[node["kind"]](parts, shape=tuple(node["shape"]))
    matrix.check_format(full_check=True)  # SciPy reads beyond the end where positions are wrong
    return matrix


def _read_generator(reader: Reader, node: Node) -> Value:
    state = reader.value(node["state"])
    bits = BIT_GENERATORS[state["bit_generator"]](0)
    if node["legacy"]:
        generator = np.random.RandomState(bits)
        generator.set_state(state)
        return generator
    bits.state = state
    return np.random.Generator(bits)


def _read_dtype(reader: Reader, node: Node) -> np.dtype:
    return np.dtype(object) if node["name"] == "|O" else _simple_dtype(node["name"])


def _read_given(reader: Reader, node: Node) -> Value:
    if node["name"] not in reader.provided:
        raise FileError(f"The file asks for {node['name']!r} without saying that it needs it.")
    return reader.provided[node["name"]]


_READERS: dict[str, Callable[[Reader, dict[str, Any]], Any]] = {
    **dict.fromkeys(MAKE, lambda reader, node: MAKE[node["kind"]](reader.items(node))),
    "dict": _read_dict,
    "array": Reader.array,
    "objects": lambda reader, node: _object_array(reader.items(node), tuple(node["shape"])),
    "record": _read_record,
    "slice": _read_slice,
    "dtype": _read_dtype,
    **dict.fromkeys(SPARSE, _read_sparse),
    "generator": _read_generator,
    "named": lambda reader, node: classes.value_of(node["name"]),
    "given": _read_given,
    "partial": lambda reader, node: functools.partial(
        classes.class_of(node["class"]), **reader.value(node["keywords"])
    ),
    **dict.fromkeys(("object", "own"), lambda reader, node: reader.objects(node, 1)[0]),
}
