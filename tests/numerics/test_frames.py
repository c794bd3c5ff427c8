"""Data frames in and out: every public estimator, with pandas and polars; names and index."""

import functools
import io
import sys

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skout
from skout import (
    ConformalSets,
    Ensemble,
    InducedMachine,
    JointQuantileRegressor,
    KernelBasis,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
    Reranker,
    StructuredPredictor,
    TableEncoder,
    Tuned,
    TwoWay,
    iokr,
    sisokr,
)
from skout._numerics.objects import column_of
from skout.kernels import Gaussian, Laplacian, NGram, ProbabilityProduct, VertexHistogram
from skout.sketches import SubSample

pd = extra("pandas")
pl = extra("polars")
pa = extra("pyarrow")

N = 40
X = np.random.default_rng(0).standard_normal((N, 3))
NUMBERS = X @ np.array([[1.0, 0.5], [0.0, 1.0], [2.0, -1.0]])
LABELS = (NUMBERS > 0).astype(int)
WORDS = np.where(NUMBERS[:, 0] > 0, "yes", "no")
NAMES = ["a", "b", "c"]


def structured():
    return iokr("gaussian", "tanimoto", alpha=1e-3)


def network():
    deep = pytest.importorskip("skout.deep")
    return deep.NeuralRegressor(deep.MLP, training=deep.Training(2), random_state=0)


def both_trained():
    deep = pytest.importorskip("skout.deep")
    model = skout.dsokr(deep.MLP, "tanimoto", training=deep.Training(2), random_state=0)
    return skout.EndToEnd(model)


# every public estimator that predicts, its targets, and the names that these have
PREDICTORS = {
    "KernelRidge": (lambda: KernelRidge(alpha=1e-3), NUMBERS, ["u", "v"]),
    "KernelRidge of one": (lambda: KernelRidge(alpha=1e-3), NUMBERS[:, 0], ["u"]),
    "KernelMachine": (lambda: KernelMachine(alpha=1e-2), NUMBERS, ["u", "v"]),
    "InducedMachine": (lambda: InducedMachine(alpha=1e-2), NUMBERS, ["u", "v"]),
    "JointQuantileRegressor": (lambda: JointQuantileRegressor(0.5), NUMBERS[:, 0], ["u"]),
    "KernelClassifier": (lambda: KernelClassifier(loss="logistic"), WORDS, ["answer"]),
    "NeuralRegressor": (network, NUMBERS, ["u", "v"]),
    "StructuredPredictor": (structured, LABELS, ["p", "q"]),
    "sisokr": (lambda: sisokr("gaussian", "f1", random_state=0), LABELS, ["p", "q"]),
    "Ensemble": (lambda: Ensemble(structured(), 2, random_state=0), LABELS, ["p", "q"]),
    "TwoWay": (
        lambda: TwoWay(structured(), random_state=0),
        LABELS,
        ["p", "q"],
    ),
    "EndToEnd": (both_trained, LABELS, ["p", "q"]),
    "Reranker": (lambda: Reranker(structured(), random_state=0), LABELS, ["p", "q"]),
    "Tuned": (lambda: Tuned(budget="1 fit", random_state=0, cv=3), LABELS, ["p", "q"]),
    "Tuned of numbers": (lambda: Tuned(budget="1 fit", random_state=0, cv=3), NUMBERS, ["u", "v"]),
}
# those that are no predictors of rows of their own, and where they are tested
OTHERS = {"ConformalSets", "ConformalSelection", "KernelBasis", "TableEncoder", "CandidateSets"}
OTHERS |= {"SpectrumIdentifier", "TunedTargets", "memory_limits"}


def frames(library, targets, names):
    """X and targets as data frames; those of pandas have an index."""
    if library == "polars":
        X_frame = pl.DataFrame(X, schema=NAMES)
        is_column = targets.ndim == 1
        Y = pl.Series(names[0], targets) if is_column else pl.DataFrame(targets, schema=names)
        return X_frame, Y
    index = pd.Index([f"row {i}" for i in range(N)], name="key")
    X_frame = pd.DataFrame(X, columns=NAMES, index=index)
    if targets.ndim == 1:
        return X_frame, pd.Series(targets, name=names[0], index=index)
    return X_frame, pd.DataFrame(targets, columns=names, index=index)


def test_every_public_estimator_is_here():
    classes = {name for name in skout.__all__ if isinstance(getattr(skout, name), type)} - OTHERS
    assert classes <= set(PREDICTORS)


