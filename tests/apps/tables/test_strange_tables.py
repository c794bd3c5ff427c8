"""Tiny tables as strangers send them, and what a person would read in each.

A case is a column: its cells, the kind that a person takes it for, and for numbers and dates the
values. Files are whole texts, with what their columns must be.
"""

import gzip
import warnings

import numpy as np
import pytest

from skout import TableEncoder, Tuned
from skout.apps.cli.looking import look_at_table
from skout.apps.tables.dates import parse_dates
from skout.apps.tables.files import Reading, open_table
from skout.apps.tables.kinds import look_at
from skout.apps.tables.numerals import is_missing
from skout.apps.tables.reading import as_numbers

NAN = np.nan


def column(cells, times=4):
    values = np.empty(times * len(cells), dtype=object)
    values[:] = [None if is_missing(cell) else cell for cell in list(cells) * times]
    return values


# name: (cells, values)
NUMBERS = {
    "percentages": (["45%", "7.5 %", "100%"], [45, 7.5, 100]),
    "shares and percentages": (["0.45", "50%", "0.1"], [0.45, 0.5, 0.1]),
    "currency codes before": (["USD 1,200", "USD 35", "USD 7.50"], [1200, 35, 7.5]),
    "currency codes behind": (["1.200,50 EUR", "35 EUR", "7,25 EUR"], [1200.5, 35, 7.25]),
    "currencies with a country": (["US$ 3", "US$ 1,250", "US$ 40"], [3, 1250, 40]),
    "rupees": (["Rs. 500", "Rs. 1,00,000", "Rs. 75"], [500, 100000, 75]),
    "thousands and millions": (["$1.2M", "$850K", "$2.5B", "$900"], [1.2e6, 8.5e5, 2.5e9, 900]),
    "words for millions": (["1.5 million", "3 million", "750 thousand"], [1.5e6, 3e6, 7.5e5]),
    "accountants' minus": (["(1,234)", "500", "(20)"], [-1234, 500, -20]),
    "thousands with blanks": (["1 234", "12 345", "999"], [1234, 12345, 999]),
    "thousands with apostrophes": (["1'234", "12'345.5", "999"], [1234, 12345.5, 999]),
    "thousands in India": (["12,34,567", "1,00,000", "5"], [1234567, 100000, 5]),
    "decimal commas": (["1,5", "2,25", "1.234,5"], [1.5, 2.25, 1234.5]),
    "marks of five": (["3 of 5", "5 of 5", "1 of 5"], [3, 5, 1]),
    "marks of ten": (["7/10", "9/10", "10/10"], [7, 9, 10]),
    "out of": (["3 out of 4", "4 out of 4", "1 out of 4"], [3, 4, 1]),
    "durations": (["1h 20m", "45m", "2h"], [80, 45, 120]),
    "durations in words": (["1 hour 20 minutes", "45 minutes", "2 hours"], [80, 45, 120]),
    "times of the day": (["14:30", "09:05", "23:59"], [870, 545, 1439]),
    "times with am and pm": (["2:30 PM", "12:05 am", "11:00 AM"], [870, 5, 660]),
    "ages of animals": (["3 years", "8 months", "1 year"], [1577880, 350640, 525960]),
    "latitudes": (["40°26'N", "33°52'S", "0°0'N"], [40 + 26 / 60, -33 - 52 / 60, 0]),
    "longitudes": (["79.98° W", "151.2° E", "0.5° E"], [-79.98, 151.2, 0.5]),
    "heights": (["5'11\"", "6'0\"", "5'4\""], [71, 72, 64]),
    "weights in two units": (["500 g", "1.5 kg", "2 kg"], [0.5, 1.5, 2]),
    "places in a race": (["1st", "2nd", "13th"], [1, 2, 13]),
    "numbers of houses": (["#12", "#7", "#101"], [12, 7, 101]),
    "errors of measurement": (["12.3 ± 0.4", "11.0 ± 0.2", "9.8 ± 0.3"], [12.3, 11, 9.8]),
    "temperatures": (["23 °C", "-5 °C", "0.5 °C"], [23, -5, 0.5]),
    "minus of typographers": (["−5", "12", "−0.5"], [-5, 12, -0.5]),
    "footnotes": (["12*", "7 [1]", "9"], [12, 7, 9]),
    "missing in words": (
        [*["12", "7", "9"] * 5, "n.d.", "N.A.", "-"],
        [*[12, 7, 9] * 5, *[NAN] * 3],
    ),
    "units of two words": (["55 sq ft", "1,200 sq ft", "80 sq ft"], [55, 1200, 80]),
    "units in other letters": (["289 руб.", "35 руб.", "1 200 руб."], [289, 35, 1200]),
    "one and several": (["1 bath", "2.5 baths", "3 baths"], [1, 2.5, 3]),
    "percent of something": (["14.8% ABV", "12% ABV", "5.5% ABV"], [14.8, 12, 5.5]),
    "stars": (["4.5 out of 5 stars", "3 out of 5 stars"], [4.5, 3]),
    "south and north": (["65.5 S", "12.25 N", "0.5 S"], [-65.5, 12.25, -0.5]),
    "laps": (["2:14.500", "1:03.250", "59:10.0"], [2 + 14.5 / 60, 1 + 3.25 / 60, 59 + 10 / 60]),
    "spans of ISO": (["PT1H20M", "PT45M30S", "PT2H"], [80, 45.5, 120]),
    "spans of pandas": (["4 days 03:30:00", "0 days 00:45:00"], [4 * 1440 + 210, 45]),
    "years and ranges": (
        ["1907–09", "about 1910", *map(str, range(1850, 1862))],
        [1908, 1910, *range(1850, 1862)],
    ),
    "a word for all the others": (
        [*map(str, range(101, 113)), *["NV"] * 8],
        [*range(101, 113), *[NAN] * 8],
    ),
    "seasons": (["2009-10", "2012-13", "1999-00", "2011–12"], [2009, 2012, 1999, 2011]),
    "seasons and years": (["2012/2013", "2014", "2015 / 2016"], [2012, 2014, 2015]),
    "some heights in feet": ([*map(str, range(60, 80)), "5' 4\""], [*range(60, 80), 64]),
    "decades": (["1985", "1990s", "2004", "1991"] * 5, [1985, 1990, 2004, 1991] * 5),
    "at least so many years": (["10+ years", "3 years", "4 or more years"], [10, 3, 4]),
    "no numbers at all": ([*map(str, range(20)), "Inf"], [*range(20), NAN]),
    "serial dates of Excel": (["44197", "44228", "44256"], [44197, 44228, 44256]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_as_people_write_them(name):
    cells, expected = NUMBERS[name]
    values = column(cells)
    look = look_at("x", values)
    assert look.kind == "number"
    read, _ = as_numbers(values, "x", look.writing)
    np.testing.assert_allclose(read[: len(cells)], expected)


# name: (cells, days)
DATES = {
    "months of a year": (["Jan 2020", "March 2021", "Dec 2019"], ["2020-01-01", "2021-03-01"]),
    "years and months": (["2020-03", "2021-12", "2019-01"], ["2020-03-01", "2021-12-01"]),
    "months with slashes": (["05/2020", "12/2021", "3/2019"], ["2020-05-01", "2021-12-01"]),
    "quarters": (["Q1 2024", "Q4 2023", "Q2 2024"], ["2024-01-01", "2023-10-01"]),
    "ordinals": (["5th May 2024", "1st June 2023", "22nd Jan 2024"], ["2024-05-05", "2023-06-01"]),
    "weekdays": (["Monday, 6 May 2024", "Tue, 7 May 2024"], ["2024-05-06", "2024-05-07"]),
    "German": (["3. März 2023", "24. Mai 2022"], ["2023-03-03", "2022-05-24"]),
    "Spanish": (["1 de mayo de 2024", "5 de enero de 2023"], ["2024-05-01", "2023-01-05"]),
    "Japanese": (["2024年5月1日", "2023年12月31日"], ["2024-05-01", "2023-12-31"]),
    "SAS": (["15MAY2022", "03JAN2016"], ["2022-05-15", "2016-01-03"]),
    "months of years in two digits": (["Dec-13", "Jan-20"], ["2013-12-01", "2020-01-01"]),
    "logs": (["[08/Mar/2021:05:06:00 +0000]", "[9/Apr/2021:05:06:00 +0000]"], ["2021-03-08"]),
    "date of Unix": (["Mon Mar 08 05:06:00 +0000 2021", "Tue Apr 6 01:02:03 2021"], ["2021-03-08"]),
    "zones": (["2024-05-01T23:30:00-05:00", "2024-05-02 10:00 CEST"], ["2024-05-02"] * 2),
    "ranges beside days": (["2/1/2011-3/15/2011", "1/11/2012"], ["2011-02-01", "2012-01-11"]),
    "ranges in words": (["3 May 2020 to 5 May 2020", "7 May 2020"], ["2020-05-03", "2020-05-07"]),
    "ranges of ISO": (["2020-05-03/2020-06-01", "2020-05-07"], ["2020-05-03", "2020-05-07"]),
    "ranges with hyphens": (["2020-05-03-2020-06-01", "2020-05"], ["2020-05-03", "2020-05-01"]),
}


@pytest.mark.parametrize("name", DATES)
def test_dates_of_the_world(name):
    cells, days = DATES[name]
    assert look_at("x", column(cells, 8)).kind == "date"
    read = parse_dates(cells)[: len(days)].astype("datetime64[D]")
    assert read.astype(str).tolist() == days


# name of the column: (cells, kind)
NAMES = {
    "nace": (["25.30", "10.71", "47.10", "62.01"], "category"),
    "zip_code": (["90210", "10001", "60614"], "category"),
    "customerId": (["17", "23", "5"], "category"),
    "version": (["3.9", "3.10", "3.11"], "category"),
    "cases": (["17", "23", "5"], "number"),
    "hs_grad": (["87.4", "90.1", "76.5"], "number"),  # no codes of goods
    "income_zip": (["11.3624", "11.0071", "10.5"], "number"),
    "yearID": (["1999", "2001", "2002"], "number"),
    "games": (["2024 Summer", "2020 Summer", "1924 Winter"], "category"),
    "variant": (["1/2", "2/2", "1/1"], "category"),
    "goods": (["01.11", "25.30", "47.11"], "category"),  # a 0 before another digit
    "age": (["18-24", "25-34", "35-44", "65+"], "category"),
    "staff": (["1", "2-5", "6-10", "0", "1"], "category"),
    "browser": (["A/5 (X11; Linux)", "A/5 (NT 10; Win64)", "B/4 (X11; Linux)"], "category"),
}


@pytest.mark.parametrize("name", NAMES)
def test_numbers_that_are_names(name):
    cells, kind = NAMES[name]
    assert look_at(name, column(cells, 8)).kind == kind


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("Belegnr.", [f"51002{i * 37 % 100:02d}" for i in range(40)]),
        ("ean", [str(8 * 10**12 + i * i) for i in range(40)]),
        ("contact", [f"+49 159 45{i:02d}670" for i in range(40)]),
        ("isbn_10", [f"{140003 + i * i}06{i % 10 or 'X'}" for i in range(40)]),
        ("caseid", [f"13:{i * 37 % 100}:{i % 3}" for i in range(40)]),
        ("track_id", [f"3fvsx{chr(97 + i % 20)}m{'ytT' * (i % 37)}" for i in range(40)]),
        ("item_id", [str(79 * 10**6 + 77 * (i - (i % 4 == 3))) for i in range(40)]),
    ],
)
def test_ids_by_name_or_by_their_digits(name, cells):
    assert look_at(name, column(cells, 1)).kind == "id"


