"""The numbers of a report: scores with errors, groups, examples, and a learning curve."""

import warnings
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from skout.dev import n_rows, no_frames, take
from skout.kinds import KINDS

from ...tables.frames import is_frame, names_in
from ...tables.numerals import read_numbers
from ..importance import Importance, importances
from ..using import Scores
from .calibration import ReportedCalibration, calibration_of
from .subject import Subject

# The most rows for scores of single rows, groups of a column, and examples.
_MOST_ROWS, _MOST_GROUPS, _EXAMPLES = 5000, 12, 6
_PARTS = 5  # groups of a column of many numbers
_CELLS = 4  # inputs of an example that are shown, those that matter most
# Shares of the training rows that the learning curve is of, and the most and the fewest rows.
_SHARES, _TRAIN_ROWS, _LEAST_ROWS = (0.125, 0.25, 0.5, 1.0), 10_000, 5


@dataclass(frozen=True)
class Example:
    """A test row with its true and predicted words, and its score.

    The score of a class is its predicted probability; `cells` are the inputs that matter most.
    """

    row: int  # from 1
    truth: list[str]
    predicted: list[str]
    score: float
    cells: list[tuple[str, str]]


@dataclass(frozen=True)
class Group:
    """The number of rows with one value of a column, their score and its standard error."""

    column: str
    value: str
    rows: int
    score: float | None
    error: float | None


@dataclass(frozen=True)
class Point:
    """The score on the test rows of a model that was fitted on so many training rows."""

    rows: int
    score: float


@dataclass
class Report:
    """All that the page of a report shows."""

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
        """Return the numbers as JSON has them: those of `skout evaluate`, and those of the page."""
        return {
            **self.subject.evaluation,
            "standard_errors": self.errors,
            "baseline": None
            if self.baseline is None
            else {"name": self.baseline[0], "metrics": self.baseline[1]},
            "groups": [vars(group) for group in self.groups],
            "calibration": None if self.calibration is None else asdict(self.calibration),
            "learning_curve": [vars(point) for point in self.curve],
            "importance": asdict(self.importance),
        }


def report_of(subject: Subject) -> Report:
    """Compute the report on a model and its test rows."""
    saved, n = subject.saved, subject.evaluation["rows"]
    sampled = np.unique(np.linspace(0, n - 1, min(n, _MOST_ROWS)).round().astype(int))
    score = saved.scores(take(subject.truth, sampled), take(subject.predicted, sampled))
    importance = importances(saved, subject.X, subject.truth, subject.predicted, subject.candidates)
    shown = [loss.column for loss in importance.losses if loss.loss > 0.0][:_CELLS]
    if subject.has_classes:
        wrong, right = _closest(subject, shown)
    else:
        wrong, right = _extremes(subject, sampled, score, shown)
    return Report(
        subject,
        errors=score.errors(n),
        main=score.main,
        baseline=_baseline(subject),
        groups=[group for name in subject.groups for group in _groups(subject, name)],
        wrong=wrong,
        right=right,
        calibration=calibration_of(subject),
        curve=_learning_curve(subject),
        importance=importance,
    )


def _baseline(subject: Subject) -> tuple[str, dict[str, Any]] | None:
    """Return the metrics of the constant prediction on the same rows."""
    if subject.baseline is None:
        return None
    name, output = subject.baseline
    same = take(output, np.zeros(n_rows(subject.truth), dtype=int))
    return name, subject.saved.scores(subject.truth, same).metrics


def _extremes(
    subject: Subject, rows: np.ndarray, score: Scores, shown: list[str]
) -> tuple[list[Example], list[Example]]:
    """Return examples of the worst rows, and of the best ones."""
    each = score.each[score.main]
    scores = score.sign * each  # the greater the better
    order = np.argsort(scores, kind="stable")
    worst = [i for i in order[:_EXAMPLES] if scores[i] < scores.max()]
    best = [i for i in np.argsort(-scores, kind="stable") if i not in worst][:_EXAMPLES]
    wrong, right = (
        [_example(subject, int(rows[i]), float(each[i]), shown) for i in positions]
        for positions in (worst, best)
    )
    return wrong, right


def _closest(subject: Subject, shown: list[str]) -> tuple[list[Example], list[Example]]:
    """Return the mistakes that a model was most certain of, and the least certain right rows."""
    chance = np.max(subject.proba, axis=1)  # type: ignore[arg-type]
    is_right = np.asarray(subject.predicted) == subject.truth
    order = np.argsort(chance, kind="stable")
    wrong, right = (
        [_example(subject, int(i), float(chance[i]), shown) for i in rows[:_EXAMPLES]]
        for rows in (order[::-1][~is_right[order[::-1]]], order[is_right[order]])
    )
    return wrong, right


