"""The whole pipeline against the raw formulas of the thesis, and how a user meets it."""

import pickle

import numpy as np
import oracles_predictor as oracle
import pytest
from extras import extra
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import kendalltau
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skout import (
    Ensemble,
    InducedMachine,
    KernelBasis,
    KernelRidge,
    StructuredPredictor,
    iokr,
    sisokr,
)
from skout.decoding import CandidateDecoder
from skout.kernels import Gaussian, Linear, NGram, Polynomial, Tanimoto
from skout.metrics import example_f1
from skout.sketches import SKETCHES, SubSample

pd = extra("pandas")

LAM = 1e-2
SKETCH_NAMES = [name for name, cls in SKETCHES.items() if not cls(5).needs_gram]

OUTPUT_KERNELS = {
    "gaussian": (Gaussian(0.3), lambda A, B: oracle.gaussian(A, B, 0.3)),
    "linear": (Linear(), oracle.linear),
    "polynomial": (
        Polynomial(degree=2, gamma=0.5, coef0=1.0),
        lambda A, B: oracle.polynomial(A, B, 2, 0.5, 1.0),
    ),
}
INPUT_KERNELS = {
    "gaussian": (Gaussian(0.5), lambda A, B: oracle.gaussian(A, B, 0.5)),
    "linear": (Linear(), oracle.linear),
}
VARIANTS = ["iokr", "siokr", "isokr", "sisokr"]


