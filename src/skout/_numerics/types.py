"""Names for what goes in and out of functions, where no library has a type for it.

PyTorch is optional and SciPy's sparse matrices carry no types, so that a type checker would know
neither: these names tell the reader what it is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

#: Numbers on the host in double precision, and positions.
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]
#: A NumPy array or a PyTorch tensor: the same lines compute with both.
Array: TypeAlias = Any
#: A NumPy array or a CSR matrix.
Matrix: TypeAlias = Any
#: Encoded rows in memory: an array, a CSR matrix, packed bits or a bag of features.
Rows: TypeAlias = Any
#: Weights of rows: none, an array, or a `Source` where they lie on disk or on a cluster.
Weights: TypeAlias = Any
#: Rows as users give them: an array, a matrix, a data frame, a list of objects.
Objects: TypeAlias = Any
#: None, a pool of objects, `CandidateSets`, a list of lists, or what `embed` made of these.
Candidates: TypeAlias = Any
#: An estimator of skout, of scikit-learn or of a user: it has the methods that are called on it.
Estimator: TypeAlias = Any
#: What `json.loads` returns.
Json: TypeAlias = Any
#: The attributes of an object that a file has, and parameters of estimators, by name.
State: TypeAlias = dict[str, Any]
#: Columns by name: a table of results, or what an estimator reports of a fit.
Table: TypeAlias = dict[str, Any]
#: A device of PyTorch; None is the host.
TorchDevice: TypeAlias = Any
#: None, the name of a metric, a metric, or a scorer of scikit-learn.
Scoring: TypeAlias = Any
#: A list or an array with one label per row, groups or strata; or None.
Labels: TypeAlias = Any
#: Positions of rows, a mask of them, or a slice.
Index: TypeAlias = NDArray[Any] | Sequence[int] | slice
#: None, an int, a NumPy Generator or a RandomState.
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
Rng: TypeAlias = np.random.Generator
Shape: TypeAlias = tuple[int, ...]
DType: TypeAlias = DTypeLike
PathLike: TypeAlias = str | os.PathLike[str]
