"""`skout fit`: a table, settings, and a model in a file with all that `predict` needs."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from .. import save
from ..rows import Blocks
from ..rows.stream import join
from .columns import OUTPUTS, Inputs, LabelSets, Outputs, Spread, Texts
from .settings import Settings, as_record, build_model
from .tables import Part, Table, open_table, select

__all__ = ["fit_file"]


def fit_file(data: Path, settings: Settings, out: Path) -> dict[str, Any]:
    """Fit a model on a table and save it; return what was done.

    Parameters
    ----------
    data : path
    settings : Settings
    out : path
    """
    start = time.perf_counter()
    table = open_table(data)
    outputs = choose_outputs(table, settings)
    inputs = choose_inputs(table, settings, outputs)
    model = build_model(settings, outputs.kind, inputs.is_text)
    n, parts = survey(table, inputs, outputs, settings.memory * 1e6)
    pairs = _Pairs(table, inputs, outputs, parts)
    if isinstance(parts, list):
        X, Y = (join(list(column)) for column in zip(*pairs(), strict=True))
        model.fit(X, Y)
    else:
        _check_streams(settings, data)
        model.fit(Blocks(pairs, n))
    seconds = time.perf_counter() - start
    record = {
        "inputs": asdict(inputs),
        "outputs": outputs.saved(),
        "settings": as_record(settings),
        "rows": n,
        "seconds": round(seconds, 3),
    }
    save(model, out, metadata={"command_line": record})
    return {
        "model": str(out),
        "rows": n,
        "inputs": len(inputs.columns),
        "output": outputs.kind,
        "target": outputs.columns,
        "alpha": float(getattr(model, "regressor_", model).alpha_),
        "in_memory": isinstance(parts, list),
        "seconds": round(seconds, 3),
    }


def choose_outputs(table: Table, settings: Settings) -> Outputs:
    """Return the columns to predict, and what kind of objects they hold."""
    target = settings.target or ("Y*" if table.path.suffix.lower() == ".npz" else None)
    if target is None:
        raise ValueError("--target is missing: name the column to predict, or a pattern of some.")
    columns = select(target, table.names, "--target")
    kind = settings.output
    if kind is None:
        if not set(columns) <= table.numeric:
            raise ValueError(
                f"--output is missing: {columns[0]!r} is text, so say what it holds: label-set, "
                "ranking, string or smiles."
            )
        kind = "numbers"
    if kind in ("string", "smiles"):
        if len(columns) > 1:
            raise ValueError(f"--output {kind} takes one column. Got {', '.join(columns)}.")
        return Texts(columns, kind)
    if kind == "label-set":
        return LabelSets(columns, separators=settings.separators)
    return OUTPUTS[kind](columns)  # type: ignore[call-arg]


def choose_inputs(table: Table, settings: Settings, outputs: Outputs) -> Inputs:
    """Return the input columns: those that are named, or all numbers that are not to predict."""
    dropped = select(settings.drop, table.names, "--drop") if settings.drop else []
    others = [name for name in table.names if name not in (*dropped, *outputs.columns)]
    if settings.inputs is not None:
        columns = select(settings.inputs, table.names, "--inputs")
        both = [name for name in columns if name in outputs.columns]
        if both:
            raise ValueError(f"{both[0]!r} is in --inputs and in --target: it can be one of them.")
        columns = [name for name in columns if name not in dropped]
    else:
        columns = [name for name in others if name in table.numeric]
    texts = [name for name in columns if name not in table.numeric]
    if len(columns) == 1 and (texts or settings.wants_text):
        if settings.standardize:
            raise ValueError(f"--standardize is for numbers, and {columns[0]!r} is text.")
        return Inputs(columns, is_text=True)
    if texts:
        raise ValueError(
            f"--inputs: {texts[0]!r} is text. Text can be the only input column; leave it out of "
            "several with --drop."
        )
    if not columns:
        raise ValueError(f"{table.path} has no columns of numbers for inputs: give --inputs.")
    return Inputs(columns, standardize=settings.standardize)


def survey(
    table: Table, inputs: Inputs, outputs: Outputs, budget: float
) -> tuple[int, list[Part] | None]:
    """Check and count the rows in one pass, and learn names and scales from them.

    Returns
    -------
    n : int
    parts : list of Part, optional
        All rows, if they take no more memory than the budget.
    """
    kept: list[Part] | None = []
    n, size, spread = 0, 0, Spread()
    for part in progress(table.parts(*_wanted(inputs, outputs)), "reading"):
        n += len(part)
        outputs.learn(part)
        if inputs.standardize:
            spread.add(part.numbers[:, : len(inputs.columns)])
        size += part.nbytes
        if size > budget:
            kept = None
        elif kept is not None:
            kept.append(part)
    if inputs.standardize:
        inputs.learn(spread)
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
            parts = progress(self.table.parts(*_wanted(self.inputs, self.outputs)), "fitting")
        else:
            parts = self.parts
        for part in parts:
            yield self.inputs.read(self.table, part), self.outputs.read(self.table, part)


def _wanted(inputs: Inputs, outputs: Outputs) -> tuple[list[str], list[str]]:
    """Return the columns to read as numbers, inputs before outputs, and as text."""
    return [*inputs.numbers, *outputs.numbers], [*inputs.texts, *outputs.texts]


def _check_streams(settings: Settings, data: Path) -> None:
    if settings.input_sketch == "none":
        raise ValueError(
            f"{data} is larger than --memory {settings.memory:g} (MB), and without a sketch all "
            "rows are held: give --input-sketch subsample:1000, say, or more memory."
        )


def progress(parts: Iterator[Part], label: str) -> Iterator[Part]:
    """Pass parts on; show how many rows there were, on a terminal."""
    make: Callable[..., Any] = tqdm
    with make(desc=label, unit=" rows", unit_scale=True, disable=None, leave=False) as bar:
        for part in parts:
            yield part
            bar.update(len(part))
