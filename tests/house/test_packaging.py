"""The conda recipe and the list of a release say what pyproject.toml and the files say."""

import contextlib
import itertools
import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from extras import extra
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import skout

yaml = extra("yaml")
ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "packaging" / "recipe.yaml"
pytestmark = pytest.mark.skipif(not (ROOT / "Makefile").exists(), reason="not in the repository")


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def bounds(lines):
    return {one.name: str(one.specifier) for one in map(Requirement, lines)}


def test_the_recipe_needs_what_the_wheel_needs():
    recipe, known = yaml.safe_load(RECIPE.read_text(encoding="utf-8")), project()
    extras = known["optional-dependencies"]
    wanted = bounds([*known["dependencies"], *extras["cli"], *extras["table"]])
    assert wanted.pop("skout") == ""  # whose extra `table` is in `cli`
    needed = [line for line in recipe["requirements"]["run"] if not line.startswith("python ")]
    assert bounds(needed) == wanted
    assert f">={recipe['context']['python_min']}" == known["requires-python"]
    assert recipe["context"]["version"] == skout.__version__
    assert recipe["about"]["license"] == known["license"]
    assert recipe["about"]["summary"] == known["description"]
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert entry == "skout = " + known["scripts"]["skout"]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    host = [line for line in recipe["requirements"]["host"] if line.startswith("hatchling")]
    assert bounds(host) == bounds(build["requires"])


def test_the_list_of_a_release_names_what_exists():
    text = (ROOT / "RELEASING.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text(), re.M))
    targets = {name for group in targets for name in group.split()}
    assert set(re.findall(r"make ([a-z-]+)", text)) <= targets
    for path in re.findall(r"`([\w./-]+/[\w./-]*)`", text):
        assert (ROOT / path).exists() or path == "dist/", path


def test_addresses_are_the_same_everywhere():
    urls = project()["urls"]
    base = urls["repository"]
    assert urls["issues"].startswith(base)
    assert urls["changelog"].startswith(urls["documentation"])
    names = ("SECURITY.md", "CODE_OF_CONDUCT.md", "docs/_static/switcher.json")
    pages = [ROOT / name for name in names]
    owner = base.split("/")[3]
    for page in [*pages, *(ROOT / ".github").rglob("*.yml")]:
        for found in re.findall(r"github\.com/([\w-]+)|([\w-]+)\.github\.io", page.read_text()):
            assert owner in found, page
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["repository-code"] == base
    assert citation["version"] == skout.__version__


def test_workflows_run_the_declared_pythons():
    tests = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    job = tests["jobs"]["tests"]
    pythons = job["strategy"]["matrix"]["python"]
    declared = [one.rpartition(" ")[2] for one in project()["classifiers"] if ":: 3." in one]
    undeclared = [one for one in pythons if one not in declared]
    assert set(declared) <= set(pythons)
    assert all(f"'{one}'" in job["continue-on-error"] for one in undeclared)
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    jobs = release["jobs"]
    assert jobs["publish"]["permissions"] == {"attestations": "write", "id-token": "write"}
    assert "password" not in str(jobs)
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = set(re.findall(r"make ([a-z-]+)", " ".join(commands)))
    assert targets == {"dist-check", "docs", "test-wheel"}


def test_versions_of_the_site_name_this_one():
    versions = json.loads((ROOT / "docs/_static/switcher.json").read_text(encoding="utf-8"))
    released = skout.__version__.partition(".dev")[0]
    assert released in [one["version"] for one in versions] or ".dev" in skout.__version__
    assert sum(one.get("preferred", False) for one in versions) == 1


def test_forms_of_issues_are_forms():
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem == "config":
            continue
        assert {"name", "description", "body"} <= set(form), path
        assert all(part["attributes"]["label"] for part in form["body"])


def test_the_lock_file_is_complete():
    """Whatever an installed requirement of ours requires, here, has a version in the file.

    Only setuptools has none: it comes with an environment.
    """
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    pinned = {canonicalize_name(name) for name in pinned}
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = known["dependency-groups"]["release"]
    extras = known["project"]["optional-dependencies"]
    lines = [*known["project"]["dependencies"], *groups, *itertools.chain(*extras.values())]
    wanted = [Requirement(line) for line in lines]
    seen: set[str] = set()
    while wanted:
        one = wanted.pop()
        name = canonicalize_name(one.name)
        is_here = one.marker is None or one.marker.evaluate()
        if name in {*seen, "skout", "setuptools"} or not is_here:
            continue
        seen.add(name)
        assert name in pinned, f"{name} has no version in constraints.txt"
        with contextlib.suppress(metadata.PackageNotFoundError):  # of an extra that is not here
            found = map(Requirement, metadata.requires(name) or [])
            wanted += [each for each in found if "extra ==" not in str(each.marker)]


def test_ci_uses_the_wheel():
    assert "make test-wheel" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
