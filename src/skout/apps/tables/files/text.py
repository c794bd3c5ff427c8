"""Files of separated cells, CSV and its kin: how they are written, and what they hold.

pyarrow reads them. Where it stops, or the line of a row is requested, the standard library
goes through the file again, since it can say which line is wrong and why.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, TextIO

from skout.dev import DAMAGED, ending, opened
from skout.readers import UnpackLimits

from ..dates import looks_like_date
from ..numerals import is_missing, is_plain, is_unknown, numeral
from .table import Table, load_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# Runs of them separate cells in files that have none of the others, of so many columns at least.
_BLANK, _LEAST_BLANK = " ", 3
# Encodings of other languages, their letters, and the share of these that there is at least.
_ENCODINGS = (
    ("cp932", re.compile("[ぁ-んァ-ヶ]").match, 0.15),
    ("euc_kr", re.compile("[가-힣]").match, 0.8),
    ("cp1251", re.compile("[а-яёА-ЯЁ]").match, 0.9),
    ("gb18030", re.compile("[\u4e00-\u9fff\u3000-\u303f\uff00-\uff5e]").match, 0.9),
)
# Characters and records that are sampled, and bytes that are checked at a time.
_SAMPLE, _RECORDS, _BLOCK = 2**18, 100, 2**20
#: What a compressed table may unpack to: more than spectra, since columns repeat themselves.
PACKED_TABLES = UnpackLimits(unpacked=2**28, ratio=200)
#: Letters of a row.
LONGEST = 2**24
# Bytes that pyarrow reads at a time, and rows of them where there are many columns, since it works
# by the column.
_PART_BYTES, _FEW_ROWS = 2**20, 64
# Rows that are read at a time where some are shorter than the header.
_FILLED_ROWS = 1024
_WITH_COMMA = re.compile(r"\s*[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+(e[+-]?\d+)?\s*", re.I).fullmatch
_WITH_POINT = re.compile(r"\s*[+-]?\d*\.\d+(e[+-]?\d+)?\s*", re.I).fullmatch
# The first line of a file that declares to Excel what separates cells.
_DECLARED = re.compile(r"sep=([,;|\t])\r?\n?").fullmatch
# A line whose cells are all in single quotes.
_IN_SINGLE_QUOTES = re.compile(r"\s*'[^']*'\s*([,;|\t]\s*'[^']*'\s*)+").fullmatch
# Records that may stand before the header, and letters of them that are shown.
_MOST_TITLES, _SHOWN = 20, 60
# Letters of a unit below the name of its column, and rows that tell that numbers follow.
_LONG_UNIT, _UNIT_ROWS = 12, 3
# The share of cells below a unit that are numbers.
_MOST_NUMBERS = 0.8
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{2,5}|#x[0-9a-fA-F]{2,5});").search
_CLOSE = 'A quote (") is opened there and never closed: close it, or double those inside cells.'
_SAVE = "Save it as CSV in UTF-8, with quotes around cells that have separators in them."


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of text, which may be compressed."""
    with opened(path, PACKED_TABLES) as file:
        try:
            yield file
        except DAMAGED as error:
            raise ValueError(f"{path} cannot be read to its end: {error}.") from error


@contextmanager
def as_text(opening: AbstractContextManager[IO[bytes]], encoding: str) -> Iterator[TextIO]:
    """Open bytes as text; ends of lines stay as they are."""
    with opening as file, io.TextIOWrapper(file, encoding, newline="") as text:
        yield text


