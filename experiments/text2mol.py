"""Text to molecule, table 5.2: from a caption to the molecule, among all 33,010 of ChEBI-20.

    python experiments/text2mol.py prepare                      molecules to counts; needs RDKit
    python experiments/text2mol.py train --method dsokr --seed 0 --encoder FOLDER      a GPU
    python experiments/text2mol.py shallow                      SISOKR on n-grams of the text
    python experiments/text2mol.py evaluate                     ranks, ensembles, record

The training captions of ChEBI-20 are not at hand. We train on its validation captions, PubChem324k
and PCdes, and on IUPAC names, which are descriptions too; every molecule whose InChIKey skeleton
is in the test part is left out. `prepare` prints how many pairs remain. 500 ChEBI captions, with
all texts of their molecules, are held out for validation. All networks have the same pretrained
sentence encoder, texts, epochs and learning rate.

Outputs are Mol2vec vectors (sums of substructure vectors). "cosine" is the thesis's kernel; the
"whitened cosine" divides the centred principal directions of the candidates by the fourth root of
their variances first, which was chosen on the validation captions with the shallow model, among
powers 0, 1/4 and 1/2.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE, clock, print_table, write_record
from scipy import sparse
from sklearn.base import BaseEstimator

from skout import Ensemble, KernelBasis, StructuredPredictor, sisokr
from skout.datasets import load_chebi20, load_mol2vec, load_text_molecule
from skout.kernels import Cosine
from skout.metrics import hits_at_k, mean_rank, mean_reciprocal_rank
from skout.sketches import SubSample

CACHE = HERE / "cache"
N_VAL, M_Y, RANK = 500, 1000, 300
EPOCHS, BATCH, LR = 7, 64, 1e-4
METHODS = ("dsokr", "dsokr-thesis", "regression", "contrastive")
THESIS = {  # Hits@1, Hits@10 in %, MRR, mean rank
    "SISOKR": (0.4, 2.8, 0.015, 2230.48),
    "regression": (16.8, 56.9, 0.298, 344.53),
    "contrastive": (34.9, 84.2, 0.513, 23.74),
    "DSOKR": (48.2, 87.4, 0.624, 82.92),
    "DSOKR x3": (51.0, 88.2, 0.642, 76.43),
}


# Data ------------------------------------------------------------------------------------------


def prepare() -> None:
    """Write texts, substructure counts and skeletons, which `train` reads without RDKit."""
    test_part = load_chebi20()
    pool = list(test_part.candidates)
    texts, smiles, source = [], [], []
    for name in ("chebi20", "pubchem324k", "pcdes", "iupac"):
        data = load_text_molecule(name)
        X, Y = list(data.X), list(data.Y)
        if name == "chebi20":
            X, Y = data.part("validation")
        texts += list(X)
        smiles += list(Y)
        source += [name] * len(X)
    test_texts, test_smiles = test_part.test
    keys, counts = molecules([*pool, *test_smiles, *smiles])
    n, t = len(pool), len(test_smiles)
    forbidden = set(keys[n : n + t])
    left = [i for i in range(len(smiles)) if keys[n + t + i] and keys[n + t + i] not in forbidden]
    for name in ("chebi20", "pubchem324k", "pcdes", "iupac"):
        all_of, kept = source.count(name), sum(source[i] == name for i in left)
        print(f"{name}: {kept} of {all_of} pairs remain")
    rows = np.concatenate([np.arange(n), n + t + np.array(left)])
    counts = counts[rows]
    place = {text: i for i, text in reversed(list(enumerate(pool)))}
    CACHE.mkdir(exist_ok=True)
    np.savez_compressed(
        CACHE / "text2mol.npz",
        pool_keys=np.array(keys[:n]),
        keys=np.array([keys[n + t + i] for i in left]),
        texts=np.array([texts[i] for i in left]),
        source=np.array([source[i] for i in left]),
        test_texts=np.array(list(test_texts)),
        test=np.array([place[text] for text in test_smiles]),
        data=counts.data, indices=counts.indices, indptr=counts.indptr, shape=counts.shape,
    )  # fmt: skip


def molecules(smiles: list[str]) -> tuple[list[str], sparse.csr_matrix]:
    """Return InChIKey skeletons, and counts of Morgan substructures of radius 0 and 1."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem import rdFingerprintGenerator

    RDLogger.DisableLog("rdApp.*")
    tokens = [str(token) for token in load_mol2vec().X]
    number = {int(token): i for i, token in enumerate(tokens) if token != "UNK"}
    unknown = tokens.index("UNK")
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=1)
    keys, places, values, ends = [], [], [], [0]
    for text in smiles:
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            keys.append("")
        else:
            keys.append(Chem.MolToInchiKey(molecule)[:14])
            found = generator.GetSparseCountFingerprint(molecule).GetNonzeroElements()
            places += [number.get(item, unknown) for item in found]
            values += found.values()
        ends.append(len(values))
    shape = (len(smiles), len(tokens))
    counts = sparse.csr_matrix((np.array(values, dtype=np.float64), places, ends), shape=shape)
    counts.sum_duplicates()
    return keys, counts


