"""Every estimator on every source: the same model as in memory, or an error that says why not.

`PYTHONPATH=tests/helpers python tests/rows/test_matrix.py` writes the table of docs/sources.md from
the cells tested here.
"""

import functools
import sys
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from extras import extra
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.neighbors import KNeighborsRegressor

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
    TwoWay,
    memory_limits,
    sisokr,
)
from skout.kernels import Gaussian
from skout.sketches import PSparsified, SubSample
from skout.sources import Blocks, open_parquet

da = extra("dask.array")
dask = extra("dask")
h5py = extra("h5py")
pa = extra("pyarrow")
extra("pyarrow.parquet")
torch = extra("torch")
zarr = extra("zarr")

N, D = 240, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D))
Y_NUMBERS = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(N)
Y_HOLES = np.column_stack([Y_NUMBERS, np.cos(X[:, 1]), X[:, 2] ** 2])
Y_HOLES[np.random.default_rng(1).random(Y_HOLES.shape) < 0.3] = np.nan
Y_LABELS = np.where(X[:, 1] + 0.3 * X[:, 0] > 0, "up", "down")
Y_SETS = (X + 0.2 * RNG.standard_normal((N, D)) > 0).astype(float)
W = RNG.uniform(0.5, 2.0, N)
SKETCH = SubSample(30)


def ridge(**options):
    return KernelRidge("gaussian", SKETCH, random_state=0, **options)


def predictor(regressor):
    return StructuredPredictor(regressor, KernelBasis("f1", PSparsified(6), random_state=1))


# name: (make the estimator, its targets, whether it takes weights)
ESTIMATORS = {
    "KernelBasis": (lambda: KernelBasis("gaussian", SKETCH, random_state=0), None, False),
    "KernelRidge": (ridge, Y_NUMBERS, True),
    "KernelRidge, alphas": (lambda: ridge(alpha=[1e-4, 1e-2]), Y_NUMBERS, True),
    "KernelRidge, cg": (lambda: ridge(solver="cg", tol=1e-10), Y_NUMBERS, True),
    "KernelRidge, exact": (lambda: KernelRidge(Gaussian(0.3), random_state=0), Y_NUMBERS, True),
    "KernelRidge, missing targets": (lambda: ridge(alpha=[1e-4, 1e-2]), Y_HOLES, True),
    "KernelRidge, exact, missing targets": (
        lambda: KernelRidge(Gaussian(0.3), random_state=0),
        Y_HOLES,
        True,
    ),
    "KernelMachine, missing targets": (
        lambda: KernelMachine("gaussian", SKETCH, alpha=1e-3, random_state=0),
        Y_HOLES,
        True,
    ),
    "JointQuantileRegressor, missing targets": (
        lambda: JointQuantileRegressor([0.2, 0.7], "gaussian", SKETCH, random_state=0),
        Y_HOLES[:, 0],
        True,
    ),
    "KernelMachine": (
        lambda: KernelMachine("gaussian", SKETCH, alpha=1e-3, random_state=0),
        Y_NUMBERS,
        True,
    ),
    "KernelMachine, alphas": (
        lambda: KernelMachine("gaussian", SKETCH, alpha=[1e-3, 1e-1], random_state=0),
        Y_NUMBERS,
        True,
    ),
    "JointQuantileRegressor": (
        lambda: JointQuantileRegressor([0.2, 0.7], "gaussian", SKETCH, random_state=0),
        Y_NUMBERS,
        True,
    ),
    "KernelClassifier": (
        lambda: KernelClassifier("gaussian", SKETCH, random_state=0),
        Y_LABELS,
        True,
    ),
    "InducedMachine": (
        lambda: InducedMachine("gaussian", SKETCH, random_state=0),
        Y_NUMBERS,
        True,
    ),
    "StructuredPredictor(KernelRidge)": (lambda: predictor(ridge()), Y_SETS, True),
    "StructuredPredictor(KernelRidge), alphas by the metric": (
        lambda: predictor(ridge(alpha=[1e-4, 1e-2, 1.0])),
        Y_SETS,
        True,
    ),
    "StructuredPredictor(KernelMachine)": (
        lambda: predictor(KernelMachine("gaussian", SKETCH, random_state=0)),
        Y_SETS,
        True,
    ),
    "StructuredPredictor(InducedMachine)": (
        lambda: predictor(InducedMachine("gaussian", SKETCH, random_state=0)),
        Y_SETS,
        True,
    ),
    "StructuredPredictor(InducedMachine), alphas by the metric": (
        lambda: predictor(InducedMachine("gaussian", SKETCH, alpha=[1e-3, 1e-1], random_state=0)),
        Y_SETS,
        True,
    ),
    "StructuredPredictor(scikit-learn)": (
        lambda: predictor(KNeighborsRegressor(3)),
        Y_SETS,
        False,
    ),
    "Ensemble": (
        lambda: Ensemble(sisokr("gaussian", "f1", random_state=0), 2, random_state=0),
        Y_SETS,
        True,
    ),
    "TwoWay": (
        lambda: TwoWay(sisokr(Gaussian(2.0), "f1", random_state=0), weight=0.5),
        Y_SETS,
        True,
    ),
    "ConformalSets": (lambda: predictor(ridge()), Y_SETS, False),
}


