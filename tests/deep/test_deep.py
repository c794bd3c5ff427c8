"""Networks: losses against the formulas, training against ridge, resuming, inputs of all kinds."""

import functools
import importlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from extras import small_files
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from skout import Ensemble, KernelBasis, KernelRidge, StructuredPredictor, dsokr  # noqa: E402
from skout.deep import MLP, KernelLoss, NeuralRegressor, Training  # noqa: E402
from skout.deep.batches import as_source  # noqa: E402
from skout.deep.regressor import _device  # noqa: E402
from skout.deep.training import Trainer  # noqa: E402
from skout.kernels import namespace  # noqa: E402
from skout.losses import (  # noqa: E402
    EpsilonInsensitive,
    Hinge,
    Huber,
    RadialLoss,
    Squared,
    SquaredEpsilonInsensitive,
)
from skout.rows import Device  # noqa: E402
from skout.sketches import SubSample  # noqa: E402
from skout.testing import check_loss  # noqa: E402

LOSSES = [Squared(), Huber(0.7), EpsilonInsensitive(0.6), SquaredEpsilonInsensitive(0.6)]
CPU = torch.device("cpu")
Small = functools.partial(MLP, hidden=(32,))


@pytest.fixture(autouse=True)
def one_thread():
    """Networks this small are slower in several threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def problem(n=200, d=5, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.tanh(X @ rng.standard_normal((d, p)))


def linear(n_outputs):
    return nn.LazyLinear(n_outputs, bias=False)


def quick(**options):
    settings = {"max_epochs": 4, "batch_size": 32, "lr": 0.01} | options
    return Training(**settings)


# Losses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("with_residual", [False, True])
def test_values_are_those_of_the_losses(loss, with_residual):
    rng = np.random.default_rng(0)
    F, Z = rng.standard_normal((2, 50, 3))
    rho = rng.uniform(0, 2, 50) if with_residual else np.zeros(50)
    # one more output, which is never predicted, stands for what the basis does not see
    expected = loss.value(np.column_stack([F, np.zeros(50)]), np.column_stack([Z, np.sqrt(rho)]))
    tensors = [torch.from_numpy(a) for a in (F, Z, rho)]
    got = KernelLoss(loss).values(*(tensors if with_residual else tensors[:2]))
    assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert_allclose(float(KernelLoss(loss)(*tensors)), np.mean(expected), rtol=1e-5)
    weights = torch.from_numpy(rng.uniform(size=50))
    weighted = float(KernelLoss(loss)(*tensors, weights))
    assert_allclose(weighted, np.average(expected, weights=weights.numpy()), rtol=1e-5)


def formula_gradient(loss, F, Z, rho):
    """The gradients with respect to f of C.1, with dl/df = 2 (f - z) and l as in (5.11)."""
    dl = 2.0 * (F - Z)
    root = np.sqrt(np.sum((F - Z) ** 2, axis=1) + rho)[:, None]
    if isinstance(loss, Squared):
        return 0.5 * dl
    if isinstance(loss, Huber):  # (397)
        return np.where(root <= loss.kappa, 0.5 * dl, loss.kappa / (2.0 * root) * dl)
    outside = root > loss.epsilon
    if isinstance(loss, EpsilonInsensitive):  # (393)
        return dl / (2.0 * root) * outside
    return (1.0 - loss.epsilon / root) * dl * outside  # (395)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_gradients_are_those_of_the_formulas_and_of_differences(loss):
    rng = np.random.default_rng(1)
    F, Z = rng.standard_normal((2, 40, 3)) * 0.7
    rho = rng.uniform(0, 0.5, 40)

    class Double(KernelLoss):  # float32 is too coarse for differences
        def values(self, prediction, target, residual=None):
            prediction.float = lambda: prediction
            return super().values(prediction, target, residual)

    f = torch.from_numpy(F).requires_grad_()
    z, r = torch.from_numpy(Z), torch.from_numpy(rho)
    Double(loss).values(f, z, r).sum().backward()
    assert_allclose(f.grad.numpy(), formula_gradient(loss, F, Z, rho), rtol=1e-6, atol=1e-9)
    step = 1e-6
    for j in range(3):
        moved = [F.copy(), F.copy()]
        moved[0][:, j] += step
        moved[1][:, j] -= step
        up, down = (
            loss.value(np.column_stack([A, np.zeros(40)]), np.column_stack([Z, np.sqrt(rho)]))
            for A in moved
        )
        assert_allclose(f.grad.numpy()[:, j], (up - down) / 2 / step, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_gradients_are_finite_where_the_prediction_is_right(loss):
    f = torch.zeros(2, 3, requires_grad=True)
    KernelLoss(loss)(f, torch.zeros(2, 3)).backward()
    assert_array_equal(f.grad.numpy(), 0.0)


class PseudoHuber(RadialLoss):
    """A user's loss, sqrt(1 + r^2) - 1."""

    smooth = True
    lipschitz = 1.0

    def _h(self, r):
        return namespace(r).sqrt(1.0 + r * r) - 1.0

    def _slope(self, r):
        return r / (1.0 + r * r) ** 0.5

    def _bend(self, r):
        return (1.0 + r * r) ** -1.5

    def _h_conjugate(self, s):
        return np.where(s <= 1.0 + 1e-12, 1.0 - (1.0 - np.clip(s, None, 1.0) ** 2) ** 0.5, np.inf)


