"""What is reported on: a model, test rows and its predictions, from files or from Python."""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from skout import save
from skout._numerics.validation import column_names
from skout.dev import join, n_rows, no_frames, resolve
from skout.persistence import describe

from ...tables.files import Table, listed, select
from ...tuning.kinds import guess_kind
from ..baselines import baseline_of, baseline_output
from ..columns import OUTPUTS, Classes, Inputs, LabelSets, Numbers, Outputs, Rankings, Texts
from ..fitting import join_inputs, read_table
from ..progress import opened
from ..results import inside, size_text
from ..tuning import for_people
from ..using import Judged, Saved, judged_parts, open_model

__all__ = ["Subject", "subject_of_files", "subject_of_rows"]

Facts = list[tuple[str, str]]


@dataclass
class Subject:
    """A model, n test rows, and what the model says of them."""

    saved: Saved
    title: str
    facts: Facts  # what the model is
    evaluation: dict[str, Any]  # what `skout evaluate --json` says
    X: Any
    truth: Any
    found: Any
    shown: list[list[str]]  # the true outputs as words
    seconds: float  # of all predictions
    candidates: Any = None
    groups: dict[str, list[str]] = field(default_factory=dict)  # by the columns to group by
    baseline: tuple[str, Any] | None = None
    validation: str = ""  # the score at the time of the fit
    train: tuple[Any, Any] | None = None
    sets: Any = None  # ConformalSets
    costs: Facts = field(default_factory=list)


def subject_of_files(
    model: Path,
    data: Path,
    candidates: Path | None,
    skip_invalid: bool,
    by: str | None,
    train: Path | None,
) -> Subject:
    """Return what is reported on, from the files that the command names."""
    saved, table = open_model(model), opened(data)
    inputs, outputs = saved.inputs, saved.outputs
    columns = select(by, table.names, "--by") if by else []
    rows = None if train is None else read_table(opened(train), inputs, outputs)
    pool = saved.candidates(candidates, skip_invalid)
    score, blocks, shown = saved.new_score(), [], []
    groups: dict[str, list[str]] = {name: [] for name in columns}
    for one in judged_parts(saved, table, pool, columns):
        score.add(one.truth, one.found)
        blocks.append(one)
        shown += _true_words(outputs, one)
        for name in columns:
            groups[name] += one.part.texts[name]
    record, about = _record(model)
    kept = baseline_output(record.get("baseline"), outputs, table)
    return Subject(
        saved=saved,
        title=f"{model.name} on {data.name}",
        facts=_facts_of_file(saved, record, about),
        evaluation=saved.evaluation(score),
        X=join_inputs([one.X for one in blocks]),
        truth=_join_truth([one.truth for one in blocks]),
        found=join([one.found for one in blocks]),
        shown=shown,
        seconds=sum(one.seconds for one in blocks),
        candidates=pool,
        groups=groups,
        baseline=kept or (None if rows is None else _baseline_of(rows[1], outputs, table)),
        validation=str(inside(record, "validation", "summary") or ""),
        train=rows,
        costs=_costs_of_file(model, record),
    )


def _true_words(outputs: Outputs, one: Judged) -> list[list[str]]:
    """Return true outputs as words, also labels that the model does not know."""
    sets: Callable[..., Any] | None = getattr(outputs, "sets", None)
    return sets(one.part) if sets and outputs.is_text else outputs.lists(one.truth)


def _join_truth(parts: list[Any]) -> Any:
    """Return true outputs of several blocks as one; unknown labels may widen single blocks."""
    if sparse.issparse(parts[0]):
        width = max(part.shape[1] for part in parts)
        for part in parts:
            part.resize((part.shape[0], width))
    return join(parts)


