"""Indices of very large pools, from faiss: exact by default, approximate on request."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone

from .._numerics.arrays import row_slices
from .._numerics.estimators import PartsByName
from .._numerics.extras import extra
from .._numerics.saving import arrays_of, with_attributes
from .._numerics.typing import Estimator, State
from .._numerics.validation import check_number, resolve
from ..rows import block_rows
from .search import Found, top_k

_ADDED = 2**16  # rows that are copied to float32 at a time


class FaissIndex(PartsByName):
    """Maximum inner product search by faiss (`pip install "skout[ann]"`).

    faiss works in float32. Somewhat more than k candidates are taken from it and scored again in
    float64, so that with the default factory the result is exact but for candidates that float32
    cannot tell apart.

    Parameters
    ----------
    factory : str, default "Flat"
        As faiss.index_factory takes it. "Flat" compares with every candidate; others, such as
        "IVF1024,Flat" or "HNSW32", visit a part of the pool: see `index_recall`.
    n_probe : int, optional
        Cells that an IVF index visits for each query; default 1, that of faiss.
    n_more : int, default 32
        Candidates beyond k that are scored again.

    Attributes
    ----------
    embedding_ : ndarray of shape (c, p)

    Examples
    --------
    >>> import numpy as np
    >>> from skout.decoding import FaissIndex
    >>> E = np.random.default_rng(0).standard_normal((1000, 8))
    >>> index = FaissIndex().build(E)  # doctest: +SKIP
    >>> indices, scores = index.search(E[:3], 5)  # doctest: +SKIP
    """

    def __init__(self, factory: str = "Flat", n_probe: int | None = None, n_more: int = 32) -> None:
        self.factory = factory
        self.n_probe = n_probe
        self.n_more = n_more

    def build(self, embedding: np.ndarray) -> Self:
        """Index the embedded candidates.

        Parameters
        ----------
        embedding : ndarray of shape (c, p)
            A row for each candidate.
        """
        faiss = _faiss()
        check_number(self.n_more, "n_more", integer=True)
        p = embedding.shape[1]
        index = faiss.index_factory(p, self.factory, faiss.METRIC_INNER_PRODUCT)
        if self.n_probe is not None:
            self._set_n_probe(index)
        if not index.is_trained:
            index.train(np.ascontiguousarray(embedding, dtype=np.float32))
        for block in row_slices(len(embedding), _ADDED):
            index.add(np.ascontiguousarray(embedding[block], dtype=np.float32))
        self._index = index
        self.embedding_ = embedding
        return self

    def _set_n_probe(self, index: Estimator) -> None:
        """Set the number of cells that an IVF index visits."""
        check_number(self.n_probe, "n_probe", low=1, integer=True)
        try:
            _faiss().ParameterSpace().set_index_parameter(index, "nprobe", self.n_probe)
        except RuntimeError as error:
            raise ValueError(
                f"n_probe={self.n_probe} is for indices that have cells, such as "
                f'"IVF1024,Flat". The factory {self.factory!r} has none: leave n_probe out.'
            ) from error

    def search(self, queries: np.ndarray, k: int) -> Found:
        """Return positions and inner products of the k best candidates, shape (n, k).

        Where fewer are found, positions are -1 and inner products -inf.

        Parameters
        ----------
        queries : ndarray of shape (n, p)
            A row for each query.
        k : int
            Candidates to return for each query.
        """
        n, (c, p) = len(queries), self.embedding_.shape
        n_found = min(c, k + self.n_more)
        indices, scores = np.empty((n, min(c, k)), dtype=np.intp), np.empty((n, min(c, k)))
        for block in row_slices(n, block_rows(n, 8 * n_found * p)):
            indices[block], scores[block] = self._search_block(queries[block], k, n_found)
        return indices, scores

    def _search_block(self, queries: np.ndarray, k: int, n_found: int) -> Found:
        """Score the candidates of faiss again in float64; gathers an array (b, n_found, p)."""
        _, positions = self._index.search(np.ascontiguousarray(queries, dtype=np.float32), n_found)
        positions = np.sort(positions, axis=1)  # ties go to the lower one; -1 is none
        scores = np.einsum("ij,ikj->ik", queries, self.embedding_[positions])
        scores[positions < 0] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        positions = np.take_along_axis(positions, order, axis=1)
        return positions, np.take_along_axis(scores, order, axis=1)

    def __skout_state__(self) -> State:
        # without the index itself: faiss would have to read bytes that it cannot check
        return {name: value for name, value in vars(self).items() if name != "_index"}

    @classmethod
    def __skout_restore__(cls, state: State) -> FaissIndex:
        (index,) = with_attributes(cls, state)
        return index.build(*arrays_of(state, "embedding_")) if "embedding_" in state else index

    def __getstate__(self) -> State:
        if not hasattr(self, "_index"):
            return vars(self)
        # a pointer into faiss: kept as its bytes
        return {**vars(self), "_index": _faiss().serialize_index(self._index)}

    def __setstate__(self, state: State) -> None:
        vars(self).update(state)
        if "_index" in state:
            self._index = _faiss().deserialize_index(state["_index"])


def _faiss() -> Any:
    with extra("ann", "FaissIndex needs faiss"):
        import faiss
    return faiss


_INDICES: dict[str, Any] = {"faiss": FaissIndex}


def as_index(spec: Estimator | str | None) -> Any:
    """Return a fresh index from an index, a name or None."""
    if spec is None:
        return None
    if isinstance(spec, str):
        return resolve(spec, _INDICES, "index")()
    if not (hasattr(spec, "build") and hasattr(spec, "search")):
        raise TypeError(
            f'index must be None, "faiss" or an object with build and search. Got {spec!r}.'
        )
    return clone(spec, safe=False)  # any object with these two methods will do


def index_recall(
    index: Estimator, embedding: np.ndarray, queries: np.ndarray, k: int = 10
) -> float:
    """Return the share of the true k best candidates that an index finds.

    Parameters
    ----------
    index : FaissIndex, or any object with `build` and `search`
        Built on `embedding` already, or not.
    embedding : ndarray of shape (c, p)
        A row for each candidate.
    queries : ndarray of shape (n, p)
        A sample: each is compared with every candidate.
    k : int, default 10
        Candidates of each query that are compared.

    Returns
    -------
    recall : float
        1 is exact.
    """
    built = index if getattr(index, "embedding_", None) is embedding else index.build(embedding)
    ranked, _ = built.search(queries, k)
    truth, _ = top_k(queries, embedding, k)
    return float(np.mean([np.isin(t, f).mean() for t, f in zip(truth, ranked, strict=True)]))
