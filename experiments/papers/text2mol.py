"""Text to molecule, table 5.2: from a caption to the molecule, among all 33,010 of ChEBI-20.

    python -m experiments.papers.text2mol prepare --names WHEELS --definitions FILE  needs RDKit
    python -m experiments.papers.text2mol_pack FOLDER  an encoder in small files
    python -m experiments.papers.text2mol sisokr  on n-grams of the text, on a CPU
    python -m experiments.papers.text2mol pretrain  the encoder and the vectors, on pairs: a GPU
    python -m experiments.papers.text2mol networks --runs read:0:1 unread:0:1  a GPU
    python -m experiments.papers.text2mol evaluate  the record, of all runs
    python -m experiments.papers.text2mol page  what the record says, into docs/deep.md

The training captions of ChEBI-20 are not at hand. We train on its validation captions, PubChem324k
and PCdes, on definitions of ChEBI, on IUPAC names, and on names from the packages chemicals 1.5.2
and equilibrator-cache-data 0.1.0 (their wheels), which are descriptions too; every molecule whose
InChIKey skeleton is in the test part is left out. `prepare` prints how many pairs remain. 500 ChEBI
captions, with all texts of their molecules, are held out for validation.

Outputs are Mol2vec vectors, sums of substructure vectors over the square roots of their counts,
whose principal directions are divided by a power of their variances, and beside them principal
directions of marks, which can tell stereoisomers from each other (`text2mol_data.py`).

All networks are classes of the library. `EndToEnd` without a DSOKR before it, a contrastive model,
reads the names first: it trains the text encoder and a map of the vectors. With the encoder and
the vectors that it leaves, a draw trains

1. contrastive: `EndToEnd` again, on captions, with a part of the names;
2. DSOKR: `dsokr` with the encoder of 1, by the squared loss, into a sketch of the cosine kernel of
   the vectors that 1 made;
3. end to end: `EndToEnd`, which goes on from 2 with both sides;
4. regression: the encoder of 1, and the vectors as they are, without a sketch.

"Unread" is all of these from the encoder and the vectors as they are. Ranks are given for scores as
they are and with `correct_hubness`, whose references are captions of training.
"""

from __future__ import annotations

import argparse
import functools
import json
import pickle
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.pipeline import make_pipeline

from experiments.common import (
    HERE,
    clock,
    figure_path,
    mean_sd,
    print_table,
    read_record,
    write_record,
)
from experiments.papers.tables import caption_name, markdown, pair
from experiments.papers.text2mol_data import CACHE, N_VAL, Problem, prepare, unit
from experiments.papers.text2mol_pack import unpack
from skout import EndToEnd, correct_hubness, dsokr, sisokr
from skout.kernels import Cosine
from skout.metrics import hits_at_k, mean_rank, mean_reciprocal_rank
from skout.sketches import SubSample

WHITE, DAMP, MARKS = 0.25, 0.5, 0.7
M_Y, RANK, MAX_LENGTH, HIDDEN, N_NAMES, N_REFERENCES = 2000, 700, 192, 600, 20000, 5000
NEGATIVES = 16384
RATES = {"all-MiniLM-L6-v2": 3.0}  # a small encoder learns faster
STAGES = {  # epochs, rows of a batch, learning rates of the encoder and of what is new
    "pretrain": (2, 512, 1e-4, 1e-3),
    "dsokr": (14, 512, 5e-5, 5e-4),
    "end-to-end": (4, 512, 5e-5, 5e-4),
    "contrastive": (8, 512, 5e-5, 5e-4),
}
CURVES = {"dsokr": "DSOKR", "end-to-end": "then end to end", "contrastive": "contrastive",
          "regression": "regression"}  # fmt: skip
COLOURS = dict(zip(CURVES, ("C0", "C1", "C2", "C3"), strict=True))
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


# Networks --------------------------------------------------------------------------------------


