"""The file format: named arrays in the layout of safetensors, and a checksum at the end.

    8 bytes        the length of the header, little-endian
    header         JSON: {"__metadata__": {text: text}, name: {dtype, shape, data_offsets}, ...}
    buffer         the arrays without gaps, largest items first, so that each is aligned
    last 32 bytes  the SHA-256 of all bytes before; to safetensors it is one more array

A reader trusts nothing: lengths are compared with the size of the file before memory is allocated,
and the header is not parsed before the checksum is verified.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from typing import IO, Any, TypeAlias

import numpy as np

from .._numerics.files import FileError as FileError
from .._numerics.files import replacing
from .._numerics.typing import Json, PathLike

#: A JSON object of the header or of the structure of a file.
Node: TypeAlias = dict[str, Any]
#: A value in a model: a number, a text, a container, an array or an object.
Value: TypeAlias = Any
#: dtypes by their names in safetensors.
DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype("?"),
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

_START = b'{"__metadata__":{"format":"skout",'
_CHECKSUM = "sha256"
_DIGEST = hashlib.sha256().digest_size
_MAX_HEADER = 100_000_000  # bytes, as in safetensors: about a million arrays
_MAX_DIMENSIONS = 32  # of arrays of NumPy 1
_READ = 2**20  # bytes of the file that are hashed at a time


# Writing ------------------------------------------------------------------------------------------


def write_file(
    path: PathLike, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Write C-contiguous arrays, with dtypes in `DTYPES`, and metadata.

    The file at `path` is the old or the new one at any time, never a part.
    """
    order = sorted(arrays, key=lambda name: -arrays[name].itemsize)
    header: dict[str, Any] = {"__metadata__": {"format": "skout", **metadata}}
    end = 0
    for name in order:
        start, end = end, end + arrays[name].nbytes
        header[name] = _entry(_NAMES[arrays[name].dtype], arrays[name].shape, start, end)
    header[_CHECKSUM] = _entry("U8", (_DIGEST,), end, end + _DIGEST)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MAX_HEADER:
        raise ValueError(f"The model has {len(arrays)} arrays, more than a file can hold.")
    parts: list[Any] = [len(text).to_bytes(8, "little"), text]
    parts += [arrays[name].reshape(-1).view(np.uint8) for name in order]
    digest = hashlib.sha256()
    with replacing(path) as place, open(place, "wb") as out:
        for part in parts:
            digest.update(part)
            out.write(part)
        out.write(digest.digest())


def _entry(dtype: str, shape: tuple[int, ...], start: int, end: int) -> Node:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


# Reading ------------------------------------------------------------------------------------------


def read_file(
    path: PathLike, *, mmap: bool = False
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Return the metadata and the arrays of a file.

    With `mmap` the arrays stay in the file: they are read when they are used.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = _header_length(file, size)
        _verify(file, size)
        file.seek(8)
        header = parse_json(file.read(length))
        first = 8 + length
        metadata, entries = _checked_header(header, first, size - first)
        if mmap:
            whole = np.memmap(file, dtype=np.uint8, mode="r")
            return metadata, {name: _mapped(whole[first:], e) for name, e in entries.items()}
        arrays = {}
        for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
            file.seek(first + entry["data_offsets"][0])
            arrays[name] = _copied(file, entry)
        return metadata, arrays


def _header_length(file: IO[bytes], size: int) -> int:
    """Return the length of the header, or raise if this is no file of skout."""
    start = file.read(8 + len(_START))
    length = int.from_bytes(start[:8], "little")
    if start[8:] != _START:
        raise FileError(f"This is not a file of skout{_kind(start)}.")
    if length > min(size - 8 - _DIGEST, _MAX_HEADER):
        raise FileError(
            f"The file is truncated or damaged: it has {size} bytes, and its header should have "
            f"{length}."
        )
    return length


def _kind(start: bytes) -> str:
    """Return, for an error, what kind of file this may be instead."""
    if start[:1] == b"\x80":
        return ", but a pickle, which could run code: it is not read"
    if start[:4] == b"PK\x03\x04":
        return ", but a zip archive"
    if start[8:9] == b"{":
        return ", but arrays in safetensors of another program, or it is damaged"
    return ""


def _verify(file: IO[bytes], size: int) -> None:
    """Raise unless the last bytes are the checksum of the others."""
    file.seek(0)
    digest, left = hashlib.sha256(), size - _DIGEST
    while left > 0:
        part = file.read(min(_READ, left))
        if not part:
            break
        digest.update(part)
        left -= len(part)
    if file.read() != digest.digest():
        raise FileError(
            "The file is truncated or damaged: its checksum is not that of its contents. "
            "Take another copy of it."
        )


def _checked_header(header: Json, first: int, size: int) -> tuple[dict[str, str], dict[str, Node]]:
    """Return metadata and entries, or raise unless entries cover the buffer exactly once."""
    metadata = header.pop("__metadata__", None) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FileError("The header of the file has no metadata.")
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: _offsets(*item)):
        start, stop = entry["data_offsets"]
        if start != end or stop > size:
            raise FileError(
                f"Array {name!r} lies at {start} to {stop} of {size} bytes, where {end} should be "
                "its start: arrays must lie in the file one after the other."
            )
        _check_entry(name, entry, first)
        end = stop
    if end != size or header.pop(_CHECKSUM, None) != _entry("U8", (_DIGEST,), end - _DIGEST, end):
        raise FileError("The arrays do not fill the file, or the checksum is not the last of them.")
    return metadata, header


