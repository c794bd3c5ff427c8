"""The maps that `Tuned` chooses and averages, as nodes of an ONNX graph."""

from __future__ import annotations

import numpy as np
from sklearn.dummy import DummyRegressor

from skout.persistence.onnx import OnnxGraph, add_forest_leaves, add_leaf_sums, add_part, converts

from .averages import Averaged
from .calibration import ProbabilityCalibration
from .inputs import ColumnScaler
from .maps.base import ByOutput, LogTargets
from .maps.logistic import LogisticOutputs
from .maps.ridge import Centered, LearnedRidge
from .maps.trees import LeafForest, PrincipalOutputs

# The inverse of the normal distribution, between exp(-2) and 1 - exp(-2) and below: numerators and
# denominators of Cephes (ndtri), as SciPy has them, the highest power first.
_MIDDLE = (
    (
        *(-5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1),
        *(1.39312609387279679503e1, -1.23916583867381258016e0),
    ),
    (
        *(1.0, 1.95448858338141759834e0, 4.67627912898881538453e0, 8.63602421390890590575e1),
        *(-2.25462687854119370527e2, 2.00260212380060660359e2, -8.20372256168333339912e1),
        *(1.59056225126211695515e1, -1.18331621121330003142e0),
    ),
)
_TAIL = (
    (
        *(4.05544892305962419923e0, 3.15251094599893866154e1, 5.71628192246421288162e1),
        *(4.40805073893200834700e1, 1.46849561928858024014e1, 2.18663306850790267539e0),
        *(-1.40256079171354495875e-1, -3.50424626827848203418e-2, -8.57456785154685413611e-4),
    ),
    (
        *(1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1),
        *(1.50425385692907503408e1, 2.50464946208309415979e0, -1.42182922854787788574e-1),
        *(-3.80806407691578277194e-2, -9.33259480895457427372e-4),
    ),
)


@converts("skout.Averaged")
def _averaged(graph: OnnxGraph, model: Averaged, X: str) -> str:
    X = X or graph.input("X", ["n", model.n_features_in_])
    total = ""
    for weight, member in zip(model.weights_, model.members_, strict=True):
        part = graph.node("Mul", add_part(graph, member, X), graph.constant(weight))
        total = graph.node("Add", total, part) if total else part
    return total


@converts("skout.ProbabilityCalibration")
def _calibrated(graph: OnnxGraph, model: ProbabilityCalibration, P: str) -> str:
    above = graph.node("Add", P, graph.constant(model.floor))
    if not model.are_sets:
        logs = graph.node("Mul", graph.node("Log", above), graph.constant(model.power))
        return graph.node("Softmax", logs, axis=1)
    below = graph.node("Sub", graph.constant(1.0 + 2.0 * model.floor), above)
    odds = graph.node("Log", graph.node("Div", above, below))
    scaled = graph.node("Mul", odds, graph.constant(model.power))
    return graph.node("Sigmoid", graph.node("Add", scaled, graph.constant(model.shift)))


@converts("skout.Centered")
def _centered(graph: OnnxGraph, model: Centered, X: str) -> str:
    return graph.node("Add", add_part(graph, model.regressor_, X), graph.constant(model.mean_))


@converts("sklearn.DummyRegressor")
def _constant(graph: OnnxGraph, model: DummyRegressor, X: str) -> str:
    zeros = graph.node("Mul", graph.sum(X, 1), graph.constant(0.0))  # (n, 1)
    return graph.node("Add", zeros, graph.constant(np.reshape(model.constant_, (1, -1))))


@converts("skout.LogTargets")
def _log_targets(graph: OnnxGraph, model: LogTargets, X: str) -> str:
    logs = add_part(graph, model.regressor_, X)
    inside = graph.node("Max", logs, graph.constant(0.0))
    inside = graph.node("Min", inside, graph.constant(model.top_))
    above = graph.node("Sub", graph.node("Exp", inside), graph.constant(1.0))
    amounts = graph.node("Mul", above, graph.constant(model.scale_))
    amounts = graph.node("Add", amounts, graph.constant(model.low_))
    skewed = graph.node("Greater", graph.constant(model.skewed_), graph.constant(0.5))
    return graph.node("Where", skewed, amounts, logs)


@converts("skout.LearnedRidge")
def _learned(graph: OnnxGraph, model: LearnedRidge, X: str) -> str:
    return add_part(graph, model.ridge_, X)


@converts("skout.ByOutput")
def _by_output(graph: OnnxGraph, model: ByOutput, X: str) -> str:
    parts = [add_part(graph, member, X) for member in model.members_]
    joined = graph.node("Concat", *parts, axis=1)
    order = np.argsort(np.concatenate(model.columns_))
    return graph.node("Gather", joined, graph.constant(order, np.int64), axis=1)


@converts("skout.LogisticOutputs")
def _logistic(graph: OnnxGraph, model: LogisticOutputs, X: str) -> str:
    # base + P(yes | x) gain
    margins = graph.node("MatMul", X, graph.constant(model.coef_))
    yes = graph.node("Sigmoid", graph.node("Add", margins, graph.constant(model.intercept_)))
    each = graph.node("Gather", yes, graph.constant(model.which_, np.int64), axis=1)
    gains = graph.node("Mul", each, graph.constant(model.gain_))
    return graph.node("Add", gains, graph.constant(model.base_))


