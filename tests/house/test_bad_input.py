"""A table of bad inputs: each is refused by an error that names the argument, or simply works.

A case is a call, what it is given, and its outcome: an error class and a regular expression of its
message, or an input of the plain kind that must give the same result. What is given must be the
same afterwards.
"""

import copy
import datetime
import decimal
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import skout
from skout import (
    CandidateSets,
    ConformalSets,
    Ensemble,
    InducedMachine,
    JointQuantileRegressor,
    KernelBasis,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
    Tuned,
    graph_task_matrix,
    iokr,
    metrics,
    quantile_task_matrix,
    sisokr,
    sketches,
    sources,
    theory,
)
from skout.decoding import LabelSetDecoder, RankingDecoder, StringDecoder, kemeny
from skout.kernels import (
    F1,
    Gaussian,
    Kendall,
    Matern,
    NGram,
    Normalized,
    PeakCosine,
    Polynomial,
    ProbabilityProduct,
    Sum,
    Tanimoto,
    WeisfeilerLehman,
)
from skout.losses import EpsilonInsensitive, Huber, Pinball
from skout.molecules import fingerprints, parse_smiles

pytest.importorskip("pandas")
pytest.importorskip("polars")
pytest.importorskip("torch")
pytest.importorskip("rdkit")
pytest.importorskip("pyarrow")

import pandas as pd
import polars as pl
import torch

from skout.deep import MLP, NeuralRegressor, Training

N = 12
X = np.round(np.random.default_rng(0).standard_normal((N, 3)), 2)
y = X[:, 0] + 1.0
LABELS = np.arange(N) % 2
SETS = (np.arange(3 * N).reshape(N, 3) % 5 < 2).astype(int)
RANKS = np.argsort(np.argsort(X, axis=1), axis=1)
WORDS = ["abc", "abe", "xyz", "yzx"] * 3
DATES = np.full((N, 3), np.datetime64("2020-01-01"))
GRAPH = ([(0, 1)], ["C", "O"], None)
PEAKS = ([100.0, 150.0], [1.0, 2.0])


@dataclass
class Case:
    name: str
    call: Any
    given: Any
    error: Any = None
    match: str = ""
    plain: Any = None  # of the same result

    def __repr__(self):
        return self.name


def refused(group, call, error, match, **given):
    """Cases that one error refuses."""
    return [Case(f"{group}:{name}", call, value, error, match) for name, value in given.items()]


def works(group, call, plain, **given):
    """Cases that give what the plain input gives."""
    return [Case(f"{group}:{name}", call, value, plain=plain) for name, value in given.items()]


def with_entry(value, dtype=float):
    A = X.astype(dtype)
    A[3, 1] = value
    return A


def read_only(A):
    A = A.copy()
    A.flags.writeable = False
    return A


def frame(**columns):
    return pd.DataFrame({"a": X[:, 0], **columns})


# Rows --------------------------------------------------------------------------------------------

ESTIMATORS = {
    "basis": lambda X: KernelBasis(random_state=0).fit(X).transform(X),
    "sketched": lambda X: KernelBasis("gaussian", sketches.SubSample(5), random_state=0).fit(X),
    "ridge": lambda X: KernelRidge().fit(X, y).predict(X),
    "machine": lambda X: KernelMachine().fit(X, y).predict(X),
    "quantile": lambda X: JointQuantileRegressor([0.2, 0.8]).fit(X, y).predict(X),
    "classifier": lambda X: KernelClassifier().fit(X, LABELS).decision_function(X),
    "induced": lambda X: InducedMachine().fit(X, np.eye(N)).predict(X),
    "iokr": lambda X: iokr("gaussian", "tanimoto").fit(X, SETS).predict_coordinates(X),
}
NAN_ROWS = {
    "nan": with_entry(np.nan),
    "none_in_objects": with_entry(None, object),
    "pandas_nan": pd.DataFrame(with_entry(np.nan)),
    "pandas_missing_integer": frame(b=pd.array([None] + [1] * 11, dtype="Int64")),
    "polars_null": pl.DataFrame({"a": [None] + [1.0] * 11, "b": X[:, 0]}),
    "sparse_nan": sparse.csr_matrix(with_entry(np.nan)),
}
INF_ROWS = {
    "inf": with_entry(np.inf),
    "minus_inf": with_entry(-np.inf),
    "sparse_inf": sparse.csc_matrix(with_entry(np.inf)),
    "long_double": X.astype(np.longdouble) * np.longdouble("1e4000"),
}
UNREADABLE_ROWS = {
    "text": with_entry("x", object),
    "words": np.array([["a", "b"]] * N),
    "pandas_words": frame(b=["x"] * N),
    "pandas_categories": frame(b=pd.Categorical(list("xy") * 6)),
    "polars_words": pl.DataFrame({"a": ["x"] * N}),
    "unicode": np.array([["é", "😀"]] * N),
    "list_in_array": with_entry([1, 2], object),
    "dict_in_array": with_entry({}, object),
    "huge_integer": with_entry(10**400, object),
    "complex": X + 1j,
    "sparse_complex": sparse.csr_matrix(X + 1j),
    "dates_in_objects": with_entry(datetime.date(2020, 1, 1), object),
    "pandas_dates_and_numbers": frame(b=pd.date_range("2020", periods=N)),
    "lists_of_many_lengths": [[1.0, 2.0]] * 11 + [[1.0]],
    "numbers_of_columns_mixed": pd.DataFrame(X, columns=["a", 1, "b"]),
    "one_axis": X[:, 0],
    "fields": np.zeros(N, dtype=[("a", float)]),
    "no_columns": X[:, :0],
    "three_axes": np.zeros((N, 2, 2)),
}
MISREAD_ROWS = {
    "dates": DATES,
    "times": np.full((N, 3), np.timedelta64(1, "D")),
    "list_of_dates": DATES.tolist() and [list(row) for row in DATES],
    "pandas_dates": pd.DataFrame({"a": pd.date_range("2020", periods=N)}),
    "polars_dates": pl.DataFrame({"a": [datetime.datetime(2020, 1, 1)] * N}),
}
GOOD_ROWS = {
    "list": X.tolist(),
    "tuples": tuple(map(tuple, X.tolist())),
    "fortran": np.asfortranarray(X),
    "not_contiguous": np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": X[::-1].copy()[::-1],
    "read_only": read_only(X),
    "big_endian": X.astype(">f8"),
    "objects": X.astype(object),
    "text_of_numbers": X.astype(str),
    "no_mask": np.ma.masked_array(X),
    "pandas": pd.DataFrame(X, columns=list("abc")),
    "pandas_nullable": pd.DataFrame(X).astype("Float64"),
    "polars": pl.DataFrame(X),
    "triples": sparse.coo_matrix(X),
    "dok": sparse.dok_matrix(X),
    "csr_array": sparse.csr_array(X),
}
CASES = []
for name, call in ESTIMATORS.items():
    CASES += refused(f"X:{name}", call, ValueError, "Input X contains NaN", **NAN_ROWS)
    CASES += refused(f"X:{name}", call, ValueError, "Input X contains infinity", **INF_ROWS)
    CASES += refused(f"X:{name}", call, (TypeError, ValueError), r"\bX\b", **UNREADABLE_ROWS)
    CASES += refused(f"X:{name}", call, TypeError, "X must hold numbers. Got dates", **MISREAD_ROWS)
    CASES += refused(
        f"X:{name}",
        call,
        ValueError,
        "X has masked entries, which are missing values",
        masked=np.ma.masked_array(X, mask=X > 1),
    )
    CASES += refused(
        f"X:{name}",
        call,
        ValueError,
        "X has more than one column called 'a'",
        columns_of_one_name=pd.DataFrame(X, columns=["a", "a", "b"]),
    )
    CASES += refused(
        f"X:{name}", call, ValueError, "X holds numbers up to 1e.308", too_large=np.sign(X) * 1e308
    )
    scalars = {"none": None, "number": 3.0, "no_axis": np.array(3.0), "dict": {"a": 1}}
    CASES += refused(f"X:{name}", call, (TypeError, ValueError), r"^X\b", **scalars)
    if name != "sketched":
        CASES += works(f"X:{name}", call, X, **GOOD_ROWS)
