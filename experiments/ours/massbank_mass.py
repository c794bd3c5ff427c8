"""Candidates by mass for MassBank: a harder task than by formula, since formulas are not given.

    python -m experiments.ours.massbank_mass prepare --pool POOL    after `massbank.py prepare`

For each validation and test molecule of `massbank.py`, all molecules of a pool of `skout pool
build` that are within 10 ppm of its mass. The pool of the record has 2,029,282 molecules: MOSES and
the candidates of the data folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from experiments.papers.massbank import CACHE, Problem
from skout import CandidateSets
from skout.dev import stack
from skout.kernels import PackedBits
from skout.molecules import MoleculePool

PPM = 10.0


def prepare(path: Path) -> None:
    """Write the candidates of each molecule: the molecule itself, then those of the pool."""
    problem, pool = Problem(), MoleculePool.open(path)
    if pool.fingerprint_settings["n_bits"] != problem.pool.n_bits:
        raise SystemExit("The pool has other fingerprints than `massbank.py prepare` makes.")
    mass = np.asarray(problem.data.extra["exact_mass"], dtype=np.float64)
    rows = np.concatenate([problem.val, problem.test])
    places, first = np.unique(problem.place[rows], return_index=True)
    truth = pool.by_key(problem.keys[rows[first]])
    found = [
        own[own != same]
        for own, same in zip((pool.by_mass(m, PPM) for m in mass[rows[first]]), truth, strict=True)
    ]
    used, number = np.unique(np.concatenate(found), return_inverse=True)
    bits = stack([problem.pool[places], pool.fingerprints(used)])
    ends = np.cumsum([len(own) for own in found])
    parts = np.split(number + len(places), ends[:-1])
    sets = [np.concatenate([[i], own]) for i, own in enumerate(parts)]
    sizes = np.array([len(own) for own in sets])
    print(f"{len(bits)} candidates; of a molecule, median {np.median(sizes)}, most {max(sizes)}")
    np.savez_compressed(
        CACHE / "massbank_mass.npz", words=bits.words, n_bits=bits.n_bits, place=places,
        indices=np.concatenate(sets), indptr=np.cumsum([0, *sizes]), pool=len(pool),
    )  # fmt: skip


class ByMass:
    """Candidates by mass of the spectra of a problem."""

    def __init__(self, problem: Any) -> None:
        with np.load(CACHE / "massbank_mass.npz") as file:
            z = {name: file[name] for name in file.files}
        self.place = z["place"]
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
    parser.add_argument("--pool", type=Path, required=True, help="what `skout pool build` made")
    prepare(parser.parse_args().pool)


if __name__ == "__main__":
    main()
