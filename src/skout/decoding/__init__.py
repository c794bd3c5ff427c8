"""Decoding: from coordinates back to objects."""

from typing import Any

from sklearn.base import clone

from .._numerics.validation import resolve
from .any_loss import LossDecoder
from .base import Decoder
from .candidates import CandidateDecoder
from .ensembles import EmbeddedPools
from .gradient import GradientDecoder
from .index import FaissIndex, index_recall
from .labels import LabelSetDecoder
from .local import LocalSearchDecoder
from .pools import EmbeddedPool
from .prices import hub_prices
from .rankings import RankingDecoder, kemeny
from .sets import CandidateSets
from .strings import StringDecoder

__all__ = [
    "DECODERS",
    "CandidateDecoder",
    "CandidateSets",
    "Decoder",
    "EmbeddedPool",
    "EmbeddedPools",
    "FaissIndex",
    "GradientDecoder",
    "LabelSetDecoder",
    "LocalSearchDecoder",
    "LossDecoder",
    "RankingDecoder",
    "StringDecoder",
    "as_decoder",
    "hub_prices",
    "index_recall",
    "kemeny",
]

#: Names accepted wherever a decoder is: each stands for the default-constructed class.
DECODERS: dict[str, Any] = {
    "candidates": CandidateDecoder,
    "label_sets": LabelSetDecoder,
    "rankings": RankingDecoder,
    "strings": StringDecoder,
}


def as_decoder(spec: Any) -> Any:
    """Return a fresh decoder from a decoder, a name or None (the best of the candidates).

    Examples
    --------
    >>> from skout.decoding import as_decoder
    >>> as_decoder("label_sets")
    LabelSetDecoder()
    """
    if spec is None:
        return CandidateDecoder()
    if isinstance(spec, str):
        return resolve(spec, DECODERS, "decoder")()
    if not hasattr(spec, "decode"):
        raise TypeError(f"decoder must be a decoder, a name or None. Got {spec!r} instead.")
    return clone(spec)
