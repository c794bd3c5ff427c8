"""`skout fit-spectra` and `skout identify` on small real files, of every kind and damaged."""

import base64
import csv
import doctest
import gzip
import json
import lzma
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

typer_testing = pytest.importorskip("typer.testing")
pytest.importorskip("rdkit")
pytest.importorskip("pyarrow")

import skout  # noqa: E402
from skout.apps import cli  # noqa: E402
from skout.apps.cli.spectra.drawings import spectrum_svg  # noqa: E402
from skout.apps.cli.spectra.page import _overview  # noqa: E402
from skout.apps.cli.spectra.work import for_people  # noqa: E402
from skout.apps.spectra.identify import Hit, Identification  # noqa: E402
from skout.apps.spectra.identify.explaining import explain_peaks  # noqa: E402
from skout.apps.spectra.shipped.defaults import MODEL  # noqa: E402
from skout.datasets import load  # noqa: E402
from skout.kinds import Smiles  # noqa: E402
from skout.molecules import MoleculePool  # noqa: E402
from skout.readers import read_mgf, read_msp  # noqa: E402

N_LIBRARY, N_ASKED = 60, 6


def msp(name, precursor, smiles, peaks):
    lines = [f"{mz} {height}" for mz, height in peaks]
    return (
        f"Name: {name}\nPrecursorMZ: {precursor}\nPrecursor_type: [M+H]+\nIon_mode: P\n"
        f"SMILES: {smiles}\nNum Peaks: {len(lines)}\n" + "\n".join(lines) + "\n\n"
    )


def mgf(name, precursor, peaks, adduct="[M+H]+"):
    lines = [f"{mz} {height}" for mz, height in peaks]
    said = f"ADDUCT={adduct}\n" if adduct else ""
    return (
        f"BEGIN IONS\nTITLE={name}\nPEPMASS={precursor}\n{said}"
        + "\n".join(lines)
        + "\nEND IONS\n\n"
    )


def massbank(name, precursor, peaks):
    lines = [f"  {mz} {height} 1" for mz, height in peaks]
    return (
        f"ACCESSION: {name}\nMS$FOCUSED_ION: PRECURSOR_M/Z {precursor}\n"
        f"MS$FOCUSED_ION: PRECURSOR_TYPE [M+H]+\nPK$NUM_PEAK: {len(lines)}\n"
        "PK$PEAK: m/z int. rel.int.\n" + "\n".join(lines) + "\n//\n"
    )


def mzml(asked):
    """A file as converters write it: plain arrays of doubles, and no adducts."""

    def term(accession, value=""):
        return f'<cvParam accession="{accession}" value="{value}"/>'

    def array(values, accession):
        raw = base64.b64encode(np.array(values, dtype="<f8").tobytes()).decode()
        terms = term("MS:1000523") + term("MS:1000576") + term(accession)
        return f"<binaryDataArray>{terms}<binary>{raw}</binary></binaryDataArray>"

    spectra = "".join(
        f'<spectrum id="{name}">{term("MS:1000511", 2)}{term("MS:1000744", mz)}'
        + array([peak[0] for peak in peaks], "MS:1000514")
        + array([peak[1] for peak in peaks], "MS:1000515")
        + "</spectrum>"
        for name, mz, _, peaks in asked
    )
    return f'<mzML xmlns="http://psi.hupo.org/ms/mzml"><run>{spectra}</run></mzML>'


@pytest.fixture(scope="module")
def records():
    """(name, precursor, SMILES, peaks) of molecules with several candidates."""
    data = load("massbank-sample")
    rows = np.flatnonzero(data.candidates.sizes > 2)
    rows = np.random.default_rng(0).permutation(rows)[: N_LIBRARY + N_ASKED]
    found = []
    for i in rows:
        one = data.X[i : i + 1]
        peaks = list(zip(one.mz.tolist(), one.intensity.tolist(), strict=True))
        found.append((f"spectrum {i}", float(one.precursor[0]), str(data.Y[i]), peaks))
    smiles = sorted({str(text) for i in rows for text in data.candidates[i]})
    return found, smiles


