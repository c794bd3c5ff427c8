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

from .columns import WAYS, way_columns, with_fragments
from .design import Design, few_a_group
from .inputs import Library
from .ranking import HeldOut
from .search import Pairs
from .ways import BothWays

# Molecules of nearly equal mass that a spectrum chooses from where there is no pool.
_NEAREST = 50


@dataclass(frozen=True)
class Candidates:
    """What held-out spectra choose from: molecules of a pool, then those of the library."""

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
            near = np.argsort(np.abs(self.measured.exact - mass), kind="stable")[:_NEAREST]
            return np.union1d(near, molecule)
        found = np.asarray(self.pool.by_mass(mass, self.ppm), dtype=np.int64)
        has_truth = (self.pool.keys(found) == self.measured.keys[molecule]).any()
        return found if has_truth else np.append(found, self.size + molecule)

    def reaches(self) -> np.ndarray:
        """Return whether the mass of each spectrum leads to its molecule; no pool needs it to."""
        library = self.measured
        if self.pool is None:
            return np.ones(len(library.masses), dtype=bool)
        exact = library.exact[library.molecule]
        near = np.abs(library.masses - exact) <= 1e-6 * self.ppm * exact
        if not near.any():
            raise ValueError(
                f"No spectrum of the library has the mass of its molecule within {self.ppm:g} ppm: "
                "give a larger ppm, and check precursors and adducts."
            )
        return near

    def is_own(self, indices: np.ndarray) -> np.ndarray:
        """Return which candidates were not put among those of a pool because they are a truth."""
        return np.asarray((self.pool is None) | (indices < self.size))

    def facts(self, held: np.ndarray) -> dict[str, Any]:
        """Return what to say of held-out spectra, their candidates and the library."""
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

    def _parts(self, indices: np.ndarray, name: str, own: Any) -> list[Any]:
        """Return a column of candidates, in increasing order: of the pool, then of the library."""
        split = int(np.searchsorted(indices, self.size))
        parts = [getattr(self.pool, name)(indices[:split])] if split else []
        return [*parts, own[indices[split:] - self.size]]


def held_out(
    library: Library,
    design: Design,
    rows: np.ndarray,
    candidates: Candidates,
    classes: tuple[str, ...] | None,
    *,
    cv: int,
    n_validation: int,
    rng: np.random.Generator,
    tell: Callable[[str], Any] = lambda text: None,
) -> tuple[np.ndarray, Pairs, HeldOut]:
    """Return held-out spectra, their candidates, and the columns of these.

    One spectrum of a molecule is held out, or one of each molecule and laboratory.
    """
    asked = np.flatnonzero(candidates.reaches())
    blocks = library.groups if library.laboratory is None else library.laboratory
    same = np.unique(np.stack([library.groups[asked], blocks[asked]]), axis=1, return_inverse=True)
    asked = asked[few_a_group(same[1].ravel(), 1, rng)]
    asked = np.sort(rng.permutation(asked)[:n_validation])
    fold = np.zeros(len(asked), dtype=np.intp)
    for k, (_, test) in enumerate(deal(cv, len(asked), random_state=rng, groups=blocks[asked])):
        fold[test] = k
    order = np.argsort(fold, kind="stable")
    asked, fold = asked[order], fold[order]
    ways = [np.empty((len(WAYS), 0))]
    lists = [candidates.of(library.masses[i], library.molecule[i]) for i in asked]
    for k in range(fold.max() + 1):
        tell(f"fold {k + 1}")
        held = asked[fold == k]
        seen = np.isin(library.groups[rows], library.groups[held])
        if library.laboratory is not None:
            seen |= np.isin(library.laboratory[rows], library.laboratory[held])
        train = rows[~seen]
        if len(np.unique(library.groups[train])) < 2:
            raise ValueError("cv leaves fewer than two molecules to learn from: give more folds.")
        molecule = library.molecule[train]
        model = design.two_ways(molecule).fit(
            library.ions.spectra[train], candidates.bits[molecule]
        )
        pairs = Pairs.of([own for own, f in zip(lists, fold, strict=True) if f == k])
        spectra = library.ions.spectra[held]
        ways.append(way_columns(BothWays.of(model), spectra, pairs, candidates.fingerprints))
    pairs = Pairs.of(lists)
    columns = np.concatenate(ways, axis=1)
    columns = with_fragments(columns, library.ions.take(asked), pairs, candidates, classes)
    tell("fragments")
    distinct, number = np.unique(pairs.indices, return_inverse=True)
    truth = library.keys[library.molecule[asked]]
    right = candidates.keys(distinct)[number] == truth[pairs.query_of]
    return asked, pairs, HeldOut(columns, pairs.indptr, right, fold)
