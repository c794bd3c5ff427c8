"""A kernel matrix that was computed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from .._numerics.objects import Rows
from .._numerics.typing import Index, Objects
from ..rows.encode import check_matrix
from .base import Block, Kernel


class GramRows(Rows):
    """Rows of a kernel matrix, and the column that each training row has in it, -1 for others."""

    ndim = 2

    def __init__(self, matrix: np.ndarray, positions: np.ndarray) -> None:
        self.matrix = matrix  # (n, n_train)
        self.positions = positions  # (n,)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.matrix.shape

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.matrix.dtype

    def __len__(self) -> int:
        return len(self.matrix)

    def __getitem__(self, index: Index) -> GramRows:
        return GramRows(self.matrix[index], self.positions[index])

    def astype(self, dtype: DTypeLike, copy: bool = True) -> GramRows:
        """Return the rows in another precision, as arrays do."""
        return GramRows(self.matrix.astype(dtype, copy=copy), self.positions)

    def keys(self) -> list[bytes]:
        return [row.tobytes() for row in self.matrix]

    @classmethod
    def concatenate(cls, parts: Sequence[GramRows]) -> GramRows:
        matrices, positions = zip(*((part.matrix, part.positions) for part in parts), strict=True)
        return cls(np.concatenate(matrices), np.concatenate(positions))


class Precomputed(Kernel):
    """The values of a kernel that were computed elsewhere: X is the kernel matrix.

    In `fit` X is K(train, train), square; in `predict` it is K(test, train), a column for each
    training row. Landmarks are some of its columns. The matrix is held in memory, and standard
    deviations of predictions, which need k(x, x) of new rows, cannot be had.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelRidge
    >>> x = np.linspace(0.0, 1.0, 5)
    >>> model = KernelRidge("precomputed", alpha=1e-6).fit(np.minimum.outer(x, x), x)
    >>> model.predict(np.minimum.outer([0.6], x)).round(3)
    array([0.6])
    """

    takes_vectors = True
    compares = "vectors"

    def encode(self, objects: Objects) -> GramRows:
        if isinstance(objects, GramRows):
            return objects
        matrix = check_matrix(objects, accept_sparse=False)
        n, n_train = matrix.shape
        return GramRows(matrix, np.arange(n) if n == n_train else np.full(n, -1))

    def against(self, B: GramRows) -> Block:
        if np.any(B.positions < 0):
            raise ValueError(
                "A precomputed kernel matrix must be square in fit, all rows in memory: K(train, "
                f"train). Got rows of {B.matrix.shape[1]} columns that are no training rows."
            )

        def block(A: GramRows, out: np.ndarray | None = None) -> np.ndarray:
            return np.take(A.matrix, B.positions, axis=1, out=out)

        return block

    def diag(self, A: GramRows) -> np.ndarray:
        if np.any(A.positions < 0):
            raise ValueError("k(x, x) of new rows is not in a precomputed kernel matrix.")
        diagonal: np.ndarray = A.matrix[np.arange(len(A)), A.positions].astype(np.float64)
        return diagonal
