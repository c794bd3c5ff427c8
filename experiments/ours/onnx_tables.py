"""ONNX graphs of the models that `skout fit` chose on tables as their authors left them.

    python -m experiments.ours.onnx_tables [--tables movies ikea ...] [--budget 10]

For each target of `experiments.ours.strangers`: `skout fit` without settings on three quarters of
the rows, `to_onnx` of what it chose, and ONNX Runtime on other rows beside `predict`. Equal is a
difference of at most 1e-5 of the largest prediction or probability, and the same labels.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from experiments.common import print_table, write_record
from experiments.ours.strangers import TARGETS, command, records, write
from skout.apps.cli.exporting import exported
from skout.apps.cli.using import open_model
from skout.apps.tables.files import open_table

BUDGET, CLOSE, MOST_ROWS = "10", 1e-5, 400


def fitted(place: Path, table: str, target: str, drop: str, budget: str) -> tuple[int, str]:
    """Fit a model as a stranger would; return the code and what was said."""
    head, rows = records(table)
    cut = 3 * len(rows) // 4
    write(place / "train.csv", [*head, *rows[:cut]])
    write(place / "test.csv", [*head, *rows[cut : cut + MOST_ROWS]])
    dropped = ["--drop", drop] if drop else []
    words = ["--target", target, "--budget", budget, *dropped, "-o", str(place / "m")]
    code, _, said = command("fit", str(place / "train.csv"), *words)
    return code, said


def feeds(session: Any, X: Any, encoder: Any) -> dict[str, np.ndarray]:
    """Return the inputs of a graph: a matrix, or columns as the encoder reads them."""
    if encoder is None:
        return {"X": np.asarray(X, dtype=np.float64)}
    columns = encoder.read(X)
    values = {}
    for one in session.get_inputs():
        column = columns[one.name]
        if column.dtype.kind == "M":
            moments = column.astype("datetime64[s]").astype(np.int64).astype(np.float64)
            column = np.where(np.isnat(column), np.nan, moments)
        elif column.dtype.kind == "O":
            column = np.array(["" if cell is None else cell for cell in column], dtype=object)
        values[one.name] = column[:, None]
    return values


def compared(place: Path) -> dict[str, Any]:
    """Export the model of a folder, run it on the test rows, and return what differs."""
    import onnxruntime

    saved, table = open_model(place / "m"), open_table(place / "test.csv")
    start = time.perf_counter()
    try:
        exported(saved, place / "m.onnx")
    except (TypeError, ValueError) as error:
        return {"reason": str(error)}
    seconds = time.perf_counter() - start
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(place / "m.onnx"), options)
    inputs, model = saved.inputs, saved.model
    part = next(table.parts(inputs.numbers, inputs.texts, inputs.reading))
    X = inputs.read(table, part)
    names = [one.name for one in session.get_outputs()]
    start = time.process_time()
    values = session.run(names, feeds(session, X, getattr(model, "encoder_", None)))
    theirs = time.process_time() - start
    outputs = dict(zip(names, values, strict=True))
    start = time.process_time()
    predicted = model.predict(X)
    ours = time.process_time() - start
    predicted = predicted.toarray() if hasattr(predicted, "toarray") else np.asarray(predicted)
    worst = 0.0
    for name, value in outputs.items():
        if name == "probabilities":
            worst = max(worst, float(np.abs(value - model.predict_proba(X)).max()))
        elif name == "prediction":
            scale = float(np.abs(predicted).max())
            worst = max(worst, float(np.abs(value - predicted).max()) / scale)
        elif name in ("label", "labels", "ranks"):
            worst = max(worst, float(np.mean(value != predicted)))
    return {
        "worst": worst,
        "megabytes": (place / "m.onnx").stat().st_size / 1e6,
        "seconds_to_export": seconds,
        "cpu_seconds": [theirs, ours],
        "rows": len(part),
    }


def _said(result: dict[str, Any]) -> str:
    return f"{result['worst']:.1e}" if "worst" in result else str(result["reason"])


def main() -> None:
    """Fit, export and compare on all targets, and write a record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--budget", default=BUDGET)
    words = parser.parse_args()
    results: list[dict[str, Any]] = []
    for table, target, _, drop in TARGETS:
        if words.tables and table not in words.tables:
            continue
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code, said = fitted(Path(folder), table, target, drop, words.budget)
            result = compared(Path(folder)) if code == 0 else {"reason": f"not fitted: {said}"}
        results.append({"table": table, "target": target, **result})
        print(results[-1], flush=True)
    is_equal = [result.get("worst", np.inf) <= CLOSE for result in results]
    columns = ["table", "target", "largest difference, or why not"]
    rows = [
        dict(zip(columns, (one["table"], one["target"][:30], _said(one)), strict=True))
        for one in results
    ]
    print_table(rows, columns)
    share = f"{sum(is_equal)} of {len(results)} exported and equal to {CLOSE:g}"
    print(share)
    if not words.tables:
        write_record("onnx_tables", {"budget": words.budget, "share": share}, results)


if __name__ == "__main__":
    main()
