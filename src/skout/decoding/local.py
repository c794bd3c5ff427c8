"""Decode by local search: any objects whose neighbours the user can name, such as strings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import as_objects, take
from .._numerics.validation import check_number
from ..basis import KernelBasis
from .base import Decoder
from .candidates import CandidateDecoder, best_positions
from .pools import one
from .sets import CandidateSets

__all__ = ["LocalSearchDecoder"]


class LocalSearchDecoder(Decoder):
    """Climb from the best training outputs, or candidates, to better objects beside them.

    In each round the neighbours of the `beam` best objects of every query are embedded, each
    distinct one once, and the best are kept, until no query gets better.

    Parameters
    ----------
    neighbours : callable
        From an object to a sequence of objects: edits of a string, a molecule, a label set. Of a
        CSR matrix or a data frame, objects are matrices of one row, or rows as series.
    beam : int, default 4
        Objects kept for each query.
    n_rounds : int, default 20
        At most.
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.

    Attributes
    ----------
    start_ : CandidateDecoder
        Where the search starts.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelBasis
    >>> from skout.decoding import LocalSearchDecoder
    >>> def flips(y):
    ...     return [np.where(np.arange(len(y)) == j, 1 - y, y) for j in range(len(y))]
    >>> Y = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> basis = KernelBasis("linear").fit(Y)
    >>> decoder = LocalSearchDecoder(flips).fit(basis, Y)
    >>> decoder.decode(np.array([[0.9, 0.1, 0.8]]))  # not among the training outputs
    array([[1, 0, 1]])
    """

    def __init__(
        self,
        neighbours: Callable[[Any], Sequence[Any]],
        beam: int = 4,
        n_rounds: int = 20,
        n_jobs: int | None = None,
    ) -> None:
        self.neighbours = neighbours
        self.beam = beam
        self.n_rounds = n_rounds
        self.n_jobs = n_jobs

    def fit(self, basis: KernelBasis, Y: Any, coordinates: np.ndarray | None = None) -> Self:
        if not callable(self.neighbours):
            raise TypeError(
                "neighbours must be a function from an object to a sequence of objects. "
                f"Got {self.neighbours!r} instead."
            )
        check_number(self.beam, "beam", low=1, integer=True)
        check_number(self.n_rounds, "n_rounds", integer=True)
        self.start_ = CandidateDecoder(n_jobs=self.n_jobs).fit(basis, Y, coordinates)
        return self

    def decode(self, F: np.ndarray, candidates: Any = None) -> Any:
        check_is_fitted(self)
        like = self.start_.pool_
        if len(F) == 0:
            return take(like, slice(0))
        beams, scores = self._kept(F, candidates)
        active = np.arange(len(F))
        for _ in range(self.n_rounds):
            if len(active) == 0:
                break
            around = [_gathered(self._around(beams[i]), like) for i in active]
            found, reached = self._kept(F[active], CandidateSets.from_lists(around))
            for i, objects in zip(active, found, strict=True):
                beams[i] = objects
            better = reached > scores[active]
            scores[active] = reached
            active = active[better]
        return _gathered([beam[0] for beam in beams], like)

    def _around(self, beam: list[Any]) -> list[Any]:
        """Return the objects of a beam and all their neighbours."""
        return [*beam, *(other for item in beam for other in self.neighbours(item))]

    def _kept(self, F: np.ndarray, candidates: Any) -> tuple[list[list[Any]], np.ndarray]:
        """Return the best few objects of each query, no two alike, and the score of the first."""
        pool, best, scores = best_positions(self.start_, F, candidates, self.beam)
        return [[one(pool.pool, j) for j in positions] for positions in best], scores[:, 0]


def _gathered(objects: list[Any], like: Any) -> Any:
    """Return single objects in a container such as `like`."""
    if sparse.issparse(like):
        return sparse.vstack(objects, format="csr")
    if hasattr(like, "columns"):  # a data frame
        return type(like)(np.array(objects), columns=like.columns)
    if isinstance(like, np.ndarray):
        are_objects = like.ndim == 1 and like.dtype == object  # tuples, which must stay so
        return as_objects(objects) if are_objects else np.array(objects)
    return objects if isinstance(like, list) else type(like)(objects)
