"""Label sets of greatest expected utility, against brute force over all of them."""

import numpy as np
import oracles_decoding as oracle
import pytest
from extras import extra
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor

from skout import KernelBasis, KernelRidge, StructuredPredictor, iokr, memory_limits
from skout.decoding import LabelSetDecoder
from skout.kernels import F1, Gaussian, Linear, Tanimoto
from skout.metrics import example_f1
from skout.sketches import GaussianSketch, PSparsified, SubSample

pd = extra("pandas")


def label_rows(n=15, n_labels=5, share=0.4, seed=0):
    return (np.random.default_rng(seed).uniform(size=(n, n_labels)) < share).astype(int)


def weights_of(n_queries, n, seed=1):
    """Weights over the training outputs, most of them positive, as regressors give them."""
    return np.random.default_rng(seed).uniform(-0.2, 1.0, (n_queries, n)) / n


def expected_f1(weights, Y, C):
    """sum_i w_i F1(y_i, c), by loops."""
    return np.array(
        [
            [sum(w * oracle.f1(y, c) for w, y in zip(row, Y, strict=True)) for c in C]
            for row in weights
        ]
    )


def check_best(found, values, C):
    """Each row of `found` must be one of C, of greatest value."""
    place = {tuple(c): j for j, c in enumerate(C)}
    for row, value in zip(found, values, strict=True):
        assert value[place[tuple(row)]] >= value.max() - 1e-9


# F1 ----------------------------------------------------------------------------------------------


@given(
    n_labels=st.integers(1, 5),
    n=st.integers(1, 10),
    share=st.floats(0.1, 0.9),
    max_size=st.sampled_from([None, 1, 2, 9]),
    seed=st.integers(0, 9999),
)
def test_f1_is_best_of_all_label_sets(n_labels, n, share, max_size, seed):
    Y = label_rows(n, n_labels, share, seed)
    weights = np.random.default_rng(seed).normal(0.3, 1.0, (6, n))
    basis = KernelBasis(F1()).fit(Y)
    decoder = LabelSetDecoder(max_size=max_size).fit(basis, Y)
    largest = min(n_labels, max(1, Y.sum(axis=1).max()) if max_size is None else max_size)
    C = oracle.label_sets(n_labels, largest)
    found = decoder.decode(weights @ basis.transform(Y))
    check_best(found, expected_f1(weights, Y, C), C)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("whiten", ["cholesky", "eigh"])
@pytest.mark.parametrize(
    "sketch", [None, SubSample(8), PSparsified(6, p=0.2), GaussianSketch(5)], ids=str
)
def test_f1_is_the_arg_max_of_the_decoding_score(sketch, whiten, n_jobs):
    # arg max over all c of 2 <f, z(c)> - k(c, c), on what a sketch sees too
    Y = np.vstack([label_rows(30, 7, 0.3), np.zeros((2, 7), dtype=int)])
    basis = KernelBasis(F1(), sketch, whiten=whiten, random_state=0).fit(Y)
    F = np.vstack([weights_of(10, 32) @ basis.transform(Y), weights_of(5, basis.rank_, seed=3)])
    decoder = LabelSetDecoder(max_size=4, n_jobs=n_jobs).fit(basis, Y)
    C = oracle.label_sets(7, 4)
    values = 2.0 * F @ basis.transform(C).T - 1.0
    with memory_limits(block_rows=4):
        found = decoder.decode(F)
    check_best(found, values, C)
    assert len({tuple(row) for row in found}) > 3


def test_f1_without_the_landmarks_of_the_decoder_is_the_same():
    # the read-out comes from the formula: which outputs the decoder is fitted on does not matter
    Y = label_rows(20, 6)
    basis = KernelBasis(F1(), SubSample(9), random_state=0).fit(Y)
    F = weights_of(8, 20) @ basis.transform(Y)
    one, other = (LabelSetDecoder(max_size=3).fit(basis, some) for some in (Y, Y[:5]))
    assert_array_equal(one.decode(F), other.decode(F))


def test_the_empty_set_is_found():
    Y = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    basis = KernelBasis(F1()).fit(Y)
    T = basis.transform(Y)
    decoder = LabelSetDecoder().fit(basis, Y)
    # P(empty) = 0.4 beats each single label, of probability 0.2
    F = np.array([[0.4, 0.2, 0.2, 0.2], [0.1, 0.6, 0.2, 0.1], [1.0, 0.0, 0.0, 0.0]]) @ T
    assert_array_equal(decoder.decode(F), [[0, 0, 0], [1, 0, 0], [0, 0, 0]])


