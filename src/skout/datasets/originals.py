"""Data sets from the public files that they were made of: download, check, read.

The arrays are exactly those of the packed files that `skout.datasets.files` looks for. The variable
SKOUT_ORIGINALS_URL names another address than that of GitHub, such as a mirror: below it are
repository/commit/path.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .arff import nominal_columns
from .catalogue import File, Original, Source
from .files import cache_folder, checked, packed, retrieve
from .parsers import check_shape, multilabel_arff, multioutput_arff, tied_rankings_csv

__all__ = ["READERS", "at_hand", "fetch", "read"]

BASE_URL = "https://raw.githubusercontent.com"

Fields = dict[str, Any]


def fetch(source: Source, *, progress: bool = False) -> list[Path]:
    """Download the original files of a data set into the cache, unless they are there.

    It is an error if there are no public files, a download fails or a file has another hash than it
    should; nothing is kept of it.
    """
    original = source.original
    if original is None:
        raise FileNotFoundError(
            f"There is no public address for the data set {source.name!r}. It comes from "
            f"{source.origin}. Put its file into a folder and set SKOUT_DATA to that folder."
        )
    return [_fetched(file, original, source, progress) for file in original.files]


def at_hand(source: Source) -> bool:
    """Return whether a data set is on this computer, packed or as it was published."""
    original = source.original
    fetched = original is not None and all(_place(file).is_file() for file in original.files)
    return fetched or packed(source)


def read(source: Source) -> Fields:
    """Read the original files in the cache: what `parse` makes of the packed ones."""
    if source.original is None:
        raise ValueError(f"The data set {source.name!r} has no original files.")
    return check_shape(READERS[source.original.reader](fetch(source), source), source)


def _place(file: File) -> Path:
    """Return where a file lies: its hash keeps files of equal names apart."""
    return cache_folder() / "originals" / f"{str(file.sha256)[:12]}-{Path(file.name).name}"


def _fetched(file: File, original: Original, source: Source, progress: bool) -> Path:
    path = _place(file)
    if path.is_file():
        return checked(path, file, source)
    base = os.environ.get("SKOUT_ORIGINALS_URL", BASE_URL).rstrip("/")
    address = f"{base}/{original.repository}/{original.commit}/{file.name}"
    return retrieve(address, file, path, source, progress=progress)


# Readers -----------------------------------------------------------------------------------------


def label_sets_arff(paths: list[Path], source: Source) -> Fields:
    """Mulan's files: the last columns are the labels; values are kept in single precision."""
    fields = multilabel_arff(_tables(paths), source, without=("protein",))
    X = sparse.csr_matrix(fields["X"]).astype(np.float32).astype(np.float64)
    X.eliminate_zeros()
    return fields | {"X": X}


def targets_arff(paths: list[Path], source: Source) -> Fields:
    """Mulan's files: the last columns are the targets."""
    fields = multioutput_arff(_tables(paths), source)
    return fields | {"names": fields["names"] | {"nominal": nominal_columns(paths[0])}}


def _tables(paths: list[Path]) -> list[Path]:
    """Leave out the lists of labels that come with the tables."""
    return [path for path in paths if path.suffix == ".arff"]


READERS: dict[str, Callable[[list[Path], Source], Fields]] = {
    function.__name__: function for function in (label_sets_arff, targets_arff, tied_rankings_csv)
}
