"""Kernels and decoders of rankings, against scipy and brute force over all permutations."""

import itertools
import tracemalloc

import numpy as np
import oracles
import pytest
from extras import extra
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from skout import KernelBasis, KernelRidge, StructuredPredictor, memory_limits
from skout.decoding import CandidateDecoder, RankingDecoder, kemeny
from skout.decoding import rankings as module
from skout.kernels import Gaussian, Kendall, Lehmer, Normalized, RankHamming
from skout.kernels.rankings import lehmer_codes, ranks_of_codes
from skout.sketches import PSparsified, SubSample
from skout.testing import check_decoder, check_kernel

pd = extra("pandas")

KERNELS = {
    "kendall": Kendall(),
    "kendall-ties": Kendall(ties=True),
    "rank-hamming": RankHamming(),
    "lehmer": Lehmer(),
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))
seeds = st.integers(0, 10_000)


def rankings(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permuted(np.tile(np.arange(d), (n, 1)), axis=1)


def all_rankings(d: int) -> np.ndarray:
    """Every ranking, sorted by its best item, then by its second best ..."""
    return np.argsort(list(itertools.permutations(range(d))), axis=1)


def preferences(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d, d))


def worth(P: np.ndarray, ranks: np.ndarray) -> float:
    """The sum of P[i, j] over i before j."""
    d = len(ranks)
    return sum(P[i, j] for i in range(d) for j in range(d) if ranks[i] < ranks[j])


def assert_rankings(ranks: np.ndarray, d: int) -> None:
    assert ranks.dtype == np.int64
    assert_array_equal(np.sort(ranks, axis=1), np.tile(np.arange(d), (len(ranks), 1)))


# Rows --------------------------------------------------------------------------------------------


@each_kernel
@pytest.mark.parametrize("d", [1, 2, 5])
def test_ranks_count_from_zero_or_one(kernel, d):
    Y = rankings(6, d)
    for same in (Y, Y + 1, (Y + 1).tolist(), pd.DataFrame(Y + 1), Y + np.arange(6)[:, None] % 2):
        rows = kernel.encode(same)
        assert rows.dtype == np.float64
        assert_array_equal(rows, Y)
        assert_array_equal(kernel.encode(rows), rows)
    single = kernel.encode((Y + 1).astype(np.float32))
    assert single.dtype == kernel.features(single).dtype == kernel(single).dtype == np.float32
    assert_array_equal(single, Y)


@each_kernel
def test_rows_are_read_only(kernel):
    Y = rankings(6, 4) + 1.0
    Y.flags.writeable = False
    rows = kernel.encode(Y)
    rows.flags.writeable = False
    kernel.features(rows)
    check_kernel(kernel, rows)
    assert_array_equal(Y, rankings(6, 4) + 1.0)


@pytest.mark.parametrize("bad", [[0, 1, 1], [0, 1, 3], [2, 3, 4], [0.0, 0.5, 1.0], [-1, 0, 1]])
@pytest.mark.parametrize("kernel", [Kendall(), RankHamming(), Lehmer()], ids=repr)
def test_rows_that_are_no_rankings(kernel, bad):
    with pytest.raises(ValueError, match=r"permutation of 0\.\.2 or of 1\.\.3\. Row 2 is \["):
        kernel([[0, 1, 2], [3, 2, 1], bad, [0, 1, 2]])


def test_kendall_says_how_to_allow_ties():
    with pytest.raises(ValueError, match=r"Kendall takes rankings.*use Kendall\(ties=True\)"):
        Kendall()([[0, 1, 1]])
    with pytest.raises(ValueError, match=r"ties must be one of False, True\. Got 'yes'"):
        Kendall(ties="yes")([[0, 1, 2]])


@each_kernel
def test_rows_of_other_kinds(kernel):
    with pytest.raises(TypeError, match="Sparse data was passed for objects, but dense data"):
        kernel(sparse.csr_matrix(rankings(4, 3)))
    with pytest.raises(ValueError, match="NaN"):
        kernel([[0.0, np.nan]])
    with pytest.raises(ValueError, match=r"same number of columns\. Got 3 and 4"):
        kernel(rankings(2, 3), rankings(2, 4))


