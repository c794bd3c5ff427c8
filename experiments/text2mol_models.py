"""The networks of text to molecule, and the draft that they correct.

The draft is SISOKR on n-grams of characters, which reads the parts of chemical names well and is
there in a minute. A network f(x) = draft(x) G + head(encoder(x)) then learns what the draft misses.
It must not see how well the draft knows the training texts: theirs are drafts by models that were
fitted without their molecules.
"""

from __future__ import annotations

import functools
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import clock
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from text2mol_data import CACHE, Problem, unit
from torch import Tensor, nn

from skout import KernelBasis, sisokr
from skout.deep import NeuralRegressor, TextEncoder, Training
from skout.deep.batches import as_source, call
from skout.deep.training import _shuffled
from skout.kernels import Cosine
from skout.sketches import SubSample

WHITE, M_Y, RANK = 0.35, 1000, 300
N_FOLDS, N_GRAMS, M_X = 5, 10000, 5000
NAME_SHARE, BATCH, LR, MAX_LENGTH = 0.5, 512, 2.5e-4, 192
FASTER = 10.0  # what is not pretrained learns so many times as fast


# The draft -------------------------------------------------------------------------------------


def folds_of(keys: np.ndarray) -> np.ndarray:
    """Return the fold of each text; all texts of a molecule are in one."""
    return np.array([zlib.crc32(str(key).encode()) % N_FOLDS for key in keys])


def fit_draft() -> dict[str, Any]:
    """Fit SISOKR without each fold and on all; write the coefficients, return the predictions."""
    problem = Problem(WHITE)
    texts = [problem.texts[i] for i in problem.train]
    tfidf = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), min_df=3, sublinear_tf=True, max_features=N_GRAMS
    )
    X, Y = tfidf.fit_transform(texts), problem.outputs[problem.train]
    fold = folds_of(problem.keys[problem.train])
    coefficients = []
    with clock() as fit:
        for k in range(N_FOLDS + 1):
            some = np.flatnonzero(fold != k)
            coefficients.append(_coefficients(X[some], Y[some]))
            print("draft", k, len(some), flush=True)
    np.savez(
        CACHE / "text2mol_draft.npz", coefficients=np.array(coefficients, dtype=np.float16),
        grams=tfidf.get_feature_names_out().astype(str), idf=tfidf.idf_,
    )  # fmt: skip
    found: dict[str, Any] = {"seconds": fit.seconds / (N_FOLDS + 1), "n_texts": len(texts)}
    for name, some in {"val": [problem.texts[i] for i in problem.val],
                       "test": problem.test_texts}.items():  # fmt: skip
        found[name] = (tfidf.transform(some) @ coefficients[-1]).astype(np.float32)
    return found


def _coefficients(X: sparse.csr_matrix, Y: np.ndarray) -> np.ndarray:
    """Return what the n-grams are worth in the space of the outputs."""
    model = sisokr(
        "linear", Cosine(), input_sketch=SubSample(M_X), output_sketch=SubSample(M_Y),
        alpha=0.05 / X.shape[0], random_state=0,
    )  # fmt: skip
    model.fit(X, Y)
    basis = model.output_basis_
    one_each = sparse.eye(X.shape[1], format="csr")  # the model is linear
    return model.predict_coordinates(one_each) @ basis.combine(unit(basis.landmarks_))


class Draft:
    """The drafts of texts, from the file that `fit_draft` has written."""

    def __init__(self) -> None:
        with np.load(CACHE / "text2mol_draft.npz") as file:
            self.coefficients = file["coefficients"].astype(np.float32)
            grams, idf = file["grams"], file["idf"]
        self.tfidf = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True,
            vocabulary={str(gram): i for i, gram in enumerate(grams)},
        )  # fmt: skip
        self.tfidf.idf_ = idf

    def __call__(self, texts: list[str], fold: np.ndarray) -> np.ndarray:
        """Return the drafts by the models that do not know the fold of each text."""
        from joblib import Parallel, delayed

        parts = [texts[i : i + 4000] for i in range(0, len(texts), 4000)]
        X = sparse.vstack(Parallel(n_jobs=-1)(delayed(self.tfidf.transform)(p) for p in parts))
        X = X.tocsr().astype(np.float32)
        out = np.empty((len(texts), self.coefficients.shape[2]), dtype=np.float32)
        for k in np.unique(fold):
            out[fold == k] = X[fold == k] @ self.coefficients[k]
        return out


