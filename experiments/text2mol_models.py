"""The networks of text to molecule: f(x) = draft(x) G + head(encoder(x)).

Each method asks for drafts of its own targets (`text2mol_draft.py`); the network learns what they
miss. G is the identity at first and the head is zero.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from text2mol_data import Problem, unit
from text2mol_draft import N_FOLDS, N_REFERENCES, Drafts, contrast, folds_of, prices
from torch import Tensor, nn
from torch.nn.functional import normalize

from skout.deep import NeuralRegressor, TextEncoder, Training
from skout.deep.batches import as_source, call
from skout.deep.training import _shuffled

WHITE, DAMP, MARKS, M_Y, RANK = 0.25, 0.5, 0.7, 2000, 500
NAME_SHARE, BATCH, MAX_LENGTH = 0.5, 512, 192
LR = {"regression": 1e-4, "contrastive": 2.5e-4, "bare": 2.5e-4}
FASTER = 10.0  # what is not pretrained learns so many times as fast


class Found(NamedTuple):
    """Predictions for texts, and candidates, whose inner products are scores.

    `known` are those for captions of training: the drafts, by models that do not know their
    molecules, or by the network where its drafts are in another space.
    """

    val: np.ndarray
    test: np.ndarray
    known: np.ndarray
    candidates: np.ndarray


def scores(found: Found, texts: Texts, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of all candidates for validation and test texts; and less the prices."""
    C = torch.tensor(found.candidates, device=texts.device).double()
    F = torch.tensor(np.concatenate([found.val, found.test]), device=texts.device).double()
    some = np.random.default_rng(0).permutation(texts.n)[:N_REFERENCES]
    known = torch.tensor(found.known[some], device=texts.device)
    price = prices(known, texts.keys[some], C.float(), problem.pool_keys)
    S = normalize(F) @ C.T
    return S.float().cpu().numpy(), (S - price).float().cpu().numpy()


class Texts:
    """The texts of training, captions first and then names, and what their n-grams say.

    Of the names a random half is taken, the same for all methods and seeds.
    """

    def __init__(self, problem: Problem, rows: int | None, device: torch.device) -> None:
        texts, at = problem.parts()
        rng = np.random.default_rng(1)
        names = problem.names[rng.random(len(problem.names)) < NAME_SHARE]
        if rows is not None:
            texts, at, names = texts[:rows], at[:rows], names[:rows]
        self.n = len(texts)
        self.device = device
        self.drafts = Drafts(texts, problem.keys[at], device)
        self.texts = texts + [problem.texts[i] for i in names]
        self.at = np.concatenate([at, names])
        self.keys = problem.keys[self.at]
        self.same = torch.tensor(np.unique(self.keys, return_inverse=True)[1], device=device)
        self.fold = folds_of(self.keys)
        self.X = self.drafts.rows(self.texts)
        self.new = {
            "val": [problem.texts[i] for i in problem.val][:rows],
            "test": problem.test_texts[:rows],
        }
        self.new_X = {name: self.drafts.rows(some) for name, some in self.new.items()}

    def inputs(self, targets: np.ndarray) -> dict[str, dict[str, Any]]:
        """Return the inputs of a network that predicts the targets, which are of all texts."""
        T = torch.tensor(targets[: self.n], dtype=torch.float32, device=self.device)
        worth = self.drafts.fit(T)
        draft = self.drafts.predict(worth, self.X, self.fold).cpu().numpy()
        found = {
            "all": {"texts": self.texts, "draft": draft},
            "captions": {"texts": self.texts[: self.n], "draft": draft[: self.n]},
        }
        for name, X in self.new_X.items():
            nobody = np.full(X.shape[0], N_FOLDS)
            draft = self.drafts.predict(worth, X, nobody).cpu().numpy()
            found[name] = {"texts": self.new[name], "draft": draft}
        return found


class Corrected(nn.Module):
    """A draft and what a text encoder makes of it.

    Parameters
    ----------
    n_outputs : int
    encoder : path
        Folder of a pretrained encoder.
    drafts : bool, default True
        Whether there are any; else they are zeros.
    """

    def __init__(self, n_outputs: int, encoder: Path, drafts: bool = True) -> None:
        super().__init__()
        self.text = TextEncoder(n_outputs, encoder, pooling="mean", max_length=MAX_LENGTH)
        self.pad_id = self.text.pad_id
        self.gate = nn.Linear(n_outputs, n_outputs, bias=False)
        nn.init.eye_(self.gate.weight)
        for parameter in self.text.head.parameters() if drafts else ():
            nn.init.zeros_(parameter)  # the draft as it is, at first

    def tokenize(self, strings: list[str]) -> list[np.ndarray]:
        return self.text.tokenize(strings)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, draft: Tensor) -> Tensor:
        correction = self.text(input_ids=input_ids, attention_mask=attention_mask)
        with torch.autocast(draft.device.type, enabled=False):  # the draft is exact
            return self.gate(draft) + FASTER * correction.float()


def settings_of(epochs: int, lr: float) -> list[Training]:
    """Return the settings of the two stages: names and captions, then captions."""
    return [
        Training(n, BATCH, lr, warmup=0.06, clip_norm=1.0, precision="bfloat16")
        for n in (1, epochs)
    ]


# Regression ------------------------------------------------------------------------------------


