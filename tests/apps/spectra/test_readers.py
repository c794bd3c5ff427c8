"""Readers of spectra and molecules: agreement with pyteomics and RDKit, adducts, damaged files."""

import base64
import bz2
import gzip
import io
import lzma
import math
import random
import warnings
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skout.apps.spectra.readers import fill_adducts, read_spectra_file
from skout.apps.spectra.readers.molecules import stream_molecules
from skout.kernels import PeakCosine
from skout.readers import (
    compound_labels,
    neutral_mass,
    parse_adduct,
    precursor_mz,
    read_json,
    read_massbank,
    read_mgf,
    read_msp,
    read_mzml,
    read_mzxml,
    read_sdf,
    read_sirius,
    read_smiles,
    spectra_table,
    write_mgf,
)

FILES = Path(__file__).parents[2] / "files"

MGF = """BEGIN IONS
TITLE=one
PEPMASS=195.0877 1000
CHARGE=1+
ADDUCT=[M+H]+
COLLISION_ENERGY=35 eV
SMILES=Cn1cnc2c1c(=O)n(C)c(=O)n2C
138.0662 100
110.0713 5.5
END IONS

BEGIN IONS
TITLE=two
PEPMASS=193.0731
IONMODE=negative
ADDUCT=[M-H]-
42.0 1
80.5 2e2
END IONS
"""
MSP = """Name: one
PrecursorMZ: 195.0877
Precursor_type: [M+H]+
Collision_energy: 35
Formula: C8H10N4O2
Num Peaks: 2
138.0662 100
110.0713 5.5

NAME: two
PRECURSORMZ: 193.0731
PRECURSORTYPE: [M-H]-
Num peaks: 2
42.0 1; 80.5 200
"""
MASSBANK = """ACCESSION: one
CH$NAME: caffeine
CH$FORMULA: C8H10N4O2
CH$SMILES: Cn1cnc2c1c(=O)n(C)c(=O)n2C
CH$LINK: INCHIKEY RYYVLZVUVIJVGH-UHFFFAOYSA-N
AC$INSTRUMENT_TYPE: LC-ESI-QTOF
AC$MASS_SPECTROMETRY: ION_MODE POSITIVE
AC$MASS_SPECTROMETRY: COLLISION_ENERGY 35 V
MS$FOCUSED_ION: PRECURSOR_M/Z 195.0877
MS$FOCUSED_ION: PRECURSOR_TYPE [M+H]+
PK$NUM_PEAK: 2
PK$PEAK: m/z int. rel.int.
  110.0713 5.5 55
  138.0662 100 999
//
"""
TEXTS = {"mgf": (MGF, read_mgf), "msp": (MSP, read_msp), "massbank": (MASSBANK, read_massbank)}


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def peaks(table, i):
    rows = slice(table.spectra.indptr[i], table.spectra.indptr[i + 1])
    return table.spectra.mz[rows], table.spectra.intensity[rows]


# Formats -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
def test_fields_and_peaks(name, tmp_path):
    text, read = TEXTS[name]
    table = read(write(tmp_path / "file", text))
    assert len(table) == (1 if name == "massbank" else 2)
    assert_allclose(peaks(table, 0), [[110.0713, 138.0662], [5.5, 100]])
    assert table["precursor_mz"][0] == 195.0877
    assert table["adduct"][0] == "[M+H]+"
    assert table["polarity"][0] == "positive"
    assert table["collision_energy"][0] == 35.0
    assert_allclose(table.neutral_mass()[0], 194.0804, atol=1e-3)
    if len(table) > 1:
        assert_allclose(peaks(table, 1), [[42, 80.5], [1, 200]])
        assert table["polarity"][1] == "negative"
        assert math.isnan(table["collision_energy"][1])
        assert_allclose(table.neutral_mass()[1], 194.0804, atol=1e-3)
    assert PeakCosine()(table.spectra).shape == (len(table), len(table))


def test_massbank_names_molecule_and_instrument(tmp_path):
    table = read_massbank(write(tmp_path / "file", MASSBANK))
    assert table["identifier"][0] == "one"
    assert table["name"][0] == "caffeine"
    assert table["inchikey"][0] == "RYYVLZVUVIJVGH-UHFFFAOYSA-N"
    assert table["instrument"][0] == "LC-ESI-QTOF"


def test_an_mgf_file_of_pyteomics():
    table = read_mgf(FILES / "pyteomics.mgf")
    assert list(table["identifier"]) == [f"spectrum {k}" for k in range(1, 6)]
    assert_allclose(table["precursor_mz"], 100.0 + np.arange(1, 6))
    for i, k in enumerate(range(1, 6)):
        assert_allclose(peaks(table, i)[0], 50 + 10 * np.arange(k) + 0.1234 * k)
        assert_allclose(peaks(table, i)[1], 1.5 * np.arange(1, k + 1))


def test_what_is_written_is_read_back(tmp_path):
    table = read_mgf(write(tmp_path / "a.mgf", MGF))
    again = read_mgf(write_mgf(tmp_path / "b.mgf", table))
    for name, values in table.fields.items():
        assert_array_equal(again[name], values)
    assert_array_equal(again.spectra.mz, table.spectra.mz)
    assert_array_equal(again.spectra.intensity, table.spectra.intensity)


