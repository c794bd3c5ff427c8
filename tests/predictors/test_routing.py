"""The predictor in scikit-learn's hands: metadata, pipelines, searches and other regressors."""

import pickle

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning, UnsetMetadataPassedError
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

from skout import KernelBasis, KernelRidge, StructuredPredictor, Tuned, iokr
from skout.decoding import CandidateSets, LabelSetDecoder
from skout.kernels import F1, Gaussian, Linear, Tanimoto


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def problem(seed=0, n=40):
    rng = np.random.default_rng(seed)
    return (
        10.0 * rng.standard_normal((n, 3)) + 5.0,
        rng.standard_normal((n, 4)),
        rng.uniform(0.1, 3.0, n),
        rng.standard_normal((7, 4)),
    )


def ridge_model(**requests):
    regressor = KernelRidge(Gaussian(0.3), alpha=1e-2)
    if requests:
        regressor.set_fit_request(**requests)
    return StructuredPredictor(regressor, KernelBasis(Linear()))


class Recorder(RegressorMixin, BaseEstimator):
    """Keeps what its fit was given."""

    def fit(self, X, y, sample_weight=None, note=None):
        self.got_ = {"sample_weight": sample_weight, "note": note}
        self.mean_ = np.mean(y, axis=0)
        return self

    def predict(self, X):
        return np.tile(self.mean_, (len(X), 1))


# Candidates --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("routing")
def test_candidates_through_a_pipeline():
    X, Y, _, C = problem()
    model = ridge_model().set_predict_request(candidates=True).set_score_request(candidates=True)
    pipeline = Pipeline([("scale", StandardScaler()), ("model", model)]).fit(X, Y)
    scaled = StandardScaler().fit_transform(X)
    direct = ridge_model().fit(scaled, Y)
    lists = [C[i % 3 : i % 3 + 3] for i in range(len(X))]
    for some in (C, lists, CandidateSets.from_lists(lists)):
        expected = direct.predict(scaled, some)
        assert not np.array_equal(expected, pipeline.predict(X))
        for given in (some, pipeline["model"].embed(some)):
            assert_array_equal(pipeline.predict(X, candidates=given), expected)
    assert_array_equal(pipeline.predict(X), direct.predict(scaled))


def test_candidates_through_a_pipeline_without_routing():
    X, Y, weights, C = problem()
    pipeline = make_pipeline(StandardScaler(), ridge_model())
    pipeline.fit(X, Y, structuredpredictor__sample_weight=weights)
    scaled = StandardScaler().fit_transform(X)
    direct = ridge_model().fit(scaled, Y, sample_weight=weights)
    assert_array_equal(pipeline.predict(X, candidates=C), direct.predict(scaled, C))
    assert_allclose(pipeline.score(X, Y), direct.score(scaled, Y))


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize(
    "model", [ridge_model(), Tuned("numbers", budget="1 fits", random_state=0)]
)
def test_a_pipeline_scores(model):
    X, Y, weights, _ = problem()
    outer = make_pipeline(StandardScaler(), model).fit(X, Y)
    assert outer.score(X, Y) == outer[-1].score(outer[:-1].transform(X), Y)
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        outer.score(X, Y, sample_weight=weights)


@pytest.mark.usefixtures("routing")
def test_candidates_must_be_requested():
    X, Y, _, C = problem()
    pipeline = make_pipeline(StandardScaler(), ridge_model()).fit(X, Y)
    with pytest.raises(UnsetMetadataPassedError, match=r"\[candidates\] are passed but are not"):
        pipeline.predict(X, candidates=C)


@pytest.mark.usefixtures("routing")
def test_candidates_in_a_grid_search():
    X, Y, _, C = problem(n=30)
    C = np.vstack([C, Y])
    model = ridge_model().set_score_request(candidates=True)
    cv, alphas = KFold(3), [1e-3, 10.0]
    search = GridSearchCV(model, {"regressor__alpha": alphas}, cv=cv).fit(X, Y, candidates=C)
    for alpha, mean in zip(alphas, search.cv_results_["mean_test_score"], strict=True):
        scores = []
        for train, test in cv.split(X):
            direct = ridge_model().set_params(regressor__alpha=alpha).fit(X[train], Y[train])
            scores.append(direct.score(X[test], Y[test], C))
        assert_allclose(mean, np.mean(scores))


def test_score_takes_candidates():
    X, Y, _, C = problem()
    model = ridge_model().fit(X, Y)
    found = model.predict(X, C)
    expected = r2_score(Y, found, multioutput="variance_weighted")
    assert_allclose(model.score(X, Y, C), expected)
    assert_allclose(model.score(X, Y, candidates=C), expected)
    assert model.score(X, Y) != model.score(X, Y, C)


