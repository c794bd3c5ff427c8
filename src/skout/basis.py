"""Kernel + sketch -> orthonormal coordinates, for inputs and outputs alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ._arrays import float_dtype, match, n_rows, row_slices, take, unique
from ._lazy import is_streamed
from ._linalg import (
    PartlyWhitened,
    eigen_whitening,
    inverse_gram_product,
    partial_whitening,
    pivoted_cholesky,
    symmetric_eigenvalues,
    triangular_inverse,
    triangular_product,
)
from ._parts import PartsByName
from ._validation import check_choice, check_number, check_rng, check_rows
from .accuracy import Plan, accuracy_plan
from .chunks import Chunks, on_cluster
from .cluster import check_sketch, lazily, moments_on_cluster, rows_of
from .device import OnDevice, on_device
from .device_moments import device_moments
from .gram import KernelMatrix, LandmarkFeatures, project
from .kernels import Kernel, as_kernel
from .moments import KnownRows, Moments, Progress, Sample, accumulate
from .sketches import as_sketch

__all__ = ["KernelBasis"]

# Rows whose coordinates are held at a time where only their norms are wanted.
_RESIDUAL_ROWS = 2**15
# Copies are computed once where no more than this share of the rows is distinct.
_FEW_COPIES = 0.8


class KernelBasis(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PartsByName):
    """Orthonormal functions of a kernel's feature space, spanned by a sketch of the data.

    With a sketch R = W S of the n rows and K~ = R K R' = U D U', the coordinates of an object are

        z(y) = D^(-1/2) U' W k(landmarks, y)        in R^p, p = rank(K~)      (2.73, 3.11, 5.8)

    so that z(y) . z(y') is the kernel between the projections of y and y' on the span. Any other
    orthonormal basis of the span serves as well: pivoted Cholesky gives one ten times cheaper.

    Parameters
    ----------
    kernel : kernel, str or callable, default "gaussian"
    sketch : sketch, str or None, default None
        None is exact: the landmarks are the distinct rows, and z(y) . z(y') = k(y, y') on them.
    whiten : "cholesky" or "eigh", default "cholesky"
        "eigh" orders the coordinates by eigenvalue, largest first.
    rank : int, optional
        Keep so many of the largest coordinates; needs whiten="eigh". A few coordinates of a large
        sketch lose less than a sketch of as many.
    random_state : None, int or Generator
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.
    device : str, optional
        "cuda" computes coordinates on a card, to which rows on the host are streamed. Tensors on a
        card are computed there in any case.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with its parameters resolved, e.g. gamma="scale" into a number.
    landmarks_ : rows, m' of them
        With "cholesky" only those that the coordinates need.
    weights_ : None, ndarray or CSR matrix of shape (m, m')
        W; None for pure sub-sampling.
    components_ : ndarray of shape (p, m)
        ``z(y) = components_ @ W k(landmarks_, y)``.
    rank_ : int
        p, the number of coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelBasis
    >>> from skout.sketches import SubSample
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> KernelBasis("gaussian", SubSample(20), random_state=0).fit_transform(X).shape
    (200, 20)
    """

    _by_name: ClassVar = {"kernel": as_kernel, "sketch": as_sketch}

    def __init__(
        self,
        kernel: Any = "gaussian",
        sketch: Any = None,
        *,
        whiten: str = "cholesky",
        rank: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.sketch = sketch
        self.whiten = whiten
        self.rank = rank
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device

    def fit(self, X: Any, y: Any = None) -> KernelBasis:
        """Draw the sketch of X and find the basis of its span.

        Parameters
        ----------
        X : array, CSR matrix or objects that the kernel encodes, n of them
            Or, with a sketch, a dask array or a list of delayed blocks: only the rows that the
            sketch touches travel here.
        y : ignored

        Returns
        -------
        self : KernelBasis
        """
        check_choice(self.whiten, "whiten", ("cholesky", "eigh"))
        if self.rank is not None:
            check_number(self.rank, "rank", low=1, integer=True)
            if self.whiten != "eigh":
                raise ValueError('rank needs coordinates in an order: whiten="eigh".')
        kernel = as_kernel(self.kernel)
        rows = rows_of(self, kernel, X, reset=True)
        if n_rows(rows) == 0:
            raise ValueError("Found array with 0 sample(s): a basis needs at least one row.")
        return self._fit_rows(kernel, rows, check_rng(self.random_state))

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit, and return the coordinates of X.

        Without a sketch they are rows of the Cholesky factor, so this costs no more than `fit`.

        Parameters
        ----------
        X : array, CSR matrix or objects that the kernel encodes, n of them
        y : ignored

        Returns
        -------
        Z : ndarray of shape (n, p)
        """
        self.fit(X)
        if on_cluster(X):
            return self.transform(X)
        rows = check_rows(self, self.kernel_, X, reset=False)
        if is_streamed(rows) and as_sketch(self.sketch) is not None:
            return self._coordinates(rows)
        if as_sketch(self.sketch) is not None or self.whiten != "cholesky":
            first, inverse = unique(rows)
            if len(first) > _FEW_COPIES * n_rows(rows):
                return self._coordinates(rows)
            return self._coordinates(take(rows, first))[inverse]
        # z of landmark i is row i of L: z(l_i) . z(l_j) = k(l_i, l_j)
        position = match(rows, self.landmarks_)
        Z = triangular_inverse(self.components_)[position].astype(float_dtype(rows), copy=False)
        others = np.flatnonzero(position < 0)  # rows that depend on the landmarks
        if len(others):
            Z[others] = self._coordinates(take(rows, others))
        return Z

    def _fit_rows(
        self,
        kernel: Kernel,
        rows: Any,
        rng: np.random.Generator,
        weights: np.ndarray | None = None,
        remember: bool = False,
    ) -> KernelBasis:
        """Fit on encoded rows; their weights count where the kernel's width is found.

        With `remember`, the features of rows that are landmarks are kept for `moments`.
        """
        self.kernel_ = kernel.resolve(rows, rng, weights)
        landmarks, W, place = self._draw(rows, rng)
        matrix = KernelMatrix(self.kernel_, landmarks, self.n_jobs)
        gram, features = matrix.sketched(W)  # K~, phi(landmarks)
        self._spectrum: np.ndarray | None = None
        self._known: KnownRows | None = None
        # float32 kernel values cannot tell what is smaller from rounding
        single = float_dtype(rows) == np.float32
        noise = np.finfo(np.float32).eps * np.diagonal(gram).max() if single else 0.0
        if self.whiten == "eigh":
            C, spectrum = eigen_whitening(gram, len(gram) * noise)
            self.components_ = C[: self.rank]
            self._spectrum = spectrum[: self.rank]
        else:
            L, kept = pivoted_cholesky(gram, noise)
            landmarks, W = _keep(landmarks, W, kept)
            self.components_ = triangular_inverse(L)
            if remember and features is not None and not single and not isinstance(rows, Chunks):
                order = kept if W is None else kept[:0]  # rows of L are then landmarks
                number = np.full(len(features), -1)
                number[order] = np.arange(len(order))
                self._known = KnownRows(place, features, number, L, kept, gram)
        self.landmarks_, self.weights_ = landmarks, W
        self.rank_ = self._n_features_out = len(self.components_)
        # rows of K~ stand for this many rows of the data, see accuracy_plan
        self._n_effective = self.rank_ if W is None else n_rows(rows)
        return self

    def _draw(self, rows: Any, rng: np.random.Generator) -> tuple[Any, Any, np.ndarray]:
        """Return landmarks, W and the landmark that each row is, -1 where it is none."""
        sketch = as_sketch(self.sketch)
        rows = check_sketch(sketch, rows)
        if sketch is None:
            rows = rows[:] if isinstance(rows, OnDevice) else rows
            first, inverse = unique(rows)
            return take(rows, first), None, inverse
        gram = KernelMatrix(self.kernel_, rows, self.n_jobs) if sketch.needs_gram else None
        draw = sketch.draw(n_rows(rows), rng, gram)
        if len(draw.indices) == 0:
            raise ValueError(f"{sketch!r} drew no row at all of {n_rows(rows)}: raise its p.")
        landmarks, weights, number = _merge_copies(take(rows, draw.indices), draw.weights)
        place = np.full(n_rows(rows), -1)
        place[draw.indices] = number
        return landmarks, weights, place

    @property
    def eigenvalues_(self) -> np.ndarray:
        """Eigenvalues of K~, largest first; with "cholesky" over its independent rows."""
        check_is_fitted(self)
        if self._spectrum is not None:
            return self._spectrum
        L = triangular_inverse(self.components_)
        return symmetric_eigenvalues(L @ L.T)

    def transform(self, X: Any) -> np.ndarray:
        """Return the coordinates of X.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them

        Returns
        -------
        Z : ndarray of shape (n, p)
            In float32 if X is. For dask collections a dask array, for a tensor on a card a tensor.
        """
        check_is_fitted(self)
        if on_cluster(X):
            return lazily(self, "transform", X, (self.rank_,), like=self.landmarks_)
        return self._coordinates(rows_of(self, self.kernel_, X, reset=False))

    def _coordinates(self, rows: Any, out: np.ndarray | None = None) -> np.ndarray:
        rows = on_device(rows, self.device)
        return project(self._features(), rows, self.components_.T, n_jobs=self.n_jobs, out=out)

    def _features(self) -> LandmarkFeatures:
        return LandmarkFeatures(self.kernel_, self.landmarks_, self.weights_)

    def combine(self, values: Any) -> np.ndarray:
        """Return the sums over landmarks that the basis functions are, of `values` instead.

        With explicit features, k(y, y') = phi(y) . phi(y'), and `values` = ``phi(landmarks_)``,
        these are the basis functions as vectors: coordinates f stand for f @ combine(values).

        Parameters
        ----------
        values : array or CSR matrix of shape (m', q)
            One row a landmark.

        Returns
        -------
        sums : ndarray of shape (p, q)
        """
        check_is_fitted(self)
        mixed = values if self.weights_ is None else self.weights_ @ values
        mixed = mixed.toarray() if sparse.issparse(mixed) else mixed
        return self.components_ @ mixed

    def on_features(self, coef: np.ndarray) -> np.ndarray:
        """Return the matrix B with z(x) . coef = phi(x) . B, where phi is ``W k(landmarks_, .)``.

        Parameters
        ----------
        coef : ndarray of shape (p, d)

        Returns
        -------
        B : ndarray of shape (m, d)
        """
        if self._spectrum is not None:
            return self.components_.T @ coef
        return triangular_product(self.components_, coef, transposed=True)

    def on_coordinates(self, B: np.ndarray) -> np.ndarray:
        """Return coef with z(x) . coef = phi(x) . B, of which `on_features` is the inverse."""
        if self._spectrum is not None:
            return self._spectrum[:, None] * (self.components_ @ B)
        return triangular_product(triangular_inverse(self.components_), B, transposed=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def residual(self, X: Any) -> np.ndarray:
        """Return k(x, x) - ||z(x)||^2 >= 0, what the basis cannot see of each object.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them

        Returns
        -------
        residual : ndarray of shape (n,)
        """
        check_is_fitted(self)
        if on_cluster(X):
            return lazily(self, "residual", X, (), dtype=np.float64)
        rows = check_rows(self, self.kernel_, X, reset=False)
        parts = [take(rows, some) for some in row_slices(n_rows(rows), _RESIDUAL_ROWS)]
        return np.concatenate([self._residual(part) for part in parts])

    def _residual(self, rows: Any) -> np.ndarray:
        Z = self._coordinates(rows).astype(np.float64, copy=False)
        return np.maximum(self.kernel_.diag(rows) - np.einsum("ij,ij->i", Z, Z), 0.0)

    def moments(
        self,
        sample: Sample,
        alpha: float,
        *,
        whiten: bool = True,
        verbose: bool = False,
        checkpoint: Progress | None = None,
    ) -> list[Moments]:
        """Return the moments of (z(x), targets) without forming z(x) for every row.

        Parameters
        ----------
        sample : Sample
            Encoded rows, targets, weights, groups.
        alpha : float
            The smallest penalty the moments will be used with: it decides how much of the
            whitening must be done row by row, and in which precision.
        whiten : bool, default True
            Whether moments of features must become those of coordinates: to solve for a single
            alpha takes no whitening.
        verbose : bool, default False
        checkpoint : Checkpoint, optional
            Where the sums over the first blocks are kept.

        Returns
        -------
        moments : list of Moments, one a group
        """
        plan = self._plan(sample.rows, alpha)
        known, self._known = self._known, None
        if isinstance(sample.rows, OnDevice):
            mean = self._mean_features().astype(plan.dtype) if plan.centre else None
            partial = plan.size < self.rank_ and not plan.centre and not whiten
            parts = device_moments(
                self._features(), sample, plan, self.components_, mean, finish=not partial
            )
            partly = PartlyWhitened(self.components_, plan.size) if partial else None
            return [replace(part, partly=partly) for part in parts]
        if isinstance(sample.rows, Chunks):
            parts = moments_on_cluster(self, sample, plan)
        else:
            parts = self._block_moments(sample, plan, known, verbose, checkpoint)
        if plan.size < self.rank_ and not plan.centre and not whiten:
            gram = None if known is None else known.gram[np.ix_(known.kept, known.kept)]
            partly = PartlyWhitened(self.components_, plan.size, gram)
            return [replace(part, partly=partly) for part in parts]
        if plan.size < self.rank_:
            finish = PartlyWhitened(self.components_, plan.size).finish()
            parts = [part.map(finish) for part in parts]
        if plan.centre:
            mean = self._mean_features().astype(plan.dtype)
            parts = [part.shifted(self.components_ @ mean) for part in parts]
        return parts

    def _plan(self, rows: Any, alpha: float) -> Plan:
        """Choose what is done to each block; it must not depend on how the rows are cut."""
        if self._spectrum is not None:
            return Plan(self.rank_, False, np.dtype(np.float64))
        shift, dtype = self._n_effective * alpha, float_dtype(rows)
        may_centre = self.weights_ is None
        return accuracy_plan(self.components_, shift, dtype, may_centre, n_rows(rows))

    def _block_moments(
        self,
        sample: Sample,
        plan: Plan,
        known: KnownRows | None = None,
        verbose: bool = False,
        checkpoint: Progress | None = None,
    ) -> list[Moments]:
        """Return the moments of features that are whitened as far as the plan says."""
        sample, values = sample.by_value()
        landmarks = None
        if known is not None and plan.size == self.rank_:
            sample, landmarks = known.split(sample)
        parts = accumulate(
            self._features(),
            sample,
            known=known if landmarks is None else None,
            prepare=self._preparation(plan),
            p=self.rank_,
            dtype=plan.dtype,
            n_jobs=self.n_jobs,
            verbose=verbose,
            checkpoint=checkpoint,
        )
        if landmarks is not None:  # only now: threads of BLAS would slow those of the blocks
            parts = [a + b for a, b in zip(parts, landmarks(), strict=True)]
        return parts if values is None else [part.of_values(values) for part in parts]

    def _preparation(self, plan: Plan) -> Callable[[np.ndarray], np.ndarray]:
        """Return what is done to each block of features."""
        if plan.centre:
            mean = self._mean_features().astype(plan.dtype)
            return lambda F: np.subtract(F, mean, out=F)
        if self._spectrum is not None:
            return lambda F: F @ self.components_.T
        return partial_whitening(self.components_, plan.size, plan.dtype)[0]

    def _mean_features(self) -> np.ndarray:
        """Return the mean of phi over the landmarks, if these are all of K~."""
        return inverse_gram_product(self.components_, np.ones(self.rank_)) / self.rank_


def _merge_copies(landmarks: Any, weights: Any) -> tuple[Any, Any, np.ndarray]:
    """Add up the columns of W that stand for equal landmarks, of which one is kept.

    Returns landmarks, W and the number that each landmark has now.
    """
    everything = np.arange(n_rows(landmarks))
    if weights is None or not sparse.issparse(weights):
        return landmarks, weights, everything
    first, inverse = unique(landmarks)
    if len(first) == len(everything):
        return landmarks, weights, everything
    ones = (np.ones(len(inverse)), inverse, np.arange(len(inverse) + 1))
    copies = sparse.csr_matrix(ones, shape=(len(inverse), len(first)))
    return take(landmarks, first), (weights @ copies).tocsr(), inverse


def _keep(landmarks: Any, weights: Any, rows: np.ndarray) -> tuple[Any, Any]:
    """Keep some rows of R = W S, and only the landmarks that they touch."""
    if weights is None:
        return take(landmarks, rows), None
    weights = weights[rows]
    if not sparse.issparse(weights):
        return landmarks, weights
    used = np.unique(weights.indices)
    return take(landmarks, used), weights[:, used].tocsr()
