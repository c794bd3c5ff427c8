"""Outputs as HTML, in the style of their kind: chips, numbers, words, and pictures."""

from collections.abc import Sequence
from html import escape

from skout.kinds import Kind

__all__ = ["drawn"]

# Words and characters that are shown.
_MOST_WORDS, _LONGEST = 60, 300
Words = Sequence[str]


def drawn(truth: Words, found: Words, kind: Kind, columns: Words) -> tuple[str, str]:
    """Return a true output and a predicted one as HTML, from words as `Kind.words` has them."""
    if kind.style == "chips":
        return _chips(truth, found, "miss"), _chips(found, truth, "miss")
    if kind.style == "bars" and len(columns) > 1:
        return _numbers(truth, columns), _numbers(found, columns)
    join = " > ".join if kind.style == "order" else " ".join
    texts = [join(_few(words)) for words in (truth, found)]
    true, pred = (f"{_picture(kind, text)}{_text(text)}" for text in texts)
    return true, pred


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


def _picture(kind: Kind, text: str) -> str:
    """Return the drawing of an output, where what draws it is installed."""
    try:
        return kind.picture(text)
    except ImportError:
        return ""


def _numbers(values: Words, columns: Words) -> str:
    named = [f"{name} {value}" for name, value in zip(columns, values, strict=True)]
    return _text(", ".join(_few(named)))


def _text(text: str) -> str:
    return f'<div class="text">{_short(text)}</div>'
