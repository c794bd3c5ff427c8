"""Pools of molecules on disk against RDKit and linear scans; killed, damaged, shared, appended."""

import gzip
import hashlib
import itertools
import json
import mmap
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from extras import OPEN_ARCHIVE, small_files
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("rdkit")

from rdkit import Chem
from rdkit.Chem import rdMolDescriptors
from rdkit.Chem.MolStandardize import rdMolStandardize

from skout.apps.spectra.pools import building, segments
from skout.apps.spectra.readers.formulas import hill
from skout.kernels import Tanimoto
from skout.molecules import MoleculePool, fingerprints, read_prior
from skout.persistence import FileError

FOLDER = os.environ.get("SKOUT_DATA")
ENDS = ("O", "N", "C(=O)O", "S", "Cl", "C#N", "c1ccccc1", "C(=O)N", "Br", "OC", "NC", "P")
CHAINS = [f"{'C' * n}{end}" for n in range(1, 12) for end in ENDS]
ODD = [
    ("CC(=O)[O-].[Na+]", "sodium acetate"),  # a salt: acetic acid, the largest fragment
    ("CC(=O)O", "acetic acid"),
    ("C[N+](C)(C)CCO", "choline"),  # no proton undoes this charge
    ("[NH3+]CC(=O)[O-]", ""),  # glycine as a zwitterion
    ("NCC(=O)O", "glycine"),
    ("C[C@H](N)C(=O)O", ""),
    ("C[C@@H](N)C(=O)O", "D-alanine"),  # the same skeleton: this name for that molecule
    ("O=C([O-])c1ccncc1", "an anion"),
    ("C[NH2+]Cc1ccncc1", "a cation"),
    ("O=c1cc[nH]cc1", "4-pyridone"),
    ("Oc1ccncc1", "4-hydroxypyridine"),  # a mobile hydrogen
    ("[2H]C([2H])([2H])O", "heavy methanol"),
    ("O=[N+]([O-])c1ccccc1", "nitrobenzene"),
    ("*CC", "with a dummy atom: no InChI"),
    ("C/C=C/C", "trans"),
    ("C\\C=C/C", "cis"),
    ("[Fe]", "iron"),
    ("*O", "of which RDKit writes the formula in another order"),
    ("CCO.CCO", ""),
]
INVALID = ["C1CC", "", "not a molecule", "C[C", "c1ccc1(", "\x00"]


@pytest.fixture(scope="module")
def source():
    """(SMILES, name), some more than once."""
    found = [*ODD, *((text, "") for text in CHAINS), *((text, "again") for text in CHAINS[::7])]
    random.Random(0).shuffle(found)
    return found


@pytest.fixture(scope="module")
def folder(source, tmp_path_factory):
    path = tmp_path_factory.mktemp("pools") / "all.skpool"
    MoleculePool.build(source, path, batch=37)
    return path


@pytest.fixture
def pool(folder):
    return MoleculePool.open(folder)


def everything(pool):
    """All that a pool says of all its molecules."""
    rows = np.arange(len(pool))
    columns = (pool.smiles, pool.names, pool.keys, pool.masses, pool.formulas)
    return [*(list(column(rows)) for column in columns), pool.fingerprints(rows).words.tolist()]


def standard(text):
    """A molecule in standard form, by RDKit's own means."""
    molecule = rdMolStandardize.LargestFragmentChooser().choose(Chem.MolFromSmiles(text))
    neutral = rdMolStandardize.Uncharger().uncharge(molecule)
    return Chem.MolFromSmiles(Chem.MolToSmiles(neutral))


# Truth -------------------------------------------------------------------------------------------


def brute_force(source):
    """The first SMILES and the first name of each skeleton."""
    first, names = {}, {}
    for text, name in source:
        molecule = standard(text)
        key = Chem.MolToInchiKey(molecule)[:14] or Chem.MolToSmiles(molecule)
        first.setdefault(key, Chem.MolToSmiles(molecule))
        if name:
            names.setdefault(key, name)
    return {smiles: names.get(key, "") for key, smiles in first.items()}


def test_each_skeleton_once_with_its_first_smiles_and_name(pool, source):
    rows = np.arange(len(pool))
    found = dict(zip(pool.smiles(rows), pool.names(rows), strict=True))
    assert found == brute_force(source)
    assert len(pool) == len(found) < len(source)
    told = pool.about()
    assert (told["read"], told["invalid"]) == (len(source), 0)
    assert told["repeated"] == len(source) - len(found)


