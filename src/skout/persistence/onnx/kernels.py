"""Kernel ridge regressions as nodes of a graph: x -> k(x, landmarks) -> f(x)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from ..._numerics.typing import Estimator, Rows
from ...kernels import (
    Cosine,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Mahalanobis,
    Matern,
    OnColumns,
    Polynomial,
    Product,
    Scaled,
    Sum,
    as_kernel,
)
from .graph import ROWS, OnnxGraph, converts

# Landmarks at which rounding errors are estimated, and the errors relative to the largest
# prediction above which there is a warning and above which no graph is written.
_PROBED, _ROUNDING = 64, {"float64": (1e-9, 1e-5), "float32": (1e-3, 1e-1)}


@converts("skout.KernelRidge")
def _add_ridge(graph: OnnxGraph, model: Estimator, X: str) -> str:
    """Add f(x) = phi(x) B + b, where phi(x) = W k(landmarks, x)."""
    projection = model.projection_
    features = projection.features
    B = projection.matrix if features.weights is None else features.weights.T @ projection.matrix
    Z = _dense(features.landmarks)
    _check_rounding(features.kernel, Z, B, graph.dtype)
    K = _add_kernel(graph, features.kernel, X, Z)
    F = graph.node("MatMul", K, graph.constant(B))
    return (
        F if projection.offset is None else graph.node("Add", F, graph.constant(projection.offset))
    )


def _check_rounding(kernel: Kernel, Z: np.ndarray, B: np.ndarray, dtype: np.dtype) -> None:
    """Warn, or raise, where k(x, Z) B is a sum of numbers so large that rounding leaves few digits.

    Another order of summation then gives another result. The estimate eps max |k(x, Z)| |B|,
    relative to the largest prediction at the first landmarks, is close to what was observed.
    """
    K = np.asarray(kernel(Z[:_PROBED], Z), dtype=np.float64)
    largest = float(np.abs(K @ B).max())
    rounding = float(np.finfo(dtype).eps * (np.abs(K) @ np.abs(B)).max())
    warned, most = _ROUNDING[dtype.name]
    if rounding <= warned * largest:
        return
    wider = ' or give dtype="float64"' if dtype == np.float32 else ""
    message = (
        f"Predictions are sums of numbers that cancel: in {dtype.name} the graph may differ from "
        f"the model by {rounding:.1e}, where the largest prediction is {largest:.1e}. Scale the "
        f"columns of X (StandardScaler), raise alpha, take a kernel of distances{wider}."
    )
    if rounding > most * largest:
        raise ValueError(message)
    warnings.warn(message, UserWarning, stacklevel=6)


def _dense(rows: Rows) -> np.ndarray:
    """Return landmarks as a matrix of float64."""
    dense = rows.toarray() if sparse.issparse(rows) else rows
    if not isinstance(dense, np.ndarray):
        raise TypeError(
            "ONNX graphs take dense rows of numbers, and the model was fitted on "
            f"{type(rows).__name__}."
        )
    return dense.astype(np.float64)


def _add_kernel(graph: OnnxGraph, kernel: Kernel, X: str, Z: np.ndarray) -> str:
    """Add k(x, z) of all rows x and landmarks z."""
    formula = _FORMULAS.get(type(kernel))
    if formula is None:
        names = ", ".join(sorted(kind.__name__ for kind in _FORMULAS))
        raise TypeError(f"{type(kernel).__name__} has no form in ONNX. Those that have: {names}.")
    return formula(graph, kernel, X, Z)


def _linear(graph: OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    # x . z
    return graph.node("MatMul", X, graph.constant(Z.T))


def _polynomial(graph: OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    # (gamma x . z + coef0)^degree
    inner = graph.node("MatMul", X, graph.constant(kernel._width() * Z.T))
    shifted = graph.node("Add", inner, graph.constant(kernel.coef0))
    return graph.node("Pow", shifted, graph.constant(kernel.degree))


def _squared_norms(graph: OnnxGraph, X: str) -> str:
    return graph.sum(graph.node("Mul", X, X), 1)  # (n, 1)


def squared_distances(graph: OnnxGraph, X: str, Z: np.ndarray) -> str:
    # ||x||^2 + ||z||^2 - 2 x . z, about the mean of the landmarks; what may be rounding is 0
    center = Z.mean(axis=0)
    A, B = graph.node("Sub", X, graph.constant(center)), Z - center
    cross = graph.node("MatMul", A, graph.constant(-2.0 * B.T))
    norms = graph.node("Add", _squared_norms(graph, A), graph.constant(np.sum(B * B, axis=1)))
    distances = graph.node("Add", cross, norms)
    rounding = graph.node("Mul", norms, graph.constant(32.0 * np.finfo(graph.dtype).eps))
    is_zero = graph.node("Less", distances, rounding)
    return graph.node("Where", is_zero, graph.constant(0.0), distances)


def _decay(graph: OnnxGraph, distances: str, gamma: float) -> str:
    return graph.node("Exp", graph.node("Mul", distances, graph.constant(-gamma)))


def _gaussian(graph: OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    # exp(-gamma ||x - z||^2)
    return _decay(graph, squared_distances(graph, X, Z), kernel._width())


def _matern(graph: OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    # u = sqrt(2 nu) gamma ||x - z||: exp(-u), times 1 + u for nu = 1.5, 1 + u + u^2/3 for 2.5
    factor = graph.constant(2.0 * kernel.nu * kernel._width() ** 2)
    squared = graph.node("Mul", squared_distances(graph, X, Z), factor)
    U = graph.node("Sqrt", squared)
    decay = _decay(graph, U, 1.0)
    if kernel.nu == 0.5:
        return decay
    sums = graph.node("Add", U, graph.constant(1.0))
    if kernel.nu == 2.5:
        sums = graph.node("Add", sums, graph.node("Mul", squared, graph.constant(1.0 / 3.0)))
    return graph.node("Mul", sums, decay)


def _laplacian(graph: OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    # exp(-gamma ||x - z||_1), the distance summed feature by feature: it never has n m d numbers
    m, helper = len(Z), graph.onnx.helper
    body = helper.make_graph(
        [
            helper.make_node("Unsqueeze", ["x", "last"], ["column"]),
            helper.make_node("Sub", ["column", "z"], ["difference"]),
            helper.make_node("Abs", ["difference"], ["part"]),
            helper.make_node("Add", ["sum", "part"], ["more"]),
        ],
        "feature",
        [graph.value("sum", [ROWS, m]), graph.value("x", [ROWS]), graph.value("z", [m])],
        [graph.value("more", [ROWS, m])],
        [graph.onnx.numpy_helper.from_array(np.array([1]), "last")],
    )
    n = graph.node("Shape", X, start=0, end=1)
    shape = graph.node("Concat", n, graph.constant([m], np.int64), axis=0)
    zero = graph.onnx.numpy_helper.from_array(np.zeros(1, graph.dtype))
    zeros = graph.node("ConstantOfShape", shape, value=zero)
    columns = graph.node("Transpose", X, perm=[1, 0])
    inputs = (zeros, columns, graph.constant(Z.T))
    return _decay(graph, graph.node("Scan", *inputs, body=body, num_scan_inputs=2), kernel._width())


def _cosine(graph: OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    # x . z / (||x|| ||z||); zero rows are alike to zero rows alone
    norms = np.sqrt(np.sum(Z * Z, axis=1, keepdims=True))
    unit = Z / np.where(norms == 0.0, 1.0, norms)
    lengths = graph.node("Sqrt", _squared_norms(graph, X))
    zero = graph.node("Equal", lengths, graph.constant(0.0))
    safe = graph.node("Where", zero, graph.constant(1.0), lengths)
    K = graph.node("MatMul", graph.node("Div", X, safe), graph.constant(unit.T))
    if np.all(norms > 0.0):
        return K
    both = graph.node("And", zero, graph.constant(norms.T == 0.0, bool))
    return graph.node("Where", both, graph.constant(1.0), K)


def _sum(graph: OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    return graph.node("Add", *_both(graph, kernel, X, Z))


def _product(graph: OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    return graph.node("Mul", *_both(graph, kernel, X, Z))


def _both(graph: OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> list[str]:
    return [_add_kernel(graph, as_kernel(part), X, Z) for part in (kernel.left, kernel.right)]


def _scaled(graph: OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    base = _add_kernel(graph, as_kernel(kernel.kernel), X, Z)
    return graph.node("Mul", base, graph.constant(kernel.factor))


def _on_columns(graph: OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    columns = kernel.transform(Z)
    ends = [[kernel.start], [kernel.start + columns.shape[1]], [1]]
    part = graph.node("Slice", X, *(graph.constant(end, np.int64) for end in ends))
    return _add_kernel(graph, as_kernel(kernel.kernel), part, columns)


def _mahalanobis(graph: OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    moved = graph.node("MatMul", X, graph.constant(kernel.transform(np.eye(Z.shape[1]))))
    return _add_kernel(graph, as_kernel(kernel.kernel), moved, kernel.transform(Z))


_FORMULAS: dict[type, Callable[[OnnxGraph, Any, str, np.ndarray], str]] = {
    Cosine: _cosine,
    Gaussian: _gaussian,
    Laplacian: _laplacian,
    Linear: _linear,
    Mahalanobis: _mahalanobis,
    Matern: _matern,
    OnColumns: _on_columns,
    Polynomial: _polynomial,
    Product: _product,
    Scaled: _scaled,
    Sum: _sum,
}
