"""The data sets that have loaders, as `sources.toml` declares them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

__all__ = ["SOURCES", "File", "Source"]


@dataclass(frozen=True)
class File:
    """A file that is known by its hash; None where nobody has recorded it yet."""

    name: str
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, what it should hold and which parser reads it.

    Parameters
    ----------
    kind : str
        The family: "multilabel", "multioutput", "regression", "ranking", "molecules", "text",
        "spectra" or "images".
    name : str
        Unique in its family.
    files : tuple of File
    shape : tuple of int
        Rows, features and outputs; 0 where rows are no vectors.
    n_train : int or None
        Rows of the official training part, which come first; None: there is no official split.
    parser : str
        A name in `skout.datasets.parsers.PARSERS`.
    licence, citation, origin, description : str
    """

    kind: str
    name: str
    files: tuple[File, ...]
    shape: tuple[int, int, int]
    n_train: int | None
    parser: str
    licence: str
    citation: str
    origin: str
    description: str


def _read() -> Iterator[Source]:
    text = files(__package__).joinpath("sources.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    for group in table["group"]:
        sets = group.pop("sets")
        for name, own in sets.items():
            yield _source(name, group | own, table["citations"])


def _source(name: str, fields: dict[str, Any], citations: dict[str, str]) -> Source:
    fields = fields | {
        "files": tuple(File(*file) for file in fields["files"]),
        "shape": tuple(fields["shape"]),
        "n_train": fields.get("n_train"),
        "citation": citations[fields["citation"]],
        "origin": fields["origin"].replace("<name>", name),
    }
    return Source(name=name, **fields)


#: Every data set, by kind and name.
SOURCES: dict[tuple[str, str], Source] = {(source.kind, source.name): source for source in _read()}
