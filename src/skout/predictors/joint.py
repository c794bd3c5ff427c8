"""Both directions of `TwoWay` in one vector: [f(x), z_x(x)] of inputs, [z(y), g(y)] of outputs.

A backward map f predicts the coordinates z(y) of an output, a forward map g those of the input,
z_x(x). With s = sqrt(weight) the score of a candidate is one inner product and one norm,

    2 <[f(x), s z_x(x)], [z(c), s g(c)]> - (k(c, c) + weight ||g(c)||^2)

so that a decoder of one basis searches both at once.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import TransformerMixin, clone

from .._numerics.arrays import row_slices
from .._numerics.estimators import PartsByName
from .._numerics.objects import Rows
from .._numerics.typing import Array, Estimator, Floats, Ints, Matrix, Objects
from ..decoding.base import plain_outputs
from ..decoding.sets import set_scores
from ..predictor import predicted
from ..rows import Memory, Source, encoded, source
from ..rows.tasks import by_blocks

# Rows whose coordinates the forward model predicts at a time, to bound the memory.
_ROWS = 2**13


class OverBasis(TransformerMixin, PartsByName):
    """Base class of bases that transform the coordinates of a fitted basis, `outputs`."""

    outputs: Estimator  # a fitted KernelBasis, or what stands for one
    kernel_: Any = property(attrgetter("outputs.kernel_"))
    landmarks_: Any = property(attrgetter("outputs.landmarks_"))
    n_features_in_: Any = property(attrgetter("outputs.n_features_in_"))
    feature_names_in_: Any = property(attrgetter("outputs.feature_names_in_"))

    def fit(self, Y: Objects, y: Objects | None = None) -> Self:
        """Return self: the parts are fitted."""
        return self

    def transform(self, Y: Objects) -> Floats:
        """Return the coordinates of outputs, shape (n, p)."""
        return self.coordinates(encoded(self, self.kernel_, Y, reset=False))

    def residual(self, Y: Objects) -> Floats:
        """Return the residual of each output in the basis `outputs`."""
        residual: Floats = self.outputs.residual(Y)
        return residual

    def coordinates(self, rows: Source, out: np.ndarray | None = None) -> np.ndarray:
        raise NotImplementedError


class JointBasis(OverBasis):
    """Coordinates of outputs in both directions, [z(y), sqrt(weight) g(y)], of fitted parts.

    The regressor g was fitted on outputs as the kernel encodes them and on the `n_forward`
    coordinates of inputs; with `cosine` its predictions are scaled to a length of 1. At a weight of
    0 the coordinates are z(y), at infinity g(y).
    """

    def __init__(
        self,
        outputs: Estimator,
        regressor: Estimator,
        n_forward: int,
        weight: float,
        cosine: bool,
    ) -> None:
        self.outputs = outputs
        self.regressor = regressor
        self.n_forward = n_forward
        self.weight = weight
        self.cosine = cosine

    @property
    def rank_backward(self) -> int:
        """The number of coordinates of the backward model."""
        return 0 if np.isinf(self.weight) else self.outputs.rank_

    @property
    def rank_(self) -> int:
        return self.rank_backward + (self.n_forward if self.weight > 0.0 else 0)

    def coordinates(self, rows: Source, out: np.ndarray | None = None) -> np.ndarray:
        out = np.empty((len(rows), self.rank_)) if out is None else out
        p = self.rank_backward
        if p:
            self.outputs.coordinates(rows, out=out[:, :p])
        if self.weight > 0.0:
            for part in row_slices(len(rows), _ROWS):
                taken = rows.take(part)
                if getattr(self.regressor, "takes_sources", False):
                    taken = Memory(taken)
                elif isinstance(taken, Rows) and taken.ndim == 2:
                    taken = np.asarray(taken)  # other libraries take packed bits as arrays
                G = predicted(self.regressor, taken)
                out[part, p:] = scaled(G, self.weight, self.cosine)
        return out

    def _norms(self, rows: Matrix, coordinates: Floats) -> Floats:
        """Return k(c, c) + weight ||g(c)||^2; with cosines the second norm is 1."""
        p = self.rank_backward
        norms: Floats = self.outputs.kernel_.diag(rows) if p else np.zeros(len(coordinates))
        if self.weight == 0.0:
            return norms
        if self.cosine:
            return norms + (1.0 if np.isinf(self.weight) else self.weight)
        squares: Floats = np.einsum("ij,ij->i", coordinates[:, p:], coordinates[:, p:])
        return norms + squares

    def scores_by_direction(
        self, F: Floats, embedding: Floats, indptr: Ints, numbers: Ints
    ) -> dict[str, Floats]:
        """Return the scores of candidates by direction, "backward", "forward" and "cosine".

        Those that apply, with weight 1; the candidates of query i are
        numbers[indptr[i]:indptr[i + 1]].
        """
        if self.weight == 0.0:
            return {}
        used, place = np.unique(numbers, return_inverse=True)
        query = np.repeat(np.arange(len(F)), np.diff(indptr))
        parts = self.parts(F, embedding[used])

        def products(A: Floats, B: Floats) -> Floats:
            return set_scores(A, B, indptr, place)

        scores = {"cosine": 2.0 * products(parts.zx, parts.g) - 1.0}
        if not self.cosine:
            lengths, squares = parts.lengths[query], parts.squares[place]
            pairs = forward_scores(products(parts.zx, parts.g), lengths, squares)
            scores = dict(zip(("forward", "cosine"), pairs, strict=True))
        if self.rank_backward:
            back = products(2.0 * parts.f, parts.z) - parts.norms[place]
            scores = {"backward": back, **scores}
        return scores

    def parts(self, F: Floats, embedding: Floats) -> JointParts:
        """Return the terms of the scores in both directions.

        F is of shape (n, p), and the embedding (c, p + 1), or p + 2 with hubness penalties.
        """
        p, end = self.rank_backward, self.rank_
        weight = 1.0 if np.isinf(self.weight) else self.weight
        zx, g = F[:, p:end] / np.sqrt(weight), embedding[:, p:end] / np.sqrt(weight)
        squares = np.einsum("ij,ij->i", g, g)
        norms = -embedding[:, -1] - weight * squares
        lengths = np.linalg.norm(zx, axis=1)
        return JointParts(F[:, :p], embedding[:, :p], norms, zx, g, lengths, squares)


class JointRegressor(PartsByName):
    """Predictions in both directions, [f(x), sqrt(weight) z_x(x)], of fitted parts.

    A clone can be fitted on other rows, with the same coordinates of inputs.
    """

    #: rows may be sources, see `skout.rows`
    takes_sources = True

    def __init__(
        self, regressor: Estimator, inputs: Estimator, weight: float, cosine: bool
    ) -> None:
        self.regressor = regressor
        self.inputs = inputs
        self.weight = weight
        self.cosine = cosine

    def __sklearn_clone__(self) -> JointRegressor:
        return JointRegressor(clone(self.regressor), self.inputs, self.weight, self.cosine)

    @property
    def uses_residual(self) -> bool:
        return getattr(self.regressor, "uses_residual", False)

    n_features_in_: Any = property(attrgetter("regressor.n_features_in_"))
    feature_names_in_: Any = property(attrgetter("regressor.feature_names_in_"))

    def fit(self, X: Objects, T: np.ndarray, **fit_params: object) -> JointRegressor:
        """Fit the backward map on the coordinates of `JointBasis`, shape (n, p)."""
        if np.isinf(self.weight):
            return self
        n_forward = self.inputs.rank_ if self.weight > 0.0 else 0
        T = np.reshape(T, (len(T), -1))
        T = T[:, : T.shape[1] - n_forward]
        rows = X if getattr(self.regressor, "takes_sources", False) else source(X).load()
        self.regressor.fit(rows, T[:, 0] if T.shape[1] == 1 else T, **fit_params)
        return self

    def predict(self, X: Objects) -> Any:
        """Return the predictions, shape (n, p); for dask collections a dask array."""
        parts: list[Any] = []
        if np.isfinite(self.weight):
            parts.append(predicted(self.regressor, X))
        if self.weight > 0.0:
            Z = self.inputs.transform(plain_outputs(X, "X"))
            parts.append(by_blocks(partial(scaled, weight=self.weight, cosine=self.cosine), Z))
        return parts[0] if len(parts) == 1 else by_blocks(_beside, *parts)


def scaled(Z: Floats, weight: float, cosine: bool) -> Floats:
    """Return sqrt(weight) Z, its rows of length 1 before if `cosine`; infinity counts as 1."""
    factor = 1.0 if np.isinf(weight) else float(np.sqrt(weight))
    if not cosine:
        return factor * Z
    lengths: Floats = np.linalg.norm(Z, axis=1, keepdims=True)
    return factor * Z / np.maximum(lengths, np.finfo(np.float64).tiny)


class JointParts(NamedTuple):
    """The terms of the scores of n queries and c candidates in both directions, with weight 1.

    Backward 2 <f, z> - norms, forward 2 <zx, g> - squares, and by cosines
    2 <zx, g> / (lengths sqrt(squares)) - 1.
    """

    f: Floats  # (n, p)
    z: Floats  # (c, p)
    norms: Floats  # (c,)
    zx: Floats  # (n, q)
    g: Floats  # (c, q)
    lengths: Floats  # (n,)
    squares: Floats  # (c,)


def forward_scores(products: Floats, lengths: Floats, squares: Floats) -> tuple[Floats, Floats]:
    """Return 2 <z_x, g> - ||g||^2 and 2 cos(z_x, g) - 1, of <z_x, g>, ||z_x|| and ||g||^2."""
    both = lengths * np.sqrt(np.maximum(squares, 0.0))
    both = np.maximum(both, np.finfo(np.float64).tiny)
    return 2.0 * products - squares, 2.0 * products / both - 1.0


def _beside(*parts: Array) -> Array:
    """Return arrays side by side as one."""
    return np.hstack(parts)
