"""What predictors of coordinates share: predictions as a matrix, and pipelines around them."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import numpy_of
from ..rows import source

__all__ = ["fitted_in", "predicted", "split_pipeline"]


def predicted(regressor: Any, X: Any) -> Any:
    """Return what a regressor predicts, shape (n, p); from all rows here if it takes no source."""
    if not getattr(regressor, "takes_sources", False):
        X = source(X).all_for(regressor)
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
