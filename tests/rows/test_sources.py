"""Blocks of rows, parquet files, CSR files: the same results as in memory, however they are cut."""

import itertools
import sys

import numpy as np
import pytest
from extras import extra
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold

import skout
from skout import (
    JointQuantileRegressor,
    KernelBasis,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
    StructuredPredictor,
    iokr,
    sisokr,
)
from skout.decoding import base as outputs_module
from skout.decoding.base import Distinct
from skout.kernels import Gaussian, NGram
from skout.rows import blocks, encoded, source
from skout.rows.stream import Column, Reservoir, Stream
from skout.sketches import PivotedCholesky, PSparsified, SubSample
from skout.solvers.design import coordinates_of
from skout.sources import Blocks, open_csr, open_parquet, save_csr

pa = extra("pyarrow")
pd = extra("pandas")
pq = extra("pyarrow.parquet")

RNG = np.random.default_rng(0)
N, D = 900, 4
X = RNG.standard_normal((N, D))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]])
W = RNG.random(N)
LABELS = (X @ RNG.standard_normal((D, 6)) + 0.2 * RNG.standard_normal((N, 6)) > 0).astype(float)
WORDS = ["".join(RNG.choice(list("abc"), 4)) for _ in range(N)]
SKETCHES = [SubSample(40), PSparsified(40), PivotedCholesky(40)]
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture(autouse=True)
def _small_blocks():
    with skout.memory_limits(block_rows=100):
        yield


def cut(*columns, seed=0, n_cuts=25, n=None):
    """Cut columns at random places; some blocks are empty."""
    ends = np.sort(np.random.default_rng(seed).integers(0, N, n_cuts))
    starts = [0, 0, *ends, N]
    pairs = [*itertools.pairwise(starts), (N, N)]

    def make():
        for a, b in pairs:
            yield tuple(column[a:b] for column in columns)

    return Blocks(make, n)


def ridge(sketch=None, **options):
    options = {"alpha": 1e-4, "random_state": 0} | options
    return KernelRidge(Gaussian("scale"), sketch or SubSample(40), **options)


# Blocks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", SKETCHES, ids=str)
@pytest.mark.parametrize("alpha", [1e-4, [1e-5, 1e-3, 1e-1]], ids=["alpha", "path"])
@pytest.mark.parametrize("n", [None, N])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
def test_ridge(sketch, alpha, n, weights):
    model = ridge(sketch, alpha=alpha, fit_intercept=True)
    expected = clone(model).fit(X, Y, weights)
    columns = (X, Y) if weights is None else (X, Y, W)
    for seed in range(2):
        found = clone(model).fit(cut(*columns, seed=seed, n=n))
        assert found.alpha_ == expected.alpha_
        np.testing.assert_allclose(found.predict(X), expected.predict(X), **CLOSE)


@given(seed=st.integers(0, 2**32), n_cuts=st.integers(0, 60))
def test_cuts_do_not_matter(seed, n_cuts):
    found = ridge(SubSample(20)).fit(cut(X, Y, seed=seed, n_cuts=n_cuts))
    np.testing.assert_array_equal(found.coef_, ridge(SubSample(20)).fit(cut(X, Y)).coef_)


def pool_of(made, size=0):
    """The rows that a first pass samples, where their number is not known."""
    rows, _, _ = made.open(0, size)
    return rows.pool[0].load()


def test_a_sample_of_the_rows_stands_for_them(monkeypatch):
    """With more rows than are sampled, it is a fit with these as landmarks."""
    monkeypatch.setattr(blocks, "_POOL_ROWS", 200)
    pool = pool_of(cut(X, Y))
    assert pool.shape == (200, D)
    found = ridge().fit(cut(X, Y, seed=1))
    expected = ridge().fit(X, Y, landmarks=pool)
    np.testing.assert_allclose(found.coef_, expected.coef_, **CLOSE)
    streamed = ridge().partial_fit(X[:300], Y[:300], landmarks=pool).partial_fit(X[300:], Y[300:])
    np.testing.assert_allclose(found.predict(X), streamed.predict(X), **CLOSE)
    assert pool_of(cut(X, Y), 300).shape == (300, D)
    other = ridge(random_state=1).fit(cut(X, Y))
    assert np.abs(other.landmarks_.sum() - found.landmarks_.sum()) > 1e-3


