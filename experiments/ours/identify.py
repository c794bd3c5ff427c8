"""Identify molecules of MassBank by the commands `skout fit-spectra` and `skout identify`.

    python -m experiments.papers.massbank prepare  candidates of `sets`; once
    python -m experiments.ours.identify files  library.msp and unknown.mgf; once
    python -m experiments.ours.identify fit --pool POOL  the model, by the command; record
    python -m experiments.ours.identify sets  the model on the sets of massbank.py
    python -m experiments.ours.identify search --pool POOL  1,000 spectra; also with --by formula
    python -m experiments.ours.identify coverage --pool POOL  coverage of prediction sets

The split is that of `massbank.py`: a tenth of the molecules, by InChIKey skeleton, is in the test
part, and the library is all others. Here the test part also has molecules that are alone in their
formula: they are in the library, too, which prediction sets are calibrated on. `sets` judges the
model as `two_way.py` judges its own: with the candidates of the formula that `massbank.py prepare`
found, means over test molecules. `search` asks the pool for the molecules within 10 ppm, as a user
would; at most six spectra a molecule.
Scores are of spectra whose molecule is among the candidates; some precursors of MassBank are
rounded, or those of another ion, and lead nowhere. Each part has its own entry in the record, with
CPU and wall seconds, the largest memory of the command, and how busy the machine was (load).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments.common import RECORDS, read_record, surroundings
from experiments.ours.two_way import few
from experiments.papers.massbank import CACHE, Problem, judge, ranks_of
from skout import datasets, load
from skout.apps.spectra.identify.design import Design, combined_kernel
from skout.molecules import MoleculePool
from skout.readers import read_mgf

LIBRARY, UNKNOWN, MODEL = CACHE / "library.msp", CACHE / "unknown.mgf", CACHE / "identify.skout"
N_SEARCHED, MOST, TOP, PPM = 1000, 6, 25, 10.0


# Files -----------------------------------------------------------------------------------------


def files() -> None:
    """Write all spectra but those of the test molecules, and spectra of these without names."""
    problem, data = Problem(), datasets.load("massbank")
    test = few(problem, problem.unseen, MOST)
    asked = np.sort(np.random.default_rng(0).permutation(test)[:N_SEARCHED])
    known = np.setdiff1d(np.arange(len(problem.keys)), problem.unseen)
    with open(LIBRARY, "w", encoding="utf-8") as file:
        file.writelines(as_msp(problem, data, i) for i in known)
    with open(UNKNOWN, "w", encoding="utf-8") as file:
        file.writelines(as_mgf(problem, data, i) for i in asked)
    print(f"{len(known)} spectra to learn from, {len(asked)} to identify")


def peaks_of(problem: Problem, i: int) -> tuple[float, str]:
    row = problem.spectra[i : i + 1]
    pairs = zip(row.mz, row.intensity, strict=True)
    lines = [f"{float(mz)!r} {float(value)!r}\n" for mz, value in pairs]
    return float(row.precursor[0]), "".join(lines)


def as_msp(problem: Problem, data: Any, i: int) -> str:
    precursor, peaks = peaks_of(problem, i)
    return (
        f"Name: {data.extra['name'][i]}\nPrecursorMZ: {precursor!r}\nPrecursor_type: [M+H]+\n"
        f"Ion_mode: P\nSMILES: {data.Y[i]}\nNum Peaks: {peaks.count(chr(10))}\n{peaks}\n"
    )


def as_mgf(problem: Problem, data: Any, i: int) -> str:
    precursor, peaks = peaks_of(problem, i)
    title = f"{i} {problem.keys[i]}"
    head = f"TITLE={title}\nPEPMASS={precursor!r}\nADDUCT=[M+H]+\n"
    formula = f"FORMULA={data.extra['formula'][i]}\n"
    return f"BEGIN IONS\n{head}{formula}{peaks}END IONS\n\n"


# Commands --------------------------------------------------------------------------------------


def measured(*words: Any) -> dict[str, float]:
    """Run a command of skout; return its wall and CPU seconds and its largest memory."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "skout", *map(str, words)])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return {
        "wall seconds": round(time.perf_counter() - start, 1),
        "CPU seconds": round(used.ru_utime + used.ru_stime, 1),
        "memory GB": round(used.ru_maxrss / 1e6, 2),
        "load": round(os.getloadavg()[1], 1),
    }


def extend(part: str, results: dict[str, Any]) -> None:
    """Put the results of a part into the record."""
    path = RECORDS / "identify.json"
    record = read_record("identify") if path.exists() else {"experiment": "identify", "parts": {}}
    record["parts"][part] = surroundings() | {"seed": 0, "results": results}
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(results, indent=1))


