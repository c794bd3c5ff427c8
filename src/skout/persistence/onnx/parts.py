"""Scalers, trees and neighbors of scikit-learn as nodes of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._numerics.typing import Estimator
from .graph import ROWS, OnnxGraph, add_part, converts
from .kernels import squared_distances


@converts("sklearn.Pipeline")
def add_pipeline(graph: OnnxGraph, model: Estimator, X: str) -> str:
    """Add the steps of a pipeline."""
    for _, step in model.steps:
        if step is not None and step != "passthrough":
            X = add_part(graph, step, X)
    return X


@converts("sklearn.StandardScaler")
def _scaled(graph: OnnxGraph, model: Estimator, X: str) -> str:
    mean = np.zeros(1) if model.mean_ is None or not model.with_mean else model.mean_
    centered = graph.node("Sub", X, graph.constant(mean))
    scale = np.ones(1) if model.scale_ is None else model.scale_
    return graph.node("Div", centered, graph.constant(scale))


# Trees --------------------------------------------------------------------------------------------


class TreeArrays(NamedTuple):
    """The nodes of one tree; both children of a leaf are itself."""

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    depth: int


def add_leaves(graph: OnnxGraph, X: str, trees: Sequence[TreeArrays]) -> str:
    """Add the numbers of the leaves that rows end in, (n, n_trees), unique over all trees.

    All trees take one step down at a time, in operators that every runtime has. The operator for
    ensembles of trees gives float32 alone, and its nodes take three times the space.
    """
    starts = np.cumsum([0, *(len(tree.feature) for tree in trees)])
    rows = [
        np.concatenate([tree[j] + start for tree, start in zip(trees, starts, strict=False)])
        for j in (2, 3)
    ]
    feature = graph.constant(np.concatenate([tree.feature for tree in trees]), np.int64)
    threshold = graph.constant(np.concatenate([tree.threshold for tree in trees]), np.float64)
    left, right = (graph.constant(children, np.int64) for children in rows)
    n = graph.node("Shape", X, start=0, end=1)
    shape = graph.node("Concat", n, graph.numbers(len(trees)), axis=0)
    roots = graph.node("Expand", graph.constant(starts[None, :-1], np.int64), shape)
    helper, kinds = graph.onnx.helper, graph.onnx.TensorProto
    body = helper.make_graph(
        [
            helper.make_node("Gather", [feature, "node"], ["column"]),
            helper.make_node("GatherElements", [X, "column"], ["x"], axis=1),
            helper.make_node("Gather", [threshold, "node"], ["edge"]),
            helper.make_node("LessOrEqual", ["x", "edge"], ["is_left"]),
            helper.make_node("Gather", [left, "node"], ["a"]),
            helper.make_node("Gather", [right, "node"], ["b"]),
            helper.make_node("Where", ["is_left", "a", "b"], ["next"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "level",
        [
            graph.value("level", [], kinds.INT64),
            graph.value("go", [], kinds.BOOL),
            graph.value("node", [ROWS, len(trees)], kinds.INT64),
        ],
        [graph.value("on", [], kinds.BOOL), graph.value("next", [ROWS, len(trees)], kinds.INT64)],
    )
    depth = graph.constant(max(tree.depth for tree in trees), np.int64)
    return graph.node("Loop", depth, graph.constant(True, bool), roots, body=body)


def add_leaf_sums(graph: OnnxGraph, leaves: str, values: np.ndarray) -> str:
    """Add the sums over trees of the values (nodes, p) of their leaves, (n, p)."""
    chosen = graph.node("Gather", graph.constant(values, np.float64), leaves)  # (n, trees, p)
    return graph.cast(graph.sum(chosen, 1, keepdims=False))


def add_forest_leaves(graph: OnnxGraph, forest: Estimator, X: str) -> str:
    """Add the leaves of a forest of scikit-learn, (n, n_trees), which compares in float32."""
    single = graph.cast(graph.cast(X, np.float32), np.float64)
    return add_leaves(graph, single, [_arrays(tree) for tree in np.ravel(forest.estimators_)])


def _arrays(model: Estimator) -> TreeArrays:
    tree = model.tree_
    node_numbers = np.arange(tree.node_count)
    is_leaf = tree.children_left == -1
    left, right = (
        np.where(is_leaf, node_numbers, c) for c in (tree.children_left, tree.children_right)
    )
    return TreeArrays(
        np.where(is_leaf, 0, tree.feature), tree.threshold, left, right, tree.max_depth
    )


def _leaf_values(forest: Estimator) -> np.ndarray:
    return np.concatenate([tree.tree_.value[:, :, 0] for tree in np.ravel(forest.estimators_)])


@converts("sklearn.ForestRegressor")
def _forest(graph: OnnxGraph, model: Estimator, X: str) -> str:
    values = _leaf_values(model) / len(model.estimators_)
    return add_leaf_sums(graph, add_forest_leaves(graph, model, X), values)


@converts("sklearn.GradientBoostingRegressor")
def _boosting(graph: OnnxGraph, model: Estimator, X: str) -> str:
    start = 0.0 if model.init_ == "zero" else np.ravel(model.init_.constant_)[0]
    values = model.learning_rate * _leaf_values(model)
    total = add_leaf_sums(graph, add_forest_leaves(graph, model, X), values)
    return graph.node("Add", total, graph.constant(start))


@converts("sklearn.HistGradientBoostingRegressor")
def _histograms(graph: OnnxGraph, model: Estimator, X: str) -> str:
    trees = [predictor.nodes for stage in model._predictors for predictor in stage]
    arrays = []
    for nodes in trees:
        node_numbers, is_leaf = np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
        left, right = (
            np.where(is_leaf, node_numbers, nodes[side].astype(int)) for side in ("left", "right")
        )
        feature = np.where(is_leaf, 0, nodes["feature_idx"])
        edges = np.where(is_leaf, 0.0, nodes["num_threshold"])
        arrays.append(TreeArrays(feature, edges, left, right, int(nodes["depth"].max())))
    values = np.concatenate([nodes["value"] for nodes in trees])[:, None]
    total = add_leaf_sums(graph, add_leaves(graph, graph.cast(X, np.float64), arrays), values)
    return graph.node("Add", total, graph.constant(np.ravel(model._baseline_prediction)[0]))


@converts("sklearn.KNeighborsRegressor")
def _neighbors(graph: OnnxGraph, model: Estimator, X: str) -> str:
    if model.effective_metric_ != "euclidean":
        raise TypeError("KNeighborsRegressor has a form in ONNX with the Euclidean metric alone.")
    rows: Any = model._fit_X.toarray() if hasattr(model._fit_X, "toarray") else model._fit_X
    squares = squared_distances(graph, X, np.asarray(rows, dtype=np.float64))
    count = graph.numbers(model.n_neighbors)
    nearest, at = graph.nodes_of("TopK", squares, count, count=2, axis=1, largest=0)
    targets = np.reshape(model._y, (len(rows), -1))
    chosen = graph.node("Gather", graph.constant(targets), at)  # (n, k, p)
    if model.weights == "uniform":
        mean = graph.node("Mul", chosen, graph.constant(1.0 / model.n_neighbors))
        return graph.sum(mean, 1, keepdims=False)
    # one over the distance; where there are rows at no distance, these alone
    zero, unit = graph.constant(0.0), graph.constant(1.0)
    is_copy = graph.node("Equal", nearest, zero)
    copies = graph.cast(is_copy)
    has_copies = graph.node("Greater", graph.sum(copies, 1), zero)
    distances = graph.node("Where", is_copy, unit, graph.node("Sqrt", nearest))
    shares = graph.node("Where", has_copies, copies, graph.node("Div", unit, distances))
    shares = graph.node("Div", shares, graph.sum(shares, 1))
    weighted = graph.node("Mul", chosen, graph.node("Unsqueeze", shares, graph.numbers(2)))
    return graph.sum(weighted, 1, keepdims=False)
