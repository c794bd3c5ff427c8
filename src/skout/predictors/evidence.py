"""What is known of a query and a candidate: scores by parts of a model, ranks, columns of users.

A predictor is asked once for all queries: it lists the best candidates of each, and says what
their scores are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows, row_slices
from ..decoding.base import able
from ..decoding.ensembles import EmbeddedPools
from ..decoding.pools import EmbeddedPool, taken, truth_in
from ..decoding.search import TIE
from ..decoding.sets import set_scores
from ..predictor import split_pipeline
from ..rows import source
from .hubs import hub_prices
from .lists import Lists, in_pool

__all__ = ["OWN", "Asked", "asked", "check_features", "columns_of", "evidence", "in_spreads"]

#: Names of the features that are made here, and of those that every predictor has.
OWN = ("score", "rank", "ways", "members", "price")
AUTO = "auto"
_ALWAYS = ("score", "rank", "ways", "members")
# Pairs of queries and candidates that a function of a user gets at a time.
_PAIRS = 2**15
_TINY = np.finfo(np.float64).tiny


class Asked:
    """A model of coordinates, asked for the candidates of some queries."""

    def __init__(self, model: Any, X: Any, candidates: Any) -> None:
        methods = ("embed", "queries", "matched", "truth_ranks")
        self.model, self.decoder = model, able(model.decoder_, *methods, by="Reranker")
        self.pool = self.decoder.embed(candidates)
        self.F = np.asarray(model.predict_coordinates(X))
        self.X, self.n = X, len(self.F)

    def listed(self, k: int) -> Lists:
        """Return the k best candidates of each query, or all if there are fewer."""
        found = self.decoder.rank(self.F, self.pool, k=max(1, min(k, self.pool.largest)))
        return Lists.found(found, self.pool)

    def truth(self, Y: Any) -> np.ndarray:
        """Return the distinct candidate that each true object is, or -1."""
        return truth_in(self.pool, self.decoder, Y, self.n)

    def matched(self, Y: Any) -> np.ndarray:
        """Return the distinct candidate that each object is, whosever it may be, or -1."""
        return self.decoder.matched(Y, self.pool)

    def truth_ranks(self, Y: Any, ties: str) -> np.ndarray:
        return self.decoder.truth_ranks(self.F, Y, self.pool, ties=ties)

    def ways(self, listed: Lists) -> dict[str, np.ndarray]:
        """Return the scores by each way, if there are two."""
        basis = self.decoder.basis_
        if not hasattr(basis, "scores_by_way"):
            return {}
        return basis.scores_by_way(self.F, self.pool.embedding, listed.indptr, listed.number)

    def price(self, listed: Lists, references: Any) -> dict[str, np.ndarray]:
        """Return what candidates pay for being near to predictions of other queries."""
        used, number = np.unique(listed.number, return_inverse=True)
        some = self.pool.of_numbers(used, used)
        F, truth = references
        places = np.searchsorted(used, truth)
        inside = used[np.minimum(places, len(used) - 1)] == truth
        prices = hub_prices(F, some, np.where(inside, places, -1), share=1.0)
        return {"price": -np.linalg.norm(self.F, axis=1)[listed.query_of] * prices[number]}

    def references(self, Y: Any, most: int, rng: np.random.Generator) -> Any:
        """Return predictions of queries that the model has not seen, and their true candidates."""
        some = np.sort(rng.permutation(self.n)[:most])
        return self.F[some], self.truth(Y)[some]


class _AskedTogether:
    """The same of an ensemble: its members have coordinates of their own, and scores."""

    def __init__(self, model: Any, X: Any, candidates: Any) -> None:
        self.model, self.X, self.n = model, X, n_rows(X)
        self.pools: EmbeddedPools = model.embed(candidates)
        self.pool = self.pools.pool
        self.queries = model._queries(X, self.pools)

    def listed(self, k: int) -> Lists:
        blend = self.model._blend(self.queries, self.pools)
        return Lists.found(blend.best(max(1, min(k, self.pool.largest))), self.pool)

    def truth(self, Y: Any) -> np.ndarray:
        return self.model._truth(Y, self.pools, self.n)

    def truth_ranks(self, Y: Any, ties: str) -> np.ndarray:
        return self.model.truth_ranks(self.X, Y, self.pools, ties=ties)

    def members(self, listed: Lists) -> dict[str, np.ndarray]:
        """Return the score by each member."""
        pairs = zip(self.queries, self.pools.embeddings, strict=True)
        return {
            f"member {t}": set_scores(Q, E, listed.indptr, listed.number)
            for t, (Q, E) in enumerate(pairs)
        }

    def references(self, Y: Any, most: int, rng: np.random.Generator) -> Any:
        return None


def asked(model: Any, X: Any, candidates: Any) -> Any:
    """Ask a fitted predictor, or a Pipeline that ends in one, for the candidates of queries."""
    before, last = split_pipeline(model)
    X = X if before is None else before.transform(X)
    kind = _AskedTogether if hasattr(last, "members_") else Asked
    return kind(last, X, candidates)


# Features ----------------------------------------------------------------------------------------


def check_features(features: Any) -> tuple[Any, ...]:
    """Return names and functions, "auto" and one function alone spelt out; raise for others."""
    if isinstance(features, str):
        features = (features,)
    elif callable(features):
        features = (AUTO, features)
    if not isinstance(features, Sequence):
        raise TypeError(
            "features must be names, functions (queries, candidates) -> columns, or a list of "
            f"both. Got {features!r} instead."
        )
    for one in features:
        if not callable(one) and one not in (AUTO, *OWN):
            raise ValueError(
                f"features has {one!r}, which is neither a function nor one of "
                f"{', '.join(map(repr, (AUTO, *OWN)))}."
            )
    return tuple(features)


def evidence(
    given: Any,
    listed: Lists,
    features: tuple[Any, ...],
    X: Any,
    columns: np.ndarray | None = None,
    references: Any = None,
) -> tuple[list[str], np.ndarray]:
    """Return names of features and their values, shape (m, d); the predictor's score is first.

    Scores come as they are and, "in spreads", from the mean of the query's list in units of how
    much they vary in it. The lists have no copies; `columns` of the user, shape (m, d), are of
    their pairs, and `references` are for prices.
    """
    wanted = {*features} | ({*_ALWAYS} if AUTO in features else set())
    found: dict[str, np.ndarray] = {"score": listed.score}
    for name in ("ways", "members", "price"):
        if name in wanted:
            ask: Any = getattr(given, name, lambda *given: {})
            own = ask(listed, references) if name == "price" else ask(listed)
            if not own and name in features:
                raise ValueError(_missing(name, given.model))
            found |= own
    found |= {f"{name} in spreads": in_spreads(s, listed.indptr) for name, s in found.items()}
    if "rank" in wanted:
        found["log rank"] = -np.log1p(listed.position)
    names, values = [*found], [*found.values()]
    for one in features:
        if callable(one):
            more = _called(one, given.pool, listed, X)
            names += _names(getattr(one, "__name__", type(one).__name__), more.shape[1])
            values += [*more.T]
    if columns is not None:
        names, values = names + _names("column", columns.shape[1]), [*values, *columns.T]
    return names, np.column_stack(values)


def _missing(name: str, model: Any) -> str:
    why = {
        "ways": "TwoWay has two ways",
        "members": "Ensemble has members",
        "price": "models with one set of coordinates have prices, ensembles none",
    }[name]
    return f"features has {name!r}, which {type(model).__name__} cannot give: {why}. Leave it out."


def _names(name: str, d: int) -> list[str]:
    return [name] if d == 1 else [f"{name} {j}" for j in range(d)]


def in_spreads(score: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Return (s - mean) / standard deviation within each query's list; 0 where all are equal."""
    sizes, starts = np.diff(indptr), indptr[:-1]
    query, filled = np.repeat(np.arange(len(sizes)), sizes), sizes > 0
    mean, spread = np.zeros(len(sizes)), np.zeros(len(sizes))
    mean[filled] = np.add.reduceat(score, starts[filled]) / sizes[filled]
    inner = score - mean[query]
    spread[filled] = np.sqrt(np.add.reduceat(inner**2, starts[filled]) / sizes[filled])
    spread[spread <= TIE * np.abs(score).max(initial=0.0)] = np.inf
    return inner / spread[query]


