"""
From a spectrum to molecules
============================

A mass spectrometer has broken an unknown molecule and weighed the pieces. Its formula is known, the
molecule is not. This page goes all the way: spectra of MassBank, kernels that compare them, both
ways between spectra and molecules, a re-ranking of the candidates of the right formula, and for
each spectrum a small set that holds the truth nine times in ten. The last part is about your own
spectra.

It needs ``pip install skout[chem,disk,plot]``. The spectra come with skout: 2,298 records of
`MassBank <https://massbank.eu>`_ (Horai and others, 2010) under CC BY 4.0 and CC0, one a molecule;
``data.extra`` names the contributor of each. ``load("massbank")`` loads
44,054 of them from files of yours.
"""

# %%
# Spectra of known molecules
# --------------------------
# A spectrum is a list of peaks, each a mass and an intensity, with the mass of the unbroken ion,
# the precursor. The sample has one spectrum for each molecule: rows are molecules, no molecule is
# on both sides of the split, and "nine in ten" below is a promise about a *new molecule*. The first
# 14 letters of an InChIKey, its skeleton, tell molecules apart; mirror images count as one, and no
# spectrum could tell them. One molecule, phenylalanine, is kept back for the end of the page.

import io
import textwrap

import matplotlib.pyplot as plt
import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

from skout import CandidateSets, ConformalSets, Reranker, TwoWay, sisokr
from skout.datasets import load
from skout.kernels import GaussianTanimoto, Normalized, PeakCosine, ProbabilityProduct, align
from skout.molecules import fingerprints
from skout.sketches import SubSample

data = load("massbank-sample")
skeleton = np.array([key[:14] for key in data.extra["inchikey"]])
rng = np.random.default_rng(0)
rows = rng.permutation(np.flatnonzero(skeleton != "COLNVLDHVKWLRT"))