@converts("skout.PrincipalOutputs")
def _principal(graph: OnnxGraph, model: PrincipalOutputs, X: str) -> str:
    parts = [add_part(graph, member, X) for member in model.members_]
    scores = graph.node("Concat", *parts, axis=1)
    values = graph.node("MatMul", scores, graph.constant(model.components_.T))
    return graph.node("Add", values, graph.constant(model.mean_))


@converts("skout.LeafForest")
def _leaf_forest(graph: OnnxGraph, model: LeafForest, X: str) -> str:
    means = model.leaf_means()
    if means is None:
        return add_part(graph, model.forest_, X)
    return add_leaf_sums(graph, add_forest_leaves(graph, model.forest_, X), means)


@converts("skout.ColumnScaler")
def _scaled(graph: OnnxGraph, model: ColumnScaler, X: str) -> str:
    if model.method == "none":
        return X
    if model.method == "dense":
        return graph.cast(graph.cast(X, np.float32))
    if model.method == "standard":
        centered = graph.node("Sub", X, graph.constant(model.mean_))
        return graph.node("Div", centered, graph.constant(model.scale_))
    if model.method == "quantile":
        return _normal_scores(graph, X, model.quantiles_)
    if model.method == "tfidf":
        X = graph.node("Mul", X, graph.constant(model.weights_))
    norms = graph.node("Sqrt", graph.sum(graph.node("Mul", X, X), 1))
    is_zero = graph.node("Equal", norms, graph.constant(0.0))
    return graph.node("Div", X, graph.node("Where", is_zero, graph.constant(1.0), norms))


def _normal_scores(graph: OnnxGraph, X: str, quantiles: np.ndarray) -> str:
    """Add normal scores: each value's share of smaller ones, the middle of equal ones."""
    q = len(quantiles)
    knots = graph.constant(quantiles.T[None])  # (1, d, q)
    each = graph.node("Unsqueeze", X, graph.numbers(2))  # (n, d, 1)
    shares = [
        _share(graph, X, graph.node(compare, knots, each), quantiles)
        for compare in ("LessOrEqual", "Less")
    ]
    share = graph.node("Mul", graph.node("Add", *shares), graph.constant(0.5))
    edge = 0.5 / max(q, 2)
    share = graph.node("Max", share, graph.constant(edge))
    return _inverse_normal(graph, graph.node("Min", share, graph.constant(1.0 - edge)))


def _share(graph: OnnxGraph, X: str, is_below: str, quantiles: np.ndarray) -> str:
    """Add where values lie among quantiles, between 0 and 1, by the count of those below them."""
    q, d = quantiles.shape
    count = graph.sum(graph.cast(is_below, np.int64), 2, keepdims=False)  # (n, d)
    at = graph.node("Max", graph.node("Sub", count, graph.numbers(1)), graph.numbers(0))
    at = graph.node("Min", at, graph.numbers(q - 2))
    columns = graph.constant(np.arange(d) * q, np.int64)
    place = graph.node("Add", at, columns)
    flat = graph.constant(quantiles.T.ravel())
    low = graph.node("Gather", flat, place)
    high = graph.node("Gather", flat, graph.node("Add", place, graph.numbers(1)))
    width = graph.node("Sub", high, low)
    is_flat = graph.node("Equal", width, graph.constant(0.0))
    safe = graph.node("Where", is_flat, graph.constant(1.0), width)
    part = graph.node("Div", graph.node("Sub", X, low), safe)
    part = graph.node("Min", graph.node("Max", part, graph.constant(0.0)), graph.constant(1.0))
    is_last = graph.cast(graph.node("Equal", count, graph.numbers(q)))
    part = graph.node("Where", is_flat, is_last, part)  # of equal quantiles at an end
    total = graph.node("Add", graph.cast(at), part)
    return graph.node("Div", total, graph.constant(float(q - 1)))


def _inverse_normal(graph: OnnxGraph, share: str) -> str:
    """Add the inverse of the normal distribution, for shares of at least 1e-14."""
    unit = graph.constant(1.0)
    is_upper = graph.node("Greater", share, graph.constant(1.0 - np.exp(-2.0)))
    y = graph.node("Where", is_upper, graph.node("Sub", unit, share), share)
    centered = graph.node("Sub", y, graph.constant(0.5))
    squares = graph.node("Mul", centered, centered)
    ratio = graph.node("Mul", squares, _ratio(graph, squares, _MIDDLE))
    middle = graph.node("Add", centered, graph.node("Mul", centered, ratio))
    middle = graph.node("Mul", middle, graph.constant(np.sqrt(2.0 * np.pi)))
    x = graph.node("Sqrt", graph.node("Mul", graph.node("Log", y), graph.constant(-2.0)))
    z = graph.node("Div", unit, x)
    first = graph.node("Sub", x, graph.node("Div", graph.node("Log", x), x))
    tail = graph.node("Sub", first, graph.node("Mul", z, _ratio(graph, z, _TAIL)))
    signed = graph.node("Where", is_upper, tail, graph.node("Neg", tail))
    is_middle = graph.node("Greater", y, graph.constant(np.exp(-2.0)))
    return graph.node("Where", is_middle, middle, signed)


def _ratio(graph: OnnxGraph, x: str, powers: tuple[tuple[float, ...], tuple[float, ...]]) -> str:
    names = []
    for coefs in powers:
        name = graph.constant(coefs[0])
        for coef in coefs[1:]:
            name = graph.node("Add", graph.node("Mul", name, x), graph.constant(coef))
        names.append(name)
    return graph.node("Div", *names)
