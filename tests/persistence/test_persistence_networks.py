"""Networks in files: skout's own are built again, others are given."""

import functools
import json
import re
import shutil

import numpy as np
import pytest
from numpy.testing import assert_array_equal

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import skout  # noqa: E402
from skout.deep import (  # noqa: E402
    MLP,
    CharTransformer,
    NeuralRegressor,
    TextEncoder,
    Training,
    text,
)
from skout.persistence import FileError, describe  # noqa: E402
from skout.persistence.files import read_file, write_file  # noqa: E402

N = 24
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
WORDS = ["C" * (i % 5 + 1) + "O" * (i % 3) for i in range(N)]
LABELS = (RNG.random((N, 4)) < 0.5).astype(int)
OPTIONS = {"training": Training(2, 8), "device": "cpu", "random_state": 0}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Net(nn.Module):
    """A user's network, with a buffer of integers."""

    def __init__(self, n_outputs, width=5):
        super().__init__()
        self.first, self.norm = nn.Linear(3, width), nn.BatchNorm1d(width)
        self.last = nn.Linear(width, n_outputs)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


def make_net(n_outputs):
    return Net(n_outputs, width=7)


def make_mlp(n_outputs):
    return MLP(n_outputs, hidden=(6,))


SMALL = {"width": 8, "n_layers": 1, "n_heads": 2, "feed_forward": 16}
# name -> (module, inputs, what is given at load)
CASES = {
    "class": (MLP, X, {}),
    "partial": (functools.partial(MLP, hidden=(4, 4), layer_norm=True, dropout=0.1), X, {}),
    "instance": (MLP(4, hidden=(6,)), X, {}),
    "transformer": (functools.partial(CharTransformer, **SMALL), WORDS, {}),
    "function of own": (make_mlp, X, {"make_mlp": make_mlp}),
    "user's class": (Net, X, {"Net": Net}),
    "user's partial": (functools.partial(Net, width=3), X, {"Net": lambda p: Net(p, 3)}),
    "user's function": (make_net, X, {"Net": make_net}),
    "user's lambda": (lambda p: Net(p, 2), X, {"Net": lambda p: Net(p, 2)}),
    "user's instance": (Net(4), X, {"Net": Net(4)}),
}


def regressor(name):
    module, rows, _ = CASES[name]
    return NeuralRegressor(module, **OPTIONS).fit(rows, LABELS)


@pytest.mark.parametrize("name", CASES)
def test_network_predicts_the_same_bits(name, tmp_path):
    _, rows, modules = CASES[name]
    model = regressor(name)
    skout.save(model, tmp_path / "model")
    again = skout.load(tmp_path / "model", modules=modules)
    assert_array_equal(again.predict(rows), model.predict(rows))
    assert again.history_ == model.history_
    assert type(again.module_) is type(model.module_)
    assert not again.module_.training
    for key, tensor in model.module_.state_dict().items():
        assert torch.equal(again.module_.state_dict()[key], tensor)


@pytest.mark.parametrize("name", ["class", "partial", "transformer", "user's class"])
def test_network_can_be_trained_again(name, tmp_path):
    _, rows, modules = CASES[name]
    model = regressor(name)
    skout.save(model, tmp_path / "model")
    again = skout.load(tmp_path / "model", modules=modules)
    assert_array_equal(again.fit(rows, LABELS).predict(rows), model.predict(rows))


def test_instance_keeps_its_first_weights(tmp_path):
    module = MLP(4, hidden=(6,))
    module(torch.zeros(1, 3))  # which draws them
    model = NeuralRegressor(module, **OPTIONS)
    skout.save(model, tmp_path / "model")
    again = skout.load(tmp_path / "model")
    expected = model.fit(X, LABELS).predict(X)
    assert_array_equal(again.fit(X, LABELS).predict(X), expected)


def test_dsokr_and_its_ensemble(tmp_path):
    model = skout.dsokr(MLP, "tanimoto", training=Training(2), random_state=0, device="cpu")
    for one in (model.fit(X, LABELS), skout.Ensemble(model, 2, random_state=0).fit(X, LABELS)):
        skout.save(one, tmp_path / "model")
        again = skout.load(tmp_path / "model")
        for found, expected in zip(again.rank(X, k=3), one.rank(X, k=3), strict=True):
            assert_array_equal(found, expected)


