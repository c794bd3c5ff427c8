"""`skout fit`: a table, settings, and a model in a file with all that `predict` needs."""

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
from .columns import Inputs, Outputs, first_rows, wanted
from .importance import importances
from .progress import is_terminal, note, opened, progress
from .settings import Settings, as_record, build_model, check_budget
from .using import Saved

# Rows of which some can be held out, and inputs that a form may have.
_LEAST_ROWS, _MOST_SHOWN = 10, 100
# Rows whose columns are shuffled to tell which matter most, how many are named, and the seconds
# that there are for it: each shuffled column costs a prediction of these rows.
_SHUFFLED, _MOST_COLUMNS, _REPEATS, _SECONDS = 300, 3, 2, 2.0


class _FitPlan(NamedTuple):
    """What is to be fitted: on which rows, from which columns, and how."""

    inputs: Inputs
    outputs: list[Outputs]
    unused: dict[str, str]  # columns, and why
    rows: SurveyedRows
    model: Any  # one to fit as it is
    why: str | None  # no model is chosen by validation; None if one is


def fit_file(data: Path, settings: Settings, out: Path) -> dict[str, Any]:
    """Fit a model on a table and save it; return what was done."""
    start = time.perf_counter()
    table = opened(data)
    plan = _planned(table, settings)
    inputs, outputs, unused, rows, why = (*plan[:4], plan.why)
    _told(unused)
    for target, left_out in zip(outputs, rows.left_out, strict=True):
        if left_out:
            of_all = f"{left_out:,} of {rows.n + rows.without:,} rows"
            note(f"{target.name}: {of_all} have no value and are left out")
    for text in (text for target in outputs for text in target.notes(len(outputs) > 1)):
        note(text)
    pairs = [_Rereadable(table, inputs, target, rows.parts) for target in outputs]
    fitted = _fitted(plan.model, pairs, settings, rows.n, start if why is None else None)
    models = list(fitted.models_.values()) if isinstance(fitted, TunedTargets) else [fitted]
    if why is None and models[0].encoder_ is not None:
        reasons = models[0].encoder_.left_out_
        unused |= _told({k: v for k, v in reasons.items() if k not in unused})
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
    """Choose columns, read the rows once, and decide whether a model can be chosen."""
    mixed, memory = settings.tune and settings.missing != "mean", settings.memory * 1e6
    inputs, outputs, unused = choose_columns(table, settings, mixed)
    several = len(outputs) > 1
    if several and not mixed:
        raise ValueError(
            f"There are {len(outputs)} targets, of which each needs a model that skout chooses: "
            "leave out --no-tune, --missing mean and settings of a model, or fit one after another."
        )
    model = build_model(settings, outputs[0].kind, inputs.is_text)  # says first what is wrong
    rows = survey(table, inputs, outputs, memory)
    why = reason_not_to_tune(settings, rows.n, rows.parts is not None)
    if why is not None and several:
        raise ValueError(f"{table.path}: no models of several targets can be chosen: {why}.")
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
    model: Any, pair: _Rereadable, left_out: int, record: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what was done for a target, as JSON has it."""
    outputs, is_tuned = pair.outputs, "validation" in record
    classes = getattr(model, "classes_", None)
    count = "" if classes is None else f" ({len(classes)} classes)"
    columns = _that_matter(model, pair) if is_tuned else []
    return {
        "target": outputs.columns,
        "output": outputs.kind.name,
        "details": outputs.details() or count,
        "rows_left_out": left_out,
        **({"validation": record["validation"]} if is_tuned else {}),
        **({"matter_most": columns} if columns else {}),
    }


def _fitted(
    model: Any, pairs: list[_Rereadable], settings: Settings, n: int, started: float | None
) -> Any:
    """Return a model that is tuned, or this one, fitted on rows in memory or block by block.

    What is tuned has a budget that `started` before the table was read.
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


