"""Tables of the experiments that the papers do not have, made of their records."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from experiments.common import RECORDS, read_record
from experiments.ours.label_ranking import METHODS as RANKERS
from experiments.ours.label_ranking import OURS, summary
from experiments.ours.multilabel import DATA as MULTILABEL
from experiments.papers.tables import markdown, pair


def multilabel() -> None:
    """The F1 of every method on the five data sets, and the seconds on bibtex."""
    found: dict[str, dict[str, Any]] = {}
    parts = ("exact", "300", "600", "logistic", "neighbours", "forest")
    for data, part in itertools.product(MULTILABEL, parts):
        if not (RECORDS / f"multilabel_{data}_{part}.json").is_file():
            continue
        for row in read_record(f"multilabel_{data}_{part}")["results"]:
            name = row["method"].split(", m_x")[0]
            name = f"skout, m_y = {part}" if part in ("300", "600") else name
            found.setdefault(name, {})[data] = row
    print(
        "\n### Label sets: example F1 in percent, official splits, choices on the training part\n"
    )
    rows = []
    for method, row in found.items():
        cells = [pair(row[data]["f1"], 1) if data in row else "-" for data in MULTILABEL]
        rows.append([method, *cells])
    print(markdown(["method", *MULTILABEL], rows))
    print("What cross-validation chose for skout\n")
    rows = []
    for method, row in found.items():
        for data in (data for data in MULTILABEL if method.startswith("skout") and data in row):
            chosen = row[data]["setting"]
            cells = [chosen["rows"], f"{chosen['gamma']:.3g}", f"{chosen['alpha']:.1e}"]
            cells += [chosen["kernel"], chosen["decoder"], chosen["output_sketch"] or "-"]
            rows.append([f"{data}, {method[7:]}", str(row[data]["m_x"] or "-"), *cells])
    head = ["data", "m_x", "rows", "gamma", "alpha", "output kernel", "candidates", "output sketch"]
    print(markdown(head, rows))
    record = read_record("multilabel_bibtex_seconds")
    print("Seconds on bibtex, in one run\n")
    rows = [
        [
            row["method"],
            f"{row['fit_seconds']:.2f}",
            f"{row['predict_seconds']:.2f}",
            f"{row['share of exact']:.2f}",
        ]
        for row in record["results"]
    ]
    print(markdown(["method", "fit", "predict", "share of exact"], rows))


def label_ranking() -> None:
    """Kendall's tau of each data set and method, and how often ours are the best."""
    record = read_record("label_ranking")
    table = summary(record["results"])
    means = {name: {key: cell[0] for key, cell in row.items()} for name, row in table.items()}
    folds = record["settings"]["folds"]
    print(f"\n### Label ranking: Kendall's tau, {folds} folds; skout to the left of k-NN\n")
    rows = [[name, *(pair(row[key], 3) for key in RANKERS)] for name, row in table.items()]
    print(markdown(["data", *RANKERS], rows))
    for rivals in (("k-NN", "ranking forest"), ("k-NN", "ranking forest", "ranking extra trees")):
        theirs = {name: max(row[key] for key in rivals) for name, row in means.items()}
        chosen = sum(row["chosen"] >= theirs[name] for name, row in means.items())
        best = sum(max(row[key] for key in OURS) >= theirs[name] for name, row in means.items())
        print(
            f"At least {' and '.join(rivals)}: chosen on {chosen} of {len(means)} data sets, "
            f"the best of our four columns on {best}.\n"
        )
    for rival in ("k-NN", "ranking forest", "ranking extra trees"):
        ahead, behind = (
            sum(sign * _t_of_folds(record["results"], name, rival) > 2.0 for name in table)
            for sign in (1.0, -1.0)
        )
        print(
            f"By more than two standard errors of the differences over folds, chosen is above "
            f"{rival} on {ahead}, below on {behind}.\n"
        )


def _t_of_folds(results: list[dict[str, Any]], data: str, rival: str) -> float:
    """Return the mean difference of chosen and a rival over the folds, in standard errors."""
    taus = [row["tau"] for row in results if row["data"] == data]
    difference = np.array([tau["chosen"] - tau[rival] for tau in taus])
    return float(difference.mean() / difference.std(ddof=1) * np.sqrt(len(difference)))


def prediction_sets() -> None:
    """The coverage of conformal sets."""
    record = read_record("prediction_sets")
    n_splits = record["settings"]["n_splits"]
    print(f"\n### Prediction sets: share that holds the truth, {n_splits} splits\n")
    rows = [
        [
            row["data"],
            f"{100 * row['nominal']:.0f} %",
            f"{100 * row['coverage'][0]:.1f} ± {100 * row['coverage'][1]:.1f} %",
            f"{row['mean_size'][0]:.1f} of {row['pool']}",
            str(row["smallest_set"]),
        ]
        for row in record["results"]
    ]
    print(markdown(["data", "wanted", "found", "mean size", "smallest set"], rows))


def robust_outputs() -> None:
    """Losses where a tenth of the training outputs is wrong."""
    record = read_record("robust_outputs")
    print("\n### A tenth of the training outputs wrong, USPS halves, clean test part, 10 seeds\n")
    rows = [
        [
            row["loss"],
            pair(row["error"], 4),
            str(row["error: better than squared in"]),
            pair(row["MRR"], 3),
            str(row["MRR: better than squared in"]),
        ]
        for row in record["results"]
    ]
    head = ["loss", "squared distance", "better in", "MRR among 2,007", "better in"]
    print(markdown(head, rows))


def lpm24() -> None:
    """SISOKR on the properties of 160,000 molecules, beside k-NN and logistic regressions."""
    records = [read_record(f"lpm24_{part}") for part in ("sisokr", "neighbours", "logistic")]
    print(
        "\n### L+M-24: example F1 in percent, each test fingerprint, and each test molecule, once\n"
    )
    rows = []
    for record in records:
        (row,), settings = record["results"], record["settings"]
        chosen = ", ".join(f"{name} {value}" for name, value in row["setting"].items())
        cells = [f"{row[name]:.1f}" for name in ("f1", "f1_molecules")]
        cells += [f"{settings['seconds']:.0f}", f"{settings['peak_megabytes'] / 1000:.1f}"]
        rows.append([row["method"], *cells, chosen.replace("_", " ")])
    head = ["method", "F1", "F1, molecules", "seconds in all", "peak GB", "setting"]
    print(markdown(head, rows))


OTHERS = (multilabel, label_ranking, prediction_sets, robust_outputs, lpm24)
