"""A last word over two ways on MassBank (`skout.Reranker`), by three kinds of candidates.

    python -m experiments.papers.massbank prepare --moses WHEEL  candidates and fingerprints; once
    python -m experiments.ours.massbank_mass prepare --pool POOL  candidates by mass; once
    python -m experiments.ours.reranking run [--seeds] [--protocols]  draws of all sketches; record
    python -m experiments.ours.reranking collect  the record of draws that are there
    python -m experiments.ours.reranking table  the records, as markdown

The data, the split by molecules and the settings of both ways are those of `two_way.py`, with 3,000
landmarks among spectra and 1,500 among molecules; the kernel on spectra is that of ALIGNF on the
training spectra of the draw. Weight, normalisation and last
word are learnt from what the models, which are fitted on training molecules, say of validation
molecules. The prior of a candidate, a column of the user, says by its fingerprint how plausible it
is as a molecule of MassBank; it is learnt from training molecules and others of their formulas.

Candidates: of the formula; of the formula with those of MOSES; within 10 ppm of the mass.
"""

from __future__ import annotations

import argparse
import json
import time
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.common import mean_sd, print_table, read_record, write_record
from experiments.ours import two_way
from experiments.ours.massbank_mass import ByMass
from experiments.papers.massbank import CACHE, Problem, judge, spectrum_kernels
from skout import (
    KernelBasis,
    KernelRidge,
    Reranker,
    StructuredPredictor,
    TwoWay,
    iokr,
    load,
    save,
)
from skout.decoding import CandidateDecoder
from skout.kernels import GaussianTanimoto, align
from skout.predictors.joint import JointBasis, JointRegressor, scaled
from skout.predictors.two_way_weight import Option, TwoWayScores, reciprocal_ranks
from skout.sketches import SubSample

N_DRAWS, M_X, M_Y = 5, 3000, 1500
# Of the prior: rivals of a formula, landmarks, folds.
N_RIVALS, M_PRIOR, N_FOLDS = 8, 1500, 5
# Candidates from which on a set counts as large.
LARGE = 50
PROTOCOLS = ("formula", "formula and MOSES", "10 ppm")
WAYS = ("backward", "forward", "both", "last word", "last word and prior")


# Candidates ------------------------------------------------------------------------------------


class Protocol:
    """Spectra with one kind of candidates, and the prior of these."""

    def __init__(self, name: str, quick: bool) -> None:
        self.problem = Problem(moses=name != "formula")
        self.train, self.val, self.test = two_way.parts_of(self.problem, quick)
        self.candidates: Any = ByMass(self.problem) if name == "10 ppm" else self.problem
        plausible = Plausibility(self.problem, self.train)
        self.priors = [self._prior(plausible, some) for some in (self.val, self.test)]

    def _prior(self, plausible: Plausibility, some: np.ndarray) -> np.ndarray:
        """Return the prior of each candidate of each set."""
        sets = self.candidates.sets(some)
        used, number = np.unique(sets.indices, return_inverse=True)
        return plausible(sets.pool[used])[number]


class Plausibility:
    """How much a molecule looks like those of the training part, rather than like their rivals.

    By ridge regression on fingerprints, +1 for molecules of training spectra and -1 for others of
    their formulas. Whoever is judged has no part in the regression that judges him, so that nothing
    is known of a molecule for being in the training part.
    """

    def __init__(self, problem: Problem, train: np.ndarray) -> None:
        rng, true = np.random.default_rng(0), np.unique(problem.place[train])
        rivals = [
            rng.permutation(np.setdiff1d(np.arange(*problem.starts[f : f + 2]), true))[:N_RIVALS]
            for f in np.unique(problem.formula[train])
        ]
        rows = problem.pool[np.concatenate([true, *rivals])]
        sign = np.where(np.arange(len(rows)) < len(true), 1.0, -1.0)
        fold = self._folds(rows)
        self.models = [
            KernelRidge(
                GaussianTanimoto(0.5), SubSample(M_PRIOR), alpha=1e-4, random_state=k
            ).fit(rows[fold != k], sign[fold != k])
            for k in range(N_FOLDS)
        ]  # fmt: skip

    @staticmethod
    def _folds(bits: Any) -> np.ndarray:
        """Return a fold for each molecule, the same for those of one fingerprint."""
        return (bits.words.sum(axis=1, dtype=np.uint64) % N_FOLDS).astype(int)

    def __call__(self, bits: Any) -> np.ndarray:
        fold, out = self._folds(bits), np.empty(len(bits))
        for k in np.unique(fold):
            own = np.flatnonzero(fold == k)
            out[own] = np.ravel(self.models[k].predict(bits[own]))
        return out


