"""A kernel on molecules that have several fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from skout.kernels import Kernel, PackedBits, Tanimoto
from skout.molecules import fingerprints
from skout.typing import KernelRows
from skout.typing import Rows as Objects

from .candidates import CandidateFacts, ReadFingerprints


def widths_of(settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the bits of each fingerprint that settings of `skout.molecules.fingerprints` make."""
    settings_each = ({**settings, "kind": kind} for kind in _kinds(settings))
    return tuple(fingerprints(["C"], **each).n_bits for each in settings_each)


def _kinds(settings: Mapping[str, Any]) -> list[str]:
    kind = settings["kind"]
    return [kind] if isinstance(kind, str) else list(kind)


def fingerprint_reader(pool: CandidateFacts, settings: Mapping[str, Any]) -> ReadFingerprints:
    """Return what reads fingerprints of these settings from a pool, which may have more kinds."""
    has = dict(getattr(pool, "fingerprint_settings", settings))
    if has == settings:
        return pool.fingerprints
    kinds = _kinds(has)
    if has | {"kind": None} != {**settings, "kind": None} or set(_kinds(settings)) - set(kinds):
        raise ValueError(
            f"The pool has the fingerprints {has}, and the model was fitted on {dict(settings)}: "
            "fit it with pool=, or build the pool with these."
        )
    ends = np.cumsum([0, *widths_of(has)])
    columns = np.concatenate(
        [np.arange(*ends[i : i + 2]) for i in map(kinds.index, _kinds(settings))]
    )

    def some_kinds(indices: np.ndarray) -> KernelRows:
        return Tanimoto().encode(pool.fingerprints(indices).unpack(bool)[:, columns])

    return some_kinds


class SideBySide(Kernel):
    """k(a, b) = exp(-gamma (2 - 2 t(a, b))), t the mean Tanimoto of fingerprints side by side.

    A long fingerprint, or one of many bits, counts no more than another.

    Parameters
    ----------
    gamma : float, default 1.0
    widths : tuple of int
        Bits of each fingerprint.
    """

    compares = "sets"
    normalized = True

    def __init__(self, gamma: float = 1.0, widths: tuple[int, ...] = ()) -> None:
        self.gamma = gamma
        self.widths = widths

    def encode(self, objects: Objects) -> KernelRows:
        """Return packed bits."""
        rows = Tanimoto().encode(objects)
        if sum(self.widths) != rows.shape[1]:
            raise ValueError(f"widths must sum to {rows.shape[1]}. Got {self.widths}.")
        return rows

    def _split(self, rows: PackedBits) -> list[PackedBits]:
        if len(self.widths) == 1:
            return [rows]
        ends = np.cumsum([0, *self.widths])
        if (ends[:-1] % 64 == 0).all():  # whole words
            parts = zip(ends[:-1] // 64, self.widths, strict=True)
            return [PackedBits(rows.words[:, a : a - (-n // 64)], n, rows.dtype) for a, n in parts]
        bits = rows.unpack(bool)
        kernel: Any = Tanimoto()
        return [kernel.encode(bits[:, a:b]) for a, b in pairwise(ends)]

    def against(self, B: PackedBits) -> Callable[..., Any]:
        blocks = [Tanimoto().against(part) for part in self._split(B)]

        def block(A: PackedBits, out: np.ndarray | None = None) -> np.ndarray:
            parts = self._split(A)
            K = blocks[0](parts[0], out)
            for part, tanimoto in zip(parts[1:], blocks[1:], strict=True):
                K += tanimoto(part)
            K *= 2.0 * self.gamma / len(blocks)
            K -= 2.0 * self.gamma
            return np.exp(K, out=K)

        return block

    def diag(self, A: PackedBits) -> np.ndarray:
        return np.ones(len(A))
