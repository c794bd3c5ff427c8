"""Sparse matrices on disk, whose rows are read when they are indexed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from scipy import sparse

from .._numerics.objects import pointers, ranges
from .._numerics.typing import Index, Matrix
from ..rows.encode import numbers_in


class DiskCSR:
    """A sparse matrix on disk whose rows are read when they are indexed, see `open_csr`."""

    takes_positions = True

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray

    def __init__(
        self, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_columns: int
    ) -> None:
        self.data, self.indices, self.indptr = data, indices, indptr
        self.shape: tuple[int, int] = (len(indptr) - 1, n_columns)
        self.dtype: np.dtype = data.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Index) -> sparse.csr_matrix:
        """Return a slice of rows, or those at increasing positions, in memory."""
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            indptr = np.asarray(self.indptr[start : max(start, stop) + 1])
            return self._block(slice(int(indptr[0]), int(indptr[-1])), indptr - indptr[0])
        index = np.asarray(index)
        starts, lengths = self.indptr[index], self.indptr[index + 1] - self.indptr[index]
        return self._block(ranges(starts, lengths), pointers(lengths))

    def _block(self, entries: Index, indptr: np.ndarray) -> sparse.csr_matrix:
        """Return the rows with these entries, or raise where a damaged file lacks them."""
        data, indices = np.asarray(self.data[entries]), np.asarray(self.indices[entries])
        outside = len(indices) and not 0 <= indices.min() <= indices.max() < self.shape[1]
        if outside or np.any(np.diff(indptr) < 0) or len(indices) != indptr[-1]:
            raise ValueError("The CSR files are damaged: save the matrix again with save_csr.")
        return sparse.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, self.shape[1]))


def save_csr(folder: str | os.PathLike[str], X: Matrix) -> None:
    """Write a sparse matrix for `open_csr`: its arrays as .npy files in a folder.

    Parameters
    ----------
    folder : path
        It is made if need be.
    X : sparse matrix of shape (n, d)
        The matrix to write.

    Examples
    --------
    See `open_csr`.
    """
    folder = _folder(folder)
    with numbers_in(X, "X"):
        rows = sparse.csr_matrix(X)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    folder.mkdir(parents=True, exist_ok=True)
    shape = np.array(rows.shape, dtype=np.int64)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": shape}
    for name, part in parts.items():
        np.save(folder / f"{name}.npy", part, allow_pickle=False)


def open_csr(folder: str | os.PathLike[str]) -> DiskCSR:
    """Open a sparse matrix that `save_csr` wrote, without reading it.

    Parameters
    ----------
    folder : path
        With data.npy, indices.npy, indptr.npy and shape.npy.

    Returns
    -------
    X : DiskCSR
        Give it to `fit`, `transform` or `predict` in place of a CSR matrix.

    Examples
    --------
    >>> import tempfile
    >>> from scipy import sparse
    >>> from skout.sources import open_csr, save_csr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_csr(folder, sparse.eye_array(4, format="csr"))
    ...     open_csr(folder)[1:3].toarray()
    array([[0., 1., 0., 0.],
           [0., 0., 1., 0.]])
    """
    folder = _folder(folder)
    parts = []
    for name in ("data", "indices", "indptr", "shape"):
        path = folder / f"{name}.npy"
        if not path.is_file():
            raise FileNotFoundError(f"{folder} is no folder of save_csr: it has no {name}.npy.")
        parts.append(np.load(path, mmap_mode="r", allow_pickle=False))
    data, indices, indptr, shape = parts
    n, d = (int(size) for size in shape)
    fits = len(indptr) == n + 1 and len(data) == len(indices)
    if not fits or indptr[0] != 0 or indptr[n] != len(data):
        raise ValueError(f"The files of {folder} do not belong together: save the matrix again.")
    return DiskCSR(data, indices, indptr, d)


def _folder(folder: str | os.PathLike[str]) -> Path:
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(f"folder must be a path. Got {folder!r} instead.")
    return Path(folder)
