"""A short run of each fuzzer of `fuzz.py`, which is a script for long ones."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import fuzz_watch
import pytest
from fuzz import OUTCOMES, SEEDS, TARGETS, replay, run
from fuzz_files import MODELS, read_model, saved
from fuzz_watch import Outcome, peak

pytest.importorskip("rdkit")
pytest.importorskip("pyarrow")
torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", [name for name in TARGETS if not name.startswith("saved: ")])
def test_readers_do_not_crash(name):
    assert run(name, 40, seed=0) >= 30


def test_saved_models_are_refused_or_do_no_harm():
    for name in MODELS:
        saved(name)
    OUTCOMES.clear()
    before = peak()
    for name in TARGETS:
        if name.startswith("saved: "):
            run(name, 15, seed=1)
    assert OUTCOMES.keys() == {"refused", "predicts", "does not predict"}
    assert OUTCOMES["predicts"] >= 10  # so the checks are passed, and predicting is tried
    assert peak() - before < 300.0  # MB


@pytest.mark.parametrize("name", MODELS)
def test_an_untouched_file_predicts(name, monkeypatch):
    monkeypatch.setattr("fuzz_files.WAYS", {"none": lambda data, rng: data})
    assert read_model((name, "none", 0)) == "predicts"


def test_a_crash_would_be_seen(monkeypatch):
    strategy, _ = TARGETS["strings"]

    def crash(_value):
        raise IndexError

    monkeypatch.setitem(TARGETS, "strings", (strategy, crash))
    with pytest.raises(IndexError):
        run("strings", 5)


@pytest.mark.parametrize("error", [MemoryError, RuntimeError])  # PyTorch's is the second
def test_a_model_that_takes_all_memory_would_be_seen(error, monkeypatch):
    def predict(*_):
        raise error("cannot allocate by the model")

    monkeypatch.setattr("skout.KernelRidge.predict", predict)
    monkeypatch.setattr("fuzz_files.WAYS", {"none": lambda data, rng: data})
    with pytest.raises(MemoryError, match="by the model"):
        read_model(("ridge", "none", 0))


def test_a_file_that_takes_all_memory_would_be_seen(monkeypatch):
    def model(*_):
        raise MemoryError("by the reader")

    monkeypatch.setattr("skout.persistence.Reader.model", model)
    monkeypatch.setattr("fuzz_files.WAYS", {"none": lambda data, rng: data})
    with pytest.raises(MemoryError, match="by the reader"):
        read_model(("ridge", "none", 0))


def test_an_example_can_be_run_alone():
    seen: list = []
    run("csv", 12, seed=3, begin=seen.append)
    again: list = []
    run("csv", 12, seed=3, begin=again.append, only=9)
    assert again == [seen[8]]


def test_examples_do_not_depend_on_the_code_that_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setitem(TARGETS, "seeds", (SEEDS, lambda value: None))
    seen: list = []
    run("seeds", 200, seed=3, begin=seen.append)
    source = f"numbers = {list(range(10**6, 10**6 + 500))}"
    (tmp_path / "edited_module.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("edited_module")
    again: list = []
    run("seeds", 200, seed=3, begin=again.append)
    monkeypatch.delitem(sys.modules, "edited_module")
    assert again == seen


def test_the_number_of_a_failure_is_that_of_its_example(monkeypatch):
    strategy, _ = TARGETS["csv"]
    seen: list = []

    def crash(_value):
        if len(seen) == 4:
            raise IndexError

    monkeypatch.setitem(TARGETS, "csv", (strategy, crash))
    with pytest.raises(IndexError):
        run("csv", 12, seed=3, begin=seen.append)
    assert seen[-1][0] == len(seen) == 4  # though hypothesis tries it again


def test_replay_finds_the_reader(monkeypatch, capsys):
    calls = []

    def batch(name, seed, only=None):
        calls.append((name, seed, only))
        return Outcome("it failed", 1, "(1, 'x')", None, 2.0)

    monkeypatch.setattr("fuzz.batch", batch)
    assert replay("saved: bytes:12:3") == replay("csv:7") == 1
    assert calls == [("saved: bytes", 12, 3), ("csv", 7, None)]
    assert "it failed" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="READER:SEED"):
        replay("nothing:1")


# In a process of its own, since one with threads should not fork.
WATCHED = """
import ctypes, dataclasses, json, sys, time
from fuzz_watch import watched

def fine(begin): begin(1); begin(2); return {"a": 1}
def hang(begin): begin("first"); begin("hang"); time.sleep(60)
def crash(begin): begin("crash"); ctypes.string_at(0)
def fill(begin): begin("fill"); return len(bytearray(3 * 10**9))
def fail(begin): begin("fail"); raise KeyError("missing")

works = (fine, hang, crash, fill, fail)
found = [watched(work, seconds=1.0, megabytes=500.0) for work in works]
print(json.dumps([dataclasses.asdict(one) for one in found]))
"""


def test_whatever_ends_a_child_is_named():
    command, folder = [sys.executable, "-c", WATCHED], Path(fuzz_watch.__file__).parent
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    fine, hang, crash, fill, fail = json.loads(done.stdout)
    assert (fine["failure"], fine["begun"], fine["result"]) == (None, 2, {"a": 1})
    assert (hang["failure"], hang["begun"], hang["last"]) == ("took more than 1 s", 2, "'hang'")
    assert (crash["failure"], crash["last"]) == ("the process ended with the status -11", "'crash'")
    assert "MemoryError" in fill["failure"]
    assert "KeyError: 'missing'" in fail["failure"]
    assert "hang" in done.stderr  # where it was when it was killed
    assert "Segmentation fault" in done.stderr