def fit(pool: Path) -> None:
    spent = measured("fit-spectra", LIBRARY, "--pool", pool, "--ppm", PPM, "-o", MODEL)
    model = load(MODEL)
    size = round(MODEL.stat().st_size / 1e6, 1)
    settings = {"pool": len(MoleculePool.open(pool)), "model MB": size}
    extend("fit", spent | settings | {"validation": model.validation_})


def sets() -> None:
    """Judge the model with the candidates of massbank.py, beside the model of two_way.py.

    The library has more molecules than the training part of `two_way.py`, which keeps a tenth for
    validation; so the same model is fitted once more, on that part alone.
    """
    problem, model = Problem(), load(MODEL)
    test = problem.test
    few_rows = few(problem, problem.train, 6)
    fitted = {"library": model.predictor_, "training part": as_two_way(problem, model, few_rows)}
    found: dict[str, Any] = {"n_test": len(test), "weight": model.predictor_.weight_}
    for name, predictor in fitted.items():
        start = time.process_time()
        ranks = ranks_of(problem, predictor, problem.spectra[test], test)
        row = judge(problem, ranks, test) | {"MRR@25": mrr_25(problem, ranks, test)}
        found[name] = row | {"CPU seconds": round(time.process_time() - start, 1)}
    found["library"]["molecules"] = model.validation_["n_library"]
    found["training part"]["molecules"] = len(np.unique(problem.keys[few_rows]))
    others = [one["both"]["MRR"] for one in read_record("two_way_spectra")["results"]]
    extend("sets", found | {"MRR of two_way.py": float(np.mean(others)), "its draws": others})


def as_two_way(problem: Problem, model: Any, rows: np.ndarray) -> Any:
    """Return the model with its weight, fitted on some spectra; kernels are combined anew."""
    X, Y = problem.spectra[rows], problem.pool[problem.place[rows]]
    molecule = np.unique(problem.keys[rows], return_inverse=True)[1]
    kernel = combined_kernel(X, Y, molecule, np.random.default_rng(0))
    design = Design(kernel, *model.n_landmarks, 0)
    own = model.predictor_
    return design.two_ways(molecule, own.weight_, own.normalisation_).fit(X, Y)


def mrr_25(problem: Problem, ranks: np.ndarray, some: np.ndarray) -> float:
    """Return the mean reciprocal rank over molecules, 0 for ranks beyond 25."""
    found = np.where(ranks <= TOP, ranks, np.inf)
    return float(judge(problem, found, some)["MRR"])


def search(pool: Path, ppm: float, by: str) -> None:
    hits = CACHE / "hits.json"
    model = ("--model", MODEL, "--pool", pool, "--ppm", ppm, "--top", TOP, "--by", by)
    spent = measured("identify", UNKNOWN, *model, "-o", hits)
    found = json.loads(hits.read_text())["results"]
    molecules = MoleculePool.open(pool)
    keys = np.array([one["query"].split()[1] for one in found])
    place, masses = molecules.by_key(keys), np.array([one["mass"] for one in found], dtype=float)
    exact = molecules.masses(np.maximum(place, 0))
    reached = (place >= 0) & np.isfinite(masses)
    reached &= (by == "formula") | (np.abs(exact - masses) <= 1e-6 * ppm * masses)
    ranks = np.array([rank_of(one, key, molecules) for one, key in zip(found, keys, strict=True)])
    sizes = np.array([one["n_candidates"] for one in found])
    chosen = np.flatnonzero(reached)
    covered = np.array([in_set(found[i], ranks[i]) for i in chosen])
    first = np.array([one["hits"][0]["confidence"] if one["hits"] else 0.0 for one in found])[
        chosen
    ]
    several = sizes[chosen] > 1
    among = chosen[with_isomers(found)[chosen]]
    extend(
        f"search {pool.stem}, " + (f"{ppm:g} ppm" if by == "mass" else by),
        spent
        | by_molecule(ranks[chosen], keys[chosen])
        | {
            "with isomers": by_molecule(ranks[among], keys[among]),
            "molecules in the pool": len(molecules),
            "spectra": len(found),
            "molecule in the pool": int((place >= 0).sum()),
            "molecule among the candidates": int(reached.sum()),
            "candidates, mean": float(sizes.mean()),
            "candidates, median": float(np.median(sizes)),
            "candidates, most": int(sizes.max()),
            "several candidates": int(several.sum()),
            "in the set and the first 25, of several": mean_of(
                covered[several], keys[chosen][several]
            ),
            "confidence of the first, mean": mean_of(first, keys[chosen]),
            "equal to Python": equal_to_python(found, molecules, ppm, by),
        },
    )


