"""Ridge regression that tells hardly anything of a single row: noisy moments of public features."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._numerics.estimators import PartsByName, all_at_once, frames_out
from .._numerics.linalg import ridge_solve, symmetric_eigen
from .._numerics.validation import check_number, check_rng
from ..kernels import Fourier, as_kernel
from ..rows import Reduction, RowMap, encoded, encoded_targets, unpacked

# How far the moments of two data sets can be apart that differ in one row, here (phi, t) and there
# (psi, s), in the Euclidean norm of both moments. For phi, psi, t, s of norm at most 1, and with
# c = <phi, psi>:
#
#     ||phi phi' - psi psi'||^2 + ||phi t' - psi s'||^2
#         = |phi|^4 + |psi|^4 - 2 c^2 + |phi|^2 |t|^2 + |psi|^2 |s|^2 - 2 c <t, s>
#         <= 4 - 2 c^2 + 2 |c| <= 4.5,
#
# reached at c = 1/2, t = -s. What is released, the upper triangle, has no greater norm than all.
# sqrt(4.5) = 2.12132..., rounded up by far more than norms in float64 are beyond 1.
_SENSITIVITY = 2.1214


def gaussian_noise(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the least standard deviation of Gaussian noise that is (epsilon, delta)-private.

    The analytic mechanism (Balle and Wang, 2018): with s the deviation over the sensitivity,

        Phi(1 / (2 s) - epsilon s) - exp(epsilon) Phi(-1 / (2 s) - epsilon s) <= delta

    Parameters
    ----------
    epsilon : float > 0
    delta : float in (0, 1)
    sensitivity : float, default 1
        Most that one row changes what is released, in the Euclidean norm.

    Examples
    --------
    >>> from skout.regressors.private import gaussian_noise
    >>> round(gaussian_noise(1.0, 1e-5), 2)
    3.73
    """
    epsilon = float(check_number(epsilon, "epsilon", strict=True))
    if check_number(delta, "delta", strict=True) >= 1:
        raise ValueError(f"delta must be in (0, 1). Got {delta!r} instead.")
    low, high = 0.0, 1.0
    while _delta_of(high, epsilon) > delta:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _delta_of(middle, epsilon) > delta else (low, middle)
    return high * float(check_number(sensitivity, "sensitivity", strict=True))


def _delta_of(s: float, epsilon: float) -> float:
    """Return the delta of noise of deviation s for a sensitivity of 1."""
    if s == 0.0:
        return 1.0
    first, second = 0.5 / s - epsilon * s, -0.5 / s - epsilon * s
    return float(np.exp(log_ndtr(first)) - np.exp(epsilon + log_ndtr(second)))