def test_exact_and_single_output():
    found = KernelRidge("gaussian", alpha=1e-2).fit(cut(X, Y[:, 0]))
    expected = KernelRidge("gaussian", alpha=1e-2).fit(X, Y[:, 0])
    assert found.predict(X).shape == (N,)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), **CLOSE)


def test_shuffled_folds():
    cv = KFold(3, shuffle=True, random_state=0)
    model = ridge(alpha=[1e-4, 1e-2], cv=cv)
    found, expected = clone(model).fit(cut(X, Y)), model.fit(X, Y)
    np.testing.assert_allclose(
        found.cv_results_["fold_loss"], expected.cv_results_["fold_loss"], **CLOSE
    )


def test_blocks_of_sparse_rows_and_lists():
    S = sparse.random(N, 30, density=0.2, random_state=0, format="csr")
    expected = ridge().fit(S, Y)
    np.testing.assert_allclose(ridge().fit(cut(S, Y)).predict(S), expected.predict(S), **CLOSE)
    parts = [(X[:500].tolist(), Y[:500].tolist()), (X[500:].tolist(), Y[500:].tolist())]
    expected = ridge().fit(X, Y).predict(X)
    np.testing.assert_allclose(ridge().fit(Blocks(parts)).predict(X), expected, **CLOSE)


def test_blocks_of_frames():
    expected = ridge().fit(X, Y).predict(X)
    frames = [(pd.DataFrame(X[:500]), pd.DataFrame(Y[:500])), (X[500:], Y[500:])]
    np.testing.assert_allclose(ridge().fit(Blocks(frames)).predict(X), expected, **CLOSE)


def test_blocks_that_can_be_read_once():
    made = list(cut(X, Y))
    expected = ridge().fit(X, Y).predict(X)
    found = ridge().fit(Blocks(iter(made)), landmarks=X)
    np.testing.assert_allclose(found.predict(X), expected, **CLOSE)
    weighted = ridge().fit(Blocks(iter(cut(X, Y, W))), landmarks=X)
    direct = ridge().fit(X, Y, W, landmarks=X)
    np.testing.assert_allclose(weighted.predict(X), direct.predict(X), **CLOSE)
    path = ridge(alpha=[1e-5, 1e-2]).fit(Blocks(iter(made)), landmarks=X)
    assert path.cv_results_["fold_loss"].shape == (5, 2)
    for landmarks in (None, X):
        with pytest.raises(ValueError, match="0 sample"):
            ridge().fit(Blocks(iter([])), landmarks=landmarks)


@pytest.mark.parametrize("n", [None, N])
@pytest.mark.parametrize("stored", [2048.0, 0.01], ids=["held", "filed"])
@pytest.mark.parametrize(
    "model",
    [
        ridge(alpha=[1e-5, 1e-3], fit_intercept=True),
        KernelMachine("gaussian", SubSample(9), loss="huber", random_state=0),
        KernelRidge("gaussian", alpha=1e-2),
    ],
    ids=["ridge", "machine", "exact"],
)
def test_blocks_that_can_be_read_once_are_kept(model, stored, n):
    """Where a fit needs more than one pass; beyond a limit in files."""
    expected = clone(model).fit(X, Y, W).predict(X)
    with skout.memory_limits(block_rows=100, coordinates_mb=stored):
        found = clone(model).fit(Blocks(iter(list(cut(X, Y, W))), n))
    np.testing.assert_allclose(found.predict(X), expected, **CLOSE)


