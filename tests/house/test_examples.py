"""Every example of the gallery runs to its end, without a warning."""

import contextlib
import importlib.util
import io
import re
import subprocess
import warnings
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("plot_*.py"))

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None,
    reason='the examples draw with matplotlib: pip install "skout[plot]"',
)


@pytest.mark.skipif(not FOLDER.exists(), reason="a source distribution has no examples")
def test_there_are_examples():
    assert len(EXAMPLES) >= 3


NEEDS = {
    "plot_nearest_molecules": ["rdkit"],
    "plot_deep_digits": ["torch"],
    "plot_metabolites": ["rdkit", "pyarrow"],
    "plot_table_films": ["pandas", "pyarrow", "typer"],
    "plot_table_prices": ["pandas", "pyarrow", "typer"],
    "plot_table_survey": ["pandas", "pyarrow", "typer"],
}
# What is smaller here, so that the tests take less time; `make docs` runs all of it.
SMALLER = {
    "plot_tuned": {'"16 fits"': '"3 fits"'},
    "plot_deep_digits": {"max_epochs=40": "max_epochs=8"},
    "plot_metabolites": {
        "SubSample(800)": "SubSample(300)",
        "SubSample(600)": "SubSample(200)",
    },
    "plot_string_completion": {
        "words[:300], words[300:]": "words[:100], words[100:]",
        "[300, 700, 1500]": "[300, 700]",
    },
    "plot_output_kernel_forest": {"Regressor(60": "Regressor(10", "size=1000": "size=300"},
    "plot_digit_completion": {
        "np.arange(len(images)), random_state=0, stratify=digits": (
            "np.arange(900), random_state=0, stratify=digits[:900]"
        )
    },
    "plot_label_ranking": {"[25, 50, 100, 200, 400], 2": "[25, 50], 1"},
}


def command_here(command, *, run=subprocess.run, **options):
    """Run `python -m skout ...` in this process, where all is imported already."""
    if command[1:3] != ["-m", "skout"]:  # joblib counts the cores by a command, once
        return run(command, **options)
    from skout.apps.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(options["cwd"]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(action="default"),  # they are lines of the command, not faults
        pytest.raises(SystemExit) as ended,
    ):
        main([str(word) for word in command[3:]])
    assert not ended.value.code, err.getvalue()
    return subprocess.CompletedProcess(command, 0, out.getvalue(), err.getvalue())


@needs_matplotlib
@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path, monkeypatch, capsys):
    for package in NEEDS.get(path.stem, []):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"it needs {package}")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.delenv("SKOUT_DATA", raising=False)  # whoever reads the gallery may have no data
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", command_here)
    text = path.read_text(encoding="utf-8")
    for whole, part in SMALLER.get(path.stem, {}).items():
        assert whole in text
        text = text.replace(whole, part)
    try:
        names = {"__name__": "__main__", "__file__": str(path)}
        exec(compile(text, str(path), "exec"), names)
    finally:
        plt.close("all")
    assert capsys.readouterr().out.strip(), "an example prints what it found"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_has_the_form_of_the_gallery(path):
    text = path.read_text(encoding="utf-8")
    title = re.match(r'"""\n(.+)\n(=+)\n\n\S', text)
    assert title, "starts with a docstring: a title, underlined with =, and prose"
    assert len(title[1]) == len(title[2])
    cells = text.split("\n# %%\n")[1:]
    assert len(cells) >= 3
    assert all(cell.startswith("# ") for cell in cells), "each cell starts with prose"
    assert text.rstrip().endswith("plt.show()")
    assert not re.search(r"[\"'](/|~|[A-Z]:\\)", text), "no absolute paths"
