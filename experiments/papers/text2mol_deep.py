"""DSOKR for text to molecule, its end-to-end variant, regression and a contrastive model.

f(x) = draft(x) G + head(encoder(x)) has three lessons:

1. reading, once for all draws: the encoder learns from names and captions to tell the molecule of a
   text from all other molecules of training, by the softmax of cosines;
2. DSOKR: f learns the coordinates z(y) of captions' molecules in a sketched basis, squared loss;
3. end to end: f and a small map g of the outputs, which is the identity at first, learn together:
   the softmax of <f(x), g(z(y))> over all molecules y of training.

The others have the same reading and drafts, and the vectors v(y) of the molecules as they are:
regression is lesson 2 with v(y) for z(y); the contrastive model is lesson 3 with v(y), from the
beginning, for as long as lessons 2 and 3, over the molecules of a batch only.

Candidates of the softmax are molecules that have a training text: one that never was the right
answer would only be pushed away, and those of the test part never are.
"""

from __future__ import annotations

import copy
import functools
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from experiments.papers.text2mol_data import Problem
from experiments.papers.text2mol_draft import (
    N_FEATURES,
    N_FOLDS,
    Drafts,
    Residual,
    contrast,
    folds_of,
    learnt_features,
)
from experiments.papers.text2mol_models import M_Y, MAX_LENGTH, RANK, Corrected, Found
from skout import KernelBasis
from skout.deep import TextEncoder
from skout.deep.batches import as_source, call
from skout.deep.training import _shuffled
from skout.kernels import Linear
from skout.sketches import GaussianSketch, SubSample

BATCH, WARMUP, CLIP = 512, 0.1, 1.0
LR = {"reading": 1e-4, "dsokr": 5e-5, "end-to-end": 2e-5, "contrastive": 5e-5}
EPOCHS = {"reading": 2.0, "dsokr": 10.0, "end-to-end": 4.0, "contrastive": 14.0}
N_NAMES = 20000  # of each epoch of the last two lessons
HEAT = math.log(20.0)


class Corpus:
    """The texts of training, first those of the drafts, then other forms of them, then names.

    Parameters
    ----------
    problem : Problem
    rows : int or None
        Take only so many texts of each kind, to try it.
    encoder : path
    device : torch.device

    Attributes
    ----------
    molecule : Tensor of int
        Of each text, a row of `vectors`, which are of all molecules that have one.
    """

    def __init__(
        self, problem: Problem, rows: int | None, encoder: Path, device: torch.device
    ) -> None:
        self.device, self.encoder = device, encoder
        first, at = problem.parts()
        more = [(form, i) for i in problem.train for form in problem.forms(i)[2:]][:rows]
        first, at, names = first[:rows], at[:rows], problem.names[:rows]
        self.n, self.n_captions = len(first), len(first) + len(more)
        self.texts = [*first, *(text for text, _ in more), *(problem.texts[i] for i in names)]
        self.at = np.concatenate([at, np.array([i for _, i in more], dtype=np.int64), names])
        self.keys = problem.keys[self.at]
        self.fold = folds_of(self.keys)
        self.new = {"val": [problem.texts[i] for i in problem.val][:rows]}
        self.new["test"] = problem.test_texts[:rows]
        molecules, own = np.unique(problem.molecule[self.at], return_inverse=True)
        self.molecule = torch.tensor(own, device=device)
        self.vectors = normalize(_tensor(problem.vectors[molecules], device))
        self.pool = normalize(_tensor(problem.pool, device))
        keys = np.empty(len(molecules), dtype=self.keys.dtype)
        keys[own] = self.keys
        self.same = torch.tensor(np.unique(keys, return_inverse=True)[1], device=device)
        self.equal = _equal(problem.vectors[molecules], device)
        self.is_name = torch.arange(len(self.texts), device=device) >= self.n_captions
        self.drafts = Drafts(first, self.keys[: self.n], device)
        self.X = self.drafts.rows(self.texts)
        self.new_X = {name: self.drafts.rows(some) for name, some in self.new.items()}
        reader = self.module(1)
        self.tokens = as_source(self.texts, reader, device)
        self.new_tokens = {name: as_source(some, reader, device) for name, some in self.new.items()}

    def module(self, n_outputs: int) -> TextEncoder:
        return TextEncoder(n_outputs, self.encoder, pooling="mean", max_length=MAX_LENGTH)

    def drafted(self, targets: Tensor) -> dict[str, Tensor]:
        """Return the drafts of all texts, whose molecules have these targets."""
        worth = self.drafts.fit(targets[self.molecule[: self.n]])
        out = {"train": self.drafts.predict(worth, self.X, self.fold)}
        for name, X in self.new_X.items():
            out[name] = self.drafts.predict(worth, X, np.full(X.shape[0], N_FOLDS))
        return out

    def epoch(self, rng: np.random.Generator, n_names: int) -> Tensor:
        """Return rows of an epoch: each caption and name of IUPAC in two forms, and some names."""
        captions, others = np.arange(self.n_captions), np.arange(self.n_captions, len(self.texts))
        order = rng.permutation(captions)
        order = order[np.argsort(self.at[order], kind="stable")]  # forms of a text in random order
        start = np.r_[True, self.at[order][1:] != self.at[order][:-1]]
        nth = np.arange(len(order)) - np.flatnonzero(start)[np.cumsum(start) - 1]
        return torch.tensor(np.r_[order[nth < 2], rng.permutation(others)[:n_names]])


