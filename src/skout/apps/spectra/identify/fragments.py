"""Fragments of a molecule: what is left when few bonds are broken, and which peaks it explains.

A cut is one bond that is in no ring, or two bonds of a ring; a fragment takes one cut or two. The
atoms of a fragment are the bits of one or two words of 64 bits, and all fragments of a molecule are
worked on together: a fragment of two cuts is what two fragments of one cut share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..readers.formulas import CODES

if TYPE_CHECKING:
    from rdkit.Chem import Mol

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
# Fragments of a molecule that are compared with peaks, at most.
_MOST_FRAGMENTS = 30_000
_ORDERS = {1.0: "-", 2.0: "=", 3.0: "#", 1.5: ":"}
_ONE = np.uint64(1)
#: How a fragment is made, see `Fragments.cuts`.
CUTS = ("none", "one bond", "two bonds of a ring", "two cuts")


class Fragments(NamedTuple):
    """The fragments of a molecule, k of them; the first is the molecule."""

    masks: np.ndarray  # (k, words) uint64, the atoms of each
    code: np.ndarray  # (k,) that of the formula without hydrogen, see `formula_code`
    hydrogens: np.ndarray  # (k,)
    cost: np.ndarray  # (k,) the energies of the broken bonds, kJ/mol
    cuts: np.ndarray  # (k,) which of `CUTS`

    def of(self, rows: np.ndarray) -> Fragments:
        """Return the fragments of these rows."""
        return Fragments(*(column[rows] for column in self))


class Bonds(NamedTuple):
    """The bonds and atoms of a molecule of n atoms and b bonds, as arrays."""

    ends: np.ndarray  # (b, 2)
    energy: np.ndarray  # (b,) kJ/mol
    kinds: tuple[tuple[str, str], ...]  # (b,) as seen from its first atom, and from its second
    code: np.ndarray  # (n,) of the elements
    hydrogens: np.ndarray  # (n,)


def bonds_of(molecule: Mol) -> Bonds:
    """Return bonds and atoms of an RDKit molecule."""
    bonds, atoms = list(molecule.GetBonds()), list(molecule.GetAtoms())
    ends = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in bonds], dtype=np.int64)
    symbols = [str(atom.GetSymbol()) for atom in atoms]
    orders = [float(bond.GetBondTypeAsDouble()) for bond in bonds]
    hydrogens = np.array([atom.GetTotalNumHs() for atom in atoms], dtype=np.int64)
    aromatic = [bool(atom.GetIsAromatic()) for atom in atoms]
    classes = _atom_classes(symbols, aromatic, hydrogens, ends, orders)
    energy, kinds = np.empty(len(bonds)), []
    for i, (bond, order) in enumerate(zip(bonds, orders, strict=True)):
        a, b = ends[i]
        pair = "".join(sorted((symbols[a], symbols[b])))
        energy[i] = _ENERGIES.get(pair, _OTHER)[
            3 if order == 1.5 else min(max(int(order), 1), 3) - 1
        ]
        sign, ring = _ORDERS.get(order, "~"), "r" if bond.IsInRing() else ""
        first, second = classes[a], classes[b]
        kinds.append((first + sign + "|" + second + ring, second + sign + "|" + first + ring))
    codes = np.array([CODES.get(symbol, 1) for symbol in symbols], dtype=np.uint64)
    return Bonds(ends.reshape(-1, 2), energy, tuple(kinds), codes, hydrogens)


def fragments_of(bonds: Bonds) -> Fragments | None:
    """Return the fragments of a molecule; None where it has more than 128 atoms.

    Where there are too many, those of cheap cuts are kept.
    """
    n, cost = len(bonds.code), bonds.energy
    if n > _MOST_ATOMS:
        return None
    compiled = _compiled()
    if compiled is not None:
        atoms = (bonds.code, bonds.hydrogens)
        masks, *columns = compiled(bonds.ends, cost, *atoms, _MOST_SIDES, _MOST_FRAGMENTS)
        return Fragments(masks[:, : 1 + (n - 1) // 64], *columns)
    masks, one_cut = _broken_down(n, bonds.ends, cost)
    member, broken = members(masks, n), broken_bonds(masks, bonds.ends)
    enough = member.sum(axis=1, dtype=np.int64) > 1
    cuts = np.where(one_cut, np.minimum(broken.sum(axis=1), 2), 3)
    columns = [member @ bonds.code, member @ bonds.hydrogens, broken @ cost, cuts]
    return Fragments(masks, *columns).of(np.flatnonzero(enough))


def _broken_down(n: int, ends: np.ndarray, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the atoms of each fragment, the molecule first, and which take one cut at most."""
    words = 1 + (n - 1) // 64
    neighbors = np.zeros((n, words), dtype=np.uint64)  # the neighbors of each atom
    for a, b in ends:
        neighbors[a] |= _bit(b, words)
        neighbors[b] |= _bit(a, words)
    whole = np.bitwise_or.reduce(np.stack([_bit(i, words) for i in range(n)]))
    sides = _sides(neighbors, ends, whole)
    masks = [whole[None], sides]
    if len(sides):
        sides = sides[np.argsort(broken_bonds(sides, ends) @ cost, kind="stable")[:_MOST_SIDES]]
        first, second = np.triu_indices(len(sides), 1)
        shared = _distinct(sides[first] & sides[second])
        masks.append(shared[_connected(shared, neighbors)])
    all_masks = np.concatenate(masks)
    _, kept = (
        np.unique(all_masks, axis=0, return_index=True)
        if words > 1
        else np.unique(all_masks[:, 0], return_index=True)
    )
    kept = np.sort(kept)[:_MOST_FRAGMENTS]  # the molecule, then fragments of one cut
    return all_masks[kept], kept <= len(masks[1])