class HostPseudoHuber(PseudoHuber):
    def _h(self, r):
        return np.sqrt(1.0 + r * r) - 1.0


def test_an_own_loss_trains_a_network():
    check_loss(PseudoHuber(), d=2)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)).astype(np.float32)
    y = X @ rng.standard_normal((3, 2))
    model = NeuralRegressor(
        Small, loss=PseudoHuber(), training=quick(max_epochs=60), random_state=0
    )
    model.fit(X, y)
    assert (
        PseudoHuber().value(model.predict(X), y).mean()
        < 0.2 * PseudoHuber().value(0.0 * y, y).mean()
    )


def test_losses_that_are_not_of_a_distance_are_refused():
    with pytest.raises(TypeError, match="must be one of the distance"):
        KernelLoss(Hinge())
    with pytest.raises(
        TypeError, match=r"must take tensors: write HostPseudoHuber\._h with operators"
    ):
        KernelLoss(HostPseudoHuber())
    with pytest.raises(ValueError, match="huber"):
        KernelLoss("hubber")


# Training ----------------------------------------------------------------------------------------


def test_a_linear_network_reaches_the_optimum_of_ridge():
    """Square loss, full batches: least squares in coordinates, which ridge gives for alpha -> 0."""
    X, Z = problem(n=300)
    training = Training(400, 300, 0.05, schedule="cosine", warmup=0.0, optimizer="adam")
    net = NeuralRegressor(linear, training=training, device="cpu", random_state=0).fit(X, Z)
    exact = KernelRidge("linear", alpha=1e-10).fit(X, Z)
    assert_allclose(net.predict(X), exact.predict(X), atol=2e-3)


def test_weight_decay_is_a_ridge_penalty():
    """SGD with weight decay minimises 1/2 mean ||.||^2 + decay/2 ||W||^2: alpha = decay."""
    X, Z = problem(n=100)
    training = Training(
        400, 100, 0.1, schedule="constant", warmup=0.0, optimizer="sgd", weight_decay=0.3
    )
    net = NeuralRegressor(linear, training=training, device="cpu", random_state=0).fit(X, Z)
    assert_allclose(
        net.predict(X), KernelRidge("linear", alpha=0.3).fit(X, Z).predict(X), atol=1e-4
    )


def test_seeds():
    X, Z = problem()
    first, again, other = (
        NeuralRegressor(Small, training=quick(), device="cpu", random_state=seed)
        .fit(X, Z)
        .predict(X)
        for seed in (0, 0, 1)
    )
    assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_the_generator_of_torch_is_left_alone():
    X, Z = problem(50)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    NeuralRegressor(Small, training=quick(), device="cpu", random_state=0).fit(X, Z)
    assert_array_equal(torch.rand(3).numpy(), expected.numpy())


def test_predictions_are_without_dropout():
    X, Z = problem()

    def noisy(n_outputs):
        return nn.Sequential(nn.LazyLinear(32), nn.Dropout(0.5), nn.Linear(32, n_outputs))

    model = NeuralRegressor(noisy, training=quick(), device="cpu", random_state=0).fit(X, Z)
    assert_array_equal(model.predict(X), model.predict(X))
    assert not model.module_.training


