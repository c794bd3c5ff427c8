"""Table 4.4 with the sketches of the thesis: each method has its own width and alpha, five draws.

    python -m experiments.papers.table_4_4 prepare  spectra and candidates, one file
    python -m experiments.papers.table_4_4 [--quick]  the run, which needs no RDKit and no Parquet

The data, the split and the 7,000 training spectra are those of `massbank.py`, whose `prepare` comes
first. Sketches as in the thesis: p-SR inputs in SIOKR, p-SR outputs in ISOKR, sub-sampled inputs
and p-SR outputs in SISOKR; beside each the same with sub-sampling alone. Width and alpha are chosen
for each of them by the mean reciprocal rank on 1,000 validation spectra, with draw 0 of the sketch.
The thesis chooses by the squared error in the output space, whose scale changes with the width.
"""

from __future__ import annotations

import itertools
import sys
from functools import partial
from typing import Any

import numpy as np

from experiments.common import mean_sd
from experiments.papers.formulas import Sums, dual_weights, ridge_path
from experiments.papers.massbank import (
    CACHE,
    M_X,
    M_Y,
    Problem,
    input_kernel,
    judge,
    kernel_loss,
    parts_of,
    ranks_of,
)
from experiments.pieces import Plan, Results, Size, run_script
from skout import CandidateSets, KernelBasis, iokr
from skout.decoding import CandidateDecoder
from skout.dev import Spectra
from skout.kernels import GaussianTanimoto, PackedBits
from skout.sketches import PSparsified, SubSample

FILE = CACHE / "table_4_4.npz"
GAMMAS = (0.1, 0.2, 0.5, 1.0, 2.0)
ALPHAS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
N_DRAWS = 5
INPUTS = {"exact": None, "p-SR": PSparsified(M_X), "sub-sampling": SubSample(M_X)}
OUTPUTS = {"exact": None, "p-SR": PSparsified(M_Y), "sub-sampling": SubSample(M_Y)}
METHODS = {  # input sketch, output sketch
    "IOKR": ("exact", "exact"),
    "SIOKR": ("p-SR", "exact"),
    "SIOKR, sub-sampling": ("sub-sampling", "exact"),
    "ISOKR": ("exact", "p-SR"),
    "ISOKR, sub-sampling": ("exact", "sub-sampling"),
    "SISOKR": ("sub-sampling", "p-SR"),
    "SISOKR, sub-sampling": ("sub-sampling", "sub-sampling"),
}


# Data ------------------------------------------------------------------------------------------


def prepare() -> None:
    """Write the spectra of the three parts, and the candidates of those that are asked."""
    problem = Problem()
    parts = parts_of(problem, False)
    some = np.concatenate(parts)
    asked = np.unique(problem.formula[np.concatenate(parts[1:])])
    sizes = np.diff(problem.starts)[asked]
    kept = np.concatenate([np.arange(*problem.starts[f : f + 2]) for f in asked])
    more = np.setdiff1d(problem.place[parts[0]], kept)  # molecules to train on
    kept = np.concatenate([kept, more])
    number = np.full(len(problem.pool), -1)
    number[kept] = np.arange(len(kept))
    formula = np.searchsorted(asked, problem.formula[some])
    rows = problem.spectra[some]
    np.savez_compressed(
        FILE, indptr=rows.indptr, words=problem.pool[kept].words, n_bits=problem.pool.n_bits,
        mz=rows.mz.astype(np.float32), intensity=rows.intensity.astype(np.float32),
        precursor=rows.precursor[rows.indptr[:-1]], starts=np.append(0, np.cumsum(sizes)),
        formula=np.where(formula < len(asked), formula, 0), place=number[problem.place[some]],
        keys=np.unique(problem.keys[some], return_inverse=True)[1], sizes=[len(p) for p in parts],
    )  # fmt: skip


class Asked:
    """What `prepare` wrote, as `massbank.Problem` has it."""

    def __init__(self, quick: bool) -> None:
        with np.load(FILE) as file:
            z = {name: file[name] for name in file.files}
        each = np.diff(z["indptr"])
        columns = (z["mz"].astype(float), z["intensity"].astype(float))
        self.spectra = Spectra(z["indptr"], *columns, np.repeat(z["precursor"], each))
        self.pool = PackedBits(z["words"], int(z["n_bits"]))
        self.place, self.starts, self.formula = z["place"], z["starts"], z["formula"]
        self.keys = z["keys"]
        ends = np.cumsum(z["sizes"])
        parts = np.split(np.arange(ends[-1]), ends[:-1])
        self.train, self.val, self.test = (p[:300] if quick else p for p in parts)

    def sets(self, some: np.ndarray) -> CandidateSets:
        return Problem.sets(self, some)  # type: ignore[arg-type]

    def molecules(self, some: np.ndarray) -> PackedBits:
        return self.pool[self.place[some]]


# Methods ---------------------------------------------------------------------------------------