class Task:
    """Texts and vectors to train on, of which a share of the captions may be taken.

    Parameters
    ----------
    encoder : str
        Name of what `text2mol_pack.py` wrote.
    rows : int or None
        Take only so many texts of each kind, to try it.
    """

    def __init__(self, encoder: str, rows: int | None = None) -> None:
        self.encoder, self.folder, self.rows = encoder, unpack(encoder), rows
        path = CACHE / "problem.pickle"
        if not path.is_file():
            problem = Problem(WHITE, DAMP, MARKS)
            problem.vectors = unit(problem.vectors).astype(np.float32)
            problem.pool = unit(problem.pool).astype(np.float32)
            path.write_bytes(pickle.dumps(problem, protocol=5))
        self.problem: Problem = pickle.loads(path.read_bytes())
        names = self.problem.names
        self.names = np.random.default_rng(0).permutation(names)[:rows]
        self.n_names = min(N_NAMES, len(self.names) // 2)  # of them every network is trained on

    def captions(self, share: float = 1.0, n_forms: int = 2) -> tuple[list[str], np.ndarray]:
        """Return texts of a share of the captions and IUPAC names, and their rows."""
        rows = np.random.default_rng(1).permutation(self.problem.train)
        rows = np.sort(rows[: round(share * len(rows))])[: self.rows]
        found = [(form, i) for i in rows for form in self.problem.forms(i)[:n_forms]]
        return [text for text, _ in found], np.array([i for _, i in found])

    def named(self, part: slice) -> tuple[list[str], np.ndarray]:
        """Return names of chemicals, and their rows."""
        rows = self.names[part]
        return [self.problem.texts[i] for i in rows], rows

    def module(self, trained: Any = None) -> Any:
        """Return what makes the network of a number of outputs."""
        from skout.deep import TextEncoder

        model = self.folder if trained is None else trained
        return functools.partial(TextEncoder, model=model, max_length=MAX_LENGTH)

    def training(self, stage: str, epochs: int | None = None) -> Any:
        from skout.deep import Training

        n_epochs, size, lr, head_lr = STAGES[stage]
        lr *= RATES.get(self.encoder, 1.0)
        return Training(
            n_epochs if epochs is None else epochs, size, lr, head_lr=head_lr, warmup=0.1,
            weight_decay=0.01, clip_norm=1.0, precision="bfloat16",
        )  # fmt: skip


def pretrain(task: Task, epochs: int | None, out: Path) -> None:
    """Train the encoder and a map of the vectors on names of chemicals; write both."""
    import torch

    texts, at = task.named(slice(None))
    with clock() as fit:
        model = contrastive(task, task.module(), "pretrain", 0, epochs)
        model.fit(texts, task.problem.outputs[at])
        vectors, pool = features(model, task.problem.vectors, task.problem.pool)
    np.savez(_pretrained(task).with_suffix(".npz"), vectors=vectors, pool=pool)
    torch.save(model.regressor_.module_.encoder.state_dict(), _pretrained(task))
    about = {"seed": 0, "share": 0.0, "seconds": fit.seconds}
    note(task, model, "pretrained", out, task.problem.vectors, task.problem.pool, about)


def _pretrained(task: Task) -> Path:
    return CACHE / f"pretrained_{task.encoder}.pt"


def network(
    task: Task, module: Any, stage: str, seed: int, rank: int | None = None,
    epochs: int | None = None,
) -> Any:  # fmt: skip
    """Return DSOKR."""
    return dsokr(
        module, Cosine(), output_sketch=SubSample(M_Y), output_rank=rank,
        training=task.training(stage, epochs), device="auto", random_state=seed,
    )  # fmt: skip


def contrastive(task: Task, module: Any, stage: str, seed: int, epochs: int | None = None) -> Any:
    """Return a contrastive model: both sides are trained from the beginning."""
    first = network(task, module, stage, seed, epochs=0)
    return end_to_end(first, task.training(stage, epochs))


def end_to_end(first: Any, training: Any) -> Any:
    return EndToEnd(first, hidden=HIDDEN, negatives=NEGATIVES, training=training)


def features(model: Any, *parts: np.ndarray) -> list[np.ndarray]:
    """Return what a trained map makes of vectors, about the mean of the last, of norm one.

    What all outputs have in common is most of it, and tells nothing apart. Principal directions are
    divided by a power of their variances, as those of Mol2vec are.
    """
    mapped = [model.output_basis_.transform(rows) for rows in parts]
    centre = mapped[-1].mean(axis=0)
    values, U = np.linalg.eigh(np.cov((mapped[-1] - centre).T))
    scale = np.maximum(values, 1e-6 * values[-1]) ** -WHITE
    return [unit((rows - centre) @ (U * scale)).astype(np.float32) for rows in mapped]


def draw_of(task: Task, name: str, out: Path) -> None:
    """Train all networks of a draw: read or unread, a seed, a share of the captions."""
    import torch

    kind, number, portion = name.split(":")
    seed, share, is_read = int(number), float(portion), kind == "read"
    raw, raw_pool = vectors, pool = task.problem.vectors, task.problem.pool
    module, ending = task.module(), "" if is_read else "-unread"
    some, others = task.captions(share, n_forms=3), task.named(slice(task.n_names))
    texts, at = [*some[0], *others[0]], np.concatenate([some[1], others[1]])
    own = task.problem.molecule[at]

    def fit(model: Any, method: str, vectors: np.ndarray, pool: np.ndarray) -> Any:
        with clock() as time:
            model.fit(texts, vectors[own])
        about = {"seed": seed, "share": share, "seconds": time.seconds}
        if method == "end-to-end":  # which holds the DSOKR that it began with
            first = sum(row["seconds"] for row in model.model_.regressor_.history_)
            started = about | {"seconds": first}
            note(task, model.model_, "dsokr" + ending, out, vectors, pool, started)
        note(task, model, method + ending, out, vectors, pool, about)
        return model

    if is_read:
        reader = module(1)
        reader.encoder.load_state_dict(torch.load(_pretrained(task), map_location="cpu"))
        module = task.module(reader)
        with np.load(_pretrained(task).with_suffix(".npz")) as file:
            vectors, pool = file["vectors"], file["pool"]
    both = fit(contrastive(task, module, "contrastive", seed), "contrastive", vectors, pool)
    if is_read:
        module = task.module(both.regressor_.module_)
        vectors, pool = features(both, vectors, pool)
    first = network(task, module, "dsokr", seed, RANK)
    fit(end_to_end(first, task.training("end-to-end")), "end-to-end", vectors, pool)
    fit(network(task, module, "dsokr", seed), "regression", raw, raw_pool)


def note(
    task: Task, model: Any, method: str, out: Path, vectors: np.ndarray, pool: np.ndarray,
    about: dict[str, Any],
) -> None:  # fmt: skip
    """Write how well a model finds the molecules of new texts, a line for each kind of scores."""
    problem, rows = task.problem, task.rows
    texts = [*(problem.texts[i] for i in problem.val[:rows]), *problem.test_texts[:rows]]
    n_val, test = len(problem.val[:rows]), problem.test[:rows]
    truth = np.concatenate([problem.val_truth[:rows], test])
    references, at = task.captions(about["share"] or 1.0, n_forms=1)
    pools = {"plain": model.embed(pool)}
    pools["corrected"] = correct_hubness(
        model, references, vectors[problem.molecule[at]], pools["plain"], cv="prefit",
        n_references=N_REFERENCES, random_state=about["seed"],
    )  # fmt: skip
    F = model.predict_coordinates(texts)
    known = set(problem.keys[problem.train]) | set(problem.keys[problem.names])
    is_seen = np.array([key in known for key in problem.pool_keys])
    for kind, candidates in pools.items():
        embedding = candidates.embedding[candidates.inverse]
        S = (model.decoder_.queries(F, candidates) @ embedding.T).astype(np.float32)
        r = ranks(S, truth)
        first = S[n_val:].argmax(axis=1)
        wrong, same = first != test, problem.pool_keys[first] == problem.pool_keys[test]
        row: dict[str, Any] = {"method": method, "scores": kind} | about
        row |= {"encoder": task.encoder, "history": model.regressor_.history_}
        row |= {"validation": scores(r[:n_val])} | scores(r[n_val:])
        row["not in mixtures"] = scores(r[n_val:][problem.alone[:rows]])
        row["wrong first"] = {
            "same skeleton %": _percent(same, wrong),
            "has a training text %": _percent(is_seen[first], wrong),
        }
        with open(out / "text2mol.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        say(
            method,
            *about.values(),
            kind,
            row["validation"]["MRR"],
            "test",
            *scores(r[n_val:]).values(),
        )
    losses = " ".join(f"{row['train_loss']:.3f}" for row in model.regressor_.history_)
    say(method, losses, f"{sum(row['seconds'] for row in model.regressor_.history_):.0f} s")


def say(*what: object) -> None:
    print(time.strftime("%H:%M:%S"), *what, flush=True)


def shallow(out: Path) -> None:
    """Fit SISOKR on n-grams with the cosine of the vectors, nothing learnt."""
    problem = Problem(WHITE, DAMP)
    hashed = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), n_features=2**17, alternate_sign=False, norm=None
    )
    grams = make_pipeline(hashed, TfidfTransformer(sublinear_tf=True))
    found = [(form, i) for i in problem.train for form in problem.forms(i)[:2]]
    texts, at = [text for text, _ in found], np.array([i for _, i in found])
    model = sisokr(
        "linear", Cosine(), input_sketch=SubSample(5000), output_sketch=SubSample(1000),
        alpha=0.2 / len(texts), random_state=0,
    )  # fmt: skip
    with clock() as fit:
        model.fit(grams.fit_transform(texts), problem.outputs[at])
    new = [*(problem.texts[i] for i in problem.val), *problem.test_texts]
    S = (
        model.predict_coordinates(grams.transform(new))
        @ model.output_basis_.transform(problem.pool).T
    )
    r = ranks(S, np.concatenate([problem.val_truth, problem.test]))
    row = {"method": "sisokr", "scores": "plain", "seed": 0, "share": 1.0, "seconds": fit.seconds}
    row |= {"validation": scores(r[:N_VAL])} | scores(r[N_VAL:])
    (out / "text2mol_sisokr.jsonl").write_text(json.dumps(row) + "\n")
    say(row)


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


