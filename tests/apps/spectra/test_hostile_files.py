"""Files of strangers and of other programs: encodings, groups of terms, bombs, nothing at all."""

import base64
import bz2
import csv
import gzip
import io
import lzma
import subprocess
import sys
import textwrap
import zlib
from importlib.util import find_spec

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skout.apps.spectra.readers.formulas import MASSES, formula_mass, hill
from skout.apps.spectra.readers.molecules import stream_molecules
from skout.readers import (
    LIMITS,
    neutral_mass,
    parse_adduct,
    read_massbank,
    read_mgf,
    read_msp,
    read_mzml,
    read_sdf,
    read_smiles,
)

MGF = "BEGIN IONS\nTITLE=café\nPEPMASS=195.0877\n110.07 5\n138.06 99\nEND IONS\n"
MSP = "Name: café\nPrecursorMZ: 195.0877\nNum Peaks: 2\n110.07 5\n138.06 99\n\n"
MASSBANK = (
    "ACCESSION: café\nMS$FOCUSED_ION: PRECURSOR_M/Z 195.0877\nPK$NUM_PEAK: 2\n"
    "PK$PEAK: m/z int. rel.int.\n 110.07 5 50\n 138.06 99 999\n//\n"
)
SPECTRA = {"mgf": (MGF, read_mgf), "msp": (MSP, read_msp), "massbank": (MASSBANK, read_massbank)}
SMILES = "smiles,name\nCCO,café\nC,methane\n"


@pytest.fixture
def limits(monkeypatch):
    """Set limits for one test."""
    return lambda **given: [monkeypatch.setattr(LIMITS, *one) for one in given.items()]


# Encodings and ends of lines ---------------------------------------------------------------------

ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1"]
MARKS = {"be with a mark": b"\xfe\xff", "le with a mark": b"\xff\xfe"}
ENCODINGS += ["utf-16-le", "utf-16-be", *MARKS]


def encoded(text, encoding, end):
    plain = f"utf-16-{encoding[:2]}" if encoding in MARKS else encoding
    return MARKS.get(encoding, b"") + text.replace("\n", end).encode(plain)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", SPECTRA)
