"""Networks in files: their settings, and weights as arrays."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from .._numerics.files import FileError
from .._numerics.saving import Given

__all__ = [
    "Described",
    "given_network",
    "is_described",
    "load_weights",
    "saved_module",
    "weights_of",
]

# Numbers that a module may hold beyond its weights, such as sinusoids of positions.
_SPARE = 2**24
_LAYERS = 64  # that a module may have, if its weights are fewer


class Described(nn.Module):
    """A network that can be built from its settings: a file has these and the weights."""

    #: the parameters, from which an equal module can be built; None where they do not say all
    config: Any

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
    def _can_be_filled(cls, config: dict[str, Any], weights: Mapping[str, np.ndarray]) -> bool:
        """Whether settings ask for no more than there is: else they could take all memory."""
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
    """Return the weights and buffers of a module, None where they are not drawn yet."""
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


def saved_module(module: Any, fitted: nn.Module | None) -> Any:
    """Return what a file has of the parameter `module`: itself, or that it is to be given."""
    kind = getattr(module, "func", module)
    if is_described(module):
        return module
    if _is_own(kind) and not getattr(module, "args", ()):
        if "model" not in inspect.signature(kind).parameters:
            return module
        if is_described(fitted):  # it was read from a folder, and a file names no other file
            return functools.partial(kind, **{**getattr(module, "keywords", {}), "model": None})
    item = type(module) if isinstance(module, nn.Module) else module  # members copy instances
    is_users = fitted is not None and not is_described(fitted)
    return Given(item, type(fitted).__name__ if is_users else None)


def is_described(module: Any) -> bool:
    """Whether a network can be built from its settings."""
    return _is_own(type(module)) and module.config is not None


def _is_own(kind: Any) -> bool:
    """Whether this is a class of ours: one that users derive may build something else."""
    of_ours = isinstance(kind, type) and issubclass(kind, Described)
    return of_ours and kind.__module__.startswith("skout.")


def given_network(made: Any, n_outputs: int) -> nn.Module:
    """Return the network of a user, of which an instance, its class or a callable was given."""
    if isinstance(made, nn.Module):
        return copy.deepcopy(made)
    module = made(n_outputs)
    if not isinstance(module, nn.Module):
        raise TypeError(f"What is given must make an nn.Module. It made {type(module)}.")
    return module
