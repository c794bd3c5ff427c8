"""Draw the pictures of the user guide: python docs/drawings.py writes docs/images/*.svg.

What they show is computed with skout, not sketched by hand, and they are the same bytes every time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skout import KernelBasis, iokr
from skout.kernels import F1, Gaussian
from skout.sketches import GaussianSketch, PSparsified, SubSample

IMAGES = Path(__file__).parent / "images"
BLUE, ORANGE, GREEN, GREY = "#1f6fb2", "#d9731a", "#2f8f5b", "#8a8f98"
LABELS = ("sea", "sand", "city", "night")
SETS = ((1, 0, 0, 0), (1, 1, 0, 0), (1, 1, 0, 1), (0, 0, 1, 1), (0, 0, 1, 0))
STYLE = {
    "svg.hashsalt": "skout",
    "svg.fonttype": "path",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def name(labels: tuple[int, ...]) -> str:
    """Return a label set as words."""
    return "{" + ", ".join(word for word, on in zip(LABELS, labels, strict=True) if on) + "}"


def path() -> Figure:
    """Object, coordinates, map, coordinates, object."""
    figure, axes = plt.subplots(figsize=(8.6, 1.5))
    axes.set(xlim=(0, 12), ylim=(0, 2), xticks=[], yticks=[])
    axes.axis("off")
    words = ("input x", "coordinates\nz(x)", "predicted\ncoordinates f(x)", "output y")
    colors = (GREY, BLUE, ORANGE, GREY)
    for place, (word, color) in enumerate(zip(words, colors, strict=True)):
        style = {"boxstyle": "round,pad=0.5", "fc": "white", "ec": color, "lw": 1.8}
        axes.text(1 + 3.2 * place, 0.9, word, ha="center", va="center", bbox=style)
    for place, word in enumerate(("input basis", "any regressor", "decoder")):
        start = 2.2 + 3.2 * place
        arrow = {"arrowstyle": "->", "lw": 1.5, "color": "black"}
        axes.annotate("", (start + 0.8, 0.9), (start, 0.9), arrowprops=arrow)
        axes.text(start + 0.4, 1.5, word, ha="center", fontsize=9, color="black")
    return figure


# The floors of src/skout, from the top: rooms on the way of the data, what they answer, and tools.
HOUSE = (
    (("apps.cli",), "the `skout` command and its pages", ()),
    (("apps.tuning", "apps.spectra"), "models that choose themselves;  spectra to molecules", ()),
    (("apps.tables",), "columns of all kinds, and files of tables", ()),
    (("persistence",), "models in files", ("dev", "readers", "molecules", "typing")),
    (("predictors",), "what wraps a predictor: two ways, ensembles, sets", ()),
    (
        ("predictor",),
        "START HERE: StructuredPredictor, iokr, sisokr, dsokr",
        ("theory", "datasets", "testing"),
    ),
    (("regressors", "kinds"), "x to coordinates;  what an output is", ()),
    (
        ("solvers", "decoding"),
        "ridge regression, any convex loss;  coordinates back to objects",
        (),
    ),
    (
        ("basis",),
        "kernel + sketch to coordinates; the one pass over blocks",
        ("metrics",),
    ),
    (
        ("kernels", "sketches"),
        "when are two objects alike?  which combinations of them are kept?",
        ("deep", "sources"),
    ),
    (("rows",), "where rows live: memory, disk, stream, dask, device", ("losses",)),
    (("_numerics",), "arrays, threads, factorizations, checks", ("formulas",)),
)


def house() -> Figure:
    """The rooms of the library, floor by floor: each imports only from those below it."""
    figure, axes = plt.subplots(figsize=(8.6, 6.0))
    axes.set(xlim=(-0.6, 12.6), ylim=(-0.1, len(HOUSE) + 0.6))
    axes.axis("off")
    for floor, (rooms, answer, tools) in enumerate(reversed(HOUSE)):
        color = ORANGE if "predictor" in rooms else BLUE
        wall = {"fc": "white", "ec": color, "lw": 1.8 if color == ORANGE else 1.2}
        axes.add_patch(plt.Rectangle((0.2, floor), 8.4, 0.82, **wall))
        axes.text(0.35, floor + 0.54, "   ".join(rooms), va="center", color=color, weight="bold")
        axes.text(0.35, floor + 0.2, answer, va="center", fontsize=8.5)
        if tools:
            axes.add_patch(plt.Rectangle((8.75, floor), 3.75, 0.82, fc="white", ec=GREY, lw=1))
            axes.text(8.85, floor + 0.4, "  ".join(tools), va="center", fontsize=8.5, color=GREY)
    arrow = {"arrowstyle": "->", "lw": 1.5, "color": "black"}
    axes.annotate("", (-0.05, 0.2), (-0.05, len(HOUSE) - 0.3), arrowprops=arrow)
    axes.text(-0.25, len(HOUSE) / 2, "imports", rotation=90, ha="center", va="center", fontsize=9)
    axes.text(0.2, len(HOUSE) + 0.2, "the path of the data", fontsize=9)
    axes.text(8.75, len(HOUSE) + 0.2, "beside it, on the same floors", fontsize=9, color=GREY)
    return figure


# What `KernelRidge.fit` calls, in order: the function, its module, what it returns, and in words.
FLOW = (
    ("KernelRidge._read", "regressors.ridge", "TrainingSample", "rows, targets, weights, encoded"),
    ("KernelRidge._options", "regressors.ridge", "RidgeOptions", "the parameters of solvers"),
    ("KernelRidge._search", "regressors.ridge", "AlphaSearch", "alphas, and folds to choose by"),
    ("span_of", "basis.engine", "Span", "landmarks of the sketch, or all distinct rows"),
    ("decide", "solvers.ridge.system", "Decision", "moments, rows, products, device or gram"),
    ("MomentSystem.of", "solvers.ridge.moments", "System", "one pass: Z'Z and Z'T of each fold"),
    ("choose", "solvers.folds", "ChosenAlpha", "total minus a fold trains; the fold is held out"),
    ("MomentSystem.solve", "solvers.ridge.moments", "Fit", "(Z'Z + n alpha I)^-1 Z'T, of all rows"),
    ("KernelRidge._take", "regressors.ridge", "", "the only place that writes attributes"),
)


def flow() -> Figure:
    """How a fit flows: each step is a call that returns what the next ones need."""
    figure, axes = plt.subplots(figsize=(8.6, 5.0))
    axes.set(xlim=(0, 12.4), ylim=(-0.1, len(FLOW)))
    axes.axis("off")
    arrow = {"arrowstyle": "->", "lw": 1.3, "color": "black"}
    for step, (function, module, result, words) in enumerate(reversed(FLOW)):
        color = ORANGE if function == "decide" else BLUE
        axes.add_patch(plt.Rectangle((0.1, step), 7.4, 0.74, fc="white", ec=color, lw=1.3))
        axes.text(0.25, step + 0.5, function, va="center", color=color, weight="bold")
        axes.text(0.25, step + 0.19, words, va="center", fontsize=8.5)
        file = f"{module.replace('.', '/')}.py"
        axes.text(7.35, step + 0.5, file, va="center", ha="right", fontsize=8.5, color=GREY)
        if result:
            axes.annotate("", (8.6, step + 0.37), (7.55, step + 0.37), arrowprops=arrow)
            axes.text(8.7, step + 0.37, result, va="center", fontsize=9.5)
        if step:
            axes.annotate("", (1.0, step - 0.24), (1.0, step - 0.02), arrowprops=arrow)
    return figure


def induced_loss() -> Figure:
    """How far label sets are from one of them, by the kernel and label by label."""
    sets = np.array(SETS)
    truth = np.array([[1, 1, 0, 1]])
    similarity = F1()(sets, truth)[:, 0]
    distance = 2 - 2 * similarity
    wrong = (sets != truth).sum(axis=1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True)
    rows = np.arange(len(sets))
    left.barh(rows, wrong, color=GREY)
    left.set(title="labels that differ", yticks=rows, yticklabels=[name(row) for row in SETS])
    right.barh(rows, distance, color=BLUE)
    right.set(title="2 − 2 F1: the loss that the kernel induces")
    left.invert_yaxis()
    for axes, values in ((left, wrong), (right, distance)):
        for row, value in enumerate(values):
            axes.text(value + 0.03, row, f"{value:.2g}", va="center", fontsize=9)
    figure.suptitle(f"How far from the truth, {name((1, 1, 0, 1))}?", x=0.02, ha="left")
    figure.tight_layout()
    return figure


def sketches() -> Figure:
    """Three sketches as matrices, and which rows of the data they touch."""
    n = 40
    chosen = (
        ("SubSample(6)", SubSample(6)),
        ("PSparsified(6, p=0.1)", PSparsified(6, p=0.1)),
        ("GaussianSketch(6)", GaussianSketch(6)),
    )
    figure, grid = plt.subplots(3, 1, figsize=(8, 4.2))
    for axes, (title, sketch) in zip(grid, chosen, strict=True):
        draw = sketch.draw(n, np.random.default_rng(3))
        R = draw.toarray()
        limit = np.abs(R).max()
        axes.imshow(R, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
        axes.set(xticks=[], yticks=[])
        axes.set_title(f"{title}: touches {len(draw.indices)} of {n} rows", loc="left", fontsize=10)
        axes.set_ylabel("6 kept", fontsize=9)
        axes.spines[["top", "right"]].set_visible(True)
    grid[-1].set_xlabel("40 training rows")
    figure.tight_layout()
    return figure


def basis() -> Figure:
    """A function of the kernel's space, its projection on the span, and the first coordinates."""
    x = np.linspace(0, 10, 300)[:, None]
    rows = np.random.default_rng(1).uniform(0, 10, (60, 1))
    fitted = KernelBasis(Gaussian(0.35), SubSample(5), whiten="eigh", random_state=7).fit(rows)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.9))
    Z = fitted.transform(x)
    for place in range(3):
        left.plot(x, Z[:, place], lw=1.8, label=f"$e_{place + 1}$")
    marks = np.asarray(fitted.landmarks_)[:, 0]
    left.plot(marks, np.full(len(marks), -1.0), "k^", ms=5, label="landmarks")
    left.set(title="orthonormal functions", xlabel="x", ylim=(-1.1, 1.1))
    left.legend(fontsize=8, ncols=2, frameon=False, loc="upper right")
    right.plot(x, fitted.residual(x), color=ORANGE, lw=1.8)
    right.plot(marks, np.zeros(len(marks)), "k^", ms=5)
    right.set(title="what the span misses: residual(x)", xlabel="x", ylim=(-0.05, 1.05))
    figure.tight_layout()
    return figure


