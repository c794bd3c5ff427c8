"""Parts that users write have the rights of ours: in every estimator, on every source, in files."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import test_matrix
from extras import extra
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from test_matrix import SOURCES, Y_LABELS, Y_NUMBERS, Y_SETS, X, answers, compare, with_device
from test_matrix import card as card  # a fixture

import skout
from skout import (
    ConformalSets,
    Ensemble,
    InducedMachine,
    JointQuantileRegressor,
    KernelBasis,
    KernelClassifier,
    KernelMachine,
    KernelRidge,
    StructuredPredictor,
    correct_hubness,
    iokr,
    sisokr,
)
from skout.decoding import CandidateDecoder, Decoder
from skout.dev import Local
from skout.kernels import (
    Gaussian,
    Kernel,
    Linear,
    PackedBits,
    Ragged,
    Rows,
    VectorKernel,
    as_objects,
    namespace,
)
from skout.losses import MarginLoss, RadialLoss
from skout.persistence import FileError, describe
from skout.persistence.files import read_file, write_file
from skout.sketches import Draw, GaussianSketch, PSparsified, Sketch, SubSample
from skout.testing import check_decoder, check_kernel, check_loss, check_sketch

da = extra("dask.array")
torch = extra("torch")
ROOT = Path(__file__).resolve().parents[2]

# What a user writes -------------------------------------------------------------------------------


class InverseQuadratic(VectorKernel):
    """A kernel on vectors, over the namespace."""

    runs_on_device = True

    def __init__(self, gamma=1.0):
        self.gamma = gamma

    def against(self, B):
        return lambda A, out=None: 1.0 / (1.0 + self.gamma * ((A[:, None] - B) ** 2).sum(2))

    def diag(self, A):
        return namespace(A).ones_like(A[:, 0])


class Jaccard(Kernel):
    """A kernel on frozensets, of which nothing but the three methods is written."""

    def encode(self, objects):
        return as_objects(objects)

    def against(self, B):
        def block(A, out=None):  # noqa: ARG001
            common = [(1 + len(a & b)) / (1 + len(a | b)) for a in A for b in B]
            return np.array(common).reshape(len(A), len(B))

        return block

    def diag(self, A):
        return np.ones(len(A))


class Intervals(Rows):
    """Rows of one's own."""

    def __init__(self, ends):
        self.ends = ends

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, index):
        return Intervals(self.ends[index])

    def keys(self):
        return [tuple(ends) for ends in self.ends.tolist()]

    @classmethod
    def concatenate(cls, parts):
        return cls(np.concatenate([part.ends for part in parts]))


class Overlap(Kernel):
    """The length that two intervals, pairs of numbers, have in common."""

    def encode(self, objects):
        if isinstance(objects, Intervals):
            return objects
        return Intervals(np.array(list(objects), dtype=float).reshape(-1, 2))

    def against(self, B):
        def block(A, out=None):  # noqa: ARG001
            low = np.maximum(A.ends[:, None, 0], B.ends[:, 0])
            return np.clip(np.minimum(A.ends[:, None, 1], B.ends[:, 1]) - low, 0.0, None)

        return block

    def diag(self, A):
        return A.ends[:, 1] - A.ends[:, 0]


class Letters(Kernel):
    """The number of letters that two words share, with repetition; rows of different lengths."""

    def encode(self, objects):
        if isinstance(objects, Ragged):
            return objects
        letters = [np.array([ord(c) % 32 for c in word], dtype=np.int64) for word in objects]
        indptr = np.concatenate([[0], np.cumsum([len(word) for word in letters])]).astype(np.int64)
        return Ragged(indptr, np.concatenate([np.empty(0, dtype=np.int64), *letters]))

    def _counts(self, A):
        counts = np.zeros((len(A), 32))
        np.add.at(counts, (A.row_numbers, A.columns[0]), 1.0)
        return counts

    def against(self, B):
        right = self._counts(B).T
        return lambda A, out=None: self._counts(A) @ right

    def diag(self, A):
        return (self._counts(A) ** 2).sum(axis=1)


