"""Sketches: which random combinations of the training points do we keep?

A sketch is a distribution over matrices R of shape (m, n). Every draw is stored as R = W S (3.16):
S picks the m' rows that R touches and W mixes them, so a sparse sketch never costs m x n.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ._numerics.arrays import dense
from ._numerics.estimators import PartsByName
from ._numerics.linalg import pivoted_cholesky, ridge_leverage, rounding_of, triangular_inverse
from ._numerics.typing import Matrix, Rng
from ._numerics.validation import Registry, check_choice, check_number, check_size, resolve
from .rows.encode import numbers_in

__all__ = [
    "OSNAP",
    "SKETCHES",
    "Accumulation",
    "CountSketch",
    "Draw",
    "GaussianSketch",
    "PSparsified",
    "PivotedCholesky",
    "Sketch",
    "SubSample",
    "as_sketch",
]


class GramColumns(Protocol):
    """What data-dependent sketches use of the kernel matrix K of the n rows."""

    def diag(self) -> np.ndarray: ...

    def columns(self, index: np.ndarray) -> np.ndarray: ...

    def restrict(self, index: np.ndarray) -> GramColumns: ...


@dataclass(frozen=True)
class Draw:
    """One drawn sketch R = scale * W S.

    Attributes
    ----------
    indices : ndarray of int, shape (m',)
        The rows that R touches, sorted and distinct.
    weights : None, ndarray or CSR matrix of shape (m, m')
        W; None when each row of R is one row of the identity, up to `scale`.
    shape : tuple (m, n)
    scale : float or ndarray of shape (m,), default 1.0
        Factor of each row. It makes E[R'R] = I and changes no span.
    """

    indices: np.ndarray
    weights: Matrix | None
    shape: tuple[int, int]
    scale: float | np.ndarray = 1.0

    def toarray(self) -> np.ndarray:
        """Return R as a dense (m, n) array."""
        R = np.zeros(self.shape)
        W = self.weights
        if W is None:
            R[np.arange(len(self.indices)), self.indices] = 1.0
        else:
            R[:, self.indices] = dense(W)
        sketch: np.ndarray = R * np.reshape(self.scale, (-1, 1))
        return sketch


class Sketch(ABC, PartsByName):
    """Base of all sketches: a distribution over (m, n) matrices."""

    size: int | None

    #: Whether `draw` must be given the kernel matrix.
    needs_gram: bool = False

    @abstractmethod
    def draw(self, n: int, rng: Rng, gram: GramColumns | None = None) -> Draw:
        """Draw a sketch of n rows.

        Parameters
        ----------
        n : int
            Number of rows to sketch.
        rng : numpy Generator
            Of all random numbers: equal states draw equal sketches.
        gram : object with `diag` and `columns` of the kernel matrix, optional
            For sketches that depend on the data, those with `needs_gram`.
        """


def sketch_size(size: int | None, n: int) -> int:
    """Return m: the given size, clipped to n with a warning, or the default for n rows."""
    # Rudi et al. (2015): of order sqrt(n) log(n) landmarks lose nothing in ridge regression. Below
    # 900 rows, 30 sqrt(n) is all of them; from 4,445 rows on it is 2000. Both are conventions:
    # `skout.theory` has sizes for a kernel and its data.
    if size is None:
        return min(n, 2000, math.ceil(30.0 * math.sqrt(n)))
    return check_size(size, n, "size")


def _required(gram: GramColumns | None, sketch: Sketch) -> GramColumns:
    """Return the kernel matrix that a sketch depends on, or raise where it was not passed."""
    if gram is None:
        raise ValueError(
            f"{sketch!r} depends on the data: draw(n, rng, gram) needs the kernel matrix. "
            "KernelBasis passes it by itself."
        )
    return gram


class SubSample(Sketch):
    """Sub-sampling, that is Nystrom: keep `size` rows (Definition 2.26).

    Parameters
    ----------
    size : int, optional
        Number of rows m; default 30 sqrt(n), at most 2000.
    probabilities : None, array of shape (n,) or "leverage", default None
        None draws uniformly without replacement. An array draws with replacement; a row drawn r
        times counts once, with weight sqrt(r / (m p)). "leverage" draws in proportion to the
        ridge leverage scores, approximated on a uniform pilot sample of `size` rows (Alaoui and
        Mahoney, 2015).
    replace : bool, default True
        Whether rows with probabilities are drawn with replacement, so that E[R'R] = I. False gives
        `size` distinct rows, each with a factor of 1, if so many have positive probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.sketches import SubSample
    >>> SubSample(2).draw(10, np.random.default_rng(0)).shape
    (2, 10)
    """

    #: What other libraries call it.
    elsewhere = ("nystrom", "nystroem")

    def __init__(
        self,
        size: int | None = None,
        probabilities: ArrayLike | str | None = None,
        replace: bool = True,
    ) -> None:
        self.size = size
        self.probabilities = probabilities
        self.replace = replace

    @property
    def needs_gram(self) -> bool:  # type: ignore[override]
        return isinstance(self.probabilities, str)

    def draw(self, n: int, rng: Rng, gram: GramColumns | None = None) -> Draw:
        m = sketch_size(self.size, n)
        if self.probabilities is None:
            index = np.sort(rng.choice(n, m, replace=False, shuffle=False))
            return Draw(index, None, (m, n), scale=np.sqrt(n / m))
        p = self._probabilities(n, m, rng, gram)
        if m == n:  # all rows
            return Draw(np.arange(n), None, (n, n))
        if not self.replace:
            m = min(m, int(np.count_nonzero(p)))
            return Draw(np.sort(rng.choice(n, m, replace=False, p=p)), None, (m, n))
        index, counts = np.unique(rng.choice(n, m, p=p), return_counts=True)
        return Draw(index, None, (len(index), n), scale=np.sqrt(counts / (m * p[index])))

    def _probabilities(self, n: int, m: int, rng: Rng, gram: GramColumns | None) -> np.ndarray:
        if isinstance(self.probabilities, str):
            check_choice(self.probabilities, "probabilities", ("leverage",))
            scores = _pilot_leverage(_required(gram, self), n, m, rng)
            probabilities: np.ndarray = scores / scores.sum()
            return probabilities
        return _as_probabilities(self.probabilities, n)


def _as_probabilities(values: ArrayLike | None, n: int) -> np.ndarray:
    """Return sampling probabilities of n rows, in proportion to the given numbers."""
    with numbers_in(values, "probabilities"):
        p = np.asarray(values, dtype=np.float64)
    if p.shape != (n,) or not np.isfinite(p).all() or p.min() < 0 or p.max() <= 0:
        raise ValueError(
            f"probabilities must be {n} non-negative numbers, one a row, with a positive sum. "
            f"Got an array of shape {p.shape}."
        )
    p = p / p.max()  # so that their sum is finite
    probabilities: np.ndarray = p / p.sum()
    return probabilities


def _pilot_leverage(gram: GramColumns, n: int, m: int, rng: Rng) -> np.ndarray:
    """Approximate the ridge leverage scores by the Nystrom approximation of K on m pilot rows."""
    pilot = np.sort(rng.choice(n, m, replace=False))
    columns = gram.columns(pilot)  # (n, m)
    L, pivots = pivoted_cholesky(columns[pilot])
    B = columns[:, pivots] @ triangular_inverse(L).T  # (n, p), B B' <= K
    return ridge_leverage(B, gram.diag(), size=max(1, m // 2))


class PSparsified(Sketch):
    """p-sparsified sketch: i.i.d. entries, non-zero with probability p (Definition 3.18).

    The number m' of rows it touches follows the binomial law with parameters n and 1 - (1-p)^m.
    Drawing costs time and memory in proportion to the number of non-zeros, about m n p.

    Parameters
    ----------
    size : int, optional
        Number of combinations m; default 30 sqrt(n), at most 2000.
    p : float, optional
        Probability that an entry is not zero; default min(1, 20 / n).
    distribution : "rademacher" or "gaussian", default "rademacher"
        Law of the non-zero entries, up to the factor 1 / sqrt(m p).

    Examples
    --------
    >>> import numpy as np
    >>> from skout.sketches import PSparsified
    >>> sketch = PSparsified(5, p=0.1).draw(1000, np.random.default_rng(0))
    >>> sketch.weights.shape[1] == len(sketch.indices) < 1000
    True
    """

    def __init__(
        self, size: int | None = None, p: float | None = None, distribution: str = "rademacher"
    ) -> None:
        self.size = size
        self.p = p
        self.distribution = distribution

    def draw(self, n: int, rng: Rng, gram: GramColumns | None = None) -> Draw:
        m = sketch_size(self.size, n)
        p = min(1.0, 20.0 / n) if self.p is None else self.p  # as in the experiments of the thesis
        check_number(p, "p", strict=True)
        if p > 1:
            raise ValueError(f"p must be a probability, 0 < p <= 1. Got {p!r} instead.")
        check_choice(self.distribution, "distribution", ("rademacher", "gaussian"))
        position = _bernoulli_positions(m * n, p, rng)
        rademacher = self.distribution == "rademacher"
        entries = _signs(len(position), rng) if rademacher else rng.standard_normal(len(position))
        return _mixing_draw(position // n, position % n, entries / np.sqrt(m * p), (m, n))


def _bernoulli_positions(n_trials: int, p: float, rng: Rng) -> np.ndarray:
    """Return the successes among n_trials Bernoulli(p) trials, by their geometric gaps."""
    position = np.empty(0, dtype=np.int64)
    last = -1
    while last < n_trials:
        mean = (n_trials - last) * p
        # six deviations above the mean: one draw is nearly always enough
        gaps = rng.geometric(p, size=int(mean + 6.0 * np.sqrt(mean) + 10.0))
        # a gap beyond the end is the end, and cannot overflow the sum
        gaps = np.minimum(np.where(gaps > 0, gaps, n_trials + 1), n_trials + 1)
        position = np.concatenate([position, last + np.cumsum(gaps)])
        last = int(position[-1])
    return position[position < n_trials]


def _signs(size: int, rng: Rng) -> np.ndarray:
    """Return Rademacher variables."""
    return rng.integers(0, 2, size=size) * 2.0 - 1.0


def _mixing_draw(
    rows: np.ndarray, columns: np.ndarray, entries: np.ndarray, shape: tuple[int, int]
) -> Draw:
    """Return the sketch with these entries: its distinct columns and a CSR matrix over them."""
    indices, inverse = np.unique(columns, return_inverse=True)
    W = sparse.csr_matrix((entries, (rows, inverse)), shape=(shape[0], len(indices)))
    return Draw(indices, W, shape)


class GaussianSketch(Sketch):
    """Dense Gaussian sketch: i.i.d. entries N(0, 1/m) (Example 2.31). It touches every row.

    Parameters
    ----------
    size : int, optional
        Number of combinations m; default 30 sqrt(n), at most 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.sketches import GaussianSketch
    >>> GaussianSketch(3).draw(8, np.random.default_rng(0)).weights.shape
    (3, 8)
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size

    def draw(self, n: int, rng: Rng, gram: GramColumns | None = None) -> Draw:
        m = sketch_size(self.size, n)
        return Draw(np.arange(n), rng.standard_normal((m, n)) / np.sqrt(m), (m, n))


class Accumulation(Sketch):
    """Accumulation sketch: a sum of signed sub-samplings (Definition 2.33; Chen and Yang, 2021).

    Parameters
    ----------
    size : int, optional
        Number of combinations m; default 30 sqrt(n), at most 2000.
    n_terms : int, default 20
        Number of sub-samplings summed: 1 is sub-sampling, many is close to Gaussian.
    probabilities : array of shape (n,), optional
        With which rows are drawn; default uniform.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.sketches import Accumulation
    >>> Accumulation(4, n_terms=2).draw(100, np.random.default_rng(0)).weights.shape[0]
    4
    """

    def __init__(
        self,
        size: int | None = None,
        n_terms: int = 20,
        probabilities: ArrayLike | str | None = None,
    ) -> None:
        self.size = size
        self.n_terms = n_terms
        self.probabilities = probabilities

    def draw(self, n: int, rng: Rng, gram: GramColumns | None = None) -> Draw:
        m = sketch_size(self.size, n)
        t = check_number(self.n_terms, "n_terms", low=1, integer=True)
        rows = np.repeat(np.arange(m), t)
        # entries sign / sqrt(t m p_i) at rows i that are drawn with probabilities p_i
        if self.probabilities is None:
            columns, p = rng.integers(0, n, size=m * t), 1.0 / n
        else:
            each = _as_probabilities(self.probabilities, n)
            columns = rng.choice(n, m * t, p=each)
            p = each[columns]
        return _mixing_draw(rows, columns, _signs(m * t, rng) / np.sqrt(t * m * p), (m, n))


class CountSketch(Sketch):
    """CountSketch: each column has one entry, a random sign in a random row (Definition 2.32).

    Parameters
    ----------
    size : int, optional
        Number of combinations m; default 30 sqrt(n), at most 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.sketches import CountSketch
    >>> CountSketch(3).draw(8, np.random.default_rng(0)).weights.nnz
    8
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size

    def draw(self, n: int, rng: Rng, gram: GramColumns | None = None) -> Draw:
        m = sketch_size(self.size, n)
        return _mixing_draw(rng.integers(0, m, size=n), np.arange(n), _signs(n, rng), (m, n))


class OSNAP(Sketch):
    """Sparse embedding: each column has a few random signs (Nelson and Nguyen, 2013).

    Rows are cut into as many parts as there are signs, and each part has one of them. With a single
    sign it is `CountSketch`.

    Parameters
    ----------
    size : int, optional
        Number of combinations m; default 30 sqrt(n), at most 2000.
    n_signs : int, default 4
        Entries of each column, at most m.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.sketches import OSNAP
    >>> OSNAP(6, n_signs=2).draw(8, np.random.default_rng(0)).weights.nnz
    16
    """

    def __init__(self, size: int | None = None, n_signs: int = 4) -> None:
        self.size = size
        self.n_signs = n_signs

    def draw(self, n: int, rng: Rng, gram: GramColumns | None = None) -> Draw:
        m = sketch_size(self.size, n)
        s = min(m, check_number(self.n_signs, "n_signs", low=1, integer=True))
        edges = np.linspace(0, m, s + 1).astype(np.int64)  # of the parts
        rows = rng.integers(edges[:-1], edges[1:], size=(n, s))  # (n, s), one in each part
        columns = np.repeat(np.arange(n), s)
        return _mixing_draw(rows.ravel(), columns, _signs(n * s, rng) / np.sqrt(s), (m, n))


class PivotedCholesky(Sketch):
    """Randomly pivoted partial Cholesky: landmarks chosen by the data (Chen et al., 2022).

    Each new landmark is drawn in proportion to what the landmarks so far leave unexplained,
    k(x, x) - ||coordinates of x||^2, in blocks. The rows that a data set repeats, or that the
    kernel cannot tell apart, are never taken twice.

    Parameters
    ----------
    size : int, optional
        Largest number of landmarks; default 30 sqrt(n), at most 2000.
    tol : float, optional
        Stop when the unexplained part of the trace falls to `tol` times the trace.
    max_rows : int, default 20000
        Landmarks are sought among at most this many rows, drawn uniformly.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelBasis
    >>> from skout.sketches import PivotedCholesky
    >>> X = np.repeat(np.eye(3), 5, axis=0)
    >>> KernelBasis("linear", PivotedCholesky(10), random_state=0).fit(X).rank_
    3
    """

    needs_gram = True

    def __init__(
        self, size: int | None = None, tol: float | None = None, max_rows: int = 20_000
    ) -> None:
        self.size = size
        self.tol = tol
        self.max_rows = max_rows

    def draw(self, n: int, rng: Rng, gram: GramColumns | None = None) -> Draw:
        m = sketch_size(self.size, n)
        tol = 0.0 if self.tol is None else check_number(self.tol, "tol")
        if tol >= 1:
            raise ValueError(f"tol must be a fraction of the trace, below 1. Got {tol!r} instead.")
        limit = max(m, check_number(self.max_rows, "max_rows", low=1, integer=True))
        rows = None if n <= limit else np.sort(rng.choice(n, limit, replace=False))
        index = _random_pivots(_required(gram, self), rows, m, tol, rng)
        index = np.sort(index if rows is None else rows[index])
        return Draw(index, None, (len(index), n))


def _random_pivots(
    gram: GramColumns, rows: np.ndarray | None, m: int, tol: float, rng: Rng
) -> np.ndarray:
    """Return up to m pivots: block randomly pivoted Cholesky on K[rows, rows]."""
    if rows is not None:
        gram = gram.restrict(rows)
    diagonal = gram.diag().astype(np.float64)
    residual, trace = diagonal.copy(), diagonal.sum()
    floor = 10.0 * len(residual) * np.finfo(np.float64).eps * residual.max(initial=0.0)
    if trace <= 0:
        raise ValueError("The kernel matrix is zero: every row has norm 0 under this kernel.")
    F = np.empty((len(residual), m))  # K is close to F[:, :k] F[:, :k]'
    pivots = np.empty(0, dtype=np.intp)
    while len(pivots) < m and residual.sum() > tol * trace:
        k = len(pivots)
        # a tenth: columns come by matrix products, and draws follow the residual. For 600 landmarks
        # of 8,000 rows a fifth, a tenth and a 20th take 0.46, 0.43 and 0.53 s and leave 0.120 of
        # the trace alike.
        block = min(max(16, m // 10), m - k)
        drawn = np.unique(rng.choice(len(residual), block, p=residual / residual.sum()))
        columns = gram.columns(drawn)
        floor = max(floor, 10.0 * rounding_of(columns[drawn].diagonal(), diagonal[drawn]))
        G = columns - F[:, :k] @ F[drawn, :k].T  # residual columns
        if G[drawn].diagonal().max() <= floor:  # the residual that drew these rows was rounding
            residual[drawn] = 0.0
            continue
        # a block whose rows repeat each other adds only those that still bring something
        L, keep = pivoted_cholesky(G[drawn], max(floor, G[drawn].trace() / len(drawn) ** 2))
        F[:, k : k + len(keep)] = new = G[:, keep] @ triangular_inverse(L).T
        pivots = np.concatenate([pivots, drawn[keep]])
        residual -= np.einsum("ij,ij->i", new, new)
        residual[residual <= floor] = 0.0
        residual[pivots] = 0.0
    return pivots


#: Names accepted wherever a sketch is: each stands for the default-constructed class.
SKETCHES: Registry[type[Sketch]] = Registry(countsketch="count_sketch", sub_sample="subsample")
SKETCHES |= {
    "subsample": SubSample,
    "p_sparsified": PSparsified,
    "gaussian": GaussianSketch,
    "accumulation": Accumulation,
    "count_sketch": CountSketch,
    "osnap": OSNAP,
    "pivoted_cholesky": PivotedCholesky,
}


#: What is accepted wherever a sketch is; None is no sketch: exact.
SketchLike: TypeAlias = Sketch | str | None


def as_sketch(spec: SketchLike) -> Sketch | None:
    """Return a sketch from a sketch or its name, None from None.

    Parameters
    ----------
    spec : Sketch, str or None
        A name is one of `SKETCHES`.

    Examples
    --------
    >>> from skout.sketches import as_sketch
    >>> as_sketch("p_sparsified")
    PSparsified()
    """
    if spec is None or isinstance(spec, Sketch):
        return spec
    if isinstance(spec, str):
        return resolve(spec, SKETCHES, "sketch")()
    is_size = isinstance(spec, Integral) and not isinstance(spec, bool)
    hint = (
        f" So many landmarks are SubSample({spec}); a penalty is alpha={spec}." if is_size else ""
    )
    raise TypeError(f"A sketch must be a skout sketch, a name or None. Got {spec!r} instead.{hint}")
