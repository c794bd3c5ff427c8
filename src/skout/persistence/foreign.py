"""Parts of a model that are not skout's: scikit-learn's estimators, functions, networks, and
classes that users wrote.

scikit-learn's are in the list of `estimators`, or go through skops, which knows how to read them
without running code and refuses what it does not trust. Functions are not saved: the file has
their names, and they are given again at load.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.model_selection._search import BaseSearchCV

from .._numerics.extras import extra
from . import estimators, networks, own
from .classes import FUNCTIONS, function_name, name_of, own_function
from .files import FileError, parse_json

__all__ = ["READERS", "node", "own_type", "restored"]

_ADVICE = {
    "pandas": "Fit on arrays: df.to_numpy() for a frame, list(series) for a column",
    "polars": "Fit on arrays: df.to_numpy() for a frame, list(series) for a column",
    "networkx": "Give (edges, node_labels, edge_labels) triples or SMILES strings to fit",
    "rdkit": "Give SMILES strings to fit",
    "h5py": "Read it into memory: dataset[:]",
    "zarr": "Read it into memory: array[:]",
    "dask": "Compute it: array.compute()",
    "scipy": "Make it a CSR matrix: matrix.tocsr()",
}


def node(writer: Any, item: Any, path: str) -> dict[str, Any]:
    """Return the node of a thing that is not skout's own, or raise a TypeError that names it."""
    found = networks.node(writer, item, path)
    if found is not None:
        return found
    name = own_function(item)
    if name is not None:
        return {"kind": "function", "name": name}
    if isinstance(item, BaseSearchCV):
        raise TypeError(
            f"{path or 'model'} is {type(item).__name__}, a search, which is not saved. Save the "
            "model that it found: its attribute best_estimator_, after fit."
        )
    package = type(item).__module__.partition(".")[0]
    found = estimators.node(writer, item, path)
    if found is not None or package == "sklearn":
        return found or _archive_node(writer, item, path)
    if own.is_part(type(item)):
        return own.node(writer, item, path)
    if callable(item):
        return writer.given(function_name(item, path), item, path)
    advice = _ADVICE.get(package, "Use what skout has, or keep this part outside the model")
    more = ", or leave the candidates out: candidates=False" if writer.candidates else ""
    raise TypeError(
        f"{path or 'model'} is of the type {name_of(type(item))}, which cannot be saved. "
        f"{advice}{more}."
    )


def _read_given(reader: Any, spec: dict[str, Any]) -> Any:
    if spec["name"] not in reader.given:
        raise FileError(f"The file asks for {spec['name']!r} without saying that it needs it.")
    return reader.given[spec["name"]]


def _read_function(reader: Any, spec: dict[str, Any]) -> Any:
    if spec["name"] not in FUNCTIONS:
        raise FileError(f"The file names the function {spec['name']!r}, which is not allowed.")
    return FUNCTIONS[spec["name"]]


# scikit-learn -------------------------------------------------------------------------------------


def _archive_node(writer: Any, item: Any, path: str) -> dict[str, Any]:
    what = f"{path or 'model'} is scikit-learn's {type(item).__name__}"
    skops = _skops(f"{what}, and to save it")
    try:
        data = skops.dumps(item)
        unknown = [*skops.get_untrusted_types(data=data), *_checked_names(data)]
    except Exception as error:
        raise TypeError(f"{what}, and skops cannot save it: {error}") from error
    if unknown:
        raise TypeError(
            f"{what}, with parts that are not trusted in a file: {', '.join(unknown)}. They could "
            "not be loaded again, so nothing is saved. Use an estimator without them: a type such "
            "as np.float64 for a numpy.dtype, or fit this step outside the model."
        )
    array = writer.value(np.frombuffer(data, dtype=np.uint8), path)
    return {"kind": "sklearn", "class": name_of(type(item)), "archive": array}


def _read_archive(reader: Any, spec: dict[str, Any]) -> Any:
    skops = _skops(f"The file has scikit-learn's {spec['class']}, and to load it")
    archive = reader.value(spec["archive"])
    reader.charge(2 * archive.nbytes)
    data = archive.tobytes()
    unchecked = _checked_names(data)  # before skops looks at it
    unknown = [*skops.get_untrusted_types(data=data), *unchecked]
    if unknown:
        raise FileError(f"The file has types that are not trusted: {', '.join(unknown)}.")
    item = skops.loads(data, trusted=[])
    if name_of(type(item)) != spec["class"]:
        raise FileError(f"The file promises {spec['class']} and has {name_of(type(item))}.")
    return item


def _checked_names(data: bytes) -> list[str]:
    """Return the classes of an archive that skops trusts and skout does not; check its members.

    A member could be larger than it seems only if it is compressed, an archive itself, or read
    again and again.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        is_plain = all(one.compress_type == zipfile.ZIP_STORED for one in members)
        if not is_plain or sum(one.file_size for one in members) > len(data):
            raise FileError("The file has a compressed archive, which could be of any size.")
        if not all(one.filename.endswith((".npy", "schema.json")) for one in members):
            raise FileError("The file has an archive with parts that are neither arrays nor JSON.")
        parts = list(_parts(parse_json(archive.read("schema.json"))))
    # skops reads an array once for each number that it goes by, and always where it has none; the
    # words of a vocabulary may be "file", too, but the name of a member is a text
    reads = {
        (one["file"], one.get("__id__") or -1 - i)
        for i, one in enumerate(parts)
        if isinstance(one.get("file"), str)
    }
    if len(reads) > len({file for file, _ in reads}):
        raise FileError("The file has an archive in which two arrays are the same member.")
    names = {f"{one.get('__module__')}.{one.get('__class__')}" for one in parts}
    return sorted(name for name in names if name.startswith(estimators.UNCHECKED))


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in the JSON of an archive."""
    left = [schema]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield one
        if isinstance(one, dict | list):
            left.extend(one.values() if isinstance(one, dict) else one)


def _skops(purpose: str) -> Any:
    with extra("save", f"{purpose} takes skops"):
        import skops.io
    return skops.io


READERS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "given": _read_given,
    "function": _read_function,
    "sklearn": _read_archive,
    **estimators.READERS,
    **networks.READERS,
    **own.READERS,
}


def restored(name: str, state: dict[str, Any]) -> Any:
    """Return an object of a class of `skout.deep` or of scikit-learn; others are refused."""
    estimator = estimators.restored(name, state)
    return networks.restored(own_type(name), state) if estimator is None else estimator


def own_type(name: str) -> type:
    """Return a class of `skout.deep` that a file names; others are refused."""
    found = networks.class_of(name)
    if found is None:
        raise FileError(f"The file names the class {name!r}, which is not skout's.")
    return found
