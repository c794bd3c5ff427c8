"""Text files of records: read whatever their encoding, damage reported."""

from __future__ import annotations

import codecs
import os
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

from skout.dev import DAMAGED, LimitError, check_choice, check_number, opened
from skout.readers import LIMITS
from skout.typing import PathLike

# How text of other encodings than UTF-8 begins: with a mark, or with letters of two bytes. 32 bits
# come before 16, which begin the same.
_ENCODINGS = {
    rb"\xff\xfe\0\0|\0\0\xfe\xff": "utf-32",
    rb"\xff\xfe|\xfe\xff": "utf-16",
    rb"\xef\xbb\xbf": "utf-8-sig",
    rb"[^\0]\0[^\0]\0": "utf-16-le",
    rb"\0[^\0]\0[^\0]": "utf-16-be",
}
_BLOCK = 2**16
_SHOWN = 5
# What two messages of the same reason differ in: quoted text and numbers.
_PARTICULARS = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9.,]+")

#: A file: its path, or one that is open for reading bytes.
FileLike: TypeAlias = PathLike | IO[bytes]
#: What `as_path` makes of it.
File: TypeAlias = Path | IO[bytes]
Record = TypeVar("Record")
Table = TypeVar("Table", bound=Any)


@dataclass(frozen=True)
class Problem:
    """What is wrong with a record.

    Parameters
    ----------
    record : int
        Its number in the file; the first is 1. 0 where the file itself is damaged.
    line : int
        The line of the file, 0 where the file has none.
    message : str
    """

    record: int
    line: int
    message: str

    def __str__(self) -> str:
        if not self.record:
            return f"line {self.line}: {self.message}"
        place = f"record {self.record}" + (f" (line {self.line})" if self.line else "")
        return f"{place}: {self.message}"


class Faults:
    """Problems of a file: the first is raised, or all are kept and reported in one warning.

    `met` counts what the file has, for the message where nothing of it can be read; `notes` counts
    remarks on records that were read.
    """

    name: str
    on_error: str

    def __init__(self, path: File, on_error: str) -> None:
        check_choice(on_error, "on_error", ("raise", "skip"))
        self.name, self.on_error = str(getattr(path, "name", "the text")), on_error
        self.problems: list[Problem] = []
        self.met: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()

    def add(self, record: int, line: int, message: str) -> None:
        """Raise, or remember, what is wrong with a record."""
        problem = Problem(record, line, message)
        if self.on_error == "raise":
            raise ValueError(f'{self.name}, {problem} Leave such out with on_error="skip".')
        self.problems.append(problem)

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Warn at the end of the block about records that were left out, and about notes."""
        yield
        said = [f"{count} {note}" for note, count in self.notes.items()]
        if self.problems:
            said.append(self._left_out())
        for text in said:
            warnings.warn(f"{self.name}: {text}", UserWarning, stacklevel=5)

    def _left_out(self) -> str:
        """Return how many records were left out, by reason, each with the first of them."""
        reasons: dict[str, list[Problem]] = {}
        for problem in self.problems:
            reasons.setdefault(_PARTICULARS.sub("", problem.message), []).append(problem)
        common = sorted(reasons.values(), key=len, reverse=True)
        shown = "; ".join(
            f"{len(group):,} like {group[0]}" if len(group) > 1 else str(group[0])
            for group in common[:_SHOWN]
        )
        more = f"; and {len(common) - _SHOWN} more reasons" if len(common) > _SHOWN else ""
        return f"{len(self.problems):,} damaged records were left out. {shown}{more}"

    def nothing(self, what: str) -> ValueError:
        """Return the error of a file of which nothing can be read, with what it has instead."""
        met = ", ".join(f"{count:,} {name}" for name, count in self.met.items() if count)
        why = f"{self._left_out()}" if self.problems else f"it has {met or 'nothing'}."
        return ValueError(f"There is no {what} in {self.name}: {why}")


def read_all(
    path: FileLike,
    on_error: str,
    limit: int | None,
    records: Callable[[File, Faults], Iterator[Record]],
    table: Callable[[Iterator[Record]], Table],
    what: str,
) -> Table:
    """Return a table of the first records that `records(file, faults)` yields.

    A file without any is an error, which says that there is no `what`.
    """
    if limit is not None:
        check_number(limit, "limit", low=1, integer=True)
    file = as_path(path)
    faults = Faults(file, on_error)
    with faults.reported():
        new_table = table(islice(records(file, faults), limit))
        if not len(new_table.record):
            raise faults.nothing(what)
    return replace(new_table, problems=tuple(faults.problems))


def plain_number(text: str) -> float:
    """Return the number that a text is; 1_000, and digits of other scripts, are none."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is no number.")
    return float(text)


# Text ------------------------------------------------------------------------------------------


def lines_of(path: File, faults: Faults, space: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers; a cut archive ends where it is cut.

    UTF-8 or Latin-1, UTF-16, or UTF-32 with a mark at its beginning; lines end in LF, CR LF, or
    CR. `space` are the characters that both ends of a line are freed of, None for all white space.
    Where an archive is cut, or a line is too long, `faults` gets a problem of record 0.
    """
    count = 0
    with opened(path) as stream:
        try:
            for count, raw in enumerate(_raw_lines(stream), 1):
                yield count, _decoded(raw).strip(space)
        except DAMAGED as error:
            faults.add(0, count + 1, f"the file cannot be read from here on ({error}).")
    faults.met["lines"] = count


def _raw_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield lines without their end: LF where the first block with an end has it, else CR."""
    rest, end = b"", b""
    for block in _utf8_blocks(stream):
        if not end:
            end = next((sign for sign in (b"\n", b"\r") if sign in block), b"")
        *lines, rest = (rest + block).split(end) if end else (rest + block,)
        yield from lines
        if len(rest) > LIMITS.line:
            raise LimitError(f"a line has more than {LIMITS.line:,} bytes")
    if rest:
        yield rest


def _utf8_blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a text; UTF-16 and UTF-32 with a mark at the beginning as UTF-8."""
    blocks = blocks_of(stream)
    first = next(blocks, b"")
    encoding = next((name for mark, name in _ENCODINGS.items() if re.match(mark, first)), None)
    if encoding is None:
        yield first
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for block in chain([first], blocks):
        yield decoder.decode(block).encode("utf-8", "replace")


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


# Bytes -----------------------------------------------------------------------------------------


def blocks_of(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a stream; of a damaged one all that come before the damage."""
    read = getattr(stream, "read1", stream.read)
    while block := read(_BLOCK):
        yield block


def unpacked(packed: bytes) -> bytes:
    """Return bytes that zlib packed, `LIMITS.array` at most.

    Examples
    --------
    >>> import zlib
    >>> from skout.apps.spectra.readers.records import unpacked
    >>> unpacked(zlib.compress(b"peaks"))
    b'peaks'
    """
    machine = zlib.decompressobj()
    raw = machine.decompress(packed, LIMITS.array + 1)
    if len(raw) > LIMITS.array:
        raise LimitError(f"an array unpacks to more than {LIMITS.array:,} bytes")
    if not machine.eof:
        raise zlib.error("incomplete or truncated stream")
    return raw


def as_path(path: FileLike) -> File:
    """Return the path of a file; a file that is open stays one."""
    return Path(path).expanduser() if isinstance(path, str | os.PathLike) else path
