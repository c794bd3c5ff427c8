"""What to predict without a look at the inputs: it is kept with a model, to compare it with."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from skout.dev import join, n_rows

from ..tables.files import Part
from .columns import Outputs

__all__ = ["baseline_of", "baseline_output", "first_rows"]

# Training rows that are looked at.
_MOST_ROWS = 100_000


def first_rows(blocks: Iterable[Any]) -> Any:
    """Return the outputs of the first blocks, of about 100,000 rows, as one."""
    kept, n = [], 0
    for Y in blocks:
        kept.append(Y)
        n += n_rows(Y)
        if n >= _MOST_ROWS:
            break
    return join(kept)


def baseline_of(Y: Any, outputs: Outputs) -> dict[str, Any]:
    """Return the best constant prediction of training outputs.

    It is a dict as JSON has it: its "name", and the "cells" of one row.
    """
    cells = outputs.cells(outputs.kind.baseline(Y))
    return {
        "name": outputs.kind.baseline_name,
        "cells": {name: column[0] for name, column in cells.items()},
    }


def baseline_output(record: Any, outputs: Outputs) -> tuple[str, Any] | None:
    """Return the name of a baseline and its output, one row of it; None where a file has none.

    `record` is what `baseline_of` returned.
    """
    if not isinstance(record, dict):
        return None
    try:
        cells = record["cells"]
        numbers = [[float(cells[name]) for name in outputs.numbers]]
        texts = {name: [str(cells[name])] for name in outputs.texts}
        part = Part(1, np.array(numbers).reshape(1, len(outputs.numbers)), texts)
        return str(record["name"]), outputs.kind.read(outputs.cells_of(part))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"The baseline in the model's file cannot be read: {error}.") from error
