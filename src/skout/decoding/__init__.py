"""Decoding: from coordinates back to objects."""

from typing import Any

from .base import Decoder
from .blend import EmbeddedPools
from .candidates import CandidateDecoder
from .hubs import hub_prices
from .index import FaissIndex, index_recall
from .labels import LabelSetDecoder
from .local import LocalSearchDecoder
from .pools import EmbeddedPool
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
    "LabelSetDecoder",
    "LocalSearchDecoder",
    "RankingDecoder",
    "StringDecoder",
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
