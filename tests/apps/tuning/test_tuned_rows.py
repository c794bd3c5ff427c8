"""`skout.Tuned`: what rows weigh, gaps in outputs, probabilities, checkpoints of own metrics."""

from dataclasses import replace

import numpy as np
import pytest
import sklearn
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, brier_score_loss, r2_score, roc_auc_score
from sklearn.model_selection import KFold, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skout
from skout import KernelRidge, Tuned
from skout._numerics import checkpoints
from skout.apps.tuning import (
    MAPS,
    ByOutput,
    LeafForest,
    Map,
    PrincipalOutputs,
    Sample,
)
from skout.apps.tuning.folds import make_folds
from skout.apps.tuning.scoring import OutputScoring
from skout.apps.tuning.search import ModelSearch
from skout.kernels import Gaussian
from skout.kinds import KINDS, ClassCodes, LabelFeatures, guess_kind, metrics
from skout.metrics import r2
from skout.sources import Blocks

pytestmark = pytest.mark.usefixtures("few_trees")

N = 40
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
SCORES = np.tanh(X @ RNG.standard_normal((3, 4)))
OUTPUTS = {
    "label_sets": (SCORES > 0).astype(int),
    "rankings": np.argsort(np.argsort(SCORES, axis=1), axis=1),
    "numbers": SCORES + 3.0,
    "classes": np.array(["ab", "b", "c", "d"])[SCORES.argmax(axis=1)],
    "strings": ["".join("ab"[int(s > 0)] for s in row) for row in SCORES],
}
CHAINS = ["C" * (1 + i % 5) + "O" * (i % 3) for i in range(N)]
WEIGHTS = RNG.uniform(0.2, 3.0, N)
COUNTS = RNG.integers(1, 4, N)  # weights that rows can be repeated by
COPIES = np.repeat(np.arange(N), COUNTS)
RIDGE = MAPS["kernel ridge"](gamma=0.3, alpha=1e-2)


def holed(Y, share=0.3):
    gaps = np.random.default_rng(1).uniform(size=Y.shape) < share
    return np.where(gaps, np.nan, Y)


def quick(kind=None, budget="2 fits", **params):
    return Tuned(kind, budget=budget, random_state=0, **{"cv": 2, **params})


def take(objects, rows):
    return objects[rows] if hasattr(objects, "shape") else [objects[i] for i in rows]


def same(a, b):
    assert a.best_settings_ == b.best_settings_
    assert_allclose(a.score_, b.score_, rtol=1e-12)
    F, G = (one.best_estimator_.predict_coordinates(X) for one in (a, b))
    assert_allclose(F, G, rtol=1e-9, atol=1e-10)


# Weights: fits -----------------------------------------------------------------------------------


def wide(n=30):
    return np.random.default_rng(2).standard_normal((N, n)) + X[:, :1]


