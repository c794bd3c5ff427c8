"""Types of what goes in and out of functions.

PyTorch is optional and SciPy carries no types, so that a checker would take their arrays for
anything. The names below say what is needed of them instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike as ArrayLike
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator

if TYPE_CHECKING:
    import matplotlib.axes
    import torch

#: Numbers on the host in double precision, and positions.
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]
#: A NumPy array, or a PyTorch tensor where the same lines compute with both: these use what the
#: two share, so that they are checked as lines on arrays.
Array: TypeAlias = NDArray[Any]
Tensor: TypeAlias = "torch.Tensor"


class ArrayModule(Protocol):
    """What is used of `numpy`, of `torch` and of their special functions: functions of arrays."""

    @property
    def float64(self) -> Any: ...
    def __getattr__(self, name: str, /) -> Callable[..., Array]: ...


class SparseMatrix(Protocol):
    """What is used of a sparse matrix or array of SciPy."""

    data: Array
    indices: Array
    indptr: Array
    nnz: int
    ndim: int
    dtype: np.dtype
    shape: tuple[int, int]

    @property
    def T(self) -> SparseMatrix: ...
    def __getitem__(self, index: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __rmatmul__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def astype(self, dtype: DTypeLike, copy: bool = ...) -> Any: ...
    def multiply(self, other: Any, /) -> Any: ...
    def sum(self, axis: int | None = None) -> Any: ...
    def toarray(self) -> Array: ...
    def tocsr(self) -> Any: ...


class Tabular(Protocol):
    """What is used of arrays, data frames and tensors before they are read as an array."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, index: Any, /) -> Any: ...
    def __array__(self) -> Array: ...


class KernelRows(Protocol):
    """What all encoded rows have: arrays, CSR matrices, tensors, and `skout.kernels.Rows`."""

    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...


class RowBlocks(Protocol):
    """What is used of `skout.sources.Blocks`: rows, targets and weights, block by block."""

    def merged(self, rows: int) -> Iterator[Any]: ...
    def reread(self) -> Any: ...


class CandidatesPerQuery(Protocol):
    """What is used of `CandidateSets`: query i has pool[indices[indptr[i] : indptr[i + 1]]]."""

    @property
    def pool(self) -> Any: ...
    @property
    def indptr(self) -> Array: ...
    @property
    def indices(self) -> Array: ...


class EmbeddedCandidates(Protocol):
    """What is used of an `EmbeddedPool`: candidates and their coordinates."""

    @property
    def objects(self) -> Any: ...
    @property
    def embedding(self) -> Array: ...
    @property
    def made_by(self) -> str: ...


#: A NumPy array or a CSR matrix, which SciPy leaves without types.
Matrix: TypeAlias = NDArray[Any]
#: Encoded rows in memory: an array, a CSR matrix, packed bits or a bag of features.
Rows: TypeAlias = KernelRows
#: Rows of kernels on vectors: a dense matrix, a CSR matrix, which SciPy leaves without types, or a
#: tensor.
VectorRows: TypeAlias = NDArray[Any]
#: Weights of rows: none, an array, or a `Source` where they lie on disk or on a cluster.
Weights: TypeAlias = NDArray[Any] | None
#: Rows as users give them: an array, a matrix, a data frame, a list of objects.
Objects: TypeAlias = Tabular | Sequence[Any] | KernelRows
#: What the `fit` of estimators takes as X.
Inputs: TypeAlias = Objects | RowBlocks
#: None, a pool of objects, `CandidateSets`, a list of lists, or what `embed` made of these.
Candidates: TypeAlias = Objects | CandidatesPerQuery | EmbeddedCandidates | None
#: An estimator of skout, of scikit-learn or of a user: it has the methods that are called on it.
Estimator: TypeAlias = BaseEstimator
#: What `json.loads` returns.
Json: TypeAlias = Any
#: The attributes of an object that a file has, and parameters of estimators, by name.
State: TypeAlias = dict[str, Any]
#: Columns by name: a table of results, or what an estimator reports of a fit.
Table: TypeAlias = dict[str, Any]
#: Axes of matplotlib to draw on.
Axes: TypeAlias = "matplotlib.axes.Axes"
#: A device of PyTorch; where it may be None, that is the host.
TorchDevice: TypeAlias = "torch.device"
#: A device of PyTorch or its name; a text as a whole, so that it can be read without PyTorch.
DeviceLike: TypeAlias = "torch.device | str"
#: None, the name of a metric, a metric, or a scorer of scikit-learn.
Scoring: TypeAlias = str | Callable[..., Any] | None
#: A list or an array with one label per row, groups or strata; or None.
Labels: TypeAlias = Sequence[Any] | NDArray[Any] | None
#: Positions of rows, a mask of them, or a slice.
Index: TypeAlias = NDArray[Any] | Sequence[int] | slice
#: None, an int, a NumPy Generator or a RandomState.
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
Rng: TypeAlias = np.random.Generator
Shape: TypeAlias = tuple[int, ...]
DType: TypeAlias = DTypeLike
PathLike: TypeAlias = str | os.PathLike[str]
