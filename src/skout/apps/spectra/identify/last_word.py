"""A last word on the candidates of a spectrum: a softmax over them, of the scores by both ways.

The same model as that of `Reranker`, learnt from what folds say of molecules that they have not
seen, which `validation` has at hand; candidates come by the block, so that none is embedded twice.
"""

from __future__ import annotations

import itertools

import numpy as np

from skout.predictors.listwise import FeatureLists, chosen_alpha, linear
from skout.predictors.reranking_features import in_spreads

__all__ = ["features_of", "learnt", "ways_of"]

# Candidates of a molecule that are learnt from: the best.
_TOP = 200


def ways_of(weight: float, normalisation: str) -> list[int]:
    """Return which scores by ways a model has: 0 backward, 1 by distance, 2 by cosine."""
    if weight == 0.0:
        return []  # that of the model is the backward one
    forward = [1, 2] if normalisation == "distance" else [2]
    return forward if np.isinf(weight) else [0, *forward]


def features_of(table: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Return the scores of candidates as they are and in units of their spread, shape (m, 2 r).

    The table, of shape (r, m), has the score of the model, then those by each way.
    """
    return np.column_stack([*table, *(in_spreads(row, indptr) for row in table)])


def learnt(
    tables: list[np.ndarray], right: list[np.ndarray], folds: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return coefficients of features, and scores of each spectrum by those of the other folds.

    The tables, of shape (r, c_i), are by models that have not seen the molecule of a spectrum;
    `right` says which of its candidates are the truth.
    """
    indptr = np.cumsum([0, *(table.shape[1] for table in tables)])
    features = features_of(np.concatenate(tables, axis=1), indptr)
    own = [features[a:b] for a, b in itertools.pairwise(indptr)]
    lists = _lists(own, right, folds)
    scale = lists.spreads()
    lists = lists.scaled(scale)
    alpha = chosen_alpha(lists)[0]
    by_fold = {
        k: linear(lists.of(np.flatnonzero(lists.fold != k)), alpha) / scale
        for k in np.unique(folds)
        if (lists.fold != k).any()
    }
    coef = linear(lists, alpha) / scale
    return coef, [F @ by_fold.get(k, coef) for F, k in zip(own, folds, strict=True)]


def _lists(features: list[np.ndarray], right: list[np.ndarray], folds: np.ndarray) -> FeatureLists:
    """Return the best candidates of those spectra that have the truth and another among them."""
    parts, truth, kept = [], [], []
    for i, (F, own) in enumerate(zip(features, right, strict=True)):
        order = np.argsort(-F[:, 0], kind="stable")[:_TOP]
        hits = np.flatnonzero(own[order])
        order = np.delete(order, hits[1:])  # copies of the truth take one place
        if len(hits) and len(order) > 1:
            parts.append(F[order])
            truth.append(hits[0])
            kept.append(i)
    indptr = np.cumsum([0, *map(len, parts)])
    one = np.ones(len(kept))
    return FeatureLists(np.concatenate(parts), indptr, indptr[:-1] + truth, one, folds[kept])
