"""The data sets that `load` knows, as `sources.toml` and `originals.toml` declare them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class File:
    """A file of a data set, with its size and SHA-256; None where they are not recorded."""

    name: str
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Original:
    """The public files that a data set is made of, at a commit of a repository on GitHub."""

    repository: str
    commit: str
    files: tuple[File, ...]  # their names are paths in the repository, or those of a release
    parser: str  # a name in `skout.datasets.parsers.PARSERS`
    release: str = ""  # whose files they are, "" for those of the commit
    rows: int | None = None  # that they have, 0 where it is not known; None: as many as packed

    @property
    def folder(self) -> str:
        """The address of the folder of the files; SKOUT_ORIGINALS_URL replaces its host."""
        host = "https://github.com" if self.release else "https://raw.githubusercontent.com"
        place = f"releases/download/{self.release}" if self.release else self.commit
        base = os.environ.get("SKOUT_ORIGINALS_URL", host).rstrip("/")
        return f"{base}/{self.repository}/{place}"


@dataclass(frozen=True)
class DatasetEntry:
    """Where a data set comes from, what it should hold and which parser reads it."""

    #: the family: multilabel, multioutput, regression, ranking, molecules, text, spectra, images or
    #: tables
    kind: str
    name: str  # unique in its family
    files: tuple[File, ...]
    shape: tuple[int, int, int]  # rows, features and outputs; 0 where rows are no vectors
    n_train: int | None  # rows of the official training part, which come first; None without one
    parser: str  # a name in `skout.datasets.parsers.PARSERS`
    license: str
    citation: str
    origin: str
    description: str
    original: Original | None = None  # what `fetch` downloads where the files are missing


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _originals() -> dict[tuple[str, str], Original]:
    """Return the public files by kind and name of the data set."""
    return {
        (group["kind"], name): Original(
            group["repository"],
            group["commit"],
            tuple(File(*file) for file in listed),
            group["parser"],
            group.get("release", ""),
            group.get("rows"),
        )
        for group in _table("originals.toml")["group"]
        for name, listed in group["sets"].items()
    }


def _read() -> Iterator[DatasetEntry]:
    table, originals = _table("sources.toml"), _originals()
    for group in table["group"]:
        sets = group.pop("sets")
        for name, fields in sets.items():
            original = originals.get((group["kind"], name))
            yield _entry(name, group | fields | {"original": original}, table["citations"])


def _entry(name: str, fields: dict[str, Any], citations: dict[str, str]) -> DatasetEntry:
    fields = fields | {
        "files": tuple(File(*file) for file in fields["files"]),
        "shape": tuple(fields["shape"]),
        "n_train": fields.get("n_train"),
        "citation": citations[fields["citation"]],
        "origin": fields["origin"].replace("<name>", name),
    }
    return DatasetEntry(name=name, **fields)


#: Every data set, by kind and name.
CATALOG: dict[tuple[str, str], DatasetEntry] = {
    (entry.kind, entry.name): entry for entry in _read()
}