def test_the_best_epoch_is_kept_and_patience_ends_training():
    X, Z = problem(120)
    training = quick(max_epochs=200, lr=0.1, schedule="constant")
    model = NeuralRegressor(
        Small, training=training, validation=0.3, patience=3, device="cpu", random_state=0
    ).fit(X, Z)
    scores = [row["validation"] for row in model.history_]
    assert model.best_epoch_ == int(np.argmin(scores)) + 1
    assert len(scores) == model.best_epoch_ + 3 < 200
    rng = np.random.default_rng(0)
    rng.integers(2**31)  # the seed of the network
    held = np.sort(rng.permutation(120)[:36])
    F = model.predict(X[held])
    assert_allclose(0.5 * np.mean(np.sum((F - Z[held]) ** 2, axis=1)), min(scores), rtol=1e-5)


def test_metric_chooses_the_epoch():
    X, Z = problem(100)
    seen = []

    def count_down(F, targets):
        assert F.shape == targets.shape == (20, 3)
        seen.append(-float(len(seen)))
        return seen[-1]

    model = NeuralRegressor(
        Small, training=quick(), validation=0.2, metric=count_down, device="cpu", random_state=0
    ).fit(X, Z)
    assert model.best_epoch_ == 4
    assert len(seen) == 4


class Stop(Exception):
    pass


def test_interrupted_training_ends_with_the_same_weights(tmp_path, monkeypatch):
    X, Z = problem()

    def noisy(n_outputs):
        return nn.Sequential(nn.LazyLinear(16), nn.Dropout(0.3), nn.Linear(16, n_outputs))

    def regressor(path):
        return NeuralRegressor(
            noisy,
            training=quick(max_epochs=6, clip_norm=1.0),
            validation=0.2,
            checkpoint=path,
            device="cpu",
            random_state=3,
        )

    whole = regressor(tmp_path / "whole.pt").fit(X, Z)
    original = Trainer.run_epoch

    def interrupted(self, data):
        if self.epoch == 4:
            raise Stop
        return original(self, data)

    path = tmp_path / "broken.pt"
    monkeypatch.setattr(Trainer, "run_epoch", interrupted)
    with pytest.raises(Stop):
        regressor(path).fit(X, Z)
    monkeypatch.setattr(Trainer, "run_epoch", original)
    resumed = regressor(path).fit(X, Z)
    assert len(resumed.history_) == 6
    for ours, theirs in zip(resumed.module_.parameters(), whole.module_.parameters(), strict=True):
        assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())
    assert resumed.best_epoch_ == whole.best_epoch_
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "whole.pt"]
    with pytest.raises(ValueError, match="of another network, other settings or other data"):
        regressor(path).fit(X, Z + 1.0)


def junk(kind, path):
    if kind == "another archive":
        with path.open("wb") as file:
            np.savez(file, a=np.ones(3))
    elif kind == "other tensors":
        torch.save({"weights": torch.ones(2)}, path)
    elif kind == "a tensor":
        torch.save(torch.ones(2), path)
    elif kind == "an object":
        torch.save(Small(3), path)
    else:
        path.write_bytes({"empty": b"", "text": b"epoch 3", "pickle": pickle.dumps(Stop)}[kind])


@pytest.mark.parametrize(
    "kind",
    ["empty", "text", "pickle", "another archive", "other tensors", "a tensor", "an object"],
)
def test_junk_checkpoints_are_explained(kind, tmp_path):
    X, Z = problem(60)
    path = tmp_path / "net.pt"
    junk(kind, path)
    before = path.read_bytes()
    net = NeuralRegressor(Small, training=quick(), checkpoint=path, device="cpu")
    message = (
        r"checkpoint '.*net\.pt' is not a checkpoint that can be read \(.*\)\. Give another path"
    )
    with pytest.raises(ValueError, match=message) as found:
        net.fit(X, Z)
    assert "weights_only" not in str(found.value)
    assert path.read_bytes() == before


def test_place_of_the_checkpoint_is_checked_first(tmp_path):
    X, Z = problem(60)
    net = NeuralRegressor(Small, training=quick(), device="cpu")
    with pytest.raises(FileNotFoundError, match="checkpoint: there is no folder"):
        net.set_params(checkpoint=tmp_path / "none" / "net.pt").fit(X, Z)
    with pytest.raises(IsADirectoryError, match="checkpoint must be a file"):
        net.set_params(checkpoint=tmp_path).fit(X, Z)


