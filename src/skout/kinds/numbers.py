"""Kinds whose coordinates are columns of numbers: numbers, and classes by one-hot codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from .._numerics.arrays import take
from .._numerics.objects import is_categorical, is_gap
from .._numerics.typing import Array, Candidates, Estimator, Floats, Objects, Rows
from .._numerics.validation import check_number, check_squares
from ..decoding import Decoder
from ..kernels import Kernel, Linear
from ..rows.encode import check_matrix
from .base import Cells, Coordinates, Kind, filled, floats, most_frequent, values_of
from .rankings import are_permutations

# A column is taken for classes where words have at least 2 rows each on average, or where its whole
# numbers are 0, 1, 2 and so on, at most 20 of them.
_RECUR, _MOST_CLASSES = 2, 20
# Numbers of things, from 0 on, are mostly met the less often the more they are, and codes of
# classes in any order. Of 250 columns of counts in 2,295 public tables, the ratio below is under 1
# in nine of ten, and it is 2 on average where the order says nothing; fewer than five values do not
# tell, unless each is rarer than the one before and the last is met in one row of a hundred.
_SMOOTH, _UNEVEN, _LEAST_VALUES, _RARE = 1.0, 3.0, 5, 0.01


def in_words(value: float) -> str:
    """Return a number as text with four digits, or with all digits before its decimal point.

    Examples
    --------
    >>> from skout.kinds.numbers import in_words
    >>> [in_words(value) for value in (0.123456, 1987.0, 60066.99)]
    ['0.1235', '1987', '60,067']
    """
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}"


@dataclass(frozen=True)
class Numbers(Kind):
    """One column of numbers or several, each of which counts the same; NaN is missing."""

    name = "numbers"
    elsewhere = ("regression", "regressor")
    metric = "r2"
    baseline_name = "the mean"
    estimator_type: ClassVar[str | None] = "regressor"
    has_candidates = False
    style: ClassVar[str] = "bars"
    part: ClassVar[str] = "y"

    def recognizes(self, Y: Objects) -> bool:
        if is_categorical(Y):
            return False
        values = values_of(Y)
        if sparse.issparse(values):
            return not np.all(values.data == 1)
        if values.dtype.kind not in "biufcmM":
            return False
        if values.ndim < 2:
            return bool(values.dtype.kind != "b")
        are_sets = bool(np.all((values == 0) | (values == 1)))  # and nothing is missing
        return not are_sets and not (values.shape[1] > 1 and are_permutations(values))

    def check(self, Y: Objects) -> np.ndarray:
        Y = super().check(Y)
        values: np.ndarray = Y.toarray() if sparse.issparse(Y) else np.asarray(Y)
        values = floats(values) if values.dtype == object else values
        StandardTargets().fit(values)  # raises
        check_squares(np.asarray(values, dtype=np.float64), "Y", "Scale its columns.")
        return values

    def basis(self, Y: Objects, random_state: int) -> Any:
        return StandardTargets()

    def decoders(self, Y: Objects) -> dict[str, Decoder]:
        return {"none": CodeDecoder()}

    def baseline(self, Y: Objects, sample_weight: np.ndarray | None = None) -> np.ndarray:
        observed = np.ma.masked_invalid(np.asarray(Y, dtype=np.float64))
        return np.ma.getdata(np.ma.average(observed, axis=0, weights=sample_weight))[None]

    def score(self, true: Objects, pred: Objects, sample_weight: np.ndarray | None = None) -> float:
        """Return the mean over columns of 1 - squared error / squared deviation from the mean."""
        true, pred = (np.reshape(np.asarray(values), (len(values), -1)) for values in (true, pred))
        if true.shape[1] != pred.shape[1]:
            raise ValueError(f"Y must have {pred.shape[1]} columns. Got {true.shape[1]} instead.")
        units = StandardTargets().fit(true)  # in which squares stay in range
        true, pred = np.ma.masked_invalid(units.transform(true)), units.transform(pred)
        weights = sample_weight
        if weights is not None and 2.0 * np.max(weights) > np.sum(weights):
            weights = None  # one row counts more than all others, and has no variance
        mean = np.ma.average(true, axis=0, weights=weights)
        spread = np.ma.average((true - mean) ** 2, axis=0, weights=weights)
        lost = np.ma.average((true - pred) ** 2, axis=0, weights=sample_weight)
        # of a constant column it is 1 if all is right, else 0, as scikit-learn has it
        return float(np.mean(1.0 - np.where(spread > 0.0, lost / spread, lost > 0.0)))

    def row_scores(self, true: Objects, pred: Objects) -> np.ndarray:
        return -self.measures(true, pred)["rmse"]

    def measures(self, true: Objects, pred: Objects) -> dict[str, np.ndarray]:
        true, pred = np.asarray(true), np.asarray(pred)
        if np.size(pred) != np.size(true):
            raise ValueError(
                f"The model predicts shape {np.shape(pred)}, and Y has shape {np.shape(true)}: "
                "there must be one prediction for each number, not quantiles."
            )
        true, pred = (np.reshape(values, (len(true), -1)) for values in (true, pred))
        squares = np.ma.masked_invalid((true - pred) ** 2)  # but for targets that are missing
        return {"rmse": np.sqrt(np.ma.getdata(squares.mean(axis=1)))}

    def evaluate(self, true: Objects, pred: Objects) -> dict[str, float | None]:
        rmse = self.measures(true, pred)["rmse"]
        values = np.ma.masked_invalid(np.reshape(np.asarray(true), (len(true), -1)))
        is_constant = np.ma.ptp(values, axis=0) == 0.0
        r2 = None if is_constant.any() else self.score(true, pred)  # of a constant, there is none
        return {"rmse": float(np.sqrt(np.mean(rmse**2))), "r2": r2}

    def reads_text(self, n_columns: int) -> bool:
        return False

    def read(self, cells: Cells) -> np.ndarray:
        return np.asarray(cells)

    def words(self, objects: Objects) -> list[list[str]]:
        return [
            [in_words(value) for value in row] for row in self.to_columns(objects).astype(float)
        ]


@dataclass(frozen=True)
class Classes(Kind):
    """One class for each row, a word or a number."""

    name = "classes"
    elsewhere = ("classification", "classifier", "binary", "multiclass")
    metric = "accuracy"
    baseline_name = "the most frequent class"
    estimator_type: ClassVar[str | None] = "classifier"
    has_candidates = False
    has_probabilities = True

    def recognizes(self, Y: Objects) -> bool:
        if is_categorical(Y):
            return True
        values = values_of(Y)
        if values.ndim != 1:
            return False
        few = max(2, len(values) // 10)
        are_few = values.dtype.kind in "iu" and len(np.unique(values)) <= few
        return values.dtype.kind in "bUS" or are_few

    def is_likely(self, Y: Objects) -> bool:
        """Whether a column that may be classes is more likely so than of another kind.

        Words do if they recur; whole numbers if there are two, or if they count from 0 and are not
        met as numbers of things are: grades mostly count from 1, or leave some out.
        """
        values = values_of(Y)
        if is_categorical(Y) or values.dtype.kind == "b":
            return True
        different, rows = np.unique(values, return_counts=True)
        if values.dtype.kind in "US":
            return len(values) >= _RECUR * len(different)
        counts = np.array_equal(different, np.arange(len(different)))
        may_be = counts and len(different) <= _MOST_CLASSES
        return len(different) == 2 or (may_be and not _are_amounts(rows))

    def check(self, Y: Objects) -> np.ndarray:
        classes = _of_one_type(super().check(Y))
        if classes.ndim != 1:
            raise ValueError(
                "Y must be one class for each row, in one axis. Got shape "
                f"{classes.shape} instead: give Y.ravel(), or the one column of a data frame."
            )
        gaps = sum(map(is_gap, classes.tolist()))
        if gaps:
            raise ValueError(f"Y has no class in {gaps} rows: leave them out.")
        try:
            np.unique(classes)
        except TypeError as error:
            raise TypeError(f"Y must be classes that can be sorted: {error}.") from None
        return classes

    def basis(self, Y: Objects, random_state: int) -> Any:
        return ClassCodes()

    def decoders(self, Y: Objects) -> dict[str, Decoder]:
        return {"none": CodeDecoder()}

    def is_binary(self, Y: Objects) -> bool:
        return True

    def baseline(self, Y: Objects, sample_weight: np.ndarray | None = None) -> Objects:
        _, number = np.unique(np.asarray(Y), return_inverse=True)
        baseline: Objects = take(Y, most_frequent(number[:, None], sample_weight))
        return baseline

    def row_scores(self, true: Objects, pred: Objects) -> np.ndarray:
        return np.asarray(np.asarray(true) == np.asarray(pred), dtype=float)

    def measures(self, true: Objects, pred: Objects) -> dict[str, np.ndarray]:
        return {self.metric: self.row_scores(true, pred)}

    def read(self, cells: Cells) -> np.ndarray:
        return np.array([cell.strip() for cell in filled(cells)])


def _are_amounts(rows: np.ndarray) -> bool:
    """Whether values 0, 1, 2 and so on, in so many rows each, are amounts rather than codes."""
    if len(rows) < _LEAST_VALUES:
        return bool(np.all(np.diff(rows) < 0) and rows[-1] < _RARE * np.sum(rows))
    # of amounts, neighbors are in about as many rows: von Neumann's ratio of the logarithms
    logs = np.log(rows + 0.5)
    is_uneven = np.max(rows) >= _UNEVEN * np.min(rows)
    return bool(is_uneven and np.mean(np.diff(logs) ** 2) < _SMOOTH * np.var(logs))


def _of_one_type(classes: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Return classes as an array, or raise where some are texts and others are not.

    NumPy would turn all into texts, and 1 and "1" into one class.
    """
    if not isinstance(classes, np.ndarray) or classes.dtype == object:
        first = {isinstance(c, str): c for c in reversed(list(classes)) if not is_gap(c)}
        if len(first) == 2:
            raise TypeError(
                f"Y must be classes of one type. Got {type(first[False]).__name__} and str, such "
                f"as {first[False]!r} and {first[True]!r}: make all of them texts, or none."
            )
    return np.asarray(classes)