def _called(function: Callable[..., Any], pool: EmbeddedPool, listed: Lists, X: Any) -> np.ndarray:
    """Return the columns that a function of a user makes of pairs."""
    rows, parts, query = source(X), [], listed.query_of
    name = getattr(function, "__name__", repr(function))
    for some in row_slices(len(query), _PAIRS):
        at = in_pool(listed.place[some], pool, query[some])
        made = np.asarray(function(rows.take(query[some]), taken(pool.pool, at)), dtype=np.float64)
        made = made[:, None] if made.ndim == 1 else made
        if made.ndim != 2 or len(made) != len(at):
            raise ValueError(
                f"{name} must return one row of numbers for each of {len(at)} pairs. Got shape "
                f"{made.shape} instead."
            )
        parts.append(made)
    found = np.concatenate(parts) if parts else np.empty((0, 1))
    return _finite(found, f"{name} returned")


def columns_of(columns: Any, pool: EmbeddedPool, listed: Lists, rows: np.ndarray) -> np.ndarray:
    """Return the user's columns, of the shapes of `check_columns`, of listed pairs, shape (m, d).

    The rows say where the columns of queries begin, if each has a set; else they are their numbers.
    """
    values = np.asarray(columns, dtype=np.float64)
    query = rows[listed.query_of]
    if pool.is_per_query:
        found = values[query + listed.place]
    elif values.ndim == 3:
        found = values[query, listed.place]
    else:
        found = values[listed.place]
    found = found[:, None] if found.ndim == 1 else found
    return _finite(found, "columns has")


def _finite(values: np.ndarray, what: str) -> np.ndarray:
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{what} numbers that are not finite: give a number for each pair.")
    return values
