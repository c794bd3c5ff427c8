"""From files to the fields of a `Dataset`, one function for each format; nothing is unpickled."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import lzma
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import dense, n_rows
from .._numerics.extras import extra
from .._numerics.objects import pointers, ranges, stack
from .._numerics.typing import Objects, Rows
from ..decoding import CandidateSets
from ..kernels.spectra import Spectra
from .arff import read_arff
from .catalog import DatasetEntry
from .files import SHIPPED

Fields = dict[str, Any]
Parser = Callable[[list[Path], DatasetEntry], Fields]


def parse(paths: list[Path], entry: DatasetEntry, parser: str) -> Fields:
    """Return X, Y and whatever else the files of a data set have, as `Dataset` takes them."""
    fields = PARSERS[parser](paths, entry)
    shape = (n_rows(fields["X"]), _width(fields["X"]), _width(fields["Y"]))
    expected = entry.shape
    # 0 in the declaration: the rows are no vectors
    if any(b not in (0, a) for a, b in zip(shape, expected, strict=True)):
        raise ValueError(
            f"The files of {entry.name!r} must have {expected[0]} rows, {expected[1]} features "
            f"and {expected[2]} outputs. Got {shape[0]}, {shape[1]} and {shape[2]} instead: "
            "they are of another version."
        )
    return fields


def _width(rows: Rows) -> int:
    if isinstance(rows, dict):
        return len(rows)
    shape: tuple[int, ...] = rows.shape
    return int(shape[1]) if len(shape) > 1 else 1


# Arrays ------------------------------------------------------------------------------------------


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def multilabel_npz(paths: list[Path], entry: DatasetEntry) -> Fields:
    z = _arrays(paths[0])
    cells = (z["X_data"].astype(np.float64), z["X_indices"], z["X_indptr"])
    X = sparse.csr_matrix(cells, shape=tuple(z["X_shape"]))
    labels = z["Y_indices"].astype(np.int32)
    ones = (np.ones(len(labels), dtype=np.int32), labels, z["Y_indptr"])
    Y = sparse.csr_matrix(ones, shape=tuple(z["Y_shape"])).toarray()
    return {"X": X, "Y": Y, "names": _names(z, "label_names")}


def multioutput_npz(paths: list[Path], entry: DatasetEntry) -> Fields:
    z = _arrays(paths[0])
    names = _names(z, "target_names") | {"nominal": z["nominal_columns"]}
    return {"X": z["X"], "Y": z["Y"], "names": names}


def regression_npz(paths: list[Path], entry: DatasetEntry) -> Fields:
    z = _arrays(paths[0])
    folds = np.unpackbits(z["test_mask"], axis=0, count=int(z["n"]))  # (n, 10), one 1 a row
    return {"X": z["X"].astype(np.float64), "Y": z["y"], "extra": {"fold": folds.argmax(axis=1)}}


def ranking_npz(paths: list[Path], entry: DatasetEntry) -> Fields:
    z = _arrays(paths[0])
    names = _names(z, "label_names")
    names |= {key: z[key] for key in z if key.startswith("category_values")}
    return {"X": z["X"], "Y": z["ranks"].astype(np.int64), "names": names}


def vectors_npz(paths: list[Path], entry: DatasetEntry) -> Fields:
    z = _arrays(paths[0])
    return {"X": z["tokens"].astype(object), "Y": z["vectors"].astype(np.float64)}


def usps_npz(paths: list[Path], entry: DatasetEntry) -> Fields:
    z = _arrays(paths[0])
    X = np.vstack([z["X_train"], z["X_test"]]).astype(np.float64)
    return {"X": X, "Y": np.concatenate([z["y_train"], z["y_test"]]).astype(np.int64)}


def _names(z: dict[str, np.ndarray], outputs: str) -> dict[str, np.ndarray]:
    return {"features": z["feature_names"], "outputs": z[outputs]}


# ARFF ---------------------------------------------------------------------------------------------


def multilabel_arff(
    paths: list[Path], entry: DatasetEntry, without: tuple[str, ...] = ()
) -> Fields:
    fields = _arff(paths, entry, without)
    Y = dense(fields["Y"])
    if not np.isin(Y, (0.0, 1.0)).all():
        raise ValueError(f"The last {entry.shape[2]} columns of {entry.name!r} must be 0 or 1.")
    names = {name: fields["names"][name] for name in ("features", "outputs")}
    return {"X": sparse.csr_matrix(fields["X"]), "Y": Y.astype(np.int32), "names": names}


def multioutput_arff(paths: list[Path], entry: DatasetEntry) -> Fields:
    fields = _arff(paths, entry)
    return fields | {side: dense(fields[side]) for side in ("X", "Y")}


def mulan_labels_arff(paths: list[Path], entry: DatasetEntry) -> Fields:
    """Read public files of label sets, with a list of labels; features in single precision."""
    tables = [path for path in paths if path.suffix == ".arff"]
    fields = multilabel_arff(tables, entry, without=("protein",))
    X = fields["X"].astype(np.float32).astype(np.float64)
    X.eliminate_zeros()
    return fields | {"X": X}


def _arff(paths: list[Path], entry: DatasetEntry, without: tuple[str, ...] = ()) -> Fields:
    """Return the rows of ARFF files, one after another; the last columns are the outputs."""
    read = [read_arff(path, without) for path in paths]
    names, d = read[0].names, entry.shape[2]
    for path, table in zip(paths, read, strict=True):
        if table.names != names:
            raise ValueError(f"{path.name} has other columns than {paths[0].name}.")
    n_first = n_rows(read[0].values)
    if len(paths) > 1 and n_first != entry.n_train:
        raise ValueError(f"{paths[0].name} must have {entry.n_train} rows. Got {n_first} instead.")
    values = stack([table.values for table in read])
    named = {"features": np.array(names[:-d]), "outputs": np.array(names[-d:])}
    return {
        "X": values[:, :-d],
        "Y": values[:, -d:],
        "names": named | {"nominal": read[0].nominal},
    }


# CSV ----------------------------------------------------------------------------------------------


def read_csv(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a CSV file, which may be compressed."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as text:
        header, *rows = csv.reader(text)
    return header, [row for row in rows if row]


def regression_csv(paths: list[Path], entry: DatasetEntry) -> Fields:
    header, rows = read_csv(paths[0])
    values = np.array(rows, dtype=np.float64)
    named = {"features": np.array(header[:-1]), "outputs": np.array(header[-1:])}
    return {"X": values[:, :-1], "Y": values[:, -1], "names": named}


def tied_rankings_csv(paths: list[Path], entry: DatasetEntry) -> Fields:
    """Read rankings such as e>f>abcdg, whose last five labels tie; text columns become codes."""
    header, rows = read_csv(paths[0])
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    named = {"features": np.array(header[:-1]), "outputs": np.array(sorted(set(columns[-1][0])))}
    named["outputs"] = named["outputs"][named["outputs"] != ">"]
    X = np.empty((len(rows), len(columns) - 1))
    for j, column in enumerate(columns[:-1]):
        try:
            X[:, j] = column.astype(np.float64)
        except ValueError:
            named[f"category_values_{header[j]}"], X[:, j] = np.unique(column, return_inverse=True)
    Y = np.array([_places(text, named["outputs"].tolist()) for text in columns[-1]])
    return {"X": X, "Y": Y, "names": named}


def _places(text: str, labels: list[str]) -> list[int]:
    """Return the rank of each label, from 0: how many labels come before it."""
    place: dict[str, int] = {}
    before = 0
    for tied in text.split(">"):
        place |= dict.fromkeys(tied, before)
        before += len(tied)
    return [place[label] for label in labels]


def _columns(path: Path) -> dict[str, np.ndarray]:
    """Return the columns of a CSV file, as arrays of strings."""
    header, rows = read_csv(path)
    columns = zip(*rows, strict=True)
    return {name: _strings(column) for name, column in zip(header, columns, strict=True)}


def _strings(values: Iterable[str]) -> np.ndarray:
    return np.array(values, dtype=object)


def _split(parts: np.ndarray) -> dict[str, np.ndarray]:
    names = ("train", "validation", "test")
    return {part: np.flatnonzero(parts == part) for part in names if (parts == part).any()}


def qm9_csv(paths: list[Path], entry: DatasetEntry) -> Fields:
    """Read SMILES as inputs and outputs alike: from a string to a graph."""
    table = _columns(paths[0])
    extra = {"index": table["Index"].astype(np.int64)}
    return {"X": table["SMILES"], "Y": table["SMILES"], "extra": extra}


def pairs_csv(paths: list[Path], entry: DatasetEntry) -> Fields:
    """Read captions and SMILES of one source; a second file is the pool of candidates."""
    table = _columns(paths[0])
    is_of_entry = table["source"] == entry.name
    table = {name: column[is_of_entry] for name, column in table.items()}
    fields: Fields = {"X": table["description"], "Y": table["smiles"]}
    fields |= {"split": _split(table["split"]), "extra": {"cid": table["cid"].astype(np.int64)}}
    if len(paths) > 1:
        fields["candidates"] = _columns(paths[1])["smiles"]
    return fields


def label_sets_csv(paths: list[Path], entry: DatasetEntry) -> Fields:
    """Read a table of text, a dict of columns, whose last column has label sets, "a, b"."""
    table = _columns(paths[0])
    _, cells = table.popitem()
    sets = [cell.split(", ") for cell in cells]
    labels = sorted({label for names in sets for label in names})
    Y = np.array([[int(label in names) for label in labels] for names in sets])
    features = np.array(list(table), dtype=object)
    return {"X": table, "Y": Y, "names": {"features": features, "outputs": np.array(labels)}}


def iupac_csv(paths: list[Path], entry: DatasetEntry) -> Fields:
    table = _columns(paths[0])
    extra = {"cid": table["cid"].astype(np.int64)}
    split = _split(table["split"])
    return {"X": table["iupac"], "Y": table["smiles"], "split": split, "extra": extra}


# Parquet -----------------------------------------------------------------------------------------


def _parquet(path: Path) -> Any:
    with extra("disk", f"{path.name} is read by pyarrow"):
        from pyarrow import parquet
    return parquet.read_table(path)


def qm9_parquet(paths: list[Path], entry: DatasetEntry) -> Fields:
    table = _parquet(paths[0])
    names = [name for name in table.column_names if name not in ("Index", "SMILES", "N_atoms")]
    Y = np.column_stack([table[name].to_numpy() for name in names])
    extra = {"index": table["Index"].to_numpy(), "n_atoms": table["N_atoms"].to_numpy()}
    X = _strings(table["SMILES"].to_pylist())
    return {"X": X, "Y": Y, "names": {"outputs": np.array(names)}, "extra": extra}


def properties_parquet(paths: list[Path], entry: DatasetEntry) -> Fields:
    """Read SMILES, and properties as a CSR matrix of 0 and 1, one column a property."""
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


def massbank_parquet(paths: list[Path], entry: DatasetEntry) -> Fields:
    """Read spectra and SMILES; the candidates of a spectrum are the molecules of its formula."""
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


def msms_parquet(paths: list[Path], entry: DatasetEntry) -> Fields:
    """Read spectra and SMILES, with the fields of each record, license and laboratory included."""
    table = _parquet(paths[0])
    apart = ("mz", "intensity", "smiles")
    columns = {name: table[name].to_numpy() for name in table.column_names if name not in apart}
    columns["license"] = columns.pop("licence")
    return {"X": _spectra(table), "Y": _strings(table["smiles"].to_pylist()), "extra": columns}


# Most peaks of a spectrum, the smallest m/z, the largest m/z above the precursor's, and the least
# intensity relative to the largest: those by which msms_open.parquet was made.
_PEAKS, _LOWEST_MZ, _ABOVE, _FAINTEST = 100, 20.0, 1.5, 5e-4


def massbank_msp(paths: list[Path], entry: DatasetEntry) -> Fields:
    """Read spectra and SMILES from the MSP file of a release of MassBank, with licenses."""
    text = lzma.decompress((SHIPPED / "msms_open_records.txt.xz").read_bytes()).decode()
    licenses = dict(line.split("\t") for line in text.splitlines())
    columns: dict[str, list[Any]] = {name: [] for name in (*_MSP_FIELDS, "license", "contributor")}
    peaks, smiles = [], []
    for fields, pairs in _msp_records(paths[0]):
        accession = fields.get("DB#", "")
        precursor = float(fields.get("PrecursorMZ") or "nan")
        kept = _strong_peaks(pairs, precursor)
        if accession not in licenses or not len(kept) or not fields.get("SMILES"):
            continue
        for name, field in _MSP_FIELDS.items():
            columns[name].append(fields.get(field, ""))
        columns["license"].append(licenses[accession])
        columns["contributor"].append(accession.split("-")[1])
        peaks.append(kept)
        smiles.append(fields["SMILES"])
    extra = {name: _strings(values) for name, values in columns.items()}
    extra["precursor_mz"] = np.array([float(x or "nan") for x in extra["precursor_mz"]])
    extra["polarity"] = _strings([text.lower() for text in extra["polarity"]])
    lengths = np.array([len(pairs) for pairs in peaks], dtype=np.int64)
    mz, intensity = np.concatenate([np.empty((0, 2)), *peaks]).T
    X = Spectra(pointers(lengths), mz, intensity, np.repeat(extra["precursor_mz"], lengths))
    return {"X": X, "Y": _strings(smiles), "extra": extra}


_MSP_FIELDS = {
    "accession": "DB#",
    "adduct": "Precursor_type",
    "polarity": "Ion_mode",
    "precursor_mz": "PrecursorMZ",
    "instrument_type": "Instrument_type",
    "instrument": "Instrument",
    "collision_energy": "Collision_energy",
    "inchikey": "InChIKey",
    "formula": "Formula",
    "name": "Name",
}


def _msp_records(path: Path) -> Iterator[tuple[dict[str, str], np.ndarray]]:
    """Yield the fields, of each name the first, and the peaks of the records of an MSP file."""
    fields: dict[str, str] = {}
    pairs: list[list[float]] = []
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in itertools.chain(lines, [""]):
            text = line.strip()
            name, colon, value = text.partition(": ")
            if not text and fields:
                yield fields, np.array(pairs, dtype=np.float64).reshape(-1, 2)
                fields, pairs = {}, []
            elif "Num Peaks" in fields:
                pairs.append([float(word) for word in text.split()[:2]])
            elif colon:
                fields.setdefault(name, value.strip())


def _strong_peaks(pairs: np.ndarray, precursor: float) -> np.ndarray:
    """Return the peaks that are kept, by m/z, the largest intensity 1."""
    if not len(pairs) or pairs[:, 1].max() <= 0.0:
        return pairs[:0]
    mz, height = pairs[:, 0], pairs[:, 1] / pairs[:, 1].max()
    within = (mz >= _LOWEST_MZ) & ~(mz > precursor + _ABOVE) & (height >= _FAINTEST)
    rows = np.flatnonzero(within)
    rows = np.sort(rows[np.argsort(-height[rows], kind="stable")[:_PEAKS]])
    kept = np.column_stack([mz, height])[rows]
    return kept[np.argsort(kept[:, 0], kind="stable")]


def _indptr(lists: Any) -> np.ndarray:
    return pointers(lists.value_lengths().to_numpy(zero_copy_only=False))


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


def same_formula(formulas: np.ndarray, pool_formulas: np.ndarray, pool: Objects) -> CandidateSets:
    """Return for each of `formulas` the set of the members of the pool that have it."""
    order = np.argsort(pool_formulas, kind="stable")
    names, start, count = np.unique(pool_formulas[order], return_index=True, return_counts=True)
    place = np.minimum(np.searchsorted(names, formulas), len(names) - 1)
    sizes = np.where(names[place] == formulas, count[place], 0)
    return CandidateSets(pool, pointers(sizes), order[ranges(start[place], sizes)])


# Pictures ----------------------------------------------------------------------------------------


def otoliths_zip(paths: list[Path], entry: DatasetEntry) -> Fields:
    """Read train/Train_fc_<i>.npy, train/Training_info.csv and the same of the test part."""
    parts = (
        ("train/Train_fc_", "train/Training_info.csv"),
        ("test/Test_fc_", "test/Testing_info.csv"),
    )
    X, Y = [], []
    with zipfile.ZipFile(paths[0]) as archive:
        for prefix, table in parts:
            with archive.open(table) as stream:
                rows = list(csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8")))
            Y += [float(row["Ground truth"]) for row in rows]
            for i in range(len(rows)):
                with archive.open(f"{prefix}{i}.npy") as stream:
                    image = np.load(io.BytesIO(stream.read()), allow_pickle=False)
                X.append(image.astype(np.float64).ravel())
    return {"X": np.array(X), "Y": np.array(Y)}


PARSERS: dict[str, Parser] = {
    function.__name__: function
    for function in (
        *(multilabel_npz, multilabel_arff, mulan_labels_arff),
        *(multioutput_npz, multioutput_arff, regression_npz, regression_csv),
        *(ranking_npz, tied_rankings_csv, vectors_npz, usps_npz, otoliths_zip),
        *(qm9_csv, qm9_parquet, properties_parquet, pairs_csv, iupac_csv, massbank_parquet),
        *(msms_parquet, massbank_msp, label_sets_csv),
    )
}
