"""Mixed tables: what columns are, the numbers they become, and models that take them."""

import datetime
import warnings

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import skout
from skout import TableEncoder, Tuned
from skout.apps.tables.dates import parse_dates
from skout.apps.tables.encoders import NumberColumns
from skout.apps.tables.frames import columns_of
from skout.apps.tables.kinds import look_at
from skout.apps.tuning import LearnedRidge
from skout.apps.tuning.inputs import column_groups
from skout.kernels import Gaussian, Laplacian, OnColumns, align, align_columns
from skout.testing import check_kernel

pd = extra("pandas")
pl = extra("polars")
pa = extra("pyarrow")

N = 90
RNG = np.random.default_rng(0)
SIZE = RNG.standard_normal(N)
COLOURS = RNG.choice(["red", "green", "blue"], N)
SHOPS = np.array([f"mart {c}{i}" for c in "abcdefgh" for i in range(5)])[RNG.integers(0, 40, N)]
DAYS = np.datetime64("2021-01-04") + np.arange(N) * 5
THINGS = ["house", "tree", "river", "road", "stone", "bird", "cloud", "light"]
TEXTS = [" ".join(RNG.choice(THINGS, 6)) + f" {i}" for i in range(N)]
SETS = [";".join(RNG.choice(list("uvwxyz"), 1 + i % 3, replace=False)) for i in range(N)]


def table(**more):
    """A table with a column of each kind, as a dict."""
    size = SIZE.copy()
    size[::10] = np.nan
    return {
        "key": [f"K-{i:04d}" for i in range(N)],
        "size": size,
        "colour": [None if i % 9 == 0 else c for i, c in enumerate(COLOURS)],
        "shop": SHOPS.tolist(),
        "day": DAYS,
        "text": TEXTS,
        "tags": SETS,
        "one": ["same"] * N,
        "nothing": [None] * N,
        **more,
    }


KINDS = {
    "size": "number",
    "colour": "category",
    "shop": "categories",
    "day": "date",
    "text": "text",
    "tags": "set",
}
LEFT_OUT = {"key": "all values differ", "one": "one value only", "nothing": "no value at all"}


def as_library(columns, library):
    if library == "dict":
        return columns
    if library == "pandas":
        return pd.DataFrame(columns)
    if library == "pandas with categories":
        frame = pd.DataFrame(columns)
        return frame.astype({"colour": "category", "shop": "category", "text": "string"})
    columns = {n: c.astype("datetime64[ms]") if n == "day" else c for n, c in columns.items()}
    if library == "pyarrow":
        return pa.table({n: pa.array(c, from_pandas=True) for n, c in columns.items()})
    return pl.DataFrame(columns, nan_to_null=True)


LIBRARIES = ["dict", "pandas", "pandas with categories", "polars", "pyarrow"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_kind_from_every_library(library):
    frame = as_library(table(), library)
    encoder = TableEncoder().fit(frame)
    assert encoder.kinds_ == KINDS
    assert encoder.left_out_ == LEFT_OUT
    Z = encoder.transform(frame)
    assert np.isfinite(Z).all()
    assert Z.shape[1] == len(encoder.get_feature_names_out())
    assert_allclose(Z, TableEncoder().fit_transform(table()))  # whatever the library
    assert encoder.summary().startswith(f"6 columns to {Z.shape[1]} numbers: ")
    assert "left out: key (all values differ)" in encoder.summary()


def test_groups_are_where_the_columns_are():
    encoder = TableEncoder().fit(table())
    names = encoder.get_feature_names_out()
    at = 0
    for column, kind, start, stop in encoder.groups_:
        assert start == at
        at = stop
        assert all(name.split(":")[0] == column for name in names[start:stop])
        assert kind in (*KINDS.values(), "missing")
    assert at == len(names)
    assert max(stop for _, stop in column_groups(encoder)) == at


# numbers ------------------------------------------------------------------------------------------


def test_numbers_are_scaled_by_quartiles_and_bent():
    x = np.concatenate([RNG.standard_normal(300) * 5 + 7, [1e9]])
    z = NumberColumns().fit(x[:, None]).transform(x[:, None])[:, 0]
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75])
    raw = (x - middle) / ((high - low) / 1.349)
    bent = raw / np.sqrt(1.0 + (raw / 3.0) ** 2)
    assert_allclose(z, bent / bent.std(), rtol=1e-6)
    assert_array_equal(np.argsort(z), np.argsort(x))  # trees see the same
    assert z.max() < 4.0


