"""The toolbox of authors: of parts, of applications, of other packages.

What kernels, decoders, estimators and commands of your own need so as to treat rows, arguments,
files and threads as those of skout do. The page on extending says what each name is for.
"""

from ._numerics.arrays import n_rows, row_slices, take, unique, unique_columns
from ._numerics.checkpoints import Checkpoint, digest
from ._numerics.estimators import PartsByName, all_at_once, column_names, frames_out, no_frames
from ._numerics.extras import extra
from ._numerics.files import FileError, check_place, new_map, only_one, replacing
from ._numerics.linalg import symmetric_eigen
from ._numerics.objects import is_categorical, is_gap, ranges, stack
from ._numerics.threads import map_blocks, n_threads, single_thread
from ._numerics.unpacking import DAMAGED, PACKED, LimitError, ending, opened
from ._numerics.validation import (
    check_alphas,
    check_choice,
    check_level,
    check_number,
    check_rng,
    resolve,
)
from .basis.moments import outputs_by_rows
from .decoding.sets import PerQuery
from .kernels.molecules import chemistry, molecules
from .kernels.spectra import Spectra, read_spectra
from .predictors.listwise import FeatureLists
from .predictors.listwise import chosen_alpha as listwise_alpha
from .predictors.listwise import linear as listwise_coefficients
from .predictors.thresholds import conformal_quantile, size_edges
from .rows import Source
from .rows.encode import check_matrix, in_memory, named
from .rows.local import Local
from .rows.stream import join
from .solvers.folds import deal
from .solvers.ridge import FoldMoments

__all__ = [
    "DAMAGED",
    "PACKED",
    "Checkpoint",
    "FeatureLists",
    "FileError",
    "FoldMoments",
    "LimitError",
    "Local",
    "PartsByName",
    "PerQuery",
    "Source",
    "Spectra",
    "all_at_once",
    "check_alphas",
    "check_choice",
    "check_level",
    "check_matrix",
    "check_number",
    "check_place",
    "check_rng",
    "chemistry",
    "column_names",
    "conformal_quantile",
    "deal",
    "digest",
    "ending",
    "extra",
    "frames_out",
    "in_memory",
    "is_categorical",
    "is_gap",
    "join",
    "listwise_alpha",
    "listwise_coefficients",
    "map_blocks",
    "molecules",
    "n_rows",
    "n_threads",
    "named",
    "new_map",
    "no_frames",
    "only_one",
    "opened",
    "outputs_by_rows",
    "ranges",
    "read_spectra",
    "replacing",
    "resolve",
    "row_slices",
    "single_thread",
    "size_edges",
    "stack",
    "symmetric_eigen",
    "take",
    "unique",
    "unique_columns",
]
