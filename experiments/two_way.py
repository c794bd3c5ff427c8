"""What the forward way is worth: backward alone, forward alone, and both (`skout.TwoWay`).

    python experiments/massbank.py prepare            candidates and fingerprints; once
    python experiments/two_way.py choose [--quick]    widths and penalties, on validation molecules
    python experiments/two_way.py spectra [--quick]   MassBank, draws of all sketches; record
    python experiments/two_way.py others [--quick]    label sets and digits; record
    python experiments/two_way.py table               the records, as markdown

MassBank as in `massbank.py`: the split by molecules, candidates of the formula, means over test
molecules. At most six training spectra a molecule. Backward: from spectra to molecules, SISOKR with
1,500 / 800 landmarks; forward: from molecules (2,000 landmarks drawn) to spectra (1,500). Widths
and penalties are chosen on validation molecules, each way for itself; the weight and the
normalisation by `TwoWay` on folds of the training molecules, in each draw anew.

Label sets: official splits, candidates are the training sets, example F1. Digits: the lower half of
an image from the upper one, among all lower halves, mean reciprocal rank; splits and draws.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import massbank
import numpy as np
from common import RECORDS, Scaler, clock, load_labels, mean_sd, print_table, write_record
from massbank import M_X, M_Y, Problem, input_kernel, judge, ranks_of
from sklearn.datasets import load_digits
from sklearn.dummy import DummyRegressor
from tqdm import tqdm

from skout import KernelBasis, KernelRidge, StructuredPredictor, TwoWay, sisokr
from skout.kernels import F1, Gaussian, GaussianTanimoto
from skout.metrics import example_f1
from skout.sketches import SubSample

MOST, FORWARD_Y, N_DRAWS, CV = 6, 2000, 5, 3
GAMMAS, ALPHAS = (0.25, 0.5), (1e-5, 1e-4, 1e-3)
FORWARD_GAMMAS, FORWARD_ALPHAS = (0.1, 0.25), (3e-5, 1e-4, 3e-4)
LABELS = ("emotions", "yeast", "bibtex")
CHOSEN = RECORDS / "two_way_choose.json"


# Spectra ---------------------------------------------------------------------------------------


def few(problem: Problem, rows: np.ndarray, most: int) -> np.ndarray:
    """Return at most so many spectra of each molecule, drawn at random."""
    rows = np.random.default_rng(0).permutation(rows)
    number = np.unique(problem.keys[rows], return_inverse=True)[1]
    order = np.argsort(number, kind="stable")
    number = number[order]
    place = np.arange(len(number)) - np.searchsorted(number, number)
    return np.sort(rows[order[place < most]])


def parts(quick: bool) -> tuple[Problem, np.ndarray, np.ndarray, np.ndarray]:
    """Return the data, and training, validation and test spectra."""
    problem = Problem()
    train = few(problem, problem.train, 1 if quick else MOST)
    val = few(problem, problem.val, 1 if quick else MOST)
    return problem, train, val, problem.test[:300] if quick else problem.test


def pair(problem: Problem, rows: np.ndarray) -> tuple[Any, Any]:
    return problem.spectra[rows], problem.pool[problem.place[rows]]


def backward(gamma: float, alpha: float, seed: int = 0) -> StructuredPredictor:
    return massbank.model("SISOKR", gamma, alpha, seed)


def forward(gamma: float, alpha: float, seed: int = 0) -> StructuredPredictor:
    """Return the model from molecules to spectra."""
    ridge = KernelRidge(
        GaussianTanimoto(gamma), SubSample(FORWARD_Y), alpha=alpha, random_state=seed + 1000
    )
    return StructuredPredictor(
        ridge, KernelBasis(input_kernel(), SubSample(M_X), random_state=seed + 2000)
    )


def mrr(problem: Problem, predictor: Any, val: np.ndarray) -> float:
    return judge(problem, ranks_of(problem, predictor, problem.spectra[val], val), val)["MRR"]


def choose(quick: bool) -> None:
    """Choose width and penalty of each way by the mean reciprocal rank on validation molecules."""
    problem, train, val, _ = parts(quick)
    X, Y = pair(problem, train)
    found: dict[str, Any] = {"backward": [], "forward": []}
    cells = [(g, a) for g in GAMMAS for a in ALPHAS]
    for gamma, alpha in tqdm(cells[:2] if quick else cells, desc="backward"):
        value = mrr(problem, backward(gamma, alpha).fit(X, Y), val)
        found["backward"].append((value, gamma, alpha))
        tqdm.write(f"{found['backward'][-1]}")
    cells = [(g, a) for g in FORWARD_GAMMAS for a in FORWARD_ALPHAS]
    unused = StructuredPredictor(
        DummyRegressor(), KernelBasis(GaussianTanimoto(1.0), SubSample(10), random_state=0)
    )
    for gamma, alpha in tqdm(cells[:2] if quick else cells, desc="forward"):
        way = TwoWay(unused, forward(gamma, alpha), np.inf, normalisation="cosine")
        found["forward"].append((mrr(problem, way.fit(X, Y), val), gamma, alpha))
        tqdm.write(f"{found['forward'][-1]}")
    best = {name: max(cells)[1:] for name, cells in found.items()}
    print(best)
    if not quick:
        write_record("two_way_choose", {"chosen (gamma, alpha)": best}, [found])


def chosen() -> dict[str, list[float]]:
    return json.loads(CHOSEN.read_text())["settings"]["chosen (gamma, alpha)"]


def draw(problem: Problem, train: np.ndarray, test: np.ndarray, seed: int) -> dict[str, Any]:
    """Return the results of one draw of all sketches."""
    best, (X, Y) = chosen(), pair(problem, train)
    ways = backward(*best["backward"], seed), forward(*best["forward"], seed)
    model = TwoWay(*ways, cv=CV, random_state=seed)
    with clock() as fit:
        model.fit(X, Y, problem.keys[train], problem.sets(train))
    queries = problem.spectra[test]
    with clock() as spent:
        ranks = {"both": ranks_of(problem, model, queries, test)}
    results = model.cv_results_
    alone = np.isinf(results["weight"])
    normalisation = results["normalisation"][alone][results["score"][alone].argmax()]
    for name, weight in (("backward", 0.0), ("forward", np.inf)):
        one = TwoWay(*ways, weight, normalisation=normalisation).fit(X, Y)
        ranks[name] = ranks_of(problem, one, queries, test)
    rows = {name: judge(problem, found, test) for name, found in ranks.items()}
    settings = {"weight": model.weight_, "normalisation": model.normalisation_}
    seconds = {"fit seconds": fit.seconds, "predict seconds": spent.seconds}
    return {"seed": seed} | settings | seconds | rows | {"cv": results}


def spectra(quick: bool) -> None:
    problem, train, _, test = parts(quick)
    rows = []
    for seed in range(1 if quick else N_DRAWS):
        rows.append(draw(problem, train, test, seed))
        print({k: v for k, v in rows[-1].items() if k != "cv"}, flush=True)
        if not quick:  # after each draw: a run that is stopped leaves what it has
            settings = {"n": len(train), "n_test": len(test), "most spectra a molecule": MOST}
            settings |= {"m_x": M_X, "m_y": M_Y, "forward m_y": FORWARD_Y, "cv": CV}
            settings |= {"moses": problem.moses, "chosen (gamma, alpha)": chosen()}
            write_record("two_way_spectra", settings, rows)


# Label sets and digits -------------------------------------------------------------------------


def three(model: TwoWay, X: Any, Y: Any, quality: Any) -> dict[str, Any]:
    """Return the quality of each test row by both ways and by each alone."""
    model.fit(X, Y)
    found = {"weight": model.weight_, "both": quality(model)}
    results = model.cv_results_
    alone = np.isinf(results["weight"])
    normalisation = str(results["normalisation"][alone][results["score"][alone].argmax()])
    for name, weight in (("backward", 0.0), ("forward", np.inf)):
        one = TwoWay(model.backward, model.forward, weight, normalisation=normalisation)
        found[name] = quality(one.fit(X, Y))
    return found


def label_sets(name: str, seed: int) -> dict[str, Any]:
    X, Y, X_test, Y_test = load_labels(name)
    if name != "bibtex":
        scale = Scaler(X.toarray())
        X, X_test = scale(X.toarray()), scale(X_test.toarray())
    m = min(600, len(Y))
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


def others(quick: bool) -> None:
    rows = []
    for name in ("digits", *LABELS)[: 2 if quick else None]:
        for seed in range(1 if quick else N_DRAWS):
            found = digits(seed) if name == "digits" else label_sets(name, seed)
            row = {"data": name, "seed": seed, "weight": found["weight"]}
            ways = ("backward", "forward", "both")
            row |= {way: float(np.mean(found[way])) for way in ways}
            best = max(ways[:2], key=lambda way: row[way])
            gap = found["both"] - found[best]
            row |= {"gap": float(gap.mean()), "se": float(gap.std(ddof=1) / np.sqrt(len(gap)))}
            se = found[best].std(ddof=1) / np.sqrt(len(gap))
            rows.append(row | {"se of the best single way": float(se)})
            print(rows[-1], flush=True)
    if not quick:
        write_record("two_way_others", {"cv": CV, "n_draws": N_DRAWS}, rows)


# Tables ----------------------------------------------------------------------------------------


def table() -> None:
    record = json.loads((RECORDS / "two_way_spectra.json").read_text())
    draws = record["results"]
    columns = ["top-1 %", "top-5 %", "top-10 %", "MRR"]
    rows = [
        {"way": way} | {c: mean_sd([one[way][c] for one in draws]) for c in columns}
        for way in ("backward", "forward", "both")
    ]
    print(f"{len(draws)} draws, {record['settings']}")
    print_table(rows, ["way", *columns])
    rows = json.loads((RECORDS / "two_way_others.json").read_text())["results"]
    print_table(rows, list(rows[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    jobs = {"choose": choose, "spectra": spectra, "others": others}
    parser.add_argument("part", choices=(*jobs, "table"))
    parser.add_argument("--quick", action="store_true", help="few rows, no record")
    options = parser.parse_args()
    if options.part == "table":
        table()
    else:
        jobs[options.part](options.quick)


if __name__ == "__main__":
    main()
