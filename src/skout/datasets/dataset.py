"""`load(name)` finds the files of a data set and reads them into a `Dataset`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows, take
from .._numerics.typing import Rows
from .._numerics.validation import check_choice, check_number, resolve
from .catalog import CATALOG, DatasetEntry
from .files import available, fetch, locate, packed
from .parsers import parse


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs and outputs of a data set, with its official parts, names, candidates and source.

    Parameters
    ----------
    name : str
        The name of the data set.
    X, Y : arrays, CSR matrices, a dict of columns or other rows
        As many inputs as outputs. Strings are in arrays of objects.
    split : dict of str to slice or array of int, default empty
        The rows of each official part, "train", "validation" or "test"; empty where there is no
        official split.
    files : tuple of paths, default empty
        The files that it was read from.
    candidates : objects or CandidateSets, optional
        The pool to choose predictions from, or one set for each row.
    names : dict of str to array, default empty
        Of "features" and "outputs", where they have names; "nominal" are the positions of columns
        of X that are codes of categories, ``category_values_NAME`` what those of a column mean.
    extra : dict of str to array, default empty
        Further columns, one value a row.
    description, license, citation : str, default ""
        About the data, their license and whom to cite.

    Examples
    --------
    >>> from skout.datasets import make_robust_regression
    >>> data = make_robust_regression(100, 50)
    >>> data
    Dataset('robust_regression', X (150, 10), Y (150,), train 100, test 50)
    >>> X, y = data.train
    >>> X.shape, y.shape
    ((100, 10), (100,))
    """

    name: str
    X: Any
    Y: Any
    split: Mapping[str, slice | np.ndarray] = field(default_factory=dict)
    candidates: Any = None
    names: Mapping[str, np.ndarray] = field(default_factory=dict)
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    description: str = ""
    license: str = ""
    citation: str = ""

    def __post_init__(self) -> None:
        if n_rows(self.X) != n_rows(self.Y):
            raise ValueError(
                f"X and Y of {self.name!r} must have as many rows as each other. "
                f"Got {n_rows(self.X)} and {n_rows(self.Y)} instead."
            )

    def __len__(self) -> int:
        return n_rows(self.X)

    def __repr__(self) -> str:
        sides = (f"{side} {_shape(rows)}" for side, rows in (("X", self.X), ("Y", self.Y)))
        rows = np.arange(len(self))
        parts = (f"{part} {len(rows[index])}" for part, index in self.split.items())
        return f"Dataset({', '.join([repr(self.name), *sides, *parts])})"

    def part(self, name: str) -> tuple[Rows, Rows]:
        """Return X and Y of an official part.

        Parameters
        ----------
        name : "train", "validation" or "test"
        """
        if name not in self.split:
            parts = ", ".join(map(repr, self.split)) or "none"
            raise ValueError(
                f"{self.name!r} has no official part {name!r}; it has: {parts}. "
                "Split X and Y yourself, for instance with sklearn's train_test_split."
            )
        rows = self.split[name]
        return take(self.X, rows), self.Y[rows]

    @property
    def train(self) -> tuple[Rows, Rows]:
        """Inputs and outputs of the official training part."""
        return self.part("train")

    @property
    def test(self) -> tuple[Rows, Rows]:
        """Inputs and outputs of the official test part."""
        return self.part("test")


def _shape(rows: Rows) -> tuple[int, ...]:
    if isinstance(rows, dict):
        return n_rows(rows), len(rows)
    return tuple(getattr(rows, "shape", (n_rows(rows),)))


