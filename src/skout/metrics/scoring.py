"""What `score` of a predictor of objects measures: the metric of each kind of object."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._numerics.arrays import row_keys
from .._numerics.objects import Rows as ObjectRows
from .._numerics.types import Matrix, Objects, Rows
from .._numerics.validation import resolve
from ..kernels import F1, Kernel, NGram, PeakCosine, WeisfeilerLehman, as_kernel
from ..kernels.base import KernelLike
from ..rows.encode import check_matrix, named
from ._checks import check_same_shape, check_weights, weighted_mean
from .objects import kendall_tau, kernel_similarity, subset_accuracy

__all__ = [
    "METRICS",
    "METRIC_OF_KIND",
    "ScoringLike",
    "curve_r2",
    "exact_matches",
    "metric_of",
    "r_squared",
    "score_objects",
]

#: The name of a metric, or a function (Y_true, Y_pred) -> score; None is the metric of the kind.
ScoringLike: TypeAlias = str | Callable[[Objects, Objects], float] | None

#: The default metric of predicted objects, by what their kernel compares (`Kernel.compares`). None
#: depends on a parameter of the kernel, so that all of these can be tuned by it. Where each query
#: has its own candidates, it is the mean reciprocal rank of the truth.
METRIC_OF_KIND: dict[str, str] = {
    "sets": "example_f1",
    "rankings": "kendall_tau",
    "vectors": "r2",  # of 0 and 1 alone: example_f1, see `metric_of`
    "strings": "ngram_similarity",
    "graphs": "graph_similarity",
    "spectra": "peak_similarity",
    "curves": "curve_r2",
    "objects": "exact_matches",
}


def exact_matches(
    kernel: KernelLike, Y_true: Objects, Y_pred: Objects, sample_weight: ArrayLike | None = None
) -> float:
    """Return the share of predictions that are the truth: their kernel encodes both as equal rows.

    Examples
    --------
    >>> from skout.metrics.scoring import exact_matches
    >>> exact_matches("ngram", ["stone", "notes"], ["stone", "tones"])
    0.5
    """
    kernel = as_kernel(kernel)
    true, pred = row_keys(kernel.encode(Y_true)), row_keys(kernel.encode(Y_pred))
    if not true:
        raise ValueError("Y_true is empty: a mean over 0 samples has no value.")
    matches = np.array([a == b for a, b in zip(true, pred, strict=True)])
    return weighted_mean(matches, sample_weight)


def r_squared(Y_true: Matrix, Y_pred: Matrix, sample_weight: ArrayLike | None = None) -> float:
    """Return 1 - squared error / squared deviation from the mean, over all columns together.

    This is `sklearn.metrics.r2_score` with multioutput="variance_weighted", for sparse matrices
    too. If all rows of `Y_true` are equal, it is 1 for these rows and 0 for any others.

    Examples
    --------
    >>> from skout.metrics.scoring import r_squared
    >>> r_squared([[0.0, 1.0], [2.0, 3.0]], [[0.0, 1.0], [2.0, 2.0]])
    0.75
    """
    with named("Y_true"):
        true = check_matrix(Y_true)
    with named("Y_pred"):
        pred = check_matrix(Y_pred)
    check_same_shape(true, pred, ("Y_true", "Y_pred"))
    weights = check_weights(sample_weight, true.shape[0])
    error = _sum_of_squares(true - pred, weights)
    total = true.shape[0] if weights is None else weights.sum()
    mean = np.asarray(true.mean(axis=0) if weights is None else weights @ true / total).ravel()
    if sparse.issparse(true):
        spread = _sum_of_squares(true, weights) - total * float(mean @ mean)
    else:
        spread = _sum_of_squares(true - mean, weights)
    return 1.0 - error / spread if spread > 0.0 else float(error == 0.0)


def curve_r2(
    kernel: KernelLike, Y_true: Objects, Y_pred: Objects, sample_weight: ArrayLike | None = None
) -> float:
    """Return 1 - integrated squared error / that of the mean curve, on the grid of a kernel.

    Examples
    --------
    >>> from skout.kernels import Curves
    >>> from skout.metrics.scoring import curve_r2
    >>> curve_r2(Curves(), [[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]], [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    0.5
    """
    curves = _of_curves(as_kernel(kernel))
    if curves is None:
        raise TypeError(f"curve_r2 needs a kernel on curves, for its grid. Got {kernel!r}.")
    true, pred = (curves.transform(curves.encode(Y)) for Y in (Y_true, Y_pred))
    return r_squared(true, pred, sample_weight)


def _of_curves(kernel: Any) -> Any:
    """Return the kernel with a grid of points that a kernel is made of, None if there is none."""
    if hasattr(kernel, "points"):
        return kernel
    parts = (_of_curves(kernel._part(name)) for name in kernel.parts)
    return next((part for part in parts if part is not None), None)


def _sum_of_squares(values: Matrix, weights: np.ndarray | None) -> float:
    if weights is not None:
        squares = values.multiply(values) if sparse.issparse(values) else values**2
        return float(weights @ np.asarray(squares.sum(axis=1)).ravel())
    values = values.data if sparse.issparse(values) else np.asarray(values)
    return float(np.vdot(values, values))


def _by_rows(metric: Callable[..., float]) -> Callable[..., float]:
    """Return a metric of outputs as one of a kernel and outputs."""
    return lambda kernel, Y_true, Y_pred, **weights: metric(Y_true, Y_pred, **weights)


def _by_kernel(kernel: Kernel) -> Callable[..., float]:
    """Return the similarity by a kernel that does not change with the model's."""
    return _by_rows(partial(kernel_similarity, kernel))


#: Names that `scoring` takes: (kernel, Y_true, Y_pred, sample_weight=None) -> float, higher is
#: better.
METRICS: dict[str, Callable[..., float]] = {
    "example_f1": _by_kernel(F1()),  # which takes counts and packed bits, too
    "subset_accuracy": _by_rows(subset_accuracy),
    "kendall_tau": _by_rows(kendall_tau),
    "r2": _by_rows(r_squared),
    "ngram_similarity": _by_kernel(NGram((1, 2, 3), short="keep")),
    "graph_similarity": _by_kernel(WeisfeilerLehman()),
    "peak_similarity": _by_kernel(PeakCosine()),
    "curve_r2": curve_r2,
    "exact_matches": exact_matches,
    "kernel": kernel_similarity,
}


def metric_of(kernel: Kernel, rows: Rows) -> str:
    """Return the name of the metric that belongs to what a kernel compares.

    If `rows`, encoded training outputs, are vectors of 0 and 1 alone, they are label sets.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Gaussian
    >>> from skout.metrics.scoring import metric_of
    >>> metric_of(Gaussian(), np.array([[0.0, 1.0], [1.0, 1.0]]))
    'example_f1'
    """
    kind = kernel.compares
    return METRIC_OF_KIND["sets" if kind == "vectors" and _is_binary(rows) else kind]


def _is_binary(rows: Rows) -> bool:
    if isinstance(rows, ObjectRows):
        return False
    values = rows.data if sparse.issparse(rows) else rows
    return bool(np.all((values == 0) | (values == 1)))


def score_objects(
    scoring: ScoringLike, kernel: Kernel, rows: Rows, Y_true: Objects, Y_pred: Objects
) -> float:
    """Return the score of predicted objects, by the name of a metric or a function of both.

    None is the metric of `metric_of`, "kernel" the similarity by the model's own kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Tanimoto
    >>> from skout.metrics.scoring import score_objects
    >>> Y, P = np.array([[1, 1, 0]]), np.array([[0, 1, 0]])
    >>> [round(score_objects(name, Tanimoto(), Y, Y, P), 2) for name in (None, "kernel")]
    [0.67, 0.5]
    """
    if callable(scoring):
        return float(scoring(Y_true, Y_pred))
    name = metric_of(kernel, rows) if scoring is None else scoring
    return resolve(name, METRICS, "scoring")(kernel, Y_true, Y_pred)
