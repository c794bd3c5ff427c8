"""Kernel machines whose solver runs on a card; without one, as PyTorch on the CPU."""

from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skout import (
    InducedMachine,
    JointQuantileRegressor,
    KernelClassifier,
    KernelMachine,
    memory_limits,
)
from skout._numerics.arrays import flatnonzero, gram, is_spread, positions, tall_product
from skout._numerics.linalg import positive_solver
from skout.kernels import Gaussian
from skout.losses import Huber, RadialLoss
from skout.rows import Device, Memory
from skout.rows import device as device_module
from skout.sketches import SubSample
from skout.solvers import newton
from skout.solvers.design import DesignMatrix, coordinates_of

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

CARDS = ["cpu"] + ["cuda"] * torch.cuda.is_available()
N = 400
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
Y_ONE = np.sin(X[:, 0]) + 0.2 * RNG.standard_t(2, N)
Y_TWO = np.column_stack([Y_ONE, X[:, 1] * X[:, 2]])
LABELS = np.digitize(X[:, 1] + 0.3 * RNG.standard_normal(N), [-0.5, 0.5])
W = RNG.random(N) * (RNG.random(N) < 0.9)
RESIDUAL = np.abs(RNG.standard_normal(N))
TASKS = np.array([[1.0, 0.4], [0.4, 1.0]])


def refuse(*_args, **_options):
    raise TypeError("can't convert a tensor on a card to numpy.")


@pytest.fixture(params=CARDS)
def card(request):
    """A device by the name that users give; the CPU in its place refuses what a card refuses."""
    device = torch.device(request.param)
    with (
        mock.patch("skout.rows.device.torch_device", return_value=device),
        mock.patch.object(torch.Tensor, "__array__", refuse),
        mock.patch("skout.rows.device._BLOCK_ROWS", 256),
    ):
        yield device


def machine(loss="huber", kind=KernelMachine, **options):
    options = {"alpha": 1e-4, "random_state": 0} | options
    return kind(Gaussian(0.4), SubSample(25), loss=loss, **options)


def quantiles(levels, **options):
    parts = (Gaussian(0.4), SubSample(25))
    return JointQuantileRegressor(levels, *parts, alpha=1e-4, random_state=0, **options)


REGRESSION = [
    "squared",
    "huber",
    "epsilon_insensitive",
    "squared_epsilon_insensitive",
    "pinball",
]
CASES = {
    **{f"{loss}": (machine(loss), Y_ONE, None) for loss in REGRESSION},
    **{f"{loss}, outputs": (machine(loss, fit_intercept=True), Y_TWO, W) for loss in REGRESSION},
    **{f"{loss}, tasks": (machine(loss, task_matrix=TASKS), Y_TWO, W) for loss in REGRESSION},
    "alphas": (machine(alpha=[1e-5, 1e-3, 1e-1], cv=3), Y_ONE, W),
    "quantiles": (quantiles([0.1, 0.5, 0.9]), Y_ONE, W),
    "a quantile": (quantiles(0.7), Y_ONE, None),
    **{
        loss: (machine(loss, KernelClassifier), LABELS, None)
        for loss in ("hinge", "squared_hinge", "logistic")
    },
    "two classes": (machine("logistic", KernelClassifier, class_weight="balanced"), LABELS > 0, W),
    "labels, alphas": (machine("hinge", KernelClassifier, alpha=[1e-4, 1e-2]), LABELS > 0, None),
    "induced": (machine(Huber(0.5), InducedMachine), Y_TWO, W),
}


def answers(model, rows):
    found = model.decision_function(rows) if hasattr(model, "classes_") else model.predict(rows)
    return found.cpu().numpy() if hasattr(found, "cpu") else found


