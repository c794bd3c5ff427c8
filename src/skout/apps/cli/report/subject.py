"""The subject of a report: a model, test rows and predictions, from files or from Python."""

import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from skout import save
from skout.dev import column_names, n_rows, no_frames
from skout.kinds import Kind, guess_kind

from ...tables.files import listed, select
from ..columns import Inputs, Outputs, known_kind
from ..fitting import chosen_models, join_inputs, read_table
from ..progress import open_with_notes
from ..results import describe_file, digits, size_text, value_at
from ..using import SavedModel, join_parts, open_model, predicted_parts

Facts = list[tuple[str, str]]


@dataclass
class Subject:
    """A model with test rows and its predictions for them."""

    saved: SavedModel
    title: str
    facts: Facts  # about the model
    evaluation: dict[str, Any]  # the record of `skout evaluate --json`
    X: Any
    truth: Any
    predicted: Any
    proba: np.ndarray | None  # of each class or label, where the model has probabilities
    shown: list[list[str]]  # the true outputs as words
    seconds: float  # of all predictions
    candidates: Any = None
    groups: dict[str, list[str]] = field(default_factory=dict)  # the columns to group rows by
    baseline: tuple[str, Any] | None = None
    validation: str = ""  # the score at the time of the fit
    train: tuple[Any, Any] | None = None
    sets: Any = None  # ConformalSets
    costs: Facts = field(default_factory=list)

    @property
    def has_classes(self) -> bool:
        """Whether the model predicts classes with probabilities."""
        return self.saved.outputs.kind.estimator_type == "classifier" and self.proba is not None


def subjects_of_files(
    model: Path,
    data: Path,
    candidates: Path | None,
    skip_invalid: bool,
    by: str | None,
    train: Path | None,
) -> list[Subject]:
    """Return the subject of each target, from the files that the command names."""
    saved = open_model(model)
    if candidates is not None:
        saved.check_one_target("--candidates")
    about = describe_file(model)["about"]
    record, subjects, table = about["metadata"]["command_line"], [], open_with_notes(data)
    columns = select(by, table.names, "--by") if by else []
    for target, target_record in zip(saved.targets, record.get("targets") or [record], strict=True):
        facts = {**record, **target_record}
        inputs, outputs = target.inputs, target.outputs
        rows = None if train is None else read_table(open_with_notes(train), inputs, outputs)
        pool = target.candidates(candidates, skip_invalid)
        blocks, shown = [], []
        groups: dict[str, list[str]] = {name: [] for name in columns}
        for block in predicted_parts(target, table, pool, columns):
            blocks.append(block)
            cells = outputs.cells_of(block.part)  # with labels that the model may not know
            shown += (
                outputs.kind.split(cells) if outputs.is_text else outputs.kind.words(block.truth)
            )
            for name in columns:
                groups[name] += block.part.texts[name]
        kept = facts.get("baseline") or (rows and outputs.baseline(rows[1]))
        truth, predicted, proba = join_parts(blocks)
        if outputs.kind.estimator_type == "regressor":
            truth = outputs.kind.to_columns(truth)
        subjects.append(
            Subject(
                saved=target,
                title=f"{model.name} on {data.name}",
                facts=_facts_of_file(target, facts, about),
                evaluation=target.evaluation(truth, predicted, proba),
                X=join_inputs([block.X for block in blocks]),
                truth=truth,
                predicted=predicted,
                proba=proba,
                shown=shown,
                seconds=sum(block.seconds for block in blocks),
                candidates=pool,
                groups=groups,
                baseline=outputs.baseline_output(kept),
                validation=str(value_at(facts, "validation", "summary") or ""),
                train=rows,
                costs=_costs_of_file(model, facts),
            )
        )
    return subjects


def _facts_of_file(saved: SavedModel, record: dict[str, Any], about: dict[str, Any]) -> Facts:
    """Return the facts about a model that are in its file."""
    rows, versions, chosen = record.get("rows"), about.get("versions"), ""
    with suppress(KeyError, TypeError):  # not tuned, or a file of another version
        chosen = ", ".join(chosen_models(record))
    versions = versions if isinstance(versions, Mapping) else {}
    facts = [
        ("Model", str(about.get("class", ""))),
        ("Chosen", chosen),
        *_columns_of(saved),
        ("Fitted on", f"{rows:,} rows" if isinstance(rows, int) else ""),
        ("Saved", str(about.get("saved", ""))),
        ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
    ]
    return [(name, value) for name, value in facts if value]


