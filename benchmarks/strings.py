"""Strings: all n-grams of QM9's SMILES against landmarks, and words built from 2-grams.

- gram: NGram(3) of 130,831 SMILES against 3,000 of them, in blocks, and a basis of that size;
- words: share of new words that StringDecoder recovers, by the noise in their coordinates.

Run it on a quiet machine. QM9 needs the folder SKOUT_DATA.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Iterable
from pydoc_data.topics import topics
from typing import Any

import numpy as np
from measure import measure, print_table, write_record

from skout import KernelBasis
from skout._numerics.arrays import row_slices
from skout._numerics.threads import map_blocks
from skout.basis.features import LandmarkFeatures
from skout.datasets import load
from skout.decoding import StringDecoder
from skout.kernels import NGram
from skout.sketches import SubSample

N, LANDMARKS, ROWS = 3, 3000, 4096


def smiles() -> list[str]:
    """Return the SMILES of QM9."""
    return load("qm9").X.tolist()


def ngrams(texts: Iterable[str]) -> Counter[str]:
    """Return how often each n-gram occurs, counted one by one."""
    return Counter(text[i : i + N] for text in texts for i in range(len(text) - N + 1))


def gram(n: int, m: int) -> list[dict[str, Any]]:
    """Time each step: encoding, the Gram matrix in blocks that are summed, the coordinates."""
    texts, kernel = smiles()[:n], NGram(N, short="keep")
    chosen = np.sort(np.random.default_rng(0).choice(len(texts), m, replace=False))
    encode = measure(lambda: kernel.encode(texts))
    rows = encode.result

    def stream() -> float:
        features = LandmarkFeatures(kernel, rows[chosen])
        blocks = row_slices(len(rows), ROWS)
        return sum(map_blocks(lambda some: float(features(rows[some]).sum()), blocks))

    def loop() -> np.ndarray:
        counts = [ngrams([text]) for text in sample]
        return np.array([[sum(a[u] * b[u] for u in a) for b in counts] for a in counts])

    basis = KernelBasis(kernel, SubSample(m), random_state=0)
    sample = texts[-400:]
    naive = measure(loop)
    steps = {"encode": encode, "Gram": measure(stream), "basis": measure(lambda: basis.fit(texts))}
    # counts are whole numbers, so that sums over all pairs are exact
    every, few = ngrams(texts), ngrams(texts[i] for i in chosen)
    total = sum(every[u] * few[u] for u in few)
    agree = np.array_equal(naive.result, kernel(sample)) and steps["Gram"].result == total
    pairs = {"encode": 0, "Gram": len(texts) * m, "basis": m * m, "loop": len(sample) ** 2}
    return [
        {
            "step": name,
            "strings": len(sample) if name == "loop" else len(texts),
            "pairs": pairs[name],
            "seconds": run.seconds,
            "MB above": round(run.megabytes),
            "million pairs a second": pairs[name] / run.seconds / 1e6,
            "equal to the loop": bool(agree),
        }
        for name, run in (steps | {"loop": naive}).items()
    ]


def is_unique(word: str) -> bool:
    """Whether no other string has the 2-grams of this one."""
    counts, found = Counter(word[i : i + 2] for i in range(len(word) - 1)), set()

    def go(text: str) -> None:
        if len(text) == len(word):
            found.add(text)
        for gram in [g for g in counts if counts[g] and g[0] == text[-1]]:
            counts[gram] -= 1
            go(text + gram[1])
            counts[gram] += 1

    for letter in sorted(set(word)):
        go(letter)
    return len(found) == 1


def words(n_train: int, n_new: int) -> list[dict[str, Any]]:
    """Decode new words from their 2-gram coordinates, with noise of some size in each of these."""
    text = " ".join(topics.values()).lower()
    every = np.random.default_rng(0).permutation(sorted(set(re.findall("[a-z]{3,}", text))))
    train = [str(word) for word in every[:n_train]]
    seen = {word[i : i + 2] for word in train for i in range(len(word) - 1)}
    new = [str(w) for w in every[n_train:] if all(w[i : i + 2] in seen for i in range(len(w) - 1))]
    new = new[:n_new]
    unique = np.array([is_unique(word) for word in new])
    basis = KernelBasis(NGram(2)).fit(train)
    decoder, F = StringDecoder().fit(basis, train), basis.transform(new)
    results = []
    for noise in (0.0, 0.1, 0.15, 0.2):
        G = F + noise * np.random.default_rng(1).standard_normal(F.shape)
        clock = time.perf_counter()
        right = np.array([a == b for a, b in zip(decoder.decode(G), new, strict=True)])
        seconds = time.perf_counter() - clock
        results.append(
            {
                "noise": noise,
                "new words": len(new),
                "told by their 2-grams": int(unique.sum()),
                "of these recovered": float(right[unique].mean()),
                "of all recovered": float(right.mean()),
                "milliseconds a word": 1e3 * seconds / len(new),
            }
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes; no record")
    parser.add_argument("--part", nargs="+", default=["gram", "words"])
    options = parser.parse_args()
    quick = options.quick
    parts = {
        "gram": lambda: gram(5000, 300) if quick else gram(200_000, LANDMARKS),
        "words": lambda: words(1000, 100) if quick else words(2000, 1000),
    }
    for part in options.part:
        rows = parts[part]()
        print_table(rows, list(rows[0]))
        if not quick:
            settings = {"n": N, "landmarks": LANDMARKS, "rows of a block": ROWS}
            write_record(f"strings_{part}", settings if part == "gram" else {"n": 2}, rows)


if __name__ == "__main__":
    main()
