"""Regressors of scikit-learn in files: the same bits again, and trees that no loop can follow."""

import io
import json
import sys
import zipfile

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn import gaussian_process as gp
from sklearn.compose import TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.neighbors import KNeighborsRegressor, RadiusNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

import skout
from skout.persistence import FileError, describe, values
from skout.persistence.files import read_file, write_file

skops_io = extra("skops.io")

N = 40
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
GAPS = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
SETS = (RNG.random((N, 5)) < 0.4).astype(np.int64)
SEEDED = {"random_state": 0}


def distance(a, b):
    return np.abs(a - b).max()


REGRESSORS = {
    "ridge": Ridge(),
    "ridge with folds": RidgeCV(),
    "lasso": Lasso(1e-3),
    "elastic net": ElasticNet(1e-3),
    "least squares": LinearRegression(),
    "PLS": PLSRegression(2),
    "kernel ridge": KernelRidge(kernel="rbf"),
    "tree": DecisionTreeRegressor(**SEEDED),
    "tree of few leaves": DecisionTreeRegressor(max_leaf_nodes=6, **SEEDED),
    "pruned tree": DecisionTreeRegressor(ccp_alpha=0.01, **SEEDED),
    "stump": DecisionTreeRegressor(max_depth=1),
    "one leaf": DecisionTreeRegressor(min_samples_split=N + 1),
    "extra tree": ExtraTreeRegressor(**SEEDED),
    "forest": RandomForestRegressor(4, **SEEDED),
    "forest with scores": RandomForestRegressor(20, oob_score=True, **SEEDED),
    "extra trees": ExtraTreesRegressor(3, max_depth=4, **SEEDED),
    "boosting": MultiOutputRegressor(GradientBoostingRegressor(n_estimators=3, **SEEDED)),
    "boosting of quantiles": MultiOutputRegressor(
        GradientBoostingRegressor(loss="quantile", n_estimators=3, init="zero", subsample=0.5)
    ),
    "AdaBoost": MultiOutputRegressor(AdaBoostRegressor(n_estimators=2, **SEEDED)),
    "bagging": BaggingRegressor(DecisionTreeRegressor(), 3, max_features=2, **SEEDED),
    "chain": RegressorChain(RandomForestRegressor(2, **SEEDED)),
    "neighbours": KNeighborsRegressor(),
    "KD tree": KNeighborsRegressor(algorithm="kd_tree", weights="distance", leaf_size=3),
    "ball tree": KNeighborsRegressor(3, algorithm="ball_tree", metric="manhattan"),
    "brute neighbours": KNeighborsRegressor(algorithm="brute"),
    "own metric": KNeighborsRegressor(algorithm="ball_tree", metric=distance),
    "radius": RadiusNeighborsRegressor(4.0),
    "perceptron": MLPRegressor(hidden_layer_sizes=(8,), max_iter=400, tol=1.0, **SEEDED),
    "perceptron by SGD": MLPRegressor(
        hidden_layer_sizes=(8,), solver="sgd", max_iter=400, tol=1.0, **SEEDED
    ),
    "SVM": MultiOutputRegressor(SVR()),
    "Gaussian process": gp.GaussianProcessRegressor(
        2.0 * gp.kernels.RBF() + gp.kernels.WhiteKernel(), optimizer=None
    ),
    "pipeline": make_pipeline(StandardScaler(), PCA(2), Ridge()),
    "pipeline to a forest": make_pipeline(StandardScaler(), RandomForestRegressor(2, **SEEDED)),
    "transformed": TransformedTargetRegressor(
        RandomForestRegressor(2, **SEEDED), transformer=StandardScaler()
    ),
    "folds": skout.KernelRidge(alpha=[1e-3, 0.1], cv=KFold(3)),
}
MODULES = {"distance": distance}


def round_trip(model, folder, **options):
    skout.save(model, folder / "model")
    return skout.load(folder / "model", modules=MODULES, **options)


@pytest.mark.parametrize("name", REGRESSORS)
def test_wrapped_regressor_predicts_the_same_bits(name, tmp_path):
    model = skout.StructuredPredictor(REGRESSORS[name], "tanimoto").fit(X, SETS)
    for options in ({}, {"mmap": True}):
        again = round_trip(model, tmp_path, **options)
        rows = X.copy()  # some kernels know their own training rows
        assert_array_equal(again.predict_coordinates(rows), model.predict_coordinates(rows))
        assert_array_equal(again.predict(rows), model.predict(rows))
    assert repr(again.regressor) == repr(model.regressor)
    assert repr(again.regressor_) == repr(model.regressor_)
    json.dumps(describe(tmp_path / "model"))


