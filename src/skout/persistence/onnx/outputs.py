"""Decoders as nodes of a graph: from coordinates to numbers, classes, sets, candidates."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
from scipy import sparse

from ..._numerics.typing import Candidates, Estimator, Objects
from ..._numerics.validation import check_number
from ...decoding import EmbeddedPool, RankingDecoder
from ...decoding.base import able
from ...kinds import BordaDecoder, LabelFeatures
from .graph import ROWS, OnnxGraph, Shape, add_part

# Items of rankings up to which all orders are compared: seven have 5,040.
_MOST_ITEMS = 7


def add_outputs(
    graph: OnnxGraph,
    F: str,
    decoder: Estimator,
    candidates: Candidates,
    k: int,
    calibration: Estimator | None = None,
) -> None:
    """Add the decoded outputs of coordinates as outputs of the graph.

    Probabilities are calibrated where there is a calibration.
    """
    name = type(decoder).__name__
    basis: Any = getattr(decoder, "basis_", None)  # decoders without one do not ask for it
    if name == "CodeDecoder" and hasattr(basis, "classes_"):
        _add_classes(graph, F, basis.classes_, calibration)
    elif name == "CodeDecoder":
        scaled = graph.node("Mul", F, graph.constant(basis.scale_))
        moved = graph.node("Add", scaled, graph.constant(basis.mean_))
        add_numbers(graph, moved, basis.is_vector_, basis.rank_)
    elif name == "SetDecoder":
        _add_sets(graph, F, decoder, calibration)
    elif isinstance(decoder, BordaDecoder):
        _add_rankings(graph, F, decoder)
    elif isinstance(decoder, RankingDecoder) and decoder.n_items_ <= _MOST_ITEMS:
        _add_orders(graph, F, decoder)
    elif not callable(getattr(decoder, "embed", None)):
        raise TypeError(
            f"{name} has no form in ONNX: it searches for each output by itself. Numbers, classes, "
            f"label sets, rankings by Borda or of at most {_MOST_ITEMS} items, and candidates have "
            "one."
        )
    else:
        _add_search(graph, F, decoder, candidates, k)


def add_numbers(graph: OnnxGraph, F: str, is_vector: bool, width: int) -> None:
    """Add the output "prediction", of shape (n,) or (n, width)."""
    if is_vector:
        F = graph.node("Squeeze", F, graph.numbers(1))
    graph.output("prediction", F, [ROWS] if is_vector else [ROWS, width])


def _add_probabilities(
    graph: OnnxGraph, estimates: str, width: int, calibration: Estimator | None
) -> None:
    P = estimates if calibration is None else add_part(graph, calibration, estimates)
    graph.output("probabilities", P, [ROWS, width])


def _add_classes(
    graph: OnnxGraph, F: str, classes: np.ndarray, calibration: Estimator | None
) -> None:
    """Add the class of the largest coordinate, and the probabilities nearest to coordinates."""
    at = graph.node("ArgMax", F, axis=1, keepdims=0)
    if classes.dtype.kind in "biu":
        kind, names = graph.onnx.TensorProto.INT64, graph.constant(classes, np.int64)
    elif classes.dtype.kind == "f":
        kind, names = graph.kind, graph.constant(classes)
    else:
        kind, names = graph.onnx.TensorProto.STRING, graph.texts(list(map(str, classes)))
    graph.output("label", graph.node("Gather", names, at), [ROWS], kind)
    _add_probabilities(graph, _projected(graph, F, len(classes)), len(classes), calibration)


def _projected(graph: OnnxGraph, F: str, n: int) -> str:
    # max(f - t, 0), with the t that makes their sum 1
    ordered = graph.nodes_of("TopK", F, graph.numbers(n), count=2, axis=1)[0]
    sums = graph.node("CumSum", ordered, graph.constant(1, np.int64))
    above = graph.node("Sub", sums, graph.constant(1.0))
    t = graph.node("Div", above, graph.constant(np.arange(1, n + 1)))
    count = graph.sum(graph.cast(graph.node("Greater", ordered, t), np.int64), 1)
    last = graph.node("Sub", count, graph.numbers(1))
    shifted = graph.node("Sub", F, graph.node("GatherElements", t, last, axis=1))
    return graph.node("Max", shifted, graph.constant(0.0))


# Label sets ---------------------------------------------------------------------------------------


def _add_sets(graph: OnnxGraph, F: str, decoder: Estimator, calibration: Estimator | None) -> None:
    """Add rows of 0 and 1 as "labels", and the probability of each label."""
    basis = decoder.basis_
    n = basis.n_labels_
    cube = _cube(graph, F, basis)
    expected = _at_size(graph, cube, basis.levels_)
    if decoder.rule == "threshold":
        chosen = _above(graph, expected, decoder.threshold, n, basis.has_empty_)
    elif decoder.rule == "f1":
        chosen = _best_f1(graph, F, cube, expected, decoder)
    else:
        scores = graph.node(
            "MatMul", graph.cast(F, np.float32), graph.constant(decoder.embedding_.T, np.float32)
        )
        at = graph.node("ArgMax", scores, axis=1, keepdims=0)
        chosen = graph.node("Gather", graph.constant(decoder.pool_.toarray()), at)
    kind = graph.onnx.TensorProto.INT64
    graph.output("labels", graph.cast(chosen, np.int64), [ROWS, n], kind)
    low = graph.node("Max", expected, graph.constant(0.0))
    _add_probabilities(graph, graph.node("Min", low, graph.constant(1.0)), n, calibration)


def _cube(graph: OnnxGraph, F: str, basis: LabelFeatures) -> str:
    """Add the coordinates of labels as (n, r, n_labels)."""
    r, n = basis.sizes_.shape[1], basis.n_labels_
    ends = [graph.numbers(0), graph.numbers(r * n), graph.numbers(1)]
    return graph.node("Reshape", graph.node("Slice", F, *ends), graph.numbers(-1, r, n))


def _at_size(graph: OnnxGraph, cube: str, phi: np.ndarray) -> str:
    # w_j = sum_r phi_r f_rj
    return graph.sum(graph.node("Mul", cube, graph.constant(phi[:, None])), 1, keepdims=False)


def _above(graph: OnnxGraph, expected: str, threshold: float, n: int, has_empty: bool) -> str:
    above = graph.node("Greater", expected, graph.constant(threshold))
    if has_empty:
        return above
    first = graph.node("ArgMax", expected, axis=1, keepdims=1)
    top = graph.node("Equal", first, graph.numbers(*range(n)))
    is_none = graph.node("Equal", graph.sum(graph.cast(above, np.int64), 1), graph.numbers(0))
    return graph.node("Or", above, graph.node("And", is_none, top))


def _best_f1(graph: OnnxGraph, F: str, cube: str, expected: str, decoder: Estimator) -> str:
    """Add the set of greatest expected F1: the best of each size, and the empty one."""
    basis, zeros = decoder.basis_, graph.node("Mul", expected, graph.constant(0.0))
    likely, width = "", basis.n_labels_
    if decoder.n_likely is not None:
        width = decoder.n_likely
        likely = graph.nodes_of("TopK", expected, graph.numbers(width), count=2, axis=1)[1]
        r = basis.sizes_.shape[1]
        n = graph.node("Shape", F, start=0, end=1)
        shape = graph.node("Concat", n, graph.numbers(r, width), axis=0)
        each = graph.node("Expand", graph.node("Unsqueeze", likely, graph.numbers(1)), shape)
        cube = graph.node("GatherElements", cube, each, axis=2)
    if basis.has_empty_:
        last = graph.numbers(basis.rank_ - 1), graph.numbers(basis.rank_), graph.numbers(1)
        best = graph.node("Slice", F, *last)
    else:
        best = graph.node("Add", graph.sum(zeros, 1), graph.constant(-np.inf))
    chosen = zeros
    for size in decoder.sizes(width):
        w = _at_size(graph, cube, basis.sizes_[size])
        values, top = graph.nodes_of("TopK", w, graph.numbers(size), count=2, axis=1)
        if likely:
            top = graph.node("GatherElements", likely, top, axis=1)
        total = graph.sum(values, 1)
        ones = graph.node(
            "Add", graph.node("Mul", values, graph.constant(0.0)), graph.constant(1.0)
        )
        these = graph.node("ScatterElements", zeros, top, ones, axis=1)
        is_better = graph.node("Greater", total, best)
        best = graph.node("Where", is_better, total, best)
        chosen = graph.node("Where", is_better, these, chosen)
    return chosen


# Rankings and candidates --------------------------------------------------------------------------


def _add_orders(graph: OnnxGraph, F: str, decoder: RankingDecoder) -> None:
    """Add "ranks", the nearest of all orders: few items have few orders."""
    orders = np.array(list(permutations(range(decoder.n_items_))))
    kernel = decoder.kernel_
    features = np.asarray(kernel.features(kernel.encode(orders)), dtype=np.float64)
    # 2 g . phi(c) - k(c, c), g = f D
    scores = graph.node("MatMul", F, graph.constant(2.0 * decoder.directions_ @ features.T))
    squares = np.sum(features**2, axis=1)
    if np.ptp(squares) > 1e-9:  # of Kendall's kernel all are the same
        scores = graph.node("Sub", scores, graph.constant(squares))
    at = graph.node("ArgMax", scores, axis=1, keepdims=0)
    _add_ranks(graph, graph.node("Gather", graph.constant(orders, np.int64), at), decoder)


def _add_ranks(graph: OnnxGraph, ranks: str, decoder: RankingDecoder) -> None:
    """Add ranks from 0 as an output, from 1 where those of training were."""
    lowest = int(np.min(decoder.decode(np.zeros((1, len(decoder.directions_))))))
    ranks = graph.node("Add", ranks, graph.numbers(lowest))
    graph.output("ranks", ranks, [ROWS, decoder.n_items_], graph.onnx.TensorProto.INT64)


def _add_rankings(graph: OnnxGraph, F: str, decoder: RankingDecoder) -> None:
    """Add "ranks" by Borda: for each item how many have more votes, or as many and come before."""
    n = decoder.n_items_
    first, second = np.triu_indices(n, k=1)
    votes = np.zeros((len(first), n))
    votes[np.arange(len(first)), first] = 1.0
    votes[np.arange(len(first)), second] = -1.0
    total = graph.node("MatMul", F, graph.constant(decoder.directions_ @ votes))
    rounded = graph.node("Round", graph.node("Mul", total, graph.constant(1e12)))
    mine = graph.node("Unsqueeze", rounded, graph.numbers(2))
    others = graph.node("Unsqueeze", rounded, graph.numbers(1))
    before = graph.constant(np.tri(n, k=-1), bool)  # items of lower numbers
    ties = graph.node("And", graph.node("Equal", mine, others), before)
    ahead = graph.node("Or", graph.node("Less", mine, others), ties)
    ranks = graph.sum(graph.cast(ahead, np.int64), 2, keepdims=False)
    _add_ranks(graph, ranks, decoder)


def _add_search(
    graph: OnnxGraph, F: str, decoder: Estimator, candidates: Candidates, k: int
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
    count = graph.numbers(k)
    values, positions = graph.nodes_of("TopK", scores, count, count=2, axis=1)
    graph.output("positions", positions, [ROWS, k], graph.onnx.TensorProto.INT64)
    graph.output("scores", values, [ROWS, k])
    _add_objects(graph, positions, pool.pool, k)


def _linear_scores(decoder: Estimator, pool: EmbeddedPool) -> tuple[np.ndarray, np.ndarray]:
    """Return E and b with scores f E' + b, those of the decoder, queries(f) . embedding."""
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


def _add_objects(graph: OnnxGraph, positions: str, objects: Objects, k: int) -> None:
    """Add the output "candidates", the objects, where they are texts or rows of numbers."""
    if sparse.issparse(objects):
        return
    values = np.asarray(objects, dtype=object if isinstance(objects, list) else None)
    shape: Shape = [ROWS, k, *values.shape[1:]]
    if values.ndim == 1 and all(isinstance(value, str) for value in values):
        kind, pool = graph.onnx.TensorProto.STRING, graph.texts(list(values))
    elif values.dtype.kind in "biuf":
        kind = graph.onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
        pool = graph.constant(values, values.dtype)
    else:
        return
    graph.output("candidates", graph.node("Gather", pool, positions), shape, kind)
