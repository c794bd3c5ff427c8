"""Beyond the papers: the library's own choices beside the papers' settings, step by step.

    python -m experiments.ours.beyond run [--quick]  bibtex, yeast and rf1, ten draws; the record
    python -m experiments.ours.beyond page  from the records: docs/beyond.md and its figure
    python -m experiments.ours.beyond step metric whole --data bibtex --draws 3  only to look at

Label sets (bibtex, yeast; official splits). The first row is SISOKR as the papers have it: Gaussian
kernels, sub-sampled inputs, a p-sparsified output sketch, training label sets as candidates; on
bibtex with the values of the authors' program. Each further row changes one thing and keeps it:

1. nothing is set by hand: input width by the median distance, alpha by five-fold cross-validation
   of the error in output coordinates
2. alpha by five-fold cross-validation of the metric, in the same fit
3. (for this row only) no sketches
4. the output kernel is that of the metric, F1
5. landmarks on both sides by randomly pivoted Cholesky
6. (instead of training label sets) all label sets, by exact expected F1
7. (instead of 6) three draws rank together

On yeast the papers have no values, and the ladder starts at step 1.

Multi-output regression (rf1): three sketches of three sizes, on the official split with the setting
of table 3.4, and on a random fifth of the rows with a kernel that table_3_4.py chose on such folds.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.common import (
    HERE,
    Scaler,
    load_labels,
    load_targets,
    mean_sd,
    read_record,
    write_record,
)
from experiments.ours import any_loss, false_discoveries, set_sizes
from experiments.papers.massbank import draws_table
from skout import Ensemble, KernelRidge, iokr
from skout.decoding import LabelSetDecoder
from skout.kernels import F1, Gaussian, Matern
from skout.metrics import arrmse, example_f1, hamming_loss
from skout.sketches import PivotedCholesky, PSparsified, SubSample

DOCS = HERE.parent / "docs"
SEED, N_DRAWS, N_MEMBERS = 0, 10, 3
ALPHAS = tuple(10.0 ** np.arange(-8.0, -1.9, 1.0))
SIZES = {"bibtex": (1000, 200), "yeast": (750, 100)}  # m_x, m_y
#: Table 4.2: alpha, s_x and s_y of the authors' program for SISOKR; kernels exp(-||.||^2 / (2 s)).
AUTHORS = {"bibtex": (1e-5, 1e4, 1e4)}
PAPER_F1 = {"bibtex": 44.1}
STEPS = {
    "papers": "the papers' setting",
    "cv": "alpha by CV, width by the median",
    "metric": "alpha by the metric",
    "whole": "the same without sketches",
    "kernel": "output kernel of the metric, F1",
    "landmarks": "pivoted-Cholesky landmarks",
    "exact": "exact expected F1 over all label sets",
    "ensemble": "three draws together",
}
SHORT = {
    "papers": "papers",
    "cv": "CV, median",
    "metric": "CV by F1",
    "whole": "no sketches",
    "kernel": "F1 kernel",
    "landmarks": "pivoted\nCholesky",
    "exact": "expected F1",
    "ensemble": "three draws",
}
#: rf1: how rows are split, the kernel, alpha and the sizes of the sketch.
RIVER = {
    "official": (Gaussian(3e-5), 3e-6, (50, 100, 200)),
    "random": (Matern(0.03, 0.5), 1e-6, (100, 300, 1000)),
}
SKETCHES = {
    "sub-sample": SubSample,
    "p-sparsified": PSparsified,
    "pivoted Cholesky": PivotedCholesky,
}

#: Rows of the tables of two ways.
WAYS = {
    "backward": "spectrum -> molecule",
    "forward": "molecule -> spectrum",
    "both": "both ways",
}
OTHERS = {
    "digits": "digits, lower halves, MRR",
    "captions of molecules": "captions of molecules, MRR",
}
#: Kinds of candidates and rows of the table of re-ranking.
PROTOCOLS = ("formula", "formula and MOSES", "10 ppm")
LAST_WORD = {
    "backward": "spectrum -> molecule",
    "forward": "molecule -> spectrum",
    "both": "both ways",
    "last word": "re-ranking",
    "last word and prior": "re-ranking with a prior",
}


# Runs ------------------------------------------------------------------------------------------


def model(step: str, data: str, n: int, seed: int) -> Any:
    """Return the model of one of the first steps."""
    m_x, m_y = SIZES[data]
    inputs, outputs = Gaussian("median"), Gaussian("median")
    alpha: Any = ALPHAS
    if step == "papers" and data in AUTHORS:
        lam, s_x, s_y = AUTHORS[data]
        inputs, outputs, alpha = Gaussian(0.5 / s_x), Gaussian(0.5 / s_y), lam / n
    sketches: tuple[Any, Any] = SubSample(m_x), PSparsified(m_y)
    if step in ("landmarks", "whole"):
        pivoted = PivotedCholesky(m_x), PivotedCholesky(m_y)
        sketches = pivoted if step == "landmarks" else (None, None)
    return iokr(
        inputs,
        F1() if step in ("kernel", "landmarks") else outputs,
        input_sketch=sketches[0],
        output_sketch=sketches[1],
        alpha=alpha,
        scoring="coordinates" if step == "cv" else None,
        random_state=seed,
    )


def look(steps: list[str], data: str, n_draws: int) -> None:
    """Print the F1 of some of the first steps, draw by draw."""
    X, Y, X_test, Y_test = labels(data)
    for seed in range(n_draws):
        for step in steps:
            one = model(step, data, len(Y), seed).fit(X, Y)
            f1 = 100.0 * example_f1(Y_test, one.predict(X_test))
            print(f"{data}, {step}, draw {seed}: F1 {f1:.2f}, alpha {one.regressor_.alpha_:g}")


def labels(data: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Return the official parts; numbers are standardized."""
    X, Y, X_test, Y_test = load_labels(data)
    if data == "yeast":
        scaler = Scaler(X.toarray())
        X, X_test = scaler(X.toarray()), scaler(X_test.toarray())
    return X, Y, X_test, Y_test


