"""Saving and loading: every kind of estimator, every kind of value."""

import functools
import inspect
import json
import math
import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from extras import extra
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skout
from skout import decoding, kernels, losses, persistence, predictors, regressors, sketches
from skout._numerics.saving import name_of
from skout.basis import KernelBasis
from skout.decoding import CandidateDecoder, CandidateSets, FaissIndex
from skout.kernels import Gaussian, Mapped, NGram, PackedBits
from skout.losses import LOSSES, Huber
from skout.persistence import classes
from skout.persistence.files import read_file
from skout.sketches import PSparsified, SubSample

da = extra("dask.array")
pd = extra("pandas")
pl = extra("polars")
zarr = extra("zarr")

N = 40
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
LABELS = (RNG.random((N, 5)) < 0.4).astype(np.int64)
RANKINGS = np.array([RNG.permutation(4) for _ in range(N)])
WORDS = ["".join(RNG.choice(list("abc"), RNG.integers(2, 6))) for _ in range(N)]
SMILES = ["C" * (i % 7 + 1) + "O" * (i % 3) for i in range(N)]
SPECTRA = [([100.0 + i % 5, 150.0 + i], [1.0, 0.5]) for i in range(N)]
SEEDED = {"random_state": 0}


def lengths(words):
    return [[float(len(word))] for word in words]


# what a file does not hold
FUNCTIONS = {"lengths": lengths}


# name -> (model, X, Y): together they fit every public estimator and decoder
CASES = {
    "basis": (KernelBasis("gaussian", PSparsified(10), **SEEDED), X, None),
    "basis by eigh": (KernelBasis("gaussian", "subsample", whiten="eigh", **SEEDED), X, None),
    "ridge": (skout.KernelRidge(), X, LABELS),
    "ridge path": (
        skout.KernelRidge("gaussian", SubSample(10), alpha=[1e-3, 0.1], **SEEDED),
        X,
        LABELS,
    ),
    "ridge of float32": (
        skout.KernelRidge("gaussian", PSparsified(10), fit_intercept=True, **SEEDED),
        X.astype(np.float32),
        LABELS,
    ),
    "ridge of CSR": (skout.KernelRidge("linear"), sparse.csr_matrix(X), LABELS),
    "machine": (skout.KernelMachine(loss=Huber(0.5), alpha=[1e-2, 0.1], cv=2), X, X[:, :2] ** 2),
    "induced": (
        skout.InducedMachine("gaussian", SubSample(10), loss="huber", **SEEDED),
        X,
        X[:, :2],
    ),
    "quantiles": (skout.JointQuantileRegressor([0.2, 0.8]), X, X[:, 0] ** 2),
    "classifier": (skout.KernelClassifier(loss="logistic"), X, np.array(WORDS, object) > "b"),
    "classes of text": (skout.KernelClassifier(), X, np.where(X[:, 0] > 0, "left", "right")),
    "label sets": (skout.sisokr("gaussian", "tanimoto", **SEEDED), X, LABELS),
    "CSR label sets": (skout.iokr("gaussian", "f1"), X, sparse.csr_matrix(LABELS)),
    "label sets built": (skout.iokr(output_kernel="f1", decoder="label_sets"), X, LABELS),
    "rankings": (skout.iokr(output_kernel="kendall", decoder="rankings"), X, RANKINGS),
    "words built": (skout.iokr(output_kernel=NGram(2), decoder="strings"), X, WORDS),
    "array of words": (skout.iokr(output_kernel=NGram(2)), X, np.array(WORDS)),
    "molecules": (skout.iokr(output_kernel="weisfeiler_lehman"), X, SMILES),
    "spectra in": (skout.iokr("probability_product", "tanimoto"), SPECTRA, LABELS),
    "sum of kernels": (skout.iokr(output_kernel=Gaussian() + 2.0 * Gaussian(1.0)), X, X[:, :2]),
    "joint rows": (skout.iokr(output_kernel=NGram(2) * kernels.NGram(1)), X, WORDS),
    "function": (skout.iokr(output_kernel=Mapped(lengths, "gaussian")), X, WORDS),
    "scikit-learn": (
        skout.StructuredPredictor(make_pipeline(StandardScaler(), Ridge()), "tanimoto"),
        X,
        LABELS,
    ),
    "ensemble": (skout.Ensemble(skout.sisokr(output_kernel="f1"), 2, **SEEDED), X, LABELS),
    "faiss": (skout.iokr(output_kernel="f1", decoder=CandidateDecoder("faiss")), X, LABELS),
}
each_case = pytest.mark.parametrize("name", CASES)