class Lines:
    """Iterates over the lines of a text, and raises where the lines of one row are too long."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self._file, self._path, self._size = file, path, 0
        self.number = 0  # of lines so far

    def __iter__(self) -> Lines:
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
        """Note that the next line begins a row."""
        self._size = 0


# Encodings ----------------------------------------------------------------------------------------


class TextSurvey(NamedTuple):
    """The encoding of a file of text, notes on it, and whether its quotes are odd."""

    encoding: str
    notes: list[str]
    has_odd_quotes: bool  # so that one may be open to the end


def survey(path: Path) -> TextSurvey:
    """Return the encoding of a file: by a mark, UTF-8 if all bytes are, or else Windows-1252.

    A file with bytes that Windows-1252 does not have is Latin-1.
    """
    decoder, encoding, notes = codecs.getincrementaldecoder("utf-8")(), "", []
    line, quotes, is_latin = 1, 0, False
    with open_bytes(path) as file:
        for number, block in enumerate(iter(lambda: file.read(_BLOCK), b"")):
            if number == 0:
                marks = [name for mark, name in _BOMS.items() if block.startswith(mark)]
                encoding = marks[0] if marks else ""
            try:
                if not encoding:
                    decoder.decode(block, final=len(block) < _BLOCK)
            except UnicodeDecodeError as error:
                encoding, byte = _legacy(error.object[error.start :]), error.object[error.start]
                line += error.object[: error.start].count(b"\n")
                spoken = {"cp1252": "Windows-1252", "cp1251": "Windows-1251"}.get(
                    encoding, encoding
                )
                notes = [
                    f"{path.name} is not UTF-8 (byte 0x{byte:02x} in line {line}) and is read as "
                    f"{spoken}; if letters look wrong, save it as UTF-8"
                ]
            line += block.count(b"\n")
            quotes += block.count(b'"')
            is_latin |= any(rare in block for rare in b"\x81\x8d\x8f\x90\x9d")
    if encoding == "cp1252" and is_latin:
        encoding = "latin-1"
    return TextSurvey(encoding or "utf-8", notes, bool(quotes % 2))


def _legacy(data: bytes) -> str:
    """Return the likely encoding of bytes that are not UTF-8, by the letters that each would give.

    Letters beyond ASCII stand alone in the words of Western languages, and follow each other in
    Russian, Japanese, Korean and Chinese.
    """
    runs = re.findall(rb"[\x80-\xff]+", data)
    if 2 * sum(len(run) for run in runs if len(run) < 3) > sum(map(len, runs)):
        return "cp1252"
    for encoding, letters, least in _ENCODINGS:
        text = data.decode(encoding, errors="replace")
        foreign = [letter for letter in text if not letter.isascii()]
        bad = foreign.count("\ufffd")
        if bad <= 1 and sum(map(bool, map(letters, foreign))) >= least * len(foreign):
            return encoding
    return "cp1252"


# Dialects -----------------------------------------------------------------------------------------


class _Dialect(NamedTuple):
    """The separator, the decimal sign and the quotes of a text of cells."""

    delimiter: str
    decimal: str
    skip: int  # lines before the header
    quote: str
    notes: list[str]  # what is not as usual
    loose: bool = False  # blanks around cells, or quotes behind a backslash; pyarrow takes neither

    def records(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Return the records in lines, which raise an error where they are no CSV."""
        if self.loose:
            lines = _bare(line.replace(f"\\{self.quote}", 2 * self.quote) for line in lines)
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote,
            skipinitialspace=self.loose,
            strict=not self.loose,
        )


def _bare(lines: Iterable[str]) -> Iterator[str]:
    """Return lines without blanks at their ends."""
    return (f"{line.rstrip()}\n" for line in lines)


class _Start(NamedTuple):
    """The first records of a text from the header on, read with one separator."""

    records: list[list[str]]
    skip: int  # lines before the header


