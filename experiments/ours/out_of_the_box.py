"""Label sets without any setting: what the defaults give, beside a random forest.

    python -m experiments.ours.out_of_the_box
    python -m benchmarks.summary --write         # puts the table into the README

skout is `sisokr("gaussian", "f1")`, which has no threshold. Columns of numbers are standardised by
training rows; rows of words, that is of 0 and 1, are taken as they are. The forest is
scikit-learn's, once with labels above 0.5, once above the threshold that is best for the training
rows in three-fold cross-validation. Official splits, else 70 % of the rows to train. Scores are
example F1 in percent, averaged over three seeds of sketches, forests and splits. Bibtex is of skout
alone: forests of its 159 labels take long, and `multilabel.py` has them.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import KFold, train_test_split
from sklearn.preprocessing import StandardScaler

from experiments.common import clock, mean_sd, print_table, write_record
from experiments.ours.multilabel import THRESHOLDS, probabilities
from skout import sisokr
from skout.datasets import load
from skout.metrics import example_f1

DATA = ("birds", "cal500", "emotions", "flags", "foodtruck", "genbase", "medical")
DATA += ("stackex_chess", "yeast", "bibtex")
ALONE = ("bibtex",)
N_SEEDS, N_FOLDS, TRAINING_SHARE = 3, 3, 0.7


def parts(name: str, seed: int) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Return inputs and label sets to train on, and those to test."""
    data = load(name, "multilabel")
    if data.split:
        (X, Y), (X_test, Y_test) = data.train, data.test
    else:
        X, X_test, Y, Y_test = train_test_split(
            data.X, data.Y, train_size=TRAINING_SHARE, random_state=seed
        )
    if np.isin(data.X.data, (0, 1)).all():  # words
        return X, Y, X_test, Y_test
    scaler = StandardScaler().fit(X.toarray())
    return scaler.transform(X.toarray()), Y, scaler.transform(X_test.toarray()), Y_test


def forest(X: Any, Y: np.ndarray, X_test: Any, seed: int) -> np.ndarray:
    """Return the probability of each label."""
    model = RandomForestClassifier(random_state=seed, n_jobs=2)
    return probabilities(model.fit(X, Y), X_test)


def best_threshold(X: Any, Y: np.ndarray, seed: int) -> float:
    """Return the threshold of greatest F1 on training rows that a forest has not seen."""
    folds = KFold(N_FOLDS, shuffle=True, random_state=seed)
    P = np.empty(Y.shape)
    for train, held in folds.split(Y):
        P[held] = forest(X[train], Y[train], X[held], seed)
    scores = [example_f1(Y, threshold < P) for threshold in THRESHOLDS]
    return float(THRESHOLDS[int(np.argmax(scores))])


def compare(name: str, seed: int) -> dict[str, float]:
    """Return the F1 of each method on test rows, and what it took."""
    X, Y, X_test, Y_test = parts(name, seed)
    with clock() as ours:
        found = sisokr("gaussian", "f1", random_state=seed).fit(X, Y).predict(X_test)
    scores = {"skout": 100.0 * example_f1(Y_test, found), "seconds": ours.seconds}
    if name in ALONE:
        return scores
    P = forest(X, Y, X_test, seed)
    threshold = best_threshold(X, Y, seed)
    return scores | {
        "forest": 100.0 * example_f1(Y_test, P > 0.5),
        "tuned": 100.0 * example_f1(Y_test, threshold < P),
        "threshold": threshold,
    }


def row(name: str) -> dict[str, Any]:
    """Return means and standard deviations over the seeds."""
    found = [compare(name, seed) for seed in range(N_SEEDS)]
    n = len(parts(name, 0)[1])
    means = {key: mean_sd(one[key] for one in found) for key in found[0]}
    return {"data": name, "training rows": n} | means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=DATA, help="no record")
    chosen = parser.parse_args().data
    warnings.filterwarnings("ignore", message="size=")
    rows = []
    for name in chosen:
        rows.append(row(name))
        print_table(
            [{k: v[0] if isinstance(v, list) else v for k, v in rows[-1].items()}], list(rows[-1])
        )
    if tuple(chosen) == DATA:
        settings = {"n_seeds": N_SEEDS, "n_folds": N_FOLDS, "training_share": TRAINING_SHARE}
        settings |= {"thresholds": THRESHOLDS, "model": 'sisokr("gaussian", "f1")'}
        write_record("out_of_the_box", settings, rows)


if __name__ == "__main__":
    main()
