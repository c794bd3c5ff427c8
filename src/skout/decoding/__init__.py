"""Decoding: from coordinates back to objects."""

from typing import Any

from .base import Decoder
from .candidates import CandidateDecoder

__all__ = ["DECODERS", "CandidateDecoder", "Decoder"]

#: Names accepted wherever a decoder is: each stands for the default-constructed class.
DECODERS: dict[str, Any] = {"candidates": CandidateDecoder}
