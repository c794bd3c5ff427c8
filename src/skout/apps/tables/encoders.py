"""Encoders of columns into numbers, one for each kind of column; none uses the target.

Distances of different values are comparable between kinds: two different categories are at the
squared distance 2, so are two numbers on average, two texts without a common word, and two disjoint
sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from skout import KernelBasis
from skout.kernels import Tanimoto
from skout.kinds import LabelSets
from skout.molecules import fingerprints, parse_smiles

from .numerals import is_plain

# Robust deviations at which numbers are bent, so that an outlier is not far from all others.
_BEND = 3.0
# Quartiles of a normal distribution are so many deviations apart.
_QUARTILES = 1.349
_DAY, _YEAR = 86400.0, 365.25
# Hashed n-grams of texts and of names of categories.
HASHED = 2**14
# Cells that singular vectors are computed from, at most.
_MOST_CELLS = 20_000
_SEED = 0
# The weight of all descriptors of a molecule together, in columns of numbers, and that of its
# likeness to others.
_MOLECULE, _LIKENESS = 20.0, 5.0

Cells = np.ndarray  # of texts, and None where one is missing


class NumberColumns(BaseEstimator):
    """Numbers: centered at the median, scaled by the quartiles, bent beyond three deviations.

    z = (x - median) / (quartile range / 1.349), then z / sqrt(1 + (z/3)^2), of variance 1. What is
    missing becomes the median; a column of 0 and 1 says where, if there was some in `fit`.
    """

    bend = _BEND

    center_: np.ndarray
    scale_: np.ndarray
    deviation_: np.ndarray
    gaps_: np.ndarray

    def fit(self, values: np.ndarray) -> NumberColumns:
        """Learn centers and scales of an array of shape (n, d), NaN where missing."""
        finite = np.where(np.isinf(values), np.nan, values)
        finite[:, np.isnan(finite).all(axis=0)] = 0.0
        odd, shares = np.isnan(finite).any(axis=0), (0.25, 0.5, 0.75)
        quartiles = np.quantile(finite, shares, axis=0)  # (3, d)
        if odd.any():  # which takes longer
            quartiles[:, odd] = np.nanquantile(finite[:, odd], shares, axis=0)
        low, self.center_, high = quartiles
        scale = np.where(high > low, (high - low) / _QUARTILES, np.nanstd(finite, axis=0))
        self.scale_ = np.where(scale > 0.0, scale, 1.0)
        self.deviation_ = np.ones(values.shape[1])
        deviation = self._bent(values).std(axis=0)
        self.deviation_ = np.where(deviation > 1e-12, deviation, 1.0)
        self.gaps_ = np.flatnonzero(np.isnan(values).any(axis=0))
        return self

    def _bent(self, values: np.ndarray) -> np.ndarray:
        z = (values - self.center_) / self.scale_
        with np.errstate(invalid="ignore"):
            bent = z / np.hypot(1.0, z / _BEND)
        bent = np.where(np.isinf(z), np.copysign(_BEND, z), bent)
        scaled: np.ndarray = np.where(np.isnan(z), 0.0, bent) / self.deviation_
        return scaled

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Return the scaled numbers, then columns of 0 and 1 for missing ones."""
        return np.hstack([self._bent(values), np.isnan(values[:, self.gaps_])])

    def names(self, columns: Sequence[str]) -> list[str]:
        """Return the names of what `transform` returns."""
        return [*columns, *(f"{columns[j]}: missing" for j in self.gaps_.tolist())]


class DateColumn(BaseEstimator):
    """Dates: the day as a number, and season, day of the week and hour on circles."""

    day, year = _DAY, _YEAR  # in seconds, in days

    days_: NumberColumns
    circles_: list[str]

    def fit(self, moments: np.ndarray) -> DateColumn:
        """Learn the scale, and which of season, weekday and hour vary."""
        days = _days(moments)
        self.days_ = NumberColumns().fit(days[:, None])
        days = days[~np.isnan(days)]
        goes_round = {
            "season": len(days) > 0 and np.ptp(days) > 60.0,
            "weekday": len(np.unique(np.floor(days) % 7)) > 1,
            "hour": bool(np.any(days % 1.0 != 0.0)),
        }
        self.circles_ = [name for name, is_so in goes_round.items() if is_so]
        return self

    def transform(self, moments: np.ndarray) -> np.ndarray:
        """Return the day, whether it is missing, and half the sine and cosine of each circle."""
        days = _days(moments)
        turns = {"season": days / _YEAR, "weekday": (np.floor(days) + 3) / 7, "hour": days % 1.0}
        angles = [2.0 * np.pi * turns[name] for name in self.circles_]
        circles = [0.5 * wave(angle) for angle in angles for wave in (np.sin, np.cos)]
        return np.column_stack([self.days_.transform(days[:, None]), *map(np.nan_to_num, circles)])

    def names(self, column: str) -> list[str]:
        """Return the names of what `transform` returns."""
        circles = [f"{column}: {wave} of {c}" for c in self.circles_ for wave in ("sin", "cos")]
        return [*self.days_.names([column]), *circles]


