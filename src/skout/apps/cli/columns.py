"""`Inputs` and `Outputs`: from cells of a table to inputs and outputs of a model, and back.

What is learned from the training table (label names, means) is plain data: it travels in the
metadata of the model's file.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from skout.dev import join, n_rows, resolve
from skout.kinds import KINDS, Kind, either

from ..tables.files import Part, Reading, Table, listed
from ..tables.frames import SomeRows
from ..tables.numerals import Writing, is_missing

# The most outputs that their kind, and a baseline, are inferred from.
_MOST_ROWS = 100_000


@dataclass
class Inputs:
    """The input columns of a model, and how their cells are read."""

    columns: list[str]
    is_text: bool = False  # a single column of text or SMILES; else numbers, but see `is_table`
    standardize: bool = False  # numbers are centered and scaled by `means` and `scales`
    missing: str = "error"  # missing numbers; "mean" fills them, or the "model" takes them
    means: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    is_table: bool = False  # the model takes columns of all kinds by their names
    words: list[str] = field(default_factory=list)  # of a table: columns that are read as text
    writings: dict[str, dict[str, Any]] = field(default_factory=dict)  # of inputs and targets
    strict: bool = False  # a cell that is no number is an error, and not missing
    kinds: dict[str, str] = field(default_factory=dict)  # of a table: what --kind gave

    @property
    def numbers(self) -> list[str]:
        """The columns to be read as numbers."""
        texts = set(self.texts)
        return [name for name in self.columns if name not in texts]

    @property
    def texts(self) -> list[str]:
        """The columns to be read as text."""
        return self.words if self.is_table else self.columns if self.is_text else []

    @property
    def gaps(self) -> list[str]:
        """The columns that may have missing numbers."""
        return self.numbers if self.missing in ("mean", "model") else []

    @property
    def reading(self) -> Reading:
        """How cells are read as numbers."""
        writings = {name: Writing(**writing) for name, writing in self.writings.items()}
        return Reading(self.gaps, writings, self.strict)

    @property
    def learns(self) -> bool:
        """Whether `learn` must be called."""
        return self.standardize or self.missing == "mean"

    def learn(self, scaler: StandardScaler) -> None:
        """Keep the means and scales of the training rows, which `scaler` has seen."""
        empty = np.flatnonzero(scaler.n_samples_seen_ == 0)
        if len(empty):
            name = self.columns[empty[0]]
            raise ValueError(f"Column {name!r} has no value at all: leave it out with --drop.")
        self.means, self.scales = scaler.mean_.tolist(), scaler.scale_.tolist()

    def read(self, table: Table, part: Part) -> Any:
        """Return the rows of a part as the model takes them."""
        if self.is_text:
            cells = part.texts[self.columns[0]]
            empty = next((i for i, cell in enumerate(cells) if not cell.strip()), None)
            if empty is not None:
                raise table.missing(self.columns[0], part.start + empty)
            return cells
        if self.is_table:
            return self._columns_of(part)
        X = part.columns(self.columns)
        if self.missing == "mean":
            X = np.where(np.isnan(X), self.means, X)
        return (X - self.means) / self.scales if self.standardize else X

    def _columns_of(self, part: Part) -> dict[str, np.ndarray]:
        """Return the columns of a part by name: numbers, and texts with None for missing ones."""
        by_name = dict(zip(self.numbers, part.columns(self.numbers).T, strict=True))
        for name in self.words:
            cells = np.empty(len(part), dtype=object)
            cells[:] = [None if is_missing(cell or "") else cell for cell in part.texts[name]]
            by_name[name] = cells
        rows = SomeRows({name: by_name[name] for name in self.columns})
        rows.first_row = part.start
        return rows

    def without(self, names: Collection[str]) -> "Inputs":
        """Return the other columns of a table."""
        columns, words = (
            [name for name in kept if name not in names] for kept in (self.columns, self.words)
        )
        return replace(self, columns=columns, words=words)

    def as_numbers(self) -> "Inputs":
        """Return the same inputs as a matrix of numbers, for a table with nothing else."""
        return replace(self, is_table=False, words=[], missing="error")


@dataclass
class Outputs:
    """Columns that hold the objects to predict, and their kind with what it learned of them."""

    columns: list[str]
    kind: Kind
    others: list[str] = field(default_factory=list)  # other possible kinds, of a guess

    @property
    def name(self) -> str:
        """The name of the target: its column, or its first columns."""
        return listed(self.columns)

    @property
    def is_text(self) -> bool:
        """Whether its columns are read as text."""
        return self.kind.reads_text(len(self.columns))

    @property
    def numbers(self) -> list[str]:
        """The columns to be read as numbers."""
        return [] if self.is_text else self.columns

    @property
    def texts(self) -> list[str]:
        """The columns to be read as text."""
        return self.columns if self.is_text else []

    def cells_of(self, part: Part) -> list[str] | np.ndarray:
        """Return the cells of some rows: texts, or numbers."""
        return part.texts[self.columns[0]] if self.is_text else part.columns(self.columns)

    def observed(self, part: Part) -> Part:
        """Return the rows of a part that have a target, numbered without gaps."""
        rows = self.observed_rows(part)
        return part if len(rows) == len(part) else part.take(rows.tolist())

    def observed_rows(self, part: Part) -> np.ndarray:
        """Return the positions of the rows that have a target.

        A blank cell is a target where the kind can read it, such as a set without labels; so is
        a row with some of its numbers.
        """
        cells = self.cells_of(part)
        if isinstance(cells, np.ndarray):
            gaps = np.isnan(cells)
            partly_filled = np.flatnonzero(gaps.any(axis=1) & ~gaps.all(axis=1))
            needs_all = len(partly_filled) > 0 and _fails(self.kind.read, cells[partly_filled[:1]])
            has_target = ~(gaps.any(axis=1) if needs_all else gaps.all(axis=1))
        else:
            takes_blank = not _fails(self.kind.read, [""])
            missing = [is_missing(c) and not (takes_blank and not c.strip()) for c in cells]
            has_target = ~np.array(missing, dtype=bool)
        return np.flatnonzero(has_target)

    def learn(self, part: Part) -> None:
        """Learn the names of labels or items from training rows."""
        self.kind = self.kind.learn(self.cells_of(part), self.columns)

    def read(self, table: Table, part: Part, candidates: bool = False) -> Any:
        """Return the outputs of a part as the model takes them, or its candidates.

        A single column of numbers becomes an array with one axis. An error names the row.
        """
        cells = self.cells_of(part)
        read = self.kind.read_candidates if candidates else self.kind.read
        try:
            objects: Any = read(cells)
        except ValueError as error:
            i = next((i for i in range(len(cells)) if _fails(read, cells[i : i + 1])), 0)
            hint = " Give --skip-invalid to leave such candidates out." if candidates else ""
            raise ValueError(f"{table.path}: row {part.start + i} has {error}{hint}") from error
        is_vector = self.kind.estimator_type == "regressor" and len(self.columns) == 1
        return objects[:, 0] if is_vector else objects

    def cells(self, objects: Any) -> dict[str, list[Any]]:
        """Return the columns of the table that predicted outputs become."""
        if self.is_text:
            return {self.columns[0]: self.kind.write(objects)}
        values = self.kind.to_columns(objects)
        return dict(zip(self.columns, values.T.tolist(), strict=True))

    def baseline(self, Y: Any) -> dict[str, Any]:
        """Return the best constant prediction: its "name", and the "cells" of its row."""
        cells = self.cells(self.kind.baseline(Y))
        first = {name: column[0] for name, column in cells.items()}
        return {"name": self.kind.baseline_name, "cells": first}

    def baseline_output(self, record: Any) -> tuple[str, Any] | None:
        """Return the name and the output of a record of `baseline`; None without a record."""
        if not isinstance(record, dict):
            return None
        try:
            row = [record["cells"][name] for name in self.columns]
            cells = [str(row[0])] if self.is_text else np.array([row], dtype=float)
            return str(record["name"]), self.kind.read(cells)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"The baseline in the model's file is damaged: {error}.") from error

    def notes(self, is_one_of_several: bool = False) -> list[str]:
        """Return notes for people on a guessed kind, with the option to overrule it."""
        guess = f"{listed(self.columns)}: taken for {self.kind.name}{self.details()}. If that is "
        flag = f"wrong, give --kind {self.name}=" if is_one_of_several else "wrong, give --output "
        guesses = [f"{guess}{flag}{either(self.others)}."] if self.others else []
        return [*guesses, *([self.kind.notice()] if self.is_text and self.kind.notice() else [])]

    def details(self) -> str:
        """Return the number of labels or classes, and what separates labels, in brackets."""
        labels = getattr(self.kind, "labels", ())
        if labels and self.is_text:
            return f" ({len(labels)} labels, separated by {self.kind.separator!r})"
        many = labels or getattr(self.kind, "items", ())
        return f" ({len(many)} {self.kind.part.strip()}s)" if many else ""

    def saved(self) -> dict[str, Any]:
        """Return the columns and the fields of the kind, as JSON has them."""
        return {"kind": self.kind.name, "columns": self.columns, **asdict(self.kind)}

    @classmethod
    def opened(cls, record: Mapping[str, Any]) -> "Outputs":
        """Return the outputs of a record of `saved`."""
        fields = dict(record)
        kind, columns = known_kind(str(fields.pop("kind"))), fields.pop("columns")
        return cls(columns, replace(kind, **fields))


def columns_to_read(inputs: Inputs, *outputs: Outputs) -> tuple[list[str], list[str], Reading]:
    """Return the columns to read as numbers, those to read as text, and how to read numbers.

    Rows without a target are left out, see `Outputs.observed`, unless the reading is strict.
    """
    reading = inputs.reading
    numbers = [name for target in outputs for name in target.numbers]
    if not inputs.strict:
        reading = replace(reading, gaps=[*reading.gaps, *numbers])
    texts = [*inputs.texts, *(name for target in outputs for name in target.texts)]
    return [*inputs.numbers, *numbers], list(dict.fromkeys(texts)), reading


def first_rows(blocks: Iterable[Any]) -> Any:
    """Join the outputs of the first blocks, up to about 100,000 rows."""
    kept: list[Any] = []
    for Y in blocks:
        kept.append(Y)
        if sum(map(n_rows, kept)) >= _MOST_ROWS:
            break
    return join(kept)


def known_kind(name: str, where: str = "kind") -> Kind:
    """Return the kind of output of this name, also one that an installed package brings.

    Such a package has an entry point in the group "skout.kinds", of which the name is that of the
    kind, and which leads to its class.
    """
    if KINDS.spelled(name) not in KINDS:
        for entry in entry_points(group="skout.kinds"):
            KINDS.setdefault(entry.name, entry.load()())
    kind: Kind = resolve(name, KINDS, where)
    return kind


def _fails(read: Callable[..., Any], cells: list[str] | np.ndarray) -> bool:
    try:
        read(cells)
    except ValueError:
        return True
    return False
