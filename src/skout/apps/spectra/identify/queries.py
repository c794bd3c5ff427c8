"""Spectra of unknown molecules: their masses, why some cannot be searched, and batches of them."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..readers import SpectraLike, fill_adducts, spectra_table
from ..readers.formulas import formula_mass
from .candidates import CandidatePool
from .columns import Ions
from .inputs import NO_PRECURSOR, names_of, neutral_masses, with_precursors
from .results import Identification
from .search import Pairs

# Pairs of a spectrum and a candidate, and spectra, that are held at a time.
_MOST_PAIRS, _MOST_SPECTRA = 2_000_000, 1000


@dataclass(frozen=True)
class Queries:
    """Spectra to be identified, n of them, of compounds: one each, unless they are merged."""

    ions: Ions
    masses: np.ndarray  # (n,) NaN where not known
    formulas: Any  # (n,)
    spectra: list[np.ndarray]  # of each compound those that can be searched
    order: list[int]  # compounds that can be searched, by increasing mass
    blank: list[Identification]  # without hits; those that cannot be searched have a note
    remarks: list[str]  # what to say of a compound even if it has hits

    def identified(
        self, compound: int, description: dict[str, Any], seconds: float
    ) -> Identification:
        """Return the identification of a compound from the fields of `described`."""
        none = "the pool has no molecule of its mass or formula."
        note = self.remarks[compound] if description["hits"] else none
        return replace(self.blank[compound], **description, seconds=seconds, note=note)


def read_queries(
    spectra: SpectraLike,
    adduct: str | None,
    by: str,
    polarities: tuple[str, ...] = (),
    merge: Sequence[Hashable] | None = None,
) -> Queries:
    """Return spectra with their masses, by precursor and adduct, or by their formulas.

    Spectra of polarities that the model does not know get a remark. Those of one label in `merge`
    are of one compound.
    """
    table = fill_adducts(spectra_table(spectra), adduct)
    masses, notes = neutral_masses(table)
    if by == "formula":
        exact = np.array([formula_mass(text) for text in table["formula"]])
        table = with_precursors(table, exact)
        masses, notes = exact, [_formula_note(text) for text in table["formula"]]
    unknown = np.isnan(table["precursor_mz"])
    notes = [
        note or (NO_PRECURSOR if lost else "") for note, lost in zip(notes, unknown, strict=True)
    ]
    names, labels = names_of(table), [""] * len(table)
    if merge is not None:
        labels = [str(label) for label in merge]
        if len(labels) != len(table):
            raise ValueError(
                f"merge must have a label for each of {len(table)} spectra. Got {len(labels)}."
            )
    compounds: dict[Any, list[int]] = {}  # in order of appearance; without a label, each alone
    for i, label in enumerate(labels):
        compounds.setdefault(label or i, []).append(i)
    searched = [np.array([i for i in rows if not notes[i]], np.intp) for rows in compounds.values()]
    leads = [
        int(usable[0]) if len(usable) else rows[0]
        for usable, rows in zip(searched, compounds.values(), strict=True)
    ]
    blank = [
        Identification(
            labels[i] or names[i],
            int(table.record[i]),
            float(table["precursor_mz"][i]),
            str(table["adduct"][i]),
            float(masses[i]),
            note=notes[i],
        )
        for i in leads
    ]
    order = [int(c) for c in np.argsort(masses[leads], kind="stable") if len(searched[c])]
    remarks = [_remark(table["polarity"][i], table["adduct"][i], polarities) for i in leads]
    ions = Ions(table.spectra, table["adduct"])
    return Queries(ions, masses, table["formula"], searched, order, blank, remarks)


def _remark(polarity: str, adduct: str, known: tuple[str, ...]) -> str:
    if adduct.endswith("-" if polarity == "positive" else "+") and polarity:
        return f"the file calls it {polarity}, and its adduct {adduct} is not."
    unseen = polarity and known and polarity not in known
    return f"the model has seen no {polarity} spectra." if unseen else ""


def _formula_note(text: str) -> str:
    if not text:
        return "its formula is not known: search it by mass."
    return "" if np.isfinite(formula_mass(text)) else f"its formula cannot be read, {text!r}."


class Batch(NamedTuple):
    """Compounds of similar mass, their spectra, and candidates: the same for one compound."""

    compounds: list[int]
    spectra: np.ndarray
    compound_of: np.ndarray  # of each spectrum, its place among the compounds
    pairs: Pairs  # of the spectra

    def merged(self, columns: np.ndarray) -> tuple[np.ndarray, Pairs]:
        """Return the means of columns over the spectra of each compound, and its candidates."""
        if len(self.compounds) == len(self.spectra):
            return columns, self.pairs
        means, lists = [], []
        for k in range(len(self.compounds)):
            slices = [self.pairs.entries(int(i)) for i in np.flatnonzero(self.compound_of == k)]
            means.append(np.mean([columns[:, entries] for entries in slices], axis=0))
            lists.append(self.pairs.indices[slices[0]])
        return np.concatenate(means, axis=1), Pairs.of(lists)


def batches(queries: Queries, pool: CandidatePool, ppm: float, by: str) -> Iterator[Batch]:
    """Yield compounds of similar mass, and their candidates."""
    compounds: list[int] = []
    lists: list[np.ndarray] = []
    latest: dict[Any, np.ndarray] = {}  # spectra of one molecule have the same candidates
    for compound in queries.order:
        parts = []
        for i in queries.spectra[compound]:
            key = queries.formulas[i] if by == "formula" else float(queries.masses[i])
            if key not in latest:
                latest = {key: _candidates_of(pool, key, ppm, by)}
            parts.append(latest[key])
        candidates = functools.reduce(np.union1d, parts)
        size = len(queries.spectra[compound])
        full = (
            sum(map(len, lists)) + size * len(candidates) > _MOST_PAIRS
            or len(lists) >= _MOST_SPECTRA
        )
        if compounds and full:
            yield _batch(queries, compounds, lists)
            compounds, lists = [], []
        compounds.append(compound)
        lists += [candidates] * size
    if compounds:
        yield _batch(queries, compounds, lists)


def _batch(queries: Queries, compounds: list[int], lists: list[np.ndarray]) -> Batch:
    spectra = [queries.spectra[compound] for compound in compounds]
    places = np.repeat(np.arange(len(compounds)), [len(rows) for rows in spectra])
    return Batch(compounds, np.concatenate(spectra), places, Pairs.of(lists))


def _candidates_of(pool: CandidatePool, key: str | float, ppm: float, by: str) -> np.ndarray:
    indices = pool.by_formula(str(key)) if by == "formula" else pool.by_mass(float(key), ppm)
    return np.asarray(indices, dtype=np.int64)
