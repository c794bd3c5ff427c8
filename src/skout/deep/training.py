"""Training of networks: the settings of stochastic gradient descent, and its loop."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from .._numerics.estimators import PartsByName
from .._numerics.files import replacing, warn_unwritten
from .._numerics.validation import check_choice, check_number
from .batches import Batch, BatchSource, call

# (predictions, targets) -> a number, smaller is better
Metric = Callable[[np.ndarray, np.ndarray], float]

_OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
_PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
# The keys of a checkpoint.
_STATE = {"about", "epoch", "history", "best", "module", "optimizer", "scheduler", "scaler"}
# Rows of a batch of predictions, in multiples of a training batch: without gradients a row takes
# about a quarter of the memory.
_PREDICTED = 4
# Batches whose rows are sorted by length together, for less padding: many enough that batches still
# differ from epoch to epoch.
_SORTED = 32


class Training(PartsByName):
    """The settings of stochastic gradient descent.

    Parameters
    ----------
    max_epochs : int, default 50
        Passes over the rows; 0 leaves the network as it is drawn, or as it was before.
    batch_size : int, default 128
        Rows of a batch.
    lr : float, default 1e-3
        The largest learning rate.
    schedule : "cosine", "linear" or "constant", default "cosine"
        How the learning rate falls, to zero in the last step of the last epoch.
    warmup : float, default 0.05
        Share of all steps in which the learning rate rises from zero.
    optimizer : "adamw", "adam", "sgd" or callable, default "adamw"
        A callable gets the parameters, lr and weight_decay.
    weight_decay : float, default 0.0
        Passed to the optimizer.
    head_lr : float, optional
        The learning rate of all weights outside of the pretrained part, which is an attribute
        named `encoder`, as `TextEncoder` has it. Default `lr`.
    clip_norm : float, optional
        Gradients longer than this are shortened to it.
    precision : "float32", "bfloat16" or "float16", default "float32"
        Precision of the products in the network; weights and losses are float32.

    Examples
    --------
    >>> from skout.deep import Training
    >>> Training(max_epochs=10, lr=3e-4)
    Training(lr=0.0003, max_epochs=10)
    """

    def __init__(
        self,
        max_epochs: int = 50,
        batch_size: int = 128,
        lr: float = 1e-3,
        *,
        schedule: str = "cosine",
        warmup: float = 0.05,
        optimizer: str | Callable[..., torch.optim.Optimizer] = "adamw",
        weight_decay: float = 0.0,
        head_lr: float | None = None,
        clip_norm: float | None = None,
        precision: str = "float32",
    ) -> None:
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.lr = lr
        self.schedule = schedule
        self.warmup = warmup
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.head_lr = head_lr
        self.clip_norm = clip_norm
        self.precision = precision

    def check(self) -> None:
        """Raise an error that names the setting that is wrong."""
        check_number(self.max_epochs, "max_epochs", low=0, integer=True)
        check_number(self.batch_size, "batch_size", low=1, integer=True)
        check_number(self.lr, "lr", strict=True)
        check_choice(self.schedule, "schedule", ("cosine", "linear", "constant"))
        if check_number(self.warmup, "warmup") >= 1.0:
            raise ValueError(f"warmup must be a share of the steps, below 1. Got {self.warmup!r}.")
        if not callable(self.optimizer):
            check_choice(self.optimizer, "optimizer", tuple(_OPTIMIZERS))
        check_number(self.weight_decay, "weight_decay")
        for name in ("head_lr", "clip_norm"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name, strict=True)
        check_choice(self.precision, "precision", tuple(_PRECISIONS))

    def rate(self, step: int, n_steps: int) -> float:
        """Return the learning rate of a step, relative to `lr`."""
        rising = self.warmup * n_steps
        if step < rising:
            return (step + 1) / (rising + 1)
        if self.schedule == "constant":
            return 1.0
        done = (step - rising) / max(1.0, n_steps - rising)
        return 0.5 * (1.0 + math.cos(math.pi * done)) if self.schedule == "cosine" else 1.0 - done


@dataclass(frozen=True)
class Batches:
    """Inputs with their targets, residuals and weights, taken in batches."""

    source: BatchSource
    targets: Tensor  # (n, p)
    residual: Tensor | None = None  # (n,)
    weights: Tensor | None = None  # (n,)

    def __len__(self) -> int:
        return len(self.targets)

    def batch(
        self, index: Tensor, on_device: Tensor
    ) -> tuple[Batch, Tensor, Tensor | None, Tensor | None]:
        """Return inputs, targets, residuals and weights at the given positions."""
        residual = None if self.residual is None else self.residual[on_device]
        weights = None if self.weights is None else self.weights[on_device]
        inputs = self.source.batch(index, on_device)
        return inputs, self.targets[on_device], residual, weights


def _trained(module: nn.Module, head_lr: float | None) -> Any:
    """Return the parameters to train; with `head_lr` in two groups, each with its learning rate."""
    trained = [p for p in module.parameters() if p.requires_grad]
    if head_lr is None:
        return trained
    encoders = (getattr(part, "encoder", None) for part in module.modules())
    inside = {id(p) for part in encoders if isinstance(part, nn.Module) for p in part.parameters()}
    old = [p for p in trained if id(p) in inside]
    new = [p for p in trained if id(p) not in inside]
    return [{"params": old}, {"params": new, "lr": head_lr}]


def _autocast(device: torch.device, training: Training) -> AbstractContextManager[Any]:
    """Return the context in which products have the precision of the settings."""
    dtype = _PRECISIONS[training.precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


@torch.inference_mode()
def predictions(
    module: nn.Module, source: BatchSource, training: Training, device: torch.device
) -> Tensor:
    """Return the predictions of all rows, on the CPU; the module is then in evaluation mode."""
    module.eval()
    parts = []
    with _autocast(device, training):
        for index in torch.split(torch.arange(len(source)), _PREDICTED * int(training.batch_size)):
            inputs = source.batch(index, index.to(device))
            parts.append(call(module, inputs).float().cpu())
    return torch.cat(parts)


def _shuffled(
    n: int, size: int, lengths: Tensor | None, generator: torch.Generator
) -> list[Tensor]:
    """Return the rows of the batches of an epoch: random, with rows of similar length together."""
    order = torch.randperm(n, generator=generator)
    if lengths is None or n <= size:
        return list(torch.split(order, size))
    chunks = [
        rows[lengths[rows].argsort(stable=True)] for rows in torch.split(order, _SORTED * size)
    ]
    batches = [batch for chunk in chunks for batch in torch.split(chunk, size)]
    return [batches[i] for i in torch.randperm(len(batches), generator=generator)]


def _processes() -> tuple[int, int]:
    """Return rank and number of the processes of torch.distributed; (0, 1) without it."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def _parallel(module: nn.Module, device: torch.device) -> nn.Module:
    """Return the module with gradients that are averaged over all processes."""
    if not any(p.requires_grad for p in module.parameters()):
        return module
    return DistributedDataParallel(module, device_ids=[device] if device.type == "cuda" else None)


