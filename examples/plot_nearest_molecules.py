"""
Which molecules are alike?
==========================

A kernel on graphs says when two molecules are alike, and different kernels say different things.
Here are five of them on some sixty small molecules: for three of these, the nearest two others
under each kernel, drawn with RDKit (``pip install skout[chem,plot]``).
"""

# %%
# Sixty molecules
# ---------------
# At most nine atoms of carbon, nitrogen, oxygen and fluorine, hydrogens aside, as in the data set
# QM9. SMILES strings are all that the kernels need: atoms become nodes with their symbol as label,
# bonds become edges with their type as label.

import io

import matplotlib.pyplot as plt
import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

from skout.kernels import (
    Core,
    NeighborhoodSubgraph,
    Normalized,
    ShortestPath,
    VertexHistogram,
    WeisfeilerLehman,
    read_graphs,
)

text = """
CCO CCCO CC(C)O CC(C)(C)O OCCO COCCO CCOCC CC=O CCC=O CC(C)=O CCC(C)=O CC(=O)O CCC(=O)O CC(=O)OC
CC(=O)N CNC(C)=O CC(C)N CCN(C)C NCCO NCC(=O)O CC#N CCC#N N#CCC#N C#CCO C=CC=C C=CC(=O)C C1CC1 CC1CC1
OC1CC1 C1CCC1 CC1CCC1 OC1CCC1 C1CCCC1 CC1CCCC1 OC1CCCC1 O=C1CCCC1 C1CCCCC1 OC1CCCCC1 O=C1CCCCC1
C1CO1 CC1CO1 C1CCOC1 CC1CCCO1 O=C1CCCO1 C1CCNC1 CN1CCCC1 O=C1CCCN1 C1COCCN1 c1ccccc1 Cc1ccccc1
Oc1ccccc1 Nc1ccccc1 Fc1ccccc1 Cc1ccccc1C c1ccncc1 Cc1ccccn1 c1ccoc1 Cc1ccco1 c1cc[nH]c1 c1cnc[nH]1
Cc1cnc[nH]1 C1CC2CC1C2 C1CC2CCC1C2
"""
smiles = text.split()
graphs = read_graphs(smiles)
print(f"{len(graphs)} molecules of {graphs.sizes.min()} to {graphs.sizes.max()} atoms")

# %%
# Five kernels
# ------------
# The vertex histogram counts atoms, no more. Shortest paths count pairs of atoms with their
# distance. Weisfeiler-Lehman counts atoms with their surroundings, wider from iteration to
# iteration. The core kernel does so again for what is left when all open ends are cut off, the
# rings. The last one counts pairs of neighborhoods at a distance, and it alone sees the bonds.
# ``Normalized`` makes every molecule as like to itself as any other, k = 1.

kernels = {
    "vertex histogram": VertexHistogram(),
    "shortest paths": ShortestPath(),
    "Weisfeiler-Lehman": WeisfeilerLehman(n_iter=3),
    "its cores": Core(WeisfeilerLehman(n_iter=3)),
    "neighborhoods": NeighborhoodSubgraph(radius=2, distance=3),
}
queries = ["Cc1ccccc1", "O=C1CCCC1", "NCC(=O)O"]
places = [smiles.index(query) for query in queries]

nearest, likeness = {}, {}
for name, kernel in kernels.items():
    K = Normalized(kernel)(graphs[places], graphs)
    K[np.arange(len(places)), places] = -1.0  # not itself
    nearest[name] = np.argsort(-K, axis=1, kind="stable")[:, :2]
    likeness[name] = np.take_along_axis(K, nearest[name], axis=1)
    found = "; ".join(
        f"{query}: {', '.join(smiles[j] for j in row)}"
        for query, row in zip(queries, nearest[name], strict=True)
    )
    print(f"{name:>17}  {found}")

# %%
# The nearest two
# ---------------
# On top the three molecules, below them the two most alike under each kernel, with k. To the vertex
# histogram a ring and a chain of the same atoms are one and the same. The others find rings for
# rings, and only the last row cares whether a bond is double.


def draw(axis, text, title=""):
    """Show a molecule."""
    canvas = rdMolDraw2D.MolDraw2DCairo(320, 240)
    rdMolDraw2D.PrepareAndDrawMolecule(canvas, Chem.MolFromSmiles(text))
    canvas.FinishDrawing()
    axis.imshow(plt.imread(io.BytesIO(canvas.GetDrawingText()), format="png"))
    axis.set_title(title, fontsize=9)
    axis.axis("off")


fig = plt.figure(figsize=(10, 9), layout="constrained")
grid = fig.add_gridspec(len(kernels) + 1, 2 * len(queries) + 1, width_ratios=[0.6] + [1] * 6)
for q, query in enumerate(queries):
    draw(fig.add_subplot(grid[0, 1 + 2 * q : 3 + 2 * q]), query, query)
for i, name in enumerate(kernels, start=1):
    label = fig.add_subplot(grid[i, 0])
    label.text(1.0, 0.5, name.replace(" ", "\n"), ha="right", va="center", fontsize=9)
    label.axis("off")
    for q in range(len(queries)):
        for rank, j in enumerate(nearest[name][q]):
            axis = fig.add_subplot(grid[i, 1 + 2 * q + rank])
            draw(axis, smiles[j], f"{likeness[name][q, rank]:.2f}")
plt.show()
