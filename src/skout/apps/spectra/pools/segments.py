"""The folder of a pool: a manifest, and segments of arrays that are mapped from the disk.

    pool.skpool/manifest.json       settings; for each segment its files, their sizes and digests
    pool.skpool/segment-0000/       the molecules of `build`, sorted by mass
    pool.skpool/segment-0001/       those of the first `append`, and so on

A file belongs to the pool once the manifest names it, and the manifest is replaced in one step.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from skout.dev import FileError, replacing

MANIFEST = "manifest.json"
# Version 2 may have priors.
_FORMAT, _VERSION = "skout molecules", 2
_SHA256 = re.compile("[0-9a-f]{64}")
#: The arrays of a segment: kind of number and axes.
_ARRAYS = {
    "mass": ("f8", 1),  # sorted
    "key": ("S14", 1),  # skeletons of InChIKeys
    "key_order": ("i8", 1),  # rows, sorted by key
    "formula_code": ("i4", 1),
    "formula_order": ("i8", 1),  # rows, sorted by formula
    "formula_rows": ("i8", 1),  # where those of each formula begin in formula_order
    "formula_text": ("u1", 1),  # distinct formulas, sorted
    "formula_start": ("i8", 1),
    "smiles_text": ("u1", 1),
    "smiles_start": ("i8", 1),
    "name_text": ("u1", 1),
    "name_start": ("i8", 1),
    "words": ("u8", 2),  # packed fingerprints
}
#: Arrays that a segment may lack.
_OPTIONAL = {"prior": ("f8", 1)}  # how well known molecules are


def segment_name(number: int) -> str:
    """Return the folder of a segment."""
    return f"segment-{number:04d}"


class Texts:
    """Texts in one array of bytes, UTF-8: text i is text[starts[i]:starts[i + 1]]."""

    text: np.ndarray
    starts: np.ndarray

    def __init__(self, text: np.ndarray, starts: np.ndarray) -> None:
        self.text, self.starts = text, starts

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return the texts of these rows, an array of str."""
        begins, ends = self.starts[rows], self.starts[rows + 1]
        if np.any(begins > ends) or np.any(begins < 0) or np.any(ends > len(self.text)):
            raise FileError("The pool is damaged: texts lie outside of their file.")
        out = np.empty(len(rows), dtype=object)
        pairs = zip(begins.tolist(), ends.tolist(), strict=True)
        out[:] = [self.text[a:b].tobytes().decode("utf-8", "replace") for a, b in pairs]
        return out

    def at(self, row: int) -> str:
        """Return the text of a row."""
        return str(self.take(np.array([row]))[0])


