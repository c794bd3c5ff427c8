"""No verdict of experiments/ that could not fail: records that must make each row "short"."""

import random
import sys
from functools import partial
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
sys.path.append(str(EXPERIMENTS))

papers = pytest.importorskip("papers", exc_type=ImportError)
import common  # noqa: E402
import verdicts  # noqa: E402

CONFIGS = {config.name: config for config in papers.CONFIGS}


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


def random_factors(seed):
    """Return factors that differ by row and column."""
    return lambda row, key: random.Random(f"{seed} {row} {key}").choice(FACTORS)


FACTORS = (0.01, 0.5, 1.0, 2.0, 100.0)
CHANGES = [by_rows(lambda *_, number=number: number) for number in (100.0, 0.01)]
CHANGES += [lambda rows: [level(row) for row in rows]]
CHANGES += [by_rows(random_factors(seed)) for seed in range(40)]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_counted_row_can_fail(name, monkeypatch):
    config, real = CONFIGS[name], common.read_record
    rows = config.verdict()
    judged = {i for i, row in enumerate(rows) if row.reached is not None and not row.own}
    short: set[int] = set()
    for change in CHANGES:

        def read(record, change=change):
            found = real(record)
            return found | {"results": change(found["results"])}

        monkeypatch.setattr(verdicts, "read_record", read)
        short |= {i for i, row in enumerate(config.verdict()) if row.reached is False}
        if short >= judged:
            return
    assert short >= judged, [rows[i].what for i in sorted(judged - short)]


@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_not_counted_says_why(name):
    rows = CONFIGS[name].verdict()
    assert len({row.what for row in rows}) == len(rows)
    for row in rows:
        assert row.reached is not None or row.own or row.ours.startswith("not run: ")
