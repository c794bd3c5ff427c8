"""The command `skout report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    import typer

__all__ = ["add_report"]

_DATA = "A table that the model has not seen, with the target."
_CANDIDATES = "What to choose from: a table, or what `skout embed` wrote; default training outputs."
_SKIP = "Leave out candidates that are no SMILES or have unknown labels, and say which."
_BY = 'Columns of DATA whose groups errors are shown by: "country", "a,b".'
_TRAIN = "The training table: adds a learning curve, which fits the model anew on parts of it."


def add_report(app: "typer.Typer") -> None:
    """Add `skout report`."""
    from typer import Argument, Option

    @app.command()
    def report(
        model: Annotated[Path, Argument(help="What `skout fit` wrote.")],
        data: Annotated[Path, Argument(help=_DATA)],
        out: Annotated[Path, Option("--out", "-o", help="The page.")] = Path("report.html"),
        by: Annotated[str | None, Option(help=_BY)] = None,
        train: Annotated[Path | None, Option(help=_TRAIN)] = None,
        candidates: Annotated[Path | None, Option(help=_CANDIDATES)] = None,
        skip_invalid: Annotated[bool, Option("--skip-invalid", help=_SKIP)] = False,
        as_json: Annotated[bool, Option("--json", help="Print the numbers as JSON.")] = False,
        debug: Annotated[bool, Option("--debug", help="Show tracebacks.")] = False,
    ) -> None:
        """Write a page on a model: what it is, how good it is, where it errs, what it costs.

        Example: skout report model.skout test.csv --by country -o report.html
        """
        from ..._numerics.files import replacing
        from ..results import check_place, show
        from .measure import measured
        from .page import page_of
        from .subject import subject_of_files

        if out.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"--out must end in .html. Got {str(out)!r} instead.")
        check_place(out, "--out", [model, data, train, candidates])
        subject = subject_of_files(model, data, candidates, skip_invalid, by, train)
        found = measured(subject)
        with replacing(out) as part:
            part.write_text(page_of(found), encoding="utf-8")
        said = {"report": str(out), **found.numbers()}
        short = {"report": str(out), "rows": said["rows"], **said["metrics"]}
        show(said if as_json else short, as_json)