def test_spectra_in_any_encoding(name, encoding, end):
    text, read = SPECTRA[name]
    table = read(io.BytesIO(encoded(text * 3, encoding, end)))
    assert len(table) == 3
    assert_allclose(table.spectra.mz, [110.07, 138.06] * 3)
    assert_allclose(table["precursor_mz"], 195.0877)
    assert set(table["name" if name == "msp" else "identifier"]) == {"café"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_molecules_in_any_encoding(encoding, end, tmp_path):
    table = read_smiles(io.BytesIO(encoded(SMILES, encoding, end)))
    assert list(table.smiles) == ["CCO", "C"]
    assert list(table["name"]) == ["café", "methane"]
    Chem = pytest.importorskip("rdkit.Chem")
    blocks = [Chem.MolToMolBlock(Chem.MolFromSmiles(text)) for text in ("CCO", "CCN")]
    text = "".join(f"{block}>  <origin>\ncafé\n\n$$$$\n" for block in blocks)
    (tmp_path / "two.sdf.gz").write_bytes(gzip.compress(encoded(text, encoding, end)))
    table = read_sdf(tmp_path / "two.sdf.gz")
    assert list(table.smiles) == ["CCO", "CCN"]
    assert list(table["origin"]) == ["café"] * 2


def test_lines_longer_than_a_block_are_whole():
    # ends of lines at any place of the blocks that are read
    for extra in range(3):
        comment = "A=" + "x" * (2**16 - 13 + extra)
        for end in ("\n", "\r\n", "\r"):
            text = f"BEGIN IONS\n{comment}\n110 5\n138 99\nEND IONS\n".replace("\n", end)
            assert_array_equal(read_mgf(io.BytesIO(text.encode())).spectra.mz, [110, 138])


@pytest.mark.parametrize("number", ["1_00", "1_0.5", "\u0661\u0662"])
@pytest.mark.parametrize("name", SPECTRA)
def test_numbers_that_only_python_reads_are_refused(name, number):
    text, read = SPECTRA[name]
    for old in ("110.07", "195.0877"):
        with pytest.raises(ValueError, match=r"nor a peak|no peak|precursor m/z is no number"):
            read(io.BytesIO(text.replace(old, number).encode()))
    with pytest.raises(ValueError, match="its number of peaks is no number, '1_0'"):
        read_msp(io.BytesIO(MSP.replace("Peaks: 2", "Peaks: 1_0").encode()))


# mzML --------------------------------------------------------------------------------------------

LEVEL, POSITIVE, NEGATIVE = "MS:1000511", "MS:1000130", "MS:1000129"
DOUBLE, ZLIB, MZ, INTENSITY = "MS:1000523", "MS:1000574", "MS:1000514", "MS:1000515"
SELECTED, CHARGE, HEIGHT, ENERGY = "MS:1000744", "MS:1000041", "MS:1000042", "MS:1000045"


def terms(found):
    return "".join(f'<cvParam accession="{name}" value="{v}"/>' for name, v in found.items())


def ref(name):
    return f'<referenceableParamGroupRef ref="{name}"/>'


def array(values, own, packed=None):
    packed = zlib.compress(np.asarray(values, dtype="<f8").tobytes()) if packed is None else packed
    text = base64.b64encode(packed).decode()
    return f"<binaryDataArray>{own}<binary>{text}</binary></binaryDataArray>"


def mzml(spectra, groups=()):
    named = "".join(
        f'<referenceableParamGroup id="{name}">{terms(found)}</referenceableParamGroup>'
        for name, found in dict(groups).items()
    )
    return (
        '<?xml version="1.0"?><mzML xmlns="http://psi.hupo.org/ms/mzml">'
        f"<referenceableParamGroupList>{named}</referenceableParamGroupList>"
        f"<run><spectrumList>{''.join(spectra)}</spectrumList></run></mzML>"
    ).encode()


def spectrum(own, ions=(), activation="", arrays=None):
    arrays = arrays or [{DOUBLE: "", ZLIB: "", MZ: ""}, {DOUBLE: "", ZLIB: "", INTENSITY: ""}]
    texts = [one if isinstance(one, str) else terms(one) for one in arrays]
    ions = "".join(f"<selectedIon>{one}</selectedIon>" for one in ions)
    return (
        f'<spectrum id="s">{own}<precursorList><precursor><selectedIonList>{ions}</selectedIonList>'
        f"<activation>{activation}</activation></precursor></precursorList><binaryDataArrayList>"
        f"{array([110.0, 138.0], texts[0])}{array([5.0, 99.0], texts[1])}"
        "</binaryDataArrayList></spectrum>"
    )


PLACES = {
    "level": {LEVEL: 2},
    "polarity": {NEGATIVE: ""},
    "ion": {SELECTED: 193.0731, CHARGE: 1},
    "activation": {ENERGY: 35},
    "type": {DOUBLE: "", ZLIB: ""},
    "mz": {MZ: ""},
    "intensity": {INTENSITY: ""},
}


@pytest.mark.parametrize("grouped", [(), *([name] for name in PLACES), tuple(PLACES)])
def test_terms_in_groups_are_terms(grouped):
    at = {name: ref(name) if name in grouped else terms(found) for name, found in PLACES.items()}
    arrays = [at["type"] + at["mz"], at["type"] + at["intensity"]]
    text = spectrum(at["level"] + at["polarity"], [at["ion"]], at["activation"], arrays)
    table = read_mzml(io.BytesIO(mzml([text], PLACES)))
    assert_array_equal(table.spectra.mz, [110, 138])
    assert_array_equal(table.spectra.intensity, [5, 99])
    assert_array_equal(table["precursor_mz"], [193.0731])
    assert_array_equal(table["collision_energy"], [35])
    assert list(table["polarity"]) == ["negative"]
    assert list(table["charge"]) == ["1"]


def test_a_group_that_is_not_there_is_named():
    text = spectrum(terms({LEVEL: 2}) + ref("other"))
    with pytest.raises(ValueError, match=r"record 1: it refers to a group .* has not, 'other'"):
        read_mzml(io.BytesIO(mzml([text])))


def test_of_several_selected_ions_the_first_is_read_and_this_is_said():
    two = [terms({SELECTED: 195.0877, HEIGHT: 9}), terms({SELECTED: 400.5, CHARGE: 2})]
    both = spectrum(terms({LEVEL: 2, POSITIVE: ""}), two)
    single = spectrum(terms({LEVEL: 2}), two[1:])
    with pytest.warns(
        UserWarning, match="2 spectra have several selected ions.* the first"
    ) as seen:
        table = read_mzml(io.BytesIO(mzml([both, single, both])))
    assert len(seen) == 1
    assert_array_equal(table["precursor_mz"], [195.0877, 400.5, 195.0877])
    assert list(table["charge"]) == ["", "2", ""]  # never that of another ion


# Nothing to read ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_mzml, mzml([spectrum(terms({LEVEL: 1}))] * 12), "12 spectra of MS level 1"),
        (read_mzml, mzml([spectrum("")]), "it has 1 spectra of MS level unknown"),
        (read_mzml, mzml([]), "no spectrum of MS level 2 in the text: it has nothing"),
        (read_mgf, b"a\nb\nc\n", "from BEGIN IONS to END IONS, in the text: it has 3 lines"),
        (read_msp, b"\n\n", "no spectrum in the text: it has 2 lines"),
        (read_massbank, b"", "no spectrum in the text: it has nothing"),
        (read_smiles, b"smiles,name\n", "no molecule in the text: it has 1 lines"),
    ],
)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_an_input_that_yields_nothing_is_an_error(read, text, message, on_error):
    with pytest.raises(ValueError, match=message):
        read(io.BytesIO(text), on_error=on_error)


