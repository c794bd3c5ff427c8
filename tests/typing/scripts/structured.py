"""Structured outputs: fit, predict, rank, save and load."""

import numpy as np

import skout
from skout import CandidateSets, StructuredPredictor
from skout.typing import Candidates, PathLike, Rows

X = np.random.default_rng(0).standard_normal((50, 3))
Y = (X > 0).astype(int)
model: StructuredPredictor = skout.sisokr("gaussian", "f1", alpha=[1e-4, 1e-2], random_state=0)
model = model.fit(X, Y)


def best(model: StructuredPredictor, X: Rows, candidates: Candidates = None) -> np.ndarray:
    indices, scores = model.rank(X, candidates, k=3)
    return indices[np.argsort(-scores[:, 0])]


def kept(model: StructuredPredictor, path: PathLike) -> StructuredPredictor:
    skout.save(model, path)
    again: StructuredPredictor = skout.load(path)
    return again


best(model, X)
best(model, X, Y[:10])
best(model, X, CandidateSets.from_lists([Y[:3]] * len(X)))
pool = model.embed(Y[:10])
print(model.predict(X, pool), model.truth_ranks(X, Y).mean())
