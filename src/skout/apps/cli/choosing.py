"""Which columns of a table are inputs and which outputs: what was asked for, or what they hold."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from skout.kinds import KINDS, Numbers, either, kinds_of

from ..tables.files import Reading, Table, listed, select
from ..tables.kinds import Content, is_row_number, may_be_id
from ..tables.numerals import PLAIN
from .columns import Inputs, Outputs, first_rows, known_kind
from .progress import progress
from .settings import Settings

__all__ = ["choose_columns"]


def choose_columns(
    table: Table, settings: Settings, mixed: bool = False
) -> tuple[Inputs, Outputs, dict[str, str]]:
    """Return inputs, outputs, and the columns that are not used though nobody said so, with why.

    All rows are looked at. A `mixed` model takes columns of all kinds, and gaps in them.
    """
    target = _target(table, settings)
    asked = _asked(table, settings, target)
    output = settings.output
    are_texts = output is not None and known_kind(output).reads_text(len(target))
    seen = _look(table, asked if are_texts else [*target, *asked])
    outputs = _outputs(table, target, settings, seen)
    if mixed and settings.inputs is None:
        columns = [name for name in asked if not is_row_number(name)]
    else:
        columns = asked if settings.inputs is not None else _by_default(asked, seen, table.path)
    inputs = _table(columns, settings, seen) if mixed else _inputs(columns, settings, seen)
    inputs.strict = settings.strict
    inputs.writings = _writings([*inputs.numbers, *outputs.numbers], seen)
    if not inputs.is_table:  # which leaves them out
        _warn_of_ids(inputs, seen)
    used = set(inputs.columns)
    left = [name for name in asked if name not in used]
    unused = {name: "id" if is_row_number(name) else str(seen[name]) for name in left}
    return inputs, outputs, unused


def _target(table: Table, settings: Settings) -> list[str]:
    target = settings.target or ("Y*" if table.path.suffix.lower() == ".npz" else None)
    if target is None:
        raise ValueError("--target is missing: name the column to predict, or a pattern of some.")
    return select(target, table.names, "--target")


def _asked(table: Table, settings: Settings, target: list[str]) -> list[str]:
    """Return the columns of --inputs, or all, without --drop and --target."""
    dropped = set(select(settings.drop, table.names, "--drop") if settings.drop else [])
    if settings.inputs is None:
        return [name for name in table.names if name not in dropped.union(target)]
    columns = select(settings.inputs, table.names, "--inputs")
    both = next((name for name in target if name in set(columns)), None)
    if both is not None:
        raise ValueError(f"{both!r} is in --inputs and in --target: it can be one of them.")
    return [name for name in columns if name not in dropped]


def _look(table: Table, names: Sequence[str]) -> dict[str, Content]:
    """Return what columns hold: what the file says, or else all its cells."""
    if table.types is not None:
        return {name: Content(declared=table.types[name]) for name in names}
    found = {name: Content(decimal=table.decimal) for name in names}
    for part in progress(table.parts([], names), "looking") if names else ():
        for name, cells in part.texts.items():
            found[name].add(cells, part.start)
    return found


def _writings(names: Sequence[str], seen: dict[str, Content]) -> dict[str, dict[str, Any]]:
    """Return how numbers are written that are not plain."""
    found = {name: seen[name].writing for name in names if name in seen}
    return {name: asdict(one) for name, one in found.items() if one != PLAIN}


def _outputs(
    table: Table, columns: list[str], settings: Settings, seen: dict[str, Content]
) -> Outputs:
    """Return the columns to predict, and what kind of objects they hold."""
    names = [settings.output] if settings.output else _guesses(table, columns, seen)
    kind: Any = known_kind(names[0])
    if kind.reads_text(len(columns)) and len(columns) > 1:
        raise ValueError(f"--output {kind.name} takes one column. Got {', '.join(columns)}.")
    if hasattr(kind, "separators"):
        kind = replace(kind, separators=settings.separators)
    return Outputs(columns, kind, names[1:])


def _guesses(table: Table, columns: list[str], seen: dict[str, Content]) -> list[str]:
    """Return the kind that columns of numbers are of, and those that they may be of instead.

    Where `skout.kinds.guess_kind` would ask, they are numbers.
    """
    empty = next((name for name in columns if seen[name].kind == "empty"), None)
    if empty is not None:
        raise ValueError(f"--target: the column {empty!r} has no values.")
    text = next((name for name in columns if seen[name].kind != "number"), None)
    if text is not None:
        choices = either(name for name, kind in KINDS.items() if kind.reads_text(1))
        raise ValueError(f"--output is missing: {text!r} is text, so say what it holds: {choices}.")
    reading = Reading(writings={name: seen[name].writing for name in columns})
    values = first_rows(part.numbers for part in table.parts(columns, (), reading))
    values = values[:, 0] if len(columns) == 1 else values
    whole = values.astype(np.int64) if np.all(values == np.rint(values)) else values
    kinds = kinds_of(whole)
    return list(dict.fromkeys([*(kinds if len(kinds) == 1 else []), Numbers.name, *kinds]))


def _by_default(names: list[str], seen: dict[str, Content], path: Path) -> list[str]:
    """Return the columns of numbers; if there are none, the one of text. An id is neither."""
    names = [name for name in names if not is_row_number(name)]
    numbers = [name for name in names if seen[name].kind == "number"]
    if numbers:
        return numbers
    texts = [name for name in names if seen[name].kind == "text"]
    if len(texts) == 1:
        return texts
    have = f" It has text: {listed(texts)}." if texts else ""
    raise ValueError(f"{path} has no columns of numbers for inputs: give --inputs.{have}")


def _table(columns: list[str], settings: Settings, seen: dict[str, Content]) -> Inputs:
    """Return inputs of all kinds; of one column of text only, these texts."""
    used = [name for name in columns if seen[name].kind != "empty"]
    if len(used) == 1 and (settings.wants_text or seen[used[0]].kind == "text"):
        return _inputs(used, settings, seen)
    if not used:
        raise ValueError("--inputs: no column is left that has values, after --drop.")
    words = [name for name in used if seen[name].kind != "number"]
    return Inputs(used, missing=settings.missing or "model", is_table=True, words=words)


def _inputs(columns: list[str], settings: Settings, seen: dict[str, Content]) -> Inputs:
    """Return the inputs, all of numbers or one of text."""
    if not columns:
        raise ValueError("--inputs: no column is left after --drop.")
    texts = [name for name in columns if seen[name].kind != "number"]
    if len(columns) == 1 and (texts or settings.wants_text):
        if settings.standardize:
            raise ValueError(f"--standardize is for numbers, and {columns[0]!r} is text.")
        return Inputs(columns, is_text=True)
    if texts:
        raise ValueError(
            f"--inputs: {texts[0]!r} is {seen[texts[0]]}. Text can be the only input column of a "
            "model with settings of its own: leave it out of several with --drop, or let skout "
            "choose the model, which then takes columns of all kinds."
        )
    missing = settings.missing or "error"
    return Inputs(columns, standardize=settings.standardizes, missing=missing)


def _warn_of_ids(inputs: Inputs, seen: dict[str, Content]) -> None:
    for name in inputs.numbers:
        if may_be_id(name) or seen[name].counts_rows:
            warnings.warn(
                f"the input {name!r} looks like an id, of which nothing can be learned for new "
                f"rows. If it is one, leave it out: --drop {name!r}.",
                stacklevel=2,
            )
