"""Training outputs, wherever they lie: their coordinates, by the block where they are many, and
the distinct ones, which are candidates where none are given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sklearn.utils.validation import check_array

from ._arrays import n_rows, row_keys, row_slices, take
from ._inputs import numbers_in
from ._lazy import LazyRows, is_on_disk, pick
from ._streams import join
from ._validation import check_rows
from .basis import KernelBasis
from .chunks import Chunks, on_cluster
from .gram import stored_bytes
from .kernels import Kernel
from .sketches import as_sketch

__all__ = [
    "DistinctOutputs",
    "fitted_coordinates",
    "lazy_coordinates",
    "outputs_on_cluster",
    "outputs_on_disk",
    "plain_outputs",
]

# Distinct outputs that are kept, to be candidates where none are given.
_MOST_OUTPUTS = 100_000
# Outputs that are read at a time.
_READ_ROWS = 8192


def plain_outputs(Y: Any, name: str = "Y") -> Any:
    """Return outputs in a data frame or series as an array, since files hold no frames."""
    if on_cluster(Y) or not hasattr(Y, "to_numpy"):
        return Y
    if not hasattr(Y, "columns"):
        return Y.to_numpy()
    with numbers_in(Y, name):
        return check_array(
            Y, accept_sparse="csr", dtype=None, ensure_all_finite=False, input_name=name
        )


class DistinctOutputs:
    """The distinct ones of outputs that come in blocks, in the order in which they appear.

    Parameters
    ----------
    kernel : Kernel
        Which encodes them: those of equal rows are one.
    limit : int, optional
        Most that are kept; if there are more, `is_complete` is False.
    """

    def __init__(self, kernel: Kernel, limit: int | None = None) -> None:
        self.kernel = kernel
        self.limit = _MOST_OUTPUTS if limit is None else limit
        self.is_complete = True
        self._seen: set[Any] = set()
        self._parts: list[Any] = []

    def add(self, block: Any) -> None:
        """Show it a block of outputs."""
        if not self.is_complete:
            return
        new = []
        for i, key in enumerate(row_keys(self.kernel.encode(block))):
            if key not in self._seen:
                self._seen.add(key)
                new.append(i)
        room = self.limit - len(self._seen) + len(new)
        if len(new) > room:
            self.is_complete, new = False, new[:room]
        if new:
            self._parts.append(take(block, new))

    def objects(self) -> Any:
        """Return the outputs that were kept."""
        return join(self._parts)


def outputs_on_disk(kernel: Kernel, Y: Any) -> DistinctOutputs:
    """Return the distinct ones of outputs on disk."""
    found = DistinctOutputs(kernel)
    for some in row_slices(n_rows(Y), _READ_ROWS):
        found.add(pick(Y, some))
    return found


def outputs_on_cluster(kernel: Kernel, Y: Chunks) -> DistinctOutputs:
    """Return the distinct ones of outputs on a cluster, found block by block on the workers."""
    limit = _MOST_OUTPUTS
    return Y.total(_distinct, combine=_merge, kernel=kernel, limit=limit)


def _distinct(block: Any, kernel: Kernel, limit: int) -> DistinctOutputs:
    found = DistinctOutputs(kernel, limit)
    found.add(block)
    return found


def _merge(parts: Sequence[DistinctOutputs]) -> DistinctOutputs:
    found = DistinctOutputs(parts[0].kernel, parts[0].limit)
    for part in parts:
        found.add(part.objects())
        found.is_complete &= part.is_complete
    return found


def fitted_coordinates(basis: Any, Y: Any, *, lazy: bool) -> Any:
    """Fit a basis on outputs, and return their coordinates: on a cluster if the outputs are.

    Parameters
    ----------
    basis : KernelBasis, or a transformer like it
    Y : outputs
    lazy : bool
        Whether coordinates that would take more memory than `block_budget` allows may be rows
        that are computed when they are asked for.
    """
    if not lazy or on_cluster(Y) or not _is_large(basis, n_rows(Y)):
        return basis.fit_transform(Y)
    return lazy_coordinates(basis.fit(Y), Y)


def _is_large(basis: Any, n: int) -> bool:
    """Whether the coordinates of n outputs would take more memory than `block_budget` allows."""
    if not isinstance(basis, KernelBasis):
        return False
    sketch = as_sketch(basis.sketch)
    if sketch is None:  # which holds as many numbers by itself
        return False
    size = getattr(sketch, "size", None) or math.ceil(10.0 * math.sqrt(n))
    return 8 * n * min(n, size) > stored_bytes()


def lazy_coordinates(basis: KernelBasis, Y: Any) -> LazyRows:
    """Return the coordinates of outputs under a fitted basis, computed when they are asked for."""
    if is_on_disk(Y):
        return LazyRows(Y, basis.transform, "Y")
    return LazyRows(check_rows(basis, basis.kernel_, Y, reset=False), basis._coordinates, "Y")
