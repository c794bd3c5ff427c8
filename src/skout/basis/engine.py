"""The span of a sketch: its coordinates z(x) = C W k(landmarks, x), and the sums that fits need."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import bandwidth

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
from .._numerics.types import Array, Floats, Ints, Matrix, Rows, Weights
from ..kernels import Kernel
from ..rows import Memory, Progress, Reduction, Source, Survey, on_device
from ..sketches import Sketch
from .features import KernelMatrix, LandmarkFeatures, Projection, Residual, principal
from .moments import AnyMoments, PartlyWhitened
from .passes import BlockMoments, KnownRows, TrainingSample, Whitening, WhiteningPlan, accuracy_plan

# If at most this share of the rows is distinct, the coordinates of equal rows are computed once.
_MOST_DISTINCT = 0.8
# Pivots up to this many times the rounding of kernel values count as zero: copies have such.
_COPIES = 8.0
# From so many landmarks on, K~ is not computed before it is needed.
_LARGE = 2000
# Most draws of a sketch whose random signs let equal rows cancel, so that nothing is left.
_DRAWS = 8


class Engine:
    """The span of a sketch as functions of encoded rows: features, coordinates and moments.

    No call changes it: what it computes late (the components, where nobody needed them in the fit)
    depends on its parts alone.
    """

    def __init__(
        self,
        kernel: Kernel,  # with numeric parameters
        landmarks: Rows,  # m' of them
        weights: Matrix | None = None,  # W, (m, m'); None for pure sub-sampling
        components: Floats | None = None,  # C, (p, m); None finds them when they are first needed
        *,
        whiten: str = "cholesky",  # how C was found, see `KernelBasis`
        spectrum: Floats | None = None,  # eigenvalues of K~ = W K W', or those of "kpca", (p,)
        is_exact: bool = False,  # whether the landmarks are all distinct rows: no sketch
        is_single: bool = False,  # whether the rows of the fit were float32
        n_effective: int | None = None,  # rows that those of K~ stand for; None if as many
        n_jobs: int | None = None,
        device: str | None = None,  # where coordinates are computed; None is where the rows are
    ) -> None:
        self.kernel, self.landmarks, self.weights = kernel, landmarks, weights
        self.whiten, self.spectrum = whiten, spectrum
        self.is_exact, self.is_single = is_exact, is_single
        self.n_jobs, self.device = n_jobs, device
        self.n_effective = n_rows(landmarks) if n_effective is None else n_effective
        self.features = LandmarkFeatures(kernel, landmarks, weights)  # prepared once
        if components is not None:
            self.components = components

    @functools.cached_property
    def components(self) -> Floats:
        """C for landmarks in their own order: L^-1 of K~ = L L' where no pivot is noise.

        Else those of `pivoted_cholesky`, with zeros for the landmarks that depend on others.
        """
        gram, rounding = self.gram()
        noise = _pivot_noise(gram, rounding, self.is_single)
        noise = max(noise, len(gram) * np.finfo(np.float64).eps)
        factor = cholesky(gram.copy())
        if factor is not None and factor.smallest() ** 2 > noise:
            return triangular_inverse(np.tril(factor.L))
        L, kept = pivoted_cholesky(gram, noise)
        components = np.zeros((len(L), len(gram)))
        components[:, kept] = triangular_inverse(L)
        return components

    @property
    def has_components(self) -> bool:
        """Whether the components are known already."""
        return "components" in self.__dict__

    @property
    def rank(self) -> int:
        """The number of coordinates, p."""
        return len(self.components)

    @functools.cached_property
    def is_triangle(self) -> bool:
        """Whether C is a lower triangle, the inverse of a Cholesky factor of K~."""
        is_square = self.rank == self.components.shape[1]
        return self.spectrum is None and is_square and bandwidth(self.components)[1] == 0

    def gram(self) -> tuple[Floats, float]:
        """Return K~ = W K W', and the rounding of its values."""
        matrix = KernelMatrix(self.kernel, self.landmarks, self.n_jobs)
        gram, _, rounding = matrix.sketched(self.weights)
        return gram, rounding

    def eigenvalues(self) -> Floats:
        """Return the eigenvalues of K~, with "kpca" mean squares of the coordinates."""
        if self.spectrum is not None:
            return self.spectrum
        if not self.is_triangle:
            return symmetric_eigenvalues(self.gram()[0])[: self.rank]
        L = triangular_inverse(self.components)
        return symmetric_eigenvalues(L @ L.T)

    # Coordinates ----------------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """x -> z(x), for `Source.map`."""
        return Projection(self.features, self.components.T)

    def coordinates(self, rows: Source, out: np.ndarray | None = None) -> Array:
        """Return z(x) of each row, shape (n, p)."""
        rows = rows if self.device is None else on_device(rows, self.device)
        tail = (self.rank,)
        return rows.map(self.projection, tail, rows.precision, n_jobs=self.n_jobs, out=out)

    def training_coordinates(self, rows: Source) -> Array:
        """Return the coordinates of the rows of the fit; those of equal rows are computed once."""
        if self.is_exact and self.whiten == "cholesky":
            everything = rows.load()
            position = match(everything, self.landmarks)
            # z(l_i) . z(l_j) = k(l_i, l_j) of landmarks: rows of L
            Z = triangular_inverse(self.components)[position]
            Z = Z.astype(float_dtype(everything), copy=False)
            others = np.flatnonzero(position < 0)  # rows that depend on landmarks
            if len(others):
                Z[others] = self.coordinates(Memory(take(everything, others)))
            return Z
        copies = rows.copies(_MOST_DISTINCT)
        if copies is None:
            return self.coordinates(rows)
        first, inverse = copies
        return self.coordinates(rows.subset(first))[inverse]

    def residual(self, rows: Source) -> Array:
        """Return k(x, x) - ||z(x)||^2 of each row."""
        residual = Residual(self.features, self.components)
        return rows.map(residual, (), np.float64, n_jobs=self.n_jobs)

    def combine(self, values: Matrix) -> Floats:
        """Return C W values: the rows of `values`, one a landmark, as the basis combines those."""
        mixed = values if self.weights is None else self.weights @ values
        mixed = mixed.toarray() if sparse.issparse(mixed) else mixed
        return self.components @ mixed

    def on_features(self, coef: Floats) -> Floats:
        """Return B, (m, d), with z(x) . coef = phi(x) . B, where phi is W k(landmarks, .)."""
        if not self.is_triangle:
            return self.components.T @ coef
        return triangular_product(self.components, coef, transposed=True)

    def on_coordinates(self, B: Floats) -> Floats:
        """Return coef with z(x) . coef = phi(x) . B, of which `on_features` is the inverse."""
        if self.is_triangle:
            return triangular_product(triangular_inverse(self.components), B, transposed=True)
        if self.spectrum is None or self.whiten == "kpca":
            return self.components @ (self.gram()[0] @ B)
        return self.spectrum[:, None] * (self.components @ B)

    # Moments --------------------------------------------------------------------------------------

    def plan(self, rows: Source, alpha: float, center: bool = True) -> WhiteningPlan:
        """Choose what is done to each block; the choice must not depend on the size of blocks."""
        if self.spectrum is not None:
            return WhiteningPlan(self.rank, False, np.dtype(np.float64))
        shift, may_center = self.n_effective * alpha, center and self.weights is None
        return accuracy_plan(self.components, shift, rows.precision, may_center, len(rows))

    def moments(
        self,
        sample: TrainingSample,
        alpha: float,
        *,
        known: KnownRows | None = None,
        whiten: bool = True,
        center: bool = True,
        progress: Progress | None = None,
    ) -> list[AnyMoments]:
        """Return the moments of (z(x), targets) without forming z(x) for every row, one a group.

        `alpha` is the smallest penalty they will be used with: how far to whiten in each row.
        Unless they must be `whiten`ed, those of features need not become those of coordinates,
        for a single alpha say; features may be `center`ed, whose moments are whitened in any case.
        """
        C, plan, mean = self.components, self.plan(sample.rows, alpha, center), None
        if plan.center:  # the mean of phi over the landmarks, if K~ is their kernel matrix
            mean = inverse_gram_product(C, np.ones(self.rank)) / self.rank
        sample, values = sample.by_value()
        sample, known = sample.by_group(known)
        of_landmarks = None
        if known is not None and plan.size == self.rank:
            sample, of_landmarks = known.split(sample)
        known = known if of_landmarks is None else None
        whitening = Whitening(C, plan, mean, self.spectrum is not None)
        parts: list[Any] = sample.rows.reduce(
            BlockMoments(self.features, whitening, sample, known), sample.targets, sample.weights,
            sample.groups, None if known is None else known.place, progress=progress,
            n_jobs=self.n_jobs,
        )  # fmt: skip
        if of_landmarks is not None:  # after the pass, to spare its threads those of BLAS
            parts = [operator.iadd(a, b) for a, b in zip(parts, of_landmarks(), strict=True)]
        if values is not None:
            parts = [part.of_values(values) for part in parts]
        partly = PartlyWhitened(C, plan.size)
        if plan.size < self.rank and not plan.center and not whiten:
            if known is not None:
                partly = partly._replace(gram=known.gram[np.ix_(known.kept, known.kept)])
            return [part.each(lambda sums: replace(sums, partly=partly)) for part in parts]
        if plan.size < self.rank:
            finish = partly.finish()
            parts = [part.each(lambda sums: sums.map(finish)) for part in parts]
        if mean is not None:
            shift = C @ mean.astype(plan.dtype)
            parts = [part.each(lambda sums: sums.shifted(shift)) for part in parts]
        return parts