def evaluate(folder: Path, encoder: str) -> None:
    """Write the record of all runs with an encoder, and draw the learning curve."""
    problem = Problem(0.0)
    with_text = set(problem.keys[problem.train]) | set(problem.keys[problem.names])
    is_seen = np.array([key in with_text for key in problem.pool_keys])
    lines = [line for path in sorted(folder.glob("**/text2mol*.jsonl"))
             for line in path.read_text().splitlines()]  # fmt: skip
    rows = {}
    for row in map(json.loads, lines):  # the last run of a method and seed counts
        if row.get("encoder", encoder) == encoder:
            rows[row["method"], row["scores"], row["seed"], row["share"]] = row
    results = [rows[key] for key in sorted(rows)]
    columns = ["method", "scores", "seed", "share", "Hits@1 %", "Hits@10 %", "MRR", "mean rank"]
    print_table([{name: row[name] for name in columns} for row in results], columns)
    sources = problem.source[np.concatenate([problem.train, problem.names])]
    settings = {
        "stages": STAGES, "encoder": f"{encoder}, 8-bit", "white": WHITE, "damp": DAMP,
        "marks": MARKS, "m_y": M_Y, "rank": RANK, "hidden": HIDDEN, "names": N_NAMES,
        "references": N_REFERENCES, "n_val": N_VAL,
        "n_train_pairs": {str(name): int((sources == name).sum()) for name in np.unique(sources)},
        "candidates with a training text %": _percent(is_seen),
        "candidates with the vector of another %": {
            "Mol2vec": _tied(problem.pool),
            "with marks": _tied(Problem(WHITE, DAMP, MARKS).pool),
        },
        "test molecules in training mixtures %": _percent(~problem.alone),
        "thesis": THESIS, "thesis_pairs": 26408,
        "note": "the head of this record is of the machine that evaluated; the networks ran on one "
        "NVIDIA H200 with PyTorch 2.11, several at a time, all with one encoder that had read",
    }  # fmt: skip
    write_record("text2mol", settings, results)
    draw(results)
    document(read_record("text2mol"))


