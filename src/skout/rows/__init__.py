"""Rows of data sets: in memory, on disk, in a stream, on a cluster, on a GPU.

`source(X)` returns a `Source`, whatever X is; nothing outside depends on where rows are stored.
"""

from .blocks import Blocks
from .dask import Dask
from .device import Device, on_device
from .encode import (
    beside,
    check_pair,
    columns,
    encoded,
    encoded_targets,
    encoded_weights,
    is_lazy,
    reads_once,
    reread,
    source,
    unpacked,
)
from .local import Memory
from .source import (
    MemoryLimits,
    Place,
    Progress,
    Reduction,
    RowMap,
    Source,
    Survey,
    block_rows,
    limits,
    memory_limits,
)

__all__ = [
    "Blocks",
    "Dask",
    "Device",
    "Memory",
    "MemoryLimits",
    "Place",
    "Progress",
    "Reduction",
    "RowMap",
    "Source",
    "Survey",
    "beside",
    "block_rows",
    "check_pair",
    "columns",
    "encoded",
    "encoded_targets",
    "encoded_weights",
    "is_lazy",
    "limits",
    "memory_limits",
    "on_device",
    "reads_once",
    "reread",
    "source",
    "unpacked",
]
