"""The base class of decoders, and the training outputs that they are fitted on.

Outputs are encoded once: to fit a basis, for their coordinates, and to find the distinct ones,
which are the default candidates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_array

from .._numerics.arrays import n_rows, numpy_of, row_keys, take
from .._numerics.estimators import PartsByName
from .._numerics.objects import Rows, column_of
from .._numerics.typing import Candidates, Estimator, KernelRows, Objects
from .._numerics.validation import resolve
from ..basis import KernelBasis
from ..basis.weights import OutputWeights
from ..kernels import as_kernel
from ..rows import Reduction, Source, encoded, limits
from ..rows.encode import numbers_in

#: Names accepted wherever a decoder is, each for the default-constructed class; filled in
#: `skout.decoding`.
DECODERS: dict[str, Any] = {}
# Distinct outputs that are kept as default candidates, at most: on a cluster they are sent to this
# process. A convention.
_MOST_OUTPUTS = 100_000


def as_decoder(spec: DecoderLike) -> Any:
    """Return a fresh decoder from a decoder, a name or None (the best of the candidates).

    Parameters
    ----------
    spec : decoder, str or None
        A name is one of `DECODERS`.

    Examples
    --------
    >>> from skout.decoding import as_decoder
    >>> as_decoder("label_sets")
    LabelSetDecoder()
    """
    if spec is None:
        spec = "candidates"
    if isinstance(spec, str):
        return resolve(spec, DECODERS, "decoder")()
    if not hasattr(spec, "decode"):
        raise TypeError(f"decoder must be a decoder, a name or None. Got {spec!r} instead.")
    return clone(spec)


class Decoder(ABC, PartsByName):
    """Base of all decoders: arg max over objects c of 2 <f(x), z(c)> - k(c, c) (4.5, 5.17).

    A decoder holds parameters until `fit` gives it the output basis and the training outputs. One
    that knows how the objects are made (label sets, rankings) needs no candidates. One that needs
    other coordinates than those of the user's basis has a method `basis_for(basis, regressor)`.
    """

    @abstractmethod
    def fit(self, basis: KernelBasis, Y: Objects, coordinates: np.ndarray | None = None) -> Self:
        """Fit the decoder on a basis and the training outputs.

        Parameters
        ----------
        basis : KernelBasis
            Fitted on the outputs, with a kernel that the decoder takes.
        Y : objects, n of them
            The training outputs.
        coordinates : ndarray of shape (n, p), optional
            Those of Y, where they are computed already.
        """

    @abstractmethod
    def decode(self, F: np.ndarray, candidates: Candidates = None) -> Objects:
        """Return the best object of each predicted row.

        Parameters
        ----------
        F : ndarray of shape (n, p)
            Predicted coordinates.
        candidates : optional
            What to choose from, or where a search starts; default the distinct training outputs.
            None for a decoder that searches all objects.

        Returns
        -------
        objects : n of them, in the container type of the candidates or of the training outputs
        """

    def rank(
        self, F: np.ndarray, candidates: Candidates = None, k: int = 10
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best candidates of each predicted row, if the decoder has candidates.

        Parameters
        ----------
        F : ndarray of shape (n, p)
            Predicted coordinates.
        candidates : optional
            Default the distinct training outputs.
        k : int, default 10
            How many to return; of a shared pool that has fewer, all.

        Returns
        -------
        indices : ndarray of int, shape (n, k)
            Positions in the pool, or in the query's own set, best first; ties go to the lower
            position. Padded with -1 where a set has, or an index finds, fewer than k candidates.
        scores : ndarray of shape (n, k)
            2 <f, z(c)> - k(c, c), padded with -inf.
        """
        raise TypeError(
            f"{type(self).__name__} builds objects instead of ranking candidates, and has no "
            'method rank. To rank them, fit the model with decoder="candidates".'
        )

    def _refuse(self, candidates: Candidates) -> None:
        """Raise where candidates are given to a decoder that builds objects by itself."""
        if candidates is not None:
            raise ValueError(
                f"{type(self).__name__} searches all objects, so candidates must be None. To "
                'choose among candidates, fit the model with decoder="candidates".'
            )


#: A decoder, the name of one, or None: the best candidate.
DecoderLike: TypeAlias = Decoder | str | None


def able(decoder: Estimator, *methods: str, by: str) -> Estimator:
    """Return a decoder if it has all of these methods; else raise an error that names `by`.

    Methods are tested, not classes, so that decoders of users work as ours do.
    """
    missing = [name for name in methods if not callable(getattr(decoder, name, None))]
    if missing:
        kind = type(decoder).__name__
        names = ", ".join(missing)
        raise TypeError(
            f"{by} needs a decoder with {names}, and {kind} has none. Fit the model with "
            f'decoder="candidates", or, if {kind} is your own, write {names}.'
        )
    return decoder


