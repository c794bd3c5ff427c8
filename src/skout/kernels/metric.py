"""Kernels of vectors in another metric: given, learned from the outputs at fit, or of columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import cast, constant, float_dtype
from .._numerics.validation import check_choice, check_number
from ..rows import Survey
from .base import Block, Kernel, _Wrapper
from .combine import align

__all__ = ["Learnt", "Mahalanobis", "OnColumns", "Transformed", "align_columns"]


class _OfVectors(_Wrapper):
    """A wrapper of a kernel on vectors."""

    def encode(self, objects: Any) -> Any:
        kernel = self._part("kernel")
        if not hasattr(kernel, "gradients"):
            raise TypeError(
                f"{type(self).__name__} changes the metric of vectors: its kernel must be "
                f"Gaussian, Matern or Laplacian, or have `gradients`. Got {kernel!r} instead."
            )
        return kernel.encode(objects)


class Transformed(_Wrapper):
    """k(x, x') = kernel(transform(x), transform(x')). Its authors write `transform`."""

    @abstractmethod
    def transform(self, A: Any) -> Any:
        """Return what the kernel sees of the rows.

        Parameters
        ----------
        A : array, tensor or CSR matrix of shape (n, d)

        Returns
        -------
        rows : of shape (n, p)
        """

    def surveyed(
        self, survey: Survey, rng: np.random.Generator, weights: Any = None
    ) -> Callable[[], Kernel]:
        return super().surveyed(survey.then(self.transform), rng, weights)

    def against(self, B: Any) -> Block:
        base = self._part("kernel").against(self.transform(B))
        return lambda A, out=None: base(self.transform(A), out)

    def diag(self, A: Any) -> Any:
        return self._part("kernel").diag(self.transform(A))


class Mahalanobis(_OfVectors, Transformed):
    """k(x, x') = kernel(W x, W x'): distances are those of the metric M = W'W.

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

    def __init__(self, kernel: Any = "gaussian", scale: Any = None, width: float = 1.0) -> None:
        self.kernel = kernel
        self.scale = scale
        self.width = width

    def transform(self, A: Any) -> Any:
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

    def surveyed(
        self, survey: Survey, rng: np.random.Generator, weights: Any = None
    ) -> Callable[[], Kernel]:
        found = super().surveyed(survey, rng, weights)
        scale = self.scale
        if self.width != 1.0:
            scale = (1.0 if scale is None else np.asarray(scale)) / self.width
        return lambda: Mahalanobis(found()._part("kernel"), scale)

    def gradients(self, B: Any, coef: Any) -> Callable[[Any], Any]:
        """Return A -> gradients of f(x) = sum_j coef_j k(x, b_j) with respect to W x.

        Those with respect to x are these times W; see `Gaussian.gradients`.
        """
        kernel: Any = self._part("kernel")
        base = kernel.gradients(self.transform(B), coef)
        return lambda A: base(self.transform(A))


