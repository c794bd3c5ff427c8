"""Text to molecule, table 5.2: from a caption to the molecule, among all 33,010 of ChEBI-20.

    python experiments/text2mol.py prepare --names WHEELS --definitions FILE       needs RDKit
    python experiments/text2mol.py sisokr                       on n-grams of the text, on a CPU
    python experiments/text2mol_pack.py ENCODER                 its weights in small files
    python experiments/text2mol.py deep --seed 0 1 2            IOKR, DSOKR, end to end: a GPU
    python experiments/text2mol.py train --method contrastive --encoder FOLDER     others: a GPU
    python experiments/text2mol.py evaluate --names WHEELS --definitions FILE      the record

The training captions of ChEBI-20 are not at hand. We train on its validation captions, PubChem324k
and PCdes, on definitions of ChEBI, on IUPAC names, and on names from the packages chemicals 1.5.2
and equilibrator-cache-data 0.1.0 (their wheels), which are descriptions too; every molecule whose
InChIKey skeleton is in the test part is left out. `prepare` prints how many pairs remain. 500 ChEBI
captions, with all texts of their molecules, are held out for validation.

Outputs are Mol2vec vectors, sums of substructure vectors over the square roots of their counts,
whose principal directions are divided by a power of their variances, and beside them principal
directions of marks, which can tell stereoisomers from each other (`text2mol_data.py`). The kernel
of DSOKR is the cosine of features of these, which are learnt in seconds from drafts
(`text2mol_draft.py`); what the networks do is in `text2mol_deep.py`. Those of `train` have the
molecules as Mol2vec vectors alone. Ranks are given for scores as they are and for scores less the
price of a candidate. `evaluate` keeps the rows of the record whose methods were not run again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from shutil import make_archive
from typing import Any

import numpy as np
from common import clock, print_table, read_record, write_record
from text2mol_data import CACHE, N_VAL, Problem, in_mixtures, prepare
from text2mol_pack import unpack

from skout import sisokr
from skout.kernels import Cosine
from skout.metrics import hits_at_k, mean_rank, mean_reciprocal_rank
from skout.sketches import SubSample

EPOCHS = 12
SECONDS = [130.0, 70.0, 40.0]
METHODS = ("regression", "contrastive", "bare")
THESIS = {  # Hits@1, Hits@10 in %, MRR, mean rank
    "SISOKR": (0.4, 2.8, 0.015, 2230.48),
    "regression": (16.8, 56.9, 0.298, 344.53),
    "contrastive": (34.9, 84.2, 0.513, 23.74),
    "DSOKR": (48.2, 87.4, 0.624, 82.92),
    "DSOKR x3": (51.0, 88.2, 0.642, 76.43),
}


def train(runs: list[tuple[str, int]], o: argparse.Namespace) -> None:
    """Fit networks; write the ranks of the truth, and all scores for ensembles."""
    import text2mol_models as models  # PyTorch
    import torch

    device = o.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    problem = Problem(models.WHITE, models.DAMP)
    texts = models.Texts(problem, o.rows, torch.device(device))
    for method, seed in runs:
        with clock() as fit:
            found = run(method, seed, problem, texts, o)
        plain, priced = models.scores(found, texts, problem)
        out: dict[str, Any] = {"seconds": fit.seconds, "epochs": o.epochs, "lr": models.LR[method]}
        out["encoder"] = o.encoder.name
        truth = np.concatenate([problem.val_truth[: o.rows], problem.test[: o.rows]])
        n_val = len(found.val)
        for name, S in {"plain": plain, "priced": priced}.items():
            r = ranks(S, truth)
            out[f"{name}_val"], out[f"{name}_test"] = r[:n_val], r[n_val:]
            print(method, seed, name, "validation", scores(r[:n_val]), flush=True)
        if o.rows is None:
            np.savez_compressed(CACHE / f"text2mol_{method}_{seed}.npz", **out)


def run(method: str, seed: int, problem: Problem, texts: Any, o: argparse.Namespace) -> Any:
    """Fit one network and return what it predicts."""
    import text2mol_models as models

    how = (texts, seed, o.encoder, o.epochs)
    if method == "regression":
        return models.regression(Problem(0.0), *how)
    return models.contrastive(problem, *how, drafts=method == "contrastive")


def deep(o: argparse.Namespace) -> None:
    """Draw by draw: IOKR on n-grams, DSOKR, its end-to-end variant; at last their ensembles."""
    import text2mol_deep as lessons
    import text2mol_models as models
    import torch

    clock_ = lessons.Clock(o.minutes)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    problem = Problem(models.WHITE, models.DAMP, models.MARKS)
    print("problem", round(clock_.left()), "s left", flush=True)
    corpus = lessons.Corpus(problem, o.rows, o.encoder or unpack(), device)
    print("corpus", len(corpus.texts), round(clock_.left()), "s left", flush=True)
    encoder = lessons.reading(corpus, 0, o.seconds[0]) if o.seconds[0] > 0 else None
    sums: dict[str, list[Any]] = {}
    for seed in o.seed:
        if clock_.left() < 1.1 * sum(o.seconds[1:]) + 15:
            print("no time for draw", seed)
            break
        with clock() as shallow_fit:
            lesson = lessons.Lesson(corpus, seed)
        _note("iokr", seed, lessons.iokr(lesson), shallow_fit.seconds, corpus, problem, o)
        with clock() as fit:
            found, module = lessons.dsokr(lesson, encoder, o.seconds[1])
        both = shallow_fit.seconds + fit.seconds
        runs = {"dsokr": _note("dsokr", seed, found, both, corpus, problem, o)}
        if o.seconds[2] > 0:
            with clock() as fit:
                found = lessons.end_to_end(lesson, module, o.seconds[2])
            runs["end-to-end"] = _note("end-to-end", seed, found, fit.seconds, corpus, problem, o)
        for method, S in runs.items():
            total = sums.setdefault(method, [0, 0.0])
            sums[method] = [total[0] + 1, total[1] + S]
        print("draw", seed, round(clock_.left()), "s left", flush=True)
    for method, (n, S) in sums.items():
        name = "ensemble" if method == "dsokr" else f"ensemble-{method}"
        _write(name, 0, S / n, {"members": n}, problem, o)


def _note(
    method: str, seed: int, found: Any, seconds: float, corpus: Any, problem: Problem,
    o: argparse.Namespace,
) -> np.ndarray:  # fmt: skip
    """Write the ranks of a run; return its scores, as they are and less the prices."""
    import text2mol_deep as lessons
    import text2mol_models as models

    S = np.stack(models.scores(found, corpus, problem))
    about = {"seconds": seconds, "lr": lessons.LR.get(method, 0.0)}
    about["epochs"] = lessons.EPOCHS.get(method, 0)
    about["encoder"] = "none" if method == "iokr" else "all-mpnet-base-v2"
    about["reading"] = o.seconds[0] > 0
    _write(method, seed, S, about, problem, o)
    return S


def _write(
    method: str, seed: int, S: np.ndarray, about: dict[str, Any], problem: Problem,
    o: argparse.Namespace,
) -> None:  # fmt: skip
    """Write the ranks by scores, shape (2, n_val + n_test, n_candidates)."""
    truth = np.concatenate([problem.val_truth[: o.rows], problem.test[: o.rows]])
    n_val = len(problem.val_truth[: o.rows])
    for name, some in zip(("plain", "priced"), S, strict=True):
        r = ranks(some, truth)
        about[f"{name}_val"], about[f"{name}_test"] = r[:n_val], r[n_val:]
        print(method, seed, name, "validation", scores(r[:n_val]), flush=True)
    about["top_test"] = np.argpartition(-S[1, n_val:], 10, axis=1)[:, :10].astype(np.int32)
    about["first_test"] = S[1, n_val:].argmax(axis=1)
    runs = CACHE / f"runs{o.mark}"  # one file comes back from a machine more easily than ten
    runs.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(runs / f"text2mol_{method}{o.mark}_{seed}.npz", **about)
    make_archive(str(o.out / f"text2mol_runs{o.mark}"), "zip", runs)


def shallow() -> None:
    """Fit SISOKR on n-grams with the cosine of the vectors, nothing learnt, no prices."""
    import text2mol_draft as draft
    import text2mol_models as models

    problem = Problem(models.WHITE, models.DAMP)
    grams = draft.NGrams()
    texts, at = problem.parts()
    model = sisokr(
        "linear", Cosine(), input_sketch=SubSample(5000), output_sketch=SubSample(1000),
        alpha=draft.LAMBDA / len(texts), random_state=0,
    )  # fmt: skip
    with clock() as fit:
        model.fit(grams.fit(texts)(texts), problem.outputs[at])
    out: dict[str, Any] = {"seconds": fit.seconds}
    candidates = model.output_basis_.transform(problem.pool)
    for name, some, truth in (
        ("val", [problem.texts[i] for i in problem.val], problem.val_truth),
        ("test", problem.test_texts, problem.test),
    ):
        F = model.predict_coordinates(grams(some))
        out[f"plain_{name}"] = ranks(F @ candidates.T, truth)
    print("SISOKR", fit.seconds, "validation", scores(out["plain_val"]))
    np.savez_compressed(CACHE / "text2mol_sisokr_0.npz", **out)


# Results ---------------------------------------------------------------------------------------


def ranks(S: np.ndarray, truth: np.ndarray, tie: float = 1e-6) -> np.ndarray:
    """Return the rank of the truth by scores; of ties, the average.

    Copies of the truth among the candidates differ by rounding: scores that differ by less than
    the share `tie` are equal. Where there are no copies it should be 0.
    """
    own = S[np.arange(len(S)), truth][:, None]
    slack = tie * np.abs(own)
    above = (own + slack < S).sum(axis=1)
    tied = (np.abs(S - own) <= slack).sum(axis=1)
    return above + 0.5 * (tied + 1)


def scores(r: np.ndarray) -> dict[str, float]:
    return {
        "Hits@1 %": round(100 * float(hits_at_k(r, 1)), 2),
        "Hits@10 %": round(100 * float(hits_at_k(r, 10)), 2),
        "MRR": round(float(mean_reciprocal_rank(r)), 4),
        "mean rank": round(float(mean_rank(r)), 1),
    }


def evaluate(folder: Path, o: argparse.Namespace) -> None:
    """Write the record: each run, scores as they are and less the prices."""
    import text2mol_deep as lessons
    import text2mol_draft as draft
    import text2mol_models as models

    problem = Problem(0.0)
    keys, test_keys = problem.pool_keys, problem.pool_keys[problem.test]
    with_text = set(problem.keys[problem.train]) | set(problem.keys[problem.names])
    is_seen = np.array([key in with_text for key in keys])
    mixed = in_mixtures(o.names, o.definitions)
    alone = np.array([key not in mixed for key in test_keys])
    paths = sorted(folder.glob("**/text2mol_*_?.npz"))
    methods = {path.stem.split("_")[1] for path in paths}
    rows = [row for row in read_record("text2mol")["results"] if row["method"] not in methods]
    for path in paths:
        with np.load(path) as file:
            found = {name: file[name] for name in file.files}
        method, seed = path.stem.split("_")[1:]
        for kind in ("plain", "priced"):
            if f"{kind}_val" in found:
                row = {"method": method, "scores": kind, "seed": int(seed)}
                row |= {
                    name: found[name].item() for name in ("seconds", "lr", "reading", "members")
                    if name in found
                }  # fmt: skip
                row["validation"] = scores(found[f"{kind}_val"])
                row |= scores(found[f"{kind}_test"])
                row["not in mixtures"] = scores(found[f"{kind}_test"][alone])
                if kind == "priced" and "first_test" in found:
                    first = found["first_test"]
                    wrong = first != problem.test
                    row["wrong first"] = {
                        "same skeleton %": _percent(keys[first] == test_keys, wrong),
                        "has a training text %": _percent(is_seen[first], wrong),
                    }
                rows.append(row)
    columns = ["method", "scores", "seed", "Hits@1 %", "Hits@10 %", "MRR", "mean rank"]
    print_table([{name: row[name] for name in columns} for row in rows], columns)
    sources = problem.source[np.concatenate([problem.train, problem.names])]
    settings = {
        "epochs": lessons.EPOCHS, "lr": lessons.LR, "encoder": "all-mpnet-base-v2, 8-bit",
        "batch": lessons.BATCH, "white": models.WHITE, "damp": models.DAMP, "marks": models.MARKS,
        "m_y": models.M_Y, "rank": models.RANK, "names_of_an_epoch": lessons.N_NAMES,
        "lambda": draft.LAMBDA, "n_features": draft.N_FEATURES,
        "price": {"heat": draft.HEAT, "share": draft.SHARE, "references": draft.N_REFERENCES},
        "n_val": N_VAL, "seconds_at_most": SECONDS,
        "n_train_pairs": {str(name): int((sources == name).sum()) for name in np.unique(sources)},
        "candidates with a training text %": _percent(is_seen),
        "candidates with the vector of another %": {
            "Mol2vec": _tied(problem.pool),
            "with marks": _tied(Problem(models.WHITE, models.DAMP, models.MARKS).pool),
        },
        "test molecules in training mixtures %": _percent(~alone),
        "thesis": THESIS, "thesis_pairs": 26408,
        "note": "the head of this record is of the machine that evaluated; the networks of `deep` "
        "ran on one NVIDIA H200 with PyTorch 2.11, draws 0 and 1 in one call, draw 2 in another",
    }  # fmt: skip
    write_record("text2mol", settings, rows)


def _percent(true: np.ndarray, of: Any = slice(None)) -> float:
    return round(100 * float(np.mean(true[of])), 1)


def _tied(vectors: np.ndarray) -> float:
    """Return how many rows in % are equal to another."""
    along = vectors @ np.random.default_rng(0).standard_normal(vectors.shape[1])
    _, place, n = np.unique(
        np.round(along / np.abs(along).max(), 9), return_inverse=True, return_counts=True
    )
    return _percent(n[place] > 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("prepare", "sisokr", "train", "deep", "evaluate"))
    parser.add_argument(
        "--names", type=Path, nargs="*", default=[],
        help="prepare, evaluate: wheels of chemicals 1.5.2 and equilibrator-cache-data 0.1.0",
    )  # fmt: skip
    parser.add_argument("--definitions", type=Path, help="as --names: chebi_definitions.csv.gz")
    parser.add_argument("--minutes", type=float, default=9.0, help="deep: no draw begins later")
    parser.add_argument(
        "--seconds", type=float, nargs=3, default=SECONDS,
        help="deep: at most so many to read, for DSOKR, and for the end-to-end variant",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=CACHE)
    parser.add_argument("--mark", default="", help="deep: added to the names of methods")
    parser.add_argument("--method", choices=METHODS, nargs="+", default=["contrastive"])
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="one for each method")
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--rows", type=int, help="train on the first texts only, to try it")
    parser.add_argument("--device", default="auto")
    o = parser.parse_args()
    if o.part == "prepare":
        prepare(o.names, o.definitions)
    elif o.part == "train":
        train(list(zip(o.method, o.seed, strict=True)), o)
    else:
        parts: dict[str, Any] = {
            "sisokr": shallow, "deep": lambda: deep(o), "evaluate": lambda: evaluate(CACHE, o)
        }  # fmt: skip
        parts[o.part]()


if __name__ == "__main__":
    main()
