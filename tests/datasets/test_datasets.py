"""Loaders on the real files; finding, checking and downloading of files; parsers; generators."""

import dataclasses
import functools
import gzip
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skout import datasets
from skout.datasets import CATALOG, Dataset, files, parsers
from skout.datasets.arff import read_arff
from skout.datasets.catalog import File
from skout.datasets.parsers import same_formula

FOLDER = os.environ.get("SKOUT_DATA")
needs_data = pytest.mark.skipif(
    not FOLDER, reason="SKOUT_DATA, the folder of the real data, is not set"
)
HASHED = [key for key, source in CATALOG.items() if all(file.sha256 for file in source.files)]
PUBLIC = sorted(set(CATALOG) - set(HASHED))


def load(kind, name):
    if any(file.name.endswith(".parquet") for file in CATALOG[kind, name].files):
        pytest.importorskip("pyarrow")
    return datasets.load(name, kind)


def test_films_come_as_a_table():
    films = datasets.load("films")
    assert repr(films) == "Dataset('films', X (600, 10), Y (600, 21), train 450, test 150)"
    assert films.files[0].parent == files.SHIPPED
    X, Y = films.test
    assert list(X) == films.names["features"].tolist()
    assert {len(column) for column in X.values()} == {len(Y)} == {150}
    second = films.files[0].read_text(encoding="utf-8").splitlines()[2]
    genres = films.names["outputs"][films.Y[1] > 0].tolist()
    assert second.endswith('"' + ", ".join(genres) + '"')


# The table of sources ----------------------------------------------------------------------------


def test_sources_are_complete():
    assert len(CATALOG) == 101
    assert {name for _, name in PUBLIC} == {
        *("bookmarks", "mediamill", "rf2", "scm1d", "scm20d", "otoliths")
    }
    for source in CATALOG.values():
        assert source.parser in parsers.PARSERS
        assert source.files
        for text in (source.license, source.citation, source.origin, source.description):
            assert text
        assert "<" not in source.origin
        assert source.n_train is None or 0 <= source.n_train < source.shape[0]
    hashes = {file.name: file.sha256 for key in HASHED for file in CATALOG[key].files}
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in hashes.values())
    assert len(set(hashes.values())) == len(hashes)


def test_every_parser_is_used():
    named = {part.parser for entry in CATALOG.values() for part in (entry, entry.original) if part}
    assert named == set(parsers.PARSERS)


# Real files --------------------------------------------------------------------------------------


@needs_data
def test_files_have_their_sizes_and_hashes():
    for key in HASHED:
        for path, file in zip(files.locate(CATALOG[key]), CATALOG[key].files, strict=True):
            assert path.parent in (Path(FOLDER), files.SHIPPED)
            assert path.stat().st_size == file.size
            assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256


@needs_data
@pytest.mark.parametrize("key", HASHED, ids="-".join)
def test_shapes_and_splits(key):
    source, data = CATALOG[key], load(*key)
    n, p, d = source.shape
    assert len(data) == data.Y.shape[0] == n
    if key != ("tables", "films"):  # a dict of columns
        assert data.X.shape[0] == n
        assert p in (0, data.X.shape[-1])
    assert d in (0, data.Y.shape[1] if data.Y.ndim > 1 else 1)
    covered = [np.arange(n)[rows] for rows in data.split.values()]
    if covered:  # the parts are a partition of the rows
        assert_array_equal(np.sort(np.concatenate(covered)), np.arange(n))
    for column in data.extra.values():
        assert len(column) == n
    if "features" in data.names and p:
        assert len(data.names["features"]) == p
    if "outputs" in data.names:
        assert len(data.names["outputs"]) == d
    assert (data.name, data.license) == (source.name, source.license)


@needs_data
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("bibtex", "'bibtex', X (7395, 1836), Y (7395, 159), train 4880, test 2515"),
        ("delicious", "'delicious', X (16105, 500), Y (16105, 983), train 12920, test 3185"),
        ("rf1", "'rf1', X (9125, 64), Y (9125, 8), train 4108, test 5017"),
        ("boston", "'boston', X (506, 13), Y (506,)"),
        ("engel", "'engel', X (235, 1), Y (235,)"),
        ("usps", "'usps', X (9298, 256), Y (9298,), train 7291, test 2007"),
        ("qm9", "'qm9', X (130831,), Y (130831,)"),
        ("mol2vec", "'mol2vec', X (3138,), Y (3138, 300)"),
        ("chebi20", "'chebi20', X (6601,), Y (6601,), validation 3301, test 3300"),
    ],
)
def test_data_sets_by_name(name, shown):
    assert repr(datasets.load(name)) == f"Dataset({shown})"


