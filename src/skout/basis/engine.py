"""The span of a sketch: coordinates z(x) = C W k(landmarks, x) (2.73), and the sums fits need.

`span_of` draws the landmarks, `Engine` computes with encoded rows, and `KernelBasis` is the
estimator over it, for inputs and outputs alike.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.linalg import bandwidth
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import float_dtype, match, n_rows, take, unique
from .._numerics.estimators import PartsByName, all_at_once, lasting
from .._numerics.factors import cholesky
from .._numerics.linalg import (
    eigen_whitening,
    inverse_gram_product,
    pivoted_cholesky,
    symmetric_eigenvalues,
    triangular_inverse,
    triangular_product,
)
from .._numerics.typing import Array, Floats, Ints, Matrix, Objects, RandomState, Rows, Weights
from .._numerics.validation import check_choice, check_number, check_rng
from ..kernels import Kernel, Precomputed, as_kernel
from ..kernels.base import KernelLike
from ..rows import Memory, Progress, Reduction, Source, Survey, encoded, on_device, unpacked
from ..sketches import Sketch, SketchLike, as_sketch
from .features import (
    KernelMatrix,
    LandmarkFeatures,
    PartlyWhitened,
    Projection,
    Residual,
    Whitening,
    WhiteningPlan,
    accuracy_plan,
    principal,
)
from .moments import AnyMoments, BlockMoments, KnownRows, TrainingSample

# If at most this share of the rows is distinct, the coordinates of equal rows are computed once: to
# copy a row of coordinates costs little, to compute it m kernel values. A round number.
_MOST_DISTINCT = 0.8
# From so many landmarks on, whether K~ is zero is not tested: conjugate gradients, which such a fit
# may take, do without K~. So many signs do not cancel all rows by chance.
_LARGE = 2000
# Most draws of a sketch whose random signs let equal rows cancel, so that nothing is left. A pair
# of equal rows cancels in half of the draws, all eight in 1 of 256.
_DRAWS = 8


class Engine:
    """The span of a sketch as functions of encoded rows: features, coordinates and moments.

    No call changes it: what it computes late (the components, where nobody needed them in the fit)
    depends on its parts alone.
    """

    kernel: Kernel
    landmarks: Rows
    weights: Matrix | None
    whiten: str
    spectrum: Floats | None
    is_exact: bool
    is_single: bool
    n_jobs: int | None
    device: str | None

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
        self.n_effective: int = n_rows(landmarks) if n_effective is None else n_effective
        self.features: LandmarkFeatures = LandmarkFeatures(
            kernel, landmarks, weights
        )  # prepared once
        if components is not None:
            self.components = components

    @functools.cached_property
    def components(self) -> Floats:
        """C for landmarks in their own order: L^-1 of K~ = L L' where no pivot is noise.

        Else those of `pivoted_cholesky`, with zeros for the landmarks that depend on others.
        """
        gram, noise = self.gram()
        noise = max(noise, len(gram) * np.finfo(np.float64).eps)
        factor = cholesky(gram.copy())
        if factor is not None and factor.smallest() ** 2 > noise:
            return triangular_inverse(np.tril(factor.L))
        L, kept = pivoted_cholesky(gram, noise)
        components = np.zeros((len(L), len(gram)))
        components[:, kept] = triangular_inverse(L)
        return components

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
        """Return K~ = W K W', and how large a pivot of it may be by rounding alone."""
        matrix = KernelMatrix(self.kernel, self.landmarks, self.n_jobs)
        gram, _, noise = matrix.sketched(self.weights, self.is_single)
        return gram, noise

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
        return rows.map(self.projection, (self.rank,), rows.precision, n_jobs=self.n_jobs, out=out)

    def training_coordinates(self, rows: Source) -> Array:
        """Return the coordinates of the rows of the fit; those of equal rows are computed once."""
        if self.is_exact and self.whiten == "cholesky":
            everything = rows.load()
            position = match(everything, self.landmarks)
            # z(l_i) . z(l_j) = k(l_i, l_j) of landmarks: rows of L
            Z: Array = triangular_inverse(self.components)[position]
            Z = Z.astype(float_dtype(everything), copy=False)
            others = np.flatnonzero(position < 0)  # rows that depend on landmarks
            if len(others):
                Z[others] = self.coordinates(Memory(take(everything, others)))
            return Z
        copies = rows.copies(_MOST_DISTINCT)
        if copies is None:
            return self.coordinates(rows)
        first, inverse = copies
        coordinates: Array = self.coordinates(rows.subset(first))[inverse]
        return coordinates

    def residual(self, rows: Source) -> Array:
        """Return k(x, x) - ||z(x)||^2 of each row."""
        residual = Residual(self.features, self.components)
        return rows.map(residual, (), np.float64, n_jobs=self.n_jobs)

    def combine(self, values: Matrix) -> Floats:
        """Return C W values, where `values` has one row for each landmark."""
        mixed: Any = values if self.weights is None else self.weights @ values
        mixed = mixed.toarray() if sparse.issparse(mixed) else mixed
        combined: Floats = self.components @ mixed
        return combined

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
        """Return how far blocks are whitened for a penalty alpha, whatever their size."""
        if self.spectrum is not None:
            return WhiteningPlan(self.rank, False, np.dtype(np.float64))
        shift, may_center = self.n_effective * alpha, center and self.weights is None
        return accuracy_plan(self.components, shift, rows.precision, may_center, len(rows))

    def moments(
        self,
        sample: TrainingSample,
        alpha: float,
        *,
        known_rows: KnownRows | None = None,
        whiten: bool = True,
        center: bool = True,
        progress: Progress | None = None,
    ) -> list[AnyMoments]:
        """Return the moments of (z(x), targets) of each group, without forming z(x) of all rows.

        `alpha` is the smallest penalty they will be used with: how far to whiten in each row.
        Unless they must be `whiten`ed, those of features need not become those of coordinates,
        for a single alpha say; features may be `center`ed, whose moments are whitened in any case.
        """
        C, plan, mean = self.components, self.plan(sample.rows, alpha, center), None
        if plan.center:  # the mean of phi over the landmarks, if K~ is their kernel matrix
            mean = inverse_gram_product(C, np.ones(self.rank)) / self.rank
        sample, values = sample.by_value()
        sample, known_rows = sample.by_group(known_rows)
        of_landmarks = None
        if known_rows is not None and plan.size == self.rank:
            sample, of_landmarks = known_rows.split(sample)
        known_rows = known_rows if of_landmarks is None else None
        whitening = Whitening(C, plan, mean, self.spectrum is not None)
        parts: list[Any] = sample.rows.reduce(
            BlockMoments(self.features, whitening, sample, known_rows), sample.targets,
            sample.weights, sample.groups, None if known_rows is None else known_rows.place,
            progress=progress, n_jobs=self.n_jobs,
        )  # fmt: skip
        if of_landmarks is not None:  # after the pass, to spare its threads those of BLAS
            parts = list(map(operator.iadd, parts, of_landmarks()))
        if values is not None:
            parts = [part.of_values(values) for part in parts]
        partly = PartlyWhitened(C, plan.size)
        if plan.size < self.rank and not plan.center and not whiten:
            if known_rows is not None:
                partly = partly._replace(
                    gram=known_rows.gram[np.ix_(known_rows.kept, known_rows.kept)]
                )
            return [part.each(lambda sums: replace(sums, partly=partly)) for part in parts]
        if plan.size < self.rank:
            finish = partly.finish()
            parts = [part.each(lambda sums: sums.map(finish)) for part in parts]
        if mean is not None:
            shift = C @ mean.astype(plan.dtype)
            parts = [part.each(lambda sums: sums.shifted(shift)) for part in parts]
        return parts


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

    @functools.cached_property
    def _sketched(self) -> tuple[Floats, Floats | None, float]:
        """K~ = W K W', K W' if it is not too large, and the largest pivot that rounding makes."""
        matrix = KernelMatrix(self.kernel, self.landmarks, self.n_jobs)
        return matrix.sketched(self.weights, self.rows.precision == np.float32)

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
            return self.factorized[0]
        gram, _, noise = self._sketched
        C, spectrum = eigen_whitening(gram, len(gram) * noise)
        if whiten == "kpca":
            features = LandmarkFeatures(self.kernel, self.landmarks, self.weights)
            C, spectrum = principal(features, C, on_device(self.rows, self.device))
        options = {"whiten": whiten, "spectrum": spectrum[:rank]}
        return self._engine(self.landmarks, self.weights, C[:rank], **options)

    @functools.cached_property
    def factorized(self) -> tuple[Engine, KnownRows | None]:
        """The engine by pivoted Cholesky, and the features of rows that are landmarks.

        `Engine.moments` of the same rows takes these; None where they would be of no use. Then K~
        and its factor are let go: while the pass over the rows runs, they would take as much memory
        as the moments themselves.
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
        landmark, place = np.full(len(features), -1), np.full(len(self.rows), -1)
        landmark[order] = np.arange(len(order))
        place[slice(None) if self.drawn is None else self.drawn] = self.number
        return engine, KnownRows(place, features, landmark, L, kept, gram)


def span_of(
    kernel: Kernel,
    sketch: Sketch | None,
    rows: Source,
    rng: np.random.Generator,
    weights: Weights = None,
    *,
    also: Reduction[Any] | None = None,
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
    n, rows = len(survey.source), survey.source
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
        value = basis.__dict__[self.name] = self.compute(basis)
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

    landmarks_: Any  # rows, as the kernel encodes them
    _by_name: ClassVar[dict[str, Any]] = {"kernel": as_kernel, "sketch": as_sketch}
    __getstate__ = lasting
    # What files of earlier versions may not have: see `Engine`.
    _single = False
    _spectrum: Floats | None = None
    _n_effective: int | None = None
    kernel_: Kernel
    weights_: Matrix | None

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        sketch: SketchLike = None,
        *,
        whiten: str = "cholesky",
        rank: int | None = None,
        random_state: RandomState = None,
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
    def fit(self, X: Objects, y: object = None) -> KernelBasis:
        """Draw the sketch of X and find the basis of its span.

        Parameters
        ----------
        X : array, CSR matrix, objects that the kernel encodes, n of them, or Blocks
            Or, with a sketch, a dask array or a list of delayed blocks: only the rows that the
            sketch touches travel here.
        y : ignored
        """
        self._fitted_on(X)
        return self

    def _fitted_on(self, X: Objects) -> Source:
        """Fit on X, and return its rows."""
        X, _, weights = unpacked(X, None, None, seed=self.random_state, sketches=[self.sketch])
        rows = encoded(self, as_kernel(self.kernel), X, reset=True)
        self.fit_encoded(rows, weights)
        return rows

    @all_at_once
    def fit_transform(self, X: Objects, y: object = None) -> np.ndarray:
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
        """Return the coordinates of the encoded rows of the fit, which are partly known."""
        return self.engine_.training_coordinates(rows)

    def fit_encoded(
        self, rows: Source, weights: Weights = None, *, also: Reduction[Any] | None = None
    ) -> Any:
        """Fit on encoded rows; return the result of `also`, which the same pass makes.

        Weights count where the width of the kernel is found.
        """
        check_choice(self.whiten, "whiten", ("cholesky", "eigh", "kpca"))
        if self.rank is not None:
            check_number(self.rank, "rank", low=1, integer=True)
            if self.whiten == "cholesky":
                raise ValueError('rank needs coordinates in an order: whiten="eigh" or "kpca".')
        span = span_of(
            as_kernel(self.kernel), as_sketch(self.sketch), rows, check_rng(self.random_state),
            weights, also=also, n_jobs=self.n_jobs, device=self.device,
        )  # fmt: skip
        self._take(span.engine(self.whiten, self.rank))
        return span.also

    @classmethod
    def of(
        cls, engine: Engine, kernel: KernelLike = "gaussian", sketch: SketchLike = None
    ) -> KernelBasis:
        """Return the fitted basis of an engine, made with this kernel and this sketch."""
        basis = cls(
            kernel, sketch, whiten=engine.whiten, n_jobs=engine.n_jobs, device=engine.device
        )
        basis._take(engine)
        return basis

    def _take(self, engine: Engine) -> None:
        """Become the basis of an engine: the only place that writes what a fit finds."""
        for name in ("components_", "rank_", "_n_features_out"):
            self.__dict__.pop(name, None)
        self.kernel_ = engine.kernel
        self.landmarks_ = engine.landmarks
        self.weights_ = engine.weights
        self._spectrum, self._single = engine.spectrum, engine.is_single
        self._n_effective = engine.n_effective
        self.engine_ = engine
        if "components" in vars(engine):  # else they are computed when somebody asks for them
            self.components_ = engine.components
            self.rank_ = self._n_features_out = engine.rank

    @functools.cached_property
    def engine_(self) -> Engine:
        """The functions of the basis for encoded rows, and the moments that fits need."""
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

    def transform(self, X: Objects) -> np.ndarray:
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

    def combine(self, values: Matrix) -> np.ndarray:
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

    def residual(self, X: Objects) -> np.ndarray:
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
