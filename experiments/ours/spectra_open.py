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
  of the tables in the record and by no others: four times in all, three times by the models of
  earlier versions ("first score" to "third score"), and once by the present one ("score").
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.common import HERE, RECORDS, print_table, surroundings
from skout import SpectrumIdentifier, load, save
from skout.apps.spectra.identify import identifier
from skout.apps.spectra.identify.calibration import Cuts, truth_rank
from skout.apps.spectra.identify.columns import PEAKS, WAYS, Ions, candidate_columns
from skout.apps.spectra.identify.ranking import CandidateRanking, HeldOut, calibrated, weighed
from skout.apps.spectra.identify.search import Pairs
from skout.apps.spectra.identify.validation import held_out
from skout.molecules import MoleculePool, read_prior
from skout.readers import SpectraTable, spectra_table

DATA = Path(os.environ.get("SKOUT_DATA", "."))
CACHE = HERE / "cache" / "spectra_open"
MODEL = CACHE / "model.skout"
COLUMNS = CACHE / "columns.npz"
N_HELD, FEWEST, MOST, SHARE = 9, 20, 350, 0.9
PPM = 10.0
# Penalty of the rankings of steps: that which folds choose for the model with all columns.
ALPHA = 1e-3
# Contests count spectra with one candidate, which is always first, too.
SINGLE = "single candidates counted"


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
        measured = list(self.frame.drop_duplicates("key").smiles)
        molecules = [*self.nearby(list(self.lists.smiles), measured), *measured]
        return MoleculePool.build(molecules, path, n_jobs=2, batch=1000, verbose=True)

    def nearby(self, smiles: list[str], measured: list[str]) -> list[str]:
        """Return molecules that can be candidates of a spectrum, by its mass or its molecule's.

        The other two thirds of the lists would only make the pool slower to build.
        """
        near = as_table(self.frame).neutral_mass()
        near = np.sort(np.concatenate([neutral_masses(measured), near[near > 0]]))
        mass = neutral_masses(smiles)
        after = np.searchsorted(near, mass * (1.0 - 2e-6 * PPM))
        return [
            text
            for text, m, i in zip(smiles, mass, after, strict=True)
            if i < len(near) and near[i] <= m * (1.0 + 2e-6 * PPM)
        ]

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


