"""What theory says of a kernel, its data and a sketch: spectra, radii, exponents, errors.

Functions of a spectrum take the eigenvalues of K / n, the Gram matrix K itself, or a pair
(kernel, Z) that it is computed from. Spectra are exact and cost O(n^3): give them some thousand
objects, drawn at random, of a larger data set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import theilslopes
from sklearn.utils.validation import check_array

from .._numerics.arrays import n_rows
from .._numerics.linalg import EPS, symmetric_eigen, symmetric_eigenvalues
from .._numerics.typing import Objects, Rng, Rows
from .._numerics.validation import check_number
from ..basis import KernelBasis
from ..basis.features import KernelMatrix
from ..kernels import Kernel, as_kernel
from ..kernels.base import KernelLike
from ..rows.encode import named
from ..sketches import Draw

#: Eigenvalues of K / n, K itself, or a pair (kernel, Z).
Spectrum: TypeAlias = ArrayLike | tuple[KernelLike, Objects]

# Scales t at which the exponents are fitted, so that slopes are medians over 4,950 pairs of scales.
# A convention.
_SCALES = 100


# Spectra -----------------------------------------------------------------------------------------


def spectrum(kernel: KernelLike, Z: Objects) -> np.ndarray:
    """Return the n eigenvalues of K / n, largest first; what is negative by rounding is 0.

    They estimate those of the covariance operator C = E[psi(z) psi(z)'].

    Parameters
    ----------
    kernel : kernel, str or callable
        Widths such as gamma="scale" are resolved on Z.
    Z : array, CSR matrix or objects that the kernel encodes, n of them
        The objects that K compares.

    Examples
    --------
    >>> from skout.theory import spectrum
    >>> spectrum("linear", [[2.0, 0.0], [0.0, 1.0]])
    array([2. , 0.5])
    """
    K = _kernel_gram(kernel, Z)
    return np.maximum(symmetric_eigenvalues(K) / len(K), 0.0)


def encoded(kernel: KernelLike, Z: Objects, rng: Rng, name: str = "Z") -> tuple[Kernel, Rows]:
    """Return the kernel, its widths resolved on Z, and the rows of Z, which errors call `name`."""
    kernel = as_kernel(kernel)
    with named(name):
        rows = kernel.encode(Z)
        if n_rows(rows) == 0:
            raise ValueError("Found array with 0 sample(s): there must be at least one object.")
    return kernel.resolve(rows, rng), rows


def _kernel_gram(kernel: KernelLike, Z: Objects) -> np.ndarray:
    # the generator counts only where a median is taken over some of many rows
    return KernelMatrix(*encoded(kernel, Z, np.random.default_rng(0))).full()


def _is_pair(source: object) -> bool:
    """Return whether this is a pair (kernel, Z)."""
    if not isinstance(source, tuple) or len(source) != 2:
        return False
    return isinstance(source[0], Kernel | str) or callable(source[0])


def _gram(source: Any) -> np.ndarray:
    """Return K from K or (kernel, Z)."""
    if _is_pair(source):
        return _kernel_gram(*source)
    K: np.ndarray = check_array(source, dtype=np.float64, input_name="K")
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"K must be a square Gram matrix. Got shape {K.shape} instead.")
    if not np.allclose(K, K.T, rtol=0.0, atol=1e-8 * float(np.abs(K).max())):
        raise ValueError("K must be a symmetric Gram matrix. Got one that differs from K'.")
    return K


def _are_eigenvalues(source: Any) -> bool:
    """Return whether these are eigenvalues, neither (kernel, Z) nor a matrix."""
    return not _is_pair(source) and np.ndim(source) != 2


def _eigenvalues(source: Any) -> np.ndarray:
    """Return the eigenvalues of K / n, largest first, from themselves, K or (kernel, Z)."""
    if _is_pair(source):
        return spectrum(*source)
    if np.ndim(source) == 2:
        K = _gram(source)
        values = symmetric_eigenvalues(K) / len(K)
    else:
        values = check_array(source, ensure_2d=False, dtype=np.float64, input_name="eigenvalues")
        values = np.sort(values)[::-1]
    if values[-1] < -1e-8 * max(float(values[0]), 0.0):
        raise ValueError(
            f"eigenvalues of a kernel matrix must be >= 0. Got one of {values[-1]:.3g} instead."
        )
    return np.maximum(values, 0.0)


# Critical radius and K-satisfiability (chapter 3) ------------------------------------------------


def critical_radius(eigenvalues: Spectrum) -> float:
    """Return delta_n^2, the least x > 0 with ((1/n) sum_i min(x, mu_i))^(1/2) <= x.

    For each k the sum is at most k x + sum_{i > k} mu_i, with equality where k counts the
    mu_i > x. So delta_n^2 is the least of the roots of n x^2 = k x + sum_{i > k} mu_i, k = 0..n.

    Parameters
    ----------
    eigenvalues : array of shape (n,), Gram matrix K or pair (kernel, Z)
        All n eigenvalues mu of K / n, those that are 0 too.

    Examples
    --------
    >>> from skout.theory import critical_radius
    >>> critical_radius([1.0, 1.0] + 98 * [0.0])  # rank r: r / n
    0.02
    """
    mu = _eigenvalues(eigenvalues)
    n = len(mu)
    share = np.arange(n + 1) / n  # k / n
    tail = np.append(np.cumsum(mu[::-1])[::-1], 0.0) / n  # sum_{i > k} mu_i / n
    return float(np.min(share + np.sqrt(share**2 + 4.0 * tail)) / 2.0)


def statistical_dimension(eigenvalues: Spectrum) -> int:
    """Return d_n, from 1 to n: the first j with mu_j <= delta_n^2, or n if there is none.

    Parameters
    ----------
    eigenvalues : array of shape (n,), Gram matrix K or pair (kernel, Z)
        All n eigenvalues mu of K / n.

    Examples
    --------
    >>> from skout.theory import statistical_dimension
    >>> statistical_dimension([1.0, 1.0] + 98 * [0.0])
    3
    """
    mu = _eigenvalues(eigenvalues)
    return min(len(mu), 1 + int(np.sum(mu > critical_radius(mu))))


@dataclass(frozen=True)
class KSatisfiability:
    """The two norms of (3.4) for one sketch R.

    Attributes
    ----------
    isometry : float
        ||(R U_1)' R U_1 - I||, on the first `dimension` eigenvectors.
    tail : float
        ||R U_2 D_2^(1/2)|| / delta_n, on the others: the least c that the sketch satisfies.
    delta2 : float
        delta_n^2, the critical radius.
    dimension : int
        d_n, the statistical dimension.
    """

    isometry: float
    tail: float
    delta2: float
    dimension: int

    def satisfied(self, c: float) -> bool:
        """Return whether the sketch is K-satisfiable for c: isometry <= 1/2 and tail <= c.

        Parameters
        ----------
        c : float
            The constant of (3.4), e.g. `satisfiability_constant()`.
        """
        return self.isometry <= 0.5 and self.tail <= c


def k_satisfiability(K: Spectrum, draw: Draw | ArrayLike) -> KSatisfiability:
    """Return the two norms of (3.4), by which a drawn sketch preserves a kernel matrix or not.

    K / n = U D U'. The sketch R must be nearly an isometry on the first d_n eigenvectors U_1 and
    small on the others, U_2: ||(R U_1)' R U_1 - I|| <= 1/2 and ||R U_2 D_2^(1/2)|| <= c delta_n.

    Parameters
    ----------
    K : Gram matrix of shape (n, n) or pair (kernel, Z)
        The kernel matrix, or what it is computed from.
    draw : Draw or array of shape (m, n)
        E.g. ``GaussianSketch(50).draw(n, rng)``. It is used with its scale, E[R'R] = I.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.theory import k_satisfiability
    >>> from skout.sketches import GaussianSketch
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> draw = GaussianSketch(150).draw(200, np.random.default_rng(1))
    >>> k_satisfiability(("gaussian", X), draw).satisfied(c=9)
    True
    """
    K = _gram(K)
    n = len(K)
    if hasattr(draw, "draw"):
        raise TypeError(f"draw must be drawn: {draw!r}.draw({n}, np.random.default_rng(0)), say.")
    R = check_array(draw.toarray() if hasattr(draw, "toarray") else draw, dtype=np.float64)
    if R.shape[1] != n:
        raise ValueError(f"draw must be a sketch of {n} rows, as K is. Got one of {R.shape[1]}.")
    values, vectors = symmetric_eigen(K / n)
    values = np.maximum(values, 0.0)
    if values[0] == 0.0:
        raise ValueError("K must not be zero: its critical radius is 0.")
    delta2, d = critical_radius(values), statistical_dimension(values)
    sketched = R @ vectors  # (m, n)
    head = sketched[:, :d].T @ sketched[:, :d]
    rest = sketched[:, d:] * np.sqrt(values[d:])
    isometry = np.abs(symmetric_eigenvalues(head - np.eye(d))).max()
    tail = math.sqrt(max(0.0, symmetric_eigenvalues(rest @ rest.T)[0]) / delta2)
    return KSatisfiability(float(isometry), tail, delta2, d)


def theorem_3_19_size(eigenvalues: Spectrum, p: float = 0.7, c0: float = 1.0) -> float:
    """Return max(C_0 d_n / p^2, n delta_n^2), the size of theorem 3.19.

    A p-sparsified sketch of that many rows is K-satisfiable (3.4) with high probability, for the
    constant of `satisfiability_constant`. C_0 does not depend on the data; the proof's is above
    10^4, so that what the number says is how sizes grow with the kernel and with p.

    Parameters
    ----------
    eigenvalues : array of shape (n,), Gram matrix K or pair (kernel, Z)
        All n eigenvalues mu of K / n.
    p : float in (0, 1], default 0.7
        Share of the entries of the sketch that are not 0. With 0.7 the fewest rows of the data are
        touched while the guarantee holds (corollary 3.20); for p below 1 / m, which serves as well
        in practice, it says nothing.
    c0 : float > 0, default 1
        C_0.

    Examples
    --------
    >>> from skout.theory import theorem_3_19_size
    >>> mu = [1.0, 1.0] + 98 * [0.0]  # d_n = 3, delta_n^2 = 0.02
    >>> theorem_3_19_size(mu, p=1.0), round(theorem_3_19_size(mu, p=0.5), 6)
    (3.0, 12.0)
    """
    mu = _eigenvalues(eigenvalues)
    p, c0 = _share(p), float(check_number(c0, "c0", strict=True))
    return max(c0 * statistical_dimension(mu) / p**2, len(mu) * critical_radius(mu))


def satisfiability_constant(p: float = 0.7) -> float:
    """Return c = 2 / sqrt(p) (1 + sqrt(log 5)) + 1, that of (3.4) in theorem 3.19.

    Parameters
    ----------
    p : float in (0, 1], default 0.7
        Share of the entries of the sketch that are not 0.

    Examples
    --------
    >>> from skout.theory import satisfiability_constant
    >>> round(satisfiability_constant(), 2)  # within the 9 of corollary 3.20
    6.42
    """
    return 2.0 / math.sqrt(_share(p)) * (1.0 + math.sqrt(math.log(5.0))) + 1.0


def _share(p: float) -> float:
    if check_number(p, "p", strict=True) > 1:
        raise ValueError(f"p must be in (0, 1]. Got {p!r} instead.")
    return float(p)


# Reconstruction error and Theorem 4.9 (chapter 4) ------------------------------------------------


def reconstruction_error(basis: KernelBasis, Z: Objects) -> float:
    """Return (mean_i ||P psi(z_i) - psi(z_i)||^2)^(1/2), P the projection on the basis (4.13).

    Parameters
    ----------
    basis : KernelBasis
        Fitted.
    Z : array, CSR matrix or objects that the kernel encodes
        Best objects that the basis was not fitted on.

    Examples
    --------
    >>> from skout import KernelBasis
    >>> from skout.theory import reconstruction_error
    >>> basis = KernelBasis("linear").fit([[1.0, 0.0]])
    >>> reconstruction_error(basis, [[5.0, 3.0]])
    3.0
    """
    return math.sqrt(float(np.mean(basis.residual(Z))))


@dataclass(frozen=True)
class EigenDecay:
    """Estimated exponents of Assumptions 4.5 and 4.6.

    Attributes
    ----------
    gamma : float
        Capacity, in [0, 1]: mu_i falls like i^(-1/gamma); 0 for finite rank.
    mu : float or None
        Embedding, in [0, 1]; None if only eigenvalues were given.
    """

    gamma: float
    mu: float | None


def eigen_decay(eigenvalues: Spectrum) -> EigenDecay:
    """Estimate the exponents gamma and mu that the sketch size of Theorem 4.9 depends on.

    - gamma: the number N(t) of eigenvalues of at least t grows like t^(-gamma). The slope of
      log N against log 1/t, from t = mu_1 down to mu_1 / n^2 or to the middle eigenvalue, the
      higher of the two: smaller ones are noise, or tell of the sample more than of the kernel.
      N is interpolated between the eigenvalues.
    - mu: with N(z, t) = <psi(z), (C + t)^-1 psi(z)>, n times a leverage score, the proof uses
      sup_z N(z, t) <= b E_z[N(z, t)] t^(-mu) (lemma .26). The slope of the logarithm of the ratio
      of the greatest to the mean against log 1/t, from t = mu_1 / 2 to mu_1 / n. It is 0 when
      all objects have the same leverage. (Assumption 4.6 asks for more: it implies mu >= gamma.)

    Both slopes are medians over pairs of scales (Theil and Sen) and are cut to [0, 1]. They
    describe the scales seen and are no bounds.

    Parameters
    ----------
    eigenvalues : array of shape (n,), Gram matrix K or pair (kernel, Z)
        All n eigenvalues of K / n give gamma only. At least 4.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.theory import eigen_decay
    >>> round(eigen_decay(np.arange(1.0, 501.0) ** -2).gamma, 3)
    0.5
    """
    if _are_eigenvalues(eigenvalues):
        return EigenDecay(_capacity(_eigenvalues(eigenvalues)), None)
    K = _gram(eigenvalues)
    values, vectors = symmetric_eigen(K / len(K))
    values = _eigenvalues(values)
    return EigenDecay(_capacity(values), _embedding(values, vectors))


def _capacity(mu: np.ndarray) -> float:
    """Return the slope of log N(t) against log 1/t; N(t) counts the eigenvalues >= t."""
    n = len(mu)
    if n < 4 or mu[0] == 0.0:
        raise ValueError("There must be at least 4 eigenvalues, not all 0, to see their decay.")
    low = max(mu[0] / n**2, mu[n // 2])
    if low >= (1.0 - 1e-8) * mu[0]:
        return 1.0  # no decay
    values, counts = np.unique(mu[mu > n * EPS * mu[0]], return_counts=True)
    number = np.cumsum(counts[::-1])[::-1]  # of eigenvalues at least that large
    t = np.linspace(math.log(low), math.log(mu[0]), _SCALES)
    return _slope(np.interp(t, np.log(values), np.log(number)), -t)


def _embedding(mu: np.ndarray, vectors: np.ndarray) -> float:
    """Return the slope of log max_i l_i(t) / mean_i l_i(t) against log 1/t."""
    t = np.geomspace(mu[0] / 2.0, mu[0] / len(mu), _SCALES)
    leverage = np.square(vectors) @ (mu[:, None] / (mu[:, None] + t))  # (n, scales)
    return _slope(np.log(leverage.max(axis=0) / leverage.mean(axis=0)), -np.log(t))


def _slope(y: np.ndarray, x: np.ndarray) -> float:
    return float(np.clip(theilslopes(y, x)[0], 0.0, 1.0))


def theorem_4_9_size(
    n: int, gamma: float, mu: float, nu2: float = 1.0, delta: float = 0.1
) -> float:
    """Return max(nu^2 n^((gamma + mu) / (1 + gamma)), nu^4 log(1 / delta)), see (4.14).

    c_4 times this many rows of a sub-Gaussian sketch give, with probability 1 - delta, a squared
    reconstruction error of order n^(-(1 - gamma) / (1 + gamma)). The constant c_4 does not depend
    on n; what the number says is how sizes must grow. Where gamma + mu > 1, it counts as 1 (4.16).
    For a p-sparsified sketch with p = 20 / n, nu^2 = n / 20 makes it greater than n: there the
    theorem says nothing, though the sketch serves.

    Parameters
    ----------
    n : int
        Number of training objects.
    gamma, mu : float
        Capacity and embedding exponents, in [0, 1]; see `eigen_decay`.
    nu2 : float, default 1
        1 for a Gaussian sketch, 1 / p for a p-sparsified one.
    delta : float, default 0.1
        In (0, 1/e].

    Examples
    --------
    >>> from skout.theory import theorem_4_9_size
    >>> round(theorem_4_9_size(10_000, gamma=1 / 3, mu=1 / 3), 6)  # sqrt(n)
    100.0
    """
    check_number(n, "n", low=1, integer=True)
    check_number(nu2, "nu2", low=1)
    for name, value in (("gamma", gamma), ("mu", mu)):
        if check_number(value, name) > 1:
            raise ValueError(f"{name} must be in [0, 1]. Got {value!r} instead.")
    if check_number(delta, "delta", strict=True) > math.exp(-1.0):
        raise ValueError(f"delta must be in (0, 1/e]. Got {delta!r} instead.")
    growth = float(n) ** (min(gamma + mu, 1.0) / (1.0 + gamma))
    size: float = max(nu2 * growth, nu2**2 * math.log(1.0 / delta))
    return size