def test_missing_numbers_are_medians_with_a_column_that_says_so():
    encoder = TableEncoder().fit({"a": [1.0, np.nan, 2.0, 9.0], "b": [1, 2, 3, 3]})
    Z = encoder.transform({"a": [2.0, np.nan], "b": [2.5, np.nan]})
    assert encoder.get_feature_names_out().tolist() == ["a", "b", "a: missing"]
    assert_allclose(Z, [[0, 0, 0], [0, 0, 1]], atol=1e-12)


ODD_CELLS = ["n.d.", "oops", "<0.01", "-", "$0.5", "#DIV/0!", "1,234.5", "2,5", "More than 3"]
TAKEN = [None, None, 0.01, None, 0.5, None, 1234.5, 2.5, 3.0]


@pytest.mark.parametrize(("cell", "value"), list(zip(ODD_CELLS, TAKEN, strict=True)))
def test_one_odd_cell_does_not_make_numbers_categories(cell, value):
    numbers = RNG.standard_normal(400).round(4) * 3
    cells = [f"{x:.4f}" for x in numbers]
    cells[5], numbers[5] = cell, np.nan if value is None else value
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        Z = TableEncoder().fit_transform({"a": cells})
    assert_allclose(Z, TableEncoder().fit_transform({"a": numbers}), atol=1e-9)
    if value is None:
        said = (
            f"column 'a': 1 of 400 cells is no number and is taken as missing, {cell!r} in row 6."
        )
        assert [str(one.message) for one in told] == [said]  # once, by fit and transform together
    else:
        assert len(told) == (cell in ("<0.01", "More than 3"))
    if cell in ("n.d.", "<0.01"):
        with pytest.raises(ValueError, match=rf"'a' must hold numbers: '{cell}' .* in row 6"):
            TableEncoder(strict=True).fit({"a": cells})


def test_new_cells_that_are_no_numbers_are_missing():
    encoder = TableEncoder().fit({"a": [1.0, np.nan, 2.0, 9.0] * 5})
    with pytest.warns(UserWarning, match=r"2 of 3 cells are no numbers .* first 'big' in row 2"):
        Z = encoder.transform({"a": ["2", "big", "small"]})
    assert Z[:, 1].tolist() == [0.0, 1.0, 1.0]
    strict = TableEncoder(strict=True).fit({"a": [1.0, np.nan, 2.0, 9.0] * 5})
    with pytest.raises(ValueError, match=r"'big' is no number, in row 2"):
        strict.transform({"a": ["2", "big", "small"]})


@pytest.mark.parametrize("minutes", [[90.0, 120.0, 153.0], ["90", "120", "153"]])
def test_new_cells_with_a_unit_where_fit_met_plain_numbers(minutes):
    # as a model that the command line fitted meets the cells of a file in Python
    encoder = TableEncoder().fit({"runtime": minutes})
    new = encoder.transform({"runtime": ["153 min", "90 min"]})
    assert_array_equal(new, encoder.transform({"runtime": [153.0, 90.0]}))
    assert_array_equal(encoder.transform({"runtime": ["153 min"]}), new[:1])


def test_tuned_reads_with_the_encoder_that_it_is_given(tmp_path):
    cells = [f"{x:.4f}" for x in SIZE]
    cells[4] = "n.d."
    with pytest.raises(ValueError, match=r"'n.d.' is no number, in row 5"):
        Tuned(budget="1 fit", encoder=TableEncoder(strict=True)).fit({"a": cells}, SIZE)
    model = Tuned(budget="1 fit", random_state=0)
    with pytest.warns(UserWarning, match="1 of 90 cells is no number") as told:
        model.fit({"a": cells}, SIZE)
    assert len(told) == 1
    skout.save(model, tmp_path / "m")
    with pytest.warns(UserWarning, match="1 of 2 cells is no number"):
        skout.load(tmp_path / "m").predict({"a": ["0.5", "lost"]})