def label_sets(data: str, n_draws: int) -> list[dict[str, Any]]:
    """Return F1 and Hamming loss of each step, in percent, over draws of the sketches."""
    X, Y, X_test, Y_test = labels(data)
    steps = [step for step in STEPS if step != "papers" or data in AUTHORS]
    found: dict[str, list[np.ndarray]] = {step: [] for step in steps}
    fitted = []
    for seed in tqdm(range(n_draws), desc=data):
        for step in steps[:-2]:
            one = model(step, data, len(Y), seed).fit(X, Y)
            found[step].append(one.predict(X_test))
        decoder = LabelSetDecoder().fit(one.output_basis_, Y)  # of the last of these
        found["exact"].append(decoder.decode(one.predict_coordinates(X_test)))
        fitted.append(one)
    for i in range(n_draws):  # three in a row, the first after the last
        members = [fitted[(i + j) % n_draws] for j in range(N_MEMBERS)]
        found["ensemble"].append(Ensemble.of(members).predict(X_test))
    return [
        {
            "data": data,
            "step": step,
            "f1": mean_sd(100.0 * example_f1(Y_test, some) for some in sets),
            "hamming": mean_sd(100.0 * hamming_loss(Y_test, some) for some in sets),
            "paper": PAPER_F1.get(data) if step == "papers" else None,
        }
        for step, sets in found.items()
    ]


def river_flow(split: str, n_draws: int) -> list[dict[str, Any]]:
    """Return the aRRMSE of three sketches of three sizes."""
    X, Y, n, _ = load_targets("rf1")
    kernel, alpha, sizes = RIVER[split]
    if split == "random":
        order = np.random.default_rng(SEED).permutation(len(X))
        X, Y, n = X[order], Y[order], 4 * len(X) // 5
    X, T = Scaler(X[:n])(X), Scaler(Y[:n])(Y)
    rows = []
    for size in tqdm(sizes, desc=f"rf1, {split}"):
        for name, sketch in SKETCHES.items():
            errors = []
            for seed in range(n_draws):
                ridge = KernelRidge(
                    kernel, sketch(size), alpha=alpha, fit_intercept=True, random_state=seed
                )
                F = ridge.fit(X[:n], T[:n]).predict(X[n:])
                errors.append(arrmse(T[n:], F, train_mean=np.zeros(T.shape[1])))
            row = {"data": "rf1", "split": split, "sketch": name, "m": size}
            rows.append(row | {"error": mean_sd(errors)})
    return rows


