"""The candidates of each query with their scores, best first, by any predictor that ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import n_rows, row_slices
from ..decoding.base import able
from ..decoding.pools import EmbeddedPool, check_one_for_each, taken, truth_in
from ..rows import block_rows, source

__all__ = ["Lists", "Ranker"]

# Bytes that a candidate takes while it is looked at for a query.
_ENTRY_BYTES = 128


@dataclass(frozen=True)
class Lists:
    """The distinct candidates of some queries, one query after another, best first.

    Attributes
    ----------
    indptr : ndarray of int, shape (n + 1,)
        Where the candidates of each query begin; none has fewer than one.
    number : ndarray of int, shape (m,)
        Which of the distinct candidates of the pool it is.
    place : ndarray of int, shape (m,)
        Where in the pool it is; of a set, the first of the set's own.
    score : ndarray of shape (m,)
        By the predictor.
    prior : ndarray of shape (m,), or None
        log(1/2 + how often the candidate was among the training outputs).
    """

    indptr: np.ndarray
    number: np.ndarray
    place: np.ndarray
    score: np.ndarray
    prior: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def sizes(self) -> np.ndarray:
        """The number of candidates of each query."""
        return np.diff(self.indptr)

    @property
    def query_of(self) -> np.ndarray:
        """The query that each candidate belongs to."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def position(self) -> np.ndarray:
        """The place of each candidate in its list, from 0."""
        return np.arange(len(self.number)) - self.indptr[self.query_of]

    def entries(self, numbers: np.ndarray) -> np.ndarray:
        """Return the entry of one candidate of each query, -1 where it is not in its list."""
        query = self.query_of
        hits = np.flatnonzero(self.number == numbers[query])
        out = np.full(len(self), -1, dtype=np.intp)
        out[query[hits]] = hits
        return out

    def of(self, queries: np.ndarray) -> Lists:
        """Return the lists of some queries."""
        sizes = self.sizes[queries]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(self.indptr[:-1][queries] - indptr[:-1], sizes) + np.arange(indptr[-1])
        prior = None if self.prior is None else self.prior[rows]
        return Lists(indptr, self.number[rows], self.place[rows], self.score[rows], prior)

    @classmethod
    def joined(cls, parts: list[Lists]) -> Lists:
        """Return several lists as one."""
        if len(parts) == 1:
            return parts[0]
        sizes = np.concatenate([part.sizes for part in parts])
        columns: list[Any] = [
            None if getattr(parts[0], name) is None
            else np.concatenate([getattr(part, name) for part in parts])
            for name in ("number", "place", "score", "prior")
        ]  # fmt: skip
        return cls(np.concatenate([[0], np.cumsum(sizes)]), *columns)