# Sources: what a user has -> what is given to fit -------------------------------------------------


def memmap(folder, name, array):
    if array.dtype.kind not in "biuf":
        return array
    np.save(folder / f"{name}.npy", array)
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def hdf5(folder, name, array):
    if array.dtype.kind not in "biuf":
        return array
    return h5py.File(folder / f"{name}.h5", "w").create_dataset("d", data=array, chunks=True)


def zarr_array(folder, name, array):
    if array.dtype.kind not in "biuf":
        return array
    stored = zarr.open(
        str(folder / f"{name}.zarr"),
        mode="w",
        shape=array.shape,
        dtype=array.dtype,
        chunks=(70, *array.shape[1:]),
    )
    stored[:] = array
    return stored


def each(store):
    def make(folder, X, y, weights):
        return tuple(
            None if column is None else store(folder, name, column)
            for name, column in (("X", X), ("y", y), ("w", weights))
        )

    return make


def blocks_of(once=False, known=True):
    def make(_folder, X, y, weights):
        columns = [column for column in (X, y, weights) if column is not None]
        if y is None:
            columns = [X, np.zeros(len(X))]
        cuts = [(a, min(a + 50, len(X))) for a in range(0, len(X), 50)]

        def blocks():
            return (tuple(column[a:b] for column in columns) for a, b in cuts)

        given = Blocks(blocks() if once else blocks, n=len(X) if known else None)
        return given, None, None

    return make


def parquet(folder, X, y, weights):
    targets = np.zeros(len(X)) if y is None else y
    inputs = {f"x{i}": column for i, column in enumerate(X.T)}
    outputs = {"y": targets} if targets.ndim == 1 else {f"y{i}": c for i, c in enumerate(targets.T)}
    weight = {} if weights is None else {"w": weights}
    place = folder / "table.parquet"
    pa.parquet.write_table(pa.table(inputs | outputs | weight), place, row_group_size=60)
    named = "y" if targets.ndim == 1 else list(outputs)
    return open_parquet(place, list(inputs), named, *weight), None, None


def chunked(_folder, X, y, weights):
    def cut(column):
        return da.from_array(column, chunks=(77, *column.shape[1:]))

    return tuple(None if column is None else cut(column) for column in (X, y, weights))


def delayed(_folder, X, y, weights):
    def cut(column):
        return [dask.delayed(column[a : a + 77]) for a in range(0, len(column), 77)]

    return tuple(None if column is None else cut(column) for column in (X, y, weights))


def on_card(_folder, X, y, weights):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return torch.as_tensor(X).cuda(), y, weights


SOURCES = {
    "memory": lambda folder, X, y, weights: (X, y, weights),
    "memmap": each(memmap),
    "HDF5": each(hdf5),
    "zarr": each(zarr_array),
    "parquet": parquet,
    "Blocks": blocks_of(),
    "Blocks of unknown length": blocks_of(known=False),
    "Blocks, read once": blocks_of(once=True, known=False),
    "dask array": chunked,
    "delayed blocks": delayed,
    "tensor on a GPU": on_card,
    'device="cuda"': lambda folder, X, y, weights: (X, y, weights),
}
# The cells that mathematics forbids: an exact model keeps every row in one place.
FORBIDDEN = {
    ("KernelRidge, exact", "dask array"): "give a sketch",
    ("KernelRidge, exact", "delayed blocks"): "give a sketch",
    ("KernelRidge, exact, missing targets", "dask array"): "give a sketch",
    ("KernelRidge, exact, missing targets", "delayed blocks"): "give a sketch",
}


