"""Hubs, the candidates that are named too often, and a price that keeps them back.

Predictions are means over what an input may stand for. They lie nearer to each other than true
objects do, and a candidate in their midst is near to all of them. How near it is to the predictions
of inputs that have nothing to do with it is known from training, and taken off its score.
"""

from __future__ import annotations

import numpy as np

from .._numerics.arrays import row_slices
from .._numerics.validation import check_number
from .pools import EmbeddedPool

__all__ = ["hub_prices"]

# Numbers that a block of cosines may have.
_COSINES = 2**22


def hub_prices(
    F: np.ndarray,
    pool: EmbeddedPool,
    own: np.ndarray | None = None,
    *,
    share: float = 0.5,
    heat: float = 0.05,
) -> np.ndarray:
    """Return what each distinct candidate should pay for being near to predictions.

    With the cosine a(x, c) = <f(x), z(c)> / (||f(x)|| sqrt(k(c, c))) the price is
    2 share sqrt(k(c, c)) heat log mean_x exp(a(x, c) / heat), a soft maximum.

    Parameters
    ----------
    F : ndarray of shape (n, p)
        Predictions for inputs whose objects the model did not know.
    pool : EmbeddedPool
    own : ndarray of n ints, optional
        The distinct candidate that each object is, or -1: its own prediction does not count. Else
        candidates of which there are inputs would be kept back for that alone.
    share : float, default 0.5
        Of the soft maximum; 0 leaves the scores as they are.
    heat : float, default 0.05
        Small values look at the nearest predictions only, large ones at their mean.

    Returns
    -------
    prices : ndarray of shape (n_distinct,)
        For `CandidateDecoder.priced`.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelBasis
    >>> from skout.decoding import CandidateDecoder, hub_prices
    >>> Y = np.eye(3)
    >>> basis = KernelBasis("linear").fit(Y)
    >>> decoder = CandidateDecoder().fit(basis, Y)
    >>> F = basis.transform(np.array([[0.9, 0.5, 0.0], [0.9, 0.0, 0.5]]))  # both near the first
    >>> prices = hub_prices(F, decoder.embed(Y))
    >>> int(prices.argmax())
    0
    >>> decoder.rank(F, decoder.priced(decoder.embed(Y), 2 * prices), k=1)[0].ravel()
    array([1, 2])
    """
    check_number(share, "share", low=0.0)
    check_number(heat, "heat", low=0.0, strict=True)
    n, p = np.shape(F)
    if n == 0:
        raise ValueError("F is empty: prices need at least one prediction.")
    if not 1 <= pool.embedding.shape[1] - p <= 2:
        raise ValueError(f"F has {p} coordinates, other than the candidates.")
    U = F / np.maximum(np.linalg.norm(F, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    own = np.full(n, -1) if own is None else np.asarray(own)
    lengths = np.sqrt(-pool.embedding[:, -1])  # k(c, c) is minus the last column
    prices = np.empty(len(lengths))
    for some in row_slices(len(lengths), max(1, _COSINES // n)):
        Z = pool.embedding[some, :p] / np.maximum(lengths[some], np.finfo(np.float64).tiny)[:, None]
        A = Z @ U.T / heat
        A[np.arange(some.start, some.start + len(A))[:, None] == own] = -np.inf
        prices[some] = _log_mean_exp(A)
    return 2.0 * share * heat * lengths * prices


def _log_mean_exp(A: np.ndarray) -> np.ndarray:
    """Return log mean exp of the finite entries of each row, 0 where there are none."""
    n = np.isfinite(A).sum(axis=1)
    top = np.where(n > 0, A.max(axis=1), 0.0)
    total = np.exp(A - top[:, None]).sum(axis=1)
    return np.where(n > 0, top + np.log(np.maximum(total, 1e-300) / np.maximum(n, 1)), 0.0)
