"""What n-grams of characters say: drafts for the networks, and an output kernel learnt from them.

The draft is input output kernel regression with a linear kernel on tf-idf n-grams, solved exactly
on the device, (K + lambda I)^-1 Z. It reads the parts of chemical names well and is there in
seconds. A network that corrects it must not see how well it knows the training texts: theirs are
drafts by models that were fitted without their molecules.

Molecules that every draft comes near to are named too often ("hubs"). Two remedies, both from the
drafts of training texts: features of molecules in which a text is nearer to its molecule than to
others, whose cosine is the output kernel; and a price for each candidate.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import torch
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

N_FOLDS, N_HASHES, LAMBDA = 5, 2**17, 0.2
N_FEATURES, HIDDEN, PASSES, PAIRS = 4, 600, 10, 2048
HEAT, SHARE, N_REFERENCES = 0.05, 0.5, 20000


def folds_of(keys: np.ndarray) -> np.ndarray:
    """Return the fold of each text; all texts of a molecule are in one."""
    return np.array([zlib.crc32(str(key).encode()) % N_FOLDS for key in keys])


class NGrams:
    """tf-idf weights of hashed n-grams of 3 to 5 characters that three texts have."""

    def __init__(self) -> None:
        self.hashing = HashingVectorizer(
            analyzer="char_wb", ngram_range=(3, 5), n_features=N_HASHES,
            alternate_sign=False, norm=None,
        )  # fmt: skip

    def fit(self, texts: Sequence[str]) -> NGrams:
        n_texts = np.bincount(self._counts(texts).indices, minlength=N_HASHES)
        self.kept = np.flatnonzero(n_texts >= 3)
        self.idf = np.log((1 + len(texts)) / (1 + n_texts[self.kept])) + 1
        return self

    def __call__(self, texts: Sequence[str]) -> sparse.csr_matrix:
        X = self._counts(texts)[:, self.kept]
        X.data = 1 + np.log(X.data)
        X = X @ sparse.diags(self.idf)
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return (sparse.diags(1 / np.maximum(norms, 1e-12)) @ X).tocsr().astype(np.float32)

    def _counts(self, texts: Sequence[str]) -> sparse.csr_matrix:
        parts = [texts[i : i + 2000] for i in range(0, len(texts), 2000)]
        return sparse.vstack(
            Parallel(n_jobs=-1)(delayed(self.hashing.transform)(part) for part in parts)
        ).tocsr()


class Drafts:
    """Ridge regressions on n-grams of the training texts: without each fold, and on all.

    Parameters
    ----------
    texts : list of str
    keys : ndarray of str
        Of their molecules.
    device : torch.device
    """

    def __init__(self, texts: Sequence[str], keys: np.ndarray, device: torch.device) -> None:
        self.device, self.grams = device, NGrams().fit(texts)
        X = self.grams(texts)
        self.transposed = self._tensor(X.T.tocsr())
        dense = self._tensor(X).to_dense()
        fold = torch.tensor(folds_of(keys), device=device)
        self.parts = [(fold != k).nonzero()[:, 0] for k in range(N_FOLDS + 1)]
        self.factors = []
        for some in self.parts:
            K = dense[some] @ dense[some].T
            K.diagonal().add_(LAMBDA)
            self.factors.append(torch.linalg.cholesky(K))

    def _tensor(self, X: sparse.csr_matrix) -> Tensor:
        ends, places = (torch.tensor(some, dtype=torch.int64) for some in (X.indptr, X.indices))
        return torch.sparse_csr_tensor(ends, places, torch.tensor(X.data), X.shape).to(self.device)

    def rows(self, texts: Sequence[str]) -> Tensor:
        return self._tensor(self.grams(texts))

    def fit(self, targets: Tensor) -> list[Tensor]:
        """Return what the n-grams are worth, by each of the models."""
        worth = []
        for some, factor in zip(self.parts, self.factors, strict=True):
            dual = torch.zeros_like(targets)
            dual[some] = torch.cholesky_solve(targets[some], factor)
            worth.append(torch.sparse.mm(self.transposed, dual))
        return worth

    def predict(self, worth: list[Tensor], X: Tensor, fold: np.ndarray) -> Tensor:
        """Return the drafts of rows by the models that do not know their fold."""
        out = torch.empty((X.shape[0], worth[0].shape[1]), device=self.device)
        for k in np.unique(fold):
            some = torch.tensor(np.flatnonzero(fold == k), device=self.device)
            out[some] = torch.sparse.mm(X, worth[k])[some]
        return out


# An output kernel without hubs -----------------------------------------------------------------


class Residual(nn.Module):
    """v + MLP(v), which is the identity at first; rows of norm one."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = size**0.5  # entries of about one
        self.change = nn.Sequential(
            nn.Linear(size, HIDDEN), nn.ReLU(), nn.Dropout(0.5), nn.Linear(HIDDEN, size)
        )
        for parameter in self.change[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, rows: Tensor) -> Tensor:
        return normalize(rows + self.change(self.scale * rows) / self.scale)


def learnt_features(drafts: Tensor, outputs: Tensor, same: Tensor, seed: int) -> Residual:
    """Return features of molecules in which drafts are nearer to their own than to others.

    Parameters
    ----------
    drafts : Tensor of shape (n, d)
        By models that do not know the molecules.
    outputs : Tensor of shape (n, d)
        The molecules.
    same : Tensor of n integers
        Equal where the molecules are.
    seed : int
    """
    torch.manual_seed(seed)
    sides = nn.ModuleList([Residual(drafts.shape[1]) for _ in range(2)]).to(drafts.device)
    heat = nn.Parameter(torch.tensor(3.0, device=drafts.device))
    rates = [1e-3, 1e-2]
    groups = [{"params": part} for part in (sides.parameters(), [heat])]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    n_steps = 5 + PASSES * (len(drafts) // PAIRS)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=n_steps)
    for _ in range(n_steps):
        some = torch.randint(0, len(drafts), (PAIRS,), device=drafts.device)
        S = heat.exp() * sides[0](drafts[some]) @ sides[1](outputs[some]).T
        loss = contrast(S, same[some])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return sides[1].eval()


def contrast(S: Tensor, same: Tensor) -> Tensor:
    """Return the contrastive loss of scores S, in which row i and column i are a pair."""
    own = torch.arange(len(S), device=S.device)
    again = (same[:, None] == same).fill_diagonal_(False)  # another text of the same molecule
    S = S.masked_fill(again, -1e4)
    return cross_entropy(S, own) + cross_entropy(S.T, own)


def prices(
    predicted: Tensor, keys: np.ndarray, candidates: Tensor, candidate_keys: np.ndarray
) -> Tensor:
    """Return what a candidate has to pay for being near to the predictions of many texts.

    It is the soft maximum of their cosines. Texts about the candidate itself do not count, which
    else would make those pay more that are known from training.
    """
    numbers = np.unique(np.concatenate([keys, candidate_keys]), return_inverse=True)[1]
    about = torch.tensor(numbers[: len(keys)], device=predicted.device)
    own = torch.tensor(numbers[len(keys) :], device=predicted.device)
    parts = []
    for some in torch.arange(len(candidates), device=predicted.device).split(4000):
        cosines = normalize(predicted) @ candidates[some].T
        cosines[about[:, None] == own[some]] = -1.0
        parts.append(HEAT * torch.logsumexp(cosines / HEAT, dim=0))
    return SHARE * torch.cat(parts)
