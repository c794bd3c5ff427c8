"""Figures 4.2, B.4 and B.5: synthetic least squares of section 4.5, linear kernels on both sides.

    python -m experiments.papers.figure_4_2 [--quick] [--draw]

n = 10,000 training, 1,000 validation and 1,000 test rows in R^300; p-sparsified Rademacher sketches
with p = 2e-3 of the inputs (SIOKR), the outputs (ISOKR) or both (SISOKR). Alpha is chosen on the
validation part, for each draw and each pair of sizes; the error with alpha = 1e-4, which is too
small, is recorded too.

mse      Test mean squared error over the coordinates, without decoding, for each m_x and m_y; None
         is no sketch. One data set, as in the thesis, and ten draws of the sketches. With linear
         kernels coordinates are linear too: a sketch of the inputs is one of 300 rows, and a sketch
         of the outputs a projection of what was predicted, so that all pairs of sizes share a fit.
seconds  Fit, and prediction of the test part with the training outputs as candidates (the
         artificial pre-image problem of the thesis), by the models as a user calls them, and IOKR
         by the formula (4.6): seconds of the processor, in turns, seven repeats (two of IOKR).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from experiments.common import clock, figure_path, mean_sd
from experiments.papers.formulas import Sums, ridge_path
from experiments.pieces import Plan, Results, Size, alone, run_script
from skout import KernelBasis, iokr
from skout.datasets import make_low_rank_regression
from skout.sketches import PSparsified

P = 2e-3
SIZES = (10, 25, 50, 75, 100, 116, 150, 200, 250, 295)
TIMED, FIXED = (10, 50, 100, 200, 295), (50, 295)
ALPHAS = tuple(float(f"{alpha:.2g}") for alpha in 10.0 ** np.arange(-6.0, 0.1, 0.5))
SMALL = 1e-4  # an alpha that is too small, to see whether a sketch regularises
N_DRAWS, REPEATS, EXACT_REPEATS = 10, 7, 2
QUICK_SIZES = (10, 100)


def load(quick: bool) -> Any:
    return make_low_rank_regression(1500 if quick else 10_000, random_state=0)


# Errors ----------------------------------------------------------------------------------------


def linear_map(rows: np.ndarray, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix from rows to coordinates of a sketched basis, and the one back."""
    basis = KernelBasis("linear", PSparsified(m, P), random_state=seed).fit(rows)
    return basis.transform(np.eye(rows.shape[1])), basis.combine(basis.landmarks_)


@dataclass
class Held:
    """The outputs predicted for held-out rows, as far as their squared error needs them."""

    gram: np.ndarray  # F'F
    cross: np.ndarray  # F'Y
    total: float  # sum of Y squared
    size: int

    @classmethod
    def of(cls, predicted: np.ndarray, truth: np.ndarray) -> Held:
        cross = predicted.T @ truth
        return cls(predicted.T @ predicted, cross, float(np.sum(truth**2)), truth.size)

    def error(self, projection: np.ndarray) -> float:
        """Return the mean squared error of F P, over all entries."""
        twice = np.sum(projection * (self.gram @ projection - 2.0 * self.cross))
        return (self.total + float(twice)) / self.size


def held_path(data: Any, there: np.ndarray) -> list[dict[str, Held]]:
    """Return for each alpha what is predicted from coordinates, of both held-out parts."""
    X, Y = data.part("train")
    path = []
    for coef, _ in ridge_path(Sums.of(X @ there, Y), ALPHAS):
        coef = there @ coef
        parts = {part: data.part(part) for part in ("validation", "test")}
        path.append({part: Held.of(A @ coef, B) for part, (A, B) in parts.items()})
    return path


def errors(draw: int, sizes: Iterable[int], quick: bool) -> list[dict[str, Any]]:
    """Return the test error of one draw for each pair of sizes; the exact model is one of them."""
    data = load(quick)
    X, Y = data.part("train")
    eye = np.eye(X.shape[1])
    inputs = {None: eye} | {m: linear_map(X, m, draw)[0] for m in sizes}
    outputs = {None: eye}
    for m in sizes:
        there, back = linear_map(Y, m, 1000 + draw)  # not the draw of the inputs
        outputs[m] = there @ back
    rows = []
    for m_x, there_x in inputs.items():
        path = held_path(data, there_x)
        for m_y, projection in outputs.items():
            best = int(np.argmin([held["validation"].error(projection) for held in path]))
            mse, small = (path[i]["test"].error(projection) for i in (best, ALPHAS.index(SMALL)))
            row = {"m_x": m_x, "m_y": m_y, "mse": mse, "mse, small alpha": small}
            rows.append(row | {"alpha": ALPHAS[best]})
    return rows


