"""Run the demo: choose settings on training digits, fit, predict, judge."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from tqdm import tqdm

from ... import metrics
from ...kernels import Gaussian
from .data import Halves, load_halves
from .methods import FULL, QUICK, Method, Plan, build_methods, median_gaussian
from .storage import numbers_stored

__all__ = ["DemoRun", "MethodRun", "run_demo"]


@dataclass(frozen=True)
class MethodRun:
    """What one method chose, cost and predicted."""

    name: str
    what: str
    chosen: dict[str, Any]
    metrics: dict[str, float]
    lower: np.ndarray  # (n_test, 32) the predicted halves
    right: np.ndarray  # (n_test,) bool: the half comes from the same digit as the truth

    def record(self) -> dict[str, Any]:
        """Return everything but the pictures, ready for JSON."""
        return {k: getattr(self, k) for k in ("name", "what", "chosen", "metrics")}


@dataclass(frozen=True)
class DemoRun:
    """A finished demo: the test digits, the methods' results and how to do it again."""

    seed: int
    test: Halves
    methods: list[MethodRun]
    settings: dict[str, Any]
    versions: dict[str, str]

    def record(self) -> dict[str, Any]:
        """Return the run as plain data, ready for JSON."""
        return {
            "seed": self.seed,
            "settings": self.settings,
            "versions": self.versions,
            "methods": [method.record() for method in self.methods],
        }


def run_demo(*, seed: int = 0, quick: bool = False, progress: bool = True) -> DemoRun:
    """Complete digits with IOKR, SIOKR, ISOKR, SISOKR and a random forest.

    Parameters
    ----------
    seed : int, default=0
        Seed of the split, of the sketches and of the trees.
    quick : bool, default=False
        Fewer digits and settings: seconds instead of half a minute.
    progress : bool, default=True
        Show a progress bar on stderr, where that is a terminal.

    Returns
    -------
    run : DemoRun
        Predictions, figures, settings and versions.

    Examples
    --------
    >>> from skout.cli.demo import run_demo
    >>> run = run_demo(quick=True, progress=False)
    >>> [method.name for method in run.methods]
    ['IOKR', 'SIOKR', 'ISOKR', 'SISOKR', 'FOREST']
    """
    start = perf_counter()
    plan = QUICK if quick else FULL
    train, test = load_halves(plan.n_train, plan.n_test, seed)
    inputs, outputs = median_gaussian(train.upper, seed), median_gaussian(train.lower, seed)
    methods = build_methods(plan, inputs, outputs, seed)
    total = sum(len(ParameterGrid(m.grid)) + 1 for m in methods)
    with tqdm(total=total, unit="fit", disable=None if progress else True) as bar:
        done = [_run_method(m, train, test, plan, outputs, bar) for m in methods]
    settings = _settings(plan, inputs, outputs) | {"total_seconds": perf_counter() - start}
    return DemoRun(seed, test, done, settings, _versions())


def _run_method(
    method: Method, train: Halves, test: Halves, plan: Plan, outputs: Gaussian, bar: tqdm
) -> MethodRun:
    """Choose settings on training digits, fit on all of them, complete the test digits."""
    bar.set_description(f"{method.name:<6}")
    chosen, choose_seconds = _timed(_choose, method, train, plan, bar)
    model = clone(method.model).set_params(**chosen)
    _, fit_seconds = _timed(model.fit, train.upper, train.lower, repeats=plan.n_repeats)
    lower, predict_seconds = _timed(model.predict, test.upper, repeats=plan.n_repeats)
    bar.update()
    right = same_digit(lower, test.digit, train)
    figures = _errors(outputs, test.lower, lower) | {
        "right_digit": float(right.mean()),
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "choose_seconds": choose_seconds,
        "numbers_stored": numbers_stored(model),
    }
    return MethodRun(method.name, method.what, chosen, figures, lower, right)


def _choose(method: Method, train: Halves, plan: Plan, bar: tqdm) -> dict[str, Any]:
    """Return the settings of the grid with the best score on held-out training digits."""
    held_out, rest = train.split(plan.n_held_out)
    scores = {}
    grid = list(ParameterGrid(method.grid))
    for i, params in enumerate(grid):
        model = clone(method.model).set_params(**params).fit(rest.upper, rest.lower)
        scores[i] = model.score(held_out.upper, held_out.lower, scoring="kernel")
        bar.update()
    return grid[max(scores, key=scores.__getitem__)]


def _errors(kernel: Gaussian, truth: np.ndarray, guess: np.ndarray) -> dict[str, float]:
    """Judge completions by the output kernel and by their pixels."""
    loss = 2.0 - 2.0 * kernel.paired(truth, guess)  # a Gaussian kernel has k(y, y) = 1
    return {
        "kernel_loss": float(metrics.kernel_loss(kernel, truth, guess)),
        "kernel_loss_standard_error": float(loss.std(ddof=1) / len(loss) ** 0.5),
        "pixel_error": float(np.mean((truth - guess) ** 2)),
    }


def same_digit(lower: np.ndarray, digit: np.ndarray, train: Halves) -> np.ndarray:
    """Tell which predicted halves were cut from a training digit of the true class."""
    known = {(half.tobytes(), d) for half, d in zip(train.lower, train.digit, strict=True)}
    rows = np.ascontiguousarray(lower, dtype=train.lower.dtype)
    return np.array([(half.tobytes(), d) in known for half, d in zip(rows, digit, strict=True)])


def _timed(function: Any, *args: Any, repeats: int = 1) -> tuple[Any, float]:
    """Call a function; return its result and the seconds it took, the median of the repeats."""
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        result = function(*args)
        seconds.append(perf_counter() - start)
    return result, median(seconds)


def _settings(plan: Plan, inputs: Gaussian, outputs: Gaussian) -> dict[str, Any]:
    """Return the plan, the kernels and the machine as plain data."""
    return asdict(plan) | {
        "input_gamma_median_rule": float(inputs.gamma),
        "output_gamma": float(outputs.gamma),
        "pixel_error": "mean squared difference, pixels in [0, 1]",
        "cpu_count": os.cpu_count(),
    }


def _versions() -> dict[str, str]:
    """Return the versions of what made the numbers."""
    names = ("skout", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version()} | {name: version(name) for name in names}