def _columns_of(saved: SavedModel) -> Facts:
    inputs, outputs = saved.inputs.columns, saved.outputs
    what = ("Predicts", f"{outputs.kind.plural}: {listed(outputs.columns)}")
    return [what, ("From", f"{len(inputs)} columns: {listed(inputs)}")]


def _costs_of_file(path: Path, record: Mapping[str, Any]) -> Facts:
    description = describe_file(path, parts=True)
    arrays = size_text(description["parts"]["bytes"])
    costs = [("File", size_text(path.stat().st_size)), ("Memory of its arrays", arrays)]
    seconds = record.get("seconds")
    return [*costs, ("Fit", f"{digits(seconds)} s")] if isinstance(seconds, int | float) else costs


def subject_of_rows(
    model: Any,
    X: Any,
    Y: Any,
    *,
    kind: str | None,
    candidates: Any,
    by: dict[str, Any],
    train: tuple[Any, Any] | None,
    labels: list[str] | None,
) -> Subject:
    """Return the subject of objects of Python."""
    n = n_rows(X)
    _check_rows(n, Y, by)
    sets = model if hasattr(model, "gaps_") and callable(getattr(model, "evaluate", None)) else None
    model = model if sets is None else model.model
    known = known_kind(kind or getattr(model, "kind_", None) or guess_kind(Y))
    truth, outputs = _outputs(known, Y, labels or column_names(Y))
    inputs = Inputs([str(name) for name in column_names(X) or _numbered(X)])
    saved = SavedModel(model, inputs, outputs)
    start = time.perf_counter()
    with no_frames():
        predicted = saved.predict(X, candidates)
        seconds = time.perf_counter() - start
        proba = saved.probabilities(X)
    rows = None if train is None else (train[0], _outputs(known, train[1], outputs.columns)[0])
    return Subject(
        saved=saved,
        title=f"{type(model).__name__} on {n:,} rows",
        facts=[("Model", repr(model)), *_columns_of(saved)],
        evaluation=saved.evaluation(truth, predicted, proba),
        X=X,
        truth=truth,
        predicted=predicted,
        proba=proba,
        shown=outputs.kind.words(truth),
        seconds=seconds,
        candidates=candidates,
        groups={name: [str(value) for value in values] for name, values in by.items()},
        baseline=rows and (known.baseline_name, known.baseline(rows[1])),
        validation=model.summary() if callable(getattr(model, "summary", None)) else "",
        train=rows,
        sets=sets,
        costs=_costs_of_model(model),
    )


def _check_rows(n: int, Y: Any, by: dict[str, Any]) -> None:
    if n == 0:
        raise ValueError("X is empty: there is nothing to report on.")
    for name, values in {"Y": Y, **{f"by[{key!r}]": column for key, column in by.items()}}.items():
        if n_rows(values) != n:
            raise ValueError(f"X and {name} must be of equal length. Got {n} and {n_rows(values)}.")


def _outputs(kind: Kind, Y: Any, names: list[str] | None) -> tuple[Any, Outputs]:
    """Return outputs in the form of their kind, and the columns that they have."""
    truth = kind.check(Y)
    truth = kind.to_columns(truth) if kind.estimator_type == "regressor" else truth
    columns = names or kind.names(truth)
    return truth, Outputs(columns, kind.named(columns))


def _numbered(X: Any) -> list[str]:
    """Return names of columns without names, x0, x1 and so on; objects are one column."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    return [f"x{j}" for j in range(shape[1])] if len(shape) == 2 else ["input"]


def _costs_of_model(model: Any) -> Facts:
    """Return the size of the model in a file, empty where it cannot be saved."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skout"
        try:
            save(model, path)
        except (TypeError, ValueError):  # it has parts of the user's own
            return []
        return _costs_of_file(path, {})
