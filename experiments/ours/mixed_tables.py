"""`skout fit` without settings on five tables as people have them, beside gradient boosting.

    python -m experiments.ours.mixed_tables [--data cars movies ...] [--budget 60] [--table]

The tables ship in packages: `pip install vega_datasets palmerpenguins bokeh_sampledata plotly`.
They have categories, many categories, free text, dates, sets, ids and gaps. Five folds each; the
score is R2, and the share of right classes for Titanic.

skout: the training fold is written as CSV, `skout fit train.csv --target y` chooses within the
budget, and `skout predict` writes the predictions that are scored.

The rival is scikit-learn's HistGradientBoosting, behind three ways to encode: columns of text as
categories (`categorical_features="from_dtype"`, by their targets where there are more than 254),
all by `TargetEncoder`, and free text by TF-IDF and `TruncatedSVD` with the rest by `TargetEncoder`.
Dates are days. The way and one of two settings are chosen by three folds of the training rows,
for each fold anew, which a user of defaults would not do.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sqlite3
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder

from experiments.common import print_table, read_record, record_path, write_record
from skout.apps import cli

SEED, FOLDS, BUDGET = 0, 5, 60
MOVIES = 1000
SETTINGS = [
    {"learning_rate": 0.1, "max_leaf_nodes": 31, "max_iter": 100},  # the defaults
    {"learning_rate": 0.05, "max_leaf_nodes": 8, "max_iter": 200},
]
WAYS = ("categories", "targets", "text")
# Words of a cell, on average, from which on a column is free text to the rival.
WORDS = 3.0


def folder(package: str) -> Path:
    """Return where a package lies."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"pip install {package}: its data are needed.")
    return Path(found.origin).parent


def cars() -> tuple[pd.DataFrame, str, str]:
    table = pd.read_json(folder("vega_datasets") / "_data" / "cars.json", convert_dates=False)
    return table, "Miles_per_Gallon", "numbers"


def penguins() -> tuple[pd.DataFrame, str, str]:
    table = pd.read_csv(folder("palmerpenguins") / "data" / "penguins-raw.csv")
    return table, "Body Mass (g)", "numbers"


def movies() -> tuple[pd.DataFrame, str, str]:
    file = folder("bokeh_sampledata") / "_data" / "movies.db"
    with contextlib.closing(sqlite3.connect(file)) as base:
        table = pd.read_sql("select * from omdb", base)
    table = table.drop(columns=["imdbRating", "imdbVotes"])  # empty in this edition
    table = table[table["Metacritic"].notna()]
    return table.sample(MOVIES, random_state=SEED), "Metacritic", "numbers"


def gapminder() -> tuple[pd.DataFrame, str, str]:
    file = folder("plotly") / "package_data" / "datasets" / "gapminder.csv.gz"
    return pd.read_csv(file), "lifeExp", "numbers"


def titanic() -> tuple[pd.DataFrame, str, str]:
    table = pd.read_csv(folder("bokeh_sampledata") / "_data" / "titanic_all.csv")
    return table, "survived", "classes"


TABLES = {
    "cars": cars,
    "penguins": penguins,
    "titanic": titanic,
    "gapminder": gapminder,
    "movies": movies,
}
HAS = {
    "cars": "text, dates, categories, gaps",
    "penguins": "text, dates, categories, ids, gaps",
    "movies": "text, sets, many categories, dates, ids, gaps",
    "gapminder": "many categories, numbers",
    "titanic": "text, categories, gaps; classes",
}


def load(name: str) -> tuple[pd.DataFrame, pd.Series, str]:
    """Return inputs, the target and its kind; rows without a target are left out."""
    table, target, kind = TABLES[name]()
    table = table[table[target].notna()].reset_index(drop=True)
    return table.drop(columns=target), table[target].rename("y"), kind


def score(truth: Any, found: Any, kind: str) -> float:
    if kind == "classes":
        return float(np.mean([str(a) == str(b) for a, b in zip(truth, found, strict=True)]))
    truth, found = (np.asarray(values, dtype=float) for values in (truth, found))
    return float(1.0 - np.sum((truth - found) ** 2) / np.sum((truth - truth.mean()) ** 2))


