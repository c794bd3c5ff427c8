"""Decode vectors by gradient ascent, for kernels with gradients: not limited to candidates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import n_rows
from .._numerics.threads import map_blocks
from .._numerics.typing import Candidates, Floats, Objects
from .._numerics.validation import check_number
from ..basis import KernelBasis
from .base import Decoder
from .candidates import CandidateDecoder

# Relative change of the score, and gradient, at which an ascent ends; the defaults of SciPy, 2e-9
# and 1e-5, leave fewer digits of the vector.
_FTOL, _GTOL = 1e-12, 1e-8


class GradientDecoder(Decoder):
    """Find the vector whose features are nearest to predicted coordinates (p. 104).

    From the best candidates of each query, L-BFGS climbs 2 <f(x), z(y)> - k(y, y), which is
    2 sum_j b_j(x) k(l_j, y) - k(y, y) over the landmarks l_j of the output basis. The result is
    never worse than the best candidate. For the linear kernel it is sum_j b_j(x) l_j, the vector
    that was predicted (p. 93), without a search. Other kernels must have `gradients`, as Gaussian
    and Matern have.

    Parameters
    ----------
    n_starts : int, default 3
        Candidates of each query to climb from.
    max_iter : int, default 100
        Most iterations of L-BFGS from one start.
    reach : float, default 0.5
        How far, in each column, results may lie outside the range of the training outputs, in parts
        of that range.
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.

    Attributes
    ----------
    start_ : CandidateDecoder
        Ranks the candidates to start from.
    low_, high_ : ndarrays of shape (d,)
        Bounds of the results.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelBasis
    >>> from skout.decoding import GradientDecoder
    >>> Y = np.random.default_rng(0).standard_normal((200, 2))
    >>> basis = KernelBasis("gaussian").fit(Y)
    >>> decoder = GradientDecoder().fit(basis, Y)
    >>> decoder.decode(basis.transform(np.array([[0.25, -0.5]]))).round(3)  # no training output
    array([[ 0.25, -0.5 ]])
    """

    high_: Floats
    low_: Floats

    def __init__(
        self, n_starts: int = 3, max_iter: int = 100, reach: float = 0.5, n_jobs: int | None = None
    ) -> None:
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.reach = reach
        self.n_jobs = n_jobs

    def fit(self, basis: KernelBasis, Y: Objects, coordinates: np.ndarray | None = None) -> Self:
        check_number(self.n_starts, "n_starts", low=1, integer=True)
        check_number(self.max_iter, "max_iter", low=1, integer=True)
        check_number(self.reach, "reach")
        kernel, rows = basis.kernel_, basis.kernel_.encode(Y)
        if not isinstance(rows, np.ndarray):
            what = "a sparse matrix" if sparse.issparse(rows) else type(rows).__name__
            raise TypeError(f"GradientDecoder needs outputs that are dense vectors. Got {what}.")
        able = hasattr(kernel, "gradients") and (
            kernel.normalized or hasattr(kernel, "diag_gradients")
        )
        if not (getattr(kernel, "is_linear", False) or able):
            raise TypeError(
                "GradientDecoder needs an output kernel that is linear or has gradients, such as "
                f"Gaussian or Matern. Got {kernel!r} instead."
            )
        low, high = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
        margin = self.reach * (high - low)
        self.low_, self.high_ = low - margin, high + margin
        self.start_: CandidateDecoder = CandidateDecoder(n_jobs=self.n_jobs).fit(
            basis, Y, coordinates
        )
        return self

    def decode(self, F: Floats, candidates: Candidates = None) -> Floats:
        check_is_fitted(self)
        basis = self.start_.basis_
        if getattr(basis.kernel_, "is_linear", False):
            predicted: Floats = F @ basis.combine(np.asarray(basis.landmarks_, dtype=np.float64))
            return predicted
        b = F @ basis.combine(sparse.identity(n_rows(basis.landmarks_), format="csr"))
        pool = self.start_.embed(candidates).distinct()
        rows = np.asarray(basis.kernel_.encode(pool.pool), dtype=np.float64)
        best = [row[row >= 0] for row in self.start_.rank(F, pool, k=self.n_starts)[0]]
        if pool.is_per_query:
            best = [pool.sets.positions(i)[row] for i, row in enumerate(best)]
        starts = [rows[positions] for positions in best]
        minima = map_blocks(
            lambda i: self._best(b[i], starts[i]), range(len(F)), n_jobs=self.n_jobs
        )
        return np.array(list(minima)).reshape(len(F), len(self.low_))

    def _best(self, b: Floats, starts: Floats) -> Floats:
        """Return the vector of best score among the starts and the maxima reached from them."""
        score = score_of(self.start_.basis_, b)
        bounds = list(zip(self.low_, self.high_, strict=True))
        options = {"maxiter": self.max_iter, "ftol": _FTOL, "gtol": _GTOL}
        best: tuple[float, Floats] = (-score(starts[0])[0], starts[0])
        for start in starts:
            inside = np.clip(start, self.low_, self.high_)
            minimum = minimize(
                lambda y: tuple(-part for part in score(y)),
                inside,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options=options,
            )
            best = min(best, (float(minimum.fun), minimum.x), key=lambda pair: pair[0])
        return best[1]


def score_of(basis: KernelBasis, b: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Return the function y -> (score, gradient) of weights b_j of the landmarks."""
    # 2 sum_j b_j k(l_j, y) - k(y, y)
    kernel, landmarks = basis.kernel_, np.asarray(basis.landmarks_, dtype=np.float64)
    block, slope = kernel.against(landmarks), kernel.gradients(landmarks, b[:, None])

    def score(y: np.ndarray) -> tuple[float, np.ndarray]:
        A = y[None]
        value = 2.0 * float(block(A)[0] @ b) - float(kernel.diag(A)[0])
        gradient = 2.0 * slope(A)[0, 0]
        if not kernel.normalized:
            gradient = gradient - kernel.diag_gradients(A)[0]
        return value, gradient

    return score
