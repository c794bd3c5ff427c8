"""Models as ONNX graphs, which other runtimes and languages run (`pip install skout[onnx]`).

Graphs are built node by node, x -> k(x, landmarks) -> f(x) -> scores of candidates -> the k best,
so that a file needs nothing of skout.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._numerics.extras import extra
from .._numerics.files import check_place, replacing
from .._numerics.types import Candidates, DType, Estimator, Json, Matrix, Objects, PathLike, Rows
from .._numerics.validation import check_choice, check_number
from ..decoding.base import able
from ..kernels import (
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

__all__ = ["to_onnx"]

# What runtimes of 2022 and later read; a file of protobuf is smaller than 2 GB.
_OPSET, _IR_VERSION, _MOST_BYTES = 17, 8, 2_000_000_000
# Landmarks at which rounding errors are estimated, and the errors relative to the largest
# prediction above which there is a warning and above which no graph is written.
_PROBED, _ROUNDING = 64, {"float64": (1e-9, 1e-5), "float32": (1e-3, 1e-1)}


def to_onnx(
    model: Estimator,
    path: PathLike | None = None,
    *,
    candidates: Candidates = None,
    k: int = 10,
    dtype: str = "float64",
) -> Estimator:
    """Write a fitted model as an ONNX graph.

    The input of the graph is "X", dense rows of shape (n, d). Kernels of such rows can be written:
    `Linear`, `Polynomial`, `Gaussian`, `Laplacian`, `Matern`, `Cosine`, `Mahalanobis` (so learned
    metrics), `OnColumns`, their sums, products and multiples.

    Parameters
    ----------
    model : KernelRidge, or StructuredPredictor of one
        Fitted. Of a ridge the output is "prediction", of shape (n,) or (n, d). A predictor that
        ranks candidates has the outputs "positions" and "scores", each of shape (n, k), as `rank`
        gives them, and "candidates" where these are texts or rows of a dense array.
    path : path, optional
        Where to write the graph, too.
    candidates : objects or EmbeddedPool, optional
        One pool for all rows; default the distinct training outputs. They become part of the file.
    k : int, default 10
        Candidates of a row, or all, if there are fewer.
    dtype : "float64" or "float32", default "float64"
        Of the input and of all computations. In float32 an exact model with a small alpha may lose
        most digits, see below.

    Returns
    -------
    graph : onnx.ModelProto

    Raises
    ------
    TypeError
        For a part that has no form in ONNX; the message has its name.
    ValueError
        Where rounding leaves predictions so few digits that a graph could not reproduce them:
        an estimate of 1e-5 of the largest prediction in float64, a tenth in float32. So for
        polynomial kernels of columns far from 0. From 1e-9, in float32 1e-3, there is a warning.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelRidge
    >>> from skout.persistence.onnx import to_onnx
    >>> X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    >>> graph = to_onnx(KernelRidge("gaussian").fit(X, X[:, 0]))
    >>> [output.name for output in graph.graph.output]
    ['prediction']
    """
    check_choice(dtype, "dtype", ("float64", "float32"))
    graph = _OnnxGraph(dtype)
    if path is not None:
        check_place(path, "path")
    check_is_fitted(model)
    structured = hasattr(model, "decoder_")
    regressor = model.regressor_ if structured else model
    F = _add_regressor(graph, regressor)
    if structured:
        _add_search(graph, F, model.decoder_, candidates, k)
    else:
        shape = [_N] if regressor._is_vector else [_N, regressor.intercept_.shape[0]]
        if regressor._is_vector:
            F = graph.node("Squeeze", F, graph.constant([1], np.int64))
        graph.output("prediction", F, shape)
    proto = graph.model(regressor.n_features_in_)
    if path is not None:
        with replacing(path) as part:
            part.write_bytes(proto.SerializeToString())
    return proto


_N = "n"  # rows: a dimension whose size is known when the graph runs


class _OnnxGraph:
    """Nodes and constants of a graph; `node` returns the name of its result."""

    def __init__(self, dtype: str) -> None:
        with extra("onnx", "ONNX graphs need onnx"):
            import onnx
        self.onnx, self.dtype = onnx, np.dtype(dtype)
        self.kind = onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []
        self.bytes = 0

    def node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        return self.nodes_of(operation, *inputs, **attributes)[0]

    def nodes_of(
        self, operation: str, *inputs: str, count: int = 1, **attributes: Any
    ) -> Estimator:
        """Add a node with several results, and return their names."""
        names = [f"{operation}_{len(self.nodes)}_{j}" for j in range(count)]
        made = self.onnx.helper.make_node(operation, list(inputs), names, **attributes)
        self.nodes.append(made)
        return names

    def constant(self, value: Matrix, dtype: DType | None = None) -> str:
        array = np.ascontiguousarray(np.asarray(value, dtype=dtype or self.dtype))
        return self._keep(self.onnx.numpy_helper.from_array(array), array.nbytes)

    def texts(self, values: list[str]) -> str:
        coded: Any = [value.encode() for value in values]
        kind = self.onnx.TensorProto.STRING
        tensor = self.onnx.helper.make_tensor("", kind, [len(coded)], coded)
        return self._keep(tensor, sum(map(len, coded)))

    def _keep(self, tensor: Estimator, size: int) -> str:
        tensor.name = f"constant_{len(self.constants)}"
        self.constants.append(tensor)
        self.bytes += size
        if self.bytes > _MOST_BYTES:
            raise ValueError(
                f"The graph has more than {_MOST_BYTES / 1e9:g} GB, the most that an ONNX file can "
                "have: give fewer candidates, a sketch, or dtype='float32'."
            )
        return tensor.name

    def output(self, name: str, source: str, shape: list[int | str], kind: Any = None) -> None:
        self.nodes.append(self.onnx.helper.make_node("Identity", [source], [name]))
        self.outputs.append(self.value(name, shape, kind))

    def value(self, name: str, shape: list[int | str], kind: Any = None) -> Json:
        return self.onnx.helper.make_tensor_value_info(name, kind or self.kind, shape)

    def model(self, d: int) -> Estimator:
        helper, X = self.onnx.helper, self.value("X", [_N, d])
        graph = helper.make_graph(self.nodes, "skout", [X], self.outputs, self.constants)
        opset = helper.make_opsetid("", _OPSET)
        made = helper.make_model(
            graph, opset_imports=[opset], ir_version=_IR_VERSION, producer_name="skout"
        )
        self.onnx.checker.check_model(made)
        return made


# The map ------------------------------------------------------------------------------------------


def _add_regressor(graph: _OnnxGraph, model: Estimator) -> str:
    """Add f(x) = phi(x) B + b, where phi(x) = W k(landmarks, x)."""
    projection = getattr(model, "projection_", None)
    if projection is None:
        raise TypeError(f"ONNX graphs are made of KernelRidge. Got {type(model).__name__}.")
    features = projection.features
    B = projection.matrix if features.weights is None else features.weights.T @ projection.matrix
    Z = _dense(features.landmarks)
    _check_rounding(features.kernel, Z, B, graph.dtype)
    K = _add_kernel(graph, features.kernel, "X", Z)
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
    warnings.warn(message, UserWarning, stacklevel=4)


def _dense(rows: Rows) -> np.ndarray:
    """Return landmarks as a matrix of float64."""
    dense = rows.toarray() if sparse.issparse(rows) else rows
    if not isinstance(dense, np.ndarray):
        raise TypeError(
            "ONNX graphs take dense rows of numbers, and the model was fitted on "
            f"{type(rows).__name__}."
        )
    return dense.astype(np.float64)


def _add_kernel(graph: _OnnxGraph, kernel: Kernel, X: str, Z: np.ndarray) -> str:
    """Add k(x, z) of all rows x and landmarks z."""
    formula = _FORMULAS.get(type(kernel))
    if formula is None:
        names = ", ".join(sorted(kind.__name__ for kind in _FORMULAS))
        raise TypeError(f"{type(kernel).__name__} has no form in ONNX. Those that have: {names}.")
    return formula(graph, kernel, X, Z)


def _linear(graph: _OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    # x . z
    return graph.node("MatMul", X, graph.constant(Z.T))


def _polynomial(graph: _OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    # (gamma x . z + coef0)^degree
    inner = graph.node("MatMul", X, graph.constant(kernel._width() * Z.T))
    shifted = graph.node("Add", inner, graph.constant(kernel.coef0))
    return graph.node("Pow", shifted, graph.constant(kernel.degree))


def _squared_norms(graph: _OnnxGraph, X: str) -> str:
    squares = graph.node("Mul", X, X)
    return graph.node("ReduceSum", squares, graph.constant([1], np.int64))  # (n, 1)


def _squared_distances(graph: _OnnxGraph, X: str, Z: np.ndarray) -> str:
    # ||x||^2 + ||z||^2 - 2 x . z, about the mean of the landmarks; what may be rounding is 0
    centre = Z.mean(axis=0)
    A, B = graph.node("Sub", X, graph.constant(centre)), Z - centre
    cross = graph.node("MatMul", A, graph.constant(-2.0 * B.T))
    norms = graph.node("Add", _squared_norms(graph, A), graph.constant(np.sum(B * B, axis=1)))
    distances = graph.node("Add", cross, norms)
    rounding = graph.node("Mul", norms, graph.constant(32.0 * np.finfo(graph.dtype).eps))
    near = graph.node("Less", distances, rounding)
    return graph.node("Where", near, graph.constant(0.0), distances)


def _decay(graph: _OnnxGraph, distances: str, gamma: float) -> str:
    return graph.node("Exp", graph.node("Mul", distances, graph.constant(-gamma)))


def _gaussian(graph: _OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    # exp(-gamma ||x - z||^2)
    return _decay(graph, _squared_distances(graph, X, Z), kernel._width())


def _matern(graph: _OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    # u = sqrt(2 nu) gamma ||x - z||: exp(-u), times 1 + u for nu = 1.5, 1 + u + u^2/3 for 2.5
    factor = graph.constant(2.0 * kernel.nu * kernel._width() ** 2)
    squared = graph.node("Mul", _squared_distances(graph, X, Z), factor)
    U = graph.node("Sqrt", squared)
    decay = _decay(graph, U, 1.0)
    if kernel.nu == 0.5:
        return decay
    sums = graph.node("Add", U, graph.constant(1.0))
    if kernel.nu == 2.5:
        sums = graph.node("Add", sums, graph.node("Mul", squared, graph.constant(1.0 / 3.0)))
    return graph.node("Mul", sums, decay)


def _laplacian(graph: _OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
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
        [graph.value("sum", [_N, m]), graph.value("x", [_N]), graph.value("z", [m])],
        [graph.value("more", [_N, m])],
        [graph.onnx.numpy_helper.from_array(np.array([1]), "last")],
    )
    n = graph.node("Shape", X, start=0, end=1)
    shape = graph.node("Concat", n, graph.constant([m], np.int64), axis=0)
    zero = graph.onnx.numpy_helper.from_array(np.zeros(1, graph.dtype))
    zeros = graph.node("ConstantOfShape", shape, value=zero)
    columns = graph.node("Transpose", X, perm=[1, 0])
    inputs = (zeros, columns, graph.constant(Z.T))
    return _decay(graph, graph.node("Scan", *inputs, body=body, num_scan_inputs=2), kernel._width())


def _cosine(graph: _OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
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


def _sum(graph: _OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    return graph.node("Add", *_both(graph, kernel, X, Z))


def _product(graph: _OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    return graph.node("Mul", *_both(graph, kernel, X, Z))


def _both(graph: _OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> list[str]:
    return [_add_kernel(graph, as_kernel(part), X, Z) for part in (kernel.left, kernel.right)]


def _scaled(graph: _OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    base = _add_kernel(graph, as_kernel(kernel.kernel), X, Z)
    return graph.node("Mul", base, graph.constant(kernel.factor))


def _on_columns(graph: _OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    columns = kernel.transform(Z)
    ends = [[kernel.start], [kernel.start + columns.shape[1]], [1]]
    part = graph.node("Slice", X, *(graph.constant(end, np.int64) for end in ends))
    return _add_kernel(graph, as_kernel(kernel.kernel), part, columns)


def _mahalanobis(graph: _OnnxGraph, kernel: Estimator, X: str, Z: np.ndarray) -> str:
    moved = graph.node("MatMul", X, graph.constant(kernel.transform(np.eye(Z.shape[1]))))
    return _add_kernel(graph, as_kernel(kernel.kernel), moved, kernel.transform(Z))


_FORMULAS: dict[type, Callable[[_OnnxGraph, Any, str, np.ndarray], str]] = {
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


# The search ---------------------------------------------------------------------------------------


def _add_search(
    graph: _OnnxGraph, F: str, decoder: Estimator, candidates: Candidates, k: int
) -> None:
    """Add the k candidates of the largest scores, ties to the lower position."""
    check_number(k, "k", low=1, integer=True)
    pool = able(decoder, "embed", "queries", by="to_onnx").embed(candidates)
    if pool.is_per_query:
        raise TypeError("A graph has one pool for all rows: give no sets of candidates.")
    E, offset = _linear_scores(decoder, pool)
    k = min(k, len(E))
    scores = graph.node("MatMul", F, graph.constant(E.T))
    scores = graph.node("Add", scores, graph.constant(offset))
    count = graph.constant([k], np.int64)
    values, positions = graph.nodes_of("TopK", scores, count, count=2, axis=1)
    graph.output("positions", positions, [_N, k], graph.onnx.TensorProto.INT64)
    graph.output("scores", values, [_N, k])
    _add_objects(graph, positions, pool.pool, k)


def _linear_scores(decoder: Estimator, pool: Candidates) -> tuple[np.ndarray, np.ndarray]:
    """Return E and b with scores f E' + b: those of a decoder are queries(f) . embedding."""
    unit = np.eye(decoder.basis_.rank_)
    origin = decoder.queries(0.0 * unit[:1], pool)
    ahead, back = decoder.queries(unit, pool) - origin, decoder.queries(-unit, pool) - origin
    if not np.allclose(ahead, -back):
        raise TypeError(
            "Hubness penalties, see `correct_hubness`, have no form in ONNX: give the candidates "
            "themselves."
        )
    embedding = pool.embedding[pool.inverse]  # of copies as well
    return embedding @ ahead.T, embedding @ origin[0]


def _add_objects(graph: _OnnxGraph, positions: str, objects: Objects, k: int) -> None:
    """Add the candidates themselves, where ONNX has such values."""
    if sparse.issparse(objects):
        return
    values = np.asarray(objects, dtype=object if isinstance(objects, list) else None)
    shape: list[int | str] = [_N, k, *values.shape[1:]]
    if values.ndim == 1 and all(isinstance(value, str) for value in values):
        kind, pool = graph.onnx.TensorProto.STRING, graph.texts(list(values))
    elif values.dtype.kind in "biuf":
        kind = graph.onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
        pool = graph.constant(values, values.dtype)
    else:
        return
    graph.output("candidates", graph.node("Gather", pool, positions), shape, kind)
