"""Landmarks and weights on a card, for kernels whose formula runs there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import (
    astype,
    cast,
    empty,
    float_dtype,
    is_tensor,
    namespace,
    numpy_of,
    take,
    tensor,
)
from .._numerics.objects import to_device
from ..kernels.base import KERNELS, Kernel

__all__ = ["sent", "weights_near"]


def sent(kernel: Kernel, rows: Any, device: Any, dtype: Any) -> Any:
    """Return rows in tensors on a device, or say that the formula of the kernel does not run there.

    A kernel that does not announce it is tried on two rows, and must give what it gives here. The
    dtype is the precision of kernel blocks.
    """
    if not kernel.runs_on_device:
        try:
            _check_same_block(kernel, astype(take(rows, slice(0, 2)), np.float64), device)
        except Exception as error:
            known = {k.__name__ for k in KERNELS.values() if k.runs_on_device is True}
            raise ValueError(
                f"{kernel!r} does not run on {device}. These kernels do: "
                f"{', '.join(sorted(known))}; so do sums, products and multiples of them. "
                "Leave out device= to compute on the CPU."
            ) from error
    return to_device(rows, device, dtype)


def _check_same_block(kernel: Kernel, rows: Any, device: Any) -> None:
    """Raise unless a block of tensors has the values of a block of arrays."""
    there = to_device(rows, device)
    found, expected = kernel.against(there)(there), kernel.against(rows)(rows)
    if not is_tensor(found) or found.device.type != device.type:
        raise TypeError(f"The block is {type(found).__name__}, not a tensor on {device}.")
    if not np.allclose(numpy_of(found), expected, rtol=1e-6):
        raise ValueError(f"The block has other values than on the CPU: {found} and {expected}.")


def weights_near(landmarks: Any, W: Any) -> Any:
    """Return a part of the weights where the landmarks are, in their precision."""
    if not is_tensor(landmarks):
        return W
    like = empty((0,), landmarks, float_dtype(landmarks))
    if sparse.issparse(W):
        W = W.tocsr(copy=True)
        W.sum_duplicates()  # which sorts them too, as tensors want them
        return _sparse_tensor(W, like)
    return cast(tensor(W, like.device), like.dtype)


def _sparse_tensor(W: Any, like: Any) -> Any:
    """Return a CSR matrix as a sparse tensor, in the precision of `like` and where that is."""
    torch = namespace(like)
    ends, columns = (torch.as_tensor(a.astype(np.int64)) for a in (W.indptr, W.indices))
    values = torch.as_tensor(W.data)
    with warnings.catch_warnings():  # PyTorch calls this form new, each time
        warnings.simplefilter("ignore", UserWarning)
        made = torch.sparse_csr_tensor(ends, columns, values, W.shape, check_invariants=True)
        return made.to(like.device, like.dtype)
