"""Benchmarks, experiments and examples: the names that they import exist, and each has a place."""

import ast
import importlib
import re
from pathlib import Path

import pytest
from test_architecture import is_public

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "experiments", "examples")
SCRIPTS = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))

pytestmark = pytest.mark.skipif(not SCRIPTS, reason="a source distribution has no scripts")


def imports(path: Path) -> list[tuple[str, str]]:
    """Return (module, name) of everything that a script imports by name."""
    return [
        (str(node.module), alias.name)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


def names(path: Path) -> list[tuple[str, str]]:
    """Return what a script imports from skout."""
    return [pair for pair in imports(path) if pair[0].split(".")[0] == "skout"]


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", SCRIPTS, ids=place)
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


# What is measured inside of the library has no public name: steps of a model on and off, say.
INSIDE = """
experiments/ours/auto_solver.py rows.device.named_device
experiments/ours/false_discoveries.py predictors.selection.benjamini_hochberg
experiments/ours/false_discoveries.py predictors.thresholds.masses
experiments/ours/identify.py apps.spectra.identify.design.Design
experiments/ours/identify.py apps.spectra.identify.design.combined_kernel
experiments/ours/reranking.py predictors.joint.JointBasis
experiments/ours/reranking.py predictors.joint.JointRegressor
experiments/ours/reranking.py predictors.joint.scaled
experiments/ours/reranking.py predictors.two_way_weight.Option
experiments/ours/reranking.py predictors.two_way_weight.TwoWayScores
experiments/ours/reranking.py predictors.two_way_weight.reciprocal_ranks
experiments/ours/massbank_sample.py datasets.files.SHIPPED
experiments/ours/massbank_sample.py datasets.files.locate
experiments/ours/mixed_tables.py apps.cli
experiments/ours/set_sizes.py predictors.listwise
experiments/ours/set_sizes.py predictors.two_way_weight.Option
experiments/ours/onnx_tables.py apps.cli.exporting.exported
experiments/ours/onnx_tables.py apps.cli.using.open_model
experiments/ours/onnx_tables.py apps.tables.files.open_table
experiments/ours/spectra_open.py apps.spectra.identify.calibration.Cuts
experiments/ours/spectra_open.py apps.spectra.identify.calibration.truth_rank
experiments/ours/spectra_open.py apps.spectra.identify.columns.Ions
experiments/ours/spectra_open.py apps.spectra.identify.columns.PEAKS
experiments/ours/spectra_open.py apps.spectra.identify.columns.WAYS
experiments/ours/spectra_open.py apps.spectra.identify.columns.candidate_columns
experiments/ours/spectra_open.py apps.spectra.identify.identifier
experiments/ours/spectra_open.py apps.spectra.identify.ranking.CandidateRanking
experiments/ours/spectra_open.py apps.spectra.identify.ranking.HeldOut
experiments/ours/spectra_open.py apps.spectra.identify.ranking.calibrated
experiments/ours/spectra_open.py apps.spectra.identify.ranking.weighed
experiments/ours/spectra_open.py apps.spectra.identify.search.Pairs
experiments/ours/spectra_open.py apps.spectra.identify.validation.held_out
experiments/ours/strangers.py apps.cli
experiments/ours/tuned_calibration.py apps.tuning.averages
experiments/ours/tuned_calibration.py apps.tuning.calibration.expected_calibration_error
experiments/ours/tuned_calibration.py apps.tuning.scoring.codes_of
experiments/ours/two_way.py predictors.joint.JointBasis
experiments/ours/two_way.py predictors.joint.JointRegressor
experiments/ours/two_way.py predictors.two_way_weight.NORMALIZATIONS
experiments/ours/two_way.py predictors.two_way_weight.Option
experiments/ours/two_way.py predictors.two_way_weight.TwoWayScores
experiments/ours/two_way.py predictors.two_way_weight.option_scores
experiments/ours/two_way.py predictors.two_way_weight.options_for
experiments/papers/smi2mol.py kernels.graph_rows.Graphs
experiments/papers/synthetic.py solvers.design.DesignMatrix
"""


def test_experiments_use_public_names():
    found = {
        f"{place(path)} {module.removeprefix('skout.')}.{name}"
        for path in SCRIPTS
        if path.is_relative_to(ROOT / "experiments")
        for module, name in names(path)
        if not is_public(f"{module}.{name}") and not module.startswith("skout.solvers.ridge")
    }
    assert found == set(INSIDE.strip().splitlines())


def test_experiments_of_the_papers_stand_without_ours():
    wrong = [
        place(path)
        for path in (ROOT / "experiments" / "papers").glob("*.py")
        for module, name in imports(path)
        if f"{module}.{name}".startswith("experiments.ours")
    ]
    assert wrong == []


def test_every_benchmark_has_a_target():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    lists = re.findall(r"^BENCH(?:_\w+)? := (.*)$", text, re.MULTILINE)
    targets = {name for line in lists for name in line.split()}
    helpers = {"__init__", "measure", "pcg_rival", "pool", "summary", "trace", "versions", "versus"}
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert targets == scripts - helpers
