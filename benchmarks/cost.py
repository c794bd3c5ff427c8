"""What a fit costs: curves in n, m and d, a model of the cost, and the page docs/scale.md.

    python -m benchmarks.cost measure      curves on this machine, writes records/curves_cpu.json
    python -m benchmarks.cost page         from the records: docs/scale.md, docs/images/cost.png

The model: a fit of n rows with d columns, m landmarks and q outputs takes

    seconds = fixed(m) + n (2 m d + m^2 + 2 m q) / rate

with a rate and a fixed part that two smaller runs of the same machine give; the page says how far
the largest run is from what they predict.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.measure import RECORDS, fastest, gemm_rate, print_table, write_record
from skout import KernelRidge
from skout.kernels import Gaussian
from skout.sketches import SubSample

DOCS = Path(__file__).resolve().parents[1] / "docs"
BASE = {"n": 200_000, "m": 600, "d": 50, "q": 1}
GRIDS = {
    "n": [100_000, 200_000, 400_000, 800_000],
    "m": [300, 600, 1200, 2400],
    "d": [10, 50, 250, 500],
    "q": [1, 10, 100, 1000],
}
LABELS = {"n": "rows n", "m": "landmarks m", "d": "columns d", "q": "outputs q"}
FAULT = "error of F'F"
SIZES = (10**6, 10**7, 10**8, 10**9)


def flops(n: float, m: float, d: float, q: float = 1) -> float:
    return n * (2.0 * m * d + m * m + 2.0 * m * q)


def slope(rows: list[dict[str, Any]], axis: str) -> float:
    """Return the exponent of the three largest points of a curve."""
    own = [row for row in rows if row["axis"] == axis][-3:]
    x, y = ([np.log(row[key]) for row in own] for key in (axis, "seconds"))
    return float(np.polyfit(x, y, 1)[0])


def measure() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for axis, values in tqdm(GRIDS.items(), desc="curves"):
        for value in values:
            size = BASE | {axis: value}
            X = rng.standard_normal((size["n"], size["d"]))
            y = np.tanh(X[:, 0] + X[:, 1])
            y = np.tile(y[:, None], size["q"]) if size["q"] > 1 else y
            model = KernelRidge(
                Gaussian(0.5 / size["d"]), SubSample(size["m"]), alpha=1e-5, random_state=0
            )
            seconds = fastest(lambda model=model, X=X, y=y: model.fit(X, y), 2)
            rows.append({"axis": axis, **size, "seconds": seconds})
    for row in rows:
        row["slope"] = slope(rows, row["axis"])
    print_table(rows, list(rows[0]))
    settings = {"base": BASE, "gemm_gflops": gemm_rate(np.float64) / 1e9}
    write_record("curves_cpu", settings, rows)


# The page --------------------------------------------------------------------------------------


def read(name: str) -> dict[str, Any]:
    return json.loads((RECORDS / f"{name}.json").read_text())


def line_through(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Return fixed seconds and seconds an operation of two runs: (operations, seconds)."""
    (a, s), (b, t) = points
    rate = (t - s) / (b - a)
    return max(0.0, s - rate * a), rate


def machines() -> list[dict[str, Any]]:
    """Return each measured set-up: the model of two smaller runs, and the largest run."""
    out = []
    disk = [row for row in read("outofcore")["results"] if row["what"] == "fit from a memory map"]
    if len(disk) >= 2:
        small, large = disk[0], disk[-1]
        work = [flops(row["n"], 1000, 50, 10) for row in (small, large)]
        fixed, rate = 0.0, small["seconds"] / work[0]  # its fixed part is below a second
        out.append(
            _machine("2 cores, rows on disk", "float32", fixed, rate, work[1], large, 1000, 10)
        )
    card = read("gpu")["results"]
    whole = [row for row in card if row["what"] == "fit"]
    small = [row for row in card if row["what"] == "plain torch"]  # a fit of ours beside it
    if whole and small:
        points = [
            (flops(small[0]["n"], small[0]["m"], 50), small[0]["ours"]),
            (flops(whole[0]["n"], whole[0]["m"], 50), whole[0]["seconds"]),
        ]
        fixed, rate = line_through(points)
        streamed = next(row for row in card if row["what"] == "stream")
        run = {"n": streamed["n"], "seconds": streamed["seconds"]}
        out.append(_machine("one H200", "float64", fixed, rate, points[1][0], run, 5000, 1))
    return out