TREE = RandomForestRegressor(1, max_depth=3, max_features=1.0, bootstrap=False, random_state=0)
REGRESSORS = {
    "centered ridge": (replace(RIDGE, center=True).build(0), OUTPUTS["numbers"]),
    "ridge": (RIDGE.build(0), OUTPUTS["numbers"]),
    "ridge with gaps": (replace(RIDGE, center=True).build(0), holed(OUTPUTS["numbers"])),
    "logistic": (MAPS["logistic"](C=2.0).build(0), 2.0 * OUTPUTS["label_sets"]),
    "leaves": (LeafForest(TREE, random_state=0), wide()),
    "components": (PrincipalOutputs(Ridge(), 2), wide(5)),
    "by output": (ByOutput(Ridge()), holed(OUTPUTS["numbers"])),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_integer_weights_are_repeated_rows(name):
    model, T = REGRESSORS[name]
    weighted = model.fit(X, T, sample_weight=COUNTS.astype(float)).predict(X)
    assert_allclose(weighted, model.fit(X[COPIES], T[COPIES]).predict(X), atol=2e-4)
    assert np.abs(weighted - model.fit(X, T).predict(X)).max() > 3e-3


def copied(folds):
    """Return folds of repeated rows; of those held out there is one copy."""
    first = np.unique(COPIES, return_index=True)[1]
    return make_folds(
        len(COPIES), 0, cv=[(np.flatnonzero(np.isin(COPIES, a)), first[b]) for a, b in folds.splits]
    )


@pytest.mark.parametrize("map_", ["kernel ridge", "logistic"])
def test_paths_of_integer_weights_are_those_of_repeated_rows(map_):
    T = OUTPUTS["label_sets"].astype(float)
    settings = MAPS[map_]() if map_ == "logistic" else RIDGE
    folds = make_folds(N, 0, cv=5, weights=COUNTS.astype(float))
    again = copied(folds)
    assert_array_equal(COPIES[again.held], folds.held)
    weighted = settings.predictions(Sample(X, T, folds, 0))
    repeated = settings.predictions(Sample(X[COPIES], T[COPIES], again, 0))
    for (cell, F), (other, G) in zip(weighted, repeated, strict=True):
        assert cell == other
        assert_allclose(F, G, atol=2e-3 if map_ == "logistic" else 1e-6)


@pytest.mark.parametrize("map_", ["learned metric ridge", "extra trees", "boosting"])
def test_other_maps_are_tried_as_they_are_built(map_):
    """The trial of a fold is the model that `build` makes, with the weights of its rows."""
    T = OUTPUTS["numbers"] - 3.0
    settings = {
        "learned metric ridge": {"landmarks": 20},
        "extra trees": {"n_estimators": 3, "max_features": 1.0},
        "boosting": {"max_iter": 20, "max_leaf_nodes": 7, "min_samples_leaf": 3},
    }[map_]
    chosen = {"alpha": 1e-3, "center": True, "n_iter": 20}
    folds = make_folds(N, 0, cv=2, weights=WEIGHTS)
    for cell, F in MAPS[map_](**settings).predictions(Sample(X, T, folds, 0)):
        if any(getattr(cell, name) != chosen[name] for name in cell.filled if name in chosen):
            continue
        for k, ((train, held), rows) in enumerate(zip(folds.splits, folds.spans, strict=True)):
            seed = 0 if map_ == "learned metric ridge" else k
            model = cell.build(seed)
            model.fit(X[train], T[train], sample_weight=WEIGHTS[train])
            assert_allclose(F[rows], model.predict(X[held]), atol=1e-3)
            plain = cell.build(seed).fit(X[train], T[train])
            assert np.abs(F[rows] - plain.predict(X[held])).max() > 5e-3


def test_splits_that_are_no_folds():
    """Training rows need not be all that are not held out."""
    T, cv = OUTPUTS["numbers"], ShuffleSplit(8, train_size=0.5, test_size=0.2, random_state=0)
    folds = make_folds(N, 0, cv=cv)
    assert len(np.unique(np.concatenate([train for train, _ in folds.splits]))) == N
    for cell, F in RIDGE.predictions(Sample(X, T, folds, 0)):
        for (train, held), rows in zip(folds.splits, folds.spans, strict=True):
            model = cell.build(0).fit(X[train], T[train])
            assert_allclose(F[rows], model.predict(X[held]), atol=1e-5)


# Weights: scores ---------------------------------------------------------------------------------


def test_parts_are_weighted():
    folds = make_folds(N, 0, cv=2, weights=WEIGHTS)
    values = RNG.standard_normal((2, N))
    w = WEIGHTS[folds.held]
    for k, (rows, _) in enumerate(folds.parts):
        expected = [(v[rows] * w[rows]).sum() / w[rows].sum() for v in values]
        assert_allclose(folds.part_means(values)[:, k], expected)
        assert_allclose(folds.weights[k], w[rows].sum() / w.sum())


@pytest.mark.parametrize("scoring", [None, "kernel", "own"])
@pytest.mark.parametrize("kind", OUTPUTS)
def test_judges_of_integer_weights_are_those_of_repeated_rows(kind, scoring):
    def own(true, pred, sample_weight=None):
        rows = [float(np.all(a == b)) for a, b in zip(true, pred, strict=True)]
        return np.average(rows, weights=sample_weight)

    if kind == "classes" and scoring == "kernel":
        pytest.skip("classes have no kernel")
    judged = OutputScoring(KINDS[kind], own if scoring == "own" else scoring)
    Y = judged.check(OUTPUTS[kind])
    basis = KINDS[kind].basis(Y, 0)
    T = basis.fit_transform(Y)
    splits = [(np.arange(N), held) for _, held in KFold(5).split(X)]
    folds = make_folds(N, 0, cv=splits, weights=COUNTS.astype(float))
    again = make_folds(
        len(COPIES),
        0,
        cv=[(np.arange(len(COPIES)), np.flatnonzero(np.isin(COPIES, h))) for _, h in splits],
    )
    F = (T + 0.5 * np.random.default_rng(3).standard_normal(T.shape)).astype(np.float32)
    weighted = judged.on_folds(basis, Y, folds)(F[folds.held])
    repeated = judged.on_folds(basis, take(Y, COPIES), again)(F[COPIES[again.held]])
    assert_allclose(weighted, repeated, atol=1e-6)
    assert_allclose(folds.weights, again.weights)
    plain = judged.on_folds(basis, Y, make_folds(N, 0, cv=splits))(F[folds.held])
    if kind != "numbers" or scoring != "own":  # no number is met
        assert np.abs(weighted - plain).max() > 1e-3


@pytest.mark.parametrize("name", metrics())
def test_named_metrics_of_integer_weights(name):
    """Each metric of a name: weights are repetitions."""
    values = {
        "example_f1": OUTPUTS["label_sets"],
        "subset_accuracy": OUTPUTS["label_sets"],
        "kendall_tau": OUTPUTS["rankings"],
        "ngram_similarity": OUTPUTS["strings"],
        "accuracy": OUTPUTS["classes"],
        "graph_similarity": CHAINS,
        "fingerprint_similarity": CHAINS,
        "peak_similarity": [(np.arange(1, 4 + i % 3) * 50.0, np.ones(3 + i % 3)) for i in range(N)],
    }
    if name in ("graph_similarity", "fingerprint_similarity"):
        extra("rdkit")
    kernel = skout.kernels.Curves() if name == "curve_r2" else Gaussian(0.5)
    true = values.get(name, OUTPUTS["numbers"].round())
    pred = take(true, (np.arange(N) + np.arange(N) % 2) % N)  # every other one is right
    weighted = metrics()[name](kernel, true, pred, sample_weight=COUNTS.astype(float))
    assert_allclose(weighted, metrics()[name](kernel, take(true, COPIES), take(pred, COPIES)))
    assert abs(weighted - metrics()[name](kernel, true, pred)) > 1e-4


def test_r2_of_sparse_rows_is_weighted():
    true, pred = OUTPUTS["label_sets"], OUTPUTS["label_sets"][::-1]
    expected = r2_score(true, pred, sample_weight=WEIGHTS, multioutput="variance_weighted")
    for make in (np.asarray, sparse.csr_matrix):
        found = metrics()["r2"](None, make(true), make(pred), sample_weight=WEIGHTS)
        assert_allclose(found, expected)


def test_score_takes_weights_and_gaps():
    Y = holed(OUTPUTS["numbers"])
    model = quick().fit(X, Y)
    F = model.predict(X)
    assert_allclose(model.score(X, Y, sample_weight=WEIGHTS), r2(Y, F, WEIGHTS))
    assert_allclose(model.score(X, Y), r2(Y, F))
    Y[3] = np.nan  # a row without any
    assert_allclose(model.score(X, Y), r2(Y, F))
    model = quick("classes").fit(X, OUTPUTS["classes"])
    other = OUTPUTS["classes"][::-1]
    expected = accuracy_score(other, model.predict(X), sample_weight=WEIGHTS)
    assert_allclose(model.score(X, other, sample_weight=WEIGHTS), expected)
    with pytest.raises(ValueError, match="sample_weight"):
        model.score(X, other, sample_weight=WEIGHTS[:-1])


# A search by hand --------------------------------------------------------------------------------


def searched_by_hand(Y, weights, cv):
    """Return score, alpha and center of the best kernel ridge: a loop over folds and outputs."""
    w = np.ones(N) if weights is None else weights
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    T = (Y - np.nanmean(Y, axis=0)) / np.nanstd(Y, axis=0)
    median = Gaussian("median").resolve(scaled, np.random.default_rng(0)).gamma
    held = np.concatenate([test for _, test in cv.split(X)])
    share = min(0.3, 1.5 / np.sqrt(N))
    best = -np.inf, None, None
    for alpha in (1.0, 0.3, 0.1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7):
        for center in (True, False):
            F = np.empty(T.shape)
            for train, test in cv.split(X):
                for j in range(T.shape[1]):
                    own = train[~np.isnan(T[train, j])]
                    mean = np.average(T[own, j], weights=w[own]) if center else 0.0
                    ridge = KernelRidge(Gaussian(median), alpha=alpha)
                    ridge.fit(scaled[own], T[own, j] - mean, sample_weight=w[own])
                    F[test, j] = ridge.predict(scaled[test]) + mean
            columns, lost, spread = [], 0.0, 0.0
            for j in range(T.shape[1]):
                there = held[~np.isnan(T[held, j])]
                t, f = T[there, j], F[there, j]
                columns.append(r2_score(t, f, sample_weight=w[there]))
                lost += (w[there] * (t - f) ** 2).sum()
                spread += (w[there] * (t - np.average(t, weights=w[there])) ** 2).sum()
            merit = np.mean(columns) + share * (1.0 - lost / spread)
            if merit > best[0]:
                best = merit, np.mean(columns), {"alpha": alpha, "center": center}
    return best[1], best[2]


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS / WEIGHTS.mean()])
def test_the_choice_is_that_of_a_search_by_hand(weights, gaps):
    rng = np.random.default_rng(4)
    Y = OUTPUTS["numbers"] * [1.0, 10.0, 1.0, 0.1] + 0.3 * rng.standard_normal((N, 4))
    Y = holed(Y) if gaps else Y
    cv = KFold(4)
    model = quick(budget="1 fits", cv=cv).fit(X, Y, sample_weight=weights)
    score, settings = searched_by_hand(Y, weights, cv)
    [found] = model.best_settings_
    assert {name: found[name] for name in settings} == settings
    assert_allclose(model.results_[0]["score"], score, atol=2e-5)