def test_infinite_and_mostly_equal_numbers():
    x = np.array([0.0] * 50 + [1.0, np.inf, -np.inf, np.nan])
    Z = TableEncoder().fit_transform({"x": x})
    assert np.isfinite(Z).all()
    assert Z[51, 0] > Z[50, 0] > Z[0, 0] > Z[52, 0]


# dates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-05-01", "2024-05-01T00:00:00"),
        ("2024/5/1 7:08", "2024-05-01T07:08:00"),
        ("2024-05-01T10:30:15.25Z", "2024-05-01T10:30:15"),
        ("2024-05-01T10:30:00+02:00", "2024-05-01T08:30:00"),
        ("31.12.99", "1999-12-31T00:00:00"),
        ("1 May 2024", "2024-05-01T00:00:00"),
        ("8-Sep-1998", "1998-09-08T00:00:00"),
        ("September 8, 1998 12:05 am", "1998-09-08T00:05:00"),
        ("Jun 12 1998", "1998-06-12T00:00:00"),
        ("2023-02-29", "NaT"),
        ("2023-13-01", "NaT"),
        ("25:00", "NaT"),
        ("", "NaT"),
    ],
)
def test_dates_are_read(text, moment):
    assert_array_equal(parse_dates([text]), np.array([moment], dtype="datetime64[s]"))


def test_a_day_above_twelve_tells_what_comes_first():
    american = parse_dates(["02/01/2024", "02/15/2024"])
    european = parse_dates(["02/01/2024", "15/02/2024"])
    assert [str(one)[:10] for one in american] == ["2024-02-01", "2024-02-15"]
    assert [str(one)[:10] for one in european] == ["2024-01-02", "2024-02-15"]


def test_new_dates_are_read_as_those_of_fit():
    european = [f"{1 + i % 28:02d}/0{1 + i % 9}/2024" for i in range(50)]
    encoder = TableEncoder().fit({"day": european})
    same = TableEncoder().fit({"day": parse_dates(european)})
    new = encoder.transform({"day": ["05/03/2024"]})  # could be May
    assert_allclose(new, same.transform({"day": np.array(["2024-03-05"], "datetime64[D]")}))


def days_of(encoder, cells):
    """The dates that an encoder reads in a column "day", found by comparing what they become."""
    days = np.datetime64("2020-01-01") + np.arange(400)
    known = encoder.transform({"day": days})
    found = encoder.transform({"day": cells})
    near = np.abs(found[:, None] - known).max(axis=2)
    assert (near.min(axis=1) < 1e-9).all()
    return [str(days[j]) for j in near.argmin(axis=1)]


ISO = [f"2020-{m:02d}-{d:02d}" for m in range(1, 13) for d in (1, 9, 20)]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["03.04.2020", "13.04.2020"], ["2020-04-03", "2020-04-13"]),  # points: the day first
        (["03.04.2020"], ["2020-04-03"]),
        (["03.04.20", "3.4.2020"], ["2020-04-03", "2020-04-03"]),
        (["04.13.2020", "03.04.2020"], ["2020-04-13", "2020-03-04"]),  # unless days say otherwise
        (["03-04-2020", "13-04-2020"], ["2020-04-03", "2020-04-13"]),
        (["03/04/2020", "03/28/2020"], ["2020-03-04", "2020-03-28"]),
        (["20200105", "2020-12-24"], ["2020-01-05", "2020-12-24"]),
    ],
)
def test_new_dates_in_another_form_are_read_by_what_they_say(cells, expected):
    for fitted in (ISO, parse_dates(ISO)):
        assert days_of(TableEncoder().fit({"day": fitted}), cells) == expected


def test_a_column_of_dates_has_one_reading():
    european = [f"{1 + i % 28:02d}/{1 + i % 12:02d}/2020" for i in range(60)]
    cells = [*european, "04/28/2020"]  # which has no month 28
    with pytest.warns(UserWarning, match=r"1 of 61 cells is no date .* '04/28/2020' in row 61"):
        encoder = TableEncoder().fit({"day": cells})
    assert days_of(encoder, ["03/04/2020"]) == ["2020-04-03"]  # as in fit, whatever new rows say
    with pytest.warns(UserWarning, match="1 of 2 cells is no date"):
        found = encoder.transform({"day": ["04/28/2020", "03/04/2020"]})
    names = encoder.get_feature_names_out().tolist()
    assert found[:, names.index("day: missing")].tolist() == [1.0, 0.0]
    # another sign is read by its own days, and where these tell nothing as the others in fit
    assert days_of(encoder, ["04-28-2020", "03-04-2020"]) == ["2020-04-28", "2020-03-04"]
    assert days_of(encoder, ["03-04-2020"]) == ["2020-04-03"]


