"""What the readers of mzML and mzXML share: elements as they come, arrays, and damage."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any
from xml.etree import ElementTree

import numpy as np

from skout.dev import DAMAGED, LimitError, opened

from .records import Faults, File, blocks_of, unpacked
from .tables import Spectrum

#: Elements of a spectrum at most.
MOST_ELEMENTS = 100_000


def spectra_of(
    elements: Callable[[IO[bytes]], Iterator[ElementTree.Element]],
    level_of: Callable[[ElementTree.Element], str],
    read: Callable[[ElementTree.Element], Spectrum],
    level: int,
    path: File,
    faults: Faults,
) -> Iterator[tuple[int, Spectrum]]:
    """Yield the spectra of one MS level with their numbers; damage goes to `faults`."""
    number = 0
    with opened(path) as stream:
        try:
            for number, element in enumerate(elements(stream), 1):
                try:
                    present = level_of(element)
                    faults.met[f"spectra of MS level {present}"] += 1
                    if present != str(level):
                        continue
                    spectrum = read(element)
                except (zlib.error, binascii.Error, LimitError) as error:
                    faults.add(number, 0, f"its arrays cannot be unpacked ({error}).")
                except ValueError as error:
                    faults.add(number, 0, str(error))
                else:
                    yield number, spectrum
        except (ElementTree.ParseError, *DAMAGED) as error:
            faults.add(number + 1, 0, f"the file cannot be read from here on ({error}).")


def xml_events(stream: IO[bytes]) -> Iterator[tuple[int, str, ElementTree.Element]]:
    """Yield how many bytes were read, "start" or "end", and the element; "read" after a block."""
    parser: Any = ElementTree.XMLPullParser(("start", "end"))
    place, element = 0, ElementTree.Element("")
    for block in blocks_of(stream):
        place += len(block)
        parser.feed(block)
        for event, element in parser.read_events():
            yield place, event, element
        yield place, "read", element
    if hasattr(parser, "flush"):  # newer versions may hold back what came last
        parser.flush()
        for event, element in parser.read_events():
            yield place, event, element
    parser.close()


def is_named(element: ElementTree.Element, *names: str) -> bool:
    """Whether an element has one of these names, in any namespace."""
    return element.tag.rpartition("}")[2] in names


def decoded(text: str, dtype: str, *, packed: bool) -> np.ndarray:
    """Return the numbers of base64 text, which zlib may have packed."""
    raw = base64.b64decode(text.encode().translate(None, b" \t\r\n"), validate=True)
    raw = unpacked(raw) if raw and packed else raw
    return np.frombuffer(raw, dtype=dtype).astype(np.float64)
