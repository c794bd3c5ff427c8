"""What `correct_hubness` is worth: ranks with and without hubness penalties, on four tasks.

    python -m experiments.ours.hubness [--quick]      the record

Digits and USPS: the lower half of an image from the upper one, among all lower halves, of which no
training one is the truth; ten splits and draws. MassBank: spectra of the validation part among
molecules of their formula, as in `massbank.py`. bibtex: label sets among the training ones, which
most test sets are, official split, ten draws. Nothing is tuned: the parameters are the defaults,
which were set on captions of molecules (`text2mol.py`) before these were run.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

from experiments.common import load_labels, mean_sd, print_table, write_record
from experiments.papers import massbank
from skout import correct_hubness, sisokr
from skout.datasets import load
from skout.kernels import F1, Gaussian
from skout.metrics import example_f1, hits_at_k, mean_reciprocal_rank
from skout.sketches import SubSample

ALPHAS = tuple(10.0 ** np.arange(-7.0, -1.9, 1.0))
SEED, N_DRAWS = 0, 10
HALVES = {"digits": (1200, 400), "USPS": (4000, 800)}  # training images, landmarks


def halves(data: str, seed: int) -> dict[str, list[float]]:
    """Return the ranks of lower halves of images."""
    images = load_digits().data / 16.0 if data == "digits" else np.asarray(load("usps").X)
    order = np.random.default_rng(seed).permutation(len(images))
    n, m = HALVES[data]
    images = images[order[: n + 1500]]
    upper, lower = np.split(images, 2, axis=1)
    kernel, sketch = Gaussian("median"), SubSample(m)
    model = sisokr(
        kernel, kernel, input_sketch=sketch, output_sketch=sketch, alpha=ALPHAS, random_state=seed
    )
    model.fit(upper[:n], lower[:n])
    fair = correct_hubness(model, upper[:n], lower[:n], lower, random_state=seed)
    ranks = [model.truth_ranks(upper[n:], lower[n:], pool) for pool in (lower, fair)]
    return {
        "MRR": [float(mean_reciprocal_rank(r)) for r in ranks],
        "Hits@10 %": [100.0 * float(hits_at_k(r, 10)) for r in ranks],
    }


def spectra(seed: int) -> dict[str, list[float]]:
    """Return the ranks of molecules of one formula."""
    problem = _massbank()
    some, val, _ = massbank.parts_of(problem, quick=False)
    X, Y = problem.spectra[some], problem.pool[problem.place[some]]
    model = massbank.model("SISOKR", 0.5, 1e-5, seed).fit(X, Y)  # as chosen there
    sets, truth = problem.sets(val), problem.pool[problem.place[val]]
    fair = correct_hubness(model, X, Y, sets, random_state=seed)
    rows = [
        massbank.judge(problem, model.truth_ranks(problem.spectra[val], truth, pool), val)
        for pool in (sets, fair)
    ]
    return {"MRR": [row["MRR"] for row in rows], "Hits@10 %": [row["top-10 %"] for row in rows]}


@functools.cache
def _massbank() -> massbank.Problem:
    return massbank.Problem()


def label_sets(seed: int) -> dict[str, list[float]]:
    """Return the F1 of label sets, which are not unseen."""
    X, Y, X_test, Y_test = load_labels("bibtex")
    model = sisokr(
        Gaussian("median"), F1(), input_sketch=SubSample(1000), output_sketch=SubSample(200),
        alpha=ALPHAS, random_state=seed,
    ).fit(X, Y)  # fmt: skip
    fair = correct_hubness(model, X, Y, random_state=seed)
    return {"F1 %": [100.0 * example_f1(Y_test, model.predict(X_test, c)) for c in (None, fair)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="digits, two draws, no record")
    quick = parser.parse_args().quick
    tasks: dict[str, Callable[[int], dict[str, list[float]]]] = {
        "digits, lower halves": lambda seed: halves("digits", seed)
    }
    if not quick:
        tasks["USPS, lower halves"] = lambda seed: halves("USPS", seed)
        tasks["MassBank, molecules of a formula"] = spectra
        tasks["bibtex, label sets"] = label_sets
    rows: list[dict[str, Any]] = []
    for task, run in tasks.items():
        draws = [run(seed) for seed in tqdm(range(2 if quick else N_DRAWS), desc=task)]
        for metric in draws[0]:
            before, after = np.array([draw[metric] for draw in draws]).T
            row = {"task": task, "metric": metric, "draws": len(draws)}
            row |= {"without": mean_sd(before), "with": mean_sd(after)}
            rows.append(row | {"gain": mean_sd(after - before)})
        print_table(rows, list(rows[0]))
    if not quick:
        write_record("hubness", {"share": 0.5, "heat": 0.05, "alphas": ALPHAS}, rows, SEED)


if __name__ == "__main__":
    main()
