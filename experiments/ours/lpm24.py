"""L+M-24: from a molecule to the set of its properties, at scale.

    python -m experiments.ours.lpm24 prepare       SMILES to Morgan fingerprints, kept; needs RDKit
    python -m experiments.ours.lpm24 choose        settings of SISOKR by F1 on the validation part
    python -m experiments.ours.lpm24 sisokr        fit on the training part, predict the test part
    python -m experiments.ours.lpm24 neighbours    k-NN by Tanimoto similarity
    python -m experiments.ours.lpm24 logistic      a logistic regression for each property

160,559 molecules (RDKit refuses one more), 1,071 properties, 5,062 distinct sets of them. Half of
the molecules are lipids that differ in the length of their chains or in stereochemistry, which
fingerprints do not see: there are 56,321 of them, one of 14,054 molecules. All molecules of one
fingerprint are on one side of the split, so also those of one SMILES without stereochemistry. As
a few lipids then make up a large part of a test set, F1 is given both as the mean over molecules
and as the mean over fingerprints, by which all choices are made.

Each part is a process of its own, so that its peak of resident memory is its own.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import operator
import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from tqdm import tqdm

from experiments.common import HERE, clock, print_table, read_record, write_record
from experiments.papers.formulas import Sums, ridge_path
from skout import KernelBasis, datasets, sisokr
from skout.decoding import CandidateDecoder, LabelSetDecoder
from skout.dev import row_slices, unique
from skout.kernels import F1, PackedBits, Tanimoto
from skout.metrics import example_f1
from skout.molecules import fingerprints, parse_smiles
from skout.sketches import PivotedCholesky, PSparsified, SubSample

SEED = 0
CACHE = HERE / "cache" / "lpm24.npz"
AT_ONCE = 4096  # molecules, or rows of coordinates
SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}
# Landmarks while settings are chosen, and then: about as many as 4 GB allow.
M_CHOOSE, M_X = 3000, 5000
KERNELS = {"F1": F1(), "Tanimoto": Tanimoto()}
OUTPUT_SKETCHES = {
    "p-sparsified, 500": PSparsified(500),
    "pivoted Cholesky, 1000": PivotedCholesky(1000),
}
INPUT_SKETCHES = {"sub-sample": SubSample, "pivoted Cholesky": PivotedCholesky}
DECODERS = {"training sets": CandidateDecoder(), "all sets": LabelSetDecoder()}
ALPHAS = (1e-7, 1e-6, 1e-5)
NEIGHBOURS = (1, 2, 3, 5, 10, 20)
THRESHOLDS = tuple(np.round(np.arange(0.1, 0.61, 0.05), 2).tolist())
COST, LOGISTIC_ROWS = 1.0, 15_000  # of logistic regressions: C, and the most training pairs
QUICK = 4000  # fingerprints


# Data ------------------------------------------------------------------------------------------


def prepare() -> None:
    """Write the fingerprints of the molecules, and which of them RDKit can read."""
    smiles = datasets.load("lpm24").X
    parts, valid = [], []
    for some in tqdm(list(row_slices(len(smiles), AT_ONCE)), desc="fingerprints"):
        molecules = parse_smiles(smiles[some], on_error="none")
        parts.append(fingerprints([mol for mol in molecules if mol is not None], n_jobs=2))
        valid += [mol is not None for mol in molecules]
    bits = PackedBits.concatenate(parts)
    CACHE.parent.mkdir(exist_ok=True)
    np.savez_compressed(CACHE, words=bits.words, n_bits=bits.n_bits, valid=valid)
    print(f"{len(bits):,} of {len(smiles):,} molecules, {len(unique(bits)[0]):,} fingerprints")


@dataclass
class Part:
    """Some of the molecules: packed fingerprints, label sets, and what a row counts.

    `weight` is the number of molecules that a row stands for, `share` its part of a fingerprint.
    """

    X: PackedBits
    Y: sparse.csr_matrix
    weight: np.ndarray
    share: np.ndarray

    @classmethod
    def of(cls, X: PackedBits, Y: sparse.csr_matrix) -> Part:
        _, number = unique(X)
        return cls(X, Y, np.ones(len(X)), 1.0 / np.bincount(number)[number])

    def pairs(self) -> Part:
        """Return each distinct pair of fingerprint and label set once."""
        numbers = np.column_stack([unique(self.X)[1], unique(self.Y)[1]]).astype(np.float64)
        first, pair = unique(numbers)
        weight, share = (np.bincount(pair, values) for values in (self.weight, self.share))
        return Part(self.X[first], self.Y[first], weight, share)

    def scores(self, found: Any) -> dict[str, float]:
        """Return the example F1 in percent, over fingerprints and over molecules."""
        return {
            "f1": 100.0 * example_f1(self.Y, found, self.share),
            "f1_molecules": 100.0 * example_f1(self.Y, found, self.weight),
        }


def load(n_most: int | None) -> dict[str, Part]:
    """Return the parts of the data, or of the molecules of `n_most` fingerprints."""
    stored = np.load(CACHE)
    # single precision: coordinates of 135,000 label sets take half the memory
    X = PackedBits(stored["words"], int(stored["n_bits"]), np.float32)
    Y = datasets.load("lpm24").Y[stored["valid"]].astype(np.float32)
    first, number = unique(X)
    order = np.random.default_rng(SEED).permutation(len(first))[:n_most]
    place = np.full(len(first), -1)
    place[order] = np.arange(len(order))
    cuts = np.cumsum([0.0, *SHARES.values()]) * len(order)
    found = {}
    for name, low, high in zip(SHARES, cuts, cuts[1:], strict=False):
        rows = np.flatnonzero((low <= place[number]) & (place[number] < high))
        found[name] = Part.of(X[rows], Y[rows])
    return found


# SISOKR ----------------------------------------------------------------------------------------


@dataclass
class Setting:
    """What the validation part chooses."""

    input_sketch: str
    alpha: float
    kernel: str
    output_sketch: str
    decoder: str

    def model(self, m_x: int) -> Any:
        return sisokr(
            Tanimoto(),
            KERNELS[self.kernel],
            input_sketch=INPUT_SKETCHES[self.input_sketch](m_x),
            output_sketch=OUTPUT_SKETCHES[self.output_sketch],
            alpha=self.alpha,
            decoder=DECODERS[self.decoder],
            random_state=SEED,
        )


@dataclass
class Outputs:
    """Coordinates of the training label sets, and decoders, for each output kernel and sketch."""

    coordinates: np.ndarray
    decoders: dict[tuple[str, str, str], tuple[slice, Any]]

    @classmethod
    def of(cls, train: Part, pairs: Part) -> Outputs:
        parts, ready, end = [], {}, 0
        for kernel, sketch in itertools.product(KERNELS, OUTPUT_SKETCHES):
            basis = KernelBasis(KERNELS[kernel], OUTPUT_SKETCHES[sketch], random_state=SEED)
            T = basis.fit_transform(train.Y)
            columns = slice(end, end := end + basis.rank_)
            for name, blank in DECODERS.items():
                ready[kernel, sketch, name] = columns, clone(blank).fit(basis, train.Y, T)
            parts.append(basis.transform(pairs.Y))
        return cls(np.hstack(parts), ready)


def sums_of(basis: KernelBasis, pairs: Part, T: np.ndarray) -> Sums:
    """Return the sums over all molecules, from the distinct pairs with their weights."""
    blocks = (
        Sums.of(basis.transform(pairs.X[some].astype(np.float64)), T[some], pairs.weight[some])
        for some in tqdm(list(row_slices(len(pairs.X), AT_ONCE)), desc="sums")
    )
    return functools.reduce(operator.add, blocks)


def choose(parts: dict[str, Part], m_x: int) -> list[dict[str, Any]]:
    """Return the F1 of every setting on the validation part, best first."""
    train, val = parts["train"], parts["validation"].pairs()
    pairs = train.pairs()
    outputs = Outputs.of(train, pairs)
    rows = []
    for input_sketch, sketch in INPUT_SKETCHES.items():
        basis = KernelBasis(Tanimoto(), sketch(m_x), random_state=SEED).fit(train.X)
        sums = sums_of(basis, pairs, outputs.coordinates)
        Z = basis.transform(val.X.astype(np.float64))
        for alpha, (coef, _) in zip(ALPHAS, ridge_path(sums, ALPHAS), strict=True):
            F = Z @ coef
            for (kernel, output_sketch, decoder), (columns, ready) in outputs.decoders.items():
                setting = Setting(input_sketch, alpha, kernel, output_sketch, decoder)
                found = ready.decode(np.ascontiguousarray(F[:, columns]))
                rows.append({"setting": vars(setting), "rank": basis.rank_} | val.scores(found))
    return sorted(rows, key=lambda row: -row["f1"])


def structured(parts: dict[str, Part], m_x: int) -> list[dict[str, Any]]:
    """Return the row of SISOKR with the chosen setting, fitted on every training molecule."""
    setting = Setting(**read_record("lpm24_choose")["results"][0]["setting"])  # the best
    train, test = parts["train"], parts["test"]
    model = setting.model(m_x)
    with clock() as fit:
        model.fit(train.X, train.Y)
    with clock() as predict:
        found = model.predict(test.X)
    row = {
        "method": "SISOKR",
        "setting": vars(setting),
        "fit_seconds": fit.seconds,
        "predict_seconds": predict.seconds,
        "m_x": m_x,
        "input rank": model.regressor_.basis_.rank_,
        "output rank": model.output_basis_.rank_,
    }
    return [row | test.scores(found)]


# Baselines -------------------------------------------------------------------------------------


def above(votes: np.ndarray, threshold: float) -> np.ndarray:
    """Return the labels above a threshold, at least the best one: no molecule has none."""
    return np.minimum(threshold, votes.max(axis=1, keepdims=True)) <= votes


def best_threshold(val: Part, votes: dict[Any, np.ndarray]) -> tuple[Any, float]:
    """Return the parameter and the threshold of greatest F1 on the validation part."""
    grid = itertools.product(votes, THRESHOLDS)
    return max(grid, key=lambda pair: val.scores(above(votes[pair[0]], pair[1]))["f1"])


class Neighbours:
    """Votes of the nearest training fingerprints, in proportion to their similarity."""

    def __init__(self, train: Part) -> None:
        first, number = unique(train.X)
        cells = (train.share, (number, np.arange(len(number))))
        self.similarity = Tanimoto().against(train.X[first])
        self.labels = sparse.csr_matrix(cells) @ train.Y  # the mean of each fingerprint

    def votes(self, X: PackedBits, sizes: Sequence[int]) -> dict[int, np.ndarray]:
        """Return for each k the shares of the labels, (n, L)."""
        blocks = [self._votes(X[some], sizes) for some in tqdm(list(row_slices(len(X), 512)))]
        return {k: np.concatenate([block[k] for block in blocks]) for k in sizes}

    def _votes(self, X: PackedBits, sizes: Sequence[int]) -> dict[int, np.ndarray]:
        K = self.similarity(X)
        top = np.argpartition(K, -max(sizes), axis=1)[:, -max(sizes) :]
        near = np.take_along_axis(K, top, axis=1).astype(np.float64)
        order = np.argsort(-near, axis=1, kind="stable")
        top, near = (np.take_along_axis(array, order, axis=1) for array in (top, near))
        found = {}
        for k in sizes:
            weights = near[:, :k] / np.maximum(near[:, :k].sum(axis=1, keepdims=True), 1e-12)
            cells = (weights.ravel(), top[:, :k].ravel(), np.arange(0, weights.size + 1, k))
            mixing = sparse.csr_matrix(cells, shape=K.shape)
            found[k] = (mixing @ self.labels).toarray()
        return found


def neighbours(parts: dict[str, Part], m_x: int) -> list[dict[str, Any]]:
    """Return the row of k-NN; k and the threshold are those of the validation part."""
    val, test = parts["validation"].pairs(), parts["test"]
    with clock() as fit:
        model = Neighbours(parts["train"])
    k, threshold = best_threshold(val, model.votes(val.X, NEIGHBOURS))
    with clock() as predict:
        found = above(model.votes(test.X, [k])[k], threshold)
    row = {
        "method": "k-NN, Tanimoto",
        "setting": {"k": k, "threshold": threshold},
        "fit_seconds": fit.seconds,
        "predict_seconds": predict.seconds,
    }
    return [row | test.scores(found)]


def probabilities(C: float, pairs: Part, others: list[Part]) -> list[np.ndarray]:
    """Fit a logistic regression for each label; return its probabilities for each part."""
    X, *rest = (sparse.csr_matrix(part.X.unpack(), dtype=np.float64) for part in (pairs, *others))
    columns = pairs.Y.tocsc()

    def one(j: int) -> list[np.ndarray]:
        y = columns[:, [j]].toarray().ravel()
        if len(np.unique(y)) == 1:
            return [np.full(some.shape[0], y[0]) for some in rest]
        model = LogisticRegression(C=C, solver="liblinear").fit(X, y, pairs.weight)
        return [model.predict_proba(some)[:, 1] for some in rest]

    found = Parallel(n_jobs=2)(delayed(one)(j) for j in tqdm(range(columns.shape[1])))
    return [np.column_stack(some) for some in zip(*found, strict=True)]


def logistic(parts: dict[str, Part], m_x: int) -> list[dict[str, Any]]:
    """Return the row of a logistic regression a label, on some pairs with their weights."""
    pairs, val, test = (parts[name].pairs() for name in SHARES)
    n = len(pairs.X)
    some = np.random.default_rng(SEED).permutation(n)[:LOGISTIC_ROWS]
    few = Part(pairs.X[some], pairs.Y[some], pairs.weight[some], pairs.share[some])
    with clock() as fit:
        for_val, for_test = probabilities(COST, few, [val, test])
    C, threshold = best_threshold(val, {COST: for_val})
    row = {
        "method": f"logistic regressions, {len(some) / n:.0%} of the pairs",
        "setting": {"C": C, "threshold": threshold},
        "fit_seconds": fit.seconds,
    }
    return [row | test.scores(above(for_test, threshold))]


PARTS = {
    "choose": choose,
    "sisokr": structured,
    "neighbours": neighbours,
    "logistic": logistic,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["prepare", *PARTS])
    parser.add_argument("--quick", action="store_true", help="some of the molecules; no record")
    options = parser.parse_args()
    if options.part == "prepare":
        prepare()
        return
    start = time.perf_counter()
    parts = load(QUICK if options.quick else None)
    m_x = M_CHOOSE if options.part == "choose" else M_X
    m_x = m_x // 10 if options.quick else m_x
    rows = PARTS[options.part](parts, m_x)
    measured = {
        "seconds": time.perf_counter() - start,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "load": os.getloadavg()[0],
    }
    columns = ["method", "setting", "f1", "f1_molecules", "fit_seconds", "predict_seconds"]
    print_table(rows[:20], columns)
    print(measured)
    if not options.quick:
        sizes = {name: [len(part.X), round(part.share.sum())] for name, part in parts.items()}
        settings = {"molecules and fingerprints": sizes, "m_x": m_x, "alphas": ALPHAS}
        write_record(f"lpm24_{options.part}", settings | measured, rows, SEED)


if __name__ == "__main__":
    main()
