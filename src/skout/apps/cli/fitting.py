"""`skout fit`: fit a model on a table, and save it with all that `skout predict` needs."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

from skout import TableEncoder, Tuned, TunedTargets, save
from skout.dev import join, take
from skout.kinds import KINDS, LabelSets
from skout.sources import Blocks

from ..tables.files import Part, Table, listed
from ..tables.numerals import is_missing
from ..tuning import MAPS, Target
from .choosing import choose_columns
from .columns import Inputs, Outputs, columns_to_read, first_rows
from .importance import importances
from .progress import is_terminal, note, open_with_notes, progress
from .settings import Settings, as_record, build_model, check_budget
from .using import SavedModel

# The fewest rows of which some are held out, and the most inputs of a form with a typical row.
_LEAST_ROWS, _MOST_SHOWN = 10, 100
# Rows whose columns are shuffled to find those that matter most, how many of them are named, how
# often each is shuffled, and seconds for it: each shuffled column costs a prediction of these rows.
_SHUFFLED, _MOST_COLUMNS, _REPEATS, _SECONDS = 300, 3, 2, 2.0


class _FitPlan(NamedTuple):
    """The columns and rows to fit on, and the model."""

    inputs: Inputs
    outputs: list[Outputs]
    unused: dict[str, str]  # columns, and why
    rows: SurveyedRows
    model: Any  # what is fitted where no model is chosen
    why: str | None  # why no model is chosen by validation; None if one is


def fit_file(data: Path, settings: Settings, out: Path) -> dict[str, Any]:
    """Fit a model on a table and save it; return a record of the fit."""
    start = time.perf_counter()
    table = open_with_notes(data)
    plan = _planned(table, settings)
    inputs, outputs, unused, rows, _, why = plan
    _note_unused(unused)
    _note_targets(outputs, rows)
    pairs = [_TableBlocks(table, inputs, target, rows.parts) for target in outputs]
    fitted = _fitted(plan.model, pairs, settings, rows.n, start if why is None else None)
    models = list(fitted.models_.values()) if isinstance(fitted, TunedTargets) else [fitted]
    if why is None and models[0].encoder_ is not None:
        reasons = models[0].encoder_.left_out_
        new = {name: why_not for name, why_not in reasons.items() if name not in unused}
        _note_unused(new)
        unused |= new
        inputs = inputs.without(reasons)  # new tables need not have them
    elif why is None and inputs.is_table:
        inputs = inputs.as_numbers()
    seconds = round(time.perf_counter() - start, 3)
    targets = [
        {
            **({"validation": validation(model)} if why is None else {}),
            "outputs": pair.outputs.saved(),
            "baseline": pair.outputs.baseline(first_rows(Y for _, Y in pair())),
        }
        for model, pair in zip(models, pairs, strict=True)
    ]
    kinds = getattr(getattr(models[0], "encoder_", None), "kinds_", None)
    record = {
        **targets[0],
        "inputs": asdict(inputs),
        **({"targets": targets} if len(targets) > 1 else {}),
        "example": typical_row(table, inputs, kinds or {}),
        "settings": as_record(settings),
        "rows": rows.n,
        "seconds": seconds,
        **({} if kinds is None else {"columns": kinds}),
    }
    save(fitted, out, metadata={"command_line": record})
    alpha = {} if why is None else {"alpha": float(getattr(fitted, "regressor_", fitted).alpha_)}
    done = [
        _described(model, pair, left_out, record)
        for model, pair, left_out, record in zip(models, pairs, rows.left_out, targets, strict=True)
    ]
    return {
        "model": str(out),
        "rows": rows.n,
        **(done[0] if len(done) == 1 else {}),
        "inputs": len(inputs.columns),
        "standardize": inputs.standardize,
        "not_used": list(unused),
        "tuned": why is None,
        **alpha,
        "in_memory": rows.parts is not None,
        **({"targets": done} if len(done) > 1 else {}),
        "seconds": seconds,
    }


def _planned(table: Table, settings: Settings) -> _FitPlan:
    """Return the plan of a fit: choose columns, read all rows, and decide whether to tune."""
    mixed, memory = settings.tune and settings.missing != "mean", settings.memory * 1e6
    inputs, outputs, unused = choose_columns(table, settings, mixed)
    several = len(outputs) > 1
    if several and not mixed:
        raise ValueError(
            f"There are {len(outputs)} targets, and skout must choose a model for each. Leave out "
            "--no-tune, --missing mean and settings of a model, or fit one target after another."
        )
    model = build_model(settings, outputs[0].kind, inputs.is_text)  # errors come before the work
    rows = survey(table, inputs, outputs, memory)
    why = reason_not_to_tune(settings, rows.n, rows.parts is not None)
    if why is not None and several:
        raise ValueError(f"{table.path}: skout cannot choose models of several targets: {why}.")
    why = why if settings.tune else "--no-tune"
    if settings.tune and why is not None:
        note(f"the model is not tuned: {why}.")
        inputs, outputs, unused = choose_columns(table, settings)
        rows = survey(table, inputs, outputs, memory)
    if why is not None and rows.parts is None:
        _check_streams(settings, table.path)
    if why is None:
        inputs.standardize = False  # scales are chosen with the model
    return _FitPlan(inputs, outputs, unused, rows, model, why)


def _described(
    model: Any, pair: _TableBlocks, left_out: int, record: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the record of one target: its kind, its validation, and the columns that matter."""
    outputs, is_tuned = pair.outputs, "validation" in record
    classes = getattr(model, "classes_", None)
    count = "" if classes is None else f" ({len(classes)} classes)"
    columns = _most_important(model, pair) if is_tuned else []
    return {
        "target": outputs.columns,
        "output": outputs.kind.name,
        "details": outputs.details() or count,
        "rows_left_out": left_out,
        **({"validation": record["validation"]} if is_tuned else {}),
        **({"matter_most": columns} if columns else {}),
    }


