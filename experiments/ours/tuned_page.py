"""What the jobs of `tuned.py` found: the record, who is first where, the page and its picture."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.common import HERE, RECORDS, as_json
from experiments.ours.tuned_sets import (
    BUDGET,
    FOLDS,
    KINDS,
    PUBLISHED,
    SEED,
    SMALL,
    TEST_SHARE,
    pseudo_values,
    score,
    standard_error,
)
from experiments.papers.tables import markdown

DOCS = HERE.parent / "docs"
NEAR_SHARE, FIRST_SHARE = 0.9, 2 / 3
FAMILIES = ("forest", "extra trees", "boosting", "logistic", "ridge", "k-NN", "chain")
SETTINGS = {
    "outer": f"{FOLDS} folds below {SMALL} rows, else the official split or {TEST_SHARE:.2f}",
    "budget": {
        f"{'fewer' if small else 'more'} than {SMALL} rows": f"{seconds:g} s, {cores} cores"
        for small, (seconds, cores) in BUDGET.items()
    },
    "tuned": "Tuned(budget=budget, random_state=0), else its defaults",
    "rivals": "ours/tuned_rivals.py; the family of the best validation score is the rival",
    "standard_error": "over test rows, pooled over outer folds; aRRMSE by the jackknife",
}
Results = list[dict[str, Any]]


# The record ------------------------------------------------------------------------------------


def collect(folder: Path, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the record of a folder of finished jobs, or of a .zip file of it.

    Where no rivals were run, they are those of a known record.
    """
    jobs = sorted(_read(folder), key=lambda job: job[0]["method"] != "tuned")
    old = {(row["kind"], row["data"]): row for row in known["results"]} if known else {}
    groups: dict[tuple[str, str], list[Any]] = {}
    for job in jobs:
        groups.setdefault((job[0]["kind"], job[0]["data"]), []).append(job)
    results = [
        summary(kind, data, groups[kind, data], old.get((kind, data)))
        for kind, about in KINDS.items()
        for data in about.sets
        if (kind, data) in groups
    ]
    where = jobs[0][0]["where"] if jobs else {}
    commits = sorted({said["where"]["commit"] for said, _ in jobs if said["method"] == "tuned"})
    head = {"experiment": "tuned", "seed": SEED} | where | {"commit": ", ".join(commits)}
    runs = [said["where"] for said, _ in jobs if said["method"] == "rivals"]
    if runs or known:
        head["rivals"] = _when(runs[0] if runs else known)
    return as_json(head | {"settings": SETTINGS, "results": results})


def _when(where: dict[str, Any] | None) -> dict[str, Any]:
    """Return what is known of the run of the rivals, which do not depend on the library."""
    about = (where or {}).get("rivals", where)
    return {key: about[key] for key in ("commit", "date", "versions") if key in about}


