"""Benchmarks, experiments and examples import only names that the package has."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "experiments", "examples")
SCRIPTS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.py"))


def names(path: Path) -> list[tuple[str, str]]:
    """Return (module, name) of everything that a script imports from skout."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "skout":
            found += [(str(node.module), alias.name) for alias in node.names]
    return found


@pytest.mark.skipif(not SCRIPTS, reason="a source distribution has no scripts")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_names_exist(path):
    for module, name in names(path):
        if module.startswith("skout.deep"):
            pytest.importorskip("torch")
        assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


def test_the_check_can_fail(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from skout.basis.features import nothing_of_the_kind\n")
    with pytest.raises(AssertionError, match="has no nothing_of_the_kind"):
        test_names_exist(script)