def test_training_goes_on_where_the_disk_is_full(tmp_path):
    X, Z = problem(60)
    net = NeuralRegressor(
        Small, training=quick(max_epochs=2), checkpoint=tmp_path / "net.pt", device="cpu"
    )
    with small_files(2000), pytest.warns(RuntimeWarning, match="could not be written") as found:
        net.fit(X, Z)
    (text,) = {str(one.message) for one in found}
    assert text.startswith(f"checkpoint '{tmp_path}/net.pt' could not be written (")
    assert len(net.history_) == 2
    assert list(tmp_path.iterdir()) == []


def test_schedule():
    training = Training(1, warmup=0.1)
    rates = np.array([training.rate(step, 100) for step in range(100)])
    assert rates.argmax() == 10
    assert np.all(np.diff(rates[:11]) > 0)
    assert np.all(np.diff(rates[10:]) < 0)
    assert_allclose(rates[10], 1.0)
    assert rates[-1] < 0.01
    linear_rates = [Training(1, warmup=0.0, schedule="linear").rate(s, 4) for s in range(4)]
    assert_allclose(linear_rates, [1.0, 0.75, 0.5, 0.25])
    assert Training(1, warmup=0.0, schedule="constant").rate(3, 4) == 1.0


def test_bfloat16_is_close_to_float32():
    X, Z = problem()
    full, half = (
        NeuralRegressor(
            Small, training=quick(max_epochs=20, precision=precision), device="cpu", random_state=0
        ).fit(X, Z)
        for precision in ("float32", "bfloat16")
    )
    assert_allclose(half.score(X, Z), full.score(X, Z), atol=0.05)
    assert half.predict(X).dtype == np.float64


def test_a_loss_that_is_not_finite_is_reported():
    X, Z = problem()
    training = quick(lr=1e30, optimizer="sgd", warmup=0.0)
    with pytest.raises(FloatingPointError, match=r"lower lr=1e\+30"):
        NeuralRegressor(Small, training=training, device="cpu", random_state=0).fit(X, Z)


def test_weights_of_rows():
    X, Z = problem(80)
    kept = np.arange(80) < 50
    Z = np.where(kept[:, None], Z, 50.0)  # rows without weight do not matter
    training = Training(300, 80, 0.05, optimizer="adam", warmup=0.0)
    model = NeuralRegressor(linear, training=training, device="cpu", random_state=0)
    model.fit(X, Z, sample_weight=kept.astype(float))
    expected = KernelRidge("linear", alpha=1e-10).fit(X[kept], Z[kept])
    assert_allclose(model.predict(X), expected.predict(X), atol=5e-3)


# Inputs ------------------------------------------------------------------------------------------


class TwoInputs(nn.Module):
    def __init__(self, n_outputs):
        super().__init__()
        self.a, self.b = nn.LazyLinear(n_outputs), nn.LazyLinear(n_outputs)

    def forward(self, left, right):
        return self.a(left) + self.b(right)


class Letters(nn.Module):
    """A bag of letters."""

    pad_id = 0

    def __init__(self, n_outputs):
        super().__init__()
        self.embed = nn.Embedding(128, n_outputs)

    def tokenize(self, strings):
        return [[ord(letter) for letter in text] for text in strings]

    def forward(self, input_ids, attention_mask):
        return (self.embed(input_ids) * attention_mask[..., None]).sum(dim=1)


class Rows(torch.utils.data.Dataset):
    def __init__(self, X):
        self.X = X

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return torch.tensor(self.X[i], dtype=torch.float32)


def fitted(module, X, Z, **options):
    options = {"training": quick(), "device": "cpu", "random_state": 0} | options
    return NeuralRegressor(module, **options).fit(X, Z)


@pytest.mark.parametrize("validation", [0.0, 0.25])
def test_the_same_inputs_in_any_form_give_the_same_network(validation):
    X, Z = problem(64)
    X = np.where(np.abs(X) > 0.5, X, 0.0).astype(np.float32)
    expected = fitted(Small, X, Z, validation=validation).predict(X)
    forms = [X.astype(float), X.tolist(), torch.from_numpy(X), sparse.csr_matrix(X), Rows(X)]
    forms += [np.asfortranarray(X), np.broadcast_to(X, X.shape)]
    for form in forms:
        found = fitted(Small, form, Z, validation=validation).predict(form)
        assert_allclose(found, expected, atol=1e-5)


def test_dicts_are_keyword_arguments():
    X, Z = problem(64)
    both = {"left": X[:, :2], "right": sparse.csr_matrix(X[:, 2:])}
    model = fitted(TwoInputs, both, Z, validation=0.25)
    assert model.predict(both).shape == (64, 3)
    swapped = {"right": X[:, 2:], "left": X[:, :2]}
    assert_allclose(model.predict(swapped), model.predict(both), atol=1e-6)
    with pytest.raises(ValueError, match="equal length"):
        model.predict({"left": X[:3, :2], "right": X[:, 2:]})


