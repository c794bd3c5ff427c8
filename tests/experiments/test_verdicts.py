"""No verdict of experiments/ that could not be another: records with each of the three verdicts."""

import random
from functools import partial

import pytest

entries = pytest.importorskip("experiments.papers.entries", exc_type=ImportError)
from experiments import common  # noqa: E402
from experiments.papers import verdicts  # noqa: E402

COUNTED = ("reached", "short", "cannot tell")
BOTH = {"reached", "short"}
CONFIGS = {config.name: config for config in entries.CONFIGS}


def scaled(value, factor, key=None):
    """Multiply every measured number of a row by a factor of its column: sizes and counts stay."""
    if isinstance(value, dict):
        return {name: scaled(inner, factor, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [scaled(inner, factor, key) for inner in value]
    return value * factor(key) if isinstance(value, float) else value


def level(value):
    """Replace every list of numbers by its first."""
    if isinstance(value, dict):
        return {name: level(inner) for name, inner in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], float):
        return [value[0]] * len(value)
    return value


def by_rows(factor):
    """Return the change that scales columns of rows."""
    return lambda rows: [scaled(row, partial(factor, i)) for i, row in enumerate(rows)]


FACTORS = (0.01, 0.5, 1.0, 2.0, 100.0)


def random_factors(seed, factors=FACTORS):
    """Return factors that differ by row and column."""
    return lambda row, key: random.Random(f"{seed} {row} {key}").choice(factors)


CHANGES = [by_rows(lambda *_, number=number: number) for number in (100.0, 0.01)]
CHANGES += [lambda rows: [level(row) for row in rows]]
CHANGES += [by_rows(random_factors(seed)) for seed in range(40)]


# Numbers between those of the paper and ours come near every limit, but not all at once.
NEAR = [by_rows(random_factors(seed, (0.9, 0.95, 1.0, 1.05, 1.1, 1.2))) for seed in range(40)]


def verdicts_with(config, change, monkeypatch):
    """Return the rows of a config whose records have been changed."""
    real = common.read_record

    def read(record):
        found = real(record)
        return found | {"results": change(found["results"])}

    with monkeypatch.context() as patch:
        patch.setattr(verdicts, "read_record", read)
        return config.verdict()


@pytest.mark.parametrize("name", CONFIGS)
def test_every_counted_row_can_be_reached_and_short(name, monkeypatch):
    config = CONFIGS[name]
    rows = config.verdict()
    seen = {i: {row.verdict} for i, row in enumerate(rows) if row.verdict in COUNTED}
    for change in [*CHANGES, *NEAR]:
        for i, row in enumerate(verdicts_with(config, change, monkeypatch)):
            seen.get(i, set()).add(row.verdict)
        if all(found >= BOTH for found in seen.values()):
            return
    one_sided = {rows[i].what: found for i, found in seen.items() if not found >= BOTH}
    assert one_sided == {}


def noisy(value):
    """Keep means, and make deviations so large that they hide everything."""
    if isinstance(value, dict):
        return {name: noisy(inner) for name, inner in value.items()}
    if not isinstance(value, list) or not value or not isinstance(value[0], float):
        return value
    if len(value) == 2:  # mean and deviation
        return [value[0], 1e6]
    return [inner + 1e6 * (i - (len(value) - 1) / 2) for i, inner in enumerate(value)]


@pytest.mark.parametrize("name", CONFIGS)
def test_no_row_can_tell_where_draws_say_nothing(name, monkeypatch):
    change = lambda rows: [noisy(row) for row in rows]  # noqa: E731
    rows = verdicts_with(CONFIGS[name], change, monkeypatch)
    sure = [row.what for row in rows if row.verdict in BOTH]
    assert [what for what in sure if not what.startswith("leverage scores")] == []  # not drawn


@pytest.mark.parametrize(
    ("margin", "verdict"),
    [(0.2, "reached"), (-0.2, "short"), *((near, "cannot tell") for near in (0.05, -0.05, 0.0))],
)
def test_a_margin_below_one_standard_error_tells_nothing(margin, verdict):
    assert verdicts.verdict_on(verdicts.Value(margin, error=0.1)) == verdict
    assert verdicts.claim("", "", "", verdicts.Value(margin, error=0.1)).verdict == verdict


def test_an_exact_result_reaches_its_limit():
    assert verdicts.verdict_on(verdicts.Value(0.0)) == "reached"


def test_a_number_may_use_the_spread_of_the_paper_and_not_its_own():
    Value, number = verdicts.Value, verdicts.number
    assert number("", (1.0, 0.1), Value(1.09)).verdict == "reached"
    assert number("", (1.0, 0.1), Value(1.11, spread=0.5)).verdict == "short"
    assert number("", (1.0, 0.1), Value(1.11, spread=0.5, error=0.2)).verdict == "cannot tell"
    assert number("", (1.0, 0.1), Value(0.91), more=True).verdict == "reached"
    assert number("", (1.0, None), Value(0.99), more=True).verdict == "short"


def test_standard_errors_follow_differences_and_quotients():
    a, b = verdicts.of_pair((3.0, 0.6), 9), verdicts.of_list([1.0, 2.0, 3.0])
    assert (a - b).error == pytest.approx((0.2**2 + b.error**2) ** 0.5)
    assert a.over(b).error == pytest.approx(1.5 * ((0.2 / 3) ** 2 + (b.error / 2) ** 2) ** 0.5)


def test_one_slow_repeat_does_not_move_seconds():
    quiet, loaded = (verdicts.of_seconds([1.0, 1.01, 0.99, 1.02, last]) for last in (1.0, 9.0))
    assert loaded.mean == pytest.approx(quiet.mean, rel=0.02)
    assert loaded.error < 0.02


@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_not_counted_says_why(name):
    rows = CONFIGS[name].verdict()
    assert len({row.what for row in rows}) == len(rows)
    assert all(row.remark for row in rows if row.verdict in ("ours", "not run", "cannot tell"))
