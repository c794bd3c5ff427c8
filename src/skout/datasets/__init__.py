"""Real data, checked by hash, and the synthetic data of the thesis; each a `Dataset`.

Files are looked for in the folder that the variable SKOUT_DATA names, then in the user's cache; if
SKOUT_DATA_URL names a folder on the web that has them, they are downloaded. `skout datasets` lists
what there is.
"""

from .catalog import CATALOG
from .dataset import Dataset, load
from .files import available, cache_folder, fetch
from .synthetic import (
    make_low_rank_regression,
    make_robust_regression,
    make_subspace_regression,
)

__all__ = [
    "CATALOG",
    "Dataset",
    "available",
    "cache_folder",
    "fetch",
    "load",
    "make_low_rank_regression",
    "make_robust_regression",
    "make_subspace_regression",
]