def _days(moments: np.ndarray) -> np.ndarray:
    """Return days since 1970, NaN for NaT."""
    seconds = moments.astype("datetime64[s]").astype(np.int64).astype(np.float64)
    return np.where(np.isnat(moments), np.nan, seconds / _DAY)


class CategoryColumn(BaseEstimator):
    """Categories: a column of 0 and 1 for each of the `most` frequent ones, one for all others."""

    levels_: list[str]
    has_others_: bool
    has_gaps_: bool

    def __init__(self, most: int = 30) -> None:
        self.most = most

    def fit(self, cells: Cells) -> CategoryColumn:
        """Count the categories."""
        counts = Counter(cell for cell in cells if cell is not None).most_common()
        self.levels_ = sorted(level for level, _ in counts[: self.most])
        self.has_others_ = len(counts) > self.most
        self.has_gaps_ = any(cell is None for cell in cells)
        return self

    def transform(self, cells: Cells) -> np.ndarray:
        """Return columns of 0 and 1; a new category counts as one of the others, or as none."""
        place = {level: j for j, level in enumerate(self.levels_)}
        others = len(place) if self.has_others_ else -1
        gaps = len(place) + self.has_others_ if self.has_gaps_ else -1
        at = [gaps if cell is None else place.get(cell, others) for cell in cells]
        bits = np.equal.outer(at, np.arange(len(self._labels())))
        return np.sqrt(2.0) * bits[:, 1:] if bits.shape[1] == 2 else bits.astype(np.float64)

    def _labels(self) -> list[str]:
        return [*self.levels_, *["others"] * self.has_others_, *["missing"] * self.has_gaps_]

    def names(self, column: str) -> list[str]:
        """Return the names of what `transform` returns."""
        labels = self._labels()
        return [f"{column}: {label}" for label in labels[int(len(labels) == 2) :]]


class HashedText(BaseEstimator):
    """TF-IDF of hashed n-grams, on its first singular vectors: coordinates of total variance 1.

    This is what `StringEncoder` of skrub does, but for the hashing: there is no vocabulary to keep
    in files, and there are at most 2^14 n-grams.
    """

    used_: np.ndarray
    weights_: BaseEstimator  # TF-IDF
    vectors_: np.ndarray
    mean_: np.ndarray
    scale_: float

    def __init__(self, analyzer: str, n_grams: tuple[int, int], dimensions: int) -> None:
        self.analyzer = analyzer
        self.n_grams = n_grams
        self.dimensions = dimensions

    def _counts(self, cells: Cells) -> sparse.csr_matrix:
        from sklearn.feature_extraction.text import HashingVectorizer  # slow to import

        hashing = HashingVectorizer(
            analyzer=self.analyzer,
            ngram_range=tuple(self.n_grams),
            n_features=HASHED,
            alternate_sign=False,
            norm=None,
        )
        distinct, which = np.unique([cell or "" for cell in cells], return_inverse=True)
        return hashing.transform(distinct)[which]  # cells recur

    def fit(self, cells: Cells) -> HashedText:
        """Learn weights of n-grams and singular vectors."""
        from sklearn.feature_extraction.text import TfidfTransformer
        from sklearn.utils.extmath import randomized_svd

        counts = self._counts(cells)
        met = np.bincount(counts.indices, minlength=HASHED)  # in how many cells
        self.used_ = np.flatnonzero(met >= min(2, met.max()))
        self.weights_ = TfidfTransformer(sublinear_tf=True).fit(counts[:, self.used_])
        rows = self.weights_.transform(counts[:, self.used_])
        if rows.shape[0] > _MOST_CELLS:
            drawn = np.random.default_rng(_SEED).choice(rows.shape[0], _MOST_CELLS, replace=False)
            rows = rows[np.sort(drawn)]
        size = max(min(self.dimensions, min(rows.shape) - 1), 1)
        _, singular, vectors = randomized_svd(rows, size, n_iter=5, random_state=_SEED)
        # beyond the rank, coordinates are rounding errors: the tolerance of np.linalg.matrix_rank
        least = max(rows.shape) * np.finfo(np.float32).eps * singular[0]
        self.vectors_ = vectors[: max(1, int((singular > least).sum()))].astype(np.float32)
        Z = rows @ self.vectors_.T
        self.mean_ = Z.mean(axis=0)
        self.scale_ = float(np.sqrt(Z.var(axis=0).sum())) or 1.0
        return self

    def transform(self, cells: Cells) -> np.ndarray:
        """Return the coordinates."""
        rows = self.weights_.transform(self._counts(cells)[:, self.used_])
        return np.asarray(
            (np.asarray(rows @ self.vectors_.T, dtype=np.float64) - self.mean_) / self.scale_
        )

    def names(self, column: str) -> list[str]:
        """Return the names of what `transform` returns; `column` may say what the n-grams are."""
        return [f"{column} {j}" for j in range(len(self.vectors_))]