@pytest.fixture(scope="module")
def folder(tmp_path_factory, records):
    """library.msp, unknown.mgf, pool.skpool and m.skout, which `fit-spectra` wrote."""
    place = tmp_path_factory.mktemp("identify")
    found, smiles = records
    (place / "library.msp").write_text("".join(msp(*one) for one in found[:N_LIBRARY]))
    asked = "".join(mgf(name, mz, peaks) for name, mz, _, peaks in found[N_LIBRARY:])
    (place / "unknown.mgf").write_text(asked)
    MoleculePool.build(
        [(one, f"<b>{i}</b>") for i, one in enumerate(smiles)], place / "pool.skpool"
    )
    result = run(place, "fit-spectra library.msp --pool pool.skpool --folds 2 --json -o m.skout")
    assert result.exit_code == 0, result.output
    (place / "fitted.json").write_text(result.stdout)
    return place


def run(place, command):
    """Run a command whose files are in a folder."""
    words = [
        str(place / word) if "." in word and "/" not in word else word for word in command.split()
    ]
    return typer_testing.CliRunner().invoke(cli.build_app(), words)


def refused(place, command):
    """Return what a command says that fails."""
    result = run(place, command)
    assert result.exit_code != 0
    return str(result.exception)


def identified(place, spectra="unknown.mgf", out="hits.json", options=""):
    result = run(place, f"identify {spectra} --model m.skout --pool pool.skpool -o {out} {options}")
    assert result.exit_code == 0, result.exception
    return result


def hits(place, *args, **kwargs):
    identified(place, *args, **kwargs)
    return json.loads((place / "hits.json").read_text())["results"]


def without_seconds(results):
    return [one | {"seconds": 0.0} for one in results]


# Fit ---------------------------------------------------------------------------------------------


def test_fit_spectra_prints_what_held_out_molecules_say(folder):
    found = json.loads((folder / "fitted.json").read_text())
    assert found["n_molecules"] == round(N_LIBRARY * found["in_reach"])
    assert 0.0 < found["top_1"] <= found["mrr_25"] <= found["top_10"] <= 1.0
    assert found["top_1_se"] > 0.0
    result = run(folder, "fit-spectra library.msp --folds 2 -o again.skout")
    assert "top 1" in result.stdout
    assert "MRR@25" in result.stdout
    assert "molecules of similar mass" in result.stdout  # no pool was given


def test_the_model_is_that_of_python(folder):
    model = skout.load(folder / "m.skout")
    pool = MoleculePool.open(folder / "pool.skpool")
    own = skout.SpectrumIdentifier(cv=2, random_state=0)
    own.fit(read_msp(folder / "library.msp"), pool=pool)
    assert own.validation_ == model.validation_
    table = read_mgf(folder / "unknown.mgf")
    results = [[replace(one, seconds=0.0) for one in m.identify(table, pool)] for m in (own, model)]
    assert results[0] == results[1]


def test_several_libraries_are_joined(folder):
    text = (folder / "library.msp").read_text().split("\n\n")
    (folder / "first.msp").write_text("\n\n".join(text[:30]) + "\n\n")
    with gzip.open(folder / "second.msp.gz", "wt") as file:
        file.write("\n\n".join(text[30:]))
    command = "fit-spectra first.msp second.msp.gz --pool pool.skpool --folds 2 --json -o two.skout"
    found = json.loads(run(folder, command).stdout)
    whole = json.loads((folder / "fitted.json").read_text())
    assert found["mrr_25"] == whole["mrr_25"]


# Identify ----------------------------------------------------------------------------------------


def test_json_is_what_python_returns(folder):
    found = hits(folder)
    model, pool = skout.load(folder / "m.skout"), MoleculePool.open(folder / "pool.skpool")
    own = [one.as_dict() for one in model.identify(read_mgf(folder / "unknown.mgf"), pool)]
    assert without_seconds(found) == without_seconds(json.loads(json.dumps(own)))
    assert len(found) == N_ASKED
    assert all(one["hits"] for one in found)


