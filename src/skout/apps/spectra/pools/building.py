"""Build a pool from files or SMILES: batches in processes, kept until all are there.

A batch becomes a file whose name is a digest of its molecules and settings, so that a second call
makes only what is missing, and nothing old is taken for new.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from tqdm import tqdm

from skout.dev import check_choice, check_number, chemistry, only_one
from skout.molecules import fingerprints
from skout.typing import PathLike

from ..readers.molecules import is_molecule_file, stream_molecules
from .parts import SHOWN, is_whole, make_part, merge, part_counts
from .priors import has_prior, prior_of
from .segments import Manifest, Segment, segment_name

#: Fingerprints of pools and of models, unless others are passed.
SETTINGS: dict[str, Any] = {
    "kind": ["morgan", "counts", "pairs", "rdkit", "maccs"],
    "n_bits": 2048,
    "radius": 2,
}
# Batches that are handed to each process at a time.
_AHEAD = 8
# SMILES, a name or "", and how well known it is, or 0.
Molecule = tuple[str, str, float]
#: A file of molecules, or files, SMILES and pairs (SMILES, name).
MoleculeSource: TypeAlias = PathLike | Iterable[PathLike | tuple[str, str | None]]


@dataclass(frozen=True)
class Work:
    """How a source is read: see `skout.molecules.MoleculePool.build`."""

    n_jobs: int | None = None
    batch: int = 5000
    column: str | None = None
    verbose: bool = False
    on_error: str = "skip"

    def __post_init__(self) -> None:
        check_number(self.batch, "batch", low=1, integer=True)
        check_choice(self.on_error, "on_error", ("skip", "raise"))


def build_folder(
    source: MoleculeSource, path: Path, settings: Mapping[str, Any] | None, work: Work
) -> Manifest:
    """Make the folder of a pool: see `skout.molecules.MoleculePool.build`."""
    known, n_bits = _checked(settings)
    if path.exists():
        raise FileExistsError(
            f"{path} is there already: open it, append to it, or give another name."
        )
    with _place(path) as place:
        segment = _merged(source, place, known, work)
        if segment is None:
            raise ValueError(
                "source has no valid molecule: give at least one. The first line of a table names "
                "its columns, one of them smiles, or the one that column names."
            )
        folder = place / "pool"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        manifest = Manifest(known, n_bits, _version(), (_moved(segment, place, folder, 0),))
        manifest.write(folder)
        os.rename(folder, path)
    return manifest


def add_segment(source: MoleculeSource, path: Path, work: Work) -> Manifest:
    """Add a segment to a pool: see `skout.molecules.MoleculePool.append`."""
    with _place(path) as place:
        manifest = Manifest.read(path)
        keys = [Segment(path, record).all_keys for record in manifest.segments]
        segment = _merged(source, place, manifest.fingerprints, work, keys)
        if segment is None:
            return manifest
        number = len(manifest.segments)
        record = _moved(segment, place, path, number)
        manifest = replace(manifest, segments=(*manifest.segments, record))
        manifest.write(path)
    return manifest


def _checked(settings: Mapping[str, Any] | None) -> tuple[dict[str, Any], int]:
    """Return settings of fingerprints, and how many bits these have; raise before any work."""
    known = SETTINGS | dict(settings or {})
    if set(known) != set(SETTINGS):
        extra = sorted(set(known) - set(SETTINGS))
        raise ValueError(f"fingerprints must have kind, n_bits and radius. Got {extra} instead.")
    n_bits = fingerprints(["C"], **known).n_bits
    kind = known["kind"] if isinstance(known["kind"], str) else list(known["kind"])
    return {"kind": kind, "n_bits": int(known["n_bits"]), "radius": int(known["radius"])}, n_bits


def _version() -> str:
    chemistry()
    import rdkit

    return str(rdkit.__version__)


@contextmanager
def _place(path: Path) -> Iterator[Path]:
    """Yield the folder for batches, which stays after an error where it has batches."""
    place = path.with_name(f"{path.name}.building")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {place.parent}: make it first.")
    if place.is_symlink():
        raise FileExistsError(
            f"{place} is a symbolic link: batches would be written to where it points. Remove it."
        )
    place.mkdir(exist_ok=True)
    with only_one(place / "lock"):
        try:
            yield place
        except BaseException:
            if not any(place.glob("*.npz")):
                shutil.rmtree(place, ignore_errors=True)
            raise
        shutil.rmtree(place, ignore_errors=True)


def _moved(segment: dict[str, Any], place: Path, pool: Path, number: int) -> dict[str, Any]:
    """Move a segment to its pool, and return its record."""
    name = segment_name(number)
    shutil.rmtree(pool / name, ignore_errors=True)  # of one that was killed before its manifest
    os.rename(place / "segment", pool / name)
    return {"folder": name, **segment}


# From a source to one segment --------------------------------------------------------------------


def _merged(
    source: MoleculeSource,
    place: Path,
    settings: Mapping[str, Any],
    work: Work,
    known: Sequence[np.ndarray] = (),
) -> dict[str, Any] | None:
    """Write the segment of a source, and return its record; None where nothing is new."""
    paths = _parts(_molecules(source, work), place, settings, work)
    if not paths:
        return None
    _report_invalid(paths, work.on_error)
    shutil.rmtree(place / "segment", ignore_errors=True)
    return merge(paths, place / "segment", known)


def _molecules(source: MoleculeSource, work: Work) -> Iterator[Molecule]:
    """Yield SMILES, names and priors, one at a time."""
    if isinstance(source, str) and not is_molecule_file(source):
        raise ValueError(
            f"source must be a file of SMILES or SDF, or a list. Got {source!r}; if it is a file, "
            "give its Path."
        )
    items = [source] if isinstance(source, str | os.PathLike) else source
    if not isinstance(items, Iterable):
        raise TypeError(f"source must be a path or an iterable of SMILES. Got {source!r} instead.")
    for position, item in enumerate(items):
        if isinstance(item, os.PathLike) or (isinstance(item, str) and is_molecule_file(item)):
            for smiles, fields in stream_molecules(
                item, column=work.column, on_error=work.on_error
            ):
                yield smiles, fields.get("name", ""), _prior(fields)
        else:
            yield _molecule(item, position)


def _prior(fields: Mapping[str, str]) -> float:
    try:
        return prior_of(fields) if has_prior(fields) else 0.0
    except ValueError:  # a column of that name which holds something else
        return 0.0


def _molecule(item: object, position: int) -> Molecule:
    text, name = item, ""
    if isinstance(item, tuple | list) and len(item) == 2:
        text, name = item
    if not isinstance(text, str) or not isinstance(name, str | None):
        raise TypeError(
            "source must have SMILES or pairs (SMILES, name), all of them str. "
            f"Got {item!r} at position {position} instead."
        )
    return text, name or "", 0.0


def _parts(
    molecules: Iterator[Molecule], place: Path, settings: Mapping[str, Any], work: Work
) -> list[Path]:
    """Make the parts that are not there yet, and return all in order."""
    n_jobs = effective_n_jobs(work.n_jobs or 1)
    bar = tqdm(desc="molecules", unit="", unit_scale=True, disable=not work.verbose)
    paths: list[Path] = []
    first = 0
    with bar, Parallel(n_jobs=n_jobs, batch_size=1) as run:
        while group := _batches(molecules, work.batch, n_jobs * _AHEAD if n_jobs > 1 else 1):
            jobs = []
            for batch in group:
                path = place / f"{len(paths):06d}-{_digest(batch, settings)}.npz"
                if not is_whole(path):
                    jobs.append(delayed(make_part)(batch, first, settings, path))
                paths.append(path)
                first += len(batch)
            run(jobs)
            bar.update(sum(map(len, group)))
            if work.on_error == "raise":
                _report_invalid(paths[-len(group) :], "raise")
    return paths


def _batches(molecules: Iterator[Molecule], size: int, most: int) -> list[list[Molecule]]:
    """Return the next batches, none at the end."""
    batches = (list(islice(molecules, size)) for _ in range(most))
    return [batch for batch in batches if batch]


def _digest(batch: list[Molecule], settings: Mapping[str, Any]) -> str:
    """Return a digest of all that a part depends on, in 16 digits."""
    head = json.dumps([_version(), dict(settings)], sort_keys=True)
    text = "\n".join([head, *("\t".join(map(str, molecule)) for molecule in batch)])
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _report_invalid(paths: list[Path], on_error: str) -> None:
    """Raise, or warn, where SMILES are invalid."""
    counts = [part_counts(path) for path in paths]
    invalid = sum(part.invalid for part in counts)
    if not invalid:
        return
    shown = [text for part in counts for text in part.shown][:SHOWN]
    more = f" and {invalid - len(shown)} more" if invalid > len(shown) else ""
    problem = f"{invalid} of {sum(part.read for part in counts)} SMILES are invalid"
    if on_error == "raise":
        raise ValueError(
            f'{problem}: {", ".join(shown)}{more}. Mend them, or leave them out: on_error="skip".'
        )
    warnings.warn(f"{problem} and left out: {', '.join(shown)}{more}.", stacklevel=5)