class EveryBlock(Sketch):
    """Sums of neighbouring rows with random signs."""

    def __init__(self, size=5):
        self.size = size

    def draw(self, n, rng, gram=None):
        W = np.zeros((self.size, n))
        W[np.arange(n) * self.size // n, np.arange(n)] = rng.choice([-1.0, 1.0], n)
        return Draw(np.arange(n), W, (self.size, n))


class Largest(Sketch):
    """The rows of the largest k(x, x), without a parameter `size`."""

    needs_gram = True

    def __init__(self, share=0.2):
        self.share = share

    def draw(self, n, rng, gram=None):
        kept = np.sort(np.argsort(-gram.diag(), kind="stable")[: int(self.share * n)])
        return Draw(kept, None, (len(kept), n))


class PseudoHuber(RadialLoss):
    """sqrt(1 + ||f - y||^2) - 1."""

    smooth = True
    lipschitz = 1.0

    def _h(self, r):
        return (1.0 + r * r) ** 0.5 - 1.0

    def _slope(self, r):
        return r / (1.0 + r * r) ** 0.5

    def _bend(self, r):
        return (1.0 + r * r) ** -1.5

    def _h_conjugate(self, s):
        inner = namespace(s).clip(s, None, 1.0)
        finite = 1.0 - (1.0 - inner**2) ** 0.5
        return namespace(s).where(s <= 1.0 + 1e-12, finite, np.inf)


class HalfSquaredHinge(MarginLoss):
    """1/2 max(1 - y f, 0)^2."""

    smooth = True
    lipschitz = float("inf")

    def _h(self, s):
        return 0.5 * namespace(s).clip(1.0 - s, 0.0, None) ** 2

    def _slope(self, s):
        return -namespace(s).clip(1.0 - s, 0.0, None)

    def _bend(self, s):
        return namespace(s).where(s <= 1.0, 1.0, 0.0)

    def _h_conjugate(self, a):
        return namespace(a).where(a <= 1e-12, a + 0.5 * a**2, np.inf)


class Nearest(Decoder):
    """The least that can rank."""

    def fit(self, basis, Y, coordinates=None):
        self.Y_ = np.asarray(Y)
        self.Z_ = basis.transform(Y) if coordinates is None else coordinates
        self.norms_ = basis.kernel_.diag(basis.kernel_.encode(Y))
        return self

    def decode(self, F, candidates=None):
        self._refuse(candidates)
        return self.Y_[self.rank(F, k=1)[0][:, 0]]

    def rank(self, F, candidates=None, k=10):
        scores = np.round(2 * F @ self.Z_.T - self.norms_, 9)  # ties are ties
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return best, np.take_along_axis(scores, best, axis=1)


class Searcher(BaseEstimator):
    """A decoder that has every method, and is of no class of ours."""

    def fit(self, basis, Y, coordinates=None):
        self.basis_ = basis
        self.inner_ = CandidateDecoder().fit(basis, Y, coordinates)
        return self

    def decode(self, F, candidates=None):
        return self.inner_.decode(F, candidates)

    def rank(self, F, candidates=None, k=10):
        return self.inner_.rank(F, candidates, k)

    def embed(self, candidates, path=None):
        return self.inner_.embed(candidates, path)

    def truth_ranks(self, F, Y, candidates=None, *, ties="average"):
        return self.inner_.truth_ranks(F, Y, candidates, ties=ties)

    def gaps(self, F, Y, candidates=None):
        return self.inner_.gaps(F, Y, candidates)

    def within(self, F, gap, candidates=None):
        return self.inner_.within(F, gap, candidates)

    def queries(self, F, pool):
        return self.inner_.queries(F, pool)

    def matched(self, Y, pool):
        return self.inner_.matched(Y, pool)

    def penalized(self, pool, prices):
        return self.inner_.penalized(pool, prices)

    def without_pool(self):
        light = Searcher()
        light.basis_, light.inner_ = self.basis_, self.inner_.without_pool()
        return light


class Careful(CandidateDecoder):
    """A decoder derived from ours."""

    def __init__(self, index=None, n_jobs=None, device=None, bonus=0.0):
        super().__init__(index, n_jobs, device)
        self.bonus = bonus

    def rank(self, F, candidates=None, k=10):
        indices, scores = super().rank(F, candidates, k)
        return indices, scores + self.bonus


class Query(Local):
    """Rows of a table in a database, which are read when they are asked for."""

    reads_ahead = True

    def __init__(self, path, rows):
        self.path = path
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE data (row BLOB)")
            database.executemany("INSERT INTO data VALUES (?)", [(row.tobytes(),) for row in rows])
            database.commit()
        self.like = self.take(slice(0, 1))

    def __len__(self):
        with closing(sqlite3.connect(self.path)) as database:
            return database.execute("SELECT COUNT(*) FROM data").fetchone()[0]

    def take(self, index):
        numbers = 1 + np.arange(len(self))[index]
        select = f"SELECT rowid, row FROM data WHERE rowid IN ({','.join(map(str, numbers))})"
        with closing(sqlite3.connect(self.path)) as database:
            rows = dict(database.execute(select))
        return np.array([np.frombuffer(rows[number]) for number in numbers.tolist()])


class Shift(TransformerMixin, BaseEstimator):
    """A transformer, which may stand before a model."""

    def fit(self, X, y=None):
        self.mean_ = np.mean(X, axis=0)
        return self

    def transform(self, X):
        return X - self.mean_


MODULES = [InverseQuadratic, Jaccard, Intervals, Overlap, Letters, EveryBlock, Largest]
MODULES += [PseudoHuber, HalfSquaredHinge, Nearest, Searcher, Careful, Shift]

# Estimators with them, and their data -------------------------------------------------------------

RNG = np.random.default_rng(1)
BASKETS = as_objects([frozenset(np.flatnonzero(row > 0).tolist()) for row in X])
WIDTHS = RNG.uniform(0.1, 2.0, len(X))
SPANS = np.column_stack([X[:, 0], X[:, 0] + WIDTHS])
WORDS = np.array(["".join(RNG.choice(list("abcde"), 1 + i % 5)) for i in range(len(X))])
KERNEL, SKETCH = InverseQuadratic(0.5), SubSample(30)


def sets(regressor, decoder=None, kernel="f1", sketch=None):
    sketch = SubSample(6) if sketch is None else sketch
    return StructuredPredictor(regressor, KernelBasis(kernel, sketch, random_state=1), decoder)


def with_part(kernel, sketch):
    """Return all estimators with a kernel and a sketch, and their targets."""
    ridge = KernelRidge(kernel, sketch, random_state=0)
    return {
        "KernelBasis": (KernelBasis(kernel, sketch, random_state=0), None),
        "KernelRidge": (ridge, Y_NUMBERS),
        "KernelMachine": (KernelMachine(kernel, sketch, loss="huber", random_state=0), Y_NUMBERS),
        "KernelClassifier": (KernelClassifier(kernel, sketch, random_state=0), Y_LABELS),
        "JointQuantileRegressor": (
            JointQuantileRegressor([0.2, 0.7], kernel, sketch, random_state=0),
            Y_NUMBERS,
        ),
        "InducedMachine": (InducedMachine(kernel, sketch, random_state=0), Y_NUMBERS),
        "StructuredPredictor": (sets(ridge), Y_SETS),
    }


BOTH = sisokr(KERNEL, KERNEL, input_sketch=SKETCH, output_sketch=SubSample(6), random_state=0)
CELLS = {
    **{f"kernel in {name}": (*one, X) for name, one in with_part(KERNEL, SKETCH).items()},
    **{
        f"sketch in {name}": (*one, X)
        for name, one in with_part(Gaussian(0.3), EveryBlock(20)).items()
    },
    **{
        f"sketch of the kernel matrix in {name}": (*one, X)
        for name, one in with_part(Linear() + Gaussian(0.3), Largest()).items()
        if name in ("KernelBasis", "KernelRidge", "KernelMachine")
    },
    "kernel on both sides": (BOTH, Y_SETS, X),
    "sketch on both sides": (
        sisokr(
            "gaussian",
            "f1",
            input_sketch=EveryBlock(9),
            output_sketch=EveryBlock(6),
            random_state=0,
        ),
        Y_SETS,
        X,
    ),
    "kernel in Ensemble": (Ensemble(BOTH, 2, random_state=0), Y_SETS, X),
    "kernel in a sum": (
        KernelRidge(2.0 * KERNEL + Gaussian(0.3), SKETCH, random_state=0),
        Y_NUMBERS,
        X,
    ),
    "sets to numbers": (KernelRidge(Jaccard(), SubSample(7), random_state=0), Y_NUMBERS, BASKETS),
    "sets to sets": (sisokr(Jaccard(), Jaccard(), random_state=0), BASKETS, BASKETS),
    "own rows to numbers": (KernelRidge(Overlap(), SKETCH, random_state=0), Y_NUMBERS, SPANS),
    "own rows on both sides": (sisokr(Overlap(), Overlap(), random_state=0), SPANS, SPANS),
    "ragged rows on both sides": (sisokr(Letters(), Letters(), random_state=0), WORDS, WORDS),
    "loss in KernelMachine": (
        KernelMachine(Gaussian(0.3), SKETCH, loss=PseudoHuber(), random_state=0),
        Y_NUMBERS,
        X,
    ),
    "loss in KernelClassifier": (
        KernelClassifier(Gaussian(0.3), SKETCH, loss=HalfSquaredHinge(), random_state=0),
        Y_LABELS,
        X,
    ),
    "loss in InducedMachine": (
        InducedMachine(Gaussian(0.3), SKETCH, loss=PseudoHuber(), random_state=0),
        Y_NUMBERS,
        X,
    ),
    "loss in StructuredPredictor": (
        sets(KernelMachine(Gaussian(0.3), SKETCH, loss=PseudoHuber(), random_state=0)),
        Y_SETS,
        X,
    ),
    **{
        f"{type(decoder).__name__} in StructuredPredictor": (
            sets(KernelRidge(Gaussian(0.3), SKETCH, random_state=0), decoder),
            Y_SETS,
            X,
        )
        for decoder in (Nearest(), Searcher(), Careful(bonus=1.0))
    },
    "Nearest after scikit-learn": (sets(KNeighborsRegressor(3), Nearest()), Y_SETS, X),
    "Searcher in Ensemble": (
        Ensemble(sisokr("gaussian", "f1", decoder=Searcher(), random_state=0), 2, random_state=0),
        Y_SETS,
        X,
    ),
    "all together": (
        sets(
            KernelMachine(KERNEL, EveryBlock(20), loss=PseudoHuber(), random_state=0),
            Nearest(),
            InverseQuadratic(1.0),
            EveryBlock(6),
        ),
        Y_SETS,
        X,
    ),
}
PLACES = ["memmap", "Blocks", "dask array"]
# Sketches of the kernel matrix need all rows here.
FORBIDDEN = {
    (name, "dask array"): "kernel values of all rows in one place"
    for name in CELLS
    if name.startswith("sketch of the")
}


def fitted(name, source, folder):
    model, y, rows = CELLS[name]
    data, targets, _ = SOURCES[source](folder, rows, y, None)
    model = clone(model)
    return model.fit(data) if targets is None else model.fit(data, targets)


def said(model, rows):
    found = answers(model, rows)
    if hasattr(model, "decoder_") or hasattr(model, "members_"):
        found.append(np.asarray(model.predict(rows)))
    return found


@pytest.mark.parametrize("name", test_matrix.ESTIMATORS)
def test_a_source_of_ones_own_in_every_estimator(name, tmp_path):
    make, y, _ = test_matrix.ESTIMATORS[name]
    data = Query(tmp_path / "rows.db", X)
    model = make().fit(data) if y is None else make().fit(data, y)
    compare(answers(model, X[:20]), answers(test_matrix.in_memory(name), X[:20]))
    if not isinstance(model, Ensemble):  # whose members each take them
        compare(answers(model, data), answers(model, X))


def objects_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one, other)