class Problem:
    """Texts and molecules as vectors, training and validation rows.

    Attributes
    ----------
    pool : ndarray of shape (33010, 300)
    """

    def __init__(self, white: float) -> None:
        if not (CACHE / "text2mol.npz").is_file():
            prepare()
        with np.load(CACHE / "text2mol.npz") as file:
            z = {name: file[name] for name in file.files}
        counts = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
        vectors = counts @ np.asarray(load_mol2vec().Y, dtype=np.float64)
        n = len(z["pool_keys"])
        pool = vectors[:n]
        if white > 0.0:
            centre = pool.mean(axis=0)
            values, U = np.linalg.eigh(np.cov((pool - centre).T))
            scale = np.maximum(values, 1e-6 * values[-1]) ** -white
            vectors = (vectors - centre) @ ((U * scale) @ U.T)  # in the frame of the data
        self.pool, self.outputs = vectors[:n], vectors[n:]
        self.texts, self.source, self.keys = z["texts"], z["source"], z["keys"]
        self.test_texts, self.test = z["test_texts"], z["test"]
        first = {key: i for i, key in reversed(list(enumerate(z["pool_keys"])))}
        order = np.random.default_rng(0).permutation(np.flatnonzero(self.source == "chebi20"))
        self.val = np.array([i for i in order if self.keys[i] in first][:N_VAL])
        held = set(self.keys[self.val])
        self.train = np.array([i for i, key in enumerate(self.keys) if key not in held])
        self.val_truth = np.array([self._same(i, z["pool_keys"]) for i in self.val])

    def _same(self, i: int, pool_keys: np.ndarray) -> int:
        """Return the candidate that training row i is."""
        some = np.flatnonzero(pool_keys == self.keys[i])
        return int(some[np.abs(self.pool[some] - self.outputs[i]).sum(axis=1).argmin()])

    def parts(self) -> tuple[list[str], np.ndarray]:
        """Return the training texts and outputs: captions twice, once without the first sentence.

        Its first words often are the name of the molecule, which should not be all there is.
        """
        texts, outputs = [], []
        for i in self.train:
            text = str(self.texts[i])
            rest = text.split(". ", 1)[-1].strip()
            forms = {text, rest} if self.source[i] != "iupac" and len(rest) > 40 else {text}
            texts += sorted(forms, key=len)
            outputs += [self.outputs[i]] * len(forms)
        return texts, np.array(outputs)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


# Models ----------------------------------------------------------------------------------------


def network(n_outputs: int, encoder: Path) -> Any:
    from skout.deep import TextEncoder

    return TextEncoder(n_outputs, encoder, pooling="mean", max_length=256)


def train(
    method: str, seed: int, encoder: Path, epochs: int, device: str, rows: int | None
) -> None:
    """Fit a network and write its predictions as vectors in the space of the outputs."""
    problem = Problem(0.0 if method in ("dsokr-thesis", "regression") else 0.25)
    texts, outputs = problem.parts()
    texts, outputs = texts[:rows], outputs[:rows]
    with clock() as fit:
        if method == "contrastive":
            model, candidates = contrastive(problem, texts, outputs, seed, encoder, epochs, device)
        else:
            candidates = unit(problem.pool)
            model = regressor(method, seed, encoder, epochs, device).fit(texts, outputs)
    print(method, seed, "fit", fit.seconds, flush=True)
    found = {"seconds": fit.seconds, "n_texts": len(texts)}
    for name, some in {"val": problem.texts[problem.val], "test": problem.test_texts}.items():
        found[name] = vectors_of(model, [str(text) for text in some[:rows]])
    truth = problem.val_truth[:rows]
    print(method, seed, "validation", scores(ranks(found["val"], candidates, truth)), flush=True)
    if rows is not None:
        return
    if method == "contrastive":
        found["candidates"] = candidates.astype(np.float16)
    np.savez_compressed(CACHE / f"text2mol_{method}_{seed}.npz", **found)


