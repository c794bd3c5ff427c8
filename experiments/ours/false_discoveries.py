"""Does ConformalSelection hold its rate, and how much does it accept? By simulation, on MassBank.

    python -m experiments.papers.massbank prepare  candidates and fingerprints; once
    python -m experiments.ours.false_discoveries simulate [--quick] 100 draws of each design; record
    python -m experiments.ours.false_discoveries spectra [--draws]  MassBank, by molecule; record
    python -m experiments.ours.false_discoveries table  both records, as markdown

Simulated: 300 groups of rows to learn from and 200 to test on, 7 classes, a number with noise and a
hint at how noisy it is. "Rows": groups of one row. "Large groups easy" and "hard": 15 % of the
groups have ten rows, with one truth and nearly one input, and are easier or harder than the others.
"60 rows" is "rows" with 60 of them. Split: the model is fitted on half of the groups and calibrated
on the others. Folds: `cv=10` on all.

MassBank: candidates of the formula, molecules of several candidates, at most six spectra each. A
fifth of the molecules tests, other molecules in each draw. Split: 363 of the others calibrate, as
many as in the record of `set_sizes.py`, and the rest fits. "Before" is the rule until then, of
the same p-values, without masses in the rule of Benjamini and Hochberg. Folds: `cv=5` on all but
the test part. Both ways of `two_way.py`, 1,500 and 800 landmarks, the kernel on spectra by ALIGNF
on the rows to learn from, which the folds share; width, penalties and weight were chosen on other
draws of the same molecules (`two_way.py`, `reranking.py`).
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.common import mean_sd, read_record, write_record
from skout import ConformalSelection, KernelBasis, StructuredPredictor, TwoWay, iokr
from skout.kernels import Gaussian, GaussianTanimoto
from skout.predictors.selection import benjamini_hochberg
from skout.predictors.thresholds import masses
from skout.sketches import SubSample

RATES, SEED = (0.05, 0.1, 0.2), 0
N_SIMULATED, N_TEST, LARGE, SHARE_LARGE = 100, 200, 10, 0.15
DESIGNS = {"rows": 300, "60 rows": 60, "large groups easy": 300, "large groups hard": 300}
N_CALIBRATION, N_FOLDS, N_DRAWS = 363, 5, 4
SUREST = (0.02, 0.05, 0.1, 0.2, 0.3)
NUMBERS = ("fdr", "accepted", "power", "top_1")


def shares(accepted: np.ndarray, right: np.ndarray, mass: np.ndarray) -> dict[str, float]:
    """Return shares of mass: wrong of accepted, accepted, accepted of right, right."""
    some, good = float(mass @ accepted), float(mass @ (accepted & right))
    found = [(some - good) / some if some else 0.0, some / mass.sum()]
    found += [good / float(mass @ right), float(mass @ right) / mass.sum()]
    return dict(zip(NUMBERS, found, strict=True))


# Simulated -------------------------------------------------------------------------------------


def simulated(design: str, n: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return inputs, outputs and the group of each row, of n groups."""
    large, x = rng.random(n) < SHARE_LARGE, rng.uniform(-3, 3, n)
    if design == "large groups hard":
        noise = np.where(large, 1.2, 0.05)
    else:
        noise = np.where(large, 0.05, rng.choice([0.1, 1.5], n))
    y = np.clip(np.round(x + noise * rng.standard_normal(n)) + 3, 0, 6).astype(int)
    sizes = np.where(large & design.startswith("large"), LARGE, 1)
    group = np.repeat(np.arange(n), sizes)
    hint = np.where(noise > 1.0, 4.0, 0.0) + 0.8 * rng.standard_normal(n)
    X = np.column_stack([x, hint])[group]
    return X + 0.02 * rng.standard_normal(X.shape), np.eye(7)[y[group]], group


