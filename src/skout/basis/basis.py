"""Kernel + sketch -> orthonormal coordinates, for inputs and outputs alike."""

from __future__ import annotations

import functools
import operator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import float_dtype, match, n_rows, take, unique
from .._numerics.linalg import (
    eigen_whitening,
    inverse_gram_product,
    pivoted_cholesky,
    symmetric_eigenvalues,
    triangular_inverse,
    triangular_product,
)
from .._numerics.validation import PartsByName, all_at_once, check_choice, check_number, check_rng
from ..kernels import Kernel, as_kernel
from ..rows import Memory, Progress, Reduction, Source, Survey, encoded, on_device, unpacked
from ..sketches import as_sketch, least_rows
from ..solvers.moments import Moments, PartlyWhitened
from .features import (
    KernelMatrix,
    LandmarkFeatures,
    Projection,
    distinct,
    drawn,
    keep,
    late_components,
    merge_copies,
    pivot_noise,
)
from .passes import BlockMoments, KnownRows, Plan, Sample, Whitening, accuracy_plan
from .products import Residual, principal

__all__ = ["KernelBasis"]

# Most draws of a sketch whose random signs let equal rows cancel, so that nothing is left.
_DRAWS = 8
# What a basis that was fitted lazily finds when it is asked for.
_LAZY = ("components_", "rank_", "_n_features_out")
# If at most this share of the rows is distinct, the coordinates of equal rows are computed once.
_MOST_DISTINCT = 0.8


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
    whiten : "cholesky", "eigh" or "kpca", default "cholesky"
        "eigh" orders the coordinates by the eigenvalues of K~, largest first, "kpca" by their mean
        square over all rows: sketched kernel PCA (5.7), one more pass.
    rank : int, optional
        Keep so many of the first coordinates, not with "cholesky". A few coordinates of a large
        sketch lose less than a sketch of as many.
    random_state : None, int or Generator
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.
    device : str, optional
        "cuda" computes coordinates on a card, to which rows on the host are streamed; "auto" does
        if there is one. None is where the data are.

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

    _by_name: ClassVar[dict[str, Any]] = {"kernel": as_kernel, "sketch": as_sketch}
    _padded = False  # whether landmarks that depend on others have columns of zeros: no triangle

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

    @all_at_once
    def fit(self, X: Any, y: Any = None) -> KernelBasis:
        """Draw the sketch of X and find the basis of its span.

        Parameters
        ----------
        X : array, CSR matrix, objects that the kernel encodes, n of them, or Blocks
            Or, with a sketch, a dask array or a list of delayed blocks: only the rows that the
            sketch touches travel here.
        y : ignored

        Returns
        -------
        self : KernelBasis
        """
        self._fitted_on(X)
        return self

    def _fitted_on(self, X: Any) -> Source:
        """Fit on X, and return its rows."""
        self._check()
        kernel = as_kernel(self.kernel)
        X, _, weights = unpacked(
            X, None, None, seed=self.random_state, size=least_rows(self.sketch)
        )
        rows = encoded(self, kernel, X, reset=True)
        self._fit_rows(kernel, rows, check_rng(self.random_state), weights)
        return rows

    def _check(self) -> None:
        """Check the parameters."""
        check_choice(self.whiten, "whiten", ("cholesky", "eigh", "kpca"))
        if self.rank is not None:
            check_number(self.rank, "rank", low=1, integer=True)
            if self.whiten == "cholesky":
                raise ValueError('rank needs coordinates in an order: whiten="eigh" or "kpca".')

    @all_at_once
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
        return self._training_coordinates(self._fitted_on(X))

    def _training_coordinates(self, rows: Source) -> Any:
        """Return the coordinates of the rows that this was fitted on; of copies only once."""
        if as_sketch(self.sketch) is None and self.whiten == "cholesky":
            return self._exact_coordinates(rows.here())
        copies = rows.copies(_MOST_DISTINCT)
        if copies is None:
            return self._coordinates(rows)
        first, inverse = copies
        return self._coordinates(rows.subset(first))[inverse]

    def _exact_coordinates(self, rows: Any) -> np.ndarray:
        """Return rows of L for landmarks: z(l_i) . z(l_j) = k(l_i, l_j)."""
        position = match(rows, self.landmarks_)
        Z = triangular_inverse(self.components_)[position].astype(float_dtype(rows), copy=False)
        others = np.flatnonzero(position < 0)  # rows that depend on landmarks
        if len(others):
            Z[others] = self._coordinates(Memory(take(rows, others)))
        return Z

    def _fit_rows(
        self,
        kernel: Kernel,
        rows: Source,
        rng: np.random.Generator,
        weights: Any = None,
        *,
        remember: bool = False,
        lazily: float = np.inf,
        also: Reduction | None = None,
    ) -> Any:
        """Fit on encoded rows; their weights count where the kernel's width is found.

        With `remember`, the features of rows that are landmarks are kept for `_moments`. From
        `lazily` landmarks on, the components are only found when somebody asks for them. Returns
        the result of the reduction `also`, which the same pass makes.
        """
        if len(rows) == 0:
            raise ValueError("Found array with 0 sample(s): a basis needs at least one row.")
        answer = None
        if rows.pool is not None:  # a stream, whose first pass drew a sample
            answer = None if also is None else rows.reduce(also, np.arange(len(rows)))
            (rows, weights), remember, also = rows.pool, False, None
        for _ in range(_DRAWS):
            found = self._survey(kernel, rows, rng, weights, also)
            self.kernel_, landmarks, W, place = found[:4]
            later = n_rows(landmarks if W is None else W) >= lazily
            if later:
                landmarks = distinct(landmarks) if W is None else landmarks
                break
            sketched = KernelMatrix(self.kernel_, landmarks, self.n_jobs).sketched(W)
            if W is None or sketched[0].any():
                break
        answer = answer if also is None else found[4]
        self._single = rows.precision == np.float32
        # rows of K~ stand for this many rows of the data, see accuracy_plan
        self._n_effective = n_rows(landmarks) if W is None else len(rows)
        self._known: KnownRows | None = None
        self._spectrum: np.ndarray | None = None
        self.landmarks_, self.weights_ = landmarks, W
        if not later:
            self._factorise(rows, *sketched, place if remember and rows.has_shortcuts else None)
        # now: scikit-learn wants that `transform` adds no attribute
        self._features = LandmarkFeatures(self.kernel_, self.landmarks_, self.weights_)
        return answer

    def _factorise(
        self, rows: Any, gram: np.ndarray, features: Any, rounding: float, place: Any
    ) -> None:
        """Find the components and keep the landmarks that they need; remember the rows `place`."""
        noise = pivot_noise(gram, rounding, self._single)
        if self.whiten != "cholesky":
            C, spectrum = eigen_whitening(gram, len(gram) * noise)
            if self.whiten == "kpca":
                phi = LandmarkFeatures(self.kernel_, self.landmarks_, self.weights_)
                C, spectrum = principal(phi, C, self._there(rows))
            self.components_, self._spectrum = C[: self.rank], spectrum[: self.rank]
        else:
            L, kept = pivoted_cholesky(gram, noise)
            self.landmarks_, self.weights_ = keep(self.landmarks_, self.weights_, kept)
            self.components_ = triangular_inverse(L)
            if place is not None and features is not None and not self._single:
                order = kept if self.weights_ is None else kept[:0]  # rows of L: landmarks
                number = np.full(len(features), -1)
                number[order] = np.arange(len(order))
                self._known = KnownRows(place, features, number, L, kept, gram)
        self.rank_ = self._n_features_out = len(self.components_)
        if self.weights_ is None:
            self._n_effective = self.rank_

    def __getattr__(self, name: str) -> Any:
        """Find the components where nobody needed them yet; the landmarks stay as they are."""
        if name not in _LAZY or "landmarks_" not in self.__dict__:
            if hasattr(type(self), name):  # a property, of a basis that is not fitted
                check_is_fitted(self)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.components_, self._padded = late_components(*self._sketched(), self._single)
        self.rank_ = self._n_features_out = len(self.components_)
        return self.__dict__[name]

    def _sketched(self) -> tuple[np.ndarray, float]:
        """Return K~, and the rounding of its values."""
        matrix = KernelMatrix(self.kernel_, self.landmarks_, self.n_jobs)
        gram, _, rounding = matrix.sketched(self.weights_)
        return gram, rounding

    def _survey(
        self,
        kernel: Kernel,
        rows: Source,
        rng: np.random.Generator,
        weights: Any,
        also: Reduction | None,
    ) -> tuple[Kernel, Any, Any, np.ndarray, Any]:
        """Pass over the rows for the width of the kernel, the landmarks and what else is wanted.

        Returns the kernel with its parameters resolved, landmarks, W, the number of the landmark
        that each row is, -1 where it is none, and what `also` found.
        """
        sketch = as_sketch(self.sketch)
        rows.check_sketch(sketch)
        survey = Survey(rows)
        resolved = kernel.surveyed(survey, rng, weights)
        answer = (lambda: None) if also is None else survey.reduce(also, np.arange(len(rows)))
        if sketch is None:
            survey.run()
            everything = rows.here()
            first, inverse = unique(everything)
            return resolved(), take(everything, first), None, inverse, answer()
        gram = None
        if sketch.needs_gram:
            survey.run()
            few = rows.gathered(getattr(sketch, "max_rows", 0))  # in memory, if it needs all
            gram = KernelMatrix(resolved(), few, self.n_jobs)
        draw = drawn(sketch, len(rows), rng, gram)
        if gram is None:
            landmarks = survey.take(draw.indices)
            survey.run()
            found = landmarks()
        else:
            found = rows.take(draw.indices)
        W, number = draw.weights, np.arange(n_rows(found))
        if sparse.issparse(W):
            found, W, number = merge_copies(found, W)
        place = np.full(len(rows), -1)
        place[draw.indices] = number
        return resolved(), found, W, place, answer()

    @property
    def eigenvalues_(self) -> np.ndarray:
        """Eigenvalues of K~, with "kpca" mean squares of the coordinates; the largest first."""
        check_is_fitted(self)
        if self._spectrum is not None:
            return self._spectrum
        if self._padded:
            return symmetric_eigenvalues(self._sketched()[0])[: self.rank_]
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
        return self._coordinates(encoded(self, self.kernel_, X, reset=False))

    def _coordinates(self, rows: Source, out: np.ndarray | None = None) -> Any:
        rows, found = self._there(rows), Projection(self._features, self.components_.T)
        return rows.map(found, (self.rank_,), rows.precision, n_jobs=self.n_jobs, out=out)

    def _there(self, rows: Source) -> Source:
        return rows if self.device is None else on_device(rows, self.device)

    @functools.cached_property
    def _features(self) -> LandmarkFeatures:
        """phi = W k(landmarks, .), with the landmarks prepared once."""
        return LandmarkFeatures(self.kernel_, self.landmarks_, self.weights_)

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_features"}

    def combine(self, values: Any) -> np.ndarray:
        """Combine the rows of `values` as the basis functions combine the landmarks.

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

    def _on_features(self, coef: np.ndarray) -> np.ndarray:
        """Return B, (m, d), with z(x) . coef = phi(x) . B, where phi is ``W k(landmarks_, .)``."""
        if self._spectrum is not None or self._padded:
            return self.components_.T @ coef
        return triangular_product(self.components_, coef, transposed=True)

    def _on_coordinates(self, B: np.ndarray) -> np.ndarray:
        """Return coef with z(x) . coef = phi(x) . B, of which `_on_features` is the inverse."""
        if self._padded or self.whiten == "kpca":
            return self.components_ @ (self._sketched()[0] @ B)
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
        return self._residual_of(encoded(self, self.kernel_, X, reset=False))

    def _residual_of(self, rows: Source) -> Any:
        residual = Residual(self._features, self.components_)
        return rows.map(residual, (), np.float64, n_jobs=self.n_jobs)

    def _moments(
        self,
        sample: Sample,
        alpha: float,
        *,
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
        whiten, centre : bool, default True
            Whether moments of features must become those of coordinates, not for a single alpha;
            and whether features may be centred, whose moments are whitened in any case.
        progress : Progress, optional
            Is told how far the pass is.
        """
        plan = self._plan(sample.rows, alpha, centre)
        known, self._known = self._known, None
        mean = None
        if plan.centre:  # the mean of phi over the landmarks, if K~ is their kernel matrix
            mean = inverse_gram_product(self.components_, np.ones(self.rank_)) / self.rank_
        parts = self._block_moments(sample, plan, mean, known, progress)
        if plan.size < self.rank_ and not plan.centre and not whiten:
            gram = None if known is None else known.gram[np.ix_(known.kept, known.kept)]
            partly = PartlyWhitened(self.components_, plan.size, gram)
            return [replace(part, partly=partly) for part in parts]
        if plan.size < self.rank_:
            finish = PartlyWhitened(self.components_, plan.size).finish()
            parts = [part.map(finish) for part in parts]
        if mean is not None:
            mean = mean.astype(plan.dtype)
            parts = [part.shifted(self.components_ @ mean) for part in parts]
        return parts

    def _plan(self, rows: Source, alpha: float, centre: bool = True) -> Plan:
        """Choose what is done to each block; the choice must not depend on the size of blocks."""
        if self._spectrum is not None:
            return Plan(self.rank_, False, np.dtype(np.float64))
        shift, dtype = self._n_effective * alpha, rows.precision
        may_centre = centre and self.weights_ is None
        return accuracy_plan(self.components_, shift, dtype, may_centre, len(rows))

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
        if known is not None and plan.size == self.rank_:
            sample, landmarks = known.split(sample)
        whitening = Whitening(self.components_, plan, mean, self._spectrum is not None)
        blocks = BlockMoments(self._features, whitening, sample, None if landmarks else known)
        parts = blocks.of(sample, progress=progress, n_jobs=self.n_jobs)
        if landmarks is not None:  # after the pass, to spare its threads those of BLAS
            parts = [operator.iadd(a, b) for a, b in zip(parts, landmarks(), strict=True)]
        return parts if values is None else [part.of_values(values) for part in parts]
