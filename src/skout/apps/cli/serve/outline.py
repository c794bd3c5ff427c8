"""Scan a body of JSON for its rows, and count their cells, before anything is built of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .limits import Limits, Refused

# Bytes that are scanned at a time, and cells of a row that are parsed at a time.
_CHUNK, _CELLS = 2**18, 4096
# The most fields of a request.
_FIELDS = 16
# Depths of brackets: the request, its list of rows, a row, and a cell, which may not have one.
_REQUEST, _LIST, _ROW, _CELL = 1, 2, 3, 4
# Kinds of bytes.
_QUOTE, _ESCAPE, _OPEN, _CLOSE, _COMMA = 1, 2, 3, 4, 5
_MARKS = {b'"': _QUOTE, b"\\": _ESCAPE, b"{[": _OPEN, b"}]": _CLOSE, b",": _COMMA}
_TABLE = bytearray(256)
for _letters, _mark in _MARKS.items():
    for _letter in _letters:
        _TABLE[_letter] = _mark


@dataclass(frozen=True)
class Outline:
    """A body of JSON, with the places where it can be cut into small pieces."""

    body: bytes
    lists: list[tuple[int, int]]  # positions of the brackets of lists; a valid request has one
    commas: np.ndarray  # between rows
    cuts: np.ndarray  # some commas between cells: no piece between them has many cells

    @property
    def shell(self) -> bytes:
        """The request without its rows."""
        edges = [0, *(edge for a, b in self.lists for edge in (a + 1, b)), len(self.body)]
        return b"".join(self.body[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))

    def rows(self) -> Iterator[list[bytes]]:
        """Yield the pieces of each row of the last list, each piece a JSON object."""
        first, last = self.lists[-1]
        if not self.body[first + 1 : last].strip(b" \t\r\n"):
            return
        commas = self.commas[(self.commas > first) & (self.commas < last)]
        for a, b in pairwise([first, *commas.tolist(), last]):
            low, high = np.searchsorted(self.cuts, [a, b])
            edges = [a, *self.cuts[low:high].tolist(), b]
            pieces = [self.body[i + 1 : j] for i, j in pairwise(edges)]
            pieces[:-1] = [piece + b"}" for piece in pieces[:-1]]
            yield [pieces[0], *(b"{" + piece for piece in pieces[1:])]


def outline(body: bytes, limits: Limits) -> Outline:
    """Return where the rows of a body lie, or refuse one with too many rows, cells or brackets.

    Brackets and commas outside of strings are counted a chunk at a time, up to the first chunk
    with too many.
    """
    reader = _BodyReader(limits)
    for start in range(0, len(body), _CHUNK):
        reader.read(body[start : start + _CHUNK], start)
    if not reader.is_closed:
        raise Refused(400, "Invalid JSON: the body ends within a bracket or a text.")
    edges, commas, cuts = (
        np.concatenate([np.empty(0, np.int64), *positions])
        for positions in (reader.edges, reader.commas, reader.cuts)
    )
    lists = [(a, b) for a, b in edges.reshape(-1, 2).tolist()]
    return Outline(body, lists, commas, cuts)


class _BodyReader:
    """Counts rows and cells of the chunks of a body, and keeps where rows lie."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._depth, self._in_string, self._is_escaped = 0, False, False
        self._fields = self._commas = self._rows = self._cells = 0
        self.edges: list[np.ndarray] = []
        self.commas: list[np.ndarray] = []
        self.cuts: list[np.ndarray] = []

    @property
    def is_closed(self) -> bool:
        """Whether all brackets and strings are closed."""
        return self._depth == 0 and not self._in_string

    def read(self, chunk: bytes, start: int) -> None:
        """Count what is in a chunk, and keep where its rows are."""
        at, marks = self._outside_strings(chunk)
        is_open, is_close, is_comma = marks == _OPEN, marks == _CLOSE, marks == _COMMA
        # (k,): the number of open brackets at each mark, an opening one counted, a closing one not
        depth = self._depth + np.cumsum(is_open.astype(np.int8) - is_close, dtype=np.int64)
        self._depth = int(depth[-1]) if len(depth) else self._depth
        between_cells = at[is_comma & (depth == _ROW)]
        self.cuts.append(start + between_cells[-(self._cells + 1) % _CELLS :: _CELLS])
        between_rows = at[is_comma & (depth == _LIST)]
        self._fields += int((is_open & (depth <= _LIST) | is_comma & (depth == _REQUEST)).sum())
        self._commas += len(between_rows)
        self._rows += int((is_open & (depth == _ROW)).sum())
        self._cells += len(between_cells)
        self._check(depth, is_open)
        edge = is_open & (depth == _LIST) | is_close & (depth == _REQUEST)
        self.edges.append(start + at[edge])
        self.commas.append(start + between_rows)

    def _check(self, depth: np.ndarray, is_open: np.ndarray) -> None:
        if depth.max(initial=0) > _CELL:
            raise Refused(400, "The body is nested too deep.")
        if depth.min(initial=0) < 0:
            raise Refused(400, "Invalid JSON: a bracket is closed that was not opened.")
        if self._fields > _FIELDS:
            raise Refused(422, f"A request is an object of at most {_FIELDS} fields, such as rows.")
        self._limits.check_rows(max(self._commas + 1, self._rows))
        self._limits.check_cells(self._cells)
        if ((depth == _CELL) & is_open).any():
            raise Refused(422, "rows: a cell must be a number, a text or null, and no list.")

    def _outside_strings(self, chunk: bytes) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and kinds of brackets and commas outside of strings."""
        kinds = np.frombuffer(bytearray(chunk.translate(_TABLE)), dtype=np.uint8)
        if self._is_escaped or b"\\" in chunk:
            self._unescape(kinds)
        at = np.flatnonzero(kinds)
        marks = kinds[at]
        is_quote = marks == _QUOTE
        inside = (np.cumsum(is_quote) + self._in_string) % 2 == 1
        self._in_string = bool(inside[-1]) if len(inside) else self._in_string
        kept = ~inside & ~is_quote
        return at[kept], marks[kept]

    def _unescape(self, kinds: np.ndarray) -> None:
        """Clear backslashes, and quotes that follow an odd number of them."""
        escapes = np.flatnonzero(kinds == _ESCAPE)
        starts = np.flatnonzero(np.diff(escapes, prepend=-2) != 1)
        lengths = np.diff(np.append(starts, len(escapes)))
        if self._is_escaped and len(escapes) and escapes[0] == 0:
            lengths[0] += 1  # the run began in the chunk before
        elif self._is_escaped:
            kinds[0] = 0
        ends = escapes[np.append(starts[1:], len(escapes)) - 1] if len(escapes) else escapes
        after = ends[lengths % 2 == 1] + 1
        self._is_escaped = bool(len(after) and after[-1] == len(kinds))
        kinds[after[after < len(kinds)]] = 0
        kinds[escapes] = 0
