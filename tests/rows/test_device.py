"""Passes on a device. Without a card they run as PyTorch on the CPU, which is the same code."""

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

import skout
from skout import KernelBasis, KernelRidge, sisokr
from skout._numerics.arrays import n_rows
from skout._numerics.linalg import (
    congruence,
    large_matrices_on,
    positive_solve,
    ridge_solve,
    triangular_inverse,
)
from skout._numerics.objects import to_device
from skout.basis.features import LandmarkFeatures
from skout.decoding.search import device_top_k, top_k
from skout.kernels import (
    F1,
    KERNELS,
    Cosine,
    Gaussian,
    GaussianTanimoto,
    Kernel,
    Laplacian,
    LearnedMetric,
    Linear,
    Mahalanobis,
    Mapped,
    Matern,
    NGram,
    Normalized,
    PairwiseFunction,
    Polynomial,
    Tanimoto,
    namespace,
)
from skout.rows import Device, Memory, Reduction, RowMap, on_device
from skout.sketches import GaussianSketch, PSparsified, SubSample

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

CARDS = ["cpu"] + ["cuda"] * torch.cuda.is_available()
VECTORS = [
    Linear(),
    Polynomial(degree=3, gamma=0.3, coef0=0.5),
    Gaussian(gamma=0.4),
    Laplacian(gamma=0.4),
    Matern(gamma=0.5, nu=0.5),
    Matern(gamma=0.5, nu=1.5),
    Matern(gamma=0.5, nu=2.5),
    Cosine(),
    Normalized(Linear()),
    2.0 * Gaussian(gamma=0.4) + Linear(),
    Gaussian(gamma=0.4) * Cosine(),
    Normalized(Polynomial(degree=2, gamma=0.3, coef0=0.0)),
    Mapped(np.tanh, Gaussian(gamma=0.4)),
    Mahalanobis(Matern(gamma=0.5), np.arange(5.0)),
    Mahalanobis(Matern(gamma=0.5), np.arange(10.0).reshape(2, 5) / 9.0),
]
KINDS = ("bits", "packed", "wide", "counts", "amounts")
SETS = [Tanimoto(), F1(), GaussianTanimoto(0.7), Cosine(), Tanimoto() + 0.1 * Linear()]


@pytest.fixture(params=CARDS)
def card(request):
    """A device by the name that users give, which may be the CPU in disguise."""
    device = torch.device(request.param)
    with (
        mock.patch("skout.rows.device.torch_device", return_value=device),
        mock.patch("skout.decoding.search.torch_device", return_value=device),
    ):
        yield device


def rows_of(kind, n, rng):
    if kind == "vectors":
        A = rng.standard_normal((n, 5))
        A[n // 2] = 0.0
        return A
    width = {"packed": 300, "wide": 2500}.get(kind, 7)  # long rows of bits are packed
    A = (rng.random((n, width)) < 0.3).astype(np.float64)
    if kind == "counts":
        A *= rng.integers(1, 5, A.shape)
    if kind == "amounts":
        A *= rng.exponential(size=A.shape)
    A[n // 2] = 0.0
    return A


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize(
    ("kernel", "kind"),
    [(k, "vectors") for k in VECTORS] + [(k, kind) for k in SETS for kind in KINDS],
    ids=repr,
)
@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-12), (np.float32, 1e-4)], ids=str)
def test_blocks_and_diagonals_equal_those_of_numpy(kernel, kind, name, dtype, tol):
    rng = np.random.default_rng(0)
    A, B = (kernel.encode(rows_of(kind, n, rng).astype(dtype)) for n in (20, 30))
    there = [to_device(rows, name) for rows in (A, B)]
    block = kernel.against(there[1])
    found = block(there[0])
    assert found.dtype == getattr(torch, np.dtype(dtype).name)
    expected = kernel.against(B)(A)
    assert_allclose(found.cpu().numpy(), expected, rtol=tol, atol=tol)
    out = torch.full_like(found, torch.nan)
    assert block(there[0], out) is out
    assert_allclose(out.cpu().numpy(), expected, rtol=tol, atol=tol)
    assert_allclose(kernel.diag(there[0]).cpu().numpy(), kernel.diag(A), rtol=tol)


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("kinds", [("packed", "counts"), ("counts", "packed")])
def test_bits_meet_counts(kinds, name):
    rng = np.random.default_rng(0)
    A, B = (rows_of("packed", n, rng) for n in (20, 30))
    (A if kinds[0] == "counts" else B)[0, 0] = 3.0
    A, B = Tanimoto().encode(A), Tanimoto().encode(B)
    found = Tanimoto().against(to_device(B, name))(to_device(A, name))
    assert_allclose(found.cpu().numpy(), Tanimoto().against(B)(A), rtol=1e-12)