@functools.cache
def fitted(name):
    model, X, Y = CASES[name]
    return model.fit(X) if Y is None else model.fit(X, Y)


def predictions(model, X):
    """All that a model says about rows, as a list of arrays."""
    names = ("transform", "predict", "predict_proba", "decision_function", "predict_coordinates")
    found = [getattr(model, name)(X) for name in names if hasattr(model, name)]
    if isinstance(getattr(model, "decoder_", None), CandidateDecoder):
        found += model.rank(X, k=2)
    return [one.toarray() if sparse.issparse(one) else np.asarray(one) for one in found]


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert_array_equal(one, other)


def round_trip(model, folder, **options):
    path = folder / "model.skout"
    skout.save(model, path)
    return skout.load(path, **options)


# Models -------------------------------------------------------------------------------------------


def test_every_estimator_and_decoder_has_a_case():
    exported = [*(getattr(skout, name) for name in skout.__all__), *vars(decoding).values()]
    wanted = {
        one
        for one in exported
        if inspect.isclass(one) and issubclass(one, BaseEstimator) and not inspect.isabstract(one)
    }
    seen = {type(fitted(name)) for name in CASES}
    seen |= {type(getattr(fitted(name), "decoder_", None)) for name in CASES}
    tested_elsewhere = {skout.ConformalSets, FaissIndex}  # below
    own = {skout.EndToEnd, skout.Reranker, skout.Tuned, skout.TunedTargets, skout.TwoWay}
    tested_elsewhere |= own  # in tests of their own
    tested_elsewhere |= {skout.ConformalSelection, decoding.GradientDecoder, decoding.LossDecoder}
    tested_elsewhere |= {skout.SpectrumIdentifier, skout.TableEncoder}
    assert wanted - seen - tested_elsewhere == set()


@each_case
def test_loaded_model_predicts_the_same_bits(name, tmp_path):
    model, X, _ = CASES[name]
    expected = predictions(fitted(name), X)
    again = round_trip(fitted(name), tmp_path, modules=FUNCTIONS)
    assert type(again) is type(model)
    assert_same(predictions(again, X), expected)
    assert repr(again.get_params()) == repr(model.get_params())
    assert vars(again).keys() | {"coef_"} == vars(fitted(name)).keys() | {"coef_"}


@each_case
def test_loaded_model_can_be_fitted_again(name, tmp_path):
    _, X, Y = CASES[name]
    again = round_trip(fitted(name), tmp_path, modules=FUNCTIONS)
    expected = predictions(fitted(name), X)
    again = again.fit(X) if Y is None else again.fit(X, Y)
    assert_same(predictions(again, X), expected)


@pytest.mark.parametrize("name", ["ridge", "label sets", "scikit-learn", "array of words"])
def test_mapped_file_predicts_the_same_bits(name, tmp_path):
    again = round_trip(fitted(name), tmp_path, mmap=True)
    assert_same(predictions(again, X), predictions(fitted(name), X))
    arrays = [one for one in vars(again).values() if isinstance(one, np.ndarray) and one.size]
    assert not any(one.flags.writeable for one in arrays)