ridge = ESTIMATORS["ridge"]
CASES += works("X:ridge", ridge, X.astype(np.float16).astype(float), half=X.astype(np.float16))
CASES += works("X:ridge", ridge, (X > 0).astype(float), bools=X > 0)
CASES += works("X:ridge", ridge, np.round(X), int8=np.round(X).astype(np.int8))
CASES += works("X:ridge", ridge, np.abs(np.round(X)), uint64=np.abs(np.round(X)).astype(np.uint64))
CASES += refused(
    "X:rows",
    lambda X: KernelRidge().fit(X, y[: len(X)]),
    ValueError,
    "sample",
    none=X[:0],
    one=X[:1],
)

# A model that chooses itself, whose tables may have gaps, words and dates ------------------------


def tuned(kind=None):
    return Tuned(kind, budget="1 fits", random_state=0)


def arrays(rows):
    return {name: one for name, one in rows.items() if not hasattr(one, "columns")}


def of_rows(X):
    return tuned().fit(X, y).predict(X)


def of_outputs(Y):
    return tuned().fit(X, Y).predict(X)


CASES += refused("tuned:X", of_rows, ValueError, "X contains NaN. Fill", **arrays(NAN_ROWS))
CASES += refused("tuned:X", of_rows, ValueError, "X contains infinity", **arrays(INF_ROWS))
CASES += refused(
    "tuned:X", of_rows, (TypeError, ValueError), r"\bX\b", **arrays(UNREADABLE_ROWS), **scalars
)
CASES += refused("tuned:X", of_rows, TypeError, "X must hold numbers", **arrays(MISREAD_ROWS))
CASES += refused(
    "tuned:X",
    of_rows,
    (TypeError, ValueError),
    "^X has (masked|more than one column|records)|^X: column 'b' (has complex|must have one value)",
    masked=np.ma.masked_array(X, mask=X > 1),
    columns_of_one_name=pd.DataFrame(X, columns=["a", "a", "b"]),
    columns_of_one_text=pd.DataFrame(X, columns=["1", 1, "b"]),
    records=[{"a": 1.0}] * N,
    complex_column=frame(b=X[:, 0] + 1j),
    nested_column=pl.DataFrame({"a": y, "b": [{"c": 1}] * N}),
)
CASES += refused(
    "tuned:X",
    of_rows,
    ValueError,
    "^X holds numbers (up to|of at most).* Scale",
    too_large=X * 1e100,
    too_small=X * [1.0, 1.0, 1e-100],
    sparse=sparse.csr_matrix(X * 1e-300),
)
GOOD_TABLES = {"decimals": [[decimal.Decimal(str(one)) for one in row] for row in X.tolist()]}
CASES += works("tuned:X", of_rows, X, **GOOD_ROWS, **GOOD_TABLES)
CASES += works("tuned:X", of_rows, WORDS, series=pd.Series(WORDS, index=range(5, 5 + N)))
HOLED = np.append(y[1:], np.nan)
CASES += works(
    "tuned:Y",
    lambda Y: tuned().fit(X, Y).predict(X),
    HOLED,
    series=pd.Series(HOLED),
    nullable=pd.Series([*HOLED[:-1], None], dtype="Float64"),
    polars=pl.Series([*HOLED[:-1].tolist(), None]),
)
CASES += works(
    "tuned:Y",
    lambda Y: tuned().fit(X, Y).predict(X),
    np.column_stack([y, HOLED]),
    frame=pd.DataFrame({"a": y, "b": HOLED}),
    nullable_frame=pd.DataFrame({"a": y, "b": [*HOLED[:-1], None]}, dtype="Float64"),
)
CASES += refused(
    "tuned:Y",
    of_outputs,
    (TypeError, ValueError),
    "^Y(:| must (be outputs|have one axis|hold numbers)|, of type| holds)|Y are .* unequal length",
    missing=None,
    number=1.0,
    dict={"a": y},
    three_axes=np.zeros((N, 2, 2)),
    dates=DATES[:, 0],
    complex=y + 1j,
    lists_of_many_lengths=[[1.0, 2.0]] * 11 + [[1.0]],
    too_large=y * 1e300,
)
CASES += works(
    "tuned:Y", of_outputs, y, objects=y.astype(object), decimals=list(map(decimal.Decimal, y))
)
CASES += works(
    "tuned:Y", lambda unit: of_outputs(y * unit) / unit, 1.0, tiny=1e-300, small=1e-160, large=1e150
)
CASES += works(
    "tuned:Y",
    lambda Y: tuned().fit(X, Y).kind_,
    LABELS > 0,
    categories=pd.Series(pd.Categorical(WORDS)),
    polars=pl.Series(WORDS, dtype=pl.Categorical),
)
CASES += refused(
    "tuned:classes",
    lambda Y: tuned("classes").fit(X, Y),
    (TypeError, ValueError),
    r"^Y (has no class in [1-9]|must be (one class for .* Y.ravel|classes of one type))",
    nan=np.where(LABELS, np.nan, 1.0),
    none=[None, *WORDS[1:]],
    nullable=pd.Series([None, *(LABELS[1:] > 0)], dtype="boolean"),
    column=pd.DataFrame({"a": LABELS}),
    mixed=pd.Series([1, "a"] * 6),
)
CASES += refused(
    "tuned:strings", lambda Y: tuned("strings").fit(X, Y), TypeError, "^Y: NGram", numbers=y
)
TUNED = tuned().fit(pd.DataFrame(X, columns=list("abc")), y)
TUNED_SETS = tuned("label_sets").fit(X, SETS)
CASES += refused(
    "tuned:new",
    TUNED.predict,
    ValueError,
    "^X: column 'b' (must hold numbers|has gaps)|^X (lacks columns|must have 3 columns)",
    words=pd.DataFrame(X, columns=list("abc")).assign(b="x"),
    dates=pd.DataFrame(X, columns=list("abc")).assign(b=DATES[0, 0]),
    gaps=pd.DataFrame(X, columns=list("abc")).assign(b=np.nan),
    other_names=pd.DataFrame(X, columns=list("abe")),
    columns=X[:, :2],
    texts=WORDS,
)
CASES += refused(
    "tuned:score",
    lambda Y: TUNED.score(X, Y),
    ValueError,
    r"\bY\b must (be of equal length|have 1 columns)|^Y, of type",
    short=y[:5],
    columns=np.column_stack([y, y]),
    words=WORDS,
)
CASES += refused(
    "tuned:candidates",
    lambda C: TUNED_SETS.predict(X, candidates=C),
    ValueError,
    "a column for each of the 3 labels. Got 2 columns",
    columns=SETS[:, :2],
)