def check_same(ours, host, rows=X):
    """The same model, with the same certificate."""
    assert ours.n_iter_ == host.n_iter_
    assert_allclose(ours.objective_, host.objective_, rtol=1e-9)
    assert_allclose(ours.duality_gap_, host.duality_gap_, atol=1e-9)
    assert_allclose(answers(ours, rows), answers(host, X), rtol=1e-6, atol=1e-7)
    for name in ("coef_", "intercept_"):
        assert isinstance(getattr(ours, name), np.ndarray)


STREAMED = ["huber, tasks", "pinball, outputs", "alphas", "quantiles", "hinge", "induced"]


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize(
    ("name", "held"),
    [(name, True) for name in CASES] + [(name, False) for name in STREAMED],
)
def test_the_model_and_its_certificate_are_those_of_the_host(name, held):
    model, y, weights = CASES[name]
    host = clone(model).fit(X, y, weights)
    with memory_limits(coordinates_mb=None if held else 0.0):
        ours = clone(model).set_params(device="cuda").fit(X, y, weights)
    assert ours.duality_gap_ <= ours.tol
    assert ours.alpha_ == host.alpha_
    check_same(ours, host)


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon_insensitive"])
def test_residuals_of_outputs(loss):
    model = machine(loss, InducedMachine)
    host = clone(model).fit(X, Y_TWO, W, residual=RESIDUAL)
    ours = clone(model).set_params(device="cuda").fit(X, Y_TWO, W, residual=RESIDUAL)
    check_same(ours, host)


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("name", ["huber, tasks", "pinball, tasks", "quantiles", "huber, outputs"])
def test_conjugate_gradients_there(name, monkeypatch):
    monkeypatch.setattr(newton, "_DENSE", 0)
    model, y, weights = CASES[name]
    host = clone(model).fit(X, y, weights)
    ours = clone(model).set_params(device="cuda").fit(X, y, weights)
    assert_allclose(ours.objective_, host.objective_, rtol=1e-5)
    assert ours.duality_gap_ <= ours.tol


@pytest.mark.usefixtures("card")
def test_an_exact_model_and_a_sample_to_start_from():
    few = X[:60]
    for model, rows, y in (
        (KernelMachine(Gaussian(0.4), alpha=1e-3), few, Y_ONE[:60]),
        (KernelMachine(Gaussian(0.4), SubSample(5), alpha=1e-3, random_state=0), X, Y_ONE),
    ):
        host = clone(model).fit(rows, y)
        ours = clone(model).set_params(device="cuda").fit(rows, y)
        assert_allclose(ours.objective_, host.objective_, rtol=1e-9)
        assert_allclose(ours.predict(rows), host.predict(rows), rtol=1e-6, atol=1e-8)


@pytest.mark.usefixtures("card")
def test_single_precision():
    rows = X.astype(np.float32)
    host = machine().fit(X, Y_ONE)
    ours = machine(device="cuda").fit(rows, Y_ONE)
    assert ours.predict(rows).dtype == np.float32
    assert ours.duality_gap_ <= ours.tol
    assert_allclose(ours.predict(rows), host.predict(X), atol=1e-3)


def test_tensors_in_tensors_out():
    if not torch.cuda.is_available():
        pytest.skip("needs a card")
    rows = torch.as_tensor(X).cuda()
    for name in ("huber", "pinball, tasks", "quantiles", "logistic", "two classes", "induced"):
        model, y, weights = CASES[name]
        host = clone(model).fit(X, y, weights)
        target = torch.as_tensor(y).cuda()
        ours = clone(model).fit(rows, target, weights)
        assert answers(ours, X).shape == answers(host, X).shape
        check_same(ours, host, rows)
        if not hasattr(ours, "classes_"):
            assert ours.predict(rows).is_cuda


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("held", [True, False], ids=["held", "streamed"])
def test_coordinates_never_come_to_the_host(held):
    sizes = []
    numpy_of = device_module.numpy_of

    def counted(array):
        sizes.append(array.numel() if isinstance(array, torch.Tensor) else 0)
        return numpy_of(array)

    places = ("skout.rows.device", "skout.regressors.base", "skout.solvers.newton")
    patches = [mock.patch(f"{place}.numpy_of", counted) for place in places]
    with patches[0], patches[1], patches[2], memory_limits(coordinates_mb=None if held else 0.0):
        model = machine(device="cuda").fit(X, Y_ONE)
    assert model.basis_.rank_ == 25
    assert 0 < max(sizes) <= N  # predictions, never N x 25 coordinates


