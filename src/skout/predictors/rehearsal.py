"""What a predictor says of rows that it has not seen, fold by fold: a last word learns from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import n_rows
from ..decoding import CandidateSets, EmbeddedPool, as_decoder
from ..decoding.base import able, plain_outputs
from ..decoding.pools import are_lists
from ..kernels import as_kernel
from ..rows import check_pair, source
from .evidence import asked, columns_of, evidence
from .hubs import cross_predicted
from .listwise import Lists, boosted, chosen_alpha, linear
from .weighing import folds_of, params_of_rows

__all__ = ["Rehearsal", "check_columns", "check_predictor", "last_of", "learnt"]

# Held-out rows of a fold that are looked at, and predictions that prices are made of, at most.
_MOST_ROWS, _MOST_REFERENCES = 5_000, 1_000


def last_of(model: Any) -> Any:
    """Return the last step of a Pipeline, or the model itself."""
    return model[-1] if isinstance(model, Pipeline) else model


def check_predictor(model: Any) -> None:
    """Raise unless a predictor ranks candidates."""
    model = last_of(model)
    if not all(callable(getattr(model, name, None)) for name in ("fit", "rank", "embed")):
        raise TypeError(
            "predictor must rank candidates: a StructuredPredictor, TwoWay, Ensemble, or a "
            f"Pipeline that ends in one. Got {type(model).__name__} instead; of a search give "
            "best_estimator_."
        )
    methods = ("embed", "queries", "matched", "truth_ranks")
    able(as_decoder(_one_model(model).decoder), *methods, by="Reranker")


def _one_model(model: Any) -> Any:
    """Return the model with an output basis that is inside others."""
    model = last_of(model)
    while "output_basis" not in model.get_params(deep=False):
        if not hasattr(model, "_inner"):
            raise TypeError(f"{type(model).__name__} has no output basis, which folds need.")
        model = last_of(getattr(model, model._inner))
    return model


def check_columns(columns: Any, candidates: Any, n: int) -> np.ndarray:
    """Return columns as an array, or raise where they do not fit the candidates.

    Parameters
    ----------
    columns : array
    candidates : objects or CandidateSets
    n : int
        Number of queries.
    """
    if candidates is None:
        raise ValueError("columns are those of candidates: give candidates, too.")
    values = np.asarray(columns, dtype=np.float64)
    if isinstance(candidates, CandidateSets):
        s = len(candidates.indices)
        fits, wanted = values.ndim in (1, 2) and len(values) == s, f"({s},) or ({s}, d)"
    else:
        c = n_rows(candidates)
        fits = (values.ndim in (1, 2) and len(values) == c) or (
            values.ndim == 3 and values.shape[:2] == (n, c)
        )
        wanted = f"({c},), ({c}, d) or ({n}, {c}, d)"
    if not fits:
        raise ValueError(f"columns must have shape {wanted}. Got {values.shape} instead.")
    return values


class Rehearsal:
    """A predictor that is fitted on parts of the data, to say what it knows of the others.

    Parameters
    ----------
    predictor : estimator
    features : tuple of str and callable
    top : int or None
    X, Y, groups, candidates, columns, fit_params
        As given to fit.
    is_fitted : bool
        Whether the predictor is fitted already, on other rows.
    """

    def __init__(
        self,
        predictor: Any,
        features: tuple[Any, ...],
        top: int | None,
        X: Any,
        Y: Any,
        groups: Any,
        candidates: Any,
        columns: Any,
        fit_params: dict[str, Any],
        is_fitted: bool,
    ) -> None:
        self.is_fitted = is_fitted
        if is_fitted:
            check_is_fitted(last_of(predictor))
        self.predictor, self.features, self.top = predictor, features, top
        self.X, self.Y, self.fit_params = X, plain_outputs(Y), fit_params
        check_pair(X, self.Y)
        self.n = n_rows(self.Y)
        self.inputs, self.outputs = source(X), source(self.Y)
        self.pool: EmbeddedPool | None = None
        self.groups = _checked_groups(groups, self.n)
        own = np.arange(self.n) if self.groups is None else self.groups
        self.units = np.unique(own, return_inverse=True)[1]
        self.candidates = self._checked(candidates)
        self.columns = None if columns is None else check_columns(columns, self.candidates, self.n)

    def _checked(self, candidates: Any) -> Any:
        """Return candidates, lists of lists as sets: one for each row."""
        if isinstance(candidates, EmbeddedPool):
            if not self.is_fitted:
                raise TypeError(
                    "candidates must be objects in fit: each fold embeds them. Give pool.objects."
                )
            self.pool, candidates = candidates, candidates.objects
        if candidates is None:
            return None
        basis = _one_model(self.predictor).output_basis
        known = as_kernel(getattr(basis, "kernel", basis)).encode(self.outputs.take(slice(0, 1)))
        if are_lists(candidates, known):
            candidates = CandidateSets.from_lists(candidates)
        if isinstance(candidates, CandidateSets) and len(candidates) != self.n:
            raise ValueError(
                f"candidates must have one set for each row. Got {len(candidates)} sets for "
                f"{self.n} rows instead."
            )
        return candidates

    def fitted(self, rows: np.ndarray | None = None) -> Any:
        """Return the predictor, fitted on some rows; None is all."""
        if self.is_fitted:
            return self.predictor
        X, Y = (
            (self.X, self.Y) if rows is None else (self.inputs.take(rows), self.outputs.take(rows))
        )
        rows = np.arange(self.n) if rows is None else rows
        params = params_of_rows(self.fit_params, rows, self.n)
        more: dict[str, Any] = {}
        if self.groups is not None:
            more["groups"] = self.groups[rows]
        if self.candidates is not None and np.all(self.sizes(rows) > 0):
            more["candidates"] = self.own(rows)
        if isinstance(self.predictor, Pipeline):
            more = {f"{self.predictor.steps[-1][0]}__{name}": own for name, own in more.items()}
        return clone(self.predictor).fit(X, Y, **params, **more)

    def own(self, rows: np.ndarray) -> Any:
        """Return the candidates of some rows; by default the outputs of all."""
        if isinstance(self.candidates, CandidateSets):
            own = self.candidates.of_queries(rows)
            return own if self.pool is None else replace(self.pool, objects=own)
        if self.pool is not None:
            return self.pool
        return self.outputs.here() if self.candidates is None else self.candidates

    def sizes(self, rows: np.ndarray) -> np.ndarray:
        """Return the sizes of the candidate sets of some rows; 1 where all share a pool."""
        is_sets = isinstance(self.candidates, CandidateSets)
        return self.candidates.sizes[rows] if is_sets else np.ones(len(rows), dtype=np.intp)

    def lists(self, cv: int, rng: np.random.Generator) -> tuple[list[str], Lists, int]:
        """Return names of features, the lists of queries that teach something, and how many do not.

        Parameters
        ----------
        cv : int
        rng : Generator
        """
        names: list[str] = []
        parts, absent = [], 0
        folds = [
            (train, np.sort(rng.permutation(test)[:_MOST_ROWS]))
            for train, test in folds_of(cv, self.n, self.groups, rng)
        ]
        fold_of = np.full(self.n, -1)
        for number, (_, test) in enumerate(folds):
            fold_of[test] = number
        if self.is_fitted:  # asked once for all
            folds = [(np.empty(0), np.flatnonzero(fold_of >= 0))]
        for train, test in folds:
            filled = test[self.sizes(test) > 0]
            names, part = self._part(self.fitted(train), filled, fold_of[filled], rng)
            parts.append(part)
            absent += len(test) - len(part.truth)
        lists = _joined(parts)
        if len(lists.truth) == 0:
            raise ValueError(
                "No query has its truth among several candidates, so that there is nothing to "
                "learn from: give candidates that hold the truth, or a larger top."
            )
        return names, lists, absent

    def _part(
        self, model: Any, rows: np.ndarray, fold: np.ndarray, rng: np.random.Generator
    ) -> tuple[list[str], Lists]:
        """Return what a model says of rows that it has not seen."""
        X, Y = self.inputs.take(rows), self.outputs.take(rows)
        given = asked(model, X, self.own(rows))
        top = given.pool.largest if self.top is None else self.top
        listed = given.listed(top).distinct()[0]
        columns = None
        if self.columns is not None:
            sets = self.candidates
            where = sets.indptr[rows] if isinstance(sets, CandidateSets) else rows
            columns = columns_of(self.columns, given.pool, listed, where)
        references = None
        if "price" in self.features:
            references = given.references(Y, _MOST_REFERENCES, rng)
        names, values = evidence(given, listed, self.features, X, columns, references)
        hit = listed.number == given.truth(Y)[listed.query_of]
        truth = np.full(len(rows), -1)
        truth[listed.query_of[hit]] = np.flatnonzero(hit)
        weights = params_of_rows(self.fit_params, rows, self.n).get("sample_weight")
        weights = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
        lists = Lists(values, listed.indptr, truth, weights, fold, self.units[rows])
        teaches = (truth >= 0) & (np.diff(listed.indptr) > 1) & (weights > 0.0)
        return names, lists.of(np.flatnonzero(teaches))

    def references(self, model: Any, cv: int, rng: np.random.Generator) -> tuple[np.ndarray, Any]:
        """Return predictions of rows by models that have not seen them, and the true objects."""
        if self.is_fitted:
            given = asked(model, self.X, self.own(np.arange(self.n)))
            some = np.sort(rng.permutation(self.n)[:_MOST_REFERENCES])
            return given.F[some], self.outputs.take(some)
        before, last = (model[:-1], model[-1]) if isinstance(model, Pipeline) else (None, model)
        F = cross_predicted(last, before, self.inputs.here(), self.outputs.here(), cv, rng)
        some = np.sort(rng.permutation(self.n)[:_MOST_REFERENCES])
        return F[some], self.outputs.take(some)


def _checked_groups(groups: Any, n: int) -> np.ndarray | None:
    if groups is None:
        return None
    groups = np.asarray(groups)
    if groups.shape != (n,):
        raise ValueError(
            f"groups must have one label for each of {n} rows. Got shape {groups.shape} instead."
        )
    return groups


def _joined(parts: list[Lists]) -> Lists:
    """Return the lists of all folds in one."""
    ends = np.cumsum([0, *(len(part.features) for part in parts)])
    return Lists(
        np.concatenate([part.features for part in parts]),
        np.concatenate([[0], *(part.indptr[1:] + e for part, e in zip(parts, ends, strict=False))]),
        np.concatenate([part.truth + e for part, e in zip(parts, ends, strict=False)]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.fold for part in parts]),
        np.concatenate([part.unit for part in parts if part.unit is not None]),
    )


def learnt(
    lists: Lists, model: str, alpha: Any, rng: np.random.Generator
) -> tuple[np.ndarray, float, list[Any], dict[str, np.ndarray]]:
    """Return coefficients, their penalty, rounds of trees, and what was tried.

    Parameters
    ----------
    lists : Lists
        Their features on one scale.
    model : "linear" or "boosting"
    alpha : "cv" or float
    rng : Generator
    """
    results: dict[str, np.ndarray] = {}
    if alpha == "cv":
        alpha, results = chosen_alpha(lists)
    coef = linear(lists, float(alpha))
    rounds = boosted(lists, coef, int(rng.integers(2**31))) if model == "boosting" else []
    return coef, float(alpha), rounds, results
