"""The picture: one row for each method, one column for each test digit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .data import SIDE, first_of_each
from .png import GLYPH, blend, draw_text, encode_png
from .run import DemoRun, MethodRun

__all__ = ["PAPER", "RIGHT", "WRONG", "given_tile", "guess_tile", "truth_tile", "write_picture"]

PAPER = (248, 249, 251)
INK = (38, 44, 56)
RIGHT = (29, 92, 200)
WRONG = (222, 84, 20)
_PAGE = (255, 255, 255)

_ZOOM = 10  # picture pixels for one digit pixel
_GAP = 8
_MARGIN = 32
_TEXT = 4  # picture pixels for one dot of a letter


def _half(values: np.ndarray, colour: tuple[int, ...]) -> np.ndarray:
    """Return the RGB bytes of a half digit."""
    return blend(values.reshape(SIDE // 2, SIDE), colour, PAPER)


def given_tile(upper: np.ndarray) -> np.ndarray:
    """Return what a method sees: the upper half above blank paper."""
    return np.vstack([_half(upper, INK), _half(np.zeros_like(upper), INK)])


def truth_tile(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Return the whole digit."""
    return np.vstack([_half(upper, INK), _half(lower, INK)])


def guess_tile(upper: np.ndarray, lower: np.ndarray, right: bool) -> np.ndarray:
    """Return the upper half with a predicted lower half, coloured by whether it is right."""
    return np.vstack([_half(upper, INK), _half(lower, RIGHT if right else WRONG)])


def write_picture(run: DemoRun, path: str | Path, *, per_digit: int = 2) -> Path:
    """Write the completed digits as one PNG file.

    Parameters
    ----------
    run : DemoRun
        What `run_demo` returned.
    path : str or Path
        Where to write.
    per_digit : int, default=2
        Test digits of each class, the first ones of the shuffled test part.

    Returns
    -------
    path : Path
        Where it was written.
    """
    shown = first_of_each(run.test.digit, per_digit)
    upper, lower = run.test.upper[shown], run.test.lower[shown]
    rows = [("GIVEN", [given_tile(u) for u in upper])]
    rows += [("TRUTH", [truth_tile(u, t) for u, t in zip(upper, lower, strict=True)])]
    rows += [(m.name, _guesses(m, upper, shown)) for m in run.methods]
    path = Path(path)
    path.write_bytes(encode_png(_compose(rows)))
    return path


def _guesses(method: MethodRun, upper: np.ndarray, shown: np.ndarray) -> list[np.ndarray]:
    """Return the tiles of one method."""
    lower, right = method.lower[shown], method.right[shown]
    return [guess_tile(u, g, r) for u, g, r in zip(upper, lower, right, strict=True)]


def _compose(rows: list[tuple[str, list[np.ndarray]]]) -> np.ndarray:
    """Lay labelled rows of tiles and the legend on one canvas."""
    step = SIDE * _ZOOM + _GAP
    left = _MARGIN + (GLYPH[1] + 1) * _TEXT * max(len(label) for label, _ in rows) + 2 * _GAP
    width = left + step * len(rows[0][1]) - _GAP + _MARGIN
    breaks = 2 * _GAP  # what is given and true stands apart from what is predicted
    height = _MARGIN + step * len(rows) + breaks + 3 * _GAP + GLYPH[0] * _TEXT + _MARGIN
    canvas = np.full((height, width, 3), _PAGE, dtype=np.uint8)
    for i, (label, tiles) in enumerate(rows):
        top = _MARGIN + step * i + (breaks if i >= 2 else 0)
        _write(canvas, label, top + (SIDE * _ZOOM - GLYPH[0] * _TEXT) // 2, _MARGIN, INK)
        for j, tile in enumerate(tiles):
            big = tile.repeat(_ZOOM, axis=0).repeat(_ZOOM, axis=1)
            _paste(canvas, big, top, left + step * j)
    _legend(canvas, height - _MARGIN - GLYPH[0] * _TEXT, left)
    return canvas


def _legend(canvas: np.ndarray, top: int, left: int) -> None:
    """Say what the colours mean."""
    side = GLYPH[0] * _TEXT
    for text, colour in (("RIGHT DIGIT", RIGHT), ("WRONG DIGIT", WRONG)):
        _paste(canvas, blend(np.ones((side, side)), colour, PAPER), top, left)
        left = _write(canvas, text, top, left + side + 2 * _GAP, INK) + 6 * _GAP


def _write(canvas: np.ndarray, text: str, top: int, left: int, colour: tuple[int, ...]) -> int:
    """Draw text and return where it ends."""
    letters = blend(draw_text(text, _TEXT), colour, _PAGE)
    _paste(canvas, letters, top, left)
    return left + letters.shape[1]


def _paste(canvas: np.ndarray, pixels: np.ndarray, top: int, left: int) -> None:
    canvas[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
