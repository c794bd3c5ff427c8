"""Kernels on graphs: molecules of QM9 against GraKeL, and all of them against many landmarks.

    python benchmarks/graphs.py [--quick] [--part grakel blocks all]

grakel  Gram matrices of 2,000 molecules: vertex histogram, shortest path, Weisfeiler-Lehman, Core
        over it and NSPD(3, 4), against GraKeL (`pip install grakel`), from graphs in memory.
blocks  20,000 molecules against 1,000 with Weisfeiler-Lehman: fit and transform of GraKeL.
all     All 130,831 molecules against 3,200 landmarks, streamed in blocks of rows: seconds and the
        share of each step (SMILES to graphs by RDKit, features, Gram blocks), and peak memory.

Ratios are of seconds in one run; run it on a quiet machine. Needs the folder SKOUT_DATA and RDKit.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import fastest, measure, peak_megabytes, print_table, write_record

from skout._numerics.arrays import row_slices
from skout._numerics.threads import map_blocks
from skout.datasets import load
from skout.kernels.graph_read import read_graphs
from skout.kernels.graphs import (
    Core,
    NeighborhoodSubgraph,
    ShortestPath,
    VertexHistogram,
    WeisfeilerLehman,
)

_ROWS = 512
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


def blocks(n: int, m: int, repeats: int) -> list[dict[str, Any]]:
    """Time K(A, B) of n graphs against m: fit of the m and transform of the n."""
    graphs = triples(n + m)
    A, B = graphs[m:], graphs[:m]
    their_a, their_b = for_grakel(A), for_grakel(B)
    kernel, other = grakel_kernels()["WeisfeilerLehman(5)"]
    run = measure(lambda: kernel(A, B), repeats=repeats)
    seconds = fastest(lambda: other().fit(their_b).transform(their_a), repeats)
    K = other().fit(their_b).transform(their_a)
    return [
        {
            "kernel": "WeisfeilerLehman(5)",
            "shape": f"{n} x {m}",
            "skout seconds": run.seconds,
            "MB above": round(run.megabytes),
            "MB of the result": round(run.result.nbytes / 1e6),
            "grakel seconds": seconds,
            "times faster": seconds / run.seconds,
            "largest difference": float(np.abs(K - run.result).max()),
        }
    ]


def everything(n: int, m: int, names: list[str]) -> list[dict[str, Any]]:
    """Stream the Gram matrix of n molecules and m landmarks; keep the sum of each column."""
    texts, graphs = smiles()[:n], []
    clock = time.perf_counter()
    reading_megabytes = peak_megabytes(lambda: graphs.append(read_graphs(texts)), every=0.02)
    reading = time.perf_counter() - clock
    kernels = {
        "WeisfeilerLehman(5)": WeisfeilerLehman(5),
        "Core(WeisfeilerLehman(5))": Core(WeisfeilerLehman(5)),
        "NeighborhoodSubgraph(3, 4)": NeighborhoodSubgraph(3, 4),
    }
    rows = []
    for name in names:
        kernel = kernels[name]
        seconds: dict[str, float] = {}

        def stream(kernel: Any = kernel, seconds: dict[str, float] = seconds) -> None:
            clock = time.perf_counter()
            bags = kernel.encode(graphs[0])
            seconds["features"] = time.perf_counter() - clock
            block, total = kernel.against(bags[:m]), np.zeros(m)

            def part(some: slice) -> np.ndarray:
                return block(bags[some]).sum(axis=0)

            for piece in map_blocks(part, row_slices(n, _ROWS)):
                total += piece
            seconds["gram"] = time.perf_counter() - clock - seconds["features"]

        megabytes = peak_megabytes(stream, every=0.02)
        whole = reading + sum(seconds.values())
        rows.append(
            {
                "kernel": name,
                "shape": f"{n} x {m}",
                "seconds": whole,
                "reading SMILES": reading,
                "features": seconds["features"],
                "Gram blocks": seconds["gram"],
                "share reading": reading / whole,
                "share features": seconds["features"] / whole,
                "share Gram": seconds["gram"] / whole,
                "MB above, reading": round(reading_megabytes),
                "MB above, then": round(megabytes),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes; no record")
    parser.add_argument("--part", nargs="+", default=["grakel", "blocks", "all"])
    options = parser.parse_args()
    quick = options.quick
    warnings.simplefilter("ignore")  # GraKeL uses what NumPy is about to drop
    wl, nspd = "WeisfeilerLehman(5)", "NeighborhoodSubgraph(3, 4)"
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "grakel": lambda: against_grakel(300 if quick else 2000, _REPEATS),
        "blocks": lambda: blocks(*((2000, 200) if quick else (20_000, 1000)), _REPEATS),
        "all": lambda: everything(*((5000, 500) if quick else (130_831, 3200)), [wl, nspd]),
    }
    for part in options.part:
        rows = parts[part]()
        print_table(rows, list(rows[0]))
        if not quick:
            settings = {} if part == "all" else {"repeats": _REPEATS}
            write_record(f"graphs_{part}", settings, rows)


if __name__ == "__main__":
    main()
