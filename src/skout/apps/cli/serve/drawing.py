"""Columns that are the pixels of an image, and drawings as SVG."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .limits import Deadline

_SPEC = re.compile(r"(\d{1,4})x(\d{1,4})(?::([^,:]+),([^,:]+))?").fullmatch


@dataclass(frozen=True)
class Picture:
    """Columns that are the pixels of an image, row by row."""

    height: int
    width: int
    low: float = 0.0  # black
    high: float = 1.0  # white

    def check(self, columns: Sequence[str]) -> None:
        """Raise if the columns are not as many as the pixels."""
        if len(columns) != self.height * self.width:
            raise ValueError(
                f"An image of {self.height}x{self.width} has {self.height * self.width} pixels, "
                f"and the model {len(columns)} columns of numbers."
            )


def picture_of(text: str, option: str) -> Picture:
    """Return the picture that an option describes, such as 16x16 or 16x16:-1,1.

    Examples
    --------
    >>> from skout.apps.cli.serve.drawing import picture_of
    >>> picture_of("8x4:0,16", "--input-image")
    Picture(height=8, width=4, low=0.0, high=16.0)
    """
    match = _SPEC(text)
    try:
        if match is None:
            raise ValueError
        height, width, low, high = match.groups()
        return Picture(int(height), int(width), float(low or 0.0), float(high or 1.0))
    except ValueError:
        raise ValueError(
            f"{option} must be HEIGHTxWIDTH, such as 16x16, or with the values of black and white, "
            f"such as 16x16:-1,1. Got {text!r} instead."
        ) from None


def draw_all(
    draw: Callable[[str], str], texts: Iterable[str], deadline: Deadline
) -> dict[str, str | None]:
    """Return the SVG of each text; None for one that cannot be drawn."""
    pictures: dict[str, str | None] = {}
    for text in texts:
        if text not in pictures:
            deadline.check()
            pictures[text] = draw(text) or None
    return pictures