def test_ties_go_to_the_smaller_set():
    Y = label_rows(10, 4)
    basis = KernelBasis(F1()).fit(Y)
    decoder = LabelSetDecoder(max_size=4).fit(basis, Y)
    assert_array_equal(decoder.decode(np.zeros((3, basis.rank_))), np.zeros((3, 4)))


def test_max_size_limits_the_sets():
    Y = np.ones((3, 5), dtype=int)
    Y[1, 0] = 0
    basis = KernelBasis(F1()).fit(Y)
    F = basis.transform(Y)
    for max_size, largest in [(1, 1), (3, 3), (None, 5), (9, 5)]:
        found = LabelSetDecoder(max_size=max_size).fit(basis, Y).decode(F)
        assert found.sum(axis=1).max() == largest


@pytest.mark.parametrize("kernel", [Tanimoto(), Gaussian(0.5)], ids=str)
def test_f1_with_other_kernels_is_read_out_by_least_squares(kernel):
    Y = np.unique(label_rows(40, 6, 0.35), axis=0)
    basis = KernelBasis(kernel).fit(Y)
    weights = weights_of(12, len(Y))
    decoder = LabelSetDecoder().fit(basis, Y)
    C = oracle.label_sets(6, Y.sum(axis=1).max())
    values = expected_f1(weights, Y, C)
    found = decoder.decode(weights @ basis.transform(Y))
    place = {tuple(c): j for j, c in enumerate(C)}
    chosen = [value[place[tuple(row)]] for row, value in zip(found, values, strict=True)]
    assert_allclose(chosen, values.max(axis=1), rtol=1e-6)


# Expected labels ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel", [Linear(), Gaussian(0.5), Tanimoto(), F1(), Gaussian(1.0) + Linear()], ids=str
)
def test_expected_labels_of_a_combination_are_the_combination(kernel):
    Y = label_rows(25, 6)
    Y = np.vstack([Y, Y[:5]])  # with copies
    basis = KernelBasis(kernel).fit(Y)
    weights = np.random.default_rng(2).standard_normal((7, len(Y)))
    decoder = LabelSetDecoder().fit(basis, Y)
    found = decoder.label_scores(weights @ basis.transform(Y))
    expected = np.array([sum(w * y for w, y in zip(row, Y, strict=True)) for row in weights])
    assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_coordinates_given_to_fit_are_used(monkeypatch):
    Y = label_rows(12, 5)
    basis = KernelBasis(Tanimoto()).fit(Y)
    T = basis.transform(Y)
    plain = LabelSetDecoder().fit(basis, Y)
    monkeypatch.setattr(basis, "transform", lambda rows: pytest.fail("transformed again"))
    given_T = LabelSetDecoder().fit(basis, Y, T)
    F = weights_of(5, 12) @ T
    assert_array_equal(given_T.decode(F), plain.decode(F))
    assert_array_equal(LabelSetDecoder().fit(basis, Y, 2.0 * T).label_map_, plain.label_map_ / 2)


# Containers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_the_form_of_the_outputs_is_kept(form, dtype):
    Y = label_rows(20, 5)
    dense = KernelBasis(F1()).fit(Y)
    F = weights_of(6, 20) @ dense.transform(Y)
    expected = LabelSetDecoder(max_size=3).fit(dense, Y).decode(F)
    given_Y = form(Y.astype(dtype))
    decoder = LabelSetDecoder(max_size=3).fit(KernelBasis(F1()).fit(given_Y), given_Y)
    for rows in (F, F[:0]):
        found = decoder.decode(rows)
        assert found.dtype == dtype
        assert found.shape == (len(rows), 5)
        assert sparse.issparse(found) == (form is not np.asarray)
        values = found.toarray() if sparse.issparse(found) else found
        assert_array_equal(values, expected[: len(rows)])


def test_data_frames_and_lists_of_labels():
    Y = label_rows(10, 4)
    plain = LabelSetDecoder().fit(KernelBasis(F1()).fit(Y), Y)
    for some in (pd.DataFrame(Y, columns=list("abcd")), Y.tolist()):
        basis = KernelBasis(F1()).fit(some)
        F = weights_of(4, 10) @ basis.transform(some)
        assert_array_equal(LabelSetDecoder().fit(basis, some).decode(F), plain.decode(F))


# Mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"max_size": 0}, ValueError, "max_size must be an integer >= 1. Got 0"),
        ({"max_size": 2.0}, TypeError, "max_size must be an integer >= 1. Got 2.0"),
    ],
)
def test_bad_parameters_are_named(params, error, message):
    Y = label_rows()
    with pytest.raises(error, match=message):
        LabelSetDecoder(**params).fit(KernelBasis(F1()).fit(Y), Y)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("odd", [2.0, 0.5])
