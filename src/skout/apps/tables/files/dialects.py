"""How a text file of cells is written: its encoding, separators, and decimal commas."""

import codecs
import csv
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO

from skout.dev import DAMAGED, ending, opened
from skout.readers import Limits

from ..numerals import is_missing

__all__ = [
    "LONGEST",
    "PACKED_TABLES",
    "CsvRows",
    "Dialect",
    "Lines",
    "check_archive",
    "dialect_of",
    "encoding_of",
    "open_bytes",
    "open_text",
    "recognise",
]

_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SEPARATORS = (",", ";", "\t", "|")
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# Characters and records that are looked at, and bytes that are checked at a time.
_SAMPLE, _RECORDS, _BLOCK = 2**18, 100, 2**20
#: What a compressed table may unpack to: more than spectra, since columns repeat themselves.
PACKED_TABLES = Limits(unpacked=2**28, ratio=200)
#: Letters of a row.
LONGEST = 2**24
_WITH_COMMA = re.compile(r"\s*[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+(e[+-]?\d+)?\s*", re.I).fullmatch
_WITH_POINT = re.compile(r"\s*[+-]?\d*\.\d+(e[+-]?\d+)?\s*", re.I).fullmatch
# The first line of a file by which Excel is told what separates cells.
_DECLARED = re.compile(r"sep=([,;|\t])\r?\n?").fullmatch


@dataclass(frozen=True)
class Dialect:
    """How a file is written."""

    encoding: str = "utf-8"
    delimiter: str = ","
    decimal: str = "."
    skip: int = 0  # lines before the header
    notes: tuple[str, ...] = ()  # what is not as usual


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of text, which may be compressed."""
    with opened(path, PACKED_TABLES) as file:
        try:
            yield file
        except DAMAGED as error:
            raise ValueError(f"{path} cannot be read to its end: {error}.") from error


def check_archive(path: Path) -> None:
    """Raise if an archive of files, such as a workbook, says that it unpacks to far too much."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            most = max(PACKED_TABLES.unpacked, PACKED_TABLES.ratio * path.stat().st_size)
            if sum(member.file_size for member in archive.infolist()) > most:
                raise ValueError(
                    f"{path} unpacks to more than {PACKED_TABLES.ratio} times its size, which "
                    "tables hardly do. Unpack it yourself if it is one."
                )


