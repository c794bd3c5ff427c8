"""Public files of data sets: they are the packed ones; downloads that are good, cut and forged."""

import dataclasses
import functools
import hashlib
import http.server
import io
import os
import re
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skout import datasets
from skout.datasets import CATALOG
from skout.datasets.arff import read_arff
from skout.datasets.catalog import File, Original
from skout.datasets.files import _place, fetch, locate
from skout.datasets.parsers import PARSERS, parse

FOLDER = os.environ.get("SKOUT_DATA")
needs_data = pytest.mark.skipif(
    not FOLDER, reason="SKOUT_DATA, the folder of the real data, is not set"
)
WITH_ORIGINALS = [key for key, source in CATALOG.items() if source.original is not None]
AT_HAND = [
    ("ranking", "glass"),
    ("ranking", "iris"),
    ("ranking", "wine"),
    ("multilabel", "emotions"),
    ("multilabel", "flags"),
    ("multioutput", "edm"),
    ("multioutput", "sf1"),
]


#: Sets of the papers whose files nobody has hashed yet: the commit alone says which they are.
BY_COMMIT = {"bookmarks", "mediamill", "rf2", "scm1d", "scm20d"}


def test_every_original_is_known_by_commit_and_most_by_size_and_hash():
    assert len(WITH_ORIGINALS) == 52
    assert BY_COMMIT.issubset(name for _, name in WITH_ORIGINALS)
    for key in WITH_ORIGINALS:
        original = CATALOG[key].original
        assert re.fullmatch("[0-9a-f]{40}", original.commit)
        assert original.parser in PARSERS
        for file in original.files:
            if key[1] in BY_COMMIT and file.sha256 is None:
                continue
            assert file.size > 0 or original.release  # a release does not say
            assert re.fullmatch("[0-9a-f]{64}", file.sha256)


@needs_data
@pytest.mark.parametrize("key", AT_HAND, ids="-".join)
def test_originals_are_the_packed_arrays(key, tmp_path, monkeypatch):
    source = CATALOG[key]
    monkeypatch.setenv("SKOUT_CACHE", str(tmp_path))
    prefix = {"ranking": "lr", "multilabel": "ml", "multioutput": "mtr"}[key[0]]
    for file in source.original.files:
        path = Path(FOLDER) / "originals" / f"{prefix}_{key[1]}__{Path(file.name).name}"
        place = _place(file, source.original)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(path.read_bytes())
    public = parse(fetch(source), source, source.original.parser)
    assert_same(public, parse(locate(source), source, source.parser))


def assert_same(found, expected):
    assert set(found) == set(expected)
    for side in ("X", "Y"):
        a, b = found[side], expected[side]
        assert type(a) is type(b)
        assert a.dtype == b.dtype
        if sparse.issparse(a):
            a, b = a.toarray(), b.toarray()
        assert_array_equal(a, b)
    assert set(found["names"]) == set(expected["names"])
    for name, values in expected["names"].items():
        assert_array_equal(found["names"][name], values)


# Downloads ---------------------------------------------------------------------------------------

