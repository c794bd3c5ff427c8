"""The search over models and settings."""

import numpy as np

from skout import Tuned
from skout.typing import Rows, Targets

X = np.random.default_rng(0).standard_normal((50, 3))


def searched(X: Rows, y: Targets, budget: float | str) -> Tuned:
    return Tuned(budget=budget, random_state=0, checkpoint=None).fit(X, y)


model = searched(X, X[:, 0], "2 fits")
model = searched(X.tolist(), [str(x > 0) for x in X[:, 0]], 5.0)
print(model.predict(X), model.score(X, X[:, 0]), model.summary())