def test_dates_that_nothing_tells_are_month_first_and_it_is_said():
    cells = [f"{1 + i % 12:02d}/{1 + i % 11:02d}/2020" for i in range(60)]
    with pytest.warns(
        UserWarning, match=r"'day': dates such as '01/01/2020' .* month first"
    ) as told:
        encoder = TableEncoder().fit({"day": cells})
    assert len(told) == 1
    assert days_of(encoder, ["03/04/2020"]) == ["2020-03-04"]  # said once
    for day_first, month in ((True, "04"), (False, "03")):
        encoder = TableEncoder(day_first=day_first).fit({"day": cells})
        assert days_of(encoder, ["03/04/2020"])[0][5:7] == month
    fresh = TableEncoder().fit({"day": ISO})
    with pytest.warns(UserWarning, match="month first"):
        fresh.transform({"day": ["03/04/2020"]})
    with pytest.raises(ValueError, match="do not tell whether the day or the month"):
        TableEncoder(strict=True).fit({"day": cells})


def test_cells_that_are_no_dates_are_missing_and_counted():
    cells = [*ISO, "hello", "31/02/2020", "-"]
    with pytest.warns(UserWarning, match="are no dates") as told:
        encoder = TableEncoder().fit({"day": cells})
    assert [str(one.message) for one in told] == [
        "column 'day': 3 of 39 cells are no dates and are taken as missing, the first 'hello' in "
        "row 37."
    ]
    assert encoder.kinds_ == {"day": "date"}
    with pytest.warns(UserWarning, match=r"1 of 2 cells is no date .* 'soon' in row 2"):
        Z = encoder.transform({"day": ["2020-05-01", "soon"]})
    assert Z[:, 1].tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match=r"'day' must hold dates: 'hello' is no date, in row 37"):
        TableEncoder(strict=True).fit({"day": cells})
    strict = TableEncoder(strict=True).fit({"day": ISO})
    with pytest.raises(ValueError, match=r"'soon' is no date, in row 1"):
        strict.transform({"day": ["soon"]})


@pytest.mark.parametrize("as_saved", [False, True])
def test_how_columns_are_written_is_kept_in_files(as_saved, tmp_path):
    days = [f"{1 + i % 28:02d}/{1 + i % 12:02d}/2020" for i in range(60)]
    price = [f"{i},{i % 10}5 €" for i in range(60)]
    encoder = TableEncoder().fit({"day": days, "price": price})
    if as_saved:
        skout.save(encoder, tmp_path / "e.skout")
        encoder = skout.load(tmp_path / "e.skout")
    plain = TableEncoder().fit(
        {"day": parse_dates(days), "price": [i + (i % 10) / 10 + 0.05 for i in range(60)]}
    )
    new = {"day": ["03/04/2020"], "price": ["1.234"]}  # a point between thousands, as in fit
    same = {"day": np.array(["2020-04-03"], "datetime64[D]"), "price": [1234.0]}
    assert_allclose(encoder.transform(new), plain.transform(same))


def test_circles_close():
    days = np.datetime64("2020-01-01") + np.arange(3 * 365)
    encoder = TableEncoder().fit({"day": days})
    names = encoder.get_feature_names_out().tolist()
    assert names == [
        "day",
        *(f"day: {f} of {c}" for c in ("season", "weekday") for f in ("sin", "cos")),
    ]
    Z = encoder.transform({"day": days})
    assert_allclose(Z[:-7, 3:5], Z[7:, 3:5], atol=1e-9)  # a week later
    assert np.abs(Z[0, 1:3] - Z[365, 1:3]).max() < 0.02  # a year later
    hours = days.astype("datetime64[s]") + np.timedelta64(3600, "s") * np.arange(len(days))
    assert "day: sin of hour" in TableEncoder().fit({"day": hours}).get_feature_names_out()


