"""Data that does not fit in memory: blocks of rows, parquet files, sparse matrices on disk.

Memory maps, HDF5 and zarr arrays need nothing from here: give them to `fit` as they are.
"""

from ..rows.blocks import Blocks
from .csr import DiskCSR, open_csr, save_csr
from .parquet import open_parquet

__all__ = ["Blocks", "DiskCSR", "open_csr", "open_parquet", "save_csr"]