class Segment:
    """Molecules that were written together; rows are sorted by mass.

    `record` is what the manifest says: `folder`, `molecules`, and `files`, name to (bytes, digest).
    With `verify`, an array is compared with its digest before it is read for the first time.
    """

    folder: Path
    record: dict[str, Any]

    def __init__(self, pool: Path, record: dict[str, Any], *, verify: bool = True) -> None:
        self.folder, self.record = pool / record["folder"], record
        optional = {
            name: kind for name, kind in _OPTIONAL.items() if f"{name}.npy" in record["files"]
        }
        self._arrays = {name: self._map(name, *kind) for name, kind in (_ARRAYS | optional).items()}
        self._unverified = set(self._arrays) if verify else set()
        n, m = record["molecules"], len(self._arrays["formula_start"]) - 1
        lengths = {"smiles_start": n + 1, "name_start": n + 1, "formula_rows": m + 1}
        rows = ("mass", "key", "key_order", "formula_code", "formula_order", "words", *optional)
        for name, expected in (lengths | dict.fromkeys(rows, n)).items():
            if len(self._arrays[name]) != expected:
                raise self._damaged(f"{name}.npy has {len(self._arrays[name])} rows")
        if m < 0:
            raise self._damaged("formula_start.npy is empty")

    def __len__(self) -> int:
        return int(self.record["molecules"])

    def _damaged(self, why: str) -> FileError:
        return FileError(
            f"{self.folder.parent} is damaged: {self.folder.name}/{why}. Copy it again from where "
            "it is whole, or build it again."
        )

    def _map(self, name: str, dtype: str, axes: int) -> np.ndarray:
        """Return an array of the disk; it is read where it is used."""
        path, (size, _) = self.folder / f"{name}.npy", self.record["files"][f"{name}.npy"]
        if not path.is_file():
            raise self._damaged(f"{path.name} is missing")
        if path.stat().st_size != size:
            raise self._damaged(f"{path.name} has {path.stat().st_size} bytes, not {size}")
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # a damaged header ends in errors of many kinds
            raise self._damaged(f"{path.name} is no array ({error})") from error
        if array.dtype != np.dtype(dtype).newbyteorder("<") or array.ndim != axes:
            raise self._damaged(f"{path.name} has {array.ndim} axes of {array.dtype}")
        return np.asarray(array)  # the same memory, without the slow indexing of a memmap

    def _array(self, name: str) -> np.ndarray:
        """Return an array, which is compared with its digest the first time."""
        if name in self._unverified:
            self._verify(f"{name}.npy")
        return self._arrays[name]

    def _verify(self, name: str) -> None:
        if digest_of(self.folder / name) != self.record["files"][name][1]:
            raise self._damaged(f"{name} is not as it was written")
        self._unverified.discard(name.removesuffix(".npy"))

    def _texts(self, name: str) -> Texts:
        return Texts(self._array(f"{name}_text"), self._array(f"{name}_start"))

    @property
    def mass(self) -> np.ndarray:
        return self._array("mass")

    @property
    def words(self) -> np.ndarray:
        return self._array("words")

    @property
    def prior(self) -> np.ndarray:
        """How well known each molecule is; zeros where nothing is known of it."""
        return self._array("prior") if "prior" in self._arrays else np.zeros(len(self))

    @property
    def smiles(self) -> Texts:
        return self._texts("smiles")

    @property
    def names(self) -> Texts:
        return self._texts("name")

    @property
    def all_keys(self) -> np.ndarray:
        return self._array("key")

    @property
    def n_words(self) -> int:
        """Words of 64 bits of a fingerprint."""
        return int(self._arrays["words"].shape[1])

    def check(self) -> None:
        """Raise a FileError if a file is not as it was written."""
        for name in self.record["files"]:
            self._verify(name)

    def between(self, low: float, high: float) -> np.ndarray:
        """Return the rows with masses from low to high."""
        start = np.searchsorted(self.mass, low, side="left")
        return np.arange(start, np.searchsorted(self.mass, high, side="right"))

    def of_formula(self, formula: str) -> np.ndarray:
        """Return the rows of a formula in Hill order."""
        texts = self._texts("formula")
        low, high = 0, len(texts.starts) - 1
        while low < high:  # the first formula that is not below
            middle = (low + high) // 2
            low, high = (middle + 1, high) if texts.at(middle) < formula else (low, middle)
        if low == len(texts.starts) - 1 or texts.at(low) != formula:
            return np.empty(0, dtype=np.int64)
        starts = self._array("formula_rows")
        rows = self._array("formula_order")[starts[low] : starts[low + 1]]
        return self._within(rows, len(self), "formula_order")

    def _within(self, numbers: np.ndarray, n: int, name: str) -> np.ndarray:
        """Return the numbers, or raise where a damaged file has others than 0 to n - 1."""
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < n:
            raise self._damaged(f"{name}.npy has numbers out of bounds")
        return numbers

    def of_keys(self, wanted: np.ndarray) -> np.ndarray:
        """Return the row of each key, -1 where there is none."""
        keys, order = self.all_keys, self._array("key_order")
        try:
            place = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
        except ValueError as error:  # raised by NumPy in searchsorted
            raise self._damaged("key_order.npy has numbers out of bounds") from error
        rows = self._within(order[place], len(self), "key_order")
        return np.where(keys[rows] == wanted, rows, -1)

    def keys(self, rows: np.ndarray) -> np.ndarray:
        """Return skeletons of InChIKeys, an array of str."""
        try:
            return np.asarray(self.all_keys[rows].astype("U14"), dtype=object)
        except UnicodeDecodeError as error:
            raise self._damaged("key.npy has keys that are no text") from error

    def formulas(self, rows: np.ndarray) -> np.ndarray:
        """Return formulas, an array of str."""
        texts = self._texts("formula")
        codes, inverse = np.unique(self._array("formula_code")[rows], return_inverse=True)
        self._within(codes, len(texts.starts) - 1, "formula_code")
        return texts.take(codes.astype(np.int64))[inverse.reshape(-1)]