def aligned(X: Any, Y: Any, gamma: float, seed: int) -> Any:
    return align(spectrum_kernels(), X, Y, output_kernel=GaussianTanimoto(gamma), random_state=seed)


def two_ways(problem: Problem, train: np.ndarray, seed: int) -> TwoWay:
    """Return both ways with ALIGNF, fitted; settings were chosen by `two_way.py`."""
    gamma, alpha = read_record("two_way_backward")["settings"]["chosen (gamma, alpha)"]
    chosen = read_record("two_way_forward")["settings"]["chosen (kernel, gamma, alpha)"]
    X, Y = two_way.pair(problem, train)
    kernel = aligned(X, Y, gamma, seed)
    inputs = KernelBasis(kernel, SubSample(M_X), random_state=seed + 2000)
    forward = StructuredPredictor(two_way.ridge(*chosen[1:]), inputs)
    backward = iokr(
        kernel, GaussianTanimoto(gamma), input_sketch=SubSample(M_X),
        output_sketch=SubSample(M_Y), alpha=alpha, random_state=seed,
    )  # fmt: skip
    return TwoWay(backward, forward, 1.0).fit(X, Y)


# Draws -----------------------------------------------------------------------------------------


def ranks_by(ways: TwoWay, X: Any, Y: Any, pool: Any, options: list[Option]) -> np.ndarray:
    """Return the rank of the truth of each query by each option, shape (o, n)."""
    scores = TwoWayScores(pool, ways.output_basis_, ways.predict_coordinates(X))
    factors = np.array([one.factors for one in options])
    right = ways.decoder_.matched(Y, pool)
    found = [
        reciprocal_ranks(factors @ S, own == t) for t, (own, S) in zip(right, scores, strict=True)
    ]
    return 1.0 / np.array(found).T


def weighed(ways: TwoWay, option: Option) -> tuple[TwoWay, Any]:
    """Return the model with another weight and normalisation, and what makes its pools.

    These are made of pools of the model with weight 1 by distance: nothing is embedded again.
    """
    weight, cosine, basis = option.weight, option.normalization == "cosine", ways.output_basis_
    new = JointBasis(basis.outputs, basis.regressor, basis.n_forward, weight, cosine)
    found = copy(ways)
    found.regressor_ = JointRegressor(
        ways.regressor_.regressor, ways.regressor_.inputs, weight, cosine
    )
    found.output_basis_ = new
    found.decoder_ = CandidateDecoder().fit(new, basis.landmarks_[:1])

    def scale(pool: Any) -> Any:
        E = pool.embedding
        parts = basis.parts(np.zeros((1, E.shape[1] - 1)), E)
        own = [parts.z] if np.isfinite(weight) else []
        own += [scaled(parts.g, weight, cosine)] if weight > 0.0 else []
        factor = 1.0 if np.isinf(weight) else weight
        norms = factor * (1.0 if cosine else parts.squares)
        norms = norms + (parts.norms if np.isfinite(weight) else 0.0)
        embedding = np.column_stack([*own, -norms])
        return replace(pool, embedding=embedding, made_by=found.decoder_.made_by)

    return found, scale


def protocol_row(ways: TwoWay, given: Protocol) -> dict[str, Any]:
    """Return the results of a fitted model with one kind of candidates."""
    problem, val, test = given.problem, given.val, given.test
    (X, Y), own = two_way.pair(problem, val), given.candidates.sets(val)
    start = time.process_time()
    pool = ways.embed(own).distinct()
    parts = ways.regressor_, ways.output_basis_, ways.decoder_
    options, values = two_way.judged(parts, X, Y, pool)
    alone = [(v, o) for v, o in zip(values, options, strict=True) if np.isinf(o.weight)]
    tried = [options[0], max(alone)[1], options[int(np.argmax(values))]]
    both, scale = weighed(ways, tried[2])
    pool, keys, words = scale(pool), problem.keys[val], []
    _, number, counts = np.unique(keys, return_inverse=True, return_counts=True)
    for prior in (None, given.priors[0]):
        word = Reranker(both, cv="prefit", random_state=0)
        columns = None if prior is None else distinct_rows(prior, own, pool)
        word.fit(
            X, Y, groups=keys, candidates=pool, columns=columns,
            sample_weight=1.0 / counts[number],
        )  # fmt: skip
        words.append(word)
    learning = time.process_time() - start
    (X, Y), own = two_way.pair(problem, test), given.candidates.sets(test)
    start = time.process_time()
    pool = ways.embed(own).distinct()
    last = words[0].truth_ranks(X, Y, scale(pool))
    asking = 1000.0 * (time.process_time() - start) / len(test)
    columns = distinct_rows(given.priors[1], own, pool)
    prior_too = words[1].truth_ranks(X, Y, scale(pool), columns)
    ranks = [*ranks_by(ways, X, Y, pool, tried), last, prior_too]
    row: dict[str, Any] = {
        way: judge(problem, one, test) for way, one in zip(WAYS, ranks, strict=True)
    }
    sizes = own.sizes
    large = np.flatnonzero(sizes >= LARGE)
    among = {
        way: judge(problem, one[large], test[large]) for way, one in zip(WAYS, ranks, strict=True)
    }
    among |= {"n_test": len(large), "median": float(np.median(sizes[large]))}
    return row | {
        "large sets": among,
        "option": [tried[2].weight, tried[2].normalization],
        "coefficients": dict(zip(words[1].feature_names_, words[1].coef_.tolist(), strict=True)),
        "importances": dict(
            zip(words[1].feature_names_, words[1].importances_.tolist(), strict=True)
        ),
        "left out": words[0].n_left_out_,
        "learning, cpu seconds": learning,
        "1000 queries, cpu seconds": asking,
        "n_test": len(test),
        "candidates": {"median": float(np.median(sizes)), "mean": float(np.mean(sizes))},
    }