@pytest.mark.parametrize("name", ["forest", "KD tree", "boosting", "perceptron"])
def test_wrapped_regressor_can_be_fitted_again(name, tmp_path):
    model = skout.StructuredPredictor(REGRESSORS[name], "tanimoto").fit(X, SETS)
    again = round_trip(model, tmp_path).fit(X, SETS)
    assert_array_equal(again.predict_coordinates(X), model.predict_coordinates(X))
    unfitted = round_trip(skout.StructuredPredictor(REGRESSORS[name], "tanimoto"), tmp_path)
    assert_array_equal(unfitted.fit(X, SETS).predict(X), model.predict(X))


@pytest.mark.parametrize("name", ["tree", "forest", "boosting", "KD tree"])
def test_what_tuned_may_choose_needs_no_skops(name, tmp_path, monkeypatch):
    for module in ("skops", "skops.io"):
        monkeypatch.setitem(sys.modules, module, None)
    model = skout.StructuredPredictor(REGRESSORS[name], "tanimoto").fit(X, SETS)
    assert_array_equal(round_trip(model, tmp_path).predict(X), model.predict(X))


def test_an_ensemble_of_forests(tmp_path):
    member = skout.StructuredPredictor(RandomForestRegressor(2, **SEEDED), "tanimoto")
    model = skout.Ensemble(member, 2, **SEEDED).fit(X, SETS)
    assert_array_equal(round_trip(model, tmp_path).predict(X), model.predict(X))


@pytest.mark.parametrize("options", [{}, {"max_leaf_nodes": 7}, {"ccp_alpha": 0.02}])
def test_trees_are_the_same_in_every_field(options, tmp_path):
    tree = DecisionTreeRegressor(**options, **SEEDED).fit(GAPS, X).tree_
    again = round_trip([tree], tmp_path)[0]
    expected, found = tree.__getstate__(), again.__getstate__()
    assert found["max_depth"] == expected["max_depth"]
    assert found["node_count"] == expected["node_count"]
    for name in expected["nodes"].dtype.names:
        assert_array_equal(found["nodes"][name], expected["nodes"][name])
    assert_array_equal(found["values"], expected["values"])
    rows = GAPS.astype(np.float32)
    assert_array_equal(again.predict(rows), tree.predict(rows))
    assert_array_equal(again.decision_path(rows).toarray(), tree.decision_path(rows).toarray())


def test_sparse_rows_of_neighbours(tmp_path):
    rows = sparse.csr_matrix(np.round(X))
    model = KNeighborsRegressor(2).fit(rows, SETS)
    assert_array_equal(round_trip([model], tmp_path)[0].predict(rows), model.predict(rows))


# Harm ---------------------------------------------------------------------------------------------

FOREST = RandomForestRegressor(2, max_depth=3, **SEEDED).fit(X, SETS)
BOOSTED = GradientBoostingRegressor(n_estimators=2, **SEEDED).fit(X, X[:, 0])
NEIGHBOURS = KNeighborsRegressor(algorithm="kd_tree").fit(X, SETS)
MACHINE = SVR().fit(X, X[:, 0])


def rewritten(model, folder, change):
    """Save a model, change structure and arrays, and close the file with the right checksum."""
    path = folder / "model"
    skout.save([model], path)
    header, arrays = read_file(path)
    structure = json.loads(arrays.pop("structure").tobytes())
    change(structure["nodes"], arrays)
    text = json.dumps(structure).encode()
    del header["format"]
    write_file(path, {**arrays, "structure": np.frombuffer(text, np.uint8)}, header)
    return path


def tree_arrays(nodes):
    """Return the node of the first tree, and its arrays by name, to be changed in place."""
    tree = next(node for node in nodes if node["kind"] == "tree")
    fields = dict(nodes[tree["nodes"]["ref"]]["items"])
    refs = {**fields, "values": tree["values"]}
    return tree, {name: nodes[ref["ref"]] for name, ref in refs.items()}


def set_field(field, place, value):
    def change(nodes, arrays):
        _, parts = tree_arrays(nodes)
        arrays[parts[field]["array"]][place] = value

    return change


def set_inner(field, value):
    """Change the last node that has children."""

    def change(nodes, arrays):
        _, parts = tree_arrays(nodes)
        inner = np.flatnonzero(arrays[parts["left_child"]["array"]] >= 0)
        arrays[parts[field]["array"]][inner[-1]] = value

    return change


def set_array(field, make):
    """Put another array in the place of one, described truthfully."""

    def change(nodes, arrays):
        _, parts = tree_arrays(nodes)
        node = parts[field]
        made = np.ascontiguousarray(make(arrays[node["array"]].reshape(node["shape"])))
        arrays[node["array"]] = made
        node.update(shape=list(made.shape), dtype=made.dtype.str)

    return change


def set_features(value):
    def change(nodes, _arrays):
        for node in nodes:
            if node["kind"] == "tree":
                node["n_features"] = value

    return change


