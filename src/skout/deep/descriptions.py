"""Text encoders of Hugging Face as plain values: kind, sizes, and the JSON of the tokenizer.

A description names no file and no address, and none of its values can make transformers fetch or
run anything: kinds of models, attention and settings are from lists, and settings are plain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["description", "from_description", "import_transformers"]

# Encoders that are all in transformers, and whose settings are numbers and words.
_KINDS = (
    *("albert", "bert", "camembert", "distilbert", "electra", "mpnet", "roberta"),
    *("t5", "xlm-roberta"),
)
_ATTENTION = ("eager", "sdpa")  # others may be fetched
_NOT_SETTINGS = {"architectures", "dtype", "model_type", "torch_dtype", "transformers_version"}
_TOKENS = tuple(f"{name}_token" for name in ("bos", "cls", "eos", "mask", "pad", "sep", "unk"))


def description(encoder: Any, tokenizer: Any) -> dict[str, Any] | None:
    """Return the values from which an equal encoder and tokenizer are made, None if there are none.

    Parameters
    ----------
    encoder : transformers.PreTrainedModel
        Its weights are not in the description.
    tokenizer : transformers.PreTrainedTokenizerBase
        One that works in Rust; others have no JSON.
    """
    config, backend = encoder.config, getattr(tokenizer, "backend_tokenizer", None)
    attention = getattr(config, "_attn_implementation", None)
    if config.model_type not in _KINDS or attention not in _ATTENTION or backend is None:
        return None
    known = _settings(config.model_type)
    found = {name: value for name, value in config.to_dict().items() if name in known}
    special = {name: tokenizer.special_tokens_map.get(name) for name in _TOKENS}
    return {
        "kind": config.model_type,
        "attention": attention,
        "settings": {name: value for name, value in found.items() if _is_plain(value)},
        "tokenizer": backend.to_str(),
        "special": {name: str(token) for name, token in special.items() if token is not None},
        "max_length": int(tokenizer.model_max_length),
        "truncation_side": tokenizer.truncation_side,
    }


def from_description(model: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the encoder, with random weights, and the tokenizer of a description.

    Parameters
    ----------
    model : dict
    """
    transformers = import_transformers()
    kind, attention, settings = model["kind"], model["attention"], model["settings"]
    if kind not in _KINDS or attention not in _ATTENTION:
        raise ValueError(
            f"model must be of one of the kinds {_KINDS} with attention of {_ATTENTION}. "
            f"Got {kind!r} with {attention!r} instead."
        )
    known = _settings(kind)
    strange = [name for name, value in settings.items() if not (name in known and _is_plain(value))]
    if strange:
        raise ValueError(f"model has settings that a {kind} has not: {strange}.")
    config = transformers.CONFIG_MAPPING[kind](**settings)
    if kind == "t5":  # what was described is its encoder; the decoder is thrown away
        config.is_encoder_decoder, config.num_decoder_layers = True, 1
    make = transformers.AutoModel.from_config
    encoder = make(config, attn_implementation=attention, trust_remote_code=False)
    return encoder.eval(), _tokenizer(transformers, model)


def _tokenizer(transformers: Any, model: Mapping[str, Any]) -> Any:
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
    names = import_transformers().CONFIG_MAPPING[kind]().to_dict()
    return {name for name in names if name not in _NOT_SETTINGS and not name.startswith("_")}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def import_transformers() -> Any:
    """Return the package, or say how to install it."""
    try:
        import transformers
    except ImportError as error:
        raise ImportError("TextEncoder needs transformers: pip install skout[text]") from error
    return transformers
