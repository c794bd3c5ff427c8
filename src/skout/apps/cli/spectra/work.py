"""What `fit-spectra` and `identify` do."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from skout import SpectrumIdentifier, save

from ...spectra.identify import Identification
from ...spectra.identify.inputs import with_adduct
from ...spectra.pools import MoleculePool, read_prior
from ...spectra.readers import SpectraTable
from ..progress import is_terminal, note
from .files import for_the_shell, open_identifier, read_spectra_files

# Reasons that are told.
_SHOWN = 3


def fit_library(
    library: Sequence[Path],
    out: Path,
    *,
    pool: Path | None = None,
    ppm: float = 10.0,
    adduct: str | None = None,
    prior: Path | None = None,
    folds: int = 5,
    coverage: float = 0.9,
    skip_invalid: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Fit a model on files of spectra and save it; return what was done."""
    start = time.perf_counter()
    molecules = None if pool is None else MoleculePool.open(pool)
    known = None if prior is None else read_prior(prior)
    table = with_adduct(read_spectra_files(library, skip_invalid), adduct)
    model = SpectrumIdentifier(
        cv=folds, coverage=coverage, random_state=seed, verbose=is_terminal()
    )
    try:
        on_error = "skip" if skip_invalid else "raise"
        model.fit(table, pool=molecules, ppm=ppm, prior=known, on_error=on_error)
    except ValueError as error:
        raise for_the_shell(error) from error
    record = {
        "model": str(out),
        **model.validation_,
        "left_out": len(table.problems),
        "seconds": round(time.perf_counter() - start, 3),
    }
    save(model, out, metadata={"fit_spectra": record})
    return record


def for_people(found: dict[str, Any]) -> dict[str, Any]:
    """Return the lines to print of what `fit_library` returned: shares with standard errors."""
    where = "the pool" if found["candidates_from"] == "pool" else "molecules of similar mass"
    lines = {
        "model": found["model"],
        "spectra": f"{found['n_spectra']:,} of {found['n_library']:,} molecules",
        "held out": f"{found['n_held_out']:,} spectra of {found['n_molecules']:,} molecules, "
        f"in folds of {found['folds_of']}",
        "candidates": f"{where}, median {found['median_candidates']:,.0f}; "
        f"{found['n_several']:,} spectra have several",
    }
    if found["n_several"]:
        lines |= {"of these": _scores(found), "random order": _scores(found["random"])}
        if "prior" in found:
            lines["with the prior"] = _scores(found["with_prior"])
            lines["same without it"] = _scores(found["same_without_prior"])
            lines["prior alone"] = _scores(found["prior"])
        off = f"off by {100 * found['calibration_error']:.1f} points on average"
        lines["confidence"] = f"{100 * found['mean_confidence']:.1f} % on average, {off}"
    else:
        lines["of these"] = "none: nothing could be measured, give a larger pool"
    lines |= {
        "in reach by mass": f"{100 * found['in_reach']:.1f} % of the spectra",
        "seconds": found["seconds"],
    }
    return lines | ({"left out": found["left_out"]} if found["left_out"] else {})


def _scores(found: dict[str, Any]) -> str:
    """Return shares as text, with standard errors where these are known."""
    shares = (("top 1", "top_1", 100, 1, " %"), ("top 10", "top_10", 100, 1, " %"),
              ("MRR@25", "mrr_25", 1, 3, ""))  # fmt: skip
    texts = []
    for name, key, unit, digits, sign in shares:
        error = found.get(f"{key}_se")
        more = f" +- {unit * error:.{digits}f}" if error is not None else ""
        texts.append(f"{name} {unit * found[key]:.{digits}f}{sign}{more}")
    return ", ".join(texts)


class Found(NamedTuple):
    """Spectra and what was found for each."""

    model: Any
    table: SpectraTable
    results: list[Identification]
    about: dict[str, Any]


def identify_files(
    spectra: Sequence[Path],
    model: Path,
    pool: Path,
    skip_invalid: bool,
    *,
    prior: Path | None = None,
    **asked: Any,
) -> Found:
    """Identify the spectra of files; `asked` are arguments of `SpectrumIdentifier.identify`."""
    start = time.perf_counter()
    fitted, molecules = open_identifier(model), MoleculePool.open(pool)
    known = None if prior is None else read_prior(prior)
    table = read_spectra_files(spectra, skip_invalid)
    with tqdm(total=len(table), desc="identifying", unit=" spectra", disable=None) as bar:
        results = fitted.identify(
            table,
            molecules,
            prior=known,
            progress=lambda done, total: bar.update(done - bar.n),
            **asked,
        )
    none = Counter(one.note for one in results if not one.hits)
    if none:
        why = " ".join(f"{count}: {text}" for text, count in none.most_common(_SHOWN))
        note(f"{none.total()} of {len(results)} spectra have no candidates. {why}")
    about = {
        "spectra": [path.name for path in spectra],
        "model": model.name,
        "pool": pool.name,
        "molecules": len(molecules),
        "ppm": asked["ppm"],
        "coverage": fitted.coverage,
        "seconds": round(time.perf_counter() - start, 3),
    }
    return Found(fitted, with_adduct(table, asked["adduct"]), results, about)
