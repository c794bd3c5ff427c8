"""Spectra of unknown molecules: their masses, why some cannot be searched, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..readers import spectra_table
from ..readers.formulas import formula_mass
from .columns import Ions
from .inputs import names_of, neutral_masses, with_adduct, with_precursors
from .results import Identification
from .search import Pairs

# Pairs of a spectrum and a candidate, and spectra, that are held at a time.
_MOST_PAIRS, _MOST_SPECTRA = 2_000_000, 1000


@dataclass(frozen=True)
class Queries:
    """Spectra to be identified, n of them."""

    ions: Ions
    masses: np.ndarray  # (n,) NaN where not known
    formulas: Any  # (n,)
    order: np.ndarray  # those that can be searched, by increasing mass
    blank: list[Identification]  # without hits; those that cannot be searched have a note
    remarks: list[str]  # what to say of a spectrum even if it has hits

    def answered(self, i: int, found: dict[str, Any], seconds: float) -> Identification:
        """Return what was found for spectrum i."""
        none = "the pool has no molecule of its mass or formula."
        note = self.remarks[i] if found["hits"] else none
        return replace(self.blank[i], **found, seconds=seconds, note=note)


def read_queries(
    spectra: Any, adduct: str | None, by: str, polarities: tuple[str, ...] = ()
) -> Queries:
    """Return spectra with their masses, by precursor and adduct, or by their formulas.

    Spectra of polarities that the model does not know get a remark.
    """
    table = with_adduct(spectra_table(spectra), adduct)
    masses, notes = neutral_masses(table)
    if by == "formula":
        exact = np.array([formula_mass(text) for text in table["formula"]])
        table = with_precursors(table, exact)
        masses, notes = exact, [_formula_note(text) for text in table["formula"]]
    unknown = np.isnan(table["precursor_mz"])
    notes = [
        note or ("the m/z of its precursor is not known." if lost else "")
        for note, lost in zip(notes, unknown, strict=True)
    ]
    blank = [
        Identification(query, int(record), float(mz), str(ion), float(mass), note=note)
        for query, record, mz, ion, mass, note in zip(
            names_of(table),
            table.record,
            table["precursor_mz"],
            table["adduct"],
            masses,
            notes,
            strict=True,
        )
    ]
    order = [i for i in np.argsort(masses, kind="stable") if not notes[i]]
    remarks = [
        _remark(one, ion, polarities)
        for one, ion in zip(table["polarity"], table["adduct"], strict=True)
    ]
    formulas = table["formula"]
    ions = Ions(table.spectra, table["adduct"])
    return Queries(ions, masses, formulas, np.array(order, np.intp), blank, remarks)


def _remark(polarity: str, adduct: str, known: tuple[str, ...]) -> str:
    if adduct.endswith("-" if polarity == "positive" else "+") and polarity:
        return f"the file calls it {polarity}, and its adduct {adduct} is not."
    unseen = polarity and known and polarity not in known
    return f"the model has seen no {polarity} spectra." if unseen else ""


def _formula_note(text: str) -> str:
    if not text:
        return "its formula is not known: search it by mass."
    return "" if np.isfinite(formula_mass(text)) else f"its formula cannot be read, {text!r}."


def batches(queries: Queries, pool: Any, ppm: float, by: str) -> Iterator[tuple[np.ndarray, Pairs]]:
    """Yield numbers of spectra of similar mass, and their candidates."""
    rows: list[int] = []
    found: list[np.ndarray] = []
    known: dict[Any, np.ndarray] = {}  # spectra of one molecule ask for the same
    for i in queries.order:
        key = queries.formulas[i] if by == "formula" else float(queries.masses[i])
        if key not in known:
            known = {key: _looked_up(pool, key, ppm, by)}
        own = known[key]
        full = sum(map(len, found)) + len(own) > _MOST_PAIRS or len(rows) == _MOST_SPECTRA
        if rows and full:
            yield np.array(rows), Pairs.of(found)
            rows, found = [], []
        rows.append(int(i))
        found.append(own)
    if rows:
        yield np.array(rows), Pairs.of(found)


def _looked_up(pool: Any, key: Any, ppm: float, by: str) -> np.ndarray:
    found = pool.by_formula(key) if by == "formula" else pool.by_mass(key, ppm)
    return np.asarray(found, dtype=np.int64)
