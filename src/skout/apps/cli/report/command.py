"""The command `skout report`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..options import Candidates, Model, SkipInvalid, Text

_DATA = "A table with the target, of rows that the model has not seen."
_BY = 'Columns of the table to score by group, such as "country" or "a,b".'
_TRAIN = "The training table, for a learning curve: the model is fitted again on parts of it."


def report(
    model: Model,
    data: Annotated[Path, Argument(help=_DATA)],
    out: Annotated[Path, Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    by: Annotated[Text, Option(help=_BY)] = None,
    train: Annotated[Path | None, Option(help=_TRAIN)] = None,
    candidates: Candidates = None,
    skip_invalid: SkipInvalid = False,
    as_json: Annotated[
        bool, Option("--json", help="Print all numbers of the page as JSON.")
    ] = False,
) -> None:
    """Write a page on a model: what it is, how good it is, where it errs, what it costs.

    Example: skout report model.skout test.csv --by country -o report.html
    """
    from skout.dev import replacing

    from ..results import check_page, show
    from ..using import metrics_by_target
    from .measure import report_of
    from .page import page_of
    from .subject import subjects_of_files

    check_page(out, [model, data, train, candidates])
    subjects = subjects_of_files(model, data, candidates, skip_invalid, by, train)
    reports = [report_of(subject) for subject in subjects]
    with replacing(out) as part:
        part.write_text(page_of(*reports), encoding="utf-8")
    numbers = {report.subject.saved.outputs.name: report.numbers() for report in reports}
    first = reports[0].numbers()
    if as_json:
        show({"report": str(out), **({"targets": numbers} if len(numbers) > 1 else first)}, as_json)
    else:
        metrics = metrics_by_target(numbers) if len(numbers) > 1 else first["metrics"]
        show({"report": str(out), "rows": first["rows"], **metrics}, as_json)