def test_only_the_order_counts_with_ties():
    X = np.array([[0.5, -7.0, 0.5, 1e300], [3.0, 3.0, 3.0, 3.0]])
    kernel = Kendall(ties=True)
    assert_array_equal(kernel.encode(X), [[1, 0, 1, 2], [0, 0, 0, 0]])
    assert_array_equal(kernel.encode(kernel.encode(X)), kernel.encode(X))
    assert_allclose(kernel.diag(kernel.encode(X)), [5 / 6, 0.0])
    assert not kernel.normalized
    assert Kendall().normalized


# Kernels -----------------------------------------------------------------------------------------


@each_kernel
def test_no_rows(kernel):
    none, two = np.empty((0, 3)), rankings(2, 3)
    assert kernel(none).shape == (0, 0)
    assert kernel(none, two).shape == (0, 2)
    assert kernel(two, none).shape == (2, 0)
    assert kernel.diag(kernel.encode(none)).shape == (0,)


@each_kernel
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_features_are_those_of_the_kernel(kernel, d):
    A, B = rankings(8, d, seed=1), rankings(5, d, seed=2)
    features = kernel.features(kernel.encode(A)), kernel.features(kernel.encode(B))
    assert_allclose(features[0] @ features[1].T, kernel(A, B), atol=1e-12)
    assert_allclose(kernel.diag(kernel.encode(A)), (features[0] ** 2).sum(axis=1))
    check_kernel(kernel, A)


@each_kernel
def test_one_item_is_alike(kernel):
    assert_array_equal(kernel([[0], [1]]), np.ones((2, 2)))


def test_kendall_is_that_of_scipy():
    A, B = rankings(6, 7, seed=1), rankings(5, 7, seed=2)
    tau = [[stats.kendalltau(a, b).statistic for b in B] for a in A]
    assert_allclose(Kendall()(A, B), tau, atol=1e-12)
    A, B = A // 2, B // 3
    tau_b = [[stats.kendalltau(a, b).statistic for b in B] for a in A]
    assert_allclose(Normalized(Kendall(ties=True))(A, B), tau_b, atol=1e-12)


def test_strict_rankings_may_be_given_with_ties_allowed():
    Y = rankings(9, 5)
    assert_array_equal(Kendall(ties=True)(Y), Kendall()(Y))


@pytest.mark.parametrize("d", range(1, 7))
def test_lehmer_codes_are_a_bijection(d):
    Y = all_rankings(d)
    codes = lehmer_codes(Y)
    assert_array_equal(codes, [oracles.lehmer_code(y) for y in Y])
    assert {tuple(c) for c in codes} == set(itertools.product(*[range(j + 1) for j in range(d)]))
    assert_array_equal(ranks_of_codes(codes), Y)


@given(d=st.integers(1, 30), seed=seeds)
def test_lehmer_codes_of_many_items(d, seed):
    Y = rankings(5, d, seed)
    assert_array_equal(ranks_of_codes(lehmer_codes(Y)), Y)
    assert_array_equal(lehmer_codes(Y).sum(axis=1), [inversions(y) for y in Y])


def inversions(y):
    return sum(y[i] > y[j] for j in range(len(y)) for i in range(j))


