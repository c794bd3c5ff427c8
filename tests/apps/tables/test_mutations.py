"""Tables as strangers left them, changed as files get changed: read as before, or named.

With $SKOUT_DATA set, excerpts of the 21 tables of strangers; without it, the one made by hand here.
"""

import bz2
import csv
import gzip
import io
import lzma
import os
import warnings
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from skout.apps.cli.looking import look_at_table
from skout.apps.tables.files import open_table

ROWS = 40
BY_HAND = [["title", "year", "genres", "price", "seen"]] + [
    [
        f"The café, part {i % 9} of it all",
        str(1950 + i),
        ("Drama, War", "War", "Comedy, Drama", "Comedy")[i % 4],
        f"{3.25 * i:.2f}",
        ("yes", "no", "")[i % 3],
    ]
    for i in range(ROWS)
]


def _excerpts():
    place = Path(os.environ.get("SKOUT_DATA", "")) / "tables"
    tables = {"by hand": BY_HAND}
    for path in sorted(place.glob("*.csv.gz")) if "SKOUT_DATA" in os.environ else ():
        if path.name.startswith("starwars"):  # its header has two lines
            continue
        content = gzip.decompress(path.read_bytes())
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("cp1252", errors="replace")
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        names = [name for name in rows[0] if name]
        if len(set(names)) == len(rows[0]):
            tables[path.name.removesuffix(".csv.gz")] = rows[: ROWS + 1]
    return tables


TABLES = _excerpts()


def written(rows, sign=",", quoting=csv.QUOTE_MINIMAL, end="\n", quote='"'):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=sign, quoting=quoting, lineterminator=end, quotechar=quote)
    writer.writerows(rows)
    return file.getvalue()


def _zipped(rows):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("folder/table.csv", written(rows))
        archive.writestr("__MACOSX/folder/._table.csv", "junk")
    return file.getvalue()


def _zstandard(rows):
    import pyarrow as pa

    file = pa.BufferOutputStream()
    with pa.CompressedOutputStream(file, "zstd") as stream:
        stream.write(written(rows).encode())
    return file.getvalue().to_pybytes()


def _windows(rows):
    return written(rows).encode("cp1252", errors="replace")


# Each makes a file of the rows in which columns are what they were: (end of the name, bytes).
SAME = {
    "UTF-8 with a mark": lambda rows: ("csv", written(rows).encode("utf-8-sig")),
    "UTF-16, little end first": lambda rows: ("csv", written(rows).encode("utf-16")),
    "UTF-16, big end first": lambda rows: (
        "csv",
        b"\xfe\xff" + written(rows).encode("utf-16-be"),
    ),
    "semicolons": lambda rows: ("csv", written(rows, ";").encode()),
    "tabs": lambda rows: ("tsv", written(rows, "\t").encode()),
    "tabs in a .csv": lambda rows: ("csv", written(rows, "\t").encode()),
    "bars": lambda rows: ("csv", written(rows, "|", csv.QUOTE_ALL).encode()),
    "all cells in quotes": lambda rows: ("csv", written(rows, quoting=csv.QUOTE_ALL).encode()),
    "single quotes": lambda rows: (
        "csv",
        written(rows, quoting=csv.QUOTE_ALL, quote="'").encode(),
    ),
    "ends of lines of Windows": lambda rows: ("csv", written(rows, end="\r\n").encode()),
    "ends of lines of an old Mac": lambda rows: ("csv", written(rows, end="\r").encode()),
    "declared for Excel": lambda rows: ("csv", ("sep=;\n" + written(rows, ";")).encode()),
    "comments before": lambda rows: ("csv", ("# from a shop\n" + written(rows)).encode()),
    "a title before": lambda rows: ("csv", ("My table\n" + written(rows)).encode()),
    "blank lines at the end": lambda rows: ("csv", (written(rows) + "\n\n\n").encode()),
    "no end of the last line": lambda rows: ("csv", written(rows).rstrip("\n").encode()),
    "gzip": lambda rows: ("csv.gz", gzip.compress(written(rows).encode())),
    "bzip2": lambda rows: ("csv.bz2", bz2.compress(written(rows).encode())),
    "xz": lambda rows: ("csv.xz", lzma.compress(written(rows).encode())),
    "zip": lambda rows: ("csv.zip", _zipped(rows)),
    "zip without a name": lambda rows: ("zip", _zipped(rows)),
    "zstandard": lambda rows: ("csv.zst", _zstandard(rows)),
    "spaces around cells": lambda rows: (
        "csv",
        written([[f" {cell} " for cell in row] for row in rows]).encode(),
    ),
    "capitals in the name": lambda rows: ("CSV", written(rows).encode()),
    "another order of columns": lambda rows: (
        "csv",
        written([row[::-1] for row in rows]).encode(),
    ),
}
# Each makes a file that is read with a word on what is odd, or refused with line and remedy.
ODD = {
    "the last row is cut": lambda rows: written(rows)[:-12].encode(),
    "a row is too short": lambda rows: written([*rows, rows[1][:-1]]).encode(),
    "a row is too long": lambda rows: written([*rows, [*rows[1], "more"]]).encode(),
    "commas behind all rows": lambda rows: written(
        [rows[0], *([*row, ""] for row in rows[1:])]
    ).encode(),
    "a quote that is never closed": lambda rows: (written(rows) + '1,"2').encode(),
    "a byte of 0": lambda rows: written(rows).encode().replace(b"\n", b"\0\n", 3),
    "UTF-16 without a mark": lambda rows: written(rows).encode("utf-16-le"),
    "Windows-1252": _windows,
    "Latin-1 with odd bytes": lambda rows: written(rows).encode() + b'"\x81\x8d"\n',
    "a name twice": lambda rows: written([[rows[0][0], *rows[0][:-1]], *rows[1:]]).encode(),
    "no names": lambda rows: written(rows[1:]).encode(),
    "totals at the end": lambda rows: written(
        [*rows, ["Total", *["" for _ in rows[0][1:]]]]
    ).encode(),
    "a row of units": lambda rows: written([rows[0], ["" for _ in rows[0]], *rows[1:]]).encode(),
    "half a gzip": lambda rows: gzip.compress(written(rows).encode())[:-20],
    "a word among the numbers": lambda rows: written([*rows, [*rows[1][:-1], "n.d."]]).encode(),
}


