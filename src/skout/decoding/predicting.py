"""What predictors of objects share: the score, metadata routing, and what is known of the rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted

from .._estimators import PartsByName
from ..metrics import mean_reciprocal_rank
from ..metrics.scoring import score_objects
from ..rows import source, to_host

__all__ = ["ObjectPredictor", "predicted", "split_pipeline"]


class ObjectPredictor(PartsByName):
    """Base of the predictors of objects, which hand rows on to an estimator inside."""

    #: The parameter that is the estimator inside.
    _inner: str

    @abstractmethod
    def _fitted_inner(self) -> Any:
        """Return the estimator inside, fitted."""

    @abstractmethod
    def _seen_outputs(self) -> Any:
        """Return a basis that was fitted on the training outputs."""

    @abstractmethod
    def _embedded(self, candidates: Any) -> Any:
        """Return candidates that are embedded, to be searched more than once, if they can be."""

    def score(self, X: Any, Y: Any, candidates: Any = None, scoring: Any = None) -> float:
        """Return how good predictions are, by the metric of their kind; 1 is perfect.

        It depends on no parameter of the kernels, so that a grid search may tune all of them.

        Parameters
        ----------
        X : what `predict` takes, n rows
        Y : objects, n of them
        candidates : as `predict` takes them, optional
        scoring : None, str or callable (Y, predictions) -> float, default None
            None is, with a candidate set for each query, the mean reciprocal rank of the truth;
            else example F1 of label sets (vectors of 0 and 1 are such), Kendall's tau of rankings,
            R2 of vectors, the similarity of strings by their n-grams, of graphs by
            Weisfeiler-Lehman features, of spectra by their peaks, and of other objects the share
            of exact matches. All have names, "mean_reciprocal_rank" and those of
            `skout.metrics.scoring.METRICS`. "kernel" is the mean normalised similarity by the
            output kernel, which serves to report but not to tune that kernel.

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        candidates = self._embedded(candidates)
        if scoring is None and getattr(candidates, "is_per_query", False):
            scoring = "mean_reciprocal_rank"
        if scoring == "mean_reciprocal_rank":
            ranks = self.truth_ranks(X, Y, candidates)
            return mean_reciprocal_rank(ranks)
        predicted = self.predict(X, candidates)
        basis = self._seen_outputs()
        return score_objects(scoring, basis.kernel_, basis.landmarks_, Y, predicted)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return who takes which metadata: the estimator inside in fit, this one `candidates`."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(method_mapping=mapping, **{self._inner: getattr(self, self._inner)})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(getattr(self, self._inner)).input_tags
        return tags

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X, if the estimator inside knows it."""
        return self._fitted_inner().n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns of X, if the estimator inside saw any."""
        return self._fitted_inner().feature_names_in_


def predicted(regressor: Any, X: Any) -> Any:
    """Return what a regressor predicts, shape (n, p); from all rows here if it takes no source."""
    if not getattr(regressor, "takes_sources", False):
        X = source(X).all_for(regressor)
    F = to_host(regressor.predict(X))
    return F[:, None] if F.ndim == 1 else F


def split_pipeline(model: Any, who: str) -> tuple[Pipeline | None, Any]:
    """Return the transformers in front of a fitted predictor, None without any, and the predictor.

    Raise, in the name of `who`, where there is no predictor of coordinates.
    """
    before, last = None, model
    if isinstance(model, Pipeline):
        before, last = model[:-1] if len(model) > 1 else None, model[-1]
    if not hasattr(last, "predict_coordinates"):
        raise TypeError(
            f"{who} takes a StructuredPredictor, or a Pipeline that ends in one. Got "
            f"{type(last).__name__} instead; of an Ensemble give one of its members_, of a search "
            "its best_estimator_."
        )
    check_is_fitted(last)
    return before, last