def problem(seed, n=30, n_te=7, n_c=12, duplicates=False):
    """Inputs, outputs, test inputs and a pool that is not the training outputs."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, 3)), rng.standard_normal((n, 4))
    if duplicates:
        X[n // 2 :] = X[: n - n // 2]
        Y[::3] = Y[0]
    return X, Y, rng.standard_normal((n_te, 3)), rng.standard_normal((n_c, 4))


def all_scores(model, X, candidates):
    """S of (4.6) and (4.11), undoing the sort and the norm term of `rank`."""
    indices, scores = model.rank(X, candidates, k=len(candidates))
    S = np.empty_like(scores)
    np.put_along_axis(S, indices, scores, axis=1)
    kernel = model.output_basis_.kernel_
    return (S + kernel.diag(kernel.encode(candidates))) / 2.0


def raw_scores(variant, sketch, model, kernels, X, Y, X_te, C):
    """S from the formula of the variant; R is drawn as the library draws it."""
    k_X, k_Y = kernels
    K, K_te, K_Y, K_Yc = k_X(X, X), k_X(X_te, X), k_Y(Y, Y), k_Y(Y, C)
    R_X, R_Y = (
        sketch.draw(len(X), np.random.default_rng(side.random_state)).toarray()
        for side in (model.regressor, model.output_basis)
    )
    if variant == "iokr":
        return oracle.iokr_scores(K_te, K, K_Yc, LAM)
    if variant == "siokr":
        return oracle.siokr_scores(K_te, K, K_Yc, R_X, LAM)
    if variant == "isokr":
        return oracle.isokr_scores(K_te, K, K_Y, K_Yc, R_Y, LAM)
    return oracle.sisokr_scores(K_te, K, K_Y, K_Yc, R_X, R_Y, LAM)


def build(variant, sketch, seed, k_X, k_Y):
    return iokr(
        k_X,
        k_Y,
        input_sketch=sketch if variant in ("siokr", "sisokr") else None,
        output_sketch=sketch if variant in ("isokr", "sisokr") else None,
        alpha=LAM,
        random_state=seed,
    )


def check_variant(variant, sketch, seed, input_kernel, output_kernel, duplicates):
    X, Y, X_te, C = problem(seed, duplicates=duplicates)
    k_X, raw_k_X = INPUT_KERNELS[input_kernel]
    k_Y, raw_k_Y = OUTPUT_KERNELS[output_kernel]
    model = build(variant, sketch, seed, k_X, k_Y).fit(X, Y)
    distinct = np.array(list(dict.fromkeys(map(tuple, Y))))
    for pool, given_pool in [(C, C), (distinct, None)]:
        S = raw_scores(variant, sketch, model, (raw_k_X, raw_k_Y), X, Y, X_te, pool)
        norms = np.array([raw_k_Y(c[None], c[None])[0, 0] for c in pool])
        size = max(np.abs(S).max(), norms.max())
        assert_allclose(all_scores(model, X_te, pool), S, atol=1e-8 * size, rtol=0)
        assert_array_equal(model.predict(X_te, given_pool), pool[oracle.decode(S, norms)])


# The exact variant draws no sketch: one name stands for all.
CASES = [
    (v, name) for v in VARIANTS for name in (SKETCH_NAMES if v != "iokr" else SKETCH_NAMES[:1])
]


@pytest.mark.parametrize("duplicates", [False, True], ids=["distinct", "duplicates"])
@pytest.mark.parametrize("output_kernel", OUTPUT_KERNELS)
@pytest.mark.parametrize(("variant", "sketch"), CASES)
def test_variants_equal_the_raw_formulas(variant, sketch, output_kernel, duplicates):
    check_variant(variant, SKETCHES[sketch](8), 0, "gaussian", output_kernel, duplicates)


@pytest.mark.parametrize("output_kernel", OUTPUT_KERNELS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_with_a_rank_deficient_input_kernel(variant, output_kernel):
    for name in [name for v, name in CASES if v == variant]:
        check_variant(variant, SKETCHES[name](8), 3, "linear", output_kernel, True)


@given(
    variant=st.sampled_from(VARIANTS),
    sketch=st.sampled_from(SKETCH_NAMES),
    size=st.integers(1, 20),
    seed=st.integers(0, 2**16),
    output_kernel=st.sampled_from(list(OUTPUT_KERNELS)),
    duplicates=st.booleans(),
)
def test_variants_on_any_sketch_size(variant, sketch, size, seed, output_kernel, duplicates):
    check_variant(variant, SKETCHES[sketch](size), seed, "gaussian", output_kernel, duplicates)


def test_two_different_sketches():
    X, Y, X_te, C = problem(5)
    s_X, s_Y = SKETCHES["subsample"](9), SKETCHES["gaussian"](6)
    model = StructuredPredictor(
        KernelRidge(Gaussian(0.5), s_X, alpha=LAM, random_state=1),
        KernelBasis(Linear(), s_Y, random_state=2),
    ).fit(X, Y)
    R_X = s_X.draw(len(X), np.random.default_rng(1)).toarray()
    R_Y = s_Y.draw(len(X), np.random.default_rng(2)).toarray()
    K_te, K = oracle.gaussian(X_te, X, 0.5), oracle.gaussian(X, X, 0.5)
    S = oracle.sisokr_scores(K_te, K, Y @ Y.T, Y @ C.T, R_X, R_Y, LAM)
    assert_allclose(all_scores(model, X_te, C), S, atol=1e-8 * np.abs(S).max(), rtol=0)


def test_sketches_of_all_rows_are_the_exact_model():
    X, Y, X_te, C = problem(4)
    exact = iokr(Gaussian(0.5), Polynomial(degree=2), alpha=LAM).fit(X, Y)
    full = SubSample(len(X))
    sketched = clone(exact).set_params(regressor__sketch=full, output_basis__sketch=full).fit(X, Y)
    assert_allclose(all_scores(sketched, X_te, C), all_scores(exact, X_te, C), rtol=1e-8)


def test_scores_do_not_depend_on_the_whitening():
    X, Y, X_te, C = problem(6)
    model = sisokr(Gaussian(0.5), Linear(), alpha=LAM, random_state=0)
    other = clone(model).set_params(output_basis__whiten="eigh")
    assert_allclose(
        all_scores(model.fit(X, Y), X_te, C), all_scores(other.fit(X, Y), X_te, C), atol=1e-9
    )


def test_far_away_candidate_is_not_chosen():
    # 2 <f, c> grows with the length of c: without k(c, c) the longest candidate wins everywhere
    X, Y, X_te, _ = problem(0)
    model = iokr(Gaussian(0.5), "linear", alpha=LAM).fit(X, Y)
    huge = 1e4 * np.array([[1, 0, 0, 0], [-1, 0, 0, 0], [0, 1, 0, 0], [0, -1, 0, 0.0]])
    pool = np.vstack([huge, Y[:5]])
    indices, scores = model.rank(X_te, pool, k=len(pool))
    assert (indices[:, :5] >= 4).all()
    assert (scores[:, 5:] < -1e7).all()


def test_rank_is_sorted_and_starts_with_the_prediction():
    X, Y, X_te, C = problem(1)
    model = iokr(Gaussian(0.5), Linear(), alpha=LAM).fit(X, Y)
    indices, scores = model.rank(X_te, C)
    assert indices.shape == scores.shape == (len(X_te), 10)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert_array_equal(C[indices[:, 0]], model.predict(X_te, C))
    first, _ = model.rank(X_te, k=1)
    assert_array_equal(model.decoder_.pool_[first[:, 0]], model.predict(X_te))


def test_predict_coordinates_are_those_of_the_regressor():
    X, Y, X_te, _ = problem(2)
    model = sisokr(Gaussian(0.5), Gaussian(0.5), random_state=0).fit(X, Y)
    F = model.predict_coordinates(X_te)
    assert F.shape == (len(X_te), model.output_basis_.rank_)
    assert_array_equal(F, model.regressor_.predict(X_te))


# Score -------------------------------------------------------------------------------------------


def test_score_is_one_for_perfect_predictions():
    X, Y, _, _ = problem(3)
    model = iokr(Gaussian(5.0), Gaussian(0.5), alpha=1e-9).fit(X, Y)
    assert_array_equal(model.predict(X), Y)
    assert_allclose(model.score(X, Y), 1.0, rtol=1e-12)


@pytest.mark.parametrize("kernel", ["gaussian", "tanimoto", "f1"])
def test_score_of_non_negative_kernels_lies_in_the_unit_interval(kernel):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 2)), rng.integers(0, 2, (40, 5)).astype(float)
    score = iokr(Gaussian(1.0), kernel).fit(X[:30], Y[:30]).score(X[30:], Y[30:])
    assert 0.0 < score < 1.0


def test_kernel_similarity_is_scored_on_request():
    X, Y, X_te, C = problem(3)
    model = iokr(Gaussian(0.5), Linear()).fit(X, Y)
    truth, found = C[: len(X_te)], model.predict(X_te)
    cosine = [a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in zip(truth, found, strict=True)]
    assert_allclose(model.score(X_te, truth, scoring="kernel"), np.mean(cosine))
    with pytest.raises(ValueError, match="Did you mean 'kernel'"):
        model.score(X_te, truth, scoring="kernels")


def label_sets(seed=0, n=60):
    """Inputs of four groups, whose label sets differ."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.column_stack([X > 0, (X > 0).any(axis=1), X[:, 0] > X[:, 1]]).astype(float)


