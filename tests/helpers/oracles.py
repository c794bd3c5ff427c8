"""The slow truth: double loops and dense algebra straight from the formulas, no code of skout."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Pair = Callable[[Sequence[float], Sequence[float]], float]


# Kernels: one pair of vectors at a time ----------------------------------------------------------


def gram(k: Pair, A: Any, B: Any) -> np.ndarray:
    """The Gram matrix of k by a double loop."""
    return np.array([[k(a, b) for b in B] for a in A], dtype=np.float64).reshape(len(A), len(B))


def dot(a, b):
    return math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def squared_distance(a, b):
    return math.fsum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True))


def manhattan_distance(a, b):
    return math.fsum(abs(float(x) - float(y)) for x, y in zip(a, b, strict=True))


linear = dot


def polynomial(degree: int, gamma: float, coef0: float) -> Pair:
    return lambda a, b: (gamma * dot(a, b) + coef0) ** degree


def gaussian(gamma: float) -> Pair:
    return lambda a, b: math.exp(-gamma * squared_distance(a, b))


def laplacian(gamma: float) -> Pair:
    return lambda a, b: math.exp(-gamma * manhattan_distance(a, b))


def matern(gamma: float, nu: float) -> Pair:
    """u = sqrt(2 nu) gamma r and the closed forms for half-integer nu."""
    polynomials = {
        0.5: lambda u: 1.0,
        1.5: lambda u: 1.0 + u,
        2.5: lambda u: 1.0 + u + u * u / 3.0,
    }

    def k(a, b):
        u = math.sqrt(2.0 * nu) * gamma * math.sqrt(squared_distance(a, b))
        return polynomials[nu](u) * math.exp(-u)

    return k


def cosine(a, b):
    return normalized(dot)(a, b)


def tanimoto(a, b):
    """|a and b| / |a or b|: sum of minima over sum of maxima; two empty sets are alike."""
    union = math.fsum(max(float(x), float(y)) for x, y in zip(a, b, strict=True))
    return overlap(a, b) / union if union > 0 else 1.0


def f1(a, b):
    """2 |a and b| / (|a| + |b|); two empty sets are alike."""
    total = math.fsum(map(float, a)) + math.fsum(map(float, b))
    return 2.0 * overlap(a, b) / total if total > 0 else 1.0


def overlap(a, b):
    return math.fsum(min(float(x), float(y)) for x, y in zip(a, b, strict=True))


def kendall(a, b):
    """The pairs in the same order minus those in opposite orders, over all; one item is alike."""
    pairs = [(i, j) for j in range(len(a)) for i in range(j)]
    signs = [np.sign(a[j] - a[i]) * np.sign(b[j] - b[i]) for i, j in pairs]
    return math.fsum(signs) / len(pairs) if pairs else 1.0


def rank_hamming(a, b):
    """The share of the items that have the same rank."""
    return sum(x == y for x, y in zip(a, b, strict=True)) / len(a)


def lehmer(a, b):
    """Codes minus their mean, over their total variance, digit j being uniform on 0..j."""
    if len(a) == 1:
        return 1.0
    mean = [j / 2.0 for j in range(len(a))]
    variance = math.fsum(((j + 1) ** 2 - 1) / 12.0 for j in range(len(a)))
    left, right = (np.subtract(lehmer_code(x), mean) for x in (a, b))
    return dot(left, right) / variance


def lehmer_code(a):
    return [sum(a[i] > a[j] for i in range(j)) for j in range(len(a))]


# Algebra -----------------------------------------------------------------------------------------


def normalized(k: Pair) -> Pair:
    """k(a, b) / sqrt(k(a, a) k(b, b)); objects of norm 0 are alike to each other alone."""

    def cosine_of_features(a, b):
        norms = math.sqrt(k(a, a)) * math.sqrt(k(b, b))
        return k(a, b) / norms if norms > 0 else float(k(a, a) == k(b, b))

    return cosine_of_features


def added(k: Pair, other: Pair) -> Pair:
    return lambda a, b: k(a, b) + other(a, b)


def multiplied(k: Pair, other: Pair) -> Pair:
    return lambda a, b: k(a, b) * other(a, b)


def scaled(factor: float, k: Pair) -> Pair:
    return lambda a, b: factor * k(a, b)


# Bandwidths --------------------------------------------------------------------------------------


def median_distance(X: np.ndarray, distance: Pair) -> float:
    """The median distance over the pairs of different rows."""
    pairs = [distance(X[i], X[j]) for i in range(len(X)) for j in range(i)]
    return float(np.median([d for d in pairs if d > 0]))


# Sketches ----------------------------------------------------------------------------------------


def second_moment(draw: Callable[[], np.ndarray], n_draws: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean of R'R over many draws of R, and the standard error of each entry."""
    samples = np.array([R.T @ R for R in (draw() for _ in range(n_draws))])
    return samples.mean(axis=0), samples.std(axis=0, ddof=1) / math.sqrt(n_draws)


def ridge_leverage_scores(K: np.ndarray, shift: float) -> np.ndarray:
    """diag K (K + s I)^-1."""
    return np.diag(np.linalg.solve(K + shift * np.eye(len(K)), K))


def nystrom_trace_error(K: np.ndarray, index: np.ndarray) -> float:
    """trace(K - K[:, S] K[S, S]^+ K[S, :]), what sub-sampling S leaves unexplained."""
    C = K[:, index]
    return float(np.trace(K - C @ np.linalg.pinv(K[np.ix_(index, index)], hermitian=True) @ C.T))