@needs_data
@pytest.mark.parametrize("name", [name for kind, name in HASHED if kind == "multilabel"])
def test_label_sets_are_those_of_the_file(name):
    with np.load(Path(FOLDER) / f"ml_{name}.npz") as file:
        n_train, labels, indptr = int(file["n_train"]), file["Y_indices"], file["Y_indptr"]
        total = file["X_data"].sum(dtype=np.float64)
    data = datasets.load(name, "multilabel")
    assert (n_train if n_train >= 0 else None) == CATALOG["multilabel", name].n_train
    assert_array_equal(data.Y.sum(axis=1), np.diff(indptr))
    assert_array_equal(np.flatnonzero(data.Y[7]), np.sort(labels[indptr[7] : indptr[8]]))
    assert_allclose(data.X.sum(), total)


@needs_data
def test_cardinality_of_bibtex_is_the_published_one():
    data = datasets.load("bibtex")
    assert_allclose(data.Y.sum(axis=1).mean(), 2.402, atol=5e-4)
    X, Y = data.test
    assert_array_equal(Y, data.Y[4880:])
    assert (data.X[4880:] != X).nnz == 0


@needs_data
@pytest.mark.parametrize("name", ["rf1", "osales", "scpf"])
def test_missing_values_are_nan(name):
    published = {"rf1": 3264, "osales": 10012, "scpf": 9255}
    data = datasets.load(name, "multioutput")
    assert np.isnan(data.X).sum() + np.isnan(data.Y).sum() == published[name]


@needs_data
def test_a_test_half_has_no_training_part():
    data = datasets.load("scm20d_testonly")
    assert list(data.split) == ["test"]
    with pytest.raises(ValueError, match=r"no official part 'train'; it has: 'test'. Split X"):
        _ = data.train


@needs_data
@pytest.mark.parametrize("name", [name for kind, name in HASHED if kind == "regression"][:27])
def test_folds_partition_the_rows(name):
    with np.load(Path(FOLDER) / f"reg_{name}.npz") as file:
        folds = np.unpackbits(file["test_mask"], axis=0, count=int(file["n"]))
    assert (folds.sum(axis=1) == 1).all()
    data = datasets.load(name, "regression", fold=3)
    assert_array_equal(data.split["test"], np.flatnonzero(folds[:, 3]))
    assert_array_equal(data.split["train"], np.flatnonzero(1 - folds[:, 3]))


@needs_data
def test_wrong_folds_are_refused():
    with pytest.raises(ValueError, match=r"'boston' has no official folds: leave fold out"):
        datasets.load("boston", fold=0)
    with pytest.raises(ValueError, match=r"fold must be None or an integer from 0 to 9. Got 10"):
        datasets.load("airfoil", fold=10)


@needs_data
def test_boston_is_the_table():
    data = datasets.load("boston")
    table = np.loadtxt(Path(FOLDER) / "qr_boston.csv.gz", delimiter=",", skiprows=1)
    assert_array_equal(np.column_stack([data.X, data.Y]), table)
    assert data.names["outputs"] == ["medv"]


@needs_data
@pytest.mark.parametrize("name", [name for kind, name in HASHED if kind == "ranking"])
def test_ranks_are_rankings(name):
    Y = datasets.load(name, "ranking").Y
    if name == "algae":  # ties: as many are before a label as the smallest rank says
        for row in Y[:50]:
            assert all((row < rank).sum() == rank for rank in row)
    else:
        assert_array_equal(np.sort(Y, axis=1), np.tile(np.arange(Y.shape[1]), (len(Y), 1)))


@needs_data
def test_ranks_agree_with_orders():
    with np.load(Path(FOLDER) / "lr_sushi.npz") as file:
        order = file["order"]
    Y = datasets.load("sushi").Y
    assert_array_equal(np.argsort(Y, axis=1), order)