# New rows ----------------------------------------------------------------------------------------

RIDGE = KernelRidge(sketch=sketches.SubSample(5), random_state=0).fit(X, y)
NAMED = KernelRidge().fit(pd.DataFrame(X, columns=list("abc")), y)
CASES += refused("new", RIDGE.predict, ValueError, "X has 2 features.* 3", columns=X[:, :2])
CASES += refused("new", RIDGE.predict, ValueError, "X.*0 sample", empty=X[:0])
CASES += refused("new", RIDGE.predict, ValueError, "Input X contains NaN", nan=with_entry(np.nan))
CASES += refused("new", RIDGE.predict, TypeError, "X must hold numbers", dates=DATES)
CASES += refused(
    "new",
    NAMED.predict,
    ValueError,
    "feature names should match",
    other_names=pd.DataFrame(X, columns=list("abe")),
    other_order=pd.DataFrame(X, columns=list("cba")),
)

# Targets, weights --------------------------------------------------------------------------------

REGRESSORS = {
    "ridge": KernelRidge(),
    "machine": KernelMachine(),
    "quantile": JointQuantileRegressor([0.2, 0.8]),
    "induced": InducedMachine(),
}
BAD_TARGETS = {
    "nan": np.append(y[1:], np.nan),
    "inf": np.append(y[1:], np.inf),
    "missing": None,
    "short": y[:5],
    "number": 1.0,
    "words": np.array(["a"] * N),
    "mixed": [1, "a"] * 6,
    "objects": [{}] * N,
    "many_lengths": [[1.0]] * 6 + [[1.0, 2.0]] * 6,
    "three_axes": np.zeros((N, 2, 2)),
    "no_column": np.zeros((N, 0)),
    "complex": y + 1j,
    "dates": DATES[:, 0],
    "masked": np.ma.masked_array(y, mask=y > 1),
    "pandas_missing": pd.Series([None] * N),
    "sparse": sparse.csr_matrix(SETS),
    "huge_integer": [10**400] * N,
}
for name, model in REGRESSORS.items():

    def fit_targets(y, model=model):
        return model.fit(X, y).predict(X)

    bad = BAD_TARGETS | ({"nan": y * np.nan} if name != "induced" else {})  # some NaN are holes
    CASES += refused(f"y:{name}", fit_targets, (TypeError, ValueError), r"\by\b", **bad)
    good = {"list": y.tolist(), "pandas": pd.Series(y), "read_only": read_only(y)}
    CASES += works(f"y:{name}", fit_targets, y, **good, text_of_numbers=y.astype(str))
    if name != "induced":
        missing = {
            "pandas_missing_integer": pd.Series([1] * 11 + [None], dtype="Int64"),
            "polars_null": pl.Series([1.0] * 11 + [None]),
        }
        CASES += works(f"y:{name}", fit_targets, [1.0] * 11 + [np.nan], **missing)
