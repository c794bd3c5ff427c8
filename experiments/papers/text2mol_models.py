"""The network of text to molecule, f(x) = draft(x) G + head(encoder(x)), and what it finds.

Each method asks for drafts of its own targets (`text2mol_draft.py`); the network learns what they
miss. G is the identity at first and the head is zero.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from experiments.papers.text2mol_data import Problem
from experiments.papers.text2mol_draft import N_REFERENCES, prices
from skout.deep import TextEncoder

WHITE, DAMP, MARKS, M_Y, RANK = 0.25, 0.5, 0.7, 2000, 500
MAX_LENGTH = 192
FASTER = 10.0  # what is not pretrained learns so many times as fast


class Found(NamedTuple):
    """Predictions for texts, and candidates, whose inner products are scores.

    `known` are those for captions of training: the drafts, by models that do not know their
    molecules.
    """

    val: np.ndarray
    test: np.ndarray
    known: np.ndarray
    candidates: np.ndarray


def scores(found: Found, texts: Any, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of all candidates for validation and test texts; and less the prices."""
    C = torch.tensor(found.candidates, device=texts.device).double()
    F = torch.tensor(np.concatenate([found.val, found.test]), device=texts.device).double()
    some = np.random.default_rng(0).permutation(texts.n)[:N_REFERENCES]
    known = torch.tensor(found.known[some], device=texts.device)
    price = prices(known, texts.keys[some], C.float(), problem.pool_keys)
    S = normalize(F) @ C.T
    return S.float().cpu().numpy(), (S - price).float().cpu().numpy()


class Corrected(nn.Module):
    """A draft and what a text encoder makes of it.

    Parameters
    ----------
    n_outputs : int
    encoder : path
        Folder of a pretrained encoder.
    """

    def __init__(self, n_outputs: int, encoder: Path) -> None:
        super().__init__()
        self.text = TextEncoder(n_outputs, encoder, pooling="mean", max_length=MAX_LENGTH)
        self.pad_id = self.text.pad_id
        self.gate = nn.Linear(n_outputs, n_outputs, bias=False)
        nn.init.eye_(self.gate.weight)
        for parameter in self.text.head.parameters():
            nn.init.zeros_(parameter)  # the draft as it is, at first

    def tokenize(self, strings: list[str]) -> list[np.ndarray]:
        return self.text.tokenize(strings)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, draft: Tensor) -> Tensor:
        correction = self.text(input_ids=input_ids, attention_mask=attention_mask)
        with torch.autocast(draft.device.type, enabled=False):  # the draft is exact
            return self.gate(draft) + FASTER * correction.float()