def test_the_score_does_not_judge_by_the_kernel_that_is_tuned():
    X, Y = grid_problem()
    gammas = [1e-8, 1e-6, 1e-4, 1e-2, 1.0]
    model = iokr(Gaussian(1.0), Gaussian(), alpha=1e-4)
    for gamma in gammas:
        model.set_params(output_basis__kernel__gamma=gamma).fit(X[:40], Y[:40])
        expected = r2_score(Y[40:], model.predict(X[40:]), multioutput="variance_weighted")
        assert_allclose(model.score(X[40:], Y[40:]), expected, rtol=1e-12)
    grid = {"output_basis__kernel__gamma": gammas}
    scores = GridSearchCV(model, grid, cv=3).fit(X, Y).cv_results_["mean_test_score"]
    assert np.argmax(scores) > 0  # the smallest gamma makes all objects alike


SCORES = {
    "sets": ("f1", lambda Y, P: example_f1(Y, P)),
    "sets by another kernel": ("tanimoto", lambda Y, P: example_f1(Y, P)),
    "0/1 vectors": (Gaussian(0.3), lambda Y, P: example_f1(Y, P)),
    "sum": (Gaussian(0.3) + Linear(), lambda Y, P: example_f1(Y, P)),
    "own function": (lambda A, B: A @ B.T, lambda Y, P: np.mean((Y == P).all(axis=1))),
    "Gaussian process": (RBF(), lambda Y, P: example_f1(Y, P)),
}


@pytest.mark.parametrize("name", SCORES)
def test_score_is_the_metric_of_the_kind(name):
    kernel, metric = SCORES[name]
    X, Y = label_sets()
    model = iokr(Gaussian(1.0), kernel).fit(X[:40], Y[:40])
    found = model.predict(X[40:])
    assert 0.0 < metric(Y[40:], found) < 1.0
    assert_allclose(model.score(X[40:], Y[40:]), metric(Y[40:], found))


def test_score_of_rankings_strings_graphs_and_candidate_sets():
    X, _ = label_sets()
    ranks = np.argsort(np.argsort(np.column_stack([X, X.sum(axis=1)]), axis=1), axis=1)
    model = iokr(Gaussian(1.0), "lehmer").fit(X[:40], ranks[:40])
    found = model.predict(X[40:])
    expected = np.mean([kendalltau(a, b)[0] for a, b in zip(ranks[40:], found, strict=True)])
    assert_allclose(model.score(X[40:], ranks[40:]), expected)

    words = ["ab" if x > 0 else "b" for x in X[:, 0]]
    for n in (1, 2):  # any n of the model's kernel: the metric has its own
        model = iokr(Gaussian(1.0), NGram(n, short="keep"), alpha=10.0).fit(X[:40], words[:40])
        found = model.predict(X[40:])
        shared = [
            1.0 if a == b else 1.0 / np.sqrt(3.0) for a, b in zip(words[40:], found, strict=True)
        ]
        assert_allclose(model.score(X[40:], words[40:]), np.mean(shared))

    graphs = ["CCO" if x > 0 else "CCN" for x in X[:, 0]]
    scores = [
        iokr(Gaussian(1.0), kernel).fit(X[:40], graphs[:40]).score(X[40:], graphs[40:])
        for kernel in ("vertex_histogram", "shortest_path")
    ]
    assert scores[0] == scores[1]

    sets = [["CCO", "CCN"]] * 20
    ranker = iokr(Gaussian(1.0), "shortest_path").fit(X[:40], graphs[:40])
    ranks = ranker.truth_ranks(X[40:], graphs[40:], sets)
    assert_allclose(ranker.score(X[40:], graphs[40:], sets), np.mean(1.0 / ranks))
    assert 0.5 < np.mean(1.0 / ranks) < 1.0


