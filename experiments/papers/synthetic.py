"""The synthetic robust regression of section 3.4.1: data, settings, random Fourier features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skout.datasets import make_robust_regression
from skout.losses import EpsilonInsensitive, Huber
from skout.metrics import relative_mse
from skout.solvers import ConvexProblem, Solution, solve_convex
from skout.solvers.design import DesignMatrix


@dataclass
class Setting:
    """A loss, a penalty and the width of the kernel exp(-gamma ||x - x'||^2)."""

    loss: Any
    alpha: float
    gamma: float


#: The authors' choice. Their Fourier frequencies have standard deviation 1: gamma is 1/2.
SETTINGS = {
    ("huber", "sketch"): Setting(Huber(100.0), 1e-7, 0.1),
    ("huber", "RFF"): Setting(Huber(100.0), 1e-7, 0.5),
    ("epsilon", "sketch"): Setting(EpsilonInsensitive(4.64), 1e-8, 0.1),
    ("epsilon", "RFF"): Setting(EpsilonInsensitive(10.0), 1e-11, 0.5),
}


@dataclass
class Data:
    """Training rows and targets, test rows, their targets and the function behind these."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    f_test: np.ndarray

    def errors(self, predicted: np.ndarray) -> dict[str, float]:
        """Return the test error as in the figure, and against the noiseless function."""
        return {
            "relative_mse": relative_mse(self.y_test, predicted),
            "noiseless_mse": float(np.mean((self.f_test - predicted) ** 2)),
        }


def make_data(n: int, seed: int = 42) -> Data:
    """Return the authors' draw; see figure_3_1.py."""
    data = make_robust_regression(n, n, random_state=seed)
    f_test = data.extra["noiseless"][data.split["test"]]
    return Data(*data.train, *data.test, f_test)


class Fourier:
    """Random Fourier features of the Gaussian kernel: m/2 frequencies, cosine and sine of each."""

    def __init__(self, m: int, gamma: float, d: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.frequencies = np.sqrt(2.0 * gamma) * rng.standard_normal((d, m // 2))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        angles = X @ self.frequencies
        return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(angles.shape[1])


def solve(
    Z: np.ndarray,
    y: np.ndarray,
    setting: Setting,
    tol: float = 1e-4,
    start: Solution | None = None,
) -> Solution:
    """Solve on given coordinates."""
    shares = np.full(len(y), 1.0 / len(y))
    coordinates = DesignMatrix(Z)
    problem = ConvexProblem(coordinates, y[:, None], shares, setting.loss, setting.alpha)
    return solve_convex(problem, tol=tol, start=start)
