"""
Name a chord, with any regressor of scikit-learn
================================================

A chord is a set of notes. We hear a spectrum, in which each note brings its overtones, and want the
name of the chord. The output kernel turns chords into coordinates; from spectra to coordinates is a
plain regression with many outputs, for which scikit-learn has forests, neighbors, networks and
more. ``StructuredPredictor`` takes any of them.
"""

# %%
# Chords and their sound
# ----------------------
# Seven shapes on twelve roots are 84 chords. A note sounds in one or two of three octaves, louder
# or softer, with its overtones; the microphone adds noise. Sixty of the chords are heard in
# training, the others never.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor

from skout import KernelBasis, KernelRidge, StructuredPredictor
from skout.metrics import hits_at_k

roots = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"]
shapes = {
    "": "047",
    "m": "037",
    "7": "047A",
    "m7": "037A",
    "maj7": "047B",
    "dim": "036",
    "sus4": "057",
}
names = np.array([root + shape for shape in shapes for root in roots])
chords = np.zeros((84, 12), dtype=int)
for i, steps in enumerate(np.repeat(list(shapes.values()), 12)):
    chords[i, [(i + int(step, 16)) % 12 for step in steps]] = 1
rng = np.random.default_rng(0)


def play(chords):
    """Return spectra over 60 half-tones, with square roots as loudness."""
    spectra = 0.1 * rng.exponential(size=(len(chords), 60))
    for spectrum, chord in zip(spectra, chords, strict=True):
        for note in np.flatnonzero(chord):
            for octave in rng.choice(3, rng.integers(1, 3), replace=False):
                loud = rng.uniform(0.4, 1.0) * rng.uniform(0.5, 1.5, 5)
                pitch = note + 12 * octave + np.array([0, 12, 19, 24, 28])
                heard = pitch < 60
                spectrum[pitch[heard]] += (loud * [1.0, 0.6, 0.4, 0.3, 0.2])[heard]
    return np.sqrt(spectra)


known = rng.permutation(84)[:60]
heard = rng.choice(known, 1500)
X, Y = play(chords[heard]), chords[heard]
asked = rng.integers(84, size=1000)
X_new, Y_new, is_known = play(chords[asked]), chords[asked], np.isin(asked, known)

# %%
# Six regressors, one output basis
# --------------------------------
# Two chords are alike by the notes that they share: the Tanimoto kernel. Candidates are all 84
# chords, so that a chord can be named that was never heard.

basis = KernelBasis("tanimoto")
regressors = {
    "linear ridge": Ridge(),
    "kernel ridge": KernelRidge("gaussian", alpha=1e-4),
    "network": MLPRegressor(hidden_layer_sizes=(200,), early_stopping=True, random_state=0),
    "extra trees": ExtraTreesRegressor(60, max_features=0.3, random_state=0),
    "random forest": RandomForestRegressor(60, max_features=0.3, random_state=0),
    "8 neighbors": KNeighborsRegressor(8, weights="distance"),
}
print(f"{'':15s}  score  hits@3  right if heard before, if not")
models, right = {}, {}
for name, regressor in regressors.items():
    models[name] = model = StructuredPredictor(regressor, basis).fit(X, Y)
    ranks = model.truth_ranks(X_new, Y_new, chords)
    right[name] = hits_at_k(ranks[is_known], 1), hits_at_k(ranks[~is_known], 1)
    print(f"{name:15s} {model.score(X_new, Y_new, chords):6.3f}", end=" ")
    print(f"{hits_at_k(ranks, 3):7.1%} {right[name][0]:10.1%} {right[name][1]:15.1%}")

# %%
# All six name most chords that they have heard. A chord never heard lies partly outside the span of
# the others, and the decoder counts that part as distance, whatever the regressor. A linear map,
# which adds up notes, still gets there most often; trees and neighbors, which answer with means of
# what they heard, seldom do. To try another regressor is one line.

# %%
# A song
# ------
# What each model hears in twelve chords: names in red are wrong, and a star marks a chord that was
# not in the training data.

song = ["C", "Am", "F", "G7", "Em7", "A7", "Dm7", "G", "Cmaj7", "Bdim", "E7", "Am"]
played = np.array([list(names).index(name) for name in song])
sound = play(chords[played])
fig, axes = plt.subplots(
    2, 2, figsize=(12, 6), layout="constrained", width_ratios=[3, 1], height_ratios=[2, 1]
)
ax = axes[0, 0]
ax.imshow(sound.T, origin="lower", cmap="magma", aspect="auto")
ax.set_yticks(range(0, 60, 12), [f"C{octave}" for octave in range(2, 7)])
starred = [name if i in known else f"{name}*" for name, i in zip(song, played, strict=True)]
ax.set_xticks(range(12), starred, fontweight="bold")

ax = axes[1, 0]
ax.set(xlim=(-0.5, 11.5), ylim=(len(models) - 0.5, -0.5), xticks=[], frame_on=False)
ax.set_yticks(range(len(models)), list(models))
for line, model in enumerate(models.values()):
    best = model.rank(sound, chords, k=1)[0][:, 0]
    for i, color in enumerate(np.where(best == played, "black", "tab:red")):
        ax.text(i, line, names[best[i]], color=color, ha="center", va="center")

axes[0, 1].axis("off")
ax, place = axes[1, 1], np.arange(len(right))
ax.barh(place - 0.2, [before for before, _ in right.values()], 0.4, label="heard before")
ax.barh(place + 0.2, [never for _, never in right.values()], 0.4, label="never heard")
ax.set(ylim=(len(models) - 0.5, -0.5), yticks=[], xlabel="share named rightly", xlim=(0, 1))
fig.legend(*ax.get_legend_handles_labels(), loc="upper right", bbox_to_anchor=(0.97, 0.5))
plt.show()
