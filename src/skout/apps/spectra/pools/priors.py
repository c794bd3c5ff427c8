"""How well known a molecule is, before any spectrum: the lists of molecules that it stands on."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from skout.dev import opened

from ..readers.records import FileLike, as_path, plain_number
from .standard import entries

_KEYS, _NUMBERS = ("inchikey", "skeleton", "key"), ("prior", "count", "number")
_LETTERS = 14  # of the skeleton of an InChIKey


class HasKeys(Protocol):
    """Molecules by number, such as a pool: what is used of them is the skeleton of each."""

    def keys(self, indices: np.ndarray) -> np.ndarray: ...


def has_prior(names: Iterable[str]) -> bool:
    """Return whether a table with columns of these names says how well known molecules are."""
    return any(name in names for name in (*_NUMBERS, "sources"))


def prior_of(fields: Mapping[str, str]) -> float:
    """Return how well known a molecule is, from the fields of a table, whose names are lower case.

    The number in "prior", "count" or "number", else how many names are in "sources", with | between
    them, else 1.
    """
    number = next((fields[name] for name in _NUMBERS if name in fields), None)
    if number is not None:
        value = plain_number(number) if number.strip() else 0.0
        if not 0.0 <= value < np.inf:
            raise ValueError(f"prior must have numbers >= 0. Got {number!r}.")
        return value
    return float(len(set((fields.get("sources") or "1").split("|"))))


def read_prior(path: FileLike) -> dict[str, float]:
    """Read how well known molecules are from a table (.csv, also .gz, .bz2 or .xz).

    Parameters
    ----------
    path : path, or binary file
        Molecules are in a column "inchikey", "skeleton" or "key", else in "smiles"; their numbers
        in "prior", "count" or "number", else they are the names in "sources", with | between them,
        else the rows of a molecule.

    Returns
    -------
    prior : dict of str to float
        By the skeleton of the InChIKey, its first 14 letters. Of several rows the sum.

    Examples
    --------
    >>> from io import BytesIO
    >>> from skout.molecules import read_prior
    >>> read_prior(BytesIO(b"smiles,sources\\nCCO,chebi|drugs\\nCCN,drugs\\n"))
    {'LFQSCWFLJHTTHZ': 2.0, 'QUSNBJAOOMFDIB': 1.0}
    """
    with opened(as_path(path)) as stream:
        rows = list(csv.DictReader(io.StringIO(stream.read().decode("utf-8-sig"))))
    names = {str(name).strip().lower(): name for name in (rows[0] if rows else {})}
    key = next((names[name] for name in (*_KEYS, "smiles") if name in names), None)
    if key is None:
        raise ValueError(
            f"A prior needs a column inchikey, skeleton, key or smiles. Got {list(names)}."
        )
    texts = [str(row[key]).strip() for row in rows]
    keys: list[str] = [text[:_LETTERS] for text in texts]
    if key == names.get("smiles"):
        keys = ["" if entry is None else entry.key for entry in entries(texts)]
    prior: dict[str, float] = {}
    for skeleton, row in zip(keys, rows, strict=True):
        value = prior_of({name: row[column] or "" for name, column in names.items()})
        if skeleton:
            prior[skeleton] = prior.get(skeleton, 0.0) + value
    return prior


def check_prior(prior: object) -> None:
    """Raise unless this is None, or numbers of at least 0 by keys."""
    if prior is None:
        return
    if not isinstance(prior, Mapping):
        raise TypeError(
            "prior must be a mapping of InChIKey skeletons to numbers: read_prior(path). Got "
            f"{type(prior).__name__} instead."
        )
    wrong = next((key for key, value in prior.items() if not 0.0 <= value < np.inf), None)
    if wrong is not None:
        raise ValueError(f"prior must have numbers >= 0. Got {prior[wrong]!r} for {wrong!r}.")


def prior_column(
    prior: Mapping[str, float], candidates: HasKeys, indices: np.ndarray
) -> np.ndarray:
    """Return log(1 + number) of candidates, 0 where the prior does not have them."""
    distinct, place = np.unique(indices, return_inverse=True)
    keys = candidates.keys(distinct) if len(distinct) else distinct
    return np.log1p([prior.get(str(key), 0.0) for key in keys])[place]