def _that_matter(model: Any, pair: _Rereadable) -> list[str]:
    """Return the columns without which the model would lose most, by shuffling each; none if the
    time was too short for all."""
    X, Y = (take(rows, slice(_SHUFFLED)) for rows in _joined(pair))
    saved = Saved(model, pair.inputs, pair.outputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which `fit` gave already
        importance = importances(saved, X, Y, saved.predict(X, None), None, _SECONDS, _REPEATS)
    if len(importance.losses) < importance.columns:  # others may matter more
        return []
    losses = importance.losses[:_MOST_COLUMNS]
    return [shuffled.column for shuffled in losses if shuffled.loss > 0.0]


def typical_row(table: Table, inputs: Inputs, kinds: Mapping[str, str]) -> dict[str, float | str]:
    """Return a row that nobody has: medians of numbers, the most frequent words that recur, and of
    dates the one in the middle of the table."""
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


def _told(unused: dict[str, str]) -> dict[str, str]:
    """Say which columns are not used, and why; return them."""
    if unused:
        note("not used: " + listed([f"{name} ({why})" for name, why in unused.items()]))
    return unused


class SurveyedRows(NamedTuple):
    """The rows of a table that have a target."""

    n: int
    parts: list[Part] | None  # these rows, None if they take more memory than the budget
    without: int  # rows without any target
    left_out: list[int]  # of each target, how many rows of the table do not have it


def survey(table: Table, inputs: Inputs, outputs: Sequence[Outputs], budget: float) -> SurveyedRows:
    """Check and count the rows in one pass, and learn names and scales from them."""
    kept: list[Part] | None = []
    n, without, size, scaler = 0, 0, 0, StandardScaler()
    left_out = [0 for _ in outputs]
    for rows in progress(table.parts(*wanted(inputs, *outputs)), "reading"):
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


class _Rereadable:
    """Blocks (X, Y) of a table, read again at each call, or of its parts in memory."""

    def __init__(
        self, table: Table, inputs: Inputs, outputs: Outputs, parts: list[Part] | None
    ) -> None:
        self.table, self.inputs, self.outputs, self.parts = table, inputs, outputs, parts

    def __call__(self) -> Iterator[tuple[Any, Any]]:
        parts: Iterable[Part]
        if self.parts is None:
            rows = progress(self.table.parts(*wanted(self.inputs, self.outputs)), "fitting")
            parts = filter(len, map(self.outputs.observed, rows))
        else:
            parts = filter(len, map(self.outputs.observed, self.parts))
        for part in parts:
            yield self.inputs.read(self.table, part), self.outputs.read(self.table, part)

    def target(self) -> Target:
        """Return the outputs of the parts in memory, and the rows that have one."""
        rows, start = [], 0
        for part in self.parts or []:
            rows.append(start + self.outputs.observed_rows(part))
            start += len(part)
        outputs = join([Y for _, Y in self()])
        return Target(self.outputs.kind, outputs, np.concatenate(rows))


def _joined(pairs: _Rereadable) -> tuple[Any, Any]:
    """Return X and Y of all rows."""
    blocks, outputs = zip(*pairs(), strict=True)
    return join_inputs(list(blocks)), join(list(outputs))


def join_inputs(blocks: list[Any]) -> Any:
    """Return the inputs of several blocks as one."""
    if isinstance(blocks[0], dict):
        return {name: join([block[name] for block in blocks]) for name in blocks[0]}
    return join(blocks)


def read_table(table: Table, inputs: Inputs, outputs: Outputs) -> tuple[Any, Any]:
    """Return X and Y of all rows, for columns that are known."""
    return _joined(_Rereadable(table, inputs, outputs, None))


def _check_streams(settings: Settings, data: Path) -> None:
    if settings.input_sketch == "none":
        raise ValueError(
            f"{data} is larger than --memory {settings.memory:g} (MB), and without a sketch all "
            "rows are held: give --input-sketch subsample:1000, say, or more memory."
        )


# A model that is chosen by validation, and what is said of it -------------------------------------


def reason_not_to_tune(settings: Settings, n: int, in_memory: bool) -> str | None:
    """Return why no model can be chosen for a table of n rows, None if one can."""
    if not in_memory:
        return (
            f"the table is larger than --memory {settings.memory:g} (MB), and rows are held to "
            "compare models"
        )
    if n < _LEAST_ROWS:
        return f"of {n} rows none can be held out to compare models"
    return None


def validation(model: Tuned) -> dict[str, Any]:
    """Return the score of a tuned model, its standard error, and baselines, as JSON has them."""
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
    """Return what `skout fit` did, in few words, and what to do next."""
    hidden = (
        "standardize",
        "validation",
        "tuned",
        "in_memory",
        "details",
        "targets",
        "matter_most",
    )
    tuned = done.get("targets", [done] if "validation" in done else [])
    shown = {name: done[name] for name in done if not tuned or name not in hidden}
    for name in ("not_used", "rows_left_out"):
        if not shown.get(name):
            shown.pop(name, None)
    if "not_used" in shown:
        shown["not_used"] = listed(shown["not_used"])  # one may have no name
    if not tuned:
        details = shown.pop("details", "")
        return shown | ({"output": f"{shown['output']}{details}"} if details else {})
    for target in tuned:
        before = f"{listed(target['target'], 3)}: " if len(tuned) > 1 else ""
        shown[f"{before}output"] = f"{target['output']}{target.get('details', '')}"
        shown[f"{before}chosen"] = chosen_models(target)
        columns = target["validation"].get("columns", "") if len(tuned) > 1 else ""
        shown[f"{before}validation"] = target["validation"]["summary"].removesuffix(f"; {columns}")
        shown |= {f"{before}matter most": target["matter_most"]} if "matter_most" in target else {}
    if len(tuned) > 1 and tuned[0]["validation"].get("columns"):  # all have the same
        shown["columns"] = tuned[0]["validation"]["columns"]
    seconds = shown.pop("seconds", None)
    model = shown.get("model", "MODEL")
    after = f"skout predict {model} NEW.csv; skout report {model} TEST.csv; skout serve {model}"
    return {**shown, **({} if seconds is None else {"seconds": seconds}), "next": after}


def chosen_models(record: Mapping[str, Any]) -> list[str]:
    """Return the maps that `validation` recorded as chosen, with their weights."""
    weights: Counter[str] = Counter()
    for member in record["validation"]["chosen"]:
        kernel = f"{member['kernel']} " if member.get("kernel") is not None else ""
        weights[f"{kernel}{member['map']}"] += member["weight"]
    return [f"{name} {weight:.0%}" for name, weight in weights.most_common()]