BAD_WEIGHTS = {
    "negative": -np.ones(N),
    "nan": np.full(N, np.nan),
    "inf": np.append(np.ones(11), np.inf),
    "short": np.ones(5),
    "words": ["a"] * N,
    "two_axes": np.ones((N, 2)),
    "complex": np.ones(N) + 1j,
    "objects": [{}] * N,
    "dates": DATES[:, 0],
    "masked": np.ma.masked_array(np.ones(N), mask=y > 1),
    "zeros": np.zeros(N),
}
for name, model, target in [
    ("ridge", KernelRidge(), y),
    ("machine", KernelMachine(), y),
    ("classifier", KernelClassifier(), LABELS),
]:

    def fit_weights(w, model=model, target=target):
        return model.fit(X, target, sample_weight=w).predict(X)

    CASES += refused(
        f"weight:{name}", fit_weights, (TypeError, ValueError), "sample_weight", **BAD_WEIGHTS
    )
    CASES += works(f"weight:{name}", fit_weights, np.ones(N), number=1.0, ints=np.ones(N, int))


def classes(y):
    return KernelClassifier().fit(X, y).predict(X)


CASES += refused(
    "labels",
    classes,
    (TypeError, ValueError),
    r"\by\b",
    one_class=np.zeros(N),
    one_word=["a"] * N,
    numbers=y,
    none=[None] * N,
    nan=[np.nan] * N,
    mixed=["a", 1] * 6,
    two_axes=np.zeros((N, 2)),
    short=LABELS[:5],
    missing=None,
    number=1.0,
    objects=[{}] * N,
    complex=LABELS + 1j,
)
for match, weight in [
    ("class_weight", "x"),
    ("class_weight", {0: -1.0, 1: 1.0}),
    ("class_weight", {0: np.nan, 1: 1.0}),
    ("class_weight", {7: 1.0}),
    ("class_weight", [1.0, 2.0]),
]:
    CASES += refused(
        f"class_weight:{weight}",
        lambda w: KernelClassifier(class_weight=w).fit(X, LABELS),
        ValueError,
        match,
        given=weight,
    )

# Outputs and candidates --------------------------------------------------------------------------

MODEL = iokr("gaussian", "tanimoto").fit(X, SETS)
BAD_SETS = {
    "nan": with_entry(np.nan),
    "number": 3,
    "no_axis": np.array(3),
    "one_axis": y,
    "three_axes": np.zeros((N, 2, 2)),
    "dates": DATES,
    "complex": X + 1j,
    "masked": np.ma.masked_array(SETS, mask=SETS > 0),
    "objects": [{}] * N,
    "generator": 3.0,
    "dict_of_numbers": dict.fromkeys(range(N), 1),
    "columns_of_one_name": pd.DataFrame(SETS, columns=["a", "a", "b"]),
}
for name, make in [("iokr", iokr), ("sisokr", sisokr)]:

    def fit_outputs(Y, make=make):
        return make("gaussian", "tanimoto", random_state=0).fit(X, Y).predict_coordinates(X)

    CASES += refused(f"Y:{name}", fit_outputs, (TypeError, ValueError), r"\bY\b", **BAD_SETS)
    CASES += refused(
        f"Y:{name}",
        fit_outputs,
        ValueError,
        r"\bY\b",
        short=SETS[:4],
        missing=None,
        negative=-SETS,
        words=["a"] * N,
    )
    good = {"bools": SETS > 0, "frame": pd.DataFrame(SETS), "read_only": read_only(SETS)}
    CASES += works(f"Y:{name}", fit_outputs, SETS, **good)
CASES += works("Y:iokr", lambda Y: iokr().fit(X, Y).score(X, Y), X, dok=sparse.dok_matrix(X))
CASES += refused(
    "candidates",
    lambda pool: MODEL.predict(X, pool),
    (TypeError, ValueError),
    "candidates",
    **BAD_SETS,
    negative=-SETS,
    empty=SETS[:0],
    no_lists=[],
    empty_sets=[SETS[:0]] * N,
    three_sets=[SETS] * 3,
    columns=SETS[:, :2],
    words=["a"] * N,
)
CASES += works(
    "candidates", lambda pool: MODEL.predict(X, pool), SETS, bools=SETS > 0, lists=SETS.tolist()
)
CASES += refused(
    "k",
    lambda k: MODEL.rank(X, k=k),
    (TypeError, ValueError),
    r"\bk\b",
    zero=0,
    negative=-1,
    fraction=1.5,
    word="a",
    none=None,
    bool=True,
    nan=np.nan,
)
for name, call, match in [
    ("indices", lambda v: CandidateSets(SETS, [0, 2], v), "indices"),
    ("indptr", lambda v: CandidateSets(SETS, v, [0, 1]), "indptr"),
]:
    wrong = {"words": ["a", "b"], "fractions": [0.5, 1.0], "two_axes": [[0, 1]], "far": [0, 99]}
    CASES += refused(f"CandidateSets:{name}", call, (TypeError, ValueError), match, **wrong)
CASES += refused(
    "CandidateSets", lambda v: CandidateSets(v, [0, 1], [0]), TypeError, "pool", none=None, number=3
)
SET_MODEL = ConformalSets(MODEL).calibrate(X, SETS)
CASES += refused(
    "conformal",
    lambda coverage: SET_MODEL.predict(X, coverage=coverage),
    (TypeError, ValueError),
    "coverage",
    one=1.0,
    negative=-0.1,
    two=2,
    word="a",
    none=None,
    nan=np.nan,
)
CASES += refused(
    "conformal:Y",
    lambda Y: ConformalSets(MODEL).calibrate(X, Y),
    (TypeError, ValueError),
    r"\bY\b",
    short=SETS[:3],
    nan=with_entry(np.nan),
    negative=-SETS,
)
CASES += refused(
    "ensemble",
    lambda models: Ensemble.of(models),
    (TypeError, ValueError),
    "models|predictor|Ensemble",
    none=None,
    empty=[],
    of_none=[None],
    regressors=[KernelRidge()],
    number=3,
)

# Parameters --------------------------------------------------------------------------------------

