"""The kind of output that the columns of a target hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

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

from .kinds import AND, SEPARATORS, are_smiles, look_at, names_amounts, names_classes

# The share of cells that must be rankings of the same items.
_MOSTLY = 0.9
_TWO = 2
# Classes of which more may be names, which nobody expects to come again.
_FEW = 30
# The kind of output of each kind of column.
_AS_TARGET = {
    "number": Numbers.name,
    "date": Numbers.name,
    "category": Classes.name,
    "categories": Classes.name,
    "set": LabelSets.name,
    "text": Strings.name,
}


def as_target(name: str) -> str:
    """Return the kind of output for a kind of column, such as "set"; other names are unchanged.

    Examples
    --------
    >>> from skout.apps.tables.targets import as_target
    >>> as_target("set"), as_target("rankings")
    ('label_sets', 'rankings')
    """
    return _AS_TARGET.get(name, name)


def kind_of_numbers(values: np.ndarray, name: str = "") -> tuple[Kind, list[str]]:
    """Return the kind of columns of numbers, (n, n_columns), and the names of others it may be.

    Where `guess_kind` would refuse to choose, they are numbers. Few whole numbers of one column may
    be classes, and its `name` tells more of it than they do.
    """
    gaps = np.isnan(values)
    is_whole, has_some = ~gaps.any(axis=1), ~gaps.all(axis=1)
    values = values[is_whole if 2 * np.sum(is_whole) > np.sum(has_some) else has_some]
    values = values[:, 0] if values.shape[1] == 1 else values
    whole = values.astype(np.int64) if np.all(values == np.rint(values)) else values
    kinds = by_name(kinds_of(whole), whole, name)
    is_clear = len(kinds) == 1 or Classes.name in kinds
    names = list(dict.fromkeys([*(kinds if is_clear else []), Numbers.name, *kinds]))
    return KINDS[names[0]], names[1:]


def by_name(kinds: list[str], values: np.ndarray, name: str) -> list[str]:
    """Return the names of kinds of a column, of which the name says which is the likeliest.

    Two values are classes whatever their name is.
    """
    if not {Classes.name, Numbers.name} <= set(kinds) or len(np.unique(values)) == _TWO:
        return kinds
    likely = Classes if names_classes(name) else Numbers if names_amounts(name) else None
    rest = [kind for kind in kinds if likely is None or kind != likely.name]
    return rest if likely is None else [likely.name, *rest]


def kind_of_texts(cells: np.ndarray) -> tuple[Kind, list[str]]:
    """Return the kind of a column of texts, None where one is missing, and others it may be."""
    filled = [cell for cell in cells if cell is not None]
    kind: Kind
    if _are_rankings(filled):
        kind = KINDS[Rankings.name]
    elif are_smiles(filled):
        kind = KINDS[Smiles.name]
    else:
        look = look_at("y", cells)  # whatever its name is, a target is no id
        if look.kind == "set":
            kind = separated(KINDS[LabelSets.name], look.separator)
        elif look.kind != "text" and KINDS[Classes.name].is_likely(filled):
            kind = KINDS[Classes.name]
        else:
            kind = KINDS[Strings.name]
    # words that recur, and have nothing between them, are classes only
    different = len(set(filled))
    has_signs = any(sign in cell for cell in filled for sign in (*SEPARATORS, AND))
    may_be = {
        LabelSets.name: has_signs,
        Classes.name: different < len(filled),
        Strings.name: different > _FEW or kind.name != Classes.name,
    }
    return kind, [other for other, is_so in may_be.items() if is_so and other != kind.name]


def separated(kind: LabelSets, separator: str) -> LabelSets:
    """Return label sets with what separates them; candidates may have ; and | both."""
    separators = {"": kind.separators, ";": ";|", "|": "|;"}.get(separator, separator)
    return replace(kind, separators=separators)


def _are_rankings(cells: Sequence[str]) -> bool:
    """Whether most cells are such as a>b>c, all of the same items."""
    orders = Counter(map(frozenset, Rankings().split(cells)))
    items, count = orders.most_common(1)[0]
    return len(items) > 1 and count >= _MOSTLY * len(cells)
