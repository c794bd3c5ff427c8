"""From the cells of a table to inputs and outputs of a model, and back.

What is learned from the training table (label names, means) is plain data: it travels in the
metadata of the model's file.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from skout.dev import Registry
from skout.kernels.molecules import molecules

from ..tables.files import Part, Reading, Table
from ..tables.frames import SomeRows
from ..tables.numerals import Writing, is_missing

__all__ = [
    "NOT_CHOSEN",
    "OUTPUTS",
    "Inputs",
    "LabelSets",
    "Numbers",
    "Outputs",
    "Rankings",
    "Texts",
]


class _Columns:
    """Columns that are read as numbers, or as text."""

    columns: list[str]
    is_text: Any

    @property
    def numbers(self) -> list[str]:
        """The columns to be read as numbers."""
        return [] if self.is_text else self.columns

    @property
    def texts(self) -> list[str]:
        """The columns to be read as text."""
        return self.columns if self.is_text else []


@dataclass
class Inputs(_Columns):
    """Columns of numbers, or one of text or SMILES."""

    columns: list[str]
    is_text: bool = False
    standardize: bool = False  # numbers are centred and scaled by what `learn` gathers
    missing: str = "error"  # or "mean" fills missing numbers, or the "model" takes those of a table
    means: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    is_table: bool = False  # the model takes columns of all kinds by their names
    words: list[str] = field(default_factory=list)  # columns of a table that are read as text
    writings: dict[str, dict[str, Any]] = field(default_factory=dict)  # of numbers, and of targets
    strict: bool = False  # a cell that is no number is an error, and not missing

    @property
    def numbers(self) -> list[str]:
        """The columns to be read as numbers."""
        if not self.is_table:
            return super().numbers
        words = set(self.words)
        return [name for name in self.columns if name not in words]

    @property
    def texts(self) -> list[str]:
        """The columns to be read as text."""
        return self.words if self.is_table else super().texts

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
        """Return the X of some rows; the inputs are the first of the part's numbers."""
        if self.is_text:
            return _filled(table, part, self.columns[0])
        if self.is_table:
            return self._columns_of(part)
        X = part.numbers[:, : len(self.columns)]
        if self.missing == "mean":
            X = np.where(np.isnan(X), self.means, X)
        return (X - self.means) / self.scales if self.standardize else X

    def _columns_of(self, part: Part) -> dict[str, np.ndarray]:
        """Return columns by name: numbers, and texts with None where nothing is."""
        found = dict(zip(self.numbers, part.numbers.T, strict=False))
        for name in self.words:
            cells = np.empty(len(part), dtype=object)
            cells[:] = [None if is_missing(cell or "") else cell for cell in part.texts[name]]
            found[name] = cells
        rows = SomeRows({name: found[name] for name in self.columns})
        rows.first_row = part.start
        return rows

    def as_numbers(self) -> "Inputs":
        """Return the same columns as those of a matrix, of a table that turned out to be one."""
        return replace(self, is_table=False, words=[], missing="error")