def _pivot_noise(gram: Floats, rounding: float, is_single: bool) -> float:
    """Return how large a pivot of K~ may be by rounding alone."""
    # smaller pivots cannot be distinguished from the rounding of float32 kernel values
    noise = np.finfo(np.float32).eps * np.diagonal(gram).max() if is_single else 0.0
    return max(noise, _COPIES * rounding)


# From a kernel, a sketch and rows to an engine ----------------------------------------------------


@dataclass(frozen=True)
class Span:
    """The landmarks of a sketch of rows and how it mixes them, before anything is factorized."""

    kernel: Kernel  # its parameters resolved on the rows
    landmarks: Rows  # m' of them
    weights: Matrix | None  # W, (m, m'); None for pure sub-sampling
    drawn: Ints | None  # positions of the rows that the sketch drew; None without a sketch: all
    number: Ints  # the number of the landmark that each of these rows is
    rows: Source  # what the sketch was drawn from: the rows, or a sample of them
    also: Any = None  # the result of another reduction that the same pass over the rows made
    n_jobs: int | None = None
    device: str | None = None

    @property
    def m(self) -> int:
        """The number of features: of rows of W, or of landmarks."""
        return n_rows(self.landmarks) if self.weights is None else self.weights.shape[0]

    @property
    def is_exact(self) -> bool:
        """Whether there is no sketch: the landmarks are all distinct rows."""
        return self.drawn is None

    @property
    def place(self) -> Ints:
        """The number of the landmark that each row is, -1 where it is none, (n,)."""
        if self.drawn is None:
            return self.number
        place = np.full(len(self.rows), -1)
        place[self.drawn] = self.number
        return place

    @functools.cached_property
    def _sketched(self) -> tuple[Floats, Floats | None, float]:
        """K~ = W K W', K W' where that is not too large, and how large a pivot rounding makes."""
        matrix = KernelMatrix(self.kernel, self.landmarks, self.n_jobs)
        gram, features, rounding = matrix.sketched(self.weights)
        is_single = self.rows.precision == np.float32
        return gram, features, _pivot_noise(gram, rounding, is_single)

    def _engine(
        self, landmarks: Rows, W: Matrix | None, C: Floats | None, **options: Any
    ) -> Engine:
        return Engine(
            self.kernel, landmarks, W, C, is_exact=self.is_exact,
            is_single=self.rows.precision == np.float32, n_jobs=self.n_jobs, device=self.device,
            n_effective=None if W is None else len(self.rows), **options,
        )  # fmt: skip

    def unfactorized(self) -> Engine:
        """Return the engine of all landmarks, whose components are found when they are needed."""
        landmarks = self.landmarks
        if self.weights is None:
            first, _ = unique(landmarks)
            landmarks = landmarks if len(first) == n_rows(landmarks) else take(landmarks, first)
        return self._engine(landmarks, self.weights, None)

    def engine(self, whiten: str = "cholesky", rank: int | None = None) -> Engine:
        """Return the engine with its components, of the landmarks that they need."""
        if whiten == "cholesky":
            return self._factorized[0]
        gram, _, noise = self._sketched
        C, spectrum = eigen_whitening(gram, len(gram) * noise)
        if whiten == "kpca":
            features = LandmarkFeatures(self.kernel, self.landmarks, self.weights)
            C, spectrum = principal(features, C, on_device(self.rows, self.device))
        options = {"whiten": whiten, "spectrum": spectrum[:rank]}
        return self._engine(self.landmarks, self.weights, C[:rank], **options)

    @functools.cached_property
    def _factorized(self) -> tuple[Engine, KnownRows | None]:
        """The engine by pivoted Cholesky, and the features of the landmarks where those serve.

        Then K~ and its factor are let go: while the pass over the rows runs they would take as
        much memory as the moments themselves.
        """
        gram, features, noise = self._sketched
        del self.__dict__["_sketched"]
        L, kept = pivoted_cholesky(gram, noise)
        landmarks, W = self.landmarks, None if self.weights is None else self.weights[kept]
        if W is None:
            landmarks = take(landmarks, kept)
        elif sparse.issparse(W):  # only the landmarks that these rows touch
            used = np.unique(W.indices)
            landmarks, W = take(landmarks, used), W[:, used].tocsr()
        engine = self._engine(landmarks, W, triangular_inverse(L))
        if features is None or self.rows.precision == np.float32 or not self.rows.has_shortcuts:
            return engine, None
        order = kept if W is None else kept[:0]  # rows of L: landmarks
        number = np.full(len(features), -1)
        number[order] = np.arange(len(order))
        return engine, KnownRows(self.place, features, number, L, kept, gram)

    def known_rows(self) -> KnownRows | None:
        """Return the features of rows that are landmarks, for `Engine.moments` of the same rows."""
        return self._factorized[1]


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
    """Return the landmarks of a sketch of encoded rows; of no sketch all distinct rows.

    Words of the kernel, such as gamma="scale", are resolved on the rows and their weights, by the
    same pass that makes `also`.
    """
    if len(rows) == 0:
        raise ValueError("Found array with 0 sample(s): a basis needs at least one row.")
    result: Callable[[], Any] = lambda: None  # noqa: E731
    if rows.pool is not None:  # a stream, whose first pass drew a sample
        made = None if also is None else rows.reduce(also, np.arange(len(rows)))
        result, (rows, weights), also = lambda: made, rows.pool, None
    rows.check_sketch(sketch)
    for _ in range(_DRAWS):
        survey = Survey(rows)
        resolved = kernel.surveyed(survey, rng, weights)
        if also is not None:
            result = survey.reduce(also, np.arange(len(rows)))
        if sketch is None:
            survey.run()
            everything = rows.load()
            first, number = unique(everything)
            landmarks, W, drawn = take(everything, first), None, None
        else:
            landmarks, W, drawn, number = _drawn(sketch, survey, rng, resolved, n_jobs)
        span = Span(resolved(), landmarks, W, drawn, number, rows, result(), n_jobs, device)
        if W is None or span.m >= _LARGE or span._sketched[0].any():
            break  # else random signs of W made equal rows cancel, and nothing is left
    return span


