"""`skout fit` without settings on tables as their authors left them, beside skrub and boosting.

    python -m experiments.ours.strangers [--tables movies ikea ...] [--budget 20] [--ours]
    python -m experiments.ours.strangers --table                    # the record, nothing is run
    SKOUT_RECORDS=a python -m experiments.ours.strangers --tables ships   # one of several runs
    python -m experiments.ours.strangers --merge a/strangers.json b/strangers.json

The tables are the files of `$SKOUT_DATA/tables`. Rows are shuffled and three quarters of them are
fitted, cells as they stand in the file; `skout fit train.csv --target ...` gets no other word.
The rival, where skrub is installed, is `skrub.tabular_pipeline` with HistGradientBoosting, on what
pandas reads, and for label sets one such model for each label that has ten rows or more; `--ours`
keeps what the committed record has of it. The score is R2, accuracy or F1 over rows, with that of
constant predictions in validation beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import io
import json
import os
import random
import tempfile
import textwrap
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.common import COMMITTED, print_table, read_record, record_path, write_record
from skout.apps import cli
from skout.metrics import example_f1

if TYPE_CHECKING:
    import pandas as pd

SEED, BUDGET = 0, "20"
NUMBERS, CLASSES, SETS, RANKINGS = "numbers", "classes", "label_sets", "rankings"
#: Table, target, what a person takes the target for, and the columns that say the target again.
TARGETS: list[tuple[str, str, str, str]] = [
    ("movies", "genre", SETS, ""),
    ("movies", "language", SETS, ""),
    ("movies", "country", SETS, ""),
    ("movies", "imdb_rating", NUMBERS, ""),
    ("movies", "rated", CLASSES, ""),
    ("news_orgs", "products", SETS, ""),
    ("news_orgs", "distribution", SETS, ""),
    ("news_orgs", "total_employees", CLASSES, ""),
    ("rolling_stone", "genre", SETS, ""),
    ("rolling_stone", "rank_2003,rank_2012,rank_2020", NUMBERS, "differential"),
    ("rolling_stone", "type", CLASSES, ""),
    ("drugs", "species", SETS, ""),
    ("drugs", "category", CLASSES, ""),
    ("drugs", "authorisation_status", CLASSES, ""),
    ("expeditions", "termination_reason", CLASSES, ""),
    ("expeditions", "highpoint_metres", NUMBERS, ""),
    ("expeditions", "oxygen_used", CLASSES, ""),
    ("ramen_ratings", "stars", NUMBERS, ""),
    ("ramen_ratings", "style", CLASSES, ""),
    ("ramen_ratings", "country", CLASSES, ""),
    ("nobel_winners", "category", CLASSES, ""),
    ("nobel_winners", "prize_year", NUMBERS, ""),
    ("nyc_squirrels", "running,chasing,climbing,eating,foraging", SETS, ""),
    ("nyc_squirrels", "age", CLASSES, ""),
    ("thanksgiving_meals", "pie*", SETS, ""),
    ("thanksgiving_meals", "family_income", CLASSES, ""),
    ("astronauts", "total_hrs_sum", NUMBERS, ""),
    ("astronauts", "nationality", CLASSES, ""),
    ("astronauts", "occupation", CLASSES, ""),
    ("ikea", "price", NUMBERS, "old_price"),
    ("ikea", "category", CLASSES, ""),
    ("ikea", "depth,height,width", NUMBERS, ""),
    ("bob_ross", "B*,C*,D*,F*,G*", SETS, ""),
    ("launches", "category", CLASSES, ""),
    ("launches", "state_code", CLASSES, ""),
    ("starwars_survey", "Please rank*", RANKINGS, ""),
    ("starwars_survey", "Which of the following*", SETS, ""),
    ("starwars_survey", "Household Income", CLASSES, ""),
    ("cetaceans", "status", CLASSES, ""),
    ("cetaceans", "birthYear", NUMBERS, ""),
    ("cetaceans", "entryDate", NUMBERS, ""),
    ("diwali_sales", "Amount", NUMBERS, ""),
    ("diwali_sales", "Product_Category", CLASSES, ""),
    (
        "jobs_gender",
        "total_earnings_male,total_earnings_female,wage_percent_of_male",
        NUMBERS,
        "total_earnings",
    ),
    ("movie_profit", "worldwide_gross", NUMBERS, ""),
    ("movie_profit", "domestic_gross", NUMBERS, ""),
    ("movie_profit", "genre", CLASSES, ""),
    ("founder_crops", "edibility", SETS, ""),
    ("founder_crops", "category", CLASSES, ""),
    ("fiscal_sponsors", "fiscal_sponsorship_model", SETS, ""),
    ("fiscal_sponsors", "project_types", SETS, ""),
    ("ships", "activity", SETS, ""),
]
#: Lines of headers, where there is not one.
HEADERS = {"starwars_survey": 2}
# Rows that a label has at least, to get a model of the rival.
LEAST_ROWS = 10


def records(table: str) -> tuple[list[list[str]], list[list[str]]]:
    """Return the header and the rows of a table, shuffled, cells as they are."""
    path = Path(os.environ["SKOUT_DATA"]) / "tables" / f"{table}.csv.gz"
    content = gzip.decompress(path.read_bytes())
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    head, rows = rows[: HEADERS.get(table, 1)], rows[HEADERS.get(table, 1) :]
    random.Random(SEED).shuffle(rows)
    return head, rows


def write(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def command(*words: str) -> tuple[int, str, str]:
    """Run a command in this process; return its code, what it printed and what it said."""
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        try:
            cli.main(list(words))
        except SystemExit as end:
            return int(end.code or 0), out.getvalue(), said.getvalue()
    return 0, out.getvalue(), said.getvalue()


def ours(place: Path, target: str, drop: str, budget: str) -> dict[str, Any]:
    """Fit and evaluate by the command line; return the kind, scores, and what was said."""
    start = time.perf_counter()
    dropped = ["--drop", drop] if drop else []
    words = ["--target", target, "--budget", budget, *dropped, "-o", str(place / "m"), "--json"]
    code, out, said = command("fit", str(place / "train.csv"), *words)
    seconds = time.perf_counter() - start
    if code:
        return {"stopped": said, "seconds": seconds}
    fitted = json.loads(out)
    code, out, more = command("evaluate", str(place / "m"), str(place / "test.csv"), "--json")
    if code:
        return {"kind": fitted["output"], "stopped": more, "seconds": seconds}
    said_of_rows = json.loads(out)
    return {
        "kind": fitted["output"],
        "evaluation": {key: said_of_rows[key] for key in ("rows", "output", "metrics")},
        "chosen": fitted.get("validation", {}).get("summary", ""),
        "baselines": fitted.get("validation", {}).get("baselines", {}),  # in validation
        "said": said,
        "seconds": seconds,
    }


# The rival ----------------------------------------------------------------------------------------


def theirs(place: Path, table: str, target: str, kind: str, drop: str) -> float | None:
    """Return the score of skrub's pipeline with boosting, None where it is not asked."""
    try:
        import pandas as pd
        from skrub import tabular_pipeline
    except ImportError:
        return None
    if kind == RANKINGS or table in HEADERS or "*" in target:
        return None
    warnings.simplefilter("ignore")
    train, test = (pd.read_csv(place / f"{part}.csv") for part in ("train", "test"))
    columns = target.split(",")
    left = [*columns, *([drop] if drop else [])]
    if kind == NUMBERS:
        return float(np.mean([_r2(train, test, name, left, tabular_pipeline) for name in columns]))
    if len(columns) > 1:
        return None
    train, test = (part[part[target].notna()] for part in (train, test))
    X, X_test = train.drop(columns=left), test.drop(columns=left)
    if kind == CLASSES:
        counts = train[target].value_counts()
        X, y = X[train[target].map(counts) > 1], train[target][train[target].map(counts) > 1]
        found = tabular_pipeline("classifier").fit(X, y.astype(str)).predict(X_test)
        return float(np.mean(found == test[target].astype(str).to_numpy()))
    sets, truth = (_sets(part[target]) for part in (train, test))
    names = sorted({label for labels in [*sets, *truth] for label in labels})
    Y, Y_test = (np.array([[n in row for n in names] for row in part]) for part in (sets, truth))
    model, found = tabular_pipeline("classifier"), np.zeros_like(Y_test)
    for j in np.flatnonzero(Y.sum(axis=0) >= LEAST_ROWS):
        found[:, j] = model.fit(X, Y[:, j]).predict(X_test)
    return float(example_f1(Y_test.astype(int), found.astype(int)))


