"""Metabolite identification, the task of table 4.4, on MassBank: from a spectrum to its molecule.

    python -m experiments.papers.massbank prepare [--moses WHEEL]  candidates, fingerprints; RDKit
    python -m experiments.papers.massbank run [--quick]  all methods, record
    python -m experiments.papers.massbank alignf landmarks [--quick]  rows added to the record
    python -m experiments.papers.massbank draws [--quick]  ten draws of three sketches
    python -m experiments.papers.massbank table  that record, as markdown

44,054 spectra of 3,833 molecules. A tenth of the molecules, by InChIKey skeleton, is the test part,
another tenth is for validation: none of them is seen in training. Candidates of a spectrum are the
molecules of its formula, from the public sets of `massbank_formula_candidates.parquet` and, with
the wheel of the package molsets, the 1.9 million of MOSES. Spectra whose set has one candidate are
left out of the test: nothing is to be found there. The thesis has 6,974 training spectra, other
data and larger candidate sets (median 292), so only the order compares.

Inputs: the probability product kernels of peaks and of neutral losses, added. Outputs: the
Gaussian Tanimoto kernel of Morgan fingerprints. Widths and alpha are chosen on the validation part
with the sketched model, for all methods; once for 7,000 spectra and once for all.

Seconds are those of the processor, all threads together. Parts beside `run`, whose rows they leave
as they are:

alignf     Weights of six kernels on spectra by ALIGNF, learnt on the 7,000 training spectra.
landmarks  All spectra, with landmarks drawn by molecule: a molecule of 100 spectra is as likely to
           be a landmark as one of a single spectrum.
draws      How much of the differences is the draw of the landmarks: ten seeds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.common import (
    HERE,
    RECORDS,
    clock,
    mean_sd,
    print_table,
    read_record,
    surroundings,
    write_record,
)
from skout import CandidateSets, KernelBasis, StructuredPredictor, iokr
from skout.datasets import load
from skout.kernels import (
    GaussianTanimoto,
    Normalized,
    PackedBits,
    PeakCosine,
    ProbabilityProduct,
    Tanimoto,
    align,
)
from skout.sketches import SubSample

CACHE = HERE / "cache"
N_EXACT, M_X, M_Y = 7000, 1500, 800
N_DRAWS = 10
GAMMAS, ALPHAS = (0.5, 1.0, 2.0), (1e-6, 1e-5, 1e-4)
FILES = ("train.csv.gz", "test.csv.gz", "test_scaffolds.csv.gz")
THESIS = {  # kernel loss, top-1, 5, 10 in %
    "IOKR": (0.486, 29.6, 61.6, 71.4), "SIOKR": (0.492, 29.5, 61.3, 70.9),
    "ISOKR": (0.509, 28.0, 58.9, 68.9), "SISOKR": (0.566, 25.1, 54.2, 64.7),
}  # fmt: skip


# Data ------------------------------------------------------------------------------------------


def prepare(wheel: Path | None) -> None:
    """Write candidate sets with fingerprints, and the place of the truth in each."""
    from rdkit import Chem, RDLogger

    from skout.molecules import fingerprints

    RDLogger.DisableLog("rdApp.*")
    data = load("massbank")
    flat = {text: _flat(Chem, text) for text in set(map(str, data.Y))}
    truth = [flat[str(text)] for text in data.Y]
    formula = [str(name) for name in data.extra["formula"]]
    members: dict[str, list[str]] = {name: [] for name in set(formula)}
    for i, name in enumerate(formula):
        if not members[name]:
            members[name] = [str(text) for text in data.candidates[i]]
    for text, name in zip(truth, formula, strict=True):
        if text not in members[name]:
            members[name].append(text)
    known = {name: set(some) for name, some in members.items()}
    if wheel is not None:
        add_moses(Chem, wheel, members)
    names = sorted(members)
    number = {name: i for i, name in enumerate(names)}
    sets = [sorted(set(members[name])) for name in names]
    smiles = [text for some in sets for text in some]
    added = [t not in known[name] for name, some in zip(names, sets, strict=True) for t in some]
    print(f"{len(smiles)} candidates of {len(names)} formulas")
    bits = fingerprints(smiles, n_bits=4096, verbose=True)
    starts = np.cumsum([0, *map(len, sets)])
    place = [
        starts[number[name]] + sets[number[name]].index(text)
        for text, name in zip(truth, formula, strict=True)
    ]
    CACHE.mkdir(exist_ok=True)
    np.savez_compressed(
        CACHE / "massbank.npz", words=bits.words, n_bits=bits.n_bits, starts=starts,
        formula=np.array([number[name] for name in formula]), place=np.array(place),
        smiles=np.array(smiles), moses=wheel is not None, added=np.array(added),
    )  # fmt: skip


def _flat(Chem: Any, text: str) -> str:
    return Chem.MolToSmiles(Chem.MolFromSmiles(text), isomericSmiles=False)


def heavy_atoms(found: list[tuple[str, str]]) -> tuple[int, ...]:
    """Add up (atom, number) pairs: C, N, O, S, F, Cl, Br."""
    total: Counter[str] = Counter()
    for atom, number in found:
        total[atom] += int(number or 1)
    return tuple(total[atom] for atom in ("C", "N", "O", "S", "F", "Cl", "Br"))


def of_formula(formula: str) -> tuple[int, ...]:
    return heavy_atoms(re.findall("(Cl|Br|[CNOSF](?![a-z]))([0-9]*)", formula))


def of_smiles(smiles: str) -> tuple[int, ...]:
    """Count atoms without reading the molecule; its digits are rings."""
    atoms = re.findall("Cl|Br|[CNOSFcnos]", smiles)
    return heavy_atoms([(atom if len(atom) == 2 else atom.upper(), "") for atom in atoms])


def add_moses(Chem: Any, wheel: Path, members: dict[str, list[str]]) -> None:
    """Add the MOSES molecules of the formulas asked for."""
    from rdkit.Chem.rdMolDescriptors import CalcMolFormula

    wanted = {of_formula(name) for name in members}  # most molecules need not be read
    with zipfile.ZipFile(wheel) as archive:
        for name in FILES:
            with archive.open(f"moses/dataset/data/{name}") as file, gzip.open(file, "rt") as text:
                lines = text.read().splitlines()[1:]
            for line in tqdm(lines, desc=name, mininterval=10):
                smiles = line.split(",")[0]
                if of_smiles(smiles) not in wanted:
                    continue
                molecule = Chem.MolFromSmiles(smiles)
                found = members.get(CalcMolFormula(molecule))
                if found is not None:
                    found.append(Chem.MolToSmiles(molecule, isomericSmiles=False))


def with_precursors(data: Any) -> Any:
    """Return the spectra; where the precursor is not given it is the molecule and a proton."""
    rows = data.X
    proton = 1.007276
    known = np.asarray(data.extra["exact_mass"], dtype=np.float64) + proton
    filled = np.where(np.isnan(rows.precursor), known[rows.row_numbers], rows.precursor)
    return rows.like(rows.indptr, rows.mz, rows.intensity, filled)


def without_moses(z: dict[str, Any]) -> dict[str, Any]:
    """Return candidates without those that MOSES added."""
    keep = ~z["added"]
    before = np.concatenate([[0], np.cumsum(keep)])
    less = {name: z[name][keep] for name in ("words", "smiles", "added")}
    return z | less | {"starts": before[z["starts"]], "place": before[z["place"]], "moses": False}


class Problem:
    """Spectra, the molecules behind them, candidates, and the parts of the split."""

    def __init__(self, seed: int = 0, *, moses: bool = True) -> None:
        self.data = data = load("massbank")
        with np.load(CACHE / "massbank.npz") as file:
            z = {name: file[name] for name in file.files}
        z = z if moses else without_moses(z)
        self.spectra, self.smiles, self.moses = with_precursors(data), z["smiles"], bool(z["moses"])
        self.pool = PackedBits(z["words"], int(z["n_bits"]))
        self.place, self.starts, self.formula = z["place"], z["starts"], z["formula"]
        self.keys = keys = np.array([str(key)[:14] for key in data.extra["inchikey"]])
        order = np.random.default_rng(seed).permutation(np.unique(keys))
        tenth = len(order) // 10
        several = np.diff(self.starts)[self.formula] > 1
        self.unseen = np.flatnonzero(np.isin(keys, order[:tenth]))  # those of one candidate, too
        self.test = self.unseen[several[self.unseen]]
        self.val = np.flatnonzero(np.isin(keys, order[tenth : 2 * tenth]) & several)
        self.train = np.flatnonzero(np.isin(keys, order[2 * tenth :]))

    def sets(self, some: np.ndarray) -> CandidateSets:
        """Return the candidates of some spectra."""
        first = self.starts[self.formula[some]]
        sizes = np.diff(self.starts)[self.formula[some]]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        indices = np.concatenate([np.arange(a, a + n) for a, n in zip(first, sizes, strict=True)])
        return CandidateSets(self.pool, indptr, indices)


# Methods ---------------------------------------------------------------------------------------


def input_kernel() -> Any:
    return Normalized(ProbabilityProduct()) + Normalized(ProbabilityProduct(neutral_loss=True))


def spectrum_kernels() -> list[Any]:
    """Return what ALIGNF combines: fragments and losses at two accuracies, and two cosines."""
    widths = {"sigma_mass": 0.005}, {"sigma_mass": 0.02}
    return [
        *(Normalized(ProbabilityProduct(**w)) for w in widths),
        *(Normalized(ProbabilityProduct(**w, neutral_loss=True)) for w in widths),
        *(PeakCosine(intensity_power=power) for power in (0.5, 0.25)),
    ]


def model(
    name: str,
    gamma: float,
    alpha: float,
    seed: int = 0,
    kernel: Any = None,
    probabilities: np.ndarray | None = None,
) -> Any:
    """Return a method of the thesis; landmarks are drawn with these probabilities."""
    x, y = (SubSample(m, probabilities) for m in (M_X, M_Y))
    sketches = {
        "IOKR": (None, None), "SIOKR": (x, None), "ISOKR": (None, y), "SISOKR": (x, y)
    }[name]  # fmt: skip
    return iokr(
        input_kernel() if kernel is None else kernel, GaussianTanimoto(gamma),
        input_sketch=sketches[0], output_sketch=sketches[1], alpha=alpha, random_state=seed,
    )  # fmt: skip


def judge(problem: Problem, ranks: np.ndarray, some: np.ndarray) -> dict[str, float]:
    """Return means over molecules, of which some have hundreds of spectra, not over spectra."""
    _, number, counts = np.unique(problem.keys[some], return_inverse=True, return_counts=True)
    w = 1.0 / counts[number] / len(counts)
    row = {f"top-{k} %": 100.0 * float(w @ (ranks <= k)) for k in (1, 5, 10)}
    row |= {"MRR": float(w @ (1.0 / ranks)), "mean rank": float(w @ ranks)}
    return row | {"top-1 % of spectra": 100.0 * float(np.mean(ranks <= 1))}


def ranks_of(problem: Problem, predictor: Any, X: Any, some: np.ndarray) -> np.ndarray:
    truth = problem.pool[problem.place[some]]
    return predictor.truth_ranks(X, truth, problem.sets(some))


def kernel_loss(problem: Problem, predictor: Any, X: Any, some: np.ndarray) -> float:
    """Return the mean of 1 - k(prediction, truth)."""
    sets = problem.sets(some)
    index, _ = predictor.rank(X, sets, k=1)
    found = sets.indices[sets.indptr[:-1] + index[:, 0]]
    kernel = predictor.output_basis_.kernel_
    truth = problem.pool[problem.place[some]]
    return float(1.0 - kernel.paired(problem.pool[found], truth).mean())


def choose(
    problem: Problem, train: np.ndarray, val: np.ndarray, **options: Any
) -> tuple[float, float]:
    """Return the width and alpha of the largest mean reciprocal rank on the validation part."""
    best = (-1.0, 0.0, 0.0)
    for gamma in GAMMAS:
        for alpha in ALPHAS:
            predictor = model("SISOKR", gamma, alpha, **options)
            predictor.fit(problem.spectra[train], problem.pool[problem.place[train]])
            ranks = ranks_of(problem, predictor, problem.spectra[val], val)
            row = judge(problem, ranks, val)
            print(f"gamma {gamma:g}, alpha {alpha:g}", row, flush=True)
            best = max(best, (row["MRR"], gamma, alpha))
    return best[1:]


def nearest_spectrum(problem: Problem, train: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Rank candidates by their likeness to the molecule of the most similar training spectrum."""
    kernel = PeakCosine()
    known = problem.spectra[train]
    block = kernel.against(known)
    nearest = np.concatenate([
        block(problem.spectra[part]).argmax(axis=1)
        for part in np.array_split(some, max(1, len(some) // 200))
    ])  # fmt: skip
    sets, out = problem.sets(some), []
    for i, j in enumerate(nearest):
        own = sets.indices[sets.indptr[i] : sets.indptr[i + 1]]
        found = problem.pool[problem.place[train[j]] : problem.place[train[j]] + 1]
        scores = Tanimoto()(found, problem.pool[own])[0]
        truth = scores[np.flatnonzero(own == problem.place[some[i]])[0]]
        out.append(1 + np.sum(scores > truth) + 0.5 * (np.sum(scores == truth) - 1))
    return np.array(out)


def forest(gamma: float) -> StructuredPredictor:
    from sklearn.ensemble import RandomForestRegressor

    basis = KernelBasis(
        GaussianTanimoto(gamma), SubSample(M_Y), whiten="eigh", rank=100, random_state=0
    )
    trees = RandomForestRegressor(
        50, max_features=0.1, min_samples_leaf=3, n_jobs=-1, random_state=0
    )
    return StructuredPredictor(trees, basis)


def binned(problem: Problem, some: np.ndarray) -> np.ndarray:
    """Return spectra as sums of root intensities in bins of one mass unit."""
    rows = problem.spectra[some]
    mass, intensity = rows.columns[:2]
    out = np.zeros((len(rows), 1000), dtype=np.float32)
    place = np.clip(mass.astype(int), 0, 999)
    np.add.at(out, (rows.row_numbers, place), np.sqrt(np.maximum(intensity, 0.0)))
    return out


def parts_of(problem: Problem, quick: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the training spectra of the exact models, validation and test spectra."""
    rng = np.random.default_rng(0)
    small = np.sort(rng.permutation(problem.train)[: 1000 if quick else N_EXACT])
    val = np.sort(rng.permutation(problem.val)[: 200 if quick else 1000])
    return small, val, problem.test[:200] if quick else problem.test


def run(quick: bool) -> None:
    problem = Problem()
    train = problem.train
    small, val, test = parts_of(problem, quick)
    chosen = {len(part): choose(problem, part, val) for part in (small, train)}
    gamma = chosen[len(small)][0]
    rows = []

    def add(
        name: str, n: int, fit: float, spent: float, ranks: np.ndarray, loss: float | None = None
    ) -> None:
        row = {"method": name, "n": n, "fit seconds": fit, "predict seconds": spent}
        rows.append(row | {"kernel loss": loss} | judge(problem, ranks, test))
        print_table(rows[-1:], list(rows[-1]))

    jobs = [(name, small) for name in ("IOKR", "SIOKR", "ISOKR", "SISOKR")] + [("SISOKR", train)]
    for name, part in jobs:
        predictor = model(name, *chosen[len(part)])
        with clock() as fit:
            predictor.fit(problem.spectra[part], problem.pool[problem.place[part]])
        with clock() as spent:
            ranks = ranks_of(problem, predictor, problem.spectra[test], test)
        loss = kernel_loss(problem, predictor, problem.spectra[test], test)
        add(name, len(part), fit.cpu, spent.cpu, ranks, loss)
    trees = forest(gamma)
    with clock() as fit:
        trees.fit(binned(problem, small), problem.pool[problem.place[small]])
    with clock() as spent:
        ranks = ranks_of(problem, trees, binned(problem, test), test)
    add("random forest", len(small), fit.cpu, spent.cpu, ranks)
    for part in (small, train):
        with clock() as spent:
            ranks = nearest_spectrum(problem, part, test)
        add("nearest spectrum", len(part), 0.0, spent.cpu, ranks)
    sizes = np.diff(problem.starts)[problem.formula[test]]
    chance = np.mean(1.0 / sizes)
    print_table(rows, list(rows[0]))
    settings = {
        "m_x": M_X,
        "m_y": M_Y,
        "chosen (gamma, alpha) for n": {str(n): pair for n, pair in chosen.items()},
        "n_test": len(test),
        "n_val": len(val),
        "candidates": {"mean": float(sizes.mean()), "median": float(np.median(sizes))},
        "chance top-1 %": 100.0 * float(chance),
        "moses": problem.moses,
        "thesis": THESIS,
    }
    if not quick:
        write_record("massbank", settings, rows)


# Parts beside the run --------------------------------------------------------------------------


def by_molecule(problem: Problem, some: np.ndarray) -> np.ndarray:
    """Return probabilities of rows such that each molecule has the same."""
    _, number, counts = np.unique(problem.keys[some], return_inverse=True, return_counts=True)
    return 1.0 / counts[number] / len(counts)


def fitted_row(
    problem: Problem, name: str, predictor: Any, some: np.ndarray, test: np.ndarray
) -> dict[str, Any]:
    """Return a row of the record, without seconds."""
    predictor.fit(problem.spectra[some], problem.pool[problem.place[some]])
    ranks = ranks_of(problem, predictor, problem.spectra[test], test)
    loss = kernel_loss(problem, predictor, problem.spectra[test], test)
    row = {"method": name, "n": len(some), "fit seconds": None, "predict seconds": None}
    return row | {"kernel loss": loss} | judge(problem, ranks, test)


def alignf(problem: Problem, quick: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    small, val, test = parts_of(problem, quick)
    kernel = align(
        spectrum_kernels(), problem.spectra[small], problem.pool[problem.place[small]],
        output_kernel=GaussianTanimoto(GAMMAS[0]), random_state=0,
    )  # fmt: skip
    gamma, alpha = choose(problem, small, val, kernel=kernel)
    rows = [
        fitted_row(
            problem, f"{name}, ALIGNF", model(name, gamma, alpha, kernel=kernel), small, test
        )
        for name in ("IOKR", "SISOKR")
    ]
    return rows, {"kernel": repr(kernel), "chosen (gamma, alpha)": [gamma, alpha]}


def landmarks(problem: Problem, quick: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    some, val, test = problem.train, *parts_of(problem, quick)[1:]
    options = {"probabilities": by_molecule(problem, some)}
    gamma, alpha = choose(problem, some, val, **options)
    predictor = model("SISOKR", gamma, alpha, **options)
    row = fitted_row(problem, "SISOKR, landmarks by molecule", predictor, some, test)
    return [row], {"chosen (gamma, alpha)": [gamma, alpha]}


def extend(part: str, rows: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    """Add rows to the record of `run`, in place of those of an earlier run of the part."""
    record = read_record("massbank")
    new = {row["method"] for row in rows}
    record["results"] = [row for row in record["results"] if row["method"] not in new] + rows
    record.setdefault("parts", {})[part] = surroundings() | {"settings": settings}
    (RECORDS / "massbank.json").write_text(json.dumps(record, indent=1) + "\n")


def draws(quick: bool) -> None:
    """Judge three ways to draw landmarks, each with ten seeds, at one width and alpha."""
    problem = Problem()
    small, _, test = parts_of(problem, quick)
    _, number, counts = np.unique(problem.keys[test], return_inverse=True, return_counts=True)
    rows = []
    for name, some, probabilities in (
        ("a fifth of the spectra", small, None),
        ("all spectra", problem.train, None),
        ("all, landmarks by molecule", problem.train, by_molecule(problem, problem.train)),
    ):
        found, errors, distinct = [], [], []
        for seed in tqdm(range(2 if quick else N_DRAWS), desc=name):
            predictor = model("SISOKR", 0.5, 1e-5, seed, probabilities=probabilities)
            predictor.fit(problem.spectra[some], problem.pool[problem.place[some]])
            ranks = ranks_of(problem, predictor, problem.spectra[test], test)
            found.append(judge(problem, ranks, test))
            hits = np.bincount(number, ranks <= 1) / counts
            errors.append(100.0 * hits.std(ddof=1) / np.sqrt(len(hits)))
            distinct.append(predictor.output_basis_.rank_)
        row = {"landmarks": name, "n": len(some), "molecules": len(np.unique(problem.keys[some]))}
        row |= {key: mean_sd(one[key] for one in found) for key in found[0]}
        row |= {"standard error of top-1 over molecules": mean_sd(errors)}
        rows.append(row | {"output coordinates": mean_sd(distinct)})
        print(rows[-1], flush=True)
    settings = {"m_x": M_X, "m_y": M_Y, "gamma": 0.5, "alpha": 1e-5, "n_draws": N_DRAWS}
    if not quick:
        write_record("massbank_draws", settings, rows)


def draws_table() -> str:
    """Return the record of `draws` as markdown."""
    columns = ["top-1 %", "top-5 %", "top-10 %", "top-1 % of spectra"]
    head = "| training spectra | of molecules | landmarks | output coordinates |"
    lines = [head + f" {' | '.join(columns)} |", "|---:|---:|---|---:|" + "---:|" * len(columns)]
    for row in read_record("massbank_draws")["results"]:
        cells = [f"{row[c][0]:.1f} ± {row[c][1]:.1f}" for c in columns]
        how = "by molecule" if "by molecule" in row["landmarks"] else "by spectrum"
        first = f"| {row['n']:,} | {row['molecules']:,} | {how} |"
        lines.append(f"{first} {row['output coordinates'][0]:.0f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    more = {"alignf": alignf, "landmarks": landmarks}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="+", choices=("prepare", "run", *more, "draws", "table"))
    parser.add_argument("--moses", type=Path, help="the wheel of molsets 0.3.1")
    parser.add_argument("--quick", action="store_true", help="few spectra, no record")
    options = parser.parse_args()
    for part in options.part:
        if part in more:
            rows, settings = more[part](Problem(), options.quick)
            print_table(rows, list(rows[0]))
            if not options.quick:
                extend(part, rows, settings)
        elif part == "prepare":
            prepare(options.moses)
        elif part == "table":
            print(draws_table())
        else:
            {"run": run, "draws": draws}[part](options.quick)


if __name__ == "__main__":
    main()