n = len(rows)
train, learn, held, test = np.split(rows, [6 * n // 10, 7 * n // 10, 8 * n // 10])
print(f"{n} spectra of as many molecules, {len(train)} to train")

# %%
# Molecules are compared by fingerprints, bits that say which small parts a molecule has. A
# candidate is any known molecule of the same formula. Of those that share a fingerprint one stays,
# and where one candidate is left there is nothing to find.


def candidates_of(some):
    """Return the spectra with several candidates, and these as SMILES and as fingerprints."""
    sets = CandidateSets.from_lists([list(data.candidates[i]) for i in some])
    bits = fingerprints(sets.pool)
    _, look = np.unique(bits.words, axis=0, return_inverse=True)
    places = [sets.positions(i) for i in range(len(sets))]
    places = [own[np.unique(look[own], return_index=True)[1]] for own in places]
    several = [i for i, own in enumerate(places) if len(own) > 1]
    indices = np.concatenate([places[i] for i in several])
    indptr = np.cumsum([0, *(len(places[i]) for i in several)])
    return some[several], *(CandidateSets(pool, indptr, indices) for pool in (sets.pool, bits))


learn, _, learn_sets = candidates_of(learn)
held, _, held_sets = candidates_of(held)
test, smiles, test_sets = candidates_of(test)
X, Y = data.X[train], fingerprints(data.Y[train])
X_learn, Y_learn = data.X[learn], fingerprints(data.Y[learn])
X_held, Y_held = data.X[held], fingerprints(data.Y[held])
X_test, Y_test = data.X[test], fingerprints(data.Y[test])
sizes = test_sets.sizes
print(f"{len(learn)} to learn re-ranking, {len(held)} to calibrate, {len(test)} to test")
print(f"candidates of a test spectrum: median {np.median(sizes):.0f}, most {sizes.max()}")

# %%
# When are two spectra alike?
# ---------------------------
# When pieces weigh the same (``ProbabilityProduct``), when what was *lost* weighs the same
# (``neutral_loss``), or when their strong peaks agree (``PeakCosine``). Which of them should count,
# and how much? ``align`` (ALIGNF) gives weights such that spectra are alike when their molecules
# are; it uses training data only. Kernels that add nothing get no weight: here, the coarse one.

likeness = GaussianTanimoto(0.5)
fragments = Normalized(ProbabilityProduct())
losses = Normalized(ProbabilityProduct(neutral_loss=True))
cosine = PeakCosine()
wide = Normalized(ProbabilityProduct(sigma_mass=0.02))  # a coarser instrument
parts = [fragments, losses, cosine, wide]
combined = align(parts, X, Y, output_kernel=likeness, random_state=0)
print(combined)

# %%
# A model maps spectra to the space of the output kernel; ``rank`` and ``truth_ranks`` then order
# the candidates. Sketches keep it small. Alpha comes from cross-validation in three folds.


def fit(kernel):
    sketches = {"input_sketch": SubSample(800), "output_sketch": SubSample(600)}
    alphas = [1e-5, 1e-4, 1e-3]
    return sisokr(kernel, likeness, alpha=alphas, cv=3, random_state=0, **sketches).fit(X, Y)


kernels = {"fragments": fragments, "losses": losses, "cosine": cosine, "combined": combined}
models = {name: fit(kernel) for name, kernel in kernels.items()}


def show(name, ranks):
    print(f"{name:20s}" + "".join(f"{np.mean(ranks <= k):7.0%}" for k in (1, 5, 10)))


print("truth among the first    1      5     10")
for name, model in models.items():
    show(name, model.truth_ranks(X_test, Y_test, test_sets))
guess = [np.mean(np.minimum(1, k / sizes)) for k in (1, 5, 10)]
print(f"{'a guess':20s}" + "".join(f"{share:7.0%}" for share in guess))

# %%
# Both ways, and re-ranking
# --------------------------
# So far a spectrum asked for a molecule. One may also ask each candidate: would it have made this
# spectrum? ``TwoWay`` learns that map too, from molecules to spectra, and adds both scores. How
# much each should count is learned by ``Reranker`` on molecules that the models have not seen: a
# softmax over the candidates of each spectrum. It says which features count, and takes columns of
# yours: what else you know of a molecule, or of how long it took to come out of the column.

back = models["combined"]
back = back.set_params(regressor__alpha=back.regressor_.alpha_)
both = TwoWay(back, weight=1.0).fit(X, Y)
reranker = Reranker(both, cv="prefit", random_state=0).fit(X_learn, Y_learn, candidates=learn_sets)
show("both ways", both.truth_ranks(X_test, Y_test, test_sets))
show("re-ranked", reranker.truth_ranks(X_test, Y_test, test_sets))
count = dict(zip(reranker.feature_names_, reranker.importances_, strict=True))
for name in sorted(count, key=count.get, reverse=True)[:3]:
    print(f"{name:20s}{count[name]:7.2f}")

# %%
# Spectra beside candidates
# -------------------------
# Three test spectra and their first candidates, the truth in a green frame. One is found, one comes
# second, one is far down the list, and its place is shown.

model = reranker
pool = model.embed(test_sets)  # encoded once, for all calls below
ranks = model.truth_ranks(X_test, Y_test, pool)
first, _ = model.rank(X_test, pool, k=3)


def picture(text):
    """Return the drawing of a molecule."""
    canvas = rdMolDraw2D.MolDraw2DCairo(400, 300)
    canvas.drawOptions().bondLineWidth = 3
    canvas.drawOptions().minFontSize = 22
    rdMolDraw2D.PrepareAndDrawMolecule(canvas, Chem.MolFromSmiles(text))
    canvas.FinishDrawing()
    return plt.imread(io.BytesIO(canvas.GetDrawingText()), format="png")


def draw_molecule(ax, text, title, frame):
    ax.imshow(picture(text))
    ax.set(title=title, xticks=[], yticks=[])
    ax.spines[:].set(color=frame, linewidth=2.5)


def draw_spectrum(ax, mz, intensity, title):
    ax.vlines(mz, 0.0, 100.0 * intensity / intensity.max(), color="C0", linewidth=1.5)
    ax.axhline(0.0, color="k", linewidth=0.8)
    ax.set(title=title, xlabel="m/z", yticks=[], ylim=(0, 105))
    ax.spines[["left", "top", "right"]].set_visible(False)


def flat(text):
    """Return a SMILES as the candidates have it, without stereo."""
    return Chem.MolToSmiles(Chem.MolFromSmiles(text), isomericSmiles=False)


peaks = data.X.lengths[test]
rich = (sizes >= 8) & (peaks >= 8)  # something to see, and something to choose from
shown = [np.flatnonzero(rich & wanted)[0] for wanted in (ranks == 1, ranks == 2, ranks > 5)]
fig, axes = plt.subplots(3, 4, figsize=(7.5, 6), layout="constrained", width_ratios=[1.3, 1, 1, 1])
for q, row in zip(shown, axes, strict=True):
    spectrum, truth = X_test[q : q + 1], flat(data.Y[test[q]])
    name = textwrap.shorten(data.extra["name"][test[q]], 22, placeholder=" ...")
    draw_spectrum(row[0], spectrum.mz, spectrum.intensity, name)
    drawn = {place: smiles[q][j] for place, j in enumerate(first[q], start=1)}
    if ranks[q] > 3:
        del drawn[3]
    for place, candidate in (drawn | {round(ranks[q]): truth}).items():
        hit = place == ranks[q]
        title = f"{place} of {sizes[q]}" + (", the truth" if hit else "")
        draw_molecule(row[min(place, 3)], candidate, title, "tab:green" if hit else "0.85")
plt.show()

# %%
# A list with a promise
# ---------------------
# How many candidates should one look at? ``ConformalSets`` measures on the held-out molecules by
# how much the truth falls short of the best candidate. Sets made with that gap hold the truth with
# the probability asked for, whatever the model is worth; a better model has smaller sets.

sets = ConformalSets(model).calibrate(X_held, Y_held, held_sets)  # score="auto" with more rows
levels = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
results = [sets.evaluate(X_test, Y_test, pool, level) for level in levels]
print("wanted  covered  median size  sets of one")
for level, result in zip(levels, results, strict=True):
    print(
        f"{level:6.0%}{result['coverage']:9.1%}{result['median_size']:13.0f}"
        f"{result['share_of_one']:13.0%}"
    )

# %%
# On the left, coverage of new molecules against what was asked for. Calibration and test are draws
# of molecules, and the band is what such draws vary by, two standard deviations. On the right, for
# each test spectrum, how many candidates there were and how many are left at 90 %: on the diagonal
# nothing is ruled out, at the bottom one molecule is left.

kept = sets.predict(X_test, pool, coverage=0.9).sizes
fig, (left, right) = plt.subplots(1, 2, figsize=(7.5, 3.6), layout="constrained")
grid = np.linspace(0.45, 1.0, 100)
spread = np.sqrt(grid * (1 - grid) * (1 / len(held) + 1 / len(test)))
left.fill_between(grid, grid - 2 * spread, grid + 2 * spread, color="0.9")
left.plot(grid, grid, color="0.7")
left.plot(levels, [result["coverage"] for result in results], "o")
left.set(xlabel="wanted", ylabel="covered")
jitter = np.exp(rng.uniform(-0.1, 0.1, (2, len(kept))))
right.loglog(sizes * jitter[0], kept * jitter[1], ".", alpha=0.4)
right.plot([1, sizes.max()], [1, sizes.max()], color="0.7", zorder=0)
right.set(xlabel="candidates", ylabel="left at 90 %")
plt.show()

# %%
# Your own spectra
# ----------------
# skout takes a list of spectra, each ``(mz, intensity, precursor)`` with masses that increase, a
# dict with ``"mz"``, ``"intensity"`` and ``"precursor_mz"``, or a spectrum of matchms. A file in
# the format MGF is read in a few lines; for other formats, ``matchms.importing`` has readers whose
# spectra go in as they are. The peaks below are made up, of the fragments that such a molecule has.

mgf = """
BEGIN IONS
TITLE=unknown of formula C9H11NO2
PEPMASS=166.0863
CHARGE=1+
77.0386 15
79.0542 60
91.0542 20
93.0699 30
103.0542 180
120.0808 999
131.0491 40
149.0597 10
166.0863 120
END IONS
"""


def read_mgf(text):
    """Return the spectra of an MGF file."""
    spectra = []
    for line in text.splitlines():
        if line.startswith("BEGIN IONS"):
            peaks, precursor = [], None
        elif line.startswith("PEPMASS="):
            precursor = float(line[8:].split()[0])
        elif line[:1].isdigit():
            peaks.append([float(number) for number in line.split()[:2]])
        elif line.startswith("END IONS"):
            mz, intensity = np.array(sorted(peaks)).T
            spectra.append((mz, intensity, precursor))
    return spectra


# %%
# Candidates are SMILES of its formula, from a database of yours; here, what comes with MassBank.
# Write each molecule in one way, lest it be there twice, make fingerprints, ask for a set. The
# truth, in green again, is phenylalanine, of which the model has seen no spectrum; in blue is what
# else is in the set. For several spectra, give a list of such candidates.
#
# The example was picked because it works. How often that is so, the table above says.
#
# Two cautions. The promise is about spectra *like those of the calibration*: with another
# instrument, or candidates from a larger database, call ``calibrate`` with some hundred spectra and
# candidate lists of your own. And a molecule that no database has is in no set.

unknown = read_mgf(mgf)
known = data.candidates[np.flatnonzero(data.extra["formula"] == "C9H11NO2")[0]]
database = sorted({flat(text) for text in known})
bits = fingerprints(database)
chosen = sets.predict(unknown, [bits], coverage=0.9).positions(0)
place, scores = model.rank(unknown, [bits], k=3)
print(f"{len(database)} candidates, {len(chosen)} in the set; the first are")
for j, score in zip(place[0], scores[0], strict=True):
    print(f"{score:6.3f}  {database[j]}")

truth = flat("N[C@@H](Cc1ccccc1)C(=O)O")
fig, axes = plt.subplots(
    1, 4, figsize=(7.5, 2.1), layout="constrained", width_ratios=[1.3, 1, 1, 1]
)
draw_spectrum(axes[0], *unknown[0][:2], "unknown")
for i, (j, ax) in enumerate(zip(place[0], axes[1:], strict=True)):
    frame = "tab:green" if database[j] == truth else "tab:blue" if j in chosen else "0.85"
    draw_molecule(ax, database[j], f"{i + 1} of {len(database)}", frame)
plt.show()
