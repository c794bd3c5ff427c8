"""Sketch sizes: dense formulas for the scores and errors, and searches whose answer is known."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.model_selection import KFold, ShuffleSplit, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skout import (
    KernelBasis,
    KernelClassifier,
    KernelRidge,
    StructuredPredictor,
    iokr,
    sisokr,
)
from skout.kernels import Gaussian, Laplacian, Linear, Tanimoto
from skout.sketches import GaussianSketch, PivotedCholesky, PSparsified, SubSample
from skout.theory import (
    PerfectHCurve,
    choose_sketch_size,
    leverage_scores,
    perfect_h_curve,
    reconstruction_error,
    sketch_size_search,
)
from skout.theory.leverage import _inclusion


def rows(n=60, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def low_rank(n=100, rank=4, d=20, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d))


def label_sets(n=120, d=12, seed=0):
    """Inputs, and label sets that they decide; some sets come often."""
    X = rows(n, 2, seed)
    centres = np.random.default_rng(1).standard_normal((d, 2))
    Y = (X @ centres.T > 0.5).astype(float)
    Y[:, 0] = 1.0
    return X, Y


# Leverage scores ---------------------------------------------------------------------------------


def dense_scores(K, alpha):
    n = len(K)
    return np.diag(K @ np.linalg.solve(K + n * alpha * np.eye(n), np.eye(n)))


@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 10.0])
@pytest.mark.parametrize("kernel", [Gaussian(0.3), Linear(), Laplacian(1.0)], ids=str)
def test_scores_of_all_rows_are_exact(kernel, alpha):
    X = rows()
    X[30:40] = X[0]  # duplicates
    for n_pilot in (60, 1000):
        scores = leverage_scores(kernel, X, alpha, n_pilot=n_pilot)
        assert_allclose(scores, dense_scores(kernel(X), alpha), rtol=1e-6, atol=1e-12)
    assert scores.n_pilot == 60
    resolved = KernelBasis("gaussian").fit(X).kernel_  # the width is that of these rows
    assert_allclose(leverage_scores("gaussian", X), dense_scores(resolved(X), 1e-4), rtol=1e-6)


@pytest.mark.parametrize("n_pilot", [1, 5, 20, 50])
def test_approximate_scores_are_those_of_the_nystrom_matrix(n_pilot):
    X, kernel, alpha = rows(), Gaussian(0.5), 1e-3
    scores = np.asarray(leverage_scores(kernel, X, alpha, n_pilot=n_pilot, random_state=0))
    exact = dense_scores(kernel(X), alpha)
    assert np.all(scores <= exact * (1 + 1e-8))
    S = SubSample(n_pilot).draw(60, np.random.default_rng(0)).indices
    nystrom = kernel(X, X[S]) @ np.linalg.pinv(kernel(X[S]), hermitian=True) @ kernel(X[S], X)
    assert_allclose(scores, dense_scores(nystrom, alpha), rtol=1e-4)


def test_scores_do_not_depend_on_the_blocks(monkeypatch):
    one = leverage_scores("gaussian", rows(), n_pilot=20, random_state=0)
    monkeypatch.setattr("skout.theory.leverage._ROWS", 7)
    other = leverage_scores("gaussian", rows(), n_pilot=20, random_state=0)
    assert_allclose(other, one, rtol=1e-9)


def test_scores_are_an_array():
    X = rows(200, 2)
    scores = leverage_scores("gaussian", X, alpha=1e-2, random_state=0)
    assert len(scores) == 200
    assert scores.n_pilot == 200  # 30 sqrt(n), at most n
    assert np.asarray(scores).shape == (200,)
    assert np.asarray(scores, dtype=np.float32).dtype == np.float32
    assert_allclose(scores.effective_dimension, np.sum(scores))
    basis = KernelBasis("gaussian", SubSample(20, probabilities=scores), random_state=0).fit(X)
    assert 1 < basis.rank_ <= 20


def test_scores_of_sparse_and_float32_rows_and_of_a_seed():
    X = np.maximum(rows(80, 6), 0.0)
    dense = leverage_scores("gaussian", X, n_pilot=30, random_state=0)
    as_sparse = leverage_scores("gaussian", sparse.csr_matrix(X), n_pilot=30, random_state=0)
    single = leverage_scores("gaussian", X.astype(np.float32), 1e-2, n_pilot=80)
    assert_allclose(as_sparse, dense, rtol=1e-6)
    assert_allclose(single, leverage_scores("gaussian", X, 1e-2, n_pilot=80), rtol=1e-3)
    again = leverage_scores("gaussian", X, n_pilot=30, random_state=0)
    assert_array_equal(again, dense)
    assert not np.array_equal(leverage_scores("gaussian", X, n_pilot=30, random_state=1), dense)


@given(st.integers(2, 30), st.floats(1e-6, 10.0), st.integers(1, 40))
def test_scores_lie_between_0_and_1_and_fall_with_alpha(n, alpha, n_pilot):
    X = rows(n, 2, seed=n)
    scores = np.asarray(leverage_scores(Gaussian(1.0), X, alpha, n_pilot, random_state=0))
    stronger = np.asarray(leverage_scores(Gaussian(1.0), X, 2 * alpha, n_pilot, random_state=0))
    assert scores.min() >= 0.0
    assert scores.max() <= 1.0
    assert np.all(stronger <= scores + 1e-9)


def test_errors_of_leverage_scores():
    with pytest.raises(ValueError, match="alpha must be a finite number > 0"):
        leverage_scores("gaussian", rows(), alpha=0.0)
    with pytest.raises(ValueError, match="n_pilot must be an integer >= 1"):
        leverage_scores("gaussian", rows(), n_pilot=0)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        leverage_scores("gaussian", np.empty((0, 3)))


# Perfect h ---------------------------------------------------------------------------------------


def test_error_is_the_squared_distance_to_the_span():
    Y = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    Y_val = rows(7, 3)
    curve = perfect_h_curve("linear", Y, [2], Y_val=Y_val, n_draws=2, random_state=0)
    assert_allclose(curve.table["mean_mse"], [np.mean(Y_val[:, 2] ** 2)])
    assert_allclose(curve.table["std_mse"], 0.0, atol=1e-12)
    assert_allclose(curve.mean_norm, np.mean(np.sum(Y_val**2, axis=1)))


def test_draws_are_those_of_a_basis():
    Y, Y_val = rows(50, 4), rows(20, 4, seed=1)
    kernel = Gaussian(0.3)
    curve = perfect_h_curve(
        kernel, Y, [3, 10], Y_val=Y_val, sketch=GaussianSketch(), n_draws=4, random_state=5
    )
    seeds = np.random.default_rng(5).integers(2**31, size=4)
    errors = [
        reconstruction_error(KernelBasis(kernel, GaussianSketch(10), random_state=s).fit(Y), Y_val)
        for s in seeds
    ]
    assert_allclose(curve.table["mean_mse"][1], np.mean(np.square(errors)))
    assert_allclose(curve.table["std_mse"][1], np.std(np.square(errors)))


def test_low_rank_outputs_need_no_more_than_their_rank():
    curve = perfect_h_curve("linear", low_rank(), [8, 1, 2, 4, 4], random_state=0)
    table = curve.table
    assert_array_equal(table["size"], [1, 2, 4, 8])
    assert_allclose(table["mean_mse"][2:] / curve.mean_norm, 0.0, atol=1e-10)
    assert np.all(table["mean_mse"][:2] > 0.05 * curve.mean_norm)
    assert_allclose(table["mean_similarity"][2:], 1.0)
    assert curve.best_size() == curve.best_size(0.0) == 4
    assert curve.best_size(tolerance=2.0) == 1
    assert perfect_h_curve("linear", low_rank(), [2, 4, 8], decode=False).best_size() == 4


def test_decoding_without_loss_finds_every_output():
    _, Y = label_sets()
    curve = perfect_h_curve("tanimoto", Y, [1, 120], Y_val=Y[::7], random_state=0)
    assert_allclose(curve.table["mean_similarity"][1], 1.0)
    assert curve.table["mean_similarity"][0] < 1.0
    as_sparse = perfect_h_curve(
        "tanimoto", sparse.csr_matrix(Y), [1, 120], Y_val=sparse.csr_matrix(Y[::7]), random_state=0
    )
    for name, values in curve.table.items():
        assert_allclose(as_sparse.table[name], values, atol=1e-12)


def test_candidates_are_the_pool():
    Y = np.eye(3)
    curve = perfect_h_curve("cosine", Y, [3], Y_val=Y[:2], candidates=[[1.0, 1.0, 0.0]])
    assert_allclose(curve.table["mean_similarity"], np.sqrt(0.5))


def test_held_out_outputs_are_a_fifth_and_not_drawn_from():
    # objects orthogonal to all others: what is held out lies outside every span
    curve = perfect_h_curve("linear", np.eye(20), [16], random_state=0)
    assert_allclose(curve.table["mean_mse"], 1.0)
    with pytest.warns(UserWarning, match="sizes=17 is larger than the number of rows, 16; using"):
        assert_array_equal(perfect_h_curve("linear", np.eye(20), [17]).table["size"], [16])


def test_a_size_does_not_depend_on_the_others():
    Y = rows(60, 5)
    both = perfect_h_curve("gaussian", Y, [4, 20], random_state=3).table
    alone = perfect_h_curve("gaussian", Y, [20], random_state=3).table
    for name in both:
        assert_allclose(both[name][1:], alone[name])


def test_curve_leaves_the_sketch_alone_and_shows_progress(capsys):
    sketch = PSparsified(3, p=0.5)
    perfect_h_curve("linear", low_rank(), [5], sketch=sketch, n_draws=2, verbose=True)
    assert sketch.size == 3
    assert "2/2" in capsys.readouterr().err
    perfect_h_curve("linear", low_rank(), [5], sketch=sketch)
    assert capsys.readouterr().err == ""


def test_best_size_weighs_errors_by_the_norm():
    table = {"size": np.array([1, 2, 3]), "mean_mse": np.array([5.0, 1.5, 1.0])}
    curve = PerfectHCurve(table, mean_norm=100.0)
    assert [curve.best_size(t) for t in (0.0, 0.004, 0.005, 0.04)] == [3, 3, 2, 1]
    decoded = {"mean_similarity": np.array([0.9, 0.95, 0.94])}
    curve = PerfectHCurve(table | decoded, mean_norm=100.0)
    assert [curve.best_size(t) for t in (0.0, 0.04, 0.06)] == [2, 2, 1]


def test_errors_of_perfect_h_curve():
    with pytest.raises(ValueError, match="sketch must be a sketch or its name"):
        perfect_h_curve("linear", np.eye(5), [2], sketch=None)
    with pytest.raises(ValueError, match="Did you mean 'subsample'"):
        perfect_h_curve("linear", np.eye(5), [2], sketch="subsampel")
    with pytest.raises(ValueError, match="sizes must have at least one sketch size"):
        perfect_h_curve("linear", np.eye(5), [])
    with pytest.raises(ValueError, match=r"sizes must be an integer >= 1. Got 0"):
        perfect_h_curve("linear", np.eye(5), [0])
    with pytest.raises(TypeError, match=r"sizes must be an integer >= 1. Got 2.5"):
        perfect_h_curve("linear", np.eye(5), [2.5])
    with pytest.raises(ValueError, match="n_draws must be an integer >= 1"):
        perfect_h_curve("linear", np.eye(5), [2], n_draws=0)
    for Y, Y_val in ((np.ones((1, 2)), None), (np.eye(2), np.empty((0, 2)))):
        with pytest.raises(ValueError, match="one training and one validation output"):
            perfect_h_curve("linear", Y, [1], Y_val=Y_val)


# A tolerance -------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [0.3, 0.05, 1e-3])
@pytest.mark.parametrize("kernel", [Gaussian(0.2), Laplacian(0.1), "gaussian"], ids=str)
def test_size_is_the_first_that_keeps_to_the_tolerance(kernel, tolerance):
    X = rows(150)
    found = choose_sketch_size(kernel, X, tolerance, random_state=0)
    assert int(found) == found.size
    assert found.errors[found.size] <= tolerance < found.errors[found.size - 1]
    assert found.errors[0] == 1.0
    assert np.all(np.diff(found.errors) <= 0.0)
    # no fewer landmarks than eigenvectors would need; few more than the sketch itself would
    resolved = KernelBasis(kernel).fit(X).kernel_
    values = np.linalg.eigvalsh(resolved(X))[::-1]
    assert found.size > np.sum(1.0 - np.cumsum(values) / values.sum() > tolerance)
    drawn = PivotedCholesky(found.size)
    errors = [
        reconstruction_error(KernelBasis(resolved, drawn, random_state=s).fit(X), X) ** 2
        for s in range(5)
    ]
    assert np.mean(errors) < 1.5 * tolerance


def test_errors_of_all_landmarks_are_those_of_the_basis():
    X = rows(100)
    found = choose_sketch_size(Gaussian(0.1), X, 1e-6, max_size=100, random_state=0)
    assert found.errors[-1] <= 1e-6
    single = choose_sketch_size(Gaussian(0.1), X, 0.9, max_size=1, random_state=0)
    # one landmark: the error is 1 - mean k(x, landmark)^2
    K = Gaussian(0.1)(X)
    assert np.min(np.abs(single.errors[1] - (1.0 - np.mean(K**2, axis=0)))) < 1e-12


def test_finite_rank_and_duplicates():
    assert choose_sketch_size("linear", low_rank(300, 5), 1e-9, random_state=0).size == 5
    X = np.repeat(rows(6), 30, axis=0)
    assert choose_sketch_size(Gaussian(5.0), X, 1e-9, random_state=0).size == 6


def test_more_rows_than_the_sketch_looks_at():
    X = rows(20_500, 2)
    found = choose_sketch_size(Gaussian(0.1), X, 0.01, random_state=0)
    assert found.errors[found.size] <= 0.01


def test_landmarks_enough_for_some_rows_may_not_be_for_all(monkeypatch):
    X, tolerances = rows(2000, 2), []

    def among_few(size, tol):
        tolerances.append(tol)
        return PivotedCholesky(size, tol, max_rows=100)

    monkeypatch.setattr("skout.theory.sizes.PivotedCholesky", among_few)
    found = choose_sketch_size(Gaussian(0.3), X, 0.01, max_size=90, random_state=0)
    assert len(tolerances) > 1
    assert found.errors[found.size] <= 0.01 < found.errors[found.size - 1]


def test_a_tolerance_out_of_reach_warns():
    X = rows(100)
    with pytest.warns(UserWarning, match="7 landmarks leave a relative error of .* > 0.001: raise"):
        found = choose_sketch_size(Laplacian(1.0), X, 1e-3, max_size=7, random_state=0)
    assert found.size == 7
    assert len(found.errors) == 8


def test_size_follows_the_seed_and_is_an_int():
    X = rows(200)
    sizes = [choose_sketch_size(Laplacian(0.3), X, 0.1, random_state=s) for s in (0, 0, 1)]
    assert_array_equal(sizes[0].errors, sizes[1].errors)
    assert not np.array_equal(sizes[0].errors, sizes[2].errors)
    assert len(range(sizes[0])) == sizes[0].size
    assert SubSample(int(sizes[0])).draw(200, np.random.default_rng(0)).shape[0] == int(sizes[0])
    assert "errors" not in repr(sizes[0])


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -1.0])
def test_errors_of_choose_sketch_size(tolerance):
    with pytest.raises(ValueError, match="tolerance must lie strictly between 0 and 1"):
        choose_sketch_size("linear", np.eye(3), tolerance)


def test_recursive_scores_find_what_a_uniform_sample_overlooks():
    rng = np.random.default_rng(0)
    Z = np.r_[rng.standard_normal((2000, 2)), rng.standard_normal((4, 2)) + 40.0]
    kernel = Gaussian(gamma=0.05)
    exact = np.asarray(leverage_scores(kernel, Z, 1e-3, n_pilot=len(Z)))
    ours = leverage_scores(kernel, Z, 1e-3, n_pilot=120, random_state=1, method="recursive")
    plain = leverage_scores(kernel, Z, 1e-3, n_pilot=120, random_state=1)
    assert np.asarray(plain)[-4:].max() < 0.05 * exact[-4:].min()  # none of the four was drawn
    ratio = np.asarray(ours) / exact
    assert ratio.min() > 0.5
    assert ratio.max() < 2.0
    assert ours.effective_dimension == pytest.approx(exact.sum(), rel=0.2)


@pytest.mark.parametrize("n_pilot", [20, 60, 150, 400])
def test_recursive_scores_are_at_most_the_exact_ones(n_pilot):
    """diag K (K + n alpha I)^-1 by an inverse; the sum is at most the size of the pilot, too."""
    rng = np.random.default_rng(10)
    Z = np.vstack([rng.standard_normal((790, 2)), 6.0 + rng.standard_normal((10, 2))])
    K = np.exp(-0.5 * np.square(Z[:, None] - Z).sum(axis=2))
    exact = np.diag(K @ np.linalg.inv(K + 0.8 * np.eye(800)))
    for seed in range(3):
        options = {"n_pilot": n_pilot, "random_state": seed, "method": "recursive"}
        found = leverage_scores(Gaussian(0.5), Z, 1e-3, **options)
        assert np.all(np.asarray(found) <= exact + 1e-8)
        assert found.effective_dimension <= n_pilot
        if n_pilot >= 60:  # twice the 29 directions that count
            assert found.effective_dimension > 0.85 * exact.sum()
            assert np.median(np.asarray(found)[-10:] / exact[-10:]) > 0.3  # the rare are seen
        if n_pilot >= 150:
            assert_allclose(found, exact, rtol=0.1)


def test_scores_of_all_rows_as_sample_are_exact():
    """With every row drawn, (k_ii - k_i'(K + s I)^-1 k_i) / s is the i-th diagonal entry itself."""
    Z = np.random.default_rng(0).standard_normal((60, 3))
    exact = np.asarray(leverage_scores("gaussian", Z, 1e-2, n_pilot=60))
    recursive = leverage_scores("gaussian", Z, 1e-2, n_pilot=60, method="recursive")
    assert_allclose(recursive, exact, rtol=1e-10)
    with pytest.raises(ValueError, match="method must be"):
        leverage_scores("gaussian", Z, method="musco")


def test_rows_drawn_are_m_in_the_mean():
    for scores in (np.r_[np.ones(5), np.full(95, 0.01)], np.full(100, 0.3), np.arange(100) / 100):
        p = _inclusion(scores, 20)
        assert p.sum() == pytest.approx(20.0)
        assert p.max() <= 1.0
        free = (p < 1.0) & (scores > 0.0)
        assert np.ptp(p[free] / scores[free]) < 1e-12


@pytest.mark.parametrize("as_list", [True, False])
def test_perfect_h_is_judged_by_the_metric_asked_for(as_list):
    words = ["stone", "notes", "tones", "onset", "seton", "steno", "atone", "stove"] * 3
    words = words if as_list else np.array(words, dtype=object)
    seen = []

    def first_letter(truth, found):
        seen.append((list(truth), list(found)))
        return float(np.mean([a[0] == b[0] for a, b in zip(truth, found, strict=True)]))

    options = {"Y_val": words[:8], "n_draws": 2, "random_state": 0}
    curve = perfect_h_curve("ngram", words, [2, 24], metric=first_letter, **options)
    assert curve.criterion == "score"
    assert len(seen) == 4
    assert all(truth == list(words[:8]) for truth, _ in seen)
    means = [np.mean([a[0] == b[0] for a, b in zip(*pair, strict=True)]) for pair in seen]
    assert_allclose(curve.table["mean_score"], np.reshape(means, (2, 2)).mean(axis=1))
    assert curve.table["mean_score"][1] == 1.0


def test_reciprocal_ranks_of_the_perfect_h():
    Y = low_rank(40, 4)
    curve = perfect_h_curve(
        "gaussian", Y, [3, 12], Y_val=Y[:9], metric="mrr", random_state=0, n_draws=1
    )
    for size, found in zip(curve.table["size"], curve.table["mean_score"], strict=True):
        seed = np.random.default_rng(0).integers(2**31, size=1)[0]
        kernel = Gaussian().resolve(Y, np.random.default_rng(0))
        basis = KernelBasis(kernel, SubSample(int(size)), random_state=int(seed)).fit(Y)
        scores = basis.transform(Y[:9]) @ basis.transform(Y).T
        ranks = 1 + (scores > scores[np.arange(9), np.arange(9)][:, None] + 1e-12).sum(axis=1)
        assert found == pytest.approx(np.mean(1 / ranks), abs=1e-9)
    with pytest.raises(ValueError, match="metric"):
        perfect_h_curve("gaussian", Y, [3], metric="no such")


# A time budget -----------------------------------------------------------------------------------


def sine(n=200):
    X = np.random.default_rng(0).uniform(-3, 3, (n, 1))
    return X, np.sin(2 * X[:, 0])


def test_search_scores_what_is_held_out():
    X, y = sine()
    model = KernelRidge("gaussian", "subsample", alpha=1e-6, random_state=0)
    cv = ShuffleSplit(3, test_size=0.25, random_state=1)
    search = sketch_size_search(model, X, y, [30, 2, 10], cv=cv)
    table = search.table
    assert_array_equal(table["sketch__size"], [2, 10, 30])
    expected = []
    for train, test in cv.split(X):
        sized = KernelRidge("gaussian", SubSample(10), alpha=1e-6, random_state=0)
        train = np.sort(train)  # the sketch is drawn from rows in their order
        expected.append(sized.fit(X[train], y[train]).score(X[test], y[test]))
    assert_allclose(table["mean_score"][1], np.mean(expected))
    assert_allclose(table["std_score"][1], np.std(expected))
    assert np.all(table["fit_seconds"] > 0.0)
    assert np.all(table["predict_seconds"] > 0.0)
    assert table["within_budget"].all()
    assert search.budget_seconds == np.inf
    best = int(np.argmax(table["mean_score"]))
    assert search.best_sizes_ == (table["sketch__size"][best],)
    assert model.sketch == "subsample"  # as it was
    assert model.set_params(**search.best_params_).fit(X, y).score(X, y) > 0.99


def test_search_holds_out_a_fifth_by_default(monkeypatch):
    X, y = sine(50)
    seen = []

    def spy(model, X, y, cv, **options):
        seen.append(cv)
        return cross_validate(model, X, y, cv=cv, **options)

    monkeypatch.setattr("skout.theory.sizes.cross_validate", spy)
    sketch_size_search(KernelRidge(sketch="subsample"), X, y, [2, 3], random_state=0)
    ((train, test),) = seen[0]
    assert (len(train), len(test)) == (40, 10)
    assert_array_equal(seen[1][0][1], test)


def test_search_sizes_both_sides_of_sisokr():
    X, Y = label_sets()
    model = sisokr("gaussian", "tanimoto", random_state=0)
    search = sketch_size_search(model, X, Y, [(20, 5), (5, 5), (20, 15), (20, 5)], random_state=0)
    assert_array_equal(search.table["regressor__sketch__size"], [5, 20, 20])
    assert_array_equal(search.table["output_basis__sketch__size"], [5, 5, 15])
    m_x, m_y = search.best_sizes_
    assert search.best_params_["regressor__sketch"].get_params()["size"] == m_x
    assert isinstance(search.best_params_["output_basis__sketch"], PSparsified)
    model.set_params(**search.best_params_).fit(X, Y)
    assert model.regressor_.basis_.rank_ <= m_x
    assert model.output_basis_.rank_ <= m_y
    both = sketch_size_search(model, X, Y, [5, 10], random_state=0)
    assert_array_equal(both.table["output_basis__sketch__size"], [5, 10])
    assert_array_equal(both.table["regressor__sketch__size"], [5, 10])


def test_search_with_one_sketch_inside_a_pipeline_and_of_a_classifier():
    X, Y = label_sets()
    only_output = iokr("gaussian", "tanimoto", output_sketch=PSparsified(p=0.5), random_state=0)
    search = sketch_size_search(only_output, X, Y, [4, 8], random_state=0)
    assert list(search.best_params_) == ["output_basis__sketch"]
    assert search.best_params_["output_basis__sketch"].p == 0.5
    ridge = make_pipeline(StandardScaler(), KernelRidge(sketch="subsample", random_state=0))
    piped = StructuredPredictor(ridge, KernelBasis("tanimoto", "gaussian", random_state=0))
    search = sketch_size_search(piped, X, Y.tolist(), [(9, 4)], random_state=0)
    assert list(search.best_params_) == ["regressor__kernelridge__sketch", "output_basis__sketch"]
    assert search.best_sizes_ == (9, 4)
    order = np.argsort(Y[:, 3], kind="stable")  # folds of rows in this order see one class only
    X, labels = X[order], Y[order, 3].astype(int)
    classifier = KernelClassifier(sketch="subsample", random_state=0)
    search = sketch_size_search(classifier, X, labels, [10], cv=2, scoring="balanced_accuracy")
    assert 0.8 < search.table["mean_score"][0] <= 1.0


def with_times(monkeypatch, seconds, scores):
    """Let a trial take `seconds(sizes)`, half of it to fit, and score `scores(sizes)`."""
    tried = []

    def fake(model, *_, **__):
        params = model.get_params()
        sizes = [params[n] for n in ("regressor__sketch__size", "output_basis__sketch__size")]
        tried.append(tuple(sizes))
        half = np.array([seconds(*sizes) / 2])
        return {"fit_time": half, "score_time": half, "test_score": np.array([scores(*sizes)])}

    monkeypatch.setattr("skout.theory.sizes.cross_validate", fake)
    return tried


def test_search_stops_at_the_budget(monkeypatch):
    X, Y = label_sets()
    tried = with_times(monkeypatch, lambda a, b: a / 10, lambda a, b: a)
    search = sketch_size_search(sisokr(), X, Y, [10, 20, 30, 40, 50], budget_seconds=3.0)
    assert [a for a, _ in tried] == [10, 20, 30, 40]  # 40 goes over, 50 is not tried
    assert_array_equal(search.table["within_budget"], [True, True, True, False])
    assert search.best_sizes_ == (30, 30)


def test_search_of_pairs_leaves_out_only_what_is_larger_on_both_sides(monkeypatch):
    X, Y = label_sets()
    tried = with_times(monkeypatch, lambda a, b: a / 10, lambda a, b: -abs(b - 40))
    pairs = [(40, 5), (40, 20), (5, 40), (10, 40), (50, 50), (5, 80)]
    search = sketch_size_search(sisokr(), X, Y, pairs, budget_seconds=2.0)
    assert tried == [(5, 40), (40, 5), (10, 40), (5, 80)]
    assert search.best_sizes_ == (5, 40)  # the smaller of two that score alike


@pytest.mark.parametrize("side", ["fit_seconds", "predict_seconds"])
def test_fit_and_predict_have_budgets_of_their_own(monkeypatch, side):
    X, Y = label_sets()
    tried = with_times(monkeypatch, lambda a, b: a / 10, lambda a, b: a)  # half of it on each side
    search = sketch_size_search(sisokr(), X, Y, [10, 20, 30, 40, 50], **{side: 1.2})
    assert [a for a, _ in tried] == [10, 20, 30]
    assert search.best_sizes_ == (20, 20)
    with pytest.raises(ValueError, match=f"{side} must be a finite number >= 0"):
        sketch_size_search(sisokr(), X, Y, [3], **{side: -1})


def test_a_budget_that_nothing_keeps_to_warns(monkeypatch):
    X, Y = label_sets()
    with_times(monkeypatch, lambda a, b: a, lambda a, b: a)
    with pytest.warns(UserWarning, match=r"No sketch size keeps to budget_seconds=0.5"):
        search = sketch_size_search(sisokr(), X, Y, [(2, 9), (9, 2), (9, 9)], budget_seconds=0.5)
    assert search.best_sizes_ == (2, 9)
    assert len(search.table["mean_score"]) == 2


def test_search_uses_the_scoring_and_leaves_the_model_alone():
    X, y = sine(40)
    model = KernelRidge(sketch=SubSample(7))

    def scoring(fitted, X, _y):
        return 0.5 * len(X) + fitted.sketch.size

    search = sketch_size_search(model, X, y, [2, 3], scoring=scoring)
    assert_allclose(search.table["mean_score"], [6.0, 7.0])
    assert search.best_params_["sketch"].size == 3
    assert model.sketch.size == 7

    def broken(*_):
        raise ZeroDivisionError("no score")

    with pytest.raises(ZeroDivisionError, match="no score"):  # rather than a score of nan
        sketch_size_search(model, X, y, [2, 3], scoring=broken)


def test_search_shows_progress(capsys):
    X, y = sine(40)
    sketch_size_search(KernelRidge(sketch="subsample"), X, y, [2, 3], verbose=True)
    assert "2/2" in capsys.readouterr().err


def test_errors_of_the_search():
    X, Y = label_sets()
    for model in (KernelRidge(), iokr()):
        with pytest.raises(ValueError, match=r"has no sketch to size: give it one, e.g."):
            sketch_size_search(model, X, Y, [3])
    with pytest.raises(ValueError, match="tuples of 1, the sizes of output_basis__sketch"):
        sketch_size_search(iokr(output_sketch="subsample"), X, Y, [(3, 4)])
    with pytest.raises(ValueError, match="sizes must have at least one"):
        sketch_size_search(sisokr(), X, Y, [])
    with pytest.raises(TypeError, match=r"sizes must be an integer >= 1. Got 1.5"):
        sketch_size_search(sisokr(), X, Y, [1.5])
    with pytest.raises(ValueError, match="budget_seconds must be a finite number >= 0"):
        sketch_size_search(sisokr(), X, Y, [3], budget_seconds=-1)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        sketch_size_search(sisokr(), X, Y[:-1], [3])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        sketch_size_search(sisokr(), X * np.nan, Y, [3])


# The penalty -------------------------------------------------------------------------------------


def test_alpha_of_sisokr_is_chosen_in_the_output_coordinates():
    X, Y = label_sets()
    X = X + 0.5 * rows(len(X), 2, seed=9)
    alphas = [1e-8, 1e-4, 1e-2, 1e-1, 10.0]
    model = sisokr(
        Gaussian(2.0),
        Tanimoto(),
        input_sketch=SubSample(40),
        output_sketch=SubSample(8),
        alpha=alphas,
        scoring="coordinates",
        random_state=0,
    )
    model.set_params(regressor__cv=KFold(5)).fit(X, Y)
    Z, T = model.regressor_.basis_.transform(X), model.output_basis_.transform(Y)
    errors = np.zeros((5, len(alphas)))
    for k, (train, test) in enumerate(KFold(5).split(X)):
        for j, alpha in enumerate(alphas):
            A = Z[train].T @ Z[train] + len(train) * alpha * np.eye(Z.shape[1])
            coef = np.linalg.solve(A, Z[train].T @ T[train])
            errors[k, j] = np.mean((Z[test] @ coef - T[test]) ** 2)
    best = int(np.argmin(errors.mean(axis=0)))
    assert 0 < best < len(alphas) - 1  # not at an end, which a wrong rule might take by luck
    assert model.regressor_.alpha_ == alphas[best]
    assert_allclose(model.regressor_.cv_results_["fold_loss"], errors, rtol=1e-5)


# Plots -------------------------------------------------------------------------------------------


def results():
    X, y = sine(60)
    ridge = KernelRidge(sketch="subsample", random_state=0)
    return {
        "leverage": leverage_scores("gaussian", X),
        "perfect h": perfect_h_curve("gaussian", X, [2, 5]),
        "perfect h, not decoded": perfect_h_curve("gaussian", X, [2, 5], decode=False),
        "tolerance": choose_sketch_size("gaussian", X),
        "search": sketch_size_search(ridge, X, y, [2, 5]),
        "search in a budget": sketch_size_search(ridge, X, y, [2, 5], budget_seconds=100.0),
    }


def test_plots_return_their_axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    for name, result in results().items():
        ax = result.plot()
        assert ax.get_xlabel(), name
        assert ax.get_ylabel(), name
        _, given_ax = plt.subplots()
        assert result.plot(given_ax) is given_ax
        assert given_ax is not ax
        ax.figure.canvas.draw()
        plt.close("all")


def test_plots_show_the_numbers():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    scores = leverage_scores("gaussian", rows())
    heights = scores.plot(k=10).lines[0].get_ydata()
    assert_allclose(heights, np.sort(scores)[::-1][:10])
    search = results()["search in a budget"]
    ax = search.plot()
    assert [text.get_text() for text in ax.texts] == ["2", "5"]
    assert any(np.allclose(line.get_xdata(), 100.0) for line in ax.lines)
    plt.close("all")


def test_plots_without_matplotlib_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "skout\[plot\]'):
        leverage_scores("gaussian", rows()).plot()
