"""How good a model is on molecules that it has not seen, and how much the forward way counts.

In each fold both ways are fitted without some molecules; of each of these one spectrum is asked,
and its candidates are scored by either way. The weight of a fold is chosen on the other folds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skout.decoding import CandidateSets
from skout.dev import stack
from skout.predictors.out_of_fold import folds_of
from skout.predictors.two_way_weight import NORMALISATIONS, Option, TwoWayScores, options_for

from .calibration import Confidence, calibration_error, surprise, truth_rank
from .design import Design, few_a_group
from .inputs import Library
from .last_word import learnt, ways_of
from .search import Pairs, pair_scores

__all__ = ["Candidates", "Judged", "judge"]

# Molecules of nearly equal mass that a spectrum chooses from where there is no pool.
_NEAREST = 50
_TOP = 25


@dataclass(frozen=True)
class Candidates:
    """What held-out spectra choose from: molecules of a pool, then those of the library."""

    pool: Any  # MoleculePool or None
    ppm: float
    bits: Any  # fingerprints of the molecules of the library
    masses: np.ndarray  # of these

    @property
    def size(self) -> int:
        return 0 if self.pool is None else len(self.pool)

    def of(self, mass: float, molecule: int) -> np.ndarray:
        """Return the candidates of a spectrum; the truth is the last."""
        if self.pool is not None:
            found = np.asarray(self.pool.by_mass(mass, self.ppm), dtype=np.int64)
        else:
            near = np.argsort(np.abs(self.masses - mass), kind="stable")[:_NEAREST]
            found = np.sort(near[near != molecule])
        return np.append(found, self.size + molecule)

    def reaches(self, library: Library) -> np.ndarray:
        """Return whether the mass of each spectrum leads to its molecule; no pool needs it to."""
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

    def fingerprints(self, indices: np.ndarray) -> Any:
        """Return the fingerprints of candidates, in increasing order."""
        split = int(np.searchsorted(indices, self.size))
        parts = [] if split == 0 else [self.pool.fingerprints(indices[:split])]
        if split < len(indices):
            parts.append(self.bits[indices[split:] - self.size])
        return stack(parts)


@dataclass(frozen=True)
class Judged:
    """What was measured on molecules that had no part in training."""

    option: Option  # weight and normalisation of the forward way
    word: np.ndarray | None  # coefficients of the last word, where it pays
    confidence: Confidence
    sizes: np.ndarray  # (n,) candidates of each molecule that has several
    surprises: np.ndarray  # (n,) -log of the probability of its truth, infinite without any
    report: dict[str, Any]  # numbers for people


def judge(
    library: Library,
    design: Design,
    rows: np.ndarray,
    candidates: Candidates,
    *,
    cv: int,
    n_validation: int,
    rng: np.random.Generator,
    tell: Callable[[str], Any] = lambda text: None,
) -> Judged:
    """Fit both ways on some rows in `cv` folds of molecules, and judge them on the others."""
    reach = np.flatnonzero(candidates.reaches(library))
    asked = reach[few_a_group(library.groups[reach], 1, rng)]
    asked = np.sort(rng.permutation(asked)[:n_validation])
    fold_of = _folds(library.groups, cv, rng)
    scores: list[np.ndarray] = []
    right: list[np.ndarray] = []
    folds = []
    for k in range(cv):
        tell(f"fold {k + 1} of {cv}")
        train = rows[fold_of[library.groups[rows]] != k]
        held = asked[fold_of[library.groups[asked]] == k]
        if len(held) == 0:
            continue
        found = _fold_scores(library, design, train, held, candidates)
        scores += [S for S, _ in found]
        right += [truth for _, truth in found]
        folds += [k] * len(held)
    judged = _summary(scores, right, np.array(folds))
    judged.report["candidates_from"] = "library" if candidates.pool is None else "pool"
    judged.report["in_reach"] = len(reach) / len(library.groups)
    return judged


def _folds(groups: np.ndarray, cv: int, rng: np.random.Generator) -> np.ndarray:
    """Return the fold of each group."""
    fold = np.empty(groups.max() + 1, dtype=np.intp)
    for k, (_, test) in enumerate(folds_of(cv, len(groups), groups, rng)):
        fold[groups[test]] = k
    return fold


def _fold_scores(
    library: Library, design: Design, train: np.ndarray, held: np.ndarray, candidates: Candidates
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return for held-out spectra scores by each way, shape (3, c), and which are the truth."""
    bits, molecule = candidates.bits, library.molecule
    model = design.two_ways(molecule[train], 1.0, "distance")
    model.fit(library.spectra[train], bits[molecule[train]])
    F, truth = model.predict_coordinates(library.spectra[held]), bits[molecule[held]]

    def score(numbers: np.ndarray, sets: CandidateSets) -> np.ndarray:
        pool = model.decoder_.embed(sets)
        found = [S for _, S in TwoWayScores(pool, model.output_basis_, F[numbers])]
        words = truth.words[numbers[sets.query_of]]
        same = (sets.pool.words[sets.indices] == words).all(axis=1)
        return np.vstack([np.concatenate(found, axis=1), same])

    pairs = Pairs.of([candidates.of(library.masses[i], molecule[i]) for i in held])
    table = pair_scores(pairs, candidates.fingerprints, score)
    return [_once(table[:, pairs.own(i)]) for i in range(len(held))]


