"""The command `skout report`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..options import Candidates, Debug, Model, SkipInvalid, Text

_DATA = "A table that the model has not seen, with the target."
_BY = 'Columns of DATA whose groups errors are shown by: "country", "a,b".'
_TRAIN = "The training table: adds a learning curve, which fits the model anew on parts of it."


def report(
    model: Model,
    data: Annotated[Path, Argument(help=_DATA)],
    out: Annotated[Path, Option("--out", "-o", help="The page.")] = Path("report.html"),
    by: Annotated[Text, Option(help=_BY)] = None,
    train: Annotated[Path | None, Option(help=_TRAIN)] = None,
    candidates: Candidates = None,
    skip_invalid: SkipInvalid = False,
    as_json: Annotated[bool, Option("--json", help="Print the numbers as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Write a page on a model: what it is, how good it is, where it errs, what it costs.

    Example: skout report model.skout test.csv --by country -o report.html
    """
    from skout.dev import replacing

    from ..results import check_page, show
    from ..using import metrics_by_target
    from .measure import measured
    from .page import page_of
    from .subject import subjects_of_files

    check_page(out, [model, data, train, candidates])
    subjects = subjects_of_files(model, data, candidates, skip_invalid, by, train)
    reports = [measured(subject) for subject in subjects]
    with replacing(out) as part:
        part.write_text(page_of(*reports), encoding="utf-8")
    numbers = {
        target_report.subject.saved.outputs.name: target_report.numbers()
        for target_report in reports
    }
    first = reports[0].numbers()
    several = {"targets": numbers} if len(numbers) > 1 else first
    said = {"report": str(out), **several}
    metrics = metrics_by_target(numbers) if len(numbers) > 1 else first["metrics"]
    short = {"report": str(out), "rows": first["rows"], **metrics}
    show(said if as_json else short, as_json)
