"""`make reproduce`: names, what is finished is kept, the page is that of the records."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "experiments"

pytestmark = pytest.mark.skipif(
    not EXPERIMENTS.is_dir(), reason="a source distribution has no experiments"
)


@pytest.fixture(scope="module", autouse=True)
def scripts():
    """Make the scripts importable."""
    pytest.importorskip("torch")  # figure 5.2 has networks
    pytest.importorskip("psutil")
    sys.path.insert(0, str(EXPERIMENTS))
    yield
    sys.path.remove(str(EXPERIMENTS))


PAPERS = {
    *(f"figure-{number}" for number in ("3.1", ".2", "4.2", "B.4", "B.5", "5.2", "5.3", "5.5")),
    *(f"table-{number}" for number in ("3.3", "3.4", "4.2", "4.3", "4.4", "5.1", "5.2", "C.4")),
    "figure-C.7",
}


def test_every_table_and_figure_has_one_config():
    from papers import CONFIGS

    names = [config.name for config in CONFIGS]
    assert len(set(names)) == len(names)
    assert set(names) == PAPERS


def test_configs_name_what_exists():
    from common import FIGURES, record_path
    from papers import CONFIGS

    for config in CONFIGS:
        assert all(record_path(name).is_file() for name in config.records), config.name
        assert all((FIGURES / name).is_file() for name in config.figures), config.name
        assert config.plan is not None or config.gpu, config.name


def test_a_plan_writes_a_record_that_its_config_reads():
    from papers import CONFIGS

    for config in CONFIGS:
        if config.plan is not None:
            assert config.plan(True).record in config.records, config.name


def test_names_are_parsed():
    from papers import CONFIGS, by_name

    assert by_name() == list(CONFIGS)
    two = by_name("table-4.2, Figure-b.4,table-4.2,")
    assert [config.name for config in two] == ["table-4.2", "figure-B.4"]


def test_a_wrong_name_lists_the_names():
    from papers import by_name

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

        from pieces import Plan, joined

        names = ("a", "b", "c")
        pieces = {name: partial(self.piece, name) for name in names}
        return Plan("counted", self.settings, pieces, joined)


@pytest.fixture
def carry_out(tmp_path, monkeypatch):
    from functools import partial

    import common
    import pieces

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


@pytest.mark.parametrize("change", ["settings", "version"])
def test_other_settings_or_versions_run_again(carry_out, monkeypatch, change):
    import skout

    carry_out(Counted(m=1).plan())
    other = Counted(m=2 if change == "settings" else 1)
    if change == "version":
        monkeypatch.setattr(skout, "__version__", "0.0.0")
    carry_out(other.plan())
    assert other.asked == ["a", "b", "c"]


def test_a_half_written_piece_does_not_count(carry_out, tmp_path):
    carry_out(Counted(m=1).plan())
    folder = tmp_path / "parts" / "full" / "counted"
    (folder / "b.json").rename(folder / "b.part")
    again = Counted(m=1)
    carry_out(again.plan())
    assert again.asked == ["b"]


def test_a_quick_run_leaves_records_and_pieces_of_full_runs_alone(carry_out, tmp_path):
    carry_out(Counted(m=1).plan(), quick=True)
    assert not (tmp_path / "records").exists()
    full = Counted(m=1)
    carry_out(full.plan())
    assert full.asked == ["a", "b", "c"]


def test_configs_of_one_script_share_a_run_and_missing_data_do_not_stop_the_others(monkeypatch):
    import reproduce
    from papers import by_name

    asked = []

    def carry_out(plan, _again, _quick):
        asked.append(plan.record)
        if plan.record == "figure_5_5":
            raise FileNotFoundError("no such data")

    monkeypatch.setattr(reproduce, "carry_out", carry_out)
    said = reproduce.reproduce(
        by_name("figure-5.5,figure-C.7,figure-4.2,figure-B.4,table-5.1"), quick=True
    )
    assert asked == ["figure_5_5", "figure_4_2"]
    assert said["figure-C.7"] == "NOT RUN, the page has the record: no such data"
    assert said["table-5.1"] == "from the record, which needed a GPU"


def test_a_number_is_reached_within_the_spread_of_the_paper():
    from verdicts import number

    assert number("", (1.0, 0.1), (1.09, 0.0)).reached
    assert not number("", (1.0, 0.1), (1.11, 0.5)).reached, "our own spread does not help"
    assert number("", (1.0, 0.1), (0.91, 0.0), more=True).reached
    assert not number("", (1.0, None), (0.99, 0.0), more=True).reached


def test_the_page_is_that_of_the_records():
    import page

    assert page.text() == page.PAGE.read_text(encoding="utf-8"), "run: python experiments/page.py"


def test_data_that_are_not_at_hand_are_named_with_their_size(monkeypatch, tmp_path):
    import reproduce
    from papers import by_name

    monkeypatch.setenv("SKOUT_DATA", str(tmp_path))
    monkeypatch.setattr(reproduce, "available", lambda source: source.name == "rf1")
    lines = reproduce.missing_data(by_name("table-3.3,table-3.4,table-4.2,figure-4.2"))
    assert [line.partition(":")[0] for line in lines] == ["bibtex", "boston"]
    assert lines[0] == "bibtex: 3.5 MB, skout datasets fetch bibtex"
    assert "in SKOUT_DATA, from" in lines[1] or "skout datasets fetch boston" in lines[1]
    assert not reproduce.missing_data(by_name("figure-3.1"))  # its data are made
