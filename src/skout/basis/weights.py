"""Indicators of the distinct objects as coordinates: what is predicted are weights of objects."""

from __future__ import annotations

import copy
from typing import Any, NoReturn, Self

import numpy as np
from scipy import sparse

from .._numerics.arrays import match, n_rows
from .._numerics.typing import Matrix, Objects, Rows, Weights
from .._numerics.validation import check_rng
from ..kernels import as_kernel
from ..rows import Memory, Reduction, RowMap, Source, Survey, limits
from .engine import KernelBasis


class OutputWeights(KernelBasis):
    """Coordinates that are weights of the distinct objects: an object has a one at itself.

    A regressor whose predictions are sums of its targets, f(x) = sum_i a_i(x) t_i, with weights
    that do not depend on them, then predicts the weight of each distinct object,

        b_j(x) = sum of a_i(x) over the rows i with y_i = y_j                          (2.32)

    whatever the rank of the kernel, which only says which objects are equal: its matrix is not
    computed. `skout.decoding.LossDecoder` asks for this basis.

    Parameters
    ----------
    kernel, sketch, whiten, rank, random_state, n_jobs, device
        As in `KernelBasis`, but without a sketch.

    Attributes
    ----------
    landmarks_ : rows, m of them
        The distinct objects.
    rank_ : int
        The number of coordinates, m, unless there is a mixture.
    mixture_ : ndarray of shape (p, m), or None
        Where a regressor predicts p numbers g(x) in place of m weights: b(x) = g(x) mixture_.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.basis.weights import OutputWeights
    >>> OutputWeights("linear").fit_transform(np.array([[1.0], [3.0], [1.0]]))
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])
    """

    mixture_: np.ndarray | None

    def fit_encoded(
        self, rows: Source, weights: Weights = None, *, also: Reduction[Any] | None = None
    ) -> Any:
        """Find the distinct objects among encoded rows; see `KernelBasis.fit_encoded`."""
        if len(rows) == 0:
            raise ValueError("Found array with 0 sample(s): a basis needs at least one row.")
        rows.check_sketch(None)
        sample, sample_weights = (rows, weights) if rows.pool is None else rows.pool
        survey = Survey(sample)
        rng = check_rng(self.random_state)
        resolved = as_kernel(self.kernel).surveyed(survey, rng, sample_weights)
        survey.run()
        self.kernel_, self.landmarks_ = resolved(), rows.take(rows.unique()[0])
        self.mixture_, self.weights_ = None, None
        self.rank_ = self._n_features_out = n_rows(self.landmarks_)
        return None if also is None else rows.reduce(also, np.arange(len(rows)))

    def indicators(self, rows: Source, *, sparsely: bool | None) -> Any:
        """Return the coordinates of the rows that this was fitted on.

        Parameters
        ----------
        rows : Source
        sparsely : bool or None
            Whether a source of sparse blocks will do where the matrix would take more memory than
            `memory_limits(coordinates_mb=...)`; None takes the matrix in any case.

        Returns
        -------
        targets : ndarray of shape (n, m), or a Source of CSR matrices
        """
        number, m = rows.unique()[1], self.rank_  # in the order of the landmarks
        size, most = 8 * len(number) * m, limits().coordinates_bytes
        if sparsely is None or size <= most:
            return _dense(number, m)
        if not sparsely:
            raise ValueError(
                f"Indicators of {len(number)} rows and {m} distinct outputs take "
                f"{size / 2**20:,.0f} MiB, more than the {most / 2**20:,.0f} of "
                "memory_limits(coordinates_mb=...), and a fit on a device, with a checkpoint or "
                'another variance than "dtc" takes no sparse ones: leave that out, or give an '
                "output_sketch."
            )
        return Memory(number, "Y").then(_SparseIndicators(m))

    def mixed(self, mixture: np.ndarray) -> Self:
        """Return this basis for a regressor that predicts g(x) with the weights g(x) mixture."""
        mixed = copy.copy(self)
        mixed.mixture_ = mixture
        mixed.rank_ = mixed._n_features_out = len(mixture)
        return mixed

    def combine(self, values: Matrix) -> np.ndarray:
        V: Any = values
        V = V.toarray() if sparse.issparse(V) else np.asarray(V)
        combined: np.ndarray = V if self.mixture_ is None else self.mixture_ @ V
        return combined

    def training_coordinates(self, rows: Source) -> Any:
        return self.coordinates(rows)

    def coordinates(self, rows: Source, out: np.ndarray | None = None) -> Any:
        if self.mixture_ is not None:
            raise TypeError(
                f"The {n_rows(self.landmarks_)} distinct outputs are too many for coordinates of "
                "objects: predictions are numbers that only the decoder can read."
            )
        indicators = _Indicators(self.landmarks_)
        return rows.map(indicators, (self.rank_,), rows.precision, n_jobs=self.n_jobs, out=out)

    @property
    def engine_(self) -> NoReturn:
        """There is none: the coordinates are weights of objects, not functions of a kernel."""
        raise AttributeError(
            f"{type(self).__name__!r} object has no components: its coordinates are weights of "
            "objects, not functions of a kernel"
        )


class _Indicators(RowMap):
    """Rows -> a one where they are equal to a known row; zeros where they are equal to none."""

    def __init__(self, objects: Objects) -> None:
        self.objects, self.width = objects, n_rows(objects)

    def __call__(self, rows: Rows, out: np.ndarray | None = None) -> np.ndarray:
        return _dense(match(rows, self.objects), self.width)


class _SparseIndicators:
    """Numbers -> CSR rows with a one at each number."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __call__(self, numbers: Rows) -> sparse.csr_matrix:
        n = len(numbers)
        return sparse.csr_matrix((np.ones(n), numbers, np.arange(n + 1)), shape=(n, self.width))


def _dense(numbers: np.ndarray, width: int) -> np.ndarray:
    """Return rows with a one at each number; zeros where it is -1."""
    indicators = np.zeros((len(numbers), width))
    matched = np.flatnonzero(numbers >= 0)
    indicators[matched, numbers[matched]] = 1.0
    return indicators
