"""Random Fourier features: a kernel of the distance, replaced by a mean over random waves."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import cast, constant, float_dtype, n_rows, namespace, ones
from .._numerics.validation import check_number
from .base import Block, _Wrapper

__all__ = ["Fourier"]


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