def _dialect(text: str, usual: str, name: str) -> _Dialect:
    """Return the dialect of a text, from its beginning.

    The separator is the one with which most records are as wide as the header; the `usual` one
    stands unless another is better. Decimals are behind a comma where most numbers have one.
    """
    first = text.partition("\n")[0] + "\n"
    declared = _DECLARED(first)
    if declared is not None:
        text = text[len(first) :]
    signs = declared[1] if declared is not None else _SEPARATORS
    quote = "'" if _IN_SINGLE_QUOTES(text.partition("\n")[0]) else '"'
    starts = {sign: _first_records(text, sign, quote) for sign in signs}
    delimiter = max(
        starts,
        key=lambda sign: (_evenness(starts[sign].records), starts[sign].skip == 0, sign == usual),
    )
    if _evenness(starts[delimiter].records) < 0:
        starts[_BLANK] = _first_records(text, _BLANK, quote)
        delimiter = _BLANK if _are_cells(starts[_BLANK].records) else delimiter
    records, skip = starts[delimiter]
    cells = [cell for record in records[1:] for cell in record]
    commas, points = (sum(1 for c in cells if form(c)) for form in (_WITH_COMMA, _WITH_POINT))
    decimal = "," if delimiter != "," and commas > points else "."
    words = _SEPARATORS.get(delimiter, "blanks")
    notes = [f"{name}: cells are separated by {words}"] * (delimiter != usual)
    notes += [f"{name}: numbers have decimal commas"] * (decimal == ",")
    notes += [f"{name}: cells are in single quotes"] * (quote == "'")
    if skip:
        before = " ".join(text.split("\n")[0].split())[:_SHOWN]
        many = f"{skip} lines" if skip > 1 else "a line"
        notes.append(f"{name}: {many} before the header left out, the first {before!r}")
    loose = delimiter == _BLANK or _is_loose(text, delimiter, quote)
    if loose and delimiter != _BLANK:
        notes.append(f"{name}: blanks or backslashes beside quotes are left out")
    return _Dialect(delimiter, decimal, skip + (declared is not None), quote, notes, loose)


def _first_records(text: str, delimiter: str, quote: str) -> _Start:
    """Return the first records from the header on, without the last one, which may be cut."""
    records: list[list[str]] = []
    lines: list[int] = []  # before each
    with suppress(csv.Error):  # said again, with the line, when the file is read
        reader = csv.reader(
            _bare(text.splitlines()) if delimiter == _BLANK else text.splitlines(keepends=True),
            delimiter=delimiter,
            quotechar=quote,
            skipinitialspace=delimiter == _BLANK,
        )
        before = 0
        for record in reader:
            if record:
                records.append(record)
                lines.append(before)
            before = reader.line_num
            if len(records) > _RECORDS:
                break
    records = records[:-1] if len(text) >= _SAMPLE and len(records) > 1 else records
    first = preamble(records)
    return _Start(records[first:], lines[first] if first else 0)


def _is_loose(text: str, delimiter: str, quote: str) -> bool:
    """Whether there are blanks between quotes and separators, or quotes behind backslashes."""
    lines = text.splitlines(keepends=True)[:_RECORDS]
    try:
        records = list(csv.reader(lines, delimiter=delimiter, quotechar=quote, strict=True))
    except csv.Error as error:
        return "expected after" in str(error)
    return any(cell[:1] == " " and cell.lstrip()[:1] == quote for row in records for cell in row)


def _are_cells(records: list[list[str]]) -> bool:
    """Whether blanks separate cells: half of the columns are numbers, and no row is a date."""
    widths = {len(record) for record in records[1:]}
    width = min(widths, default=0)
    if len(widths) != 1 or width < _LEAST_BLANK or len(records[0]) not in (width, width - 1):
        return False
    numbers = sum(all(is_plain(record[j]) for record in records[1:]) for j in range(width))
    lines = [" ".join(record) for record in records[1:]]
    return 2 * numbers >= width and not any(looks_like_date(x) or numeral(x) for x in lines)


def preamble(records: list[list[str]]) -> int:
    """Return how many records stand before the header: comments, and titles of one cell.

    Where all cells below a title occur again below themselves they are values: the title is the
    name of a single column, whose cells have the separator in them ("run;road").
    """
    widths = Counter(len(record) for record in records)
    usual = widths.most_common(1)[0][0] if widths else 0
    if usual < 2:
        return 0
    for number, record in enumerate(records[:_MOST_TITLES]):
        filled = [cell for cell in record if cell.strip()]
        is_comment = record[0].lstrip().startswith(("#", "//")) and len(record) != usual
        is_title = usual > 2 and len(filled) == 1 and bool(record[0].strip())
        is_blank = not filled
        if not (is_comment or is_title or is_blank or (len(record) == 1 and usual > 1)):
            below = records[number + 1 :]
            is_value = [
                any(cell in other[j : j + 1] for other in below) for j, cell in enumerate(record)
            ]
            is_column = number == 1 and len(records[0]) == 1 and all(is_value)
            return 0 if is_column and not records[0][0].startswith(("#", "//")) else number
    return 0


