"""Descriptions of saved models: the tree of their parts, with sizes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .._numerics.typing import Json
from .files import FileError, Node, Value

# Levels, items of a container and characters of a value up to which they are shown.
_MAX_DEPTH, _SHOWN, _LETTERS = 32, 8, 60
# Fields with a value, in nodes that are neither containers nor objects.
_FIELDS = ("data", "indices", "indptr", "keywords")


def parts_of(structure: Node, arrays: Mapping[str, np.ndarray]) -> Node:
    """Return the tree {"name", "what", "bytes", "parts"} of a model; shared parts count once."""
    return _Walk(structure["nodes"], arrays).part("model", structure["root"], 0)


class _Walk:
    """Describes nodes from the root of a structure on, each node once."""

    def __init__(self, nodes: list[Node], arrays: Mapping[str, np.ndarray]) -> None:
        self.nodes, self.arrays = nodes, arrays
        self.seen: dict[int, str] = {}

    def part(self, name: str, spec: Json, depth: int) -> Node:
        """Return the description of a value and its parts."""
        if not isinstance(spec, dict) or "ref" not in spec:
            return _leaf(name, _shortened(spec))
        number = spec["ref"]
        if number in self.seen:
            return _leaf(name, f"the same as {self.seen[number]}")
        node = self.nodes[number]
        self.seen[number] = name
        if depth == _MAX_DEPTH:
            return _leaf(name, "...")
        inner = [self.part(*pair, depth + 1) for pair in self._inside(node)]
        size = sum(part["bytes"] for part in inner)
        if node["kind"] == "array":
            array = self.arrays[node["array"]]
            size, node = array.nbytes, {"dtype": array.dtype, "shape": array.shape, **node}
        shown = inner if node["kind"] not in ("list", "tuple", "dict") else inner[:_SHOWN]
        shown = [] if "column" in node else shown
        return {"name": name, "what": _what(node), "bytes": size, "parts": shown}

    def _inside(self, node: Node) -> list[tuple[str, Json]]:
        """Return the names and values of the parts of a node that are shown."""
        kind = node["kind"]
        if kind in ("object", "own"):
            return list(node["state"].items())
        if kind == "dict":
            return [(_shortened(key), value) for key, value in node["items"]]
        if "column" in node:
            return [("", spec) for spec in _references(node["column"])]
        if kind in ("list", "tuple"):
            return [(f"[{i}]", v) for i, v in enumerate(node["items"]) if isinstance(v, dict)]
        if kind == "record":
            return [(name, spec) for name, _, spec in node["fields"]]
        return [(name, node[name]) for name in _FIELDS if name in node]


def _references(column: Json) -> list[Value]:
    """Return the references to nodes in a column."""
    if isinstance(column, dict) and "ref" in column:
        return [column]
    inner = column.values() if isinstance(column, dict) else column
    return [ref for part in inner if isinstance(part, dict | list) for ref in _references(part)]


def _leaf(name: str, what: str) -> Node:
    """Return the description of a value without parts."""
    return {"name": name, "what": what, "bytes": 0, "parts": []}


def _what(node: Node) -> str:
    """Return one line that describes a node of a file: its class and its size."""
    kind = node["kind"]
    if kind == "array":
        shape = " x ".join(map(str, node["shape"])) or "one"
        return f"{np.dtype(str(node['dtype'])).name} array, {shape}"
    if kind in ("object", "own", "partial"):
        return str(node["class"]).rpartition(".")[2]
    if kind in ("given", "named", "dtype"):
        return f"{kind} {node['name']}"
    if kind == "record":
        return f"records of {', '.join(name for name, *_ in node['fields'])}"
    if "n" in node:
        return f"{kind} of {node['n']}{_of(node['column'])}"
    if kind == "generator":
        return "random generator"
    if "shape" in node:
        return f"{kind} {tuple(node['shape'])}"
    if "items" not in node:
        raise FileError(f"The file has a part of the unknown kind {kind!r}.")
    few = [_shortened(item) for item in node["items"][:3] if not isinstance(item, dict | list)]
    return _shortened_text(f"{kind} of {len(node['items'])}" + (f": {', '.join(few)}" * bool(few)))


def _of(column: Node) -> str:
    """Return the class of the objects in a column or its lists, after a blank; "" if mixed."""
    while "of" in column:
        column = column["of"]
    return f" {column['class'].rpartition('.')[2]}" if "class" in column else ""


def _shortened(spec: Json) -> str:
    return _shortened_text(str(next(iter(spec.values()))) if isinstance(spec, dict) else repr(spec))


def _shortened_text(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 3] + "..."
