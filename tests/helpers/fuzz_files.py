"""Saved models, damaged and rewritten in every way: they are refused, or load and do no harm.

A mutation is drawn from a seed. The checksum is made right again after most of them, so that the
checks behind it are reached. A file must be refused with a FileError, or load; a model that
was loaded may predict anything or raise an exception, but the process, its time and its memory
must stay whole.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import SVR

import skout
from skout import persistence
from skout.decoding import CandidateDecoder
from skout.kernels import Kernel, NGram, Ragged
from skout.persistence import FileError
from skout.sketches import SubSample

N = 24
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
SETS = (RNG.random((N, 4)) < 0.5).astype(int)
WORDS = ["".join(RNG.choice(list("abc"), RNG.integers(2, 5))) for _ in range(N)]
SMILES = ["C" * (i % 4 + 1) + "O" * (i % 3) for i in range(N)]
SPECTRA = [([100.0 + i % 5, 150.0 + i], [1.0, 0.5]) for i in range(N)]
RANKINGS = np.array([RNG.permutation(4) for _ in range(N)])


def wrapped(regressor: Any) -> Any:
    return skout.StructuredPredictor(regressor, "tanimoto")


def network(n_outputs: int) -> Any:
    from skout.deep import MLP

    return MLP(n_outputs, hidden=(4,))


def neural(module: Any) -> Any:
    from skout.deep import NeuralRegressor, Training

    return wrapped(NeuralRegressor(module, training=Training(1), device="cpu", random_state=0))


def characters() -> Any:
    from skout.deep import CharTransformer

    sizes = {"width": 8, "n_layers": 1, "n_heads": 2, "feed_forward": 8, "max_length": 32}
    return neural(functools.partial(CharTransformer, **sizes))


class Letters(Kernel):
    """A kernel of a user, with ragged rows."""

    def __init__(self, bias: float = 1.0) -> None:
        self.bias = bias

    def encode(self, objects: Any) -> Any:
        if isinstance(objects, Ragged):
            return objects
        lengths = np.cumsum([0, *map(len, objects)])
        return Ragged(lengths, np.array([ord(letter) % 32 for letter in "".join(objects)]))

    def _counts(self, rows: Any) -> np.ndarray:
        counts = np.zeros((len(rows), 32))
        np.add.at(counts, (rows.row_numbers, rows.columns[0]), 1.0)
        return counts

    def against(self, B: Any) -> Any:
        return lambda A, _out=None: self._counts(A) @ self._counts(B).T + self.bias

    def diag(self, A: Any) -> np.ndarray:
        return (self._counts(A) ** 2).sum(axis=1) + self.bias


class Search(CandidateDecoder):
    """A decoder of a user."""


# name -> (what makes a model, X, Y)
MODELS: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "ridge": (lambda: skout.KernelRidge("gaussian", SubSample(8), random_state=0), X, SETS),
    "ridge of CSR": (lambda: skout.KernelRidge("linear"), sparse.csr_matrix(X), SETS),
    "quantiles": (lambda: skout.JointQuantileRegressor([0.2, 0.8]), X, X[:, 0]),
    "label sets": (lambda: skout.sisokr("gaussian", "f1", random_state=0), X, SETS),
    "words": (lambda: skout.iokr(output_kernel=NGram(2), decoder="strings"), X, WORDS),
    "rankings": (lambda: skout.iokr(output_kernel="kendall", decoder="rankings"), X, RANKINGS),
    "molecules": (lambda: skout.iokr(output_kernel="weisfeiler_lehman"), X, SMILES),
    "spectra": (lambda: skout.iokr("probability_product", "tanimoto"), SPECTRA, SETS),
    "ensemble": (lambda: skout.Ensemble(skout.sisokr(output_kernel="f1"), 2), X, SETS),
    "forest": (lambda: wrapped(RandomForestRegressor(2, max_depth=3)), X, SETS),
    "large forest": (lambda: wrapped(RandomForestRegressor(9, max_depth=3)), X, SETS),
    "classes": (lambda: RandomForestClassifier(9, max_depth=2), X, SETS),
    "histograms": (
        lambda: wrapped(
            MultiOutputRegressor(HistGradientBoostingRegressor(max_iter=9, min_samples_leaf=4))
        ),
        X,
        SETS,
    ),
    "long boosting": (lambda: GradientBoostingRegressor(n_estimators=9), X, X[:, 0]),
    "boosting": (
        lambda: wrapped(MultiOutputRegressor(GradientBoostingRegressor(n_estimators=2))),
        X,
        SETS,
    ),
    "neighbours": (lambda: wrapped(KNeighborsRegressor(3, algorithm="kd_tree")), X, SETS),
    "SVM": (lambda: wrapped(MultiOutputRegressor(SVR())), X, SETS),
    "perceptron": (
        lambda: wrapped(MLPRegressor(hidden_layer_sizes=(4,), max_iter=400, tol=1.0)),
        X,
        SETS,
    ),
    "pipeline": (lambda: wrapped(make_pipeline(StandardScaler(), Ridge())), X, SETS),
    "bins and splines": (
        lambda: wrapped(
            make_pipeline(
                make_column_transformer(
                    (KBinsDiscretizer(3, strategy="uniform"), slice(0, 1)),
                    (SplineTransformer(3), [1]),
                    (SimpleImputer(), [0, 1]),
                ),
                FunctionTransformer(np.abs),
                Ridge(),
            )
        ),
        X,
        SETS,
    ),
    "categories": (
        lambda: make_pipeline(
            OneHotEncoder(handle_unknown="ignore", min_frequency=3, drop="first"), Ridge()
        ),
        np.round(X),
        SETS,
    ),
    "text": (lambda: make_pipeline(CountVectorizer(analyzer="char"), Ridge()), WORDS, SETS),
    "own parts": (lambda: skout.iokr(Letters(), Letters(), decoder=Search()), WORDS, WORDS),
    "network": (lambda: neural(network), X, SETS),
    "characters": (characters, WORDS, SETS),
}
MODULES = [network, Letters, Search]
# files of version 1
OLD = ("archive", "bins", "boosting", "ensemble", "forest", "histograms", "label_sets", "network")
FILES = Path(__file__).parents[1] / "files"
MODELS |= {f"old {name}": (lambda: None, X[:, :2], None) for name in OLD}


@functools.cache
def saved(name: str) -> bytes:
    """Return the file of a fitted model."""
    make, rows, outputs = MODELS[name]
    if name.startswith("old "):
        return (FILES / f"{name[4:]}.v1.skout").read_bytes()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        skout.save(make().fit(rows, outputs), Path(folder, "model"))
        return Path(folder, "model").read_bytes()


# Parts of a file ----------------------------------------------------------------------------------


def closed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length : -32]


def joined(header: Any, buffer: bytes) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return closed(len(text).to_bytes(8, "little") + text + buffer)


def taken_apart(data: bytes) -> tuple[dict[str, str], dict[str, np.ndarray], Any]:
    """Return the metadata, the arrays and the structure of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        path.write_bytes(data)
        metadata, arrays = persistence.files.read_file(path)
    structure = json.loads(arrays.pop("structure").tobytes())
    return {name: metadata[name] for name in metadata if name != "format"}, arrays, structure