def test_masses_formulas_keys_and_fingerprints_are_those_of_rdkit(pool):
    rows = np.arange(len(pool))
    molecules = [Chem.MolFromSmiles(text) for text in pool.smiles(rows)]
    assert_allclose(pool.masses(rows), [rdMolDescriptors.CalcExactMolWt(m) for m in molecules])
    formulas = [rdMolDescriptors.CalcMolFormula(molecule) for molecule in molecules]
    assert list(pool.formulas(rows)) == ["*HO" if text == "H*O" else text for text in formulas]
    keys = [Chem.MolToInchiKey(molecule)[:14] for molecule in molecules]
    assert [key for key in pool.keys(rows) if not key.startswith("~")] == [k for k in keys if k]
    assert keys.count("") == 2  # with a dummy atom
    bits = fingerprints(pool.smiles(rows), **pool.fingerprint_settings)
    assert_array_equal(pool.fingerprints(rows).words, bits.words)
    assert_array_equal(pool.fingerprints().words, bits.words)
    assert_array_equal(Tanimoto()(pool.fingerprints([3, 1])), Tanimoto()(bits[[3, 1]]))


@pytest.mark.skipif(FOLDER is None, reason="SKOUT_DATA is not set")
def test_real_molecules_against_brute_force(tmp_path):
    with gzip.open(Path(FOLDER) / "chebi20_candidate_pool.csv.gz", "rt") as file:
        lines = random.Random(1).sample(file.read().splitlines()[1:], 400)
    source = [(line.split(",")[1], line.split(",")[0]) for line in lines]
    pool = MoleculePool.build(source, tmp_path / "real.skpool", batch=100)
    rows = np.arange(len(pool))
    assert dict(zip(pool.smiles(rows), pool.names(rows), strict=True)) == brute_force(source)
    formulas = pool.formulas(rows)
    assert [hill(text) for text in formulas] == list(formulas)
    assert pool.fingerprint_settings["kind"] == ["morgan", "counts", "pairs", "rdkit", "maccs"]
    bits = fingerprints(pool.smiles(rows), **pool.fingerprint_settings)
    assert_array_equal(pool.fingerprints(rows).words, bits.words)


@pytest.mark.parametrize(
    "settings",
    [{"kind": "morgan", "n_bits": 1000, "radius": 1}, {"kind": ["counts", "maccs"], "n_bits": 128}],
)
def test_other_fingerprints(tmp_path, settings):
    pool = MoleculePool.build(CHAINS[:9], tmp_path / "x.skpool", fingerprints=settings)
    assert pool.fingerprint_settings.items() >= settings.items()
    bits = fingerprints(pool.smiles(np.arange(9)), **settings)
    assert_array_equal(pool.fingerprints().words, bits.words)
    assert pool.fingerprints().n_bits == bits.n_bits


# Look up -----------------------------------------------------------------------------------------


@given(
    near=st.floats(10.0, 400.0),
    ppm=st.floats(0.0, 1e5),
    row=st.integers(0, 10**6),
    exact=st.booleans(),
)
def test_by_mass_is_a_linear_scan(folder, near, ppm, row, exact):
    pool = MoleculePool.open(folder)
    masses = pool.masses(np.arange(len(pool)))
    mass = float(masses[row % len(masses)]) if exact else near
    width = 1e-6 * ppm * mass
    expected = np.flatnonzero((masses >= mass - width) & (masses <= mass + width))
    found = pool.by_mass(mass, ppm)
    assert found.dtype == np.int64
    assert_array_equal(np.sort(found), expected)
    assert np.all(np.diff(np.abs(masses[found] - mass)) >= 0)
    if exact:
        assert row % len(masses) in found


def test_by_formula_is_a_linear_scan(pool):
    formulas = pool.formulas(np.arange(len(pool)))
    for formula in set(formulas):
        assert_array_equal(pool.by_formula(formula), np.flatnonzero(formulas == formula))
    assert len(pool.by_formula("C99H2")) == 0
    assert_array_equal(pool.by_formula("OC2H6"), pool.by_formula("C2H6O"))
    assert_array_equal(pool.by_formula("CH3CH2OH"), pool.by_formula("C2H6O"))


@pytest.mark.parametrize("formula", ["", "c6", "C6H12O6)", "12", "C-H", "C6++"])
def test_what_is_no_formula_is_said(pool, formula):
    with pytest.raises(ValueError, match="formula must be like 'C6H12O6'"):
        pool.by_formula(formula)