@pytest.fixture(scope="module")
def in_memory():
    models = {}

    def get(name):
        if name not in models:
            models[name] = fitted(name, "memory", None)
        return models[name]

    return get


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("source", PLACES)
def test_every_part_on_every_source(name, source, in_memory, tmp_path):
    rows = CELLS[name][2]
    if (name, source) in FORBIDDEN:
        with pytest.raises(ValueError, match=FORBIDDEN[name, source]):
            fitted(name, source, tmp_path)
        return
    model = fitted(name, source, tmp_path)
    compare(answers(model, rows[:20]), answers(in_memory(name), rows[:20]))


@pytest.mark.parametrize("name", CELLS)
def test_every_part_in_files(name, in_memory, tmp_path):
    model, rows = in_memory(name), CELLS[name][2]
    skout.save(model, tmp_path / "model")
    again = skout.load(tmp_path / "model", modules=MODULES)
    objects_equal(said(again, rows[:20]), said(model, rows[:20]))
    assert repr(again) == repr(model)


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("name", [n for n in CELLS if n.startswith(("kernel ", "loss "))])
def test_kernels_and_losses_over_the_namespace_run_on_a_device(name, in_memory):
    model, y, rows = CELLS[name]
    there = with_device(clone(model))
    there = there.fit(rows) if y is None else there.fit(rows, y)
    compare(answers(there, rows[:20]), answers(in_memory(name), rows[:20]))


