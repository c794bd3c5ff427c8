"""What `SpectrumIdentifier` returns: plain values, to be shown and written."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Hit:
    """A candidate of a spectrum.

    Parameters
    ----------
    rank : int
        1 is best.
    smiles, name, formula : str
        As the pool has them; "" where it has none.
    mass : float
    score : float
        The higher, the better; compares candidates of one spectrum.
    confidence : float
        Probability that it is the molecule, if the molecule is in the pool.
    in_set : bool
        Whether it is in the prediction set.
    index : int
        Its row in the pool.
    """

    rank: int
    smiles: str
    name: str
    formula: str
    mass: float
    score: float
    confidence: float
    in_set: bool
    index: int


@dataclass(frozen=True)
class Identification:
    """The best candidates of one spectrum.

    Parameters
    ----------
    query : str
        The identifier of the spectrum or its name, else its number.
    record : int
        Its number in the file; the first is 1.
    precursor_mz, mass : float
        Of the ion, and of the molecule; NaN where not known.
    adduct : str
    hits : tuple of Hit
        Best first.
    n_candidates : int
        How many the pool has.
    n_in_set : int
        How many of these are in the prediction set.
    seconds : float
        Its share of the time.
    note : str
        Why there are no hits, or what to mind about them; else "".
    """

    query: str
    record: int
    precursor_mz: float
    adduct: str
    mass: float
    hits: tuple[Hit, ...] = ()
    n_candidates: int = 0
    n_in_set: int = 0
    seconds: float = 0.0
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON can hold: None stands for numbers that are not known."""
        values = asdict(self)
        for name in ("precursor_mz", "mass"):
            values[name] = None if math.isnan(values[name]) else values[name]
        return values | {"hits": list(values["hits"])}


@dataclass(frozen=True)
class Fragment:
    """A part of a molecule that explains a peak.

    Parameters
    ----------
    smiles : str
        Of the part, as it is in the molecule.
    atoms : tuple of int
        Their numbers in the molecule, in the order of its SMILES.
    broken : tuple of pairs of int
        The bonds that were broken, by the numbers of their atoms.
    hydrogens : int
        How many it gained; below 0 it lost some. The proton of the charge does not count.
    cost : float
        Energy of the broken bonds in kJ/mol.
    """

    smiles: str
    atoms: tuple[int, ...]
    broken: tuple[tuple[int, int], ...]
    hydrogens: int
    cost: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """Which peaks a molecule explains: those that weigh as a part of its formula.

    Parameters
    ----------
    smiles : str
    mz, intensity : ndarray of shape (n,)
        The peaks; the largest intensity is 1.
    formula : tuple of n str
        Of the part, as an ion; "" where no part weighs so.
    error_ppm : ndarray of shape (n,)
        NaN where a peak is not explained.
    fragments : tuple of n Fragment or None
        The part of the molecule, with two cuts at most, that costs least; None where there is none.
    """

    smiles: str
    mz: np.ndarray
    intensity: np.ndarray
    formula: tuple[str, ...]
    error_ppm: np.ndarray
    fragments: tuple[Fragment | None, ...] = ()

    @property
    def explained(self) -> np.ndarray:
        """Whether each peak is explained."""
        is_known: np.ndarray = np.isfinite(self.error_ppm)
        return is_known

    @property
    def share(self) -> float:
        """The part of the intensity that is explained."""
        return float(self.intensity[self.explained].sum() / self.intensity.sum())

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON can hold: peaks as a list of dicts, and the share."""
        fragments = self.fragments or (None,) * len(self.mz)
        peaks = zip(self.mz, self.intensity, self.formula, self.error_ppm, fragments, strict=True)
        return {
            "smiles": self.smiles,
            "share": self.share,
            "peaks": [
                {
                    "mz": float(mz),
                    "intensity": float(intensity),
                    "formula": formula,
                    "error_ppm": None if math.isnan(error) else float(error),
                    "fragment": None if fragment is None else asdict(fragment),
                }
                for mz, intensity, formula, error, fragment in peaks
            ],
        }
