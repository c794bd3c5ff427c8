"""Networks to start from: a multilayer perceptron, and a Transformer on the bytes of strings.

A module is built as `Class(n_outputs, **options)`. One that reads strings also has `tokenize`
(strings -> arrays of token ids, not padded) and `pad_id`; the trainer tokenizes once, pads each
batch to its longest row and calls `module(input_ids=..., attention_mask=...)`. A file has the
settings of a network, and its weights as arrays.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .._numerics.files import FileError
from .._numerics.saving import Given
from .._numerics.validation import check_choice, check_number

#: A module, or a class or function that makes one of the number of outputs.
ModuleLike: TypeAlias = nn.Module | type[nn.Module] | Callable[[int], nn.Module]
Config: TypeAlias = dict[str, Any]

_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}


# A file that asks for a module much larger than its weights is refused: entries of buffers that it
# may have beyond them, such as sinusoids of positions (64 MB), and layers if it has few arrays.
_SPARE = 2**24
_LAYERS = 64


# Files -------------------------------------------------------------------------------------------


class Described(nn.Module):
    """Base class of networks that files describe by their settings and weights."""

    #: the parameters, from which an equal module can be built; None where they do not say all
    config: Config | None

    def __skout_state__(self) -> dict[str, Any]:
        if self.config is None:
            raise TypeError(f"{type(self).__name__} has a model that a file cannot describe.")
        return {"config": self.config, "weights": weights_of(self)}

    @classmethod
    def __skout_restore__(cls, state: dict[str, Any]) -> Self:
        config, weights = state["config"], state["weights"]
        if not cls._can_be_filled(config, weights or {}):
            raise FileError(f"The file asks for a {cls.__name__} that its weights cannot fill.")
        module = cls(**config)
        if weights is not None:
            load_weights(module, weights)
        return module

    @classmethod
    def _can_be_filled(cls, config: Config, weights: Mapping[str, np.ndarray]) -> bool:
        """Whether the module of these settings is no larger than its weights in the file."""
        settings = config.get("model", {}).get("settings", {})
        counts = [config.get("n_layers", 0), len(config.get("hidden", ()))]
        counts += [settings[name] for name in settings if "layers" in name or "group" in name]
        if max(count or 0 for count in counts) > max(len(weights), _LAYERS):
            return False
        with torch.device("meta"):  # takes no memory
            probe = cls(**config)
        tensors = [*probe.parameters(), *probe.buffers()]
        needed = sum(tensor.numel() for tensor in tensors if not is_lazy(tensor))
        return needed <= sum(array.size for array in weights.values()) + _SPARE


def weights_of(module: nn.Module) -> dict[str, np.ndarray] | None:
    """Return the weights and buffers of a module as arrays, None where they are not drawn yet."""
    tensors = module.state_dict()
    if any(is_lazy(tensor) for tensor in tensors.values()):
        return None
    try:
        return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    except (AttributeError, TypeError) as error:
        raise TypeError(
            f"{type(module).__name__} has what cannot be saved as an array: {error}"
        ) from error


def load_weights(module: nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    """Fill a module with the weights of a file."""
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise FileError(
            f"The weights of the file do not fit {type(module).__name__}: {error}"
        ) from error


def saved_module(module: ModuleLike, fitted: nn.Module | None) -> ModuleLike | Given:
    """Return the parameter `module` as files have it: itself, or `Given`, passed to `load`."""
    kind = getattr(module, "func", module)
    if is_described(module):
        return module
    if _is_ours(kind) and not getattr(module, "args", ()):
        if "model" not in inspect.signature(kind).parameters:
            return module
        if is_described(fitted):  # it was read from a folder, and a file names no other file
            return functools.partial(kind, **{**getattr(module, "keywords", {}), "model": None})
    item = type(module) if isinstance(module, nn.Module) else module  # members copy instances
    is_users = fitted is not None and not is_described(fitted)
    return Given(item, type(fitted).__name__ if is_users else None)


def is_described(module: object) -> bool:
    """Whether a network can be built from its settings."""
    return _is_ours(type(module)) and getattr(module, "config", None) is not None


def _is_ours(kind: object) -> bool:
    """Whether this is a class of skout, not one that users derived, which may build otherwise."""
    of_ours = isinstance(kind, type) and issubclass(kind, Described)
    return of_ours and kind.__module__.startswith("skout.")


def new_network(module: ModuleLike, n_outputs: int) -> nn.Module:
    """Return a new network from an instance, which is copied, from a class or a callable."""
    if isinstance(module, nn.Module):
        return copy.deepcopy(module)
    if not callable(module):
        raise TypeError(
            "module must be an nn.Module, a class of them, or a callable that takes the number of "
            f"outputs. Got {module!r} instead."
        )
    network = module(n_outputs)
    if not isinstance(network, nn.Module):
        raise TypeError(f"module must make an nn.Module. It made {type(network).__name__}.")
    return network


# Networks ----------------------------------------------------------------------------------------


class MLP(Described):
    """Multilayer perceptron on vectors.

    The first layer finds the number of features at the first batch. Before that batch it has no
    weights: run one before you make an optimizer.

    Parameters
    ----------
    n_outputs : int
        Number of outputs.
    hidden : sequence of int, default (512, 512)
        Widths of the hidden layers; () makes a linear model.
    dropout : float, default 0.0
        Share of the hidden units dropped in training, in [0, 1).
    activation : {"relu", "gelu", "tanh"}, default "relu"
        The function between layers.
    layer_norm : bool, default False
        Normalize each hidden layer before its activation.

    Attributes
    ----------
    config : dict
        The parameters, from which an equal module can be built.

    Examples
    --------
    >>> import torch
    >>> from skout.deep import MLP
    >>> module = MLP(3, hidden=(16,))
    >>> module(torch.zeros(5, 8)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        n_outputs: int,
        *,
        hidden: Sequence[int] = (512, 512),
        dropout: float = 0.0,
        activation: str = "relu",
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        options: Config = {"dropout": dropout, "activation": activation, "layer_norm": layer_norm}
        self.config: Config = {"n_outputs": n_outputs, "hidden": check_widths(hidden), **options}
        self.layers: nn.Sequential = dense_layers(**self.config)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of a batch of shape (b, d), a tensor of shape (b, n_outputs)."""
        if x.ndim != 2:
            raise ValueError(
                "MLP takes a batch of vectors, shape (b, d). "
                f"Got shape {tuple(x.shape)} instead; flatten other arrays first."
            )
        out: Tensor = self.layers(x)
        return out


class CharTransformer(Described):
    """Transformer encoder on the UTF-8 bytes of strings, such as SMILES.

    It needs no vocabulary: a string becomes a start token and its bytes, so that any string can
    be read. Positions are sinusoids, and so also mean something beyond the lengths seen in
    training. Layers are pre-norm.

    Parameters
    ----------
    n_outputs : int
        Number of outputs.
    width : int, default 256
        Size of the vector of a token; even, and a multiple of n_heads.
    n_layers : int, default 4
        Number of layers.
    n_heads : int, default 8
        Attention heads of a layer.
    feed_forward : int, default 1024
        Hidden units of a layer's feed-forward part.
    dropout : float, default 0.1
        Dropout of the layers in training, in [0, 1).
    max_length : int, default 512
        Longest string, in bytes. Longer ones are an error: nothing is cut off silently.
    pooling : {"mean", "cls", "max"}, default "mean"
        From the vectors of the tokens to one: their mean, that of the start token, or the
        maximum of each coordinate.

    Attributes
    ----------
    config : dict
        The parameters, from which an equal module can be built.
    pad_id : int
        The token that fills up a batch, 0.

    Examples
    --------
    >>> import torch
    >>> from skout.deep import CharTransformer
    >>> module = CharTransformer(3, width=16, n_layers=1, n_heads=2, feed_forward=32)
    >>> (ids,) = module.tokenize(["CCO"])
    >>> ids
    array([ 1, 69, 69, 81])
    >>> ids = torch.from_numpy(ids)[None]
    >>> module(input_ids=ids, attention_mask=ids != module.pad_id).shape
    torch.Size([1, 3])
    """

    pad_id = 0
    positions: Tensor
    _START = 1
    _FIRST_BYTE = 2

    max_length: int
    pooling: str

    def __init__(
        self,
        n_outputs: int,
        *,
        width: int = 256,
        n_layers: int = 4,
        n_heads: int = 8,
        feed_forward: int = 1024,
        dropout: float = 0.1,
        max_length: int = 512,
        pooling: str = "mean",
    ) -> None:
        super().__init__()
        n_outputs = check_number(n_outputs, "n_outputs", low=1, integer=True)
        _check_width(width, n_heads)
        check_number(n_layers, "n_layers", low=1, integer=True)
        check_number(feed_forward, "feed_forward", low=1, integer=True)
        check_number(max_length, "max_length", low=1, integer=True)
        check_choice(pooling, "pooling", ("mean", "cls", "max"))
        sizes = {"width": width, "n_layers": n_layers, "n_heads": n_heads}
        sizes |= {"feed_forward": feed_forward, "max_length": max_length}
        self.config: Config = {
            "n_outputs": n_outputs,
            **sizes,
            "dropout": dropout,
            "pooling": pooling,
        }
        self.max_length, self.pooling = max_length, pooling
        self.embedding: nn.Embedding = nn.Embedding(
            256 + self._FIRST_BYTE, width, padding_idx=self.pad_id
        )
        # Computed, so not a part of the weights that are stored; one more for the start token.
        self.register_buffer("positions", _sinusoids(max_length + 1, width), persistent=False)
        self.dropout: nn.Dropout = nn.Dropout(check_dropout(dropout))
        # Not nn.TransformerEncoder: it copies one layer, so that all start from the same weights.
        self.layers: nn.ModuleList = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, n_heads, feed_forward, dropout, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(n_layers)
        )
        self.norm: nn.LayerNorm = nn.LayerNorm(width)
        self.head: nn.Linear = nn.Linear(width, n_outputs)

    def tokenize(self, strings: Iterable[str]) -> list[np.ndarray]:
        """Return the token ids of each string, an int64 array: the start token, then its bytes."""
        texts = [text.encode("utf-8", "surrogatepass") for text in check_strings(strings)]
        for index, text in enumerate(texts):
            if len(text) > self.max_length:
                raise ValueError(
                    f"strings must have at most max_length={self.max_length} bytes. Got "
                    f"{len(text)} bytes at index {index}; raise max_length or shorten the string."
                )
        return [self._ids(text) for text in texts]

    def _ids(self, text: bytes) -> np.ndarray:
        """Return the token ids of a text: the start token, then its bytes."""
        ids = np.empty(len(text) + 1, dtype=np.int64)
        ids[0] = self._START
        ids[1:] = np.frombuffer(text, dtype=np.uint8)
        ids[1:] += self._FIRST_BYTE
        return ids

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the outputs of a batch, shape (b, n_outputs).

        Both arguments are of shape (b, L): token ids, padded at the end, and False on the padding.
        """
        length, longest = input_ids.shape[1], self.positions.shape[0]
        if length > longest:
            raise ValueError(
                f"input_ids must have at most {longest} columns, max_length and the start token. "
                f"Got shape {tuple(input_ids.shape)} instead."
            )
        mask = attention_mask.bool()
        x = self.dropout(self.embedding(input_ids) + self.positions[:length])
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=~mask)
        out: Tensor = self.head(pool(self.norm(x), mask, self.pooling))
        return out


