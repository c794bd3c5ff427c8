"""Slow truths of decoding, by loops over single objects; nothing here comes from skout."""

import itertools

import numpy as np


def gaussian(gamma):
    return lambda a, b: float(np.exp(-gamma * np.sum((np.asarray(a) - np.asarray(b)) ** 2)))


def linear(a, b):
    return float(np.dot(a, b))


def polynomial(degree, gamma, coef0):
    return lambda a, b: (gamma * linear(a, b) + coef0) ** degree


def f1(a, b):
    """2 |a and b| / (|a| + |b|); two empty sets are alike."""
    total = sum(a) + sum(b)
    return 1.0 if total == 0 else 2.0 * sum(min(x, y) for x, y in zip(a, b, strict=True)) / total


def tanimoto(a, b):
    common = sum(min(x, y) for x, y in zip(a, b, strict=True))
    union = sum(a) + sum(b) - common
    return 1.0 if union == 0 else common / union


def bigrams(a, b):
    """Common pairs of neighbouring letters, the ends of the word included, with multiplicity."""
    first, second = ([(f"^{w}$")[i : i + 2] for i in range(len(w) + 1)] for w in (a, b))
    return float(sum(first.count(g) * second.count(g) for g in set(first)))


def overlap(a, b):
    """Items that two sequences have in common, and one for good measure."""
    return 1.0 + float(sum(min(list(a).count(x), list(b).count(x)) for x in set(a)))


def as_matrix(kernel):
    """The function (A, B) -> matrix of a kernel of two objects, for skout to wrap."""
    return lambda A, B: np.array([[kernel(a, b) for b in B] for a in A])


def scores(weights, Y, C, kernel):
    """2 <sum_i w_i psi(y_i), psi(c)> - k(c, c) of each row of weights and each candidate."""
    out = np.empty((len(weights), len(C)))
    for q, row in enumerate(weights):
        for j, c in enumerate(C):
            inner = sum(w * kernel(y, c) for w, y in zip(row, Y, strict=True))
            out[q, j] = 2.0 * inner - kernel(c, c)
    return out


def ranked(row):
    """Positions by score, largest first, ties to the lower position."""
    return sorted(range(len(row)), key=lambda j: (-row[j], j))


def truth_rank(row, keys, truth, share):
    """Rank of the object `truth` among the distinct keys; `share` of the tied come before it."""
    best = {}
    for key, score in zip(keys, row, strict=True):
        best[key] = max(score, best.get(key, -np.inf))
    if truth not in best:
        return np.inf
    own = best.pop(truth)
    above = sum(score > own + 1e-9 for score in best.values())
    tied = sum(abs(score - own) <= 1e-9 for score in best.values())
    return 1.0 + above + share * tied


def label_sets(n_labels, max_size):
    """All 0/1 rows of at most max_size ones, smaller sets first."""
    sets = [
        chosen
        for size in range(max_size + 1)
        for chosen in itertools.combinations(range(n_labels), size)
    ]
    out = np.zeros((len(sets), n_labels), dtype=int)
    for row, chosen in zip(out, sets, strict=True):
        row[list(chosen)] = 1
    return out
