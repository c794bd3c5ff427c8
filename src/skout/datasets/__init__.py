"""Real data, checked by hash, and the synthetic data of the thesis; each a `Dataset`.

Files are looked for in the folder that the variable SKOUT_DATA names, then in the user's cache; if
SKOUT_DATA_URL names a folder on the web that has them, they are downloaded. `skout datasets` lists
what there is.
"""

from .catalogue import SOURCES
from .dataset import Dataset
from .loaders import (
    load_bibtex,
    load_boston,
    load_chebi20,
    load_delicious,
    load_engel,
    load_label_ranking,
    load_lpm24,
    load_massbank,
    load_mol2vec,
    load_multilabel,
    load_multioutput,
    load_qm9,
    load_regression,
    load_rf1,
    load_text_molecule,
    load_usps,
)
from .synthetic import (
    make_low_rank_regression,
    make_robust_regression,
    make_subspace_regression,
)

__all__ = [
    "SOURCES",
    "Dataset",
    "load_bibtex",
    "load_boston",
    "load_chebi20",
    "load_delicious",
    "load_engel",
    "load_label_ranking",
    "load_lpm24",
    "load_massbank",
    "load_mol2vec",
    "load_multilabel",
    "load_multioutput",
    "load_qm9",
    "load_regression",
    "load_rf1",
    "load_text_molecule",
    "load_usps",
    "make_low_rank_regression",
    "make_robust_regression",
    "make_subspace_regression",
]