def test_an_mzml_file_of_psims():
    table = read_mzml(FILES / "psims.mzML")
    rng = np.random.default_rng(0)
    for i in range(3):
        mz, intensity = np.sort(rng.uniform(50, 300, 10)), rng.uniform(1, 9, 10)
        assert_allclose(peaks(table, i)[0], mz)
        assert_allclose(peaks(table, i)[1], intensity, rtol=1e-6)
    assert_allclose(table["precursor_mz"], 195.0877)
    assert_allclose(table["collision_energy"], 35.0)
    assert list(table["charge"]) == ["1"] * 3


def mzml_text(arrays):
    import base64
    import struct

    def binary(values, accession):
        raw = base64.b64encode(struct.pack(f"<{len(values)}d", *values)).decode()
        return (
            f'<binaryDataArray encodedLength="{len(raw)}">'
            '<cvParam cvRef="MS" accession="MS:1000523" name="64-bit float"/>'
            '<cvParam cvRef="MS" accession="MS:1000576" name="no compression"/>'
            f'<cvParam cvRef="MS" accession="{accession[0]}" name="{accession[1]}"/>'
            f"<binary>{raw}</binary></binaryDataArray>"
        )

    spectra = "".join(
        f'<spectrum index="{i}" id="scan={i}" defaultArrayLength="{len(mz)}">'
        f'<cvParam cvRef="MS" accession="MS:1000511" name="ms level" value="{level}"/>'
        '<cvParam cvRef="MS" accession="MS:1000130" name="positive scan" value=""/>'
        '<precursorList count="1"><precursor><selectedIonList count="1"><selectedIon>'
        '<cvParam cvRef="MS" accession="MS:1000744" name="selected ion m/z" value="195.0877"/>'
        "</selectedIon></selectedIonList><activation>"
        '<cvParam cvRef="MS" accession="MS:1000045" name="collision energy" value="35.0"/>'
        "</activation></precursor></precursorList>"
        '<binaryDataArrayList count="2">'
        + binary(mz, ("MS:1000514", "m/z array"))
        + binary(intensity, ("MS:1000515", "intensity array"))
        + "</binaryDataArrayList></spectrum>"
        for i, (level, mz, intensity) in enumerate(arrays)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?><mzML xmlns="http://psi.hupo.org/ms/mzml">'
        f'<run id="r"><spectrumList count="{len(arrays)}">{spectra}</spectrumList></run></mzML>'
    )


def test_mzml(tmp_path):
    text = mzml_text([(1, [100.0], [1.0]), (2, [138.0, 110.0], [9.0, 3.0]), (2, [50.0], [2.0])])
    table = read_mzml(write(tmp_path / "run.mzML", text))
    assert len(table) == 2
    assert_allclose(peaks(table, 0), [[110, 138], [3, 9]])
    assert_allclose(table["precursor_mz"], 195.0877)
    assert_allclose(table["collision_energy"], 35)
    assert list(table["polarity"]) == ["positive"] * 2
    assert list(table["identifier"]) == ["scan=1", "scan=2"]
    lines = text.replace("<binary>", "<binary>\n  ").replace("</binary>", "\n</binary>")
    again = read_mzml(write(tmp_path / "lines.mzML", lines))
    assert_array_equal(again.spectra.mz, table.spectra.mz)
    empty = mzml_text([(2, [], [])]).replace("MS:1000576", "MS:1000574")  # no bytes, by zlib
    with pytest.raises(ValueError, match="record 1: it has no peaks"):
        read_mzml(write(tmp_path / "empty.mzML", empty))
    cut = write(tmp_path / "cut.mzML", text[: len(text) * 2 // 3])
    with pytest.raises(ValueError, match="cannot be read from here on"):
        read_mzml(cut)
    with pytest.raises(ValueError, match=r"no spectrum of MS level 2 in cut.mzML: 1 damaged"):
        read_mzml(cut, on_error="skip")
    late = write(tmp_path / "late.mzML.gz", gzip.compress(text[:-100].encode()))
    with pytest.warns(UserWarning, match="record 3: the file cannot be read from here on"):
        table = read_mzml(late, on_error="skip")
    assert list(table["identifier"]) == ["scan=1"]


# Adducts -----------------------------------------------------------------------------------------

# Masses of ions of caffeine, C8H10N4O2, as published calculators give them.
IONS = {
    "[M+H]+": 195.0877,
    "[M+Na]+": 217.0696,
    "[M+K]+": 233.0435,
    "[M+NH4]+": 212.1142,
    "[M-H]-": 193.0731,
    "[M+Cl]-": 229.0498,
    "[M+FA-H]-": 239.0786,
    "[2M+H]+": 389.1680,
    "[2M-H]-": 387.1535,
    "[M+2H]2+": 98.0475,
    "[M-H2O+H]+": 177.0771,
    "[M+ACN+H]+": 236.1142,
}


@pytest.mark.parametrize("ion", IONS)
def test_ions_of_caffeine(ion):
    assert_allclose(precursor_mz(194.080376, ion), IONS[ion], atol=2e-4)
    assert_allclose(neutral_mass(IONS[ion], ion), 194.080376, atol=4e-4)


@given(st.floats(50, 2000), st.sampled_from(sorted(IONS)))
def test_masses_there_and_back(mass, ion):
    assert_allclose(neutral_mass(precursor_mz(mass, ion), ion), mass, rtol=1e-12)


@pytest.mark.parametrize("text", ["[M+2H]2+", "[M+2H]+2", "[M+2H]++", "[M+2H]2+*", "[M+2H]++."])
def test_ways_to_write_a_charge(text):
    assert parse_adduct(text) == parse_adduct("[M+2H]2+")
    assert parse_adduct(text).charge == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("H+M", "cannot be read"),
        ("[M+H", "cannot be read"),
        ("M-H2O", "has no charge"),
        ("[M+Xy]+", "'Xy', whose mass is not known"),
        ("[X+H]+", "cannot be read"),
    ],
)
def test_adducts_that_are_none(text, message):
    with pytest.raises(ValueError, match=message):
        parse_adduct(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("M+H", "[M+H]+"),
        ("M-H", "[M-H]-"),
        ("[M+Na]", "[M+Na]+"),
        ("M+2H", "[M+2H]2+"),
        ("M-H2O+H", "[M-H2O+H]+"),
        ("M+FA-H", "[M+FA-H]-"),
        ("M+Cl", "[M+Cl]-"),
        ("M+", "[M]+"),
        ("(M+H)+", "[M+H]+"),
        ("MH+", "[M+H]+"),
        ("[M+H]1+", "[M+H]+"),
        ("M-H-", "[M-H]-"),
        ("[M-H]1-", "[M-H]-"),
        ("[M\u2212H]\u207b", "[M-H]-"),
        ("[M+H]^+", "[M+H]+"),
        ('"[ M + 2H ]++"', "[M+2H]2+"),
        ("[M].+", "[M]+*"),
        ("[M+FA]-", "[M+FA]-"),
    ],
)
def test_adducts_as_people_write_them(text, written):
    assert parse_adduct(text) == parse_adduct(written)
    assert spectra_table([([50.0], [1.0], 90.0)], adduct=text)["adduct"].tolist() == [written]


