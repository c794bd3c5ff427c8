"""`TableEncoder` as a part of an ONNX graph, with an input for each column of the table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache

import numpy as np

from skout.persistence.onnx import OnnxGraph, converts

from .encoder import TableEncoder
from .encoders import (
    HASHED,
    CategoryColumn,
    DateColumn,
    HashedText,
    ManyCategories,
    NumberColumns,
    SetColumn,
    TextColumn,
)

# A character that no text has: it fills tokens up to equal length.
_PAD = "\ue000"
_ML, _RUNTIME = "ai.onnx.ml", "com.microsoft"


@converts("skout.TableEncoder", has_inputs=True)
def _table(graph: OnnxGraph, encoder: TableEncoder, X: str) -> str:
    """Add an input for each column, and return the matrix."""
    blocks = []
    for columns, part in encoder.parts_:
        is_text = not isinstance(part, NumberColumns | DateColumn)
        inputs = [graph.input(name, ["n", 1], is_text=is_text) for name in columns]
        joined = inputs[0] if len(inputs) == 1 else graph.node("Concat", *inputs, axis=1)
        blocks.append(_add_column(graph, part, joined))
    return blocks[0] if len(blocks) == 1 else graph.node("Concat", *blocks, axis=1)


def _add_column(graph: OnnxGraph, part: object, cells: str) -> str:
    if isinstance(part, NumberColumns):
        return _numbers(graph, part, cells)
    if isinstance(part, DateColumn):
        return _dates(graph, part, cells)
    flat = graph.node("Squeeze", cells, graph.numbers(1))  # (n,)
    if isinstance(part, CategoryColumn):
        return _category(graph, part, flat)
    if isinstance(part, ManyCategories):
        most = max(1.0, float(np.log1p(max(part.counts_.values(), default=1))))
        table = {name: float(np.log1p(n)) / most for name, n in part.counts_.items() if name}
        counts = _lookup(graph, flat, table, float(np.log1p(1) / most))
        frequent, likeness = (
            _category(graph, part.frequent_, flat),
            _hashed(graph, part.likeness_, flat),
        )
        numbers = [_lookup(graph, flat, dict(part.numbers_), 0.0)] if part.numbers_ else []
        return graph.node("Concat", frequent, counts, *numbers, likeness, axis=1)
    if isinstance(part, TextColumn):
        return _text(graph, part, flat)
    if isinstance(part, SetColumn):
        return _set(graph, part, flat)
    raise TypeError(
        f"{type(part).__name__} has no form in ONNX: molecules are read by RDKit. Give columns "
        "of numbers that describe them instead."
    )


def _numbers(graph: OnnxGraph, part: NumberColumns, values: str) -> str:
    # z / sqrt(1 + (z/3)^2), 0 where missing, then 0 and 1 where some columns are missing
    bend = part.bend
    z = graph.node("Sub", values, graph.constant(part.center_))
    z = graph.node("Div", z, graph.constant(part.scale_))
    tame = graph.node("Div", z, graph.constant(bend))
    root = graph.node("Sqrt", graph.node("Add", graph.node("Mul", tame, tame), graph.constant(1.0)))
    bent = graph.node("Div", z, root)
    far = graph.node("Mul", graph.node("Sign", z), graph.constant(bend))
    bent = graph.node("Where", graph.node("IsInf", z), far, bent)
    bent = graph.node("Where", graph.node("IsNaN", z), graph.constant(0.0), bent)
    bent = graph.node("Div", bent, graph.constant(part.deviation_))
    if not len(part.gaps_):
        return bent
    gappy = graph.node("Gather", values, graph.constant(part.gaps_, np.int64), axis=1)
    return graph.node("Concat", bent, graph.cast(graph.node("IsNaN", gappy)), axis=1)


def _dates(graph: OnnxGraph, part: DateColumn, seconds: str) -> str:
    # days since 1970; sin and cos of the season, the day of the week and the hour
    days = graph.node("Div", seconds, graph.constant(part.day))
    whole = graph.node("Floor", days)
    monday = graph.node("Add", whole, graph.constant(3.0))
    turns = {
        "season": graph.node("Div", days, graph.constant(part.year)),
        "weekday": graph.node("Div", monday, graph.constant(7.0)),
        "hour": graph.node("Sub", days, whole),
    }
    blocks = [_numbers(graph, part.days_, days)]
    for name in part.circles_:
        angle = graph.node("Mul", turns[name], graph.constant(2.0 * np.pi))
        for shift in (0.0, 0.5 * np.pi):  # of which the second is the cosine
            wave = graph.node("Sin", graph.node("Add", angle, graph.constant(shift)))
            half = graph.node("Mul", wave, graph.constant(0.5))
            is_gap = graph.node("IsNaN", seconds)
            blocks.append(graph.node("Where", is_gap, graph.constant(0.0), half))
    return graph.node("Concat", *blocks, axis=1)


def _category(graph: OnnxGraph, part: CategoryColumn, cells: str) -> str:
    """Add the encoding of each cell, from a table with a row for each level."""
    # the encodings of each level, of a new one, and of a missing one
    levels: list[str | None] = [*part.levels_, _PAD, None]
    table = part.transform(np.array(levels, dtype=object))
    keys = [*part.levels_, ""]
    places = [*range(len(part.levels_)), len(levels) - 1]
    at = graph.node(
        *("LabelEncoder", cells),
        domain=_ML,
        keys_strings=keys,
        values_int64s=places,
        default_int64=len(levels) - 2,
    )
    return graph.node("Gather", graph.constant(table), at)


def _lookup(graph: OnnxGraph, cells: str, table: dict[str, float], other: float) -> str:
    """Add a column with the number of each text, `other` for a new one, 0 for a missing one."""
    numbers = np.array([*table.values(), 0.0, other])
    at = graph.node(
        *("LabelEncoder", cells),
        domain=_ML,
        keys_strings=[*table, ""],
        values_int64s=list(range(len(table) + 1)),
        default_int64=len(table) + 1,
    )
    column = graph.node("Gather", graph.constant(numbers), at)
    return graph.node("Unsqueeze", column, graph.numbers(1))


def _set(graph: OnnxGraph, part: SetColumn, cells: str) -> str:
    """Add 0 and 1 for each element, over the root of how many there are."""
    if len(part.separator) > 1:  # a word between the elements; signs are matched one by one
        raise TypeError(
            f"SetColumn has no form in ONNX where {part.separator.strip()!r} stands between the "
            "elements: replace it by a sign such as ';' in the table, and fit again."
        )
    padded = graph.node("StringConcat", cells, graph.texts([part.separator]))  # none is empty
    sign = "".join(f"\\{char}" if char in r"\]^-[" else char for char in part.separator)
    # from the first character that is no blank to the last
    words = _tokens(graph, padded, tokenexp=f"[^{sign}\\s](?:[^{sign}]*[^{sign}\\s])?")  # (n, k)
    n = len(part.elements_)
    at = graph.node(
        *("LabelEncoder", words),
        domain=_ML,
        keys_strings=list(part.elements_),
        values_int64s=list(range(n)),
        default_int64=n,
    )
    bits = graph.node("Gather", graph.constant(np.vstack([np.eye(n), np.zeros(n)])), at)
    held = graph.node("Min", graph.sum(bits, 1, keepdims=False), graph.constant(1.0))
    count = graph.node("Max", graph.sum(held, 1), graph.constant(1.0))
    shares = graph.node("Div", held, graph.node("Sqrt", count))
    if not part.has_gaps_:
        return shares
    is_gap = graph.node("Unsqueeze", graph.cast(_is(graph, cells, "")), graph.numbers(1))
    return graph.node("Concat", shares, is_gap, axis=1)


# Texts: n-grams are hashed as scikit-learn does it, by operators of ONNX Runtime ------------------


def _tokens(graph: OnnxGraph, cells: str, **how: str | list[str]) -> str:
    """Add the tokens of texts (n,), padded to (n, k)."""
    attributes = {"domain": _RUNTIME, "mark": 0, "pad_value": _PAD, "mincharnum": 1, **how}
    return graph.node("Tokenizer", cells, **attributes)


@cache
def _lower() -> dict[str, str]:
    """Return the lower case of characters that have one, and a blank for white space."""
    signs = (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    changed = {sign: " " if sign.isspace() else sign.lower() for sign in signs}
    return {sign: to for sign, to in changed.items() if sign != to}


def _letters(graph: OnnxGraph, cells: str) -> str:
    """Add the characters of texts in lower case, (n, k)."""
    signs = _tokens(graph, cells, separators=[""])
    table = _lower()
    lower = graph.node(
        *("LabelEncoder", signs),
        domain=_ML,
        keys_strings=list(table),
        values_strings=list(table.values()),
        default_string=_PAD,
    )
    is_same = graph.node("Equal", lower, graph.texts([_PAD]))
    return graph.node("Where", is_same, signs, lower)


def _text(graph: OnnxGraph, part: TextColumn, cells: str) -> str:
    blocks = [_hashed(graph, hashed, cells) for hashed in (part.words_, part.parts_)]
    halved = graph.node("Concat", *blocks, axis=1)
    halved = graph.node("Mul", halved, graph.constant(1.0 / np.sqrt(2.0)))
    signs = _tokens(graph, cells, separators=[""])
    is_sign = graph.node("Not", graph.node("Equal", signs, graph.texts([_PAD])))
    length = graph.sum(graph.cast(is_sign), 1)
    logarithm = graph.node("Log", graph.node("Add", length, graph.constant(1.0)))
    return graph.node("Concat", halved, graph.node("Div", logarithm, graph.constant(3.0)), axis=1)


def _hashed(graph: OnnxGraph, part: HashedText, cells: str) -> str:
    """Add TF-IDF of hashed n-grams, on singular vectors."""
    signs = _letters(graph, cells)
    grams, counted = (_word_grams if part.analyzer == "word" else _letter_grams)(
        graph, signs, part.n_grams
    )
    hashes = graph.cast(
        graph.node("MurmurHash3", grams, domain=_RUNTIME, positive=0, seed=0), np.int64
    )
    places = graph.node("Mod", graph.node("Abs", hashes), graph.numbers(HASHED))  # (n, k)
    n = graph.node("Shape", cells, start=0, end=1)
    shape = graph.node("Concat", n, graph.numbers(HASHED), axis=0)
    fill = graph.onnx.numpy_helper.from_array(np.zeros(1, graph.dtype))
    empty = graph.node("ConstantOfShape", shape, value=fill)
    counts = graph.node(
        "ScatterElements", empty, places, graph.cast(counted), axis=1, reduction="add"
    )
    counts = graph.node("Gather", counts, graph.constant(part.used_, np.int64), axis=1)
    unit, zero = graph.constant(1.0), graph.constant(0.0)
    logarithms = graph.node("Log", graph.node("Max", counts, unit))
    damped = graph.node("Add", logarithms, unit)
    is_there = graph.node("Greater", counts, zero)
    weighted = graph.node(
        "Mul", graph.node("Where", is_there, damped, zero), graph.constant(part.weights_.idf_)
    )
    norms = graph.node("Sqrt", graph.sum(graph.node("Mul", weighted, weighted), 1))
    safe = graph.node("Where", graph.node("Equal", norms, zero), unit, norms)
    Z = graph.node("MatMul", graph.node("Div", weighted, safe), graph.constant(part.vectors_.T))
    centered = graph.node("Sub", Z, graph.constant(part.mean_))
    return graph.node("Div", centered, graph.constant(part.scale_))


def _windows(graph: OnnxGraph, tokens: str, size: int) -> list[str]:
    """Return the names of `size` arrays (n, k): the tokens, the ones after them, and so on."""
    n = graph.node("Shape", tokens, start=0, end=1)
    shape = graph.node("Concat", n, graph.numbers(size), axis=0)
    pads = graph.node("Expand", graph.texts([_PAD]), shape)
    longer = graph.node("Concat", tokens, pads, axis=1)
    width = graph.node("Shape", tokens, start=1, end=2)
    ends = [graph.node("Add", width, graph.numbers(j)) for j in range(size)]
    return [
        graph.node("Slice", longer, graph.numbers(j), ends[j], graph.numbers(1))
        for j in range(size)
    ]


def _joined(graph: OnnxGraph, parts: Sequence[str]) -> str:
    name = parts[0]
    for part in parts[1:]:
        name = graph.node("StringConcat", name, part)
    return name


def _is(graph: OnnxGraph, tokens: str, sign: str) -> str:
    return graph.node("Equal", tokens, graph.texts([sign]))


def _letter_grams(graph: OnnxGraph, signs: str, sizes: tuple[int, int]) -> tuple[str, str]:
    """Add n-grams of letters, and whether each counts: those with a blank inside do not.

    Words have a blank on both sides, as in scikit-learn.
    """
    n = graph.node("Shape", signs, start=0, end=1)
    column = graph.node("Concat", n, graph.numbers(1), axis=0)  # the shape (n, 1)
    blank = graph.node("Expand", graph.texts([" "]), column)
    # the text ends where its padding begins, so that the last blank is put at the first pad
    spaced = graph.node(
        "Concat", blank, signs, graph.node("Expand", graph.texts([_PAD]), column), axis=1
    )
    is_pad = _is(graph, spaced, _PAD)
    before = _windows_before(graph, is_pad)
    is_end = graph.node("And", is_pad, graph.node("Not", before))
    spaced = graph.node("Where", is_end, graph.texts([" "]), spaced)
    grams, counted = [], []
    for size in range(sizes[0], sizes[1] + 1):
        parts = _windows(graph, spaced, size)
        grams.append(_joined(graph, parts))
        odd = [_is(graph, part, " ") for part in parts[1:-1]]
        odd.append(_is(graph, parts[-1], _PAD))
        odd.append(
            graph.node("And", _is(graph, parts[0], " "), _is(graph, parts[-1], " "))
        ) if size == 2 else None
        wrong = odd[0]
        for more in odd[1:]:
            wrong = graph.node("Or", wrong, more)
        counted.append(graph.node("Not", wrong))
    return graph.node("Concat", *grams, axis=1), graph.node("Concat", *counted, axis=1)


def _windows_before(graph: OnnxGraph, flags: str) -> str:
    """Add flags moved by one place: whether the one before was set, False for the first."""
    numbers = graph.cast(flags, np.int64)
    n = graph.node("Shape", numbers, start=0, end=1)
    shape = graph.node("Concat", n, graph.numbers(1), axis=0)
    first = graph.node("Expand", graph.numbers(0), shape)
    longer = graph.node("Concat", first, numbers, axis=1)
    end = graph.node("Shape", numbers, start=1, end=2)
    moved = graph.node("Slice", longer, graph.numbers(0), end, graph.numbers(1))
    return graph.node("Greater", moved, graph.numbers(0))


def _word_grams(graph: OnnxGraph, signs: str, sizes: tuple[int, int]) -> tuple[str, str]:
    """Add n-grams of words of two letters or more, and whether each is whole."""
    words = _tokens(graph, _lines(graph, signs), tokenexp="[\\p{L}\\p{N}_]{2,}")
    grams, counted = [], []
    for size in range(sizes[0], sizes[1] + 1):
        parts = _windows(graph, words, size)
        blanks = [part for word in parts for part in (graph.texts([" "]), word)][1:]
        grams.append(_joined(graph, blanks))
        counted.append(graph.node("Not", _is(graph, parts[-1], _PAD)))
    return graph.node("Concat", *grams, axis=1), graph.node("Concat", *counted, axis=1)


def _lines(graph: OnnxGraph, signs: str) -> str:
    """Add the texts (n,) of characters (n, k), where padding becomes blanks."""
    helper, kinds = graph.onnx.helper, graph.onnx.TensorProto
    signs = graph.node("Where", _is(graph, signs, _PAD), graph.texts([" "]), signs)
    body = helper.make_graph(
        [
            helper.make_node("Gather", [signs, "at"], ["sign"], axis=1),
            helper.make_node("StringConcat", ["text", "sign"], ["longer"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "sign",
        [
            graph.value("at", [], kinds.INT64),
            graph.value("go", [], kinds.BOOL),
            graph.value("text", ["n"], kinds.STRING),
        ],
        [graph.value("on", [], kinds.BOOL), graph.value("longer", ["n"], kinds.STRING)],
    )
    n = graph.node("Shape", signs, start=0, end=1)
    start = graph.node("Expand", graph.texts([" "]), n)
    width = graph.node("Squeeze", graph.node("Shape", signs, start=1, end=2), graph.numbers(0))
    return graph.node("Loop", width, graph.constant(True, bool), start, body=body)
