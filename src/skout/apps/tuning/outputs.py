"""Output coordinates that all maps of a search share, and what decodes them.

Every trial predicts the same coordinates, so that the predictions of a kernel ridge, a forest and a
boosted model can be averaged before they are decoded, once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin

from skout.decoding import Decoder, RankingDecoder
from skout.decoding.labels import label_matrix, take_better
from skout.dev import (
    PartsByName,
    Source,
    check_choice,
    check_matrix,
    check_number,
    row_slices,
    symmetric_eigen,
    unique,
)
from skout.kernels import F1, Kendall, Linear

from ..tables.frames import is_gap
from .means import column_means, column_variances

__all__ = [
    "BordaDecoder",
    "ClassCodes",
    "CodeDecoder",
    "LabelFeatures",
    "PairOrders",
    "SetDecoder",
    "StandardTargets",
]

# Most coordinates of label sets: more labels than that have one each.
_MOST_COLUMNS = 2500
# What the features may miss of 2 / (s + t), relative to its trace.
_MISSED = 1e-4
_BLOCK_NUMBERS = 2**23
_LIKELY = 64  # labels that a set of greatest expected F1 is looked for among, at least
_LARGE = 2**25  # coordinates are float32 from then on


class _Coordinates(TransformerMixin, PartsByName):
    """A basis whose coordinates are written down, not found from landmarks."""

    rank_: int
    kernel_: Any
    landmarks_: Any
    device = None

    def coordinates(self, rows: Source, out: np.ndarray | None = None) -> np.ndarray:
        found = self.transform(rows.load())
        if out is None:
            return found
        out[...] = found
        return out


class LabelFeatures(_Coordinates):
    """Features of label sets whose inner product is their F1 score, without landmarks.

    F1(a, b) = sum_j a_j b_j 2 / (|a| + |b|), and 2 / (s + t) = sum_r phi_r(s) phi_r(t) with few r:
    the coordinates of a set y are y_j phi_r(|y|), and 1 for the empty set.

    There are at most `max_columns` coordinates: of many labels, r runs over fewer functions of the
    size. y_j is about the sum over r of `levels_` and the coordinates (r, j).

    Examples
    --------
    >>> import numpy as np
    >>> from skout.apps.tuning.outputs import LabelFeatures
    >>> Y = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]])
    >>> Z = LabelFeatures().fit_transform(Y)
    >>> (Z @ Z.T).round(2) + 0.0
    array([[1.  , 0.67, 0.  ],
           [0.67, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """

    def __init__(self, max_columns: int = _MOST_COLUMNS) -> None:
        self.max_columns = max_columns

    def fit(self, Y: Any, y: Any = None) -> LabelFeatures:
        """Find functions of the size of the sets, rows of 0 and 1 of shape (n, L)."""
        labels = label_matrix(Y)
        if labels.shape[1] == 0:
            raise ValueError(
                f"Y has no labels: all of its {labels.shape[0]} sets are empty, and no column says "
                "which labels there are. Give rows of 0 and 1, a column for each label."
            )
        sizes = np.diff(labels.indptr)
        largest = max(int(sizes.max(initial=0)), 1)
        counts = np.bincount(sizes, minlength=largest + 1)[1:].astype(float)
        t = np.arange(1, largest + 1)
        values, vectors = symmetric_eigen(2.0 / np.add.outer(t, t))
        missed = 1.0 - np.cumsum(values) / values.sum()
        enough = int(np.argmax(missed <= _MISSED)) + 1
        most = max(1, self.max_columns // labels.shape[1])
        kept = slice(0, min(enough, most))
        self.sizes_ = np.zeros((largest + 1, kept.stop))  # phi of each size, 0 of the empty set
        self.sizes_[1:] = vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0))
        # the diagonal stays 1: F1 of a set with itself
        norm = np.sqrt((self.sizes_[1:] ** 2).sum(axis=1) * t)
        self.sizes_[1:] /= norm[:, None]
        root = np.sqrt(counts + 1e-3 * max(counts.sum(), 1.0) / largest)[:, None]
        gram = (self.sizes_[1:] * root).T @ (self.sizes_[1:] * root)
        gram_values, gram_vectors = symmetric_eigen(gram)
        right = gram_vectors.T @ (self.sizes_[1:] * root**2).sum(axis=0)
        self.levels_ = gram_vectors @ (right / np.maximum(gram_values, 1e-9 * gram_values[0]))
        self.has_empty_ = bool(np.any(sizes == 0))
        self.n_labels_ = labels.shape[1]
        self.rank_ = kept.stop * self.n_labels_ + self.has_empty_
        self.kernel_ = F1()
        self.landmarks_ = self.kernel_.encode(labels[:2].toarray())
        return self

    def transform(self, Y: Any) -> np.ndarray:
        """Return y_j phi_r(|y|), shape (n, r L), and a column for the empty set if there is one."""
        labels = label_matrix(Y)
        if labels.shape[1] != self.n_labels_:
            raise ValueError(
                f"Label sets must have a column for each of the {self.n_labels_} labels. Got "
                f"{labels.shape[1]} columns instead."
            )
        sizes = np.diff(labels.indptr)
        phi = self.sizes_[np.minimum(sizes, len(self.sizes_) - 1)]  # (n, r)
        dense = labels.toarray()
        dtype = np.float64 if len(dense) * self.rank_ < _LARGE else np.float32
        Z = np.zeros((len(dense), self.rank_), dtype=dtype)
        for r in range(phi.shape[1]):
            Z[:, r * self.n_labels_ : (r + 1) * self.n_labels_] = dense * phi[:, r, None]
        if self.has_empty_:
            Z[:, -1] = sizes == 0
        return Z

    def marginals(self, F: np.ndarray) -> np.ndarray:
        """Return E[Y_j | x] of predicted coordinates, shape (n, L)."""
        r = self.sizes_.shape[1]
        levels = self.levels_.astype(F.dtype, copy=False)
        cube = F[:, : r * self.n_labels_].reshape(len(F), r, self.n_labels_)
        return np.einsum("nrl,r->nl", cube, levels)

    def scores(self, F: np.ndarray) -> np.ndarray:
        """Return E[Y_j | x], see `marginals`."""
        return self.marginals(F)

    def probabilities(self, F: np.ndarray) -> np.ndarray:
        """Return the probability of each label, (n, L): the marginals, within 0 and 1."""
        return np.clip(self.marginals(F), 0.0, 1.0)


class SetDecoder(Decoder):
    """Decode the coordinates of `LabelFeatures` into label sets.

    Parameters
    ----------
    rule : "f1", "threshold" or "candidates", default "f1"
        The set of greatest expected F1; the labels whose expectation is above a threshold; the
        training set of greatest expected F1.
    threshold : float, default 0.5
    """

    def __init__(self, rule: str = "f1", threshold: float = 0.5) -> None:
        self.rule = rule
        self.threshold = threshold

    def fit(self, basis: Any, Y: Any, coordinates: np.ndarray | None = None) -> SetDecoder:
        """Keep the basis and, to choose among them, the distinct training outputs."""
        check_choice(self.rule, "rule", ("f1", "threshold", "candidates"))
        check_number(self.threshold, "threshold", low=-np.inf)
        labels = label_matrix(Y)
        self.basis_ = basis
        self._is_sparse, self._dtype = sparse.issparse(Y), getattr(Y, "dtype", np.dtype(np.int64))
        self.pool_: Any = None
        if self.rule == "candidates":
            self.pool_ = labels[unique(labels)[0]]
            self.embedding_ = basis.transform(self.pool_).astype(np.float32)
        return self

    def decode(self, F: np.ndarray, candidates: Any = None) -> Any:
        """Return a label set for each row, an array or CSR matrix as the training outputs are."""
        self._refuse(candidates)
        chosen = self.sets(F)
        if self._is_sparse:
            return sparse.csr_matrix(chosen, dtype=self._dtype)
        return chosen.astype(self._dtype)

    def sets(self, F: np.ndarray) -> np.ndarray:
        """Return the label sets as booleans, shape (n, L)."""
        basis = self.basis_
        widest = max(basis.n_labels_, 0 if self.pool_ is None else self.pool_.shape[0], 1)
        size = max(1, _BLOCK_NUMBERS // widest)
        rules = {"f1": self._best_f1, "threshold": self._above, "candidates": self._nearest}
        parts = [rules[self.rule](F[some]) for some in row_slices(len(F), size)]
        return np.concatenate([*parts, np.zeros((0, basis.n_labels_), dtype=bool)])

    def _best_f1(self, F: np.ndarray) -> np.ndarray:
        """Compare the best set of each size, and the empty one; ties go to the smaller set.

        E[F1(c, Y)] = sum of w_j over the labels of c, w_j = sum_r phi_r(|c|) f_rj.
        """
        basis = self.basis_
        r, L = basis.sizes_.shape[1], basis.n_labels_
        cube = F[:, : r * L].reshape(len(F), r, L)
        likely = self._likely(F)
        if likely is not None:
            cube = np.take_along_axis(cube, likely[:, None], axis=2)
        best = F[:, -1].copy() if basis.has_empty_ else np.full(len(F), -np.inf, dtype=F.dtype)
        chosen = np.zeros((len(F), L), dtype=bool)
        for size in _some_sizes(min(len(basis.sizes_) - 1, cube.shape[2])):
            w = np.einsum("nrl,r->nl", cube, basis.sizes_[size].astype(F.dtype))
            take_better(w, size, best, chosen, likely)
        return chosen

    def _likely(self, F: np.ndarray) -> np.ndarray | None:
        """Return the labels of greatest expectation, where there are many more than sets have."""
        basis = self.basis_
        most = max(_LIKELY, 3 * (len(basis.sizes_) - 1))
        if basis.n_labels_ <= 2 * most:
            return None
        expected = basis.marginals(F)
        return np.argpartition(expected, basis.n_labels_ - most, axis=1)[:, -most:]

    def _above(self, F: np.ndarray) -> np.ndarray:
        """Return the labels above the threshold; the first one where no set may be empty."""
        expected = self.basis_.marginals(F)
        return at_least_one(expected > self.threshold, expected, self.basis_.has_empty_)

    def _nearest(self, F: np.ndarray) -> np.ndarray:
        """Return the training set of greatest f . z(c); all have norm 1."""
        scores = F.astype(np.float32, copy=False) @ self.embedding_.T
        return self.pool_[np.argmax(scores, axis=1)].toarray() > 0


def _some_sizes(largest: int) -> list[int]:
    """Return the sizes of sets to look for: all small ones, and every few of the large ones."""
    sizes, size = [], 1
    while size <= largest:
        sizes.append(size)
        size += max(1, size // 8)
    return sizes


def at_least_one(chosen: np.ndarray, expected: np.ndarray, may_be_empty: bool) -> np.ndarray:
    """Return label sets of which none is empty, unless some may be."""
    if may_be_empty:
        return chosen
    none = np.flatnonzero(~chosen.any(axis=1))
    chosen[none, expected[none].argmax(axis=1)] = True
    return chosen


class PairOrders(_Coordinates):
    """The order of each pair of items, 1 or -1 over the root of their number, as Kendall has it."""

    def fit(self, Y: Any, y: Any = None) -> PairOrders:
        """Note the number of items, the columns of ranks of shape (n, d)."""
        self.kernel_ = Kendall()
        self.landmarks_ = self.kernel_.encode(Y[:2])
        self.rank_ = self.kernel_.features(self.landmarks_).shape[1]
        return self

    def transform(self, Y: Any) -> np.ndarray:
        """Return the signs of all pairs, shape (n, d (d - 1) / 2)."""
        return np.asarray(self.kernel_.features(self.kernel_.encode(Y)), dtype=np.float64)

    def combine(self, values: Any) -> np.ndarray:
        """Return what each coordinate stands for: itself."""
        return np.eye(self.rank_)


class BordaDecoder(RankingDecoder):
    """Sort items by what all their pairs say together (Borda), in coordinates of Kendall's kernel.

    The order that agrees with most pairs, which `RankingDecoder` finds, follows each pair however
    close; sums over pairs average their errors. No search: any number of items.
    """

    def decode(self, F: np.ndarray, candidates: Any = None) -> np.ndarray:
        """Return the ranking of each predicted row; equal sums go by the number of the item."""
        self._refuse(candidates)
        first, second = np.triu_indices(self.n_items_, k=1)
        votes = np.zeros((len(F), self.n_items_))
        for pair, i, j in zip((F @ self.directions_).T, first, second, strict=True):
            votes[:, i] += pair
            votes[:, j] -= pair
        order = np.argsort(-votes.round(12), axis=1, kind="stable")
        return np.argsort(order, axis=1, kind="stable") + self._best_rank


class StandardTargets(_Coordinates):
    """Columns of numbers with mean 0 and variance 1, so that each counts the same; NaN is a gap.

    Examples
    --------
    >>> from skout.apps.tuning.outputs import StandardTargets
    >>> StandardTargets().fit_transform([[1.0, 0.0], [3.0, 0.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    def fit(self, Y: Any, y: Any = None) -> StandardTargets:
        """Find means and scales of shape (n,) or (n, d); a constant column has scale 1."""
        values = _columns(Y)
        self.is_vector_ = np.ndim(Y) == 1
        empty = np.flatnonzero(np.isnan(values).all(axis=0))
        if len(values) and len(empty):
            raise ValueError(f"Y has no number in column {empty[0]}: leave this column out.")
        _, power = np.frexp(np.fmax.reduce(np.abs(values), axis=0, initial=0.0))
        near = np.ldexp(values, -power)  # up to 1: squares stay in range
        mean, spread = column_means(near), np.sqrt(column_variances(near))
        self.mean_, spread = np.ldexp(mean, power), np.ldexp(spread, power)
        tiny = 1e-12 * np.maximum(np.abs(self.mean_), np.finfo(np.float64).tiny)
        self.scale_ = np.where(spread > tiny, spread, 1.0)
        self.rank_ = values.shape[1]
        some = values[:2]
        self.kernel_, self.landmarks_ = Linear(), np.where(np.isnan(some), self.mean_, some)
        return self

    def transform(self, Y: Any) -> np.ndarray:
        """Return (Y - mean) / scale, with the gaps of Y."""
        return (_columns(Y) - self.mean_) / self.scale_

    def decoded(self, F: np.ndarray) -> np.ndarray:
        """Return the numbers that coordinates stand for."""
        values = F * self.scale_ + self.mean_
        return values[:, 0] if self.is_vector_ else values


def _columns(Y: Any) -> np.ndarray:
    values = np.asarray(Y)
    values = values[:, None] if values.ndim == 1 else values
    gaps = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
    if not gaps.any():
        return check_matrix(values, accept_sparse=False).astype(np.float64, copy=False)
    filled = check_matrix(np.where(gaps, 0.0, values), accept_sparse=False)
    return np.where(gaps, np.nan, filled)


def one_type(classes: Any) -> np.ndarray:
    """Return classes as an array, and raise where some are texts and others are not.

    NumPy would make texts of all, and one class of 1 and "1".
    """
    if not isinstance(classes, np.ndarray) or classes.dtype == object:
        first = {isinstance(one, str): one for one in reversed(list(classes)) if not is_gap(one)}
        if len(first) == 2:
            raise TypeError(
                f"Y must be classes of one type. Got {type(first[False]).__name__} and str, such "
                f"as {first[False]!r} and {first[True]!r}: make all of them texts, or none."
            )
    return np.asarray(classes)


class ClassCodes(_Coordinates):
    """One class of several as a row of zeros and a one.

    Examples
    --------
    >>> from skout.apps.tuning.outputs import ClassCodes
    >>> ClassCodes().fit_transform(["b", "a", "b"])
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """

    def fit(self, Y: Any, y: Any = None) -> ClassCodes:
        """Find the classes of n labels."""
        self.classes_ = np.unique(np.asarray(Y))
        self.rank_ = len(self.classes_)
        self.kernel_, self.landmarks_ = Linear(), np.eye(self.rank_)[:2]
        return self

    def transform(self, Y: Any) -> np.ndarray:
        """Return rows of 0 and 1; zeros for a class that was not there."""
        return (np.asarray(Y)[:, None] == self.classes_).astype(np.float64)

    def decoded(self, F: np.ndarray) -> np.ndarray:
        """Return the class of the largest coordinate."""
        return self.classes_[F.argmax(axis=1)]

    def scores(self, F: np.ndarray) -> np.ndarray:
        """Return what classes are chosen by, (n, n_classes); of two, how far the second leads."""
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
    """Let the basis itself decode, by its method `decoded`: numbers and classes."""

    def fit(self, basis: Any, Y: Any, coordinates: np.ndarray | None = None) -> CodeDecoder:
        """Keep the basis."""
        self.basis_ = basis
        return self

    def rank(
        self, F: np.ndarray, candidates: Any = None, k: int = 10
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k classes of largest coordinates, as positions in `classes_`."""
        if not hasattr(self.basis_, "classes_"):
            raise TypeError("Numbers are predicted, not chosen among candidates: use predict.")
        self._refuse(candidates)
        k = min(check_number(k, "k", low=1, integer=True), F.shape[1])
        order = np.argsort(-F, axis=1, kind="stable")[:, :k]
        return order, np.take_along_axis(F, order, axis=1)

    def decode(self, F: np.ndarray, candidates: Any = None) -> Any:
        """Return what the coordinates stand for."""
        self._refuse(candidates)
        return self.basis_.decoded(F)