def _once(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and truths; the last candidate, the truth, goes if the pool has it too."""
    scores, right = table[:-1], table[-1] > 0.0
    return (scores[:, :-1], right[:-1]) if right[:-1].any() else (scores, right)


def _summary(scores: list[np.ndarray], right: list[np.ndarray], folds: np.ndarray) -> Judged:
    """Choose the weight, learn the last word, and tell how good the model is."""
    spreads = np.mean([S.std(axis=1) for S in scores], axis=0)
    options = options_for(spreads, NORMALISATIONS)
    factors = np.array([one.factors for one in options])
    ranks = np.array(
        [[truth_rank(s, t) for s in factors @ S] for S, t in zip(scores, right, strict=True)]
    )  # (n, options)
    value = _reciprocal(ranks)
    best = int(value.mean(axis=0).argmax())
    own = np.empty(len(ranks))
    for k in np.unique(folds):  # each fold with the weight that the others choose
        others = value[folds != k] if (folds != k).any() else value
        own[folds == k] = ranks[folds == k, int(others.mean(axis=0).argmax())]
    final = [factors[best] @ S for S in scores]
    ways = ways_of(*options[best])
    tables = [np.vstack([s, S[ways]]) for s, S in zip(final, scores, strict=True)]
    word, said = learnt(tables, right, folds)
    new = np.array([truth_rank(s, t) for s, t in zip(said, right, strict=True)])
    gain = _reciprocal(new) - _reciprocal(own)
    pays = gain.mean() > gain.std() / np.sqrt(len(gain))
    if pays:
        own, final = new, said
    confidence = Confidence.fitted(final, right)
    p = [confidence.of(s) for s in final]
    sizes = np.array([len(s) for s in final])
    surprises = np.array([surprise(one, t) for one, t in zip(p, right, strict=True)])
    sure = np.array([one.max() for one in p])
    report = _report(own, sizes) | {
        "calibration_error": calibration_error(sure, own <= 1.0),
        "mean_confidence": float(sure.mean()),
        "weight": float(options[best].weight),
        "normalisation": options[best].normalisation,
        "last_word": bool(pays),
        "last_word_gain": float(gain.mean()),
    }
    several = sizes > 1  # one candidate is always right, and teaches nothing
    parts = sizes[several], surprises[several]
    return Judged(options[best], word if pays else None, confidence, *parts, report)


def _reciprocal(ranks: np.ndarray) -> np.ndarray:
    return np.where(ranks <= _TOP, 1.0 / ranks, 0.0)


def _report(ranks: np.ndarray, sizes: np.ndarray) -> dict[str, Any]:
    """Return means over molecules with their standard errors."""
    values = {
        "top_1": ranks <= 1.0,
        "top_10": ranks <= 10.0,
        "mrr_25": _reciprocal(ranks),
    }
    n, found = len(ranks), {}
    for name, value in values.items():
        found[name] = float(np.mean(value))
        found[f"{name}_se"] = float(np.std(value, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return found | {
        "n_molecules": n,
        "median_candidates": float(np.median(sizes)),
        "mean_candidates": float(np.mean(sizes)),
    }
