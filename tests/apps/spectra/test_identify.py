"""SpectrumIdentifier on the sample of MassBank: what it finds, how sure it is, what it refuses."""

import itertools
from copy import copy
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
from skout.apps.spectra.identify.calibration import (
    Confidence,
    Cuts,
    calibration_error,
    surprise,
    truth_rank,
)
from skout.apps.spectra.identify.design import few_a_group
from skout.apps.spectra.identify.inputs import read_library
from skout.apps.spectra.identify.last_word import features_of, learnt, ways_of
from skout.apps.spectra.identify.peaks import explain_peaks
from skout.apps.spectra.identify.queries import batches, read_queries
from skout.apps.spectra.identify.search import Pairs, pair_scores, ranked
from skout.apps.spectra.identify.validation import _summary
from skout.apps.spectra.readers.formulas import ELECTRON, MASSES, element_counts, formula_mass
from skout.datasets import load
from skout.kernels import Tanimoto
from skout.molecules import fingerprints
from skout.predictors.thresholds import cut
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


def test_hits_are_the_best_of_the_candidates_by_the_scores_of_the_model(model, asked, pool, found):
    for query, one in list(zip(asked, found, strict=True))[:10]:
        mass = query["precursor_mz"] - MASSES["H"] + ELECTRON
        own = pool.by_mass(mass)
        X = spectra_table([query]).spectra
        k = min(5, len(own))
        index, scores = model.predictor_.rank(X, [pool._bits[own]], k=k)
        assert one.n_candidates == len(own)
        assert_allclose([hit.score for hit in one.hits], scores[0], atol=1e-8)
        assert {hit.index for hit in one.hits if hit.score > scores[0, -1] + 1e-6} <= set(
            own[index[0]]
        )
        assert [hit.rank for hit in one.hits] == list(range(1, k + 1))


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
        ({"adduct": "[M+H]"}, "has no charge"),
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


def test_what_identify_refuses(model, asked, pool):
    with pytest.raises(TypeError, match="pool must be a MoleculePool"):
        model.identify(asked, ["CCO"])
    with pytest.raises(ValueError, match="The adduct 'M\\+H' cannot be read"):
        model.identify(asked, pool, adduct="M+H")
    other = Pool(["CCO"])
    other.fingerprint_settings = {"kind": "morgan", "n_bits": 1024, "radius": 2}
    with pytest.raises(ValueError, match=r"1024.*the model was fitted on.*512"):
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
    assert report["n_molecules"] == round(N_LIBRARY * report["in_reach"])
    assert 0.0 < report["top_1"] <= report["mrr_25"] <= report["top_10"] <= 1.0
    assert report["candidates_from"] == "pool"
    n = report["n_molecules"]
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
    cuts = Cuts.fitted(model.sizes_, model.surprises_, 0.9)
    own = cuts.surprise[np.searchsorted(cuts.edges, model.sizes_)]
    assert len(cuts.edges)  # few candidates and many have their own
    for size in np.unique(np.searchsorted(cuts.edges, model.sizes_)):
        some = np.searchsorted(cuts.edges, model.sizes_) == size
        assert np.mean(model.surprises_[some] <= own[some]) >= 0.9
    assert cut(np.zeros(8), 0.9) == np.inf  # which nine would do for
    assert cut(np.zeros(9), 0.9) == 0.0


def test_sets_of_new_molecules_hold_the_truth():
    # truths that are drawn: coverage over many draws of calibration and test
    rng, held = np.random.default_rng(0), []
    for _ in range(300):
        gaps = rng.exponential(size=51)
        held.append(gaps[50] <= cut(np.sort(gaps[:50]), 0.8))
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


# A last word -------------------------------------------------------------------------------------


def ways_that_need_a_sum(n=300, seed=0):
    """Return scores of candidates: the truth has the largest sum of those that are not first."""
    rng = np.random.default_rng(seed)
    tables, right = [], []
    for _ in range(n):
        S = rng.normal(size=(3, rng.integers(2, 30)))
        truth = np.zeros(S.shape[1], dtype=bool)
        truth[rng.choice(S.shape[1], p=softmax(4.0 * (S[1] + 2.0 * S[2])))] = True
        tables.append(S)
        right.append(truth)
    return tables, right, np.arange(n) % 5