def test_strings_are_tokenised_and_padded():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcd"), rng.integers(1, 9))) for _ in range(200)]
    counts = np.array([[word.count("a"), len(word)] for word in words], dtype=float)
    training = quick(max_epochs=60, lr=0.05)
    model = fitted(Letters, words, counts, training=training)
    assert_allclose(model.predict(["aab", "dd"]), [[2, 3], [0, 2]], atol=0.1)
    assert_allclose(model.predict(np.array(words)), model.predict(words))
    source = as_source(["ab", "", "abc"], model.module_, CPU)
    some = torch.tensor([1, 0])
    batch = source.batch(some, some)
    assert_array_equal(batch["input_ids"].numpy(), [[0, 0], [97, 98]])
    assert_array_equal(batch["attention_mask"].numpy(), [[False, False], [True, True]])
    with pytest.raises(TypeError, match="has no method `tokenize`"):
        fitted(Small, words, counts)


def test_integers_stay_integers():
    X = np.random.default_rng(0).integers(0, 10, (60, 4))

    def embedding(n_outputs):
        return nn.Sequential(nn.Embedding(10, 8), nn.Flatten(), nn.LazyLinear(n_outputs))

    assert fitted(embedding, X, X[:, :2].astype(float)).predict(X).shape == (60, 2)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "uint16", "int64", "float64"])
def test_integers_are_quantities_to_other_modules(dtype):
    X, Z = problem(60)
    X = (3.0 * np.abs(X)).astype(dtype)
    model, same = fitted(Small, X, Z), fitted(Small, X.astype(np.float32), Z)
    assert_array_equal(model.predict(X), same.predict(X.astype(np.float32)))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32"])
def test_small_integers_are_positions_to_an_embedding(dtype):
    X = np.random.default_rng(0).integers(0, 10, (60, 4)).astype(dtype)

    def embedding(n_outputs):
        return nn.Sequential(nn.Embedding(10, 8), nn.Flatten(), nn.LazyLinear(n_outputs))

    model, same = (fitted(embedding, rows, X[:, :2] / 9.0) for rows in (X, X.astype(np.int64)))
    assert_array_equal(model.predict(X), same.predict(X.astype(np.int64)))


def test_dsokr_takes_binary_inputs():
    X, Z = problem(60)
    Y = (Z > 0).astype(int)
    net = dsokr(Small, "tanimoto", training=quick(), device="cpu", random_state=0)
    for dtype in (bool, np.uint8, np.int64):
        assert net.fit((X > 0).astype(dtype), Y).predict((X > 0).astype(dtype)).shape == Y.shape


@pytest.mark.parametrize("card", [False, True])
def test_the_device_of_dsokr_is_that_of_all_parts(card, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: card)
    for device in (None, "cpu", "cuda:1", "auto"):
        model = dsokr(Small, "tanimoto", n_jobs=2, device=device)
        for part in (model.regressor, model.output_basis, model.decoder):
            assert part.device == device
        assert model.output_basis.n_jobs == model.decoder.n_jobs == 2
    words = dsokr(Small, "ngram", device="cuda")
    assert words.output_basis.device is None  # a kernel that does not run there
    assert (words.regressor.device, words.decoder.device) == ("cuda", "cuda")


def test_networks_are_trained_where_the_data_are(monkeypatch):
    X, Z = problem(60)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # a card that is not asked for
    for kind in (None, torch.float32, torch.float64):
        rows = X if kind is None else torch.as_tensor(X, dtype=kind)
        model = NeuralRegressor(Small, training=quick(), random_state=0).fit(rows, Z)
        assert model._device == torch.device("cpu")
        assert_array_equal(model.predict(rows), model.predict(X))
    far = torch.empty((60, 5), device="meta")
    assert _device(None, far) == _device(None, {"x": [1], "y": far}) == torch.device("meta")
    near = torch.ones((60, 5))
    assert Device(near).load_for(model) is near  # StructuredPredictor gives it as it is
    assert isinstance(Device(near).load_for(KernelRidge()), np.ndarray)
    with monkeypatch.context() as patch:
        patch.setenv("LOCAL_RANK", "2")
        assert _device("auto", X) == torch.device("cuda:2")


