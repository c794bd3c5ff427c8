"""Decoding by any loss: the sum of (2.30) by double loops, with the weights of (2.32)."""

import tracemalloc

import numpy as np
import oracles_predictor as oracle
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import fbeta_score

import skout
from skout import CandidateSets, ConformalSets, iokr, without_hubs
from skout.decoding import LossDecoder
from skout.kernels import F1, Gaussian, NGram
from skout.sketches import SubSample

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
    with pytest.raises(TypeError, match="priced"):
        without_hubs(fitted, X, Y, POOL)


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
