"""`skout report` and `model_report`: one page on what a model is, and how good it is.

`subject` gathers the model, its test rows and predictions, from files or from Python, `measure`
and `calibration` compute the numbers of the report, and `page` and `figures` write HTML.
"""

from pathlib import Path
from typing import Any

__all__ = ["model_report"]


def model_report(
    model: Any,
    X: Any,
    Y: Any,
    *,
    kind: str | None = None,
    candidates: Any = None,
    by: dict[str, Any] | None = None,
    train: tuple[Any, Any] | None = None,
    labels: list[str] | None = None,
    title: str | None = None,
    path: str | Path | None = None,
) -> str:
    """Return a page on a fitted model: what it is, how good it is, where it errs, what it costs.

    The page is one HTML file that needs nothing else, and reads well on a telephone.

    Parameters
    ----------
    model : fitted predictor
        Of label sets, rankings, classes, numbers, strings or SMILES. Of `skout.ConformalSets` the
        page has the coverage of its sets, too.
    X : what the model takes, n rows that it has not been fitted on
    Y : outputs, n of them
    kind : str, optional
        A name in `skout.kinds.KINDS`; default what a `skout.Tuned` knows, or what `Y` looks like.
    candidates : outputs, optional
        What to choose from, as in `predict`.
    by : dict of str to sequences of n values, optional
        Groups that errors are shown by.
    train : (X, Y), optional
        The training rows: for a baseline, and a learning curve, which fits the model anew on parts
        of them.
    labels : list of str, optional
        Names of the labels, items or columns of `Y`; default those of a data frame.
    title : str, optional
    path : path, optional
        Where to write the page, too.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelRidge
    >>> from skout.apps.cli.report import model_report
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> model = KernelRidge("gaussian").fit(X[:40], X[:40, 0])
    >>> page = model_report(model, X[40:], X[40:, 0], by={"sign": np.sign(X[40:, 1])})
    >>> "By sign" in page, "Prediction" in page
    (True, True)
    """
    from skout.dev import check_place, replacing

    from .measure import report_of
    from .page import page_of
    from .subject import subject_of_rows

    if path is not None:
        check_place(path, "path")
    subject = subject_of_rows(
        model, X, Y, kind=kind, candidates=candidates, by=by or {}, train=train, labels=labels
    )
    if title is not None:
        subject.title = title
    page = page_of(report_of(subject))
    if path is not None:
        with replacing(path) as part:
            part.write_text(page, encoding="utf-8")
    return page