def run(quick: bool) -> None:
    n_draws = N_MEMBERS if quick else N_DRAWS
    rows = []
    for data in ("yeast",) if quick else SIZES:
        rows += label_sets(data, n_draws)
    for split in RIVER:
        rows += river_flow(split, n_draws)
    for row in rows:
        print(row)
    settings = {"n_draws": n_draws, "sizes": SIZES, "alphas": ALPHAS, "authors": AUTHORS}
    if not quick:
        write_record("beyond", settings, rows, SEED)


# The page --------------------------------------------------------------------------------------


def pair(value: list[float], digits: int) -> str:
    return f"{value[0]:.{digits}f} ± {value[1]:.{digits}f}"


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(results: list[dict[str, Any]]) -> list[str]:
    """Return the steps that a record has, in their order."""
    return [step for step in STEPS if any(row.get("step") == step for row in results)]


def ladder_table(results: list[dict[str, Any]]) -> str:
    found = {(row["data"], row["step"]): row for row in results if "step" in row}
    header = [""] + [f"{data}, {name}" for data in SIZES for name in ("F1", "Hamming loss")]
    rows = []
    for step in shown(results):
        name, cells = STEPS[step], []
        for data in SIZES:
            row = found.get((data, step))
            cells += ["-", "-"] if row is None else [pair(row["f1"], 1), pair(row["hamming"], 2)]
        rows.append([name, *cells])
    return markdown(header, rows)


def river_table(results: list[dict[str, Any]], split: str) -> str:
    own = [row for row in results if row.get("split") == split]
    sizes = sorted({row["m"] for row in own})
    found = {(row["sketch"], row["m"]): pair(row["error"], 4) for row in own}
    rows = [[name, *(found[name, m] for m in sizes)] for name in SKETCHES]
    return markdown(["sketch", *(f"m = {m}" for m in sizes)], rows)


def alignf_table() -> str:
    columns = ("top-1 %", "top-5 %", "top-10 %")
    rows = [
        [row["method"], f"{row['n']:,}", *(f"{row[c]:.1f}" for c in columns), f"{row['MRR']:.3f}"]
        for row in read_record("massbank")["results"]
        if row["method"].split(",")[0] in ("IOKR", "SISOKR")
    ]
    return markdown(["method", "training spectra", *columns, "MRR"], rows)


def hubs_table() -> str:
    rows = []
    for row in read_record("hubness")["results"]:
        digits = 3 if row["metric"] == "MRR" else 1
        cells = [pair(row[name], digits) for name in ("without", "with", "gain")]
        rows.append([row["task"], row["metric"], *cells])
    found = {
        row["scores"] == "plain": row
        for row in read_record("text2mol")["results"]
        if row["method"] == "dsokr" and row["seed"] == 0 and row.get("share", 1.0) == 1.0
    }
    for metric, digits in (("MRR", 3), ("Hits@10 %", 1)):
        before, after = found[True][metric], found[False][metric]
        cells = [f"{value:.{digits}f}" for value in (before, after, after - before)]
        rows.append(["captions of molecules (DSOKR of table 5.2)", metric, *cells])
    return markdown(["task", "metric", "as it is", "with penalties", "gain"], rows)


def two_way_table() -> str:
    columns = {"top-1 %": 1, "top-5 %": 1, "top-10 %": 1, "MRR": 3}
    draws = read_record("two_way_spectra")["results"]
    rows = [
        [name, *(pair(mean_sd(one[way][c] for one in draws), d) for c, d in columns.items())]
        for way, name in WAYS.items()
    ]
    gains = [
        pair(mean_sd(one["both"][c] - one["backward"][c] for one in draws), d)
        for c, d in columns.items()
    ]
    return markdown(["score", *columns], [*rows, ["gain over spectrum -> molecule", *gains]])


