"""What predictors of objects share: the score, metadata routing, and what is known of the rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import numpy_of
from .._numerics.validation import PartsByName
from ..rows import source
from .base import able
from .judging import object_score
from .pools import EmbeddedPool
from .search import Found
from .shards import rank

__all__ = ["DecodingPredictor", "ObjectPredictor", "fitted_in", "predicted", "split_pipeline"]


class ObjectPredictor(PartsByName):
    """Base of the predictors of objects, which hand rows on to an estimator inside."""

    #: The parameter that is the estimator inside.
    _inner: str
    # A pipeline hands it on, also where it is None.
    __metadata_request__score: ClassVar = {"sample_weight": None}

    @abstractmethod
    def _fitted_inner(self) -> Any:
        """Return the estimator inside, fitted."""

    @abstractmethod
    def _seen_outputs(self) -> Any:
        """Return a basis that was fitted on the training outputs."""

    @abstractmethod
    def _embedded(self, candidates: Any) -> Any:
        """Return candidates that are embedded, to be searched more than once, if they can be."""

    @abstractmethod
    def predict(self, X: Any, candidates: Any = None) -> Any:
        """Predict an object for each row of X.

        Parameters
        ----------
        X : what the predictor takes, n rows
        candidates : objects, CandidateSets, list of lists or what `embed` made, optional
            What to choose from: one pool for all rows, or one set for each; default the distinct
            training outputs. A pool of a StructuredPredictor may be a dask array: its shards are
            searched where they lie.

        Returns
        -------
        objects : n of them
            For dask collections a dask array.
        """

    @abstractmethod
    def rank(self, X: Any, candidates: Any = None, k: int = 10) -> Found:
        """Rank the candidates of each row of X.

        Parameters
        ----------
        X : what the predictor takes, n rows
        candidates : objects, CandidateSets, list of lists or what `embed` made, optional
            Default the distinct training outputs.
        k : int, default 10
            How many to return; of a shared pool that has fewer, all.

        Returns
        -------
        indices : ndarray of int, shape (n, k)
            Positions in the pool, or in the row's own set, best first; ties go to the lower
            position. A set of fewer than k candidates is padded with -1.
        scores : ndarray of shape (n, k)
            Those of a StructuredPredictor are 2 <f(x), z(c)> - k(c, c); padded with -inf. Both are
            dask arrays if X is one: compute them together.
        """

    @abstractmethod
    def truth_ranks(
        self, X: Any, Y: Any, candidates: Any = None, *, ties: str = "average"
    ) -> np.ndarray:
        """Return the rank of the true object among the distinct candidates; 1 is best.

        `skout.metrics` makes hits@k, the mean reciprocal rank and the mean rank of them.

        Parameters
        ----------
        X : what the predictor takes, n rows
        Y : objects, n of them
        candidates : objects, CandidateSets, list of lists or what `embed` made, optional
        ties : "average", "worst" or "best", default "average"
            What to make of candidates that score as the truth does. With "average" a constant
            score gets no credit.

        Returns
        -------
        ranks : ndarray of shape (n,)
            Infinite where the truth is not among the candidates.
        """

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
            R2 of vectors and of curves, the similarity of strings by their n-grams, of graphs by
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
        return object_score(
            scoring,
            self._seen_outputs(),
            Y,
            candidates,
            lambda: self.predict(X, candidates),
            lambda: self.truth_ranks(X, Y, candidates),
        )

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


class DecodingPredictor(ObjectPredictor):
    """A predictor of coordinates with a decoder that is fitted, and what follows from these."""

    decoder_: Any

    @abstractmethod
    def predict_coordinates(self, X: Any) -> np.ndarray:
        """Return the predicted coordinates f(x) in the output basis."""

    def rank(self, X: Any, candidates: Any = None, k: int = 10) -> Found:
        F = self.predict_coordinates(X)
        return rank(self.decoder_, F, candidates, k)

    def embed(self, candidates: Any, path: Any = None) -> EmbeddedPool:
        """Encode and embed candidates once, to give them to `predict` and `rank` many times.

        Parameters
        ----------
        candidates : objects, CandidateSets or list of lists
            Arrays may be on disk.
        path : path, optional
            A .npy file to write the coordinates to, for more candidates than memory has room for.
            It is searched block by block, and must stay as long as the pool is used.

        Returns
        -------
        pool : EmbeddedPool
        """
        check_is_fitted(self)
        return able(self.decoder_, "embed", by="embed").embed(candidates, path)

    def truth_ranks(
        self, X: Any, Y: Any, candidates: Any = None, *, ties: str = "average"
    ) -> np.ndarray:
        F = self.predict_coordinates(X)
        decoder = able(self.decoder_, "truth_ranks", by="truth_ranks")
        return decoder.truth_ranks(F, Y, candidates, ties=ties)


def predicted(regressor: Any, X: Any) -> Any:
    """Return what a regressor predicts, shape (n, p); from all rows here if it takes no source."""
    if not getattr(regressor, "takes_sources", False):
        X = source(X).load_for(regressor)
    F = numpy_of(regressor.predict(X))
    return F[:, None] if F.ndim == 1 else F


def split_pipeline(model: Any) -> tuple[Pipeline | None, Any]:
    """Return the transformers of a Pipeline, None without any, and its last step, or the model."""
    if not isinstance(model, Pipeline):
        return None, model
    return model[:-1] if len(model) > 1 else None, model[-1]


def fitted_in(model: Any, who: str) -> tuple[Pipeline | None, Any]:
    """Return `split_pipeline`; raise, in the name of `who`, where it ends in no fitted predictor
    of coordinates."""
    before, last = split_pipeline(model)
    if not hasattr(last, "predict_coordinates"):
        raise TypeError(
            f"{who} takes a StructuredPredictor, or a Pipeline that ends in one. Got "
            f"{type(last).__name__} instead; of an Ensemble give one of its members_, of a search "
            "its best_estimator_."
        )
    check_is_fitted(last)
    return before, last