def regress(
    texts: Texts, targets: np.ndarray, candidates: np.ndarray, seed: int, encoder: Path,
    epochs: int, lr: float,
) -> Found:  # fmt: skip
    """Fit a network to targets in two stages; return its predictions."""
    X = texts.inputs(targets)
    module: Any = functools.partial(Corrected, encoder=encoder)
    for training, some in zip(settings_of(epochs, lr), ("all", "captions"), strict=True):
        net = NeuralRegressor(
            module, training=training, device=str(texts.device), random_state=seed, verbose=True
        )
        net.fit(X[some], targets[: len(X[some]["texts"])])
        module = net.module_  # the next stage goes on from there
        print("loss", [round(row["train_loss"], 4) for row in net.history_], flush=True)
    return Found(net.predict(X["val"]), net.predict(X["test"]), X["captions"]["draft"], candidates)


def regression(problem: Problem, texts: Texts, seed: int, encoder: Path, epochs: int) -> Found:
    """Return the predictions of the Mol2vec vectors themselves, scaled by one number."""
    scale = float(np.sqrt((problem.pool**2).sum(axis=1).mean()))
    targets = (problem.outputs[texts.at] / scale).astype(np.float32)
    candidates = unit(problem.pool).astype(np.float32)
    return regress(texts, targets, candidates, seed, encoder, epochs, LR["regression"])


# Contrast --------------------------------------------------------------------------------------


class Pair(nn.Module):
    """The two sides of a contrastive model.

    Parameters
    ----------
    text : Module
    size : int
        Of the vectors of molecules, and of the space in which both sides meet.
    """

    def __init__(self, text: nn.Module, size: int) -> None:
        super().__init__()
        self.text = text
        self.molecule = nn.Sequential(
            nn.Linear(size, 600), nn.ReLU(), nn.Linear(600, 600), nn.ReLU(), nn.Linear(600, size)
        )
        self.heat = nn.Parameter(torch.tensor(np.log(1 / 0.07), dtype=torch.float32))
        for parameter in self.molecule[-1].parameters():  # vectors as they are, at first
            nn.init.zeros_(parameter)

    def molecules(self, rows: Tensor) -> Tensor:
        return normalize(rows + self.molecule(rows))

    def groups(self, lr: float) -> list[dict[str, Any]]:
        others = [*self.molecule.parameters(), self.heat]
        return [{"params": self.text.parameters(), "lr": lr}, {"params": others, "lr": FASTER * lr}]


def contrastive(
    problem: Problem, texts: Texts, seed: int, encoder: Path, epochs: int, drafts: bool = True
) -> Found:
    """Train both sides so that a text is nearer to its molecule than to others of the batch."""
    torch.manual_seed(seed)
    outputs = unit(problem.outputs[texts.at]).astype(np.float32)
    X = texts.inputs(outputs)
    if not drafts:
        for part in X.values():
            part["draft"] = np.zeros_like(part["draft"])
    size = outputs.shape[1]
    pair = Pair(Corrected(size, encoder, drafts), size).to(texts.device)
    Y = size**0.5 * torch.tensor(outputs, device=texts.device)
    lr = LR["contrastive" if drafts else "bare"]
    for training, some in zip(settings_of(epochs, lr), ("all", "captions"), strict=True):
        losses = _contrast(pair, training, X[some], Y, texts.same, seed)
        print("contrastive loss", [round(loss, 4) for loss in losses], flush=True)
    pool = size**0.5 * torch.tensor(unit(problem.pool).astype(np.float32), device=texts.device)
    with torch.inference_mode():
        candidates = pair.eval().molecules(pool).cpu().numpy()
    found = [_predicted(pair.text, X[some], texts.device) for some in ("val", "test", "captions")]
    return Found(*found, candidates)


def _predicted(module: nn.Module, X: dict[str, Any], device: torch.device) -> np.ndarray:
    source = as_source(X, module, device)
    with torch.inference_mode(), torch.autocast(device.type, dtype=torch.bfloat16):
        parts = torch.arange(len(X["texts"])).split(BATCH)
        F = torch.cat([call(module, source.batch(i, i.to(device))).float() for i in parts])
    return normalize(F).cpu().numpy()


def _contrast(
    pair: Pair, training: Training, X: dict[str, Any], Y: Tensor, same: Tensor, seed: int
) -> list[float]:
    """Run one stage; return the mean loss of each epoch."""
    n, device = len(X["texts"]), Y.device
    source = as_source(X, pair.text, device)
    optimizer = torch.optim.AdamW(pair.groups(training.lr), weight_decay=0.0)
    n_steps = training.max_epochs * -(-n // training.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: training.rate(s, n_steps))
    losses = []
    pair.train()
    for epoch in range(training.max_epochs):
        generator = torch.Generator().manual_seed(seed + 7919 * epoch)
        total = torch.zeros((), device=device)
        for index in _shuffled(n, training.batch_size, source.lengths, generator):
            there = index.to(device)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                A = call(pair.text, source.batch(index, there))
            S = pair.heat.exp().clamp(max=100.0) * normalize(A.float()) @ pair.molecules(Y[there]).T
            loss = contrast(S, same[there])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(pair.text.parameters(), training.clip_norm)
            optimizer.step()
            schedule.step()
            total += loss.detach() * len(index) / n
        losses.append(float(total))
    return losses