@pytest.mark.parametrize(
    ("texts", "mass"),
    [
        (("[M+HCOO]-", "[M+FA-H]-", "[M+FA]-", "[M+formate]-", "M+formate"), 239.0786),
        (("[M+CH3COO]-", "[M+HAc-H]-", "[M+Ac-H]-", "[M+Ac]-", "[M+OAc]-"), 253.0942),
        (("[M+CH3OH+H]+", "[M+MeOH+H]+"), 227.1139),
    ],
)
def test_names_of_acids_and_of_their_anions(texts, mass):
    for text in texts:
        assert_allclose(precursor_mz(194.080376, text), mass, atol=2e-4)


def test_the_adduct_may_stand_at_the_end_of_the_name():
    text = (
        b"BEGIN IONS\nPEPMASS=195.0877\nNAME=Caffeine M+H\n138.06 99\nEND IONS\n"
        b"BEGIN IONS\nPEPMASS=194.08\nNAME=vitamin K\nION=M\nIONMODE=Negative\n50 9\nEND IONS\n"
    )
    table = read_mgf(BytesIO(text))
    assert table["name"].tolist() == ["Caffeine", "vitamin K"]
    assert table["adduct"].tolist() == ["[M+H]+", "[M]-"]
    assert table["polarity"].tolist() == ["positive", "negative"]


def test_the_laboratory_of_a_record():
    text = b"ACCESSION: MSBNK-Athens_Univ-AU1\nPK$NUM_PEAK: 1\nPK$PEAK: m/z\n  50.0 1 9\n//\n"
    assert read_massbank(BytesIO(text))["laboratory"].tolist() == ["Athens_Univ"]
    text = b"Name: a\nContributor: Halle\nNum Peaks: 1\n50.0 1\n"
    assert read_msp(BytesIO(text))["laboratory"].tolist() == ["Halle"]


def test_masses_that_are_not_known():
    found = neutral_mass([195.0877, np.nan, 100.0], ["[M+H]+", "[M+H]+", ""])
    assert_allclose(found, [194.0804, np.nan, np.nan], atol=1e-3)
    with pytest.raises(ValueError, match="2 masses and 1 adducts"):
        neutral_mass([1.0, 2.0], ["[M+H]+"])


# Molecules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("CCO ethanol\n\nC methane\n", {"name"}),
        ("CCO\tethanol\nC\tmethane\n", {"name"}),
        ("id,SMILES\n1,CCO\n2,C\n", {"id"}),
        ("id\tsmiles\n1\tCCO\n2\tC\n", {"id"}),
        ("id;smiles\n1,5;CCO\n2;C\n", {"id"}),
        ("id, as we call it\tsmiles\n1\tCCO\n2\tC\n", {"id, as we call it"}),
    ],
)
def test_smiles(text, names, tmp_path):
    table = read_smiles(write(tmp_path / "file", text))
    assert list(table.smiles) == ["CCO", "C"]
    assert set(table.fields) == names


def test_smiles_of_a_named_column(tmp_path):
    path = write(tmp_path / "file.csv", "a,b\nx,CCO\ny,C\nz\nw,\n")
    with pytest.raises(ValueError, match=r"record 3 \(line 4\): it has 1 cells for 2 columns"):
        read_smiles(path, column="b")
    with pytest.warns(UserWarning, match="2 damaged records were left out"):
        table = read_smiles(path, column="b", on_error="skip")
    assert list(table.smiles) == ["CCO", "C"]
    with pytest.raises(ValueError, match="has no column 'c'; it has a, b"):
        read_smiles(path, column="c")


