"""The scikit-learn contract: conformance checks, parameters, seeds, names, inputs left alone."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from extras import extra
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import skout
from skout import (
    Ensemble,
    InducedMachine,
    JointQuantileRegressor,
    KernelBasis,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
    Reranker,
    StructuredPredictor,
)
from skout.kernels import Gaussian, Linear
from skout.losses import EpsilonInsensitive, Huber, as_loss
from skout.sketches import SKETCHES, PivotedCholesky, PSparsified, SubSample

pd = extra("pandas")
pl = extra("polars")


class Likeness:
    """A kernel of numbers as objects: scikit-learn's checks have one number a row as y."""

    def __call__(self, A, B):
        A, B = (np.asarray(one, dtype=complex) for one in (A, B))
        return np.exp(-(np.abs(np.subtract.outer(A, B)) ** 2))

    def __repr__(self):  # names of tests may not depend on the process
        return "Likeness()"


PREDICTOR = StructuredPredictor(KernelRidge(), KernelBasis(Likeness()))
# Checks that an estimator need not pass, and why.
NO_FEATURES = dict.fromkeys(
    ("check_n_features_in", "check_n_features_in_after_fitting"), "X may be objects"
)
LEFT_OUT = {
    StructuredPredictor: NO_FEATURES,
    Ensemble: {
        **NO_FEATURES,
        "check_dict_unchanged": "the first predict keeps the training outputs embedded",
        "check_estimators_pickle": "it does not compare outputs of members in memory maps",
    },
}


PATH = {"alpha": [1e-3, 0.1], "cv": 2, "random_state": 0}


# Each estimator as it is by default, which is exact, and sketched with a path of penalties; what
# kernels, sketches and losses do is for their own tests.
CONFORMING = [
    KernelBasis(),
    KernelBasis(sketch=PSparsified(), random_state=0),
    KernelBasis("linear", PivotedCholesky(), whiten="eigh", random_state=0),
    KernelRidge(),
    KernelRidge(Gaussian(1.0), alpha=[1e-3, 1e-1], cv=3),
    KernelRidge("gaussian", PSparsified(), alpha=[1e-3, 0.1], fit_intercept=True, random_state=0),
    KernelMachine(),
    KernelMachine("gaussian", "subsample", loss=Huber(0.5), **PATH),
    InducedMachine(),
    InducedMachine("gaussian", PSparsified(), loss=Huber(0.5), **PATH),
    # scikit-learn sets alpha to 0.01 and wants a score above 0.5
    JointQuantileRegressor(0.9, 10.0 * Gaussian()),
    JointQuantileRegressor(0.5, "gaussian", "subsample", **PATH),
    KernelClassifier(),
    KernelClassifier("gaussian", PSparsified(), loss="logistic", **PATH),
    PREDICTOR,
    Ensemble(PREDICTOR, 2, random_state=0),
]


@parametrize_with_checks(CONFORMING)
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")  # data of some checks
@pytest.mark.filterwarnings("ignore:predictor has no random_state:UserWarning")
def test_scikit_learn_conformance(estimator, check):
    name = getattr(check, "func", check).__name__
    if name == "check_array_api_input":
        return  # runs only where SCIPY_ARRAY_API is set
    if reason := LEFT_OUT.get(type(estimator), {}).get(name):
        pytest.skip(reason)
    check(estimator)


