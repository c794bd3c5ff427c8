"""Kernels of some columns: a sum or a product of them compares mixed tables column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._numerics.validation import check_number
from .base import Kernel
from .combine import align
from .metric import Transformed

__all__ = ["OnColumns", "align_columns"]


class OnColumns(Transformed):
    """k(x, x') = kernel(x[start:stop], x'[start:stop]): what it sees of vectors is some columns.

    Parameters
    ----------
    kernel : kernel of vectors, or its name
        Words such as gamma="median" are resolved on these columns.
    start, stop : int
        The first column, and the one after the last; None is the end.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Gaussian, OnColumns
    >>> kernel = OnColumns(Gaussian(1.0), 0, 1) * OnColumns("linear", 1, 3)
    >>> kernel(np.array([[1.0, 2.0, 0.5]]), np.array([[1.0, 1.0, 2.0]]))
    array([[3.]])
    """

    def __init__(self, kernel: Any = "gaussian", start: int = 0, stop: int | None = None) -> None:
        self.kernel = kernel
        self.start = start
        self.stop = stop

    def transform(self, A: Any) -> Any:
        d = A.shape[1]
        start = check_number(self.start, "start", integer=True)
        stop = d if self.stop is None else check_number(self.stop, "stop", integer=True)
        if not start < stop <= d:
            raise ValueError(
                f"start and stop must name columns of the {d} that there are. "
                f"Got {self.start} and {self.stop}."
            )
        return A[:, start:stop]


def align_columns(
    kernel: Any,
    groups: Sequence[tuple[int, int]],
    X: Any,
    Y: Any,
    *,
    n_samples: int = 500,
    random_state: Any = None,
) -> Kernel:
    """Return the sum over groups of columns, and over all of them, with weights by ALIGNF.

    k(x, x') = mu_0 kernel(x, x') + sum_g mu_g kernel(x_g, x'_g): the first term knows how columns
    work together, the others let single columns count more. See `align`.

    Parameters
    ----------
    kernel : kernel of vectors, or its name
        Its words, such as gamma="median", are resolved for each group.
    groups : sequence of (int, int)
        The first column of each group, and the one after the last.
    X : matrix of shape (n, d)
    Y : array of shape (n, p)
    n_samples : int, default 500
    random_state : None, int or Generator

    Returns
    -------
    kernel : Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels import Gaussian, align_columns
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> kernel = align_columns(Gaussian(0.5), [(0, 1), (1, 3)], X, np.sin(2.0 * X[:, :1]))
    >>> kernel  # the other columns say nothing
    Scaled(factor=1.0, kernel=OnColumns(kernel=Gaussian(gamma=0.5), stop=1))
    """
    parts = [OnColumns(kernel, start, stop) for start, stop in groups]
    whole = [OnColumns(kernel)] if len(parts) > 1 else []
    return align([*whole, *parts], X, Y, n_samples=n_samples, random_state=random_state)