class Lines:
    """The lines of a text, of which those of one row may not be too long together."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self._file, self._path, self._size = file, path, 0
        self.number = 0  # of lines so far

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        line = self._file.readline(LONGEST + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self._size += len(line)
        if self._size > LONGEST:
            raise ValueError(
                f"{self._path}: the row that goes on in line {self.number} has more than "
                f"{LONGEST:,} letters. It is no table, or a quote is opened and never closed."
            )
        return line

    def end_row(self) -> None:
        """Say that the next line begins a row."""
        self._size = 0


class CsvRows:
    """Rows of separated cells; `line_num` is the line that the last one ended in."""

    def __init__(self, lines: Lines, delimiter: str) -> None:
        self._lines, self._reader = lines, csv.reader(lines, delimiter=delimiter, strict=True)

    def __iter__(self) -> "CsvRows":
        return self

    def __next__(self) -> list[str]:
        row = next(self._reader)
        self._lines.end_row()
        return row

    @property
    def line_num(self) -> int:
        """How many lines were read."""
        return self._lines.number


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[TextIO]:
    """Open a file of text, which may be compressed; ends of lines stay as they are."""
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        yield text


def recognise(path: Path) -> Dialect:
    """Return how a file is written, told from its bytes and first records.

    The end of its name says which separator is expected; the first records may say another.
    """
    encoding, notes = encoding_of(path)
    try:
        with open_text(path, encoding) as file:
            text = file.read(_SAMPLE)
    except UnicodeError as error:
        raise ValueError(f"{path} is no text in {encoding}: {error}. Save it as UTF-8.") from error
    if "\0" in text:
        raise ValueError(
            f"{path} has bytes that are 0 in line {1 + text[: text.index(chr(0))].count(chr(10))}: "
            "it is no text, or UTF-16 without a mark at its beginning. Save it as UTF-8."
        )
    usual = "\t" if ending(path) in (".tsv", ".tab") else ","
    return dialect_of(text, usual, path.name, encoding, notes)


def dialect_of(
    text: str, usual: str, name: str = "table", encoding: str = "utf-8", notes: Sequence[str] = ()
) -> Dialect:
    """Return how a text is written, of which the beginning is enough.

    `usual` is the separator that is expected, `notes` what is known of the file already.
    """
    text, notes = text[:_SAMPLE], list(notes)
    first = text.partition("\n")[0] + "\n"
    declared = _DECLARED(first)
    if declared is not None:
        text = text[len(first) :]
    delimiter = declared[1] if declared is not None else _delimiter(text, usual)
    if delimiter != usual:
        notes.append(f"{name}: cells are separated by {_NAMES[delimiter]}")
    decimal = _decimal(_records(text, delimiter)) if delimiter != "," else "."
    if decimal == ",":
        notes.append(f"{name}: numbers have decimal commas")
    return Dialect(encoding, delimiter, decimal, int(declared is not None), tuple(notes))


def encoding_of(path: Path) -> tuple[str, list[str]]:
    """Return the encoding: by a mark, UTF-8 if all bytes are, or else Windows-1252."""
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    with open_bytes(path) as file:
        for number, block in enumerate(_blocks(file)):
            for mark, name in _BOMS.items():
                if number == 0 and block.startswith(mark):
                    return name, []
            try:
                decoder.decode(block, final=len(block) < _BLOCK)
            except UnicodeDecodeError as error:
                bad = error.object[error.start]
                line += error.object[: error.start].count(b"\n")
                note = (
                    f"{path.name} is not UTF-8 (byte 0x{bad:02x} in line {line}) and is read as "
                    "Windows-1252; if letters look wrong, save it as UTF-8"
                )
                return _single_bytes(path), [note]
            line += block.count(b"\n")
    return "utf-8", []


def _single_bytes(path: Path) -> str:
    """Return Windows-1252, or Latin-1 for a file with bytes that it does not have."""
    missing = b"\x81\x8d\x8f\x90\x9d"
    with open_bytes(path) as file:
        rare = any(byte in block for block in _blocks(file) for byte in missing)
    return "latin-1" if rare else "cp1252"


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _records(text: str, delimiter: str) -> list[list[str]]:
    """Return the first records; the last, which may be cut, is not among them."""
    found: list[list[str]] = []
    try:
        for record in csv.reader(text.splitlines(keepends=True), delimiter=delimiter):
            if record:
                found.append(record)
            if len(found) > _RECORDS:
                break
    except csv.Error:  # said again, with the line, when the file is read
        pass
    return found[:-1] if len(text) >= _SAMPLE and len(found) > 1 else found


def _delimiter(text: str, usual: str) -> str:
    """Return the separator with which most records are as wide as the header.

    The usual one stands unless another one is better.
    """
    best, merit = usual, (-1.0, 0)
    for one in sorted(_SEPARATORS, key=lambda sign: sign != usual):
        records = _records(text, one)
        width = len(records[0]) if records else 0
        if width < 2:
            continue
        same = sum(len(record) == width for record in records) / len(records)
        if (same, 0 if one != usual else 1) > merit:
            best, merit = one, (same, 0 if one != usual else 1)
    return best


def _decimal(records: list[list[str]]) -> str:
    """Return "," where more cells are numbers with a comma than with a point."""
    cells = [cell for record in records[1:] for cell in record if not is_missing(cell)]
    commas = sum(1 for cell in cells if _WITH_COMMA(cell))
    return "," if commas > sum(1 for cell in cells if _WITH_POINT(cell)) else "."
