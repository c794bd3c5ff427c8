"""What `load` and the generators return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._numerics.arrays import n_rows

__all__ = ["Dataset"]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs and outputs, with what is known about them.

    Parameters
    ----------
    name : str
    X, Y : arrays, CSR matrices or other rows
        As many inputs as outputs. Strings are in arrays of objects.
    split : dict of str to slice or array of int
        The rows of each official part, "train", "validation" or "test"; empty where there is no
        official split.
    candidates : objects or CandidateSets, optional
        The pool to choose predictions from, or one set for each row.
    names : dict of str to array
        Of "features" and "outputs", where they have names; "nominal" are the positions of columns
        of X that are codes of categories, ``category_values_NAME`` what those of a column mean.
    extra : dict of str to array
        Further columns, one value a row.
    description, licence, citation : str

    Examples
    --------
    >>> from skout.datasets import make_robust_regression
    >>> data = make_robust_regression(100, 50)
    >>> data
    Dataset('robust_regression', X (150, 10), Y (150,), train 100, test 50)
    >>> X, y = data.train
    >>> X.shape, y.shape
    ((100, 10), (100,))
    """

    name: str
    X: Any
    Y: Any
    split: Mapping[str, slice | np.ndarray] = field(default_factory=dict)
    candidates: Any = None
    names: Mapping[str, np.ndarray] = field(default_factory=dict)
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)
    description: str = ""
    licence: str = ""
    citation: str = ""

    def __post_init__(self) -> None:
        if n_rows(self.X) != n_rows(self.Y):
            raise ValueError(
                f"X and Y of {self.name!r} must have as many rows as each other. "
                f"Got {n_rows(self.X)} and {n_rows(self.Y)} instead."
            )

    def __len__(self) -> int:
        return n_rows(self.X)

    def __repr__(self) -> str:
        sides = (f"{side} {_shape(rows)}" for side, rows in (("X", self.X), ("Y", self.Y)))
        parts = (f"{part} {self._size(part)}" for part in self.split)
        return f"Dataset({', '.join([repr(self.name), *sides, *parts])})"

    def part(self, name: str) -> tuple[Any, Any]:
        """Return the inputs and the outputs of an official part.

        Parameters
        ----------
        name : "train", "validation" or "test"

        Returns
        -------
        X, Y : rows
        """
        if name not in self.split:
            known = ", ".join(map(repr, self.split)) or "none"
            raise ValueError(
                f"{self.name!r} has no official part {name!r}; it has: {known}. "
                "Split X and Y yourself, for instance with sklearn's train_test_split."
            )
        rows = self.split[name]
        return self.X[rows], self.Y[rows]

    @property
    def train(self) -> tuple[Any, Any]:
        """Inputs and outputs of the official training part."""
        return self.part("train")

    @property
    def test(self) -> tuple[Any, Any]:
        """Inputs and outputs of the official test part."""
        return self.part("test")

    def _size(self, part: str) -> int:
        return len(np.arange(len(self))[self.split[part]])


def _shape(rows: Any) -> tuple[int, ...]:
    return tuple(getattr(rows, "shape", (n_rows(rows),)))
