"""From one column to numbers: each kind of column once, without a look at the target.

What different values are apart is alike for all kinds: two different categories are at the squared
distance 2, so are two numbers on average, two texts without a common word, and two disjoint sets.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from .kinds import split_set

__all__ = [
    "CategoryColumn",
    "DateColumn",
    "HashedText",
    "ManyCategories",
    "NumberColumns",
    "SetColumn",
    "TextColumn",
]

# Robust deviations at which numbers are bent, so that an outlier is not far from all others.
_BEND = 3.0
# Quartiles of a normal distribution are so many deviations apart.
_QUARTILES = 1.349
_DAY = 86400.0
_YEAR = 365.25
# Hashed n-grams of texts and of names of categories.
_HASHED = 2**14
# Cells that singular vectors are computed from, at most.
_MOST_CELLS = 20_000
_SEED = 0


class NumberColumns(BaseEstimator):
    """Numbers: centred at the median, scaled by the quartiles, bent beyond three deviations.

    z = (x - median) / (quartile range / 1.349), then z / sqrt(1 + (z/3)^2), of variance 1. What is
    missing becomes the median; a column of 0 and 1 says where, if there was some in `fit`.
    """

    def fit(self, values: np.ndarray) -> NumberColumns:
        """Learn centres and scales of an array of shape (n, d), NaN where missing."""
        with np.errstate(all="ignore"):
            low, middle, high = _quartiles(values)
            scale = (high - low) / _QUARTILES
            spread = np.nanstd(np.where(np.isinf(values), np.nan, values), axis=0)
        scale = np.where(scale > 0.0, scale, spread)  # most are equal
        self.center_ = np.nan_to_num(middle)
        self.scale_ = np.where(np.isfinite(scale) & (scale > 0.0), scale, 1.0)
        self.deviation_ = np.ones(values.shape[1])
        bent = self._bent(values)
        deviation = bent.std(axis=0)
        self.deviation_ = np.where(deviation > 1e-12, deviation, 1.0)
        self.gaps_ = np.flatnonzero(np.isnan(values).any(axis=0))
        return self

    def _bent(self, values: np.ndarray) -> np.ndarray:
        z = (values - self.center_) / self.scale_
        with np.errstate(invalid="ignore"):
            bent = z / np.hypot(1.0, z / _BEND)
        bent = np.where(np.isinf(z), np.copysign(_BEND, z), bent)
        return np.where(np.isnan(z), 0.0, bent) / self.deviation_

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Return the numbers, then where those of some columns are missing."""
        missing = np.isnan(values[:, self.gaps_]).astype(np.float64)
        return np.hstack([self._bent(values), missing])

    def names(self, columns: list[str]) -> list[str]:
        """Return the names of what `transform` returns."""
        return [*columns, *(f"{columns[j]}: missing" for j in self.gaps_)]


def _quartiles(values: np.ndarray) -> np.ndarray:
    """Return nan-quartiles of columns; NaN for a column without any number."""
    ordered = np.sort(np.where(np.isinf(values), np.nan, values), axis=0)  # NaN last
    count = np.count_nonzero(~np.isnan(ordered), axis=0)
    found = np.empty((3, values.shape[1]))
    for i, share in enumerate((0.25, 0.5, 0.75)):
        at = share * np.maximum(count - 1, 0)
        below = np.floor(at).astype(int)
        above = np.minimum(below + 1, np.maximum(count - 1, 0))
        columns = np.arange(values.shape[1])
        part = at - below
        found[i] = (1 - part) * ordered[below, columns] + part * ordered[above, columns]
    return found


class DateColumn(BaseEstimator):
    """Dates: the day as a number, and season, day of the week and hour on circles."""

    def fit(self, moments: np.ndarray) -> DateColumn:
        """Learn the scale, and which circles the dates go round."""
        self.days_ = NumberColumns().fit(_days(moments)[:, None])
        days = _days(moments)[~np.isnat(moments)]
        has_hours = bool(np.any(days % 1.0 != 0.0))
        some = len(days) > 0
        self.circles_ = [
            name
            for name, wanted in (
                ("season", some and np.ptp(days) > 60.0),
                ("weekday", some and len(np.unique(np.floor(days) % 7)) > 1),
                ("hour", has_hours),
            )
            if wanted
        ]
        return self

    def transform(self, moments: np.ndarray) -> np.ndarray:
        """Return the day, where it is missing, and half a sine and cosine for each circle."""
        days = _days(moments)
        parts = [self.days_.transform(days[:, None])]
        turns = {"season": days / _YEAR, "weekday": (np.floor(days) + 3) / 7, "hour": days % 1.0}
        for name in self.circles_:
            angle = 2.0 * np.pi * turns[name]
            circle = 0.5 * np.column_stack([np.sin(angle), np.cos(angle)])
            parts.append(np.where(np.isnat(moments)[:, None], 0.0, circle))
        return np.hstack(parts)

    def names(self, column: str) -> list[str]:
        """Return the names of what `transform` returns."""
        circles = [
            f"{column}: {part} of {name}" for name in self.circles_ for part in ("sin", "cos")
        ]
        return [*self.days_.names([column]), *circles]