def _example(subject: Subject, row: int, score: float, shown: list[str]) -> Example:
    predicted = subject.saved.outputs.kind.words(take(subject.predicted, [row]))[0]
    cells = [(name, _cell(subject, row, name)) for name in shown]
    return Example(row + 1, subject.shown[row], predicted, score, cells)


def _cell(subject: Subject, row: int, name: str) -> str:
    """Return the text of one input cell."""
    X, columns = subject.X, subject.saved.inputs.columns
    if is_frame(X):
        value = take(X[names_in(X)[columns.index(name)]], [row])
        value = getattr(value, "to_numpy", lambda: value)()[0]
    elif len(getattr(X, "shape", ())) == 2:
        value = X[row, columns.index(name)]
    else:
        value = take(X, [row])[0]
    if value is None or value != value:
        return "missing"
    return _written(float(value)) if isinstance(value, int | float | np.number) else str(value)


def _written(value: float) -> str:
    """Return a number of the table in the form of predicted numbers."""
    words: list[list[str]] = KINDS["numbers"].words(np.array([[value]]))
    return words[0][0]


def _groups(subject: Subject, column: str) -> list[Group]:
    """Return the score of each group of a column."""
    groups = []
    for value, rows in _grouped([value.strip() for value in subject.groups[column]]):
        score, few = (
            subject.saved.scores(take(subject.truth, sample), take(subject.predicted, sample))
            for sample in (rows, rows[:_MOST_ROWS])
        )
        error = few.errors(len(rows))[score.main]
        groups.append(Group(column, value, len(rows), score.metrics[score.main], error))
    return groups


def _grouped(values: list[str]) -> list[tuple[str, np.ndarray]]:
    """Return groups of rows: by value, by ranges of numbers, or by the most frequent values."""
    counts = Counter(values)
    cells = np.array(values, dtype=object)
    if len(counts) > _MOST_GROUPS:
        read = read_numbers(values)
        if not read.unread:
            return _parts(read.values)
    kept = [value for value, _ in counts.most_common(_MOST_GROUPS)]
    groups = [(value or "(empty)", np.flatnonzero(cells == value)) for value in kept]
    rest = np.flatnonzero(~np.isin(cells.astype(str), kept))
    return [*groups, (f"({len(counts) - len(kept)} others)", rest)] if len(rest) else groups


def _parts(numbers: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Return rows by the quantiles of their numbers, and those without a number."""
    filled, missing = np.flatnonzero(~np.isnan(numbers)), np.flatnonzero(np.isnan(numbers))
    ends = np.unique(np.quantile(numbers[filled], np.linspace(0.0, 1.0, _PARTS + 1)))
    part = np.clip(np.searchsorted(ends, numbers[filled], side="right") - 1, 0, len(ends) - 2)
    parts = [
        (f"{_written(ends[j])} to {_written(ends[j + 1])}", filled[part == j])
        for j in range(len(ends) - 1)
    ]
    return [(name, rows) for name, rows in [*parts, ("(empty)", missing)] if len(rows)]


def _learning_curve(subject: Subject) -> list[Point]:
    """Return the score of models that are fitted on parts of the training rows."""
    if subject.train is None:
        return []
    X, Y = subject.train
    saved, n = subject.saved, n_rows(Y)
    base: Any = getattr(saved.model, "best_estimator_", saved.model)
    encoder = getattr(saved.model, "encoder_", None)
    rows, inputs = (data if encoder is None else encoder.transform(data) for data in (X, subject.X))
    order = np.random.default_rng(0).permutation(n)
    pool = getattr(subject.candidates, "objects", subject.candidates)
    more = {} if pool is None else {"candidates": pool}
    points, most = [], min(n, _TRAIN_ROWS)
    for size in sorted({max(_LEAST_ROWS, round(share * most)) for share in _SHARES}):
        train_rows = np.sort(order[:size])
        with warnings.catch_warnings(), no_frames():
            warnings.simplefilter("ignore")  # such as sketches larger than few rows
            model = clone(base).fit(take(rows, train_rows), _shaped(base, take(Y, train_rows)))
            predicted = model.predict(inputs, **more)
        score = saved.scores(subject.truth, predicted)
        points.append(Point(min(size, n), score.sign * score.merit))
    return points


def _shaped(model: Any, Y: Any) -> Any:
    """Return targets in the shape that the model was fitted with."""
    return np.reshape(Y, (len(Y), -1))[:, 0] if getattr(model, "_is_vector", False) else Y
