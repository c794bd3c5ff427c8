"""What a search says about itself: a table, a line, a plot."""

from __future__ import annotations

from typing import Any

import numpy as np

from skout.dev import extra, take
from skout.kinds import KINDS, Kind

from .search import ModelSearch, Trial

_NAMES = {
    "example_f1": "F1",
    "kendall_tau": "Kendall's tau",
    "r2": "R2",
    "accuracy": "accuracy",
}


def baselines_of(
    kind: Kind, Y: Any, basis: Any, search: ModelSearch
) -> tuple[dict[str, float], int | None]:
    """Return the scores of a constant prediction and of a forest, and the rows of the forest."""
    folds, weights = search.sample.folds, search.sample.weights
    parts = [
        np.tile(basis.transform(kind.baseline(take(Y, train), weights(train))), (len(held), 1))
        for train, held in folds.splits
    ]
    table = search.merit.metric(np.concatenate(parts).astype(np.float32))
    baselines = {"constant": float((table @ folds.weights).max())}
    forests = [trial for trial in search.trials if trial.settings.family == "forest"]
    plain = [trial for trial in forests if trial.stage == "baseline"]
    if plain and plain[0].settings.rows is not None:  # not a fair one
        plain = [trial for trial in forests if trial.settings.rows is None] or plain
    if not plain:
        return baselines, None
    return {**baselines, "forest": plain[0].score}, plain[0].settings.rows


def rows_of(search: ModelSearch, constant: float) -> list[dict[str, Any]]:
    """Return a dict for each trial, the best first, and one for the constant prediction."""
    last = {"score": constant, "standard_error": np.nan, "seconds": 0.0, "rows": search.n}
    return [
        *(_row(trial, search.n) for trial in sorted(search.trials, key=lambda one: -one.score)),
        {**last, "stage": "baseline", "map": "constant"},
    ]


def _row(trial: Trial, n: int) -> dict[str, Any]:
    settings = {**trial.settings.settings(), "decoder": trial.decoder}
    return {
        "score": trial.score,
        "standard_error": trial.error,
        "seconds": trial.seconds,
        "rows": settings.pop("rows") or n,
        "stage": trial.stage,
        **{
            name: value if isinstance(value, str | int | float | None) else repr(value)
            for name, value in settings.items()
        },
    }


def line(model: Any) -> str:
    """Return the score with its standard error, and what baselines reach."""
    name = _NAMES.get(model._kind, model._kind)
    if hasattr(model, "outer_scores_"):
        scores = model.outer_scores_
        mean, error = scores.mean(), scores.std(ddof=1) / np.sqrt(len(scores))
        where = f"in {len(scores)} outer folds"
    else:
        mean, error = model.score_, model.score_error_
        splits = model.n_splits_
        where = f"in {splits} folds" if splits > 1 else "on held-out rows"
    parts = [f"{name} {mean:.3f} +- {error:.3f} {where}"]
    if "forest" in model.baselines_:
        rows = f" (of {model._forest_rows:,} rows)" if model._forest_rows else ""
        parts.append(f"a forest {model.baselines_['forest']:.3f}{rows}")
    constant = KINDS[model.kind_].baseline_name
    parts.append(f"{constant} {model.baselines_['constant']:.3f}")
    n = len(model.results_) - 1
    cut = f"the clock ended the search after {n} {'trial' if n == 1 else 'trials'}"
    parts += [rows_line(model), cut if model.cut_ else ""]
    parts += [f"without {name}, which {why}" for name, why in model.left_out_.items()]
    parts.append("" if model.encoder_ is None else model.encoder_.summary())
    return "; ".join(filter(None, parts))


def rows_line(model: Any) -> str:
    """Return how many rows the members were fitted on, nothing where all had all of them."""
    rows = {settings["rows"] for settings in model.best_settings_}
    if rows == {None}:
        return ""
    sizes = sorted(model.n_rows_ if most is None else most for most in rows)
    first = "" if len(sizes) == 1 else f"{sizes[0]:,} to "
    return f"fitted on {first}{sizes[-1]:,} of {model.n_rows_:,} rows"


def drawn(model: Any, ax: Any) -> Any:
    """Draw scores with standard errors against seconds, a color for each map."""
    with extra("plot", "Plots need matplotlib"):
        import matplotlib.pyplot as plt
    ax = plt.subplots(layout="constrained")[1] if ax is None else ax
    for name in dict.fromkeys(row["map"] for row in model.results_):
        trials = [row for row in model.results_ if row["map"] == name and row["seconds"] > 0.0]
        if trials:
            keys = ("seconds", "score", "standard_error")
            columns = [[row[key] for row in trials] for key in keys]
            ax.errorbar(*columns, marker="o", linestyle="", capsize=3, label=name)
    ax.axhline(model.score_, linestyle="-", label="the choice")
    ax.axhline(model.baselines_["constant"], linestyle=":", label="a constant")
    name = _NAMES.get(model._kind, model._kind)
    ax.set(xscale="log", xlabel="seconds of a trial", ylabel=name)
    ax.legend()
    return ax
