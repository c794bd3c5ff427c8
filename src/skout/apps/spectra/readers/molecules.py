"""Read molecules: SDF by RDKit, lines of SMILES, tables with a column of SMILES."""

from __future__ import annotations

import csv
import io
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from skout.dev import LimitError, chemistry, ending
from skout.readers import LIMITS

from .records import Faults, File, FileLike, Problem, as_path, lines_of, read_all

_SDF, _LINES = (".sdf", ".sd"), (".smi", ".smiles", ".ism", ".can", ".txt", ".csv", ".tsv")
_HEADERS = ("smiles", "canonical_smiles", "smiles_2d")
# Different fields of a file.
_MOST_FIELDS = 1000
# Lines of a quoted cell, at most: one that is never closed must not take the rest of a file.
_CELL_LINES = 100
# A number (of a record, or of a line), SMILES, and fields.
Row = tuple[int, str, dict[str, str]]


@dataclass(frozen=True, eq=False)
class MoleculeTable:
    """Molecules as SMILES, with what the file says about each.

    Parameters
    ----------
    smiles : ndarray of object
    fields : dict of str to ndarray of object
        One text for each molecule, "" where the file has none.
    record : ndarray of int
        The number of each in its file; the first is 1.
    problems : tuple of Problem
        Records that were left out.
    """

    smiles: np.ndarray
    fields: Mapping[str, np.ndarray] = field(default_factory=dict)
    record: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    problems: tuple[Problem, ...] = ()

    def __len__(self) -> int:
        return len(self.smiles)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.fields[name]

    def __repr__(self) -> str:
        return f"MoleculeTable({len(self)} molecules, {', '.join(self.fields) or 'no fields'})"


def _table(rows: Iterable[Row]) -> MoleculeTable:
    """Return a table of rows, which are taken one at a time."""
    record = array("q")
    smiles: list[str] = []
    columns: dict[str, list[str]] = {}
    for number, text, fields in rows:
        for name in fields:
            if name not in columns:
                columns[name] = [""] * len(smiles)
        if len(columns) > _MOST_FIELDS:
            raise LimitError(f"record {number}: more than {_MOST_FIELDS:,} different fields.")
        for name, values in columns.items():
            values.append(fields.get(name, ""))
        record.append(number)
        smiles.append(text)
    named = {name: np.array(values, dtype=object) for name, values in columns.items()}
    return MoleculeTable(np.array(smiles, dtype=object), named, np.array(record, dtype=np.int64))


def read_smiles(
    path: FileLike, *, column: str | None = None, on_error: str = "raise", limit: int | None = None
) -> MoleculeTable:
    """Read SMILES from lines "SMILES name", or from a column of a CSV or TSV table.

    Whether they are valid is not checked: `skout.molecules.parse_smiles` does that.

    Parameters
    ----------
    path : path, or binary file
        At a path it may be compressed: .gz, .bz2 or .xz. A first line with a column "smiles" makes
        it a table.
    column : str, optional
        The column that has the SMILES, by its name.
    on_error : "raise" or "skip", default "raise"
        What to do with a line that has no SMILES, or other columns than the header.
    limit : int, optional
        Stop after so many molecules.

    Returns
    -------
    table : MoleculeTable

    Examples
    --------
    >>> from io import BytesIO
    >>> from skout.readers import read_smiles
    >>> table = read_smiles(BytesIO(b"CCO ethanol\\nC methane\\n"))
    >>> table.smiles, table["name"]
    (array(['CCO', 'C'], dtype=object), array(['ethanol', 'methane'], dtype=object))
    """
    return read_all(path, on_error, limit, partial(_smiles_of, column), _table, "molecule")


def _smiles_of(column: str | None, path: File, faults: Faults) -> Iterator[Row]:
    """Yield the number, SMILES and fields of records."""
    rows = _rows(lines_of(path, faults, "\r\n"), column, faults.name)
    for number, (line, smiles, fields) in enumerate(rows, 1):
        if smiles:
            yield number, smiles, fields
        else:
            faults.add(number, line, fields["problem"])


def _rows(lines: Iterator[tuple[int, str]], column: str | None, name: str) -> Iterator[Row]:
    """Yield line, SMILES and fields; without SMILES the fields say what is wrong."""
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        return
    sign = "\t" if "\t" in first[1] else max(",;", key=first[1].count)
    names = [name.strip() for name in _split(first[1], sign)[0]]
    plain = [name.lower() for name in names]
    wanted = [column.lower()] if column is not None else list(_HEADERS)
    place = next((plain.index(name) for name in wanted if name in plain), None)
    if place is None and column is not None:
        raise ValueError(f"{name} has no column {column!r}; it has {', '.join(names)}.")
    if place is None:
        yield _from_line(*first)
        for number, line in lines:
            if line.strip():
                yield _from_line(number, line)
        return
    for number, cells, fault in _records(lines, sign):
        yield _from_cells(number, cells, names, place, fault)


