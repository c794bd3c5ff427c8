"""`skout fit`: a table, settings, and a model in a file with all that `predict` needs."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from skout import TableEncoder, Tuned, save
from skout.dev import join
from skout.kinds import KINDS
from skout.sources import Blocks

from ..tables.files import Part, Table, listed
from ..tables.numerals import is_missing
from ..tuning import MAPS
from .choosing import choose_columns
from .columns import Inputs, Outputs, first_rows, wanted
from .progress import is_terminal, note, opened, progress
from .settings import Settings, as_record, build_model, check_budget

# Rows of which some can be held out, and inputs that a form may have.
_LEAST_ROWS, _MOST_SHOWN = 10, 100


def fit_file(data: Path, settings: Settings, out: Path) -> dict[str, Any]:
    """Fit a model on a table and save it; return what was done."""
    start = time.perf_counter()
    table = opened(data)
    mixed = settings.tune and settings.missing != "mean"
    inputs, outputs, unused = choose_columns(table, settings, mixed)
    model = build_model(settings, outputs.kind, inputs.is_text)  # says first what is wrong
    n, parts, left_out = survey(table, inputs, outputs, settings.memory * 1e6)
    why = reason_not_to_tune(settings, n, parts is not None) if settings.tune else "--no-tune"
    if settings.tune and why is not None:
        note(f"the model is not tuned: {why}.")
        inputs, outputs, unused = choose_columns(table, settings)
        n, parts, left_out = survey(table, inputs, outputs, settings.memory * 1e6)
    _tell(unused)
    if left_out:
        rows = f"{left_out:,} of {n + left_out:,} rows"
        note(f"{listed(outputs.columns)}: {rows} have no value and are left out")
    if why is not None and parts is None:
        _check_streams(settings, data)
    for text in outputs.notes():
        note(text)
    pairs = _Pairs(table, inputs, outputs, parts)
    if why is None:
        inputs.standardize = False  # scales are chosen with the model
    model = _fitted(model, pairs, settings, n, tune=why is None)
    if why is None and model.encoder_ is not None:
        new = {k: v for k, v in model.encoder_.left_out_.items() if k not in unused}
        _tell(new)
        unused |= new
    elif why is None and inputs.is_table:
        inputs = inputs.as_numbers()
    seconds = round(time.perf_counter() - start, 3)
    tuned = {"validation": validation(model)} if why is None else {}
    record = {
        **tuned,
        "inputs": asdict(inputs),
        "outputs": outputs.saved(),
        "baseline": outputs.baseline(first_rows(Y for _, Y in pairs())),
        "example": typical_row(table, inputs),
        "settings": as_record(settings),
        "rows": n,
        "seconds": seconds,
        **({"columns": model.encoder_.kinds_} if getattr(model, "encoder_", None) else {}),
    }
    save(model, out, metadata={"command_line": record})
    alpha = {} if tuned else {"alpha": float(getattr(model, "regressor_", model).alpha_)}
    return {
        "model": str(out),
        "rows": n,
        "rows_left_out": left_out,
        "inputs": len(inputs.columns),
        "standardize": inputs.standardize,
        "not_used": list(unused),
        "output": outputs.kind.name,
        "classes": n_classes(model, outputs),
        "target": outputs.columns,
        "tuned": bool(tuned),
        **alpha,
        **tuned,
        "in_memory": parts is not None,
        "seconds": seconds,
    }


def _fitted(model: Any, pairs: _Pairs, settings: Settings, n: int, *, tune: bool) -> Any:
    """Return a model that is tuned, or this one, fitted on rows in memory or block by block."""
    if tune:
        for entry in entry_points(group="skout.maps"):  # those of installed packages
            MAPS.setdefault(entry.name, entry.load())
        tuned = Tuned(
            pairs.outputs.kind.name,
            settings.scoring,
            budget=check_budget(settings.budget),
            random_state=settings.seed,
            encoder=TableEncoder(day_first=settings.day_first, strict=settings.strict),
            verbose=is_terminal(),
        )
        return tuned.fit(*_joined(pairs))
    if pairs.parts is not None:
        return model.fit(*_joined(pairs))
    return model.fit(Blocks(pairs, n))


def n_classes(model: Any, outputs: Outputs) -> int:
    """Return how many classes or labels a model knows, 0 where there are none."""
    names = getattr(outputs.kind, "labels", None)
    if outputs.kind.estimator_type == "classifier":
        names = model.classes_
    return 0 if names is None else len(names)


def typical_row(table: Table, inputs: Inputs) -> dict[str, float | str]:
    """Return a row that nobody has: medians of numbers, and the most frequent words that recur."""
    if len(inputs.columns) > _MOST_SHOWN:
        return {}
    part = next(table.parts(inputs.numbers, inputs.texts, inputs.reading))
    numbers = zip(inputs.numbers, part.numbers.T, strict=True)
    row: dict[str, float | str] = {
        name: float(f"{np.nanmedian(values):.4g}")
        for name, values in numbers
        if not np.isnan(values).all()
    }
    for name in inputs.texts:
        cells = Counter(cell for cell in part.texts[name] if not is_missing(cell or ""))
        for cell, n in cells.most_common(1):
            if n > 1:
                row[name] = cell
    return row


def _tell(unused: dict[str, str]) -> None:
    if unused:
        note("not used: " + listed([f"{name} ({why})" for name, why in unused.items()]))


def survey(
    table: Table, inputs: Inputs, outputs: Outputs, budget: float
) -> tuple[int, list[Part] | None, int]:
    """Check and count the rows in one pass, and learn names and scales from them.

    Returned are how many rows have a target, these rows, unless they take more memory than the
    budget, and how many have none.
    """
    kept: list[Part] | None = []
    n, left_out, size, scaler = 0, 0, 0, StandardScaler()
    for rows in progress(table.parts(*wanted(inputs, outputs)), "reading"):
        part = outputs.observed(rows)
        n, left_out = n + len(part), left_out + len(rows) - len(part)
        if not len(part):
            continue
        outputs.learn(part)
        if inputs.learns:
            scaler.partial_fit(part.numbers[:, : len(inputs.numbers)])
        size += part.nbytes
        if size > budget:
            kept = None
        elif kept is not None:
            kept.append(part)
    if n == 0:
        raise ValueError(f"{table.path}: no row has a value of {listed(outputs.columns)}.")
    if inputs.learns:
        inputs.learn(scaler)
    return n, kept, left_out


class _Pairs:
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
            parts = self.parts
        for part in parts:
            yield self.inputs.read(self.table, part), self.outputs.read(self.table, part)


def _joined(pairs: _Pairs) -> tuple[Any, Any]:
    """Return X and Y of all rows."""
    blocks, outputs = zip(*pairs(), strict=True)
    return join_inputs(list(blocks)), join(list(outputs))


def join_inputs(blocks: list[Any]) -> Any:
    """Return the inputs of several blocks as one."""
    if isinstance(blocks[0], dict):
        return {name: join([one[name] for one in blocks]) for name in blocks[0]}
    return join(blocks)


def read_table(table: Table, inputs: Inputs, outputs: Outputs) -> tuple[Any, Any]:
    """Return X and Y of all rows, for columns that are known."""
    return _joined(_Pairs(table, inputs, outputs, None))


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
        "metric": model.scoring or KINDS[model.kind_].metric,
        "score": _number(model.score_),
        "standard_error": _number(model.score_error_),
        "baselines": {name: _number(score) for name, score in model.baselines_.items()},
        "fits": len([row for row in model.results_ if row["map"] != "constant"]),
        "interrupted": model.interrupted_,
        "chosen": [
            {
                name: value if isinstance(value, str | int | float | bool | None) else repr(value)
                for name, value in one.items()
            }
            for one in model.best_settings_
        ],
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def for_people(record: dict[str, Any]) -> dict[str, Any]:
    """Return what `skout fit` did, in few words: without what is as usual."""
    usual = {"rows_left_out": 0, "not_used": [], "tuned": True, "in_memory": True}
    shown = {name: value for name, value in record.items() if usual.get(name, ...) != value}
    if record.get("classes"):
        shown["output"] = f"{record['output']} ({record['classes']:,} different)"
    shown.pop("classes", None)
    if "validation" not in record:
        return shown
    weights: Counter[str] = Counter()
    for member in record["validation"]["chosen"]:
        kernel = f"{member['kernel']} " if member.get("kernel") is not None else ""
        weights[f"{kernel}{member['map']}"] += member["weight"]
    shown.pop("standardize", None)
    shown["chosen"] = [f"{name} {weight:.0%}" for name, weight in weights.most_common()]
    shown["validation"] = record["validation"]["summary"]
    return shown