# skout --------------------------------------------------------------------------------------------


def command(*words: str) -> None:
    """Run a command in this process; what it says is kept for errors."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            cli.main(list(words))
        except SystemExit as end:
            if end.code:
                raise RuntimeError(said.getvalue()) from end


def our_way(X: pd.DataFrame, y: pd.Series, X_test: pd.DataFrame, kind: str, budget: str) -> Any:
    with tempfile.TemporaryDirectory() as place:
        train, test, model, out = (
            str(Path(place) / name) for name in ("train.csv", "test.csv", "model", "out.csv")
        )
        pd.concat([X, y], axis=1).to_csv(train, index=False)
        X_test.to_csv(test, index=False)
        words = ["--output", kind] if kind == "classes" else []
        command("fit", train, "--target", "y", "--budget", budget, *words, "-o", model)
        command("predict", model, test, "-o", out)
        return pd.read_csv(out)["y"]


# scikit-learn -------------------------------------------------------------------------------------


class Encoded(TransformerMixin, BaseEstimator):
    """Columns as HistGradientBoosting takes them: numbers and categories, by scikit-learn."""

    def __init__(self, way: str, target: str = "continuous") -> None:
        self.way = way
        self.target = target

    def fit(self, X: pd.DataFrame, y: Any) -> Encoded:
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: pd.DataFrame, y: Any) -> pd.DataFrame:
        self.dates_ = [name for name in _words(X) if _are_dates(X[name])]
        X = self._with_days(X)
        texts = _words(X)
        self.free_ = [n for n in texts if self.way == "text" and _is_free(X[n])]
        left = [name for name in texts if name not in self.free_]
        few = [n for n in left if self.way == "categories" and X[n].nunique() <= 254]
        self.levels_ = {name: sorted(X[name].dropna().unique()) for name in few}
        self.coded_ = [name for name in left if name not in few]
        self.numbers_ = [name for name in X.columns if name not in texts]
        self.vectors_ = {name: _tfidf().fit(X[name].fillna("")) for name in self.free_}
        coded = None
        if self.coded_:
            self.targets_ = TargetEncoder(target_type=self.target)
            coded = self.targets_.fit_transform(X[self.coded_].astype(object), y)  # cross-fitted
        return self._frame(X, coded)

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        X = self._with_days(X)
        found = self.targets_.transform(X[self.coded_].astype(object)) if self.coded_ else None
        return self._frame(X, found)

    def _with_days(self, X: pd.DataFrame) -> pd.DataFrame:
        X = X.copy()
        for name in self.dates_:
            days = pd.to_datetime(X[name], errors="coerce") - pd.Timestamp("2000-01-01")
            X[name] = days.dt.total_seconds() / 86400
        return X

    def _frame(self, X: pd.DataFrame, coded: np.ndarray | None) -> pd.DataFrame:
        out = X[self.numbers_].astype(float).copy()
        for name, levels in self.levels_.items():
            out[name] = pd.Categorical(X[name].where(X[name].isin(levels)), categories=levels)
        if coded is not None:
            out[self.coded_] = coded
        for name, model in self.vectors_.items():
            Z = model.transform(X[name].fillna(""))
            more = pd.DataFrame(
                Z, index=X.index, columns=[f"{name} {j}" for j in range(Z.shape[1])]
            )
            out = pd.concat([out, more], axis=1)
        return out


def _words(X: pd.DataFrame) -> list[str]:
    return [name for name in X.columns if not pd.api.types.is_numeric_dtype(X[name])]


def _are_dates(column: pd.Series) -> bool:
    found = column.dropna().astype(str)
    return len(found) > 0 and bool(found.str.fullmatch(r"\d{4}-\d{2}-\d{2}.*").all())


def _is_free(column: pd.Series) -> bool:
    found = column.dropna()
    many = found.nunique() > 60  # few are categories, with fewer words than singular vectors
    return many and found.str.split().str.len().mean() >= WORDS


def _tfidf() -> Any:
    return make_pipeline(TfidfVectorizer(), TruncatedSVD(30, random_state=SEED))


def their_way(X: pd.DataFrame, y: pd.Series, X_test: pd.DataFrame, kind: str) -> tuple[Any, str]:
    """Choose the way to encode and the settings by three folds, then fit on all rows."""
    boosting = (
        HistGradientBoostingClassifier if kind == "classes" else HistGradientBoostingRegressor
    )
    best = (-np.inf, "", None)
    for way in WAYS:
        for one in SETTINGS:
            model = make_pipeline(
                Encoded(way, "binary" if kind == "classes" else "continuous"),
                boosting(categorical_features="from_dtype", random_state=SEED, **one),
            )
            folds = KFold(3, shuffle=True, random_state=SEED)
            mean = cross_val_score(model, X, y, cv=folds, error_score="raise").mean()
            if mean > best[0]:
                best = (
                    mean,
                    f"{way}, {one['learning_rate']:g}, {one['max_leaf_nodes']} leaves",
                    model,
                )
    return best[2].fit(X, y).predict(X_test), best[1]


# The comparison -----------------------------------------------------------------------------------


def compare(name: str, budget: str) -> dict[str, Any]:
    """Return the scores of both on each fold, and the mean difference with its standard error."""
    X, y, kind = load(name)
    ours, theirs, chosen, seconds = [], [], [], [0.0, 0.0]
    for train, test in KFold(FOLDS, shuffle=True, random_state=SEED).split(X):
        parts = X.iloc[train], y.iloc[train], X.iloc[test], kind
        start = time.process_time()
        ours.append(score(y.iloc[test], our_way(*parts, budget), kind))
        between = time.process_time()
        found, setting = their_way(*parts)
        theirs.append(score(y.iloc[test], found, kind))
        seconds[0] += between - start
        seconds[1] += time.process_time() - between
        chosen.append(setting)
    gain = np.array(ours) - np.array(theirs)
    return {
        "table": name,
        "has": HAS[name],
        "rows": len(X),
        "columns": X.shape[1],
        "metric": "accuracy" if kind == "classes" else "r2",
        "skout": ours,
        "boosting": theirs,
        "boosting chose": chosen,
        "gain": float(gain.mean()),
        "standard error": float(gain.std(ddof=1) / np.sqrt(len(gain))),
        "processor seconds": seconds,
    }


def show(results: list[dict[str, Any]]) -> None:
    rows = [
        {
            "table": one["table"],
            "size": f"{one['rows']:,} x {one['columns']}",
            "has": one["has"],
            "skout fit": f"{np.mean(one['skout']):.3f}",
            "boosting": f"{np.mean(one['boosting']):.3f}",
            "gain": f"{one['gain']:+.3f} +- {one['standard error']:.3f}",
        }
        for one in results
    ]
    print_table(rows, list(rows[0]))
    level = sum(one["gain"] >= -one["standard error"] for one in results)
    print(f"ahead, or within one standard error: {level} of {len(results)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--budget", default=str(BUDGET), help='seconds, or "10 fits"')
    parser.add_argument("--table", action="store_true", help="show the record, run nothing")
    words = parser.parse_args()
    if words.table:
        show(read_record("mixed_tables")["results"])
        return
    start, settings = time.perf_counter(), {"budget": words.budget, "folds": FOLDS}
    settings |= {"boosting": SETTINGS, "encoders": WAYS}
    known: dict[str, Any] = {}
    if record_path("mixed_tables").is_file():
        known = {one["table"]: one for one in read_record("mixed_tables")["results"]}
    for name in words.data:
        known[name] = compare(name, words.budget) | {"budget": words.budget}
        results = [known[name] for name in TABLES if name in known]
        write_record("mixed_tables", settings, results, SEED, seconds=time.perf_counter() - start)
        show(results)


if __name__ == "__main__":
    main()
