"""scikit-learn's best: seven families, their settings chosen by cross-validation within a budget.

All families share the inner folds, the clock and the cores. The first setting of every family has a
fair share of the time; what a family leaves over goes to the next, and the rounds go on until the
seconds are spent or the grids are through. The metric chooses, and for label sets also the
probability above which a label is predicted, and whether the likeliest label is always one. Then
each family is fitted to all training rows. The family of the best validation score is the rival;
the others are fitted so that the table can show them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import parallel_config
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler

from experiments.ours.tuned_sets import KINDS, SEED

TREES, REFIT_TREES, REFIT_SECONDS = 100, 200, 20.0
now = time.perf_counter
THRESHOLDS = np.round(np.arange(0.02, 0.71, 0.02), 2)

Splits = list[tuple[np.ndarray, np.ndarray]]
Setting = dict[str, Any]


class OutOfTime(Exception):
    """A model was not finished before its deadline."""


@dataclass(frozen=True)
class Circumstances:
    """What a model has to know besides its setting."""

    kind: str
    sparse: bool
    threads: int
    trees: int = TREES
    deadline: float = np.inf


def inner_splits(n: int) -> Splits:
    """Return five folds of few rows, three of more, a fifth held out of many."""
    if n >= 3000:
        return list(ShuffleSplit(1, test_size=0.2, random_state=SEED).split(np.zeros(n)))
    return list(KFold(5 if n < 1000 else 3, shuffle=True, random_state=SEED).split(np.zeros(n)))


# Parts of models -------------------------------------------------------------------------------


class Timed(RegressorMixin, BaseEstimator):
    """One output by one estimator, started only before a deadline; of a class its probability."""

    def __init__(self, estimator: Any, deadline: float = np.inf) -> None:
        self.estimator, self.deadline = estimator, deadline

    def fit(self, X: Any, y: np.ndarray) -> Timed:
        if now() > self.deadline:
            raise OutOfTime
        self.constant_ = float(y[0]) if np.all(y == y[0]) else None
        if self.constant_ is None:
            self.estimator_ = clone(self.estimator).fit(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        if self.constant_ is not None:
            return np.full(X.shape[0], self.constant_)
        if hasattr(self.estimator_, "predict_proba"):
            return self.estimator_.predict_proba(X)[:, 1]
        return self.estimator_.predict(X)


class Forest(BaseEstimator):
    """Trees of all outputs together, as many as the deadline allows; at least ten."""

    def __init__(self, forest: Any, trees: int = 100, deadline: float = np.inf) -> None:
        self.forest, self.trees, self.deadline = forest, trees, deadline

    def fit(self, X: Any, Y: np.ndarray) -> Forest:
        start_time = now()
        X = sparse.csc_matrix(X) if sparse.issparse(X) else X
        start = min(10, self.trees)
        self.forest_ = clone(self.forest).set_params(n_estimators=start, warm_start=True).fit(X, Y)
        taken = max(now() - start_time, 1e-6)
        affordable = int(start * min(1e6, (self.deadline - start_time) / taken))
        n_trees = max(start, min(self.trees, affordable))
        if n_trees > start:
            self.forest_.set_params(n_estimators=n_trees).fit(X, Y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.forest_.predict(X)


class Pairs(BaseEstimator):
    """Rankings by pairs of items: which comes first, then the items by their votes."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, R: np.ndarray) -> Pairs:
        self.pairs_ = np.triu_indices(R.shape[1], 1)
        a, b = self.pairs_
        self.estimator_ = clone(self.estimator).fit(X, (R[:, a] < R[:, b]).astype(float))
        return self

    def predict(self, X: Any) -> np.ndarray:
        votes = np.asarray(self.estimator_.predict(X)).reshape(X.shape[0], -1)
        behind = np.zeros((X.shape[0], max(self.pairs_[1]) + 1))
        for vote, a, b in zip(votes.T, *self.pairs_, strict=True):
            behind[:, a] += 1.0 - vote
            behind[:, b] += vote
        return behind


class Dense(BaseEstimator):
    """Make rows dense, for models that need it."""

    def fit(self, X: Any, y: Any = None) -> Dense:
        self.fitted_ = True
        return self

    def transform(self, X: Any) -> np.ndarray:
        return X.toarray() if sparse.issparse(X) else X


def scaler(setting: Setting, about: Circumstances) -> Any:
    """Return what puts columns, or with `unit` rows, on one scale."""
    if setting.get("unit"):
        return Normalizer()
    return MaxAbsScaler() if about.sparse else StandardScaler()


# Families --------------------------------------------------------------------------------------


def ridge(setting: Setting, about: Circumstances) -> Any:
    model = Ridge(setting["alpha"], solver="cholesky")  # one factor for all outputs
    return make_pipeline(scaler(setting, about), Dense(), model)


def neighbours(setting: Setting, about: Circumstances) -> Any:
    model = KNeighborsRegressor(setting["k"], weights=setting["weights"], n_jobs=about.threads)
    return make_pipeline(scaler(setting, about), model)


