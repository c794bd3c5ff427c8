"""What the forward way is worth: backward alone, forward alone, and both (`skout.TwoWay`).

    python -m experiments.papers.massbank prepare  candidates and fingerprints; once
    python -m experiments.ours.two_way choose [--quick]  widths, penalties, by validation:
    python -m experiments.ours.two_way choose_forward  of each way; records
    python -m experiments.ours.two_way spectra [--seeds]  MassBank, draws of all sketches; record
    python -m experiments.ours.two_way others [--quick]  label sets and digits; record
    python -m experiments.ours.two_way captions [--quick]  texts to molecules; record
    python -m experiments.ours.two_way table  the records, as markdown

MassBank as in `massbank.py`: the split by molecules, candidates of the formula, means over test
molecules. At most six training spectra a molecule. Backward: from spectra to molecules, SISOKR with
1,500 / 800 landmarks; forward: from molecules, all of which are landmarks (3,066 differ), to
spectra with 1,500. Kernels, widths and penalties are chosen on validation molecules, each way for
itself, in one draw; then weight and normalisation in each draw, from scores of both ways by the
code of `TwoWay`.

Label sets: official splits, candidates are the training sets, example F1. Digits: the lower half of
an image from the upper one, among all lower halves, mean reciprocal rank; splits and draws.
Captions: 2,000 of the validation part of ChEBI-20, words by tf-idf; 1,000 of the test part, among
its 3,300 molecules, mean reciprocal rank.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

from experiments.common import (
    Scaler,
    clock,
    load_labels,
    mean_sd,
    print_table,
    read_record,
    write_record,
)
from experiments.papers import massbank
from experiments.papers.massbank import CACHE, M_X, M_Y, Problem, input_kernel, judge, ranks_of
from skout import KernelBasis, KernelRidge, StructuredPredictor, TwoWay, sisokr
from skout.datasets import load
from skout.decoding import CandidateDecoder
from skout.kernels import F1, Gaussian, GaussianTanimoto, PeakCosine
from skout.metrics import example_f1
from skout.predictors.joint import JointBasis, JointRegressor
from skout.predictors.two_way_weight import (
    NORMALIZATIONS,
    Option,
    TwoWayScores,
    option_scores,
    options_for,
)
from skout.sketches import SubSample

MOST, N_DRAWS, CV = 6, 5, 3
GAMMAS, ALPHAS = (0.25, 0.5), (1e-5, 1e-4, 1e-3)
FORWARD_GAMMAS, FORWARD_ALPHAS = (0.1,), (3e-5, 1e-4, 3e-4)
LABELS, N_OTHERS = ("emotions", "yeast"), 3


# Spectra ---------------------------------------------------------------------------------------


def few(problem: Problem, rows: np.ndarray, most: int) -> np.ndarray:
    """Return at most so many spectra of each molecule, drawn at random."""
    rows = np.random.default_rng(0).permutation(rows)
    number = np.unique(problem.keys[rows], return_inverse=True)[1]
    order = np.argsort(number, kind="stable")
    number = number[order]
    place = np.arange(len(number)) - np.searchsorted(number, number)
    return np.sort(rows[order[place < most]])


def parts_of(problem: Problem, quick: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return training, validation and test spectra."""
    most = 1 if quick else MOST
    train, val = few(problem, problem.train, most), few(problem, problem.val, most)
    return train, val, problem.test[:300] if quick else problem.test


def pair(problem: Problem, rows: np.ndarray) -> tuple[Any, Any]:
    return problem.spectra[rows], problem.pool[problem.place[rows]]


def backward(gamma: float, alpha: float, seed: int = 0) -> StructuredPredictor:
    return massbank.model("SISOKR", gamma, alpha, seed)


def forward_kernels() -> dict[str, Any]:
    """Return kernels on spectra that the forward way may be measured by."""
    plain = input_kernel()
    return {"as backward": plain, "with cosines": plain + PeakCosine(intensity_power=0.25)}


def inputs(kernel: str, seed: int = 0) -> KernelBasis:
    return KernelBasis(forward_kernels()[kernel], SubSample(M_X), random_state=seed + 2000)


