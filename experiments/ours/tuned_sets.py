"""The protocol of `tuned.py`: data sets, outer splits, what each row of a test part scores.

It was fixed before the first test row was looked at. Sets of fewer than 1,000 rows have five outer
folds; larger ones their official split or, where there is none, one random third held out. Missing
inputs are filled with training medians and nominal columns become indicators, for every method
alike; scaling is each method's own affair.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import KFold, train_test_split

from skout import datasets
from skout.metrics import arrmse, example_f1, kendall_tau

SEED, FOLDS, SMALL, TEST_SHARE = 0, 5, 1000, 1 / 3
#: Seconds to choose in and cores, of sets of fewer than `SMALL` rows and of the others.
BUDGET = {True: (15.0, 1), False: (60.0, 2)}
LABELS = "emotions medical genbase birds flags cal500 foodtruck yeast stackex_chess bibtex"
LABELS += " rcv1subset1-top944 ohsumed corel16k001 tmc2007-500 delicious"
RANKINGS = "authorship bodyfat glass housing iris stock vehicle wine wisconsin cold diau dtt heat"
RANKINGS += " spo sushi cpu-small elevators calhousing fried"
TARGETS = "andro slump edm atp7d sf1 atp1d jura oes10 osales enb sf2 scpf scm20d_testonly"
TARGETS += " rf1 births1 births2 wage"
#: The published bests of label ranking, mean tau.
PUBLISHED = {
    "authorship": 0.940, "bodyfat": 0.283, "cpu-small": 0.518, "glass": 0.906, "housing": 0.833,
    "iris": 0.968, "vehicle": 0.886, "wine": 0.956, "calhousing": 0.491, "elevators": 0.803,
    "fried": 0.995, "stock": 0.924, "wisconsin": 0.619, "cold": 0.108, "diau": 0.220,
    "dtt": 0.141, "heat": 0.067, "spo": 0.137,
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """Data sets of one kind of output: their loader, their metric and which way is better."""

    title: str
    metric: str
    sets: tuple[str, ...]
    load: Callable[[str], datasets.Dataset]
    score: Callable[[Any, Any], float]
    more: bool = True


def _loader(kind: str) -> Callable[[str], datasets.Dataset]:
    return functools.partial(datasets.load, kind=kind)


KINDS = {
    "labels": Kind(
        "Label sets", "example F1", tuple(LABELS.split()), _loader("multilabel"), example_f1
    ),
    "rankings": Kind(
        "Rankings",
        "Kendall's tau",
        tuple(RANKINGS.split()),
        _loader("ranking"),
        kendall_tau,
    ),
    "targets": Kind(
        "Several targets",
        "aRRMSE",
        tuple(TARGETS.split()),
        _loader("multioutput"),
        arrmse,
        more=False,
    ),
}


@dataclass(frozen=True)
class Part:
    """One outer training and test part."""

    X: Any
    Y: np.ndarray
    X_test: Any
    Y_test: np.ndarray
    test: np.ndarray  # numbers of the test rows


def n_parts(data: datasets.Dataset) -> int:
    """Return the number of outer folds, 1 for a hold-out."""
    return FOLDS if len(data) < SMALL else 1


def outer(data: datasets.Dataset, fold: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the training and of the test rows of an outer part."""
    rows = np.arange(len(data))
    if len(data) < SMALL:
        return list(KFold(FOLDS, shuffle=True, random_state=SEED).split(rows))[fold]
    if "train" in data.split:
        return rows[data.split["train"]], rows[data.split["test"]]
    train, test = train_test_split(rows, test_size=TEST_SHARE, random_state=SEED)
    return np.sort(train), np.sort(test)


def part(data: datasets.Dataset, fold: int, inside: bool = False) -> Part:
    """Return an outer part; `inside` splits its training rows instead: no test row is seen."""
    train, test = outer(data, fold)
    if inside:
        train, test = train_test_split(train, test_size=TEST_SHARE, random_state=SEED + 1)
    X, X_test = prepared(data, train, test)
    return Part(X, data.Y[train], X_test, data.Y[test], test)


def prepared(data: datasets.Dataset, train: np.ndarray, test: np.ndarray) -> tuple[Any, Any]:
    """Return the inputs of both parts without gaps, nominal columns as indicators."""
    X = data.X
    if sparse.issparse(X):
        X = X.toarray() if X.nnz > 0.3 * np.prod(X.shape) else X.tocsr()
        return X[train], X[test]
    nominal = np.asarray(data.names.get("nominal", ()), dtype=int)
    middle = np.nanmedian(X[train], axis=0)
    filled = np.where(np.isnan(X), np.nan_to_num(middle), X)
    codes = [filled[:, [j]] == np.unique(filled[train, j]) for j in nominal]
    filled = np.hstack([np.delete(filled, nominal, axis=1), *codes])
    return filled[train], filled[test]


# What a row scores -----------------------------------------------------------------------------


def row_scores(kind: str, part: Part, predicted: Any) -> np.ndarray:
    """Return what each test row adds: its F1 or tau (n, 1), or error and deviation (n, 2 d)."""
    if kind == "targets":
        error = (part.Y_test - np.asarray(predicted)) ** 2
        return np.hstack([error, (part.Y_test - part.Y.mean(axis=0)) ** 2])
    if kind == "labels":
        true, found = part.Y_test.astype(bool), _dense(predicted).astype(bool)
        total, common = true.sum(1) + found.sum(1), (true & found).sum(1)
        return np.where(total > 0, 2 * common / np.maximum(total, 1), 1.0)[:, None]
    true, found = _orders(part.Y_test), _orders(np.asarray(predicted))  # (n, d, d)
    norm = np.sqrt((true**2).sum(axis=(1, 2)) * (found**2).sum(axis=(1, 2), dtype=np.float64))
    return ((true * found).sum(axis=(1, 2)) / np.where(norm > 0.0, norm, 1.0))[:, None]


def _orders(R: np.ndarray) -> np.ndarray:
    """Return which of two items comes first: 1, 0 or -1, of shape (n, d, d)."""
    return np.sign(R[:, :, None] - R[:, None, :]).astype(np.int64)


def _dense(rows: Any) -> np.ndarray:
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


def pseudo_values(kind: str, rows: np.ndarray) -> np.ndarray:
    """Return one number a row whose mean is the score and whose spread gives its standard error.

    F1 and tau are means over rows already. The aRRMSE t is not: row i has the jackknife's
    pseudo-value n t - (n - 1) t_i, with t_i the aRRMSE without that row.
    """
    if kind != "targets":
        return rows[:, 0]
    d, n = rows.shape[1] // 2, len(rows)
    error, deviation = rows[:, :d], rows[:, d:]

    def average(error: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(error, 0.0) / np.maximum(deviation, 1e-300)).mean(axis=-1)

    sums = error.sum(axis=0), deviation.sum(axis=0)
    varies = sums[1] > 0.0
    whole = average(sums[0][varies], sums[1][varies])
    without = average((sums[0] - error)[:, varies], (sums[1] - deviation)[:, varies])
    return whole + (n - 1) * (whole - without)


def score(kind: str, rows: np.ndarray) -> float:
    """Return the score of test rows, pooled over outer folds."""
    if kind != "targets":
        return float(rows.mean())
    error, deviation = np.split(rows.sum(axis=0), 2)
    varies = deviation > 0.0
    return float(np.sqrt(error[varies] / deviation[varies]).mean())


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of the mean of pseudo-values."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))