@needs_data
def test_properties_of_molecules():
    arrow = pytest.importorskip("pyarrow.parquet")
    data = datasets.load("lpm24")
    table = arrow.read_table(Path(FOLDER) / "lpm24_train_props.parquet")
    for i in (0, 77, 160_559):
        found = data.names["outputs"][data.Y[i].indices]
        assert sorted(found) == sorted(table["properties"][i].as_py())
    assert_allclose(data.Y.sum() / len(data), 7.41, atol=5e-3)
    qm9 = datasets.load("qm9_properties")
    assert_array_equal(qm9.X, datasets.load("qm9").X)
    assert qm9.names["outputs"][0] == "Dipole_debye"


@needs_data
def test_captions_name_their_molecules():
    data = datasets.load("chebi20")
    assert len(data.candidates) == 33_010
    assert "The molecule is" in data.X[0]
    assert set(data.Y) <= set(data.candidates)


@needs_data
def test_spectra_and_candidates_of_the_same_formula():
    arrow = pytest.importorskip("pyarrow.parquet")
    chem = pytest.importorskip("rdkit.Chem")
    data = datasets.load("massbank")
    table = arrow.read_table(Path(FOLDER) / "massbank_ms2_pos_mh.parquet")
    some = np.random.default_rng(0).choice(len(data), 60, replace=False).tolist()
    found = 0
    for i in some:
        peaks = sorted(zip(table["mz"][i].as_py(), table["intensity"][i].as_py(), strict=True))
        rows = data.X[i]
        assert_array_equal(rows.mz, [mz for mz, _ in peaks])
        assert sorted(rows.intensity) == sorted(intensity for _, intensity in peaks)
        known = table["precursor_mz"][i].as_py()
        assert_array_equal(rows.precursor, len(peaks) * [np.nan if known is None else known])
        flat = chem.MolToSmiles(chem.MolFromSmiles(data.Y[i]), isomericSmiles=False)
        found += flat in set(data.candidates[i])
    assert found >= 58  # mixtures and salts are not in the pool
    assert (data.candidates.sizes == 0).sum() == 158
    from skout.kernels import ProbabilityProduct

    assert ProbabilityProduct()(data.X[:4]).shape == (4, 4)  # rows that a kernel takes


def test_a_sample_of_the_spectra_comes_with_skout(monkeypatch, tmp_path):
    pytest.importorskip("pyarrow")
    monkeypatch.delenv("SKOUT_DATA", raising=False)
    monkeypatch.setenv("SKOUT_CACHE", str(tmp_path))
    data = datasets.load("massbank-sample")
    assert len(data) == len({key[:14] for key in data.extra["inchikey"]}) == 2298
    assert set(data.extra["license"]) == {"CC BY", "CC0"}  # which allow to pass them on
    assert 1 <= data.candidates.sizes.min() < data.candidates.sizes.max() <= 100
    owed = (files.SHIPPED / "README.md").read_text(encoding="utf-8")
    for name, count in zip(*np.unique(data.extra["contributor"], return_counts=True), strict=True):
        assert f"{name} {count}" in " ".join(owed.split())
    assert sum(path.stat().st_size for path in files.SHIPPED.iterdir()) < 1e6