def test_csv_has_a_row_a_hit(folder):
    found = hits(folder)
    identified(folder, out="hits.csv")
    with open(folder / "hits.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["smiles"] for row in rows] == [h["smiles"] for one in found for h in one["hits"]]
    assert [float(row["score"]) for row in rows] == [
        h["score"] for one in found for h in one["hits"]
    ]
    assert rows[0]["query"] == found[0]["query"]
    assert rows[0]["rank"] == "1"


@pytest.mark.parametrize("out", ["hits.jsonl", "hits.parquet"])
def test_other_tables_have_the_same_rows(folder, out):
    found = hits(folder)
    identified(folder, out=out)
    if out == "hits.jsonl":
        rows = [json.loads(line) for line in (folder / out).read_text().splitlines()]
    else:
        from pyarrow import parquet

        rows = parquet.read_table(folder / out).to_pylist()
    assert [row["smiles"] for row in rows] == [h["smiles"] for one in found for h in one["hits"]]


def test_lists_have_a_row_a_spectrum_and_at_most_so_many_smiles(folder):
    identified(folder, out="lists.csv", options="--lists --top 2")
    with open(folder / "lists.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    found = hits(folder)
    assert [row["query"] for row in rows] == [one["query"] for one in found]
    for row, one in zip(rows, found, strict=True):
        assert row["smiles"].split(" ") == [hit["smiles"] for hit in one["hits"][:2]]


def test_top_ppm_and_formula_reach_the_model(folder):
    assert max(len(one["hits"]) for one in hits(folder, options="--top 2")) == 2
    wide = hits(folder, options="--ppm 50000")
    assert sum(one["n_candidates"] for one in wide) > sum(
        one["n_candidates"] for one in hits(folder)
    )
    assert all("search it by mass" in one["note"] for one in hits(folder, options="--by formula"))


def test_all_kinds_of_files_say_the_same(folder, records):
    asked = records[0][N_LIBRARY:]
    (folder / "unknown.msp").write_text("".join(msp(*one) for one in asked))
    (folder / "unknown.txt").write_text("".join(massbank(n, mz, p) for n, mz, _, p in asked))
    with gzip.open(folder / "unknown.mgf.gz", "wb") as file:
        file.write((folder / "unknown.mgf").read_bytes())
    (folder / "unknown.mzML").write_text(mzml(asked))
    first = hits(folder)
    for name in ("unknown.mzML", "unknown.msp", "unknown.txt", "unknown.mgf.gz"):
        other = hits(folder, name, options="--adduct [M+H]+")  # mzML has none
        assert [one["hits"] for one in other] == [one["hits"] for one in first], name


def test_adducts_from_the_file_or_from_the_option(folder, records):
    name, mz, _, peaks = records[0][N_LIBRARY]
    (folder / "silent.mgf").write_text(mgf(name, mz, peaks, adduct=""))
    (none,) = hits(folder, "silent.mgf")
    assert none["hits"] == []
    assert "give one" in none["note"]
    (given,) = hits(folder, "silent.mgf", options="--adduct [M+H]+")
    assert given["hits"] == hits(folder)[0]["hits"]
    (folder / "odd.mgf").write_text(mgf(name, mz, peaks, adduct="[M+Qq]+"))
    (odd,) = hits(folder, "odd.mgf")
    assert "'Qq', whose mass is not known" in odd["note"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--by name", "--by must be"),
        ("--ppm 0", "--ppm must be a finite number > 0"),
        ("--top 0", "--top must be an integer >= 1"),
        ("--prior none.csv", "none.csv"),
    ],
)
def test_wrong_options_are_refused_before_the_default_pool_is_built(folder, options, message):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKOUT_CACHE", str(folder / "cache"))
        assert message in refused(folder, f"identify unknown.mgf {options}")
    assert not (folder / "cache").exists()


def test_spectra_without_candidates_keep_their_row_and_are_told(folder, records):
    name, _, _, peaks = records[0][N_LIBRARY]
    heavy = mgf(name, 4000.0, peaks)
    (folder / "heavy.mgf").write_text(heavy + mgf(name, 4000.0, peaks, adduct="") + heavy)
    result = identified(folder, "heavy.mgf", out="none.csv")
    said = " ".join(result.output.split())  # both streams
    assert "3 of 3 spectra have no candidates. Of 2: the pool has no molecule" in said
    assert 'Of 1: its adduct is not known: say --adduct "[M+H]+,[M-H]-".' in said
    with open(folder / "none.csv", newline="") as file:
        row = next(csv.DictReader(file))
    assert (row["query"], row["smiles"]) == (name, "")
    assert "no molecule of its mass" in row["note"]
    identified(folder, "heavy.mgf", out="none.html")
    assert "no molecule of its mass" in (folder / "none.html").read_text()


def test_damaged_records_are_refused_or_left_out(folder, records):
    name, mz, _, peaks = records[0][N_LIBRARY]
    text = mgf("bad", mz, [(100.0, "nan"), *peaks]) + mgf(name, mz, peaks)
    (folder / "damaged.mgf").write_text(text)
    said = refused(folder, "identify damaged.mgf --model m.skout --pool pool.skpool")
    assert said.startswith("damaged.mgf, record 1 (line 1): a peak is not finite.")
    assert said.endswith("--skip-invalid.")
    with pytest.warns(UserWarning, match="1 damaged records were left out"):
        (found,) = hits(folder, "damaged.mgf", options="--skip-invalid")
    assert found["record"] == 2
    assert found["hits"] == hits(folder)[0]["hits"]


def test_a_library_without_molecules_is_refused_or_they_are_left_out(folder):
    text = (folder / "library.msp").read_text()
    (folder / "holes.msp").write_text(text.replace("SMILES: ", "Comment: ", 1))
    said = refused(folder, "fit-spectra holes.msp -o holes.skout")
    assert "record 1: it has no SMILES" in said
    assert "--skip-invalid" in said
    with pytest.warns(UserWarning, match="They are left out"):
        result = run(folder, "fit-spectra holes.msp --folds 2 --skip-invalid --json -o holes.skout")
    assert json.loads(result.stdout)["n_spectra"] == N_LIBRARY - 1


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("identify absent.mgf --model m.skout --pool pool.skpool", "no file"),
        ("identify library.csv --model m.skout --pool pool.skpool", "must end in .mgf, .msp"),
        ("identify unknown.mgf --model absent.skout --pool pool.skpool", "no model"),
        ("identify unknown.mgf --model unknown.mgf --pool pool.skpool", "unknown.mgf"),
        ("identify unknown.mgf --model m.skout --pool absent.skpool", "absent.skpool"),
        ("identify unknown.mgf --model m.skout --pool pool.skpool -o hits.doc", ".json or .html"),
        ("identify unknown.mgf --model m.skout --pool pool.skpool -o a.html --lists", "a table"),
        ("identify unknown.mgf --model m.skout --pool pool.skpool -o unknown.mgf", "unknown.mgf"),
        ("identify unknown.mgf --model m.skout --pool pool.skpool --top 0", "top"),
        ("identify unknown.mgf --model m.skout --pool pool.skpool --adduct H+M", "'H+M' cannot be"),
        ("fit-spectra unknown.mgf --skip-invalid -o x.skout", "None is left"),
        (
            "predict m.skout library.csv",
            "m.skout is a model of spectra: use it with `skout identify`",
        ),
        ("fit-spectra absent.msp -o x.skout", "no file"),
        ("fit-spectra library.msp --folds 1 -o x.skout", "cv"),
        ("fit-spectra library.msp -o library.msp", "would be lost"),
    ],
)
def test_what_is_refused_names_what_is_wrong(folder, command, said):
    assert said in refused(folder, command)


