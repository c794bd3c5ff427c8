"""Write the spectra that come with skout, from those of MassBank at hand.

    python experiments/massbank_sample.py

One spectrum, drawn at random, for each molecule that can be mistaken: another structure of
MassBank has its formula, and the two fingerprints differ. Only records under CC BY and CC0, which
allow it; `src/skout/datasets/data/README.md` has the attribution.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from skout.datasets import SOURCES
from skout.datasets.files import SHIPPED, locate
from skout.molecules import fingerprints

SEED = 0
LICENCES = ["CC BY", "CC0"]
COLUMNS = (
    ["accession", "contributor", "name", "inchikey", "smiles", "formula", "precursor_mz"]
    + ["collision_energy", "instrument_type", "license", "mz", "intensity"]
)  # fmt: skip


def candidates(path: Path) -> pa.Table:
    """Return the structures of MassBank by formula: those that one can take for another."""
    table = parquet.read_table(path)
    table = table.filter(compute.match_substring(table["sources"], "massbank"))
    words = fingerprints(table["smiles_2d"].to_pylist()).words
    _, first = np.unique(words, axis=0, return_index=True)
    formulas = np.array(table["formula"].to_pylist())[np.sort(first)]
    names, counts = np.unique(formulas, return_counts=True)
    several = compute.is_in(table["formula"], pa.array(names[counts > 1]))
    return table.filter(several).select(["formula", "smiles_2d"])


def spectra(path: Path, formulas: pa.Array) -> pa.Table:
    """Return one spectrum for each molecule of these formulas."""
    table = parquet.read_table(path, columns=COLUMNS)
    wanted = compute.and_(
        compute.is_in(table["license"], pa.array(LICENCES)),
        compute.is_in(table["formula"], formulas),
    )
    table = table.filter(compute.and_(wanted, compute.is_valid(table["precursor_mz"])))
    skeleton = np.array([key[:14] for key in table["inchikey"].to_pylist()])
    order = np.random.default_rng(SEED).permutation(len(skeleton))
    first = order[np.unique(skeleton[order], return_index=True)[1]]
    return table.take(np.sort(first))


def main() -> None:
    peaks, structures = locate(SOURCES["spectra", "massbank"])
    pool = candidates(structures)
    found = spectra(peaks, compute.unique(pool["formula"]))
    pool = pool.filter(compute.is_in(pool["formula"], compute.unique(found["formula"])))
    for name, table in (("massbank_sample", found), ("massbank_sample_candidates", pool)):
        path = SHIPPED / f"{name}.parquet"
        parquet.write_table(table, path, compression="zstd", compression_level=19)
        print(f"{path.name}: {len(table)} rows, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
