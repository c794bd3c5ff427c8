"""ONNX graphs against the models that they were made of, run by onnxruntime."""

import sys

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import skout
from skout import KernelRidge, iokr, kernels
from skout.persistence import onnx as hook

onnx, runtime = extra("onnx"), extra("onnxruntime")

N = 60
X = np.random.default_rng(0).standard_normal((N, 4))
X[0] = X[50] = 0.0  # a row without a direction
Y = X @ np.array([[1.0, 0.5], [0.0, 1.0], [2.0, -1.0], [0.3, 0.0]]) + 0.1 * X[:, :2] ** 2
NEW = np.vstack([X[:5], np.random.default_rng(1).standard_normal((20, 4)), np.zeros((1, 4))])
KERNELS = {
    "linear": "linear",
    "polynomial": kernels.Polynomial(2, 0.3, 1.5),
    "gaussian": "gaussian",
    "gaussian by the median": kernels.Gaussian("median"),
    "laplacian": "laplacian",
    **{f"matern {nu}": kernels.Matern(nu=nu) for nu in (0.5, 1.5, 2.5)},
    "cosine": "cosine",
    "sum": kernels.Gaussian(0.1) + 2.0 * kernels.Linear(),
    "product": kernels.OnColumns("gaussian", 0, 2) * kernels.OnColumns("laplacian", 2, None),
    "mahalanobis": kernels.Mahalanobis(kernels.Gaussian(0.3), [1.0, 2.0, 0.0, 0.5]),
    "learnt": kernels.LearnedMetric(rounds=1),
}


def to_onnx(*args, **params):
    """Return a graph, where onnx is installed."""
    assert onnx.helper
    return hook.to_onnx(*args, **params)


def run(graph, rows):
    """Return the outputs of a graph, by their names."""
    session = runtime.InferenceSession(graph.SerializeToString())
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": rows}), strict=True))


