"""
Complete the lower half of a digit
==================================

Cover the lower half of a handwritten digit. What is below? An arch at the top may belong to a 2, a
3, a 7 or a 9, and the mean of all four is a blur that nobody ever wrote. A structured predictor
answers with an image that somebody did write, and knows the second and third best.
"""

# %%
# Halves
# ------
# The digits of scikit-learn have 8 by 8 pixels: 32 above, 32 below. No class label is used for
# learning; we keep them only to check whether the completed digit is the right one.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import SVC

from skout import sisokr
from skout.kernels import Gaussian
from skout.metrics import kernel_similarity
from skout.sketches import SubSample
from skout.theory import choose_sketch_size, perfect_h_curve

images, digits = load_digits(return_X_y=True)
images = images / 16.0
train, test = train_test_split(np.arange(len(images)), random_state=0, stratify=digits)
upper, lower = images[:, :32], images[:, 32:]

# %%
# How many coordinates does a lower half need?
# --------------------------------------------
# Lower halves become coordinates by comparison with a few of them, the sketch. Two answers before
# any model is trained: ``choose_sketch_size`` counts how many images reconstruct the others up to a
# tolerance, and ``perfect_h_curve`` decodes the coordinates of lower halves that were left out, as
# if a regression had predicted them without error.

kernel = Gaussian()
size = choose_sketch_size(kernel, lower[train], tolerance=0.1, random_state=0)
sizes = [5, 10, 20, 40, 80, 160, 320]
curve = perfect_h_curve(kernel, lower[train], sizes, random_state=0)
print(f"{int(size)} well chosen images leave a tenth unexplained")
print(f"{curve.best_size()} random ones lose at most a hundredth of the similarity in decoding")

# %%
# Learning, and a check of the choice
# -----------------------------------
# The width of the input kernel is chosen by grid search, the penalty by the model itself.

model = sisokr(
    Gaussian(),
    kernel,
    input_sketch=SubSample(400),
    output_sketch=SubSample(curve.best_size()),
    alpha=np.logspace(-6, -2, 5),
    random_state=0,
)
grid = {"regressor__kernel__gamma": [0.1, 0.2, 0.4]}
model = GridSearchCV(model, grid, cv=3).fit(upper[train], lower[train]).best_estimator_
reached = []
for m in sizes:
    other = clone(model).set_params(output_basis__sketch__size=m).fit(upper[train], lower[train])
    reached.append(other.score(upper[test], lower[test]))

# %%
# Three ways to complete
# ----------------------
# Ours, with the training images as candidates; a copy of the lower half of the digit whose upper
# half is nearest; and a regression of the pixels. A classifier of whole digits reads the results.
# The mean of many halves is near to all of them, which similarity rewards, but it is gray.

found, _ = model.rank(upper[test], lower[train], k=3)
near = NearestNeighbors().fit(upper[train]).kneighbors(upper[test], 1, return_distance=False)
pixels = clone(model.regressor).fit(upper[train], lower[train])
halves = {
    "sisokr": lower[train][found[:, 0]],
    "nearest upper half": lower[train][near[:, 0]],
    "regression of pixels": pixels.predict(upper[test]),
}
reader = SVC(gamma=0.1, C=10.0).fit(images[train], digits[train])
for name, half in halves.items():
    similar = kernel_similarity(model.output_basis_.kernel_, lower[test], half)
    read = reader.score(np.hstack([upper[test], half]), digits[test])
    print(f"{name:22s} similarity {similar:.3f}, read rightly {read:.1%},", end=" ")
    print(f"contrast {half.std() / lower[test].std():.0%} of the truth's")

# %%
# Pictures
# --------
# Ten digits of the test set, the truth first; the last row is the regression of pixels, a blur.
# Right: the perfect surrogate says where more coordinates stop to pay, and the model agrees.

shown = [np.flatnonzero(digits[test] == digit)[0] for digit in range(10)]
rows = {"truth": lower[test]}
rows |= {name: lower[train][found[:, j]] for j, name in enumerate(("best", "second", "third"))}
rows["regression"] = halves["regression of pixels"]
fig = plt.figure(figsize=(12, 4.5), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[2, 1])
axes = left.subplots(len(rows), len(shown))
for line, (name, half) in zip(axes, rows.items(), strict=True):
    for ax, i in zip(line, shown, strict=True):
        ax.imshow(np.hstack([upper[test][i], half[i]]).reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.axhline(3.5, color="tab:orange", linewidth=1)
        ax.set(xticks=[], yticks=[])
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
ax = curve.plot(right.subplots())
ax.plot(sizes, reached, "s-", label="sisokr, test digits")
ax.axvline(int(size), color="0.6", linestyle=":", label="tolerance of a tenth")
ax.set(xscale="log", ylabel="similarity")
ax.lines[0].set_label("perfect regression")
ax.legend(frameon=False)
plt.show()