def _fitted(
    model: Any, pairs: list[_TableBlocks], settings: Settings, n: int, started: float | None
) -> Any:
    """Return the fitted model: a tuned one where `started` is given, and else `model` itself.

    The budget of a tuned model began when the command `started`, before the table was read.
    """
    first = pairs[0]
    if started is not None:
        for entry in entry_points(group="skout.maps"):  # those of installed packages
            MAPS.setdefault(entry.name, entry.load())
        encoder = TableEncoder(day_first=settings.day_first, strict=settings.strict)
        tuned = Tuned(
            first.outputs.kind.name,
            settings.scoring,
            budget=check_budget(settings.budget),
            random_state=settings.seed,
            encoder=encoder,
            kinds=first.inputs.kinds or None,
            verbose=is_terminal(),
        )
        if len(pairs) > 1:
            X = join_inputs([first.inputs.read(first.table, part) for part in first.parts or []])
            targets = {pair.outputs.name: pair.target() for pair in pairs}
            return TunedTargets(tuned).fit(X, targets, started=started)
        tuned = tuned.fit(*_joined(first), started=started)
        if isinstance(first.outputs.kind, LabelSets):
            tuned.labels_ = list(first.outputs.kind.labels)
        return tuned
    if first.parts is not None:
        return model.fit(*_joined(first))
    return model.fit(Blocks(first, n))


