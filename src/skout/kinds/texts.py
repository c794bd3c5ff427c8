"""Kinds of outputs that are chosen among candidates by a kernel: texts, molecules, spectra."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar

import numpy as np

from .._numerics.objects import as_objects, is_categorical
from .._numerics.typing import Objects
from ..kernels import Kernel, Mapped, NGram, PeakCosine, Tanimoto, WeisfeilerLehman
from ..kernels.molecules import chemistry, fingerprints, molecules
from .base import Cells, Kind, filled, values_of

# The longest SMILES that is drawn, in characters, and the size of the drawing in pixels.
_LONGEST_DRAWN, _WIDTH, _HEIGHT = 2000, 220, 150


@dataclass(frozen=True)
class Strings(Kind):
    """Texts."""

    name = "strings"
    kernel: ClassVar[Kernel] = NGram((1, 2, 3), short="keep")
    metric = "ngram_similarity"
    are_texts = True

    def recognizes(self, Y: Objects) -> bool:
        values = values_of(Y)
        return values.ndim == 1 and values.dtype.kind in "US" and not is_categorical(Y)

    def measures(self, true: Objects, pred: Objects) -> dict[str, np.ndarray]:
        exact = np.asarray(as_objects(true) == as_objects(pred), dtype=float)
        return {self.metric: self.row_scores(true, pred), "exact_matches": exact}

    def read(self, cells: Cells) -> list[str]:
        return list(filled(cells))


@dataclass(frozen=True)
class Smiles(Strings):
    """Molecules, as SMILES."""

    name = "smiles"
    kernel: ClassVar[Mapped] = Mapped(fingerprints, Tanimoto())
    metric = "fingerprint_similarity"

    @property
    def plural(self) -> str:
        return "molecules"

    def unreadable(self, cells: Cells) -> list[int]:
        return [i for i, molecule in enumerate(molecules(cells)) if molecule is None]

    def picture(self, text: str, highlight: Sequence[int] = ()) -> str:
        """Return the structure of a SMILES, drawn by RDKit; "" where it is not valid, or too long.

        Atoms with numbers in `highlight`, and bonds between them, are colored.
        """
        Chem = chemistry()
        from rdkit import rdBase
        from rdkit.Chem.Draw import rdMolDraw2D

        with rdBase.BlockLogs():
            molecule = Chem.MolFromSmiles(text) if len(text) <= _LONGEST_DRAWN else None
            if molecule is None:
                return ""
            canvas = rdMolDraw2D.MolDraw2DSVG(_WIDTH, _HEIGHT)
            options: Any = canvas.drawOptions()
            options.clearBackground = False
            options.bondLineWidth = 1.4
            atoms, bonds = list(highlight), []
            for bond in molecule.GetBonds():
                if bond.GetBeginAtomIdx() in atoms and bond.GetEndAtomIdx() in atoms:
                    bonds.append(bond.GetIdx())
            rdMolDraw2D.PrepareAndDrawMolecule(
                canvas, molecule, highlightAtoms=atoms, highlightBonds=bonds
            )
            canvas.FinishDrawing()
        drawn = canvas.GetDrawingText().partition("<!-- END OF HEADER -->")[2]
        # without the names and styles that all bonds have
        drawn = re.sub(r" class='[^']*'", "", drawn)
        drawn = re.sub(r"style='fill:none;[^']*stroke:(#\w+)[^']*'", r"stroke='\1'", drawn)
        return (
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(text)}" '
            f'fill="none" stroke-width="1.4" xmlns="http://www.w3.org/2000/svg">{drawn}'
        )


@dataclass(frozen=True)
class GraphObjects(Kind):
    """Graphs, as `skout.kernels.read_graphs` reads them: of networkx, RDKit, SMILES or triples."""

    name = "graphs"
    kernel: ClassVar[WeisfeilerLehman] = WeisfeilerLehman()
    metric = "graph_similarity"


@dataclass(frozen=True)
class MassSpectra(Kind):
    """Mass spectra: pairs of arrays, the masses and intensities of peaks."""

    name = "spectra"
    kernel: ClassVar[PeakCosine] = PeakCosine()
    metric = "peak_similarity"