def test_smiles_of_an_open_file():
    text = b"a,b\nCCO,1\n"
    assert_array_equal(read_smiles(io.BytesIO(text), column="a").smiles, ["CCO"])
    with pytest.raises(ValueError, match="the text has no column 'c'; it has a, b"):
        read_smiles(io.BytesIO(text), column="c")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('smiles,name\nCCO,"two\nlines"\nC,methane\n', ["two\nlines", "methane"]),
        ('smiles,name\nCCO,"a\n\nb ""c"", d"\nC,methane\n', ['a\n\nb "c", d', "methane"]),
        ('smiles,name\r\nCCO,"two\r\nlines"\r\n\r\nC,"x"\r\n', ["two\nlines", "x"]),
        ('smiles,name\nCCO,5" tube\nC,6" tube\n', ['5" tube', '6" tube']),
        # opened and never closed: rows of their own, as before
        ('smiles,name\nCCO,"ethanol\nC,methane\n', ["ethanol", "methane"]),
        ('smiles,name\nCCO,"ethanol\nC,"methane\n', ["ethanol", "methane"]),
        ("smiles\tname\nCCO\t\nC\tmethane\n", ["", "methane"]),
        ("name\tsmiles\n\tCCO\nmethane\tC\n", ["", "methane"]),
    ],
)
def test_cells_with_line_ends_and_empty_cells(text, names, tmp_path):
    path = write(tmp_path / "file.csv", text)
    table = read_smiles(path)
    assert list(table.smiles) == ["CCO", "C"]
    assert list(table["name"]) == names
    assert [fields["name"] for _, fields in stream_molecules(path)] == names


def test_lines_are_counted_where_cells_have_line_ends(tmp_path):
    path = write(tmp_path / "file.csv", 'smiles,name\nCCO,"a\nb"\nC\n')
    with pytest.raises(ValueError, match=r"record 2 \(line 4\): it has 1 cells for 2 columns"):
        read_smiles(path)


def test_sdf_of_rdkit(tmp_path):
    Chem = pytest.importorskip("rdkit.Chem")
    path = tmp_path / "two.sdf"
    with Chem.SDWriter(str(path)) as writer:
        for smiles in ("CCO", "c1ccccc1"):
            molecule = Chem.MolFromSmiles(smiles)
            molecule.SetProp("_Name", smiles)
            molecule.SetProp("mass", "1.5")
            writer.write(molecule)
    zipped = write(tmp_path / "z", gzip.compress(path.read_bytes()))
    for table in (read_sdf(path), read_sdf(zipped)):
        assert list(table.smiles) == list(table["name"]) == ["CCO", "c1ccccc1"]
        assert list(table["mass"]) == ["1.5", "1.5"]
    text = path.read_text().replace("  6  6  0", "  x  6  0")
    with pytest.warns(UserWarning, match=r"record 2 .line 15.: RDKit cannot read"):
        assert list(read_sdf(write(path, text), on_error="skip").smiles) == ["CCO"]


# Damage ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("how", ["crlf", "bom", "gz", "bz2", "xz", "latin"])
def test_harmless_differences(name, how, tmp_path):
    text, read = TEXTS[name]
    data = {
        "crlf": text.replace("\n", "\r\n").encode(),
        "bom": b"\xef\xbb\xbf" + text.encode(),
        "gz": gzip.compress(text.encode()),
        "bz2": bz2.compress(text.encode()),
        "xz": lzma.compress(text.encode()),
        "latin": text.replace("one", "caféine").encode("latin-1"),
    }[how]
    table = read(write(tmp_path / "file", data))
    whole = read(write(tmp_path / "whole", text))
    assert_array_equal(table.spectra.mz, whole.spectra.mz)
    assert_array_equal(table["precursor_mz"], whole["precursor_mz"])


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        *[("mgf", "110.0713", f"{sign} a comment\n110.0713") for sign in "#;!/"],
        ("mgf", "ADDUCT=", "ION="),
        ("mgf", "TITLE=", "FEATURE_ID="),
        ("msp", "110.0713 5.5", '110.0713\t5.5\t"C5H8N3+; p-85"'),
        ("msp", "5.5\n\nNAME: two", "5.5\nNAME: two"),
        ("msp", "Num Peaks", 'Comments: "SMILES=CCO" "precursor m/z=5" "a"\nNum Peaks'),
    ],
)
def test_the_same_as_others_write_it(name, old, new, tmp_path):
    text, read = TEXTS[name]
    assert old in text
    table = read(write(tmp_path / "file", text.replace(old, new, 1)))
    whole = read(write(tmp_path / "whole", text))
    for field in ("precursor_mz", "adduct", "polarity", "identifier"):
        assert_array_equal(table[field], whole[field])
    assert_array_equal(table.spectra.mz, whole.spectra.mz)
    assert table["smiles"][0] == ("CCO" if "CCO" in new else whole["smiles"][0])