# Rows that do not count --------------------------------------------------------------------------


def by_frames(values):
    return extra("pandas").DataFrame(values, columns=list("abc"))


def by_polars(values):
    return extra("polars").DataFrame(values, schema=list("abc"))


def by_dask(values):
    array = extra("dask.array")
    return array.from_array(values, chunks=(9, 3))


def by_tensor(values):
    return extra("torch").tensor(values)


def by_disk(values, folder):
    np.save(folder / "x.npy", values)
    return np.load(folder / "x.npy", mmap_mode="r")


def by_hdf5(values, folder):
    file = extra("h5py").File(folder / "x.h5", "w")
    return file.create_dataset("x", data=values)


SOURCES = {
    "array": np.asarray,
    "list": np.ndarray.tolist,
    "csr": sparse.csr_matrix,
    "dict": lambda values: {name: values[:, j] for j, name in enumerate("abc")},
    "pandas": by_frames,
    "polars": by_polars,
    "dask": by_dask,
    "torch": by_tensor,
    "memmap": by_disk,
    "hdf5": by_hdf5,
}


def source(name, values, folder):
    given = (folder,) if name in ("memmap", "hdf5") else ()
    return SOURCES[name](values, *given)


@pytest.mark.parametrize("name", SOURCES)
def test_rows_of_weight_zero_do_not_matter_wherever_they_lie(name, tmp_path):
    few, Y = np.arange(0, N, 4), OUTPUTS["numbers"]
    rows = np.setdiff1d(np.arange(N), few)
    wrong, other, weights = X.copy(), Y.copy(), WEIGHTS.copy()
    wrong[few], other[few], weights[few] = np.nan, np.inf, 0.0
    lazily = by_dask if name == "dask" else np.asarray
    model = quick().fit(source(name, wrong, tmp_path), lazily(other), sample_weight=weights)
    expected = quick().fit(X[rows], Y[rows], sample_weight=weights[rows])
    if name in ("dict", "pandas", "polars"):
        assert list(model.feature_names_in_) == list("abc")
    assert model.best_settings_ == expected.best_settings_
    assert_allclose(model.score_, expected.score_, rtol=1e-12)
    unweighted = quick().fit(X[rows], Y[rows])
    assert unweighted.score_ != expected.score_