@pytest.mark.parametrize("options", [{}, {"mmap": True}])
def test_partial_fit_goes_on(options, tmp_path):
    alphas = {"alpha": [1e-3, 1e-1], "cv": 3}
    model = skout.KernelRidge("gaussian", SubSample(10), **alphas, **SEEDED).fit(X, LABELS)
    model.partial_fit(X[:20], LABELS[:20])
    again = round_trip(model, tmp_path, **options)
    for one in (model, again):
        one.partial_fit(X[20:] + 0.1, LABELS[20:])
    assert again.alpha_ == model.alpha_
    assert_array_equal(again.predict(X), model.predict(X))


def test_unfitted_model_is_saved_with_its_generator(tmp_path):
    model = skout.KernelRidge(sketch=SubSample(10), random_state=np.random.default_rng(5))
    again = round_trip(model, tmp_path)
    assert not hasattr(again, "alpha_")
    assert_array_equal(again.fit(X, LABELS).predict(X), model.fit(X, LABELS).predict(X))


def test_conformal_sets(tmp_path):
    sets = skout.ConformalSets(fitted("label sets")).calibrate(X, LABELS)
    again = round_trip(sets, tmp_path)
    assert_array_equal(again.gaps_, sets.gaps_)
    found, expected = again.predict(X), sets.predict(X)
    assert_array_equal(found.indices, expected.indices)
    assert_array_equal(found.indptr, expected.indptr)


def test_pools_are_saved_and_still_belong_to_the_model(tmp_path):
    model = fitted("label sets")
    pool = model.embed(CandidateSets(LABELS, np.arange(0, 2 * N + 1, 2), np.arange(2 * N) % N))
    again = round_trip(model, tmp_path)
    assert_same(again.rank(X, round_trip(pool, tmp_path), k=2), model.rank(X, pool, k=2))
    pools = fitted("ensemble").embed(LABELS)
    expected = fitted("ensemble").rank(X, pools, k=2)
    assert_same(fitted("ensemble").rank(X, round_trip(pools, tmp_path), k=2), expected)


@pytest.mark.parametrize("name", ["label sets", "molecules", "ensemble"])
def test_without_candidates(name, tmp_path):
    model = fitted(name)
    skout.save(model, tmp_path / "whole")
    skout.save(model, tmp_path / "small", candidates=False)
    assert os.path.getsize(tmp_path / "small") < os.path.getsize(tmp_path / "whole")
    again = skout.load(tmp_path / "small")
    with pytest.raises(ValueError, match="saved without candidates: give candidates"):
        again.predict(X)
    candidates = CASES[name][2]
    assert_same(again.rank(X, candidates, k=3), model.rank(X, candidates, k=3))


def test_strings_cannot_be_built_without_candidates(tmp_path):
    with pytest.raises(ValueError, match="StringDecoder cannot work without"):
        skout.save(fitted("words built"), tmp_path / "model", candidates=False)


def test_shared_parts_stay_shared(tmp_path):
    again = round_trip(fitted("label sets"), tmp_path)
    assert again.decoder_.basis_ is again.output_basis_
    assert again.decoder_.embed(None).objects is again.decoder_.pool_
    assert again.regressor_.landmarks_ is again.regressor_.basis_.landmarks_


def test_cached_properties_are_left_out(tmp_path):
    model = skout.KernelRidge("gaussian", SubSample(10), **SEEDED).fit(X, LABELS)
    expected = model.coef_
    again = round_trip(model, tmp_path)
    assert "coef_" not in vars(again)
    assert_array_equal(again.coef_, expected)


# Parts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in kernels.__all__ if n[0].isupper()])
def test_every_kernel_class_may_be_saved(name):
    kind = getattr(kernels, name)
    if inspect.isclass(kind) and not inspect.isabstract(kind):
        assert classes.class_of(name_of(kind)) is kind


@pytest.mark.parametrize(
    "part",
    [kind() for kind in kernels.KERNELS.values()]
    + [kind() for kind in sketches.SKETCHES.values()]
    + [kind() for kind in LOSSES.values()]
    + [kind() for kind in decoding.DECODERS.values()],
    ids=lambda part: type(part).__name__,
)
def test_registered_parts(part, tmp_path):
    again = round_trip(part, tmp_path)
    assert type(again) is type(part)
    assert repr(again.get_params()) == repr(part.get_params())