def _read(folder: Path) -> Iterable[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    """Yield what each finished job said, and the scores of its test rows."""
    root: Any = zipfile.Path(folder) if folder.is_file() else folder
    for path in sorted(root.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".json"):
            with (root / path.name.replace(".json", ".npz")).open("rb") as file:
                arrays = np.load(file, allow_pickle=False)
                rows = {name: arrays[name].astype(np.float64) for name in arrays.files}
            yield json.loads(path.read_text()), rows


def summary(
    kind: str, data: str, jobs: list[Any], known: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return one row: `Tuned`, the rival, every family, each pooled over the outer folds."""
    found = {"tuned": {}, "rivals": {}}  # type: dict[str, dict[int, Any]]
    for said, rows in jobs:
        found.setdefault(said["method"], {})[said["fold"]] = (said, rows)
    alone = known is not None and not found["rivals"]
    folds = sorted(found["tuned"] if alone else set(found["tuned"]) & set(found["rivals"]))
    small = any(said["n_train"] + said["n_test"] < SMALL for said, _ in jobs)
    row: dict[str, Any] = {"kind": kind, "data": data, "folds": len(folds)}
    row["complete"] = len(folds) == (FOLDS if small else 1)
    if not folds:
        return row
    row["n"] = sum(found["tuned"][folds[0]][0][part] for part in ("n_train", "n_test"))
    row["n_test"] = sum(found["tuned"][fold][0]["n_test"] for fold in folds)
    row["seconds"] = {
        method: [found[method][fold][0]["seconds"] for fold in folds]
        for method in ("tuned", "rivals")[: 1 if alone else 2]
    }
    ours = np.vstack([found["tuned"][fold][1]["Tuned"] for fold in folds])
    row["tuned"] = _of(kind, ours)
    if known is not None and alone:
        row |= {key: known[key] for key in ("rival", "chosen", "families")}
        row["seconds"]["rivals"] = known["seconds"]["rivals"]
        row["paired_error"] = same_correlation(known, row["tuned"][1])
    else:
        row |= _rivals(kind, ours, found["rivals"], folds)
    models = [found["tuned"][fold][0]["models"]["Tuned"] for fold in folds]
    row["said"] = [model.get("said") for model in models]
    row["members"] = [[_member(one) for one in model.get("members", ())] for model in models]
    return row


def _rivals(kind: str, ours: np.ndarray, jobs: dict[int, Any], folds: list[int]) -> dict[str, Any]:
    """Return the rival, its difference from `Tuned`, and every family."""
    chosen = [jobs[fold][0]["first"] for fold in folds]
    theirs = np.vstack([jobs[fold][1][name] for fold, name in zip(folds, chosen, strict=True)])
    values = pseudo_values(kind, ours) - pseudo_values(kind, theirs)
    families = {}
    for name in FAMILIES:
        parts = [jobs[fold][1].get(name) for fold in folds]
        if all(part is not None for part in parts):
            families[name] = _of(kind, np.vstack(parts))
    about = {"rival": _of(kind, theirs), "chosen": chosen, "families": families}
    return about | {"paired_error": standard_error(values)}


def same_correlation(known: dict[str, Any], error: float) -> float:
    """Return the standard error of the difference, if rows vary together as in a known record."""
    ours, theirs, both = known["tuned"][1], known["rival"][1], known["paired_error"]
    shared = (ours**2 + theirs**2 - both**2) / (2.0 * ours) if ours > 0.0 else 0.0
    return float(np.sqrt(max(error**2 + theirs**2 - 2.0 * shared * error, 0.0)))


def _member(settings: dict[str, Any]) -> str:
    """Return a member of an average in a few words."""
    words = [f"{settings['weight']:.2f}", settings["map"], str(settings.get("kernel", ""))]
    return " ".join(word for word in words if word)


def _of(kind: str, rows: np.ndarray) -> list[float]:
    """Return score and standard error."""
    return [round(score(kind, rows), 6), round(standard_error(pseudo_values(kind, rows)), 6)]


# Verdicts --------------------------------------------------------------------------------------


def gap(row: dict[str, Any], rival: list[float]) -> float:
    """Return by how much `Tuned` is better than a rival; negative is worse."""
    sign = 1.0 if KINDS[row["kind"]].more else -1.0
    return sign * (row["tuned"][0] - rival[0])


def oracle(row: dict[str, Any]) -> tuple[str, list[float]]:
    """Return the family that is best on the test rows, which nobody can know before."""
    sign = 1.0 if KINDS[row["kind"]].more else -1.0
    name = max(row["families"], key=lambda name: sign * row["families"][name][0])
    return name, row["families"][name]


def place(row: dict[str, Any], rival: list[float], error: float | None = None) -> str:
    """Return "first", "near" (within one standard error of the first) or "behind"."""
    ahead = gap(row, rival)
    if ahead > 0.0:
        return "first"
    return "near" if -ahead <= (rival[1] if error is None else error) else "behind"


@dataclass(frozen=True)
class Count:
    """On how many sets of a kind `Tuned` is first, and first or near."""

    first: int
    near: int
    sets: int
    missing: int = 0

    @property
    def reached(self) -> bool:
        """Whether all sets were run, 90 % are first or near and two thirds are first."""
        enough = self.near >= NEAR_SHARE * self.sets and self.first >= FIRST_SHARE * self.sets
        return enough and self.sets > 0 and self.missing == 0

    @property
    def verdict(self) -> str:
        if self.reached:
            return "reached"
        if self.missing:
            return f"**short**: {self.missing} not run"
        return "**short**"


def count(results: Results, kind: str, rival: str = "rival") -> Count:
    """Count the places of `Tuned`; `rival` is "rival", "oracle" or "paired"."""
    rows = [row for row in results if row["kind"] == kind and row.get("complete")]
    places = []
    for row in rows:
        other = oracle(row)[1] if rival == "oracle" else row["rival"]
        error = row["paired_error"] if rival == "paired" else None
        places.append(place(row, other, error))
    first = places.count("first")
    missing = len(KINDS[kind].sets) - len(rows)
    return Count(first, first + places.count("near"), len(rows), missing)


def published(results: Results) -> tuple[int, int, int]:
    """Return on how many sets the published best is reached, or nearly so; and of how many."""
    rows = [row for row in results if row["data"] in PUBLISHED and row.get("complete")]
    rows = [row for row in rows if row["kind"] == "rankings"]
    ahead = [row["tuned"][0] - PUBLISHED[row["data"]] for row in rows]
    near = [value >= -row["tuned"][1] for value, row in zip(ahead, rows, strict=True)]
    return sum(value >= 0.0 for value in ahead), sum(near), len(rows)


# The page --------------------------------------------------------------------------------------


def verdict_table(results: Results) -> str:
    rows = []
    for kind, about in KINDS.items():
        by = {name: count(results, kind, name) for name in ("rival", "oracle", "paired")}
        main = by["rival"]
        rows.append(
            [
                f"{about.title}, {about.metric}",
                *(f"{value} of {main.sets}" for value in (main.first, main.near)),
                main.verdict,
                *(f"{by[name].first} / {by[name].near}" for name in ("paired", "oracle")),
            ]
        )
    head = ["", "first", "first or within one standard error", "two thirds and 90 %"]
    head += ["with the error of the difference", "against the best on test rows"]
    return markdown(head, rows)


def kind_table(results: Results, kind: str) -> str:
    """Return one line for each data set."""
    rows = [row for row in results if row["kind"] == kind and "tuned" in row]
    lines = []
    for row in rows:
        best, theirs = oracle(row)
        word = {"first": "**first**", "near": "near", "behind": "behind"}[place(row, row["rival"])]
        names = sorted(set(row["chosen"]), key=lambda name: (-row["chosen"].count(name), name))
        cells = [row["data"], f"{row['n']:,}", _pair(row["tuned"]), _pair(row["rival"])]
        cells += [", ".join(names), word if row["complete"] else f"{word}, not all folds"]
        cells += [f"{theirs[0]:.3f} {best}"]
        if kind == "rankings":
            cells.append(f"{PUBLISHED[row['data']]:.3f}" if row["data"] in PUBLISHED else "-")
        seconds = (np.mean(row["seconds"][method]) for method in ("tuned", "rivals"))
        lines.append([*cells, " / ".join(f"{value:.0f}" for value in seconds)])
    head = ["data", "rows", "`Tuned`", "scikit-learn", "which", "place", "best on test rows"]
    head += ["published"] * (kind == "rankings")
    return markdown([*head, "seconds"], lines)


def families_table(results: Results, kind: str) -> str:
    """Return the test scores of every family."""
    rows = [row for row in results if row["kind"] == kind and "tuned" in row]
    names = [name for name in FAMILIES if any(name in row["families"] for row in rows)]
    lines = [
        [row["data"], f"{row['tuned'][0]:.3f}"]
        + [f"{row['families'][n][0]:.3f}" if n in row["families"] else "-" for n in names]
        for row in rows
    ]
    return markdown(["data", "`Tuned`", *names], lines)


def _pair(value: list[float]) -> str:
    return f"{value[0]:.3f} ± {value[1]:.3f}"


TEXT = """# Tuned beside scikit-learn

*This page is made by `experiments/ours/tuned.py page` from the [record](records.md)
`experiments/records/tuned.json`.*

`Tuned` with its defaults beside scikit-learn's best: on every set of labels, rankings and several
targets available, with one protocol, fixed before the first look at a test row. What `Tuned`
does is on the page [How a model is chosen](tuning.md).

- *Splits.* {FOLDS} outer folds of sets of fewer than {SMALL} rows; of larger ones the official
  split, else a random third held out. Missing inputs are filled with training medians, for all.
- *Budget.* 60 seconds on two cores to choose in, for `Tuned` and for all families of scikit-learn
  together; 15 seconds on one core for sets of fewer than {SMALL} rows. The last fits come on top.
  What `Tuned` tries is planned by a cost model, not by the clock, so that scores hardly depend on
  what else runs.
  Seconds, in the last column, are of whole jobs; in those of scikit-learn every family is fitted
  once more, so that the table can show it.
- *Rivals.* Random forest, extra trees, histogram gradient boosting, logistic regression (of pairs
  of items for rankings), ridge, k-NN, chains; inputs scaled where it matters; settings by the
  metric in cross-validation; for label sets also the threshold, and whether the likeliest label is
  always predicted. *scikit-learn* is the family of the best validation score in each outer fold.
  "Best on test rows" is chosen by the test rows, so it is not a method but a bound.
- *Errors.* After ± stands the standard error over test rows; that of the aRRMSE by the jackknife.
  *Near* means: behind the first by no more than its standard error.
  Where the rivals are of an earlier run, the error of a difference takes its correlation.
- *Published bests* of label ranking are those of the literature, by ten-fold cross-validation.

"""


def page_text(record: dict[str, Any] | None) -> str:
    """Return the page; without a record, the protocol."""
    text = TEXT.format(FOLDS={5: "Five"}[FOLDS], SMALL=f"{SMALL:,}")
    if record is None:
        return text + "There is no record yet: `experiments/ours/tuned.py run` makes it.\n"
    results = record["results"]
    parts = [text, "![Tuned beside scikit-learn on each data set](images/tuned.png)\n"]
    parts += [verdict_table(results)]
    reached, near, sets = published(results)
    parts += [
        f"Published bests of label ranking: reached on {reached} of {sets} sets, reached or within "
        f"one standard error on {near}.\n"
    ]
    for kind, about in KINDS.items():
        way = "larger" if about.more else "smaller"
        parts += [f"## {about.title}\n", f"By {about.metric}: the {way} the better.\n"]
        parts += [kind_table(results, kind), "Every family, on test rows\n"]
        parts += [families_table(results, kind)]
    where = record["hardware"]
    parts += [
        f"Made on {where['cores']} cores of which each job saw its own, {record['date']}, "
        f"scikit-learn {record['versions']['scikit-learn']}, seed {record['seed']}"
        + (f"; its models on {rivals['date']}" if (rivals := record.get("rivals")) else "")
        + ".\n"
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def draw(results: Results) -> None:
    """Draw by how many standard errors `Tuned` is ahead of scikit-learn, for each set.

    The unit is the standard error of the rival's score; the bars have that of the difference.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(1, len(KINDS), figsize=(12, 5), layout="constrained")
    for ax, (kind, about) in zip(axes, KINDS.items(), strict=True):
        rows = [row for row in results if row["kind"] == kind and "tuned" in row]
        rows.sort(key=lambda row: gap(row, row["rival"]) / max(row["rival"][1], 1e-9))
        for y, row in enumerate(rows):
            colour = {"first": "#0072B2", "near": "#999999", "behind": "#D55E00"}
            unit = max(row["rival"][1], 1e-9)
            ahead, spread = gap(row, row["rival"]) / unit, row["paired_error"] / unit
            ax.barh(y, ahead, color=colour[place(row, row["rival"])], height=0.7)
            ax.errorbar(ahead, y, xerr=spread, color="black", lw=1, capsize=2)
            ax.plot(gap(row, oracle(row)[1]) / unit, y, "kd", ms=4, mfc="white")
        ax.set_yticks(range(len(rows)), [row["data"].split("-top")[0] for row in rows], fontsize=8)
        ax.axvline(0.0, color="black", lw=0.8)
        ax.axvline(-1.0, color="0.5", lw=0.8, ls=":")
        ax.set_xscale("symlog", linthresh=2.0)
        ticks = [t for t in (-10, -5, -2, -1, 0, 1, 2, 5, 10, 20) if _inside(t, ax.get_xlim())]
        ax.set_xticks(ticks, [str(t) for t in ticks])
        ax.set(title=f"{about.title}, {about.metric}", xlabel="ahead, in standard errors")
        ax.minorticks_off()
        ax.grid(axis="x", alpha=0.25)
    fig.suptitle(
        "Tuned beside scikit-learn's best. Blue: first; grey: within one standard error; red: "
        "behind. Diamonds: beside the family that is best on the test rows",
        fontsize=10,
    )
    fig.savefig(DOCS / "images" / "tuned.png", dpi=130)
    plt.close(fig)


def _inside(tick: float, limits: tuple[float, float]) -> bool:
    return limits[0] <= tick <= limits[1]


def read() -> dict[str, Any] | None:
    """Return the record, if there is one."""
    path = RECORDS / "tuned.json"
    return json.loads(path.read_text()) if path.is_file() else None


def write(folder: Path) -> None:
    """Write the record, if there are finished jobs; then the page and the picture."""
    if folder.exists():
        record = collect(folder, read())
        RECORDS.mkdir(exist_ok=True)
        (RECORDS / "tuned.json").write_text(json.dumps(record, indent=1) + "\n")
    found = read()
    (DOCS / "tuned.md").write_text(page_text(found), encoding="utf-8")
    if found is not None:
        draw(found["results"])
        print(verdict_table(found["results"]))