def regressor(method: str, seed: int, encoder: Path, epochs: int, device: str) -> Any:
    from skout.deep import NeuralRegressor, Training

    training = Training(epochs, BATCH, LR, warmup=0.06, clip_norm=1.0, precision="bfloat16")
    net = NeuralRegressor(
        functools.partial(network, encoder=encoder), training=training, device=device,
        random_state=seed, verbose=True,
    )  # fmt: skip
    if method == "regression":
        return Plain(net)
    size, rank = (100, 100) if method == "dsokr-thesis" else (M_Y, RANK)
    basis = KernelBasis(Cosine(), SubSample(size), whiten="eigh", rank=rank, random_state=seed)
    return StructuredPredictor(net, basis)


class Plain(BaseEstimator):
    """Regression on the embeddings, scaled by one number so that the loss is of the same size."""

    def __init__(self, net: Any) -> None:
        self.net = net

    def fit(self, X: Any, Y: np.ndarray) -> Plain:
        self.scale_ = float(np.sqrt((Y**2).sum(axis=1).mean()))
        self.net.fit(X, Y / self.scale_)
        return self


def vectors_of(model: Any, texts: list[str]) -> np.ndarray:
    """Return predictions as vectors, whose inner products with unit candidates are the scores."""
    if isinstance(model, Plain):
        return model.net.predict(texts).astype(np.float32)
    if isinstance(model, StructuredPredictor):
        F = model.predict_coordinates(texts)
        return (F @ model.output_basis_.combine(unit(model.output_basis_.landmarks_))).astype("f4")
    return model(texts)


