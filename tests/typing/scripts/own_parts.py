"""A kernel and a decoder of one's own."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from skout import KernelBasis, KernelRidge, StructuredPredictor
from skout.decoding import Decoder
from skout.kernels import Kernel, as_objects
from skout.typing import Array, Block, Candidates, Rows, Targets

Sets = NDArray[np.object_]


class Jaccard(Kernel[Sets]):
    """The share of two frozensets, and of one element that all have, that is common."""

    def encode(self, objects: Rows) -> Sets:
        rows: Sets = as_objects(objects)
        return rows

    def against(self, B: Sets) -> Block:
        def block(A: Sets, out: Array | None = None) -> Array:  # noqa: ARG001
            common = [(1 + len(a & b)) / (1 + len(a | b)) for a in A for b in B]
            return np.array(common).reshape(len(A), len(B))

        return block

    def diag(self, A: Sets) -> Array:
        return np.ones(len(A))


class Nearest(Decoder):
    """The training output that is nearest in coordinates."""

    def fit(self, basis: KernelBasis, Y: Targets, coordinates: Array | None = None) -> Self:
        self.Y_ = np.asarray(Y)
        self.Z_: Array = basis.transform(Y) if coordinates is None else coordinates
        return self

    def decode(self, F: Array, candidates: Candidates = None) -> Targets:
        self._refuse(candidates)
        nearest: Array = self.Y_[np.argmax(F @ self.Z_.T, axis=1)]
        return nearest


def fitted(baskets: Sequence[frozenset[int]], sizes: Array) -> KernelRidge:
    return KernelRidge(Jaccard(), alpha=1e-3).fit(baskets, sizes)


baskets = [frozenset({1, 2}), frozenset({2}), frozenset({3, 4})]
ridge = fitted(baskets, np.array([2.0, 1.0, 2.0]))
structured = StructuredPredictor(KernelRidge(), Jaccard(), Nearest())
print(ridge.predict(baskets), structured)
