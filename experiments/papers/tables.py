"""Print the recorded results of the papers' tables and figures as markdown.

After ± stands the standard deviation over replicates; in the thesis's tables it is, as far as the
authors' programs tell, half of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from experiments.common import mean_sd, read_record, record_path
from experiments.papers.figure_4_2 import shares, table_of
from experiments.papers.table_3_3 import PAPER as PAPER_3_3
from experiments.papers.table_3_3 import PAPER_BEST
from experiments.papers.table_3_4 import PAPER as PAPER_3_4
from experiments.papers.table_3_4 import PAPER_RANGE
from experiments.papers.table_4_2 import PAPER as PAPER_4_2
from experiments.papers.table_4_2 import PAPER_SECONDS


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


def table_3_3() -> None:
    """Pinball loss, crossing loss and seconds of each method."""
    record = read_record("table_3_3")
    constant = pair(record["settings"]["constant_pinball"], 1)
    print(f"\nTable 3.3, Boston, 100 x losses (constant quantiles: {constant})\n")
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
        error, seconds = theirs or ((None, None), (None, None))
        cells = [row["sketch"], row["kernel"], pair(error, 4), pair(row["arrmse"], 4)]
        cells += [pair(seconds, 3), pair(row["seconds"], 3)]
        rows.append(cells + [f"{row['targets'][name][0]:.3f}" for name in names])
    print("\nTable 3.4, rf1, official split, m = 100: aRRMSE, then each target\n")
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


def smi2mol() -> None:
    """Graph edit distances on QM9."""
    results = read_record("smi2mol")["results"]
    print("\nTable 5.1: graph edit distance on SMI2Mol (QM9), 2,000 test molecules\n")
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


def table_4_4() -> None:
    """The methods with the sketches of the thesis, each with its own width and alpha."""
    if not record_path("table_4_4").is_file():
        return
    record = read_record("table_4_4")
    print(f"\nEach method with its own width and alpha, {record['settings']['draws']} draws\n")
    columns = {"top-1 %": 1, "top-5 %": 1, "top-10 %": 1, "MRR": 3, "kernel loss": 3}
    rows = [
        [row["method"], f"{row['gamma']:g}", f"{row['alpha']:.0e}"]
        + [pair(row[name], digits) for name, digits in columns.items()]
        for row in record["results"]
    ]
    print(markdown(["method", "gamma", "alpha", *columns], rows))


def massbank() -> None:
    """From a spectrum to its molecule."""
    record = read_record("massbank")
    settings = record["settings"]
    sizes = settings["candidates"]
    print(
        f"\nMassBank, {settings['n_test']} test spectra of unseen molecules\n\n"
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


def figure_3_1(loss: str) -> None:
    """Error and seconds of each sketch at three sizes; the solver against ADAM."""
    results = read_record("figure_3_1")["results"]
    mine = {
        (row["method"], row["m"]): row
        for row in results
        if row["what"] == "sweep" and row["loss"] == loss
    }
    sizes = sorted({m for _, m in mine})
    sizes = [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
    draws = len(next(iter(mine.values()))["relative_mse"])
    print(f"\nTest MSE / (max y - min y), and seconds of the whole fit, {draws} draws\n")
    head = ["sketch", *(f"error, m = {m}" for m in sizes), *(f"s, m = {m}" for m in sizes)]
    table = [
        [name]
        + [pair(mean_sd(mine[name, m]["relative_mse"]), 4) for m in sizes]
        + [pair(mean_sd(mine[name, m]["fit_seconds"]), 3) for m in sizes]
        for name in dict.fromkeys(name for name, _ in mine)
    ]
    print(markdown(head, table))
    print("The solver and ADAM (25 epochs, best learning rate) on the same coordinates\n")
    rows = [
        [
            f"{row['method']}, {row['m']}",
            row["optimiser"] + (f", gap {row['gap']:.0e}" if "gap" in row else ""),
            f"{row['seconds']:.3f}",
            f"{row['objective']:.5g}",
            f"{100 * row['excess']:.2f} %" if "excess" in row else "-",
            f"{row['relative_mse']:.4f}",
        ]
        for row in results
        if row["what"] == "adam" and row["loss"] == loss
    ]
    head = ["sketch, m", "optimizer", "seconds", "objective", "above ours", "test error"]
    print(markdown(head, rows))


def table_4_2() -> None:
    """The F1 of the four methods on bibtex, with Gaussian kernels."""
    record = read_record("table_4_2")
    results = {(row["method"], row["how"]): row for row in record["results"]}
    times_n = {row["method"]: row for row in read_record("table_4_2_lambda")["results"]}
    draws = record["settings"]["n_draws"]
    print(f"\nExample F1 in percent, Gaussian kernels, m_x = 2250, m_y = 200, {draws} draws\n")
    rows = []
    for method in PAPER_4_2:
        chosen, authors = results[method, "chosen"], results[method, "authors'"]
        values = f"{chosen['alpha']:.0e}, {chosen['s_x']:.0e}, {chosen['s_y']:.0e}"
        cells = [method, pair(PAPER_4_2[method], 2), pair(chosen["f1"], 2), values]
        rows.append([*cells, pair(authors["f1"], 2), pair(times_n[method]["f1"], 2)])
    head = ["method", "thesis", "ours, chosen by CV", "alpha, s_x, s_y", "ours, authors' values"]
    head += ["those, lambda times n"]
    print(markdown(head, rows))


def table_4_3() -> None:
    """The seconds of the four methods on bibtex."""
    found = {row["method"]: row for row in read_record("table_4_3")["results"]}
    repeats = len(found["IOKR"]["fit"])
    print(f"\nSeconds of the processor on bibtex, {repeats} repeats in turns; shares are of IOKR\n")
    rows = []
    for method, theirs in PAPER_SECONDS.items():
        row, exact = found[method], PAPER_SECONDS["IOKR"]
        cells = [pair(mean_sd(row[name]), 2) for name in ("fit", "predict")]
        for name, mine, other in zip(("fit", "predict"), theirs, exact, strict=True):
            share = mean_sd(np.divide(row[name], found["IOKR"][name]))
            cells += [pair(share, 2), f"{mine[0] / other[0]:.2f}"]
        rows.append([method, *cells])
    head = ["method", "fit", "predict", "share, fit", "thesis", "share, predict", "thesis"]
    print(markdown(head, rows))


def figure_4_2() -> None:
    """Shares of the time of IOKR, and the error, for sizes of both sketches."""
    results = read_record("figure_4_2")["results"]
    mse = table_of(results, "mse")
    print("\nSeconds of the processor of IOKR\n")
    names = {"formula": "by (4.6)", "seconds": "skout"}
    exact = [row for row in results if row["what"] in names and row["m_x"] is row["m_y"] is None]
    rows = [
        [names[row["what"]], *(pair(mean_sd(row[name]), 2) for name in ("fit", "predict"))]
        for row in exact
    ]
    print(markdown(["IOKR", "fit", "prediction"], rows))
    share = {
        (what, name): shares(results, what, name) for what in names for name in ("fit", "predict")
    }
    rows = [
        [
            f"{sizes[0]}, {sizes[1]}",
            *(f"{np.median(values[sizes]):.2f}" for values in share.values()),
            f"{mse[sizes]['mse'][0] - mse[None, None]['mse'][0]:+.5f}",
        ]
        for sizes in table_of(results, "seconds")
        if sizes[0] is not None
    ]
    head = ["m_x, m_y", "fit, % of (4.6)", "prediction", "fit, % of skout's IOKR", "prediction"]
    print(markdown([*head, "test MSE - that of IOKR"], rows))


def figure_b_4() -> None:
    """The test error for each pair of sizes."""
    record = read_record("figure_4_2")
    mse, sizes = table_of(record["results"], "mse"), record["settings"]["sizes"]
    print(f"\nTest MSE of SISOKR, {record['settings']['draws']} draws\n")
    rows = [[str(a), *(f"{mse[a, b]['mse'][0]:.4f}" for b in sizes)] for a in sizes]
    print(markdown(["m_x", *(f"m_y = {m}" for m in sizes)], rows))


def figure_b_5() -> None:
    """The test error with one side sketched."""
    record = read_record("figure_4_2")
    mse, sizes = table_of(record["results"], "mse"), record["settings"]["sizes"]
    print(f"\nTest MSE; that of IOKR is {mse[None, None]['mse'][0]:.5f}\n")
    rows = [[str(m), pair(mse[m, None]["mse"], 5), pair(mse[None, m]["mse"], 5)] for m in sizes]
    print(markdown(["m", "SIOKR, m_x = m", "ISOKR, m_y = m"], rows))


def figure_5_2() -> None:
    """DSOKR on synthetic least squares, beside the network of all outputs."""
    results = read_record("figure_5_2")["results"]
    drawn = read_record("figure_5_2_perfect")["results"]
    perfect = {(row["method"], row["m_y"]): row["perfect"] for row in drawn if "m_y" in row}
    plain = next(row for row in results if row["method"] == "NN")
    print("\nTest MSE; NN is a layer of 1,000 outputs. Perfect h: ten draws, on a CPU\n")
    rows = [
        [
            row["method"],
            str(row.get("m_y", 1000)),
            pair(perfect.get((row["method"], row.get("m_y"))), 5),
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
    print("\nGraph edit distance with (without) edge labels, all molecules, one draw\n")
    sizes = sorted({row["m_y"] for row in results})
    rows = []
    for kernel in dict.fromkeys(row["kernel"] for row in results):
        found = {row["m_y"]: row for row in results if row["kernel"] == kernel}
        cells = [
            f"{found[m]['GED with edge labels']:.2f} ({found[m]['GED without']:.2f})" for m in sizes
        ]
        rows.append([kernel, *cells])
    print(markdown(["kernel", *(f"m_y = {m}" for m in sizes)], rows))
    record = read_record("figure_5_3_draws")
    settings, results = record["settings"], record["results"]
    print(
        f"With edge labels, {settings['draws']} draws, {settings['n_train']:,} training and "
        f"{settings['n_val']} validation molecules\n"
    )
    rows = [
        [
            kernel,
            *(pair(row["GED with edge labels"], 2) for row in results if row["kernel"] == kernel),
        ]
        for kernel in dict.fromkeys(row["kernel"] for row in results)
    ]
    print(markdown(["kernel", *(f"m_y = {m}" for m in settings["sizes"])], rows))


#: Our methods of text to molecule, and what they are in the paper.
CAPTION_METHODS = {
    "sisokr": "SISOKR",
    "regression": "regression",
    "contrastive": "contrastive",
    "dsokr": "DSOKR",
    "dsokr-gaussian": "DSOKR, Gaussian sketch",
    "ensemble": "DSOKR x3",
    "end-to-end": "DSOKR",
}


def text2mol(columns: Sequence[str]) -> None:
    """Ranks of the molecule that a caption is of."""
    record = read_record("text2mol")
    places = [("Hits@1 %", "Hits@10 %", "MRR", "mean rank").index(column) for column in columns]
    print("\n3,300 captions among 33,010 molecules\n")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in record["results"]:
        if row.get("share", 1.0) == 1.0:
            groups.setdefault((row["method"], row["scores"]), []).append(row)
    rows = []
    for (method, kind), runs in groups.items():
        found = [
            pair(mean_sd(run[column] for run in runs), 3 if column == "MRR" else 1)
            for column in columns
        ]
        theirs = record["settings"]["thesis"].get(CAPTION_METHODS.get(method, ""))
        other = "-" if theirs is None else " / ".join(str(theirs[i]) for i in places)
        validation = pair(mean_sd(run["validation"]["MRR"] for run in runs), 3)
        corrected = "no" if kind == "plain" else "yes"
        rows.append([caption_name(method), corrected, str(len(runs)), *found, other, validation])
    columns = ["method", "hubness corrected", "runs", *columns, "thesis", "validation MRR"]
    print(markdown(columns, rows))


def caption_name(method: str) -> str:
    """Return what a method of text to molecule is called."""
    base = method.removesuffix("-unread")
    names = {
        "sisokr": "SISOKR on n-grams",
        "iokr": "IOKR on n-grams",
        "dsokr": "DSOKR",
        "dsokr-gaussian": "DSOKR, Gaussian sketch",
        "end-to-end": "DSOKR, then both sides trained",
        "ensemble": "DSOKR x3",
        "ensemble-mixed": "DSOKR, both sketches x4",
        "ensemble-end-to-end": "DSOKR, then both sides trained, x3",
    }
    return names.get(base, base) + (", not pre-trained" if method != base else "")


def perfect_mrr(kernels: Sequence[str]) -> None:
    """Perfect h on ChEBI-20."""
    record = read_record("figure_5_5")
    results = record["results"]
    sizes = sorted({row["m_y"] for row in results})
    print(f"\nMRR of perfect h, {record['settings']['draws']} draws\n")
    groups: dict[str, list[str]] = {}
    for row in results:
        if row["kernel"] in kernels:
            name = f"{row['kernel']}, {row['sketch']}"
            groups.setdefault(name, []).append(pair(row["MRR"], 3))
    rows = [[name, *cells] for name, cells in groups.items()]
    print(markdown(["kernel, sketch", *(f"m_y = {m}" for m in sizes)], rows))