def test_packed_rows(tmp_path):
    bits = PackedBits(RNG.integers(0, 2**63, (6, 2), dtype=np.uint64), 128, np.float32)
    again = round_trip(bits, tmp_path)
    assert (again.n_bits, again.dtype) == (128, np.float32)
    assert_array_equal(again.words, bits.words)
    basis = KernelBasis("tanimoto").fit(bits)
    assert_array_equal(round_trip(basis, tmp_path).transform(bits), basis.transform(bits))


def test_memory_maps_are_saved_as_arrays(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    again = round_trip([mapped], tmp_path)[0]
    assert type(again) is np.ndarray
    assert_array_equal(again, X)


# Values -------------------------------------------------------------------------------------------


def _objects(items):
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array


DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(sizes=(16, 32, 64), endianness="?"),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.unicode_string_dtypes(max_len=4),
    hnp.byte_string_dtypes(max_len=4),
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4))
KEYS = st.one_of(st.text(), st.integers(), st.tuples(st.integers(), st.booleans()))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**62).map(lambda i: i**5),
    st.floats(),
    st.text(),
    st.text(st.characters(categories=["Cs"])),
    st.binary(),
    ARRAYS,
    ARRAYS.map(np.transpose),
    ARRAYS.filter(lambda a: a.size > 0).map(lambda a: a.reshape(-1)[0]),
    DTYPES.map(np.dtype),
)
# many of a kind, which are stored as columns
ALIKE = st.one_of(
    st.lists(one, min_size=8, max_size=10)
    for one in (
        *(st.booleans(), st.integers(), st.integers(min_value=2**62), st.floats(), st.text()),
        *(st.just(-0.0), st.sampled_from([1, 1.0, True]), ARRAYS, ARRAYS.map(np.transpose)),
        *(hnp.arrays("f4", st.tuples(st.integers(0, 3), st.just(2))), DTYPES.map(np.dtype)),
        *(st.lists(st.integers(), max_size=3), st.tuples(st.text(), st.floats())),
        *(hnp.arrays("<i8", 1).map(lambda a: a[0]), st.lists(st.text(), max_size=3).map(_objects)),
        st.lists(st.lists(ARRAYS, max_size=2).map(tuple), max_size=2),
    )
)
NESTED = st.recursive(
    st.one_of(LEAVES, ALIKE),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.frozensets(KEYS, max_size=3),
        st.sets(KEYS, max_size=3),
        st.lists(inner, max_size=3).map(_objects),
    ),
    max_leaves=8,
)


def assert_equal(found, expected):
    """Equal in type and value, NaN bits and the order of arrays included."""
    assert type(found) is type(expected)
    if isinstance(expected, np.dtype):
        assert found == expected.newbyteorder("<")
    elif isinstance(expected, np.ndarray) and expected.dtype == object:
        assert found.shape == expected.shape
        for one, other in zip(found.ravel(), expected.ravel(), strict=True):
            assert_equal(one, other)
    elif isinstance(expected, np.ndarray | np.generic):
        little = expected.astype(expected.dtype.newbyteorder("<"))
        assert found.shape == expected.shape
        assert found.tobytes() == little.tobytes()
        assert found.dtype == little.dtype or little.dtype.itemsize == 0
        if isinstance(expected, np.ndarray) and expected.flags.f_contiguous and expected.ndim > 1:
            assert found.flags.f_contiguous
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_equal(found[key], expected[key])
    elif isinstance(expected, float):
        assert found.hex() == expected.hex()
        assert math.copysign(1.0, found) == math.copysign(1.0, expected)
    else:
        assert found == expected


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("values")


@given(value=NESTED)
@example(value=np.str_(""))
@example(value=[-0.0, math.nan, -math.nan, math.inf, 2**63, -(2**63), "\ud83d\ude00"])
@example(value=np.zeros((3, 2), "U0"))
@example(value=np.array(2.0 + 1j))
def test_values_come_back(folder, value):
    assert_equal(round_trip(value, folder), value)