def test_counts_are_exact_in_float16():
    """As on a card, whose float16 sums are exact up to 2048."""
    rng = np.random.default_rng(0)
    A, B = (Tanimoto().encode(rng.random((9, 5000)) < 0.9) for _ in range(2))
    with mock.patch("skout._numerics.arrays.is_gpu_tensor", return_value=True):
        block = Tanimoto().against(to_device(B, "cpu"))
        found = block(to_device(A, "cpu"))
    assert_allclose(found.numpy(), Tanimoto().against(B)(A), rtol=1e-15)


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("kernel", [Gaussian, Laplacian, Matern])
@pytest.mark.parametrize("gamma", [0.3, 1e20, 1e300])
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=str)
def test_far_rows_and_huge_widths_are_as_on_the_cpu(kernel, gamma, dtype, name):
    rng = np.random.default_rng(0)
    A = rng.integers(-3, 4, (20, 3)) + 2.0**20  # far from zero, and exact in float32
    A[7] = 2.0**26
    kernel, B, host = kernel(gamma), A[::2], A.astype(dtype)
    features = LandmarkFeatures(kernel, B).on(torch.device(name), dtype)
    found = features(torch.as_tensor(A).to(name)).cpu().numpy()
    assert_allclose(found, kernel.against(B)(host), rtol=1e-3, atol=1e-12)
    assert_allclose(found[np.arange(0, 20, 2), np.arange(10)], 1.0, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["matern", "gaussian", "laplacian"])
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.usefixtures("card")
def test_a_metric_learnt_on_a_card_is_that_of_the_cpu(kernel, diagonal):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5))
    y, weights = np.sin(2.0 * X[:, 0]) + X[:, 1], rng.uniform(0.5, 1.0, 400)
    here, there = (
        KernelRidge(
            LearnedMetric(kernel, diagonal=diagonal, landmarks=60, rounds=2, width=2.0),
            SubSample(60),
            alpha=[1e-5, 1e-3],
            random_state=0,
            device=device,
        ).fit(X, y, weights)
        for device in (None, "cuda")
    )
    assert np.ndim(here.kernel_.scale) == (1 if diagonal else 2)
    assert_allclose(there.kernel_.scale, here.kernel_.scale, rtol=1e-5, atol=1e-7)
    assert_allclose(there.predict(X), here.predict(X), atol=1e-5)


def test_every_kernel_that_runs_on_a_device_is_tested():
    announced = {kind for kind in KERNELS.values() if kind.runs_on_device is True}
    assert announced == {type(k) for k in VECTORS + SETS} & set(KERNELS.values())
    assert all(kernel.runs_on_device for kernel in VECTORS + SETS)


def test_other_kernels_are_refused(card):
    for kernel in (NGram(), NGram() + NGram(2)):
        features = LandmarkFeatures(kernel, kernel.encode(["abc", "bcd", "cab"]))
        with pytest.raises(
            ValueError, match=r"NGram.* does not run on .* do: Cosine, F1"
        ) as caught:
            features.on(card, np.float64)
        assert "Leave out device=" in str(caught.value)
        assert not kernel.runs_on_device


class Ratio(Kernel):
    """A user's kernel of plain operators, which says nothing of devices and ignores `out`."""

    def encode(self, objects):
        return np.asarray(objects, dtype=np.float64)

    def against(self, B):
        return lambda A, out=None: 1.0 / (1.0 + ((A[:, None] - B) ** 2).sum(2))

    def diag(self, A):
        return namespace(A).ones_like(A[:, 0])


class HostRatio(Ratio):
    """Another one, which NumPy alone understands."""

    def against(self, B):
        return lambda A, out=None: A.astype(np.float64) @ B.T


class Other(Ratio):
    """And one that gives something else on tensors."""

    def against(self, B):
        block = super().against(B)
        return lambda A, out=None: block(A) + float(hasattr(A, "device") and hasattr(A, "clamp"))


OWN = [Ratio(), 2.0 * Ratio() + Gaussian(0.3), PairwiseFunction(lambda A, B: A @ B.T)]


