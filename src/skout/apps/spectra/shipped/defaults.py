"""The model and the pool that are used where none is passed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skout import SpectrumIdentifier, load
from skout.datasets import cache_folder

from ..pools import MoleculePool

_FOLDER = Path(__file__).parent
MODEL, MOLECULES = _FOLDER / "massbank.skout", _FOLDER / "molecules.tsv.xz"
#: Fingerprints of the default pool. Paths and MACCS keys would take two thirds of the time of a
#: pool, 3.0 of 4.2 ms a molecule.
FINGERPRINTS: dict[str, Any] = {"kind": ["morgan", "counts", "pairs"], "n_bits": 2048, "radius": 2}


def default_model() -> SpectrumIdentifier:
    """Return the model that comes with skout."""
    if not MODEL.is_file():
        raise FileNotFoundError(
            f"This copy of skout has no trained model: there is no {MODEL.name}. Make one with "
            "`skout models build massbank -o m.skout`, and give it as --model m.skout."
        )
    model: SpectrumIdentifier = load(MODEL)
    return model


def default_pool(*, n_jobs: int = -1, verbose: bool = False) -> MoleculePool:
    """Return the pool of the molecules that come with skout, which is built the first time.

    It lies in the cache of the user, or in the folder SKOUT_CACHE. Killed while it builds, the next
    call goes on where it was.

    Parameters
    ----------
    n_jobs : int, default -1
        Processes that build it; -1 takes all cores.
    verbose : bool, default False
        Whether to show progress.
    """
    path = _place(FINGERPRINTS)
    if path.is_dir():
        return MoleculePool.open(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return MoleculePool.build(
            [MOLECULES], path, fingerprints=FINGERPRINTS, n_jobs=n_jobs, batch=1000, verbose=verbose
        )
    except FileExistsError:  # another process was faster
        return MoleculePool.open(path)


def is_built() -> bool:
    """Return whether the default pool is in the cache."""
    return _place(FINGERPRINTS).is_dir()


def _place(settings: Mapping[str, Any]) -> Path:
    """Return where the pool of these molecules and settings is."""
    digest = hashlib.sha256(MOLECULES.read_bytes() + json.dumps(settings, sort_keys=True).encode())
    return cache_folder() / "pools" / f"open-molecules-{digest.hexdigest()[:12]}.skpool"