def _r2(train: pd.DataFrame, test: pd.DataFrame, name: str, left: list[str], make: Any) -> float:
    import pandas as pd

    train, test = train.copy(), test.copy()
    for part in (train, test):
        values = pd.to_numeric(part[name].astype(str).str.replace(",", ""), errors="coerce")
        dates = pd.to_datetime(part[name], errors="coerce", format="mixed").dt
        part[name] = values if values.notna().any() else dates.year + dates.dayofyear / 365.25
    train, test = train[train[name].notna()], test[test[name].notna()]
    model = make("regressor").fit(train.drop(columns=left), train[name])
    truth, found = test[name].to_numpy(float), model.predict(test.drop(columns=left))
    return float(1.0 - np.sum((truth - found) ** 2) / np.sum((truth - truth.mean()) ** 2))


def _sets(cells: pd.Series) -> list[set[str]]:
    sign = max(";|,/", key=lambda one: cells.str.count(one if one != "|" else r"\|").sum())
    return [{word.strip() for word in cell.split(sign) if word.strip()} for cell in cells]


# The comparison -----------------------------------------------------------------------------------

Results = dict[tuple[str, str], dict[str, Any]]  # by table and target


def by_target(paths: Iterable[Path]) -> Results:
    """Return the rows of records; a later one takes the place of an earlier one."""
    rows = [row for path in paths for row in json.loads(path.read_text())["results"]]
    return {(row["table"], row["target"]): row for row in rows}


