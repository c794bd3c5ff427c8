"""Label sets: rows of 0 and 1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from .._numerics.arrays import row_slices, unique
from .._numerics.linalg import symmetric_eigen
from .._numerics.typing import Candidates, Estimator, Floats, Objects, Rows
from .._numerics.validation import check_choice, check_number
from ..decoding import Decoder
from ..decoding.labels import label_matrix, take_better
from ..kernels import F1, Kernel
from ..metrics.objects import f1_scores, overlap
from .base import Cells, Coordinates, Kind, values_of

# Thresholds on expected labels, of the decoders that are compared.
_THRESHOLDS = tuple(np.round(np.arange(0.06, 0.63, 0.04), 2).tolist())
# Entries that the matrix of coordinates may have (400 MB in float32): rows times coordinates.
_MOST_NUMBERS = 1e8
# Coordinates that label sets may have; where there are more labels, each has one.
_MOST_COLUMNS = 2500
# Share of the trace of the matrix 2 / (s + t) that the functions phi_r may leave out.
_MISSED = 1e-4
# Entries of a block of scores of rows and labels: 64 MB.
_BLOCK_NUMBERS = 2**23
# Most likely labels among which the set of greatest expected F1 is searched, at least.
_LIKELY = 64
# Entries from which on coordinates are float32: 256 MB in float64.
_LARGE = 2**25
# The word that may separate labels, as a part of `LabelSets.separators`.
_AND = " and "


@dataclass(frozen=True)
class LabelSets(Kind):
    """Rows of 0 and 1; in tables a column of labels with separators, or a column for each label."""

    name = "label_sets"
    elsewhere = ("multilabel", "multi_label")
    kernel: ClassVar[F1] = F1()
    metric = "example_f1"
    baseline_name = "the most frequent set"
    has_probabilities = True
    style: ClassVar[str] = "chips"
    part: ClassVar[str] = "label "

    labels: Sequence[str] = ()
    #: Characters that may stand between labels; " and ", with its blanks, is a word that may, too.
    separators: str = ";|"

    @property
    def separator(self) -> str:  # type: ignore[override]
        first = self.separators.replace(_AND, "")[:1] or _AND
        return ", " if first == "," else first

    def recognizes(self, Y: Objects) -> bool:
        if _are_names(super().check(Y)):  # `check` says how to make rows of them
            return True
        values = values_of(Y)
        if sparse.issparse(values):
            return bool(np.all(values.data == 1))
        if values.ndim != 2 or values.dtype.kind not in "biuf":
            return False
        return bool(np.all((values == 0) | (values == 1) | (values != values)))  # but for NaN

    def check(self, Y: Objects) -> Objects:
        Y = super().check(Y)
        labels = label_matrix(Y)  # raises
        Y = Y if sparse.issparse(Y) else np.asarray(Y)
        return labels.toarray().astype(int) if Y.dtype == object else Y

    def basis(self, Y: Objects, random_state: int) -> Any:
        n, n_labels = np.shape(Y)
        return LabelFeatures(int(np.clip(_MOST_NUMBERS / n, n_labels, _MOST_COLUMNS)))

    def decoders(self, Y: Objects) -> dict[str, Decoder]:
        decoders: dict[str, Decoder] = {rule: SetDecoder(rule) for rule in ("f1", "candidates")}
        return decoders | {f"threshold {t:g}": SetDecoder("threshold", t) for t in _THRESHOLDS}

    def is_binary(self, Y: Objects) -> bool:
        return True

    def decoded_scores(
        self, decoders: Sequence[Decoder], F: np.ndarray, true: Objects
    ) -> np.ndarray:
        truth = (true.toarray() if sparse.issparse(true) else np.asarray(true)) > 0
        rules: Sequence[Any] = decoders
        has_thresholds = any(decoder.rule == "threshold" for decoder in rules)
        expected = rules[0].basis_.marginals(F) if has_thresholds else None
        scores = []
        for decoder in rules:
            pred = decoder.sets(F, expected)
            total = np.count_nonzero(truth, axis=1) + np.count_nonzero(pred, axis=1)
            scores.append(f1_scores(np.count_nonzero(truth & pred, axis=1), total))
        return np.array(scores)

    def measures(self, true: Objects, pred: Objects) -> dict[str, np.ndarray]:
        truth: Any = true
        rows: Any = sparse.csr_matrix(pred, copy=True)
        rows.resize(truth.shape)  # the truth may have labels that the model does not know
        common, total, n_labels = overlap(truth, rows)
        return {
            self.metric: f1_scores(common, total),
            "hamming_loss": (total - 2 * common) / n_labels,
            "exact_matches": (total == 2 * common).astype(float),
        }

    def reads_text(self, n_columns: int) -> bool:
        return n_columns == 1

    def named(self, columns: Sequence[str]) -> Self:
        return replace(self, labels=list(columns))

    def learn(self, cells: Cells, columns: Sequence[str]) -> Self:
        if isinstance(cells, np.ndarray):
            return self.named(columns)
        new = {label for labels in self.split(cells) for label in labels}
        return replace(self, labels=sorted(new.union(self.labels)))

    def read(self, cells: Cells) -> sparse.csr_matrix:
        """Return a CSR matrix; labels that were not learned get columns of their own."""
        if isinstance(cells, np.ndarray):
            cells = np.nan_to_num(cells)  # an empty cell is a label that the row has not
            wrong = np.argwhere((cells != 0) & (cells != 1))
            if len(wrong):
                i, j = wrong[0]
                raise ValueError(
                    f"{cells[i, j]:g} for {self.labels[j]!r}. It must be 0 or 1, for a label that "
                    "the row has not, or has."
                )
            return sparse.csr_matrix(cells)
        return self.rows_of(self.split(cells))

    def rows_of(self, sets: Sequence[Sequence[str]]) -> sparse.csr_matrix:
        """Return sets of names as rows of 0 and 1; new labels get columns after the others."""
        names = dict.fromkeys([*self.labels, *(label for labels in sets for label in labels)])
        return MultiLabelBinarizer(classes=[*names], sparse_output=True).fit_transform(sets)

    def read_candidates(self, cells: Cells) -> sparse.csr_matrix:
        rows = self.read(cells)
        if rows.shape[1] > len(self.labels):
            raise ValueError("a label that the model was not trained with.")
        return rows

    def to_columns(self, objects: Objects) -> np.ndarray:
        return np.asarray(sparse.csr_matrix(objects).toarray(), dtype=int)

    def words(self, objects: Objects) -> list[list[str]]:
        rows = sparse.csr_matrix(objects, copy=True)
        rows.eliminate_zeros()
        ends = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        return [[self.labels[j] for j in sorted(rows.indices[a:b])] for a, b in ends]

    def split(self, cells: Cells) -> list[list[str]]:
        signs = self.separators.replace(_AND, "")
        words = [r"\s+(?:and|&)\s+"] if _AND in self.separators else []
        split = re.compile("|".join([*([f"[{re.escape(signs)}]"] if signs else []), *words])).split
        return [list(dict.fromkeys(filter(None, map(_bare, split(_inside(c)))))) for c in cells]

    def notice(self) -> str:
        parts = {word.strip() for label in self.labels for word in label.split(",")}
        if len(parts) >= len(self.labels):
            return ""
        odd = next(label for label in self.labels if "," in label)
        return f"{odd!r} is taken for one label; --separators ',' makes several of it."


def _inside(cell: str) -> str:
    """Return a cell without the brackets of a list, as Python and JSON write them."""
    cell = cell.strip()
    return cell[1:-1] if cell[:1] + cell[-1:] in ("[]", "{}", "()") else cell


def _bare(word: str) -> str:
    """Return a word without the quotes around it."""
    word = word.strip()
    return word[1:-1].strip() if len(word) > 1 and word[0] == word[-1] in "'\"" else word


def _are_names(Y: Sequence[Any] | np.ndarray) -> bool:
    """Whether outputs are lists or sets of the names of labels."""
    if not isinstance(Y, list | tuple) and getattr(Y, "dtype", np.dtype(int)).kind != "O":
        return False
    are_lists = all(isinstance(words, list | tuple | set | frozenset) for words in Y)
    if not are_lists or not any(map(len, Y)):
        return False
    return all(isinstance(word, str) for words in Y for word in words)


class LabelFeatures(Coordinates):
    """Features of label sets whose inner product is their F1 score, without landmarks.

    F1(a, b) = sum_j a_j b_j 2 / (s + t) of sets with s and t labels, and 2 / (s + t) = sum_r
    phi_r(s) phi_r(t) with few r: the coordinates of a set y with s labels are y_j phi_r(s), and 1
    for the empty set.

    There are at most `max_columns` coordinates: of many labels, r runs over fewer functions of the
    size. y_j is about the sum over r of `levels_` and the coordinates (r, j).

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kinds import LabelFeatures
    >>> Y = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]])
    >>> Z = LabelFeatures().fit_transform(Y)
    >>> (Z @ Z.T).round(2) + 0.0
    array([[1.  , 0.67, 0.  ],
           [0.67, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """

    def __init__(self, max_columns: int = _MOST_COLUMNS) -> None:
        self.max_columns = max_columns

    def fit(self, Y: Objects, y: Objects | None = None) -> LabelFeatures:
        """Compute the functions phi_r of sizes from label sets, rows of 0 and 1 of shape (n, L)."""
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
        # phi_r(s) of each size s, 0 for the empty set
        self.sizes_: Floats = np.zeros((largest + 1, kept.stop))
        self.sizes_[1:] = vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0))
        # the diagonal stays 1: F1 of a set with itself
        norm = np.sqrt((self.sizes_[1:] ** 2).sum(axis=1) * t)
        self.sizes_[1:] /= norm[:, None]
        root = np.sqrt(counts + 1e-3 * max(counts.sum(), 1.0) / largest)[:, None]
        gram = (self.sizes_[1:] * root).T @ (self.sizes_[1:] * root)
        gram_values, gram_vectors = symmetric_eigen(gram)
        right = gram_vectors.T @ (self.sizes_[1:] * root**2).sum(axis=0)
        self.levels_: Floats = gram_vectors @ (
            right / np.maximum(gram_values, 1e-9 * gram_values[0])
        )
        self.has_empty_: bool = bool(np.any(sizes == 0))
        self.n_labels_: int = labels.shape[1]
        self.rank_: int = kept.stop * self.n_labels_ + self.has_empty_
        self.kernel_: Kernel = F1()
        self.landmarks_: Rows = self.kernel_.encode(labels[:2].toarray())
        return self

    def transform(self, Y: Objects) -> np.ndarray:
        """Return the coordinates y_j phi_r(s) of sets with s labels, shape (n, r L).

        There is one more, for the empty set, if training had one.
        """
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
        """Return the expected labels E[Y_j | x] from predicted coordinates, shape (n, L)."""
        r = self.sizes_.shape[1]
        levels = self.levels_.astype(F.dtype, copy=False)
        cube = F[:, : r * self.n_labels_].reshape(len(F), r, self.n_labels_)
        expected: np.ndarray = np.einsum("nrl,r->nl", cube, levels)
        return expected

    scores = marginals

    def probabilities(self, F: np.ndarray) -> np.ndarray:
        """Return the probability of each label, (n, L): the marginals clipped to [0, 1]."""
        return np.asarray(np.clip(self.marginals(F), 0.0, 1.0))


class SetDecoder(Decoder):
    """Decode the coordinates of `LabelFeatures` into label sets.

    Parameters
    ----------
    rule : "f1", "threshold" or "candidates", default "f1"
        The set of greatest expected F1; the labels whose expectation is above a threshold; the
        training set of greatest expected F1.
    threshold : float, default 0.5
        The expectation above which a label is predicted, with rule="threshold".
    """

    def __init__(self, rule: str = "f1", threshold: float = 0.5) -> None:
        self.rule = rule
        self.threshold = threshold

    def fit(
        self, basis: Estimator, Y: Objects, coordinates: np.ndarray | None = None
    ) -> SetDecoder:
        """Store the basis and, with rule="candidates", the distinct training outputs."""
        check_choice(self.rule, "rule", ("f1", "threshold", "candidates"))
        check_number(self.threshold, "threshold", low=-np.inf)
        labels = label_matrix(Y)
        self.basis_ = basis
        self._is_sparse, self._dtype = sparse.issparse(Y), getattr(Y, "dtype", np.dtype(np.int64))
        self.pool_: Any = None
        if self.rule == "candidates":
            self.pool_ = labels[unique(labels)[0]]
            self.embedding_: np.ndarray = basis.transform(self.pool_).astype(np.float32)
        return self

    def decode(self, F: np.ndarray, candidates: Candidates = None) -> Any:
        """Return a label set for each row, an array or CSR matrix as the training outputs are."""
        self._refuse(candidates)
        chosen = self.sets(F)
        if self._is_sparse:
            return sparse.csr_matrix(chosen, dtype=self._dtype)
        return chosen.astype(self._dtype)

    def sets(self, F: np.ndarray, expected: np.ndarray | None = None) -> np.ndarray:
        """Return the decoded label sets as booleans, (n, L); `expected` are the marginals of F."""
        basis = self.basis_
        if self.rule == "threshold":
            return self._above(basis.marginals(F) if expected is None else expected)
        best = self._best_f1 if self.rule == "f1" else self._nearest
        widest = max(basis.n_labels_, 0 if self.pool_ is None else self.pool_.shape[0], 1)
        blocks = row_slices(len(F), max(1, _BLOCK_NUMBERS // widest))
        none = np.zeros((0, basis.n_labels_), dtype=bool)
        return np.concatenate([*(best(F[rows]) for rows in blocks), none])

    def _best_f1(self, F: np.ndarray) -> np.ndarray:
        """Return the sets of greatest expected F1: of those best of their size, and the empty one.

        Ties go to the smaller set.

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
        for size in self.sizes(cube.shape[2]):
            w = np.einsum("nrl,r->nl", cube, basis.sizes_[size].astype(F.dtype))
            take_better(w, size, best, chosen, likely)
        return chosen

    @property
    def n_likely(self) -> int | None:
        """Number of most likely labels among which a set is searched, None for all."""
        most = max(_LIKELY, 3 * (len(self.basis_.sizes_) - 1))
        return None if self.basis_.n_labels_ <= 2 * most else most

    def sizes(self, most: int) -> list[int]:
        """Return the sizes of sets that are compared, up to `most` labels."""
        return _compared_sizes(min(len(self.basis_.sizes_) - 1, most))

    def _likely(self, F: np.ndarray) -> np.ndarray | None:
        """Return the numbers of the `n_likely` most likely labels of each row, None for all."""
        basis, most = self.basis_, self.n_likely
        if most is None:
            return None
        expected = basis.marginals(F)
        return np.argpartition(expected, basis.n_labels_ - most, axis=1)[:, -most:]

    def _above(self, expected: np.ndarray) -> np.ndarray:
        """Return the labels above the threshold, or the likeliest where no set may be empty."""
        chosen = expected > self.threshold
        if not self.basis_.has_empty_:
            none = np.flatnonzero(~chosen.any(axis=1))
            chosen[none, expected[none].argmax(axis=1)] = True
        return chosen

    def _nearest(self, F: np.ndarray) -> np.ndarray:
        """Return the training sets of greatest score <f, z(c)>; all z(c) have norm 1."""
        scores = F.astype(np.float32, copy=False) @ self.embedding_.T
        return np.asarray(self.pool_[np.argmax(scores, axis=1)].toarray() > 0)


def _compared_sizes(largest: int) -> list[int]:
    """Return the sizes of sets to compare: all small ones, and an eighth apart the large ones."""
    sizes, size = [], 1
    while size <= largest:
        sizes.append(size)
        size += max(1, size // 8)
    return sizes
