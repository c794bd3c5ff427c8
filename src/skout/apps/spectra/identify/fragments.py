"""Fragments of a molecule: what is left when few bonds are broken, and which peaks it explains.

A cut is one bond that is in no ring, or two bonds of a ring; a fragment takes one cut or two. The
atoms of a fragment are the bits of one or two words of 64 bits, and all fragments of a molecule are
worked on together: a fragment of two cuts is what two fragments of one cut share.
"""

from __future__ import annotations

import functools
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
# Fragments of a molecule that are looked at, at most.
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
    cost: np.ndarray  # (k,) of the broken bonds, kJ/mol where these are energies
    cuts: np.ndarray  # (k,) which of `CUTS`

    def of(self, rows: np.ndarray) -> Fragments:
        """Return some of them."""
        return Fragments(*(column[rows] for column in self))


class Bonds(NamedTuple):
    """What the fragmenter sees of a molecule of n atoms and b bonds."""

    ends: np.ndarray  # (b, 2)
    energy: np.ndarray  # (b,) kJ/mol
    kinds: tuple[str, ...]  # (b,) see `bond_class`
    code: np.ndarray  # (n,) of the elements
    hydrogens: np.ndarray  # (n,)


def bonds_of(molecule: Any) -> Bonds:
    """Return bonds and atoms of an RDKit molecule."""
    bonds, atoms = list(molecule.GetBonds()), list(molecule.GetAtoms())
    ends = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in bonds], dtype=np.int64)
    symbols = [str(atom.GetSymbol()) for atom in atoms]
    orders = [float(bond.GetBondTypeAsDouble()) for bond in bonds]
    classes = _atom_classes(symbols, [bool(a.GetIsAromatic()) for a in atoms], ends, orders)
    energy, kinds = np.empty(len(bonds)), []
    for i, (bond, order) in enumerate(zip(bonds, orders, strict=True)):
        a, b = ends[i]
        pair = "".join(sorted((symbols[a], symbols[b])))
        energy[i] = _ENERGIES.get(pair, _OTHER)[
            3 if order == 1.5 else min(max(int(order), 1), 3) - 1
        ]
        first, second = sorted((classes[a], classes[b]))
        kinds.append(first + _ORDERS.get(order, "~") + second + ("r" if bond.IsInRing() else ""))
    codes = np.array([CODES.get(symbol, 1) for symbol in symbols], dtype=np.uint64)
    hydrogens = np.array([atom.GetTotalNumHs() for atom in atoms], dtype=np.int64)
    return Bonds(ends.reshape(-1, 2), energy, tuple(kinds), codes, hydrogens)


