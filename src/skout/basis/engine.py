"""Coordinates of a fitted basis, z(x) = C W k(landmarks, x), and the sums that fits need."""

from __future__ import annotations

import functools
import operator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import float_dtype, match, take
from .._numerics.factors import cholesky
from .._numerics.linalg import (
    inverse_gram_product,
    pivoted_cholesky,
    symmetric_eigenvalues,
    triangular_inverse,
    triangular_product,
)
from ..kernels import Kernel
from ..rows import Memory, Progress, Source, on_device
from ..solvers.moments import Moments, PartlyWhitened
from .features import KernelMatrix, LandmarkFeatures, Projection
from .passes import BlockMoments, KnownRows, Plan, Sample, Whitening, accuracy_plan
from .products import Residual

__all__ = ["Engine", "kept_rows", "pivot_noise"]

# If at most this share of the rows is distinct, the coordinates of equal rows are computed once.
_MOST_DISTINCT = 0.8
# Pivots up to this many times the rounding of kernel values count as zero: copies have such.
_COPIES = 8.0


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
        noise = pivot_noise(gram, rounding, self.is_single)
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

    def independent(self) -> Engine:
        """Return the engine of the landmarks that do not depend on others, with components."""
        gram, rounding = self.gram()
        L, kept = pivoted_cholesky(gram, pivot_noise(gram, rounding, self.is_single))
        landmarks, weights = kept_rows(self.landmarks, self.weights, kept)
        return Engine(
            self.kernel, landmarks, weights, triangular_inverse(L),
            is_exact=self.is_exact, is_single=self.is_single,
            n_effective=None if weights is None else self._n_effective,
            n_jobs=self.n_jobs, device=self.device,
        )  # fmt: skip

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
            return self._exact_coordinates(rows.here())
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
        centre: bool = True,
        progress: Progress | None = None,
    ) -> list[Moments]:
        """Return the moments of (z(x), targets) without forming z(x) for every row, one a group.

        Parameters
        ----------
        sample : Sample
            Encoded rows, targets, weights, groups.
        alpha : float
            The smallest penalty they will be used with: how far to whiten in each row.
        known : KnownRows, optional
            Features of rows of the sample that need not be computed, see `span_of`.
        whiten, centre : bool, default True
            Whether moments of features must become those of coordinates, not for a single alpha;
            and whether features may be centered, whose moments are whitened in any case.
        progress : Progress, optional
            Is told how far the pass is.
        """
        plan = self.plan(sample.rows, alpha, centre)
        mean = None
        if plan.centre:  # the mean of phi over the landmarks, if K~ is their kernel matrix
            mean = inverse_gram_product(self.components, np.ones(self.rank)) / self.rank
        parts = self._block_moments(sample, plan, mean, known, progress)
        if plan.size < self.rank and not plan.centre and not whiten:
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

    def plan(self, rows: Source, alpha: float, centre: bool = True) -> Plan:
        """Choose what is done to each block; the choice must not depend on the size of blocks."""
        if self.spectrum is not None:
            return Plan(self.rank, False, np.dtype(np.float64))
        shift, dtype = self.n_effective * alpha, rows.precision
        may_centre = centre and self.weights is None
        return accuracy_plan(self.components, shift, dtype, may_centre, len(rows))

    def _block_moments(
        self,
        sample: Sample,
        plan: Plan,
        mean: np.ndarray | None,
        known: KnownRows | None,
        progress: Progress | None,
    ) -> list[Moments]:
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
        return parts if values is None else [part.of_values(values) for part in parts]


def pivot_noise(gram: np.ndarray, rounding: float, is_single: bool) -> float:
    """Return how large a pivot of K~ may be by rounding alone."""
    # smaller pivots cannot be told from the rounding of float32 kernel values
    noise = np.finfo(np.float32).eps * np.diagonal(gram).max() if is_single else 0.0
    return max(noise, _COPIES * rounding)


def kept_rows(landmarks: Any, weights: Any, rows: np.ndarray) -> tuple[Any, Any]:
    """Return landmarks and W of some rows of R = W S: only the landmarks that these touch."""
    if weights is None:
        return take(landmarks, rows), None
    weights = weights[rows]
    if not sparse.issparse(weights):
        return landmarks, weights
    used = np.unique(weights.indices)
    return take(landmarks, used), weights[:, used].tocsr()
