"""The candidates of each query with their scores, best first, by any predictor that ranks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import n_rows, row_slices
from .._numerics.estimators import PartsByName
from .._numerics.typing import Array, Candidates, Estimator, Floats, Index, Ints, Objects
from ..decoding.base import able, split_pipeline
from ..decoding.pools import EmbeddedPool, check_one_for_each, taken, truth_in
from ..decoding.sets import PerQuery
from ..predictor import ObjectPredictor
from ..rows import block_rows, source

# Bytes that a candidate takes while a query ranks it: positions, scores and their sort.
_ENTRY_BYTES = 128


class QueryColumns(PerQuery):
    """Base class of lists of candidates: columns with a value per entry, or one per query.

    Entries are the candidates of query 0, then those of query 1, and so on. Columns may be None;
    the column `truth` has the entry of the true candidate, or -1.
    """

    by_entry: ClassVar[tuple[str, ...]]
    by_query: ClassVar[tuple[str, ...]]

    @property
    def position(self) -> Ints:
        """The place of each entry among those of its query, from 0."""
        return np.arange(self.indptr[-1], dtype=np.intp) - self.indptr[self.query_of]

    def of(self, queries: np.ndarray) -> Self:
        """Return the lists of these queries alone."""
        sizes = self.sizes[queries]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        moves = indptr[:-1] - self.indptr[queries]
        entries = np.arange(indptr[-1]) - np.repeat(moves, sizes)

        def column(name: str) -> Any:
            values = getattr(self, name)
            return None if values is None else values[entries if name in self.by_entry else queries]

        return self._laid_out(indptr, moves, column)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the lists of several parts, one after the other."""
        starts = np.cumsum([0, *(part.indptr[-1] for part in parts)])[:-1]
        moves = np.repeat(starts, [len(part) for part in parts])
        ends = np.concatenate([part.indptr[1:] for part in parts]) + moves

        def column(name: str) -> Any:
            columns = [getattr(part, name) for part in parts]
            return None if columns[0] is None else np.concatenate(columns)

        return cls._laid_out(np.concatenate([[0], ends]), moves, column)

    @classmethod
    def _laid_out(
        cls, indptr: np.ndarray, moves: np.ndarray, column: Callable[[str], np.ndarray | None]
    ) -> Self:
        """Return lists of these columns, with `truth` shifted by `moves`, one for each query."""
        columns = {name: column(name) for name in (*cls.by_entry, *cls.by_query)}
        truth = columns.get("truth")
        if truth is not None:
            columns["truth"] = np.where(truth >= 0, truth + moves, -1)
        return cls(indptr=indptr, **columns)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Lists(QueryColumns):
    """The candidates of queries, best first."""

    by_entry: ClassVar[tuple[str, ...]] = ("number", "place", "score", "prior")
    by_query: ClassVar[tuple[str, ...]] = ("truth",)

    indptr: Ints  # (n + 1,)
    number: Ints  # (m,) which of the distinct candidates of the pool it is
    place: Ints  # (m,) where it is, in the pool or in the query's own set
    score: Floats  # (m,) by the predictor
    prior: Floats | None = None  # (m,) log(1/2 + its count among the training outputs)
    truth: Any = None  # (n,) the entry of the true candidate, -1 where it is not listed

    @classmethod
    def of_ranking(cls, ranked: tuple[Array, Array], pool: EmbeddedPool) -> Lists:
        """Return as lists the positions and scores that `rank` returned."""
        index, scores = map(np.asarray, ranked)
        is_filled = index >= 0
        query, place = np.nonzero(is_filled)[0], index[is_filled]
        number = pool.inverse[in_pool(place, pool, query)]
        indptr = np.concatenate([[0], np.cumsum(is_filled.sum(axis=1))])
        return cls(indptr, number, place, scores[is_filled])

    def distinct(self) -> tuple[Lists, np.ndarray, np.ndarray]:
        """Return the lists without duplicates, which entries were kept, and the number among those
        of each entry."""
        width = int(self.number.max(initial=0)) + 1
        key = self.query_of * width + self.number
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        order = np.argsort(first)
        where = np.empty(len(order), dtype=np.intp)
        where[order] = np.arange(len(order))
        return self.select(first[order]), first[order], where[inverse]

    def select(self, keep: np.ndarray) -> Lists:
        """Return the lists of some entries, given by increasing positions or a mask."""
        sizes = np.bincount(self.query_of[keep], minlength=len(self))
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        return Lists(indptr, self.number[keep], self.place[keep], self.score[keep])

    def entries(self, numbers: np.ndarray) -> np.ndarray:
        """Return where each query lists the candidate of its number, -1 where it does not."""
        query = self.query_of
        hits = np.flatnonzero(self.number == numbers[query])
        out = np.full(len(self), -1, dtype=np.intp)
        out[query[hits]] = hits
        return out


