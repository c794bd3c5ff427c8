"""What privacy costs: accuracy of `PrivateRidge` against epsilon on two regression sets.

    python -m experiments.ours.privacy [--quick]

A tenth of the rows is held out. Inputs and targets are scaled by what is taken as publicly known,
their mean and deviation (where they are not, scaling tells them); targets beyond three deviations
are cut. The width is 1 / (2 d) and delta 1e-6 throughout, nothing is tried, since every trial would
spend privacy. Ten seeds of the noise. Beside it: the same features without noise, and an attack at
epsilon = 1 that guesses from a prediction which of two targets a row had. It is no evidence of
privacy: whoever saw the noisy moments themselves could guess better, by what "best" says. That the
noise is enough is tested on the worst pair of rows, in tests/regressors/test_private.py.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from tqdm import tqdm

from experiments.common import figure_path, mean_sd, print_table, write_record
from skout import KernelRidge, PrivateRidge, datasets
from skout.kernels import Fourier, Gaussian

SETS = ("kin40k", "keggundirected")
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
FEATURES, DELTA, SEEDS = 200, 1e-6, 10


def load(name: str, n: int | None) -> tuple[np.ndarray, ...]:
    """Return standardised inputs and targets, a tenth of them for testing."""
    data = datasets.load(name, "regression")
    X, y = data.X[:n], np.ravel(data.Y)[:n]
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    y = np.clip((y - y.mean()) / y.std(), -3.0, 3.0) / 3.0
    order = np.random.default_rng(0).permutation(len(X))
    test, train = order[: len(X) // 10], order[len(X) // 10 :]
    return X[train], y[train], X[test], y[test]


def private(epsilon: float, d: int, seed: int) -> PrivateRidge:
    kernel = Fourier(Gaussian(0.5 / d), FEATURES)
    return PrivateRidge(kernel, epsilon=epsilon, delta=DELTA, random_state=seed)


def curve(name: str, n: int | None, seeds: int) -> list[dict[str, Any]]:
    X, y, X_test, y_test = load(name, n)
    d = X.shape[1]
    plain = KernelRidge(Fourier(Gaussian(0.5 / d), FEATURES), "subsample", alpha=1e-6)
    score = plain.set_params(random_state=0).fit(X, y).score(X_test, y_test)
    rows = [{"data": name, "n": len(X), "epsilon": None, "R2": [float(score), 0.0]}]
    for epsilon in tqdm(EPSILONS, desc=name):
        scores = [private(epsilon, d, s).fit(X, y).score(X_test, y_test) for s in range(seeds)]
        rows.append({"data": name, "n": len(X), "epsilon": epsilon, "R2": mean_sd(scores)})
    return rows


def attack(name: str, n_trials: int) -> dict[str, Any]:
    """Tell, from a prediction, which of two targets the first of 200 rows had."""
    X, y, _, _ = load(name, 250)
    inside, found = np.arange(n_trials) % 2 == 0, np.empty(n_trials)
    for trial in tqdm(range(n_trials), desc=f"{name}: attack"):
        y[0] = 1.0 if inside[trial] else -1.0
        model = private(1.0, X.shape[1], trial).fit(X, y)
        found[trial] = model.predict(X[:1])[0]
    right = (found > np.median(found)) == inside
    return {
        "data": name,
        "epsilon": 1.0,
        "advantage": 2 * float(right.mean()) - 1,
        # of a likelihood ratio: the moments phi t are 2 apart, of equal features of norm 1
        "best": 2 * float(norm.cdf(1.0 / model.noise_)) - 1,
        "bound": (math.e - 1 + 2 * DELTA) / (math.e + 1),
    }


def draw(rows: list[dict[str, Any]]) -> None:
    """Draw accuracy against epsilon, with the dashed line that no noise reaches."""
    fig, axes = plt.subplots(1, len(SETS), figsize=(8, 3), layout="constrained")
    for ax, name in zip(axes, SETS, strict=True):
        own = [row for row in rows if row["data"] == name]
        mean, std = np.array([row["R2"] for row in own[1:]]).T
        ax.errorbar(EPSILONS, mean, std, marker="o", capsize=3)
        ax.axhline(own[0]["R2"][0], linestyle="--", color="0.5", label="without noise")
        ax.set(
            xscale="log", xlabel="epsilon", ylabel="test R2", title=f"{name}, n = {own[0]['n']:,}"
        )
        ax.legend()
    fig.savefig(figure_path("privacy.png"), dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows and seeds, no record")
    quick = parser.parse_args().quick
    n, seeds, trials = (3000, 2, 40) if quick else (None, SEEDS, 1000)
    rows = [row for name in SETS for row in curve(name, n, seeds)]
    attacks = [attack(name, trials) for name in SETS]
    print_table(rows, list(rows[0]))
    print_table(attacks, list(attacks[0]))
    settings = {"features": FEATURES, "delta": DELTA, "seeds": seeds, "trials": trials}
    if not quick:
        write_record("privacy", settings, rows + attacks)
        draw(rows)


if __name__ == "__main__":
    main()
