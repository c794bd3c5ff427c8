"""The toolbox of authors: of parts, of applications, of other packages.

What kernels, decoders, estimators and commands of your own need so as to treat rows, arguments,
files and threads as those of skout do. The page on extending says what each name is for.
"""

from ._numerics.arrays import n_rows, row_slices, take, unique, unique_columns
from ._numerics.checkpoints import Checkpoint, digest
from ._numerics.estimators import PartsByName, all_at_once, frames_out, no_frames
from ._numerics.extras import extra
from ._numerics.files import FileError, check_place, replacing
from ._numerics.linalg import symmetric_eigen
from ._numerics.objects import is_categorical, is_gap, ranges, stack
from ._numerics.threads import map_blocks, n_threads, single_thread
from ._numerics.unpacking import DAMAGED, PACKED, LimitError, ending, opened
from ._numerics.validation import Registry, check_choice, check_number, check_rng, resolve
from .basis.moments import outputs_by_rows
from .kernels.molecules import chemistry
from .kernels.spectra import Spectra
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
    "FileError",
    "FoldMoments",
    "LimitError",
    "Local",
    "PartsByName",
    "Registry",
    "Source",
    "Spectra",
    "all_at_once",
    "check_choice",
    "check_matrix",
    "check_number",
    "check_place",
    "check_rng",
    "chemistry",
    "deal",
    "digest",
    "ending",
    "extra",
    "frames_out",
    "in_memory",
    "is_categorical",
    "is_gap",
    "join",
    "map_blocks",
    "n_rows",
    "n_threads",
    "named",
    "no_frames",
    "opened",
    "outputs_by_rows",
    "ranges",
    "replacing",
    "resolve",
    "row_slices",
    "single_thread",
    "stack",
    "symmetric_eigen",
    "take",
    "unique",
    "unique_columns",
]