# Training outputs ---------------------------------------------------------------------------------


def plain_outputs(Y: Objects | None, name: str = "Y") -> Any:
    """Return outputs in a data frame or series as an array, since files hold no frames."""
    if isinstance(Y, np.ndarray):
        return Y
    Y = column_of(numpy_of(Y))  # type: ignore[arg-type]
    if not hasattr(Y, "to_numpy"):
        return Y
    if not hasattr(Y, "columns"):
        return Y.to_numpy()  # type: ignore[union-attr]
    with numbers_in(Y, name):
        return check_array(
            Y, accept_sparse="csr", dtype=None, ensure_all_finite=False, input_name=name
        )


def relate_coordinates(regressor: Estimator, basis: Estimator) -> None:
    """Set the task matrix of a regressor, between columns of the outputs, to that of coordinates.

    The basis functions of a linear kernel are vectors, the rows of E, and M becomes E M E'.
    """
    M = getattr(regressor, "task_matrix", None)
    kernel = getattr(basis, "kernel_", None)
    if M is None or isinstance(M, str) or kernel is None or not kernel.is_linear:
        return
    M = np.asarray(M)
    if M.shape == (basis.landmarks_.shape[1],) * 2:
        E = basis.combine(basis.landmarks_)
        E = kernel.transform(E) if hasattr(kernel, "transform") else E  # of curves
        regressor.set_params(task_matrix=E @ M @ E.T)


@dataclass(frozen=True)
class PendingOutputs:
    """The distinct training outputs on a cluster, which are fetched when they are needed."""

    source: Source  # all outputs, as the user gave them
    positions: np.ndarray  # those that differ, in the order in which they appear

    def objects(self) -> Any:
        """Return the distinct outputs, in the memory of this process."""
        return self.source.take(self.positions)


@dataclass(frozen=True)
class FittedOutputs:
    """The training outputs of a fit: objects, encoded rows and coordinates in a basis."""

    basis: Any
    outputs: Source  # the objects; `resident` where they are in memory
    rows: Source | None  # the same, encoded; None if the basis is of another class
    targets: Any  # their coordinates: an array of shape (n, p), or a Source
    # of the distinct outputs where they are not in memory; None where there are too many
    positions: np.ndarray | None = None

    def residual(self) -> Any:
        """Return the squared norm of each output that is outside of the basis."""
        if self.rows is None:
            return self.basis.residual(self.outputs.load())
        return self.basis.engine_.residual(self.rows)

    def subset(self, index: np.ndarray) -> FittedOutputs:
        """Return the same for the outputs at increasing positions."""
        outputs = self.outputs.subset(index)
        rows = None if self.rows is None else self.rows.subset(index)
        targets = self.targets
        targets = targets[index] if isinstance(targets, np.ndarray) else targets.subset(index)
        positions = None
        if self.positions is not None and rows is not None:
            positions = rows.reduce(Distinct(_MOST_OUTPUTS), np.arange(len(index)))
        return FittedOutputs(self.basis, outputs, rows, targets, positions)

    def fitted(self, decoder: Estimator) -> Any:
        """Fit a decoder on the outputs, or on the distinct ones where they are not in memory."""
        basis, Y = self.basis, self.outputs.resident
        coordinates = self.targets if isinstance(self.targets, np.ndarray) else None
        takes_rows = getattr(decoder, "takes_rows", False)  # encoded rows, or pending outputs
        if Y is not None or self.rows is None:
            Y = self.outputs.load() if Y is None else Y
            more = {"rows": self.rows.load()} if takes_rows and self.rows is not None else {}
            return decoder.fit(basis, Y, coordinates, **more)
        if self.positions is None:
            return self._without_pool(decoder)
        pending = PendingOutputs(self.outputs, self.positions)
        is_later = takes_rows and self.outputs.is_remote
        return decoder.fit(basis, pending if is_later else pending.objects())

    def shortened(self, regressor: Estimator, decoder: Estimator) -> tuple[Any, Any, Any]:
        """Return regressor, basis and decoder, with fewer numbers to predict if they are too many.

        That is where weights of outputs are predicted, of which a square matrix is larger than
        `memory_limits` allows, and the regressor has `in_halves`. The basis then holds the map from
        these numbers to weights, and the decoder is fitted on it.
        """
        basis = self.basis
        is_small = 8 * getattr(basis, "rank_", 0) ** 2 <= limits().coordinates_bytes
        if is_small or not isinstance(basis, OutputWeights):
            return regressor, basis, decoder
        halves = regressor.in_halves()
        if halves is None:
            return regressor, basis, decoder
        basis = basis.mixed(halves[1])
        return halves[0], basis, replace(self, basis=basis).fitted(decoder)

    def _without_pool(self, decoder: Estimator) -> Any:
        if not callable(getattr(decoder, "drop_pool", None)):
            raise ValueError(
                f"{type(decoder).__name__} learns from the distinct outputs, of which there are "
                f'more than {_MOST_OUTPUTS}: use decoder="candidates".'
            )
        first = self.outputs.take(slice(0, 1))
        decoder.fit(self.basis, first).drop_pool(_MOST_OUTPUTS)
        return decoder