def _most_important(model: Any, pair: _TableBlocks) -> list[str]:
    """Return the columns whose shuffling costs the model most of its score.

    None if the time was too short for all: the others may matter more.
    """
    X, Y = (take(rows, slice(_SHUFFLED)) for rows in _joined(pair))
    saved = SavedModel(model, pair.inputs, pair.outputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit gave them already
        importance = importances(saved, X, Y, saved.predict(X, None), None, _SECONDS, _REPEATS)
    if len(importance.losses) < importance.columns:
        return []
    losses = importance.losses[:_MOST_COLUMNS]
    return [shuffled.column for shuffled in losses if shuffled.loss > 0.0]


def typical_row(table: Table, inputs: Inputs, kinds: Mapping[str, str]) -> dict[str, float | str]:
    """Return a typical row, which nobody has: medians, most frequent words, and a date half-way."""
    if len(inputs.columns) > _MOST_SHOWN:
        return {}
    part = next(table.parts(inputs.numbers, inputs.texts, inputs.reading))
    numbers = zip(inputs.numbers, part.columns(inputs.numbers).T, strict=True)
    row: dict[str, float | str] = {
        name: float(f"{np.nanmedian(values):.4g}")
        for name, values in numbers
        if not np.isnan(values).all()
    }
    for name in inputs.texts:
        cells = [cell for cell in part.texts[name] if cell and not is_missing(cell)]
        for cell, n in Counter(cells).most_common(1):
            if kinds.get(name) == "date":
                row[name] = cells[len(cells) // 2]
            elif n > 1:
                row[name] = cell
    return row


def _note_targets(outputs: Sequence[Outputs], rows: SurveyedRows) -> None:
    """Print how many rows lack each target, and what was guessed of it."""
    for target, left_out in zip(outputs, rows.left_out, strict=True):
        if left_out:
            of_all = f"{left_out:,} of {rows.n + rows.without:,} rows"
            note(f"{target.name}: {of_all} have no value and are left out")
        for text in target.notes(len(outputs) > 1):
            note(text)


def _note_unused(unused: dict[str, str]) -> None:
    """Print which columns are not used, and why."""
    if unused:
        note("not used: " + listed([f"{name} ({why})" for name, why in unused.items()]))


class SurveyedRows(NamedTuple):
    """The rows of a table that have a target."""

    n: int
    parts: list[Part] | None  # these rows, None if they take more memory than the budget
    without: int  # rows without any target
    left_out: list[int]  # for each target, how many rows of the table lack it


def survey(table: Table, inputs: Inputs, outputs: Sequence[Outputs], budget: float) -> SurveyedRows:
    """Read all rows once: count and keep those with a target, and learn names and scales."""
    kept: list[Part] | None = []
    n, without, size, scaler = 0, 0, 0, StandardScaler()
    left_out = [0 for _ in outputs]
    for rows in progress(table.parts(*columns_to_read(inputs, *outputs)), "reading"):
        observed = [target.observed_rows(rows) for target in outputs]
        left_out = [
            count + len(rows) - len(filled)
            for count, filled in zip(left_out, observed, strict=True)
        ]
        with_target = np.unique(np.concatenate(observed))
        part = rows if len(with_target) == len(rows) else rows.take(with_target.tolist())
        n, without = n + len(part), without + len(rows) - len(part)
        if not len(part):
            continue
        for target, filled in zip(outputs, observed, strict=True):
            if len(filled):
                target.learn(rows if len(filled) == len(rows) else rows.take(filled.tolist()))
        if inputs.learns:
            scaler.partial_fit(part.columns(inputs.numbers))
        size += part.nbytes
        if size > budget:
            kept = None
        elif kept is not None:
            kept.append(part)
    for target, count in zip(outputs, left_out, strict=True):
        if count == n + without:
            raise ValueError(f"{table.path}: no row has a value of {listed(target.columns)}.")
    if inputs.learns:
        inputs.learn(scaler)
    return SurveyedRows(n, kept, without, left_out)


class _TableBlocks:
    """Yields blocks (X, Y) at each call: of parts in memory, or by reading the table again."""

    def __init__(
        self, table: Table, inputs: Inputs, outputs: Outputs, parts: list[Part] | None
    ) -> None:
        self.table, self.inputs, self.outputs, self.parts = table, inputs, outputs, parts

    def __call__(self) -> Iterator[tuple[Any, Any]]:
        parts: Iterable[Part] | None = self.parts
        if parts is None:
            columns = columns_to_read(self.inputs, self.outputs)
            parts = progress(self.table.parts(*columns), "fitting")
        for part in filter(len, map(self.outputs.observed, parts)):
            yield self.inputs.read(self.table, part), self.outputs.read(self.table, part)

    def target(self) -> Target:
        """Return the outputs of the parts in memory, with the positions of their rows."""
        rows, start = [], 0
        for part in self.parts or []:
            rows.append(start + self.outputs.observed_rows(part))
            start += len(part)
        outputs = join([Y for _, Y in self()])
        return Target(self.outputs.kind, outputs, np.concatenate(rows))


def _joined(pairs: _TableBlocks) -> tuple[Any, Any]:
    """Return X and Y of all blocks."""
    blocks, outputs = zip(*pairs(), strict=True)
    return join_inputs(list(blocks)), join(list(outputs))


def join_inputs(blocks: list[Any]) -> Any:
    """Join the inputs of several blocks."""
    if isinstance(blocks[0], dict):
        return {name: join([block[name] for block in blocks]) for name in blocks[0]}
    return join(blocks)


def read_table(table: Table, inputs: Inputs, outputs: Outputs) -> tuple[Any, Any]:
    """Return X and Y of all rows of a table that have a target."""
    return _joined(_TableBlocks(table, inputs, outputs, None))


def _check_streams(settings: Settings, data: Path) -> None:
    if settings.input_sketch == "none":
        raise ValueError(
            f"{data} is larger than --memory {settings.memory:g} (MB), and without a sketch "
            "a model needs all rows in memory. Give one, such as --input-sketch subsample:1000, or "
            "more --memory."
        )


# Models that are chosen by validation -------------------------------------------------------------


def reason_not_to_tune(settings: Settings, n: int, in_memory: bool) -> str | None:
    """Return why no model can be chosen for a table of n rows, None if one can."""
    if not in_memory:
        return (
            f"the table is larger than --memory {settings.memory:g} (MB), and models are compared "
            "on rows in memory"
        )
    if n < _LEAST_ROWS:
        return f"{n} rows are too few to hold some out and compare models on them"
    return None


def validation(model: Tuned) -> dict[str, Any]:
    """Return the score, standard error and baselines of a tuned model, as JSON has them."""
    return {
        "summary": model.summary(),
        "columns": "" if model.encoder_ is None else model.encoder_.summary(),
        "scores": model.summary(brief=True),
        "metric": model.scoring or KINDS[model.kind_].metric,
        "score": _number(model.score_),
        "standard_error": _number(model.score_error_),
        "baselines": {name: _number(score) for name, score in model.baselines_.items()},
        "fits": sum(row["map"] != "constant" and not row["cut"] for row in model.results_),
        "interrupted": model.interrupted_,
        "chosen": [
            {
                name: value if isinstance(value, str | int | float | bool | None) else repr(value)
                for name, value in member.items()
            }
            for member in model.best_settings_
        ],
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def for_people(done: dict[str, Any]) -> dict[str, Any]:
    """Return the lines that `skout fit` prints, with the next commands to run."""
    left_out = {"not_used": listed(done["not_used"]), "rows_left_out": done.get("rows_left_out")}
    shown = {name: left_out.get(name, value) for name, value in done.items()}
    shown = {name: value for name, value in shown.items() if value or name not in left_out}
    tuned = done.get("targets", [done] if done["tuned"] else [])
    if not tuned:
        details = shown.pop("details")
        return shown | {"output": f"{shown['output']}{details}"}
    seconds = shown.pop("seconds")
    for name in ("standardize", "validation", "tuned", "in_memory", "details", "targets"):
        shown.pop(name, None)
    shown.pop("matter_most", None)
    for target in tuned:
        before = f"{listed(target['target'], 3)}: " if len(tuned) > 1 else ""
        shown[f"{before}output"] = f"{target['output']}{target['details']}"
        shown[f"{before}chosen"] = chosen_models(target)
        columns = target["validation"].get("columns", "") if len(tuned) > 1 else ""
        shown[f"{before}validation"] = target["validation"]["summary"].removesuffix(f"; {columns}")
        shown |= {f"{before}matter most": target["matter_most"]} if "matter_most" in target else {}
    if len(tuned) > 1 and tuned[0]["validation"].get("columns"):  # all have the same
        shown["columns"] = tuned[0]["validation"]["columns"]
    model = done["model"]
    after = f"skout predict {model} NEW.csv; skout report {model} TEST.csv; skout serve {model}"
    return {**shown, "seconds": seconds, "next": after}


def chosen_models(record: Mapping[str, Any]) -> list[str]:
    """Return the maps that were chosen by validation, each with its weight."""
    weights: Counter[str] = Counter()
    for member in record["validation"]["chosen"]:
        kernel = f"{member['kernel']} " if member.get("kernel") is not None else ""
        weights[f"{kernel}{member['map']}"] += member["weight"]
    return [f"{name} {weight:.0%}" for name, weight in weights.most_common()]