def logistic(setting: Setting, about: Circumstances) -> Any:
    """Return one logistic regression for each label, or for each pair of items."""
    base = LogisticRegression(C=setting["C"], solver="liblinear", random_state=SEED)
    model = MultiOutputRegressor(Timed(base, about.deadline), n_jobs=about.threads)
    core = Pairs(model) if about.kind == "rankings" else model
    return make_pipeline(scaler(setting, about), core)


def trees(kind: Any) -> Callable[[Setting, Circumstances], Any]:
    """Return a family of forests; leaves of 0/1 outputs have probabilities, splits are Gini's."""

    def build(setting: Setting, about: Circumstances) -> Any:
        forest = kind(
            min_samples_leaf=setting["leaf"],
            max_features=setting["features"],
            n_jobs=about.threads,
            random_state=SEED,
        )
        model = Forest(forest, about.trees, about.deadline)
        return Pairs(model) if setting.get("pairs") else model

    return build


def booster(setting: Setting, classes: bool) -> Any:
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(
        learning_rate=setting["rate"],
        max_iter=setting["rounds"],
        max_leaf_nodes=setting["leaves"],
        min_samples_leaf=setting.get("leaf", 20),
        early_stopping=False,
        random_state=SEED,
    )


def boosting(setting: Setting, about: Circumstances) -> Any:
    """Return one booster for each label, target or item, or for each pair of items."""
    pairs = bool(setting.get("pairs"))
    base = booster(setting, classes=pairs or about.kind == "labels")
    model = MultiOutputRegressor(Timed(base, about.deadline))
    return make_pipeline(Dense(), Pairs(model) if pairs else model)


def chain(setting: Setting, about: Circumstances) -> Any:
    """Return outputs in a random order, each seeing those before it."""
    if "C" in setting:
        base: Any = LogisticRegression(C=setting["C"], solver="liblinear", random_state=SEED)
    elif "alpha" in setting:
        base = Ridge(setting["alpha"])
    else:
        base = booster(setting, classes=about.kind == "labels")
    model = RegressorChain(Timed(base, about.deadline), order="random", random_state=SEED)
    if "rounds" in setting:
        return make_pipeline(Dense(), model)
    return make_pipeline(scaler(setting, about), model)


FOREST, EXTRA_TREES = trees(RandomForestRegressor), trees(ExtraTreesRegressor)
FORESTS = (FOREST, EXTRA_TREES)


@dataclass
class Family:
    """Models that one function builds, the likely settings first."""

    name: str
    build: Callable[[Setting, Circumstances], Any]
    settings: list[Setting]
    results: list[dict[str, Any]] = field(default_factory=list)
    slow: bool = False

    @property
    def best(self) -> dict[str, Any] | None:
        return max(self.results, key=lambda row: row["score"], default=None)


def families(kind: str, is_sparse: bool) -> list[Family]:
    """Return the families of a kind of output, the cheap ones first."""
    alphas = [{"alpha": alpha} for alpha in (10.0, 100.0, 1.0, 1000.0, 0.1)]
    near = [{"k": k, "weights": "distance"} for k in (10, 5, 20, 40, 3)]
    near += [{"k": k, "weights": "uniform"} for k in (10, 80, 1)]
    strengths = [{"C": C} for C in (1.0, 0.1, 10.0)]
    pairs = ((1, 1 / 3), (1, "sqrt"), (3, 1 / 3), (1, 1.0), (10, 1 / 3))
    forests = [{"leaf": leaf, "features": share} for leaf, share in pairs]
    boosts: list[Setting] = [
        {"rate": 0.1, "rounds": 100, "leaves": 31},
        {"rate": 0.05, "rounds": 200, "leaves": 8, "leaf": 5},
        {"rate": 0.1, "rounds": 300, "leaves": 31},
        {"rate": 0.1, "rounds": 50, "leaves": 4, "leaf": 5},
    ]
    chains = alphas[:3:2] + boosts[:2]
    if kind == "labels":
        forests = [forests[i] for i in (1, 0, 2, 4)]
        chains = [*strengths, boosts[1]]
    if kind == "rankings":
        forests += [{**setting, "pairs": True} for setting in forests[:3]]
        boosts += [{**setting, "pairs": True} for setting in boosts[:2]]
    if is_sparse:
        near = [{**setting, "unit": True} for setting in near]
        strengths += [{**setting, "unit": True} for setting in strengths]
        alphas = [{"alpha": alpha} for alpha in (1.0, 10.0, 100.0, 0.1)]
        alphas += [{**setting, "unit": True} for setting in alphas[:2]]
    found = [Family("ridge", ridge, alphas), Family("k-NN", neighbours, near)]
    if kind != "targets":
        found.append(Family("logistic", logistic, strengths))
    return [
        *found,
        Family("forest", FOREST, forests),
        Family("extra trees", EXTRA_TREES, forests),
        Family("chain", chain, chains),
        Family("boosting", boosting, boosts),
    ]


# From scores to objects ------------------------------------------------------------------------


def label_sets(scores: np.ndarray, threshold: float, some: bool) -> np.ndarray:
    """Return the labels above a threshold; with `some` the likeliest one in any case."""
    found = scores > threshold
    if some:
        found[np.arange(len(scores)), scores.argmax(axis=1)] = True
    return found


