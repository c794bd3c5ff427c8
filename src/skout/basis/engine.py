"""The span of a sketch: its coordinates z(x) = C W k(landmarks, x), and the sums that fits need."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import float_dtype, match, n_rows, take, unique
from .._numerics.factors import cholesky
from .._numerics.linalg import (
    eigen_whitening,
    inverse_gram_product,
    pivoted_cholesky,
    symmetric_eigenvalues,
    triangular_inverse,
    triangular_product,
)
from .._numerics.types import Floats, Ints, Matrix, Rows, Weights
from ..kernels import Kernel
from ..rows import Memory, Progress, Reduction, Source, Survey, on_device
from ..sketches import Draw, Sketch
from .features import KernelMatrix, LandmarkFeatures, Projection, Residual, principal
from .moments import AnyMoments, Moments, PartlyWhitened
from .passes import BlockMoments, KnownRows, Plan, Sample, Whitening, accuracy_plan

__all__ = ["Engine", "Span", "span_of"]

# If at most this share of the rows is distinct, the coordinates of equal rows are computed once.
_MOST_DISTINCT = 0.8
# Pivots up to this many times the rounding of kernel values count as zero: copies have such.
_COPIES = 8.0
# From so many landmarks on, K~ is not computed before it is needed.
_LARGE = 2000
# Most draws of a sketch whose random signs let equal rows cancel, so that nothing is left.
_DRAWS = 8


class Engine:
    """The span of a sketch as functions of rows: features, coordinates and moments.

    It holds no state that a call changes: what it computes late (the components, where nobody
    needed them in the fit) depends on its parts alone. Rows are encoded, as a `Source`.

    Parameters
    ----------
    kernel : Kernel
        With numeric parameters.
    landmarks : rows, m' of them
    weights : None, ndarray or CSR matrix of shape (m, m')
        W; None for pure sub-sampling.
    components : ndarray of shape (p, m), optional
        C. None finds them when they are first needed; the landmarks stay as they are then.
    whiten : "cholesky", "eigh" or "kpca"
        How the components were found.
    spectrum : ndarray of shape (p,), optional
        Eigenvalues of K~ = W K W', with "kpca" mean squares of the coordinates.
    is_exact : bool
        Whether the landmarks are all distinct rows of the fit: no sketch.
    is_single : bool
        Whether the rows of the fit were float32.
    n_effective : int, optional
        How many rows of the data the rows of K~ stand for, see `accuracy_plan`; default p.
    is_padded : bool
        Whether landmarks that depend on others have columns of zeros in C: no triangle.
    n_jobs : int, optional
    device : str, optional
        Where coordinates are computed; None is where the rows are.
    """

    def __init__(
        self,
        kernel: Kernel,
        landmarks: Any,
        weights: Any = None,
        components: np.ndarray | None = None,
        *,
        whiten: str = "cholesky",
        spectrum: np.ndarray | None = None,
        is_exact: bool = False,
        is_single: bool = False,
        n_effective: int | None = None,
        is_padded: bool = False,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        self.kernel, self.landmarks, self.weights = kernel, landmarks, weights
        self.whiten, self.spectrum = whiten, spectrum
        self.is_exact, self.is_single = is_exact, is_single
        self.n_jobs, self.device = n_jobs, device
        self.features = LandmarkFeatures(kernel, landmarks, weights)  # prepared once
        self._components, self._is_padded, self._n_effective = components, is_padded, n_effective

    # What it is made of ---------------------------------------------------------------------------

    @property
    def components(self) -> np.ndarray:
        """C, of shape (p, m)."""
        return self._late[0] if self._components is None else self._components

    @property
    def is_padded(self) -> bool:
        """Whether C has columns of zeros, and is no triangle."""
        return self._late[1] if self._components is None else self._is_padded

    @property
    def has_components(self) -> bool:
        """Whether the components are known already."""
        return self._components is not None or "_late" in self.__dict__

    @property
    def rank(self) -> int:
        """The number of coordinates, p."""
        return len(self.components)

    @property
    def n_effective(self) -> int:
        """How many rows of the data the rows of K~ stand for."""
        return self.rank if self._n_effective is None else self._n_effective

    @functools.cached_property
    def _late(self) -> tuple[np.ndarray, bool]:
        """Components for landmarks in their own order, and whether some of those depend on others.

        K~ = L L' and C = L^-1 where all pivots are above the noise; else those of
        `pivoted_cholesky`, with zeros for the landmarks that depend on others.
        """
        gram, rounding = self.gram()
        noise = _pivot_noise(gram, rounding, self.is_single)
        noise = max(noise, len(gram) * np.finfo(np.float64).eps)
        factor = cholesky(gram.copy())
        if factor is not None and factor.smallest() ** 2 > noise:
            return triangular_inverse(np.tril(factor.L)), False
        L, kept = pivoted_cholesky(gram, noise)
        components = np.zeros((len(L), len(gram)))
        components[:, kept] = triangular_inverse(L)
        return components, True

    def gram(self) -> tuple[np.ndarray, float]:
        """Return K~ = W K W', and the rounding of its values."""
        matrix = KernelMatrix(self.kernel, self.landmarks, self.n_jobs)
        gram, _, rounding = matrix.sketched(self.weights)
        return gram, rounding

    def eigenvalues(self) -> np.ndarray:
        """Return the eigenvalues of K~, with "kpca" mean squares of the coordinates."""
        if self.spectrum is not None:
            return self.spectrum
        if self.is_padded:
            return symmetric_eigenvalues(self.gram()[0])[: self.rank]
        L = triangular_inverse(self.components)
        return symmetric_eigenvalues(L @ L.T)

    # Coordinates ----------------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """x -> z(x), for `Source.map`."""
        return Projection(self.features, self.components.T)

    def coordinates(self, rows: Source, out: np.ndarray | None = None) -> Any:
        """Return z(x) of each row, shape (n, p)."""
        rows, tail = self.placed(rows), (self.rank,)
        return rows.map(self.projection, tail, rows.precision, n_jobs=self.n_jobs, out=out)

    def placed(self, rows: Source) -> Source:
        """Return rows where coordinates are computed."""
        return rows if self.device is None else on_device(rows, self.device)

    def training_coordinates(self, rows: Source) -> Any:
        """Return the coordinates of the rows of the fit; those of equal rows are computed once."""
        if self.is_exact and self.whiten == "cholesky":
            return self._exact_coordinates(rows.load())
        copies = rows.copies(_MOST_DISTINCT)
        if copies is None:
            return self.coordinates(rows)
        first, inverse = copies
        return self.coordinates(rows.subset(first))[inverse]

    def _exact_coordinates(self, rows: Any) -> np.ndarray:
        """Return rows of L for landmarks: z(l_i) . z(l_j) = k(l_i, l_j)."""
        position = match(rows, self.landmarks)
        Z = triangular_inverse(self.components)[position].astype(float_dtype(rows), copy=False)
        others = np.flatnonzero(position < 0)  # rows that depend on landmarks
        if len(others):
            Z[others] = self.coordinates(Memory(take(rows, others)))
        return Z

    def residual(self, rows: Source) -> Any:
        """Return k(x, x) - ||z(x)||^2 of each row."""
        residual = Residual(self.features, self.components)
        return rows.map(residual, (), np.float64, n_jobs=self.n_jobs)

    # From coefficients of coordinates to those of features, and back ------------------------------

    def combine(self, values: Any) -> np.ndarray:
        """Return C W values: the rows of `values`, one a landmark, as the basis combines those."""
        mixed = values if self.weights is None else self.weights @ values
        mixed = mixed.toarray() if sparse.issparse(mixed) else mixed
        return self.components @ mixed

    def on_features(self, coef: np.ndarray) -> np.ndarray:
        """Return B, (m, d), with z(x) . coef = phi(x) . B, where phi is W k(landmarks, .)."""
        if self.spectrum is not None or self.is_padded:
            return self.components.T @ coef
        return triangular_product(self.components, coef, transposed=True)

    def on_coordinates(self, B: np.ndarray) -> np.ndarray:
        """Return coef with z(x) . coef = phi(x) . B, of which `on_features` is the inverse."""
        if self.is_padded or self.whiten == "kpca":
            return self.components @ (self.gram()[0] @ B)
        if self.spectrum is not None:
            return self.spectrum[:, None] * (self.components @ B)
        return triangular_product(triangular_inverse(self.components), B, transposed=True)

    # Moments --------------------------------------------------------------------------------------

    def moments(
        self,
        sample: Sample,
        alpha: float,
        *,
        known: KnownRows | None = None,
        whiten: bool = True,
        center: bool = True,
        progress: Progress | None = None,
    ) -> list[AnyMoments]:
        """Return the moments of (z(x), targets) without forming z(x) for every row, one a group.

        Parameters
        ----------
        sample : Sample
            Encoded rows, targets, weights, groups.
        alpha : float
            The smallest penalty they will be used with: how far to whiten in each row.
        known : KnownRows, optional
            Features of rows of the sample that need not be computed, see `span_of`.
        whiten, center : bool, default True
            Whether moments of features must become those of coordinates, not for a single alpha;
            and whether features may be centered, whose moments are whitened in any case.
        progress : Progress, optional
            Is told how far the pass is.
        """
        plan = self.plan(sample.rows, alpha, center)
        mean = None
        if plan.center:  # the mean of phi over the landmarks, if K~ is their kernel matrix
            mean = inverse_gram_product(self.components, np.ones(self.rank)) / self.rank
        parts = self._block_moments(sample, plan, mean, known, progress)
        if plan.size < self.rank and not plan.center and not whiten:
            gram = None if known is None else known.gram[np.ix_(known.kept, known.kept)]
            partly = PartlyWhitened(self.components, plan.size, gram)
            return [replace(part, partly=partly) for part in parts]
        if plan.size < self.rank:
            finish = PartlyWhitened(self.components, plan.size).finish()
            parts = [part.map(finish) for part in parts]
        if mean is not None:
            mean = mean.astype(plan.dtype)
            parts = [part.shifted(self.components @ mean) for part in parts]
        return parts

    def plan(self, rows: Source, alpha: float, center: bool = True) -> Plan:
        """Choose what is done to each block; the choice must not depend on the size of blocks."""
        if self.spectrum is not None:
            return Plan(self.rank, False, np.dtype(np.float64))
        shift, dtype = self.n_effective * alpha, rows.precision
        may_center = center and self.weights is None
        return accuracy_plan(self.components, shift, dtype, may_center, len(rows))

    def _block_moments(
        self,
        sample: Sample,
        plan: Plan,
        mean: np.ndarray | None,
        known: KnownRows | None,
        progress: Progress | None,
    ) -> list[AnyMoments]:
        """Return the moments of features that are whitened as far as the plan says."""
        sample, values = sample.by_value()
        if sample.groups is not None:
            sample, known = sample.by_group(sample.groups, known)
        landmarks = None
        if known is not None and plan.size == self.rank:
            sample, landmarks = known.split(sample)
        whitening = Whitening(self.components, plan, mean, self.spectrum is not None)
        blocks = BlockMoments(self.features, whitening, sample, None if landmarks else known)
        parts = blocks.of(sample, progress=progress, n_jobs=self.n_jobs)
        if landmarks is not None:  # after the pass, to spare its threads those of BLAS
            parts = [operator.iadd(a, b) for a, b in zip(parts, landmarks(), strict=True)]
        if values is None:
            return parts
        return [part.of_values(values) for part in parts if isinstance(part, Moments)]


def _pivot_noise(gram: np.ndarray, rounding: float, is_single: bool) -> float:
    """Return how large a pivot of K~ may be by rounding alone."""
    # smaller pivots cannot be told from the rounding of float32 kernel values
    noise = np.finfo(np.float32).eps * np.diagonal(gram).max() if is_single else 0.0
    return max(noise, _COPIES * rounding)


def _kept_rows(landmarks: Any, weights: Any, rows: np.ndarray) -> tuple[Any, Any]:
    """Return landmarks and W of some rows of R = W S: only the landmarks that these touch."""
    if weights is None:
        return take(landmarks, rows), None
    weights = weights[rows]
    if not sparse.issparse(weights):
        return landmarks, weights
    used = np.unique(weights.indices)
    return take(landmarks, used), weights[:, used].tocsr()


# From a kernel, a sketch and rows to an engine --------------------------------------------------


@dataclass(frozen=True)
class Span:
    """The landmarks of a sketch of rows and how it mixes them, before anything is factorized.

    Attributes
    ----------
    kernel : Kernel
        Its parameters resolved on the rows.
    landmarks : rows, m' of them
    weights : None, ndarray or CSR matrix of shape (m, m')
        W; None for pure sub-sampling.
    place : ndarray of int, shape (n,)
        The number of the landmark that each row is, -1 where it is none.
    rows : Source
        What the sketch was drawn from: the rows, or a sample of them.
    is_exact : bool
        Whether there is no sketch: the landmarks are all distinct rows.
    also : object
        The result of another reduction that the same pass over the rows made.
    n_jobs, device
        Of the engine.
    """

    kernel: Kernel
    landmarks: Rows
    weights: Matrix | None
    place: Ints
    rows: Source
    is_exact: bool = False
    also: Any = None
    n_jobs: int | None = None
    device: str | None = None

    @property
    def m(self) -> int:
        """The number of features: of rows of W, or of landmarks."""
        return n_rows(self.landmarks) if self.weights is None else self.weights.shape[0]

    @functools.cached_property
    def _sketched(self) -> tuple[Floats, Floats | None, float]:
        """K~ = W K W', K W' where that is not too large, and the rounding of their values."""
        return KernelMatrix(self.kernel, self.landmarks, self.n_jobs).sketched(self.weights)

    @property
    def is_zero(self) -> bool:
        """Whether random signs of W made equal rows cancel, so that nothing is left."""
        if self.weights is None or self.m >= _LARGE:
            return False
        return not self._sketched[0].any()

    @property
    def _is_single(self) -> bool:
        return self.rows.precision == np.float32

    def _engine(self, landmarks: Rows, W: Matrix | None, C: Floats | None, **more: Any) -> Engine:
        return Engine(
            self.kernel, landmarks, W, C, is_exact=self.is_exact, is_single=self._is_single,
            n_jobs=self.n_jobs, device=self.device, **more,
        )  # fmt: skip

    def unfactorized(self) -> Engine:
        """Return the engine of all landmarks, whose components are found when they are needed."""
        W, landmarks = self.weights, self.landmarks
        if W is None:
            first, _ = unique(landmarks)
            landmarks = landmarks if len(first) == n_rows(landmarks) else take(landmarks, first)
        n_effective = n_rows(landmarks) if W is None else len(self.rows)
        return self._engine(landmarks, W, None, n_effective=n_effective)

    def engine(self, whiten: str = "cholesky", rank: int | None = None) -> Engine:
        """Return the engine with its components, of the landmarks that they need.

        Parameters
        ----------
        whiten, rank
            See `KernelBasis`.
        """
        if whiten == "cholesky":
            return self._factorized[0]
        gram, _, rounding = self._sketched
        noise = _pivot_noise(gram, rounding, self._is_single)
        C, spectrum = eigen_whitening(gram, len(gram) * noise)
        make = functools.partial(
            self._engine, self.landmarks, self.weights, whiten=whiten, n_effective=self._n_effective
        )
        if whiten == "kpca":
            engine = make(C, spectrum=spectrum)
            C, spectrum = principal(engine.features, C, engine.placed(self.rows))
        return make(C[:rank], spectrum=spectrum[:rank])

    @property
    def _n_effective(self) -> int | None:
        """How many rows of the data those of K~ stand for, see accuracy_plan; None if as many."""
        return None if self.weights is None else len(self.rows)

    @functools.cached_property
    def _factorized(self) -> tuple[Engine, Floats, Ints]:
        """The engine by pivoted Cholesky, its factor L, and the independent rows of K~."""
        gram, _, rounding = self._sketched
        L, kept = pivoted_cholesky(gram, _pivot_noise(gram, rounding, self._is_single))
        landmarks, W = _kept_rows(self.landmarks, self.weights, kept)
        C = triangular_inverse(L)
        return self._engine(landmarks, W, C, n_effective=self._n_effective), L, kept

    def known_rows(self) -> KnownRows | None:
        """Return the features of rows that are landmarks, for `Engine.moments` of the same rows."""
        gram, features, _ = self._sketched
        if features is None or self._is_single or not self.rows.has_shortcuts:
            return None
        engine, L, kept = self._factorized
        order = kept if engine.weights is None else kept[:0]  # rows of L: landmarks
        number = np.full(len(features), -1)
        number[order] = np.arange(len(order))
        return KnownRows(self.place, features, number, L, kept, gram)


def span_of(
    kernel: Kernel,
    sketch: Sketch | None,
    rows: Source,
    rng: np.random.Generator,
    weights: Weights = None,
    *,
    also: Reduction | None = None,
    n_jobs: int | None = None,
    device: str | None = None,
) -> Span:
    """Return the landmarks of a sketch of rows.

    Parameters
    ----------
    kernel : Kernel
        Its words, such as gamma="scale", are resolved on the rows.
    sketch : Sketch or None
        None takes all distinct rows.
    rows : Source
        Encoded.
    rng : Generator
    weights : array, optional
        Of the rows: they count where the width of the kernel is found.
    also : Reduction, optional
        Made by the same pass.
    n_jobs, device
        Of the engine.
    """
    if len(rows) == 0:
        raise ValueError("Found array with 0 sample(s): a basis needs at least one row.")
    result = None
    if rows.pool is not None:  # a stream, whose first pass drew a sample
        result = None if also is None else rows.reduce(also, np.arange(len(rows)))
        (rows, weights), also = rows.pool, None
    for _ in range(_DRAWS):
        span = _survey(kernel, sketch, rows, rng, weights, also, n_jobs, device)
        if not span.is_zero:
            break
    return span if result is None else replace(span, also=result)


def _survey(
    kernel: Kernel,
    sketch: Sketch | None,
    rows: Source,
    rng: np.random.Generator,
    weights: Any,
    also: Reduction | None,
    n_jobs: int | None,
    device: str | None,
) -> Span:
    """Pass over the rows for the width of the kernel, the landmarks and another reduction."""
    rows.check_sketch(sketch)
    survey = Survey(rows)
    resolved = kernel.surveyed(survey, rng, weights)
    result = (lambda: None) if also is None else survey.reduce(also, np.arange(len(rows)))
    if sketch is None:
        survey.run()
        everything = rows.load()
        first, inverse = unique(everything)
        landmarks = take(everything, first)
        return Span(resolved(), landmarks, None, inverse, rows, True, result(), n_jobs, device)
    if sketch.needs_gram:
        survey.run()
        few = rows.gathered(getattr(sketch, "max_rows", 0))  # in memory, if it needs all
        draw = _drawn(sketch, len(rows), rng, KernelMatrix(resolved(), few, n_jobs))
        landmarks = rows.take(draw.indices)
    else:
        draw = _drawn(sketch, len(rows), rng)
        drawn_rows = survey.take(draw.indices)
        survey.run()
        landmarks = drawn_rows()
    W, number = draw.weights, np.arange(n_rows(landmarks))
    if sparse.issparse(W):
        landmarks, W, number = _merge_copies(landmarks, W)
    place = np.full(len(rows), -1)
    place[draw.indices] = number
    return Span(resolved(), landmarks, W, place, rows, False, result(), n_jobs, device)


def _drawn(sketch: Sketch, n: int, rng: np.random.Generator, gram: Any = None) -> Draw:
    """Draw a sketch of n rows; raise where it is none, which those of users may be."""
    draw = sketch.draw(n, rng, gram)
    if not hasattr(draw, "indices"):
        got = type(draw).__name__
        raise TypeError(f"{sketch!r}.draw must return a skout.sketches.Draw. Got {got} instead.")
    indices, W = np.asarray(draw.indices), draw.weights
    shape = (draw.shape[0], len(indices))
    if len(indices) == 0:
        raise ValueError(f"{sketch!r} drew no row at all of {n}: raise its p.")
    if np.any(np.diff(indices) <= 0):
        raise ValueError(f"{sketch!r} must draw sorted and distinct indices.")
    if draw.shape[1] != n or (shape[0] != shape[1] if W is None else W.shape != shape):
        raise ValueError(
            f"{sketch!r} drew {len(indices)} of {n} rows with the shape {draw.shape} and weights "
            f"of shape {getattr(W, 'shape', None)}. The shape must be (size, {n}), that of weights "
            f"{shape}."
        )
    return draw


def _merge_copies(landmarks: Any, weights: Any) -> tuple[Any, Any, np.ndarray]:
    """Add up the columns of a sparse W that stand for equal landmarks, of which one is kept.

    Returns landmarks, W and the number that each landmark has now.
    """
    first, inverse = unique(landmarks)
    if len(first) == n_rows(landmarks):
        return landmarks, weights, inverse
    ones = (np.ones(len(inverse)), inverse, np.arange(len(inverse) + 1))
    copies = sparse.csr_matrix(ones, shape=(len(inverse), len(first)))
    return take(landmarks, first), (weights @ copies).tocsr(), inverse
