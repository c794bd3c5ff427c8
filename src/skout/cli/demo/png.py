"""Write PNG files and pixel letters with nothing but zlib and NumPy."""

from __future__ import annotations

import struct
import zlib

import numpy as np

__all__ = ["GLYPH", "blend", "draw_text", "encode_png"]

GLYPH = (7, 5)  # rows and columns of a letter
# One letter = seven rows of five bits, written as two hexadecimal digits each.
_FONT = {
    "A": "0e11111f111111",
    "B": "1e11111e11111e",
    "C": "0e11101010110e",
    "D": "1e11111111111e",
    "E": "1f10101e10101f",
    "F": "1f10101e101010",
    "G": "0e11101711110f",
    "H": "1111111f111111",
    "I": "0e04040404040e",
    "J": "0702020202120c",
    "K": "11121418141211",
    "L": "1010101010101f",
    "M": "111b1515111111",
    "N": "11111915131111",
    "O": "0e11111111110e",
    "P": "1e11111e101010",
    "Q": "0e11111115120d",
    "R": "1e11111e141211",
    "S": "0f10100e01011e",
    "T": "1f040404040404",
    "U": "1111111111110e",
    "V": "11111111110a04",
    "W": "1111111515150a",
    "X": "11110a040a1111",
    "Y": "1111110a040404",
    "Z": "1f01020408101f",
    " ": "00000000000000",
}


def encode_png(pixels: np.ndarray) -> bytes:
    """Return the PNG file of an (height, width, 3) array of bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from skout.cli.demo.png import encode_png
    >>> encode_png(np.zeros((8, 8, 3), dtype=np.uint8))[1:4]
    b'PNG'
    """
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), dtype=np.uint8)  # a leading 0: unfiltered line
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB
    body = zlib.compress(lines.tobytes(), 9)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, body: bytes) -> bytes:
    """Return one PNG chunk: length, kind, body, checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def blend(ink: np.ndarray, colour: tuple[int, ...], paper: tuple[int, ...]) -> np.ndarray:
    """Return the RGB bytes of `ink` in [0, 1]: 0 is the paper, 1 the full colour."""
    share = np.asarray(ink, dtype=np.float64)[..., None]
    mixed = share * np.array(colour) + (1.0 - share) * np.array(paper)
    return np.rint(mixed).astype(np.uint8)


def draw_text(text: str, scale: int) -> np.ndarray:
    """Return the ink of capital letters, one blank column after each, `scale` pixels a dot."""
    letters = [np.pad(_letter(c), ((0, 0), (0, 1))) for c in text]
    return np.kron(np.hstack(letters), np.ones((scale, scale)))


def _letter(char: str) -> np.ndarray:
    """Return the 7 x 5 dots of a letter."""
    rows = np.frombuffer(bytes.fromhex(_FONT[char]), dtype=np.uint8)
    return np.unpackbits(rows[:, None], axis=1)[:, 3:]