class Ranker:
    """A fitted predictor, or a pipeline that ends in one, and its candidates.

    Parameters
    ----------
    model : predictor
        With `embed` and `rank`, and `matched` or a decoder that has it.
    who : str
        In whose name to raise.
    """

    def __init__(self, model: Any, who: str) -> None:
        self.before, self.last, self.who = None, model, who
        if isinstance(model, Pipeline):
            self.before, self.last = model[:-1] if len(model) > 1 else None, model[-1]
        if not all(callable(getattr(self.last, name, None)) for name in ("embed", "rank")):
            raise TypeError(
                f"{who} takes a predictor that ranks candidates, or a Pipeline that ends in one. "
                f"Got {type(self.last).__name__} instead; of a search, give best_estimator_."
            )
        if hasattr(self.last, "fit"):
            check_is_fitted(self.last)

    def inputs(self, X: Any) -> Any:
        """Return the rows as the predictor takes them."""
        return X if self.before is None else self.before.transform(X)

    @property
    def searcher(self) -> Any:
        """The decoder of the predictor, or None where it has none of its own."""
        return getattr(self.last, "decoder_", None)

    @property
    def made_by(self) -> str | None:
        """What stands for this fit of the model; None where it does not say."""
        return _name_of(self.last)

    def matched(self, Y: Any, pool: Any, n: int) -> np.ndarray:
        """Return the distinct candidate that the true object of each of n queries is, or -1."""
        if n_rows(Y) != n:
            raise ValueError(f"X and Y must be of equal length. Got {n} and {n_rows(Y)}.")
        return _matched(self.last, Y, pool, n, self.who)

    def lists(
        self, X: Any, pool: Any, rows: np.ndarray | None = None, *, prior: bool = False
    ) -> Iterator[Lists]:
        """Yield the lists of blocks of queries.

        Parameters
        ----------
        X : what the predictor takes, n rows
        pool : what `embed` of the predictor returned
        rows : ndarray of int, optional
            Numbers of the queries, if not all.
        prior : bool, default False
            Look up how often candidates were among the training outputs, if the model knows it.
        """
        X, plain = self.inputs(X), plain_pool(pool)
        check_one_for_each(plain, n_rows(X))
        known = self._priors(plain) if prior else None
        numbers = np.arange(n_rows(X)) if rows is None else rows
        size = block_rows(len(numbers), _ENTRY_BYTES * max(1, plain.largest))
        for some in row_slices(len(numbers), size):
            part = numbers[some]
            if len(part) == n_rows(X):  # as it was given
                yield self._ranked(X, pool, known)
            else:
                yield self._ranked(source(X).take(part), _part(pool, part), known)

    def _ranked(self, X: Any, pool: Any, known: np.ndarray | None) -> Lists:
        plain = plain_pool(pool)
        index, scores = (np.asarray(one) for one in self.last.rank(X, pool, k=plain.largest))
        query, column = np.nonzero(index >= 0)
        place = index[query, column]
        if plain.is_per_query:
            place = plain.objects.indices[plain.objects.indptr[query] + place]
        number = plain.inverse[place]
        # copies follow one another's score: the first of them stays
        key = query * len(plain.first) + number
        first = np.sort(np.unique(key, return_index=True)[1])
        query, column, number, place = (A[first] for A in (query, column, number, place))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=len(index)))])
        _check_found(indptr)
        prior = None if known is None else known[number]
        return Lists(indptr, number, place, scores[query, column], prior)

    def _priors(self, pool: EmbeddedPool) -> np.ndarray | None:
        """Return log(1/2 + count) of each distinct candidate, None where no counts are known."""
        decoder: Any = getattr(_innermost(self.last), "decoder_", None)
        if not all(hasattr(decoder, name) for name in ("embed", "matched")):
            return None
        try:
            known = decoder.embed(None)
        except ValueError:  # saved without candidates, or too many to be kept
            return None
        counts = getattr(known, "counts", None)
        if counts is None:
            return None
        place = decoder.matched(taken(pool.pool, pool.first), known)
        return np.log(0.5 + np.where(place >= 0, counts[place], 0))


def plain_pool(pool: Any) -> EmbeddedPool:
    """Return an embedded pool: of several members, that of all together."""
    return pool.pool if hasattr(pool, "parts") else pool


def _part(pool: Any, some: np.ndarray) -> Any:
    """Return the candidates of some queries."""
    if hasattr(pool, "parts"):
        parts = tuple(_part(one, some) for one in pool.parts)
        return replace(pool, parts=parts, pool=_part(pool.pool, some))
    if not pool.is_per_query:
        return pool
    return replace(pool, objects=pool.objects.of_queries(some.tolist()))


def _innermost(model: Any) -> Any:
    """Return the predictor of coordinates in a wrapper; the first of several."""
    while not hasattr(model, "decoder_"):
        if hasattr(model, "members_"):
            model = model.members_[0]
        elif hasattr(model, "predictor_"):
            model = model.predictor_
            model = model[-1] if isinstance(model, Pipeline) else model
        else:
            break
    return model


def _matched(model: Any, Y: Any, pool: Any, n: int, who: str) -> np.ndarray:
    if hasattr(model, "decoder_"):
        return truth_in(pool, able(model.decoder_, "matched", by=who), Y, n)
    if hasattr(model, "predictor_"):  # what wraps one
        inner = model.predictor_
        return _matched(inner[-1] if isinstance(inner, Pipeline) else inner, Y, pool, n, who)
    if not callable(getattr(model, "matched", None)):
        kind = type(model).__name__
        raise TypeError(
            f"{who} needs a predictor with matched(Y, pool), and {kind} has none: write it."
        )
    return model.matched(Y, pool)


def _name_of(model: Any) -> str | None:
    """Return what stands for a fit: the predictor's own name, or those of what is inside."""
    if isinstance(getattr(model, "made_by", None), str):
        return model.made_by
    if hasattr(model, "decoder_"):
        return getattr(model.decoder_, "made_by", None)
    names = [_name_of(one) for one in getattr(model, "members_", ())]
    return " ".join(name for name in names if name) or None


def _check_found(indptr: np.ndarray) -> None:
    empty = np.flatnonzero(np.diff(indptr) == 0)
    if len(empty):
        raise ValueError(
            f"No candidate was found for query {empty[0]}: search all of them, with index=None."
        )
