"""Random problems: does solver="auto" predict what solver="direct" predicts, or warn?

    python -m experiments.ours.auto_solver [--problems N] [--first SEED] [--jobs N] [--no-record]

Kernels and widths, alpha from 1e-9 to 1, one or a few outputs whose means are 0 to 1e6 times their
spread, with and without intercept and weights, exact and sketched, one alpha or three to choose
from. "auto" takes conjugate gradients by costs: here the least sizes and the margin of
`skout.solvers.ridge.system` are lowered, so that it does so for problems small enough to run many
of them; nothing else is changed. R2 is that of fresh rows, about the mean of each output; what is
compared is the output that differs most, and beside it the root mean square by which its
predictions differ, in standard deviations: without an intercept, R2 of "direct" itself may be -1e9,
and rounding then moves it. Where PyTorch finds a GPU, "auto" is fitted there as well.
"""

from __future__ import annotations

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.common import clock, print_table, write_record
from skout import KernelRidge
from skout.kernels import Gaussian, Laplacian, Matern, Polynomial
from skout.rows.device import named_device
from skout.sketches import GaussianSketch, PSparsified, SubSample
from skout.solvers.ridge import system

N_PROBLEMS, N_TEST, CLOSE = 500, 500, 0.005
SIZES = (600, 1600)  # rows to train on


def lower_the_sizes() -> None:
    """Let "auto" take conjugate gradients however small a problem is."""
    system._LEAST_LANDMARKS, system._LEAST_ROWS, system._MARGIN = 0, 0, 0.0


def drawn(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of a model, and the data of a problem with what describes it."""
    rng = np.random.default_rng(seed)
    n, d, q = int(rng.integers(*SIZES)), int(rng.integers(1, 9)), int(rng.choice([1, 1, 3]))
    gamma = float(10.0 ** rng.uniform(-2.0, 0.7)) / d
    kernel = (Gaussian, Gaussian, Laplacian, Matern, Polynomial)[rng.integers(5)]
    kernel = kernel(degree=3) if kernel is Polynomial else kernel(gamma)
    size = int(rng.integers(50, 400))
    sketch = (None, None, SubSample, PSparsified, GaussianSketch)[rng.integers(5)]
    alpha: Any = float(10.0 ** rng.uniform(-9.0, 0.0))
    if rng.random() < 0.1:
        alpha = sorted(float(a) for a in 10.0 ** rng.uniform(-9.0, 0.0, 3))
    mean = 0.0 if rng.random() < 0.2 else float(10.0 ** rng.uniform(0.0, 6.0))
    X = rng.standard_normal((n + N_TEST, d))
    F = np.sin(X @ rng.standard_normal((d, q))) + 0.5 * (X[:, :1] > 0.3)
    F = F / F.std(axis=0) + 10.0 ** rng.uniform(-2.0, 0.0) * rng.standard_normal(F.shape)
    Y = mean * rng.choice([-1.0, 1.0], q) + F
    weights = rng.exponential(size=n) if rng.random() < 0.5 else None
    options = {
        "kernel": kernel, "sketch": None if sketch is None else sketch(size), "alpha": alpha,
        "cv": 3, "fit_intercept": bool(rng.random() < 0.5), "random_state": seed,
    }  # fmt: skip
    problem = {"X": X, "Y": Y, "weights": weights, "n": n, "mean": mean}
    return options, problem


def fitted(
    options: dict[str, Any], problem: dict[str, Any], **more: Any
) -> tuple[np.ndarray, np.ndarray, dict[str, Any], list[str]]:
    """Return predictions of fresh rows and R2 of each output, the report, and what was warned of.

    Of cg that did not converge, or of a mean that is out of reach without an intercept.
    """
    n, X, Y = problem["n"], problem["X"], problem["Y"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = KernelRidge(**options, **more).fit(X[:n], Y[:n], problem["weights"])
        P = model.predict(X[n:])
    texts = [str(one.message) for one in caught]
    told = [name for name in ("conjugate gradients", "fit_intercept") if name in " ".join(texts)]
    r2 = 1.0 - ((Y[n:] - P) ** 2).mean(axis=0) / Y[n:].var(axis=0)
    return P, r2, model.solver_report_, told


def compared(seed: int, device: str | None) -> dict[str, Any]:
    """Return how far "auto" is from "direct" in a problem."""
    options, problem = drawn(seed)
    expected, direct = fitted(options, problem, solver="direct")[:2]
    spread = problem["Y"][problem["n"] :].std(axis=0)
    row: dict[str, Any] = {
        "seed": seed, "kernel": repr(options["kernel"]), "sketch": repr(options["sketch"]),
        "alpha": options["alpha"], "fit_intercept": options["fit_intercept"],
        "mean": problem["mean"], "rows": problem["n"], "outputs": problem["Y"].shape[1],
        "weights": problem["weights"] is not None, "r2_direct": float(direct.min()),
    }  # fmt: skip
    for place in (None, device)[: 1 + (device is not None)]:
        P, r2, report, told = fitted(options, problem, solver="auto", device=place)
        change = np.sqrt(((P - expected) ** 2).mean(axis=0)) / spread
        gap = float(np.max(np.abs(r2 - direct)))
        took = "direct after cg" if "fell_back_from" in report else report["solver"]
        row["host" if place is None else "device"] = {
            "gap": gap, "change": float(change.max()), "solver": took, "warned": told,
            "steps": report.get("iterations"),
            "relative_residual": report.get("relative_residual"),
        }  # fmt: skip
    return row


def summary(results: list[dict[str, Any]], place: str) -> list[dict[str, Any]]:
    """Return counts: by what "auto" took, the problems that are close, warned about, or neither."""
    counts = []
    for took in ("cg", "direct after cg", "direct"):
        some = [r[place] for r in results if place in r and r[place]["solver"] == took]
        if some:
            silent = [s for s in some if not s["warned"] and not s["gap"] < CLOSE]
            counts.append({
                "where": place, "auto took": took, "problems": len(some),
                "close": sum(s["gap"] < CLOSE for s in some),
                "warned": sum(bool(s["warned"]) for s in some), "neither": len(silent),
                "largest change without a warning": max(
                    (s["change"] for s in some if not s["warned"]), default=0.0
                ),
            })  # fmt: skip
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=N_PROBLEMS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    device = named_device("auto")
    device = None if device == "cpu" else device
    seeds = range(options.first, options.first + options.problems)
    with clock() as time, ProcessPoolExecutor(options.jobs, initializer=lower_the_sizes) as pool:
        each = pool.map(compared, seeds, [device] * len(seeds))
        results = list(tqdm(each, total=len(seeds)))
    counts = [row for place in ("host", "device") for row in summary(results, place)]
    print_table(counts, list(counts[0]))
    for row in results:
        for place in ("host", "device"):
            if place in row and not row[place]["warned"] and not row[place]["gap"] < CLOSE:
                print(row)
    if not options.no_record:
        settings = {"problems": options.problems, "close": CLOSE, "sizes": SIZES, "counts": counts}
        write_record("auto_solver", settings, results, wall_seconds=time.seconds)


if __name__ == "__main__":
    main()
