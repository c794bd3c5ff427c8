"""Decoding by any loss: the sum of (2.30) by double loops, with the weights of (2.32)."""

import tracemalloc

import numpy as np
import oracles_predictor as oracle
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import fbeta_score
from sklearn.neighbors import KNeighborsRegressor

import skout
from skout import (
    CandidateSets,
    ConformalSets,
    StructuredPredictor,
    TwoWay,
    correct_hubness,
    iokr,
    memory_limits,
)
from skout.decoding import LossDecoder
from skout.kernels import F1, Gaussian, NGram
from skout.sketches import SubSample
from skout.sources import Blocks

RNG = np.random.default_rng(0)
X, NEW = RNG.standard_normal((40, 2)), RNG.standard_normal((7, 2))
Y = np.column_stack([np.sin(X), X.prod(axis=1)]) + 0.2 * RNG.standard_normal((40, 3))
POOL = np.vstack([Y[::4], RNG.standard_normal((15, 3))])
LAMBDA = 1e-2


def absolute(c, y):
    """A loss that no kernel of ours induces; too much costs twice as much as too little."""
    return float(np.sum(np.maximum(c - y, 0.0) * 2.0 + np.maximum(y - c, 0.0)))


def on_lists(C, Z):
    return [[absolute(c, y) for y in Z] for c in C]


def with_nan(c, _y):
    return np.nan if c[0] == POOL[3, 0] else 0.0


def model(loss, **options):
    decoder = LossDecoder(loss, **options)
    return iokr(Gaussian(0.7), Gaussian(0.5), alpha=LAMBDA, decoder=decoder)


def weights(queries):
    K, K_te = oracle.gaussian(X, X, 0.7), oracle.gaussian(queries, X, 0.7)
    return oracle.ridge_weights(K_te, K, LAMBDA)


def risks(queries, pool, loss):
    """sum_i a_i(x) D(c, y_i), number by number."""
    A = weights(queries)
    return np.array([
        [sum(a * loss(c, y) for a, y in zip(row, Y, strict=True)) for c in pool] for row in A
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "options"), [(absolute, {}), (on_lists, {"on": "lists"})], ids=["pairs", "lists"]
)
def test_the_risk_by_double_loops(loss, options):
    fitted = model(loss, **options).fit(X, Y)
    expected = risks(NEW, POOL, absolute)
    indices, scores = fitted.rank(NEW, POOL, k=len(POOL))
    assert_allclose(-np.take_along_axis(expected, indices, axis=1), scores, atol=1e-6)
    assert_array_equal(fitted.predict(NEW, POOL), POOL[expected.argmin(axis=1)])
    assert_array_equal(fitted.predict(NEW), Y[risks(NEW, Y, absolute).argmin(axis=1)])
    truth = POOL[:7]
    ranks = 1 + (expected < np.diagonal(expected[:, :7])[:, None]).sum(axis=1)
    assert_array_equal(fitted.truth_ranks(NEW, truth, POOL), ranks)


def test_the_loss_of_the_kernel_is_the_candidate_decoder():
    def induced(c, y):
        return 2.0 - 2.0 * np.exp(-0.5 * np.sum((c - y) ** 2))

    for sketch in (None, SubSample(20)):
        own, plain = (
            iokr(Gaussian(0.7), Gaussian(0.5), output_sketch=sketch, alpha=LAMBDA, decoder=d,
                 random_state=0).fit(X, Y)
            for d in (LossDecoder(induced), None)
        )  # fmt: skip
        assert_array_equal(own.rank(NEW, POOL)[0], plain.rank(NEW, POOL)[0])


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_f_beta_is_scikit_learns(beta):
    labels = (RNG.random((12, 5)) < 0.4).astype(int)
    labels[0] = 0
    fitted = iokr(Gaussian(0.7), F1(), alpha=LAMBDA, decoder=LossDecoder(beta=beta)).fit(
        X[:12], labels
    )
    known = fitted.decoder_._known
    expected = [
        [fbeta_score(y, c, beta=beta, zero_division=1.0) for y in known] for c in labels
    ]  # fmt: skip
    pool = fitted.embed(labels)
    assert_allclose(1.0 + pool.embedding[pool.inverse, :-1], expected)