class StandardTargets(Coordinates):
    """Coordinates of numbers: columns scaled to mean 0 and variance 1; NaN is missing.

    Examples
    --------
    >>> from skout.kinds import StandardTargets
    >>> StandardTargets().fit_transform([[1.0, 0.0], [3.0, 0.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    mean_: Floats
    kernel_: Kernel
    landmarks_: Rows

    def fit(self, Y: Objects, y: Objects | None = None) -> StandardTargets:
        """Compute means and scales of Y, of shape (n,) or (n, d); a constant column has scale 1."""
        values = _columns(Y)
        self.is_vector_: bool = np.asarray(Y).ndim == 1
        empty = np.flatnonzero(np.isnan(values).all(axis=0))
        if len(values) and len(empty):
            raise ValueError(f"Y has no number in column {empty[0]}: leave this column out.")
        _, power = np.frexp(np.fmax.reduce(np.abs(values), axis=0, initial=0.0))
        scaled = np.ldexp(values, -power)  # up to 1: squares stay in range
        mean, spread = np.nanmean(scaled, axis=0), np.nanstd(scaled, axis=0)
        self.mean_, spread = np.ldexp(mean, power), np.ldexp(spread, power)
        tiny = 1e-12 * np.maximum(np.abs(self.mean_), np.finfo(np.float64).tiny)
        self.scale_: Floats = np.where(spread > tiny, spread, 1.0)
        self.rank_: int = values.shape[1]
        first = values[:2]
        self.kernel_, self.landmarks_ = Linear(), np.where(np.isnan(first), self.mean_, first)
        return self

    def transform(self, Y: Objects) -> Floats:
        """Return (Y - mean) / scale; NaN stays NaN."""
        Z: Floats = (_columns(Y) - self.mean_) / self.scale_
        return Z

    def decoded(self, F: np.ndarray) -> np.ndarray:
        """Return numbers from coordinates, F * scale + mean."""
        values: np.ndarray = F * self.scale_ + self.mean_
        return values[:, 0] if self.is_vector_ else values


def _columns(Y: Objects) -> Any:
    """Return numbers as float64 columns, (n, d), or raise for infinity; NaN is allowed."""
    values = np.asarray(Y)
    values = values[:, None] if values.ndim == 1 else values
    gaps = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
    if not gaps.any():
        return check_matrix(values, accept_sparse=False).astype(np.float64, copy=False)
    filled = check_matrix(np.where(gaps, 0.0, values), accept_sparse=False)
    return np.where(gaps, np.nan, filled)


class ClassCodes(Coordinates):
    """Coordinates of classes: one-hot codes, a row of zeros with a one.

    Examples
    --------
    >>> from skout.kinds import ClassCodes
    >>> ClassCodes().fit_transform(["b", "a", "b"])
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """

    kernel_: Kernel
    landmarks_: Rows

    def fit(self, Y: Objects, y: Objects | None = None) -> ClassCodes:
        """Store the distinct classes of n rows."""
        self.classes_: Array = np.unique(np.asarray(Y))
        self.rank_: int = len(self.classes_)
        self.kernel_, self.landmarks_ = Linear(), np.eye(self.rank_)[:2]
        return self

    def transform(self, Y: Objects) -> np.ndarray:
        """Return one-hot codes, (n, n_classes); zeros for a class that is not in `classes_`."""
        return np.asarray(np.asarray(Y)[:, None] == self.classes_, dtype=np.float64)

    def decoded(self, F: np.ndarray) -> np.ndarray:
        """Return the class of the largest coordinate of each row."""
        classes: np.ndarray = self.classes_[F.argmax(axis=1)]
        return classes

    def scores(self, F: np.ndarray) -> np.ndarray:
        """Return decision values, (n, n_classes); of two classes their difference, (n,)."""
        return F[:, 1] - F[:, 0] if self.rank_ == 2 else F

    def probabilities(self, F: np.ndarray) -> np.ndarray:
        """Return the probabilities nearest to the coordinates, shape (n, n_classes).

        They are max(f - t, 0), with the t that makes their sum 1: the projection onto a convex set
        that has the truth in it, and so nowhere further from the truth than f.
        """
        ordered = -np.sort(-F, axis=1)
        t = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, F.shape[1] + 1)
        last = np.count_nonzero(ordered > t, axis=1) - 1  # the last class that is not 0
        return np.maximum(F - np.take_along_axis(t, last[:, None], axis=1), 0.0)


class CodeDecoder(Decoder):
    """Decode numbers and classes by the method `decoded` of their basis."""

    def fit(
        self, basis: Estimator, Y: Objects, coordinates: np.ndarray | None = None
    ) -> CodeDecoder:
        """Store the basis."""
        self.basis_ = basis
        return self

    def rank(
        self, F: np.ndarray, candidates: Candidates = None, k: int = 10
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k classes of largest coordinates, as positions in `classes_`."""
        if not hasattr(self.basis_, "classes_"):
            raise TypeError("Numbers are predicted, not chosen among candidates: use predict.")
        self._refuse(candidates)
        k = min(check_number(k, "k", low=1, integer=True), F.shape[1])
        order = np.argsort(-F, axis=1, kind="stable")[:, :k]
        return order, np.take_along_axis(F, order, axis=1)

    def decode(self, F: np.ndarray, candidates: Candidates = None) -> Any:
        """Return the numbers or classes of predicted coordinates."""
        self._refuse(candidates)
        return self.basis_.decoded(F)
