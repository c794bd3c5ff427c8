"""Figure 5.2: DSOKR on synthetic least squares, whose outputs lie near a subspace of dimension 50.

    python -m experiments.papers.figure_5_2 [--quick]             leverage scores, perfect h
    python -m experiments.papers.figure_5_2 --networks [--quick]  the networks: better on a GPU

50,000 training, 5,000 validation and 10,000 test rows; inputs in R^2000 with decaying covariance,
outputs y = U H x + noise in R^1000, noise of variance 0.01 (5.21); linear output kernel. A single
linear layer predicts the m_y coordinates of a sketched output basis (DSOKR), or all 1,000 outputs
(NN). Epochs are chosen on the validation part; three replicates of the sketch and of the network.

leverage   the 400 highest approximate leverage scores of the outputs, lambda 1e-4
perfect    validation MSE of the perfect coefficients in a basis of m_y (5.20)
mse        test MSE of DSOKR for each m_y, and of NN

"DSOKR" has a sketch of m_y rows, as the thesis; "Gaussian" a dense sketch of m_y combinations;
"truncated" the m_y largest coordinates of a sketch of 1,000 rows, so that the network is of the
same size.
"""

from __future__ import annotations

import functools
import itertools
import sys
from typing import Any

import numpy as np

from experiments.common import clock, figure_path, mean_sd, read_record
from experiments.pieces import Plan, Size, alone, joined, run_script
from skout import KernelBasis
from skout.datasets import make_subspace_regression
from skout.deep import MLP, NeuralRegressor, Training
from skout.sketches import GaussianSketch, SubSample
from skout.theory import leverage_scores

SIZES = (25, 50, 75, 100, 200, 400)
LARGE = 1000
EPOCHS, LR = 25, 1e-2
BRIEF_ROWS = (20_000, 2000, 5000)
METHODS = {
    "DSOKR": SubSample,
    "Gaussian": GaussianSketch,
    "truncated": lambda m: SubSample(LARGE),
}


def problem(n: int, n_val: int, n_test: int) -> list[Any]:
    data = make_subspace_regression(n, n_val, n_test, random_state=0)
    return [data.part(name) for name in data.split]


def mse(F: np.ndarray, Y: np.ndarray) -> float:
    return float(np.mean((F - Y) ** 2, dtype=np.float64))


def train(
    X: Any, T: Any, held: Any, epochs: int, batch: int, device: str, seed: int
) -> NeuralRegressor:
    """Fit a linear layer; the epoch that is best on the validation part is kept."""
    n, n_val = len(X[0]), len(held[0])
    both = np.concatenate([X[0], held[0]]), np.concatenate([T, held[1]])
    model = NeuralRegressor(
        Linear,
        training=Training(epochs, batch, LR, warmup=0.02, optimizer="adam"),
        validation=np.arange(n, n + n_val),
        device=device,
        random_state=seed,
    )
    return model.fit(*both)


def Linear(n_outputs: int) -> MLP:
    return MLP(n_outputs, hidden=())


def n_weights(model: NeuralRegressor) -> int:
    return sum(p.numel() for p in model.module_.parameters())


@functools.cache
def parts(size: Size) -> list[Any]:
    """Return training, validation and test part of a run with networks."""
    rows = {"quick": (3000, 500, 1000), "brief": BRIEF_ROWS}
    return problem(*rows.get(size, (50_000, 5000, 10_000)))


def full_layer(
    size: Size, epochs: int, batch: int, replicates: int, device: str
) -> list[dict[str, Any]]:
    """Return the row of the network that predicts all outputs."""
    train_part, val, test = parts(size)
    errors, weights = [], 0
    with clock() as spent:
        for seed in range(replicates):
            net = train(train_part, train_part[1], val, epochs, batch, device, seed)
            errors.append(mse(net.predict(test[0]), test[1]))
            weights = n_weights(net)
    row = {"method": "NN", "mse": mean_sd(errors), "weights": weights}
    return [row | {"seconds": spent.cpu / replicates}]


def sketched(
    method: str, m: int, size: Size, epochs: int, batch: int, replicates: int, device: str
) -> list[dict[str, Any]]:
    """Return the row of the network that predicts the coordinates of a sketch."""
    train_part, val, test = parts(size)
    perfect, found, weights = [], [], 0
    with clock() as spent:
        for seed in range(replicates):
            basis = KernelBasis(
                "linear", METHODS[method](m), whiten="eigh", rank=m, random_state=seed
            )
            T = basis.fit_transform(train_part[1])
            back = basis.combine(basis.landmarks_)  # coordinates to outputs
            held = basis.transform(val[1])
            perfect.append(mse(held @ back, val[1]))
            model = train(train_part, T, (val[0], held), epochs, batch, device, seed)
            found.append(mse(model.predict(test[0]) @ back, test[1]))
            weights = n_weights(model)
    row = {"method": method, "m_y": m, "perfect": mean_sd(perfect), "mse": mean_sd(found)}
    return [row | {"weights": weights, "seconds": spent.cpu / replicates}]