def drop_field(nodes, _arrays):
    tree, _ = tree_arrays(nodes)
    nodes[tree["nodes"]["ref"]]["items"].pop()


AFTER = "not among the nodes after its parent"
TREES = {
    "child beyond the end": (set_field("left_child", 0, 10**6), AFTER),
    "child far beyond": (set_field("right_child", 0, 2**62), AFTER),
    "negative child": (set_field("left_child", 0, -7), AFTER),
    "itself": (set_field("left_child", 0, 0), AFTER),
    "cycle": (set_inner("left_child", 0), AFTER),
    "one child": (set_field("left_child", 0, -1), "only one child"),
    "shared child": (set_field("right_child", 0, 1), "child of exactly one other"),
    "feature beyond": (set_field("feature", 0, 3), "a feature beyond its 3"),
    "negative feature": (set_field("feature", 0, -2), "a feature beyond its 3"),
    "no features": (set_features(0), "without features"),
    "fraction of a feature": (set_features(3.5), "without features"),
    "more features than rows have": (set_features(100), "for other rows than its estimator"),
    "dtype of children": (
        set_array("left_child", lambda a: a.astype(np.int32)),
        "'left_child' is not one value of the dtype int64",
    ),
    "dtype of thresholds": (
        set_array("threshold", lambda a: a.astype(np.float32)),
        "'threshold' is not one value of the dtype float64",
    ),
    "dtype of values": (set_array("values", lambda a: a.astype(np.float32)), "values do not fit"),
    "few values": (set_array("values", lambda a: a[:-1]), "values do not fit its nodes"),
    "flat values": (set_array("values", np.ravel), "values do not fit its nodes"),
    "no values": (set_array("values", lambda a: a[:, :0]), "values do not fit its nodes"),
    "many values": (
        set_array("values", lambda a: np.concatenate([a, a], axis=2)),
        "values do not fit its nodes",
    ),
    "few thresholds": (set_array("threshold", lambda a: a[:-1]), "'threshold' is not one value"),
    "no field": (drop_field, "do not have the fields"),
    "matrix": (set_array("feature", lambda a: np.stack([a, a])), "'feature' is not one value"),
}


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("model", [FOREST, BOOSTED], ids=["forest", "boosting"])
def test_crafted_trees_are_refused(name, model, tmp_path):
    change, message = TREES[name]
    with pytest.raises(FileError, match=message):
        skout.load(rewritten(model, tmp_path, change))


def set_state(name, value, kind):
    """Change an attribute of the last fitted object of a class."""

    def change(nodes, _arrays):
        found = [one for one in nodes if str(one.get("class")).endswith(f".{kind}")]
        node = [one for one in found if "n_features_in_" in one["state"]][-1]
        node["state"][name] = value

    return change


def other_rows(name):
    """Make an array of one row only."""

    def change(nodes, arrays):
        owner = next(one for one in nodes if name in one.get("state", {}))
        node = nodes[owner["state"][name]["ref"]]
        arrays[node["array"]] = arrays[node["array"]].reshape(-1)[:2].copy()
        node.update(shape=[1, 2])

    return change


