"""What is tried: a portfolio of settings that do well on many data sets, then neighbours of the
best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skout.kernels import NGram, PeakCosine, ProbabilityProduct, ShortestPath, WeisfeilerLehman

from .inputs import are_vectors

__all__ = [
    "RIDGES",
    "Profile",
    "baseline_forest",
    "family",
    "left_out",
    "neighbours",
    "portfolio",
    "profile_of",
]

Settings = dict[str, Any]

#: Maps that are kernel ridge regression, with a path of penalties.
RIDGES = ("kernel ridge", "learnt ridge", "aligned ridge")
# Numbers that a dense copy of sparse rows may have.
_MOST_DENSE = 6e7
# Most components that boosting has a model for, and most coordinates that it is tried on.
_BOOSTED, _MOST_BOOSTED = 8, 600
# Rows from which on boosting may go on for long.
_LARGE = 3000
# Rows from which on boosting is faster on histograms.
_HISTOGRAMS = 1000


@dataclass(frozen=True)
class Profile:
    """What the choice of settings depends on."""

    n: int  # rows to train on
    d: float  # numbers in a row, stored ones if sparse
    columns: int
    p: int  # output coordinates
    is_sparse: bool = False
    is_object: bool = False  # X is no matrix at all
    is_binary: bool = False  # output coordinates say yes or no
    objects: tuple[Any, ...] = ()  # kernels of objects that are no vectors
    groups: tuple[tuple[int, int], ...] = ()  # where columns of a table are in the matrix
    is_weighted: bool = False  # rows do not all count the same
    n_models: float = 1.0  # fits on all rows that one of outputs with different rows is worth

    @property
    def grows_trees(self) -> bool:
        return not self.is_object and self.n * self.columns <= _MOST_DENSE


def profile_of(X: Any, n: int, p: int, **more: Any) -> Profile:
    """Return the profile of inputs; `more` are its fields that X does not tell."""
    if not are_vectors(X):
        objects = _kernels_of_objects(X[0])
        return Profile(n, 50.0, 1, p, **{**more, "is_object": True, "objects": objects})
    is_sparse = sparse.issparse(X)
    d = max(1.0, X.nnz / X.shape[0]) if is_sparse else float(X.shape[1])
    return Profile(n, d, X.shape[1], p, is_sparse, **more)


def left_out(profile: Profile) -> dict[str, str]:
    """Return the maps that are not tried though X has columns, and why."""
    if profile.is_weighted and not profile.is_object:
        return {"neighbours": "take no weights"}
    return {}


def _kernels_of_objects(first: Any) -> tuple[Any, ...]:
    """Return kernels to try for inputs that are no vectors: texts, spectra or graphs."""
    if isinstance(first, str):
        return tuple(NGram(n, short="keep") for n in ((1, 2, 3), (2, 3, 4), (1, 2)))
    if isinstance(first, tuple) and len(first) == 2:
        return (PeakCosine(), ProbabilityProduct())
    return (WeisfeilerLehman(), WeisfeilerLehman(2), ShortestPath())


def family(settings: Settings) -> str:
    """Return the map of settings, forests of both kinds being one."""
    name: str = settings["map"]
    return "forest" if name in ("extra trees", "random forest") else name


def _ridge(kernel: str, width: float = 1.0, scaling: str = "standard") -> Settings:
    found: Settings = {"map": "kernel ridge", "scaling": scaling, "kernel": kernel}
    return found if kernel == "linear" else {**found, "width": width}


def _learnt(kernel: str, profile: Profile, scaling: str = "standard") -> Settings:
    landmarks = 1000 if profile.n <= 1000 else 500  # of few rows all: rounds are exact
    return {"map": "learnt ridge", "scaling": scaling, "kernel": kernel, "landmarks": landmarks}


def _aligned(kernel: str, profile: Profile) -> Settings:
    groups = profile.groups
    return {"map": "aligned ridge", "scaling": "none", "kernel": kernel, "groups": groups}


def _trees(kind: str, max_features: float | str, leaf: int) -> Settings:
    sizes = {"n_estimators": 100, "max_features": max_features, "min_samples_leaf": leaf}
    return {"map": kind, **sizes}


def _boosting(rate: float, leaves: int, profile: Profile, **more: Any) -> Settings:
    return {
        "map": "boosting",
        "learning_rate": rate,
        "max_iter": 200,
        "max_leaf_nodes": leaves,
        "min_samples_leaf": int(np.clip(profile.n // 40, 3, 20)),
        "l2": 0.0,
        "subsample": 0.7 if profile.n <= _HISTOGRAMS else None,
        "max_features": 1.0,
        "n_components": _BOOSTED,
        **more,
    }


def baseline_forest(profile: Profile) -> Settings | None:
    """Return a forest as most would use it, None where X has no columns."""
    if not profile.grows_trees:
        return None
    return _placed(_trees("random forest", "sqrt" if profile.columns > 30 else 0.33, 1), profile)


def _placed(settings: Settings, profile: Profile) -> Settings:
    """Let maps that take dense rows have them."""
    takes_sparse = (*RIDGES, "logistic", "neighbours")
    needs_dense = profile.is_sparse and settings["map"] not in takes_sparse
    return {**settings, "scaling": "dense"} if needs_dense else settings


def portfolio(profile: Profile) -> list[Settings]:
    """Return settings to begin with, the most promising ones first."""
    if profile.is_object:
        return [{"map": "kernel ridge", "kernel": kernel} for kernel in profile.objects]
    if profile.is_sparse:
        found = _on_sparse(profile)
    else:
        found = _on_table(profile) if profile.groups else _on_dense(profile)
    allowed = {*RIDGES, "neighbours"}
    if profile.grows_trees:
        allowed |= {"extra trees", "random forest"}
    if profile.grows_trees and profile.p <= _MOST_BOOSTED:
        allowed |= {"boosting"}
    if profile.is_binary:
        allowed |= {"logistic"}
    allowed -= set(left_out(profile))
    return [_placed(one, profile) for one in found if one["map"] in allowed]


def _on_sparse(profile: Profile) -> list[Settings]:
    return [
        _ridge("gaussian", 1.0, "unit"),
        _ridge("gaussian", 1.0, "none"),
        _ridge("gaussian", 1.0, "tfidf"),
        {"map": "logistic", "scaling": "unit"},
        _trees("extra trees", "sqrt", 1),
        _ridge("linear", scaling="tfidf"),
        _ridge("gaussian", 4.0, "unit"),
        _ridge("gaussian", 4.0, "tfidf"),
        _trees("extra trees", 0.1, 2),
        {"map": "neighbours", "scaling": "tfidf"},
        _boosting(0.1, 15, profile),
        _ridge("gaussian", 1.0, "standard"),
    ]


def _first_boosting(profile: Profile) -> Settings:
    if profile.n < _LARGE:
        return _boosting(0.1, 15, profile)
    return _boosting(0.1, 31, profile, max_iter=400)


def _on_dense(profile: Profile) -> list[Settings]:
    return [
        _ridge("gaussian", 1.0),
        _trees("extra trees", 0.5, 1),
        _ridge("laplacian", 1.0),
        _first_boosting(profile),
        {"map": "logistic", "scaling": "standard"},
        _learnt("matern", profile),
        _ridge("gaussian", 0.2),
        _trees("extra trees", "sqrt", 1),
        _ridge("gaussian", 1.0, "quantile"),
        {"map": "neighbours", "scaling": "standard"},
        _trees("random forest", 0.33, 10),
        _trees("extra trees", 0.5, 10),
        _trees("extra trees", 1.0, 3),
        _ridge("linear"),
        _ridge("matern", 1.0),
        _boosting(0.05, 31, profile, max_features=0.5),
        _learnt("laplacian", profile),
        _ridge("laplacian", 0.3, "quantile"),
        _ridge("gaussian", 4.0),
        _trees("random forest", 0.5, 3),
    ]


def _on_table(profile: Profile) -> list[Settings]:
    """Return settings for what `TableEncoder` made of columns, which it has scaled."""
    return [
        _ridge("gaussian", 1.0, "none"),
        _trees("extra trees", 0.5, 1),
        _aligned("gaussian", profile),
        _first_boosting(profile),
        {"map": "logistic", "scaling": "none"},
        _learnt("matern", profile, "none"),
        _ridge("laplacian", 1.0, "none"),
        _aligned("matern", profile),
        _trees("random forest", 0.33, 3),
        _ridge("gaussian", 0.2, "none"),
        _boosting(0.05, 31, profile, max_features=0.5),
        _ridge("linear", scaling="none"),
        _ridge("gaussian", 1.0),
        {"map": "neighbours", "scaling": "none"},
        _trees("extra trees", 0.5, 10),
        _aligned("laplacian", profile),
        _trees("extra trees", 1.0, 3),
        _ridge("gaussian", 0.2, "standard"),
        _learnt("laplacian", profile, "none"),
    ]


def neighbours(settings: Settings, profile: Profile) -> Iterator[Settings]:
    """Yield settings that differ from good ones in one respect, likely gains first."""
    changes = _CHANGES.get(family(settings))
    if changes is not None:
        yield from (_placed(one, profile) for one in changes(settings, profile))


def _others(settings: Settings, name: str, values: tuple[str, ...]) -> Iterator[Settings]:
    """Yield settings with each value of one of them that it has not."""
    return ({**settings, name: value} for value in values if value != settings[name])


def _ridge_changes(settings: Settings, profile: Profile) -> Iterator[Settings]:
    if "width" in settings:
        for factor in (2.0, 0.5, 4.0, 0.25):
            yield {**settings, "width": settings["width"] * factor}
    if profile.is_object:
        return
    kernels = ("matern", "gaussian") if profile.is_sparse else ("laplacian", "matern", "gaussian")
    for other in _others(settings, "kernel", kernels):
        yield {**other, "width": settings.get("width", 1.0)}
    scalings = ("unit", "tfidf", "none") if profile.is_sparse else ("quantile", "standard", "none")
    yield from _others(settings, "scaling", scalings)


def _learnt_changes(settings: Settings, profile: Profile) -> Iterator[Settings]:
    yield from _others(settings, "kernel", ("matern", "gaussian", "laplacian"))
    scalings = ("none", "standard") if profile.groups else ("quantile", "standard")
    yield from _others(settings, "scaling", scalings)


def _forest_changes(settings: Settings, profile: Profile) -> Iterator[Settings]:
    leaf, features = settings["min_samples_leaf"], settings["max_features"]
    for other in (2 * leaf + 1, leaf // 2):
        if 1 <= other <= profile.n // 8:
            yield {**settings, "min_samples_leaf": other}
    steps = ["sqrt", 0.25, 0.5, 1.0]
    at = steps.index(features) if features in steps else 1
    for other in (at + 1, at - 1):
        if 0 <= other < len(steps):
            yield {**settings, "max_features": steps[other]}
    swapped = {"extra trees": "random forest", "random forest": "extra trees"}
    yield {**settings, "map": swapped[settings["map"]]}


def _boosting_changes(settings: Settings, profile: Profile) -> Iterator[Settings]:
    rate = settings["learning_rate"]
    leaf, leaves = settings["min_samples_leaf"], settings["max_leaf_nodes"]
    if rate > 0.03:
        yield {**settings, "learning_rate": rate / 2, "max_iter": 2 * settings["max_iter"]}
    for other in (leaves // 2, 2 * leaves + 1):
        if 3 <= other <= 127:
            yield {**settings, "max_leaf_nodes": other}
    yield {**settings, "max_features": 0.3 if settings["max_features"] == 1.0 else 1.0}
    for other in (leaf // 2, 2 * leaf):
        if 1 <= other <= profile.n // 8:
            yield {**settings, "min_samples_leaf": other}
    if settings["subsample"] is None:
        yield {**settings, "l2": 5.0 if settings["l2"] == 0.0 else 0.0}


def _neighbour_changes(settings: Settings, profile: Profile) -> Iterator[Settings]:
    scalings = ("unit", "tfidf") if profile.is_sparse else ("quantile", "none", "standard")
    return _others(settings, "scaling", scalings)


_CHANGES = {
    "kernel ridge": _ridge_changes,
    "learnt ridge": _learnt_changes,
    "aligned ridge": _learnt_changes,
    "forest": _forest_changes,
    "boosting": _boosting_changes,
    "neighbours": _neighbour_changes,
    "logistic": _neighbour_changes,
}