# Weights -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("routing")
def test_weights_are_routed_to_the_regressor():
    X, Y, weights, _ = problem()
    routed = ridge_model(sample_weight=True).fit(X, Y, sample_weight=weights)
    direct = KernelRidge(Gaussian(0.3), alpha=1e-2).fit(
        X, routed.output_basis_.transform(Y), sample_weight=weights
    )
    assert_allclose(routed.predict_coordinates(X), direct.predict(X), atol=1e-12)
    plain = ridge_model().fit(X, Y)
    assert np.abs(routed.predict_coordinates(X) - plain.predict_coordinates(X)).max() > 1e-3


@pytest.mark.usefixtures("routing")
def test_weights_that_nobody_asked_for_are_an_error():
    X, Y, weights, _ = problem()
    with pytest.raises(UnsetMetadataPassedError, match=r"not requested for KernelRidge\.fit"):
        ridge_model().fit(X, Y, sample_weight=weights)
    with pytest.raises(TypeError, match=r"got unexpected argument\(s\) {'sample_weight'}"):
        ridge_model(sample_weight=False).fit(X, Y, sample_weight=weights)
    with pytest.raises(TypeError, match=r"got unexpected argument\(s\) {'unknown'}"):
        ridge_model(sample_weight=True).fit(X, Y, unknown=weights)


@pytest.mark.usefixtures("routing")
def test_fit_without_metadata():
    X, Y, _, C = problem()
    with sklearn.config_context(enable_metadata_routing=False):
        expected = ridge_model().fit(X, Y).predict(X, C)
    for model in (ridge_model(), ridge_model(sample_weight=True)):
        assert_array_equal(model.fit(X, Y).predict(X, C), expected)


@pytest.mark.usefixtures("routing")
def test_only_what_is_requested_reaches_the_regressor():
    X, Y, weights, _ = problem()
    regressor = Recorder().set_fit_request(sample_weight="weights", note=True)
    model = StructuredPredictor(regressor, KernelBasis(Linear()))
    model.fit(X, Y, weights=weights, note="a note")
    assert model.regressor_.got_["note"] == "a note"
    assert_array_equal(model.regressor_.got_["sample_weight"], weights)


def test_without_routing_fit_params_pass_through():
    X, Y, weights, _ = problem()
    model = StructuredPredictor(Recorder(), KernelBasis(Linear()))
    model.fit(X, Y, sample_weight=weights, note="a note")
    assert model.regressor_.got_["note"] == "a note"
    assert model.regressor_.got_["sample_weight"] is weights
    with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
        model.fit(X, Y, unknown=weights)


@pytest.mark.usefixtures("routing")
def test_weights_through_pipelines_inside_and_outside():
    X, Y, weights, C = problem()
    inner = make_pipeline(
        StandardScaler().set_fit_request(sample_weight=False),
        Ridge(1.0).set_fit_request(sample_weight=True),
    )
    model = StructuredPredictor(inner, KernelBasis(Linear()))
    model.set_predict_request(candidates=True)
    model.fit(X, Y, sample_weight=weights)
    scaled = StandardScaler().fit_transform(X)
    T = model.output_basis_.transform(Y)
    direct = Ridge(1.0).fit(scaled, T, sample_weight=weights)
    assert_allclose(model.predict_coordinates(X), direct.predict(scaled), rtol=1e-9, atol=1e-12)
    outer = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), clone(model))
    outer.fit(X, Y, sample_weight=weights)
    assert_array_equal(outer.predict(X, candidates=C), model.predict(X, C))


@pytest.mark.usefixtures("routing")
def test_weights_in_a_grid_search():
    X, Y, weights, _ = problem(n=30)
    cv, alphas = KFold(3), [1e-3, 10.0]
    model = ridge_model(sample_weight=True).set_score_request(sample_weight=False)
    search = GridSearchCV(model, {"regressor__alpha": alphas}, cv=cv)
    search.fit(X, Y, sample_weight=weights)
    for alpha, mean in zip(alphas, search.cv_results_["mean_test_score"], strict=True):
        scores = []
        for train, test in cv.split(X):
            direct = ridge_model(sample_weight=True).set_params(regressor__alpha=alpha)
            direct.fit(X[train], Y[train], sample_weight=weights[train])
            scores.append(direct.score(X[test], Y[test]))
        assert_allclose(mean, np.mean(scores))