@pytest.fixture
def card():
    """A card, or PyTorch on the CPU in its place: the engine is the same."""
    torch.cuda  # noqa: B018 - skips the test where there is no torch
    with ExitStack() as stack:
        if not torch.cuda.is_available():
            cpu = torch.device("cpu")
            stack.enter_context(mock.patch("skout.rows.device.torch_device", return_value=cpu))
            stack.enter_context(mock.patch("skout.decoding.search.torch_device", return_value=cpu))
        yield


def with_device(model):
    names = [name for name in model.get_params() if name.split("__")[-1] == "device"]
    return model.set_params(**dict.fromkeys(names, "cuda"))


def fitted(name, source, folder, *, weighted=False):
    make, y, _ = ESTIMATORS[name]
    model = make()
    if source == 'device="cuda"':
        model = with_device(model)
    data, targets, weights = SOURCES[source](folder, X, y, W if weighted else None)
    options = {} if weights is None else {"sample_weight": weights}
    return (model.fit(data) if targets is None else model.fit(data, targets, **options)), data


@functools.cache
def in_memory(name, weighted=False):
    """The model to compare with, fitted once for all sources."""
    return fitted(name, "memory", None, weighted=weighted)[0]


def answers(model, data):
    """What a fitted model says of rows, here, whatever they are."""
    if isinstance(model, KernelBasis):
        found = [model.transform(data)]
    elif isinstance(model, StructuredPredictor):
        found = [model.predict_coordinates(data)]
    elif isinstance(model, KernelClassifier):
        found = [model.predict(data), model.decision_function(data)]
    elif isinstance(model, Ensemble):
        found = [member.predict_coordinates(data) for member in model.members_]
    else:
        found = [model.predict(data)]
    found = [one.compute() if hasattr(one, "compute") else one for one in found]
    return [one.cpu().numpy() if hasattr(one, "cpu") else np.asarray(one) for one in found]


def compare(found, expected):
    for one, other in zip(found, expected, strict=True):
        if other.dtype.kind in "US":
            np.testing.assert_array_equal(one, other)
        else:
            assert_allclose(one, other, rtol=0.0, atol=1e-10 * np.abs(other).max())


CELLS = [(name, source) for name in ESTIMATORS for source in SOURCES]


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize(("name", "source"), CELLS)
def test_same_model_as_in_memory(name, source, tmp_path):
    if (name, source) in FORBIDDEN:
        with pytest.raises(ValueError, match=FORBIDDEN[name, source]):
            fitted(name, source, tmp_path)
        return
    expected = in_memory(name)
    model, data = fitted(name, source, tmp_path)
    compare(answers(model, X[:20]), answers(expected, X[:20]))
    if "by the metric" in name:
        found, known = model.cv_results_, expected.cv_results_
        assert found["scoring"] == known["scoring"] == "example_f1"
        assert_allclose(found["fold_score"], known["fold_score"], atol=1e-9)
    if not isinstance(data, Blocks):
        compare(answers(model, data), answers(expected, X))
    if name == "ConformalSets":
        one, other = (ConformalSets(m).calibrate(X[:100], Y_SETS[:100]) for m in (model, expected))
        assert_allclose(one.gaps_, other.gaps_, atol=1e-9)
        assert one.predict(X[100:110]).sizes.tolist() == other.predict(X[100:110]).sizes.tolist()


# Delayed blocks are a dask array by the time that weights come.
WEIGHTED = [
    (name, source)
    for name, source in CELLS
    if ESTIMATORS[name][2]
    and (name, source) not in FORBIDDEN
    and source not in ("memory", "delayed blocks")
]


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize(("name", "source"), WEIGHTED)
def test_weights_count_as_in_memory(name, source, tmp_path):
    expected = in_memory(name, weighted=True)
    model, _ = fitted(name, source, tmp_path, weighted=True)
    compare(answers(model, X[:20]), answers(expected, X[:20]))
    with pytest.raises(AssertionError):
        compare(answers(in_memory(name), X[:20]), answers(expected, X[:20]))


# In memory, and by turns from a file and from blocks, which go through the same sums.
BY_TURNS = [
    (name, source)
    for i, name in enumerate(ESTIMATORS)
    for source in ("memory", ("memmap", "Blocks")[i % 2])
]


