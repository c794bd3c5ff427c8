"""Structured prediction: bibtex against the formulas as they stand, and decoding of large pools.

    python -m benchmarks.structured [--quick] [--part bibtex pool]

bibtex  Fit and predict of IOKR, SIOKR, ISOKR and SISOKR, in float64, against a plain NumPy
        transcription of (2.33) and (4.10)-(4.11): full Gram matrices, dense inputs, `inv`.
pool    Ten best of 1,000,000 candidates for 1,000 queries, against the rate of a matrix product.

Ratios are of seconds in one run, those of bibtex medians of five; run it on a quiet machine. bibtex
needs the folder SKOUT_DATA.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import (
    fastest,
    gemm_rate,
    measure,
    peak_megabytes,
    print_table,
    write_record,
)
from skout import iokr
from skout.datasets import load
from skout.decoding.search import top_k
from skout.kernels import Gaussian
from skout.metrics import example_f1
from skout.sketches import PSparsified, SubSample

M_X, M_Y = 2250, 200
# alpha, s_x and s_y of exp(-||x - x'||^2 / (2 s)): the choice of papers/table_4_2.py for ISOKR
ALPHA, S_X, S_Y = 1e-5, 1e2, 1e4


# The formulas as they stand --------------------------------------------------------------------


def gaussian(A: np.ndarray, B: np.ndarray, s: float) -> np.ndarray:
    squares = np.sum(A**2, axis=1)[:, None] + np.sum(B**2, axis=1) - 2.0 * A @ B.T
    return np.exp(-squares / (2.0 * s))


def p_sparsified(m: int, n: int, rng: np.random.Generator) -> np.ndarray:
    p = 20.0 / n
    return (rng.random((m, n)) < p) * rng.standard_normal((m, n)) / np.sqrt(m * p)


def sub_sampling(m: int, n: int, rng: np.random.Generator) -> np.ndarray:
    R = np.zeros((m, n))
    R[np.arange(m), rng.choice(n, m, replace=False)] = np.sqrt(n / m)
    return R


def transcription(method: str, X: np.ndarray, Y: np.ndarray, X_test: np.ndarray) -> Any:
    """Return the predictions, and the seconds of fit and of predict."""
    n, rng = len(X), np.random.default_rng(0)
    start = time.perf_counter()
    K_X, K_Y = gaussian(X, X, S_X), gaussian(Y, Y, S_Y)
    R_X = np.eye(0)
    if method in ("SIOKR", "SISOKR"):
        draw = sub_sampling if method == "SISOKR" else p_sparsified
        R_X = draw(M_X, n, rng)
        KR = K_X @ R_X.T
        # R (R K^2 R' + n lambda R K R')^-1 R K (4.10)
        omega = np.linalg.inv(KR.T @ KR + n * ALPHA * R_X @ KR + 1e-9 * np.eye(M_X)) @ KR.T
    else:
        omega = np.linalg.inv(K_X + n * ALPHA * np.eye(n))  # (2.33)
    if method in ("ISOKR", "SISOKR"):
        R_Y = p_sparsified(M_Y, n, rng)
        KR_Y = K_Y @ R_Y.T
        omega = omega @ KR_Y @ np.linalg.pinv(R_Y @ KR_Y)  # (4.11)
        K_Y = KR_Y.T
    fitted = time.perf_counter()
    K_test = gaussian(X_test, X, S_X)
    if len(R_X):
        K_test = K_test @ R_X.T
    found = Y[np.argmax(K_test @ omega @ K_Y, axis=1)]
    return found, fitted - start, time.perf_counter() - fitted


def library(method: str, X: Any, Y: np.ndarray, X_test: Any) -> Any:
    """Return the predictions, and the seconds of fit and of predict."""
    outputs = PSparsified(M_Y, distribution="gaussian")
    sketches = {
        "IOKR": (None, None),
        "SIOKR": (PSparsified(M_X, distribution="gaussian"), None),
        "ISOKR": (None, outputs),
        "SISOKR": (SubSample(M_X), outputs),
    }[method]
    model = iokr(
        Gaussian(0.5 / S_X),
        Gaussian(0.5 / S_Y),
        input_sketch=sketches[0],
        output_sketch=sketches[1],
        alpha=ALPHA,
        random_state=0,
    )
    start = time.perf_counter()
    model.fit(X, Y)
    fitted = time.perf_counter()
    found = model.predict(X_test)
    return found, fitted - start, time.perf_counter() - fitted


def bibtex(repeats: int) -> list[dict[str, Any]]:
    """Time the four methods, both ways."""
    data = load("bibtex")
    (X, Y), (X_test, Y_test) = data.train, data.test
    Y, Y_test = Y.astype(np.float64), Y_test.astype(np.float64)  # products of integers are slow
    rows = []
    for method in ("IOKR", "SIOKR", "ISOKR", "SISOKR"):
        row: dict[str, Any] = {"method": method}
        sides: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            "plain": (transcription, (X.toarray(), Y, X_test.toarray())),
            "skout": (library, (X, Y, X_test)),
        }
        runs: dict[str, list[Any]] = {name: [] for name in sides}
        for _ in range(repeats):  # in turn, so that a slow minute meets both
            for name, (function, arguments) in sides.items():
                runs[name].append(function(method, *arguments))
        totals = {name: [fit + predict for _, fit, predict in runs[name]] for name in sides}
        for name, (function, arguments) in sides.items():
            middle = np.argsort(totals[name])[repeats // 2]
            found, fit, predict = runs[name][middle]
            row |= {f"{name} fit": fit, f"{name} predict": predict}
            row[f"{name} f1"] = 100.0 * example_f1(Y_test, found)
            megabytes = peak_megabytes(partial(function, method, *arguments))
            row[f"{name} MB"] = round(megabytes)
        rows.append(
            row | {"times faster": float(np.median(np.divide(totals["plain"], totals["skout"])))}
        )
    return rows


# Decoding --------------------------------------------------------------------------------------


def pool(n_candidates: int, n_queries: int, p: int = 200, k: int = 10) -> list[dict[str, Any]]:
    """Search a pool that is embedded already; compare with a product of the same size."""
    rng = np.random.default_rng(0)
    embedding = rng.standard_normal((n_candidates, p + 1))
    queries = rng.standard_normal((n_queries, p + 1))
    run = measure(lambda: top_k(queries, embedding, k), repeats=2)
    some = slice(0, 8192)
    product = fastest(lambda: queries @ embedding[some].T)
    rate = 2.0 * n_queries * 8192 * (p + 1) / product
    square = gemm_rate(np.float64)
    flops = 2.0 * n_queries * n_candidates * (p + 1)
    check = rng.choice(n_queries, 20, replace=False)
    brute = np.argsort(-(queries[check] @ embedding.T), axis=1, kind="stable")[:, :k]
    return [
        {
            "candidates": n_candidates,
            "queries": n_queries,
            "p": p,
            "k": k,
            "seconds": run.seconds,
            "MB above": round(run.megabytes),
            "GFlop/s": flops / run.seconds / 1e9,
            "share of GEMM": flops / run.seconds / square,
            "share of this product": flops / run.seconds / rate,
            "equal to brute force": bool(np.array_equal(run.result[0][check], brute)),
        }
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes; no record")
    parser.add_argument("--part", nargs="+", default=["bibtex", "pool"])
    options = parser.parse_args()
    quick = options.quick
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "bibtex": lambda: bibtex(1 if quick else 5),
        "pool": lambda: pool(100_000 if quick else 1_000_000, 200 if quick else 1000),
    }
    for part in options.part:
        rows = parts[part]()
        print_table(rows, list(rows[0]))
        if not quick:
            settings = {"alpha": ALPHA, "s_x": S_X, "s_y": S_Y, "m_x": M_X, "m_y": M_Y}
            write_record(f"structured_{part}", settings if part == "bibtex" else {}, rows)


if __name__ == "__main__":
    main()