def ridge(gamma: float, alpha: float) -> KernelRidge:
    """Return the map from molecules, of which about 3,000 differ: no sketch is needed."""
    return KernelRidge(GaussianTanimoto(gamma), alpha=alpha)


@dataclass
class Fitted:
    """Both ways fitted: f and z backward, g and z_x forward."""

    f: Any
    zx: Any
    z: Any
    g: Any

    def parts(self, weight: float, cosine: bool) -> tuple[Any, Any, Any]:
        basis = JointBasis(self.z, self.g, self.zx.rank_, weight, cosine)
        some = self.z.landmarks_[:1]
        regressor = JointRegressor(self.f, self.zx, weight, cosine)
        return regressor, basis, CandidateDecoder().fit(basis, some)

    def ranks(self, X: Any, Y: Any, sets: Any, weight: float, cosine: bool) -> np.ndarray:
        regressor, _, decoder = self.parts(weight, cosine)
        return decoder.truth_ranks(regressor.predict(X), Y, sets)


def mrr(problem: Problem, predictor: Any, val: np.ndarray) -> float:
    return judge(problem, ranks_of(problem, predictor, problem.spectra[val], val), val)["MRR"]


def choose(quick: bool) -> None:
    """Choose width and penalty of the backward way by the MRR on validation molecules."""
    problem = Problem(moses=False)
    train, val, _ = parts_of(problem, quick)
    X, Y = pair(problem, train)
    found = []
    cells = [(gamma, alpha) for gamma in GAMMAS for alpha in ALPHAS]
    for gamma, alpha in tqdm(cells[:2] if quick else cells, desc="backward"):
        found.append((mrr(problem, backward(gamma, alpha).fit(X, Y), val), gamma, alpha))
        tqdm.write(f"{found[-1]}")
    if not quick:
        write_record("two_way_backward", {"chosen (gamma, alpha)": max(found)[1:]}, found)


def choose_forward(quick: bool) -> None:
    """Choose kernel, width and penalty of the forward way alone, by cosines, in the same way."""
    problem = Problem(moses=False)
    train, val, _ = parts_of(problem, quick)
    X, Y = pair(problem, train)
    outputs = KernelBasis(GaussianTanimoto(1.0), SubSample(10), random_state=0).fit(Y)
    found = []
    for kernel in tqdm(forward_kernels(), desc="forward"):
        basis = inputs(kernel)
        Z = basis.fit_transform(X)
        for gamma in FORWARD_GAMMAS:
            for alpha in FORWARD_ALPHAS:
                g = ridge(gamma, alpha).fit(Y, Z)
                fitted = Fitted(None, basis, outputs, g)
                ranks = fitted.ranks(*pair(problem, val), problem.sets(val), np.inf, True)
                found.append((judge(problem, ranks, val)["MRR"], kernel, gamma, alpha))
                tqdm.write(f"{found[-1]}")
    if not quick:
        chosen = max(found)[1:]
        write_record("two_way_forward", {"chosen (kernel, gamma, alpha)": chosen}, found)


def fitted(problem: Problem, train: np.ndarray, seed: int) -> Fitted:
    """Return both ways as they were chosen, with new draws of all landmarks."""
    gamma, alpha = read_record("two_way_backward")["settings"]["chosen (gamma, alpha)"]
    settings = read_record("two_way_forward")["settings"]
    kernel, *rest = settings["chosen (kernel, gamma, alpha)"]
    X, Y = pair(problem, train)
    back, zx = backward(gamma, alpha, seed).fit(X, Y), inputs(kernel, seed)
    g = ridge(*rest).fit(Y, zx.fit_transform(X))
    return Fitted(back.regressor_, zx, back.output_basis_, g)


def judged(
    parts: tuple[Any, Any, Any], X: Any, Y: Any, candidates: Any
) -> tuple[list[Option], Any]:
    """Return weights and normalizations, and the mean reciprocal rank of held-out rows by each.

    `parts` are regressor, basis and decoder of both ways with weight 1, by distance.
    """
    regressor, basis, decoder = parts
    scores = TwoWayScores(decoder.embed(candidates).distinct(), basis, regressor.predict(X))
    options = options_for(scores.spreads(), NORMALIZATIONS)
    return options, option_scores(scores, options, None, decoder, Y)


