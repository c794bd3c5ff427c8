"""`skout.Tuned` and the clock: a budget is a budget, and the best trial is what is fitted."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import skout
from skout import Tuned
from skout.apps.tuning import MAPS, Averaged, Map, Sample, averages
from skout.apps.tuning.averages import Members, choose
from skout.apps.tuning.clock import Clock, OutOfTime
from skout.apps.tuning.folds import make_folds
from skout.apps.tuning.scoring import Merit
from skout.apps.tuning.search import ModelSearch

pytestmark = pytest.mark.usefixtures("few_trees")


def problem(n, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)


class Machine:
    """A machine on which trials and last fits take `slow` times what is planned, and no time else.

    Everything is real but the clock; a trial asks it ten times.
    """

    def __init__(self, patch, slow):
        self.time, machine = 0.0, self

        class Timed(ModelSearch):
            def _best_cell(self, settings):
                for _ in range(10):
                    machine.time += 0.1 * slow * self.cost(settings)
                    self.clock.check()
                return super()._best_cell(settings)

        def last_sizes(search, chosen):
            sizes = averages.last_sizes(search, chosen)
            machine.time += slow * sum(map(search.planned_last, sizes))
            return sizes

        patch.setattr("skout.apps.tuning.estimator.ModelSearch", Timed)
        patch.setattr("skout.apps.tuning.estimator.last_sizes", last_sizes)
        patch.setattr(Tuned, "_now", staticmethod(lambda: self.time), raising=False)


# The best trial is what is fitted ----------------------------------------------------------------


def test_best_trial_is_not_thrown_away(monkeypatch):
    """On 4b718a2: neighbours at 0.44, having seen a kernel ridge at 0.94."""
    Machine(monkeypatch, 1.5)
    X, y = problem(62_000, 20)
    with pytest.warns(UserWarning, match=r"Fitted on .* of 60,000 rows, as many as a budget of 2"):
        model = Tuned(budget=2, random_state=0).fit(X[:60_000], y[:60_000])
    assert model.score_ > model.results_[0]["score"] - 0.02
    assert model.score(X[60_000:], y[60_000:]) > model.score_ - 0.05
    assert " of 60,000 rows" in model.summary()
    tried = {row["rows"] for row in model.results_ if row["map"] != "constant"}
    assert len(tried) > 1  # more than few rows were tried
    sizes = [one["rows"] for one in model.best_settings_]
    assert all(min(tried) <= rows < 60_000 for rows in sizes if rows is not None)


@pytest.mark.filterwarnings("ignore:Fitted on:UserWarning")
def test_time_that_is_left_goes_into_rows(monkeypatch):
    X, y = problem(20_000, 8)
    rows = {}
    for slow in (0.2, 3.0):
        with monkeypatch.context() as patch:
            Machine(patch, slow)
            model = Tuned(budget=1, random_state=0).fit(X, y)
        rows[slow] = max(one["rows"] or len(X) for one in model.best_settings_)
    assert rows[0.2] > 2 * rows[3.0]


def test_members_of_an_average_are_fitted_on_their_rows(tmp_path):
    X, y = problem(300)
    weights = np.random.default_rng(1).uniform(size=300)
    ridge = skout.KernelRidge("gaussian", alpha=1e-3)
    model = Averaged([ridge, ridge], rows=[None, 40], random_state=5).fit(X, y, weights)
    some = np.sort(np.random.default_rng(5).permutation(300)[:40])
    parts = [
        skout.KernelRidge("gaussian", alpha=1e-3).fit(X[own], y[own], weights[own]).predict(X)
        for own in (np.arange(300), some)
    ]
    assert_allclose(model.predict(X)[:, 0], np.mean(parts, axis=0), rtol=1e-10)
    skout.save(model, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout")
    assert_array_equal(again.predict(X), model.predict(X))
    assert again.rows == [None, 40]


def test_fewer_rows_hold_out_the_same_rows():
    X, y = problem(200)
    T = np.column_stack([y, y**2])
    T[5:, 1] = np.where(np.arange(195) % 40 == 0, T[5:, 1], np.nan)  # ten values
    splits = [(np.arange(150), np.arange(150, 170)), (np.arange(20, 170), np.arange(20))]
    folds = make_folds(200, 0, cv=splits, weights=np.arange(1.0, 201.0))
    small = Sample(X, T, folds, 0).with_rows(30)
    assert len(small.X) < 120
    for (train, held), (own, same) in zip(folds.splits, small.folds.splits, strict=True):
        assert_array_equal(small.X[same], X[held])
        assert {*map(tuple, small.X[own])} <= {*map(tuple, X[train])}
        assert 30 <= len(own) <= 41
        known = np.count_nonzero(~np.isnan(T[train, 1]))
        assert np.count_nonzero(~np.isnan(small.T[own, 1])) == known  # a rare output is kept
    assert_array_equal(small.folds.row_weights[small.folds.held], folds.row_weights[folds.held])


def test_averages_keep_to_the_time_for_last_fits():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((100, 1)).astype(np.float32)
    folds = make_folds(100, 0, cv=5)
    held = truth[folds.held]
    F = [held + rng.standard_normal((100, 1)).astype(np.float32) for _ in range(3)]
    merit = Merit(lambda f: -folds.part_means(((f - held) ** 2).T), held, folds)
    parts = np.arange(folds.n_parts)
    many = choose(Members(F, merit, np.full(3, 0.3)), parts, 6)
    assert np.count_nonzero(many.counts) == 3
    one = choose(Members(F, merit, np.full(3, 0.7)), parts, 6)
    assert np.count_nonzero(one.counts) == 1
    late = choose(Members(F, merit, np.array([3.0, 2.0, 5.0])), parts, 6)
    assert late.counts[0] == late.counts[2] == 0  # the shortest, where none has time


# A budget is a budget ----------------------------------------------------------------------------


@pytest.mark.parametrize(("slow", "budget"), [(0.3, 1.5), (1.0, 1.5), (4.0, 6.0), (10.0, 6.0)])
@pytest.mark.parametrize("n", [120, 4000])
@pytest.mark.filterwarnings("ignore:Fitted on:UserWarning")
def test_time_keeps_to_the_budget(monkeypatch, n, slow, budget):
    machine = Machine(monkeypatch, slow)
    X, y = problem(n)
    model = Tuned(budget=budget, random_state=0, cv=2 if n < 1000 else None).fit(X, y)
    assert machine.time <= 1.1 * budget
    assert len(model.results_) > 2 or slow == 10.0
    assert ("the clock ended the search" in model.summary()) == (model.cut_ > 0)
    cut = [row for row in model.results_ if row["cut"]]
    assert all(np.isnan(row["score"]) for row in cut)
    assert len(cut) <= model.cut_
    if slow >= 4.0:
        assert model.cut_ > 0
    assert model.score_ > model.baselines_["constant"] + 0.2


@pytest.mark.parametrize("slow", [0.1, 1.0])
def test_a_budget_is_used(monkeypatch, slow):
    """Trials go on until most of the seconds are spent, or many in a row brought no gain."""
    machine = Machine(monkeypatch, slow)
    X, y = problem(300)
    model = Tuned(budget=6.0, random_state=0).fit(X, y)
    refined = [row for row in model.results_ if row["stage"] == "refinement"]
    assert machine.time >= 0.75 * 6.0 or len(refined) >= 30
    assert len(model.results_) > (20 if slow < 1.0 else 8)


@pytest.mark.parametrize("n", [300, 4000])
@pytest.mark.filterwarnings("ignore:Fitted on:UserWarning")
def test_the_plan_is_the_same_on_every_machine(monkeypatch, n):
    """A faster machine gets further in the same order: the clock only ends it."""
    X, y = problem(n)
    plans = {}
    for slow in (0.2, 0.8):
        with monkeypatch.context() as patch:
            Machine(patch, slow)
            told = []
            model = Tuned(budget=3.0, random_state=0).fit(X, y, callback=told.append)
        plans[slow] = [(one.map, one.settings) for one in told if one.score is None]
    assert model.cut_ >= 0
    first_cut = min(len(plans[0.8]), 6)
    assert len(plans[0.2]) > len(plans[0.8]) >= first_cut
    assert plans[0.2][:first_cut] == plans[0.8][:first_cut]


def test_a_first_trial_that_is_cut_off_is_made_on_few_rows(monkeypatch):
    X, y = problem(900)
    time, real = [0.0], ModelSearch._best_cell

    def slow(self, settings):
        if settings.rows is None or settings.rows > 500:
            for _ in range(10):
                time[0] += 1.0
                self.clock.check()
        return real(self, settings)

    monkeypatch.setattr(ModelSearch, "_best_cell", slow)
    monkeypatch.setattr(Tuned, "_now", staticmethod(lambda: time[0]))
    model = Tuned("numbers", budget=4.0, random_state=0, maps=["kernel ridge"]).fit(X, y)
    assert model.cut_ > 0
    assert [row["rows"] for row in model.results_ if row["stage"] == "few rows"] == [500]
    assert "stopped after" in next(row for row in model.results_ if row["cut"])["cut"]
    assert time[0] < 8.0


def test_members_without_time_are_left_out():
    X, y = problem(80)
    ridge = skout.KernelRidge("gaussian", alpha=1e-3)
    other = skout.KernelRidge("laplacian", alpha=1e-3)
    model = Averaged([ridge, other, other], [0.5, 0.3, 0.2])
    model.fit(X, y, has_time=lambda member: member != 1)
    assert model.used_ == [0, 2]
    assert_allclose(model.weights_, [5 / 7, 2 / 7])
    assert Averaged([ridge, other]).fit(X, y, has_time=lambda member: False).used_ == [1]
    by_column = Averaged([ridge, other], np.array([[1.0, 0.5], [0.0, 0.5]]))
    by_column.fit(X, np.column_stack([y, y]), has_time=lambda member: False)
    assert by_column.used_ == [0]  # without it a column would have no member


def test_a_budget_too_short_is_said_beforehand():
    X, y = problem(60)
    with warnings.catch_warnings(record=True) as caught:  # where it is slow, of fewer rows too
        warnings.simplefilter("always")
        model = Tuned(budget=1e-6, random_state=0, cv=2).fit(X, y)
    assert "budget=1e-06 is short, and will be exceeded" in str(caught[0].message)
    assert [row["stage"] for row in model.results_ if not row["cut"]] == ["portfolio", "baseline"]


SETTINGS = {
    "kernel ridge": {"gamma": 0.3},
    "learned metric ridge": {"landmarks": 20},
    "aligned ridge": {"groups": ((0, 1), (1, 4))},
    "extra trees": {"n_estimators": 3, "max_features": 1.0},
    "random forest": {"n_estimators": 3},
    "boosting": {"max_leaf_nodes": 3, "max_iter": 5, "min_samples_leaf": 3, "subsample": 0.7},
    "neighbors": {"scaling": "standard"},
    "logistic": {},
}


@pytest.mark.parametrize("name", MAPS)
def test_a_trial_is_stopped_and_leaves_nothing_behind(name):
    """The clock is asked within a trial, of every map; one that was stopped can be run again."""
    X, _ = problem(60)
    T = np.tanh(X @ np.random.default_rng(1).standard_normal((4, 2)))
    settings, folds = MAPS[name](**SETTINGS[name]), make_folds(60, 0, cv=3)
    asked = []

    def now():
        asked.append(1.0)
        return float(len(asked))

    sample = Sample(X, T, folds, 0, clock=Clock(1e6, now))
    expected = list(settings.predictions(Sample(X, T, folds, 0)))
    before = len(asked)
    with sample.clock.limit(1e5):
        found = list(settings.predictions(sample))
    asks = len(asked) - before - 1
    assert asks >= 3  # each fold
    if name == "learned metric ridge":
        assert asks > 12  # and each round
    for stop in {1, asks // 2, asks - 1}:
        with pytest.raises(OutOfTime, match="stopped after"), sample.clock.limit(stop - 0.5):
            list(settings.predictions(sample))
    again = list(settings.predictions(sample))
    for one, other, plain in zip(found, again, expected, strict=True):
        assert one[0] == other[0] == plain[0]
        assert_array_equal(one[1], other[1])
        assert_allclose(one[1], plain[1], atol=1e-6)


def test_a_stopped_trial_is_none(monkeypatch):
    """A trial much longer than planned is stopped, and another one takes its place."""
    X, y = problem(60)
    time, real = [0.0], ModelSearch._best_cell

    def stuck(self, settings):
        time[0] += 0.01
        if settings.name == "extra trees":
            time[0] += 1.0
            self.clock.check()
        return real(self, settings)

    monkeypatch.setattr(ModelSearch, "_best_cell", stuck)
    monkeypatch.setattr(Tuned, "_now", staticmethod(lambda: time[0]), raising=False)
    model = Tuned(budget=4.0, random_state=0, cv=2).fit(X, y)
    maps = {row["map"] for row in model.results_ if not row["cut"]}
    assert "extra trees" not in maps
    assert "extra trees" in {row["map"] for row in model.results_ if "stopped" in row["cut"]}
    assert {"kernel ridge", "random forest"} <= maps
    assert model.cut_ > 0


# Odd data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [list, lambda y: np.array(y, dtype=object)])
def test_classes_of_two_types_are_refused(make):
    X, _ = problem(60)
    y = [1 if v > 0 else "1" for v in X[:, 0]]
    message = r"classes of one type\. Got int and str, such as 1 and '1'"
    with pytest.raises(TypeError, match=message):
        Tuned("classes", budget="1 fit").fit(X, make(y))
    model = Tuned("classes", budget="1 fit", random_state=0).fit(X, list(map(str, y[:30])) * 2)
    assert model.classes_.tolist() == ["1"]


def test_sets_that_are_all_empty_are_refused():
    X, _ = problem(60)
    with pytest.raises(ValueError, match="Y has no labels: all of its 60 sets are empty"):
        Tuned("label_sets", budget="2 fits").fit(X, [[] for _ in X])


@pytest.mark.parametrize("cv", [None, 3])
def test_one_row_with_all_the_weight(cv):
    """Scores are of this row alone, in units of the variance of all; nothing overflows."""
    X, y = problem(60, 3)
    weights = np.ones(60)
    weights[7] = 1e300
    with pytest.warns(UserWarning, match="one row counts more than all others together"):
        model = Tuned("numbers", budget="4 fits", random_state=0, cv=cv).fit(
            X, y, sample_weight=weights
        )
    assert np.isfinite(model.predict(X)).all()
    for row in model.results_:
        assert -100.0 < row["score"] <= 1.0
    # the mean of the others, by which row 7 is predicted when it is held out
    error = (y[7] - np.delete(y, 7).mean()) ** 2 / y.var()
    assert_allclose(model.baselines_["constant"], 1.0 - error, atol=0.25)
    assert -100.0 < model.score(X, y, sample_weight=weights) <= 1.0


def test_interrupt_before_the_first_trial(monkeypatch):
    X, y = problem(60)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Map, "predictions", interrupted)
    model = Tuned(budget="9 fits", random_state=0)
    with pytest.raises(KeyboardInterrupt, match="interrupted before it had a model") as stopped:
        model.fit(X, y)
    assert stopped.value.__suppress_context__
    assert not hasattr(model, "best_estimator_")


def test_interrupt_on_the_command_line(monkeypatch, tmp_path, capsys):
    pytest.importorskip("typer")
    from skout.apps.cli import main

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Map, "predictions", interrupted)
    X, y = problem(40)
    table = tmp_path / "table.csv"
    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="a,b,c,d,y", comments="")
    with pytest.raises(SystemExit) as stopped:
        main(["fit", str(table), "--target", "y", "-o", str(tmp_path / "model")])
    assert stopped.value.code == 130
    told = capsys.readouterr().err
    assert told.strip().splitlines()[-1] == "skout: interrupted"
    assert "Traceback" not in told
    assert not (tmp_path / "model").exists()