def _evenness(records: list[list[str]]) -> float:
    """Return the share of records that are as wide as the header, -1 for one column."""
    width = len(records[0]) if records else 0
    return sum(len(r) == width for r in records) / len(records) if width > 1 else -1.0


# Headers ------------------------------------------------------------------------------------------


def header_of(records: list[list[str]], file: str) -> tuple[list[str], int, list[str]]:
    """Return the names of columns, the number of records of the header, and notes on it.

    Surveys have a question over several columns, and below it what each of them asks.
    """
    first = [name.strip() for name in records[0]] if records else []
    second = [name.strip() for name in records[1]] if len(records) > 1 else []
    notes: list[str] = []
    names: list[str] = []
    rows = 1
    blanks = [j for j, name in enumerate(first) if not name]
    if _is_row(first, records[1:]):
        names = [f"column {j}" for j in range(1, len(first) + 1)]
        note = f"{file}: the first line has values, so columns are called {names[0]!r}"
        return names, 0, [f"{note} to {names[-1]!r}"]
    if len(blanks) > 1 and _is_below(second, blanks, records[2:]):
        counts, question, rows = Counter(second), "", 2
        for name, under in zip(first, second, strict=False):
            question = name or question
            if not under or (name and counts[under] > 1 and not _goes_on(first, len(names))):
                names.append(question)
            else:
                names.append(under if counts[under] == 1 else f"{question}: {under}")
        first, notes = names, [f"{file}: the first two lines are taken for the header"]
    elif n_below := _below_header(records):
        which = (
            "the line below the header has units, and is"
            if n_below == 1
            else "lines below the header are"
        )
        rows, notes = 1 + n_below, [f"{file}: {which} left out"]
    widths = {len(record) for record in records[rows:]}
    if rows == 1 and widths == {len(first) + 1}:  # as R writes tables with names of rows
        has_names = any(record[-1].strip() for record in records[1:])
        first = ["rownames", *first] if has_names else [*first, f"column {len(first) + 1}"]
        what, name = ("first", first[0]) if has_names else ("last", first[-1])
        notes.append(f"{file}: the {what} column has no name, and is called {name!r}")
    seen: Counter[str] = Counter()
    names = []
    for j, name in enumerate(first, 1):
        name = name or (f"column {j}" if len(blanks) > 1 else "")
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    if len(names) > len(seen):
        again = next(name for name, count in seen.items() if count > 1)
        other = f"{file}: several columns are called {again!r}; the second is now {again + '_2'!r}"
        notes.append(other)
    return names, rows, notes


def _is_row(first: list[str], records: list[list[str]]) -> bool:
    """Whether the first record has values, as those below it: numbers within the range of theirs.

    Years and other whole numbers may be names, unless they come again.
    """
    names = [name for name in first if is_plain(name)]
    within = 0
    for j, name in enumerate(first):
        below = [float(r[j]) for r in records if j < len(r) and is_plain(r[j])]
        within += bool(is_plain(name) and below and min(below) <= float(name) <= max(below))
    may_be = len(names) > 1 and (any("." in name for name in names) or len(set(names)) < len(names))
    return may_be and len(records) >= _UNIT_ROWS and 2 * within >= len(names)


def _goes_on(names: list[str], j: int) -> bool:
    """Whether the next column has no name of its own."""
    return j + 1 < len(names) and not names[j + 1]


def _is_below(second: list[str], blanks: list[int], records: list[list[str]]) -> bool:
    """Whether the second record names columns that the first does not, and holds no data."""
    named = sum(1 for j in blanks if j < len(second) and second[j])
    has_numbers = any(is_plain(cell) for cell in second)
    then = any(is_plain(cell) for record in records for cell in record)
    return 2 * named > len(blanks) and not has_numbers and then


def _below_header(records: list[list[str]]) -> int:
    """Return how many records below the header say what columns are: units, questions, keys."""
    for number, record in enumerate(records[1:4], 1):
        filled = [cell for cell in record if cell.strip()]
        if filled and all(cell.lstrip().startswith('{"ImportId"') for cell in filled):
            return number  # Qualtrics
    second = [cell.strip() for cell in records[1]] if len(records) > 1 else []
    is_below = len(second) == len(records[0]) and (
        _are_units(second, records[2:]) or _are_words(second, records[2:])
    )
    return int(is_below)


