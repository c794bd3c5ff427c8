"""From spectra to molecules: a model of a library of spectra, and candidates from a pool.

`identifier` has the estimator; `inputs` and `queries` read what is given, `design` says which model
it is, `side_by_side` compares molecules in it, and `ways` is what is kept of it; `annotation` gives
formulas to peaks, which `annotated` compares, `fragments` breaks candidates, `columns` says what is
known of a candidate, `explaining` shows it,
`validation` scores candidates of spectra that were held out, `ranking` learns to order them from
that, `calibration` makes probabilities and prediction sets of scores, `search` goes through
candidates.
"""

from .annotated import AnnotatedSpectra, FormulaCosine
from .identifier import SpectrumIdentifier
from .results import Explanation, Fragment, Hit, Identification
from .side_by_side import SideBySide
from .ways import BothWays, KernelMap

__all__ = [
    "AnnotatedSpectra",
    "BothWays",
    "Explanation",
    "FormulaCosine",
    "Fragment",
    "Hit",
    "Identification",
    "KernelMap",
    "SideBySide",
    "SpectrumIdentifier",
]