class Learnt(_OfVectors):
    """A kernel whose metric is learnt at fit: directions along which outputs change count more.

    Recursive feature machines (Radhakrishnan et al., Science 2024) with landmarks. A round fits
    sketched ridge f in the metric M so far, starting with the identity; the next M is the average
    gradient outer product,

        M = mean_i sum_outputs grad f(x_i) grad f(x_i)',       k(x, x') = kernel(M^1/2 x, M^1/2 x').

    Rounds learn from a sample of the rows, in constant memory wherever they lie. Rows held out from
    that choose how many rounds are taken, it may be none, and alpha. `KernelRidge` and the kernel
    machines, so `iokr` and `sisokr` too, learn the metric from their targets, by squared loss and
    with their alpha, of which a sequence is best: down to 1e-11 where targets have little noise.
    Their `kernel_` is then a `Mahalanobis`, and `metric_results_` has "mean_loss" of held-out rows,
    shape (rounds + 1, n_alphas), the "alpha" of its columns, and the "round" that was taken with
    its "best_alpha" and "fold_loss"; "held" are the rows held out, from 3,000 rows on. These also
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
        Learn a weight for each feature, not a matrix. None is for the data to choose: a diagonal
        for CSR rows, for more than 1,000 features and for a Laplacian, else a matrix.
    landmarks : int, optional
        Landmarks of the rounds, whose fits are exact where all rows are landmarks. By default up to
        3,000 rows in memory are; of more, and of rows on a card or that are only read in order,
        1,000. The estimator's own sketch is for its own fit.
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
    >>> from skout.kernels import Learnt
    >>> X = np.random.default_rng(0).standard_normal((600, 10))
    >>> y = np.sin(3.0 * X[:, 0])  # nine features say nothing
    >>> plain, learnt = KernelRidge("matern", alpha=1e-5), KernelRidge(Learnt(), alpha=1e-5)
    >>> bool(plain.fit(X[:500], y[:500]).score(X[500:], y[500:]) > 0.6)
    False
    >>> bool(learnt.fit(X[:500], y[:500]).score(X[500:], y[500:]) > 0.9)
    True
    """

    #: it is learnt from outputs, see `skout.regressors.learning`
    learns = True

    def __init__(
        self,
        kernel: Any = "matern",
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
        """Raise if a parameter is none of what it may be."""
        check_number(self.rounds, "rounds", low=1, integer=True)
        if self.landmarks is not None:
            check_number(self.landmarks, "landmarks", low=2, integer=True)
        check_number(self.width, "width", strict=True)
        check_number(self.max_rows, "max_rows", low=2, integer=True)
        check_choice(self.diagonal, "diagonal", (None, True, False))

    def in_metric(self, scale: Any) -> Mahalanobis:
        """Return the kernel in the metric of a matrix W, None for the identity."""
        return Mahalanobis(self._part("kernel"), scale, self.width)

    def surveyed(
        self, survey: Survey, rng: np.random.Generator, weights: Any = None
    ) -> Callable[[], Kernel]:
        raise ValueError(_UNLEARNT)

    def against(self, B: Any) -> Block:
        raise ValueError(_UNLEARNT)

    def diag(self, A: Any) -> Any:
        return self._part("kernel").diag(A)


_UNLEARNT = (
    "Learnt has no metric yet: it is learnt from outputs. Give it as the kernel of KernelRidge, a "
    "kernel machine, iokr or sisokr, not within a sum or as the kernel of a KernelBasis. After fit "
    "their kernel_ is the kernel in the metric learnt."
)


class OnColumns(Transformed):
    """k(x, x') = kernel(x[start:stop], x'[start:stop]): what it sees of vectors is some columns.

    Parameters
    ----------
    kernel : kernel of vectors, or its name
        Words such as gamma="median" are resolved on these columns.
    start, stop : int
        The first column, and the one after the last; None is the end.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Gaussian, OnColumns
    >>> kernel = OnColumns(Gaussian(1.0), 0, 1) * OnColumns("linear", 1, 3)
    >>> kernel(np.array([[1.0, 2.0, 0.5]]), np.array([[1.0, 1.0, 2.0]]))
    array([[3.]])
    """

    def __init__(self, kernel: Any = "gaussian", start: int = 0, stop: int | None = None) -> None:
        self.kernel = kernel
        self.start = start
        self.stop = stop

    def transform(self, A: Any) -> Any:
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
    kernel: Any,
    groups: Sequence[tuple[int, int]],
    X: Any,
    Y: Any,
    *,
    n_samples: int = 500,
    random_state: Any = None,
) -> Kernel:
    """Return the sum over groups of columns, and over all of them, with weights by ALIGNF.

    k(x, x') = mu_0 kernel(x, x') + sum_g mu_g kernel(x_g, x'_g): the first term knows how columns
    work together, the others let single columns count more. See `align`.

    Parameters
    ----------
    kernel : kernel of vectors, or its name
        Its words, such as gamma="median", are resolved for each group.
    groups : sequence of (int, int)
        The first column of each group, and the one after the last.
    X : matrix of shape (n, d)
    Y : array of shape (n, p)
    n_samples : int, default 500
    random_state : None, int or Generator

    Returns
    -------
    kernel : Kernel

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