def _are_words(second: list[str], records: list[list[str]]) -> bool:
    """Whether a record has words for columns that are numbers below, and nothing that recurs."""
    words = 0
    for j, cell in enumerate(second):
        below = [r[j].strip() for r in records if j < len(r) and r[j].strip()]
        if not cell or cell in below or is_missing(cell) or is_unknown(cell) or numeral(cell):
            return False
        words += len(below) >= _UNIT_ROWS and all(map(is_plain, below))
    return words > 1


def _are_units(second: list[str], records: list[list[str]]) -> bool:
    """Whether a record has the units of columns of numbers, and nothing of other columns."""
    units = 0
    for j, cell in enumerate(second):
        below = [r[j].strip() for r in records if j < len(r) and r[j].strip()]
        numbers = sum(bool(is_plain(c) or numeral(c)) for c in below)
        is_number = len(below) >= _UNIT_ROWS and numbers >= _MOST_NUMBERS * len(below)
        bare = cell.strip("()[] ")
        is_gap = is_missing(cell) or is_unknown(cell)
        is_unit = 0 < len(bare) <= _LONG_UNIT and not bare[0].isdigit() and not is_gap
        is_remark = not is_number and (cell != bare or cell == "-")  # "(name)"
        if cell and not (is_number and is_unit) and not is_remark:
            return False
        units += bool(cell) and is_number
    return units > 0


# Tables -------------------------------------------------------------------------------------------


