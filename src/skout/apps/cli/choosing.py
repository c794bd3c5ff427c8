"""The choice of input and output columns of a table: as requested, or by their cells."""

import shlex
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from skout.dev import check_choice
from skout.kinds import KINDS, Kind, LabelSets, Numbers

from ..tables.files import Reading, Table, listed, select
from ..tables.kinds import KINDS as COLUMN_KINDS
from ..tables.kinds import Content, is_row_number, look_at, may_be_id, no_column
from ..tables.numerals import ANY_WORD, MISSING, PLAIN, Writing, is_missing, is_plain
from ..tables.targets import as_target, kind_of_numbers, kind_of_texts, separated
from .columns import Inputs, Outputs, first_rows, known_kind
from .progress import note, progress
from .settings import Settings

# Words of columns that have a label for each column, in lower case.
_YES = {"true", "t", "yes", "y", "1", "x", "checked", "selected"}
_NO = {"false", "f", "no", "n", "0", "unchecked", "not selected"}
# Kinds of a column that are encoded where it is the only one, too.
_ENCODED = ("text", "smiles", "set")
# The share of columns that must be labels.
_MOST_LABELS = 0.75
# Cells of questions that nobody answered; "none" may be an answer.
_UNANSWERED = set(MISSING) - {"none"}


def choose_columns(
    table: Table, settings: Settings, mixed: bool = False
) -> tuple[Inputs, list[Outputs], dict[str, str]]:
    """Return the inputs, the outputs of each target, and why other columns are not used.

    All rows are read. A `mixed` model takes columns of all kinds, with missing cells.
    """
    targets = _targets(table, settings)
    kinds = _kinds(table, settings, targets)
    requested = _requested(table, settings, [name for columns in targets for name in columns])
    requested = [name for name in requested if kinds.get(name) != "drop"]
    target_columns = [
        name for columns in targets for name in columns if not _is_text(kinds, columns)
    ]
    seen = _contents(table, [*target_columns, *requested])
    empty = [name for name in target_columns if seen[name].kind == "empty"]
    outputs: list[Outputs] = []
    bits: dict[str, Writing] = {}
    for columns in targets:
        filled = [name for name in columns if name not in empty] or columns
        target, writings = _outputs(table, filled, settings, seen, kinds)
        outputs.append(target)
        bits |= writings
    if settings.inputs is not None:
        columns = requested
    elif mixed:
        columns = [name for name in requested if name in kinds or not _numbers_rows(table, name)]
    else:
        columns = _by_default(requested, seen, table.path)
    if mixed:
        inputs = _mixed_inputs(table, columns, settings, seen, kinds)
    else:
        inputs = _inputs(columns, settings, seen, kinds)
    inputs.strict = settings.strict
    writings = {name: content.writing for name, content in seen.items()} | bits
    numbers = [*inputs.numbers, *(name for target in outputs for name in target.numbers)]
    inputs.writings = _writings(numbers, writings)
    if not inputs.is_table:  # which leaves them out
        _warn_of_ids(inputs, seen)
    used = set(inputs.columns)
    unused = {
        name: "id" if is_row_number(name) else str(seen[name])
        for name in requested
        if name not in used
    }
    unused |= dict.fromkeys(empty, "no value at all")
    return inputs, outputs, unused


def _numbers_rows(table: Table, name: str) -> bool:
    """Whether a column is called as those that number the rows, and its values do not recur."""
    return is_row_number(name) and look_at(name, _texts(table, name)).kind == "id"


def _targets(table: Table, settings: Settings) -> list[list[str]]:
    """Return the columns of each --target."""
    by_default = ["Y*"] if table.path.suffix.lower() == ".npz" else []
    patterns = list(dict.fromkeys(settings.target or by_default))
    if not patterns:
        words = ("target", "label", "class", "y", "price", "outcome")
        likely = next((n for n in table.names if n.lower() in words), table.names[-1])
        raise ValueError(
            "--target is missing: name the column to predict, such as "
            f"--target {shlex.quote(likely)}. The columns are: {listed(table.names)}."
        )
    targets = [select(pattern, table.names, "--target") for pattern in patterns]
    counts = Counter(name for columns in targets for name in columns)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"--target: the column {twice!r} is in two targets. Name it in one only.")
    return targets


