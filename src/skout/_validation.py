"""Resolve names, seeds and sizes; every message says what was given and what to do."""

from __future__ import annotations

import difflib
import numbers
import operator
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    check_array,
    validate_data,
)

from ._arrays import Rows, n_rows
from ._inputs import check_squares, named, numbers_in
from ._lazy import LazyRows, is_on_disk

__all__ = [
    "as_columns",
    "check_alphas",
    "check_choice",
    "check_matrix",
    "check_number",
    "check_rng",
    "check_rows",
    "check_size",
    "check_targets",
    "check_task_matrix",
    "check_weights",
    "resolve",
]


def resolve(name: str, registry: Mapping[str, Any], kind: str) -> Any:
    """Look `name` up in `registry`, or say which names there are and which one is nearest."""
    if name in registry:
        return registry[name]
    near = difflib.get_close_matches(name.lower(), registry, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"Unknown {kind} {name!r}.{hint} Available: {', '.join(sorted(registry))}.")


def check_choice(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        near = difflib.get_close_matches(str(value), [str(c) for c in choices], n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        listed = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be one of {listed}. Got {value!r} instead.{hint}")


def check_number(
    value: Any, name: str, *, low: float = 0.0, strict: bool = False, integer: bool = False
) -> Any:
    """Return `value` if it is a finite number above `low` (`strict`: not equal to it)."""
    kind: Any = numbers.Integral if integer else numbers.Real
    noun = "an integer" if integer else "a finite number"
    sign = ">" if strict else ">="
    message = f"{name} must be {noun} {sign} {low:g}. Got {value!r} instead."
    if integer and not isinstance(value, numbers.Number) and hasattr(value, "__index__"):
        value = operator.index(value)  # an object that stands for an integer
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(message)
    if not _is_finite(value) or value < low or (strict and value == low):
        raise ValueError(message)
    return value


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:  # an integer beyond float64
        return False


def check_alphas(alpha: Any, *, strict: bool = False) -> list[float]:
    """Return one or several penalties as a list."""
    many = isinstance(alpha, Iterable) and not isinstance(alpha, str)
    alphas = list(alpha) if many else [alpha]
    if not alphas:
        raise ValueError("alpha must be a number or a non-empty sequence of numbers. Got [].")
    return [float(check_number(value, "alpha", strict=strict)) for value in alphas]


def check_task_matrix(M: Any, d: int) -> np.ndarray:
    """Return a symmetric positive semi-definite matrix of shape (d, d)."""
    with numbers_in(M, "task_matrix"):
        M = check_array(M, dtype=np.float64, input_name="task_matrix")
    if M.shape != (d, d):
        raise ValueError(
            f"task_matrix must have one row and column for each of the {d} outputs. "
            f"Got shape {M.shape} instead."
        )
    size = float(np.abs(M).max())
    if not np.allclose(M, M.T, rtol=0.0, atol=1e-8 * size):
        worst = float(np.abs(M - M.T).max())
        raise ValueError(f"task_matrix must be symmetric. Got M - M' of up to {worst:.3g} instead.")
    lowest = float(np.linalg.eigvalsh(M)[0])
    if lowest < -1e-8 * size or size == 0.0:
        raise ValueError(
            "task_matrix must be positive semi-definite and not zero. "
            f"Got least eigenvalue {lowest:.3g} instead."
        )
    return M


def check_size(size: Any, n: int, name: str) -> int:
    """Return a sketch size, or a number of folds, clipped to n with a warning."""
    size = check_number(size, name, low=1, integer=True)
    if size > n:
        warnings.warn(
            f"{name}={size} is larger than the number of rows, {n}; using {n}.",
            UserWarning,
            stacklevel=3,
        )
    return min(int(size), n)


def check_matrix(objects: Any, *, accept_sparse: bool = True) -> Any:
    """Return a finite dense or canonical CSR matrix of float32 or float64."""
    with numbers_in(objects, "objects"):
        rows = check_array(
            objects,
            accept_sparse="csr" if accept_sparse else False,
            dtype=[np.float64, np.float32],
            ensure_min_samples=0,
            input_name="objects",
        )
    if sparse.issparse(rows) and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def check_rng(random_state: Any) -> np.random.Generator:
    """Turn None, an int, a Generator or a RandomState into a Generator."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be None, an int, a numpy Generator or a RandomState. "
            f"Got {random_state!r} instead."
        ) from error


def check_rows(estimator: Any, kernel: Any, X: Any, *, reset: bool) -> Any:
    """Encode X for `kernel`; vectors also get scikit-learn's checks of shape and names."""
    checked = kernel.takes_vectors and not _are_fingerprints(X)
    if is_on_disk(X):
        return _lazy_rows(estimator, kernel, X, reset)
    if checked:
        with numbers_in(X, "X"):
            X = validate_data(
                estimator, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
            )
    with config_context(assume_finite=checked), named("X"):  # looked at already
        rows = kernel.encode(X)
    if kernel.takes_vectors and not checked and getattr(rows, "ndim", 1) == 2:
        _check_n_features(estimator, rows, reset=reset)
    return rows


def _lazy_rows(estimator: Any, kernel: Any, X: Any, reset: bool) -> LazyRows:
    """Return rows that are read, checked and encoded block by block."""
    if kernel.takes_vectors:
        if len(X.shape) != 2:
            raise ValueError(f"X must be a 2D array, n rows by d columns. Got shape {X.shape}.")
        _check_feature_names(estimator, X, reset=reset)
        _check_n_features(estimator, X, reset=reset)

    def encode(block: Any) -> Any:
        with named("X"):
            block = check_matrix(block) if kernel.takes_vectors else block
            with config_context(assume_finite=kernel.takes_vectors):  # looked at already
                return kernel.encode(block)

    return LazyRows(X, encode)


def _are_fingerprints(X: Any) -> bool:
    """Whether these are packed bits, bit vectors or hex strings, which kernels on sets encode."""
    if isinstance(X, Rows):
        return True
    is_list = isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1
    if not is_list or len(X) == 0 or hasattr(X, "iloc"):
        return False
    return isinstance(X[0], str) or hasattr(X[0], "ToBitString")


def check_targets(y: Any, n: int) -> Any:
    """Return finite float targets of shape (n,) or (n, d); lazy ones if y is not in memory."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    if is_on_disk(y):
        y = LazyRows(y, _finite_targets, "y")
    elif not isinstance(y, LazyRows):
        y = _finite_targets(y)
    if y.shape[0] != n:
        raise ValueError(
            f"X and y must have the same number of rows: inconsistent numbers of samples, "
            f"{n} and {y.shape[0]}."
        )
    return y


def _finite_targets(y: Any) -> np.ndarray:
    with numbers_in(y, "y"):
        y = check_array(y, ensure_2d=False, dtype=[np.float64, np.float32], input_name="y")
        check_squares(y, "y", "Scale the targets.")
        return y


def as_columns(y: Any) -> Any:
    """Return targets of shape (n,) or (n, d) as (n, d)."""
    return y.as_columns() if hasattr(y, "as_columns") else y.reshape(len(y), -1)


def check_weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    """Return non-negative float64 weights with a positive sum, or None."""
    if sample_weight is None:
        return None
    with numbers_in(sample_weight, "sample_weight"):
        # it looks at the number of rows, and newer versions at where they are
        rows = np.empty((n_rows(X), 0))
        weights = _check_sample_weight(
            sample_weight, rows, dtype=np.float64, ensure_non_negative=True
        )
    if weights.sum() <= 0:
        raise ValueError("sample_weight must have a positive sum. Got only zeros instead.")
    return weights
