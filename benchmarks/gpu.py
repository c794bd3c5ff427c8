"""KernelRidge and SISOKR on a card, against its own matrix-product rate, PyTorch and scikit-learn.

    python -m benchmarks.gpu [--quick] [--part fit stream agree curves rank peers]

fit     n = 10,000,000 x 50 on the card, m = 5,000: share of the rate of float64 products
stream  the same rows on the host, with less memory on the card than they take
agree   predictions of a fit here and of one on the CPU
curves  seconds against n, m, d and the number of outputs q, with slopes
rank    SISOKR on 1,000,000 rows, 10,000 queries among 160,000 candidates
peers   a plain PyTorch program on the same card; scikit-learn on all cores, smaller

A fit of n rows costs 2 n m d + n m^2 operations (kernel values, and half of Z'Z).
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import skout
from benchmarks.measure import RECORDS, fastest, print_table, surroundings
from skout import KernelRidge, sisokr
from skout.kernels import Gaussian, Tanimoto
from skout.sketches import SubSample

GAMMA, ALPHA, D, SEED = 0.01, 1e-5, 50, 0


def seconds(function: Callable[[], Any], repeats: int = 1) -> float:
    """Return the fastest of some runs, to the last operation on the card."""

    def run() -> None:
        function()
        torch.cuda.synchronize()

    return fastest(run, repeats)


def flops(n: int, m: int, d: int) -> float:
    return 2.0 * n * m * d + 1.0 * n * m * m


def card_gemm(dtype: Any, size: int = 8192) -> float:
    A = torch.randn(size, size, device="cuda", dtype=dtype)
    A @ A
    torch.cuda.synchronize()
    return 2.0 * size**3 / seconds(lambda: A @ A, 3)


def make_data(n: int, d: int = D, dtype: Any = torch.float64) -> tuple[Any, Any]:
    generator = torch.Generator("cuda").manual_seed(SEED)
    X = torch.randn(n, d, device="cuda", dtype=dtype, generator=generator)
    W = torch.randn(d, 1, device="cuda", dtype=dtype, generator=generator) / 5.0
    noise = torch.randn(n, 1, device="cuda", dtype=dtype, generator=generator)
    return X, (torch.tanh(X @ W) + 0.1 * noise)[:, 0]


def model(m: int, **options: Any) -> KernelRidge:
    return KernelRidge(Gaussian(GAMMA), SubSample(m), alpha=ALPHA, random_state=SEED, **options)


def fit(quick: bool, n: int, m: int) -> list[dict[str, Any]]:
    rate = card_gemm(torch.float64)
    X, y = make_data(n)
    model(m).fit(X[:20000], y[:20000])  # what is loaded once
    first = seconds(lambda: model(m).fit(X, y))
    print(f"first {first:.2f} s, {flops(n, m, D) / first / rate:.3f} of {rate:.3g}", flush=True)
    best = min(first, seconds(lambda: model(m).fit(X, y)))
    share = flops(n, m, D) / best / rate
    return [
        {
            "what": "fit", "n": n, "m": m, "d": D, "dtype": "float64", "seconds": best,
            "first_seconds": first, "gemm_tflops": rate / 1e12, "share_of_gemm": share,
            "gemm_float32_tflops": card_gemm(torch.float32) / 1e12,
        }
    ]  # fmt: skip


def stream(quick: bool, n: int, m: int) -> list[dict[str, Any]]:
    data = [make_data(n)]
    resident = min(seconds(lambda: model(m).fit(*data[0])) for _ in range(2))
    host, target = (part.cpu().numpy() for part in data.pop())
    gc.collect()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    budget = 0.85 * host.nbytes
    torch.cuda.set_per_process_memory_fraction(max(budget, 2.0e9) / total)
    torch.cuda.reset_peak_memory_stats()
    try:
        with skout.memory_limits(device_mb=512):
            streamed = min(
                seconds(lambda: model(m, device="cuda").fit(host, target)) for _ in range(2)
            )
        peak = torch.cuda.max_memory_reserved()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return [
        {
            "what": "stream", "n": n, "m": m, "data_gb": host.nbytes / 1e9,
            "budget_gb": max(budget, 2.0e9) / 1e9, "peak_gb": peak / 1e9, "seconds": streamed,
            "resident_seconds": resident, "speed_of_resident": resident / streamed,
        }
    ]  # fmt: skip


def agree(quick: bool, n: int, m: int) -> list[dict[str, Any]]:
    n, m = n // 100, m
    X, y = make_data(n)
    host, target = X.cpu().numpy(), y.cpu().numpy()
    rows = []
    for solver in ("direct", "auto"):  # auto may choose another way here than there
        card, here = model(m, solver=solver).fit(X, y), model(m, solver=solver).fit(host, target)
        theirs = here.predict(host[:5000])
        error = np.abs(card.predict(X[:5000]).cpu().numpy() - theirs).max() / np.abs(theirs).max()
        chosen = " and ".join(one.solver_report_["solver"] for one in (card, here))
        row = {"what": "agree", "n": n, "m": m, "solver": solver, "chosen": chosen}
        rows.append(row | {"relative_difference": float(error)})
    return rows


def curves(quick: bool, n: int, m: int) -> list[dict[str, Any]]:
    rows = []
    base = {"n": n // 5, "m": m // 2, "d": D, "q": 1}
    grids = {
        "n": [n // 40, n // 20, n // 10, n // 5],
        "m": [m // 8, m // 4, m // 2, m],
        "d": [10, 50, 250, 1000],
        "q": [1, 10, 100, 1000],
    }
    for axis, values in grids.items():
        for value in values:
            size = base | {axis: value}
            X, y = make_data(size["n"], size["d"])
            y = y[:, None].repeat(1, size["q"]) if size["q"] > 1 else y
            spent = seconds(lambda size=size, X=X, y=y: model(size["m"]).fit(X, y))
            rows.append({"what": "curve", "axis": axis, **size, "seconds": spent})
            del X, y
            torch.cuda.empty_cache()
        own = [row for row in rows if row["axis"] == axis][-3:]
        slope = np.polyfit(np.log([r[axis] for r in own]), np.log([r["seconds"] for r in own]), 1)
        rows[-1]["slope"] = float(slope[0])
    return rows


def rank(quick: bool, n: int, m: int) -> list[dict[str, Any]]:
    n, c, q = n // 10, 160000 if not quick else 2000, 10000 if not quick else 200
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n + q, D)).astype(np.float32)
    W = rng.standard_normal((D, 60)) / np.sqrt(D)
    Y = X @ W > 1.0
    pool = rng.random((c, 60)) < 0.16
    settings = {"input_sketch": SubSample(2000 if not quick else 100), "alpha": 1e-6,
                "output_sketch": SubSample(300 if not quick else 50)}  # fmt: skip
    predictor = sisokr(Gaussian(GAMMA), Tanimoto(), device="cuda", random_state=SEED, **settings)
    fitted = seconds(lambda: predictor.fit(X[:n], Y[:n].astype(np.float64)))
    embed = seconds(lambda: predictor.embed(pool.astype(np.float64)))
    embedded = predictor.embed(pool.astype(np.float64))
    ranked = seconds(lambda: predictor.rank(X[n:], embedded, k=10), 2)
    return [{"what": "rank", "n": n, "candidates": c, "queries": q, "fit_seconds": fitted,
             "embed_seconds": embed, "rank_seconds": ranked}]  # fmt: skip


def peers(quick: bool, n: int, m: int) -> list[dict[str, Any]]:
    rows = []
    n_torch, m_torch = n // 10, m
    X, y = make_data(n_torch)
    ours = min(seconds(lambda: model(m_torch).fit(X, y)) for _ in range(2))
    plain = min(seconds(lambda: plain_torch(X, y, m_torch)) for _ in range(2))
    rows.append({"what": "plain torch", "n": n_torch, "m": m_torch, "seconds": plain,
                 "ours": ours, "ratio": plain / ours})  # fmt: skip
    del X, y
    n_cpu, m_cpu = n // 50, m // 5
    X, y = (part.cpu().numpy() for part in make_data(n_cpu))
    there = make_data(n_cpu)
    nystroem = Nystroem(gamma=GAMMA, n_components=m_cpu, random_state=SEED)
    pipeline = make_pipeline(nystroem, Ridge(alpha=n_cpu * ALPHA, fit_intercept=False))
    theirs = fastest(lambda: pipeline.fit(X, y), 1)
    cpu = fastest(lambda: model(m_cpu).fit(X, y), 1)
    card = min(seconds(lambda: model(m_cpu).fit(*there)) for _ in range(2))
    rows.append({"what": "scikit-learn", "n": n_cpu, "m": m_cpu, "seconds": theirs,
                 "ours": card, "ratio": theirs / card, "skout on the CPU": cpu})  # fmt: skip
    return rows


def plain_torch(X: Any, y: Any, m: int) -> Any:
    """Nystrom ridge as one would write it down, with blocks so that it fits."""
    chosen = torch.randperm(len(X), generator=torch.Generator().manual_seed(SEED))[:m]
    L = X[chosen.to(X.device)]

    def kernel(A: Any) -> Any:
        return torch.exp(-GAMMA * torch.cdist(A, L) ** 2)

    values, U = torch.linalg.eigh(kernel(L))
    whiten = U / values.clamp_min(1e-12 * values[-1]).sqrt()
    zz = torch.zeros(m, m, device=X.device, dtype=X.dtype)
    zy = torch.zeros(m, device=X.device, dtype=X.dtype)
    for A, b in zip(X.split(50000), y.split(50000), strict=True):
        Z = kernel(A) @ whiten
        zz += Z.T @ Z
        zy += Z.T @ b
    zz += len(X) * ALPHA * torch.eye(m, device=X.device, dtype=X.dtype)
    return torch.linalg.solve(zz, zy)


PARTS = {"fit": fit, "agree": agree, "stream": stream, "rank": rank, "peers": peers,
         "curves": curves}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, no record")
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    options = parser.parse_args()
    n, m = (100000, 400) if options.quick else (10_000_000, 5000)
    results: list[dict[str, Any]] = []
    for part in options.part:
        found = PARTS[part](options.quick, n, m)
        gc.collect()
        torch.cuda.empty_cache()
        print_table(found, list(found[-1]))
        results += found
        if not options.quick:  # what is done stays, should the next part fail
            write(results)


def write(results: list[dict[str, Any]]) -> None:
    record = {"benchmark": "gpu", "settings": {"gamma": GAMMA, "alpha": ALPHA}} | surroundings()
    record["hardware"]["card"] = torch.cuda.get_device_name(0)
    record["versions"]["torch"] = torch.__version__
    RECORDS.mkdir(exist_ok=True)
    path = RECORDS / "gpu.json"
    path.write_text(json.dumps(record | {"results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