def draw(problem: Problem, seed: int, quick: bool) -> dict[str, Any]:
    """Return the results of a draw; weight and normalisation are chosen on validation molecules."""
    train, val, test = parts_of(problem, quick)
    with clock() as fit:
        ways = fitted(problem, train, seed)
    held = *pair(problem, val), problem.sets(val)
    options, values = judged(ways.parts(1.0, False), *held)
    both = options[int(np.argmax(values))]
    alone = [(v, o) for v, o in zip(values, options, strict=True) if np.isinf(o.weight)]
    tried = {"backward": Option(0.0, "distance"), "forward": max(alone)[1], "both": both}
    row: dict[str, Any] = {"seed": seed, "fit seconds": fit.seconds}
    for name, option in tried.items():
        with clock() as spent:
            cosine = option.normalization == "cosine"
            given = *pair(problem, test), problem.sets(test)
            ranks = ways.ranks(*given, option.weight, cosine)
        row[name] = judge(problem, ranks, test) | {"seconds": spent.seconds}
        row[name] |= {"weight": option.weight, "normalisation": option.normalization}
    return row | {"n": len(train), "n_test": len(test)}


def spectra(quick: bool, seeds: list[int]) -> None:
    """Write one file for each draw, and a record of those that are there."""
    problem = Problem(moses=False)
    for seed in [0] if quick else seeds:
        row = draw(problem, seed, quick)
        print(row, flush=True)
        if not quick:  # a run that is stopped leaves what it has
            (CACHE / f"two_way_{seed}.json").write_text(json.dumps(row))
            collect(problem.moses)


def collect(moses: bool) -> None:
    settings = {"most spectra a molecule": MOST, "m_x": M_X, "m_y": M_Y, "moses": moses}
    rows = [json.loads(file.read_text()) for file in sorted(CACHE.glob("two_way_*.json"))]
    write_record("two_way_spectra", settings | {"n_draws": len(rows)}, rows)


# Label sets and digits -------------------------------------------------------------------------


def three(model: TwoWay, X: Any, Y: Any, quality: Any) -> dict[str, Any]:
    """Return the quality of each test row by both ways and by each alone."""
    model.fit(X, Y)
    found = {"weight": model.weight_, "both": quality(model)}
    results = model.weight_results_
    alone = np.isinf(results["weight"])
    normalization = str(results["normalization"][alone][results["score"][alone].argmax()])
    for name, weight in (("backward", 0.0), ("forward", np.inf)):
        one = TwoWay(model.backward, model.forward, weight, normalization=normalization)
        found[name] = quality(one.fit(X, Y))
    return found