# Seconds ---------------------------------------------------------------------------------------


def seconds(sizes: Iterable[int], fixed: Iterable[int], quick: bool) -> list[dict[str, Any]]:
    """Return the seconds of the processor, one for each repeat; all take turns in each repeat.

    "formula" is IOKR as (4.6) stands, which knows nothing of the rank of the outputs.
    """
    data = load(quick)
    pairs = {(m, other) for m in sizes for other in fixed}
    pairs |= {(other, m) for m, other in pairs}
    rows = [{"what": "formula", "fit": [], "predict": [], "m_x": None, "m_y": None}]
    rows += [
        {"what": "seconds", "fit": [], "predict": [], "m_x": m_x, "m_y": m_y}
        for m_x, m_y in [(None, None), *sorted(pairs)]
    ]
    for seed in range(REPEATS):
        for row in rows[2 if seed >= EXACT_REPEATS else 0 :]:
            run = partial(timed, seed=seed) if row["what"] == "seconds" else formula
            fit, predict = run(data, row["m_x"], row["m_y"])
            row["fit"].append(fit)
            row["predict"].append(predict)
    return rows


def timed(data: Any, m_x: int | None, m_y: int | None, seed: int) -> tuple[float, float]:
    """Return the seconds of a fit and of the prediction of the test part."""
    model = iokr(
        "linear",
        "linear",
        input_sketch=None if m_x is None else PSparsified(m_x, P),
        output_sketch=None if m_y is None else PSparsified(m_y, P),
        alpha=SMALL,
        random_state=seed,
    )
    with clock() as fit:
        model.fit(*data.part("train"))
    with clock() as predict:
        model.predict(data.part("test")[0])
    return fit.cpu, predict.cpu


def formula(data: Any, *_: None) -> tuple[float, float]:
    """Return the seconds of (K + n alpha I)^-1, and of the scores by (4.6) with their maxima."""
    (X, Y), (X_test, _) = data.part("train"), data.part("test")
    with clock() as fit:
        inverse = np.linalg.inv(X @ X.T + len(X) * SMALL * np.eye(len(X)))
    with clock() as predict:
        scores = (X_test @ X.T) @ inverse @ (Y @ Y.T)
        Y[(scores - 0.5 * np.einsum("ij,ij->i", Y, Y)).argmax(axis=1)]
    return fit.cpu, predict.cpu


def shares(results: list[dict[str, Any]], what: str, name: str) -> dict[Any, list[float]]:
    """Return fit or predict of each pair of sizes, as percent of IOKR ("seconds" or "formula")."""
    (exact,) = [row for row in results if row["what"] == what and row["m_x"] is row["m_y"] is None]
    times = table_of(results, "seconds").items()
    whole = np.median(exact[name])
    return {pair: (100.0 * np.divide(row[name], whole)).tolist() for pair, row in times}


# The run ---------------------------------------------------------------------------------------


def plan(size: Size) -> Plan:
    quick = size == "quick"
    draws = {"quick": 2, "brief": 3, "full": N_DRAWS}[size]
    sizes = QUICK_SIZES if quick else SIZES
    timed_sizes, fixed = (QUICK_SIZES, (50,)) if quick else (TIMED, FIXED)
    pieces = {f"draw {i}": alone(errors, i, sizes, quick) for i in range(draws)}
    pieces["seconds"] = alone(seconds, timed_sizes, fixed, quick)
    settings = {"p": P, "sizes": sizes, "alphas": ALPHAS, "draws": draws, "small": SMALL}
    settings |= {
        "timed": timed_sizes,
        "fixed": fixed,
        "repeats": REPEATS,
        "exact_repeats": EXACT_REPEATS,
        "quick": quick,
    }
    return Plan("figure_4_2", settings, pieces, rows, draw)


def rows(results: Results) -> list[dict[str, Any]]:
    """Return one row for each pair of sizes, over draws; then those of seconds."""
    draws = [found for name, found in results.items() if name.startswith("draw")]
    table = []
    for same in zip(*draws, strict=True):
        row = {"what": "mse", "m_x": same[0]["m_x"], "m_y": same[0]["m_y"]}
        row |= {key: mean_sd(one[key] for one in same) for key in ("mse", "mse, small alpha")}
        table.append(row | {"alphas": sorted({one["alpha"] for one in same})})
    return table + results["seconds"]