ORDER = """\
[Table 5.2](results.md), the molecule of a caption among 33,010, {made} Its record is of {date}.
Mean and standard deviation over the draws; hubness is corrected where that is better on
validation captions. All that are pre-trained begin with one encoder that has read names."""
CLASSES = "was made by these classes (`experiments/papers/text2mol.py`)."
OWN_LOOP = """\
was **not** made by these classes, but before them, by a training loop that is no longer in the
repository (`experiments/text2mol_deep.py` at commit 9dbd9c4, with changes that were not committed):
it took the output basis, the text encoder and the batches from skout, and its networks correct a
draft by n-grams. `experiments/papers/text2mol.py` is the same task by these classes. It has no
record: it needs a GPU, and we had none, so this table says nothing of `dsokr` and
`EndToEnd` themselves. What the loop found is not the order of the thesis: a plain contrastive model
with the same pre-training does as well as a DSOKR whose two sides go on being trained, and better
than DSOKR, which is little better than regression on the vectors."""


def document(record: dict[str, Any]) -> None:
    """Write the order that was found, and what made it, into docs/deep.md."""
    page = HERE.parent / "docs" / "deep.md"
    text = page.read_text(encoding="utf-8")
    start = text.index("-->", text.index("<!-- text2mol")) + len("-->")
    table = order(record["results"])
    made = CLASSES if "stages" in record["settings"] else OWN_LOOP
    words = textwrap.fill(ORDER.format(made=made, date=record["date"]), 120)
    head = ["method", "MRR", "Hits@1 %", "draws", "hubness corrected"]
    text = (
        f"{text[:start]}\n\n{words}\n\n{markdown(head, table)}\n"
        + text[text.index("<!-- end -->") :]
    )
    page.write_text(text, encoding="utf-8")