def test_a_matrix_of_costs():
    costs = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 9.0], [0.5, 0.5, 0.0]])
    numbers = (np.abs(X[:, 0] * 1.5).astype(int) % 3)[:, None].astype(float)
    decoder = LossDecoder(costs)
    fitted = iokr(Gaussian(0.7), Gaussian(5.0), alpha=LAMBDA, decoder=decoder).fit(X, numbers)
    A = weights(NEW)
    shares = np.array([A[:, numbers[:, 0] == k].sum(axis=1) for k in range(3)])
    expected = (costs @ shares).argmin(axis=0)
    assert_array_equal(fitted.predict(NEW, np.arange(3.0)[:, None])[:, 0], expected)


def test_objects_reach_the_loss_as_they_are():
    words = ["stone", "notes", "banana", "bandana"] * 10

    def first_letter(c, y):
        return float(c[0] != y[0])

    decoder = LossDecoder(first_letter)
    fitted = iokr(Gaussian(5.0), NGram(2), alpha=1e-4, decoder=decoder).fit(X, words)
    found = fitted.predict(X, ["bxx", "sxx", "nxx"])
    assert np.mean([a[0] == b[0] for a, b in zip(found, words, strict=True)]) > 0.9


def test_sets_files_and_prediction_sets(tmp_path):
    fitted = model(absolute).fit(X, Y)
    sets = CandidateSets(POOL, [0, 5, 9], np.arange(9))
    expected = risks(NEW[:2], POOL, absolute)
    best = [expected[0, :5].argmin(), 5 + expected[1, 5:9].argmin()]
    assert_array_equal(fitted.predict(NEW[:2], sets), POOL[best])
    found = ConformalSets(fitted).calibrate(NEW, POOL[:7], POOL).predict(NEW, POOL, coverage=0.5)
    assert found.sizes.min() >= 1
    skout.save(fitted, tmp_path / "model.skout")
    copy = skout.load(tmp_path / "model.skout", modules={"absolute": absolute})
    assert_array_equal(copy.rank(NEW, POOL)[1], fitted.rank(NEW, POOL)[1])
    with pytest.raises(TypeError, match="penalized"):
        correct_hubness(fitted, X, Y, POOL)


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        (LossDecoder(with_nan), "loss must be finite. Got nan for candidate 3 and output 0"),
        (LossDecoder("f_gamma"), "loss"),
        (LossDecoder(beta=0.0), "beta"),
        (LossDecoder(absolute, on="pair"), "on must be"),
        (
            LossDecoder(lambda A, B: np.zeros((2, 2)), on="lists"),
            "loss must return a matrix of shape",
        ),
        (LossDecoder(np.zeros((2, 3))), "square matrix"),
        (LossDecoder(np.zeros((2, 2))), "needs outputs that are its row numbers"),
    ],
)
def test_mistakes(decoder, message):
    with pytest.raises(ValueError, match=message):
        iokr(Gaussian(0.7), Gaussian(0.5), decoder=decoder).fit(X, Y).predict(NEW, POOL)


def test_losses_of_training_outputs_wait_until_they_are_candidates(tmp_path):
    asked = []

    def counted(C, Z):
        asked.append(len(C))
        return on_lists(C, Z)

    fitted = model(counted, on="lists").fit(X, Y)
    fitted.predict(NEW, POOL[:5])
    assert sum(asked) == 1 + 5  # one to find mistakes early, and the candidates
    before = fitted.predict(NEW)
    assert sum(asked) == 1 + 5 + 40
    assert_array_equal(fitted.predict(NEW), before)
    assert sum(asked) == 1 + 5 + 40  # kept
    light = model("f_beta").fit(X, (Y > 0).astype(int))
    skout.save(light, tmp_path / "light.skout", candidates=False)
    with pytest.raises(ValueError, match="saved without candidates: give candidates"):
        skout.load(tmp_path / "light.skout").predict(NEW)
    skout.save(light, tmp_path / "whole.skout")
    assert_array_equal(skout.load(tmp_path / "whole.skout").predict(NEW), light.predict(NEW))