def test_dates_of_python_and_with_zones():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    values = [datetime.datetime(2024, 5, 1, 12, tzinfo=zone), None, datetime.datetime(2024, 5, 2)]
    found = columns_of({"t": values})["t"]
    expected = ["2024-05-01T10:00:00", "NaT", "2024-05-02T00:00:00"]
    assert_array_equal(found, np.array(expected, dtype="datetime64[s]"))


# categories, sets, text ---------------------------------------------------------------------------


def test_different_categories_are_equally_far_apart():
    for colours in (["a", "b"] * 5, ["a", "b", "c", None, "d"] * 5):
        Z = np.unique(TableEncoder().fit_transform({"c": colours}), axis=0)
        gaps = ((Z[:, None] - Z) ** 2).sum(axis=2)
        assert_allclose(gaps, 2.0 * (1.0 - np.eye(len(Z))), atol=1e-12)


def test_codes_that_are_numbers_keep_their_order():
    codes = [98001 + i % 40 for i in range(200)]
    encoder = TableEncoder().fit({"zip": codes})
    assert encoder.kinds_ == {"zip": "categories"}
    column = encoder.get_feature_names_out().tolist().index("zip: number")
    numbers = encoder.transform({"zip": [98001, 98020, 98040, 5]})[:, column]
    assert np.all(np.diff(numbers[:3]) > 0.0)
    assert numbers[3] == 0.0  # never seen, as a category is


def test_new_categories_are_none_or_others():
    few = TableEncoder().fit({"c": ["a", "b", "c"] * 4})
    assert_array_equal(few.transform({"c": ["new"]}), np.zeros((1, 3)))
    many = TableEncoder(one_hot=2, kinds={"c": "category"}).fit({"c": ["a", "b", "c"] * 4})
    assert many.get_feature_names_out().tolist() == ["c: a", "c: b", "c: others"]
    assert_array_equal(many.transform({"c": ["new"]}), [[0, 0, 1]])


def test_names_that_share_letters_are_alike():
    encoder = TableEncoder(one_hot=5).fit({"shop": SHOPS})
    assert encoder.kinds_ == {"shop": "categories"}
    Z = encoder.transform({"shop": ["mart aa7", "mart a2", "mart h3"]})
    start = encoder.get_feature_names_out().tolist().index("shop: likeness 0")
    near, far = (np.linalg.norm(Z[0, start:] - Z[j, start:]) for j in (1, 2))
    assert near < far


def test_texts_without_a_common_word_are_far_apart():
    encoder = TableEncoder().fit({"text": TEXTS})
    Z = encoder.transform({"text": ["house tree house", "tree house", "bird cloud light"]})[:, :-1]
    assert np.linalg.norm(Z[0] - Z[1]) < 0.6 * np.linalg.norm(Z[0] - Z[2])


def test_sets_are_rows_of_norm_one():
    encoder = TableEncoder().fit({"tags": SETS})
    Z = encoder.transform({"tags": ["u;v", "w", "", "u ; new"]})
    names = [name.split(": ")[1] for name in encoder.get_feature_names_out()]
    assert names == list("uvwxyz")
    half = 1.0 / np.sqrt(2.0)
    expected = [[half, half, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0] * 6, [1, 0, 0, 0, 0, 0]]
    assert_allclose(Z, expected)


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("x", [1, 2, 2, 3], "number"),
        ("id", list(range(7, 27)), "id"),
        ("customerId", [3 * i % 101 for i in range(20)], "id"),
        ("row", list(range(20)), "id"),
        ("year", list(range(1950, 1990)), "number"),  # goes up by one, and says something
        ("x", [0.5 * i for i in range(20)], "number"),
        ("code", [f"AB{i:03d}" for i in range(20)], "id"),
        ("smiles", ["C" * i + "O" * (i % 3) + "=N" * (i % 2) for i in range(1, 21)], "category"),
        ("x", ["1.5", "2", "", "7"] * 5, "number"),
        ("x", ["1,5"] * 9 + ["2,5"] * 9, "number"),
        ("x", ["007", "07", "7", "12"] * 5, "category"),
        ("zip", ["01234", "90210", "10115"] * 5, "category"),
        ("diagnosis", ["250", "428", "401"] * 30 + ["V45", "V45", "E87"], "category"),
        ("day", ["20240531", "20231224", "20240101"] * 5, "date"),
        ("genre", ["drama, comedy", "drama", "crime, drama"] * 20, "set"),
        ("say", [f"well, {w}, and so on" for w in map(str, range(40))], "text"),
        ("x", [True, False, None] * 5, "number"),
        ("x", ["a"] * 9 + [None], "category"),
        ("x", ["a"] * 9, "constant"),
        ("x", [None] * 9, "empty"),
    ],
)
def test_what_columns_are(name, values, kind):
    assert look_at(name, columns_of({name: values})[name]).kind == kind


