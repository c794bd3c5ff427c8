"""Checks of inputs, and scalings of their columns before a map is fitted."""

from __future__ import annotations

import numbers
from decimal import Decimal
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from sklearn.base import TransformerMixin, clone
from sklearn.preprocessing import StandardScaler, normalize

from skout.dev import PartsByName, check_choice, check_matrix, is_gap, named

from ..tables.encoder import EncodedTable, TableEncoder
from ..tables.frames import columns_of, has_only_numbers, is_frame, names_in
from ..tables.kinds import has_codes, is_row_number
from ..tables.numerals import PLAIN
from ..tables.reading import as_numbers

#: The methods of `ColumnScaler`.
SCALINGS = ("none", "dense", "standard", "quantile", "unit", "tfidf")
# Quantiles of a column that "quantile" stores; values between them are interpolated.
_QUANTILES = 500
# Groups of columns with a kernel each, at most: the time is proportional to their number.
_MOST_GROUPS = 24
# Advice that is added to errors of reading an array, by words of these.
_REMEDIES = {
    "contains NaN": "Fill the gaps, for instance with scikit-learn's SimpleImputer, or fit on a "
    "data frame, which may have some.",
    "could not convert string": "Fit on a data frame, whose columns may hold words.",
}


class ColumnScaler(TransformerMixin, PartsByName):
    """Scale columns, or rows of counts, by statistics of the training rows.

    Parameters
    ----------
    method : {"none", "dense", "standard", "quantile", "unit", "tfidf"}, default "standard"
        "none": as they are. "dense": as a dense array of float32. "standard": mean 0 and variance
        1. "quantile": normal scores of ranks. "unit": rows of norm 1. "tfidf": counts times inverse
        document frequency, in rows of norm 1. Sparse rows are never centered.

    Examples
    --------
    >>> from skout.apps.tuning.inputs import ColumnScaler
    >>> ColumnScaler("standard").fit_transform([[0.0, 1.0], [2.0, 1.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    n_features_in_: int
    mean_: np.ndarray
    scale_: np.ndarray

    def __init__(self, method: str = "standard") -> None:
        self.method = method

    def fit(self, X: Any, y: object = None) -> ColumnScaler:
        """Learn means, scales or quantiles of a matrix of shape (n, d), dense or CSR."""
        check_choice(self.method, "method", SCALINGS)
        rows = check_matrix(X)
        n, self.n_features_in_ = rows.shape
        if self.method == "standard":
            scaler = StandardScaler(with_mean=False).fit(rows)
            self.mean_, self.scale_ = scaler.mean_, scaler.scale_
        elif self.method == "quantile":
            shares = np.linspace(0.0, 1.0, min(_QUANTILES, n))
            self.quantiles_: np.ndarray = np.quantile(_dense(rows), shares, axis=0)  # (q, d)
        elif self.method == "tfidf":
            n_with = np.asarray((rows != 0).sum(axis=0)).ravel()
            self.weights_: np.ndarray = np.log((1.0 + n) / (1.0 + n_with)) + 1.0
        return self

    def transform(self, X: Any) -> Any:
        """Return the scaled rows, sparse where X is, except for "dense" and "quantile"."""
        rows, method = check_matrix(X), self.method
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} columns, and the model was fitted on {self.n_features_in_}."
            )
        if method == "dense":
            return _dense(rows).astype(np.float32)  # as trees want it
        if method == "quantile":
            return _normal_scores(_dense(rows), self.quantiles_)
        if method == "standard" and not sparse.issparse(rows):
            return (rows - self.mean_) / self.scale_
        if method in ("standard", "tfidf"):
            factors = self.weights_ if method == "tfidf" else 1.0 / self.scale_
            rows = (
                sparse.csr_matrix(rows @ sparse.diags(factors))
                if sparse.issparse(rows)
                else rows * factors
            )
        return normalize(rows) if method in ("unit", "tfidf") else rows


def _dense(rows: Any) -> np.ndarray:
    """Return rows as a dense array."""
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows)


def _normal_scores(rows: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Return the normal quantiles of each value's rank among the training quantiles, (n, d)."""
    shares, out = np.linspace(0.0, 1.0, len(quantiles)), np.empty(rows.shape)
    for j, knots in enumerate(quantiles.T):
        up = np.interp(rows[:, j], knots, shares)
        down = np.interp(-rows[:, j], -knots[::-1], -shares[::-1])
        out[:, j] = 0.5 * (up - down)
    edge = 0.5 / max(len(shares), 2)
    return ndtri(np.clip(out, edge, 1.0 - edge))


def are_vectors(X: Any) -> bool:
    """Whether X is a matrix or a table, not a list of objects such as texts or graphs."""
    if sparse.issparse(X) or is_frame(X):
        return True
    try:
        values = np.asarray(X)
    except (ValueError, TypeError):
        return False
    if values.ndim == 1:
        return values.dtype.kind in "biufcmM"
    if values.ndim == 0 or (values.ndim > 2 and not isinstance(X, np.ndarray)):
        return False
    return values.dtype != object or all(map(_is_cell, values[:1].ravel()))


def _is_cell(value: object) -> bool:
    """Whether this is a value that a cell of a table may have."""
    return isinstance(value, str | numbers.Number | Decimal | np.generic) or is_gap(value)


