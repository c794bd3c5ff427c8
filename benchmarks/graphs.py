"""Kernels on graphs: Gram matrices of 2,000 molecules of QM9 against GraKeL.

    python -m benchmarks.graphs [--quick]

Vertex histogram, shortest path, Weisfeiler-Lehman, Core over it and NSPD(3, 4), from graphs in
memory. Ratios are of seconds in one run; run it on a quiet machine. Needs the folder SKOUT_DATA,
RDKit and GraKeL (`pip install grakel`).
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import fastest, measure, print_table, write_record
from skout.datasets import load
from skout.kernels import (
    Core,
    NeighborhoodSubgraph,
    ShortestPath,
    VertexHistogram,
    WeisfeilerLehman,
    read_graphs,
)

# Runs of either side, of which the fastest counts.
_REPEATS = 2


def smiles() -> list[str]:
    """Return the molecules of QM9, in one random order."""
    found = load("qm9").X
    return [found[i] for i in np.random.default_rng(0).permutation(len(found))]


def triples(n: int) -> list[Any]:
    """Return the first n molecules that have a bond as (edges, node_labels, edge_labels)."""
    from rdkit import Chem

    out: list[Any] = []
    for text in smiles():
        molecule = Chem.MolFromSmiles(text)
        Chem.Kekulize(molecule, clearAromaticFlags=True)
        bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in molecule.GetBonds()]
        kinds = [b.GetBondType().name for b in molecule.GetBonds()]
        if bonds:  # GraKeL wants an edge
            out.append((bonds, [atom.GetSymbol() for atom in molecule.GetAtoms()], kinds))
        if len(out) == n:
            break
    return out


def for_grakel(graphs: list[Any]) -> list[Any]:
    """Return the graphs as GraKeL takes them: sets and dicts, edges in both directions."""
    out = []
    for edges, labels, kinds in graphs:
        told = dict(zip(edges, kinds, strict=True))
        told |= {(v, u): kind for (u, v), kind in told.items()}
        out.append([set(told), dict(enumerate(labels)), told])
    return out


def grakel_kernels() -> dict[str, tuple[Any, Callable[[], Any]]]:
    """Return our kernel and a maker of GraKeL's, by name."""
    try:
        import grakel
    except ImportError:
        sys.exit("This part compares with GraKeL: pip install grakel.")

    def wl() -> Any:
        base = grakel.VertexHistogram
        return grakel.WeisfeilerLehman(n_iter=5, base_graph_kernel=base)

    return {
        "VertexHistogram": (VertexHistogram(), grakel.VertexHistogram),
        "ShortestPath": (ShortestPath(), grakel.ShortestPath),
        "WeisfeilerLehman(5)": (WeisfeilerLehman(5), wl),
        "Core(WeisfeilerLehman(5))": (
            Core(WeisfeilerLehman(5)),
            lambda: grakel.CoreFramework(
                base_graph_kernel=(
                    grakel.WeisfeilerLehman,
                    {"n_iter": 5, "base_graph_kernel": grakel.VertexHistogram},
                )
            ),
        ),
        "NeighborhoodSubgraph(3, 4)": (
            NeighborhoodSubgraph(3, 4),
            lambda: grakel.NeighborhoodSubgraphPairwiseDistance(r=3, d=4),
        ),
    }


def against_grakel(n: int, repeats: int) -> list[dict[str, Any]]:
    """Time K(A) both ways; NSPD of GraKeL depends on the numbering, so it is not compared."""
    graphs = triples(n)
    theirs = for_grakel(graphs)
    rows = []
    for name, (kernel, other) in grakel_kernels().items():
        run = measure(lambda kernel=kernel: kernel(graphs), repeats=repeats)
        parse = fastest(lambda: read_graphs(graphs))
        seconds = fastest(lambda other=other: other().fit_transform(theirs), repeats)
        off = float(np.abs(other().fit_transform(theirs) - run.result).max())
        rows.append(
            {
                "kernel": name,
                "graphs": n,
                "skout seconds": run.seconds,
                "of these reading": parse,
                "MB above": round(run.megabytes),
                "grakel seconds": seconds,
                "times faster": seconds / run.seconds,
                "largest difference": None if "Neighborhood" in name else off,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes; no record")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")  # GraKeL uses what NumPy is about to drop
    rows = against_grakel(300 if quick else 2000, _REPEATS)
    print_table(rows, list(rows[0]))
    if not quick:
        write_record("graphs_grakel", {"repeats": _REPEATS}, rows)


if __name__ == "__main__":
    main()
