"""Figures 5.5 and C.7: how large must the output sketch be on ChEBI-20? Perfect h.

    python experiments/figure_5_5.py [--quick] [--draw]

Mol2vec vectors, the cosine kernel, Gaussian kernels of four widths as in the thesis, and the
whitened cosine of `text2mol.py`, whose `prepare` must have run. The coordinates of 500 validation
molecules stand in for the predictions of a network (5.20); each is ranked among the distinct
vectors of all 33,010 candidates. Sketches of 1,500 training molecules, two draws of each.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from common import FIGURES, mean_sd, print_table, read_record, write_record
from text2mol import Problem
from tqdm import tqdm

from skout import KernelBasis
from skout.decoding import CandidateDecoder
from skout.kernels import Cosine, Gaussian
from skout.metrics import mean_reciprocal_rank
from skout.sketches import GaussianSketch, PSparsified, SubSample

SIZES = (25, 50, 100, 200, 400)
N_DRAWS, N_ROWS = 2, 1500
SKETCHES: dict[str, Any] = {
    "sub-sampling": SubSample, "Gaussian": GaussianSketch, "p-sparsified": PSparsified
}  # fmt: skip
KERNELS: dict[str, tuple[float, Any]] = {
    "cosine": (0.0, Cosine()),
    "whitened cosine": (0.25, Cosine()),
    **{f"Gaussian, gamma {g:g}": (0.0, Gaussian(g)) for g in (1e-9, 1e-6, 1e-3, 1.0)},
}


def run(quick: bool) -> list[dict[str, Any]]:
    problems = {white: Problem(white) for white in {white for white, _ in KERNELS.values()}}
    rows = []
    for name, (white, kernel) in tqdm(KERNELS.items(), desc="kernels"):
        p = problems[white]
        rng = np.random.default_rng(0)
        train = p.outputs[rng.permutation(p.train)[:N_ROWS]]
        pool = np.unique(p.pool, axis=0)
        truth = p.outputs[p.val]
        for sketch, kind in SKETCHES.items():
            for m in SIZES[:2] if quick else SIZES:
                found = [mrr(kernel, kind(m), seed, train, truth, pool) for seed in range(N_DRAWS)]
                rows.append({"kernel": name, "sketch": sketch, "m_y": m, "MRR": mean_sd(found)})
    return rows


def mrr(
    kernel: Any, sketch: Any, seed: int, train: np.ndarray, truth: np.ndarray, pool: np.ndarray
) -> float:
    basis = KernelBasis(kernel, sketch, random_state=seed).fit(train)
    decoder = CandidateDecoder().fit(basis, train[:2])
    ranks = decoder.truth_ranks(basis.transform(truth), truth, decoder.embed(pool))
    return float(mean_reciprocal_rank(ranks))


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
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("MRR with perfect h")
    axes[-1].legend(fontsize=7)
    FIGURES.mkdir(exist_ok=True)
    fig.savefig(FIGURES / "figure_5_5.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two sizes, no record")
    parser.add_argument("--draw", action="store_true", help="draw the record again")
    options = parser.parse_args()
    if options.draw:
        draw(read_record("figure_5_5")["results"])
        return
    rows = run(options.quick)
    print_table(rows, list(rows[0]))
    if not options.quick:
        settings = {"sizes": SIZES, "draws": N_DRAWS, "rows": N_ROWS}
        write_record("figure_5_5", settings, rows)
        draw(rows)


if __name__ == "__main__":
    main()
