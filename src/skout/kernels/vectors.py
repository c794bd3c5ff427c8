"""Kernels on vectors, dense or CSR, float32 or float64."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import RightOperand, cast, empty, float_dtype, n_rows, namespace, ones
from .._numerics.validation import check_choice, check_matrix, check_number, check_squares
from .base import Block, Kernel
from .distances import SquaredDistances, WithGamma, block_buffer, manhattan, squared_norms

__all__ = ["Gaussian", "Laplacian", "Linear", "Matern", "Polynomial", "VectorKernel"]

# Differences of so many times the precision are rounding.
_ROUNDING = 64.0


class VectorKernel(Kernel):
    """Base of the kernels on real vectors: `encode` checks a matrix, `against` has the formula.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import VectorKernel
    >>> class Affine(VectorKernel):
    ...     def against(self, B):
    ...         return lambda A, out=None: 1.0 + A @ B.T
    ...
    ...     def diag(self, A):
    ...         return 1.0 + (A * A).sum(1)
    >>> Affine()(np.array([[1.0], [2.0]]))
    array([[2., 3.],
           [3., 5.]])
    """

    takes_vectors = True
    compares = "vectors"

    def encode(self, objects: Any) -> Any:
        """Return a finite dense or CSR matrix of float32 or float64."""
        rows = check_matrix(objects)
        check_squares(rows, "objects")
        return rows


class Linear(VectorKernel):
    """k(x, x') = x . x'.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Linear
    >>> Linear()(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[ 5., 11.],
           [11., 25.]])
    """

    runs_on_device = True
    is_linear = True

    def against(self, B: Any) -> Block:
        right = RightOperand(B)

        def block(A: Any, out: Any = None) -> Any:
            return right.product(A, out)

        return block

    def diag(self, A: Any) -> Any:
        return cast(squared_norms(A), np.float64)


class Polynomial(WithGamma, VectorKernel):
    """k(x, x') = (gamma x . x' + coef0)^degree.

    Parameters
    ----------
    degree : int, default 3
    gamma : float, "scale" or "median", default "scale"
    coef0 : float, default 1.0
        Non-negative, so that the kernel is positive semi-definite.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Polynomial
    >>> float(Polynomial(degree=2, gamma=1.0, coef0=1.0)(np.array([[1.0, 1.0]]))[0, 0])
    9.0
    """

    runs_on_device = True

    def __init__(self, degree: int = 3, gamma: float | str = "scale", coef0: float = 1.0) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def _power(self, K: Any) -> Any:
        check_number(self.degree, "degree", low=1, integer=True)
        check_number(self.coef0, "coef0")
        K *= float(self._width())
        K += float(self.coef0)
        K **= int(self.degree)
        return K

    def against(self, B: Any) -> Block:
        linear = Linear().against(B)

        def block(A: Any, out: Any = None) -> Any:
            return self._power(linear(A, out))

        return block

    def diag(self, A: Any) -> Any:
        return self._power(Linear().diag(A))


class _Distance(WithGamma, VectorKernel):
    """A kernel of the distance alone: k(x, x) = 1."""

    runs_on_device = True
    #: whether its distance adds up features, so that a rotation changes its nature
    adds_features = False

    @property
    def normalized(self) -> bool:
        return True

    def diag(self, A: Any) -> Any:
        self._width()
        return ones(n_rows(A), A)


class _Radial(_Distance):
    """A kernel of the Euclidean distance: dk(a, b)/da = slopes(a, b) (a - b)."""

    @abstractmethod
    def slopes(self, B: Any) -> Callable[[Any], Any]:
        """Return A -> k'(r)/r, shape (b, m), where r is the distance; zero where r is zero."""

    def gradients(self, B: Any, coef: Any) -> Callable[[Any], Any]:
        """Return A -> gradients of the q functions f(x) = sum_j coef_j k(x, b_j).

        Parameters
        ----------
        B : array, tensor or CSR matrix of shape (m, d)
        coef : array or tensor of shape (m, q)

        Returns
        -------
        gradients : callable
            From rows A, (b, d), to an array of shape (b, q, d).
        """
        # sum_j c_j s_j (a - b_j) = a (S c) - S (c b): one product S [c b, c], about the mean of B
        slopes, (m, d), q = self.slopes(B), B.shape, coef.shape[1]
        if sparse.issparse(B):
            return self._sparse_gradients(slopes, B, coef)
        centre = B.mean(axis=0)
        right = empty((m, q, d + 1), B, np.float64)
        right[:, :, :d] = coef[:, :, None] * cast(B - centre, np.float64)[:, None, :]
        right[:, :, d] = coef
        right = cast(right.reshape(m, q * (d + 1)), float_dtype(B))

        def of_block(A: Any) -> Any:
            sums = (slopes(A) @ right).reshape(n_rows(A), q, d + 1)
            return sums[:, :, d:] * (A - centre)[:, None, :] - sums[:, :, :d]

        return of_block

    @staticmethod
    def _sparse_gradients(slopes: Any, B: Any, coef: np.ndarray) -> Callable[[Any], Any]:
        right = [(sparse.diags_array(c) @ B).tocsr() for c in coef.T]

        def of_block(A: Any) -> np.ndarray:
            S = slopes(A)
            sums, dense = S @ coef, A.toarray()
            parts = [s[:, None] * dense - S @ C for s, C in zip(sums.T, right, strict=True)]
            return np.stack(parts, axis=1)

        return of_block