def table_of(results: list[dict[str, Any]], what: str) -> dict[tuple[Any, Any], dict[str, Any]]:
    """Return the rows of one kind by their sizes."""
    return {(row["m_x"], row["m_y"]): row for row in results if row["what"] == what}


# Drawing ---------------------------------------------------------------------------------------


def draw(record: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    mse, times = (table_of(record["results"], what) for what in ("mse", "seconds"))
    _draw_4_2(record["results"], mse, times, record["settings"])
    _draw_b_4(mse, record["settings"]["sizes"])
    _draw_b_5(mse, record["settings"]["sizes"])


def _draw_4_2(results: Any, mse: Any, times: Any, settings: dict[str, Any]) -> None:
    from matplotlib import pyplot as plt

    share = {name: shares(results, "formula", name) for name in ("fit", "predict")}

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    for color, other in zip(("#0072B2", "#D55E00"), settings["fixed"], strict=False):
        for axis, swap, name in ((axes[0], False, "m_y"), (axes[1], True, "m_x")):
            pairs = [(other, m) if swap else (m, other) for m in settings["timed"]]
            for key, style in (("fit", "o-"), ("predict", "s:")):
                label = f"{'training' if key == 'fit' else 'inference'}, ${name}$ = {other}"
                values = [np.median(share[key][pair]) for pair in pairs]
                axis.plot(settings["timed"], values, style, color=color, label=label)
    for axis, name in ((axes[0], "m_x"), (axes[1], "m_y")):
        axis.set(xlabel=f"${name}$", ylabel="% of IOKR by its formula", title=f"time with ${name}$")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=7)
    exact = mse[None, None]["mse"][0]
    for color, m_y in zip(("#56B4E9", "#009E73", "#000000"), _trade_off(settings), strict=False):
        pairs = [pair for pair in times if pair[1] == m_y and pair in mse]
        total = [np.median(times[p]["fit"]) + np.median(times[p]["predict"]) for p in pairs]
        axes[2].plot(
            total, [mse[pair]["mse"][0] - exact for pair in pairs], "o-", color=color,
            label=f"$m_y$ = {m_y}",
        )  # fmt: skip
        for pair, x in zip(pairs, total, strict=True):
            axes[2].annotate(
                f"{pair[0]}", (x, mse[pair]["mse"][0] - exact), fontsize=7,
                xytext=(3, -10 if pair[0] == 295 else 4), textcoords="offset points",
            )  # fmt: skip
    axes[2].axhline(0.0, color="grey", lw=0.8)
    axes[2].set(
        xlabel="training + inference, seconds", ylabel="test MSE - that of IOKR",
        title="trade-off (numbers: $m_x$)",
    )  # fmt: skip
    axes[2].legend(fontsize=7)
    for axis in axes:
        axis.grid(alpha=0.25)
    figure.savefig(figure_path("figure_4_2.png"), dpi=130)
    plt.close(figure)


def _trade_off(settings: dict[str, Any]) -> list[int]:
    return [m for m in settings["timed"] if m in settings["fixed"]]


def _draw_b_4(mse: Any, sizes: list[int]) -> None:
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
    table = np.array([[mse[m_x, m_y]["mse"][0] for m_x in sizes] for m_y in sizes])
    lines = axis.contourf(sizes, sizes, table, levels=20, cmap="viridis_r")
    figure.colorbar(lines, ax=axis, label="test MSE")
    axis.set(xlabel="$m_x$", ylabel="$m_y$", title="SISOKR (figure B.4)")
    figure.savefig(figure_path("figure_b_4.png"), dpi=130)
    plt.close(figure)


def _draw_b_5(mse: Any, sizes: list[int]) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.4), layout="constrained")
    for axis, name, swap in ((axes[0], "m_x", False), (axes[1], "m_y", True)):
        mean, spread = np.array(
            [mse[(None, m) if swap else (m, None)]["mse"] for m in sizes]
        ).T  # fmt: skip
        axis.errorbar(sizes, mean, spread, marker="o", label="ISOKR" if swap else "SIOKR")
        axis.axhline(mse[None, None]["mse"][0], color="black", lw=0.8, label="IOKR")
        axis.set(xlabel=f"${name}$", ylabel="test MSE", title="ISOKR" if swap else "SIOKR")
        axis.grid(alpha=0.25)
        axis.legend()
    figure.savefig(figure_path("figure_b_5.png"), dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    run_script(__doc__, plan, ["what", "m_x", "m_y", "mse", "fit seconds", "predict seconds"])
