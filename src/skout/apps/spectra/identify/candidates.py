"""What is used of candidate molecules: of a pool, and of a pool together with a library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from skout.kernels import PackedBits
from skout.typing import KernelRows

#: From the numbers of candidates to their fingerprints.
ReadFingerprints: TypeAlias = Callable[[np.ndarray], KernelRows]


class CandidateFacts(Protocol):
    """Candidates by number: what their columns are made of."""

    def smiles(self, indices: np.ndarray) -> np.ndarray: ...
    def keys(self, indices: np.ndarray) -> np.ndarray: ...
    def formulas(self, indices: np.ndarray) -> np.ndarray: ...
    def fingerprints(self, indices: np.ndarray) -> PackedBits: ...


class CandidatePool(CandidateFacts, Protocol):
    """What is used of a `MoleculePool`: molecules by mass or formula, and what they are."""

    def by_mass(self, mass: float, ppm: float) -> np.ndarray: ...
    def by_formula(self, formula: str) -> np.ndarray: ...
    def names(self, indices: np.ndarray) -> np.ndarray: ...
    def masses(self, indices: np.ndarray) -> np.ndarray: ...
