"""Ridge leverage scores: how unlike the others each object is; their sum, effective dimension."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from .._numerics.arrays import n_rows, row_slices, take
from .._numerics.extras import axes
from .._numerics.linalg import positive_solver, symmetric_eigen
from .._numerics.typing import Axes, Objects, RandomState, Rng, Rows
from .._numerics.validation import check_choice, check_number, check_rng
from ..basis import KernelBasis
from ..kernels import Kernel
from ..kernels.base import KernelLike
from ..sketches import SubSample, sketch_size
from .spectra import encoded

# Rows whose coordinates, or kernel values with the sample, are held at a time: 64 MB at 2,000. A
# convention.
_ROWS = 2**12


@dataclass(frozen=True, eq=False)
class LeverageScores:
    """Ridge leverage scores, an array of shape (n,) to numpy; `n_pilot` = n if they are exact."""

    scores: np.ndarray
    alpha: float
    n_pilot: int

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is None:  # which NumPy 1 does not know
            return np.asarray(self.scores, dtype=dtype)
        return np.array(self.scores, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def effective_dimension(self) -> float:
        """The sum of the scores, a rough size for a sketch.

        That of exact scores is Tr K (K + n alpha I)^-1. Approximate ones, of either method, add up
        to less, and to no more than the rank of the pilot sample: a value near `n_pilot` says that
        n_pilot is too small, not that a sketch of this size will do.
        """
        return float(self.scores.sum())

    def plot(self, ax: Axes | None = None, *, k: int = 400) -> Axes:
        """Draw the k highest scores, largest first (figure 5.2, left).

        Parameters
        ----------
        ax : matplotlib axes, optional
            Default new ones.
        k : int, default 400
        """
        ax = axes(ax, "rank", "leverage score")
        highest = np.sort(self.scores)[::-1][:k]
        ax.plot(np.arange(1, len(highest) + 1), highest)
        return ax


def leverage_scores(
    kernel: KernelLike,
    Z: Objects,
    alpha: float = 1e-4,
    n_pilot: int | None = None,
    random_state: RandomState = None,
    *,
    method: str = "uniform",
) -> LeverageScores:
    """Return the ridge leverage scores of objects, exact or approximate.

    The exact scores are diag K (K + n alpha I)^-1. Approximate ones put B B' in the place of K,
    its Nystrom approximation on a pilot sample (Alaoui and Mahoney, 2015):

        l_i = b_i' (B'B + n alpha I)^-1 b_i      at most the exact score, since B B' <= K.

    A uniform sample overlooks what is rare. The recursive method (Musco and Musco, 2017) begins
    with few rows, whose scores draw the sample for twice as many rows, and so on; S holds the rows
    drawn, each times 1 / sqrt of its probability:

        u_i = (k_ii - k_i' S (S'K S + n alpha I)^-1 S' k_i) / (n alpha)

    These u_i overestimate, by a factor of 1 to 3 say, which suits a draw. So they draw the pilot
    sample, and the scores returned are the l_i above.

    Parameters
    ----------
    kernel : kernel, str or callable
        Widths such as gamma="scale" are resolved on Z.
    Z : array, CSR matrix or objects that the kernel encodes, n of them
        The objects to score.
    alpha : float > 0, default 1e-4
        The ridge penalty, as in `KernelRidge`: smaller ones count more directions.
    n_pilot : int, optional
        Size of the sample; default 30 sqrt(n), at most 2000. From n on the scores are exact;
        below they add up to at most n_pilot.
    random_state : None, int or Generator, default None
        Seed of the pilot sample.
    method : "uniform" or "recursive", default "uniform"
        How the pilot sample is drawn; "recursive" where some kinds of objects are rare.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.theory import leverage_scores
    >>> Z = np.repeat(np.eye(2), [9, 1], axis=0)  # nine objects alike and a single one
    >>> scores = leverage_scores("linear", Z, alpha=0.1)
    >>> np.asarray(scores)[[0, 9]]
    array([0.1, 0.5])
    """
    alpha = float(check_number(alpha, "alpha", strict=True))
    rng = check_rng(random_state)
    kernel, rows = encoded(kernel, Z, rng)
    n = n_rows(rows)
    if n_pilot is None:
        n_pilot = sketch_size(None, n)
    m = min(n, int(check_number(n_pilot, "n_pilot", low=1, integer=True)))
    check_choice(method, "method", ("uniform", "recursive"))
    if method == "recursive" and m < n:
        pilot = take(rows, _recursive(kernel, rows, n * alpha, m, rng))
        basis = KernelBasis(kernel).fit(pilot)
    else:
        basis = KernelBasis(kernel, SubSample(m) if m < n else None, random_state=rng).fit(rows)
    gram = sum((B.T @ B for B in coordinates(basis, rows)), np.zeros((basis.rank_,) * 2))
    values, vectors = symmetric_eigen(gram)
    whitening = vectors / np.sqrt(np.maximum(values, 0.0) + n * alpha)
    parts = [np.square(B @ whitening).sum(axis=1) for B in coordinates(basis, rows)]
    return LeverageScores(np.minimum(np.concatenate(parts), 1.0), alpha, m)


def coordinates(basis: KernelBasis, rows: Rows) -> Iterator[np.ndarray]:
    """Yield the coordinates of all rows, a block of rows at a time, in float64."""
    for block in row_slices(n_rows(rows), _ROWS):
        yield basis.transform(take(rows, block)).astype(np.float64, copy=False)


def _recursive(kernel: Kernel, rows: Rows, shift: float, m: int, rng: Rng) -> np.ndarray:
    """Return m rows, drawn in proportion to approximate ridge leverage scores.

    In a random order, m of the first m, 2 m, 4 m ... rows score twice as many rows, of which the
    next m are drawn.
    """
    n = n_rows(rows)
    order = rng.permutation(n)
    drawn, weights = order[:m], np.ones(m)
    size = m
    while size < n:
        size = min(2 * size, n)
        first, landmarks = take(rows, order[:size]), take(rows, drawn)
        p = _inclusion(_sampled_scores(kernel, first, landmarks, weights, shift), m)
        if size < n:
            kept = np.flatnonzero(rng.random(size) < p)
            drawn, weights = order[kept], 1.0 / np.sqrt(p[kept])
    # systematic sampling: row i has the probability p_i, and there are m of them, not only in mean
    steps = np.floor(np.cumsum(p) + rng.random())
    return order[np.flatnonzero(np.diff(steps, prepend=0.0) > 0.0)[:m]]


def _inclusion(scores: np.ndarray, m: int) -> np.ndarray:
    """Return min(1, c l_i) with c such that m rows are drawn on average, if m are positive."""
    ordered = np.sort(scores)[::-1]
    rest = np.cumsum(ordered[::-1])[::-1]  # sum of the scores from each one on
    left = m - np.arange(len(ordered))  # rows to draw if the first ones are certain
    first = int(np.argmax(left * ordered <= rest))
    c = left[first] / max(rest[first], np.finfo(float).tiny)
    inclusion: np.ndarray = np.clip(c * scores, np.finfo(float).tiny, 1.0)
    return inclusion


def _sampled_scores(
    kernel: Kernel, rows: Rows, landmarks: Rows, weights: np.ndarray, shift: float
) -> np.ndarray:
    """Return (k_ii - k_i' S (S'K S + shift I)^-1 S' k_i) / shift, at most 1."""
    gram = kernel(landmarks, landmarks).astype(np.float64) * weights[:, None] * weights
    solve = positive_solver(gram + shift * np.eye(len(weights)))
    parts = []
    for block in row_slices(n_rows(rows), _ROWS):
        block_rows = take(rows, block)
        cross = kernel(landmarks, block_rows).astype(np.float64) * weights[:, None]
        explained = np.einsum("ij,ij->j", cross, solve(cross))
        parts.append((kernel.diag(block_rows) - explained) / shift)
    scores: np.ndarray = np.clip(np.concatenate(parts), 0.0, 1.0)
    return scores