def test_counts_are_refused(odd, form):
    Y = label_rows().astype(float)
    Y[3, 2] = odd
    with pytest.raises(ValueError, match=rf"rows of 0 and 1. Got {odd:g} instead"):
        LabelSetDecoder().fit(KernelBasis(Tanimoto()).fit(form(Y)), form(Y))


def test_candidates_are_refused():
    Y = label_rows()
    basis = KernelBasis(F1()).fit(Y)
    decoder = LabelSetDecoder().fit(basis, Y)
    with pytest.raises(
        ValueError, match="LabelSetDecoder searches all objects, so candidates must"
    ):
        decoder.decode(basis.transform(Y), Y)
    with pytest.raises(TypeError, match="LabelSetDecoder builds objects instead of ranking"):
        decoder.rank(basis.transform(Y))


def test_unfitted():
    for method in ("decode", "label_scores"):
        with pytest.raises(NotFittedError):
            getattr(LabelSetDecoder(), method)(np.ones((2, 3)))


# The whole model ---------------------------------------------------------------------------------


def multilabel_problem(n=90, seed=0):
    """Labels with probabilities that turn with x; most label sets of the test are new."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    centres = rng.uniform(-2, 2, (7, 2))
    chance = np.exp(-0.3 * ((X[:, None] - centres) ** 2).sum(axis=2))
    return X, (rng.uniform(size=chance.shape) < chance).astype(int)


@pytest.mark.parametrize("decoder", ["label_sets", LabelSetDecoder()])
def test_f1_end_to_end(decoder):
    X, Y = multilabel_problem()
    model = StructuredPredictor(KernelRidge(Gaussian(1.0), alpha=1e-2), KernelBasis(F1()), decoder)
    model.fit(X[:60], Y[:60])
    found = model.predict(X[60:])
    assert found.dtype == Y.dtype
    K = np.exp(-((X[:60, None] - X[:60]) ** 2).sum(axis=2))
    K_te = np.exp(-((X[60:, None] - X[:60]) ** 2).sum(axis=2))
    weights = np.linalg.solve(K + 60 * 1e-2 * np.eye(60), K_te.T).T
    C = oracle.label_sets(7, Y[:60].sum(axis=1).max())
    values = weights @ np.array([[oracle.f1(y, c) for c in C] for y in Y[:60]])
    check_best(found, values, C)
    new = ~(found[:, None] == Y[None, :60]).all(axis=2).any(axis=1)
    assert new.any()  # no candidate had been enough
    assert model.score(X[60:], Y[60:]) == pytest.approx(example_f1(Y[60:], found))


def test_sparse_end_to_end():
    X, Y = multilabel_problem()
    dense = StructuredPredictor(KNeighborsRegressor(5), KernelBasis(F1()), "label_sets").fit(X, Y)
    thin = StructuredPredictor(KNeighborsRegressor(5), KernelBasis(F1()), "label_sets")
    found = thin.fit(X, sparse.csr_array(Y)).predict(X)
    assert sparse.issparse(found)
    assert_array_equal(found.toarray(), dense.predict(X))


def test_the_predictor_says_what_label_sets_cannot_do():
    X, Y = multilabel_problem()
    model = iokr(Gaussian(1.0), "f1").set_params(decoder="label_sets").fit(X, Y)
    with pytest.raises(ValueError, match=r'among candidates, fit .* decoder="candidates"'):
        model.predict(X, Y)
    with pytest.raises(TypeError, match='To rank them, fit the model with decoder="candidates"'):
        model.rank(X)
    with pytest.raises(
        TypeError, match="needs a decoder with truth_ranks, and LabelSetDecoder has none"
    ):
        model.truth_ranks(X, Y)
    with pytest.raises(TypeError, match="needs a decoder with embed, and LabelSetDecoder has none"):
        model.embed(Y)


def test_grid_search_over_the_size():
    X, Y = multilabel_problem(120)
    model = iokr(Gaussian(1.0), "f1", alpha=1e-2).set_params(decoder=LabelSetDecoder())
    search = GridSearchCV(model, {"decoder__max_size": [1, None]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"decoder__max_size": None}
    assert search.best_estimator_.decoder_.max_size is None


# Faults that were mended -------------------------------------------------------------------------


@pytest.mark.parametrize("writeable", [True, False])
def test_stored_zeros_of_the_outputs_are_left_alone(writeable):
    Y = sparse.csr_matrix(label_rows().astype(float))
    Y.data[0] = 0.0  # stored all the same
    before = Y.nnz
    for array in (Y.data, Y.indices, Y.indptr):
        array.setflags(write=writeable)
    LabelSetDecoder().fit(KernelBasis(F1()).fit(Y), Y)
    assert Y.nnz == before
