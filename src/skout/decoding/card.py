"""The search for the best candidates on a card."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._numerics.arrays import row_slices
from ..rows.device import resolved

__all__ = ["device_top_k"]

# Queries and candidates of a block of scores.
_QUERIES, _CANDIDATES = 4096, 2**16


def device_top_k(
    queries: np.ndarray, embedding: np.ndarray, k: int, device: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest inner products of each query, ties to the lower index, on a device.

    Scores are float64, as on the host; the embedding streams through the device.
    """
    import torch

    device = resolved(device) if isinstance(device, str) else device
    found_index, found_score = [], []
    for some in row_slices(len(queries), _QUERIES):
        Q = torch.as_tensor(queries[some], dtype=torch.float64).to(device)
        best_score = torch.empty((len(Q), 0), dtype=torch.float64, device=device)
        best_index = torch.empty((len(Q), 0), dtype=torch.int64, device=device)
        for part in row_slices(len(embedding), _CANDIDATES):
            E = torch.as_tensor(np.ascontiguousarray(embedding[part])).to(device, torch.float64)
            score, index = _largest(Q @ E.T, min(k, len(E)))
            score = torch.cat([best_score, score], dim=1)
            index = torch.cat([best_index, index + part.start], dim=1)
            order = score.argsort(dim=1, descending=True, stable=True)[:, :k]
            best_score, best_index = score.gather(1, order), index.gather(1, order)
        found_index.append(best_index.cpu().numpy().astype(np.intp))
        found_score.append(best_score.cpu().numpy())
    if not found_index:
        return np.empty((0, k), dtype=np.intp), np.empty((0, k))
    return np.concatenate(found_index), np.concatenate(found_score)


def _largest(S: Any, k: int) -> tuple[Any, Any]:
    """Return the k largest of each row, largest first; of equal ones the first."""
    score, index = S.topk(k, dim=1)
    # where more entries equal the k-th than there is room for, take the first of them
    many = (score[:, -1:] <= S).sum(dim=1) > k
    if bool(many.any()):
        rows = many.nonzero()[:, 0]
        order = S[rows].argsort(dim=1, descending=True, stable=True)[:, :k]
        index[rows], score[rows] = order, S[rows].gather(1, order)
    by_index = index.argsort(dim=1)
    index, score = index.gather(1, by_index), score.gather(1, by_index)
    order = score.argsort(dim=1, descending=True, stable=True)
    return score.gather(1, order), index.gather(1, order)
