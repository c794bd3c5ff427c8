"""Regressors of scikit-learn in files: the same bits again, and trees that no loop can follow."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn import gaussian_process as gp
from sklearn.base import is_classifier
from sklearn.cluster import KMeans
from sklearn.compose import TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingRegressor,
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
from sklearn.utils import all_estimators

import skout
from skout._numerics.saving import name_of
from skout.persistence import FileError, describe, reading, scikit
from skout.persistence.files import read_file, write_file

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
    "histograms": MultiOutputRegressor(HistGradientBoostingRegressor(max_iter=12, **SEEDED)),
    "histograms of quantiles": MultiOutputRegressor(
        HistGradientBoostingRegressor(loss="quantile", quantile=0.7, max_iter=2)
    ),
    "large forest": RandomForestRegressor(20, max_depth=4, **SEEDED),
    "long boosting": MultiOutputRegressor(GradientBoostingRegressor(n_estimators=12, **SEEDED)),
    "vote": MultiOutputRegressor(VotingRegressor([("a", Ridge()), ("b", LinearRegression())])),
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


@pytest.mark.parametrize("name", ["forest", "KD tree", "boosting", "histograms", "perceptron"])
def test_wrapped_regressor_can_be_fitted_again(name, tmp_path):
    model = skout.StructuredPredictor(REGRESSORS[name], "tanimoto").fit(X, SETS)
    again = round_trip(model, tmp_path).fit(X, SETS)
    assert_array_equal(again.predict_coordinates(X), model.predict_coordinates(X))
    unfitted = round_trip(skout.StructuredPredictor(REGRESSORS[name], "tanimoto"), tmp_path)
    assert_array_equal(unfitted.fit(X, SETS).predict(X), model.predict(X))


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
MANY = RandomForestRegressor(10, max_depth=3, **SEEDED).fit(X, SETS)
CLASSES = RandomForestClassifier(2, max_depth=3, **SEEDED).fit(X, SETS[:, 0])
BOOSTED = GradientBoostingRegressor(n_estimators=2, **SEEDED).fit(X, X[:, 0])
HISTOGRAMS = HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=5).fit(X, X[:, 2])
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


def of_class(spec, name):
    """All objects of a class in JSON, and columns of them."""
    inner = spec if isinstance(spec, list) else spec.values() if isinstance(spec, dict) else ()
    found = [one for part in inner for one in of_class(part, name)]
    is_one = isinstance(spec, dict) and str(spec.get("class")).endswith(f".{name}")
    return [*found, spec] if is_one else found


def tree_arrays(nodes):
    """The state of the first tree or of all, and the nodes of its arrays by their names."""
    tree = (of_class(nodes, "Tree") + of_class(nodes, "TreePredictor"))[0]
    state = tree.get("columns", tree.get("state"))
    records, values = state["nodes"], state.get("values", {})
    fields = nodes[records.get("arrays", records)["ref"]]["fields"]
    refs = {name: ref for name, _, ref in fields} | {"values": values.get("arrays", values)}
    return state, fields, {name: nodes[ref["ref"]] for name, ref in refs.items() if ref}


# what HistGradientBoostingRegressor calls the same things
THEIRS = {"left_child": "left", "right_child": "right", "feature": "feature_idx"}


def place_of(field, nodes, arrays):
    parts = tree_arrays(nodes)[2]
    return arrays[parts[field if field in parts else THEIRS[field]]["array"]]


def set_field(field, place, value):
    def change(nodes, arrays):
        array = place_of(field, nodes, arrays)
        array[place] = np.array(value).astype(array.dtype)

    return change


def set_inner(field, value):
    """Change the last node that has children."""

    def change(nodes, arrays):
        left = place_of("left_child", nodes, arrays)
        inner = np.flatnonzero(left.astype(np.int64) > 0)
        place_of(field, nodes, arrays)[inner[-1]] = value

    return change


def set_array(field, make):
    """Put another array in the place of one, described truthfully."""

    def change(nodes, arrays):
        node = tree_arrays(nodes)[2][field]
        arrays[node["array"]] = np.ascontiguousarray(make(arrays[node["array"]]))

    return change


def set_dtype(field, dtype):
    def change(nodes, _arrays):
        next(one for one in tree_arrays(nodes)[1] if one[0] == field)[1] = dtype

    return change


def set_features(value):
    def change(nodes, _arrays):
        for tree in of_class(nodes, "Tree"):
            if "columns" in tree:
                tree["columns"]["n_features"] = {"same": value}
            else:
                tree["state"]["n_features"] = value

    return change


def drop_field(nodes, _arrays):
    tree_arrays(nodes)[1].pop()


AFTER = "not among the nodes after its parent"
NOT = "do not fit together|do not fit its nodes|one after the other|records with"
TREES = {
    "child beyond the end": (set_field("left_child", 0, 10**6), AFTER),
    "child far beyond": (set_field("right_child", 0, 2**62), AFTER),
    "negative child": (set_field("left_child", 0, -7), AFTER),
    "itself": (set_field("left_child", 0, 0), AFTER),
    "cycle": (set_inner("left_child", 0), AFTER),
    "one child": (set_field("left_child", 0, -1), f"only one child|{AFTER}"),
    "shared child": (set_field("right_child", 0, 1), "child of exactly one other"),
    "feature beyond": (set_field("feature", 0, 3), "a feature beyond those"),
    "negative feature": (set_field("feature", 0, -2), "a feature beyond those"),
}
OWN = {
    "no features": (set_features(0), "a feature beyond those"),
    "fraction of a feature": (set_features(3.5), NOT),
    "more features than rows have": (set_features(100), "for other rows than its owner"),
    "dtype of children": (set_dtype("left_child", "<i4"), NOT),
    "dtype of thresholds": (set_dtype("threshold", "<f4"), NOT),
    "dtype of values": (set_array("values", lambda a: a.astype(np.float32)), NOT),
    "few values": (set_array("values", lambda a: a[:-1]), NOT),
    "flat values": (set_array("values", np.ravel), NOT),
    "no values": (set_array("values", lambda a: a[:, :0]), NOT),
    "many values": (set_array("values", lambda a: np.concatenate([a, a, a], axis=2)), NOT),
    "few thresholds": (set_array("threshold", lambda a: a[:-1]), NOT),
    "no field": (drop_field, NOT),
    "matrix": (set_array("feature", lambda a: np.stack([a, a])), NOT),
}
MODELS = {"forest": FOREST, "large forest": MANY, "classes": CLASSES, "boosting": BOOSTED}


@pytest.mark.parametrize("name", TREES | OWN)
@pytest.mark.parametrize("model", MODELS)
def test_crafted_trees_are_refused(name, model, tmp_path):
    change, message = (TREES | OWN)[name]
    with pytest.raises(FileError, match=message):
        skout.load(rewritten(MODELS[model], tmp_path, change))


@pytest.mark.parametrize("name", TREES)
def test_crafted_histograms_are_refused(name, tmp_path):
    change, message = TREES[name]
    with pytest.raises(FileError, match=message):
        skout.load(rewritten(HISTOGRAMS, tmp_path, change))


def test_the_depth_of_a_tree_is_not_taken_from_a_file(tmp_path):
    # paths through a tree are written to a buffer of that length
    skout.save([MANY], tmp_path / "model")
    found = skout.load(tmp_path / "model")[0]
    depths = [one.tree_.max_depth for one in found.estimators_]
    assert depths == [one.tree_.max_depth for one in MANY.estimators_]
    assert b"max_depth" in read_file(tmp_path / "model")[1]["structure"].tobytes()  # the parameter
    trees = of_class(json.loads(read_file(tmp_path / "model")[1]["structure"].tobytes()), "Tree")
    assert "max_depth" not in trees[0]["columns"]


def set_state(name, value, kind):
    """Change an attribute of the last fitted object of a class."""

    def change(nodes, _arrays):
        found = [one for one in of_class(nodes, kind) if "n_features_in_" in one["state"]]
        found[-1]["state"][name] = value

    return change


def other_rows(name):
    """Make an array of one row only."""

    def change(nodes, arrays):
        owner = next(one for one in nodes if name in one.get("state", {}))
        node = nodes[owner["state"][name]["ref"]]
        arrays[node["array"]] = arrays[node["array"]].reshape(-1)[:2].copy().reshape(1, 2)
        for key in ("dtype", "shape", "order"):
            node.pop(key, None)

    return change


FORESTS = "RandomForestRegressor"
GB, HGB = "GradientBoostingRegressor", "HistGradientBoostingRegressor"
OTHER = "that a file can set|no file can set"
ESTIMATORS = {
    "narrow forest": (FOREST, set_state("n_features_in_", 1, FORESTS), "for other rows"),
    "narrow tree": (FOREST, set_state("n_features_in_", 1, "DecisionTreeRegressor"), "other rows"),
    "no trees": (FOREST, set_state("estimators_", "abc", FORESTS), "do not fit together"),
    "no tree": (FOREST, set_state("tree_", None, "DecisionTreeRegressor"), "for other rows"),
    "method": (FOREST, set_state("_validate_X_predict", 1, FORESTS), OTHER),
    "narrow boosting": (BOOSTED, set_state("n_features_in_", 1, GB), "for other rows"),
    "start": (BOOSTED, set_state("init_", 0, GB), "another estimator"),
    "start of no output": (BOOSTED, set_state("n_outputs_", 0, "DummyRegressor"), "another estim"),
    "no column": (BOOSTED, set_state("n_trees_per_iteration_", 0, GB), "not in one column"),
    "loss": (BOOSTED, set_state("_loss", 0, GB), OTHER),
    "narrow histograms": (HISTOGRAMS, set_state("n_features_in_", 1, HGB), "beyond those"),
    "loss of histograms": (HISTOGRAMS, set_state("_loss", 0, HGB), OTHER),
    "rows": (NEIGHBOURS, other_rows("_fit_X"), "rows do not fit together"),
    "outputs": (NEIGHBOURS, other_rows("_y"), "rows do not fit together"),
    "tree of rows": (NEIGHBOURS, set_state("_tree", 0, "KNeighborsRegressor"), OTHER),
    "metric": (
        NEIGHBOURS,
        set_state("metric", "haversine", "KNeighborsRegressor"),
        "distance 'haversine' with {}, which is not checked",
    ),
    "jobs": (FOREST, set_state("n_jobs", 10**5, FORESTS), "n_jobs=100000, which must be None"),
    "coefficients": (MACHINE, other_rows("_dual_coef_"), "arrays do not fit together"),
    "vectors": (MACHINE, other_rows("support_vectors_"), "arrays do not fit together"),
    "kernel": (MACHINE, set_state("kernel", "precomputed", "SVR"), "not dense with one of"),
    "machine": (MACHINE, set_state("_impl", "c_svc", "SVR"), OTHER),
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


def test_a_pipeline_around_a_model(tmp_path):
    model = make_pipeline(StandardScaler(), skout.iokr("gaussian", "tanimoto")).fit(X, SETS)
    assert_array_equal(round_trip(model, tmp_path).predict(X), model.predict(X))
    assert describe(tmp_path / "model")["about"]["class"] == "sklearn.pipeline.Pipeline"


# Memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "kind"), [(FOREST, "Tree"), (NEIGHBOURS, "KNeighborsRegressor")])
def test_many_copies_of_one_array_are_refused(model, kind, tmp_path, monkeypatch):
    def repeated(times):
        def change(nodes, _arrays):
            node, first = of_class(nodes, kind)[0], len(nodes)
            nodes += [node] * times
            nodes.append({"kind": "list", "items": [{"ref": first + i} for i in range(times)]})

        return change

    monkeypatch.setattr(reading, "_SPARE", 2**16)
    skout.load(rewritten(model, tmp_path, repeated(3)))
    with pytest.raises(FileError, match="in so many parts that memory would end"):
        skout.load(rewritten(model, tmp_path, repeated(5000)))


# Rules --------------------------------------------------------------------------------------------


def test_rules_are_for_classes_that_there_are():
    # a rule by a wrong name would check nothing
    for name in (*scikit._RULES, *scikit._MAKERS, *scikit._PARTS):
        if not name.endswith("_RemainderColsList"):  # of some versions
            assert name_of(scikit.class_of(name)) == name


def test_a_class_of_a_user_is_checked_as_its_base(tmp_path):
    class Mine(RandomForestRegressor):
        pass

    model = Mine(2, max_depth=3, **SEEDED).fit(X, SETS)
    skout.save([model], tmp_path / "model")
    again = skout.load(tmp_path / "model", modules=[Mine])[0]
    assert_array_equal(again.predict(X), model.predict(X))
    path = rewritten(model, tmp_path, set_field("left_child", 0, 10**6))
    with pytest.raises(FileError, match=AFTER):
        skout.load(path, modules=[Mine])

    class Clusters(KMeans):
        pass

    with pytest.raises(TypeError, match="Clusters, which cannot be saved"):
        skout.save(Clusters(2), tmp_path / "model")


# what compiled code reads unchecked, or what has parts that are not public
UNCHECKED = ("cluster", "manifold", "neighbors", "semi_supervised", "svm")
REFUSED = {
    *("CalibratedClassifierCV", "GaussianProcessClassifier", "GradientBoostingClassifier"),
    *("IsolationForest", "PatchExtractor"),
}
EVERY = {name: kind for name, kind in all_estimators() if kind.__module__.startswith("sklearn.")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EVERY)
def test_every_estimator_is_saved_or_refused(name, tmp_path):
    rows, targets = np.abs(X), np.abs(X[:, 0])
    try:
        model = EVERY[name]()
        model.fit(rows, np.arange(N) % 2 if is_classifier(model) else targets)
    except (TypeError, ValueError, AttributeError):
        pytest.skip("it takes an estimator, or other data")
    if EVERY[name].__module__.split(".")[1] in UNCHECKED or name in REFUSED:
        try:
            skout.save(model, tmp_path / "model")
        except TypeError:
            return
        assert name_of(EVERY[name]) in {*scikit._RULES, *scikit._PARTS}
    skout.save(model, tmp_path / "model")
    again = skout.load(tmp_path / "model")
    for method in ("predict", "transform", "predict_proba", "decision_function"):
        if hasattr(model, method) and "Hash" not in name:  # which take texts
            found, expected = getattr(again, method)(rows), getattr(model, method)(rows)
            dense = [one.toarray() if sparse.issparse(one) else one for one in (found, expected)]
            assert_array_equal(*dense)