def test_a_file_of_molecules_that_yields_nothing_is_an_error(tmp_path):
    path = tmp_path / "none.smi"
    path.write_text("\n\n")
    with pytest.raises(ValueError, match=r"no molecule in none.smi: it has 2 lines"):
        list(stream_molecules(path, on_error="skip"))


# Formulas and adducts ----------------------------------------------------------------------------


def test_masses_are_those_of_rdkit():
    Chem = pytest.importorskip("rdkit.Chem")
    table = Chem.GetPeriodicTable()
    symbols = [table.GetElementSymbol(number) for number in range(1, 119)]
    assert set(symbols) <= set(MASSES)
    for number, symbol in enumerate(symbols, 1):
        assert_allclose(MASSES[symbol], table.GetMostCommonIsotopeMass(number), atol=2e-8)
    for name in set(MASSES) - set(symbols) - {"D", "T"}:
        isotope = Chem.MolFromSmiles(name).GetAtomWithIdx(0)
        assert_allclose(MASSES[name], isotope.GetMass(), atol=1e-6)


@pytest.mark.parametrize(
    "smiles",
    ["C[Se]CCC(N)C(=O)O", "C[Si](C)(C)O", "OB(O)c1ccccc1", "C[Hg]C", "Cl[Pt](Cl)(N)N", "C[As](C)O"],
)
def test_formulas_with_other_elements(smiles):
    Chem = pytest.importorskip("rdkit.Chem")
    from rdkit.Chem.rdMolDescriptors import CalcExactMolWt, CalcMolFormula

    molecule = Chem.MolFromSmiles(smiles)
    formula = CalcMolFormula(molecule)
    assert_allclose(formula_mass(formula), CalcExactMolWt(molecule), atol=1e-6)
    assert_allclose(formula_mass(hill(formula)), CalcExactMolWt(molecule), atol=1e-6)


def test_isotopes_in_formulas():
    assert_allclose(formula_mass("C6D6"), 6 * 12 + 6 * 2.014101778)
    assert_allclose(formula_mass("[13C]6H12O6"), formula_mass("C6H12O6") + 6 * 1.00335484)
    assert_allclose(formula_mass("CD3OH"), formula_mass("C[2H]3OH"))
    assert np.isnan(formula_mass("[99C]H4"))
    assert hill("[13C]2H4O") == "H4O[13C]2"