def fit_outputs(
    basis: Estimator, outputs: Source, *, lazy: bool, sparsely: bool | None = None
) -> FittedOutputs:
    """Fit a basis, or a transformer like it, on outputs; return outputs with their coordinates.

    If `lazy`, coordinates that would take more memory than `memory_limits` allows, or are not in
    memory, are a source, whose blocks are computed when they are read; if `sparsely`, indicators of
    outputs are a source of sparse blocks then.
    """
    if not isinstance(basis, KernelBasis):
        return FittedOutputs(basis, outputs, None, basis.fit_transform(outputs.load()))
    rows = encoded(basis, as_kernel(basis.kernel), outputs, reset=True)
    in_memory = rows.resident is not None
    distinct = None if in_memory else Distinct(_MOST_OUTPUTS)
    positions = basis.fit_encoded(rows, also=distinct)
    targets: Any
    if isinstance(basis, OutputWeights):
        targets = basis.indicators(rows, sparsely=sparsely)
    elif not lazy:
        targets = np.asarray(basis.training_coordinates(rows))
    elif not in_memory or (  # without a sketch, the basis itself holds as many numbers
        basis.sketch is not None and 8 * len(rows) * basis.rank_ > limits().coordinates_bytes
    ):
        empty = np.empty((0, basis.rank_), dtype=rows.precision)
        targets = rows.then(basis.engine_.projection, empty)
    else:
        targets = basis.training_coordinates(rows)
    return FittedOutputs(basis, outputs, rows, targets, positions)


def same_candidates(decoder: Estimator, basis: Estimator) -> Any:
    """Return a copy of a fitted decoder with the same default pool, fitted on another basis."""
    fresh = clone(decoder)
    if decoder.pending is not None:
        return fresh.fit(basis, decoder.pending)
    if hasattr(decoder, "pool_"):
        return fresh.fit(basis, decoder.pool_)
    fresh.fit(basis, take(basis.landmarks_, slice(0, 1))).drop_pool(_MOST_OUTPUTS)
    return fresh


# Distinct outputs, in one pass, by keys that are the same on all machines -----------------------


class Distinct(Reduction[Any]):
    """Reduction to the positions of the distinct rows, as they appear; None beyond `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, rows: KernelRows, *beside: np.ndarray) -> dict[Any, int]:
        (numbers,) = beside
        return self._add({}, zip(keys_of(rows, numbers), numbers.tolist(), strict=True))

    def combine(self, total: dict[Any, int] | None, part: dict[Any, int]) -> dict[Any, int]:
        return self._add({} if total is None else total, part.items())

    def _add(self, positions: dict[Any, int], more: Iterable[tuple[Any, int]]) -> dict[Any, int]:
        for key, number in more:
            positions.setdefault(key, number)
            if len(positions) > self.limit:
                break
        return positions

    def finish(self, total: dict[Any, int]) -> np.ndarray | None:
        if len(total) > self.limit:
            return None
        return np.fromiter(total.values(), dtype=np.intp, count=len(total))


def keys_of(rows: KernelRows, numbers: np.ndarray) -> Sequence[Hashable]:
    """Return a key for each row, equal for equal rows, that is the same on every machine.

    An object that cannot be hashed equals no other: its key is its row number.
    """
    if isinstance(rows, Rows) or getattr(rows, "ndim", 1) == 2:
        return row_keys(rows)
    keys: list[Any] = []
    for i in range(n_rows(rows)):
        item = take(rows, slice(i, i + 1))[0]
        try:
            hash(item)
        except TypeError:
            item = ("row", int(numbers[i]))
        keys.append(item)
    return keys


def split_pipeline(model: Estimator) -> tuple[Pipeline | None, Estimator]:
    """Return the transformers of a Pipeline, None without any, and its last step, or the model."""
    if not isinstance(model, Pipeline):
        return None, model
    return model[:-1] if len(model) > 1 else None, model[-1]
