"""Out-of-fold predictions: models that are fitted on the other folds predict the rows of a fold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import has_rows, n_rows, take
from .._numerics.typing import Candidates, Estimator, Ints, Matrix, Objects, Rng, State
from .._numerics.validation import check_number
from ..decoding import CandidateSets, EmbeddedPool, as_decoder
from ..decoding.base import able, plain_outputs, split_pipeline
from ..decoding.pools import are_lists
from ..kernels import as_kernel
from ..rows import check_pair, source
from ..solvers.folds import deal
from .hubness import cross_predictions
from .lists import last_of
from .listwise import FeatureLists
from .reranking_features import Feature, columns_of, reranking_features, searched
from .thresholds import checked_labels

# At most so many held-out rows of a fold that a re-ranker learns from, and predictions that hubness
# penalties are computed from: they bound the time.
_MOST_ROWS, _MOST_REFERENCES = 5_000, 1_000


def folds_of(
    cv: int, n: int, groups: np.ndarray | None, rng: Rng
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the training and test rows of each fold; rows of a group are in one fold."""
    from sklearn.model_selection import GroupKFold, KFold  # slow to import

    check_number(cv, "cv", low=2, integer=True)
    n_parts = n if groups is None else len(np.unique(groups))
    if n_parts < cv:
        what = "rows" if groups is None else "groups"
        raise ValueError(f"cv={cv} folds need as many {what}. Got {n_parts}.")
    kind = KFold if groups is None else GroupKFold
    folds = kind(cv, shuffle=True, random_state=int(rng.integers(2**31)))
    return list(deal(folds, n, groups=groups))


def params_of_rows(params: State, rows: np.ndarray, n: int) -> dict[str, object]:
    """Return parameters of fit for some of n rows, with the entries of these rows."""

    def of_rows(value: Objects) -> Objects:
        is_of_rows = has_rows(value) and not isinstance(value, str) and n_rows(value) == n
        return take(value, rows) if is_of_rows else value

    return {name: of_rows(value) for name, value in params.items()}


def check_predictor(model: Estimator) -> None:
    """Raise unless a predictor can be fitted and ranks candidates."""
    model = last_of(model)
    if not all(callable(getattr(model, name, None)) for name in ("fit", "rank", "embed")):
        raise TypeError(
            "predictor must rank candidates: a StructuredPredictor, TwoWay, Ensemble, or a "
            f"Pipeline that ends in one. Got {type(model).__name__} instead; of a search give "
            "best_estimator_."
        )
    methods = ("embed", "queries", "matched", "truth_ranks")
    able(as_decoder(_coordinate_model(model).decoder), *methods, by="Reranker")


def _coordinate_model(model: Estimator) -> Estimator:
    """Return the innermost model of wrappers, which has the output basis."""
    model = last_of(model)
    while "output_basis" not in model.get_params(deep=False):
        if not hasattr(model, "_inner"):
            raise TypeError(f"{type(model).__name__} has no output basis, which folds need.")
        model = last_of(getattr(model, model._inner))
    return model


def check_columns(columns: Matrix, candidates: Candidates, n: int) -> np.ndarray:
    """Return columns as an array, or raise where they do not fit the candidates of n queries."""
    if candidates is None:
        raise ValueError("columns are those of candidates: give candidates, too.")
    values = np.asarray(columns, dtype=np.float64)
    if isinstance(candidates, CandidateSets):
        s = len(candidates.indices)
        fits, wanted = values.ndim in (1, 2) and len(values) == s, f"({s},) or ({s}, d)"
    else:
        pool: Any = candidates
        c = n_rows(pool)
        fits = (values.ndim in (1, 2) and len(values) == c) or (
            values.ndim == 3 and values.shape[:2] == (n, c)
        )
        wanted = f"({c},), ({c}, d) or ({n}, {c}, d)"
    if not fits:
        raise ValueError(f"columns must have shape {wanted}. Got {values.shape} instead.")
    return values


