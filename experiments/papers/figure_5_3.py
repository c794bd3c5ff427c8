"""Figure 5.3: how large must the output sketch be? Perfect h on SMI2Mol, for graph kernels.

    python -m experiments.papers.figure_5_3 [--quick]       ten draws, fewer molecules
    python -m experiments.papers.figure_5_3 --all [--quick]  one draw, all molecules, half an hour
    python -m experiments.papers.figure_5_3 --large         NSPD with 6,400, all molecules, 30 GB

The split of `smi2mol.py` (seed 0). For each kernel and sketch size the coordinates of validation
molecules themselves stand in for the predictions of a network (5.20); the best of the training
molecules is compared with the truth by the exact graph edit distance, with labels of edges.

all    One draw of the sketch, all training molecules, 300 validation molecules, six sizes.
draws  Ten draws, 10,000 training molecules, of which the candidates then are too few to reach the
       distances of the figure, 100 validation molecules, three sizes: what the draw changes.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np

from experiments.common import clock, figure_path, mean_sd
from experiments.papers.smi2mol import KERNEL, load_graphs, load_smiles, split
from experiments.pieces import Plan, Results, Size, alone, joined, run_script
from skout import KernelBasis
from skout.decoding import CandidateDecoder
from skout.dev import unique
from skout.kernels import Core, NeighborhoodSubgraph, Normalized, WeisfeilerLehman
from skout.metrics import graph_edit_distance
from skout.sketches import SubSample

SIZES = (100, 200, 400, 800, 1600, 3200)
N_VAL, N_DRAWS = 300, 10
KERNELS = {
    "WL-VH": Normalized(WeisfeilerLehman(3)),
    "CORE-WL": Normalized(Core(WeisfeilerLehman(3))),
    "NSPD": Normalized(NeighborhoodSubgraph(3, 4)),
    "WL-VH + NSPD": KERNEL,
}


def nearest(
    name: str, seeds: Any, sizes: Any, n_train: int | None, n_val: int
) -> list[dict[str, Any]]:
    """Return for each draw and size the training molecules that perfect coefficients find."""
    graphs = load_graphs()
    train, val, _ = split(graphs, 0)
    train, val, kernel = train[:n_train], val[:n_val], KERNELS[name]
    known, asked = kernel.encode(graphs[train]), kernel.encode(graphs[val])
    first = train[unique(known)[0]]
    rows = []
    for seed, m in itertools.product(seeds, sizes):
        with clock() as spent:
            basis = KernelBasis(kernel, SubSample(m), random_state=seed)
            decoder = CandidateDecoder().fit(basis.fit(known), known)
            index, _ = decoder.rank(basis.transform(asked), k=1)
        row = {"kernel": name, "m_y": m, "seed": seed, "seconds": spent.seconds}
        rows.append(row | {"found": first[index[:, 0]].tolist()})
    return rows


def judged(rows: list[dict[str, Any]], n_val: int, both: bool) -> list[dict[str, Any]]:
    """Return the same rows with the edit distances to the truth instead of what was found."""
    smiles = load_smiles()
    truth = smiles[split(load_graphs(), 0)[1][:n_val]].tolist()
    table = []
    for row in rows:
        found = smiles[row["found"]].tolist()
        new = {key: value for key, value in row.items() if key != "found"}
        for label, edges in (("GED with edge labels", True), ("GED without", False)):
            if edges or both:
                distance = graph_edit_distance(found, truth, edge_labels=edges, n_jobs=-1)
                new[label] = float(np.mean(distance))
        table.append(new)
    return table


def perfect(
    name: str, seeds: Any, sizes: Any, n_train: int | None, n_val: int, both: bool
) -> list[dict[str, Any]]:
    """Return one row for each draw and size: distances to the truth with perfect coefficients."""
    return judged(nearest(name, seeds, sizes, n_train, n_val), n_val, both)


def plan_large(size: Size) -> Plan:
    """Return the run of the sketch that the thesis chose for NSPD; the distances need RDKit."""
    quick = size == "quick"
    sizes, n_train, n_val = ((100,), 2000, 20) if quick else ((3200, 6400), None, N_VAL)
    pieces: dict[str, Any] = {"nearest": alone(nearest, "NSPD", [0], sizes, n_train, n_val)}
    pieces["distances"] = lambda results: judged(results["nearest"], n_val, True)
    settings = {"n_val": n_val, "sizes": sizes, "quick": quick}
    return Plan("figure_5_3_large", settings, pieces, lambda results: results["distances"])


def plan_all(size: Size) -> Plan:
    """Return the run of all molecules, with one draw."""
    quick = size == "quick"
    sizes, n_train, n_val = (SIZES[:2], 5000, 50) if quick else (SIZES, None, N_VAL)
    pieces = {name: alone(perfect, name, [0], sizes, n_train, n_val, True) for name in KERNELS}
    settings = {"n_val": n_val, "sizes": sizes, "quick": quick}
    return Plan("figure_5_3", settings, pieces, joined, draw)


def plan(size: Size) -> Plan:
    """Return the run of ten draws."""
    quick = size == "quick"
    sizes, seeds, n_train, n_val = (100, 400, 800), range(N_DRAWS), 10_000, 100
    if quick:
        sizes, seeds, n_train, n_val = (50, 100), range(2), 1000, 10
    pieces = {name: alone(perfect, name, seeds, sizes, n_train, n_val, False) for name in KERNELS}
    settings = {"n_train": n_train, "n_val": n_val, "sizes": sizes, "draws": len(seeds)}
    return Plan("figure_5_3_draws", settings | {"quick": quick}, pieces, rows_of_draws)


def rows_of_draws(results: Results) -> list[dict[str, Any]]:
    """Return one row for each kernel and size, over draws."""
    groups: dict[Any, list[float]] = {}
    for row in joined(results):
        groups.setdefault((row["kernel"], row["m_y"]), []).append(row["GED with edge labels"])
    return [
        {"kernel": kernel, "m_y": m, "GED with edge labels": mean_sd(found), "draws": len(found)}
        for (kernel, m), found in groups.items()
    ]


def draw(record: dict[str, Any]) -> None:
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    for name in KERNELS:
        rows = [row for row in record["results"] if row["kernel"] == name]
        ax.plot(
            [row["m_y"] for row in rows],
            [row["GED with edge labels"] for row in rows],
            marker="o",
            label=name,
        )
    ax.set(xscale="log", xlabel="$m_y$", ylabel="graph edit distance", title="perfect h, SMI2Mol")
    ax.legend()
    fig.savefig(figure_path("figure_5_3.png"), dpi=120)


if __name__ == "__main__":
    plans = {"--all": plan_all, "--large": plan_large}
    chosen = next((plans[word] for word in sys.argv if word in plans), plan)
    sys.argv = [word for word in sys.argv if word not in plans]
    run_script(__doc__, chosen, ["kernel", "m_y", "GED with edge labels", "GED without"])
