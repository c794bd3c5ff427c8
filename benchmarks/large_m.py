"""Many landmarks and exact kernel ridge on a card, against plain PyTorch in the same run.

    python -m benchmarks.large_m [--sections NAME ...] [--n 1000000] [--device cuda]

gemm       rate of matrix products
m2000      500,000 rows of 40 columns, float32: the same as the next
m5000 m20000 m40000 m100000
           n rows of 20 columns: the direct solution (share of the rate of products), solver="auto",
           and Falkon's conjugate gradient in plain PyTorch (pcg_rival.py); test errors of all
ten        10,000,000 x 50, m = 5,000, float64: share of the rate of products
exact200k exact1m
           sketch=None, to a relative residual of 1e-4
precision  F'F of 5,000 features in float64, float32, TF32 and TF32 of two parts: seconds, error,
           and the test error of the ridge that is solved with it

Each section is added to benchmarks/records/large_m.json as soon as it is done; one that fails says
why there. `--scale 0.001 --device cpu` tries it all on a machine without a card.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import time
import traceback
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.measure import RECORDS, surroundings
from benchmarks.pcg_rival import pcg
from skout import KernelRidge
from skout.kernels import Gaussian
from skout.sketches import SubSample

GAMMA, ALPHA, D, SEED, TEST = 0.05, 1e-7, 20, 0, 20000
NOISE = 1.4


class Bench:
    """The settings of a run, and what it found."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.cuda = options.device == "cuda"
        self.where = torch.device("cuda", 0) if self.cuda else torch.device("cpu")
        self.rates: dict[str, float] = {}
        self.landmark_errors: dict[int, float] = {}

    def size(self, count: int) -> int:
        return max(60, int(count * self.options.scale))

    def clean(self) -> None:
        gc.collect()
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def seconds(self, function: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
        """Return the fastest of some runs, to the last operation, and the last result."""
        best, found = np.inf, None
        for _ in range(repeats):
            found = None
            self.clean()
            start = time.perf_counter()
            found = function()
            if self.cuda:
                torch.cuda.synchronize()
            best = min(best, time.perf_counter() - start)
        return best, found

    def rate(self, dtype: Any) -> float:
        name = str(dtype)
        if name not in self.rates:
            size = 8192 if self.cuda else 512
            A = torch.randn(size, size, device=self.where, dtype=dtype)
            A @ A
            self.rates[name] = 2.0 * size**3 / self.seconds(lambda: A @ A, 3)[0]
        return self.rates[name]

    def data(self, n: int, d: int = D, dtype: Any = torch.float32) -> tuple[Any, ...]:
        """Return rows and noisy targets, then those of the test."""
        make = torch.Generator(self.where).manual_seed(SEED)
        options: dict[str, Any] = {"device": self.where, "dtype": torch.float64, "generator": make}
        w = torch.randn(d, 5, **options) / 3.0
        X, Z = torch.randn(n, d, **options), torch.randn(self.size(TEST), d, **options)
        y, t = (
            2.0 * torch.sin(A @ w).sum(1) + NOISE * torch.randn(len(A), **options) for A in (X, Z)
        )
        return tuple(part.to(dtype) for part in (X, y, Z, t))

    def given(self, tensor: Any) -> Any:
        """Return what is given to skout: tensors that lie on the card."""
        return tensor if self.cuda else tensor.numpy()

    def model(self, m: int | None, **options: Any) -> KernelRidge:
        sketch = None if m is None else SubSample(m)
        device = None if self.cuda and m is not None else "cuda"
        options = {"alpha": ALPHA, "random_state": SEED, "device": device} | options
        return KernelRidge(Gaussian(GAMMA), sketch, **options)

    def fit(self, model: KernelRidge, X: Any, y: Any) -> KernelRidge:
        return model.fit(self.given(X), self.given(y))

    def error(self, predicted: Any, truth: Any) -> float:
        predicted = torch.as_tensor(predicted).to(truth.device, torch.float64)
        return float(((predicted - truth.to(torch.float64)) ** 2).mean())

    def peak(self) -> float:
        return torch.cuda.max_memory_allocated() / 1e9 if self.cuda else 0.0


def gemm(bench: Bench) -> list[dict[str, Any]]:
    found = {str(t).split(".")[1]: bench.rate(t) / 1e12 for t in (torch.float64, torch.float32)}
    return [{"what": "gemm, TFLOP/s", **found}]


def landmarks(
    bench: Bench, m: int, direct: bool, repeats: int, n: int = 0, d: int = D
) -> list[dict[str, Any]]:
    """Compare the solvers at one number of landmarks."""
    n, m = bench.size(n or bench.options.n), bench.size(m)
    rows: list[dict[str, Any]] = []

    def add(what: str, spent: float, error: float, **more: Any) -> None:
        row = {"what": what, "n": n, "m": m, "d": d, "seconds": spent, "test_mse": error,
               "peak_gb": bench.peak()} | more  # fmt: skip
        print(json.dumps(row), flush=True)
        rows.append(row)
        if bench.cuda:
            torch.cuda.reset_peak_memory_stats()

    X, y, Z, t = bench.data(n, d)
    warm = min(n, 4 * m)
    flops = 2.0 * n * m * d + 1.0 * n * m * m
    for solver in ["cg"] + ["direct"] * direct:  # what is loaded and compiled once
        bench.fit(bench.model(bench.size(2100), solver=solver), X[:warm], y[:warm])
    spent, ours = bench.seconds(lambda: bench.fit(bench.model(m), X, y), repeats)
    report = {k: v for k, v in ours.solver_report_.items() if k != "costs"}
    add("skout auto", spent, bench.error(ours.predict(bench.given(Z)), t), dtype="float32",
        report=report)  # fmt: skip
    if report["solver"] != "cg":
        cg = lambda: bench.fit(bench.model(m, solver="cg"), X, y)  # noqa: E731
        spent, found = bench.seconds(cg, repeats)
        report = {k: v for k, v in found.solver_report_.items() if k != "costs"}
        add("skout cg", spent, bench.error(found.predict(bench.given(Z)), t), dtype="float32",
            report=report)  # fmt: skip
    chosen = torch.as_tensor(np.ascontiguousarray(ours.landmarks_)).to(X)
    del ours
    rival = lambda: pcg(X, y, chosen, GAMMA, ALPHA)  # noqa: E731
    try:
        spent, (_, predict) = bench.seconds(rival, repeats)
        add("plain PCG", spent, bench.error(predict(Z), t), dtype="float32", steps=20)
        del predict
    except RuntimeError as error:  # out of memory
        rows.append({"what": "plain PCG", "n": n, "m": m, "failed": str(error)[:300]})
        print(rows[-1], flush=True)
    bench.clean()
    for dtype in (torch.float32, torch.float64) if direct else ():
        if dtype == torch.float64 and m > bench.size(20000):
            continue
        A, b = X.to(dtype), y.to(dtype)
        spent, found = bench.seconds(
            lambda A=A, b=b: bench.fit(bench.model(m, solver="direct"), A, b), repeats
        )
        error = bench.error(found.predict(bench.given(Z.to(dtype))), t)
        shares = {str(k): flops / spent / bench.rate(k) for k in (torch.float64, torch.float32)}
        add("skout direct", spent, error, dtype=str(dtype), share_of_gemm=shares,
            report={k: v for k, v in found.solver_report_.items() if k != "costs"})  # fmt: skip
        bench.landmark_errors[m] = error
        del found, A, b
        bench.clean()
    best = {row["what"]: row for row in rows if "seconds" in row}
    if "plain PCG" in best:
        pcg_row, our_row = best["plain PCG"], best["skout auto"]
        truth = best.get("skout direct", pcg_row)
        rows.append({
            "what": "ratios", "m": m,
            "times faster than PCG": pcg_row["seconds"] / our_row["seconds"],
            "error over that of the direct solution": our_row["test_mse"] / truth["test_mse"],
            "PCG's": pcg_row["test_mse"] / truth["test_mse"],
        })  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    return rows


def ten(bench: Bench) -> list[dict[str, Any]]:
    n, m, d, gamma, alpha = bench.size(10_000_000), bench.size(5000), 50, 0.01, 1e-5
    make = torch.Generator(bench.where).manual_seed(SEED)
    options: dict[str, Any] = {"device": bench.where, "dtype": torch.float64, "generator": make}
    X = torch.randn(n, d, **options)
    y = torch.tanh(X @ torch.randn(d, **options) / 5.0) + 0.1 * torch.randn(n, **options)
    model = lambda: bench.fit(  # noqa: E731
        bench.model(m, solver="direct", alpha=alpha).set_params(kernel=Gaussian(gamma)), X, y
    )
    bench.fit(bench.model(m, solver="direct"), X[: 4 * m], y[: 4 * m])
    spent, found = bench.seconds(model, 2)
    share = (2.0 * n * m * d + 1.0 * n * m * m) / spent / bench.rate(torch.float64)
    return [{"what": "ten million rows", "n": n, "m": m, "d": d, "dtype": "float64",
             "seconds": spent, "share_of_gemm": share, "whitened":
             found.solver_report_.get("whitened"), "peak_gb": bench.peak()}]  # fmt: skip


def exact(bench: Bench, n: int, max_iter: int) -> list[dict[str, Any]]:
    n = bench.size(n)
    X, y, Z, t = bench.data(n)
    settings = {"solver": "cg", "tol": 1e-4, "max_iter": max_iter}
    model = bench.model(None, alpha=bench.options.exact_alpha, **settings)
    spent, found = bench.seconds(lambda: bench.fit(model, X, y))
    report = {k: v for k, v in found.solver_report_.items() if k != "costs"}
    row = {"what": "exact", "n": n, "alpha": bench.options.exact_alpha, "seconds": spent,
           "report": report, "peak_gb": bench.peak()}  # fmt: skip
    print(json.dumps(row), flush=True)
    row["test_mse"] = bench.error(found.predict(bench.given(Z)), t)
    row["test_mse with landmarks"] = {str(m): e for m, e in bench.landmark_errors.items()}
    return [row]


def in_two_parts(F: Any) -> Any:
    """Return F'F by TF32 products of F = high + low, high having the bits that TF32 keeps."""
    high = (F.view(torch.int32) & -8192).view(torch.float32)
    mixed = high.T @ (F - high)
    return (high.T @ high).add_(mixed).add_(mixed.T)


def precision(bench: Bench) -> list[dict[str, Any]]:
    """Compare the precisions in which F'F may be summed, and the solutions they lead to."""
    n, m = bench.size(200_000), bench.size(5000)
    X, y, Z, t = bench.data(n, dtype=torch.float64)
    L, y, rows, truth = X[:m], y[:, None], [], None

    def features(A: Any) -> Any:
        return torch.exp(-GAMMA * torch.cdist(A, L).square_())

    K, test = features(L), features(Z)
    right = sum(features(A).T @ b for A, b in zip(X.split(20000), y.split(20000), strict=True))
    ways = {
        "float64": (torch.float64, False, lambda F: F.T @ F),
        "float32": (torch.float32, False, lambda F: F.T @ F),
        "TF32": (torch.float32, True, lambda F: F.T @ F),
        "TF32 of two parts": (torch.float32, True, in_two_parts),
    }
    for name, (dtype, tf32, product) in ways.items():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        F = features(X[: 4 * m]).to(dtype)
        product(F)
        spent, _ = bench.seconds(lambda F=F, product=product: product(F), 3)
        gram = torch.zeros_like(K)
        for A in X.split(20000):
            gram += product(features(A).to(dtype))
        torch.backends.cuda.matmul.allow_tf32 = False
        truth = gram if truth is None else truth
        row = {"what": name, "n": n, "m": m, "seconds of 4 m rows": spent,
               "error of F'F": float((gram - truth).norm() / truth.norm())}  # fmt: skip
        for alpha in (1e-3, 1e-5, ALPHA):
            factor, info = torch.linalg.cholesky_ex(gram + n * alpha * K)
            coef = torch.cholesky_solve(right, factor)
            row[f"test_mse, alpha {alpha:g}"] = (
                None if int(info) else bench.error((test @ coef)[:, 0], t)
            )
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


SECTIONS: dict[str, Callable[[Bench], list[dict[str, Any]]]] = {
    "gemm": gemm,
    "m2000": lambda bench: landmarks(bench, 2000, False, 3, n=500_000, d=40),
    "m5000": lambda bench: landmarks(bench, 5000, True, 2),
    "m20000": lambda bench: landmarks(bench, 20000, True, 1),
    "m40000": lambda bench: landmarks(bench, 40000, True, 1),
    "ten": ten,
    "exact200k": lambda bench: exact(bench, 200_000, 300),
    "m100000": lambda bench: landmarks(bench, 100_000, False, 1),
    "precision": precision,
    "exact1m": lambda bench: exact(bench, 1_000_000, bench.options.exact_steps),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sections", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes, to try it out")
    parser.add_argument("--exact-alpha", type=float, default=1e-6)
    parser.add_argument("--exact-steps", type=int, default=90)
    parser.add_argument("--out", default=str(RECORDS / "large_m.json"))
    options = parser.parse_args()
    bench, start = Bench(options), time.perf_counter()
    with contextlib.ExitStack() as stack:
        if not bench.cuda:  # the same engine, on the CPU
            where = "skout.rows.device.torch_device"
            stack.enter_context(mock.patch(where, return_value=bench.where))
        for name in options.sections:
            begun = time.perf_counter()
            try:
                found = SECTIONS[name](bench)
            except Exception as error:
                found = [{"failed": repr(error)[:500], "at": traceback.format_exc()[-1500:]}]
            bench.clean()
            now = time.perf_counter()
            entry = {"section": name, "seconds": now - begun, "results": found}
            write(options, bench, entry)
            print(f"{name}: {now - begun:.1f} s, {now - start:.1f} s in all", flush=True)


def write(options: argparse.Namespace, bench: Bench, entry: dict[str, Any]) -> None:
    """Add a section to the record, in the place of an earlier run of it."""
    from pathlib import Path

    path = Path(options.out)
    record = json.loads(path.read_text()) if path.exists() else {"sections": []}
    record |= {"benchmark": "large_m"} | surroundings()
    settings = {"gamma": GAMMA, "alpha": ALPHA, "d": D, "noise": NOISE, "seed": SEED}
    record["settings"] = settings | {"n": options.n, "scale": options.scale}
    record["versions"]["torch"] = torch.__version__
    if bench.cuda:
        record["hardware"]["card"] = torch.cuda.get_device_name(0)
    record["sections"] = [s for s in record["sections"] if s["section"] != entry["section"]]
    record["sections"].append(entry)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
