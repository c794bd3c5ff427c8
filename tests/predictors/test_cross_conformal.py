"""Cross-conformal sets: p-values by double loops over refitted models, coverage by simulation."""

import math
import pickle

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skout
from skout import (
    CandidateSets,
    ConformalSets,
    Ensemble,
    KernelBasis,
    Reranker,
    StructuredPredictor,
    TwoWay,
    iokr,
    sisokr,
)
from skout.kernels import Gaussian, Linear
from skout.predictors.lists import Lists, Ranker
from skout.predictors.nonconformity import fit_softmax
from skout.predictors.out_of_fold import folds_of


def label_problem(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    Y = (X @ rng.standard_normal((3, 3)) + 0.7 * rng.standard_normal((n, 3)) > 0).astype(int)
    return X, Y


POOL = np.array([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(8)])


def model():
    return iokr(Gaussian(0.3), Gaussian(0.5), alpha=1e-2)


def gaps_by(fitted, x, pool):
    """The gap of each candidate for one input, from `rank`."""
    index, scores = fitted.rank(x[None], pool, k=len(pool))
    out = np.empty(len(pool))
    out[index[0]] = scores[0].max() - scores[0]
    return out


def p_values(X, Y, X_new, pools, new_pools, cv, seed, groups=None, mass=None, weight=1.0):
    """(w + sum_i m_i [s_i >= s_k(i)(x, c)]) / (w + sum_i m_i), by loops over refitted models."""
    mass = np.ones(len(X)) if mass is None else mass
    totals = [np.full(len(pool), weight) for pool in new_pools]
    for train, test in folds_of(cv, len(X), groups, np.random.default_rng(seed)):
        fitted = clone(model()).fit(X[train], Y[train])
        for i in test:
            own = int(np.flatnonzero((pools[i] == Y[i]).all(axis=1))[0])
            s = gaps_by(fitted, X[i], pools[i])[own]
            for j, x in enumerate(X_new):
                totals[j] += mass[i] * (s >= gaps_by(fitted, x, new_pools[j]) - 1e-10)
    return [total / (mass.sum() + weight) for total in totals]


def as_rows(objects):
    return {tuple(map(int, row)) for row in objects}


@pytest.mark.parametrize("per_query", [False, True], ids=["pool", "sets"])
@pytest.mark.parametrize("kind", ["plain", "groups", "weights"])
def test_p_values_by_loops(kind, per_query):
    X, Y = label_problem(34)
    n, new = 30, X[30:]
    pools, new_pools = [POOL] * n, [POOL] * 4
    if per_query:
        pools = [np.vstack([Y[i], POOL[(Y[i] != POOL).any(axis=1)][i % 3 :]]) for i in range(n)]
        new_pools = [POOL[: 5 + j] for j in range(4)]
    groups = np.arange(n) // 2 if kind == "groups" else None
    mass = {"plain": None, "groups": np.full(n, 0.5), "weights": np.linspace(0.5, 2.0, n)}[kind]
    given = {"weights": mass} if kind == "weights" else {"groups": groups}
    own = {"weights": np.full(4, 1.5)} if kind == "weights" else {}
    sets = ConformalSets(model(), random_state=3)
    sets.calibrate(X[:n], Y[:n], pools if per_query else POOL, cv=3, **given)
    weight = 1.5 if kind == "weights" else 1.0
    expected = p_values(X[:n], Y[:n], new, pools, new_pools, 3, 3, groups, mass, weight)
    found_sizes = set()
    for coverage in (0.3, 0.5, 0.75, 0.9, 0.93):
        found = sets.predict(new, new_pools if per_query else POOL, coverage, **own)
        for j, p in enumerate(expected):
            wanted = p > 1.0 - coverage + 1e-9
            wanted[np.argmax(p)] |= not wanted.any()  # no set is empty
            assert as_rows(found[j]) == as_rows(new_pools[j][wanted])
            at = [float(p[(new_pools[j] == row).all(axis=1)][0]) for row in found[j]]
            assert at == sorted(at, reverse=True)  # best first
            found_sizes.add(len(at))
    assert len(found_sizes) > 2


def test_strata_are_compared_with_their_own_rows():
    X, Y = label_problem(70)
    strata = np.where(np.arange(70) % 3 == 0, "a", "b")
    sets = ConformalSets(model(), random_state=0)
    sets.calibrate(X[:60], Y[:60], POOL, strata=strata[:60], cv=4)
    total = {"a": np.zeros((10, 8)), "b": np.zeros((10, 8))}
    for train, test in folds_of(4, 60, None, np.random.default_rng(0)):
        fitted = model().fit(X[train], Y[train])
        gaps = np.array([gaps_by(fitted, x, POOL) for x in X[60:]])
        for i in test:
            s = gaps_by(fitted, X[i], POOL)[POOL.tolist().index(Y[i].tolist())]
            total[strata[i]] += s >= gaps - 1e-10
    found = sets.predict(X[60:], POOL, 0.7, strata=strata[60:])
    for j in range(10):
        own = strata[60 + j]
        p = (1 + total[own][j]) / (1 + np.sum(strata[:60] == own))
        assert as_rows(found[j]) == as_rows(POOL[p > 0.3 + 1e-9])
    result = sets.evaluate(X[60:], Y[60:], POOL, 0.7, strata=strata[60:])
    assert result["strata"]["a"]["rows"] == np.sum(strata[60:] == "a")


def test_strata_by_size_with_sets_of_candidates():
    X, Y = label_problem(60)
    small = [POOL[POOL[:, 0] == y[0]] if i % 2 else POOL for i, y in enumerate(Y)]
    sets = ConformalSets(model(), random_state=0)
    sets.calibrate(X[:50], Y[:50], small[:50], strata="size", cv=3)
    found = sets.evaluate(X[50:], Y[50:], small[50:], 0.8)["strata"]
    assert {key: one["rows"] for key, one in found.items()} == {0: 5, 1: 5}


def test_scores_are_learnt_from_other_folds():
    X, Y = label_problem(60)
    sets = ConformalSets(model(), "softmax", random_state=1).calibrate(X, Y, POOL, cv=3)
    parts = []
    for train, test in folds_of(3, 60, None, np.random.default_rng(1)):
        ranker = Ranker(model().fit(X[train], Y[train]), "test")
        pool = ranker.last.embed(POOL)
        truth = ranker.matched(Y[test], pool, len(test))
        parts.append(Lists.joined(list(ranker.lists(X[test], pool, prior=True, truth=truth))))
    every = []
    for k, fold in enumerate(sets._folds):
        others = [parts[j] for j in range(3) if j != k]
        lists = Lists.joined(others)
        starts = np.repeat([0, len(others[0].number)], [len(one) for one in others])
        assert_array_equal(lists.truth, np.concatenate([one.truth for one in others]) + starts)
        expected = fit_softmax(lists, np.ones(len(lists)))
        assert_allclose(fold.score.softmax.coef, expected.coef, rtol=1e-4, atol=1e-4)
        assert_allclose(fold.values, np.sort(fold.score(parts[k])[parts[k].truth]), rtol=1e-6)
        every.append(fold.values)
    assert_allclose(sets.gaps_, np.sort(np.concatenate(every)))
    assert sets.threshold(0.8) == sets.gaps_[math.ceil(61 * 0.8) - 1]


def test_groups_stay_together():
    # copies of a row give the nearest neighbour away, unless they are in one fold
    X, Y = label_problem(20)
    rows = np.repeat(np.arange(20), 4)
    near = StructuredPredictor(KNeighborsRegressor(1), KernelBasis(Linear()))
    leaky, sound = (
        ConformalSets(near, random_state=0).calibrate(X[rows], Y[rows], POOL, groups=groups, cv=4)
        for groups in (None, rows)
    )
    assert np.mean(leaky.gaps_ == 0) > 0.9
    assert np.mean(sound.gaps_ == 0) < 0.9


def test_coverage_and_size_against_a_split_of_the_same_rows():
    crossed, split = [], []
    for seed in range(40):
        X, Y = label_problem(140, seed)
        crossed.append(
            ConformalSets(model(), "softmax", random_state=seed)
            .calibrate(X[:40], Y[:40], POOL, cv=5)
            .evaluate(X[40:], Y[40:], POOL, 0.8)
        )
        fitted = model().fit(X[:20], Y[:20])
        one = ConformalSets(fitted, "softmax", random_state=seed)
        one.calibrate(X[20:40], Y[20:40], POOL)
        split.append(one.evaluate(X[40:], Y[40:], POOL, 0.8))
    mean = lambda rows, key: np.mean([row[key] for row in rows])  # noqa: E731
    error = np.std([row["coverage"] for row in crossed]) / math.sqrt(40)
    assert error < 0.015
    assert 0.8 - 3 * error < mean(crossed, "coverage") < 0.83 + 3 * error
    assert mean(crossed, "mean_size") < 0.85 * mean(split, "mean_size")


@pytest.mark.parametrize("score", ["gap", "rank", "softmax", ["gap", "softmax", "quantile_gap"]])
def test_each_score(score):
    X, Y = label_problem(160)
    sets = ConformalSets(model(), score, random_state=0).calibrate(X[:100], Y[:100], POOL, cv=4)
    result = sets.evaluate(X[100:], Y[100:], POOL, 0.8)
    assert 0.65 < result["coverage"] < 0.97
    if isinstance(score, list):
        assert set(sets.mean_sizes_) == set(score)
        assert sets.score_ == min(sets.mean_sizes_, key=sets.mean_sizes_.get)
    before = np.zeros(60)
    for coverage in (0.3, 0.6, 0.9):
        sizes = sets.predict(X[100:], POOL, coverage).sizes
        assert np.all(sizes >= np.maximum(before, 1))
        before = sizes


WRAPPED = {
    "sisokr": lambda: sisokr(Gaussian(0.3), Gaussian(0.5), alpha=1e-2, random_state=0),
    "two ways": lambda: TwoWay(model(), weight=0.7),
    "ensemble": lambda: Ensemble(WRAPPED["sisokr"](), 2, random_state=0),
    "last word": lambda: Reranker(model(), cv=2, random_state=0),
    "pipeline": lambda: make_pipeline(StandardScaler(), model()),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_every_predictor_saved_and_loaded(name, tmp_path):
    X, Y = label_problem(80)
    given = WRAPPED[name]()
    sets = ConformalSets(given, "softmax", random_state=0).calibrate(X[:60], Y[:60], POOL, cv=3)
    assert not hasattr(given, "n_features_in_")  # the model itself is as it was
    found = sets.predict(X[60:], POOL, coverage=0.8)
    result = sets.evaluate(X[60:], Y[60:], POOL, coverage=0.8)
    covered = [(row == y).all(axis=1).any() for row, y in zip(found, Y[60:], strict=True)]
    assert result["coverage"] == np.mean(covered)
    skout.save(sets, tmp_path / "sets.skout")
    for again in (skout.load(tmp_path / "sets.skout"), pickle.loads(pickle.dumps(sets))):
        other = again.predict(X[60:], POOL, coverage=0.8)
        assert_array_equal(other.indices, found.indices)
        assert_array_equal(other.indptr, found.indptr)


def test_without_candidates_they_are_all_outputs(tmp_path):
    X, Y = label_problem(40)
    sets = ConformalSets(model(), random_state=0).calibrate(X, Y, cv=4)
    given = ConformalSets(model(), random_state=0).calibrate(X, Y, Y, cv=4)
    assert_array_equal(sets.predict(X).sizes, given.predict(X, Y).sizes)
    skout.save(sets, tmp_path / "all.skout")
    assert_array_equal(skout.load(tmp_path / "all.skout").predict(X).sizes, sets.predict(X).sizes)
    skout.save(sets, tmp_path / "none.skout", candidates=False)
    light = skout.load(tmp_path / "none.skout")
    assert_array_equal(light.predict(X, Y).sizes, given.predict(X, Y).sizes)
    with pytest.raises(ValueError, match="candidates"):
        light.predict(X)


def test_the_same_whatever_the_block_size_and_again_without_folds():
    X, Y = label_problem(60)
    sets = ConformalSets(model(), "softmax", random_state=0).calibrate(X, Y, POOL, cv=3)
    found = sets.predict(X, POOL, 0.8)
    with skout.memory_limits(block_rows=7):
        other = sets.predict(X, POOL, 0.8)
    assert_array_equal(other.indices, found.indices)
    fitted = model().fit(X[:30], Y[:30])
    plain = ConformalSets(fitted, random_state=0).calibrate(X[30:], Y[30:], POOL)
    again = sets.set_params(model=fitted, score="gap").calibrate(X[30:], Y[30:], POOL)
    assert_array_equal(again.predict(X, POOL).indices, plain.predict(X, POOL).indices)


@pytest.mark.parametrize("name", ["csr", "disk", "dask", "list"])
def test_the_same_wherever_rows_lie(name, tmp_path):
    X, Y = label_problem(50)
    expected = ConformalSets(model(), "softmax", random_state=0).calibrate(X, Y, POOL, cv=3)
    if name == "csr":
        X = sparse.csr_array(X)
    elif name == "disk":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif name == "dask":
        da = extra("dask.array")
        X, Y = (da.from_array(A, chunks=(20, 3)) for A in (X, Y))
    else:
        Y = list(Y)
    sets = ConformalSets(model(), "softmax", random_state=0).calibrate(X, Y, POOL, cv=3)
    assert_allclose(sets.gaps_, expected.gaps_, rtol=1e-6)
    assert_array_equal(sets.predict(X, POOL).sizes, expected.predict(X, POOL).sizes)


def test_data_frames():
    pd = extra("pandas")
    X, Y = label_problem(50)
    frame = pd.DataFrame(X, columns=list("abc"))
    sets = ConformalSets(model(), random_state=0).calibrate(frame[:40], Y[:40], POOL, cv=3)
    plain = ConformalSets(model(), random_state=0).calibrate(X[:40], Y[:40], POOL, cv=3)
    assert_array_equal(sets.predict(frame[40:], POOL).indices, plain.predict(X[40:], POOL).indices)


def test_too_few_rows_hold_every_candidate():
    X, Y = label_problem(20)
    sets = ConformalSets(model(), random_state=0).calibrate(X[:8], Y[:8], POOL, cv=2)
    with pytest.warns(UserWarning, match="needs 9 calibration rows or more. Got 8"):
        found = sets.predict(X[8:], POOL, coverage=0.9)
    assert_array_equal(found.sizes, 8)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"cv": 1}, ValueError, "cv must be"),
        ({"cv": 31}, ValueError, "cv=31 folds need as many rows. Got 30"),
        ({"cv": 4, "groups": np.arange(30) % 3}, ValueError, "as many groups. Got 3"),
        ({"cv": 3, "strata": "sizes"}, ValueError, "strata must be"),
        ({"cv": 3, "weights": np.ones(4)}, ValueError, "weights must be 30 finite numbers"),
    ],
)
def test_wrong_arguments(given, error, message):
    X, Y = label_problem(30)
    with pytest.raises(error, match=message):
        ConformalSets(model()).calibrate(X, Y, POOL, **given)


def test_what_cannot_be_folded():
    X, Y = label_problem(30)
    fitted = model().fit(X, Y)
    with pytest.raises(TypeError, match=r"each fold embeds them. Give pool.objects"):
        ConformalSets(fitted).calibrate(X, Y, fitted.embed(POOL), cv=3)
    sets = CandidateSets.from_lists([POOL] * 29)
    with pytest.raises(ValueError, match="Got 29 sets for 30 rows"):
        ConformalSets(fitted).calibrate(X, Y, sets, cv=3)
    with pytest.raises(TypeError, match="must rank candidates"):
        ConformalSets(KNeighborsRegressor()).calibrate(X, Y, POOL, cv=3)
