"""Local search: to the best object where steps lead there, and never below its start."""

import numpy as np
import oracles_decoding as oracle
import pytest
from extras import extra
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skout import KernelBasis, StructuredPredictor, iokr
from skout.decoding import CandidateDecoder, LocalSearchDecoder
from skout.kernels import F1, Gaussian, Linear, Tanimoto

pd = extra("pandas")

WORDS = ["cat", "cart", "dog", "dogs", "bird", "ibis", "boa"]
LETTERS = "abcdgorst"


def flips(y):
    """Label sets that differ from y in one label."""
    return [np.where(np.arange(len(y)) == j, 1 - y, y) for j in range(len(y))]


def edits(word):
    """Words one letter away: replaced, left out or put in."""
    cuts = range(len(word) + 1)
    return [
        *(word[:i] + c + word[i + 1 :] for i in cuts[:-1] for c in LETTERS),
        *(word[:i] + word[i + 1 :] for i in cuts[:-1] if len(word) > 1),
        *(word[:i] + c + word[i:] for i in cuts for c in LETTERS),
    ]


def values(weights, Y, objects, kernel):
    """The score of each row's own object."""
    rows = zip(weights, objects, strict=True)
    return np.array([oracle.scores(w[None], Y, [obj], kernel)[0, 0] for w, obj in rows])


# Label sets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("beam", [1, 4])
@given(seed=st.integers(0, 9999))
def test_flips_reach_the_best_of_a_linear_score(beam, seed):
    # 2 f . c - |c|^2 is a sum over labels: every step towards the best is a step up
    rng = np.random.default_rng(seed)
    Y = np.vstack([np.eye(6, dtype=int), rng.integers(0, 2, (3, 6))])
    basis = KernelBasis(Linear()).fit(Y)
    V = rng.uniform(-0.5, 1.5, (5, 6))
    found = LocalSearchDecoder(flips, beam=beam).fit(basis, Y).decode(basis.transform(V))
    C = oracle.label_sets(6, 6)
    S = np.array([[2.0 * v @ c - c @ c for c in C] for v in V])
    assert_array_equal(found, C[S.argmax(axis=1)])
    assert found.dtype == Y.dtype


@pytest.mark.parametrize(
    ("kernel", "truth"), [(F1(), oracle.f1), (Tanimoto(), oracle.tanimoto)], ids=["f1", "tanimoto"]
)
def test_label_sets_of_set_kernels(kernel, truth):
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, (12, 5))
    basis = KernelBasis(kernel).fit(Y)
    weights = rng.uniform(0, 1, (8, 12)) / 12
    found = LocalSearchDecoder(flips, beam=6).fit(basis, Y).decode(weights @ basis.transform(Y))
    C = oracle.label_sets(5, 5)
    best = oracle.scores(weights, Y, C, truth).max(axis=1)
    assert_allclose(values(weights, Y, found, truth), best, rtol=1e-9)


# Strings -----------------------------------------------------------------------------------------


def string_problem(n_queries=6, seed=0):
    basis = KernelBasis(oracle.as_matrix(oracle.bigrams)).fit(WORDS)
    weights = np.random.default_rng(seed).dirichlet(0.3 * np.ones(len(WORDS)), n_queries)
    return basis, weights, weights @ basis.transform(WORDS)


@pytest.mark.parametrize("beam", [1, 3])
def test_strings_get_better_by_single_letters(beam):
    basis, weights, F = string_problem()
    start = CandidateDecoder().fit(basis, WORDS).decode(F)
    decoder = LocalSearchDecoder(edits, beam=beam).fit(basis, WORDS)
    found = decoder.decode(F)
    assert isinstance(found, list)
    before = values(weights, WORDS, start, oracle.bigrams)
    after = values(weights, WORDS, found, oracle.bigrams)
    assert np.all(after >= before - 1e-9)
    assert np.any(after > before + 1e-3)
    assert not set(found) <= set(WORDS)
    if beam == 1:  # no neighbour is better: the search has ended at a summit
        for w, word, own in zip(weights, found, after, strict=True):
            around = oracle.scores(w[None], WORDS, edits(word), oracle.bigrams)
            assert around.max() <= own + 1e-9


def test_candidates_are_where_the_search_starts():
    basis, weights, F = string_problem()
    asked = []

    def spied(word):
        asked.append(word)
        return edits(word)

    decoder = LocalSearchDecoder(spied, beam=1, n_rounds=1).fit(basis, WORDS)
    decoder.decode(F, ["zebra"])
    assert set(asked) == {"zebra"}
    asked.clear()
    starts = [["ox"], ["yak", "ox"], ["emu"], ["eel"], ["elk"], ["gnu"]]
    found = decoder.decode(F, starts)
    assert set(asked) <= {"ox", "yak", "emu", "eel", "elk", "gnu"}
    assert {"ox", "emu", "gnu"} <= set(asked)
    first = values(weights, WORDS, [some[0] for some in starts], oracle.bigrams)
    assert np.all(values(weights, WORDS, found, oracle.bigrams) >= first - 1e-9)


