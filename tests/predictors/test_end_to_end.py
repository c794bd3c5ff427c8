"""End-to-end DSOKR: the loss by its formula, both sides learn, and it starts from DSOKR."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch")

import skout  # noqa: E402
from skout import EndToEnd, dsokr, iokr  # noqa: E402
from skout.deep import MLP, NeuralRegressor, Training  # noqa: E402
from skout.deep.criteria import ListwiseLoss  # noqa: E402

CARDS = ["cpu"] + ["cuda"] * torch.cuda.is_available()


@pytest.fixture(scope="module")
def data():
    """Return inputs and label sets that follow from them, some of them more than once."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 6)).astype(np.float32)
    return X, (X @ rng.standard_normal((6, 7)) > 0.3).astype(int)


def model(**params):
    settings = {"module": MLP, "device": "cpu", **params}
    training = Training(3, 32, lr=3e-3)
    return dsokr(output_kernel="tanimoto", training=training, random_state=0, **settings)


def raw_loss(loss, F, Z, rho, weights):
    """Return the mean of -log softmax by loops; copies of the right output are not there."""
    A, b, C, c = (p.detach().numpy() for p in (*loss.enter.parameters(), *loss.leave.parameters()))
    heat = np.exp(float(loss.log_scale.detach()))
    values = []
    for i in range(len(F)):
        scores = {}
        for j in range(len(Z)):
            if j != i and np.array_equal(Z[i], Z[j]):
                continue
            g = Z[j] + C @ np.maximum(A @ Z[j] + b, 0.0) + c
            scores[j] = heat * (F[i] @ g - 0.5 * (Z[j] @ Z[j] + rho[j]))
        values.append(np.log(sum(np.exp(s) for s in scores.values())) - scores[i])
    return np.average(values, weights=weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("trained", [False, True])
def test_the_loss_is_its_formula(weighted, trained):
    rng = np.random.default_rng(1)
    F, Z, rho = rng.standard_normal((8, 5)), rng.standard_normal((8, 5)), rng.random(8)
    Z[3] = Z[6]
    w = rng.random(8) if weighted else None
    loss = ListwiseLoss(5, hidden=4, logit_scale=1.7).double()
    if trained:
        torch.manual_seed(0)
        for parameter in loss.parameters():
            torch.nn.init.normal_(parameter)
    tensors = [None if a is None else torch.tensor(a) for a in (F, Z, rho, w)]
    tensors[0] = tensors[0].float()  # as networks predict
    found = loss.float()(*(None if t is None else t.float() for t in tensors))
    assert_allclose(float(found.detach()), raw_loss(loss, F, Z, rho, w), rtol=2e-5)


def test_negatives_are_more_outputs_of_training_and_copies_do_not_count():
    rng = np.random.default_rng(2)
    F, Z, bank = (torch.tensor(rng.standard_normal((n, 5))).float() for n in (8, 8, 30))
    bank[4] = Z[3]
    rho = torch.rand(30)
    loss = ListwiseLoss(5, hidden=4, logit_scale=1.7, negatives=50)
    loss.bank = bank, rho
    torch.manual_seed(0)
    rows = torch.randint(30, (50,))
    torch.manual_seed(0)
    found = loss.values(F, Z, torch.zeros(8)).detach()
    outputs, norms = torch.cat([Z, bank[rows]]), torch.cat([torch.zeros(8), rho[rows]])
    S = 1.7 * (F @ outputs.T - 0.5 * (outputs.square().sum(dim=1) + norms))
    for i in range(8):
        left = [j for j in range(58) if j == i or not torch.equal(outputs[j], Z[i])]
        assert len(left) == (58 - (rows == 4).sum() if i == 3 else 58)
        expected = S[i, left].logsumexp(dim=0) - S[i, i]
        assert_allclose(float(found[i]), float(expected), rtol=1e-5)
    loss.eval()  # of rows held out the outputs of the batch are the candidates, as they were
    expected = raw_loss(loss, F.numpy(), Z.numpy(), np.zeros(8), None)
    assert_allclose(float(loss(F, Z).detach()), expected, rtol=1e-5)


def test_negatives_change_the_training(data):
    X, Y = data
    fits = [
        EndToEnd(model(), hidden=8, negatives=n, training=Training(2, 16)).fit(X, Y)
        for n in (0, 100)
    ]
    losses = [fit.regressor_.history_[0]["train_loss"] for fit in fits]
    assert losses[1] > 1.3 * losses[0]  # log of 116 candidates against log of 16


def test_without_a_first_training_it_is_a_contrastive_model(data):
    X, Y = data
    first = model().set_params(regressor__training=Training(0))
    found = EndToEnd(first, hidden=8, training=Training(20, 64, lr=3e-3)).fit(X, Y)
    assert found.model_.regressor_.history_ == []
    before = np.mean(1 / found.model_.truth_ranks(X, Y))
    assert np.mean(1 / found.truth_ranks(X, Y)) > 1.5 * before


def test_gradients_reach_both_sides():
    torch.manual_seed(0)
    loss = ListwiseLoss(4, hidden=3, logit_scale=2.0)
    F = torch.randn(6, 4, requires_grad=True)
    loss(F, torch.randn(6, 4)).backward()
    assert F.grad.abs().max() > 0
    assert all(loss.leave.weight.grad.flatten() != 0)
    assert loss.log_scale.grad != 0


def test_it_starts_from_dsokr(data):
    X, Y = data
    found = EndToEnd(model(), training=Training(1, lr=1e-30)).fit(X, Y)
    alone = model().fit(X, Y)
    assert_allclose(found.predict_coordinates(X), alone.predict_coordinates(X), rtol=1e-6)
    assert_allclose(found.output_basis_.transform(Y), alone.output_basis_.transform(Y), atol=1e-12)
    for ours, theirs in zip(found.rank(X, k=5), alone.rank(X, k=5), strict=True):
        assert_allclose(ours, theirs, rtol=1e-6)


def test_network_and_outputs_both_learn(data):
    X, Y = data
    found = EndToEnd(model(), hidden=16, training=Training(30, 64, lr=3e-3)).fit(X, Y)
    before, after = found.model_.regressor_.module_, found.regressor_.module_
    moved = [
        float((p - q).detach().abs().max())
        for p, q in zip(before.parameters(), after.parameters(), strict=True)
    ]
    assert min(moved) > 0
    assert all(np.abs(part).max() > 0 for part in found.output_basis_.weights)
    losses = [row["train_loss"] for row in found.regressor_.history_]
    assert losses[-1] < 0.8 * losses[0]
    ranks = [m.truth_ranks(X, Y) for m in (found.model_, found)]
    assert np.mean(1 / ranks[1]) > np.mean(1 / ranks[0])


def test_scores_are_those_of_the_loss(data):
    X, Y = data
    found = EndToEnd(model(), hidden=16, training=Training(5, 64, lr=3e-3)).fit(X, Y)
    A, b, C, c = found.output_basis_.weights
    Z = found.model_.output_basis_.transform(Y[:9])
    G = Z + np.maximum(Z @ A.T + b, 0.0) @ C.T + c
    S = 2.0 * found.predict_coordinates(X[:4]) @ G.T - 1.0  # k(y, y) of Tanimoto
    numbers, scores = found.rank(X[:4], Y[:9], k=9)
    assert_allclose(scores, np.take_along_axis(S, numbers, axis=1), rtol=1e-9)


@pytest.mark.parametrize("groups", [None, "pairs"])
def test_the_best_epoch_is_kept(data, groups):
    X, Y = data
    groups = None if groups is None else np.arange(len(X)) // 2
    found = EndToEnd(model(validation=0.2, patience=2), training=Training(12, 32, lr=0.02))
    found.fit(X, Y, groups=groups)
    history = [row["validation"] for row in found.regressor_.history_]
    assert found.regressor_.best_epoch_ == 1 + int(np.argmin(history))


@pytest.mark.parametrize("seed", [0, None])
@pytest.mark.parametrize("groups", [None, np.arange(160) // 4])
def test_both_trainings_hold_out_the_same_rows(data, monkeypatch, seed, groups):
    held, parts = [], NeuralRegressor._parts
    monkeypatch.setattr(
        NeuralRegressor, "_parts", lambda *args: held.append(parts(*args)[1]) or parts(*args)
    )
    first = model(validation=0.2).set_params(regressor__random_state=seed)
    EndToEnd(first, training=Training(1, 64)).fit(*data, groups=groups)
    assert len(held) >= 2
    assert_array_equal(held[0], held[-1])


@pytest.mark.parametrize("device", CARDS)
def test_it_is_saved(data, tmp_path, device):
    X, Y = data
    found = EndToEnd(model(device=device), hidden=8, training=Training(2, 64)).fit(X, Y)
    assert next(found.regressor_.module_.parameters()).device.type == device
    skout.save(found, tmp_path / "model.skout")
    again = skout.load(tmp_path / "model.skout")
    assert_array_equal(again.predict(X), found.predict(X))
    assert_array_equal(again.rank(X, Y)[1], found.rank(X, Y)[1])


def test_weights_of_zero_count_for_nothing(data):
    X, Y = data
    weights = np.ones(len(X))
    weights[:40] = 0.0
    fits = [
        EndToEnd(model(), hidden=8, training=Training(1, 200)).fit(X, Y, sample_weight=w)
        for w in (weights, 2.0 * weights)
    ]
    assert_allclose(fits[0].predict_coordinates(X), fits[1].predict_coordinates(X), rtol=1e-4)
    plain = EndToEnd(model(), hidden=8, training=Training(1, 200)).fit(X, Y)
    assert not np.allclose(plain.predict_coordinates(X), fits[0].predict_coordinates(X), rtol=1e-4)


def test_other_models_are_refused(data):
    X, Y = data
    with pytest.raises(TypeError, match="model must be a network"):
        EndToEnd(iokr("gaussian", "tanimoto")).fit(X, Y)
    with pytest.raises(TypeError, match="EndToEnd needs a decoder"):
        EndToEnd(model(decoder="label_sets")).fit(X, Y)
    with pytest.raises(ValueError, match="hidden"):
        EndToEnd(model(), hidden=0).fit(X, Y)
    with pytest.raises(ValueError, match="negatives"):
        EndToEnd(model(), negatives=-1).fit(X, Y)