class TextColumn(BaseEstimator):
    """Free text: words, pairs of words, parts of words, and the length of the text."""

    words_: HashedText
    parts_: HashedText

    def __init__(self, dimensions: int = 30) -> None:
        self.dimensions = dimensions

    def fit(self, cells: Cells) -> TextColumn:
        """Learn weights of n-grams and singular vectors."""
        self.words_ = HashedText("word", (1, 2), self.dimensions).fit(cells)
        self.parts_ = HashedText("char_wb", (3, 5), self.dimensions).fit(cells)
        return self

    def transform(self, cells: Cells) -> np.ndarray:
        """Return coordinates of words, then of parts of words, and the length."""
        coordinates = [self.words_.transform(cells), self.parts_.transform(cells)]
        lengths = np.log1p([len(cell or "") for cell in cells]) / 3.0
        return np.column_stack([np.hstack(coordinates) / np.sqrt(2.0), lengths])

    def names(self, column: str) -> list[str]:
        """Return the names of what `transform` returns."""
        words, parts = self.words_.names(f"{column}: words"), self.parts_.names(f"{column}: parts")
        return [*words, *parts, f"{column}: length"]


class ManyCategories(BaseEstimator):
    """Many categories: the `most` frequent ones, the frequency of each, and n-grams of names.

    Where all names are numbers, such as postal codes, the number of those that recur is a column,
    too, since neighbors are often alike.
    """

    numbers_: Mapping[str, float] = MappingProxyType({})
    frequent_: CategoryColumn
    counts_: dict[str, int]
    likeness_: HashedText

    def __init__(self, most: int = 30, dimensions: int = 30) -> None:
        self.most = most
        self.dimensions = dimensions

    def fit(self, cells: Cells) -> ManyCategories:
        """Count categories and their n-grams."""
        self.frequent_ = CategoryColumn(self.most).fit(cells)
        counts = Counter(cell for cell in cells if cell is not None)
        self.counts_ = {name: count for name, count in counts.items() if count > 1}
        if self.counts_ and all(map(is_plain, counts)):
            names = [*self.counts_]
            values = np.array([[float(name)] for name in names])
            scale = NumberColumns().fit(np.array([[float(name)] for name in counts.elements()]))
            self.numbers_ = dict(zip(names, scale.transform(values)[:, 0].tolist(), strict=True))
        self.likeness_ = HashedText("char_wb", (2, 4), self.dimensions).fit(cells)
        return self

    def transform(self, cells: Cells) -> np.ndarray:
        """Return 0 and 1 for the frequent ones, the logarithm of counts, and coordinates."""
        counts = np.log1p([self.counts_.get(cell, 1) if cell else 0 for cell in cells])
        counts /= max(1.0, np.log1p(max(self.counts_.values(), default=1)))
        parts = [self.frequent_.transform(cells), counts]
        if self.numbers_:
            parts.append(np.array([self.numbers_.get(cell, 0.0) for cell in cells]))
        return np.column_stack([*parts, self.likeness_.transform(cells)])

    def names(self, column: str) -> list[str]:
        """Return the names of what `transform` returns."""
        likeness = self.likeness_.names(f"{column}: likeness")
        number = [f"{column}: number"] * bool(self.numbers_)
        return [*self.frequent_.names(column), f"{column}: count", *number, *likeness]


class SetColumn(BaseEstimator):
    """Sets: a column for each of the `most` frequent elements, rows of norm 1."""

    elements_: list[str]
    has_gaps_: bool

    def __init__(self, most: int = 100, separator: str = ";") -> None:
        self.most = most
        self.separator = separator

    def fit(self, cells: Cells) -> SetColumn:
        """Count the elements."""
        counts = Counter(word for words in self._sets(cells) for word in words)
        self.elements_ = sorted(word for word, _ in counts.most_common(self.most))
        self.has_gaps_ = any(cell is None for cell in cells)
        return self

    def _sets(self, cells: Cells) -> list[list[str]]:
        return LabelSets(separators=self.separator).split([cell or "" for cell in cells])

    def transform(self, cells: Cells) -> np.ndarray:
        """Return a column for each element, and one for rows without any."""
        place = {word: j for j, word in enumerate(self.elements_)}
        out = np.zeros((len(cells), len(self.elements_) + self.has_gaps_))
        for row, words in zip(out, self._sets(cells), strict=True):
            at = [place[word] for word in words if word in place]
            row[at] = 1.0 / np.sqrt(max(len(at), 1))
            if self.has_gaps_ and not words:
                row[-1] = 1.0
        return out

    def names(self, column: str) -> list[str]:
        """Return the names of what `transform` returns."""
        return [f"{column}: {word}" for word in [*self.elements_, *["missing"] * self.has_gaps_]]


