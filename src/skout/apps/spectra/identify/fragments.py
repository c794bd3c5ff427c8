"""Fragments of a molecule: what is left when few bonds are broken, and which peaks it explains.

A cut is one bond that is in no ring, or two bonds of a ring; a fragment takes one cut or two. The
atoms of a fragment are the bits of one or two words of 64 bits, and all fragments of a molecule are
worked on together: a fragment of two cuts is what two fragments of one cut share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..readers.formulas import CODES

# Mean bond energies in kJ/mol, rounded: single, double, triple, aromatic. Those that textbooks do
# not list, such as aromatic bonds with heteroatoms, are estimates between single and double.
_ENERGIES = {
    "CC": (348, 614, 839, 518), "CN": (305, 615, 891, 460), "CO": (358, 745, 1072, 550),
    "CS": (272, 573, 573, 420), "NN": (163, 418, 945, 290), "NO": (201, 607, 607, 400),
    "NS": (230, 350, 350, 300), "OO": (146, 498, 498, 300), "OS": (265, 522, 522, 390),
    "SS": (226, 425, 425, 320), "OP": (335, 544, 544, 440), "CP": (264, 513, 513, 390),
    "NP": (230, 400, 400, 315), "PS": (230, 335, 335, 280), "CF": (485,) * 4, "CCl": (327,) * 4,
    "BrC": (285,) * 4, "CI": (213,) * 4, "CSi": (318,) * 4, "OSi": (452,) * 4,
}  # fmt: skip
_OTHER = (350, 595, 840, 490)
# Atoms of a molecule, and fragments of one cut that are cut again, at most: the cheapest.
_MOST_ATOMS, _MOST_SIDES = 128, 600
_ONE = np.uint64(1)
#: How a fragment is made, see `Fragments.cuts`.
CUTS = ("none", "one bond", "two bonds of a ring", "two cuts")


class Fragments(NamedTuple):
    """The fragments of a molecule, k of them; the first is the molecule."""

    code: np.ndarray  # (k,) that of the formula without hydrogen, see `formula_code`
    hydrogens: np.ndarray  # (k,)
    cost: np.ndarray  # (k,) kJ/mol of the broken bonds
    broken: np.ndarray  # (k, bonds) which ones these are
    cuts: np.ndarray  # (k,) which of `CUTS`


def fragments_of(molecule: Any) -> Fragments | None:
    """Return the fragments of an RDKit molecule; None where it has more than 128 atoms."""
    atoms, bonds = list(molecule.GetAtoms()), list(molecule.GetBonds())
    n = len(atoms)
    if n > _MOST_ATOMS:
        return None
    ends = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in bonds]).reshape(-1, 2)
    energy = np.array([_energy(bond) for bond in bonds], dtype=np.float64)
    near = np.zeros((n, 1 + (n - 1) // 64), dtype=np.uint64)  # the neighbors of each atom
    for a, b in ends:
        near[a] |= _bit(b, near.shape[1])
        near[b] |= _bit(a, near.shape[1])
    whole = np.bitwise_or.reduce(np.stack([_bit(i, near.shape[1]) for i in range(n)]))
    sides = _sides(near, ends, whole)
    masks = [whole[None], sides]
    if len(sides):
        sides = sides[np.argsort(_broken(sides, ends, n) @ energy, kind="stable")[:_MOST_SIDES]]
        first, second = np.triu_indices(len(sides), 1)
        shared = _distinct(sides[first] & sides[second])
        masks.append(shared[_connected(shared, near)])
    found = np.concatenate(masks)
    _, kept = (
        np.unique(found, axis=0, return_index=True)
        if found.shape[1] > 1
        else np.unique(found[:, 0], return_index=True)
    )
    kept = np.sort(kept)  # the molecule, then fragments of one cut
    found = found[kept]
    member, broken = _members(found, n), _broken(found, ends, n)
    enough = member.sum(axis=1) > 1
    one_cut = kept <= len(masks[1])
    cuts = np.where(one_cut, np.minimum(broken.sum(axis=1), 2), 3)
    codes = np.array([CODES.get(atom.GetSymbol(), 1) for atom in atoms], dtype=np.uint64)
    hydrogens = np.array([atom.GetTotalNumHs() for atom in atoms])
    columns = (member @ codes, member @ hydrogens, broken @ energy, broken, cuts)
    return Fragments(*(column[enough] for column in columns))


def _bit(i: int, words: int) -> np.ndarray:
    return np.array([_ONE << np.uint64(i % 64) if k == i // 64 else 0 for k in range(words)], "u8")


def _has(masks: np.ndarray, i: int) -> np.ndarray:
    """Return 1 for masks with atom i, else 0."""
    return (masks[:, i // 64] >> np.uint64(i % 64)) & _ONE


def _members(masks: np.ndarray, n: int) -> np.ndarray:
    """Return which atoms each mask has, shape (k, n)."""
    return np.stack([_has(masks, i) for i in range(n)], axis=1).astype(np.uint8)


def _broken(masks: np.ndarray, ends: np.ndarray, n: int) -> np.ndarray:
    """Return which bonds lead out of each mask, shape (k, bonds)."""
    member = _members(masks, n)
    return member[:, ends[:, 0]] != member[:, ends[:, 1]]


def _distinct(masks: np.ndarray) -> np.ndarray:
    if masks.shape[1] == 1:
        return np.unique(masks[:, 0])[:, None]
    return np.unique(masks, axis=0)


def _grown(start: np.ndarray, near: Any, n: int) -> np.ndarray:
    """Return what can be reached from atoms; `near(i)` are neighbors of atom i in each case."""
    reached = start
    while True:
        before = reached
        for i in range(n):
            # all ones where atom i is reached
            reached = reached | (-_has(reached, i).astype(np.int64)).view(np.uint64)[
                :, None
            ] & near(i)
        if np.array_equal(before, reached):
            return reached


def _sides(near: np.ndarray, ends: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return the two sides of each cut, without copies."""
    bonds = np.arange(len(ends))[:, None]
    single, is_cut = _cut(bonds, near, ends)
    in_ring = np.flatnonzero(~is_cut)
    pairs = in_ring[np.stack(np.triu_indices(len(in_ring), 1), axis=1)]
    double, _ = _cut(pairs, near, ends)
    found = np.concatenate([single, double])
    return _distinct(np.concatenate([found, whole & ~found])) if len(found) else found


