"""Files of version 1 in the structure of version 2; nothing else knows of them.

They have names of classes without modules, trees node by node, networks as parts of their own, and
archives of skops for some estimators of scikit-learn.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.lib import format as npy
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

from .._numerics.arrays import row_slices
from .._numerics.saving import arrays_of, name_of, require, with_attributes
from .files import FileError, parse_json
from .values import Writer

__all__ = ["Bins", "BoostedTrees", "converted"]

# Where classes of version 1 are now: the first that has one of the name.
_MODULES = (
    *("skout", "skout.kernels", "skout.losses", "skout.sketches", "skout.decoding"),
    *("skout.predictors", "skout.solvers", "skout.basis", "skout.regressors", "skout._numerics"),
    *("skout.predictors.tuning", "skout.readers.encoder", "skout.readers.encoders", __name__),
)
_NETWORKS = ("Bottleneck", "CharTransformer", "MLP", "NeuralRegressor", "TextEncoder", "Training")
_OPTIMIZERS = "sklearn.neural_network._stochastic_optimizers."

_ROWS = 4096  # that boosted trees predict at a time

Node = dict[str, Any]


def converted(
    structure: dict[str, Any], arrays: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
    """Return the structure of a file of version 1, and its arrays, as version 2 has them."""
    converter = _Converter(structure["nodes"], arrays)
    for node in structure["nodes"]:
        converter.add(node)
    nodes = converter.writer.nodes
    return {"root": converter.moved(structure["root"]), "nodes": nodes}, converter.writer.arrays


class _Converter:
    """Nodes of version 1 one after the other; each may become several."""

    def __init__(self, nodes: list[Node], arrays: Mapping[str, np.ndarray]) -> None:
        self.old = nodes
        self.writer = Writer()
        self.writer.arrays = {name: one for name, one in arrays.items() if name != "structure"}
        self.numbers: list[int] = []  # of what the nodes became

    def add(self, node: Node) -> None:
        make = getattr(self, f"_{node['kind']}", self.moved)
        self.numbers.append(self._added(make(node))["ref"])

    def _added(self, node: Node) -> dict[str, int]:
        self.writer.nodes.append(node)
        return {"ref": len(self.writer.nodes) - 1}

    def moved(self, spec: Any) -> Any:
        """Return JSON that refers to nodes by their present numbers."""
        if isinstance(spec, list):
            return [self.moved(one) for one in spec]
        if not isinstance(spec, dict):
            return spec
        number = spec.get("ref")
        if type(number) is int and 0 <= number < len(self.numbers):
            return {"ref": self.numbers[number]}
        return {name: self.moved(one) for name, one in spec.items()}

    def _object(self, node: Node) -> Node:
        name, state = class_name(node["class"]), self.moved(node["state"])
        if name == "skout.KernelRidge" and ("_fitc" in state or state.get("variance") == "fast"):
            state["variance"] = "dtc"  # with any `variance`, predictions were those of "dtc"
        if name == "sklearn.preprocessing.KBinsDiscretizer" and "_encoder" in state:
            name = f"{__name__}.Bins"
        if name == "skout.deep.NeuralRegressor" and "module_" in state:
            network = self.old[node["state"]["module_"]["ref"]]
            if network["class"] is None:  # the user's
                del state["module_"]
                state["weights"] = self.moved(network["weights"])
        return {"kind": "object", "class": name, "state": state}

    def _type(self, node: Node) -> Node:
        return {"kind": "type", "name": class_name(node["name"])}

    def _partial(self, node: Node) -> Node:
        return {**self.moved(node), "class": class_name(node["class"])}

    def _network(self, node: Node) -> Node:
        if node["class"] is None:
            return {"kind": "list", "items": []}  # the weights are in the state of their owner
        state = {"config": self.moved(node["config"]), "weights": self.moved(node["weights"])}
        return {"kind": "object", "class": class_name(node["class"]), "state": state}

    def _tree(self, node: Node) -> Node:
        fields = self.moved(self.old[node["nodes"]["ref"]]["items"])
        state = {
            "n_features": node["n_features"],
            "n_classes": None,
            "nodes": self._added({"kind": "record", "aligned": True, "fields": fields}),
            "values": self.moved(node["values"]),
        }
        return {"kind": "object", "class": "sklearn.tree._tree.Tree", "state": state}

    def _spline(self, node: Node) -> Node:
        state = dict(self.moved(self.old[node["fields"]["ref"]]["items"]))
        return {"kind": "object", "class": "scipy.interpolate.BSpline", "state": state}

    def _imputer(self, node: Node) -> Node:
        names = ("feat_idx", "neighbor_feat_idx", "estimator")
        state = dict(zip(names, self.moved(node["items"]), strict=True))
        name = "sklearn.impute._iterative._ImputerTriplet"
        return {"kind": "object", "class": name, "state": state}

    def _sklearn(self, node: Node) -> Node:
        place = self.old[node["archive"]["ref"]]["array"]
        archive = _Archive(self.writer.arrays[place].tobytes(), self.writer)
        return self.writer.nodes[archive.value(archive.schema)["ref"]]


def class_name(name: str) -> str:
    """Return the present name of a class of version 1."""
    package, *_, last = name.split(".")
    if package == "sklearn" and not name.startswith(_OPTIMIZERS):
        public = name.partition("._")[0]
        return name if public == name else f"{public}.{last}"
    if package != "skout":
        return name
    last = last.removeprefix("_")
    for path in ["skout.deep"] if last in _NETWORKS else _MODULES:
        found = getattr(import_module(path), last, None)
        if isinstance(found, type):
            return name_of(found)
    return name


# Archives of skops --------------------------------------------------------------------------------


class _Archive:
    """An estimator of scikit-learn as skops has it: JSON, and arrays beside it."""

    def __init__(self, data: bytes, writer: Writer) -> None:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            is_plain = all(one.compress_type == zipfile.ZIP_STORED for one in members)
            fits = is_plain and sum(one.file_size for one in members) <= len(data)
            require(fits, "a compressed archive, which could be of any size")
            self.members = {one.filename: archive.read(one) for one in members}
        self.schema = parse_json(self.members["schema.json"])
        self.writer = writer
        self._arrays: dict[str, np.ndarray] = {}

    def value(self, part: dict[str, Any]) -> Any:
        """Return the value of version 2 that a part of the schema is."""
        loader = part["__loader__"]
        if loader not in _LOADERS:
            raise FileError(f"The file has an archive with a {loader}, which is not trusted.")
        made = _LOADERS[loader](self, part)
        if loader == "JsonNode" or (loader == "NdArrayNode" and part["type"] == "numpy"):
            return made
        self.writer.nodes.append(made)
        return {"ref": len(self.writer.nodes) - 1}

    def items(self, part: dict[str, Any]) -> dict[str, Any]:
        return {"items": [self.value(one) for one in part["content"]]}

    def pairs(self, part: dict[str, Any]) -> list[list[Any]]:
        """Return keys and values of a dictionary, whose keys are texts in JSON."""
        kinds = [one["__class__"] for one in part["key_types"]["content"]]
        keys = [
            key if kind == "str" else json.loads(key)
            for key, kind in zip(part["content"], kinds, strict=True)
        ]
        return [[k, self.value(v)] for k, v in zip(keys, part["content"].values(), strict=True)]

    def array(self, part: dict[str, Any]) -> Any:
        if part["type"] == "json":
            shape = [json.loads(one["content"]) for one in part["shape"]["content"]]
            return {"kind": "objects", "shape": shape, **self.items(part)}
        name = part["file"]
        if name not in self._arrays:
            self._arrays[name] = _array_in(self.members[name])
        array = self._arrays[name]
        return self.writer.value(array if part["__class__"] == "ndarray" else array[()], name)

    def object(self, part: dict[str, Any]) -> Node:
        state = {k: v for k, v in self.pairs(part["content"]) if k != "_sklearn_version"}
        name = class_name(f"{part['__module__']}.{part['__class__']}")
        return {"kind": "object", "class": name, "state": state}


def _array_in(data: bytes) -> np.ndarray:
    """Return the array of a .npy file, whose length must be what its header says."""
    file = io.BytesIO(data)
    require(npy.read_magic(file) == (1, 0), "an array in a format that is not known")
    shape, is_fortran, dtype = npy.read_array_header_1_0(file)
    rest = file.read()
    fits = not dtype.hasobject and math.prod(shape) * dtype.itemsize == len(rest)
    require(fits, "an array that is not as long as it says")
    return np.frombuffer(rest, dtype).reshape(shape, order="F" if is_fortran else "C")


_LOADERS: dict[str, Callable[[_Archive, dict[str, Any]], Any]] = {
    "JsonNode": lambda archive, part: archive.writer.value(json.loads(part["content"]), ""),
    "NdArrayNode": _Archive.array,
    "ObjectNode": _Archive.object,
    "DictNode": lambda archive, part: {"kind": "dict", "items": archive.pairs(part)},
    "ListNode": lambda archive, part: {"kind": "list", **archive.items(part)},
    "TupleNode": lambda archive, part: {"kind": "tuple", **archive.items(part)},
    "SetNode": lambda archive, part: {"kind": "set", **archive.items(part)},
    "SliceNode": lambda archive, part: {"kind": "slice", "items": [*part["content"].values()]},
    "TypeNode": lambda archive, part: {
        "kind": "type",
        "name": f"{part['__module__']}.{part['__class__']}",
    },
    "FunctionNode": lambda archive, part: {
        "kind": "function",
        "name": f"numpy.{part['__class__']}",
    },
    "RandomStateNode": lambda archive, part: {
        "kind": "generator",
        "legacy": True,
        "state": archive.value(part["content"]),
    },
}


# Classes of version 1 -----------------------------------------------------------------------------


class Bins(KBinsDiscretizer):
    """Of a `KBinsDiscretizer`, files had the dtype of its encoder, which is made again."""

    @classmethod
    def __skout_restore__(cls, state: dict[str, Any]) -> KBinsDiscretizer:
        item = with_attributes(KBinsDiscretizer, state)
        (edges,) = arrays_of(state, "bin_edges_")
        sizes = [len(one) - 1 for one in edges]
        require(np.array_equal(item.n_bins_, sizes), "bins that are not as many as their edges say")
        item._encoder = OneHotEncoder(
            categories=[np.arange(size) for size in sizes],
            sparse_output=item.encode == "onehot",
            dtype=state["_encoder"],
        ).fit(np.zeros((1, len(sizes))))
        return item


class BoostedTrees(RegressorMixin, BaseEstimator):
    """Trees of `HistGradientBoostingRegressor` as arrays: files had no others."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def predict(self, X: Any) -> np.ndarray:
        """Return the sum of the values of the leaves, shape (n,)."""
        X = np.asarray(X, dtype=np.float64)
        found = [self._sums(X[some]) for some in row_slices(len(X), _ROWS)]
        return self.start_ + np.concatenate([np.empty(0), *found])

    def _sums(self, X: np.ndarray) -> np.ndarray:
        at, rows = np.tile(self.roots_, (len(X), 1)), np.arange(len(X))[:, None]
        for _ in self.feature_:  # no path is longer
            goes_left = X[rows, self.feature_[at]] <= self.threshold_[at]
            below = np.where(goes_left, self.left_[at], self.right_[at])
            if np.array_equal(below, at):  # a leaf leads to itself
                break
            at = below
        return self.value_[at].sum(axis=1)