def test_what_a_massbank_record_calls_ionization_is_no_adduct(tmp_path):
    text = MASSBANK.replace("MS$FOCUSED_ION: PRECURSOR_TYPE [M+H]+", "AC$X: IONIZATION ESI")
    text = text.replace("AC$X", "AC$MASS_SPECTROMETRY")
    assert read_massbank(write(tmp_path / "file", text))["adduct"][0] == ""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("110.0713 5.5", "110.0713 five", "is no peak"),
        ("110.0713 5.5", "110.0713 nan", "a peak is not finite"),
        ("110.0713 5.5", "110.0713 -5", "negative intensity"),
        ("110.0713 5.5", "-110.0713 5", "m/z that is not positive"),
        ("110.0713 5.5", "110.0713", "is no peak"),
        ("195.0877", "nothing", "precursor m/z is no number"),
    ],
)
@pytest.mark.parametrize("name", TEXTS)
def test_damage_is_named_and_left_out(name, old, new, message, tmp_path):
    text, read = TEXTS[name]
    text = text.replace("110.0713 5.5 55", "110.0713 5.5")  # relative intensities are not looked at
    path = write(tmp_path / "file", text.replace(old, new))
    with pytest.raises(ValueError, match=f"record 1 .line 1.: .*{message}.*on_error"):
        read(path)
    if name == "massbank":  # nothing is left
        with pytest.raises(ValueError, match=f"no spectrum in file: 1 damaged.*{message}"):
            read(path, on_error="skip")
        return
    with pytest.warns(UserWarning, match="1 damaged records were left out"):
        table = read(path, on_error="skip")
    assert len(table) == 1
    assert table.problems[0].record == 1


def long_text(name, n=30):
    rng = random.Random(0)
    parts = {
        "mgf": "BEGIN IONS\nTITLE={i}\nPEPMASS={m}\n{p}END IONS\n\n",
        "msp": "Name: {i}\nPrecursorMZ: {m}\nNum Peaks: 3\n{p}\n",
        "massbank": "ACCESSION: {i}\nMS$FOCUSED_ION: PRECURSOR_M/Z {m}\nPK$NUM_PEAK: 3\n"
        "PK$PEAK: m/z int. rel.int.\n{p}//\n",
    }[name]
    peak_lines = ["".join(f"{rng.uniform(50, 500):.4f} {rng.uniform(1, 9):.2f}\n" for _ in range(3))
                  for _ in range(n)]  # fmt: skip
    return [parts.format(i=i, m=100 + i, p=lines) for i, lines in enumerate(peak_lines)]


@pytest.mark.parametrize("name", TEXTS)
def test_whatever_is_damaged_the_whole_records_are_read(name, tmp_path):
    records, read = long_text(name), TEXTS[name][1]
    whole = read(write(tmp_path / "whole", "".join(records)))
    expected = dict(zip(whole["precursor_mz"], range(len(records)), strict=True))
    for seed in range(40):
        rng = random.Random(seed)
        hit = rng.randrange(len(records))
        raw = bytearray(records[hit].encode())
        for _ in range(rng.randrange(1, 8)):  # any bytes, also ends of lines
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        data = "".join(records[:hit]).encode() + bytes(raw) + "".join(records[hit + 1 :]).encode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            table = read(write(tmp_path / "file", data), on_error="skip")
        found = {expected[mass] for mass in table["precursor_mz"] if mass in expected}
        lost = set(range(len(records))) - found - {hit - 1, hit, hit + 1}
        assert not lost, (seed, lost)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress], ids=["plain", "gz", "xz"])
def test_what_is_whole_before_a_cut_is_read(name, pack, tmp_path):
    records, read = long_text(name, 400), TEXTS[name][1]
    data = pack("".join(records).encode())
    path = write(tmp_path / "file", data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"cannot be read from here|ends inside|no peak|peaks"):
        read(path)
    with pytest.warns(UserWarning, match="damaged"):
        table = read(path, on_error="skip")
    assert 100 < len(table) < 300
    assert_array_equal(table["precursor_mz"], 100.0 + np.arange(len(table)))


def test_a_spectrum_of_very_many_peaks(tmp_path):
    lines = "".join(f"{50 + i * 1e-3:.3f} 1\n" for i in range(200_000))
    path = write(tmp_path / "big.mgf", f"BEGIN IONS\nPEPMASS=100\n{lines}END IONS\n")
    assert len(read_mgf(path).spectra.mz) == 200_000


def test_files_that_are_none(tmp_path):
    for read in (read_mgf, read_msp, read_massbank, read_smiles):
        with pytest.raises(FileNotFoundError, match="There is no file"):
            read(tmp_path / "none")
        with pytest.raises(ValueError, match=r"no (spectrum|molecule).* in empty: it has nothing"):
            read(write(tmp_path / "empty", ""))
    with pytest.raises(ValueError, match="on_error must be one of"):
        read_mgf(tmp_path / "empty", on_error="ignore")
    assert len(read_mgf(write(tmp_path / "a.mgf", MGF), limit=1)) == 1


# Files as others write them ----------------------------------------------------------------------


def scan(
    number, *, level=2, bits=64, packed=False, inside="", peaks=((138.0662, 100.0), (80.5, 2.0))
):
    """Return a scan of mzXML, in network order."""
    raw = np.array(peaks, dtype=f">f{bits // 8}").tobytes()
    text = base64.b64encode(zlib.compress(raw) if packed else raw).decode()
    precursor = '<precursorMz precursorCharge="1">195.0877</precursorMz>' if level == 2 else ""
    return (
        f'<scan num="{number}" msLevel="{level}" peaksCount="{len(peaks)}" polarity="+" '
        f'retentionTime="PT61.5S" collisionEnergy="35">{precursor}'
        f'<peaks precision="{bits}" byteOrder="network" contentType="m/z-int" '
        f'compressionType="{"zlib" if packed else "none"}">{text}</peaks>{inside}</scan>'
    )


