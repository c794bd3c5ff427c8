"""`Tuned` beside scikit-learn: rows, splits, rivals, verdicts that can be "short"."""

import itertools
import json
import time
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skout.datasets.dataset import Dataset
from skout.metrics import arrmse, example_f1, kendall_tau

# Verdicts --------------------------------------------------------------------------------------


def row(kind, data, ours, theirs, error=0.01, best=None, paired=0.001):
    """Return the row of a record, all folds run."""
    families = {"forest": [theirs, error], "ridge": [theirs if best is None else best, error]}
    return {"kind": kind, "data": data, "complete": True, "folds": 1, "n": 1234, "n_test": 400,
            "seconds": {"tuned": [61.0], "rivals": [70.0]}, "tuned": [ours, error],
            "rival": [theirs, error], "chosen": ["forest"], "paired_error": paired,
            "families": families}  # fmt: skip


def results(kind, *scores):
    """Return a fabricated record: (ours, theirs) for the first sets, and we are first elsewhere."""
    from experiments.ours.tuned_sets import KINDS

    sign = 1 if KINDS[kind].more else -1
    pairs = itertools.chain(scores, itertools.repeat((0.5, 0.5 - 0.1 * sign)))
    return [row(kind, data, *pair) for data, pair in zip(KINDS[kind].sets, pairs, strict=False)]


@pytest.mark.parametrize(("kind", "behind"), [("labels", 0.3), ("targets", 0.7)])
def test_a_kind_is_short_if_a_tenth_of_its_sets_is_behind(kind, behind):
    from experiments.ours.tuned_page import count

    one, two = [(behind, 0.5)], [(behind, 0.5)] * 2
    assert count(results(kind, *one), kind).reached
    short = count(results(kind, *two), kind)
    assert not short.reached
    assert short.verdict == "**short**"
    assert short.near == short.sets - 2


def test_a_kind_is_short_if_it_is_near_but_seldom_first():
    from experiments.ours.tuned_page import count

    near = (0.495, 0.5)
    ten = count(results("labels", *[near] * 5), "labels")
    assert (ten.first, ten.near, ten.reached) == (10, 15, True)
    nine = count(results("labels", *[near] * 6), "labels")
    assert (nine.first, nine.near, nine.reached) == (9, 15, False)


def test_a_tie_is_not_first():
    from experiments.ours.tuned_page import place

    assert place(row("labels", "yeast", 0.5, 0.5), [0.5, 0.01]) == "near"
    assert place(row("labels", "yeast", 0.489, 0.5), [0.5, 0.01]) == "behind"
    assert place(row("targets", "rf1", 0.489, 0.5), [0.5, 0.01]) == "first"


def test_what_was_not_run_is_short():
    from experiments.ours.tuned_page import count

    some = results("labels")
    some[3] = {"kind": "labels", "data": some[3]["data"], "folds": 3, "complete": False}
    counted = count(some, "labels")
    assert (counted.sets, counted.missing, counted.reached) == (14, 1, False)
    assert counted.verdict == "**short**: 1 not run"
    assert not count([], "labels").reached


def test_the_best_on_test_rows_and_the_paired_error_are_harder():
    from experiments.ours.tuned_page import count, oracle

    rows = [
        row("labels", one["data"], 0.495, 0.5, best=0.52, paired=0.004) for one in results("labels")
    ]
    assert oracle(rows[0]) == ("ridge", [0.52, 0.01])
    assert [count(rows, "labels", by).near for by in ("rival", "oracle", "paired")] == [15, 0, 0]
    less = row("targets", "rf1", 0.5, 0.5, best=0.4)
    assert oracle(less)[0] == "ridge"


def test_published_bests_are_counted():
    from experiments.ours.tuned_page import published

    rows = [
        row("rankings", "iris", 0.968, 0.9),
        row("rankings", "wine", 0.950, 0.9),
        row("rankings", "glass", 0.880, 0.9),
        row("rankings", "sushi", 0.1, 0.1),
    ]
    assert published(rows) == (1, 2, 3)


def test_the_page_says_short_and_first():
    from experiments.ours.tuned_page import page_text

    rows = results("labels", (0.3, 0.5), (0.3, 0.5)) + results("rankings") + results("targets")
    where = {"hardware": {"cores": 16}, "versions": {"scikit-learn": "1"}, "date": "", "seed": 0}
    text = page_text(where | {"results": rows})
    lines = {line.split("|")[1].strip(): line for line in text.splitlines() if "|" in line}
    assert "**short**" in lines["Label sets, example F1"]
    assert "13 of 15" in lines["Label sets, example F1"]
    assert "reached" in lines["Rankings, Kendall's tau"]
    assert "| behind |" in text
    assert "There is no record yet" in page_text(None)


def test_the_page_is_that_of_the_record():
    from experiments.ours import tuned_page

    text = (tuned_page.DOCS / "tuned.md").read_text(encoding="utf-8")
    assert text == tuned_page.page_text(tuned_page.read()), (
        "run: python -m experiments.ours.tuned page"
    )


