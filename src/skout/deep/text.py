"""Text encoders from Hugging Face, with a head of the wanted size."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor, nn

from .._numerics.arrays import row_slices
from .._numerics.extras import extra
from .._numerics.validation import check_choice, check_number
from .modules import (
    Config,
    Described,
    check_dropout,
    check_strings,
    check_widths,
    dense_layers,
    pool,
)

#: transformers.PreTrainedModel and PreTrainedTokenizerBase: an optional library.
Encoder: TypeAlias = Any
Tokenizer: TypeAlias = Any
ModelLike: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | TextEncoder"

# Kinds of encoders that files may have: their code is in transformers, their settings are plain.
_KINDS = (
    *("albert", "bert", "camembert", "distilbert", "electra", "mpnet", "roberta"),
    *("t5", "xlm-roberta"),
)
_ATTENTION = ("eager", "sdpa")  # others may be fetched
_NOT_SETTINGS = {"architectures", "dtype", "model_type", "torch_dtype", "transformers_version"}
_TOKENS = tuple(f"{name}_token" for name in ("bos", "cls", "eos", "mask", "pad", "sep", "unk"))
_TOKENIZED = 1000  # texts at a time: the tokenizer's own results are many times larger than the ids


class TextEncoder(Described):
    """A pretrained text encoder and a head (`pip install "skout[text]"`).

    Parameters
    ----------
    n_outputs : int
        Number of outputs.
    model : str, path, dict or TextEncoder
        A local folder, or the name of a model on the Hugging Face hub, that AutoModel and
        AutoTokenizer can read. Of an encoder-decoder model the encoder is taken. A dict, as in
        `config`, makes a model of that kind with random weights. Another `TextEncoder` gives a
        copy of its model, such as one that was trained on more texts before.
    pooling : {"mean", "cls"}, default "mean"
        From the vectors of the tokens to one: their mean, or the vector of the first token.
    hidden : sequence of int, default ()
        Widths of hidden layers between the encoder and the outputs, with ReLU.
    dropout : float, default 0.1
        Dropout of the pooled vector and of the hidden layers in training, in [0, 1).
    max_length : int, default 256
        Longer texts are cut off at this number of tokens.
    freeze : bool, default False
        Train the head only; the encoder stays as it is, its own dropout off.

    Attributes
    ----------
    encoder : transformers.PreTrainedModel
        In float32, whatever the precision of the stored weights.
    tokenizer : transformers.PreTrainedTokenizerBase
        The tokenizer of the encoder.
    pad_id : int
        The token that fills up a batch.
    config : dict or None
        The parameters, from which an equal module can be built without the folder. None where the
        model or its tokenizer is of a kind that cannot be described so.

    Examples
    --------
    >>> import functools
    >>> from skout.deep import TextEncoder
    >>> name = "sentence-transformers/all-MiniLM-L6-v2"
    >>> module = functools.partial(TextEncoder, model=name, pooling="mean", max_length=128)

    `module` is what to give to a regressor, which calls it with the number of outputs; the model
    is read then:

    >>> module(100)  # doctest: +SKIP
    """

    encoder: Encoder
    tokenizer: Tokenizer

    def __init__(
        self,
        n_outputs: int,
        model: ModelLike,
        *,
        pooling: str = "mean",
        hidden: Sequence[int] = (),
        dropout: float = 0.1,
        max_length: int = 256,
        freeze: bool = False,
    ) -> None:
        super().__init__()
        # All options before the model, which may take long to come.
        check_number(n_outputs, "n_outputs", low=1, integer=True)
        check_choice(pooling, "pooling", ("mean", "cls"))
        check_number(max_length, "max_length", low=1, integer=True)
        check_choice(freeze, "freeze", (True, False))
        check_dropout(dropout)
        hidden = check_widths(hidden)
        self._options = {"n_outputs": n_outputs, "hidden": hidden, "dropout": dropout}
        self.pooling = pooling
        self.max_length = max_length
        self.freeze = freeze
        self.encoder, self.tokenizer = _pretrained(model)
        _check_reach(max_length, self.encoder, self.tokenizer)
        self.pad_id: int = _pad_id(self.tokenizer)
        self.encoder.requires_grad_(not freeze)
        self.dropout: nn.Dropout = nn.Dropout(dropout)
        width = self.encoder.config.hidden_size
        self.head: nn.Sequential = dense_layers(
            n_outputs, n_inputs=width, hidden=hidden, dropout=dropout
        )
        self.train()  # what was read is in evaluation mode

    @property
    def config(self) -> Config | None:  # type: ignore[override]
        described = _description(self.encoder, self.tokenizer)
        if described is None:
            return None
        others = {name: getattr(self, name) for name in ("pooling", "max_length", "freeze")}
        return {**self._options, **others, "model": described}

    def train(self, mode: bool = True) -> TextEncoder:
        """Set training mode, or evaluation mode; a frozen encoder stays in evaluation mode."""
        super().train(mode)
        self.encoder.train(mode and not self.freeze)
        return self

    def tokenize(self, strings: Iterable[str]) -> list[np.ndarray]:
        """Return the token ids of texts, cut off at max_length, as `CharTransformer.tokenize`."""
        texts = check_strings(strings)
        ids: list[np.ndarray] = []
        for part in row_slices(len(texts), _TOKENIZED):
            batch = self.tokenizer(
                texts[part],
                truncation=True,
                max_length=self.max_length,
                return_attention_mask=False,
                return_token_type_ids=False,
            )
            # Where a tokenizer adds no token of its own, an empty text has none: attend to one.
            ids += [np.array(row or [self.pad_id], np.int64) for row in batch["input_ids"]]
        return ids

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the outputs of a batch, as `CharTransformer.forward` does."""
        encoded = self.encoder(input_ids=input_ids, attention_mask=attention_mask.long())
        pooled = pool(encoded.last_hidden_state, attention_mask.bool(), self.pooling)
        out: Tensor = self.head(self.dropout(pooled))
        return out


