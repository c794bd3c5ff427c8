"""Checkpoints of long computations, which resume where they were killed.

The state of the work and the facts that it depends on, in one .npz file. It is replaced as a whole,
so that there is always a complete one; and read without executing anything.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import zipfile
from pathlib import Path

import numpy as np
from scipy import sparse

from .arrays import row_keys
from .files import replacing, warn_unwritten
from .objects import Rows
from .typing import ArrayLike, Objects

# Seconds between two files, and seconds of writing beyond which this pause gets longer in
# proportion: writing takes a twentieth of the time at most. Conventions.
_EVERY, _QUICK = 30.0, 1.5


class Checkpoint:
    """A file with the state of some work, and the facts that it depends on.

    A file of work that had other facts is refused.
    """

    def __init__(self, path: str | os.PathLike[str], **facts: object) -> None:
        self.path: Path = Path(path)
        if not self.path.parent.is_dir() or (self.path.exists() and not self.path.is_file()):
            raise ValueError(f"checkpoint must be a file in a folder that exists. Got {path!r}.")
        self.facts: dict[str, str] = {}
        self._stored = self._load() if self.path.exists() else None
        self._written, self._took = time.monotonic(), 0.0
        self.add_facts(**facts)

    def add_facts(self, **facts: object) -> None:
        """Add facts that the result depends on; raise where the file has other values of them."""
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

    def keep(self, done: int = 0, **numbers: ArrayLike) -> None:
        """Write the state, if the last file is old enough.

        The file is replaced as a whole, so that a crash leaves this one or the one before.
        """
        if not self.is_due():
            return
        arrays = {name: np.asarray(number) for name, number in numbers.items()}
        arrays |= {"done": np.array(done), "facts": np.array(json.dumps(self.facts))}
        start = time.monotonic()
        with warn_unwritten(self.path), replacing(self.path) as part, open(part, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        self._written = time.monotonic()
        self._took = self._written - start

    def is_due(self) -> bool:
        """Return whether the last file is old enough for a new one."""
        return time.monotonic() - self._written >= _EVERY * max(1.0, self._took / _QUICK)

    def kept(self) -> dict[str, np.ndarray] | None:
        """Return the state that an earlier run wrote by `keep`, at the first call; else None."""
        stored, self._stored = self._stored, None
        return stored

    def remove(self) -> None:
        """Delete the file: the work is done. A link to it stays."""
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


def digest(*parts: Objects | None) -> str:
    """Return a short hash of arrays, or of lists of keys."""
    total = hashlib.sha256()
    for part in parts:
        update_digest(total, part)
    return total.hexdigest()[:16]


def update_digest(total: hashlib._Hash, part: Objects | None) -> None:
    """Add an array, a sparse matrix, rows or a list of keys to a digest."""
    if sparse.issparse(part):
        csr = part.tocsr()
        for array in (np.diff(csr.indptr), csr.indices, csr.data):
            total.update(np.ascontiguousarray(array).data)
    elif isinstance(part, np.ndarray) and part.dtype.kind != "O":
        total.update(np.ascontiguousarray(part).data)
    else:
        part = row_keys(part) if isinstance(part, Rows) else part
        total.update(_plain(part.tolist() if isinstance(part, np.ndarray) else part).encode())


def _plain(fact: object) -> str:
    """Return a fact as text, which is the same in another process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(fact))
