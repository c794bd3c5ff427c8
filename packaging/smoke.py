"""Does the wheel work where nothing else is installed? `make test-wheel` runs this.

In a folder of its own: a table, and from there a model, predictions, a page and a card, by the
command that the wheel installed; then the same model in Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np

import skout

ROWS = 60


def command(*words: str) -> str:
    """Return what a command of this environment prints."""
    program = Path(sys.executable).with_name("skout")
    run = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"skout {' '.join(words)}:\n{run.stderr}")
    return run.stdout


def write_table(path: Path) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (ROWS, 2)).round(3)
    tags = [";".join(tag for tag, x in zip("ab", row, strict=True) if x > 0) for row in X]
    lines = [f"{x},{z},{tag}" for (x, z), tag in zip(X, tags, strict=True)]
    path.write_text("\n".join(["x,z,tags", *lines]), encoding="utf-8")


def main() -> None:
    if not Path(skout.__file__).is_relative_to(sys.prefix):
        raise SystemExit(f"skout is not that of the wheel: {skout.__file__}")
    assert command("--version") == f"skout {metadata.version('skout')}\n"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table, model, page = (str(folder / one) for one in ("t.csv", "m.skout", "p.html"))
        write_table(Path(table))
        words = ("--target", "tags", "--output", "label_sets", "--budget", "2 fits")
        command("fit", table, *words, "-o", model)
        assert command("predict", model, table).count("\n") == ROWS + 1
        said = json.loads(command("report", model, table, "-o", page, "--json"))
        assert said["metrics"]["example_f1"] > 0.9
        assert "What matters" in Path(page).read_text(encoding="utf-8")
        command("card", model, "-o", str(folder / "README.md"))
        assert type(skout.load(model)).__name__ == "Tuned"
    X = np.arange(20.0)[:, None]
    Y = np.where(X < 10, [[1, 0, 1]], [[0, 1, 1]])
    assert skout.sisokr("gaussian", "tanimoto", random_state=0).fit(X, Y).score(X, Y) == 1.0
    sys.stdout.write(f"skout {skout.__version__} works in {sys.prefix}\n")


if __name__ == "__main__":
    main()