class Outputs(_Columns, ABC):
    """Columns that hold the objects to predict."""

    kind: str
    glue = ""  # between the words of an object

    @property
    def is_text(self) -> bool:
        """Whether its columns are read as text."""
        return False

    def learn(self, part: Part) -> None:
        """Look at training rows, for the names of labels or items."""

    @property
    def doubt(self) -> str:
        """What may not be meant, of what was learnt; empty if nothing."""
        return ""

    @abstractmethod
    def read(self, table: Table, part: Part) -> Any:
        """Return the objects of some rows; numbers are the last of the part's."""

    def candidates(self, table: Table, part: Part) -> Any:
        """Return the objects of some rows, which the model must be able to predict."""
        return self.read(table, part)

    def unfit(self, part: Part) -> list[int]:
        """Return the rows, from 0 in this part, whose objects can be no candidates."""
        return []

    @abstractmethod
    def cells(self, objects: Any) -> dict[str, list[Any]]:
        """Return the columns of predicted objects."""

    def lists(self, objects: Any) -> list[list[str]]:
        """Return each object as words: labels, items best first, numbers, or one text."""
        return [[str(word)] for word in objects]

    def words(self, objects: Any) -> list[str]:
        """Return each object as one text."""
        return [self.glue.join(words) for words in self.lists(objects)]

    def saved(self) -> dict[str, Any]:
        """Return what a file keeps."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]

    def _numbers(self, part: Part) -> np.ndarray:
        return part.numbers[:, part.numbers.shape[1] - len(self.columns) :]


@dataclass
class LabelSets(Outputs):
    """A column of labels with separators between them, or a column of 0 and 1 for each label."""

    columns: list[str]
    labels: list[str] = field(default_factory=list)
    separators: str = ";|"
    kind = "label_sets"

    def __post_init__(self) -> None:
        if not self.is_text:
            self.labels = self.columns

    @property
    def is_text(self) -> bool:
        return len(self.columns) == 1

    def learn(self, part: Part) -> None:
        if self.is_text:
            self.labels = sorted({*self.labels, *(w for row in self.sets(part) for w in row)})

    @property
    def doubt(self) -> str:
        parts = {word.strip() for label in self.labels for word in label.split(",")}
        if not self.is_text or len(parts) >= len(self.labels):
            return ""
        odd = next(label for label in self.labels if "," in label)
        return f"{odd!r} is taken for one label; --separators ',' makes several of it."

    def sets(self, part: Part) -> list[list[str]]:
        """Return the labels of each row, of one column of text."""
        split = re.compile(f"[{re.escape(self.separators)}]").split
        cells = part.texts[self.columns[0]]
        return [list(dict.fromkeys(w.strip() for w in split(c) if w.strip())) for c in cells]

    def read(self, table: Table, part: Part) -> Any:
        """Return a CSR matrix; labels that the model does not know get columns of their own."""
        if not self.is_text:
            return sparse.csr_matrix(_checked_bits(table, part, self._numbers(part), self.columns))
        number = {label: j for j, label in enumerate(self.labels)}
        sets = [[number.setdefault(w, len(number)) for w in row] for row in self.sets(part)]
        indptr = np.cumsum([0, *map(len, sets)])
        indices = np.fromiter((j for row in sets for j in row), np.int64, count=indptr[-1])
        shape = (len(sets), len(number))
        found = sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape=shape)
        found.sort_indices()
        return found

    def candidates(self, table: Table, part: Part) -> Any:
        unknown = self.unfit(part) if self.is_text else []
        if unknown:
            raise ValueError(
                f"{table.path}: row {part.start + unknown[0]} has a label that the model was not "
                "trained with. --skip-invalid leaves such candidates out."
            )
        return self.read(table, part)

    def unfit(self, part: Part) -> list[int]:
        if not self.is_text:
            return np.flatnonzero(_no_bits(self._numbers(part)).any(axis=1)).tolist()
        known = set(self.labels)
        return [i for i, row in enumerate(self.sets(part)) if not known.issuperset(row)]

    def cells(self, objects: Any) -> dict[str, list[Any]]:
        rows = sparse.csr_matrix(objects)
        if not self.is_text:
            return dict(zip(self.columns, rows.toarray().astype(int).T.tolist(), strict=True))
        return {self.columns[0]: self.words(rows)}

    @property
    def glue(self) -> str:  # type: ignore[override]
        return self.separators[0]

    def lists(self, objects: Any) -> list[list[str]]:
        rows = sparse.csr_matrix(objects, copy=True)
        rows.eliminate_zeros()
        ends = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        return [[self.labels[j] for j in sorted(rows.indices[a:b])] for a, b in ends]


@dataclass
class Rankings(Outputs):
    """A column such as a>b>c, or a column of ranks for each item; the best has the least."""

    columns: list[str]
    items: list[str] = field(default_factory=list)
    first: int = 0  # the rank of the best, in columns of ranks
    kind, glue = "rankings", ">"

    def __post_init__(self) -> None:
        if not self.is_text:
            self.items = self.columns

    @property
    def is_text(self) -> bool:
        return len(self.columns) == 1

    def learn(self, part: Part) -> None:
        if self.is_text and not self.items:
            self.items = sorted(set(_order(part.texts[self.columns[0]][0])))
        elif not self.is_text and part.start == 1:
            self.first = int(self._numbers(part)[0].min())

    def read(self, table: Table, part: Part) -> np.ndarray:
        wrong = self.unfit(part)
        if wrong:
            self._refuse(table, part, wrong[0])
        if not self.is_text:
            ranks = self._numbers(part)
            return ranks - ranks.min(axis=1, keepdims=True)  # those of candidates may count anew
        orders = self._orders(part)
        number = {item: j for j, item in enumerate(self.items)}
        ranks = np.empty((len(orders), len(self.items)))
        for row, order in zip(ranks, orders, strict=True):
            row[[number[item] for item in order]] = np.arange(len(order))
        return ranks

    def unfit(self, part: Part) -> list[int]:
        if self.is_text:
            orders = self._orders(part)
            return [i for i, order in enumerate(orders) if sorted(order) != self.items]
        ranks = self._numbers(part)
        low = ranks.min(axis=1, keepdims=True)
        proper = np.sort(ranks, axis=1) == low + np.arange(ranks.shape[1])
        return np.flatnonzero(~proper.all(axis=1)).tolist()

    def _orders(self, part: Part) -> list[list[str]]:
        return [_order(cell) for cell in part.texts[self.columns[0]]]

    def _refuse(self, table: Table, part: Part, i: int) -> None:
        shown = part.texts[self.columns[0]][i] if self.is_text else str(self._numbers(part)[i])
        raise ValueError(
            f"{table.path}: row {part.start + i} has {shown!r}, which is no ranking of the "
            f"{len(self.items)} items {', '.join(self.items)}, each once"
            + (", with > between them." if self.is_text else ".")
        )

    def cells(self, objects: Any) -> dict[str, list[Any]]:
        ranks = np.asarray(objects)
        if self.is_text:
            return {self.columns[0]: self.words(ranks)}
        return dict(zip(self.columns, (ranks.astype(int) + self.first).T.tolist(), strict=True))

    def lists(self, objects: Any) -> list[list[str]]:
        orders = np.argsort(objects, axis=1, kind="stable")
        return [[self.items[j] for j in order] for order in orders]


@dataclass
class Texts(Outputs):
    """A column of strings, or of SMILES."""

    columns: list[str]
    kind: str = "strings"

    @property
    def is_text(self) -> bool:
        return True

    def read(self, table: Table, part: Part) -> list[str]:
        return _filled(table, part, self.columns[0])

    def unfit(self, part: Part) -> list[int]:
        cells = part.texts[self.columns[0]]
        if self.kind == "smiles":
            return [i for i, molecule in enumerate(molecules(cells)) if molecule is None]
        return [i for i, cell in enumerate(cells) if not cell.strip()]

    def cells(self, objects: Any) -> dict[str, list[Any]]:
        return {self.columns[0]: self.words(objects)}


@dataclass
class Classes(Texts):
    """A column with one class for each row, as a word or a number."""

    columns: list[str]
    kind: str = "classes"

    def read(self, table: Table, part: Part) -> Any:
        return np.array([cell.strip() for cell in super().read(table, part)])


@dataclass
class Numbers(Outputs):
    """Columns of numbers."""

    columns: list[str]
    kind = "numbers"

    def read(self, table: Table, part: Part) -> np.ndarray:
        return self._numbers(part)

    def cells(self, objects: Any) -> dict[str, list[Any]]:
        values = np.reshape(objects, (-1, len(self.columns)))
        return dict(zip(self.columns, values.T.tolist(), strict=True))

    def lists(self, objects: Any) -> list[list[str]]:
        rows = np.reshape(np.asarray(objects, dtype=float), (-1, len(self.columns)))
        return [[f"{value:.4g}" for value in row] for row in rows]


#: Kinds of output, by the name that --output gives them.
OUTPUTS: Registry = Registry(label_set="label_sets", ranking="rankings", string="strings")
OUTPUTS.aliases["class"] = "classes"
OUTPUTS |= {
    "label_sets": LabelSets,
    "rankings": Rankings,
    "strings": Texts,
    "smiles": Texts,
    "classes": Classes,
    "numbers": Numbers,
}
#: Kinds that are not chosen among candidates.
NOT_CHOSEN = ("classes", "numbers")


def _order(cell: str) -> list[str]:
    return [word.strip() for word in cell.split(">") if word.strip()]


def _filled(table: Table, part: Part, column: str) -> list[str]:
    """Return cells of text, none of them empty."""
    cells = part.texts[column]
    empty = next((i for i, cell in enumerate(cells) if not cell.strip()), None)
    if empty is not None:
        raise table.missing(column, part.start + empty)
    return cells


def _checked_bits(table: Table, part: Part, values: np.ndarray, names: list[str]) -> np.ndarray:
    wrong = np.argwhere(_no_bits(values))
    if len(wrong):
        i, j = wrong[0]
        raise ValueError(
            f"{table.path}: column {names[j]!r} has {values[i, j]:g} in row {part.start + i}. It "
            "must be 0 or 1, for a label that the row has not, or has."
        )
    return values


def _no_bits(values: np.ndarray) -> np.ndarray:
    return (values != 0) & (values != 1)
