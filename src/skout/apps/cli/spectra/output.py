"""Write identifications: a row for each hit or spectrum, JSON, or a page."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from skout.dev import replacing

from ...spectra.identify import Identification
from ..progress import note
from ..results import FORMATS, check_format, check_place, write_rows
from .page import write_page
from .work import Identified

_WHOLE = ("json", "html")
# The number of spectra whose rows are written at a time.
_BLOCK = 1000


def check_form(out: str, lists: bool, read: Sequence[Path]) -> str:
    """Return the format of --out by its ending, or raise before any work.

    With `lists` a row is a spectrum. The file must be none of those that are `read`.
    """
    ending = Path(out).suffix.lower().removeprefix(".") if out != "-" else "csv"
    if ending in _WHOLE:
        if lists:
            raise ValueError(f"--lists writes a table: end --out in .csv, say. Got {out!r}.")
        check_place(Path(out), "--out", read)
        return ending
    if ending not in FORMATS:
        raise ValueError(
            f"--out must end in .csv, .jsonl, .parquet, .json or .html. Got {out!r} instead."
        )
    check_format(out, None, read)
    return f"{ending} lists" if lists else ending


def write(identified: Identified, out: str, form: str) -> None:
    """Write identifications in a form of `check_form`, and print how many, but to the terminal."""
    if form == "html":
        write_page(identified, Path(out))
    elif form == "json":
        _write_json(identified, out)
    else:
        kind, _, lists = form.partition(" ")
        rows = _lists(identified.results) if lists else hit_columns(identified.results)
        write_rows(rows, out, kind)
    if out != "-":
        n, seconds = len(identified.results), identified.about["seconds"]
        note(f"identified {n:,} spectra in {seconds:.1f} s: see {out}")


def _write_json(identified: Identified, out: str) -> None:
    whole = {**identified.about, "results": [result.as_dict() for result in identified.results]}
    with replacing(out) as part, open(part, "w", encoding="utf-8") as file:
        json.dump(whole, file, indent=1, ensure_ascii=False)
        file.write("\n")


def _blocks(results: Sequence[Identification]) -> Iterator[Sequence[Identification]]:
    for start in range(0, max(1, len(results)), _BLOCK):
        yield results[start : start + _BLOCK]


def hit_columns(results: Sequence[Identification]) -> Iterator[dict[str, list[Any]]]:
    """Yield columns with a row for each hit; a spectrum without hits has a row with its note."""
    for block in _blocks(results):
        rows = [row for result in block for row in _rows(result)]
        yield {name: [row[name] for row in rows] for name in _COLUMNS}


_HIT = ("rank", "smiles", "name", "formula", "mass", "score", "confidence", "in_set")
_COLUMNS = ("query", "record", *_HIT, "precursor_mz", "adduct", "candidates", "note")


def _rows(result: Identification) -> Iterator[dict[str, Any]]:
    of_query = {
        "query": result.query,
        "record": result.record,
        "precursor_mz": None if math.isnan(result.precursor_mz) else result.precursor_mz,
        "adduct": result.adduct,
        "candidates": result.n_candidates,
        "note": result.note,
    }
    for hit in result.hits:
        yield of_query | {name: getattr(hit, name) for name in _HIT}
    if not result.hits:
        yield of_query | dict.fromkeys(_HIT)


def _lists(results: Sequence[Identification]) -> Iterator[dict[str, list[Any]]]:
    for block in _blocks(results):
        yield {
            "query": [result.query for result in block],
            "smiles": [" ".join(hit.smiles for hit in result.hits) for result in block],
        }
