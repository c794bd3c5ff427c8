"""A short run of each fuzzer of `fuzz.py`, which is a script for long ones."""

import pytest
from fuzz import TARGETS, run

pytest.importorskip("rdkit")
pytest.importorskip("pyarrow")


@pytest.mark.parametrize("name", TARGETS)
def test_readers_do_not_crash(name):
    assert run(name, 60, seed=0) >= 30


def test_a_crash_would_be_seen(monkeypatch):
    strategy, _ = TARGETS["strings"]

    def crash(value):
        raise IndexError

    monkeypatch.setitem(TARGETS, "strings", (strategy, crash))
    with pytest.raises(IndexError):
        run("strings", 5)