PARAMETERS = {
    "alpha": [-1, np.nan, np.inf, "a", None, [], [1, -1], True, 1j, [None], {}, [[1, 2]], 10**400],
    "cv": [0, 1, "a", [], 2.5, [([0, 1], [99])], [([0, 1], [])]],
    "random_state": ["a", -1, 1.5],
    "n_jobs": ["a", 0, 1.5, True],
    "fit_intercept": ["a", None, 2],
    "tol": [0, -1, "a", np.nan],
    "max_iter": [0, 1.5, "a"],
    "kernel": ["gauss", None, 3, Gaussian, [], {}, b"gaussian", ["gaussian"]],
    "sketch": ["subsampl", 3, sketches.SubSample, []],
    "loss": ["hubr", 3, None, "hinge"],
    "task_matrix": [np.eye(3), [[-1.0]], "a", [[np.nan]], 3, DATES[:1, :1]],
}
for model in (KernelRidge(), KernelMachine()):
    for name in sorted(PARAMETERS.keys() & model.get_params().keys()):
        several = {"alpha": [1.0, 2.0]} if name == "cv" else {}
        for i, value in enumerate(PARAMETERS[name]):

            def fit_parameter(value, model=model, name=name, several=several):
                return type(model)(**several, **{name: value}).fit(X, y)

            CASES += refused(
                f"{type(model).__name__}:{name}",
                fit_parameter,
                (TypeError, ValueError),
                name,
                **{str(i): value},
            )
for name, make, wrong in [
    ("gamma", Gaussian, [-1, np.nan, np.inf, "x", None, [1], True, 10**400]),
    ("degree", lambda v: Polynomial(v, gamma=1.0), [0, 1.5, "a"]),
    ("coef0", lambda v: Polynomial(coef0=v, gamma=1.0), [-1, np.nan, "a"]),
    ("nu", lambda v: Matern(1.0, nu=v), [2, "a", None]),
    ("factor", lambda v: v * Gaussian(1.0), [-1, np.nan, 0, np.inf, True]),
    ("kernel", Normalized, [None, 3]),
    ("kernel", lambda v: Sum(Gaussian(1.0), v), [None, 3]),
]:
    for i, value in enumerate(wrong):
        CASES += refused(
            f"kernel:{name}:{i}:{value!r}",
            lambda v, make=make: KernelRidge(make(v)).fit(X, y),
            (TypeError, ValueError),
            name,
            given=value,
        )
for name, function in [
    ("shape", lambda A, B: np.ones((2, 2))),
    ("nan", lambda A, B: np.full((len(A), len(B)), np.nan)),
    ("none", lambda A, B: None),
    ("word", lambda A, B: "a"),
    ("complex", lambda A, B: np.ones((len(A), len(B))) * 1j),
]:
    CASES += refused(
        f"callable:{name}",
        lambda f: KernelRidge(f).fit(X, y),
        (TypeError, ValueError),
        "kernel function",
        given=function,
    )
for name, make, wrong in [
    ("size", sketches.SubSample, [0, -1, 1.5, "a"]),
    ("probabilities", lambda v: sketches.SubSample(3, v), [[1, 2], [-1.0] * N, [np.nan] * N, "x"]),
    ("probabilities", lambda v: sketches.SubSample(3, v), [["a"] * N, [0.0] * N, DATES[:, 0]]),
    ("p", lambda v: sketches.PSparsified(3, p=v), [0, 2, "a", np.nan]),
    ("distribution", lambda v: sketches.PSparsified(3, distribution=v), ["x", None]),
    ("n_terms", lambda v: sketches.Accumulation(3, v), [0, 1.5]),
    ("tol", lambda v: sketches.PivotedCholesky(3, tol=v), [2, -1, "a"]),
    ("max_rows", lambda v: sketches.PivotedCholesky(3, max_rows=v), [0, "a"]),
]:
    for i, value in enumerate(wrong):
        CASES += refused(
            f"sketch:{name}:{i}:{type(value).__name__}{np.size(value)}",
            lambda v, make=make: KernelRidge(sketch=make(v), random_state=0).fit(X, y),
            (TypeError, ValueError),
            rf"\b{name}\b",
            given=value,
        )
CASES += works(
    "sketch:probabilities",
    lambda p: KernelRidge(sketch=sketches.SubSample(4, p), random_state=0).fit(X, y).predict(X),
    np.ones(N),
    huge=np.full(N, 1e308),
)
for name, make, wrong in [
    ("quantiles", JointQuantileRegressor, [0, 1, "a", [], None, [0.5, 0.5], [np.nan], True]),
    ("gamma_quantiles", lambda v: JointQuantileRegressor(0.5, gamma_quantiles=v), [-1, "a"]),
    ("kappa", lambda v: KernelMachine(loss=Huber(v)), [0, -1, np.nan, "a"]),
    ("epsilon", lambda v: KernelMachine(loss=EpsilonInsensitive(v)), [-1, np.inf, None]),
    ("tau", lambda v: KernelMachine(loss=Pinball(v)), [2, 0, "a", [0.1, 0.2], []]),
    ("whiten", lambda v: KernelBasis(whiten=v), ["x", None]),
    ("rank", lambda v: KernelBasis(whiten="eigh", rank=v), [0, 1.5, "a"]),
    ("decoder", lambda v: iokr(decoder=v), ["labels", 3, []]),
]:
    for i, value in enumerate(wrong):
        CASES += refused(
            f"parameter:{name}:{i}",
            lambda v, make=make: make(v).fit(X, X if make(v).__class__.__name__[0] == "S" else y),
            (TypeError, ValueError),
            name,
            given=value,
        )
for name, kernel, Y, make, wrong in [
    ("max_size", "tanimoto", SETS, lambda v: LabelSetDecoder(max_size=v), [0, "a"]),
    ("max_exact", "kendall", RANKS, lambda v: RankingDecoder(max_exact=v), [-1, "a"]),
    ("ends", NGram(2), WORDS, lambda v: StringDecoder(ends=v), ["x", 3]),
    ("known", NGram(2), WORDS, lambda v: StringDecoder(known=v), ["a"]),
]:
    for i, value in enumerate(wrong):

        def decode(v, kernel=kernel, Y=Y, make=make):
            return iokr("gaussian", kernel, decoder=make(v)).fit(X, Y).predict(X)

        CASES += refused(f"decoder:{name}:{i}", decode, (TypeError, ValueError), name, given=value)

