"""Run every command of `skout` and write the page of them: python docs/commands.py.

The page docs/command_line.md shows what the commands printed, in a folder that holds only the
tables made here. A command that a version does not have is left out.
"""

from __future__ import annotations

import csv
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parent / "command_line.md"
WIDTH, MAX_LINES = 88, 16

HEAD = """# Command line

*This page is made by `python docs/commands.py`, which ran every command that it shows.*

`pip install "skout[cli]"` brings the command `skout`. Tables are CSV, TSV, JSON, parquet,
feather, Excel or npz files ([how they are read](tables.md)); the columns to predict hold label
sets, rankings, classes, strings, SMILES or numbers. The file of a model knows its columns, labels
and scales, and large tables are read by the block.
`skout COMMAND --help` lists all options, and `--debug` shows where an error comes from.

The tables of this page are tours, with made-up numbers and tags:
"""

MOLECULES = r"""CC(=O)Oc1ccccc1C(=O)O aspirin
Cn1cnc2c1c(=O)n(C)c(=O)n2C caffeine
OC(=O)/C=C/C(=O)O fumaric acid
OC(=O)/C=C\C(=O)O maleic acid
CC(=O)[O-].[Na+] sodium acetate
CCO
"""

# A title, what to say, and the commands to run.
Step = tuple[str, str, list[str]]
STEPS: list[Step] = [
    ("", "", ["head -4 train.csv", "skout --version"]),
    (
        "Fit",
        "Name the column to predict; the other columns are the inputs. `skout look` shows what "
        "each column is taken for, and `--output` overrules it for the target. Kernels "
        "and their widths, penalties, forests, boosting and averages of them are compared on rows "
        "that are held out ({py:class}`skout.Tuned`), and the best is fitted on all rows. That "
        "takes a minute, or the `--budget`: seconds, or a number of fits. The score on held-out "
        "rows, its standard error and what simple models reach stay in the file. Ctrl-C ends the "
        "search, and the best so far is saved; the same `--seed` makes the same choice. Cells that "
        "are no numbers or dates in columns of them are missing and counted ([how](tables.md)); "
        "`--strict` refuses them.",
        [
            "skout look train.csv",
            'skout fit train.csv --target tags --budget "10 fits" -o tours.skout',
            "skout inspect tours.skout",
        ],
    ),
    (
        "Evaluate",
        "Metrics are those of the kind of output; of classes and labels with precision, recall and "
        "F1 of each, and a confusion table of classes. `--scoring roc_auc` prints one score alone, "
        "and `--json` is for programs, as elsewhere.",
        [
            "skout evaluate tours.skout test.csv",
            "skout evaluate tours.skout test.csv --json",
        ],
    ),
    (
        "Report",
        "One page to show others ([what is in it](report.md)): scores with standard errors beside "
        "a baseline, errors by group, the worst and best rows, which inputs matter, cost. "
        "`--train` adds a learning curve. The numbers are those of `evaluate`.",
        ["skout report tours.skout test.csv --train train.csv -o report.html"],
    ),
    (
        "Card",
        "A README.md as model hubs show it: what the model is, what it was trained on, its score "
        "with standard error, how to load it. `--evaluation` adds what `report --json` printed.",
        [
            'skout card tours.skout --data "tours, made up" --license mit -o README.md',
            "grep '| example_f1' README.md",
        ],
    ),
    (
        "Predict",
        "Predictions go to the terminal, or with `-o` to a CSV, JSON lines or parquet file. "
        "`--proba` adds the probability of each class or label. Categories that the training rows "
        "did not have are named.",
        [
            "skout predict tours.skout new.csv --keep minutes",
            "skout predict tours.skout new.csv --proba",
            "skout predict tours.skout new.csv --format jsonl",
        ],
    ),
    (
        "Export",
        "What `skout fit` made as an ONNX graph, which runs without Python "
        "([what can be written](elsewhere.md)).",
        ["skout export tours.skout -o tours.onnx"],
    ),
    (
        "Rank",
        "The best label sets for each row, of those seen in training or of a table of candidates.",
        [
            "skout rank tours.skout new.csv -k 2",
            "skout rank tours.skout new.csv -k 2 --candidates pool.csv",
        ],
    ),
    (
        "Embed",
        "A pool that is used again and again is embedded once.",
        [
            "skout embed tours.skout pool.csv -o pool.skpool",
            "skout rank tours.skout new.csv -k 2 --candidates pool.skpool",
        ],
    ),
    (
        "Molecules",
        "A folder of molecules on disk ([how](pools.md)): standardized, each once, with "
        "fingerprints that are computed once, and found by mass, formula or InChIKey.",
        [
            "head -3 molecules.smi",
            "skout pool build molecules.smi -o molecules.skpool",
            "skout pool find molecules.skpool --mass 116.0110 --ppm 10",
            "skout pool find molecules.skpool --formula C8H10N4O2",
            "skout pool append molecules.skpool more.csv --json",
        ],
    ),
    (
        "Spectra",
        "From a library of spectra to a model, and from spectra of unknown molecules to names "
        "([how](identify.md)). The scores are of molecules that the model had not seen.",
        [
            "skout pool build sample.smi -o sample.skpool",
            "skout fit-spectra library.mgf --pool sample.skpool -o spectra.skout",
            "skout identify unknown.mgf --model spectra.skout --pool sample.skpool --top 3 "
            "-o hits.csv",
            "cut -d, -f1,3,4,9,10 hits.csv",
            "skout models show",
        ],
    ),
    (
        "Serve",
        "A page for people and a REST API for programs, on this computer ([how](serve.md)). It "
        "runs until Ctrl-C; the other lines are typed elsewhere.",
        [
            "skout serve tours.skout --port 8321",
            "curl -s http://127.0.0.1:8321/api/predict --json "
            '\'{"rows": [{"minutes": 95, "distance": 31.5, "climb": 240}]}\'',
            "curl -s http://127.0.0.1:8321/health",
        ],
    ),
    (
        "Choose",
        "Options name kernels, sketches and penalties of a kernel ridge; where an option is set, "
        "nothing else is tuned. Of several penalties the best in cross-validation is taken. "
        "`--config` reads the same names from a TOML file.",
        [
            "skout fit train.csv --target tags --output label_sets --input-kernel gaussian:0.5 "
            "--alpha 1e-4 --alpha 1e-2 -o chosen.skout",
        ],
    ),
    (
        "Numbers",
        "Columns of numbers are targets too, one or several. `--no-tune` fits a kernel ridge with "
        "default settings, in one pass over a table of any size.",
        [
            "skout fit train.csv --target minutes --drop tags --no-tune -o minutes.skout",
            "skout evaluate minutes.skout test.csv",
        ],
    ),
    (
        "Mistakes",
        "An error is one line that says what to do.",
        ["skout fit train.csv --target tag --output label_sets -o tours.skout"],
    ),
    (
        "Data sets",
        "What {py:mod}`skout.datasets` loads, and whether its files are on this computer. `fetch` "
        "downloads the public files of a data set; `films` writes the table of films that comes "
        "with skout.",
        [
            "skout datasets --kind spectra",
            "skout datasets fetch yeast --dry-run",
            "skout datasets films",
        ],
    ),
    (
        "Demo",
        "Digits completed by five methods: a table here, a page and a picture as files.",
        ["skout demo --quick --out demo.html"],
    ),
]


