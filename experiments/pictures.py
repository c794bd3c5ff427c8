"""Draw what the tables of the papers say, from the records: a figure for each of the ten commands.

python -m experiments.pictures
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from experiments.common import figure_path, read_record
from experiments.papers.table_3_3 import PAPER as PAPER_3_3
from experiments.papers.table_3_4 import PAPER as PAPER_3_4
from experiments.papers.table_4_2 import PAPER as PAPER_4_2
from experiments.papers.table_4_2 import PAPER_SECONDS

Means = Mapping[str, tuple[float, float]]  # method -> mean, deviation


def _points(ax: Axes, paper: Means, ours: Means, what: str) -> None:
    """Draw two points for each method, the paper's and ours, with their deviations."""
    places = np.arange(len(paper))
    for name, means, shift in (("thesis", paper, -0.1), ("ours", ours, 0.1)):
        mean, spread = np.array([means[method] for method in paper]).T
        ax.errorbar(places + shift, mean, spread, fmt="o", label=name)
    ax.set_xticks(places, list(paper), rotation=20, fontsize=8)
    ax.margins(0.1)
    ax.set_ylabel(what)


def _from_zero(ax: Axes) -> None:
    """Let an axis begin at 0, so that small differences look small."""
    ax.set_ylim(0.0, 1.1 * ax.get_ylim()[1])


def _share(means: Means, of: str) -> Means:
    """Return the others as shares, in percent, of the mean of one."""
    whole = means[of][0]
    rest = {name: pair for name, pair in means.items() if name != of}
    return {name: (100.0 * mean / whole, 100.0 * sd / whole) for name, (mean, sd) in rest.items()}


def _quality_and_time(axes: Any, what: str, quality: Any, of: str, seconds: Any) -> None:
    _points(axes[0], *quality, what)
    _points(axes[1], *(_share(means, of) for means in seconds), f"time, % of {of}")
    for ax in axes:
        _from_zero(ax)
    axes[0].legend(frameon=False, fontsize=8)


def quantiles(axes: Any) -> None:
    """Table 3.3."""
    rows = {row["method"]: row for row in read_record("table_3_3")["results"]}
    quality = {name: pinball for name, (pinball, _, _) in PAPER_3_3.items()}
    seconds = {name: time for name, (_, _, time) in PAPER_3_3.items()}
    ours = [
        {name: rows[name][key] for name in PAPER_3_3} for key in ("pinball_unsorted", "seconds")
    ]
    _quality_and_time(axes, "pinball loss", (quality, ours[0]), "none", (seconds, ours[1]))


def outputs(axes: Any) -> None:
    """Table 3.4."""
    results = read_record("table_3_4_official")["results"]
    rows = {row["sketch"]: row for row in results if row["family"] == "gaussian"}
    quality = {name: (mean, sd or 0.0) for name, ((mean, sd), _) in PAPER_3_4.items()}
    seconds = {name: time for name, (_, time) in PAPER_3_4.items()}
    ours = [{name: rows[name][key] for name in PAPER_3_4} for key in ("arrmse", "seconds")]
    _quality_and_time(axes, "aRRMSE", (quality, ours[0]), "none", (seconds, ours[1]))


def labels(axes: Any) -> None:
    """Tables 4.2 and 4.3."""
    results = read_record("table_4_2")["results"]
    chosen = {row["method"]: row["f1"] for row in results if row["how"] == "chosen"}
    quality = {name: (mean, sd or 0.0) for name, (mean, sd) in PAPER_4_2.items()}
    rows = {row["method"]: row for row in read_record("table_4_3")["results"]}
    theirs = {name: tuple(np.sum(pairs, axis=0)) for name, pairs in PAPER_SECONDS.items()}
    both = {name: np.add(row["fit"], row["predict"]) for name, row in rows.items()}
    ours = {name: (float(np.median(both[name])), float(both[name].std())) for name in theirs}
    _quality_and_time(axes, "example F1, %", (quality, chosen), "IOKR", (theirs, ours))


def tractable(axes: Any) -> None:
    """SISOKR where IOKR has no place."""
    record = read_record("tractable")
    rows = record["results"]
    for method in ("IOKR", "SISOKR"):
        own = [row for row in rows if row["method"] == method]
        n = [row["n"] for row in own]
        axes[0].loglog(n, [row["fit"] + row["predict"] for row in own], "o-", label=method)
        axes[1].loglog(n, [row["megabytes"] / 1e3 for row in own], "o-", label=method)
    n = np.array(sorted({row["n"] for row in rows}))
    axes[1].loglog(n, 8e-9 * n.astype(float) ** 2, "k:", label="Gram matrix of all")
    axes[1].axhline(record["settings"]["memory_gb"], color="0.6", label="memory of the machine")
    for ax, what in zip(axes, ("seconds, fit and prediction", "memory, GB"), strict=True):
        ax.set(xlabel="training molecules", ylabel=what)
        ax.legend(frameon=False, fontsize=8)


def robust(axes: Any) -> None:
    """Losses of DSOKR, where a tenth of the training outputs are wrong."""
    rows = read_record("robust_outputs")["results"]
    names = [row["loss"].split("(")[0] for row in rows]
    for ax, key, what in zip(
        axes, ("error", "MRR"), ("squared distance", "mean reciprocal rank"), strict=True
    ):
        mean, spread = np.array([row[key] for row in rows]).T
        ax.errorbar(names, mean, spread, fmt="o")
        ax.margins(0.2)
        _from_zero(ax)
        ax.set_ylabel(what)
        ax.tick_params(axis="x", labelsize=8)


FIGURES: tuple[Callable[[Any], None], ...] = (quantiles, outputs, labels, tractable, robust)


def draw(show: Callable[[Any], None]) -> Path:
    """Draw a figure of two panels; return its file."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
    show(axes)
    path = figure_path(f"message_{show.__name__}.png")
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


if __name__ == "__main__":
    for show in FIGURES:
        print(draw(show))