def test_rows_that_a_module_cannot_take_are_described():
    X, Z = problem(60)
    with pytest.raises(
        ValueError, match=r"first rows, X of shape \(2, 5\) and float32: .*Embedding"
    ):
        fitted(lambda n: nn.Embedding(10, n), X, Z)
    with pytest.raises(
        ValueError, match=r"X of shape \(2, 5\) and int64: .*a torch tensor is given"
    ):
        fitted(Small, torch.ones((60, 5), dtype=torch.int64), Z)


def test_prediction_needs_no_optimizer():
    X, Z = problem(60)
    made = []

    def optimizer(parameters, **options):
        made.append(1)
        return torch.optim.SGD(parameters, **options)

    model = fitted(Small, X, Z, training=quick(optimizer=optimizer))
    model.predict(X)
    assert made == [1]


def test_a_single_output():
    X, Z = problem(60)
    model = fitted(Small, X, Z[:, 0])
    assert model.predict(X).shape == (60,)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"validation": 1.0}, ValueError, "below 1"),
        ({"validation": -0.1}, ValueError, "validation"),
        ({"patience": 3}, ValueError, "patience needs rows that are held out"),
        ({"device": "abacus"}, ValueError, "device must be"),
        ({"training": Training(-1)}, ValueError, "max_epochs"),
        ({"training": Training(lr=-1.0)}, ValueError, "lr"),
        ({"training": Training(schedule="sine")}, ValueError, "schedule"),
        ({"training": Training(optimizer="adagrad")}, ValueError, "optimizer"),
        ({"training": Training(warmup=1.5)}, ValueError, "warmup"),
        ({"training": Training(precision="float8")}, ValueError, "precision"),
        ({"training": Training(clip_norm=0.0)}, ValueError, "clip_norm"),
        ({"module": "mlp"}, TypeError, "module must be an nn.Module"),
        ({"module": lambda n: 3}, TypeError, "must make an nn.Module. It made int"),
        ({"module": nn.Linear(5, 7)}, ValueError, r"tensor of shape \(2, 3\).*Got \(2, 7\)"),
        ({"loss": "hinge"}, TypeError, "distance"),
    ],
)
def test_bad_settings(options, error, message):
    X, Z = problem(40)
    options = {"module": Small, "device": "cpu"} | options
    with pytest.raises(error, match=message):
        NeuralRegressor(**options).fit(X, Z)


@pytest.mark.parametrize(
    ("X", "Z", "message"),
    [
        (np.ones((4, 2)), np.ones((3, 2)), "equal length. Got 4 and 3"),
        (np.full((4, 2), np.nan), np.ones((4, 2)), "X has NaN or infinity"),
        (np.full((4, 2), 1e300), np.ones((4, 2)), "too large for float32"),
        (np.ones((4, 2)), np.full((4, 2), np.inf), "y must be finite"),
        (np.ones((0, 2)), np.ones((0, 2)), "0 sample"),
        (np.array([[object()], [None]]), np.ones((2, 1)), "X must be numbers"),
    ],
)
def test_bad_data(X, Z, message):
    with (
        np.errstate(over="ignore"),
        pytest.raises((TypeError, ValueError), match=message),
    ):
        NeuralRegressor(Small, training=quick(), device="cpu").fit(X, Z)


def test_the_third_argument_of_fit_is_the_weight():
    X, Z = problem(40)
    model = NeuralRegressor(Small, loss="huber", training=quick(), device="cpu", random_state=0)
    weight = np.linspace(0.0, 2.0, 40)
    named = clone(model).fit(X, Z, sample_weight=weight).predict(X)
    assert_array_equal(clone(model).fit(X, Z, weight).predict(X), named)


def test_an_interrupted_fit_changes_nothing():
    X, Z = problem(40)
    calls = []

    def metric(*_):
        calls.append(0)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return 0.0

    model = NeuralRegressor(
        Small, loss="huber", training=quick(), validation=0.2, metric=metric, device="cpu"
    )
    expected = model.fit(X, Z).predict(X)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :4], Z)
    assert_array_equal(model.predict(X), expected)
    calls[:] = [0] * 5
    fresh = clone(model)
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, Z)
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_bad_residuals():
    X, Z = problem(10)
    with pytest.raises(ValueError, match="residual must be 10 finite numbers"):
        NeuralRegressor(Small, device="cpu").fit(X, Z, residual=-np.ones(10))


# In the house ------------------------------------------------------------------------------------


