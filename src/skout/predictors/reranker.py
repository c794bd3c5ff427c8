"""`Reranker`: learned re-ranking of the best candidates of each query, by their features."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
from sklearn.utils.metadata_routing import _routing_enabled, process_routing
from sklearn.utils.validation import check_is_fitted

from .._numerics.estimators import frames_out
from .._numerics.typing import (
    Candidates,
    Estimator,
    Floats,
    Labels,
    Matrix,
    Objects,
    RandomState,
    Scoring,
)
from .._numerics.validation import check_number, check_rng
from ..decoding.base import plain_outputs
from ..decoding.search import TIE, Found
from ..decoding.sets import best_of_sets, count_better_of_sets, top_k_of_sets
from ..kinds.scoring import object_score
from ..metrics.retrieval import share_of
from .lists import Lists, RankingPredictor, last_of
from .listwise import chosen_alpha, importances, linear
from .out_of_fold import RerankingFolds, check_columns, check_predictor
from .reranking_features import (
    Feature,
    Features,
    QueryResults,
    References,
    check_features,
    columns_of,
    reranking_features,
    searched,
)

# The value of `cv` for a fitted predictor; then alpha is chosen in this number of folds.
_PREFIT, _FOLDS = "prefit", 5


@frames_out
class Reranker(RankingPredictor):
    """Re-rank the best candidates of a predictor by a learned probability of being the true one.

    Out-of-fold predictions give features of each query and candidate: scores, those of parts of the
    predictor, ranks, and columns of yours. From these a softmax over the candidates of each query
    learns which one is true. It is shrunk towards the predictor's own order, which is kept unless
    another is ahead by a standard error. The softmax of the scores of a row's candidates are
    probabilities.

    If `fit` is called with `columns`, so must be `predict`, `rank`, `truth_ranks` and `score`, with
    those of their rows and candidates.

    Parameters
    ----------
    predictor : StructuredPredictor, TwoWay, Ensemble, or Pipeline that ends in one
        Its decoder must rank candidates. For TwoWay a fixed `weight` will do: it is learned here.
    features : str, callable, or list of such, default "auto"
        Names: "score", which is always there, "rank", "directions" of `TwoWay`, "members" of
        `Ensemble`, and "hubness", minus the penalty of `correct_hubness`. "auto" is all but the
        last. A function (queries, candidates) -> columns gets pairs, rows of X and as many
        candidates, and returns one number or row of numbers for each; alone, it comes in addition
        to "auto".
    alpha : "cv" or float, default "cv"
        Penalty on the distance to the predictor's own order, which infinity keeps. "cv" chooses it
        by the likelihood of held-out folds.
    top : int or None, default 100
        How many of a query's best candidates are re-ranked; the others follow in their order. None
        is all.
    cv : int or "prefit", default 5
        Number of folds. "prefit" takes a fitted predictor, and learns from its predictions of the
        rows of `fit`, which it must not have seen.
    random_state : None, int or Generator
        Seed of the folds.

    Attributes
    ----------
    predictor_ : estimator
        The predictor fitted on all rows; with cv="prefit" the predictor itself.
    feature_names_ : list of str
        One for each coefficient.
    coef_ : ndarray of shape (d,)
        Coefficients of features of unit spread among the candidates of a query.
    importances_ : ndarray of shape (d,)
        Permutation importance: how much log-likelihood of the truth is lost, on average over
        held-out queries, where the feature is shuffled among the candidates of each.
    alpha_ : float
        The penalty in use.
    cv_results_ : dict of arrays
        "alpha", "score" (mean log-likelihood) and "fold_score" of each penalty, if alpha="cv".
    n_queries_, n_left_out_ : int
        Held-out queries that were learned from; and those left out, because the truth was not among
        the best candidates, or was the only one.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skout import Reranker, TwoWay, sisokr
    >>> from skout.metrics import mean_reciprocal_rank
    >>> images = load_digits(n_class=5).data / 16.0
    >>> upper, lower = images[:, :32], images[:, 32:]
    >>> two = TwoWay(sisokr("gaussian", "gaussian", random_state=0), weight=1.0)
    >>> model = Reranker(two, cv=2, random_state=0).fit(upper[:500], lower[:500])
    >>> ranks = model.truth_ranks(upper[500:], lower[500:], lower)
    >>> before = two.fit(upper[:500], lower[:500]).truth_ranks(upper[500:], lower[500:], lower)
    >>> bool(mean_reciprocal_rank(ranks) > mean_reciprocal_rank(before))
    True
    >>> model.feature_names_[:4]
    ['score', 'backward', 'forward', 'cosine']
    """

    _inner = "predictor"
    __metadata_request__fit: ClassVar = {"groups": False, "candidates": False, "columns": False}

    feature_names_: list[str]
    predictor_: Any
    scale_: Floats
    alpha_: float
    coef_: Floats
    cv_results_: dict[str, np.ndarray]
    n_left_out_: int
    n_queries_: int
    references_: tuple[np.ndarray, Objects] | None

    def __init__(
        self,
        predictor: Estimator,
        features: Features = "auto",
        *,
        alpha: float | str = "cv",
        top: int | None = 100,
        cv: int | str = 5,
        random_state: RandomState = None,
    ) -> None:
        self.predictor = predictor
        self.features = features
        self.alpha = alpha
        self.top = top
        self.cv = cv
        self.random_state = random_state

    def fit(
        self,
        X: Objects,
        Y: Objects,
        groups: Labels = None,
        candidates: Candidates = None,
        columns: Matrix | None = None,
        **fit_params: object,
    ) -> Reranker:
        """Learn to re-rank from out-of-fold predictions, then fit the predictor on all rows.

        Parameters
        ----------
        X : what the predictor takes, n rows
        Y : objects, n of them
        groups : sequence of n labels, optional
            Rows of one label stay in one fold, such as the spectra of a molecule; the predictor's
            fit gets them too.
        candidates : objects, CandidateSets or list of lists, optional
            Candidates of held-out rows, as they will be at prediction: one pool, or one set for
            each row of X. Default the distinct outputs of all rows.
        columns : array, optional
            Features of your own, for pairs of a query and a candidate. Of one pool with c
            candidates, shape (c,), (c, d), or (n, c, d); of sets, one row for each candidate of
            each set, one set after another, shape (s,) or (s, d).
        **fit_params
            Passed to the predictor's fit, e.g. sample_weight, which weighs queries here too.
        """
        if _routing_enabled():
            fit_params = process_routing(self, "fit", **fit_params).predictor.fit
        features = self._check()
        rng = check_rng(self.random_state)
        folds = RerankingFolds(
            self.predictor,
            X,
            Y,
            groups,
            candidates,
            fit_params,
            is_fitted=self.cv == _PREFIT,
            features=features,
            top=self.top,
            columns=columns,
        )
        cv: Any = _FOLDS if self.cv == _PREFIT else self.cv
        names, lists, n_left_out = folds.lists(cv, rng)
        scale = lists.spreads()
        scaled, alpha = lists.scaled(scale), self.alpha
        results: dict[str, np.ndarray] = {}
        if alpha == "cv":
            alpha, results = chosen_alpha(scaled)
        coef = linear(scaled, float(alpha))
        predictor = folds.fitted()
        references = folds.references(predictor, cv, rng) if "hubness" in features else None
        # together, once all are fitted: a fit that fails changes nothing
        self.predictor_, self.feature_names_, self.scale_ = predictor, names, scale
        self.coef_, self.alpha_, self.cv_results_ = coef, float(alpha), results
        self.n_queries_, self.n_left_out_ = len(lists.truth), n_left_out
        self.references_, self._takes_columns = references, columns is not None
        self._name = uuid4().hex
        self.importances_: np.ndarray = importances(lists, self._new_scores, rng)
        return self

    def _check(self) -> tuple[Feature, ...]:
        """Check the parameters, and return the features as a tuple."""
        features = check_features(self.features)
        alpha = self.alpha
        if alpha != "cv" and not (isinstance(alpha, Real) and float(alpha) >= 0.0):
            raise ValueError(f'alpha must be "cv" or a number >= 0. Got {alpha!r} instead.')
        if self.top is not None:
            check_number(self.top, "top", low=1, integer=True)
        check_predictor(self.predictor)
        return features

    # Scores --------------------------------------------------------------------------------------

    def _new_scores(self, features: Floats) -> Floats:
        """Return the re-ranking scores of candidates with these features, shape (m,)."""
        scores: Floats = (features / self.scale_) @ self.coef_
        return scores

    def _searched(
        self, X: Objects, candidates: Candidates, columns: Matrix | None
    ) -> tuple[QueryResults, Matrix | None]:
        """Return the results of the predictor's search, and checked columns."""
        check_is_fitted(self)
        results = searched(self.predictor_, X, candidates)
        if self._takes_columns != (columns is not None):
            have = "with columns: give those of these candidates"
            lack = "without columns, and cannot take any: give them to fit, too"
            raise ValueError(f"The model was fitted {have if self._takes_columns else lack}.")
        if columns is not None:
            columns = check_columns(columns, results.pool.objects, results.n)
        return results, columns

    def _rescored(
        self, results: QueryResults, listed: Lists, X: Objects, columns: Matrix | None
    ) -> np.ndarray:
        """Return the re-ranking scores of listed candidates, without duplicates."""
        pool = results.pool
        if columns is not None:
            rows = pool.sets.indptr[:-1] if pool.is_per_query else np.arange(results.n)
            columns = columns_of(columns, pool, listed, rows)
        references: References | None = None
        if self.references_ is not None:
            F, objects = self.references_
            references = F, last_of(self.predictor_).decoder_.matched(objects, pool)
        features = check_features(self.features)
        _, values = reranking_features(results, listed, features, X, columns, references)
        return self._new_scores(values)

    def _ranked(
        self, results: QueryResults, k: int, X: Objects, columns: Matrix | None
    ) -> tuple[Lists, np.ndarray]:
        """Return the best candidates of each query by the predictor, and their re-ranking scores.

        The others follow those that are re-ranked, with their differences of scores as before.
        """
        top = results.pool.largest if self.top is None else self.top
        listed = results.listed(max(k, top))
        head = listed.position < top
        distinct, _, where = listed.select(head).distinct()
        scores = np.empty(len(head))
        scores[head] = self._rescored(results, distinct, X, columns)[where]
        if not head.all():
            reranked = listed.select(head)
            low = -best_of_sets(-scores[head], reranked.indptr)
            last = reranked.score[reranked.indptr[1:] - 1]
            query = listed.query_of[~head]
            scores[~head] = low[query] - (last[query] - listed.score[~head])
        return listed, scores

    # Predictions ---------------------------------------------------------------------------------

    def embed(self, candidates: Candidates) -> Any:
        check_is_fitted(self)
        return last_of(self.predictor_).embed(candidates)

    def rank(
        self, X: Objects, candidates: Candidates = None, k: int = 10, columns: Matrix | None = None
    ) -> Found:
        results, columns = self._searched(X, candidates, columns)
        k = results.pool.width(k)
        listed, scores = self._ranked(results, k, X, columns)
        if np.any(listed.sizes == 0):
            raise ValueError("The index found no candidate for some queries: raise its n_probe.")
        index, best = top_k_of_sets(scores, listed.indptr, k)
        at = np.where(index >= 0, listed.indptr[:-1, None] + index, 0)
        return np.where(index >= 0, listed.place[at] if len(at) else at, -1), best

    def predict(
        self, X: Objects, candidates: Candidates = None, columns: Matrix | None = None
    ) -> Any:
        return self._best(X, candidates, columns=columns)

    def truth_ranks(
        self,
        X: Objects,
        Y: Objects,
        candidates: Candidates = None,
        columns: Matrix | None = None,
        *,
        ties: str = "average",
    ) -> np.ndarray:
        share = share_of(ties)
        results, columns = self._searched(X, candidates, columns)
        listed, scores = self._ranked(results, 1, X, columns)
        distinct, first, _ = listed.distinct()
        scores, truth = scores[first], distinct.entries(results.truth(plain_outputs(Y)))
        is_listed = truth >= 0
        true_scores = np.where(is_listed, scores[truth], np.nan)
        slack = np.full(results.n, TIE * np.abs(scores).max(initial=0.0))
        above, tied = count_better_of_sets(scores, distinct.query_of, true_scores, slack)
        ranks = 1.0 + above + share * (tied - 1)
        if is_listed.all():
            return ranks
        before = results.truth_ranks(plain_outputs(Y), ties)
        return np.where(is_listed, ranks, np.maximum(before, 1.0 + distinct.sizes))

    def score(
        self,
        X: Objects,
        Y: Objects,
        candidates: Candidates = None,
        scoring: Scoring = None,
        columns: Matrix | None = None,
    ) -> float:
        candidates = self.embed(candidates)
        return object_score(
            scoring,
            self._seen_outputs(),
            Y,
            candidates,
            lambda: self.predict(X, candidates, columns),
            lambda: self.truth_ranks(X, Y, candidates, columns),
        )

    @property
    def made_by(self) -> str:
        """An identifier of this fit: scores of another fit are not comparable."""
        check_is_fitted(self)
        return self._name

    # What predictors of objects have -------------------------------------------------------------

    def _fitted_inner(self) -> Any:
        return self.predictor_

    def _seen_outputs(self) -> Any:
        return last_of(self.predictor_)._seen_outputs()
