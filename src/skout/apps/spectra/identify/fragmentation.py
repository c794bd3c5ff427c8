"""Which fragments a molecule gives, and how often: a log-linear model, learned from a library.

A fragment f that takes part with a shift of h hydrogens has the probability exp(u(f, h)) / Z, where
Z sums over all fragments and shifts of its molecule, and u is a sum over what describes the
fragment: the bonds that were broken, each as seen from the fragment, and how it was cut together
with how large it is. Positive and negative ions have weights of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array

from skout.dev import ranges

from .annotation import Annotation
from .fragments import CUTS, Bonds, fragments_of, members

# Bonds of a class in the library, at least; rarer ones are one class.
_FEWEST = 80
# Hydrogens that a fragment loses at most, and gains.
LOST, _GAINED = 4, 3
SHIFTS = LOST + 1 + _GAINED
# Sizes of fragments that are told apart, as parts of the molecule.
_SIZES = 10
# At the start log P is less by 1 for a broken bond, and by so much for a hydrogen that moves.
_FIRST = 0.1
# Probability of a peak that no fragment explains; penalty on weights; steps that learn them.
FLOOR, ALPHA, _STEPS = 1e-3, 1e-4, 60
# Odd, so that formulas of the first molecule are other numbers than those of the second.
APART = 0x9E3779B97F4A7C15


class FormulaPeaks(NamedTuple):
    """Peaks of several spectra that have a formula, p of them; each column has the shape (p,)."""

    molecule: np.ndarray  # the number of the molecule that may explain it
    code: np.ndarray  # of the formula without hydrogens
    hydrogens: np.ndarray
    weight: np.ndarray
    spectrum: np.ndarray  # the number of the spectrum

    @classmethod
    def joined(cls, parts: Iterable[tuple[int, Annotation | None, np.ndarray]]) -> FormulaPeaks:
        """Return the peaks of spectra: the molecule of each, its annotation, weights of peaks."""
        known = [
            (i, molecule, annotation, weight[annotation.peak])
            for i, (molecule, annotation, weight) in enumerate(parts)
            if annotation is not None
        ]
        counts = [len(weight) for *_, weight in known]
        return cls(
            np.repeat(np.array([molecule for _, molecule, _, _ in known], np.intp), counts),
            np.concatenate([np.empty(0, np.uint64), *(marks.code for _, _, marks, _ in known)]),
            np.concatenate([np.empty(0, np.int64), *(marks.hydrogens for _, _, marks, _ in known)]),
            np.concatenate([np.empty(0), *(weight for *_, weight in known)]),
            np.repeat(np.array([i for i, *_ in known], np.intp), counts),
        )


def peak_weights(mz: np.ndarray, intensity: np.ndarray) -> np.ndarray:
    """Return how much each peak of a spectrum counts; they sum to 1."""
    weight = (intensity / intensity.max() * mz) ** 0.25
    return np.asarray(weight / weight.sum())


@dataclass(frozen=True)
class Pieces:
    """The fragments of m molecules but these themselves, f of them, and what describes each."""

    features: csr_array  # (f, d)
    code: np.ndarray  # (f,) increasing: formula without hydrogens, and number of the molecule
    hydrogens: np.ndarray  # (f,)
    molecule: np.ndarray  # (f,)
    size: int  # m

    @classmethod
    def of(
        cls, molecules: Sequence[Bonds], classes: tuple[str, ...], most: int | None = None
    ) -> Pieces:
        """Return the fragments of molecules; none of one that has more than `most`."""
        number = {name: i + 1 for i, name in enumerate(classes)}
        parts = []
        for i, bonds in enumerate(molecules):
            fragments = fragments_of(bonds)
            if fragments is None or (most is not None and len(fragments.code) > most):
                continue
            fragments = fragments.of(np.flatnonzero(fragments.cuts > 0))
            kinds = [number.get(kind, 0) for kind in chain.from_iterable(bonds.kinds)]
            seen_from = np.array(kinds, dtype=np.int64).reshape(-1, 2)
            member = members(fragments.masks, len(bonds.code))
            first, second = member[:, bonds.ends[:, 0]], member[:, bonds.ends[:, 1]]
            rows, bond = np.nonzero(first != second)
            columns = np.where(first[rows, bond], seen_from[bond, 0], seen_from[bond, 1])
            size = _SIZES * member.sum(axis=1, dtype=np.int64) // (member.shape[1] + 1)
            made = len(classes) + 1 + fragments.cuts * _SIZES + size
            code = fragments.code + np.uint64(i * APART % 2**64)
            row, column = np.append(rows, np.arange(len(code))), np.append(columns, made)
            parts.append((code, fragments.hydrogens, np.full(len(code), i), row, column))
        d = len(classes) + 1 + len(CUTS) * _SIZES
        if not parts:
            none = np.empty(0, np.int64)
            return cls(csr_array((0, d)), none.astype(np.uint64), none, none, len(molecules))
        starts = np.cumsum([0, *(len(part[0]) for part in parts)])
        code, hydrogens, molecule = (np.concatenate([p[j] for p in parts]) for j in range(3))
        row = np.concatenate([p[3] + start for p, start in zip(parts, starts[:-1], strict=True)])
        column = np.concatenate([p[4] for p in parts])
        features = csr_array((np.ones(len(row)), (row, column)), shape=(len(code), d))
        order = np.argsort(code, kind="stable")
        return cls(features[order], code[order], hydrogens[order], molecule[order], len(molecules))

    def explaining(self, peaks: FormulaPeaks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return all pairs of a peak and a fragment of its molecule that explains it.

        Numbers of peaks, of fragments, and hydrogens that the fragment gained, plus `LOST`.
        """
        wanted = peaks.code + peaks.molecule.astype(np.uint64) * np.uint64(APART)
        low = np.searchsorted(self.code, wanted, side="left")
        counts = np.searchsorted(self.code, wanted, side="right") - low
        peak, piece = np.repeat(np.arange(len(wanted)), counts), ranges(low, counts)
        shift = peaks.hydrogens[peak] - self.hydrogens[piece] + LOST
        fits = (shift >= 0) & (shift < SHIFTS)
        return peak[fits], piece[fits], shift[fits]

    def odds(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return exp(u) of fragments and shifts, (f, shifts), and their sums Z by molecule, (m,).

        Z is 1 where a molecule has no fragments. `weights` are those of what describes fragments,
        (d, shifts + 1): by shift, and for all of these.
        """
        odds = np.exp(self.features @ (weights[:, :-1] + weights[:, -1:]))
        total = np.bincount(self.molecule, odds.sum(axis=1), minlength=self.size)
        return odds, np.where(total > 0.0, total, 1.0)


class FragmentModel(NamedTuple):
    """What is known of fragments: classes of bonds, and weights."""

    classes: tuple[str, ...]  # of bonds, seen from one end
    weights: np.ndarray  # (2, d, shifts + 1): of positive ions, and of negative ones

    def scores(self, pieces: Pieces, peaks: FormulaPeaks, negative: bool, n: int) -> np.ndarray:
        """Return how well molecules explain n spectra: sum of w log(1 + P / floor) over peaks."""
        odds, total = pieces.odds(self.weights[int(negative)])
        peak, piece, shift = pieces.explaining(peaks)
        explained = np.bincount(peak, odds[piece, shift], minlength=len(peaks.code))
        chance = explained / total[peaks.molecule]
        value = peaks.weight * np.log1p(chance / FLOOR)
        return np.bincount(peaks.spectrum, value, minlength=n)


def bond_classes(molecules: Iterable[Bonds]) -> tuple[str, ...]:
    """Return the classes of bonds, seen from one end, that occur often in these molecules."""
    kinds = [kind for bonds in molecules for kind in chain.from_iterable(bonds.kinds)]
    classes, counts = np.unique(np.array(kinds, dtype=str), return_counts=True)
    return tuple(map(str, classes[counts >= _FEWEST]))


def learned_weights(pieces: Pieces, peaks: FormulaPeaks) -> np.ndarray:
    """Return the weights by which fragments explain peaks best, (d, shifts + 1)."""
    # maximize the mean over spectra of sum_p w_p log(floor + P_p), minus alpha / 2 ||weights||^2
    peak, piece, shift = pieces.explaining(peaks)
    shape, cell = (pieces.features.shape[1], SHIFTS + 1), piece * SHIFTS + shift
    n_spectra = max(len(np.unique(peaks.spectrum)), 1)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        odds, total = pieces.odds(weights)
        total = total[peaks.molecule]
        chance = np.bincount(peak, odds[piece, shift], minlength=len(total)) / total
        pull = peaks.weight / (chance + FLOOR) / total
        slope = -np.bincount(peaks.molecule, pull * chance, minlength=pieces.size)[pieces.molecule]
        pulls = np.bincount(cell, pull[peak], minlength=odds.size).reshape(odds.shape)
        by_shift = pieces.features.T @ ((pulls + slope[:, None]) * odds)
        gradient = np.hstack([by_shift, by_shift.sum(axis=1, keepdims=True)]).ravel()
        value = peaks.weight @ np.log(chance + FLOOR)
        return (
            float(-value / n_spectra + 0.5 * ALPHA * flat @ flat),
            -gradient / n_spectra + ALPHA * flat,
        )

    start = np.zeros(shape)
    start[:, :-1] -= _FIRST * np.abs(np.arange(SHIFTS) - LOST)
    start[: -len(CUTS) * _SIZES, -1] = -1.0
    steps = {"maxiter": _STEPS}
    result = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options=steps)
    return np.asarray(result.x.reshape(shape))