@pytest.mark.usefixtures("routing")
def test_the_router_names_its_parts():
    model = ridge_model(sample_weight=True).set_predict_request(candidates="pool")
    assert model.get_metadata_routing().consumes("fit", ["sample_weight", "other"]) == {
        "sample_weight"
    }
    assert model.get_metadata_routing().consumes("predict", ["pool", "candidates"]) == {"pool"}


# Other regressors --------------------------------------------------------------------------------

REGRESSORS = [
    RandomForestRegressor(10, random_state=0),
    ExtraTreesRegressor(10, random_state=0),
    KNeighborsRegressor(3),
    MLPRegressor(hidden_layer_sizes=(16,), solver="lbfgs", max_iter=20, random_state=0),
    MultiOutputRegressor(HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=3)),
    make_pipeline(StandardScaler(), RandomForestRegressor(10, random_state=0)),
    GridSearchCV(KNeighborsRegressor(), {"n_neighbors": [1, 3]}, cv=2),
]


@pytest.fixture
def one_thread():
    """Histograms of so few rows wait for their threads more than they work."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def two_label_sets(n=80):
    X = np.random.default_rng(0).standard_normal((n, 2))
    return X, np.where(X[:, :1] > 0, [[1, 0, 1, 0]], [[0, 1, 1, 0]])


@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("regressor", REGRESSORS, ids=lambda r: type(r).__name__)
def test_any_regressor(regressor):
    X, Y = two_label_sets()
    model = StructuredPredictor(regressor, KernelBasis(Tanimoto())).fit(X[:60], Y[:60])
    assert model.score(X[60:], Y[60:]) > 0.9
    T = model.output_basis_.fit_transform(Y[:60])
    direct = clone(regressor).fit(X[:60], T)
    assert_allclose(model.predict_coordinates(X), direct.predict(X), rtol=1e-9, atol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.predict(X))
    copy = clone(model)
    assert not hasattr(copy, "regressor_")
    assert_array_equal(copy.fit(X[:60], Y[:60]).predict(X), model.predict(X))
    indices, scores = model.rank(X, Y[:5], k=3)
    assert indices.shape == scores.shape == (80, 3)
    assert_array_equal(
        model.truth_ranks(X[60:], Y[60:]) == 1.0, (model.predict(X[60:]) == Y[60:]).all(axis=1)
    )


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "regressor",
    [RandomForestRegressor(5, random_state=0), HistGradientBoostingRegressor(max_iter=5), Ridge()],
    ids=lambda r: type(r).__name__,
)
def test_one_coordinate_is_a_single_output(regressor):
    # regressors of one output warn of a column, or refuse it
    X, Y = two_label_sets()
    model = StructuredPredictor(regressor, KernelBasis(Linear())).fit(X, Y[:, :1] + 1.0)
    assert model.output_basis_.rank_ == 1
    assert model.predict_coordinates(X).shape == (80, 1)
    assert np.mean(model.predict(X) == Y[:, :1] + 1.0) > 0.95


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, np.ndarray.tolist])
@pytest.mark.parametrize("regressor", [Ridge(1e-3), KernelRidge(Gaussian(0.5))], ids=str)
def test_inputs_of_any_form(regressor, form):
    X, Y = two_label_sets()
    plain = StructuredPredictor(regressor, KernelBasis(Tanimoto())).fit(X, Y)
    model = StructuredPredictor(regressor, KernelBasis(Tanimoto())).fit(form(X), Y)
    found = model.predict_coordinates(form(X))
    assert found.shape == (80, model.output_basis_.rank_)
    assert_allclose(found, plain.predict_coordinates(X), atol=1e-3)
    assert_array_equal(model.predict(form(X)), plain.predict(X))


def test_input_tags_are_those_of_the_regressor():
    basis = KernelBasis(Linear())
    for regressor in (KernelRidge(), KNeighborsRegressor(), MLPRegressor(), DummyRegressor()):
        model = StructuredPredictor(regressor, basis)
        assert get_tags(model).input_tags == get_tags(regressor).input_tags


def test_cross_validation_of_parts():
    X, Y = two_label_sets()
    model = iokr(Gaussian(0.5), F1(), alpha=1e-2).set_params(decoder=LabelSetDecoder())
    result = cross_validate(model, X, Y, cv=3, return_estimator=True)
    assert result["test_score"].min() > 0.8
    assert all(isinstance(e.decoder_, LabelSetDecoder) for e in result["estimator"])
    names = set(model.get_params())
    assert {"regressor__alpha", "output_basis__kernel", "decoder__max_size"} <= names