@pytest.mark.parametrize("kernel", OWN, ids=["class", "combined", "function"])
@pytest.mark.parametrize("sketch", [SubSample(20), PSparsified(20, p=0.1)], ids=repr)
@pytest.mark.usefixtures("card")
def test_own_kernels_run_on_the_device(problem, kernel, sketch):
    X, Y, _ = problem
    host = KernelRidge(kernel, sketch, alpha=1e-3, random_state=0).fit(X, Y)
    ours = KernelRidge(kernel, sketch, alpha=1e-3, random_state=0, device="cuda").fit(X, Y)
    assert_allclose(ours.predict(X), host.predict(X), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kernel", [HostRatio(), Other()], ids=repr)
def test_own_kernels_that_do_not_run_there_are_refused(card, kernel):
    X = np.random.default_rng(0).standard_normal((5, 1))
    with pytest.raises(
        ValueError, match=rf"Ratio\(\) does not run|Other\(\) does not run on {card}"
    ):
        LandmarkFeatures(kernel, X).on(card, np.float64)


@pytest.mark.parametrize("weights", [None, "dense", "sparse"])
@pytest.mark.parametrize("chunk", [7, 4096])
def test_features_equal_those_of_the_cpu(card, weights, chunk):
    rng = np.random.default_rng(0)
    X, landmarks = rng.standard_normal((30, 3)), rng.standard_normal((20, 3))
    W = None if weights is None else sparse.random_array((6, 20), density=0.4, rng=rng).tocsr()
    W = W.toarray() if weights == "dense" else W
    with mock.patch("skout.basis.features._LANDMARK_CHUNK", chunk):
        host = LandmarkFeatures(Gaussian(0.4), landmarks, W)
        ours = host.on(card, np.float64)
    found = ours(X)  # arrays are moved
    assert found.device.type == card.type
    assert_allclose(found.cpu().numpy(), host(X), rtol=1e-12)
    assert_allclose(ours(to_device(X, card)).cpu().numpy(), host(X), rtol=1e-12)
    assert n_rows(ours(X[:0])) == 0


def test_there_is_one_formula():
    """No module of kernels or losses imports PyTorch, or is of devices."""
    folder = Path(skout.__file__).parent
    for path in [*(folder / "kernels").glob("*.py"), *(folder / "losses").glob("*.py")]:
        assert path.name != "device.py"
        assert "import torch" not in path.read_text(encoding="utf-8"), path.name
    assert not (folder / "device.py").exists()


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((900, 4))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2], rng.standard_normal(900)]) + 3.0
    return X, Y, rng.random(900)


@pytest.mark.parametrize(
    "sketch",
    [SubSample(40), PSparsified(40, p=0.05), GaussianSketch(30), SubSample(400)],
    ids=repr,
)
@pytest.mark.parametrize("alpha", [1e-3, (1e-4, 1e-2)], ids=repr)
@pytest.mark.usefixtures("card")
def test_ridge_equals_that_of_the_cpu(problem, sketch, alpha):
    X, Y, w = problem
    options = {"alpha": alpha, "random_state": 0, "fit_intercept": True}
    host = KernelRidge("gaussian", sketch, **options).fit(X, Y, w)
    with mock.patch("skout.rows.device._BLOCK_ROWS", 128):  # several blocks
        ours = KernelRidge("gaussian", sketch, device="cuda", **options).fit(X, Y, w)
    assert ours.alpha_ == host.alpha_
    assert_allclose(ours.predict(X), host.predict(X), rtol=1e-8, atol=1e-8)
    assert isinstance(ours.predict(X), np.ndarray)


@pytest.mark.parametrize("alpha", [1e-9, 1e-5, 1e-1])
@pytest.mark.parametrize("spread", [1.0, 30.0])
@pytest.mark.usefixtures("card")
def test_accurate_for_every_plan(alpha, spread):
    # smooth data whiten little, rough data much: see accuracy_plan
    X = np.random.default_rng(2).uniform(-1, 1, (1500, 2)) * spread
    y = np.sin(3.0 * X[:, 0] / spread)
    options = {"alpha": alpha, "random_state": 0}
    host = KernelRidge(Gaussian(gamma=0.3), SubSample(350), **options).fit(X, y)
    ours = KernelRidge(Gaussian(gamma=0.3), SubSample(350), device="cuda", **options).fit(X, y)
    assert_allclose(ours.predict(X), host.predict(X), atol=1e-7)


