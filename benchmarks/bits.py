"""Tanimoto of fingerprints: popcounts and matrix products of packed bits against RDKit's loop.

    python -m benchmarks.bits [--quick]

1,500 x 100,000 random fingerprints, 5 % of the bits set, of 2,048 and of 7,600 bits. RDKit compares
one query with all others by BulkTanimotoSimilarity; it is timed on a tenth of the queries, and the
seconds are scaled, as are those of the products of 7,600 bits, timed on a third. RDKit's loop is a
single thread, so one row has popcounts in a single thread too.

Needs rdkit and numba. Ratios are of seconds in one run; run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from typing import Any

import numba
import numpy as np
import rdkit
from rdkit.DataStructs import BulkTanimotoSimilarity, CreateFromBinaryText
from threadpoolctl import threadpool_limits

from benchmarks.measure import fastest, print_table, write_record
from skout.basis.features import LandmarkFeatures, Projection
from skout.kernels import Tanimoto, popcount
from skout.kernels.bits import PackedBits, pack_matrix
from skout.rows import Memory

DENSITY = 0.05
SCALED = 10  # RDKit is timed on one of so many queries
PRODUCTS_SCALED = {2048: 1, 7600: 3}  # products likewise


def random_bits(n: int, n_bits: int, rng: np.random.Generator) -> PackedBits:
    """Return packed rows, made a few at a time."""
    sizes = [min(4096, n - start) for start in range(0, n, 4096)]
    draws = (rng.random((size, n_bits), dtype=np.float32) < DENSITY for size in sizes)
    return PackedBits.concatenate([pack_matrix(draw) for draw in draws])


def as_vectors(rows: PackedBits) -> list[Any]:
    """Return RDKit's bit vectors."""
    octets = rows.words.view(np.uint8)[:, : -(-rows.n_bits // 8)]
    return [CreateFromBinaryText(row.tobytes()) for row in octets]


def rdkit_loop(queries: list[Any], others: list[Any]) -> np.ndarray:
    return np.array([BulkTanimotoSimilarity(query, others) for query in queries])


def products(A: PackedBits, B: PackedBits) -> np.ndarray:
    """Compute as where numba is not installed."""
    compiled, has_numba = popcount._compiled, popcount._has_numba
    popcount._compiled, popcount._has_numba = {}, lambda: False  # type: ignore[assignment]
    try:
        return Tanimoto()(A, B)
    finally:
        popcount._compiled, popcount._has_numba = compiled, has_numba


def single_thread(A: PackedBits, B: PackedBits) -> np.ndarray:
    with threadpool_limits(1):
        return Tanimoto()(A, B)


def engine(A: PackedBits, B: PackedBits) -> np.ndarray:
    """Compute block by block, the queries as landmarks, as a fit does."""
    function = Projection(LandmarkFeatures(Tanimoto(), A))
    return Memory(B).map(function, (len(A),), B.dtype)


def compare(n: int, m: int, n_bits: int) -> list[dict[str, Any]]:
    """Time each way on the same fingerprints."""
    rng = np.random.default_rng(0)
    A, B = random_bits(n, n_bits, rng), random_bits(m, n_bits, rng)
    some = A[: max(1, n // SCALED)]
    vectors, queries = as_vectors(B), as_vectors(some)
    start = time.perf_counter()
    truth = rdkit_loop(queries, vectors)
    peer = (time.perf_counter() - start) * n / len(queries)
    del vectors
    start = time.perf_counter()
    Tanimoto()(A, B)
    first = time.perf_counter() - start
    rows = [{"bits": n_bits, "way": "RDKit, scaled", "seconds": peer, "times faster": 1.0}]
    ways = {
        "popcounts": (Tanimoto(), 2),
        "popcounts, one thread": (single_thread, 1),
        "popcounts, in blocks": (engine, 1),
        "products": (products, 1),
    }
    for name, (function, repeats) in ways.items():
        share = PRODUCTS_SCALED[n_bits] if name == "products" else 1
        part = A[: n // share]
        seconds = share * fastest(partial(function, part, B), repeats)
        found = function(some, B)
        found = found.T if name == "popcounts, in blocks" else found
        row = {"bits": n_bits, "way": name, "seconds": seconds, "times faster": peer / seconds}
        rows.append(row | {"largest difference": float(np.abs(found - truth).max())})
    rows[1]["first call"] = first  # with compiling, for the first number of bits
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few fingerprints, and no record")
    quick = parser.parse_args().quick
    n, m = (150, 4000) if quick else (1500, 100_000)
    busy = os.getloadavg()[0]
    rows = [row for n_bits in (2048, 7600) for row in compare(n, m, n_bits)]
    print_table(
        rows, ["bits", "way", "seconds", "first call", "times faster", "largest difference"]
    )
    if not quick:
        settings = {
            "rows": n,
            "landmarks": m,
            "density": DENSITY,
            "RDKit": f"{n // SCALED} queries timed, seconds scaled by {SCALED}",
            "products of 7600 bits": "500 queries timed, seconds scaled by 3",
            "rdkit": rdkit.__version__,
            "numba": numba.__version__,
            "load of the machine before": busy,
        }
        print(write_record("bits", settings, rows))


if __name__ == "__main__":
    main()
