"""The path of the data gets no longer: what a call passes through, by benchmarks.trace."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "trace.py"


@pytest.fixture(scope="module")
def tracing():
    spec = importlib.util.spec_from_file_location("trace_of_skout", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# A file is a page that whoever follows the data opens, a function a stop on the way. The calls are
# those of users. The limits only fall; the aim is 20 files, 230 functions and 60 bounces in the
# first, 18 files, 190 functions and 60 bounces in the third.
@pytest.mark.parametrize(
    ("call", "functions", "files", "rooms", "bounces", "asked"),
    [
        ("sisokr.fit", 329, 31, 11, 284, 23),
        ("sisokr.predict", 76, 16, 7, 7, 4),
        ("KernelRidge.fit, path, missing targets", 226, 19, 7, 60, 2),
        ("KernelRidge.fit, memmap", 211, 20, 7, 37, 2),
        ("KernelMachine.fit", 217, 22, 8, 73, 2),
    ],
)
def test_the_path_is_short(tracing, call, functions, files, rooms, bounces, asked):
    passed = tracing.trace(tracing.ways()[call])
    assert 1 < len(passed.functions) <= functions, sorted(passed.functions)
    assert 1 < len(passed.files) <= files, sorted(passed.files)
    assert 1 < len(passed.rooms) <= rooms, sorted(passed.rooms)
    assert passed.bounces.total() <= bounces, passed.bounces.most_common()
    assert 0 < passed.asked <= asked