def test_by_key(pool):
    rows = np.arange(len(pool))
    keys = [f"{key}-UHFFFAOYSA-N" for key in pool.keys(rows)]
    assert_array_equal(pool.by_key(keys[::-1]), rows[::-1])
    unknown = ["AAAAAAAAAAAAAA-UHFFFAOYSA-N", "ZZZZZZZZZZZZZZ", "", keys[3]]
    assert_array_equal(pool.by_key(unknown), [-1, -1, -1, 3])
    with pytest.raises(TypeError, match="keys must be a list of InChIKeys"):
        pool.by_key(keys[0])


def test_indices_are_checked(pool):
    assert list(pool.smiles([])) == []
    assert len(pool.fingerprints([])) == 0
    assert pool.masses(2).shape == (1,)
    with pytest.raises(IndexError, match=f"indices must be from 0 to {len(pool) - 1}"):
        pool.smiles([0, len(pool)])
    with pytest.raises(IndexError, match="indices must be from 0"):
        pool.smiles([-1])
    with pytest.raises(TypeError, match="indices must be integers"):
        pool.names([0.5])
    for wrong in ({"mass": -1.0}, {"mass": np.nan}, {"mass": 100.0, "ppm": -1.0}):
        with pytest.raises(ValueError, match="must be"):
            pool.by_mass(**wrong)


# Sources -----------------------------------------------------------------------------------------