def label_sets(name: str, seed: int) -> dict[str, Any]:
    X, Y, X_test, Y_test = load_labels(name)
    scale = Scaler(X.toarray())
    X, X_test = scale(X.toarray()), scale(X_test.toarray())
    m = min(600, len(Y) // 2)
    model = sisokr(
        Gaussian("median"), F1(), input_sketch=SubSample(m), output_sketch=SubSample(m),
        alpha=tuple(10.0 ** np.arange(-6.0, -0.9)), random_state=seed,
    )  # fmt: skip

    def quality(fitted: Any) -> np.ndarray:
        predicted = fitted.predict(X_test)
        pairs = zip(Y_test, predicted, strict=True)
        return np.array([example_f1(a[None], b[None]) for a, b in pairs])

    return three(TwoWay(model, cv=CV, random_state=seed), X, Y, quality)


def digits(seed: int) -> dict[str, Any]:
    images = load_digits().data / 16.0
    images = images[np.random.default_rng(seed).permutation(len(images))]
    upper, lower = np.split(images, 2, axis=1)
    kernel, n = Gaussian("median"), 1200
    model = sisokr(
        kernel, kernel, input_sketch=SubSample(400), output_sketch=SubSample(400),
        alpha=tuple(10.0 ** np.arange(-7.0, -1.9)), random_state=seed,
    )  # fmt: skip

    def quality(fitted: Any) -> np.ndarray:
        return 1.0 / fitted.truth_ranks(upper[n:], lower[n:], lower)

    two = TwoWay(model, scoring="mean_reciprocal_rank", cv=CV, random_state=seed)
    return three(two, upper[:n], lower[:n], quality)


def molecules_of_texts(seed: int) -> dict[str, Any]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    from skout.molecules import fingerprints

    data, rng = load("chebi20"), np.random.default_rng(seed)
    (texts, smiles), (new, truth) = data.part("validation"), data.test
    some = np.sort(rng.permutation(len(texts))[:2000])
    asked = np.sort(rng.permutation(len(new))[:1000])
    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    X = words.fit_transform([texts[i] for i in some])
    X_test = words.transform([new[i] for i in asked])
    Y, pool = fingerprints([smiles[i] for i in some]), fingerprints(list(truth))
    model = sisokr(
        "linear", GaussianTanimoto(0.5), input_sketch=SubSample(600),
        output_sketch=SubSample(600), alpha=tuple(10.0 ** np.arange(-6.0, -1.9)),
        random_state=seed,
    )  # fmt: skip

    def quality(fitted: Any) -> np.ndarray:
        return 1.0 / fitted.truth_ranks(X_test, pool[asked], pool)

    return three(
        TwoWay(model, scoring="mean_reciprocal_rank", cv=CV, random_state=seed), X, Y, quality
    )


def compared(name: str, seed: int, found: dict[str, Any]) -> dict[str, Any]:
    """Return means over test rows, and by how much both ways are ahead of the best single one."""
    row = {"data": name, "seed": seed, "weight": found["weight"]}
    ways = ("backward", "forward", "both")
    row |= {way: float(np.mean(found[way])) for way in ways}
    best = max(ways[:2], key=lambda way: row[way])
    gap = found["both"] - found[best]
    row |= {"gap": float(gap.mean()), "se": float(gap.std(ddof=1) / np.sqrt(len(gap)))}
    se = found[best].std(ddof=1) / np.sqrt(len(gap))
    return row | {"se of the best single way": float(se)}


def others(quick: bool) -> None:
    jobs = {"digits": digits} | {name: partial(label_sets, name) for name in LABELS}
    small_tasks("two_way_others", dict(list(jobs.items())[: 2 if quick else None]), quick)


def captions(quick: bool) -> None:
    small_tasks("two_way_captions", {"captions of molecules": molecules_of_texts}, quick)


def small_tasks(record: str, jobs: dict[str, Any], quick: bool) -> None:
    rows = []
    for seed in range(1 if quick else N_OTHERS):
        for name, job in jobs.items():
            rows.append(compared(name, seed, job(seed)))
            print(rows[-1], flush=True)
        if not quick:  # after each draw: a run that is stopped leaves what it has
            write_record(record, {"cv": CV, "n_draws": seed + 1}, rows)


# Tables ----------------------------------------------------------------------------------------


def table() -> None:
    record = read_record("two_way_spectra")
    draws = record["results"]
    columns = ["top-1 %", "top-5 %", "top-10 %", "MRR"]
    rows = [
        {"way": way} | {c: mean_sd([one[way][c] for one in draws]) for c in columns}
        for way in ("backward", "forward", "both")
    ]
    print(f"{len(draws)} draws, {record['settings']}")
    print_table(rows, ["way", *columns])
    for name in ("two_way_others", "two_way_captions"):
        rows = read_record(name)["results"]
        print_table(rows, list(rows[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    jobs = {f.__name__: f for f in (choose, choose_forward, others, captions)}
    parser.add_argument("part", choices=(*jobs, "spectra", "table"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(N_DRAWS)))
    parser.add_argument("--quick", action="store_true", help="few rows, no record")
    options = parser.parse_args()
    if options.part == "table":
        table()
    elif options.part == "spectra":
        spectra(options.quick, options.seeds)
    else:
        jobs[options.part](options.quick)


if __name__ == "__main__":
    main()