TEXT = b"A1,A2,ranking\n0.5,1,b>a>c\n-1,2,a>c>b\n"


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A data set whose public file is what a server on this computer sends."""
    file = File("data/tiny.txt", len(TEXT), hashlib.sha256(TEXT).hexdigest())
    original = Original("owner/name", "0" * 40, (file,), "tied_rankings_csv")
    source = dataclasses.replace(
        CATALOG["ranking", "iris"],
        name="tiny",
        shape=(2, 2, 3),
        files=(File("lr_tiny.npz", 1, "f" * 64),),
        original=original,
    )
    monkeypatch.setitem(CATALOG, ("ranking", "tiny"), source)
    monkeypatch.setenv("SKOUT_DATA", str(tmp_path))
    monkeypatch.setenv("SKOUT_CACHE", str(tmp_path / "cache"))
    state = {"body": TEXT, "length": len(TEXT), "asked": []}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            state["asked"].append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(state["length"]))
            self.end_headers()
            self.wfile.write(state["body"])

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv("SKOUT_ORIGINALS_URL", f"http://127.0.0.1:{server.server_port}")
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


def kept(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_loader_downloads_when_asked(served):
    with pytest.raises(FileNotFoundError, match="`skout datasets fetch tiny` downloads it"):
        datasets.load("tiny")
    assert served["asked"] == []
    data = datasets.load("tiny", download=True)
    assert_array_equal(data.X, [[0.5, 1], [-1, 2]])
    assert_array_equal(data.Y, [[1, 0, 2], [0, 2, 1]])
    again = datasets.load("tiny")  # from the cache
    assert_array_equal(again.Y, data.Y)
    assert served["asked"] == ["/owner/name/" + "0" * 40 + "/data/tiny.txt"]


def test_a_forged_file_is_refused_and_not_kept(served, tmp_path):
    served["body"] = TEXT.replace(b"b>a>c", b"a>b>c")
    with pytest.raises(ValueError, match=r"corrupted or another version.*Nothing was kept"):
        datasets.load("tiny", download=True)
    assert kept(tmp_path) == []


def test_a_cut_file_is_refused_and_not_kept(served, tmp_path):
    served["body"] = TEXT[:20]
    with pytest.raises((FileNotFoundError, ValueError), match=r"failed|corrupted"):
        datasets.load("tiny", download=True)
    assert kept(tmp_path) == []


ARFF = b"@relation t\n@attribute a numeric\n@attribute b {0,1}\n@data\n{0 2.5,1 1}\n{}\n{1 1}\n"


def zipped(**files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return stream.getvalue()


def by_commit(served, monkeypatch, body):
    """Serve an archive whose hash is not known, as that of bookmarks."""
    files = (File("Data/tiny/tiny.zip"),)
    source = dataclasses.replace(
        CATALOG["multilabel", "bookmarks"],
        name="tiny",
        shape=(3, 1, 1),
        n_train=2,
        original=Original("owner/name", "1" * 40, files, "multilabel_arff"),
    )
    monkeypatch.delitem(CATALOG, ("ranking", "tiny"))
    monkeypatch.setitem(CATALOG, ("multilabel", "tiny"), source)
    served |= {"body": body, "length": len(body)}


def test_an_archive_that_is_known_by_its_commit_alone(served, monkeypatch, tmp_path):
    by_commit(served, monkeypatch, zipped(**{"tiny.arff": ARFF, "MACOSX__x": b""}))
    data = datasets.load("tiny", download=True)
    assert_array_equal(data.X.toarray(), [[2.5], [0], [0]])
    assert_array_equal(data.Y, [[1], [0], [1]])
    assert len(data.train[1]) == 2
    assert served["asked"] == ["/owner/name/" + "1" * 40 + "/Data/tiny/tiny.zip"]
    assert [path.name for path in kept(tmp_path)] == ["111111111111-tiny.zip"]
    datasets.load("tiny")  # from the cache
    assert len(served["asked"]) == 1


def test_an_archive_of_another_version_is_told_by_its_shape(served, monkeypatch):
    by_commit(served, monkeypatch, zipped(**{"tiny.arff": ARFF + b"{0 1}\n"}))
    with pytest.raises(ValueError, match="must have 3 rows, 1 features and 1 outputs"):
        datasets.load("tiny", download=True)


def test_an_archive_must_hold_one_table(served, monkeypatch):
    by_commit(served, monkeypatch, zipped(**{"a.arff": ARFF, "b.arff": ARFF}))
    with pytest.raises(ValueError, match=r"must hold one ARFF file. It holds \['a.arff', 'b.arff"):
        datasets.load("tiny", download=True)


@pytest.mark.usefixtures("served")
def test_a_file_that_changes_in_the_cache_is_removed(tmp_path):
    datasets.load("tiny", download=True)
    [path] = kept(tmp_path)
    path.write_bytes(b"changed")
    with pytest.raises(ValueError, match="It was removed"):
        datasets.load("tiny")
    assert kept(tmp_path) == []


def command(capsys, *words):
    pytest.importorskip("typer")
    from skout.apps import cli

    with pytest.raises(SystemExit) as stop:
        cli.main(["datasets", "fetch", *words])
    return stop.value.code, *capsys.readouterr()


def test_command_fetches(served, capsys):
    code, out, _ = command(capsys, "tiny", "--dry-run")
    assert not code
    assert out == "tiny: 37 bytes from owner/name on GitHub\n"
    assert served["asked"] == []
    code, out, _ = command(capsys, "tiny")
    assert not code
    assert re.fullmatch(r"tiny: fetched [0-9a-f]{12}-tiny.txt\n", out)
    assert command(capsys, "tiny")[1] == "tiny: available\n"
    code, out, _ = command(capsys, "bookmarks", "--dry-run")
    assert out == "bookmarks: files of unknown size from tamim-el/sisokr on GitHub\n"


@pytest.mark.usefixtures("served")
def test_command_says_what_has_no_address(capsys):
    code, _, err = command(capsys, "usps")
    assert code == 1
    assert "no public address for the data set 'usps'" in err
    assert "set SKOUT_DATA" in err
    code, _, err = command(capsys, "tinny")
    assert code == 1
    assert "Did you mean 'tiny'" in err


# Tables of words ---------------------------------------------------------------------------------


def test_yes_and_no_and_columns_left_out(tmp_path):
    path = tmp_path / "t.arff"
    path.write_text(
        "@relation t\n@attribute protein string\n@attribute a {YES,NO}\n@attribute b {x,y}\n"
        "@attribute c {2,1}\n@data\nP1,YES,y,1\nP2,NO,x,2\n"
    )
    names, values, nominal = read_arff(path, without=("protein",))
    assert names == ["a", "b", "c"]
    assert_array_equal(values, [[1, 1, 1], [0, 0, 2]])
    assert_array_equal(nominal, np.array([1, 2]))


# A release of MassBank ---------------------------------------------------------------------------

RECORDS = """Name: Mellein
Synon: Ochracin
DB#: MSBNK-AAFC-AC000001
InChIKey: KWILGNNWGSNMPA-UHFFFAOYSA-N
SMILES: CC1CC2=C(C(=CC=C2)O)C(=O)O1
Precursor_type: [M+H]+
Spectrum_type: MS2
PrecursorMZ: 179.0697
Instrument_type: LC-ESI-ITFT
Ion_mode: POSITIVE
Formula: C10H10O3
Num Peaks: 5
15.0 900
133.0648 21
161.0597 999
160.0 0.4
250.0 500

