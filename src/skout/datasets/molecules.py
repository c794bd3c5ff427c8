"""Parsers of files about molecules: SMILES, captions, properties, spectra."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.extras import extra
from .._numerics.unpacking import opened
from ..decoding import CandidateSets
from ..kernels.spectrum_rows import Spectra
from .catalogue import Source

__all__ = [
    "iupac_csv",
    "massbank_parquet",
    "pairs_csv",
    "properties_parquet",
    "qm9_csv",
    "qm9_parquet",
    "read_csv",
]

Fields = dict[str, Any]


# CSV ---------------------------------------------------------------------------------------------


def read_csv(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a CSV file, which may be compressed."""
    with opened(path) as stream, io.TextIOWrapper(stream, encoding="utf-8", newline="") as text:
        header, *rows = csv.reader(text)
    return header, [row for row in rows if row]


def _columns(path: Path) -> dict[str, np.ndarray]:
    """Return the columns of a CSV file, as arrays of strings."""
    header, rows = read_csv(path)
    columns = zip(*rows, strict=True)
    return {name: _strings(column) for name, column in zip(header, columns, strict=True)}


def _strings(values: Any) -> np.ndarray:
    return np.array(values, dtype=object)


def _split(parts: np.ndarray) -> dict[str, np.ndarray]:
    known = ("train", "validation", "test")
    return {part: np.flatnonzero(parts == part) for part in known if (parts == part).any()}


def qm9_csv(paths: list[Path], source: Source) -> Fields:
    """Inputs and outputs are the same molecules: from a string to a graph."""
    table = _columns(paths[0])
    extra = {"index": table["Index"].astype(np.int64)}
    return {"X": table["SMILES"], "Y": table["SMILES"], "extra": extra}


def pairs_csv(paths: list[Path], source: Source) -> Fields:
    """Captions to SMILES of one of the sources; a second file is the pool of candidates."""
    table = _columns(paths[0])
    own = table["source"] == source.name
    table = {name: column[own] for name, column in table.items()}
    fields: Fields = {"X": table["description"], "Y": table["smiles"]}
    fields |= {"split": _split(table["split"]), "extra": {"cid": table["cid"].astype(np.int64)}}
    if len(paths) > 1:
        fields["candidates"] = _columns(paths[1])["smiles"]
    return fields


def iupac_csv(paths: list[Path], source: Source) -> Fields:
    table = _columns(paths[0])
    extra = {"cid": table["cid"].astype(np.int64)}
    split = _split(table["split"])
    return {"X": table["iupac"], "Y": table["smiles"], "split": split, "extra": extra}


# Parquet -----------------------------------------------------------------------------------------


def _parquet(path: Path) -> Any:
    with extra("disk", f"{path.name} is read by pyarrow"):
        from pyarrow import parquet
    return parquet.read_table(path)


def qm9_parquet(paths: list[Path], source: Source) -> Fields:
    table = _parquet(paths[0])
    names = [name for name in table.column_names if name not in ("Index", "SMILES", "N_atoms")]
    Y = np.column_stack([table[name].to_numpy() for name in names])
    extra = {"index": table["Index"].to_numpy(), "n_atoms": table["N_atoms"].to_numpy()}
    X = _strings(table["SMILES"].to_pylist())
    return {"X": X, "Y": Y, "names": {"outputs": np.array(names)}, "extra": extra}


def properties_parquet(paths: list[Path], source: Source) -> Fields:
    """SMILES to a CSR matrix of 0 and 1, one column a property."""
    table = _parquet(paths[0])
    lists = table["properties"].combine_chunks()
    coded = lists.flatten().dictionary_encode()
    names = np.array(coded.dictionary.to_pylist())
    column = np.empty(len(names), dtype=np.int64)
    column[np.argsort(names)] = np.arange(len(names))  # in the order of the alphabet
    indices, indptr = column[coded.indices.to_numpy()], _indptr(lists)
    cells = (np.ones(len(indices), dtype=np.int32), indices, indptr)
    Y = sparse.csr_matrix(cells, shape=(len(lists), len(names)))
    Y.sort_indices()
    X = _strings(table["smiles"].to_pylist())
    return {"X": X, "Y": Y, "names": {"outputs": np.sort(names)}}


def massbank_parquet(paths: list[Path], source: Source) -> Fields:
    """Spectra to SMILES; the candidates of a spectrum are the molecules of its formula."""
    table, pool = _parquet(paths[0]), _parquet(paths[1])
    apart = ("mz", "intensity", "smiles")
    extra = {name: table[name].to_numpy() for name in table.column_names if name not in apart}
    candidates = same_formula(
        np.array(extra["formula"], dtype=str),
        np.array(pool["formula"].to_pylist()),
        _strings(pool["smiles_2d"].to_pylist()),
    )
    Y = _strings(table["smiles"].to_pylist())
    return {"X": _spectra(table), "Y": Y, "candidates": candidates, "extra": extra}


def _indptr(lists: Any) -> np.ndarray:
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _spectra(table: Any) -> Spectra:
    """Return rows as the kernels on spectra take them, each sorted by mass."""
    mz, intensity = (table[name].combine_chunks() for name in ("mz", "intensity"))
    indptr = _indptr(mz)
    row = np.repeat(np.arange(len(mz)), np.diff(indptr))
    masses = mz.flatten().to_numpy().astype(np.float64)
    order = np.lexsort((masses, row))
    precursor = table["precursor_mz"].to_numpy().astype(np.float64)  # NaN where it is not known
    values = intensity.flatten().to_numpy().astype(np.float64)
    return Spectra(indptr, masses[order], values[order], precursor[row])


def same_formula(formulas: np.ndarray, pool_formulas: np.ndarray, pool: Any) -> CandidateSets:
    """Return for each of `formulas` the members of the pool that have it; maybe none."""
    order = np.argsort(pool_formulas, kind="stable")
    names, start, count = np.unique(pool_formulas[order], return_index=True, return_counts=True)
    place = np.minimum(np.searchsorted(names, formulas), len(names) - 1)
    sizes = np.where(names[place] == formulas, count[place], 0)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    within = np.arange(indptr[-1]) - np.repeat(indptr[:-1], sizes)
    return CandidateSets(pool, indptr, order[np.repeat(start[place], sizes) + within])
