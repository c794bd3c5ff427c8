"""Find the files of a data set: in the folder SKOUT_DATA, among those that come with skout, in the
user's cache, by a download; checked by hash.

Packed files are looked for first; where there are none, public files that were fetched serve. Four
environment variables are read:

SKOUT_DATA            the user's folder of packed files; read first, never written to
SKOUT_CACHE           where downloads go; default the cache folder of the operating system
SKOUT_DATA_URL        the address of a folder of packed files, for downloads
SKOUT_ORIGINALS_URL   another address than that of GitHub, for public files: below it are
                      repository/commit/path, or repository/releases/download/release/name

Packed files are downloaded only where their hash is known. A public file whose hash nobody has
recorded is known by the commit of its repository, and `parse` checks what it holds.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from .catalog import DatasetEntry, File, Original

#: The files that come with skout; their README has the licenses.
SHIPPED = Path(__file__).parent / "data"


def locate(entry: DatasetEntry) -> list[Path]:
    """Return the packed files of a data set, each checked by its hash.

    A file that is missing and cannot be downloaded is an error that says where to get it and where
    to put it. A file with a wrong hash is an error too; in the cache it is removed.
    """
    return [_locate(file, entry) for file in entry.files]


def packed(entry: DatasetEntry) -> bool:
    """Return whether all packed files are on this computer; their hashes are not checked."""
    folders = (*_read_only(), cache_folder())
    return all(any((folder / file.name).is_file() for folder in folders) for file in entry.files)


def available(entry: DatasetEntry) -> bool:
    """Return whether a data set is on this computer, packed or as it was published.

    Parameters
    ----------
    entry : DatasetEntry
        A value of `CATALOG`.
    """
    original = entry.original
    return packed(entry) or bool(
        original and all(_place(file, original).is_file() for file in original.files)
    )


def fetch(entry: DatasetEntry, *, progress: bool = False) -> list[Path]:
    """Download the public files of a data set into the cache, unless they are there.

    It is an error if there are no public files, a download fails or a file has another hash than it
    should; nothing is kept of it.

    Parameters
    ----------
    entry : DatasetEntry
        A value of `CATALOG`.
    progress : bool, default False
        Whether to show progress bars.
    """
    original = entry.original
    if original is None:
        raise FileNotFoundError(
            f"There is no public address for the data set {entry.name!r}. It comes from "
            f"{entry.origin}. Put its file into a folder and set SKOUT_DATA to that folder."
        )
    return [
        _cached(_place(file, original), file, entry, original.folder, progress)
        for file in original.files
    ]


def cache_folder() -> Path:
    """Return the folder that downloads go to."""
    folder = os.environ.get("SKOUT_CACHE")
    if folder:
        return Path(folder).expanduser()
    import pooch  # takes a while to import

    return Path(pooch.os_cache("skout"))


def _read_only() -> list[Path]:
    folder = os.environ.get("SKOUT_DATA")
    return [Path(folder).expanduser(), SHIPPED] if folder else [SHIPPED]


def _place(file: File, original: Original) -> Path:
    """Return the path of a public file in the cache, which has its hash or commit in its name."""
    version = (file.sha256 or original.commit)[:12]
    return cache_folder() / "originals" / f"{version}-{Path(file.name).name}"


def _locate(file: File, entry: DatasetEntry) -> Path:
    for folder in _read_only():
        if (folder / file.name).is_file():
            return _check(folder / file.name, file, entry, "It was left as it is; replace it.")
    # packed files are made from others whose licenses rarely allow to publish them: no address
    folder_url = os.environ.get("SKOUT_DATA_URL", "").rstrip("/")
    return _cached(cache_folder() / file.name, file, entry, folder_url)


def _cached(
    path: Path, file: File, entry: DatasetEntry, folder_url: str, progress: bool = False
) -> Path:
    """Return a file of the cache, which is downloaded if it is not there."""
    if not path.is_file():
        return _download(path, file, entry, folder_url, progress)
    try:
        return _check(path, file, entry, "It was removed; load the data again.")
    except ValueError:
        path.unlink()
        raise


def _check(path: Path, file: File, entry: DatasetEntry, remedy: str) -> Path:
    """Return the path of a file that has the right hash."""
    status = path.stat()
    if file.sha256 is None:
        return path
    sha256 = _sha256(path, status.st_size, status.st_mtime_ns)
    if sha256 != file.sha256:
        raise ValueError(
            f"{path} is corrupted or another version: its sha256 is {sha256}, that of the data set "
            f"{entry.name!r} is {file.sha256}. {remedy} It comes from {entry.origin}."
        )
    return path


@functools.cache
def _sha256(path: Path, size: int, changed: int) -> str:
    """Return the SHA-256 of a file; kept until its size or time changes."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _download(path: Path, file: File, entry: DatasetEntry, folder_url: str, progress: bool) -> Path:
    """Download a file into the cache and check its hash; nothing is kept if this fails."""
    public = entry.original is not None and file in entry.original.files
    if not folder_url or (file.sha256 is None and not public):
        raise FileNotFoundError(_missing(file, entry, _why_not(file, entry)))
    import pooch

    address = f"{folder_url}/{file.name}"
    sha256 = f"sha256:{file.sha256}" if file.sha256 else None
    options = {"fname": path.name, "path": path.parent, "progressbar": progress}
    try:
        return Path(pooch.retrieve(address, sha256, **options))
    except OSError as error:  # the errors of requests are such
        reason = f"Its download from {address} failed ({type(error).__name__})."
        raise FileNotFoundError(_missing(file, entry, reason)) from error
    except ValueError as error:
        raise ValueError(
            f"What {address} has is corrupted or another version: {error}. Nothing was kept. "
            f"It comes from {entry.origin}."
        ) from error


def _why_not(file: File, entry: DatasetEntry) -> str:
    if entry.original is not None:
        return f"`skout datasets fetch {entry.name}` downloads it."
    if file.sha256 is None:
        return "It is not downloaded, since its hash is not known."
    return "This very file has no public address; SKOUT_DATA_URL may name a folder that has it."


def _missing(file: File, entry: DatasetEntry, reason: str) -> str:
    """Return a message: which file is missing, where it comes from and where to put it."""
    looked = os.environ.get("SKOUT_DATA") or "not set"
    hashed = f"{file.size:,} bytes, sha256 {file.sha256}" if file.sha256 else "hash not known"
    return (
        f"The data set {entry.name!r} needs the file {file.name} ({hashed}), which is neither in "
        f"the folder SKOUT_DATA ({looked}) nor in the cache ({cache_folder()}). {reason} "
        f"It comes from {entry.origin}. Put it into a folder and set SKOUT_DATA to that folder."
    )