def _kinds(table: Table, settings: Settings, targets: list[list[str]]) -> dict[str, str]:
    """Return the kind of each column that --kind or --output names; of targets, that of output."""
    kinds = dict(settings.kind or {})
    if settings.output is not None:
        if len(targets) > 1:
            raise ValueError(
                f"--output is for one target, and there are {len(targets)}. Give each its kind "
                f"instead: --kind {targets[0][0]}={settings.output}."
            )
        kinds |= dict.fromkeys(targets[0], settings.output)
    are_targets = {name for columns in targets for name in columns}
    for name, kind in kinds.items():
        if name not in table.names:
            raise ValueError(f"--kind: {no_column(name, table.names)}")
        if name in are_targets:
            kinds[name] = known_kind(as_target(kind), f"kind in --kind {name}:").name
        else:
            check_choice(kind, f"--kind {name}", (*COLUMN_KINDS, "drop"))
    return kinds


def _is_text(kinds: dict[str, str], columns: list[str]) -> bool:
    """Whether --kind or --output gives a target a kind that is read from text."""
    kind = kinds.get(columns[0])
    return kind is not None and known_kind(kind).reads_text(len(columns))


def _requested(table: Table, settings: Settings, target: list[str]) -> list[str]:
    """Return the columns of --inputs, or all, without --drop and --target."""
    dropped = set(select(settings.drop, table.names, "--drop") if settings.drop else [])
    if settings.inputs is None:
        return [name for name in table.names if name not in dropped.union(target)]
    columns = select(settings.inputs, table.names, "--inputs")
    both = next((name for name in target if name in set(columns)), None)
    if both is not None:
        raise ValueError(
            f"The column {both!r} is in --inputs and in --target. Leave it out of one."
        )
    return [name for name in columns if name not in dropped]


def _contents(table: Table, names: Sequence[str]) -> dict[str, Content]:
    """Return what columns hold, by the types of the file or by cells: of long files, some rows."""
    if table.types is not None:
        return {name: Content(declared=table.types[name]) for name in names}
    contents = {name: Content(decimal=table.decimal) for name in names}
    for part in progress(table.parts([], names, thinned=True), "reading") if names else ():
        for name, cells in part.texts.items():
            contents[name].add(cells, part.start)
    return contents


def _writings(names: Sequence[str], writings: dict[str, Writing]) -> dict[str, dict[str, Any]]:
    """Return how the numbers of columns are written, where they are not plain, as JSON has it."""
    odd = {name: writings[name] for name in names if writings.get(name, PLAIN) != PLAIN}
    return {name: writing.record() for name, writing in odd.items()}


def _outputs(
    table: Table,
    columns: list[str],
    settings: Settings,
    seen: dict[str, Content],
    kinds: dict[str, str],
) -> tuple[Outputs, dict[str, Writing]]:
    """Return the outputs of a target, and how its dates and its words for yes are written.

    The kind is that of --kind or --output, or else what the cells suggest.
    """
    kind: Any
    others: list[str]
    is_said = columns[0] in kinds
    kind, others = (known_kind(kinds[columns[0]]), []) if is_said else _guess(table, columns, seen)
    if kind.reads_text(len(columns)) and len(columns) > 1:
        raise ValueError(f"--output {kind.name} takes one column. Got {', '.join(columns)}.")
    if settings.separators and hasattr(kind, "separators"):
        kind = replace(kind, separators=settings.separators)
    elif is_said and hasattr(kind, "separators") and len(columns) == 1:
        kind = separated(kind, look_at("", _texts(table, columns[0])).separator)
    dates = [name for name in columns if isinstance(kind, Numbers) and seen[name].kind == "date"]
    if dates:
        note(f"{listed(dates)}: dates are predicted as years with decimals, such as 1993.37")
    true = _true_words(table, columns) if isinstance(kind, LabelSets) and len(columns) > 1 else {}
    writings = {name: Writing(true=words) for name, words in true.items()}
    writings |= {name: Writing(are_dates=True) for name in dates}
    return Outputs(columns, kind, others), writings


def _guess(table: Table, columns: list[str], seen: dict[str, Content]) -> tuple[Kind, list[str]]:
    """Return the kind of output that the cells suggest, and the names of other possible kinds."""
    empty = next((name for name in columns if seen[name].kind == "empty"), None)
    if empty is not None:
        raise ValueError(f"--target: the column {empty!r} is empty. Fill it, or name another.")
    if all(seen[name].kind == "date" for name in columns):
        return KINDS[Numbers.name], []
    odd = next((name for name in columns if seen[name].kind != "number"), None)
    if len(columns) == 1 and seen[columns[0]].is_scale:
        odd = columns[0]
    if odd is None:
        reading = Reading(columns, {name: seen[name].writing for name in columns})
        parts = table.parts(columns, (), reading)
        name = columns[0] if len(columns) == 1 else ""
        return kind_of_numbers(first_rows(part.numbers for part in parts), name)
    if len(columns) == 1:
        return kind_of_texts(_texts(table, odd))
    if len(_true_words(table, columns)) == len(columns):
        return KINDS[LabelSets.name], []
    raise ValueError(
        f"--target: the column {odd!r} is {seen[odd]}, so that {listed(columns)} are neither "
        "numbers, nor ranks, nor a label each. Give each column a --target of its own, or say what "
        "they are by --output."
    )


