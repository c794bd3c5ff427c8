"""Spectra whose peaks have formulas, and a kernel that compares these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from skout.dev import Spectra, check_number
from skout.kernels import Kernel

from ..readers.formulas import CODES, element_counts, formula_code
from .annotation import annotate

_H = np.uint64(CODES["H"])


class AnnotatedSpectra(Spectra):
    """Spectra with the formula of each peak, made neutral, as numbers (`formula_code`).

    `fragment` is the formula of the fragment without hydrogens, 0 for peaks that have none,
    `hydrogens` how many it has, and `loss` the formula of the rest of the molecule.
    """

    def __init__(
        self,
        indptr: np.ndarray,
        mz: np.ndarray,
        intensity: np.ndarray,
        precursor: np.ndarray,
        fragment: np.ndarray,
        hydrogens: np.ndarray,
        loss: np.ndarray,
    ) -> None:
        super().__init__(indptr, mz, intensity, precursor)
        self.columns = (mz, intensity, precursor, fragment, hydrogens, loss)

    @property
    def fragment(self) -> np.ndarray:
        return self.columns[3]

    @property
    def hydrogens(self) -> np.ndarray:
        return self.columns[4]

    @property
    def loss(self) -> np.ndarray:
        return self.columns[5]


def annotated(
    spectra: Spectra, adducts: np.ndarray, formulas: Sequence[str] | np.ndarray
) -> AnnotatedSpectra:
    """Return spectra whose peaks have the parts of these molecular formulas that weigh as they do.

    See `annotate`. Where a formula has too many parts, no peak of its spectra has one.
    """
    n = len(spectra.mz)
    fragment, loss = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.uint64)
    hydrogens = np.zeros(n, dtype=np.int64)
    # spectra of one formula follow each other: its parts are kept for a while
    for i in np.argsort(np.asarray(formulas, dtype=str), kind="stable"):
        peaks = slice(spectra.indptr[i], spectra.indptr[i + 1])
        mz, height, formula = spectra.mz[peaks], spectra.intensity[peaks], str(formulas[i])
        annotation = annotate(mz, height, formula, str(adducts[i]))
        if annotation is None:
            continue
        positions = peaks.start + annotation.peak
        fragment[positions], hydrogens[positions] = annotation.code, annotation.hydrogens
        loss[positions] = (
            _whole(formula) - annotation.code - annotation.hydrogens.astype(np.uint64) * _H
        )
    return AnnotatedSpectra(
        spectra.indptr, spectra.mz, spectra.intensity, spectra.precursor, fragment, hydrogens, loss
    )


def _whole(formula: str) -> np.uint64:
    """Return the code of a molecular formula; a cation counts as a molecule and a proton."""
    counts = element_counts(formula)
    counts["H"] = counts.get("H", 0) - formula.count("+") + formula.count("-")
    return np.uint64(formula_code(counts))


class FormulaCosine(Kernel):
    """Cosine of annotated spectra: k(x, y) = sum over common formulas of w w', of unit vectors.

    The weight of a peak is its intensity to a power; peaks without a formula do not count. The
    kernel of a spectrum without any is 0.

    Parameters
    ----------
    power : float, default 0.5
    loss : bool, default False
        Whether formulas of losses are compared, not those of fragments.
    """

    compares = "spectra"

    def __init__(self, power: float = 0.5, loss: bool = False) -> None:
        self.power = power
        self.loss = loss

    def encode(self, objects: Any) -> AnnotatedSpectra:
        """Return the objects, or raise a TypeError unless they are annotated spectra."""
        check_number(self.power, "power")
        if not isinstance(objects, AnnotatedSpectra):
            raise TypeError(
                f"Formulas of peaks are needed: annotated(spectra, adducts, formulas). Got "
                f"{type(objects).__name__}."
            )
        return objects

    def _entries(self, rows: AnnotatedSpectra) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return row, formula and weight of peaks that have a formula; rows are unit vectors."""
        kept = np.flatnonzero(rows.fragment != 0)
        row, height = rows.row_numbers[kept], rows.intensity[kept]
        code = rows.fragment[kept] + rows.hydrogens[kept].astype(np.uint64) * _H
        weight = (height / np.maximum.reduceat(rows.intensity, rows.indptr[:-1])[row]) ** self.power
        formulas, number = np.unique(rows.loss[kept] if self.loss else code, return_inverse=True)
        # two peaks may have one formula: then their weights add
        matrix = csr_array((weight, (row, number)), shape=(len(rows), max(len(formulas), 1)))
        matrix.sum_duplicates()
        squares = np.bincount(matrix.nonzero()[0], matrix.data**2, minlength=len(rows))
        entries = matrix.tocoo()
        row = entries.coords[0]
        return row, formulas[entries.coords[1]], entries.data / np.sqrt(squares[row])

    def against(self, B: AnnotatedSpectra) -> Any:
        row, code, weight = self._entries(B)
        formulas, number = np.unique(code, return_inverse=True)
        right = csr_array((weight, (number, row)), shape=(max(len(formulas), 1), len(B)))

        def block(A: AnnotatedSpectra, out: np.ndarray | None = None) -> np.ndarray:
            row, code, weight = self._entries(A)
            place = np.minimum(np.searchsorted(formulas, code), max(len(formulas) - 1, 0))
            common = formulas[place] == code if len(formulas) else np.zeros(len(code), dtype=bool)
            entries = (weight[common], (row[common], place[common]))
            left = csr_array(entries, shape=(len(A), right.shape[0]))
            return np.asarray((left @ right).toarray())

        return block

    def diag(self, A: AnnotatedSpectra) -> np.ndarray:
        row = self._entries(A)[0]
        return (np.bincount(row, minlength=len(A)) > 0).astype(np.float64)
