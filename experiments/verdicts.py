"""What the papers said, row by row, and whether our records reach it.

A number reaches the paper's if it is at least as good as the paper's mean less what the paper
prints after ±. A row of a figure, which has no printed numbers, is a sentence of the text about it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import mean_sd, read_record
from figure_4_2 import table_of
from massbank import THESIS as PAPER_4_4
from table_3_3 import PAPER as PAPER_3_3
from table_3_3 import PAPER_BEST
from table_3_4 import PAPER as PAPER_3_4
from table_3_4 import PAPER_RANGE
from table_4_2 import PAPER as PAPER_4_2
from table_4_2 import PAPER_SECONDS
from tables import pair


@dataclass(frozen=True)
class Row:
    """One statement of a paper beside ours; `reached` is None where it was not run.

    `why` is the reason of this row where it is not that of its config.
    """

    what: str
    paper: str
    ours: str
    reached: bool | None
    why: str = ""


def number(
    what: str,
    paper: Sequence[float | None],
    ours: Sequence[float | None],
    digits: int = 2,
    more: bool = False,
) -> Row:
    """Compare two means; `more` is better, or less."""
    sign = -1.0 if more else 1.0
    (theirs, spread), (mine, _) = paper, ours
    reached = sign * float(mine) <= sign * float(theirs) + float(spread or 0.0)
    return Row(what, pair(paper, digits), pair(ours, digits), reached)


def absent(what: str, paper: str = "in the paper") -> Row:
    """Return the row of something whose data could not be had."""
    return Row(what, paper, "not run: the data could not be had", None)


# Chapter 3 -------------------------------------------------------------------------------------


def _sweep(loss: str) -> dict[tuple[str, int], dict[str, list[float]]]:
    rows = [row for row in read_record("figure_3_1")["results"] if row["what"] == "sweep"]
    return {
        (row["method"], row["m"]): {
            name: mean_sd(row[name]) for name in ("relative_mse", "fit_seconds")
        }
        for row in rows
        if row["loss"] == loss
    }


def figure_3_1() -> list[Row]:
    found = _sweep("huber")
    sparse = {key: row for key, row in found.items() if key[0].startswith("p-SR")}
    best = min((row["relative_mse"] for row in sparse.values()), key=lambda value: value[0])
    enough = {
        key: row["fit_seconds"][0] for key, row in found.items() if row["relative_mse"][0] <= 0.05
    }
    first = min(enough, key=lambda key: enough[key])
    return [
        number("least error of p-SR", (0.05, None), best, 4),
        Row(
            "first to reach an error of 0.05",
            "p-SR",
            f"{first[0]}, m = {first[1]}, {enough[first]:.3f} s",
            first[0].startswith("p-SR"),
        ),
        *_beside_gaussian(found),
    ]


def figure_a_2() -> list[Row]:
    return _beside_gaussian(_sweep("epsilon"))


def _beside_gaussian(found: dict[tuple[str, int], Any]) -> list[Row]:
    """p-SR is as accurate as the dense sketch and takes less time."""
    m = max(size for _, size in found)
    sparse, dense = found["p-SR 50/n", m], found["Gaussian", m]
    share = sparse["fit_seconds"][0] / dense["fit_seconds"][0]
    error = sparse["relative_mse"][0] / dense["relative_mse"][0]
    spread = np.hypot(sparse["relative_mse"][1], dense["relative_mse"][1])
    near = bool(sparse["relative_mse"][0] <= dense["relative_mse"][0] + spread)
    return [
        Row(f"p-SR 50/n, error beside Gaussian, m = {m}", "as good", f"{error:.3f} of it", near),
        Row(f"p-SR 50/n, time beside Gaussian, m = {m}", "less", f"{share:.2f} of it", share < 1),
    ]


def table_3_3() -> list[Row]:
    found = {row["method"]: row for row in read_record("table_3_3")["results"]}
    rows = [
        number(f"{name}, {column}", theirs, found[name][column])
        for name, (pinball, crossing, _) in PAPER_3_3.items()
        for column, theirs in (("pinball", pinball), ("crossing", crossing))
    ]
    rows += [
        number(f"best of others, {column}", (theirs, None), found["best"][column])
        for column, theirs in zip(("pinball", "crossing"), PAPER_BEST, strict=True)
    ]
    return [*rows, absent("otoliths, all sketches", "2.64 to 2.78")]


def table_3_4() -> list[Row]:
    results = read_record("table_3_4_official")["results"]
    found = {row["sketch"]: row["arrmse"] for row in results if row["family"] == "gaussian"}
    rows = [
        number(f"rf1, {name}", theirs[:2], found[name], 4) for name, theirs in PAPER_3_4.items()
    ]
    folds = [r for r in read_record("table_3_4_folds")["results"] if r["sketch"] != "SubSample"]
    ours = mean_sd(row["arrmse"] for row in folds)
    rows.append(number("rf1, best of others (random folds)", (PAPER_RANGE[0], None), ours, 3))
    return rows + [absent(name) for name in ("rf2", "scm1d", "scm20d")]


# Chapter 4 -------------------------------------------------------------------------------------


def figure_4_2() -> list[Row]:
    results = read_record("figure_4_2")["results"]
    mse, times = table_of(results, "mse"), table_of(results, "seconds")
    shares = {
        name: [row[f"{name} %"] for pair, row in times.items() if pair[0] is not None]
        for name in ("fit", "predict")
    }
    rows = [
        Row(
            f"{what}, share of IOKR",
            f"{low} to {high} %",
            f"{min(shares[name]):.1f} to {max(shares[name]):.1f} %",
            max(shares[name]) <= high,
            "our IOKR finds that the outputs have rank 300 and solves and decodes for 300 "
            "coordinates, not 10,000, so that less is left to save",
        )
        for what, name, low, high in (("training", "fit", 2, 6), ("inference", "predict", 8, 12))
    ]
    exact = mse[None, None]["mse"][0]
    sizes = sorted({a for a, b in mse if a and b and a >= 116})
    worst = max(mse[m, 295]["mse"][0] - exact for m in sizes)
    said = "SISOKR less IOKR, test MSE, m_x >= 116, m_y = 295"
    rows.append(Row(said, "below 0", f"{worst:+.5f} at most", worst <= 0.0))
    return [*rows, _small("the same, alpha = 1e-4", mse, (116, 295))]


def _small(what: str, mse: Any, sizes: tuple[int, int | None]) -> Row:
    """Compare with IOKR where alpha is too small for both."""
    key = "mse, small alpha"
    less = mse[sizes][key][0] - mse[None, None][key][0]
    return Row(f"{what}, m_x = {sizes[0]}", "below 0", f"{less:+.5f}", less <= 0.0)


def figure_b_4() -> list[Row]:
    mse = table_of(read_record("figure_4_2")["results"], "mse")
    sizes = sorted({a for a, b in mse if a and b})
    rows = []
    for what, line in (
        ("m_x, m_y = 295", [mse[m, 295]["mse"] for m in sizes]),
        ("m_y, m_x = 295", [mse[295, m]["mse"] for m in sizes]),
    ):
        steps = [after[0] <= before[0] + before[1] for before, after in itertools.pairwise(line)]
        ours = f"{line[0][0]:.4f} to {line[-1][0]:.4f}, {sum(steps)} of {len(steps)} steps"
        rows.append(Row(f"test MSE with {what}", "falls", ours, all(steps)))
    return rows


def figure_b_5() -> list[Row]:
    mse = table_of(read_record("figure_4_2")["results"], "mse")
    exact = mse[None, None]["mse"][0]
    sizes = sorted({a for a, b in mse if a})
    inputs = max(mse[m, None]["mse"][0] - exact for m in sizes if m >= 100)
    outputs = max(mse[None, m]["mse"][0] / exact - 1.0 for m in sizes if m >= 250)
    return [
        Row("SIOKR less IOKR, m_x >= 100", "below 0", f"{inputs:+.5f} at most", inputs <= 0.0),
        _small("the same, alpha = 1e-4", mse, (100, None)),
        Row(
            "ISOKR beside IOKR, m_y >= 250",
            "very similar",
            f"{100 * outputs:+.2f} % at most",
            outputs <= 0.01,
        ),
    ]


def table_4_2() -> list[Row]:
    results = read_record("table_4_2")["results"]
    found = {row["method"]: row["f1"] for row in results if row["how"] == "chosen"}
    rows = [
        number(f"bibtex, {name}", theirs, found[name], more=True)
        for name, theirs in PAPER_4_2.items()
    ]
    return [*rows, absent("bookmarks", "39.1 to 39.3"), absent("mediamill", "57.26 to 58.17")]


def table_4_3() -> list[Row]:
    results = read_record("table_4_2")["results"]
    found = {row["method"]: row for row in results if row["how"] == "seconds"}
    exact = PAPER_SECONDS["IOKR"]
    rows = [
        number(
            f"bibtex, {name}, {what}, share of IOKR",
            (PAPER_SECONDS[name][i] / exact[i], None),
            (found[name][f"{key} of IOKR"], None),
        )
        for name in ("SISOKR", "ISOKR", "SIOKR")
        for i, (what, key) in enumerate((("training", "fit"), ("inference", "predict")))
    ]
    return [*rows, absent("bookmarks"), absent("mediamill")]


def table_4_4() -> list[Row]:
    rows = read_record("massbank")["results"]
    found = {row["method"]: row for row in reversed(rows) if row["method"] in PAPER_4_4}
    exact = found["IOKR"]
    return [
        number(
            f"{name} less IOKR, {column}",
            (PAPER_4_4[name][i] - PAPER_4_4["IOKR"][i], None),
            (found[name][column] - exact[column], None),
            1,
            more=True,
        )
        for name in ("SIOKR", "ISOKR", "SISOKR")
        for i, column in ((1, "top-1 %"), (2, "top-5 %"), (3, "top-10 %"))
    ]


# Chapter 5 -------------------------------------------------------------------------------------


def figure_5_2() -> list[Row]:
    results = read_record("figure_5_2")["results"]
    found = {(row["method"], row.get("m_y")): row for row in results}
    plain = found["NN", None]["mse"][0]
    ratios = {name: found[name, 75]["mse"][0] / plain for name in ("DSOKR", "truncated")}
    scores = next(r for r in read_record("figure_5_2_perfect")["results"] if "scores" in r)
    scores = np.array(scores["scores"])
    flat = float(scores[199] / scores[-1])
    return [
        Row(
            "leverage scores, 200th beside 400th", "level", f"{flat:.2f} times", flat <= 1.1
        ),
        Row(
            "test MSE beside NN, sketch of 75 rows",
            "equal",
            f"{ratios['DSOKR']:.2f} times",
            ratios["DSOKR"] <= 1.02,
        ),
        Row(
            "the same, 75 coordinates of 1,000 rows",
            "equal",
            f"{ratios['truncated']:.3f} times",
            ratios["truncated"] <= 1.02,
        ),
    ]  # fmt: skip


def figure_5_3() -> list[Row]:
    results = read_record("figure_5_3")["results"]
    found = {(row["kernel"], row["m_y"]): row["GED with edge labels"] for row in results}
    rows = []
    for kernel, said in (("WL-VH", "level at 3200"), ("CORE-WL", "level at 3200")):
        gain = found[kernel, 1600] - found[kernel, 3200]
        rows.append(
            Row(f"{kernel}, 1600 to 3200", said, f"{gain:.2f} edits less", 0 <= gain <= 0.1)
        )
    gain = found["NSPD", 1600] - found["NSPD", 3200]
    said = "still falls (6400 chosen)"
    return [*rows, Row("NSPD, 1600 to 3200", said, f"{gain:.2f} edits less", gain > 0.1)]


def table_5_1() -> list[Row]:
    paper = {
        "DSOKR": ((1.951, 0.074), (2.960, 0.079)),
        "SISOKR": ((3.330, 0.080), (4.192, 0.109)),
    }
    found = {row["method"]: row for row in read_record("smi2mol")["results"]}
    return [
        number(f"{name}, {column}", theirs, found[name][column], 3)
        for name, pairs in paper.items()
        for column, theirs in zip(
            ("GED without edge labels", "GED with edge labels"), pairs, strict=True
        )
    ]


def _mrr() -> dict[tuple[str, str, int], list[float]]:
    results = read_record("figure_5_5")["results"]
    return {(row["kernel"], row["sketch"], row["m_y"]): row["MRR"] for row in results}


def figure_5_5() -> list[Row]:
    found = _mrr()
    sketches = sorted({sketch for _, sketch, _ in found})
    names = ("cosine", "Gaussian, gamma 1e-06")
    rows = []
    for name in names:
        loss = max(found[name, s, 400][0] - found[name, s, 100][0] for s in sketches)
        text = f"{loss:.3f} left to gain at most"
        rows.append(Row(f"{name}, beyond m_y = 100", "level", text, loss <= 0.01))
    at = [min(found[name, s, 100][0] for s in sketches) for name in names]
    text = f"{at[0]:.3f} and {at[1]:.3f}"
    rows.append(Row("cosine beside Gaussian, m_y = 100", "better", text, at[0] >= at[1]))
    return rows


def figure_c_7() -> list[Row]:
    found = _mrr()
    kernels = sorted({kernel for kernel, *_ in found if kernel.startswith("Gaussian")})
    mean = {
        kernel: float(np.mean([v[0] for (name, _, m), v in found.items()
                               if name == kernel and m <= 100]))
        for kernel in kernels
    }  # fmt: skip
    best = max(mean, key=lambda kernel: mean[kernel])
    text = f"{best.split()[-1]} (MRR to m_y = 100: {mean[best]:.3f}; 1e-06: "
    text += f"{mean['Gaussian, gamma 1e-06']:.3f})"
    return [Row("best gamma", "1e-06", text, best.endswith("1e-06"))]


def _captions(columns: Sequence[str]) -> list[Row]:
    record = read_record("text2mol")
    paper = record["settings"]["thesis"]
    places = ("Hits@1 %", "Hits@10 %", "MRR", "mean rank")
    rows = []
    ours_of = {"sisokr": "SISOKR", "regression": "regression", "contrastive": "contrastive",
               "dsokr": "DSOKR", "ensemble": "DSOKR x3"}  # fmt: skip
    for method, name in ours_of.items():
        kinds: dict[str, list[Any]] = {}
        for row in record["results"]:
            if row["method"] == method:
                kinds.setdefault(row["scores"], []).append(row)
        runs = max(kinds.values(), key=lambda some: np.mean([r["validation"]["MRR"] for r in some]))
        for column in columns:
            theirs = (paper[name][places.index(column)], None)
            ours = mean_sd(run[column] for run in runs)
            digits = 3 if column == "MRR" else 1
            row = number(f"{name}, {column}", theirs, ours, digits, more=column != "mean rank")
            rows.append(row)
    return rows


def table_5_2() -> list[Row]:
    return _captions(("Hits@1 %", "Hits@10 %", "MRR"))


def table_4() -> list[Row]:
    return _captions(("mean rank", "MRR", "Hits@1 %", "Hits@10 %"))
