"""What `fit-spectra` and `identify` do."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from ... import SpectrumIdentifier, save
from ...predictors.spectra import Identification
from ...predictors.spectra.inputs import with_adduct
from ...readers import SpectraTable
from ..progress import is_terminal, note
from .files import for_the_shell, open_identifier, open_pool, read_spectra_files

__all__ = ["Asked", "FitSettings", "Found", "fit_library", "for_people", "identify_files"]

# Reasons that are told.
_SHOWN = 3


@dataclass(frozen=True)
class FitSettings:
    """Options of `skout fit-spectra`."""

    pool: Path | None = None
    ppm: float = 10.0
    adduct: str | None = None
    folds: int = 5
    coverage: float = 0.9
    skip_invalid: bool = False
    seed: int = 0


def fit_library(library: Sequence[Path], out: Path, settings: FitSettings) -> dict[str, Any]:
    """Fit a model on files of spectra and save it; return what was done.

    Parameters
    ----------
    library : sequence of paths
    out : path
    settings : FitSettings
    """
    start = time.perf_counter()
    pool = open_pool(settings.pool)
    table = with_adduct(read_spectra_files(library, settings.skip_invalid), settings.adduct)
    model = SpectrumIdentifier(
        cv=settings.folds,
        coverage=settings.coverage,
        random_state=settings.seed,
        verbose=is_terminal(),
    )
    try:
        model.fit(
            table,
            pool=pool,
            ppm=settings.ppm,
            on_error="skip" if settings.skip_invalid else "raise",
        )
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
    """Return the lines to print: shares with their standard errors.

    Parameters
    ----------
    found : dict
        Of `fit_library`.
    """
    where = "the pool" if found["candidates_from"] == "pool" else "molecules of similar mass"
    lines = {
        "model": found["model"],
        "spectra": f"{found['n_spectra']:,} of {found['n_library']:,} molecules",
        "held out": f"{found['n_molecules']:,} molecules, one spectrum each",
        "candidates": f"{where}, median {found['median_candidates']:,.0f}",
        "top 1": f"{100 * found['top_1']:.1f} % +- {100 * found['top_1_se']:.1f}",
        "top 10": f"{100 * found['top_10']:.1f} % +- {100 * found['top_10_se']:.1f}",
        "MRR@25": f"{found['mrr_25']:.3f} +- {found['mrr_25_se']:.3f}",
        "in reach by mass": f"{100 * found['in_reach']:.1f} % of the spectra",
        "confidence": f"off by {100 * found['calibration_error']:.1f} points on average",
        "seconds": found["seconds"],
    }
    return lines | ({"left out": found["left_out"]} if found["left_out"] else {})


@dataclass(frozen=True)
class Asked:
    """Options of `skout identify`."""

    ppm: float = 10.0
    top: int = 25
    by: str = "mass"
    adduct: str | None = None
    skip_invalid: bool = False


class Found(NamedTuple):
    """Spectra and what was found for each."""

    model: Any
    table: SpectraTable
    results: list[Identification]
    about: dict[str, Any]


def identify_files(spectra: Sequence[Path], model: Path, pool: Path, asked: Asked) -> Found:
    """Identify the spectra of files.

    Parameters
    ----------
    spectra : sequence of paths
    model, pool : paths
    asked : Asked
    """
    start = time.perf_counter()
    fitted, molecules = open_identifier(model), open_pool(pool)
    table = read_spectra_files(spectra, asked.skip_invalid)
    with tqdm(total=len(table), desc="identifying", unit=" spectra", disable=None) as bar:
        results = fitted.identify(
            table,
            molecules,
            ppm=asked.ppm,
            top=asked.top,
            by=asked.by,
            adduct=asked.adduct,
            progress=lambda done, total: bar.update(done - bar.n),
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
        "ppm": asked.ppm,
        "coverage": fitted.coverage,
        "seconds": round(time.perf_counter() - start, 3),
    }
    return Found(fitted, with_adduct(table, asked.adduct), results, about)
