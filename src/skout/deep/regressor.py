"""A network as a scikit-learn regressor, into the coordinates of an output basis."""

from __future__ import annotations

import copy
import hashlib
import os
import warnings
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import _check_feature_names, check_is_fitted
from torch import Tensor, nn

from .._numerics.arrays import has_rows, n_rows, take
from .._numerics.estimators import PartsByName, all_at_once, frames_out
from .._numerics.files import check_place
from .._numerics.saving import with_attributes
from .._numerics.typing import Objects, RandomState, Rng
from .._numerics.validation import check_number, check_rng
from ..losses import Loss, Squared, as_loss
from ..rows.device import named_device
from ..rows.encode import numbers_in
from .batches import Batch, as_source, call
from .criteria import KernelLoss, ListwiseLoss
from .modules import ModuleLike, is_described, load_weights, new_network, saved_module, weights_of
from .training import Batches, Metric, Trainer, Training, predictions

#: The rows to train on, and those held out.
Parts: TypeAlias = tuple[np.ndarray, np.ndarray]

# From this number of epochs on, a loss within 2 % of that of the best constant gives a warning.
_EPOCHS_TO_LEARN = 5
_CONSTANT = 0.98


@frames_out
class NeuralRegressor(MultiOutputMixin, RegressorMixin, PartsByName):
    """Any torch module, trained to predict output coordinates with a kernel-induced loss.

    Parameters
    ----------
    module : nn.Module class, instance, or callable
        A class or a callable is called with the number of outputs. An instance is copied, and must
        have as many outputs.
    loss : Loss or str, default "squared"
        See `KernelLoss`.
    training : Training, optional
        Epochs, batches, learning rate and so on.
    validation : float or array of int, default 0.0
        Share of the rows, drawn at random, that is held out, or the numbers of these rows, such as
        range(800, 1000), where the validation pairs are given: the epoch with the best value on
        them is kept.
    patience : int, optional
        End when so many epochs in a row were no better on the held-out rows.
    metric : callable, optional
        (predictions, targets) -> number on the held-out rows, smaller is better; default the loss.
    random_state : None, int or Generator
        Seed of weights, order of rows and dropout.
    verbose : bool, default False
        Show a progress bar.
    device : str, optional
        "cuda" trains on a GPU, "auto" where there is one. None is where the data are: that of the
        tensors in X, else the CPU.
    checkpoint : path, optional
        Written after each epoch; a `fit` on the same data that finds it goes on from there.

    Attributes
    ----------
    module_ : nn.Module
        Trained, in the mode of evaluation.
    history_ : list of dict
        "epoch", "train_loss", "seconds" and, with `validation`, "validation".
    best_epoch_ : int
        The epoch whose weights were kept.

    Notes
    -----
    Inputs are arrays, CSR matrices, tensors, lists of strings (for modules with `tokenize`), dicts
    of these (keyword arguments of the module) or a torch Dataset. Arrays become float32; those of
    integers become int64 where the module has an `nn.Embedding`; a tensor stays as it is. Several
    GPUs, or machines: call `torch.distributed.init_process_group` in a script that torchrun
    starts, and fit in each process on the same data; a batch is shared by all of them. The same
    `random_state` gives the same network on one device; PyTorch promises no more than that.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.deep import MLP, NeuralRegressor, Training
    >>> X = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    >>> model = NeuralRegressor(MLP, training=Training(30, lr=0.01), device="cpu", random_state=0)
    >>> bool(model.fit(X, X[:, :1] * X[:, 1:]).score(X, X[:, :1] * X[:, 1:]) > 0.9)
    True
    """

    _by_name: ClassVar[dict[str, Any]] = {"loss": as_loss}
    #: `fit` and `predict` take tensors where they lie
    takes_tensors = True

    def __init__(
        self,
        module: ModuleLike,
        *,
        loss: Loss | str = "squared",
        training: Training | None = None,
        validation: float | ArrayLike = 0.0,
        patience: int | None = None,
        metric: Metric | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
        device: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.module = module
        self.loss = loss
        self.training = training
        self.validation = validation
        self.patience = patience
        self.metric = metric
        self.random_state = random_state
        self.verbose = verbose
        self.device = device
        self.checkpoint = checkpoint

    @property
    def uses_residual(self) -> bool:
        """Whether `fit` uses `residual`: the squared loss does not, where it is a constant."""
        return not isinstance(as_loss(self.loss), Squared)

    @all_at_once
    def fit(
        self,
        X: Objects,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        residual: ArrayLike | None = None,
    ) -> NeuralRegressor:
        """Train the network.

        Parameters
        ----------
        X : what the module takes, n rows
        y : array of shape (n, p)
            Output coordinates.
        sample_weight : array of shape (n,), optional
            Weights of rows in the mean loss.
        residual : array of shape (n,), optional
            k(y, y) - ||z(y)||^2; matters for losses other than the squared one.
        """
        return self._fit(X, y, sample_weight, residual)

    def choice_splits(
        self, n: int, y: object = None, weights: object = None, groups: ArrayLike | None = None
    ) -> list[Parts]:
        """Return the validation split, [(train, held)], or [] where `metric` chooses the epoch.

        Rows of a group are all held out, or none of them.
        """
        rng = check_rng(self.random_state)
        rng.integers(2**31)  # the seed of the network, which `fit` draws first
        train, held = self._parts(n, rng, groups)
        return [(train, held)] if len(held) and self.metric is None else []

    @all_at_once
    def fit_scored(
        self,
        X: Objects,
        y: ArrayLike,
        scorer: Any,
        sample_weight: ArrayLike | None = None,
        *,
        residual: ArrayLike | None = None,
    ) -> NeuralRegressor:
        """Train as `fit` does, and keep the epoch whose held-out predictions have the best score.

        `scorer` is a `skout.solvers.folds.Scorer` of one split.
        """
        (train, held) = scorer.splits[0]
        at = np.searchsorted(held, scorer.held[0])

        def metric(F: np.ndarray, targets: np.ndarray) -> float:
            return -float(scorer.score(0, F[None, at].astype(np.float64))[0])

        return self._fit(X, y, sample_weight, residual, (train, held), metric)

    def _fit(
        self,
        X: Objects,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        residual: ArrayLike | None,
        parts: Parts | None = None,
        metric: Metric | None = None,
    ) -> NeuralRegressor:
        """Train the network on one part of the rows, validate on the other, and return self."""
        training = self.training or Training()
        training.check()
        if self.patience is not None:
            check_number(self.patience, "patience", low=1, integer=True)
        targets = self._targets(X, y)
        _check_feature_names(self, X, reset=True)
        rng = check_rng(self.random_state)
        seed = int(rng.integers(2**31))
        self._device = _device(self.device, X)
        train, held = self._parts(len(targets), rng) if parts is None else parts
        if training.max_epochs == 0:  # a batch, from which lazy layers take their size, is enough
            train, held = train[:2], held[:0]
        self.module_: torch.nn.Module = self._build(targets.shape[1], seed)
        data, held_data = self._batches(X, targets, residual, sample_weight, (train, held))
        self._prepare(data, targets.shape[1])
        criterion = KernelLoss(self.loss)
        trainer = Trainer(self.module_, criterion, training, len(train), seed, self._device)
        checkpoint = self._checkpoint(trainer, targets, seed)
        trainer.run(
            data,
            held_data,
            metric=self.metric if metric is None else metric,
            patience=self.patience,
            checkpoint=checkpoint,
            verbose=self.verbose,
        )
        self.module_.eval()
        self.history_: list[dict[str, float]] = trainer.history
        _warn_if_constant(trainer.history, criterion, data)
        self.best_epoch_: int = trainer.best_epoch
        self.n_outputs_: int = targets.shape[1]
        return self

    def predict(self, X: Objects) -> np.ndarray:
        """Predict output coordinates, without dropout.

        Parameters
        ----------
        X : what the module takes, n rows

        Returns
        -------
        y : ndarray of float64, shape (n, p), or (n,) if the targets were
        """
        check_is_fitted(self, "module_")
        _check_feature_names(self, X, reset=False)
        source = as_source(X, self.module_, self._device)
        outputs = predictions(self.module_, source, self.training or Training(), self._device)
        F = outputs.numpy().astype(np.float64)
        return F[:, 0] if self._is_vector else F

    def _targets(self, X: Objects, y: ArrayLike) -> np.ndarray:
        """Return the targets as float32 of shape (n, p), or raise where they do not fit X."""
        if not has_rows(X):
            raise TypeError(f"X must be a list or array, one row an object. Got {X!r}.")
        with numbers_in(y, "y"):
            y = np.asarray(y, dtype=np.float32)
        self._is_vector = y.ndim == 1
        y = y[:, None] if y.ndim == 1 else y
        if y.ndim != 2 or not np.isfinite(y).all():
            raise ValueError(f"y must be finite numbers of shape (n, p). Got shape {y.shape}.")
        if n_rows(X) != len(y):
            raise ValueError(f"X and y must be of equal length. Got {n_rows(X)} and {len(y)}.")
        if len(y) == 0:
            raise ValueError("Found array with 0 sample(s): a network needs rows to train on.")
        return y

    def _parts(self, n: int, rng: Rng, groups: ArrayLike | None = None) -> Parts:
        """Return the rows to train on and those held out."""
        if hasattr(self.validation, "__len__"):
            return _given_parts(self.validation, n)
        share = check_number(self.validation, "validation")
        if share >= 1.0:
            raise ValueError(f"validation must be a share of the rows, below 1. Got {share!r}.")
        if self.patience is not None and share == 0.0:
            raise ValueError("patience needs rows that are held out: set validation=0.1, say.")
        n_held = int(np.ceil(share * n)) if share > 0.0 else 0
        if n_held >= n:
            raise ValueError(f"validation={share!r} of {n} rows leaves none to train on.")
        if groups is not None and n_held:
            return _held_groups(np.asarray(groups), n_held, rng)
        order = rng.permutation(n) if n_held else np.arange(n)
        return np.sort(order[n_held:]), np.sort(order[:n_held])

    def _batches(
        self,
        X: Objects,
        targets: np.ndarray,
        residual: ArrayLike | None,
        sample_weight: ArrayLike | None,
        parts: Parts,
    ) -> tuple[Batches, Batches | None]:
        """Return the batches to train on, and those held out, if there are any."""
        columns = {"residual": residual, "sample_weight": sample_weight}
        extra = [_column(values, name, len(targets)) for name, values in columns.items()]

        def batches(part: np.ndarray) -> Batches:
            whole = len(part) == len(targets)
            source = as_source(X if whole else _rows(X, part), self.module_, self._device)
            tensors: list[Any] = [
                None if values is None else torch.from_numpy(values[part]).to(self._device)
                for values in (targets, *extra)
            ]
            return Batches(source, *tensors)

        train, held = parts
        return batches(train), batches(held) if len(held) else None

    def _build(self, n_outputs: int, seed: int) -> nn.Module:
        """Return a new module with weights drawn by the seed, on the device."""
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            return new_network(self.module, n_outputs).to(self._device)

    def _prepare(self, data: Batches, n_outputs: int) -> None:
        """Run one batch, which gives lazy layers their size, and raise for a wrong output."""
        self.module_.eval()
        with torch.random.fork_rng([]), torch.no_grad():
            torch.manual_seed(0)
            index = torch.arange(min(2, len(data)))
            inputs, *_ = data.batch(index, index.to(self._device))
            out = _first_call(self.module_, inputs)
        expected = (min(2, len(data)), n_outputs)
        if not isinstance(out, torch.Tensor) or tuple(out.shape) != expected:
            got = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
            raise ValueError(
                f"module must return a tensor of shape {expected} for {expected[0]} rows and "
                f"{n_outputs} outputs. Got {got}. Give the class, or a callable of the number of "
                "outputs, instead of an instance."
            )

    def _checkpoint(
        self, trainer: Trainer, targets: np.ndarray, seed: int
    ) -> tuple[Path, str] | None:
        """Load a checkpoint of the same fit, if there is one; return its path and name."""
        if self.checkpoint is None:
            return None
        path = Path(self.checkpoint)
        check_place(path, "checkpoint")
        shapes = [(name, tuple(p.shape)) for name, p in self.module_.state_dict().items()]
        settings = (sorted(trainer.training.get_params().items(), key=str), str(self.loss), seed)
        code = hashlib.blake2b(repr((shapes, settings, targets.shape)).encode(), digest_size=16)
        code.update(np.ascontiguousarray(targets).tobytes())
        about = code.hexdigest()
        if path.is_file():
            trainer.load(path, about)
        return path, about

    def __skout_state__(self) -> dict[str, Any]:
        fitted = getattr(self, "module_", None)
        state = {name: v for name, v in vars(self).items() if name not in ("module_", "_device")}
        state |= {"module": saved_module(self.module, fitted), "checkpoint": None}
        if is_described(fitted):
            return {**state, "module_": fitted}
        return state if fitted is None else {**state, "weights": weights_of(fitted)}

    @classmethod
    def __skout_restore__(cls, state: dict[str, Any]) -> NeuralRegressor:
        attributes = {name: value for name, value in state.items() if name != "weights"}
        if "weights" in state:
            attributes["module_"] = new_network(state["module"], state["n_outputs_"])
            load_weights(attributes["module_"], state["weights"])
        (model,) = with_attributes(cls, attributes)
        if "module_" in attributes:
            wanted = {"auto": "cuda", None: "cpu"}.get(model.device, str(model.device))
            is_usable = not wanted.startswith("cuda") or torch.cuda.is_available()
            model._device = torch.device(wanted if is_usable else "cpu")
            model.module_.to(model._device).eval()
        return model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.non_deterministic = True
        return tags


def _given_parts(held: Any, n: int) -> Parts:
    """Return the rows to train on, and those held out, whose numbers the user passed."""
    is_pair = any(np.ndim(number) > 0 for number in held)
    held = np.empty(0) if is_pair else np.asarray(held)
    if held.ndim != 1 or held.dtype.kind not in "iu" or not len(held):
        raise ValueError(
            "validation must be a share of the rows, or the numbers of some of them. Put pairs "
            "that you hold out into X and Y, and say which rows they are: range(800, 1000), say."
        )
    if held.min() < 0 or held.max() >= n or len(np.unique(held)) < len(held):
        raise ValueError(f"validation must have different numbers of rows, from 0 to {n - 1}.")
    train = np.setdiff1d(np.arange(n), held)
    if not len(train):
        raise ValueError(f"validation holds out all {n} rows: none is left to train on.")
    return train, np.sort(held)


def _warn_if_constant(
    history: list[dict[str, float]], criterion: KernelLoss, data: Batches
) -> None:
    """Warn where a network has learned no more than the mean of its targets."""
    if len(history) < _EPOCHS_TO_LEARN or len(data) < 2:
        return
    mean = data.targets.mean(dim=0).expand_as(data.targets)
    constant = float(criterion(mean, data.targets, data.residual, data.weights))
    loss = history[-1]["train_loss"]
    if _CONSTANT * constant < loss < constant / _CONSTANT:
        warnings.warn(
            f"The network's loss, {loss:.3g}, is that of a constant, {constant:.3g}: it has "
            "learned nothing. Lower lr, raise warmup, or standardize the inputs.",
            ConvergenceWarning,
            stacklevel=4,
        )


def _held_groups(groups: np.ndarray, n_held: int, rng: Rng) -> Parts:
    """Return the rows to train on, and those of random groups with `n_held` rows or a few more."""
    _, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        raise ValueError("groups must be at least 2 different ones. Got 1: leave groups out.")
    order = rng.permutation(len(sizes))
    enough = 1 + int(np.searchsorted(np.cumsum(sizes[order]), n_held))
    held = np.isin(number, order[: min(enough, len(sizes) - 1)])
    return np.flatnonzero(~held), np.flatnonzero(held)


def _first_call(module: nn.Module, inputs: Batch) -> object:
    """Return the output of a module; where it raises, raise an error that describes the inputs."""
    try:
        return call(module, inputs)
    except (RuntimeError, IndexError) as error:
        fields = inputs if isinstance(inputs, dict) else {"X": inputs}
        shown = ", ".join(f"{name} of {_shown(part)}" for name, part in fields.items())
        raise ValueError(
            f"module cannot take its first rows, {shown}: {error}. Numbers of arrays are float32, "
            "or int64 where they are integers and the module has an nn.Embedding; a torch tensor "
            "is given to the module as it is, but for the precision of floats."
        ) from error


def _shown(part: object) -> str:
    """Return shape and dtype of a tensor, or the type of something else, for an error."""
    if isinstance(part, torch.Tensor):
        return f"shape {tuple(part.shape)} and {str(part.dtype).removeprefix('torch.')}"
    return type(part).__name__


def _device(name: str | None, X: Objects) -> torch.device:
    """Return the device of a name; None is that of the tensors in X, else the CPU."""
    if name is None:
        parts = X.values() if isinstance(X, dict) else [X]
        return next((p.device for p in parts if isinstance(p, torch.Tensor)), torch.device("cpu"))
    try:
        device = torch.device(named_device(name) or "cpu")
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device must be None, 'auto', 'cpu', 'cuda' or the like. Got {name!r}."
        ) from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={name!r} asks for a GPU, and PyTorch finds none.")
    return device