@pytest.mark.parametrize("sketch", [None, "subsample", "p_sparsified"])
@pytest.mark.parametrize("name", KERNELS)
def test_ridge_predicts_the_same(name, sketch):
    if sketch is not None:
        sketch = skout.sketches.as_sketch(sketch).set_params(size=15)
    model = KernelRidge(KERNELS[name], sketch, alpha=1e-2, random_state=0).fit(X, Y)
    found = run(to_onnx(model), NEW)["prediction"]
    expected = model.predict(NEW)
    assert found.dtype == np.float64
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    single = run(to_onnx(model, dtype="float32"), NEW.astype(np.float32))["prediction"]
    assert single.dtype == np.float32
    assert_allclose(single, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("intercept", [True, False])
def test_one_output_and_an_intercept(intercept, tmp_path):
    model = KernelRidge("gaussian", alpha=1e-3, fit_intercept=intercept).fit(X, Y[:, 0] + 7.0)
    graph = to_onnx(model, tmp_path / "model.onnx")
    onnx.checker.check_model(graph, full_check=True)
    assert onnx.load(tmp_path / "model.onnx") == graph
    found = run(graph, NEW)["prediction"]
    assert found.shape == (len(NEW),)
    assert_allclose(found, model.predict(NEW), rtol=1e-9)
    assert run(graph, NEW[:1])["prediction"].shape == (1,)


def test_rows_that_were_sparse_or_single_in_fit():
    for rows in (sparse.csr_matrix(X), X.astype(np.float32)):
        model = KernelRidge("gaussian", alpha=1e-2).fit(rows, Y)
        assert_allclose(run(to_onnx(model), NEW)["prediction"], model.predict(NEW), atol=1e-5)


def test_a_task_matrix():
    model = KernelRidge(alpha=1e-2, task_matrix=[[1.0, 0.5], [0.5, 1.0]]).fit(X, Y)
    assert_allclose(run(to_onnx(model), NEW)["prediction"], model.predict(NEW), rtol=1e-9)


def test_sums_that_cancel_are_refused_and_those_that_may_be_told():
    """A cubic kernel of columns about 1,000 has values of 1e19: the graph was 4.3 off."""
    y = np.sin(X[:, 0])
    cubic = KernelRidge(kernels.Polynomial(3), alpha=1e-3)
    below = "alpha is below the rounding error"
    with pytest.warns(UserWarning, match=below):
        model = cubic.fit(X + 1000.0, y)
    with pytest.warns(UserWarning, match=below):
        predictor = iokr(kernels.Polynomial(3), "linear").fit(X + 1000.0, Y)
    with pytest.raises(ValueError, match=r"sums of numbers that cancel: in float64 .* Scale the"):
        to_onnx(model)
    with pytest.raises(ValueError, match="sums of numbers that cancel"):
        to_onnx(predictor)
    model = cubic.fit(X + 10.0, y)
    with pytest.warns(UserWarning, match="sums of numbers that cancel"):
        graph = to_onnx(model)
    error = np.abs(run(graph, NEW + 10.0)["prediction"] - model.predict(NEW + 10.0)).max()
    assert 1e-9 < error < 1e-5
    with pytest.raises(ValueError, match='or give dtype="float64"'):
        to_onnx(model, dtype="float32")
    model = KernelRidge("gaussian", alpha=1e-3).fit(X + 1000.0, y)  # of distances: no word
    found = run(to_onnx(model), NEW + 1000.0)["prediction"]
    assert_allclose(found, model.predict(NEW + 1000.0), atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_graphs_without_a_warning_are_right_to_1e_9(seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((80, 3)) + rng.choice([0.0, 1.0, 5.0])
    kernel = [kernels.Polynomial(2), kernels.Linear(), kernels.Gaussian(0.01), "matern"][seed % 4]
    y = np.sin(rows[:, 0])
    model = KernelRidge(kernel, alpha=10.0 ** rng.uniform(-4, -2)).fit(rows, y)
    found = run(to_onnx(model), rows)["prediction"]  # warnings are errors
    assert_allclose(found, model.predict(rows), rtol=0, atol=3e-9 * np.abs(y).max())


def label_sets():
    return (Y > 0).astype(int)


def words():
    return [["short", "longer", "longest", "a word"][j] for j in np.digitize(Y[:, 0], [-1, 0, 1])]


POOLS = {
    "label sets": (label_sets, "tanimoto", None),
    "copies": (label_sets, "tanimoto", np.array([[1, 1], [0, 0], [1, 1], [1, 0], [0, 1]])),
    "texts": (words, "ngram", None),
    "other texts": (words, "ngram", ["short", "word", "long", "étrange"]),
    "vectors": (lambda: Y, "gaussian", Y[:30]),
}


@pytest.mark.parametrize("decoder", ["candidates", "loss"])
@pytest.mark.parametrize("name", POOLS)
def test_search_ranks_the_same(name, decoder):
    outputs, kernel, candidates = POOLS[name]
    if decoder == "loss":
        decoder = skout.decoding.LossDecoder(lambda a, b: float(np.any(np.asarray(a) != b)))
    model = iokr("gaussian", kernel, alpha=1e-2, decoder=decoder).fit(X, outputs())
    pool = model.decoder_.pool_ if candidates is None else candidates
    k = min(4, len(pool))
    indices, scores = model.rank(NEW, candidates, k=k)
    found = run(to_onnx(model, candidates=candidates, k=k), NEW)
    assert_allclose(found["scores"], scores, atol=1e-9)
    assert_array_equal(found["positions"], indices)
    objects = np.asarray(pool, dtype=object if isinstance(pool, list) else None)
    assert_array_equal(found["candidates"], objects[indices])


def test_a_pool_that_is_embedded_and_few_candidates():
    model = iokr("gaussian", "tanimoto", alpha=1e-2).fit(X, label_sets())
    pool = model.embed(label_sets()[:3])
    found = run(to_onnx(model, candidates=pool), NEW)
    assert_array_equal(found["positions"], model.rank(NEW, pool, k=3)[0])


def test_objects_that_onnx_has_no_values_for_are_positions():
    model = iokr("gaussian", "tanimoto", alpha=1e-2).fit(X, sparse.csr_matrix(label_sets()))
    found = run(to_onnx(model, k=2), NEW)
    assert list(found) == ["positions", "scores"]
    assert_array_equal(found["positions"], model.rank(NEW, k=2)[0])


def test_a_loaded_model(tmp_path):
    model = iokr("gaussian", "tanimoto", alpha=1e-2).fit(X, label_sets())
    skout.save(model, tmp_path / "model.skout")
    graph = to_onnx(skout.load(tmp_path / "model.skout"), k=2)
    assert_array_equal(run(graph, NEW)["positions"], model.rank(NEW, k=2)[0])


def test_mistakes_are_named():
    labels = label_sets()
    with pytest.raises(TypeError, match=r"Tanimoto has no form in ONNX\. Those that have: Cosine"):
        to_onnx(KernelRidge("tanimoto").fit(labels, Y))
    with pytest.raises(TypeError, match="KernelMachine has no form in ONNX"):
        to_onnx(skout.KernelMachine(alpha=0.1).fit(X, Y))
    bits = kernels.PackedBits((labels @ [1, 2]).astype(np.uint64)[:, None], 2)
    with pytest.raises(TypeError, match=r"take dense rows of numbers, .* fitted on PackedBits"):
        to_onnx(KernelRidge("cosine").fit(bits, Y))
    model = iokr("gaussian", "tanimoto", alpha=1e-2).fit(X, labels)
    with pytest.raises(TypeError, match="one pool for all rows"):
        to_onnx(model, candidates=[labels[:2]] * 3)
    fair = skout.correct_hubness(model, X, labels, cv=2, random_state=0)
    with pytest.raises(TypeError, match="Hubness penalties"):
        to_onnx(model, candidates=fair)
    with pytest.raises(TypeError, match="LabelSetDecoder has no form in ONNX"):
        to_onnx(iokr("gaussian", "linear", decoder="label_sets").fit(X, labels))
    with pytest.raises(ValueError, match="dtype must be one of 'float64', 'float32'"):
        to_onnx(model, dtype="float16")
    with pytest.raises(ValueError, match="k must be"):
        to_onnx(model, k=0)


def test_a_graph_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr("skout.persistence.onnx.graph._MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="the most that an ONNX file can have"):
        to_onnx(KernelRidge().fit(X, Y))


def test_a_library_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'need onnx: pip install "skout\[onnx\]'):
        hook.to_onnx(KernelRidge().fit(X, Y))
