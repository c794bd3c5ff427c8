"""
Furniture: prices from a scraped table
======================================

Furniture, scraped from a shop: an unnamed column that numbers the rows, an id, "No old price" where
another row has "SR 1,145", and gaps in half of the measures. The file goes in as it is; what was
understood is printed, and a report tells which columns the price depends on.
"""

# %%
# What is understood
# ------------------
# The first column numbers the rows and is left out. ``depth``, ``height`` and ``width`` have gaps:
# each becomes the median, with a column that says where. The table is ``data/ikea.csv.gz`` in the
# archive of all examples, on the first page of the gallery: unpack it beside this file.

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

data = (Path(__file__).parent if "__file__" in globals() else Path.cwd()) / "data"
folder = Path(tempfile.mkdtemp())
header, *rows = gzip.decompress((data / "ikea.csv.gz").read_bytes()).decode().splitlines()
(folder / "train.csv").write_text("\n".join([header, *rows[:700]]) + "\n", encoding="utf-8")
(folder / "test.csv").write_text("\n".join([header, *rows[700:]]) + "\n", encoding="utf-8")


def run(*words):
    """Run the command line; return what it prints and what it says beside that."""
    command = [sys.executable, "-m", "skout", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    return done.stdout, done.stderr


print(run("look", "train.csv", "--target", "price")[0])

# %%
# Fit, without the answer
# -----------------------
# ``old_price`` says the price again, and ``item_id`` is the number of an article, so both are
# dropped. Notes say what was not used, and why.

dropped = ["--drop", "old_price,item_id"]
words = ["--target", "price", *dropped, "--budget", "2 fits", "-o", "prices.skout"]
summary, notes = run("fit", "train.csv", *words)
print(notes)
print(summary)

# %%
# A report
# --------
# ``--json`` prints the numbers of the page: what the score loses if a column is shuffled, and how
# good the model is in each category.

report = json.loads(
    run("report", "prices.skout", "test.csv", "--by", "category", "-o", "report.html", "--json")[0]
)
print({name: round(value, 3) for name, value in report["metrics"].items()})

run("predict", "prices.skout", "test.csv", "-o", "predicted.csv")
predicted = pd.read_csv(folder / "predicted.csv")["price"]
price = pd.read_csv(folder / "test.csv")["price"]

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
left.loglog(predicted.clip(lower=5), price, ".", alpha=0.6)
left.plot([5, 9000], [5, 9000], color="gray", linewidth=1)
left.set(xlabel="predicted price", ylabel="price")
losses = report["importance"]["losses"][:6][::-1]
right.barh([row["column"] for row in losses], [row["loss"] for row in losses])
right.set(xlabel="RMSE more, if shuffled", title="What matters")
fig.tight_layout()
plt.show()
