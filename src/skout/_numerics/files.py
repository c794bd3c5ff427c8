"""Files are written under a temporary name, and then replace the old one in a single step."""

from __future__ import annotations

import errno
import math
import os
import re
import secrets
import shutil
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from .typing import DType, PathLike

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"\.skout-[0-9a-f]{16}\.tmp")
# Seconds after its last change in which a temporary file is not removed, whoever wrote it: file
# systems without locks cannot tell that it is in use. A convention.
_YOUNG = 60.0
# Errors of a full disk, a quota and a limit on the size of files.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Errors of file systems that cannot reserve space.
_UNABLE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
# Bytes of zeros that are written at a time: 1 MB.
_ZEROS = 2**20


class FileError(ValueError):
    """A file that is damaged, not of skout, of a newer version, or made to do harm."""

    __module__ = "skout.persistence"  # where users find it


def check_place(path: str | os.PathLike[str], name: str = "path", *, streams: bool = True) -> None:
    """Raise, before any work, if no file can be written at a path.

    Parameters
    ----------
    path : path
    name : str, default "path"
        The name of the argument, for the message.
    streams : bool, default True
        Whether a pipe or a device, which is written into, is allowed.
    """
    for target in (os.fspath(path), os.path.realpath(path)):  # where a link points to, too
        folder = os.path.dirname(target)
        if folder and not os.path.isdir(folder):
            raise FileNotFoundError(f"{name}: there is no folder {folder!r}.")
    if os.path.isdir(path):
        raise IsADirectoryError(
            f"{name} must be a file. Got the folder {os.fspath(path)!r} instead."
        )
    if _is_stream(path) and not streams:
        raise ValueError(f"{name} must be a file. Got {os.fspath(path)!r}, a pipe or a device.")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield where to write a file, which takes the place of `path` when the block ends.

    The file at `path` is the old or the new one at any time, and the old one after an error. A
    symbolic link stays: the file that it points to is replaced. A pipe, a terminal or a device
    such as /dev/null is never replaced: `path` itself is yielded, to write into.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skout._numerics.files import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "notes.txt"
    ...     with replacing(path) as part:
    ...         _ = part.write_text("all of it")
    ...     path.read_text()
    'all of it'
    """
    with _errors_name(path):
        if _is_stream(path):
            yield Path(path)
            return
        target = Path(os.path.realpath(path))
        _remove_leftovers(target.parent)
        part = target.with_name(f".skout-{secrets.token_hex(8)}.tmp")
        with _held(part):
            try:
                yield part
                _sync(part, os.O_RDWR)
                with suppress(OSError):  # there may be no old file
                    shutil.copymode(target, part)
                os.replace(part, target)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
        with suppress(OSError):  # not every system can bring names to the disk
            _sync(target.parent, os.O_RDONLY)


def reserve(file: IO[bytes], size: int) -> None:
    """Reserve the disk space of a file, so that writing to a memory map of it cannot fail.

    On a full disk, writing to a memory map kills the process, and this raises an OSError. `file` is
    open for writing, at its end; `size` is its final size in bytes.
    """
    file.flush()
    try:
        os.posix_fallocate(file.fileno(), 0, size)
        return
    except AttributeError:  # a system without it
        pass
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
    for start in range(file.tell(), size, _ZEROS):
        file.write(bytes(min(_ZEROS, size - start)))
    file.flush()


def new_map(path: PathLike, shape: tuple[int, ...], dtype: DType = np.float64) -> np.memmap:
    """Return a new .npy file as a memory map, its disk space reserved."""
    dtype = np.dtype(dtype)
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with open(path, "wb") as file:
        npy.write_array_header_1_0(file, header)
        reserve(file, file.tell() + math.prod(shape) * dtype.itemsize)
    return npy.open_memmap(path, "r+")


@contextmanager
def only_one(path: str | os.PathLike[str]) -> Iterator[None]:
    """Lock a file for this process; the lock ends with the process.

    Raises
    ------
    BlockingIOError
        If another process holds it. File systems without locks let all processes pass.
    """
    with open(path, "wb") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BlockingIOError(
                    errno.EAGAIN, "Another process is at work here: wait for its end", str(path)
                ) from None
            except OSError:  # not every file system has locks
                pass
        yield


@contextmanager
def warn_unwritten(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an error in writing a checkpoint into a warning: the fit can go on without it."""
    try:
        yield
    except OSError as error:
        warnings.warn(
            f"checkpoint {os.fspath(path)!r} could not be written ({error}). The fit goes on; "
            "make room, or it cannot be resumed from here.",
            RuntimeWarning,
            stacklevel=4,
        )


def _is_stream(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a pipe or device, which is written into, not replaced."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # there is nothing, or it says so when it is opened
        return False
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return True
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "It is there and is no file: give another path", str(path))
    return False


@contextmanager
def _errors_name(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the path to the error of a full disk within the block."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


@contextmanager
def _held(part: Path) -> Iterator[None]:
    """Create a file, locked while it is written; the lock ends with the process."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    descriptor = os.open(part, flags, 0o666)
    try:
        if fcntl is None:  # a file that is open cannot take the place of another there
            os.close(descriptor)
        else:
            with suppress(OSError):  # not every file system has locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        if fcntl is not None:
            os.close(descriptor)


def _remove_leftovers(folder: Path) -> None:
    """Delete the temporary files of processes that were killed."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:  # a folder may be closed to readers
        leftovers = [entry for entry in entries if _TEMPORARY.fullmatch(entry.name)]
        for entry in leftovers:
            _remove_leftover(entry)


def _remove_leftover(entry: os.DirEntry[str]) -> None:
    """Delete a temporary file, unless it is young or some process is writing it."""
    with suppress(OSError):
        age = time.time() - entry.stat(follow_symlinks=False).st_mtime
        if age < _YOUNG or not entry.is_file(follow_symlinks=False):
            return
        descriptor = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an OSError while it is written
            os.unlink(entry.path)
        finally:
            os.close(descriptor)


def _sync(path: Path, flags: int) -> None:
    """Flush a file, or the names of a folder, to the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