@pytest.mark.parametrize(("name", "source"), BY_TURNS)
def test_threads_and_blocks_change_nothing(name, source, tmp_path):
    def fit(n_jobs, rows):
        make, y, _ = ESTIMATORS[name]
        model = make()
        names = [p for p in model.get_params() if p.split("__")[-1] == "n_jobs"]
        model.set_params(**dict.fromkeys(names, n_jobs))
        data, targets, _ = SOURCES[source](tmp_path, X, y, None)
        with memory_limits(block_rows=rows):
            return answers(model.fit(data) if targets is None else model.fit(data, targets), X[:20])

    expected = fit(1, 50)
    for one, other in zip(expected, fit(2, 50), strict=True):
        np.testing.assert_array_equal(one, other)  # to the bit
    compare(fit(2, 33), expected)


# What is read, encoded and computed ---------------------------------------------------------------


class Counting:
    """An array on disk that counts the rows that are read."""

    def __init__(self, array):
        self.array, self.read = array, 0
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, index):
        found = self.array[index]
        self.read += len(found)
        return found


@pytest.mark.parametrize(("gamma", "passes"), [(0.3, 1), ("scale", 2)])
@pytest.mark.parametrize("alpha", [1e-3, [1e-4, 1e-2]])
def test_rows_on_disk_are_read_once_a_pass(gamma, passes, alpha):
    """Once for the moments, once for the width; landmarks and a first row come on top."""
    data = Counting(X)
    KernelRidge(Gaussian(gamma), SKETCH, alpha=alpha, random_state=0).fit(data, Y_NUMBERS)
    assert passes * N <= data.read <= passes * N + 256 + 1  # stretches that have landmarks


class CountingKernel(Gaussian):
    """Counts the objects that it encodes."""

    counts: dict[str, int]

    def __init__(self, gamma="scale", side="x"):
        super().__init__(gamma)
        self.side = side

    def encode(self, objects):
        rows = super().encode(objects)
        CountingKernel.counts[self.side] = CountingKernel.counts.get(self.side, 0) + rows.shape[0]
        return rows


@pytest.mark.parametrize("regressor", [KernelRidge, KernelMachine, InducedMachine])
def test_inputs_and_outputs_are_encoded_once(regressor):
    CountingKernel.counts = {}
    inputs = regressor(CountingKernel(side="x"), SKETCH, random_state=0)
    basis = KernelBasis(CountingKernel(side="y"), SubSample(20), random_state=0)
    StructuredPredictor(inputs, basis).fit(X, Y_SETS)
    assert CountingKernel.counts == {"x": N, "y": N}


@pytest.mark.parametrize("gamma", [0.3, "scale"])
def test_dask_computes_each_block_twice_in_three_calls(gamma, monkeypatch):
    made = {"X": 0, "Y": 0}
    calls = []
    compute = dask.compute

    def counted(*args, **options):
        calls.append(len(args))
        return compute(*args, **options)

    def blocks(name, array):
        def block(a):
            made[name] += 1
            return array[a : a + 80]

        parts = [
            da.from_delayed(dask.delayed(block)(a), (80, *array.shape[1:]), array.dtype)
            for a in range(0, N, 80)
        ]
        return da.concatenate(parts)

    monkeypatch.setattr(dask, "compute", counted)
    model = sisokr(
        Gaussian(gamma),
        Gaussian(gamma),
        input_sketch=SKETCH,
        output_sketch=SubSample(20),
        alpha=1e-3,
        random_state=0,
    )
    rows, outputs = blocks("X", X), blocks("Y", Y_SETS)
    model.fit(rows, outputs)
    assert len(calls) <= 3
    assert made["X"] <= 6
    assert made["Y"] <= 6
    calls.clear()
    lazy = model.predict(rows)
    assert calls == []
    here = clone(model).fit(X, Y_SETS).predict(X)
    np.testing.assert_array_equal(lazy.compute(), here)


# The table of the docs ----------------------------------------------------------------------------


def table():
    """The cells as a Markdown table: yes, or what the error says."""
    head = "| | " + " | ".join(SOURCES) + " |"
    lines = [head, "|---|" + "---|" * len(SOURCES)]
    for name in ESTIMATORS:
        cells = ["needs a sketch" if (name, s) in FORBIDDEN else "yes" for s in SOURCES]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


BEGIN, END = "<!-- sources: begin -->", "<!-- sources: end -->"


def test_the_table_of_the_docs_is_this_one():
    text = (Path(__file__).parents[2] / "docs" / "sources.md").read_text(encoding="utf-8")
    assert table() in text[text.index(BEGIN) : text.index(END)]


if __name__ == "__main__":
    page = Path(__file__).parents[2] / "docs" / "sources.md"
    text = page.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    page.write_text(f"{before}\n\n{table()}\n\n{after}", encoding="utf-8")
    sys.exit(0)
