"""Kernels: when are two objects alike?"""

from __future__ import annotations

from typing import Any

from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel as GaussianProcessKernel

from .._validation import resolve
from .base import Kernel, Normalized, PairwiseFunction, Product, Scaled, Sum
from .bits import F1, Tanimoto
from .vectors import Cosine, Gaussian, Laplacian, Linear, Matern, Polynomial

__all__ = [
    "F1",
    "KERNELS",
    "Cosine",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Normalized",
    "PairwiseFunction",
    "Polynomial",
    "Product",
    "Scaled",
    "Sum",
    "Tanimoto",
    "as_kernel",
]

#: Names accepted wherever a kernel is: each stands for the default-constructed class.
KERNELS: dict[str, type[Kernel]] = {
    "linear": Linear,
    "polynomial": Polynomial,
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern": Matern,
    "cosine": Cosine,
    "tanimoto": Tanimoto,
    "f1": F1,
}


def as_kernel(spec: Any) -> Kernel:
    """Return a fresh kernel from a kernel, a name, a Gaussian-process kernel or a callable.

    Examples
    --------
    >>> from skout.kernels import as_kernel
    >>> as_kernel("gaussian")
    Gaussian()
    """
    if isinstance(spec, Kernel):
        return clone(spec)
    if isinstance(spec, str):
        return resolve(spec, KERNELS, "kernel")()
    if isinstance(spec, GaussianProcessKernel) or (callable(spec) and not isinstance(spec, type)):
        return PairwiseFunction(spec)
    raise TypeError(
        "A kernel must be a skout kernel, a name, a scikit-learn Gaussian-process kernel or a "
        f"callable (A, B) -> matrix. Got {spec!r} instead."
    )