class Gaussian(_Radial):
    """k(x, x') = exp(-gamma ||x - x'||^2).

    Parameters
    ----------
    gamma : float, "scale" or "median", default "scale"
        "scale" is 1/(d var), as in scikit-learn; "median" is 1/(2 median squared distance). Both
        are resolved from the training rows at fit.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Gaussian
    >>> Gaussian(gamma=0.5)(np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    def __init__(self, gamma: float | str = "scale") -> None:
        self.gamma = gamma

    def _distances(self, B: Any) -> SquaredDistances:
        """Return A -> -gamma ||a - b||^2."""
        exponent = SquaredDistances(B, factor=-self._width(), over=True, saturates=True)
        exponent.snap_if(self._width())  # or rows would not even be like themselves
        return exponent

    def against(self, B: Any) -> Block:
        exponent = self._distances(B)

        def block(A: Any, out: Any = None) -> Any:
            xp, K = namespace(A), exponent(A, out)
            if exponent.may_err_in_sign(A, K):
                xp.clip(K, None, 0.0, out=K)
            return xp.exp(K, out=K)

        return block

    def slopes(self, B: Any) -> Callable[[Any], Any]:
        block = self.against(B)
        return lambda A: -2.0 * self._width() * block(A)

    def waves(self, normal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return draws of its spectral measure, N(0, 2 gamma I), from standard normal columns."""
        return np.sqrt(2.0 * self._width()) * normal


