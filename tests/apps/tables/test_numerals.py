"""Numbers as people write them, by the cell and by the column."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skout.apps.tables.kinds import Content
from skout.apps.tables.numerals import PLAIN, Writing, is_missing, is_plain, read_numbers


def read(cells, writing=PLAIN):
    """Values of cells, None where one is no number."""
    found = read_numbers(cells, writing)
    return [None if i in found.unread else x for i, x in enumerate(found.values.tolist())]


def content_of(cells):
    content = Content()
    content.add(cells, 1)
    return content


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1,234.5", 1234.5),
        ("1,234,567", 1234567.0),
        ("12,34,567.5", 1234567.5),  # as in India
        ("1 234 567,5", 1234567.5),
        ("1\u202f234,5", 1234.5),
        ("1'234.5", 1234.5),
        ("1.234.567", 1234567.0),
        ("2,5", 2.5),
        ("0,125", 0.125),
        ("-3,75e2", -375.0),
        ("\u22125", -5.0),
        ("$12", 12.0),
        ("-$1,200.50", -1200.5),
        ("$-3", -3.0),
        ("12 €", 12.0),
        ("76%", 76.0),
        ("12.5 %", 12.5),
        ("<0.01", 0.01),
        ("≥ 60", 60.0),
        ("~1980", 1980.0),
        ("1980?", 1980.0),
        ("5+", 5.0),
        ("More than 3", 3.0),
        ("12 or older", 12.0),
        ("150 (20d10 + 40)", 150.0),
        ("12*", 12.0),
        ("inf", None),
        ("10+ years", None),
        ("rs10907175", None),  # a variant of a gene
        ("Rs500", 500.0),
        *((cell, 1999.0) for cell in ("1999-00", "1999/2000")),
        # one unit is the column's, and none in a column that has none
        *((cell, None) for cell in ("91 min", "3 of 5", "1h 20m", "40°26'N")),
        ("2 million", 2e6),
        ("$1.5M", 1.5e6),
        ("3rd", 3.0),
        *((cell, 3.5) for cell in ("3-4", "3 to 4")),
        *((cell, None) for cell in ("A12", "4-3", "10:30", "1.5.2024", "1,2,3", "1_000")),
        *((cell, None) for cell in ("see note 3", "192.168.1.1", "٣", "--", "#DIV/0!", "1,23,4")),
        *((cell, None) for cell in ("1" * 70 + "x", "e5", ",", ".", "%", "$")),
    ],
)
def test_the_number_in_a_cell(cell, value):
    assert read([cell]) == [value]


def test_what_a_cell_does_not_tell_the_column_does():
    assert read(["1,234", "1.234"]) == [1234.0, 1.234]
    assert read(["1,234", "1.234"], Writing(decimal=",")) == [1.234, 1234.0]
    assert read(["1,234", "1.234", "2,5"]) == [1.234, 1234.0, 2.5]  # which tells
    assert read(["1.234", "2.5"], Writing(decimal=",")) == [1.234, 2.5]
    assert read(["91 min", "85", "3 h"], Writing(unit="min")) == [91.0, 85.0, None]
    assert read(["$5", "€5", "5"], Writing(unit="€")) == [None, 5.0, 5.0]
    assert read(["76%", "0.5"], Writing(percent=0.01)) == [0.76, 0.5]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2", "3"] * 6 + ["n.d.", "oops"], "number"),
        (["1", "2", "3"] * 5 + ["n.d.", "oops"], "number"),  # of which only one is filled
        (["1", "2", "3"] * 5 + ["ouch", "oops"], "text"),  # 15 of 17
        (["-"] * 40 + ["5", "6"], "number"),
        (["-"] * 4, "text"),
        (["", "NA"], "empty"),
        (["91 min", "85 min", "102 min", "90"] * 3, "number"),
        (["91 min", "1 Season", "2 Seasons"] * 3, "text"),
        (["$1,200", "€900"] * 3, "text"),
        (["12", "12A", "14", "14B"] * 30, "text"),
        (["12"] * 99 + ["12A"], "number"),  # a slip
        (["12", "13"] * 50 + ["V45", "V45", "E8"], "text"),
        (["12", "13"] * 50 + ["DNF"] * 5, "number"),
        (["under 18", "18 or older", "12"] * 9, "text"),  # one number for both
        (["10 or younger", "21 or older", "12", "15"] * 9, "number"),
        (["<0.01"] * 20 + ["0.5", "0.7"] * 5, "number"),
        (["007", "07", "7"], "text"),
        (["01234", "90210"], "text"),
        (["1", "22", "333"] * 9 + ["08"], "number"),
        (["0", "0.5", "00.5"], "number"),
        (["20240531", "20231224"], "date"),
        (["20240531", "99999999", "12345678"], "number"),
        (["2024-05-31"] * 9 + ["soon"], "date"),
        (["2024-05-31"] * 8 + ["soon"] * 2, "text"),
    ],
)
def test_what_columns_are_but_for_a_few_cells(cells, kind):
    for order in (cells, cells[::-1]):
        assert content_of(order).kind == kind
    parts = Content()
    for i, cell in enumerate(cells):
        parts.add([cell], i + 1)
    assert parts.kind == kind  # by the block


def test_how_columns_are_written():
    def writing(cells):
        return content_of(cells).writing

    assert writing(["1.5", "2"]) == Writing(".")
    assert writing(["1,5", "1.234", "2,5"]) == Writing(",")
    assert writing(["1,234", "950"]) == Writing(".")
    assert writing(["91 min"] * 3) == Writing(unit="min")
    assert writing(["76%", "80%"]) == Writing(unit="%")
    assert writing(["0.76", "0.5", "80%"]) == Writing(unit="%", percent=0.01)
    assert writing(["76", "50", "80%"]) == Writing(unit="%")


@given(
    st.lists(st.floats(-1e9, 1e9).map(lambda x: round(x, 3)), min_size=1),
    st.sampled_from([("", "."), (",", "."), (" ", "."), (".", ","), ("'", "."), ("\u00a0", ",")]),
)
def test_numbers_that_were_written_are_read(numbers, signs):
    group, decimal = signs
    swap = str.maketrans({",": group or None, ".": decimal})
    cells = [f"{x:,.2f}".translate(swap) for x in numbers]
    assert content_of(cells).kind == "number"
    assert_allclose(read(cells, content_of(cells).writing), [float(f"{x:.2f}") for x in numbers])


@given(st.lists(st.one_of(st.text(max_size=6), st.floats().map(str), st.from_regex(r"[\d_e.]+"))))
def test_plain_numbers_are_those_of_python(cells):
    expected = [float(c) if is_plain(c) else np.nan if is_missing(c) else None for c in cells]
    expected = [None if x in (np.inf, -np.inf) else x for x in expected]  # told as unread
    found = read_numbers(cells)
    for i, number in enumerate(expected):
        if number is not None:
            assert_array_equal(found.values[i], number)
            assert i not in found.unread
        else:
            assert (i in found.unread) == np.isnan(found.values[i])
    content = content_of(cells)
    n_plain = sum(map(bool, map(is_plain, cells)))
    n_missing = sum(map(is_missing, cells))
    assert (content.plain, content.gaps) == (n_plain, n_missing)
    assert content.dates + content.words == len(cells) - n_plain - n_missing
