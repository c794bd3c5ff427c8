"""Decode by the best of a pool of candidates: arg max of 2 <f(x), z(c)> - k(c, c) (4.5, 5.17)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._arrays import n_rows, row_slices, take, unique
from .._validation import check_number
from ..basis import KernelBasis
from ..gram import block_rows, map_blocks
from .base import Decoder

__all__ = ["CandidateDecoder", "top_k"]

# Candidates are scored in blocks of this many.
_CANDIDATE_BLOCK = 8192


class CandidateDecoder(Decoder):
    """Find the objects whose features are nearest to predicted coordinates, in one shared pool.

    ||h(x) - psi(c)||^2 = const - (2 <f(x), z(c)> - k(c, c)) when h(x) lies in the span of the
    basis, so the score needs p numbers and one norm a candidate: [2 f, 1] . [z(c), -k(c, c)].

    Parameters
    ----------
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.

    Attributes
    ----------
    basis_ : KernelBasis
    pool_ : objects
        The distinct training outputs, used when no candidates are given.
    embedding_ : ndarray of shape (n_candidates, p + 1)
        [z(c), -k(c, c)] of the pool.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelBasis
    >>> from skout.decoding import CandidateDecoder
    >>> Y = np.eye(3)
    >>> basis = KernelBasis("linear").fit(Y)
    >>> CandidateDecoder().fit(basis, Y).decode(basis.transform(Y[[2, 0]]))
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def fit(self, basis: KernelBasis, Y: Any) -> CandidateDecoder:
        """Keep the distinct training outputs as the default pool.

        Parameters
        ----------
        basis : KernelBasis
            Fitted on the outputs.
        Y : objects
            The training outputs.

        Returns
        -------
        self : CandidateDecoder
        """
        self.basis_ = basis
        self.pool_ = take(Y, unique(basis.kernel_.encode(Y))[0])
        self.embedding_ = self._embed(self.pool_)
        return self

    def _embed(self, candidates: Any) -> np.ndarray:
        kernel = self.basis_.kernel_
        norms = kernel.diag(kernel.encode(candidates))
        return np.column_stack([self.basis_.transform(candidates), -norms])

    def rank(
        self, F: np.ndarray, candidates: Any = None, k: int = 10
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best candidates of each predicted row.

        Parameters
        ----------
        F : ndarray of shape (n, p)
            Predicted coordinates.
        candidates : objects, optional
            The pool; default the distinct training outputs.
        k : int, default 10
            At most the size of the pool.

        Returns
        -------
        indices : ndarray of int, shape (n, k)
            Positions in the pool, best first; ties go to the lower position.
        scores : ndarray of shape (n, k)
            2 <f, z(c)> - k(c, c).
        """
        check_is_fitted(self)
        n_candidates = n_rows(self.pool_ if candidates is None else candidates)
        if n_candidates == 0:
            raise ValueError("candidates is empty: give at least one object to choose from.")
        check_number(k, "k", low=1, integer=True)
        if k > n_candidates:
            raise ValueError(f"k={k} is larger than the number of candidates, {n_candidates}.")
        queries = np.column_stack([2.0 * F, np.ones(len(F))])
        if candidates is None:
            return top_k(queries, self.embedding_, k, n_jobs=self.n_jobs)
        # equal candidates are embedded and scored once, so that they tie exactly
        first, inverse = unique(self.basis_.kernel_.encode(candidates))
        embedding = self._embed(take(candidates, first))
        found = top_k(queries, embedding, min(k, len(first)), n_jobs=self.n_jobs)
        return found if len(first) == n_candidates else _expand(*found, inverse, k)

    def decode(self, F: np.ndarray, candidates: Any = None) -> Any:
        """Return the best candidate of each predicted row, as an object.

        Parameters
        ----------
        F : ndarray of shape (n, p)
        candidates : objects, optional

        Returns
        -------
        objects : n of them, in the container type of the pool
        """
        indices, _ = self.rank(F, candidates, k=1)
        return take(self.pool_ if candidates is None else candidates, indices[:, 0])


def top_k(
    queries: np.ndarray, embedding: np.ndarray, k: int, *, n_jobs: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest inner products of each query, streaming over blocks of both.

    Parameters
    ----------
    queries : ndarray of shape (n, p)
    embedding : ndarray of shape (c, p)
    k : int
    n_jobs : int, optional

    Returns
    -------
    indices, scores : ndarrays of shape (n, k)
        Largest first; ties go to the lower index.
    """
    width = min(len(embedding), max(_CANDIDATE_BLOCK, k))

    def search(some: slice) -> tuple[np.ndarray, np.ndarray]:
        best: tuple[np.ndarray, np.ndarray] | None = None
        for part in row_slices(len(embedding), width):
            S = queries[some] @ embedding[part].T
            found = _largest(S, min(k, S.shape[1]))
            found = (found[0] + part.start, found[1])
            best = found if best is None else _merge(best, found, k)
        assert best is not None
        return best

    blocks = list(row_slices(len(queries), block_rows(len(queries), 8 * width)))
    if not blocks:
        return np.empty((0, k), dtype=np.intp), np.empty((0, k))
    parts = list(map_blocks(search, blocks, n_jobs=n_jobs))
    return np.concatenate([i for i, _ in parts]), np.concatenate([s for _, s in parts])


def _expand(
    indices: np.ndarray, scores: np.ndarray, inverse: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Replace distinct candidates by all their copies, best and then lowest first, and keep k."""
    order = np.argsort(inverse, kind="stable")
    counts = np.bincount(inverse)
    ends = np.cumsum(counts)
    out = np.empty((len(indices), k), dtype=np.intp), np.empty((len(indices), k))
    for i, (row, values) in enumerate(zip(indices, scores, strict=True)):
        copies = np.concatenate([order[ends[j] - counts[j] : ends[j]] for j in row])
        repeated = np.repeat(values, counts[row])
        best = np.lexsort((copies, -repeated))[:k]
        out[0][i], out[1][i] = copies[best], repeated[best]
    return out


def _largest(S: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return column and value of the k largest entries of each row, ties to the lower column."""
    if k == 1:
        index = S.argmax(axis=1)[:, None]
        return index, np.take_along_axis(S, index, axis=1)
    threshold = np.partition(S, S.shape[1] - k, axis=1)[:, [S.shape[1] - k]]
    above = threshold < S
    # of the entries equal to the k-th largest, the first ones
    level = threshold == S
    room = k - above.sum(axis=1, keepdims=True)
    chosen = above | (level & (np.cumsum(level, axis=1) <= room))
    index = np.nonzero(chosen)[1].reshape(len(S), k)
    return _sort(index, np.take_along_axis(S, index, axis=1))


def _merge(
    a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray], k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Merge two sorted lists a row; all columns of a come before those of b."""
    index, scores = _sort(np.hstack([a[0], b[0]]), np.hstack([a[1], b[1]]))
    return index[:, :k], scores[:, :k]


def _sort(index: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort each row by score, largest first, keeping the order of equal scores."""
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(index, order, axis=1), np.take_along_axis(scores, order, axis=1)