@pytest.mark.parametrize("candidates", [None, ["ox", "dog", "bat"]])
def test_no_rounds_are_the_start(candidates):
    basis, _, F = string_problem()
    expected = CandidateDecoder().fit(basis, WORDS).decode(F, candidates)
    decoder = LocalSearchDecoder(edits, n_rounds=0).fit(basis, WORDS)
    assert decoder.decode(F, candidates) == expected


def test_more_rounds_never_hurt():
    basis, weights, F = string_problem()
    scores = []
    for n_rounds in range(5):
        decoder = LocalSearchDecoder(edits, beam=2, n_rounds=n_rounds).fit(basis, WORDS)
        scores.append(values(weights, WORDS, decoder.decode(F), oracle.bigrams))
    assert np.all(np.diff(scores, axis=0) >= -1e-9)
    assert np.any(scores[2] > scores[1] + 1e-3)


def test_the_search_ends_where_nothing_gets_better():
    basis, _, F = string_problem()
    rounds = []

    def spied(word):
        rounds.append(word)
        return [word]

    LocalSearchDecoder(spied, beam=1, n_rounds=50).fit(basis, WORDS).decode(F)
    assert len(rounds) <= 2 * len(F)  # once, or twice where rounding makes the first look better


def test_queries_that_have_arrived_are_left_alone():
    # 1-D positions: one query starts at the best object, the other climbs three steps
    line = list(range(9))
    basis = KernelBasis(lambda A, B: np.outer(A, B).astype(float)).fit([1, 2])
    asked = []

    def beside(j):
        asked.append(int(j))
        return [k for k in (j - 1, j + 1) if k in line]

    decoder = LocalSearchDecoder(beside, beam=1).fit(basis, [1, 2])
    F = basis.transform([1, 5])
    assert decoder.decode(F) == [1, 5]
    assert asked.count(1) == 1
    assert [j for j in asked if j > 1] == [2, 3, 4, 5]


# Numbers on a graph ------------------------------------------------------------------------------


@pytest.mark.parametrize(("beam", "best"), [(1, 6), (2, 10)])
def test_a_wider_beam_finds_other_ways(beam, best):
    # the score of a number is -(10 - number)^2; the way to 10 leads over the second best of a round
    graph = {5: [6], 4: [5.5], 6: [], 5.5: [10], 10: []}
    basis = KernelBasis(lambda A, B: np.outer(A, B).astype(float)).fit([5, 4])
    decoder = LocalSearchDecoder(lambda j: graph[j], beam=beam).fit(basis, [5, 4])
    assert decoder.decode(basis.transform([10])) == [best]


# Contract ----------------------------------------------------------------------------------------


def test_no_queries():
    basis, _, F = string_problem()
    assert LocalSearchDecoder(edits).fit(basis, WORDS).decode(F[:0]) == []


def test_a_beam_larger_than_the_pool():
    basis, weights, F = string_problem()
    decoder = LocalSearchDecoder(edits, beam=50, n_rounds=2).fit(basis, WORDS)
    small = LocalSearchDecoder(edits, beam=1, n_rounds=2).fit(basis, WORDS)
    wide, narrow = (values(weights, WORDS, d.decode(F), oracle.bigrams) for d in (decoder, small))
    assert np.all(wide >= narrow - 1e-9)


@pytest.mark.parametrize("neighbours", ["edits", None, 3])
def test_neighbours_must_be_a_function(neighbours):
    basis, _, _ = string_problem()
    message = "neighbours must be a function from an object to a sequence of objects. Got "
    with pytest.raises(TypeError, match=message + repr(neighbours)):
        LocalSearchDecoder(neighbours).fit(basis, WORDS)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"beam": 0}, ValueError, "beam must be an integer >= 1. Got 0"),
        ({"beam": 1.5}, TypeError, "beam must be an integer >= 1. Got 1.5"),
        ({"n_rounds": -1}, ValueError, "n_rounds must be an integer >= 0. Got -1"),
    ],
)
def test_bad_parameters_are_named(params, error, message):
    basis, _, _ = string_problem()
    with pytest.raises(error, match=message):
        LocalSearchDecoder(edits, **params).fit(basis, WORDS)


def test_unfitted_and_ranking():
    with pytest.raises(NotFittedError):
        LocalSearchDecoder(edits).decode(np.ones((1, 2)))
    basis, _, F = string_problem()
    with pytest.raises(TypeError, match="LocalSearchDecoder builds objects instead of ranking"):
        LocalSearchDecoder(edits).fit(basis, WORDS).rank(F)


def test_coordinates_given_to_fit_are_used(monkeypatch):
    basis, _, F = string_problem()
    T = basis.transform(WORDS)
    expected = LocalSearchDecoder(edits).fit(basis, WORDS).decode(F)
    with monkeypatch.context() as patch:
        patch.setattr(basis, "coordinates", lambda *_, **__: pytest.fail("embedded again"))
        decoder = LocalSearchDecoder(edits).fit(basis, WORDS, T)
    assert decoder.decode(F) == expected


