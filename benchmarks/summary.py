"""What the README and two pages of docs/ say of the recorded runs.

python -m benchmarks.summary            print them
python -m benchmarks.summary --write    put them into their pages, each between its two marks
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HEAD = """
## Speed and quality

| what | skout | beside | | made by | run on |
|---|---:|---:|---|---|---|
"""
FOOT = """
Seconds are of two cores. Label sets here are of models whose settings cross-validation chose on
training rows, ours and the others; the table further up has the defaults. The table is written by
`python -m benchmarks.summary --write` from the records of the scripts named, which say how each
number was made. A number is that of the library of its day.
"""
EVIDENCE_HEAD = """
## Evidence

| what | result | made by |
|---|---|---|
"""
EVIDENCE_FOOT = """
Near: within one standard error of the best. `python -m` with the module on the right makes the
number; `python -m benchmarks.summary` writes this table.
"""
LABELS_HEAD = """
## Label sets without a threshold

Most methods predict a probability for each label, and someone has to choose above which a label
counts. skout predicts the set as a whole. `sisokr("gaussian", "f1")`, without any setting, beside
scikit-learn's random forest; example F1 on test rows in percent:

| data | skout | forest at 0.5 | forest, tuned threshold |
|---|---:|---:|---:|
"""
LABELS_FOOT = """
Means of three seeds; the best of a row is bold. The numbers are made by
`python -m experiments.ours.out_of_the_box`, with a record of seeds, versions and settings, and were
run on {date}. On bibtex the default has {default:.1f}, a model tuned for it {tuned:.1f}
(`python -m experiments.ours.multilabel --data bibtex`).
"""


def read(folder: str, name: str) -> dict[str, Any]:
    """Return a record."""
    path = ROOT / folder / "records" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def results(folder: str, name: str) -> list[dict[str, Any]]:
    """Return the results of a record."""
    return read(folder, name)["results"]


def source(script: str, *names: str) -> list[str]:
    """Return the last cells of a row: the script, and when the oldest of these records was run."""
    folder = script.split("/")[0]
    return [f"`{script}`", min(read(folder, name)["date"] for name in names)]


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
            *source("benchmarks/ridge.py", "ridge"),
        ],
        [
            f"the same from disk, {disk['n']:,} rows",
            f"{disk['seconds']:.0f} s, {disk['peak_megabytes']:.0f} MB",
            "",
            f"a file of {disk['file_megabytes']:,.0f} MB",
            *source("benchmarks/outofcore.py", "outofcore"),
        ],
        [
            "SISOKR on bibtex, fit and predict",
            f"{sisokr['skout fit'] + sisokr['skout predict']:.1f} s",
            f"{sisokr['plain fit'] + sisokr['plain predict']:.1f} s",
            "the formulas in NumPy",
            *source("benchmarks/structured.py", "structured_bibtex"),
        ],
        [
            f"{pool['queries']:,} queries among {pool['candidates']:,} candidates, exactly",
            f"{pool['seconds']:.1f} s",
            "",
            f"{100 * pool['share of this product']:.0f} % of the rate of the matrix product",
            *source("benchmarks/structured.py", "structured_pool"),
        ],
        [
            f"Weisfeiler-Lehman kernel of {graphs['graphs']:,} molecules",
            f"{graphs['skout seconds']:.2f} s",
            f"{graphs['grakel seconds']:.2f} s",
            "GraKeL",
            *source("benchmarks/graphs.py", "graphs_grakel"),
        ],
        [
            "Tanimoto of 1,500 x 100,000 fingerprints",
            f"{popcounts['seconds']:.1f} s",
            f"{rdkit['seconds']:.0f} s",
            "RDKit, a tenth of it timed",
            *source("benchmarks/bits.py", "bits"),
        ],
    ]


def quality() -> list[list[str]]:
    """Return the rows on errors: ours, and the best other figure, also where it is better."""
    rows = []
    for data in ("bibtex", "delicious", "tmc2007-500", "yeast", "corel16k001"):
        names = [
            f"multilabel_{data}_{part}" for part in ("600", "logistic", "forest", "neighbours")
        ]
        (ours,), *others = (results("experiments", name) for name in names)
        rivals = [row for other in others for row in other]
        best = max(rivals, key=lambda row: row["f1"][0])
        rows.append(
            [
                f"label sets of {data}, tuned, example F1 in %",
                f"{ours['f1'][0]:.1f}",
                f"{best['f1'][0]:.1f}",
                f"{best['method']}: the best of {len(rivals)} from scikit-learn",
                *source("experiments/ours/multilabel.py", *names),
            ]
        )
    (ours,) = results("experiments", "lpm24_sisokr")
    (near,) = results("experiments", "lpm24_neighbours")
    for key, unit in (("f1", "fingerprints"), ("f1_molecules", "molecules")):
        what = f"properties of molecules, L+M-24, F1 over {unit} in %"
        numbers = f"{ours[key]:.1f}", f"{near[key]:.1f}"
        made = source("experiments/ours/lpm24.py", "lpm24_sisokr", "lpm24_neighbours")
        rows.append([what, *numbers, "nearest neighbors", *made])
    deep = pick(results("experiments", "smi2mol"), method="DSOKR")
    edits = deep["GED with edge labels"][0]
    rows.append(
        [
            "SMILES to molecule on QM9, mean edit distance, less is better",
            f"{edits:.2f}",
            f"{deep['thesis with']:.2f}",
            "the thesis",
            *source("experiments/papers/smi2mol.py", "smi2mol"),
        ]
    )
    return rows


def lines(rows: list[list[str]]) -> str:
    """Return the rows of a table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def label_sets() -> str:
    """Return the section on what the defaults give."""
    rows, found = [], results("experiments", "out_of_the_box")
    for row in (row for row in found if "forest" in row):
        texts = [f"{row[key][0]:.1f}" for key in ("skout", "forest", "tuned")]
        best = max(texts, key=float)
        rows.append([row["data"], *(f"**{t}**" if t == best else t for t in texts)])
    (tuned,) = results("experiments", "multilabel_bibtex_600")
    default = pick(found, data="bibtex")["skout"][0]
    date = read("experiments", "out_of_the_box")["date"]
    return (
        LABELS_HEAD
        + lines(rows)
        + LABELS_FOOT.format(date=date, default=default, tuned=tuned["f1"][0])
    )


