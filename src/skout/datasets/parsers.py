"""From files to the fields of a `Dataset`, one function for each format; nothing is unpickled."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._numerics.arrays import n_rows, stack
from .arff import read_arff
from .catalogue import Source
from .molecules import (
    iupac_csv,
    massbank_parquet,
    pairs_csv,
    properties_parquet,
    qm9_csv,
    qm9_parquet,
    read_csv,
)

__all__ = [
    "PARSERS",
    "check_shape",
    "multilabel_arff",
    "multioutput_arff",
    "parse",
    "tied_rankings_csv",
]

Fields = dict[str, Any]
Parser = Callable[[list[Path], Source], Fields]


def parse(paths: list[Path], source: Source) -> Fields:
    """Return X, Y and whatever else the files of a data set have, as `Dataset` takes them."""
    return check_shape(PARSERS[source.parser](paths, source), source)


def check_shape(fields: Fields, source: Source) -> Fields:
    """Return the fields of a data set, which must have as many rows and columns as it has."""
    found = (n_rows(fields["X"]), _width(fields["X"]), _width(fields["Y"]))
    expected = source.shape
    # 0 in the declaration: the rows are no vectors
    if any(b not in (0, a) for a, b in zip(found, expected, strict=True)):
        raise ValueError(
            f"The files of {source.name!r} must have {expected[0]} rows, {expected[1]} features "
            f"and {expected[2]} outputs. Got {found[0]}, {found[1]} and {found[2]} instead: "
            "they are of another version."
        )
    return fields


def _width(rows: Any) -> int:
    shape: tuple[int, ...] = rows.shape
    return int(shape[1]) if len(shape) > 1 else 1


# Arrays ------------------------------------------------------------------------------------------


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def multilabel_npz(paths: list[Path], source: Source) -> Fields:
    z = _arrays(paths[0])
    cells = (z["X_data"].astype(np.float64), z["X_indices"], z["X_indptr"])
    X = sparse.csr_matrix(cells, shape=tuple(z["X_shape"]))
    labels = z["Y_indices"].astype(np.int32)
    ones = (np.ones(len(labels), dtype=np.int32), labels, z["Y_indptr"])
    Y = sparse.csr_matrix(ones, shape=tuple(z["Y_shape"])).toarray()
    return {"X": X, "Y": Y, "names": _names(z, "label_names")}


def multioutput_npz(paths: list[Path], source: Source) -> Fields:
    z = _arrays(paths[0])
    names = _names(z, "target_names") | {"nominal": z["nominal_columns"]}
    return {"X": z["X"], "Y": z["Y"], "names": names}


def regression_npz(paths: list[Path], source: Source) -> Fields:
    z = _arrays(paths[0])
    folds = np.unpackbits(z["test_mask"], axis=0, count=int(z["n"]))  # (n, 10), one 1 a row
    return {"X": z["X"].astype(np.float64), "Y": z["y"], "extra": {"fold": folds.argmax(axis=1)}}


def ranking_npz(paths: list[Path], source: Source) -> Fields:
    z = _arrays(paths[0])
    names = _names(z, "label_names")
    names |= {key: z[key] for key in z if key.startswith("category_values")}
    return {"X": z["X"], "Y": z["ranks"].astype(np.int64), "names": names}


def vectors_npz(paths: list[Path], source: Source) -> Fields:
    z = _arrays(paths[0])
    return {"X": z["tokens"].astype(object), "Y": z["vectors"].astype(np.float64)}


def usps_npz(paths: list[Path], source: Source) -> Fields:
    z = _arrays(paths[0])
    X = np.vstack([z["X_train"], z["X_test"]]).astype(np.float64)
    return {"X": X, "Y": np.concatenate([z["y_train"], z["y_test"]]).astype(np.int64)}


def _names(z: dict[str, np.ndarray], outputs: str) -> dict[str, np.ndarray]:
    return {"features": z["feature_names"], "outputs": z[outputs]}


# Text --------------------------------------------------------------------------------------------


def multilabel_arff(paths: list[Path], source: Source, without: tuple[str, ...] = ()) -> Fields:
    fields = _arff(paths, source, without)
    Y = fields["Y"].toarray() if sparse.issparse(fields["Y"]) else fields["Y"]
    if not np.isin(Y, (0.0, 1.0)).all():
        raise ValueError(f"The last {source.shape[2]} columns of {source.name!r} must be 0 or 1.")
    return fields | {"X": sparse.csr_matrix(fields["X"]), "Y": Y.astype(np.int32)}


def multioutput_arff(paths: list[Path], source: Source) -> Fields:
    fields = _arff(paths, source)
    dense = {side: fields[side] for side in ("X", "Y")}
    return fields | {k: v.toarray() if sparse.issparse(v) else v for k, v in dense.items()}


def _arff(paths: list[Path], source: Source, without: tuple[str, ...] = ()) -> Fields:
    """Stack the rows of ARFF files; the last columns are the outputs."""
    read = [read_arff(path, without) for path in paths]
    names, d = read[0][0], source.shape[2]
    for path, (other, values) in zip(paths, read, strict=True):
        if other != names:
            raise ValueError(f"{path.name} has other columns than {paths[0].name}.")
        if path == paths[0] and len(paths) > 1 and n_rows(values) != source.n_train:
            raise ValueError(
                f"{path.name} must have {source.n_train} rows. Got {n_rows(values)} instead."
            )
    values = stack([values for _, values in read])
    named = {"features": np.array(names[:-d]), "outputs": np.array(names[-d:])}
    return {"X": values[:, :-d], "Y": values[:, -d:], "names": named}


def regression_csv(paths: list[Path], source: Source) -> Fields:
    header, rows = read_csv(paths[0])
    values = np.array(rows, dtype=np.float64)
    named = {"features": np.array(header[:-1]), "outputs": np.array(header[-1:])}
    return {"X": values[:, :-1], "Y": values[:, -1], "names": named}


def tied_rankings_csv(paths: list[Path], source: Source) -> Fields:
    """Rankings such as e>f>abcdg, where the last five share a place; text columns get codes."""
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
    """Return for each label the number of labels that are before it."""
    place: dict[str, int] = {}
    before = 0
    for tied in text.split(">"):
        place |= dict.fromkeys(tied, before)
        before += len(tied)
    return [place[label] for label in labels]


# Pictures ----------------------------------------------------------------------------------------


def otoliths_zip(paths: list[Path], source: Source) -> Fields:
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
        multilabel_npz,
        multilabel_arff,
        multioutput_npz,
        multioutput_arff,
        regression_npz,
        regression_csv,
        ranking_npz,
        tied_rankings_csv,
        vectors_npz,
        usps_npz,
        otoliths_zip,
        qm9_csv,
        qm9_parquet,
        properties_parquet,
        pairs_csv,
        iupac_csv,
        massbank_parquet,
    )
}
