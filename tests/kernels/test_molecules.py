"""Fingerprints of molecules against RDKit's own, and what is said of invalid SMILES."""

import csv
import gzip
import logging
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skout.kernels import F1, Tanimoto
from skout.kernels import molecules as smiles
from skout.kernels.bits import PackedBits
from skout.molecules import fingerprints, parse_smiles

pytest.importorskip("rdkit")

from rdkit import Chem, DataStructs
from rdkit.Chem import MACCSkeys, rdFingerprintGenerator

FOLDER = os.environ.get("SKOUT_DATA")

SMILES = ["CCO", "CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "C", "[Na+].[Cl-]", "CCO"]
MOLECULES = [Chem.MolFromSmiles(text) for text in SMILES]
GENERATORS = {
    "morgan": lambda n_bits: rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=n_bits),
    "rdkit": lambda n_bits: rdFingerprintGenerator.GetRDKitFPGenerator(fpSize=n_bits),
}


def rdkit_bits(kind, n_bits):
    """One bit vector a molecule, by a loop."""
    if kind == "maccs":
        return [MACCSkeys.GenMACCSKeys(mol) for mol in MOLECULES]
    return [GENERATORS[kind](n_bits).GetFingerprint(mol) for mol in MOLECULES]


def as_array(vectors):
    return np.array([list(vector) for vector in vectors])


@pytest.mark.parametrize("kind", ["morgan", "rdkit", "maccs"])
@pytest.mark.parametrize("n_bits", [2048, 100])
def test_bits_are_those_of_rdkit(kind, n_bits):
    rows = fingerprints(SMILES, kind, n_bits=n_bits)
    assert isinstance(rows, PackedBits)
    assert_array_equal(rows.unpack(), as_array(rdkit_bits(kind, n_bits)))


@pytest.mark.parametrize("kind", ["morgan", "rdkit"])
def test_counts_are_those_of_rdkit(kind):
    rows = fingerprints(SMILES, kind, n_bits=512, counts=True)
    assert sparse.issparse(rows)
    assert rows.has_sorted_indices
    generator = GENERATORS[kind](512)
    expected = np.array([generator.GetCountFingerprintAsNumPy(mol) for mol in MOLECULES])
    assert expected.max() > 1
    assert_array_equal(rows.toarray(), expected)


def test_several_kinds_stand_side_by_side():
    rows = fingerprints(SMILES, ["maccs", "morgan", "rdkit"], n_bits=512)
    expected = [as_array(rdkit_bits(kind, 512)) for kind in ("maccs", "morgan", "rdkit")]
    assert_array_equal(rows.unpack(), np.hstack(expected))
    counts = fingerprints(SMILES, ("morgan", "rdkit"), n_bits=512, counts=True)
    assert counts.shape == (6, 1024)
    assert_array_equal(counts.toarray() > 0, np.hstack(expected[1:]) > 0)


def test_radius():
    narrow, wide = (fingerprints(SMILES, radius=radius) for radius in (0, 3))
    assert np.all(narrow.sizes <= wide.sizes)
    assert narrow.sizes.sum() < wide.sizes.sum()


@pytest.mark.parametrize("counts", [False, True])
def test_blocks_and_threads_change_nothing(counts, monkeypatch):
    expected = fingerprints(SMILES, counts=counts).toarray()
    monkeypatch.setattr(smiles, "_AT_ONCE", 4)
    found = fingerprints(np.array(SMILES), counts=counts, n_jobs=2, verbose=True)
    assert_array_equal(found.toarray(), expected)


def test_molecules_will_do():
    assert_array_equal(fingerprints(MOLECULES).unpack(), fingerprints(SMILES).unpack())
    assert parse_smiles(MOLECULES) == MOLECULES


def test_lists_of_bit_vectors_are_encoded():
    vectors = rdkit_bits("maccs", None)
    assert_array_equal(Tanimoto().encode(vectors).unpack(), as_array(vectors))
    texts = [DataStructs.BitVectToFPSText(vector) for vector in rdkit_bits("morgan", 256)]
    assert_array_equal(Tanimoto().encode(texts).unpack(), as_array(rdkit_bits("morgan", 256)))


def test_similarities_are_those_of_rdkit():
    vectors = rdkit_bits("morgan", 2048)
    for kernel, similarity in (
        (Tanimoto(), DataStructs.BulkTanimotoSimilarity),
        (F1(), DataStructs.BulkDiceSimilarity),
    ):
        expected = [similarity(vector, vectors) for vector in vectors]
        assert_allclose(kernel(vectors), expected, rtol=1e-15)


def test_min_max_similarity_of_counts_is_that_of_rdkit():
    vectors = [GENERATORS["morgan"](2048).GetCountFingerprint(mol) for mol in MOLECULES]
    expected = [DataStructs.BulkTanimotoSimilarity(vector, vectors) for vector in vectors]
    assert_allclose(Tanimoto()(fingerprints(SMILES, counts=True)), expected, rtol=1e-14)