def coverage(pool: Path) -> None:
    """Record how often prediction sets, whole ones, hold the molecule where there is a choice."""
    model, molecules, table = load(MODEL), MoleculePool.open(pool), read_mgf(UNKNOWN)
    found = model.identify(table, molecules, ppm=PPM, top=len(molecules))
    keys = np.array([one.query.split()[1] for one in found])
    place = molecules.by_key(keys)
    own = [
        next((hit for hit in one.hits if hit.index == i), None)
        for one, i in zip(found, place, strict=True)
    ]
    several = np.array([len(one.hits) > 1 for one in found])
    chosen = np.flatnonzero(several & np.array([hit is not None for hit in own]))
    isomers = with_isomers([one.as_dict() for one in found])
    parts = {"all": chosen, "with isomers": chosen[isomers[chosen]]}
    results = {"wanted": model.coverage} | {
        name: _coverage(found, own, keys, some) for name, some in parts.items()
    }
    extend(f"coverage {pool.stem}", results)


def _coverage(found: Any, own: Any, keys: np.ndarray, some: np.ndarray) -> dict[str, float]:
    """Return how often sets hold the molecule, as a mean over molecules, and how large they are."""
    held = np.array([own[i].in_set for i in some])
    spread = by_molecule(np.where(held, 1.0, np.inf), keys[some])
    sizes = np.array([found[i].n_in_set for i in some])
    return {
        "held": spread["top-1"], "se": spread["top-1 se"], "molecules": spread["test molecules"],
        "mean size": mean_of(sizes, keys[some]), "median size": float(np.median(sizes)),
        "median candidates": float(np.median([found[i].n_candidates for i in some])),
    }  # fmt: skip


def with_isomers(found: list[dict[str, Any]]) -> np.ndarray:
    """Return which spectra are of molecules that have others of their formula in the data."""
    numbers = np.array([int(one["query"].split()[0]) for one in found])
    return np.isin(numbers, Problem().test)


def mean_of(values: np.ndarray, keys: np.ndarray) -> float:
    """Return the mean over molecules."""
    _, number, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return float(np.mean(np.bincount(number, values) / counts))


def rank_of(one: dict[str, Any], key: str, pool: MoleculePool) -> float:
    """Return the place of the molecule among the hits, infinite where it is not there."""
    found = pool.keys([hit["index"] for hit in one["hits"]]) if one["hits"] else []
    return next((float(i) for i, own in enumerate(found, 1) if own == key), np.inf)


def in_set(one: dict[str, Any], rank: float) -> bool:
    return bool(np.isfinite(rank) and one["hits"][int(rank) - 1]["in_set"])


def by_molecule(ranks: np.ndarray, keys: np.ndarray) -> dict[str, Any]:
    """Return means over molecules with their standard errors."""
    _, number, counts = np.unique(keys, return_inverse=True, return_counts=True)
    values = {
        "top-1": ranks <= 1, "top-10": ranks <= 10, "MRR@25": np.where(ranks <= TOP, 1 / ranks, 0),
    }  # fmt: skip
    out: dict[str, Any] = {"test molecules": len(counts)}
    for name, value in values.items():
        mean = np.bincount(number, value) / counts
        out |= {name: float(mean.mean()), f"{name} se": float(mean.std() / np.sqrt(len(mean)))}
    return out


def equal_to_python(found: list[dict[str, Any]], pool: MoleculePool, ppm: float, by: str) -> bool:
    """Whether the first hundred spectra have the same hits in Python."""
    model, table = load(MODEL), read_mgf(UNKNOWN, limit=100)
    again = model.identify(table, pool, ppm=ppm, top=TOP, by=by)
    own = [one.as_dict() | {"seconds": 0} for one in again]
    same = [one | {"seconds": 0} for one in found[: len(own)]]
    return json.loads(json.dumps(own)) == same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("files", "fit", "sets", "search", "coverage"))
    parser.add_argument("--pool", type=Path, help="what `skout pool build` made")
    parser.add_argument("--ppm", type=float, default=PPM)
    parser.add_argument("--by", choices=("mass", "formula"), default="mass")
    options = parser.parse_args()
    if options.part in ("fit", "search", "coverage") and options.pool is None:
        parser.error("--pool is needed")
    if options.part == "search":
        search(options.pool, options.ppm, options.by)
    elif options.part in ("fit", "coverage"):
        {"fit": fit, "coverage": coverage}[options.part](options.pool)
    else:
        {"files": files, "sets": sets}[options.part]()


if __name__ == "__main__":
    main()
