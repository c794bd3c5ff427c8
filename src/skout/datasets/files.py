"""Find a data file: in the folder SKOUT_DATA, among those that come with skout, in the user's
cache, by a download; checked by hash.

`skout.datasets.originals` gets data sets from their public files instead.

Three environment variables are read:

SKOUT_DATA       the user's folder of data files; looked at first, never written to
SKOUT_CACHE      where downloads go; default the cache folder of the operating system
SKOUT_DATA_URL   the address of a folder of such files, for downloads

Only files whose hash is known are downloaded.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from .catalogue import File, Source

__all__ = ["cache_folder", "checked", "locate", "packed", "retrieve"]

#: Where files are downloaded from unless SKOUT_DATA_URL says otherwise. The files are repackaged
#: and their licences rarely allow to publish them, so there is no public address by default.
BASE_URL = ""

#: The files that come with skout; their README has the licences.
SHIPPED = Path(__file__).parent / "data"


def locate(source: Source) -> list[Path]:
    """Return the files of a data set, each checked by its hash.

    One that is nowhere and cannot be downloaded is an error that says where to get it and where to
    put it. One with a wrong hash is an error too; only from the cache it is removed.
    """
    return [_locate(file, source) for file in source.files]


def packed(source: Source) -> bool:
    """Return whether all files of a data set are on this computer, without a look inside."""
    return all(any(path.is_file() for path in _places(file)) for file in source.files)


def _locate(file: File, source: Source) -> Path:
    for folder in _read_only():
        if (folder / file.name).is_file():
            return _check(folder / file.name, file, source, "It was left as it is; replace it.")
    path = cache_folder() / file.name
    return checked(path, file, source) if path.is_file() else _download(file, source, path)


def checked(path: Path, file: File, source: Source) -> Path:
    """Return the path of a file in the cache that has the right hash; remove any other."""
    try:
        return _check(path, file, source, "It was removed; load the data again.")
    except ValueError:
        path.unlink()
        raise


def _user_folder() -> Path | None:
    folder = os.environ.get("SKOUT_DATA")
    return Path(folder).expanduser() if folder else None


def _read_only() -> list[Path]:
    folder = _user_folder()
    return [SHIPPED] if folder is None else [folder, SHIPPED]


def cache_folder() -> Path:
    """Return the folder that downloads go to."""
    folder = os.environ.get("SKOUT_CACHE")
    if folder:
        return Path(folder).expanduser()
    import pooch  # takes a while to import

    return Path(pooch.os_cache("skout"))


def _places(file: File) -> list[Path]:
    return [place / file.name for place in (*_read_only(), cache_folder())]


# Hashes ----------------------------------------------------------------------------------------


def _check(path: Path, file: File, source: Source, remedy: str) -> Path:
    """Return the path of a file that has the right hash."""
    status = path.stat()
    if file.sha256 is None:
        return path
    found = _sha256(path, status.st_size, status.st_mtime_ns)
    if found != file.sha256:
        raise ValueError(
            f"{path} is corrupted or another version: its sha256 is {found}, that of the data set "
            f"{source.name!r} is {file.sha256}. {remedy} {_origin(source)}"
        )
    return path


@functools.cache
def _sha256(path: Path, size: int, changed: int) -> str:
    """Hash a file once for each state that it has been seen in."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# Downloads -------------------------------------------------------------------------------------


def _download(file: File, source: Source, path: Path) -> Path:
    """Fetch a packed file into the cache."""
    base = os.environ.get("SKOUT_DATA_URL", BASE_URL).rstrip("/")
    if not base or file.sha256 is None:
        raise FileNotFoundError(_missing(file, source, _why_not(file, source)))
    return retrieve(f"{base}/{file.name}", file, path, source)


def retrieve(
    address: str, file: File, path: Path, source: Source, *, progress: bool = False
) -> Path:
    """Download a file to a path and check its hash; nothing is kept of a download that fails."""
    import pooch

    known = f"sha256:{file.sha256}"
    try:
        found = pooch.retrieve(
            address, known, fname=path.name, path=path.parent, progressbar=progress
        )
        return Path(found)
    except OSError as error:  # the errors of requests are such
        reason = f"Its download from {address} failed ({type(error).__name__})."
        raise FileNotFoundError(_missing(file, source, reason)) from error
    except ValueError as error:
        raise ValueError(
            f"What {address} has is corrupted or another version: {error}. Nothing was kept. "
            f"{_origin(source)}"
        ) from error


def _why_not(file: File, source: Source) -> str:
    if source.original is not None:
        return f"`skout datasets fetch {source.name}` downloads it."
    if file.sha256 is None:
        return "It is not downloaded, since its hash is not known."
    return "This very file has no public address; SKOUT_DATA_URL may name a folder that has it."


def _missing(file: File, source: Source, reason: str) -> str:
    """Say which file, where it was looked for, where it comes from and where to put it."""
    folder = _user_folder()
    looked = "SKOUT_DATA (not set)" if folder is None else f"SKOUT_DATA ({folder})"
    hashed = f"{file.size:,} bytes, sha256 {file.sha256}" if file.sha256 else "hash not known"
    return (
        f"The data set {source.name!r} needs the file {file.name} ({hashed}), which is neither in "
        f"the folder {looked} nor in the cache ({cache_folder()}). {reason} {_origin(source)} "
        "Put it into a folder and set SKOUT_DATA to that folder."
    )


def _origin(source: Source) -> str:
    return f"It comes from {source.origin}."