def test_checks_pass():
    for kernel, objects in (
        (InverseQuadratic(), X[:20]),
        (Jaccard(), BASKETS[:20]),
        (Overlap(), SPANS[:20]),
        (Letters(), WORDS[:20]),
    ):
        check_kernel(kernel, objects)
    check_sketch(EveryBlock(), n=20, n_draws=1000)
    check_loss(PseudoHuber(), d=2)
    check_loss(HalfSquaredHinge())
    basis = KernelBasis(Gaussian(0.5)).fit(X[:20])
    for decoder in (Nearest(), Searcher(), Careful()):
        check_decoder(decoder, basis, X[:20], basis.transform(X[20:30]))


# Networks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ensemble", [False, True])
def test_parts_in_networks(tmp_path, ensemble):
    torch.nn  # noqa: B018 - skips the test where there is no torch
    from skout.deep import MLP, Training

    model = skout.dsokr(
        MLP,
        InverseQuadratic(1.0),
        output_sketch=EveryBlock(6),
        loss=PseudoHuber(),
        training=Training(max_epochs=2),
        decoder=Searcher(),
        random_state=0,
    )
    model = Ensemble(model, 2, random_state=0) if ensemble else model
    model.fit(X, Y_SETS)
    skout.save(model, tmp_path / "model")
    again = skout.load(tmp_path / "model", modules=MODULES)
    objects_equal(said(again, X[:20]), said(model, X[:20]))
    with pytest.raises(ValueError, match="needs EveryBlock, InverseQuadratic, PseudoHuber, Searc"):
        skout.load(tmp_path / "model")