def test_estimator_manners():
    X, Z = problem(60)
    model = NeuralRegressor(Small, loss=Huber(0.5), training=quick(), device="cpu", random_state=0)
    before = repr(model.get_params())
    model.fit(X, Z)
    assert repr(model.get_params()) == before
    assert_array_equal(clone(model).fit(X, Z).predict(X), model.predict(X))
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.predict(X))
    search = GridSearchCV(model, {"training__lr": [1e-6, 1e-2]}, cv=2).fit(X, Z)
    assert search.best_params_ == {"training__lr": 1e-2}


def labels(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    return X, (X @ rng.standard_normal((6, 5)) > 0.3).astype(int)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_dsokr_predicts_label_sets(loss):
    X, Y = labels()
    model = dsokr(
        Small, "tanimoto", output_sketch=SubSample(20), loss=loss, training=quick(max_epochs=40),
        device="cpu", random_state=0,
    )  # fmt: skip
    model.fit(X[:300], Y[:300])
    assert isinstance(model, StructuredPredictor)
    assert model.regressor_.n_outputs_ == model.output_basis_.rank_ <= 20
    assert model.score(X[300:], Y[300:]) > 0.75
    indices, scores = model.rank(X[300:], k=3)
    assert indices.shape == scores.shape == (100, 3)


def test_the_residual_of_the_basis_reaches_the_loss(monkeypatch):
    X, Y = labels(50)
    seen = []
    original = NeuralRegressor.fit

    def spy(self, X, y, sample_weight=None, *, residual=None):
        seen.append(residual)
        return original(self, X, y, sample_weight, residual=residual)

    monkeypatch.setattr(NeuralRegressor, "fit", spy)
    basis = KernelBasis("tanimoto", SubSample(4), whiten="eigh", random_state=0)
    regressor = NeuralRegressor(Small, loss="huber", training=quick(), device="cpu", random_state=0)
    StructuredPredictor(regressor, basis).fit(X, Y)
    assert_allclose(seen[0], basis.fit(Y).residual(Y))
    assert seen[0].max() > 0.1


def test_robust_losses_win_where_outputs_are_wrong():
    """A tenth of the training outputs replaced at random, clean test data, three seeds."""
    scores = {"squared": [], "huber": []}
    for seed in range(3):
        X, Y = labels(1200, seed)
        rng = np.random.default_rng(seed)
        wrong = rng.permutation(800)[:80]
        noisy = Y[:800].copy()
        noisy[wrong] = Y[rng.integers(0, 800, 80)]
        for name, loss in {"squared": "squared", "huber": Huber(0.3)}.items():
            model = dsokr(
                Small, "tanimoto", output_sketch=None, loss=loss, training=quick(max_epochs=30),
                device="cpu", random_state=seed,
            ).fit(X[:800], noisy)  # fmt: skip
            scores[name].append(model.score(X[800:], Y[800:]))
    assert np.mean(scores["huber"]) > np.mean(scores["squared"])


def test_members_of_an_ensemble_have_checkpoints_of_their_own(tmp_path):
    X, Y = labels(60)
    net = dsokr(Small, "tanimoto", training=quick(), checkpoint=tmp_path / "net.pt", device="cpu")
    first = Ensemble(net, 2, random_state=0).fit(X, Y)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.pt.0", "net.pt.1"]
    again = Ensemble(net, 2, random_state=0).fit(X, Y)  # from the checkpoints
    assert_array_equal(first.rank(X, k=3)[0], again.rank(X, k=3)[0])


def test_without_torch_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("skout.deep")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'pip install "skout\[deep\]'):
        importlib.import_module("skout.deep")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_on_a_card(precision):
    X, Y = labels(2000)
    training = Training(30, 128, 1e-2, precision=precision, clip_norm=1.0)
    on_card, on_cpu = (
        dsokr(
            Small, "tanimoto", output_sketch=SubSample(20), training=training if d == "cuda" else
            clone(training).set_params(precision="float32"), device=d, random_state=0,
        ).fit(X[:1500], Y[:1500]).score(X[1500:], Y[1500:])
        for d in ("cuda", "cpu")
    )  # fmt: skip
    assert abs(on_card - on_cpu) < 0.03


