"""Make the list of molecules that comes with skout: `make models` runs this.

From np_molecules.csv.gz of the folder SKOUT_DATA (natural products, metabolites and drugs, with the
lists that each stands on) and from the molecules of the data set msms_open, with the names that
MassBank has. What comes from records under CC BY-SA is left out. A row a molecule: smiles, prior
(the number of lists, 0 for one that only has a spectrum) and name, sorted by SMILES so that the
file packs well.
"""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import os
from pathlib import Path

from rdkit import Chem, RDLogger

from skout.apps.spectra.shipped.defaults import MOLECULES
from skout.datasets import load

_SHARE_ALIKE = "CC BY-SA"


def measured() -> dict[str, str]:
    """Return flat SMILES of the molecules of open spectra by their skeletons."""
    data = load("msms_open")
    found: dict[str, str] = {}
    for key, smiles, license in zip(
        data.extra["inchikey"], data.Y, data.extra["license"], strict=True
    ):
        if license != _SHARE_ALIKE and key[:14] not in found:
            molecule = Chem.MolFromSmiles(smiles)
            Chem.RemoveStereochemistry(molecule)
            found[key[:14]] = Chem.MolToSmiles(molecule)
    return found


def names() -> dict[str, str]:
    """Return names by skeletons of the molecules of all records of MassBank that are open."""
    found: dict[str, str] = {}
    for data in (load("msms_open"), load("massbank")):
        columns = (data.extra["inchikey"], data.extra["name"], data.extra["license"])
        for key, name, license in zip(*columns, strict=True):
            if license != _SHARE_ALIKE:
                found.setdefault(key[:14], " ".join(str(name).split()))
    return found


def main() -> None:
    RDLogger.DisableLog("rdApp.*")
    with_spectra, name_of = measured(), names()
    path = Path(os.environ["SKOUT_DATA"]) / "np_molecules.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        listed = list(csv.DictReader(file))
    rows = []
    for row in listed:
        with_spectra.pop(row["skeleton"], "")
        count = len(row["sources"].split("|"))
        rows.append((row["smiles"], count, name_of.get(row["skeleton"], "")))
    rows += [(smiles, 0, name_of[key]) for key, smiles in with_spectra.items()]
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerow(("smiles", "prior", "name"))
    writer.writerows(sorted(rows))
    packed = lzma.compress(text.getvalue().encode(), preset=9 | lzma.PRESET_EXTREME)
    MOLECULES.write_bytes(packed)
    print(f"{MOLECULES.name}: {len(rows):,} molecules, {len(packed):,} bytes")


if __name__ == "__main__":
    main()