@pytest.mark.parametrize("limit", [2**31, 20_000])
def test_what_is_kept_is_the_same_in_each_pass(monkeypatch, tmp_path, limit):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    S = sparse.csr_matrix(X)
    with skout.memory_limits(coordinates_mb=limit / 2**20):
        kept = Blocks(iter(cut(X, WORDS, W))).reread()
        spread = Blocks(iter(cut(S, Y))).reread()
    assert not kept.is_once
    assert bool(list(tmp_path.iterdir())) == (limit < 2**31)
    for _ in range(2):
        x, words, w = (list(column) for column in zip(*kept, strict=True))
        np.testing.assert_array_equal(np.concatenate(x), X)
        np.testing.assert_array_equal(np.concatenate(w), W)
        assert list(itertools.chain(*words)) == WORDS
        rows, targets = (list(column) for column in zip(*spread, strict=True))
        np.testing.assert_array_equal(sparse.vstack(rows).toarray(), X)
        np.testing.assert_array_equal(np.concatenate(targets), Y)
    del kept, spread
    assert list(tmp_path.iterdir()) == []  # the files are gone with the blocks


@pytest.mark.parametrize("alpha", [1e-3, [1e-3, 1e-1]], ids=["alpha", "path"])
@pytest.mark.parametrize("n", [None, N])
@pytest.mark.parametrize("stored", [2048.0, 0.01], ids=["held", "filed"])
def test_machine(alpha, n, stored):
    model = KernelMachine(
        Gaussian("scale"), SubSample(30), loss="huber", alpha=alpha, cv=2, random_state=0
    )
    weights = W * (W > 0.3)
    expected = clone(model).fit(X, Y, weights)
    with skout.memory_limits(block_rows=100, coordinates_mb=stored):
        found = clone(model).fit(cut(X, Y, weights, n=n))
    np.testing.assert_allclose(found.predict(X), expected.predict(X), **CLOSE)


def test_coordinates_of_blocks_go_to_a_file():
    model = KernelMachine("gaussian", SubSample(30), random_state=0).fit(X, Y)
    basis = model.basis_
    rows = encoded(basis, basis.kernel_, cut(X, Y).open(0)[0], reset=False)
    with skout.memory_limits(block_rows=100, coordinates_mb=0.01):
        filed = coordinates_of(model.basis_.engine_, rows, dtype=None)
        assert isinstance(filed.Z.load(), np.memmap)
        some = filed.take(np.arange(0, N, 3))
    Z = basis.transform(X)
    B, G = RNG.standard_normal((30, 2)), RNG.standard_normal((300, 2))
    np.testing.assert_allclose(filed.product(B), Z @ B, **CLOSE)
    np.testing.assert_allclose(some.product(B), Z[::3] @ B, **CLOSE)
    np.testing.assert_allclose(some.adjoint(G), Z[::3].T @ G, **CLOSE)


@pytest.mark.parametrize("once", [False, True], ids=["again", "once"])
@pytest.mark.parametrize("n", [None, N])
def test_classifier_quantiles_and_basis(n, once):
    def made(*columns):
        found = cut(*columns, n=n)
        return Blocks(iter(list(found)), n) if once else found

    labels = np.array(["no", "yes", "perhaps"])[(Y > 0.0).sum(axis=1)]
    for y in (labels, labels.tolist()):
        model = KernelClassifier("gaussian", SubSample(20), loss="logistic", random_state=0)
        expected = clone(model).fit(X, labels, W)
        found = model.fit(made(X, y, W))
        np.testing.assert_array_equal(found.predict(X), expected.predict(X))
        np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), **CLOSE)
    model = JointQuantileRegressor([0.1, 0.9], "gaussian", SubSample(20), random_state=0)
    expected = clone(model).fit(X, Y[:, 0]).predict(X)
    np.testing.assert_allclose(model.fit(made(X, Y[:, 0])).predict(X), expected, **CLOSE)
    basis = KernelBasis("gaussian", SubSample(20), random_state=0)
    expected = clone(basis).fit(X).transform(X)
    np.testing.assert_allclose(basis.fit(made(X, Y)).transform(X), expected, **CLOSE)
    np.testing.assert_allclose(basis.fit_transform(made(X, Y)), expected, **CLOSE)


