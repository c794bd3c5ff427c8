"""Networks: weights as arrays, with what it takes to build the module again.

Modules of skout are built from their settings; a `TextEncoder` from the kind and sizes of its
model and the JSON of its tokenizer, where these are of a known kind. Any other module is given at
load by the name of its class; its weights are in the file.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .classes import function_name, name_of, public_name
from .files import FileError

__all__ = ["NAMES", "READERS", "class_of", "node", "restored"]

PACKAGE = "skout.deep."
#: The classes of `skout.deep` that a file may name, as files know them.
NAMES = {
    *("skout.CharTransformer", "skout.MLP"),
    *("skout.NeuralRegressor", "skout.TextEncoder", "skout.Training"),
}
# Numbers that a module may hold beyond its weights, such as sinusoids of positions.
_SPARE = 2**24


def class_of(name: str) -> type | None:
    """Return a class of `skout.deep`, None for any other name; PyTorch is imported here."""
    name = public_name(name)
    if name not in NAMES:
        return None
    from .. import deep

    return getattr(deep, name.rpartition(".")[2])


def _is_own(kind: Any) -> bool:
    """Whether this is a module class that can be built from its settings."""
    if not isinstance(kind, type) or not kind.__module__.startswith(PACKAGE):
        return False
    return class_of(name_of(kind)) is kind and hasattr(kind, "forward")


def _own(name: Any) -> Callable[..., Any]:
    kind = class_of(str(name))
    if kind is None or not _is_own(kind):
        raise FileError(f"The file names the network {name!r}, which is not skout's.")
    return kind


def node(writer: Any, item: Any, path: str) -> dict[str, Any] | None:
    """Return the node of an object of `skout.deep`, None for anything else."""
    if "skout.deep" not in sys.modules:
        return None
    function: Any = getattr(item, "func", None)
    if isinstance(item, functools.partial) and _is_own(function) and not item.args:
        values = item.keywords | ({"model": None} if "model" in item.keywords else {})
        keywords = writer.value(values, path)  # a file names no other file
        return {"kind": "partial", "class": name_of(function), "keywords": keywords}
    if _is_own(item):
        return {"kind": "type", "name": name_of(item)}
    name = name_of(type(item))
    if class_of(name) is not type(item):
        return None
    if _is_own(type(item)):
        return _network(writer, item, path)
    if name.endswith(".Training"):
        return writer.object(name, vars(item), path)
    return _regressor(writer, item, path)


def _regressor(writer: Any, item: Any, path: str) -> dict[str, Any]:
    """Return the node of a NeuralRegressor, whose module may be the user's."""
    state = {key: value for key, value in vars(item).items() if key not in ("module_", "_device")}
    state["checkpoint"] = None  # a file names no other file
    module = state.pop("module")
    fitted = getattr(item, "module_", None)
    dot = f"{path}." if path else ""
    found = writer.object(name_of(type(item)), state, path)
    values = found["state"]
    if _can_be_built(module, fitted):
        values["module"] = writer.value(module, f"{dot}module")
    else:
        is_users = fitted is not None and not _is_described(fitted)
        name = type(fitted).__name__ if is_users else function_name(module, f"{dot}module")
        what = type(module) if hasattr(module, "state_dict") else module  # members copy instances
        values["module"] = writer.add(writer.given(name, what, f"{dot}module"))
    if fitted is not None:
        network = _network(writer, fitted, f"{dot}module_")
        values["module_"] = writer.add({**network, "n_outputs": int(item.n_outputs_)})
    return found


def _is_described(module: Any) -> bool:
    """Whether this is a module that can be built from its settings."""
    return _is_own(type(module)) and module.config is not None


def _can_be_built(module: Any, fitted: Any) -> bool:
    """Whether the parameter `module` need not be given again at load."""
    kind = getattr(module, "func", module)
    if not _is_own(kind):
        return _is_described(module)
    # one that reads a folder can do without it only where it was read
    return "model" not in inspect.signature(kind).parameters or (
        fitted is not None and _is_described(fitted)
    )


