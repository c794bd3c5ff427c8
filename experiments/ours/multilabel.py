"""Label sets: five data sets, everything chosen by cross-validation on the training part.

    python -m experiments.ours.multilabel --data bibtex --part exact 300 600 logistic
    python -m experiments.ours.multilabel --data delicious tmc2007-500 yeast corel16k001
    python -m experiments.ours.multilabel --data bibtex --part seconds  # on a quiet machine

Official splits. Three folds of the training part choose, for skout: rows as they are or of unit
length (sparse data; dense data are standardised), the width of a Gaussian input kernel, alpha, the
output kernel (F1 or Tanimoto), the decoder (training label sets, or all label sets), and the
output sketch. For scikit-learn's methods they choose the form of the rows, C, the number of
neighbours, the size of leaves, and in the rows "threshold by CV" the probability above which a
label is predicted, which is 0.5 in the others. Input sketches are uniform sub-samples; bibtex is
also solved exactly. All scores are example F1 in percent, averaged over five draws of the
sketches, or three seeds of a forest or a chain.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler, normalize
from tqdm import tqdm

from experiments.common import clock, load_labels, mean_sd, print_table, read_record, write_record
from experiments.papers.formulas import FoldOutputs, fold_scores
from skout import KernelBasis, StructuredPredictor, iokr
from skout.decoding import CandidateDecoder, LabelSetDecoder
from skout.kernels import F1, Gaussian, Tanimoto
from skout.metrics import example_f1
from skout.sketches import PivotedCholesky, PSparsified, SubSample

SEED, N_FOLDS, N_DRAWS = 0, 3, 5
DATA = ("bibtex", "delicious", "tmc2007-500", "yeast", "corel16k001")
M_X = 2000
SIZES = {"exact": None, "300": 300, "600": 600}  # of the output sketch
PARTS = [*SIZES, "logistic", "neighbours", "forest", "seconds"]
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # times the median squared distance
ALPHAS = tuple(10.0 ** np.arange(-5.5, -1.9, 0.5))
OUTPUT_KERNELS = {"F1": F1(), "Tanimoto": Tanimoto()}
DECODERS = {"training sets": CandidateDecoder(), "all sets": LabelSetDecoder()}
OUTPUT_SKETCHES = {
    "p-sparsified": PSparsified,
    "sub-sample": SubSample,
    "pivoted Cholesky": PivotedCholesky,
}


# Inputs ----------------------------------------------------------------------------------------


def representations(X: Any, X_test: Any) -> dict[str, tuple[Any, Any]]:
    """Return the inputs in the forms to choose from, scaled by training rows alone."""
    if X.nnz > 0.5 * X.shape[0] * X.shape[1]:
        scaler = StandardScaler().fit(X.toarray())
        return {"standardised": (scaler.transform(X.toarray()), scaler.transform(X_test.toarray()))}
    return {"as they are": (X, X_test), "unit length": (normalize(X), normalize(X_test))}


def median_squared_distance(X: Any) -> float:
    """Return the median over pairs of 1,000 rows."""
    some = np.random.default_rng(SEED).choice(X.shape[0], min(1000, X.shape[0]), replace=False)
    squared = pairwise_distances(X[some]) ** 2
    return float(np.median(squared[squared > 0.0]))


# Choosing a setting of ours --------------------------------------------------------------------


@dataclass
class Setting:
    """What cross-validation chooses."""

    rows: str
    gamma: float
    alpha: float
    kernel: str
    decoder: str
    output_sketch: str | None = None

    def model(self, m_x: int | None, m_y: int | None, seed: int) -> StructuredPredictor:
        sketch = None if self.output_sketch is None else OUTPUT_SKETCHES[self.output_sketch](m_y)
        model = iokr(
            Gaussian(self.gamma),
            OUTPUT_KERNELS[self.kernel],
            input_sketch=None if m_x is None else SubSample(m_x),
            output_sketch=sketch,
            alpha=self.alpha,
            random_state=seed,
        )
        return model.set_params(decoder=DECODERS[self.decoder])


def choose(
    forms: dict[str, Any], Y: np.ndarray, m_x: int | None, m_y: int | None, quick: bool
) -> tuple[Setting, float]:
    """Return the setting of greatest F1 over the folds, and this F1."""
    folds = list(KFold(N_FOLDS, shuffle=True, random_state=SEED).split(Y))
    # thousands of rows with hundreds of labels: fewer widths
    widths = WIDTHS[1:3] if quick else WIDTHS[1:4] if Y.size > 10**7 else WIDTHS
    table: dict[tuple[Any, ...], list[float]] = {}

    @functools.cache
    def outputs(i: int, name: str | None) -> FoldOutputs:
        train = folds[i][0]
        sketch = None if name is None else OUTPUT_SKETCHES[name](min(m_y, len(train)))
        bases = {
            name: KernelBasis(kernel, sketch, random_state=SEED)
            for name, kernel in OUTPUT_KERNELS.items()
        }
        return FoldOutputs.of(Y[train], bases, DECODERS)

    def add(rows: str, gamma: float, name: str | None) -> None:
        for i, fold in enumerate(folds):
            sketch = None if m_x is None else SubSample(min(m_x, len(fold[0])))
            found = fold_scores(forms[rows][0], Y, fold, gamma, sketch, outputs(i, name), ALPHAS)
            for rest, score in found.items():
                table.setdefault((rows, gamma, *rest, name), []).append(score)

    first = None if m_y is None else "p-sparsified"
    grid = [
        (rows, 1.0 / (width * median_squared_distance(forms[rows][0])))
        for rows, width in itertools.product(forms, widths)
    ]
    for rows, gamma in tqdm(grid, desc=f"m_x={m_x} m_y={m_y}"):
        add(rows, gamma, first)
    if m_y is not None:  # other output sketches, at the best rows and width
        rows, gamma, *_ = max(table, key=lambda key: np.mean(table[key]))
        for name in OUTPUT_SKETCHES:
            if name != first:
                add(rows, gamma, name)
    best = max(table, key=lambda key: np.mean(table[key]))
    return Setting(*best), 100.0 * float(np.mean(table[best]))


def ours(data: str, m_y: int | None, quick: bool) -> list[dict[str, Any]]:
    """Return the row of a sketched model, or with m_y None of the exact one."""
    X, Y, X_test, Y_test = load_labels(data)
    forms = representations(X, X_test)
    m_x = None if m_y is None else min(M_X, len(Y))
    setting, validated = choose(forms, Y, m_x, m_y, quick)
    A, B = forms[setting.rows]
    scores = []
    for seed in range(1 if m_x is None else N_DRAWS):
        found = setting.model(m_x, m_y, seed).fit(A, Y).predict(B)
        scores.append(100.0 * example_f1(Y_test, found))
    row = {
        "data": data,
        "method": "skout, exact" if m_x is None else f"skout, m_x={m_x}, m_y={m_y}",
        "f1": mean_sd(scores),
        "validation_f1": validated,
        "setting": vars(setting),
        "m_x": m_x,
        "m_y": m_y,
    }
    return [row]


def seconds(data: str, quick: bool) -> list[dict[str, Any]]:
    """Return the seconds of the models that were chosen, exact and sketched, in turn."""
    X, Y, X_test, _ = load_labels(data)
    forms = representations(X, X_test)
    rows = [read_record(f"multilabel_{data}_{part}")["results"][0] for part in SIZES]
    times: list[list[tuple[float, float]]] = [[] for _ in rows]
    for _, (row, found) in itertools.product(
        range(1 if quick else 5), zip(rows, times, strict=True)
    ):
        model = Setting(**row["setting"]).model(row["m_x"], row["m_y"], SEED)
        A, B = forms[row["setting"]["rows"]]
        with clock() as fit:
            model.fit(A, Y)
        with clock() as predict:
            model.predict(B)
        found.append((fit.seconds, predict.seconds))
    best = [min(found, key=sum) for found in times]
    return [
        {
            "data": data,
            "method": row["method"],
            "f1": row["f1"],
            "fit_seconds": fit,
            "predict_seconds": predict,
            "share of exact": (fit + predict) / sum(best[0]),
        }
        for row, (fit, predict) in zip(rows, best, strict=True)
    ]


# scikit-learn ----------------------------------------------------------------------------------


def logistic(C: float, seed: int, n_jobs: int) -> Any:
    base = LogisticRegression(C=C, solver="liblinear", random_state=seed)
    return OneVsRestClassifier(base, n_jobs=n_jobs)


def forest(leaf: int, seed: int, n_jobs: int) -> Any:
    return RandomForestClassifier(100, min_samples_leaf=leaf, random_state=seed, n_jobs=n_jobs)


def small_forest(leaf: int, seed: int, n_jobs: int) -> Any:
    return RandomForestClassifier(30, min_samples_leaf=leaf, random_state=seed, n_jobs=n_jobs)


def neighbours(k: int, seed: int, n_jobs: int) -> Any:
    return KNeighborsClassifier(k, metric="euclidean", n_jobs=n_jobs)


def chain(C: float, seed: int, n_jobs: int) -> Any:
    base = LogisticRegression(C=C, solver="liblinear", random_state=seed)
    return ClassifierChain(base, order="random", random_state=seed)


BASELINES = {
    "logistic": ("logistic regression", logistic, (0.1, 1.0, 10.0)),
    "forest": ("random forest", forest, (1, 2, 5, 10)),
    "neighbours": ("k-NN", neighbours, (1, 3, 5, 10, 20, 40)),
}
THRESHOLDS = np.round(np.arange(0.05, 0.51, 0.05), 2)


def probabilities(model: Any, X: Any) -> np.ndarray:
    """Return the probability of each label, shape (n, L)."""
    found = model.predict_proba(X)
    if isinstance(found, np.ndarray):
        return found
    # one (n, 2) array a label; a label that is never, or always, there has a single column
    columns = []
    for some, classes in zip(found, model.classes_, strict=True):
        columns.append(some[:, 1] if len(classes) == 2 else np.full(len(some), float(classes[0])))
    return np.column_stack(columns)


def baseline(data: str, part: str, n_jobs: int, quick: bool) -> Iterator[dict[str, Any]]:
    """Yield the rows of a method of scikit-learn, with and without a threshold of its own."""
    X, Y, X_test, Y_test = load_labels(data)
    forms = representations(X, X_test)
    Y, Y_test = Y.astype(int), Y_test.astype(int)
    folds = list(KFold(N_FOLDS, shuffle=True, random_state=SEED).split(Y))
    large = Y.shape[1] > 500  # hundreds of labels: one fold, and one small forest
    folds, seeds = folds[: 1 if quick or large else None], range(1 if quick or large else 3)
    name, build, grid = BASELINES[part]
    if part == "forest":  # trees do not see the scale of a row
        forms = dict(list(forms.items())[:1])
        build, grid = (small_forest, (5,)) if large else (build, grid)

    def fitted(rows: str, value: Any, seed: int) -> np.ndarray:
        return probabilities(build(value, seed, n_jobs).fit(forms[rows][0], Y), forms[rows][1])

    table: dict[tuple[str, Any, float], list[float]] = {}
    tasks = list(itertools.product(forms, grid[:2] if quick else grid, folds))
    for rows, value, (train, val) in tqdm(tasks, desc=f"{data}, {name}"):
        A = forms[rows][0]
        P = probabilities(build(value, SEED, n_jobs).fit(A[train], Y[train]), A[val])
        for threshold in THRESHOLDS:
            score = example_f1(Y[val], threshold < P)
            table.setdefault((rows, value, float(threshold)), []).append(score)
    final = functools.cache(fitted)
    for tuned in (False, True):
        keys = [key for key in table if tuned or key[2] == 0.5]
        rows, value, threshold = max(keys, key=lambda key: np.mean(table[key]))
        draws = seeds if part == "forest" else range(1)
        found = [threshold < final(rows, value, seed) for seed in draws]
        yield {
            "data": data,
            "method": name + (", threshold by CV" if tuned else ""),
            "f1": mean_sd(100.0 * example_f1(Y_test, labels) for labels in found),
            "setting": {"value": value, "threshold": threshold, "rows": rows},
        }
        if part == "logistic" and not tuned:  # the chain has its rows and its C
            A, B = forms[rows]
            found = [chain(value, seed, n_jobs).fit(A, Y).predict(B) for seed in seeds]
            yield {
                "data": data,
                "method": "classifier chain",
                "f1": mean_sd(100.0 * example_f1(Y_test, labels) for labels in found),
                "setting": {"value": value, "threshold": 0.5, "rows": rows},
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer widths and folds; no record")
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--part", nargs="+", default=[*PARTS[2:-1]], choices=PARTS)
    parser.add_argument("--n-jobs", type=int, default=2)
    options = parser.parse_args()
    settings = {
        "n_folds": N_FOLDS,
        "widths": WIDTHS,
        "alphas": ALPHAS,
        "max_scored": 1000,
        "n_draws": N_DRAWS,
    }
    for data, part in itertools.product(options.data, options.part):
        if part in SIZES:
            rows = ours(data, SIZES[part], options.quick)
        elif part == "seconds":
            rows = seconds(data, options.quick)
        else:
            rows = list(baseline(data, part, options.n_jobs, options.quick))
        columns = ["data", "method", "f1", "fit_seconds", "predict_seconds", "share of exact"]
        print_table([row | {"f1": row["f1"][0]} for row in rows], columns)
        if not options.quick:
            write_record(f"multilabel_{data}_{part}", settings, rows, SEED)


if __name__ == "__main__":
    main()
