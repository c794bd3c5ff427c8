"""Outputs as HTML: chips for labels, structures for molecules, words for the rest."""

from collections.abc import Callable, Sequence
from html import escape

from ..spectra.drawings import molecule_svg

__all__ = ["drawn"]

# Words and characters that are shown, and the longest SMILES that is drawn.
_MOST_WORDS, _LONGEST, _LONGEST_SMILES = 60, 300, 2000
Words = Sequence[str]


def drawn(truth: Words, found: Words, kind: str, columns: Words) -> tuple[str, str]:
    """Return a true output and a predicted one as HTML, from words as `Outputs.lists` has them."""
    if kind == "label_sets":
        return _chips(truth, found, "miss"), _chips(found, truth, "miss")
    if kind == "smiles":
        return _molecule(truth[0]), _molecule(found[0])
    if kind == "numbers" and len(columns) > 1:
        return _numbers(truth, columns), _numbers(found, columns)
    join: Callable[[Words], str] = " > ".join if kind == "rankings" else " ".join
    return _text(join(_few(truth))), _text(join(_few(found)))


def _few(words: Words) -> list[str]:
    more = [f"… {len(words) - _MOST_WORDS} more"] if len(words) > _MOST_WORDS else []
    return [*words[:_MOST_WORDS], *more]


def _short(text: str) -> str:
    return escape(text if len(text) <= _LONGEST else text[:_LONGEST] + " …")


def _chips(labels: Words, others: Words, name: str) -> str:
    """Return labels; those that the other set has not are marked."""
    known = set(others)
    chips = [
        f'<span class="chip {"hit" if one in known else name}">{_short(one)}</span>'
        for one in _few(labels)
    ]
    return "".join(chips) or '<span class="dim">no label</span>'


def _molecule(smiles: str) -> str:
    """Return the structure, where RDKit is installed, and the SMILES."""
    try:
        picture = molecule_svg(smiles) if len(smiles) <= _LONGEST_SMILES else ""
    except ImportError:
        picture = ""
    return f"{picture}{_text(smiles)}"


def _numbers(values: Words, columns: Words) -> str:
    named = [f"{name} {value}" for name, value in zip(columns, values, strict=True)]
    return _text(", ".join(_few(named)))


def _text(text: str) -> str:
    return f'<div class="text">{_short(text)}</div>'
