"""Features of pairs of a query and a candidate, for re-ranking: scores, ranks, columns of users.

A predictor searches once for all queries: it lists the best candidates of each, with their scores
and the scores by each part of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .._numerics.arrays import n_rows, row_slices
from .._numerics.typing import Candidates, Estimator, Floats, Ints, Matrix, Objects, Rng
from ..decoding.base import able, split_pipeline
from ..decoding.ensembles import EmbeddedPools
from ..decoding.pools import EmbeddedPool, taken, truth_in
from ..decoding.search import TIE
from ..decoding.sets import set_scores
from ..rows import source
from .hubness import hubness_penalties
from .lists import Lists, in_pool

#: Names of the features that are computed here; "auto" is all but the last.
FEATURES = ("score", "rank", "directions", "members", "hubness")
AUTO = "auto"
# Features that not every model has, and why, for errors.
_MISSING = {
    "directions": "TwoWay has two directions",
    "members": "Ensemble has members",
    "hubness": "models with one set of coordinates have penalties, ensembles have none",
}
# Pairs that a user's function gets at a time, to bound the memory.
_PAIRS = 2**15

#: A name, or a function (queries, candidates) -> columns.
Feature: TypeAlias = str | Callable[[Objects, Objects], Matrix]
Features: TypeAlias = Feature | Sequence[Feature]
#: Predicted coordinates of queries, and the number of the true candidate of each, or -1.
References: TypeAlias = tuple[np.ndarray, np.ndarray]


class QueryResults:
    """The candidates of queries by a fitted model, and their scores by parts of the model."""

    decoder: Estimator
    model: Estimator

    def __init__(self, model: Estimator, X: Objects, candidates: Candidates) -> None:
        methods = ("embed", "queries", "matched", "truth_ranks")
        self.model, self.decoder = model, able(model.decoder_, *methods, by="Reranker")
        self.pool: Any = self.decoder.embed(candidates)
        self.F = np.asarray(model.predict_coordinates(X))
        self.n: int = len(self.F)

    def listed(self, k: int) -> Lists:
        """Return the k best candidates of each query, or all if there are fewer."""
        ranked = self.decoder.rank(self.F, self.pool, k=max(1, min(k, self.pool.largest)))
        return Lists.of_ranking(ranked, self.pool)

    def truth(self, Y: Objects) -> np.ndarray:
        """Return the number of the distinct candidate that equals each true object, or -1."""
        return truth_in(self.pool, self.decoder, Y, self.n)

    def truth_ranks(self, Y: Objects, ties: str) -> np.ndarray:
        """Return the rank of the true object of each query by the model."""
        ranks: Floats = self.decoder.truth_ranks(self.F, Y, self.pool, ties=ties)
        return ranks

    def scores(self, name: str, listed: Lists, references: References | None) -> dict[str, Floats]:
        """Return the scores of candidates by a part of the model; {} where it has no such part.

        "directions": by each direction of a `TwoWay`; "members": by each member of an `Ensemble`;
        "hubness": minus the hubness penalty, which needs references.
        """
        by_direction = getattr(self.decoder.basis_, "scores_by_direction", None)
        if name == "directions" and by_direction is not None:
            embedding, lists = self.pool.embedding, (listed.indptr, listed.number)
            scores: dict[str, Floats] = by_direction(self.F, embedding, *lists)
            return scores
        if name != "hubness" or references is None:
            return {}
        used, number = np.unique(listed.number, return_inverse=True)
        F, truth = references
        places = np.searchsorted(used, truth)
        is_used = used[np.minimum(places, len(used) - 1)] == truth
        penalties = hubness_penalties(
            F, self.pool.of_numbers(used, used), np.where(is_used, places, -1), share=1.0
        )
        return {"hubness": -np.linalg.norm(self.F, axis=1)[listed.query_of] * penalties[number]}

    def references(self, Y: Objects, most: int, rng: Rng) -> References | None:
        """Return up to `most` predictions and true candidates, for hubness penalties."""
        sample = np.sort(rng.permutation(self.n)[:most])
        return self.F[sample], self.truth(Y)[sample]


class _EnsembleResults(QueryResults):
    """The results of an ensemble, whose members have coordinates of their own: no hubness."""

    def __init__(self, model: Estimator, X: Objects, candidates: Candidates) -> None:
        self.model, self.X, self.n = model, X, n_rows(X)
        self.pools: EmbeddedPools = model.embed(candidates)
        self.pool = self.pools.pool
        self.queries = model._queries(X, self.pools)

    def listed(self, k: int) -> Lists:
        blend = self.model._blend(self.queries, self.pools)
        return Lists.of_ranking(blend.best(max(1, min(k, self.pool.largest))), self.pool)

    def truth(self, Y: Objects) -> np.ndarray:
        numbers: Ints = self.model._truth(Y, self.pools, self.n)
        return numbers

    def truth_ranks(self, Y: Objects, ties: str) -> np.ndarray:
        ranks: Floats = self.model.truth_ranks(self.X, Y, self.pools, ties=ties)
        return ranks

    def scores(self, name: str, listed: Lists, references: References | None) -> dict[str, Floats]:
        members = zip(self.queries, self.pools.embeddings, strict=True)
        return {
            f"member {t}": set_scores(Q, E, listed.indptr, listed.number)
            for t, (Q, E) in enumerate(members)
            if name == "members"
        }

    def references(self, Y: Objects, most: int, rng: Rng) -> References | None:
        return None


def searched(model: Estimator, X: Objects, candidates: Candidates) -> QueryResults:
    """Return the results of a search by a fitted predictor, or a Pipeline that ends in one."""
    before, last = split_pipeline(model)
    X = X if before is None else before.transform(X)
    is_ensemble = hasattr(last, "members_")
    return (_EnsembleResults if is_ensemble else QueryResults)(last, X, candidates)


# Features ----------------------------------------------------------------------------------------


def check_features(features: Features) -> tuple[Feature, ...]:
    """Return names and functions as a tuple; a function alone comes in addition to "auto"."""
    if isinstance(features, str):
        features = (features,)
    elif callable(features):
        features = (AUTO, features)
    if not isinstance(features, Sequence):
        raise TypeError(
            "features must be names, functions (queries, candidates) -> columns, or a list of "
            f"both. Got {features!r} instead."
        )
    for feature in features:
        if not callable(feature) and feature not in (AUTO, *FEATURES):
            raise ValueError(
                f"features has {feature!r}, which is neither a function nor one of "
                f"{', '.join(map(repr, (AUTO, *FEATURES)))}."
            )
    return tuple(features)


def reranking_features(
    results: QueryResults,
    listed: Lists,
    features: tuple[Feature, ...],
    X: Objects,
    columns: np.ndarray | None = None,
    references: References | None = None,
) -> tuple[list[str], np.ndarray]:
    """Return names of features and their values, shape (m, d); the predictor's score is first.

    Scores come as they are and standardized within the list of each query. The lists
    have no duplicates; `columns` of the user, shape (m, d), belong to their pairs, and `references`
    are for hubness penalties.
    """
    names = {*features} | ({*FEATURES[:-1]} if AUTO in features else set())
    values = {"score": listed.score}
    for name in [part for part in _MISSING if part in names]:
        scores = results.scores(name, listed, references)
        if not scores and name in features:
            raise ValueError(
                f"features has {name!r}, which {type(results.model).__name__} cannot give: "
                f"{_MISSING[name]}. Leave it out."
            )
        values |= scores
    values |= {f"standardized {name}": standardized(s, listed.indptr) for name, s in values.items()}
    if "rank" in names:
        values["log rank"] = -np.log1p(listed.position)
    titles, arrays = [*values], [*values.values()]
    for feature in features:
        if not isinstance(feature, str):
            more = _called(feature, results.pool, listed, X)
            titles += _titles(getattr(feature, "__name__", type(feature).__name__), more.shape[1])
            arrays += [*more.T]
    if columns is not None:
        titles, arrays = titles + _titles("column", columns.shape[1]), [*arrays, *columns.T]
    return titles, np.column_stack(arrays)


def _titles(name: str, d: int) -> list[str]:
    """Return the names of d columns."""
    return [name] if d == 1 else [f"{name} {j}" for j in range(d)]


def standardized(score: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Return (s - mean) / standard deviation within each query's list, 0 where all are equal."""
    sizes, starts = np.diff(indptr), indptr[:-1]
    query, filled = np.repeat(np.arange(len(sizes)), sizes), sizes > 0
    mean, spread = np.zeros(len(sizes)), np.zeros(len(sizes))
    mean[filled] = np.add.reduceat(score, starts[filled]) / sizes[filled]
    inner = score - mean[query]
    spread[filled] = np.sqrt(np.add.reduceat(inner**2, starts[filled]) / sizes[filled])
    spread[spread <= TIE * np.abs(score).max(initial=0.0)] = np.inf
    return inner / spread[query]


