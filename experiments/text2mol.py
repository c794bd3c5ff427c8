"""Text to molecule, table 5.2: from a caption to the molecule, among all 33,010 of ChEBI-20.

    python experiments/text2mol.py prepare --names WHEEL        molecules to counts; needs RDKit
    python experiments/text2mol.py draft                        SISOKR on n-grams of the text
    python experiments/text2mol.py train --method dsokr --seed 0 --encoder FOLDER      a GPU
    python experiments/text2mol.py evaluate                     ranks, ensembles, record

The training captions of ChEBI-20 are not at hand. We train on its validation captions, PubChem324k
and PCdes, on IUPAC names, and on names from the package chemicals (its wheel, 1.5.2), which are
descriptions too; every molecule whose InChIKey skeleton is in the test part is left out. `prepare`
prints how many pairs remain. 500 ChEBI captions, with all texts of their molecules, are held out
for validation. All networks have the same pretrained sentence encoder, inputs, texts, epochs and
learning rate: a pass over names and captions, then 12 over captions.

Outputs are Mol2vec vectors (sums of substructure vectors). The kernel is the "whitened cosine": the
centred principal directions of the candidates are divided by a power of their variances first,
0.35, which was chosen on the validation captions with the shallow model. Plain regression predicts
the vectors as they are, as in the thesis.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from common import clock, print_table, write_record
from sklearn.base import BaseEstimator
from text2mol_data import CACHE, N_VAL, Problem, prepare, unit

from skout import Ensemble, KernelBasis, StructuredPredictor
from skout.kernels import Cosine
from skout.metrics import hits_at_k, mean_rank, mean_reciprocal_rank

EPOCHS = 12
METHODS = ("dsokr", "regression", "contrastive")
THESIS = {  # Hits@1, Hits@10 in %, MRR, mean rank
    "SISOKR": (0.4, 2.8, 0.015, 2230.48),
    "regression": (16.8, 56.9, 0.298, 344.53),
    "contrastive": (34.9, 84.2, 0.513, 23.74),
    "DSOKR": (48.2, 87.4, 0.624, 82.92),
    "DSOKR x3": (51.0, 88.2, 0.642, 76.43),
}


def train(
    method: str, seed: int, encoder: Path, epochs: int, device: str, rows: int | None
) -> None:
    """Fit a network and write its predictions for the validation and test texts."""
    import text2mol_models as models  # PyTorch

    problem = Problem(0.0 if method == "regression" else models.WHITE)
    stages = models.Stages(problem, rows)
    how = (problem, stages, seed, encoder, epochs, device)
    with clock() as fit:
        if method == "contrastive":
            found, candidates = models.contrastive(*how)
        else:
            found = {"dsokr": models.dsokr, "regression": models.regression}[method](*how)
            candidates = unit(problem.pool)
    out: dict[str, Any] = {"seconds": fit.seconds, "epochs": epochs, "encoder": encoder.name}
    for name, truth in {"val": problem.val_truth, "test": problem.test}.items():
        out[f"{name}_ranks"] = ranks(found[name], candidates, truth[:rows])
        if method == "dsokr":  # for ensembles
            out[name] = found[name]
    print(method, seed, fit.seconds, "validation", scores(out["val_ranks"]), flush=True)
    if rows is None:
        np.savez_compressed(CACHE / f"text2mol_{method}_{seed}.npz", **out)


def draft() -> None:
    """Fit SISOKR on n-grams: for itself, and as the draft of the networks."""
    import text2mol_models as models

    found = models.fit_draft()
    problem = Problem(models.WHITE)
    for name, truth in {"val": problem.val_truth, "test": problem.test}.items():
        found[f"{name}_ranks"] = ranks(found[name], unit(problem.pool), truth)
    print("SISOKR", found["seconds"], "validation", scores(found["val_ranks"]))
    np.savez_compressed(CACHE / "text2mol_shallow_0.npz", **found)


# Results ---------------------------------------------------------------------------------------


def ranks(
    predicted: np.ndarray, candidates: np.ndarray, truth: np.ndarray, tie: float = 1e-6
) -> np.ndarray:
    """Return the rank of the truth by inner product; of ties, the average.

    Copies of the truth among the candidates differ by rounding: scores that differ by less than
    the share `tie` are equal. Where there are no copies it should be 0.
    """
    out = []
    for some in np.array_split(np.arange(len(predicted)), 8):
        S = predicted[some].astype(np.float64) @ candidates.T
        own = S[np.arange(len(some)), truth[some]][:, None]
        slack = tie * np.abs(own)
        above = (own + slack < S).sum(axis=1)
        tied = (np.abs(S - own) <= slack).sum(axis=1)
        out.append(above + 0.5 * (tied + 1))
    return np.concatenate(out)


def scores(r: np.ndarray) -> dict[str, float]:
    return {
        "Hits@1 %": round(100 * float(hits_at_k(r, 1)), 2),
        "Hits@10 %": round(100 * float(hits_at_k(r, 10)), 2),
        "MRR": round(float(mean_reciprocal_rank(r)), 4),
        "mean rank": round(float(mean_rank(r)), 1),
    }


class Recorded(BaseEstimator):
    """Predictions that were made elsewhere: X are row numbers."""

    def __init__(self, vectors: Any = None) -> None:
        self.vectors = vectors

    def fit(self, X: Any, T: Any) -> Recorded:
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.vectors[np.ravel(X)] @ self.matrix_


def recorded(problem: Problem, vectors: np.ndarray) -> StructuredPredictor:
    """Return a fitted predictor whose network has spoken already."""
    model = StructuredPredictor(Recorded(vectors.astype(np.float64)), KernelBasis(Cosine()))
    some = problem.pool[:: len(problem.pool) // 2000]
    model.fit(np.arange(len(some)), some)
    basis = model.output_basis_
    model.regressor_.matrix_ = basis.combine(unit(basis.landmarks_)).T
    return model


def evaluate(folder: Path) -> None:
    """Write the record: each run, and ensembles of DSOKR."""
    import text2mol_models as models

    problem = Problem(models.WHITE)
    groups: dict[str, list[Any]] = {}
    for path in sorted(folder.glob("text2mol_*_?.npz")):
        method = path.stem.split("_")[1]
        with np.load(path) as file:
            groups.setdefault(method, []).append({name: file[name] for name in file.files})
    rows: list[dict[str, Any]] = []
    for method, runs in groups.items():
        for seed, run in enumerate(runs):
            row = {"method": method, "seed": seed, "seconds": float(run["seconds"])}
            row["validation"] = scores(run["val_ranks"])
            rows.append(row | scores(run["test_ranks"]))
    rows += ensembles(problem, groups)
    print_table([{k: v for k, v in row.items() if k != "validation"} for row in rows],
                ["method", "seed", "Hits@1 %", "Hits@10 %", "MRR", "mean rank"])  # fmt: skip
    sources = problem.source[np.concatenate([problem.train, problem.names])]
    settings = {
        "epochs": sorted({int(run["epochs"]) for run in groups.get("dsokr", [])}),
        "batch": models.BATCH, "lr": models.LR, "white": models.WHITE, "m_y": models.M_Y,
        "rank": models.RANK, "n_val": N_VAL, "name_share": models.NAME_SHARE,
        "n_train_pairs": {str(name): int((sources == name).sum()) for name in np.unique(sources)},
        "thesis": THESIS, "thesis_pairs": 26408,
        "encoder": sorted({str(run["encoder"]) for run in groups.get("dsokr", [])}),
        "note": "the head of this record is of the machine that evaluated",
    }  # fmt: skip
    write_record("text2mol", settings, rows)


def ensembles(problem: Problem, groups: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return the ranks of ensembles, with equal weights and with those that validation chooses."""
    members = groups.get("dsokr", [])
    if len(members) < 2:
        return []
    chosen = {f"{len(members)} DSOKR": members}
    if "shallow" in groups:
        chosen[f"{len(members)} DSOKR + SISOKR"] = [*members, *groups["shallow"]]
    rows = []
    candidates, truth = unit(problem.pool), problem.pool[problem.val_truth]
    for name, runs in chosen.items():
        models = [recorded(problem, run["val"]) for run in runs]
        tuned = Ensemble.of(models).tune(np.arange(len(truth)), truth, problem.pool)
        for rule, weights in {"equal": np.ones(len(runs)), "tuned": tuned.weights_}.items():
            shares = weights / weights.sum()  # the mean of scores is the score of the mean (5.19)
            found = {
                part: sum(w * run[part] for w, run in zip(shares, runs, strict=True))
                for part in ("val", "test")
            }
            row = {"method": f"ensemble, {name}, {rule}", "weights": shares.tolist()}
            row["validation"] = scores(ranks(found["val"], candidates, problem.val_truth))
            rows.append(row | scores(ranks(found["test"], candidates, problem.test)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("prepare", "draft", "train", "evaluate"))
    parser.add_argument("--names", type=Path, help="prepare: the wheel of chemicals 1.5.2")
    parser.add_argument("--method", choices=METHODS, nargs="+", default=["dsokr"])
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="one for each method")
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--rows", type=int, help="train on the first texts only, to try it")
    parser.add_argument("--device", default="auto")
    o = parser.parse_args()
    if o.part == "prepare":
        prepare(o.names)
    elif o.part == "train":
        for method, seed in zip(o.method, o.seed, strict=True):
            train(method, seed, o.encoder, o.epochs, o.device, o.rows)
    elif o.part == "draft":
        draft()
    else:
        evaluate(CACHE)


if __name__ == "__main__":
    main()