@pytest.mark.parametrize(
    "matrix",
    [
        sparse.csr_matrix(LABELS),
        sparse.csr_array(LABELS.astype(np.float32)),
        sparse.csc_matrix(LABELS),
        sparse.csr_matrix((0, 5)),
    ],
)
def test_sparse_matrices_come_back(matrix, tmp_path):
    again = round_trip(matrix, tmp_path)
    assert type(again) is type(matrix)
    assert again.dtype == matrix.dtype
    assert_array_equal(again.toarray(), matrix.toarray())


@pytest.mark.parametrize("kind", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_generators_go_on(kind, tmp_path):
    rng = np.random.Generator(getattr(np.random, kind)(7))
    rng.random(3)
    rng.integers(5, dtype=np.uint32)
    again = round_trip(rng, tmp_path)
    assert_array_equal(again.random(9), rng.random(9))
    assert_array_equal(again.integers(9, size=9), rng.integers(9, size=9))


def test_random_state_goes_on(tmp_path):
    rng = np.random.RandomState(3)
    rng.normal(size=3)  # leaves half a pair behind
    assert_array_equal(round_trip(rng, tmp_path).normal(size=9), rng.normal(size=9))


def test_equal_arrays_are_stored_once(tmp_path):
    big = np.zeros(10_000)
    skout.save([big, {"again": big}], tmp_path / "model")
    assert os.path.getsize(tmp_path / "model") < 1.1 * big.nbytes
    one, other = skout.load(tmp_path / "model")
    assert one is other["again"]


def test_safetensors_reads_the_same_arrays(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    load_file = pytest.importorskip("safetensors.numpy").load_file
    path = tmp_path / "model.skout"
    skout.save(fitted("label sets"), path, metadata={"score": 0.5})
    metadata, arrays = read_file(path)
    theirs = load_file(path)
    assert theirs.keys() == arrays.keys() | {"sha256"}
    for name, array in arrays.items():
        assert theirs[name].dtype == array.dtype
        assert_array_equal(theirs[name], array)
    with safetensors.safe_open(path, "numpy") as file:
        assert file.metadata() == metadata
    assert json.loads(metadata["about"])["metadata"] == {"score": 0.5}


# Models of data that is not in memory -------------------------------------------------------------


def test_models_of_data_on_disk(tmp_path):
    def fresh(rows, labels=None):
        model = skout.sisokr(output_kernel="tanimoto", random_state=0)
        model.set_params(regressor__checkpoint=tmp_path / "fit.npz")
        return model.fit(rows, labels)

    stored = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", X.dtype, X.shape)
    outputs = np.lib.format.open_memmap(tmp_path / "Y.npy", "w+", LABELS.dtype, LABELS.shape)
    stored[:], outputs[:] = X, LABELS
    blocks = skout.sources.Blocks([(X[:9], LABELS[:9]), (X[9:], LABELS[9:])], n=N)
    for data in ((stored, outputs), (blocks,)):
        model = fresh(*data)
        skout.save(model, tmp_path / "model")
        loaded = skout.load(tmp_path / "model")
        assert_array_equal(loaded.predict(X), fresh(X, LABELS).predict(X))
        assert loaded.regressor_.checkpoint is None  # a file names no other file
        assert model.regressor_.checkpoint == tmp_path / "fit.npz"


def test_pool_in_a_file(tmp_path):
    model = skout.iokr(output_kernel="tanimoto").fit(X, LABELS)
    pool = model.embed(LABELS[:7], tmp_path / "pool.npy")
    skout.save({"model": model, "pool": pool}, tmp_path / "model")
    loaded = skout.load(tmp_path / "model")
    expected = model.predict(X, LABELS[:7])
    assert_array_equal(loaded["model"].predict(X, loaded["pool"]), expected)


# What cannot be saved -----------------------------------------------------------------------------

LOOP = []
LOOP.append(LOOP)
DEEP = functools.reduce(lambda inner, _: [inner], range(200), [])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (threading.Lock(), r"\['a'\]\[1\] is of the type _thread.lock, which cannot be saved"),
        (np.array(["2020"], "M8[D]"), r"\['a'\]\[1\] has the dtype datetime64"),
        (np.zeros(1, [("x", "O")]), r"has the dtype \[\('x', 'O'"),
        (np.zeros(1, [("x", "f8", 2)]), r"has the dtype \[\('x', '<f8', \(2,\)"),
        (np.ma.array([1.0]), "MaskedArray"),
        (np.longdouble(1), "has the dtype"),
        (sparse.coo_matrix(LABELS), "tocsr"),
        (lambda: 0, "is a lambda"),
        (LOOP, "contains itself"),
        (DEEP, "nested more than 100 levels"),
        (object(), "builtins.object"),
        (1j, "builtins.complex"),
    ],
)
def test_refused_values_are_named(value, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        skout.save({"a": [0, value]}, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pd.Series([1]), r"pandas.*Fit on arrays"),
        (lambda: da.zeros(3), r"compute\(\)"),
        (lambda: zarr.zeros(3), r"Read it into memory: array\[:\]"),
    ],
    ids=["pandas", "dask", "zarr"],
)
def test_refused_containers_are_named(make, message, tmp_path):
    test_refused_values_are_named(make(), message, tmp_path)


