"""From spectra to molecules: a model of a library of spectra, and candidates from a pool.

`identifier` has the estimator; `inputs` and `queries` read what is given, `design` says which model
it is, `side_by_side` compares molecules in it, and `ways` is what is kept of it; `annotation` gives
formulas to peaks, `fragments` breaks candidates, `fragmentation` says how probable fragments are,
`learning` fits all of these, `columns` says what is known of a candidate, `explaining` shows it,
`validation` scores candidates of spectra that were held out, `ranking` learns to order them from
that, `calibration` makes probabilities and prediction sets of scores, `search` goes through
candidates.
"""

from .identifier import SpectrumIdentifier
from .results import Explanation, Fragment, Hit, Identification
from .side_by_side import SideBySide
from .ways import BothWays, KernelMap

__all__ = [
    "BothWays",
    "Explanation",
    "Fragment",
    "Hit",
    "Identification",
    "KernelMap",
    "SideBySide",
    "SpectrumIdentifier",
]
