"""`TableEncoder`: a transformer of tables with columns of any kind to matrices of numbers."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skout.dev import PartsByName, all_at_once, check_choice, check_number

from .encoders import (
    CategoryColumn,
    DateColumn,
    ManyCategories,
    MoleculeColumn,
    NumberColumns,
    SetColumn,
    TextColumn,
)
from .frames import Columns, TableLike, coded_columns, columns_of
from .kinds import KINDS, SEPARATORS, Look, listed, look_at, no_column, writing_of
from .numerals import PLAIN, Writing
from .reading import OddCells, as_dates, as_numbers, as_texts

_MOST_ELEMENTS = 100

Encoder = DateColumn | CategoryColumn | ManyCategories | SetColumn | TextColumn | MoleculeColumn


def _with_unit(writing: Writing, values: np.ndarray) -> Writing:
    """Return how new cells are written: with their unit where `fit` met numbers without any.

    The command line fits on numbers that it has read from cells such as "153 min", and Python may
    pass these cells to the model that it saved.
    """
    if values.dtype.kind != "O" or writing.unit or writing.family:
        return writing
    new = writing_of(values)
    return replace(writing, unit=new.unit, family=new.family)


class ColumnGroup(NamedTuple):
    """The columns `start` to `stop` of the matrix, which encode a column of the table."""

    column: str
    kind: str
    start: int
    stop: int


class TableEncoder(TransformerMixin, PartsByName):
    """Encode a table with columns of numbers, categories, dates, text and sets as a matrix.

    Numbers are scaled by quartiles and bent beyond three deviations. Categories get a column of 0
    and 1 each; where there are many, the frequent ones do, and names are compared by their
    n-grams. Dates become a day, and season, weekday and hour on circles; text becomes TF-IDF on its
    first singular vectors; sets such as "a;b" get a column for each element; molecules, as SMILES,
    become RDKit's descriptors. What is missing is
    filled, with a column that says so. Ids, with a value of its own in each row, and constant
    columns are left out. The target is never used.

    A column is one of numbers, or of dates, where nine of ten of its filled cells are. Numbers may
    have thousands, a decimal comma, a currency, a percent sign or one unit for all. Of a bound such
    as "<0.01" or "more than 3" the number is taken; any other cell is missing. A warning names each
    such column, how many cells these are and the first of them.

    Parameters
    ----------
    kinds : dict of str to str, optional
        The kinds of columns, where they are not to be inferred: "number", "date", "category",
        "categories" (many of them), "set", "text", "smiles" (molecules) or "drop".
    one_hot : int, default 30
        Most categories with a column of their own.
    dimensions : int, default 30
        Of text, and of names of categories where there are many.
    separators : str, default ";|,/\\n"
        Characters that may stand between the elements of sets.
    day_first : bool, optional
        Whether 3/4/2024 is in April where no cell of its column tells. None is month first, with a
        warning. Dates with points, 3.4.2024, have the day first unless days above 12 say otherwise.
    strict : bool, default False
        Whether a cell that is no number or no date in a column of them, a bound, or dates that can
        be read in two ways are an error, in `fit` and in `transform`.

    Attributes
    ----------
    kinds_ : dict of str to str
        What the columns are that are used.
    left_out_ : dict of str to str
        Why others are not.
    levels_ : dict of str to list of str
        The values of columns of categories, as far as all have a column of the matrix.
    n_features_in_, feature_names_in_
        The columns of the table.

    Examples
    --------
    >>> from skout import TableEncoder
    >>> table = {"size": [1.0, None, 3.0, 2.0], "color": ["red", "blue", "red", "green"]}
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.kinds_
    {'size': 'number', 'color': 'category'}
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'size: missing', 'color: blue', 'color: green', 'color: red']
    >>> encoder.transform({"size": [None], "color": ["red"]}).round(2)
    array([[0., 1., 0., 0., 1.]])
    """

    feature_names_in_: np.ndarray
    n_features_in_: int
    kinds_: dict[str, str]
    left_out_: dict[str, str]

    def __init__(
        self,
        *,
        kinds: dict[str, str] | None = None,
        one_hot: int = 30,
        dimensions: int = 30,
        separators: str = SEPARATORS,
        day_first: bool | None = None,
        strict: bool = False,
    ) -> None:
        self.kinds = kinds
        self.one_hot = one_hot
        self.dimensions = dimensions
        self.separators = separators
        self.day_first = day_first
        self.strict = strict

    @all_at_once
    def fit(self, X: TableLike, y: object = None) -> TableEncoder:
        """Infer the kind of each column, and fit its encoder.

        Parameters
        ----------
        X : data frame of pandas or polars, table of pyarrow, or dict of columns
        y : ignored

        Returns
        -------
        self : TableEncoder
        """
        self._fit(X)
        return self

    @all_at_once
    def fit_transform(self, X: TableLike, y: object = None) -> np.ndarray:
        """Fit, and return the matrix of the same rows.

        Parameters
        ----------
        X : as in fit
        y : ignored

        Returns
        -------
        matrix : ndarray of shape (n, n_features_out)
        """
        return self._matrix(self._fit(X))

    def _fit(self, X: Any) -> Columns:
        """Learn from a table, and return its columns as their kinds read them."""
        check_number(self.one_hot, "one_hot", low=2, integer=True)
        check_number(self.dimensions, "dimensions", low=1, integer=True)
        table = columns_of(X)
        if not len(next(iter(table.values()))):
            raise ValueError("X has columns, but no rows: at least 1 is required.")
        looks = self._looks(table, coded_columns(X))
        self.feature_names_in_ = np.array(list(table), dtype=object)
        self.n_features_in_ = len(table)
        self.kinds_ = {name: look.kind for name, look in looks.items() if look.kind in KINDS}
        self.left_out_ = {name: look.why for name, look in looks.items() if name not in self.kinds_}
        if not self.kinds_:
            why = "; ".join(f"{name} ({why})" for name, why in self.left_out_.items())
            raise ValueError(f"X has no column that says anything: {why}.")
        self._writings = {name: looks[name].writing.record() for name in self.kinds_}
        self._day_first: dict[str, dict[str, bool]] = {}
        columns, self._day_first = self._read(X, table)
        self._numbers = [name for name, kind in self.kinds_.items() if kind == "number"]
        self._encoders: dict[str, Encoder] = {}
        if self._numbers:
            matrix = np.column_stack([columns[name] for name in self._numbers])
            self._scaler = NumberColumns().fit(matrix)
        for name, kind in self.kinds_.items():
            if kind != "number":
                self._encoders[name] = self._encoder(looks[name]).fit(columns[name])
        return columns

    def _looks(self, table: Columns, coded: set[str]) -> dict[str, Look]:
        """Return the kind of each column, from `kinds` or else inferred.

        The columns in `coded` are categories in the library of the table.
        """
        kinds = self.kinds or {}
        for name, kind in kinds.items():
            if name not in table:
                raise ValueError(f"kinds: {no_column(name, list(table))}")
            check_choice(kind, f"kinds[{name!r}]", (*KINDS, "drop"))
        looks = {}
        for name, values in table.items():
            if name in kinds:
                looks[name] = self._look_of_kind(values, kinds[name])
            else:
                looks[name] = look_at(name, values, self.one_hot, self.separators)
                if name in coded and looks[name].kind in KINDS:
                    few = len(set(values)) <= self.one_hot
                    looks[name] = Look("category" if few else "categories")
        return looks

    def _look_of_kind(self, values: np.ndarray, kind: str) -> Look:
        if kind == "set":
            cells = [cell for cell in values if isinstance(cell, str)]
            often = max(self.separators, key=lambda sign: sum(sign in cell for cell in cells))
            return Look("set", separator=often)
        return Look(kind, "dropped", writing=writing_of(values) if kind == "number" else PLAIN)

    def _encoder(self, look: Look) -> Encoder:
        makers: dict[str, Callable[[], Encoder]] = {
            "date": DateColumn,
            "category": lambda: CategoryColumn(self.one_hot),
            "categories": lambda: ManyCategories(self.one_hot, self.dimensions),
            "set": lambda: SetColumn(_MOST_ELEMENTS, look.separator),
            "text": lambda: TextColumn(self.dimensions),
            "smiles": MoleculeColumn,
        }
        return makers[look.kind]()

    def _read(self, X: Any, table: Columns) -> tuple[Columns, dict[str, dict[str, bool]]]:
        """Return columns as their kinds read them, and for dates whether days come first.

        Cells that cannot be read raise a warning, or an error if the reading is strict.
        """
        columns, orders, start = {}, {}, getattr(X, "first_row", 1)
        for name, kind in self.kinds_.items():
            odd, values = OddCells(), table[name]
            if kind == "number":
                writing = _with_unit(Writing(**self._writings[name]), values)
                columns[name], odd = as_numbers(values, name, writing, start)
            elif kind == "date":
                earlier = self._day_first.get(name, {})
                columns[name], odd, order = as_dates(values, name, earlier, self.day_first, start)
                orders[name] = dict(order)
            else:
                columns[name] = as_texts(values)
            if self.strict:
                odd.refuse(name)
            elif message := odd.message(name):
                warnings.warn(message, UserWarning, stacklevel=5)
        return columns, orders

    @property
    def groups_(self) -> list[ColumnGroup]:
        """The columns of the matrix that encode each column of the table."""
        numbers = self._numbers
        widths = [(name, "number", 1) for name in numbers]
        widths += [(numbers[j], "missing", 1) for j in (self._scaler.gaps_ if numbers else ())]
        widths += [(n, self.kinds_[n], len(part.names(n))) for n, part in self._encoders.items()]
        ends = np.cumsum([width for _, _, width in widths]).tolist()
        return [
            ColumnGroup(name, kind, end - width, end)
            for (name, kind, width), end in zip(widths, ends, strict=True)
        ]

    @property
    def parts_(self) -> list[tuple[list[str], NumberColumns | Encoder]]:
        """Columns and their encoders, in the order of the matrix: all numbers first."""
        numbers = [(self._numbers, self._scaler)] if self._numbers else []
        return [*numbers, *(([name], part) for name, part in self._encoders.items())]

    @property
    def levels_(self) -> dict[str, list[str]]:
        """The values of each column of categories, where each value has a column of the matrix."""
        return {
            name: list(encoder.levels_)
            for name, encoder in self._encoders.items()
            if isinstance(encoder, CategoryColumn) and not encoder.has_others_
        }

    def transform(self, X: TableLike) -> np.ndarray:
        """Return the matrix that encodes the rows of a table.

        Parameters
        ----------
        X : table with the columns of `fit`, in any order; others are ignored

        Returns
        -------
        matrix : ndarray of shape (n, n_features_out)
        """
        return self._matrix(self.read(X))

    def read(self, X: TableLike) -> Columns:
        """Return the columns that are used as their kinds take them: floats, moments or texts.

        Parameters
        ----------
        X : table with the columns of `fit`, in any order; others are ignored

        Returns
        -------
        columns : dict of str to ndarray
            Of numbers, NaN where one is missing; of dates, NaT; of texts, None.
        """
        check_is_fitted(self)
        table = columns_of(X)
        missing = [name for name in self.kinds_ if name not in table]
        if missing:
            new = [name for name in table if name not in set(self.feature_names_in_)]
            hint = f" It has columns that were not there in fit: {listed(new)}." if new else ""
            raise ValueError(f"X lacks columns that it had in fit: {listed(missing)}.{hint}")
        return self._read(X, table)[0]

    def _matrix(self, columns: Columns) -> np.ndarray:
        parts = [encoder.transform(columns[name]) for name, encoder in self._encoders.items()]
        if self._numbers:
            numbers = np.column_stack([columns[name] for name in self._numbers])
            parts.insert(0, self._scaler.transform(numbers))
        return np.hstack(parts)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Return the names of the columns of the matrix.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        names = self._scaler.names(self._numbers) if self._numbers else []
        for name, encoder in self._encoders.items():
            names += encoder.names(name)
        return np.array(names, dtype=object)

    def summary(self) -> str:
        """Return one line on how the columns are encoded, and which are left out.

        Returns
        -------
        line : str
            E.g. "4 columns to 42 numbers: 3 number, 1 date; left out: id (all values differ)".

        Examples
        --------
        >>> from skout import TableEncoder
        >>> TableEncoder().fit({"a": [1, 2, 2], "b": ["x", "x", "x"]}).summary()
        '1 column to 1 number: 1 number; left out: b (one value only)'
        """
        check_is_fitted(self)
        counts = Counter(self.kinds_.values())
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
        width = self.groups_[-1].stop
        line = f"{_plural(len(self.kinds_), 'column')} to {_plural(width, 'number')}"
        dropped = [f"{name} ({why})" for name, why in self.left_out_.items()]
        return f"{line}: {kinds}" + (f"; left out: {listed(dropped)}" if dropped else "")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.no_validation = True
        return tags


class EncodedTable(np.ndarray):
    """The matrix of an encoded table, which keeps its encoder so that models need not encode again.

    Examples
    --------
    >>> from skout import TableEncoder
    >>> from skout.apps.tables.encoder import EncodedTable
    >>> encoder = TableEncoder()
    >>> rows = EncodedTable.of(encoder.fit_transform({"a": [1.0, 2.0], "b": ["x", "y"]}), encoder)
    >>> rows[1:].encoder is encoder
    True
    """

    encoder: TableEncoder

    @classmethod
    def of(cls, matrix: np.ndarray, encoder: TableEncoder) -> EncodedTable:
        """Return a view of a matrix with its encoder."""
        rows = matrix.view(cls)
        rows.encoder = encoder
        return rows

    def __array_finalize__(self, made_of: np.ndarray | None) -> None:
        if isinstance(made_of, EncodedTable):
            self.encoder = made_of.encoder


def _plural(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n:,} {what}s"