class Laplacian(_Distance):
    """k(x, x') = exp(-gamma ||x - x'||_1).

    Parameters
    ----------
    gamma : float, "scale" or "median", default "scale"
        "scale" is 1/(d std), "median" is 1/(median L1 distance).

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Laplacian
    >>> float(Laplacian(gamma=1.0)(np.array([[0.0]]), np.array([[2.0]]))[0, 0].round(4))
    0.1353
    """

    unit = "manhattan"
    adds_features = True

    def __init__(self, gamma: float | str = "scale") -> None:
        self.gamma = gamma

    def against(self, B: Any) -> Block:
        gamma = self._width()

        def block(A: Any, out: Any = None) -> Any:
            xp, out, distances = namespace(A), block_buffer(A, n_rows(B), out), manhattan(A, B)
            finite = min(gamma, float(np.finfo(float_dtype(distances)).max))  # inf * 0 is NaN
            with np.errstate(over="ignore"):  # infinitely far
                xp.multiply(distances, -finite, out=out)
            return xp.exp(out, out=out)

        return block

    def waves(self, normal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return draws of its spectral measure: independent Cauchy numbers times gamma."""
        return self._width() * normal / rng.standard_normal(normal.shape)

    def gradients(self, B: Any, coef: Any) -> Callable[[Any], Any]:
        """Return A -> gradients of the q functions f(x) = sum_j coef_j k(x, b_j).

        Parameters
        ----------
        B : array, tensor or CSR matrix of shape (m, d)
        coef : array or tensor of shape (m, q)

        Returns
        -------
        gradients : callable
            From rows A, (b, d), to an array of shape (b, q, d).
        """
        # dk(a, b)/da_i = -gamma sign(a_i - b_i) k(a, b)
        block, gamma, dense = self.against(B), self._width(), _dense(B)
        coef = cast(coef, float_dtype(B))
        # rows W x of equal rows may differ by rounding, and have no sign then
        rounding = _ROUNDING * float(np.finfo(float_dtype(B)).eps) * float(abs(dense).max())

        def of_block(A: Any) -> Any:
            xp, K, A = namespace(A), block(A), _dense(A)
            G = empty((len(A), coef.shape[1], A.shape[1]), A, float_dtype(A))
            for i in range(A.shape[1]):
                away = A[:, i, None] - dense[:, i]
                away[xp.abs(away) <= rounding] = 0.0
                G[:, :, i] = -gamma * (xp.sign(away) * K) @ coef
            return G

        return of_block


def _dense(rows: Any) -> Any:
    return rows.toarray() if sparse.issparse(rows) else rows


class Matern(_Radial):
    """Matern kernel of the Euclidean distance r, with u = sqrt(2 nu) gamma r.

    exp(-u) for nu = 0.5, (1 + u) exp(-u) for 1.5, (1 + u + u^2/3) exp(-u) for 2.5. gamma is one
    over the length scale of scikit-learn's Matern.

    Parameters
    ----------
    gamma : float, "scale" or "median", default "scale"
        "scale" is 1/sqrt(d var), "median" is 1/sqrt(2 median squared distance).
    nu : 0.5, 1.5 or 2.5, default 1.5

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Matern
    >>> float(Matern(gamma=1.0, nu=0.5)(np.array([[0.0]]), np.array([[2.0]]))[0, 0].round(4))
    0.1353
    """

    unit = "euclidean"

    def __init__(self, gamma: float | str = "scale", nu: float = 1.5) -> None:
        self.gamma = gamma
        self.nu = nu

    def _distances(self, B: Any) -> SquaredDistances:
        """Return A -> u^2."""
        check_choice(self.nu, "nu", (0.5, 1.5, 2.5))
        width = min(self._width(), 1e153)  # whose square is finite
        return SquaredDistances(B, factor=2.0 * self.nu * width**2, snap=True, saturates=True)

    def against(self, B: Any) -> Block:
        squared = self._distances(B)

        def block(A: Any, out: Any = None) -> Any:
            xp, U = namespace(A), squared(A, out)
            xp.sqrt(xp.clip(U, 0.0, None, out=U), out=U)
            decay = xp.exp(-U)
            if self.nu == 0.5:
                U[...] = 1.0
            elif self.nu == 1.5:
                U += 1.0
            else:
                U += 1.0 + U * U / 3.0
            U *= decay
            return U

        return block

    def waves(self, normal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return draws of its spectral measure: Student's t of 2 nu degrees, times gamma."""
        check_choice(self.nu, "nu", (0.5, 1.5, 2.5))
        return (
            self._width()
            * normal
            * np.sqrt(2.0 * self.nu / rng.chisquare(2.0 * self.nu, normal.shape[1]))
        )

    def slopes(self, B: Any) -> Callable[[Any], Any]:
        # k'(r)/r = -2 nu gamma^2 exp(-u) times 1/u, 1 and (1 + u)/3
        squared, factor = self._distances(B), -2.0 * self.nu * self._width() ** 2

        def block(A: Any) -> Any:
            xp = namespace(A)
            U = xp.sqrt(xp.clip(squared(A), 0.0, None))
            S = factor * xp.exp(-U)
            if self.nu == 0.5:
                return xp.where(U > 0.0, S / xp.where(U > 0.0, U, 1.0), 0.0)
            return S if self.nu == 1.5 else S * (1.0 + U) / 3.0

        return block