def choose(inputs: str, quick: bool, _: Results) -> dict[str, list[float]]:
    """Return width and alpha of each method with these inputs, and how good they are."""
    problem = Asked(quick)
    train, val = problem.train, problem.val
    gammas = GAMMAS[1:3] if quick else GAMMAS
    sketches = [own[1] for own in METHODS.values() if own[0] == inputs]
    bases = {
        pair: KernelBasis(GaussianTanimoto(pair[1]), OUTPUTS[pair[0]], random_state=1)
        for pair in itertools.product(sketches, gammas)
    }
    T = {pair: basis.fit_transform(problem.molecules(train)) for pair, basis in bases.items()}
    truth, sets = problem.molecules(val), problem.sets(val)
    found: dict[Any, float] = {}
    predicted = list(predictions(problem, inputs, T))  # for each alpha
    for pair, basis in bases.items():
        decoder = CandidateDecoder().fit(basis, problem.molecules(train), T[pair])
        pool = decoder.embed(sets)
        for alpha, F in predicted:
            row = judge(problem, decoder.truth_ranks(F[pair], truth, pool), val)  # type: ignore
            found[pair[0], pair[1], alpha] = row["MRR"]
    chosen = {}
    for method, own in METHODS.items():
        if own[0] == inputs:
            best = max((key for key in found if key[0] == own[1]), key=lambda key: found[key])
            chosen[method] = [*best[1:], found[best]]
    return chosen


def predictions(problem: Asked, inputs: str, T: dict[Any, np.ndarray]) -> Any:
    """Yield each alpha and the coordinates predicted for the validation spectra."""
    X, X_val = problem.spectra[problem.train], problem.spectra[problem.val]
    if inputs == "exact":
        kernel = input_kernel()
        K, K_val = kernel(X), kernel(X_val, X)
        for alpha, weights in dual_weights(K, K_val, ALPHAS):
            yield alpha, {pair: weights @ some for pair, some in T.items()}
        return
    basis = KernelBasis(input_kernel(), INPUTS[inputs], random_state=0)
    Z, Z_val = basis.fit_transform(X), basis.transform(X_val)
    paths = {pair: list(ridge_path(Sums.of(Z, some), ALPHAS)) for pair, some in T.items()}
    for i, alpha in enumerate(ALPHAS):
        yield alpha, {pair: Z_val @ path[i][0] for pair, path in paths.items()}


def scores(method: str, seed: int, quick: bool, results: Results) -> list[dict[str, Any]]:
    """Return the row of one draw on the test spectra."""
    problem = Asked(quick)
    chosen = {k: v for name, part in results.items() if "choose" in name for k, v in part.items()}
    gamma, alpha, _ = chosen[method]
    inputs, outputs = METHODS[method]
    model = iokr(
        input_kernel(), GaussianTanimoto(gamma), input_sketch=INPUTS[inputs],
        output_sketch=OUTPUTS[outputs], alpha=alpha, random_state=seed,
    )  # fmt: skip
    model.fit(problem.spectra[problem.train], problem.molecules(problem.train))
    X = problem.spectra[problem.test]
    ranks = ranks_of(problem, model, X, problem.test)  # type: ignore[arg-type]
    loss = kernel_loss(problem, model, X, problem.test)  # type: ignore[arg-type]
    row = {"method": method, "gamma": gamma, "alpha": alpha, "kernel loss": loss}
    return [row | judge(problem, ranks, problem.test)]  # type: ignore[arg-type]


def plan(size: Size) -> Plan:
    quick = size == "quick"
    draws = 2 if quick else N_DRAWS
    pieces: dict[str, Any] = {
        f"choose {inputs}": partial(choose, inputs, quick) for inputs in INPUTS
    }
    for method in METHODS:
        for seed in range(1 if method == "IOKR" else draws):
            pieces[f"{method} {seed}"] = partial(scores, method, seed, quick)
    settings = {"m_x": M_X, "m_y": M_Y, "gammas": GAMMAS, "alphas": ALPHAS, "draws": draws}
    return Plan("table_4_4", settings | {"quick": quick}, pieces, rows)


def rows(results: Results) -> list[dict[str, Any]]:
    """Return one row for each method, over draws."""
    table = []
    for method in METHODS:
        found = [
            r[0] for name, r in results.items() if isinstance(r, list) and r[0]["method"] == method
        ]
        row = {"method": method, "draws": len(found)}
        row |= {name: found[0][name] for name in ("gamma", "alpha")}
        numbers = [name for name in found[0] if name not in ("method", "gamma", "alpha")]
        table.append(row | {name: mean_sd(one[name] for one in found) for name in numbers})
    return table


if __name__ == "__main__":
    if "prepare" in sys.argv:
        prepare()
    else:
        run_script(__doc__, plan, ["method", "gamma", "alpha", "top-1 %", "top-10 %", "MRR"])