def decoded(kind: str, scores: np.ndarray, rule: Setting) -> np.ndarray:
    """Return label sets, rankings or numbers."""
    if kind == "labels":
        return label_sets(scores, **rule)
    if kind == "rankings":
        return scores.argsort(axis=1, kind="stable").argsort(axis=1)
    return scores


def best_rule(kind: str, Y: np.ndarray, scores: np.ndarray) -> tuple[float, Setting]:
    """Return the score of held-out rows, the greater the better, and what decodes them best."""
    if kind != "labels":
        value = KINDS[kind].score(Y, decoded(kind, scores, {}))
        return (value if KINDS[kind].more else -value), {}
    values = {
        (float(threshold), some): _f1(Y > 0, label_sets(scores, threshold, some))
        for threshold in THRESHOLDS
        for some in (True, False)
    }
    threshold, some = max(values, key=lambda rule: values[rule])
    return values[threshold, some], {"threshold": threshold, "some": some}


def _f1(true: np.ndarray, found: np.ndarray) -> float:
    """Return the example F1, without the checks of the library's."""
    total, common = true.sum(axis=1) + found.sum(axis=1), (true & found).sum(axis=1)
    return float(np.where(total > 0, 2 * common / np.maximum(total, 1), 1.0).mean())


# Search ----------------------------------------------------------------------------------------


def evaluate(
    family: Family,
    setting: Setting,
    X: Any,
    Y: np.ndarray,
    splits: Splits,
    about: Circumstances,
    seconds: float,
) -> None:
    """Add the validation score of a setting to its family, unless the seconds are over before."""
    clock = now()
    scores = []
    try:
        for i, (train, val) in enumerate(splits):
            share = (seconds - (now() - clock)) / (len(splits) - i)
            model = family.build(setting, replace(about, deadline=now() + share))
            found = model.fit(X[train], Y[train]).predict(X[val])
            scores.append(np.asarray(found).reshape(len(val), -1))
    except OutOfTime:
        family.slow = True
        return
    held = np.concatenate([val for _, val in splits])
    value, rule = best_rule(about.kind, Y[held], np.vstack(scores))
    taken = now() - clock
    family.results.append({"setting": setting, "score": value, "rule": rule, "seconds": taken})


def turns(found: list[Family]) -> Iterator[tuple[Family, Setting, int]]:
    """Yield families and settings, first settings first; then how many must share what is left.

    A family that the first turn was too short for has another before the second settings.
    """
    for place, family in enumerate(found):
        yield family, family.settings[0], len(found) - place
    for family in found:
        if family.slow:
            family.slow = False
            yield family, family.settings[0], 1
    for i in range(1, max(len(family.settings) for family in found)):
        for family in found:
            if i < len(family.settings):
                yield family, family.settings[i], 1


def search(X: Any, Y: np.ndarray, about: Circumstances, budget: float) -> list[Family]:
    """Return the families with the validation scores of all settings that the budget allowed."""
    found = families(about.kind, about.sparse)
    splits, end = inner_splits(len(Y)), now() + budget
    fewest = min(len(train) for train, _ in splits)
    for family, setting, sharing in turns(found):
        left = end - now()
        longest = max((row["seconds"] for row in family.results), default=0.0)
        if left > longest and not family.slow and setting.get("k", 0) < fewest:
            evaluate(family, setting, X, Y, splits, about, left / sharing)
    return found


def refit(
    family: Family, X: Any, Y: np.ndarray, X_test: Any, about: Circumstances
) -> dict[str, Any]:
    """Return the best setting of a family, fitted to all training rows, and its predictions."""
    if family.best is None:
        return {"setting": "out of time"}
    clock = now()
    row = family.best
    try:
        model = family.build(row["setting"], about).fit(X, Y)
    except OutOfTime:
        return {"setting": "out of time"}
    scores = np.asarray(model.predict(X_test)).reshape(X_test.shape[0], -1)
    return {
        "setting": {**row["setting"], **row["rule"]},
        "validation": row["score"],
        "tried": len(family.results),
        "search_seconds": round(sum(one["seconds"] for one in family.results), 2),
        "fit_seconds": round(now() - clock, 2),
        "predicted": decoded(about.kind, scores, row["rule"]),
    }


def best_of_scikit_learn(
    kind: str, X: Any, Y: np.ndarray, X_test: Any, budget: float, threads: int
) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return the family that validation chooses, and what each family chose and predicts."""
    about = Circumstances(kind, sparse.issparse(X), threads)
    Y = Y.astype(float)
    with parallel_config("threading", n_jobs=threads):
        found = search(X, Y, about, budget)
        ready = [family for family in found if family.best is not None]
        first = max(ready, key=lambda family: family.best["score"])  # type: ignore[index]
        report = {}
        for family in found:  # the first has the time it takes; forests never more than this
            soon = now() + REFIT_SECONDS
            endless = family is first and family.build not in FORESTS
            last = replace(about, trees=REFIT_TREES, deadline=np.inf if endless else soon)
            report[family.name] = refit(family, X, Y, X_test, last)
    return first.name, report