def fragments_of(bonds: Bonds, cost: np.ndarray | None = None) -> Fragments | None:
    """Return the fragments of a molecule; None where it has more than 128 atoms.

    `cost` is that of breaking each bond, default its energy. Where there are too many fragments,
    those of cheap cuts are kept.
    """
    n = len(bonds.code)
    if n > _MOST_ATOMS:
        return None
    cost = bonds.energy if cost is None else np.asarray(cost, dtype=np.float64)
    compiled = _compiled()
    if compiled is not None:
        atoms = (bonds.code, bonds.hydrogens)
        masks, *columns = compiled(bonds.ends, cost, *atoms, _MOST_SIDES, _MOST_FRAGMENTS)
        return Fragments(masks[:, : 1 + (n - 1) // 64], *columns)
    masks, one_cut = _broken_down(n, bonds.ends, cost)
    member, broken = _members(masks, n), broken_bonds(masks, bonds.ends)
    enough = member.sum(axis=1, dtype=np.int64) > 1
    cuts = np.where(one_cut, np.minimum(broken.sum(axis=1), 2), 3)
    columns = [member @ bonds.code, member @ bonds.hydrogens, broken @ cost, cuts]
    return Fragments(masks, *columns).of(np.flatnonzero(enough))


def _broken_down(n: int, ends: np.ndarray, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the atoms of each fragment, the molecule first, and which take one cut at most."""
    words = 1 + (n - 1) // 64
    near = np.zeros((n, words), dtype=np.uint64)  # the neighbors of each atom
    for a, b in ends:
        near[a] |= _bit(b, words)
        near[b] |= _bit(a, words)
    whole = np.bitwise_or.reduce(np.stack([_bit(i, words) for i in range(n)]))
    sides = _sides(near, ends, whole)
    masks = [whole[None], sides]
    if len(sides):
        sides = sides[np.argsort(broken_bonds(sides, ends) @ cost, kind="stable")[:_MOST_SIDES]]
        first, second = np.triu_indices(len(sides), 1)
        shared = _distinct(sides[first] & sides[second])
        masks.append(shared[_connected(shared, near)])
    found = np.concatenate(masks)
    _, kept = (
        np.unique(found, axis=0, return_index=True)
        if words > 1
        else np.unique(found[:, 0], return_index=True)
    )
    kept = np.sort(kept)[:_MOST_FRAGMENTS]  # the molecule, then fragments of one cut
    return found[kept], kept <= len(masks[1])


def _bit(i: int, words: int) -> np.ndarray:
    return np.array([_ONE << np.uint64(i % 64) if k == i // 64 else 0 for k in range(words)], "u8")


def _has(masks: np.ndarray, i: int) -> np.ndarray:
    """Return 1 for masks with atom i, else 0."""
    return (masks[:, i // 64] >> np.uint64(i % 64)) & _ONE


def _members(masks: np.ndarray, n: int) -> np.ndarray:
    """Return which atoms each mask has, shape (k, n)."""
    bits = np.unpackbits(masks.astype("<u8", copy=False).view(np.uint8), axis=1, bitorder="little")
    return bits[:, :n]


def in_fragment(mask: np.ndarray, n: int) -> np.ndarray:
    """Return which of n atoms a mask of whole words has, (n,) bool."""
    return _members(mask[None], n)[0].astype(bool)


def broken_bonds(masks: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return which bonds lead out of each mask, shape (k, bonds)."""
    member = _members(masks, 64 * masks.shape[1])
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


def _atom_classes(
    symbols: list[str], aromatic: list[bool], ends: np.ndarray, orders: list[float]
) -> list[str]:
    """Return the kind of each atom: carbons by their double bonds, most halogens as one."""
    double: list[set[str]] = [set() for _ in symbols]
    for (a, b), order in zip(ends, orders, strict=True):
        if order >= 2:
            double[a].add(symbols[b])
            double[b].add(symbols[a])
    found = []
    for symbol, in_ring, others in zip(symbols, aromatic, double, strict=True):
        if in_ring:
            found.append(symbol.lower())
        elif symbol == "C":
            found.append("C(=X)" if others & {"O", "S", "N"} else "C(=C)" if others else "C")
        else:
            found.append("X" if symbol in ("Cl", "Br", "I") else symbol)
    return found


# Machine code ------------------------------------------------------------------------------------


@functools.cache
def _compiled() -> Any:
    """Return the columns of `Fragments` by machine code, or None where numba is missing.

    Masks have two words. It keeps the same fragments as `_broken_down`, unless there are more than
    the bounds.
    """
    try:
        import numba
    except ImportError:
        return None
    zero, one, shift = np.uint64(0), np.uint64(1), np.uint64(58)
    # a sequence in which each six bits differ numbers the lowest bit of a word
    sequence = np.uint64(0x03F79D71B4CB0A89)
    place = np.zeros(64, dtype=np.int64)
    for i in range(64):
        place[(0x03F79D71B4CB0A89 << i) % 2**64 >> 58] = i

    @numba.njit(nogil=True, inline="always")
    def reach(near, lo, hi, in_lo, in_hi):  # type: ignore[no-untyped-def]
        # all atoms of `in` that can be reached from those of (lo, hi)
        todo_lo, todo_hi = lo, hi
        while todo_lo != zero or todo_hi != zero:
            if todo_lo != zero:
                bit = todo_lo & (~todo_lo + one)
                todo_lo ^= bit
                atom = place[(bit * sequence) >> shift]
            else:
                bit = todo_hi & (~todo_hi + one)
                todo_hi ^= bit
                atom = 64 + place[(bit * sequence) >> shift]
            new_lo = near[atom, 0] & in_lo & ~lo
            new_hi = near[atom, 1] & in_hi & ~hi
            lo |= new_lo
            hi |= new_hi
            todo_lo |= new_lo
            todo_hi |= new_hi
        return lo, hi

    @numba.njit(nogil=True, inline="always")
    def is_new(table, keys, lo, hi, number):  # type: ignore[no-untyped-def]
        # put a mask into a table of numbers of masks, unless it is there
        size = np.uint64(len(table) - 1)
        h = (lo ^ (hi * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xD6E8FEB86659FD93)
        at = (h ^ (h >> np.uint64(32))) & size
        while table[at] >= 0:
            if keys[table[at], 0] == lo and keys[table[at], 1] == hi:
                return False
            at = (at + one) & size
        table[at] = number
        keys[number, 0], keys[number, 1] = lo, hi
        return True

    def break_down(ends, cost, codes, hydrogens, most_sides, most):  # type: ignore[no-untyped-def]
        n = len(codes)
        near = np.zeros((n, 2), dtype=np.uint64)
        bit = np.zeros((n, 2), dtype=np.uint64)
        all_lo, all_hi = zero, zero
        for i in range(n):
            bit[i, i // 64] = one << np.uint64(i % 64)
            all_lo |= bit[i, 0]
            all_hi |= bit[i, 1]
        for k in range(len(ends)):
            a, b = ends[k, 0], ends[k, 1]
            for w in range(2):
                near[a, w] |= bit[b, w]
                near[b, w] |= bit[a, w]
        size = 16
        while size < 4 * most:
            size *= 2
        table = np.full(size, -1, dtype=np.int32)
        found = np.empty((most + 1, 2), dtype=np.uint64)
        whole = np.ones(most + 1, dtype=np.bool_)
        count = 0
        if is_new(table, found, all_lo, all_hi, count):
            count += 1
        in_ring = np.empty(len(ends), dtype=np.int64)
        n_ring = 0
        for k in range(len(ends)):
            a, b = ends[k, 0], ends[k, 1]
            for w in range(2):
                near[a, w] &= ~bit[b, w]
                near[b, w] &= ~bit[a, w]
            lo, hi = reach(near, bit[a, 0], bit[a, 1], all_lo, all_hi)
            if (lo & bit[b, 0]) | (hi & bit[b, 1]) == zero:
                if count < most and is_new(table, found, lo, hi, count):
                    count += 1
                if count < most and is_new(table, found, all_lo & ~lo, all_hi & ~hi, count):
                    count += 1
            else:
                in_ring[n_ring] = k
                n_ring += 1
            for w in range(2):
                near[a, w] |= bit[b, w]
                near[b, w] |= bit[a, w]
        for first in range(n_ring):
            a, b = ends[in_ring[first], 0], ends[in_ring[first], 1]
            for second in range(first + 1, n_ring):
                c, d = ends[in_ring[second], 0], ends[in_ring[second], 1]
                for w in range(2):
                    near[a, w] &= ~bit[b, w]
                    near[b, w] &= ~bit[a, w]
                    near[c, w] &= ~bit[d, w]
                    near[d, w] &= ~bit[c, w]
                lo, hi = reach(near, bit[a, 0], bit[a, 1], all_lo, all_hi)
                if (lo & bit[b, 0]) | (hi & bit[b, 1]) == zero:
                    if count < most and is_new(table, found, lo, hi, count):
                        count += 1
                    if count < most and is_new(table, found, all_lo & ~lo, all_hi & ~hi, count):
                        count += 1
                for w in range(2):
                    near[a, w] |= bit[b, w]
                    near[b, w] |= bit[a, w]
                    near[c, w] |= bit[d, w]
                    near[d, w] |= bit[c, w]
        n_sides = count - 1
        side_cost = np.zeros(n_sides)
        for i in range(n_sides):
            lo, hi = found[i + 1, 0], found[i + 1, 1]
            for k in range(len(ends)):
                a, b = ends[k, 0], ends[k, 1]
                in_a = (lo & bit[a, 0]) | (hi & bit[a, 1]) != zero
                in_b = (lo & bit[b, 0]) | (hi & bit[b, 1]) != zero
                if in_a != in_b:
                    side_cost[i] += cost[k]
        order = np.argsort(side_cost)[:most_sides] + 1
        for i in range(len(order)):
            for j in range(i):
                lo = found[order[i], 0] & found[order[j], 0]
                hi = found[order[i], 1] & found[order[j], 1]
                if (lo | hi) == zero or count >= most:
                    continue
                if not is_new(table, found, lo, hi, count):
                    continue
                # the lowest atom
                start_lo = lo & (~lo + one)
                start_hi = zero
                if lo == zero:
                    start_hi = hi & (~hi + one)
                got_lo, got_hi = reach(near, start_lo, start_hi, lo, hi)
                # what is in pieces stays in the table, so that it is looked at once
                whole[count] = got_lo == lo and got_hi == hi
                count += 1
        kept = np.empty((count, 2), dtype=np.uint64)
        code = np.zeros(count, dtype=np.uint64)
        sums = np.zeros(count, dtype=np.int64)
        total = np.zeros(count)
        cuts = np.empty(count, dtype=np.int64)
        k = 0
        for row in range(count):
            if not whole[row]:
                continue
            lo, hi = found[row, 0], found[row, 1]
            size = 0
            code[k], sums[k], total[k] = zero, 0, 0.0
            for i in range(n):
                if (lo & bit[i, 0]) | (hi & bit[i, 1]) != zero:
                    size += 1
                    code[k] += codes[i]
                    sums[k] += hydrogens[i]
            n_broken = 0
            for b in range(len(ends)):
                in_a = (lo & bit[ends[b, 0], 0]) | (hi & bit[ends[b, 0], 1]) != zero
                in_b = (lo & bit[ends[b, 1], 0]) | (hi & bit[ends[b, 1], 1]) != zero
                if in_a != in_b:
                    n_broken += 1
                    total[k] += cost[b]
            if size > 1:
                kept[k] = found[row]
                cuts[k] = min(n_broken, 2) if row <= n_sides else 3
                k += 1
        return kept[:k], code[:k], sums[:k], total[:k], cuts[:k]

    signature = (
        "Tuple((u8[:, ::1], u8[::1], i8[::1], f8[::1], i8[::1]))"
        "(i8[:, ::1], f8[::1], u8[::1], i8[::1], i8, i8)"
    )
    return numba.njit(signature, nogil=True)(break_down)