# Networks --------------------------------------------------------------------------------------


class Corrected(nn.Module):
    """A draft and what a text encoder makes of it.

    Parameters
    ----------
    n_outputs : int
    encoder : path
        Folder of a pretrained encoder.
    start : ndarray of shape (300, n_outputs), optional
        Where the matrix G starts; at random if not given.
    """

    def __init__(self, n_outputs: int, encoder: Path, start: np.ndarray | None = None) -> None:
        super().__init__()
        self.text = TextEncoder(n_outputs, encoder, pooling="mean", max_length=MAX_LENGTH)
        self.pad_id = self.text.pad_id
        self.gate = nn.Linear(RANK, n_outputs, bias=False)
        with torch.no_grad():
            for parameter in self.text.head.parameters():  # the draft as it is, at first
                parameter.zero_()
            if start is not None:
                self.gate.weight.copy_(torch.as_tensor(start.T))

    def tokenize(self, strings: list[str]) -> list[np.ndarray]:
        return self.text.tokenize(strings)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, draft: Tensor) -> Tensor:
        correction = self.text(input_ids=input_ids, attention_mask=attention_mask)
        with torch.autocast(draft.device.type, enabled=False):  # the draft is exact
            return self.gate(draft) + FASTER * correction.float()


class Stages:
    """The texts of a stage of training with their drafts and outputs: names first, then captions.

    Captions are in both; of the names a random half, the same for all methods and seeds.
    """

    def __init__(self, problem: Problem, rows: int | None) -> None:
        n, at, X, self.new = _inputs(rows)
        captions = {"texts": X["texts"][:n], "draft": X["draft"][:n]}
        self.parts = [(X, problem.outputs[at]), (captions, problem.outputs[at[:n]])]


@functools.cache
def _inputs(rows: int | None) -> tuple[int, np.ndarray, dict[str, Any], dict[str, Any]]:
    """Return the number of captions, the rows of all training texts, these, and the new texts."""
    problem, draft = Problem(WHITE), Draft()
    texts, at = problem.parts()
    rng = np.random.default_rng(1)
    names = problem.names[rng.random(len(problem.names)) < NAME_SHARE]
    if rows is not None:
        texts, at, names = texts[:rows], at[:rows], names[:rows]
    every = texts + [problem.texts[i] for i in names]
    at = np.concatenate([at, names])
    X = {"texts": every, "draft": draft(every, folds_of(problem.keys[at]))}
    new = {}
    for name, some in {"val": [problem.texts[i] for i in problem.val],
                       "test": problem.test_texts}.items():  # fmt: skip
        some = some[:rows]
        new[name] = {"texts": some, "draft": draft(some, np.full(len(some), N_FOLDS))}
    return len(texts), at, X, new


def settings_of(epochs: int) -> list[Training]:
    """Return the settings of the two stages."""
    return [
        Training(n, BATCH, LR, warmup=0.06, clip_norm=1.0, precision="bfloat16")
        for n in (1, epochs)
    ]


def regress(
    stages: Stages, targets: Any, module: Any, seed: int, epochs: int, device: str
) -> NeuralRegressor:
    """Fit a network to targets, which are a function of the outputs, in two stages."""
    for training, (X, Y) in zip(settings_of(epochs), stages.parts, strict=True):
        net = NeuralRegressor(
            module, training=training, device=device, random_state=seed, verbose=True
        )
        module = net.fit(X, targets(Y)).module_  # the next stage goes on from there
        print("loss", [round(row["train_loss"], 4) for row in net.history_], flush=True)
    return net


def dsokr(
    problem: Problem, stages: Stages, seed: int, encoder: Path, epochs: int, device: str
) -> dict[str, np.ndarray]:
    """Return predictions of DSOKR as vectors, whose products with unit candidates are scores."""
    basis = KernelBasis(Cosine(), SubSample(M_Y), whiten="eigh", rank=RANK, random_state=seed)
    basis.fit(problem.outputs[problem.train])
    back = basis.combine(unit(basis.landmarks_))  # coordinates to vectors; rows are orthonormal
    module = functools.partial(Corrected, encoder=encoder, start=back.T)
    net = regress(stages, basis.transform, module, seed, epochs, device)
    return {name: (net.predict(X) @ back).astype(np.float32) for name, X in stages.new.items()}


