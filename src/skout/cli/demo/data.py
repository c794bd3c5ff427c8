"""The data: the upper half of a digit is the input, its lower half is the object to predict."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

__all__ = ["HALF", "SIDE", "Halves", "first_of_each", "load_halves"]

SIDE = 8  # a digit is SIDE x SIDE pixels
HALF = SIDE * SIDE // 2


class Halves(NamedTuple):
    """Digits cut in two; pixels are in [0, 1] and row i of every part is the same digit."""

    upper: np.ndarray  # (n, 32)
    lower: np.ndarray  # (n, 32)
    digit: np.ndarray  # (n,) which of 0..9; never shown to a method, only used to judge

    def rows(self, index: np.ndarray | slice) -> Halves:
        """Return the digits at `index`."""
        return Halves(*(part[index] for part in self))

    def split(self, n: int) -> tuple[Halves, Halves]:
        """Return the first n digits and the others."""
        return self.rows(slice(n)), self.rows(slice(n, None))


def load_halves(n_train: int, n_test: int, seed: int) -> tuple[Halves, Halves]:
    """Shuffle scikit-learn's bundled digits and return a training and a test part.

    Parameters
    ----------
    n_train, n_test : int
        Digits in each part; 1,797 exist.
    seed : int
        Seed of the shuffle.

    Returns
    -------
    train, test : Halves
        Disjoint parts.
    """
    bunch = load_digits()
    pixels = bunch.data / 16.0
    order = np.random.default_rng(seed).permutation(len(pixels))[: n_train + n_test]
    every = Halves(pixels[:, :HALF], pixels[:, HALF:], bunch.target).rows(order)
    return every.split(n_train)


def first_of_each(digit: np.ndarray, n: int) -> np.ndarray:
    """Return the positions of the first n examples of each class, class by class."""
    return np.concatenate([np.flatnonzero(digit == d)[:n] for d in np.unique(digit)])