def test_files_of_all_kinds_and_smiles_together(tmp_path):
    (tmp_path / "a.smi").write_text("CCO ethanol\nCCN\n")
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write("id,SMILES,Name\n1,CCC,propane\n2,CCCC,\n")
    with Chem.SDWriter(str(tmp_path / "c.sdf")) as writer:
        molecule = Chem.MolFromSmiles("CCS")
        molecule.SetProp("_Name", "thiol")
        writer.write(molecule)
    source = [tmp_path / "a.smi", str(tmp_path / "b.csv.gz"), "CCCl", tmp_path / "c.sdf"]
    pool = MoleculePool.build(iter([*source, ("CCBr", "bromide"), ("CCI", None)]), tmp_path / "x")
    rows = np.arange(len(pool))
    found = dict(zip(pool.smiles(rows), pool.names(rows), strict=True))
    assert found == {
        **{"CCO": "ethanol", "CCN": "", "CCC": "propane", "CCCC": "", "CCCl": "", "CCS": "thiol"},
        **{"CCBr": "bromide", "CCI": ""},
    }
    one = MoleculePool.build(str(tmp_path / "a.smi"), tmp_path / "y")
    assert len(one) == 2
    with pytest.raises(ValueError, match=r"b\.csv\.gz has no column 'structure'"):
        MoleculePool.build(source[1:], tmp_path / "z", column="structure")
    assert not (tmp_path / "z.building").exists()


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("CCO", ValueError, "source must be a file of SMILES or SDF, or a list. Got 'CCO'"),
        (3, TypeError, "source must be a path or an iterable of SMILES. Got 3"),
        (["CCO", 3], TypeError, "Got 3 at position 1"),
        ([("CCO", 3)], TypeError, r"Got \('CCO', 3\) at position 0"),
        ([("CCO", "a", "b")], TypeError, "at position 0"),
        ([None], TypeError, "Got None at position 0"),
        ([], ValueError, "source has no valid molecule.* names its columns"),
        (Path("nowhere.smi"), FileNotFoundError, "There is no file nowhere.smi"),
    ],
)
def test_wrong_sources_are_said(tmp_path, source, error, message):
    with pytest.raises(error, match=message):
        MoleculePool.build(source, tmp_path / "x.skpool")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch must be"),
        ({"on_error": "ignore"}, "on_error must be"),
        ({"fingerprints": {"counts": True}}, "fingerprints must have kind, n_bits and radius"),
        ({"fingerprints": {"kind": "none"}}, "kind must be"),
        ({"fingerprints": {"n_bits": 0}}, "n_bits must be"),
    ],
)
def test_wrong_options_are_said_before_any_work(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        MoleculePool.build(iter(()), tmp_path / "x.skpool", **options)
    assert list(tmp_path.iterdir()) == []


def test_invalid_molecules_are_counted_or_refused(tmp_path):
    source = [text for pair in itertools.zip_longest(CHAINS[:8], INVALID) for text in pair if text]
    source.insert(4, "")
    warning = r"6 of 14 SMILES are invalid and left out: 'C1CC' at position 1.* and 1 more"
    with pytest.warns(UserWarning, match=warning):
        pool = MoleculePool.build(source, tmp_path / "x.skpool", batch=3)
    assert len(pool) == 8
    assert pool.about()["invalid"] == 6
    with pytest.raises(ValueError, match="1 of 3 SMILES are invalid: 'C1CC' at position 1"):
        MoleculePool.build(source, tmp_path / "y.skpool", batch=3, on_error="raise")
    assert not (tmp_path / "y.skpool").exists()
    with (
        pytest.warns(UserWarning, match="6 of 6 SMILES are invalid"),
        pytest.raises(ValueError, match="no valid"),
    ):
        MoleculePool.build(INVALID, tmp_path / "z.skpool")


def test_places_are_checked(tmp_path, folder):
    with pytest.raises(FileExistsError, match="is there already: open it, append to it"):
        MoleculePool.build(["CCO"], folder)
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        MoleculePool.build(["CCO"], tmp_path / "no" / "x.skpool")
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(FileNotFoundError, match="is no pool of molecules"):
            MoleculePool.open(path)
    (tmp_path / "file.skpool").write_text("of skout embed")
    with pytest.raises(FileNotFoundError, match="is no pool of molecules"):
        MoleculePool.open(tmp_path / "file.skpool")


def test_processes_and_batches_change_nothing(folder, source, tmp_path):
    expected = everything(MoleculePool.open(folder))
    two = MoleculePool.build(iter(source), tmp_path / "two.skpool", n_jobs=2, batch=20)
    assert everything(two) == expected
    assert everything(MoleculePool.build(source, tmp_path / "one.skpool")) == expected


@pytest.mark.filterwarnings(OPEN_ARCHIVE)
def test_a_full_disk_leaves_no_pool(tmp_path):
    path = tmp_path / "x.skpool"
    with small_files(20_000), pytest.raises(OSError, match="File too large"):
        MoleculePool.build(CHAINS, path, batch=100)
    assert not path.exists()
    assert len(MoleculePool.build(CHAINS, path, batch=100)) == len(CHAINS)


# Killed ------------------------------------------------------------------------------------------


def kill_while(stop, path, source, append=False):
    """Build in a process that kills itself after some step, the third time for a batch."""
    child = os.fork()
    if child == 0:
        try:
            old, calls = getattr(building, stop), []

            def deadly(*given, **named):
                found = old(*given, **named)
                calls.append(1)
                if len(calls) == (3 if stop == "make_part" else 1):
                    os.kill(os.getpid(), signal.SIGKILL)
                return found

            setattr(building, stop, deadly)
            if append:
                MoleculePool.open(path).append(source, batch=20)
            else:
                MoleculePool.build(source, path, batch=20)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


forks = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture
def made(monkeypatch):
    """The batches that are made from here on."""
    found, make = [], building.make_part
    monkeypatch.setattr(building, "make_part", lambda *given: found.append(given) or make(*given))
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@forks
@pytest.mark.parametrize("stop", ["make_part", "merge", "_moved"])
def test_killed_while_building_a_second_call_goes_on(folder, source, tmp_path, made, stop):
    path, batches = tmp_path / "x.skpool", -(-len(source) // 20)
    kill_while(stop, path, source)
    assert not path.exists()
    there = len(list(path.with_name("x.skpool.building").glob("*.npz")))
    assert there == (3 if stop == "make_part" else batches)
    pool = MoleculePool.build(source, path, batch=20)
    assert len(made) == batches - there
    assert everything(pool) == everything(MoleculePool.open(folder))
    assert [one.name for one in tmp_path.iterdir()] == ["x.skpool"]
    pool.check()


def test_nothing_old_is_taken_for_new(source, tmp_path, made):
    path = tmp_path / "x.skpool"
    place = path.with_name("x.skpool.building")
    with pytest.raises(TypeError):
        MoleculePool.build([*source, 3], path, batch=20)
    kept = sorted(place.glob("*.npz"))
    assert len(kept) == len(made) > 3
    kept[0].write_bytes(kept[0].read_bytes()[:-100])  # cut
    data = bytearray(kept[2].read_bytes())
    data[len(data) // 2] ^= 1
    kept[2].write_bytes(data)
    changed = [*source[:20], ("CCCCCCCCCCCCCCCCCC", "new"), *source[21:40], *source[40:]]
    made.clear()
    pool = MoleculePool.build(changed, path, batch=20)
    assert [first for _, first, _, _ in made][:3] == [0, 20, 40]
    assert len(made) <= 4  # the last batch had not been made
    assert everything(pool) == everything(MoleculePool.build(changed, tmp_path / "y.skpool"))


def test_two_builders_of_one_pool(source, tmp_path):
    path = tmp_path / "x.skpool"

    def with_a_rival():
        yield source[0]
        with pytest.raises(BlockingIOError, match="Another process is at work here"):
            MoleculePool.build(source, path)
        yield source[1]

    assert len(MoleculePool.build(with_a_rival(), path)) == 2


# Append ------------------------------------------------------------------------------------------


def test_append_adds_what_is_new_and_numbers_stay(source, tmp_path):
    half = len(source) // 2
    pool = MoleculePool.build(source[:half], tmp_path / "x.skpool")
    reader = MoleculePool.open(tmp_path / "x.skpool")
    before = everything(pool)
    whole = MoleculePool.build(source, tmp_path / "y.skpool")
    assert pool.append(source[half:], batch=20) == len(whole) - len(before[0])
    assert [column[: len(before[0])] for column in everything(pool)] == before
    assert everything(reader) == before  # it goes on with what it had
    assert set(everything(pool)[2]) == set(everything(whole)[2])
    assert pool.append(source) == pool.append([]) == 0
    again = MoleculePool.open(tmp_path / "x.skpool")
    again.check()
    assert again.about()["segments"] == 2
    masses = again.masses(np.arange(len(again)))
    for mass in masses[::5]:
        expected = np.flatnonzero(np.abs(masses - mass) <= 2e-3 * mass)
        found = again.by_mass(mass, ppm=2000)
        assert_array_equal(np.sort(found), expected)
        assert np.all(np.diff(np.abs(masses[found] - mass)) >= 0)
    formulas = again.formulas(np.arange(len(again)))
    for formula in set(formulas):
        assert_array_equal(again.by_formula(formula), np.flatnonzero(formulas == formula))
    shuffled = np.random.default_rng(0).permutation(len(again))
    assert_array_equal(again.by_key(again.keys(shuffled)), shuffled)
    assert_array_equal(again.fingerprints()[shuffled].words, again.fingerprints(shuffled).words)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@forks
@pytest.mark.parametrize("stop", ["make_part", "_moved"])
def test_killed_while_appending_the_pool_is_as_it_was(source, tmp_path, made, stop):
    path = tmp_path / "x.skpool"
    pool = MoleculePool.build(CHAINS[:5], path)
    before = everything(pool)
    kill_while(stop, path, source, append=True)
    again = MoleculePool.open(path)
    again.check()
    assert everything(again) == before
    made.clear()
    assert again.append(source, batch=20) > 100
    assert len(made) < -(-len(source) // 20)
    again.check()
    assert [one.name for one in tmp_path.iterdir()] == ["x.skpool"]


# Damaged -----------------------------------------------------------------------------------------


@pytest.fixture
def copied(folder, tmp_path):
    path = tmp_path / "copy.skpool"
    shutil.copytree(folder, path)
    return path


def arrays(folder):
    return sorted((folder / "segment-0000").glob("*.npy"))


def test_missing_and_cut_files_are_named(copied):
    for path in arrays(copied):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        with pytest.raises(ValueError, match=f"copy.skpool is damaged: segment-0000/{path.name}"):
            MoleculePool.open(copied)
        path.unlink()
        with pytest.raises(ValueError, match=f"{path.name} is missing"):
            MoleculePool.open(copied)
        path.write_bytes(whole)
    MoleculePool.open(copied).check()


def test_changed_bytes_are_found_by_check(copied):
    for path in arrays(copied):
        whole = bytearray(path.read_bytes())
        whole[-1] ^= 1
        path.write_bytes(whole)
        pool = MoleculePool.open(copied)
        with pytest.raises(ValueError, match=f"{path.name} is not as it was written"):
            pool.check()
        whole[-1] ^= 1
        path.write_bytes(whole)


def test_changed_headers_and_bounds_are_refused(copied):
    for path in arrays(copied):  # of the same size
        whole = path.read_bytes()
        for wrong in (b"\x00" * 10 + whole[10:], whole.replace(b"'<", b"'>"), b"PK" + whole[2:]):
            path.write_bytes(wrong)
            if wrong != whole:
                with pytest.raises(ValueError, match="damaged"):
                    MoleculePool.open(copied)
        path.write_bytes(whole)


@pytest.mark.parametrize("value", [2**30, -(2**30)])
def test_numbers_out_of_bounds_are_refused(copied, value):
    # the last number of a file, and a look-up that meets it
    whole = MoleculePool.open(copied)
    last, most = len(whole) - 1, max(whole.formulas(np.arange(len(whole))))
    cases = {
        "smiles_start": (8, "texts lie outside", lambda pool: pool.smiles([last])),
        "formula_code": (4, "formula_code.npy has numbers", lambda pool: pool.formulas([last])),
        "formula_order": (8, "formula_order.npy has numbers", lambda pool: pool.by_formula(most)),
        "key_order": (8, "key_order.npy has numbers", lambda pool: pool.by_key(["~~~~~~~~~~~~~~"])),
    }
    for name, (size, message, use) in cases.items():
        path = copied / "segment-0000" / f"{name}.npy"
        data = path.read_bytes()
        path.write_bytes(data[:-size] + value.to_bytes(size, "little", signed=True))
        pool = MoleculePool.open(copied, verify=False)
        with pytest.raises(ValueError, match=message):
            use(pool)
        path.write_bytes(data)


def use_all(pool):
    pool = pickle.loads(pool) if isinstance(pool, bytes) else pool
    everything(pool)
    pool.by_mass(46.04)
    pool.by_formula("C2H6O")
    pool.by_key(["LFQSCWFLJHTTHZ"])


@pytest.mark.parametrize("verify", [True, False])
def test_random_damage_is_refused_or_without_sums_wrong_data(copied, verify):
    rng = random.Random(0)
    refused = damaged = 0
    for _ in range(80):
        path = rng.choice(arrays(copied))
        whole = path.read_bytes()
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 8])):
            data[rng.randrange(128 if rng.random() < 0.5 else len(data))] = rng.randrange(256)
        path.write_bytes(data)
        damaged += data != whole
        try:
            use_all(MoleculePool.open(copied, verify=verify))
        except FileError as error:
            refused += "damaged" in str(error)
        path.write_bytes(whole)
    use_all(MoleculePool.open(copied))
    assert refused == damaged if verify else 10 < refused < damaged


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-40],
        lambda text: "",
        lambda text: "[]",
        lambda text: '"pool"',
        lambda text: "[" * 100_000,
        lambda text: text.replace('"n_bits": 2048', '"n_bits": 2049'),
        lambda text: text.replace("segment-0000", "../segment-0000"),
        lambda text: text.replace("skout molecules", "others"),
        lambda text: json.dumps({"pool": json.loads(text)["pool"]}),
    ],
)
def test_a_damaged_manifest_is_said(copied, change):
    path = copied / "manifest.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=r"copy.skpool is damaged: manifest.json cannot be used"):
        MoleculePool.open(copied)


