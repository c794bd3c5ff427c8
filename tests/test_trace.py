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


# a file is a page that whoever follows the data opens, a function a stop on the way
@pytest.mark.parametrize(
    ("way", "functions", "files", "rooms", "bounces", "asked"),
    [
        ("sisokr.fit, NumPy", 240, 18, 9, 2, 3),
        ("sisokr.predict, NumPy", 80, 16, 7, 1, 4),
        ("KernelRidge.fit, memmap", 200, 16, 7, 1, 2),
        ("KernelMachine.fit, NumPy", 215, 21, 8, 2, 2),
    ],
)
def test_the_way_is_short(tracing, way, functions, files, rooms, bounces, asked):
    found = tracing.trace(tracing.ways()[way])
    assert 1 < len(found.functions) <= functions, sorted(found.functions)
    assert 1 < len(found.files) <= files, sorted(found.files)
    assert 1 < len(found.rooms) <= rooms, sorted(found.rooms)
    assert len(found.bounces) <= bounces, sorted(found.bounces)
    assert 0 < found.asked <= asked
