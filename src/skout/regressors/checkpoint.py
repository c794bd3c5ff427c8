"""Checkpoints of a pass over the data: a fit that was killed goes on where it was.

The moments of the blocks so far, and what they are moments of, in one .npz file. It is replaced as
a whole, so that there is always a complete one; and read without executing anything.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import time
import zipfile
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from tqdm.auto import tqdm

from .._numerics.arrays import row_keys
from .._numerics.files import replacing, warn_unwritten
from .._numerics.objects import Rows
from ..basis import Engine
from ..basis.passes import Sample
from ..rows import Progress, Source, is_lazy, reads_once
from ..solvers.moments import Moments

__all__ = ["NO_HOLES", "Bar", "Checkpoint", "digest", "open_checkpoint"]

# Seconds between two files.
_EVERY = 30.0
_FIELDS = ("weight", "zz", "zt", "tt", "z_sum", "t_sum", "count")

Totals = list[Moments | None]
NO_HOLES = (
    "checkpoint stores the moments of whole rows, and y has missing values: leave checkpoint out, "
    "or fit the rows without them."
)


class Checkpoint(Progress):
    """A file with the moments of the blocks that are done, and the facts that they depend on.

    A file of a fit that had other facts is refused.
    """

    def __init__(self, path: Any, **facts: Any) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir() or (self.path.exists() and not self.path.is_file()):
            raise ValueError(f"checkpoint must be a file in a folder that exists. Got {path!r}.")
        self.facts: dict[str, str] = {}
        self._stored = self._load() if self.path.exists() else None
        self._written = time.monotonic()
        self.add_facts(**facts)

    def add_facts(self, **facts: Any) -> None:
        """Add what the result depends on too, and raise where the file says otherwise."""
        self.facts |= {name: _plain(fact) for name, fact in facts.items()}
        if self._stored is None:
            return
        stored = json.loads(str(self._stored["facts"]))
        for name in facts:
            if stored.get(name) != self.facts[name]:
                raise ValueError(
                    f"checkpoint {str(self.path)!r} is of another fit: {name.replace('_', ' ')} "
                    f"is {stored.get(name)} there and {self.facts[name]} here. Fit with the same "
                    "data and parameters to go on with it, or delete the file to begin anew."
                )

    def add_fit(self, engine: Engine, sample: Sample, choice: Any = None) -> None:
        """Add what a fit knows before its pass, and what tells its data from others."""
        has_components = choice is None or not choice.without_moments
        parts = (engine.components,) if has_components else ()
        landmarks = digest(*parts, row_keys(engine.landmarks))
        cg = choice is not None and choice.by_cg
        self.add_facts(solver="cg" if cg else "direct", landmarks=landmarks)
        self.add_facts(**_facts_of(sample))
        self.n_groups = sample.n_groups

    def begin(self, blocks: list[slice]) -> tuple[int, Totals | None]:
        """Return how many of the blocks are done, and the moments of each group so far."""
        longest = blocks[0].stop - blocks[0].start if blocks else 0
        self.add_facts(blocks=f"{len(blocks)} of up to {longest} rows")
        if self._stored is None:
            return 0, None
        stored, self._stored = self._stored, None
        totals: Totals = [None] * self.n_groups
        for group in range(self.n_groups):
            if f"{group}_zz" in stored:
                fields: dict[str, Any] = {
                    name: stored.get(f"{group}_{name}", np.nan) for name in _FIELDS
                }
                numbers = {name: float(fields[name]) for name in ("weight", "count")}
                totals[group] = Moments(**fields | numbers)
        return int(stored["done"]), totals

    def advance(self, done: int, total: Totals) -> None:
        """Write the moments of the first blocks, if the last file is old enough."""
        if self._is_due() and any(hasattr(part, "codes") for part in total):
            raise ValueError(NO_HOLES)
        moments = {
            f"{group}_{name}": getattr(part, name)
            for group, part in enumerate(total)
            if part is not None
            for name in _FIELDS
        }
        self.keep(done, **moments)

    def keep(self, done: int = 0, **numbers: Any) -> None:
        """Write the state of a solver, if the last file is old enough.

        The file is replaced as a whole, so that a crash leaves this one or the one before.
        """
        if not self._is_due():
            return
        arrays = {name: np.asarray(number) for name, number in numbers.items()}
        arrays |= {"done": np.array(done), "facts": np.array(json.dumps(self.facts))}
        with warn_unwritten(self.path), replacing(self.path) as part, open(part, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        self._written = time.monotonic()

    def _is_due(self) -> bool:
        return time.monotonic() - self._written >= _EVERY

    def kept(self) -> dict[str, np.ndarray] | None:
        """Return what an earlier fit of the same data left by `keep`."""
        stored, self._stored = self._stored, None
        return stored

    def remove(self) -> None:
        """Delete the file: the fit is done. A link to it stays."""
        self.path.resolve().unlink(missing_ok=True)

    def _load(self) -> dict[str, np.ndarray]:
        try:
            with np.load(self.path, allow_pickle=False) as file:
                stored = {name: file[name] for name in file.files}
            if not {"done", "facts"} <= stored.keys():
                raise ValueError("it has no facts")
            return stored
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"checkpoint {str(self.path)!r} is not a checkpoint that can be read ({error}). "
                "Give another path, or delete the file to begin anew."
            ) from error


class Bar(Progress):
    """A bar on the screen, if wanted, and a checkpoint, if there is one."""

    def __init__(self, verbose: bool, checkpoint: Checkpoint | None = None) -> None:
        self.verbose, self.inner = verbose, checkpoint or Progress()
        self._bar: Any = None

    def begin(self, blocks: list[slice]) -> tuple[int, Any]:
        done, total = self.inner.begin(blocks)
        self._bar = tqdm(
            total=len(blocks), initial=done, desc="moments", unit="block", disable=not self.verbose
        )
        return done, total

    def advance(self, done: int, total: Any) -> None:
        self.inner.advance(done, total)
        self._bar.update(done - self._bar.n)
        if done == self._bar.total:
            self._bar.close()


def _facts_of(sample: Sample) -> dict[str, Any]:
    """Return what tells these data from others."""
    rows, targets = sample.rows, sample.targets
    found = _digests(rows, targets)
    return {
        "shape_of_X": f"{rows.shape} {rows.dtype}",
        "shape_of_y": f"{targets.shape} {targets.dtype}",
        "files_of_X": rows.stamp(),
        "files_of_y": targets.stamp(),
        "rows_of_X": found[0],
        "rows_of_y": found[1],
        "weights": digest(sample.weights),
        "folds": digest(sample.groups),
    }


def _digests(*columns: Source) -> list[str]:
    """Return a digest of each column; they are read in turn, since they may be of one stream."""
    found = [hashlib.sha256() for _ in columns]
    for stretches in itertools.zip_longest(*(column.compared() for column in columns)):
        for column, some, total in zip(columns, stretches, found, strict=True):
            if some is not None:
                _update(total, column.take(some))
    return [total.hexdigest()[:16] for total in found]


def digest(*parts: Any) -> str:
    """Return a short name for arrays, or lists of keys, that others do not have."""
    found = hashlib.sha256()
    for part in parts:
        _update(found, part)
    return found.hexdigest()[:16]


def _update(found: Any, part: Any) -> None:
    """Add an array, a sparse matrix, rows or a list of keys to a digest."""
    if sparse.issparse(part):
        part = part.tocsr()
        for array in (np.diff(part.indptr), part.indices, part.data):
            found.update(np.ascontiguousarray(array).data)
    elif isinstance(part, np.ndarray) and part.dtype.kind != "O":
        found.update(np.ascontiguousarray(part).data)
    else:
        part = row_keys(part) if isinstance(part, Rows) else part
        found.update(_plain(part.tolist() if isinstance(part, np.ndarray) else part).encode())


def _plain(fact: Any) -> str:
    """Return a fact as text, which is the same in another process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(fact))


def open_checkpoint(model: Any, X: Any) -> Checkpoint:
    """Return where a ridge keeps its progress, after a look at what an earlier fit left there."""
    if is_lazy(X):
        raise ValueError(
            "checkpoint is for a pass in one process. X lies on a cluster, where dask computes "
            "again what is lost: give checkpoint=None."
        )
    if model.device not in (None, "cpu"):
        raise ValueError(
            f"checkpoint is for a pass on the CPU. Got device={model.device!r}, where a pass takes "
            "seconds: give checkpoint=None."
        )
    once = reads_once(X)
    if model.sketch is None or once or not isinstance(model.random_state, Integral):
        raise ValueError(
            "checkpoint needs a sketch, data that can be read again, and a random_state that "
            f"is an int. Got sketch={model.sketch!r}, random_state={model.random_state!r}"
            f"{' and blocks that can be read only once' if once else ''}."
        )
    names = ("kernel", "sketch", "alpha", "cv", "fit_intercept", "random_state")
    return Checkpoint(model.checkpoint, **{name: getattr(model, name) for name in names})