def distinct_rows(prior: np.ndarray, sets: Any, pool: Any) -> np.ndarray:
    """Return the priors of the candidates of a pool without copies, of those of its sets."""
    if len(pool.objects.indices) == len(prior):
        return prior
    of_member = np.zeros(len(sets.pool))
    of_member[sets.indices] = prior
    return of_member[pool.objects.indices]


def run(quick: bool, seeds: list[int], protocols: list[str]) -> None:
    """Write one file for each draw, and a record of those that are there."""
    given = {name: Protocol(name, quick) for name in protocols}
    for seed in [0] if quick else seeds:
        file = CACHE / f"last_word_{seed}.json"
        row = json.loads(file.read_text()) if file.exists() and not quick else {"seed": seed}
        first = next(iter(given.values()))
        ways = fitted(first.problem, first.train, seed, row, quick)
        for name, one in given.items():
            row[name] = protocol_row(ways, one)
            print(name, {way: row[name][way]["top-1 %"] for way in WAYS}, flush=True)
            if not quick:  # a run that is stopped leaves what it has
                file.write_text(json.dumps(row))
                collect()


def fitted(
    problem: Problem, train: np.ndarray, seed: int, row: dict[str, Any], quick: bool
) -> TwoWay:
    """Return the model of a draw, of a file if there is one."""
    file = CACHE / f"last_word_{seed}.skout"
    if file.exists() and not quick:
        return load(file)
    start = time.process_time()
    ways = two_ways(problem, train, seed)
    row["fit, cpu seconds"] = time.process_time() - start
    if not quick:
        save(ways, file, candidates=False)
    return ways


def collect() -> None:
    rows = [json.loads(file.read_text()) for file in sorted(CACHE.glob("last_word_*.json"))]
    settings = {"m_x": M_X, "m_y": M_Y, "kernel": "ALIGNF", "n_draws": len(rows)}
    write_record("reranking", settings, rows)


# Tables ----------------------------------------------------------------------------------------


def table() -> None:
    record = read_record("reranking")
    draws, columns = record["results"], ["top-1 %", "top-5 %", "top-10 %", "MRR"]
    for name in PROTOCOLS:
        some = [one[name] for one in draws if name in one]
        print(f"\n{name}: {len(some)} draws, {some[0]['n_test']} spectra, {some[0]['candidates']}")
        rows = [
            {"way": way} | {c: mean_sd([one[way][c] for one in some]) for c in columns}
            for way in WAYS
        ]
        print_table(rows, ["way", *columns])
        large = [one["large sets"] for one in some]
        print(f"{large[0]['n_test']} spectra of {LARGE} candidates or more")
        print_table(
            [
                {"way": way} | {c: mean_sd([one[way][c] for one in large]) for c in columns}
                for way in WAYS
            ],
            ["way", *columns],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("run", "collect", "table"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(N_DRAWS)))
    parser.add_argument("--protocols", nargs="+", choices=PROTOCOLS, default=list(PROTOCOLS))
    parser.add_argument("--quick", action="store_true", help="few rows, no record")
    options = parser.parse_args()
    if options.part == "table":
        table()
    elif options.part == "collect":
        collect()
    else:
        run(options.quick, options.seeds, options.protocols)


if __name__ == "__main__":
    main()