@pytest.mark.parametrize("kind", OUTPUTS)
def test_blocks_bring_outputs_and_weights(kind):
    Y, weights = OUTPUTS[kind], np.where(np.arange(N) % 4 > 0, WEIGHTS, 0.0)
    parts = [slice(0, 15), slice(15, N)]
    weighted = Blocks([(X[some], Y[some], weights[some]) for some in parts])
    same(quick(kind).fit(weighted), quick(kind).fit(X, Y, sample_weight=weights))
    plain = Blocks([(X[some], Y[some]) for some in parts])
    same(quick(kind).fit(plain), quick(kind).fit(X, Y))
    with pytest.raises(ValueError, match="y must be None where X are Blocks"):
        quick(kind).fit(plain, Y)


@pytest.mark.parametrize("kind", OUTPUTS)
def test_rows_of_weight_zero_do_not_matter_to_any_kind(kind):
    few, Y = np.arange(0, N, 4), OUTPUTS[kind]
    rows = np.setdiff1d(np.arange(N), few)
    weights = np.where(np.isin(np.arange(N), few), 0.0, WEIGHTS)
    model = quick(kind, outer_cv=2).fit(X, Y, sample_weight=weights)
    expected = quick(kind, outer_cv=2).fit(X[rows], take(Y, rows), sample_weight=weights[rows])
    same(model, expected)
    assert_allclose(model.outer_scores_, expected.outer_scores_)
    assert_allclose(model.baselines_["constant"], expected.baselines_["constant"])
    if kind != "numbers":
        assert len(model.candidates_ if kind != "classes" else model.classes_) > 0