def _machine(
    name: str,
    dtype: str,
    fixed: float,
    rate: float,
    work: float,
    run: dict[str, Any],
    m: int,
    q: int,
) -> dict[str, Any]:
    predicted = fixed + rate * work
    return {
        "name": name, "dtype": dtype, "fixed": fixed, "rate": rate, "n": run["n"], "m": m, "q": q,
        "measured": run["seconds"], "predicted": predicted, "off": predicted / run["seconds"] - 1.0,
    }  # fmt: skip


def duration(seconds: float) -> str:
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds:.2f} s"


def page_text() -> str:
    """Return the page, from the records."""
    rows = machines()
    text = TEXT
    table = ["| machine | m | measured | the model says |", "|---|---:|---|---|"]
    for row in rows:
        table.append(
            f"| {row['name']}, {row['dtype']} | {row['m']:,} | {row['n']:,} rows: "
            f"{duration(row['measured'])} | {duration(row['predicted'])} "
            f"({100 * row['off']:+.0f} %) |"
        )
    text = text.replace("{CHECK}", "\n".join(table))
    head = ["rows, 50 columns, 1,000 landmarks, 10 outputs", *(row["name"] for row in rows)]
    table = ["| " + " | ".join(head) + " |", "|---:|" + "---|" * len(rows)]
    for n in SIZES:
        cost = [
            row["fixed"] * (1000 / row["m"]) ** 3 + row["rate"] * flops(n, 1000, 50, 10)
            for row in rows
        ]
        table.append(f"| {n:,} | " + " | ".join(duration(c) for c in cost) + " |")
    text = text.replace("{COSTS}", "\n".join(table))
    text = text.replace("{CLUSTER}", cluster()).replace("{DISK}", disk_text())
    text = text.replace("{MACHINES}\n", kernel_machines())
    return text.replace("{LARGE}", large_m())


def page() -> None:
    (DOCS / "scale.md").write_text(page_text(), encoding="utf-8")
    draw()


def disk_text() -> str:
    rows = [row for row in read("outofcore")["results"] if row["what"] == "fit from a memory map"]
    row = rows[-1]
    return (
        f"{row['n']:,} rows of 50 float32 columns ({row['file_megabytes']:,.0f} MB on disk) were "
        f"fitted with {row['peak_megabytes']:,.0f} MB of memory, at "
        f"{row['microseconds_a_row']:.1f} microseconds a row; {rows[0]['n']:,} rows took "
        f"{rows[0]['microseconds_a_row']:.1f}"
    )


def cluster() -> str:
    row = read("cluster")["results"][0]
    lines = ["| | seconds to fit | seconds to rank |", "|---|---:|---:|"]
    for name, tail in (("in peace", ""), ("killed", "_with_death")):
        times = [row[f"{part}_seconds{tail}"] for part in ("fit", "rank")]
        lines.append(f"| {name} | {times[0]:.1f} | {times[1]:.1f} |")
    same = "the same" if row["same_ranking"] else "not the same"
    more = (
        f"Coefficients differ by {row['coef_difference']:.0e}, the ranking is {same}; the "
        f"scheduler had at most {row['scheduler_megabytes']:.0f} MB."
    )
    return "\n".join([*lines, "", more])


def kernel_machines() -> str:
    """Return a table of benchmarks/machines_gpu.py, or nothing where it was not run."""
    if not (RECORDS / "machines_gpu.json").exists():
        return ""
    record = read("machines_gpu")
    rows = [row for row in record["results"] if row["what"] == "speed"]
    cores = f"{record['hardware']['cores']} cores"
    lines = [
        f"| loss | {record['settings']['card']}, seconds | {cores}, seconds | ratio | gap |",
        "|---|---:|---:|---:|---:|",
    ]
    for here in (row for row in rows if row["rows"] == "all cores"):
        card = next(r for r in rows if r["loss"] == here["loss"] and r["rows"] == "host rows")
        note = "" if here["extrapolated_from_rows"] is None else " (ten times those of a tenth)"
        lines.append(
            f"| {here['loss']} | {card['seconds']:.2f} | {here['seconds']:.1f}{note} | "
            f"{here['seconds'] / card['seconds']:.0f} | {card['gap']:.0e} |"
        )
    n, m = rows[0]["n"], rows[0]["m"]
    head = f"{n:,} rows on the host, 20 columns, {m:,} landmarks, to a gap of 1e-4 or less:"
    return "\n".join([head, "", *lines, "", ""])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def large_m() -> str:
    """Return the table of many landmarks on a GPU, nothing before there is a record."""
    if not (RECORDS / "large_m.json").exists():
        return ""
    found = [row for s in read("large_m")["sections"] for row in s["results"] if "seconds" in row]
    lines = ["", "| rows | landmarks | solver | seconds | test error | of the rate of products |",
             "|---:|---:|---|---:|---:|---:|"]  # fmt: skip
    for row in found:
        share = row.get("share_of_gemm", "")
        share = min(share.values()) if isinstance(share, dict) else share
        name = (
            f"{row['what']}, {str(row['dtype']).split('.')[-1]}" if "dtype" in row else row["what"]
        )
        lines.append(
            f"| {row['n']:,} | {row.get('m', 'all')} | {name} | {row['seconds']:.1f} | "
            f"{_number(row.get('test_mse'))} | {f'{share:.0%}' if share else ''} |"
        )
    return "\n".join([*lines, "", *precisions()])


