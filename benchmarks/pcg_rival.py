"""Falkon's preconditioned conjugate gradient in plain PyTorch: the rival of benchmarks/large_m.py.

Kernel blocks in the precision of the rows, a fused distance, the preconditioner in float64 as long
as it fits (float32 beyond), blocks as large as memory likes. The same landmarks as ours.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["pcg"]


def pcg(
    X: Any, y: Any, L: Any, gamma: float, alpha: float, steps: int = 20, block: int = 0
) -> tuple[Any, Any]:
    """Return the coefficients of the kernel at the landmarks L, and the prediction function."""
    n, m = len(X), len(L)
    block = block or max(1024, 2**29 // m)
    inner = torch.float64 if m <= 50000 else torch.float32

    def kernel(A: Any, B: Any) -> Any:
        K = torch.addmm(-gamma * (B * B).sum(1), A, B.T, alpha=2.0 * gamma)
        K += (-gamma * (A * A).sum(1))[:, None]
        return K.clamp_(max=0.0).exp_()

    def product(v: Any, t: Any = None) -> Any:
        out = torch.zeros(m, dtype=torch.float64, device=X.device)
        for i in range(0, n, block):
            K = kernel(X[i : i + block], L)
            out += K.T.mv(K.mv(v) if t is None else t[i : i + block]).to(torch.float64)
        return out

    K = kernel(L.to(inner), L.to(inner))
    K.diagonal().add_(m * torch.finfo(inner).eps * 10)
    T = torch.linalg.cholesky(K, upper=True)
    if inner == torch.float32:  # there is no room for both
        del K
    A = T @ T.T
    A /= m
    A.diagonal().add_(alpha)
    A = torch.linalg.cholesky(A, upper=True)

    def solve(R: Any, v: Any, transposed: bool) -> Any:
        R = R.T if transposed else R
        v = torch.linalg.solve_triangular(R, v.to(inner)[:, None], upper=not transposed)
        return v[:, 0].to(torch.float64)

    def system(v: Any) -> Any:  # A^-T T^-T (K_nm'K_nm / n + alpha K) T^-1 A^-1 v
        u = solve(A, v, False)
        c = solve(T, u, False)
        f = solve(T, product(c.to(X.dtype)) / n, True)
        return solve(A, f + alpha * u, True)

    r = solve(A, solve(T, product(None, y) / n, True), True)
    x, p, rs = torch.zeros_like(r), r.clone(), r @ r
    for _ in range(steps):
        q = system(p)
        a = rs / (p @ q)
        x += a * p
        r -= a * q
        rs, old = r @ r, rs
        p = r + (rs / old) * p
    c = solve(T, solve(A, x, False), False)

    def predict(Z: Any) -> Any:
        parts = Z.to(torch.float64).split(block)
        return torch.cat([kernel(part, L.to(torch.float64)) @ c for part in parts])

    return c, predict
