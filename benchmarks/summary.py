"""The table of speed and quality in the README, from the recorded runs.

python benchmarks/summary.py            print it
python benchmarks/summary.py --write    put it into README.md, between its two marks
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- speed and quality: begin -->", "<!-- speed and quality: end -->"
HEAD = """
## Speed and quality

| what | skout | beside | |
|---|---:|---:|---|
"""
FOOT = """
Seconds are of two cores. The table is written from the records in `benchmarks` and `experiments`,
which say how each number was made.
"""


def results(folder: str, name: str) -> list[dict[str, Any]]:
    """Return the results of a record."""
    path = ROOT / folder / "records" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["results"]


def pick(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    """Return the only row that has these values."""
    (row,) = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    return row


def speed() -> list[list[str]]:
    """Return the rows on time."""
    ridge = pick(results("benchmarks", "ridge"), what="sketched fit", n=500_000, dtype="float32")
    disk = pick(results("benchmarks", "outofcore"), what="fit from a memory map", n=5_000_000)
    (pool,) = results("benchmarks", "structured_pool")
    sisokr = pick(results("benchmarks", "structured_bibtex"), method="SISOKR")
    graphs = pick(results("benchmarks", "graphs_grakel"), kernel="WeisfeilerLehman(5)")
    bits = results("benchmarks", "bits")
    popcounts, rdkit = (pick(bits, bits=2048, way=way) for way in ("popcounts", "RDKit, scaled"))
    return [
        [
            f"kernel ridge, {ridge['n']:,} rows, 1,000 landmarks",
            f"{ridge['seconds']:.1f} s",
            f"{ridge['sklearn_seconds']:.1f} s",
            "`Nystroem` + `Ridge`",
        ],
        [
            f"the same from disk, {disk['n']:,} rows",
            f"{disk['seconds']:.0f} s, {disk['peak_megabytes']:.0f} MB",
            "",
            f"a file of {disk['file_megabytes']:,.0f} MB",
        ],
        [
            "SISOKR on bibtex, fit and predict",
            f"{sisokr['skout fit'] + sisokr['skout predict']:.1f} s",
            f"{sisokr['plain fit'] + sisokr['plain predict']:.1f} s",
            "the formulas in NumPy",
        ],
        [
            f"{pool['queries']:,} queries among {pool['candidates']:,} candidates, exactly",
            f"{pool['seconds']:.1f} s",
            "",
            f"{100 * pool['share of this product']:.0f} % of the rate of the matrix product",
        ],
        [
            f"Weisfeiler-Lehman kernel of {graphs['graphs']:,} molecules",
            f"{graphs['skout seconds']:.2f} s",
            f"{graphs['grakel seconds']:.2f} s",
            "GraKeL",
        ],
        [
            "Tanimoto of 1,500 x 100,000 fingerprints",
            f"{popcounts['seconds']:.1f} s",
            f"{rdkit['seconds']:.0f} s",
            "RDKit, a tenth of it timed",
        ],
    ]


def quality() -> list[list[str]]:
    """Return the rows on errors: ours, and the best other figure, also where it is better."""
    rows = []
    for data in ("bibtex", "delicious", "tmc2007-500", "yeast", "corel16k001"):
        (ours,) = results("experiments", f"multilabel_{data}_600")
        rivals = results("experiments", f"multilabel_{data}_logistic")
        for name in ("forest", "neighbours"):
            rivals = rivals + results("experiments", f"multilabel_{data}_{name}")
        best = max(rivals, key=lambda row: row["f1"][0])
        rows.append(
            [
                f"label sets of {data}, example F1 in %",
                f"{ours['f1'][0]:.1f}",
                f"{best['f1'][0]:.1f}",
                f"{best['method']}: the best of {len(rivals)} from scikit-learn",
            ]
        )
    (ours,) = results("experiments", "lpm24_sisokr")
    (near,) = results("experiments", "lpm24_neighbours")
    for key, unit in (("f1", "fingerprints"), ("f1_molecules", "molecules")):
        what = f"properties of molecules, L+M-24, F1 over {unit} in %"
        rows.append([what, f"{ours[key]:.1f}", f"{near[key]:.1f}", "nearest neighbours"])
    deep = pick(results("experiments", "smi2mol"), method="DSOKR")
    edits = deep["GED with edge labels"][0]
    rows.append(
        [
            "SMILES to molecule on QM9, mean edit distance, less is better",
            f"{edits:.2f}",
            f"{deep['thesis with']:.2f}",
            "the thesis",
        ]
    )
    return rows


def table() -> str:
    """Return the section of the README."""
    lines = ["| " + " | ".join(row) + " |" for row in speed() + quality()]
    return HEAD + "\n".join(lines) + "\n" + FOOT


def with_table(text: str) -> str:
    """Return the text of the README with the table of the records."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put it into README.md")
    if not parser.parse_args().write:
        print(table())
        return
    readme = ROOT / "README.md"
    readme.write_text(with_table(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
