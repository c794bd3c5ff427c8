"""Types for code that uses skout, to annotate functions and parts with.

What estimators take: `Rows` (inputs), `Targets` (outputs), `Weights`, `Labels` (groups, strata),
`Candidates`, `RandomState`, `Scoring`. What may stand for a part: `KernelLike`, `SketchLike`,
`LossLike`, `DecoderLike`. What a part has to have: `Regressor`, `OutputBasis`, and the classes
`skout.kernels.Kernel`, `skout.sketches.Sketch`, `skout.losses.Loss`, `skout.decoding.Decoder`,
`skout.kinds.Kind` and `skout.apps.tuning.Map`. What else a decoder can do: `Ranks`, `Embeds`,
`KnowsTruth`, `Bounds`, `Matches`, `Penalizes`, `LeavesPool`.

Examples
--------
>>> import numpy as np
>>> from skout import KernelRidge
>>> from skout.typing import KernelLike, Rows, Targets
>>> def fitted(kernel: KernelLike, X: Rows, y: Targets) -> KernelRidge:
...     return KernelRidge(kernel, alpha=1e-3).fit(X, y)
>>> fitted("gaussian", np.eye(3), [1.0, 2.0, 3.0]).predict(np.eye(3)).shape
(3,)
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from ._numerics.typing import (
    Array,
    ArrayLike,
    Candidates,
    EncodedRows,
    Floats,
    Ints,
    Labels,
    Objects,
    PathLike,
    RandomState,
    Scoring,
    SparseMatrix,
    Tabular,
    Weights,
)
from .decoding.base import DecoderLike
from .decoding.pools import EmbeddedPool
from .kernels.base import Block, KernelLike
from .losses import LossLike
from .sketches import SketchLike

#: Inputs of estimators: an array, a CSR matrix, a data frame, a list of objects, rows of a kernel.
Rows: TypeAlias = Objects
#: Outputs: numbers, one or several columns of them, label sets, or objects of an output kernel.
Targets: TypeAlias = Objects

__all__ = [
    "Array",
    "ArrayLike",
    "Block",
    "Bounds",
    "Candidates",
    "DecoderLike",
    "Embeds",
    "EncodedRows",
    "Floats",
    "Ints",
    "KernelLike",
    "KnowsTruth",
    "Labels",
    "LeavesPool",
    "LossLike",
    "Matches",
    "OutputBasis",
    "PathLike",
    "Penalizes",
    "RandomState",
    "Ranks",
    "Regressor",
    "Rows",
    "Scoring",
    "SketchLike",
    "SparseMatrix",
    "Tabular",
    "Targets",
    "Weights",
]


class Regressor(Protocol):
    """What `StructuredPredictor` needs of a regressor: those of scikit-learn have it."""

    def fit(self, X: Rows, y: Targets, /) -> object: ...
    def predict(self, X: Rows, /) -> Array: ...


class OutputBasis(Protocol):
    """What `StructuredPredictor` needs of output coordinates: a transformer of scikit-learn."""

    def fit_transform(self, Y: Targets, /) -> Array: ...
    def transform(self, Y: Targets, /) -> Array: ...


class Ranks(Protocol):
    """A decoder that ranks candidates: `rank` of a predictor."""

    def rank(self, F: Array, candidates: Candidates = None, k: int = 10) -> tuple[Ints, Floats]: ...


class Embeds(Protocol):
    """A decoder that embeds candidates once, to be used many times: `embed` of a predictor."""

    def embed(self, candidates: Candidates, path: PathLike | None = None) -> EmbeddedPool: ...


class KnowsTruth(Protocol):
    """A decoder that says where the true object stands: `truth_ranks`, and scores made of it."""

    def truth_ranks(
        self, F: Array, Y: Targets, candidates: Candidates = None, *, ties: str = "average"
    ) -> Floats: ...


class Bounds(Protocol):
    """A decoder that bounds scores: `ConformalSets` by gaps; with `Embeds` its `evaluate`."""

    def gaps(self, F: Array, Y: Targets, candidates: Candidates = None) -> Floats: ...
    def within(self, F: Array, gap: float, candidates: Candidates = None) -> Candidates: ...


class Matches(Embeds, Ranks, Protocol):
    """A decoder that finds true objects in a pool: `ConformalSelection`, learned scores of sets.

    With `queries` in place of `rank`: members of an `Ensemble`.
    """

    def matched(self, Y: Targets, pool: EmbeddedPool) -> Ints: ...
    def queries(self, F: Array, pool: EmbeddedPool) -> Floats: ...


class Penalizes(Matches, Protocol):
    """A decoder whose candidates may have penalties: `correct_hubness`."""

    def penalized(self, pool: EmbeddedPool, penalties: Floats) -> EmbeddedPool: ...


class LeavesPool(Protocol):
    """A decoder that can do without its training outputs.

    `without_pool` is used by `skout.save(model, path, candidates=False)`, by the model of a
    `TwoWay` and for candidates on a cluster; `drop_pool` where there are more than 100,000 distinct
    training outputs that are not in memory.
    """

    def without_pool(self) -> LeavesPool: ...
    def drop_pool(self, limit: int) -> None: ...
