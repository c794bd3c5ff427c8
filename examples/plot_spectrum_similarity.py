"""
How alike are two mass spectra?
===============================

A mass spectrometer breaks a molecule and weighs the pieces: the spectrum is a list of peaks, each a
mass and an intensity. When are two spectra alike? Caffeine and theophylline differ by one CH2,
which most of their pieces carry, so that few masses agree. What they *lose* is the same.
"""

# %%
# Ten molecules
# -------------
# Masses are those of the ions, in Da; intensities are rounded to what one typically sees. The last
# number is the precursor, the mass of the whole ion.

import matplotlib.pyplot as plt
import numpy as np

from skout.kernels import Normalized, PeakCosine, ProbabilityProduct

molecules = {
    "caffeine": ([69.0447, 83.0604, 110.0713, 138.0662, 195.0877], [6, 8, 25, 100, 45], 195.0877),
    "theophylline": ([69.0447, 96.0556, 124.0505, 181.0720], [10, 30, 100, 60], 181.0720),
    "theobromine": (
        [67.0291, 110.0713, 137.0822, 138.0662, 163.0614, 181.0720],
        [10, 40, 25, 80, 35, 100],
        181.0720,
    ),
    "cocaine": ([82.0651, 105.0335, 150.0913, 182.1176, 304.1543], [25, 15, 12, 100, 60], 304.1543),
    "cocaethylene": (
        [82.0651, 105.0335, 150.0913, 196.1332, 318.1700],
        [25, 15, 12, 100, 60],
        318.1700,
    ),
    "benzoylecgonine": (
        [82.0651, 105.0335, 150.0913, 168.1019, 272.1281, 290.1387],
        [12, 20, 10, 100, 8, 70],
        290.1387,
    ),
    "metoprolol": (
        [72.0808, 116.1070, 159.0804, 191.1067, 218.1539, 268.1907],
        [25, 100, 35, 80, 45, 60],
        268.1907,
    ),
    "atenolol": (
        [72.0808, 116.1070, 145.0648, 190.0863, 225.1234, 267.1703],
        [20, 40, 100, 70, 40, 60],
        267.1703,
    ),
    "diazepam": (
        [105.0335, 154.0418, 182.0367, 193.0886, 222.1151, 257.0840, 285.0789],
        [15, 60, 20, 60, 40, 70, 100],
        285.0789,
    ),
    "nordiazepam": (
        [91.0542, 140.0262, 165.0214, 208.0995, 243.0684, 271.0633],
        [20, 90, 40, 45, 60, 100],
        271.0633,
    ),
}
names = list(molecules)
families = np.array([0, 0, 0, 1, 1, 1, 2, 2, 3, 3])

# %%
# Each is measured five times. The instrument errs by 2 mDa, intensities vary, weak peaks go
# missing, and some peaks are noise.

rng = np.random.default_rng(0)


def measured(mz, intensity, precursor):
    intensity = np.array(intensity) * rng.lognormal(0.0, 0.4, len(mz))
    seen = intensity > rng.uniform(0.0, 20.0)
    mz = np.concatenate([np.array(mz)[seen], rng.uniform(50.0, precursor, 3)])
    mz = mz + 0.002 * rng.standard_normal(len(mz))
    intensity = np.concatenate([intensity[seen], rng.uniform(1.0, 8.0, 3)])
    order = np.argsort(mz)
    return mz[order], intensity[order], precursor


spectra = [measured(*molecules[name]) for name in names for _ in range(5)]
molecule = np.repeat(np.arange(len(names)), 5)
family = families[molecule]

# %%
# Three kernels
# -------------
# The probability product kernel makes each peak a Gaussian in mass and intensity and compares
# densities, of the fragments or of the losses; kernels on the same objects can be added.
# ``PeakCosine`` is the usual cosine score, made a kernel. Who is the most alike spectrum, first of
# all others, then of those of other molecules?

fragments = Normalized(ProbabilityProduct())
losses = Normalized(ProbabilityProduct(neutral_loss=True))
kernels = {
    "cosine": PeakCosine(),
    "fragments": fragments,
    "losses": losses,
    "fragments + losses": 0.5 * fragments + 0.5 * losses,
}
grams = {name: kernel(spectra) for name, kernel in kernels.items()}
same = molecule[:, None] == molecule
print("nearest is of the     same molecule    same family, of other molecules")
for name, K in grams.items():
    nearest = np.where(np.eye(len(K)), -1.0, K).argmax(axis=1)
    relative = np.where(same, -1.0, K).argmax(axis=1)
    hits = np.mean(molecule[nearest] == molecule), np.mean(family[relative] == family)
    print(f"{name:22s}{hits[0]:13.0%}{hits[1]:34.0%}")

# %%
# Pictures
# --------
# Above: caffeine and theophylline, mirrored. Of the fragments one agrees; of the losses most, among
# them the 57.02 Da of methyl isocyanate. Below: the Gram matrices, five spectra a molecule. Losses
# tie caffeine to theophylline, and the two diazepams to each other; fragments tie theobromine to
# the other two. All spectra have a loss of 0 in common: the ion that did not break.

fig = plt.figure(figsize=(11, 8), layout="constrained")
upper, lower = fig.subfigures(2, 1, height_ratios=[4, 5])


def mirror(ax, left, right, mass, tolerance=0.01):
    """Draw one spectrum up, the other down, and in color the masses that both have."""
    drawn = [(mass(*molecules[name][::2]), np.array(molecules[name][1])) for name in (left, right)]
    for (m, height), (other, _), sign in zip(drawn, drawn[::-1], (1, -1), strict=True):
        shared = np.abs(m[:, None] - other).min(axis=1) < tolerance
        ax.vlines(m, 0.0, sign * height, colors=np.where(shared, "C3", "0.5"), linewidth=2.5)
    ax.axhline(0.0, color="k", linewidth=0.8)
    ax.text(0.99, 0.96, left, transform=ax.transAxes, ha="right", va="top")
    ax.text(0.99, 0.04, right, transform=ax.transAxes, ha="right")
    ax.set(ylim=(-115, 115), yticks=[])


axes = upper.subplots(1, 2)
mirror(axes[0], "caffeine", "theophylline", lambda mz, precursor: np.array(mz))
axes[0].set(xlabel="m/z", title="fragments")
mirror(axes[1], "caffeine", "theophylline", lambda mz, precursor: precursor - np.array(mz))
axes[1].set(xlabel="precursor - m/z", title="losses")

axes = lower.subplots(1, 3)
for ax, name in zip(axes, ["cosine", "fragments", "losses"], strict=True):
    image = ax.imshow(grams[name], cmap="magma_r", vmin=0.0, vmax=1.0)
    edges = np.flatnonzero(np.diff(family)) + 0.5
    ax.hlines(edges, -0.5, len(spectra) - 0.5, color="0.6", linewidth=0.8)
    ax.vlines(edges, -0.5, len(spectra) - 0.5, color="0.6", linewidth=0.8)
    ax.set(title=name, xticks=[], yticks=[])
axes[0].set_yticks(np.arange(2, len(spectra), 5), names)
lower.colorbar(image, ax=axes, shrink=0.7, label="k(x, y)")
plt.show()
