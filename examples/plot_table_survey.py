"""
A survey: which pies does a family eat?
=======================================

500 answers to a survey on Thanksgiving, one column for each pie: "Apple" where somebody ticked it,
nothing else where not. To predict them together is to predict a set, which one pattern of names
says. All other answers are words, ages such as "18 - 29" and incomes such as "$25,000 to $49,999".
"""

# %%
# Thirteen columns are one target
# -------------------------------
# In Python the columns may be given as a data frame, too; here ``skout fit`` reads a file. The
# answers are ``data/thanksgiving.csv.gz`` in the archive of all examples, on the first page of the
# gallery: unpack it beside this file.

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

data = (Path(__file__).parent if "__file__" in globals() else Path.cwd()) / "data"
folder = Path(tempfile.mkdtemp())
answers = pd.read_csv(data / "thanksgiving.csv.gz", dtype=str, keep_default_na=False)
answers[:380].to_csv(folder / "train.csv", index=False)
answers[380:].to_csv(folder / "test.csv", index=False)


def run(*words):
    """Run the command line; return what it prints and what it says beside that."""
    command = [sys.executable, "-m", "skout", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    return done.stdout, done.stderr


words = ["--target", "pie*", "--budget", "2 fits", "-o", "pies.skout"]
summary, notes = run("fit", "train.csv", *words)
print(notes)
print(summary)

# %%
# How good
# --------
# F1 compares the predicted set with the true one. The page of ``skout report`` has each label, and
# the answers that were predicted worst.

evaluation = json.loads(run("evaluate", "pies.skout", "test.csv", "--json")[0])
print({name: round(value, 3) for name, value in evaluation["metrics"].items() if value})
print(run("report", "pies.skout", "test.csv", "-o", "report.html")[0].splitlines()[0])

# %%
# Each pie
# --------
# How many had it, and how many of these were predicted to.

run("predict", "pies.skout", "test.csv", "-o", "predicted.csv")
predicted = pd.read_csv(folder / "predicted.csv")
pies = list(predicted.columns)
truth = ~answers[380:][pies].isin(["", "NA"])
said = [[cell for cell in answers[pie].unique() if cell not in ("", "NA")] for pie in pies]
names = [words[0] if words else pie for pie, words in zip(pies, said, strict=True)]
counts = truth.sum().to_numpy()
hits = (truth.to_numpy() & (predicted.to_numpy() > 0)).sum(axis=0)
order = np.argsort(counts)[-8:]

fig, ax = plt.subplots(figsize=(7, 4))
shown = [names[j][:24] for j in order]
ax.barh(shown, counts[order], color="lightgray", label="had it")
ax.barh(shown, hits[order], height=0.4, label="and were predicted to")
ax.legend()
fig.tight_layout()
plt.show()
