"""`make reproduce`: names, what is finished is kept, the page is that of the records."""

import json
import os
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")  # figure 5.2 has networks


ROOT = Path(__file__).resolve().parents[2]
PAPERS = {
    *(f"figure-{number}" for number in ("3.1", ".2", "4.2", "B.4", "B.5", "5.2", "5.3", "5.5")),
    *(
        f"table-{number}"
        for number in ("3.3", "3.4", ".2", "4.2", "4.3", "4.4", "5.1", "5.2", "C.4")
    ),
    "figure-C.7",
}


def test_every_table_and_figure_has_one_config():
    from experiments.papers.entries import CONFIGS

    names = [config.name for config in CONFIGS]
    assert len(set(names)) == len(names)
    assert set(names) == PAPERS


def test_configs_name_what_exists():
    from experiments.common import FIGURES, record_path
    from experiments.papers.entries import CONFIGS

    for config in CONFIGS:
        assert all(record_path(name).is_file() for name in config.records), config.name
        assert all((FIGURES / name).is_file() for name in config.figures), config.name
        assert config.plan is not None or config.gpu, config.name


@pytest.mark.skipif(
    not os.environ.get("SKOUT_DATA"), reason="plans of real data need SKOUT_DATA, which is not set"
)
def test_a_plan_writes_a_record_that_its_config_reads():
    from experiments.messages import by_name

    for config in by_name():
        for size in ("quick", "brief", "full"):
            if config.plan is not None:
                assert config.plan(size).record in config.records, config.name


def test_names_are_parsed():
    from experiments.messages import MESSAGES, by_name
    from experiments.papers.entries import CONFIGS

    assert by_name() == [*CONFIGS, *MESSAGES]
    two = by_name("table-4.2, Figure-b.4,table-4.2,")
    assert [config.name for config in two] == ["table-4.2", "figure-B.4"]


def test_the_ten_commands_have_names_that_run():
    from experiments.messages import by_name
    from skout.datasets import CATALOG

    page = (ROOT / "docs" / "ten_commands.md").read_text(encoding="utf-8")
    commands = re.findall(
        r"^\|.*`(make reproduce ONLY=(\S+)|python (\S+))`(?: \((.*)\))?", page, re.M
    )
    assert len(commands) == 10
    for _, names, script, data in commands:
        assert all(config.plan is not None for config in by_name(names)) if names else True
        assert not script or (ROOT / script).is_file()
        assert not data or data in {name for _, name in CATALOG}


def test_a_wrong_name_lists_the_names():
    from experiments.messages import by_name

    with pytest.raises(ValueError, match=r"There is no table-9.*Known: figure-3\.1, .*table-4\.2"):
        by_name("table-4.2,table-9")


class Counted:
    """A plan of three pieces that count how often they are asked, and may break off."""

    def __init__(self, breaks=None, **settings):
        self.asked, self.breaks, self.settings = [], breaks, settings

    def piece(self, name, so_far):
        self.asked.append(name)
        if name == self.breaks:
            raise KeyboardInterrupt
        return [{"name": name, "seen": sorted(so_far)}]

    def plan(self):
        from functools import partial

        from experiments.pieces import Plan, joined

        names = ("a", "b", "c")
        pieces = {name: partial(self.piece, name) for name in names}
        return Plan("counted", self.settings, pieces, joined)