# Parts that the encoders share --------------------------------------------------------------------


def dense_layers(
    n_outputs: int,
    *,
    n_inputs: int | None = None,
    hidden: Sequence[int] = (),
    dropout: float = 0.0,
    activation: str = "relu",
    layer_norm: bool = False,
) -> nn.Sequential:
    """Return hidden layers and a linear layer; with `n_inputs` None, the first batch sets it."""
    n_outputs = check_number(n_outputs, "n_outputs", low=1, integer=True)
    widths = check_widths(hidden)
    check_dropout(dropout)
    check_choice(activation, "activation", tuple(_ACTIVATIONS))
    check_choice(layer_norm, "layer_norm", (True, False))
    layers: list[nn.Module] = []
    for n_in, n_out in zip([n_inputs, *widths], widths, strict=False):
        layers.append(_linear(n_in, n_out))
        if layer_norm:
            layers.append(nn.LayerNorm(n_out))
        layers.append(_ACTIVATIONS[activation]())
        if dropout > 0:
            layers.append(nn.Dropout(dropout))
    layers.append(_linear(widths[-1] if widths else n_inputs, n_outputs))
    return nn.Sequential(*layers)


def _linear(n_in: int | None, n_out: int) -> nn.Module:
    return nn.LazyLinear(n_out) if n_in is None else nn.Linear(n_in, n_out)