FORESTS = "RandomForestRegressor"
ESTIMATORS = {
    "narrow forest": (FOREST, set_state("n_features_in_", 1, FORESTS), "for other rows"),
    "narrow tree": (FOREST, set_state("n_features_in_", 1, "DecisionTreeRegressor"), "other rows"),
    "no trees": (FOREST, set_state("estimators_", "abc", FORESTS), "without a list of trees"),
    "no tree": (FOREST, set_state("tree_", None, "DecisionTreeRegressor"), "for other rows"),
    "method": (FOREST, set_state("_validate_X_predict", 1, FORESTS), "no attribute of sklearn"),
    "narrow boosting": (
        BOOSTED,
        set_state("n_features_in_", 1, "GradientBoostingRegressor"),
        "for other rows",
    ),
    "start": (BOOSTED, set_state("init_", 0, "GradientBoostingRegressor"), "another estimator"),
    "loss": (BOOSTED, set_state("_loss", 0, "GradientBoostingRegressor"), "that a file can set"),
    "rows": (NEIGHBOURS, other_rows("_fit_X"), "rows do not fit together"),
    "outputs": (NEIGHBOURS, other_rows("_y"), "rows do not fit together"),
    "tree of rows": (NEIGHBOURS, set_state("_tree", 0, "KNeighborsRegressor"), "file can set"),
    "metric": (
        NEIGHBOURS,
        set_state("effective_metric_", "haversine", "KNeighborsRegressor"),
        "distance 'haversine' with {}, which is not checked",
    ),
    "jobs": (FOREST, set_state("n_jobs", 10**5, FORESTS), "n_jobs=100000, which must be None"),
    "coefficients": (MACHINE, other_rows("_dual_coef_"), "arrays do not fit together"),
    "vectors": (MACHINE, other_rows("support_vectors_"), "arrays do not fit together"),
    "kernel": (MACHINE, set_state("kernel", "precomputed", "SVR"), "not dense with one of"),
    "machine": (MACHINE, set_state("_impl", "c_svc", "SVR"), "no attribute of sklearn"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_crafted_estimators_are_refused(name, tmp_path):
    model, change, message = ESTIMATORS[name]
    with pytest.raises(FileError, match=message):
        skout.load(rewritten(model, tmp_path, change))


def test_boosting_from_another_estimator_is_not_saved(tmp_path):
    model = GradientBoostingRegressor(n_estimators=1, init=Ridge()).fit(X, X[:, 0])
    with pytest.raises(TypeError, match=r"^\[0\] is scikit-learn's Grad.*init=None or 'zero'"):
        skout.save([model], tmp_path / "model")


def test_neighbours_by_a_distance_with_arrays_are_not_saved(tmp_path):
    options = {"metric": "seuclidean", "metric_params": {"V": np.ones(3)}}
    model = KNeighborsRegressor(algorithm="ball_tree", **options).fit(X, SETS)
    with pytest.raises(TypeError, match=r"KNeighborsRegressor, and is not saved: .*'seuclidean'"):
        skout.save([model], tmp_path / "model")


# Archives of skops --------------------------------------------------------------------------------


def with_archive(data, name, folder):
    def change(nodes, arrays):
        node = next(one for one in nodes if one["kind"] == "sklearn")
        node["class"] = name
        place = nodes[node["archive"]["ref"]]
        arrays[place["array"]] = np.frombuffer(data, np.uint8)
        place["shape"] = [len(data)]

    return rewritten(Ridge(), folder, change)


def test_archives_bring_no_unchecked_machine(tmp_path):
    data = skops_io.dumps(MACHINE)
    assert skops_io.get_untrusted_types(data=data) == []  # so the check must be ours
    with pytest.raises(FileError, match=r"not trusted: sklearn\.svm\._classes\.SVR"):
        skout.load(with_archive(data, "sklearn.svm._classes.SVR", tmp_path))


def test_archives_bring_no_archive(tmp_path):
    model = Ridge()
    model.coef_ = sparse.csr_matrix(X)  # which skops stores compressed
    with pytest.raises(TypeError, match="neither arrays nor JSON"):
        skout.save([model], tmp_path / "other")
    with pytest.raises(FileError, match="neither arrays nor JSON"):
        skout.load(with_archive(skops_io.dumps(model), "x", tmp_path))


def test_archives_are_strict_json(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("schema.json", '{"__class__": 1, "__class__": 2}')
    with pytest.raises(FileError, match="same key twice"):
        skout.load(with_archive(out.getvalue(), "x", tmp_path))


def test_a_pipeline_around_a_model(tmp_path):
    model = make_pipeline(StandardScaler(), skout.iokr("gaussian", "tanimoto")).fit(X, SETS)
    assert_array_equal(round_trip(model, tmp_path).predict(X), model.predict(X))
    assert describe(tmp_path / "model")["about"]["class"] == "sklearn.pipeline.Pipeline"


# Memory -------------------------------------------------------------------------------------------


def repeated(kind, times):
    """Let a list hold the same part many times, each made anew."""

    def change(nodes, _arrays):
        node = next(
            one for one in nodes if one["kind"] == kind or str(one.get("class")).endswith(kind)
        )
        first = len(nodes)
        nodes += [node] * times
        nodes.append({"kind": "list", "items": [{"ref": first + i} for i in range(times)]})

    return change


@pytest.mark.parametrize(
    ("model", "kind"),
    [(FOREST, "tree"), (NEIGHBOURS, ".KNeighborsRegressor"), (Ridge().fit(X, SETS), "sklearn")],
    ids=["trees", "neighbours", "archives"],
)
def test_many_copies_of_one_array_are_refused(model, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(values, "_SPARE", 0)
    skout.load(rewritten(model, tmp_path, repeated(kind, 3)))
    with pytest.raises(FileError, match="in so many parts that memory would end"):
        skout.load(rewritten(model, tmp_path, repeated(kind, 5000)))


def test_archives_have_each_array_once(tmp_path):
    data = skops_io.dumps([np.zeros(3), np.ones(3)])
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as other:
        first, second = (name for name in archive.namelist() if name.endswith(".npy"))
        schema = archive.read("schema.json").decode().replace(second, first)
        other.writestr(first, archive.read(first))
        other.writestr("schema.json", schema)
    with pytest.raises(FileError, match="two arrays are the same member"):
        skout.load(with_archive(out.getvalue(), "builtins.list", tmp_path))
