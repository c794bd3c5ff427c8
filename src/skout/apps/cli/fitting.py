"""`skout fit`: a table, settings, and a model in a file with all that `predict` needs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sklearn.preprocessing import StandardScaler

from skout import save
from skout.dev import join
from skout.sources import Blocks

from ..tables.files import Part, Table, listed
from .choosing import choose_columns
from .columns import Inputs, Outputs, first_rows
from .progress import note, opened, progress
from .settings import Settings, as_record, build_model
from .tuning import reason_not_to_tune, tuned_model, validation

__all__ = ["fit_file", "join_inputs", "read_table"]


def fit_file(data: Path, settings: Settings, out: Path) -> dict[str, Any]:
    """Fit a model on a table and save it; return what was done."""
    start = time.perf_counter()
    table = opened(data)
    mixed = settings.tune and settings.missing != "mean"
    inputs, outputs, unused = choose_columns(table, settings, mixed)
    model = build_model(settings, outputs.kind, inputs.is_text)  # says first what is wrong
    n, parts = survey(table, inputs, outputs, settings.memory * 1e6)
    why = reason_not_to_tune(settings, n, parts is not None) if settings.tune else "--no-tune"
    if settings.tune and why is not None:
        note(f"the model is not tuned: {why}.")
        inputs, outputs, unused = choose_columns(table, settings)
        n, parts = survey(table, inputs, outputs, settings.memory * 1e6)
    if unused:
        _tell(unused)
    if why is not None and parts is None:
        _check_streams(settings, data)
    for text in outputs.notes():
        note(text)
    pairs = _Pairs(table, inputs, outputs, parts)
    if why is None:
        inputs.standardize = False  # scales are chosen with the model
    model = _fitted(model, pairs, settings, n, tune=why is None)
    if why is None and model.encoder_ is not None:
        unused |= _left_out(model.encoder_.left_out_, unused)
    elif why is None and inputs.is_table:
        inputs = inputs.as_numbers()
    seconds = round(time.perf_counter() - start, 3)
    tuned = {"validation": validation(model)} if why is None else {}
    record = {
        **tuned,
        "inputs": asdict(inputs),
        "outputs": outputs.saved(),
        "baseline": outputs.baseline(first_rows(Y for _, Y in pairs())),
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
        "inputs": len(inputs.columns),
        "standardize": inputs.standardize,
        "not_used": list(unused),
        "output": outputs.kind.name,
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
        return tuned_model(*_joined(pairs), pairs.outputs.kind, settings)
    if pairs.parts is not None:
        return model.fit(*_joined(pairs))
    return model.fit(Blocks(pairs, n))


def _tell(unused: dict[str, str]) -> None:
    note("not used: " + listed([f"{name} ({why})" for name, why in unused.items()]))


def _left_out(found: dict[str, str], known: dict[str, str]) -> dict[str, str]:
    """Say which columns the model leaves out that were not named before."""
    new = {name: why for name, why in found.items() if name not in known}
    if new:
        _tell(new)
    return new


def survey(
    table: Table, inputs: Inputs, outputs: Outputs, budget: float
) -> tuple[int, list[Part] | None]:
    """Check and count the rows in one pass, and learn names and scales from them.

    The rows are returned too, unless they take more memory than the budget.
    """
    kept: list[Part] | None = []
    n, size, scaler = 0, 0, StandardScaler()
    for part in progress(table.parts(*_wanted(inputs, outputs), inputs.reading), "reading"):
        n += len(part)
        outputs.learn(part)
        if inputs.learns:
            scaler.partial_fit(part.numbers[:, : len(inputs.numbers)])
        size += part.nbytes
        if size > budget:
            kept = None
        elif kept is not None:
            kept.append(part)
    if inputs.learns:
        inputs.learn(scaler)
    return n, kept


class _Pairs:
    """Blocks (X, Y) of a table, read again at each call, or of its parts in memory."""

    def __init__(
        self, table: Table, inputs: Inputs, outputs: Outputs, parts: list[Part] | None
    ) -> None:
        self.table, self.inputs, self.outputs, self.parts = table, inputs, outputs, parts

    def __call__(self) -> Iterator[tuple[Any, Any]]:
        parts: Iterable[Part]
        if self.parts is None:
            wanted = _wanted(self.inputs, self.outputs)
            parts = progress(self.table.parts(*wanted, self.inputs.reading), "fitting")
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


def _wanted(inputs: Inputs, outputs: Outputs) -> tuple[list[str], list[str]]:
    """Return the columns to read as numbers, inputs before outputs, and as text."""
    return [*inputs.numbers, *outputs.numbers], [*inputs.texts, *outputs.texts]


def _check_streams(settings: Settings, data: Path) -> None:
    if settings.input_sketch == "none":
        raise ValueError(
            f"{data} is larger than --memory {settings.memory:g} (MB), and without a sketch all "
            "rows are held: give --input-sketch subsample:1000, say, or more memory."
        )