def precisions() -> list[str]:
    """Return what the precision of F'F costs and spoils, as lines of the page."""
    sections = {s["section"]: s["results"] for s in read("large_m")["sections"]}
    rows = sections.get("precision", [])
    if not rows:
        return []
    errors = [key for key in rows[0] if key.startswith("test_mse")]
    heads = [key.replace("test_mse", "test error") for key in errors]
    lines = [PRECISION, f"| F'F in | seconds | error of F'F | {' | '.join(heads)} |",
             "|---|---:|---:|" + "---:|" * len(heads)]  # fmt: skip
    for row in rows:
        found = [_number(row[key]) or "no solution" for key in errors]
        lines.append(
            f"| {row['what']} | {row['seconds of 4 m rows']:.4f} | {row[FAULT]:.0e} | "
            + f"{' | '.join(found)} |"
        )
    return [*lines, ""]


def draw() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = read("curves_cpu")["results"]
    card = [row for row in read("gpu")["results"] if row["what"] == "curve"]
    machines = [("CPU, 2 cores", rows, "tab:blue")] + [("H200", card, "tab:orange")] * bool(card)
    measured = [axis for axis in LABELS if any(row["axis"] == axis for row in [*rows, *card])]
    size = (3.15 * len(measured), 3.2)
    fig, axes = plt.subplots(1, len(measured), figsize=size, layout="constrained")
    for ax, axis in zip(axes, measured, strict=True):
        for name, rows, colour in machines:
            own = [row for row in rows if row["axis"] == axis]
            if not own:
                continue
            x, y = [row[axis] for row in own], [row["seconds"] for row in own]
            fixed = ", ".join(f"{k} = {own[0][k]:,}" for k in ("n", "m", "d") if k != axis)
            label = f"{name}: {axis}^{slope(rows, axis):.2f}\n({fixed})"
            ax.loglog(x, y, "o-", color=colour, label=label)
        ax.set(xlabel=LABELS[axis])
        ax.legend(fontsize=7)
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("seconds to fit")
    fig.savefig(DOCS / "images" / "cost.png", dpi=150)


PRECISION = """
A GPU multiplies fastest in TF32, which keeps 10 bits of a number. F'F of 5,000 features of 200,000
rows, on that GPU, in four precisions; "of two parts" is TF32 of F = high + low without low'low.
On this GPU float64 takes no longer than float32, and TF32, in two parts too, loses so much in the
sums that there is no solution. So skout sums in float64:
"""

