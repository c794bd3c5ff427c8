"""Learn the models that score candidates from rows of a library."""

from __future__ import annotations

from typing import Any

import numpy as np

from skout.molecules import parse_smiles

from .columns import CandidateModels
from .design import Design, few_a_group
from .fragmentation import FragmentModel, Peaks, Pieces, bond_classes, learned_weights
from .fragments import bonds_of
from .inputs import Library

# Molecules of a polarity whose fragments are learned from, spectra of each, and fragments of a
# molecule, at most.
_MOLECULES, _SPECTRA, _FRAGMENTS = 1000, 3, 6000


def learned_models(
    library: Library, rows: np.ndarray, design: Design, bits: Any, fragments: bool
) -> CandidateModels:
    """Return both ways and, with `fragments`, what they are like, from rows of a library.

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
    bonds = dict(zip(distinct, map(bonds_of, parse_smiles([library.smiles[i] for i in distinct])),
                     strict=True))  # fmt: skip
    classes = bond_classes(bonds.values())
    negative, weights = library.ions.negative[rows], []
    for sign in (False, True):
        own = rows[negative == sign]
        molecules = rng.permutation(np.unique(library.molecule[own]))[:_MOLECULES]
        own = own[np.isin(library.molecule[own], molecules)]
        own = own[few_a_group(library.molecule[own], _SPECTRA, rng)]
        molecules, place = np.unique(library.molecule[own], return_inverse=True)
        pieces = Pieces.of([bonds[i] for i in molecules], classes, _FRAGMENTS)
        # those of one formula follow each other
        order = np.argsort(library.formulas[molecules][place].astype(str), kind="stable")
        peaks = Peaks.joined(
            (place[i], library.ions.annotation(own[i], str(library.formulas[molecules[place[i]]])),
             library.ions.weights(own[i]))
            for i in order
        )  # fmt: skip
        weights.append(learned_weights(pieces, peaks))
    return FragmentModel(classes, np.stack(weights))