def test_a_newer_version_is_said(copied):
    path = copied / "manifest.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 3'))
    with pytest.raises(ValueError, match="was made by a newer skout"):
        MoleculePool.open(copied)


# Priors ------------------------------------------------------------------------------------------

TABLE = "smiles,name,sources\nCCO,ethanol,a|b\nOCC,,c\nCCN,,a\n"


def test_a_pool_keeps_how_well_known_molecules_are(tmp_path):
    (tmp_path / "a.csv").write_text(TABLE)
    pool = MoleculePool.build(tmp_path / "a.csv", tmp_path / "a.skpool")
    ethanol, amine = pool.keys(np.concatenate([pool.by_formula("C2H6O"), pool.by_formula("C2H7N")]))
    assert pool.prior() == {ethanol: 3.0, amine: 1.0}
    assert pool.prior() == read_prior(tmp_path / "a.csv")
    (tmp_path / "b.tsv").write_text("smiles\tprior\nCCCC\t7\nCCO\t9\nCCCCC\t\n")
    pool.append(tmp_path / "b.tsv")
    again = MoleculePool.open(tmp_path / "a.skpool")
    butane = str(again.keys(again.by_formula("C4H10"))[0])
    assert again.prior() == {ethanol: 3.0, amine: 1.0, butane: 7.0}
    again.check()