def load(
    name: str, kind: str | None = None, *, fold: int | None = None, download: bool = False
) -> Dataset:
    """Load one of the data sets that `skout datasets` lists.

    ============ ============================ =====================================================
    kind         X                            Y
    ============ ============================ =====================================================
    multilabel   a CSR matrix                 an array of 0 and 1, one column a label
    multioutput  an array                     an array, one column a target; NaN is missing
    regression   an array                     an array of shape (n,)
    ranking      an array                     Y[i, j] is the position of label j, 0 for the best
    molecules    SMILES                       SMILES, properties (a CSR matrix of 0 and 1), vectors
    text         descriptions                 SMILES
    spectra      spectra, as kernels take     SMILES
    images       pixels                       digits
    tables       a dict of columns            an array of 0 and 1, one column a label
    ============ ============================ =====================================================

    `Dataset` says what else there may be: official parts, names, further columns, candidates.

    Parameters
    ----------
    name : str
        "bibtex", "rf1", "boston", "sushi", "qm9", "qm9_properties", "chebi20", ...;
        "films", a table, and "massbank-sample", spectra, come with skout.
    kind : str, optional
        Needed where data sets of two kinds share a name: "housing", "stock" and "wine".
    fold : int, optional
        Which of the ten official folds, 0 to 9, is the test part. Most data sets of regression
        have folds; extra["fold"] says which one each row is in.
    download : bool, default False
        Whether to download the public files, into the cache, where no file is on this computer.

    Raises
    ------
    FileNotFoundError
        If a file is missing: the message says where to get it and where to put it.
    ValueError
        If there is no such data set, or a file is corrupted.

    Examples
    --------
    >>> from skout.datasets import load
    >>> load("films")
    Dataset('films', X (600, 10), Y (600, 21), train 450, test 150)
    >>> load("yeast")  # doctest: +SKIP
    Dataset('yeast', X (2417, 103), Y (2417, 14), train 1500, test 917)
    >>> load("airfoil", fold=0)  # doctest: +SKIP
    Dataset('airfoil', X (1503, 5), Y (1503,), train 1353, test 150)
    >>> load("yest")
    Traceback (most recent call last):
    ValueError: Unknown data set 'yest'. Did you mean 'yeast'? ...
    """
    if fold is not None and check_number(fold, "fold", integer=True) > 9:
        raise ValueError(f"fold must be None or an integer from 0 to 9. Got {fold!r} instead.")
    entry = _entry(name, kind)
    if download and not available(entry):
        fetch(entry)
    if entry.original and available(entry) and not packed(entry):
        paths, parser = fetch(entry), entry.original.parser
        public_rows = entry.original.rows  # a release may have others than the copy
        n_public = entry.shape[0] if public_rows is None else public_rows
        expected = replace(entry, shape=(n_public, *entry.shape[1:]))
    else:
        paths, parser, expected = locate(entry), entry.parser, entry
    fields = parse(paths, expected, parser)
    if entry.n_train is not None:
        rows, n = entry.shape[0], entry.n_train
        split = {"train": slice(0, n), "test": slice(n, rows)}
        fields["split"] = split if n else {"test": split["test"]}
    about = {key: getattr(entry, key) for key in ("name", "description", "license", "citation")}
    data = Dataset(**about, **fields, files=tuple(paths))
    if fold is None:
        return data
    if "fold" not in data.extra:
        raise ValueError(f"{name!r} has no official folds: leave fold out. Got fold={fold!r}.")
    held = data.extra["fold"] == fold
    return replace(data, split={"train": np.flatnonzero(~held), "test": np.flatnonzero(held)})


def _entry(name: str, kind: str | None) -> DatasetEntry:
    """Return the data set of a name, or raise an error that lists all data sets."""
    if kind is not None:
        check_choice(kind, "kind", tuple(dict.fromkeys(group for group, _ in CATALOG)))
    by_name: dict[str, list[DatasetEntry]] = {}
    for entry in CATALOG.values():
        if kind in (None, entry.kind):
            by_name.setdefault(entry.name, []).append(entry)
    entries: list[DatasetEntry] = resolve(name, by_name, f"{kind} data set" if kind else "data set")
    if len(entries) > 1:
        kinds = " or ".join(f"kind={entry.kind!r}" for entry in entries)
        raise ValueError(f"There are several data sets {name!r}: say {kinds}.")
    return entries[0]
