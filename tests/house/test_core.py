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

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"

in_core = pytest.mark.skipif(
    "SKOUT_CORE" not in os.environ, reason="only in the environment of `make test-core`"
)

# So many landmarks that they are factorised as a large matrix, which here is a smaller one. NumPy 2
# arrays have a `device` as tensors have, and must not be taken for them.
LARGE_FIT = """
import sys
import numpy as np
import sklearn.gaussian_process, sklearn.model_selection  # which may import pandas and rich
from scipy import sparse

before = set(sys.modules)
import skout
from skout._numerics import linalg

linalg._LARGE = 300
X = np.random.default_rng(0).standard_normal((400, 10))
y = np.sin(X[:, 0]) + X[:, 1]
one = [(rows, 1e-6) for rows in (X, X.astype(np.float32), sparse.csr_matrix(X))]
for rows, alpha in [(X, [1e-6, 1e-5]), *one]:
    sketch = skout.sketches.SubSample(350)
    model = skout.KernelRidge("gaussian", sketch, alpha=alpha, cv=2, random_state=0).fit(rows, y)
    assert model.basis_.rank_ >= linalg._LARGE, model.basis_.rank_
    assert model.score(rows[:100], y[:100]) > 0.9
print(*sys.modules.keys() - before)
"""


def test_fits_with_many_landmarks_need_no_extra():
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
    return {Requirement(line).name for line in lines} - {"skout"}  # some bring others


@in_core
def test_no_extra_is_installed():
    installed = {one.name.lower() for one in metadata.distributions()}
    assert "skout" in installed
    assert extras().isdisjoint(installed)
    assert [name for name in sorted(OPTIONAL | {"polars"}) if find_spec(name)] == []


@in_core
def test_numpy_is_of_the_second_generation():
    assert Version(np.__version__) >= Version("2")
