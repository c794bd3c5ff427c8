"""Figure 5.3: how large must the output sketch be? Perfect h on SMI2Mol, for graph kernels.

    python experiments/figure_5_3.py [--quick] [--draw]

The split of `smi2mol.py` (seed 0; run its `prepare` first). For each kernel and sketch size the
coordinates of 300 validation molecules themselves stand in for the predictions of a network (5.20);
the best of the training molecules is compared with the truth by the exact graph edit distance, with
labels of edges. One draw of the sketch.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from common import FIGURES, clock, print_table, read_record, write_record
from smi2mol import CACHE, KERNEL, load_graphs, load_smiles, split

from skout import KernelBasis
from skout._arrays import unique
from skout.decoding import CandidateDecoder
from skout.kernels import Core, NeighborhoodSubgraph, Normalized, WeisfeilerLehman
from skout.metrics import graph_edit_distance
from skout.sketches import SubSample

SIZES = (100, 200, 400, 800, 1600, 3200)
N_VAL = 300
KERNELS = {
    "WL-VH": Normalized(WeisfeilerLehman(3)),
    "CORE-WL": Normalized(Core(WeisfeilerLehman(3))),
    "NSPD": Normalized(NeighborhoodSubgraph(3, 4)),
    "WL-VH + NSPD": KERNEL,
}


def run(quick: bool) -> list[dict[str, Any]]:
    smiles, graphs = load_smiles(), load_graphs(CACHE / "qm9.npz")
    train, val, _ = split(graphs, 0)
    train, val = (train[:5000], val[:50]) if quick else (train, val[:N_VAL])
    truth = smiles[val].tolist()
    rows = []
    for name, kernel in KERNELS.items():
        known, asked = kernel.encode(graphs[train]), kernel.encode(graphs[val])
        first = train[unique(known)[0]]
        for m in SIZES[:2] if quick else SIZES:
            with clock() as spent:
                basis = KernelBasis(kernel, SubSample(m), random_state=0)
                decoder = CandidateDecoder().fit(basis.fit(known), known)
                index, _ = decoder.rank(basis.transform(asked), k=1)
            found = smiles[first[index[:, 0]]].tolist()
            distance = [
                float(np.mean(graph_edit_distance(found, truth, edge_labels=labels, n_jobs=-1)))
                for labels in (True, False)
            ]
            rows.append(
                {
                    "kernel": name,
                    "m_y": m,
                    "GED with edge labels": distance[0],
                    "GED without": distance[1],
                    "seconds": spent.seconds,
                }
            )
            print(rows[-1], flush=True)
    return rows


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
    FIGURES.mkdir(exist_ok=True)
    fig.savefig(FIGURES / "figure_5_3.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few molecules; no record")
    parser.add_argument("--draw", action="store_true", help="only draw the record")
    options = parser.parse_args()
    if not options.draw:
        rows = run(options.quick)
        print_table(rows, list(rows[0]))
        if options.quick:
            return
        write_record("figure_5_3", {"n_val": N_VAL, "sizes": SIZES}, rows)
    draw(read_record("figure_5_3"))


if __name__ == "__main__":
    main()