def test_ensemble_of_instances(tmp_path):
    model = skout.dsokr(Net(4), "linear", training=Training(2), random_state=0, device="cpu")
    ensemble = skout.Ensemble(model, 2, random_state=0).fit(X, np.eye(4)[np.arange(N) % 4])
    skout.save(ensemble, tmp_path / "model")
    again = skout.load(tmp_path / "model", modules={"Net": Net})
    assert_array_equal(again.predict(X), ensemble.predict(X))


def test_checkpoint_is_not_taken_from_a_file(tmp_path):
    model = NeuralRegressor(MLP, checkpoint=tmp_path / "check", **OPTIONS).fit(X, LABELS)
    skout.save(model, tmp_path / "model")
    assert skout.load(tmp_path / "model").checkpoint is None
    assert model.checkpoint == tmp_path / "check"


def test_missing_module_is_named(tmp_path):
    skout.save(regressor("user's class"), tmp_path / "model")
    assert describe(tmp_path / "model")["about"]["needs"] == ["Net"]
    with pytest.raises(ValueError, match=r"needs Net, .*modules=\{'Net': \.\.\.\}"):
        skout.load(tmp_path / "model")
    with pytest.raises(FileError, match="weights of the file do not fit Net"):
        skout.load(tmp_path / "model", modules={"Net": make_net})
    with pytest.raises(FileError, match=r"must make an nn\.Module"):
        skout.load(tmp_path / "model", modules={"Net": lambda p: p})


def test_lambda_without_a_network_has_no_name(tmp_path):
    model = NeuralRegressor(lambda p: MLP(p), **OPTIONS)
    with pytest.raises(TypeError, match="module is a lambda"):
        skout.save(model, tmp_path / "model")


def test_other_classes_are_refused(tmp_path):
    skout.save(regressor("class"), tmp_path / "model")
    header, arrays = read_file(tmp_path / "model")
    text = arrays["structure"].tobytes()
    del header["format"]
    for other in (b'"deep.Training"', b'"skout.deep.Trainer"', b'"skout.deep.training.Training"'):
        bad = text.replace(b'"skout.deep.Training"', other)
        write_file(tmp_path / "bad", {**arrays, "structure": np.frombuffer(bad, np.uint8)}, header)
        with pytest.raises(FileError, match="which is not skout's"):
            skout.load(tmp_path / "bad")


def test_weights_must_fit_the_settings(tmp_path):
    skout.save(regressor("transformer"), tmp_path / "model")
    header, arrays = read_file(tmp_path / "model")
    text = arrays["structure"].tobytes()
    del header["format"]
    for setting, value in [
        (b"width", b"80"),
        (b"n_layers", b"10000000"),
        (b"max_length", b"9" * 9),
    ]:
        changed = re.sub(rb'(\["%s",)\d+' % setting, rb"\g<1>" + value, text)
        crafted = {**arrays, "structure": np.frombuffer(changed, np.uint8)}
        write_file(tmp_path / "bad", crafted, header)
        with pytest.raises(FileError, match=r"cannot fill|do not fit"):
            skout.load(tmp_path / "bad")


def test_card_is_not_needed_to_load(tmp_path, monkeypatch):
    model = regressor("class")
    model.device = "cuda"
    skout.save(model, tmp_path / "model")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    again = skout.load(tmp_path / "model")
    assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="asks for a GPU"):
        again.fit(X, LABELS)


# Text encoders ------------------------------------------------------------------------------------

TEXTS = ["a red acid", "", "salt of a blue acid", "unheard of"] * 6


@pytest.fixture(params=["bert", "distilbert", "roberta", "t5"])
def hub(request, tmp_path):
    """A folder with a tiny random model and a tokenizer of a few words."""
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "blue", "acid", "of", "salt"]
    small = {"vocab_size": 12, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 24}
    small |= {"num_attention_heads": 2, "max_position_embeddings": 40}
    config = {
        "bert": lambda: transformers.BertConfig(**small),
        "roberta": lambda: transformers.RobertaConfig(**small, pad_token_id=0),
        "distilbert": lambda: transformers.DistilBertConfig(
            vocab_size=12, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=40
        ),
        "t5": lambda: transformers.T5Config(
            vocab_size=12, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2
        ),
    }[request.param]()
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    folder = tmp_path / "hub"
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    transformers.BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(folder)
    return folder