def _pretrained(model: ModelLike) -> tuple[Encoder, Tokenizer]:
    """Return the encoder, in float32, and the tokenizer of a folder, a name or a description."""
    if isinstance(model, TextEncoder):
        return copy.deepcopy(model.encoder), model.tokenizer
    if isinstance(model, Mapping):
        encoder, tokenizer = _from_description(model)
    elif isinstance(model, str | os.PathLike):
        transformers = _transformers()
        encoder = transformers.AutoModel.from_pretrained(os.fspath(model))
        tokenizer = transformers.AutoTokenizer.from_pretrained(os.fspath(model))
    else:
        raise TypeError(
            f"model must be a local folder or the name of a model. Got {model!r} instead; a model "
            "that was loaded from a file needs it again to be fitted."
        )
    encoder = encoder.float()
    if encoder.config.is_encoder_decoder:
        encoder = encoder.get_encoder()
    if isinstance(getattr(encoder, "pooler", None), nn.Module):
        encoder.pooler = nn.Identity()  # its weights would never get a gradient
    return encoder, tokenizer


def _check_reach(max_length: int, encoder: Encoder, tokenizer: Tokenizer) -> None:
    """Raise if max_length is more than the number of tokens that the model can read."""
    positions = getattr(encoder.config, "max_position_embeddings", None) or max_length
    reach = min(positions, tokenizer.model_max_length)
    if max_length > reach:
        raise ValueError(
            f"max_length must be at most {reach}, the most tokens that the model reads. "
            f"Got {max_length} instead."
        )


def _pad_id(tokenizer: Tokenizer) -> int:
    """Return the id of the padding token, else of the end token, else 0; masks hide it."""
    for token in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    return 0


# Encoders as plain values: kind, settings, and the JSON of the tokenizer. A description names no
# file and no address, and none of its values can make transformers fetch or run anything: kinds of
# models, attention and settings are from lists, and settings are plain.


def _description(encoder: Encoder, tokenizer: Tokenizer) -> Config | None:
    """Return the values from which an equal encoder and tokenizer are made, but for the weights.

    None where that is not possible, as of a tokenizer in Python, which has no JSON.
    """
    config, backend = encoder.config, getattr(tokenizer, "backend_tokenizer", None)
    attention = getattr(config, "_attn_implementation", None)
    if config.model_type not in _KINDS or attention not in _ATTENTION or backend is None:
        return None
    allowed = _settings(config.model_type)
    settings = {name: value for name, value in config.to_dict().items() if name in allowed}
    special = {name: tokenizer.special_tokens_map.get(name) for name in _TOKENS}
    return {
        "kind": config.model_type,
        "attention": attention,
        "settings": {name: value for name, value in settings.items() if _is_plain(value)},
        "tokenizer": backend.to_str(),
        "special": {name: str(token) for name, token in special.items() if token is not None},
        "max_length": int(tokenizer.model_max_length),
        "truncation_side": tokenizer.truncation_side,
    }


def _from_description(model: Mapping[str, Any]) -> tuple[Encoder, Tokenizer]:
    """Return the encoder, with random weights, and the tokenizer of a description."""
    transformers = _transformers()
    kind, attention, settings = model["kind"], model["attention"], model["settings"]
    if kind not in _KINDS or attention not in _ATTENTION:
        raise ValueError(
            f"model must be of one of the kinds {_KINDS} with attention of {_ATTENTION}. "
            f"Got {kind!r} with {attention!r} instead."
        )
    allowed = _settings(kind)
    bad = [name for name, value in settings.items() if not (name in allowed and _is_plain(value))]
    if bad:
        raise ValueError(f"model has settings that a {kind} has not: {bad}.")
    config = transformers.CONFIG_MAPPING[kind](**settings)
    if kind == "t5":  # what was described is its encoder; the decoder is thrown away
        config.is_encoder_decoder, config.num_decoder_layers = True, 1
    make = transformers.AutoModel.from_config
    encoder = make(config, attn_implementation=attention, trust_remote_code=False)
    return encoder.eval(), _tokenizer(transformers, model)


def _tokenizer(transformers: ModuleType, model: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer of a description, or raise where it cannot be read."""
    import tokenizers

    try:
        backend = tokenizers.Tokenizer.from_str(model["tokenizer"])
    except BaseException as error:  # a panic of Rust is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise ValueError(f"model has a tokenizer that cannot be read: {error}") from error
    special = {name: str(model["special"][name]) for name in _TOKENS if name in model["special"]}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=int(model["max_length"]),
        truncation_side=model["truncation_side"],
        **special,
    )


def _settings(kind: str) -> set[str]:
    """Return the names of the settings that a kind of model has."""
    names = _transformers().CONFIG_MAPPING[kind]().to_dict()
    return {name for name in names if name not in _NOT_SETTINGS and not name.startswith("_")}


def _is_plain(value: object) -> bool:
    """Whether a setting is None, a number or a text."""
    return value is None or isinstance(value, bool | int | float | str)


def _transformers() -> ModuleType:
    """Return the package, or say how to install it."""
    with extra("text", "TextEncoder needs transformers"):
        import transformers
    return transformers