def _days(moments: np.ndarray) -> np.ndarray:
    """Return days since 1970, NaN for NaT."""
    seconds = moments.astype("datetime64[s]").astype(np.int64).astype(np.float64)
    return np.where(np.isnat(moments), np.nan, seconds / _DAY)


def _filled(values: np.ndarray) -> list[str]:
    return [cell for cell in values if cell is not None]


class CategoryColumn(BaseEstimator):
    """Categories: a column of 0 and 1 for each of the `most` frequent ones, one for all others."""

    def __init__(self, most: int = 30) -> None:
        self.most = most

    def fit(self, values: np.ndarray) -> CategoryColumn:
        """Count the categories."""
        counts = Counter(_filled(values)).most_common()
        self.levels_ = sorted(level for level, _ in counts[: self.most])
        self.has_others_ = len(counts) > self.most
        self.has_gaps_ = any(cell is None for cell in values)
        return self

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Return which category each row has; a new one counts as one of the others, or as none."""
        place = {level: j for j, level in enumerate(self.levels_)}
        others = len(self.levels_) if self.has_others_ else -1
        gaps = len(self.levels_) + self.has_others_ if self.has_gaps_ else -1
        at = np.array([gaps if c is None else place.get(c, others) for c in values], dtype=int)
        out = np.zeros((len(values), len(self._all())))
        rows = np.flatnonzero(at >= 0)
        out[rows, at[rows]] = 1.0
        if self._is_pair():
            return np.sqrt(2.0) * out[:, 1:]
        return out

    def _all(self) -> list[str]:
        return [*self.levels_, *["others"] * self.has_others_, *["missing"] * self.has_gaps_]

    def _is_pair(self) -> bool:
        return len(self._all()) == 2

    def names(self, column: str) -> list[str]:
        """Return the names of what `transform` returns."""
        return [f"{column}: {level}" for level in self._all()[int(self._is_pair()) :]]


class HashedText(BaseEstimator):
    """Hashed n-grams, weighted by how rare they are, projected on the first singular vectors."""

    def __init__(self, analyzer: str, n_grams: tuple[int, int], dimensions: int) -> None:
        self.analyzer = analyzer
        self.n_grams = n_grams
        self.dimensions = dimensions

    def _counts(self, values: np.ndarray) -> sparse.csr_matrix:
        from sklearn.feature_extraction.text import HashingVectorizer  # slow to import

        hashing = HashingVectorizer(
            analyzer=self.analyzer,
            ngram_range=tuple(self.n_grams),
            n_features=_HASHED,
            alternate_sign=False,
            norm=None,
        )
        counts = hashing.transform(["" if cell is None else cell for cell in values])
        counts.data = 1.0 + np.log(counts.data)
        return counts

    def fit(self, values: np.ndarray) -> HashedText:
        """Learn weights of n-grams and singular vectors."""
        from sklearn.decomposition import TruncatedSVD  # slow to import

        counts = self._counts(values)
        met = np.asarray((counts > 0).sum(axis=0)).ravel()
        self.used_ = np.flatnonzero(met)
        self.weights_ = np.log((1.0 + len(values)) / (1.0 + met[self.used_])) + 1.0
        rows = self._weighted(counts)
        if rows.shape[0] > _MOST_CELLS:
            some = np.random.default_rng(_SEED).choice(rows.shape[0], _MOST_CELLS, replace=False)
            rows = rows[np.sort(some)]
        size = max(0, min(self.dimensions, min(rows.shape) - 1))
        if size:
            vectors = TruncatedSVD(size, random_state=_SEED).fit(rows).components_
            self.vectors_ = vectors.astype(np.float32)
        else:  # one n-gram in all
            self.vectors_ = np.ones((min(1, rows.shape[1]), rows.shape[1]), dtype=np.float32)
        Z = rows @ self.vectors_.T
        self.mean_ = Z.mean(axis=0)
        spread = float(np.sqrt(Z.var(axis=0).sum())) if Z.size else 1.0
        self.scale_ = spread if spread > 1e-9 else 1.0
        return self

    def _weighted(self, counts: sparse.csr_matrix) -> sparse.csr_matrix:
        rows = sparse.csr_matrix(counts[:, self.used_] @ sparse.diags(self.weights_))
        norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        return sparse.csr_matrix(sparse.diags(1.0 / np.where(norms > 0, norms, 1.0)) @ rows)

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Return coordinates of total variance 1."""
        Z = self._weighted(self._counts(values)) @ self.vectors_.T
        return (np.asarray(Z, dtype=np.float64) - self.mean_) / self.scale_


