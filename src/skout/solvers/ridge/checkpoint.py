"""Checkpoints of the pass that sums moments, and the bar that shows how far it is."""

from __future__ import annotations

import hashlib
import itertools
from numbers import Integral
from typing import Any

import numpy as np
from tqdm import tqdm

from ..._numerics.arrays import row_keys
from ..._numerics.checkpoints import Checkpoint, digest, update_digest
from ..._numerics.typing import Inputs, Table
from ...basis import Engine
from ...basis.moments import MaskedMoments, Moments, TrainingSample
from ...rows import Progress, is_lazy, reads_once

_FIELDS = ("weight", "zz", "zt", "tt", "z_sum", "t_sum", "count")
NO_MISSING = (
    "checkpoint stores the moments of whole rows, and y has missing values: leave checkpoint out, "
    "or fit the rows without them."
)


class RidgeCheckpoint(Checkpoint, Progress):
    """The moments of the blocks that are done, one for each of `n_groups` groups of rows."""

    n_groups: int = 1

    def add_fit(self, engine: Engine, sample: TrainingSample, solver: str) -> None:
        """Add what a fit knows before its pass, and what tells its data from others."""
        parts = (engine.components,) if solver == "direct" else ()
        rows, targets = sample.rows, sample.targets
        totals = [hashlib.sha256() for _ in range(2)]
        beside: dict[str, Any] = {"weights": sample.weights, "folds": sample.groups}
        # read in turn, since they may be of one stream
        for stretches in itertools.zip_longest(rows.compared(), targets.compared()):
            for column, stretch, total in zip((rows, targets), stretches, totals, strict=True):
                if stretch is not None:
                    update_digest(total, column.take(stretch))
        self.add_facts(
            solver=solver,
            landmarks=digest(*parts, row_keys(engine.landmarks)),
            shape_of_X=f"{rows.shape} {rows.dtype}",
            shape_of_y=f"{targets.shape} {targets.dtype}",
            files_of_X=rows.stamp(),
            files_of_y=targets.stamp(),
            rows_of_X=totals[0].hexdigest()[:16],
            rows_of_y=totals[1].hexdigest()[:16],
            **{name: digest(column) for name, column in beside.items()},
        )
        self.n_groups = sample.n_groups

    def begin(self, blocks: list[slice]) -> tuple[int, list[Moments | None] | None]:
        """Return how many of the blocks are done, and the moments of each group so far."""
        longest = blocks[0].stop - blocks[0].start if blocks else 0
        self.add_facts(blocks=f"{len(blocks)} of up to {longest} rows")
        stored = self.kept()
        if stored is None:
            return 0, None
        totals: list[Moments | None] = [None] * self.n_groups
        for group in range(self.n_groups):
            if f"{group}_zz" in stored:
                fields: dict[str, Any] = {
                    name: stored.get(f"{group}_{name}", np.nan) for name in _FIELDS
                }
                numbers = {name: float(fields[name]) for name in ("weight", "count")}
                totals[group] = Moments(**fields | numbers)
        return int(stored["done"]), totals

    def advance(self, done: int, total: Any) -> None:
        """Write the moments of the first blocks, if the last file is old enough."""
        if self.is_due() and any(isinstance(part, MaskedMoments) for part in total):
            raise ValueError(NO_MISSING)
        moments = {
            f"{group}_{name}": getattr(part, name)
            for group, part in enumerate(total)
            if part is not None
            for name in _FIELDS
        }
        self.keep(done, **moments)


class Bar(Progress):
    """A bar on the screen, if wanted, and a checkpoint, if there is one."""

    verbose: bool
    inner: RidgeCheckpoint | Progress

    def __init__(self, verbose: bool, checkpoint: RidgeCheckpoint | None = None) -> None:
        self.verbose, self.inner = verbose, checkpoint or Progress()
        self._bar: Any = None

    def begin(self, blocks: list[slice]) -> tuple[int, Any]:
        done, total = self.inner.begin(blocks)
        self._bar = tqdm(
            total=len(blocks), initial=done, desc="moments", unit="block", disable=not self.verbose
        )
        return done, total

    def advance(self, done: int, total: object) -> None:
        self.inner.advance(done, total)
        self._bar.update(done - self._bar.n)
        if done == self._bar.total:
            self._bar.close()


def open_checkpoint(X: Inputs, parameters: Table) -> RidgeCheckpoint:
    """Return where a ridge with these parameters keeps its progress; raise where it cannot.

    So it is where an earlier fit left a checkpoint of other data or parameters.
    """
    sketch, seed, device = (parameters[name] for name in ("sketch", "random_state", "device"))
    if is_lazy(X):
        raise ValueError(
            "checkpoint is for a pass in one process. X lies on a cluster, where dask computes "
            "again what is lost: give checkpoint=None."
        )
    if device not in (None, "cpu"):
        raise ValueError(
            f"checkpoint is for a pass on the CPU. Got device={device!r}, where a pass takes "
            "seconds: give checkpoint=None."
        )
    once = reads_once(X)
    if sketch is None or once or not isinstance(seed, Integral):
        raise ValueError(
            "checkpoint needs a sketch, data that can be read again, and a random_state that "
            f"is an int. Got sketch={sketch!r}, random_state={seed!r}"
            f"{' and blocks that can be read only once' if once else ''}."
        )
    names = ("sketch", "random_state", "kernel", "alpha", "cv", "fit_intercept")
    return RidgeCheckpoint(parameters["checkpoint"], **{name: parameters[name] for name in names})
