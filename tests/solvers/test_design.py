"""The design matrix, held or streamed: three products, against the dense matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import skout.solvers.design as module
from skout import KernelBasis, KernelMachine, memory_limits
from skout.rows import Memory
from skout.rows.disk import Disk
from skout.sketches import GaussianSketch, PSparsified, SubSample
from skout.solvers.design import DesignMatrix, coordinates_of

N, P, D = 50, 8, 3
SKETCHES = [None, SubSample(P), GaussianSketch(P), PSparsified(P, p=0.2)]


def rows(kind="float64"):
    X = np.random.default_rng(0).standard_normal((N, 4))
    if kind == "csr":
        return sparse.csr_matrix(np.where(X > 0, X, 0.0))
    return X.astype(kind)


def machine(X, sketch=None, kernel="gaussian", **options):
    """A machine that has a basis, and no more."""
    model = KernelMachine(kernel, sketch, n_jobs=options.get("n_jobs"))
    model.basis_ = KernelBasis(kernel, sketch, random_state=0, **options).fit(X)
    return model


def design_of(model, rows):
    """The coordinates of all rows, as its fit would make them."""
    return coordinates_of(model.basis_.engine_, rows, dtype=None)


def coordinates(X, sketch=None, held=True, kernel="gaussian", **options):
    """The design of a machine, and the dense matrix that it stands for."""
    model = machine(X, sketch, kernel, **options)
    with memory_limits(coordinates_mb=2048.0 if held else 0.0):
        Z = design_of(model, Memory(X))
    assert Z.is_held == held
    return Z, model.basis_.transform(X).astype(np.float64)


def weights_of(kind):
    rng = np.random.default_rng(1)
    return {
        "positive": rng.uniform(0.1, 2.0, N),
        "some zero": rng.uniform(0.1, 2.0, N) * (np.arange(N) % 5 > 0),
        "most zero": rng.uniform(0.1, 2.0, N) * (np.arange(N) % 5 == 0),
        "negative": rng.standard_normal(N),
        "negative and zero": rng.standard_normal(N) * (np.arange(N) % 3 == 0),
        "zero": np.zeros(N),
    }[kind]


def gram(Z, weights):
    """[Z, 1]' diag(w) [Z, 1], a row at a time."""
    total = np.zeros((Z.shape[1] + 1, Z.shape[1] + 1))
    for z, w in zip(Z, weights, strict=True):
        total += w * np.outer(np.append(z, 1.0), np.append(z, 1.0))
    return total


held_or_not = pytest.mark.parametrize("held", [True, False], ids=["held", "streamed"])
every_sketch = pytest.mark.parametrize("sketch", SKETCHES, ids=lambda s: type(s).__name__)
WEIGHTS = ["positive", "some zero", "most zero", "negative", "negative and zero", "zero"]


@held_or_not
@every_sketch
@pytest.mark.parametrize("kind", ["float64", "csr"])
@pytest.mark.parametrize("size", [7, 8192], ids=["blocks", "one-block"])
def test_products_are_those_of_the_matrix(kind, sketch, held, size):
    Z, dense = coordinates(rows(kind), sketch, held)
    rng = np.random.default_rng(2)
    B, G = rng.standard_normal((Z.shape[1], D)), rng.standard_normal((N, D))
    assert Z.shape == dense.shape
    with memory_limits(block_rows=size):
        assert_allclose(Z.product(B), dense @ B, atol=1e-9)
        assert_allclose(Z.adjoint(G), dense.T @ G, atol=1e-9)
        assert_allclose(Z.masked(G, B), dense.T @ (G * (dense @ B)), atol=1e-9)
        for name in WEIGHTS:
            w = weights_of(name)
            assert_allclose(Z.gram(w), gram(dense, w), atol=1e-9, err_msg=name)


