"""Fit a model on files of spectra, and identify the spectra of others."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from skout import SpectrumIdentifier, save

from ...spectra.identify import Identification
from ...spectra.pools import MoleculePool
from ...spectra.readers import SpectraTable, compound_labels, fill_adducts
from ..progress import is_terminal, note
from .files import (
    for_the_shell,
    open_identifier,
    open_pool,
    prior_of_pool,
    read_prior_table,
    read_spectra_files,
)

# The most reasons for missing candidates that are printed.
_SHOWN = 3
# The fewest spectra with several candidates whose scores are printed: the standard error of top 1
# is 11 points at 20, 16 at 10 and 8 at 40.
_FEWEST = 20


def fit_library(
    library: Sequence[Path],
    out: Path,
    *,
    pool: Path | None = None,
    ppm: float = 10.0,
    adduct: str | None = None,
    prior: str | None = None,
    folds: int = 5,
    coverage: float = 0.9,
    skip_invalid: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Fit a model on files of spectra and save it; return a record of the fit."""
    start = time.perf_counter()
    molecules = None if pool is None else MoleculePool.open(pool)
    known = prior_of_pool(molecules) if prior == "pool" else read_prior_table(prior)
    table = fill_adducts(read_spectra_files(library, skip_invalid), adduct)
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


def for_people(record: dict[str, Any]) -> dict[str, Any]:
    """Return the lines to print of a record of `fit_library`: scores with standard errors."""
    where = "the pool" if record["candidates_from"] == "pool" else "molecules of similar mass"
    lines = {
        "model": record["model"],
        "spectra": f"{record['n_spectra']:,} of {record['n_library']:,} molecules",
        "held out": f"{record['n_held_out']:,} spectra of {record['n_molecules']:,} molecules, "
        f"in folds of {record['folds_of']}",
        "candidates": f"{where}, median {record['median_candidates']:,.0f}; "
        f"{record['n_several']:,} spectra have several and count",
    }
    if record["n_several"] >= _FEWEST:
        lines |= {"scores": scores_text(record), "random order": scores_text(record["random"])}
        if "prior" in record:
            lines["with the prior"] = scores_text(record["with_prior"])
            lines["same without it"] = scores_text(record["same_without_prior"])
            lines["prior alone"] = scores_text(record["prior"])
        off = f"off by {100 * record['calibration_error']:.1f} points on average"
        lines["confidence"] = f"{100 * record['mean_confidence']:.1f} % on average, {off}"
    else:
        lines["scores"] = "too few to score the model: give a larger --pool"
    lines |= {
        "mass fits": f"of {100 * record['in_reach']:.1f} % of the spectra; others are not held out",
        "seconds": record["seconds"],
    }
    return lines | ({"left out": record["left_out"]} if record["left_out"] else {})


def scores_text(measures: dict[str, Any]) -> str:
    """Return scores as text, with their standard errors if there are any."""
    shares = (("top 1", "top_1", 100, 1, " %"), ("top 10", "top_10", 100, 1, " %"),
              ("MRR@25", "mrr_25", 1, 3, ""))  # fmt: skip
    texts = []
    for name, key, unit, digits, sign in shares:
        error = measures.get(f"{key}_se")
        more = f" +- {unit * error:.{digits}f}" if error else ""  # 0 where all are right
        texts.append(f"{name} {unit * measures[key]:.{digits}f}{sign}{more}")
    return ", ".join(texts)


@dataclass(frozen=True)
class Search:
    """The options of `skout identify` that say how candidates are found and ordered."""

    ppm: float = 10.0
    top: int = 25
    by: str = "mass"
    adduct: str | None = None
    prior: str | None = None
    merge: bool = False


class Identified(NamedTuple):
    """Spectra with the result of each, or of each compound of several spectra."""

    model: SpectrumIdentifier
    table: SpectraTable
    results: list[Identification]
    rows: list[int]  # the first spectrum of each result
    about: dict[str, Any]


def identify_files(
    spectra: Sequence[Path],
    model: Path | None,
    pool: Path | None,
    skip_invalid: bool,
    search: Search,
) -> Identified:
    """Identify the spectra of files, by default with the model and the pool of skout."""
    table = fill_adducts(read_spectra_files(spectra, skip_invalid), search.adduct)
    fitted = open_identifier(model)
    if model is None:
        note(_limits(fitted))
    known = read_prior_table(search.prior)
    molecules = open_pool(pool)
    if search.prior == "pool":
        known = prior_of_pool(molecules)
    labels = compound_labels(table, search.ppm) if search.merge else None
    start = time.perf_counter()
    with tqdm(total=len(table), desc="identifying", unit=" spectra", disable=None) as bar:
        results = fitted.identify(
            table,
            molecules,
            ppm=search.ppm,
            top=search.top,
            by=search.by,
            prior=known,
            merge=labels,
            progress=lambda done, total: bar.update(done - bar.n),
        )
    rows = _first_rows(labels) if labels is not None else list(range(len(table)))
    if labels is not None:
        note(f"{len(table):,} spectra of {len(results):,} compounds")
    none = Counter(result.note for result in results if not result.hits)
    if none:
        why = " ".join(f"Of {count}: {text}" for text, count in none.most_common(_SHOWN))
        why = why.replace("give one, such as [M+H]+", 'say --adduct "[M+H]+,[M-H]-"')
        note(f"{none.total()} of {len(results)} spectra have no candidates. {why}")
    about = {
        "spectra": [path.name for path in spectra],
        "model": "of skout" if model is None else model.name,
        "pool": "the pool of skout" if pool is None else pool.name,
        "molecules": len(molecules),
        "ppm": search.ppm,
        "coverage": fitted.coverage,
        "seconds": round(time.perf_counter() - start, 3),
    }
    return Identified(fitted, table, results, rows, about)


def _first_rows(labels: list[str]) -> list[int]:
    """Return the position of the first spectrum of each label, and of all without a label."""
    first = {label: i for i, label in reversed(list(enumerate(labels))) if label}
    return [i for i, label in enumerate(labels) if not label or first[label] == i]


def _limits(model: SpectrumIdentifier) -> str:
    """Return a sentence on what the model of skout learned from, and how good it is."""
    record = model.validation_
    scores = f"{_top_1(record)} (random order: {_top_1(record['random'])})"
    if "with_prior" in record:
        without, alone = _top_1(record["same_without_prior"]), _top_1(record["prior"])
        scores += (
            f". With --prior pool: in {_top_1(record['with_prior'])} of those whose molecule the "
            f"pool has by itself ({without} without it, {alone} by the prior alone)"
        )
    return (
        f"the model that comes with skout learned from {record['n_spectra']:,} open spectra of "
        f"{record['n_library']:,} molecules. Of {record['n_several']:,} spectra from laboratories "
        "that it had not seen, each with several candidates, the first candidate was right in "
        f"{scores}"
    )


def _top_1(measures: dict[str, Any]) -> str:
    return f"{100 * measures['top_1']:.0f} %"