def regression(
    problem: Problem, stages: Stages, seed: int, encoder: Path, epochs: int, device: str
) -> dict[str, np.ndarray]:
    """Return the predictions of the Mol2vec vectors themselves, scaled by one number."""
    scale = float(np.sqrt((problem.pool**2).sum(axis=1).mean()))
    module = functools.partial(Corrected, encoder=encoder)
    net = regress(stages, lambda Y: Y / scale, module, seed, epochs, device)
    return {name: net.predict(X).astype(np.float32) for name, X in stages.new.items()}


def contrastive(
    problem: Problem, stages: Stages, seed: int, encoder: Path, epochs: int, device: str
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Train both sides so that a text is nearer to its molecule than to others of the batch."""
    torch.manual_seed(seed)
    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    where = torch.device(device)
    text_side = Corrected(RANK, encoder).to(where)
    molecule_side = nn.Sequential(
        nn.Linear(problem.pool.shape[1], 600), nn.ReLU(), nn.Linear(600, 600), nn.ReLU(),
        nn.Linear(600, RANK),
    ).to(where)  # fmt: skip
    heat = nn.Parameter(torch.tensor(np.log(1 / 0.07), device=where, dtype=torch.float32))
    scale = float(np.sqrt((problem.pool**2).mean()))

    def vectors(Y: np.ndarray) -> Tensor:
        return torch.tensor(Y / scale, dtype=torch.float32, device=where)

    for training, (X, Y) in zip(settings_of(epochs), stages.parts, strict=True):
        losses = _contrast(text_side, molecule_side, heat, training, X, vectors(Y), seed)
        print("contrastive loss", [round(loss, 4) for loss in losses], flush=True)
    found = {}
    with torch.inference_mode(), torch.autocast(where.type, dtype=torch.bfloat16):
        text_side.eval()
        for name, X in stages.new.items():
            source = as_source(X, text_side, where)
            parts = torch.arange(len(X["texts"])).split(BATCH)
            F = torch.cat([call(text_side, source.batch(i, i.to(where))).float() for i in parts])
            found[name] = nn.functional.normalize(F).cpu().numpy()
    with torch.inference_mode():
        candidates = nn.functional.normalize(molecule_side(vectors(problem.pool))).cpu().numpy()
    return found, candidates


def _contrast(
    text_side: nn.Module, molecule_side: nn.Module, heat: nn.Parameter, training: Training,
    X: dict[str, Any], Y: Tensor, seed: int,
) -> list[float]:  # fmt: skip
    """Run one stage; return the mean loss of each epoch."""
    groups = [
        {"params": text_side.parameters(), "lr": training.lr},
        {"params": [*molecule_side.parameters(), heat], "lr": FASTER * training.lr},
    ]
    source = as_source(X, text_side, Y.device)
    optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
    steps = training.max_epochs * -(-len(Y) // training.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: training.rate(s, steps))
    losses = []
    text_side.train()
    for epoch in range(training.max_epochs):
        generator = torch.Generator().manual_seed(seed + 7919 * epoch)
        total = torch.zeros((), device=Y.device)
        for index in _shuffled(len(Y), training.batch_size, source.lengths, generator):
            there = index.to(Y.device)
            with torch.autocast(Y.device.type, dtype=torch.bfloat16):
                A = call(text_side, source.batch(index, there))
            A = nn.functional.normalize(A.float())
            B = nn.functional.normalize(molecule_side(Y[there]))
            S = heat.exp().clamp(max=100.0) * A @ B.T
            own = torch.arange(len(S), device=Y.device)
            loss = nn.functional.cross_entropy(S, own) + nn.functional.cross_entropy(S.T, own)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(text_side.parameters(), training.clip_norm)
            optimizer.step()
            schedule.step()
            total += loss.detach() * len(index) / len(Y)
        losses.append(float(total))
    return losses