@pytest.mark.parametrize(
    ("adduct", "shift"),
    [("[M+Ag]+", 106.905097), ("[M+Cs]+", 132.9054519), ("[M-H+Zn]+", 63.9291422 - 1.00782503207)],
)
def test_adducts_with_metals(adduct, shift):
    assert_allclose(parse_adduct(adduct).shift, shift - 0.000548579909, atol=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        *("[0M+H]+", "[00M+H]+", "[M+C9999999999]+", "[M+H9999999]+"),
        *(f"[M+{'9' * 400}H]+", f"[{'9' * 400}M+H]+", f"[M+H]{'9' * 400}+", f"[M+C{'9' * 5000}]+"),
    ],
)
def test_adducts_of_no_molecule_are_refused(text):
    with pytest.raises(ValueError, match=r"has no molecule|cannot be read|mass is not known"):
        neutral_mass(195.0877, text)


# Bombs -------------------------------------------------------------------------------------------


@pytest.fixture
def plain_csv():
    """The limit that Python's csv begins with; files of tables raise it for the whole process."""
    before = csv.field_size_limit(131_072)
    yield
    csv.field_size_limit(before)


@pytest.mark.usefixtures("plain_csv")
def test_a_long_cell_of_molecules_is_named():
    body = b'smiles,name\n"' + b"C" * 200_000 + b'",x\nCCO,y\nC,"' + b"d" * 200_000 + b'"\nCC,z\n'
    message = r"record 1 \(line 2\): it is no row of a table \(a cell has more than 131,072 letters"
    with pytest.raises(ValueError, match=message):
        read_smiles(io.BytesIO(body))
    with pytest.warns(UserWarning, match="2 damaged records were left out"):
        table = read_smiles(io.BytesIO(body), on_error="skip")
    assert list(table.smiles) == ["CCO", "CC"]
    assert [problem.line for problem in table.problems] == [2, 4]
    table = read_smiles(io.BytesIO(b"C" * 200_000 + b" polymer\nCCO y\n"))  # lines have no cells
    assert [len(text) for text in table.smiles] == [200_000, 3]


@pytest.mark.parametrize("name", SPECTRA)
def test_lines_have_a_limit(name, limits):
    text, read = SPECTRA[name]
    limits(line=2**17)
    body = text.encode() + b"\n" + b"A" * 2**18
    with pytest.raises(ValueError, match=r"line \d+: .* \(a line has more than 131,072 bytes\)"):
        read(io.BytesIO(body))
    with pytest.warns(UserWarning, match="a line has more than"):
        assert len(read(io.BytesIO(body), on_error="skip")) == 1
    limits(line=2**19)
    with pytest.raises(ValueError, match=r"END IONS|no field|neither a field|ends inside|no spec"):
        read(io.BytesIO(body.removeprefix(text.encode())))


@pytest.mark.parametrize(
    ("name", "old"), [("mgf", "110.07 5\n"), ("msp", "110.07 5\n"), ("massbank", " 110.07 5 50\n")]
)
def test_records_have_a_limit(name, old, limits):
    text, read = SPECTRA[name]
    limits(record=10_000)
    body = (text + text.replace(old, old * 2000) + text).encode()
    with pytest.raises(ValueError, match=r"record 2 .*it has more than 10,000 letters"):
        read(io.BytesIO(body))
    with pytest.warns(UserWarning, match="1 damaged records"):
        assert len(read(io.BytesIO(body), on_error="skip")) == 2


def test_records_of_very_many_fields_are_refused():
    fields = "".join(f"F{i}=1\n" for i in range(10_100))
    body = MGF.replace("PEPMASS", f"{fields}PEPMASS").encode()
    with pytest.raises(ValueError, match="it has more than 10,000 fields"):
        read_mgf(io.BytesIO(body))


def test_molecules_of_sdf_have_a_limit(tmp_path, limits):
    Chem = pytest.importorskip("rdkit.Chem")
    limits(record=20_000)
    block = Chem.MolToMolBlock(Chem.MolFromSmiles("CCO"))
    large = f"{block}>  <note>\n" + "long text\n" * 5000 + "\n"
    path = tmp_path / "a.sdf"
    path.write_text(f"{block}$$$$\n{large}$$$$\n{block}$$$$\n{large}")
    with pytest.raises(ValueError, match=r"record 2 .line .* it has more than 20,000 letters"):
        read_sdf(path)
    with pytest.warns(UserWarning, match="2 damaged records"):
        table = read_sdf(path, on_error="skip")
    assert list(table.smiles) == ["CCO"] * 2
    assert list(table.record) == [1, 3]


