"""The converter of files of version 1 to version 2, the only module that knows version 1.

Such files have names of classes without modules, trees node by node, networks as parts of their
own, and archives of skops for some estimators of scikit-learn.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.lib import format as npy
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

from .._numerics.arrays import row_slices
from .._numerics.saving import arrays_of, name_of, require, with_attributes
from .._numerics.typing import Estimator, Floats, Json, Objects, State
from .classes import RENAMED
from .files import Node, Value, parse_json
from .writing import Writer

# Packages where classes of version 1 are now, in the order in which names are looked up.
_PACKAGES = (
    *("", ".kernels", ".losses", ".sketches", ".decoding", ".predictors", ".solvers", ".basis"),
    *(".regressors", "._numerics", ".persistence.older", ".kinds", ".apps.tuning", ".apps.tables"),
    ".apps.spectra.identify",
)
_NETWORKS = ("CharTransformer", "MLP", "NeuralRegressor", "TextEncoder", "Training")
# Names in `Kept` of what were private attributes of `KernelRidge`.
_KEPT = {
    **{"_matrix": "matrix", "_base": "moments", "_row_weights": "row_weights"},
    **{"_row_count": "row_count", "_fitc_shift": "fitc_shift", "_origin": "origin"},
    **{"_folds": "folds", "_n_seen": "n_added"},
}
# Kinds of nodes that have another form in version 2: methods of `_Converter` convert them.
_KINDS = {*("function", "network", "object", "partial", "sklearn", "tree", "type")}
_OPTIMIZERS = "sklearn.neural_network._stochastic_optimizers."

# Rows that boosted trees predict at a time: their positions stay in the cache of the processor.
_ROWS = 4096


def converted(
    structure: Node, arrays: Mapping[str, np.ndarray]
) -> tuple[Node, Mapping[str, np.ndarray]]:
    """Return the structure of a file of version 1, and its arrays, as version 2 has them."""
    converter = _Converter(structure["nodes"], arrays)
    for node in structure["nodes"]:
        converter.add(node)
    nodes = converter.writer.nodes
    return {"root": converter.moved(structure["root"]), "nodes": nodes}, converter.writer.arrays


class _Converter:
    """Converts nodes of version 1 one after the other; each may become several."""

    def __init__(self, nodes: list[Node], arrays: Mapping[str, np.ndarray]) -> None:
        self.old = nodes
        self.writer = Writer()
        self.writer.arrays = {name: array for name, array in arrays.items() if name != "structure"}
        self.numbers: list[int] = []  # new numbers of the nodes

    def add(self, node: Node) -> None:
        make = getattr(self, f"_{node['kind']}") if node["kind"] in _KINDS else self.moved
        self.numbers.append(self._added(make(node))["ref"])

    def _added(self, node: Node) -> dict[str, int]:
        self.writer.nodes.append(node)
        return {"ref": len(self.writer.nodes) - 1}

    def moved(self, spec: Json) -> Value:
        """Return JSON in which references have the new numbers of nodes."""
        if isinstance(spec, list):
            return [self.moved(inner) for inner in spec]
        if not isinstance(spec, dict):
            return spec
        number = spec.get("ref")
        if type(number) is int and 0 <= number < len(self.numbers):
            return {"ref": self.numbers[number]}
        return {name: self.moved(inner) for name, inner in spec.items()}

    def _object(self, node: Node) -> Node:
        name, state = class_name(node["class"]), self.moved(node["state"])
        if name == "skout.KernelRidge":
            state = self._ridge(state)
        if name == "sklearn.preprocessing.KBinsDiscretizer" and "_encoder" in state:
            name = f"{__name__}.Bins"
        return {"kind": "object", "class": name, "state": state}

    def _ridge(self, state: State) -> Node:
        if "_fitc" in state or state.get("variance") == "fast":
            state["variance"] = "dtc"  # with any `variance`, predictions were those of "dtc"
        if "_matrix" in state:
            kept = {new: state[old] for old, new in _KEPT.items() if old in state}
            part = {"kind": "object", "class": "skout.regressors.Kept", "state": kept}
            state["_kept"] = self._added(part)
        gone = {*_KEPT, "_fitc", "_n_outputs"}
        return {name: spec for name, spec in state.items() if name not in gone}

    def _type(self, node: Node) -> Node:
        return {"kind": "named", "name": class_name(node["name"])}

    _function = _type

    def _partial(self, node: Node) -> Node:
        return {**self.moved(node), "class": class_name(node["class"])}

    def _network(self, node: Node) -> Node:
        state = {"config": self.moved(node["config"]), "weights": self.moved(node["weights"])}
        return {"kind": "object", "class": class_name(node["class"]), "state": state}

    def _tree(self, node: Node) -> Node:
        pairs = self.old[node["nodes"]["ref"]]["items"]
        fields = [[name, self.old[r["ref"]]["dtype"], self.moved(r)] for name, r in pairs]
        state = {
            "n_features": node["n_features"],
            "n_classes": None,
            "nodes": self._added({"kind": "record", "aligned": True, "fields": fields}),
            "values": self.moved(node["values"]),
        }
        return {"kind": "object", "class": "sklearn.tree._tree.Tree", "state": state}

    def _sklearn(self, node: Node) -> Node:
        archive = self.writer.arrays[self.old[node["archive"]["ref"]]["array"]].tobytes()
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            sizes = [member.file_size for member in opened.infolist()]
            require(sum(sizes) <= len(archive), "a compressed archive, which could be of any size")
            members = {name: opened.read(name) for name in opened.namelist()}
        self._in_archive(parse_json(members.pop("schema.json")), _arrays_in(members))
        return self.writer.nodes.pop()  # the last one is the whole

    def _in_archive(self, part: Node, arrays: Mapping[str, np.ndarray]) -> Value:
        """Return a part of an archive of skops as a value of version 2."""
        content: Any = part.get("content")
        loader, name = part["__loader__"], part["__class__"]
        if loader == "JsonNode":
            return self.writer.value(json.loads(content), "")
        if loader == "NdArrayNode" and part["type"] == "numpy":
            array = arrays[part["file"]]
            return self.writer.value(array if name == "ndarray" else array[()], "")
        require(loader == "ObjectNode", f"an archive with a {loader}, which is not trusted")
        state = {
            key: self._in_archive(inner, arrays)
            for key, inner in content["content"].items()
            if key != "_sklearn_version"
        }
        kind = class_name(f"{part['__module__']}.{name}")
        return self._added({"kind": "object", "class": kind, "state": state})


def _arrays_in(members: Mapping[str, bytes]) -> dict[str, np.ndarray]:
    """Return the arrays of .npy files, or raise unless their lengths are as their headers say."""
    arrays = {}
    for name, data in members.items():
        file = io.BytesIO(data)
        require(npy.read_magic(file) == (1, 0), "an archive with what are no arrays")
        shape, is_fortran, dtype = npy.read_array_header_1_0(file)
        rest = file.read()
        fits = not dtype.hasobject and math.prod(shape) * dtype.itemsize == len(rest)
        require(fits, "an array that is not as long as it says")
        arrays[name] = np.frombuffer(rest, dtype).reshape(shape, order="F" if is_fortran else "C")
    return arrays


def class_name(name: str) -> str:
    """Return the present name of a class of version 1."""
    package, *_, last = name.split(".")
    if package == "sklearn" and not name.startswith(_OPTIMIZERS):
        public = name.partition("._")[0]
        return name if public == name else f"{public}.{last}"
    if package != "skout":
        return name
    last = RENAMED.get(last, last)
    for place in [".deep"] if last in _NETWORKS else _PACKAGES:
        kind = getattr(import_module(f"skout{place}"), last, None)
        if isinstance(kind, type):
            return name_of(kind)
    return name


# Classes of version 1 -----------------------------------------------------------------------------


class Bins:
    """Restores a `KBinsDiscretizer`, whose encoder is fitted again: files have its dtype only."""

    @classmethod
    def __skout_restore__(cls, state: State) -> KBinsDiscretizer:
        (item,) = with_attributes(KBinsDiscretizer, state)
        (edges,) = arrays_of(state, "bin_edges_")
        sizes = [len(column) - 1 for column in edges]
        require(np.array_equal(item.n_bins_, sizes), "bins that are not as many as their edges say")
        item._encoder = OneHotEncoder(
            categories=[np.arange(size) for size in sizes],
            sparse_output=item.encode == "onehot",
            dtype=state["_encoder"],
        ).fit(np.zeros((1, len(sizes))))
        return item


class BoostedTrees(RegressorMixin, BaseEstimator):
    """Trees of `HistGradientBoostingRegressor` as arrays, the form that version 1 had."""

    def __init__(self, regressor: Estimator) -> None:
        self.regressor = regressor

    def predict(self, X: Objects) -> Floats:
        """Return the sum of the values of the leaves, shape (n,)."""
        X = np.asarray(X, dtype=np.float64)
        sums = [self._sums(X[part]) for part in row_slices(len(X), _ROWS)]
        return float(self.start_) + np.concatenate([np.empty(0), *sums])

    def _sums(self, X: Floats) -> Any:
        at, rows = np.tile(self.roots_, (len(X), 1)), np.arange(len(X))[:, None]
        for _ in self.feature_:  # no path is longer
            goes_left = X[rows, self.feature_[at]] <= self.threshold_[at]
            below = np.where(goes_left, self.left_[at], self.right_[at])
            if np.array_equal(below, at):  # a leaf leads to itself
                break
            at = below
        return self.value_[at].sum(axis=1)
