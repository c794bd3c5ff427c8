"""Text to molecule: ranks, names, forms of captions, packed encoders and mixtures."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

pytest.importorskip("torch")


def test_ranks_share_ties():
    from experiments.papers.text2mol import ranks

    S = np.array([[3.0, 1.0, 1.0, 2.0], [0.5, 0.1, 0.9, 0.9 * (1 + 1e-9)]])
    assert_array_equal(ranks(S, np.array([1, 2])), [3.5, 1.5])
    assert_array_equal(ranks(S, np.array([1, 2]), tie=0.0), [3.5, 2.0])


def test_packed_encoders_are_nearly_what_they_were(tmp_path, monkeypatch):
    from safetensors.numpy import load_file, save_file

    from experiments.papers import text2mol_pack

    rng, folder = np.random.default_rng(4), tmp_path / "small"
    folder.mkdir()
    weights = {
        "embeddings": rng.standard_normal((50, 8)).astype(np.float32),
        "norm": rng.standard_normal(8).astype(np.float32),
        "pooler.dense": rng.standard_normal((8, 8)).astype(np.float32),
    }
    save_file(weights, folder / "model.safetensors")
    for name in text2mol_pack.OTHERS:
        (folder / name).write_text(name)
    monkeypatch.setattr(text2mol_pack, "CACHE", tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    text2mol_pack.pack(folder, 2)
    again = text2mol_pack.unpack("small")
    found = load_file(again / "model.safetensors")
    assert set(found) == {"embeddings", "norm"}
    assert_array_equal(found["norm"], weights["norm"])
    step = np.abs(weights["embeddings"]).max(axis=1, keepdims=True) / 127.0
    assert np.all(np.abs(found["embeddings"] - weights["embeddings"]) <= 0.51 * step)
    assert (again / "config.json").read_text() == "config.json"


def test_parts_of_mixtures_have_the_skeleton_of_the_molecule_alone():
    pytest.importorskip("rdkit")
    from experiments.papers.text2mol_data import in_mixtures

    aspirin = "CC(=O)Oc1ccccc1C(=O)O"
    assert in_mixtures([f"{aspirin}.[Na+]", "CCO"]) == {"BSYNRYMUTXBXSQ"}
    assert in_mixtures([aspirin]) == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ZKHQWZAMYRWXGA-KQYNXXCUSA-N", False),
        ("lipidmaps:LMPK04000031", False),
        ("G06402", False),
        ("D-galactose", True),
        ("2-(4-Aminobenzenesulfonamido)-4-methylpyrimidine", True),
    ],
)
def test_names_are_words(text, expected):
    from experiments.papers.text2mol_data import is_name

    assert is_name(text) is expected


def test_forms_of_a_caption_leave_out_one_sentence():
    from experiments.papers.text2mol_data import Problem

    problem = Problem.__new__(Problem)
    text = (
        "It is an acid of a certain kind. It has a role as a drug. It derives from a nameless one."
    )
    problem.texts, problem.source = [text, "2-methylpropane"], np.array(["chebi20", "iupac"])
    first, second, *others = problem.forms(0)
    assert first == text
    assert second == "It has a role as a drug. It derives from a nameless one."
    assert others[0] == "It is an acid of a certain kind. It derives from a nameless one."
    assert len(others) == 2
    assert problem.forms(1) == ["2-methylpropane"]
