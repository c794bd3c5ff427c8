"""Save models in one file and load them again; nothing in a file is ever executed.

Arrays are stored in the layout of safetensors, the structure as JSON, and a class may define what
of its objects is saved. `describe` shows the contents of a file without loading the model.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata as packages
from types import ModuleType
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows
from .._numerics.files import check_place
from .._numerics.typing import Estimator, Json, PathLike, State
from . import older
from .classes import function_name, name_of
from .description import parts_of
from .files import FileError, Node, Value, parse_json, read_file, write_file
from .reading import Reader
from .writing import Writer

__all__ = ["FileError", "describe", "load", "save"]

Arrays = Mapping[str, np.ndarray]

#: The version of the format. A new one needs a step in `MIGRATIONS`.
VERSION = 2
#: For each older version, the function that converts its structure and arrays to the next version.
MIGRATIONS: dict[int, Callable[[dict[str, Any], Arrays], tuple[dict[str, Any], Arrays]]] = {
    1: older.converted
}

# Packages whose versions, and attributes of models whose values, files say.
_PACKAGES = ("skout", "numpy", "scipy", "scikit-learn")
_FACTS = ("n_features_in_", "rank_", "alpha_", "n_members")


def save(
    model: Estimator,
    path: PathLike,
    *,
    candidates: bool = True,
    metadata: Mapping[str, Json] | None = None,
) -> None:
    """Save a model in one file, which takes the place of an older one all at once.

    Parameters
    ----------
    model : estimator, basis, kernel, decoder or candidates of skout
        Estimators of scikit-learn may be in it, but for those that compiled code reads unchecked,
        such as clusterings, and kernels, sketches, losses, decoders and transformers of your own.
        Code is not saved: pass functions, classes and networks of your own to `load` again; the
        file has their names, attributes and weights.
    path : path
        Its folder must exist.
    candidates : bool, default True
        Whether the training outputs, which are the default candidates, are saved. Without them the
        file is smaller, and `predict` needs candidates.
    metadata : dict, optional
        Anything that JSON can hold, stored beside the model: scores, notes, the source of data.

    Raises
    ------
    TypeError
        For a part that cannot be saved; the message says which, and what to do.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import skout
    >>> X = np.arange(20.0)[:, None]
    >>> Y = np.where(X < 10, [[1, 0, 1]], [[0, 1, 1]])
    >>> model = skout.sisokr("gaussian", "tanimoto", random_state=0).fit(X, Y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.skout")
    ...     skout.save(model, path, metadata={"score": 1.0})
    ...     skout.load(path).predict([[1.0]])
    array([[1, 0, 1]])
    """
    check_place(path)
    notes = _checked_notes(metadata)
    writer = Writer(candidates)
    structure = writer.structure(model)
    kind: type = type(model)
    about = {
        "class": name_of(kind),
        "saved": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **_versions()},
        "facts": _facts(model, candidates),
        "needs": sorted(writer.needs),
        "metadata": notes,
    }
    text = json.dumps(structure, separators=(",", ":"), allow_nan=False).encode()
    arrays = {**writer.arrays, "structure": np.frombuffer(text, dtype=np.uint8)}
    write_file(path, arrays, {"version": str(VERSION), "about": json.dumps(about)})


def load(
    path: PathLike,
    *,
    modules: Mapping[str, object] | Iterable[object] | None = None,
    mmap: bool = False,
) -> Any:
    """Load a model that `save` wrote.

    Parameters
    ----------
    path : path
        A file that `save` wrote.
    modules : list or dict, optional
        Functions, classes of kernels, sketches, losses, decoders and other parts, and networks of
        your own that the model uses. A list goes by their names; a dict has the names as keys. A
        network is its class, an instance, or, in a dict, a callable of the number of outputs. A
        message says which ones are missing.
    mmap : bool, default False
        Leave arrays in the file until they are used. They cannot be written then.

    Returns
    -------
    model : object
        It predicts as the saved model did. A `checkpoint`, which is a path, is None.

    Raises
    ------
    FileError
        A ValueError, where the file is damaged, of a newer version, or not of skout.

    Examples
    --------
    >>> import os, tempfile
    >>> import skout
    >>> from skout.kernels import Mapped
    >>> def lengths(words):
    ...     return [[float(len(word))] for word in words]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "kernel.skout")
    ...     skout.save(Mapped(lengths, "linear"), path)
    ...     skout.load(path, modules=[lengths])(["ab", "abc"])
    array([[4., 6.],
           [6., 9.]])
    """
    version, about, arrays = _read(path, mmap)
    provided = _by_name(modules)
    missing = [name for name in about["needs"] if name not in provided]
    if missing:
        shown = ", ".join(f"{name!r}: ..." for name in missing)
        raise ValueError(
            f"The model needs {', '.join(missing)}, which a file cannot hold. Pass what it was "
            f"made with: skout.load(path, modules={{{shown}}}), or a list of the functions and "
            "classes."
        )
    with _refused():
        structure, stored = _structure(version, arrays)
        return Reader(stored, provided).model(structure)


def describe(path: PathLike, *, parts: bool = True) -> Node:
    """Return a description of the contents of a file, without loading the model.

    Parameters
    ----------
    path : path
        A file that `save` wrote.
    parts : bool, default True
        Whether to return "parts", which takes longer than the rest.

    Returns
    -------
    description : dict
        "version" of the format, "bytes", "about" (class, versions, the time, facts about the fit,
        your metadata) and "parts": "name", "what", "bytes" and the "parts" of each.

    Examples
    --------
    >>> import os, tempfile
    >>> import skout
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "kernel.skout")
    ...     skout.save(skout.kernels.Gaussian(0.5), path, metadata={"for": "cars"})
    ...     contents = skout.persistence.describe(path)
    >>> contents["about"]["class"], contents["about"]["metadata"]
    ('skout.kernels.Gaussian', {'for': 'cars'})
    >>> contents["parts"]["parts"]
    [{'name': 'gamma', 'what': '0.5', 'bytes': 0, 'parts': []}]
    """
    version, about, arrays = _read(path, mmap=True)
    description = {"version": version, "bytes": os.path.getsize(path), "about": about}
    if parts:
        with _refused():
            description["parts"] = parts_of(*_structure(version, arrays))
    return description


def _by_name(modules: Mapping[str, object] | Iterable[object] | None) -> State:
    """Return the functions and classes that the user passes as `modules`, by name."""
    if modules is None or isinstance(modules, Mapping):
        return dict(modules or {})
    if not isinstance(modules, Iterable) or isinstance(modules, str):
        raise TypeError(
            f"modules must be a list of functions and classes, or a dict of them. Got {modules!r}."
        )
    by_name: dict[str, Any] = {}
    for part in modules:
        name = function_name(part, "modules")
        if isinstance(part, ModuleType | str):
            raise TypeError(f"modules must have functions and classes. Got {part!r} among them.")
        if by_name.setdefault(name, part) is not part:
            raise ValueError(f"modules has two of the name {name!r}: give the one that is meant.")
    return by_name


@contextmanager
def _refused() -> Iterator[None]:
    """Raise a FileError in place of every error that a crafted file may cause in the block."""
    try:
        yield
    except (FileError, ImportError):
        raise
    except Exception as error:
        raise FileError(
            f"The file has parts that do not fit together: {type(error).__name__}: {error}"
        ) from error


def _read(path: PathLike, mmap: bool) -> tuple[int, Node, dict[str, np.ndarray]]:
    """Return the version, the description and the arrays of a file."""
    header, arrays = read_file(path, mmap=mmap)
    version = header.get("version", "")
    if not version.isdecimal() or len(version) > 9:
        raise FileError(f"The file has the version {version!r}, which is no number.")
    if int(version) > VERSION:
        raise FileError(
            f"The file is of version {version} of the format, and this skout reads up to "
            f"{VERSION}. Install a newer skout."
        )
    about = parse_json(header.get("about", ""))
    needs = about.get("needs") if isinstance(about, dict) else None
    if not isinstance(needs, list) or not all(isinstance(name, str) for name in needs):
        raise FileError("The file does not say what it needs.")
    return int(version), about, arrays


def _structure(version: int, arrays: Arrays) -> tuple[Node, Arrays]:
    """Return the structure and the arrays of a file, converted to the present version."""
    if "structure" not in arrays:
        raise FileError("The file has arrays, but no structure.")
    structure = parse_json(arrays["structure"].tobytes())
    for step in range(version, VERSION):
        if step not in MIGRATIONS:
            raise FileError(f"Files of version {step} can no longer be read.")
        structure, arrays = MIGRATIONS[step](structure, arrays)
    if not isinstance(structure, dict) or structure.keys() != {"root", "nodes"}:
        raise FileError("The structure of the file is not that of a model.")
    return structure, arrays


def _checked_notes(metadata: Mapping[str, Json] | None) -> Value:
    """Return the metadata of the user, or raise where JSON would change them."""
    notes = {} if metadata is None else dict(metadata)
    try:
        back = json.loads(json.dumps(notes, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(f"metadata must be what JSON can hold: {error}.") from error
    if back != notes:
        raise TypeError(
            "metadata must be what JSON can hold: text as keys, and lists instead of tuples."
        )
    return notes


def _versions() -> dict[str, str]:
    """Return the versions of skout and the packages below it."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = packages.version(name)
        except packages.PackageNotFoundError:  # used from its sources
            versions[name] = "unknown"
    return versions


def _facts(model: Estimator, candidates: bool) -> Node:
    """Return a few numbers about a fitted model: alpha, rank, features, candidates."""
    # where two parts have an attribute, that of the later one counts
    parts = [*(getattr(model, name, None) for name in ("output_basis_", "regressor_")), model]
    facts = {
        name: getattr(part, name)
        for part in parts
        for name in _FACTS
        if isinstance(getattr(part, name, None), int | float)
        and math.isfinite(getattr(part, name))  # JSON has no infinity
    }
    pool = getattr(getattr(model, "decoder_", None), "pool_", None)
    if pool is not None and candidates:
        facts["n_candidates"] = n_rows(pool)
    return {name: float(v) if isinstance(v, float) else int(v) for name, v in facts.items()}
