"""
A bakery: the best model for a CSV file
=======================================

A bakery has written down for 500 days what each day was like and which of its products were gone
by noon. What will be gone tomorrow is a set of products, not a number. ``Tuned`` takes the table,
compares kernels, forests, boosting, neighbors and averages of them by the score that counts, and
says what it found. Put your own file in the place of this one: label sets, rankings and numbers are
recognized.
"""

# %%
# The CSV file
# ------------
# One row a day: inputs first, then a column of 0 and 1 for each product. The first line has the
# names. (``pandas.read_csv`` does as well: ``Tuned`` takes data frames.)

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import skout
from skout import Tuned
from skout.metrics import example_f1

folder = Path(tempfile.mkdtemp())
products = ["croissant", "rye", "baguette", "pretzel", "quiche", "ice_cream", "soup", "cake"]
rng = np.random.default_rng(0)


def days(n):
    """Return days: weekday, temperature, rain, holiday, match in town, loaves, price index."""
    weekday, season = rng.integers(7, size=n), rng.uniform(0.0, 2.0 * np.pi, n)
    warmth = 12.0 - 10.0 * np.cos(season) + 4.0 * rng.standard_normal(n)
    rain = rng.exponential(2.0, n) * (rng.random(n) < 0.4)
    holiday, match = rng.random(n) < 0.05, (rng.random(n) < 0.3) & (weekday >= 5)
    return np.column_stack(
        [weekday, warmth.round(1), rain.round(1), holiday, match, rng.integers(80, 121, n),
         rng.normal(100.0, 5.0, n).round(1)]
    )  # fmt: skip


def gone(X):
    """Return which products are gone by noon; customers have moods."""
    weekday, warmth, rain, holiday, match, loaves, price = X.T
    weekend, dry = (weekday >= 5) | (holiday > 0), rain < 1.0
    wish = np.column_stack(
        [
            2.5 * weekend - 0.05 * (price - 100) - 0.6,
            1.2 - 0.08 * (loaves - 90) - 1.5 * weekend,
            1.5 * weekend + 1.0 * dry - 0.05 * (loaves - 100) - 1.0,
            4.0 * match * dry - 1.5,
            1.2 * ~weekend - 0.15 * np.abs(warmth - 14) + 0.3,
            0.35 * (warmth - 20) * dry - 0.5 * ~dry,
            0.3 * (8 - warmth) + 0.4 * ~dry - 0.5 * weekend,
            2.0 * (weekday == 6) + 1.5 * holiday + 1.0 * ~dry - 1.2,
        ]
    )
    return (wish + 0.7 * rng.logistic(size=wish.shape) > 0.0).astype(int)


inputs = ["weekday", "temperature", "rain", "holiday", "match", "loaves", "price"]
known = days(500)
np.savetxt(
    folder / "bakery.csv",
    np.column_stack([known, gone(known)]),
    fmt="%g",
    delimiter=",",
    header=",".join(inputs + products),
    comments="",
)
print(*(folder / "bakery.csv").read_text().splitlines()[:4], sep="\n")

# %%
# Reading it takes three lines.

header = (folder / "bakery.csv").read_text().splitlines()[0].split(",")
table = np.loadtxt(folder / "bakery.csv", delimiter=",", skiprows=1)
X, Y = table[:, : len(inputs)], table[:, len(inputs) :].astype(int)

# %%
# Choose
# ------
# ``Tuned()`` takes a minute, ``Tuned(budget=600)`` ten. A budget in fits, as here, does not depend
# on the clock: the choice is the same on every machine. The line says how good the choice is on
# rows that did not choose it, and what a forest and a constant reach.

model = Tuned(budget="16 fits", random_state=0).fit(X, Y)
print(model.summary())

# %%
# The table
# ---------
# One row for each trial, the best first; ``pandas.DataFrame(model.results_)`` is a table.

for row in model.results_[:8]:
    score = f"{row['score']:.3f} +- {row['standard_error']:.3f}  {row['seconds']:5.2f} s"
    print(score, row["map"], row.get("kernel", ""), sep="  ")
print("chosen:", ", ".join(f"{one['weight']:.2f} {one['map']}" for one in model.best_settings_))

# %%
# Next year tells whether it is true.

new = days(400)
truth = gone(new)
found = model.predict(new)
print(f"F1 on 400 new days: {example_f1(truth, found):.3f}")

# %%
# The file
# --------
# The model is one file, which holds numbers and names and no code. ``skout predict`` reads it, too.
# A shell does it as well: ``skout fit`` chooses in the same way, and writes such a file.

skout.save(model, folder / "bakery.skout", metadata={"score": model.score_})
again = skout.load(folder / "bakery.skout")
saturday = np.array([[5, 24.0, 0.0, 0, 1, 95, 101.0]])
(labels,) = again.predict(saturday)
print("a warm Saturday with a match:", ", ".join(np.array(products)[labels > 0]))

# %%
# The plot
# --------
# Left: what each trial cost and what it was worth. Right: how often the chosen model is right about
# each product on the new days, and how often one would be who always says the more frequent answer.

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
model.plot(left)
place = np.arange(len(products))
right.barh(place - 0.2, (found == truth).mean(axis=0), 0.4, label="Tuned")
common = np.maximum(truth.mean(axis=0), 1.0 - truth.mean(axis=0))
right.barh(place + 0.2, common, 0.4, color="0.7", label="always the same")
right.set_yticks(place, products)
right.set(xlabel="share of days that are right", xlim=(0.5, 1.0))
right.invert_yaxis()
right.legend(frameon=False, loc="lower right")
plt.show()