def _called(
    function: Callable[[Objects, Objects], Matrix], pool: EmbeddedPool, listed: Lists, X: Objects
) -> np.ndarray:
    """Return the columns that a user's function computes for pairs, or raise for a wrong shape."""
    rows, parts, query = source(X), [np.empty((0, 1))], listed.query_of
    name = getattr(function, "__name__", repr(function))
    for part in row_slices(len(query), _PAIRS):
        at = in_pool(listed.place[part], pool, query[part])
        values = np.asarray(
            function(rows.take(query[part]), taken(pool.pool, at)), dtype=np.float64
        )
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or len(values) != len(at):
            raise ValueError(
                f"{name} must return one row of numbers for each of {len(at)} pairs. Got shape "
                f"{values.shape} instead."
            )
        parts.append(values)
    return _finite(np.concatenate(parts[1:] or parts), f"{name} returned")


def columns_of(columns: Matrix, pool: EmbeddedPool, listed: Lists, rows: np.ndarray) -> np.ndarray:
    """Return the user's columns, of the shapes of `check_columns`, of listed pairs, shape (m, d).

    `rows` are the positions at which the columns of queries begin, if each has a set of its own;
    else the numbers of the queries.
    """
    values = np.asarray(columns, dtype=np.float64)
    query = rows[listed.query_of]
    if pool.is_per_query:
        pairs = values[query + listed.place]
    elif values.ndim == 3:
        pairs = values[query, listed.place]
    else:
        pairs = values[listed.place]
    return _finite(pairs[:, None] if pairs.ndim == 1 else pairs, "columns has")


def _finite(values: np.ndarray, what: str) -> np.ndarray:
    """Return the values, or raise unless all are finite."""
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{what} numbers that are not finite: give a number for each pair.")
    return values
