"""The popcount loop of packed bits, compiled by numba where it is installed (extra `fast`)."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from .._numerics.arrays import row_slices, sqrt
from .._numerics.threads import map_blocks, spare_threads

# (|a and b|, |a|, |b|) -> numerator and denominator of a kernel, of numbers and of arrays alike.
Parts = Callable[[Any, Any, Any], tuple[Any, Any]]

# Compiling takes a second or two: so many words are compared without it first, in about as long (60
# to 200 million words a second on one thread).
_FEW_WORDS = 2**27
# Words to compare from which a call is shared by threads: below, it takes less than a millisecond.
_SHARED_WORDS = 2**20
# Columns that stay in cache while the rows visit them; an even number. For 3,000 rows of 2,048 bits
# half and double are within noise, four times as many take up to 4 times as long.
_TILE = 64

_compiled: dict[Parts, Callable[..., None]] = {}
_compared = 0  # words, before anything was compiled
_lock = threading.Lock()


@functools.cache
def _has_numba() -> bool:
    try:
        import numba  # noqa: F401
    except ImportError:  # not installed, or not for this version of NumPy
        return False
    return True


def is_worthwhile(parts: Parts, n_words: int) -> bool:
    """Return whether to use the compiled loop: it is compiled, or compiling it pays off by now.

    `n_words` are the words of this call; they are added to those of earlier calls.
    """
    global _compared
    if parts in _compiled:
        return True
    with _lock:
        _compared += n_words
    return _compared >= _FEW_WORDS and _has_numba()


def fill_ratios(
    parts: Parts,
    words_a: np.ndarray,
    sizes_a: np.ndarray,
    words_b: np.ndarray,
    sizes_b: np.ndarray,
    out: np.ndarray,
) -> None:
    """Fill out[i, j] with the kernel of row i of a and row j of b; threads share the columns."""
    with _lock:
        if parts not in _compiled:
            _compiled[parts] = _compile(parts)
    loop = _compiled[parts]
    (n, w), m = words_a.shape, len(words_b)

    def fill(block: slice) -> None:
        loop(words_a, sizes_a, words_b[block], sizes_b[block], out, block.start)

    threads = spare_threads() if n * m * w >= _SHARED_WORDS else 1
    for _ in map_blocks(fill, row_slices(m, max(_TILE, -(-m // threads))), n_jobs=threads):
        pass


def _compile(parts: Parts) -> Callable[..., None]:
    """Return the loop over pairs; compiled at its first call, for the precision of `out`."""
    import numba

    _teach_sqrt()
    popcount, ratio = _popcount(), cast(Any, numba.njit(parts))

    @numba.njit
    def value(common: float, a: float, b: float) -> Any:
        top, bottom = ratio(float(common), a, b)
        if bottom > 0.0:
            return top / bottom
        return 1.0 if a == b else 0.0  # two empty sets are alike, an empty one is like no other

    # nogil: threads run it side by side. Two rows meet two columns at a time, for fewer loads, and
    # where their number is odd the last counts twice. Tiles of b stay in cache while a goes by.
    @numba.njit(nogil=True)
    def loop(words_a, sizes_a, words_b, sizes_b, out, first):  # type: ignore[no-untyped-def]
        (n, w), m = words_a.shape, len(words_b)
        for start in range(0, m, _TILE):
            for i in range(0, n, 2):
                p = min(i + 1, n - 1)
                for j in range(start, min(start + _TILE, m), 2):
                    q = min(j + 1, m - 1)
                    ij = iq = pj = pq = np.uint64(0)
                    for k in range(w):
                        ij += popcount(words_a[i, k] & words_b[j, k])
                        iq += popcount(words_a[i, k] & words_b[q, k])
                        pj += popcount(words_a[p, k] & words_b[j, k])
                        pq += popcount(words_a[p, k] & words_b[q, k])
                    out[i, first + j] = value(ij, sizes_a[i], sizes_b[j])
                    out[i, first + q] = value(iq, sizes_a[i], sizes_b[q])
                    out[p, first + j] = value(pj, sizes_a[p], sizes_b[j])
                    out[p, first + q] = value(pq, sizes_a[p], sizes_b[q])

    return loop


@functools.cache
def _teach_sqrt() -> None:
    """Tell numba what the square root of a number is, in formulas for arrays and tensors alike."""
    from numba.extending import overload

    @overload(sqrt)
    def of_number(x):  # type: ignore[no-untyped-def]
        return lambda x: np.sqrt(x)


def _popcount() -> Any:
    """Return the instruction that counts the bits of a word, which numba has no name for."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def popcount(typing_context, word):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.ctpop(arguments[0])

        return types.uint64(types.uint64), generate

    return popcount