def test_refused_attribute_is_named(tmp_path):
    model = skout.iokr(output_kernel="f1").fit(X, LABELS)
    model.regressor_.basis_ = threading.Lock()
    with pytest.raises(TypeError, match=r"^regressor_\.basis_ is of the type _thread\.lock"):
        skout.save(model, tmp_path / "model")


@pytest.mark.parametrize(
    "container",
    [lambda Y: pd.DataFrame(Y), lambda Y: pl.DataFrame(Y), lambda Y: pd.DataFrame(Y > 0)],
)
def test_models_of_data_frames_are_saved(container, tmp_path):
    frame = container(LABELS)
    model = skout.iokr(output_kernel="f1").fit(X, frame)
    skout.save(model, tmp_path / "model")
    again = skout.load(tmp_path / "model")
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(model.predict(X), skout.iokr(output_kernel="f1").fit(X, LABELS).predict(X))
    assert_array_equal(np.asarray(again.predict(X, frame)), model.predict(X))


def test_models_of_words_in_a_series_are_saved(tmp_path):
    words = pd.Series(["ab" if label else "cd" for label in LABELS[:, 0]])
    model = skout.iokr(output_kernel=NGram(2)).fit(X, words)
    skout.save(model, tmp_path / "model")
    assert_array_equal(skout.load(tmp_path / "model").predict(X), model.predict(X))


