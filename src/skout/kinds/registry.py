"""All kinds of outputs by name, and which of them some outputs are."""

from __future__ import annotations

from collections.abc import Iterable

from .._numerics.objects import Objects
from .._numerics.validation import Registry
from .labels import LabelSets
from .numbers import Classes, Numbers
from .rankings import Rankings
from .texts import Graphs, MassSpectra, Smiles, Strings

__all__ = ["KINDS", "either", "guess_kind", "kinds_of"]

#: Kinds of outputs by name; yours, too, once they are in here.
KINDS: Registry = Registry(label_set=LabelSets.name, ranking=Rankings.name, string=Strings.name)
for _kind in (LabelSets, Rankings, Classes, Numbers, Strings, Smiles, Graphs, MassSpectra):
    KINDS[_kind.name] = _kind()
KINDS.aliases["class"] = Classes.name


def kinds_of(Y: Objects) -> list[str]:
    """Return the names of all kinds that outputs may be of."""
    return [name for name, kind in KINDS.items() if kind.recognizes(Y)]


def guess_kind(Y: Objects) -> str:
    """Return the name of the kind of outputs, or raise where it is not clear.

    Examples
    --------
    >>> from skout.kinds import guess_kind
    >>> guess_kind([[2, 0, 1], [0, 1, 2]]), guess_kind([0.5, 1.5])
    ('rankings', 'numbers')
    """
    names = kinds_of(Y)
    if len(names) == 1:
        return names[0]
    what = "kind is None, and Y may be" if names else "Y must be outputs whose kind can be told, or"
    raise ValueError(f"{what} {either(names or KINDS)}: say which.")


def either(names: Iterable[str]) -> str:
    """Return names in a row, the last one after "or"."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