class OnArrays(RadialLoss):
    """Half the squared norm, by functions of NumPy only."""

    smooth = True
    lipschitz = float("inf")

    def _h(self, r):
        return 0.5 * np.square(r)

    def _slope(self, r):
        return np.asarray(r)

    def _bend(self, r):
        return np.ones_like(r)

    def _h_conjugate(self, s):
        return 0.5 * np.square(s)


class BendOnArrays(OnArrays):
    """The same but for what is tried last."""

    def _h(self, r):
        return 0.5 * r * r

    def _slope(self, r):
        return 1.0 * r

    def _h_conjugate(self, s):
        return 0.5 * s * s


class OtherThere(BendOnArrays):
    """And one that gives something else on tensors."""

    def _h(self, r):
        return 0.5 * r * r + (0.0 if isinstance(r, np.ndarray) else 1.0)

    def _bend(self, r):
        return 0.0 * r + 1.0


@pytest.mark.parametrize("loss", [OnArrays(), BendOnArrays(), OtherThere()], ids=repr)
@pytest.mark.usefixtures("card")
def test_a_loss_that_does_not_run_there_is_refused(loss):
    machine(loss).fit(X, Y_ONE)
    with pytest.raises(ValueError, match=r"(OnArrays|OtherThere)\(\) does not run on c"):
        machine(loss, device="cuda").fit(X, Y_ONE)


# Memory -------------------------------------------------------------------------------------------


def room(megabytes):
    return mock.patch("skout.rows.device._free_bytes", return_value=int(megabytes * 2**20))


@pytest.mark.usefixtures("card")
def test_a_small_card_is_known_before_the_work():
    size = 24 * N * 2 * 8 / 2**20
    said = r"400 rows and 2 outputs would take 0.00 GiB .* 0.00 GiB are free. Compute on the host"
    with room(size * 0.99), pytest.raises(MemoryError, match=said):
        machine(device="cuda").fit(X, Y_TWO)
    with room(size * 1.01):  # coordinates are made again in each pass
        machine(device="cuda").fit(X, Y_TWO)


def test_coordinates_that_do_not_fit_the_card_are_made_again(card):
    design = machine()
    design.basis_ = machine().fit(X, Y_ONE).basis_
    rows = Device(Memory(X), card)
    size = N * 25 * 8 / 2**20
    for block, needed in ((0.05, size + 0.15), (2048.0, 4.0 * size)):  # blocks are no larger
        with memory_limits(device_mb=block):
            with room(needed / 0.8 * 1.02):
                assert coordinates_of(design.basis_.engine_, rows, dtype=None).is_held
            with room(needed / 0.8 * 0.98):
                streamed = coordinates_of(design.basis_.engine_, rows, dtype=None)
        assert not streamed.is_held
    with memory_limits(coordinates_mb=size * 0.99):
        assert not coordinates_of(design.basis_.engine_, rows, dtype=None).is_held
    Z = design.basis_.transform(X)
    B = rows.device_array(np.eye(25)[:, :2].copy())
    assert_allclose(streamed.product(B).cpu().numpy(), Z[:, :2], atol=1e-9)
    assert_allclose(streamed.Z.load(), Z, atol=1e-9)
    assert_allclose(streamed.Z.then(np.sum, None).base.function(Z), Z.sum())
    with memory_limits(coordinates_mb=0.0):
        some = streamed.take(positions(np.array([3, 8]), B))
    assert not some.is_held
    assert_allclose(some.Z.load(), Z[[3, 8]], atol=1e-9)


