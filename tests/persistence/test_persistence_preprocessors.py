"""Preprocessors of scikit-learn in files: the same bits again, or a message with advice."""

import functools
import inspect
import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn import (
    compose,
    decomposition,
    feature_extraction,
    feature_selection,
    impute,
    preprocessing,
)
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction import text
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)

import skout
from skout.kernels import Mapped
from skout.molecules import fingerprints
from skout.persistence import FileError, describe
from skout.persistence.files import read_file, write_file

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
X = np.abs(RNG.standard_normal((40, 4))) + 0.1
GAPS = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
KINDS = (X[:, 0] > np.median(X[:, 0])).astype(int)
LABELS = [("a", "b"), ("c",)] * 20
DOCUMENTS = [
    "a file of words",
    "the __id__ of a __class__",
    "content __module__",
    "__loader__",
] * 10
FRAME = pd.DataFrame({"a": GAPS[:, 0], "b": X[:, 1], "c": ["x", "y"] * 20, "words": DOCUMENTS})
MODULES = (preprocessing, impute, compose, text, decomposition, feature_selection)
# those that cannot be made, or fitted, without an argument
MADE = {
    "ColumnTransformer": ColumnTransformer([("a", StandardScaler(), [0, 1])]),
    "SparseCoder": decomposition.SparseCoder(np.eye(4)),
    "HashingVectorizer": HashingVectorizer(n_features=64),
    **{
        name: getattr(feature_selection, name)(LinearRegression())
        for name in ("RFE", "RFECV", "SelectFromModel", "SequentialFeatureSelector")
    },
}
GIVEN = {
    **dict.fromkeys(("LabelBinarizer", "LabelEncoder"), KINDS),
    "MultiLabelBinarizer": LABELS,
    "KernelCenterer": X @ X.T,
    **dict.fromkeys(("CountVectorizer", "HashingVectorizer", "TfidfVectorizer"), DOCUMENTS),
}
NO_TRANSFORMERS = {"TransformedTargetRegressor", "make_column_selector"}


def public_transformers():
    found = {
        name: getattr(module, name)
        for module in MODULES
        for name in (*module.__all__, *(["IterativeImputer"] if module is impute else []))
    }
    return {
        name: kind
        for name, kind in sorted(found.items())
        if inspect.isclass(kind) and not inspect.isabstract(kind) and name not in NO_TRANSFORMERS
    }


def halves(rows):
    return rows / 2.0


CASES = {
    **{
        f"imputer {strategy}": (SimpleImputer(strategy=strategy, add_indicator=True), GAPS)
        for strategy in ("mean", "median", "most_frequent", "constant")
    },
    "imputer of words": (
        SimpleImputer(missing_values=None, strategy="most_frequent"),
        np.array([["a", "b"], ["a", None], [None, "b"]], dtype=object),
    ),
    "columns by their types": (
        make_column_transformer(
            (
                make_pipeline(SimpleImputer(), StandardScaler()),
                make_column_selector(dtype_include=np.number),
            ),
            (OneHotEncoder(), make_column_selector("c", dtype_exclude=[np.float64])),
            (TfidfVectorizer(), "words"),
        ),
        FRAME,
    ),
    "columns by slices": (
        make_column_transformer(
            (SimpleImputer(), slice(0, 1)),
            (KBinsDiscretizer(3, strategy="uniform"), slice("b", "b")),
            ("drop", ["words"]),
            remainder="passthrough",
        ),
        FRAME,
    ),
    "columns by a mask": (
        make_column_transformer(
            (SimpleImputer(), np.array([True, False, True, False])), remainder=StandardScaler()
        ),
        GAPS,
    ),
    "as a frame": (SimpleImputer().set_output(transform="pandas"), FRAME[["a", "b"]]),
    "one hot of groups": (OneHotEncoder(min_frequency=15, drop="first"), np.round(X)),
    "one hot without": (OneHotEncoder(drop="if_binary"), np.round(X)),
    "names": (feature_extraction.DictVectorizer(), [{"a": 1.0, "b": 2.0}, {"a": 3.0}] * 20),
    "union": (FeatureUnion([("a", SimpleImputer()), ("b", impute.MissingIndicator())]), GAPS),
    "counts": (CountVectorizer(ngram_range=(1, 2), dtype=np.float32), DOCUMENTS),
    "given words": (CountVectorizer(vocabulary=["file", "words"]), DOCUMENTS),
    "logarithms": (FunctionTransformer(np.log1p, np.expm1), X),
    **{
        f"bins {encode} {dtype}": (
            KBinsDiscretizer(4, encode=encode, strategy="uniform"),
            X.astype(dtype),
        )
        for encode in ("onehot", "onehot-dense", "ordinal")
        for dtype in ("float32", "float64")
    },
    **{
        f"splines {kind}": (SplineTransformer(5, extrapolation=kind), X)
        for kind in ("constant", "linear", "continue", "periodic", "error")
    },
    "splines in CSR": (SplineTransformer(5, sparse_output=True), X),
    "best by regression": (SelectKBest(feature_selection.f_regression, k=2), X),
    "best of a forest": (SelectFromModel(RandomForestRegressor(5, random_state=0)), X),
    "imputed in rounds": (
        impute.IterativeImputer(max_iter=2, sample_posterior=True, random_state=0),
        GAPS,
    ),
}
CASES |= {
    name: (MADE.get(name, kind), GIVEN.get(name, X)) for name, kind in public_transformers().items()
}


def dense(rows):
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