def mzxml(*scans):
    index = "<index>" + "<offset>1</offset>" * 5 + "</index>"
    return f'<mzXML xmlns="http://x"><msRun>{"".join(scans)}</msRun>{index}</mzXML>'.encode()


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("packed", [False, True])
def test_mzxml(bits, packed, tmp_path):
    inner = scan(2, bits=bits, packed=packed)
    text = mzxml(scan(1, level=1, inside=inner), scan(3, bits=bits, packed=packed))
    path = tmp_path / "run.mzXML"
    path.write_bytes(text)
    table = read_spectra_file(path)
    assert list(table["identifier"]) == ["scan=2", "scan=3"]
    assert_allclose(table.spectra.mz, [80.5, 138.0662] * 2, rtol=1e-7)
    assert_allclose(table.spectra.intensity, [2.0, 100.0] * 2)
    assert_allclose(table["precursor_mz"], 195.0877)
    assert_allclose(table["retention_time"], 61.5)
    assert_allclose(table["collision_energy"], 35)
    assert list(table["polarity"]) == ["positive"] * 2
    assert len(read_mzxml(BytesIO(text), level=1)) == 1


def test_an_mzxml_file_with_more_scans_than_elements_of_one_may_be():
    few = scan(1) + "".join(f'<scan num="{i}" msLevel="1"/>' for i in range(2, 300))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skout.apps.spectra.readers.mzxml.MOST_ELEMENTS", 10)
        assert len(read_mzxml(BytesIO(mzxml(few)))) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('precision="64"', 'precision="16"', "not known here"),
        ("m/z-int", "m/z ruler", "not known here"),
        ('contentType="m/z-int" compressionType="none">Q', 'compressionType="none">', "unpacked"),
        ('peaksCount="2"', 'peaksCount="0"', "no peaks"),
    ],
)
def test_damaged_scans_are_named_and_left_out(old, new, message):
    text = mzxml(scan(1), scan(2)).replace(old.encode(), new.encode(), 1)
    assert old.encode() in mzxml(scan(1))
    with pytest.raises(ValueError, match=message):
        read_mzxml(BytesIO(text))
    with pytest.warns(UserWarning, match=f"1 damaged records were left out. record 1: .*{message}"):
        table = read_mzxml(BytesIO(text), on_error="skip")
    assert list(table["identifier"]) == ["scan=2"]


@pytest.mark.parametrize(
    "peaks", ["70:10 76:35 \n80:4", "( 70 10) ( 76 35)\n( 80 4)", "70 10; 76 35;\n80 4"]
)
def test_peaks_of_golm_amdis_and_nist(peaks):
    table = read_msp(BytesIO(f"Name: a: b\nRI: 986,97\nNum Peaks: 3\n{peaks}\n".encode()))
    assert_array_equal(table.spectra.mz, [70, 76, 80])
    assert_array_equal(table.spectra.intensity, [10, 35, 4])
    assert table["name"][0] == "a: b"


def test_json_of_gnps_and_of_matchms():
    gnps = (
        '{"spectrum_id": "A", "Precursor_MZ": "195.1", "Adduct": "M+H", "peaks_json": "[[9, 1]]"}'
    )
    matchms = '{"precursor_mz": 193.1, "adduct": "[M-H]-", "peaks_json": [[9.0, 1.0], [8.0, 2.0]]}'
    table = read_json(BytesIO(f"[{gnps}, {matchms}]".encode()))
    assert list(table["adduct"]) == ["[M+H]+", "[M-H]-"]
    assert_allclose(table["precursor_mz"], [195.1, 193.1])
    assert_array_equal(table.spectra.mz, [9, 8, 9])
    for damaged in ("3", '{"a": 1}', '{"peaks_json": "[[1, "}', '{"peaks_json": [[1]]}'):
        text = f"[{gnps}, {damaged}]".encode()
        with pytest.raises(ValueError, match="record 2"):
            read_json(BytesIO(text))
        with pytest.warns(UserWarning, match="left out"):
            assert len(read_json(BytesIO(text), on_error="skip")) == 1
    with pytest.raises(ValueError, match="no JSON"):
        read_json(BytesIO(b"[{"))


SIRIUS = """>compound A
>parentmass 195.0877
>ionization [M+H]+
>formula C8H10N4O2
>rt 300.5 s

>ms1
195.0877 100

>collision 20
138.0662 100
110.0713 5

>collision 40
110.0713 90

>compound B
>parentmass 181.07
>ionization [M+H]+
>ms2
124.05 7
"""


def test_a_file_of_sirius(tmp_path):
    table = read_sirius(BytesIO(SIRIUS.encode()))
    assert list(table["compound"]) == ["A", "A", "B"]
    assert list(table["formula"]) == ["C8H10N4O2"] * 2 + [""]
    assert_allclose(table["collision_energy"], [20, 40, np.nan])
    assert_allclose(table["retention_time"], [300.5, 300.5, np.nan])
    assert_array_equal(np.diff(table.spectra.indptr), [2, 1, 1])
    assert compound_labels(table) == ["A", "A", "B"]
    path = write(tmp_path / "a.ms", SIRIUS)
    assert len(read_spectra_file(path)) == 3
    with pytest.raises(ValueError, match="no peak"):
        read_sirius(BytesIO(SIRIUS.replace("110.0713 90", "peak").encode()))


