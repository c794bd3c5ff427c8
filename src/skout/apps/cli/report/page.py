"""The page of a report: one HTML file that needs nothing else."""

import html
import json
from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Any

from skout.kinds import Kind

from ..pages import bar, page_in_one_file, table
from ..results import digits
from .calibration import ReportedCalibration
from .figures import calibration_svg, curve_svg
from .measure import Example, Group, Report

# The most characters of a fact and of an output that are shown, and words of an output.
_LONGEST, _LONGEST_TEXT, _MOST_WORDS = 600, 300, 60
Words = Sequence[str]
_NAMES = {
    "example_f1": "example F1",
    "hamming_loss": "Hamming loss",
    "exact_matches": "exact matches",
    "kendall_tau": "Kendall's tau",
    "kernel_similarity": "similarity",
    "rmse": "RMSE",
    "r2": "R²",
    "balanced_accuracy": "balanced accuracy",
    "f1_macro": "macro F1",
    "f1_micro": "micro F1",
    "log_loss": "log loss",
    "roc_auc": "AUC",
    "brier": "Brier score",
}
# The most classes or labels that are listed, and that a confusion table has.
_MOST_CLASSES, _MOST_CONFUSED = 30, 12


def page_of(*reports: Report) -> str:
    """Return the page of a report, or of the reports on several targets, one after the other."""
    subject = reports[0].subject
    n = max(report.subject.evaluation["rows"] for report in reports)
    header = (
        f'<p class="dim">skout report</p>\n<h1>{escape(subject.title)}</h1>\n<p class="dim">'
        f"{n:,} test rows, which the model should not have seen.</p>"
    )
    parts = [_body(report) for report in reports]
    if len(reports) > 1:
        names = [escape(report.subject.saved.outputs.name) for report in reports]
        titles = [f'<h2 class="target" id="target-{j}">{name}</h2>' for j, name in enumerate(names)]
        parts = [f"{title}\n{part}" for title, part in zip(titles, parts, strict=True)]
        parts.insert(0, _section("All targets", _overview(reports, names)))
    return page_in_one_file(__package__, subject.title, header, "\n".join(parts))


def _overview(reports: Sequence[Report], names: Sequence[str]) -> str:
    """Return a table with the main score of each target, and a link to its sections."""
    rows = []
    for j, (report, name) in enumerate(zip(reports, names, strict=True)):
        value = report.subject.evaluation["metrics"][report.main]
        error, baseline = _error(report.errors.get(report.main)), report.baseline
        others = (
            "" if baseline is None else f"{escape(baseline[0])} {number(baseline[1][report.main])}"
        )
        link = f'<a href="#target-{j}">{name}</a>'
        rows.append([link, _name(report.main), f"{number(value)} <small>{error}</small>", others])
    return table(["target", "score", "this model", "constant prediction"], rows)


def _body(report: Report) -> str:
    """Return the sections on one target."""
    subject = report.subject
    n = subject.evaluation["rows"]
    costs = [("Prediction", f"{digits(1e3 * subject.seconds / n)} ms a row"), *subject.costs]
    sections = [
        _section("How good it is", _scores(report)),
        _section("Wrong and right", _examples(report)),
        _section("Where it errs", _groups(report)),
        _section(f"Each {'class' if subject.has_classes else 'label'}", _classes(report)),
        _section("Calibration", _calibration(report.calibration)),
        _section("Learning curve", _curve(report)),
        _section("What matters", _importance(report)),
        _section("What it is", _facts(subject.facts)),
        _section("What it costs", _facts(costs)),
    ]
    return "\n".join(section for section in sections if section)


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>\n{body}\n</section>" if body else ""


def number(value: float | None) -> str:
    """Return a number with three digits as HTML, which has all digits in an attribute."""
    return "–" if value is None else f'<data value="{value!r}">{digits(value)}</data>'


def _error(value: float | None) -> str:
    return "" if value is None else f'± <data value="{value!r}">{digits(value, 2)}</data>'


def _name(metric: str) -> str:
    return escape(_NAMES.get(metric, metric.replace("_", " ")))


def _scores(report: Report) -> str:
    """Return a table of scores with standard errors, beside those of the baseline."""
    evaluation, validation = report.subject.evaluation, report.subject.validation
    baseline = report.baseline
    head = ["", "this model", *([] if baseline is None else [escape(baseline[0])])]
    rows = [
        [
            f'<span data-metric="{escape(name)}">{_name(name)}</span>',
            f"{number(value)} <small>{_error(report.errors.get(name))}</small>",
            *([] if baseline is None else [number(baseline[1][name])]),
        ]
        for name, value in evaluation["metrics"].items()
    ]
    overall = evaluation.get("classes", {}).get("overall", {})
    rows += [
        [_name(name), number(value), *([] if baseline is None else [""])]
        for name, value in overall.items()
    ]
    note = "± is one standard error, over the test rows."
    if baseline is None:
        note += " There is no baseline: it needs the training rows."
    parts = [table(head, rows), f'<p class="dim">{note}</p>']
    if validation:
        fitted = escape(validation.replace("+-", "±"))
        parts.append(f"<p>When it was fitted: {fitted}.</p>")
    said = json.dumps(evaluation, indent=2, ensure_ascii=False)
    parts.append(f"<details><summary>As JSON</summary><pre>{escape(said)}</pre></details>")
    return "\n".join(parts)