@frames_out
class PrivateRidge(MultiOutputMixin, RegressorMixin, PartsByName):
    """Kernel ridge regression by random Fourier features, (epsilon, delta)-differentially private.

    For data sets D and D' that differ in one row, and every set S of models,

        P(fit(D) in S) <= exp(epsilon) P(fit(D') in S) + delta

    The moments phi'phi and phi't get Gaussian noise, once, and all that follows uses them alone.
    Features are drawn without a look at the data, as their width must be chosen: a landmark of a
    sketch would be a row released to everybody.

    Parameters
    ----------
    kernel : Fourier, optional
        With a numeric width; default ``Fourier(Gaussian(gamma), 200)`` of the `gamma` given. Few
        features take little noise: some hundred for 10^4 to 10^5 rows.
    epsilon : float, default 1.0
        Logarithm of the factor by which one row may change the probability of any model.
    delta : float, default 1e-6
        Probability added to that; well below one over the number of rows.
    bound : float, default 1.0
        Targets of a greater norm are scaled down to it. Choose it without a look at the data.
    alpha : float, default 0.0
        Penalty beside the one that the noise calls for.
    gamma : float, default 1.0
        Width of the default kernel. One taken from the rows would tell of them.
    random_state : None, int or Generator
        Of the noise, for tests only: whoever knows a seed, or sees a Generator after the fit, can
        compute the noise and take it off. Leave it None where privacy matters. It is never part of
        a file or pickle of the model, fitted or not: what is loaded has None.

    Attributes
    ----------
    coef_ : ndarray of shape (m, p)
    noise_ : float
        Standard deviation of what was added to each moment.

    Notes
    -----
    The number of rows is released. A fit spends its epsilon; fits on the same rows add up, so that
    parameters must not be chosen by trying, and each member of an ensemble spends its own. What
    comes before the fit is not covered: scaling by the mean of the rows tells it. Nor is what is
    kept beside the model, such as the training outputs of a `StructuredPredictor`, which refuses
    this regressor. The noise is that of floating-point numbers, whose last digits are not those
    of a Gaussian (Mironov, 2012).

    Examples
    --------
    >>> import numpy as np
    >>> from skout import PrivateRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2))
    >>> y = np.sin(3 * X[:, 0]) * X[:, 1]
    >>> model = PrivateRidge(gamma=2.0, epsilon=1.0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    _by_name: ClassVar[dict[str, Any]] = {"kernel": as_kernel}

    def __init__(
        self,
        kernel: Any = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bound: float = 1.0,
        alpha: float = 0.0,
        gamma: float = 1.0,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.epsilon = epsilon
        self.delta = delta
        self.bound = bound
        self.alpha = alpha
        self.gamma = gamma
        self.random_state = random_state

    @all_at_once
    def fit(self, X: Any, y: Any = None) -> PrivateRidge:
        """Sum up the moments in one pass, add the noise, and solve.

        Parameters
        ----------
        X : array, CSR matrix, memory map, dask array of shape (n, d), or Blocks
        y : array of shape (n,) or (n, p)

        Returns
        -------
        self : PrivateRidge
        """
        self.kernel_ = self._checked_kernel()
        bound = float(check_number(self.bound, "bound", strict=True))
        alpha = float(check_number(self.alpha, "alpha"))
        self.noise_ = gaussian_noise(self.epsilon, self.delta, _SENSITIVITY)
        X, y, weights = unpacked(X, y, None, seed=self.random_state)
        if weights is not None:
            raise ValueError("PrivateRidge takes no weights: a row's share in the moments is one.")
        rows = encoded(self, self.kernel_, X, reset=True)
        targets = encoded_targets(y, rows)
        self._is_vector = len(targets.tail) == 0
        zz, zt = rows.reduce(_BoundedMoments(self.kernel_, bound), targets)
        zz, zt = self._noisy(zz, zt)
        # the noise is a random matrix of norm about 2 sigma sqrt(m): no more must it add
        shift = len(rows) * alpha + 2.0 * self.noise_ * math.sqrt(len(zz))
        values, vectors = symmetric_eigen(zz)
        positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
        self.coef_ = bound * ridge_solve(positive, zt, shift)
        return self

    def _checked_kernel(self) -> Any:
        """Return Fourier features whose width does not come from the rows."""
        if self.kernel is None:
            check_number(self.gamma, "gamma", strict=True)
            return Fourier(as_kernel("gaussian").set_params(gamma=self.gamma), 200)
        kernel = as_kernel(self.kernel)
        inner = getattr(kernel, "kernel", None)
        if not hasattr(kernel, "transform") or isinstance(getattr(inner, "gamma", ""), str):
            raise ValueError(
                "kernel must be Fourier features of a kernel with a numeric gamma, which tell "
                f"nothing of the rows. Got {kernel!r}."
            )
        return kernel

    def _noisy(self, zz: np.ndarray, zt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the moments with noise: the same above and below the diagonal."""
        rng = check_rng(self.random_state)
        noise = np.triu(rng.normal(0.0, self.noise_, zz.shape))
        noise += np.triu(noise, 1).T
        return zz + noise, zt + rng.normal(0.0, self.noise_, zt.shape)

    def predict(self, X: Any) -> Any:
        """Return phi(x) . coef.

        Parameters
        ----------
        X : array, CSR matrix, memory map or dask array of shape (n, d)

        Returns
        -------
        y : ndarray of shape (n,) or (n, p)
        """
        check_is_fitted(self)
        rows = encoded(self, self.kernel_, X, reset=False)
        coef = self.coef_[:, 0] if self._is_vector else self.coef_
        return rows.map(_Predict(self.kernel_, coef), coef.shape[1:], np.float64)

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickles and files have: not what the noise could be computed from."""
        return {**super().__getstate__(), "random_state": None}

    __skout_state__ = __getstate__

    def __copy__(self) -> PrivateRidge:
        same = type(self).__new__(
            type(self)
        )  # not by __getstate__: this does not leave the process
        same.__dict__.update(self.__dict__)
        return same

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.regressor_tags.poor_score = True  # noise, on few rows
        return tags


class _BoundedMoments(Reduction):
    """Rows and targets -> phi'phi and phi't, with phi and t = y / bound cut to norm 1."""

    def __init__(self, kernel: Any, bound: float) -> None:
        self.kernel, self.bound, self.width = kernel, bound, 2 * int(kernel.size)

    def __call__(self, rows: Any, *beside: Any) -> Any:
        F = np.asarray(self.kernel.transform(rows), dtype=np.float64)
        T = np.asarray(beside[0], dtype=np.float64).reshape(len(F), -1) / self.bound
        # of Fourier features it takes off what float32 is beyond 1
        F, T = (A / np.maximum(1.0, np.linalg.norm(A, axis=1, keepdims=True)) for A in (F, T))
        return F.T @ F, F.T @ T

    def combine(self, total: Any, part: Any) -> Any:
        return part if total is None else (total[0] + part[0], total[1] + part[1])


class _Predict(RowMap):
    """x -> phi(x) . coef."""

    def __init__(self, kernel: Any, coef: np.ndarray) -> None:
        self.kernel, self.coef, self.width = kernel, coef, 2 * int(kernel.size)

    def __call__(self, rows: Any, out: np.ndarray | None = None) -> np.ndarray:
        return np.asarray(self.kernel.transform(rows), dtype=np.float64) @ self.coef


def check_not_private(regressor: Any) -> None:
    """Refuse `PrivateRidge`, or what holds one, as a part of a model that keeps training outputs.

    Parameters
    ----------
    regressor : estimator
    """
    parts = regressor.get_params().values() if hasattr(regressor, "get_params") else ()
    if any(isinstance(part, PrivateRidge) for part in (regressor, *parts)):
        raise ValueError(
            "regressor must not be PrivateRidge: output_basis and decoder keep training outputs, "
            "as landmarks and candidates, which its privacy does not cover. Fit KernelBasis on "
            "public objects, PrivateRidge on what it makes of the outputs (basis.transform(Y)), "
            "and compare predictions with those of public candidates."
        )
