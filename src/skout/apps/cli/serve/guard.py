"""What all requests pass: checks of hosts, headers, logs, counts, and the reading of bodies."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from .limits import Deadline, Limits, Refused
from .metrics import Metrics

log: logging.Logger = logging.getLogger("skout.serve")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

# Nothing is loaded from elsewhere, and no script runs but that of the page.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_ENCODED = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
#: The host names of this computer.
LOCAL = ("localhost", "127.0.0.1", "[::1]")
# Seconds for which the rest of a refused body is read, since its sender reads the answer after it.
_LINGER = 2.0


class Guard:
    """Middleware that checks the host of requests, adds headers, and counts by `routes`.

    Only requests whose header Host, without a port, is one of `hosts` are answered; if there are
    no `hosts`, all are.
    """

    def __init__(
        self, app: App, metrics: Metrics, routes: Sequence[str], hosts: Sequence[str] = LOCAL
    ) -> None:
        self._app, self._metrics = app, metrics
        self._routes, self._hosts = set(routes), set(hosts)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500
        note: dict[str, Any] = {}
        scope["skout"] = note

        more = [*_ENCODED, (b"connection", b"close")] if _is_ambiguous(scope) else _ENCODED

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        try:
            if self._hosts and _host(scope) not in self._hosts:
                refused = Refused(400, "This host is not served.", Connection="close")
                await Failed(refused)(scope, receive, sending)
            else:
                await self._app(scope, receive, sending)
        finally:
            self._count(scope, status, time.perf_counter() - start, note)

    def _count(self, scope: Message, status: int, seconds: float, note: dict[str, Any]) -> None:
        path = scope["path"]
        rows = note.get("rows", 0)
        self._metrics.add(path if path in self._routes else "other", status, seconds, rows)
        said: dict[str, Any] = {
            "method": scope["method"][:20],
            "path": path[:200],
            "status": status,
            "ms": round(1e3 * seconds, 2),
            "rows": rows,
            **{name: note[name] for name in ("model", "error") if name in note},
        }
        level = logging.ERROR if status == 500 else logging.INFO
        log.log(level, "request", extra=said, exc_info=note.get("exception"))


def _host(scope: Message) -> str:
    """Return the host that a request is for, without the port."""
    value = next((value for name, value in scope["headers"] if name == b"host"), b"")
    host = value.decode("latin-1").lower()
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def _is_ambiguous(scope: Message) -> bool:
    """Whether a proxy may see another end of the body (RFC 9112, 6.1: close the connection)."""
    return {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}


async def read_body(
    request: Request, limits: Limits, deadline: Deadline, grow: Callable[[int], None]
) -> bytes:
    """Return the body of a JSON request, or refuse one that is too large or too slow.

    Its bytes are counted by `grow`, against the total of all bodies.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # other sites cannot send it without asking first
        raise Refused(415, "The body must be JSON: Content-Type: application/json.")
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > limits.bytes:
        raise _too_large(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(deadline.left):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.bytes:
                    raise _too_large(limits)
                grow(len(body))
    except TimeoutError:
        late = f"The body did not arrive within {deadline.seconds:g} s."
        raise Refused(408, late, Connection="close") from None
    return bytes(body)


def _too_large(limits: Limits) -> Refused:
    return Refused(413, f"A request may have {limits.megabytes:g} MB.", Connection="close")


class Failed(Response):
    """The response to a refused request: a status, and the reason as JSON."""

    def __init__(self, refused: Refused) -> None:
        reason = {"status": refused.status, "message": refused.reason[:1000]}
        headers = {"Cache-Control": "no-store", **refused.headers}
        body = json.dumps({"error": reason})
        super().__init__(body, refused.status, headers, media_type="application/json")
        self._reason = refused.reason[:200]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Send the response; read the rest of the body, so that the sender gets to the response."""
        scope.get("skout", {})["error"] = self._reason
        if self.status_code not in (413, 503) or "connection" not in self.headers:
            await super().__call__(scope, receive, send)
            return
        status, headers = self.status_code, self.raw_headers
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        await _drain(receive)
        await send({"type": "http.response.body", "body": b""})


async def _drain(receive: Receive) -> None:
    """Read what is still coming for a while, and throw it away."""
    try:
        async with asyncio.timeout(_LINGER):
            while True:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body"):
                    return
    except TimeoutError:
        pass


class JsonLines(logging.Formatter):
    """Formats a record of the log as one line of JSON."""

    _OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        said |= {name: v for name, v in vars(record).items() if name not in self._OWN}
        if record.exc_info and record.exc_info[0] is not None:
            said["trace"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)