def _texts(table: Table, name: str) -> np.ndarray:
    """Return the cells of the first rows of a column, None where one is missing."""
    cells = first_rows(part.texts[name] for part in table.parts([], [name]))
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [None if is_missing(cell) else cell.strip() for cell in cells]
    return texts


def _true_words(table: Table, columns: list[str]) -> dict[str, tuple[str, ...]]:
    """Return for each column of labels the words that mean 1; nothing where these are no labels.

    A label has words for yes and no, or one word and blank cells. Where most columns are so, any
    word means 1 in the others, such as a column of other answers. Columns of numbers need no words.
    """
    words, others = {}, []
    for name in columns:
        cells = first_rows(part.texts[name] for part in table.parts([], [name]))
        values = {cell.strip().lower() for cell in cells}.difference(_UNANSWERED)
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
    """Return the columns of numbers, without ids; if there are none, the only column of text."""
    names = [name for name in names if not is_row_number(name)]
    numbers = [name for name in names if seen[name].kind == "number"]
    if numbers:
        return numbers
    texts = [name for name in names if seen[name].kind == "text"]
    if len(texts) == 1:
        return texts
    have = f" It has text: {listed(texts)}." if texts else ""
    raise ValueError(f"{path} has no columns of numbers for inputs. Name inputs by --inputs.{have}")


def _mixed_inputs(
    table: Table,
    columns: list[str],
    settings: Settings,
    seen: dict[str, Content],
    kinds: dict[str, str],
) -> Inputs:
    """Return inputs of columns of all kinds; a single column of short texts is compared as text.

    A single column of sentences or molecules is encoded as beside other columns: words tell more
    of them than n-grams of letters do.
    """
    used = [name for name in columns if seen[name].kind != "empty"]
    is_alone = len(used) == 1 and used[0] not in kinds
    if is_alone and (settings.wants_text or seen[used[0]].kind == "text"):
        look = look_at(used[0], _texts(table, used[0]))
        if settings.wants_text or look.kind not in _ENCODED:
            return _inputs(used, settings, seen, {})
        note(
            f"{used[0]}: taken for {look.kind}. If that is wrong, give --kind {used[0]}=categories."
        )
    if not used:
        raise ValueError("No input column with values is left: check --inputs and --drop.")
    words = [name for name in used if name in kinds or seen[name].kind != "number"]
    given = {name: kinds[name] for name in used if name in kinds}
    missing = settings.missing or "model"
    return Inputs(used, missing=missing, is_table=True, words=words, kinds=given)


def _inputs(
    columns: list[str], settings: Settings, seen: dict[str, Content], kinds: dict[str, str]
) -> Inputs:
    """Return inputs that are all numbers, or one column of text."""
    overruled = next((name for name in columns if name in kinds), None)
    if overruled is not None:
        raise ValueError(
            f"--kind {overruled}=...: kinds of inputs are for models that skout chooses. Leave out "
            "--no-tune and the settings of a model, or this --kind."
        )
    if not columns:
        raise ValueError("No input column is left: check --inputs and --drop.")
    texts = [name for name in columns if seen[name].kind != "number"]
    if len(columns) == 1 and (texts or settings.wants_text):
        if settings.standardize:
            raise ValueError(
                f"--standardize is for numbers, and {columns[0]!r} is text: leave it out."
            )
        return Inputs(columns, is_text=True)
    if texts:
        raise ValueError(
            f"--inputs: the column {texts[0]!r} is {seen[texts[0]]}. A model with settings of its "
            "own takes numbers, or a single column of text: leave this one out with --drop, or let "
            "skout choose the model, which then takes columns of all kinds."
        )
    missing = settings.missing or "error"
    return Inputs(columns, standardize=settings.standardizes, missing=missing)


def _warn_of_ids(inputs: Inputs, seen: dict[str, Content]) -> None:
    for name in inputs.numbers:
        if may_be_id(name) or seen[name].counts_rows:
            warnings.warn(
                f"the input {name!r} looks like an id, which says nothing about new rows. If it is "
                f"one, leave it out: --drop {name!r}.",
                stacklevel=2,
            )