def sealed(folder: Path, **known: Any) -> dict[str, Any]:
    """Bring the files of a segment to the disk, and return its record for the manifest."""
    files = {}
    for path in sorted(folder.iterdir()):
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
        files[path.name] = [path.stat().st_size, digest_of(path)]
    return known | {"files": files}


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Manifest:
    """The settings of a pool and the records of its segments, as manifest.json has them."""

    fingerprints: dict[str, Any]  # settings of `skout.molecules.fingerprints`
    n_bits: int  # of a fingerprint, of all kinds together
    rdkit: str  # the version that made them
    # see `Segment`; also `read`, `invalid` and `repeated`, numbers of molecules
    segments: tuple[dict[str, Any], ...]

    @classmethod
    def read(cls, pool: Path) -> Self:
        """Read and check the manifest of a pool."""
        path = pool / MANIFEST
        if not path.is_file():
            raise FileNotFoundError(
                f"{pool} is no pool of molecules: it has no {MANIFEST}. "
                "Make one with MoleculePool.build or `skout pool build`."
            )
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            _must(isinstance(manifest, dict), "contents", manifest)
            contents, digest = manifest["pool"], manifest["digest"]
            _must(isinstance(contents, dict), "pool", contents)
            _must(contents["format"] == _FORMAT, "format", contents["format"])
            _must(_is_count(contents["version"]), "version", contents["version"])
            if contents["version"] > _VERSION:
                raise NotImplementedError
            if _digest(contents) != digest:
                raise ValueError("it is not as it was written")
            _check_manifest(contents)
            return cls(
                contents["fingerprints"],
                contents["n_bits"],
                contents["rdkit"],
                tuple(contents["segments"]),
            )
        except NotImplementedError:
            raise FileError(f"{pool} was made by a newer skout: upgrade to open it.") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else error
            raise FileError(f"{pool} is damaged: {MANIFEST} cannot be used ({why}).") from error

    def write(self, pool: Path) -> None:
        """Write the manifest, in the place of the old one in a single step."""
        has_prior = any("prior.npy" in record["files"] for record in self.segments)
        version = _VERSION if has_prior else 1  # which an older skout can open, too
        contents = {"format": _FORMAT, "version": version, **vars(self)}
        contents["segments"] = list(self.segments)
        manifest = {"digest": _digest(contents), "pool": contents}
        with replacing(pool / MANIFEST) as part:
            part.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")

    def about(self) -> dict[str, Any]:
        """Return numbers of molecules and bytes, and settings."""

        def total(name: str) -> int:
            return int(sum(record[name] for record in self.segments))

        sizes = [size for record in self.segments for size, _ in record["files"].values()]
        counts = {name: total(name) for name in ("molecules", "read", "invalid", "repeated")}
        return counts | {
            "segments": len(self.segments),
            "bytes": int(sum(sizes)),
            "n_bits": self.n_bits,
            "fingerprints": dict(self.fingerprints),
            "rdkit": self.rdkit,
        }


def _digest(contents: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def _check_manifest(contents: dict[str, Any]) -> None:
    """Raise a ValueError that names what is of another kind than this code writes."""
    settings, segments = contents["fingerprints"], contents["segments"]
    _must(isinstance(settings, dict), "fingerprints", settings)
    _must(set(settings) == {"kind", "n_bits", "radius"}, "fingerprints", settings)
    kinds = settings["kind"] if isinstance(settings["kind"], list) else [settings["kind"]]
    _must(kinds != [] and all(isinstance(kind, str) for kind in kinds), "kind", kinds)
    for name in ("n_bits", "radius"):
        _must(_is_count(settings[name]), f"fingerprints {name}", settings[name])
    _must(_is_count(contents["n_bits"]) and contents["n_bits"] > 0, "n_bits", contents["n_bits"])
    _must(isinstance(contents["rdkit"], str), "rdkit", contents["rdkit"])
    _must(isinstance(segments, list) and segments != [], "segments", segments)
    for number, record in enumerate(segments):
        _must(isinstance(record, dict), "segments", record)
        _must(record["folder"] == segment_name(number), "folder", record["folder"])
        for name in ("molecules", "read", "invalid", "repeated"):
            _must(_is_count(record[name]), name, record[name])
        _must(record["molecules"] > 0, "molecules", record["molecules"])
        files = record["files"]
        _must(isinstance(files, dict), "files", files)
        names = {name.removesuffix(".npy") for name in files}
        _must(names - set(_OPTIONAL) == set(_ARRAYS), "files", sorted(files))
        for name, entry in files.items():
            _must(isinstance(entry, list) and len(entry) == 2, name, entry)
            _must(_is_count(entry[0]) and _SHA256.fullmatch(str(entry[1])) is not None, name, entry)


def _must(holds: bool, name: str, value: object) -> None:
    if not holds:
        shown = repr(value)
        raise ValueError(f"its {name} cannot be {shown[:60] + '...' if shown[60:] else shown}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