TEXT = """# How far does it go?

*This page is made by `benchmarks/cost.py page` from [records](records.md) of `benchmarks/records`.*

A sketched fit passes over the rows once. What it keeps does not grow with them: the landmarks and
the moments, m x m + m x q numbers. So the cost is the arithmetic,

$$
\\text{seconds} = \\text{fixed}(m) + n\\,(2 m d + m^2 + 2 m q) / \\text{rate}
$$

for n rows of d columns, m landmarks and q outputs. The rate is a good part of the rate at which the
machine multiplies matrices. The parameters of the first line below come from a run of 500,000 rows.
Those of the second come from fits of 1,000,000 and 10,000,000 rows on the GPU; they are compared
with a fit of the same rows from the host, which is a check of the streaming, not of the model.

{CHECK}

![seconds against rows, landmarks, columns and outputs](images/cost.png)

## What a large run would cost

By that model; nobody has run the last two lines here.

{COSTS}

The rows must come from somewhere: 10^9 rows of 50 float32 columns are 200 GB, which a disk of
2 GB/s reads in under two minutes. On two cores that is little beside the arithmetic; a GPU waits
for the disk.

## One machine, or several?

- **In memory, a few million rows:** give arrays.
- **Larger than memory, one machine:** give a memory map, an HDF5 or zarr array, a parquet file or
  `skout.sources.Blocks`. {DISK}. Set `checkpoint="fit.npz"`: a fit that is killed goes on from
  there and ends with the same numbers.
- **A GPU:** `device="cuda"`, or tensors that lie there; `device="auto"` takes a GPU if there is
  one. Rows on the host are streamed: they need not fit the GPU. Kernels on graphs, strings and
  spectra stay on the CPU; your own run there if they take tensors.
- **Several machines:** dask arrays, when the rows lie on several machines already, or when the
  model above says days. It adds the machines' rates, no more. Moments are m x m numbers whatever
  the rows, so their sum costs little against the rest. A worker that dies costs its blocks again,
  and the result does not change.

SISOKR on two dask workers of one machine with two cores: 1,000,000 rows, 500 input and 100 output
landmarks; all rows are then ranked against a pool. With "killed" a worker dies in the middle of
each.

{CLUSTER}

## Many landmarks, or none

From a few thousand landmarks on, n m^2 need not be paid. `KernelRidge(solver=...)` has two ways;
`solver_report_` says which was taken, and by which costs:

- **"direct"** sums the moments in one pass and factorizes them, $n m (2 d + v + m + 2 q) + 2 c\\,
  m^3$ operations;
- **"cg"** solves by preconditioned conjugate gradients, for all outputs at once. Each step is a
  product with the kernel values of all rows, $3 n m (2 d + 1.5 v + 4 q) + \\text{setup} +
  \\text{steps} \\cdot n m (k + 4 q)$ operations. It works in single precision, and checks the
  residual in double: what it reports is true.

In round numbers, v is what a kernel value costs beside its product, in operations of a float32
product (130 on a core, 400 on a GPU), k what one costs that was kept (50 and 100; 2 d + v where
memory does not allow it), and c is 2 on a CPU, where double precision takes twice as long, and 1
on a GPU. The preconditioner is the one that makes the whole cheapest:

| preconditioner | setup | steps to 1e-3 |
|---|---|---:|
| the direct system of 4 m or 2 m sampled rows | (4 + 1/3) c m^3 or (2 + 1/3) c m^3 | 12 or 20 |
| one factor of the landmarks, single precision | c m^3 / 3 | 35 |
| a second sketch, where m x m numbers have no room | 2 m r^2 | 60 |

`solver="auto"` takes "cg" where it promises to be 1.5 times cheaper (on a GPU 1.25 times); "direct"
is used below 2,500 landmarks (on a GPU 1,500) in any case, and for a sequence of alphas, of which
one pass serves all. The cheaper one
need not be the same on a laptop and on a GPU: with "direct" their predictions agree to ten digits,
with "cg" on either to `tol`. That is the root mean square by which predictions of training rows may
still change, in standard deviations of each output (1e-3 by default, far below the error of the
model; a bound without a sketch, else an estimate): what a mean far from zero adds to the targets
does not count. Where "auto" took "cg" and it does not get there, "direct" takes over if there is
memory for its matrices, and `solver_report_["fell_back_from"]` says so; if not, a warning says what
is left. So does an explicit "cg". Kernel values are kept in float32 as far as memory goes: a
quarter of the machine's unless `memory_limits(coordinates_mb=...)` is set, on a GPU what is free.
Without a sketch (`sketch=None`) the same holds of the n x n kernel matrix, in tiles on and below
its diagonal, and the preconditioner is a sketch of 10 (on a GPU 15) sqrt(n) rows: "cg" never forms
n x n numbers.
There "auto" takes "cg" from 8,000 rows on.

A GPU works on the m^3 part too: kernel matrix, factors, moments and solution stay there. If it
has too little memory, an error says so before the work begins.
{LARGE}
Coming from Falkon? See [the translation](coming_from/falkon.md).

## Kernel machines

A machine with another loss than the squared one is solved by Newton steps, of n m^2 operations
each, and by a few passes over the coordinates, n x m numbers. These are held: here up to
`memory_limits(coordinates_mb=2048)`, on a GPU as far as there is room. Beyond that they are
computed again in each pass, which costs about two steps. With `device="cuda"` the whole solver runs
on the GPU, its certificate included. Besides coordinates it holds about 24 numbers for each row
and output there, and says so before it starts if they do not fit.

{MACHINES}

## Choosing m

m^2 is what costs. Try m = 500, 1,000, 2,000 on a hundred thousand rows and stop where the
validation error stops falling (`skout.theory.sketch_size_search`), or use PivotedCholesky with a
tolerance, which finds its own m. Twice the rows cost twice, twice the landmarks four times as much.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("measure", "page"))
    {"measure": measure, "page": page}[parser.parse_args().part]()


if __name__ == "__main__":
    main()
