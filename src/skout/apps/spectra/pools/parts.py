"""Batches of molecules as files, made by processes, and merged into a segment."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from skout.dev import new_map, ranges, replacing
from skout.molecules import fingerprints

from .segments import sealed
from .standard import entries

#: Invalid SMILES that are shown.
SHOWN = 5


# Batches ---------------------------------------------------------------------------------------


def make_part(
    batch: Sequence[tuple[str, str, float]], first: int, settings: Mapping[str, Any], path: Path
) -> None:
    """Write what a pool keeps of a batch of SMILES, names and priors to an .npz file.

    `first` is the number of the first of them, for messages; `settings` are those of fingerprints.
    """
    standard = list(entries(text for text, *_ in batch))
    valid = [i for i, entry in enumerate(standard) if entry is not None]
    known = [entry for entry in standard if entry is not None]
    invalid = [i for i, entry in enumerate(standard) if entry is None]
    shown = [f"{batch[i][0][:100]!r} at position {first + i}" for i in invalid[:SHOWN]]
    words = np.empty((0, 0), dtype=np.uint64)
    if known:
        words = fingerprints([entry.molecule for entry in known], **settings).words
    smiles_text, smiles_length = _joined([entry.smiles for entry in known])
    name_text, name_length = _joined([batch[i][1] for i in valid])
    with replacing(path) as part, open(part, "wb") as file:
        np.savez(
            file,
            counts=np.array([len(batch), len(invalid)]),
            shown=np.frombuffer(json.dumps(shown).encode(), dtype=np.uint8),
            mass=np.array([entry.mass for entry in known], dtype=np.float64),
            prior=np.array([batch[i][2] for i in valid], dtype=np.float64),
            key=np.array([entry.key for entry in known], dtype="S14"),
            formula=np.array([entry.formula for entry in known], dtype=np.bytes_),
            smiles_text=smiles_text,
            smiles_length=smiles_length,
            name_text=name_text,
            name_length=name_length,
            words=words,
        )


def _joined(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return texts as one array of bytes, and the length of each."""
    parts = [text.encode("utf-8", "replace") for text in texts]
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    return np.frombuffer(b"".join(parts), dtype=np.uint8), lengths


@dataclass(frozen=True)
class PartCounts:
    """How many molecules a part had, how many of them are invalid, and the first of these."""

    read: int
    invalid: int
    shown: list[str]


def part_counts(path: Path) -> PartCounts:
    """Return the counts of molecules in the batch of a part."""
    with np.load(path, allow_pickle=False) as part:
        read, invalid = part["counts"].tolist()
        return PartCounts(read, invalid, json.loads(part["shown"].tobytes()))


def is_whole(path: Path) -> bool:
    """Whether a part is there, and none of its bytes was changed."""
    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except (OSError, zipfile.BadZipFile, zlib.error):
        return False


# One segment of all ----------------------------------------------------------------------------


def merge(
    paths: Sequence[Path], folder: Path, known: Sequence[np.ndarray] = ()
) -> dict[str, Any] | None:
    """Write a segment of all parts, each skeleton once, sorted by mass; return its record.

    Parts are read one at a time, so that memory holds no fingerprints and texts of all. Keys that
    are `known` are left out; where nothing is left, there is no record.
    """
    columns = _columns(paths)
    rows, named, prior = _choose(columns, known)
    if not len(rows):
        return None
    folder.mkdir()
    _write(folder, "mass", columns["mass"][rows])
    _write(folder, "key", columns["key"][rows])
    _write(folder, "key_order", np.argsort(columns["key"][rows], kind="stable"))
    if prior.any():
        _write(folder, "prior", prior)
    _write_formulas(folder, columns["formula"][rows])
    _write_texts(folder, "smiles", paths, columns["smiles_length"], rows)
    _write_texts(folder, "name", paths, columns["name_length"], named)
    _write_words(folder, paths, columns, rows)
    counts = [part_counts(path) for path in paths]
    read, invalid = sum(part.read for part in counts), sum(part.invalid for part in counts)
    repeated = read - invalid - len(rows)
    return sealed(folder, molecules=len(rows), read=read, invalid=invalid, repeated=repeated)