def _network(writer: Any, module: Any, path: str) -> dict[str, Any]:
    from torch.nn.parameter import is_lazy as is_undrawn

    weights = module.state_dict()
    arrays = None
    if not any(is_undrawn(tensor) for tensor in weights.values()):  # else they are not drawn yet
        arrays = {name: _as_array(tensor, f"{path}.{name}") for name, tensor in weights.items()}
    own = _is_described(module)
    return {
        "kind": "network",
        "class": name_of(type(module)) if own else None,
        "config": writer.value(module.config if own else None, path),
        "given": None if own else type(module).__name__,
        "n_outputs": None,
        "weights": writer.value(arrays, path),
    }


def _as_array(tensor: Any, path: str) -> np.ndarray:
    try:
        return tensor.detach().cpu().numpy()
    except (AttributeError, TypeError) as error:
        raise TypeError(f"{path} cannot be saved as an array: {error}") from error


def _read_network(reader: Any, spec: dict[str, Any]) -> Any:
    weights = reader.value(spec["weights"])
    reader.charge(sum(array.nbytes for array in (weights or {}).values()))
    if spec["class"] is not None:
        module = _built(spec["class"], reader.value(spec["config"]), weights)
    else:
        module = _given(reader.given, spec["given"], spec["n_outputs"])
    if weights is not None:
        _load(module, weights)
    return module


def _built(name: str, config: dict[str, Any], weights: Mapping[str, np.ndarray] | None) -> Any:
    """Return a module of skout from its settings, which must not ask for more than the weights."""
    import torch
    from torch.nn.parameter import is_lazy as is_undrawn

    kind, arrays = _own(name), weights or {}
    most = max(len(arrays), 64)
    settings = config.get("model", {}).get("settings", {})
    counts = [config.get("n_layers", 0), len(config.get("hidden", ()))]
    counts += [settings[name] for name in settings if "layers" in name or "group" in name]
    if max(count or 0 for count in counts) <= most:
        with torch.device("meta"):  # takes no memory
            probe = kind(**config)
        tensors = [*probe.parameters(), *probe.buffers()]
        needed = sum(tensor.numel() for tensor in tensors if not is_undrawn(tensor))
        if needed <= sum(array.size for array in arrays.values()) + _SPARE:
            return kind(**config)
    raise FileError(f"The file asks for a network {name!r} that its weights cannot fill.")


def _given(given: Mapping[str, Any], name: str, n_outputs: int | None) -> Any:
    from torch import nn

    made = given[name]
    if isinstance(made, nn.Module):
        return copy.deepcopy(made)
    module = made(n_outputs)
    if not isinstance(module, nn.Module):
        raise TypeError(f"modules[{name!r}] must make an nn.Module. It made {type(module)}.")
    return module


def _load(module: Any, weights: Mapping[str, np.ndarray]) -> None:
    import torch

    tensors = {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise FileError(
            f"The weights of the file do not fit {type(module).__name__}: {error}"
        ) from error


def _read_partial(reader: Any, spec: dict[str, Any]) -> Any:
    return functools.partial(_own(spec["class"]), **reader.value(spec["keywords"]))


def restored(kind: type, state: dict[str, Any]) -> Any:
    """Return a Training or a NeuralRegressor with these attributes."""
    import torch

    if hasattr(kind, "forward"):
        raise FileError(f"The file has {kind.__name__} without weights.")
    item: Any = object.__new__(kind)
    vars(item).update(state)
    if "module_" in state:
        wanted = {"auto": "cuda", None: "cpu"}.get(state["device"], state["device"])
        usable = not str(wanted).startswith("cuda") or torch.cuda.is_available()
        vars(item)["_device"] = torch.device(wanted if usable else "cpu")
        item.module_.to(item._device).eval()
    return item


READERS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "network": _read_network,
    "partial": _read_partial,
}
