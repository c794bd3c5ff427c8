"""Code as users write it passes `mypy --strict`, and wrong calls of it do not.

skout is read as an installed package is, by its py.typed. PyTorch is left out: half of the time
would go into its types.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
CONFIG = """\
[mypy]
strict = true
warn_unused_ignores = false
mypy_path = {source}
[mypy-skout.*]
ignore_errors = true
[mypy-torch.*]
follow_imports = skip
[mypy-scipy.*,sklearn.*,joblib.*,tqdm.*,rdkit.*,numba.*,faiss.*,dask.*,distributed.*]
ignore_missing_imports = true
follow_imports = skip
[mypy-pandas.*,polars.*,pyarrow.*,h5py.*,zarr.*,transformers.*,typer.*,rich.*,matplotlib.*]
ignore_missing_imports = true
follow_imports = skip
[mypy-fastapi.*,uvicorn.*,starlette.*,onnx.*,onnxruntime.*,mlflow.*,networkx.*,pooch.*,threadpoolctl.*]
ignore_missing_imports = true
follow_imports = skip
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """Return the errors of all scripts in one run, by script and line."""
    folder = tmp_path_factory.mktemp("mypy")
    config = folder / "mypy.ini"
    config.write_text(CONFIG.format(source=HERE.parents[1] / "src"))
    cache = os.environ.get("SKOUT_MYPY_CACHE", str(folder / "cache"))
    scripts = sorted(str(path) for path in SCRIPTS.glob("*.py"))
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", cache]
    result = subprocess.run([*command, *scripts], capture_output=True, text=True, check=False)
    assert result.returncode in (0, 1), result.stdout + result.stderr
    by_script = {path.name: {} for path in SCRIPTS.glob("*.py")}
    for line in result.stdout.splitlines():
        if match := re.match(r"(.*):(\d+): error: (.*)", line):
            by_script[Path(match[1]).name].setdefault(int(match[2]), match[3])
    return by_script


@pytest.mark.parametrize("name", ["fit_and_predict", "structured", "own_parts", "tuned"])
def test_code_of_users_passes(errors, name):
    assert errors[f"{name}.py"] == {}


def test_wrong_calls_are_errors(errors):
    lines = (SCRIPTS / "wrong.py").read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    caught = set(errors["wrong.py"])
    assert caught == wrong, [lines[number - 1] for number in sorted(caught ^ wrong)]