def test_a_pool_without_such_a_column_has_no_prior(tmp_path):
    (tmp_path / "a.csv").write_text("smiles,number\nCCO,first\nCCN,second\n")
    pool = MoleculePool.build(tmp_path / "a.csv", tmp_path / "a.skpool")
    assert pool.prior() == {}
    assert '"version": 1' in (tmp_path / "a.skpool" / "manifest.json").read_text()


# Forged ------------------------------------------------------------------------------------------


def forged(path, change):
    """Rewrite a manifest, with the digest that it must have."""
    pool = json.loads((path / "manifest.json").read_text())["pool"]
    change(pool)
    digest = hashlib.sha256(json.dumps(pool, sort_keys=True).encode()).hexdigest()
    (path / "manifest.json").write_text(json.dumps({"digest": digest, "pool": pool}))


def segment_of(pool):
    return pool["segments"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda pool: pool.update(n_bits="a"), "its n_bits cannot be 'a'"),
        (lambda pool: pool.update(n_bits=-64), "its n_bits cannot be -64"),
        (lambda pool: pool.update(n_bits=True), "its n_bits cannot be True"),
        (lambda pool: pool.update(fingerprints=[1]), r"its fingerprints cannot be \[1\]"),
        (lambda pool: pool["fingerprints"].update(kind=3), r"its kind cannot be \[3\]"),
        (lambda pool: pool["fingerprints"].update(radius=None), "radius cannot be None"),
        (lambda pool: pool["fingerprints"].update(more=1), "its fingerprints cannot be"),
        (lambda pool: pool.update(rdkit=7), "its rdkit cannot be 7"),
        (lambda pool: pool.update(version="1"), "its version cannot be '1'"),
        (lambda pool: pool.update(segments={}), "its segments cannot be {}"),
        (lambda pool: pool.update(segments=[3]), "its segments cannot be 3"),
        (lambda pool: pool.pop("n_bits"), "it has no 'n_bits'"),
        (lambda pool: segment_of(pool).pop("files"), "it has no 'files'"),
        (lambda pool: segment_of(pool).update(molecules=2.5), "its molecules cannot be 2.5"),
        (lambda pool: segment_of(pool).update(read=-1), "its read cannot be -1"),
        (lambda pool: segment_of(pool).update(folder=["segment-0000"]), "its folder cannot be"),
        (lambda pool: segment_of(pool).update(files=3), "its files cannot be 3"),
        (lambda pool: segment_of(pool)["files"].update({"../x": [1, "a"]}), "its files cannot be"),
        (lambda pool: segment_of(pool)["files"].update({"key.npy": [1, 2]}), "its key.npy cannot"),
        (lambda pool: segment_of(pool)["files"].update({"key.npy": 5}), "its key.npy cannot be 5"),
    ],
)
def test_a_forged_manifest_is_refused_in_words(copied, change, message):
    forged(copied, change)
    with pytest.raises(FileError, match=f"copy.skpool is damaged: manifest.json cannot.*{message}"):
        MoleculePool.open(copied)