# Decoders by what they can do ---------------------------------------------------------------------


def model_with(decoder):
    return sets(KernelRidge(Gaussian(0.3), SKETCH, random_state=0), decoder).fit(X, Y_SETS)


@pytest.fixture(scope="module")
def plain():
    return model_with(None)


def test_rank_is_enough_to_rank(plain):
    model = model_with(Nearest())
    indices, scores = model.rank(X[:20], k=3)
    assert indices.shape == (20, 3)
    assert_allclose(scores[:, 0], plain.rank(X[:20], k=1)[1][:, 0], atol=1e-6)
    assert_array_equal(model.predict(X), plain.predict(X))


def test_a_decoder_with_every_method_is_as_good_as_ours(plain):
    model = model_with(Searcher())
    pool = model.embed(np.unique(Y_SETS, axis=0))
    assert_array_equal(model.predict(X[:9], pool), plain.predict(X[:9], np.unique(Y_SETS, axis=0)))
    ranks = [one.truth_ranks(X[:50], Y_SETS[:50]) for one in (model, plain)]
    assert_array_equal(*ranks)
    assert model.score(X, Y_SETS) == plain.score(X, Y_SETS)
    conformal = [ConformalSets(one).calibrate(X[:100], Y_SETS[:100]) for one in (model, plain)]
    assert_array_equal(conformal[0].gaps_, conformal[1].gaps_)
    found = [one.evaluate(X[100:150], Y_SETS[100:150]) for one in conformal]
    assert found[0] == found[1]
    fair = [correct_hubness(one, X, Y_SETS, random_state=0) for one in (model, plain)]
    assert_array_equal(fair[0].embedding, fair[1].embedding)


def test_ensembles_of_own_decoders():
    ours, theirs = (
        Ensemble(sisokr("gaussian", "f1", decoder=decoder), 2, random_state=0).fit(X, Y_SETS)
        for decoder in (None, Searcher())
    )
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert_array_equal(ours.truth_ranks(X, Y_SETS), theirs.truth_ranks(X, Y_SETS))
    weights = [one.tune(X[:50], Y_SETS[:50]).weights_ for one in (ours, theirs)]
    assert_array_equal(*weights)


@pytest.mark.parametrize("decoder", [Nearest(), Searcher(), Careful()], ids=repr)
def test_decoders_on_a_cluster(decoder, plain):
    model, lazy = model_with(decoder), da.from_array(X, chunks=(77, 3))
    found = model.predict(lazy)
    assert hasattr(found, "compute"), "predict stays lazy"
    assert_array_equal(found.compute(), plain.predict(X))
    indices, scores = model.rank(lazy, k=2)
    expected = model.rank(X, k=2)
    assert_array_equal(indices.compute(), expected[0])
    assert_allclose(scores.compute(), expected[1], atol=1e-9)


def test_label_sets_on_a_cluster():
    model = model_with("label_sets")
    assert_array_equal(model.predict(da.from_array(X, chunks=(77, 3))).compute(), model.predict(X))


def test_candidates_on_a_cluster(plain):
    pool = np.unique(Y_SETS, axis=0)
    shards = da.from_array(pool, chunks=(3, 3))
    assert_array_equal(model_with(Searcher()).predict(X, shards), plain.predict(X, pool))
    with pytest.raises(TypeError, match="needs a decoder with embed, without_pool, and Nearest ha"):
        model_with(Nearest()).predict(X, shards)


@pytest.mark.parametrize(
    ("use", "missing"),
    [
        (lambda model: model.embed(Y_SETS), "embed needs a decoder with embed,"),
        (
            lambda model: model.truth_ranks(X, Y_SETS),
            "truth_ranks needs a decoder with truth_ranks,",
        ),
        (
            lambda model: ConformalSets(model).calibrate(X, Y_SETS),
            "ConformalSets needs a decoder with gaps,",
        ),
        (
            lambda model: correct_hubness(model, X, Y_SETS),
            "correct_hubness needs a decoder with embed, matched, penalized,",
        ),
        (lambda model: Ensemble.of([model]).predict(X), "needs a decoder with embed,"),
    ],
    ids=["embed", "truth_ranks", "ConformalSets", "correct_hubness", "Ensemble"],
)
def test_missing_methods_are_named(use, missing):
    with pytest.raises(TypeError, match=f"{missing} and Nearest has none.*if Nearest is your own"):
        use(model_with(Nearest()))