def _records(lines: Iterator[tuple[int, str]], sign: str) -> Iterator[tuple[int, list[str], str]]:
    """Yield the first line and the cells of each row of a table, and what is wrong with it, or "".

    Quoted cells may have line ends. Where a quote is opened and not closed as it should be, its
    line is a row of its own.
    """
    ahead: deque[tuple[int, str]] = deque()

    def following() -> tuple[int, str] | None:
        return ahead.popleft() if ahead else next(lines, None)

    while (first := following()) is not None:
        number, row = first
        more: list[tuple[int, str]] = []
        while _is_open(row, sign) and len(more) < _CELL_LINES and (after := following()):
            more.append(after)
            row = f"{row}\n{after[1]}"
        cells, fault = _split(row, sign, strict=bool(more))
        if fault and more:
            ahead.extendleft(reversed(more))
            cells, fault = _split(first[1], sign)
        if row.strip():
            yield number, cells, fault


def _split(row: str, sign: str, *, strict: bool = False) -> tuple[list[str], str]:
    """Return the cells of a row, and what is wrong with it, or ""."""
    try:
        return next(csv.reader([row], delimiter=sign, strict=strict), []), ""
    except csv.Error as error:
        too_long = f"a cell has more than {csv.field_size_limit():,} letters"
        return [], f"it is no row of a table ({too_long if 'limit' in str(error) else error})."


def _is_open(row: str, sign: str) -> bool:
    """Whether a quoted cell goes on after this text: then a line more makes no row more."""
    if '"' not in row:
        return False
    try:
        return len([*csv.reader([row, ""], delimiter=sign)]) == 1
    except csv.Error:
        return False


def _from_line(number: int, line: str) -> Row:
    smiles, _, name = line.strip().replace("\t", " ").partition(" ")
    return number, smiles, {"name": name.strip()}


def _from_cells(number: int, cells: list[str], names: list[str], place: int, fault: str) -> Row:
    if fault:
        return number, "", {"problem": fault}
    if len(cells) != len(names):
        return number, "", {"problem": f"it has {len(cells)} cells for {len(names)} columns."}
    fields = {name: cell.strip() for name, cell in zip(names, cells, strict=True)}
    smiles = fields.pop(names[place])
    return number, smiles, fields if smiles else {"problem": "its SMILES is empty."}


def read_sdf(path: FileLike, *, on_error: str = "raise", limit: int | None = None) -> MoleculeTable:
    """Read molecules from an SDF file, by RDKit (`pip install "skout[chem]"`).

    Parameters
    ----------
    path : path
        It may be compressed.
    on_error : "raise" or "skip", default "raise"
    limit : int, optional
        See `read_smiles`.

    Returns
    -------
    table : MoleculeTable
        With canonical SMILES, the title as "name" and the properties of the file.

    Examples
    --------
    >>> from skout.readers import read_sdf
    >>> read_sdf("library.sdf.gz")  # doctest: +SKIP
    MoleculeTable(1200 molecules, name, formula)
    """
    return read_all(path, on_error, limit, _sdf_of, _table, "molecule")


def _sdf_of(path: File, faults: Faults) -> Iterator[Row]:
    """Yield the number, SMILES and fields of molecules."""
    Chem = chemistry()
    for number, (line, text) in enumerate(_blocks(lines_of(path, faults, "\r\n")), 1):
        if not text:
            faults.add(number, line, f"it has more than {LIMITS.record:,} letters.")
            continue
        molecule = next(Chem.ForwardSDMolSupplier(io.BytesIO(text)), None)
        if molecule is None:
            faults.add(number, line, "RDKit cannot read the molecule.")
            continue
        fields = {"name": molecule.GetProp("_Name")} if molecule.HasProp("_Name") else {}
        fields |= {name: molecule.GetProp(name) for name in molecule.GetPropNames()}
        yield number, Chem.MolToSmiles(molecule), fields


def _blocks(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, bytes]]:
    """Yield the first line and the text of each molecule of SDF, none of one that is too large."""
    first, size, block = 1, 0, bytearray()
    for number, line in lines:
        size += len(line) + 1
        block += line.encode() + b"\n"
        if size > LIMITS.record:
            block.clear()
        if line.startswith("$$$$"):
            yield first, bytes(block)
            first, size, block = number + 1, 0, bytearray()
    if block.strip() or size > LIMITS.record:
        yield first, bytes(block)


# One at a time ---------------------------------------------------------------------------------


def is_molecule_file(text: str) -> bool:
    """Whether a text is the name of a file of molecules, by its end; no SMILES ends so."""
    return ending(text) in (*_SDF, *_LINES)


def stream_molecules(
    path: FileLike, *, column: str | None = None, on_error: str = "raise"
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the SMILES and fields of a file, one at a time: it may be larger than memory.

    Names of fields are in lower case.

    A name that ends in .sdf or .sd is read as SDF, all else as in `read_smiles`.
    """
    file = as_path(path)
    faults = Faults(file, on_error)
    is_sdf = isinstance(file, Path) and ending(file) in _SDF
    with faults.reported():
        records = _sdf_of(file, faults) if is_sdf else _smiles_of(column, file, faults)
        is_empty = True
        for _, smiles, fields in records:
            is_empty = False
            yield smiles, {field.strip().lower(): value for field, value in fields.items()}
        if is_empty:
            raise faults.nothing("molecule")
