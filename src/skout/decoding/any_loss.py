"""Decode by any loss: arg min over c of sum_j b_j(x) D(c, y_j) (2.30, 2.32)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone

from .._numerics.arrays import match, n_rows, row_slices, take, unique
from .._numerics.typing import ArrayLike, Estimator, Floats, Objects, PathLike, Rows
from .._numerics.validation import check_choice, check_number
from ..basis import KernelBasis
from ..basis.weights import OutputWeights
from ..rows import Source, limits
from ..sketches import as_sketch
from .candidates import CandidateDecoder
from .pools import EmbeddedPool, check_one_for_each, single

# Losses that are computed at a time: 8 MB, a convention.
_LOSSES = 2**20


class LossDecoder(CandidateDecoder):
    """Find the candidates of least expected loss, whatever the loss.

    A prediction is a combination of known outputs, h(x) = sum_j b_j(x) psi(y_j), of which the
    weights b(x) estimate how likely each y_j is given x. So a candidate c risks
    sum_j b_j(x) D(c, y_j), for any loss D (implicit loss embeddings, (2.30)). Which b is meant:

    - Without an output sketch and with `KernelRidge`, that of (2.32): b_j(x) is the sum of a_i(x)
      over the rows i with y_i = y_j, a(x) = (K + n alpha I)^-1 k_x, or what an input sketch makes
      of it. The regressor is fitted on indicators of the distinct outputs, so that all of them
      have their weight, whatever the rank of the output kernel; scoring="coordinates" compares
      weights with these indicators.
    - With an output sketch the known outputs are its landmarks, and b(x) are the weights of the
      projection of h(x) on their span, W' K~^+ W k(landmarks, y) a(x).
    - Other regressors (forests, networks, other losses, a task matrix, a learned metric) predict
      coordinates, and b(x) are the weights of least norm that have them.

    Where the kernel does not tell the known outputs apart, that is, its matrix has a lower rank,
    coordinates do not determine weights: in the last two cases a warning says so. For
    D(c, y) = ||psi(c) - psi(y)||^2 and a normalized kernel they need not, and the result is that of
    `CandidateDecoder`.

    A candidate is embedded as the vector of its losses, and a prediction as one of weights: a
    number for each known output. Where the distinct outputs are so many that a square matrix of
    them is larger than `memory_limits(coordinates_mb=...)`, and the inputs have a smaller sketch,
    both are vectors of the size of that sketch, and indicators are sparse. Losses that are larger
    all the same are refused, unless they go into a file, see `embed`.

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
        What a callable takes, see `loss`.
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.
    device : str, optional
        As in `CandidateDecoder`.

    Attributes
    ----------
    basis_, pool_, embedding_
        As in `CandidateDecoder`; the embedding is [-D(c, y_1), ..., -D(c, y_m), 0], or that in p
        numbers. It is computed when training outputs are first used as candidates: a loss may be
        slow.

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

    #: the loss takes objects, which must be in the memory of this process
    takes_rows = False
    #: penalties of candidates are made for distances
    penalized = None  # type: ignore[assignment]
    #: it needs the training outputs, even where they are no candidates
    drop_pool = None  # type: ignore[assignment]

    def __init__(
        self,
        loss: str | ArrayLike | Callable[[Any, Any], ArrayLike] = "f_beta",
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

    def basis_for(self, basis: Estimator, regressor: Estimator) -> Any:
        """Return the basis whose coordinates a regressor is to predict for this decoder.

        Parameters
        ----------
        basis : KernelBasis
            The basis of the user, not fitted.
        regressor : regressor
            Not fitted.

        Returns
        -------
        basis : KernelBasis
            Of weights, if the regressor predicts sums of its targets; else one that keeps all known
            outputs, by "eigh", and not only as many as the rank of the kernel.
        """
        if not isinstance(basis, KernelBasis) or basis.whiten != "cholesky":
            return basis
        if as_sketch(basis.sketch) is None and getattr(regressor, "weighs_targets", False):
            return OutputWeights(**basis.get_params(deep=False))
        return clone(basis).set_params(whiten="eigh")

    def fit(
        self,
        basis: KernelBasis,
        Y: Objects,
        coordinates: np.ndarray | None = None,
        *,
        rows: Rows | None = None,
    ) -> Self:
        if not hasattr(basis, "combine"):
            raise TypeError(
                "LossDecoder weighs known outputs, and a prediction in the coordinates of "
                f"{type(basis).__name__} is no sum of them: use it in a StructuredPredictor, not "
                "in a TwoWay or EndToEnd."
            )
        check_choice(self.on, "on", ("pairs", "lists"))
        check_number(self.beta, "beta", strict=True)
        if isinstance(self.loss, str):
            check_choice(self.loss, "loss", ("f_beta",))
        rows = basis.kernel_.encode(Y) if rows is None else rows
        place = match(basis.landmarks_, rows)
        if np.any(place < 0):
            raise ValueError("Y must hold the outputs that the basis was fitted on.")
        self._known = take(Y, place)
        first = self._losses()(take(self._known, slice(0, 1)))  # raises before long work
        _check_losses(first, (1, n_rows(self._known)), 0)
        _warn_if_undetermined(basis, rows)
        return super().fit(basis, Y, None, rows=rows)

    def _hold(self, rows: Rows, coordinates: np.ndarray | None) -> None:
        """Do nothing: losses may be slow, and are computed once these are candidates."""

    def _training_pool(self) -> EmbeddedPool:
        kept = getattr(self, "pool_", None)
        if self._training is None and kept is not None and n_rows(kept) > 0:
            pool = self._embedded(kept, kept, slice(None))
            self.embedding_: Floats = pool.embedding
            self._training = replace(self._indexed(pool), counts=self._counts)
        return super()._training_pool()

    @property
    def _width(self) -> int:
        basis = self.basis_
        return (basis.rank_ if isinstance(basis, OutputWeights) else n_rows(self._known)) + 1

    def _embedding(
        self, rows: Source, objects: Callable[[], Objects], path: PathLike | None = None
    ) -> np.ndarray:
        size, most = 8 * len(rows) * self._width, limits().coordinates_bytes
        if path is None and size > most:
            raise ValueError(
                f"The losses of {len(rows)} candidates for {n_rows(self._known)} known outputs "
                f"take {size / 2**20:,.0f} MiB, more than the {most / 2**20:,.0f} of "
                "memory_limits(coordinates_mb=...): give fewer candidates, an output_sketch, or "
                "embed(candidates, path=...) to keep them in a file. In a fit, give a single alpha "
                'or scoring="coordinates": else all training outputs are candidates there.'
            )
        return super()._embedding(rows, objects, path)

    def _fill(
        self,
        out: np.ndarray,
        rows: Source,
        objects: Callable[[], Objects],
        coordinates: np.ndarray | None = None,
    ) -> np.ndarray:
        candidates, m = objects(), n_rows(self._known)
        losses = self._losses()
        for block in row_slices(len(out), max(1, _LOSSES // m)):
            D = losses(take(candidates, block))
            _check_losses(D, (block.stop - block.start, m), block.start)
            if isinstance(self.basis_, OutputWeights):  # b = f E: the risk b . D' is f . (E D')
                D = self.basis_.combine(D.T).T
            out[block, :-1], out[block, -1] = -D, 0.0
        return out

    def _losses(self) -> Callable[[Any], np.ndarray]:
        """Return the function from candidates to D(c, y) of all known outputs, shape (b, m)."""
        known: Any = self._known
        loss = self.loss
        if isinstance(loss, str):
            known = _as_csr(known)
            return lambda candidates: f_beta_losses(candidates, known, self.beta)
        if not callable(loss):
            return lambda candidates: _looked_up(loss, candidates, known)
        if self.on == "lists":
            return lambda candidates: np.asarray(loss(candidates, known), dtype=np.float64)

        def of_pairs(candidates: Objects) -> np.ndarray:
            pairs = [
                [loss(single(candidates, i), single(known, j)) for j in range(n_rows(known))]
                for i in range(n_rows(candidates))
            ]
            return np.array(pairs, dtype=np.float64)

        return of_pairs

    def queries(self, F: np.ndarray, pool: EmbeddedPool) -> np.ndarray:
        # [b(x), 1]: h(x) = sum_k f_k e_k = sum_j b_j psi(y_j); or f, where it is b already
        check_one_for_each(pool, len(F))
        if not isinstance(self.basis_, OutputWeights):
            F = F @ self.basis_.combine(sparse.identity(n_rows(self._known), format="csr"))
        return np.column_stack([F, np.ones(len(F))])


def _warn_if_undetermined(basis: Estimator, rows: Rows) -> None:
    """Warn where coordinates of a basis do not determine the weights of the known outputs."""
    if isinstance(basis, OutputWeights) or basis.rank is not None:
        return
    if as_sketch(basis.sketch) is None:
        m = len(unique(rows)[0])
    else:  # rows of K~, of which copies count once
        m = min(basis.components_.shape[1], len(unique(basis.landmarks_)[0]))
    if basis.rank_ < m:
        warnings.warn(
            f"The output kernel tells {basis.rank_} of {m} known outputs apart, up to rounding, so "
            "that a prediction does not determine the weight of each of them: weights of least "
            "norm are taken, which may be wrong for a loss other than the kernel's. Use "
            "KernelRidge without an output sketch, which predicts the weights of all outputs, or a "
            "kernel that tells them apart, such as a narrower Gaussian.",
            UserWarning,
            stacklevel=5,
        )


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


def f_beta_losses(C: ArrayLike, Y: ArrayLike, beta: float) -> np.ndarray:
    """Return 1 - F-beta of label sets, rows of 0 and 1: (n_c, n_y).

    F = (1 + beta^2) |c and y| / (|c| + beta^2 |y|)
    """
    C_csr, Y_csr = _as_csr(C), _as_csr(Y)
    both = (C_csr.astype(np.float64) @ Y_csr.T.astype(np.float64)).toarray()
    c, y = (np.asarray(A.sum(axis=1), dtype=np.float64).ravel() for A in (C_csr, Y_csr))
    sizes = c[:, None] + beta**2 * y[None, :]
    return 1.0 - np.where(sizes > 0.0, (1.0 + beta**2) * both / np.maximum(sizes, 1e-300), 1.0)


def _as_csr(sets: ArrayLike) -> sparse.csr_matrix:
    return sparse.csr_matrix(sets if sparse.issparse(sets) else np.asarray(sets))


def _looked_up(table: ArrayLike, candidates: ArrayLike, known: ArrayLike) -> np.ndarray:
    """Return losses from a table, for outputs that are the numbers of its rows."""
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
