"""Which spectra are of one compound."""

from __future__ import annotations

import numpy as np

from .tables import SpectraTable

# Seconds between spectra of one compound, at most: about the width of a peak of chromatography.
_APART = 10.0


def compound_labels(table: SpectraTable, ppm: float = 10.0) -> list[str]:
    """Return one label for each spectrum: spectra of one compound have the same.

    The compound that the file names; else spectra of one polarity and adduct whose precursors are
    within `ppm` and that follow each other within 10 seconds are one compound. A spectrum that says
    neither its compound nor its retention time stands alone, and its label is "".

    Parameters
    ----------
    table : SpectraTable
    ppm : float, default 10

    Returns
    -------
    labels : list of str

    Examples
    --------
    >>> from skout.readers import compound_labels, spectra_table
    >>> rows = [([138.0], [9.0], 195.0877)] * 3
    >>> compound_labels(spectra_table(rows, retention_time=[300.0, 304.0, 700.0]))
    ['m/z 195.0877, 300 s', 'm/z 195.0877, 300 s', 'm/z 195.0877, 700 s']
    """
    labels = [str(name) for name in table["compound"]]
    mz, seconds = table["precursor_mz"], table["retention_time"]
    timed = [
        i
        for i, name in enumerate(labels)
        if not name and np.isfinite(mz[i]) and np.isfinite(seconds[i])
    ]
    ions = [(str(table["polarity"][i]), str(table["adduct"][i])) for i in range(len(table))]
    groups: list[list[int]] = []
    for i in sorted(timed, key=lambda i: (ions[i], seconds[i])):
        same = (
            group
            for group in reversed(groups)
            if ions[group[0]] == ions[i]
            and abs(mz[group[0]] - mz[i]) <= 1e-6 * ppm * mz[i]
            and seconds[i] - seconds[group[-1]] <= _APART
        )
        group = next(same, None)
        if group is None:
            groups.append([i])
        else:
            group.append(i)
    for group in groups:
        first = group[0]
        for i in group:
            labels[i] = f"m/z {mz[first]:.4f}, {seconds[first]:.0f} s"
    return labels
