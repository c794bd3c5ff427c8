"""Decoding: from coordinates back to objects."""

from .any_loss import LossDecoder
from .base import DECODERS, Decoder, as_decoder
from .candidates import CandidateDecoder
from .ensembles import EmbeddedPools
from .euler import Graph as Graph  # in files
from .gradient import GradientDecoder
from .index import FaissIndex, index_recall
from .labels import LabelSetDecoder
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
    "GradientDecoder",
    "LabelSetDecoder",
    "LossDecoder",
    "RankingDecoder",
    "StringDecoder",
    "as_decoder",
    "index_recall",
    "kemeny",
]

DECODERS.update(
    {
        "candidates": CandidateDecoder,
        "label_sets": LabelSetDecoder,
        "rankings": RankingDecoder,
        "strings": StringDecoder,
    }
)
