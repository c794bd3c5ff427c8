"""Decoding by a loss of one's own, `LossDecoder`: what it is worth, and what it needs.

    python -m experiments.ours.any_loss f_beta [--quick]  bibtex, F-beta for three beta; record
    python -m experiments.ours.any_loss molecules [--quick]  SMI2Mol, edit distance; RDKit; record
    python -m experiments.ours.any_loss memory [--quick]  100,000 rows, 10,000 candidates; record
    python -m experiments.ours.any_loss table  the records, as markdown

f_beta: the official split. Each beta has a model of its own: SIOKR with 1,500 landmarks and the
Gaussian kernel on label sets, whose weights are those of the distinct training sets; alpha by
three folds of the training part and the example F-beta of the same beta.

molecules: as table 5.1, but small, since a loss costs an edit distance for each candidate and
landmark: 4,000 training molecules, 60 output landmarks, 80 test molecules, and for each of these
the five best candidates by the kernel, which the edit distance puts in order. Three seeds.

memory: label sets of 20 labels; 2,000 queries. The weights of all queries and rows would be a
matrix of 1.6 GB.
"""

from __future__ import annotations

import argparse
import resource
import textwrap
import tracemalloc
from typing import Any

import numpy as np
from sklearn.metrics import fbeta_score
from tqdm import tqdm

from experiments.common import clock, load_labels, mean_sd, print_table, read_record, write_record
from skout import (
    CandidateSets,
    KernelBasis,
    KernelRidge,
    StructuredPredictor,
    iokr,
    memory_limits,
    sisokr,
)
from skout.decoding import LossDecoder
from skout.kernels import Gaussian, NGram, Normalized
from skout.sketches import SubSample

SEED, BETAS, ALPHAS = 0, (0.5, 1.0, 2.0), tuple(10.0 ** np.arange(-6.0, -1.9, 0.5))
N_TRAIN, N_TEST, M_Y, TOP = 4000, 80, 60, 5


# Label sets ------------------------------------------------------------------------------------


class ExampleFBeta:
    """The mean over rows of F-beta, as a metric to choose by."""

    def __init__(self, beta: float) -> None:
        self.beta = beta

    def __call__(self, Y: Any, predicted: Any) -> float:
        pair = (np.asarray(A) for A in (Y, predicted))
        return float(fbeta_score(*pair, beta=self.beta, average="samples", zero_division=1.0))


def f_beta(quick: bool) -> None:
    X, Y, X_test, Y_test = load_labels("bibtex")
    some = slice(0, 800 if quick else None)
    rows = []
    for beta in tqdm(BETAS, desc="bibtex"):
        model = iokr(
            Gaussian("median"), Gaussian(0.5), input_sketch=SubSample(300 if quick else 1500),
            alpha=ALPHAS, scoring=ExampleFBeta(beta), cv=3, random_state=SEED,
            decoder=LossDecoder("f_beta", beta=beta),
        ).fit(X[some], Y[some])  # fmt: skip
        predicted = model.predict(X_test)
        row: dict[str, Any] = {"decoded for": beta, "alpha": model.regressor_.alpha_}
        row |= {f"F{b:g}": 100.0 * ExampleFBeta(b)(Y_test, predicted) for b in BETAS}
        rows.append(row | {"mean labels": float(np.asarray(predicted).sum(axis=1).mean())})
        print(rows[-1], flush=True)
    print_table(rows, list(rows[0]))
    if not quick:
        settings = {"alphas": ALPHAS, "m_x": 1500, "mean labels of the truth": Y_test.sum(1).mean()}
        write_record("any_loss_f_beta", settings, rows, SEED)


# Molecules -------------------------------------------------------------------------------------


def edit_distances(candidates: Any, known: Any) -> np.ndarray:
    """Return the graph edit distance of each candidate and each known molecule, of SMILES."""
    from skout.metrics import graph_edit_distance

    pairs = [(str(c), str(y)) for c in candidates for y in known]
    found = graph_edit_distance(*map(list, zip(*pairs, strict=True)), n_jobs=2)
    return np.asarray(found, dtype=np.float64).reshape(len(candidates), len(known))


def molecules_seed(seed: int, n: int, n_test: int, m: int) -> dict[str, Any]:
    """Return mean edit distances of the kernel's own best and of the least expected one."""
    from experiments.papers.smi2mol import KERNEL, load_smiles
    from skout.metrics import graph_edit_distance

    smiles = [str(text) for text in load_smiles() if sum(c.isalpha() for c in str(text)) > 1]
    order = np.random.default_rng(seed).permutation(len(smiles))
    train = [smiles[i] for i in order[:n]]
    test = [smiles[i] for i in order[n : n + n_test]]
    model = sisokr(
        Normalized(NGram(3, short="keep")), KERNEL, input_sketch=SubSample(min(n, 2000)),
        output_sketch=SubSample(m), alpha=1e-6, random_state=seed,
    ).fit(train, train)  # fmt: skip
    index, _ = model.rank(test, train, k=TOP)
    sets = CandidateSets(train, np.arange(n_test + 1) * TOP, index.ravel())
    basis, row = model.output_basis_, {"seed": seed, "n": n}
    with clock() as spent:
        decoder = LossDecoder(edit_distances, on="lists").fit(basis, train)
        chosen = decoder.decode(model.predict_coordinates(test), sets)
    for name, found in (("kernel", [train[i] for i in index[:, 0]]), ("edit distance", chosen)):
        for labels in (False, True):
            D = graph_edit_distance(found, test, edge_labels=labels, n_jobs=2)
            key = f"{name}, {'with' if labels else 'without'} edge labels"
            row[key] = float(np.mean(D))
    best = [
        graph_edit_distance([train[j] for j in some], [one] * TOP, n_jobs=2).min()
        for some, one in zip(index, test, strict=True)
    ]
    return row | {"best of five, with edge labels": float(np.mean(best)), "seconds": spent.seconds}


