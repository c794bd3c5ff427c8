"""Records: what names the code that made them, where they go, parts that become one."""

import json

import pytest

from benchmarks import measure
from experiments import common
from experiments.ours import strangers


def test_a_copy_without_a_repository_is_told_its_commit(monkeypatch, tmp_path):
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    assert measure.surroundings()["commit"] == "not known"
    monkeypatch.setenv("SKOUT_COMMIT", "0123456789")
    monkeypatch.setenv("SKOUT_CODE", "abcdef0123")
    found = measure.surroundings()
    assert (found["commit"], found["code"]) == ("0123456789", "abcdef0123")


def part(folder, name, targets, commit="a"):
    rows = [{"table": table, "target": target, "seconds": 1.0} for table, target in targets]
    about = {"experiment": "strangers", "commit": commit, "seconds": 10.0, "results": rows}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(about))
    return path


def test_parts_of_strangers_become_one_record_in_order(monkeypatch, tmp_path):
    monkeypatch.setattr(common, "RECORDS", tmp_path)
    ships = part(tmp_path, "one", [("ships", "activity")])
    movies = part(tmp_path, "two", [("movies", "rated"), ("movies", "genre")])
    record = strangers.merge([ships, movies])
    assert [row["target"] for row in record["results"]] == ["genre", "rated", "activity"]
    assert record["seconds"] == 20.0
    assert json.loads((tmp_path / "strangers.json").read_text()) == record


def test_parts_of_two_commits_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(common, "RECORDS", tmp_path)
    paths = [part(tmp_path, name, [("ships", "activity")], name) for name in "ab"]
    with pytest.raises(ValueError, match="too many values"):
        strangers.merge(paths)
