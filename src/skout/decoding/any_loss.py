"""Decode by a loss of the user's own: arg min over c of sum_j b_j(x) D(c, y_j) (2.30, 2.32)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from .._numerics.arrays import match, n_rows, row_slices, take
from .._numerics.validation import check_choice, check_number
from ..rows import Source
from .candidates import CandidateDecoder
from .pools import EmbeddedPool, check_one_for_each, one

__all__ = ["LossDecoder"]

# Losses that are computed at a time.
_LOSSES = 2**20


class LossDecoder(CandidateDecoder):
    """Find the candidates of least expected loss, whatever the loss.

    A prediction is a combination of outputs, h(x) = sum_j b_j(x) psi(y_j), of which the weights
    b(x) estimate how likely each y_j is given x. So a candidate c risks sum_j b_j(x) D(c, y_j), for
    any loss D (implicit loss embeddings). Without an output sketch the y_j are the distinct
    training outputs and b(x) are the weights of (2.32); with one they are its landmarks. For
    D(c, y) = ||psi(c) - psi(y)||^2 and a normalised kernel the result is that of
    `CandidateDecoder`.

    No matrix of all queries and training outputs is held: a candidate is embedded as the vector of
    its losses, and searched as any other.

    Parameters
    ----------
    loss : callable, array or "f_beta", default "f_beta"
        D(c, y) of the prediction c where y is true; it need not be symmetric. A callable takes a
        candidate and an output, or with `on="lists"` two lists of them, and returns a matrix. An
        array of shape (K, K) holds the losses of outputs that are numbers 0 to K - 1. "f_beta" is 1
        - F-beta of label sets; that of two empty sets is 0.
    beta : float, default 1.0
        Of "f_beta": above 1 recall counts more, below 1 precision.
    on : "pairs" or "lists", default "pairs"
    n_jobs : int, optional
    device : str, optional
        As in `CandidateDecoder`.

    Attributes
    ----------
    basis_, pool_, embedding_
        As in `CandidateDecoder`; the embedding is [-D(c, y_1), ..., -D(c, y_m), 0], and is there
        once the training outputs were asked for as candidates: a loss may be slow.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import iokr
    >>> from skout.decoding import LossDecoder
    >>> X = np.arange(20.0)[:, None]
    >>> Y = np.where(X < 10, [[1, 0, 1]], [[0, 1, 1]])
    >>> model = iokr("gaussian", "f1", decoder=LossDecoder("f_beta", beta=2.0)).fit(X, Y)
    >>> model.predict([[1.0]])
    array([[1, 0, 1]])
    """

    #: the loss sees objects, which must be here
    takes_rows = False
    #: what candidates pay is for distances
    priced = None  # type: ignore[assignment]

    def __init__(
        self,
        loss: Any = "f_beta",
        *,
        beta: float = 1.0,
        on: str = "pairs",
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        super().__init__(None, n_jobs, device)
        self.loss = loss
        self.beta = beta
        self.on = on

    def fit(self, basis: Any, Y: Any, coordinates: Any = None, *, rows: Any = None) -> Self:
        check_choice(self.on, "on", ("pairs", "lists"))
        check_number(self.beta, "beta", strict=True)
        if isinstance(self.loss, str):
            check_choice(self.loss, "loss", ("f_beta",))
        rows = basis.kernel_.encode(Y) if rows is None else rows
        place = match(basis.landmarks_, rows)
        if np.any(place < 0):
            raise ValueError("Y must hold the outputs that the basis was fitted on.")
        self._known = take(Y, place)
        first = self._losses(take(self._known, slice(0, 1)))  # mistakes show before long work
        _check_losses(first, (1, n_rows(self._known)), 0)
        return super().fit(basis, Y, None, rows=rows)

    def _hold(self, rows: Any, coordinates: Any) -> None:
        """Do nothing: a loss may be slow, and waits until these are candidates."""

    def _own_pool(self) -> EmbeddedPool:
        kept = getattr(self, "pool_", None)
        if self._training is None and kept is not None and n_rows(kept) > 0:
            pool = self._embedded(kept, kept, slice(None))
            self.embedding_ = pool.embedding
            self._training = replace(self._indexed(pool), counts=self._counts)
        return super()._own_pool()

    @property
    def _width(self) -> int:
        return n_rows(self._known) + 1

    def _fill(
        self, out: np.ndarray, rows: Source, objects: Any, coordinates: Any = None
    ) -> np.ndarray:
        given = objects()
        for some in row_slices(len(out), max(1, _LOSSES // self._width)):
            D = self._losses(take(given, some))
            _check_losses(D, (some.stop - some.start, self._width - 1), some.start)
            out[some, :-1], out[some, -1] = -D, 0.0
        return out

    def _losses(self, candidates: Any) -> np.ndarray:
        """Return D(c, y) of candidates and known outputs, shape (b, m)."""
        known = self._known
        if isinstance(self.loss, str):
            return f_beta_losses(candidates, known, self.beta)
        if not callable(self.loss):
            return _looked_up(self.loss, candidates, known)
        if self.on == "lists":
            return np.asarray(self.loss(candidates, known), dtype=np.float64)
        pairs = [
            [self.loss(one(candidates, i), one(known, j)) for j in range(n_rows(known))]
            for i in range(n_rows(candidates))
        ]
        return np.array(pairs, dtype=np.float64)

    def queries(self, F: np.ndarray, pool: EmbeddedPool) -> np.ndarray:
        # [b(x), 1]: h(x) = sum_k f_k e_k = sum_j b_j psi(y_j)
        check_one_for_each(pool, len(F))
        b = F @ self.basis_.combine(sparse.identity(self._width - 1, format="csr"))
        return np.column_stack([b, np.ones(len(F))])


def _check_losses(D: np.ndarray, shape: tuple[int, int], start: int) -> None:
    """Raise where losses are not finite, or not one for each candidate and known output."""
    if D.shape != shape:
        raise ValueError(
            f"loss must return a matrix of shape {shape}, a row for each candidate. "
            f"Got shape {D.shape} instead."
        )
    bad = np.argwhere(~np.isfinite(D))
    if len(bad):
        i, j = bad[0]
        raise ValueError(
            f"loss must be finite. Got {D[i, j]} for candidate {start + i} and output {j}."
        )


def f_beta_losses(C: Any, Y: Any, beta: float) -> np.ndarray:
    """Return 1 - F-beta of label sets, rows of 0 and 1: (n_c, n_y).

    F = (1 + beta^2) |c and y| / (|c| + beta^2 |y|)
    """
    C, Y = (sparse.csr_matrix(np.asarray(A) if not sparse.issparse(A) else A) for A in (C, Y))
    both = (C.astype(np.float64) @ Y.T.astype(np.float64)).toarray()
    c, y = (np.asarray(A.sum(axis=1), dtype=np.float64).ravel() for A in (C, Y))
    sizes = c[:, None] + beta**2 * y[None, :]
    return 1.0 - np.where(sizes > 0.0, (1.0 + beta**2) * both / np.maximum(sizes, 1e-300), 1.0)


def _looked_up(table: Any, candidates: Any, known: Any) -> np.ndarray:
    """Return entries of a table of losses, of outputs that are numbers of its rows."""
    D = np.asarray(table, dtype=np.float64)
    if D.ndim != 2 or D.shape[0] != D.shape[1]:
        raise ValueError(
            'loss must be a callable, "f_beta" or a square matrix. '
            f"Got an array of shape {D.shape} instead."
        )
    shape = np.shape(candidates)
    if shape[1:] not in ((), (1,)):
        raise ValueError(
            f"A matrix of losses needs outputs that are its row numbers. Got shape {shape} instead."
        )
    rows, columns = (np.asarray(objects).reshape(-1) for objects in (candidates, known))
    for numbers in (rows, columns):
        if np.any((numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= len(D))):
            raise ValueError(
                f"A matrix of losses needs outputs that are its row numbers, 0 to {len(D) - 1}. "
                f"Got others, {numbers[0]!r} first."
            )
    return D[np.ix_(rows.astype(np.intp), columns.astype(np.intp))]
