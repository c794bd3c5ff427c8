"""`skout pool build`, `append`, `info` and `find` against the same pool in Python."""

import csv
import io
import json

import numpy as np
import pytest

pytest.importorskip("typer.testing")
pytest.importorskip("rdkit")

from skout.molecules import MoleculePool

LINES = "CCO ethanol\nCOC\nC1CC broken\nOCC again\nOC(=O)CC propionic acid\nCCCN\n"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "molecules.smi"
    path.write_text(LINES)
    return path


@pytest.fixture
def pool(source, tmp_path):
    with pytest.warns(UserWarning, match="1 of 6 SMILES are invalid"):
        MoleculePool.build(
            source, tmp_path / "x.skpool", fingerprints={"kind": "morgan", "n_bits": 512}
        )
    return tmp_path / "x.skpool"


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.filterwarnings("default:.*SMILES are invalid")
def test_build_is_that_of_python(call, source, pool, tmp_path):
    words = ["pool", "build", source, "-o", tmp_path / "y.skpool", "--n-bits", 512, "--json"]
    words += ["--kind", "morgan"]
    code, out, err = call(*words)
    assert code == 0
    assert "warning: 1 of 6 SMILES are invalid and left out: 'C1CC' at position 2." in err
    made, expected = MoleculePool.open(tmp_path / "y.skpool"), MoleculePool.open(pool)
    assert json.loads(out) == made.about() == expected.about()
    assert json.loads(out)["molecules"] == 4
    rows = np.arange(4)
    assert list(made.smiles(rows)) == list(expected.smiles(rows))
    assert (made.fingerprints(rows).words == expected.fingerprints(rows).words).all()


def test_options_reach_the_pool(call, tmp_path):
    (tmp_path / "a.csv").write_text("id,structure\n1,CCO\n")
    (tmp_path / "b.csv").write_text("id,structure\n2,CCN\n")
    files, out = [tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "x.skpool"
    words = ["--column", "structure", "--kind", "rdkit", "--radius", 3, "--n-jobs", 1]
    assert call("pool", "build", *files, "-o", out, *words)[0] == 0
    found = MoleculePool.open(out)
    assert found.fingerprint_settings == {"kind": "rdkit", "n_bits": 2048, "radius": 3}
    assert len(found) == 2


def test_append_and_info(call, pool, tmp_path):
    (tmp_path / "more.smi").write_text("CCCN known\nCCCCN new\n")
    code, out, _ = call("pool", "append", pool, tmp_path / "more.smi", "--json")
    assert code == 0
    assert json.loads(out) == {"added": 1, **MoleculePool.open(pool).about()}
    code, out, _ = call("pool", "info", pool, "--check", "--json")
    assert code == 0
    assert json.loads(out) == MoleculePool.open(pool).about() | {"checked": True}
    _, out, _ = call("pool", "info", pool)
    lines = dict(line.split(maxsplit=1) for line in out.replace("n bits", "n_bits").splitlines())
    assert (lines["molecules"], lines["segments"], lines["fingerprints"]) == ("5", "2", "morgan")
    assert lines["n_bits"] == "512"


def test_find_by_mass_formula_and_key(call, pool, tmp_path):
    _, out, _ = call("pool", "find", pool, "--mass", 46.042, "--ppm", 5)
    rows = table(out)
    assert [row["smiles"] for row in rows] == ["CCO", "COC"]
    assert [row["name"] for row in rows] == ["ethanol", ""]
    assert [row["formula"] for row in rows] == ["C2H6O"] * 2
    assert float(rows[0]["mass"]) == pytest.approx(46.041865, abs=1e-6)
    assert float(rows[0]["error_ppm"]) == pytest.approx((46.041865 - 46.042) / 46.042e-6, abs=0.02)
    assert len(table(call("pool", "find", pool, "--mass", 46.042, "--top", 1)[1])) == 1
    assert table(call("pool", "find", pool, "--mass", 46.042, "--ppm", 1)[1]) == []
    _, out, _ = call("pool", "find", pool, "--formula", "C3O2H6")
    assert [row["smiles"] for row in table(out)] == ["CCC(=O)O"]
    assert "error_ppm" not in table(out)[0]
    code, out, _ = call(
        *("pool", "find", pool, "--key", "LFQSCWFLJHTTHZ-UHFFFAOYSA-N", "-o", tmp_path / "x.jsonl")
    )
    assert (code, out) == (0, f"wrote 1 rows to {tmp_path / 'x.jsonl'}\n")
    assert json.loads((tmp_path / "x.jsonl").read_text())["smiles"] == "CCO"
    assert table(call("pool", "find", pool, "--key", "AAAAAAAAAAAAAA")[1]) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["find", "x.skpool"], "Give one of --mass, --formula and --key."),
        (["find", "x.skpool", "--mass", "1", "--formula", "C"], "Give one of --mass"),
        (["find", "x.skpool", "--formula", "water"], "formula must be like 'C6H12O6'"),
        (["find", "x.skpool", "--mass", "1", "-o", "x.txt"], "--out must end in .csv"),
        (["info", "no.skpool"], "no.skpool is no pool of molecules"),
        (["build", "molecules.smi", "-o", "x.skpool"], "x.skpool is there already"),
        (["build", "none.smi", "-o", "y.skpool"], "There is no file none.smi"),
        (["build", "molecules.smi", "-o", "y.skpool", "--strict"], "1 of 6 SMILES are invalid: "),
        (["append", "x.skpool", "molecules.smi", "--strict"], "1 of 6 SMILES are invalid: "),
    ],
)
def test_mistakes_are_one_line(call, pool, monkeypatch, words, message):
    monkeypatch.chdir(pool.parent)
    code, out, err = call("pool", *words)
    assert code == 1
    assert out == ""
    assert message in err
    assert err.startswith("skout: ")
    assert err.count("\n") == 1


def test_damage_is_told_by_check(call, pool):
    path = pool / "segment-0000" / "name_text.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert call("pool", "info", pool)[0] == 0
    code, _, err = call("pool", "info", pool, "--check")
    assert code == 1
    assert "name_text.npy is not as it was written" in err
