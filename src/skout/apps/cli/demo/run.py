"""Run the demo: fit five methods, predict the lower halves of digits, and score them."""

from __future__ import annotations

import os
import pickle
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestRegressor
from tqdm import tqdm

from skout import KernelBasis, StructuredPredictor, iokr, metrics
from skout.kernels import Gaussian
from skout.sketches import SubSample

T = TypeVar("T")


class Halves(NamedTuple):
    """Digits cut in two halves; pixels are in [0, 1], and row i of each part is the same digit."""

    upper: np.ndarray  # (n, 32) the inputs
    lower: np.ndarray  # (n, 32) the objects to predict
    digit: np.ndarray  # (n,) which of 0..9; never shown to a method, only used for scores

    def split(self, n: int) -> tuple[Halves, Halves]:
        """Return the first n digits and the others."""
        return Halves(*(part[:n] for part in self)), Halves(*(part[n:] for part in self))


@dataclass(frozen=True)
class Plan:
    """The sizes and settings of a demo."""

    n_train: int = 1347
    n_test: int = 450
    input_size: int = 300  # landmarks of the input sketch
    output_size: int = 100  # landmarks of the output sketch
    n_trees: int = 100
    # The settings that did best on 337 training digits of seed 0: the input gamma, as a multiple of
    # the median rule, and alpha, of all inputs and of sketched ones; features of a split.
    exact: tuple[float, float] = (4.0, 1e-4)
    sketched: tuple[float, float] = (1.0, 1e-6)
    tree_features: float = 1.0
    n_repeats: int = 3  # timings are medians of this many


_QUICK = Plan(400, 150, 150, 50, 20, (2.0, 1e-4), (2.0, 1e-4), 0.33)


@dataclass(frozen=True)
class MethodRun:
    """The settings, scores and predictions of one method."""

    name: str
    what: str
    chosen: dict[str, Any]
    metrics: dict[str, float]
    lower: np.ndarray  # (n_test, 32) the predicted halves
    right: np.ndarray  # (n_test,) bool: the half comes from the same digit as the truth


@dataclass(frozen=True)
class DemoRun:
    """A finished demo: the test digits, the results, and what is needed to run it again."""

    seed: int
    test: Halves
    methods: list[MethodRun]
    settings: dict[str, Any]
    versions: dict[str, str]


def run_demo(*, seed: int = 0, quick: bool = False, progress: bool = True) -> DemoRun:
    """Complete digits with IOKR, SIOKR, ISOKR, SISOKR and a random forest.

    The seed is that of the split, of the sketches and of the trees. A `quick` demo has fewer
    digits, and takes seconds instead of half a minute.

    Examples
    --------
    >>> from skout.apps.cli.demo import run_demo
    >>> run = run_demo(quick=True, progress=False)
    >>> [method.name for method in run.methods]
    ['IOKR', 'SIOKR', 'ISOKR', 'SISOKR', 'FOREST']
    """
    start = perf_counter()
    plan = _QUICK if quick else Plan()
    train, test = load_halves(plan.n_train, plan.n_test, seed)
    rng = np.random.default_rng(seed)
    rule = Gaussian(gamma="median")
    inputs, outputs = (Gaussian(rule.resolve(part, rng).gamma) for part in train[:2])
    methods = _methods(plan, inputs, outputs, seed)
    done = []
    with tqdm(total=len(methods), unit="method", disable=None if progress else True) as bar:
        for name, what, model, settings in methods:
            bar.set_description(f"{name:<6}")
            figures = _scored(model.set_params(**settings), train, test, plan, outputs)
            done.append(MethodRun(name, what, settings, *figures))
            bar.update()
    facts = asdict(plan) | {
        "input_gamma_median_rule": float(inputs.gamma),
        "output_gamma": float(outputs.gamma),
        "pixel_error": "mean squared difference, pixels in [0, 1]",
        "cpu_count": os.cpu_count(),
        "total_seconds": perf_counter() - start,
    }
    versions = {name: version(name) for name in ("skout", "numpy", "scipy", "scikit-learn")}
    return DemoRun(seed, test, done, facts, versions | {"python": platform.python_version()})


def load_halves(n_train: int, n_test: int, seed: int) -> tuple[Halves, Halves]:
    """Shuffle the 1,797 digits that come with scikit-learn; return a training and a test part."""
    pixels, digit = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(digit))[: n_train + n_test]
    upper, lower = np.hsplit(pixels[order] / 16.0, 2)
    return Halves(np.ascontiguousarray(upper), np.ascontiguousarray(lower), digit[order]).split(
        n_train
    )


