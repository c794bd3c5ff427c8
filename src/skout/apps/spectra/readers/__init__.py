"""Files that chemists have: spectra as MGF, MSP, MassBank records, mzML, mzXML, JSON and .ms;
molecules as SDF and SMILES.

A damaged record is reported with its number: refused, or with ``on_error="skip"`` left out.
"""

from .adducts import neutral_mass, parse_adduct, precursor_mz
from .compounds import compound_labels
from .formats import ENDINGS, read_spectra_file, read_spectra_text
from .json import read_json
from .molecules import MoleculeTable, read_sdf, read_smiles
from .mzml import read_mzml
from .mzxml import read_mzxml
from .records import Problem
from .spectra import read_massbank, read_mgf, read_msp, read_sirius, write_mgf
from .tables import SpectraLike, SpectraTable, fill_adducts, spectra_table

__all__ = [
    "ENDINGS",
    "MoleculeTable",
    "Problem",
    "SpectraLike",
    "SpectraTable",
    "compound_labels",
    "fill_adducts",
    "neutral_mass",
    "parse_adduct",
    "precursor_mz",
    "read_json",
    "read_massbank",
    "read_mgf",
    "read_msp",
    "read_mzml",
    "read_mzxml",
    "read_sdf",
    "read_sirius",
    "read_smiles",
    "read_spectra_file",
    "read_spectra_text",
    "spectra_table",
    "write_mgf",
]