def test_memory_does_not_grow_with_the_rows():
    rng = np.random.default_rng(0)
    sets = np.unique(rng.random((900, 12)) < 0.3, axis=0)[:300].astype(np.int8)
    queries, peaks = rng.standard_normal((500, 3)), []
    for n in (1000, 8000):
        rows = sets[rng.integers(0, 300, n)]
        inputs = rng.standard_normal((n, 3))
        fitted = iokr(
            Gaussian(0.5), Gaussian(0.5), input_sketch=SubSample(50), output_sketch=SubSample(100),
            alpha=1e-2, decoder=LossDecoder("f_beta", beta=2.0), random_state=0,
        ).fit(inputs, rows)  # fmt: skip
        fitted.predict(queries[:5], sets)
        tracemalloc.start()
        fitted.predict(queries, sets)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 0.25 * 8 * 500 * 8000  # of a matrix of queries and rows


# Weights of all outputs --------------------------------------------------------------------------

LEVELS = np.round(3.0 * X[:, :1] + RNG.standard_normal((40, 1)))  # numbers, some of them equal


def level_loss(C, Z):
    """Too much costs four times as much as too little."""
    d = np.asarray(C, dtype=float)[:, :1] - np.asarray(Z, dtype=float)[:, 0]
    return np.where(d > 0.0, 4.0 * d, -d)


def level_model(kernel="linear", **options):
    decoder = LossDecoder(level_loss, on="lists")
    return iokr(Gaussian(0.7), kernel, decoder=decoder, random_state=0, **options)


def expected_scores(A, pool):
    """-sum_i a_i(x) D(c, y_i), (2.30)."""
    return -A @ level_loss(pool, LEVELS).T


def sketched_weights(queries, landmarks, *, sample_weight=None):
    """a(x) of ridge regression on the span of landmarks: W k_m (K_m W K_m' + n alpha K)^-1 k(x)."""
    w = np.ones(len(X)) if sample_weight is None else sample_weight
    K_m, K, k = (oracle.gaussian(landmarks, Z, 0.7) for Z in (X, landmarks, queries))
    return (np.linalg.solve((K_m * w) @ K_m.T + w.sum() * LAMBDA * K, k).T @ K_m) * w


def centred_weights(queries):
    """a(x) with an intercept: 1/n + (a0(x) - the same of the mean), by centred kernels."""
    n = len(X)
    K, k = oracle.gaussian(X, X, 0.7), oracle.gaussian(queries, X, 0.7)
    H = np.eye(n) - 1.0 / n
    return (
        1.0 / n + (k - K.mean(axis=0)) @ H @ np.linalg.inv(H @ K @ H + n * LAMBDA * np.eye(n)) @ H
    )


@pytest.mark.parametrize("kernel", ["linear", Gaussian(1e-4), Gaussian(5.0)], ids=repr)
def test_every_distinct_output_has_its_weight_whatever_the_rank(kernel):
    fitted = level_model(kernel, alpha=LAMBDA).fit(X, LEVELS)
    pool = np.unique(LEVELS, axis=0)
    scores = expected_scores(weights(NEW), pool)
    indices, ours = fitted.rank(NEW, pool, k=len(pool))
    assert_allclose(ours, np.take_along_axis(scores, indices, axis=1), atol=1e-9)
    assert_array_equal(fitted.predict(NEW), pool[scores.argmax(axis=1)])
    # the coordinates are the weights themselves
    A, known = weights(NEW), fitted.output_basis_.landmarks_
    grouped = np.column_stack([A[:, (y == LEVELS).all(axis=1)].sum(axis=1) for y in known])
    assert_allclose(fitted.predict_coordinates(NEW), grouped, atol=1e-9)


