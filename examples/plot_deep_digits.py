"""
Complete digits with a network (DSOKR)
======================================

From the upper half of a handwritten digit to its lower half, by a network that predicts
coordinates of the output kernel (DSOKR). Some training outputs are wrong on purpose: a tenth of
the lower halves belongs to other digits. The network is trained with the squared loss and with
the Huber loss of the distance in the output space, and three draws of the output sketch make an
ensemble.
"""

import functools

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skout import Ensemble, dsokr, sisokr
from skout.deep import MLP, Training
from skout.kernels import Gaussian
from skout.losses import Huber
from skout.metrics import mean_reciprocal_rank
from skout.sketches import SubSample

torch.set_num_threads(1)  # a small network is slower in several threads

images = load_digits().data / 16
X, X_test, Y, Y_test = train_test_split(
    images[:, :32], images[:, 32:], test_size=450, random_state=0
)
rng = np.random.default_rng(0)
wrong = rng.permutation(len(Y))[: len(Y) // 10]
Y = Y.copy()
Y[wrong] = Y[rng.permutation(wrong)]

# %%
# The network's output layer is sized by the output basis; nothing else is new.

kernel = Gaussian(0.15)
network = functools.partial(MLP, hidden=(256,), dropout=0.2)
training = Training(max_epochs=40, batch_size=64, lr=3e-3, weight_decay=0.01)


def deep(loss):
    return dsokr(
        network, kernel, output_sketch=SubSample(300), loss=loss, training=training,
        device="cpu", random_state=0,
    )  # fmt: skip


models = {
    "SISOKR": sisokr(
        Gaussian(0.05), kernel, input_sketch=SubSample(600), output_sketch=SubSample(300),
        alpha=1e-4, random_state=0,
    ),
    "DSOKR, squared loss": deep("squared"),
    "DSOKR, Huber loss": deep(Huber(0.3)),
    "3 x DSOKR, Huber loss": Ensemble(deep(Huber(0.3)), n_members=3, random_state=0),
}  # fmt: skip

# %%
# How far up is the true lower half, among all of the test part?

for name, model in models.items():
    model.fit(X, Y)
    ranks = model.truth_ranks(X_test, Y_test, candidates=Y_test)
    print(f"{name:22s} MRR of the truth among the {len(Y_test)} test halves:", end=" ")
    print(f"{mean_reciprocal_rank(ranks):.3f}")

# %%
# Lower halves of the training part, chosen for upper halves it has not seen.

shown = rng.permutation(len(X_test))[:12]
rows = {"truth": Y_test[shown]}
rows |= {name: model.predict(X_test[shown]) for name, model in models.items()}
fig, axes = plt.subplots(len(rows), len(shown), figsize=(9, 4.6))
for (name, lower), line in zip(rows.items(), axes, strict=True):
    for upper, half, ax in zip(X_test[shown], lower, line, strict=True):
        ax.imshow(np.concatenate([upper, half]).reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.axhline(3.5, color="tab:red", lw=0.8)
        ax.set(xticks=[], yticks=[])
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
fig.subplots_adjust(left=0.22, right=0.99, top=0.99, bottom=0.01, wspace=0.05, hspace=0.08)
plt.show()