def test_given_splits_number_all_rows():
    few, Y = np.arange(0, N, 4), OUTPUTS["numbers"]
    rows = np.setdiff1d(np.arange(N), few)
    weights = np.where(np.isin(np.arange(N), few), 0.0, WEIGHTS)
    splits = list(KFold(3).split(X))
    place = np.full(N, -1)
    place[rows] = np.arange(len(rows))
    own = [tuple(place[part][place[part] >= 0] for part in split) for split in splits]
    model = quick(cv=splits).fit(X, Y, sample_weight=weights)
    same(model, quick(cv=own).fit(X[rows], Y[rows], sample_weight=weights[rows]))
    groups = np.arange(N) // 3
    model = quick(cv=None).fit(X, Y, groups, weights)
    same(model, quick(cv=None).fit(X[rows], Y[rows], groups[rows], weights[rows]))
    with pytest.raises(ValueError, match="groups must have one label for each of the 40 rows"):
        quick(cv=None).fit(X, Y, groups[:-1], weights)


def test_only_ratios_of_weights_matter():
    Y = OUTPUTS["classes"]
    model = quick("classes", "5 fits").fit(X, Y, sample_weight=WEIGHTS)
    other = quick("classes", "5 fits").fit(X, Y, sample_weight=2.0**-20 * WEIGHTS)
    same(model, other)
    assert model.left_out_ == {"neighbors": "take no weights"}
    assert "without neighbors, which take no weights" in model.summary()
    equal = quick("classes", "5 fits").fit(X, Y, sample_weight=np.full(N, 3.0))
    same(equal, quick("classes", "5 fits").fit(X, Y))
    assert equal.left_out_ == {}


def test_neighbors_are_not_tried_with_weights():
    Y = OUTPUTS["numbers"]
    assert "neighbors" in {row["map"] for row in quick(budget="12 fits").fit(X, Y).results_}
    model = quick(budget="12 fits").fit(X, Y, sample_weight=WEIGHTS)
    assert "neighbors" not in {row["map"] for row in model.results_}


