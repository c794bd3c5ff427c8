"""Write results: rows as CSV, JSON lines or parquet, and records and numbers for people."""

import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from skout.dev import check_choice, replacing
from skout.dev import check_place as check_writable

FORMATS = ("csv", "jsonl", "parquet")
#: A block of rows: equally long lists by the name of their column.
Columns = dict[str, list[Any]]


def check_place(path: Path, option: str, read: Sequence[Path | None] = ()) -> None:
    """Raise, before any work, if a file cannot be written, or is one of those that are read."""
    check_writable(path, option)
    for other in read:
        if other is not None and path.exists() and other.exists() and path.samefile(other):
            raise ValueError(
                f"{option} {str(path)!r} is {str(other)!r}, which the command reads, and would be "
                "lost. Give another name."
            )


def check_page(path: Path, read: Sequence[Path | None] = ()) -> None:
    """Raise, before any work, if --out does not end in .html, or cannot be written."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--out must end in .html. Got {str(path)!r} instead.")
    check_place(path, "--out", read)


def check_format(out: str, given: str | None, read: Sequence[Path | None] = ()) -> str:
    """Return the format of --out, given or by its ending, or raise before any work.

    `-` is standard output. The file must be none of those that are `read`.
    """
    if given is not None:
        check_choice(given, "--format", FORMATS)
    if out == "-":
        if given == "parquet":
            raise ValueError("--format parquet needs a file: give -o FILE.parquet.")
        return given or "csv"
    path = Path(out)
    check_place(path, "--out", read)
    form = given or path.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise ValueError(f"--out must end in .csv, .jsonl or .parquet. Got {out!r} instead.")
    if form == "parquet":
        from ..tables.files import load_pyarrow

        load_pyarrow()  # says what to install
    return form


def write_rows(blocks: Iterable[Columns], out: str, form: str) -> int:
    """Write blocks of rows in one of `FORMATS`, and return the number of rows.

    `out` is a path, or `-` for standard output. A file appears when all is written; into a pipe or
    a device rows are written at once.
    """
    if out == "-":
        return _WRITERS[form](blocks, sys.stdout)
    with replacing(out) as part:
        if form == "parquet":
            with open(part, "wb") as binary:
                return _write_parquet(blocks, binary)
        with open(part, "w", encoding="utf-8", newline="") as file:
            return _WRITERS[form](blocks, file)


def as_csv(blocks: Iterable[Columns]) -> str:
    """Return blocks of rows as the text of a CSV file."""
    file = io.StringIO(newline="")
    _write_csv(blocks, file)
    return file.getvalue()


def as_records(blocks: Iterable[Columns]) -> Iterator[dict[str, Any]]:
    """Yield a dict for each row of the blocks."""
    for block in blocks:
        for row in zip(*block.values(), strict=True):
            yield dict(zip(block, row, strict=True))


def _n_rows(block: Columns) -> int:
    return len(next(iter(block.values())))


def _write_csv(blocks: Iterable[Columns], file: TextIO) -> int:
    n, writer = 0, csv.writer(file, lineterminator="\n")
    for number, block in enumerate(blocks):
        if number == 0:
            writer.writerow(block)
        writer.writerows(zip(*block.values(), strict=True))
        n += _n_rows(block)
    return n


def _write_jsonl(blocks: Iterable[Columns], file: TextIO) -> int:
    n = 0
    for record in as_records(blocks):
        file.write(json.dumps(record, ensure_ascii=False) + "\n")
        n += 1
    return n


def _write_parquet(blocks: Iterable[Columns], file: BinaryIO) -> int:
    from ..tables.files import load_pyarrow

    arrow = load_pyarrow()
    n, writer = 0, None
    try:
        for block in blocks:
            table = arrow.table(block)
            if writer is None:
                writer = arrow.parquet.ParquetWriter(file, table.schema)
            writer.write_table(table)
            n += _n_rows(block)
    finally:
        if writer is not None:
            writer.close()
    return n


_WRITERS = {"csv": _write_csv, "jsonl": _write_jsonl}


def show(record: dict[str, Any], as_json: bool) -> None:
    """Print the names and values of a record in lines, or as JSON."""
    if as_json:
        print(json.dumps(record, indent=2, ensure_ascii=False))
        return
    width = max([18, *(len(name) + 2 for name in record)])
    for name, value in record.items():
        if isinstance(value, list):
            value = ", ".join(map(str, value[:5])) + (" ..." if len(value) > 5 else "")
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        words = name if ":" in name else name.replace("_", " ")  # a target keeps its name
        print(f"{words:{width}}{shown}")


def digits(value: float, n: int = 3) -> str:
    """Return a number with n significant digits, as people write it.

    Examples
    --------
    >>> from skout.apps.cli.results import digits
    >>> [digits(value) for value in (0.87654, 14070.3, 2.0, 0.8, -0.00012345)]
    ['0.877', '14,100', '2', '0.800', '-0.000123']
    >>> digits(193.7, 2)
    '190'
    """
    if not math.isfinite(value) or abs(value) >= 1e15:
        return f"{value:.{n}g}"
    shown = float(f"{value:.{n}g}") + 0.0  # no -0
    if shown == round(shown):
        return f"{shown:,.0f}"
    return f"{shown:#.{n}g}".rstrip(".")


def say_written(n: int, out: str) -> None:
    """Print how many rows were written, unless to the terminal."""
    if out != "-":
        print(f"wrote {n:,} rows to {out}")


def describe_file(path: Path, *, parts: bool = False) -> dict[str, Any]:
    """Return what `skout.persistence.describe` says of a model's file; errors name the file."""
    from skout.persistence import FileError, describe

    if not path.is_file():
        raise FileNotFoundError(f"There is no model {str(path)!r}.")
    try:
        return describe(path, parts=parts)
    except FileError as error:
        raise FileError(f"{path}: {error}") from error


def value_at(value: Any, *names: str) -> Any:
    """Return the value under names in nested dicts, None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def size_text(n_bytes: int) -> str:
    """Return a number of bytes in kB, MB or GB."""
    size, unit = float(n_bytes), "bytes"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}"
