"""Short lists with a certificate: sizes and coverage of conformal sets, before and after.

    python -m experiments.ours.set_sizes labels [--quick]   emotions and yeast, 20 splits; record
    python -m experiments.ours.set_sizes floor [--quick]    what other models could do; record
    python -m experiments.ours.set_sizes scores             MassBank: fit once, keep all scores
    python -m experiments.ours.set_sizes spectra [--quick]  20 splits by molecule of these; record
    python -m experiments.ours.set_sizes table              both records, as markdown
    python -m experiments.ours.set_sizes picture            docs/images/set_sizes.png

Label sets as in `prediction_sets.py`: half of the rows train, a quarter calibrates, a quarter
tests, and candidates are all label sets of the data. "Before" is that record's model and score:
IOKR with the F1 kernel, "gap". "After" has the kernels, of two on inputs and three on label sets,
of the shortest lists on a third of the training rows, and the score "softmax", which is learnt on
three tenths of the calibration rows; the others set the threshold. "Folds" is "after" with ten
folds of the first three quarters, which all train and all calibrate (`cv=10`); kernels and alpha
are chosen on a third of these.

Floor: how short could lists on emotions be? Candidates are cut by an estimate of P(label set | x),
which is best if the estimate is right. Models see three quarters of the rows, as "folds" does:
trees, support vector machines, chains of logistic regressions, IOKR, and kernels whose likelihood
of the label sets is maximal. Each, and all together, is a feature of a softmax with the prior of
the set, learnt from predictions of held-out folds. The threshold is the one at which 90 % of the
*test* rows are covered, which no method has: nothing is lost by calibration.

MassBank as in `reranking.py`: both ways, with ALIGNF, are those of its first draw, and score the
candidates of the formula for at most six spectra of each of the other molecules. These molecules
are split at random 20 times: two thirds calibrate, a third tests. Molecules count once. Widths and
penalties of the model were chosen on half of these molecules (`two_way.py choose`), which splits
mix with the others.

Not blind: which kernels and which score to offer, and the share of rows to learn on, was settled
after looks at test sizes in the first few of these splits.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from tqdm import tqdm

from experiments.common import HERE, Scaler, mean_sd, print_table, read_record, write_record
from experiments.ours.prediction_sets import ALPHAS, load
from skout import CandidateSets, ConformalSets, iokr
from skout.decoding import EmbeddedPool
from skout.kernels import F1, Gaussian, Laplacian, Linear
from skout.predictors import listwise

SEED, N_SPLITS, COVERAGES = 0, 20, (0.8, 0.9, 0.95)
N_FOLDS = 10
KEPT = HERE / "cache" / "set_sizes.npz"


# Label sets ------------------------------------------------------------------------------------


def chosen_kernels(X: np.ndarray, Y: np.ndarray, pool: np.ndarray, seed: int) -> tuple[Any, ...]:
    """Return the kernels, and alpha, of the shortest lists on a third of the rows.

    They are learnt from the others.
    """
    held = np.arange(len(X)) % 3 == 0
    laplacian = Laplacian(1.0 / (2.0 * X.shape[1]))  # columns have unit variance
    found = []
    for inputs in (Gaussian("median"), laplacian):
        for outputs in (Linear(), Gaussian(0.5), Gaussian(1.0)):
            model = iokr(inputs, outputs, alpha=ALPHAS, scoring="coordinates")
            model.fit(X[~held], Y[~held])
            sets = ConformalSets(model, "softmax", share=0.5, random_state=seed)
            sets.calibrate(X[held], Y[held], pool)
            size = sets.evaluate(X[held], Y[held], pool)["mean_size"]
            found.append((size, len(found), inputs, outputs, model.regressor_.alpha_))
    return min(found)[2:]


def labels_split(name: str, seed: int) -> list[dict[str, Any]]:
    """Return coverage and sizes on one random split, in each way, at each level."""
    X, Y, _ = load(name)
    order = np.random.default_rng(seed).permutation(len(X))
    half, quarter = len(X) // 2, 3 * len(X) // 4
    train, calibration, test = order[:half], order[half:quarter], order[quarter:]
    both = order[:quarter]
    pool = np.unique(Y, axis=0)
    of_half, of_both = Scaler(X[train])(X), Scaler(X[both])(X)
    ways: dict[str, Any] = {}
    model = iokr(Gaussian("median"), F1(), alpha=ALPHAS).fit(of_half[train], Y[train])
    sets = ConformalSets(model).calibrate(of_half[calibration], Y[calibration], pool)
    ways["before"] = sets, of_half, None
    *parts, _ = chosen_kernels(of_half[train], Y[train], pool, seed)
    model = iokr(*parts, alpha=ALPHAS, scoring="coordinates").fit(of_half[train], Y[train])
    sets = ConformalSets(model, "softmax", random_state=seed)
    sets.calibrate(of_half[calibration], Y[calibration], pool)
    ways["after"] = sets, of_half, repr(tuple(parts))
    *parts, alpha = chosen_kernels(of_both[both], Y[both], pool, seed)
    sets = ConformalSets(iokr(*parts, alpha=alpha), "softmax", random_state=seed)
    sets.calibrate(of_both[both], Y[both], pool, cv=N_FOLDS)
    ways["folds"] = sets, of_both, repr((*parts, alpha))
    rows = []
    for way, (sets, inputs, chosen) in ways.items():
        for coverage in COVERAGES:
            row = sets.evaluate(inputs[test], Y[test], pool, coverage=coverage)
            rows.append(row | {"way": way, "nominal": coverage, "pool": len(pool)})
            rows[-1]["chosen"] = chosen
    return rows


def labels(quick: bool) -> None:
    n_splits = 2 if quick else N_SPLITS
    results = []
    for name in ("emotions", "yeast"):
        found = [labels_split(name, SEED + i) for i in tqdm(range(n_splits), desc=name)]
        for rows in zip(*found, strict=True):
            row = {"data": name} | {key: rows[0][key] for key in ("way", "nominal", "pool")}
            row |= {key: mean_sd(r[key] for r in rows) for key in ("coverage", "mean_size")}
            row["sizes"] = [round(r["mean_size"], 2) for r in rows]
            results.append(row | {"chosen": [r["chosen"] for r in rows if r["chosen"]]})
        print_table([short(row) for row in results], ["data", "way", "nominal", *MEANS])
        if not quick:
            settings = {"n_splits": n_splits, "alphas": ALPHAS, "n_folds": N_FOLDS}
            write_record("set_sizes_labels", settings, results, SEED)


MEANS = ["coverage", "mean_size"]
WAYS = ("before", "after", "folds")


def short(row: dict[str, Any]) -> dict[str, Any]:
    return row | {key: row[key][0] for key in MEANS}


def per_label(P: Any, pool: np.ndarray) -> np.ndarray:
    """Return log P of each label set of a pool, labels being independent, shape (n, c)."""
    P = np.clip(np.transpose(P), 0.01, 0.99)
    return np.log(P) @ pool.T + np.log1p(-P) @ (1.0 - pool).T


def trees(X: Any, Y: Any, number: Any, new: Any, pool: Any, seed: int) -> tuple[Any, Any]:
    """Return log P by label, and of whole sets: how often they are in the leaves of a row."""
    from sklearn.ensemble import ExtraTreesClassifier

    forest = ExtraTreesClassifier(300, min_samples_leaf=2, max_features=0.3, random_state=seed)
    forest.fit(X, Y)
    W = np.zeros((len(new), len(X)))
    for leaves, own in zip(forest.apply(new).T, forest.apply(X).T, strict=True):
        same = leaves[:, None] == own
        W += same / np.maximum(same.sum(axis=1, keepdims=True), 1)
    share = W @ np.eye(len(pool))[number] / forest.n_estimators
    by_label = per_label([P[:, 1] for P in forest.predict_proba(new)], pool)
    return by_label, np.log(share + 0.01)


def chain(X: Any, Y: Any, new: Any, pool: Any) -> np.ndarray:
    """Return log P of each set by logistic regressions, of a label on X and the labels before."""
    from sklearn.linear_model import LogisticRegression

    out, d = np.zeros((len(new), len(pool))), X.shape[1]
    for j, y in enumerate(Y.T):
        model = LogisticRegression(C=0.05).fit(np.hstack([X, 2 * Y[:, :j]]), y)
        coef = model.coef_[0]
        f = (new @ coef[:d] + model.intercept_)[:, None] + 2 * pool[:, :j] @ coef[d:]
        out -= np.logaddexp(0.0, np.where(pool[:, j] > 0, -f, f))
    return out


def most_likely_kernel(K: Any, K_new: Any, number: Any, outputs: Any, alpha: float) -> np.ndarray:
    """Return scores f(x)_c of sets that maximize the likelihood of softmax(f + log prior)."""
    # min over Theta of -mean log softmax(Z Theta T' + b)_truth + alpha / 2 ||Theta||^2
    (Z, Z_new), T = _coordinates(K, K_new), _coordinates(outputs)[0]
    b, n = np.log(0.5 + np.bincount(number, minlength=len(T))), len(K)
    truth, shape = np.eye(len(T))[number], (Z.shape[1], T.shape[1])

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        F = Z @ (theta.reshape(shape) @ T.T) + b
        log_p = F - logsumexp(F, axis=1, keepdims=True)
        slope = Z.T @ ((np.exp(log_p) - truth) @ T) / n + alpha * theta.reshape(shape)
        return 0.5 * alpha * theta @ theta - np.sum(log_p * truth) / n, slope.ravel()

    options = {"maxiter": 150, "gtol": 1e-5}
    found = minimize(loss, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B", options=options)
    return Z_new @ found.x.reshape(shape) @ T.T


def _coordinates(K: np.ndarray, K_new: np.ndarray | None = None) -> tuple[Any, Any]:
    w, U = np.linalg.eigh(K)
    some = w > 1e-9 * w[-1]
    back = U[:, some] / np.sqrt(w[some])
    return K @ back, None if K_new is None else K_new @ back


def floor_features(X: Any, Y: Any, number: Any, new: Any, pool: Any, seed: int) -> dict[str, Any]:
    """Return what models that are fitted on some rows say of each label set for others."""
    from sklearn.preprocessing import QuantileTransformer
    from sklearn.svm import SVC

    by_label, whole = trees(X, Y, number, new, pool, seed)
    found = {"trees, by label": by_label, "trees, whole sets": whole}
    margins = [SVC(gamma=0.5 / X.shape[1]).fit(X, y).decision_function(new) for y in Y.T]
    found["support vectors"] = per_label(expit(2.0 * np.array(margins)), pool)
    found["chain of logistic regressions"] = chain(X, Y, new, pool)
    normal = QuantileTransformer(n_quantiles=200, output_distribution="normal").fit(X)
    # emotions has 8 columns on rhythm and 64 on timbre: both count alike
    A, B = (np.clip(normal.transform(rows), -3, 3) * np.repeat([0.1, 0.0125], [8, 64])
            for rows in (X, new))  # fmt: skip
    model = iokr(Laplacian(1.0), Gaussian(0.5), alpha=1e-3).fit(A, Y)
    index, scores = model.rank(B, pool, k=len(pool))
    found["IOKR"] = np.take_along_axis(scores, np.argsort(index, axis=1), axis=1)
    K, K_new = Laplacian(1.0)(A), Laplacian(1.0)(B, A)
    for name, kernel, alpha in (("linear", Linear(), 2e-4), ("Gaussian", Gaussian(0.25), 1e-4)):
        outputs = kernel(pool.astype(float))
        found[f"most likely, {name}"] = most_likely_kernel(K, K_new, number, outputs, alpha)
    prior = np.log(0.5 + np.bincount(number, minlength=len(pool)))
    return found | {"prior": np.broadcast_to(prior, (len(new), len(pool)))}


def floor_split(name: str, seed: int) -> dict[str, float]:
    """Return the mean size of lists that hold nine tenths of the test rows, by several models."""
    from sklearn.model_selection import KFold

    X, Y, _ = load(name)
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = np.split(order, [3 * len(X) // 4])
    X = Scaler(X[train])(X)
    pool, number = np.unique(Y, axis=0, return_inverse=True)

    def asked(known: np.ndarray, new: np.ndarray) -> dict[str, Any]:
        return floor_features(X[known], Y[known], number[known], X[new], pool, seed)

    folds = list(KFold(5, shuffle=True, random_state=seed).split(train))
    parts = [asked(train[some], train[held]) for some, held in folds]
    held = train[np.concatenate([held for _, held in folds])]
    known, new = {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}, asked(train, test)
    models = [name for name in new if name != "prior"]
    out = {}
    for kind, names in {**{name: [name] for name in models}, "all": models}.items():
        columns = [np.stack([of[k] for k in (*names, "prior")], axis=2) for of in (known, new)]
        some, rest = (A.reshape(-1, A.shape[2]) for A in columns)
        indptr = len(pool) * np.arange(len(held) + 1)
        lists = (some, indptr, indptr[:-1] + number[held], np.ones(len(held)))
        coef = listwise.most_likely(listwise.FeatureLists(*lists, np.zeros(len(held), int)), 1e-2)
        out[kind] = floor_size((rest @ coef).reshape(len(test), -1), number[test])
    return out


def floor_size(log_p: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean size of lists at the threshold that nine tenths of these rows call for."""
    log_p = log_p - logsumexp(log_p, axis=1, keepdims=True)
    own = np.sort(log_p[np.arange(len(truth)), truth])
    return float(np.mean(np.sum(log_p >= own[int(0.1 * len(own))], axis=1)))