def write_tables(folder: Path) -> None:
    """Write tours to train on, to test, to predict, and label sets to choose from."""
    rng = np.random.default_rng(0)
    speed = {"run": 10, "ride": 22, "walk": 4}
    rows = []
    for sport, way in zip(rng.choice(list(speed), 260), rng.random(260) < 0.5, strict=True):
        minutes = int(rng.uniform(20, 120))
        distance = speed[sport] * minutes / 60 * rng.normal(1.0, 0.15)
        climb = distance * rng.uniform(25, 45) if way else distance * rng.uniform(1, 20)
        tags = f"{sport};{'trail' if way else 'road'}" + (";long" if minutes > 90 else "")
        rows.append([minutes, round(distance, 1), round(climb), tags])
    names = ["minutes", "distance", "climb", "tags"]
    _write(folder / "train.csv", names, rows[:200])
    _write(folder / "test.csv", names, rows[200:257])
    _write(folder / "new.csv", names[:3], [row[:3] for row in rows[257:]])
    pool = [[f"{sport};{way}"] for sport in speed for way in ("road", "trail")]
    _write(folder / "pool.csv", ["tags"], pool)
    (folder / "molecules.smi").write_text(MOLECULES, encoding="utf-8")
    _write(folder / "more.csv", ["smiles", "name"], [["CCO", "ethanol"], ["CCN", "ethylamine"]])


