"""Files that chemists have: spectra as MGF, MSP, MassBank records, mzML; molecules as SDF, SMILES.

A damaged record is reported with its number: refused, or with ``on_error="skip"`` left out.
"""

from .adducts import neutral_mass, parse_adduct, precursor_mz
from .molecules import MoleculeTable, read_sdf, read_smiles
from .mzml import read_mzml
from .records import Problem
from .spectra import read_massbank, read_mgf, read_msp, write_mgf
from .tables import SpectraTable, spectra_table

__all__ = [
    "MoleculeTable",
    "Problem",
    "SpectraTable",
    "neutral_mass",
    "parse_adduct",
    "precursor_mz",
    "read_massbank",
    "read_mgf",
    "read_msp",
    "read_mzml",
    "read_sdf",
    "read_smiles",
    "spectra_table",
    "write_mgf",
]
