"""Files that chemists have: spectra as MGF, MSP, MassBank records, mzML, mzXML, JSON and .ms;
molecules as SDF and SMILES. And tables of all kinds of columns, from any library: `TableEncoder`
makes numbers of them.

A damaged record is reported with its number: refused, or with ``on_error="skip"`` left out. The
code is in `skout.apps`, and is imported when a name is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._numerics.unpacking import LIMITS, UnpackLimits

if TYPE_CHECKING:
    from .apps.spectra.readers import (
        MoleculeTable,
        Problem,
        SpectraTable,
        compound_labels,
        neutral_mass,
        parse_adduct,
        precursor_mz,
        read_json,
        read_massbank,
        read_mgf,
        read_msp,
        read_mzml,
        read_mzxml,
        read_sdf,
        read_sirius,
        read_smiles,
        spectra_table,
        write_mgf,
    )
    from .apps.tables import TableEncoder

__all__ = [
    "LIMITS",
    "MoleculeTable",
    "Problem",
    "SpectraTable",
    "TableEncoder",
    "UnpackLimits",
    "compound_labels",
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
    "spectra_table",
    "write_mgf",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = "tables" if name == "TableEncoder" else "spectra.readers"
    return getattr(import_module(f"skout.apps.{place}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