def in_order(known: Results) -> list[dict[str, Any]]:
    """Return rows in the order of the targets."""
    return [known[one[:2]] for one in TARGETS if one[:2] in known]


def merge(paths: list[Path]) -> dict[str, Any]:
    """Write the record of runs that shared the tables, which must be of one commit; return it."""
    parts = [json.loads(path.read_text()) for path in paths]
    (commit,) = {part["commit"] for part in parts}
    seconds = sum(part["seconds"] for part in parts)
    results = in_order(by_target(paths))
    record = parts[0] | {"commit": commit, "seconds": seconds, "results": results}
    record_path("strangers").write_text(json.dumps(record, indent=1) + "\n")
    return record


def compare(
    table: str, target: str, kind: str, drop: str, budget: str, known: Results | None = None
) -> dict[str, Any]:
    """Return one row; the rival's score is taken from the known ones, if there are any."""
    head, rows = records(table)
    cut = 3 * len(rows) // 4
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write(place / "train.csv", head + rows[:cut])
        write(place / "test.csv", head + rows[cut:])
        result = ours(place, target, drop, budget)
        result |= {"table": table, "target": target, "meant": kind, "rows": len(rows)}
        if known is not None:
            of_rival = {"skrub", "skrub stopped"}
            return result | {k: v for k, v in known[table, target].items() if k in of_rival}
        try:
            result["skrub"] = theirs(place, table, target, kind, drop)
        except Exception as error:  # whatever another library stops at
            result["skrub"], result["skrub stopped"] = None, f"{type(error).__name__}: {error}"
    return result


def main_score(result: dict[str, Any]) -> tuple[float, float]:
    """Return the score of skout and that of the constant prediction, NaN where there is none."""
    names = {NUMBERS: "r2", CLASSES: "accuracy", SETS: "example_f1", RANKINGS: "kendall_tau"}
    name = names.get(result.get("kind", ""), "")
    value = result.get("evaluation", {}).get("metrics", {}).get(name)
    constants = [v for k, v in result.get("baselines", {}).items() if "forest" not in k]
    plain = constants[0] if constants else None
    return (np.nan if value is None else value), (np.nan if plain is None else plain)


def place(one: dict[str, Any]) -> str:
    """Return "first", "near" or "behind", or "" where the rival was not run.

    Near is within one standard error of a share of test rows; numbers are never near.
    """
    score, rival = main_score(one)[0], one.get("skrub")
    if rival is None:
        return ""
    share = 0.0 if one["kind"] == NUMBERS else max(score * (1.0 - score), 0.0)
    error = np.sqrt(share / one["evaluation"]["rows"])
    return "first" if score >= rival else "near" if rival <= score + error else "behind"


