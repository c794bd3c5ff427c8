"""What a decoder is: from predicted coordinates back to objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from .._numerics.estimators import PartsByName
from ..basis import KernelBasis

__all__ = ["Decoder", "able"]


class Decoder(ABC, PartsByName):
    """Base of all decoders: arg max over objects c of 2 <f(x), z(c)> - k(c, c) (4.5, 5.17).

    A decoder holds parameters until `fit` gives it the output basis and the training outputs. One
    that knows how the objects are made (label sets, rankings) needs no candidates.
    """

    @abstractmethod
    def fit(self, basis: KernelBasis, Y: Any, coordinates: np.ndarray | None = None) -> Decoder:
        """Prepare to decode coordinates of a fitted basis.

        `Y` are the training outputs, `coordinates` theirs, shape (n, p), where they are known.
        """

    @abstractmethod
    def decode(self, F: np.ndarray, candidates: Any = None) -> Any:
        """Return one object for each row of predicted coordinates, shape (n, p)."""

    def rank(
        self, F: np.ndarray, candidates: Any = None, k: int = 10
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and scores of the k best candidates of each row, if there are any."""
        raise TypeError(
            f"{type(self).__name__} builds objects instead of ranking candidates, and has no "
            'method rank. To rank them, fit the model with decoder="candidates".'
        )

    def _refuse(self, candidates: Any) -> None:
        """Raise where candidates are given to a decoder that builds objects by itself."""
        if candidates is not None:
            raise ValueError(
                f"{type(self).__name__} searches all objects, so candidates must be None. To "
                'choose among candidates, fit the model with decoder="candidates".'
            )


def able(decoder: Any, *methods: str, by: str) -> Any:
    """Return a decoder, or raise in the name of `by` where it has not all of these methods.

    What a decoder can do is asked of it, not of its class: those that users write have the same
    rights as ours.
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