def test_arrays_of_mzml_have_a_limit(limits):
    limits(array=1000)
    own = terms({DOUBLE: "", ZLIB: "", MZ: ""})
    text = spectrum(terms({LEVEL: 2})).replace(array([110.0, 138.0], own), array(range(200), own))
    with pytest.raises(ValueError, match=r"record 1: its arrays cannot .* more than 1,000 bytes"):
        read_mzml(io.BytesIO(mzml([text])))
    limits(array=2000)
    with pytest.raises(ValueError, match="200 m/z values and 2 intensities"):
        read_mzml(io.BytesIO(mzml([text])))
    cut = spectrum(terms({LEVEL: 2})).replace(
        array([110.0, 138.0], own), array([], own, zlib.compress(bytes(64))[:-8])
    )
    with pytest.raises(ValueError, match=r"cannot be unpacked \(incomplete"):
        read_mzml(io.BytesIO(mzml([cut])))


def test_spectra_of_mzml_have_a_limit(limits):
    whole = spectrum(terms({LEVEL: 2}))
    limits(spectrum=2**17)
    for inside in ("x" * 2**19, "<a/>" * 2**17, "<a>" * 2**18):
        body = mzml([whole, f'<spectrum id="t">{inside}</spectrum>', whole])
        with pytest.raises(ValueError, match=r"record 2: .*a spectrum has more than"):
            read_mzml(io.BytesIO(body))
        with pytest.warns(UserWarning, match="a spectrum has more than"):
            assert len(read_mzml(io.BytesIO(body), on_error="skip")) == 1
    index = mzml([whole]).replace(b"</run>", b"</run>" + b"<offset>123</offset>" * 2**15)
    assert len(read_mzml(io.BytesIO(index))) == 1  # outside of spectra there is no limit


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files_have_a_limit(pack, tmp_path, limits):
    limits(unpacked=2**18)
    path = tmp_path / "a.mgf"
    path.write_bytes(pack(MGF.encode() + b"\n" * 2**20))
    with pytest.raises(
        ValueError, match=r"unpacks to more than 100 times its size.*unpack it first"
    ):
        read_mgf(path)
    with pytest.warns(UserWarning, match="unpacks to more than 100"):
        assert len(read_mgf(path, on_error="skip")) == 1
    limits(ratio=10**9)
    assert len(read_mgf(path)) == 1


PEAK = """
import sys
from skout.readers import read_mgf, read_msp, read_mzml, read_smiles
from skout.apps.spectra.readers.molecules import stream_molecules

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

def pool(path):
    return list(stream_molecules(path))

readers = {"mgf": read_mgf, "msp": read_msp, "mzML": read_mzml, "smi": read_smiles, "sdf": pool}
for path in sys.argv[1:]:
    before = peak()
    try:
        readers[path.split(".")[-2 if path.endswith("gz") else -1]](path)
    except ValueError as error:
        print((peak() - before) // 1024, str(error)[:300])
    else:
        print("0 was read")
"""


def test_small_files_do_not_take_much_memory(tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("needs /proc")
    own = terms({DOUBLE: "", ZLIB: "", MZ: ""})
    bomb = array([], own, zlib.compress(bytes(2**27), 1))

    def packed(start, repeated):  # 128 MiB of it, as an archive of 32 parts
        return gzip.compress(start) + gzip.compress(repeated * (2**22 // len(repeated))) * 32

    files = {
        "array.mzML": mzml([spectrum(terms({LEVEL: 2})).replace(array([110.0, 138.0], own), bomb)]),
        "line.mgf.gz": packed(b"", b"A"),
        "pairs.msp.gz": packed(b"Name: a\nNum Peaks: 1\n", b"1 1;"),
        "line.smi.gz": packed(b"", b"C"),
        "line.sdf.gz": packed(b"", b"C"),
        "text.mzML.gz": packed(mzml(["<spectrum>"]).partition(b"</spectrumList>")[0], b"A"),
    }
    if find_spec("rdkit") is None:
        del files["line.sdf.gz"]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert len(content) < 2**20
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(PEAK),
        *(str(tmp_path / name) for name in files),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for name, line in zip(files, done.stdout.splitlines(), strict=True):
        grown, _, message = line.partition(" ")
        assert int(grown) < 200, (name, line)
        assert "more than" in message, (name, line)