def test_what_nobody_checks_is_refused(tmp_path):
    model = make_pipeline(KMeans(2, **SEEDED), Ridge())
    model = skout.StructuredPredictor(model, "tanimoto").fit(X, LABELS)
    message = r"^regressor\.steps\[0\]\[1\] is of the type sklearn\.cluster\.KMeans, .*unchecked"
    with pytest.raises(TypeError, match=message):
        skout.save(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_functions_are_given_by_name(tmp_path):
    skout.save(fitted("function"), tmp_path / "model")
    with pytest.raises(ValueError, match=r"needs lengths.*modules=\{'lengths': \.\.\.\}"):
        skout.load(tmp_path / "model")
    one, other = Mapped(lengths, "linear"), Mapped(functools.partial(lengths), "linear")
    with pytest.raises(TypeError, match="another function or class of the name 'lengths'"):
        skout.save([one, other], tmp_path / "model")


def test_place_is_checked_first(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        skout.save(object(), tmp_path / "nowhere" / "model")
    with pytest.raises(IsADirectoryError, match="must be a file"):
        skout.save(object(), tmp_path)


@pytest.mark.parametrize(
    "notes", [{"a": np.float64(1).item, "b": 0}, {"a": float("nan")}, {1: 2}, {"a": (1, 2)}]
)
def test_metadata_must_be_json(notes, tmp_path):
    with pytest.raises(TypeError, match="metadata must be what JSON can hold"):
        skout.save(Gaussian(), tmp_path / "model", metadata=notes)


# Looking at a file --------------------------------------------------------------------------------


def test_description(tmp_path):
    path = tmp_path / "model.skout"
    skout.save(fitted("label sets"), path, metadata={"F1": 0.75, "data": ["bibtex"]})
    found = persistence.describe(path)
    about = found["about"]
    assert about["class"] == "skout.StructuredPredictor"
    assert about["metadata"] == {"F1": 0.75, "data": ["bibtex"]}
    assert about["facts"]["n_features_in_"] == 3
    assert about["facts"]["n_candidates"] == len(np.unique(LABELS, axis=0))
    assert about["versions"]["numpy"] == np.__version__
    assert found["bytes"] == path.stat().st_size
    parts = {part["name"]: part for part in found["parts"]["parts"]}
    inner = {part["name"]: part for part in parts["output_basis_"]["parts"]}
    components = fitted("label sets").output_basis_.components_
    shape = " x ".join(map(str, components.shape))
    assert inner["components_"]["what"] == f"float64 array, {shape}"
    assert inner["components_"]["bytes"] == components.nbytes
    total = sum(array.nbytes for name, array in read_file(path)[1].items() if name.isdigit())
    assert found["parts"]["bytes"] == total  # what is shared counts once


def classes_in(path):
    """The names of classes in a file, each that of an object or of a type."""
    metadata, arrays = read_file(path)
    nodes = json.loads(arrays["structure"].tobytes())["nodes"]
    found = [node.get("class") for node in nodes]
    found += [node["name"] for node in nodes if node["kind"] == "named"]
    return {json.loads(metadata["about"])["class"], *filter(None, found)}


@each_case
def test_files_name_rooms_and_no_modules_in_them(name, tmp_path):
    skout.save(fitted(name), tmp_path / "model")
    own = {one for one in classes_in(tmp_path / "model") if one.startswith("skout")}
    assert own
    assert {one for one in own if one.count(".") > 2} == set()


def test_exported_classes_have_short_names_in_files():
    modules = (decoding, kernels, losses, predictors, regressors, sketches)
    exported = [getattr(module, name) for module in modules for name in module.__all__]
    kinds = {one for one in exported if inspect.isclass(one) and not inspect.isabstract(one)}
    assert len(kinds) > 40
    for kind in kinds:
        assert classes.class_of(name_of(kind)) is kind
        assert name_of(kind).count(".") <= 2


def test_a_class_is_imported_when_a_file_names_it(tmp_path):
    skout.save(fitted("ridge"), tmp_path / "model")
    code = (
        "import sys, skout; skout.load(sys.argv[1]); rooms = ('predictors', 'apps', 'deep');"
        "print(*(room for room in rooms if f'skout.{room}' in sys.modules))"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "model")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.split() == []


@each_case
def test_every_case_can_be_described(name, tmp_path):
    skout.save(fitted(name), tmp_path / "model")
    json.dumps(persistence.describe(tmp_path / "model"))


# Other processes ----------------------------------------------------------------------------------


def _load_and_predict(path, rows):
    return skout.load(path).predict(rows)


def test_load_in_a_new_process(tmp_path):
    path = tmp_path / "model"
    skout.save(fitted("label sets"), path)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(_load_and_predict, (path, X))
    assert_array_equal(found, fitted("label sets").predict(X))


@pytest.mark.parametrize("old", ["skout.apps.tuning.Centred", "skout.apps.tuning.AlignedRidge"])
def test_files_may_have_the_older_names_of_classes(old):
    module, _, last = old.rpartition(".")
    assert name_of(classes.class_of(old)) == f"{module}.{classes.RENAMED[last]}"
