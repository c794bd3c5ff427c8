"""Spectra of laboratories that the model has never seen: nine of the 42 of the open spectra.

    python -m experiments.ours.spectra_open prepare  the split and the pool; random order; record
    python -m experiments.ours.spectra_open fit      the model of the library, with a prior; record
    python -m experiments.ours.spectra_open score    the nine laboratories, by formula and mass

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
import resource
import time
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.common import HERE, RECORDS, print_table, surroundings
from skout import SpectrumIdentifier, load, save
from skout.molecules import MoleculePool, read_prior
from skout.readers import SpectraTable, spectra_table

DATA = Path(os.environ.get("SKOUT_DATA", "."))
CACHE = HERE / "cache" / "spectra_open"
MODEL = CACHE / "model.skout"
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
    def training(self) -> Any:
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
    def prior(self) -> dict[str, float]:
        """How many lists a molecule stands on."""
        return read_prior(DATA / "np_molecules.csv.gz")

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
        "laboratory": "contributor",
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
    queries, library = protocol.queries, protocol.training
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


class Listed:
    """A pool without the molecules that are in it only because they were measured.

    On no list, they would tell the prior that they are truths.
    """

    def __init__(self, pool: MoleculePool, prior: dict[str, float]) -> None:
        self._pool = pool
        self._listed = np.array([key in prior for key in pool.keys(np.arange(len(pool)))])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def __len__(self) -> int:
        return len(self._pool)

    def by_mass(self, mass: float, ppm: float) -> np.ndarray:
        rows = self._pool.by_mass(mass, ppm)
        return rows[self._listed[rows]]


def fit(protocol: Protocol, **size: int) -> None:
    """Fit the model on the library, with the pool and the prior; its size is in the record."""
    table, prior = as_table(protocol.training), protocol.prior
    start, cpu = time.perf_counter(), time.process_time()
    model = SpectrumIdentifier(**size, random_state=0, verbose=True)
    model.fit(table, pool=Listed(protocol.pool, prior), prior=prior, on_error="skip")
    spent = {
        "seconds": round(time.perf_counter() - start, 1),
        "cpu seconds": round(time.process_time() - cpu, 1),
        "gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "load": os.getloadavg()[0],
    }
    save(model, MODEL)
    found = {"file megabytes": round(MODEL.stat().st_size / 1e6, 1), **spent}
    found |= {"validation": model.validation_, **size, "pool": len(protocol.pool)}
    print(json.dumps(found, indent=1))
    extend("fit", found)


def score(protocol: Protocol, n_queries: int | None) -> None:
    """Rank the candidates of the nine laboratories by the model, each step on and off."""
    model, prior, queries = load(MODEL), protocol.prior, protocol.queries
    if n_queries is not None:
        queries = queries.sample(n_queries, random_state=0).sort_index()
    ions = as_table(queries)
    places = protocol.pool.by_key(list(queries.key))
    ions = spectra_table(ions, formula=list(protocol.pool.formulas(places)))
    found: dict[str, Any] = {"queries": len(queries)}
    for by in ("formula", "mass"):
        rows = []
        for name, more in (("without prior", None), ("with prior", prior)):
            start = time.perf_counter()
            with tqdm(total=len(queries), desc=f"by {by}, {name}") as bar:
                answers = model.identify(
                    ions, protocol.pool, by=by, ppm=PPM, top=10**6, prior=more,
                    progress=lambda done, _, bar=bar: bar.update(done - bar.n),
                )  # fmt: skip
            seconds = time.perf_counter() - start
            rows.append({"model": name, **measured(answers, places), "seconds": round(seconds, 1)})
        blind = blind_ranks(answers, places, protocol.pool, prior)
        rows.append({"model": "prior alone", **summary(blind)})
        sizes = np.array([one.n_candidates for one in answers])
        rows.append({"model": "random order", **rounded(random_order(sizes[sizes > 1]))})
        print_table(rows, list(rows[0]))
        found[by] = rows
    extend("score", found)


def measured(answers: list[Any], places: np.ndarray) -> dict[str, Any]:
    """Return scores of queries with several candidates, and how sure the model was."""
    ranks, sure, hits, covered, sizes = [], [], [], [], []
    for one, place in zip(answers, places, strict=True):
        if one.n_candidates < 2:
            continue
        hit = next((hit for hit in one.hits if hit.index == place), None)
        ties = [] if hit is None else [h.rank for h in one.hits if h.score == hit.score]
        ranks.append(np.mean(ties) if hit else np.inf)
        sure.append(one.hits[0].confidence)
        hits.append(one.hits[0].index == place)
        if hit is not None:
            covered.append(hit.in_set)
            sizes.append(one.n_in_set)
    return summary(np.array(ranks)) | {
        "confidence": round(float(np.mean(sure)), 4),
        "first is right": round(float(np.mean(hits)), 4),
        "sets hold it": round(float(np.mean(covered)), 4),
        "mean set": round(float(np.mean(sizes)), 2),
    }


def blind_ranks(answers: list[Any], places: np.ndarray, pool: Any, prior: Any) -> np.ndarray:
    """Return the ranks of the truths by the prior alone; ties are in random order."""
    ranks, rng = [], np.random.default_rng(0)
    for one, place in zip(answers, places, strict=True):
        if one.n_candidates < 2:
            continue
        rows = np.array([hit.index for hit in one.hits])
        value = np.array([prior.get(str(key), 0.0) for key in pool.keys(rows)])
        value += 1e-9 * rng.random(len(value))
        own = value[rows == place]
        ranks.append(1 + (value > own).sum() if len(own) else np.inf)
    return np.array(ranks)


def summary(ranks: np.ndarray) -> dict[str, Any]:
    values = {"top 1": ranks <= 1, "top 10": ranks <= 10, "MRR": 1.0 / ranks}
    error = np.std(values["MRR"], ddof=1) / np.sqrt(len(ranks))
    means = rounded({name: float(np.mean(value)) for name, value in values.items()})
    return {"n": len(ranks), **means, "MRR error": round(float(error), 4)}


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("prepare", "fit", "score"))
    for name, value in (("n_validation", 4000), ("most_spectra", 6), ("cv", 5)):
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=value, help="of the estimator, in `fit`")
    parser.add_argument("--n-queries", type=int, help="spectra of `score`, default all")
    options = parser.parse_args()
    if options.part == "prepare":
        prepare(Protocol())
    elif options.part == "fit":
        names = ("n_validation", "most_spectra", "cv")
        fit(Protocol(), **{name: getattr(options, name) for name in names})
    else:
        score(Protocol(), options.n_queries)


if __name__ == "__main__":
    main()
