"""Kernels on sets: 0/1 vectors, packed where they are long, and counts as multisets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import RightOperand, astype, n_rows
from .._numerics.namespace import cast, contiguous, namespace, ones
from .._numerics.validation import check_choice
from ..rows import Survey
from .base import Block, Kernel
from .distances import block_buffer
from .packed import divide_sets, pack_matrix, pack_objects, set_blocks
from .popcount import Parts
from .vectors import VectorKernel
from .widths import WithGamma, median_of_pairs, some_positions

__all__ = ["F1", "GaussianTanimoto", "Tanimoto"]

# Matrices of fewer columns stay as they are: products of them are fast, and no code need unpack.
_LEAST_BITS = 256
# Bytes of a stored entry of a CSR matrix.
_ENTRY_BYTES = 12


class _SetKernel(VectorKernel):
    """A kernel of |a|, |b| and |a and b|, for 0/1 vectors (sets) and counts (multisets).

    |a| is the sum of a, |a and b| the sum of min(a, b). Two empty sets are alike.
    """

    runs_on_device = True
    compares = "sets"
    #: (|a and b|, |a|, |b|) -> numerator and denominator
    _parts: Parts

    @property
    def normalized(self) -> bool:
        return True

    def encode(self, objects: Any) -> Any:
        """Return packed bits, or a non-negative dense or CSR matrix of float32 or float64.

        Parameters
        ----------
        objects : array, CSR matrix, list of RDKit bit vectors, list of hex strings or PackedBits
            A matrix of 0 and 1 is packed where it has at least 256 columns and this saves memory;
            counts stay as they are.
        """
        packed = pack_objects(objects)
        if packed is None and _are_integers(objects) and _is_long(objects):
            packed = pack_matrix(objects)  # without a copy in float64
        if packed is not None:
            return packed
        rows = super().encode(objects)
        values = rows.data if sparse.issparse(rows) else rows
        if values.size and values.min() < 0:
            raise ValueError(
                f"{type(self).__name__} takes 0/1 vectors or counts, so values must be >= 0. "
                f"Got {values.min():g}."
            )
        packed = pack_matrix(rows) if _is_long(rows) else None
        return rows if packed is None else packed

    def against(self, B: Any) -> Block:
        return set_blocks(type(self)._parts, B, self._of_matrix)

    def _of_matrix(self, B: Any) -> Block:
        """Return the block function of matrices, whose values may be counts."""
        overlap = _overlap_with(B)
        size_b = _row_sums(B)

        def block(A: Any, out: Any = None) -> Any:
            common = overlap(A, block_buffer(A, n_rows(B), out))
            a, b = cast(_row_sums(A), common.dtype), cast(size_b, common.dtype)
            return divide_sets(type(self)._parts, common, a, b, common)

        return block

    def diag(self, A: Any) -> Any:
        return ones(n_rows(A), A)


def _row_sums(A: Any) -> Any:
    return np.asarray(A.sum(axis=1)).ravel() if sparse.issparse(A) else A.sum(axis=1)


def _are_integers(objects: Any) -> bool:
    return isinstance(objects, np.ndarray) and objects.ndim == 2 and objects.dtype.kind in "biu"


def _is_long(matrix: Any) -> bool:
    """Whether a matrix of 0 and 1 is better packed: many columns, and if sparse, not very."""
    if matrix.shape[1] < _LEAST_BITS:
        return False
    return not sparse.issparse(matrix) or _ENTRY_BYTES * matrix.nnz >= np.prod(matrix.shape) / 8


# Up to this many different values, overlaps are matrix products.
_MAX_LEVELS = 64


def _overlap_with(B: Any) -> Block:
    """Return the function A -> sum_j min(a_j, b_j), one matrix product for each level of B.

    With the values 0 = v_0 < v_1 < ... of B, min(a, b) = sum_i (clip(a, v_{i-1}, v_i) - v_{i-1})
    1[b >= v_i]: for 0/1 vectors a single product.
    """
    values = namespace(B).unique(B.data if sparse.issparse(B) else B)
    levels = values[values > 0].tolist()
    if len(levels) > _MAX_LEVELS:
        return _overlap_by_column(B)
    indicators = [RightOperand(_indicator(B, level)) for level in levels]
    lower = [0.0, *levels][:-1]

    def overlap(A: Any, out: Any) -> Any:
        out[...] = 0.0
        for low, high, right in zip(lower, levels, indicators, strict=True):
            out += right.product(_share(A, low, high))
        return out

    return overlap


def _overlap_by_column(B: Any) -> Block:
    """Return the function A -> sum_j min(a_j, b_j), one pass over the block for each column."""
    columns = contiguous((B.toarray() if sparse.issparse(B) else B).T)
    not_zero = [j for j, there in enumerate((columns > 0).any(axis=1).tolist()) if there]

    def overlap(A: Any, out: Any) -> Any:
        out[...] = 0.0
        A, xp = A.toarray() if sparse.issparse(A) else A, namespace(out)
        for j in not_zero:
            out += xp.minimum(A[:, j, None], columns[j])
        return out

    return overlap


def _indicator(B: Any, level: float) -> Any:
    """Return 1[b >= level] in the format of B."""
    if not sparse.issparse(B):
        return cast(level <= B, B.dtype)
    out = B.copy()
    out.data = (level <= B.data).astype(B.dtype)
    out.eliminate_zeros()
    return out


def _share(A: Any, low: float, high: float) -> Any:
    """Return clip(a, low, high) - low in the format of A."""
    if not sparse.issparse(A):
        return namespace(A).clip(A, low, high) - low
    out = A.copy()
    out.data = np.clip(A.data, low, high) - low
    return out


def _tanimoto(common: Any, a: Any, b: Any) -> tuple[Any, Any]:
    return common, a + b - common


def _f1(common: Any, a: Any, b: Any) -> tuple[Any, Any]:
    return 2.0 * common, a + b


class Tanimoto(_SetKernel):
    """``k(a, b) = |a and b| / |a or b|`` (Jaccard), on 0/1 vectors, fingerprints or counts.

    Fingerprints are given as a matrix of 0 and 1, as a list of RDKit bit vectors or of hex strings,
    or as `PackedBits`. Of counts, ``|a and b|`` is the sum of min(a, b) and
    ``|a or b|`` that of max(a, b).

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Tanimoto
    >>> float(Tanimoto()(np.array([[1, 1, 0]]), np.array([[0, 1, 0]]))[0, 0])
    0.5
    >>> Tanimoto()(["0f", "ff"])  # fingerprints of 8 bits, in hex
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    _parts = staticmethod(_tanimoto)