def test_rank_that_is_missing_is_named():
    class Silent(Nearest):
        rank = Decoder.rank

        def decode(self, F, candidates=None):
            return self.Y_[[0] * len(F)]

    with pytest.raises(TypeError, match=r"Silent builds objects .*has no method rank"):
        model_with(Silent()).rank(X)


# Kernels ------------------------------------------------------------------------------------------


class OwnCosine(VectorKernel):
    """A cosine, as one writes it first: of a row of zeros it is NaN."""

    def against(self, B):
        def block(A, out=None):  # noqa: ARG001
            lengths = [((C * C).sum(1) ** 0.5) for C in (A, B)]
            with np.errstate(invalid="ignore"):
                return (A @ B.T) / lengths[0][:, None] / lengths[1]

        return block

    def diag(self, A):
        return namespace(A).ones_like(A[:, 0])


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("device", [None, "cuda"])
@pytest.mark.parametrize("sketch", [None, SubSample(20), PSparsified(20), GaussianSketch(10)])
@pytest.mark.parametrize(
    "model",
    [
        lambda k, s: KernelBasis(k, s, random_state=0),
        lambda k, s: KernelRidge(k, s, random_state=0),
        lambda k, s: KernelRidge(k, s, solver="cg", random_state=0),
        lambda k, s: KernelMachine(k, s, loss="huber", random_state=0),
        lambda k, s: KernelClassifier(k, s, random_state=0),
        lambda k, s: iokr("gaussian", k, input_sketch=s, output_sketch=s, random_state=0),
        lambda k, s: iokr(k, "gaussian", input_sketch=s, output_sketch=s, random_state=0),
    ],
    ids=["basis", "ridge", "cg", "machine", "classes", "outputs", "inputs"],
)
def test_kernel_values_that_are_not_finite_are_said(model, sketch, device, request):
    is_output = "outputs" in request.node.callspec.id

    def used(X, new):
        one = model(OwnCosine(), sketch)
        one = one if device is None else with_device(one)
        fitted = one.fit(X, X[:, 0] > 0 if isinstance(one, KernelClassifier) else X)
        if is_output and X is not new:
            return fitted.predict(X, new)  # as candidates
        return (fitted.predict if hasattr(fitted, "predict") else fitted.transform)(new)

    rows = np.random.default_rng(0).standard_normal((60, 3))
    hole = np.vstack([rows, np.zeros((1, 3))])
    assert np.isfinite(used(rows, rows)).all()
    with pytest.raises(ValueError, match=r"OwnCosine\(\) gives NaN or infinity for some rows"):
        used(hole, hole)
    with pytest.raises(ValueError, match=r"OwnCosine\(\) gives NaN or infinity for some rows"):
        used(rows, hole)


def test_standard_deviations_of_values_that_are_not_finite():
    rows = np.random.default_rng(0).standard_normal((60, 3))
    for sketch in (None, SubSample(20)):
        model = KernelRidge(OwnCosine(), sketch, random_state=0).fit(rows, rows[:, 0])
        with pytest.raises(ValueError, match=r"OwnCosine\(\) gives NaN or infinity for some rows"):
            model.predict(np.zeros((1, 3)), return_std=True)


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        (np.eye(5, 60), r"OneDraw.*draw must return a skout.sketches.Draw. Got ndarray"),
        (Draw(np.arange(5), np.ones((5, 3)), (5, 60)), r"weights of shape \(5, 3\)"),
        (Draw(np.arange(5), None, (4, 60)), r"drew 5 of 60 rows with the shape \(4, 60\)"),
        (Draw(np.arange(5), None, (5, 70)), r"must be \(size, 60\)"),
        (Draw(np.array([3, 1]), None, (2, 60)), "sorted and distinct"),
        (Draw(np.arange(0), None, (0, 60)), "drew no row at all of 60"),
    ],
)
def test_draws_that_are_none_are_said(drawn, message):
    class OneDraw(Sketch):
        size = None

        def draw(self, n, rng, gram=None):
            return drawn

    with pytest.raises((TypeError, ValueError), match=message):
        KernelBasis("gaussian", OneDraw()).fit(np.random.default_rng(0).standard_normal((60, 3)))


def test_a_kernel_that_says_vectors_and_encodes_objects():
    class Wrong(Jaccard):
        takes_vectors = True

    for use in (Wrong(), lambda baskets: check_kernel(Wrong(), baskets)):
        with pytest.raises(TypeError, match=r"Wrong says takes_vectors = True.*shape \(9,\)"):
            use(BASKETS[:9])


def test_a_kernel_that_encodes_a_list():
    class Plain(Jaccard):
        def encode(self, objects):
            return list(objects)

    with pytest.raises(AssertionError, match=r"Plain.encode returned list.*as_objects"):
        check_kernel(Plain(), BASKETS[:9])


