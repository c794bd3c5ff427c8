"""From arrays of users to checked, encoded rows: the only place that tests where rows are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    check_array,
    validate_data,
)

from .._numerics.arrays import (
    float_dtype,
    has_rows,
    is_gpu_tensor,
    n_rows,
    numpy_of,
)
from .._numerics.objects import Rows as ObjectRows
from .._numerics.objects import column_of
from .._numerics.typing import Array, Estimator, Inputs, Objects, RandomState, Rows, Weights
from .._numerics.validation import LEAST_WEIGHT, MOST_WEIGHT, check_squares, check_total_weight
from .blocks import Blocks
from .dask import Dask, is_dask
from .device import Device, on_device
from .disk import Disk, is_array_like
from .local import Memory
from .source import Source

# Names in messages of kernels and scikit-learn for what the caller calls by another name.
_INNER = re.compile(r"\bX\b|^objects\b|(?<=Input )objects\b")


def source(X: Inputs, name: str = "X") -> Source:
    """Return the rows of a user as a source: the only place that tells kinds of arrays apart."""
    if isinstance(X, Source):
        return X
    if type(X) is np.ndarray:
        return Memory(X, name)
    if isinstance(X, np.ndarray):  # a memory map, for one
        return Disk(X, name) if is_array_like(X) else Memory(X, name)
    if is_dask(X):
        return Dask.of(X, name)
    if is_gpu_tensor(X):
        return Device(X, name=name)
    if is_array_like(X):
        return Disk(X, name)
    return Memory(X, name)


def beside(y: Objects, name: str = "y", rows: Source | None = None) -> Source:
    """Return targets or weights of a user as a source; a tensor is copied to the host.

    They may lie on a cluster only where the rows that they belong to do.
    """
    given: Any = y
    values = source(numpy_of(given), name)
    if rows is not None and isinstance(values, Dask) and not isinstance(rows, Dask):
        raise TypeError(
            f"{name} lies on a cluster and X does not: give both as dask arrays, or compute {name}."
        )
    return values


def is_lazy(X: object) -> bool:
    """Return whether dask computes X, and results for X, later."""
    return X is not None and type(X) is not np.ndarray and is_dask(X)


def reads_once(X: object) -> bool:
    """Return whether X are blocks of a generator, which can be read only once."""
    return isinstance(X, Blocks) and X.is_once


def reread(X: Inputs) -> Inputs:
    """Return X; a copy of it, if it is blocks that can be read only once."""
    return X.reread() if isinstance(X, Blocks) else X


def unpacked(
    X: Inputs,
    y: Objects | None,
    sample_weight: Weights,
    *,
    seed: RandomState = None,
    sketches: Iterable[object] = (),
    visit: Callable[[Objects], None] | None = None,
) -> tuple[Any, Any, Weights]:
    """Return X, y and weights: those of Blocks, or the arguments themselves.

    A sample of the rows of Blocks is as large as the `sketches` that will be drawn from it.
    """
    if not isinstance(X, Blocks):
        return X, y, sample_weight
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(f"{name} must be None where X are Blocks, which bring their own.")
    sizes = [getattr(sketch, "size", None) for sketch in sketches]  # a name has the default
    size = max((int(size) for size in sizes if isinstance(size, Integral)), default=0)
    return X.open(seed, size, visit)


def in_memory(
    X: Inputs, y: Objects | None, sample_weight: Weights
) -> tuple[Any, Any, np.ndarray | None]:
    """Return rows, outputs and checked weights in memory: those of Blocks, or the arguments."""
    rows, Y, sample_weight = unpacked(X, y, sample_weight)
    if rows is not X:
        rows, Y = rows.load(), None if Y is None else Y.load()
    if isinstance(Y, str | bytes | dict) or not hasattr(Y, "__len__"):
        hint = ""
        if isinstance(Y, str) and Y in getattr(rows, "columns", ()):
            hint = f" Give the column itself: fit(X.drop(columns={Y!r}), X[{Y!r}])."
        raise TypeError(f"Y must be outputs, one for each row. Got {type(Y).__name__}.{hint}")
    if has_rows(rows) and n_rows(rows) != n_rows(Y):
        raise ValueError(f"X and Y must be of equal length. Got {n_rows(rows)} and {n_rows(Y)}.")
    if sample_weight is not None:
        sample_weight = check_weights(beside(sample_weight, "sample_weight").load(), Y)
    return rows, Y, sample_weight


def encoded(
    estimator: Estimator, kernel: Encoder, X: Inputs, *, reset: bool, device: str | None = None
) -> Source:
    """Return the rows that a kernel makes of X; vectors also get scikit-learn's checks.

    Rows in memory are checked and encoded now, others block by block when they are read. Passes
    over them run on the device; None is where they are.
    """
    rows = source(X)
    if not isinstance(rows, Memory):
        rows = _encoded_later(estimator, kernel, X, rows, reset=reset)
        return rows if device is None else on_device(rows, device)
    objects: Any = numpy_of(rows.rows)
    checked = kernel.takes_vectors and not are_fingerprints(objects)
    if checked:
        with numbers_in(objects, "X"):
            kinds = [np.float64, np.float32]
            objects = validate_data(
                estimator, objects, reset=reset, accept_sparse="csr", dtype=kinds
            )
    elif not kernel.takes_vectors:
        objects = column_of(objects)
    with config_context(assume_finite=checked), named("X"):  # checked above
        encoded_rows = kernel.encode(objects)
    if kernel.takes_vectors and not checked and getattr(encoded_rows, "ndim", 1) == 2:
        _check_n_features(estimator, encoded_rows, reset=reset)
    rows = Memory(encoded_rows)
    return rows if device is None else on_device(rows, device)


def _encoded_later(
    estimator: Estimator, kernel: Encoder, X: Inputs, rows: Source, *, reset: bool
) -> Source:
    """Return rows outside of memory as a source that is checked and encoded when it is read."""
    if isinstance(rows, Device):
        _check_tensor(estimator, kernel, rows.base, reset=reset)
        return rows
    if not kernel.takes_vectors:
        return rows.then(_Encode(kernel))
    if isinstance(rows, Dask) and not rows.is_described:  # computed only when they are needed
        return rows.then(_Encode(kernel))
    if rows.ndim != 2 and rows.dtype.kind not in "biuf":  # objects, fingerprints for one
        return rows.then(_Encode(kernel))
    if rows.ndim != 2:
        raise ValueError(
            f"X must be a 2D array, n rows by d columns. Got shape {rows.shape}: where X is one "
            "column, give X[:, None]."
        )
    _check_feature_names(estimator, X, reset=reset)
    _check_n_features(estimator, rows.like, reset=reset)
    like = np.empty((0, *rows.tail), dtype=float_dtype(rows))
    return rows.then(_Encode(kernel), like)


class Encoder(Protocol):
    """What this module uses of a kernel: it encodes objects as rows."""

    takes_vectors: bool

    def encode(self, objects: Objects) -> Rows: ...


@dataclass(frozen=True)
class _Encode:
    """Check and encode a block; it can be sent to workers."""

    kernel: Encoder

    def __call__(self, block: Rows) -> Rows:
        with named("X"):
            rows = check_matrix(block) if self.kernel.takes_vectors else block
            with config_context(assume_finite=self.kernel.takes_vectors):  # checked above
                return self.kernel.encode(rows)


def are_fingerprints(X: Objects) -> bool:
    """Return whether these are fingerprints: packed bits, bit vectors or hex strings."""
    if isinstance(X, ObjectRows):
        return True
    is_list = isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1
    if not is_list or len(X) == 0 or hasattr(X, "iloc"):
        return False
    return isinstance(X[0], str) or hasattr(X[0], "ToBitString")


def _check_tensor(estimator: Estimator, kernel: Encoder, X: Any, *, reset: bool) -> None:
    """Check a tensor on a GPU as an array is checked."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D tensor, n rows by d columns. Got shape {tuple(X.shape)}.")
    if not X.dtype.is_floating_point or X.dtype.itemsize < 4:
        raise ValueError(f"X must be float32 or float64 on a GPU. Got {X.dtype}.")
    if not kernel.takes_vectors:
        raise TypeError(f"{kernel!r} takes objects, not tensors on a GPU.")
    _check_n_features(estimator, X, reset=reset)
    if not bool(X.isfinite().all()):
        raise ValueError("Input X contains NaN or infinity.")


