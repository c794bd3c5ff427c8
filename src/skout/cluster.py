"""What estimators do with rows that lie elsewhere: check and encode them, and predict lazily.

Each function takes what is in memory too, and does with it what it would do otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_n_features, check_array

from ._arrays import float_dtype, has_rows, n_rows
from ._inputs import numbers_in
from ._lazy import in_memory
from ._validation import as_columns, check_rows, check_targets, check_weights
from .accuracy import Plan
from .chunks import Chunks, alone, broadcast, chunked, map_rows, on_cluster, shown
from .device import device_rows, is_on_device, to_host
from .kernels import Kernel
from .moments import Moments, Sample, sum_moments

__all__ = [
    "check_pair",
    "check_sketch",
    "here",
    "lazily",
    "moments_on_cluster",
    "rows_of",
    "sample_of",
]


def rows_of(estimator: Any, kernel: Kernel, X: Any, *, reset: bool) -> Any:
    """Encode X for `kernel`, as `check_rows` does; blocks on a cluster are encoded there."""
    if is_on_device(X):
        return device_rows(estimator, kernel, X, reset=reset)
    if not on_cluster(X):
        return check_rows(estimator, kernel, X, reset=reset)
    X = chunked(X)
    _check_vectors(estimator, kernel, X, reset=reset)
    rows = replace(X, encode=kernel.encode)
    if not kernel.takes_vectors:  # whose precision tells nothing of that of their encoding
        rows = replace(rows, dtype=float_dtype(rows[:1]))
    return rows


def _check_vectors(estimator: Any, kernel: Kernel, X: Any, *, reset: bool) -> None:
    """Check the shape of rows on a cluster, where the kernel takes vectors and it is known."""
    if not kernel.takes_vectors or not hasattr(X, "ndim"):
        return
    if X.ndim == 2:
        _check_n_features(estimator, X, reset=reset)
    elif X.dtype.kind in "biuf":  # others are objects, fingerprints for one
        raise ValueError(
            f"X must be a 2D array, n rows by d columns. Got shape {X.shape}: where X is one "
            "column, give X[:, None]."
        )


def sample_of(
    estimator: Any, kernel: Kernel, X: Any, y: Any, sample_weight: Any, *, reset: bool
) -> Sample:
    """Return rows with their targets, of shape (n,) or (n, d), and weights, wherever they lie."""
    y, sample_weight = to_host(y), to_host(sample_weight)
    if not on_cluster(X):
        _refuse_cluster(y, "y")
        _refuse_cluster(sample_weight, "sample_weight")
    rows = rows_of(estimator, kernel, X, reset=reset)
    if n_rows(rows) == 0:
        raise ValueError("Found array with 0 sample(s): X must have rows.")
    if isinstance(rows, Chunks):
        return Sample(rows, _targets(y, rows), _weights(sample_weight, rows))
    return Sample(rows, check_targets(y, n_rows(rows)), check_weights(sample_weight, rows))


def check_pair(X: Any, Y: Any) -> tuple[Any, Any]:
    """Return inputs and outputs, of as many rows; as Chunks what lies on a cluster."""
    if not on_cluster(X):
        _refuse_cluster(Y, "Y")
    else:
        X = chunked(X)
        Y = _check_aligned(Y, X, "Y") if on_cluster(Y) else Y
    for values, name in ((X, "X"), (Y, "Y")):
        if not has_rows(values):
            raise TypeError(f"{name} must be a list or array, one row an object. Got {values!r}.")
    if n_rows(X) != n_rows(Y):
        raise ValueError(f"X and Y must be of equal length. Got {n_rows(X)} and {n_rows(Y)}.")
    return X, Y


def _targets(y: Any, rows: Chunks) -> Chunks:
    if not on_cluster(y):
        return _cut(check_targets(y, len(rows)), rows, "y")
    return replace(_check_aligned(y, rows, "y"), encode=_as_targets)


def _as_targets(block: Any) -> np.ndarray:
    return as_columns(in_memory(check_targets(block, n_rows(block))))


def _weights(sample_weight: Any, rows: Chunks) -> Any:
    if not on_cluster(sample_weight):
        weights = check_weights(sample_weight, rows)
        return None if weights is None else _cut(weights, rows, "sample_weight")
    chunks = replace(_check_aligned(sample_weight, rows, "sample_weight"), encode=_as_weights)
    if chunks.total(np.sum) <= 0.0:
        raise ValueError("sample_weight must have a positive sum. Got only zeros instead.")
    return chunks


def _as_weights(block: Any) -> np.ndarray:
    with numbers_in(block, "sample_weight"):
        weights = check_array(block, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.ndim != 1 or weights.min() < 0.0:
        raise ValueError("sample_weight must be non-negative numbers, one a row.")
    return weights


def here(values: Any, name: str) -> Any:
    """Return a few numbers a row as an array, if they lie on a cluster."""
    return np.asarray(chunked(values, name)) if on_cluster(values) else values


def _refuse_cluster(values: Any, name: str) -> None:
    """Raise where values lie on a cluster, and X does not."""
    if on_cluster(values):
        raise TypeError(
            f"{name} lies on a cluster and X does not: give both as dask arrays, or compute {name}."
        )


def _cut(values: np.ndarray, rows: Chunks, name: str) -> Chunks:
    """Cut numbers that are here as the rows are."""
    parts = [values[a:b] for a, b in zip(rows.starts[:-1], rows.starts[1:], strict=True)]
    encode = _as_targets if name == "y" else _as_weights
    return Chunks(parts, rows.sizes, values.shape[1:], values.dtype, name, encode)


def _check_aligned(values: Any, rows: Chunks, name: str) -> Chunks:
    """Return chunks that are cut as those of X, or say how to cut them."""
    values = chunked(values, name)
    if len(values) != len(rows):
        raise ValueError(
            f"X and {name} must have the same number of rows: inconsistent numbers of samples, "
            f"{len(rows)} and {len(values)}."
        )
    if values.sizes != rows.sizes:
        raise ValueError(
            f"The chunks of X and {name} must align. Got rows {shown(rows.sizes)} in X and "
            f"{shown(values.sizes)} in {name}: give {name}.rechunk({{0: X.chunks[0]}})."
        )
    return values


def check_sketch(sketch: Any, rows: Any) -> Any:
    """Raise where a sketch wants all rows in one place; return the rows that it may look at."""
    if not isinstance(rows, Chunks):
        return rows
    if sketch is None:
        raise ValueError(
            "sketch=None keeps every row, which dask's chunks cannot: give a sketch, for instance "
            "SubSample(1000)."
        )
    if not sketch.needs_gram:
        return rows
    if not hasattr(sketch, "max_rows"):
        raise ValueError(
            f"{sketch!r} needs kernel values of all rows in one place, which dask's chunks are "
            "not: use PivotedCholesky, which looks at a part of them."
        )
    return rows[:] if len(rows) <= sketch.max_rows else rows


def lazily(
    model: Any, method: str, X: Any, tail: tuple[int, ...], *, dtype: Any = None, like: Any = None
) -> Any:
    """Return model.method(X) as a lazy dask array: each block where it lies.

    The dtype is by default that of kernel values: of X, or of landmarks `like` if these are no
    vectors.
    """
    kernel = model.kernel_
    _check_vectors(model, kernel, X, reset=False)
    if dtype is None:
        dtype = float_dtype(X if kernel.takes_vectors else like)
    nothing = np.empty((0, *tail), dtype=dtype)
    return map_rows(_call, X, tail, dtype, model=broadcast(model), method=method, nothing=nothing)


@alone
def _call(block: Any, model: Any, method: str, nothing: np.ndarray) -> np.ndarray:
    if n_rows(block) == 0:
        return nothing
    return np.asarray(getattr(model, method)(block)).astype(nothing.dtype, copy=False)


def moments_on_cluster(basis: Any, sample: Sample, plan: Plan) -> list[Moments]:
    """Return the moments of rows on a cluster, one a group: a sum over their blocks."""
    fixed = {"basis": broadcast(basis), "plan": plan, "n_groups": sample.n_groups}
    return sample.rows.total(
        _moments_of_block,
        sample.targets,
        sample.weights,
        sample.groups,
        combine=_add_groups,
        origin=sample.origin,
        **fixed,
    )


def _moments_of_block(
    rows: Any,
    targets: np.ndarray,
    weights: np.ndarray | None,
    groups: np.ndarray | None,
    *,
    basis: Any,
    plan: Plan,
    n_groups: int,
    origin: np.ndarray | None,
) -> list[Moments]:
    return basis._block_moments(Sample(rows, targets, weights, groups, n_groups, origin), plan)


def _add_groups(parts: Sequence[list[Moments]]) -> list[Moments]:
    everything = np.ones(len(parts), dtype=bool)
    return [sum_moments(list(group), everything) for group in zip(*parts, strict=True)]