def test_validation_pairs_may_be_given():
    X, Z = problem(60)
    held = np.arange(45, 60)
    model = NeuralRegressor(MLP, training=Training(4, 16), validation=held, random_state=0)
    model.fit(X, Z)
    assert len(model.history_) == 4
    Z[held] += 5.0  # the network never sees these rows
    again = clone(model).fit(X, Z)
    assert_allclose(
        [row["train_loss"] for row in again.history_], [row["train_loss"] for row in model.history_]
    )
    assert all(
        a["validation"] > b["validation"]
        for a, b in zip(again.history_, model.history_, strict=True)
    )


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ([0, 0], "different numbers of rows, from 0 to 59"),
        ([60], "different numbers of rows"),
        ([0.5], "a share of the rows, or the numbers"),
        ([], "a share of the rows, or the numbers"),
        ((np.ones((5, 5)), np.ones((5, 3))), "Put pairs that you hold out into X and Y"),
        ((np.ones((5, 5)), np.ones(4)), "Put pairs that you hold out into X and Y"),
        (list(range(60)), "none is left to train on"),
    ],
)
def test_validation_pairs_that_cannot_be(held, message):
    with pytest.raises(ValueError, match=message):
        NeuralRegressor(MLP, validation=held).fit(*problem(60))


def test_the_best_epoch_of_given_pairs_is_that_of_decoded_objects():
    """Algorithm 5.1: validation pairs, and the decoded metric that chooses the epoch."""
    X, Z = problem(80)
    Y = (Z > 0).astype(int)
    held = np.arange(60, 80)
    scored = []

    def matches(truth, found):
        scored.append(
            float(np.mean([np.array_equal(a, b) for a, b in zip(truth, found, strict=True)]))
        )
        assert_array_equal(truth, Y[held])
        return scored[-1]

    model = dsokr(
        MLP, "tanimoto", training=Training(6, 16), validation=held, scoring=matches, random_state=0
    ).fit(X, Y)
    assert model.regressor_.best_epoch_ == 1 + int(np.argmax(scored[:6]))


def test_a_network_that_learns_nothing_says_so():
    X, Z = problem(60)
    model = NeuralRegressor(MLP, training=Training(40, 60, 0.03), random_state=0)
    with pytest.warns(ConvergenceWarning, match="is that of a constant"):
        model.fit(np.zeros_like(X), Z)
    model.fit(X, Z)  # which is there to be learnt


SHARED = """
import os
import sys
import time
import numpy as np
import torch
import torch.distributed as dist
from skout.deep import MLP, NeuralRegressor, Training

world, folder = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
child = os.fork() if world > 1 else None
rank = int(child == 0)
if world > 1:
    place = f"file://{folder}/meet"
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=world)
rng = np.random.default_rng(0)
X, w = rng.standard_normal((101, 4)), rng.random(101)  # batches of 15 and 11 rows
Z = np.tanh(X[:, :2])
model = NeuralRegressor(
    MLP, loss="huber", training=Training(4, 15, 0.01, clip_norm=0.5), device="cpu", random_state=0,
    checkpoint=f"{folder}/{world}.pt",
)
for weight in (None, w):
    model.set_params(checkpoint=f"{folder}/{world}.pt" if weight is None else None)
    model.fit(X, Z, sample_weight=weight)
    np.save(f"{folder}/{world}_{rank}_{weight is None}.npy", model.predict(X))
    losses = [row["train_loss"] for row in model.history_]
    np.save(f"{folder}/{world}_{rank}_{weight is None}_loss.npy", losses)
if world > 1:  # gloo's threads may abort a process that ends as usual: wait for the other and leave
    open(f"{folder}/done_{rank}", "w").close()
    for _ in range(10_000):
        if all(os.path.exists(f"{folder}/done_{other}") for other in range(world)):
            break
        time.sleep(0.01)
    os._exit(os.waitpid(child, 0)[1] != 0 if child else 0)
"""


def test_processes_share_the_batches(tmp_path, monkeypatch):
    """Two processes, none of whose shares are equal, find what one alone does."""
    job = subprocess.Popen([sys.executable, "-c", SHARED, "2", str(tmp_path)])
    monkeypatch.setattr(sys, "argv", ["", "1", str(tmp_path)])
    exec(SHARED, {})
    assert job.wait(timeout=120) == 0
    for weighted in (True, False):
        for rank in range(2):
            for tail in ("", "_loss"):
                ours = np.load(tmp_path / f"2_{rank}_{weighted}{tail}.npy")
                assert_allclose(ours, np.load(tmp_path / f"1_0_{weighted}{tail}.npy"), atol=2e-5)
    assert (tmp_path / "2.pt").exists()
