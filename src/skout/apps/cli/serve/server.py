"""Open the model to serve, and run the server until a signal ends it."""

import asyncio
import ctypes
import ipaddress
import logging
import math
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from skout.dev import single_thread

from ...spectra.pools import MoleculePool
from ..results import describe_file
from ..spectra.files import open_identifier
from ..using import open_model
from .answers import TableModel
from .app import build_app
from .drawing import Picture
from .guard import LOCAL, JsonLines
from .limits import Limits
from .models import Models, digest
from .spectra import SpectraModel

log: logging.Logger = logging.getLogger("skout.serve")
# Seconds for the head of a request to arrive, and until a connection without a request is closed.
_HEAD, _KEEP_ALIVE = 10.0, 15
# The parameter M_MMAP_THRESHOLD of mallopt, and bytes from which memory is given back when freed.
_MMAP_THRESHOLD, _GIVEN_BACK = -3, 2**20


def open_served(
    model: Path,
    pool: Path | None = None,
    *,
    skip_invalid: bool = False,
    input_image: Picture | None = None,
    output_image: Picture | None = None,
) -> TableModel | SpectraModel:
    """Return the model of a file, with the candidates of another file if one is given."""
    about = describe_file(model)["about"]
    served: TableModel | SpectraModel
    if about["class"].endswith("SpectrumIdentifier"):
        if pool is None:
            raise ValueError(
                "--pool is missing: name the pool of molecules that `skout pool build` made."
            )
        served = SpectraModel(open_identifier(model), MoleculePool.open(pool), digest(model))
    else:
        saved, notes = open_model(model), about["metadata"]["command_line"]
        candidates = saved.candidates(pool, skip_invalid)
        records = notes.get("targets") or [notes]
        validations = [record.get("validation", {}) for record in records]
        summaries = [  # files of earlier versions have no "scores"
            facts.get("scores", facts.get("summary", "")).replace("+-", "±")
            for facts in validations
        ]
        if saved.others:
            summaries = [
                f"{target.outputs.name}: {text}"
                for target, text in zip(saved.targets, summaries, strict=True)
            ]
        served = TableModel(
            saved,
            candidates,
            digest(model),
            "\n".join(summaries),
            input_image,
            output_image,
            notes.get("example", {}),
        )
    with suppress(Exception):  # the row is made up, and may be refused
        served.warm()
    return served


def prepare(
    models: Models,
    limits: Limits,
    host: str,
    port: int,
    *,
    allowed: Sequence[str] = (),
    reload_seconds: float = 1.0,
) -> tuple[uvicorn.Server, socket.socket]:
    """Return a server that is not yet started, and the socket where it will listen.

    Requests must have one of the `allowed` host names. Without these, a server that listens to
    other computers allows any, and others those of this computer.
    """
    place = _bind(host, port)
    hosts = (*allowed, *LOCAL, host) if allowed or _is_local(host) else ()
    app = build_app(models, limits, hosts=hosts, reload_seconds=reload_seconds)
    return uvicorn.Server(_config(app, limits)), place


def serve(
    models: Models,
    limits: Limits,
    host: str,
    port: int,
    *,
    allowed: Sequence[str] = (),
    reload_seconds: float = 1.0,
) -> None:
    """Answer requests until a signal ends the process, and then those that are running."""
    _write_log()
    # glibc would keep the memory of freed bodies; other libraries have no such option
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _GIVEN_BACK)
    server, place = prepare(
        models, limits, host, port, allowed=allowed, reload_seconds=reload_seconds
    )
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{place.getsockname()[1]}"
    log.info("serving", extra={"address": address, "model": models.current.id})
    with single_thread():  # requests run in parallel
        server.run(sockets=[place])


def _bind(host: str, port: int) -> socket.socket:
    """Return a listening socket, of protocol TCP, for which asyncio sends without delay."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    place = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind((host, port))
    except OSError as error:
        place.close()
        why = f"{error.strerror}. Give another --port."
        raise OSError(f"Cannot listen at {host}, port {port}: {why}") from error
    place.listen(512)
    return place


def _config(app: FastAPI, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=int(limits.seconds) + 5,
    )


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _write_log() -> None:
    """Log to standard error, as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.captureWarnings(True)
    for name, level in (("skout.serve", "INFO"), ("uvicorn", "WARNING"), ("py.warnings", "INFO")):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


class TimedProtocol(H11Protocol):
    """HTTP that closes connections whose requests do not begin, or whose heads do not end, in time.

    Where all connections are taken, a new one takes the place of the oldest without a request.
    """

    _timer: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since = self.loop.time()
        self._wait()
        self._make_room()

    def _make_room(self) -> None:
        """Close the oldest connection without a request, where there are too many."""
        is_open = [
            connection
            for connection in self.connections
            if isinstance(connection, TimedProtocol) and not connection.transport.is_closing()
        ]
        idle = [
            connection
            for connection in is_open
            if connection is not self and not connection._is_busy()
        ]
        if idle and len(is_open) >= (self.limit_concurrency or math.inf):
            min(idle, key=lambda connection: connection._since)._close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_busy() or self.timeout_keep_alive_task is not None:
            self._stop()
        elif self._timer is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._timer = self.loop.call_later(_HEAD, self._close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._stop()
        if not self._is_busy() and not self.transport.is_closing():
            self.transport.close()