# Structured outputs ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [None, N])
@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize(("kernel", "objects"), [("tanimoto", LABELS), (NGram(2), WORDS)])
def test_structured_outputs(kernel, objects, n, weights):
    sketches = {"input_sketch": SubSample(40), "output_sketch": PSparsified(20)}
    model = sisokr("gaussian", kernel, **sketches, random_state=0)
    options = {} if weights is None else {"sample_weight": weights}
    expected = clone(model).fit(X, objects, **options)
    columns = (X, objects) if weights is None else (X, objects, weights)
    found = clone(model).fit(cut(*columns, n=n))
    np.testing.assert_allclose(
        found.predict_coordinates(X), expected.predict_coordinates(X), **CLOSE
    )
    assert list(map(str, found.decoder_.pool_)) == list(map(str, expected.decoder_.pool_))
    assert list(map(str, found.predict(X[:50]))) == list(map(str, expected.predict(X[:50])))


def test_too_many_distinct_outputs(monkeypatch):
    monkeypatch.setattr(outputs_module, "_MOST_OUTPUTS", 10)
    options = {"alpha": 1e-3, "random_state": 0}
    model = sisokr("gaussian", "tanimoto", **options).fit(cut(X, LABELS))
    with pytest.raises(ValueError, match=r"more than 10 differ, were not kept.*give candidates="):
        model.predict(X[:3])
    expected = sisokr("gaussian", "tanimoto", **options).fit(X, LABELS)
    np.testing.assert_array_equal(model.predict(X[:30], LABELS), expected.predict(X[:30], LABELS))
    labels = sisokr("gaussian", "linear", decoder="label_sets", random_state=0)
    with pytest.raises(ValueError, match="LabelSetDecoder learns from the distinct outputs"):
        labels.fit(cut(X, LABELS))


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.integers(1, 20))
def test_distinct_outputs(numbers, limit):
    values = np.array(numbers, dtype=float)[:, None]
    with skout.memory_limits(block_rows=7):
        found = source(values).reduce(Distinct(limit), np.arange(len(values)))
    expected = list(dict.fromkeys(numbers))
    assert (found is not None) == (len(expected) <= limit)
    if found is not None:
        assert values[found, 0].tolist() == expected


@pytest.mark.parametrize("once", [False, True], ids=["again", "once"])
def test_regressors_that_want_all_targets_at_once(once):
    """They get them: those of scikit-learn take arrays only."""
    model = StructuredPredictor(RandomForestRegressor(9, random_state=0), "tanimoto")
    expected = clone(model).fit(X, LABELS, sample_weight=W)
    made = cut(X, LABELS, W)
    found = clone(model).fit(Blocks(iter(list(made))) if once else made)
    np.testing.assert_allclose(found.predict_coordinates(X), expected.predict_coordinates(X))
    same = np.all(found.predict(X) == expected.predict(X), axis=1)
    assert same.mean() > 0.99  # rounding takes one of candidates that are equally near


@pytest.mark.parametrize("stored", [2048.0, 0.01], ids=["held", "filed"])
@pytest.mark.parametrize("loss", [None, "huber"])
def test_structured_outputs_of_blocks_that_can_be_read_once(stored, loss):
    model = sisokr("gaussian", "tanimoto", random_state=0)
    if loss is not None:
        machine = KernelMachine("gaussian", SubSample(40), loss=loss, random_state=0)
        model = StructuredPredictor(machine, KernelBasis("tanimoto", SubSample(20)))
        model.set_params(output_basis__random_state=0)
    expected = clone(model).fit(X, LABELS)
    with skout.memory_limits(block_rows=100, coordinates_mb=stored):
        found = clone(model).fit(Blocks(iter(list(cut(X, LABELS)))))
    np.testing.assert_allclose(
        found.predict_coordinates(X), expected.predict_coordinates(X), **CLOSE
    )
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


# Mistakes ----------------------------------------------------------------------------------------


def spoilt(column, row, value=np.nan):
    column = column.copy()
    column[row] = value
    return column


