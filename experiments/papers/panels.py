"""Draw figure 3.1 from its record: error and time against the sketch size, error against time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from experiments.common import figure_path, read_record

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, NullLocator

# Okabe and Ito's colours, and one hue of blue for the p-sparsified sketches.
STYLES = {
    "Nyström": ("#E69F00", "v"),
    "p-SR 5/n": ("#B3D7EF", "o"),
    "p-SR 10/n": ("#7FBCE4", "o"),
    "p-SR 30/n": ("#0072B2", "o"),
    "p-SR 50/n": ("#00436B", "o"),
    "p-SG 30/n": ("#F0E442", "o"),
    "Gaussian": ("#D55E00", "^"),
    "accumulation 30": ("#009E73", "s"),
    "CountSketch": ("#CC79A7", "D"),
    "RFF": ("#000000", "x"),
}
TITLES = {"huber": "κ-Huber", "epsilon": "ε-SVR"}


def _band(axis: Any, x: Any, table: np.ndarray, **style: Any) -> None:
    """Draw the mean of each row of a table, and one standard deviation about it."""
    mean, spread = table.mean(axis=1), table.std(axis=1)
    axis.plot(x, mean, **style)
    low = np.maximum(mean - spread, 0.5 * mean)
    axis.fill_between(x, low, mean + spread, color=style["color"], alpha=0.12, lw=0)


def draw(loss: str, rows: list[dict[str, Any]]) -> Path:
    """Draw the three panels of one loss; return the path of the picture."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    for name, (color, marker) in STYLES.items():
        mine = sorted((row for row in rows if row["method"] == name), key=lambda row: row["m"])
        if not mine:
            continue
        m = [row["m"] for row in mine]
        error = np.array([row["relative_mse"] for row in mine])  # (n_sizes, n_replicates)
        seconds = np.array([row["fit_seconds"] for row in mine])
        style = {"color": color, "marker": marker, "ms": 5, "lw": 1.5, "label": name}
        _band(axes[0], m, error, **style)
        _band(axes[1], m, seconds, **style)
        axes[2].plot(seconds.ravel(), error.ravel(), ls="", color=color, marker=marker, ms=5)
    for axis, (x, y) in zip(axes, _labels(), strict=True):
        axis.set(xlabel=x, ylabel=y, yscale="log")
        axis.grid(alpha=0.25, which="both")
    axes[2].set_xscale("log")
    for axis in (*(panel.yaxis for panel in axes), axes[2].xaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=9)
    figure.suptitle(f"Synthetic robust regression, {TITLES[loss]} (figure 3.1)")
    path = figure_path(f"figure_3_1_{loss}.png")
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _labels() -> list[tuple[str, str]]:
    size, error, time = "sketch size m", "test relative MSE", "training seconds"
    return [(size, error), (size, time), (time, error)]


def figure_3_1(name: str = "figure_3_1") -> list[Path]:
    """Draw one picture for each loss of the record."""
    rows = [row for row in read_record(name)["results"] if row["what"] == "sweep"]
    return [draw(loss, [row for row in rows if row["loss"] == loss]) for loss in TITLES]


if __name__ == "__main__":
    print(*figure_3_1(), sep="\n")