def test_the_weights_of_other_fits():
    pool = np.unique(LEVELS, axis=0)
    counts = np.random.default_rng(1).integers(1, 4, 40).astype(float)
    sketch = {"input_sketch": SubSample(12)}
    for options, fit_params in [
        (sketch, {}),
        (sketch, {"sample_weight": counts}),
        ({"fit_intercept": True}, {}),
    ]:
        fitted = level_model(alpha=LAMBDA, **options).fit(X, LEVELS, **fit_params)
        if "fit_intercept" in options:
            A = centred_weights(NEW)
        else:
            A = sketched_weights(NEW, fitted.regressor_.landmarks_, **fit_params)
        scores = expected_scores(A, pool)
        indices, ours = fitted.rank(NEW, pool, k=len(pool))
        assert_allclose(ours, np.take_along_axis(scores, indices, axis=1), atol=1e-6)


def test_alpha_is_chosen_by_what_is_decoded():
    def minus_cost(Y_true, predicted):
        return -float(
            np.mean([level_loss([c], [y]) for c, y in zip(predicted, Y_true, strict=True)])
        )

    fitted = level_model(alpha=(1e-6, LAMBDA, 10.0), scoring=minus_cost, cv=3).fit(X, LEVELS)
    results = fitted.cv_results_
    assert results["mean_score"][1] > results["mean_score"][2]
    assert fitted.regressor_.alpha_ == LAMBDA
    pool = np.unique(LEVELS, axis=0)
    best = expected_scores(weights(NEW), pool).argmax(axis=1)
    assert_array_equal(fitted.predict(NEW), pool[best])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kernel", ["f1", "tanimoto", Gaussian(1e-3)], ids=repr)
def test_a_loss_in_the_space_of_the_kernel_is_the_candidate_decoder(kernel, seed):
    """1 - k(c, y) is half a squared distance: for F1 it is the loss "f_beta", beta = 1."""
    rng = np.random.default_rng(seed)
    sets = (rng.random((50, 6)) < 0.4).astype(int)
    sets[sets.sum(axis=1) == 0, 0] = 1
    inputs, queries = rng.standard_normal((50, 2)), rng.standard_normal((20, 2))

    def induced(C, Z):
        return 1.0 - skout.kernels.as_kernel(kernel)(C, Z)

    loss = {"loss": "f_beta"} if kernel == "f1" else {"loss": induced, "on": "lists"}
    for sketch in (None, SubSample(20)):
        own, plain = (
            iokr(Gaussian(0.7), kernel, input_sketch=sketch, alpha=LAMBDA, decoder=d,
                 random_state=0).fit(inputs, sets)
            for d in (LossDecoder(**loss), None)
        )  # fmt: skip
        ours, theirs = own.rank(queries, k=5), plain.rank(queries, k=5)
        # 2 <h, psi(c)> - 1 = 2 (score + sum of weights) - 1
        total = own.predict_coordinates(queries).sum(axis=1)[:, None]
        assert_allclose(2.0 * (ours[1] + total) - 1.0, theirs[1], atol=1e-6)
        assert np.mean(ours[0] == theirs[0]) > 0.95  # but for ties


def test_a_matrix_of_costs_with_default_kernels():
    """Issue: of 40 classes 19 had weight, and 42 % of the predictions were right."""
    rng = np.random.default_rng(0)
    inputs, queries = rng.uniform(-3, 3, (300, 2)), rng.uniform(-3, 3, (100, 2))
    classes = np.clip(np.round((inputs[:, 0] + 3) * 6.5 + rng.normal(0, 2, 300)), 0, 39)
    d = np.subtract.outer(np.arange(40), np.arange(40))
    costs = np.where(d > 0, 4.0 * d, -1.0 * d)
    fitted = iokr(Gaussian(0.3), "gaussian", decoder=LossDecoder(costs))
    found = fitted.fit(inputs, classes[:, None]).predict(queries)[:, 0]
    K, k = oracle.gaussian(inputs, inputs, 0.3), oracle.gaussian(queries, inputs, 0.3)
    A, seen = oracle.ridge_weights(k, K, 1e-3), np.unique(classes).astype(int)
    risk = A @ costs[np.ix_(seen, classes.astype(int))].T
    assert_array_equal(found, seen[risk.argmin(axis=1)])