@pytest.mark.parametrize("megabytes", [2048.0, 0.0], ids=["both held", "cast"])
@pytest.mark.parametrize("d", [1, D, 16, 17])
def test_products_in_float32(d, megabytes):
    Z, dense = coordinates(rows())
    rng = np.random.default_rng(2)
    B, W = rng.standard_normal((Z.shape[1], d)), rng.standard_normal((N, d))
    with memory_limits(coordinates_mb=megabytes):
        rounded = Z.rounded()
    assert rounded.Z.precision == (np.float32 if megabytes else np.float64)
    found, truth = rounded.masked(W.astype(np.float32), B), dense.T @ (W * (dense @ B))
    assert_allclose(found, truth, atol=1e-5 * np.abs(truth).max())
    assert np.abs(found - truth).max() > 1e-10 * np.abs(truth).max()
    w = weights_of("some zero")
    assert_allclose(rounded.gram(w, np.float32), gram(dense, w), rtol=1e-5, atol=1e-5)


@held_or_not
@pytest.mark.parametrize("sketch", [SubSample(P), GaussianSketch(P)], ids=repr)
def test_single_precision(sketch, held):
    Z, dense = coordinates(rows("float32"), sketch, held)
    rng = np.random.default_rng(2)
    B, G = rng.standard_normal((Z.shape[1], D)), rng.standard_normal((N, D))
    size = np.abs(dense).max()
    results = [
        (Z.product(B), dense @ B),
        (Z.adjoint(G), dense.T @ G),
        *((Z.gram(weights_of(name)), gram(dense, weights_of(name))) for name in WEIGHTS),
    ]
    for found, truth in results:
        assert found.dtype == np.float64
        assert_allclose(found, truth, atol=1e-4 * max(1.0, size**2))


@held_or_not
@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
def test_take_holds_some_rows(kind, held):
    Z, dense = coordinates(rows(kind), SubSample(P), held)
    index = np.array([0, 3, 3, 41])
    some = Z.take(index)
    assert some.is_held
    with memory_limits(coordinates_mb=0.0):
        assert Z.take(index).is_held == held
    assert some.shape == (4, Z.shape[1])
    tol = 1e-3 if kind == "float32" else 1e-9
    assert_allclose(some.product(np.eye(Z.shape[1])), dense[index], atol=tol)
    w = np.array([1.0, 2.0, 0.0, -1.0])
    assert_allclose(some.gram(w), gram(dense[index], w), atol=10 * tol)
    assert_allclose(some.take(np.array([1])).product(np.eye(Z.shape[1])), dense[[3]], atol=tol)


@held_or_not
def test_an_eigenbasis(held):
    Z, dense = coordinates(rows(), SubSample(P), held, whiten="eigh")
    assert_allclose(Z.product(np.eye(P)), dense, atol=1e-9)
    assert_allclose(Z.adjoint(np.ones((N, 1))), dense.sum(axis=0)[:, None], atol=1e-9)
    assert_allclose(Z.gram(np.ones(N)), gram(dense, np.ones(N)), atol=1e-9)


@held_or_not
def test_a_kernel_of_low_rank(held):
    Z, dense = coordinates(rows(), None, held, kernel="linear")
    assert Z.shape == (N, 4)
    assert_allclose(Z.gram(np.ones(N)), gram(dense, np.ones(N)), atol=1e-9)


def test_what_fits_the_budget_is_held():
    X = rows()
    model = machine(X, SubSample(P))
    megabytes = N * model.basis_.rank_ * 8 / 2**20
    with memory_limits(coordinates_mb=megabytes * 1.01):
        assert design_of(model, Memory(X)).is_held
    with memory_limits(coordinates_mb=megabytes * 0.99):
        assert not design_of(model, Memory(X)).is_held
        assert design_of(model, Memory(X.astype(np.float32))).is_held  # half as large


def test_an_array_is_not_copied():
    array = np.ones((5, 2))
    Z = DesignMatrix(array)
    assert Z.is_held
    assert Z.shape == (5, 2)
    array[:] = 2.0
    assert_array_equal(Z.product(np.eye(2)), 2.0)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_do_not_change_the_result(n_jobs):
    X = rows()
    first = coordinates(X, SubSample(P), False, n_jobs=1)[0]
    other = coordinates(X, SubSample(P), False, n_jobs=n_jobs)[0]
    w, G = weights_of("negative"), np.ones((N, 2))
    with memory_limits(block_rows=7):
        assert_array_equal(first.gram(w), other.gram(w))
        assert_array_equal(first.adjoint(G), other.adjoint(G))
        assert_array_equal(first.product(np.ones((P, 2))), other.product(np.ones((P, 2))))


