"""What a search says about itself: a table, a line, a plot."""

from __future__ import annotations

from typing import Any

import numpy as np

from skout._numerics.extras import axes

from .space import family

__all__ = ["baselines_of", "drawn", "line", "rows_line", "rows_of"]

_NAMES = {
    "example_f1": "F1",
    "kendall_tau": "Kendall's tau",
    "r2": "R2",
    "accuracy": "accuracy",
}
_CONSTANT = {
    "label_sets": "predicting the most frequent set",
    "rankings": "the consensus ranking",
    "numbers": "the mean",
    "classes": "the most frequent class",
}
_NO_SETTINGS = ("rows", "groups")


def baselines_of(kind: Any, search: Any) -> tuple[dict[str, float], int | None]:
    """Return the scores of a constant prediction and of a forest, and the rows of the forest."""
    folds, T, weights = search.sample.folds, search.sample.T, search.sample.weights
    parts = [
        np.tile(kind.constant(T[train], weights(train)), (len(held), 1))
        for train, held in folds.splits
    ]
    table = search.judge.metric(np.concatenate(parts).astype(np.float32))
    found = {"constant": float((table @ folds.weights).max())}
    forests = [one for one in search.trials if family(one.settings) == "forest"]
    plain = [one for one in forests if one.stage == "baseline"]
    if plain and not plain[0].is_full:  # not a fair one
        plain = [one for one in forests if one.is_full] or plain
    if not plain:
        return found, None
    return {**found, "forest": plain[0].score}, plain[0].settings.get("rows")


def rows_of(search: Any, constant: float) -> list[dict[str, Any]]:
    """Return a dict for each trial, the best first, and one for the constant prediction."""
    n = search.n
    found = []
    for one in sorted(search.trials, key=lambda trial: -trial.score):
        settings = {
            key: value if isinstance(value, str | int | float | bool | None) else repr(value)
            for key, value in {**one.settings, **one.decoder}.items()
            if key not in _NO_SETTINGS
        }
        found.append(
            {
                "score": one.score,
                "standard_error": one.error,
                "seconds": one.seconds,
                "rows": one.settings.get("rows") or n,
                "stage": one.stage,
                **settings,
            }
        )
    last = {"score": constant, "standard_error": np.nan, "seconds": 0.0, "rows": n}
    return [*found, {**last, "stage": "baseline", "map": "constant"}]


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
    constant = _CONSTANT.get(model.kind_, "the most frequent output")
    parts.append(f"{constant} {model.baselines_['constant']:.3f}")
    parts += [part for part in (rows_line(model), _cut_line(model)) if part]
    parts += [f"without {name}, which {why}" for name, why in _left_out(model).items()]
    encoder = getattr(model, "encoder_", None)  # older files have none
    if encoder is not None:
        parts.append(encoder.summary())
    return "; ".join(parts)


def rows_line(model: Any) -> str:
    """Return how many rows the members were fitted on, nothing where all had all of them."""
    rows = {one.get("rows") for one in model.best_settings_}
    if rows == {None} or not hasattr(model, "n_rows_"):  # older files have no number
        return ""
    sizes = sorted(model.n_rows_ if most is None else most for most in rows)
    first = "" if len(sizes) == 1 else f"{sizes[0]:,} to "
    return f"fitted on {first}{sizes[-1]:,} of {model.n_rows_:,} rows"


def _cut_line(model: Any) -> str:
    """Return what the clock cut off, nothing where the search went as planned."""
    trials = sum(row["map"] != "constant" for row in model.results_)
    if not getattr(model, "cut_", 0):  # older files have none
        return ""
    return f"the clock ended the search after {trials} {'trial' if trials == 1 else 'trials'}"


def _left_out(model: Any) -> dict[str, str]:
    return getattr(model, "left_out_", {})  # older files have none


def drawn(model: Any, ax: Any) -> Any:
    """Draw scores with standard errors against seconds, a colour for each map."""
    ax = axes(ax, "seconds of a trial", _NAMES.get(model._kind, model._kind))
    for name in dict.fromkeys(row["map"] for row in model.results_):
        own = [row for row in model.results_ if row["map"] == name and row["seconds"] > 0.0]
        if own:
            columns = [[row[key] for row in own] for key in ("seconds", "score", "standard_error")]
            ax.errorbar(*columns, marker="o", linestyle="", capsize=3, label=name)
    ax.axhline(model.score_, linestyle="-", label="the choice")
    ax.axhline(model.baselines_["constant"], linestyle=":", label="a constant")
    ax.set_xscale("log")
    ax.legend()
    return ax
