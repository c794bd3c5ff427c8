"""Learn the models that score candidates from rows of a library."""

from __future__ import annotations

import numpy as np

from skout.kernels import PackedBits
from skout.molecules import parse_smiles

from .columns import CandidateModels
from .design import Design, few_a_group
from .fragmentation import FormulaPeaks, FragmentModel, Pieces, bond_classes, learned_weights
from .fragments import bonds_of
from .inputs import Library

# Molecules of a polarity whose fragments are learned from, spectra of each, and fragments of a
# molecule, at most.
_MOLECULES, _SPECTRA, _FRAGMENTS = 1000, 3, 6000


def learned_models(
    library: Library, rows: np.ndarray, design: Design, bits: PackedBits, fragments: bool
) -> CandidateModels:
    """Return both ways and, with `fragments`, a model of fragments, from rows of a library.

    `bits` are the fingerprints of its molecules.
    """
    molecule = library.molecule[rows]
    ways = design.ways(library.ions.spectra[rows], bits[molecule], molecule)
    return CandidateModels(
        ways, learned_fragments(library, rows, design.seed) if fragments else None
    )


def learned_fragments(library: Library, rows: np.ndarray, seed: int) -> FragmentModel:
    """Return a model of the fragments of molecules, by some of the spectra of each."""
    rng = np.random.default_rng(seed)
    distinct = np.unique(library.molecule[rows])
    molecules = parse_smiles([library.smiles[i] for i in distinct])
    bonds = dict(zip(distinct, map(bonds_of, molecules), strict=True))
    classes = bond_classes(bonds.values())
    negative, weights = library.ions.negative[rows], []
    for sign in (False, True):
        chosen = rows[negative == sign]
        drawn = rng.permutation(np.unique(library.molecule[chosen]))[:_MOLECULES]
        chosen = chosen[np.isin(library.molecule[chosen], drawn)]
        chosen = chosen[few_a_group(library.molecule[chosen], _SPECTRA, rng)]
        numbers, place = np.unique(library.molecule[chosen], return_inverse=True)
        ions = library.ions.take(chosen)
        pieces = Pieces.of([bonds[i] for i in numbers], classes, _FRAGMENTS)
        formulas = library.formulas[numbers][place].astype(str)
        peaks = FormulaPeaks.joined(
            (place[i], ions.annotation(i, str(formulas[i])), ions.weights(i))
            for i in np.argsort(formulas, kind="stable")  # parts of a formula are computed once
        )
        weights.append(learned_weights(pieces, peaks))
    return FragmentModel(classes, np.stack(weights))