def _bit(i: int, words: int) -> np.ndarray:
    return np.array([_ONE << np.uint64(i % 64) if k == i // 64 else 0 for k in range(words)], "u8")


def _has(masks: np.ndarray, i: int) -> np.ndarray:
    """Return 1 for masks with atom i, else 0."""
    return (masks[:, i // 64] >> np.uint64(i % 64)) & _ONE


def members(masks: np.ndarray, n: int) -> np.ndarray:
    """Return which atoms each mask has, shape (k, n)."""
    bits = np.unpackbits(masks.astype("<u8", copy=False).view(np.uint8), axis=1, bitorder="little")
    return bits[:, :n]


def in_fragment(mask: np.ndarray, n: int) -> np.ndarray:
    """Return which of n atoms a mask of whole words has, (n,) bool."""
    inside: np.ndarray = members(mask[None], n)[0].astype(bool)
    return inside


def broken_bonds(masks: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return which bonds lead out of each mask, shape (k, bonds)."""
    member = members(masks, 64 * masks.shape[1])
    broken: np.ndarray = member[:, ends[:, 0]] != member[:, ends[:, 1]]
    return broken


def _distinct(masks: np.ndarray) -> np.ndarray:
    if masks.shape[1] == 1:
        return np.unique(masks[:, 0])[:, None]
    return np.unique(masks, axis=0)


def _grown(start: np.ndarray, neighbors: Callable[[int], np.ndarray], n: int) -> np.ndarray:
    """Return the atoms connected to `start`; `neighbors(i)` are neighbors of atom i in each row."""
    reached = start
    while True:
        before = reached
        for i in range(n):
            # all ones where atom i is reached
            reached = reached | (-_has(reached, i).astype(np.int64)).view(np.uint64)[
                :, None
            ] & neighbors(i)
        if np.array_equal(before, reached):
            return reached


def _sides(neighbors: np.ndarray, ends: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return the two sides of each cut, without copies."""
    bonds = np.arange(len(ends))[:, None]
    single, is_cut = _cut(bonds, neighbors, ends)
    in_ring = np.flatnonzero(~is_cut)
    pairs = in_ring[np.stack(np.triu_indices(len(in_ring), 1), axis=1)]
    double, _ = _cut(pairs, neighbors, ends)
    first_sides = np.concatenate([single, double])
    return (
        _distinct(np.concatenate([first_sides, whole & ~first_sides]))
        if len(first_sides)
        else first_sides
    )


def _cut(
    bonds: np.ndarray, neighbors: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the atoms on one side of each cut, and which bonds part the molecule (k,) bool."""
    n, words = neighbors.shape
    left = np.repeat(neighbors[None], len(bonds), axis=0)  # (k, n, words)
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


def _connected(masks: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
    """Return which masks are in one piece, of those that have an atom."""
    lowest = masks & (~masks + _ONE)
    if masks.shape[1] > 1:
        lowest[:, 1] *= masks[:, 0] == 0
    reached = _grown(lowest, lambda i: neighbors[i] & masks, len(neighbors))
    whole: np.ndarray = (reached == masks).all(axis=1) & masks.any(axis=1)
    return whole


def _atom_classes(
    symbols: list[str],
    aromatic: list[bool],
    hydrogens: np.ndarray,
    ends: np.ndarray,
    orders: list[float],
) -> list[str]:
    """Return the kind of each atom, by its double bonds and hydrogens; most halogens are one."""
    double: list[set[str]] = [set() for _ in symbols]
    for (a, b), order in zip(ends, orders, strict=True):
        if order >= 2:
            double[a].add(symbols[b])
            double[b].add(symbols[a])
    classes = []
    for i, (symbol, others) in enumerate(zip(symbols, double, strict=True)):
        if aromatic[i]:
            classes.append(symbol.lower())
        elif symbol in ("Cl", "Br", "I"):
            classes.append("X")
        else:
            near = "(=X)" if others & {"O", "S", "N"} else "(=C)" if others else ""
            classes.append(symbol + (near if symbol == "C" else "") + "H" * min(hydrogens[i], 3))
    return classes


# Machine code ------------------------------------------------------------------------------------

# Plain functions of arrays, which numba compiles; masks have two words, low and high.
_ZERO, _WORD_END = np.uint64(0), np.uint64(58)
# A sequence in which each six bits differ numbers the lowest bit of a word.
_SEQUENCE = np.uint64(0x03F79D71B4CB0A89)
_PLACE = np.argsort([(0x03F79D71B4CB0A89 << i) % 2**64 >> 58 for i in range(64)])
_MIX, _MIX_AGAIN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HALF_WORD = np.uint64(32)


@functools.cache
def _compiled() -> Any:
    """Return the columns of `Fragments` by machine code, or None where numba is missing.

    Masks have two words. It keeps the same fragments as `_broken_down`, unless there are more than
    the bounds.
    """
    try:
        import numba
        from numba.extending import register_jitable
    except ImportError:
        return None
    for part in (_reach, _is_new, _toggle, _add_sides, _one_cut, _costs, _two_cuts, _described):
        register_jitable(part)
    signature = (
        "Tuple((u8[:, ::1], u8[::1], i8[::1], f8[::1], i8[::1]))"
        "(i8[:, ::1], f8[::1], u8[::1], i8[::1], i8, i8)"
    )
    return numba.njit(signature, nogil=True)(_break_down)


def _break_down(
    ends: np.ndarray,
    cost: np.ndarray,
    codes: np.ndarray,
    hydrogens: np.ndarray,
    most_sides: int,
    most: int,
) -> Any:
    n = len(codes)
    neighbors, bit = np.zeros((n, 2), dtype=np.uint64), np.zeros((n, 2), dtype=np.uint64)
    every = np.zeros(2, dtype=np.uint64)
    for i in range(n):
        bit[i, i // 64] = _ONE << np.uint64(i % 64)
        every |= bit[i]
    for k in range(len(ends)):
        _toggle(neighbors, bit, ends[k])
    size = 16
    while size < 4 * most:
        size *= 2
    table = np.full(size, -1, dtype=np.int32)
    masks = np.empty((most + 1, 2), dtype=np.uint64)
    whole = np.ones(most + 1, dtype=np.bool_)  # in one piece
    _is_new(table, masks, every[0], every[1], 0)
    count = _one_cut(neighbors, bit, every, ends, table, masks, most)
    n_sides = count - 1
    order = np.argsort(_costs(masks[1:count], bit, ends, cost))[:most_sides] + 1
    count = _two_cuts(neighbors, order, table, masks, whole, count, most)
    return _described(masks[:count], whole, n_sides, bit, ends, cost, codes, hydrogens)


def _reach(
    neighbors: np.ndarray, lo: np.uint64, hi: np.uint64, in_lo: np.uint64, in_hi: np.uint64
) -> Any:
    """Return all atoms among (in_lo, in_hi) that can be reached from (lo, hi)."""
    todo_lo, todo_hi = lo, hi
    while todo_lo != _ZERO or todo_hi != _ZERO:
        if todo_lo != _ZERO:
            lowest = todo_lo & (~todo_lo + _ONE)
            todo_lo ^= lowest
            atom = _PLACE[(lowest * _SEQUENCE) >> _WORD_END]
        else:
            lowest = todo_hi & (~todo_hi + _ONE)
            todo_hi ^= lowest
            atom = 64 + _PLACE[(lowest * _SEQUENCE) >> _WORD_END]
        new_lo = neighbors[atom, 0] & in_lo & ~lo
        new_hi = neighbors[atom, 1] & in_hi & ~hi
        lo |= new_lo
        hi |= new_hi
        todo_lo |= new_lo
        todo_hi |= new_hi
    return lo, hi


def _is_new(table: np.ndarray, masks: np.ndarray, lo: np.uint64, hi: np.uint64, number: int) -> Any:
    """Add a mask to the hash table under a number; return False where the table has it."""
    last = np.uint64(len(table) - 1)
    h = (lo ^ (hi * _MIX)) * _MIX_AGAIN
    at = (h ^ (h >> _HALF_WORD)) & last
    while table[at] >= 0:
        if masks[table[at], 0] == lo and masks[table[at], 1] == hi:
            return False
        at = (at + _ONE) & last
    table[at] = number
    masks[number, 0], masks[number, 1] = lo, hi
    return True


def _toggle(neighbors: np.ndarray, bit: np.ndarray, bond: np.ndarray) -> Any:
    """Remove a bond from the tables of neighbors, or put it back."""
    a, b = bond[0], bond[1]
    for w in range(2):
        neighbors[a, w] ^= bit[b, w]
        neighbors[b, w] ^= bit[a, w]


def _add_sides(
    neighbors: np.ndarray,
    bit: np.ndarray,
    every: np.ndarray,
    bond: np.ndarray,
    table: np.ndarray,
    masks: np.ndarray,
    count: int,
    most: int,
) -> Any:
    """Add both sides of a cut; return the number of masks, and whether the bond was a cut."""
    a, b = bond[0], bond[1]
    lo, hi = _reach(neighbors, bit[a, 0], bit[a, 1], every[0], every[1])
    if (lo & bit[b, 0]) | (hi & bit[b, 1]) != _ZERO:
        return count, False
    if count < most and _is_new(table, masks, lo, hi, count):
        count += 1
    if count < most and _is_new(table, masks, every[0] & ~lo, every[1] & ~hi, count):
        count += 1
    return count, True


def _one_cut(
    neighbors: np.ndarray,
    bit: np.ndarray,
    every: np.ndarray,
    ends: np.ndarray,
    table: np.ndarray,
    masks: np.ndarray,
    most: int,
) -> Any:
    """Add the sides of all cuts, by a bond or two of a ring; return how many masks there are."""
    in_ring = np.empty(len(ends), dtype=np.int64)
    count, n_ring = 1, 0
    for k in range(len(ends)):
        _toggle(neighbors, bit, ends[k])
        count, parted = _add_sides(neighbors, bit, every, ends[k], table, masks, count, most)
        _toggle(neighbors, bit, ends[k])
        if not parted:
            in_ring[n_ring] = k
            n_ring += 1
    for i in range(n_ring):
        first = ends[in_ring[i]]
        _toggle(neighbors, bit, first)
        for j in range(i + 1, n_ring):
            _toggle(neighbors, bit, ends[in_ring[j]])
            count, _ = _add_sides(neighbors, bit, every, first, table, masks, count, most)
            _toggle(neighbors, bit, ends[in_ring[j]])
        _toggle(neighbors, bit, first)
    return count


def _costs(masks: np.ndarray, bit: np.ndarray, ends: np.ndarray, cost: np.ndarray) -> Any:
    """Return for each mask the sum of the costs of the bonds that lead out of it."""
    total = np.zeros(len(masks))
    for i in range(len(masks)):
        for k in range(len(ends)):
            a, b = ends[k, 0], ends[k, 1]
            in_a = (masks[i, 0] & bit[a, 0]) | (masks[i, 1] & bit[a, 1]) != _ZERO
            in_b = (masks[i, 0] & bit[b, 0]) | (masks[i, 1] & bit[b, 1]) != _ZERO
            if in_a != in_b:
                total[i] += cost[k]
    return total


def _two_cuts(
    neighbors: np.ndarray,
    order: np.ndarray,
    table: np.ndarray,
    masks: np.ndarray,
    whole: np.ndarray,
    count: int,
    most: int,
) -> Any:
    """Add what two sides share, and mark what is in pieces; return how many masks there are."""
    for i in range(len(order)):
        for j in range(i):
            lo = masks[order[i], 0] & masks[order[j], 0]
            hi = masks[order[i], 1] & masks[order[j], 1]
            if (lo | hi) == _ZERO or count >= most:
                continue
            if not _is_new(table, masks, lo, hi, count):
                continue
            start_lo, start_hi = lo & (~lo + _ONE), _ZERO  # the lowest atom
            if lo == _ZERO:
                start_hi = hi & (~hi + _ONE)
            got_lo, got_hi = _reach(neighbors, start_lo, start_hi, lo, hi)
            # what is in pieces stays in the table, so that it is tested once
            whole[count] = got_lo == lo and got_hi == hi
            count += 1
    return count


def _described(
    masks: np.ndarray,
    whole: np.ndarray,
    n_sides: int,
    bit: np.ndarray,
    ends: np.ndarray,
    cost: np.ndarray,
    codes: np.ndarray,
    hydrogens: np.ndarray,
) -> Any:
    """Return the columns of fragments of at least two atoms."""
    count = len(masks)
    total, n_broken = (
        _costs(masks, bit, ends, cost),
        _costs(masks[: n_sides + 1], bit, ends, np.ones(len(ends))),
    )
    code, sums = np.zeros(count, dtype=np.uint64), np.zeros(count, dtype=np.int64)
    cuts, kept = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    for row in range(count):
        size = 0
        for i in range(len(codes)):
            if (masks[row, 0] & bit[i, 0]) | (masks[row, 1] & bit[i, 1]) != _ZERO:
                size += 1
                code[row] += codes[i]
                sums[row] += hydrogens[i]
        if row > n_sides:
            cuts[row] = 3
        else:
            cuts[row] = 2 if n_broken[row] > 1.0 else int(n_broken[row])
        kept[row] = whole[row] and size > 1
    rows = np.flatnonzero(kept)
    return masks[rows], code[rows], sums[rows], total[rows], cuts[rows]