def _record(model: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    about = describe(model, parts=False)["about"]
    return about["metadata"]["command_line"], about


def _facts_of_file(saved: Saved, record: dict[str, Any], about: dict[str, Any]) -> Facts:
    """Return what a file says about its model."""
    rows = record.get("rows")
    chosen = ""
    if isinstance(record.get("validation"), dict):
        try:
            chosen = ", ".join(for_people(record)["chosen"])
        except (KeyError, TypeError):  # a file of another version
            chosen = ""
    versions = about.get("versions")
    facts = [
        ("Model", str(about.get("class", ""))),
        ("Chosen", chosen),
        ("Predicts", f"{saved.outputs.kind.replace('_', ' ')}: {listed(saved.outputs.columns)}"),
        ("From", f"{len(saved.inputs.columns)} columns: {listed(saved.inputs.columns)}"),
        ("Fitted on", f"{rows:,} rows" if isinstance(rows, int) else ""),
        ("Saved", str(about.get("saved", ""))),
    ]
    if isinstance(versions, Mapping):
        facts.append(("Versions", ", ".join(f"{name} {one}" for name, one in versions.items())))
    return [(name, value) for name, value in facts if value]


def _costs_of_file(path: Path, record: Mapping[str, Any]) -> Facts:
    found = describe(path)
    arrays = size_text(found["parts"]["bytes"])
    costs = [("File", size_text(path.stat().st_size)), ("Memory of its arrays", arrays)]
    seconds = record.get("seconds")
    return [*costs, ("Fit", f"{seconds:g} s")] if isinstance(seconds, int | float) else costs


def _baseline_of(Y: Any, outputs: Outputs, table: Table) -> tuple[str, Any] | None:
    return baseline_output(baseline_of([Y], outputs), outputs, table)


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
    """Return what is reported on, from objects of Python."""
    n = n_rows(X)
    _check_rows(n, Y, by)
    sets = model if hasattr(model, "gaps_") and callable(getattr(model, "evaluate", None)) else None
    model = model if sets is None else model.model
    kind = resolve_kind(kind, model, Y)
    names = labels or column_names(Y)
    truth, outputs = _outputs(kind, Y, names)
    inputs = Inputs([str(name) for name in column_names(X) or _numbered(X)])
    saved = Saved(model, inputs, outputs)
    start = time.perf_counter()
    found = _predicted(saved, X, candidates, truth)
    seconds = time.perf_counter() - start
    score = saved.new_score()
    score.add(truth, found)
    rows = None if train is None else (train[0], _outputs(kind, train[1], names)[0])
    table: Any = None  # of no file
    return Subject(
        saved=saved,
        title=f"{type(model).__name__} on {n:,} rows",
        facts=[
            ("Model", repr(model)),
            ("Predicts", f"{kind.replace('_', ' ')}: {listed(outputs.columns)}"),
            ("From", f"{len(inputs.columns)} columns: {listed(inputs.columns)}"),
        ],
        evaluation=saved.evaluation(score),
        X=X,
        truth=truth,
        found=found,
        shown=outputs.lists(truth),
        seconds=seconds,
        candidates=candidates,
        groups={name: [str(value) for value in values] for name, values in by.items()},
        baseline=None if rows is None else _baseline_of(rows[1], outputs, table),
        validation=model.summary() if callable(getattr(model, "summary", None)) else "",
        train=rows,
        sets=sets,
        costs=_costs_of_model(model),
    )


def _predicted(saved: Saved, X: Any, candidates: Any, truth: Any) -> Any:
    """Return predictions of some rows, of numbers as many as the truth has."""
    with no_frames():
        found = saved.predict(X, candidates)
    if saved.outputs.kind == "numbers" and np.size(found) != truth.size:
        raise ValueError(
            f"The model predicts shape {np.shape(found)}, and Y has shape {truth.shape}: a report "
            "takes one prediction for each number, not quantiles."
        )
    return found


def _check_rows(n: int, Y: Any, by: dict[str, Any]) -> None:
    if n == 0:
        raise ValueError("X is empty: there is nothing to report on.")
    for name, values in {"Y": Y, **{f"by[{key!r}]": one for key, one in by.items()}}.items():
        if n_rows(values) != n:
            raise ValueError(f"X and {name} must be of equal length. Got {n} and {n_rows(values)}.")


def resolve_kind(kind: str | None, model: Any, Y: Any) -> str:
    """Return the kind of outputs: as it was given, as the model knows, or as it looks."""
    if kind is None:
        kind = getattr(model, "kind_", None) or guess_kind(Y)
    resolve(kind, OUTPUTS, "kind")
    return OUTPUTS.spelled(kind)


def _outputs(kind: str, Y: Any, names: list[str] | None) -> tuple[Any, Outputs]:
    """Return outputs as the command line has them, and what their columns are."""
    if kind in ("strings", "smiles", "classes"):
        values = Y.to_numpy() if hasattr(Y, "to_numpy") else Y
        if kind == "classes":
            return np.asarray(values), Classes([*(names or ["class"])][:1])
        return [str(one) for one in values], Texts([*(names or [kind])][:1], kind)
    rows = Y.to_numpy() if hasattr(Y, "to_numpy") else Y
    if kind == "label_sets":
        rows = sparse.csr_matrix(rows, dtype=float)
        return rows, _named_sets(names or [f"label {j}" for j in range(rows.shape[1])])
    rows = np.asarray(rows, dtype=float)
    rows = rows.reshape(len(rows), -1)
    width = rows.shape[1]
    if kind == "rankings":
        items = names or [f"item {j}" for j in range(width)]
        return rows - rows.min(axis=1, keepdims=True), Rankings(items)
    return rows, Numbers(names or [f"y{j}" for j in range(width)])


def _named_sets(names: list[str]) -> LabelSets:
    sets = LabelSets(names)
    sets.labels = names  # of one label, too
    return sets


def _numbered(X: Any) -> list[str]:
    """Return names for columns that have none; objects are one column."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    return [f"x{j}" for j in range(shape[1])] if len(shape) == 2 else ["input"]


def _costs_of_model(model: Any) -> Facts:
    """Return the size of the file that the model makes, if it can be saved."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skout"
        try:
            save(model, path)
        except (TypeError, ValueError):  # with parts of one's own
            return []
        return _costs_of_file(path, {})
