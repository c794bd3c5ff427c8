"""Figures 5.5 and C.7: how large must the output sketch be on ChEBI-20? Perfect h.

    python -m experiments.papers.figure_5_5 [--quick] [--draw]
    python -m experiments.papers.figure_5_5 --single  figure C.7 in single precision

Mol2vec vectors, the cosine kernel, Gaussian kernels of four widths as in the thesis, and the
whitened cosine of `text2mol.py`. The coordinates of 500 validation molecules stand in for the
predictions of a network (5.20); each is ranked among the distinct vectors of all 33,010 candidates.
Sketches of 1,500 training molecules, ten draws of each.

All sketches of a kernel lie in the span of the same 1,500 molecules. So each molecule is written
once in an orthonormal basis of that span, where the kernel is the inner product, and a draw costs
one product with a matrix of m_y columns.
"""

from __future__ import annotations

import itertools
import sys
from functools import partial
from typing import Any

import numpy as np

from experiments.common import figure_path, mean_sd
from experiments.papers.text2mol import ranks as ranks_of
from experiments.papers.text2mol_data import Problem
from experiments.pieces import Plan, Size, alone, joined, run_script
from skout import KernelBasis
from skout.kernels import Cosine, Gaussian
from skout.metrics import mean_reciprocal_rank
from skout.sketches import GaussianSketch, PSparsified, SubSample

SIZES = (25, 50, 100, 200, 400)
N_DRAWS, N_ROWS = 10, 1500
SKETCHES: dict[str, Any] = {
    "sub-sampling": SubSample, "Gaussian": GaussianSketch, "p-sparsified": PSparsified
}  # fmt: skip
KERNELS: dict[str, tuple[float, Any]] = {
    "cosine": (0.0, Cosine()),
    "whitened cosine": (0.25, Cosine()),
    **{f"Gaussian, gamma {g:g}": (0.0, Gaussian(g)) for g in (1e-9, 1e-6, 1e-3, 1.0)},
}
#: What the authors' program takes for 0 among the eigenvalues of the sketched Gram matrix, n / m K.
SMALL, N_PAPER = 1e-8, 26_408


def parts(white: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training molecules, candidates, validation molecules, and which candidate each is."""
    p = Problem(white)
    train = p.outputs[np.random.default_rng(0).permutation(p.train)[:N_ROWS]]
    pool, inverse = np.unique(np.vstack([p.pool, p.outputs[p.val]]), axis=0, return_inverse=True)
    known = np.unique(inverse[: len(p.pool)])  # candidates, each once
    asked = inverse[len(p.pool) :]
    if not np.isin(asked, known).all():
        raise ValueError("A validation molecule is not among the candidates.")
    return train, pool[known], p.outputs[p.val], np.searchsorted(known, asked)


def mrr(val: np.ndarray, pool: np.ndarray, truth: np.ndarray) -> float:
    """Return the MRR of coordinates among those of the candidates."""
    return float(mean_reciprocal_rank(ranks_of(val @ pool.T, truth, tie=0.0)))  # each once


def of_kernel(name: str, sizes: Any, draws: int) -> list[dict[str, Any]]:
    """Return the MRR of one kernel for each sketch and size, over draws."""
    white, kernel = KERNELS[name]
    *molecules, truth = parts(white)
    span = KernelBasis(kernel, random_state=0).fit(molecules[0])
    A, A_pool, A_val = (span.transform(rows) for rows in molecules)
    rows = []
    for sketch, m in itertools.product(SKETCHES, sizes):
        found = []
        for seed in range(draws):
            basis = KernelBasis("linear", SKETCHES[sketch](m), random_state=seed).fit(A)
            there = basis.transform(np.eye(A.shape[1]))
            found.append(mrr(A_val @ there, A_pool @ there, truth))
        rows.append({"kernel": name, "sketch": sketch, "m_y": m, "MRR": mean_sd(found)})
    return rows


def in_single(name: str, sizes: Any, draws: int) -> list[dict[str, Any]]:
    """Return the same by (5.7) and (5.8) in NumPy, where every number has single precision."""
    white, kernel = KERNELS[name]
    train, pool, val, truth = parts(white)
    K, K_pool, K_val = (kernel(rows, train).astype(np.float32) for rows in (train, pool, val))
    rows = []
    for sketch, m in itertools.product(SKETCHES, sizes):
        found = []
        for seed in range(draws):
            R = SKETCHES[sketch](m).draw(len(train), np.random.default_rng(seed)).toarray()
            R = R.astype(np.float32)
            U, d, _ = np.linalg.svd(np.float32(N_PAPER / m) * (R @ K @ R.T))
            there = R.T @ (U[:, d > SMALL] / np.sqrt(d[d > SMALL]))
            found.append(mrr(K_val @ there, K_pool @ there, truth))
        rows.append({"kernel": name, "sketch": sketch, "m_y": m, "MRR": mean_sd(found)})
    return rows


def plan(size: Size, single: bool = False) -> Plan:
    quick = size == "quick"
    sizes, draws = (SIZES[:2], 2) if quick else (SIZES, 3 if size == "brief" else N_DRAWS)
    names = [name for name in KERNELS if name.startswith("Gaussian") or not single]
    run = in_single if single else of_kernel
    pieces = {name: alone(run, name, sizes, draws) for name in names[: 1 if quick else None]}
    settings = {"sizes": sizes, "draws": draws, "rows": N_ROWS, "quick": quick}
    if single:
        return Plan("figure_5_5_single", settings, pieces, joined)
    return Plan("figure_5_5", settings, pieces, joined, lambda record: draw(record["results"]))


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(9.5, 3.2), sharey=True, layout="constrained")
    for ax, sketch in zip(axes, SKETCHES, strict=True):
        for name in KERNELS:
            own = [row for row in rows if row["kernel"] == name and row["sketch"] == sketch]
            ax.plot([row["m_y"] for row in own], [row["MRR"][0] for row in own], "o-", label=name)
        ax.set(title=sketch, xlabel="sketch size m_y", xscale="log")
        ax.set_xticks(SIZES, [str(m) for m in SIZES])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("MRR with perfect h")
    axes[-1].legend(fontsize=7)
    fig.savefig(figure_path("figure_5_5.png"), dpi=150)


if __name__ == "__main__":
    single = "--single" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--single"]
    run_script(__doc__, partial(plan, single=single), ["kernel", "sketch", "m_y", "MRR"])