class F1(_SetKernel):
    """``k(a, b) = 2 |a and b| / (|a| + |b|)``, the F1 score of two label sets.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import F1
    >>> float(F1()(np.array([[1, 1, 0]]), np.array([[0, 1, 0]]))[0, 0].round(4))
    0.6667
    """

    _parts = staticmethod(_f1)


class GaussianTanimoto(_SetKernel, WithGamma):
    """k(a, b) = exp(-gamma (2 - 2 t(a, b))), t the Tanimoto kernel: Gaussian in its features.

    Parameters
    ----------
    gamma : float or "median", default 1.0
        "median" is 1/(2 median of 2 - 2 t), resolved from the training rows at fit.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import GaussianTanimoto
    >>> float(GaussianTanimoto(0.5)(np.array([[1, 1, 0]]), np.array([[0, 1, 0]]))[0, 0].round(4))
    0.6065
    """

    _parts = staticmethod(_tanimoto)

    def __init__(self, gamma: float | str = 1.0) -> None:
        self.gamma = gamma

    def surveyed(
        self, survey: Survey, rng: np.random.Generator, weights: Any = None
    ) -> Callable[[], Kernel]:
        if not isinstance(self.gamma, str):
            return lambda: self._of_length(None)
        check_choice(self.gamma, "gamma", ("median",))
        index, shares = some_positions(len(survey), rng, weights)
        sample = survey.take(index)
        # equal rows: every width gives the same kernel
        return lambda: self._of_length(
            2.0 * median_of_pairs(_squared_distances(astype(sample(), np.float64)), shares)
        )

    def against(self, B: Any) -> Block:
        gamma = self._width()
        tanimoto = super().against(B)

        def block(A: Any, out: Any = None) -> Any:
            K = tanimoto(A, out)
            K -= 1.0
            K *= 2.0 * float(gamma)
            return namespace(K).exp(K, out=K)

        return block

    def diag(self, A: Any) -> Any:
        self._width()
        return super().diag(A)


def _squared_distances(rows: Any) -> np.ndarray:
    """Return 2 - 2 t of all pairs."""
    return 2.0 - 2.0 * Tanimoto().against(rows)(rows)