def pool(tokens: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """Return the pooled vector of each row of `tokens`, shape (b, L, width), padding left out."""
    if pooling == "cls":
        return tokens[:, 0]
    padding = ~mask[:, :, None]
    if pooling == "max":
        return tokens.masked_fill(padding, -math.inf).amax(dim=1)
    # Filled, not multiplied by 0: what stands on the padding may be NaN.
    return tokens.masked_fill(padding, 0.0).sum(dim=1) / mask.sum(dim=1, keepdim=True)


def _sinusoids(n: int, width: int) -> Tensor:
    """Return sines and cosines of n positions at geometric frequencies, shape (n, width)."""
    frequencies = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(n)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=2).reshape(n, width)


def check_strings(strings: object) -> list[str]:
    """Return strings as a list, or raise with the index of the first item that is not a str."""
    if isinstance(strings, str | bytes) or not isinstance(strings, Iterable):
        raise TypeError(
            f"strings must be a list of str. Got {type(strings).__name__} instead; for a single "
            "string give a list of one."
        )
    listed = list(strings)
    for index, text in enumerate(listed):
        if not isinstance(text, str):
            raise TypeError(
                f"strings must be a list of str. Got {type(text).__name__} at index {index}."
            )
    return listed


def check_dropout(dropout: float) -> float:
    """Return the dropout as a float, or raise unless it is in [0, 1)."""
    if check_number(dropout, "dropout") >= 1:
        raise ValueError(f"dropout must be a number in [0, 1). Got {dropout!r} instead.")
    return float(dropout)


def check_widths(hidden: Iterable[int]) -> list[int]:
    """Return the widths of hidden layers as a list, or raise unless they are integers >= 1."""
    if isinstance(hidden, str) or not isinstance(hidden, Iterable):
        raise TypeError(f"hidden must be a sequence of integers >= 1. Got {hidden!r} instead.")
    return [
        check_number(width, f"hidden[{i}]", low=1, integer=True) for i, width in enumerate(hidden)
    ]


def _check_width(width: int, n_heads: int) -> None:
    """Raise unless the width is even and a multiple of n_heads."""
    check_number(width, "width", low=2, integer=True)
    check_number(n_heads, "n_heads", low=1, integer=True)
    if width % n_heads or width % 2:
        raise ValueError(
            f"width must be even and a multiple of n_heads={n_heads}. Got {width} instead."
        )