def test_a_last_word_learns_which_scores_count():
    tables, right, folds = ways_that_need_a_sum()
    coef, said = learnt(tables, right, folds)
    indptr = np.cumsum([0, *(S.shape[1] for S in tables)])
    features = features_of(np.concatenate(tables, axis=1), indptr)
    assert features.shape == (indptr[-1], 6)
    by_sum = np.mean([truth_rank(S[1] + 2 * S[2], t) for S, t in zip(tables, right, strict=True)])
    after = np.mean([truth_rank(s, t) for s, t in zip(said, right, strict=True)])
    before = np.mean([truth_rank(S[0], t) for S, t in zip(tables, right, strict=True)])
    assert after < by_sum + 0.1 < before
    # held out: scores of a fold are not those of the coefficients of all
    assert_allclose(said[0], features[: indptr[1]] @ coef, rtol=0.3, atol=0.3)
    assert not np.allclose(said[0], features[: indptr[1]] @ coef, rtol=1e-6)


def test_it_says_nothing_where_the_scores_know_all():
    rng, right = np.random.default_rng(1), []
    tables = [rng.normal(size=(2, 10)) for _ in range(200)]
    for S in tables:
        right.append(np.arange(10) == rng.choice(10, p=softmax(2.0 * S[0])))
    coef, _ = learnt(tables, right, np.arange(200) % 4)
    assert coef[0] > 0.0
    assert_array_equal(coef[1:], 0.0)


def test_hits_with_a_last_word_are_in_its_order(model, asked, pool, tmp_path):
    word = copy(model)
    ways = ways_of(model.predictor_.weight_, model.predictor_.normalisation_)
    word.last_word_ = np.zeros(2 + 2 * len(ways))
    word.last_word_[1] = -1.0  # of the first way, upside down
    skout.save(word, tmp_path / "word.skout")
    got = skout.load(tmp_path / "word.skout").identify(asked[:5], pool, top=5)
    basis = model.predictor_.output_basis_
    for query, one in zip(asked, got, strict=False):
        X = spectra_table([query]).spectra
        own = pool.by_mass(one.mass)
        embedded = model.predictor_.decoder_.embed([pool._bits[own]])
        given = model.predictor_.predict_coordinates(X), embedded.embedding
        scores = basis.scores_by_direction(*given, embedded.objects.indptr, embedded.members)
        expected = np.sort(-next(iter(scores.values())))[::-1][:5]
        assert_allclose([hit.score for hit in one.hits], expected, atol=1e-8)


def test_the_last_word_is_taken_where_it_pays():
    rng, folds, right = np.random.default_rng(0), np.arange(300) % 5, []
    scores = [rng.normal(size=(3, 12)) for _ in folds]
    for S in scores:  # no weight of two ways has all three
        right.append(np.arange(12) == rng.choice(12, p=softmax(4.0 * (S[0] + 1.5 * S[1] + S[2]))))
    judged = _summary(scores, right, folds)
    assert judged.report["last_word"]
    assert judged.report["last_word_gain"] > 0.05
    assert len(judged.word) == 8
    alone = _summary([S * np.array([[1.0], [0.0], [0.0]]) for S in scores], right, folds)
    assert alone.word is None
    assert not alone.report["last_word"]


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
    assert library.spectra.precursor[0] == pytest.approx(195.0877, abs=1e-4)
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
    class Peaks:
        mz, intensities = np.array([50.0]), np.array([1.0])

    class Spectrum:
        peaks = Peaks()
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

    scores = pair_scores(pairs, lambda i: i.astype(float), score)
    for i, own in enumerate(found):
        if len(own):
            assert_array_equal(scores[0, pairs.own(i)], 1e5 * i + own)
            assert_array_equal(scores[1, pairs.own(i)], own)
    assert sum(calls) == len(np.unique(pairs.indices))


def test_batches_bound_the_pairs_and_lose_nobody(monkeypatch, asked, pool):
    from skout.apps.spectra.identify import queries as module

    monkeypatch.setattr(module, "_MOST_PAIRS", 20)
    queries = read_queries(asked, None, "mass")
    parts = list(batches(queries, pool, 10.0, "mass"))
    assert len(parts) > 1
    assert sorted(np.concatenate([rows for rows, _ in parts])) == sorted(queries.order)
    for rows, pairs in parts:
        assert len(pairs) == len(rows)
        assert len(rows) == 1 or len(pairs.indices) <= 20
        for i, row in enumerate(rows):
            assert_array_equal(pairs.indices[pairs.own(i)], pool.by_mass(queries.masses[row]))


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