def test_fingerprints_of_another_width_are_refused(copied):
    forged(copied, lambda pool: pool.update(n_bits=64))
    with pytest.raises(FileError, match="fingerprints have other widths than 64 bits"):
        MoleculePool.open(copied)


@pytest.mark.parametrize("dtype", ["<f4", "<i8", "S9"])
def test_arrays_of_another_kind_are_refused(copied, dtype):
    path = copied / "segment-0000" / "mass.npy"
    masses = np.load(path)
    np.save(path, masses.astype(dtype))

    def change(pool):
        size, digest = path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()
        segment_of(pool)["files"]["mass.npy"] = [size, digest]

    forged(copied, change)
    with pytest.raises(FileError, match=r"mass.npy has 1 axes of"):
        MoleculePool.open(copied)


def test_keys_that_are_no_text(copied):
    pool = MoleculePool.open(copied)
    known = str(pool.keys([3])[0])
    assert_array_equal(pool.by_key(["é" * 14, f"é{known[1:]}", known, "ÿ"]), [-1, -1, 3, -1])
    path = copied / "segment-0000" / "key.npy"
    path.write_bytes(path.read_bytes()[:-14] + b"\xff" * 14)
    pool = MoleculePool.open(copied, verify=False)
    with pytest.raises(FileError, match=r"key.npy has keys that are no text"):
        pool.keys(np.arange(len(pool)))


@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_in_the_place_of_batches_is_refused(tmp_path, dangling):
    other = tmp_path / "other"
    if not dangling:
        other.mkdir()
    (tmp_path / "x.skpool.building").symlink_to(other)
    with pytest.raises(FileExistsError, match=r"x.skpool.building is a symbolic link"):
        MoleculePool.build(["CCO"], tmp_path / "x.skpool")
    assert not other.exists() or list(other.iterdir()) == []
    assert not (tmp_path / "x.skpool").exists()