@pytest.mark.parametrize("n", [None, N])
def test_rows_that_are_not_finite_are_named(n):
    where = r"row 725" if n else "row 725, which is row 25 of block 7"

    def parts(x, y):
        return [(x[a : a + 100], y[a : a + 100]) for a in range(0, N, 100)]

    with pytest.raises(ValueError, match=rf"X.*{where}"):
        ridge().fit(Blocks(parts(spoilt(X, 725), Y), n))
    with pytest.raises(ValueError, match=rf"y.*{where}"):
        ridge().fit(Blocks(parts(X, spoilt(Y, 725, np.inf)), n))
    S = sparse.csr_matrix(spoilt(X, 725))
    with pytest.raises(ValueError, match=rf"X.*{where}"):
        ridge().fit(Blocks(parts(S, Y), n))


@pytest.mark.parametrize(
    ("made", "error", "says"),
    [
        ([(X, Y), (X[:, 1:], Y)], ValueError, r"X of block 1 has rows of shape \(3,\)"),
        ([(X, Y), (X, Y[:, 0])], ValueError, r"y of block 1 has rows of shape \(\)"),
        ([(X, Y), (X, Y, W)], ValueError, "Block 1 has 3 parts, and the first one 2"),
        ([(X, Y[1:])], ValueError, r"The parts of block 0 differ in length: \[900, 899\]"),
        ([X, Y], TypeError, r"must be a tuple \(X, y\).* Got ndarray as block 0"),
        ([(X,)], TypeError, "Got tuple of 1 things as block 0"),
        ([], ValueError, "0 sample"),
        ([(X[:0], Y[:0])], ValueError, "0 sample"),
        ([(X[:1], Y[:1])], ValueError, "at least two rows"),
    ],
)
def test_blocks_that_are_not_right(made, error, says):
    with pytest.raises(error, match=says):
        ridge().fit(Blocks(made))


@pytest.mark.parametrize(
    ("n", "says"), [(N + 1, "ended after 900 rows, and 901"), (N - 1, "more than 899")]
)
def test_wrong_number_of_rows(n, says):
    with pytest.raises(ValueError, match=says):
        ridge().fit(cut(X, Y, n=n))
    with pytest.raises(ValueError, match=f"The blocks have 900 rows, and n={n} was given"):
        ridge().fit(cut(X, Y, W, n=n))


def test_blocks_that_change_between_passes():
    passes = []

    def make():
        passes.append(0)
        yield X[: 900 if len(passes) < 3 else 800], Y[: 900 if len(passes) < 3 else 800]

    with pytest.raises(ValueError, match="must be the same in each pass"):
        ridge().fit(Blocks(make))


def test_misuse():
    with pytest.raises(TypeError, match="make must be an iterable of blocks"):
        Blocks(3)
    with pytest.raises(ValueError, match="n must be an integer >= 1"):
        Blocks([], 0)
    with pytest.raises(ValueError, match="y must be None where X are Blocks"):
        ridge().fit(cut(X, Y), Y)
    with pytest.raises(ValueError, match="sample_weight must be None where X are Blocks"):
        KernelMachine("gaussian", SubSample(9)).fit(cut(X, Y), None, W)
    with pytest.raises(ValueError, match="y must be None where X are Blocks"):
        KernelClassifier("gaussian", SubSample(9)).fit(cut(X, Y), LABELS[:, 0])
    with pytest.raises(TypeError, match="Blocks are not an array"):
        ridge().fit(X, Y).predict(cut(X, Y))
    with pytest.raises(ValueError, match="landmarks are rows to draw a sketch from"):
        KernelRidge("gaussian").fit(X, Y, landmarks=X)
    with pytest.raises(ValueError, match="y to be passed"):
        ridge().fit(X)


