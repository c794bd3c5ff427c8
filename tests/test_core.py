"""skout without any extra, as `pip install skout` gives it: what `make test-core` is for."""

import os
import subprocess
import sys
import tomllib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from test_architecture import OPTIONAL

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"

in_core = pytest.mark.skipif(
    "SKOUT_CORE" not in os.environ, reason="only in the environment of `make test-core`"
)

# So many landmarks that they are factorised as a large matrix.
LARGE_FIT = """
import sys
import numpy as np
import sklearn.gaussian_process, sklearn.model_selection  # which may import pandas and rich

before = set(sys.modules)
import skout

X = np.random.default_rng(0).standard_normal((2_000, 10))
y = np.sin(X[:, 0]) + X[:, 1]
sketch = skout.sketches.SubSample(1_550)
model = skout.KernelRidge(sketch=sketch, alpha=1e-6, random_state=0).fit(X, y)
assert model.basis_.rank_ >= 1_500, model.basis_.rank_
assert model.score(X, y) > 0.9
print(*sys.modules.keys() - before)
"""


def test_a_large_dense_fit_needs_no_extra():
    run = subprocess.run(
        [sys.executable, "-c", LARGE_FIT], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert OPTIONAL & set(run.stdout.split()) == set()


def extras() -> set[str]:
    """Return the distributions that the extras of skout bring, without the tools of the tests."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    groups = project["optional-dependencies"]
    lines = [line for name in groups.keys() - {"test", "docs", "all"} for line in groups[name]]
    return {Requirement(line).name for line in lines}


@in_core
def test_no_extra_is_installed():
    installed = {one.name.lower() for one in metadata.distributions()}
    assert "skout" in installed
    assert extras().isdisjoint(installed)
    assert [name for name in sorted(OPTIONAL | {"polars"}) if find_spec(name)] == []


@in_core
def test_numpy_is_of_the_second_generation():
    assert Version(np.__version__) >= Version("2")