def fitted(name):
    model, rows = CASES[name]
    model = clone(model) if not inspect.isclass(model) else model()
    only_outputs = name in GIVEN and name not in text.__all__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of too few rows, rounds and the like
        return model.fit(rows) if only_outputs else model.fit(rows, KINDS[: len(rows)])


@pytest.mark.parametrize("name", CASES)
def test_preprocessors_transform_to_the_same_bits(name, tmp_path):
    model, rows = fitted(name), CASES[name][1]
    skout.save(model, tmp_path / "model")
    loaded = skout.load(tmp_path / "model")
    expected = dense(model.transform(rows))
    assert type(loaded) is type(model)
    found = dense(loaded.transform(rows))  # once: some draw at random
    assert found.dtype == expected.dtype
    assert_array_equal(found, expected)
    assert describe(tmp_path / "model")["about"]["needs"] == []


def test_a_fitted_imputer_in_a_pipeline_with_a_model(tmp_path):
    model = make_pipeline(SimpleImputer(), skout.iokr("gaussian", "tanimoto"))
    model.fit(GAPS, np.eye(2)[KINDS])
    skout.save(model, tmp_path / "model")
    assert_array_equal(skout.load(tmp_path / "model").predict(GAPS), model.predict(GAPS))


# Functions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        FunctionTransformer(halves),
        CountVectorizer(tokenizer=halves),
        HashingVectorizer(analyzer=halves),
    ],
)
def test_functions_of_users_are_given(model, tmp_path):
    skout.save(model, tmp_path / "model")
    with pytest.raises(ValueError, match=r"The model needs halves.*modules=\{'halves': \.\.\.\}"):
        skout.load(tmp_path / "model")
    loaded = skout.load(tmp_path / "model", modules={"halves": halves})
    assert halves in loaded.get_params().values()


def test_lambdas_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"func is a lambda.*use a function made by def"):
        skout.save(FunctionTransformer(lambda rows: rows), tmp_path / "model")


def test_fingerprints_are_known(tmp_path):
    kernel = Mapped(fingerprints, "tanimoto")
    skout.save(kernel, tmp_path / "model")
    assert skout.load(tmp_path / "model").get_params() == kernel.get_params()
    others = functools.partial(fingerprints, n_bits=64)
    skout.save(Mapped(others, "tanimoto"), tmp_path / "model")
    with pytest.raises(ValueError, match="needs fingerprints"):
        skout.load(tmp_path / "model")


@pytest.mark.parametrize("kind", [GridSearchCV, RandomizedSearchCV])
def test_searches_say_what_to_save(kind, tmp_path):
    search = kind(
        Ridge(), {"alpha": [0.1, 1.0]}, **({"n_iter": 2} if kind is RandomizedSearchCV else {})
    )
    for model in (search, search.fit(X, X[:, 0])):
        with pytest.raises(TypeError, match=f"^model is .*{kind.__name__}, .*best_estimator_"):
            skout.save(model, tmp_path / "model")
    skout.save(search.best_estimator_, tmp_path / "model")


# Crafted files ------------------------------------------------------------------------------------


def rewritten(model, folder, change):
    """A file with another structure, and the right checksum."""
    path = folder / "crafted"
    skout.save(model, path)
    header, arrays = read_file(path)
    structure = json.loads(arrays["structure"].tobytes())
    change(structure["nodes"])
    arrays["structure"] = np.frombuffer(json.dumps(structure).encode(), np.uint8)
    header.pop("format")
    write_file(path, arrays, header)
    return path


def of_kind(nodes, kind):
    return next(one for one in nodes if one["kind"] == kind)


def other_column(number):
    def change(nodes):
        owner = next(one for one in nodes if "vocabulary_" in one.get("state", {}))
        nodes[owner["state"]["vocabulary_"]["ref"]]["items"][0][1] = number

    return change


def other_function(name):
    return lambda nodes: of_kind(nodes, "named").update(name=name)


def other_degree(nodes):
    next(one for one in nodes if str(one.get("class")).endswith("BSpline"))["state"]["k"] = 10**6


def other_widths(nodes):
    owner = next(one for one in nodes if "_n_features_outs" in one.get("state", {}))
    nodes[owner["state"]["_n_features_outs"]["ref"]]["items"] = [1, 0, 0, 0]


CRAFTED = {
    "columns of categories": ("OneHotEncoder", other_widths, "that have no columns"),
    "columns of groups": ("one hot of groups", other_widths, "that have no columns"),
    "names of columns": ("names", other_column(10**9), "not numbered from 0"),
    "word beyond": ("counts", other_column(10**9), "not numbered from 0"),
    "word before": ("counts", other_column(-1), "not numbered from 0"),
    "word without": ("counts", other_column("0"), "not numbered from 0"),
    "function of Python": ("logarithms", other_function("builtins.eval"), "not skout's"),
    "function of skout": ("logarithms", other_function("skout.load"), "not skout's"),
    "spline": ("splines linear", other_degree, "do not fit together"),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_preprocessors_are_refused(name, tmp_path):
    case, change, message = CRAFTED[name]
    with pytest.raises(FileError, match=message):
        skout.load(rewritten(fitted(case), tmp_path, change))


def test_slices_are_between_positions(tmp_path):
    path = rewritten(
        [[1, 2], slice(0, 3)],
        tmp_path,
        lambda nodes: of_kind(nodes, "slice").update(items=[{"ref": 0}, None, None]),
    )
    with pytest.raises(FileError, match="neither positions nor names"):
        skout.load(path)