def check_wrong_columns(model, X_frame):
    """A column that is called otherwise, and one that is missing, are named."""
    renamed = {"a": "a", "b": "b", "c": "colour"}
    is_pandas = isinstance(X_frame, pd.DataFrame)
    other = X_frame.rename(columns=renamed) if is_pandas else X_frame.rename(renamed)
    with pytest.raises(ValueError, match=r"(?s)colour.*c|c.*colour"):
        model.predict(other)
    with pytest.raises(ValueError, match=r"\bc\b"):
        model.predict(X_frame[["a", "b"]])


@functools.cache
def answers(name):
    """What an estimator says of arrays."""
    make, targets, _ = PREDICTORS[name]
    return make().fit(X, targets).predict(X[:5])


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("name", PREDICTORS)
def test_frames_in_and_out(name, library):
    make, targets, names = PREDICTORS[name]
    expected = answers(name)
    X_frame, Y = frames(library, targets, names)
    model = make().fit(X_frame, Y)
    check_wrong_columns(model, X_frame)
    assert_array_equal(model.feature_names_in_, NAMES)
    plain = model.predict(X_frame[:5])
    assert not hasattr(plain, "columns")  # frames come back where they are asked for
    model.set_output(predict=library)
    found = model.predict(X_frame[:5])
    assert type(found) is (pd if library == "pandas" else pl).DataFrame
    assert list(found.columns) == names
    if library == "pandas":
        assert found.index.equals(X_frame.index[:5])
    values = found.to_numpy()
    if targets.dtype.kind == "f":
        assert_allclose(values, np.reshape(expected, values.shape), atol=1e-6)
    else:
        assert_array_equal(values, np.reshape(expected, values.shape))
    assert np.isfinite(model.score(X_frame, Y))  # which works with arrays inside
    again = clone(model).fit(X_frame, Y).predict(X_frame[:5])
    assert type(again) is type(found)
    assert not hasattr(model.set_output(predict="default").predict(X_frame[:5]), "columns")


@pytest.mark.parametrize("name", ["KernelRidge", "StructuredPredictor", "Tuned"])
def test_targets_without_names(name):
    make, targets, _ = PREDICTORS[name]
    frame, Y = frames("pandas", targets, ["one", "two"])
    model = make().fit(X, targets).set_output(predict="pandas")
    assert list(model.predict(X[:3]).columns) == ["y0", "y1"]
    assert list(model.fit(frame, Y).predict(frame).columns) == ["one", "two"]
    assert list(model.fit(frame, targets).predict(frame).columns) == ["y0", "y1"]  # of the last fit


def test_intervals_probabilities_and_levels():
    X_frame, u = frames("pandas", NUMBERS[:, 0], ["u"])
    model = JointQuantileRegressor((0.1, 0.9)).fit(X_frame, u).set_output(predict="pandas")
    assert list(model.predict(X_frame).columns) == ["u: 0.1", "u: 0.9"]
    low, high = model.predict_interval(X_frame, 0.8)
    assert list(low.columns) == list(high.columns) == ["u"]
    assert low.index.equals(X_frame.index)
    _, answers = frames("pandas", WORDS, ["answer"])
    sure = KernelClassifier(loss="logistic").fit(X_frame, answers).set_output(predict="pandas")
    shares = sure.predict_proba(X_frame)
    assert list(shares.columns) == ["no", "yes"]
    assert_allclose(shares.sum(axis=1), 1.0)


@pytest.mark.parametrize("name", ["StructuredPredictor", "Ensemble", "TwoWay", "Reranker", "Tuned"])
def test_ranks_are_one_row_a_candidate(name):
    make, targets, names = PREDICTORS[name]
    X_frame, Y = frames("pandas", targets, names)
    model = make().fit(X_frame, Y)
    indices, scores = model.rank(X_frame[:4], k=3)
    found = model.set_output(predict="pandas").rank(X_frame[:4], k=3)
    assert list(found.columns) == ["rank", "position", "candidate: p", "candidate: q", "score"]
    assert list(found.index) == [key for key in X_frame.index[:4] for _ in range(3)]
    assert_array_equal(found["position"].to_numpy().reshape(4, 3), indices)
    first = found[found["rank"] == 1][["candidate: p", "candidate: q"]].to_numpy()
    model.set_output(predict="default")
    pool = model.candidates_ if name == "Tuned" else model.embed(None)
    pool = getattr(pool, "parts", [pool])[0]
    assert_array_equal(first, np.asarray(getattr(pool, "pool", pool))[indices[:, 0]])
    assert_array_equal(found["score"].to_numpy().reshape(4, 3), scores)
    assert_array_equal(found["rank"].to_numpy().reshape(4, 3), np.tile([1, 2, 3], (4, 1)))
    long = model.set_output(predict="polars").rank(pl.DataFrame(X[:4], schema=NAMES), k=3)
    assert long.columns == ["row", "rank", "position", "candidate: p", "candidate: q", "score"]
    assert_array_equal(long["row"].to_numpy(), np.repeat(np.arange(4), 3))