# Rows and splits -------------------------------------------------------------------------------


def part_of(Y, Y_test):
    return SimpleNamespace(Y=Y, Y_test=Y_test)


def test_rows_add_up_to_the_metrics():
    from experiments.ours.tuned_sets import row_scores, score

    rng = np.random.default_rng(0)
    sets, found = (rng.integers(0, 2, (40, 5)) for _ in range(2))
    sets[0] = found[0] = 0
    rows = row_scores("labels", part_of(sets, sets), found)
    assert_allclose(score("labels", rows), example_f1(sets, found))
    ranks, guess = (rng.permuted(np.tile(np.arange(6), (40, 1)), axis=1) for _ in range(2))
    rows = row_scores("rankings", part_of(ranks, ranks), guess)
    assert_allclose(score("rankings", rows), kendall_tau(ranks, guess))
    Y, Y_test, F = (rng.standard_normal((40, 3)) for _ in range(3))
    rows = row_scores("targets", part_of(Y, Y_test), F)
    assert_allclose(score("targets", rows), arrmse(Y_test, F, Y.mean(axis=0)))


def test_the_jackknife_leaves_out_each_row():
    from experiments.ours.tuned_sets import pseudo_values, row_scores, score, standard_error

    rng = np.random.default_rng(0)
    Y, Y_test, F = (rng.standard_normal((30, 3)) for _ in range(3))
    rows = row_scores("targets", part_of(Y, Y_test), F)
    without = np.array([score("targets", np.delete(rows, i, axis=0)) for i in range(30)])
    values = pseudo_values("targets", rows)
    assert_allclose(values, 30 * score("targets", rows) - 29 * without)
    spread = np.sqrt(29 / 30 * np.sum((without - without.mean()) ** 2))
    assert_allclose(standard_error(values), spread)


@pytest.mark.parametrize("n", [60, 1500])
@pytest.mark.parametrize("official", [False, True])
def test_outer_parts(n, official):
    from experiments.ours.tuned_sets import n_parts, outer, part

    split = {"train": slice(0, 40), "test": slice(40, n)} if official else {}
    data = Dataset("some", np.arange(n)[:, None].astype(float), np.zeros((n, 2)), split)
    tests = [outer(data, fold)[1] for fold in range(n_parts(data))]
    if n < 1000:
        assert_array_equal(np.sort(np.concatenate(tests)), np.arange(n))
    else:
        assert len(tests[0]) == (n - 40 if official else n / 3)
    inside = part(data, 0, inside=True)
    assert not set(inside.test) & set(tests[0]), "work on Tuned sees no test row"
    assert not set(inside.X[:, 0]) & set(tests[0])


def test_gaps_are_filled_by_training_rows_and_codes_become_indicators():
    from experiments.ours.tuned_sets import prepared

    X = np.array([[1.0, 0.0], [3.0, 1.0], [np.nan, 1.0], [np.nan, 7.0], [100.0, 0.0]])
    data = Dataset("some", X, np.zeros((5, 1)), names={"nominal": np.array([1])})
    train, test = prepared(data, np.array([0, 1, 2]), np.array([3, 4]))
    assert_array_equal(train, [[1, 1, 0], [3, 0, 1], [2, 0, 1]])
    assert_array_equal(test, [[2, 0, 0], [100, 1, 0]])


def test_every_set_has_a_loader_and_every_published_best_a_set():
    from experiments.ours.tuned_sets import KINDS, PUBLISHED
    from skout.datasets import CATALOG

    kinds = {"labels": "multilabel", "rankings": "ranking", "targets": "multioutput"}
    for kind, about in KINDS.items():
        assert all((kinds[kind], data) in CATALOG for data in about.sets)
    assert set(PUBLISHED) == set(KINDS["rankings"].sets) - {"sushi"}
    assert [len(about.sets) for about in KINDS.values()] == [15, 19, 17]


# Rivals ----------------------------------------------------------------------------------------


