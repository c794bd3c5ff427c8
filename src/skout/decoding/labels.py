"""Decode label sets without candidates, from expected values of what their losses are made of.

Predicted coordinates f(x) estimate E[z(Y) | x]. For any function g of a label set that is linear
in z, g(y) = z(y) . B, this gives E[g(Y) | x] = f(x) . B, and a few such functions are enough to
find the label set of least expected loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import row_slices
from .._numerics.linalg import low_rank, positive_solver
from .._numerics.threads import map_blocks
from .._numerics.typing import Array, Candidates, Floats, Objects
from .._numerics.validation import check_number
from ..basis import KernelBasis
from ..kernels import F1
from ..rows import block_rows
from ..rows.encode import numbers_in
from .base import Decoder

# Relative to the mean square of a coordinate: keeps the least squares of a read-out stable, and
# changes expectations by about as little. A convention.
_READ_OUT_PENALTY = 1e-9


class LabelSetDecoder(Decoder):
    """Find the label set of greatest expected F1, without candidates.

    E[F1(c, Y) | x] = sum of w_j over the labels j of c, w_j = ``E[2 Y_j / (|c| + |Y|) | x]``,
    so that for each size the best set has the labels of greatest w_j: exact over all sets of at
    most `max_size` labels. With the F1 kernel this is arg max of 2 <f(x), z(c)> - k(c, c).

    Parameters
    ----------
    max_size : int, optional
        Largest label set to look for; default the size of the largest training output.
        Larger sets may have a greater expected F1, and are not found.
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.

    Attributes
    ----------
    label_map_ : ndarray of shape (p, L)
        ``E[Y | x] = f(x) @ label_map_``.

    Notes
    -----
    Label sets are rows of 0 and 1 in an array or a CSR matrix, shape (n, L).

    B comes from the landmarks where g is in the space of the kernel by its formula (F1 kernel),
    else from least squares of g(y) on z(y) over the training outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelBasis
    >>> from skout.decoding import LabelSetDecoder
    >>> Y = np.array([[1, 1, 0], [1, 0, 1]])
    >>> basis = KernelBasis("f1").fit(Y)
    >>> decoder = LabelSetDecoder(max_size=3).fit(basis, Y)
    >>> decoder.decode(basis.transform(Y).mean(axis=0, keepdims=True))  # one or the other
    array([[1, 1, 1]])
    """

    label_map_: Floats

    def __init__(self, max_size: int | None = None, n_jobs: int | None = None) -> None:
        self.max_size = max_size
        self.n_jobs = n_jobs

    def fit(self, basis: KernelBasis, Y: Objects, coordinates: np.ndarray | None = None) -> Self:
        if self.max_size is not None:
            check_number(self.max_size, "max_size", low=1, integer=True)
        labels = label_matrix(Y)
        largest = int(_sizes(labels).max())
        self.basis_ = basis
        self._is_sparse = sparse.issparse(Y)
        self._dtype = getattr(Y, "dtype", labels.dtype)
        T = basis.transform(Y) if coordinates is None else coordinates
        read_out = _least_squares(np.asarray(T, dtype=np.float64))
        self.label_map_ = read_out(labels)
        if isinstance(basis.kernel_, F1):
            labels, read_out = label_matrix(basis.landmarks_), basis.combine
        self._f1_maps(labels, read_out, largest)
        return self

    def _f1_maps(
        self, labels: sparse.csr_matrix, read_out: Callable[[Array], Array], largest: int
    ) -> None:
        """Set the maps from f to the w of every size, and to P(Y is empty | x).

        w_j = E[2 Y_j / (s + |Y|)] = sum_t 2 / (s + t) E[Y_j, |Y| = t]: one read-out for each t.
        The matrix 2 / (s + t) = B C has a small rank r whatever its size, so r maps do for all s:
        w of size s is sum_r B_sr (f @ maps_r).
        """
        sizes = _sizes(labels)
        present = np.unique(sizes[sizes > 0])
        n_labels = labels.shape[1]
        most = min(n_labels, max(largest, 1) if self.max_size is None else self.max_size)
        self._mixing, C = low_rank(2.0 / np.add.outer(np.arange(1, most + 1), present))
        shares = np.zeros((len(C), int(sizes.max(initial=0)) + 1))  # of rows, by their size
        shares[:, present] = C
        self._maps = [read_out(sparse.diags_array(share[sizes]) @ labels) for share in shares]
        self._empty_map = read_out((sizes == 0).astype(float)[:, None])

    def label_scores(self, F: Floats) -> Floats:
        """Return the expected labels E[Y | x], shape (n, L).

        Parameters
        ----------
        F : ndarray of shape (n, p)
            Predicted coordinates.
        """
        check_is_fitted(self)
        return F @ self.label_map_

    def decode(self, F: np.ndarray, candidates: Candidates = None) -> Objects:
        check_is_fitted(self)
        self._refuse(candidates)
        n_labels = self.label_map_.shape[1]
        copies = sum(self._mixing.shape)
        blocks = row_slices(len(F), block_rows(len(F), 8 * n_labels * copies))
        chosen = list(map_blocks(lambda b: self._best_f1(F[b]), blocks, n_jobs=self.n_jobs))
        if self._is_sparse:
            parts = [sparse.csr_matrix(part, dtype=self._dtype) for part in chosen]
            empty = sparse.csr_matrix((0, n_labels), dtype=self._dtype)
            stacked: Objects = sparse.vstack([*parts, empty], format="csr")
            return stacked
        return np.concatenate([*chosen, np.empty((0, n_labels), dtype=bool)]).astype(self._dtype)

    def _best_f1(self, F: np.ndarray) -> np.ndarray:
        """Return the best label set of each row, of all sizes; ties go to the smaller set."""
        best = (F @ self._empty_map)[:, 0]  # F1 of two empty sets is 1
        chosen = np.zeros((len(F), self.label_map_.shape[1]), dtype=bool)
        parts = np.array([F @ part for part in self._maps]).reshape(len(self._maps), *chosen.shape)
        for size, w in enumerate(np.tensordot(self._mixing, parts, axes=1), start=1):  # (n, L)
            take_better(w, size, best, chosen)
        return chosen


def take_better(
    w: np.ndarray, size: int, best: np.ndarray, chosen: np.ndarray, labels: np.ndarray | None = None
) -> None:
    """Replace chosen sets, in place, by those of this size where their sum of w is greater.

    The columns of w are all labels, or for each row those of `labels`.
    """
    top = np.argpartition(w, -size, axis=1)[:, -size:]
    value = np.take_along_axis(w, top, axis=1).sum(axis=1)
    better = np.flatnonzero(value > best)
    best[better] = value[better]
    chosen[better] = False
    top = top if labels is None else np.take_along_axis(labels, top, axis=1)
    chosen[better[:, None], top[better]] = True


def label_matrix(Y: Objects) -> sparse.csr_matrix:
    """Return label sets as a CSR matrix of 0 and 1, with sorted indices and no stored zeros."""
    Y = Y.to_numpy() if hasattr(Y, "to_numpy") else Y
    if isinstance(Y, np.ndarray) and Y.dtype == object and Y.ndim == 1:
        Y = list(Y)  # a column of lists
    with numbers_in(Y, "Y"):
        sets: Any = Y if sparse.issparse(Y) else np.asarray(Y)
        if np.ndim(sets) != 2:
            are_texts = np.ndim(sets) == 1 and sets.dtype.kind in "OUS"
            hint = (
                ' Of texts "a;b", pandas.Series(Y).str.get_dummies(";") are.' if are_texts else ""
            )
            raise ValueError(
                f"Y must be label sets, rows of 0 and 1. Got shape {np.shape(Y)} instead.{hint}"
            )
        labels = sparse.csr_matrix(sets, dtype=np.float64, copy=True)  # Y keeps its zeros
    labels.sum_duplicates()
    labels.eliminate_zeros()
    odd = labels.data[labels.data != 1.0]
    if len(odd):
        raise ValueError(f"Label sets must be rows of 0 and 1. Got {odd[0]:g} instead.")
    return labels


def _sizes(labels: sparse.csr_matrix) -> np.ndarray:
    """Return the number of labels of each row."""
    return np.diff(labels.indptr)


def _least_squares(T: np.ndarray) -> Any:
    """Return the map g -> B that minimizes sum_i ||z(y_i) B - g(y_i)||^2, with a tiny penalty."""
    gram = T.T @ T
    gram[np.diag_indices_from(gram)] += _READ_OUT_PENALTY * np.trace(gram) / len(gram)
    solve = positive_solver(gram)
    return lambda values: solve(np.asarray((values.T @ T).T))
