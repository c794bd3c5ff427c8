"""Choose width, penalty and loss parameter of figure 3.1 by five folds of the training rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from experiments.papers.paths import folds_of
from experiments.papers.synthetic import Data, Fourier, Setting, solve
from skout import KernelBasis
from skout.kernels import Gaussian
from skout.losses import Huber
from skout.sketches import PSparsified

SIZE, SEED = 90, 1000
GAMMAS = (0.03, 0.1, 0.3, 1.0)
ALPHAS = (1e-6, 1e-7, 1e-8, 1e-9)  # from the easiest problem on
KAPPAS = (1.0, 10.0, 100.0)
EPSILONS = (0.1, 1.0, 4.64, 10.0)


def select(kind: str, start: Setting, data: Data, quick: bool = False) -> Setting:
    """Return the setting with the least held-out squared error, which is what the figure shows.

    Sketches share the choice made with p-SR, p = 30/n, of size 90; random Fourier features
    (`kind` "RFF") get their own.
    """
    huber = isinstance(start.loss, Huber)
    losses = [replace_parameter(start.loss, value) for value in (KAPPAS if huber else EPSILONS)]
    gammas = GAMMAS[1:3] if quick else GAMMAS
    best, least = start, np.inf
    for gamma in gammas:
        Z = coordinates(kind, gamma, data)
        for loss in losses:
            for alpha, error in zip(ALPHAS, path_errors(Z, data.y, loss), strict=True):
                if error < least:
                    best, least = replace(start, loss=loss, alpha=alpha, gamma=gamma), error
    return best


def replace_parameter(loss: Any, value: float) -> Any:
    """Return the loss with another kappa or epsilon."""
    return type(loss)(value)


def coordinates(kind: str, gamma: float, data: Data) -> np.ndarray:
    """Return the coordinates of the training rows."""
    if kind == "RFF":
        return Fourier(SIZE, gamma, data.X.shape[1], SEED)(data.X)
    sketch = PSparsified(SIZE, 30 / len(data.X))
    return KernelBasis(Gaussian(gamma), sketch, random_state=SEED).fit_transform(data.X)


def path_errors(Z: np.ndarray, y: np.ndarray, loss: Any) -> np.ndarray:
    """Return the mean squared error on held-out rows for each alpha."""
    fold = folds_of(len(y), 5, seed=SEED)
    errors = np.zeros(len(ALPHAS))
    for k in range(5):
        train, test = fold != k, fold == k
        solution = None
        for j, alpha in enumerate(ALPHAS):
            setting = Setting(loss, alpha, gamma=0.0)  # Z is made
            solution = solve(Z[train], y[train], setting, tol=1e-3, start=solution)
            errors[j] += np.sum((y[test] - Z[test] @ solution.theta[:, 0]) ** 2) / len(y)
    return errors
