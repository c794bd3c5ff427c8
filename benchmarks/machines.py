"""Kernel machines with other losses than the squared one, in one process; ratios are what counts.

    python -m benchmarks.machines [--quick]

Three questions: how much more does a Huber, epsilon-insensitive, pinball or hinge loss cost than
ridge on the same sketch; how fast and how accurate is the solver on given features, against the
solvers of scikit-learn for the same objective; and how do whole models compare, for orientation.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import HuberRegressor, LogisticRegression, QuantileRegressor
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR
from tqdm import tqdm

from benchmarks.measure import gemm_rate, peak_megabytes, print_table, write_record
from skout import KernelClassifier, KernelMachine, KernelRidge
from skout.kernels import Gaussian
from skout.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Pinball,
    SquaredHinge,
)
from skout.sketches import SubSample
from skout.solvers import ConvexProblem, Solution, solve_convex
from skout.solvers.design import DesignMatrix

GAMMA, ALPHA, SEED, D = 0.05, 1e-5, 0, 10
EPSILON, TAU, KAPPA = 0.1, 0.9, 0.3
# Relative duality gaps that ours is run to; the first is the default of the estimators.
TOLS = (1e-4, 1e-6)
# The QuantileRegressor has another penalty, so neither side gets one worth the name.
NO_PENALTY = 1e-9


def make_data(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Gaussian inputs, targets with heavy tails, and labels -1 and 1 that overlap."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, D))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + np.tanh(X[:, 3:] @ rng.standard_normal(D - 3))
    y = f + 0.2 * rng.standard_t(2, n)
    return X, y, np.where(f + 0.5 * rng.standard_normal(n) > 0.0, 1.0, -1.0)


def interleaved(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, dict[str, Any]]:
    """Run every job in turn, some times over, so that a slow spell of the machine meets all.

    Returns of each its last result, the seconds of its fastest and of its first run, and whether
    it stopped without a warning.
    """
    runs: dict[str, dict[str, Any]] = {name: {"all": [], "converged": True} for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                clock = time.perf_counter()
                runs[name]["result"] = job()
                runs[name]["all"].append(time.perf_counter() - clock)
            if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
                runs[name]["converged"] = False
    for run in runs.values():
        run["seconds"], run["first_seconds"] = min(run["all"]), run["all"][0]
    return runs


# A sketched fit against ridge --------------------------------------------------------------------


def against_ridge(n: int, m: int, repeats: int) -> list[dict[str, Any]]:
    """Fit each loss on n rows and m landmarks, and ridge on the same."""
    X, y, labels = make_data(n)
    kernel, sketch = Gaussian(GAMMA), SubSample(m)

    def machine(loss: Loss) -> KernelMachine:
        return KernelMachine(kernel, sketch, loss=loss, alpha=ALPHA, random_state=SEED)

    models: dict[str, tuple[Any, np.ndarray]] = {
        "ridge": (KernelRidge(kernel, sketch, alpha=ALPHA, random_state=SEED), y),
        "huber": (machine(Huber(KAPPA)), y),
        "epsilon_insensitive": (machine(EpsilonInsensitive(EPSILON)), y),
        "pinball": (machine(Pinball(TAU)), y),
        "hinge": (
            KernelClassifier(kernel, sketch, loss="hinge", alpha=ALPHA, random_state=SEED),
            labels,
        ),
    }
    few = slice(0, min(n, 20 * m))
    for model, target in models.values():
        model.fit(X[few], target[few])  # warm up threads and caches
    jobs = {
        name: (lambda model=model, target=target: model.fit(X, target))
        for name, (model, target) in models.items()
    }
    runs = interleaved(jobs, repeats)
    ridge = runs["ridge"]
    rows = []
    for name, run in runs.items():
        model = run["result"]
        rows.append(
            {
                "what": "sketched fit",
                "loss": "squared, in closed form" if name == "ridge" else name,
                "n": n,
                "m": m,
                "seconds": run["seconds"],
                "first_seconds": run["first_seconds"],
                "times_ridge": run["seconds"] / ridge["seconds"],
                "first_run_times_ridge": run["first_seconds"] / ridge["first_seconds"],
                "steps": getattr(model, "n_iter_", None),
                "gap": getattr(model, "duality_gap_", None),
                "converged": run["converged"],
                "megabytes": peak_megabytes(jobs[name]),
            }
        )
    return rows


# The solver against those of scikit-learn, on the same features ----------------------------------


def objective(
    loss: Loss, Z: np.ndarray, target: np.ndarray, w: np.ndarray, b: float, alpha: float
) -> float:
    """Return mean loss + alpha/2 ||w||^2, from the formulas."""
    f = Z @ w + b
    r, margin = f - target, target * f
    if isinstance(loss, EpsilonInsensitive):
        each = np.maximum(np.abs(r) - EPSILON, 0.0)
    elif isinstance(loss, Pinball):
        each = np.maximum(-TAU * r, (1.0 - TAU) * r)
    elif isinstance(loss, Hinge):
        each = np.maximum(1.0 - margin, 0.0)
    elif isinstance(loss, SquaredHinge):
        each = np.maximum(1.0 - margin, 0.0) ** 2
    elif isinstance(loss, Logistic):
        each = np.logaddexp(0.0, -margin)
    else:
        raise TypeError(f"No formula for {loss!r}.")
    return float(each.mean() + 0.5 * alpha * w @ w)


def peers(n: int) -> list[tuple[str, Loss, Any, float, bool]]:
    """Return name, loss, scikit-learn's model, alpha and intercept of each comparison.

    C = 1/(n alpha) makes the objectives the same up to a factor. liblinear would penalise an
    intercept, so there is none. HuberRegressor finds a scale of its own and QuantileRegressor has
    another penalty (none, here): of the first only times compare, of the second the loss.
    """
    C = 1.0 / (n * ALPHA)
    linear: dict[str, Any] = {"C": C, "fit_intercept": False, "max_iter": 10_000}
    linear["random_state"] = SEED
    return [
        ("LinearSVR", EpsilonInsensitive(EPSILON), LinearSVR(epsilon=EPSILON, **linear), ALPHA, 0),
        ("LinearSVC, hinge", Hinge(), LinearSVC(loss="hinge", dual=True, **linear), ALPHA, 0),
        ("LinearSVC, squared hinge", SquaredHinge(), LinearSVC(dual=False, **linear), ALPHA, 0),
        ("LogisticRegression", Logistic(), LogisticRegression(**linear), ALPHA, 0),
        (
            "QuantileRegressor, highs",
            Pinball(TAU),
            QuantileRegressor(quantile=TAU, alpha=0.0, solver="highs"),
            NO_PENALTY,
            1,
        ),
        (
            "HuberRegressor",
            Huber(KAPPA),
            HuberRegressor(alpha=n * ALPHA / 2, max_iter=10_000),
            0,
            1,
        ),
    ]


def on_features(n: int, m: int, repeats: int) -> list[dict[str, Any]]:
    """Solve for the coefficients of m Nyström features of n rows."""
    X, y, labels = make_data(n)
    Z = Nystroem(gamma=GAMMA, n_components=m, random_state=SEED).fit_transform(X)
    rows = []
    for name, loss, model, alpha, intercept in tqdm(peers(n), desc="features"):
        target = labels if isinstance(loss, (Hinge, SquaredHinge, Logistic)) else y
        problem = ConvexProblem(
            DesignMatrix(Z),
            target[:, None],
            np.full(n, 1.0 / n),
            loss,
            alpha or ALPHA,
            fit_intercept=bool(intercept),
        )
        jobs: dict[str, Callable[[], Any]] = {
            f"{tol:g}": (lambda problem=problem, tol=tol: solve_convex(problem, tol=tol))
            for tol in TOLS
        }
        jobs["theirs"] = lambda model=model, target=target: model.fit(Z, target)
        runs = interleaved(jobs, repeats)
        rows.append({"what": "solver", "peer": name, "n": n, "m": m, **_compared(runs, problem)})
        if name != "HuberRegressor":  # which minimises something else
            rows[-1] |= _objectives(runs, problem, Z)
    return rows


def _compared(runs: dict[str, dict[str, Any]], problem: ConvexProblem) -> dict[str, Any]:
    theirs, row = runs["theirs"], {"loss": repr(problem.loss), "alpha": problem.alpha}
    row |= {
        "sklearn_seconds": theirs["seconds"],
        "sklearn_first_seconds": theirs["first_seconds"],
        "sklearn_converged": theirs["converged"],
    }
    for tol in TOLS:
        run = runs[f"{tol:g}"]
        solution: Solution = run["result"]
        row |= {
            f"seconds_{tol:g}": run["seconds"],
            f"first_seconds_{tol:g}": run["first_seconds"],
            f"times_faster_{tol:g}": theirs["seconds"] / run["seconds"],
            f"first_run_times_faster_{tol:g}": theirs["first_seconds"] / run["first_seconds"],
            f"steps_{tol:g}": solution.n_iter,
            f"gap_{tol:g}": solution.gap,
        }
    return row


def _objectives(
    runs: dict[str, dict[str, Any]], problem: ConvexProblem, Z: np.ndarray
) -> dict[str, float]:
    """Return the objectives of both, and how far theirs is above the best lower bound known."""
    target, alpha = problem.Y[:, 0], problem.alpha

    def value(w: np.ndarray, b: Any) -> float:
        return objective(problem.loss, Z, target, w, float(np.ravel(b)[0]), alpha)

    model = runs["theirs"]["result"]
    theirs = value(np.ravel(model.coef_), model.intercept_)
    bound = max(runs[f"{tol:g}"]["result"].dual for tol in TOLS)
    row = {"sklearn_objective": theirs, "sklearn_above_optimum": theirs / bound - 1.0}
    for tol in TOLS:
        solution: Solution = runs[f"{tol:g}"]["result"]
        ours = value(solution.theta[:, 0], solution.intercept)
        row |= {
            f"objective_{tol:g}": ours,
            f"above_optimum_{tol:g}": ours / bound - 1.0,
            f"objective_ratio_{tol:g}": ours / theirs,
        }
    return row


# Whole models, for orientation -------------------------------------------------------------------


def whole_models(n: int, m: int | None, repeats: int) -> list[dict[str, Any]]:
    """SVR and SVC with a Gaussian kernel against ours, sketched to m landmarks, or exact."""
    n_test = 4000
    X, y, labels = make_data(n + n_test)
    C, sketch = 1.0 / (n * ALPHA), None if m is None else SubSample(m)
    kernel = Gaussian(GAMMA)
    insensitive = EpsilonInsensitive(EPSILON)
    pairs: dict[str, tuple[Any, Any, np.ndarray]] = {
        "SVR": (
            KernelMachine(
                kernel, sketch, loss=insensitive, alpha=ALPHA, fit_intercept=True, random_state=0
            ),
            SVR(kernel="rbf", gamma=GAMMA, C=C, epsilon=EPSILON, cache_size=1000),
            y,
        ),
        "SVC": (
            KernelClassifier(kernel, sketch, loss="hinge", alpha=ALPHA, random_state=SEED),
            SVC(kernel="rbf", gamma=GAMMA, C=C, cache_size=1000),
            labels,
        ),
    }
    rows = []
    for name, (ours, theirs, target) in pairs.items():
        jobs = {
            "ours": lambda ours=ours, target=target: ours.fit(X[:n], target[:n]),
            "theirs": lambda theirs=theirs, target=target: theirs.fit(X[:n], target[:n]),
        }
        runs = interleaved(jobs, repeats)
        errors = [_mean_error(model, X[n:], target[n:]) for model in (ours, theirs)]
        rows.append(
            {
                "what": "model",
                "peer": name,
                "n": n,
                "m": "exact" if m is None else m,
                "seconds": runs["ours"]["seconds"],
                "first_seconds": runs["ours"]["first_seconds"],
                "sklearn_seconds": runs["theirs"]["seconds"],
                "times_faster": runs["theirs"]["seconds"] / runs["ours"]["seconds"],
                "first_run_times_faster": runs["theirs"]["first_seconds"]
                / runs["ours"]["first_seconds"],
                "steps": ours.n_iter_,
                "gap": ours.duality_gap_,
                "converged": runs["ours"]["converged"],
                "test_error": errors[0],
                "sklearn_test_error": errors[1],
            }
        )
    return rows


def _mean_error(model: Any, X: np.ndarray, target: np.ndarray) -> float:
    """Mean absolute error of a regressor, share of wrong labels of a classifier."""
    predicted = model.predict(X)
    if hasattr(model, "classes_"):
        return float(np.mean(predicted != target))
    return float(np.mean(np.abs(predicted - target)))


# -------------------------------------------------------------------------------------------------


def report(results: list[dict[str, Any]]) -> None:
    """Print one table a question."""
    of = {what: [row for row in results if row["what"] == what] for what in _QUESTIONS}
    for what, columns in _QUESTIONS.items():
        print_table(of[what], columns)


_QUESTIONS = {
    "sketched fit": [
        *("loss", "n", "m", "seconds", "times_ridge", "first_run_times_ridge", "steps", "gap"),
        *("converged", "megabytes"),
    ],
    "solver": [
        *("peer", "n", "m", "seconds_0.0001", "seconds_1e-06", "sklearn_seconds"),
        *("times_faster_0.0001", "first_run_times_faster_0.0001", "gap_0.0001", "gap_1e-06"),
        *("above_optimum_0.0001", "above_optimum_1e-06", "sklearn_above_optimum"),
        "sklearn_converged",
    ],
    "model": [
        *("peer", "n", "m", "seconds", "sklearn_seconds", "times_faster"),
        *("first_run_times_faster", "gap", "converged", "test_error", "sklearn_test_error"),
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, no record")
    quick = parser.parse_args().quick
    sizes = (5000, 50, 800, 30, 300) if quick else (100_000, 300, 8000, 100, 2000)
    n, m, n_features, m_features, n_exact = sizes
    repeats = 1 if quick else 3
    rate = gemm_rate(np.float64, 1024 if quick else 4096)
    results = against_ridge(n, m, repeats)
    results += on_features(n_features, m_features, repeats)
    results += whole_models(n_features, m_features, repeats)
    results += whole_models(n_exact, None, repeats)
    print(f"GEMM rate: {rate / 1e9:.1f} Gflop/s\n")
    report(results)
    if not quick:
        settings = {"gamma": GAMMA, "alpha": ALPHA, "seed": SEED, "d": D, "repeats": repeats}
        settings |= {"epsilon": EPSILON, "tau": TAU, "kappa": KAPPA, "tols": TOLS}
        settings |= {"alpha_without_penalty": NO_PENALTY, "gemm_gflops": rate / 1e9}
        print("record:", write_record("machines", settings, results))


if __name__ == "__main__":
    main()