def in_pool(place: Ints, pool: EmbeddedPool, query: Index = slice(-1)) -> Ints:
    """Return positions in the pool from those in each query's own set, if there are such sets.

    `query` is the query of each position; by default there is one position for each query.
    """
    if not pool.is_per_query:
        return place
    sets = pool.sets
    positions: Ints = sets.indices[sets.indptr[query] + place]
    return positions


def last_of(model: Estimator) -> Any:
    """Return the last step of a Pipeline, or the model itself."""
    return split_pipeline(model)[1]


class Ranker:
    """A fitted predictor, or a Pipeline that ends in one, which lists the candidates of queries.

    The predictor has `embed` and `rank`, and `matched` or a decoder that has it; `who` is named in
    errors.
    """

    before: Any
    last: Estimator

    def __init__(self, model: Estimator, who: str) -> None:
        self.before, self.last = split_pipeline(model)
        self.who = who
        if not all(callable(getattr(self.last, name, None)) for name in ("embed", "rank")):
            raise TypeError(
                f"{who} takes a predictor that ranks candidates, or a Pipeline that ends in one. "
                f"Got {type(self.last).__name__} instead; of a search, give best_estimator_."
            )
        if hasattr(self.last, "fit"):
            check_is_fitted(self.last)

    def inputs(self, X: Objects) -> Any:
        """Return the rows as the predictor takes them."""
        return X if self.before is None else self.before.transform(X)

    @property
    def decoder(self) -> Any:
        """The decoder of the predictor, or None where it has none of its own."""
        return getattr(self.last, "decoder_", None)

    @property
    def made_by(self) -> str | None:
        """An identifier of this fit of the model; None if it has none."""
        return _name_of(self.last)

    def matched(self, Y: Objects, pool: EmbeddedPool, n: int) -> Any:
        """Return which distinct candidate is the true object of each query, -1 if none is."""
        if n_rows(Y) != n:
            raise ValueError(f"X and Y must be of equal length. Got {n} and {n_rows(Y)}.")
        return _matched(self.last, Y, pool, n, self.who)

    def lists(
        self,
        X: Objects,
        pool: Candidates,
        rows: np.ndarray | None = None,
        *,
        prior: bool = False,
        truth: np.ndarray | None = None,
    ) -> Iterator[Lists]:
        """Yield the candidate lists of blocks of queries, without duplicates.

        Places are positions in the pool. `rows` are the numbers of the queries, default all. With
        `prior` the lists have how often candidates were among the training outputs, if the model
        knows. `truth`, shape (n,), is what `matched` returns: the lists then have the entry of the
        true candidate.
        """
        X, plain = self.inputs(X), plain_pool(pool)
        check_one_for_each(plain, n_rows(X))
        priors = self._priors(plain) if prior else None
        numbers = np.arange(n_rows(X)) if rows is None else rows
        size = block_rows(len(numbers), _ENTRY_BYTES * max(1, plain.largest))
        for block in row_slices(len(numbers), size):
            part = numbers[block]
            if len(part) == n_rows(X):  # all, without a copy
                lists = self._ranked(X, pool)
            else:
                lists = self._ranked(source(X).take(part), _part(pool, part))
            yield replace(
                lists,
                prior=None if priors is None else priors[lists.number],
                truth=None if truth is None else lists.entries(truth[part]),
            )

    def _ranked(self, X: Objects, pool: Candidates) -> Lists:
        """Return the lists of all candidates of queries, or raise where a query has none."""
        plain = plain_pool(pool)
        lists = Lists.of_ranking(self.last.rank(X, pool, k=plain.largest), plain).distinct()[0]
        empty = np.flatnonzero(lists.sizes == 0)
        if len(empty):
            raise ValueError(
                f"No candidate was found for query {empty[0]}: search all of them, with index=None."
            )
        return replace(lists, place=in_pool(lists.place, plain, lists.query_of))

    def _priors(self, pool: EmbeddedPool) -> np.ndarray | None:
        """Return log(1/2 + count) of each distinct candidate, None where no counts are known."""
        model: Any = self.last  # the predictor of coordinates inside; the first of several
        while not hasattr(model, "decoder_") and hasattr(model, "_fitted_inner"):
            model = last_of(model._fitted_inner())
        decoder: Any = getattr(model, "decoder_", None)
        if not all(hasattr(decoder, name) for name in ("embed", "matched")):
            return None
        try:
            training = decoder.embed(None)
        except ValueError:  # saved without candidates, or too many to be kept
            return None
        counts = getattr(training, "counts", None)
        if counts is None:
            return None
        place = decoder.matched(taken(pool.pool, pool.first), training)
        return np.log(0.5 + np.where(place >= 0, counts[place], 0))