# Kernels of objects ------------------------------------------------------------------------------

CASES += refused(
    "ngram",
    NGram(3),
    (TypeError, ValueError),
    "NGram takes|The string at",
    none=None,
    number=3,
    one_word="abc",
    mixed=["abc", 3],
    missing=["abc", None],
    nested=[["abc"]],
    bytes_and_words=["abc", b"abc"],
    nan=["abc", np.nan],
    short=["a", "abc"],
    two_axes=np.array([["abc", "xyz"]]),
    pandas_missing=pd.Series(["abc", None]),
    polars_null=pl.Series(["abc", None]),
    generator_of=3.0,
    frame=pd.DataFrame({"a": ["abc"]}),
    no_axis=np.array("abc"),
    set={"abc"},
    dict={"abc": 1},
)
CASES += works(
    "ngram",
    NGram(3),
    ["abc", "xyz"],
    array=np.array(["abc", "xyz"]),
    objects=np.array(["abc", "xyz"], dtype=object),
    pandas=pd.Series(["abc", "xyz"]),
    pandas_strings=pd.Series(["abc", "xyz"], dtype="string"),
    polars=pl.Series(["abc", "xyz"]),
    tuple=("abc", "xyz"),
    other_letters=["éù😀", "x\u0000z"],
    bytes=[b"abc", b"xyz"],
)
CASES += refused(
    "graphs",
    WeisfeilerLehman(2),
    (TypeError, ValueError),
    "[Gg]raph|[Ee]dge|node_labels|SMILES|list",
    none=None,
    number=3,
    one_graph=GRAPH,
    no_node=[([], [], None)],
    edge_to_nowhere=[([(0, 5)], ["C", "O"], None)],
    negative_edge=[([(0, -1)], ["C", "O"], None)],
    fraction=[([(0, 0.5)], ["C", "O"], None)],
    nan_edge=[([(0, np.nan)], ["C", "O"], None)],
    huge_edge=[([(0, 10**30)], ["C", "O"], None)],
    words=[([("a", "b")], ["C", "O"], None)],
    triple_edge=[([(0, 1, 2)], ["C", "O"], None)],
    nan_label=[([(0, 1)], [np.nan, 1.0], None)],
    none_label=[([(0, 1)], [None, "C"], None)],
    mixed_labels=[([(0, 1)], ["C", 1], None)],
    mixed_graphs=[GRAPH, ([], [1], None)],
    edge_labels=[([(0, 1)], ["C", "O"], ["a", "b"])],
    edge_labels_number=[([(0, 1)], ["C", "O"], 3)],
    edge_labels_dict=[([(0, 1)], ["C", "O"], {})],
    pair=[([(0, 1)], ["C", "O"])],
    smiles=["CCO", "not a smiles"],
    empty_smiles=[""],
    half_a_letter=["\ud800"],
    edges_number=[(3, ["C"], None)],
    edges_word=[("ab", ["C"], None)],
    label_of_nobody=[([("a", "b")], {"a": "C"}, None)],
    float_edges=[(np.array([[0.0, 1.0]]), ["C", "O"], None)],
)
CASES += works(
    "graphs",
    WeisfeilerLehman(2),
    [GRAPH],
    lists=[[[[0, 1]], ["C", "O"], None]],
    arrays=[(np.array([[0, 1]], np.uint8), np.array(["C", "O"]), None)],
    both_ways=[([(0, 1), (1, 0)], ["C", "O"], None)],
    named=[([("a", "b")], {"a": "C", "b": "O"}, None)],
)
BAD_SPECTRA = {
    "none": None,
    "number": 3,
    "words": ["abc"],
    "matrix": [np.zeros((2, 2))],
    "lengths": [([100.0, 150.0], [1.0])],
    "nan": [([np.nan, 150.0], [1.0, 2.0])],
    "inf": [([100.0, 150.0], [1.0, np.inf])],
    "negative_intensity": [([100.0, 150.0], [1.0, -2.0])],
    "negative_mz": [([-100.0, 150.0], [1.0, 2.0])],
    "no_peak": [([], [])],
    "words_inside": [(["a", "b"], [1.0, 2.0])],
    "complex": [([100.0 + 1j, 150.0], [1.0, 2.0])],
    "dates": [(DATES[0], [1.0, 2.0, 3.0])],
    "masked": [(np.ma.masked_array([100.0, 150.0], mask=[True, False]), [1.0, 2.0])],
    "huge_integer": [([10**400, 150.0], [1.0, 2.0])],
    "missing": [PEAKS, None],
    "dict": [{"mz": [1.0]}],
    "two_axes": [([[100.0]], [[1.0]])],
    "frame": [pd.DataFrame({"a": [100.0]})],
    "unsorted": [([150.0, 100.0], [2.0, 1.0])],
}
for kernel in (ProbabilityProduct(), PeakCosine()):
    CASES += refused(
        f"spectra:{type(kernel).__name__}",
        kernel,
        (TypeError, ValueError),
        "[Ss]pectrum|list or array",
        **BAD_SPECTRA,
    )
    CASES += works(
        f"spectra:{type(kernel).__name__}",
        kernel,
        [PEAKS],
        arrays=[tuple(map(np.array, PEAKS))],
        integers=[([100, 150], [1, 2])],
        read_only=[tuple(read_only(np.array(part)) for part in PEAKS)],
    )
CASES += refused(
    "rankings",
    Kendall(),
    (TypeError, ValueError),
    "Kendall takes|objects",
    equal=[[1, 1, 2]],
    negative=[[-1, 0, 1]],
    fraction=[[0.5, 1, 2]],
    nan=[[np.nan, 1, 2]],
    large=[[1, 2, 30]],
    one_axis=[1, 2, 3],
    words=[["a", "b"]],
    none=None,
    no_column=np.zeros((3, 0)),
    dates=DATES,
)
for kernel in (Tanimoto(), F1()):
    CASES += refused(
        f"sets:{type(kernel).__name__}",
        kernel,
        (TypeError, ValueError),
        "takes|objects|Strings",
        negative=-SETS,
        nan=with_entry(np.nan),
        words=["abc"],
        not_hex=["zz", "zz"],
        hex_of_many_lengths=["ff", "ffff"],
        odd_hex=["f", "0"],
        none=None,
        masked=np.ma.masked_array(SETS, mask=SETS > 0),
    )

