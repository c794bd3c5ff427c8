"""What to predict without a look at the inputs: it is kept with a model, to compare it with."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from skout.dev import join, n_rows, take

from ..tables.files import Part, Table
from .columns import Outputs

__all__ = ["baseline_of", "baseline_output"]

# Training rows that are looked at.
_MOST_ROWS = 100_000
_NAMES = {
    "numbers": "the mean",
    "rankings": "the consensus ranking",
    "label_sets": "the most frequent set",
    "classes": "the most frequent class",
}


def baseline_of(blocks: Iterable[Any], outputs: Outputs) -> dict[str, Any]:
    """Return the best constant prediction by the first 100,000 training outputs.

    It is a dict as JSON has it: its "name", and the "cells" of one row.
    """
    kept, n = [], 0
    for Y in blocks:
        kept.append(Y)
        n += n_rows(Y)
        if n >= _MOST_ROWS:
            break
    constant = _constant(join(kept), outputs)
    name = _NAMES.get(outputs.kind, "the most frequent output")
    return {"name": name, "cells": {key: one[0] for key, one in outputs.cells(constant).items()}}


def _constant(Y: Any, outputs: Outputs) -> Any:
    """Return the mean, the ranking by mean ranks, or the most frequent output."""
    if outputs.kind == "numbers":
        return np.mean(Y, axis=0, keepdims=True)
    if outputs.kind == "rankings":
        order = np.argsort(np.mean(Y, axis=0), kind="stable")
        return np.argsort(order, kind="stable")[None].astype(float)
    words = outputs.words(Y)
    most = Counter(words).most_common(1)[0][0]  # of equals the first
    return take(Y, [words.index(most)])


def baseline_output(record: Any, outputs: Outputs, table: Table) -> tuple[str, Any] | None:
    """Return the name of a baseline and its output, one row of it; None where a file has none.

    `record` is what `baseline_of` returned; errors name the `table`.
    """
    if not isinstance(record, dict):
        return None
    try:
        cells = record["cells"]
        numbers = [[float(cells[name]) for name in outputs.numbers]]
        texts = {name: [str(cells[name])] for name in outputs.texts}
        part = Part(1, np.array(numbers).reshape(1, len(outputs.numbers)), texts)
        return str(record["name"]), outputs.read(table, part)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"The baseline in the model's file cannot be read: {error}.") from error
