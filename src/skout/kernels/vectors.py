"""More kernels on vectors: of inner products, of other distances, by random Fourier features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import (
    RightOperand,
    cast,
    constant,
    empty,
    float_dtype,
    n_rows,
    namespace,
    ones,
)
from .._numerics.validation import check_choice, check_number
from .base import Block, _Wrapper
from .distances import (
    DistanceKernel,
    RadialKernel,
    SquaredDistances,
    VectorKernel,
    WithGamma,
    block_buffer,
    manhattan,
    squared_norms,
)

__all__ = ["Fourier", "Laplacian", "Linear", "Matern", "Polynomial"]

# Differences of so many times the precision are rounding.
_ROUNDING = 64.0


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


class Laplacian(DistanceKernel):
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

        Parameters and result as those of `Gaussian.gradients`.
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


class Matern(RadialKernel):
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


class Fourier(_Wrapper):
    """k(x, x') = (2 / m) sum_i cos(w_i . (x - x')), i = 1..m/2: random Fourier features (2.55).

    The waves w_i are drawn from the spectral measure of another kernel, of which this one is an
    unbiased estimate. It has m features, so any sketch of more rows loses nothing, and they do not
    depend on the data, which `PrivateRidge` needs.

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

    def __init__(self, kernel: Any = "gaussian", size: int = 1000, seed: int = 0) -> None:
        self.kernel = kernel
        self.size = size
        self.seed = seed

    @property
    def normalized(self) -> bool:
        return True

    def encode(self, objects: Any) -> Any:
        kernel = self._part("kernel")
        if not hasattr(kernel, "waves"):
            raise TypeError(
                "Fourier features are of a kernel of the distance: Gaussian, Matern, Laplacian, "
                f"or one that has `waves`. Got {kernel!r} instead."
            )
        return kernel.encode(objects)

    def transform(self, A: Any) -> Any:
        """Return the features sqrt(2 / m) (cos(w_1 . x), ..., sin(w_1 . x), ...).

        Parameters
        ----------
        A : array, tensor or CSR matrix of shape (n, d)

        Returns
        -------
        features : array or tensor of shape (n, m), rows of norm 1
        """
        half = int(check_number(self.size, "size", low=2, integer=True)) // 2
        kernel: Any = self._part("kernel")
        rng = np.random.default_rng(self.seed)
        W = kernel.waves(rng.standard_normal((A.shape[1], half)), rng)
        if sparse.issparse(A):
            phase = np.asarray(A @ W.astype(float_dtype(A)))
        else:
            phase = A @ cast(constant(W, A), float_dtype(A))
        xp = namespace(phase)
        return xp.concatenate([xp.cos(phase), xp.sin(phase)], 1) * half**-0.5

    def against(self, B: Any) -> Block:
        right = self.transform(B).T

        def block(A: Any, out: Any = None) -> Any:
            return namespace(right).matmul(self.transform(A), right, out=out)

        return block

    def diag(self, A: Any) -> Any:
        return ones(n_rows(A), A)