# the last two have an object as kernel, which is not saved; see the tests of files for others
@pytest.mark.parametrize("estimator", CONFORMING[:-2], ids=repr)
def test_files_hold_every_bit(estimator, tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    targets = X[:, 0] > 0 if isinstance(estimator, KernelClassifier) else X[:, 0]
    model = clone(estimator).fit(X, targets)
    skout.save(model, tmp_path / "model")
    again = skout.load(tmp_path / "model")
    methods = ("predict", "transform", "predict_proba", "decision_function", "predict_coordinates")
    found = [name for name in methods if hasattr(model, name)]
    assert found
    for name in found:
        assert_array_equal(getattr(again, name)(X), getattr(model, name)(X))


# What every estimator promises -------------------------------------------------------------------

# How many parameters may be given by position; the others have one order wherever they occur.
BY_POSITION = {
    KernelBasis: 2,
    KernelRidge: 2,
    KernelMachine: 2,
    InducedMachine: 2,
    KernelClassifier: 2,
    JointQuantileRegressor: 3,
    Ensemble: 2,
    Reranker: 2,
}
ORDER = ["kernel", "sketch", "alpha", "loss", "task_matrix", "cv", "fit_intercept", "tol"]
ORDER += ["max_iter", "random_state", "n_jobs", "verbose", "device", "checkpoint"]


@pytest.mark.parametrize("kind", BY_POSITION)
def test_parameters_after_the_first_are_given_by_name_and_in_one_order(kind):
    parameters = inspect.signature(kind).parameters.values()
    by_position = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    assert len(by_position) == BY_POSITION[kind]
    names = [one.name for one in parameters]
    assert [name for name in names if name in ORDER] == [name for name in ORDER if name in names]


ESTIMATORS = {
    "basis": KernelBasis(),
    "sketched basis": KernelBasis(Gaussian(0.5), SubSample(10), random_state=0),
    "mixed basis": KernelBasis(Gaussian(0.5), PSparsified(10), whiten="eigh", random_state=0),
    "ridge": KernelRidge(),
    "sketched ridge": KernelRidge(Gaussian(0.5), SubSample(10), random_state=0),
    "path": KernelRidge(Gaussian(0.5), PSparsified(10), alpha=[1e-3, 0.1], cv=3, random_state=0),
    "exact path": KernelRidge(
        Gaussian("median"), None, alpha=[1e-3, 0.1], cv=3, fit_intercept=True
    ),
    "machine": KernelMachine(),
    "sketched machine": KernelMachine(
        Gaussian(0.5),
        SubSample(10),
        loss=Huber(0.3),
        alpha=1e-2,
        task_matrix=[[1.0, 0.5], [0.5, 1.0]],
        random_state=0,
    ),
    "machine path": KernelMachine(
        Gaussian(0.5),
        PSparsified(10),
        loss=EpsilonInsensitive(),
        alpha=[1e-3, 0.1],
        cv=3,
        random_state=0,
    ),
    "induced machine": InducedMachine(
        Gaussian(0.5), SubSample(10), loss=Huber(0.3), random_state=0
    ),
    "quantiles": JointQuantileRegressor([0.1, 0.5, 0.9]),
    "sketched quantile": JointQuantileRegressor(0.9, Gaussian(0.5), SubSample(10), random_state=0),
    "classifier": KernelClassifier(class_weight="balanced"),
    "classifier path": KernelClassifier(
        Gaussian(0.5), PSparsified(10), loss="logistic", alpha=[1e-3, 0.1], cv=3, random_state=0
    ),
}


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return clone(ESTIMATORS[request.param])


def data(n=40, estimator=None):
    """Inputs, and targets of the kind that the estimator takes: two of them unless it says so."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2])
    if isinstance(estimator, JointQuantileRegressor):
        return X, Y[:, 0].copy()
    if isinstance(estimator, KernelClassifier):
        return X, np.digitize(Y[:, 0], [-0.5, 0.5])
    return X, Y


def output(estimator, X):
    if isinstance(estimator, KernelClassifier):
        return estimator.decision_function(X)
    return estimator.transform(X) if isinstance(estimator, KernelBasis) else estimator.predict(X)


def state(estimator):
    """Parameters, deeply, in a form that can be compared."""
    return {name: repr(value) for name, value in sorted(estimator.get_params().items())}


def test_fit_returns_self_and_keeps_parameters(estimator):
    X, Y = data(estimator=estimator)
    before = state(estimator)
    objects = {name: id(value) for name, value in vars(estimator).items()}
    assert estimator.fit(X, Y) is estimator
    assert state(estimator) == before
    assert {name: id(vars(estimator)[name]) for name in objects} == objects


def test_init_only_stores(estimator):
    params = estimator.get_params(deep=False)
    assert vars(type(estimator)(**params)) == params


def test_inputs_are_left_alone(estimator):
    X, Y = data(estimator=estimator)
    w = np.linspace(0.5, 2.0, 40)
    copies = X.copy(), Y.copy(), w.copy()
    for array in (X, Y, w):
        array.setflags(write=False)
    if isinstance(estimator, KernelBasis):
        estimator.fit(X)
    else:
        estimator.fit(X, Y, sample_weight=w)
    output(estimator, X)
    for array, before in zip((X, Y, w), copies, strict=True):
        assert_array_equal(array, before)


def test_sparse_inputs_are_left_alone(estimator):
    X, Y = data(estimator=estimator)
    thin = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    before = thin.copy()
    output(estimator.fit(thin, Y), thin)
    assert_array_equal(thin.indptr, before.indptr)
    assert_array_equal(thin.indices, before.indices)
    assert_array_equal(thin.data, before.data)


def test_later_changes_of_the_data_do_not_reach_the_model(estimator):
    X, Y = data(estimator=estimator)
    queries = X.copy()
    estimator.fit(X, Y)
    before = output(estimator, queries)
    X[...] = 0.0
    Y[...] = 0.0
    assert_array_equal(output(estimator, queries), before)


def test_fits_repeat(estimator):
    X, Y = data(estimator=estimator)
    first = output(estimator.fit(X, Y), X)
    assert_array_equal(output(estimator.fit(X, Y), X), first)
    assert_array_equal(output(clone(estimator).fit(X, Y), X), first)
    assert_array_equal(output(copy.deepcopy(estimator), X), first)
    assert_array_equal(output(pickle.loads(pickle.dumps(estimator)), X), first)


@pytest.mark.parametrize("name", SKETCHES)
def test_seeds_matter(name):
    X, Y = data()
    for model in (
        KernelBasis(Gaussian(0.5), SKETCHES[name](8)),
        KernelRidge(Gaussian(0.5), SKETCHES[name](8)),
        KernelMachine(Gaussian(0.5), SKETCHES[name](8)),
        InducedMachine(Gaussian(0.5), SKETCHES[name](8)),
    ):
        first, same, other = (
            output(clone(model).set_params(random_state=seed).fit(X, Y), X) for seed in (0, 0, 1)
        )
        assert_array_equal(first, same)
        assert first.shape != other.shape or np.abs(first - other).max() > 1e-6


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generators_as_seeds(make):
    X, Y = data()
    fits = [
        KernelRidge(Gaussian(0.5), SubSample(8), random_state=make(3)).fit(X, Y).predict(X)
        for _ in range(2)
    ]
    assert_array_equal(*fits)


def test_no_seed_is_fresh_every_time_and_leaves_the_global_one_alone():
    X, Y = data()
    model = KernelRidge(Gaussian(0.5), SubSample(5))
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    fits = {model.fit(X, Y).landmarks_.tobytes() for _ in range(5)}
    assert len(fits) > 1
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_feature_counts_and_names(estimator):
    X, Y = data(estimator=estimator)
    assert estimator.fit(X, Y).n_features_in_ == 3
    assert not hasattr(estimator, "feature_names_in_")
    expected = output(estimator, X)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    estimator.fit(frame, Y)
    assert list(estimator.feature_names_in_) == ["a", "b", "c"]
    assert estimator.n_features_in_ == 3
    assert_allclose(output(estimator, frame), expected, atol=1e-10)
    with pytest.raises(ValueError, match="feature names"):
        output(estimator, frame[["c", "a", "b"]])
    with pytest.raises(ValueError, match=r"2 features|feature names"):
        output(estimator, frame[["a", "b"]])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        output(estimator, X)


def test_polars_frames(estimator):
    X, Y = data(estimator=estimator)
    expected = output(estimator.fit(X, Y), X)
    frame = pl.DataFrame(X, schema=["a", "b", "c"])
    targets = pl.Series(Y) if Y.ndim == 1 else pl.DataFrame(Y, schema=["p", "q"])
    assert_allclose(output(estimator.fit(frame, targets), frame), expected, atol=1e-10)


def test_pandas_targets(estimator):
    X, Y = data(estimator=estimator)
    expected = output(estimator.fit(X, Y), X)
    targets = pd.Series(Y) if Y.ndim == 1 else pd.DataFrame(Y)
    assert_allclose(output(estimator.fit(X, targets), X), expected, atol=1e-10)


def test_nested_parameters(estimator):
    estimator.set_params(kernel=Gaussian(1.0), sketch=SubSample(5), random_state=0)
    estimator.set_params(kernel__gamma=0.25, sketch__size=7)
    assert estimator.kernel.gamma == 0.25
    X, Y = data(estimator=estimator)
    model = estimator.fit(X, Y)
    assert model.kernel_.gamma == 0.25
    assert len(getattr(model, "basis_", model).landmarks_) == 7


def test_the_kernel_given_is_not_touched():
    kernel, sketch = Gaussian("scale"), SubSample(5)
    X, Y = data()
    model = KernelRidge(kernel, sketch, random_state=0).fit(X, Y)
    KernelBasis(kernel, sketch, random_state=0).fit(X)
    assert kernel.gamma == "scale"
    assert model.kernel is kernel
    assert model.kernel_ is not kernel
    assert sketch.size == 5


def test_tags():
    for model in ESTIMATORS.values():
        assert get_tags(model).input_tags.sparse
    for model in (KernelRidge(), KernelMachine(), InducedMachine()):
        tags = get_tags(model)
        assert tags.estimator_type == "regressor"
        assert tags.target_tags.multi_output
        assert tags.target_tags.required
    tags = get_tags(JointQuantileRegressor())
    assert tags.estimator_type == "regressor"
    assert not tags.target_tags.multi_output
    assert tags.target_tags.required
    tags = get_tags(KernelClassifier())
    assert tags.estimator_type == "classifier"
    assert tags.classifier_tags.multi_class
    assert tags.target_tags.required


def test_partial_fit_is_offered_where_it_works():
    assert hasattr(KernelRidge(sketch="subsample"), "partial_fit")
    assert not hasattr(KernelRidge(), "partial_fit")


# In company --------------------------------------------------------------------------------------


def test_in_a_pipeline_with_a_search():
    X, Y = data(60)
    pipe = make_pipeline(StandardScaler(), KernelRidge(Gaussian(), SubSample(30), random_state=0))
    grid = {"kernelridge__kernel__gamma": [1e-6, 0.3], "kernelridge__sketch__size": [5, 30]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, Y)
    assert search.best_params_ == {
        "kernelridge__kernel__gamma": 0.3,
        "kernelridge__sketch__size": 30,
    }
    assert search.best_score_ > 0.5


def test_basis_before_a_linear_model_is_ridge_on_coordinates():
    X, Y = data()
    sketch = SubSample(10)
    pipe = make_pipeline(
        KernelBasis(Gaussian(0.5), sketch, random_state=0), Ridge(40 * 1e-2, fit_intercept=False)
    )
    ours = KernelRidge(Gaussian(0.5), sketch, alpha=1e-2, random_state=0).fit(X, Y)
    assert_allclose(pipe.fit(X, Y).predict(X), ours.predict(X), rtol=1e-7, atol=1e-9)


def test_cross_validation_and_target_transforms():
    X, Y = data(60)
    scores = cross_val_score(KernelRidge(Gaussian(0.5)), X, Y, cv=3)
    assert scores.min() > 0.3
    y = np.exp(Y[:, 0])
    model = TransformedTargetRegressor(KernelRidge(Gaussian(0.5)), func=np.log, inverse_func=np.exp)
    assert model.fit(X, y).score(X, y) > 0.9


def test_score_is_r2():
    X, Y = data()
    model = KernelRidge(Gaussian(0.5)).fit(X, Y)
    residual = ((Y - model.predict(X)) ** 2).sum(axis=0)
    total = ((Y - Y.mean(axis=0)) ** 2).sum(axis=0)
    assert_allclose(model.score(X, Y), np.mean(1 - residual / total))


@given(
    n=st.integers(2, 25),
    d=st.integers(1, 4),
    sketch=st.sampled_from([None, *SKETCHES]),
    alpha=st.sampled_from([1e-6, 1e-2, 1.0]),
    kernel=st.sampled_from([Gaussian("scale"), Gaussian("median"), Linear()]),
    dtype=st.sampled_from([np.float32, np.float64]),
    levels=st.sampled_from([2, 3, 1000]),
    seed=st.integers(0, 999),
)
def test_any_small_problem_works(n, d, sketch, alpha, kernel, dtype, levels, seed):
    """Duplicated rows, constant columns, few rows: a finite model that never does worse than 0."""
    rng = np.random.default_rng(seed)
    X = rng.integers(1, levels + 1, (n, d)).astype(dtype)
    y = rng.standard_normal(n)
    model = KernelRidge(kernel, sketch, alpha=alpha, random_state=0).fit(X, y)
    predicted = model.predict(X)
    assert predicted.shape == (n,)
    assert predicted.dtype == dtype
    assert np.isfinite(predicted).all()
    assert ((y - predicted) ** 2).sum() <= (y**2).sum() * (1 + 1e-3)


@given(
    n=st.integers(2, 25),
    d=st.integers(1, 3),
    sketch=st.sampled_from([None, "subsample", "p_sparsified", "gaussian"]),
    loss=st.sampled_from(["squared", "huber", "epsilon_insensitive", "pinball"]),
    alpha=st.sampled_from([1e-6, 1e-2, 1.0]),
    kernel=st.sampled_from([Gaussian("scale"), Linear()]),
    fit_intercept=st.booleans(),
    levels=st.sampled_from([2, 3, 1000]),
    seed=st.integers(0, 999),
)
def test_any_small_problem_has_a_machine(
    n, d, sketch, loss, alpha, kernel, fit_intercept, levels, seed
):
    """Duplicated rows, tied targets, few rows: solved, or there would be a warning."""
    rng = np.random.default_rng(seed)
    X = rng.integers(1, levels + 1, (n, 2)).astype(float)
    Y = np.round(2.0 * rng.standard_normal((n, d))) / 2.0
    Y[0] = 0.1  # else the optimum may be zero
    Y[1] = 0.9
    model = KernelMachine(
        kernel, sketch, loss=loss, alpha=alpha, fit_intercept=fit_intercept, random_state=0
    ).fit(X, Y)
    predicted = model.predict(X)
    assert predicted.shape == (n, d)
    assert np.isfinite(predicted).all()
    assert model.duality_gap_ <= 1e-4
    zero = as_loss(loss).value(np.zeros((n, d)), Y).mean()
    assert model.objective_ <= zero * (1 + 1e-9)