def decoding() -> Figure:
    """Five label sets in the plane with a prediction between them, and their scores."""
    sets = np.array(SETS)
    share = np.array([0.15, 0.4, 0.3, 0.1, 0.05])
    Y = sets[np.random.default_rng(0).choice(len(sets), 200, p=share)]
    X = np.ones((200, 1))  # an input that says nothing: the prediction is the mean output
    model = iokr("linear", F1(), alpha=1e-6).fit(X, Y)
    index, scores = model.rank(X[:1], candidates=sets, k=len(sets))
    flat = KernelBasis(F1(), whiten="eigh").fit(sets)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.1), width_ratios=(1, 1.1))
    _plane(left, flat.transform(sets)[:, :2], flat.transform(Y)[:, :2].mean(axis=0), index[0, 0])
    rows = np.arange(len(sets))
    right.barh(rows, scores[0], color=[GREEN] + [GREY] * (len(sets) - 1))
    words = [f"{'ABCDE'[i]} = {name(SETS[i])}" for i in index[0]]
    right.set(yticks=rows, yticklabels=words, title="2 ⟨f(x), z(c)⟩ − k(c, c)")
    right.axvline(0, color="black", lw=0.8)
    right.invert_yaxis()
    figure.tight_layout()
    return figure


def _plane(axes: Axes, places: np.ndarray, guess: np.ndarray, best: int) -> None:
    for i, place in enumerate(places):
        color = GREEN if i == best else GREY
        axes.plot(*zip(guess, place, strict=True), color=color, lw=1 + (i == best), zorder=1)
        axes.plot(*place, "o", color=color, ms=16, zorder=2)
        text = {"ha": "center", "va": "center", "color": "white", "fontsize": 9}
        axes.annotate("ABCDE"[i], place, **text)
    axes.plot(*guess, "*", color=ORANGE, ms=15, zorder=3)
    axes.annotate("f(x)", guess, xytext=(9, -12), textcoords="offset points", color=ORANGE)
    axes.set(xlabel="coordinate 1", ylabel="coordinate 2")
    axes.margins(0.15)


DRAWINGS: dict[str, Callable[[], Figure]] = {
    "path": path,
    "house": house,
    "flow": flow,
    "induced_loss": induced_loss,
    "sketches": sketches,
    "basis": basis,
    "decoding": decoding,
}


def main() -> None:
    with plt.rc_context(STYLE):
        for stem, draw in DRAWINGS.items():
            figure = draw()
            figure.savefig(IMAGES / f"{stem}.svg", bbox_inches="tight", metadata={"Date": None})
            plt.close(figure)


if __name__ == "__main__":
    main()
