"""A pool of the MOSES molecules and all candidates of the data folder: built, opened, searched.

    pip download molsets --no-deps
    python -m benchmarks.pool --wheel molsets-0.3.1-py3-none-any.whl --out FOLDER [--part ...]

The wheel is read as an archive and never installed. Molecules are written as SMILES to FOLDER, and
the pool to FOLDER/moses.skpool; `--molecules 20000` takes so many of MOSES.

profile  Microseconds a molecule for each step, in one process.
build    `skout pool build` with two processes: seconds, processor seconds (which other work on the
         machine does not change), and the peak memory of all its processes together. It goes on
         where an earlier one was killed, and then tells of the rest only.
look     Open the pool, and find the candidates of 1,000 masses within 10 ppm.
identify Identify 1,000 open spectra by mass with the model that comes with skout, in a --pool with
         its fingerprints (`skout pool build --kind morgan,counts,pairs`). It has its own record.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as parquet
from rdkit import Chem, rdBase
from rdkit.Chem import rdinchi, rdMolDescriptors
from tqdm import tqdm

from benchmarks.measure import RECORDS, print_table, write_record
from skout.apps.spectra.identify import columns
from skout.apps.spectra.pools import parts, standard
from skout.apps.spectra.shipped import default_model
from skout.apps.spectra.shipped.training import open_library
from skout.datasets import load as load_data
from skout.molecules import MoleculePool, fingerprints

SEED, PPM, QUERIES, PROFILED = 0, 10.0, 1000, 4000
MOSES = ("train", "test", "test_scaffolds")
PARTS = ["profile", "build", "look"]
FINGERPRINTS = {"kind": "morgan", "n_bits": 4096, "radius": 2}
Molecule = tuple[str, str]


# Sources ------------------------------------------------------------------------------------------


def moses(wheel: Path) -> Iterator[Molecule]:
    """Yield the SMILES of MOSES from the wheel of the package molsets, which is not installed."""
    with zipfile.ZipFile(wheel) as archive:
        for name in MOSES:
            path = f"moses/dataset/data/{name}.csv.gz"
            with archive.open(path) as file, gzip.open(file, "rt") as text:
                yield from ((row["SMILES"], "") for row in csv.DictReader(text))


def candidates(folder: Path) -> Iterator[Molecule]:
    """Yield all candidates of the data folder, those with names first."""
    spectra = parquet.read_table(folder / "massbank_ms2_pos_mh.parquet", columns=["smiles", "name"])
    yield from dict.fromkeys(zip(*spectra.to_pydict().values(), strict=True))
    for name, column in (("text_molecule_iupac", "iupac"), ("text_molecule_pairs", "")):
        for row in table(folder / f"{name}.csv.gz"):
            yield row["smiles"], row.get(column, "")
    for row in table(folder / "chebi20_candidate_pool.csv.gz"):
        yield row["smiles"], f"CID {row['cid']}"
    sets = parquet.read_table(folder / "massbank_formula_candidates.parquet")
    yield from ((text, "") for text in sets["smiles_2d"].to_pylist())


def table(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def write_sources(out: Path, wheel: Path, most: int | None) -> list[Path]:
    """Write lines "SMILES name", unless they are there already."""
    folder = Path(os.environ["SKOUT_DATA"])
    paths = [out / f"{name}{most or ''}.smi" for name in ("candidates", "moses")]
    for path, molecules in zip(paths, (candidates(folder), moses(wheel)), strict=True):
        if path.exists():
            continue
        with open(path, "w", encoding="utf-8") as file:
            for number, (text, name) in enumerate(tqdm(molecules, desc=path.name, mininterval=5)):
                if number == most:
                    break
                file.write(f"{text}\t{' '.join(name.split())}\n")
    return paths


# Profile ------------------------------------------------------------------------------------------


def profile(source: Path) -> list[dict[str, Any]]:
    """Return the microseconds a molecule of each step."""
    with open(source, encoding="utf-8") as file:
        texts = [line.split("\t")[0] for line, _ in zip(file, range(PROFILED), strict=False)]
    block = rdBase.BlockLogs()
    rows: list[dict[str, Any]] = []

    def step(name: str, function: Any) -> Any:
        clock = time.process_time()
        found = function()
        each = (time.process_time() - clock) / len(texts) * 1e6
        rows.append({"what": f"{source.stem}: {name}", "microseconds": each})
        return found

    read = [Chem.MolFromSmiles(text) for text in texts]  # warm
    read = step("read SMILES", lambda: [Chem.MolFromSmiles(text) for text in texts])
    step("InChIKey", lambda: [rdinchi.MolToInchiKey(mol) for mol in read])
    step("write SMILES", lambda: [Chem.MolToSmiles(mol) for mol in read])
    step("formula", lambda: [rdMolDescriptors.CalcMolFormula(mol) for mol in read])
    step("mass", lambda: [rdMolDescriptors.CalcExactMolWt(mol) for mol in read])
    step("fingerprint", lambda: fingerprints(read, **FINGERPRINTS))
    step("all but the fingerprint, standardised", lambda: list(standard.entries(texts)))
    path = source.with_name("profile.npz")
    batch = [(text, "") for text in texts]
    step("a batch as a file", lambda: parts.make_part(batch, 0, FINGERPRINTS, path))
    path.unlink()
    del block
    return rows


# Build --------------------------------------------------------------------------------------------


def build(sources: list[Path], pool: Path, n_jobs: int) -> list[dict[str, Any]]:
    """Build the pool as a process of its own, which is watched."""
    words = ["pool", "build", *map(str, sources), "-o", str(pool), "--n-jobs", str(n_jobs)]
    finished = len(list(pool.with_name(f"{pool.name}.building").glob("*.npz")))
    clock = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "skout", *words, "--json"], stdout=subprocess.PIPE, text=True
    )
    watched = watch(process)
    seconds = time.perf_counter() - clock
    assert process.stdout is not None
    printed = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"skout pool build failed with exit code {process.returncode}")
    found = {"what": "build", "n_jobs": n_jobs, "batches_at_hand": finished, "seconds": seconds}
    return [found | watched | json.loads(printed)]


def watch(process: Any, every: float = 0.25) -> dict[str, float]:
    """Return the processor seconds and peaks of memory of a process and its children."""
    spent: dict[int, float] = {}
    anonymous = resident = 0.0
    while process.poll() is None:
        held = [usage(one, spent) for one in family(process.pid)]
        anonymous = max(anonymous, sum(one for one, _ in held))
        resident = max(resident, sum(one for _, one in held))
        time.sleep(every)
    total = sum(spent.values())
    return {
        "cpu_seconds": total,
        "two_quiet_cores_seconds": total / 2,
        "peak_anonymous_megabytes": anonymous / 1e6,
        "peak_resident_megabytes": resident / 1e6,  # with files that are mapped
    }


def family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def usage(process: psutil.Process, spent: dict[int, float]) -> tuple[float, float]:
    """Note the processor seconds of a process; return its anonymous and resident memory."""
    try:
        times, memory = process.cpu_times(), process.memory_info()
    except psutil.Error:
        return 0.0, 0.0
    spent[process.pid] = times.user + times.system
    return float(memory.rss - memory.shared), float(memory.rss)


# Look ---------------------------------------------------------------------------------------------


def look(pool: Path) -> list[dict[str, Any]]:
    """Return the seconds to open and to find, in this process, and what is found."""
    clock = time.perf_counter()
    opened = MoleculePool.open(pool)
    rows: list[dict[str, Any]] = [{"what": "open", "seconds": time.perf_counter() - clock}]
    chosen = np.random.default_rng(SEED).integers(0, len(opened), QUERIES)
    masses = opened.masses(chosen)
    found: list[np.ndarray] = []
    rows.append(
        timed("candidates of a mass", masses, lambda m: found.append(opened.by_mass(m, PPM)))
    )
    rows[-1]["mean_candidates"] = float(np.mean([len(some) for some in found]))
    rows.append(timed("SMILES and fingerprints of these", found, lambda some: read(opened, some)))
    formulas = opened.formulas(chosen)
    rows.append(timed("molecules of a formula", formulas, opened.by_formula))
    keys = opened.keys(chosen)
    rows.append(timed("molecule of a key", keys, lambda key: opened.by_key([key])))
    clock = time.perf_counter()
    opened.check()
    return [*rows, {"what": "check all digests", "seconds": time.perf_counter() - clock}]


def read(pool: MoleculePool, some: np.ndarray) -> None:
    pool.smiles(some)
    pool.fingerprints(some)


def timed(what: str, items: Any, function: Any) -> dict[str, Any]:
    """Return the first, the median, the 99 % quantile and the longest of some calls, in ms."""
    spent = []
    for item in items:
        clock = time.perf_counter()
        function(item)
        spent.append(1e3 * (time.perf_counter() - clock))
    quantiles = {"p50_ms": float(np.median(spent)), "p99_ms": float(np.quantile(spent, 0.99))}
    return {"what": what, "first_ms": spent[0], **quantiles, "most_ms": max(spent)}


# Identify -----------------------------------------------------------------------------------------


def identify(pool: Path) -> list[dict[str, Any]]:
    """Return the seconds to identify spectra by mass, processor seconds of its parts, and sizes.

    Of spectra of any mass, and of those whose masses the molecules of MOSES have.
    """
    data = load_data("msms_open")
    spectra = open_library(data, np.arange(len(data.X)))
    masses = spectra.neutral_mass()
    model, opened = default_model(), MoleculePool.open(pool)
    spent = {"way_columns": 0.0, "fragment_columns": 0.0}
    for name in spent:
        setattr(columns, name, counted(getattr(columns, name), spent))
    model.identify(spectra.take(slice(0, 2)), opened, ppm=PPM)  # warm
    results = []
    for what, low, high in (("any mass", 0.0, np.inf), ("250 to 350 Da", 250.0, 350.0)):
        rows = np.flatnonzero((masses > low) & (masses < high))
        rows = np.random.default_rng(SEED).choice(rows, QUERIES, replace=False)
        spent.update(dict.fromkeys(spent, 0.0))
        results.append({"what": what} | identified(model, spectra.take(rows), opened, spent))
    return results


def identified(model: Any, spectra: Any, pool: Any, spent: dict[str, float]) -> dict[str, Any]:
    """Return what it takes to identify these spectra."""
    load, clock, processor = os.getloadavg()[0], time.perf_counter(), time.process_time()
    results = model.identify(spectra, pool, ppm=PPM)
    seconds, processor = time.perf_counter() - clock, time.process_time() - processor
    sizes = np.array([result.n_candidates for result in results])
    return {
        "molecules": len(pool),
        "spectra": len(results),
        "without_candidates": int((sizes == 0).sum()),
        "mean_candidates": float(sizes.mean()),
        "most_candidates": int(sizes.max()),
        "seconds": seconds,
        "cpu_seconds": processor,
        **{f"cpu_seconds_{name}": value for name, value in spent.items()},
        "load_before": load,
        "load_after": os.getloadavg()[0],
    }


def counted(function: Any, spent: dict[str, float]) -> Any:
    """Return a function that adds its processor seconds to what was spent under its name."""

    def run(*args: Any) -> Any:
        start = time.process_time()
        result = function(*args)
        spent[function.__name__] += time.process_time() - start
        return result

    return run


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--wheel", type=Path, help="of all parts but identify")
    parser.add_argument("--out", type=Path, help="of all parts but identify")
    parser.add_argument("--molecules", type=int)
    parser.add_argument("--pool", type=Path, help="of identify")
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--part", nargs="+", choices=[*PARTS, "identify"], default=PARTS)
    given = parser.parse_args()
    missing = given.pool is None if given.part == ["identify"] else not (given.wheel and given.out)
    if missing or ("identify" in given.part and len(given.part) > 1):
        parser.error("identify goes alone, and needs --pool; the others --wheel and --out")
    if given.part == ["identify"]:
        rows = identify(given.pool)
        print_table(rows, list(rows[0]))
        settings = {"seed": SEED, "ppm": PPM, "threads": os.environ.get("OMP_NUM_THREADS")}
        print(write_record("pool_identify", settings, rows))
        return
    given.out.mkdir(exist_ok=True)
    sources = write_sources(given.out, given.wheel, given.molecules)
    pool = given.out / f"moses{given.molecules or ''}.skpool"
    run = {
        "profile": lambda: [row for source in sources for row in profile(source)],
        "build": lambda: build(sources, pool, given.n_jobs),
        "look": lambda: look(pool),
    }
    name = "pool" if given.molecules is None else f"pool_{given.molecules}"
    results = {part: {"part": part, "rows": run[part]()} for part in given.part}
    path = RECORDS / f"{name}.json"
    if path.exists():  # parts that were run before stay
        results = {one["part"]: one for one in json.loads(path.read_text())["results"]} | results
    for one in results.values():
        print_table(one["rows"], list(dict.fromkeys(key for row in one["rows"] for key in row)))
    settings = {"seed": SEED, "ppm": PPM, "queries": QUERIES, "profiled": PROFILED}
    settings |= {"molecules": given.molecules, "rdkit": rdBase.rdkitVersion, **FINGERPRINTS}
    print(write_record(name, settings, [results[part] for part in PARTS if part in results]))


if __name__ == "__main__":
    main()