def problem(kind, n=90, seed=0):
    """Return inputs and outputs that a linear map explains."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    T = X @ rng.standard_normal((4, 3))
    if kind == "labels":
        return X, (T > 0.3).astype(int)
    return (X, T) if kind == "targets" else (X, T.argsort(axis=1).argsort(axis=1))


@pytest.mark.parametrize("kind", ["labels", "rankings", "targets"])
def test_families_predict_what_they_should(kind):
    from experiments.ours.tuned_rivals import Circumstances, decoded, families
    from experiments.ours.tuned_sets import KINDS

    X, Y = problem(kind)
    constant = np.tile(Y[:1], (len(Y), 1)) if kind != "targets" else np.tile(Y.mean(0), (len(Y), 1))
    sign = 1 if KINDS[kind].more else -1
    rule = {"threshold": 0.5, "some": False}
    for family in families(kind, is_sparse=False):
        for setting in family.settings[:1] + family.settings[-1:]:
            model = family.build(setting, Circumstances(kind, False, 1, trees=20))
            found = decoded(kind, np.asarray(model.fit(X, Y).predict(X)), rule)
            own, simple = KINDS[kind].score(Y, found), KINDS[kind].score(Y, constant)
            assert sign * own > sign * simple + 0.05, (family.name, setting)


def test_the_threshold_is_the_best_of_the_held_out_rows():
    from experiments.ours.tuned_rivals import best_rule, label_sets

    scores = np.array([[0.3, 0.1, 0.0], [0.0, 0.05, 0.01], [0.7, 0.25, 0.1]])
    Y = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    value, rule = best_rule("labels", Y, scores)
    assert value == 1.0
    assert rule["some"]
    assert 0.1 <= rule["threshold"] < 0.25
    assert_array_equal(label_sets(scores, 0.2, some=False)[1], [False] * 3)


def test_what_takes_too_long_is_left_and_the_rest_goes_on(monkeypatch):
    from experiments.ours import tuned_rivals as rivals

    class Slow(rivals.Ridge):
        def fit(self, X, y):
            time.sleep(0.05)
            return super().fit(X, y)

    def slow(_, about):
        return rivals.MultiOutputRegressor(rivals.Timed(Slow(), about.deadline))

    X, Y = problem("targets")
    few = [
        rivals.Family("ridge", rivals.ridge, [{"alpha": 1.0}, {"alpha": 1e6}]),
        rivals.Family("slow", slow, [{}]),
    ]
    monkeypatch.setattr(rivals, "families", lambda *_: few)
    first, report = rivals.best_of_scikit_learn("targets", X, Y, X[:7], budget=0.3, threads=1)
    assert first == "ridge"
    assert report["slow"] == {"setting": "out of time"}
    assert report["ridge"]["setting"] == {"alpha": 1.0}
    assert report["ridge"]["predicted"].shape == (7, 3)


# Jobs and records ------------------------------------------------------------------------------


def test_jobs_become_a_record_from_a_folder_or_an_archive(tmp_path, monkeypatch):
    from experiments.ours import tuned, tuned_page

    X, Y = problem("labels", n=60)
    data = Dataset("flags", X, Y)
    kinds = {"labels": SimpleNamespace(sets=("flags",), load=lambda _: data, more=True)}
    monkeypatch.setattr(tuned, "KINDS", kinds)
    monkeypatch.setattr(tuned_page, "KINDS", kinds)

    def tell(_, part, *__):
        right = part.Y_test.copy()
        return "Tuned", {"Tuned": {"predicted": right, "setting": "all", "fit_seconds": 0.0}}

    def guess(_, part, *__):
        none = np.zeros_like(part.Y_test)
        models = {"forest": {"predicted": none, "setting": {}}, "ridge": {"setting": "out of time"}}
        return "forest", models

    monkeypatch.setattr(tuned, "RUNNERS", {"tuned": tell, "rivals": guess})
    todo = tuned.jobs(["labels"], [], ["tuned", "rivals"], None)
    assert len(todo) == 10
    for job in todo[:-1]:
        tuned.carry_out(job, tmp_path / "jobs", 1.0, False)
    assert not tuned_page.collect(tmp_path / "jobs")["results"][0]["complete"]
    tuned.carry_out(todo[-1], tmp_path / "jobs", 1.0, False)
    tuned.pack(tmp_path / "jobs", tmp_path / "jobs.zip")
    assert len(zipfile.ZipFile(tmp_path / "jobs.zip").namelist()) == 20
    record = tuned_page.collect(tmp_path / "jobs.zip")
    assert record == tuned_page.collect(tmp_path / "jobs")
    (found,) = record["results"]
    assert found["complete"]
    assert found["n_test"] == 60
    assert found["tuned"] == [1.0, 0.0]
    assert found["rival"][0] == pytest.approx(np.mean(Y.sum(axis=1) == 0), abs=1e-6)
    assert list(found["families"]) == ["forest"]
    assert json.dumps(record)
    # The same again without the rivals: they are those of the record before.
    for path in (tmp_path / "jobs").glob("*_rivals.*"):
        path.unlink()
    (alone,) = tuned_page.collect(tmp_path / "jobs", record)["results"]
    assert alone == found | {"paired_error": pytest.approx(found["paired_error"], rel=1e-5)}
    assert tuned_page.collect(tmp_path / "jobs", record)["rivals"] == record["rivals"]


def test_the_error_of_a_difference_follows_the_errors_of_both():
    from experiments.ours.tuned_page import same_correlation

    known = {"tuned": [0.0, 0.3], "rival": [0.0, 0.4], "paired_error": 0.5}  # independent
    assert same_correlation(known, 0.3) == pytest.approx(0.5)
    assert same_correlation(known, 0.0) == pytest.approx(0.4)
    assert same_correlation(known | {"paired_error": 0.1}, 0.3) == pytest.approx(0.1)