def neutral_masses(smiles: list[str]) -> np.ndarray:
    """Return the masses of molecules without the charges that protons can undo."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem.Descriptors import ExactMolWt
    from rdkit.Chem.MolStandardize.rdMolStandardize import Uncharger

    RDLogger.DisableLog("rdApp.*")
    uncharger, masses = Uncharger(), np.full(len(smiles), np.nan)
    for i, text in enumerate(smiles):
        molecule = Chem.MolFromSmiles(max(text.split("."), key=len))
        if molecule is not None:
            charged = "+" in text or "-" in text
            masses[i] = ExactMolWt(uncharger.uncharge(molecule) if charged else molecule)
    return masses


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


def fit(protocol: Protocol, **size: int) -> None:
    """Fit the model on the library, with the pool and the prior; its size is in the record."""
    table, prior = as_table(protocol.training), protocol.prior
    kept: list[tuple[Any, Any, HeldOut]] = []

    def keeping(*args: Any, **more: Any) -> Any:
        kept.append(held_out(*args, **more))
        return kept[0]

    identifier.held_out = keeping  # the columns of its own held-out laboratories, for `score`
    start, cpu = time.perf_counter(), time.process_time()
    model = SpectrumIdentifier(**size, random_state=0, verbose=True)
    model.fit(table, pool=protocol.pool, prior=prior, on_error="skip")
    spent = {
        "seconds": round(time.perf_counter() - start, 1),
        "cpu seconds": round(time.process_time() - cpu, 1),
        "gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "load": os.getloadavg()[0],
    }
    save(model, MODEL)
    np.savez(COLUMNS, **vars(kept[0][2]))
    found = {"file megabytes": round(MODEL.stat().st_size / 1e6, 1), **spent}
    found |= {"validation": model.validation_, **size, "pool": len(protocol.pool)}
    print(json.dumps(found, indent=1))
    extend("fit", found)


def steps() -> dict[str, np.ndarray]:
    """Return which columns each step of the table has."""
    column = np.arange(len(WAYS) + len(PEAKS))
    return {"both ways": column < len(WAYS), "fragments": column >= len(WAYS)}


def score(protocol: Protocol, n_queries: int | None) -> None:
    """Rank the candidates of the nine laboratories, each step on and off."""
    model, queries = load(MODEL), protocol.queries
    if n_queries is not None:
        queries = queries.sample(n_queries, random_state=0).sort_index()
    table, pool = as_table(queries), protocol.pool
    places = pool.by_key(list(queries.key))
    masses = table.neutral_mass()
    lists = {
        "formula": [pool.by_formula(text) for text in pool.formulas(places)],
        "mass": [pool.by_mass(m, PPM) if m > 0 else np.empty(0, int) for m in masses],
    }
    both = [np.union1d(*own) for own in zip(lists["formula"], lists["mass"], strict=True)]
    pairs = Pairs.of(both)
    ions = Ions(table.spectra, table["adduct"])
    start = time.process_time()
    parts = []
    for some in tqdm(np.array_split(np.arange(len(queries)), 50), desc="columns"):
        own = Pairs.of([both[i] for i in some])
        parts.append(candidate_columns(model.models, ions.take(some), own, pool))
    columns = np.concatenate(parts, axis=1)
    found: dict[str, Any] = {"queries": len(queries), "pairs": len(pairs.indices)}
    found["cpu seconds"] = round(time.process_time() - start, 1)
    right = pairs.indices == places[pairs.query_of]
    with np.load(COLUMNS) as stored:
        held = HeldOut(**{name: stored[name] for name in stored.files})
    fold = np.zeros(len(pairs), int)
    prior = np.log1p([protocol.prior.get(str(key), 0.0) for key in pool.keys(pairs.indices)])
    for by, own in lists.items():
        inside = np.concatenate([np.isin(a, b) for a, b in zip(both, own, strict=True)])
        test = HeldOut(np.vstack([columns, prior]), pairs.indptr, right, fold, right).of(inside)
        listed = (test.columns[-1] > 0) & test.each(
            np.maximum.reduceat(test.right & (test.columns[-1] > 0), test.indptr[:-1])
        )
        rows = []
        for name, kept in steps().items() if by == "formula" else ():
            part = held.of(held.alike)
            part = replace(part, columns=part.columns[kept])
            ranking, _ = calibrated(part, weighed(part, ALPHA))
            rows.append({"model": name, **measured(test, test.columns[:-1][kept], ranking, model)})
        for name, key in (("the model", "spectrum"), ("the model, with prior", "prior")):
            ranking = CandidateRanking.restored(model.rankings_[by][key])
            some = test.columns[: len(ranking.coef)]
            rows.append({"model": name, **measured(test, some, ranking, model)})
            with_single = summary(ranks_of(test, ranking.coef @ some, fewest=1))
            rows.append({"model": f"{name}, {SINGLE}", **with_single})
            fair = test.of(listed)
            few = fair.columns[: len(ranking.coef)]
            rows.append(
                {"model": f"{name}, molecules on lists", **measured(fair, few, ranking, model)}
            )
        for name, some in (("prior alone", test), ("prior alone, on lists", test.of(listed))):
            blind = some.columns[-1] + 1e-9 * np.random.default_rng(0).random(len(some.right))
            rows.append({"model": name, **summary(ranks_of(some, blind))})
        for name, some in (("random order", test), ("random order, on lists", test.of(listed))):
            sizes = np.diff(some.indptr)
            rows.append({"model": name, **rounded(random_order(sizes[sizes > 1]))})
        all_sizes = np.diff(test.indptr)
        rows.append({"model": f"random order, {SINGLE}", **rounded(random_order(all_sizes))})
        print_table(rows, list(rows[0]))
        found[by] = rows
    extend("score", found)


def ranks_of(test: HeldOut, scores: np.ndarray, fewest: int = 2) -> np.ndarray:
    """Return the ranks of truths among at least so many candidates."""
    pairs = zip(test.split(scores), test.split(test.right), strict=True)
    return np.array([truth_rank(own, right) for own, right in pairs if len(own) >= fewest])


def measured(
    test: HeldOut, columns: np.ndarray, ranking: CandidateRanking, model: Any
) -> dict[str, Any]:
    """Return scores of queries with several candidates, and how sure the model was."""
    scores = ranking.coef @ columns
    cuts = Cuts.fitted(ranking.sizes, ranking.surprises, model.coverage)
    sure, hits, covered, sizes = [], [], [], []
    for own, right in zip(test.split(scores), test.split(test.right), strict=True):
        if len(own) < 2:
            continue
        p = ranking.confidence.of(own)
        sure.append(p.max())
        hits.append(right[own.argmax()])
        if right.any():
            inside = cuts.of(p)
            covered.append(inside[right].any())
            sizes.append(inside.sum())
    return summary(ranks_of(test, scores)) | {
        "confidence": round(float(np.mean(sure)), 4),
        "first is right": round(float(np.mean(hits)), 4),
        "sets hold it": round(float(np.mean(covered)), 4),
        "mean set": round(float(np.mean(sizes)), 2),
    }


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
