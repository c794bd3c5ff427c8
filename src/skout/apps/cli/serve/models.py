"""The model that is served, which is loaded again when its file is replaced."""

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

log: logging.Logger = logging.getLogger("skout.serve")
Stamp = tuple[Any, ...]


class Models:
    """Holds the model of some files as `current`, which a request takes once."""

    loaded: float
    current: Any

    def __init__(self, paths: Sequence[Path], open_all: Callable[[], Any]) -> None:
        self._paths, self._open = list(paths), open_all
        self.error: str | None = None
        self.loads: dict[str, int] = {"ok": 0, "failed": 0}
        self.current, self._stamp = self._read()
        self._keep()

    def _keep(self) -> None:
        self.loaded, self.error = time.time(), None
        self.loads["ok"] += 1

    def _read(self) -> tuple[Any, Stamp]:
        """Return the model, and the stamp of its files, which did not change meanwhile."""
        while True:
            before = self._stamps()
            try:
                model = self._open()
            except Exception:
                if before == self._stamps():
                    raise
                continue
            if before == self._stamps():  # else parts may be of two models
                return model, before

    def _stamps(self) -> Stamp:
        """Return the stamps of the files, which change when files are replaced."""
        return tuple(_stamp(path) for path in self._paths)

    async def watch(self, seconds: float) -> None:
        """Load the files again whenever they change; a bad file changes nothing."""
        while True:
            await asyncio.sleep(seconds)
            stamp = self._stamps()
            if stamp == self._stamp:
                continue
            self._stamp = stamp
            try:
                self.current, self._stamp = await asyncio.to_thread(self._read)
            except Exception as error:
                self.loads["failed"] += 1
                self.error = self._said(error)
                log.error("the new model is not used: %s", self.error)
            else:
                self._keep()
                log.info("a new model is used", extra={"model": self.current.id})

    def _said(self, error: Exception) -> str:
        """Return the message of an error without the folders of files."""
        text = " ".join(str(error).split())
        for path in self._paths:
            text = text.replace(str(path), path.name)
        return f"{type(error).__name__}: {text}"


def _stamp(path: Path) -> Any:
    """Return inode, size and time of a file, and of the files in a folder."""
    try:
        stats = os.stat(path)
        inside = sorted(os.listdir(path)) if path.is_dir() else []
    except OSError as error:
        return error.errno
    of_file = (stats.st_ino, stats.st_size, stats.st_mtime_ns)
    return of_file, [_stamp(path / name) for name in inside]


def digest(path: Path) -> str:
    """Return the first 12 digits of the checksum at the end of a model's file."""
    size = hashlib.sha256().digest_size
    with open(path, "rb") as file:
        file.seek(-size, os.SEEK_END)
        return file.read(size).hex()[:12]