@pytest.mark.parametrize(("text", "n"), [(MGF, 2), (MSP, 2), (MASSBANK, 1)])
def test_a_txt_file_may_be_of_any_text_format(text, n, tmp_path):
    assert len(read_spectra_file(write(tmp_path / "a.txt", text))) == n


def test_a_massbank_record_of_2008():
    text = """ACCESSION: KO000001
AC$INSTRUMENT: API3000, Applied Biosystems
AC$ANALYTICAL_CONDITION: MODE NEGATIVE
AC$ANALYTICAL_CONDITION: PRECURSOR_M/Z 193.07
AC$ANALYTICAL_CONDITION: PRECURSOR_TYPE [M-H]-
AC$ANALYTICAL_CONDITION: COLLISION_ENERGY 20 V
AC$ANALYTICAL_CONDITION: RETENTION_TIME 5.25 min
PK$NUM_PEAK: 1
PK$PEAK: m/z int. rel.int.
  74.3 49505.0 40
//
"""
    table = read_massbank(BytesIO(text.encode()))
    assert table["polarity"][0] == "negative"
    assert table["adduct"][0] == "[M-H]-"
    assert_allclose(table["precursor_mz"], 193.07)
    assert_allclose(table["collision_energy"], 20)
    assert_allclose(table["retention_time"], 315)


@pytest.mark.parametrize(
    ("line", "polarity"),
    [
        ("IONMODE=Positive-20eV", "positive"),
        ("ION_MODE=ESI+", "positive"),
        ("POLARITY=P", "positive"),
        ("ION_POLARITY=neg", "negative"),
        ("SCAN_POLARITY=ESI(-)", "negative"),
        ("IONMODE=electrospray, negative", "negative"),
        ("CHARGE=1+", "positive"),
        ("CHARGE=+1", "positive"),
        ("CHARGE=1-", "negative"),
        ("CHARGE=-1", "negative"),
        ("CHARGE=2+ and 3+", "positive"),
        ("CHARGE=1", ""),
        ("ADDUCT=[M+?]-", "negative"),
        ("TITLE=caffeine_[M+H]+", "positive"),
        ("IONMODE=nitrogen", ""),
    ],
)
def test_polarities(line, polarity):
    text = f"BEGIN IONS\n{line}\nPEPMASS=9\n138 5\nEND IONS\n"
    assert list(read_mgf(BytesIO(text.encode()))["polarity"]) == [polarity]


def test_what_stands_before_the_first_spectrum_of_an_mgf_file_is_of_all():
    record = "BEGIN IONS\nPEPMASS=9\n{}138 5\nEND IONS\n"
    text = f"COM=a\nCHARGE=1+\nPEPMASS=7\n{record.format('')}{record.format('CHARGE=1-' + chr(10))}"
    table = read_mgf(BytesIO(text.encode()))
    assert list(table["polarity"]) == ["positive", "negative"]
    assert list(table["precursor_mz"]) == [9, 9]


@pytest.mark.parametrize(
    "line",
    [
        "PEPMASS=195.0877 1000.0 1+",
        "PEPMASS=(195.0877, None)",
        "PEPMASS=195,0877",
        "PRECURSOR MASS: 195.0877",
        "Parent ion = 195.0877 m/z",
        "MZ=195.0877",
    ],
)
def test_precursors(line):
    table = read_mgf(BytesIO(f"BEGIN IONS\n{line}\n138 5\nEND IONS\n".encode()))
    assert_allclose(table["precursor_mz"], 195.0877)


@pytest.mark.parametrize("sign", ["\t", ",", ", ", ";x", "decimal"])
def test_signs_between_numbers(sign):
    rows = ["110.0713 5.5", "138.0662 1e2"]
    lines = [row.replace(".", ",") if sign == "decimal" else row.replace(" ", sign) for row in rows]
    text = "BEGIN IONS\n{}\n{}\nEND IONS\n".format(*lines).encode()
    if sign == ";x":
        with pytest.raises(ValueError, match="is no peak"):
            read_mgf(BytesIO(text))
    else:
        assert_allclose(peaks(read_mgf(BytesIO(text)), 0), [[110.0713, 138.0662], [5.5, 100]])


@pytest.mark.parametrize("line", ["110,50", "100 1,000", "1,195.5 7", "110.07 1,000"])
def test_a_comma_that_may_be_either_is_damage(line):
    with pytest.raises(ValueError, match="is no peak"):
        read_mgf(BytesIO(f"BEGIN IONS\n{line}\nEND IONS\n".encode()))


def test_msp_without_a_number_of_peaks_or_with_an_empty_line_behind_it():
    text = "Name: one\nPrecursorMZ: 9\n{}110 5.5\n138 100\n\nName: two\nNum Peaks: 1\n1 1\n"
    for between in ("", "Num Peaks: 2\n\n"):
        table = read_msp(BytesIO(text.format(between).encode()))
        assert list(table["name"]) == ["one", "two"]
        assert_allclose(peaks(table, 0), [[110, 138], [5.5, 100]])
    lost = b"Name: one\nNum Peaks: 2\n\nName: two\nNum Peaks: 1\n1 1\n"
    with pytest.warns(UserWarning, match="it says it has 2 peaks. Got 0"):
        assert list(read_msp(BytesIO(lost), on_error="skip")["name"]) == ["two"]