# Files: where they are looked for ----------------------------------------------------------------


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Folders of one's own, and a data set `toy` of one small file."""
    for name in ("data", "cache", "web"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("SKOUT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SKOUT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SKOUT_DATA_URL", raising=False)
    content = gzip.compress(b"a,b,c\n1,2,3\n4,5,6\n", mtime=0)
    file = File("toy.csv.gz", len(content), hashlib.sha256(content).hexdigest())
    source = dataclasses.replace(
        CATALOG["regression", "engel"], name="toy", files=(file,), shape=(2, 2, 1)
    )
    monkeypatch.setitem(CATALOG, ("regression", "toy"), source)
    (tmp_path / "toy.csv.gz").write_bytes(content)
    return tmp_path


def put(home, *folders):
    for folder in folders:
        shutil.copy(home / "toy.csv.gz", home / folder)


def broken(home, folder):
    path = home / folder / "toy.csv.gz"
    path.write_bytes(b"not what it should be")
    return path


@pytest.fixture
def web(home, monkeypatch):
    """A web server on this computer that has the folder `web`; yields what was asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(home / "web"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv("SKOUT_DATA_URL", f"http://127.0.0.1:{server.server_port}/")
    yield asked
    server.shutdown()
    thread.join()
    server.server_close()


def toy():
    return datasets.load("toy")


def check_toy():
    data = toy()
    assert_array_equal(data.X, [[1, 2], [4, 5]])
    assert_array_equal(data.Y, [3, 6])


@pytest.mark.parametrize("folder", ["data", "cache"])
def test_a_file_in_either_folder_serves(home, folder):
    assert not files.available(CATALOG["regression", "toy"])
    put(home, folder)
    check_toy()
    assert files.available(CATALOG["regression", "toy"])


def test_the_users_folder_is_first(home):
    put(home, "data", "cache")
    source = CATALOG["regression", "toy"]
    assert files.locate(source) == [home / "data" / "toy.csv.gz"]


def test_offline_says_where_to_get_it_and_where_to_put_it(home):
    with pytest.raises(FileNotFoundError) as caught:
        toy()
    source, message = CATALOG["regression", "toy"], str(caught.value)
    for part in (
        "The data set 'toy' needs the file toy.csv.gz",
        f"{source.files[0].size} bytes, sha256 {source.files[0].sha256}",
        f"SKOUT_DATA ({home / 'data'})",
        f"the cache ({home / 'cache'})",
        "has no public address; SKOUT_DATA_URL may name a folder",
        f"It comes from {source.origin}.",
        "Put it into a folder and set SKOUT_DATA to that folder.",
    ):
        assert part in message


@pytest.mark.usefixtures("home")
def test_without_a_folder_the_message_says_so(monkeypatch):
    monkeypatch.delenv("SKOUT_DATA")
    with pytest.raises(FileNotFoundError, match=r"SKOUT_DATA \(not set\)"):
        toy()


@pytest.mark.usefixtures("home")
def test_the_default_cache_is_that_of_the_system(monkeypatch):
    import pooch

    monkeypatch.delenv("SKOUT_CACHE")
    assert files.cache_folder() == Path(pooch.os_cache("skout"))


def test_a_corrupted_file_of_the_user_is_refused_and_stays(home):
    path = broken(home, "data")
    put(home, "cache")
    with pytest.raises(ValueError, match="is corrupted or another version") as caught:
        toy()
    for part in (str(path), CATALOG["regression", "toy"].files[0].sha256, "left as it is"):
        assert part in str(caught.value)
    assert path.read_bytes() == b"not what it should be"


def test_a_corrupted_file_in_the_cache_is_removed(home):
    path = broken(home, "cache")
    with pytest.raises(ValueError, match="It was removed; load the data again"):
        toy()
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        toy()


def test_a_file_that_changes_is_seen(home):
    put(home, "data")
    check_toy()
    broken(home, "data")
    with pytest.raises(ValueError, match="corrupted"):
        toy()


def test_an_unchanged_file_is_hashed_once(home, monkeypatch):
    put(home, "data")
    calls = []
    real = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *a: calls.append(a) or real(*a))
    for _ in range(3):
        check_toy()
    assert len(calls) == 1


def test_download_into_the_cache(home, web):
    put(home, "web")
    check_toy()
    check_toy()
    assert web == ["/toy.csv.gz"]  # once
    assert (home / "cache" / "toy.csv.gz").is_file()
    assert not list((home / "data").iterdir())


@pytest.mark.usefixtures("web")
def test_a_corrupted_download_is_not_kept(home):
    broken(home, "web")
    with pytest.raises(ValueError, match=r"is corrupted or another version.*Nothing was kept"):
        toy()
    assert not list((home / "cache").iterdir())


@pytest.mark.usefixtures("home", "web")
def test_a_failed_download_says_where_to_put_the_file():
    with pytest.raises(FileNotFoundError, match=r"toy.csv.gz failed \(HTTPError\).*Put it into"):
        toy()


@pytest.mark.usefixtures("home")
def test_no_network(monkeypatch):
    monkeypatch.setenv("SKOUT_DATA_URL", "http://127.0.0.1:9")  # nothing listens there
    with pytest.raises(FileNotFoundError, match=r"failed \(ConnectionError\).*It comes from"):
        toy()


@pytest.mark.parametrize("key", PUBLIC, ids="-".join)
def test_files_without_a_known_hash_are_not_downloaded(key, home, web):
    name = CATALOG[key].files[0].name
    (home / "web" / name).write_bytes(b"anything")
    with pytest.raises(FileNotFoundError, match=f"{name} .hash not known"):
        datasets.load(key[1], key[0])
    assert web == []


# Errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("bibtx", None, "Unknown data set 'bibtx'. Did you mean 'bibtex'?"),
        ("bikes", "regression", "Unknown regression data set 'bikes'. Did you mean 'bike'?"),
        ("chebi", "text", "Available: chebi20, iupac, pcdes, pubchem324k."),
        ("wine", None, "several data sets 'wine': say kind='regression' or kind='ranking'."),
        ("wine", "rankings", "kind must be one of 'multilabel', 'multioutput', "),
    ],
)
def test_unknown_names(name, kind, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        datasets.load(name, kind)


def test_a_name_is_a_string():
    with pytest.raises(TypeError, match=r"data set must be a name. Got 3 instead"):
        datasets.load(3, "multilabel")


def test_a_file_of_another_shape_is_refused(home, monkeypatch):
    put(home, "data")
    other = dataclasses.replace(CATALOG["regression", "toy"], shape=(3, 2, 1))
    monkeypatch.setitem(CATALOG, ("regression", "toy"), other)
    with pytest.raises(ValueError, match=r"must have 3 rows, 2 features and 1 outputs. Got 2, 2"):
        toy()


def test_missing_pyarrow_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    source = CATALOG["molecules", "lpm24"]
    with pytest.raises(ImportError, match=r'pip install "skout\[disk\]'):
        parsers.parse([tmp_path / "lpm24_train_props.parquet"], source, source.parser)


def test_pickles_are_not_read(tmp_path):
    path = tmp_path / "mol2vec.npz"
    np.savez(path, tokens=np.array([{}], dtype=object), vectors=np.ones((1, 2)))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        parsers.parse([path], CATALOG["molecules", "mol2vec"], "vectors_npz")


def test_rows_of_both_sides_agree():
    with pytest.raises(ValueError, match=r"as many rows as each other. Got 2 and 3"):
        Dataset("d", np.ones(2), np.ones(3))


# Public sources, in their own formats ------------------------------------------------------------

SPARSE = """% a comment
@relation 'Bookmarks: -C -2'

@attribute word_a numeric
@attribute 'word b' {0,1}
@attribute word_c real
@attribute TAG_x {0,1}
@attribute "TAG_y" {0, 1}
@data
{0 2.5,1 1,4 1}
{}
{2 -1e-3, 3 1, 4 1}
"""
DENSE = """@RELATION rf2
@ATTRIBUTE flow numeric
@ATTRIBUTE 'rain fall' REAL
@ATTRIBUTE site {low,'very high'}
@ATTRIBUTE TARGET_1 numeric
@DATA
1, ?, low, 10
% in between
-2.5,3e2,'very high',?
"""


def write(folder, **texts):
    for name, text in texts.items():
        (folder / name).write_text(text)


def public(home, monkeypatch, kind, name, texts, **changes):
    """Load a public data set from small files of its own format."""
    source = dataclasses.replace(CATALOG[kind, name], **changes)
    monkeypatch.setitem(CATALOG, (kind, name), source)
    assert set(texts) == {file.name for file in source.files}
    write(home / "data", **texts)
    return datasets.load(name, kind)


def test_bookmarks(home, monkeypatch):
    texts = {"bookmarks.arff": SPARSE}
    data = public(home, monkeypatch, "multilabel", "bookmarks", texts, shape=(3, 3, 2), n_train=2)
    assert sparse.issparse(data.X)
    assert_array_equal(data.X.toarray(), [[2.5, 1, 0], [0, 0, 0], [0, 0, -1e-3]])
    assert_array_equal(data.Y, [[0, 1], [0, 0], [1, 1]])
    assert data.names["features"].tolist() == ["word_a", "word b", "word_c"]
    assert data.names["outputs"].tolist() == ["TAG_x", "TAG_y"]
    assert_array_equal(data.test[1], [[1, 1]])


def test_mediamill(home, monkeypatch):
    texts = {"mediamill-train.arff": SPARSE, "mediamill-test.arff": SPARSE}
    changes = {"shape": (6, 3, 2), "n_train": 3}
    data = public(home, monkeypatch, "multilabel", "mediamill", texts, **changes)
    assert_array_equal(data.train[0].toarray(), data.test[0].toarray())
    with pytest.raises(ValueError, match=r"mediamill-train.arff must have 2 rows. Got 3"):
        public(home, monkeypatch, "multilabel", "mediamill", texts, shape=(6, 3, 2), n_train=2)


@pytest.mark.parametrize("name", ["rf2", "scm1d", "scm20d"])
def test_river_flow_and_supply_chains(home, monkeypatch, name):
    texts = {f"{name}-train.arff": DENSE, f"{name}-test.arff": DENSE}
    changes = {"shape": (4, 3, 1), "n_train": 2}
    data = public(home, monkeypatch, "multioutput", name, texts, **changes)
    assert_array_equal(data.train[0], [[1, np.nan, 0], [-2.5, 300, 1]])
    assert_array_equal(data.test[1], [[10], [np.nan]])
    texts[f"{name}-test.arff"] = DENSE.replace("flow", "flaw")
    with pytest.raises(ValueError, match=f"{name}-test.arff has other columns than {name}-train"):
        public(home, monkeypatch, "multioutput", name, texts, **changes)


def test_otoliths(home, monkeypatch):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, 4, 4)).astype(np.uint8)
    with zipfile.ZipFile(home / "data" / "otoliths.zip", "w") as archive:
        names = ("train/Train_fc_0", "train/Train_fc_1", "test/Test_fc_0")
        for name, image in zip(names, images, strict=True):
            buffer = io.BytesIO()
            np.save(buffer, image)
            archive.writestr(f"{name}.npy", buffer.getvalue())
        archive.writestr("train/Training_info.csv", "image,Ground truth\na,3\nb,7\n")
        archive.writestr("test/Testing_info.csv", "image,Ground truth\nc,12\n")
    changed = dataclasses.replace(CATALOG["regression", "otoliths"], shape=(3, 16, 1), n_train=2)
    monkeypatch.setitem(CATALOG, ("regression", "otoliths"), changed)
    data = datasets.load("otoliths")
    assert_array_equal(data.X, images.reshape(3, 16))
    assert_array_equal(data.train[1], [3, 7])
    assert_array_equal(data.test[1], [12])


def test_labels_that_are_no_labels(home, monkeypatch):
    text = SPARSE.replace("TAG_x {0,1}", "TAG_x numeric").replace("3 1,", "3 2,")
    with pytest.raises(ValueError, match="The last 2 columns of 'bookmarks' must be 0 or 1"):
        public(
            home, monkeypatch, "multilabel", "bookmarks", {"bookmarks.arff": text}, shape=(3, 3, 2)
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@relation r\n1,2\n", "it has no line @data"),
        ("@attribute a string\n@data\nx\n", "'a' of r.arff must be numeric or nominal. Got 'str"),
        ("@attribute a numeric\n@data\n1,2\n", "row 0 has 2 values for 1 columns"),
        ("@attribute a numeric\n@data\nx\n", "could not convert string to float: 'x'"),
        ("@attribute a {u,v}\n@data\nw\n", "'w' is none of the values of 'a'"),
        ("@attribute a numeric\n@data\n{3 1}\n", "list index out of range"),
        ("@attribute a numeric\n@data\n{-1 1}\n", "r.arff is no ARFF file that can be read"),
        ("@attribute a {1,0}\n@data\n{0 1}\n", "values that are not written stand for 1, not 0"),
    ],
)
def test_what_is_no_arff(tmp_path, text, message):
    (tmp_path / "r.arff").write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_arff(tmp_path / "r.arff")


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.sampled_from([0.0, 0.0, 1.0, -2.5, 1e-9]), min_size=4, max_size=4), max_size=6
    )
)
def test_sparse_and_dense_files_are_the_same_table(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("arff") / "r.arff"
    head = "".join(f"@attribute a{j} numeric\n" for j in range(4)) + "@data\n"
    path.write_text(head + "".join(",".join(map(str, row)) + "\n" for row in rows))
    names, dense, _ = read_arff(path)
    cells = [", ".join(f"{j} {v}" for j, v in enumerate(row) if v) for row in rows]
    path.write_text(head + "".join(f"{{{text}}}\n" for text in cells))
    _, found, _ = read_arff(path)
    assert names == ["a0", "a1", "a2", "a3"]
    assert_array_equal(dense, np.reshape(rows, (-1, 4)))
    assert_array_equal(found.toarray() if rows else found, dense)


@given(
    asked=st.lists(st.sampled_from("ABCD"), max_size=8),
    pool=st.lists(st.sampled_from("ABC"), min_size=1, max_size=8),
)
def test_candidates_of_the_same_formula(asked, pool):
    sets = same_formula(np.array(asked, dtype=str), np.array(pool), np.arange(len(pool)))
    assert len(sets) == len(asked)
    for i, formula in enumerate(asked):
        assert sets[i].tolist() == [j for j, other in enumerate(pool) if other == formula]


# Generators --------------------------------------------------------------------------------------


def test_robust_regression_follows_its_formula():
    data = datasets.make_robust_regression(2500, 900, random_state=3)
    for x, f in zip(data.X[::50], data.extra["noiseless"][::50], strict=True):
        truth = 0.1 * np.exp(4 * x[0]) + 4 / (1 + np.exp(-20 * (x[1] - 0.5)))
        assert_allclose(f, truth + 3 * x[2] + 2 * x[3] + x[4])
    outside = (data.X > 1).any(axis=1) | (data.X < 0).any(axis=1)
    assert outside[:2500].sum() == 50  # ten coordinates around 1.5: never all in the cube
    assert outside[2500:].sum() == 30
    assert_allclose(data.X[outside].mean(), 1.5, atol=0.03)
    assert_allclose(data.X[outside].std(), 0.25, atol=0.02)
    assert_allclose(data.X[~outside].mean(), 0.5, atol=0.01)
    noise = data.Y - data.extra["noiseless"]
    assert_allclose([noise.mean(), noise.std()], [0, 1], atol=0.05)
    wide = datasets.make_robust_regression(2500, 900, outlier_scale=0.5, random_state=3)
    assert_allclose(wide.X[(wide.X != data.X).any(axis=1)].std(), 0.5, atol=0.04)


def test_robust_regression_is_the_draw_of_the_thesis():
    """The authors' program: legacy generator, seed 42, test rows first."""
    rng = np.random.RandomState(42)
    X = rng.uniform(size=(400, 10))
    rows = rng.choice(400, 20, replace=False)
    X[rows] = rng.normal(loc=1.5, scale=0.25, size=(20, 10))
    noise = rng.normal(size=400)
    data = datasets.make_robust_regression(300, 400)
    assert_array_equal(data.test[0], X)
    assert_allclose(data.test[1] - data.extra["noiseless"][300:], noise, atol=1e-12)


def test_low_rank_regression_follows_its_formulas():
    d = 12
    data = datasets.make_low_rank_regression(40_000, 10, 10, n_features=d, random_state=1)
    i = np.arange(1, d + 1)
    X, noise = data.X, data.Y - data.extra["noiseless"]
    C, E = X.T @ X / len(X), noise.T @ noise / len(X)
    assert_allclose(np.linalg.eigvalsh(C)[::-1], i**-1.5, rtol=0.04)
    assert_allclose(np.linalg.eigvalsh(E)[::-1], 0.2 * i**-0.1, rtol=0.04)
    assert np.abs(C - np.diag(np.diag(C))).max() > 0.05  # the axes are not the coordinates'
    H = np.linalg.lstsq(X, data.extra["noiseless"], rcond=None)[0].T
    H0 = np.linalg.solve(C, H)  # H = C H0
    assert_allclose([H0.mean(), H0.std()], [0, 1], atol=0.2)
    assert {name: len(data.part(name)[0]) for name in data.split} == {
        **{"train": 40_000, "validation": 10, "test": 10}
    }


def test_subspace_regression_follows_its_formulas():
    options = {"n_features": 10, "n_outputs": 15, "rank": 3, "random_state": 2}
    data = datasets.make_subspace_regression(20_000, 500, 600, **options)
    assert data.X.dtype == data.Y.dtype == np.float32
    X, Y = data.X.astype(float), data.Y.astype(float)
    j = np.arange(1, 11)
    assert_allclose(np.linalg.eigvalsh(X.T @ X / len(X))[::-1], j**-0.5, rtol=0.04)
    A = np.linalg.lstsq(X, Y, rcond=None)[0].T  # U H, up to noise
    singular = np.linalg.svd(A)[1]
    assert (singular[:3] > 1.0).all()
    assert singular[3:].max() < 0.02
    assert_allclose((Y - X @ A.T).std(), 0.1, rtol=0.01)
    quiet = datasets.make_subspace_regression(200, 20, 30, noise=0.0, **options)
    assert np.linalg.matrix_rank(quiet.Y.astype(float), tol=1e-3) == 3


def test_subspace_regression_draws_as_figure_5_2():
    """The numbers that the record of figure 5.2 was made with."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    U = np.linalg.qr(rng.standard_normal((5, 2)))[0]
    H = rng.standard_normal((2, 6))
    data = datasets.make_subspace_regression(9, 4, 3, n_features=6, n_outputs=5, rank=2)
    for part, n in (("train", 9), ("validation", 4), ("test", 3)):
        X = (rng.standard_normal((n, 6)) * np.arange(1, 7) ** -0.25) @ axes.T
        Y = X @ H.T @ U.T + 0.1 * rng.standard_normal((n, 5))
        assert_allclose(data.part(part)[0], X, rtol=1e-6)
        assert_allclose(data.part(part)[1], Y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(datasets.make_robust_regression, 30, 20),
        functools.partial(datasets.make_low_rank_regression, 30, 10, 20, n_features=4),
        functools.partial(
            datasets.make_subspace_regression, 30, 10, 20, n_features=4, n_outputs=3, rank=2
        ),
    ],
)
def test_seeds(make):
    assert_array_equal(make(random_state=1).Y, make(random_state=1).Y)
    assert (make(random_state=1).Y != make(random_state=2).Y).any()


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        ("make_robust_regression", {"n_train": 0}, "n_train must be an integer >= 1. Got 0"),
        ("make_robust_regression", {"n_features": 4}, "n_features must be an integer >= 5. Got 4"),
        ("make_low_rank_regression", {"n_test": -1}, "n_test must be an integer >= 1. Got -1"),
        ("make_subspace_regression", {"rank": 2000}, "rank must be at most n_outputs=1000. Got"),
        ("make_subspace_regression", {"noise": -0.1}, "noise must be a finite number >= 0."),
    ],
)
def test_wrong_sizes(function, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        getattr(datasets, function)(**options)


# The command -------------------------------------------------------------------------------------


def run(capsys, *words):
    pytest.importorskip("typer")
    from skout.apps import cli

    with pytest.raises(SystemExit) as stop:
        cli.main(["datasets", *words])
    return stop.value.code, *capsys.readouterr()


def test_command_lists_every_data_set(home, capsys):
    put(home, "data")
    code, out, _ = run(capsys)
    assert not code
    lines = out.splitlines()
    assert re.split("  +", lines[1].strip()) == [
        *("name", "rows", "features", "outputs", "kind", "license", "available")
    ]
    rows = [re.split("  +", line.strip()) for line in lines[3:] if line.strip()]
    marks = {(row[0], row[-1]) for row in rows}
    assert marks >= {("bibtex", "fetch"), ("usps", "no"), ("toy", "yes")}
    assert rows[0][:5] == ["bibtex", "7,395", "1,836", "159", "multilabel"]
    assert len(rows) == len(CATALOG)


def test_command_as_json(home, capsys):
    put(home, "data")
    code, out, _ = run(capsys, "--json", "--kind", "regression")
    assert not code
    rows = {row["name"]: row for row in json.loads(out)}
    assert len(rows) == sum(kind == "regression" for kind, _ in CATALOG)
    assert rows["toy"]["available"]
    assert not rows["engel"]["available"]
    assert rows["engel"]["files"][0]["sha256"] == CATALOG["regression", "engel"].files[0].sha256


def test_command_knows_its_kinds(capsys):
    code, out, err = run(capsys, "--kind", "rankings")
    assert (code, out) == (1, "")
    assert "--kind must be one of" in err
    assert "Did you mean 'ranking'?" in err