def _column(values: ArrayLike | None, name: str, n: int) -> np.ndarray | None:
    """Return a column of n finite numbers >= 0 in float32, or raise; None is None."""
    if values is None:
        return None
    with numbers_in(values, name):
        values = np.asarray(values, dtype=np.float32)
    if values.shape != (n,) or not np.isfinite(values).all() or values.min(initial=0.0) < 0.0:
        raise ValueError(f"{name} must be {n} finite numbers >= 0. Got shape {values.shape}.")
    return values


def _rows(X: Objects, index: np.ndarray) -> Any:
    """Return some rows of X."""
    if isinstance(X, torch.utils.data.Dataset):
        return torch.utils.data.Subset(X, index.tolist())
    if isinstance(X, torch.Tensor):
        return X[torch.from_numpy(index)]
    return take(X, index)


# Together with a map of the outputs --------------------------------------------------------------


class _Together(nn.Module):
    """A network and a loss with weights, as one module: both are trained, and kept."""

    def __init__(self, network: nn.Module, loss: ListwiseLoss) -> None:
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self, *args: Tensor, **kwargs: Tensor) -> Tensor:
        out: Tensor = self.network(*args, **kwargs)
        return out


def train_together(
    regressor: NeuralRegressor,
    X: Objects,
    targets: np.ndarray,
    residual: np.ndarray,
    *,
    hidden: int,
    logit_scale: float,
    negatives: int = 0,
    training: Training | None,
    groups: ArrayLike | None = None,
    sample_weight: Any = None,
) -> tuple[NeuralRegressor, list[np.ndarray]]:
    """Train a fitted network further, together with a map of the output coordinates.

    The settings are those of the regressor, but for `training` where it is given. Rows of a group
    are all held out, or none of them. Returns a copy of the regressor with the new network, and A,
    b, C and c of the map, see `ListwiseLoss`.
    """
    check_number(hidden, "hidden", low=1, integer=True)
    check_number(logit_scale, "logit_scale", strict=True)
    check_number(negatives, "negatives", integer=True)
    out = copy.copy(regressor)
    training = training or out.training or Training()
    training.check()
    targets, rng = out._targets(X, targets), check_rng(out.random_state)
    seed = int(rng.integers(2**31))
    train, held = out._parts(len(targets), rng, groups)
    data = out._batches(X, targets, residual, sample_weight, (train, held))
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        loss = ListwiseLoss(targets.shape[1], hidden, logit_scale, negatives).to(out._device)
    loss.bank = data[0].targets, data[0].residual
    both = _Together(copy.deepcopy(out.module_), loss)
    trainer = Trainer(both, loss, training, len(train), seed, out._device)
    trainer.run(*data, patience=out.patience, verbose=out.verbose)
    out.module_, out.history_ = both.network.eval(), trainer.history
    out.best_epoch_ = trainer.best_epoch
    parts = [*loss.enter.parameters(), *loss.leave.parameters()]
    return out, [part.detach().cpu().numpy().astype(np.float64) for part in parts]