Name: not among the records
DB#: MSBNK-Nobody-XX000001
SMILES: CCO
PrecursorMZ: 47.05
Num Peaks: 1
29.0 999

"""


def test_the_open_spectra_of_a_release(tmp_path, monkeypatch):
    body = RECORDS.encode()
    entry = CATALOG["spectra", "msms_open"]
    file = dataclasses.replace(
        entry.original.files[0], sha256=hashlib.sha256(body).hexdigest(), size=len(body)
    )
    original = dataclasses.replace(entry.original, files=(file,))
    monkeypatch.setitem(
        CATALOG, ("spectra", "msms_open"), dataclasses.replace(entry, original=original)
    )
    web = tmp_path / "web" / "MassBank" / "MassBank-data" / "releases" / "download" / "2025.05.1"
    web.mkdir(parents=True)
    (web / "MassBank.msp_NIST").write_bytes(body)
    monkeypatch.setenv("SKOUT_DATA", str(tmp_path))
    monkeypatch.setenv("SKOUT_CACHE", str(tmp_path / "cache"))
    handler = functools.partial(Quiet, directory=str(tmp_path / "web"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    monkeypatch.setenv("SKOUT_ORIGINALS_URL", f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        data = datasets.load("msms_open", download=True)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert len(data) == 1  # the other record has no license that is known to be open
    assert data.Y[0] == "CC1CC2=C(C(=CC=C2)O)C(=O)O1"
    assert_array_equal(data.X.mz, [133.0648, 161.0597])
    np.testing.assert_allclose(data.X.intensity, [21 / 999, 1.0])
    expected = {"contributor": "AAFC", "license": "CC BY-SA", "adduct": "[M+H]+"}
    expected |= {"polarity": "positive", "accession": "MSBNK-AAFC-AC000001"}
    assert {name: data.extra[name][0] for name in expected} == expected
    original_at = entry.original.folder.partition("://")[2].partition("/")[2]
    assert original_at == "MassBank/MassBank-data/releases/download/2025.05.1"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass
