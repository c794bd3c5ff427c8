"""Make the list of molecules that comes with skout: `make models` runs this.

From np_molecules.csv.gz of the folder SKOUT_DATA (natural products, metabolites and drugs, with the
lists that each stands on) and from the molecules of the data set msms_open, which have names. What
comes from records under CC BY-SA is left out. A row a molecule: smiles, prior (the number of lists,
0 for one that only has a spectrum) and name, sorted by SMILES so that the file packs well.
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


def measured() -> dict[str, tuple[str, str]]:
    """Return flat SMILES and names of the molecules of open spectra by their skeletons."""
    data = load("msms_open")
    found: dict[str, tuple[str, str]] = {}
    columns = (data.extra["inchikey"], data.Y, data.extra["name"], data.extra["license"])
    for key, smiles, name, license in zip(*columns, strict=True):
        if license != _SHARE_ALIKE and key[:14] not in found:
            molecule = Chem.MolFromSmiles(smiles)
            Chem.RemoveStereochemistry(molecule)
            found[key[:14]] = (Chem.MolToSmiles(molecule), " ".join(str(name).split()))
    return found


def main() -> None:
    RDLogger.DisableLog("rdApp.*")
    with_spectra = measured()
    path = Path(os.environ["SKOUT_DATA"]) / "np_molecules.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        listed = list(csv.DictReader(file))
    rows = []
    for row in listed:
        _, name = with_spectra.pop(row["skeleton"], ("", ""))
        rows.append((row["smiles"], len(row["sources"].split("|")), name))
    rows += [(smiles, 0, name) for smiles, name in with_spectra.values()]
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerow(("smiles", "prior", "name"))
    writer.writerows(sorted(rows))
    packed = lzma.compress(text.getvalue().encode(), preset=9 | lzma.PRESET_EXTREME)
    MOLECULES.write_bytes(packed)
    print(f"{MOLECULES.name}: {len(rows):,} molecules, {len(packed):,} bytes")


if __name__ == "__main__":
    main()
