"""Outputs as users pass them: lists of labels, texts of labels, a column of X."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skout.dev import is_gap
from skout.kinds import KINDS, Classes, LabelSets, Numbers, guess_kind, kinds_of

from ..tables.frames import is_frame, names_in
from ..tables.kinds import look_at, names_classes

Outputs = Any  # of any kind, in any container


@dataclass(frozen=True)
class LabelNames:
    """The names of labels, for outputs that are lists of names, or texts with separators."""

    labels: Sequence[str]
    separator: str = ""  # of texts; "" for lists

    def sets(self, Y: Outputs) -> list[list[str]]:
        """Return the names of the labels of each output."""
        if self.separator:
            cells = ["" if is_gap(cell) else str(cell) for cell in Y]
            return LabelSets(separators=self.separator).split(cells)
        return [[str(label) for label in labels] for labels in Y]

    def read(self, Y: Outputs) -> sparse.csr_matrix:
        """Return label sets as rows of 0 and 1; new labels get columns after the others."""
        return LabelSets(self.labels).rows_of(self.sets(Y))

    def write(self, rows: Any) -> np.ndarray:
        """Return label sets in the form of the training outputs: an array of lists, or of texts."""
        words = LabelSets(labels=self.labels).words(rows)
        outputs = np.empty(len(words), dtype=object)
        between = ", " if self.separator == "," else self.separator
        outputs[:] = [between.join(labels) for labels in words] if self.separator else words
        return outputs.astype(str) if self.separator else outputs


def _named(cells: Sequence[Any], separator: str = "") -> tuple[str, LabelNames]:
    """Return the kind "label_sets" and the names of all labels, sorted."""
    sets = LabelNames((), separator).sets(cells)
    labels = sorted({label for labels in sets for label in labels})
    return LabelSets.name, LabelNames(labels, separator)


def read_kind(Y: Outputs, kind: str | None) -> tuple[str, LabelNames | None]:
    """Return the kind of outputs, guessed where it is None, and the names of labels or None.

    Texts such as "a;b" are label sets by the rule that also reads columns of tables.
    """
    if kind is not None and KINDS.spelled(str(kind)) != LabelSets.name:
        return kind, None
    values = Y.to_list() if hasattr(Y, "to_list") and not is_frame(Y) else Y
    if isinstance(values, list | tuple) or getattr(values, "ndim", 0) == 1:
        cells = [cell for cell in values if not is_gap(cell)]
        if cells and all(isinstance(cell, list | tuple | set | frozenset) for cell in cells):
            if any(isinstance(label, str) for labels in cells for label in labels):
                return _named(cells)
        elif cells and all(isinstance(cell, str) for cell in cells):
            separator = look_at("Y", np.array(cells, dtype=object)).separator
            if separator or kind is not None:
                return _named(cells, separator or ";")
    if kind is None and isinstance(name := getattr(Y, "name", None), str) and names_classes(name):
        kinds = kinds_of(Y)
        kind = Classes.name if Classes.name in kinds and Numbers.name in kinds else None
    return guess_kind(Y) if kind is None else kind, None


def without_target(X: Any, Y: Outputs) -> Any:
    """Return X without the column that equals Y, as in `fit(frame, frame["price"])`; warn of it."""
    name = getattr(Y, "name", None)
    if not isinstance(name, str) or not is_frame(X) or name not in names_in(X):
        return X
    column = X[name]
    if not hasattr(column, "to_list") or len(column) != len(Y):
        return X
    pairs = zip(column.to_list(), Y.to_list(), strict=True)
    if not all(a is b or a == b or (is_gap(a) and is_gap(b)) for a, b in pairs):
        return X
    message = f"X has the target {name!r} among its columns: it is left out of the inputs."
    warnings.warn(message, UserWarning, stacklevel=4)
    return X[[other for other in names_in(X) if other != name]]