def put_together(metadata: dict[str, str], arrays: dict[str, Any], structure: Any) -> bytes:
    text = np.frombuffer(json.dumps(structure).encode(), np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        persistence.files.write_file(path, {**arrays, "structure": text}, metadata)
        return path.read_bytes()


# Mutations ----------------------------------------------------------------------------------------

HOSTILE = [
    *(None, True, False, -1, 0, 1, 2, 7, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.5, 1e308, -0.0),
    *("", "x", "|O", "<f8", "<i8", "|u1", "C", "F", "os.system", "auto", "é\ud800", "brute"),
    *([], [0], [2**63, 2], {}, {"ref": 0}, {"ref": 3}, {"ref": -1}, {"ref": 10**9}, {"int": "ff"}),
    *({"float": "7ff8000000000000"}, {"float": "7ff0000000000000"}, {"scalar": ["<i8", "00" * 8]}),
]


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Return (container, key) of everything in JSON."""
    found, left = [], [tree]
    while left:
        one = left.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        for key in keys:
            found.append((one, key))
            if isinstance(one[key], dict | list):
                left.append(one[key])
    return found


def mutate_json(tree: Any, rng: np.random.Generator) -> None:
    """Change one place of JSON, or a few."""
    for _ in range(rng.geometric(0.7)):
        all_places = places(tree)
        if not all_places:
            return
        container, key = all_places[rng.integers(len(all_places))]
        other, other_key = all_places[rng.integers(len(all_places))]
        way = rng.integers(6)
        if way == 0:
            del container[key]
        elif way == 1:
            copied = json.loads(json.dumps(other[other_key]))
            container[key] = copied
        elif way == 2 and isinstance(container, list):
            container.append(container[key])
        elif way == 3 and isinstance(container[key], int | float):
            container[key] += int(rng.integers(-3, 4))
        else:
            container[key] = HOSTILE[rng.integers(len(HOSTILE))]


def mutate_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip, cut, repeat or move bytes."""
    body = bytearray(data)
    if rng.random() < 0.5:  # one byte in the second half, which is mostly arrays
        body[-int(rng.integers(1, len(body) // 2 + 2))] ^= int(rng.integers(1, 256))
        return bytes(body)
    for _ in range(rng.integers(1, 4)):
        start, stop = sorted(rng.integers(0, len(body) + 1, 2).tolist())
        stop = min(stop, start + 4096)
        way = rng.integers(5)
        if way <= 1:
            for place in rng.integers(0, max(len(body), 1), rng.integers(1, 9)):
                body[place] ^= int(rng.integers(1, 256))
        elif way == 2:
            del body[start:stop]
        elif way == 3:
            body[start:start] = body[start:stop]
        else:
            target = int(rng.integers(0, len(body)))
            body[target : target + stop - start] = body[start:stop]
        if not body:
            body = bytearray(b"\0")
    return bytes(body)


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes change, and the checksum with them in most cases."""
    if rng.random() < 0.1:
        return mutate_bytes(data, rng)
    return closed(mutate_bytes(data[:-32], rng))


def other_header(data: bytes, rng: np.random.Generator) -> bytes:
    """The header says other shapes, dtypes, offsets, or has another length."""
    header, buffer = parts(data)
    if rng.random() < 0.2:
        length = int(rng.choice([10 * 2**30, 2**40, 2**62, 99_999_999, len(data), 0]))
        length = 2**63 + length if rng.random() < 0.2 else length
        return closed(length.to_bytes(8, "little") + data[8:-32])
    entries = {name: header[name] for name in header if name != "__metadata__"}
    mutate_json(entries if rng.random() < 0.8 else header, rng)
    return joined(header | entries, buffer)


def other_structure(data: bytes, rng: np.random.Generator) -> bytes:
    metadata, arrays, structure = taken_apart(data)
    states = [node["state"] for node in structure["nodes"] if node["kind"] == "object"]
    states += [node["column"] for node in structure["nodes"] if "column" in node]
    mutate_json(states if states and rng.random() < 0.5 else structure, rng)
    return put_together(metadata, arrays, structure)


def other_arrays(data: bytes, rng: np.random.Generator) -> bytes:
    """Arrays change places, values, sizes or dtypes, and their descriptions follow in part."""
    metadata, arrays, structure = taken_apart(data)
    nodes = [node for node in structure["nodes"] if node["kind"] == "array"]
    for _ in range(rng.integers(1, 4)):
        node, other = (nodes[rng.integers(len(nodes))] for _ in range(2))
        array = arrays[node["array"]]
        way = rng.integers(5)
        if way == 0:
            node["array"], other["array"] = other["array"], node["array"]
        elif way == 1:
            node.update(other)
        elif way == 2 and array.size:
            changed = array.copy()
            flat = changed.reshape(-1)
            values = [0, 1, -1, 2, 100, 2**31 - 1, 2**62, np.nan, np.inf, 1e300]
            with np.errstate(all="ignore"), suppress(OverflowError, ValueError, TypeError):
                flat[rng.integers(flat.size)] = values[rng.integers(len(values))]
            arrays[node["array"]] = changed
        elif way == 3 and array.ndim:
            cut = array[: rng.integers(len(array) + 1)]
            cut = np.ascontiguousarray(np.concatenate([cut, array]) if rng.random() < 0.3 else cut)
            arrays[node["array"]] = cut
            if "shape" in node:
                shape = [len(cut), *cut.shape[1:]]
                node["shape"] = shape[::-1] if node["order"] == "F" else shape
        else:
            dtype = [np.float64, np.float32, np.int64, np.int32, np.uint8][rng.integers(5)]
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arrays[node["array"]] = np.ascontiguousarray(array.astype(dtype))
            if "dtype" in node:
                node["dtype"] = np.dtype(dtype).str
    return put_together(metadata, arrays, structure)


def other_archive(data: bytes, rng: np.random.Generator) -> bytes:
    """The archive of skops in a file of version 1 changes, if there is one."""
    metadata, arrays, structure = taken_apart(data)
    nodes = structure["nodes"]
    found = [nodes[node["archive"]["ref"]] for node in nodes if node["kind"] == "sklearn"]
    if not found:
        return other_structure(data, rng)
    place = found[rng.integers(len(found))]
    content = arrays[place["array"]].tobytes()
    content = mutate_bytes(content, rng) if rng.random() < 0.3 else _other_members(content, rng)
    arrays[place["array"]] = np.frombuffer(content, np.uint8)
    place["shape"] = [len(content)]
    return put_together(metadata, arrays, structure)


def _other_members(content: bytes, rng: np.random.Generator) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in members:
        if name == "schema.json" and rng.random() < 0.7:
            schema = json.loads(members[name])
            mutate_json(schema, rng)
            members[name] = json.dumps(schema).encode()
        elif rng.random() < 0.3:
            members[name] = mutate_bytes(members[name], rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, value in members.items():
            archive.writestr(name, value)
    return out.getvalue()


WAYS: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "bytes": damaged,
    "header": other_header,
    "structure": other_structure,
    "arrays": other_arrays,
    "archive": other_archive,
}


# Reading ------------------------------------------------------------------------------------------


def read_model(given: tuple[str, str, int]) -> str:
    """Load a mutated file, predict with it, and return what happened."""
    name, way, seed = given
    rng = np.random.default_rng(seed)
    data = WAYS[way](saved(name), rng)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, "model")
        path.write_bytes(data)
        try:
            with suppress(FileError):
                json.dumps(persistence.describe(path))
            model = skout.load(path, modules=MODULES, mmap=bool(rng.integers(2)))
        except FileError as error:
            _raise_if_memory(error.__cause__)
            return "refused"
        except ValueError as error:
            if "which a file cannot hold" not in str(error):
                raise
            return "refused"
        return _predict(model, MODELS[name][1])


def _predict(model: Any, rows: Any) -> str:
    try:
        model.predict(rows)
    except Exception as error:
        _raise_if_memory(error)
        return "does not predict"
    return "predicts"


def _raise_if_memory(error: BaseException | None) -> None:
    """Raise where memory was asked for that there is not; PyTorch says so by a RuntimeError."""
    is_torch = isinstance(error, RuntimeError) and "alloc" in str(error)
    if isinstance(error, MemoryError) or is_torch:
        raise MemoryError(str(error)) from error
