"""A table as people have it, to a matrix: one transformer for columns of all kinds."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skout.dev import OnPages, all_at_once, check_choice, check_number

from .cells import listed, no_column
from .encoders import (
    CategoryColumn,
    DateColumn,
    ManyCategories,
    NumberColumns,
    SetColumn,
    TextColumn,
)
from .frames import Columns, coded_columns, columns_of
from .kinds import KINDS, Look, look_at, writing_of
from .numerals import PLAIN, Writing
from .reading import OddCells, as_dates, as_numbers, as_texts

__all__ = ["Group", "TableEncoder"]

_MOST_ELEMENTS = 100


class Group(NamedTuple):
    """What became of a column: `start` to `stop` are its columns of the matrix."""

    column: str
    kind: str
    start: int
    stop: int


class TableEncoder(TransformerMixin, OnPages):
    """Make a matrix of a table with columns of numbers, categories, dates, text and sets.

    Numbers are scaled by quartiles and bent beyond three deviations. Categories get a column of 0
    and 1 each; where there are many, the frequent ones do, and names are compared by their
    n-grams. Dates become a day, and season, weekday and hour on circles; text becomes TF-IDF on its
    first singular vectors; sets such as "a;b" get a column for each element. What is missing is
    filled, with a column that says so. Ids, with a value of its own in each row, and constant
    columns are left out. The target is never looked at.

    A column is one of numbers, or of dates, where nine of ten of its filled cells are. Numbers may
    have thousands, a decimal comma, a currency, a percent sign or one unit for all. Of a bound such
    as "<0.01" or "more than 3" the number is taken; any other cell is missing. A warning names each
    such column, how many cells these are and the first of them.

    Parameters
    ----------
    kinds : dict of str to str, optional
        What columns are, where it is not to be told from them: "number", "date", "category",
        "categories" (many of them), "set", "text" or "drop".
    one_hot : int, default 30
        Most categories with a column of their own.
    dimensions : int, default 30
        Of text, and of names of categories where there are many.
    separators : str, default ";|,"
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
    n_features_in_, feature_names_in_
        The columns of the table.

    Examples
    --------
    >>> from skout import TableEncoder
    >>> table = {"size": [1.0, None, 3.0, 2.0], "colour": ["red", "blue", "red", "green"]}
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.kinds_
    {'size': 'number', 'colour': 'category'}
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'size: missing', 'colour: blue', 'colour: green', 'colour: red']
    >>> encoder.transform({"size": [None], "colour": ["red"]}).round(2)
    array([[0., 1., 0., 0., 1.]])
    """

    def __init__(
        self,
        *,
        kinds: dict[str, str] | None = None,
        one_hot: int = 30,
        dimensions: int = 30,
        separators: str = ";|,",
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
    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Tell what the columns are, and learn what each needs.

        Parameters
        ----------
        X : data frame of pandas or polars, table of pyarrow, or dict of columns
        y : ignored

        Returns
        -------
        self : TableEncoder
        """
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
        self._fit_columns(table, looks, getattr(X, "first_row", 1))
        return self

    def _looks(self, table: Columns, coded: set[str]) -> dict[str, Look]:
        """Return what each column is, told or found; `coded` are categories to their library."""
        given = {} if self.kinds is None else self.kinds
        for name, kind in given.items():
            if name not in table:
                raise ValueError(f"kinds: {no_column(name, list(table))}")
            check_choice(kind, f"kinds[{name!r}]", (*KINDS, "drop"))
        looks = {}
        for name, values in table.items():
            if name in given:
                looks[name] = self._given(values, given[name])
            else:
                looks[name] = look_at(name, values, self.one_hot, self.separators)
                if name in coded and looks[name].kind in KINDS:
                    few = len(set(values)) <= self.one_hot
                    looks[name] = Look("category" if few else "categories")
        return looks

    def _given(self, values: np.ndarray, kind: str) -> Look:
        if kind == "drop":
            return Look("drop", "dropped")
        if kind != "set":
            return Look(kind, writing=writing_of(values) if kind == "number" else PLAIN)
        cells = [cell for cell in values if isinstance(cell, str)]
        counts = {one: sum(one in cell for cell in cells) for one in self.separators}
        return Look("set", separator=max(counts, key=lambda one: counts[one]))

    def _fit_columns(self, table: Columns, looks: dict[str, Look], first_row: int) -> None:
        self._writings = {
            name: asdict(looks[name].writing)
            for name in self.kinds_
            if looks[name].writing != PLAIN
        }
        self._day_first: dict[str, dict[str, bool]] = {}
        self._encoders: dict[str, Any] = {}
        columns, orders = self._columns(table, first_row)
        self._day_first = orders
        numbers = [name for name, kind in self.kinds_.items() if kind == "number"]
        self._number_names = numbers
        self._numbers = None
        if numbers:
            self._numbers = NumberColumns().fit(np.column_stack([columns[n] for n in numbers]))
        names = [] if self._numbers is None else self._numbers.names(numbers)
        for name, kind in self.kinds_.items():
            if kind != "number":
                encoder = self._encoder(looks[name]).fit(columns[name])
                self._encoders[name] = encoder
                names += encoder.names(name)
        self._names_out = names

    def _columns(
        self, table: Columns, first_row: int, *, tell: bool = True
    ) -> tuple[Columns, dict[str, dict[str, bool]]]:
        """Return columns as their kinds take them, and of dates where days come first.

        What could not be read is told, or refused if the reading is strict.
        """
        columns, orders = {}, {}
        for name, kind in self.kinds_.items():
            odd, values = OddCells(), table[name]
            if kind == "number":
                columns[name], odd = as_numbers(values, name, self._writing(name), first_row)
            elif kind == "date":
                known = self._known_order(name)
                columns[name], odd, order = as_dates(values, name, known, self.day_first, first_row)
                orders[name] = dict(order)
            else:
                columns[name] = as_texts(values)
            if self.strict:
                odd.refuse(name)
            message = odd.message(name) if tell else ""
            if message:
                warnings.warn(message, UserWarning, stacklevel=5)
        return columns, orders

    def _writing(self, name: str) -> Writing:
        """Return how the numbers of a column were written in fit; older files do not say."""
        return Writing(**getattr(self, "_writings", {}).get(name, {}))

    def _known_order(self, name: str) -> dict[str, bool]:
        """Return where days came first in fit; older files have one answer, if it was found."""
        if hasattr(self, "_day_first"):
            return self._day_first.get(name, {})
        day_first = getattr(self._encoders[name], "day_first_", False)
        return {"/": True, "-": True} if day_first else {}

    @property
    def groups_(self) -> list[Group]:
        """Where each column is in the matrix."""
        numbers = self._number_names
        found = [Group(name, "number", j, j + 1) for j, name in enumerate(numbers)]
        gaps: Any = [] if self._numbers is None else self._numbers.gaps_
        found += [Group(numbers[j], "missing", at, at + 1) for at, j in enumerate(gaps, len(found))]
        at = len(found)
        for name, encoder in self._encoders.items():
            width = len(encoder.names(name))
            found.append(Group(name, self.kinds_[name], at, at + width))
            at += width
        return found

    def _encoder(self, look: Look) -> Any:
        return {
            "date": DateColumn(),
            "category": CategoryColumn(self.one_hot),
            "categories": ManyCategories(self.one_hot, self.dimensions),
            "set": SetColumn(_MOST_ELEMENTS, look.separator),
            "text": TextColumn(self.dimensions),
        }[look.kind]

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit, and return the numbers that the same rows become.

        Parameters
        ----------
        X : as in fit
        y : ignored

        Returns
        -------
        matrix : ndarray of shape (n, n_features_out)
        """
        return self.fit(X)._matrix(X, tell=False)

    def transform(self, X: Any) -> np.ndarray:
        """Return the numbers that the rows of a table become.

        Parameters
        ----------
        X : table with the columns of `fit`, in any order; others are not looked at

        Returns
        -------
        matrix : ndarray of shape (n, n_features_out)
        """
        check_is_fitted(self)
        return self._matrix(X, tell=True)

    def _matrix(self, X: Any, *, tell: bool) -> np.ndarray:
        table = columns_of(X)
        self._check_names(table)
        columns, _ = self._columns(table, getattr(X, "first_row", 1), tell=tell)
        parts = []
        if self._numbers is not None:
            numbers = np.column_stack([columns[name] for name in self._number_names])
            parts.append(self._numbers.transform(numbers))
        parts += [encoder.transform(columns[name]) for name, encoder in self._encoders.items()]
        return np.hstack(parts)

    def _check_names(self, table: Columns) -> None:
        missing = [name for name in self.kinds_ if name not in table]
        if not missing:
            return
        known = set(self.feature_names_in_)
        new = [name for name in table if name not in known]
        hint = f" It has columns that were not there in fit: {listed(new)}." if new else ""
        raise ValueError(f"X lacks columns that it had in fit: {listed(missing)}.{hint}")

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of the matrix.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        return np.array(self._names_out, dtype=object)

    def summary(self) -> str:
        """Return what became of the columns, in one line.

        Returns
        -------
        line : str
            E.g. "5 columns to 42 numbers: 3 number, 1 date, 1 text; left out: id (a value a row)".

        Examples
        --------
        >>> from skout import TableEncoder
        >>> TableEncoder().fit({"a": [1, 2, 2], "b": ["x", "x", "x"]}).summary()
        '1 column to 1 number: 1 number; left out: b (one value only)'
        """
        check_is_fitted(self)
        counts = Counter(self.kinds_.values())
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
        line = f"{_plural(len(self.kinds_), 'column')} to {_plural(len(self._names_out), 'number')}"
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


def _plural(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n:,} {what}s"