def simulated_draw(design: str, n: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    (X, Y, group), (X_test, Y_test, group_test) = (
        simulated(design, size, rng) for size in (n, N_TEST)
    )
    has_groups, pool, first = design.startswith("large"), np.eye(7), group < n // 2
    model = iokr(Gaussian(1.0), "linear", alpha=1e-3)

    def calibrated(given: Any, some: Any, **options: Any) -> ConformalSelection:
        groups = group[some] if has_groups else None
        trust = ConformalSelection(given, random_state=seed)
        return trust.calibrate(X[some], Y[some], pool, groups=groups, **options)

    folds = calibrated(model, slice(None), cv=10)
    ways = {"split": calibrated(model.fit(X[first], Y[first]), ~first), "folds": folds}
    rows = []
    for way, trust in ways.items():
        for unit in ("rows", "groups") if has_groups else ("rows",):
            groups = group_test if unit == "groups" else None
            for rate in RATES:
                row = trust.evaluate(X_test, Y_test, pool, rate, groups=groups)
                row |= {"design": design, "way": way, "unit": unit, "nominal": rate}
                rows.append(row)
    return rows


def averaged(draws: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the rows of draws with means and standard deviations in place of numbers."""
    return [
        same[0] | {key: mean_sd(row[key] for row in same) for key in NUMBERS}
        for same in zip(*draws, strict=True)
    ]


def simulate(quick: bool) -> None:
    seeds = range(SEED, SEED + (4 if quick else N_SIMULATED))
    results, start = [], time.process_time()
    for design, n in DESIGNS.items():
        results += averaged([simulated_draw(design, n, s) for s in tqdm(seeds, desc=design)])
    settings = {"draws": len(seeds), "cpu seconds": time.process_time() - start}
    if quick:
        print(simulated_table(results))
    else:
        write_record("false_discoveries_simulated", settings, results, SEED)


# MassBank --------------------------------------------------------------------------------------


def spectra_model(kernel: Any, seed: int) -> TwoWay:
    from experiments.ours.two_way import M_X, M_Y, ridge

    gamma, alpha = read_record("two_way_backward")["settings"]["chosen (gamma, alpha)"]
    chosen = read_record("two_way_forward")["settings"]["chosen (kernel, gamma, alpha)"]
    weight, normalization = read_record("reranking")["results"][0]["formula"]["option"]
    inputs = KernelBasis(kernel, SubSample(M_X), random_state=seed + 2000)
    backward = iokr(
        kernel, GaussianTanimoto(gamma), input_sketch=SubSample(M_X),
        output_sketch=SubSample(M_Y), alpha=alpha, random_state=seed,
    )  # fmt: skip
    forward = StructuredPredictor(ridge(*chosen[1:]), inputs)
    return TwoWay(backward, forward, weight, normalization=normalization)


def spectra_draw(problem: Any, seed: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return what one draw of molecules gives, and how many of the surest answers are wrong."""
    from experiments.ours.reranking import aligned
    from experiments.ours.two_way import MOST, few, pair

    gamma = read_record("two_way_backward")["settings"]["chosen (gamma, alpha)"][0]
    several = np.flatnonzero(np.diff(problem.starts)[problem.formula] > 1)
    rows = few(problem, several, MOST)
    molecules = np.random.default_rng(seed).permutation(np.unique(problem.keys[rows]))
    cuts = len(molecules) // 5, len(molecules) // 5 + N_CALIBRATION
    test, calibration, rest = (
        rows[np.isin(problem.keys[rows], part)] for part in np.split(molecules, cuts)
    )
    (X, Y), sets = pair(problem, test), problem.sets(test)
    mass = masses(problem.keys[test])

    def asked(trust: ConformalSelection) -> tuple[Any, np.ndarray]:
        answers = trust.predict(X, sets, groups=problem.keys[test])
        return answers, (answers.objects.words == Y.words).all(axis=1)

    def calibrated(model: Any, some: np.ndarray, cv: int | None = None) -> ConformalSelection:
        trust = ConformalSelection(model, random_state=seed)
        given = *pair(problem, some), problem.sets(some)
        return trust.calibrate(*given, groups=problem.keys[some], cv=cv)

    fitted = spectra_model(aligned(*pair(problem, rest), gamma, seed), seed)
    fitted.fit(*pair(problem, rest))
    split, split_right = asked(calibrated(fitted, calibration))
    both = np.concatenate([calibration, rest])
    model = spectra_model(aligned(*pair(problem, both), gamma, seed), seed)
    folds, folds_right = asked(calibrated(model, both, N_FOLDS))
    ways = {
        "before": (benjamini_hochberg(split.p_values), split_right),
        "split": (split.q_values, split_right),
        "folds": (folds.q_values, folds_right),
    }
    found = [
        shares(q <= rate, right, mass) | {"way": way, "nominal": rate}
        for way, (q, right) in ways.items()
        for rate in RATES
    ]
    surest = {
        way: wrong_of_surest(answers.confidence, right, mass)
        for way, answers, right in (("split", split, split_right), ("folds", folds, folds_right))
    }
    return found, {"surest": surest, "molecules": [len(part) for part in np.split(molecules, cuts)]}


def wrong_of_surest(confidence: np.ndarray, right: np.ndarray, mass: np.ndarray) -> list[float]:
    """Return the share of wrong answers among the surest, for each share of these."""
    order = np.argsort(-confidence, kind="stable")
    reached, wrong = np.cumsum(mass[order]), np.cumsum((mass * ~right)[order])
    places = np.searchsorted(reached, np.multiply(SUREST, reached[-1]))
    return (wrong / reached)[places].tolist()


def spectra(n_draws: int) -> None:
    from experiments.papers.massbank import Problem

    problem, draws, others = Problem(moses=False), [], []
    start = time.process_time()
    for seed in tqdm(range(SEED, SEED + n_draws), desc="MassBank"):
        rows, other = spectra_draw(problem, seed)
        draws.append(rows)
        others.append(other)
        settings = {"draws": len(draws), "cpu seconds": time.process_time() - start}
        settings |= {"folds": N_FOLDS, "molecules": others[0]["molecules"], "surest": SUREST}
        for way in ("split", "folds"):
            each = np.array([one["surest"][way] for one in others])
            settings[f"wrong of the surest, {way}"] = [mean_sd(column) for column in each.T]
        write_record("false_discoveries_spectra", settings, averaged(draws), SEED)


# Tables ----------------------------------------------------------------------------------------


def cell(pair: Any, draws: int = 1) -> str:
    return f"{100 * pair[0]:.1f} ± {100 * pair[1] / draws**0.5:.1f}"


def simulated_table(results: list[dict[str, Any]] | None = None) -> str:
    """Return means and their standard errors."""
    draws = 1
    if results is None:
        record = read_record("false_discoveries_simulated")
        results, draws = record["results"], record["settings"]["draws"]
    lines = ["| design | share of | asked % | split: found % | accepted % | of the right ones % |"]
    lines[0] += " folds: found % | accepted % | of the right ones % |"
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for row in (one for one in results if one["way"] == "split"):
        same = {key: row[key] for key in ("design", "unit", "nominal")}
        other = next(r for r in results if (same | {"way": "folds"}).items() <= r.items())
        cells = [f"{row['design']} | {row['unit']} | {100 * row['nominal']:g}"]
        for one in (row, other):
            cells.append(cell(one["fdr"], draws))
            cells += [f"{100 * one[key][0]:.1f}" for key in ("accepted", "power")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def spectra_table() -> str:
    """Return means and standard deviations over draws."""
    names = {"before": "before", "split": "split, by mass", "folds": "folds, by mass"}
    lines = ["| calibration | asked % | found % | accepted % | of the right ones % | top-1 % |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for row in read_record("false_discoveries_spectra")["results"]:
        cells = [cell(row[key]) for key in NUMBERS]
        lines.append(f"| {names[row['way']]} | {100 * row['nominal']:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def surest_table() -> str:
    """Return how many of the surest answers are wrong, means over draws."""
    settings = read_record("false_discoveries_spectra")["settings"]
    lines = [f"| surest | {' | '.join(f'{100 * share:g} %' for share in settings['surest'])} |"]
    lines.append("|---|" + "---:|" * len(settings["surest"]))
    for way in ("split", "folds"):
        cells = [cell(pair) for pair in settings[f"wrong of the surest, {way}"]]
        lines.append(f"| wrong %, {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def places() -> dict[str, str]:
    """Return what the page takes from the records."""
    settings = read_record("false_discoveries_spectra")["settings"]
    draws = read_record("false_discoveries_simulated")["settings"]["draws"]
    return {
        "{SIMULATED RATES}": simulated_table(),
        "{RATE DRAWS}": str(draws),
        "{SPECTRA RATES}": spectra_table(),
        "{SPECTRA DRAWS}": str(settings["draws"]),
        "{SPLIT MOLECULES}": str(settings["molecules"][1]),
        "{FOLD MOLECULES}": f"{sum(settings['molecules'][1:]):,}",
        "{SPECTRA FOLDS}": str(settings["folds"]),
        "{SUREST}": surest_table(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("simulate", "spectra", "table"))
    parser.add_argument("--quick", action="store_true", help="four simulated draws, no record")
    parser.add_argument("--draws", type=int, default=N_DRAWS)
    options = parser.parse_args()
    if options.part == "simulate":
        simulate(options.quick)
    elif options.part == "spectra":
        spectra(options.draws)
    else:
        print(simulated_table(), spectra_table(), surest_table(), sep="\n\n")


if __name__ == "__main__":
    main()