def test_ranks_of_short_sets_have_no_padding():
    kind = pl.DataFrame
    model = structured().fit(X, LABELS).set_output(predict="polars")
    sets = [[[0, 1]], [[0, 1], [1, 0], [1, 1]]]
    found = model.rank(X[:2], [np.array(one) for one in sets], k=3)
    assert isinstance(found, kind)
    assert found["row"].to_list() == [0, 1, 1, 1]
    assert found["rank"].to_list() == [1, 1, 2, 3]
    for row, position, *labels in found.drop("rank", "score").iter_rows():
        assert labels == sets[row][position]


def test_prediction_sets_are_one_row_a_member():
    X_frame, Y = frames("pandas", LABELS, ["p", "q"])
    model = structured().fit(X_frame[:20], Y[:20])
    sets = ConformalSets(model).calibrate(X_frame[20:], Y[20:])
    expected = sets.predict(X_frame[:5], coverage=0.95)
    found = sets.set_output(predict="pandas").predict(X_frame[:5], coverage=0.95)
    labels = ["candidate: p", "candidate: q"]
    assert list(found.columns) == ["rank", "position", *labels]
    for i, key in enumerate(X_frame.index[:5]):
        assert_array_equal(found.loc[[key], "position"], expected.positions(i))
        assert_array_equal(found.loc[[key], labels], expected[i])
        assert list(found.loc[[key], "rank"]) == list(range(1, expected.sizes[i] + 1))
    assert np.isfinite(sets.evaluate(X_frame[20:], Y[20:])["coverage"])


def test_strings_are_a_column_of_texts():
    kind = pd.DataFrame
    texts = ["banana" if y else "orange" for y in NUMBERS[:, 0] > 0]
    model = iokr("gaussian", "ngram", alpha=1e-3).fit(X, texts).set_output(predict="pandas")
    found = model.predict(X[:4])
    assert isinstance(found, kind)
    assert found["y"].tolist() == texts[:4]
    pool = ["banana", "orange", "plum"]
    for candidates in (None, pool, [pool, pool[:2], pool, pool], model.embed(pool)):
        ranked = model.rank(X[:4], candidates, k=2)
        assert list(ranked.columns) == ["rank", "position", "candidate", "score"]
        assert ranked.loc[ranked["rank"] == 1, "candidate"].tolist() == texts[:4]
    long = model.set_output(predict="polars").rank(X[:4], candidates=pool, k=1)
    assert long["candidate"].to_list() == texts[:4]


def test_candidates_that_are_no_table_are_positions():
    assert pl.DataFrame
    Y = sparse.csr_matrix(LABELS)
    model = iokr("gaussian", "tanimoto", alpha=1e-3).fit(X, Y).set_output(predict="polars")
    assert model.rank(X[:2], k=1).columns[2:] == [
        "position",
        "candidate: 0",
        "candidate: 1",
        "score",
    ]
    bits = skout.kernels.PackedBits((LABELS @ [1, 2]).astype(np.uint64)[:, None], 2)
    model = iokr("gaussian", "tanimoto", alpha=1e-3).fit(X, bits).set_output(predict="polars")
    assert model.rank(X[:2], k=1).columns == ["row", "rank", "position", "score"]


def test_models_that_build_objects_say_so():
    assert pd.DataFrame
    model = iokr("gaussian", "linear", decoder="label_sets").fit(X, LABELS)
    with pytest.raises(TypeError, match="has no method rank"):
        model.set_output(predict="pandas").rank(X[:2])


