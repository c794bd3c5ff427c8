"""A table as people have it, to a matrix: one transformer for columns of all kinds."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._numerics.estimators import all_at_once
from .._numerics.pages import OnPages
from .._numerics.validation import check_choice, check_number
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
from .kinds import KINDS, Look, as_kind, look_at

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
    ) -> None:
        self.kinds = kinds
        self.one_hot = one_hot
        self.dimensions = dimensions
        self.separators = separators

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
        self._fit_columns(table, looks)
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
            return Look(kind)
        cells = [cell for cell in values if isinstance(cell, str)]
        counts = {one: sum(one in cell for cell in cells) for one in self.separators}
        return Look("set", separator=max(counts, key=lambda one: counts[one]))

    def _fit_columns(self, table: Columns, looks: dict[str, Look]) -> None:
        numbers = [name for name, kind in self.kinds_.items() if kind == "number"]
        self._number_names = numbers
        self._numbers = NumberColumns().fit(self._matrix(table)) if numbers else None
        self._encoders: dict[str, Any] = {}
        names = [] if self._numbers is None else self._numbers.names(numbers)
        for name, kind in self.kinds_.items():
            if kind != "number":
                encoder = self._encoder(looks[name]).fit(as_kind(table[name], kind, name))
                self._encoders[name] = encoder
                names += encoder.names(name)
        self._names_out = names

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

    def _matrix(self, table: Columns) -> np.ndarray:
        """Return the columns of numbers, shape (n, d)."""
        columns = [as_kind(table[name], "number", name) for name in self._number_names]
        return np.column_stack(columns)

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
        table = columns_of(X)
        self._check_names(table)
        parts = [] if self._numbers is None else [self._numbers.transform(self._matrix(table))]
        for name, encoder in self._encoders.items():
            parts.append(encoder.transform(as_kind(table[name], self.kinds_[name], name)))
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