# Name, words, model and settings.
Method = tuple[str, str, StructuredPredictor, dict[str, Any]]


def _methods(plan: Plan, inputs: Gaussian, outputs: Gaussian, seed: int) -> list[Method]:
    """Return name, words, model and settings of each method; they differ in sketches and map."""
    few_x, few_y = SubSample(plan.input_size), SubSample(plan.output_size)
    exact, sketched = (
        {"regressor__kernel__gamma": factor * float(inputs.gamma), "regressor__alpha": alpha}
        for factor, alpha in (plan.exact, plan.sketched)
    )
    split = {"regressor__min_samples_leaf": 1, "regressor__max_features": plan.tree_features}

    def ridge(x: SubSample | None, y: SubSample | None) -> StructuredPredictor:
        return iokr(inputs, outputs, input_sketch=x, output_sketch=y, random_state=seed)

    trees = RandomForestRegressor(plan.n_trees, n_jobs=-1, random_state=seed)
    forest = StructuredPredictor(trees, KernelBasis(outputs, few_y, random_state=seed))
    return [
        ("IOKR", "kernel ridge, nothing sketched", ridge(None, None), exact),
        ("SIOKR", "kernel ridge, inputs sketched", ridge(few_x, None), sketched),
        ("ISOKR", "kernel ridge, outputs sketched", ridge(None, few_y), exact),
        ("SISOKR", "kernel ridge, both sketched", ridge(few_x, few_y), sketched),
        ("FOREST", "random forest, outputs sketched", forest, split),
    ]


def _scored(
    model: StructuredPredictor, train: Halves, test: Halves, plan: Plan, kernel: Gaussian
) -> tuple[dict[str, float], np.ndarray, np.ndarray]:
    """Fit a method; return its scores, its completions, and which are of the right digit."""
    _, fit_seconds = _timed(lambda: model.fit(train.upper, train.lower), plan.n_repeats)
    halves, predict_seconds = _timed(lambda: model.predict(test.upper), plan.n_repeats)
    lower = np.asarray(halves)
    right = same_digit(lower, test.digit, train)
    loss = 2.0 - 2.0 * kernel.paired(test.lower, lower)  # a Gaussian kernel has k(y, y) = 1
    figures = {
        "kernel_loss": float(metrics.kernel_loss(kernel, test.lower, lower)),
        "kernel_loss_standard_error": float(loss.std(ddof=1) / len(loss) ** 0.5),
        "pixel_error": float(np.mean((test.lower - lower) ** 2)),
        "right_digit": float(right.mean()),
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "megabytes": len(pickle.dumps(model)) / 1e6,
    }
    return figures, lower, right


def same_digit(lower: np.ndarray, digit: np.ndarray, train: Halves) -> np.ndarray:
    """Return whether each predicted half was cut from a training digit of the true class."""
    known = {(half.tobytes(), d) for half, d in zip(train.lower, train.digit, strict=True)}
    return np.array([(half.tobytes(), d) in known for half, d in zip(lower, digit, strict=True)])


def _timed(function: Callable[[], T], repeats: int) -> tuple[T, float]:
    """Call a function several times; return its result, and the median of the seconds."""
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        result = function()
        seconds.append(perf_counter() - start)
    return result, median(seconds)


# The columns of the table: the title, the score in it, and the format of that.
_COLUMNS = (
    ("kernel loss", "kernel_loss", "{:.3f}"),
    ("pixel error", "pixel_error", "{:.4f}"),
    ("right digit", "right_digit", "{:.1%}"),
    ("fit s", "fit_seconds", "{:.3g}"),
    ("predict s", "predict_seconds", "{:.3g}"),
    ("model MB", "megabytes", "{:.3g}"),
)


def table(run: DemoRun) -> tuple[list[str], list[list[tuple[str, bool]]]]:
    """Return the columns, and for each method its texts with whether each is the best."""
    columns = []
    for _, key, form in _COLUMNS:
        values = [method.metrics[key] for method in run.methods]
        best = form.format(max(values) if key == "right_digit" else min(values))
        columns.append([(form.format(value), form.format(value) == best) for value in values])
    return [name for name, *_ in _COLUMNS], [list(row) for row in zip(*columns, strict=True)]
