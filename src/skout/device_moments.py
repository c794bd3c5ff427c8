"""Moments on a device: (n, Z'Z, Z'T, ...) summed in float64 where the rows lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._linalg import PartlyWhitened, off_diagonal
from ._namespace import torch_dtype
from .accuracy import Plan
from .device import OnDevice
from .moments import Moments, Sample

__all__ = ["device_moments"]

# Columns of a tile of Z'Z, of which only those on and above the diagonal are computed.
_TILE = 256


def device_moments(
    features: Any,
    sample: Sample,
    plan: Plan,
    components: np.ndarray,
    mean: np.ndarray | None,
    *,
    finish: bool,
) -> list[Moments]:
    """Return the moments of coordinates, or of features as far as the plan says, one a group.

    Parameters
    ----------
    features : LandmarkFeatures
    sample : Sample
        Its rows are `OnDevice`.
    plan : Plan
        With `size` = p all features are multiplied with components', whatever their form.
    components : ndarray of shape (p, m)
    mean : ndarray of shape (m,), optional
        Subtracted from the features.
    finish : bool
        Whether moments of features become those of coordinates.
    """
    import torch

    rows: OnDevice = sample.rows
    phi = features.on(rows.device, rows.kind or plan.dtype)
    kind = torch_dtype(rows.kind or plan.dtype)
    prepare = _preparation(plan, components, mean, rows.device, kind)
    d = sample.targets.shape[1]
    sums = [_Sums(len(components), d, rows.device) for _ in range(sample.n_groups)]
    others = [sample.targets]
    others += [] if sample.weights is None else [sample.weights]
    origin = 0.0 if sample.origin is None else torch.as_tensor(sample.origin).to(rows.device)
    for some, (part, T, *weights) in rows.blocks(max(phi.width, len(components)), *others):
        Z, T = prepare(phi(part)), T - origin
        if weights:
            root = weights[0].sqrt()[:, None]
            Z, T = Z * root.to(kind), T * root
        else:
            root = torch.ones((len(T), 1), dtype=torch.float64, device=rows.device)
        if sample.groups is None:
            sums[0].add(Z, T, root)
            continue
        groups = torch.as_tensor(sample.groups[some]).to(rows.device)
        for group in torch.unique(groups).tolist():
            own = groups == group
            sums[group].add(Z[own], T[own], root[own])
    if finish and plan.size < len(components):
        left = PartlyWhitened(components, plan.size).finish()
        shift = None if mean is None else components @ mean
        for total in sums:
            total.whiten(left, shift)
    return [total.moments() for total in sums]


def _preparation(plan: Plan, C: np.ndarray, mean: np.ndarray | None, device: Any, kind: Any) -> Any:
    """Return what is done to each block of features, see `partial_whitening`."""
    import torch

    def moved(array: np.ndarray) -> Any:
        return torch.as_tensor(np.ascontiguousarray(array)).to(device, kind)

    p, s = len(C), plan.size
    if mean is not None:
        centre = moved(mean)
        return lambda F: F.sub_(centre)
    if s == p:
        full = moved(C.T)
        return lambda F: F @ full
    if s == 0:
        return lambda F: F
    first, share = moved(C[:s, :s].T), moved(off_diagonal(C, s).T)

    def apply(F: Any) -> Any:
        F[:, :s] = F[:, :s] @ first
        F[:, s:].addmm_(F[:, :s], share, alpha=-1.0)
        return F

    return apply


class _Sums:
    """Running sums on the device."""

    def __init__(self, p: int, d: int, device: Any) -> None:
        import torch

        self.zz = torch.zeros((p, p), dtype=torch.float64, device=device)
        self.cross = torch.zeros((p, d + 1), dtype=torch.float64, device=device)
        self.right = torch.zeros((d + 1, d + 1), dtype=torch.float64, device=device)
        self.tiles = [(i, min(p, i + _TILE)) for i in range(0, p, _TILE)]

    def add(self, Z: Any, T: Any, root: Any) -> None:
        """Add a block; T and root are float64, and Z'Z is of the precision of Z."""
        import torch

        right = torch.cat([T, root], dim=1)
        self.cross += Z.T @ right.to(Z.dtype)
        self.right += right.T @ right
        for a, b in self.tiles:  # the rest is the same again
            if Z.dtype == torch.float64:
                self.zz[a:b, a:].addmm_(Z[:, a:b].T, Z[:, a:])
            else:
                self.zz[a:b, a:] += Z[:, a:b].T @ Z[:, a:]

    def whiten(self, left: np.ndarray, shift: np.ndarray | None) -> None:
        """Turn the sums of F into those of F left' + 1 shift', see `Moments`."""
        import torch

        M = torch.as_tensor(left).to(self.zz.device)
        upper = self.zz.triu()
        self.zz = M @ (upper + upper.triu(1).T) @ M.T
        self.cross = M @ self.cross
        if shift is None:
            return
        v = torch.as_tensor(shift).to(self.zz.device)
        s, n = self.cross[:, -1], self.right[-1, -1]
        self.zz += torch.outer(s, v) + torch.outer(v, s + n * v)
        self.cross += torch.outer(v, self.right[-1])

    def moments(self) -> Moments:
        """Return the sums on the host."""
        upper = self.zz.triu()
        zz = (upper + upper.triu(1).T).cpu().numpy()
        cross, right = self.cross.cpu().numpy(), self.right.cpu().numpy()
        return Moments(
            float(right[-1, -1]),
            zz,
            np.ascontiguousarray(cross[:, :-1]),
            right.diagonal()[:-1].copy(),
            np.ascontiguousarray(cross[:, -1]),
            right[:-1, -1].copy(),
        )