def test_files_without_spectra_are_refused_with_what_they_have(folder):
    one = '<spectrum><cvParam accession="MS:1000511" value="1"/></spectrum>'
    (folder / "first.mzML").write_text(f"<mzML><run>{one * 12}</run></mzML>")
    (folder / "empty.mgf").write_text("")
    for option in ("", " --skip-invalid"):
        said = refused(folder, f"identify first.mzML --model m.skout --pool pool.skpool{option}")
        assert "no spectrum of MS level 2 in first.mzML: it has 12 spectra of MS level 1" in said
        said = refused(folder, f"identify empty.mgf --model m.skout --pool pool.skpool{option}")
        assert "in empty.mgf: it has nothing" in said


def test_a_model_of_another_kind_is_refused(folder):
    skout.save(skout.KernelBasis("linear").fit(np.eye(3)), folder / "other.skout")
    said = refused(folder, "identify unknown.mgf --model other.skout --pool pool.skpool")
    assert "which holds a KernelBasis" in said
    assert "fit-spectra" in said


# Nothing given ----------------------------------------------------------------------------------


@pytest.fixture
def few_molecules(records, tmp_path, monkeypatch):
    """A default pool of few molecules, in a cache of its own."""
    path = tmp_path / "molecules.tsv.xz"
    rows = [f"{smiles}\t{i % 3}\tmolecule {i}" for i, smiles in enumerate(records[1])]
    path.write_bytes(lzma.compress("\n".join(["smiles\tprior\tname", *rows]).encode()))
    monkeypatch.setattr("skout.apps.spectra.shipped.defaults.MOLECULES", path)
    monkeypatch.setenv("SKOUT_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("few_molecules")
def test_without_a_model_and_a_pool_there_are_names(folder):
    for again in (False, True):
        result = run(folder, "identify unknown.mgf -o ready.json")
        assert result.exit_code == 0, result.exception
        said = result.stderr
        assert "open spectra of" in said
        assert "random order" in said
        assert ("building the default pool, once" in said) != again
    found = json.loads((folder / "ready.json").read_text())["results"]
    assert len(found) == N_ASKED
    assert all(one["hits"] for one in found)
    assert any(hit["name"].startswith("molecule") for one in found for hit in one["hits"])
    with_prior = run(folder, "identify unknown.mgf --prior pool -o prior.json")
    assert with_prior.exit_code == 0, with_prior.exception
    other = json.loads((folder / "prior.json").read_text())["results"]
    scores = [[hit["score"] for one in hits for hit in one["hits"]] for hits in (found, other)]
    assert scores[0] != scores[1]


def test_the_model_of_skout_names_its_sources():
    result = run(Path(), "models show --json")
    assert result.exit_code == 0, result.exception
    facts = json.loads(result.stdout)
    assert "CC BY-SA" not in facts["licenses"]
    assert {"CC BY", "CC0", "dl-de/by-2-0"} <= set(facts["licenses"])
    assert sum(facts["licenses"].values()) >= facts["n_spectra"]
    assert "Eawag" in facts["contributors"]
    assert "MSBNK-Eawag-" in facts["accessions"]
    assert MODEL.stat().st_size <= 12e6
    shown = run(Path(), "models show").stdout
    assert "random order" in shown
    assert "prior alone" in shown


def test_a_prior_of_a_pool_without_any_is_refused(folder):
    said = refused(folder, "identify unknown.mgf --model m.skout --pool pool.skpool --prior pool")
    assert "a column prior, count, number or sources" in said


def test_spectra_of_a_compound_are_merged(folder, records):
    asked = records[0][N_LIBRARY : N_LIBRARY + 2]
    texts = [
        mgf(name, mz, peaks[k::2]).replace("TITLE", f"COMPOUND={name}\nTITLE")
        for name, mz, _, peaks in asked
        for k in (0, 1)
    ]
    (folder / "halves.mgf").write_text("".join(texts))
    assert len(hits(folder, "halves.mgf")) == 4
    merged = hits(folder, "halves.mgf", options="--merge")
    assert [one["query"] for one in merged] == [name for name, *_ in asked]
    assert all(one["hits"] for one in merged)
    identified(folder, "halves.mgf", out="merged.html", options="--merge")
    assert "2 spectra of" in (folder / "merged.html").read_text()


def test_few_spectra_with_several_candidates_are_no_measurement():
    facts = {"model": "m", "candidates_from": "library", "n_spectra": 9, "n_library": 9}
    facts |= {"n_held_out": 9, "n_molecules": 9, "folds_of": "molecules", "median_candidates": 1}
    facts |= {"in_reach": 1.0, "seconds": 1.0, "left_out": 0}
    few = for_people(facts | {"n_several": 2, "top_1": 1.0, "top_1_se": 0.0})
    assert "too few to score" in few["scores"]
    assert not any("100" in str(few[key]) for key in few if key != "mass fits")
    scores = {
        f"{name}{se}": 1.0 - bool(se)
        for name in ("top_1", "top_10", "mrr_25")
        for se in ("", "_se")
    }
    many = facts | scores | {"n_several": 30, "calibration_error": 0.0, "mean_confidence": 1.0}
    shown = for_people(many | {"random": dict.fromkeys(("top_1", "top_10", "mrr_25"), 0.5)})
    assert shown["scores"] == "top 1 100.0 %, top 10 100.0 %, MRR@25 1.000"
    assert "+-" not in shown["scores"]


# The page ----------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Tags, and texts outside of style."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)


@pytest.fixture(scope="module")
def page(folder):
    identified(folder, out="hits.html")
    return Page((folder / "hits.html").read_text())


def test_the_page_has_all_spectra_with_drawings(folder, page):
    found = hits(folder)
    sections = [tag for tag, _ in page.tags if tag == "section"]
    assert len(sections) == N_ASKED + 1  # and the overview
    folded = [attrs for tag, attrs in page.tags if tag == "details"]
    assert not any("open" in attrs for attrs in folded)
    drawn = [attrs for tag, attrs in page.tags if tag == "svg"]
    shown = sum(min(5, len(one["hits"])) for one in found)
    assert sum(attrs.get("class") == "spectrum" for attrs in drawn) == N_ASKED
    framed = [a.get("class") for tag, a in page.tags if tag == "li"]
    assert framed.count("in") + framed.count("out") == shown
    assert framed.count(None) > 0  # fragments
    assert len(drawn) == N_ASKED + len(framed)
    framed = [a for tag, a in page.tags if tag == "li" and a.get("class") == "in"]
    assert len(framed) == sum(hit["in_set"] for one in found for hit in one["hits"][:5])


def test_the_overview_has_the_surest_first_and_links_to_all(folder, page):
    def place(one):  # a single candidate has the confidence 1, and is no sure one
        several = one["n_candidates"] > 1
        return (not one["hits"], not several, -one["hits"][0]["confidence"] if several else 0.0)

    found = hits(folder)
    order = sorted(range(len(found)), key=lambda i: place(found[i]))
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert links == [f"#s{i + 1}" for i in order]
    assert {attrs.get("id") for _, attrs in page.tags} >= {link[1:] for link in links}


def test_a_single_candidate_is_not_among_the_surest():
    result = Identification("a", 1, 195.0, "[M+H]+", 194.0)
    hit = Hit(1, "CCO", "ethanol", "C2H6O", 46.0, 0.0, 0.6, True, 0)
    alone = replace(result, query="b", hits=(replace(hit, confidence=1.0),), n_candidates=1)
    several = replace(result, hits=(hit,), n_candidates=3)
    table = _overview([result, alone, several])
    assert [name in table for name in ("60 %", "100 %", "the only candidate")] == [1, 0, 1]
    assert re.findall('href="#(s.)"', table) == ["s3", "s2", "s1"]


def test_a_page_of_few_spectra_is_open_and_has_no_overview(folder, records):
    name, mz, _, peaks = records[0][N_LIBRARY]
    (folder / "single.mgf").write_text(mgf(name, mz, peaks))
    identified(folder, "single.mgf", out="single.html")
    alone = Page((folder / "single.html").read_text())
    assert [tag for tag, _ in alone.tags].count("section") == 1
    assert "open" in next(attrs for tag, attrs in alone.tags if tag == "details")


def test_the_page_needs_nothing_else_and_escapes_names(page):
    for tag, attrs in page.tags:
        assert tag not in ("script", "link", "img", "iframe", "b")
        assert not {"src", "onload"} & attrs.keys()
        assert attrs.get("href", "#").startswith("#")
    assert any("<b>" in text for text in page.texts)  # the names of the pool, as text


def test_drawings():
    assert Smiles().picture("C1CC") == ""
    ethanol = Smiles().picture("CCO")
    assert ethanol.startswith("<svg")
    assert ethanol.endswith("</svg>\n")
    assert ethanol.count("stroke='#") >= 2
    explained = explain_peaks(
        np.array([47.0491, 30.0]), np.array([5.0, 1.0]), "C2H6O", smiles="CCO"
    )
    drawn = spectrum_svg(explained, 47.0491)
    assert drawn.count('class="explained"') == 1
    assert drawn.count('class="other"') == 1
    assert ">C2H7O+<" in drawn


# The page of the site ----------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[3] / "docs" / "identify.md"


@pytest.mark.skipif(not PAGE.exists(), reason="a source distribution has no pages")
def test_the_commands_of_the_page_run(monkeypatch):
    text = PAGE.read_text(encoding="utf-8")
    first = doctest.DocTestParser().get_examples(text.partition("## Three commands")[0])
    names = {}
    for example in first:  # writes the files
        exec(example.source, names)
    monkeypatch.chdir(names["place"])
    lines = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    # these go on for ever, download, take minutes, or have a test of their own
    elsewhere = (
        "skout serve",
        "pip",
        "skout datasets",
        "skout models",
        "skout identify unknown.mgf -o",
    )
    lines = [line for line in lines if not line.startswith(elsewhere)]
    assert [shlex.split(line)[1] for line in lines] == [
        "pool",
        "fit-spectra",
        "identify",
        "identify",
    ]
    for line in lines:
        result = typer_testing.CliRunner().invoke(cli.build_app(), shlex.split(line)[1:])
        assert result.exit_code == 0, result.exception
    with open("lists.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    assert all(1 <= len(row["smiles"].split(" ")) <= 25 for row in rows)
    monkeypatch.undo()
    names["folder"].cleanup()
