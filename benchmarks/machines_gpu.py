"""Kernel machines on a card against all cores of the same machine, to the same duality gap.

    python -m benchmarks.machines_gpu [--quick] [--part agree speed parts more stream]

agree   predictions, objective and duality gap of every kind of machine, on the card and here
speed   Huber, pinball and logistic, n = 1,000,000, d = 20, m = 1,000, gap 1e-4: the card, with rows
        there and with rows on the host, against the cores, which hold the coordinates in memory
parts   where the seconds of such a fit go on the card
more    hinge, three quantiles, float32 rows, three alphas, on the card only
stream  coordinates made again in each pass, as where they do not fit the card

Each result is written at once to records/machines_gpu.json. Where the cores would take more than
90 seconds they get a tenth of the rows, and the record says so.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from sklearn.base import clone

import skout
from benchmarks.measure import RECORDS, gemm_rate, surroundings
from skout import InducedMachine, JointQuantileRegressor, KernelClassifier, KernelMachine
from skout.kernels import Gaussian
from skout.losses import Huber, Pinball
from skout.regressors import base
from skout.rows import Device
from skout.sketches import SubSample
from skout.solvers.design import DesignMatrix

GAMMA, ALPHA, D, SEED, TOL = 0.02, 1e-6, 20, 0, 1e-4
KAPPA, TAU = 0.1, 0.9
MOST_SECONDS = 90.0  # of a fit on the cores
HELD_MB = 40_000.0  # of coordinates on the host: more than they take
BUDGET = 230.0  # seconds of the whole script; parts that begin later are left out

Result = dict[str, Any]


def make_data(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, D))
    f = np.tanh(X @ rng.standard_normal(D) / 2.0) + 0.3 * X[:, 0] * X[:, 1]
    y = f + 0.1 * rng.standard_t(3, n)
    labels = (y + 0.3 * rng.standard_normal(n) > 0.0).astype(int)
    return X, y, labels


def model(name: str, m: int, **options: Any) -> Any:
    made = {"huber": Huber(KAPPA), "pinball": Pinball(TAU)}
    kind = KernelMachine if name in made else KernelClassifier
    settings = {"alpha": ALPHA, "tol": TOL, "random_state": SEED, "loss": made.get(name, name)}
    return kind(Gaussian(GAMMA), SubSample(m), **(settings | options))


def seconds_of(function: Callable[[], Any]) -> tuple[float, Any]:
    torch.cuda.synchronize()
    clock = time.perf_counter()
    result = function()
    torch.cuda.synchronize()
    return time.perf_counter() - clock, result


def decision(fitted: Any, X: Any) -> np.ndarray:
    found = fitted.decision_function(X) if hasattr(fitted, "classes_") else fitted.predict(X)
    return found.cpu().numpy() if hasattr(found, "cpu") else found


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def certificate(fitted: Any) -> Result:
    return {
        "objective": fitted.objective_, "gap": fitted.duality_gap_, "n_iter": fitted.n_iter_,
        "rank": fitted.basis_.rank_,
    }  # fmt: skip


# Parts: each yields results -----------------------------------------------------------------------


def agree(n: int, m: int) -> Iterator[Result]:
    n, m = n // 50, m // 4
    X, y, labels = make_data(n)
    w = np.random.default_rng(1).random(n)
    Y = np.column_stack([y, np.sin(X[:, 0])])
    parts = (Gaussian(GAMMA), SubSample(m))
    same = {"alpha": 1e-5, "random_state": SEED}
    cases = {
        "huber": (model("huber", m), y, {}),
        "huber, weights, intercept": (model("huber", m, fit_intercept=True), y, {"w": w}),
        "huber, 2 outputs, task matrix": (
            model("huber", m // 4, task_matrix=np.array([[1.0, 0.5], [0.5, 1.0]])), Y, {},
        ),
        "pinball": (model("pinball", m), y, {}),
        "epsilon, 2 outputs": (model("huber", m, loss="epsilon_insensitive"), Y, {}),
        "squared": (model("huber", m, loss="squared"), y, {}),
        "huber, 3 alphas": (model("huber", m, alpha=[1e-6, 1e-5, 1e-4]), y, {}),
        "hinge": (model("hinge", m), labels, {}),
        "logistic": (model("logistic", m), labels, {}),
        "logistic, 3 classes": (model("logistic", m), np.digitize(y, [-0.5, 0.5]), {}),
        "3 quantiles": (JointQuantileRegressor([0.1, 0.5, 0.9], *parts, **same), y, {}),
        "induced": (
            InducedMachine(*parts, loss=Huber(0.5), **same), Y, {"residual": np.abs(X[:, 2])},
        ),
    }  # fmt: skip
    for name, (estimator, target, extra) in cases.items():
        for kind in ("host rows", "tensor"):
            told = {"what": "agree", "case": name, "n": n, "m": m, "rows": kind}
            try:
                yield told | compared(estimator, kind, X, target, dict(extra))
            except Exception:
                yield told | {"error": traceback.format_exc()}


def compared(estimator: Any, kind: str, X: np.ndarray, target: np.ndarray, extra: Any) -> Result:
    weights = extra.pop("w", None)
    here = clone(estimator).fit(X, target, weights, **extra)
    rows = torch.as_tensor(X).cuda() if kind == "tensor" else X
    there = clone(estimator).set_params(device=None if kind == "tensor" else "cuda")
    there.fit(rows, target, weights, **extra)
    return {
        "prediction_difference": difference(decision(there, rows[:2000]), decision(here, X[:2000])),
        "objective_difference": abs(there.objective_ / here.objective_ - 1.0),
        "gap_host": here.duality_gap_,
        "gap_card": there.duality_gap_,
    }


def speed(n: int, m: int) -> Iterator[Result]:
    X, y, labels = make_data(n)
    tensor = torch.as_tensor(X).cuda()
    for loss in ("huber", "pinball", "logistic"):
        target = labels if loss == "logistic" else y
        some = n // 5
        model(loss, m).fit(tensor[:some], target[:some])  # what is loaded once
        told = {"what": "speed", "loss": loss, "n": n, "d": D, "m": m, "tol": TOL}
        best: float | None = None
        torch.cuda.reset_peak_memory_stats()
        for kind, rows, device in (("tensor", tensor, None), ("host rows", X, "cuda")):
            runs = [
                seconds_of(functools.partial(model(loss, m, device=device).fit, rows, target))
                for _ in range(2)
            ]
            spent = min(run[0] for run in runs)
            best = spent if kind == "host rows" else best
            peak = torch.cuda.max_memory_allocated() / 1e9
            yield told | {"rows": kind, "seconds": spent, "card_gb": peak} | certificate(runs[0][1])
        there = runs[0][1]
        yield told | _on_the_cores(loss, m, X, target, there, best)


def _on_the_cores(
    loss: str, m: int, X: np.ndarray, target: np.ndarray, there: Any, card: float | None
) -> Result:
    n = len(X)
    with skout.memory_limits(coordinates_mb=HELD_MB):
        few = seconds_of(lambda: model(loss, m).fit(X[: n // 10], target[: n // 10]))
        whole = 10.0 * few[0] <= MOST_SECONDS
        spent, here = seconds_of(lambda: model(loss, m).fit(X, target)) if whole else few
    seconds = spent if whole else 10.0 * spent
    result = {"rows": "all cores", "seconds": seconds, "tenth_seconds": few[0]}
    result["extrapolated_from_rows"] = None if whole else n // 10
    result["times_slower_than_card"] = None if card is None else seconds / card
    result |= certificate(here)
    if whole:
        expected, found = (decision(one, X[:5000]) for one in (here, there))
        result["prediction_difference"] = difference(found, expected)
        result["objective_difference"] = abs(there.objective_ / here.objective_ - 1.0)
    return result


@contextmanager
def clocks() -> Iterator[dict[str, float]]:
    """Add up the seconds of the parts of a fit."""
    spent: dict[str, float] = {}

    def timed(name: str, function: Any) -> Any:
        def run(*args: Any, **options: Any) -> Any:
            seconds, result = seconds_of(lambda: function(*args, **options))
            spent[name] = spent.get(name, 0.0) + seconds
            return result

        return run

    cls = base.KernelMachineBase
    with (
        mock.patch.object(cls, "_read", timed("read", cls._read)),
        mock.patch.object(cls, "_fit_basis", timed("basis", cls._fit_basis)),
        mock.patch.object(cls, "_design", timed("coordinates", cls._design)),
        mock.patch.object(base, "solve_convex", timed("solve", base.solve_convex)),
        mock.patch.object(cls, "_as_predicted", timed("certificate", cls._as_predicted)),
    ):
        yield spent


def parts(n: int, m: int) -> Iterator[Result]:
    X, y, labels = make_data(n)
    for loss in ("huber", "pinball", "logistic"):
        with clocks() as spent:
            target = labels if loss == "logistic" else y
            fit = model(loss, m, device="cuda").fit
            total, _ = seconds_of(functools.partial(fit, X, target))
        yield {"what": "parts", "loss": loss, "n": n, "m": m, "seconds": total, **spent}
    Z = torch.randn(n, m, device="cuda", dtype=torch.float64)
    w, b = torch.rand(n, device="cuda", dtype=torch.float64), Z[:m, :1].clone()
    design = DesignMatrix(Device(Z))
    for name, function, flops in (
        ("gram", lambda: design.gram(w), n * m * m),
        ("product", lambda: design.product(b), 2 * n * m),
        ("adjoint", lambda: design.adjoint(w[:, None]), 2 * n * m),
        ("plain Z'Z", lambda: Z.T @ Z, 2 * n * m * m),
    ):
        function()
        seconds = min(seconds_of(function)[0] for _ in range(3))
        yield {
            "what": "products", "name": name, "seconds": seconds,
            "tflops": flops / seconds / 1e12, "gb_per_second": 8e-9 * n * m / seconds,
        }  # fmt: skip


def more(n: int, m: int) -> Iterator[Result]:
    X, y, labels = make_data(n)
    quantiles = JointQuantileRegressor(
        [0.1, 0.5, 0.9], Gaussian(GAMMA), SubSample(m), alpha=ALPHA, random_state=SEED,
        device="cuda",
    )  # fmt: skip
    single = X.astype(np.float32)
    cases = {
        "hinge": (model("hinge", m, device="cuda"), X, labels),
        "3 quantiles": (quantiles, X, y),
        "huber, float32 rows": (model("huber", m, device="cuda"), single, y),
        "huber, 3 alphas": (model("huber", m, device="cuda", alpha=[1e-7, 1e-6, 1e-5]), X, y),
    }
    for name, (estimator, rows, target) in cases.items():
        seconds, fitted = seconds_of(lambda e=estimator, r=rows, t=target: e.fit(r, t))
        result = {"what": "more", "case": name, "n": n, "m": m, "seconds": seconds}
        result["predict_seconds"] = seconds_of(lambda f=fitted, r=rows: f.predict(r))[0]
        yield result | certificate(fitted)


def stream(n: int, m: int) -> Iterator[Result]:
    X, y, _ = make_data(n)
    for limit in (None, 1000.0):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        with skout.memory_limits(coordinates_mb=limit, device_mb=512.0):
            seconds, fitted = seconds_of(lambda: model("huber", m, device="cuda").fit(X, y))
        yield {
            "what": "stream", "loss": "huber", "n": n, "m": m, "coordinates_mb": limit,
            "seconds": seconds, "card_gb": torch.cuda.max_memory_allocated() / 1e9,
        } | certificate(fitted)  # fmt: skip


PARTS = {"agree": agree, "speed": speed, "parts": parts, "more": more, "stream": stream}


def write(record: Result, quick: bool) -> None:
    if not quick:
        RECORDS.mkdir(exist_ok=True)
        text = json.dumps(record, indent=1) + "\n"
        (RECORDS / "machines_gpu.json").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, no record")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    n, m = (20_000, 100) if options.quick else (1_000_000, 1000)
    rate = gemm_rate(np.float64, 1024 if options.quick else 4096)
    record: Result = {
        "benchmark": "machines_gpu",
        "settings": {
            "gamma": GAMMA, "alpha": ALPHA, "d": D, "seed": SEED, "tol": TOL, "kappa": KAPPA,
            "tau": TAU, "host_gemm_gflops": rate / 1e9,
            "card": torch.cuda.get_device_name(0), "torch": torch.__version__,
        },
        **surroundings(),
        "results": [],
    }  # fmt: skip
    start = time.perf_counter()
    for name in options.part:
        if time.perf_counter() - start > BUDGET:
            print(f"{name} is left out: the time is over", flush=True)
            continue
        try:
            for result in PARTS[name](n, m):
                print(f"{time.perf_counter() - start:6.1f} s", result, flush=True)
                record["results"].append(result)
                write(record, options.quick)
        except Exception:
            error = traceback.format_exc()
            print(error, flush=True)
            record["results"].append({"what": name, "error": error.splitlines()[-1]})
            write(record, options.quick)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    warnings.simplefilter("default")
    main()
