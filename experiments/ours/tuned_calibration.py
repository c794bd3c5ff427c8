"""Probabilities of `Tuned`: as least squares estimates them, by a temperature, by isotonic curves.

    python -m experiments.ours.tuned_calibration [--budget "8 fits"] [--sets wine yeast ...]

Half of the rows of each set are fitted; expected calibration error and log loss are of the other
half. All three ways are fitted on the same held-out predictions within the first half.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets as of_sklearn
from sklearn.isotonic import IsotonicRegression

from experiments.common import print_table, write_record
from skout import Tuned
from skout.apps.tuning import averages
from skout.apps.tuning.calibration import expected_calibration_error
from skout.apps.tuning.scoring import codes_of
from skout.datasets import load
from skout.dev import take

SEED = 0


def _labels(name: str) -> tuple[str, Any, Any]:
    data = load(name, "multilabel")
    return "label_sets", data.X, data.Y


def _noisy(n: int) -> tuple[str, Any, Any]:
    """Three classes whose probabilities are logistic in two of five columns."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, 5))
    scores = np.column_stack([X[:, 0], -X[:, 0] + X[:, 1], np.zeros(n)])
    return "classes", X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


SETS: dict[str, Callable[[], tuple[str, Any, Any]]] = {
    "simulated": lambda: _noisy(2000),
    "breast cancer": lambda: ("classes", *of_sklearn.load_breast_cancer(return_X_y=True)),
    "wine": lambda: ("classes", *of_sklearn.load_wine(return_X_y=True)),
    "digits": lambda: ("classes", *of_sklearn.load_digits(return_X_y=True)),
    "flags": lambda: _labels("flags"),
    "emotions": lambda: _labels("emotions"),
    "yeast": lambda: _labels("yeast"),
}


def isotonic(held: np.ndarray, truth: np.ndarray, new: np.ndarray, are_sets: bool) -> np.ndarray:
    """Return probabilities by one curve for all labels, or by one a class, of sum 1."""
    curve = IsotonicRegression(y_min=1e-3, y_max=1.0 - 1e-3, out_of_bounds="clip")
    if are_sets:
        return curve.fit(held.ravel(), truth.ravel()).predict(new.ravel()).reshape(new.shape)
    columns = [curve.fit(held[:, k], truth[:, k]).predict(new[:, k]) for k in range(held.shape[1])]
    P = np.column_stack(columns)
    return P / P.sum(axis=1, keepdims=True)


def measured(P: np.ndarray, truth: np.ndarray, are_sets: bool) -> tuple[float, float]:
    """Return the expected calibration error and the log loss."""
    P = np.clip(P, 1e-15, 1.0 - 1e-15)
    if are_sets:
        loss = -np.mean(np.where(truth > 0, np.log(P), np.log1p(-P)))
        return expected_calibration_error(P, truth), float(loss)
    right = truth[np.arange(len(P)), P.argmax(axis=1)]
    loss = -np.mean(np.log(P[truth > 0]))
    return expected_calibration_error(P.max(axis=1), right), float(loss)


def compare(name: str, budget: Any) -> list[dict[str, Any]]:
    kind, X, Y = SETS[name]()
    order = np.random.default_rng(SEED).permutation(X.shape[0])
    train, test = np.array_split(order, 2)
    chosen: list[tuple[Any, np.ndarray]] = []
    real = averages.choice_of

    def noted(search: Any, *params: Any) -> Any:
        chosen[:] = [(search.sample.folds.held, real(search, *params))]
        return chosen[0][1]

    import skout.apps.tuning.estimator as estimator

    estimator.choice_of = noted  # type: ignore[assignment]
    model = Tuned(kind, budget=budget, random_state=SEED).fit(take(X, train), take(Y, train))
    estimator.choice_of = real
    basis, are_sets = model.best_estimator_.output_basis_, kind == "label_sets"

    def codes(rows: np.ndarray) -> np.ndarray:
        return codes_of(basis, take(Y, rows))

    held, choice = chosen[0]
    inside = basis.probabilities(choice.F.astype(float))
    plain = basis.probabilities(model.best_estimator_.predict_coordinates(take(X, test)))
    ways = {
        "least squares": plain,
        "temperature": model.calibration_.apply(plain),
        "isotonic": isotonic(inside, codes(train[held]), plain, are_sets),
    }
    rows = []
    for way, P in ways.items():
        error, loss = measured(P, codes(test), are_sets)
        rows.append({"set": name, "by": way, "calibration error": error, "log loss": loss})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", default="8 fits", help='seconds, or "8 fits"')
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--write", action="store_true", help="keep a record")
    words = parser.parse_args()
    warnings.simplefilter("ignore")
    budget = words.budget if "fit" in words.budget else float(words.budget)
    rows = []
    for name in words.sets:
        rows += compare(name, budget)
        for row in rows[-3:]:
            print(*(f"{v:.4f}" if isinstance(v, float) else v for v in row.values()), flush=True)
    print_table(rows, list(rows[0]))
    if words.write:
        print(write_record("tuned_calibration", {"budget": words.budget}, rows, SEED))


if __name__ == "__main__":
    main()
