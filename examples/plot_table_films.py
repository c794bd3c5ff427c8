"""
Films: a number, a set and a class from one table
=================================================

600 films, as somebody wrote them down: "94 min" in a column of numbers, "59,005" votes, gaps, and
genres in one cell with commas between them. We predict the rating, the genres and the age limit of
a film in one call. They are a number, a set and a class: each gets a model of its own, chosen by
its own metric, and the columns are read once.
"""

# %%
# What is in the file
# -------------------
# ``skout look`` says what each column is taken for, and fits nothing. ``--target`` names what is to
# be predicted; it is given again for each target.

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import skout
from skout import datasets

folder = Path(tempfile.mkdtemp())
[source] = datasets.load("films").files
films = pd.read_csv(source)
films[:450].to_csv(folder / "train.csv", index=False)
films[450:].to_csv(folder / "test.csv", index=False)


def run(*words):
    """Run the command line, and return what it prints."""
    command = [sys.executable, "-m", "skout", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    return done.stdout


targets = [word for name in ("imdb_rating", "genre", "rated") for word in ("--target", name)]
print(run("look", "train.csv", *targets))

# %%
# One file for all three
# ----------------------
# Rows that lack one of the targets are left out of its model only. The last lines say how good the
# model is, which columns it needs most, and what to do next.

print(run("fit", "train.csv", *targets, "--budget", "3 fits", "-o", "films.skout"))

# %%
# On films that it has not seen
# -----------------------------
# ``skout report films.skout test.csv -o report.html`` writes the same numbers as a page, with the
# worst and the best predictions.

scores = json.loads(run("evaluate", "films.skout", "test.csv", "--json"))["targets"]
for name, target in scores.items():
    metric, value = next(iter(target["metrics"].items()))
    print(f"{name:12} {target['output']:11} {metric} {value:.3f} on {target['rows']} films")
print(run("report", "films.skout", "test.csv", "-o", "report.html").splitlines()[0])

# %%
# Predictions are columns
# -----------------------
# The file is a model of Python, too: ``skout.load`` returns a ``TunedTargets``, with a ``Tuned``
# for each target.

run("predict", "films.skout", "test.csv", "-o", "predicted.csv")
predicted, test = pd.read_csv(folder / "predicted.csv"), pd.read_csv(folder / "test.csv")
print(predicted.head(4))
print(list(skout.load(folder / "films.skout").models_))

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
left.scatter(predicted["imdb_rating"], test["imdb_rating"], s=12, alpha=0.6)
left.plot([3, 9], [3, 9], color="gray", linewidth=1)
left.set(xlabel="predicted rating", ylabel="rating")
genres = test["genre"].str.get_dummies(", ")
hits = predicted["genre"].fillna("").str.get_dummies(", ")
hits = hits.reindex(columns=genres.columns, fill_value=0)
common = genres.sum().nlargest(8).index[::-1]
right.barh(common, genres[common].sum(), color="lightgray", label="films")
right.barh(common, (genres[common] * hits[common]).sum(), height=0.4, label="predicted, too")
right.legend()
fig.tight_layout()
plt.show()
