"""What comes with skout, so that spectra can be identified at once: a model, and a pool.

`massbank.skout` was fitted on open spectra, and `molecules.tsv.xz` are the molecules of the default
pool, which is built in the user's cache when it is first needed. `README.md` has the sources and
the licenses; `training` makes the model again.
"""

from .defaults import default_model, default_pool
from .training import build_massbank_model

__all__ = ["build_massbank_model", "default_model", "default_pool"]
