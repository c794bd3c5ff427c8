"""Print the recorded results as markdown tables, the thesis's numbers beside ours.

    python experiments/tables.py [figure_3_1] [table_3_3] [table_3_4] [table_3_4_folds]
                                 [label_ranking]

After ± stands the standard deviation over replicates; in the thesis's tables it is, as far as the
authors' programs tell, half of that.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from common import RECORDS, mean_sd, read_record
from label_ranking import METHODS as RANKERS
from label_ranking import OURS, summary
from multilabel import DATA as MULTILABEL
from table_3_3 import PAPER as PAPER_3_3
from table_3_3 import PAPER_BEST
from table_3_4 import PAPER as PAPER_3_4
from table_3_4 import PAPER_RANGE


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a markdown table, text to the left and numbers to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def pair(value: Sequence[float | None] | None, digits: int) -> str:
    """Return "mean ± deviation", or a dash."""
    if value is None or value[0] is None:
        return "-"
    mean, spread = value
    tail = f" ± {spread:.{digits}f}" if spread else ""
    return f"{mean:.{digits}f}{tail}"


def figure_3_1() -> None:
    """Error and seconds of each sketch at three sizes; the solver against ADAM."""
    record = read_record("figure_3_1")
    for loss in ("huber", "epsilon"):
        _sweep(loss, [row for row in record["results"] if row["what"] == "sweep"])
    rows = [row for row in record["results"] if row["what"] == "adam"]
    print("\n### The solver and ADAM (25 epochs, best learning rate) on the same coordinates\n")
    head = ["loss, sketch, m", "optimiser", "seconds", "objective", "above ours", "test error"]
    print(
        markdown(
            head,
            [
                [
                    f"{row['loss']}, {row['method']}, {row['m']}",
                    row["optimiser"] + (f", gap {row['gap']:.0e}" if "gap" in row else ""),
                    f"{row['seconds']:.3f}",
                    f"{row['objective']:.5g}",
                    f"{100 * row['excess']:.2f} %" if "excess" in row else "-",
                    f"{row['relative_mse']:.4f}",
                ]
                for row in rows
            ],
        )
    )


def _sweep(loss: str, rows: list[dict[str, Any]]) -> None:
    mine = {(row["method"], row["m"]): row for row in rows if row["loss"] == loss}
    sizes = sorted({m for _, m in mine})
    sizes = [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
    print(f"\n### Figure 3.1, {loss}: test MSE / (max y - min y), and seconds of the whole fit")
    print("(thesis: p-SR reaches 0.05 or less in 5.6 to 6.6 seconds)\n")
    head = ["sketch", *(f"error, m = {m}" for m in sizes), *(f"s, m = {m}" for m in sizes)]
    table = [
        [name]
        + [pair(mean_sd(mine[name, m]["relative_mse"]), 4) for m in sizes]
        + [pair(mean_sd(mine[name, m]["fit_seconds"]), 3) for m in sizes]
        for name in dict.fromkeys(name for name, _ in mine)
    ]
    print(markdown(head, table))


def table_3_3() -> None:
    """Pinball loss, crossing loss and seconds of each method."""
    record = read_record("table_3_3")
    constant = pair(record["settings"]["constant_pinball"], 1)
    print(f"\n### Table 3.3, Boston, 100 x losses (constant quantiles: {constant})\n")
    head = ["sketch, m = 50", "pinball, thesis", "ours", "ours, not sorted"]
    head += ["crossing, thesis", "ours", "ours, not sorted", "s, thesis", "ours"]
    paper: dict[str, Any] = dict(PAPER_3_3)
    paper["best"] = ((PAPER_BEST[0], None), (PAPER_BEST[1], None), None)
    rows = []
    for row in record["results"]:
        theirs = paper.get(row["method"], (None, None, None))
        rows.append(
            [
                "best kernel (thesis: Sangnier et al.)"
                if row["method"] == "best"
                else row["method"],
                pair(theirs[0], 2),
                pair(row["pinball"], 2),
                pair(row["pinball_unsorted"], 2),
                pair(theirs[1], 2),
                pair(row["crossing"], 2),
                pair(row["crossing_unsorted"], 2),
                pair(theirs[2], 2),
                pair(row["seconds"], 3),
            ]
        )
    print(markdown(head, rows))


def table_3_4() -> None:
    """The aRRMSE of each sketch and target on the official split."""
    results = read_record("table_3_4_official")["results"]
    names = list(results[0]["targets"])
    rows = []
    for row in results:
        theirs = PAPER_3_4.get(row["sketch"]) if row["family"] == "gaussian" else None
        error, spread, seconds = theirs or (None, None, None)
        cells = [row["sketch"], row["kernel"], pair((error, spread), 4), pair(row["arrmse"], 4)]
        cells += [pair((seconds, None), 2), pair(row["seconds"], 3)]
        rows.append(cells + [f"{row['targets'][name][0]:.3f}" for name in names])
    print("\n### Table 3.4, rf1, official split, m = 100: aRRMSE, then each target\n")
    head = ["sketch", "kernel", "thesis", "ours", "s, thesis", "ours"]
    print(markdown(head + names, rows))


def table_3_4_folds() -> None:
    """The aRRMSE of random folds."""
    results = read_record("table_3_4_folds")["results"]
    names = list(results[0]["targets"])
    rows = []
    for sketch in dict.fromkeys(row["sketch"] for row in results):
        mine = [row for row in results if row["sketch"] == sketch]
        means = [np.mean([row["targets"][name] for row in mine]) for name in names]
        cells = [f"{sketch}({mine[0]['size']})", pair(mean_sd(row["arrmse"] for row in mine), 4)]
        rows.append(cells + [f"{mean:.3f}" for mean in means])
    low, high = PAPER_RANGE
    print(f"\nrf1, random 10-fold cross-validation (others, in the thesis: {low} to {high})\n")
    print(markdown(["sketch", "aRRMSE", *names], rows))


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


def table_4_2() -> None:
    """The F1 of the four methods on bibtex, with Gaussian kernels."""
    parts = ("table_4_2_IOKR_SISOKR", "table_4_2_ISOKR_SIOKR")
    results = [row for part in parts for row in read_record(part)["results"]]
    print(
        "\n### Table 4.2, bibtex: example F1 in percent, Gaussian kernels, m_x = 2250, m_y = 200\n"
    )
    rows = []
    for method in ("SISOKR", "ISOKR", "SIOKR", "IOKR"):
        chosen, authors = (
            next(row for row in results if row["method"] == method and row["how"] == how)
            for how in ("chosen", "authors'")
        )
        values = f"{chosen['alpha']:.0e}, {chosen['s_x']:.0e}, {chosen['s_y']:.0e}"
        cells = [method, f"{chosen['paper']:.1f}", pair(chosen["f1"], 2), values]
        rows.append([*cells, pair(authors["f1"], 2)])
    head = ["method", "thesis", "ours, chosen by CV", "alpha, s_x, s_y", "ours, authors' values"]
    print(markdown(head, rows))


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
        "\nLabel sets: example F1 in percent, official splits, all choices on the training part\n"
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


def prediction_sets() -> None:
    """The coverage of conformal sets."""
    record = read_record("prediction_sets")
    print(
        f"\nPrediction sets: share that holds the truth, {record['settings']['n_splits']} splits\n"
    )
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


def figure_5_2() -> None:
    """DSOKR on synthetic least squares, beside the network of all outputs."""
    results = read_record("figure_5_2")["results"]
    plain = next(row for row in results if row["method"] == "NN")
    print("\n### Figure 5.2: test MSE on synthetic least squares; NN is a layer of 1,000 outputs\n")
    rows = [
        [
            row["method"],
            str(row.get("m_y", 1000)),
            pair(row.get("perfect"), 5),
            pair(row["mse"], 5),
            f"{row['mse'][0] / plain['mse'][0]:.3f}",
            f"{row['weights']:,}",
        ]
        for row in results
        if "mse" in row
    ]
    head = ["method", "outputs", "perfect h, validation MSE", "test MSE", "times NN", "weights"]
    print(markdown(head, rows))


def figure_5_3() -> None:
    """Perfect h for graph kernels."""
    results = read_record("figure_5_3")["results"]
    print(
        "\n### Figure 5.3: perfect h on SMI2Mol, graph edit distance with (without) edge labels\n"
    )
    sizes = sorted({row["m_y"] for row in results})
    rows = []
    for kernel in dict.fromkeys(row["kernel"] for row in results):
        found = {row["m_y"]: row for row in results if row["kernel"] == kernel}
        cells = [
            f"{found[m]['GED with edge labels']:.2f} ({found[m]['GED without']:.2f})" for m in sizes
        ]
        rows.append([kernel, *cells])
    print(markdown(["kernel", *(f"m_y = {m}" for m in sizes)], rows))


def smi2mol() -> None:
    """Graph edit distances on QM9."""
    results = read_record("smi2mol")["results"]
    print("\n### Table 5.1: graph edit distance on SMI2Mol (QM9), 2,000 test molecules\n")
    rows = [
        [
            row["method"],
            str(row["seeds"]),
            pair(row["GED without edge labels"], 3),
            f"{row['thesis without']:.3f}",
            pair(row["GED with edge labels"], 3),
            f"{row['thesis with']:.3f}",
        ]
        for row in results
    ]
    head = ["method", "splits", "without edge labels", "thesis", "with edge labels", "thesis"]
    print(markdown(head, rows))


def text2mol() -> None:
    """Ranks of the molecule that a caption is of."""
    record = read_record("text2mol")
    names = {"dsokr": "DSOKR", "shallow": "SISOKR, n-grams", "regression": "regression"}
    thesis = {"DSOKR": "DSOKR", "SISOKR, n-grams": "SISOKR", "regression": "regression"}
    print(
        "\n### Table 5.2: ChEBI-20, 3,300 captions among 33,010 molecules (thesis: 26,408 pairs)\n"
    )
    columns = ("Hits@1 %", "Hits@10 %", "MRR", "mean rank")
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in record["results"]:
        groups.setdefault(names.get(row["method"], row["method"]), []).append(row)
    rows = []
    for name, runs in groups.items():
        found = [pair(mean_sd(run[column] for run in runs), 3 if column == "MRR" else 1)
                 for column in columns]  # fmt: skip
        theirs = record["settings"]["thesis"].get(thesis.get(name, ""), None)
        other = "-" if theirs is None else f"{theirs[0]} / {theirs[1]} / {theirs[2]} / {theirs[3]}"
        rows.append([name, str(len(runs)), *found, other])
    print(markdown(["method", "runs", *columns, "thesis"], rows))


def figure_5_5() -> None:
    """Perfect h on ChEBI-20."""
    results = read_record("figure_5_5")["results"]
    sizes = sorted({row["m_y"] for row in results})
    print("\n### Figures 5.5 and C.7: MRR of perfect h on ChEBI-20, sub-sampling, two draws\n")
    rows = []
    for kernel in dict.fromkeys(row["kernel"] for row in results):
        own = [r for r in results if r["kernel"] == kernel and r["sketch"] == "sub-sampling"]
        rows.append([kernel, *(pair(row["MRR"], 3) for row in own)])
    print(markdown(["kernel", *(f"m_y = {m}" for m in sizes)], rows))


def massbank() -> None:
    """From a spectrum to its molecule."""
    record = read_record("massbank")
    settings = record["settings"]
    sizes = settings["candidates"]
    print(
        f"\n### MassBank, {settings['n_test']} test spectra of unseen molecules\n\n"
        f"Means over molecules. Candidates: mean {sizes['mean']:.0f}, median "
        f"{sizes['median']:.0f}; "
        f"chance finds {settings['chance top-1 %']:.1f} %.\n"
    )
    digits = {"top-1 %": 1, "top-5 %": 1, "top-10 %": 1, "mean rank": 1, "kernel loss": 3}
    columns = [*digits, "fit seconds"]
    rows = []
    for row in record["results"]:
        cells = [
            "-" if row[c] is None else f"{row[c]:.{digits.get(c, 1)}f}" for c in columns
        ]  # fmt: skip
        theirs = settings["thesis"].get(row["method"], [])[1:]
        other = " / ".join(map(str, theirs)) or "-"
        rows.append([row["method"], f"{row['n']:,}", *cells, other])
    print(markdown(["method", "training spectra", *columns, "thesis, top-1 / 5 / 10"], rows))


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


HEADING = """# Results of the experiments

Made by `python experiments/tables.py > experiments/RESULTS.md` from the files in
[records](records), which name seeds, versions, settings and hardware. ± is one standard deviation
over draws or splits.
Figure 3.1 drawn: [Huber](figures/figure_3_1_huber.png), [epsilon](figures/figure_3_1_epsilon.png);
[figure 5.2](figures/figure_5_2.png), [5.3](figures/figure_5_3.png), [5.5](figures/figure_5_5.png);
[molecules, true and predicted](figures/smi2mol.png).
"""


def main() -> None:
    parts = {
        part.__name__: part
        for part in (
            *(figure_3_1, table_3_3, table_3_4, table_3_4_folds),
            *(table_4_2, multilabel, label_ranking, prediction_sets),
            *(figure_5_2, figure_5_3, smi2mol, text2mol, figure_5_5, robust_outputs),
            *(massbank, lpm24),
        )
    }
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", help=", ".join(parts), metavar="part")
    chosen = parser.parse_args().parts
    if not chosen:
        print(HEADING)
    for name in chosen or parts:
        if name not in parts:
            parser.error(f"{name!r} is not one of {', '.join(parts)}")
        parts[name]()


if __name__ == "__main__":
    main()