def two_way_others() -> str:
    rows = []
    results = read_record("two_way_others")["results"]
    results = results + read_record("two_way_captions")["results"]
    for data in dict.fromkeys(row["data"] for row in results):
        own = [row for row in results if row["data"] == data]
        cells = [pair(mean_sd(row[way] for row in own), 3) for way in WAYS]
        weights = ", ".join(f"{row['weight']:g}" for row in own)
        error = f"{mean_sd(row['se of the best single way'] for row in own)[0]:.3f}"
        rows.append([OTHERS.get(data, f"{data}, F1 of label sets"), *cells, error, weights])
    names = ["backward", "forward", "both", "standard error", "weights"]
    return markdown(["task, metric", *names], rows)


def last_word_table() -> str:
    columns = {"top-1 %": 1, "top-5 %": 1, "top-10 %": 1, "MRR": 3}
    draws, rows = read_record("reranking")["results"], []
    for protocol in PROTOCOLS:
        some = [one[protocol] for one in draws if protocol in one]
        if not some:  # not run yet
            continue
        sizes = some[0]["candidates"]["median"], some[0]["n_test"]
        parts = {f"{protocol} (median {sizes[0]:g}, {sizes[1]:,} spectra)": some}
        if protocol == PROTOCOLS[-1]:
            large = [one["large sets"] for one in some]
            name = f"the same, 50 or more ({large[0]['median']:g}, {large[0]['n_test']:,})"
            parts[name] = large
        for name, own in parts.items():
            for way in LAST_WORD:
                values = {c: [one[way][c] for one in own] for c in columns}
                cells = [
                    f"{v[0]:.{columns[c]}f}" if len(v) == 1 else pair(mean_sd(v), columns[c])
                    for c, v in values.items()
                ]
                rows.append([name, LAST_WORD[way], str(len(own)), *cells])
    return markdown(["candidates", "score", "draws", *columns], rows)


def seconds() -> dict[str, str]:
    """Return the longest CPU seconds of fits and of 1,000 queries, over draws and candidates."""
    draws = read_record("reranking")["results"]
    rows = [one[name] for one in draws for name in PROTOCOLS if name in one]
    found = {
        "{FIT}": max(one["fit, cpu seconds"] for one in draws),
        "{LEARN}": max(row["learning, cpu seconds"] for row in rows),
        "{ASK}": max(row["1000 queries, cpu seconds"] for row in rows),
    }
    return {name: f"{value:.0f}" for name, value in found.items()}


def page_text() -> str:
    """Return the page, from the records."""
    results = read_record("beyond")["results"]
    first = next(row for row in read_record("massbank_draws")["results"])
    places = {
        "{LADDER}": ladder_table(results),
        "{OFFICIAL}": river_table(results, "official"),
        "{RANDOM}": river_table(results, "random"),
        "{DRAWS}": draws_table(),
        "{ALIGNF}": alignf_table(),
        "{HUBS}": hubs_table(),
        "{TWO WAYS}": two_way_table(),
        "{OTHER TASKS}": two_way_others(),
        "{LAST WORD}": last_word_table(),
        **seconds(),
        "{WAY DRAWS}": str(len(read_record("two_way_spectra")["results"])),
        "{LABEL LISTS}": set_sizes.label_table(),
        "{FLOOR}": set_sizes.floor_table(),
        **set_sizes.folds_gain(),
        "{SPECTRA LISTS}": set_sizes.spectra_table(),
        **false_discoveries.places(),
        "{F BETA}": any_loss.f_beta_table(),
        "{EDITS}": any_loss.molecules_table(),
        "{LOSS MEMORY}": any_loss.memory_text(),
        "{ERROR}": f"{first['standard error of top-1 over molecules'][0]:.1f}",
    }
    text = TEXT
    for place, value in places.items():
        text = text.replace(place, value)
    return text


def write_page() -> None:
    (DOCS / "beyond.md").write_text(page_text(), encoding="utf-8")
    draw(read_record("beyond")["results"])