# Files --------------------------------------------------------------------------------------------


def test_pipelines_with_own_transformers(tmp_path):
    model = make_pipeline(Shift(), BOTH).fit(X, Y_SETS)
    skout.save(model, tmp_path / "model")
    again = skout.load(tmp_path / "model", modules=MODULES)
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(again[0].mean_, model[0].mean_)


@pytest.mark.parametrize(
    "part", [KERNEL, Largest(0.3), PseudoHuber(), Careful(bonus=2.0)], ids=repr
)
def test_parts_alone(part, tmp_path):
    skout.save(part, tmp_path / "part")
    for modules in ([type(part)], {type(part).__name__: type(part)}):
        again = skout.load(tmp_path / "part", modules=modules)
        assert type(again) is type(part)
        assert again.get_params() == part.get_params()


def test_classes_that_are_missing_are_named(tmp_path):
    skout.save(KernelRidge(KERNEL).fit(X, Y_NUMBERS), tmp_path / "model")
    with pytest.raises(ValueError, match=r"needs InverseQuadratic.*modules=\{'InverseQuadratic'"):
        skout.load(tmp_path / "model", modules=[Jaccard])
    assert describe(tmp_path / "model")["about"]["needs"] == ["InverseQuadratic"]


def test_a_description_needs_no_class(tmp_path):
    skout.save(KernelRidge(KERNEL), tmp_path / "model")
    parts = describe(tmp_path / "model")["parts"]["parts"]
    kernel = next(part for part in parts if part["name"] == "kernel")
    assert kernel["what"] == "InverseQuadratic"
    assert [part["name"] for part in kernel["parts"]] == ["gamma"]


def test_new_parameters_have_their_defaults(tmp_path):
    class Older(VectorKernel):
        against, diag = InverseQuadratic.against, InverseQuadratic.diag

    Older.__name__ = "InverseQuadratic"
    skout.save(Older(), tmp_path / "kernel")
    assert skout.load(tmp_path / "kernel", modules=[InverseQuadratic]).gamma == 1.0


def test_two_classes_of_one_name(tmp_path):
    other = type("InverseQuadratic", (InverseQuadratic,), {})
    with pytest.raises(TypeError, match="another function or class of the name 'InverseQuadratic'"):
        skout.save(KERNEL + other(), tmp_path / "model")


@pytest.mark.parametrize(
    ("modules", "error", "message"),
    [
        ("InverseQuadratic", TypeError, "must be a list of functions and classes"),
        (3, TypeError, "must be a list of functions and classes"),
        ([np], TypeError, "Got <module 'numpy'"),
        (["InverseQuadratic"], TypeError, "Got 'InverseQuadratic' among them"),
        ([Jaccard, type("Jaccard", (), {})], ValueError, "two of the name 'Jaccard'"),
        ({"InverseQuadratic": KERNEL}, FileError, "must have the class 'InverseQuadratic'"),
        ({"InverseQuadratic": dict}, FileError, "must have the class 'InverseQuadratic'"),
        ({"InverseQuadratic": KMeans}, FileError, "must have the class 'InverseQuadratic'"),
    ],
    ids=repr,
)
def test_modules_that_are_no_classes(modules, error, message, tmp_path):
    skout.save(KERNEL, tmp_path / "kernel")
    with pytest.raises(error, match=message):
        skout.load(tmp_path / "kernel", modules=modules)


def test_what_a_class_inherits_is_checked(tmp_path):
    class Bits(PackedBits):
        pass

    rows = Bits(np.array([[5], [2]], dtype=np.uint64), n_bits=3)
    skout.save(rows, tmp_path / "rows")
    found = skout.load(tmp_path / "rows", modules=[Bits])
    assert type(found) is Bits
    assert_array_equal(found.words, rows.words)
    crafted(tmp_path / "rows", lambda nodes: nodes[-1]["state"].update(n_bits=2))
    with pytest.raises(FileError, match="no ones beyond n_bits=2"):
        skout.load(tmp_path / "rows", modules=[Bits])


def test_a_class_says_what_is_in_its_file(tmp_path):
    class Rounded(InverseQuadratic):
        def __skout_state__(self):
            return {"gamma": round(self.gamma, 1)}

        @classmethod
        def __skout_restore__(cls, state):
            return cls(2.0 * state["gamma"])

    skout.save([Rounded(0.123)] * 2, tmp_path / "kernel")
    one, other = skout.load(tmp_path / "kernel", modules=[Rounded])
    assert one is other
    assert one.gamma == 0.2