def text_regressor(folder, **options):
    module = functools.partial(TextEncoder, model=folder, max_length=32, hidden=(5,), **options)
    return NeuralRegressor(module, **OPTIONS).fit(TEXTS, LABELS)


def test_text_encoder_needs_no_folder_to_load(hub, tmp_path):
    model = text_regressor(hub)
    expected = model.predict(TEXTS)
    skout.save(model, tmp_path / "model")
    shutil.rmtree(hub)
    again = skout.load(tmp_path / "model")
    assert_array_equal(again.predict(TEXTS), expected)
    skout.save(again, tmp_path / "second")
    assert_array_equal(skout.load(tmp_path / "second").predict(TEXTS), expected)
    assert str(hub).encode() not in (tmp_path / "model").read_bytes()  # a file names no other file
    with pytest.raises(TypeError, match="needs it again to be fitted"):
        again.fit(TEXTS, LABELS)


@pytest.mark.parametrize("hub", ["bert"], indirect=True)
def test_text_encoder_as_an_instance(hub, tmp_path):
    model = NeuralRegressor(TextEncoder(4, hub, max_length=32, freeze=True), **OPTIONS)
    skout.save(model, tmp_path / "model")
    shutil.rmtree(hub)
    expected = model.fit(TEXTS, LABELS).predict(TEXTS)
    again = skout.load(tmp_path / "model")
    assert_array_equal(again.fit(TEXTS, LABELS).predict(TEXTS), expected)


@pytest.mark.parametrize("hub", ["bert"], indirect=True)
def test_unknown_text_encoders_are_given(hub, tmp_path, monkeypatch):
    unfitted = NeuralRegressor(functools.partial(TextEncoder, model=hub), **OPTIONS)
    skout.save(unfitted, tmp_path / "unfitted")
    with pytest.raises(ValueError, match="needs TextEncoder"):
        skout.load(tmp_path / "unfitted")
    monkeypatch.setattr(text, "_KINDS", ())
    model = text_regressor(hub)
    skout.save(model, tmp_path / "model")
    with pytest.raises(ValueError, match="needs TextEncoder"):
        skout.load(tmp_path / "model")
    again = skout.load(tmp_path / "model", modules={"TextEncoder": model.module})
    assert_array_equal(again.predict(TEXTS), model.predict(TEXTS))


@pytest.mark.parametrize("hub", ["bert"], indirect=True)
def test_crafted_text_encoders_are_refused(hub, tmp_path):
    skout.save(text_regressor(hub), tmp_path / "model")
    header, arrays = read_file(tmp_path / "model")
    del header["format"]
    structure = json.loads(arrays["structure"].tobytes())
    for name, value, message in [
        ("kind", "llama", "must be of one of the kinds"),
        ("attention", "someone/kernel", "with attention of"),
        ("num_hidden_layers", 10**7, "its weights cannot fill"),
        ("vocab_size", 10**9, "its weights cannot fill"),
        ("hidden_size", 32, "do not fit"),
        ("auto_map", "someone/code", r"settings that a bert has not: \['auto_map'\]"),
        ("_attn_implementation", "someone/kernel", "settings that a bert has not"),
        ("tokenizer", "{}", "tokenizer that cannot be read"),
    ]:
        changed = json.loads(json.dumps(structure))
        pairs = [node["items"] for node in changed["nodes"] if node["kind"] == "dict"]
        wanted = "settings" if name in ("kind", "attention", "tokenizer") else "vocab_size"
        (items,) = [one for one in pairs if any(key == wanted for key, _ in one)]
        items[:] = [[key, old] for key, old in items if key != name] + [[name, value]]
        text = np.frombuffer(json.dumps(changed).encode(), np.uint8)
        write_file(tmp_path / "bad", {**arrays, "structure": text}, header)
        with pytest.raises(FileError, match=message):
            skout.load(tmp_path / "bad")
