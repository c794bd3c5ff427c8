"""The page: one HTML file that needs nothing else, pictures included."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from .data import first_of_each
from .picture import given_tile, guess_tile, truth_tile
from .png import encode_png
from .run import DemoRun, MethodRun
from .table import HEADER, best_cells, cells

__all__ = ["write_page"]

_PARAMETERS = {
    "regressor__kernel__gamma": "input gamma",
    "regressor__alpha": "alpha",
    "regressor__min_samples_leaf": "leaf size",
    "regressor__max_features": "features per split",
}


def write_page(run: DemoRun, path: str | Path, *, per_digit: int = 2) -> Path:
    """Write the self-contained page of a finished demo.

    Parameters
    ----------
    run : DemoRun
        What `run_demo` returned.
    path : str or Path
        Where to write.
    per_digit : int, default=2
        Test digits of each class to show, the first ones of the shuffled test part.

    Returns
    -------
    path : Path
        Where it was written.
    """
    shown = first_of_each(run.test.digit, per_digit)
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    text = template.substitute(
        _numbers(run),
        object_in=_image(given_tile(run.test.upper[shown[0]]), "the upper half of a digit"),
        object_out=_example(run, shown[0]),
        grid_head="".join(f"<th scope=col>{m.name}</th>" for m in run.methods),
        grid="\n".join(_grid_row(run, i) for i in shown),
        table_head="".join(f"<th scope=col>{name}</th>" for name in HEADER),
        table="\n".join(_table_rows(run)),
        chosen="\n".join(_chosen(m) for m in run.methods),
        versions=", ".join(f"{k} {v}" for k, v in run.versions.items()),
    )
    path = Path(path)
    path.write_text(text, encoding="utf-8")
    return path


def _numbers(run: DemoRun) -> dict[str, Any]:
    """Return the single numbers that the text of the page quotes."""
    kept = ("n_train", "n_test", "n_held_out", "input_size", "output_size", "n_trees", "n_repeats")
    error = max(m.metrics["kernel_loss_standard_error"] for m in run.methods)
    return {key: f"{run.settings[key]:,}" for key in kept} | {
        "seed": run.seed,
        "seconds": f"{run.settings['total_seconds']:.0f}",
        "cpu_count": run.settings["cpu_count"],
        "output_gamma": f"{run.settings['output_gamma']:.3g}",
        "standard_error": f"{error:.3f}",
    }


def _image(tile: np.ndarray, words: str) -> str:
    """Return an inline picture."""
    data = b64encode(encode_png(tile)).decode("ascii")
    return f'<img src="data:image/png;base64,{data}" alt="{escape(words)}">'


def _grid_row(run: DemoRun, i: int) -> str:
    """Return one test digit: what is given, the truth, and what each method makes of it."""
    upper, lower, digit = run.test.upper[i], run.test.lower[i], run.test.digit[i]
    given = _image(given_tile(upper), f"upper half of a {digit}")
    truth = _image(truth_tile(upper, lower), f"the true {digit}")
    guesses = "".join(_guess_cell(m, upper, i) for m in run.methods)
    return (
        f"<tr><th scope=row>{digit}</th><td>{given}</td><td class=truth>{truth}</td>{guesses}</tr>"
    )


def _guess_cell(method: MethodRun, upper: np.ndarray, i: int) -> str:
    """Return one completion; a wrong one is coloured, framed and named in its text."""
    right = bool(method.right[i])
    words = f"{method.name}, {'right' if right else 'wrong'} digit"
    image = _image(guess_tile(upper, method.lower[i], right), words)
    return f"<td class={'right' if right else 'wrong'}>{image}</td>"


def _example(run: DemoRun, i: int) -> str:
    """Return the completion that illustrates the idea: SISOKR's of the first digit shown."""
    method = next(m for m in run.methods if m.name == "SISOKR")
    tile = guess_tile(run.test.upper[i], method.lower[i], bool(method.right[i]))
    return _image(tile, "the digit with the predicted lower half")


def _table_rows(run: DemoRun) -> list[str]:
    """Return the rows of the table; the best figure of a column is strong."""
    rows = []
    for method, row, marks in zip(run.methods, cells(run), best_cells(run), strict=True):
        head = f"<th scope=row>{row[0]}<small>{escape(method.what)}</small></th>"
        body = [
            f'<td data-name="{name}">{f"<b>{text}</b>" if best else text}</td>'
            for name, text, best in zip(HEADER[1:], row[1:], marks[1:], strict=True)
        ]
        rows.append(f"<tr>{head}{''.join(body)}</tr>")
    return rows


def _chosen(method: MethodRun) -> str:
    """Say which settings a method chose."""
    words = ", ".join(f"{_PARAMETERS[k]} {v:.3g}" for k, v in sorted(method.chosen.items()))
    return f"<dt>{method.name}</dt><dd>{words}</dd>"
