"""Figures of chapter 3 on real data; `experiments/` has the whole tables.

Settings are those that cross-validation on training rows chose there (experiments/records).
"""

import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from skout import JointQuantileRegressor, KernelRidge
from skout.kernels import Gaussian
from skout.metrics import arrmse, crossing_loss, pinball_loss
from skout.sketches import PSparsified

FOLDER = os.environ.get("SKOUT_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="SKOUT_DATA, the folder of the real data, is not set"
)


def test_river_flow_is_at_least_as_good_as_the_thesis():
    """Table 3.4: aRRMSE 0.584 with a p-sparsified sketch of size 100, 0.575 with none."""
    stored = np.load(Path(FOLDER) / "mtr_rf1.npz")
    X, Y, n = stored["X"], stored["Y"], int(stored["n_train"])
    mean = np.nanmean(X[:n], axis=0)
    X = np.where(np.isnan(X), mean, X)
    spread = X[:n].std(axis=0)
    X = (X - X[:n].mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    T = (Y - Y[:n].mean(axis=0)) / Y[:n].std(axis=0)
    errors = []
    for seed in range(3):
        model = KernelRidge(
            Gaussian(3e-5), PSparsified(100), 3e-6, fit_intercept=True, random_state=seed
        )
        F = model.fit(X[:n], T[:n]).predict(X[n:])
        errors.append(arrmse(T[n:], F, train_mean=np.zeros(T.shape[1])))
    assert np.mean(errors) < 0.575


def test_boston_quantiles_are_at_least_as_good_as_the_thesis():
    """Table 3.3: 51.28 without a sketch, 54.75 with a p-sparsified one of size 50."""
    with gzip.open(Path(FOLDER) / "qr_boston.csv.gz", "rt") as file:
        table = np.array([list(map(float, row)) for row in list(csv.reader(file))[1:]])
    levels = [0.1, 0.3, 0.5, 0.7, 0.9]
    losses = []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(table))
        train, test = order[:354], order[354:]
        scaled = (table - table[train].mean(axis=0)) / table[train].std(axis=0)
        X, y = scaled[:, :-1], scaled[:, -1]
        model = JointQuantileRegressor(
            levels, Gaussian(0.02), PSparsified(50), [1e-3, 3e-4, 1e-4], 3.0, random_state=seed
        )
        F = model.fit(X[train], y[train]).predict(X[test])
        losses.append(100.0 * pinball_loss(y[test], F, levels))
        assert crossing_loss(F, levels) == 0.0
    assert np.mean(losses) < 51.28