def test_survey_scans_beside_ms_ms_are_left_out():
    text = "BEGIN IONS\nFEATURE_ID=1\nMSLEVEL={}\n138 5\nEND IONS\n"
    table = read_mgf(BytesIO((text.format(1) + text.format(2)).encode()))
    assert list(table.record) == [2]
    with pytest.raises(ValueError, match="it has 1 spectra of MS level 1, 5 lines"):
        read_mgf(BytesIO(text.format(1).encode()))


def test_json_of_mona():
    text = (
        '[{"id": "AU1", "spectrum": "110.07:5 138.06:100", "compound": [{"inchiKey": "R-N", "names"'
        ': [{"name": "Caffeine"}], "metaData": [{"name": "molecular formula", "value": "CH4"}]}],'
        '"metaData": [{"name": "precursor m/z", "value": 195.1}, {"name": "precursor type", "value"'
        ': "[M+H]+"}, {"name": "ionization mode", "value": "positive"}]}]'
    )
    table = read_json(BytesIO(text.encode()))
    assert_array_equal(table.spectra.mz, [110.07, 138.06])
    names = ("identifier", "name", "adduct", "polarity", "formula", "inchikey")
    known = ["AU1", "Caffeine", "[M+H]+", "positive", "CH4", "R-N"]
    assert [table[name][0] for name in names] == known
    assert table["precursor_mz"][0] == 195.1
    for damaged in ('"compound": 3', '"compound": {"a": 1}', '"metaData": ["a"]'):
        with pytest.raises(ValueError, match="not as MoNA writes it"):
            read_json(BytesIO(f'{{"spectrum": "1:1", {damaged}}}'.encode()))


def test_a_text_of_peaks_alone_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Peaks alone do not say the m/z of their precursor"):
        read_spectra_file(write(tmp_path / "a.txt", "110.07 5\n138.06 100\n"))


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("RTINSECONDS=61.5", 61.5),
        ("RTINSECONDS=61,5", 61.5),
        ("RTINMINUTES=2", 120),
        ("RETENTIONTIME=2", 120),
        ("RETENTION_TIME=2 min", 120),
        ("RETENTION_TIME=61.5 s", 61.5),
        ("RT=PT61.5S", 61.5),
        ("RETENTIONTIME=-1", np.nan),
        ("RETENTIONTIME=0", np.nan),
        ("RETENTIONTIME=1.2.3", np.nan),
        ("RETENTIONTIME=soon", np.nan),
    ],
)
def test_retention_times(line, seconds, tmp_path):
    text = f"BEGIN IONS\nPEPMASS=195.0877\n{line}\n138 5\nEND IONS\n"
    table = read_mgf(BytesIO(text.encode()))
    assert_allclose(table["retention_time"], seconds)
    again = read_mgf(write_mgf(tmp_path / "a.mgf", table))
    assert_allclose(again["retention_time"], seconds)


def test_adducts_are_filled_in_by_polarity():
    rows = [([138.0], [9.0], 195.0877)] * 4
    polarity = ["positive", "negative", "", "positive"]
    table = spectra_table(rows, polarity=polarity, adduct=["", "", "", "[M+Na]+"])
    filled = fill_adducts(table, "[M+H]+,[M-H]-")
    assert list(filled["adduct"]) == ["[M+H]+", "[M-H]-", "", "[M+Na]+"]
    assert list(fill_adducts(table, "[M+H]+")["adduct"]) == ["[M+H]+", "", "[M+H]+", "[M+Na]+"]
    assert fill_adducts(table, None) is table
    with pytest.raises(ValueError, match="one adduct of each polarity"):
        fill_adducts(table, "[M+H]+,[M+Na]+")
    with pytest.raises(ValueError, match="cannot be read"):
        fill_adducts(table, "[M+H]+,H-M")


def test_spectra_of_one_compound_by_precursor_and_time():
    rows = [
        ([138.0], [9.0], mz) for mz in (195.0877, 195.0878, 195.0877, 195.2, 195.0877, 195.0877)
    ]
    times = [300.0, 309.0, 318.0, 300.0, 900.0, np.nan]
    labels = compound_labels(spectra_table(rows, retention_time=times, adduct="[M+H]+"))
    assert labels[0] == labels[1] == labels[2] == "m/z 195.0877, 300 s"
    assert labels[3:] == ["m/z 195.2000, 300 s", "m/z 195.0877, 900 s", ""]
    adducts = ["[M+H]+", "[M+H]+", "[M+Na]+"] * 2
    labels = compound_labels(
        spectra_table(rows, retention_time=times, adduct=adducts, compound=list("aabb") + ["", ""])
    )
    assert labels[:4] == list("aabb")
    assert len(set(labels)) == 4


def test_what_is_left_out_is_counted_by_reason():
    bad = "BEGIN IONS\nPEPMASS=195\nEND IONS\n" * 7 + "BEGIN IONS\nPEPMASS=x\n1 1\nEND IONS\n" * 2
    with pytest.warns(UserWarning, match="left out") as told:
        read_mgf(BytesIO((MGF + bad).encode()), on_error="skip")
    said = str(told[0].message)
    assert (
        "9 damaged records were left out. 7 like record 3 (line 20): it has no peaks.; 2 like"
        in said
    )
