"""Table 3.3: joint quantile regression on Boston housing, levels 0.1, 0.3, 0.5, 0.7, 0.9.

    python -m experiments.papers.table_3_3 [--quick]
    python -m experiments.papers.table_3_3 --data otoliths  the other set of the table, or any other

Ten random splits, 354 training and 152 test rows; inputs and target standardised by training
statistics. Width of the kernel, alpha and gamma_quantiles are chosen by five folds of the training
part of each split: first kernel and alpha, then gamma_quantiles and alpha. Models without a sketch
make these choices on 100 landmarks (PivotedCholesky), then fit on all rows. A sketch is drawn anew
for each split.

Losses are 100 x the sum over levels of the mean loss on the standardised target. The thesis does
not name its scale, and this is the one in which its numbers make sense: constant quantiles then
lose 100 x sum_tau phi(Phi^-1(tau)) = 145 for a normal target (the record has it for this one), a
regression that leaves a third of the spread 48, and the thesis has 51.28, Sangnier et al. 47.4. In
thousands of dollars all would be nine times as large; without the factor, a hundredth.

Other data: the official split where there is one, else seven tenths of the rows to train on, drawn
as above; widths are scaled by the number of features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from experiments.common import Scaler, clock, load_numbers, mean_sd
from experiments.pieces import Plan, Results, Size, alone, of_data, run_script
from skout import JointQuantileRegressor
from skout.kernels import Gaussian, Laplacian, Matern
from skout.metrics import crossing_loss, pinball_loss
from skout.sketches import Accumulation, CountSketch, PivotedCholesky, PSparsified, SubSample

SEED, SIZE, N_TRAIN = 2023, 50, 354
JOBS = 2  # splits at a time: small problems do not fill two cores
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
ALPHAS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
TIES = (0.3, 1.0, 3.0, 10.0)  # gamma_quantiles
FIRST_TIE = 3.0
#: Mean and what the thesis prints after ±: pinball loss, crossing loss, training seconds.
PAPER = {
    "none": ((51.28, 0.67), (0.34, 0.13), (6.97, 0.25)),
    "p-SR": ((54.75, 0.74), (0.26, 0.08), (1.43, 0.07)),
    "p-SG": ((54.78, 0.72), (0.11, 0.07), (1.38, 0.08)),
    "accumulation": ((54.73, 0.75), (0.15, 0.07), (1.48, 0.05)),
    "countsketch": ((54.60, 0.72), (0.10, 0.05), (1.23, 0.07)),
}
PAPER_BEST = (47.4, 0.48)  # pinball and crossing loss of Sangnier et al. (2016)

GAUSSIAN = [Gaussian(gamma) for gamma in (0.005, 0.01, 0.02, 0.04, 0.08)]
# those that the folds had chosen among twelve in an earlier run, and one with a kink
OTHERS = [Laplacian(0.01), Laplacian(0.03), Matern(0.03, 0.5)]
OTHERS += [Matern(0.03, 1.5), Matern(0.1, 1.5), Matern(0.1, 2.5)]


def sketches(n: int) -> dict[str, Any]:
    """Return the sketches of n training rows."""
    m = min(SIZE, n)
    return {
        "p-SR": PSparsified(m, 20 / n),
        "p-SG": PSparsified(m, 20 / n, "gaussian"),
        "accumulation": Accumulation(m, n_terms=20),
        "countsketch": CountSketch(m),
        "sub-sampling": SubSample(m),
    }


METHODS = ("none", *sketches(N_TRAIN), "best")


def split(number: int, data: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return standardised training inputs and target, test inputs and target."""
    X, y, official = load_numbers(data)
    order = np.random.default_rng([SEED, number]).permutation(len(y))
    n = official or (N_TRAIN if data == "boston" else 7 * len(y) // 10)
    order = np.arange(len(y)) if official else order
    train, test = order[:n], order[n:]
    scale_x, scale_y = Scaler(X[train]), Scaler(y[train])
    return scale_x(X[train]), scale_y(y[train]), scale_x(X[test]), scale_y(y[test])


def scaled(kernels: list[Any], d: int) -> list[Any]:
    """Return the kernels with widths for d features instead of 13."""
    if d == 13:
        return kernels
    return [clone(kernel).set_params(gamma=kernel.gamma * 13 / d) for kernel in kernels]


def select(
    sketch: Any, kernels: list[Any], X: np.ndarray, y: np.ndarray, seed: int
) -> list[JointQuantileRegressor]:
    """Return models, fitted on a path: one for each kernel, then other ties with the best."""

    def fit(kernel: Any, tie: float) -> JointQuantileRegressor:
        model = JointQuantileRegressor(
            LEVELS, kernel, sketch, alpha=ALPHAS, gamma_quantiles=tie, random_state=seed
        )
        return model.fit(X, y)

    models = [fit(kernel, FIRST_TIE) for kernel in kernels]
    best = min(models, key=cv_loss)
    return models + [fit(best.kernel, tie) for tie in TIES if tie != FIRST_TIE]


def cv_loss(model: JointQuantileRegressor) -> float:
    """Return the least cross-validated loss of a path."""
    return float(model.cv_results_["mean_loss"].min())


def run_split(number: int, quick: bool, data: str) -> dict[str, dict[str, Any]]:
    """Choose, fit and test every method on one split."""
    parts = split(number, data)
    X, y, *_ = parts
    gaussian, others = (GAUSSIAN[1::3], OTHERS[1::4]) if quick else (GAUSSIAN, OTHERS)
    gaussian, others = (scaled(kernels, X.shape[1]) for kernels in (gaussian, others))
    rows = {}
    for name, sketch in sketches(len(y)).items():
        chosen = min(select(sketch, gaussian, X, y, number), key=cv_loss)
        rows[name] = judge(chosen, sketch, number, parts)
    stand_in = PivotedCholesky(min(len(y), 50 if quick else 100))
    models = select(stand_in, gaussian, X, y, number)
    rows["none"] = judge(min(models, key=cv_loss), None, number, parts)
    models += select(stand_in, others, X, y, number)  # what is chosen for "none" stays a choice
    rows["best"] = judge(min(models, key=cv_loss), None, number, parts)
    return rows


def judge(
    chosen: JointQuantileRegressor, sketch: Any, number: int, parts: tuple[np.ndarray, ...]
) -> dict[str, Any]:
    """Fit with what was chosen; test."""
    X, y, X_test, y_test = parts
    model = JointQuantileRegressor(
        LEVELS,
        chosen.kernel,
        sketch,
        alpha=chosen.alpha_,
        gamma_quantiles=chosen.gamma_quantiles,
        random_state=number,
    )
    with clock() as watch:
        model.fit(X, y)
    row = {
        "kernel": repr(chosen.kernel),
        "alpha": chosen.alpha_,
        "gamma_quantiles": chosen.gamma_quantiles,
        "cv_pinball": 100.0 * cv_loss(chosen),
        "gap": model.duality_gap_,
        "seconds": watch.cpu,
    }
    for suffix, sort in (("", True), ("_unsorted", False)):
        F = model.set_params(non_crossing=sort).predict(X_test)
        row["pinball" + suffix] = 100.0 * pinball_loss(y_test, F, LEVELS)
        row["crossing" + suffix] = 100.0 * crossing_loss(F, LEVELS)
    return row


def constant_loss(number: int, data: str) -> float:
    """Return the loss of the training quantiles as constants, to fix the scale."""
    _, y, _, y_test = split(number, data)
    F = np.tile(np.quantile(y, LEVELS), (len(y_test), 1))
    return 100.0 * pinball_loss(y_test, F, LEVELS)


def summary(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean and standard deviation over splits, and what was chosen in each."""
    numbers = ["pinball", "pinball_unsorted", "crossing", "crossing_unsorted", "seconds"]
    result: dict[str, Any] = {"method": name, "splits": len(rows)}
    result |= {key: mean_sd(row[key] for row in rows) for key in [*numbers, "cv_pinball"]}
    result["largest_gap"] = max(row["gap"] for row in rows)
    chosen = ["kernel", "alpha", "gamma_quantiles", "pinball", "crossing_unsorted"]
    result["each"] = [{key: row[key] for key in chosen} for row in rows]
    return result


def plan(size: Size, data: str = "boston") -> Plan:
    quick = size == "quick"
    splits = range({"quick": 2, "brief": 3, "full": 10}[size])
    settings = {
        "levels": LEVELS,
        "size": SIZE,
        "alphas": ALPHAS,
        "gamma_quantiles": TIES,
        "gaussian": GAUSSIAN,
        "others": OTHERS,
        "jobs": JOBS,
        "quick": quick,
    }
    if not quick:
        settings["constant_pinball"] = mean_sd(constant_loss(number, data) for number in splits)
    pieces = {f"split {number}": alone(run_split, number, quick, data) for number in splits}
    return Plan(of_data("table_3_3", data, "boston"), settings, pieces, rows, jobs=JOBS, seed=SEED)


def rows(results: Results) -> list[dict[str, Any]]:
    return [summary(name, [found[name] for found in results.values()]) for name in METHODS]


if __name__ == "__main__":
    columns = ["method", "pinball", "pinball_unsorted", "crossing", "crossing_unsorted", "seconds"]
    run_script(__doc__, plan, columns, data="boston")
