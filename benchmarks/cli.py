"""The command line on a CSV of a million rows: memory must not grow with the rows; and on bibtex.

    python benchmarks/cli.py [--quick] [--part rows columns bibtex]

rows    `skout fit`, `rank`, `predict` and `evaluate` as processes of their own, on files of 100,000
        and 1,000,000 rows with 8 numbers and a set of labels. Their anonymous memory is sampled
        from /proc, so this needs Linux. `--memory 10` makes `fit` stream both files.
columns `skout fit` and `predict` on 60 rows of up to 100,000 columns: processor seconds, and the
        slope of their logarithm in that of the columns, which should be 1.
bibtex  Exported to CSV, fitted and ranked by the command line: the F1 of the first candidates must
        be that of the same model in Python. It needs the folder SKOUT_DATA.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from measure import print_table, write_record
from tqdm import tqdm

import skout
from skout.datasets import load
from skout.kernels import F1, Gaussian
from skout.metrics import example_f1
from skout.sketches import PSparsified, SubSample

SEED, D, LABELS, MEMORY = 0, 8, 6, 10
# Rows that are made and written at a time.
WRITTEN = 100_000
PARTS = ["rows", "columns", "bibtex"]
SKOUT = [sys.executable, "-c", "from skout.apps.cli import main; main()"]
BIBTEX = {"gamma": 0.00926, "alpha": 3e-5, "landmarks": 300, "output_features": 100}


def run(*words: Any, every: float = 0.01) -> tuple[str, float, float]:
    """Run the command line; return what it printed, the seconds, and the peak in megabytes."""
    start, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen([*SKOUT, *map(str, words)], stdout=out)
        while process.poll() is None:
            peak = max(peak, anonymous_bytes(process.pid))
            time.sleep(every)
        if process.returncode:
            raise SystemExit(f"skout {words[0]} failed with exit code {process.returncode}")
        out.seek(0)
        return out.read(), time.perf_counter() - start, peak / 1e6


def anonymous_bytes(pid: int) -> int:
    """Return the memory of a process that no file backs; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith("RssAnon:")), 0)


# A million rows -----------------------------------------------------------------------------------


def write_rows(path: Path, n: int) -> None:
    """Write a CSV of x0 ... x7 and tags, which depend on the signs of linear maps."""
    rng = np.random.default_rng(SEED)
    mix = rng.standard_normal((D, LABELS))
    with open(path, "w", newline="") as file:
        file.write(",".join([*(f"x{j}" for j in range(D)), "tags"]) + "\n")
        for start in range(0, n, WRITTEN):
            X = rng.standard_normal((min(WRITTEN, n - start), D)).round(4)
            cells = (",".join(map(str, row)) for row in X.tolist())
            lines = zip(cells, tags(X @ mix > 1.0, "t"), strict=True)
            file.writelines(f"{numbers},{words}\n" for numbers, words in lines)


def tags(bits: np.ndarray, prefix: str) -> Iterable[str]:
    return (";".join(f"{prefix}{j:03}" for j in np.flatnonzero(row)) for row in bits)


def large_file(n: int) -> list[dict[str, Any]]:
    """Return seconds and peak memory of each command on n rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, model = folder / "rows.csv", folder / "model.skout"
        write_rows(data, n)
        sketch = ["--input-sketch", "subsample:200", "--memory", MEMORY]
        commands = {
            "fit": ["--target", "tags", "--output", "label_sets", *sketch, "-o", model, "--json"],
            "rank": ["-k", 3, "-o", folder / "ranked.csv"],
            "predict": ["-o", folder / "predicted.csv"],
            "evaluate": ["--json"],
        }
        rows, printed = [], {}
        for command, words in tqdm(commands.items(), desc=f"{n:,} rows"):
            files = [data] if command == "fit" else [model, data]
            printed[command], seconds, peak = run(command, *files, *words)
            rows.append({"what": command, "n": n, "seconds": seconds, "peak_megabytes": peak})
        for row in rows:
            row["file_megabytes"] = data.stat().st_size / 1e6
        rows[0]["in_memory"] = json.loads(printed["fit"])["in_memory"]
        rows[0]["model_megabytes"] = model.stat().st_size / 1e6
        rows[-1]["example_f1"] = json.loads(printed["evaluate"])["metrics"]["example_f1"]
    return rows


def with_growth(small: list[dict[str, Any]], large: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for one, other in zip(small, large, strict=True):
        other["more_megabytes"] = other["peak_megabytes"] - one["peak_megabytes"]
    return [*small, *large]


# Many columns -------------------------------------------------------------------------------------


def wide_file(d: int) -> dict[str, float]:
    """Return the processor seconds of each command on 60 rows of d columns."""
    with tempfile.TemporaryDirectory() as name:
        data, model = Path(name) / "wide.csv", Path(name) / "model.skout"
        X = np.random.default_rng(SEED).standard_normal((60, d)).round(3)
        with open(data, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"x{j}" for j in range(d)), "y"])
            writer.writerows([*row, row[0]] for row in X.tolist())
        found = {}
        for command, words in (
            ("fit", [data, "--target", "y", "--no-tune", "-o", model]),
            ("predict", [model, data, "-o", Path(name) / "out.csv"]),
        ):
            before = user_seconds()
            run(command, *words)
            found[command] = user_seconds() - before
    return found


def user_seconds() -> float:
    """Return the processor seconds of all commands so far, which other work does not change."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def wide_files(sizes: list[int]) -> list[dict[str, Any]]:
    """Return seconds without those of a start, and the slope from each size to the next."""
    start = wide_file(10)
    rows: list[dict[str, Any]] = []
    for d in tqdm(sizes, desc="columns"):
        for command, seconds in wide_file(d).items():
            row = {"what": f"{command}, columns", "columns": d, "seconds": seconds - start[command]}
            before = next((r for r in reversed(rows) if r["what"] == row["what"]), None)
            if before:
                ratio = row["seconds"] / before["seconds"]
                row["slope"] = float(np.log(ratio) / np.log(d / before["columns"]))
            rows.append(row)
    return rows