def test_ids_in_a_frame_of_numbers_are_no_inputs():
    rng = np.random.default_rng(0)
    X = {"id": rng.permutation(60).astype(float), "size": rng.standard_normal(60)}
    model = Tuned("numbers", budget="1 fits", random_state=0).fit(X, X["size"])
    assert model.encoder_.left_out_ == {"id": "all values differ"}


def test_ranges_of_dates_are_counted_once():
    cells = ["1/11/2012", "2/1/2011-3/15/2011", "4/2/2012", "5/7/2012-6/30/2012", "9/21/2012"]
    X = {"day": column(cells, 8), "size": np.arange(40.0) % 7}
    with pytest.warns(UserWarning, match="16 of 40 cells are a range of dates") as caught:
        encoder = TableEncoder().fit(X)
    assert len(caught) == 1
    assert "the first '2/1/2011-3/15/2011' in row 2" in str(caught[0].message)
    assert encoder.kinds_["day"] == "date"


def test_look_tells_of_ranges_of_dates(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "rows.csv"
    days = ["1/21/2012", "2/1/2011-3/15/2011", "4/2/2012"]
    path.write_text("day,size\n" + "".join(f"{days[i % 3]},{i}\n" for i in range(30)))
    day = look_at_table(open_table(path))[0]
    assert day["kind"] == "date"
    assert day["note"].startswith("column 'day': 10 of 30 cells are a range of dates")


def test_null_of_databases_is_missing(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "rows.csv"
    path.write_text("size,kind\n" + "1,a\n\\N,b\n3,\\N\n" * 8, encoding="utf-8")
    table = open_table(path)
    kinds = {line["column"]: (line["kind"], line["missing"]) for line in look_at_table(table)}
    assert kinds == {"size": ("number", 8), "kind": ("category", 8)}


def test_texts_of_few_words_make_no_columns_of_rounding_errors():
    colors = ["red", "blue", "green"]
    notes = [f"said well, then {colors[i % 3]}, and left {i}" for i in range(40)]
    encoder = TableEncoder().fit({"note": column(notes, 1)})
    assert encoder.kinds_ == {"note": "text"}
    assert encoder.transform({"note": column(notes, 1)}).std(axis=0).min() > 1e-4


# name: (cells, kind, separator)
WORDS = {
    "yes, no, not available": (["Yes", "No", "N.A.", "yes"], "category", ""),
    "Likert": (["Strongly agree", "Agree", "Neutral", "Disagree"], "category", ""),
    "ranges of ages": (["25-34", "35-44", "18-24", "65+"], "category", ""),
    "ranges of incomes": (["$0 - $24,999", "$25,000 - $49,999", "$50,000 +"], "category", ""),
    "under and over": (["under 18", "18 or older", "unknown"], "category", ""),
    "months alone": (["Jan", "Feb", "Mar", "Jan"], "category", ""),
    "postal codes": (["01234", "10115", "00501"], "category", ""),
    "versions": (["1.2.3", "1.10.0", "2.0.1"], "category", ""),
    "emoji": (["😀", "😢", "😐", "😀"], "category", ""),
    "check marks": (["✓", "✗", "✓"], "category", ""),
    "names": (["Auerbach, Frank", "Freud, Lucian", "Bacon, Francis"], "category", ""),
    "places": (["Springfield, IL", "Salem, OR", "Dover, NY"], "category", ""),
    "answers with commas": (["Yes, often", "Yes, once", "No"], "category", ""),
    "select all that apply": (["Email;Phone", "Phone", "Email;Post", "Post"], "set", ";"),
    "with commas and blanks": (["tea, coffee", "coffee", "tea", "milk, tea, coffee"], "set", ","),
    "with bars": (["a|b", "b|c", "c", "a"], "set", "|"),
    "a word before the last": (
        ["red, white and blue", "red", "blue, white", "blue and red", "white"], "set", ", and ",
    ),
    "a list of JSON": (['["a", "b"]', '["b"]', '["c", "a"]', "[]"], "set", ","),
    "a list of Python": (["['a', 'b']", "['b']", "['c', 'a']", "['a']"], "set", ","),
    "line breaks": (["tea\ncoffee", "coffee", "tea", "milk\ntea"], "set", "\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_words_as_people_write_them(name):
    cells, kind, separator = WORDS[name]
    look = look_at("x", column(cells, 6))
    assert (look.kind, look.separator) == (kind, separator)


# Files --------------------------------------------------------------------------------------------

ROWS = [(f"{i % 7}", "abc"[i % 3], f"{1.5 * i}") for i in range(20)]
KINDS = {"size": "number", "kind": "category", "price": "number"}


def body(rows=ROWS, sign=","):
    return "".join(sign.join(row) + "\n" for row in rows)


PLAIN = "size,kind,price\n" + body()
EUROPE = "size;kind;price\n" + body([(a, b, c.replace(".", ",")) for a, b, c in ROWS], ";")
# name: (bytes, end of the name, a part of what is said or "", kinds)
FILES = {
    "plain": (PLAIN.encode(), "csv", "", KINDS),
    "a mark": (PLAIN.encode("utf-8-sig"), "csv", "", KINDS),
    "UTF-16": (PLAIN.encode("utf-16"), "csv", "", KINDS),
    "Windows-1252": (PLAIN.replace("c,", "ç,").encode("cp1252"), "csv", "Windows-1252", KINDS),
    "semicolons and decimal commas": (EUROPE.encode(), "csv", "decimal commas", KINDS),
    "tabs in a .csv": (PLAIN.replace(",", "\t").encode(), "csv", "separated by tabs", KINDS),
    "bars": (PLAIN.replace(",", "|").encode(), "csv", "separated by bars", KINDS),
    "ends of lines of Windows": (PLAIN.replace("\n", "\r\n").encode(), "csv", "", KINDS),
    "no end of the last line": (PLAIN.rstrip().encode(), "csv", "", KINDS),
    "blank lines": (PLAIN.replace("\n", "\n\n").encode(), "csv", "", KINDS),
    "comments before the header": (
        ("# exported by a shop\n# in May\n" + PLAIN).encode(), "csv", "before the header", KINDS,
    ),
    "a title before the header": (
        ("Prices of 2024,,\n\n" + PLAIN).encode(), "csv", "before the header", KINDS,
    ),
    "units below the header": (
        ("size,kind,price\ncm,,EUR\n" + body()).encode(), "csv", "has units", KINDS,
    ),
    "totals at the end": ((PLAIN + "Total,,285\n").encode(), "csv", "'Total', is left out", KINDS),
    "rows that are too short": (
        (PLAIN + "1,a\n").encode(), "csv", "row 21 (line 22), which has 2", KINDS,
    ),
    "cut in the middle of a row": (PLAIN[:-6].encode(), "csv", "taken as missing", KINDS),
    "a comma at the end of rows": (
        PLAIN.replace("\n", ",\n").replace("price,", "price").encode(), "csv", "'column 4'",
        {**KINDS, "column 4": "empty"},
    ),
    "names of rows, as R writes them": (
        ("size,kind,price\n" + body([(str(i), *row) for i, row in enumerate(ROWS)])).encode(),
        "csv", "'rownames'", {"rownames": "id", **KINDS},
    ),
    "single quotes": (
        ("'" + PLAIN.rstrip().replace(",", "','").replace("\n", "'\n'") + "'\n").encode(),
        "csv", "single quotes", KINDS,
    ),
    "entities of HTML": (
        PLAIN.replace("a,", "fish &amp; chips,").encode(), "csv", "HTML", KINDS,
    ),
    "line breaks in cells": (PLAIN.replace("a,", '"one\nword",').encode(), "csv", "", KINDS),
    "the separator that Excel declares": (b"sep=;\n" + EUROPE.encode(), "csv", "semicolons", KINDS),
    "repeated names": (
        PLAIN.replace("price", "size", 1).encode(), "csv", "several columns are called",
        {"size": "number", "kind": "category", "size_2": "number"},
    ),
    "names of two lines": (
        ("shape,,sale,\nsize,kind,price,tax\n" + body([(*row, "1") for row in ROWS])).encode(),
        "csv", "first two lines", {**KINDS, "tax": "constant"},
    ),
    "a single column of sets": (
        b"tags\nrun;road\nrun;trail\nride;road\nride;trail\nwalk;road\n", "csv", "",
        {"tags": "category"},
    ),
    "blanks after the separator": (
        ('"size", "kind"\n' + body([(a, f'"{b}"') for a, b, _ in ROWS], ",  ")).encode(),
        "csv", "beside quotes are left out", {"size": "number", "kind": "category"},
    ),
    "quotes behind a backslash": (
        ("size,kind,price\n" + body([(a, f'"{b} \\"x\\", y"', c) for a, b, c in ROWS])).encode(),
        "csv", "beside quotes are left out", KINDS,
    ),
    "blanks as separators": (
        ('"size" "kind" "price"\n' + body([(f'"{r[2]}"', *r) for r in ROWS], " ")).encode(),
        "txt", "separated by blanks", {"rownames": "id", **KINDS},
    ),
    "columns of one width": (
        "".join(f"{a:>6} {b:>6} {c:>8}\n" for a, b, c in [tuple(KINDS), *ROWS]).encode(),
        "csv", "separated by blanks", KINDS,
    ),
    "no header": (
        body([(*row, "2.5") for row in ROWS[1:]]).encode(), "csv", "the first line has values",
        {f"column {j}": kind for j, kind in enumerate([*KINDS.values(), "constant"], 1)},
    ),
    "names that are numbers": (
        ("900.5,910.5,kind\n" + body([(a, c, b) for a, b, c in ROWS])).encode(), "csv", "",
        {"900.5": "number", "910.5": "number", "kind": "category"},
    ),
    "compressed": (gzip.compress(PLAIN.encode()), "csv.gz", "", KINDS),
    "JSON lines": (
        "".join(f'{{"size": {a}, "kind": "{b}", "price": {c}}}\n' for a, b, c in ROWS).encode(),
        "jsonl", "", KINDS,
    ),
}  # fmt: skip


def opened(content, end, tmp_path):
    """Return what columns are taken for, and all that was said."""
    path = tmp_path / f"table.{end}"
    path.write_bytes(content)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        table = open_table(path)
        looks = look_at_table(table)
    return looks, " ".join([*table.notes, *(str(one.message) for one in told)])


@pytest.mark.parametrize("name", FILES)
def test_files_as_people_save_them(name, tmp_path):
    pytest.importorskip("pyarrow")
    content, end, said, kinds = FILES[name]
    looks, heard = opened(content, end, tmp_path)
    if kinds is not None:
        assert {look["column"]: look["kind"] for look in looks} == kinds
    assert said in heard
    if not said:
        assert heard == ""


# name: (text, parts of the message)
REFUSED = {
    "a cell too many": (PLAIN + "1,a,2,3\n", ["row 21 (line 22) has 4 cells", "Quote cells"]),
    "an open quote": (PLAIN + '1,"a,2\n3,b,4\n', ["line 22", "never closed"]),
    "nothing": ("", ["is empty"]),
    "a header alone": ("size,kind,price\n", ["no rows"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_named(name, tmp_path):
    pytest.importorskip("pyarrow")
    text, parts = REFUSED[name]
    with pytest.raises(ValueError, match=r"table\.csv") as error:
        opened(text.encode(), "csv", tmp_path)
    for part in parts:
        assert part in str(error.value)


def test_a_strict_reading_refuses_short_rows(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "table.csv"
    path.write_text(PLAIN + "1,a\n")
    table = open_table(path)
    with pytest.warns(UserWarning, match="taken as missing"):
        assert sum(map(len, table.parts([], table.names))) == len(ROWS) + 1
    with pytest.raises(ValueError, match=r"row 21 \(line 22\), which has 2. Mend these rows"):
        list(table.parts([], table.names, Reading(strict=True)))


HEAD = "name,age,size\n"
MESSY = {
    "keys of Qualtrics": (
        HEAD + 'What?,How old?,How tall?\n"{""ImportId"":""a""}","{""ImportId"":""b""}",'
        '"{""ImportId"":""c""}"\n',
        "",
        "utf-8",
    ),
    "questions below the header": (HEAD + "What?,How old?,How tall?\n", "", "utf-8"),
    "remarks and totals below": (HEAD, "Total,99,\nSource: the ministry,,\n* estimated\n", "utf-8"),
    "Japanese": ("name,age,りんごとみかん\n", "", "shift_jis"),
    "Russian": ("name,age,размер участка\n", "", "cp1251"),
    "Korean": ("name,age,사과와 배\n", "", "euc_kr"),
    "German": ("name,age,Größe\n", "", "cp1252"),
}


@pytest.mark.parametrize("name", MESSY)
def test_files_with_more_than_a_table(name, tmp_path):
    above, below, encoding = MESSY[name]
    rows = "".join(f"{'abcd'[i % 4]},{20 + i},{100 + 3 * i}\n" for i in range(12))
    path = tmp_path / "t.csv"
    path.write_bytes((above + rows + below).encode(encoding))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        looks = look_at_table(open_table(path))
    assert [look["kind"] for look in looks] == ["category", "number", "number"]
    assert [look["different"] for look in looks] == [4, 12, 12]
    assert looks[2]["column"] == above.partition("\n")[0].split(",")[2]


def test_objects_in_json_lines_become_columns(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1, "b": {"c": "x", "d": {"e": 2}}}\n' * 2)
    assert open_table(path).names == ["a", "b.c", "b.d.e"]


def test_a_sheet_of_notes_is_no_table(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["read me first"])
    data = book.create_sheet("Data")
    for row in (tuple(KINDS), *ROWS):
        data.append(row)
    for number in range(9):
        book.create_sheet(f"Other {number}")
    book.save(tmp_path / "table.xlsx")
    table = open_table(tmp_path / "table.xlsx")
    assert table.names == list(KINDS)
    assert "'Other 1' and 7 more" in table.notes[0]


def test_a_long_table_is_read_in_parts(tmp_path):
    pytest.importorskip("pyarrow")
    n = 2**18 + 20 * 8192
    path = tmp_path / "table.csv"
    path.write_text("x\n" + "".join(f"{i % 10}\n" for i in range(n)))
    parts = list(open_table(path).parts([], ["x"], thinned=True))
    assert 2**18 <= sum(map(len, parts)) < n - 8192
    assert parts[-1].texts["x"][0] == str((parts[-1].start - 1) % 10)
