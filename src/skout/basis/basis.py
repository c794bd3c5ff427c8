"""Kernel + sketch -> orthonormal coordinates, for inputs and outputs alike."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._numerics.estimators import PartsByName, all_at_once
from .._numerics.types import Array, Floats, Weights
from .._numerics.validation import check_choice, check_number, check_rng
from ..kernels import Precomputed, as_kernel
from ..rows import Reduction, Source, encoded, unpacked
from ..sketches import as_sketch, least_rows
from .engine import Engine, span_of


class Computed:
    """An attribute that is computed when it is first read, and then is like any other.

    Unlike that of a `cached_property`, files have its value.
    """

    def __init__(self, compute: Callable[[KernelBasis], Any]) -> None:
        self.compute = compute

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, basis: KernelBasis | None, owner: type | None = None) -> Any:
        if basis is None:
            return self
        value = self.compute(basis)
        basis.__dict__[self.name] = value
        return value


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
        "cuda" computes coordinates on a GPU, to which rows on the host are streamed; "auto" does
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
    # What files of earlier versions may not have: see `Engine`.
    _single = False
    _spectrum: Floats | None = None
    _n_effective: int | None = None

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
        size = least_rows(self.sketch)
        X, _, weights = unpacked(X, None, None, seed=self.random_state, size=size)
        rows = encoded(self, as_kernel(self.kernel), X, reset=True)
        self.fit_encoded(rows, weights)
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
        rows = self._fitted_on(X)
        return self.training_coordinates(rows)

    def training_coordinates(self, rows: Source) -> Array:
        """Return the coordinates of the encoded rows of the fit, which may cost less."""
        return self.engine_.training_coordinates(rows)

    def fit_encoded(
        self, rows: Source, weights: Weights = None, *, also: Reduction | None = None
    ) -> Any:
        """Fit on encoded rows; return the result of `also`, which the same pass makes.

        Weights count where the width of the kernel is found.
        """
        self._check()
        span = span_of(
            as_kernel(self.kernel), as_sketch(self.sketch), rows, check_rng(self.random_state),
            weights, also=also, n_jobs=self.n_jobs, device=self.device,
        )  # fmt: skip
        self._take(span.engine(self.whiten, self.rank))
        return span.also

    @classmethod
    def of(cls, engine: Engine, kernel: Any = "gaussian", sketch: Any = None) -> KernelBasis:
        """Return the fitted basis of an engine, given the parameters that this was made by."""
        basis = cls(
            kernel, sketch, whiten=engine.whiten, n_jobs=engine.n_jobs, device=engine.device
        )
        basis._take(engine)
        return basis

    def _take(self, engine: Engine) -> None:
        """Become the basis of an engine: the only place that writes what a fit finds."""
        for name in ("components_", "rank_", "_n_features_out"):
            self.__dict__.pop(name, None)
        self.kernel_, self.landmarks_, self.weights_ = (
            engine.kernel, engine.landmarks, engine.weights
        )  # fmt: skip
        self._spectrum, self._single = engine.spectrum, engine.is_single
        self._n_effective = engine.n_effective
        self.engine_ = engine
        if engine.has_components:  # else they are computed when somebody asks for them
            self.components_ = engine.components
            self.rank_ = self._n_features_out = engine.rank

    @functools.cached_property
    def engine_(self) -> Engine:
        """The same for encoded rows, with the moments that fits need: see `skout.basis.engine`."""
        check_is_fitted(self)
        return Engine(
            self.kernel_, self.landmarks_, self.weights_, self.__dict__.get("components_"),
            whiten=self.whiten, spectrum=self._spectrum, is_single=self._single,
            is_exact=as_sketch(self.sketch) is None, n_effective=self._n_effective,
            n_jobs=self.n_jobs, device=self.device,
        )  # fmt: skip

    components_ = Computed(lambda self: self.engine_.components)
    rank_ = Computed(lambda self: len(self.components_))
    _n_features_out = Computed(lambda self: len(self.components_))

    @property
    def eigenvalues_(self) -> np.ndarray:
        """Eigenvalues of K~, with "kpca" mean squares of the coordinates; the largest first."""
        return self.engine_.eigenvalues()

    def transform(self, X: Any) -> np.ndarray:
        """Return the coordinates of X.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them

        Returns
        -------
        Z : ndarray of shape (n, p)
            In float32 if X is. For dask collections a dask array, for a tensor on a GPU a tensor.
        """
        check_is_fitted(self)
        return self.coordinates(encoded(self, self.kernel_, X, reset=False))

    def coordinates(self, rows: Source, out: np.ndarray | None = None) -> Array:
        """Return the coordinates of encoded rows, shape (n, p), in `out` where there is one."""
        return self.engine_.coordinates(rows, out)

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "engine_"}

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
        return self.engine_.combine(values)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        is_matrix = self.kernel == "precomputed" or isinstance(self.kernel, Precomputed)
        tags.input_tags.pairwise = is_matrix
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
        return self.engine_.residual(encoded(self, self.kernel_, X, reset=False))
