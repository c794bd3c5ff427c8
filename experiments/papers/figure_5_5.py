"""Figures 5.5 and C.7: how large must the output sketch be on ChEBI-20? Perfect h.

    python -m experiments.papers.figure_5_5 [--quick] [--draw]
    python -m experiments.papers.figure_5_5 --single  two widths in single precision, as on a card

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
#: Kernels whose values are made in single precision, as on a card.
SINGLE = {f"{name}, float32": KERNELS[name] for name in list(KERNELS)[2:4]}


def of_kernel(name: str, sizes: Any, draws: int) -> list[dict[str, Any]]:
    """Return the MRR of one kernel for each sketch and size, over draws."""
    white, kernel = (KERNELS | SINGLE)[name]
    p = Problem(white)
    if name in SINGLE:
        p.outputs, p.pool = p.outputs.astype(np.float32), p.pool.astype(np.float32)
    train = p.outputs[np.random.default_rng(0).permutation(p.train)[:N_ROWS]]
    pool, inverse = np.unique(np.vstack([p.pool, p.outputs[p.val]]), axis=0, return_inverse=True)
    known = np.unique(inverse[: len(p.pool)])  # candidates, each once
    asked = inverse[len(p.pool) :]
    if not np.isin(asked, known).all():
        raise ValueError("A validation molecule is not among the candidates.")
    truth = np.searchsorted(known, asked)
    span = KernelBasis(kernel, random_state=0).fit(train)
    A, A_pool, A_val = (span.transform(some) for some in (train, pool[known], p.outputs[p.val]))
    rows = []
    for sketch, m in itertools.product(SKETCHES, sizes):
        found = []
        for seed in range(draws):
            basis = KernelBasis("linear", SKETCHES[sketch](m), random_state=seed).fit(A)
            there = basis.transform(np.eye(A.shape[1]))
            ranks = ranks_of(A_val @ there @ (A_pool @ there).T, truth, tie=0.0)  # each once
            found.append(float(mean_reciprocal_rank(ranks)))
        rows.append({"kernel": name, "sketch": sketch, "m_y": m, "MRR": mean_sd(found)})
    return rows


def plan(size: Size) -> Plan:
    quick = size == "quick"
    sizes, draws = (SIZES[:2], 2) if quick else (SIZES, N_DRAWS)
    names = list(KERNELS)[:1] if quick else list(KERNELS)
    pieces = {name: alone(of_kernel, name, sizes, draws) for name in names}
    settings = {"sizes": sizes, "draws": draws, "rows": N_ROWS, "quick": quick}
    return Plan("figure_5_5", settings, pieces, joined, lambda record: draw(record["results"]))


def plan_single(size: Size) -> Plan:
    """Return the run in single precision."""
    quick = size == "quick"
    sizes, draws = (SIZES[:2], 2) if quick else (SIZES, N_DRAWS)
    pieces = {name: alone(of_kernel, name, sizes, draws) for name in SINGLE}
    settings = {"sizes": sizes, "draws": draws, "rows": N_ROWS, "quick": quick}
    return Plan("figure_5_5_single", settings, pieces, joined)


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
    chosen = plan_single if "--single" in sys.argv else plan
    sys.argv = [word for word in sys.argv if word != "--single"]
    run_script(__doc__, chosen, ["kernel", "sketch", "m_y", "MRR"])
