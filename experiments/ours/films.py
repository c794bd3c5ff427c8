"""Make the table of films that comes with skout: 600 films, facts only, with their genres.

python -m experiments.ours.films movies.csv.gz src/skout/datasets/data/films.csv

The table is tidytuesday's (data/2021/2021-03-09/movies.csv, CC0). Films without a genre are left
out, of the others 600 are drawn, and of the 34 columns those stay that are facts: plots, which are
prose, do not.
"""

from __future__ import annotations

import csv
import gzip
import sys

import numpy as np

COLUMNS = (
    *("title", "year", "rated", "runtime", "country", "language", "director", "budget"),
    *("imdb_rating", "imdb_votes", "genre"),
)


def main() -> None:
    with gzip.open(sys.argv[1], "rt", encoding="utf-8", newline="") as stream:
        films = [row for row in csv.DictReader(stream) if row["genre"] not in ("", "NA")]
    chosen = np.random.default_rng(0).permutation(len(films))[:600]
    with open(sys.argv[2], "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for i in chosen:
            writer.writerow([films[i][name].replace("&amp;", "&") for name in COLUMNS])


if __name__ == "__main__":
    main()
