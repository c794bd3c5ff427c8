"""The files of the demo: a page, and one picture of all completions."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from string import Template
from types import ModuleType
from typing import Any

import numpy as np

from skout.dev import extra

from ..pages import page_in_one_file
from .run import DemoRun, table

# Colors, in [0, 1].
_PAPER, _INK = np.array([248, 249, 251]) / 255, np.array([38, 44, 56]) / 255
_RIGHT, _WRONG = np.array([29, 92, 200]) / 255, np.array([222, 84, 20]) / 255
_IN_PICTURE, _ON_PAGE = 2, 1  # test digits of each class that are shown
_TITLE = "Given the upper half of a digit, predict the lower half"
_PARAMETERS = {
    "regressor__kernel__gamma": "input gamma",
    "regressor__alpha": "alpha",
    "regressor__min_samples_leaf": "leaf size",
    "regressor__max_features": "features per split",
}


def load_matplotlib() -> ModuleType:
    """Return matplotlib with the modules that are used here; the error says what to install."""
    with extra("plot", "The demo draws with matplotlib"):
        import matplotlib.figure
        import matplotlib.image
        import matplotlib.patches
    return matplotlib


def first_of_each(digit: np.ndarray, n: int = _ON_PAGE) -> np.ndarray:
    """Return the positions of the first n examples of each class, class by class."""
    return np.concatenate([np.flatnonzero(digit == d)[:n] for d in np.unique(digit)])


def _tiles(run: DemoRun, shown: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return names and colors of rows of pictures, (names, digits, 8, 8, 3), of these digits."""
    upper, lower = run.test.upper[shown], run.test.lower[shown]
    rows = [_colored(upper, 0.0 * lower, _INK), _colored(upper, lower, _INK)]
    for method in run.methods:
        colors = np.where(method.right[shown, None, None, None], _RIGHT, _WRONG)
        rows.append(_colored(upper, method.lower[shown], colors))
    return ["given", "truth", *(m.name for m in run.methods)], np.stack(rows)


def _colored(upper: np.ndarray, lower: np.ndarray, color: np.ndarray) -> np.ndarray:
    """Return the colors of digits, (n, 8, 8, 3): the lower half in `color`, the upper one black."""
    halves = [half.reshape(-1, 4, 8, 1) for half in (upper, lower)]
    inks = [_PAPER + half * (c - _PAPER) for half, c in zip(halves, (_INK, color), strict=True)]
    return np.concatenate(inks, axis=1)


def write_picture(run: DemoRun, path: str | Path) -> Path:
    """Write one PNG file of all completions: a row for each method, a column for each digit."""
    matplotlib = load_matplotlib()
    names, tiles = _tiles(run, first_of_each(run.test.digit, _IN_PICTURE))
    canvas = np.pad(tiles, [(0, 0), (0, 0), (0, 1), (0, 1), (0, 0)], constant_values=1.0)
    n_rows, n_columns, side, *_ = canvas.shape
    canvas = canvas.swapaxes(1, 2).reshape(n_rows * side, n_columns * side, 3)
    figure = matplotlib.figure.Figure(figsize=(0.6 * n_columns + 1, 0.6 * n_rows + 0.6), dpi=150)
    axes = figure.add_axes((0.09, 0.1, 0.9, 0.88))
    axes.imshow(canvas, interpolation="nearest")
    axes.set_yticks(side * np.arange(n_rows) + side / 2 - 1, names)
    axes.set_xticks([])
    axes.tick_params(length=0, labelsize=13)
    axes.spines[:].set_visible(False)
    words = {"right digit": _RIGHT, "wrong digit": _WRONG}
    patches = [matplotlib.patches.Patch(color=c, label=word) for word, c in words.items()]
    axes.legend(
        handles=patches, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, frameon=False
    )
    figure.savefig(path)
    return Path(path)


def write_page(run: DemoRun, path: str | Path) -> Path:
    """Write the page of a finished demo, one HTML file."""
    shown = first_of_each(run.test.digit)
    _, tiles = _tiles(run, shown)
    sisokr = 2 + [m.name for m in run.methods].index("SISOKR")
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    body = template.substitute(
        _numbers(run),
        object_in=_image(tiles[0, 0], "the upper half of a digit"),
        object_out=_image(tiles[sisokr, 0], "the digit with the predicted lower half"),
        grid_head="".join(f"<th scope=col>{m.name}</th>" for m in run.methods),
        grid="\n".join(_grid_row(run, i, tiles[:, at]) for at, i in enumerate(shown)),
        table_head="".join(f"<th scope=col>{name}</th>" for name in ["method", *table(run)[0]]),
        table="\n".join(_table_rows(run)),
        chosen="\n".join(_settings(m.name, m.chosen) for m in run.methods),
        versions=", ".join(f"{k} {v}" for k, v in run.versions.items()),
    )
    header = f'<p class="dim">skout demo</p>\n<h1>{_TITLE}</h1>'
    path = Path(path)
    page = page_in_one_file(__package__, "skout demo: completing digits", header, body)
    path.write_text(page, encoding="utf-8")
    return path


def _numbers(run: DemoRun) -> dict[str, Any]:
    """Return the single numbers that the text of the page quotes."""
    kept = ("n_train", "n_test", "input_size", "output_size", "n_trees", "n_repeats")
    error = max(m.metrics["kernel_loss_standard_error"] for m in run.methods)
    return {key: f"{run.settings[key]:,}" for key in kept} | {
        "seed": run.seed,
        "seconds": f"{run.settings['total_seconds']:.0f}",
        "cpu_count": run.settings["cpu_count"],
        "output_gamma": f"{run.settings['output_gamma']:.3g}",
        "standard_error": f"{error:.3f}",
    }


def _image(tile: np.ndarray, words: str) -> str:
    """Return a picture as HTML, with its words for who cannot see it."""
    buffer = BytesIO()
    load_matplotlib().image.imsave(buffer, tile, format="png")
    data = b64encode(buffer.getvalue()).decode("ascii")
    return f'<img src="data:image/png;base64,{data}" alt="{escape(words)}">'


def _grid_row(run: DemoRun, i: int, tiles: np.ndarray) -> str:
    """Return the table row of a test digit: the given half, the truth, and each completion."""
    digit = run.test.digit[i]
    given = _image(tiles[0], f"upper half of a {digit}")
    truth = _image(tiles[1], f"the true {digit}")
    row = f"<tr><th scope=row>{digit}</th><td>{given}</td><td class=truth>{truth}</td>"
    for method, tile in zip(run.methods, tiles[2:], strict=True):
        mark = "right" if method.right[i] else "wrong"
        row += f"<td class={mark}>{_image(tile, f'{method.name}, {mark} digit')}</td>"
    return f"{row}</tr>"


def _table_rows(run: DemoRun) -> list[str]:
    """Return the rows of the table of scores; the best score of a column is bold."""
    rows = []
    names, texts = table(run)
    for method, cells in zip(run.methods, texts, strict=True):
        head = f"<th scope=row>{method.name}<small>{escape(method.what)}</small></th>"
        body = [
            f'<td data-name="{name}">{f"<b>{text}</b>" if best else text}</td>'
            for name, (text, best) in zip(names, cells, strict=True)
        ]
        rows.append(f"<tr>{head}{''.join(body)}</tr>")
    return rows


def _settings(name: str, chosen: dict[str, Any]) -> str:
    """Return the settings of a method as HTML."""
    words = ", ".join(f"{_PARAMETERS[k]} {v:.3g}" for k, v in sorted(chosen.items()))
    return f"<dt>{name}</dt><dd>{words}</dd>"
