"""Kernel blocks as PyTorch operations, for the kernels that are products and simple functions.

Each function below is the formula of a kernel once more, in tensors: `tests/test_device.py` holds
them equal to the NumPy ones. Kernels that are not listed in `DEVICE_KERNELS` stay on the CPU.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .._arrays import n_rows
from .base import Kernel, Normalized, Product, Scaled, Sum
from .bits import F1, GaussianTanimoto, Tanimoto
from .packed import PackedBits
from .vectors import Cosine, Gaussian, Laplacian, Linear, Matern, Polynomial

__all__ = ["DEVICE_KERNELS", "DeviceFeatures", "device_block", "host_array", "runs_on_device"]

# (block of rows, as a tensor) -> kernel values against the landmarks
DeviceBlock = Callable[[Any], Any]

# Numbers of differences that the L1 distance holds at a time.
_DIFFERENCES = 2**27


def host_array(rows: Any) -> np.ndarray:
    """Return a block of rows as the array that travels to the device: packed bits as bytes."""
    if isinstance(rows, PackedBits):
        return rows.words.view(np.uint8)
    if sparse.issparse(rows):
        return rows.toarray()
    return np.ascontiguousarray(rows)


def runs_on_device(kernel: Kernel) -> bool:
    """Return whether the kernel, and all that it is made of, has a block function here."""
    if type(kernel) not in DEVICE_KERNELS:
        return False
    return all(runs_on_device(kernel._part(name)) for name in kernel.parts)


def device_block(kernel: Kernel, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    """Return the function A -> K(A, landmarks) on a device.

    Parameters
    ----------
    kernel : Kernel
        With numeric parameters.
    landmarks : rows on the host
    device : torch.device
    dtype : torch.dtype
        Of the kernel values and the products in them; counts of bits are exact in any.
    """
    if not runs_on_device(kernel):
        names = ", ".join(sorted(kind.__name__ for kind in DEVICE_KERNELS))
        raise ValueError(
            f"{kernel!r} does not run on {device}. These kernels do: {names}. Leave out device= to "
            "compute on the CPU."
        )
    return DEVICE_KERNELS[type(kernel)](kernel, landmarks, device, dtype)


def _tensor(array: Any, device: Any, dtype: Any) -> Any:
    import torch

    return torch.as_tensor(host_array(array)).to(device, dtype)


def _linear(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    right = _tensor(landmarks, device, dtype).T.contiguous()
    return lambda A: A.to(dtype) @ right


def _polynomial(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    linear = _linear(kernel, landmarks, device, dtype)
    gamma, coef0, degree = kernel._width(), float(kernel.coef0), int(kernel.degree)
    return lambda A: linear(A).mul_(gamma).add_(coef0).pow_(degree)


def _distances(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    """Return the `SquaredDistances` of the kernel, operands and all, as a product on the device."""
    import torch

    host = np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)
    distances = kernel._distances(host_array(landmarks))
    centre, right = (torch.as_tensor(part).to(device, dtype) for part in distances.operands(host))
    norms, noise = _tensor(distances.norms, device, dtype), distances.noise(host)

    def block(A: Any) -> Any:
        A = A.to(dtype) - centre
        own = A.square().sum(dim=1, keepdim=True)
        D = torch.cat([A, own, torch.ones_like(own)], dim=1) @ right
        return D.masked_fill_(D.abs() <= noise * (own + norms), 0.0) if distances.snap else D

    return block


def _gaussian(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    exponent = _distances(kernel, landmarks, device, dtype)
    if dtype.itemsize == 8:  # never positive
        return lambda A: exponent(A).exp_()
    return lambda A: exponent(A).clamp_(max=0.0).exp_()


def _laplacian(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    import torch

    B = _tensor(landmarks, device, dtype)
    gamma = min(kernel._width(), torch.finfo(dtype).max)  # infinity times zero is no number
    some = max(1, _DIFFERENCES // max(1, B.numel()))

    def block(A: Any) -> Any:
        parts = [torch.cdist(part, B, p=1.0) for part in A.to(dtype).split(some)]
        return torch.cat(parts).mul_(-gamma).exp_()

    return block


def _matern(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    squared = _distances(kernel, landmarks, device, dtype)

    def block(A: Any) -> Any:
        U = squared(A).clamp_(min=0.0).sqrt_()
        decay = (-U).exp_()
        if kernel.nu == 0.5:
            return decay
        return decay.mul_(U + 1.0 if kernel.nu == 1.5 else U.square().div_(3.0).add_(U).add_(1.0))

    return block


def _cosine(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    if isinstance(landmarks, PackedBits):
        return _of_sets(lambda common, a, b: common / (a * b).sqrt(), landmarks, device, dtype)
    B = _tensor(landmarks, device, dtype)
    b = B.norm(dim=1)
    right = (B / b.clamp_min(_TINY)[:, None]).T.contiguous()

    def block(A: Any) -> Any:
        A = A.to(dtype)
        a = A.norm(dim=1)
        K = (A / a.clamp_min(_TINY)[:, None]) @ right
        K[(a == 0.0)[:, None] & (b == 0.0)] = 1.0  # zero vectors are alike
        return K

    return block


_TINY = 1e-300


def _of_sets(formula: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    """Return the block of a function of |a and b|, |a| and |b|, for 0/1 rows, packed or not.

    The products of bits are in float16 on a card: sums are in float32 there, and exact.
    """
    import torch

    packed = isinstance(landmarks, PackedBits)
    narrow = torch.float16 if device.type == "cuda" else torch.float32
    shifts = torch.arange(8, device=device, dtype=torch.uint8)

    def bits(rows: Any) -> Any:
        if not packed:
            return rows.to(narrow)
        return rows[:, :, None].bitwise_right_shift(shifts).bitwise_and_(1).flatten(1).to(narrow)

    right = bits(torch.as_tensor(host_array(landmarks)).to(device))
    if not packed and not bool(((right == 0) | (right == 1)).all()):
        raise ValueError(
            "On a device, kernels on sets take 0/1 rows. Got counts: leave out device=."
        )
    b = right.sum(dim=1, dtype=dtype)
    right = right.T.contiguous()

    def block(A: Any) -> Any:
        A = bits(A)
        a = A.sum(dim=1, dtype=dtype)[:, None]
        common = _wide_product(A, right).to(dtype)
        K = formula(common, a, b)
        return K.masked_fill_((a + b) == 0.0, 1.0).nan_to_num_(0.0)  # two empty sets are alike

    return block


def _wide_product(A: Any, right: Any) -> Any:
    """Return A right with results in float32: counts above 2048 are not exact in float16."""
    if A.dtype.itemsize == 2 and A.shape[1] > 2048:
        some = [slice(i, i + 2048) for i in range(0, A.shape[1], 2048)]
        return sum((A[:, part] @ right[part]).float() for part in some)
    return (A @ right).float()


def _tanimoto(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    return _of_sets(lambda common, a, b: common / (a + b - common), landmarks, device, dtype)


def _f1(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    return _of_sets(lambda common, a, b: 2.0 * common / (a + b), landmarks, device, dtype)


def _gaussian_tanimoto(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    tanimoto, gamma = _tanimoto(kernel, landmarks, device, dtype), kernel._width()
    return lambda A: tanimoto(A).sub_(1.0).mul_(2.0 * gamma).exp_()


def _scaled(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    base = device_block(kernel._part("kernel"), landmarks, device, dtype)
    return lambda A: base(A).mul_(float(kernel.factor))


def _sum(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    left, right = (device_block(kernel._part(s), landmarks, device, dtype) for s in kernel.parts)
    return lambda A: left(A).add_(right(A))


def _product(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    left, right = (device_block(kernel._part(s), landmarks, device, dtype) for s in kernel.parts)
    return lambda A: left(A).mul_(right(A))


def _normalized(kernel: Any, landmarks: Any, device: Any, dtype: Any) -> DeviceBlock:
    part = kernel._part("kernel")
    if part.normalized:
        return device_block(part, landmarks, device, dtype)
    if type(part) is Linear:  # its normalised form
        return _cosine(kernel, landmarks, device, dtype)
    raise ValueError(f"{kernel!r} does not run on {device}. Leave out device=, or use Cosine().")


#: The kernels that run on a device.
DEVICE_KERNELS: dict[type[Kernel], Callable[..., DeviceBlock]] = {
    Cosine: _cosine,
    F1: _f1,
    Gaussian: _gaussian,
    GaussianTanimoto: _gaussian_tanimoto,
    Laplacian: _laplacian,
    Linear: _linear,
    Matern: _matern,
    Normalized: _normalized,
    Polynomial: _polynomial,
    Product: _product,
    Scaled: _scaled,
    Sum: _sum,
    Tanimoto: _tanimoto,
}


class DeviceFeatures:
    """phi(x) = W k(landmarks, x) on a device, a block of rows at a time.

    Parameters
    ----------
    kernel : Kernel
    landmarks : rows on the host
    weights : None, ndarray or CSR matrix of shape (m, m')
    device : torch.device
    dtype : torch.dtype
    """

    def __init__(self, kernel: Any, landmarks: Any, weights: Any, device: Any, dtype: Any) -> None:
        import torch

        self.block = device_block(kernel, landmarks, device, dtype)
        self.width = n_rows(landmarks)  # columns of kernel values
        if weights is None:
            self.weights = None
        elif sparse.issparse(weights):
            self.weights = _sparse_tensor(weights.tocsr()).to(device, dtype)
        else:
            self.weights = torch.as_tensor(weights).to(device, dtype)

    def __call__(self, rows: Any) -> Any:
        """Return the features of a block of rows, shape (b, m)."""
        K = self.block(rows)
        return K if self.weights is None else (self.weights @ K.T.contiguous()).T


def _sparse_tensor(W: Any) -> Any:
    import torch

    ends, columns = (torch.as_tensor(a.astype(np.int64)) for a in (W.indptr, W.indices))
    values = torch.as_tensor(W.data)
    with warnings.catch_warnings():  # PyTorch calls this form new, each time
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(ends, columns, values, W.shape, check_invariants=True)