def molecules(quick: bool) -> None:
    sizes = (400, 20, 20) if quick else (N_TRAIN, N_TEST, M_Y)
    rows = []
    for seed in tqdm(range(1 if quick else 3), desc="SMI2Mol"):
        rows.append(molecules_seed(seed, *sizes))
        print(rows[-1], flush=True)
        if not quick:
            settings = {"n_train": N_TRAIN, "n_test": N_TEST, "m_y": M_Y, "candidates": TOP}
            write_record("any_loss_molecules", settings, rows, SEED)


# Memory ----------------------------------------------------------------------------------------


def memory(quick: bool) -> None:
    n, n_sets, n_test = (5000, 500, 200) if quick else (100_000, 10_000, 2000)
    rng = np.random.default_rng(SEED)
    sets = np.unique(rng.random((4 * n_sets, 20)) < 0.25, axis=0)
    sets = sets[rng.permutation(len(sets))[:n_sets]].astype(np.int8)
    Y = sets[np.concatenate([np.arange(n_sets), rng.integers(0, n_sets, n - n_sets)])]
    X = Y @ rng.standard_normal((20, 8)) + 0.5 * rng.standard_normal((n, 8))
    model = StructuredPredictor(
        KernelRidge(Gaussian(0.05), SubSample(400), alpha=1e-4, random_state=SEED),
        KernelBasis(Gaussian(0.5), SubSample(1000), random_state=SEED),
        LossDecoder("f_beta", beta=2.0),
    )
    row: dict[str, Any] = {"n": n, "candidates": n_sets, "queries": n_test, "landmarks": 1000}
    for name, job in (
        ("fit", lambda: model.fit(X, Y)),
        ("predict", lambda: model.predict(X[:n_test], sets)),
    ):
        tracemalloc.start()
        with clock() as spent, memory_limits(coordinates_mb=100):
            job()
        row |= {f"{name}, peak MB": tracemalloc.get_traced_memory()[1] / 1e6}
        row |= {f"{name}, seconds": spent.seconds}
        tracemalloc.stop()
    row |= {"MB of a matrix of queries and rows": 8.0 * n * n_test / 1e6}
    row |= {"MB of the losses": 8.0 * n_sets * 1001 / 1e6}
    row |= {"peak RSS MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}
    print(row)
    if not quick:
        write_record("any_loss_memory", {}, [row], SEED)


# Tables ----------------------------------------------------------------------------------------


def f_beta_table() -> str:
    lines = ["| decoded for | F0.5 % | F1 % | F2 % | labels |", "|---|---:|---:|---:|---:|"]
    rows = read_record("any_loss_f_beta")["results"]
    for row in rows:
        cells = []
        for b in BETAS:
            key = f"F{b:g}"
            text = f"{row[key]:.1f}"
            cells.append(f"**{text}**" if row[key] == max(r[key] for r in rows) else text)
        start = f"| F{row['decoded for']:g} | {' | '.join(cells)}"
        lines.append(f"{start} | {row['mean labels']:.2f} |")
    return "\n".join(lines)


def molecules_table() -> str:
    rows = read_record("any_loss_molecules")["results"]
    lines = ["| loss | without edge labels | with edge labels |", "|---|---:|---:|"]
    for name in ("kernel", "edit distance"):
        pairs = [
            mean_sd(row[f"{name}, {kind} edge labels"] for row in rows)
            for kind in ("without", "with")
        ]
        cells = " | ".join(f"{a:.2f} ± {s:.2f}" for a, s in pairs)
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def memory_text() -> str:
    (row,) = read_record("any_loss_memory")["results"]
    parts = {key: f"{row[key]:,.0f}" for key in row}
    text = (
        f"With {parts['n']} training rows, {parts['candidates']} candidates and "
        f"{parts['landmarks']} output landmarks, {parts['queries']} queries take at most "
        f"{parts['predict, peak MB']} MB, of which the losses are {parts['MB of the losses']}; the "
        f"weights of all queries and rows would be {parts['MB of a matrix of queries and rows']}. "
        f"The fit takes {parts['fit, peak MB']} MB."
    )
    return textwrap.fill(text, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    jobs = {job.__name__: job for job in (f_beta, molecules, memory)}
    parser.add_argument("part", choices=(*jobs, "table"))
    parser.add_argument("--quick", action="store_true", help="small, no record")
    options = parser.parse_args()
    if options.part == "table":
        print(f_beta_table(), molecules_table(), sep="\n\n")
    else:
        jobs[options.part](options.quick)


if __name__ == "__main__":
    main()
