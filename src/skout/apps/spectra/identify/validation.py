"""Candidates of spectra whose molecules a model has not seen, scored by models without them.

Folds are of laboratories where the spectra say theirs: a model then meets instruments and settings
that it has not learned from, as it will in use. Else they are of molecules. In both cases a model
that scores a spectrum has seen no spectrum of its molecule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skout.dev import deal, stack

from .columns import candidate_columns
from .design import Design, few_a_group, places
from .inputs import Library
from .learning import learned_models
from .ranking import HeldOut
from .search import Pairs

# Molecules of nearly equal mass that a spectrum chooses from where there is no pool.
_NEAREST = 50


@dataclass(frozen=True)
class Candidates:
    """Candidates of held-out spectra: molecules of a pool, then those of the library."""

    pool: Any  # MoleculePool or None
    ppm: float
    bits: Any  # fingerprints of the molecules of the library
    measured: Library

    @property
    def size(self) -> int:
        return 0 if self.pool is None else len(self.pool)

    def of(self, mass: float, molecule: int) -> np.ndarray:
        """Return the candidates of a spectrum, the truth among them."""
        if self.pool is None:
            nearest = np.argsort(np.abs(self.measured.exact - mass), kind="stable")[:_NEAREST]
            return np.union1d(nearest, molecule)
        indices = np.asarray(self.pool.by_mass(mass, self.ppm), dtype=np.int64)
        has_truth = (self.pool.keys(indices) == self.measured.keys[molecule]).any()
        return indices if has_truth else np.append(indices, self.size + molecule)

    def reaches(self) -> np.ndarray:
        """Return which spectra have the mass of their molecule within ppm; without a pool, all."""
        library = self.measured
        if self.pool is None:
            return np.ones(len(library.masses), dtype=bool)
        exact = library.exact[library.molecule]
        within: np.ndarray = np.abs(library.masses - exact) <= 1e-6 * self.ppm * exact
        if not within.any():
            raise ValueError(
                f"No spectrum of the library has the mass of its molecule within {self.ppm:g} ppm: "
                "give a larger ppm, and check precursors and adducts."
            )
        return within

    def is_from_pool(self, indices: np.ndarray) -> np.ndarray:
        """Return which candidates the pool has, (pairs,) bool; others are truths that it lacks."""
        return np.asarray((self.pool is None) | (indices < self.size))

    def facts(self, held: np.ndarray) -> dict[str, Any]:
        """Return the numbers of held-out spectra, molecules and candidates for the report."""
        library = self.measured
        return {
            "n_held_out": len(held),
            "n_molecules": len(np.unique(library.groups[held])),
            "folds_of": "molecules" if library.laboratory is None else "laboratories",
            "candidates_from": "library" if self.pool is None else "pool",
            "in_reach": float(self.reaches().mean()),
            "n_spectra": len(library.molecule),
            "n_library": len(library.smiles),
        }

    def fingerprints(self, indices: np.ndarray) -> Any:
        """Return the fingerprints of candidates, in increasing order."""
        parts = self._parts(indices, "fingerprints", self.bits)
        return stack([part for part in parts if len(part)])

    def smiles(self, indices: np.ndarray) -> np.ndarray:
        return np.concatenate(
            self._parts(indices, "smiles", np.array(self.measured.smiles, object))
        )

    def formulas(self, indices: np.ndarray) -> np.ndarray:
        return np.concatenate(self._parts(indices, "formulas", self.measured.formulas))

    def keys(self, indices: np.ndarray) -> np.ndarray:
        return np.concatenate(self._parts(indices, "keys", self.measured.keys))

    def _parts(self, indices: np.ndarray, name: str, library_column: np.ndarray) -> list[Any]:
        """Return a column of candidates, in increasing order: of the pool, then of the library."""
        split = int(np.searchsorted(indices, self.size))
        parts = [getattr(self.pool, name)(indices[:split])] if split else []
        return [*parts, library_column[indices[split:] - self.size]]


def held_out(
    library: Library,
    design: Design,
    rows: np.ndarray,
    candidates: Candidates,
    *,
    fragments: bool,
    cv: int,
    n_validation: int,
    rng: np.random.Generator,
    progress: Callable[[], object] = lambda: None,
) -> tuple[np.ndarray, Pairs, HeldOut]:
    """Return held-out spectra, their candidates, and the columns of these.

    `rows` of the library are learned from, with `fragments` or without. One spectrum of a molecule
    is held out, or one of each molecule and laboratory; of a large laboratory no more than of
    others, as far as these have as many.
    """
    chosen = np.flatnonzero(candidates.reaches())
    blocks = library.groups if library.laboratory is None else library.laboratory
    same = np.unique(
        np.stack([library.groups[chosen], blocks[chosen]]), axis=1, return_inverse=True
    )
    chosen = rng.permutation(chosen[few_a_group(same[1].ravel(), 1, rng)])
    chosen = np.sort(chosen[np.argsort(places(blocks[chosen]), kind="stable")[:n_validation]])
    fold = np.zeros(len(chosen), dtype=np.intp)
    for k, (_, test) in enumerate(deal(cv, len(chosen), random_state=rng, groups=blocks[chosen])):
        fold[test] = k
    order = np.argsort(fold, kind="stable")
    chosen, fold = chosen[order], fold[order]
    columns = []
    lists = [candidates.of(library.masses[i], library.molecule[i]) for i in chosen]
    for k in range(fold.max() + 1):
        held = chosen[fold == k]
        seen = np.isin(library.groups[rows], library.groups[held])
        if library.laboratory is not None:
            seen |= np.isin(library.laboratory[rows], library.laboratory[held])
        train = rows[~seen]
        if len(np.unique(library.groups[train])) < 2:
            raise ValueError("cv leaves fewer than two molecules to learn from: give more folds.")
        models = learned_models(library, train, design, candidates.bits, fragments)
        pairs = Pairs.of([indices for indices, f in zip(lists, fold, strict=True) if f == k])
        columns.append(candidate_columns(models, library.ions.take(held), pairs, candidates))
        progress()
    pairs = Pairs.of(lists)
    distinct, number = np.unique(pairs.indices, return_inverse=True)
    molecule = library.molecule[chosen][pairs.query_of]
    right = candidates.keys(distinct)[number] == library.keys[molecule]
    alike = candidates.formulas(distinct)[number] == library.formulas[molecule]
    return chosen, pairs, HeldOut(np.concatenate(columns, axis=1), pairs.indptr, right, fold, alike)
