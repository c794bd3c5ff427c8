"""Text to molecule, table 5.2: from a caption to the molecule, among all 33,010 of ChEBI-20.

    python -m experiments.papers.text2mol prepare --names WHEELS --definitions FILE  needs RDKit
    python -m experiments.papers.text2mol sisokr  on n-grams of the text, on a CPU
    python -m experiments.papers.text2mol_pack ENCODER  its weights in small files
    python -m experiments.papers.text2mol deep --minutes 25  the networks, run after run: a GPU
    python -m experiments.papers.text2mol evaluate --names WHEELS --definitions FILE  the record

The training captions of ChEBI-20 are not at hand. We train on its validation captions, PubChem324k
and PCdes, on definitions of ChEBI, on IUPAC names, and on names from the packages chemicals 1.5.2
and equilibrator-cache-data 0.1.0 (their wheels), which are descriptions too; every molecule whose
InChIKey skeleton is in the test part is left out. `prepare` prints how many pairs remain. 500 ChEBI
captions, with all texts of their molecules, are held out for validation.

Outputs are Mol2vec vectors, sums of substructure vectors over the square roots of their counts,
whose principal directions are divided by a power of their variances, and beside them principal
directions of marks, which can tell stereoisomers from each other (`text2mol_data.py`). The kernel
of DSOKR is the cosine of features of these, which are learnt in seconds from drafts
(`text2mol_draft.py`); what the networks do is in `text2mol_deep.py`. `deep` leaves out runs that
are there already. Ranks are given for scores as they are and for scores less the price of a
candidate. `evaluate` keeps the rows of the record whose methods were not run again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from shutil import make_archive
from typing import Any

import numpy as np

from experiments.common import clock, print_table, read_record, write_record
from experiments.papers.text2mol_data import CACHE, N_VAL, Problem, in_mixtures, prepare
from experiments.papers.text2mol_pack import unpack
from skout import sisokr
from skout.kernels import Cosine
from skout.metrics import hits_at_k, mean_rank, mean_reciprocal_rank
from skout.sketches import SubSample

SECONDS = [130.0, 70.0, 40.0]
PLAN = (  # the most wanted first
    "dsokr-gaussian:0", "regression:0", "contrastive:0", "dsokr-unread:0", "dsokr:0",
    "end-to-end:0", "dsokr:1", "dsokr:2", "end-to-end:1", "end-to-end:2", "end-to-end-unread:0",
    "dsokr-gaussian:1", "dsokr-gaussian:2", "contrastive:1", "contrastive:2",
)  # fmt: skip
ENSEMBLES = {  # of what they are the mean
    "ensemble": ("dsokr",),
    "ensemble-gaussian": ("dsokr-gaussian",),
    "ensemble-mixed": ("dsokr", "dsokr-gaussian"),
    "ensemble-contrastive": ("contrastive",),
    "ensemble-end-to-end": ("end-to-end",),
}
THESIS = {  # Hits@1, Hits@10 in %, MRR, mean rank
    "SISOKR": (0.4, 2.8, 0.015, 2230.48),
    "regression": (16.8, 56.9, 0.298, 344.53),
    "contrastive": (34.9, 84.2, 0.513, 23.74),
    "contrastive x3": (39.8, 87.6, 0.562, 17.92),
    "DSOKR": (48.2, 87.4, 0.624, 82.92),
    "DSOKR, Gaussian sketch": (49.0, 87.5, 0.630, 91.19),
    "DSOKR x3": (51.0, 88.2, 0.642, 76.43),
    "DSOKR, Gaussian sketch x3": (50.5, 87.9, 0.642, 81.70),
    "DSOKR, both sketches x3": (50.0, 88.3, 0.640, 76.87),
}


class Runs:
    """The networks of `deep`: what is there already, and the next one.

    Parameters
    ----------
    o : Namespace
        Options of the command line.
    """

    def __init__(self, o: argparse.Namespace) -> None:
        import text2mol_deep as lessons
        import text2mol_models as models
        import torch

        self.o, self.clock = o, lessons.Clock(o.minutes)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.problem = Problem(models.WHITE, models.DAMP, models.MARKS)
        self._say("problem")
        self.corpus = lessons.Corpus(self.problem, o.rows, o.encoder or unpack(), device)
        self._say(f"corpus {len(self.corpus.texts)}")
        path = CACHE / "reading.pt"
        if not path.is_file():
            torch.save(lessons.reading(self.corpus, 0, o.seconds[0]), path)
            self._say("reading")
        self.encoder = torch.load(path)
        self.trained: dict[str, Any] = {}  # DSOKR that the end-to-end variant goes on from

    def _say(self, what: str) -> None:
        print(what, round(self.clock.left()), "s left", flush=True)

    def all(self) -> None:
        """Run what is not there yet and still has time, then the ensembles."""
        for name in self.o.runs:
            method, seed = name.split(":")
            if self._file(method, seed).is_file():
                continue
            if self.clock.left() < self._needed(method, seed) + 45:
                self._say(f"no time for {name}:")
                continue
            with clock() as fit:
                found = self._found(method, int(seed))
            self._note(method, seed, self._scores(method, seed, found), {"seconds": fit.seconds})
            self._say(f"{name} took {fit.seconds:.0f} s:")
        self._ensembles()

    def _needed(self, method: str, seed: str) -> float:
        _, second, third = self.o.seconds
        base = method.replace("end-to-end", "dsokr")
        goes_on = f"{base}:{seed}" in self.trained
        has_third = base != method or method == "contrastive"
        return second * (not goes_on) + third * has_third

    def _found(self, method: str, seed: int) -> Any:
        import text2mol_deep as lessons

        _, second, third = self.o.seconds
        if method in ("regression", "contrastive"):
            lesson = lessons.Lesson(self.corpus, seed, "vectors")
            if method == "regression":
                return lessons.dsokr(lesson, self.encoder, second)[0]
            return lessons.contrastive(lesson, self.encoder, second + third)
        base = method.replace("end-to-end", "dsokr")
        if f"{base}:{seed}" not in self.trained:
            sketch = "gaussian" if base == "dsokr-gaussian" else "subsample"
            lesson = lessons.Lesson(self.corpus, seed, sketch)
            encoder = None if base == "dsokr-unread" else self.encoder
            self.trained[f"{base}:{seed}"] = lesson, *lessons.dsokr(lesson, encoder, second)
        lesson, found, module = self.trained[f"{base}:{seed}"]
        return found if method == base else lessons.end_to_end(lesson, module, third)

    def _scores(self, method: str, seed: str, found: Any = None) -> np.ndarray:
        """Return scores as they are and less the prices; predictions are kept for ensembles."""
        import text2mol_models as models

        path = CACHE / "found" / f"{method}_{seed}.npz"
        if found is None:
            with np.load(path) as file:
                found = models.Found(**file)
        else:
            path.parent.mkdir(exist_ok=True)
            np.savez(path, **found._asdict())
        return np.stack(models.scores(found, self.corpus, self.problem))

    def _ensembles(self) -> None:
        for name, methods in ENSEMBLES.items():
            members = [
                path.stem.split("_") for method in methods
                for path in sorted((CACHE / "found").glob(f"{method}_?.npz"))
            ]  # fmt: skip
            if len(members) > 1:
                mean = sum(self._scores(*member) for member in members) / len(members)
                self._note(name, "0", mean, {"members": len(members)})

    def _file(self, method: str, seed: str) -> Path:
        return CACHE / "runs" / f"text2mol_{method}_{seed}.npz"

    def _note(self, method: str, seed: str, S: np.ndarray, about: dict[str, Any]) -> None:
        """Write the ranks by scores, shape (2, n_val + n_test, n_candidates)."""
        problem, rows = self.problem, self.o.rows
        truth = np.concatenate([problem.val_truth[:rows], problem.test[:rows]])
        n_val = len(problem.val_truth[:rows])
        for name, some in zip(("plain", "priced"), S, strict=True):
            r = ranks(some, truth)
            about[f"{name}_val"], about[f"{name}_test"] = r[:n_val], r[n_val:]
            print(method, seed, name, "validation", scores(r[:n_val]), flush=True)
        about["first_test"] = S[1, n_val:].argmax(axis=1)
        about["reading"] = not method.endswith("unread")
        path = self._file(method, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **about)  # one archive comes back more easily than ten files
        make_archive(str(self.o.out / "text2mol_runs"), "zip", path.parent)


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
                    name: found[name].item() for name in ("seconds", "reading", "members")
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
        "ran on one NVIDIA H200 with PyTorch 2.11, all with one encoder that had read",
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
    parser.add_argument("part", choices=("prepare", "sisokr", "deep", "evaluate"))
    parser.add_argument(
        "--names", type=Path, nargs="*", default=[],
        help="prepare, evaluate: wheels of chemicals 1.5.2 and equilibrator-cache-data 0.1.0",
    )  # fmt: skip
    parser.add_argument("--definitions", type=Path, help="as --names: chebi_definitions.csv.gz")
    parser.add_argument("--minutes", type=float, default=15.0, help="deep: no run begins later")
    parser.add_argument("--runs", nargs="+", default=PLAN, help="deep: method:seed, in this order")
    parser.add_argument(
        "--seconds", type=float, nargs=3, default=SECONDS,
        help="deep: at most so many to read, for DSOKR, and for the end-to-end variant",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=CACHE)
    parser.add_argument("--encoder", type=Path, help="deep: a folder, else what was packed")
    parser.add_argument("--rows", type=int, help="deep: the first texts only, to try it")
    o = parser.parse_args()
    if o.part == "prepare":
        prepare(o.names, o.definitions)
    else:
        parts: dict[str, Any] = {
            "sisokr": shallow, "deep": lambda: Runs(o).all(), "evaluate": lambda: evaluate(CACHE, o)
        }  # fmt: skip
        parts[o.part]()


if __name__ == "__main__":
    main()