def write_spectra(folder: Path) -> None:
    """Write a library of 300 spectra of MassBank, two more without names, and candidates."""
    from skout.datasets import load
    from skout.readers import spectra_table, write_mgf

    data = load("massbank-sample")
    rows = np.flatnonzero(data.candidates.sizes > 2)
    rows = np.random.default_rng(0).permutation(rows)[:302]
    known, adduct = data.Y[rows], "[M+H]+"
    table = spectra_table(data.X[rows], smiles=known, adduct=adduct, identifier=rows)
    write_mgf(folder / "library.mgf", table.take(slice(0, 300)))
    write_mgf(folder / "unknown.mgf", spectra_table(table.take(slice(300, None)), smiles=""))
    candidates = sorted({str(text) for i in rows for text in data.candidates[i]})
    (folder / "sample.smi").write_text("\n".join([*known, *candidates]), encoding="utf-8")


def _write(path: Path, names: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([names, *rows])


def commands() -> set[str]:
    """Return the names of the commands that this version has."""
    from skout.apps.cli import build_app

    app = build_app()
    single = {entry.name or entry.callback.__name__ for entry in app.registered_commands}  # type: ignore[union-attr]
    return single | {str(group.name) for group in app.registered_groups}


def is_known(command: str, known: set[str]) -> bool:
    """Whether a line can be run: a command of the shell, an option or a command of skout."""
    words = shlex.split(command)
    return words[0] != "skout" or words[1].startswith("--") or words[1] in known


def start(command: str, folder: Path) -> subprocess.Popen[str]:
    """Start a command, in a folder."""
    words = shlex.split(command)
    if words[0] == "skout":
        words = [sys.executable, "-m", "skout", *words[1:]]
    environment = os.environ | {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TQDM_DISABLE": "1"}
    environment.pop("SKOUT_DATA", None)
    out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(words, cwd=folder, env=environment, text=True, **out)  # type: ignore[call-overload, no-any-return]


def run(command: str, folder: Path, servers: list[subprocess.Popen[str]]) -> str:
    """Return what a command prints, errors too; a server goes on, and is put into the list."""
    process = start(command, folder)
    if command.startswith("skout serve"):
        servers.append(process)
        assert process.stdout is not None
        return process.stdout.readline().rstrip()
    lines = [line.rstrip() for line in process.communicate()[0].strip("\n").splitlines()]
    return "\n".join(lines if len(lines) <= MAX_LINES else [*lines[:MAX_LINES], "..."])


def section(step: Step, folder: Path) -> str:
    """Return a part of the page."""
    title, words, lines = step
    servers: list[subprocess.Popen[str]] = []
    shown = "\n".join(f"$ {line}\n{run(line, folder, servers)}" for line in lines)
    for server in servers:
        server.terminate()
        server.communicate()
    head = f"## {title}\n\n{words}\n\n" if title else ""
    return f"{head}```console\n{shown}\n```\n"


def text() -> str:
    """Return the page."""
    known = commands()
    steps = [step for step in STEPS if all(is_known(line, known) for line in step[2])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        write_spectra(folder)
        return "\n".join([HEAD, *(section(step, folder) for step in steps)])


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
