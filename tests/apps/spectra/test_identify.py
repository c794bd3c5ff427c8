"""SpectrumIdentifier on the sample of MassBank: what it finds, how sure it is, what it refuses."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from extras import extra
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

import skout
from skout import SpectrumIdentifier
from skout.apps.spectra.identify import fragments as breaking
from skout.apps.spectra.identify.annotation import annotate
from skout.apps.spectra.identify.calibration import (
    Confidence,
    Cuts,
    calibration_error,
    surprise,
    truth_rank,
)
from skout.apps.spectra.identify.columns import (
    PEAKS,
    WAYS,
    Ions,
    candidate_columns,
    fragment_columns,
)
from skout.apps.spectra.identify.design import Design, combined_kernel, few_a_group
from skout.apps.spectra.identify.explaining import explain_peaks
from skout.apps.spectra.identify.fragmentation import (
    ALPHA,
    APART,
    FLOOR,
    LOST,
    SHIFTS,
    FormulaPeaks,
    FragmentModel,
    Pieces,
    bond_classes,
    learned_weights,
)
from skout.apps.spectra.identify.fragments import CUTS, bonds_of, broken_bonds, fragments_of
from skout.apps.spectra.identify.inputs import read_library
from skout.apps.spectra.identify.queries import batches, read_queries
from skout.apps.spectra.identify.ranking import (
    HeldOut,
    calibrated,
    random_order,
    report_of,
    weighed,
    with_prior,
)
from skout.apps.spectra.identify.search import Pairs, pair_scores, ranked
from skout.apps.spectra.identify.side_by_side import SideBySide, widths_of
from skout.apps.spectra.identify.validation import Candidates
from skout.apps.spectra.identify.ways import BothWays
from skout.apps.spectra.pools.standard import entries
from skout.apps.spectra.readers.formulas import (
    CODES,
    ELECTRON,
    MASSES,
    element_counts,
    formula_mass,
)
from skout.datasets import load
from skout.decoding import CandidateSets
from skout.kernels import Tanimoto
from skout.molecules import fingerprints, parse_smiles
from skout.predictors.thresholds import conformal_quantile
from skout.readers import spectra_table

rdkit = extra("rdkit")
descriptors = extra("rdkit.Chem.rdMolDescriptors")

CAFFEINE = "Cn1cnc2c1c(=O)n(C)c(=O)n2C"
N_LIBRARY, N_ASKED = 150, 30


class Pool:
    """What `SpectrumIdentifier` needs of a MoleculePool, in memory."""

    fingerprint_settings = {"kind": "morgan", "n_bits": 512, "radius": 2}  # noqa: RUF012

    def __init__(self, smiles):
        Chem = extra("rdkit.Chem")
        molecules = [Chem.MolFromSmiles(one) for one in smiles]
        self._smiles = np.array(smiles, dtype=object)
        self._masses = np.array([descriptors.CalcExactMolWt(one) for one in molecules])
        self._formulas = np.array([descriptors.CalcMolFormula(one) for one in molecules], object)
        self._keys = np.array([entry.key for entry in entries(smiles)], dtype=object)
        self._bits = fingerprints(smiles, **self.fingerprint_settings) if smiles else None
        self.embedded = []  # rows whose fingerprints were asked for

    def __len__(self):
        return len(self._smiles)

    def by_mass(self, mass, ppm=10.0):
        return np.flatnonzero(np.abs(self._masses - mass) <= 1e-6 * ppm * mass)

    def by_formula(self, formula):
        return np.flatnonzero(self._formulas == formula)

    def smiles(self, i):
        return self._smiles[i]

    def names(self, i):
        return np.array([f"molecule {j}" for j in i], dtype=object)

    def keys(self, i):
        return self._keys[i]

    def masses(self, i):
        return self._masses[i]

    def formulas(self, i):
        return self._formulas[i]

    def fingerprints(self, i):
        self.embedded.append(np.array(i))
        return self._bits[i]


def spectra_of(data, rows, **more):
    parts = [data.X[i : i + 1] for i in rows]
    return [
        {
            "mz": one.mz,
            "intensity": one.intensity,
            "precursor_mz": float(one.precursor[0]),
            "adduct": "[M+H]+",
            "identifier": f"query {i}",
            "formula": str(data.extra["formula"][i]),
            **more,
        }
        for i, one in zip(rows, parts, strict=True)
    ]


@pytest.fixture(scope="module")
def data():
    pytest.importorskip("pyarrow")
    return load("massbank-sample")


@pytest.fixture(scope="module")
def rows(data):
    """Molecules with several candidates, so that there is something to find."""
    several = np.flatnonzero(data.candidates.sizes > 2)
    return np.random.default_rng(0).permutation(several)[: N_LIBRARY + N_ASKED]


@pytest.fixture(scope="module")
def pool(data, rows):
    pytest.importorskip("rdkit")
    return Pool(sorted({str(text) for i in rows for text in data.candidates[i]}))


@pytest.fixture(scope="module")
def model(data, rows, pool):
    known = rows[:N_LIBRARY]
    identifier = SpectrumIdentifier(n_landmarks=(100, 80), cv=3, random_state=0)
    return identifier.fit(spectra_of(data, known), data.Y[known], pool=pool)


@pytest.fixture(scope="module")
def asked(data, rows):
    return spectra_of(data, rows[N_LIBRARY:])


@pytest.fixture(scope="module")
def found(model, asked, pool):
    return model.identify(asked, pool, top=5)


# Identify ----------------------------------------------------------------------------------------


def test_hits_are_the_best_of_the_candidates_by_both_ways(data, rows, pool, asked):
    known = rows[:60]
    plain = SpectrumIdentifier(n_landmarks=(30, 30), cv=2, fragments=False, random_state=0)
    plain.fit(spectra_of(data, known), data.Y[known], pool=pool)
    coef = plain.rankings_["mass"]["spectrum"]["coef"]
    assert len(coef) == len(WAYS)
    for query, one in zip(asked[:10], plain.identify(asked[:10], pool, top=5), strict=True):
        own = pool.by_mass(query["precursor_mz"] - MASSES["H"] + ELECTRON)
        ion = Ions(spectra_table([query]).spectra, np.array([query["adduct"]]))
        columns = candidate_columns(plain.models, ion, Pairs.of([own]), pool)
        assert one.n_candidates == len(own)
        expected = np.sort(coef @ columns)[::-1][:5]
        assert_allclose([hit.score for hit in one.hits], expected, atol=1e-8)
        assert [hit.rank for hit in one.hits] == list(range(1, len(expected) + 1))


def test_candidates_that_are_not_looked_at_closely_get_the_lowest_value(
    model, asked, pool, monkeypatch
):
    from skout.apps.spectra.identify import columns as module

    query = max(asked, key=lambda one: len(pool.by_mass(one["precursor_mz"] - 1.00727646)))
    own = pool.by_mass(query["precursor_mz"] - 1.00727646)
    ion = Ions(spectra_table([query]).spectra, np.array([query["adduct"]]))
    whole = candidate_columns(model.models, ion, Pairs.of([own]), pool)
    monkeypatch.setattr(module, "_MOST_CLOSE", 2)
    some = candidate_columns(model.models, ion, Pairs.of([own]), pool)
    best = np.argsort(-whole[0], kind="stable")
    assert len(own) > 3
    assert_array_equal(some[: len(WAYS)], whole[: len(WAYS)])
    assert_allclose(some[:, best[:2]], whole[:, best[:2]])
    lowest = whole[len(WAYS) :, best[:2]].min(axis=1)
    assert_allclose(some[len(WAYS) :, best[2]], lowest)


def test_hits_say_what_the_pool_knows(pool, found):
    for hit in itertools.chain.from_iterable(one.hits for one in found):
        assert hit.smiles == pool._smiles[hit.index]
        assert hit.name == f"molecule {hit.index}"
        assert hit.formula == pool._formulas[hit.index]
        assert hit.mass == pool._masses[hit.index]


def test_it_is_better_than_a_guess(data, rows, pool, found):
    truth = fingerprints(data.Y[rows[N_LIBRARY:]], **pool.fingerprint_settings)
    right, chance = [], []
    for i, one in enumerate(found):
        best = pool._bits[np.array([one.hits[0].index])]
        right.append(float(Tanimoto()(truth[i : i + 1], best)[0, 0]) == 1.0)
        chance.append(1.0 / one.n_candidates)
    assert np.mean(right) > 1.3 * np.mean(chance)


def test_order_and_company_of_spectra_change_nothing(model, asked, pool, found):
    order = np.random.default_rng(1).permutation(len(asked))
    again = model.identify([asked[i] for i in order], pool, top=5)
    assert_same([again[j] for j in np.argsort(order)], found)
    assert_same(model.identify(asked[:1], pool, top=5), found[:1])


def assert_same(one, other):
    """The same but for the seconds and the numbers in the file; scores up to rounding."""
    for a, b in zip(one, other, strict=True):
        assert [hit.index for hit in a.hits] == [hit.index for hit in b.hits]
        assert (a.query, a.mass, a.note, a.n_in_set) == (b.query, b.mass, b.note, b.n_in_set)
        for name in ("score", "confidence"):
            values = ([getattr(hit, name) for hit in x.hits] for x in (a, b))
            assert_allclose(*values, atol=1e-7)


def test_every_candidate_is_embedded_once(model, asked, pool):
    pool.embedded.clear()
    model.identify(asked + asked, pool)
    numbers = np.concatenate(pool.embedded)
    assert len(numbers) == len(set(numbers.tolist()))


def test_by_formula(model, asked, pool):
    other = model.identify(asked, pool, top=5, by="formula")
    for query, one in zip(asked, other, strict=True):
        assert one.n_candidates == len(pool.by_formula(query["formula"]))
        assert {hit.formula for hit in one.hits} == {query["formula"]}


def test_by_formula_needs_no_precursor(model, asked, pool):
    with_it = model.identify(asked[:3], pool, by="formula")
    without = [{k: v for k, v in one.items() if k != "precursor_mz"} for one in asked[:3]]
    again = model.identify(without, pool, by="formula")
    assert [len(one.hits) for one in again] == [len(one.hits) for one in with_it]
    assert_allclose(
        [one.precursor_mz for one in again], [one.precursor_mz for one in with_it], rtol=1e-4
    )


def test_progress_is_told(model, asked, pool):
    told = []
    model.identify([*asked, {**asked[0], "adduct": ""}], pool, progress=lambda *n: told.append(n))
    assert told[-1] == (len(asked) + 1, len(asked) + 1)


def test_as_dict_is_what_json_takes(found):
    import json

    record = json.loads(json.dumps(found[0].as_dict()))
    assert record["hits"][0]["smiles"] == found[0].hits[0].smiles
    assert replace(found[0], mass=np.nan).as_dict()["mass"] is None


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"adduct": ""}, "its adduct is not known: give one"),
        ({"adduct": "[M+Zz]+"}, "'Zz', whose mass is not known"),
        ({"adduct": "[M]"}, "has no charge"),
        ({"adduct": "[0M+H]+"}, "'[0M+H]+' has no molecule"),
        ({"adduct": "[M+C9999999999]+"}, "'C9999999999', whose mass is not known"),
        ({"adduct": f"[M+{'9' * 400}H]+"}, "cannot be read"),
        ({"precursor_mz": 1e308, "adduct": "[M+99H]99+"}, "is no m/z of a molecule"),
        ({"precursor_mz": None}, "precursor is not known"),
        ({"precursor_mz": 0.9}, "is lighter than the adduct"),
        ({"precursor_mz": 5000.0}, "the pool has no molecule of its mass"),
    ],
)
def test_a_spectrum_that_cannot_be_searched_says_why_and_does_not_stop_others(
    model, asked, pool, found, change, note
):
    got = model.identify([{**asked[0], **change}, asked[1]], pool, top=5)
    assert got[0].hits == ()
    assert note in got[0].note
    assert_same(got[1:], found[1:2])


def test_without_formula_by_formula(model, asked, pool):
    got = model.identify(
        [{**asked[0], "formula": ""}, {**asked[0], "formula": "C6?"}], pool, by="formula"
    )
    assert got[0].note == "its formula is not known: search it by mass."
    assert "cannot be read, 'C6?'" in got[1].note


def test_adduct_for_those_that_do_not_say_theirs(model, asked, pool, found):
    silent = [{**one, "adduct": ""} for one in asked]
    assert_same(model.identify(silent, pool, top=5, adduct="[M+H]+"), found)
    mixed = model.identify([asked[0], silent[1]], pool, top=5, adduct="[M+Na]+")
    assert_same(mixed[:1], found[:1])
    assert mixed[1].mass == pytest.approx(
        asked[1]["precursor_mz"] - MASSES["Na"] + ELECTRON, abs=1e-6
    )


def test_both_polarities(model, asked, pool):
    mass = model.identify(asked[:1], pool)[0].mass
    negative = {**asked[0], "adduct": "[M-H]-", "precursor_mz": mass - MASSES["H"] + ELECTRON}
    got = model.identify([negative], pool)[0]
    assert got.mass == pytest.approx(mass, abs=1e-9)
    assert got.hits
    assert got.note == "the model has seen no negative spectra."
    (got,) = model.identify([{**asked[0], "polarity": "negative"}], pool)
    assert got.note == "the file calls it negative, and its adduct [M+H]+ is not."


def test_one_candidate_is_sure(model, asked, pool):
    only = Pool([str(pool._smiles[pool.by_mass(model.identify(asked[:1], pool)[0].mass)[0]])])
    (got,) = model.identify(asked[:1], only)
    assert len(got.hits) == 1
    assert got.hits[0].confidence == 1.0
    assert got.hits[0].in_set


def test_empty_pool(model, asked):
    (got,) = model.identify(asked[:1], Pool([]))
    assert got.note == "the pool has no molecule of its mass or formula."


def test_no_spectra(model, pool):
    assert model.identify([], pool) == []


def test_a_pool_of_more_kinds_of_fingerprints_serves_as_well(model, asked, pool):
    settings = {"kind": ["maccs", "morgan"], "n_bits": 512, "radius": 2}
    many = Pool(list(pool._smiles))
    many.fingerprint_settings, many._bits = settings, fingerprints(pool._smiles, **settings)
    expected, found = model.identify(asked, pool), model.identify(asked, many)
    assert [one.hits for one in found] == [one.hits for one in expected]
    assert any(one.hits for one in found)


def test_what_identify_refuses(model, asked, pool):
    with pytest.raises(TypeError, match="pool must be a MoleculePool"):
        model.identify(asked, ["CCO"])
    with pytest.raises(ValueError, match="The adduct 'H' cannot be read"):
        model.identify(asked, pool, adduct="H")
    with pytest.raises(ValueError, match="fitted without a prior"):
        model.identify(asked, pool, prior={})
    with pytest.raises(TypeError, match="prior must be a mapping"):
        model.identify(asked, pool, prior=[1.0])
    with pytest.raises(ValueError, match="prior must have numbers >= 0"):
        model.identify(asked, pool, prior={"A": -1.0})
    other = Pool(["CCO"])
    other.fingerprint_settings = {"kind": "morgan", "n_bits": 1024, "radius": 2}
    with pytest.raises(ValueError, match=r"1024.*the model was fitted on.*512"):
        model.identify(asked, other)
    other.fingerprint_settings = {"kind": ["pairs"], "n_bits": 512, "radius": 2}
    with pytest.raises(ValueError, match=r"pairs.*the model was fitted on.*morgan"):
        model.identify(asked, other)
    with pytest.raises(ValueError, match="ppm"):
        model.identify(asked, pool, ppm=0.0)
    with pytest.raises(ValueError, match="by"):
        model.identify(asked, pool, by="weight")
    broken = {**asked[0], "intensity": np.full(len(asked[0]["mz"]), np.nan)}
    with pytest.raises(ValueError, match="intensity must be finite"):
        model.identify([broken], pool)


def test_not_fitted(asked, pool):
    with pytest.raises(Exception, match="not fitted"):
        SpectrumIdentifier().identify(asked, pool)


def test_saved_and_loaded_it_is_the_same_to_the_last_bit(model, asked, pool, found, tmp_path):
    path = tmp_path / "model.skout"
    skout.save(model, path)
    again = skout.load(path)
    got = [replace(one, seconds=0.0) for one in again.identify(asked, pool, top=5)]
    assert got == [replace(one, seconds=0.0) for one in found]
    assert again.validation_ == model.validation_
    assert again.get_params().keys() == model.get_params().keys()


# Confidence, sets, validation --------------------------------------------------------------------


def test_confidence_sums_to_one_and_falls_with_the_rank(model, asked, pool):
    for one in model.identify(asked, pool, top=10_000):
        confidence = [hit.confidence for hit in one.hits]
        assert sum(confidence) == pytest.approx(1.0)
        assert confidence == sorted(confidence, reverse=True)
        inside = [hit.in_set for hit in one.hits]
        assert inside == sorted(inside, reverse=True)
        assert sum(inside) == one.n_in_set


def test_validation_is_about_molecules_that_were_held_out(model):
    report = model.validation_
    assert report["n_molecules"] == report["n_held_out"] == round(N_LIBRARY * report["in_reach"])
    assert 0.0 < report["top_1"] <= report["mrr_25"] <= report["top_10"] <= 1.0
    assert report["top_1"] > report["random"]["top_1"] > 0.0
    assert report["candidates_from"] == "pool"
    assert report["folds_of"] == "molecules"
    n = report["n_several"]
    spread = np.sqrt(report["top_1"] * (1 - report["top_1"]) / (n - 1))
    assert report["top_1_se"] == pytest.approx(spread)


def test_random_molecules_teach_nothing(data, rows):
    # groups that do not leak: with shuffled truths the held-out score is that of a guess
    known = rows[:N_LIBRARY]
    shuffled = np.random.default_rng(3).permutation(known)
    model = SpectrumIdentifier(n_landmarks=(100, 80), cv=3, random_state=0)
    X = spectra_of(data, known)
    real = model.fit(X, data.Y[known]).validation_["mrr_25"]
    fake = SpectrumIdentifier(n_landmarks=(100, 80), cv=3, random_state=0)
    assert fake.fit(X, data.Y[shuffled]).validation_["mrr_25"] < 0.7 * real


def test_sets_hold_the_truth_as_often_as_they_should(model):
    sizes, surprises = (
        model.rankings_["mass"]["spectrum"][name] for name in ("sizes", "surprises")
    )
    cuts = Cuts.fitted(sizes, surprises, 0.9)
    stratum = np.searchsorted(cuts.edges, sizes)
    assert len(cuts.edges)  # few candidates and many have their own
    for size in np.unique(stratum):
        some = stratum == size
        assert np.mean(surprises[some] <= cuts.surprise[size]) >= 0.9
    assert conformal_quantile(np.zeros(8), 0.9) == np.inf  # which nine would do for
    assert conformal_quantile(np.zeros(9), 0.9) == 0.0


def test_sets_of_new_molecules_hold_the_truth():
    # truths that are drawn: coverage over many draws of calibration and test
    rng, held = np.random.default_rng(0), []
    for _ in range(300):
        gaps = rng.exponential(size=51)
        held.append(gaps[50] <= conformal_quantile(np.sort(gaps[:50]), 0.8))
    assert np.mean(held) == pytest.approx(0.8, abs=0.07)


def test_spectra_whose_mass_does_not_lead_to_their_molecule_are_not_judged(data, rows, pool):
    known = rows[:60]
    spectra = spectra_of(data, known)
    for one in spectra[:20]:
        one["precursor_mz"] += 0.3
    model = SpectrumIdentifier(n_landmarks=(30, 30), cv=2, random_state=0)
    report = model.fit(spectra, data.Y[known], pool=pool).validation_
    assert report["n_molecules"] == 40
    assert report["in_reach"] == pytest.approx(40 / 60)
    for one in spectra:
        one["precursor_mz"] += 0.3
    with pytest.raises(ValueError, match="has the mass of its molecule within 10 ppm"):
        model.fit(spectra, data.Y[known], pool=pool)


def test_softmax_with_a_temperature_is_found_again():
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=rng.integers(2, 20)) for _ in range(2000)]
    right = []
    for s in scores:  # truths are drawn with probabilities that are known
        truth = np.zeros(len(s), dtype=bool)
        truth[rng.choice(len(s), p=softmax(s / 0.5))] = True
        right.append(truth)
    sure = Confidence.fitted(scores, right)
    assert sure.temperature == pytest.approx(0.5, rel=0.1)
    assert sure.slope == pytest.approx(1.0, abs=0.15)
    assert sure.intercept == pytest.approx(0.0, abs=0.15)
    first = np.array([sure.of(s).max() for s in scores])
    hit = np.array([t[s.argmax()] for s, t in zip(scores, right, strict=True)])
    assert calibration_error(first, hit) < 0.04


@given(
    st.lists(st.floats(-5, 5), min_size=1, max_size=12),
    st.floats(0.01, 10),
    st.floats(-3, 3),
    st.floats(0.05, 3),
)
def test_confidence_is_a_distribution_in_the_order_of_the_scores(scores, t, a, b):
    scores = np.array(scores)
    p = Confidence(t, a, b).of(scores)
    assert p.sum() == pytest.approx(1.0)
    assert p.min() >= 0.0
    assert p[scores.argmax()] >= p.max() - 1e-12


@given(st.lists(st.integers(0, 4), min_size=1, max_size=10), st.data())
def test_rank_and_surprise_of_the_truth(values, draw):
    scores = np.array(values, dtype=float)
    i = draw.draw(st.integers(0, len(values) - 1))
    right = np.arange(len(values)) == i
    above = sum(v > values[i] for v in values)
    tied = sum(v == values[i] for v in values) - 1
    assert truth_rank(scores, right) == 1 + above + tied / 2
    p = softmax(scores)
    assert surprise(p, right) == pytest.approx(-np.log(p[i]))
    assert surprise(p, np.zeros(len(values), bool)) == np.inf
    assert truth_rank(scores, np.zeros(len(values), bool)) == np.inf


def test_ranked_breaks_ties_by_the_place_in_the_pool():
    sure, cuts = Confidence(1, 0, 1), Cuts(np.array([2]), np.array([0.0, 2.0]))
    best = ranked(np.array([9, 4, 7]), np.array([1.0, 1.0 + 1e-12, 2.0]), 3, cuts, sure)
    assert best.rows.tolist() == [7, 4, 9]
    assert best.in_set.tolist() == [True, True, True]  # each with a probability above exp(-2)
    two = ranked(np.array([9, 4]), np.array([1.0, 0.0]), 2, cuts, sure)
    assert two.in_set.tolist() == [True, False]  # no set is empty


def test_ways_are_those_of_the_model_in_half_precision(data, rows, pool):
    library = read_library(spectra_of(data, rows[:60]), data.Y[rows[:60]])
    bits = fingerprints(library.smiles, **pool.fingerprint_settings)
    X, Y = library.ions.spectra, bits[library.molecule]
    kernel = combined_kernel(X, Y, library.molecule, (512,), np.random.default_rng(0))
    model = Design(kernel, 40, None, (512,), 0).two_ways(library.molecule[:50])
    model.fit(X[:50], Y[:50])
    candidates = CandidateSets(Y, [0, 3, 10], np.arange(10))
    ways = BothWays.of(model)
    got = ways.columns(ways.spectra(X[50:52]), candidates)
    embedded = model.decoder_.embed(candidates)
    by_way = model.output_basis_.scores_by_direction(
        model.predict_coordinates(X[50:52]), embedded.embedding, candidates.indptr, embedded.members
    )
    for row, name in enumerate(WAYS[1:], 1):
        assert_allclose(got[row], by_way[name], atol=2e-2)
    assert_allclose(got[0], got[1] + got[3])


# Ranking -----------------------------------------------------------------------------------------


def held_of(tables, right, folds):
    indptr = np.cumsum([0, *(S.shape[1] for S in tables)])
    truths = np.concatenate(right)
    return HeldOut(np.concatenate(tables, axis=1), indptr, truths, folds, np.ones_like(truths))


def learned(held):
    return calibrated(held, weighed(held))


def columns_that_need_a_sum(n=300, seed=0):
    """Columns of candidates: the truth has the largest sum of those that are not first."""
    rng = np.random.default_rng(seed)
    tables, right = [], []
    for _ in range(n):
        S = rng.normal(size=(3, rng.integers(2, 30)))
        truth = np.arange(S.shape[1]) == rng.choice(S.shape[1], p=softmax(4 * (S[1] + 2 * S[2])))
        tables.append(S)
        right.append(truth)
    return held_of(tables, right, np.arange(n) % 5)


def test_a_ranking_learns_which_columns_count():
    held = columns_that_need_a_sum()
    ranking, report = learned(held)
    assert ranking.coef[2] / ranking.coef[1] == pytest.approx(2.0, rel=0.25)
    right = held.split(held.right)
    best = report_of(held.split(held.columns[1] + 2 * held.columns[2]), right)
    first = report_of(held.split(held.columns[0]), right)
    assert best["mrr_25"] + 0.02 > report["mrr_25"] > first["mrr_25"] + 0.2
    assert report["calibration_error"] < 0.1


def test_one_candidate_teaches_nothing_and_is_no_success():
    held = held_of([np.ones((2, 1))] * 5, [np.ones(1, bool)] * 5, np.arange(5) % 2)
    ranking, report = learned(held)
    assert_array_equal(ranking.coef, [1.0, 0.0])
    assert np.isnan(report["top_1"])
    assert len(ranking.sizes) == 0
    assert np.isnan(random_order(ranking.sizes)["top_1"])


def test_random_order_by_simulation():
    rng, sizes = np.random.default_rng(0), np.array([2, 40, 7])
    ranks = np.array([[rng.integers(1, n + 1) for n in sizes] for _ in range(20_000)])
    found = random_order(sizes)
    assert found["top_1"] == pytest.approx(np.mean(ranks == 1), abs=0.01)
    assert found["top_10"] == pytest.approx(np.mean(ranks <= 10), abs=0.01)
    assert found["mrr_25"] == pytest.approx(np.mean(np.where(ranks <= 25, 1 / ranks, 0)), abs=0.01)


def test_a_prior_moves_known_molecules_up_and_can_be_left_out(data, rows, pool, asked):
    known = rows[:60]
    keys = {entry.key: 50.0 for entry in entries([str(text) for text in data.Y[known]])}
    params = {"n_landmarks": (30, 30), "cv": 2, "fragments": False, "random_state": 0}
    with_it = SpectrumIdentifier(**params).fit(
        spectra_of(data, known), data.Y[known], pool=pool, prior=keys
    )
    without = SpectrumIdentifier(**params).fit(spectra_of(data, known), data.Y[known], pool=pool)
    report = with_it.validation_  # all truths, and few others, are on the list
    assert report["with_prior"]["top_1"] > report["top_1"] == without.validation_["top_1"]
    assert report["prior"]["mrr_25"] > report["random"]["mrr_25"]
    assert_same(with_it.identify(asked, pool), without.identify(asked, pool))
    (plain,) = with_it.identify(asked[:1], pool)
    last = plain.hits[-1]
    (moved,) = with_it.identify(asked[:1], pool, prior={pool.keys(last.index): 1e6})
    assert len(plain.hits) > 1
    assert next(hit.rank for hit in moved.hits if hit.index == last.index) < last.rank


def test_a_prior_does_not_learn_that_truths_were_put_into_the_pool(data, rows, pool):
    known = rows[:60]
    truths = {entry.key for entry in entries([str(text) for text in data.Y[known]])}
    others = Pool([str(pool._smiles[i]) for i in range(len(pool)) if pool._keys[i] not in truths])
    listed = dict.fromkeys(others._keys, 5.0)  # all candidates but the truths are on lists
    model = SpectrumIdentifier(n_landmarks=(30, 30), cv=2, fragments=False, random_state=0)
    model.fit(spectra_of(data, known), data.Y[known], pool=others, prior=listed)
    assert model.rankings_["mass"]["prior"]["coef"][-1] == 0.0
    assert "with_prior" not in model.validation_
    half = dict.fromkeys(sorted(truths), 0.0) | dict.fromkeys(others._keys, 5.0)
    model.fit(spectra_of(data, known), data.Y[known], pool=pool, prior=half)  # truths are rarer
    assert model.rankings_["mass"]["prior"]["coef"][-1] == 0.0


# Fragments and fingerprints ----------------------------------------------------------------------


def fragment_formulas(smiles):
    """Fragments by brute force: connected parts that one cut, or two cuts, leave."""
    import networkx as nx

    mol = extra("rdkit.Chem").MolFromSmiles(smiles)
    graph = nx.Graph([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()])

    def cut(part):
        edges = list(graph.subgraph(part).edges)
        for some in itertools.chain(((e,) for e in edges), itertools.combinations(edges, 2)):
            rest = nx.Graph(graph.subgraph(part))
            rest.remove_edges_from(some)
            pieces = list(nx.connected_components(rest))
            if len(pieces) == 2:
                yield from map(frozenset, pieces)

    once = set(cut(graph.nodes))
    twice = {piece for part in once for piece in cut(part)}
    return {part for part in once | twice if len(part) > 1} | {frozenset(graph.nodes)}


@pytest.mark.parametrize("smiles", ["CCO", "CC(=O)Nc1ccc(O)cc1", "C1CCCCC1", "OC1CC1CCN", "CC#N"])
def test_fragments_are_those_of_two_cuts(smiles):
    mol = extra("rdkit.Chem").MolFromSmiles(smiles)
    bonds = bonds_of(mol)
    found = fragments_of(bonds)
    wanted = fragment_formulas(smiles)
    words = [[sum(1 << i for i in part)] for part in wanted]
    assert sorted(found.masks.tolist()) == sorted(words)
    hydrogens = [sum(mol.GetAtomWithIdx(i).GetTotalNumHs() for i in part) for part in wanted]
    assert sorted(found.hydrogens.tolist()) == sorted(hydrogens)
    assert found.cost[0] == 0.0
    assert CUTS[found.cuts[0]] == "none"
    assert (found.cost[1:] > 0.0).all()
    broken = broken_bonds(found.masks, bonds.ends)
    assert (broken.sum(axis=1)[found.cuts == 1] == 1).all()
    assert_allclose(found.cost, broken @ bonds.energy)


def test_fragments_of_a_large_molecule_have_two_words_and_a_huge_one_none():
    Chem = extra("rdkit.Chem")
    found = fragments_of(bonds_of(Chem.MolFromSmiles("C" * 50 + "O" + "C" * 49)))
    assert found.hydrogens.max() == 200
    assert len(found.code) == 1 + sum(100 - size + 1 for size in range(2, 100))
    assert fragments_of(bonds_of(Chem.MolFromSmiles("C" * 129))) is None


@pytest.mark.parametrize(
    "smiles",
    [
        "CC(C)Cc1ccc(cc1)C(C)C(=O)O",
        "OC1C(O)C(O)C(OC1CO)Oc1cc(O)c2C(=O)C=C(Oc2c1)c1ccc(O)cc1",
        "CC12CCC3C(CCC4=CC(=O)CCC34C)C1CCC2O",
        "CCCCCCCCCCCCCCCCCC(=O)OCC(COP(=O)(O)OCC[N+](C)(C)C)OC(=O)CCCCCCCC=CCCCCCCCCCCCCCCCCCCCCCC",
        "C",
    ],
)
def test_fragments_are_the_same_without_numba(smiles, monkeypatch):
    pytest.importorskip("numba")
    bonds = bonds_of(extra("rdkit.Chem").MolFromSmiles(smiles))
    compiled = fragments_of(bonds)
    monkeypatch.setattr(breaking, "_compiled", lambda: None)
    plain = fragments_of(bonds)
    assert len(compiled.code) == len(plain.code)
    one, other = (
        sorted(zip(f.masks.tolist(), f.cost, f.hydrogens, f.cuts, strict=True))
        for f in (compiled, plain)
    )
    assert one == other


def test_fragments_are_bounded_and_the_cheap_ones_are_kept(monkeypatch):
    bonds = bonds_of(extra("rdkit.Chem").MolFromSmiles("C" * 40))
    monkeypatch.setattr(breaking, "_MOST_FRAGMENTS", 100)
    found = fragments_of(bonds)
    assert 50 < len(found.code) <= 100
    assert found.cost[0] == 0.0
    assert (found.cuts == 1).sum() > 50


def test_bond_classes_are_those_that_are_frequent():
    bonds = [bonds_of(one) for one in parse_smiles(["CCCCC"] * 40 + ["CO"])]
    assert bond_classes(bonds) == ("CHH-|CHH", "CHH-|CHHH", "CHHH-|CHH")


def test_side_by_side_is_the_mean_of_tanimoto_kernels():
    kinds, smiles = ["morgan", "pairs", "maccs"], ["CCO", "CCN", "c1ccccc1O", CAFFEINE]
    for n_bits in (128, 100):  # whole words, or not
        settings = {"kind": kinds, "n_bits": n_bits}
        bits = fingerprints(smiles, **settings)
        widths = widths_of(settings)
        assert widths == (n_bits, n_bits, 167)
        each = [Tanimoto()(fingerprints(smiles, kind, n_bits=n_bits)) for kind in kinds]
        assert_allclose(
            SideBySide(0.3, widths)(bits), np.exp(0.6 * (np.mean(each, axis=0) - 1)), atol=1e-12
        )
    with pytest.raises(ValueError, match=r"widths must sum to 367"):
        SideBySide(0.3, (5,))(bits)


# Fit ---------------------------------------------------------------------------------------------


def test_fit_is_the_same_for_the_same_seed_and_another_for_another(data, rows):
    known = rows[:60]
    fits = [
        SpectrumIdentifier(n_landmarks=(30, 30), cv=2, random_state=seed)
        .fit(spectra_of(data, known), data.Y[known])
        .validation_
        for seed in (0, 0, 1)
    ]
    assert fits[0] == fits[1]
    assert fits[0] != fits[2]


def test_folds_are_of_laboratories_where_spectra_say_theirs(data, rows, pool):
    known = np.concatenate([rows[:40], rows[:40]])  # every molecule in two laboratories
    where = np.repeat(["Basel", "Halle"], 40)
    spectra = [
        {**one, "laboratory": place}
        for one, place in zip(spectra_of(data, known), where, strict=True)
    ]
    model = SpectrumIdentifier(n_landmarks=(30, 30), cv=2, fragments=False, random_state=0)
    # all molecules of a laboratory that is held out are also measured by the other one
    with pytest.raises(ValueError, match="fewer than two molecules to learn from"):
        model.fit(spectra, data.Y[known], pool=pool)
    apart = spectra[:40] + spectra_of(data, rows[40:80], laboratory="Halle")
    report = model.fit(apart, data.Y[rows[:80]], pool=pool).validation_
    assert report["folds_of"] == "laboratories"
    spectra[0]["laboratory"] = ""  # one does not say
    assert model.fit(spectra, data.Y[known], pool=pool).validation_["folds_of"] == "molecules"


def test_the_truth_is_a_candidate_once(data, rows, pool):
    library = read_library(spectra_of(data, rows[:5]), data.Y[rows[:5]])
    candidates = Candidates(pool, 10.0, None, library)
    for i in range(5):
        own = candidates.of(library.exact[library.molecule[i]], library.molecule[i])
        assert (candidates.keys(own) == library.keys[library.molecule[i]]).any()
        assert own.max() < len(pool)
    empty = Candidates(Pool([]), 10.0, None, library)
    assert empty.of(library.exact[0], 0).tolist() == [0]


def test_fit_where_every_spectrum_has_one_candidate(data, rows, asked):
    known = rows[:20]
    model = SpectrumIdentifier(n_landmarks=(10, 10), cv=2, random_state=0)
    model.fit(spectra_of(data, known), data.Y[known], pool=Pool([]))
    assert model.validation_["n_several"] == 0
    assert np.isnan(model.validation_["top_1"])
    assert model.identify(asked[:1], Pool([CAFFEINE]))[0].hits == ()


def test_few_a_group():
    groups = np.array([5, 5, 5, 2, 2, 9])
    rng = np.random.default_rng(0)
    assert len(few_a_group(groups, 2, rng)) == 5
    one = few_a_group(groups, 1, rng)
    assert_array_equal(np.sort(groups[one]), [2, 5, 9])
    assert set(np.concatenate([few_a_group(groups, 1, rng) for _ in range(50)])) == set(range(6))


def test_a_library_is_grouped_by_molecule_whatever_its_stereo():
    pytest.importorskip("rdkit")
    peaks = ([50.0, 60.0], [1.0, 2.0], 90.0)
    smiles = ["N[C@@H](C)C(=O)O", "N[C@H](C)C(=O)O", "CCO", "OCC"]
    library = read_library([peaks] * 4, smiles)
    assert library.groups[0] == library.groups[1] != library.groups[2] == library.groups[3]
    assert len(library.smiles) == 2
    assert_array_equal(library.molecule, library.groups)


def test_precursors_follow_from_molecule_and_adduct():
    pytest.importorskip("rdkit")
    one = {"mz": [50.0], "intensity": [1.0], "adduct": "[M+H]+"}
    library = read_library([one], [CAFFEINE])
    assert library.ions.spectra.precursor[0] == pytest.approx(195.0877, abs=1e-4)
    with pytest.raises(
        ValueError, match=r"record 1: it has neither a precursor.*on_error=\"skip\""
    ):
        read_library([{**one, "adduct": ""}], [CAFFEINE])


def test_spectra_without_a_molecule_are_refused_or_left_out():
    pytest.importorskip("rdkit")
    peaks = ([50.0], [1.0], 90.0)
    smiles = ["CCO", "", "C1CC"]
    with pytest.raises(
        ValueError, match=r"2 of 3 .*record 2: it has no SMILES.*record 3: .*'C1CC'"
    ):
        read_library([peaks] * 3, smiles)
    with pytest.warns(UserWarning, match="They are left out"):
        library = read_library([peaks] * 3, smiles, on_error="skip")
    assert library.smiles == ["CCO"]
    with pytest.raises(ValueError, match=r"smiles must have one for each of 3 spectra\. Got 2"):
        read_library([peaks] * 3, smiles[:2])
    with pytest.raises(ValueError, match="empty"):
        read_library([], [])


def test_what_fit_refuses(asked):
    pytest.importorskip("rdkit")
    for params in ({"cv": 1}, {"most_spectra": 0}, {"n_landmarks": 5}, {"coverage": 1.0}):
        with pytest.raises(ValueError, match=next(iter(params))):
            SpectrumIdentifier(**params).fit(asked, ["CCO"] * len(asked))


def test_fields_of_dicts_and_of_matchms_spectra_are_kept():
    class FormulaPeaks:
        mz, intensities = np.array([50.0]), np.array([1.0])

    class Spectrum:
        peaks = FormulaPeaks()
        metadata = {"precursor_mz": 90.0, "adduct": "[M+H]+", "compound_name": "x"}  # noqa: RUF012

    table = spectra_table(
        [Spectrum(), {"mz": [5.0], "intensity": [1.0], "smiles": "C", "charge": 1}]
    )
    assert table["adduct"].tolist() == ["[M+H]+", ""]
    assert table["name"].tolist() == ["x", ""]
    assert table["smiles"].tolist() == ["", "C"]
    assert_array_equal(table["precursor_mz"], [90.0, np.nan])
    assert spectra_table(table) is table


def test_fields_can_be_given_and_spectra_taken():
    pair = [([50.0], [1.0], 90.0), ([60.0, 70.0], [1.0, 2.0])]
    table = spectra_table(pair, adduct="[M+H]+", smiles=["C", None])
    assert table["adduct"].tolist() == ["[M+H]+"] * 2
    assert table["smiles"].tolist() == ["C", ""]
    last = table.take([1])
    assert last.spectra.mz.tolist() == [60.0, 70.0]
    assert last.record.tolist() == [2]
    assert len(table.take(slice(0, 1))) == 1
    with pytest.raises(ValueError, match=r"smiles must have 2 values\. Got 1"):
        spectra_table(pair, smiles=["C"])
    with pytest.raises(ValueError, match="fields"):
        spectra_table(pair, weight=1.0)


# Search ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 7, 9000])
def test_pair_scores_are_those_of_each_pair(n):
    rng = np.random.default_rng(n)
    found = [rng.integers(0, 3 * n + 1, size) for size in rng.integers(0, n + 1, 3)]
    found = [np.unique(own) for own in found]
    pairs, calls = Pairs.of(found), []

    def score(rows, sets):
        calls.append(len(sets.pool))
        return np.stack(
            [1e5 * rows[sets.query_of] + sets.pool[sets.indices], sets.pool[sets.indices]]
        )

    scores = pair_scores(pairs, lambda i: i.astype(float), score, 2)
    for i, own in enumerate(found):
        if len(own):
            assert_array_equal(scores[0, pairs.entries(i)], 1e5 * i + own)
            assert_array_equal(scores[1, pairs.entries(i)], own)
    assert sum(calls) == len(np.unique(pairs.indices))


def test_batches_bound_the_pairs_and_lose_nobody(monkeypatch, asked, pool):
    from skout.apps.spectra.identify import queries as module

    monkeypatch.setattr(module, "_MOST_PAIRS", 20)
    queries = read_queries(asked, None, "mass")
    parts = list(batches(queries, pool, 10.0, "mass"))
    assert len(parts) > 1
    assert sorted(np.concatenate([part.spectra for part in parts])) == sorted(queries.order)
    for part in parts:
        pairs = part.pairs
        assert len(pairs) == len(part.spectra) == len(part.compounds)
        assert len(pairs) == 1 or len(pairs.indices) <= 20
        for i, row in enumerate(part.spectra):
            assert_array_equal(pairs.indices[pairs.entries(i)], pool.by_mass(queries.masses[row]))


# Peaks -------------------------------------------------------------------------------------------


def ion_mass(sign, **atoms):
    return sum(MASSES[name] * count for name, count in atoms.items()) - sign * ELECTRON


def test_peaks_of_known_parts_are_explained_and_no_others():
    mz = np.array([ion_mass(1, C=6, H=8, N=3, O=1), ion_mass(1, C=5, H=8, N=3), 100.5])
    got = explain_peaks(mz, np.array([50.0, 20.0, 30.0]), "C8H10N4O2")
    assert got.formula == ("C6H8N3O+", "C5H8N3+", "")
    assert_allclose(got.error_ppm[:2], 0.0, atol=1e-6)
    assert got.explained.tolist() == [True, True, False]
    assert got.share == pytest.approx(0.7)
    assert got.intensity.max() == 1.0
    assert got.as_dict()["peaks"][2]["error_ppm"] is None


def test_a_part_has_no_more_atoms_than_the_ion():
    nitrogen5 = ion_mass(1, C=5, H=8, N=5)
    sodium = ion_mass(1, C=2, H=6, O=1, Na=1)
    assert explain_peaks([nitrogen5], [1.0], "C8H10N4O2", ppm=2).formula == ("",)
    assert explain_peaks([sodium], [1.0], "C2H6O").formula == ("",)
    assert explain_peaks([sodium], [1.0], "C2H6O", adduct="[M+Na]+").formula == ("C2H6NaO+",)
    negative = ion_mass(-1, C=2, H=5, O=1)
    assert explain_peaks([negative], [1.0], "C2H6O", adduct="[M-H]-").formula == ("C2H5O-",)


@pytest.mark.parametrize("ppm", [2.0, 20.0])
def test_the_nearest_part_by_brute_force(ppm):
    rng = np.random.default_rng(0)
    counts = {"C": 6, "N": 2, "O": 3, "H": 9}  # with the proton and one that moves
    mz = rng.uniform(20, 150, 200)
    got = explain_peaks(mz, np.ones(200), "C6H7N2O3", ppm=ppm)
    parts = [
        dict(zip(counts, numbers, strict=True))
        for numbers in itertools.product(*(range(n + 1) for n in counts.values()))
    ]
    parts = [p for p in parts if p["H"] <= 2 * p["C"] + p["N"] + 3 and sum(p.values())]
    masses = np.array([ion_mass(1, **p) for p in parts])
    for i, one in enumerate(mz):
        error = np.abs(masses - one).min()
        assert bool(got.formula[i]) == (error <= max(0.001, 1e-6 * ppm * (one + ELECTRON)))
        if got.formula[i]:
            assert abs(got.error_ppm[i]) == pytest.approx(1e6 * error / one, rel=1e-3)


def test_annotation_finds_a_shift_of_calibration():
    parts = [(10, 11, 3), (9, 9, 3), (9, 11, 2), (8, 7, 2)]  # C, H and O of the ions
    mz = 1.000012 * np.array([ion_mass(1, C=c, H=h, O=o) for c, h, o in parts])
    found = annotate(mz, np.ones(4), "C10H12O4", "[M+H]+", 5.0)
    assert found.hydrogens.tolist() == [h - 1 for _, h, _ in parts]
    assert len(annotate(mz, np.ones(4), "C10H12O4", "[M+H]+", 5.0, calibrate=False).peak) == 0


def test_a_fragment_has_one_formula_in_both_polarities_and_with_a_metal():
    part = {"C": 6, "H": 6, "O": 1}  # phenol
    ions = {
        "[M+H]+": ion_mass(1, **part | {"H": 7}),
        "[M-H]-": ion_mass(-1, **part | {"H": 5}),
        "[M+Na]+": ion_mass(1, **part, Na=1),
    }
    found = [annotate([mz], np.ones(1), "C10H12O3", ion) for ion, mz in ions.items()]
    assert len({(int(one.code[0]), int(one.hydrogens[0])) for one in found}) == 1
    assert found[0].hydrogens.tolist() == [6]


@pytest.mark.parametrize("formula", ["C6*", "H2", "C300H400N50O80S10"])
def test_formulas_whose_parts_are_not_tried(formula):
    assert annotate([50.0], np.ones(1), formula, "[M+H]+") is None
    with pytest.raises(ValueError, match="not explained"):
        explain_peaks([50.0], [1.0], formula)


def test_fragments_explain_the_peaks_of_the_right_isomer():
    # phenyl acetate loses ketene, C2H2O; benzoic methyl ester loses methanol
    mz = np.array([ion_mass(1, C=6, H=7, O=1), ion_mass(1, C=8, H=9, O=2)])
    spectra = spectra_table([(mz, [100.0, 50.0], mz[1])], adduct="[M+H]+")
    two = Pool(["CC(=O)Oc1ccccc1", "COC(=O)c1ccccc1"])
    ions = Ions(spectra.spectra, spectra["adduct"])
    weights = np.zeros((2, 1 + 10 * len(CUTS), SHIFTS + 1))
    weights[:, 0, -1] = -1.0  # each broken bond
    query, index = np.zeros(2, int), np.arange(2)
    columns = fragment_columns(FragmentModel((), weights), ions, query, index, two)
    assert len(columns) == len(PEAKS)
    assert_allclose(columns[0], 1.0)  # both peaks have a formula
    assert columns[1, 0] > columns[1, 1] > 0.0


def test_a_fragment_is_as_probable_as_its_part_of_all_fragments():
    bonds = [bonds_of(one) for one in parse_smiles(["CCO", "CCN"])]
    pieces = Pieces.of(bonds, ())
    weights = np.random.default_rng(0).normal(size=(pieces.features.shape[1], SHIFTS + 1))
    odds, total = pieces.odds(weights)
    for i, one in enumerate(bonds):
        fragments = fragments_of(one)
        whole = np.flatnonzero(fragments.cuts == 0)
        broken = np.delete(broken_bonds(fragments.masks, one.ends).sum(axis=1), whole)
        assert len(broken) == (pieces.molecule == i).sum() == 2
        # one bond was cut, and two atoms of three are left: see Pieces.of
        place = 1 + 1 * 10 + 10 * 2 // 4
        per_bond, per_kind = (weights[j, :-1] + weights[j, -1] for j in (0, place))
        u = broken[:, None] * per_bond + per_kind
        assert_allclose(
            np.sort(odds[pieces.molecule == i], axis=None), np.sort(np.exp(u), axis=None)
        )
        assert total[i] == pytest.approx(np.exp(u).sum())
    # a peak of the first: C2H5 of ethanol, which ethylamine has, too, but nobody asks for
    carbons, shift = np.flatnonzero(pieces.code == 2 * CODES["C"] % 2**64), LOST
    peaks = FormulaPeaks(
        np.zeros(1, int),
        pieces.code[carbons],
        pieces.hydrogens[carbons],
        np.ones(1),
        np.ones(1, int),
    )
    model = FragmentModel((), np.stack([0.0 * weights, weights]))
    chance = odds[carbons[0], shift] / total[0]
    expected = [0.0, np.log1p(chance / FLOOR), 0.0]
    assert_allclose(model.scores(pieces, peaks, True, 3), expected)
    assert model.scores(pieces, peaks, False, 3)[1] == pytest.approx(np.log1p(1 / 16 / FLOOR))


def test_molecules_without_bonds_have_no_fragments():
    bonds = [bonds_of(one) for one in parse_smiles(["C", "CCO", "O"])]
    pieces = Pieces.of(bonds, ("CHH-|CHHH",))
    assert set(pieces.molecule.tolist()) == {1}
    assert len(Pieces.of(bonds[:1], ()).code) == 0
    code = pieces.code[[0, 0]] - np.uint64(APART)  # of the second molecule
    peaks = FormulaPeaks(np.array([0, 2]), code, np.array([5, 5]), np.ones(2), np.arange(2))
    weights = np.zeros((2, pieces.features.shape[1], SHIFTS + 1))
    assert_array_equal(FragmentModel((), weights).scores(pieces, peaks, False, 2), 0.0)


def test_learned_weights_are_where_the_slope_is_zero():
    smiles = ["CC(=O)Oc1ccccc1", "COC(=O)c1ccccc1", "CCOC(=O)CN", "CCCCNC(=O)C"]
    bonds = [bonds_of(one) for one in parse_smiles(smiles)]
    pieces = Pieces.of(bonds, bond_classes(bonds * 20))
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(pieces.code), 40)
    code = pieces.code[rows] - pieces.molecule[rows].astype(np.uint64) * np.uint64(APART)
    peaks = FormulaPeaks(
        pieces.molecule[rows], code, pieces.hydrogens[rows], np.full(40, 0.1), rows % 4
    )
    weights = learned_weights(pieces, peaks)

    def value(w):
        odds, total = pieces.odds(w)
        peak, piece, shift = pieces.explaining(peaks)
        chance = np.bincount(peak, odds[piece, shift], minlength=40) / total[peaks.molecule]
        spectra = len(np.unique(peaks.spectrum))
        return peaks.weight @ np.log(chance + FLOOR) / spectra - 0.5 * ALPHA * np.sum(w**2)

    best = value(weights)
    assert best > value(np.zeros_like(weights)) + 0.1
    for _ in range(20):
        assert value(weights + 0.05 * rng.normal(size=weights.shape)) < best


def test_formulas():
    assert element_counts("C8H10N4O2") == {"C": 8, "H": 10, "N": 4, "O": 2}
    assert element_counts("C5H14NO+") == {"C": 5, "H": 14, "N": 1, "O": 1}
    assert formula_mass("C8H10N4O2") == pytest.approx(194.08038, abs=1e-4)
    assert np.isnan(formula_mass("C8Xy"))
    with pytest.raises(ValueError, match="'Xy', whose mass is not known"):
        element_counts("C8Xy")


def test_explain_takes_a_spectrum_as_identify_does(model, asked, found):
    got = model.explain(asked[0], found[0].hits[0].smiles)
    assert len(got.formula) == len(asked[0]["mz"])
    assert 0.0 < got.share <= 1.0
    table = spectra_table(asked[:1])
    assert model.explain(table, found[0].hits[0].smiles).formula == got.formula
    with pytest.raises(ValueError, match=r"one spectrum\. Got 2"):
        model.explain(spectra_table(asked[:2]), CAFFEINE)
    with pytest.raises(ValueError, match="invalid"):
        model.explain(asked[0], "C1CC")


def test_explain_names_the_fragment_and_its_broken_bonds():
    mz = [60.0, ion_mass(1, C=6, H=7, O=1), ion_mass(1, C=8, H=9, O=2)]
    got = SpectrumIdentifier().explain((mz, [1.0, 100.0, 50.0], mz[2]), "CC(=O)Oc1ccccc1")
    none, phenol, whole = got.fragments
    assert phenol.smiles == "Oc1ccccc1"
    assert phenol.atoms == (3, 4, 5, 6, 7, 8, 9)
    assert phenol.broken == ((1, 3),)
    assert phenol.hydrogens == 1  # ketene leaves one
    assert phenol.cost == 358.0
    assert whole.broken == ()
    assert whole.atoms == tuple(range(10))
    assert none is None
    assert got.as_dict()["peaks"][1]["fragment"]["broken"] == ((1, 3),)


# Merging and priors ------------------------------------------------------------------------------


def test_merged_spectra_give_one_answer_by_the_mean_of_their_columns(model, asked, pool, found):
    alone = model.identify(asked[:3], pool, top=5, merge=["", "", ""])
    assert_same(alone, found[:3])
    twice = model.identify([asked[0], asked[1], asked[0]], pool, top=5, merge=["a", "", "a"])
    assert [one.query for one in twice] == ["a", found[1].query]
    assert_same(
        [replace(one, query=f.query) for one, f in zip(twice, found[:2], strict=True)], found[:2]
    )
    weak = {**asked[0], "mz": asked[0]["mz"][-2:], "intensity": asked[0]["intensity"][-2:]}
    (first,), (second,) = (model.identify([one], pool, top=10**6) for one in (asked[0], weak))
    (both,) = model.identify([weak, asked[0]], pool, top=10**6, merge=[7, 7])
    score = {hit.index: hit.score for hit in both.hits}
    for one in first.hits:
        other = next(hit for hit in second.hits if hit.index == one.index)
        assert score[one.index] == pytest.approx((one.score + other.score) / 2.0, abs=1e-6)
    lost = model.identify([{**asked[0], "adduct": ""}, asked[0]], pool, top=5, merge=["x", "x"])
    assert_same([replace(lost[0], query=found[0].query)], found[:1])  # the first is left out
    with pytest.raises(ValueError, match=r"a label for each of 3 spectra\. Got 1"):
        model.identify(asked[:3], pool, merge=["a"])


def test_the_weight_of_a_prior_is_found_again_and_never_below_zero():
    rng, tables, right = np.random.default_rng(0), [], []
    for _ in range(2000):
        S = rng.normal(size=(2, 8))
        tables.append(S)
        right.append(np.arange(8) == rng.choice(8, p=softmax(2.0 * S[0] + S[1])))
    held = held_of([S[:1] for S in tables], right, np.arange(2000) % 5)
    prior = np.concatenate([S[1] for S in tables])
    weights = weighed(held, np.zeros(1, dtype=int))
    both = with_prior(held, weights, prior, np.ones(len(prior), bool))
    assert both.coef == pytest.approx([2.0, 1.0], rel=0.1)
    assert_array_equal(with_prior(held, weights, -prior, np.ones(len(prior), bool)).coef[1], 0.0)
    none = with_prior(held, weights, prior, np.zeros(len(prior), bool))
    assert_array_equal(none.coef, [*weights.coef, 0.0])
    assert calibrated(held, both)[1]["calibration_error"] < 0.03