# bibtex -------------------------------------------------------------------------------------------


def export(path: Path, X: Any, Y: Any) -> None:
    """Write dense inputs and a column of joined labels."""
    dense, bits = (A.toarray() if hasattr(A, "toarray") else np.asarray(A) for A in (X, Y))
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"word{j}" for j in range(dense.shape[1])), "labels"])
        sets = tags(bits, "label")
        writer.writerows([*row, words] for row, words in zip(dense.tolist(), sets, strict=True))


def bibtex() -> list[dict[str, Any]]:
    """Return the F1 of the command line, by `evaluate` and by `rank`, and that of Python."""
    data = load("bibtex")
    model = skout.sisokr(
        Gaussian(BIBTEX["gamma"]),
        F1(),
        input_sketch=SubSample(BIBTEX["landmarks"]),
        output_sketch=PSparsified(BIBTEX["output_features"]),
        alpha=BIBTEX["alpha"],
        random_state=SEED,
    ).fit(*data.train)
    truth = data.test[1].toarray() if hasattr(data.test[1], "toarray") else data.test[1]
    row = {"what": "bibtex", "n": data.train[1].shape[0], "n_test": len(truth)}
    row["f1_of_python"] = example_f1(truth, model.predict(data.test[0]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, pair in (("train", data.train), ("test", data.test)):
            export(folder / f"{part}.csv", *pair)
        file, ranked = folder / "model.skout", folder / "ranked.csv"
        words = ["--target", "labels", "--output", "label_sets", "--output-kernel", "f1"]
        words += ["--input-kernel", f"gaussian:{BIBTEX['gamma']}", "--alpha", BIBTEX["alpha"]]
        words += ["--input-sketch", f"subsample:{BIBTEX['landmarks']}", "-o", file]
        words += ["--output-sketch", f"p_sparsified:{BIBTEX['output_features']}"]
        _, row["seconds"], row["peak_megabytes"] = run("fit", folder / "train.csv", *words)
        run("rank", file, folder / "test.csv", "-k", 1, "-o", ranked)
        text, _, _ = run("evaluate", file, folder / "test.csv", "--json")
        row["f1_of_rank"] = example_f1(truth, first_candidates(ranked, truth.shape[1]))
    row["f1_of_evaluate"] = json.loads(text)["metrics"]["example_f1"]
    return [row]


def first_candidates(path: Path, n_labels: int) -> np.ndarray:
    """Return the sets of a ranking with k = 1 as rows of 0 and 1."""
    with open(path, newline="") as file:
        cells = [line["candidate"] for line in csv.DictReader(file)]
    bits = np.zeros((len(cells), n_labels), dtype=int)
    for row, cell in zip(bits, cells, strict=True):
        row[[int(word.removeprefix("label")) for word in cell.split(";") if word]] = 1
    return bits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rows, no record")
    parser.add_argument("--part", nargs="+", default=PARTS)
    options = parser.parse_args()
    n = 20_000 if options.quick else 1_000_000
    results: list[dict[str, Any]] = []
    if "bibtex" in options.part:
        results += bibtex()
        print_table(results, ["what", "n", "f1_of_python", "f1_of_rank", "f1_of_evaluate"])
    if "rows" in options.part:
        rows = with_growth(large_file(n // 10), large_file(n))
        head = ["what", "n", "seconds", "peak_megabytes", "more_megabytes", "file_megabytes"]
        print_table(rows, [*head, "model_megabytes", "example_f1"])
        results += rows
    if "columns" in options.part:
        wide = wide_files([10_000, 20_000] if options.quick else [25_000, 50_000, 100_000])
        print_table(wide, ["what", "columns", "seconds", "slope"])
        results += wide
    if not options.quick and set(options.part) == set(PARTS):
        settings = {"seed": SEED, "columns": D, "memory": MEMORY, "bibtex": BIBTEX}
        print("record:", write_record("cli", settings, results))


if __name__ == "__main__":
    main()
