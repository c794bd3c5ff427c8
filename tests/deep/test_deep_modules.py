"""Networks: shapes, padding that changes nothing, gradients everywhere, copies, bad options."""

import copy
import functools
import math
import pickle
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from skout.deep import text as text_module  # noqa: E402
from skout.deep.modules import MLP, CharTransformer, pool  # noqa: E402
from skout.deep.text import TextEncoder  # noqa: E402

STRINGS = ["CCO", "", "c1ccccc1C(=O)O", "naïve – 日本", "N"]
WORDS = ["a", "red", "blue", "acid", "of", "salt", "water"]
TEXTS = ["a red acid", "", "salt of a blue acid of a red water", "water", "unheard of"]

small = functools.partial(CharTransformer, width=16, n_layers=2, n_heads=2, feed_forward=24)
TINY = small(1)


@pytest.fixture(autouse=True)
def _seed_and_threads():
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on a busy machine, threads that wait for each other take most time
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
    torch.set_num_threads(n_threads)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Tiny random models saved with a tokenizer of a few words, one folder for each kind."""
    transformers = pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("models")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    sizes = {"vocab_size": len(vocabulary), "hidden_size": 16, "num_hidden_layers": 2}
    bert = transformers.BertConfig(
        **sizes, num_attention_heads=2, intermediate_size=24, max_position_embeddings=32
    )
    t5 = transformers.T5Config(
        vocab_size=len(vocabulary), d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2
    )
    configs = {"bert": bert, "t5": t5}
    (root / "vocab.txt").write_text("\n".join(vocabulary))
    tokenizer = transformers.BertTokenizerFast(str(root / "vocab.txt"))
    for name, config in configs.items():
        with torch.random.fork_rng():
            torch.manual_seed(1)
            transformers.AutoModel.from_config(config).save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return root


@pytest.fixture
def bert(folders):
    return functools.partial(TextEncoder, model=folders / "bert", max_length=32)


def run(module, strings):
    """Do what the trainer does with a batch of strings."""
    rows = module.tokenize(strings)
    ids = np.full((len(rows), max(map(len, rows))), module.pad_id)
    mask = np.zeros(ids.shape, dtype=bool)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, True
    return module(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask))


def without_gradient(module, outputs):
    """Return the names of the parameters that the loss does not move."""
    (outputs**2).sum().backward()
    found = module.named_parameters()
    return [name for name, p in found if p.grad is None or not p.grad.abs().max() > 0]


def check_copies(module, forward):
    """Deep copies and pickles give the same outputs, and share no weights with the original."""
    expected = forward(module)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(forward(twin), expected)
        with torch.no_grad():
            for p in twin.parameters():
                p.zero_()
        assert not torch.equal(forward(twin), expected)
    assert torch.equal(forward(module), expected)


def check_strings_module(module, strings):
    """Eval mode: padding changes nothing, twice is the same; train mode drops out."""
    module.eval()
    batch = run(module, strings)
    assert batch.shape == (len(strings), 3)
    assert torch.isfinite(batch).all()
    assert torch.equal(run(module, strings), batch)
    for string, together in zip(strings, batch, strict=True):
        torch.testing.assert_close(run(module, [string])[0], together, rtol=0, atol=1e-5)
    assert len({tuple(row.round(decimals=4).tolist()) for row in batch}) == len(strings)
    with torch.no_grad():  # where torch has code of its own for Transformer layers
        torch.testing.assert_close(run(module, strings), batch, rtol=0, atol=1e-5)
    module.train()
    assert not torch.equal(run(module, strings), run(module, strings))


# MLP ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh"])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("hidden", [(), (7,), [7, 6, 5]])
def test_mlp_shapes_and_gradients(hidden, activation, layer_norm):
    module = MLP(3, hidden=hidden, activation=activation, layer_norm=layer_norm)
    outputs = module(torch.randn(20, 4))
    assert outputs.shape == (20, 3)
    widths = [m.out_features for m in module.modules() if isinstance(m, nn.Linear)]
    assert widths == [*hidden, 3]
    assert sum(isinstance(m, nn.LayerNorm) for m in module.modules()) == len(hidden) * layer_norm
    assert without_gradient(module, outputs) == []


def test_mlp_is_the_formula():
    module, x = MLP(3, hidden=(5,), activation="tanh"), torch.randn(6, 4)
    found = module(x)
    first, last = (m for m in module.modules() if isinstance(m, nn.Linear))
    expected = torch.tanh(x @ first.weight.T + first.bias) @ last.weight.T + last.bias
    torch.testing.assert_close(found, expected)


def test_mlp_dropout_only_in_training():
    module, x = MLP(3, hidden=(50,), dropout=0.5), torch.randn(6, 4)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


def test_mlp_copies():
    x = torch.randn(6, 4)
    module = MLP(3, hidden=(5,))
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):  # before any batch
        assert twin(torch.randn(6, 9)).shape == (6, 3)
    module(x)  # still free to take another number of features
    check_copies(module, lambda m: m(x))


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4)])
def test_mlp_takes_vectors(shape):
    with pytest.raises(ValueError, match=re.escape(f"shape (b, d). Got shape {shape}")):
        MLP(3)(torch.zeros(shape))


# Strings -----------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=20)))
def test_tokens_are_bytes(strings):
    module = TINY
    ids = module.tokenize(strings)
    assert [row.dtype for row in ids] == [np.int64] * len(strings)
    assert all(row[0] == 1 and (row != module.pad_id).all() for row in ids)
    assert [bytes((row[1:] - 2).tolist()).decode() for row in ids] == strings


def test_strings_from_arrays():
    expected = small(1).tokenize(["ab", "c"])
    for given_as in (np.array(["ab", "c"]), ("ab", "c"), np.array(["ab", "c"], dtype=object)):
        for found, row in zip(small(1).tokenize(given_as), expected, strict=True):
            assert_array_equal(found, row)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_char_transformer(pooling):
    module = small(3, pooling=pooling)
    check_strings_module(module, STRINGS)
    module.eval()
    check_copies(module, lambda m: run(m, STRINGS))
    assert without_gradient(module, run(module, STRINGS)) == []


def test_order_of_characters_matters():
    outputs = run(small(3).eval(), ["ab", "ba"])
    assert (outputs[0] - outputs[1]).abs().max() > 1e-4


def test_layers_start_apart():
    first, second = small(3).layers
    assert not torch.equal(first.linear1.weight, second.linear1.weight)


def test_positions_are_sinusoids():
    module = small(1, max_length=30)
    expected = np.empty((31, 16))
    for t in range(31):
        for i in range(8):
            angle = t / 10_000 ** (2 * i / 16)
            expected[t, 2 * i : 2 * i + 2] = math.sin(angle), math.cos(angle)
    np.testing.assert_allclose(module.positions.numpy(), expected, atol=1e-5)
    assert "positions" not in module.state_dict()


def test_longest_string():
    module = small(3, max_length=4).eval()
    assert run(module, ["abcd", "éé"]).shape == (2, 3)
    message = "at most max_length=4 bytes. Got 6 bytes at index 1; raise max_length"
    with pytest.raises(ValueError, match=re.escape(message)):
        module.tokenize(["ok", "ééé", "toolong"])
    ids = torch.ones(2, 6, dtype=torch.long)
    with pytest.raises(ValueError, match=re.escape("at most 5 columns")):
        module(input_ids=ids, attention_mask=ids > 0)


def test_pool_against_a_loop():
    tokens, lengths = torch.randn(4, 5, 3), [5, 1, 3, 2]
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    tokens[~mask] = math.nan  # must not be looked at
    rows = [row[:n] for row, n in zip(tokens, lengths, strict=True)]
    torch.testing.assert_close(pool(tokens, mask, "mean"), torch.stack([r.mean(0) for r in rows]))
    assert torch.equal(pool(tokens, mask, "max"), torch.stack([r.amax(0) for r in rows]))
    assert torch.equal(pool(tokens, mask, "cls"), tokens[:, 0])


def test_char_transformer_learns():
    """Which of two letters comes first: not to be had from counts alone."""
    strings = ["ab", "ba", "aab", "bba", "abb", "baa"]
    targets = torch.tensor([1.0, -1.0] * 3)[:, None]
    module = small(1, dropout=0.0)
    optimizer = torch.optim.Adam(module.parameters(), lr=5e-3)
    for _ in range(60):
        loss = ((run(module, strings) - targets) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.01


# Hugging Face ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("hidden", [(), (12,)])
def test_text_encoder(bert, pooling, hidden):
    module = bert(3, pooling=pooling, hidden=hidden)
    check_strings_module(module, TEXTS)
    module.eval()
    check_copies(module, lambda m: run(m, TEXTS))
    # The softmax does not see a bias of the keys.
    still = without_gradient(module, run(module, TEXTS))
    assert [name for name in still if not name.endswith("key.bias")] == []


def test_text_encoder_of_encoder_decoder(folders):
    module = TextEncoder(3, folders / "t5")
    check_strings_module(module, TEXTS)
    assert without_gradient(module.eval(), run(module, TEXTS)) == []


def test_text_tokens(bert, monkeypatch):
    module = bert(1, max_length=4)
    ids = module.tokenize(["a red", "", "salt of a red water", "other"])
    assert [row.tolist() for row in ids] == [[2, 5, 6, 3], [2, 3], [2, 10, 9, 3], [2, 1, 3]]
    assert all(row.dtype == np.int64 for row in ids)
    assert module.pad_id == 0
    monkeypatch.setattr(text_module, "_TOKENIZED", 3)
    again = module.tokenize(["a red", "", "salt of a red water", "other"])
    assert [row.tolist() for row in again] == [row.tolist() for row in ids]


def test_text_without_special_tokens(bert):
    module = bert(3).eval()
    module.tokenizer.backend_tokenizer.post_processor = None
    if any(len(row) for row in module.tokenizer([""])["input_ids"]):
        pytest.skip("this tokenizer adds tokens of its own in another way")
    assert [row.tolist() for row in module.tokenize([""])] == [[module.pad_id]]
    assert torch.isfinite(run(module, ["", "red acid"])).all()


def test_text_encoder_reads_the_weights(bert, folders):
    import transformers

    module = bert(3).eval()
    expected = transformers.AutoModel.from_pretrained(folders / "bert").eval()
    ids = torch.from_numpy(module.tokenize(["a red acid"])[0])[None]
    last = expected(input_ids=ids).last_hidden_state
    torch.testing.assert_close(run(module, ["a red acid"]), module.head(last.mean(1)))


def test_half_precision_weights_become_float32(folders, tmp_path):
    import transformers

    model = transformers.AutoModel.from_pretrained(folders / "bert").half()
    model.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(folders / "bert").save_pretrained(tmp_path)
    module = TextEncoder(3, str(tmp_path), max_length=32)
    assert {p.dtype for p in module.parameters()} == {torch.float32}


def test_frozen_encoder(bert):
    module = bert(3, freeze=True)
    assert module.training
    assert not any(part.training for part in module.encoder.modules())
    still = without_gradient(module, run(module, TEXTS))
    assert still == [f"encoder.{name}" for name, _ in module.encoder.named_parameters()]
    assert len(still) < len(list(module.parameters()))
    module.eval().train()
    assert not module.encoder.training
    assert bert(3).encoder.training


def test_dropout_of_the_pooled_vector(bert):
    module = bert(3, freeze=True, dropout=0.5)  # the encoder itself drops nothing
    assert not torch.equal(run(module, TEXTS), run(module, TEXTS))
    module = bert(3, freeze=True, dropout=0.0)
    assert torch.equal(run(module, TEXTS), run(module, TEXTS))


def test_text_without_transformers(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=re.escape('pip install "skout[text]"')):
        TextEncoder(3, "any")


def test_text_longer_than_the_model_reads(bert):
    with pytest.raises(ValueError, match=r"max_length must be at most 32, .* Got 33 instead"):
        bert(3, max_length=33)


# Bad options -------------------------------------------------------------------------------------


def test_an_encoder_goes_on_from_another(bert):
    before = bert(4)
    with torch.no_grad():
        for p in before.encoder.parameters():
            p.add_(0.1 * torch.randn_like(p))
    after = TextEncoder(3, before, max_length=32).eval()
    assert after.head[-1].out_features == 3
    ours, theirs = after.encoder.state_dict(), before.encoder.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    with torch.no_grad():
        next(after.encoder.parameters()).zero_()
    assert next(before.encoder.parameters()).abs().max() > 0  # a copy
    assert after.config["model"] == before.config["model"]
    assert_array_equal(after.tokenize(TEXTS)[0], before.tokenize(TEXTS)[0])


def test_pairs_teach_an_encoder_that_dsokr_goes_on_with(folders):
    """The chain of deep.md, in small: reading, mapped outputs, DSOKR, both sides, hubs."""
    from skout import EndToEnd, correct_hubness, dsokr
    from skout.deep import Training
    from skout.sketches import SubSample

    def settings(epochs):
        return Training(epochs, 32, 2e-3, head_lr=1e-2, precision="bfloat16")

    rng = np.random.default_rng(0)
    words = np.array(WORDS)[rng.permuted(np.tile(np.arange(len(WORDS)), (120, 1)), axis=1)[:, :3]]
    texts = [" ".join(row) for row in words]
    table = dict(zip(WORDS, rng.standard_normal((len(WORDS), 6)), strict=True))
    Y = np.array([sum(table[word] for word in row) for row in words])
    base = functools.partial(TextEncoder, model=folders / "bert", max_length=32)
    options = {"output_sketch": SubSample(40), "random_state": 0}
    first = dsokr(base, "cosine", training=settings(0), **options)
    reader = EndToEnd(first, hidden=8, negatives=64, training=settings(15)).fit(texts, Y)
    losses = [row["train_loss"] for row in reader.regressor_.history_]
    assert losses[-1] < 0.7 * losses[0]
    Z = reader.output_basis_.transform(Y)
    read = functools.partial(TextEncoder, model=reader.regressor_.module_, max_length=32)
    model = dsokr(read, "cosine", training=settings(15), **options)
    both = EndToEnd(model, hidden=8, negatives=64, training=settings(5)).fit(texts, Z - Z.mean(0))
    pool = correct_hubness(both, texts, Z - Z.mean(0), cv="prefit", random_state=0)
    ranks = both.truth_ranks(texts, Z - Z.mean(0), pool)
    assert np.mean(1.0 / ranks) > 0.3  # of about 30 sets of words; by chance it is 0.13


def test_what_is_new_beside_an_encoder_has_a_rate_of_its_own(bert):
    from skout.deep import NeuralRegressor, Training

    T = np.random.default_rng(0).standard_normal((len(TEXTS), 3))
    drawn = NeuralRegressor(bert, training=Training(0), random_state=0).fit(TEXTS, T).module_
    moved = {}
    for name, rates in {"both": {}, "head": {"head_lr": 1e-2}, "still": {"head_lr": 1e-30}}.items():
        training = Training(1, 8, 1e-30 if name == "head" else 1e-3, warmup=0.0, **rates)
        module = NeuralRegressor(bert, training=training, random_state=0).fit(TEXTS, T).module_
        pairs = zip(drawn.named_parameters(), module.parameters(), strict=True)
        change = {n: float((p - q).detach().abs().max()) for (n, p), q in pairs}
        moved[name] = [
            max(v for n, v in change.items() if n.startswith("encoder") is inside)
            for inside in (True, False)
        ]
    assert min(moved["both"]) > 5e-4
    assert moved["head"][0] < 1e-12 < 5e-3 < moved["head"][1]
    assert moved["still"][1] < 1e-12 < 5e-4 < moved["still"][0]


text = functools.partial(TextEncoder, model="never read")
BAD = [
    *((make, "n_outputs", 0, ValueError, "an integer >= 1. Got 0") for make in (MLP, small, text)),
    *((make, "n_outputs", 2.5, TypeError, "an integer >= 1") for make in (MLP, small, text)),
    *((make, "dropout", 1.0, ValueError, "in [0, 1). Got 1.0") for make in (MLP, small, text)),
    *((make, "dropout", -0.1, ValueError, ">= 0. Got -0.1") for make in (MLP, small, text)),
    *((make, "hidden", 512, TypeError, "of integers >= 1. Got 512") for make in (MLP, text)),
    *((make, "hidden", "12", TypeError, "of integers >= 1. Got '12'") for make in (MLP, text)),
    *((make, "hidden", (4, 0), ValueError, "[1] must be an integer >= 1") for make in (MLP, text)),
    *((make, "max_length", 0, ValueError, "an integer >= 1. Got 0") for make in (small, text)),
    (MLP, "activation", "rely", ValueError, "'tanh'. Got 'rely' instead. Did you mean 'relu'?"),
    (MLP, "layer_norm", "yes", ValueError, "True, False. Got 'yes'"),
    (small, "pooling", "sum", ValueError, "'mean', 'cls', 'max'. Got 'sum'"),
    (small, "width", 15, ValueError, "a multiple of n_heads=2. Got 15"),
    (small, "n_heads", 0, ValueError, "an integer >= 1. Got 0"),
    (small, "n_layers", 0, ValueError, "an integer >= 1. Got 0"),
    (small, "feed_forward", 0, ValueError, "an integer >= 1. Got 0"),
    (text, "pooling", "max", ValueError, "'mean', 'cls'. Got 'max'"),
    (text, "freeze", "all", ValueError, "True, False. Got 'all'"),
    (text, "model", 3, TypeError, "a local folder or the name of a model. Got 3"),
]


@pytest.mark.parametrize(("make", "name", "value", "error", "message"), BAD)
def test_bad_options(make, name, value, error, message):
    with pytest.raises(error) as raised:
        make(**{"n_outputs": 3, name: value})
    assert name in str(raised.value)
    assert message in str(raised.value)


def test_odd_width_of_one_head():
    with pytest.raises(ValueError, match="width must be even"):
        CharTransformer(3, width=15, n_heads=1)


@pytest.mark.parametrize(
    ("strings", "message"),
    [
        ("CCO", "Got str instead; for a single string"),
        (b"CCO", "Got bytes instead"),
        (3, "Got int instead"),
        (["CCO", None], "Got NoneType at index 1"),
        ([b"CCO"], "Got bytes at index 0"),
    ],
)
def test_bad_strings(strings, message):
    with pytest.raises(TypeError, match=message):
        small(3).tokenize(strings)
