"""The arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

FORMATS = "CSV, TSV, JSON (also .gz, .bz2, .xz), parquet, feather, xlsx or npz"
DATA = f"A table: {FORMATS}"
_CANDIDATES = (
    "The outputs to choose from: a table, or a file of `skout embed`; default the training outputs."
)
_SKIP = "Leave out candidates that are no SMILES or have unknown labels, and list them."
_ROWS = "The file to write: .csv, .jsonl or .parquet; - is the terminal."
_FORMAT = "csv, jsonl or parquet; default by the ending of --out."
_KEEP = 'Columns of the table to copy before the others, such as "id" or "id,name".'

Text = str | None
AsJson = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Model = Annotated[Path, Argument(help="A file that `skout fit` wrote.")]
NewModel = Annotated[Path, Option("--out", "-o", help="The file of the model to write.")]
Data = Annotated[Path, Argument(help=f"{DATA}.")]
Candidates = Annotated[Path | None, Option(help=_CANDIDATES)]
SkipInvalid = Annotated[bool, Option("--skip-invalid", help=_SKIP)]
Rows = Annotated[str, Option("--out", "-o", help=_ROWS)]
Format = Annotated[Text, Option("--format", help=_FORMAT)]
Keep = Annotated[Text, Option(help=_KEEP)]
