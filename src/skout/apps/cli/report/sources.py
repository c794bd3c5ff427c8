"""What the score comes from: the number of training rows."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from skout.dev import n_rows, no_frames, take

from .subject import Subject

# Parts of the training rows, of at most so many.
_SHARES, _TRAIN_ROWS, _LEAST_ROWS = (0.125, 0.25, 0.5, 1.0), 10_000, 5


@dataclass(frozen=True)
class Point:
    """The score on test rows of a model of so many training rows."""

    rows: int
    score: float


def learning_curve(subject: Subject) -> list[Point]:
    """Return the score of models that are fitted on parts of the training rows."""
    if subject.train is None:
        return []
    X, Y = subject.train
    saved, n = subject.saved, n_rows(Y)
    base: Any = getattr(saved.model, "best_estimator_", saved.model)
    encoder = getattr(saved.model, "encoder_", None)
    rows, inputs = (data if encoder is None else encoder.transform(data) for data in (X, subject.X))
    order = np.random.default_rng(0).permutation(n)
    pool = getattr(subject.candidates, "objects", subject.candidates)
    more = {} if pool is None else {"candidates": pool}
    points, most = [], min(n, _TRAIN_ROWS)
    for size in sorted({max(_LEAST_ROWS, round(share * most)) for share in _SHARES}):
        train_rows = np.sort(order[:size])
        with warnings.catch_warnings(), no_frames():
            warnings.simplefilter("ignore")  # such as sketches larger than few rows
            model = clone(base).fit(take(rows, train_rows), _targets(base, take(Y, train_rows)))
            predicted = model.predict(inputs, **more)
        score = saved.scores(subject.truth, predicted)
        points.append(Point(min(size, n), score.sign * score.merit))
    return points


def _targets(model: Any, Y: Any) -> Any:
    """Return targets of the shape that the model was fitted with."""
    return np.reshape(Y, (len(Y), -1))[:, 0] if getattr(model, "_is_vector", False) else Y
