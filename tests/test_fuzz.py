"""A short run of each fuzzer of `fuzz.py`, which is a script for long ones."""

import pytest
from fuzz import OUTCOMES, TARGETS, peak, run
from fuzz_files import MODELS, read_model, saved

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
    assert run(name, 60, seed=0) >= 30


def test_saved_models_are_refused_or_do_no_harm():
    for name in MODELS:
        saved(name)
    OUTCOMES.clear()
    before = peak()
    for name in TARGETS:
        if name.startswith("saved: "):
            run(name, 30, seed=1)
    assert OUTCOMES.keys() == {"refused", "predicts", "does not predict"}
    assert OUTCOMES["predicts"] >= 10  # so the checks are passed, and predicting is tried
    assert peak() - before < 300.0  # MB


@pytest.mark.parametrize("name", MODELS)
def test_an_untouched_file_predicts(name, monkeypatch):
    monkeypatch.setattr("fuzz_files.WAYS", {"none": lambda data, rng: data})
    assert read_model((name, "none", 0)) == "predicts"


def test_a_crash_would_be_seen(monkeypatch):
    strategy, _ = TARGETS["strings"]

    def crash(value):
        raise IndexError

    monkeypatch.setitem(TARGETS, "strings", (strategy, crash))
    with pytest.raises(IndexError):
        run("strings", 5)
