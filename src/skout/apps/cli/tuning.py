"""`skout fit` without settings: a model that is chosen by validation, and what is said of it."""

import math
from collections import Counter
from typing import Any

from skout import TableEncoder, Tuned
from skout.kinds import KINDS, Kind

from .progress import is_terminal
from .settings import Settings, check_budget

__all__ = ["for_people", "reason_not_to_tune", "tuned_model", "validation"]

# Rows of which some can be held out.
_LEAST_ROWS = 10


def reason_not_to_tune(settings: Settings, n: int, in_memory: bool) -> str | None:
    """Return why no model can be chosen for a table of n rows, None if one can."""
    if not in_memory:
        return (
            f"the table is larger than --memory {settings.memory:g} (MB), and rows are held to "
            "compare models"
        )
    if n < _LEAST_ROWS:
        return f"of {n} rows none can be held out to compare models"
    return None


def tuned_model(X: Any, Y: Any, kind: Kind, settings: Settings) -> Tuned:
    """Return the model that does best on held-out rows, fitted on all."""
    budget = check_budget(settings.budget)
    encoder = TableEncoder(day_first=settings.day_first, strict=settings.strict)
    seed, verbose = settings.seed, is_terminal()
    model = Tuned(kind.name, budget=budget, random_state=seed, encoder=encoder, verbose=verbose)
    return model.fit(X, Y)


def validation(model: Tuned) -> dict[str, Any]:
    """Return the score of a tuned model, its standard error, and baselines, as JSON has them."""
    return {
        "summary": model.summary(),
        "metric": KINDS[model.kind_].metric,
        "score": _number(model.score_),
        "standard_error": _number(model.score_error_),
        "baselines": {name: _number(score) for name, score in model.baselines_.items()},
        "fits": len([row for row in model.results_ if row["map"] != "constant"]),
        "interrupted": model.interrupted_,
        "chosen": [
            {name: value if _is_plain(value) else repr(value) for name, value in one.items()}
            for one in model.best_settings_
        ],
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | None)


def for_people(found: dict[str, Any]) -> dict[str, Any]:
    """Return what `skout fit` did, in few words."""
    if "validation" not in found:
        return found
    shown = {name: found[name] for name in found if name not in ("standardize", "validation")}
    weights: Counter[str] = Counter()
    for one in found["validation"]["chosen"]:
        weights[_named(one)] += one["weight"]
    shown["chosen"] = [f"{name} {weight:.0%}" for name, weight in weights.most_common()]
    shown["validation"] = found["validation"]["summary"]
    return shown


def _named(settings: dict[str, Any]) -> str:
    """Return the map of some settings, and its kernel."""
    kernel = settings.get("kernel")
    return settings["map"] if kernel is None else f"{kernel} {settings['map']}"