def test_neighbours_weigh_outputs_where_the_kernel_tells_them_apart():
    for kernel in (Gaussian(2.0), "linear"):
        fitted = StructuredPredictor(
            KNeighborsRegressor(5), kernel, LossDecoder(level_loss, on="lists")
        )
        if kernel == "linear":  # of 1 dimension: 1 of many outputs would carry all the weight
            with pytest.warns(UserWarning, match="tells 1 of .* known outputs apart"):
                fitted.fit(X, LEVELS).predict(NEW)
            continue
        near = np.argsort(np.square(NEW[:, None] - X).sum(axis=2), axis=1)[:, :5]
        pool = np.unique(LEVELS, axis=0)
        risk = level_loss(pool, LEVELS)[:, near].mean(axis=2).T
        found = fitted.fit(X, LEVELS).rank(NEW, pool, k=1)[1][:, 0]
        assert_allclose(found, -risk.min(axis=1), atol=1e-5)


def test_landmarks_that_the_kernel_cannot_tell_apart_share_the_weight():
    """W' K^+ W k(landmarks, y) a(x), of least norm: a pivot would have all of it."""
    with pytest.warns(UserWarning, match="tells 1 of 9 known outputs apart"):
        fitted = level_model(alpha=LAMBDA, output_sketch=SubSample(20)).fit(X, LEVELS)
    L = np.asarray(fitted.output_basis_.landmarks_)
    assert len(L) == 20
    B = weights(NEW) @ LEVELS @ L.T @ np.linalg.pinv(L @ L.T, rcond=1e-10)
    scores = -B @ level_loss(L, L).T
    indices, ours = fitted.rank(NEW, L, k=20)
    assert_allclose(ours, np.take_along_axis(scores, indices, axis=1), atol=1e-8)


def test_more_outputs_than_a_square_of_them_has_room_for(tmp_path):
    """Predictions are features of the inputs then, and the decoder knows what they weigh."""
    pool = np.unique(LEVELS, axis=0)
    for options in ({}, {"fit_intercept": True}):
        options |= {"input_sketch": SubSample(6), "alpha": LAMBDA}
        usual = level_model(**options).fit(X, LEVELS)
        with memory_limits(coordinates_mb=8 * len(pool) * (len(pool) - 2) / 2**20):
            short = level_model(**options).fit(X, LEVELS)
            found = short.rank(NEW, k=5)
        assert short.predict_coordinates(NEW).shape[1] == 6 + len(options) - 2
        assert usual.predict_coordinates(NEW).shape[1] == len(pool)
        for a, b in zip(found, usual.rank(NEW, k=5), strict=True):
            assert_allclose(a, b, atol=1e-9)
        assert_array_equal(short.predict(NEW, LEVELS[:9]), usual.predict(NEW, LEVELS[:9]))
        skout.save(short, tmp_path / "short.skout")
        copy = skout.load(tmp_path / "short.skout", modules={"level_loss": level_loss})
        assert_array_equal(copy.rank(NEW)[1], short.rank(NEW)[1])
        with pytest.raises(TypeError, match="too many for coordinates of objects"):
            short.output_basis_.transform(LEVELS)


def test_losses_that_memory_has_no_room_for_are_refused(tmp_path):
    with memory_limits(coordinates_mb=1e-4):
        fitted = level_model(alpha=LAMBDA).fit(X, LEVELS)
        with pytest.raises(
            ValueError, match=r"The losses of \d+ candidates .* give fewer candidates"
        ):
            fitted.predict(NEW)
        pool = fitted.embed(LEVELS, tmp_path / "losses.npy")
        assert len(fitted.predict(NEW, pool)) == 7
        kept = level_model(input_sketch=SubSample(6), checkpoint=tmp_path / "kept")
        with pytest.raises(
            ValueError, match=r"Indicators of 40 rows and \d+ distinct outputs take"
        ):
            kept.fit(X, LEVELS)


