"""The command `skout export`: a model as an ONNX graph, for other languages."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Option

from .options import AsJson, Model
from .results import check_place, show, size_text

if TYPE_CHECKING:
    from onnx import ModelProto

    from .using import SavedModel


def export(
    model: Model,
    out: Annotated[Path, Option("--out", "-o", help="The file to write, such as model.onnx.")],
    as_json: AsJson = False,
) -> None:
    """Write a model as an ONNX graph, which runs without Python and without skout.

    Each column of a table is an input: numbers, texts, or dates as seconds since 1970.

    Example: skout export model.skout -o model.onnx
    """
    if out.suffix.lower() != ".onnx":
        raise ValueError(f"--out must end in .onnx. Got {str(out)!r} instead.")
    check_place(out, "--out", [model])
    from .using import open_model

    saved = open_model(model)
    saved.check_one_target("export")
    graph = exported(saved, out)
    record: dict[str, Any] = {
        "graph": str(out),
        "inputs": [value.name for value in graph.graph.input],
        "outputs": [value.name for value in graph.graph.output],
        "needs": [opset.domain for opset in graph.opset_import if opset.domain == "com.microsoft"],
        "size": size_text(out.stat().st_size),
    }
    if not as_json:
        runtime = "ONNX Runtime, which can hash texts" if record["needs"] else "any ONNX runtime"
        record["needs"] = runtime
    show(record, as_json)


def exported(saved: "SavedModel", out: Path) -> "ModelProto":
    """Write the ONNX graph of a model and return it; it scales the inputs, too."""
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    from skout.persistence.onnx import to_onnx

    inputs, model = saved.inputs, saved.model
    if inputs.is_text:
        raise TypeError(
            f"The model compares texts of {inputs.columns[0]!r} by a kernel of strings, which "
            "has no form in ONNX. Models of tables with several columns have one."
        )
    if inputs.standardize:
        scaler = StandardScaler()
        scaler.mean_, scaler.scale_ = np.array(inputs.means), np.array(inputs.scales)
        scaler.n_features_in_ = len(inputs.columns)
        model = Pipeline([("scale", scaler), ("model", model)])
    graph: ModelProto = to_onnx(model, out)
    return graph