def draw(results: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    steps = shown(results)
    fig, axes = plt.subplots(2, 2, figsize=(7.5, 6), layout="constrained")
    for ax, data in zip(axes[0], SIZES, strict=True):
        for y, step in enumerate(steps):
            for row in results:
                if (row["data"], row.get("step")) == (data, step):
                    ax.errorbar(*row["f1"][:1], y, xerr=row["f1"][1], fmt="o", color="C0")
        if data in PAPER_F1:
            ax.axvline(PAPER_F1[data], color="0.6", linestyle="--", label="thesis")
            ax.legend(frameon=False)
        ax.set(title=f"{data}, F1 in %", yticks=range(len(steps)), ylim=(len(steps) - 0.5, -0.5))
        ax.grid(axis="x", alpha=0.3)
    axes[0, 0].set_yticklabels([SHORT[step] for step in steps])
    axes[0, 1].set_yticklabels([])
    for ax, split in zip(axes[1], RIVER, strict=True):
        for name in SKETCHES:
            own = [r for r in results if r.get("split") == split and r["sketch"] == name]
            mean, sd = np.array([r["error"] for r in own]).T
            ax.errorbar([r["m"] for r in own], mean, sd, fmt="o-", capsize=3, label=name)
        ax.set(title=f"rf1, {split} rows, aRRMSE", xlabel="landmarks", xscale="log")
        sizes = RIVER[split][2]
        ax.set_xticks(sizes, [str(m) for m in sizes])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    axes[1, 1].legend(frameon=False)
    fig.savefig(DOCS / "images" / "beyond.png", dpi=150)


TEXT = """# Beyond the papers

*This page is made by `experiments/ours/beyond.py page` from [records](records.md) of
`experiments/records`.*

The library makes choices that the papers do not: an output kernel that is the metric, landmarks
that look at the data, decoding without candidates, several draws together. What is each of them
worth? Here they stand beside the papers' settings. Some do not pay, and that is
shown too. After ± stands one standard deviation over ten draws of the sketches.

![F1 after each step, and errors of three sketches](images/beyond.png)

## Label sets, one choice after another

SISOKR, official splits, in percent; F1 is better when larger, Hamming loss when smaller. Each row
keeps what the rows above it have, but for the last two, which both build on the one before them. On
bibtex the first row has the values of the authors' program, with 1,000 input landmarks instead of
their 2,250, so that a run takes minutes, and signs instead of Gaussian numbers in the output sketch
(as they have it, we are at 44.7: [table 4.2](results.md)); on yeast the papers have none.

{LADDER}

- **The output kernel is what matters.** With the kernel that is the metric, F1 gains more than
  from all else together. It has a price, the Hamming loss: whoever is scored by that should keep
  another kernel.
- **Nothing set by hand** costs F1 on bibtex as long as the output kernel is Gaussian and alpha is
  chosen by the error in output coordinates, which asks for more of it than F1 does: that is
  `scoring="coordinates"`. By default a sequence of alphas is chosen by the metric, inside one fit.
- **Pivoted Cholesky** gains nothing here.
- **Exact expected F1** over all label sets is worth a little on yeast and loses a little on bibtex.
  (Cross-validation chooses it on two data sets of five: see [Results](results.md).)
- **Three draws together** gain as much as the spread of one draw, or less. The ten threes are made
  of the same ten draws, so that their spread is smaller than that of threes of their own.

## Landmarks

Multi-output ridge on rf1, aRRMSE, smaller is better. On the official split, whose test rows come
later in time, with the kernel and alpha of table 3.4, all sketches are alike:

{OFFICIAL}

On random rows, with a kernel that needs more landmarks:

{RANDOM}

The papers' p-sparsified sketch is best, and steadiest. It mixes about twenty rows into each
landmark, which costs as many more kernel values at prediction. Among sketches that keep m rows,
pivoted Cholesky is ahead of sub-sampling while they are few; with 1,000 the spread is larger than
the difference.

## Landmarks by molecule

On MassBank, training on all spectra helps little. Some molecules have more than a hundred spectra,
and landmarks that are drawn among spectra fall on these again and again. Drawn by molecule, so that
each is as likely as any other, there are fewer copies among them, more output coordinates are left,
and they are worth about as much as five times the data. SISOKR, means over test molecules; the
draws do not show the standard error over these molecules, {ERROR} points in top-1, but the
molecules are the same in all rows. Counted by spectra, where molecules with many weigh more, there
is no gain.

{DRAWS}

## Several kernels on spectra

ALIGNF weighs kernels by how well they agree with the output kernel on training data. Of six it
keeps three: fragments, losses and the cosine. One draw; the input kernel of the other rows is the
sum of fragments and losses.

{ALIGNF}

Exact and sketched gain about two points in top-1, less than one standard error.

## Hubs

Some candidates are near to the predictions of everybody, and push the truth down. `correct_hubness`
gives them a penalty ([how](objects.md)). SISOKR, ten draws, test rows that are not in training;
after the gain stands its standard deviation over the draws.

{HUBS}

It pays on all five. Both parameters are the defaults of the library, which were set on validation
captions of molecules: the last two rows, one draw on the test part, are those of that task.
MassBank is by its validation part, with the width and alpha chosen there. It costs as many fits as
there are folds, five.

## Two ways

Would this molecule have made this spectrum? `TwoWay` learns the way forward, too, and adds both
scores ([how](objects.md)). MassBank, at most six training spectra a molecule (14,471), candidates
of the formula without those of MOSES, means over test molecules, {WAY DRAWS} draws. SISOKR
backward as above; forward from all distinct molecules, not 800 landmarks, to 1,500 landmarks of
spectra, by the same kernels and a cosine of peaks: part of the gain is that of these. Kernels,
widths and penalties of each way, and the weight, were chosen on validation molecules.

{TWO WAYS}

Where the forward way has nothing to add, its weight must not do harm. It is chosen in three folds
of the training rows:

{OTHER TASKS}

Draws: 3; after each mean stands the standard deviation over them. The standard error is that of the
best single way over test rows.

## Re-ranking

`Reranker` learns which of a query's best candidates is the true one ([how](objects.md)). MassBank
as above, with ALIGNF on both sides, 3,000 landmarks among spectra and 1,500 among molecules, and
three kinds of candidates: molecules of the formula; the same with those of MOSES; and all molecules
within 10 ppm of the mass, formulas not being known, of a pool of 2,029,282. Two thirds of the test
molecules have fewer than 50 even there, so that the others have rows of their own. Weight,
normalization and re-ranking were learned on validation molecules. The prior, a column of the user,
is how plausible a candidate is as a molecule of MassBank, by a ridge regression on fingerprints
of training molecules and others of their formulas, never on the molecule that it scores. So it also
tells molecules of MOSES from those that people measure.

{LAST WORD}

The re-ranking was learned from about 300 validation molecules. The number of landmarks and the
prior were chosen there, too, by one draw, after a draw with fewer landmarks and another prior had
shown test molecules. That the re-ranking starts from the weight of both ways, not from a weight of
1, was decided after a short trial that also showed 300 test spectra.

Seconds of one core: {FIT} to fit both ways, at most {LEARN} to learn weight and re-ranking, and at
most {ASK} for 1,000 queries with all their candidates.

## Prediction sets

`ConformalSets` promises that a set holds the truth nine times in ten; how large is it
([how](objects.md))? Label sets: half of the rows train, a quarter calibrates, a quarter tests, and
candidates are all label sets of the data. Before: the F1 kernel, and all that scores within a gap
of the best. After: kernels chosen on training rows, and probabilities learned on three tenths of
the calibration rows from the score and the counts of training label sets. Folds: the same with
`calibrate(..., cv=10)`, by which the first three quarters all train and all calibrate; kernels and
alpha are chosen on a third of these. Folds promise less, 60, 80 and 90 % where 80, 90 and 95 stand
below, and for scores that are learned there is no proof. Means and deviations are over 20 splits.

{LABEL LISTS}

![Coverage against mean size, before and after](images/set_sizes.png)

Yeast is at less than half of its size; emotions, with 593 rows, is not: half would be 7.1. Folds
shorten its lists in {FOLDS SHORTER} of 20 splits, by {FOLDS GAIN} on average. We found no model
that gets to half: lists that are cut by estimates of P(label set | x), of models that see three
quarters of the rows as folds do, even at the threshold that the *test* rows call for, have the
sizes

{FLOOR}

Mean and standard deviation over ten of the splits. "Most likely" are kernels on inputs and label
sets that maximize the likelihood of the softmax itself; "all" is a softmax over the scores of all.
All together are no shorter than the best alone. Not blind: which kernels and which score to offer,
and the share of rows to learn on, was settled after looks at test sizes in the first few of these
splits, also for the next table; so were the widths and penalties of the models of the floor, which
makes it lower, if anything.

MassBank: the two ways above, fitted once; at most six spectra of each held-out molecule; two thirds
of these molecules calibrate, a third tests, 20 splits. Molecules count once. Widths and penalties
of the model were chosen on half of them.

{SPECTRA LISTS}

Strata by size are quartiles of the number of candidates, from the smallest. In strata of few
spectra a split says little.

## Answers to trust

`ConformalSelection` accepts best answers, of which at most a given share is wrong on average.
Simulated draws, {RATE DRAWS} of each design: a split of the rows into those that fit and those that
calibrate, and ten folds, in which all do both. With groups the share is one of group mass, or of
rows where `predict` gets no groups. Mean, and standard error of what was found:

{SIMULATED RATES}

No mean is above the rate asked for. Folds accept more in nearly every line. By rows, large groups
that are wrong together leave little to accept, and so do few rows.

MassBank: the two ways above, with 1,500 and 800 landmarks; at most six spectra of a molecule, which
count once. A fifth of the molecules tests, {SPECTRA DRAWS} draws. Split: of the others
{SPLIT MOLECULES} calibrate and the rest fits. Folds: all others do both, in {SPECTRA FOLDS} folds.
"Before" is the rule of earlier versions, by rows, on the p-values of the split. Mean and standard
deviation over draws:

{SPECTRA RATES}

Few calibration molecules are not why so little is accepted at 5 and 10 %: with folds p-values go
down to 1 / (molecules + 1), of {FOLD MOLECULES} molecules. Even the surest answers of one model are
wrong more often than that (split, below), so that no cut holds such a rate. Answers that the models
of folds agree on are right more often, but they are compared with wrong answers of one model each,
since every row has trained all models but one: what is found stays below the rate asked for. Share
of wrong answers among the surest:

{SUREST}

Not blind: the median over folds, and the score and squares among the features of confidence, were
settled after looks at test molecules of the first two of these draws, and at such simulations.

## A loss of one's own

`LossDecoder` decodes by any loss. F-beta on bibtex, official split, each beta with an alpha of its
own from the training part; example F-beta in percent, best of each column in bold:

{F BETA}

Graph edit distance as the loss, on SMI2Mol (table 5.1), small, as each loss costs an edit distance:
4,000 training molecules, 60 output landmarks, 80 test molecules, the five best candidates by the
kernel in the order of expected edits. Mean edit distance to the truth, three seeds:

{EDITS}

{LOSS MEMORY}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("run", "page", "step"))
    names = ", ".join(list(STEPS)[:-2])
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of `step`: {names}")
    parser.add_argument("--data", choices=SIZES, default="bibtex", help="of `step`")
    parser.add_argument("--draws", type=int, default=1, help="of `step`")
    parser.add_argument(
        "--quick", action="store_true", help="yeast and rf1, three draws, no record"
    )
    options = parser.parse_args()
    if unknown := set(options.steps) - set(list(STEPS)[:-2]):
        parser.error(f"STEP must be of {names}. Got {', '.join(sorted(unknown))}.")
    if options.part == "run":
        run(options.quick)
    elif options.part == "step":
        look(options.steps, options.data, options.draws)
    else:
        write_page()


if __name__ == "__main__":
    main()
