"""Features of a spectrum and a candidate: scores by both ways, and the peaks it explains."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from skout.decoding import CandidateSets
from skout.dev import Spectra, map_blocks, row_slices
from skout.molecules import parse_smiles

from .annotation import Annotation, annotate, is_negative
from .candidates import CandidateFacts, ReadFingerprints
from .fragmentation import FormulaPeaks, FragmentModel, Pieces, peak_weights
from .fragments import bonds_of
from .search import Pairs, pair_scores
from .ways import BothWays

#: Columns of `way_columns`.
WAYS = ("both", "backward", "forward", "cosine")
#: Columns of `fragment_columns`: the part of the peaks that has a formula, and fragments.
PEAKS = ("formulas", "fragments")
# Candidates of a spectrum that get all columns: the best by both ways.
_MOST_CLOSE = 100
# Molecules whose fragments are held at a time.
_AT_ONCE = 100


class Ions(NamedTuple):
    """Spectra with the adduct of each."""

    spectra: Spectra
    adducts: np.ndarray

    def take(self, rows: np.ndarray) -> Ions:
        """Return the spectra and adducts of these rows."""
        return Ions(self.spectra[rows], self.adducts[rows])

    @property
    def negative(self) -> np.ndarray:
        """Whether each adduct has a negative charge."""
        distinct, number = np.unique(self.adducts.astype(str), return_inverse=True)
        return np.array([is_negative(str(text)) for text in distinct], dtype=bool)[number]

    def weights(self, i: int) -> np.ndarray:
        """Return how much each peak of a spectrum counts."""
        return peak_weights(*self._peaks(i))

    def annotation(self, i: int, formula: str) -> Annotation | None:
        """Return the peaks of a spectrum that weigh as parts of a formula."""
        return annotate(*self._peaks(i), formula, str(self.adducts[i]))

    def _peaks(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        peaks = slice(self.spectra.indptr[i], self.spectra.indptr[i + 1])
        return self.spectra.mz[peaks], self.spectra.intensity[peaks]


class CandidateModels(NamedTuple):
    """The models that score candidates."""

    ways: BothWays
    fragments: FragmentModel | None  # None where candidates are not broken

    @property
    def n_columns(self) -> int:
        return len(WAYS) + (0 if self.fragments is None else len(PEAKS))


def candidate_columns(
    models: CandidateModels,
    ions: Ions,
    pairs: Pairs,
    candidates: CandidateFacts,
    fingerprints: ReadFingerprints | None = None,
) -> np.ndarray:
    """Return all columns of the candidates of spectra, shape (d, pairs): `WAYS`, then `PEAKS`.

    `PEAKS` are of the best 100 of a spectrum by both ways; the others get the lowest value that
    these have. `fingerprints` reads those of candidates, default `candidates.fingerprints`.
    """
    read = candidates.fingerprints if fingerprints is None else fingerprints
    ways = way_columns(models.ways, ions.spectra, pairs, read)
    entries = np.concatenate([np.empty(0, dtype=np.intp), *_best(pairs, ways[0])])
    if models.fragments is None or len(entries) == 0:
        return np.vstack([ways, np.zeros((models.n_columns - len(ways), len(pairs.indices)))])
    close = fragment_columns(
        models.fragments, ions, pairs.query_of[entries], pairs.indices[entries], candidates
    )
    starts = np.flatnonzero(np.diff(pairs.query_of[entries], prepend=-1))
    lowest = np.zeros((len(close), len(pairs)))
    lowest[:, pairs.query_of[entries][starts]] = np.minimum.reduceat(close, starts, axis=1)
    peaks = lowest[:, pairs.query_of]
    peaks[:, entries] = close
    return np.vstack([ways, peaks])


def _best(pairs: Pairs, score: np.ndarray) -> list[np.ndarray]:
    """Return the entries of the best candidates of each spectrum."""
    parts = (np.arange(a, b) for a, b in pairwise(pairs.indptr))
    return [entries[np.argsort(-score[entries], kind="stable")[:_MOST_CLOSE]] for entries in parts]


def way_columns(
    ways: BothWays, spectra: Spectra, pairs: Pairs, fingerprints: ReadFingerprints
) -> np.ndarray:
    """Return the scores of all pairs by both ways, shape (4, pairs), see `WAYS`."""
    F = ways.spectra(spectra) if len(spectra) else np.empty((0, 0))

    def score(numbers: np.ndarray, sets: CandidateSets) -> np.ndarray:
        return ways.columns(F[numbers], sets)

    return pair_scores(pairs, fingerprints, score, len(WAYS))


def fragment_columns(
    model: FragmentModel,
    ions: Ions,
    query: np.ndarray,
    index: np.ndarray,
    candidates: CandidateFacts,
) -> np.ndarray:
    """Return how well candidates explain spectra, shape (2, pairs), see `PEAKS`.

    `query` and `index` are the spectrum and the candidate of each pair.
    """
    distinct, place = np.unique(index, return_inverse=True)
    texts = candidates.smiles(distinct)
    formulas, number = np.unique(
        np.asarray(candidates.formulas(distinct), dtype=str), return_inverse=True
    )
    # peaks get formulas once for each spectrum and formula; those of one formula follow each other
    keys, which = np.unique(number[place] * len(ions.spectra) + query, return_inverse=True)
    spectrum_formulas = [
        (key % len(ions.spectra), formulas[key // len(ions.spectra)]) for key in keys
    ]
    annotations = [ions.annotation(int(i), str(formula)) for i, formula in spectrum_formulas]
    weights, negative = [ions.weights(i) for i in range(len(ions.spectra))], ions.negative
    out, order = np.zeros((len(PEAKS), len(index))), np.argsort(place, kind="stable")
    ends = np.searchsorted(place[order], np.arange(len(distinct) + 1))

    def scored(block: slice) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        molecules = [bonds_of(molecule) for molecule in parse_smiles(texts[block])]
        pieces = Pieces.of(molecules, model.classes)
        parts = []
        for sign in (False, True):
            entries = order[ends[block.start] : ends[block.stop]]
            entries = entries[negative[query[entries]] == sign]
            peaks = FormulaPeaks.joined(
                (place[i] - block.start, annotations[which[i]], weights[query[i]]) for i in entries
            )
            shares = np.bincount(peaks.spectrum, peaks.weight, minlength=len(entries))
            parts.append((entries, shares, model.scores(pieces, peaks, sign, len(entries))))
        return parts

    for parts in map_blocks(scored, row_slices(len(distinct), _AT_ONCE)):
        for entries, shares, scores in parts:
            out[:, entries] = shares, scores
    return out