def _tensor(rows: np.ndarray, device: torch.device) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32, device=device)


def _equal(vectors: np.ndarray, device: torch.device) -> Tensor:
    """Return a number for each row, the same where rows are."""
    along = vectors @ np.random.default_rng(0).standard_normal(vectors.shape[1])
    return torch.tensor(np.unique(np.round(along, 7), return_inverse=True)[1], device=device)


def listwise(S: Tensor, own: Tensor, same: Tensor) -> Tensor:
    """Return the mean of -log softmax(S)[own]; columns that are the same as own do not count."""
    same = same.scatter(1, own[:, None], False)
    return cross_entropy(S.masked_fill(same, -1e4), own)


class Clock:
    """Seconds that are left of a number of minutes."""

    def __init__(self, minutes: float) -> None:
        self.end = time.perf_counter() + 60.0 * minutes

    def left(self) -> float:
        return self.end - time.perf_counter()


def descend(
    loss_of: Callable[[Tensor, Tensor], Tensor], groups: list[dict[str, Any]], corpus: Corpus,
    epochs: float, n_names: int, seed: int, seconds: float,
) -> list[float]:  # fmt: skip
    """Minimise a loss of the rows of batches; return its mean in each epoch.

    The rates rise and fall with the share of the steps or of the seconds that is gone, whichever
    is larger, so that a slow machine ends in time and at rate 0.
    """
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    rates = [group["lr"] for group in optimizer.param_groups]
    parameters = [p for group in groups for p in group["params"]]
    start, step, losses = time.perf_counter(), 0, []
    for epoch in range(math.ceil(epochs)):
        rows = corpus.epoch(rng, n_names)
        batches = _shuffled(len(rows), BATCH, corpus.tokens.lengths[rows], generator)
        total, n_steps = torch.zeros((), device=corpus.device), epochs * len(batches)
        for n_done, some in enumerate(batches):
            gone = max(step / n_steps, (time.perf_counter() - start) / seconds)
            if gone >= 1.0:
                return [*losses, float(total) / max(1, n_done)]
            rise = min(1.0, (gone + 1e-3) / WARMUP)
            fall = 0.5 + 0.5 * math.cos(math.pi * max(0.0, (gone - WARMUP) / (1.0 - WARMUP)))
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * rise * fall
            index = rows[some]
            loss = loss_of(index, index.to(corpus.device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, CLIP)
            optimizer.step()
            total += loss.detach()
            step += 1
        losses.append(float(total) / len(batches))
        print(f"  epoch {epoch + 1} loss {losses[-1]:.4f} {time.perf_counter() - start:.0f} s",
              flush=True)  # fmt: skip
    return losses


def _group(parameters: Iterable[nn.Parameter], lr: float) -> dict[str, Any]:
    return {"params": list(parameters), "lr": lr}


def _autocast(device: torch.device) -> Any:
    return torch.autocast(device.type, dtype=torch.bfloat16)


# Lessons ---------------------------------------------------------------------------------------


def reading(corpus: Corpus, seed: int, seconds: float) -> dict[str, Tensor]:
    """Return the weights of an encoder that has read names and captions."""
    torch.manual_seed(seed)
    module = corpus.module(corpus.vectors.shape[1]).to(corpus.device).train()
    heat = nn.Parameter(torch.tensor(HEAT, device=corpus.device))
    centre = corpus.pool.mean(dim=0)
    C = normalize(corpus.vectors - centre)

    def loss_of(index: Tensor, there: Tensor) -> Tensor:
        with _autocast(corpus.device):
            F = call(module, corpus.tokens.batch(index, there))
        S = heat.exp().clamp(max=100.0) * normalize(F.float()) @ C.T
        return listwise(S, corpus.molecule[there], _again(corpus, there))

    rates = LR["reading"]
    groups = [
        _group(module.encoder.parameters(), rates),
        _group(module.head.parameters(), 10 * rates),
        _group([heat], 1e-3),
    ]
    n_names = len(corpus.texts) - corpus.n_captions
    descend(loss_of, groups, corpus, EPOCHS["reading"], n_names, seed, seconds)
    return {name: tensor.cpu() for name, tensor in module.encoder.state_dict().items()}


def _again(corpus: Corpus, there: Tensor) -> Tensor:
    """Return which molecules are no other than those of texts: for names, by their skeleton.

    Names often do not say the charge and the stereochemistry, which captions do.
    """
    own = corpus.molecule[there]
    equal = corpus.equal[own][:, None] == corpus.equal
    same = corpus.same[own][:, None] == corpus.same
    return equal | (same & corpus.is_name[there][:, None])


class Lesson:
    """What the lessons of one draw share: outputs, drafts, predictions.

    Parameters
    ----------
    corpus : Corpus
    seed : int
    outputs : {"subsample", "gaussian", "vectors"}
        Coordinates in a basis of a learnt kernel by one of two sketches, or vectors as they are.

    Attributes
    ----------
    Z, candidates : Tensor
        Molecules of training, and candidates.
    """

    def __init__(self, corpus: Corpus, seed: int, outputs: str = "subsample") -> None:
        self.corpus, self.seed = corpus, seed
        if outputs == "vectors":
            self.Z, self.candidates = corpus.vectors, corpus.pool
        else:
            self.Z, self.candidates = in_basis(corpus, seed, outputs)
        self.draft = corpus.drafted(self.Z)

    def network(self, encoder: dict[str, Tensor] | None) -> Corrected:
        torch.manual_seed(self.seed)
        module = Corrected(self.Z.shape[1], self.corpus.encoder)
        if encoder is not None:
            module.text.encoder.load_state_dict(encoder)
        return module.to(self.corpus.device).train()

    def outputs(self, module: nn.Module, index: Tensor, there: Tensor) -> Tensor:
        inputs = self.corpus.tokens.batch(index, there)
        with _autocast(self.corpus.device):
            return call(module, {**inputs, "draft": self.draft["train"][there]}).float()

    @torch.inference_mode()
    def predicted(self, module: nn.Module, name: str) -> np.ndarray:
        """Return the predictions of new texts."""
        module.eval()
        tokens, draft = self.corpus.new_tokens[name], self.draft[name]
        parts = []
        for index in torch.arange(len(tokens)).split(BATCH):
            inputs = tokens.batch(index, index.to(self.corpus.device))
            with _autocast(self.corpus.device):
                F = call(module, {**inputs, "draft": draft[index.to(self.corpus.device)]})
            parts.append(F.float().cpu())
        return torch.cat(parts).numpy()

    def found(self, module: nn.Module | None, known: Tensor, candidates: Tensor) -> Found:
        new = ("val", "test")
        if module is None:
            F = [self.draft[name].cpu().numpy() for name in new]
        else:
            F = [self.predicted(module, name) for name in new]
        return Found(*F, known.cpu().numpy(), candidates.cpu().numpy())


@functools.lru_cache(maxsize=1)  # both sketches of a draw have these
def learnt(corpus: Corpus, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return learnt features of norm one of the molecules of training, and of the candidates."""
    n = corpus.n
    own = corpus.vectors[corpus.molecule[:n]]
    drafts = corpus.drafted(corpus.vectors)["train"][:n]
    same = corpus.equal[corpus.molecule[:n]]
    views = [learnt_features(drafts, own, same, N_FEATURES * seed + k) for k in range(N_FEATURES)]
    with torch.inference_mode():
        centres = [view(corpus.pool).mean(dim=0) for view in views]

        def features(rows: Tensor) -> np.ndarray:
            parts = [normalize(view(rows) - c) for view, c in zip(views, centres, strict=True)]
            together = torch.cat(parts, dim=1) / N_FEATURES**0.5  # their product is the mean cosine
            return together.double().cpu().numpy()

        return features(corpus.vectors), features(corpus.pool)


def in_basis(corpus: Corpus, seed: int, sketch: str) -> tuple[Tensor, Tensor]:
    """Return the molecules of training and the candidates in the basis of a learnt kernel.

    A Gaussian sketch G of a linear kernel K = V V' is that of fewer rows: G K G' = (G V) (G V)'.
    """
    Y, C = learnt(corpus, seed)
    n, device = corpus.n, "cuda" if corpus.device.type == "cuda" else None
    rows, size = Y[corpus.molecule[:n].cpu().numpy()], min(M_Y, n)
    some: Any = SubSample(size)
    if sketch == "gaussian":
        G = GaussianSketch(size).draw(n, np.random.default_rng(seed)).weights
        rows, some = G @ rows, None
    basis = KernelBasis(
        Linear(), some, whiten="eigh", rank=min(RANK, n // 2), random_state=seed, device=device
    )
    basis.fit(rows)
    return tuple(_tensor(basis.transform(some), corpus.device) for some in (Y, C))  # type: ignore


def iokr(lesson: Lesson) -> Found:
    """Return the drafts: input output kernel regression on n-grams."""
    n = lesson.corpus.n
    return lesson.found(None, lesson.draft["train"][:n], lesson.candidates)


def dsokr(
    lesson: Lesson, encoder: dict[str, Tensor] | None, seconds: float
) -> tuple[Found, Corrected]:
    """Train a network by the squared loss in the sketched basis."""
    corpus, module = lesson.corpus, lesson.network(encoder)

    def loss_of(index: Tensor, there: Tensor) -> Tensor:
        F = lesson.outputs(module, index, there)
        return 0.5 * (F - lesson.Z[corpus.molecule[there]]).square().sum(dim=1).mean()

    groups = [_group(module.parameters(), LR["dsokr"])]
    descend(loss_of, groups, corpus, EPOCHS["dsokr"], N_NAMES, lesson.seed, seconds)
    known = lesson.draft["train"][: corpus.n]
    return lesson.found(module, known, lesson.candidates), module


def end_to_end(lesson: Lesson, module: Corrected, seconds: float) -> Found:
    """Train the network of DSOKR on, together with a map of the outputs, by the listwise loss."""
    corpus = lesson.corpus

    def loss_of(F: Tensor, outputs: nn.Module, there: Tensor) -> Tensor:
        return listwise(F @ outputs(lesson.Z).T, corpus.molecule[there], _again(corpus, there))

    return _together(lesson, copy.deepcopy(module).train(), loss_of, "end-to-end", seconds)


def contrastive(lesson: Lesson, encoder: dict[str, Tensor] | None, seconds: float) -> Found:
    """Train a network and a map of the outputs, to tell pairs of a text and its molecule apart."""
    corpus = lesson.corpus

    def loss_of(F: Tensor, outputs: nn.Module, there: Tensor) -> Tensor:
        own = corpus.molecule[there]
        return contrast(F @ outputs(lesson.Z[own]).T, corpus.equal[own])

    return _together(lesson, lesson.network(encoder), loss_of, "contrastive", seconds)


def _together(
    lesson: Lesson, module: Corrected, pair_loss: Callable[[Tensor, nn.Module, Tensor], Tensor],
    name: str, seconds: float,
) -> Found:  # fmt: skip
    """Train a network and a map of the outputs by a loss of predictions that are scaled by heat."""
    corpus = lesson.corpus
    torch.manual_seed(lesson.seed)
    outputs = Residual(lesson.Z.shape[1]).to(corpus.device).train()
    heat = nn.Parameter(torch.tensor(HEAT, device=corpus.device))

    def loss_of(index: Tensor, there: Tensor) -> Tensor:
        F = normalize(lesson.outputs(module, index, there))
        return pair_loss(heat.exp().clamp(max=100.0) * F, outputs, there)

    groups = [
        _group(module.parameters(), LR[name]),
        _group(outputs.parameters(), 1e-3),
        _group([heat], 1e-2),
    ]
    descend(loss_of, groups, corpus, EPOCHS[name], N_NAMES, lesson.seed, seconds)
    outputs.eval()
    with torch.inference_mode():
        candidates = outputs(lesson.candidates)
        known = module.eval().gate(lesson.draft["train"][: corpus.n])
    return lesson.found(module, known, candidates)
