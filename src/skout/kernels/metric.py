"""Kernels of transformed vectors: in a given or learned metric, on columns, curves, Fourier."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.metaestimators import available_if

from .._numerics.arrays import cast, constant, float_dtype, n_rows, namespace, ones
from .._numerics.typing import Array, Objects, RandomState, Rng, Rows, Weights
from .._numerics.validation import check_choice, check_number
from ..rows import Survey
from .base import Block, Kernel, KernelLike, Resolved, RowFunction, Wrapper
from .combine import align


class _OfVectors(Wrapper):
    """Base of the kernels that change the metric of a kernel on vectors."""

    def encode(self, objects: Objects) -> Rows:
        kernel = self._part("kernel")
        if not hasattr(kernel, "gradients"):
            raise TypeError(
                f"{type(self).__name__} changes the metric of vectors: its kernel must be "
                f"Gaussian, Matern or Laplacian, or have `gradients`. Got {kernel!r} instead."
            )
        rows: Rows = kernel.encode(objects)
        return rows


class Transformed(Wrapper):
    """Base of the kernels of transformed rows. Its authors write `transform`."""

    @abstractmethod
    def transform(self, A: Rows) -> Any:
        """Return what the kernel sees of rows of shape (n, d), an array of shape (n, p)."""

    def _survey_of(self, name: str, survey: Survey) -> Survey:
        return survey.then(self.transform)

    def against(self, B: Rows) -> Block:
        base = self._part("kernel").against(self.transform(B))
        return lambda A, out=None: base(self.transform(A), out)

    def diag(self, A: Rows) -> Array:
        return self._part("kernel").diag(self.transform(A))


class Mahalanobis(_OfVectors, Transformed):
    """Kernel in the Mahalanobis metric M = W'W, k(x, x') = kernel(W x, W x').

    Parameters
    ----------
    kernel : Gaussian, Matern, Laplacian or their names, default "gaussian"
        Words such as gamma="median" are resolved on the rows W x.
    scale : float or array of shape (d,) or (p, d), optional
        W, of which a vector is the diagonal; default the identity. CSR rows stay sparse with a
        diagonal.
    width : float, default 1.0
        Rows W x are divided by it after gamma is resolved.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Gaussian, Mahalanobis
    >>> kernel = Mahalanobis(Gaussian(1.0), scale=np.array([1.0, 0.0]))  # the second is ignored
    >>> kernel(np.array([[1.0, 5.0]]), np.array([[1.0, 7.0], [2.0, 5.0]])).round(4)
    array([[1.    , 0.3679]])
    """

    def __init__(
        self, kernel: KernelLike = "gaussian", scale: ArrayLike | None = None, width: float = 1.0
    ) -> None:
        self.kernel = kernel
        self.scale = scale
        self.width = width

    def transform(self, A: Rows) -> Any:
        # W x
        if self.scale is None:
            return A
        W = self._checked(A.shape[1])
        if sparse.issparse(A):
            W = W.astype(float_dtype(A), copy=False)
            return (A @ sparse.diags_array(W)).tocsr() if W.ndim == 1 else A @ W.T
        W = cast(constant(W, A), float_dtype(A))
        return A * W if W.ndim == 1 else A @ W.T

    def _checked(self, d: int) -> np.ndarray:
        W = np.asarray(self.scale)
        W = np.full(d, W) if W.ndim == 0 else W
        if W.ndim not in (1, 2) or W.dtype.kind not in "fiu" or W.shape[-1] != d:
            raise ValueError(
                f"scale must have shape ({d},) or (p, {d}), one column a feature. "
                f"Got {W.dtype} of shape {W.shape}."
            )
        return W

    def surveyed(self, survey: Survey, rng: Rng, weights: Weights = None) -> Resolved:
        resolved, scale = super().surveyed(survey, rng, weights), self.scale
        if self.width != 1.0:
            scale = (1.0 if scale is None else np.asarray(scale)) / self.width
        return lambda: Mahalanobis(resolved()._part("kernel"), scale)

    def gradients(self, B: Rows, coef: Array) -> RowFunction:
        """Return A -> gradients of f(x) = sum_j coef_j k(x, b_j) with respect to W x.

        Those with respect to x are these times W. Parameters and result are as those of
        `Gaussian.gradients`.

        Parameters
        ----------
        B : rows of shape (m, d)
        coef : array of shape (m, q)
        """
        kernel: Any = self._part("kernel")
        base = kernel.gradients(self.transform(B), coef)
        return lambda A: base(self.transform(A))


class LearnedMetric(_OfVectors):
    """Kernel in a metric learned at fit: directions along which outputs change count more.

    Recursive feature machines (Radhakrishnan et al., Science 2024) with landmarks. A round fits
    sketched ridge f in the metric M so far, starting with the identity; the next M is the average
    gradient outer product (AGOP),

        M = mean_i sum_outputs grad f(x_i) grad f(x_i)',       k(x, x') = kernel(M^1/2 x, M^1/2 x').

    Rounds learn from a sample of the rows, in constant memory wherever they lie. Rows held out from
    the sample choose alpha and the number of rounds, which may be zero. `KernelRidge` and the
    kernel machines, so `iokr` and `sisokr` too, learn the metric from their targets, by squared
    loss and with their alpha, of which a sequence is best: down to 1e-11 where targets have little
    noise. Their `kernel_` is then a `Mahalanobis`. `metric_results_` has "mean_loss" of held-out
    rows, shape (rounds + 1, n_alphas), the "alpha" of its columns, the chosen "round" with its
    "best_alpha" and "fold_loss", and "held", the rows held out, from 3,000 rows on: these also
    choose the alpha of the last fit of `KernelRidge`, among those near the best one of the rounds;
    of fewer rows the latter is taken. With groups, or a splitter as `cv`, and in the other
    estimators, alpha is chosen again.

    Parameters
    ----------
    kernel : Gaussian, Matern, Laplacian or their names, default "matern"
        Words such as gamma="scale" are resolved in each metric anew. A Laplacian, which adds up
        features, takes a diagonal.
    rounds : int, default 8
        The most rounds. Two in a row that do not help are the last.
    diagonal : bool, optional
        Learn a weight for each feature, not a matrix. By default a diagonal for CSR rows, for more
        than 1,000 features and for a Laplacian, else a matrix.
    landmarks : int, optional
        Landmarks of the rounds, whose fits are exact where all rows are landmarks. By default up to
        3,000 rows in memory are; of more, and of rows on a GPU or that are only read in order,
        1,000. The estimator's sketch serves its last fit alone.
    width : float, default 4.0
        The kernel is so many times wider than its gamma says. Wide kernels, with a small alpha,
        learn better metrics.
    max_rows : int, default 8000
        Rows that the rounds learn from, drawn at random where there are more; blocks that can only
        be read in order are all read. The estimator itself is fitted on all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelRidge
    >>> from skout.kernels import LearnedMetric
    >>> X = np.random.default_rng(0).standard_normal((600, 10))
    >>> y = np.sin(3.0 * X[:, 0])  # nine features say nothing
    >>> plain = KernelRidge("matern", alpha=1e-5)
    >>> learned = KernelRidge(LearnedMetric(), alpha=1e-5)
    >>> bool(plain.fit(X[:500], y[:500]).score(X[500:], y[500:]) > 0.6)
    False
    >>> bool(learned.fit(X[:500], y[:500]).score(X[500:], y[500:]) > 0.9)
    True
    """

    learns = True

    def __init__(
        self,
        kernel: KernelLike = "matern",
        rounds: int = 8,
        diagonal: bool | None = None,
        landmarks: int | None = None,
        width: float = 4.0,
        max_rows: int = 8000,
    ) -> None:
        self.kernel = kernel
        self.rounds = rounds
        self.diagonal = diagonal
        self.landmarks = landmarks
        self.width = width
        self.max_rows = max_rows

    def check(self) -> None:
        """Raise if a parameter is not valid."""
        check_number(self.rounds, "rounds", low=1, integer=True)
        if self.landmarks is not None:
            check_number(self.landmarks, "landmarks", low=2, integer=True)
        check_number(self.width, "width", strict=True)
        check_number(self.max_rows, "max_rows", low=2, integer=True)
        check_choice(self.diagonal, "diagonal", (None, True, False))

    def in_metric(self, scale: ArrayLike | None) -> Mahalanobis:
        """Return the kernel in the metric W'W.

        Parameters
        ----------
        scale : array of shape (d,) or (p, d), or None
            W, as in `Mahalanobis`; None is the identity.
        """
        return Mahalanobis(self._part("kernel"), scale, self.width)

    def surveyed(self, survey: Survey, rng: Rng, weights: Weights = None) -> Resolved:
        raise ValueError(_UNLEARNED)

    def against(self, B: Rows) -> Block:
        raise ValueError(_UNLEARNED)

    def diag(self, A: Rows) -> Array:
        return self._part("kernel").diag(A)


_UNLEARNED = (
    "LearnedMetric has no metric yet: it is learned from outputs. Give it as the kernel of "
    "KernelRidge, a kernel machine, iokr or sisokr, not within a sum or as the kernel of a "
    "KernelBasis. After fit their kernel_ is the kernel in the learned metric."
)


class OnColumns(Transformed):
    """Kernel on some columns of vectors, k(x, x') = kernel(x[start:stop], x'[start:stop]).

    Parameters
    ----------
    kernel : kernel of vectors, or its name, default "gaussian"
        Words such as gamma="median" are resolved on these columns.
    start : int, default 0
        The first column.
    stop : int, optional
        The column after the last; default all from `start` on.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Gaussian, OnColumns
    >>> kernel = OnColumns(Gaussian(1.0), 0, 1) * OnColumns("linear", 1, 3)
    >>> kernel(np.array([[1.0, 2.0, 0.5]]), np.array([[1.0, 1.0, 2.0]]))
    array([[3.]])
    """

    def __init__(
        self, kernel: KernelLike = "gaussian", start: int = 0, stop: int | None = None
    ) -> None:
        self.kernel = kernel
        self.start = start
        self.stop = stop

    def transform(self, A: Rows) -> Any:
        d = A.shape[1]
        start = check_number(self.start, "start", integer=True)
        stop = d if self.stop is None else check_number(self.stop, "stop", integer=True)
        if not start < stop <= d:
            raise ValueError(
                f"start and stop must name columns of the {d} that there are. "
                f"Got {self.start} and {self.stop}."
            )
        return A[:, start:stop]


def align_columns(
    kernel: KernelLike,
    groups: Sequence[tuple[int, int]],
    X: Objects,
    Y: Objects,
    *,
    n_samples: int = 500,
    random_state: RandomState = None,
) -> Kernel:
    """Return a kernel on all columns plus one on each group of columns, with weights by ALIGNF.

    k(x, x') = mu_0 kernel(x, x') + sum_g mu_g kernel(x_g, x'_g): the first term knows how columns
    work together, the others let single columns count more. See `align`.

    Parameters
    ----------
    kernel : kernel of vectors, or its name
        Its words, such as gamma="median", are resolved for each group.
    groups : sequence of (int, int)
        The first column of each group, and the one after the last.
    X : matrix of shape (n, d)
        Inputs.
    Y : array of shape (n, p)
        Outputs, which are compared by the linear kernel.
    n_samples : int, default 500
        Most rows that the weights are computed from, see `align`.
    random_state : None, int or Generator, default None
        Seed of the sample.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Gaussian, align_columns
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> kernel = align_columns(Gaussian(0.5), [(0, 1), (1, 3)], X, np.sin(2.0 * X[:, :1]))
    >>> kernel  # the other columns say nothing
    Scaled(factor=1.0, kernel=OnColumns(kernel=Gaussian(gamma=0.5), stop=1))
    """
    parts = [OnColumns(kernel, start, stop) for start, stop in groups]
    whole = [OnColumns(kernel)] if len(parts) > 1 else []
    return align([*whole, *parts], X, Y, n_samples=n_samples, random_state=random_state)


class Curves(Transformed):
    """Kernel of functions by their L2 distance, for functional outputs (p. 26).

    Functions are known on a grid, and integrals are sums by the trapezoidal rule:
    <f, g> = sum_j w_j f(t_j) g(t_j). The kernel is `kernel` of the vectors sqrt(w_j) f(t_j): the
    linear one is <f, g>, the Gaussian one exp(-gamma ||f - g||^2). With the linear one
    `GradientDecoder` predicts no training output but the regression function itself.

    Parameters
    ----------
    kernel : kernel on vectors or str, default "linear"
        Of the vectors sqrt(w_j) f(t_j).
    points : array of shape (q,), optional
        The grid t_1 < t_2 < ..., at least two points; default equally spaced in [0, 1].

    Notes
    -----
    Objects are an array of shape (n, q), the values on the grid, or a list of pairs (points,
    values), each function at other points, which is interpolated on the grid by lines between them
    and by constants outside. Predictions that are built are values on the grid. `score` is R2 of
    the integrated squared error, see `skout.metrics.integrated_squared_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import iokr
    >>> from skout.decoding import GradientDecoder
    >>> from skout.kernels import Curves
    >>> grid = np.linspace(0.0, 1.0, 101)
    >>> Curves(points=grid)([np.sin(np.pi * grid)]).round(3)  # the integral of its square
    array([[0.5]])
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> Y = np.sin(3.0 * X + grid)
    >>> model = iokr("gaussian", Curves(points=grid), decoder=GradientDecoder(), alpha=1e-6)
    >>> curve = model.fit(X, Y).predict([[0.33]])
    >>> bool(np.abs(curve - np.sin(3.0 * 0.33 + grid)).max() < 0.01)
    True
    """

    takes_vectors = False  # but pairs, too
    compares = "curves"

    def __init__(self, kernel: KernelLike = "linear", points: ArrayLike | None = None) -> None:
        self.kernel = kernel
        self.points = points

    @property
    def is_linear(self) -> bool:  # type: ignore[override]
        return self._part("kernel").is_linear

    def encode(self, objects: Objects) -> Rows:
        """Return the values on the grid, shape (n, q)."""
        kernel = self._part("kernel")
        if not kernel.takes_vectors:
            raise TypeError(f"Curves takes a kernel on vectors. Got {kernel!r} instead.")
        if _are_pairs(objects):
            objects = self._on_grid(objects)
        rows: Rows = kernel.encode(objects.toarray() if hasattr(objects, "toarray") else objects)
        self._roots(rows.shape[1])
        return rows

    def _on_grid(self, pairs: Sequence[tuple[ArrayLike, ArrayLike]]) -> np.ndarray:
        """Return the values on the grid of functions given at other points, by interpolation."""
        if self.points is None:
            raise ValueError("points must be given where functions have points of their own.")
        rows = []
        for i, (points, values) in enumerate(pairs):
            t, v = _checked(points, f"points of curve {i}"), np.asarray(values, dtype=np.float64)
            if v.shape != t.shape or not np.isfinite(v).all():
                raise ValueError(
                    f"Curve {i} must have one finite value for each of its {len(t)} points. "
                    f"Got an array of shape {v.shape}."
                )
            rows.append(np.interp(np.asarray(self.points, dtype=np.float64), t, v))
        return np.array(rows)

    def _roots(self, q: int) -> np.ndarray:
        """Return sqrt(w_j), w the weights of the trapezoidal rule."""
        t = np.linspace(0.0, 1.0, q) if self.points is None else _checked(self.points, "points")
        if len(t) != q or q < 2:
            raise ValueError(
                f"Curves need a value for each point of the grid, and two or more. Got {q} values"
                + ("." if self.points is None else f" and {len(t)} points.")
            )
        steps = np.diff(t)
        roots: np.ndarray = np.sqrt(0.5 * (np.append(steps, 0.0) + np.append(0.0, steps)))
        return roots

    def transform(self, A: Rows) -> Any:
        # sqrt(w_j) f(t_j), whose Euclidean distances are those of functions
        return A * cast(constant(self._roots(A.shape[1]), A), float_dtype(A))

    @available_if(lambda self: hasattr(self._part("kernel"), "gradients"))
    def gradients(self, B: Rows, coef: Array) -> RowFunction:
        """Return A -> gradients of the q functions sum_j coef_j k(., b_j) at rows of values.

        Parameters and result as those of `Gaussian.gradients`.
        """
        kernel: Any = self._part("kernel")
        base, roots = kernel.gradients(self.transform(B), coef), self._roots(B.shape[1])
        return lambda A: base(self.transform(A)) * cast(constant(roots, A), float_dtype(A))


def _checked(points: ArrayLike, name: str) -> np.ndarray:
    t = np.asarray(points, dtype=np.float64)
    if t.ndim != 1 or len(t) == 0 or not np.isfinite(t).all() or np.any(np.diff(t) <= 0.0):
        raise ValueError(f"{name} must be increasing numbers, shape (q,). Got {points!r}.")
    return t


def _are_pairs(objects: Any) -> TypeGuard[Sequence[tuple[ArrayLike, ArrayLike]]]:
    """Return whether these are (points, values) pairs, not rows of values."""
    if getattr(objects, "ndim", 1) == 2 or len(objects) == 0:
        return False
    first = objects[0]
    return isinstance(first, tuple | list) and len(first) == 2 and np.ndim(first[0]) == 1


class Fourier(Wrapper):
    """Kernel of random Fourier features, (2 / m) sum_i cos(w_i . (x - x')), i = 1..m/2 (2.55).

    The waves w_i are drawn from the spectral measure of another kernel, of which this one is an
    unbiased estimate. It has m features, which do not depend on the data, so any sketch of more
    rows loses nothing.

    Parameters
    ----------
    kernel : Gaussian, Matern, Laplacian or their names, default "gaussian"
        Words such as gamma="scale" are resolved on the training rows.
    size : int, default 1000
        m, the number of features; even.
    seed : int, default 0
        Of the waves: equal seeds, sizes and widths are equal kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Fourier, Gaussian
    >>> X = np.array([[0.0, 0.0], [1.0, 0.5]])
    >>> kernel = Gaussian(gamma=0.5)
    >>> bool(abs(Fourier(kernel, size=20_000)(X) - kernel(X)).max() < 0.02)
    True
    """

    def __init__(self, kernel: KernelLike = "gaussian", size: int = 1000, seed: int = 0) -> None:
        self.kernel = kernel
        self.size = size
        self.seed = seed

    def encode(self, objects: Objects) -> Rows:
        kernel = self._part("kernel")
        if not hasattr(kernel, "waves"):
            raise TypeError(
                "Fourier features are of a kernel of the distance: Gaussian, Matern, Laplacian, "
                f"or one that has `waves`. Got {kernel!r} instead."
            )
        rows: Rows = kernel.encode(objects)
        return rows

    def transform(self, A: Rows) -> Any:
        """Return the features sqrt(2 / m) (cos(w_1 . x), ..., sin(w_1 . x), ...), shape (n, m)."""
        half = int(check_number(self.size, "size", low=2, integer=True)) // 2
        rng = np.random.default_rng(self.seed)
        kernel: Any = self._part("kernel")  # which has `waves`, as `encode` says
        W = kernel.waves(rng.standard_normal((A.shape[1], half)), rng)
        if sparse.issparse(A):
            phase = np.asarray(A @ W.astype(float_dtype(A)))
        else:
            phase = A @ cast(constant(W, A), float_dtype(A))
        xp = namespace(phase)
        return xp.concatenate([xp.cos(phase), xp.sin(phase)], 1) * half**-0.5

    def against(self, B: Rows) -> Block:
        right = self.transform(B).T

        def block(A: Rows, out: Array | None = None) -> Array:
            return namespace(right).matmul(self.transform(A), right, out=out)

        return block

    def diag(self, A: Rows) -> Array:
        return ones(n_rows(A), A)