def _cut(bonds: np.ndarray, near: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the side of the first atom where breaking bonds parts the molecule, and where."""
    n, words = near.shape
    left = np.repeat(near[None], len(bonds), axis=0)  # (k, n, words)
    rows = np.arange(len(bonds))
    bits = np.stack([_bit(i, words) for i in range(n)])
    for bond in bonds.T:
        a, b = ends[bond].T
        left[rows, a] &= ~bits[b]
        left[rows, b] &= ~bits[a]
    start, stop = ends[bonds[:, 0]].T if len(bonds) else (rows, rows)
    reached = _grown(bits[start], lambda i: left[:, i], n)
    parted = (reached & bits[stop] == 0).all(axis=1)
    return reached[parted], parted


def _connected(masks: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Return which masks are in one piece, of those that have an atom."""
    lowest = masks & (~masks + _ONE)
    if masks.shape[1] > 1:
        lowest[:, 1] *= masks[:, 0] == 0
    reached = _grown(lowest, lambda i: near[i] & masks, len(near))
    return (reached == masks).all(axis=1) & masks.any(axis=1)


def _energy(bond: Any) -> float:
    symbols = sorted(atom.GetSymbol() for atom in (bond.GetBeginAtom(), bond.GetEndAtom()))
    order = 3 if bond.GetIsAromatic() else min(int(bond.GetBondTypeAsDouble()), 3) - 1
    return _ENERGIES.get("".join(symbols), _OTHER)[max(order, 0)]


def bond_class(bond: Any) -> str:
    """Return the kind of a bond: what its atoms are, its order, and whether it is in a ring."""
    kinds = sorted(_atom_class(atom) for atom in (bond.GetBeginAtom(), bond.GetEndAtom()))
    order = {1.0: "-", 2.0: "=", 3.0: "#", 1.5: ":"}.get(bond.GetBondTypeAsDouble(), "~")
    return order.join(kinds) + ("r" if bond.IsInRing() else "")


def _atom_class(atom: Any) -> str:
    symbol = str(atom.GetSymbol())
    if atom.GetIsAromatic():
        return symbol.lower()
    if symbol == "C":
        double = [
            b.GetOtherAtom(atom).GetSymbol()
            for b in atom.GetBonds()
            if b.GetBondTypeAsDouble() >= 2
        ]
        return "C(=X)" if set(double) & {"O", "S", "N"} else "C(=C)" if double else "C"
    return "X" if symbol in ("Cl", "Br", "I") else symbol