class TextColumn(BaseEstimator):
    """Free text: TF-IDF of words and of parts of words, hashed, on their first singular vectors."""

    def __init__(self, dimensions: int = 30) -> None:
        self.dimensions = dimensions

    def fit(self, values: np.ndarray) -> TextColumn:
        """Learn weights of n-grams and singular vectors."""
        self.words_ = HashedText("word", (1, 2), self.dimensions).fit(values)
        self.parts_ = HashedText("char_wb", (3, 5), self.dimensions).fit(values)
        return self

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Return coordinates of words, then of parts of words; and how long a text is."""
        found = [one.transform(values) / np.sqrt(2.0) for one in (self.words_, self.parts_)]
        lengths = np.log1p([0 if cell is None else len(cell) for cell in values]) / 3.0
        return np.hstack([*found, np.reshape(lengths, (-1, 1))])

    def names(self, column: str) -> list[str]:
        """Return the names of what `transform` returns."""
        counts = [("words", self.words_), ("parts", self.parts_)]
        found = [f"{column}: {what} {j}" for what, one in counts for j in range(len(one.vectors_))]
        return [*found, f"{column}: length"]


class ManyCategories(BaseEstimator):
    """Many categories: the `most` frequent ones, how frequent each is, and what names share."""

    def __init__(self, most: int = 30, dimensions: int = 30) -> None:
        self.most = most
        self.dimensions = dimensions

    def fit(self, values: np.ndarray) -> ManyCategories:
        """Count categories and their n-grams."""
        self.frequent_ = CategoryColumn(self.most).fit(values)
        self.counts_ = dict(Counter(_filled(values)))
        self.likeness_ = HashedText("char_wb", (2, 4), self.dimensions).fit(values)
        return self

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Return 0 and 1 for frequent ones, the logarithm of the count, and coordinates."""
        met = [0 if cell is None else self.counts_.get(cell, 0) for cell in values]
        counts = np.log1p(met) / max(1.0, np.log1p(max(self.counts_.values(), default=1)))
        likeness = self.likeness_.transform(values)
        return np.hstack([self.frequent_.transform(values), counts[:, None], likeness])

    def names(self, column: str) -> list[str]:
        """Return the names of what `transform` returns."""
        likeness = [f"{column}: likeness {j}" for j in range(len(self.likeness_.vectors_))]
        return [*self.frequent_.names(column), f"{column}: count", *likeness]


class SetColumn(BaseEstimator):
    """Sets: a column for each of the `most` frequent elements, rows of norm 1."""

    def __init__(self, most: int = 100, separator: str = ";") -> None:
        self.most = most
        self.separator = separator

    def fit(self, values: np.ndarray) -> SetColumn:
        """Count the elements."""
        sets = self._sets(values)
        counts = Counter(word for row in sets for word in row).most_common(self.most)
        self.elements_ = sorted(word for word, _ in counts)
        self.has_gaps_ = any(cell is None for cell in values)
        return self

    def _sets(self, values: Any) -> list[list[str]]:
        return [[] if cell is None else split_set(cell, self.separator) for cell in values]

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Return which elements each row has, and whether it has none."""
        place = {word: j for j, word in enumerate(self.elements_)}
        out = np.zeros((len(values), len(self.elements_) + self.has_gaps_))
        for row, words in zip(out, self._sets(values), strict=True):
            known = [place[word] for word in words if word in place]
            row[known] = 1.0 / np.sqrt(max(len(known), 1))
            if self.has_gaps_ and not words:
                row[-1] = 1.0
        return out

    def names(self, column: str) -> list[str]:
        """Return the names of what `transform` returns."""
        return [f"{column}: {word}" for word in [*self.elements_, *["missing"] * self.has_gaps_]]