def counts(results: list[dict[str, Any]]) -> tuple[int, int, int]:
    """Return on how many targets skout is first, on how many more near, and of how many."""
    places = [place(one) for one in results]
    return places.count("first"), places.count("near"), len(places) - places.count("")


#: What is known of a target on which skout is behind.
REASONS = {("ikea", "category"): "the rows are sorted by it, and skrub uses their number"}


def paragraph() -> str:
    """Return what docs/tables.md says of the record."""
    record = read_record("strangers")
    results, (first, near, n) = record["results"], counts(record["results"])
    stopped = sum("stopped" in one for one in results)
    other = [one for one in results if one.get("kind") not in (one["meant"], None)]
    behind = []
    for one in sorted(results, key=lambda one: main_score(one)[0] - (one.get("skrub") or 0.0)):
        if place(one) == "behind":
            why = REASONS.get((one["table"], one["target"]), "")
            pair = f"{main_score(one)[0]:.3f} against {one['skrub']:.3f}"
            name = one["target"].replace(",", ", ")
            behind.append(f"{name} of {one['table']} ({pair}{': ' * bool(why)}{why})")
    constant = sum(main_score(one)[0] <= main_score(one)[1] for one in results)
    words = [
        f"A second comparison has {len({one['table'] for one in results})} public tables as their "
        f"authors left them, with {len(results)} columns to predict and no setting but `--budget "
        f"{record['settings']['budget']}` (trained on three quarters of the rows, shuffled; "
        f"`experiments/ours/strangers.py`, `records/strangers.json`, {record['date']}).",
        f"{stopped or 'None'} of them stops with an error, and {len(results) - len(other)} are "
        "read as their authors meant them.",
        f"{len(other)} other{'s are' if len(other) > 1 else ' is'} read as classes, since parts of "
        "cells never occur in other combinations." * bool(other),
        f"Compared to `skrub.tabular_pipeline` with gradient boosting, on the {n} targets that "
        f"it was run on, `skout fit` is first on {first} and within one standard error on {near} "
        "more.",
        f"It is behind on {'; '.join(behind)}." * bool(behind),
        f"On {constant} targets `skout fit` is at or below the most frequent answer."
        * bool(constant),
    ]
    return "\n".join(textwrap.wrap(" ".join(filter(None, words)), 130, break_on_hyphens=False))


def show(results: list[dict[str, Any]]) -> None:
    rows = []
    for one in results:
        score, plain = main_score(one)
        rows.append(
            {
                "table": one["table"],
                "target": one["target"][:24],
                "meant": one["meant"],
                "read as": one.get("kind", "stopped"),
                "skout": f"{score:.3f}",
                "constant": f"{plain:.3f}",
                "skrub": "" if one.get("skrub") is None else f"{one['skrub']:.3f}",
                "seconds": f"{one['seconds']:.0f}",
            }
        )
    print_table(rows, list(rows[0]))
    stopped = sum("stopped" in one for one in results)
    right = sum(one.get("kind") == one["meant"] for one in results)
    print(f"{len(results)} targets: {stopped} stopped, {right} read as meant")
    print("beside skrub: first on {}, near on {} more, of {}".format(*counts(results)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=None)
    parser.add_argument("--budget", default=BUDGET, help='seconds, or "3 fits"')
    parser.add_argument("--ours", action="store_true", help="keep what is known of the rival")
    parser.add_argument("--merge", nargs="+", type=Path, help="records of parts, into one")
    parser.add_argument("--table", action="store_true", help="show the record, run nothing")
    words = parser.parse_args()
    if words.table:
        show(read_record("strangers")["results"])
        return
    if words.merge:
        show(merge(words.merge)["results"])
        return
    start, own = time.perf_counter(), record_path("strangers")
    known = by_target([own]) if own.is_file() else {}
    rivals = by_target([COMMITTED / "strangers.json"]) if words.ours else None
    for table, target, kind, drop in TARGETS:
        if words.tables is not None and table not in words.tables:
            continue
        known[table, target] = compare(table, target, kind, drop, words.budget, rivals)
        settings = {"budget": words.budget}
        seconds = time.perf_counter() - start
        write_record("strangers", settings, in_order(known), SEED, seconds=seconds)
        print(
            table,
            target[:30],
            known[table, target].get("stopped", main_score(known[table, target])),
            flush=True,
        )
    show(in_order(known))


if __name__ == "__main__":
    main()
