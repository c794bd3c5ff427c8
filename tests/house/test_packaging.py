"""The conda recipe and the list of a release say what pyproject.toml and the files say."""

import re
import tomllib
from pathlib import Path

import pytest
from extras import extra
from packaging.requirements import Requirement

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


def test_ci_uses_the_wheel():
    assert "make test-wheel" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
