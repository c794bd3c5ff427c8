"""Long runs in pieces: what is finished is kept, and a run that was interrupted goes on from there.

A script describes its run as a `Plan`: settings, and pieces that need nothing of each other but
the results of earlier ones. `carry_out` computes each piece once and writes it to a file of its
own. A later run takes it from there if the settings and the code of skout are the same.

A run has one of three sizes: "full" is that of the committed record, "brief" shows the same in a
few minutes with fewer draws, and "quick" is as small as tests want it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from joblib import Parallel, delayed
from tqdm import tqdm

from benchmarks.measure import code_version
from experiments.common import (
    HERE,
    as_json,
    clock,
    kept_in,
    print_table,
    read_record,
    record_path,
    write_record,
)

PARTS = HERE / "cache" / "parts"
#: Records and figures of brief runs.
BRIEF = HERE.parent / "out" / "reproduce"
Size = Literal["quick", "brief", "full"]
Results = dict[str, Any]  # piece -> what it returned


@dataclass(frozen=True)
class Plan:
    """A run: its pieces, and what becomes of them.

    Attributes
    ----------
    record : str
        The name of the record that is written at the end.
    settings : dict
        All that the results depend on; other settings make all pieces stale.
    pieces : dict of str -> function
        Each is given the results of the pieces before it, and returns what JSON can hold.
    rows : function, optional
        Makes the rows of the record of the results of all pieces. None: a piece writes the record.
    draw : function, optional
        Draws the figure of the finished record.
    jobs : int, default 1
        Pieces at a time. More than one only where no piece looks at another.
    """

    record: str
    settings: dict[str, Any]
    pieces: dict[str, Callable[[Results], Any]]
    rows: Callable[[Results], list[dict[str, Any]]] | None
    draw: Callable[[dict[str, Any]], Any] | None = None
    jobs: int = 1
    seed: int = 0

    def key(self) -> dict[str, Any]:
        """Return what must be the same for a finished piece to count."""
        return as_json({"settings": self.settings, "seed": self.seed, "skout": code_version()})


def carry_out(
    plan: Plan,
    size: Size = "full",
    again: bool = False,
    folder: Path = PARTS,
    only: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Compute the pieces that are not there yet; write the record unless it is that already.

    Pieces of each size are kept apart, and a quick run has no record. With `only`, pieces whose
    names begin so are computed and nothing else: several processes may share a run.
    """
    folder = folder / size / plan.record
    found = {} if again else finished(plan, folder)
    missing = [name for name in plan.pieces if name not in found]
    missing = [name for name in missing if not only or name.startswith(tuple(only))]
    bar = tqdm(_compute(plan, missing, found), desc=plan.record, total=len(missing), leave=False)
    for name, piece in bar:
        write_piece(folder, name, plan, piece)
        found[name] = piece
    if plan.rows is None or only:
        return []
    rows = as_json(plan.rows({name: found[name]["results"] for name in plan.pieces}))
    if size != "quick" and not _is_recorded(plan, rows):
        parts = [found[name] for name in plan.pieces]
        about = {
            "wall_seconds": round(sum(part["seconds"] for part in parts), 1),
            "cpu_seconds": round(sum(part.get("cpu_seconds", 0.0) for part in parts), 1),
            "load_while_it_ran": max(part["load"] for part in parts),  # of one minute
        }
        write_record(plan.record, plan.settings, rows, plan.seed, **about)
    if size != "quick" and plan.draw is not None:
        plan.draw(read_record(plan.record))
    return rows


def finished(plan: Plan, folder: Path) -> Results:
    """Return the pieces in the folder that were made with these settings, whole."""
    found = {}
    for name in plan.pieces:
        path = place_of(folder, name)
        piece = json.loads(path.read_text()) if path.is_file() else {}
        if piece.get("key") == plan.key():
            found[name] = piece
    return found


def place_of(folder: Path, name: str) -> Path:
    """Return the file of a piece; a name may have slashes, such as that of a command."""
    return folder / f"{quote(name, safe=' =,')}.json"


def write_piece(folder: Path, name: str, plan: Plan, piece: dict[str, Any]) -> None:
    """Write a piece beside its place, then move it there: a file that is there is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    path = place_of(folder, name)
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(as_json({"key": plan.key()} | piece)))
    draft.replace(path)


def _compute(plan: Plan, missing: list[str], found: Results) -> Iterator[tuple[str, Results]]:
    """Yield the name, the seconds and the results of each missing piece."""
    if plan.jobs > 1:
        work = (delayed(_timed)(plan.pieces[name], {}) for name in missing)
        yield from zip(
            missing, Parallel(n_jobs=plan.jobs, return_as="generator")(work), strict=True
        )
        return
    for name in missing:
        so_far = {other: found[other]["results"] for other in found}
        yield name, _timed(plan.pieces[name], so_far)


def _timed(piece: Callable[[Results], Any], so_far: Results) -> Results:
    with clock() as spent:
        results = piece(so_far)
    load = round(os.getloadavg()[0], 1)
    about = {"seconds": spent.seconds, "cpu_seconds": spent.cpu, "load": load}
    return about | {"results": as_json(results)}


def _is_recorded(plan: Plan, rows: list[dict[str, Any]]) -> bool:
    """Tell whether the record on disk is of these very results and this code."""
    if not record_path(plan.record).is_file():
        return False
    record = read_record(plan.record)
    same = record["settings"] == as_json(plan.settings) and record["results"] == rows
    return same and record.get("code") == code_version()


def alone(function: Callable[..., Any], *arguments: Any) -> Callable[[Results], Any]:
    """Return a piece that needs no other piece."""
    return partial(_ignoring, function, arguments)


def _ignoring(function: Callable[..., Any], arguments: tuple[Any, ...], _: Results) -> Any:
    return function(*arguments)


def of_data(record: str, data: str, default: str) -> str:
    """Return the name of the record of a data set."""
    return record if data == default else f"{record}_{data}"


def joined(results: Results) -> list[dict[str, Any]]:
    """Return the rows of all pieces, one after the other."""
    return [row for rows in results.values() for row in rows]


def run_script(
    about: str, plan: Callable[..., Plan], columns: list[str], data: str | None = None
) -> None:
    """Do what every script does when it is called by itself; `data` is the data set of the page."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--size", choices=["quick", "brief", "full"], default="full")
    parser.add_argument("--quick", action="store_const", const="quick", dest="size")
    parser.add_argument("--again", action="store_true", help="also what is finished")
    parser.add_argument("--draw", action="store_true", help="only draw the record again")
    parser.add_argument("--only", nargs="+", default=(), help="pieces whose names begin so")
    if data is not None:
        parser.add_argument("--data", default=data, help="another set, at hand or in SKOUT_DATA")
    options = parser.parse_args()
    chosen = plan(options.size) if data is None else plan(options.size, options.data)
    if options.draw and chosen.draw is not None:
        chosen.draw(read_record(chosen.record))
        return
    with contextlib.nullcontext() if options.size == "full" else kept_in(BRIEF):
        rows = carry_out(chosen, options.size, options.again, only=options.only)
    if rows:
        print_table(rows, columns)