# What reads each array.
READERS = {
    "mass": lambda pool: pool.by_mass(46.04),
    "key": lambda pool: pool.keys([0]),
    "key_order": lambda pool: pool.by_key(["LFQSCWFLJHTTHZ"]),
    "formula_code": lambda pool: pool.formulas([0]),
    "formula_order": lambda pool: pool.by_formula("C2H6O"),
    "formula_rows": lambda pool: pool.by_formula("C2H6O"),
    "formula_text": lambda pool: pool.formulas([0]),
    "formula_start": lambda pool: pool.formulas([0]),
    "smiles_text": lambda pool: pool.smiles([0]),
    "smiles_start": lambda pool: pool.smiles([0]),
    "name_text": lambda pool: pool.names([0]),
    "name_start": lambda pool: pool.names([0]),
    "words": lambda pool: pool.fingerprints([0]),
}


def test_an_array_is_compared_with_its_sum_before_it_is_read(copied):
    assert {f"{name}.npy" for name in READERS} == {path.name for path in arrays(copied)}
    for path in arrays(copied):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        pool = MoleculePool.open(copied)
        others = [read for name, read in READERS.items() if name.partition("_")[0] != path.stem]
        with pytest.raises(FileError, match=f"segment-0000/{path.name} is not as it was written"):
            READERS[path.stem](pool)
        if path.stem == "words":  # what is not read is not compared
            for read in others:
                read(pool)
            MoleculePool.open(copied, verify=False).fingerprints([0])
        path.write_bytes(whole)


def test_an_array_is_compared_once(copied, monkeypatch):
    compared, digest_of = [], segments.digest_of

    def counted(path):
        compared.append(path.stem)
        return digest_of(path)

    monkeypatch.setattr(segments, "digest_of", counted)
    pool = MoleculePool.open(copied)
    assert compared == []
    for _ in range(3):
        everything(pool)
        use_all(pickle.dumps(pool))  # a copy for another process
    assert sorted(compared) == sorted(set(READERS) - {"key_order", "formula_order", "formula_rows"})
    compared.clear()
    pool.append(["CCCCCCCCCCCCCCCCCCCCCCCOCC"])
    compared.clear()  # those of the new segment, and keys, to know what is new
    everything(pool)
    assert len(compared) == len(set(compared)) == len(READERS) - 3  # of the new segment


def test_smiles_that_take_minutes_are_invalid(tmp_path):
    with pytest.warns(UserWarning, match="1 of 2 SMILES are invalid"):
        pool = MoleculePool.build(["C" * 50_000, "CCO"], tmp_path / "x.skpool")
    assert len(pool) == 1


# Shared ------------------------------------------------------------------------------------------


def base_of(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return array


def test_arrays_are_mapped_not_read(pool):
    segment = pool._segments[0]
    for array in segment._arrays.values():
        assert isinstance(base_of(array), mmap.mmap)
        assert not array.flags.writeable
    assert np.shares_memory(pool.fingerprints().words, segment.words)


def test_a_pickle_is_the_path(pool):
    text = pickle.dumps(pool)
    assert len(text) < 500
    assert everything(pickle.loads(text)) == everything(pool)


READ = """
import sys, hashlib, numpy as np
from skout.molecules import MoleculePool
pool, n = MoleculePool.open(sys.argv[1]), int(sys.argv[2])
print("open", flush=True)
sys.stdin.readline()
found = hashlib.sha256()
for _ in range(10):
    pool = MoleculePool.open(sys.argv[1])
    rows = np.arange(n)
    found = hashlib.sha256(pool.fingerprints(rows).words.tobytes() + pool.masses(rows).tobytes())
    found.update(" ".join([*pool.smiles(rows), *pool.names(rows)]).encode())
    assert list(pool.by_mass(46.041864812, 10)[:1]) == list(pool.by_formula("C2H6O")[:1])
print(found.hexdigest())
"""


def test_two_readers_while_molecules_are_appended(copied):
    pool = MoleculePool.open(copied)
    command = [sys.executable, "-c", textwrap.dedent(READ), str(copied), str(len(pool))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    readers = [subprocess.Popen(command, **pipes) for _ in range(2)]
    assert [reader.stdout.readline() for reader in readers] == ["open\n"] * 2
    for reader in readers:
        reader.stdin.write("go\n")
        reader.stdin.flush()
    added = [pool.append([f"{'C' * n}OC"]) for n in range(15, 25)]
    answers = [reader.communicate()[0] for reader in readers]
    assert [reader.returncode for reader in readers] == [0, 0]
    assert added == [1] * 10
    assert answers[0] == answers[1] != ""


def test_opening_takes_no_time(folder):
    seconds = []
    for _ in range(5):
        clock = time.perf_counter()
        MoleculePool.open(folder)
        seconds.append(time.perf_counter() - clock)
    assert min(seconds) < 0.2
