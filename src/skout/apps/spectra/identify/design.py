"""The model of a library of spectra: which kernels, landmarks and penalties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skout import KernelBasis, KernelRidge, StructuredPredictor, TwoWay, iokr
from skout.dev import Spectra
from skout.kernels import Normalized, PackedBits, PeakCosine, ProbabilityProduct, align
from skout.sketches import SubSample

from .side_by_side import SideBySide
from .ways import BothWays

# Widths of the Gaussians of Tanimoto, and penalties, that were best for molecules of MassBank that
# had no part in training (experiments/ours/two_way.py, choose and choose_forward).
_GAMMA, _ALPHA = 0.25, 1e-4
_FORWARD_GAMMA, _FORWARD_ALPHA = 0.1, 3e-5


def spectrum_kernels() -> list[Any]:
    """Return the six kernels on spectra: fragments and losses at two widths, and two cosines."""
    widths = (0.005, 0.02)
    return [
        *(Normalized(ProbabilityProduct(width)) for width in widths),
        *(Normalized(ProbabilityProduct(width, neutral_loss=True)) for width in widths),
        *(PeakCosine(intensity_power=power) for power in (0.5, 0.25)),
    ]


def few_a_group(groups: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return at most so many rows of each group, drawn at random, in increasing order."""
    order = rng.permutation(len(groups))
    return np.sort(order[places(groups[order]) < most])


def places(labels: np.ndarray) -> np.ndarray:
    """Return for each row how many of its label come before it."""
    order = np.argsort(labels, kind="stable")
    sorted_labels, before = labels[order], np.empty(len(labels), dtype=np.intp)
    before[order] = np.arange(len(labels)) - np.searchsorted(sorted_labels, sorted_labels)
    return before


@dataclass(frozen=True)
class Design:
    """Settings of the models of both ways, which are fitted on rows of a library."""

    kernel: Any  # on spectra
    n_inputs: int | None  # landmarks among spectra, None is all of them
    n_outputs: int | None  # and among molecules
    widths: tuple[int, ...]  # of the fingerprints that stand side by side
    seed: int  # of the landmarks
    n_jobs: int | None = None

    def ways(self, X: Spectra, Y: PackedBits, molecule: np.ndarray) -> BothWays:
        """Return both ways between spectra and molecules."""
        return BothWays.of(self.two_ways(molecule).fit(X, Y))

    def two_ways(self, molecule: np.ndarray) -> TwoWay:
        """Return the model for rows of these molecules, each as likely to be a landmark."""
        inputs = _by_molecule(molecule, self.n_inputs)
        forward_kernel = SideBySide(_FORWARD_GAMMA, self.widths)
        outputs = _by_molecule(molecule, self.n_inputs)
        backward = iokr(
            self.kernel,
            SideBySide(_GAMMA, self.widths),
            input_sketch=inputs,
            output_sketch=_by_molecule(molecule, self.n_outputs),
            alpha=_ALPHA,
            random_state=self.seed,
            n_jobs=self.n_jobs,
        )
        forward = StructuredPredictor(
            KernelRidge(
                forward_kernel,
                sketch=outputs,
                alpha=_FORWARD_ALPHA,
                random_state=self.seed + 1,
                n_jobs=self.n_jobs,
            ),
            KernelBasis(self.kernel, inputs, random_state=self.seed, n_jobs=self.n_jobs),
        )
        return TwoWay(backward, forward, 1.0, normalization="distance")


def _by_molecule(molecule: np.ndarray, size: int | None) -> SubSample:
    """Return a sketch that draws rows; each molecule is equally likely, whatever its spectra."""
    n = len(molecule)
    counts = np.bincount(molecule)
    return SubSample(n if size is None else min(size, n), 1.0 / counts[molecule], replace=False)


def combined_kernel(
    X: Spectra,
    Y: PackedBits,
    molecule: np.ndarray,
    widths: tuple[int, ...],
    rng: np.random.Generator,
) -> Any:
    """Return the kernel on spectra whose weights follow the likeness of molecules (ALIGNF).

    One spectrum of each molecule is compared.
    """
    rows, target = few_a_group(molecule, 1, rng), SideBySide(_GAMMA, widths)
    return align(spectrum_kernels(), X[rows], Y[rows], output_kernel=target, random_state=rng)
