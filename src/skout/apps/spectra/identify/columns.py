"""Features of a spectrum and a candidate: scores by both ways, and the peaks it explains."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skout.decoding import CandidateSets
from skout.dev import Spectra, ranges
from skout.molecules import parse_smiles

from .annotated import AnnotatedSpectra, annotated
from .fragments import CUTS, Bonds, Fragments, bonds_of, broken_bonds, fragments_of
from .search import Pairs, pair_scores
from .ways import BothWays

#: Columns of `way_columns`.
WAYS = ("both", "backward", "forward", "cosine")
# Candidates of a spectrum that get all columns: the best by both ways of masses.
_MOST_CLOSE = 100
# Bonds of a class in the library, at least; rarer ones are one class.
_FEWEST = 60
# Cost by which an explanation loses a factor e, in kJ/mol, and how much of that a hydrogen more or
# less is. Without costs every large molecule explains every peak.
_COST, _HYDROGEN = 700.0, 0.25
# Molecules whose bonds costs are learned from, and the mean cost of a bond, in kJ/mol. On 1,040 of
# the lists below MRR was 0.652 by energies, 0.661 by learned costs, 0.662 by their mean.
_MOST_LEARNED, _MEAN_COST = 1500, 350.0
# Hydrogens that a fragment loses at most, and gains.
LOST, _GAINED = 4, 3
_SHIFTS = LOST + 1 + _GAINED


class Ions(NamedTuple):
    """Spectra with the adduct of each."""

    spectra: Spectra
    adducts: np.ndarray

    def take(self, rows: Any) -> Ions:
        """Return the spectra and adducts of these rows."""
        return Ions(self.spectra[rows], self.adducts[rows])

    def annotated(self, formulas: Any) -> AnnotatedSpectra:
        """Return the spectra with peaks annotated by parts of these formulas."""
        return annotated(self.spectra, self.adducts, formulas)


class BondKinds(NamedTuple):
    """Classes of bonds that have their own columns, and what breaking one costs."""

    names: tuple[str, ...]
    cost: np.ndarray  # kJ/mol of each, and of all other bonds

    def numbers(self, bonds: Bonds) -> np.ndarray:
        """Return the class of each bond."""
        number = {name: i for i, name in enumerate(self.names)}
        return np.array([number.get(kind, len(self.names)) for kind in bonds.kinds], dtype=np.intp)

    def fragments(self, bonds: Bonds) -> Fragments | None:
        """Return the fragments of a molecule, sorted by code.

        A broken bond costs the mean of its energy and the learned cost of its class.
        """
        fragments = fragments_of(bonds, 0.5 * (bonds.energy + self.cost[self.numbers(bonds)]))
        return (
            None if fragments is None else fragments.of(np.argsort(fragments.code, kind="stable"))
        )


class CandidateModels(NamedTuple):
    """The models that score candidates."""

    masses: BothWays  # by the m/z of peaks
    formulas: BothWays  # by the formulas of peaks
    kinds: BondKinds | None  # None where candidates are not broken


def scale_groups(kinds: BondKinds | None) -> np.ndarray:
    """Return a number for each column of `candidate_columns`: equal ones share a scale."""
    way_groups = np.arange(2 * len(WAYS))
    if kinds is None:
        return way_groups
    sizes = [1, 1, 1, len(kinds.cost), len(CUTS) * _SHIFTS]
    return np.concatenate([way_groups, len(way_groups) + np.repeat(np.arange(len(sizes)), sizes)])


def candidate_columns(
    models: CandidateModels,
    ions: Ions,
    pairs: Pairs,
    candidates: Any,
    fingerprints: Callable[[np.ndarray], Any] | None = None,
) -> np.ndarray:
    """Return all columns of the candidates of spectra, shape (d, pairs).

    `fingerprints` reads those of candidates, default `candidates.fingerprints`.

    Scores by both ways of masses; by both ways of formulas, parts of the candidate's; and how well
    candidates explain peaks (`fragment_columns`), but where models have no kinds of bonds. The
    second and third are of the best 100 of a spectrum by the first; the others get the lowest
    value that these have.
    """
    read = candidates.fingerprints if fingerprints is None else fingerprints
    ways = way_columns(models.masses, ions.spectra, pairs, read)
    out = np.zeros((len(scale_groups(models.kinds)), len(pairs.indices)))
    out[: len(WAYS)] = ways
    entries = np.concatenate([np.empty(0, dtype=np.intp), *_best(pairs, ways[0])])
    if len(entries) == 0:
        return out
    distinct, place = np.unique(pairs.indices[entries], return_inverse=True)
    formulas, number = np.unique(
        np.asarray(candidates.formulas(distinct), dtype=str), return_inverse=True
    )
    # one row for each spectrum and formula of its candidates
    key = pairs.query_of[entries] * len(formulas) + number[place]
    order = np.argsort(key, kind="stable")
    entries, key = entries[order], key[order]
    rows, starts = np.unique(key, return_index=True)
    close = Pairs(np.append(starts, len(key)), pairs.indices[entries])
    spectra = ions.take(rows // len(formulas)).annotated(formulas[rows % len(formulas)])
    parts = [way_columns(models.formulas, spectra, close, read)]
    if models.kinds is not None:
        parts.append(fragment_columns(spectra, close, candidates, models.kinds))
    close_columns = np.vstack(parts)
    if len(entries) < len(pairs.indices):
        query = pairs.query_of[entries]
        lowest = np.zeros((len(close_columns), len(pairs)))
        for i in np.unique(query):
            lowest[:, i] = close_columns[:, query == i].min(axis=1)
        out[len(WAYS) :] = lowest[:, pairs.query_of]
    out[len(WAYS) :, entries] = close_columns
    return out


def _best(pairs: Pairs, score: np.ndarray) -> list[np.ndarray]:
    """Return the entries of the best candidates of each spectrum."""
    parts = (np.arange(a, b) for a, b in pairwise(pairs.indptr))
    return [entries[np.argsort(-score[entries], kind="stable")[:_MOST_CLOSE]] for entries in parts]


def way_columns(
    ways: BothWays, spectra: Spectra, pairs: Pairs, fingerprints: Callable[[np.ndarray], Any]
) -> np.ndarray:
    """Return the scores of all pairs by both ways, shape (4, pairs), see `WAYS`."""
    F = ways.spectra(spectra) if len(spectra) else np.empty((0, 0))

    def score(numbers: np.ndarray, sets: CandidateSets) -> np.ndarray:
        return ways.columns(F[numbers], sets)

    return pair_scores(pairs, fingerprints, score, len(WAYS))


# Fragments ---------------------------------------------------------------------------------------


def bond_classes(smiles: list[str]) -> tuple[str, ...]:
    """Return the classes of bonds that occur at least 60 times in these molecules."""
    bonds = [kind for molecule in parse_smiles(smiles) for kind in bonds_of(molecule).kinds]
    classes, counts = np.unique(np.array(bonds, dtype=str), return_counts=True)
    return tuple(map(str, classes[counts >= _FEWEST]))


def bond_kinds(smiles: list[str], spectra: AnnotatedSpectra, molecule: np.ndarray) -> BondKinds:
    """Return classes of bonds, and costs by how often spectra of molecules show them broken.

    A bond is broken where a fragment of one cut, the cheapest by energies of bonds, explains a
    peak. The cost of a class is proportional to -log of its share of broken bonds.
    """
    names = bond_classes(smiles)
    plain = BondKinds(names, np.full(len(names) + 1, _MEAN_COST))
    broken, total = np.zeros((2, len(plain.cost)))
    first = np.unique(molecule, return_index=True)[1]
    sampled_rows = first[np.linspace(0, len(first) - 1, min(len(first), _MOST_LEARNED)).astype(int)]
    for row in sampled_rows:
        bonds = bonds_of(parse_smiles([smiles[molecule[row]]])[0])
        fragments = fragments_of(bonds)
        if fragments is None:
            continue
        fragments = fragments.of(np.argsort(fragments.code, kind="stable"))
        _, part, _ = explained(_peaks(spectra, row), fragments)
        once = part[fragments.cuts[part] < len(CUTS) - 1]
        seen = broken_bonds(fragments.masks[once], bonds.ends).any(axis=0)
        number = plain.numbers(bonds)
        broken += np.bincount(number, seen, minlength=len(broken))
        total += np.bincount(number, minlength=len(total))
    # as if each class had four bonds more, of which one was broken
    cost = -np.log((broken + 1.0) / (total + 4.0))
    mean = np.average(cost, weights=total) if total.any() else 1.0
    return BondKinds(names, _MEAN_COST * cost / mean)


def fragment_columns(
    spectra: AnnotatedSpectra, pairs: Pairs, candidates: Any, kinds: BondKinds
) -> np.ndarray:
    """Return how well candidates explain peaks, shape (d, pairs).

    The share of peaks with a formula; the sum over explained peaks of their weights times exp(-cost
    / 700 kJ), and with half as many kJ; the first by class of broken bond; and weights by the kind
    of the fragment and its hydrogens. The weight of a peak is (intensity x m/z)^(1/4).
    """
    # chosen on 2,600 lists by formula in folds over the laboratories of a library, by MRR beside
    # both ways: 0.634 with weights by class without the factor, 0.641 with it and half as many kJ,
    # 0.627 with numbers of bonds that are seen broken, and not
    out = np.zeros((len(scale_groups(kinds)) - 2 * len(WAYS), len(pairs.indices)))
    by_candidate = np.argsort(pairs.indices, kind="stable")
    distinct, starts = np.unique(pairs.indices[by_candidate], return_index=True)
    query, peaks = pairs.query_of, [_peaks(spectra, i) for i in range(len(spectra))]
    texts = candidates.smiles(distinct)
    for smiles, entries in zip(texts, np.split(by_candidate, starts[1:]), strict=True):
        bonds = bonds_of(parse_smiles([str(smiles)])[0])
        fragments, number = kinds.fragments(bonds), kinds.numbers(bonds)
        if fragments is None:
            continue
        for entry in entries:
            out[:, entry] = _columns(peaks[query[entry]], fragments, bonds, number, len(kinds.cost))
    return out


class AnnotatedPeaks(NamedTuple):
    """The peaks of a spectrum that have a formula."""

    number: np.ndarray  # among all peaks
    code: np.ndarray  # of the formula without hydrogens
    hydrogens: np.ndarray
    weight: np.ndarray  # sum to 1
    share: float  # of the weights of all peaks


def _peaks(spectra: AnnotatedSpectra, i: int) -> AnnotatedPeaks:
    peaks = slice(spectra.indptr[i], spectra.indptr[i + 1])
    mz, height, code = spectra.mz[peaks], spectra.intensity[peaks], spectra.fragment[peaks]
    weight, kept = (height / height.max() * mz) ** 0.25, np.flatnonzero(code)
    total = weight[kept].sum()
    part = weight[kept] / total if len(kept) else weight[kept]
    return AnnotatedPeaks(
        kept, code[kept], spectra.hydrogens[peaks][kept], part, total / weight.sum()
    )


def explained(
    peaks: AnnotatedPeaks, fragments: Fragments
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the peaks that a fragment explains, the best one of each, and its hydrogens.

    Places among `peaks` and `fragments`, which are sorted by code; hydrogens are how many the
    fragment gained, plus `LOST`.
    """
    low = np.searchsorted(fragments.code, peaks.code, side="left")
    counts = np.searchsorted(fragments.code, peaks.code, side="right") - low
    peak, part = np.repeat(np.arange(len(peaks.code)), counts), ranges(low, counts)
    shift = peaks.hydrogens[peak] - fragments.hydrogens[part] + LOST
    fits = (shift >= 0) & (shift < _SHIFTS)
    peak, part, shift = peak[fits], part[fits], shift[fits]
    loss = fragments.cost[part] / _COST + _HYDROGEN * np.abs(shift - LOST)
    order = np.lexsort((loss, peak))
    best = order[np.unique(peak[order], return_index=True)[1]]
    return peak[best], part[best], shift[best]


def _columns(
    peaks: AnnotatedPeaks, fragments: Fragments, bonds: Bonds, kinds: np.ndarray, n_kinds: int
) -> np.ndarray:
    """Return the columns of one spectrum and one candidate."""
    peak, part, shift = explained(peaks, fragments)
    weight, hydrogens = peaks.weight[peak], _HYDROGEN * np.abs(shift - LOST)
    cost = fragments.cost[part] / _COST
    value = weight * np.exp(-cost - hydrogens)
    broken = broken_bonds(fragments.masks[part], bonds.ends)
    by_bond = (value / np.maximum(broken.sum(axis=1), 1)) @ broken
    by_class = np.bincount(kinds, by_bond, minlength=n_kinds)
    place = fragments.cuts[part] * _SHIFTS + shift
    by_shift = np.bincount(place, weight, minlength=len(CUTS) * _SHIFTS)
    steep = weight @ np.exp(-2.0 * cost - hydrogens)
    return np.concatenate([[peaks.share, value.sum(), steep], by_class, by_shift])