class Delimited(Table):
    """Cells with separators between them, the first record being the names of the columns.

    `text` is what stands in the file, where there is none.
    """

    names: list[str] = []  # noqa: RUF012
    _header_rows = 1

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path, self._text = path, text
        if text is None:
            self.size = path.stat().st_size
            surveyed = survey(path)
        else:
            surveyed = TextSurvey("utf-8", [], bool(text.count('"') % 2))
        self._encoding, notes, has_odd_quotes = surveyed
        try:
            with self._open() as file:
                start = file.read(_SAMPLE)
        except UnicodeError as error:
            raise ValueError(
                f"{path} is no text in {self._encoding}: {error}. Save it as UTF-8."
            ) from error
        if "\0" in start:
            line = 1 + start[: start.index("\0")].count("\n")
            raise ValueError(
                f"{path} has bytes that are 0 in line {line}: it is no text, or UTF-16 without a "
                "mark at its beginning. Save it as UTF-8."
            )
        tabs = ending(path) in (".tsv", ".tab") or (text and "\t" in start.partition("\n")[0])
        self._dialect = _dialect(start, "\t" if tabs else ",", path.name)
        self.decimal = self._dialect.decimal
        records = [cells for _, _, cells in islice(self._records(), _RECORDS)]
        header, self._header_rows, more = header_of(records, path.name)
        if text is not None and more:  # nobody would see what was made of it
            header, self._header_rows, more = records[0], 1, []
        self.has_entities = _ENTITY(start) is not None
        if self.has_entities:
            more.append(
                f"{path.name}: &amp; and the like, from HTML, are read as the signs they stand for"
            )
        super().__init__(path, header, [*notes, *self._dialect.notes, *more])
        if has_odd_quotes or self._dialect.loose:
            self._check_rows()

    def _bytes(self) -> AbstractContextManager[IO[bytes]]:
        return open_bytes(self.path) if self._text is None else io.BytesIO(self._text.encode())

    def _open(self) -> AbstractContextManager[TextIO]:
        return as_text(self._bytes(), self._encoding)

    def batches(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns as texts."""
        if self._dialect.loose:
            yield from self._filled_batches(columns, 0)
            return
        pa, done = load_pyarrow(), 0
        width = sum(map(len, self.names)) + len(self.names)
        block = max(_PART_BYTES, _FEW_ROWS * width)
        while True:
            skip = done  # rows that were read before
            try:
                for batch in self._read(columns, block):
                    new = batch.slice(min(skip, batch.num_rows))
                    skip -= batch.num_rows - new.num_rows
                    done += new.num_rows
                    yield new
                return
            except (pa.ArrowInvalid, UnicodeError) as error:
                if "straddling" not in str(error) or block >= 4 * LONGEST:
                    self._check_rows()
                    if not self.filled_up:
                        raise ValueError(f"{self.path} is no CSV file: {error}. {_SAVE}") from error
                    yield from self._filled_batches(columns, done)
                    return
                block = 4 * LONGEST  # a row is longer than a block; a letter has up to 4 bytes

    def _read(self, columns: list[str], n_bytes: int) -> Iterator[pa.RecordBatch]:
        csv = load_pyarrow().csv
        read = csv.ReadOptions(
            column_names=self.names,
            skip_rows=self._dialect.skip,
            skip_rows_after_names=self._header_rows,
            block_size=n_bytes,
            encoding=self._encoding.removesuffix("-sig"),
        )
        parse = csv.ParseOptions(
            delimiter=self._dialect.delimiter,
            quote_char=self._dialect.quote,
            newlines_in_values=True,
            ignore_empty_lines=len(self.names) > 1,
        )
        types = dict.fromkeys(columns, load_pyarrow().string())
        convert = csv.ConvertOptions(column_types=types, include_columns=columns)
        with self._bytes() as file:
            yield from csv.open_csv(file, read, parse, convert)

    def _records(self) -> Iterator[tuple[int, int, list[str]]]:
        """Yield number, line and cells of each record; number 0 is the last of the header.

        An error says which line is no CSV.
        """
        number, last = 1 - self._header_rows, 0
        with self._open() as file:
            lines = Lines(file, self.path)
            try:
                for _ in range(self._dialect.skip):
                    last += bool(next(lines))
                for cells in self._dialect.records(lines):
                    lines.end_row()
                    last = lines.number
                    if cells or number <= 0 or len(self.names) == 1:  # no empty line
                        yield number, last, cells or [""]
                        number += 1
            except (csv.Error, UnicodeError) as error:
                if "field limit" in str(error) and number:  # a long cell, which pyarrow can read
                    return
                remedy = _CLOSE if "unexpected end of data" in str(error) else _SAVE
                raise ValueError(
                    f"{self.path} is no CSV file: {error}, in the row that begins in line "
                    f"{last + 1}. {remedy}"
                ) from error

    def _check_rows(self) -> None:
        """Raise for the first row that is no CSV, or has more cells than the header.

        Rows with fewer are counted: what they lack is missing.
        """
        width, short, first = len(self.names), 0, ""
        for number, line, cells in self._records():
            if any(map(str.strip, cells[width:])) and number > 0:
                raise ValueError(
                    f"{self.path}: row {number} (line {line}) has {len(cells)} cells, and the "
                    f"header {width}. Quote cells that have a {self._dialect.delimiter!r} in "
                    "them."
                )
            if len(cells) != width and number > 0:
                first = first or f"row {number} (line {line}), which has {len(cells)}"
                short += 1
        if short:
            rows = f"{short:,} rows do" if short > 1 else "a row does"
            self.filled_up = (
                f"{self.path.name}: {rows} not have the {width} cells of the header; what is "
                f"lacking is taken as missing. The first is {first}"
            )

    def _filled_batches(self, columns: list[str], done: int) -> Iterator[pa.RecordBatch]:
        """Yield columns as texts, after the `done` rows; cells that a row lacks are missing."""
        pa, place = load_pyarrow(), [self.names.index(name) for name in columns]
        records = (cells for number, _, cells in self._records() if number > done)
        while block := list(islice(records, _FILLED_ROWS)):
            arrays = [
                pa.array([row[j] if j < len(row) else None for row in block], pa.string())
                for j in place
            ]
            yield pa.record_batch(arrays, names=columns)

    def place(self, row: int) -> str:
        """Return the place of a row in words, with its line, for which the file is read again."""
        lines = (line for number, line, _ in self._records() if number == row)
        line = next(lines, None)
        return f"row {row}" if line is None else f"row {row}, line {line}"
