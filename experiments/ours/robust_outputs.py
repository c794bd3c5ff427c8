"""Wrong training outputs, a real set: from the upper half of a USPS digit to its lower half.

    python -m experiments.ours.robust_outputs [--quick]

A tenth of the training outputs is replaced by outputs of other rows, drawn at random; the test part
is clean. DSOKR with the squared, the Huber and the epsilon-insensitive loss, all else equal, over
ten seeds (of the replacement, the sketch and the network). kappa and epsilon are chosen on a
hold-out of the contaminated training part of seed 100, which is none of the ten.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

import numpy as np
import torch

from experiments.common import mean_sd
from experiments.pieces import Plan, Results, Size, alone, run_script
from skout import datasets, dsokr
from skout.deep import MLP, Training
from skout.kernels import Gaussian
from skout.losses import EpsilonInsensitive, Huber, Squared
from skout.metrics import mean_reciprocal_rank
from skout.sketches import SubSample

SHARE, M_Y, N_SEEDS = 0.1, 300, 10
EPOCHS, BATCH, LR = 30, 128, 3e-3
GRID = {
    "squared": [Squared()],
    "huber": [Huber(kappa) for kappa in (0.2, 0.4, 0.8)],
    "epsilon_insensitive": [EpsilonInsensitive(epsilon) for epsilon in (0.2, 0.4, 0.8)],
}


def load() -> tuple[np.ndarray, ...]:
    data = datasets.load("usps")
    (X, _), (X_test, _) = data.train, data.test
    return X[:, :128], X[:, 128:], X_test[:, :128], X_test[:, 128:]


def contaminated(Y: np.ndarray, seed: int) -> np.ndarray:
    """Replace a share of the outputs by outputs of other rows."""
    rng = np.random.default_rng(seed)
    wrong = rng.permutation(len(Y))[: round(SHARE * len(Y))]
    out = Y.copy()
    out[wrong] = Y[rng.integers(len(Y), size=len(wrong))]
    return out


def fit(loss: Any, X: np.ndarray, Y: np.ndarray, seed: int, epochs: int) -> Any:
    network = functools.partial(MLP, hidden=(256,), dropout=0.2)
    training = Training(epochs, BATCH, LR, weight_decay=0.01)
    model = dsokr(
        network, Gaussian("median"), output_sketch=SubSample(M_Y), loss=loss, training=training,
        device="cpu", random_state=seed,
    )  # fmt: skip
    return model.fit(X, Y)


def judge(model: Any, X: np.ndarray, Y: np.ndarray) -> dict[str, float]:
    """Return the error in the output space, and how far up the truth is among the test halves."""
    F, basis = model.predict_coordinates(X), model.output_basis_
    distance = ((F - basis.transform(Y)) ** 2).sum(axis=1) + basis.residual(Y)
    ranks = model.truth_ranks(X, Y, candidates=Y)
    return {"error": float(distance.mean()), "MRR": float(mean_reciprocal_rank(ranks))}


def rows_of(n: int | None) -> tuple[np.ndarray, ...]:
    """Return the data with `n` training rows, or all of them."""
    X, Y, X_test, Y_test = load()
    torch.set_num_threads(1)
    return X[:n], Y[:n], X_test, Y_test


def choose(n: int | None, epochs: int) -> dict[str, int]:
    """Return the best loss of each kind by the MRR on held-out rows, wrong ones among them."""
    X, Y, *_ = rows_of(n)
    order = np.random.default_rng(100).permutation(len(X))
    held, rest = order[: len(X) // 5], order[len(X) // 5 :]
    wrong = contaminated(Y, 100)
    best = dict.fromkeys(GRID, 0)
    for name, losses in GRID.items():
        if len(losses) > 1:
            models = (fit(loss, X[rest], wrong[rest], 100, epochs) for loss in losses)
            scores = [judge(model, X[held], wrong[held])["MRR"] for model in models]
            best[name] = int(np.argmax(scores))
    return best


def of_seed(seed: int, n: int | None, epochs: int, results: Results) -> dict[str, dict[str, float]]:
    """Return the scores of each loss; those chosen are the first, unless there was a choice."""
    X, Y, X_test, Y_test = rows_of(n)
    best, wrong = results.get("choose", dict.fromkeys(GRID, 0)), contaminated(Y, seed)
    return {
        name: judge(fit(losses[best[name]], X, wrong, seed, epochs), X_test, Y_test)
        | {"loss": repr(losses[best[name]])}
        for name, losses in GRID.items()
    }


def plan(size: Size) -> Plan:
    """Return the run; a brief one has three seeds, and the losses that the record has chosen."""
    n, epochs = (1500, 5) if size == "quick" else (None, EPOCHS)
    seeds = {"quick": 2, "brief": 3, "full": N_SEEDS}[size]
    pieces = {} if size == "brief" else {"choose": alone(choose, n, epochs)}
    pieces |= {f"seed {i}": partial(of_seed, i, n, epochs) for i in range(seeds)}
    settings = {"share": SHARE, "m_y": M_Y, "seeds": seeds, "epochs": epochs, "batch": BATCH}
    settings |= {"lr": LR, "kernel": "Gaussian('median')"}
    return Plan("robust_outputs", settings, pieces, rows)


def rows(results: Results) -> list[dict[str, Any]]:
    """Return one row for each loss, over seeds."""
    runs = [found for name, found in results.items() if name != "choose"]
    table = []
    for name in GRID:
        row: dict[str, Any] = {"loss": runs[0][name]["loss"]}
        for metric, sign in (("error", 1.0), ("MRR", -1.0)):
            gains = [sign * (run["squared"][metric] - run[name][metric]) for run in runs]
            row[metric] = mean_sd(run[name][metric] for run in runs)
            row[f"{metric}: gain"] = mean_sd(gains)
            row[f"{metric}: better than squared in"] = sum(gain > 0 for gain in gains)
        table.append(row)
    return table


if __name__ == "__main__":
    run_script(__doc__, plan, ["loss", "error", "error: gain", "MRR", "MRR: gain"])