# The sample and the stream -----------------------------------------------------------------------


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=12), size=st.integers(1, 60))
def test_reservoir_does_not_depend_on_the_cuts(sizes, size):
    n = sum(sizes)
    if n == 0:
        return
    numbers = np.arange(n)

    def sample(parts):
        reservoir = Reservoir(size, np.random.default_rng(5))
        start = 0
        for b in parts:
            reservoir.add((numbers[start : start + b], list(numbers[start : start + b])))
            start += b
        assert reservoir.n == n
        return reservoir.columns()

    found, objects = sample(sizes)
    np.testing.assert_array_equal(found, sample([n])[0])
    assert list(found) == objects
    assert len(found) == min(n, size)
    assert np.all(np.diff(found) > 0)
    keys = np.random.default_rng(5).random(n)
    np.testing.assert_array_equal(found, np.sort(np.argsort(keys)[:size]))


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    reads=st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), max_size=8),
)
def test_a_stream_reads_as_an_array_does(sizes, reads):
    n = sum(sizes)
    values = np.arange(n, dtype=float)
    ends = np.cumsum(sizes)

    def begin():
        return iter(
            [(values[b - a : b], 2 * values[b - a : b]) for a, b in zip(sizes, ends, strict=True)]
        )

    stream = Stream(begin, n)
    left, right = Column(stream, 0, values[:1]), Column(stream, 1, values[:1])
    for a, b in reads:
        some = slice(min(a, b), max(a, b))
        np.testing.assert_array_equal(left[some], values[some])
        np.testing.assert_array_equal(right[some], 2 * values[some])
        index = np.unique(np.array([a, b, a // 2]) % n)
        np.testing.assert_array_equal(right[index], 2 * values[index])


def test_a_pass_reads_each_block_once():
    begun, read = [], []

    def begin():
        begun.append(0)
        for start in range(0, N, 50):
            read.append(start)
            yield X[start : start + 50], Y[start : start + 50]

    stream = Stream(begin, N)
    x, y = Column(stream, 0, X[:1]), Column(stream, 1, Y[:1])
    for start in range(0, N, 70):
        np.testing.assert_array_equal(x[start : start + 70], X[start : start + 70])
        np.testing.assert_array_equal(y[start : start + 70], Y[start : start + 70])
    assert len(begun) == 1
    assert read == list(range(0, N, 50))


# Parquet -----------------------------------------------------------------------------------------

NAMES = [f"x{j}" for j in range(D)]


@pytest.fixture
def folder(tmp_path):
    for name, some in (("a", slice(0, 350)), ("b", slice(350, N))):
        columns = {f"x{j}": X[some, j] for j in range(D)} | {f"y{j}": Y[some, j] for j in range(2)}
        columns |= {"weight": W[some], "word": WORDS[some]}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet", row_group_size=120)
    return tmp_path


def test_parquet(folder):
    expected = ridge(fit_intercept=True).fit(X, Y, W).predict(X)
    for files in (folder, str(folder), [folder / "a.parquet", folder / "b.parquet"]):
        opened = open_parquet(files, NAMES, ["y0", "y1"], "weight", rows=100)
        found = ridge(fit_intercept=True).fit(opened)
        np.testing.assert_allclose(found.predict(X), expected, **CLOSE)
    single = ridge().fit(open_parquet(folder, NAMES, "y0"))
    np.testing.assert_allclose(single.predict(X), ridge().fit(X, Y[:, 0]).predict(X), **CLOSE)


def test_parquet_of_strings(folder):
    model = iokr("gaussian", NGram(2), input_sketch=SubSample(40), random_state=0)
    found = clone(model).fit(open_parquet(folder, NAMES, "word"))
    np.testing.assert_array_equal(found.predict(X[:20]), model.fit(X, WORDS).predict(X[:20]))


def test_parquet_mistakes(folder, monkeypatch):
    with pytest.raises(ValueError, match=r"a\.parquet has no column 'z'\. It has: x0, x1"):
        open_parquet(folder, ["x0", "z"], "y0")
    with pytest.raises(FileNotFoundError, match=r"There is no parquet file .*c\.parquet"):
        open_parquet(folder / "c.parquet", NAMES, "y0")
    with pytest.raises(ValueError, match="files must name at least one parquet file"):
        open_parquet([], NAMES, "y0")
    with pytest.raises(ValueError, match="rows must be an integer >= 1"):
        open_parquet(folder, NAMES, "y0", rows=0)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r'pip install "skout\[disk\]'):
        open_parquet(folder, NAMES, "y0")


def test_parquet_nulls_are_named(tmp_path):
    values = [1.0] * 50
    values[31] = None
    pq.write_table(pa.table({"x": values, "y": [2.0] * 50}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="where row 31 is not finite"):
        ridge(SubSample(5)).fit(open_parquet(tmp_path / "a.parquet", ["x"], "y"))


# CSR on disk -------------------------------------------------------------------------------------


@given(seed=st.integers(0, 99), density=st.floats(0.0, 1.0))
def test_csr_round_trip(tmp_path_factory, seed, density):
    folder = tmp_path_factory.mktemp("csr")
    S = sparse.random(13, 5, density=density, random_state=seed, format="csr")
    save_csr(folder, S)
    found = open_csr(folder)
    assert (found.shape, found.dtype, len(found)) == (S.shape, S.dtype, 13)
    index = np.array([0, 4, 5, 12])
    np.testing.assert_array_equal(found[index].toarray(), S[index].toarray())
    np.testing.assert_array_equal(found[3:9].toarray(), S[3:9].toarray())
    assert found[5:5].shape == (0, 5)
    assert found[index[:0]].shape == (0, 5)


def test_csr_mistakes(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"it has no data\.npy"):
        open_csr(tmp_path)
    save_csr(tmp_path, sparse.eye(6, format="csr"))
    np.save(tmp_path / "indices.npy", np.array([0, 1, 2, 99, 4, 5], dtype=np.int32))
    with pytest.raises(ValueError, match="The CSR files are damaged"):
        open_csr(tmp_path)[2:5]
    np.save(tmp_path / "indices.npy", np.arange(5))
    with pytest.raises(ValueError, match="do not belong together"):
        open_csr(tmp_path)
    np.save(tmp_path / "indices.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"objects in dtype|allow_pickle"):
        open_csr(tmp_path)


# Generators that fill one buffer again and again --------------------------------------------------


def refilled(X, y, w, size: int = 50):
    """Yield blocks that are the same arrays, with other rows in them."""
    block = tuple(np.empty((size, *column.shape[1:])) for column in (X, y, w))
    for start in range(0, len(X), size):
        for buffer, column in zip(block, (X, y, w), strict=True):
            buffer[...] = column[start : start + size]
        yield block
    for buffer in block:
        buffer[...] = np.nan  # and then it is gone


@pytest.mark.parametrize("n", [None, 1000])
@pytest.mark.parametrize("rows", [64, 8192])
def test_blocks_may_share_one_buffer(rows, n):
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((1000, 3)), rng.uniform(0.5, 2.0, 1000)
    y = np.sin(X @ [1.0, 2.0, 0.5])
    model = KernelRidge(Gaussian(0.3), SubSample(100), alpha=1e-6, random_state=0)
    separate = [(X[i : i + 50], y[i : i + 50], w[i : i + 50]) for i in range(0, 1000, 50)]
    with skout.memory_limits(block_rows=rows):
        expected = clone(model).fit(Blocks(separate, n)).predict(X)
        found = clone(model).fit(Blocks(lambda: refilled(X, y, w), n)).predict(X)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_blocks_that_are_read_once_may_share_one_buffer():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((1000, 3)), np.ones(1000)
    y = np.sin(X @ [1.0, 2.0, 0.5])
    model = KernelRidge(Gaussian(0.3), SubSample(100), alpha=1e-6, random_state=0)
    separate = ((X[i : i + 50], y[i : i + 50], w[i : i + 50]) for i in range(0, 1000, 50))
    expected = clone(model).fit(Blocks(separate), landmarks=X).predict(X)
    found = clone(model).fit(Blocks(refilled(X, y, w)), landmarks=X).predict(X)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize(
    "column", [np.ones((3, 2)), sparse.csr_matrix(np.ones((3, 2))), ["a", "b", "c"]]
)
def test_what_blocks_yield_is_a_copy(column):
    (found, _), *_ = Blocks([(column, np.zeros(3))])
    own = found.data if sparse.issparse(found) else found
    given = column.data if sparse.issparse(column) else column
    assert own is not given
    assert isinstance(own, list) or not np.shares_memory(own, given)