class Trainer:
    """Trains a module, one epoch at a time, and can be stopped and resumed between epochs.

    What is random in an epoch (the order of the rows, dropout) depends on the seed and the number
    of the epoch alone, so that a resumed run ends as one that was not interrupted.

    Where `torch.distributed` runs (a script started by torchrun that has called
    `init_process_group`), each process takes its share of the rows of a batch, and gradients are
    averaged: the steps are those of one process, but for rounding and dropout.
    """

    criterion: torch.nn.Module
    module: torch.nn.Module
    training: Training
    device: torch.device
    seed: int
    rank: int
    world: int

    def __init__(
        self,
        module: nn.Module,
        criterion: nn.Module,
        training: Training,
        n_rows: int,  # of the training part, for the schedule
        seed: int,
        device: torch.device,
    ) -> None:
        self.module, self.criterion, self.training = module, criterion, training
        self.seed, self.device = seed, device
        self.rank, self.world = _processes()
        self.runner: torch.nn.Module = (
            _parallel(module, device) if self.world > 1 and n_rows > 1 else module
        )
        self.epoch: int = 0
        self.history: list[dict[str, float]] = []
        self.best: dict[str, Any] | None = None  # weights and score of the best epoch
        steps = math.ceil(n_rows / training.batch_size)
        kind = training.optimizer
        kind = kind if callable(kind) else _OPTIMIZERS[kind]
        parameters = _trained(module, training.head_lr)
        self.optimizer: torch.optim.Optimizer = kind(
            parameters, lr=training.lr, weight_decay=training.weight_decay
        )
        total = steps * training.max_epochs
        self.scheduler: torch.optim.lr_scheduler.LambdaLR = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: training.rate(step, total)
        )
        half = training.precision == "float16" and device.type == "cuda"
        self.scaler: torch.amp.GradScaler = torch.amp.GradScaler(device.type, enabled=half)

    def run_epoch(self, data: Batches) -> float:
        """Train on all rows once, and return the mean loss."""
        size = int(self.training.batch_size)
        # primes, here and in `_random`, so that seeds of epochs and processes do not coincide
        generator = torch.Generator().manual_seed(self.seed + 7919 * self.epoch)
        batches = _shuffled(len(data), size, data.source.lengths, generator)
        order = torch.cat(batches).to(self.device)
        parts = zip(batches, torch.split(order, [len(batch) for batch in batches]), strict=True)
        total = torch.zeros((), device=self.device)
        self.module.train()
        with self._random():
            for index, on_device in parts:
                total.add_(self._step(data, index, on_device), alpha=len(index) / len(order))
        self.epoch += 1
        if self.world > 1:
            dist.all_reduce(total)
            total /= self.world
        loss = float(total)
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"The loss is {loss} in epoch {self.epoch}: lower lr={self.training.lr}, set "
                "clip_norm, or use precision='float32'."
            )
        return loss

    def _step(self, data: Batches, index: Tensor, on_device: Tensor) -> Tensor:
        """Take one step of the optimizer on a batch, and return its loss."""
        share, index, on_device = self._share(data, index, on_device)
        inputs, targets, residual, weights = data.batch(index, on_device)
        self.optimizer.zero_grad(set_to_none=True)
        with _autocast(self.device, self.training):
            prediction = call(self.runner, inputs)
        loss: Tensor = self.criterion(prediction, targets, residual, weights)
        if share is not None:
            loss = share * loss
        scaled: Any = self.scaler.scale(loss)  # which scales nothing but for float16 on a GPU
        scaled.backward()
        self.scaler.unscale_(self.optimizer)
        if self.training.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.module.parameters(), self.training.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        return loss.detach()

    def _share(
        self, data: Batches, index: Tensor, on_device: Tensor
    ) -> tuple[Tensor | float | None, Tensor, Tensor]:
        """Return the factor of this process's loss, and its rows of a batch.

        The mean over processes is then the loss of the batch. A batch with fewer rows than
        processes is computed by each of them.
        """
        if self.world == 1 or len(index) < self.world:
            return None, index, on_device
        rows, rows_on_device = (at[self.rank :: self.world] for at in (index, on_device))
        if data.weights is None:
            return self.world * len(rows) / len(index), rows, rows_on_device
        share = data.weights[rows_on_device].sum() / data.weights[on_device].sum()
        return self.world * share, rows, rows_on_device

    @contextmanager
    def _random(self) -> Iterator[None]:
        """Seed PyTorch for an epoch, for dropout and the like; restore its state afterwards."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(self.seed + 104729 * (self.epoch + 1) + self.rank)
            yield

    def validate(self, data: Batches, metric: Metric | None) -> float:
        """Return the metric of the predictions of held-out rows; default the mean loss."""
        F = predictions(self.module, data.source, self.training, self.device)
        if metric is not None:
            return float(metric(F.numpy(), data.targets.cpu().numpy()))
        with torch.no_grad():
            targets = (data.targets, data.residual, data.weights)
            return float(self.criterion(F.to(self.device), *targets))

    def record(self, train_loss: float, score: float | None, seconds: float) -> None:
        """Log an epoch, and keep its weights if it is the best so far."""
        row = {"epoch": self.epoch, "train_loss": train_loss, "seconds": seconds}
        if score is not None:
            row["validation"] = score
            if self.best is None or score < self.best["score"]:
                weights = {k: v.detach().cpu().clone() for k, v in self.module.state_dict().items()}
                self.best = {"score": score, "epoch": self.epoch, "weights": weights}
        self.history.append(row)

    def save(self, path: Path, about: str) -> None:
        """Write a checkpoint in one step: the file is the old or the new one, never a part."""
        if self.rank > 0:  # the first process writes for all
            return
        parts: dict[str, Any] = {
            "module": self.module,
            "optimizer": self.optimizer,
            "scaler": self.scaler,
        }
        state = {"about": about, "epoch": self.epoch, "history": self.history, "best": self.best}
        state |= {name: part.state_dict() for name, part in parts.items()}
        state["scheduler"] = {"last_epoch": self.scheduler.last_epoch}
        with warn_unwritten(path), replacing(path) as part, open(part, "wb") as file:
            torch.save(state, file)

    def load(self, path: Path, about: str) -> None:
        """Restore the state of a checkpoint, of which only tensors and numbers are read."""
        state = _read_checkpoint(path, self.device)
        if state["about"] != about:
            raise ValueError(
                f"The checkpoint {path} is of another network, other settings or other data. "
                "Remove it, or give another path."
            )
        self.epoch, self.history, self.best = state["epoch"], state["history"], state["best"]
        self.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.last_epoch = state["scheduler"]["last_epoch"]
        self.scaler.load_state_dict(state["scaler"])

    def run(
        self,
        train: Batches,
        held: Batches | None,
        *,
        metric: Metric | None = None,
        patience: int | None = None,
        checkpoint: tuple[Path, str] | None = None,
        verbose: bool = False,
    ) -> None:
        """Train to the last epoch, or until `patience` epochs were no better; keep the best."""
        epochs = int(self.training.max_epochs)
        with tqdm(total=epochs, initial=self.epoch, desc="epochs", disable=not verbose) as bar:
            while self.epoch < epochs and not self._is_over(patience):
                start = time.perf_counter()
                loss = self.run_epoch(train)
                seconds = time.perf_counter() - start
                score = None if held is None else self.validate(held, metric)
                self.record(loss, score, seconds)
                if checkpoint is not None:
                    self.save(*checkpoint)
                bar.set_postfix({"train": loss} if score is None else {"train": loss, "val": score})
                bar.update()
        if self.best is not None:
            self.module.load_state_dict(copy.copy(self.best["weights"]))

    @property
    def best_epoch(self) -> int:
        """The epoch whose weights are kept."""
        return self.epoch if self.best is None else int(self.best["epoch"])

    def _is_over(self, patience: int | None) -> bool:
        """Whether `patience` epochs in a row were no better than the best."""
        return patience is not None and self.epoch - self.best_epoch >= patience


def _read_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    """Return the state in a checkpoint, or raise where the file is no checkpoint."""
    try:
        state: Any = torch.load(path, map_location=device, weights_only=True)
        missing = _STATE - state.keys() if isinstance(state, dict) else _STATE
        why = f"it has no {', '.join(sorted(missing))}" if missing else None
    except Exception as error:  # PyTorch has many for files that are not its own, with bad advice
        why = type(error).__name__
    if why is not None:
        raise ValueError(
            f"checkpoint {str(path)!r} is not a checkpoint that can be read ({why}). "
            "Give another path, or delete the file to begin anew."
        )
    return dict(state)