@dataclass
class OutOfFold:
    """A predictor and its data: it is fitted on some folds, and predicts the others."""

    predictor: Estimator
    X: Objects
    Y: Objects
    groups: Any = None  # labels as they were given, then an array
    candidates: Candidates = None
    fit_params: State = field(default_factory=dict)
    #: whether the predictor is fitted already, on other rows
    is_fitted: bool = False

    def __post_init__(self) -> None:
        if self.is_fitted:
            check_is_fitted(last_of(self.predictor))
        self.Y = plain_outputs(self.Y)
        check_pair(self.X, self.Y)
        self.n: int = n_rows(self.Y)
        self.inputs, self.outputs = source(self.X), source(self.Y)
        self.pool: EmbeddedPool | None = None
        self.groups = checked_labels(self.groups, "groups", self.n)
        labels = np.arange(self.n) if self.groups is None else self.groups
        self.units: np.ndarray = np.unique(labels, return_inverse=True)[1]
        self.candidates = self._checked(self.candidates)

    def _checked(self, candidates: Candidates) -> Candidates:
        """Return checked candidates, lists of lists as `CandidateSets`."""
        if isinstance(candidates, EmbeddedPool):
            if not self.is_fitted:
                raise TypeError(
                    "candidates must be objects in fit: each fold embeds them. Give pool.objects."
                )
            self.pool, candidates = candidates, candidates.objects
        if candidates is None:
            return None
        basis = _coordinate_model(self.predictor).output_basis
        kernel = as_kernel(getattr(basis, "kernel", basis))
        if are_lists(candidates, kernel.encode(self.outputs.take(slice(0, 1)))):
            candidates = CandidateSets.from_lists(candidates)  # type: ignore[arg-type]
        if isinstance(candidates, CandidateSets) and len(candidates) != self.n:
            raise ValueError(
                f"candidates must have one set for each row. Got {len(candidates)} sets for "
                f"{self.n} rows instead."
            )
        return candidates

    def fitted(self, rows: np.ndarray | None = None) -> Any:
        """Return the predictor fitted on these rows; None is all."""
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
            more["candidates"] = self.candidates_of(rows)
        if isinstance(self.predictor, Pipeline):
            more = {f"{self.predictor.steps[-1][0]}__{key}": value for key, value in more.items()}
        return clone(self.predictor).fit(X, Y, **params, **more)

    def candidates_of(self, rows: np.ndarray) -> Candidates:
        """Return the candidates of these rows; default the outputs of all rows."""
        if isinstance(self.candidates, CandidateSets):
            sets = self.candidates.of_queries(rows)
            return sets if self.pool is None else replace(self.pool, objects=sets)
        if self.pool is not None:
            return self.pool
        return self.outputs.load() if self.candidates is None else self.candidates

    def sizes(self, rows: Ints) -> Ints:
        """Return the sizes of the candidate sets of these rows; 1 where all share a pool."""
        if isinstance(self.candidates, CandidateSets):
            return self.candidates.sizes[rows]
        return np.ones(len(rows), dtype=np.intp)


@dataclass
class RerankingFolds(OutOfFold):
    """Out-of-fold lists of candidates with their features, which a `Reranker` learns from."""

    features: tuple[Feature, ...] = ()
    top: int | None = None
    columns: Matrix | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns is not None:
            self.columns = check_columns(self.columns, self.candidates, self.n)

    def lists(self, cv: int, rng: Rng) -> tuple[list[str], FeatureLists, int]:
        """Return the names of features, the lists to learn from, and how many rows have none."""
        names: list[str] = []
        parts, absent = [], 0
        folds = [
            (train, np.sort(rng.permutation(test)[:_MOST_ROWS]))
            for train, test in folds_of(cv, self.n, self.groups, rng)
        ]
        fold_of = np.full(self.n, -1)
        for number, (_, test) in enumerate(folds):
            fold_of[test] = number
        if self.is_fitted:  # one model searches for all rows
            folds = [(np.empty(0), np.flatnonzero(fold_of >= 0))]
        for train, test in folds:
            filled = test[self.sizes(test) > 0]
            names, part = self._part(self.fitted(train), filled, fold_of[filled], rng)
            parts.append(part)
            absent += len(test) - len(part.truth)
        lists = FeatureLists.joined(parts)
        if len(lists.truth) == 0:
            raise ValueError(
                "No query has its truth among several candidates, so that there is nothing to "
                "learn from: give candidates that hold the truth, or a larger top."
            )
        return names, lists, absent

    def _part(
        self, model: Estimator, rows: np.ndarray, fold: np.ndarray, rng: Rng
    ) -> tuple[list[str], FeatureLists]:
        """Return the names of features and the lists of rows, by a model fitted without them."""
        X, Y = self.inputs.take(rows), self.outputs.take(rows)
        results = searched(model, X, self.candidates_of(rows))
        top = results.pool.largest if self.top is None else self.top
        listed = results.listed(top).distinct()[0]
        columns = None
        if self.columns is not None:
            sets = self.candidates
            where = sets.indptr[rows] if isinstance(sets, CandidateSets) else rows
            columns = columns_of(self.columns, results.pool, listed, where)
        references = None
        if "hubness" in self.features:
            references = results.references(Y, _MOST_REFERENCES, rng)
        names, values = reranking_features(results, listed, self.features, X, columns, references)
        truth = listed.entries(results.truth(Y))
        weights = params_of_rows(self.fit_params, rows, self.n).get("sample_weight")
        weights = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
        lists = FeatureLists(values, listed.indptr, truth, weights, fold, self.units[rows])
        is_usable = (truth >= 0) & (np.diff(listed.indptr) > 1) & (weights > 0.0)
        return names, lists.of(np.flatnonzero(is_usable))

    def references(self, model: Estimator, cv: int, rng: Rng) -> tuple[np.ndarray, Objects]:
        """Return out-of-fold predictions for hubness penalties, and the true objects."""
        if self.is_fitted:
            results = searched(model, self.X, self.candidates_of(np.arange(self.n)))
            F = results.F
        else:
            before, last = split_pipeline(model)
            F = cross_predictions(last, before, self.inputs.load(), self.outputs.load(), cv, rng)
        sample = np.sort(rng.permutation(self.n)[:_MOST_REFERENCES])
        return F[sample], self.outputs.take(sample)
