"""Models as ONNX graphs, which other runtimes and languages run (`pip install "skout[onnx]"`).

Graphs are built node by node, x -> coordinates f(x) -> outputs, so that running them does not need
skout. `kernels` exports kernel ridge, `parts` estimators of scikit-learn, `outputs` decoders;
applications add their parts by `converts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..._numerics.files import check_place, replacing
from ..._numerics.typing import Candidates, Estimator, PathLike
from ..._numerics.validation import check_choice
from .graph import OnnxGraph, add_part, converts
from .outputs import add_numbers, add_outputs
from .parts import add_forest_leaves, add_leaf_sums

__all__ = [
    "OnnxGraph",
    "add_forest_leaves",
    "add_leaf_sums",
    "add_part",
    "converts",
    "graph_inputs",
    "to_onnx",
]


def to_onnx(
    model: Estimator,
    path: PathLike | None = None,
    *,
    candidates: Candidates = None,
    k: int = 10,
    dtype: str = "float64",
) -> Any:
    """Write a fitted model as an ONNX graph.

    The input of the graph is "X", dense rows of shape (n, d). Of a `Tuned` that reads tables, each
    column is an input of shape (n, 1): numbers, NaN where one is missing; texts, "" where one is
    missing; dates as seconds since 1970. Kernels of dense rows can be written: `Linear`,
    `Polynomial`, `Gaussian`, `Laplacian`, `Matern`, `Cosine`, `Mahalanobis` (so learned metrics),
    `OnColumns`, their sums, products and multiples; and forests, boosted trees, neighbors and
    logistic regressions as `Tuned` chooses and averages them. The page on models elsewhere has the
    list of all that can be written and of what cannot.

    Parameters
    ----------
    model : KernelRidge, Tuned, StructuredPredictor, or a Pipeline or search of one
        Fitted. Of numbers the output is "prediction", of shape (n,) or (n, d). Classes have
        "label" and "probabilities", label sets "labels" (rows of 0 and 1) and "probabilities",
        rankings "ranks". A predictor that ranks candidates has the outputs "positions" and
        "scores", each of shape (n, k), as `rank` gives them, and "candidates" where these are
        texts or rows of a dense array.
    path : path, optional
        The file to write the graph to; None is no file.
    candidates : objects or EmbeddedPool, optional
        One pool for all rows; default the distinct training outputs. They become part of the file.
    k : int, default 10
        Number of candidates of a row; all, if there are fewer.
    dtype : "float64" or "float32", default "float64"
        Precision of inputs and computations; trees always compare float64. In float32 an exact
        model with a small alpha may lose most digits, see below.

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
    graph = OnnxGraph(dtype)
    if path is not None:
        check_place(path, "path")
    check_is_fitted(model)
    _add_model(graph, model, "", candidates, k)
    proto = graph.model()
    if path is not None:
        with replacing(path) as part:
            part.write_bytes(proto.SerializeToString())
    return proto


def graph_inputs(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the columns of a table as inputs of an exported graph.

    Parameters
    ----------
    columns : dict of str to array of shape (n,)
        As `TableEncoder.read` returns them: floats, texts with None where one is missing, dates.

    Returns
    -------
    inputs : dict of str to ndarray of shape (n, 1)
        Floats; texts with "" where one is missing; dates as seconds since 1970.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.persistence.onnx import graph_inputs
    >>> days = np.array(["1970-01-02", "NaT"], dtype="datetime64[s]")
    >>> graph_inputs({"day": days})["day"].tolist()
    [[86400.0], [nan]]
    >>> graph_inputs({"color": np.array(["red", None], dtype=object)})["color"].tolist()
    [['red'], ['']]
    """
    inputs = {}
    for name, column in columns.items():
        if column.dtype.kind == "M":
            seconds = column.astype("datetime64[s]").astype(np.int64).astype(np.float64)
            column = np.where(np.isnat(column), np.nan, seconds)
        elif column.dtype.kind == "O":
            column = np.array(["" if cell is None else cell for cell in column], dtype=object)
        inputs[name] = column[:, None]
    return inputs


def _add_model(
    graph: OnnxGraph,
    model: Estimator,
    X: str,
    candidates: Candidates,
    k: int,
    calibration: Estimator | None = None,
) -> None:
    """Add a model and its outputs to a graph; a search by its best model and its calibration."""
    if hasattr(model, "steps"):
        *steps, (_, last) = model.steps
        for _, step in steps:
            X = add_part(graph, step, X)
        _add_model(graph, last, X, candidates, k)
    elif hasattr(model, "best_estimator_"):
        encoder = getattr(model, "encoder_", None)
        X = X if encoder is None else add_part(graph, encoder, X)
        calibration = getattr(model, "calibration_", None)
        _add_model(graph, model.best_estimator_, X, candidates, k, calibration)
    elif hasattr(model, "decoder_"):
        F = add_part(graph, model.regressor_, X)
        add_outputs(graph, F, model.decoder_, candidates, k, calibration)
    else:
        F = add_part(graph, model, X)
        add_numbers(graph, F, *_shape_of(model))


def _shape_of(model: Estimator) -> tuple[bool, int]:
    """Return whether predictions have one axis, and their number of columns."""
    if hasattr(model, "projection_"):
        return bool(model._is_vector), int(model.intercept_.shape[0])
    n = int(getattr(model, "n_outputs_", 1))
    return n == 1, n
