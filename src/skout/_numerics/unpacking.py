"""Files opened whatever their compression; none unpacks to more than it may."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .extras import extra

#: Ends of the names of compressed files.
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
# Bytes that are unpacked at a time.
_BLOCK = 2**16


def member_of(path: str | Path | IO[bytes]) -> str:
    """Return the name of the only file in a zip archive; hidden files and those of macOS aside."""
    with zipfile.ZipFile(path) as archive:
        files = [name for name in archive.namelist() if not name.endswith("/")]
    names = [name for name in files if not re.match(r"__MACOSX/|(.*/)?\.[^/]*$", name)]
    if len(names) != 1:
        what = f"it holds {len(names)} files ({', '.join(names[:5])})" if names else "it is empty"
        raise LimitError(f"{what}, and one is read: unpack it first, and name the file")
    return names[0]


@contextmanager
def _of_zip(raw: IO[bytes]) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(raw) as archive, archive.open(member_of(raw)) as stream:
        yield stream


@contextmanager
def _of_zstandard(raw: IO[bytes]) -> Iterator[IO[bytes]]:
    with extra("table", "Files that end in .zst need pyarrow"):
        import pyarrow
    with pyarrow.CompressedInputStream(raw, "zstd") as stream:
        yield stream


# How files begin, and what opens them.
_OPENERS: dict[bytes, Callable[..., Any]] = {
    rb"\x1f\x8b": gzip.open,
    rb"BZh[1-9]1AY&SY": bz2.open,
    rb"\xfd7zXZ\x00": lzma.open,
    rb"\x28\xb5\x2f\xfd": _of_zstandard,
    rb"PK\x03\x04": _of_zip,
}


@dataclass
class UnpackLimits:
    """Limits of what readers take from a file at a time: a small file cannot fill the memory.

    `skout.readers.LIMITS` are those of all readers. Set them higher for larger data that you trust.
    The defaults are conventions.

    Parameters
    ----------
    line : int, default 4 MiB
        Bytes of a line of text.
    record : int, default 16 MiB
        Letters of a spectrum of MGF, MSP or MassBank, or of a molecule of SDF.
    spectrum : int, default 64 MiB
        Bytes of a spectrum of mzML as it stands in the file.
    array : int, default 32 MiB
        Bytes of an array of mzML when unpacked.
    unpacked : int, default 16 MiB
        Bytes that any compressed file may unpack to.
    ratio : int, default 100
        How many times its size a larger one may unpack to.

    Examples
    --------
    >>> from skout.readers import LIMITS
    >>> LIMITS.array = 2**27  # 16 million peaks
    >>> LIMITS.array = 2**25
    """

    line: int = 2**22
    record: int = 2**24
    spectrum: int = 2**26
    array: int = 2**25
    unpacked: int = 2**24
    ratio: int = 100


#: The limits of all readers.
LIMITS = UnpackLimits()


class LimitError(ValueError):
    """A file, or a part of it, is larger than readers allow: see `UnpackLimits`."""


#: What is raised where a compressed file is damaged, or larger than it may be.
DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, LimitError)


@contextmanager
def opened(path: Path | IO[bytes], limits: UnpackLimits = LIMITS) -> Iterator[Any]:
    """Open a file for reading bytes, unpacked if it begins as compressed files do.

    A file that is open already is read as it is. Where one unpacks to far more than its size, a
    `LimitError` is raised.
    """
    if hasattr(path, "read"):
        yield path
        return
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    with open(path, "rb") as raw:
        start = raw.peek(10)
        unpack = next((opener for mark, opener in _OPENERS.items() if re.match(mark, start)), None)
        if unpack is None:
            yield raw
            return
        with unpack(raw) as stream:
            yield io.BufferedReader(_Bounded(stream, raw, limits), _BLOCK)


class _Bounded(io.RawIOBase):
    """A stream that is unpacked, up to a multiple of the bytes of its file."""

    def __init__(self, stream: io.BufferedIOBase, packed: IO[bytes], limits: UnpackLimits) -> None:
        super().__init__()
        self._stream, self._packed, self._size, self._limits = stream, packed, 0, limits

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._stream.read1(len(buffer))
        buffer[: len(block)] = block
        self._size += len(block)
        if self._size > max(self._limits.unpacked, self._limits.ratio * self._packed.tell()):
            raise LimitError(
                f"it unpacks to more than {self._limits.ratio} times its size: if you trust it, "
                "unpack it first"
            )
        return len(block)


def ending(path: str | Path) -> str:
    """Return the suffix of a file's name in lower case, before that of a compression.

    A zip archive without such a suffix has that of the file in it.

    Examples
    --------
    >>> from skout.dev import ending
    >>> ending("Train.CSV.gz"), ending("train.tsv")
    ('.csv', '.tsv')
    """
    plain = Path(str(path).lower())
    if plain.suffix == ".zip" and not plain.with_suffix("").suffix and zipfile.is_zipfile(path):
        return ending(member_of(path))
    return (plain.with_suffix("") if plain.suffix in PACKED else plain).suffix