def test_score_takes_a_metric():
    X, Y = label_sets()
    model = iokr(Gaussian(1.0), "f1").fit(X[:40], Y[:40])
    found = model.predict(X[40:])
    same = np.mean((found == Y[40:]).all(axis=1))
    assert model.score(X[40:], Y[40:], scoring="subset_accuracy") == same
    assert model.score(X[40:], Y[40:], scoring=lambda A, B: -np.abs(A - B).max()) == -1.0


# Grid search and other regressors ----------------------------------------------------------------


def grid_problem():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 1))
    return X, np.column_stack([np.sin(2 * X[:, 0]), np.cos(2 * X[:, 0])])


def test_nested_grid_search_changes_the_model():
    X, Y = grid_problem()
    grid = {"regressor__kernel__gamma": [1e-6, 1.0], "output_basis__kernel__gamma": [0.1, 1.0]}
    cv = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(iokr(Gaussian(), Gaussian()), grid, cv=cv).fit(X, Y)
    results = search.cv_results_
    assert search.best_params_["regressor__kernel__gamma"] == 1.0
    assert len(set(results["mean_test_score"])) == 4  # every parameter changes the model
    for params, mean in zip(results["params"], results["mean_test_score"], strict=True):
        scores = []
        for train, test in cv.split(X):
            kernels = [Gaussian(params[name]) for name in grid]
            model = iokr(*kernels).fit(X[train], Y[train])
            scores.append(model.score(X[test], Y[test]))
        assert_allclose(mean, np.mean(scores))
    best = search.best_estimator_
    assert best.regressor_.kernel_.gamma == 1.0
    assert best.output_basis_.kernel_.gamma == search.best_params_["output_basis__kernel__gamma"]


def test_grid_search_over_sketches_and_penalties():
    X, Y = grid_problem()
    grid = {
        "regressor__alpha": [1e-5, 10.0],
        "regressor__sketch": [None, SubSample(10)],
        "output_basis__sketch": [None, SubSample(10)],
    }
    cv = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(iokr(Gaussian(1.0), Gaussian(1.0), random_state=0), grid, cv=cv)
    search.fit(X, Y)
    assert search.best_params_["regressor__alpha"] == 1e-5
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    "regressor",
    [
        RandomForestRegressor(20, random_state=0),
        KNeighborsRegressor(3),
        MultiOutputRegressor(Ridge(1e-3)),
        Ridge(1e-3),
    ],
    ids=lambda r: type(r).__name__,
)
def test_any_regressor_serves(regressor):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2))
    Y = np.where(X[:, :1] > 0, [[1, 0, 1, 0]], [[0, 1, 1, 0]])
    model = StructuredPredictor(regressor, KernelBasis("tanimoto")).fit(X[:60], Y[:60])
    assert model.score(X[60:], Y[60:]) > 0.9
    assert_array_equal(model.predict_coordinates(X), np.asarray(model.regressor_.predict(X)))
    assert regressor.get_params() == model.regressor.get_params()
    assert not hasattr(regressor, "n_features_in_")  # only the clone is fitted


@pytest.mark.parametrize(
    "regressor", [RandomForestRegressor(5, random_state=0), KernelRidge(Gaussian(1.0), alpha=1e-6)]
)
def test_an_output_basis_of_one_function(regressor):
    X, Y, _, _ = problem(0)
    model = StructuredPredictor(regressor, KernelBasis("linear")).fit(X, Y[:, :1])
    assert model.predict_coordinates(X).shape == (30, 1)
    assert model.predict(X).shape == (30, 1)