def speed_and_quality() -> str:
    """Return the section on recorded runs."""
    return HEAD + lines(speed() + quality()) + FOOT


def spectra() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the rows of identification by formula: the model, and random order."""
    rows = read("experiments", "spectra_open")["parts"]["score"]["results"]["formula"]
    return pick(rows, model="the model"), pick(rows, model="random order")


def evidence() -> str:
    """Return the table of the README."""
    from experiments.ours import strangers, tuned_page

    record = tuned_page.read()
    assert record is not None
    rows = []
    kinds = {"labels": "label sets", "rankings": "rankings", "targets": "several numbers"}
    for kind, name in kinds.items():
        counts = tuned_page.count(record["results"], kind)
        rows.append(
            [
                f"`Tuned` beside scikit-learn's best, {name}",
                f"first on {counts.first} of {counts.sets} data sets, near on "
                f"{counts.near - counts.first} more",
                "[`experiments.ours.tuned`](docs/tuned.md)",
            ]
        )
    first, near, n = strangers.counts(results("experiments", "strangers"))
    rows.append(
        [
            "`skout fit` beside skrub, tables of strangers",
            f"first on {first} of {n} targets, near on {near} more",
            "[`experiments.ours.strangers`](docs/tables.md)",
        ]
    )
    by_formula, random = spectra()
    rows.append(
        [
            f"`skout identify`, {by_formula['n']:,} spectra of laboratories held out",
            f"{100 * by_formula['top 1']:.0f} % first among candidates of the formula; in random "
            f"order {100 * random['top 1']:.0f} %; SIRIUS was not run",
            "[`experiments.ours.spectra_open`](docs/identify.md)",
        ]
    )
    for what, ours, theirs, beside, script, _ in (speed()[0], speed()[2]):
        module = script.strip("`").removesuffix(".py").replace("/", ".")
        rows.append([what, f"{ours}; {beside} {theirs}", f"[`{module}`](docs/evidence.md)"])
    return EVIDENCE_HEAD + lines(rows) + EVIDENCE_FOOT


def strangers() -> str:
    """Return what the page on tables says of tables of strangers."""
    from experiments.ours.strangers import paragraph

    return paragraph()


SECTIONS = {
    "README.md": {"evidence": evidence},
    "docs/tables.md": {"strangers": strangers},
    "docs/evidence.md": {"label sets": label_sets, "speed and quality": speed_and_quality},
}


def with_tables(page: str, text: str) -> str:
    """Return the text of a page with the tables of the records."""
    for name, section in SECTIONS[page].items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n{section()}\n{end}{after}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put them into their pages")
    write = parser.parse_args().write
    for page, sections in SECTIONS.items():
        if write:
            text = with_tables(page, (ROOT / page).read_text(encoding="utf-8"))
            (ROOT / page).write_text(text, encoding="utf-8")
        else:
            print(*(section() for section in sections.values()), sep="\n")


if __name__ == "__main__":
    main()
