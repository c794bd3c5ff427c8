"""Decode by the best of the candidates: arg max of 2 <f(x), z(c)> - k(c, c) (4.5, 5.17).

Candidates come as one pool shared by all queries, or as one set a query. Either way each distinct
candidate is encoded and embedded once, as [z(c), -k(c, c)], and scored by one inner product with
[2 f(x), 1]. Those with penalties, see `correct_hubness`, are [z(c), penalty(c), -k(c, c)] and meet
[2 f(x), -||f(x)||, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self
from uuid import uuid4

import numpy as np
from numpy.lib.format import open_memmap
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import has_rows, match, n_rows, row_slices, take, unique
from .._numerics.files import check_place, new_map, replacing
from .._numerics.objects import column_of
from .._numerics.typing import Candidates, Estimator, Index, Objects, PathLike, State
from .._numerics.typing import Rows as EncodedRows
from ..basis import KernelBasis
from ..metrics.retrieval import share_of
from ..rows import Memory, Source, encoded
from ..rows.encode import named
from .base import Decoder, PendingOutputs, plain_outputs
from .index import as_index
from .pools import (
    EmbeddedPool,
    are_lists,
    as_sets,
    check_found,
    check_kinds,
    check_made_by,
    check_one_for_each,
    check_sets,
    comparable,
    kinds,
    taken,
    truth_in,
    with_copies,
)
from .search import Found, count_better, floor_of, ranks_of, slack_of, top_k, within
from .sets import CandidateSets, best_of_sets, count_better_of_sets, set_scores, top_k_of_sets

# Rows whose k(c, c) is computed at a time, of any kernel: enough that calls cost nothing.
_DIAGONAL = 2**16


class CandidateDecoder(Decoder):
    """Find the objects whose features are nearest to predicted coordinates.

    ||h(x) - psi(c)||^2 = const - (2 <f(x), z(c)> - k(c, c)) when h(x) lies in the span of the
    basis, so the score needs p numbers and one norm a candidate: [2 f, 1] . [z(c), -k(c, c)].

    Candidates are None (the distinct training outputs), one pool of objects, a `CandidateSets` or
    a list of lists (one set a query), or what `embed` made of any of these.

    Parameters
    ----------
    index : None, "faiss" or FaissIndex, default None
        How a shared pool is searched. None is exact and streams over blocks; a `FaissIndex` may
        be approximate, see `index_recall`.
    n_jobs : int, optional
        Threads; None means as many as BLAS would use.
    device : str, optional
        "cuda" searches a shared pool on a GPU.

    Attributes
    ----------
    basis_ : KernelBasis
    pool_ : objects
        The distinct training outputs, used when no candidates are given. Those on a cluster are
        fetched when they are first used.
    embedding_ : ndarray of shape (n_candidates, p + 1)
        [z(c), -k(c, c)] of the pool.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import KernelBasis
    >>> from skout.decoding import CandidateDecoder
    >>> Y = np.eye(3)
    >>> basis = KernelBasis("linear").fit(Y)
    >>> decoder = CandidateDecoder().fit(basis, Y)
    >>> decoder.decode(basis.transform(Y[[2, 0]]))
    array([[0., 0., 1.],
           [1., 0., 0.]])
    >>> decoder.decode(basis.transform(Y[[2, 0]]), [Y[:2], Y[1:]])  # a set for each query
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """

    # the training outputs as a pool, embedded when it is first searched
    _training: EmbeddedPool | None = None
    _outputs: PendingOutputs | None = None  # the same on a cluster, until they are needed
    _dropped: int | None = None  # the most that are kept, where there were more
    #: `fit` takes encoded rows too, and outputs that are read when they are needed
    takes_rows = True
    _by_name: ClassVar[dict[str, Any]] = {"index": as_index}

    pool_: Objects

    def __init__(
        self,
        index: Estimator | str | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        self.index = index
        self.n_jobs = n_jobs
        self.device = device

    def fit(
        self,
        basis: KernelBasis,
        Y: Objects,
        coordinates: np.ndarray | None = None,
        *,
        rows: EncodedRows | None = None,
    ) -> Self:
        """Keep the distinct training outputs as the default pool.

        Parameters
        ----------
        basis : KernelBasis
            Fitted on the outputs.
        Y : objects
            The training outputs.
        coordinates : ndarray of shape (n, p), optional
            Those of Y, where they are computed already.
        rows : encoded rows, optional
            Y as the kernel of the basis encodes it, where that is done already.
        """
        if self.index is not None:
            as_index(self.index)
        self._forget_pool()
        self.basis_ = basis
        self._name = uuid4().hex  # also of a copy from a pickle, which may use the same pools
        if isinstance(Y, PendingOutputs):
            self._outputs, self._kinds = Y, kinds(basis.landmarks_)
        else:
            self._keep(Y, coordinates, rows)
        return self

    def _keep(
        self, Y: Objects, coordinates: np.ndarray | None = None, rows: EncodedRows | None = None
    ) -> None:
        """Make the distinct outputs the default pool."""
        rows = self.basis_.kernel_.encode(Y) if rows is None else rows
        self._kinds = None if rows.ndim == 2 else kinds(rows)
        first, number = unique(rows)
        self.pool_, self._counts = take(Y, first), np.bincount(number)
        self._hold(take(rows, first), None if coordinates is None else coordinates[first])

    def _hold(self, rows: EncodedRows, coordinates: np.ndarray | None) -> None:
        """Embed the distinct outputs, given as encoded rows."""
        embedding = np.empty((n_rows(rows), self.basis_.rank_ + 1))
        self.embedding_: np.ndarray = self._fill(
            embedding, Memory(rows), lambda: self.pool_, coordinates
        )
        if self.index is not None:
            self._training_pool()  # builds the index now, not for the first query

    def _forget_pool(self) -> None:
        for name in ("pool_", "embedding_", "_counts", "_training", "_outputs", "_dropped"):
            self.__dict__.pop(name, None)

    def _fill(
        self,
        out: np.ndarray,
        rows: Source,
        objects: Callable[[], Objects],
        coordinates: np.ndarray | None = None,
    ) -> np.ndarray:
        """Write the embedding of rows into `out`; `objects()` returns these before encoding."""
        p = self.basis_.rank_
        if coordinates is None:
            self.basis_.coordinates(rows, out=out[:, :p])
        else:
            out[:, :p] = coordinates
        # k(c, c), unless the basis defines other norms, as that of TwoWay
        norms = getattr(self.basis_, "_norms", lambda part, _: self.basis_.kernel_.diag(part))
        for part in row_slices(len(out), _DIAGONAL):
            out[part, p] = -norms(rows.take(part), out[part, :p])
        return out

    @property
    def made_by(self) -> str:
        """The identifier of this fit; an embedded pool has it, and serves this fit alone."""
        check_is_fitted(self)
        return self._name

    def without_pool(self) -> Self:
        """Return a copy without the default pool, to be sent to workers or saved."""
        light = copy(self)
        light._forget_pool()
        return light

    def drop_pool(self, limit: int) -> None:
        """Keep no default candidates: there are more than `limit` distinct training outputs.

        Parameters
        ----------
        limit : int
            For the message where candidates are missing.
        """
        self._forget_pool()
        self._dropped = limit

    @property
    def pending(self) -> PendingOutputs | None:
        """The distinct training outputs, if they are still on a cluster."""
        return self._outputs

    def find_pool(self) -> None:
        """Fetch the distinct training outputs, if they are still on a cluster."""
        if self._outputs is not None:
            objects, self._outputs = self._outputs.objects(), None
            self._keep(objects)

    def __skout_state__(self) -> State:
        self.find_pool()
        return {name: value for name, value in vars(self).items() if name != "_training"}

    def _training_pool(self) -> EmbeddedPool:
        """Return the training outputs as an embedded pool, or raise if they were not kept."""
        if self._outputs is not None:
            self.find_pool()
        embedding: Any = getattr(self, "embedding_", ())
        if self._training is None and len(embedding):
            each = np.arange(len(embedding))
            pool = EmbeddedPool(self.pool_, each, each, embedding, self._name, counts=self._counts)
            self._training = self._indexed(pool)
        if self._training is not None:
            return self._training
        if self._dropped is None:
            raise ValueError("The model was saved without candidates: give candidates.")
        raise ValueError(
            f"The training outputs, of which more than {self._dropped} differ, were not kept as "
            "candidates: give candidates=."
        )

    def embed(self, candidates: Candidates, path: PathLike | None = None) -> EmbeddedPool:
        """Encode and embed candidates once, to rank them for many queries.

        Parameters
        ----------
        candidates : objects, CandidateSets or list of lists
            One pool for all queries, or one set for each.
        path : path, optional
            A .npy file to write the embedding to, which is then a memory map of it.
        """
        check_is_fitted(self)
        if path is not None:
            check_place(path, streams=False)
        if candidates is None:
            return self._training_pool()
        if isinstance(candidates, EmbeddedPool):
            check_made_by(candidates, self._name)
            return candidates
        objects: Any = candidates
        objects = column_of(objects)
        if are_lists(objects, self.basis_.landmarks_):
            objects = CandidateSets.from_lists(objects)
        if isinstance(objects, CandidateSets):
            check_sets(objects)
            used: Any = np.flatnonzero(np.bincount(objects.indices))  # without sorting them
            used = slice(None) if len(used) == n_rows(objects.pool) else used  # no copy
            return self._embedded(objects, objects.pool, used, path)
        if not has_rows(objects):
            raise TypeError(
                "candidates must be a list or array of objects, CandidateSets or a list of lists. "
                f"Got {objects!r} instead."
            )
        if n_rows(objects) == 0:
            raise ValueError("candidates is empty: give at least one object to choose from.")
        return self._indexed(self._embedded(objects, objects, slice(None), path))

    def _embedded(
        self,
        objects: Objects | CandidateSets,
        pool: Objects,
        used: Index,
        path: PathLike | None = None,
    ) -> EmbeddedPool:
        """Return the used members of a pool embedded, each distinct one once."""
        rows = self._encoded(pool if isinstance(used, slice) else taken(pool, used))
        first, number = rows.unique()
        inverse = np.full(n_rows(pool), -1, dtype=np.intp)
        inverse[used] = number
        distinct = rows if len(first) == len(rows) else rows.subset(first)
        position = np.arange(n_rows(pool))[used][first]
        embedding = self._embedding(distinct, lambda: taken(pool, position), path)
        return EmbeddedPool(objects, position, inverse, embedding, self._name)

    def _encoded(self, objects: Objects, name: str = "candidates") -> Source:
        """Encode objects, which must be of the kind of the training outputs."""
        if n_rows(objects) == 0:  # an empty list has no type to check
            return Memory(take(self.basis_.landmarks_, slice(0)))
        if not hasattr(self.basis_, "feature_names_in_"):  # of a frame, names would be compared
            objects = plain_outputs(objects, name)
        with named(name):
            rows = encoded(self.basis_, self.basis_.kernel_, objects, reset=False)
        check_kinds(kinds(rows.like), self._kinds)
        return rows

    @property
    def _width(self) -> int:
        return int(self.basis_.rank_) + 1

    def _embedding(
        self, rows: Source, objects: Callable[[], Objects], path: PathLike | None = None
    ) -> np.ndarray:
        """Return [z(c), -k(c, c)] of encoded rows, in a file if there is a path."""
        shape = (len(rows), self._width)
        if path is None:
            return self._fill(np.empty(shape), rows, objects)
        with replacing(path) as part:  # an earlier pool may still read a file of that name
            self._fill(new_map(part, shape), rows, objects)
        return open_memmap(path, "r")

    def _indexed(self, pool: EmbeddedPool) -> EmbeddedPool:
        """Return the pool with the index of the decoder, if it has one."""
        index = None if self.index is None else as_index(self.index).build(pool.embedding)
        return replace(pool, index=index)

    def rank(self, F: np.ndarray, candidates: Candidates = None, k: int = 10) -> Found:
        pool = self.embed(candidates)
        k = pool.width(k)
        queries = self.queries(F, pool)
        if pool.is_per_query:
            return top_k_of_sets(self._set_scores(queries, pool), pool.sets.indptr, k)
        n_distinct = min(k, len(pool.first))
        if pool.index is not None:
            ranked = pool.index.search(queries, n_distinct)
        else:
            ranked = top_k(
                queries, pool.embedding, n_distinct, n_jobs=self.n_jobs, device=self.device
            )
        return with_copies(ranked, pool, k)

    def decode(self, F: np.ndarray, candidates: Candidates = None) -> Objects:
        pool = self.embed(candidates)
        indices, _ = self.rank(F, pool, k=1)
        if pool.is_per_query:
            chosen = pool.sets.indices[pool.sets.indptr[:-1] + indices[:, 0]]
            return taken(pool.pool, chosen)
        if pool.index is not None:
            check_found(indices[:, 0])
        return taken(pool.pool, indices[:, 0])

    def truth_ranks(
        self, F: np.ndarray, Y: Objects, candidates: Candidates = None, *, ties: str = "average"
    ) -> np.ndarray:
        """Return the rank of each true object among the distinct candidates; 1 is best.

        Parameters
        ----------
        F : ndarray of shape (n, p)
            Predicted coordinates.
        Y : objects, n of them
            The true objects.
        candidates : optional
            Default the distinct training outputs.
        ties : "average", "worst" or "best", default "average"
            Where the truth comes among candidates of the same score: in the middle, last or first.

        Returns
        -------
        ranks : ndarray of shape (n,)
            Infinite where the truth is not among the candidates.
        """
        share, pool = share_of(ties), self.embed(candidates)
        queries, truth = self.queries(F, pool), truth_in(pool, self, Y, len(F))
        scores_of_truth = np.einsum("ij,ij->i", queries, pool.embedding[truth])
        slack = slack_of(queries, scores_of_truth)
        if pool.is_per_query:
            pool = pool.distinct()
            scores = self._set_scores(queries, pool)
            counts = count_better_of_sets(scores, pool.sets.query_of, scores_of_truth, slack)
        else:
            counts = count_better(
                queries, pool.embedding, scores_of_truth, slack, n_jobs=self.n_jobs
            )
        return ranks_of(truth, counts, share)

    def gaps(self, F: np.ndarray, Y: Objects, candidates: Candidates = None) -> np.ndarray:
        """Return by how much the best candidate outscores each true object, at least 0.

        Parameters
        ----------
        F : ndarray of shape (n, p)
            Predicted coordinates.
        Y : objects, n of them
            The true objects.
        candidates : optional
            Default the distinct training outputs.

        Returns
        -------
        gaps : ndarray of shape (n,)
            Infinite where the truth is not among the candidates.
        """
        pool = self.embed(candidates)
        queries, truth = self.queries(F, pool), truth_in(pool, self, Y, len(F))
        if pool.is_per_query:
            best = best_of_sets(self._set_scores(queries, pool), pool.sets.indptr)
        else:
            best = top_k(queries, pool.embedding, 1, n_jobs=self.n_jobs)[1][:, 0]
        scores_of_truth = np.einsum("ij,ij->i", queries, pool.embedding[truth])
        return np.where(truth >= 0, np.maximum(best - scores_of_truth, 0.0), np.inf)

    def within(self, F: np.ndarray, gap: float, candidates: Candidates = None) -> CandidateSets:
        """Return for each query the distinct candidates that score within `gap` of the best.

        Parameters
        ----------
        F : ndarray of shape (n, p)
            Predicted coordinates.
        gap : float
            At least 0, so that no set is empty.
        candidates : optional
            Default the distinct training outputs.

        Returns
        -------
        sets : CandidateSets
            Best first.
        """
        pool = self.embed(candidates)
        queries = self.queries(F, pool)
        if pool.is_per_query:
            pool = pool.distinct()
            sets = pool.sets
            scores = self._set_scores(queries, pool)
            floor = floor_of(queries, best_of_sets(scores, sets.indptr), gap)
            inside = np.flatnonzero(scores >= floor[sets.query_of])
            return sets.select(inside[np.lexsort((-scores[inside], sets.query_of[inside]))])
        best = top_k(queries, pool.embedding, 1, n_jobs=self.n_jobs)[1][:, 0]
        floor = floor_of(queries, best, gap)
        return as_sets(within(queries, pool.embedding, floor, n_jobs=self.n_jobs), pool)

    def queries(self, F: np.ndarray, pool: EmbeddedPool) -> np.ndarray:
        """Return the vectors whose inner products with `pool.embedding` are the scores.

        Parameters
        ----------
        F : ndarray of shape (n, p)
            Predicted coordinates.
        pool : EmbeddedPool
            The candidates that are scored.

        Returns
        -------
        queries : ndarray of shape (n, p + 1), or p + 2 if candidates have penalties
            [2 f, 1] for each row, or [2 f, -||f||, 1].
        """
        check_one_for_each(pool, len(F))
        columns = [2.0 * F, np.ones(len(F))]
        if pool.embedding.shape[1] == self.basis_.rank_ + 2:
            columns.insert(1, -np.linalg.norm(F, axis=1))
        return np.column_stack(columns)

    def penalized(self, pool: EmbeddedPool, penalties: np.ndarray) -> EmbeddedPool:
        """Return candidates whose scores are lower by ||f(x)|| times a penalty.

        Parameters
        ----------
        pool : EmbeddedPool
            Of this decoder; penalties that it has are replaced.
        penalties : ndarray of shape (n_distinct,)
            One for each row of `pool.embedding`.

        Returns
        -------
        pool : EmbeddedPool
            In memory, even if the coordinates of `pool` are in a file.
        """
        check_made_by(pool, self._name)
        E, p = pool.embedding, self.basis_.rank_
        if np.shape(penalties) != (len(E),) or not np.all(np.isfinite(penalties)):
            raise ValueError(
                f"penalties must be {len(E)} finite numbers, one for each distinct candidate. "
                f"Got {penalties!r} instead."
            )
        embedding = np.column_stack([E[:, :p], penalties, E[:, -1]])
        pool = replace(pool, embedding=embedding, index=None)
        return pool if pool.is_per_query else self._indexed(pool)

    def matched(self, Y: Objects, pool: EmbeddedPool) -> np.ndarray:
        """Return the number of the distinct candidate that equals each object.

        Parameters
        ----------
        Y : objects, n of them
            The objects to find.
        pool : EmbeddedPool
            The candidates to find them among.

        Returns
        -------
        numbers : ndarray of int, shape (n,)
            Rows of `pool.embedding`; -1 where the object is no candidate.
        """
        distinct = self._encoded(taken(pool.pool, pool.first)).load()
        return match(*comparable(self._encoded(Y, "Y").load(), distinct))

    def _set_scores(self, queries: np.ndarray, pool: EmbeddedPool) -> np.ndarray:
        indptr = pool.sets.indptr
        return set_scores(queries, pool.embedding, indptr, pool.members, n_jobs=self.n_jobs)