def test_kinds_may_be_told():
    columns = {"year": [2000, 2001, 2002] * 5, "note": ["a", "b", "c"] * 5}
    encoder = TableEncoder(kinds={"year": "category", "note": "drop"}).fit(columns)
    assert encoder.kinds_ == {"year": "category"}
    assert encoder.left_out_ == {"note": "dropped"}
    assert encoder.transform({"year": [2001.0]}).tolist() == [[0.0, 1.0, 0.0]]
    keys = TableEncoder(kinds={"key": "text"}).fit(table())
    assert keys.kinds_["key"] == "text"


# mistakes -----------------------------------------------------------------------------------------


def test_mistakes_name_the_column():
    encoder = TableEncoder().fit(table())
    columns = table()
    columns["colr"] = columns.pop("colour")
    with pytest.raises(ValueError, match=r"lacks columns .* colour\. .* not there in fit: colr"):
        encoder.transform(columns)
    with pytest.raises(ValueError, match=r"column 'size' must hold numbers. Got dates"):
        encoder.transform(table(size=DAYS))
    with pytest.raises(ValueError, match="column 'day' must hold dates"):
        encoder.transform(table(day=np.arange(N)))
    with pytest.raises(TypeError, match=r"must be a table .* Got ndarray"):
        encoder.transform(np.zeros((3, 9)))
    with pytest.raises(ValueError, match=r"no column 'sizes'. Did you mean 'size'"):
        TableEncoder(kinds={"sizes": "number"}).fit(table())
    with pytest.raises(ValueError, match=r"kinds\['size'\] must be one of"):
        TableEncoder(kinds={"size": "numbers"}).fit(table())
    with pytest.raises(ValueError, match="says anything: a "):
        TableEncoder().fit({"a": [1, 1, 1]})
    with pytest.raises(ValueError, match="different lengths"):
        TableEncoder().fit({"a": [1, 2], "b": [1]})
    with pytest.raises(ValueError, match="no rows"):
        TableEncoder().fit({"a": []})
    encoder.transform({**table(), "extra": [1] * N})  # more columns do no harm


def test_objects_without_a_text_are_refused():
    with pytest.raises(
        TypeError, match="column 'a' has objects of type object, which have no text"
    ):
        TableEncoder().fit({"a": [object() for _ in range(20)]})


def test_duplicate_names():
    frame = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    with pytest.raises(ValueError, match="more than one column called 'a'"):
        TableEncoder().fit(frame)


def test_the_target_is_not_looked_at_and_rows_stand_alone():
    frame = table()
    encoder = clone(TableEncoder()).fit(frame, np.arange(N))
    Z = encoder.transform(frame)
    assert_allclose(Z, TableEncoder().fit(frame).transform(frame))
    some = {name: [column[i] for i in (5, 2)] for name, column in frame.items()}
    assert_allclose(encoder.transform(some), Z[[5, 2]], atol=1e-12)


def test_in_a_pipeline():
    y = np.nan_to_num(SIZE) + (COLOURS == "red")
    model = make_pipeline(TableEncoder(), Ridge()).fit(table(), y)
    assert model.score(table(), y) > 0.6


# kernels of columns -------------------------------------------------------------------------------


def test_kernels_of_columns():
    A, B = RNG.standard_normal((9, 5)), RNG.standard_normal((7, 5))
    for base in (Gaussian(0.3), Laplacian(0.3)):
        kernel = OnColumns(base, 1, 3)
        check_kernel(kernel, A)
        assert_allclose(kernel(A, B), base(A[:, 1:3], B[:, 1:3]))
    product = OnColumns(Gaussian(0.3), 0, 2) * OnColumns(Gaussian(0.3), 2)
    assert_allclose(product(A, B), Gaussian(0.3)(A, B))  # of Gaussians, all columns
    resolved = OnColumns(Gaussian("median"), 1, 3).resolve(A, np.random.default_rng(0))
    same = Gaussian("median").resolve(A[:, 1:3], np.random.default_rng(0))
    assert resolved.kernel.gamma == same.gamma
    with pytest.raises(ValueError, match="start and stop must name columns of the 5"):
        OnColumns("gaussian", 3, 9)(A)