def test_attributes_in_place_of_methods_are_refused(tmp_path):
    kernel = InverseQuadratic()
    kernel.diag = 3.0
    with pytest.raises(TypeError, match="attribute 'diag' in place of a method"):
        skout.save(kernel, tmp_path / "kernel")


def crafted(path, change):
    """Rewrite the structure of a file."""
    header, arrays = read_file(path, mmap=False)
    structure = json.loads(bytes(arrays["structure"]))
    change(structure["nodes"])
    text = json.dumps(structure).encode()
    arrays = {**arrays, "structure": np.frombuffer(text, dtype=np.uint8)}
    write_file(path, arrays, {name: header[name] for name in ("version", "about")})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda node: node["state"].update({"against": 1}), "'against' is no attribute"),
        (lambda node: node["state"].update({"_by_name": True}), "'_by_name' is no attribute"),
        (lambda node: node["state"].update({"__class__": 1}), "'__class__' is no attribute"),
        (lambda node: node["state"].update({"__dict__": 1}), "'__dict__' is no attribute"),
        (lambda node: node.update({"class": "Jaccard"}), "without saying that it needs it"),
        (lambda node: node.update({"class": "skout.Gaussian"}), "without saying that it needs it"),
        (lambda node: node.update({"kind": "object"}), "which is not skout's"),
        (lambda node: node.update({"class": ["x"]}), "do not fit together"),
    ],
)
def test_crafted_files_are_refused(change, message, tmp_path):
    path = tmp_path / "kernel"
    skout.save(KERNEL, path)
    crafted(path, lambda nodes: [change(node) for node in nodes if node["kind"] == "own"])
    with pytest.raises(FileError, match=message):
        skout.load(path, modules=[InverseQuadratic])


def test_crafted_ragged_rows_are_checked(tmp_path):
    class Own(Ragged):
        pass

    path = tmp_path / "rows"
    skout.save(Own(np.array([0, 1, 2]), np.arange(2)), path)
    skout.load(path, modules=[Own])
    skout.save(Own(np.array([0, 9]), np.arange(2)), path)
    with pytest.raises(FileError, match="Own whose columns do not fit"):
        skout.load(path, modules=[Own])


def test_nothing_of_a_class_is_called(tmp_path):
    class Loud(InverseQuadratic):
        def __init__(self, gamma=1.0):
            super().__init__(gamma)

        def __setattr__(self, name, value):
            assert not Loud.loading
            super().__setattr__(name, value)

        def __setstate__(self, state):
            raise AssertionError

    Loud.loading = False
    skout.save(Loud(3.0), tmp_path / "kernel")
    Loud.loading = True
    assert skout.load(tmp_path / "kernel", modules=[Loud]).gamma == 3.0


@pytest.mark.parametrize("decoder", [Searcher(), Careful()], ids=repr)
def test_own_decoders_without_candidates(decoder, tmp_path):
    model, pool = model_with(decoder), np.unique(Y_SETS, axis=0)
    skout.save(model, tmp_path / "model", candidates=False)
    again = skout.load(tmp_path / "model", modules=MODULES)
    assert_array_equal(again.predict(X, pool), model.predict(X, pool))
    with pytest.raises(ValueError, match="saved without candidates: give candidates"):
        again.predict(X)


def test_own_decoders_say_how_to_leave_candidates_out(tmp_path):
    with pytest.raises(ValueError, match="Nearest has no method without_pool"):
        skout.save(model_with(Nearest()), tmp_path / "model", candidates=False)


# The page that shows how --------------------------------------------------------------------------

PAGE = ROOT / "docs" / "extending.md"
needs_page = pytest.mark.skipif(not PAGE.exists(), reason="a source distribution has no pages")


@needs_page
def test_the_page_holds_in_a_fresh_process(tmp_path):
    code = "import doctest, sys; sys.exit(doctest.testfile(sys.argv[1], False).failed)"
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(PAGE)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(skout.__file__).parents[1])},
    )
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]


@needs_page
def test_classes_of_the_page_are_short():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith(">>> class ")]
    ends = [next(j for j in range(i + 1, len(lines)) if lines[j][:3] != "...") for i in starts]
    sizes = {lines[i].split()[2].split("(")[0]: j - i for i, j in zip(starts, ends, strict=True)}
    assert {"Jaccard", "InverseQuadratic", "EveryBlock", "PseudoHuber", "Nearest"} <= sizes.keys()
    assert max(sizes.values()) < 20, sizes


def test_nobody_asks_for_the_class_of_a_decoder():
    package = Path(skout.__file__).parent
    found = [
        path.name
        for path in package.rglob("*.py")
        if "persistence" not in path.relative_to(package).parts
        and re.search(r"isinstance\([^)]*Decoder", path.read_text(encoding="utf-8"))
    ]
    assert found == []
