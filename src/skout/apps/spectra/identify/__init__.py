"""From spectra to molecules: a model of a library of spectra, and candidates from a pool.

`identifier` has the estimator; `inputs` reads what is given, `design` says which model it is,
`validation` judges it on molecules that it has not seen, `calibration` makes probabilities and
prediction sets of scores, `search` scores and ranks candidates, `peaks` explains a spectrum.
"""

from .identifier import SpectrumIdentifier
from .results import Explanation, Hit, Identification

__all__ = ["Explanation", "Hit", "Identification", "SpectrumIdentifier"]