def order(results: list[dict[str, Any]]) -> list[list[str]]:
    """Return a row for each method, the best first, its scores being chosen by validation."""
    groups: dict[str, dict[str, list[Any]]] = {}
    for row in results:
        if row.get("share", 1.0) == 1.0:
            groups.setdefault(row["method"], {}).setdefault(row["scores"], []).append(row)
    found = []
    for method, kinds in groups.items():
        kind = max(kinds, key=lambda kind: np.mean([r["validation"]["MRR"] for r in kinds[kind]]))
        runs = kinds[kind]
        mrr, hits = (mean_sd(run[name] for run in runs) for name in ("MRR", "Hits@1 %"))
        shown = [caption_name(method), pair(mrr, 3), pair(hits, 1), str(len(runs))]
        found.append((mrr[0], [*shown, "no" if kind == "plain" else "yes"]))
    return [row for _, row in sorted(found, key=lambda item: -item[0])]


def draw(results: list[dict[str, Any]]) -> None:
    """Draw MRR by the share of captions, with pre-training and without."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    for method, label in CURVES.items():
        for ending, style in (("", "-"), ("-unread", "--")):
            name = method + ending
            shown = "corrected" if method in ("dsokr", "regression") else "plain"
            found: dict[float, list[float]] = {}
            for row in results:
                if row["method"] == name and row["scores"] == shown:
                    found.setdefault(100.0 * row["share"], []).append(row["MRR"])
            if not found:
                continue
            x = sorted(found)
            means = [float(np.mean(found[share])) for share in x]
            about = label if not ending else f"{label}, not pre-trained"
            axes.plot(x, means, style, marker="o", color=COLOURS[method], label=about)
            for share in x:
                axes.plot([share] * len(found[share]), found[share], ".", color=COLOURS[method])
    axes.set(xlabel="captions to train on (%)", ylabel="mean reciprocal rank", xlim=(0, 105))
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(figure_path("text2mol.png"), dpi=150)
    plt.close(figure)


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
    parser.add_argument(
        "part", choices=("prepare", "sisokr", "pretrain", "networks", "evaluate", "page")
    )
    parser.add_argument(
        "--names", type=Path, nargs="*", default=[],
        help="prepare: wheels of chemicals 1.5.2 and equilibrator-cache-data 0.1.0",
    )  # fmt: skip
    parser.add_argument("--definitions", type=Path, help="as --names: chebi_definitions.csv.gz")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--epochs", type=int, help="pretrain: other than usual")
    parser.add_argument(
        "--runs", nargs="+", default=[], help="networks: read:SEED:SHARE or unread:SEED:SHARE"
    )
    parser.add_argument(
        "--until", type=float, default=np.inf, help="networks: seconds of the clock; none is "
        "begun that would end later, if it took as long as the last one",
    )  # fmt: skip
    parser.add_argument("--rows", type=int, help="the first texts only, to try it")
    parser.add_argument("--out", type=Path, default=CACHE)
    o = parser.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    if o.part == "prepare":
        prepare(o.names, o.definitions)
    elif o.part == "sisokr":
        shallow(o.out)
    elif o.part == "evaluate":
        evaluate(o.out, o.encoder)
    elif o.part == "page":
        document(read_record("text2mol"))
    else:
        task = Task(o.encoder, o.rows)
        say("texts", len(task.problem.texts))
        if o.part == "pretrain":
            pretrain(task, o.epochs, o.out)
        last = 0.0
        for name in o.runs:
            start = time.time()
            if start + last > o.until:
                say("no time for", name)
                continue
            draw_of(task, name, o.out)
            last = time.time() - start
            say(name, f"took {last:.0f} s")


if __name__ == "__main__":
    main()
