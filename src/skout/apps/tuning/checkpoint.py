"""Finished trials in a folder, so that a search that was killed goes on where it was."""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from skout.dev import replacing

from .scoring import OutputScoring
from .stacking import Judge

__all__ = ["Checkpoint", "digest_of", "scoring_facts"]


# Shares of the truth of another row in predictions that tell one metric from another.
_WRONG = (0.1, 0.3, 0.5, 1.0)


def digest_of(*items: Any) -> str:
    """Return a name for data and parameters: the same for the same."""
    made = blake2b(digest_size=16)
    for item in items:
        if sparse.issparse(item):
            for part in (item.indptr, item.indices, item.data, np.array(item.shape)):
                made.update(part.tobytes())
        elif isinstance(item, np.ndarray) and item.dtype.kind in "biuf":
            made.update(str((item.shape, item.dtype)).encode())
            made.update(item.tobytes())
        elif isinstance(item, str | int | float | dict | type(None)):
            made.update(json.dumps(item, sort_keys=True, default=repr).encode())
        else:
            made.update(repr([repr(one) for one in item]).encode())
    return made.hexdigest()


def scoring_facts(scoring: OutputScoring, judge: Judge) -> str:
    """Return a text for the scoring of a search, the same in another process.

    A function is known by its name, and by what it says of predictions that are more and more
    wrong: means of the truth of a held-out row and that of the next one.
    """
    if not callable(scoring.scoring):
        return repr(scoring.scoring)
    truth = np.nan_to_num(judge.truth)
    other = np.roll(truth, 1, axis=0)
    tables = [judge.metric((1.0 - share) * truth + share * other) for share in _WRONG]
    return f"{scoring.metric_name} {np.round(tables, 6).tolist()}"


class Checkpoint:
    """A folder with one file for each finished trial of the data and parameters of a digest."""

    def __init__(self, path: Any, facts: str) -> None:
        self.folder = Path(path)
        self.folder.mkdir(parents=True, exist_ok=True)
        known = self.folder / "search.json"
        if known.exists():
            if json.loads(known.read_text(encoding="utf-8")).get("digest") != facts:
                raise ValueError(
                    f"checkpoint={str(path)!r} has trials of other data or parameters: give "
                    "another folder, or delete it."
                )
        else:
            with replacing(known) as part:
                part.write_text(json.dumps({"digest": facts}), encoding="utf-8")

    def _file(self, settings: dict[str, Any]) -> Path:
        return self.folder / f"trial-{digest_of(settings)}.npz"

    def find(self, settings: dict[str, Any]) -> tuple[Any, np.ndarray, np.ndarray] | None:
        """Return what `add` was given of a finished trial, None if it is not finished."""
        file = self._file(settings)
        if not file.exists():
            return None
        with np.load(file, allow_pickle=False) as found:
            return json.loads(str(found["record"])), found["table"], found["F"]

    def add(self, settings: dict[str, Any], record: Any, table: np.ndarray, F: np.ndarray) -> None:
        """Keep a finished trial."""
        with replacing(self._file(settings)) as part, part.open("wb") as file:
            np.savez(file, record=np.array(json.dumps(record)), table=table, F=F)

    def remove(self) -> None:
        """Delete what is of this search, and the folder if it is empty then."""
        for file in (*self.folder.glob("trial-*.npz"), self.folder / "search.json"):
            file.unlink(missing_ok=True)
        with suppress(OSError):  # it has other files
            self.folder.rmdir()
