"""The site: its pages name what exists, all that is public is in the reference, links work."""

import ast
import functools
import importlib
import importlib.util
import inspect
import json
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from test_architecture import DOCUMENTED, LEVEL

import skout
from skout import KernelRidge
from skout.sketches import SubSample

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("coming_from/*.md")])
MODULES = sorted(DOCUMENTED - {"skout.dev"})

pytestmark = pytest.mark.skipif(not PAGES, reason="a source distribution has no pages")


def script(path: Path):
    """Return a script outside the package as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(module: str):
    if module.startswith("skout.deep"):
        pytest.importorskip("torch")
    return importlib.import_module(module)


@functools.cache
def names() -> list[tuple[str, str]]:
    """Return the modules and names that the API reference lists, a page for each."""
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"currentmodule:: (\S+)\n(.*?)```", text, flags=re.DOTALL)
    pairs = [(m, n) for m, block in blocks for n in re.findall(r"^   (\w+)$", block, re.MULTILINE)]
    assert len(set(pairs)) == len(pairs), "no name twice"
    return pairs


@functools.cache
def reference() -> set[object]:
    """Return the objects that the API reference lists."""
    return {id(getattr(load(module), name)) for module, name in names()}


@pytest.mark.parametrize("module", MODULES)
def test_all_that_is_public_is_in_the_reference(module):
    listed = reference()
    found = {name: getattr(load(module), name) for name in load(module).__all__}
    missing = {
        name
        for name, value in found.items()
        if not name.isupper() and not isinstance(value, type(importlib)) and id(value) not in listed
    }
    assert missing == set()


def test_the_page_on_extending_lists_the_toolbox():
    text = (DOCS / "extending.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", text.partition("## The toolbox")[2], re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)", row)]
    assert sorted(listed) == sorted(load("skout.dev").__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_in_pages_exist(page):
    for role, text in re.findall(r"\{py:(\w+)\}`([^`]+)`", page.read_text(encoding="utf-8")):
        target = re.sub(r".*<(.*)>", r"\1", text).lstrip("~")
        if role == "mod":
            load(target)
            continue
        module, name = target.rsplit(".", 1)
        assert hasattr(load(module), name), f"{page.name}: there is no {target}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_files_that_pages_link_to_exist(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)|```\{(?:image|figure|literalinclude)\} (\S+)", text)
    for link in (a or b for a, b in links):
        if "://" not in link and "auto_examples" not in link:
            assert (page.parent / link).exists(), f"{page.name}: there is no {link}"


def test_the_tables_of_pages_are_those_of_the_records():
    pytest.importorskip("psutil")  # of the experiments
    from benchmarks import summary

    for page in summary.SECTIONS:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert summary.with_tables(page, text) == text, "run: python -m benchmarks.summary --write"
        for name in re.findall(r"`((?:benchmarks|experiments)/[\w/]+\.py)", text):
            assert (ROOT / name).exists(), f"{name} makes a number of {page}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 600


def test_the_page_beyond_the_papers_is_that_of_the_records():
    pytest.importorskip("psutil")  # of the experiments
    from experiments.ours import beyond

    text = (DOCS / "beyond.md").read_text(encoding="utf-8")
    assert beyond.page_text() == text, "run: python -m experiments.ours.beyond page"


def test_the_page_of_costs_is_that_of_the_records():
    pytest.importorskip("psutil")  # of the benchmarks
    from benchmarks import cost

    text = (DOCS / "scale.md").read_text(encoding="utf-8")
    assert cost.page_text() == text, "run: python -m benchmarks.cost page"


def test_what_the_page_of_the_papers_names_is_there():
    text = (DOCS / "papers.md").read_text(encoding="utf-8")
    for name in re.findall(r"\{py:\w+\}`(?:[^`<]*<|~)([\w.]+)>?`", text):
        pkgutil.resolve_name(name)
    calls = re.findall(r"`(\w+)\(([^`]*)\)`", text)
    calls = [(name, arguments) for name, arguments in calls if hasattr(skout, name)]
    assert len(calls) > 5
    for name, arguments in calls:
        known = inspect.signature(getattr(skout, name)).parameters
        assert set(re.findall(r"(\w+)=", arguments)) <= set(known), name


def test_tests_that_the_page_of_the_papers_names_are_there():
    text = (DOCS / "papers.md").read_text(encoding="utf-8")
    tests = re.findall(r"`([\w/]+/test_\w+\.py)`: ([\w ]+) \|", text)
    assert len(tests) > 30
    for file, name in tests:
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"def test_{name.replace(' ', '_')}(" in source, name


def test_a_test_uses_what_the_page_of_the_papers_names():
    text = (DOCS / "papers.md").read_text(encoding="utf-8")
    used = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name | ast.Attribute):
                used.add(node.id if isinstance(node, ast.Name) else node.attr)
    named = re.findall(r"\{py:\w+\}`(?:[^`<]*<|~)[\w.]*?(\w+)>?`", text)
    assert len(named) > 80
    assert sorted(set(named) - used) == []


def run_git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_records_say_when_they_were_run_and_what_changed_since(tmp_path, monkeypatch):
    """Of three commits the first two change one file, and the last another."""
    conf = script(DOCS / "conf.py")
    monkeypatch.setattr(conf, "HERE", tmp_path / "docs")
    for folder in ("docs", "src/skout", "records/records"):
        (tmp_path / folder).mkdir(parents=True)
    assert conf.changes_since('{"date": "2026-01-02"}') == "", "outside of a repository"
    run_git(tmp_path, "init", "-q")
    commits = []
    for step, name in enumerate(["used.py", "used.py", "other.py"]):
        (tmp_path / "src" / "skout" / name).write_text(f"step = {step}\n")
        run_git(tmp_path, "add", ".")
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"2026-01-0{step + 1}T12:00:00Z")
        run_git(tmp_path, "commit", "-q", "-m", str(step))
        commits.append(conf.git("rev-parse", "HEAD").strip())
    runs = {
        "clean": {
            "date": "2026-01-05",
            "commit": commits[0][:10],
            "measures": ["src/skout/used.py"],
        },
        "fresh": {
            "date": "2026-01-05",
            "commit": commits[1][:10],
            "measures": ["src/skout/used.py"],
        },
        "dirty": {"date": "2026-01-05", "commit": commits[0][:10] + "-dirty"},
        "nameless": {"date": "2026-01-02"},
    }
    records = tmp_path / "records" / "records"
    for name, run in runs.items():
        (records / f"{name}.json").write_text(json.dumps(run, indent=1))
    both = {"parts": {"a": runs["clean"], "b": runs["nameless"]}}
    (records / "parts.json").write_text(json.dumps(both))
    conf.collect_records(None)
    written = (tmp_path / "docs" / "generated" / "records.md").read_text().splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in written]
    assert {row[0].split("/")[-1]: row[-1] for row in cells} == {
        "clean.json`": "**1**",
        "dirty.json`": "2",
        "fresh.json`": "0",
        "nameless.json`": "1",
        "parts.json`": "1",
    }
    assert cells[-1][1] == "2026-01-02 to 2026-01-05"
    run_git(tmp_path, "clone", "-q", "--depth=1", tmp_path.as_uri(), "shallow")
    monkeypatch.setattr(conf, "HERE", tmp_path / "shallow" / "docs")
    assert conf.changes_since(json.dumps(runs["clean"])) == "", "a shallow clone has no history"


@pytest.mark.parametrize("path", sorted(ROOT.glob("*/records/*.json")), ids=lambda path: path.stem)
def test_every_record_has_a_date(path):
    assert re.search(r'"date": "\d{4}-\d\d-\d\d"', path.read_text(encoding="utf-8"))


def spelled_out(name: str) -> list[str]:
    """Return "a_b" and "a" for "a{_b,}"."""
    before, brace, rest = name.partition("{")
    if not brace:
        return [name]
    inside, _, after = rest.partition("}")
    return [one for part in inside.split(",") for one in spelled_out(before + part + after)]


def test_the_records_of_experiments_are_those_that_their_page_names():
    folder = ROOT / "experiments"
    names = re.findall(r"`(records/\S+\.json)`", (folder / "README.md").read_text(encoding="utf-8"))
    found = {one: set(folder.glob(one)) for name in names for one in spelled_out(name)}
    assert [name for name, paths in found.items() if not paths] == []
    assert set.union(*found.values()) == set(folder.glob("records/*.json"))


def test_the_tested_versions_are_those_of_the_record():
    from benchmarks import versions

    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert versions.with_sentence(text, versions.recorded()) == text, "run: make record-newest"


def test_a_run_becomes_a_row_and_a_sentence(tmp_path):
    from benchmarks import versions

    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3" '
        'timestamp="2026-01-02T03:04:05"/></testsuites>'
    )
    new = versions.run("newest", report)
    counts = [new[key] for key in ("date", "passed", "failed", "skipped")]
    assert counts == ["2026-01-02", 3, 3, 3]
    oldest = {"versions": "oldest", "python": "3.11.7", "failed": 0}
    oldest |= {"numpy": "1.26.0", "scipy": "1.12.0", "scikit-learn": "1.6.0"}
    runs = versions.with_run(versions.with_run([new | {"failed": 0}], oldest), new)
    assert runs == [oldest, new]
    said = "Tested with Python 3.11, NumPy 1.26, SciPy 1.12, and scikit-learn 1.6."
    assert versions.sentence(runs) == said
    other = oldest | {"versions": "newest", "python": "3.13.0", "numpy": "2.10.1"}
    assert "Python 3.11 and 3.13, NumPy 1.26 and 2.10," in versions.sentence([other, oldest])


def test_links_of_a_site(tmp_path):
    links = script(DOCS / "links.py")
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">1</a><a href="#top" id="top">2</a><a href="https://x.org/y">3</a>'
        '<a href="b.html#nowhere">4</a><img src="c.png"><a href="sub/">5</a>'
    )
    (tmp_path / "b.html").write_text('<p id="here"></p>')
    assert links.broken(tmp_path) == [
        "a.html: b.html#nowhere",
        "a.html: c.png",
        "a.html: sub/",
    ]


def test_drawings_can_be_drawn(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    drawings = script(DOCS / "drawings.py")
    monkeypatch.setattr(drawings, "IMAGES", tmp_path)
    drawings.main()
    assert {path.stem for path in tmp_path.glob("*.svg")} == set(drawings.DRAWINGS)
    assert all((DOCS / "images" / f"{stem}.svg").exists() for stem in drawings.DRAWINGS)


def test_the_picture_of_the_house_is_the_house():
    """Each floor of the picture lies above the next, by the layers that imports are held to."""
    floors = script(DOCS / "drawings.py").HOUSE
    drawn = [(*rooms, *tools) for rooms, _, tools in floors]
    drawn_rooms = {room for rooms in drawn for room in rooms}
    assert drawn_rooms == set(LEVEL) - {"__init__", "__main__", "apps"}
    heights = [{LEVEL[room] for room in rooms} for rooms in drawn]
    assert all(len(height) == 1 for height in heights)
    assert [max(height) for height in heights] == sorted(map(max, heights), reverse=True)


def test_the_picture_of_a_fit_is_the_fit():
    """A traced fit makes the calls that are drawn, in this order, and they return what it says."""
    flow = script(DOCS / "drawings.py").FLOW
    results = {(function, f"skout.{module}"): result for function, module, result, _ in flow}
    begun, returned = [], {}

    def look(frame, event, value):
        key = frame.f_code.co_qualname, frame.f_globals.get("__name__", "")
        if key in results and event == "call" and key not in begun:
            begun.append(key)
        elif key in results and event == "return":
            first = value[0] if type(value) is tuple else value
            returned[key] = {kind.__name__ for kind in type(first).__mro__}

    X = np.random.default_rng(0).standard_normal((60, 2))
    model = KernelRidge("gaussian", SubSample(20), alpha=[1e-3, 1e-2], random_state=0)
    sys.setprofile(look)
    try:
        model.fit(X, X[:, 0])
    finally:
        sys.setprofile(None)
    assert begun == list(results)
    assert all(result in returned[key] for key, result in results.items() if result)


def test_every_command_is_run_on_its_page():
    pytest.importorskip("typer")
    page = (DOCS / "command_line.md").read_text(encoding="utf-8")
    missing = {
        name for name in script(DOCS / "commands.py").commands() if f"$ skout {name} " not in page
    }
    assert missing == set(), "run: python docs/commands.py"


def test_math_is_typeset_without_a_network():
    config = (DOCS / "conf.py").read_text(encoding="utf-8")
    (name,) = re.findall(r'^mathjax_path = "(\S+)"', config, re.MULTILINE)
    assert (DOCS / "_static" / name).is_file()
    assert "Apache License" in (DOCS / "_static" / name).with_name("LICENSE").read_text()


def test_the_home_page_begins_with_a_table_and_ends_with_methods():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    marks = ("skout fit films.csv", "images/films-report.png", "skout identify", "images/path.svg")
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_the_bar_has_six_short_words():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    entries = re.findall(r"^(.+) <(.+)>$", text.rpartition("```{toctree}")[2], re.MULTILINE)
    assert len(entries) == 6
    assert all(len(name) <= 8 for name, _ in entries)


def test_every_page_is_in_a_menu():
    listed = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL):
            names = (line.strip() for line in block.splitlines() if line and line[0] != ":")
            names = (re.sub(r".*<(.*)>", r"\1", name) for name in names)
            listed |= {(page.parent / name).resolve() for name in names}
    pages = {page.resolve().with_suffix("") for page in PAGES}
    assert pages - listed == {(DOCS / "index").resolve()}
    assert {path.relative_to(DOCS.resolve()).as_posix() for path in listed - pages} == {
        "auto_examples/index"
    }


def test_the_gallery_names_pages_that_exist():
    pytest.importorskip("sphinx")
    conf = script(DOCS / "conf.py")
    names = {path.stem.removeprefix("plot_") for path in (ROOT / "examples").glob("plot_*.py")}
    assert set(conf.GALLERY) <= names
    order = sorted((f"plot_{name}.py" for name in names), key=conf.GalleryOrder(""))
    assert order.index("plot_tuned.py") < order.index("plot_theory.py")


def test_estimators_link_to_their_pages(monkeypatch):
    monkeypatch.setenv("SKOUT_DOCUMENTATION", "https://pages.example/skout/")
    linked = 0
    for module, name in names():
        kind = getattr(load(module), name)
        if not inspect.isclass(kind) or inspect.isabstract(kind):
            continue
        if issubclass(kind, BaseEstimator):
            link = kind.__new__(kind)._get_doc_link()
            assert link == f"https://pages.example/skout/generated/{module}.{name}.html", name
            linked += 1
    assert linked > 50
    model = skout.KernelRidge("gaussian", skout.sketches.SubSample(5))
    page = "https://pages.example/skout/generated/skout.KernelRidge.html"
    assert f'href="{page}"' in model._repr_html_()


def test_without_an_address_there_is_no_link(monkeypatch):
    monkeypatch.delenv("SKOUT_DOCUMENTATION", raising=False)
    monkeypatch.setattr("skout._numerics.estimators._declared", lambda: "")
    assert skout.KernelRidge()._get_doc_link() == ""
    assert "href" not in skout.KernelRidge()._repr_html_()
    monkeypatch.setenv("SKOUT_DOCUMENTATION", "https://pages.example")

    class Own(skout.kernels.Gaussian):
        """A class of a user, which has no page."""

    assert Own()._get_doc_link() == ""
