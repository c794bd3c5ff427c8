"""What is known of a spectrum and a candidate: scores by both ways, and the peaks it explains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skout.decoding import CandidateSets
from skout.dev import Spectra, ranges
from skout.molecules import parse_smiles

from .annotation import Annotation, annotate
from .fragments import CUTS, Fragments, bond_class, fragments_of
from .search import Pairs, pair_scores
from .ways import BothWays

#: Columns of `way_columns`.
WAYS = ("both", "backward", "forward", "cosine")
# Candidates of a spectrum that are broken into fragments: the best by both ways.
_MOST_BROKEN = 100
# Bonds of a class in the library, at least; rarer ones are one class.
_FEWEST = 60
# Energy by which an explanation loses a factor e, in kJ/mol, and what a hydrogen more or less
# costs it. Without costs every large molecule explains every peak. Other values were not compared.
_ENERGY, _HYDROGEN = 700.0, 0.13
# Hydrogens that a fragment loses at most, and gains.
_LOST, _GAINED = 4, 3
_SHIFTS = _LOST + 1 + _GAINED


class Ions(NamedTuple):
    """Spectra with the adduct of each."""

    spectra: Spectra
    adducts: np.ndarray

    def take(self, rows: Any) -> Ions:
        """Return those of some rows."""
        return Ions(self.spectra[rows], self.adducts[rows])


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
    """Return the classes of bonds that molecules have often."""
    bonds = [bond_class(bond) for m in parse_smiles(smiles) for bond in m.GetBonds()]
    classes, counts = np.unique(np.array(bonds, dtype=str), return_counts=True)
    return tuple(map(str, classes[counts >= _FEWEST]))


def scale_groups(classes: tuple[str, ...] | None) -> np.ndarray:
    """Return which columns of `with_fragments` are on one scale."""
    if classes is None:
        return np.arange(len(WAYS))
    own = np.arange(len(WAYS) + 2)
    shared = np.repeat([len(own), len(own) + 1], [len(classes) + 1, len(CUTS) * _SHIFTS])
    return np.concatenate([own, shared])


def with_fragments(
    ways: np.ndarray, ions: Ions, pairs: Pairs, candidates: Any, classes: tuple[str, ...] | None
) -> np.ndarray:
    """Return scores by both ways, and how well candidates explain peaks, shape (d, pairs).

    The share of peaks with a formula, the sum over explained peaks of their weights times exp(-cost
    of the bonds broken / 700 kJ), these weights by class of broken bond, and by the kind of the
    fragment and its hydrogens. The weight of a peak is (intensity x m/z)^(1/4). Candidates beyond
    the first 100 of a spectrum by both ways count as explaining nothing. Without classes of bonds,
    the scores alone.
    """
    if classes is None:
        return ways
    out = np.zeros((len(scale_groups(classes)) - len(WAYS), len(pairs.indices)))
    number = {name: i for i, name in enumerate(classes)}
    entries = np.concatenate([np.empty(0, dtype=np.intp), *_best(pairs, ways[0])])
    entries = entries[np.argsort(pairs.indices[entries], kind="stable")]
    query, known = pairs.query_of, {}
    distinct, starts = np.unique(pairs.indices[entries], return_index=True)
    if len(distinct) == 0:
        return np.vstack([ways, out])
    texts = zip(candidates.smiles(distinct), candidates.formulas(distinct), strict=True)
    for (smiles, formula), own in zip(texts, np.split(entries, starts[1:]), strict=True):
        molecule = parse_smiles([str(smiles)])[0]
        fragments = fragments_of(molecule)
        if fragments is None:
            continue
        other = len(classes)
        bonds = np.array([number.get(bond_class(b), other) for b in molecule.GetBonds()], dtype=int)
        kinds = np.eye(other + 1)[bonds]
        by_code = np.argsort(fragments.code, kind="stable")
        fragments = Fragments(*(column[by_code] for column in fragments))
        for entry in own:
            key = (int(query[entry]), str(formula))
            if key not in known:
                known[key] = _weighed(ions.take([key[0]]), key[1])
            out[:, entry] = _explained(*known[key], fragments, kinds)
    return np.vstack([ways, out])


def _best(pairs: Pairs, score: np.ndarray) -> list[np.ndarray]:
    """Return the entries of the best candidates of each spectrum."""
    parts = (np.arange(a, b) for a, b in zip(pairs.indptr[:-1], pairs.indptr[1:], strict=True))
    return [own[np.argsort(-score[own], kind="stable")[:_MOST_BROKEN]] for own in parts]


def _weighed(ion: Ions, formula: str) -> tuple[Annotation | None, np.ndarray]:
    """Return the annotated peaks of a spectrum, and the weights of all."""
    mz, height = ion.spectra.mz, ion.spectra.intensity
    weight = (height / height.max() * mz) ** 0.25
    return annotate(mz, height, formula, str(ion.adducts[0])), weight


def _explained(
    found: Annotation | None, weight: np.ndarray, fragments: Fragments, kinds: np.ndarray
) -> np.ndarray:
    """Return the columns of one spectrum and one candidate; fragments are sorted by code."""
    by_class, by_shift = np.zeros(kinds.shape[1]), np.zeros(len(CUTS) * _SHIFTS)
    if found is None or len(found.peak) == 0:
        return np.concatenate([[0.0, 0.0], by_class, by_shift])
    share = weight[found.peak].sum() / weight.sum()
    low = np.searchsorted(fragments.code, found.code, side="left")
    counts = np.searchsorted(fragments.code, found.code, side="right") - low
    peak, part = np.repeat(np.arange(len(found.peak)), counts), ranges(low, counts)
    shift = found.hydrogens[peak] - fragments.hydrogens[part] + _LOST
    fits = (shift >= 0) & (shift < _SHIFTS)
    peak, part, shift = peak[fits], part[fits], shift[fits]
    value = np.exp(-fragments.cost[part] / _ENERGY)
    order = np.lexsort((_HYDROGEN * np.abs(shift - _LOST) - value, peak))
    best = order[np.unique(peak[order], return_index=True)[1]]
    peak, part, shift, value = peak[best], part[best], shift[best], value[best]
    weight = weight[found.peak] / weight[found.peak].sum()
    weight = weight[peak]
    broken = fragments.broken[part]
    by_class = (weight / np.maximum(broken.sum(axis=1), 1)) @ broken @ kinds
    np.add.at(by_shift, fragments.cuts[part] * _SHIFTS + shift, weight)
    return np.concatenate([[share, weight @ value], by_class, by_shift])