def _facts(facts: list[tuple[str, str]]) -> str:
    lines = [f"<dt>{escape(name)}</dt><dd>{escape(_short(text))}</dd>" for name, text in facts]
    return "<dl>" + "".join(lines) + "</dl>" if lines else ""


def _short(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else text[:most] + " …"


def _groups(report: Report) -> str:
    return "\n".join(
        _by_column(column, list(groups), report.main)
        for column, groups in groupby(report.groups, key=lambda group: group.column)
    )


def _by_column(column: str, groups: list[Group], metric: str) -> str:
    most = max((abs(group.score) for group in groups if group.score is not None), default=0.0)
    rows = [
        [
            escape(_short(group.value)),
            f"{group.rows:,}",
            f"{number(group.score)} <small>{_error(group.error)}</small>",
            bar(_part(group.score, most)),
        ]
        for group in groups
    ]
    head = ["group", "rows", _name(metric), ""]
    return f"<h3>By {escape(column)}</h3>\n{table(head, rows)}"


def _part(value: float | None, most: float) -> float:
    """Return a value as a share of the largest one."""
    return 0.0 if value is None or most == 0.0 else min(1.0, abs(value) / most)


def _classes(report: Report) -> str:
    """Return a table of the scores of each class or label, and the confusion table."""
    scores = report.subject.evaluation.get("classes")
    if scores is None or len(scores["each"]) < 2:
        return ""
    each = sorted(scores["each"], key=lambda row: -row["support"])
    rows = [
        [
            escape(_short(row["name"], 60)),
            f"{row['support']:,}",
            *(
                number(row[name] if row["support"] else None)
                for name in ("precision", "recall", "f1")
            ),
            bar(row["f1"]),
        ]
        for row in each[:_MOST_CLASSES]
    ]
    parts = [table(["", "rows", "precision", "recall", "F1", ""], rows)]
    if len(each) > len(rows):
        more = f"The {len(rows)} most frequent of {len(each):,}; `skout evaluate --json` has all."
        parts.append(f'<p class="dim">{more}</p>')
    return "\n".join([*parts, _confusion(scores)])


def _confusion(scores: dict[str, Any]) -> str:
    """Return the confusion table; of many classes, a table of the most frequent mistakes."""
    names, counts = scores.get("names", []), scores.get("confusion", [])
    if not names:
        return ""
    title = "<h3>Which class is taken for which</h3>"
    if len(names) > _MOST_CONFUSED:
        mistakes = [
            (count, names[i], names[j])
            for i, row in enumerate(counts)
            for j, count in enumerate(row)
            if count and i != j
        ]
        mistakes.sort(key=lambda mistake: -mistake[0])
        rows = [[escape(a), escape(b), f"{n:,}"] for n, a, b in mistakes[:_MOST_CONFUSED]]
        return f"{title}\n{table(['true', 'predicted', 'rows'], rows)}" if rows else ""
    head = "".join(f"<th scope=col>{escape(_short(name, 24))}</th>" for name in names)
    body = ""
    for i, (name, row) in enumerate(zip(names, counts, strict=True)):
        cells = "".join(_shaded(n, sum(row), i == j) for j, n in enumerate(row))
        body += f"<tr><th scope=row>{escape(_short(name, 24))}</th>{cells}</tr>"
    said = "A row is a true class, a column the predicted one; shades are shares of the row."
    counted = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'{title}\n<p class="dim">{said}</p>\n<div class="scroll confusion">{counted}</div>'


def _shaded(count: int, total: int, is_right: bool) -> str:
    share = count / total if total else 0.0
    color = "29, 92, 200" if is_right else "179, 55, 11"
    style = f"background: rgba({color}, {0.45 * share:.2f})"
    return f'<td style="{style}" title="{share:.1%}">{count:,}</td>'


def _examples(report: Report) -> str:
    """Return the examples of wrong and of right rows, the predicted output beside the true one."""
    titles = ("The worst", "The best")
    if report.subject.has_classes:
        titles = ("Wrong, though the model was certain", "Right, though it was a close call")
    parts = []
    for title, examples in zip(titles, (report.wrong, report.right), strict=True):
        items = "".join(_example_item(example, report) for example in examples)
        parts += [f'<h3>{title}</h3>\n<ul class="examples">{items}</ul>'] if items else []
    return "\n".join(parts)


def _example_item(example: Example, report: Report) -> str:
    outputs = report.subject.saved.outputs
    true, predicted = _drawn(example.truth, example.predicted, outputs.kind, outputs.columns)
    if report.subject.has_classes:
        said, chance = "", f" with probability {digits(example.score)}"
    else:
        said, chance = f", {_name(report.main)} {number(example.score)}", ""
    inputs = ", ".join(f"{name} {_short(value, 60)}" for name, value in example.cells)
    because = f'<div class="what">inputs</div>{_text(inputs)}' if inputs else ""
    return (
        f'<li><p class="dim">row {example.row:,}{said}</p>'
        f'<div class="what">predicted{chance}</div>{predicted}<div class="what">true</div>{true}'
        f"{because}</li>"
    )


def _calibration(calibration: ReportedCalibration | None) -> str:
    """Return a plot and a table of observed shares beside nominal levels."""
    if calibration is None:
        return ""
    sized = [calibration.size] if calibration.size else []
    rows = [
        [
            f"{level.nominal:.1%}",
            f"{level.observed:.1%} <small>± {level.error:.1%}</small>",
            *([number(level.size)] if sized else []),
        ]
        for level in calibration.levels
    ]
    levels = table(["nominal", "observed", *sized], rows)
    what, counted = escape(calibration.what), escape(calibration.counted)
    verb = "" if counted.startswith("hold") else "are "
    said = f"{what}: how often they {verb}{counted}, beside their nominal level."
    return f"<p>{said}</p>\n{calibration_svg(calibration.levels)}\n{levels}"


def _curve(report: Report) -> str:
    if not report.curve:
        return ""
    rows = [[f"{point.rows:,}", number(point.score)] for point in report.curve]
    said = "Models of the same settings, fitted on parts of the training rows."
    points = table(["training rows", _name(report.main)], rows)
    return f"<p>{said}</p>\n{curve_svg(report.curve, html.unescape(_name(report.main)))}\n{points}"


def _importance(report: Report) -> str:
    importance = report.importance
    if not importance.losses:
        return ""
    most = max(abs(shuffled.loss) for shuffled in importance.losses)
    rows = [
        [
            escape(_short(shuffled.column)),
            f"{number(shuffled.loss)} <small>± {digits(shuffled.deviation, 2)}</small>",
            bar(_part(max(shuffled.loss, 0.0), most)),
        ]
        for shuffled in importance.losses
    ]
    of = "" if len(importance.losses) == importance.columns else f" of {importance.columns:,}"
    said = (
        f"By how much the {_name(report.main)} of {importance.rows:,} test rows gets worse if a "
        f"column is shuffled; {len(importance.losses):,} columns{of}, ± over repeats."
    )
    return f'<p class="dim">{said}</p>\n{table(["column", "loss", ""], rows)}'


# Outputs as HTML, in the style of their kind -----------------------------------------------------


def _drawn(truth: Words, predicted: Words, kind: Kind, columns: Words) -> tuple[str, str]:
    """Return a true and a predicted output as HTML; both are words as `Kind.words` has them."""
    if kind.style == "chips":
        return _chips(truth, predicted), _chips(predicted, truth)
    if kind.style == "bars" and len(columns) > 1:
        return _named(truth, columns), _named(predicted, columns)
    join = " > ".join if kind.style == "order" else " ".join
    texts = [join(_few(words)) for words in (truth, predicted)]
    true, pred = (f"{_picture(kind, text)}{_text(text)}" for text in texts)
    return true, pred


def _few(words: Words) -> list[str]:
    more = [f"… {len(words) - _MOST_WORDS} more"] if len(words) > _MOST_WORDS else []
    return [*words[:_MOST_WORDS], *more]


def _chips(labels: Words, others: Words) -> str:
    """Return labels as HTML; those that the other set lacks are marked."""
    other_labels = set(others)
    marks = [
        ("hit" if label in other_labels else "miss", _short(label, _LONGEST_TEXT))
        for label in _few(labels)
    ]
    chips = [f'<span class="chip {mark}">{escape(text)}</span>' for mark, text in marks]
    return "".join(chips) or '<span class="dim">no label</span>'


def _picture(kind: Kind, text: str) -> str:
    """Return the drawing of an output, "" where what draws it is not installed."""
    try:
        return kind.picture(text)
    except ImportError:
        return ""


def _named(values: Words, columns: Words) -> str:
    named = [f"{name} {value}" for name, value in zip(columns, values, strict=True)]
    return _text(", ".join(_few(named)))


def _text(text: str) -> str:
    return f'<div class="text">{escape(_short(text, _LONGEST_TEXT))}</div>'
