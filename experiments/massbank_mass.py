"""Candidates by mass for MassBank: a harder task than by formula, since formulas are not given.

    python experiments/massbank_mass.py prepare --moses WHEEL    after `massbank.py prepare`; RDKit

For each validation and test molecule of `massbank.py`, molecules within 10 ppm of its mass: those
of the formulas of MassBank (with all of MOSES), of the other sets of the data folder, and of a
sample of MOSES of other formulas. Where there are more than 100, the truth and 99 others, drawn at
random.
"""

from __future__ import annotations

import argparse
import gzip
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from massbank import CACHE, FILES, Problem
from tqdm import tqdm

from skout import CandidateSets
from skout.kernels import PackedBits

PPM, MOST, N_MOSES = 10.0, 100, 100_000
TABLES = ("chebi20_candidate_pool.csv.gz", "text_molecule_pairs.csv.gz")


def texts_of_folder() -> list[str]:
    """Return the SMILES of the tables of the data folder."""
    import pandas as pd

    folder = Path(os.environ["SKOUT_DATA"])
    found = [pd.read_csv(folder / name)["smiles"] for name in TABLES]
    found.append(pd.read_parquet(folder / "lpm24_train_props.parquet")["smiles"])
    return list(dict.fromkeys(str(text) for some in found for text in some))


def texts_of_moses(wheel: Path, rng: np.random.Generator) -> list[str]:
    """Return a sample of MOSES."""
    lines: list[str] = []
    with zipfile.ZipFile(wheel) as archive:
        for name in FILES:
            with archive.open(f"moses/dataset/data/{name}") as file, gzip.open(file, "rt") as text:
                lines += text.read().splitlines()[1:]
    return [lines[i].split(",")[0] for i in np.sort(rng.permutation(len(lines))[:N_MOSES])]


def near(masses: np.ndarray, sorted_targets: np.ndarray) -> np.ndarray:
    """Return whether each mass is within 10 ppm of a target."""
    low, high = masses * (1 - PPM * 1e-6), masses * (1 + PPM * 1e-6)
    return np.searchsorted(sorted_targets, high) > np.searchsorted(sorted_targets, low)


def others(texts: list[str], targets: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return those near a target as flat SMILES, and their masses."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem.rdMolDescriptors import CalcExactMolWt

    RDLogger.DisableLog("rdApp.*")
    found: dict[str, float] = {}
    for text in tqdm(texts, mininterval=10):
        molecule = None if "." in text else Chem.MolFromSmiles(text)
        if molecule is None:
            continue
        mass = CalcExactMolWt(molecule)
        if near(np.array([mass]), targets)[0]:
            found.setdefault(Chem.MolToSmiles(molecule, isomericSmiles=False), mass)
    return list(found), np.array(list(found.values()))


def prepare(wheel: Path) -> None:
    from skout.molecules import fingerprints

    rng, problem = np.random.default_rng(0), Problem()
    mass = np.asarray(problem.data.extra["exact_mass"], dtype=np.float64)
    of_formula = np.zeros(len(problem.starts) - 1)
    of_formula[problem.formula] = mass
    rows = np.concatenate([problem.val, problem.test])
    places = np.unique(problem.place[rows])  # molecules, as fingerprints are made of
    known = np.repeat(of_formula, np.diff(problem.starts))
    texts, masses = others(texts_of_folder() + texts_of_moses(wheel, rng), np.sort(known[places]))
    seen = set(problem.smiles.tolist())
    new = [i for i, text in enumerate(texts) if text not in seen]
    everything = np.concatenate([known, masses[new]])
    order = np.argsort(everything, kind="stable")
    sets, sizes = [], []
    for place in places:
        ends = known[place] * (1 + PPM * 1e-6 * np.array([-1, 1]))
        own = order[slice(*np.searchsorted(everything[order], ends))]
        sizes.append(len(own))
        own = own[own != place]
        sets.append(np.concatenate([[place], np.sort(rng.permutation(own)[: MOST - 1])]))
    used, number = np.unique(np.concatenate(sets), return_inverse=True)
    smiles = np.concatenate([problem.smiles, np.array([texts[i] for i in new])])[used]
    print(f"{len(used)} candidates; of a molecule, median {np.median(sizes)}, most {max(sizes)}")
    bits = fingerprints(smiles.tolist(), n_bits=4096, verbose=True)
    np.savez_compressed(
        CACHE / "massbank_mass.npz", words=bits.words, n_bits=bits.n_bits, indices=number,
        indptr=np.cumsum([0, *map(len, sets)]), place=places, sizes=np.array(sizes),
    )  # fmt: skip


class ByMass:
    """Candidates by mass of the spectra of a problem."""

    def __init__(self, problem: Any) -> None:
        with np.load(CACHE / "massbank_mass.npz") as file:
            z = {name: file[name] for name in file.files}
        self.place, self.sizes = z["place"], z["sizes"]
        self.all = CandidateSets(
            PackedBits(z["words"], int(z["n_bits"])), z["indptr"], z["indices"]
        )
        self.number = np.full(len(problem.smiles), -1)
        self.number[self.place] = np.arange(len(self.place))
        self.of = self.number[problem.place]  # the set of each spectrum, -1 without one

    def sets(self, some: np.ndarray) -> CandidateSets:
        return self.all.of_queries(self.of[some])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("prepare",))
    parser.add_argument("--moses", type=Path, required=True, help="wheel of molsets 0.3.1")
    prepare(parser.parse_args().moses)


if __name__ == "__main__":
    main()
