"""Spectra of laboratories that the model has never seen: nine of the 42 of the open spectra.

    python experiments/spectra_open.py prepare     the split and the pool; random order; record

The protocol, fixed before any model was fitted:

- Spectra: `msms_open.parquet` (MassBank and MIADB, both polarities). Laboratories that could be
  held out have 20 to 350 molecules and nine tenths of their spectra of high resolution; nine of
  these 20 are drawn with seed 0.
- Queries: of each laboratory, molecule (first block of the InChIKey) and adduct one spectrum of
  high resolution, drawn with seed 0. The library to learn from is what is left without the nine
  laboratories **and without all of their molecules**, whoever measured them.
- Candidates: the molecules of the same formula, and those within 10 ppm of the mass that precursor
  and adduct give, out of `np_molecules.csv.gz` and all molecules of the spectra.
- Scores: top 1, top 10 and mean reciprocal rank over queries of two or more candidates; ties share
  their ranks; a molecule that is not among its candidates has rank infinity. Random order, and the
  order by the prior alone, which sees no spectrum, stand beside.
- Choices are made on the library, in folds of its laboratories. The nine are scored by the models
  of the table in the record and by no others.
"""

from __future__ import annotations

import argparse
import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE, RECORDS, print_table, surroundings

from skout.molecules import MoleculePool
from skout.readers import SpectraTable, spectra_table

DATA = Path(os.environ.get("SKOUT_DATA", "."))
CACHE = HERE / "cache" / "spectra_open"
N_HELD, FEWEST, MOST, SHARE = 9, 20, 350, 0.9
PPM = 10.0


class Protocol:
    """The spectra, the laboratories that are held out, and the candidates."""

    @cached_property
    def frame(self) -> Any:
        import pandas as pd

        frame = pd.read_parquet(DATA / "msms_open.parquet")
        return frame.assign(key=frame.inchikey.str[:14])

    @cached_property
    def lists(self) -> Any:
        import pandas as pd

        return pd.read_csv(DATA / "np_molecules.csv.gz")

    @cached_property
    def held(self) -> list[str]:
        """The laboratories that are held out."""
        labs = self.frame.groupby("contributor").agg(
            n=("key", "nunique"), high=("high_res", "mean")
        )
        eligible = labs.index[labs.n.between(FEWEST, MOST) & (labs.high >= SHARE)]
        drawn = np.random.default_rng(0).choice(np.sort(eligible.to_numpy(str)), N_HELD, False)
        return sorted(map(str, drawn))

    @cached_property
    def queries(self) -> Any:
        frame = self.frame
        some = frame[frame.contributor.isin(self.held) & frame.high_res]
        some = some.iloc[np.random.default_rng(0).permutation(len(some))]
        return some.drop_duplicates(["contributor", "key", "adduct"]).sort_index()

    @cached_property
    def library(self) -> Any:
        frame = self.frame
        theirs = frame.contributor.isin(self.held)
        return frame[~theirs & ~frame.key.isin(frame.key[theirs])]

    @cached_property
    def pool(self) -> MoleculePool:
        path = CACHE / "pool.skpool"
        if path.exists():
            return MoleculePool.open(path)
        CACHE.mkdir(parents=True, exist_ok=True)
        molecules = [*self.lists.smiles, *self.frame.drop_duplicates("key").smiles]
        return MoleculePool.build(molecules, path, n_jobs=2, verbose=True)

    @cached_property
    def candidates(self) -> dict[str, list[np.ndarray]]:
        """The candidates of each query by formula, and by mass: rows of the pool."""
        pool, table = self.pool, as_table(self.queries)
        place = pool.by_key(list(self.queries.key))
        formulas, masses = pool.formulas(place), table.neutral_mass()
        return {
            "formula": [pool.by_formula(text) for text in formulas],
            "mass": [pool.by_mass(m, PPM) if m > 0 else np.empty(0, int) for m in masses],
        }


def as_table(frame: Any) -> SpectraTable:
    """Return rows of the file as readers return spectra."""
    spectra = [
        (np.asarray(mz, float), np.asarray(height, float), float(precursor))
        for mz, height, precursor in zip(frame.mz, frame.intensity, frame.precursor_mz, strict=True)
    ]
    names = {
        "identifier": "accession", "adduct": "adduct", "polarity": "polarity",
        "formula": "formula", "smiles": "smiles", "name": "name", "inchikey": "inchikey",
    }  # fmt: skip
    columns = {name: list(frame[column]) for name, column in names.items()}
    return spectra_table(spectra, **columns)


def random_order(sizes: np.ndarray) -> dict[str, float]:
    """Return what random order scores in expectation."""
    # P(rank <= k) = min(k, n) / n, E[1 / rank] = H_n / n
    harmonic = np.cumsum(1.0 / np.arange(1, sizes.max() + 1))
    return {
        "top 1": float(np.mean(1.0 / sizes)),
        "top 10": float(np.mean(np.minimum(10, sizes) / sizes)),
        "MRR": float(np.mean(harmonic[sizes - 1] / sizes)),
    }


def extend(part: str, results: Any) -> None:
    """Put the results of a part into the record."""
    path = RECORDS / "spectra_open.json"
    record: dict[str, Any] = {"experiment": "spectra_open", "parts": {}}
    if path.exists():
        record = json.loads(path.read_text())
    record["parts"][part] = surroundings() | {"results": results}
    path.write_text(json.dumps(record, indent=1) + "\n")


def prepare(protocol: Protocol) -> None:
    """Record the split, and what random order scores."""
    queries, library = protocol.queries, protocol.library
    key = protocol.pool.by_key(list(queries.key))
    found: dict[str, Any] = {
        "held out": protocol.held,
        "queries": len(queries),
        "their molecules": int(queries.key.nunique()),
        "library": len(library),
        "its molecules": int(library.key.nunique()),
        "its laboratories": int(library.contributor.nunique()),
        "pool": len(protocol.pool),
    }
    rows = []
    for by, lists in protocol.candidates.items():
        sizes = np.array([len(own) for own in lists])
        inside = np.array([i in own for i, own in zip(key, lists, strict=True)])
        several = sizes > 1
        rows.append(
            {
                "by": by,
                "queries": int(several.sum()),
                "truth among them": int((inside & several).sum()),
                "median candidates": float(np.median(sizes[several])),
                "mean candidates": round(float(sizes[several].mean()), 1),
                **{name: round(x, 4) for name, x in random_order(sizes[several]).items()},
            }
        )
    print(json.dumps(found, indent=1))
    print_table(rows, list(rows[0]))
    extend("protocol", found | {"random order": rows})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("prepare",))
    options = parser.parse_args()
    {"prepare": prepare}[options.part](Protocol())


if __name__ == "__main__":
    main()