def _offsets(name: str, entry: Json) -> tuple[int, int]:
    """Return the start and the end of an array in the buffer, or raise for a malformed entry."""
    match entry:
        case {"dtype": str(), "shape": list(shape), "data_offsets": [start, stop]}:
            if len(entry) == 3 and all(type(n) is int and n >= 0 for n in (*shape, start, stop)):
                return start, stop
    raise FileError(f"The header describes array {name!r} in a way that cannot be read.")


def _check_entry(name: str, entry: Node, first: int) -> None:
    """Raise unless dtype and shape fit the number of bytes, and the array is aligned."""
    dtype = DTYPES.get(entry["dtype"])
    if dtype is None:
        raise FileError(f"Array {name!r} has the unknown dtype {entry['dtype']!r}.")
    start, stop = entry["data_offsets"]
    needed = math.prod(entry["shape"]) * dtype.itemsize
    if needed != stop - start or len(entry["shape"]) > _MAX_DIMENSIONS:
        raise FileError(
            f"Array {name!r} of shape {entry['shape']} and dtype {entry['dtype']} takes {needed} "
            f"bytes. The file has {stop - start} for it."
        )
    if (first + start) % dtype.itemsize:
        raise FileError(f"Array {name!r} starts between two multiples of its item's size.")


def _copied(file: IO[bytes], entry: Node) -> np.ndarray:
    """Return an array read into memory."""
    array = np.empty(entry["shape"], DTYPES[entry["dtype"]])
    if file.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
        raise FileError("The file became shorter while it was read.")
    return _checked_values(array)


def _mapped(buffer: np.ndarray, entry: Node) -> np.ndarray:
    """Return an array that stays in the file."""
    start, stop = entry["data_offsets"]
    part = np.asarray(buffer[start:stop])
    return _checked_values(part.view(DTYPES[entry["dtype"]]).reshape(entry["shape"]))


def _checked_values(array: np.ndarray) -> np.ndarray:
    """Return the array, or raise for booleans other than 0 and 1, which NumPy does not expect."""
    if array.dtype == bool and array.view(np.uint8).max(initial=0) > 1:
        raise FileError("An array of booleans has values other than 0 and 1.")
    return array


def parse_json(text: bytes | str) -> Json:
    """Return the value of JSON, or raise for duplicate keys, NaN and too deep nesting."""
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except FileError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileError(f"The file has a part that is not proper JSON: {error}.") from error


def _distinct(pairs: list[tuple[str, Json]]) -> Node:
    items = dict(pairs)
    if len(items) < len(pairs):
        raise FileError("The file has a JSON object with the same key twice.")
    return items


def _no_constant(name: str) -> Value:
    raise FileError(f"The file has {name} in JSON, which is no number there.")