def plan_networks(size: Size, device: str = "auto") -> Plan:
    """Return the run with networks; the full one wants a GPU, the brief one has fewer rows."""
    epochs, replicates = {"quick": (3, 1), "brief": (EPOCHS, 1), "full": (EPOCHS, 3)}[size]
    batch = 128 if size == "brief" else 512  # as many steps with fewer rows
    sizes = SIZES if size == "full" else (75,)
    given = (size, epochs, batch, replicates, device)
    pieces = {"NN": alone(full_layer, *given)}
    for m, method in itertools.product(sizes, METHODS):
        pieces[f"{method} {m}"] = alone(sketched, method, m, *given)
    settings = {"sizes": sizes, "epochs": epochs, "batch": batch, "lr": LR}
    settings["replicates"] = replicates
    settings |= {"n_train": BRIEF_ROWS[0]} if size == "brief" else {}
    return Plan("figure_5_2", settings, pieces, joined, draw if size == "full" else None)


@functools.cache
def outputs(quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs of the training and the validation part."""
    (_, known), (_, held), _ = problem(*((3000, 500, 10) if quick else (50_000, 5000, 10)))
    return known, held


def perfect(m: int, replicates: int, quick: bool) -> list[dict[str, Any]]:
    """Return the validation MSE of perfect coefficients, over draws; no network is asked."""
    known, held = outputs(quick)
    rows = []
    for method in ("DSOKR", "truncated"):
        found = []
        for seed in range(replicates):
            basis = KernelBasis(
                "linear", METHODS[method](m), whiten="eigh", rank=m, random_state=seed
            ).fit(known)
            back = basis.combine(basis.landmarks_)
            found.append(mse(basis.transform(held) @ back, held))
        rows.append({"method": method, "m_y": m, "perfect": mean_sd(found)})
    return rows


def leverage(quick: bool) -> list[dict[str, Any]]:
    """Return the highest approximate leverage scores, by the thesis's pilot and by a larger one."""
    known = outputs(quick)[0].astype(np.float64)
    rows = []
    for n_pilot in (int(np.sqrt(len(known))), 2000):
        scores = leverage_scores("linear", known, 1e-4, n_pilot, random_state=0).scores
        highest = np.sort(scores)[::-1][:400].round(6).tolist()
        rows.append({"method": "leverage", "n_pilot": n_pilot, "scores": highest})
    return rows


def plan(size: Size) -> Plan:
    """Return the part without networks: leverage scores and perfect h, ten draws."""
    quick = size == "quick"
    draws = {"quick": 2, "brief": 3, "full": 10}[size]
    sizes = SIZES[::4] if quick else SIZES
    pieces = {"leverage": alone(leverage, quick)}
    pieces |= {f"m_y {m}": alone(perfect, m, draws, quick) for m in sizes}
    settings = {
        "sizes": sizes,
        "draws": draws,
        "large": LARGE,
        "methods": list(METHODS),
        "quick": quick,
    }
    return Plan("figure_5_2_perfect", settings, pieces, joined)


def draw(record: dict[str, Any]) -> None:
    import matplotlib.pyplot as plt

    rows = record["results"]
    plain = next(row for row in rows if row["method"] == "NN")
    scores = next(row for row in read_record("figure_5_2_perfect")["results"] if "scores" in row)
    fig, axes = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    axes[0].plot(scores["scores"])
    axes[0].set(xlabel="rank", ylabel="leverage score", title="leverage scores", yscale="log")
    for method, marker in (("DSOKR", "o"), ("Gaussian", "^"), ("truncated", "s")):
        ours = [row for row in rows if row["method"] == method]
        sizes = [row["m_y"] for row in ours]
        perfect, errors = (np.array([row[name] for row in ours]).T for name in ("perfect", "mse"))
        axes[1].errorbar(sizes, *perfect, marker=marker, label=method)
        axes[2].errorbar(sizes, *errors, marker=marker, label=method)
    axes[1].set(xlabel="$m_y$", ylabel="validation MSE", title="perfect h", yscale="log")
    axes[2].axhline(plain["mse"][0], color="black", lw=0.5, label="NN")
    axes[2].set(xlabel="$m_y$", ylabel="test MSE", title="DSOKR beside NN", yscale="log")
    axes[2].legend()
    for ax in axes[1:]:
        ax.axvline(75, color="grey", ls=":")
    fig.savefig(figure_path("figure_5_2.png"), dpi=120)


if __name__ == "__main__":
    networks = "--networks" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--networks"]
    columns = ["method", "m_y", "perfect", "mse", "weights", "seconds"]
    run_script(__doc__, plan_networks if networks else plan, columns)
