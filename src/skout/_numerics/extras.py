"""Optional packages: where one is missing, say which extra brings it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .typing import Axes


@contextmanager
def extra(name: str, need: str) -> Iterator[None]:
    """Make a failing import within the block say what needs it, and which extra to install.

    Examples
    --------
    >>> from skout._numerics.extras import extra
    >>> with extra("ann", "FaissIndex needs faiss"):
    ...     import no_such_package
    Traceback (most recent call last):
    ImportError: FaissIndex needs faiss: pip install "skout[ann]"
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(f'{need}: pip install "skout[{name}]"') from error


def axes(ax: Axes | None, xlabel: str, ylabel: str) -> Axes:
    """Return the axes to draw on, new ones by default."""
    with extra("plot", "Plots need matplotlib"):
        import matplotlib.pyplot as plt
    chosen: Axes = plt.subplots()[1] if ax is None else ax
    chosen.set(xlabel=xlabel, ylabel=ylabel)
    return chosen