def test_k_nearest_neighbours_by_hand():
    X, Y, X_te, _ = problem(8)
    model = StructuredPredictor(KNeighborsRegressor(1), KernelBasis(Gaussian(1.0))).fit(X, Y)
    nearest = ((X_te[:, None] - X[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert_array_equal(model.predict(X_te), Y[nearest])


def test_fit_params_reach_the_regressor():
    X, Y, X_te, C = problem(9)
    weights = np.arange(len(X)) % 3
    kept = np.repeat(np.arange(len(X)), weights)
    basis = KernelBasis(Linear())
    model = StructuredPredictor(KernelRidge(Gaussian(0.5), alpha=LAM), basis)
    weighted = clone(model).fit(X, Y, sample_weight=weights)
    repeated = clone(model).fit(X[kept], Y[kept])
    assert_allclose(all_scores(weighted, X_te, C), all_scores(repeated, X_te, C), atol=1e-9)


# Kinds of data -----------------------------------------------------------------------------------

WORDS = ["cat", "cart", "carts", "dog", "dogs", "do", "cat", "bird", "birds", "cats"]


def shared_letters(A, B):
    """Dot products of letter counts."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    counts = [np.array([[word.count(c) for c in letters] for word in words]) for words in (A, B)]
    return (counts[0] @ counts[1].T).astype(float)


@pytest.mark.parametrize("sketch", [None, SubSample(8)])
@pytest.mark.parametrize(
    "container", [list, tuple, np.array, pytest.param(lambda rows: pd.Series(rows), id="Series")]
)
def test_strings_as_outputs(container, sketch):
    X = np.arange(len(WORDS), dtype=float)[:, None]
    X[6] = X[0]
    model = iokr(Gaussian(1.0), shared_letters, output_sketch=sketch, alpha=1e-6, random_state=0)
    model.fit(X, container(WORDS))
    predicted = model.predict(X)
    assert len(predicted) == len(WORDS)
    if sketch is None:
        assert list(predicted) == WORDS
        assert list(model.decoder_.pool_) == list(dict.fromkeys(WORDS))
        assert_allclose(model.score(X, container(WORDS)), 1.0)
    pool = container(["bird", "zzz", "cat"])
    assert set(model.predict(X, pool)) <= set(pool)
    assert list(model.predict(X[:1], pool)) == ["cat"]


def test_strings_on_both_sides():
    model = iokr(shared_letters, shared_letters, alpha=1e-9).fit(WORDS, WORDS)
    assert model.predict(["cat", "bird"]) == ["cat", "bird"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_sparse_inputs_and_outputs(variant):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 6)), rng.integers(0, 2, (40, 5)).astype(float)
    X[rng.random(X.shape) < 0.6] = 0.0
    dense = build(variant, SubSample(10), 0, Gaussian(0.3), Tanimoto()).fit(X, Y)
    S_X, S_Y = sparse.csr_matrix(X), sparse.csr_array(Y)
    thin = build(variant, SubSample(10), 0, Gaussian(0.3), Tanimoto()).fit(S_X, S_Y)
    C = rng.integers(0, 2, (8, 5)).astype(float)
    assert_allclose(all_scores(thin, S_X, C), all_scores(dense, X, C), atol=1e-10)
    predicted = thin.predict(S_X)
    assert sparse.issparse(predicted)
    assert_array_equal(predicted.toarray(), dense.predict(X))
    assert_array_equal(thin.predict(S_X, sparse.csr_array(C)).toarray(), dense.predict(X, C))
    assert_allclose(thin.score(S_X, S_Y), dense.score(X, Y))


def test_data_frames():
    X, Y, X_te, C = problem(2)
    frame_X = pd.DataFrame(X, columns=list("abc"))
    frame_Y = pd.DataFrame(Y, columns=list("pqrs"), index=np.arange(100, 130))
    plain = iokr(Gaussian(0.5), Linear()).fit(X, Y)
    framed = iokr(Gaussian(0.5), Linear()).fit(frame_X, frame_Y)
    predicted = framed.predict(pd.DataFrame(X_te, columns=list("abc")))
    assert isinstance(predicted, np.ndarray)  # a file could hold no frame
    assert_array_equal(predicted, plain.predict(X_te))
    assert_array_equal(framed.truth_ranks(frame_X, frame_Y), plain.truth_ranks(X, Y))
    assert framed.score(frame_X, frame_Y) == plain.score(X, Y)
    pool = pd.DataFrame(C, columns=list("pqrs"))
    found = framed.predict(pd.DataFrame(X_te, columns=list("abc")), pool)
    assert_array_equal(found.to_numpy(), plain.predict(X_te, C))


def test_integer_outputs_come_back_as_they_are():
    X = np.arange(6.0)[:, None]
    Y = np.eye(3, dtype=np.uint8)[[0, 0, 1, 1, 2, 2]]
    predicted = iokr(Gaussian(1.0), "tanimoto").fit(X, Y).predict(X)
    assert predicted.dtype == np.uint8
    assert_array_equal(predicted, Y)


def test_float32_agrees_with_float64():
    X, Y, X_te, C = problem(7)
    double = sisokr(Gaussian(0.5), Linear(), alpha=LAM, random_state=0).fit(X, Y)
    single = sisokr(Gaussian(0.5), Linear(), alpha=LAM, random_state=0)
    single.fit(X.astype(np.float32), Y.astype(np.float32))
    S = all_scores(double, X_te, C)
    found = all_scores(single, X_te.astype(np.float32), C.astype(np.float32))
    assert_allclose(found, S, atol=1e-4 * np.abs(S).max())


# Contract ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_pickle_gives_identical_predictions(variant):
    X, Y, X_te, C = problem(1)
    model = build(variant, SubSample(8), 0, Gaussian(0.5), Linear()).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X_te), model.predict(X_te))
    for ours, theirs in zip(again.rank(X_te, C), model.rank(X_te, C), strict=True):
        assert_array_equal(ours, theirs)


def test_clone_is_unfitted_and_fits_the_same():
    X, Y, X_te, C = problem(1)
    model = sisokr(Gaussian(0.5), Linear(), random_state=0).fit(X, Y)
    other = clone(model)
    assert not hasattr(other, "output_basis_")
    assert repr(other) == repr(model)
    assert_array_equal(all_scores(other.fit(X, Y), X_te, C), all_scores(model, X_te, C))


def test_fit_leaves_the_parts_it_was_given_unfitted():
    X, Y, _, _ = problem(1)
    regressor, basis, decoder = KernelRidge("gaussian"), KernelBasis("gaussian"), CandidateDecoder()
    model = StructuredPredictor(regressor, basis, decoder)
    before = {k: repr(v) for k, v in model.get_params().items()}
    assert model.fit(X, Y) is model
    assert {k: repr(v) for k, v in model.get_params().items()} == before
    for part in (regressor, basis, decoder):
        assert not [name for name in vars(part) if name.endswith("_")]


def test_read_only_inputs_are_left_alone():
    X, Y, X_te, C = problem(1)
    before = [a.copy() for a in (X, Y, X_te, C)]
    for array in (X, Y, X_te, C):
        array.setflags(write=False)
    sisokr(random_state=0).fit(X, Y).predict(X_te, C)
    for old, new in zip(before, (X, Y, X_te, C), strict=True):
        assert_array_equal(old, new)


def both_seeds(random_state):
    sketches = {"input_sketch": SubSample(10), "output_sketch": SubSample(10)}
    return iokr(Gaussian(0.5), Gaussian(0.5), random_state=random_state, **sketches)


SEEDS = {
    "int": lambda: 0,
    "generator": lambda: np.random.default_rng(0),
    "random state": lambda: np.random.RandomState(0),
    "none": lambda: None,
}


@pytest.mark.parametrize("name", SEEDS)
def test_the_two_sides_draw_rows_of_their_own(name):
    _, Y, _, _ = problem(0, n=100)
    model = both_seeds(SEEDS[name]()).fit(Y, Y)
    inputs, outputs = model.regressor_.basis_.landmarks_, model.output_basis_.landmarks_
    shared = {tuple(row) for row in inputs} & {tuple(row) for row in outputs}
    assert len(inputs) == len(outputs) == 10
    assert len(shared) <= 6  # 1 of 10 is expected
    if name != "none":
        again = clone(both_seeds(SEEDS[name]())).fit(Y, Y)
        assert_array_equal(again.output_basis_.landmarks_, outputs)
        assert_array_equal(again.regressor_.basis_.landmarks_, inputs)


def test_the_seed_of_each_side_can_be_set():
    _, Y, _, _ = problem(0, n=100)
    model = both_seeds(0).set_params(regressor__random_state=3, output_basis__random_state=4)
    own = KernelBasis(Gaussian(0.5), SubSample(10), random_state=4).fit(Y)
    assert_array_equal(model.fit(Y, Y).output_basis_.landmarks_, own.landmarks_)


class Interrupted(KernelRidge):
    """A regressor that stops halfway if it is told to."""

    stop = False

    def fit(self, X, y, sample_weight=None):
        if type(self).stop:
            raise KeyboardInterrupt
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: Ensemble(model, 2)])
def test_a_fit_that_fails_changes_nothing(wrap, monkeypatch):
    X, Y, X_te, _ = problem(0)
    model = wrap(StructuredPredictor(Interrupted(Gaussian(0.5)), KernelBasis(Gaussian(0.5))))
    monkeypatch.setattr(Interrupted, "stop", True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X_te)
    monkeypatch.setattr(Interrupted, "stop", False)
    before = model.fit(X, Y).predict(X_te)
    monkeypatch.setattr(Interrupted, "stop", True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:20], 5.0 * Y[:20])
    assert_array_equal(model.predict(X_te), before)


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: Ensemble(model, 2)])
def test_names_of_columns_are_known(wrap):
    X, Y, _, _ = problem(0)
    frame = pd.DataFrame(X, columns=list("abc"))
    model = wrap(both_seeds(0))
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model, "n_features_in_")
    assert list(model.fit(frame, Y).feature_names_in_) == list("abc")
    assert model.n_features_in_ == 3
    assert not hasattr(model.fit(X, Y), "feature_names_in_")


def test_a_pipeline_ranks_through_its_last_step():
    X, Y, X_te, _ = problem(0)
    model = make_pipeline(StandardScaler(), both_seeds(0)).fit(X, Y)
    found, _ = model[-1].rank(model[:-1].transform(X_te), k=1)
    assert_array_equal(model[-1].decoder_.pool_[found[:, 0]], model.predict(X_te))


# Parts by name -----------------------------------------------------------------------------------


def test_parameters_of_parts_that_are_given_by_name():
    X, Y = grid_problem()
    model = StructuredPredictor(KernelRidge(sketch="subsample"), "gaussian", "candidates")
    names = {
        "regressor__kernel__gamma": 0.5,
        "regressor__sketch__size": 20,
        "output_basis__kernel__gamma": 0.3,
        "output_basis__sketch": "p_sparsified",
        "output_basis__sketch__size": 15,
        "decoder__n_jobs": 1,
    }
    assert set(names) - {"output_basis__sketch__size"} <= set(model.get_params())
    grid = {f"model__{name}": [value] for name, value in names.items()}
    search = GridSearchCV(Pipeline([("scale", StandardScaler()), ("model", model)]), grid, cv=2)
    best = search.fit(X, Y).best_estimator_["model"]
    assert best.regressor_.kernel_.gamma == 0.5
    assert best.regressor_.basis_.sketch.size == 20
    assert best.output_basis_.kernel_.gamma == 0.3
    assert best.output_basis_.rank_ <= 15
    assert best.decoder_.n_jobs == 1
    assert model.output_basis == "gaussian"  # as it was given
    assert clone(model).output_basis == "gaussian"


def test_seeds_matter_and_repeat():
    X, Y, X_te, C = problem(1)
    sketches = {"input_sketch": SubSample(6), "output_sketch": SubSample(6)}
    S = [all_scores(iokr(random_state=seed, **sketches).fit(X, Y), X_te, C) for seed in (0, 0, 1)]
    assert_array_equal(S[0], S[1])
    assert np.abs(S[0] - S[2]).max() > 1e-3


@pytest.mark.parametrize("decoder", ["candidates", CandidateDecoder(n_jobs=1)])
def test_decoder_by_name_or_object(decoder):
    X, Y, X_te, _ = problem(1)
    model = StructuredPredictor(KernelRidge(Gaussian(0.5)), KernelBasis(), decoder).fit(X, Y)
    default = StructuredPredictor(KernelRidge(Gaussian(0.5)), KernelBasis()).fit(X, Y)
    assert_array_equal(model.predict(X_te), default.predict(X_te))


def test_parameters_reach_both_sides_and_the_decoder(tmp_path):
    folds, path = KFold(3), tmp_path / "progress"
    for make in (iokr, sisokr):
        model = make(
            cv=folds, decoder="candidates", n_jobs=3, verbose=True, device="cpu", checkpoint=path
        )
        for part in (model.regressor, model.output_basis, model.decoder):
            assert (part.n_jobs, part.device) == (3, "cpu")
        assert (model.regressor.cv, model.regressor.verbose) == (folds, True)
        assert model.regressor.checkpoint == path
    assert iokr().decoder is None  # nothing to tell it
    own = CandidateDecoder(n_jobs=1)
    assert iokr(n_jobs=2, decoder=own).decoder is own
    assert not hasattr(iokr(n_jobs=2, device="cpu", decoder="label_sets").decoder, "device")


def test_other_losses_are_kernel_induced():
    X, Y, X_te, pool = problem(3)
    settings = {"input_sketch": SubSample(12), "output_sketch": SubSample(9), "random_state": 0}
    model = iokr(Gaussian(0.5), Gaussian(0.3), loss="huber", alpha=LAM, **settings)
    seed = model.output_basis.random_state
    by_hand = StructuredPredictor(
        InducedMachine(Gaussian(0.5), SubSample(12), loss="huber", alpha=LAM, random_state=0),
        KernelBasis(Gaussian(0.3), SubSample(9), random_state=seed),
    )
    found = model.fit(X, Y).rank(X_te, pool, k=3)
    for ours, theirs in zip(found, by_hand.fit(X, Y).rank(X_te, pool, k=3), strict=True):
        assert_array_equal(ours, theirs)
    assert isinstance(iokr(loss="squared_error").regressor, KernelRidge)
    with pytest.raises(ValueError, match=r"checkpoint needs .* Got loss='huber'"):
        iokr(loss="huber", checkpoint="progress")


def test_no_test_rows():
    X, Y, _, _ = problem(1)
    model = StructuredPredictor(KNeighborsRegressor(1), KernelBasis()).fit(X, Y)
    indices, scores = model.decoder_.rank(np.empty((0, model.output_basis_.rank_)), k=3)
    assert indices.shape == scores.shape == (0, 3)


# Mistakes ----------------------------------------------------------------------------------------


def fitted():
    X, Y, X_te, _ = problem(0)
    return iokr(Gaussian(0.5), Linear()).fit(X, Y), X_te


def test_lengths_of_X_and_Y_must_agree():
    X, Y, _, _ = problem(0)
    with pytest.raises(ValueError, match=r"X and Y must be of equal length. Got 30 and 29"):
        iokr().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="Got 3 and 2"):
        iokr(output_kernel=shared_letters).fit(X[:3], ["a", "b"])


@pytest.mark.parametrize("method", ["predict", "rank", "predict_coordinates"])
def test_unfitted(method):
    with pytest.raises(NotFittedError):
        getattr(iokr(), method)(np.zeros((2, 3)))


def test_unfitted_score():
    with pytest.raises(NotFittedError):
        iokr().score(np.zeros((2, 3)), np.zeros((2, 3)))


@pytest.mark.parametrize("nothing", [np.empty((0, 4)), [], sparse.csr_matrix((0, 4))])
def test_empty_candidates(nothing):
    model, X_te = fitted()
    with pytest.raises(ValueError, match="candidates"):
        model.predict(X_te, nothing)


def test_empty_candidates_of_objects():
    model = iokr(output_kernel=shared_letters).fit(np.eye(3), ["a", "b", "c"])
    with pytest.raises(ValueError, match="candidates is empty"):
        model.predict(np.eye(3), [])


@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (0, ValueError, "k must be an integer >= 1. Got 0"),
        (2.0, TypeError, "k must be an integer >= 1. Got 2.0"),
    ],
)
def test_bad_k(k, error, message):
    model, X_te = fitted()
    with pytest.raises(error, match=message):
        model.rank(X_te, k=k)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(value):
    X, Y, X_te, C = problem(0)
    bad_X, bad_Y, bad_C = X.copy(), Y.copy(), C.copy()
    bad_X[1, 1] = bad_Y[1, 1] = bad_C[1, 1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        iokr().fit(bad_X, Y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        iokr().fit(X, bad_Y)
    model = iokr().fit(X, Y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.predict(bad_X)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.predict(X_te, bad_C)


def test_wrong_widths():
    model, X_te = fitted()
    with pytest.raises(ValueError, match="2 features, but KernelRidge is expecting 3"):
        model.predict(X_te[:, :2])
    with pytest.raises(ValueError, match="3 features, but KernelBasis is expecting 4"):
        model.predict(X_te, np.ones((2, 3)))


@pytest.mark.parametrize(
    ("build_it", "message"),
    [
        (lambda: iokr("gaussin"), "Unknown kernel 'gaussin'. Did you mean 'gaussian'?"),
        (lambda: iokr(output_kernel="tanimotto"), "Did you mean 'tanimoto'?"),
        (lambda: sisokr(input_sketch="subsampel"), "Did you mean 'subsample'?"),
        (
            lambda: StructuredPredictor(KernelRidge(), KernelBasis(), "candidate"),
            "Unknown decoder 'candidate'. Did you mean 'candidates'?",
        ),
        (lambda: iokr(alpha=-1.0), "alpha must be a finite number >= 0. Got -1.0"),
    ],
)
def test_mistakes_are_named(build_it, message):
    rng = np.random.default_rng(0)
    X, Y = rng.random((10, 2)), rng.integers(0, 2, (10, 3)).astype(float)
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        build_it().fit(X, Y)


def test_the_default_of_sisokr_chooses_alpha_also_on_a_few_rows():
    X, Y = np.arange(3.0)[:, None], np.eye(3, dtype=int)
    with pytest.warns(UserWarning, match="cv=5 is larger than the number of rows, 3"):
        model = sisokr("gaussian", "f1", random_state=0).fit(X, Y)
    assert model.regressor_.alpha_ in (1e-5, 1e-4, 1e-3, 1e-2)
    assert_array_equal(model.predict(X), Y)


@pytest.mark.parametrize("form", ["coo", "bsr", "dia", "csr"])
def test_outputs_in_any_sparse_format(form):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, 5)), (rng.random((60, 4)) < 0.4).astype(float)
    given = sparse.csr_matrix(Y).asformat(form)
    model = iokr("gaussian", "tanimoto")
    expected = model.fit(X, Y).predict(X)
    np.testing.assert_array_equal(model.fit(X, given).predict(X).toarray(), expected)
    np.testing.assert_array_equal(model.predict(X, candidates=given).toarray(), expected)
