"""Maps of `skout.Tuned`: what each must keep to, and one that is written outside of the package."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression

import skout
from skout import Tuned
from skout._numerics import checkpoints
from skout.apps.tuning import MAPS, ColumnScaler, Map, Profile, Sample
from skout.apps.tuning.folds import make_folds

pytestmark = pytest.mark.usefixtures("few_trees")

N = 60
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 4))
T = np.tanh(X @ RNG.standard_normal((4, 3))) + 0.1 * RNG.standard_normal((N, 3))


@dataclass(frozen=True)
class PartialLeastSquares(Map):
    """Regression on a few directions of X that vary with Y."""

    name = "partial least squares"
    filled = ("n_components",)
    takes_weights = False
    n_cells = 3

    n_components: int = 1
    scale: bool = True

    @classmethod
    def defaults(cls, profile):
        return [] if profile.is_object else [(0.5, cls(scaling="standard"))]

    def neighbors(self, profile):
        yield replace(self, scaling="quantile")
        yield replace(self, scale=not self.scale)

    def build(self, seed, n_jobs=None, device=None):
        return PLSRegression(self.n_components, scale=self.scale)

    def cost(self, profile, n):
        return 1e-8 * n * profile.d * profile.p

    def path(self, sample):
        for k in range(1, 4):
            yield from super(PartialLeastSquares, replace(self, n_components=k)).path(sample)


ALL = [*MAPS.values(), PartialLeastSquares]
PROFILES = {
    "dense": Profile(200, 4.0, 4, 3, is_binary=True),
    "sparse": Profile(200, 10.0, 100, 3, is_sparse=True, is_binary=True),
    "table": Profile(200, 4.0, 4, 3, is_binary=True, groups=((0, 2), (2, 4))),
    "objects": Profile(200, 50.0, 1, 3, is_object=True, objects=(skout.kernels.NGram(2),)),
}


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_settings_to_try(kind):
    """They are as before a trial, cost the less in smaller sizes, and have other neighbors."""
    tried = 0
    for layout, profile in PROFILES.items():
        assert profile.layout == layout
        for place, settings in kind.defaults(profile):
            tried += 1
            assert type(settings) is kind
            assert settings == settings.origin
            assert 0 <= place <= 20
            costs = [sized.cost(profile, 20_000) for sized, _ in settings.sizes(20_000)]
            assert min(costs) > 0.0
            assert costs == sorted(costs, reverse=True)
            assert settings.cost(profile, 4000) > settings.cost(profile, 1000)
            near = [one.origin for one in settings.neighbors(profile)]
            assert settings not in near
            assert len(set(map(repr, near))) == len(near)
            assert settings.settings()["map"] == kind.name
    assert tried


def test_places_are_different():
    for profile in PROFILES.values():
        places = [place for kind in MAPS.values() for place, _ in kind.defaults(profile)]
        assert sorted(places) == list(range(len(places)))


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_a_path_has_what_is_built(kind):
    """What a cell predicts for a fold is what its model does, fitted without the fold."""
    small = {"n_estimators": 3, "landmarks": 20, "groups": ((0, 2), (2, 4)), "max_iter": 30}
    settings = kind(**{name: small[name] for name in small if name in kind.__dataclass_fields__})
    folds, S = make_folds(N, 0, cv=2), (T > 0.0).astype(float) if kind.name == "logistic" else T
    sample = Sample(X, S, folds, 0)
    path = list(settings.predictions(sample))
    assert len(path) <= kind.n_cells
    assert all(cell.origin == settings.origin for cell, _ in path)
    # L-BFGS stops early; a metric is learned from centered targets in a path
    atol = 1e-2 if kind.name in ("logistic", "learned metric ridge") else 1e-4
    for cell, F in path[:: max(1, len(path) // 4)]:
        for k, ((train, held), rows) in enumerate(zip(folds.splits, folds.spans, strict=True)):
            seed = 0 if "ridge" in kind.name else k
            model = cell.build(seed).fit(X[train], S[train])
            assert_allclose(F[rows], model.predict(X[held]), atol=atol)


def test_a_map_with_a_scaling_is_a_pipeline():
    settings = PartialLeastSquares(n_components=2, scaling="quantile")
    model = settings.estimator(settings.build(0)).fit(X, T)
    scaled = ColumnScaler("quantile").fit_transform(X)
    assert_allclose(model.predict(X), PLSRegression(2).fit(scaled, T).predict(scaled))


# A map of one's own ------------------------------------------------------------------------------

MINE = [*MAPS, PartialLeastSquares]


def quick(budget="6 fits", **params):
    return Tuned("numbers", budget=budget, random_state=0, **{"cv": 2, "maps": MINE} | params)


def test_own_map_is_tried_refined_chosen_and_saved(tmp_path):
    Y = X @ RNG.standard_normal((4, 2)) + 0.05 * RNG.standard_normal((N, 2))
    model = quick(maps=[PartialLeastSquares]).fit(X[:50], Y[:50])
    table = model.results_[:-1]  # the last is a constant
    assert {row["map"] for row in table} == {"partial least squares"}
    assert {row["stage"] for row in table} == {"portfolio", "refinement"}
    assert {row["scaling"] for row in table} == {"standard", "quantile"}
    assert all(1 <= row["n_components"] <= 3 for row in table)
    assert model.score(X[50:], Y[50:]) > 0.9
    assert "forest" not in model.baselines_
    assert clone(model).get_params() == model.get_params()
    skout.save(model, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout", modules=[PartialLeastSquares])
    assert_array_equal(again.predict(X), model.predict(X))
    assert again.maps == [PartialLeastSquares]
    assert again.summary() == model.summary()


def test_own_map_beside_others():
    model = quick().fit(X, T)
    assert [row["map"] for row in model.results_].count("partial least squares") == 1
    plain = quick(maps=None).fit(X, T)
    assert "partial least squares" not in {row["map"] for row in plain.results_}
    weighted = quick().fit(X, T, sample_weight=RNG.uniform(0.5, 1.5, N))
    assert weighted.left_out_ == {
        "neighbors": "take no weights",
        "partial least squares": "take no weights",
    }
    assert "partial least squares" not in {row["map"] for row in weighted.results_}


def test_own_map_on_sparse_rows_and_with_gaps():
    from scipy import sparse

    rows = sparse.random(N, 30, density=0.1, format="csr", random_state=0)
    gaps = np.where(RNG.random(T.shape) < 0.2, np.nan, T)
    only = quick(maps=[PartialLeastSquares], budget="2 fits")
    model = only.fit(rows, T)
    assert {row["scaling"] for row in model.results_[:-1]} == {"dense"}  # it takes no sparse ones
    assert only.fit(X, gaps).predict(X).shape == T.shape
    assert only.fit(X, gaps).score(X, gaps) > 0.5


def test_own_map_on_many_rows():
    big = RNG.standard_normal((4000, 4))
    model = quick(budget=20.0, cv=None, maps=[PartialLeastSquares]).fit(big, big[:, :2] + 1.0)
    assert {row["stage"] for row in model.results_} >= {"few rows", "portfolio"}
    assert model.score(big, big[:, :2] + 1.0) > 0.99


def test_own_map_is_resumed(tmp_path, monkeypatch):
    file, ran, path = tmp_path / "search.npz", [], PartialLeastSquares.path

    def counted(settings, sample):
        ran.append(settings)
        if len(ran) == 3:
            raise SystemExit
        return path(settings, sample)

    whole = quick(maps=[PartialLeastSquares], budget="4 fits").fit(X, T)
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    monkeypatch.setattr(PartialLeastSquares, "path", counted)
    with pytest.raises(SystemExit):
        quick(maps=[PartialLeastSquares], budget="4 fits", checkpoint=file).fit(X, T)
    with pytest.raises(ValueError, match="is of another fit: maps"):
        quick(maps=[PartialLeastSquares, "boosting"], budget="4 fits", checkpoint=file).fit(X, T)
    resumed = quick(maps=[PartialLeastSquares], budget="4 fits", checkpoint=file).fit(X, T)
    assert len(ran) == 5  # two were in the file
    assert resumed.best_settings_ == whole.best_settings_
    assert resumed.score_ == whole.score_


def test_maps_may_be_names():
    model = quick(maps=["neighbors", "extra trees"], budget="3 fits").fit(X, T)
    maps = {row["map"] for row in model.results_}
    assert maps == {"neighbors", "extra trees", "constant"}


def test_map_of_an_installed_package_is_tried_by_the_command_line(tmp_path, monkeypatch, capsys):
    """Files of such models need no class of the map: they have the regressor that it built."""
    pytest.importorskip("typer")
    from skout.apps import cli

    def call(*words):
        with pytest.raises(SystemExit) as end:
            cli.main([*map(str, words)])
        text, errors = capsys.readouterr()
        assert not end.value.code, errors
        return text

    about = tmp_path / "chemometrics-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: chemometrics\nVersion: 1.0\n")
    entry = f"partial least squares = {__name__}:PartialLeastSquares"
    (about / "entry_points.txt").write_text(f"[skout.maps]\n{entry}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(MAPS, PartialLeastSquares.name, PartialLeastSquares)
    for name in MAPS.copy():
        monkeypatch.delitem(MAPS, name)
    table, model = tmp_path / "table.csv", tmp_path / "model.skout"
    Y = X @ [1.0, -2.0, 0.5, 0.0] + 0.01 * RNG.standard_normal(N)
    lines = [",".join(map(str, row)) for row in np.column_stack([X, Y])]
    table.write_text("\n".join(["x1,x2,x3,x4,y", *lines]))
    words = ["--target", "y", "--budget", "3 fits", "-o", model, "--json"]
    fitted = json.loads(call("fit", table, *words))
    assert {one["map"] for one in fitted["validation"]["chosen"]} == {"partial least squares"}
    monkeypatch.undo()
    assert PartialLeastSquares.name not in MAPS
    assert json.loads(call("evaluate", model, table, "--json"))["metrics"]["r2"] > 0.9
    lines = call("predict", model, table).splitlines()
    assert_allclose(np.array(lines[1:], dtype=float), Y, atol=0.5)