def test_large_matrices_on_the_device(card):
    rng = np.random.default_rng(6)
    L = np.tril(rng.standard_normal((60, 60))) + 8.0 * np.eye(60)
    A, B = L @ L.T, rng.standard_normal((60, 2))
    host = [
        triangular_inverse(L), congruence(L, A), ridge_solve(A, B, 0.5), positive_solve(A.copy(), B)
    ]  # fmt: skip
    with mock.patch("skout._numerics.linalg._LARGE", 1), large_matrices_on(card):
        ours = [
            triangular_inverse(L), congruence(L, A), ridge_solve(A, B, 0.5), positive_solve(A, B)
        ]  # fmt: skip
        with pytest.raises(np.linalg.LinAlgError):
            positive_solve(-A, B)
        with pytest.warns(UserWarning, match="alpha is below the rounding error"):
            ridge_solve(np.diag([1.0] * 59 + [-2e-5]), B, 1e-6)
    for a, b in zip(ours, host, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("card")
def test_float32_rows_give_float32(problem):
    X, Y, _ = problem
    X = X.astype(np.float32)
    host = KernelRidge("gaussian", SubSample(40), random_state=0).fit(X, Y)
    ours = KernelRidge("gaussian", SubSample(40), device="cuda", random_state=0).fit(X, Y)
    assert ours.predict(X).dtype == np.float32
    assert_allclose(ours.predict(X), host.predict(X), atol=1e-4)


@pytest.mark.usefixtures("card")
def test_sparse_and_packed_rows_are_streamed():
    rng = np.random.default_rng(3)
    X = sparse.csr_array(rng.uniform(-4, 1, (300, 40)).clip(0))
    y = rng.standard_normal(300)
    for kernel, rows in ((Gaussian(0.5), X), (Tanimoto(), rng.random((300, 400)) < 0.1)):
        host = KernelRidge(kernel, SubSample(30), random_state=0).fit(rows, y)
        ours = KernelRidge(kernel, SubSample(30), random_state=0, device="cuda").fit(rows, y)
        assert_allclose(ours.predict(rows), host.predict(rows), rtol=1e-8, atol=1e-10)


@pytest.mark.usefixtures("card")
def test_basis_transforms_on_the_device(problem):
    X, *_ = problem
    for options in ({}, {"whiten": "eigh", "rank": 10}):
        host = KernelBasis("gaussian", PSparsified(30, p=0.1), random_state=0, **options).fit(X)
        ours = KernelBasis(
            "gaussian", PSparsified(30, p=0.1), random_state=0, device="cuda", **options
        ).fit(X)
        assert_allclose(ours.transform(X), host.transform(X), rtol=1e-8, atol=1e-8)


@pytest.mark.usefixtures("card")
def test_structured_prediction():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((400, 3))
    Y = (X @ rng.standard_normal((3, 12)) > 0.5).astype(int)
    settings = {
        "input_sketch": SubSample(60),
        "output_sketch": SubSample(30),
        "alpha": 1e-4,
        "random_state": 0,
    }
    host = sisokr("gaussian", "tanimoto", **settings).fit(X, Y)
    ours = sisokr("gaussian", "tanimoto", device="cuda", **settings).fit(X, Y)
    assert_array_equal(ours.predict(X), host.predict(X))
    for a, b in zip(ours.rank(X, k=5), host.rank(X, k=5), strict=True):
        assert_allclose(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("k", [1, 3, 40])
def test_top_k_has_the_ties_of_the_cpu(name, k):
    rng = np.random.default_rng(5)
    Q = rng.integers(-2, 3, (30, 2)).astype(float)
    E = rng.integers(-2, 3, (500, 2)).astype(float)  # many equal scores
    search = "skout.decoding.search"
    with mock.patch(f"{search}._DEVICE_CANDIDATES", 64), mock.patch(f"{search}._DEVICE_QUERIES", 7):
        index, scores = device_top_k(Q, E, k, torch.device(name))
    expected = top_k(Q, E, k)
    assert_array_equal(scores, expected[1])
    assert_array_equal(index, expected[0])


def test_tensors_stay_where_they_are(problem):
    if not torch.cuda.is_available():
        pytest.skip("needs a card")
    X, Y, _ = problem
    host = KernelRidge("gaussian", SubSample(40), random_state=0).fit(X, Y)
    tensor = torch.as_tensor(X).cuda()
    ours = KernelRidge("gaussian", SubSample(40), random_state=0)
    ours.fit(tensor, torch.as_tensor(Y).cuda())
    found = ours.predict(tensor)
    assert found.is_cuda
    assert_allclose(found.cpu().numpy(), host.predict(X), rtol=1e-8, atol=1e-10)
    Z = KernelBasis("gaussian", SubSample(40), random_state=0).fit(tensor).transform(tensor)
    assert Z.is_cuda
    tensor[3, 1] = torch.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        ours.fit(tensor, Y)


class Twice(RowMap):
    """Runs on arrays and on tensors."""

    def __call__(self, rows, out=None):
        return 2.0 * rows

    def on(self, place):
        return self


class HostTwice(Twice):
    """Runs on arrays only."""

    def __call__(self, rows, out=None):
        assert isinstance(rows, np.ndarray)
        return 2.0 * rows

    def on(self, place):
        return None


class Total(Reduction):
    """The weighted sum of the rows, on arrays and on tensors."""

    def __call__(self, rows, weights):
        return (rows * weights[:, None]).sum(0)

    def finish(self, total):
        return np.asarray(total.cpu())

    def on(self, place):
        return self


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("kind", ["tensor", "streamed"])
def test_rows_of_a_tensor(name, kind):
    values = np.arange(12.0, dtype=np.float32).reshape(6, 2)
    device = torch.device(name)
    tensor = torch.as_tensor(values).to(device)
    rows = Device(tensor) if kind == "tensor" else Device(Memory(values), device)
    assert rows.shape == (6, 2)
    assert len(rows) == 6
    assert rows.dtype == rows.precision == np.float32
    assert rows.device.type == device.type
    assert isinstance(rows[np.array([4, 1])], np.ndarray)
    assert_array_equal(rows[np.array([4, 1])], [[8.0, 9.0], [2.0, 3.0]])
    assert_array_equal(rows.load(), values)
    assert_array_equal(rows.subset(np.array([0, 5])).load(), values[[0, 5]])
    with mock.patch("skout.rows.device._BLOCK_ROWS", 4):
        for function in (Twice(), HostTwice()):
            found = rows.collect(function, (2,), np.float64)
            assert isinstance(found, np.ndarray)
            assert found.dtype == np.float64
            assert_array_equal(found, 2.0 * values)
        assert_array_equal(rows.reduce(Total(), np.arange(6.0)), np.arange(6.0) @ values)
    if kind == "tensor":
        assert rows.map(Twice(), (2,), np.float32).device == tensor.device


def test_rows_stay_on_the_host_unless_a_card_is_asked_for():
    host = Memory(np.ones((2, 2)))
    assert on_device(host, None) is host
    assert on_device(host, "cpu") is host
    with mock.patch("torch.cuda.is_available", return_value=False):
        assert on_device(host, "auto") is host
    card = mock.patch("skout.rows.device.torch_device", return_value=torch.device("cpu"))
    with mock.patch("torch.cuda.is_available", return_value=True), card as resolved:
        assert isinstance(on_device(host, "auto"), Device)
    resolved.assert_called_once_with("cuda:0")


def test_errors_name_the_device(problem):
    X, Y, _ = problem
    for name, text in (("gpu", "device must be None"), ("mps", "device must be None")):
        with pytest.raises(ValueError, match=text):
            KernelRidge("gaussian", SubSample(5), device=name).fit(X, Y)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="PyTorch finds no such GPU"):
            KernelRidge("gaussian", SubSample(5), device="cuda").fit(X, Y)


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_exact_models_on_a_card_are_those_of_the_host(problem, fit_intercept):
    X, Y, w = problem
    model = KernelRidge("gaussian", alpha=[1e-3, 1e-2], fit_intercept=fit_intercept, cv=3)
    here = clone(model).set_params(random_state=0).fit(X, Y, sample_weight=w)
    there = clone(model).set_params(random_state=0, device="cuda").fit(X, Y, sample_weight=w)
    assert there.solver_report_["solver"] == "direct"
    assert_allclose(there.cv_results_["mean_loss"], here.cv_results_["mean_loss"], rtol=1e-8)
    assert_allclose(there.predict(X), here.predict(X), rtol=1e-7, atol=1e-9)


class Broken(Memory):
    """Rows that can be read no more."""

    def take(self, index):
        raise OSError("the disk is gone")


def test_a_failing_reader_is_heard(card):
    rows = Device(Broken(np.ones((10, 2))), card)
    with pytest.raises(OSError, match="the disk is gone"):
        rows.map(Twice(), (2,), np.float64)
    with pytest.raises(OSError, match="the disk is gone"):
        rows.reduce(Total(), np.ones(10))
