"""Reports on a search: a table of trials, a summary line, a plot, a page for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from tqdm import tqdm

from skout.dev import extra, take
from skout.kinds import KINDS

from .scoring import OutputScoring, shown, spoken
from .search import Callback, CutTrial, ModelSearch, Trial, TuningProgress

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Rows of the table in notebooks, and the size of the plot in pixels.
_SHOWN, _WIDTH, _HEIGHT = 15, 360, 180
_COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bb6622", "#777777")


@contextmanager
def progress_bar(verbose: bool, callback: Callback | None) -> Iterator[Callback | None]:
    """Yield the function to call around each trial, which moves a bar and calls `callback`."""
    if not verbose:
        yield callback
        return
    with tqdm(desc="trials", unit="trial") as bar:

        def on_trial(progress: TuningProgress) -> None:
            bar.update(progress.trial - 1 - bar.n if progress.score is None else 1)
            bar.set_postfix_str(str(progress).partition(": ")[2])
            if callback is not None:
                callback(progress)

        yield on_trial


def baselines_of(
    scoring: OutputScoring, Y: Any, basis: Any, search: ModelSearch
) -> tuple[dict[str, float], int | None]:
    """Return the scores of a constant prediction and a forest, and the rows of the forest."""
    folds, sample = search.sample.folds, search.sample

    def constant(train: np.ndarray) -> np.ndarray:
        weights = sample.weights(train)
        if scoring.takes_probabilities:  # the frequency of each class
            return np.average(sample.T[train], axis=0, weights=weights)[None]
        return np.asarray(basis.transform(scoring.kind.baseline(take(Y, train), weights)))

    parts = [np.tile(constant(train), (len(held), 1)) for train, held in folds.splits]
    table = search.merit.metric(np.concatenate(parts).astype(np.float32))
    baselines = {"constant": float((table @ folds.weights).max())}
    forests = [trial for trial in search.trials if trial.settings.family == "forest"]
    plain = [trial for trial in forests if trial.stage == "baseline"]
    if plain and plain[0].settings.rows is not None:  # not a fair one
        plain = [trial for trial in forests if trial.settings.rows is None] or plain
    if not plain:
        return baselines, None
    return {**baselines, "forest": plain[0].score}, plain[0].settings.rows


def rows_of(search: ModelSearch, metric: str, constant: float) -> list[dict[str, Any]]:
    """Return a dict for each trial, best first, for the constant prediction, and for cut trials."""
    last = {"metric": metric, "score": constant, "standard_error": np.nan, "seconds": 0.0}
    trials = sorted(search.trials, key=lambda trial: -trial.score)
    return [
        *(_row(trial, metric, search.n) for trial in trials),
        {**last, "rows": search.n, "stage": "baseline", "cut": "", "map": "constant"},
        *(_row(trial, metric, search.n) for trial in search.cut),
    ]


def _row(trial: Trial | CutTrial, metric: str, n: int) -> dict[str, Any]:
    """Return the dict of a trial."""
    settings = trial.settings.settings()
    if isinstance(trial, CutTrial):
        score, error, cut, decoder = np.nan, np.nan, trial.reason, {}
    else:
        score, error, cut = trial.score, trial.error, ""
        decoder = {"decoder": trial.decoder}
    return {
        "metric": metric,
        "score": score,
        "standard_error": error,
        "seconds": trial.seconds,
        "rows": settings.pop("rows") or n,
        "stage": trial.stage,
        "cut": cut,
        **{
            name: value if isinstance(value, str | int | float | None) else repr(value)
            for name, value in settings.items()
        },
        **decoder,
    }


def line(model: BaseEstimator, *, brief: bool = False) -> str:
    """Return the summary of a `Tuned`: the score with its error, the baselines, then the fit."""
    metric = model._kind
    if hasattr(model, "outer_scores_"):
        scores = model.outer_scores_
        mean, error = scores.mean(), scores.std(ddof=1) / np.sqrt(len(scores))
        where = f"in {len(scores)} outer folds"
    else:
        mean, error = model.score_, model.score_error_
        splits = model.n_splits_
        where = f"in {splits} folds" if splits > 1 else "on held-out rows"
    parts = [f"{spoken(metric)} {_number(metric, mean)} +- {_number('', error)} {where}"]
    if "forest" in model.baselines_:
        rows = f" (of {model._forest_rows:,} rows)" if model._forest_rows else ""
        parts.append(f"a forest {_number(metric, model.baselines_['forest'])}{rows}")
    constant = KINDS[model.kind_].baseline_name
    baseline = _number(metric, model.baselines_["constant"])
    parts.append(f"{constant} {baseline}")
    if (
        model.best_settings_[0]["map"] == "constant"
    ):  # it may be decoded better than the baseline is
        which = "which" if baseline == _number(metric, mean) else "but the same for all rows"
        parts[-1] += f", {which} is predicted, since no model did better"
    if brief:
        return "; ".join(parts)
    parts += [rows_line(model), cut_line(model)]
    parts += [f"without {name}, which {why}" for name, why in model.left_out_.items()]
    parts.append("" if model.encoder_ is None else model.encoder_.summary())
    return "; ".join(filter(None, parts))


def _number(metric: str, score: float) -> str:
    """Return a score as text with three decimals or four digits; errors are positive."""
    value = shown(metric, score)
    return f"{value:.3f}" if abs(value) < 10.0 or np.isnan(value) else f"{value:.4g}"


def cut_line(model: BaseEstimator) -> str:
    """Return the number of trials and of those that the clock cut off, as text, or ""."""
    if not model.cut_:
        return ""
    n = len(_finished(model))
    trials = f"{n} {'trial' if n == 1 else 'trials'}"
    return f"the clock ended the search after {trials}, and cut off {model.cut_} that were planned"


def rows_line(model: BaseEstimator) -> str:
    """Return the numbers of rows of the last fits, as text, or "" where they had all rows."""
    rows = {settings["rows"] for settings in model.best_settings_}
    if rows == {None}:
        return ""
    sizes = sorted(model.n_rows_ if most is None else most for most in rows)
    first = "" if len(sizes) == 1 else f"{sizes[0]:,} to "
    return f"fitted on {first}{sizes[-1]:,} of {model.n_rows_:,} rows"


def drawn(model: BaseEstimator, ax: Axes | None) -> Any:
    """Return matplotlib axes with scores and standard errors against seconds, a color per map."""
    with extra("plot", "Plots need matplotlib"):
        import matplotlib.pyplot as plt
    ax = plt.subplots(layout="constrained")[1] if ax is None else ax
    for name in dict.fromkeys(row["map"] for row in model.results_):
        trials = [row for row in _finished(model) if row["map"] == name]
        if trials:
            keys = ("seconds", "score", "standard_error")
            columns: Any = [[row[key] for row in trials] for key in keys]
            ax.errorbar(*columns, marker="o", linestyle="", capsize=3, label=name)
    ax.axhline(model.score_, linestyle="-", label="the choice")
    ax.axhline(model.baselines_["constant"], linestyle=":", label="a constant")
    ax.set(xscale="log", xlabel="seconds of a trial", ylabel=spoken(model._kind))
    ax.legend()
    return ax


def _finished(model: BaseEstimator) -> list[dict[str, Any]]:
    """Return the rows of trials that have a score."""
    return [row for row in model.results_ if not row.get("cut") and row["map"] != "constant"]


def page(model: BaseEstimator) -> str:
    """Return a fitted model as HTML for notebooks: its summary, a plot and a table of trials."""
    trials = _finished(model)
    names = ("map", "scaling", "rows", "seconds", "stage")
    head = "".join(f"<th>{name}</th>" for name in (spoken(model._kind), "error", *names))
    cells = [
        [
            _number(model._kind, row["score"]),
            _number("", row["standard_error"]),
            *(_cell(row.get(name)) for name in names),
        ]
        for row in trials[:_SHOWN]
    ]
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in cells
    )
    more = f"<p>and {len(trials) - _SHOWN} more trials</p>" if len(trials) > _SHOWN else ""
    title = f"Tuned, {KINDS[model.kind_].plural}"
    return (
        f"<div class='skout-tuned'><b>{html.escape(title)}</b><p>{html.escape(line(model))}</p>"
        f"{_plot(model, trials)}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{more}</div>"
    )


def _cell(value: object) -> str:
    """Return the text of a cell of the table."""
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str("" if value is None else value)


def _plot(model: BaseEstimator, trials: list[dict[str, Any]]) -> str:
    """Return the scores of trials against their seconds, on a scale of logarithms, as SVG."""
    if not trials:
        return ""
    x = np.log10(np.maximum([row["seconds"] for row in trials], 1e-3))
    scores = np.array([row["score"] for row in trials])
    high, middle = max(scores.max(), model.score_), float(np.median(scores))
    low = max(scores.min(), middle - 3.0 * (high - middle) - 1e-9)  # lower ones are drawn there
    maps = list(dict.fromkeys(row["map"] for row in trials))
    colors = [_COLORS[i % len(_COLORS)] for i in range(len(maps))]
    right = _WIDTH - 120

    def across(value: float) -> float:
        return float(40.0 + (right - 50.0) * (value - x.min()) / max(np.ptp(x), 1e-9))

    def down(value: float) -> float:
        share = (np.clip(value, low, high) - low) / max(high - low, 1e-9)
        return float(_HEIGHT - 30.0 - (_HEIGHT - 50.0) * share)

    def dot(left: float, top: float, name: str, text: str) -> str:
        color, title = colors[maps.index(name)], html.escape(text)
        place = f"cx='{left:.1f}' cy='{top:.1f}' r='3.5'"
        return f"<circle {place} fill='{color}'><title>{title}</title></circle>"

    def text(left: float, top: float, words: str, anchor: str = "start") -> str:
        place = f"x='{left:.1f}' y='{top:.1f}' text-anchor='{anchor}'"
        return f"<text {place}>{html.escape(words)}</text>"

    parts = [
        dot(across(a), down(row["score"]), row["map"], f"{row['map']} {row['score']:.4g}")
        for a, row in zip(x, trials, strict=True)
    ]
    for i, name in enumerate(maps):
        parts += [dot(right + 6, 22 + 15 * i, name, name), text(right + 14, 26 + 15 * i, name)]
    parts += [text(36, down(v) + 4, _number(model._kind, v), "end") for v in (low, high)]
    parts += [text(40, _HEIGHT - 8, f"{10 ** x.min():.2g} s")]
    parts += [text(right, _HEIGHT - 8, f"{10 ** x.max():.2g} s", "end")]
    level = f"y1='{down(model.score_):.1f}' y2='{down(model.score_):.1f}'"
    parts += [
        f"<line x1='40' x2='{right}' {level} stroke='#999' stroke-dasharray='4 3'>"
        "<title>the choice</title></line>"
    ]
    return (
        f"<svg width='{_WIDTH}' height='{_HEIGHT}' font-size='11' font-family='sans-serif' "
        "fill='currentColor' role='img'><title>Scores of trials against their seconds</title>"
        f"{''.join(parts)}</svg>"
    )