def contrastive(
    problem: Problem, texts: list[str], outputs: np.ndarray, seed: int, encoder: Path, epochs: int,
    device: str,
) -> tuple[Any, np.ndarray]:  # fmt: skip
    """Train both sides so that a text is nearer to its molecule than to others of the batch."""
    import torch
    from torch import nn

    from skout.deep import Training
    from skout.deep.batches import as_source
    from skout.deep.training import _shuffled

    torch.manual_seed(seed)
    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    where = torch.device(device)
    text_side = network(RANK, encoder).to(where)
    molecule_side = nn.Sequential(
        nn.Linear(outputs.shape[1], 600), nn.ReLU(), nn.Linear(600, 600), nn.ReLU(),
        nn.Linear(600, RANK),
    ).to(where)  # fmt: skip
    heat = nn.Parameter(torch.tensor(np.log(1 / 0.07), device=where, dtype=torch.float32))
    source = as_source(texts, text_side, where)
    scale = float(np.sqrt((outputs**2).mean()))
    targets = torch.tensor(outputs / scale, dtype=torch.float32, device=where)
    groups = [
        {"params": text_side.parameters(), "lr": LR},
        {"params": [*molecule_side.parameters(), heat], "lr": 10 * LR},  # not pretrained
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
    training = Training(epochs, BATCH, LR, warmup=0.06)
    steps = epochs * -(-len(texts) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: training.rate(s, steps))
    for epoch in range(epochs):
        generator = torch.Generator().manual_seed(seed + 7919 * epoch)
        total = 0.0
        for index in _shuffled(len(texts), BATCH, source.lengths, generator):
            batch = source.batch(index, index)
            with torch.autocast(where.type, dtype=torch.bfloat16):
                A = text_side(**batch)
            A = nn.functional.normalize(A.float())
            B = nn.functional.normalize(molecule_side(targets[index.to(where)]))
            S = heat.exp().clamp(max=100.0) * A @ B.T
            own = torch.arange(len(S), device=where)
            loss = nn.functional.cross_entropy(S, own) + nn.functional.cross_entropy(S.T, own)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(text_side.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.detach() * len(index) / len(texts)
        print("contrastive epoch", epoch, float(total), flush=True)

    @torch.inference_mode()
    def predict(strings: list[str]) -> np.ndarray:
        text_side.eval()
        found = as_source(strings, text_side, where)
        parts = torch.arange(len(strings)).split(4 * BATCH)
        with torch.autocast(where.type, dtype=torch.bfloat16):
            F = torch.cat([text_side(**found.batch(i, i)).float().cpu() for i in parts])
        return nn.functional.normalize(F).numpy()

    with torch.inference_mode():
        pool = torch.tensor(problem.pool / scale, dtype=torch.float32, device=where)
        candidates = nn.functional.normalize(molecule_side(pool)).cpu().numpy()
    return predict, candidates


def shallow() -> None:
    """Fit SISOKR on n-grams of characters, which knows no language."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    problem = Problem(0.25)
    texts = [str(problem.texts[i]) for i in problem.train]
    tfidf = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), min_df=3, sublinear_tf=True, max_features=12000
    )
    X = tfidf.fit_transform(texts)
    model = sisokr(
        "linear", Cosine(), input_sketch=SubSample(6000), output_sketch=SubSample(M_Y),
        alpha=0.03 / len(texts), random_state=0,
    )  # fmt: skip
    with clock() as fit:
        model.fit(X, problem.outputs[problem.train])
    basis = model.output_basis_
    back = basis.combine(unit(basis.landmarks_))
    found: dict[str, Any] = {"seconds": fit.seconds, "n_texts": len(texts)}
    for name, some in {"val": problem.texts[problem.val], "test": problem.test_texts}.items():
        F = model.predict_coordinates(tfidf.transform([str(text) for text in some]))
        found[name] = (F @ back).astype(np.float32)
    print(
        "shallow", fit.seconds, scores(ranks(found["val"], unit(problem.pool), problem.val_truth))
    )
    np.savez_compressed(CACHE / "text2mol_shallow_0.npz", **found)


# Results ---------------------------------------------------------------------------------------


def ranks(predicted: np.ndarray, candidates: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the rank of the truth by inner product; of ties, the average."""
    out = []
    for some in np.array_split(np.arange(len(predicted)), 8):
        S = predicted[some].astype(np.float64) @ candidates.T
        own = S[np.arange(len(some)), truth[some]][:, None]
        slack = 1e-6 * np.abs(own)  # copies of the truth differ by rounding
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
    rows = []
    white, plain = Problem(0.25), Problem(0.0)
    groups: dict[str, list[Any]] = {}
    for path in sorted(folder.glob("text2mol_*.npz")):
        method = path.stem.split("_")[1]
        with np.load(path) as file:
            groups.setdefault(method, []).append({name: file[name] for name in file.files})
    for method, runs in groups.items():
        problem = plain if method in ("dsokr-thesis", "regression") else white
        for seed, run in enumerate(runs):
            candidates = run.get("candidates", unit(problem.pool)).astype(np.float64)
            row = {"method": method, "seed": seed, "seconds": float(run["seconds"])}
            row["validation"] = scores(ranks(run["val"], candidates, problem.val_truth))
            row |= scores(ranks(run["test"], candidates, problem.test))
            rows.append(row)
    rows += ensembles(white, groups)
    print_table([{k: v for k, v in row.items() if k != "validation"} for row in rows],
                ["method", "seed", "Hits@1 %", "Hits@10 %", "MRR", "mean rank"])  # fmt: skip
    settings = {
        "epochs": EPOCHS, "batch": BATCH, "lr": LR, "m_y": M_Y, "rank": RANK, "n_val": N_VAL,
        "n_train_pairs": {str(name): int((white.source[white.train] == name).sum())
                          for name in np.unique(white.source)},
        "n_texts": int(groups["dsokr"][0]["n_texts"]) if "dsokr" in groups else None,
        "thesis": THESIS, "thesis_pairs": 26408, "encoder": "all-mpnet-base-v2",
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
    parser.add_argument("part", choices=("prepare", "train", "shallow", "evaluate"))
    parser.add_argument("--method", choices=METHODS, default="dsokr")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--rows", type=int, help="train on the first texts only, to try it")
    parser.add_argument("--device", default="auto")
    o = parser.parse_args()
    if o.part == "prepare":
        prepare()
    elif o.part == "train":
        train(o.method, o.seed, o.encoder, o.epochs, o.device, o.rows)
    elif o.part == "shallow":
        shallow()
    else:
        evaluate(CACHE)


if __name__ == "__main__":
    main()