def test_weights_of_columns_are_those_of_alignf():
    X = RNG.standard_normal((150, 5))
    Y = np.sin(2.0 * X[:, :1]) + 0.3 * X[:, 3:4]
    groups = [(0, 1), (1, 3), (3, 5)]
    found = align_columns(Gaussian(0.5), groups, X, Y, n_samples=150)
    parts = [OnColumns(Gaussian(0.5)), *(OnColumns(Gaussian(0.5), *group) for group in groups)]
    assert repr(found) == repr(align(parts, X, Y, n_samples=150))
    K = found(X)
    whole = Gaussian(0.5)(X)

    def alignment(K):
        H = np.eye(len(K)) - 1.0 / len(K)
        A, B = H @ K @ H, H @ Y @ Y.T @ H
        return np.vdot(A, B) / np.linalg.norm(A) / np.linalg.norm(B)

    assert alignment(K) > alignment(whole)


# Tuned --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tuned_takes_tables(library, tmp_path):
    y = np.nan_to_num(table()["size"]) + 2.0 * (COLOURS == "red") + np.sin(np.arange(N) / 11.6)
    frame = as_library(table(), library)
    model = Tuned(budget="4 fits", random_state=0, cv=3).fit(frame, y)
    assert model.encoder_.kinds_ == KINDS
    assert "6 columns to " in model.summary()
    assert "left out: key (all values differ)" in model.summary()
    assert any(row["map"] == "aligned ridge" for row in model.results_)
    assert model.score_ > model.baselines_["constant"] + 0.2
    skout.save(model, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout")
    assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.summary() == model.summary()
    with pytest.raises(ValueError, match="lacks columns that it had in fit: colour"):
        model.predict({name: c for name, c in table().items() if name != "colour"})


def test_aligned_ridge_is_built_as_it_was_tried():
    y = 2.0 * (COLOURS == "red") + np.nan_to_num(SIZE)
    model = Tuned(budget="6 fits", random_state=0, cv=3, ensemble=False)
    model.fit(table(), y)
    rows = model.encoder_.transform(table())
    groups = column_groups(model.encoder_)
    ridge = LearnedRidge("gaussian", groups=groups, random_state=0).fit(rows, y[:, None])
    assert ridge.score(rows, y) > 0.8
    tried = [row for row in model.results_ if row["map"] == "aligned ridge"]
    assert tried
    assert "groups" not in tried[0]  # no use to people


def test_nothing_to_align_with():
    X = RNG.standard_normal((30, 2))
    model = LearnedRidge("gaussian", groups=[(0, 1), (1, 2)], alpha=1e-9).fit(X, np.ones((30, 1)))
    assert_allclose(model.predict(X), 1.0, atol=1e-3)


def test_outer_folds_of_tables():
    y = 2.0 * (COLOURS == "red") + np.nan_to_num(SIZE)
    for library in ("dict", "pandas", "polars", "pyarrow"):
        frame = as_library(table(), library)
        model = Tuned(budget="1 fit", random_state=0, cv=3, outer_cv=2).fit(frame, y)
        assert model.outer_scores_.shape == (2,)


def test_tables_of_numbers_are_matrices():
    frame = {"a": SIZE, "b": SIZE**2}
    y = SIZE + SIZE**2
    model = Tuned(budget="1 fit", random_state=0, cv=3).fit(frame, y)
    assert model.encoder_ is None
    same = Tuned(budget="1 fit", random_state=0, cv=3).fit(np.column_stack([SIZE, SIZE**2]), y)
    assert_allclose(model.predict({"b": SIZE**2, "a": SIZE}), same.predict(np.c_[SIZE, SIZE**2]))
    with pytest.raises(ValueError, match="lacks columns that it had in fit: b"):
        model.predict({"a": SIZE})
