"""What the constants of the iterative solvers are worth: steps and passes with other values.

    python -m benchmarks.constants

Counts, which do not depend on the machine but for rounding. The comments beside the constants in
`skout.solvers` say what came out.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from skout import JointQuantileRegressor, KernelClassifier, KernelMachine, KernelRidge
from skout.kernels import Gaussian
from skout.losses import LossLike
from skout.sketches import PSparsified, SubSample
from skout.solvers import cg, convex
from skout.solvers.design import DesignMatrix
from skout.solvers.ridge import rows, system

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


def main() -> None:
    warnings.simplefilter("ignore")
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
