"""The page of a report: one HTML file that needs nothing else."""

import html
import json
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Any

from skout.kinds import Kind

from ..pages import bar, page_in_one_file
from ..results import digits
from .calibration import ReportedCalibration
from .figures import calibration_svg, curve_svg
from .measure import Example, Group, Report

# Characters that are shown of a fact and of an output, and its words.
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
# Classes or labels that are listed, and that a confusion table has.
_MOST_CLASSES, _MOST_CONFUSED = 30, 12


def page_of(*reports: Report) -> str:
    """Return the HTML of a report; of several targets, one after the other."""
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
    """Return a table of the targets: the main metric of each, with a link to its part."""
    rows = []
    for j, (report, name) in enumerate(zip(reports, names, strict=True)):
        value = report.subject.evaluation["metrics"][report.main]
        error, baseline = _error(report.errors.get(report.main)), report.baseline
        others = (
            "" if baseline is None else f"{escape(baseline[0])} {number(baseline[1][report.main])}"
        )
        link = f'<a href="#target-{j}">{name}</a>'
        rows.append([link, _name(report.main), f"{number(value)} <small>{error}</small>", others])
    return _rows(["target", "score", "this model", "constant prediction"], rows)


def _body(report: Report) -> str:
    """Return all sections on one target."""
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
    """Return a number with three digits; its attribute has all of them."""
    return "–" if value is None else f'<data value="{value!r}">{digits(value)}</data>'


def _error(value: float | None) -> str:
    return "" if value is None else f'± <data value="{value!r}">{digits(value, 2)}</data>'


def _name(metric: str) -> str:
    return escape(_NAMES.get(metric, metric.replace("_", " ")))


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML; bars, without a title, are not on a telephone."""
    wide = ["" if title or not j else ' class="wide"' for j, title in enumerate(head)]
    titles = "".join(f"<th scope=col{w}>{title}</th>" for w, title in zip(wide, head, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{w}>{cell}</td>" for w, cell in zip(wide, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def _scores(report: Report) -> str:
    """Return the metrics with standard errors, beside those of the baseline."""
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
    notes = ["± is one standard error, over the test rows."]
    if baseline is None:
        notes.append("There is no baseline: give the training rows, too.")
    parts = [_rows(head, rows), f'<p class="dim">{" ".join(notes)}</p>']
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
    return f"<h3>By {escape(column)}</h3>\n{_rows(head, rows)}"


def _part(value: float | None, most: float) -> float:
    """Return the share of a value in the largest one."""
    return 0.0 if value is None or most == 0.0 else min(1.0, abs(value) / most)


def _classes(report: Report) -> str:
    """Return the scores of each class or label, and which classes are taken for which."""
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
    parts = [_rows(["", "rows", "precision", "recall", "F1", ""], rows)]
    if len(each) > len(rows):
        more = f"The {len(rows)} most frequent of {len(each):,}; `skout evaluate --json` has all."
        parts.append(f'<p class="dim">{more}</p>')
    return "\n".join([*parts, _confusion(scores)])


def _confusion(scores: dict[str, Any]) -> str:
    """Return a table of true classes by predicted ones; of many classes, the usual mistakes."""
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
        return f"{title}\n{_rows(['true', 'predicted', 'rows'], rows)}" if rows else ""
    head = "".join(f"<th scope=col>{escape(_short(name, 24))}</th>" for name in names)
    body = ""
    for i, (name, row) in enumerate(zip(names, counts, strict=True)):
        cells = "".join(_shaded(n, sum(row), i == j) for j, n in enumerate(row))
        body += f"<tr><th scope=row>{escape(_short(name, 24))}</th>{cells}</tr>"
    said = "A row is a true class, a column the predicted one; shades are shares of the row."
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'{title}\n<p class="dim">{said}</p>\n<div class="scroll confusion">{table}</div>'


def _shaded(count: int, total: int, is_right: bool) -> str:
    share = count / total if total else 0.0
    color = "29, 92, 200" if is_right else "179, 55, 11"
    style = f"background: rgba({color}, {0.45 * share:.2f})"
    return f'<td style="{style}" title="{share:.1%}">{count:,}</td>'


def _examples(report: Report) -> str:
    """Return rows that went wrong and rows that went right, predicted beside true."""
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
    """Return a plot and a table of nominal levels and of what was observed."""
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
    table = _rows(["nominal", "observed", *sized], rows)
    what, counted = escape(calibration.what), escape(calibration.counted)
    said = f"{what}: how often they are {counted}, beside their nominal level."
    if counted.startswith("hold"):
        said = f"{what}: how often they {counted}, beside their nominal level."
    return f"<p>{said}</p>\n{calibration_svg(calibration.levels)}\n{table}"


def _curve(report: Report) -> str:
    if not report.curve:
        return ""
    rows = [[f"{point.rows:,}", number(point.score)] for point in report.curve]
    said = "Models of the same settings, fitted on parts of the training rows."
    table = _rows(["training rows", _name(report.main)], rows)
    return f"<p>{said}</p>\n{curve_svg(report.curve, html.unescape(_name(report.main)))}\n{table}"


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
    return f'<p class="dim">{said}</p>\n{_rows(["column", "loss", ""], rows)}'


# Outputs as HTML, in the style of their kind -----------------------------------------------------


def _drawn(truth: Words, predicted: Words, kind: Kind, columns: Words) -> tuple[str, str]:
    """Return a true output and a predicted one as HTML, from words as `Kind.words` has them."""
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
    """Return labels; those that the other set has not are marked."""
    other_labels = set(others)
    marks = [
        ("hit" if label in other_labels else "miss", _short(label, _LONGEST_TEXT))
        for label in _few(labels)
    ]
    chips = [f'<span class="chip {mark}">{escape(text)}</span>' for mark, text in marks]
    return "".join(chips) or '<span class="dim">no label</span>'


def _picture(kind: Kind, text: str) -> str:
    """Return the drawing of an output, where what draws it is installed."""
    try:
        return kind.picture(text)
    except ImportError:
        return ""


def _named(values: Words, columns: Words) -> str:
    named = [f"{name} {value}" for name, value in zip(columns, values, strict=True)]
    return _text(", ".join(_few(named)))


def _text(text: str) -> str:
    return f'<div class="text">{escape(_short(text, _LONGEST_TEXT))}</div>'
