"""The registry of kinds of outputs, and the guess of the kind from the outputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._numerics.typing import Objects
from .._numerics.validation import Registry, warn_user
from .labels import LabelSets
from .numbers import Classes, Numbers
from .rankings import Rankings
from .texts import GraphObjects, MassSpectra, Smiles, Strings

#: Kinds of outputs by name; users may add their own.
KINDS: Registry[Any] = Registry(
    label_set=LabelSets.name, ranking=Rankings.name, string=Strings.name
)
for _kind in (LabelSets, Rankings, Classes, Numbers, Strings, Smiles, GraphObjects, MassSpectra):
    KINDS[_kind.name] = _kind()
KINDS.aliases["class"] = Classes.name


def kinds_of(Y: Objects) -> list[str]:
    """Return the names of all kinds that recognize outputs, the likeliest of one column first."""
    names = [name for name, kind in KINDS.items() if kind.recognizes(Y)]
    if Classes.name in names and not KINDS[Classes.name].is_likely(Y):
        names.remove(Classes.name)
        names.insert(1, Classes.name)
    return names


def guess_kind(Y: Objects) -> str:
    """Return the name of the kind of outputs, or raise where it is not clear.

    One column of words or whole numbers may be classes: it is taken for them where they recur, or
    are 0, 1, 2 and so on, and a warning says so.

    Examples
    --------
    >>> from skout.kinds import guess_kind
    >>> guess_kind([[2, 0, 1], [0, 1, 2]]), guess_kind([0.5, 1.5])
    ('rankings', 'numbers')
    """
    names = kinds_of(Y)
    if len(names) > 1 and Classes.name in names:
        warn_user(
            f"Y is taken for {names[0]}. If it is not, say kind={either(map(repr, names[1:]))}."
        )
    elif len(names) != 1:
        what = (
            "kind is None, and Y may be"
            if names
            else "Y must be outputs whose kind can be recognized, or"
        )
        raise ValueError(f"{what} {either(names or KINDS)}: say which.")
    return names[0]


def either(names: Iterable[str]) -> str:
    """Return names as a phrase: "a, b or c"."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