def _drawn(
    sketch: Sketch,
    survey: Survey,
    rng: np.random.Generator,
    kernel: Callable[[], Kernel],
    n_jobs: int | None,
) -> tuple[Rows, Matrix | None, Ints, Ints]:
    """Run a survey, and return landmarks, W, the rows drawn and the landmark that each of them is.

    Landmarks that are equal are merged where W is sparse: its columns are added up. Sketches of
    users are checked.
    """
    n, rows = len(survey), survey.source
    if sketch.needs_gram:
        survey.run()
        few = rows.gathered(getattr(sketch, "max_rows", 0))  # in memory, if it needs all
        draw = sketch.draw(n, rng, KernelMatrix(kernel(), few, n_jobs))
    else:
        draw = sketch.draw(n, rng, None)
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
    if sketch.needs_gram:
        landmarks = rows.take(draw.indices)
    else:
        drawn_rows = survey.take(draw.indices)
        survey.run()
        landmarks = drawn_rows()
    number = np.arange(len(indices))
    if sparse.issparse(W):
        first, number = unique(landmarks)
        if len(first) < len(number):
            ones = (np.ones(len(number)), number, np.arange(len(number) + 1))
            copies = sparse.csr_matrix(ones, shape=(len(number), len(first)))
            landmarks, W = take(landmarks, first), (W @ copies).tocsr()
    return landmarks, W, indices, number