def plain_pool(pool: Any) -> EmbeddedPool:
    """Return an embedded pool: of those of an ensemble, the pool that its members share."""
    plain: EmbeddedPool = pool.pool if hasattr(pool, "parts") else pool
    return plain


def _part(pool: Any, queries: np.ndarray) -> Any:
    """Return the candidates of these queries."""
    if hasattr(pool, "parts"):
        parts = tuple(_part(member, queries) for member in pool.parts)
        return replace(pool, parts=parts, pool=_part(pool.pool, queries))
    if not pool.is_per_query:
        return pool
    return replace(pool, objects=pool.objects.of_queries(queries.tolist()))


def _matched(model: Estimator, Y: Objects, pool: EmbeddedPool, n: int, who: str) -> Any:
    """Return what `Ranker.matched` does, by a predictor or the one that it wraps."""
    if hasattr(model, "decoder_"):
        return truth_in(pool, able(model.decoder_, "matched", by=who), Y, n)
    if hasattr(model, "predictor_"):  # what wraps one
        return _matched(last_of(model.predictor_), Y, pool, n, who)
    if not callable(getattr(model, "matched", None)):
        kind = type(model).__name__
        raise TypeError(
            f"{who} needs a predictor with matched(Y, pool), and {kind} has none: write it."
        )
    return model.matched(Y, pool)


def _name_of(model: Estimator) -> str | None:
    """Return the identifier of a fit: that of the predictor, or those of its members."""
    name = getattr(model, "made_by", None)
    if isinstance(name, str):
        return name
    if hasattr(model, "decoder_"):
        return getattr(model.decoder_, "made_by", None)
    names = [_name_of(member) for member in getattr(model, "members_", ())]
    return " ".join(name for name in names if name) or None


class Calibrated(PartsByName):
    """Base class of estimators that calibrate a fitted model, until that is fitted again."""

    model: Any
    #: the attribute that `calibrate` sets
    _measured: str
    _outputs: Any = None  # candidates where none are given, with folds

    def without_pool(self) -> Self:
        """Return a copy without default candidates, for smaller files."""
        light = copy(self)
        light.__dict__.pop("_outputs", None)
        return light

    def _of_fold(self, model: Estimator, candidates: Candidates) -> tuple[Ranker, Any]:
        """Return the model of a fold, and the embedded candidates."""
        ranker = Ranker(model, type(self).__name__)
        return ranker, ranker.last.embed(self._outputs if candidates is None else candidates)

    def _check_calibrated(self) -> None:
        """Raise unless `calibrate` was called."""
        if not hasattr(self, self._measured):
            name = type(self).__name__
            raise NotFittedError(f"{name} is not calibrated yet: call `calibrate` first.")

    def _ranker(self) -> Ranker:
        """Return the model, or raise where it was fitted again after `calibrate`."""
        ranker = Ranker(self.model, type(self).__name__)
        if getattr(self, "_made_by", ranker.made_by) != ranker.made_by:
            raise ValueError(
                "The model was fitted again after `calibrate`, whose results are of the other fit: "
                "call `calibrate` again."
            )
        return ranker


class RankingPredictor(ObjectPredictor):
    """Base class of predictors that rank candidates by scores of their own."""

    @abstractmethod
    def embed(self, candidates: Candidates) -> Any:
        """Encode and embed candidates once, to give them to `predict` and `rank` many times.

        Parameters
        ----------
        candidates : objects, CandidateSets or list of lists

        Returns
        -------
        pool : EmbeddedPool, or EmbeddedPools of an Ensemble
        """

    def predict(self, X: Objects, candidates: Candidates = None) -> Any:
        return self._best(X, candidates)

    def _best(self, X: Objects, candidates: Candidates, **more: object) -> Any:
        """Return the best candidate of each query; `more` are arguments of `rank`."""
        candidates = self.embed(candidates)
        best = self.rank(X, candidates, 1, **more)[0][:, 0]
        pool = plain_pool(candidates)
        return taken(pool.pool, in_pool(best, pool))

    def _embedded(self, candidates: Candidates) -> Any:
        return self.embed(candidates)