# Targets and weights ------------------------------------------------------------------------------


def encoded_targets(y: Objects | None, rows: Source, *, missing: bool = False) -> Source:
    """Return float targets of shape (n,) or (n, d), checked when they are read.

    They are finite; with `missing`, NaN marks missing targets.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    targets = beside(y, "y", rows)
    check = targets_with_missing if missing else finite_targets
    if isinstance(targets, Memory):
        targets = Memory(check(targets.rows), "y")
    elif not sparse.issparse(targets.like):  # those are indicators of outputs, made by us
        like = np.empty((0, *targets.tail), dtype=float_dtype(targets))
        targets = targets.then(check, like)
    if len(targets) != len(rows):
        raise ValueError(
            f"X and y must have the same number of rows: inconsistent numbers of samples, "
            f"{len(rows)} and {len(targets)}."
        )
    return targets


def finite_targets(y: Objects) -> np.ndarray:
    """Return a block of targets as finite numbers."""
    targets = targets_with_missing(y)
    if np.isnan(targets).any():
        raise ValueError(
            "Input y contains NaN, missing values: fill them, or leave the rows out. KernelRidge, "
            "KernelMachine and JointQuantileRegressor fit each output on the rows that have it."
        )
    return targets


def targets_with_missing(y: Objects) -> np.ndarray:
    """Return a block of targets as numbers that are finite, or NaN where they are missing."""
    kinds = [np.float64, np.float32]
    with numbers_in(y, "y"):
        targets: np.ndarray = check_array(
            y, ensure_2d=False, dtype=kinds, input_name="y", ensure_all_finite="allow-nan"
        )
        check_squares(targets, "y", "Scale the targets.")
        return targets


def encoded_weights(
    sample_weight: Weights, rows: Source, *, compute: bool = False, alone: bool = True
) -> Any:
    """Return non-negative float64 weights, one per row, or None.

    They are an array; on a cluster a source, which `compute` makes an array. `alone` says that
    they are not compared with weights of other rows, so that all may be multiplied by a number.
    """
    if sample_weight is None:
        return None
    weights = beside(sample_weight, "sample_weight", rows)
    if isinstance(weights, Dask):
        weights = weights.then(_finite_weights, np.empty(0))
        if not compute:
            return weights
        if not np.asarray(weights.load()).any():
            check_total_weight(0.0)
    return check_weights(weights.load(), rows, alone=alone)


def _finite_weights(block: Rows) -> np.ndarray:
    with numbers_in(block, "sample_weight"):
        weights: np.ndarray = check_array(
            block, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
        )
    if weights.ndim != 1 or weights.min() < 0.0:
        raise ValueError("sample_weight must be non-negative numbers, one a row.")
    return weights


def check_pair(X: Inputs, Y: Objects) -> tuple[Source, Source]:
    """Return inputs and outputs, of as many rows, neither of them encoded."""
    for values, name in ((X, "X"), (Y, "Y")):
        if not has_rows(values) and not is_dask(values):
            raise TypeError(f"{name} must be a list or array, one row an object. Got {values!r}.")
    inputs = source(X)
    outputs = beside(Y, "Y", inputs)
    if len(inputs) != len(outputs):
        raise ValueError(f"X and Y must be of equal length. Got {len(inputs)} and {len(outputs)}.")
    return inputs, outputs


def columns(targets: Source) -> Source:
    """Return targets of shape (n,) or (n, d) as (n, d)."""
    if targets.ndim == 2:
        return targets
    if targets.resident is not None:
        return Memory(targets.resident.reshape(-1, 1), targets.name)
    return targets.then(_as_columns, np.empty((0, 1), dtype=targets.dtype))


def _as_columns(y: Any) -> Array:
    columns: Array = y.reshape(len(y), -1)
    return columns


# Data that would be misread -----------------------------------------------------------------------


def check_matrix(objects: Objects, *, accept_sparse: bool = True) -> Array:
    """Return a finite dense or canonical CSR matrix of float32 or float64."""
    with numbers_in(objects, "objects"):
        rows: Any = check_array(
            objects,
            accept_sparse="csr" if accept_sparse else False,
            dtype=[np.float64, np.float32],
            ensure_min_samples=0,
            input_name="objects",
        )
    if sparse.issparse(rows) and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    matrix: Array = rows
    return matrix


def check_weights(
    sample_weight: Weights | Rows, X: Objects, *, alone: bool = True
) -> np.ndarray | None:
    """Return non-negative float64 weights with a positive sum, or None.

    Where their products would underflow or overflow, all weights are multiplied by a power of four,
    since only ratios count; if they are not `alone`, they are refused.
    """
    if sample_weight is None:
        return None
    with numbers_in(sample_weight, "sample_weight"):
        # it reads the number of rows, and newer versions where they are
        rows = np.empty((n_rows(X), 0))
        weights: np.ndarray = _check_sample_weight(
            sample_weight, rows, dtype=np.float64, ensure_non_negative=True
        )
    largest = weights.max(initial=0.0)
    if alone and largest > 0.0 and not LEAST_WEIGHT <= largest <= MOST_WEIGHT:
        weights = np.ldexp(weights, -2 * (int(np.frexp(largest)[1]) // 2))
    check_total_weight(weights.sum())
    return weights


@contextmanager
def numbers_in(objects: object, name: str) -> Iterator[None]:
    """Refuse data that NumPy would misread as numbers; name them in errors within the block.

    NumPy reads dates as counts of days, and masked entries as what is under the mask.
    """
    is_plain = type(objects) is np.ndarray and objects.dtype.kind in "biuf"
    if not is_plain:
        _refuse_misread(objects, name)
        _refuse_names(objects, name)
    try:
        # what is too large becomes infinite, which is reported
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, NotFittedError) or _says(name, str(error)):
            raise
        if name == "Y" and "Expected 2D array, got 1D array" in str(error):
            raise ValueError(
                "Y has one axis, and the output kernel compares rows. One number for each row is "
                "for KernelRidge, one class for KernelClassifier or Tuned; label sets are rows of "
                "0 and 1."
            ) from error
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}, of type {type(objects).__name__}: {error}") from error


def _refuse_names(objects: Any, name: str) -> None:
    """Raise where label sets are collections of names, not rows of 0 and 1."""
    if getattr(objects, "ndim", 2) == 1 and getattr(objects, "dtype", np.dtype(int)).kind == "O":
        objects = list(objects)  # a column of lists
    if not isinstance(objects, list | tuple) or len(objects) == 0:
        return
    first = objects[0]
    if isinstance(first, set | frozenset) or _are_lists_of_words(objects, name):
        raise TypeError(
            f"{name} must be rows of numbers; for label sets 0 and 1, one column a label. Got "
            f"{first!r} first: scikit-learn's MultiLabelBinarizer makes rows of names."
        )


def _are_lists_of_words(objects: Sequence[Any], name: str) -> bool:
    """Return whether these are lists of words: of different lengths, or, in outputs, no numbers."""
    if not all(isinstance(item, list | tuple) for item in objects):
        return False
    first = next((item[0] for item in objects if len(item) > 0), None)
    if not isinstance(first, str):
        return False
    differ = len({len(item) for item in objects}) > 1
    return differ or (name in ("Y", "y") and not _is_number(first))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _says(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _refuse_misread(objects: object, name: str) -> None:
    if _kind(objects) in ("m", "M"):
        raise TypeError(
            f"{name} must hold numbers. Got dates or times: say in which unit, for instance "
            "values.astype('datetime64[D]').astype(float) for days."
        )
    if np.ma.is_masked(objects):
        raise ValueError(
            f"{name} has masked entries, which are missing values: fill them or leave the rows out."
        )
    check_column_names(getattr(objects, "columns", ()), name)


def check_column_names(names: Iterable[object], name: str) -> None:
    """Raise where a table has two columns of one name."""
    columns = Counter(c for c in names if isinstance(c, Hashable))
    twice = [column for column, count in columns.items() if count > 1]
    if twice:
        raise ValueError(
            f"{name} has more than one column called {twice[0]!r}: give each a name of its own."
        )


def _kind(objects: Any) -> str:
    """Return the letter of NumPy for the kind of numbers, "" if it cannot be told."""
    if hasattr(objects, "columns"):  # also dates with a time zone, which NumPy has no type for
        kinds = {getattr(dtype, "kind", "") for dtype in getattr(objects, "dtypes", ())}
        if kinds & {"m", "M"}:
            return "M"
    dtype = getattr(objects, "dtype", None)
    if dtype is None and (isinstance(objects, list | tuple) or hasattr(objects, "columns")):
        try:
            dtype = np.asarray(objects[:1]).dtype
        except (TypeError, ValueError):  # rows of different lengths, columns of different kinds
            return ""
    return str(getattr(dtype, "kind", ""))


@contextmanager
def named(name: str) -> Iterator[None]:
    """Rename X or objects to `name` in the errors of the block."""
    try:
        yield
    except NotFittedError:
        raise
    except (TypeError, ValueError) as error:
        text = _INNER.sub(name, str(error))
        if not _says(name, text):
            text = f"{name}: {text}"
        if text == str(error):
            raise
        raise (TypeError if isinstance(error, TypeError) else ValueError)(text) from error