# Metrics, theory, sources, molecules ----------------------------------------------------------

for metric in (metrics.example_f1, metrics.hamming_loss, metrics.subset_accuracy):
    CASES += refused(
        metric.__name__,
        lambda Y, metric=metric: metric(Y, SETS),
        (TypeError, ValueError),
        "Y_true",
        short=SETS[:3],
        columns=SETS[:, :2],
        empty=SETS[:0],
        one_axis=SETS[:, 0],
        nan=with_entry(np.nan),
        words=[["a"]],
        none=None,
        negative=-SETS,
        dates=DATES,
        complex=SETS + 1j,
        masked=np.ma.masked_array(SETS, mask=SETS > 0),
    )
    CASES += works(
        metric.__name__,
        lambda Y, metric=metric: metric(Y, SETS),
        SETS,
        bools=SETS > 0,
        sparse=sparse.csr_matrix(SETS),
        dok=sparse.dok_matrix(SETS),
        frame=pd.DataFrame(SETS),
    )
CASES += refused(
    "kernel_loss",
    lambda Y: metrics.kernel_loss("tanimoto", Y, SETS),
    (TypeError, ValueError),
    "Y_true",
    nan=with_entry(np.nan),
    dates=DATES,
    negative=-SETS,
    empty=SETS[:0],
)
CASES += refused(
    "ranks",
    lambda r: metrics.hits_at_k(r, 1),
    (TypeError, ValueError),
    "ranks",
    nan=[np.nan],
    zero=[0],
    negative=[-1],
    empty=[],
    words=["a"],
    two_axes=[[1]],
    number=1,
)
CASES += refused(
    "truth",
    lambda truth: metrics.truth_ranks(np.arange(6.0).reshape(2, 3), truth),
    (TypeError, ValueError),
    "truth",
    far=[0, 5],
    negative=[0, -2],
    fraction=[0, 0.5],
    short=[0],
    number=3,
)
CASES += refused(
    "pinball_loss",
    lambda y_true: metrics.pinball_loss(y_true, y[:, None], [0.5]),
    (TypeError, ValueError),
    "y_true",
    short=y[:3],
    nan=y * np.nan,
    word="a",
    dates=DATES[:, 0],
    masked=np.ma.masked_array(y, mask=y > 1),
)
CASES += refused(
    "leverage_scores",
    lambda Z: theory.leverage_scores("gaussian", Z),
    (TypeError, ValueError),
    r"\bZ\b",
    nan=with_entry(np.nan),
    none=None,
    empty=X[:0],
    dates=DATES,
    too_large=X * 1e300,
)
for name, wrong in [
    ("sizes", [[], [0], "a", 3, [1.5], None]),
    ("cv", [1, "a"]),
    ("budget_seconds", [-1, "a"]),
]:
    for i, value in enumerate(wrong):

        def search(v, name=name):
            given = {"sizes": [3], name: v}
            return theory.sketch_size_search(KernelRidge(sketch="subsample"), X, y, **given)

        CASES += refused(f"search:{name}:{i}", search, (TypeError, ValueError), name, given=value)
CASES += refused(
    "search:model",
    lambda model: theory.sketch_size_search(model, X, y, [3]),
    (TypeError, ValueError),
    "model|sketch",
    none=None,
    no_sketch=KernelRidge(),
)


def fit_blocks(blocks):
    model = KernelRidge(sketch=sketches.SubSample(3), random_state=0)
    return model.fit(sources.Blocks(blocks)).predict(X)


CASES += refused(
    "blocks",
    fit_blocks,
    (TypeError, ValueError),
    "[Bb]lock|make",
    none=[None],
    empty=[],
    array=[X],
    lengths=[(X, y[:3])],
    columns=[(X, y), (X[:, :2], y)],
    nan=[(with_entry(np.nan), y)],
    words=["ab"],
    four=[(X, y, y, y)],
    number=3,
    function=lambda: 3,
)
CASES += refused("csr", sources.open_csr, TypeError, "folder", number=3, none=None)
CASES += refused("kemeny", kemeny, ValueError, r"\bP\b", nan=[[np.nan]], word="a", one_axis=[1.0])
CASES += refused(
    "graph_task_matrix",
    lambda A: graph_task_matrix(A, 1.0),
    (TypeError, ValueError),
    "adjacency",
    negative=[[0, -1], [-1, 0]],
    word="a",
    not_square=[[0, 1]],
    dates=DATES,
)
CASES += refused(
    "quantile_task_matrix",
    lambda q: quantile_task_matrix(q, 1.0),
    (TypeError, ValueError),
    "quantiles",
    two=[2],
    word="a",
)
CASES += refused(
    "memory_limits",
    lambda rows: skout.memory_limits(block_rows=rows).__enter__(),
    (TypeError, ValueError),
    "rows",
    zero=0,
    word="a",
    fraction=1.5,
)


# Molecules, files, networks -------------------------------------------------------------------


SMILES = {
    "none": None,
    "one_word": "CCO",
    "missing": ["CCO", None],
    "number": [3],
    "invalid": ["CCO", "xyz("],
    "unicode": ["é😀"],
    "half_a_letter": ["\ud800"],
    "zero_byte": ["C\x00C"],
    "bytes": [b"CCO"],
    "nan": [np.nan],
    "two_axes": np.array([["CCO"]]),
}
CASES += refused("smiles", parse_smiles, (TypeError, ValueError), "smiles|SMILES", **SMILES)
CASES += refused("fingerprints", fingerprints, (TypeError, ValueError), "smiles|SMILES", **SMILES)
CASES += works(
    "fingerprints",
    lambda smiles: fingerprints(smiles, n_bits=64).unpack(),
    ["CCO", "CCN"],
    array=np.array(["CCO", "CCN"]),
    pandas=pd.Series(["CCO", "CCN"]),
    polars=pl.Series(["CCO", "CCN"]),
)
for name, wrong in [
    ("kind", ["x", [], 3]),
    ("n_bits", [0, -1, 1.5, 10**12]),
    ("radius", [-1, "a", 10**30]),
]:
    for i, value in enumerate(wrong):
        CASES += refused(
            f"fingerprints:{name}:{i}",
            lambda v, name=name: fingerprints(["CCO"], **{name: v}),
            (TypeError, ValueError),
            name,
            given=value,
        )