def looked(content, end, tmp_path):
    path = tmp_path / f"table.{end}"
    path.write_bytes(content)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        table = open_table(path)
        looks = {one["column"]: (one["kind"], one["missing"]) for one in look_at_table(table)}
    return looks, " ".join([*table.notes, *(str(one.message) for one in told)])


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What columns are in the files as they are."""
    place = tmp_path_factory.mktemp("plain")
    return {name: looked(written(rows).encode(), "csv", place)[0] for name, rows in TABLES.items()}


@pytest.mark.parametrize("mutation", SAME)
def test_what_files_are_saved_as_changes_nothing(mutation, plain, tmp_path):
    for name, rows in TABLES.items():
        letters = {"single quotes": "'", "ends of lines of an old Mac": "\n"}.get(mutation, "\0")
        if any(letters in cell for row in rows for cell in row):  # which Python then leaves bare
            continue
        end, content = SAME[mutation](rows)
        looks, _ = looked(content, end, tmp_path)
        assert dict(sorted(looks.items())) == dict(sorted(plain[name].items())), name


@pytest.mark.parametrize("mutation", ODD)
def test_what_is_odd_is_said_or_named(mutation, tmp_path):
    for name, rows in TABLES.items():
        content = ODD[mutation](rows)
        end = "csv.gz" if "gzip" in mutation else "csv"
        looks, said, refused = {}, "", ""
        try:
            looks, said = looked(content, end, tmp_path)
        except ValueError as error:
            refused = str(error)
        if refused:
            remedies = ("line", "UTF-8", "Save", "end", "name")
            assert "table.csv" in refused, name
            assert any(word in refused for word in remedies), refused
            continue
        assert len(looks) >= len(rows[0]), name
        is_plain = mutation == "Windows-1252" and content.isascii()
        if mutation in ("a row is too short", "Windows-1252", "a name twice"):
            assert said or is_plain, name


def test_a_hundred_thousand_columns(tmp_path):
    names = [f"x{j}" for j in range(100_000)]
    rows = [",".join(str((i * j) % 7) for j in range(len(names))) for i in range(1, 13)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join(names), *rows]) + "\n")
    table = open_table(path)
    [part] = table.parts(names[-2:], names[:1])
    assert part.numbers.shape == (12, 2)
    assert len(table.names) == 100_000