# Invalid SMILES --------------------------------------------------------------------------------

INVALID = ["CCO", "C1CC", None, "", "CC", "F(F)(F)F", 3.5, "?", "c1cc1"]


def test_all_invalid_smiles_are_reported_at_once(capfd, caplog):
    message = (
        r"7 of 9 SMILES are invalid: 'C1CC' at position 1, None at position 2, '' at "
        r"position 3, 'F\(F\)\(F\)F' at position 5, 3\.5 at position 6 and 2 more\. Mend them"
    )
    with caplog.at_level(logging.DEBUG):
        for function in (parse_smiles, fingerprints):
            with pytest.raises(ValueError, match=message):
                function(INVALID)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_invalid_smiles_of_several_blocks_are_counted_together(monkeypatch):
    monkeypatch.setattr(smiles, "_AT_ONCE", 2)
    with pytest.raises(ValueError, match=r"7 of 9 SMILES are invalid: 'C1CC' at position 1, "):
        fingerprints(INVALID)


def test_invalid_smiles_may_be_left_out():
    found = parse_smiles(INVALID, on_error="none")
    kept = [i for i, molecule in enumerate(found) if molecule is not None]
    assert kept == [0, 4]
    rows = fingerprints([found[i] for i in kept])
    assert_array_equal(rows.unpack(), fingerprints(["CCO", "CC"]).unpack())
    with pytest.raises(ValueError, match=r"None at position 1"):
        fingerprints(found)


def test_rdkit_speaks_again_afterwards(capfd):
    parse_smiles(["C1CC"], on_error="none")
    Chem.MolFromSmiles("C1CC")
    assert "unclosed ring" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"smiles": "CCO"}, TypeError, r"smiles must be a list or array of strings\. Got 'CCO'"),
        ({"smiles": 3}, TypeError, r"smiles must be a list or array of strings\. Got 3"),
        ({"smiles": []}, ValueError, "smiles is empty"),
        ({"kind": "morgen"}, ValueError, r"kind must be one of .*Did you mean 'morgan'\?"),
        ({"kind": ["morgan", "x"]}, ValueError, r"kind must be one of .*Got 'x'"),
        ({"kind": []}, ValueError, r"kind must be a fingerprint or a list of some\. Got none"),
        ({"kind": "maccs", "counts": True}, ValueError, 'kind="maccs" has no counts'),
        ({"n_bits": 0}, ValueError, r"n_bits must be an integer >= 1\. Got 0"),
        ({"n_bits": 10.0}, TypeError, r"n_bits must be an integer"),
        ({"radius": -1}, ValueError, r"radius must be an integer >= 0\. Got -1"),
    ],
    ids=str,
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        fingerprints(**{"smiles": SMILES} | arguments)


def test_unknown_way_out():
    message = r"on_error must be one of 'raise', 'skip', 'none'\. Got 'drop'"
    with pytest.raises(ValueError, match=message):
        parse_smiles(SMILES, on_error="drop")
    with pytest.raises(ValueError, match=r"on_error must be one of 'raise', 'skip'\. Got 'none'"):
        fingerprints(SMILES, on_error="none")


@pytest.mark.parametrize("at_once", [2, 100])
def test_skipped_smiles_are_named_and_counted(at_once, monkeypatch):
    monkeypatch.setattr(smiles, "_AT_ONCE", at_once)
    message = r"7 of 9 SMILES are invalid and skipped: 'C1CC' at position 1, .* and 2 more\."
    with pytest.warns(UserWarning, match=message):
        assert len(parse_smiles(INVALID, on_error="skip")) == 2
    with pytest.warns(UserWarning, match=message):
        rows = fingerprints(INVALID, on_error="skip")
    assert_array_equal(rows.unpack(), fingerprints(["CCO", "CC"]).unpack())
    with pytest.raises(ValueError, match="1 of 1 SMILES are invalid"):
        fingerprints(["?"], on_error="skip")


def test_without_rdkit(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    for function in (parse_smiles, fingerprints):
        with pytest.raises(ImportError, match=r'pip install "skout\[chem\]'):
            function(SMILES)


@pytest.mark.skipif(not FOLDER, reason="SKOUT_DATA, the folder of the real data, is not set")
def test_real_molecules_compare_as_in_rdkit():
    with gzip.open(Path(FOLDER) / "qm9_smiles.csv.gz", "rt") as file:
        smiles = [row["SMILES"] for row in csv.DictReader(file)][::100]
    K = Tanimoto()(fingerprints(smiles[:40]), fingerprints(smiles))
    vectors = [GENERATORS["morgan"](2048).GetFingerprint(mol) for mol in parse_smiles(smiles)]
    expected = [DataStructs.BulkTanimotoSimilarity(vector, vectors) for vector in vectors[:40]]
    assert len(smiles) > 1000
    assert_allclose(K, expected, atol=1e-12)
