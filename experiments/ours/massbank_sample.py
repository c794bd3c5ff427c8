"""Write the spectra that come with skout, from those of MassBank at hand.

    python -m experiments.ours.massbank_sample

One spectrum for each molecule, that with the most peaks; of these the 40 strongest. Only records
under CC BY and CC0, which allow it; `src/skout/datasets/data/README.md` has the attribution.
Candidates are the structures of the same formula in MassBank, ChEBI-20 and QM9; molecules with
more than 100 of them are left out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from skout.datasets import CATALOG
from skout.datasets.files import SHIPPED, locate

SEED = 0
LICENCES = ["CC BY", "CC0"]
CATALOGUE_OF_CANDIDATES = "massbank|chebi20|qm9"
MAX_CANDIDATES, MAX_PEAKS = 100, 40
COLUMNS = (
    ["accession", "contributor", "name", "inchikey", "smiles", "formula", "precursor_mz"]
    + ["collision_energy", "instrument_type", "license", "mz", "intensity"]
)  # fmt: skip


def candidates(path: Path) -> pa.Table:
    """Return the structures of formulas that do not have too many."""
    table = parquet.read_table(path)
    table = table.filter(compute.match_substring_regex(table["sources"], CATALOGUE_OF_CANDIDATES))
    names, counts = np.unique(table["formula"].to_pylist(), return_counts=True)
    few = pa.array(names[counts <= MAX_CANDIDATES])
    return table.filter(compute.is_in(table["formula"], few)).select(["formula", "smiles_2d"])


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
    n_peaks = compute.list_value_length(table["mz"]).to_numpy()
    order = order[np.argsort(-n_peaks[order], kind="stable")]
    first = order[np.unique(skeleton[order], return_index=True)[1]]
    return strongest(table.take(np.sort(first)))


def strongest(table: pa.Table) -> pa.Table:
    """Return the spectra with their strongest peaks only, in the order of mass."""
    pairs = zip(table["mz"].to_pylist(), table["intensity"].to_pylist(), strict=True)
    peaks = [
        sorted(sorted(zip(*pair, strict=True), key=lambda peak: -peak[1])[:MAX_PEAKS])
        for pair in pairs
    ]
    for place, name in enumerate(("mz", "intensity")):
        column = pa.array([[peak[place] for peak in own] for own in peaks], pa.list_(pa.float32()))
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def main() -> None:
    peaks, structures = locate(CATALOG["spectra", "massbank"])
    pool = candidates(structures)
    found = spectra(peaks, compute.unique(pool["formula"]))
    pool = pool.filter(compute.is_in(pool["formula"], compute.unique(found["formula"])))
    for name, table in (("massbank_sample", found), ("massbank_sample_candidates", pool)):
        path = SHIPPED / f"{name}.parquet"
        parquet.write_table(table, path, compression="zstd", compression_level=19)
        print(f"{path.name}: {len(table)} rows, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
