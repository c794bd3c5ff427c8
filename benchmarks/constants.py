"""What the constants of the solvers are worth: steps, passes and seconds with other values.

    python -m benchmarks.constants            # steps and passes of the iterative solvers
    python -m benchmarks.constants --seconds  # CPU seconds of one thread, as ratios

Counts do not depend on the machine but for rounding; ratios of seconds do, and are the least of
seven runs. The comments beside the constants of skout.basis and skout.solvers say what came out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from skout import JointQuantileRegressor, KernelClassifier, KernelMachine, KernelRidge
from skout.basis import features, moments
from skout.kernels import Gaussian
from skout.losses import LossLike
from skout.sketches import GaussianSketch, PSparsified, SubSample
from skout.solvers import cg, convex, design, newton
from skout.solvers.design import DesignMatrix
from skout.solvers.ridge import gram, rows, system

N = 3000
rng = np.random.default_rng(0)
X = rng.standard_normal((4 * N, 4))
F = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
Y = F + 0.3 * rng.standard_t(2, len(F))  # heavy tails
LABELS = F + 0.5 * rng.standard_normal(len(F)) > 0.0
MASKED = np.where(rng.random((N, 40)) < 0.3, np.nan, F[:N, None] + rng.standard_normal((N, 40)))
KERNEL = Gaussian(0.3)
DISTANCES = ("huber", "epsilon_insensitive", "pinball")
MARGINS = ("hinge", "logistic", "squared_hinge")
passes: Counter[str] = Counter()  # over Z, by kind, in units of all rows


def counted(run: Callable[[], int]) -> str:
    """Return the steps that `run` returns, and the passes that it made."""
    passes.clear()

    def counting(name: str) -> Callable[..., object]:
        original = getattr(DesignMatrix, name)

        def method(self: DesignMatrix, *args: Any) -> object:
            kind = f" in {args[0].dtype}" if name == "masked" else ""
            passes[name + kind] += self.shape[0] / N
            return original(self, *args)

        return method

    names = ("gram", "adjoint", "product", "masked")
    with mock.patch.multiple(DesignMatrix, **{name: counting(name) for name in names}):
        steps = run()
    return f"{steps:5d} steps  " + "  ".join(f"{name} {passes[name]:.0f}" for name in passes)


def machine(loss: LossLike, alpha: object, n: int = N, m: int = 100) -> int:
    kind, y = (KernelClassifier, LABELS) if loss in MARGINS else (KernelMachine, Y)
    model = kind(KERNEL, SubSample(m), loss=loss, alpha=alpha, random_state=0)
    return model.fit(X[:n], y[:n]).n_iter_


def machines() -> int:
    """Twenty-one fits of 3,000 rows: seven losses, three penalties."""
    steps = 0
    for alpha in (1e-2, 1e-4, 1e-6):
        steps += sum(machine(loss, alpha) for loss in (*DISTANCES, *MARGINS))
        joint = JointQuantileRegressor([0.1, 0.5, 0.9], KERNEL, SubSample(60), alpha=alpha)
        steps += joint.set_params(random_state=0).fit(X[:N], Y[:N]).n_iter_
    return steps


def paths() -> int:
    """A path of four penalties on five folds, which starts each fit from the one before."""
    return sum(machine(loss, [1e-2, 1e-3, 1e-4, 1e-5], m=60) for loss in ("huber", "pinball"))


def many_rows() -> int:
    """Ten fits of 12,000 rows with 60 landmarks."""
    losses = (*DISTANCES, "hinge", "logistic")
    return sum(machine(loss, alpha, 4 * N, 60) for loss in losses for alpha in (1e-3, 1e-5))


def ridges() -> int:
    """Fourteen fits by conjugate gradients, sketched and exact, in both precisions."""
    steps = 0
    cases = [(a, t, kind) for a in (1e-3, 1e-6, 1e-8) for t in (1e-3, 1e-6) for kind in "fd"]
    for alpha, tol, kind in [*cases, (1e-4, 1e-6, "exact"), (1e-8, 1e-6, "exact")]:
        sketch, n = (None, N // 2) if kind == "exact" else (PSparsified(300), N)
        model = KernelRidge(KERNEL, sketch, alpha=alpha, solver="cg", tol=tol, max_iter=2000)
        rows_in = X[:n].astype(np.float32) if kind == "f" else X[:n]
        report = model.set_params(random_state=0).fit(rows_in, Y[:n]).solver_report_
        steps += report["iterations"]
        passes["exact"] += report["exact_passes"]
    return steps


def masks() -> int:
    """Forty outputs with masks of their own, whose coordinates are kept."""
    with mock.patch.object(system, "keeps_rows", return_value=True):
        model = KernelRidge(KERNEL, SubSample(200), alpha=1e-6, random_state=0)
        return model.fit(X[:N], MASKED).n_iter_


def compare(run: Callable[[], int], module: ModuleType, name: str, *values: float) -> None:
    print(f"{name:14s} {getattr(module, name):8g}: {counted(run)}", flush=True)
    for value in values:
        with mock.patch.object(module, name, value):
            print(f"{'':14s} {value:8g}: {counted(run)}", flush=True)


# Seconds ------------------------------------------------------------------------------------------


def ridge(n: int = 4 * N, q: int = 1, sketch: object = None, **params: object) -> None:
    """Fit n rows of 4 columns with q outputs."""
    model = KernelRidge(KERNEL, sketch, alpha=1e-4, n_jobs=1, random_state=0, **params)
    model.fit(X[:n], F[:n, None] + np.arange(q))


def masked(**params: object) -> None:
    with mock.patch.object(system, "keeps_rows", return_value=True):
        KernelRidge(KERNEL, SubSample(200), alpha=1e-6, n_jobs=1, random_state=0, **params).fit(
            X[:N], MASKED
        )


def related(m: int) -> None:
    """Fit a machine of six outputs that a matrix relates."""
    M = 0.5 * (np.eye(6) + 1.0)
    KernelMachine(KERNEL, SubSample(m), alpha=1e-3, task_matrix=M, n_jobs=1, random_state=0).fit(
        X[:N], F[:N, None] + rng.standard_normal((N, 6))
    )


def seconds(run: Callable[[], object], module: ModuleType, name: str, *values: float) -> None:
    """Print the CPU seconds with other values of a constant, relative to those with its own."""
    own = getattr(module, name)
    least = dict.fromkeys((own, *values), np.inf)
    for _ in range(7):
        for value in least:
            with mock.patch.object(module, name, value):
                start = time.process_time()
                run()
                least[value] = min(least[value], time.process_time() - start)
    ratios = "  ".join(f"{value:g} {least[value] / least[own]:.2f}" for value in values)
    print(f"{name:16s} {own:8g}: {least[own]:6.3f} s   {ratios}", flush=True)


def measured() -> None:
    landmarks = SubSample(400)
    seconds(lambda: ridge(q=60, sketch=landmarks), moments, "_FEW_OUTPUTS", 32, 128)
    seconds(lambda: ridge(q=100, sketch=landmarks), moments, "_FEW_OUTPUTS", 32, 128)
    seconds(lambda: ridge(n=N, sketch=landmarks), moments, "_FEW_LANDMARKS", 0.05, 0.2)
    seconds(lambda: ridge(n=N, sketch=SubSample(250)), moments, "_FEW_LANDMARKS", 0.05, 0.2)
    mixing = PSparsified(300)
    seconds(lambda: ridge(n=N, sketch=mixing), moments, "_FEW_KNOWN", 0.05, 0.2)
    dense = GaussianSketch(100)
    seconds(lambda: ridge(n=2 * N, sketch=dense), features, "_LANDMARK_CHUNK", 2048, 8192)
    seconds(lambda: ridge(n=N, sketch=mixing), features, "_MIXED_ROWS", 128, 512)
    fitted = KernelRidge(KERNEL, SubSample(300), n_jobs=1, random_state=0)
    fitted.fit(X[:N], np.tile(F[:N, None], 40))
    seconds(lambda: fitted.predict(X), features, "_PRODUCT_ROWS", 256, 1024)
    basis = fitted.basis_
    seconds(lambda: basis.transform(X), features, "_STEP", 32, 128)
    seconds(lambda: machine("huber", 1e-4, 4 * N), design, "_GRAM_ROWS", 512, 2048)
    seconds(lambda: machine("huber", 1e-4, 4 * N, 600), design, "_WIDE_ROWS", 1024, 4096)
    seconds(masked, design, "_CACHE_BYTES", 2**18, 2**20)
    seconds(masked, design, "_LANES", 1, 8, 32)
    seconds(masked, rows, "_GATHERED", 4096, 16384)
    seconds(lambda: ridge(n=N, fit_intercept=True), gram, "_ROWS", 256, 1024)
    seconds(lambda: ridge(n=N, solver="cg"), gram, "_TILE", 512, 2048)
    seconds(lambda: related(300), newton, "_DENSE", 1250, 5000)
    seconds(lambda: related(500), newton, "_DENSE", 1250, 5000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", action="store_true", help="CPU seconds in place of counts")
    warnings.simplefilter("ignore")
    if parser.parse_args().seconds:
        with threadpool_limits(1):
            measured()
        return
    compare(machines, convex, "_FIRST_WIDTH", 0.5, 2.0)
    compare(paths, convex, "_NEXT_WIDTH", 0.02, 0.05, 0.2, 0.5)
    compare(machines, convex, "_DECREASE", 0.2, 0.6)
    compare(machines, convex, "_GOOD_STEP", 0.3, 0.9)
    compare(machines, convex, "_LEAST_WIDTH", 0.05, 0.2)
    compare(machines, convex, "_NEGLIGIBLE", 0.025, 0.1)
    compare(machines, convex, "_NEAR", 2.5, 10.0)
    compare(many_rows, convex, "_START_ROWS", 15, 60, 10**6)
    compare(ridges, cg, "_KEEP", 0.25, 1.0)
    compare(ridges, cg, "_PATIENCE", 10, 40)
    compare(ridges, cg, "_PROGRESS", 0.8, 0.95)
    compare(ridges, cg, "_LEAST_GAIN", 0.25, 0.9)
    defaults = cg.refined.__kwdefaults__
    for gain in (1e-1, 1e-2, 1e-3):
        with mock.patch.dict(defaults, gain=gain):
            print(f"{'_GAIN':14s} {gain:8g}: {counted(ridges)}", flush=True)
    compare(masks, rows, "_GAIN", 1e-2, 1e-6)


if __name__ == "__main__":
    main()
