"""Which columns of a table are inputs and which outputs: what was asked for, or what they hold."""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from skout.kinds import (
    KINDS,
    Classes,
    Kind,
    LabelSets,
    Numbers,
    Rankings,
    Smiles,
    Strings,
    kinds_of,
)

from ..tables.files import Reading, Table, listed, select
from ..tables.kinds import Content, are_smiles, is_row_number, look_at, may_be_id
from ..tables.numerals import ANY_WORD, MISSING, PLAIN, Writing, is_missing, is_plain
from .columns import Inputs, Outputs, first_rows, known_kind
from .progress import note, progress
from .settings import Settings

# Words of columns that have a label for each column, in lower case.
_YES = {"true", "t", "yes", "y", "1", "x", "checked", "selected"}
_NO = {"false", "f", "no", "n", "0", "unchecked", "not selected"}
# The share of cells that must be rankings of the same items, and of columns that must be labels.
_MOSTLY, _MOST_LABELS = 0.9, 0.75
# What stands where nobody answered; "none" may be an answer.
_NOTHING = set(MISSING) - {"none"}


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
    empty = [name for name in target if name in seen and seen[name].kind == "empty"]
    if len(empty) < len(target):
        target = [name for name in target if name not in empty]
    outputs, bits = _outputs(table, target, settings, seen)
    if mixed and settings.inputs is None:
        columns = [name for name in asked if not is_row_number(name)]
    else:
        columns = asked if settings.inputs is not None else _by_default(asked, seen, table.path)
    inputs = _table(columns, settings, seen) if mixed else _inputs(columns, settings, seen)
    inputs.strict = settings.strict
    writings = {name: one.writing for name, one in seen.items()} | bits
    inputs.writings = _writings([*inputs.numbers, *outputs.numbers], writings)
    if not inputs.is_table:  # which leaves them out
        _warn_of_ids(inputs, seen)
    used = set(inputs.columns)
    left = [name for name in asked if name not in used]
    unused = {name: "id" if is_row_number(name) else str(seen[name]) for name in left}
    unused |= dict.fromkeys(empty, "no value at all")
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


def _writings(names: Sequence[str], writings: dict[str, Writing]) -> dict[str, dict[str, Any]]:
    """Return how numbers are written that are not plain."""
    odd = {name: writings[name] for name in names if writings.get(name, PLAIN) != PLAIN}
    return {name: writing.record() for name, writing in odd.items()}


def _outputs(
    table: Table, columns: list[str], settings: Settings, seen: dict[str, Content]
) -> tuple[Outputs, dict[str, Writing]]:
    """Return the columns to predict with the kind of objects they hold, and how bits are written.

    Where nobody says the kind, the cells do.
    """
    kind: Any
    others: list[str]
    if settings.output:
        kind, others = known_kind(settings.output), []
    else:
        kind, others = _guess(table, columns, seen)
    if kind.reads_text(len(columns)) and len(columns) > 1:
        raise ValueError(f"--output {kind.name} takes one column. Got {', '.join(columns)}.")
    if settings.separators and hasattr(kind, "separators"):
        kind = replace(kind, separators=settings.separators)
    elif settings.output and hasattr(kind, "separators") and len(columns) == 1:
        kind = _separated(kind, look_at("", _texts(table, columns[0])).separator)
    dates = [name for name in columns if isinstance(kind, Numbers) and seen[name].kind == "date"]
    if dates:
        note(f"{listed(dates)}: dates are predicted as years with decimals, such as 1993.37")
    true = _true_words(table, columns) if isinstance(kind, LabelSets) and len(columns) > 1 else {}
    writings = {name: Writing(true=words) for name, words in true.items()}
    writings |= {name: Writing(are_dates=True) for name in dates}
    return Outputs(columns, kind, others), writings


