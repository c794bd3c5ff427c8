"""`Sample`, the rows and splits that maps are tried on, and `Profile`, properties of a problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from skout.dev import check_rng, outputs_by_rows, take
from skout.kernels import (
    Kernel,
    NGram,
    PeakCosine,
    ProbabilityProduct,
    ShortestPath,
    WeisfeilerLehman,
)

from .clock import Clock
from .data import some_rows
from .folds import Folds
from .inputs import ColumnScaler, are_vectors

#: Rows to predict from: a matrix, a CSR matrix, or a list of texts, graphs or spectra.
Inputs: TypeAlias = Any

# Entries that a dense copy of rows may have, which trees take: 240 MB in single precision.
_MOST_DENSE = 6e7
# Mean weight of the rows of a fit below which weights are rescaled, to keep squares in range.
_LEAST_MEAN = 1e-6


@dataclass(frozen=True)
class Profile:
    """Properties of a problem that decide which settings are tried, and what they cost."""

    n: int  # rows to train on
    d: float  # mean number of stored entries of a row: of a dense matrix its columns
    columns: int
    p: int  # output coordinates
    is_sparse: bool = False
    is_object: bool = False  # X is no matrix at all
    is_binary: bool = False  # each output coordinate has two values
    objects: tuple[Kernel, ...] = ()  # kernels of objects that are no vectors
    groups: tuple[tuple[int, int], ...] = ()  # (start, stop) of columns of a table in the matrix
    is_weighted: bool = False  # rows have different weights
    is_skewed: bool = False  # some outputs have long tails: their logarithms may be fitted
    # training rows of all fits of a map, over those of one fit on all rows: outputs observed in the
    # same rows are fitted together, others separately
    n_models: float = 1.0

    @property
    def layout(self) -> str:
        """The form of X: "objects", "sparse", "table" (encoded columns of any kind) or "dense"."""
        if self.is_object:
            return "objects"
        return "sparse" if self.is_sparse else "table" if self.groups else "dense"

    @property
    def grows_trees(self) -> bool:
        """Whether rows are vectors, of which a dense copy fits into memory."""
        return not self.is_object and self.n * self.columns <= _MOST_DENSE


def profile_of(X: Inputs, n: int, p: int, **more: Any) -> Profile:
    """Return the profile of inputs; `more` are the fields that do not follow from X."""
    if not are_vectors(X):
        return Profile(n, 50.0, 1, p, is_object=True, objects=_kernels_of_objects(X[0]), **more)
    is_sparse = sparse.issparse(X)
    d = max(1.0, X.nnz / X.shape[0]) if is_sparse else float(X.shape[1])
    return Profile(n, d, X.shape[1], p, is_sparse, **more)


def _kernels_of_objects(first: object) -> tuple[Kernel, ...]:
    """Return the kernels to try for texts, spectra or graphs, by the first of them."""
    if isinstance(first, str):
        return tuple(NGram(n, short="keep") for n in ((1, 2, 3), (2, 3, 4), (1, 2)))
    if isinstance(first, tuple) and len(first) == 2:
        return (PeakCosine(), ProbabilityProduct())
    return (WeisfeilerLehman(), WeisfeilerLehman(2), ShortestPath())


@dataclass
class Sample:
    """Rows with their output coordinates and the folds that maps are tried on."""

    X: Inputs
    T: np.ndarray  # (n, p), NaN where a row has no such output
    folds: Folds
    seed: int
    n_jobs: int | None = None
    clock: Clock = field(default_factory=Clock)  # checked between folds and other steps of a trial
    scaled: dict[str, Inputs] = field(default_factory=dict)  # cache of X by scaling
    fewer: dict[int, Sample] = field(default_factory=dict)  # cache of `with_rows`

    def rows(self, scaling: str = "none") -> Inputs:
        """Return X in a scaling, whose statistics are those of all rows."""
        if scaling == "none":
            return self.X
        if scaling not in self.scaled:
            self.scaled[scaling] = ColumnScaler(scaling).fit_transform(self.X)
        return self.scaled[scaling]

    def with_rows(self, most: int | None) -> Sample:
        """Return the sample with at most `most` training rows, None for all.

        It has only these and the held-out rows, so that its cost does not depend on all rows.
        """
        if most is None or most >= self.folds.n_train:
            return self
        if most not in self.fewer:
            rng = check_rng(self.seed)
            splits = [
                (train[some_rows(self.T[train], most, rng)], held)
                for train, held in self.folds.splits
            ]
            used, folds = self.folds.renumbered(splits)
            params = self.seed, self.n_jobs, self.clock
            self.fewer[most] = Sample(take(self.X, used), self.T[used], folds, *params)
        return self.fewer[most]

    def timed_folds(self) -> Iterator[tuple[np.ndarray, np.ndarray, slice]]:
        """Yield training rows, held-out rows and the slice of predictions of these, fold by fold.

        The clock is checked before each fold.
        """
        for (train, held), rows in zip(self.folds.splits, self.folds.spans, strict=True):
            self.clock.check()
            yield train, held, rows

    def weights(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the weights of the rows of a fit, None where all are equal.

        Only ratios matter. Where their mean is tiny, they are scaled to mean 1, so that squares and
        products stay in range.
        """
        if self.folds.row_weights is None:
            return None
        weights = self.folds.row_weights[rows]
        return np.asarray(weights if weights.mean() > _LEAST_MEAN else weights / weights.mean())

    def outputs(self) -> list[tuple[slice | np.ndarray, Sample]]:
        """Return the sets of outputs observed in the same rows, each with its sample.

        Its training rows are those with these outputs; the held-out rows are the same for all.
        """
        if not np.isnan(self.T).any():
            return [(slice(None), self)]
        samples: list[tuple[slice | np.ndarray, Sample]] = []
        for columns, _ in outputs_by_rows(self.T):
            observed = ~np.isnan(self.T[:, columns[0]])
            splits = [(train[observed[train]], held) for train, held in self.folds.splits]
            if min(len(train) for train, _ in splits) < 2:
                raise ValueError(
                    f"column {columns[0]} of Y has fewer than two numbers in the training rows of "
                    "a split: leave it out, or let `cv` hold out fewer rows"
                )
            folds = replace(self.folds, splits=splits)
            samples.append((columns, replace(self, T=self.T[:, columns], folds=folds, fewer={})))
        return samples

    def empty(self) -> np.ndarray:
        """Return an uninitialized array for the predictions of all held-out rows."""
        return np.empty((self.folds.n_held, self.T.shape[1]), dtype=np.float32)