def test_each_object_is_embedded_once_a_round(monkeypatch):
    basis, _, F = string_problem()
    decoder = LocalSearchDecoder(edits, n_rounds=1).fit(basis, WORDS)
    embedded = []
    original = basis.coordinates

    def coordinates(rows, out=None):
        embedded.extend(rows)
        return original(rows, out)

    monkeypatch.setattr(basis, "coordinates", coordinates)
    decoder.decode(F)
    assert len(embedded) == len(set(embedded)) > len(WORDS)


def test_through_the_predictor():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 3))
    Y = (X @ rng.standard_normal((3, 6)) > 0).astype(int)
    model = iokr(Gaussian(0.5), Linear(), alpha=1e-3).set_params(decoder=LocalSearchDecoder(flips))
    model = clone(model).fit(X[:30], Y[:30])
    plain = StructuredPredictor(model.regressor, model.output_basis).fit(X[:30], Y[:30])
    F = plain.predict_coordinates(X[30:])
    T = F @ plain.output_basis_.combine(plain.output_basis_.landmarks_)  # the predicted vectors
    found = model.predict(X[30:])
    assert_array_equal(found, (T > 0.5).astype(int))  # the best of all label sets
    known = {tuple(y) for y in Y[:30]}
    assert any(tuple(y) not in known for y in found)
    with pytest.raises(TypeError, match="needs a decoder with truth_ranks, and LocalSearchDecoder"):
        model.truth_ranks(X, Y)


# Faults that were mended -------------------------------------------------------------------------


def test_a_beam_holds_different_objects():
    # as above, with neighbours that two objects share
    graph = {5: [6, 4], 4: [5.5, 6], 6: [5], 5.5: [10], 10: []}
    basis = KernelBasis(lambda A, B: np.outer(A, B).astype(float)).fit([5, 4])
    decoder = LocalSearchDecoder(lambda j: graph[j], beam=2).fit(basis, [5, 4])
    assert decoder.decode(basis.transform([10])) == [10]


def test_outputs_in_a_series():
    basis, _, F = string_problem()
    expected = LocalSearchDecoder(edits).fit(basis, WORDS).decode(F)
    for index in (None, list("tuvwxyz")):
        words = pd.Series(WORDS, index=index)
        found = LocalSearchDecoder(edits).fit(basis, words).decode(F)
        assert isinstance(found, pd.Series)
        assert list(found) == expected
        assert list(LocalSearchDecoder(edits).fit(basis, WORDS).decode(F, words)) == expected


@pytest.mark.parametrize("objects", [[(1, 2), (3, 4)], [(1, 2), (3,)]], ids=["equal", "ragged"])
def test_an_array_of_tuples_stays_one(objects):
    Y = np.empty(2, dtype=object)
    Y[:] = objects
    basis = KernelBasis(oracle.as_matrix(oracle.overlap)).fit(Y)
    found = LocalSearchDecoder(lambda y: [y[::-1]]).fit(basis, Y).decode(basis.transform(Y))
    assert found.shape == (2,)
    assert list(found) == objects


def test_sparse_outputs():
    Y = np.eye(4)
    dense = LocalSearchDecoder(flips).fit(KernelBasis("linear").fit(Y), Y)
    basis = KernelBasis("linear").fit(sparse.csr_matrix(Y))
    thin = LocalSearchDecoder(flips_of_csr).fit(basis, sparse.csr_matrix(Y))
    F = np.array([[0.9, 0.8, 0.1, 0.2]])
    found = thin.decode(F)
    assert isinstance(found, sparse.csr_matrix)
    assert_array_equal(found.toarray(), dense.decode(F))
    assert thin.decode(F[:0]).shape == dense.decode(F[:0]).shape == (0, 4)


def test_outputs_in_a_frame():
    # a warning of missing column names would be an error
    Y, F = np.eye(4, dtype=int), np.array([[0.9, 0.8, 0.1, 0.2]])
    frame = pd.DataFrame(Y, columns=list("abcd"))
    decoder = LocalSearchDecoder(flips).fit(KernelBasis("linear").fit(frame), frame)
    pd.testing.assert_frame_equal(
        decoder.decode(F), pd.DataFrame([[1, 1, 0, 0]], columns=frame.columns)
    )


def test_copies_among_the_candidates_do_not_fill_the_beam():
    graph = {5: [6], 4: [5.5], 6: [], 5.5: [10], 10: []}
    basis = KernelBasis(lambda A, B: np.outer(A, B).astype(float)).fit([5, 4])
    decoder = LocalSearchDecoder(lambda j: graph[j], beam=2).fit(basis, [5, 4])
    F = basis.transform([10])
    for some in ([5, 5, 5, 4], [[5, 5, 5, 4]]):
        assert decoder.decode(F, some) == [10]


def flips_of_csr(y):
    return [sparse.csr_matrix(row) for row in flips(y.toarray().ravel())]