@pytest.mark.parametrize("d", range(2, 7))
def test_lehmer_features_are_centred_and_of_mean_norm_one(d):
    kernel, rows = Lehmer(), all_rankings(d).astype(float)
    features = kernel.features(rows)
    assert_allclose(features.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(kernel.diag(rows).mean(), 1.0)
    assert_allclose(kernel.codes(features), lehmer_codes(rows), atol=1e-12)


@given(d=st.integers(1, 7), seed=seeds)
def test_names_of_items_do_not_matter(d, seed):
    Y, names = rankings(6, d, seed), np.random.default_rng(seed).permutation(d)
    for kernel in (Kendall(), RankHamming()):
        assert_allclose(kernel(Y[:, names]), kernel(Y), atol=1e-12)


# Decoding ----------------------------------------------------------------------------------------

SKETCHES = {"exact": None, "sub-sample": SubSample(10), "p-sparsified": PSparsified(8)}


def fitted(kernel, Y, sketch=None, **params):
    basis = KernelBasis(kernel, sketch, random_state=0).fit(Y)
    return basis, RankingDecoder(**params).fit(basis, Y)


@each_kernel
@pytest.mark.parametrize("sketch", SKETCHES.values(), ids=list(SKETCHES))
@pytest.mark.parametrize("d", range(2, 7))
def test_decoding_is_brute_force(kernel, sketch, d):
    Y, C = rankings(25, d), all_rankings(d)
    if kernel.get_params().get("ties"):
        Y = Y // 2 if d > 2 else Y
    basis, decoder = fitted(kernel, Y, sketch)
    F = np.random.default_rng(1).standard_normal((20, basis.rank_))
    found = decoder.decode(F)
    assert_rankings(found, d)
    check_decoder(RankingDecoder(), basis, C, F)
    scores = 2.0 * F @ basis.transform(C).T - basis.kernel_.diag(basis.kernel_.encode(C))
    ahead = np.diff(np.sort(scores, axis=1)[:, -2:])[:, 0] > 1e-9  # no other is as good
    assert_array_equal(found[ahead], C[scores.argmax(axis=1)][ahead])


def test_conformance_check_can_fail():
    class Worst(RankingDecoder):
        def decode(self, F, candidates=None):
            return super().decode(-F, candidates)

    Y = all_rankings(4)
    basis, _ = fitted(Kendall(), Y)
    with pytest.raises(AssertionError):
        check_decoder(Worst(), basis, Y, basis.transform(Y))


@pytest.mark.filterwarnings("ignore:.*local search")
@pytest.mark.parametrize("max_exact", [0, 10])
def test_decoding_with_kendall_is_kemeny_of_weighted_voters(max_exact):
    Y = rankings(30, 9)
    basis, decoder = fitted(Kendall(), Y, max_exact=max_exact)
    weights = np.random.default_rng(0).standard_normal((40, 30))
    P = np.einsum("bn,nij->bij", weights, Y[:, :, None] < Y[:, None, :])
    found = decoder.decode(weights @ basis.transform(Y))
    assert_array_equal(found, kemeny(P, max_exact))
    assert max_exact == 10 or (found != kemeny(P)).any()


@given(kernel=st.sampled_from(list(KERNELS.values())), d=st.integers(1, 12), seed=seeds)
def test_decoding_what_was_transformed_gives_it_back(kernel, d, seed):
    Y = rankings(8, d, seed)
    for max_exact in (0, 10):
        basis, decoder = fitted(kernel, Y, max_exact=max_exact)
        assert_array_equal(decoder.decode(basis.transform(Y)), Y)


@given(kernel=st.sampled_from([Kendall(), RankHamming()]), d=st.integers(2, 6), seed=seeds)
def test_names_of_items_permute_the_decoded(kernel, d, seed):
    rng = np.random.default_rng(seed)
    Y, names = rankings(12, d, seed), rng.permutation(d)
    weights = rng.standard_normal((5, 12))  # of the outputs, as a regressor may give them
    scores = np.sort(weights @ kernel(Y, all_rankings(d)), axis=1)
    assume((scores[:, -1] - scores[:, -2] > 1e-9).all())
    basis, decoder = fitted(kernel, Y)
    again, renamed = fitted(kernel, Y[:, names])
    found = renamed.decode(weights @ again.transform(Y[:, names]))
    assert_array_equal(found, decoder.decode(weights @ basis.transform(Y))[:, names])


@each_kernel
def test_decoding_does_not_depend_on_blocks(kernel):
    Y = rankings(30, 7)
    basis, decoder = fitted(kernel, Y)
    F = np.random.default_rng(0).standard_normal((100, basis.rank_))
    expected = decoder.decode(F)
    for rows, n_jobs in ((1, 1), (7, 2), (1000, 2)):
        with memory_limits(block_rows=rows):
            assert_array_equal(decoder.set_params(n_jobs=n_jobs).decode(F), expected)
    assert_array_equal(decoder.decode(F[:0]), np.empty((0, 7)))
    assert_array_equal(decoder.decode(F[[3]]), expected[[3]])
    assert_rankings(decoder.decode(F.astype(np.float32)), 7)


def test_exact_search_keeps_to_the_memory_budget():
    Y = rankings(50, 10)
    basis, decoder = fitted(Kendall(), Y, n_jobs=1)
    F = np.random.default_rng(0).standard_normal((2000, basis.rank_))
    with memory_limits(block_mb=4.0):
        tracemalloc.start()
        decoder.decode(F)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 6 * 2**20  # all rows at once take 2000 * 8 * 2^10 bytes = 16 MB for V alone


@each_kernel
def test_decoding_one_item(kernel):
    Y = np.zeros((4, 1))
    basis, decoder = fitted(kernel, Y)
    assert_array_equal(decoder.decode(np.ones((3, basis.rank_))), np.zeros((3, 1)))


@each_kernel
def test_indifference_puts_the_lowest_item_first(kernel):
    basis, decoder = fitted(kernel, rankings(30, 5))
    ranks = decoder.decode(np.zeros((2, basis.rank_)))
    if isinstance(kernel, Lehmer):  # the mean code is 0, 1/2, 1, 3/2, 2, and halves go down
        assert_array_equal(lehmer_codes(ranks), [[0, 0, 1, 1, 2]] * 2)
    else:
        assert_array_equal(ranks, [np.arange(5)] * 2)


@pytest.mark.filterwarnings("ignore:.*local search")
def test_parameters_and_inputs_are_left_alone():
    Y = rankings(10, 4)
    Y.flags.writeable = False
    basis, decoder = fitted(Kendall(), Y, max_exact=3)
    F = np.ones((2, basis.rank_))
    F.flags.writeable = False
    decoder.decode(F)
    assert decoder.get_params() == {"max_exact": 3, "n_jobs": None}
    assert decoder.n_items_ == 4
    assert decoder.directions_.shape == (basis.rank_, 6)


def test_mistakes():
    Y = rankings(10, 4)
    basis, decoder = fitted(Kendall(), Y)
    with pytest.raises(ValueError, match="RankingDecoder searches all objects, so candidates"):
        decoder.decode(np.ones((1, basis.rank_)), Y)
    with pytest.raises(TypeError, match="builds objects instead of ranking candidates"):
        decoder.rank(np.ones((1, basis.rank_)))
    with pytest.raises(NotFittedError):
        RankingDecoder().decode(np.ones((1, 3)))
    for kernel in (Gaussian(1.0), 2.0 * Kendall()):
        message = r"takes the kernels Kendall, RankHamming and Lehmer\. Got .*decoder=.candidates"
        with pytest.raises(TypeError, match=message):
            RankingDecoder().fit(KernelBasis(kernel).fit(Y), Y)
    for bad, error in ((-1, ValueError), (2.5, TypeError)):
        with pytest.raises(error, match=f"max_exact must be an integer >= 0. Got {bad}"):
            RankingDecoder(max_exact=bad).fit(basis, Y)
        with pytest.raises(error, match=f"max_exact must be an integer >= 0. Got {bad}"):
            kemeny(np.eye(3), max_exact=bad)


# Kemeny ------------------------------------------------------------------------------------------


@given(d=st.integers(1, 6), high=st.sampled_from([1, 2, 9]), seed=seeds)
def test_kemeny_is_the_first_of_the_best_orders(d, high, seed):
    """Whole numbers tie often and add without rounding."""
    P = np.random.default_rng(seed).integers(0, high + 1, (3, d, d))
    C = all_rankings(d)
    for Q, ranks in zip(P, kemeny(P), strict=True):
        values = [worth(Q, c) for c in C]
        assert_array_equal(ranks, C[int(np.argmax(values))])


@pytest.mark.filterwarnings("ignore:.*local search")
@given(d=st.integers(1, 8), seed=seeds, max_exact=st.sampled_from([0, 10]))
def test_kemeny_renames_and_reverses(d, seed, max_exact):
    P = preferences(2, d, seed)
    names = np.random.default_rng(seed).permutation(d)
    ranks = kemeny(P)
    assert_array_equal(kemeny(P[:, names][:, :, names]), ranks[:, names])
    assert_array_equal(kemeny(P.transpose(0, 2, 1)), d - 1 - ranks)
    assert_array_equal(kemeny(3.0 * P + np.eye(d)), ranks)  # nor does the diagonal count
    assert_rankings(kemeny(P, max_exact), d)


def test_kemeny_of_voters_has_the_largest_sum_of_tau():
    Y, C = rankings(9, 5), all_rankings(5)
    P = (Y[:, :, None] < Y[:, None, :]).sum(axis=0)
    tau = Kendall()(C, Y).sum(axis=1)
    assert_allclose(Kendall()(kemeny(P)[None], Y).sum(), tau.max())


@pytest.mark.parametrize("d", [9, 20])
def test_majorities_without_cycle_are_followed_at_any_size(d, monkeypatch):
    Y = rankings(5, d)
    P = np.random.default_rng(0).uniform(0.1, 1.0, (5, d, d)) * (Y[:, :, None] < Y[:, None, :])
    for name in ("_search_subsets", "_search_locally"):
        monkeypatch.setattr(module, name, None)
    assert_array_equal(kemeny(P), Y)
    assert_array_equal(kemeny(P[0]), Y[0])


@pytest.mark.filterwarnings("ignore:.*local search")
def test_local_search_is_nearly_exact():
    P = preferences(300, 9)  # noise alone, the hardest
    exact, local = kemeny(P), kemeny(P, max_exact=8)
    best = np.array([worth(Q - Q.T, r) for Q, r in zip(P, exact, strict=True)])
    found = np.array([worth(Q - Q.T, r) for Q, r in zip(P, local, strict=True)])
    assert (found <= best + 1e-9).all()
    assert (found < best - 1e-9).any()  # else it was not the local search
    assert np.mean((best - found) / best) < 0.01
    assert np.mean(found > best - 1e-9) > 0.75


@pytest.mark.filterwarnings("ignore:.*local search")
@pytest.mark.parametrize("d", [2, 5, 15])
def test_local_search_ends_where_no_move_gains(d):
    P = preferences(10, d)
    for Q, ranks in zip(P, kemeny(P, max_exact=0), strict=True):
        value = worth(Q, ranks)
        order = np.argsort(ranks)
        for item, place in itertools.product(range(d), repeat=2):
            moved = np.insert(order[order != item], place, item)
            assert worth(Q, np.argsort(moved)) <= value + 1e-9
        borda = np.argsort(np.argsort(-(Q - Q.T).sum(axis=1)))
        assert value >= worth(Q, borda) - 1e-9


@pytest.mark.parametrize(
    ("P", "message"),
    [
        (np.ones((2, 3)), r"shape \(d, d\) or \(n, d, d\)\. Got \(2, 3\)"),
        (np.ones((1, 2, 3, 3)), r"Got \(1, 2, 3, 3\)"),
        (np.ones(3), r"Got \(3,\)"),
        (np.ones((2, 0, 0)), r"Got \(2, 0, 0\)"),
        (np.full((2, 2), np.nan), "NaN"),
    ],
)
def test_kemeny_mistakes(P, message):
    with pytest.raises(ValueError, match=message):
        kemeny(P)


def test_kemeny_of_nothing():
    assert kemeny(np.empty((0, 4, 4))).shape == (0, 4)
    assert_array_equal(kemeny([[0.0]]), [0])
    assert_array_equal(kemeny(np.zeros((1, 12, 12))), [np.arange(12)])


# From end to end ---------------------------------------------------------------------------------


def label_ranking(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Items ranked by utilities that are linear in x, the same for every seed."""
    X = np.random.default_rng(seed).standard_normal((n, 3))
    utilities = X @ np.random.default_rng(99).standard_normal((3, d))
    return X, np.argsort(np.argsort(-utilities, axis=1), axis=1)


@each_kernel
@pytest.mark.parametrize("sketch", [None, SubSample(30)], ids=str)
def test_predictor_finds_rankings_it_has_not_seen(kernel, sketch):
    X, Y = label_ranking(80, 6)
    X_new, Y_new = label_ranking(100, 6, seed=1)
    basis = KernelBasis(kernel, sketch, random_state=0)
    model = StructuredPredictor(KernelRidge(Gaussian(0.1)), basis, RankingDecoder())
    found = model.fit(X, Y).predict(X_new)
    assert_rankings(found, 6)
    seen = {tuple(y) for y in Y}
    assert any(tuple(y) not in seen for y in found)
    tau = Kendall().paired(Y_new, found).mean()
    assert tau > (0.85 if isinstance(kernel, Kendall) else 0.65)
    named = StructuredPredictor(model.regressor, basis, "rankings").fit(X, Y)
    assert_array_equal(named.predict(X_new), found)


@each_kernel
def test_all_rankings_have_a_better_one_than_the_candidates(kernel):
    X, Y = label_ranking(80, 6)
    X_new, Y_new = label_ranking(100, 6, seed=1)
    model = StructuredPredictor(KernelRidge(Gaussian(0.1)), KernelBasis(kernel), "rankings")
    found = model.fit(X, Y).predict(X_new)
    F = model.predict_coordinates(X_new)
    pool = CandidateDecoder().fit(model.output_basis_, Y)
    score = 2.0 * (F * model.output_basis_.transform(found)).sum(axis=1)
    score -= kernel.diag(kernel.encode(found))
    assert (score >= pool.rank(F, k=1)[1][:, 0] - 1e-9).all()
    if isinstance(kernel, Kendall):
        tau = [Kendall().paired(Y_new, ranks).mean() for ranks in (found, pool.decode(F))]
        assert tau[0] > tau[1]


def test_grid_search_over_kernels():
    X, Y = label_ranking(60, 5)
    model = StructuredPredictor(KernelRidge(Gaussian(0.1)), KernelBasis("kendall"), "rankings")
    grid = {
        "output_basis__kernel": ["kendall", "rank_hamming", "lehmer", Kendall(ties=True)],
        "regressor__alpha": [1e-4, 1e2],
    }
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, Y)
    scores = search.cv_results_["mean_test_score"].reshape(4, 2)
    assert (scores[:, 0] > scores[:, 1]).all()
    assert_allclose(scores[0], scores[3])  # no ties here
    assert search.best_score_ > 0.8
    assert_rankings(search.predict(X), 5)


# Claims ------------------------------------------------------------------------------------------


def circle(d):
    """Each of d items before the next two: no order has every pair right."""
    P = np.zeros((d, d))
    for i in range(d):
        P[i, [(i + 1) % d, (i + 2) % d]] = 1.0
    return P


def test_a_ranking_that_may_not_be_the_best_is_told():
    with pytest.warns(UserWarning, match="1 of 2 rankings of 12 items were found by local search"):
        kemeny(np.array([circle(12), np.triu(np.ones((12, 12)))]))
    kemeny(circle(10))  # exact
    kemeny(circle(12), max_exact=12)
    kemeny(np.zeros((12, 12)))  # any order is the best
    Y = np.argsort(np.random.default_rng(0).random((30, 12)), axis=1)
    basis, decoder = fitted(Kendall(), Y)
    with pytest.warns(UserWarning, match="of 5 rankings of 12 items.*max_exact=10 is the most"):
        decoder.decode(np.random.default_rng(1).standard_normal((5, basis.rank_)))
