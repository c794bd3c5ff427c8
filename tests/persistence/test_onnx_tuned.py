"""ONNX graphs of what `Tuned` and `skout fit` make, run by onnxruntime beside the models."""

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import ensemble, neighbors
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skout import KernelClassifier, KernelRidge, StructuredPredictor, TableEncoder, Tuned
from skout.apps import tuning
from skout.decoding import RankingDecoder
from skout.kinds import KINDS
from skout.persistence.onnx import OnnxGraph, add_part, graph_inputs, to_onnx

onnx, runtime = extra("onnx"), extra("onnxruntime")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 4))
X[:, 3] = RNG.integers(0, 3, 120)  # with ties
X[:, 2] = np.where(X[:, 2] < 0.3, 0.0, X[:, 2])  # and copies at one end
T = np.column_stack([X[:, 0] + X[:, 1] ** 2, np.sin(X[:, 2]), X[:, 3] - X[:, 0]])
NEW = np.vstack(
    [X[:6], RNG.standard_normal((30, 4)), 9.0 * np.ones((1, 4)), -9.0 * np.ones((1, 4))]
)


def run(graph, **feeds):
    """Return the outputs of a graph by name."""
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(graph.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def part_of(model, rows, width):
    """Return what a part of a model makes of rows, by a graph."""
    graph = OnnxGraph("float64")
    graph.output("F", add_part(graph, model, graph.input("X", ["n", X.shape[1]])), ["n", width])
    return run(graph.model(), X=rows)["F"]


MAPS = {
    "forest": ensemble.RandomForestRegressor(10, random_state=0),
    "extra trees": ensemble.ExtraTreesRegressor(10, random_state=0),
    "neighbors": neighbors.KNeighborsRegressor(5),
    "near neighbors": neighbors.KNeighborsRegressor(5, weights="distance"),
    "leaves": tuning.LeafForest(ensemble.ExtraTreesRegressor(10, random_state=0)),
    "many outputs": tuning.LeafForest(
        ensemble.ExtraTreesRegressor(10, random_state=0), n_projections=2, random_state=0
    ),
    "boosting": tuning.PrincipalOutputs(ensemble.GradientBoostingRegressor(n_estimators=9), 2),
    "histograms": tuning.PrincipalOutputs(
        ensemble.HistGradientBoostingRegressor(max_iter=9, min_samples_leaf=5), 3
    ),
    "centered": tuning.Centered(KernelRidge("gaussian", alpha=1e-2)),
    "learned metric": tuning.LearnedRidge("gaussian", alpha=1e-2, random_state=0),
    "aligned": tuning.LearnedRidge("gaussian", groups=[(0, 2), (2, 4)], random_state=0),
}


@pytest.mark.parametrize("name", MAPS)
def test_maps(name):
    model = MAPS[name].fit(X, T)
    assert_allclose(part_of(model, NEW, 3), model.predict(NEW), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", ["none", "dense", "standard", "quantile", "unit", "tfidf"])
def test_scalings(method):
    model = tuning.ColumnScaler(method).fit(X)
    assert_allclose(part_of(model, NEW, 4), model.transform(NEW), rtol=1e-9, atol=1e-9)


def test_averages_and_gaps_in_targets():
    holes = np.where(RNG.random(T.shape) < 0.2, np.nan, T)
    ridge = tuning.ByOutput(KernelRidge("laplacian", alpha=1e-2))
    weights = np.array([[0.2, 0.5, 1.0], [0.8, 0.5, 0.0]])
    trees = ensemble.ExtraTreesRegressor(5, random_state=0)
    forest = tuning.ByOutput(tuning.LeafForest(trees))
    model = tuning.Averaged([ridge, forest], weights).fit(X, holes)
    assert_allclose(part_of(model, NEW, 3), model.predict(NEW), rtol=1e-9, atol=1e-9)
    labels = (X > 0).astype(float)
    logistic = tuning.LogisticOutputs(10.0).fit(X, labels)
    assert_allclose(part_of(logistic, NEW, 4), logistic.predict(NEW), rtol=1e-9, atol=1e-9)


SETS = (X @ RNG.standard_normal((4, 12)) > 1.0).astype(int)
SETS[:, 0] |= SETS.sum(axis=1) == 0  # without an empty one
WIDE = (X @ RNG.standard_normal((4, 300)) > 4.0).astype(int)


@pytest.mark.parametrize("labels", [SETS, SETS[:, 1:], WIDE], ids=["full", "empty", "many"])
@pytest.mark.parametrize("rule", ["f1", "threshold 0.42", "candidates"])
def test_label_sets(labels, rule):
    kind = KINDS["label_sets"]
    decoder = kind.decoders(labels)[rule]
    model = StructuredPredictor(KernelRidge("gaussian", alpha=1e-2), kind.basis(labels, 0), decoder)
    model.fit(X, labels)
    outputs = run(to_onnx(model), X=NEW)
    assert_array_equal(outputs["labels"], model.predict(NEW))
    F = model.predict_coordinates(NEW)
    assert_allclose(outputs["probabilities"], model.output_basis_.probabilities(F), atol=1e-9)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("rule", ["borda", "kemeny"])
def test_rankings(rule, first):
    ranks = np.argsort(np.argsort(X @ RNG.standard_normal((4, 5)), axis=1), axis=1) + first
    kind = KINDS["rankings"]
    decoder = kind.decoders(ranks)[rule]
    model = StructuredPredictor(KernelRidge("gaussian", alpha=1e-2), kind.basis(ranks, 0), decoder)
    model.fit(X, ranks)
    assert_array_equal(run(to_onnx(model), X=NEW)["ranks"], model.predict(NEW))


@pytest.mark.parametrize("classes", [["no", "yes", "late"], [3, 1, 2], [0.5, 1.5, 2.5]])
def test_classes(classes):
    y = np.array(classes)[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = Tuned("classes", budget="3 fits", random_state=0).fit(X, y)
    outputs = run(to_onnx(model), X=NEW)
    assert outputs["label"].tolist() == model.predict(NEW).tolist()
    assert_allclose(outputs["probabilities"], model.predict_proba(NEW), atol=1e-9)


def table(n, rng):
    names = [
        "Émile Zola",
        "ANNA k. Smith",
        "Zoë  O'Neil",
        "x",
        *(f"Name {i} Ltd" for i in range(40)),
    ]
    words = ["Der", "große", "HUND", "runs_2", "a", "é", "x9", "Straße", "two\twords"]
    start = np.datetime64("2020-01-01T00:00:00")
    texts = [" ".join(rng.choice(words, rng.integers(1, 9))).strip() for _ in range(n)]
    sets = [";".join(rng.choice(["u", "v w", "z"], rng.integers(1, 3), False)) for _ in range(n)]
    return {
        "size": rng.standard_normal(n),
        "gap": np.where(rng.random(n) < 0.2, np.nan, 100.0 * rng.standard_normal(n)),
        "color": rng.choice(np.array(["red", "green", "blue", None], dtype=object), n),
        "name": rng.choice(np.array(names, dtype=object), n),
        "day": start + rng.integers(0, 10**8, n).astype("timedelta64[s]"),
        "text": np.array(texts, dtype=object),
        "tags": np.array(sets, dtype=object),
    }


KINDS_OF = {"color": "category", "name": "categories", "text": "text", "tags": "set"}


def test_tables_of_all_kinds_of_columns():
    rng = np.random.default_rng(1)
    rows = table(150, rng)
    rows["zip"] = np.array([str(98001 + i * i % 60) for i in range(150)], dtype=object)
    encoder = TableEncoder(kinds={**KINDS_OF, "zip": "categories"}).fit(rows)
    new = {name: values[:5].copy() for name, values in rows.items()}
    new["color"][0], new["name"][1], new["text"][2] = "never seen", "Nobody", "NEW Words"
    graph = OnnxGraph("float64")
    graph.output("X", add_part(graph, encoder, ""), ["n", encoder.groups_[-1].stop])
    for some in (rows, new):
        matrix = run(graph.model(), **graph_inputs(encoder.read(some)))["X"]
        assert_allclose(matrix, encoder.transform(some), atol=1e-9)


def test_a_tuned_model_of_a_table(tmp_path):
    rows = table(150, np.random.default_rng(2))
    y = np.where(rows["size"] > 0, "big", "small")
    encoder = TableEncoder(kinds=KINDS_OF)
    model = Tuned("classes", budget="4 fits", random_state=0, encoder=encoder).fit(rows, y)
    graph = to_onnx(model, tmp_path / "model.onnx")
    outputs = run(graph, **graph_inputs(model.encoder_.read(rows)))
    assert outputs["label"].tolist() == model.predict(rows).tolist()
    assert_allclose(outputs["probabilities"], model.predict_proba(rows), atol=1e-9)
    assert (tmp_path / "model.onnx").stat().st_size > 0


def test_pipelines_and_searches_of_a_ridge():
    model = make_pipeline(StandardScaler(), KernelRidge("gaussian", alpha=1e-2)).fit(X, T[:, 0])
    assert_allclose(run(to_onnx(model), X=NEW)["prediction"], model.predict(NEW), rtol=1e-9)
    search = GridSearchCV(KernelRidge("gaussian"), {"alpha": [1e-2, 1e-1]}).fit(X, T)
    assert_allclose(run(to_onnx(search), X=NEW)["prediction"], search.predict(NEW), atol=1e-9)


def test_what_cannot_is_named():
    with pytest.raises(TypeError, match="KernelClassifier has no form in ONNX"):
        to_onnx(KernelClassifier("gaussian").fit(X, X[:, 0] > 0))
    ranks = np.argsort(np.argsort(RNG.standard_normal((120, 9)), axis=1), axis=1)
    model = StructuredPredictor(KernelRidge(), KINDS["rankings"].basis(ranks, 0), RankingDecoder())
    with pytest.raises(TypeError, match=r"RankingDecoder has no form in ONNX.*at most 7 items"):
        to_onnx(model.fit(X, ranks))
    parts = ["root", "leaves", "leaves and root", "root and leaves", "leaves and stems"]
    encoder = TableEncoder().fit({"parts": np.array(parts * 10, dtype=object), "x": np.arange(50)})
    assert encoder.kinds_["parts"] == "set"
    with pytest.raises(TypeError, match=r"SetColumn has no form in ONNX where 'and' stands"):
        add_part(OnnxGraph("float64"), encoder, "")
    smiles = {"mol": np.array(["CCO", "CCC", "CCN", "CCCl"] * 10, dtype=object)}
    encoder = TableEncoder(kinds={"mol": "smiles"}).fit(smiles)
    with pytest.raises(TypeError, match=r"MoleculeColumn has no form in ONNX: .* RDKit"):
        add_part(OnnxGraph("float64"), encoder, "")
