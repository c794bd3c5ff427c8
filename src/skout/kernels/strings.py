"""Kernels on strings: texts, words, SMILES, sequences of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from .._numerics.objects import Ragged, as_objects, pointers
from .._numerics.typing import Objects
from .._numerics.validation import check_choice, check_number
from .bags import BagKernel, Bags, mix, work_slices

# Bits of a code point, and of what is packed: the first of the 64 bits marks hashes.
_CODE_BITS, _PACKED_BITS = 21, 63
_HASHED = np.uint64(1 << 63)
# Characters that are made into bags at a time: arrays of 16 MB. For 20,000 strings of 400 half and
# double take about as long, four times as many 2.5 times and more.
_BLOCK = 2**21


class NGram(BagKernel):
    """Spectrum kernel of strings: sum over n-grams u of count_u(a) count_u(b) (2.1).

    An n-gram is n characters in a row. Objects are str or bytes; the characters of a str are its
    code points, those of bytes are numbers up to 255.

    Parameters
    ----------
    n : int or sequence of ints, default 3
        Length of the n-grams; with several lengths k is the sum of their kernels.
    presence : bool, default False
        Whether an n-gram counts once however often it occurs.
    short : "error" or "keep", default "error"
        What to do with strings shorter than the least n, which have no n-gram: "keep" makes them
        alike to nothing, k = 0, or with `Normalized` to each other alone.

    Notes
    -----
    N-grams are named by 64 bits. Those whose codes all have at most b = min(21, 63 // n) bits get
    their own codes, side by side: any text for n <= 3, ASCII for n <= 9. Others are hashed into 63
    bits, and q different ones have two with one name with a probability of about q^2 / 2^64, 5e-8
    for a million. With several lengths, n-grams of different lengths fall together as rarely.

    Examples
    --------
    >>> from skout.kernels import NGram
    >>> NGram(2)(["banana", "ananas", "nab"])  # ba an na: 1 2 2, an na as: 2 2 1, na ab: 1 1
    array([[9., 8., 2.],
           [8., 9., 2.],
           [2., 2., 2.]])
    >>> NGram(2, presence=True)(["banana"], ["ananas"])
    array([[2.]])
    """

    compares = "strings"

    def __init__(
        self, n: int | Sequence[int] = 3, *, presence: bool = False, short: str = "error"
    ) -> None:
        self.n = n
        self.presence = presence
        self.short = short

    @property
    def lengths(self) -> tuple[int, ...]:
        """The different lengths of n-grams, increasing."""
        sizes = self.n if isinstance(self.n, list | tuple | range | np.ndarray) else [self.n]
        if sizes is not self.n and not isinstance(self.n, Integral):
            raise TypeError(f"n must be an int or a sequence of ints. Got {self.n!r} instead.")
        lengths = [int(check_number(n, "n", low=1, integer=True)) for n in sizes]
        if not lengths or len(set(lengths)) < len(lengths):
            raise ValueError(f"n must have at least one length, each once. Got {self.n!r} instead.")
        return tuple(sorted(lengths))

    def _bags(self, objects: Objects) -> Bags:
        lengths = self.lengths
        check_choice(self.presence, "presence", (False, True))
        check_choice(self.short, "short", ("error", "keep"))
        strings = _as_strings(objects)
        text = _as_text(strings)
        if self.short == "error":
            _refuse_short(text, lengths[0], strings)
        parts = work_slices(text.lengths, _BLOCK)
        bags = Bags.concatenate([_count(text[part], lengths) for part in parts])
        if self.presence:
            return Bags(bags.indptr, bags.features, np.ones_like(bags.counts))
        return bags

    def vocabulary(self, objects: Objects) -> tuple[np.ndarray, np.ndarray]:
        """Return the different n-grams of strings, of the greatest length n only.

        Parameters
        ----------
        objects : list or array of str or bytes
            The strings.

        Returns
        -------
        features : ndarray of uint64, shape (q,)
            The names that bags have for them, increasing.
        codes : ndarray of uint32, shape (q, n)
            Their characters.

        Examples
        --------
        >>> from skout.kernels.strings import NGram, string_of
        >>> features, codes = NGram(2).vocabulary(["banana"])
        >>> [string_of(row) for row in codes]
        ['an', 'ba', 'na']
        """
        n, text = self.lengths[-1], _as_text(_as_strings(objects))
        start, _ = _windows(text, n)
        names = _names(text.columns[0], n, tagged=len(self.lengths) > 1)[start]
        features, first = np.unique(names, return_index=True)
        return features, text.columns[0][start[first][:, None] + np.arange(n)]


def string_of(codes: np.ndarray, kind: type = str) -> str | bytes:
    """Return the str or bytes of character codes.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.kernels.strings import string_of
    >>> string_of(np.array([104, 105]))
    'hi'
    """
    if issubclass(kind, bytes):
        return codes.astype(np.uint8).tobytes()
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


# Reading strings ---------------------------------------------------------------------------------


def _as_strings(objects: Objects) -> list[Any]:
    """Return a list of str, or of bytes."""
    if isinstance(objects, str | bytes | set | dict) or not hasattr(objects, "__len__"):
        raise TypeError(
            f"NGram takes a list or array of strings. Got {type(objects).__name__} instead; for a "
            "single string give a list of one."
        )
    if getattr(objects, "ndim", 1) != 1:
        raise ValueError(
            "NGram takes a list or a 1-D array of strings. "
            f"Got an array of shape {np.shape(objects)} instead."
        )
    strings: list[Any] = as_objects(objects).tolist()
    for kind in (str, bytes):
        if all(issubclass(t, kind) for t in set(map(type, strings))):
            return strings
    first = str if isinstance(strings[0], str) else bytes
    i = next(i for i, text in enumerate(strings) if not isinstance(text, first))
    if i == 0 or not isinstance(strings[i], str | bytes):
        raise TypeError(
            f"NGram takes strings, str or bytes. Got {strings[i]!r} of type "
            f"{type(strings[i]).__name__} at index {i}: leave it out or replace it."
        )
    raise TypeError(
        "NGram takes strings of one type, all str or all bytes. Got "
        f"{type(strings[0]).__name__} at index 0 and {type(strings[i]).__name__} at index {i}."
    )


def _as_text(strings: list[Any]) -> Ragged:
    """Return the character codes of all strings, one string a row."""
    lengths = np.fromiter(map(len, strings), dtype=np.int64, count=len(strings))
    if strings and isinstance(strings[0], bytes):
        codes = np.frombuffer(b"".join(strings), dtype=np.uint8).astype(np.uint32)
    else:
        joined = "".join(strings).encode("utf-32-le", "surrogatepass")
        codes = np.frombuffer(joined, dtype="<u4").astype(np.uint32, copy=False)
    return Ragged(pointers(lengths), codes)


def _refuse_short(text: Ragged, n: int, strings: list[Any]) -> None:
    """Raise where a string has no n-gram."""
    short = np.flatnonzero(text.lengths < n)
    if len(short) == 0:
        return
    i = int(short[0])
    others = f", and {len(short) - 1} more are as short" if len(short) > 1 else ""
    raise ValueError(
        f"The string at index {i}, {strings[i]!r}, is shorter than n={n} and has no "
        f'n-gram{others}. Give short="keep" to let such strings be alike to nothing, give n a '
        "length that all have, or leave them out."
    )


# Counting n-grams --------------------------------------------------------------------------------


def _count(text: Ragged, lengths: tuple[int, ...]) -> Bags:
    """Return the bags of n-grams of a part of a text."""
    rows, names = [], []
    for n in lengths:
        start, row = _windows(text, n)
        rows.append(row)
        names.append(_names(text.columns[0], n, tagged=len(lengths) > 1)[start])
    return Bags.collect(len(text), np.concatenate(rows), np.concatenate(names))


def _windows(text: Ragged, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the n-grams start that lie in one string, and the strings."""
    row = text.row_numbers
    start = np.flatnonzero(np.arange(len(row)) + n <= text.indptr[1:][row])
    return start, row[start]


def _names(codes: np.ndarray, n: int, tagged: bool) -> np.ndarray:
    """Return a name for each n codes in a row, which depends on nothing else."""
    count = max(0, len(codes) - n + 1)
    bits = np.uint64(min(_CODE_BITS, _PACKED_BITS // n))
    names, seen = np.zeros(count, dtype=np.uint64), np.zeros(count, dtype=np.uint64)
    for j in range(n):
        part = codes[j : j + count]
        names <<= bits
        names |= part
        seen |= part  # has more bits than allowed if any of the codes has
    wide = np.flatnonzero(seen >> bits)
    names[wide] = _hash(codes, wide, n)
    # lengths are told apart by where a one-to-one map of 64 bits puts their names
    return mix(names + mix(np.array([n], dtype=np.uint64))) if tagged else names


def _hash(codes: np.ndarray, start: np.ndarray, n: int) -> np.ndarray:
    """Return hashes, which have the first bit set, of the n codes from each start on."""
    names = np.full(len(start), n, dtype=np.uint64)
    for j in range(n):
        names = mix(names ^ codes[start + j])
    return names | _HASHED