def test_coordinates_of_rows_in_order_go_to_a_file(card):
    class InOrder(Memory):
        in_order = True

    rows = Device(InOrder(X), card)
    design = machine()
    design.basis_ = machine().fit(X, Y_ONE).basis_
    with memory_limits(coordinates_mb=0.0):
        Z = coordinates_of(design.basis_.engine_, rows, dtype=None)
    assert Z.is_held
    assert isinstance(Z.Z.base.rows, np.memmap)
    assert_allclose(Z.Z.load(), design.basis_.transform(X), atol=1e-9)


# Products -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("n", [0, 1, 127, 128, 1000, 9001])
@pytest.mark.parametrize("p", [1, 3, 300])
def test_tall_products_and_grams(name, n, p):
    rng = np.random.default_rng(1)
    A, B, signs = rng.standard_normal((n, p)), rng.standard_normal((n, 4)), np.sign(rng.random(n))
    there, other, s = (torch.as_tensor(M).to(name) for M in (A, B, signs))
    assert_allclose(tall_product(there, other).cpu().numpy(), A.T @ B, atol=1e-9)
    assert_allclose(tall_product(A, B), A.T @ B, atol=1e-12)
    assert_allclose(gram(there).cpu().numpy(), A.T @ A, atol=1e-9)
    assert_allclose(gram(there, s).cpu().numpy(), A.T @ (signs[:, None] * A), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=str)
@pytest.mark.parametrize("p", [5, 40])
def test_products_of_a_tensor(card, dtype, p):
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((900, p)).astype(dtype)
    there = DesignMatrix(Device(torch.as_tensor(Z).to(card)))
    tol = 1e-9 if dtype == np.float64 else 2e-3
    for d in (1, 3):
        B, G = rng.standard_normal((p, d)), rng.standard_normal((900, d))
        for found, expected in (
            (there.product(torch.as_tensor(B).to(card)), Z @ B),
            (there.adjoint(torch.as_tensor(G).to(card)), Z.T @ G),
        ):
            assert found.dtype == torch.float64
            assert_allclose(found.cpu().numpy(), expected, atol=tol)
    some = rng.random(900) < 0.4
    for w in (rng.random(900), rng.standard_normal(900), some * rng.random(900), np.zeros(900)):
        wide = np.column_stack([Z, np.ones(900)])
        found = there.gram(torch.as_tensor(w).to(card))
        assert found.dtype == torch.float64
        assert found.is_contiguous()
        assert_allclose(found.cpu().numpy(), wide.T @ (w[:, None] * wide), atol=10 * tol)


@pytest.mark.parametrize("name", CARDS)
def test_solvers_of_tensors(name):
    rng = np.random.default_rng(3)
    L, b = rng.standard_normal((20, 20)), rng.standard_normal((20, 2))
    for A in (L @ L.T, np.diag([1.0] * 19 + [-1e-14])):  # the second needs a shift
        solve, there = positive_solver(A), positive_solver(torch.as_tensor(A).to(name))
        right = b if A[0, 1] else np.vstack([b[:19], [[0.0, 0.0]]])
        assert_allclose(there(torch.as_tensor(right).to(name)).cpu().numpy(), solve(right))
    with pytest.raises(ValueError, match="not positive definite"):
        positive_solver(-torch.eye(3, dtype=torch.float64, device=name))


@pytest.mark.parametrize("name", CARDS)
def test_positions(name):
    there = torch.as_tensor([0.0, 2.0, 0.0, 1.0], dtype=torch.float64).to(name)
    found = flatnonzero(there)
    assert found.device.type == name
    assert_array_equal(positions(found, X), [1, 3])
    assert positions([1, 3], there).device.type == name
    assert_array_equal(flatnonzero(np.array([0.0, 2.0])), [1])
    for array in (X, torch.as_tensor(X).to(name)):
        assert not is_spread(array)
    assert is_spread(np.broadcast_to(X[:, :1], X.shape))
    assert is_spread(torch.broadcast_to(there[:, None], (4, 2)))
