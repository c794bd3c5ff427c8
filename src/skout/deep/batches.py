"""Batches of inputs for a module, on its device, from arrays, strings, dicts and Datasets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.utils.data import Dataset, default_collate

from .._numerics.typing import Objects
from ..rows.encode import numbers_in

#: What a module is called with: a tensor, or a dict of keyword arguments.
Batch: TypeAlias = Any

# Entries up to which a matrix is copied to the device as a whole: 1 GB in float32.
_RESIDENT = 2**28


class BatchSource(ABC):
    """Base class of inputs of a module, which are taken in batches by position."""

    #: length of each input, where inputs are padded to the longest of a batch
    lengths: Tensor | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, index: Tensor, on_device: Tensor) -> Batch:
        """Return the inputs at these positions, as the module takes them.

        `index` is on the CPU, and `on_device` the same on the device: copying it takes time.
        """


def as_source(X: Objects, module: nn.Module, device: torch.device) -> BatchSource:
    """Return the batches of an array, CSR matrix, tensor, dict of these, list of str or Dataset.

    Arrays of integers become int64 where the module has an embedding; other numbers become float32.
    Tensors of floats get the precision of its weights. Strings need a module with `tokenize`; the
    items of a torch Dataset are what the module takes.
    """
    if isinstance(X, Mapping):
        return _Fields({str(name): as_source(values, module, device) for name, values in X.items()})
    if _are_strings(X):
        return _Tokens(X, module, device)
    if isinstance(X, Dataset):
        return _Items(X, device)
    return _Array(X, module, device)


def call(module: nn.Module, batch: Batch) -> Tensor:
    """Return the output of a module for a batch; a dict is its keyword arguments."""
    out: Tensor = module(**batch) if isinstance(batch, dict) else module(batch)
    return out


def _are_strings(X: Objects) -> bool:
    """Whether X is a list, an array or a column of strings."""
    if isinstance(X, np.ndarray):
        return X.dtype.kind == "U" or (X.ndim == 1 and X.size > 0 and isinstance(X[0], str))
    if hasattr(X, "to_numpy") and getattr(X, "ndim", 0) == 1:  # a column of a data frame
        return _are_strings(X.to_numpy())
    return isinstance(X, Sequence) and len(X) > 0 and isinstance(X[0], str)


class _Array(BatchSource):
    """Batches of an array of numbers, a CSR matrix or a tensor."""

    def __init__(self, X: Objects, module: nn.Module, device: torch.device) -> None:
        if sparse.issparse(X):
            self._rows: Any = X.tocsr()
        else:
            is_tensor = isinstance(X, Tensor)
            self._rows = _floats(X, module) if is_tensor else _tensor(X, _takes_integers(module))  # type: ignore[arg-type]
            if self._rows.numel() <= _RESIDENT:
                self._rows = self._rows.to(device)
        self._device = device

    def __len__(self) -> int:
        return int(self._rows.shape[0])

    def batch(self, index: Tensor, on_device: Tensor) -> Tensor:
        if sparse.issparse(self._rows):
            rows = self._rows[index.numpy()].toarray().astype(np.float32, copy=False)
            return torch.from_numpy(rows).to(self._device)
        is_resident = self._rows.device == on_device.device
        out: Tensor = self._rows[on_device if is_resident else index.to(self._rows.device)]
        out = out.to(self._device)
        return out


def _takes_integers(module: nn.Module) -> bool:
    """Whether integers are positions in an embedding of this module, not quantities."""
    return any(isinstance(part, nn.Embedding | nn.EmbeddingBag) for part in module.modules())


def _floats(X: Tensor, module: nn.Module) -> Tensor:
    """Return a tensor of floats in the precision of the module; other tensors as they are."""
    floats = (weights.dtype for weights in module.parameters() if weights.is_floating_point())
    return X.to(next(floats, X.dtype)) if X.is_floating_point() else X


def _tensor(X: Objects, keep_integers: bool) -> Tensor:
    """Return numbers as a tensor of float32; with `keep_integers`, integers as int64."""
    with numbers_in(X, "X"):
        array = np.asarray(X)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            "X must be numbers, a list of strings for a module that has `tokenize`, a dict of "
            f"these or a torch Dataset. Got {type(X).__name__} of {array.dtype}."
        )
    if keep_integers and array.dtype.kind in "iu":
        array = array.astype(np.int64, copy=False)
    else:
        array = array.astype(np.float32, copy=False)
        if not np.isfinite(array).all():
            raise ValueError("X has NaN or infinity, or numbers too large for float32.")
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


class _Tokens(BatchSource):
    """Batches of strings, which are tokenized once; a batch is padded to its longest row."""

    def __init__(self, X: Objects, module: nn.Module, device: torch.device) -> None:
        if not hasattr(module, "tokenize"):
            raise TypeError(
                f"X has strings, and {type(module).__name__} has no method `tokenize` that makes "
                "tokens of them. Use skout.deep.CharTransformer or skout.deep.TextEncoder, or give "
                "your module tokenize(strings) -> lists of ints."
            )
        strings = [str(text) for text in X]  # type: ignore[union-attr]
        tokenize: Any = module.tokenize
        tokens = [np.asarray(ids, dtype=np.int64) for ids in tokenize(strings)]
        if len(tokens) != len(strings):
            raise ValueError(f"tokenize made {len(tokens)} lists of {len(strings)} strings.")
        self._lengths = np.array([len(ids) for ids in tokens], dtype=np.int64)
        self.lengths = torch.from_numpy(self._lengths)
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._tokens = np.concatenate([*tokens, np.empty(0, dtype=np.int64)])
        self._pad = int(getattr(module, "pad_id", 0))
        self._device = device

    def __len__(self) -> int:
        return len(self._lengths)

    def batch(self, index: Tensor, on_device: Tensor) -> dict[str, Tensor]:
        chosen = index.numpy()
        lengths = self._lengths[chosen]
        column = np.arange(max(1, lengths.max(initial=0)))
        mask = column < lengths[:, None]
        place = np.where(mask, self._starts[chosen][:, None] + column, 0)
        ids = np.where(mask, self._tokens[place] if len(self._tokens) else self._pad, self._pad)
        return {
            "input_ids": torch.from_numpy(ids).to(self._device, non_blocking=True),
            "attention_mask": torch.from_numpy(mask).to(self._device, non_blocking=True),
        }


class _Fields(BatchSource):
    """Batches of a dict of inputs, the module's keyword arguments."""

    def __init__(self, fields: dict[str, BatchSource]) -> None:
        lengths = {name: len(source) for name, source in fields.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"The fields of X must be of equal length. Got {lengths}.")
        self._fields = fields
        padded = [source.lengths for source in fields.values() if source.lengths is not None]
        self.lengths = padded[0] if padded else None

    def __len__(self) -> int:
        return len(next(iter(self._fields.values())))

    def batch(self, index: Tensor, on_device: Tensor) -> Batch:
        out: dict[str, Batch] = {}
        for name, source in self._fields.items():
            part = source.batch(index, on_device)
            out |= part if isinstance(part, dict) else {name: part}
        return out


class _Items(BatchSource):
    """Batches of the items of a torch Dataset."""

    def __init__(self, items: Any, device: torch.device) -> None:
        self._items, self._device = items, device

    def __len__(self) -> int:
        return len(self._items)

    def batch(self, index: Tensor, on_device: Tensor) -> Batch:
        return _moved(default_collate([self._items[int(i)] for i in index]), self._device)


def _moved(batch: Batch, device: torch.device) -> Batch:
    """Return a batch on the device."""
    if isinstance(batch, dict):
        return {name: _moved(part, device) for name, part in batch.items()}
    return batch.to(device)
