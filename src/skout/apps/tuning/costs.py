"""What a trial costs, in seconds of a reference machine with two cores.

The plan of a search follows these numbers and not the clock, so that the same seed makes the same
choice wherever and whenever it runs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .folds import Folds
from .learnt import MAX_ROWS
from .space import RIDGES, Profile
from .trials import alphas_of

__all__ = ["SCORED", "SLOW", "fit_seconds", "scoring_seconds", "trial_seconds"]

Settings = dict[str, Any]

_FLOPS = 1.5e10  # of products of matrices in a second
_KERNEL = 4e-9  # seconds for a kernel value, beyond its product
_SPLIT = 4e-8  # for a row, a feature and a level of a tree
_HISTOGRAM = 3e-9  # for a row and a feature of boosting, and a level of its trees
_TREE = 4e-4  # for each tree of a forest
_SMALL_TREE = 5e-4  # for each tree on few rows
_STAGE = 6e-4  # for each of its trees
_DECODE = 3e-9  # for a number that a decoder looks at
_ROUNDS = 6  # of learning a metric, which ends where they do not help
_CALL = 0.02
#: Seconds of one scoring from which on at most so many cells of a path are scored.
SLOW, SCORED = 0.03, 8


def fit_seconds(settings: Settings, profile: Profile, n: int) -> float:
    """Return the seconds of one fit on n rows."""
    return _CALL + profile.n_models * _FITS[settings["map"]](settings, profile, n)


def _ridge_fit(settings: Settings, profile: Profile, n: int) -> float:
    m = min(n, settings.get("sketch") or n)
    flops = 2.0 * n * m * profile.d + n * m * m + m**3 / 3 + 2.0 * n * m * profile.p
    per_value = _KERNEL * (profile.d / 4 + 1 if settings["kernel"] == "laplacian" else 1.0)
    return flops / _FLOPS + n * m * per_value


def _learnt_fit(settings: Settings, profile: Profile, n: int) -> float:
    r = min(n, MAX_ROWS)
    m, d, p = min(r, settings["landmarks"]), profile.columns, min(profile.p, 16)
    rounds = _ROUNDS * min(5, math.ceil(3000 / r))  # few rows: several splits
    flops = 2.0 * r * m * (d + m) + 2.0 * r * m * d * p + 3 * m**3 + d**3
    each = 6e-3 + flops / _FLOPS + 2.0 * r * m * _KERNEL
    return rounds * each + _ridge_fit(settings, profile, n)


def _aligned_fit(settings: Settings, profile: Profile, n: int) -> float:
    m, parts = min(n, settings.get("sketch") or n), len(settings["groups"]) + 1
    align = parts * 600.0**2 * (5 * _KERNEL + parts / _FLOPS) + 2e-3 * parts
    per_value = 1.0 + (profile.columns / 4 / parts if settings["kernel"] == "laplacian" else 0.0)
    return align + _ridge_fit(settings, profile, n) + parts * n * m * 3 * _KERNEL * per_value


def _forest_fit(settings: Settings, profile: Profile, n: int) -> float:
    share = settings["max_features"]
    features = np.sqrt(profile.columns) if share == "sqrt" else share * profile.columns
    levels = max(1.0, np.log2(n / settings["min_samples_leaf"]))
    q = min(profile.p, 24)
    work = n * levels * (max(features, 1.0) * (0.3 + 0.02 * q) + 2.0)
    slow = 1.0 if settings["map"] == "extra trees" else 3.0
    leaves = 2e-9 * n * settings["n_estimators"] * (profile.p if profile.p > 24 else 0)
    return settings["n_estimators"] * (_TREE + work * _SPLIT * slow / 2) + leaves


def _boosting_fit(settings: Settings, profile: Profile, n: int) -> float:
    levels = np.log2(settings["max_leaf_nodes"] + 1)
    work = n * profile.columns * settings["max_features"] * levels
    if settings["subsample"] is not None:
        tree = _SMALL_TREE + work * _SPLIT / 2
    else:
        tree = work * _HISTOGRAM / 2 + _STAGE * settings["max_leaf_nodes"] / 15
    return settings["max_iter"] * min(profile.p, settings["n_components"]) * tree


def _neighbour_fit(settings: Settings, profile: Profile, n: int) -> float:
    return 2e-9 * n * np.log2(n + 1) * profile.d  # a tree, or none


def _logistic_fit(settings: Settings, profile: Profile, n: int) -> float:
    steps = 100 if "C" in settings else 300  # one penalty, or a path
    q = min(profile.p, profile.p / 3 if profile.p > 60 else profile.p)  # different answers
    slow = 4.0 if profile.is_sparse else 1.0
    return steps * n * q * (4.0 * profile.d * slow / _FLOPS + 2.5e-8)


_FITS = {
    "kernel ridge": _ridge_fit,
    "learnt ridge": _learnt_fit,
    "aligned ridge": _aligned_fit,
    "extra trees": _forest_fit,
    "random forest": _forest_fit,
    "boosting": _boosting_fit,
    "neighbours": _neighbour_fit,
    "logistic": _logistic_fit,
}


def trial_seconds(settings: Settings, profile: Profile, folds: Folds, n_decoders: int) -> float:
    """Return the seconds of a trial: the folds of its path, decoded and scored."""
    n = min(folds.n_train, settings.get("rows") or folds.n_train)
    is_ridge = settings["map"] == "kernel ridge"
    k, held, p = len(folds.splits) if is_ridge else folds.n_first, folds.n_held, profile.p
    if settings["map"] in RIDGES:
        n_alphas, m = len(alphas_of(settings)), min(n, settings.get("sketch") or n)
        cells = 2 * n_alphas
        if is_ridge:  # the folds share kernel and landmarks
            seconds = _ridge_fit(settings, profile, int(min(n + held, 1.25 * n * k)))
        else:
            seconds = k * _FITS[settings["map"]](settings, profile, n)
        seconds += n_alphas * (k * (m**3 / 3 + 2.0 * m * m * p) + 2.0 * held * m * p) / _FLOPS
    elif settings["map"] == "neighbours":
        cells = 20
        seconds = 1e-9 * held * n * profile.d + 80 * 2e-9 * held * p * 2
    else:
        cells = 5 if settings["map"] in ("boosting", "logistic") else 1
        seconds = k * (_CALL + _FITS[settings["map"]](settings, profile, n))
    one = scoring_seconds(held, p, n_decoders)
    scored = cells if one <= SLOW else min(cells, SCORED)
    return _CALL + profile.n_models * seconds + scored * one


def scoring_seconds(held: int, p: int, n_decoders: int) -> float:
    """Return the seconds to decode and score p coordinates of the held-out rows."""
    return 1e-4 + held * p * (3 + n_decoders) * _DECODE