@pytest.fixture
def carry_out(tmp_path, monkeypatch):
    from functools import partial

    from experiments import common, pieces

    monkeypatch.setattr(common, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(common, "gemm_rate", lambda *_: 1e9)
    return partial(pieces.carry_out, folder=tmp_path / "parts")


def test_an_interrupted_run_goes_on(carry_out, tmp_path):
    first = Counted(breaks="b", m=1)
    with pytest.raises(KeyboardInterrupt):
        carry_out(first.plan())
    assert first.asked == ["a", "b"]
    assert not (tmp_path / "records" / "counted.json").exists()
    second = Counted(m=1)
    rows = carry_out(second.plan())
    assert second.asked == ["b", "c"]
    assert [row["name"] for row in rows] == ["a", "b", "c"]
    assert rows[2]["seen"] == ["a", "b"], "later pieces see the earlier ones, kept or not"
    record = json.loads((tmp_path / "records" / "counted.json").read_text())
    assert record["results"] == rows
    assert record["wall_seconds"] >= 0.0


def test_what_is_finished_is_skipped_unless_asked_again(carry_out, tmp_path):
    carry_out(Counted(m=1).plan())
    path = tmp_path / "records" / "counted.json"
    path.write_text(path.read_text().replace('"date"', '"kept"'))
    again = Counted(m=1)
    carry_out(again.plan())
    assert again.asked == []
    assert '"kept"' in path.read_text(), "a record of the same results is left alone"
    carry_out(again.plan(), again=True)
    assert again.asked == ["a", "b", "c"]


@pytest.mark.parametrize("change", ["settings", "code"])
def test_other_settings_or_code_run_again(carry_out, monkeypatch, change):
    from experiments import pieces

    carry_out(Counted(m=1).plan())
    other = Counted(m=2 if change == "settings" else 1)
    if change == "code":
        monkeypatch.setattr(pieces, "code_version", lambda: "another")
    carry_out(other.plan())
    assert other.asked == ["a", "b", "c"]


def test_a_piece_may_be_named_as_a_command(tmp_path):
    from functools import partial

    from experiments.pieces import Plan, finished, write_piece

    name = "python examples/plot_theory.py"
    plan = Plan("commands", {}, {name: dict}, partial(dict))
    write_piece(tmp_path, name, plan, {"seconds": 1.0})
    assert finished(plan, tmp_path)[name]["seconds"] == 1.0


def test_a_half_written_piece_does_not_count(carry_out, tmp_path):
    carry_out(Counted(m=1).plan())
    folder = tmp_path / "parts" / "full" / "counted"
    (folder / "b.json").rename(folder / "b.part")
    again = Counted(m=1)
    carry_out(again.plan())
    assert again.asked == ["b"]


def test_a_quick_run_leaves_records_and_pieces_of_full_runs_alone(carry_out, tmp_path):
    carry_out(Counted(m=1).plan(), "quick")
    assert not (tmp_path / "records").exists()
    full = Counted(m=1)
    carry_out(full.plan())
    assert full.asked == ["a", "b", "c"]


def test_configs_of_one_script_share_a_run_and_missing_data_do_not_stop_the_others(monkeypatch):
    from experiments import reproduce
    from experiments.messages import by_name

    asked = []

    def carry_out(plan, size, again):
        assert (size, again) == ("quick", False)
        asked.append(plan.record)
        if plan.record == "figure_4_2":
            raise FileNotFoundError("no such data")

    monkeypatch.setattr(reproduce, "carry_out", carry_out)
    said = reproduce.reproduce(by_name("figure-4.2,figure-B.4,figure-5.5,table-5.1"), "quick")
    assert asked == ["figure_4_2", "figure_5_5"]
    assert said["figure-B.4"] == "NOT RUN: no such data"
    assert said["table-5.1"] == "from the record, which needed a GPU"


def test_the_page_is_that_of_the_records():
    from experiments import page

    assert page.text() == page.PAGE.read_text(encoding="utf-8"), "run: python -m experiments.page"


def test_data_that_are_not_at_hand_are_named_with_their_size(monkeypatch, tmp_path):
    from experiments import reproduce
    from experiments.messages import by_name

    monkeypatch.setenv("SKOUT_DATA", str(tmp_path))
    monkeypatch.setattr(reproduce, "available", lambda source: source.name == "rf1")
    lines = reproduce.missing_data(by_name("table-3.3,table-3.4,table-4.2,figure-4.2"))
    assert [line.partition(":")[0] for line in lines] == ["bibtex", "boston"]
    assert lines[0] == "bibtex: 3.5 MB, skout datasets fetch bibtex"
    assert "in SKOUT_DATA, from" in lines[1] or "skout datasets fetch boston" in lines[1]
    assert not reproduce.missing_data(by_name("figure-3.1"))  # its data are made


def test_messages_are_read_from_their_records(tmp_path):
    from experiments.common import kept_in
    from experiments.messages import robust
    from experiments.ours import tractable

    gains = {"loss": "Huber()", "MRR": [0.2, 0.01], "MRR: gain": [0.05, 0.01]}
    sizes = {"sizes": [10], "memory_gb": 1.0}
    run = {"fit": 1.0, "predict": 0.5, "megabytes": 7.0, "f1": 40.0, "distinct": 50_000}
    runs = [run | {"method": method, "n": n} for method in tractable.SKETCHES for n in (10,)]
    runs.append(run | {"method": "SISOKR", "n": 100_000})
    for name, settings, results in (
        ("robust_outputs", {"seeds": 4}, [{"loss": "Squared()"}, gains]),
        ("tractable", sizes, runs),
    ):
        record = {"settings": settings, "results": results}
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    with kept_in(tmp_path):
        (row,), rows = robust(), tractable.verdict()
    assert "+0.050 beside the squared loss" in row.ours
    assert "a Gram matrix of 80 GB or, of distinct molecules, 20 GB; this" in rows[-1].ours
    assert {row.verdict, *(row.verdict for row in rows)} == {"ours"}


def test_the_seconds_of_the_ten_commands_are_those_of_the_record(tmp_path):
    from experiments import timed
    from experiments.common import kept_in

    known = timed.commands()
    assert len(known) == 10
    row = {"command": known[3], "seconds": 12.4, "cpu_seconds": 6.0, "load": 3.5}
    (tmp_path / "ten_commands.json").write_text(json.dumps({"results": [row]}))
    with kept_in(tmp_path):
        text = timed.page()
    assert f"`{known[3]}` | 12 s, 6 s, 3.5 |" in text
    assert len(re.findall(r" s, \d+ s, ", text)) == 1


def test_each_message_has_its_picture(tmp_path):
    from experiments import pictures
    from experiments.common import FIGURES

    page = (ROOT / "docs" / "ten_commands.md").read_text(encoding="utf-8")
    for show in pictures.FIGURES:
        assert f"figures/message_{show.__name__}.png" in page
        assert (FIGURES / f"message_{show.__name__}.png").is_file()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures, "figure_path", tmp_path.joinpath)
        assert pictures.draw(pictures.robust).stat().st_size > 1000
