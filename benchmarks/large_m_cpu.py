"""Many landmarks and exact kernel ridge on the CPU, as ratios within one run.

    python benchmarks/large_m_cpu.py [--sections landmarks exact] [--n 100000] [--m 10000]

landmarks  solver="auto" and "direct", and Falkon's conjugate gradient in plain NumPy: float32
exact      n = 20,000 rows without a sketch, against scikit-learn's KernelRidge, with peak memory

Programs run one after another in processes of their own, whose peak memory is measured.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from measure import RECORDS, surroundings

GAMMA, D, SEED, NOISE, TEST = 0.05, 20, 0, 1.4, 5000


def data(n: int, dtype: Any) -> tuple[np.ndarray, ...]:
    """Return rows and noisy targets, then those of the test."""
    rng = np.random.default_rng(SEED)
    w = rng.standard_normal((D, 5)) / 3.0
    X, Z = rng.standard_normal((n, D)), rng.standard_normal((TEST, D))
    y, t = (2.0 * np.sin(A @ w).sum(1) + NOISE * rng.standard_normal(len(A)) for A in (X, Z))
    return tuple(part.astype(dtype) for part in (X, y, Z, t))


def numpy_pcg(X: Any, y: Any, L: Any, alpha: float, steps: int = 20) -> Any:
    """Falkon's preconditioned conjugate gradient; factors in float64, blocks in float32."""
    from scipy.linalg import cholesky, solve_triangular

    n, m = len(X), len(L)

    def kernel(A: Any, B: Any) -> Any:
        K = A @ (2.0 * GAMMA * B.T).astype(A.dtype)
        K -= (GAMMA * (A * A).sum(1))[:, None]
        K -= GAMMA * (B * B).sum(1)
        return np.exp(np.minimum(K, 0.0, out=K), out=K)

    def product(v: Any, t: Any = None) -> Any:
        out = np.zeros(m)
        for i in range(0, n, 2000):
            K = kernel(X[i : i + 2000], L)
            out += K.T @ (K @ v if t is None else t[i : i + 2000])
        return out

    K = kernel(L.astype(np.float64), L.astype(np.float64))
    K[np.diag_indices(m)] += m * np.finfo(np.float64).eps
    T = cholesky(K, overwrite_a=True, check_finite=False)
    A = T @ T.T / m
    A[np.diag_indices(m)] += alpha
    A = cholesky(A, overwrite_a=True, check_finite=False)

    def solve(R: Any, v: Any, trans: int) -> Any:
        return solve_triangular(R, v, trans=trans, check_finite=False)

    def system(v: Any) -> Any:
        u = solve(A, v, 0)
        f = solve(T, product(solve(T, u, 0).astype(X.dtype)) / n, 1)
        return solve(A, f + alpha * u, 1)

    r = solve(A, solve(T, product(None, y) / n, 1), 1)
    x, p, rs = np.zeros(m), r.copy(), r @ r
    for _ in range(steps):
        q = system(p)
        a = rs / (p @ q)
        x += a * p
        r -= a * q
        rs, old = r @ r, rs
        p = r + (rs / old) * p
    c = solve(T, solve(A, x, 0), 0)
    return lambda Z: kernel(Z.astype(np.float64), L.astype(np.float64)) @ c


def run(program: str, n: int, m: int, alpha: float) -> dict[str, Any]:
    """Run one program here, and return what it took."""
    from skout import KernelRidge
    from skout.kernels import Gaussian
    from skout.sketches import SubSample

    X, y, Z, t = data(n, np.float32 if m else np.float64)
    options = {"alpha": alpha, "random_state": SEED}
    more: dict[str, Any] = {}
    if program == "pcg":
        model = KernelRidge(Gaussian(GAMMA), SubSample(m), **options)
        rng = np.random.default_rng(SEED)
        chosen = np.sort(rng.choice(n, m, replace=False))
        start = time.perf_counter()
        predict = numpy_pcg(X, y, X[chosen], alpha)
    elif program == "scikit-learn":
        from sklearn.kernel_ridge import KernelRidge as Theirs

        model = Theirs(alpha=n * alpha, kernel="rbf", gamma=GAMMA)
        start = time.perf_counter()
        predict = model.fit(X, y).predict
    else:
        sketch = SubSample(m) if m else None
        model = KernelRidge(Gaussian(GAMMA), sketch, solver=program, **options)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predict = model.fit(X, y).predict
        more["report"] = {k: v for k, v in model.solver_report_.items() if k != "costs"}
    spent = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    error = float(np.mean((np.asarray(predict(Z), dtype=float) - t) ** 2))
    return {"what": program, "n": n, "m": m, "alpha": alpha, "seconds": spent, "peak_mb": peak,
            "test_mse": error, **more}  # fmt: skip


def in_process(*arguments: Any) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"what": str(arguments[0]), "failed": done.stderr[-500:]}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sections", nargs="+", choices=["landmarks", "exact"],
                        default=["landmarks", "exact"])  # fmt: skip
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--m", type=int, default=10_000)
    parser.add_argument("--exact-n", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--child", nargs=4)
    options = parser.parse_args()
    if options.child:
        program, n, m, alpha = options.child
        print(json.dumps(run(program, int(n), int(m), float(alpha))))
        return
    results = []
    for section in options.sections:
        exact = section == "exact"
        programs = ["auto", "direct", "scikit-learn" if exact else "pcg"]
        for _ in range(options.repeats):
            for program in programs:
                size = (options.exact_n, 0, 1e-5) if exact else (options.n, options.m, 1e-7)
                results.append({"section": section} | in_process(program, *size))
                print(json.dumps(results[-1]), flush=True)
    if options.record:
        record = {"benchmark": "large_m_cpu", "settings": {"gamma": GAMMA, "d": D, "seed": SEED}}
        record |= surroundings() | {"results": results}
        (RECORDS / "large_m_cpu.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