def test_weights_are_checked():
    Y = OUTPUTS["numbers"]
    for weights, message in (
        (WEIGHTS[:-1], "sample_weight"),
        (-WEIGHTS, "sample_weight"),
        (np.zeros(N), "sample_weight"),
        (np.where(np.arange(N) < 5, 1.0, 0.0), "at least 10 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            quick().fit(X, Y, sample_weight=weights)
    with pytest.raises(TypeError, match="scoring=share takes none: give a function"):
        quick(scoring=share).fit(X, Y, sample_weight=WEIGHTS)


def share(true, pred):
    return float(np.mean(np.abs(true - pred) < 0.2))


# Gaps --------------------------------------------------------------------------------------------


def test_gaps_are_fitted_by_every_map_and_saved(tmp_path):
    Y = holed(OUTPUTS["numbers"])
    model = quick(budget="12 fits").fit(X, Y)
    maps = {row["map"] for row in model.results_}
    assert maps >= {"kernel ridge", "learned metric ridge", "extra trees", "boosting", "neighbors"}
    assert all(np.isfinite(row["score"]) for row in model.results_)
    assert model.predict(X).shape == Y.shape
    assert r2(OUTPUTS["numbers"], model.predict(X)) > 0.9  # also where nothing was known
    skout.save(model, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout")
    assert_array_equal(again.predict(X), model.predict(X))
    assert again.left_out_ == {}


def test_each_map_fits_outputs_on_their_rows():
    T = holed(OUTPUTS["numbers"] - 3.0)
    for settings in (
        MAPS["neighbors"](),
        MAPS["extra trees"](n_estimators=3, max_features=1.0, min_samples_leaf=2),
        replace(RIDGE, rows=20),
    ):
        folds = make_folds(N, 0, cv=2)
        found = list(settings.predictions(Sample(X, T, folds, 0)))
        assert found
        for j in range(T.shape[1]):
            known = ~np.isnan(T[:, j])
            if settings.rows is not None:
                continue
            own = make_folds(N, 0, cv=[(train[known[train]], held) for train, held in folds.splits])
            cells = dict(settings.predictions(Sample(X, T[:, j : j + 1], own, 0)))
            for cell, F in found:
                assert_allclose(F[:, j], cells[cell][:, 0], atol=1e-6)


def test_rows_without_any_output_are_left_out():
    Y = OUTPUTS["numbers"].copy()
    few = np.arange(0, N, 4)
    rows = np.setdiff1d(np.arange(N), few)
    Y[few] = np.nan
    same(quick().fit(X, Y), quick().fit(X[rows], Y[rows]))
    vector = quick(scoring=r2_score).fit(X, Y[:, 0], sample_weight=WEIGHTS)
    same(vector, quick(scoring=r2_score).fit(X[rows], Y[rows, 0], sample_weight=WEIGHTS[rows]))
    assert vector.predict(X).shape == (N,)
    objects = Y[:, 0].astype(object)
    objects[few] = None
    same(quick().fit(X, objects), quick().fit(X[rows], Y[rows, 0]))


def test_a_column_with_gaps_counts_as_much_as_others():
    Y = OUTPUTS["numbers"][:, :2].copy()
    Y[: N // 2, 0] = np.nan
    truth, F = Y[make_folds(N, 0, cv=2).held], np.zeros((N, 2))
    folds = make_folds(N, 0, cv=2, weights=WEIGHTS)
    judged = OutputScoring(KINDS["numbers"])
    basis = KINDS["numbers"].basis(Y, 0).fit(Y)
    total = judged.on_folds(basis, Y, folds)(F)[0] @ folds.weights
    mean = np.tile(np.nanmean(Y, axis=0), (N, 1))
    assert_allclose(total, r2(truth, mean, WEIGHTS[folds.held]))


def test_own_metrics_get_gaps():
    Y = holed(OUTPUTS["numbers"])
    model = quick(budget="1 fits", scoring=r2, cv=KFold(2)).fit(X, Y)
    assert model.score_ > 0.8
    assert_allclose(model.score(X, Y), r2(Y, model.predict(X)))
    with pytest.raises(ValueError, match=r"No trial succeeded: .*NaN"):
        quick(scoring=r2_score).fit(X, Y)
    with pytest.raises(ValueError, match="Y has gaps, NaN, and scoring='kernel' takes whole"):
        quick(scoring="kernel").fit(X, Y)


@pytest.mark.parametrize("kind", ["label_sets", "rankings"])
def test_gaps_are_of_numbers_alone(kind):
    Y = holed(OUTPUTS[kind].astype(float), 0.05)
    with pytest.raises(ValueError, match=f"Y may be {kind} or numbers: say which"):
        quick().fit(X, Y)
    with pytest.raises(ValueError, match=r"[Nn]a[Nn]"):
        quick(kind).fit(X, Y)
    assert quick("numbers").fit(X, Y).predict(X).shape == Y.shape
    assert guess_kind(holed(OUTPUTS["numbers"])) == "numbers"


def test_columns_with_too_few_numbers():
    Y = OUTPUTS["numbers"].copy()
    Y[2:, 1] = np.nan
    with pytest.raises(ValueError, match="column 1 of Y has fewer than two numbers"):
        quick().fit(X, Y)
    Y[:, 1] = np.nan
    with pytest.raises(ValueError, match="no number in column 1: leave this column out"):
        quick().fit(X, Y)


def test_gaps_cost_what_their_fits_do():
    """Outputs with rows of their own take as many models: the plan of a search says so."""
    planned = {}
    forest = MAPS["extra trees"](n_estimators=1000, max_features=1.0)

    class Kept(ModelSearch):
        def run(self):
            planned[len(planned)] = self.cost(forest)
            super().run()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skout.apps.tuning.estimator.ModelSearch", Kept)
        quick(budget="1 fits").fit(X, OUTPUTS["numbers"])
        quick(budget="1 fits").fit(X, holed(OUTPUTS["numbers"]))
    known = np.mean(~np.isnan(holed(OUTPUTS["numbers"])))
    assert_allclose(planned[1] / planned[0], 4.0 * known, rtol=0.2)


# Probabilities -----------------------------------------------------------------------------------


def test_probabilities_are_the_nearest():
    basis = ClassCodes().fit(["a", "b", "c"])
    F = np.random.default_rng(0).normal(0.3, 0.6, (200, 3))
    P = basis.probabilities(F)
    assert P.min() == 0.0
    assert_allclose(P.sum(axis=1), 1.0)
    grid = np.array([[i, j, 40 - i - j] for i in range(41) for j in range(41 - i)]) / 40.0
    for f, p in zip(F, P, strict=True):
        assert ((f - p) ** 2).sum() <= ((f - grid) ** 2).sum(axis=1).min() + 1e-12
    assert_array_equal(P.argmax(axis=1), F.argmax(axis=1))
    sets = OUTPUTS["label_sets"]
    found = LabelFeatures().fit(sets)
    assert_allclose(found.probabilities(found.transform(sets)), sets, atol=0.02)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_probabilities_of_classes(n_classes, tmp_path):
    Y = np.array(["ab", "b", "c", "d"])[SCORES[:, :n_classes].argmax(axis=1)]
    model = quick("classes").fit(X, Y)
    P, scores = model.predict_proba(X), model.decision_function(X)
    assert_array_equal(model.classes_, np.unique(Y))
    assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
    if n_classes == 2:
        assert scores.shape == (N,)
        assert_array_equal(model.classes_[(scores > 0).astype(int)], model.predict(X))
    else:
        assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(X))
    skout.save(model, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout")
    assert_array_equal(again.predict_proba(X), P)
    assert_array_equal(again.classes_, model.classes_)


def test_scikit_learn_scores_probabilities():
    Y = SCORES[:, 0] > 0
    model = quick("classes", "1 fits")
    for scoring in ("roc_auc", "neg_log_loss", "neg_brier_score"):
        scores = cross_val_score(model, X, Y, cv=2, scoring=scoring)
        assert np.isfinite(scores).all()
    fitted = quick(budget="1 fits").fit(X, Y)  # the kind is told by Y
    assert sklearn.base.is_classifier(fitted)
    assert brier_score_loss(Y, fitted.predict_proba(X)[:, 1]) < 0.1
    assert not sklearn.base.is_classifier(quick("numbers"))


def test_probabilities_of_labels():
    pd = extra("pandas")
    Y = pd.DataFrame(OUTPUTS["label_sets"], columns=list("pqrs"))
    model = quick("label_sets").fit(X, Y)
    P = model.predict_proba(X)
    assert P.shape == Y.shape
    assert P.min() >= 0.0
    assert P.max() <= 1.0
    assert roc_auc_score(Y, P) > 0.95
    estimates = np.clip(model.decision_function(X), 0.0, 1.0)
    assert_array_equal(P, model.calibration_.apply(estimates))
    framed = model.set_output(predict="pandas").predict_proba(X)
    assert list(framed.columns) == list("pqrs")
    assert not hasattr(model, "classes_")
    classes = quick("classes").set_output(predict="pandas").fit(X, OUTPUTS["classes"])
    assert list(classes.predict_proba(X).columns) == list(classes.classes_)


def test_others_have_no_probabilities():
    model = quick().fit(X, OUTPUTS["numbers"])
    for name in ("predict_proba", "decision_function"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError) as error:
            getattr(model, name)
        assert "Only classes and label sets" in str(error.value.__cause__)
        assert hasattr(Tuned("label_set"), name)  # another spelling of the kind


# Checkpoints -------------------------------------------------------------------------------------

SOURCE = "def share(true, pred):\n    return float((abs(true - pred) < {}).mean())\n"


def fresh(limit):
    """Return a function as another process would make it."""
    scope = {}
    exec(SOURCE.format(limit), scope)
    return scope["share"]


def test_own_metrics_are_known_again_in_another_process(tmp_path, monkeypatch):
    Y, file = OUTPUTS["numbers"], tmp_path / "search.npz"
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    whole = quick(budget="3 fits", scoring=fresh(0.2)).fit(X, Y)
    real, ran = Map.predictions, []

    def killed(settings, sample):
        if len(ran) == 2:
            raise SystemExit
        ran.append(settings)
        return real(settings, sample)

    with monkeypatch.context() as patch:
        patch.setattr(Map, "predictions", killed)
        with pytest.raises(SystemExit):
            quick(budget="3 fits", scoring=fresh(0.2), checkpoint=file).fit(X, Y)
    assert repr(fresh(0.2)) != repr(fresh(0.2))
    for params, given in (
        ({"scoring": fresh(0.3)}, {}),  # the same name, but another function
        ({"scoring": None}, {}),
        ({"cv": 3}, {}),
        ({}, {"groups": np.arange(N) // 2}),
    ):
        other = quick(**{"budget": "3 fits", "scoring": fresh(0.2), "checkpoint": file} | params)
        with pytest.raises(ValueError, match="is of another fit"):
            other.fit(X, Y, **given)
    resumed = quick(budget="3 fits", scoring=fresh(0.2), checkpoint=file)
    with monkeypatch.context() as patch:
        patch.setattr(Map, "predictions", lambda *args: ran.append(0) or real(*args))
        resumed.fit(X, Y)
    assert len(ran) == 3
    same(resumed, whole)


def test_checkpoints_know_weights(tmp_path, monkeypatch):
    Y = OUTPUTS["numbers"]
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    monkeypatch.setattr(checkpoints.Checkpoint, "remove", lambda self: None)
    file = tmp_path / "search.npz"
    model = quick(checkpoint=file).fit(X, Y, sample_weight=WEIGHTS)
    same(model, quick(checkpoint=file).fit(X, Y, sample_weight=WEIGHTS))
    for weights in (None, WEIGHTS[::-1]):
        with pytest.raises(ValueError, match="is of another fit"):
            quick(checkpoint=file).fit(X, Y, sample_weight=weights)


# scikit-learn's metadata -------------------------------------------------------------------------


@pytest.mark.parametrize("routing", [False, True])
def test_weights_through_a_pipeline(routing):
    Y = holed(OUTPUTS["numbers"])
    scaled = StandardScaler().fit_transform(X)
    direct = quick(budget="3 fits").fit(scaled, Y, sample_weight=WEIGHTS)
    with sklearn.config_context(enable_metadata_routing=routing):
        model = quick(budget="3 fits")
        name = "sample_weight" if routing else "tuned__sample_weight"
        if routing:
            model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler()
        if routing:
            scaler.set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model).fit(X, Y, **{name: WEIGHTS})
        score = pipeline.score(X, Y, sample_weight=WEIGHTS)
    assert pipeline[-1].best_settings_ == direct.best_settings_
    assert_allclose(pipeline.predict(X), direct.predict(scaled))
    assert_allclose(score, r2(Y, direct.predict(scaled), WEIGHTS))
