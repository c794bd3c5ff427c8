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
# call: functions, files, rooms, bounces, questions where rows lie
LIMITS = {
    "sisokr.fit": (289, 29, 11, 51, 8),
    "sisokr.predict": (66, 15, 7, 5, 4),
    "KernelRidge.fit, path, missing targets": (194, 18, 7, 14, 2),
    "KernelRidge.fit, memmap": (190, 19, 7, 7, 2),
    "KernelMachine.fit": (206, 23, 8, 25, 2),
}


@pytest.mark.parametrize("call", LIMITS)
def test_the_path_is_short(tracing, call):
    functions, files, rooms, bounces, asked = LIMITS[call]
    passed = tracing.trace(tracing.ways()[call])
    assert 1 < len(passed.functions) <= functions, sorted(passed.functions)
    assert 1 < len(passed.files) <= files, sorted(passed.files)
    assert 1 < len(passed.rooms) <= rooms, sorted(passed.rooms)
    assert passed.bounces.total() <= bounces, passed.bounces.most_common()
    assert 0 < passed.asked <= asked


def test_contributing_says_the_numbers():
    page = PATH.parents[1] / "CONTRIBUTING.md"
    if not page.exists():
        pytest.skip("a source distribution has no such page")
    table = page.read_text(encoding="utf-8").split("<!-- trace: begin -->")[1]
    lines = table.split("<!-- trace: end -->")[0].strip().splitlines()[2:]
    said = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    limits = [[call, *map(str, (n[0], n[1], n[3]))] for call, n in LIMITS.items()]
    assert said == limits
