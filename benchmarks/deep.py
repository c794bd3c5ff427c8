"""Networks: an epoch of training against a bare PyTorch loop, and against skorch.

    python -m benchmarks.deep [--quick] [--device cpu cuda]

The same module (a perceptron, or a small Transformer on strings of bytes), batch size, optimizer
and precision; the fastest epoch of each. skorch is timed where it is installed, on the perceptron.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.measure import print_table, write_record
from skout.deep import MLP, CharTransformer, NeuralRegressor, Training

N_OUTPUTS = 75


def perceptron(n: int) -> tuple[Callable[[int], nn.Module], Any]:
    X = np.random.default_rng(0).standard_normal((n, 200)).astype(np.float32)
    return functools.partial(MLP, hidden=(256, 256)), X


def transformer(n: int) -> tuple[Callable[[int], nn.Module], Any]:
    rng = np.random.default_rng(0)
    letters = np.array(list("CNO()=123c"))
    words = ["".join(rng.choice(letters, rng.integers(8, 25))) for _ in range(n)]
    return functools.partial(CharTransformer, width=128, n_layers=2, n_heads=4), words


def ours(module: Any, X: Any, Z: np.ndarray, batch: int, epochs: int, device: str) -> float:
    training = Training(epochs, batch, 1e-3)
    model = NeuralRegressor(module, training=training, device=device, random_state=0).fit(X, Z)
    return min(row["seconds"] for row in model.history_)


def bare(module: Any, X: Any, Z: np.ndarray, batch: int, epochs: int, device: str) -> float:
    """What a careful user writes: data on the device, no history, no schedule."""
    torch.manual_seed(0)
    net = module(Z.shape[1]).to(device)
    targets = torch.from_numpy(Z).to(device)
    if isinstance(X, list):
        tokens = [torch.from_numpy(np.asarray(some)) for some in net.tokenize(X)]

        def inputs(index: torch.Tensor) -> dict[str, torch.Tensor]:
            chosen = [tokens[i] for i in index.tolist()]
            ids = nn.utils.rnn.pad_sequence(chosen, batch_first=True, padding_value=net.pad_id)
            lengths = torch.tensor([len(some) for some in chosen])
            mask = torch.arange(ids.shape[1]) < lengths[:, None]
            return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}

        def forward(index: torch.Tensor) -> torch.Tensor:
            return net(**inputs(index))
    else:
        data = torch.from_numpy(X).to(device)

        def forward(index: torch.Tensor) -> torch.Tensor:
            return net(data[index])

    net.eval()
    with torch.no_grad():
        forward(torch.arange(2))
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.0)
    times = []
    for _ in range(epochs):
        start = time.perf_counter()
        order = torch.randperm(len(targets))
        order = order if isinstance(X, list) else order.to(device)
        for index in order.split(batch):
            optimizer.zero_grad()
            difference = forward(index) - targets[index.to(device)]
            loss = 0.5 * difference.square().sum(dim=1).mean()
            loss.backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def by_skorch(module: Any, X: Any, Z: np.ndarray, batch: int, epochs: int, device: str) -> float:
    from skorch import NeuralNetRegressor

    net = NeuralNetRegressor(
        module(Z.shape[1]),
        criterion=nn.MSELoss,
        optimizer=torch.optim.AdamW,
        lr=1e-3,
        max_epochs=epochs,
        batch_size=batch,
        train_split=None,
        iterator_train__shuffle=True,
        device=device,
        verbose=0,
    )
    net.initialize()
    with torch.no_grad():
        net.module_(torch.from_numpy(X[:2]).to(device))
    net.initialize_optimizer()
    net.partial_fit(X, Z)
    return min(row["dur"] for row in net.history)


def row(name: str, device: str, n: int, batch: int, epochs: int) -> dict[str, Any]:
    module, X = {"perceptron": perceptron, "transformer": transformer}[name](n)
    Z = np.random.default_rng(1).standard_normal((n, N_OUTPUTS)).astype(np.float32)
    arguments = (module, X, Z, batch, epochs, device)
    # in turn, so that a busy moment does not fall on one side alone
    runs = [(bare(*arguments), ours(*arguments)) for _ in range(3)]
    plain, own = (min(times) for times in zip(*runs, strict=True))
    try:
        peer = by_skorch(*arguments) if name == "perceptron" else None
    except ImportError:
        peer = None
    return {
        "module": name,
        "device": device,
        "rows": n,
        "batch": batch,
        "bare seconds": plain,
        "skout seconds": own,
        "skout / bare": own / plain,
        "skorch / bare": None if peer is None else peer / plain,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows; no record")
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    parser.add_argument("--device", nargs="+", default=devices)
    options = parser.parse_args()
    n, epochs = (4000, 2) if options.quick else (20000, 4)
    rows = []
    for device in options.device:
        for batch in (128, 512):
            rows.append(row("perceptron", device, n, batch, epochs))
        words = n if device == "cuda" else n // 10
        rows.append(row("transformer", device, words, 128, epochs))
    print_table(rows, list(rows[0]))
    if not options.quick:
        write_record(
            f"deep_{options.device[-1]}", {"torch": torch.__version__, "outputs": N_OUTPUTS}, rows
        )


if __name__ == "__main__":
    main()
