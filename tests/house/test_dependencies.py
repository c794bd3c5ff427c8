"""What skout depends on: no version with a known flaw, and bounds that are really tested.

``advisories.toml`` lists flaws, by hand and with a date: the tests run without a network.
"""

import datetime
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
# Extras that `make test-oldest` leaves out: torch and MLflow are large, and docs have no tests.
LEFT_OUT = {"deep", "text", "docs", "mlflow", "all"}

pytestmark = pytest.mark.skipif(
    not (ROOT / "constraints.txt").exists(), reason="a source distribution has no constraints"
)


@dataclass(frozen=True)
class Flaw:
    package: str
    affected: str
    ids: tuple[str, ...]
    what: str
    unreached: str = ""

    def hits(self, package: str, version: str) -> bool:
        same = canonicalize_name(package) == canonicalize_name(self.package)
        return same and SpecifierSet(self.affected).contains(Version(version), prereleases=True)


def advisories() -> dict:
    return tomllib.loads((ROOT / "tests" / "advisories.toml").read_text(encoding="utf-8"))


FLAWS = [Flaw(**{**entry, "ids": tuple(entry["ids"])}) for entry in advisories()["flaw"]]


def audit(versions: list[tuple[str, str]], *, all_flaws: bool = True) -> list[str]:
    """Return a line for each version with a known flaw; some are not reached by skout."""
    return [
        f"{package} {version}: {flaw.what} ({', '.join(flaw.ids)}); affected are {flaw.affected}"
        for package, version in versions
        for flaw in FLAWS
        if flaw.hits(package, version) and (all_flaws or not flaw.unreached)
    ]


def installed(path: list[str] | None = None) -> list[tuple[str, str]]:
    """Return names and versions of installed distributions, by default of this interpreter."""
    found = metadata.distributions() if path is None else metadata.distributions(path=path)
    return [(one.name, one.version) for one in found if one.name]


def pins(name: str) -> list[tuple[str, str]]:
    """Return the names and versions of a file of constraints."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.findall(r"^([\w.-]+)==(\S+)$", text, flags=re.MULTILINE)
    assert len(found) == sum(not line.startswith("#") for line in text.splitlines())
    return found


def bounds(left_out: set[str]) -> dict[str, str]:
    """Return the lower bounds that pyproject.toml declares, without those of some extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [line for extra in extras.keys() - left_out for line in extras[extra]]
    found = {}
    for requirement in map(Requirement, [*project["dependencies"], *lines]):
        if requirement.name != "skout":
            (bound,) = (one for one in requirement.specifier if one.operator == ">=")
            found[requirement.name] = bound.version
    return found


# The audit ----------------------------------------------------------------------------------------


def test_installed_versions_have_no_known_flaw():
    offences = audit(installed())
    assert not offences, "\n".join(offences)


def test_pinned_versions_have_no_known_flaw():
    offences = audit(pins("constraints.txt"))
    assert not offences, "\n".join(offences)


def test_declared_bounds_allow_no_flaw_that_skout_reaches():
    offences = audit(list(bounds(set()).items()), all_flaws=False)
    assert not offences, "raise the bound in pyproject.toml:\n" + "\n".join(offences)


def test_the_audit_can_fail(tmp_path):
    folder = tmp_path / "torch-2.5.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: Torch\nVersion: 2.5.0\n")
    offences = audit(installed([str(tmp_path)]))
    assert [line.partition(":")[0] for line in offences] == ["Torch 2.5.0"] * 2
    assert "CVE-2025-32434" in offences[0]
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: Torch\nVersion: 2.13.0\n")
    assert audit(installed([str(tmp_path)])) == []


def test_a_flaw_that_is_not_reached_still_counts_where_the_tests_run():
    assert audit([("pyarrow", "20.0")], all_flaws=False) == []
    assert len(audit([("pyarrow", "20.0")])) == 1
    assert audit([("pyarrow", "23.0.1")]) == []


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.ids[0])
def test_entries_are_complete(flaw):
    assert flaw.what
    assert all(re.fullmatch(r"CVE-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3}", one) for one in flaw.ids)
    upper = [one.version for one in SpecifierSet(flaw.affected) if one.operator == "<"]
    assert len(upper) == 1, "the version with the fix"
    assert not flaw.hits(flaw.package, upper[0])


def test_the_list_has_a_date():
    assert isinstance(advisories()["date"], datetime.date)


def test_pip_finds_no_conflict():
    pytest.importorskip("pip", reason="this environment has no pip")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "check"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    ours = {canonicalize_name(name) for name, _ in pins("constraints.txt")} | {"skout"}
    lines = [line for line in run.stdout.splitlines() if line != "No broken requirements found."]
    offences = [line for line in lines if canonicalize_name(line.split()[0]) in ours]
    assert not offences, "\n".join(offences)
    assert lines or run.returncode == 0, run.stderr


# The oldest versions ------------------------------------------------------------------------------


def test_the_oldest_versions_are_the_declared_bounds():
    assert dict(pins("constraints-oldest.txt")) == bounds(LEFT_OUT)


def test_the_usual_versions_are_in_the_declared_ranges():
    usual = {canonicalize_name(name): version for name, version in pins("constraints.txt")}
    for name, bound in bounds({"all"}).items():
        assert Version(usual[canonicalize_name(name)]) >= Version(bound), name
