"""The way of the data stays short: what a fit passes through, counted by benchmarks/trace.py."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "benchmarks" / "trace.py"


@pytest.fixture(scope="module")
def tracing():
    spec = importlib.util.spec_from_file_location("trace_of_skout", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# files in all, and those above the ground floor: each is a page that whoever follows the data opens
@pytest.mark.parametrize(
    ("way", "files", "above", "rooms", "bounces", "asked"),
    [
        ("sisokr.fit, NumPy", 24, 18, 9, 2, 3),
        ("sisokr.predict, NumPy", 19, 14, 7, 1, 4),
        ("KernelRidge.fit, memmap", 20, 14, 7, 1, 2),
        ("KernelMachine.fit, NumPy", 25, 19, 8, 3, 2),
    ],
)
def test_the_way_is_short(tracing, way, files, above, rooms, bounces, asked):
    found = tracing.trace(tracing.ways()[way])
    assert 1 < len(found.files) <= files, sorted(found.files)
    assert 1 < len(found.above_ground) <= above, sorted(found.above_ground)
    assert 1 < len(found.rooms) <= rooms, sorted(found.rooms)
    assert len(found.bounces) <= bounces, sorted(found.bounces)
    assert 0 < found.asked <= asked