def floor(quick: bool) -> None:
    seeds = range(SEED, SEED + (2 if quick else N_SPLITS // 2))
    found = [floor_split("emotions", seed) for seed in tqdm(seeds, desc="floor")]
    rows = [{"model": kind, "mean_size": mean_sd(r[kind] for r in found)} for kind in found[0]]
    print_table(rows, ["model", "mean_size"])
    if not quick:
        settings = {"data": "emotions", "n_splits": len(found), "coverage": 0.9}
        write_record("set_sizes_floor", settings, rows, SEED)


# Spectra ---------------------------------------------------------------------------------------


def keep_scores() -> None:
    """Keep the scores of all candidates of held-out spectra by both ways, of the first draw."""
    from experiments.ours.reranking import fitted, weighed
    from experiments.ours.two_way import MOST, few, pair, parts_of
    from experiments.papers.massbank import Problem
    from skout.predictors.two_way_weight import Option

    problem = Problem(moses=False)
    train, val, test = parts_of(problem, False)
    held = np.concatenate([val, few(problem, test, MOST)])
    chosen = read_record("reranking")["results"][SEED]["formula"]["option"]
    model, _ = weighed(fitted(problem, train, SEED, {}, False), Option(*chosen))
    X, Y = pair(problem, held)
    pool = model.embed(problem.sets(held)).distinct()
    queries = model.decoder_.queries(model.predict_coordinates(X), pool)
    np.savez_compressed(
        KEPT, held=held, indptr=pool.objects.indptr, members=pool.members,
        scores=model.decoder_._set_scores(queries, pool), truth=model.decoder_.matched(Y, pool),
    )  # fmt: skip


class Kept:
    """A predictor whose scores were kept: its inputs are numbers of queries."""

    def __init__(self, indptr: Any, members: Any, scores: Any) -> None:
        self.sets = CandidateSets(np.arange(members.max() + 1), indptr, members)
        self.scores = scores

    def embed(self, candidates: Any) -> EmbeddedPool:
        if isinstance(candidates, EmbeddedPool):
            return candidates
        each = np.arange(len(candidates.pool))
        return EmbeddedPool(candidates, each, each, np.zeros((len(each), 1)), "kept")

    def rank(self, X: np.ndarray, pool: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        index, scores = np.full((len(X), k), -1), np.full((len(X), k), -np.inf)
        for i, query in enumerate(X):
            own = self.scores[self.sets.indptr[query] : self.sets.indptr[query + 1]]
            order = np.argsort(-own, kind="stable")
            index[i, : len(own)], scores[i, : len(own)] = order, own[order]
        return index, scores

    def matched(self, Y: np.ndarray, _pool: Any) -> np.ndarray:
        return Y


def energy(text: str) -> str:
    """Return the kind of a collision energy: a third of those with a number, ramps, none."""
    if "amp" in text.lower():
        return "ramp"
    found = re.search(r"\d+(\.\d+)?", text)
    if found is None:
        return "not given"
    value = float(found.group())
    return "low" if value <= 25 else "middle" if value <= 50 else "high"


def strata_of(held: np.ndarray) -> dict[str, np.ndarray]:
    from skout.datasets import load

    extra = load("massbank").extra
    kinds = np.array([str(name) for name in extra["instrument_type"]])[held]
    names, counts = np.unique(kinds, return_counts=True)
    rare = names[counts < 100]
    energies = np.array([energy(str(text)) for text in np.asarray(extra["collision_energy"])[held]])
    keys = np.array([str(key)[:14] for key in extra["inchikey"]])[held]
    return {
        "molecule": keys,
        "instrument": np.where(np.isin(kinds, rare), "others", kinds),
        "energy": energies,
    }


def spectra_split(model: Kept, truth: np.ndarray, known: dict[str, Any], seed: int) -> Any:
    """Return what one split by molecule gives, in rows of kind, name and numbers."""
    groups = known["molecule"]
    molecules = np.random.default_rng(seed).permutation(np.unique(groups))
    is_first = np.isin(groups, molecules[: 2 * len(molecules) // 3])
    first, last = np.flatnonzero(is_first), np.flatnonzero(~is_first)
    at = {id(some): model.sets.of_queries(some) for some in (first, last)}
    rows = []

    def judged(sets: ConformalSets, kind: str, strata: Any = None) -> None:
        given = {} if strata is None else {"strata": strata if strata == "size" else known[strata]}
        own = {k: v if isinstance(v, str) else v[first] for k, v in given.items()}
        sets.calibrate(first, truth[first], at[id(first)], groups=groups[first], **own)
        own = {k: v[last] for k, v in given.items() if not isinstance(v, str)}
        for coverage in COVERAGES if strata is None else (0.9,):
            found = sets.evaluate(
                last, truth[last], at[id(last)], coverage, groups=groups[last], **own
            )
            row = {"kind": kind, "nominal": coverage, "score": sets.score_}
            rows.append(row | {key: found[key] for key in (*MEANS, "share_of_one")})
            for label, part in found.get("strata", {}).items():
                rows.append({"kind": f"{kind}: {label}", "nominal": coverage} | part)

    judged(ConformalSets(model), "gap")
    judged(ConformalSets(model, "rank"), "rank")
    judged(ConformalSets(model, "auto", random_state=seed), "auto")
    for strata in ("instrument", "energy", "size"):
        judged(ConformalSets(model, "softmax", random_state=seed), f"by {strata}", strata)
    return rows


def spectra(quick: bool) -> None:
    with np.load(KEPT) as file:
        z = {name: file[name] for name in file.files}
    model, known = Kept(z["indptr"], z["members"], z["scores"]), strata_of(z["held"])
    n_splits = 2 if quick else N_SPLITS
    found: dict[Any, list[dict[str, Any]]] = {}
    for seed in tqdm(range(n_splits), desc="MassBank"):
        for row in spectra_split(model, z["truth"], known, SEED + seed):
            found.setdefault((row["kind"], row["nominal"]), []).append(row)
    results = []
    for (kind, nominal), rows in found.items():
        row = {"kind": kind, "nominal": nominal, "splits": len(rows)}
        numbers = [key for key, value in rows[0].items() if key not in ("kind", "nominal", "score")]
        row |= {key: mean_sd(r[key] for r in rows) for key in numbers}
        names = sorted({r["score"] for r in rows if "score" in r})
        results.append(row | ({"scores": names} if names else {}))
        print(results[-1], flush=True)
    if not quick:
        settings = {"n_splits": n_splits, "spectra": len(z["held"])}
        settings |= {"molecules": len(np.unique(known["molecule"]))}
        settings |= {"mean candidates": float(np.diff(z["indptr"]).mean())}
        write_record("set_sizes_spectra", settings, results, SEED)


# Tables ----------------------------------------------------------------------------------------


def cell(pair: Any, scale: float = 1.0, digits: int = 1) -> str:
    return f"{scale * pair[0]:.{digits}f} ± {scale * pair[1]:.{digits}f}"


def label_table() -> str:
    names = [f"covered %, {way} | size" for way in WAYS]
    lines = [f"| data | candidates | promised % | {' | '.join(names)} |"]
    lines.append("|---|---:|---:|" + "---:|---:|" * len(WAYS))
    rows = read_record("set_sizes_labels")["results"]
    for first in (row for row in rows if row["way"] == "before"):
        same = {key: first[key] for key in ("data", "nominal")}
        ways = [next(r for r in rows if (same | {"way": way}).items() <= r.items()) for way in WAYS]
        pairs = [f"{cell(row['coverage'], 100.0)} | {cell(row['mean_size'])}" for row in ways]
        start = f"| {first['data']} | {first['pool']} | {100 * first['nominal']:g}"
        lines.append(f"{start} | {' | '.join(pairs)} |")
    return "\n".join(lines)


def folds_gain() -> dict[str, str]:
    """Return in how many splits of emotions folds make shorter lists at 90 %, and by how much."""
    rows = read_record("set_sizes_labels")["results"]
    wanted = {"data": "emotions", "nominal": 0.9}
    sizes = {r["way"]: np.array(r["sizes"]) for r in rows if wanted.items() <= r.items()}
    less = sizes["after"] - sizes["folds"]
    return {"{FOLDS SHORTER}": str(np.sum(less > 0)), "{FOLDS GAIN}": f"{less.mean():.1f}"}


def floor_table() -> str:
    rows = read_record("set_sizes_floor")["results"]
    lines = ["| P(label set), with its prior, by | size at 90 % of the test rows |", "|---|---:|"]
    return "\n".join(lines + [f"| {row['model']} | {cell(row['mean_size'])} |" for row in rows])


def spectra_table() -> str:
    record = read_record("set_sizes_spectra")
    lines = ["| score | promised % | covered % | mean size | lists of one % |"]
    lines.append("|---|---:|---:|---:|---:|")
    rows = record["results"]
    for row in (r for r in rows if r["kind"] in ("gap", "rank", "auto")):
        cells = [cell(row["coverage"], 100.0), cell(row["mean_size"])]
        cells.append(cell(row["share_of_one"], 100.0))
        lines.append(f"| {row['kind']} | {100 * row['nominal']:g} | {' | '.join(cells)} |")
    lines += ["", "| stratum | spectra in the test part | covered % | mean size |"]
    lines.append("|---|---:|---:|---:|")
    for row in (r for r in rows if r["kind"].startswith("by ") and ":" in r["kind"]):
        cells = [f"{row['rows'][0]:.0f}", cell(row["coverage"], 100.0), cell(row["mean_size"])]
        lines.append(f"| {row['kind'][3:]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def picture() -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9, 3), constrained_layout=True)
    rows = read_record("set_sizes_labels")["results"]
    ways = {"before": "gap, before", "after": "learnt, after", "folds": "learnt, folds"}
    for ax, name in zip(axes, ("emotions", "yeast"), strict=False):
        for way, label in ways.items():
            some = [row for row in rows if row["data"] == name and row["way"] == way]
            ax.plot(
                [r["mean_size"][0] for r in some],
                [r["coverage"][0] for r in some],
                "o-",
                label=label,
            )
        ax.set(title=f"{name}, {some[0]['pool']} candidates", xlabel="mean size")
    rows = read_record("set_sizes_spectra")["results"]
    for kind, label in (("gap", "gap, before"), ("auto", "learnt, after")):
        some = [row for row in rows if row["kind"] == kind]
        axes[2].plot(
            [r["mean_size"][0] for r in some], [r["coverage"][0] for r in some], "o-", label=label
        )
    axes[2].set(title="MassBank, of a formula", xlabel="mean size")
    axes[0].set(ylabel="coverage")
    for ax in axes:
        ax.set_yticks(COVERAGES)
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8)
    figure.savefig(HERE.parent / "docs" / "images" / "set_sizes.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "part", choices=("labels", "floor", "scores", "spectra", "table", "picture")
    )
    parser.add_argument("--quick", action="store_true", help="two splits, no record")
    options = parser.parse_args()
    jobs = {"labels": labels, "floor": floor, "spectra": spectra}
    if options.part in jobs:
        jobs[options.part](options.quick)
    elif options.part == "scores":
        keep_scores()
    elif options.part == "picture":
        picture()
    else:
        print(label_table(), spectra_table(), sep="\n\n")


if __name__ == "__main__":
    main()