def checked_inputs(X: Any) -> Any:
    """Return a matrix of finite numbers, dense where more than a quarter is not 0, or objects."""
    X = X.to_numpy() if hasattr(X, "to_numpy") and len(X.shape) == 1 else X
    if not are_vectors(X):
        return _checked_objects(X)
    try:
        with named("X"):
            rows = check_matrix(X)
    except ValueError as error:
        remedies = [remedy for words, remedy in _REMEDIES.items() if words in str(error)]
        if not remedies:
            raise
        raise ValueError(f"{str(error).rstrip('.')}. {remedies[0]}") from None
    if not sparse.issparse(rows):
        return rows
    # CSR takes 12 bytes for an entry, a dense matrix 8, and dense products are faster
    is_full = rows.nnz > 0.25 * rows.shape[0] * rows.shape[1]
    return rows.toarray() if is_full else sparse.csr_matrix(rows)


def width_of(rows: Any) -> int | None:
    """Return the number of columns of a matrix, None for objects."""
    return rows.shape[1] if len(getattr(rows, "shape", ())) == 2 else None


def check_single_precision(rows: Any) -> None:
    """Raise where a column is too large for float32, which trees take, or all 0 in it."""
    if width_of(rows) is None:
        return
    if sparse.issparse(rows):
        largest = abs(rows).max(axis=0).toarray().ravel()
    else:
        largest = np.maximum(rows.max(axis=0), -rows.min(axis=0))
    limits = np.finfo(np.float32)
    odd = np.flatnonzero((largest > limits.max) | ((largest > 0.0) & (largest < limits.tiny)))
    if len(odd):
        raise ValueError(
            f"X holds numbers up to {largest[odd[0]]:.3g} in column {odd[0]}, and trees take "
            "single precision, from 1.2e-38 to 3.4e38. Scale its columns."
        )


def _checked_objects(X: Any) -> Any:
    """Return inputs that are a list of objects, or raise."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__") or getattr(X, "ndim", 1) == 0:
        raise TypeError(
            "X must have rows: an array, a data frame, or a list of texts, graphs or spectra. Got "
            f"{type(X).__name__}."
        )
    first = X[0] if len(X) else None
    if isinstance(first, dict | np.void):
        raise TypeError("X has records: give a table of them, such as pandas.DataFrame(X).")
    if isinstance(first, list | np.ndarray) and all(map(_is_cell, first)):
        raise ValueError("X must be rows of equal length.")
    return X


def first_inputs(
    X: Any, encoder: TableEncoder | None, kinds: dict[str, str] | None = None
) -> tuple[TableEncoder | None, Any]:
    """Return the encoder, fitted to a table, and X as models take it.

    The encoder is a copy of `encoder`, if there is one, and None for X of numbers or objects.
    """
    if isinstance(X, EncodedTable):
        return X.encoder, np.asarray(X)
    encoder = with_kinds(encoder, kinds)
    is_matrix = not is_frame(X) or (
        not getattr(encoder, "kinds", None)
        and has_only_numbers(X)
        and not any(is_row_number(name) or has_codes(name) for name in map(str, names_in(X)))
    )
    if is_matrix:
        return None, read_inputs(X, None, names_of(X))
    fitted = TableEncoder() if encoder is None else clone(encoder)
    return fitted, fitted.fit_transform(X)


def with_kinds(encoder: TableEncoder | None, kinds: dict[str, str] | None) -> TableEncoder | None:
    """Return a copy of an encoder with these kinds of columns; None where both are None."""
    if not kinds:
        return encoder
    fresh = TableEncoder() if encoder is None else clone(encoder)
    return fresh.set_params(kinds={**(fresh.kinds or {}), **kinds})


def names_of(X: Any) -> np.ndarray | None:
    """Return the names of the columns of a table, None for other inputs."""
    if isinstance(X, EncodedTable):
        return X.encoder.feature_names_in_
    return np.array(list(map(str, names_in(X))), dtype=object) if is_frame(X) else None


def read_inputs(X: Any, encoder: TableEncoder | None, names: np.ndarray | None) -> Any:
    """Return X as models take it: encoded, or the columns of these names as a matrix."""
    if encoder is not None:
        return np.asarray(X) if isinstance(X, EncodedTable) else encoder.transform(X)
    if names is None or not is_frame(X):
        return checked_inputs(X)
    table = columns_of(X)
    missing = [name for name in names if name not in table]
    if missing:
        new = [name for name in table if name not in set(names)]
        raise ValueError(
            f"X lacks columns that it had in fit: {', '.join(missing[:8])}. It has: "
            f"{', '.join((new or list(table))[:8])}."
        )
    columns = []
    for name in names:
        values, odd = as_numbers(table[name], name, PLAIN)
        odd.refuse(name)
        columns.append(values)
    incomplete = [j for j, values in enumerate(columns) if np.isnan(values).any()]
    if incomplete:
        raise ValueError(
            f"X: column {names[incomplete[0]]!r} has gaps, and had none in fit: fill them."
        )
    return checked_inputs(np.column_stack(columns))


def column_groups(encoder: TableEncoder | None) -> tuple[tuple[int, int], ...]:
    """Return (start, stop) in the encoded matrix of each group of columns that gets a kernel.

    A group is one column of the table, or several where there are too many columns.
    """
    if encoder is None:
        return ()
    numbers = [group for group in encoder.groups_ if group.kind == "number"]
    gaps = [group for group in encoder.groups_ if group.kind == "missing"]
    others = [(g.start, g.stop) for g in encoder.groups_ if g.kind not in ("number", "missing")]
    spans = [(group.start, group.stop) for group in numbers]
    if len(spans) + len(others) > _MOST_GROUPS:
        spans = [(numbers[0].start, numbers[-1].stop)] if numbers else []
    if gaps:
        spans.append((gaps[0].start, gaps[-1].stop))
    left = _MOST_GROUPS - len(spans)
    if len(others) > left:
        parts = np.array_split(np.arange(len(others)), left)
        others = [(others[part[0]][0], others[part[-1]][1]) for part in parts]
    return (*spans, *others)