def _guess(table: Table, columns: list[str], seen: dict[str, Content]) -> tuple[Kind, list[str]]:
    """Return the kind that columns look like, and the names of others that may be meant."""
    empty = next((name for name in columns if seen[name].kind == "empty"), None)
    if empty is not None:
        raise ValueError(f"--target: the column {empty!r} has no values.")
    if all(seen[name].kind == "date" for name in columns):
        return KINDS[Numbers.name], []
    odd = next((name for name in columns if seen[name].kind != "number"), None)
    if odd is None:
        return _kind_of_numbers(table, columns, seen)
    if len(columns) == 1:
        return _kind_of_texts(_texts(table, odd))
    if len(_true_words(table, columns)) == len(columns):
        return KINDS[LabelSets.name], []
    raise ValueError(
        f"--target: {odd!r} is {seen[odd]}, so that {listed(columns)} are no numbers, no places "
        "and no labels with a column each. Fit a model for each, or say --output."
    )


def _kind_of_numbers(
    table: Table, columns: list[str], seen: dict[str, Content]
) -> tuple[Kind, list[str]]:
    """Return the kind of columns of numbers; where `guess_kind` would ask, they are numbers."""
    reading = Reading(columns, {name: seen[name].writing for name in columns})
    values = first_rows(part.numbers for part in table.parts(columns, (), reading))
    gaps = np.isnan(values)
    is_whole = ~gaps.any(axis=1)
    answered = ~gaps.all(axis=1)
    values = values[is_whole if 2 * np.sum(is_whole) > np.sum(answered) else answered]
    values = values[:, 0] if len(columns) == 1 else values
    whole = values.astype(np.int64) if np.all(values == np.rint(values)) else values
    kinds = kinds_of(whole)
    is_clear = len(kinds) == 1 or Classes.name in kinds
    names = list(dict.fromkeys([*(kinds if is_clear else []), Numbers.name, *kinds]))
    return KINDS[names[0]], names[1:]


def _kind_of_texts(cells: np.ndarray) -> tuple[Kind, list[str]]:
    """Return the kind of a column of texts, and others that it may be."""
    filled = [cell for cell in cells if cell is not None]
    texts = [LabelSets.name, Classes.name, Strings.name]
    kind: Kind
    if _are_rankings(filled):
        kind = KINDS[Rankings.name]
    elif are_smiles(filled):
        kind = KINDS[Smiles.name]
    else:
        look = look_at("", cells)
        if look.kind == "set":
            kind = _separated(KINDS[LabelSets.name], look.separator)
        elif look.kind != "text" and KINDS[Classes.name].is_likely(filled):
            kind = KINDS[Classes.name]
        else:
            kind = KINDS[Strings.name]
    return kind, [other for other in texts if other != kind.name]


def _separated(kind: LabelSets, separator: str) -> LabelSets:
    """Return label sets with what separates them; candidates may have ; and | both."""
    separators = {"": kind.separators, ";": ";|", "|": "|;"}.get(separator, separator)
    return replace(kind, separators=separators)


def _are_rankings(cells: list[str]) -> bool:
    """Whether most cells are such as a>b>c, all of the same items."""
    orders = Counter(map(frozenset, Rankings().split(cells)))
    items, count = orders.most_common(1)[0]
    return len(items) > 1 and count >= _MOSTLY * len(cells)


def _texts(table: Table, name: str) -> np.ndarray:
    """Return the cells of the first rows of a column, None where one is missing."""
    cells = first_rows(part.texts[name] for part in table.parts([], [name]))
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [None if is_missing(cell) else cell.strip() for cell in cells]
    return texts


def _true_words(table: Table, columns: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the words that mean 1 in columns of words for yes and no, or of one word or nothing.

    Where most are so, any word means 1 in the others, such as a column of other answers. Columns
    of numbers need no words.
    """
    words, others = {}, []
    for name in columns:
        cells = first_rows(part.texts[name] for part in table.parts([], [name]))
        values = {cell.strip().lower() for cell in cells}.difference(_NOTHING)
        if values <= _YES | _NO:
            words[name] = tuple(sorted(values & _YES))
        elif len(values) == 1 and not any(map(is_plain, values)):
            words[name] = tuple(values)
        else:
            others.append(name)
    if len(words) < _MOST_LABELS * len(columns):
        return {}
    words |= dict.fromkeys(others, ANY_WORD)
    return {name: true for name, true in words.items() if not set(true) <= {"1"}}


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
