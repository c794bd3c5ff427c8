"""The numbers of a report: scores with errors, groups, examples, and what they come from."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from skout.dev import n_rows, take

from ...tables.numerals import read_numbers
from .calibration import ReportedCalibration, calibration_of
from .sources import Importance, Point, importances, learning_curve
from .subject import Subject

# Rows that scores of single rows are computed of; groups of a column, and examples, that are shown.
_MOST_ROWS, _MOST_GROUPS, _EXAMPLES = 5000, 12, 6
_PARTS = 5  # of a column of many numbers


@dataclass(frozen=True)
class Example:
    """A test row: its number from 1, true and predicted words, and its score."""

    row: int
    truth: list[str]
    found: list[str]
    score: float


@dataclass(frozen=True)
class Group:
    """Rows of one value of a column: how many, their score and its standard error."""

    column: str
    value: str
    rows: int
    score: float | None
    error: float | None


@dataclass
class Report:
    """All that the page shows."""

    subject: Subject
    errors: dict[str, float | None]
    main: str  # the metric of single rows
    baseline: tuple[str, dict[str, Any]] | None
    groups: list[Group]
    wrong: list[Example]
    right: list[Example]
    calibration: ReportedCalibration | None
    curve: list[Point]
    importance: Importance

    def numbers(self) -> dict[str, Any]:
        """Return the numbers as JSON has them: those of `skout evaluate`, and more."""
        return {
            **self.subject.evaluation,
            "standard_errors": self.errors,
            "baseline": None
            if self.baseline is None
            else {"name": self.baseline[0], "metrics": self.baseline[1]},
            "groups": [vars(one) for one in self.groups],
            "calibration": None if self.calibration is None else asdict(self.calibration),
            "learning_curve": [vars(one) for one in self.curve],
            "importance": asdict(self.importance),
        }


def measured(subject: Subject) -> Report:
    """Return the numbers of a report."""
    saved, n = subject.saved, subject.evaluation["rows"]
    some = np.unique(np.linspace(0, n - 1, min(n, _MOST_ROWS)).round().astype(int))
    truth, found = take(subject.truth, some), take(subject.found, some)
    score = saved.scores(truth, found)
    wrong, right = _examples(subject, some, score.each[score.main], score.sign)
    return Report(
        subject,
        errors=score.errors(n),
        main=score.main,
        baseline=_baseline(subject),
        groups=[one for name in subject.groups for one in _groups(subject, name)],
        wrong=wrong,
        right=right,
        calibration=calibration_of(subject),
        curve=learning_curve(subject),
        importance=importances(
            subject.saved, subject.X, subject.truth, subject.found, subject.candidates
        ),
    )


def _baseline(subject: Subject) -> tuple[str, dict[str, Any]] | None:
    """Return the metrics of the constant prediction on the same rows."""
    if subject.baseline is None:
        return None
    name, output = subject.baseline
    same = take(output, np.zeros(n_rows(subject.truth), dtype=int))
    return name, subject.saved.scores(subject.truth, same).metrics


def _examples(
    subject: Subject, some: np.ndarray, each: np.ndarray, sign: float
) -> tuple[list[Example], list[Example]]:
    """Return the first of the worst rows, and the first of the best ones."""
    scores = sign * each  # the greater the better
    order = np.argsort(scores, kind="stable")
    worst = [i for i in order[:_EXAMPLES] if scores[i] < scores.max()]
    best = [i for i in np.argsort(-scores, kind="stable") if i not in worst][:_EXAMPLES]

    def example(i: int) -> Example:
        row = int(some[i])
        found = subject.saved.outputs.kind.words(take(subject.found, [row]))[0]
        return Example(row + 1, subject.shown[row], found, float(each[i]))

    return [example(i) for i in worst], [example(i) for i in best]


def _groups(subject: Subject, column: str) -> list[Group]:
    """Return the score of each group of a column."""
    found = []
    for value, rows in _grouped([value.strip() for value in subject.groups[column]]):
        score, few = (
            subject.saved.scores(take(subject.truth, some), take(subject.found, some))
            for some in (rows, rows[:_MOST_ROWS])
        )
        error = few.errors(len(rows))[score.main]
        found.append(Group(column, value, len(rows), score.metrics[score.main], error))
    return found


def _grouped(values: list[str]) -> list[tuple[str, np.ndarray]]:
    """Return few groups of rows: values, parts of many numbers, or the most frequent values."""
    counts = Counter(values)
    cells = np.array(values, dtype=object)
    if len(counts) > _MOST_GROUPS:
        read = read_numbers(values)
        if not read.unread:
            return _parts(read.values)
    kept = [value for value, _ in counts.most_common(_MOST_GROUPS)]
    found = [(value or "(empty)", np.flatnonzero(cells == value)) for value in kept]
    rest = np.flatnonzero(~np.isin(cells.astype(str), kept))
    return [*found, (f"({len(counts) - len(kept)} others)", rest)] if len(rest) else found


def _parts(numbers: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Return rows by the quantiles of their numbers, and those that have none."""
    known, missing = np.flatnonzero(~np.isnan(numbers)), np.flatnonzero(np.isnan(numbers))
    ends = np.unique(np.quantile(numbers[known], np.linspace(0.0, 1.0, _PARTS + 1)))
    part = np.clip(np.searchsorted(ends, numbers[known], side="right") - 1, 0, len(ends) - 2)
    found = [
        (f"{ends[j]:.4g} to {ends[j + 1]:.4g}", known[part == j]) for j in range(len(ends) - 1)
    ]
    return [(name, rows) for name, rows in [*found, ("(empty)", missing)] if len(rows)]