def network(X, Y):
    torch.set_num_threads(1)
    torch.manual_seed(0)  # of the first weights
    model = NeuralRegressor(
        MLP(2, hidden=(4,)), training=Training(max_epochs=1), device="cpu", random_state=0
    )
    return model.fit(X, Y).predict(X)


SMALL = X.astype(np.float32)
CASES += refused(
    "network:X",
    lambda X: network(X, SMALL[:, :2]),
    (TypeError, ValueError),
    r"\bX\b",
    nan=with_entry(np.nan),
    inf=with_entry(np.inf),
    none=None,
    number=3,
    dates=DATES,
    masked=np.ma.masked_array(X, mask=X > 1),
    words=np.array([["a", "b"]] * N),
    complex=X + 1j,
    empty=X[:0],
)
CASES += refused(
    "network:y",
    lambda Y: network(SMALL, Y),
    (TypeError, ValueError),
    r"\by\b",
    nan=np.full((N, 2), np.nan),
    none=None,
    short=X[:3, :2],
    dates=DATES[:, :2],
    masked=np.ma.masked_array(X[:, :2], mask=X[:, :2] > 1),
    words=np.array([["a", "b"]] * N),
)
CASES += works(
    "network:X",
    lambda X: network(X, SMALL[:, :2]),
    SMALL,
    fortran=np.asfortranarray(SMALL),
    read_only=read_only(SMALL),
    double=SMALL.astype(float),
)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"x": ["zz"]}, "no column 'zz'"),
        ({"x": []}, "x must name"),
        ({"x": None}, "x must be names"),
        ({"x": 3}, "x must be names"),
        ({"y": None}, "y must be names"),
        ({"y": "zz"}, "no column 'zz'"),
        ({"weight": "zz"}, "no column 'zz'"),
        ({"rows": 0}, "rows must be"),
        ({"rows": "a"}, "rows must be"),
        ({"files": None}, "files must be"),
        ({"files": []}, "files must name"),
        ({"x": ["words"]}, "X, of type"),
        ({"x": ["missing"]}, "of X.*NaN"),
        ({"y": "infinite"}, "Input y contains infinity"),
        ({"y": "words"}, "y, of type"),
        ({"weight": "negative"}, "sample_weight"),
        ({"x": ["dates"]}, "X must hold numbers"),
    ],
    ids=str,
)
def test_parquet(arguments, match, tmp_path):
    table = frame(
        b=y,
        words=["x"] * N,
        missing=[None] + [1.0] * 11,
        negative=-(y**2),
        dates=DATES[:, 0],
        infinite=[np.inf] + [1.0] * 11,
    )
    table.to_parquet(tmp_path / "table.parquet")
    given = {"files": tmp_path / "table.parquet", "x": ["a"], "y": "b", **arguments}
    with pytest.raises((TypeError, ValueError), match=match):
        KernelRidge(sketch=sketches.SubSample(3), random_state=0).fit(sources.open_parquet(**given))


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "junk.parquet").write_text("junk")
    with pytest.raises(ValueError, match=r"junk\.parquet is no parquet file"):
        sources.open_parquet(tmp_path / "junk.parquet", ["a"], "b")
    with pytest.raises(FileNotFoundError, match="There is no parquet file"):
        sources.open_parquet(tmp_path / "none.parquet", ["a"], "b")


@pytest.mark.parametrize("name", ["basis", "ridge", "machine", "iokr"])
def test_memory_maps_are_read_and_left_alone(name, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    content = (tmp_path / "rows.npy").read_bytes()
    for mode in ("r", "c", "r+"):
        rows = np.load(tmp_path / "rows.npy", mmap_mode=mode)
        assert_same_result(ESTIMATORS[name](rows), ESTIMATORS[name](X))
    assert (tmp_path / "rows.npy").read_bytes() == content


def snapshot(value):
    """Return all that a caller can see of an input, to compare it later."""
    if isinstance(value, np.ndarray):
        mask = np.ma.getmaskarray(value).tolist() if np.ma.isMaskedArray(value) else None
        content = repr(np.ma.getdata(value).tolist())
        return (str(value.dtype), value.shape, value.strides, value.flags.writeable, content, mask)
    if sparse.issparse(value):
        return value.format, snapshot(value.toarray())
    if hasattr(value, "columns"):
        return list(value.columns), list(map(str, value.dtypes)), repr(value.to_numpy().tolist())
    if isinstance(value, list | tuple):
        return type(value), [snapshot(item) for item in value]
    return repr(value)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_case(case):
    before = snapshot(case.given)
    if case.error is not None:
        with pytest.raises(case.error, match=case.match) as caught:
            case.call(case.given)
        # not one of its subclasses, such as an error of another package
        assert type(caught.value) in (TypeError, ValueError) or "sklearn" in caught.value.__module__
    else:
        assert_same_result(case.call(case.given), case.call(case.plain))
    assert snapshot(case.given) == before, "the input was changed"


def assert_same_result(found, expected):
    if isinstance(expected, float | np.ndarray):
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    else:
        assert found == expected


def test_there_are_enough_cases():
    assert len(CASES) >= 150


def test_changes_of_an_input_are_seen():
    for value, changed in [
        (X, X + 1.0),
        (X, read_only(X)),
        ([1, [2]], [1, [3]]),
        (sparse.csr_matrix(X), sparse.csr_matrix(2.0 * X)),
        (pd.DataFrame(X), pd.DataFrame(X + 1.0)),
    ]:
        assert snapshot(value) == snapshot(copy.copy(value))
        assert snapshot(value) != snapshot(changed)