def test_many_distinct_outputs_in_bounded_memory():
    rng = np.random.default_rng(0)
    n, d, m = 12_000, 6_000, 40
    numbers = np.concatenate([np.arange(d), rng.integers(0, d, n - d)])[:, None].astype(float)
    inputs = numbers[:, [0]] / d + 0.1 * rng.standard_normal((n, 2))
    fitted = iokr(
        Gaussian(5.0), "linear", input_sketch=SubSample(m), alpha=1e-4, random_state=0,
        decoder=LossDecoder(level_loss, on="lists"),
    )  # fmt: skip
    tracemalloc.start()
    with memory_limits(block_mb=8, coordinates_mb=64):
        found = fitted.fit(inputs, numbers).predict(inputs[:200])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 160e6  # indicators would be 576 MB, losses of outputs among themselves 288 MB
    K, landmarks = (lambda A, B: oracle.gaussian(A, B, 5.0)), fitted.regressor_.landmarks_
    K_m, some = K(landmarks, inputs), inputs[:200:40]
    inverse = np.linalg.inv(K_m @ K_m.T + n * 1e-4 * K(landmarks, landmarks))
    A = K(some, landmarks) @ inverse @ K_m
    near = numbers[:d:100]
    risk = -A @ level_loss(near, numbers).T
    assert_array_equal(fitted.predict(some, near), near[risk.argmax(axis=1)])
    assert len(found) == 200


def test_rows_wherever_they_lie(tmp_path):
    expected = level_model(alpha=LAMBDA, input_sketch=SubSample(12)).fit(X, LEVELS)
    files = [np.lib.format.open_memmap(tmp_path / f"{i}.npy", "w+", A.dtype, A.shape)
             for i, A in enumerate((X, LEVELS))]  # fmt: skip
    for file, A in zip(files, (X, LEVELS), strict=True):
        file[:] = A
    mapped = level_model(alpha=LAMBDA, input_sketch=SubSample(12)).fit(*files)
    assert_allclose(mapped.rank(NEW)[1], expected.rank(NEW)[1], atol=1e-9)
    blocks = Blocks([(X[:25], LEVELS[:25]), (X[25:], LEVELS[25:])])
    with memory_limits(coordinates_mb=1e-3):  # so that indicators are sparse
        streamed = level_model(alpha=LAMBDA, input_sketch=SubSample(12)).fit(blocks)
    known = streamed.output_basis_.landmarks_
    A = sketched_weights(NEW, streamed.regressor_.landmarks_)
    grouped = np.column_stack([A[:, (y == LEVELS).all(axis=1)].sum(axis=1) for y in known])
    assert len(known) == len(np.unique(LEVELS))
    assert_allclose(streamed.predict_coordinates(NEW), grouped, atol=1e-6)


def test_where_it_cannot_be_used():
    with pytest.raises(TypeError, match=r"LossDecoder weighs known outputs.* not in a TwoWay"):
        TwoWay(level_model(alpha=LAMBDA), weight=1.0).fit(X, LEVELS)
    with pytest.warns(UserWarning, match="tells 1 of .* apart"):  # coordinates are mixed by M
        level_model(alpha=LAMBDA, task_matrix=np.eye(1)).fit(X, LEVELS)


def test_too_many_outputs_that_are_not_in_memory(monkeypatch):
    monkeypatch.setattr("skout.decoding.base._MOST_OUTPUTS", 5)
    blocks = Blocks([(X[:25], LEVELS[:25]), (X[25:], LEVELS[25:])])
    for sketch in (None, SubSample(8)):
        fitted = level_model(Gaussian(5.0), alpha=LAMBDA, output_sketch=sketch)
        with pytest.raises(ValueError, match="LossDecoder learns from the distinct outputs"):
            fitted.fit(blocks)


def test_coordinates_of_objects_are_indicators():
    basis = level_model(alpha=LAMBDA).fit(X, LEVELS).output_basis_
    known = basis.landmarks_
    assert_array_equal(basis.transform(known[::2]), np.eye(len(known))[::2])
    assert_array_equal(basis.transform([[0.25]]), np.zeros((1, len(known))))
    with pytest.raises(AttributeError, match="are weights of objects"):
        basis.residual(known)
