"""Kinds of outputs: label sets, rankings, classes, numbers, strings, SMILES, graphs, spectra.

`KINDS` has an object for each kind, which `Tuned`, `score`, the commands, reports and pages use.
There is a file for each kind; `Kind` is their common interface.
"""

from .base import Kind, values_of
from .labels import LabelFeatures, LabelSets, SetDecoder
from .numbers import ClassCodes, Classes, CodeDecoder, Numbers, StandardTargets
from .rankings import BordaDecoder, PairOrders, Rankings
from .registry import KINDS, either, guess_kind, kinds_of
from .scoring import metrics
from .texts import GraphObjects, MassSpectra, Smiles, Strings

__all__ = [
    "KINDS",
    "BordaDecoder",
    "ClassCodes",
    "Classes",
    "CodeDecoder",
    "GraphObjects",
    "Kind",
    "LabelFeatures",
    "LabelSets",
    "MassSpectra",
    "Numbers",
    "PairOrders",
    "Rankings",
    "SetDecoder",
    "Smiles",
    "StandardTargets",
    "Strings",
    "either",
    "guess_kind",
    "kinds_of",
    "metrics",
    "values_of",
]