def _columns(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """Return the small columns of all parts, concatenated."""
    names = ("mass", "prior", "key", "formula", "smiles_length", "name_length")
    pieces: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for path in paths:
        with np.load(path, allow_pickle=False) as part:
            for name in names:
                pieces[name].append(part[name])
    return {name: np.concatenate(parts) for name, parts in pieces.items()}


def _choose(
    columns: Mapping[str, np.ndarray], known: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first row of each new skeleton by mass, the first of its rows with a name, and the
    sum of the priors of its rows."""
    keys, first, code = np.unique(columns["key"], return_index=True, return_inverse=True)
    named = first.copy()
    with_name = np.flatnonzero(columns["name_length"])
    codes, place = np.unique(code.reshape(-1)[with_name], return_index=True)
    named[codes] = with_name[place]
    new = np.ones(len(keys), dtype=bool)
    for known_keys in known:
        new &= ~np.isin(keys, known_keys)
    prior = np.bincount(code.reshape(-1), columns["prior"], minlength=len(keys))
    first, named, prior = first[new], named[new], prior[new]
    order = np.lexsort([first, columns["mass"][first]])
    return first[order], named[order], prior[order]


def _write(folder: Path, name: str, array: np.ndarray) -> None:
    little = array.dtype.newbyteorder("<")
    np.save(folder / f"{name}.npy", np.ascontiguousarray(array, dtype=little), allow_pickle=False)


def _write_formulas(folder: Path, formulas: np.ndarray) -> None:
    distinct, code = np.unique(formulas, return_inverse=True)
    code = code.reshape(-1)
    text, lengths = _joined([formula.decode() for formula in distinct.tolist()])
    order = np.argsort(code, kind="stable")
    _write(folder, "formula_code", code.astype(np.int32))
    _write(folder, "formula_order", order.astype(np.int64))
    _write(folder, "formula_rows", np.searchsorted(code[order], np.arange(len(distinct) + 1)))
    _write(folder, "formula_text", text)
    _write(folder, "formula_start", np.cumsum([0, *lengths.tolist()]))


def _write_texts(
    folder: Path, name: str, paths: Sequence[Path], lengths: np.ndarray, rows: np.ndarray
) -> None:
    """Write the texts of `rows` of the parts, in this order, one after the other."""
    starts = np.concatenate([[0], np.cumsum(lengths[rows])]).astype(np.int64)
    _write(folder, f"{name}_start", starts)
    out = new_map(folder / f"{name}_text.npy", (int(starts[-1]),), np.uint8)
    arrays = (f"{name}_length", f"{name}_text")
    for here, part_lengths, text in _placed(paths, arrays, len(lengths), rows):
        wanted = here >= 0
        begins = np.cumsum(part_lengths) - part_lengths
        source = ranges(begins[wanted], part_lengths[wanted])
        out[ranges(starts[here[wanted]], part_lengths[wanted])] = text[source]
    out.flush()


def _write_words(
    folder: Path, paths: Sequence[Path], columns: Mapping[str, np.ndarray], rows: np.ndarray
) -> None:
    """Write the fingerprints of `rows` of the parts in this order."""
    out = None
    for here, words in _placed(paths, ("words",), len(columns["mass"]), rows):
        if out is None and len(words):
            out = new_map(folder / "words.npy", (len(rows), words.shape[1]), np.dtype("<u8"))
        if out is not None:
            out[here[here >= 0]] = words[here >= 0]
    if out is not None:
        out.flush()


def _placed(
    paths: Sequence[Path], names: Sequence[str], n: int, rows: np.ndarray
) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the place in `rows` of the rows of each part, -1 where they have none, and arrays.

    The parts have n rows in all, and the first array has one for each.
    """
    target, done = np.full(n, -1, dtype=np.int64), 0
    target[rows] = np.arange(len(rows))
    for path in paths:
        with np.load(path, allow_pickle=False) as part:
            arrays = [part[name] for name in names]
        yield target[done : done + len(arrays[0])], *arrays
        done += len(arrays[0])