def test_rows_of_weight_zero_are_not_computed():
    seen = []

    def ones(some):
        seen.append(some[:, 0])
        return np.ones((len(some), 2))

    numbers = Memory(np.arange(float(N))[:, None])
    Z = DesignMatrix(numbers.then(ones), numbers)
    w = np.zeros(N)
    w[[4, 9]] = 1.0
    seen.clear()  # one row was made to see the shape
    assert_allclose(Z.gram(w), np.full((3, 3), 2.0))
    assert set(np.concatenate(seen)) == {4, 9}


def test_arguments_are_left_alone():
    for held in (True, False):
        Z, _ = coordinates(rows(), SubSample(P), held)
        for method, array in ((Z.gram, weights_of("negative")), (Z.adjoint, np.ones((N, 2)))):
            array.flags.writeable = False
            method(array)
        B = np.ones((P, 2))
        B.flags.writeable = False
        Z.product(B)


@given(
    Z=hnp.arrays(np.float64, (9, 2), elements=st.floats(-10, 10)),
    w=hnp.arrays(np.float64, 9, elements=st.one_of(st.just(0.0), st.floats(-10, 10))),
    size=st.integers(1, 9),
)
def test_gram_of_any_weights_in_any_blocks(Z, w, size):
    with memory_limits(block_rows=size):
        assert_allclose(DesignMatrix(Z).gram(w), gram(Z, w), atol=1e-9)


def test_blocks_of_a_large_matrix(monkeypatch):
    monkeypatch.setattr(module, "_GRAM_ROWS", 6)
    Z = np.random.default_rng(0).standard_normal((N, 2))
    for name in WEIGHTS:
        found = DesignMatrix(Z).gram(weights_of(name))
        assert_allclose(found, gram(Z, weights_of(name)), atol=1e-9, err_msg=name)
        assert_allclose(found, found.T, atol=1e-12)


def test_rows_taken_from_streamed_coordinates_obey_the_budget():
    X = np.random.default_rng(0).standard_normal((400, 3))
    model = machine(X, SubSample(20), n_jobs=1)
    with memory_limits(coordinates_mb=0.01):  # 65 rows of 20 coordinates
        Z = design_of(model, Memory(X))
        many, few = Z.take(np.arange(300)), Z.take(np.arange(50))
    assert not Z.is_held
    assert not many.is_held
    assert few.is_held
    assert Z.n_jobs == many.n_jobs == few.n_jobs == few.take(np.arange(5)).n_jobs == 1
    B = np.ones((20, 2))
    for some, n in ((many, 300), (few, 50)):
        expected = model.basis_.transform(X[:n]) @ B
        assert_allclose(some.product(B), expected, rtol=1e-10, atol=1e-12)


def test_products_of_streamed_coordinates_are_not_by_them(monkeypatch):
    """Z B of streamed rows, and of some of them, goes from features to B's few columns at once."""
    Z, dense = coordinates(rows(), SubSample(P), held=False)
    with memory_limits(coordinates_mb=0.0):
        some = Z.take(np.arange(30))
    monkeypatch.setattr(module, "_RowProduct", lambda B: pytest.fail("by Z itself"))
    B = np.ones((P, 2))
    assert_allclose(Z.product(B), dense @ B, atol=1e-9)
    assert_allclose(some.product(B), dense[:30] @ B, atol=1e-9)


def test_rows_taken_from_a_file_of_coordinates_stay_there():
    """Coordinates of rows that are read in order are put into a file where memory is short."""

    X = rows()
    model = machine(X, SubSample(P))
    in_order = Disk(X)
    in_order.in_order = True
    with memory_limits(coordinates_mb=0.0):
        Z = design_of(model, in_order)
    assert isinstance(Z.Z.rows, np.memmap)
    some = Z.take(np.arange(0, N, 2))
    assert some.Z.resident is None
    dense = model.basis_.transform(X)
    assert_allclose(some.product(np.eye(P)), dense[::2], atol=1e-9)
    assert_allclose(some.gram(np.ones(25)), gram(dense[::2], np.ones(25)), atol=1e-9)