class MoleculeColumn(BaseEstimator):
    """Molecules, as SMILES: RDKit's descriptors, and coordinates of a kernel of fingerprints.

    Descriptors are about 200 numbers. The kernel is that of Tanimoto on neighborhoods of atoms and
    how often they occur, of which the coordinates are those on `landmarks` molecules of training.
    """

    descriptors_: list[str]
    scaler_: NumberColumns
    basis_: KernelBasis
    mean_: np.ndarray
    scale_: float

    def __init__(self, landmarks: int = 100) -> None:
        self.landmarks = landmarks

    def fit(self, cells: Cells) -> MoleculeColumn:
        """Learn the scales of the descriptors, but for constant ones, and draw the landmarks."""
        descriptors = _descriptors(cells)
        values = np.array([list(row.values()) for row in descriptors], dtype=np.float64)
        spread = np.ptp(np.nan_to_num(values), axis=0) > 0.0
        names = zip(descriptors[0], spread, strict=True)
        self.descriptors_ = [name for name, varies in names if varies]
        self.scaler_ = NumberColumns().fit(self._values(cells, descriptors))
        valid = _valid(cells)
        drawn = np.random.default_rng(_SEED).permutation(valid)[: self.landmarks]
        self.basis_ = KernelBasis(Tanimoto()).fit(_counted(cells[np.sort(drawn)]))
        Z = self.basis_.transform(_counted(cells[valid]))
        self.mean_ = Z.mean(axis=0)
        self.scale_ = float(np.sqrt(Z.var(axis=0).sum())) or 1.0
        return self

    def _values(self, cells: Cells, descriptors: list[dict[str, float]]) -> np.ndarray:
        rows = [[row.get(name, np.nan) for name in self.descriptors_] for row in descriptors]
        return np.array(rows, dtype=np.float64).reshape(len(cells), -1)

    def transform(self, cells: Cells) -> np.ndarray:
        """Return the descriptors, which an invalid SMILES does not have, and coordinates."""
        numbers = self.scaler_.transform(self._values(cells, _descriptors(cells)))
        numbers *= np.sqrt(_MOLECULE / max(len(self.descriptors_), _MOLECULE))
        Z, valid = np.zeros((len(cells), self.basis_.rank_)), _valid(cells)
        if len(valid):
            Z[valid] = (self.basis_.transform(_counted(cells[valid])) - self.mean_) / self.scale_
        return np.hstack([numbers, np.sqrt(_LIKENESS) * Z])

    def names(self, column: str) -> list[str]:
        """Return the names of what `transform` returns."""
        numbers = [f"{column}: {name}" for name in self.scaler_.names(self.descriptors_)]
        return [*numbers, *(f"{column}: likeness {j}" for j in range(self.basis_.rank_))]


def _counted(cells: Cells) -> Any:
    """Return fingerprints with bits for how often molecules have each neighborhood of atoms."""
    return fingerprints(cells.tolist(), "counts")


def _valid(cells: Cells) -> np.ndarray:
    """Return the positions of the cells that are valid SMILES."""
    molecules = parse_smiles([cell or "" for cell in cells], on_error="none")
    pairs = zip(cells, molecules, strict=True)
    return np.flatnonzero([bool(cell) and molecule is not None for cell, molecule in pairs])


def _descriptors(cells: Cells) -> list[dict[str, float]]:
    """Return the descriptors of each molecule by name, NaN where there is none."""
    from rdkit.Chem.Descriptors import CalcMolDescriptors, descList

    rows: dict[str | None, dict[str, float]] = {}
    nothing = dict.fromkeys([name for name, _ in descList], np.nan)
    for cell, molecule in zip(
        cells, parse_smiles([c or "" for c in cells], on_error="none"), strict=True
    ):
        if cell not in rows:
            values = nothing if molecule is None else CalcMolDescriptors(molecule, np.nan)  # type: ignore[no-untyped-call]
            rows[cell] = {name: _finite(value) for name, value in values.items()}
    return [rows[cell] for cell in cells]


def _finite(value: float) -> float:
    """Return a descriptor, NaN where it overflows, as some do for large molecules."""
    return value if abs(value) < 1e12 else np.nan