def test_files_keep_names_and_containers(tmp_path):
    X_frame, Y = frames("pandas", NUMBERS, ["u", "v"])
    model = KernelRidge(alpha=1e-3).fit(X_frame, Y).set_output(predict="pandas")
    skout.save(model, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout")
    pd.testing.assert_frame_equal(again.predict(X_frame), model.predict(X_frame))


def test_at_the_end_of_a_pipeline():
    X_frame, Y = frames("pandas", NUMBERS, ["u", "v"])
    model = make_pipeline(StandardScaler(), KernelRidge(alpha=1e-3))
    model.set_output(transform="pandas")
    model[-1].set_output(predict="pandas")
    found = model.fit(X_frame, Y).predict(X_frame)
    assert list(found.columns) == ["u", "v"]
    assert found.index.equals(X_frame.index)


def test_a_part_that_gives_frames_is_of_use_inside():
    ridge = KernelRidge(alpha=1e-3).set_output(predict="pandas")
    model = StructuredPredictor(ridge, "tanimoto").fit(X, LABELS)
    assert_array_equal(model.predict(X[:5]), structured().fit(X, LABELS).predict(X[:5]))


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("make", [lambda: KernelBasis("gaussian"), TableEncoder])
def test_transformers_have_scikit_learns(make, library):
    X_frame, _ = frames(library, NUMBERS, ["u", "v"])
    model = make().fit(X_frame).set_output(transform=library)
    found = model.transform(X_frame)
    assert type(found) is type(X_frame)
    assert list(found.columns) == list(model.get_feature_names_out())
    assert_allclose(found.to_numpy(), make().fit(X_frame).transform(X_frame))
    if library == "pandas":
        assert found.index.equals(X_frame.index)
    assert_array_equal(model.feature_names_in_, NAMES)
    renamed = {"a": "a", "b": "b", "c": "colour"}
    other = X_frame.rename(columns=renamed) if library == "pandas" else X_frame.rename(renamed)
    with pytest.raises(ValueError, match=r"(?s)colour.*c|c.*colour"):
        model.transform(other)


def test_mistakes_of_set_output():
    with pytest.raises(ValueError, match=r"predict must be one of .*'pandas'.*Got 'panda'"):
        KernelRidge().set_output(predict="panda")
    assert not hasattr(skout.kernels.Gaussian(), "set_output")  # predicts nothing


def test_tables_of_pyarrow():
    table = pa.table({name: X[:, j] for j, name in enumerate(NAMES)})
    model = Tuned(budget="1 fit", random_state=0, cv=3).fit(table, NUMBERS)
    same = Tuned(budget="1 fit", random_state=0, cv=3).fit(X, NUMBERS)
    assert_allclose(model.predict(table), same.predict(X))
    shuffled = table.select(["c", "a", "b"])  # columns go by their names
    assert_allclose(model.predict(shuffled), same.predict(X))


def test_a_library_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    model = PREDICTORS["KernelRidge"][0]().fit(X, NUMBERS).set_output(predict="polars")
    with pytest.raises(ImportError, match=r"needs polars: pip install polars"):
        model.predict(X)


# Columns of objects -------------------------------------------------------------------------------

SMILES = ["CCO", "CCN", "CCCC", "OCCO", "CCCl", "CC#N"] * 5
COLUMNS = {
    "pandas series": lambda words: pd.Series(words, index=range(7, 7 + len(words))),
    "pandas frame": lambda words: pd.DataFrame({"smiles": words}),
    "pandas category": lambda words: pd.Series(words, dtype="category"),
    "polars series": lambda words: pl.Series(words),
    "polars frame": lambda words: pl.DataFrame({"smiles": words}),
    "arrow array": lambda words: pa.array(words),
    "arrow dictionary": lambda words: pa.array(words).dictionary_encode(),
    "arrow column": lambda words: pa.chunked_array([words[:4], words[4:]]),
    "arrow table": lambda words: pa.table({"smiles": words}),
    "HDF5": lambda words: _in_hdf5(words),
    "zarr": lambda words: extra("zarr").array(np.array(words), zarr_format=2),
}


def _in_hdf5(words):
    file = extra("h5py").File(io.BytesIO(), "w")
    return file.create_dataset("words", data=words).asstr()


@pytest.mark.parametrize("kernel", [NGram(2), VertexHistogram()], ids=["strings", "graphs"])
@pytest.mark.parametrize("container", COLUMNS)
def test_a_column_of_objects_is_a_list_of_them(container, kernel):
    """As inputs, outputs and candidates."""
    if isinstance(kernel, VertexHistogram):
        extra("rdkit.Chem").MolFromSmiles("C")
    X = np.random.default_rng(0).standard_normal((len(SMILES), 3))
    column, few = COLUMNS[container](SMILES), COLUMNS[container](SMILES[:4])
    ridge = KernelRidge(kernel, SubSample(4), random_state=0)
    expected = clone(ridge).fit(SMILES, X).predict(SMILES[:4])
    assert_allclose(ridge.fit(column, X).predict(few), expected, atol=1e-12)
    model = iokr(Gaussian(0.5), kernel)
    known = clone(model).fit(X, SMILES)
    model.fit(X, column)
    assert list(model.predict(X)) == list(known.predict(X))
    assert list(model.predict(X, few)) == list(known.predict(X, SMILES[:4]))
    assert_array_equal(model.rank(X, few, k=3)[0], known.rank(X, SMILES[:4], k=3)[0])
    assert model.score(X, column) == known.score(X, SMILES)
    sets = [few] * len(X)
    assert list(model.predict(X, sets)) == list(known.predict(X, SMILES[:4]))


SET_COLUMNS = {
    "pandas": lambda sets: pd.Series(sets, index=range(3, 3 + len(sets))),
    "polars": lambda sets: pl.Series(sets),
    "arrow": lambda sets: pa.array(sets),
    "array": lambda sets: np.array([*sets, None], dtype=object)[:-1],
}


@pytest.mark.parametrize("kind", SET_COLUMNS)
def test_a_column_of_lists_is_a_set_for_each_row(kind):
    X = np.random.default_rng(0).standard_normal((len(SMILES), 3))
    sets = [SMILES[: 1 + i % 4] for i in range(len(X))]
    model = iokr(Gaussian(0.5), NGram(2)).fit(X, SMILES)
    column = SET_COLUMNS[kind](sets)
    assert list(model.predict(X, column)) == list(model.predict(X, sets))
    assert_array_equal(model.rank(X, column, k=6)[0], model.rank(X, sets, k=6)[0])


@pytest.mark.parametrize("kernel", [NGram(2), ProbabilityProduct()], ids=["strings", "spectra"])
def test_encoded_rows_are_no_frame(kernel):
    """They may have columns of their own."""
    objects = SMILES if isinstance(kernel, NGram) else [([10.0, 20.0], [1.0, 2.0], 30.0)] * 3
    rows = kernel.encode(objects)
    assert column_of(rows) is rows


@pytest.mark.parametrize("kind", ["float64", "Float64", "object"])
def test_a_column_of_numbers_stays_a_matrix(kind):
    values = np.arange(20.0)
    frame = pd.DataFrame({"a": values}).astype(kind)
    model = iokr(Gaussian(0.5), "linear").fit(values[:, None], frame)
    assert model.predict(values[:, None]).shape == (20, 1)


def test_arrow_tables_of_numbers_for_a_function_as_kernel():
    X = np.random.default_rng(0).standard_normal((30, 3))
    table = pa.table({f"x{j}": X[:, j] for j in range(3)})
    model = KernelRidge(lambda A, B: (1.0 + A @ B.T) ** 2, SubSample(8), random_state=0)
    expected = clone(model).fit(X, X[:, 0]).predict(X)
    assert_allclose(model.fit(table, X[:, 0]).predict(table), expected, atol=1e-10)


@pytest.mark.parametrize("kind", ["None", "NaN", "NA"])
def test_a_missing_label_is_said(kind):
    missing = {"None": None, "NaN": np.nan, "NA": pd.NA}[kind]
    labels = pd.Series(["a", "b", missing, "a"], dtype=object)
    with pytest.raises(ValueError, match="y has no label in row 2: leave out rows"):
        KernelClassifier(Gaussian(1.0)).fit(np.eye(4), labels)


# Tensors and sparse matrices of other kinds -------------------------------------------------------


@pytest.mark.parametrize("kind", ["with gradient", "bfloat16"])
def test_tensors_that_numpy_does_not_take(kind):
    torch = extra("torch")
    X = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    T = torch.tensor(X, requires_grad=True)
    if kind == "bfloat16":
        T = T.detach().bfloat16()
        X = T.float().numpy()  # as rounded
    model = KernelRidge(Gaussian(0.5), SubSample(10), random_state=0)
    expected = clone(model).fit(X, X[:, 0]).predict(X)
    assert_allclose(model.fit(T, T[:, 0]).predict(T), expected, atol=1e-6)


@pytest.mark.parametrize("kernel", ["laplacian", Laplacian("median"), "gaussian", "tanimoto"])
def test_sparse_rows_with_long_indices(kernel):
    X = sparse.random(40, 6, 0.3, "csr", random_state=0)
    wide = X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    model = KernelRidge(kernel, SubSample(10), random_state=0)
    y = np.arange(40.0)
    expected = clone(model).fit(X, y).predict(X)
    assert_array_equal(model.fit(wide, y).predict(wide), expected)
