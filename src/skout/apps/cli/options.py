"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

FORMATS = "CSV, TSV, JSON (also .gz, .bz2, .xz), parquet, feather, xlsx or npz"
_CANDIDATES = "What to choose from: a table, or what `skout embed` wrote; default training outputs."
_SKIP = "Leave out candidates that are no SMILES or have unknown labels, and say which."

Text = str | None
Debug = Annotated[bool, Option("--debug", help="Show tracebacks.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Model = Annotated[Path, Argument(help="What `skout fit` wrote.")]
NewModel = Annotated[Path, Option("--out", "-o", help="The model's file.")]
Data = Annotated[Path, Argument(help=f"{FORMATS}.")]
Candidates = Annotated[Path | None, Option(help=_CANDIDATES)]
SkipInvalid = Annotated[bool, Option("--skip-invalid", help=_SKIP)]
Rows = Annotated[str, Option("--out", "-o", help=".csv, .jsonl, .parquet, or -.")]
Format = Annotated[Text, Option("--format", help="csv, jsonl or parquet.")]
Keep = Annotated[Text, Option(help="Columns of DATA to copy.")]
