"""Fit the model that comes with skout on the open spectra of MassBank and MIADB."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from skout import SpectrumIdentifier, save
from skout.datasets import Dataset, load

from ..pools import MoleculePool
from ..readers import SpectraTable, spectra_table

# Landmarks among spectra and among molecules: as many as a file of 12 MB holds.
_LANDMARKS = (800, 500)
_SHARE_ALIKE = "CC BY-SA"
_SOURCE = (
    "MassBank (https://massbank.eu), repository MassBank/MassBank-data on GitHub, release "
    "2025.05.1; MIADB, repository spectra-to-knowledge/miadb-visualization on GitHub"
)
_CHANGES = (
    "Of each spectrum at most 100 peaks were kept; a kernel model was fitted, which holds some of "
    "the spectra as landmarks."
)
_NUMBERED = re.compile(r"(.*?)([0-9]+)", re.ASCII)


def build_massbank_model(
    path: Path,
    pool: MoleculePool,
    *,
    share_alike: bool = False,
    n_landmarks: tuple[int, int] = _LANDMARKS,
    random_state: int = 0,
    verbose: bool = False,
) -> dict[str, Any]:
    """Fit a model on the data set msms_open, save it, and return what its file says of it.

    Parameters
    ----------
    path : path
        The file to write.
    pool : MoleculePool
        Where candidates of held-out spectra are from; its prior is learned, too.
    share_alike : bool, default False
        Whether records under CC BY-SA are learned from, too: whoever passes such a model on must
        use the same license.
    n_landmarks : tuple of two int, default (800, 500)
        Among spectra and among molecules.
    random_state : int, default 0
    verbose : bool, default False

    Returns
    -------
    facts : dict
        Scores of held-out spectra, sources, licenses, contributors and accessions.
    """
    data = load("msms_open", download=True)
    kept = share_alike | (data.extra["license"] != _SHARE_ALIKE)
    rows = np.flatnonzero(kept)
    model = SpectrumIdentifier(
        n_landmarks=n_landmarks,
        fingerprint=pool.fingerprint_settings,
        random_state=random_state,
        verbose=verbose,
    )
    model.fit(open_library(data, rows), pool=pool, prior=pool.prior() or None, on_error="skip")
    facts = {**model.validation_, **_attribution(data, rows)}
    save(model, path, metadata={"fit_spectra": facts})
    return facts


def open_library(data: Dataset, rows: np.ndarray) -> SpectraTable:
    """Return rows of the data set msms_open as a library of spectra."""
    extra = {name: values[rows] for name, values in data.extra.items()}
    return spectra_table(
        data.X[rows],
        smiles=data.Y[rows],
        adduct=extra["adduct"],
        polarity=extra["polarity"],
        identifier=extra["accession"],
        laboratory=extra["contributor"],
    )


def _attribution(data: Dataset, rows: np.ndarray) -> dict[str, Any]:
    """Return whose spectra these are, and under which licenses."""
    names, licenses = data.extra["contributor"][rows], data.extra["license"][rows]
    return {
        "source": _SOURCE,
        "changes": _CHANGES,
        "citation": data.citation,
        "licenses": dict(Counter(licenses.tolist()).most_common()),
        "contributors": {
            str(name): sorted(set(licenses[names == name].tolist())) for name in np.unique(names)
        },
        "accessions": accession_ranges(data.extra["accession"][rows].tolist()),
    }


def accession_ranges(accessions: Iterable[str]) -> str:
    """Return accessions in order, with .. between the first and the last of consecutive ones.

    Examples
    --------
    >>> from skout.apps.spectra.shipped.training import accession_ranges
    >>> accession_ranges(["MSBNK-A-X02", "MSBNK-A-X01", "MSBNK-A-X03", "MSBNK-A-Y1"])
    'MSBNK-A-X01..03 MSBNK-A-Y1'
    """
    texts: list[str] = []
    first, last = "", ("", "")
    for accession in [*sorted(set(accessions)), ""]:
        match = _NUMBERED.fullmatch(accession)
        head, number = (match[1], match[2]) if match else (accession, "")
        follows = (
            number != ""
            and head == last[0]
            and len(number) == len(last[1])
            and int(number) == int(last[1]) + 1
        )
        if not follows:
            if first:
                texts.append(first if first == "".join(last) else f"{first}..{last[1]}")
            first = accession
        last = (head, number)
    return " ".join(texts)
