"""The addresses of a server: the page, the API, /health and /metrics."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from skout import __version__

from ..results import Columns, as_csv
from ..spectra.output import hit_columns
from .answers import as_rankings
from .guard import LOCAL, Failed, Guard, read_body
from .limits import Bodies, Deadline, Gate, Limits, Refused
from .metrics import Metrics
from .models import Models
from .schemas import (
    Failure,
    Identifications,
    Predictions,
    PredictRequest,
    RankedRows,
    RankRequest,
    SpectraRequest,
    parse,
)

# An answer: its body, the type of that, and the number of rows.
Answer = tuple[bytes, str, int]
Work = Callable[..., Answer]
_JSON, _CSV = "application/json", "text/csv; charset=utf-8"
_PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_ABOUT = "A model of skout: predictions of rows, rankings of candidates, names of spectra."


def build_app(
    models: Models,
    limits: Limits | None = None,
    *,
    hosts: tuple[str, ...] = LOCAL,
    reload_seconds: float = 1.0,
) -> FastAPI:
    """Return the application that answers requests.

    Requests must name one of the `hosts`; if there are none, any host.
    """
    limits = limits or Limits()
    bodies, gate, metrics = Bodies(limits), Gate(limits), Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(models.watch(reload_seconds))
        yield
        watching.cancel()
        gate.close()

    app = FastAPI(
        title="skout serve",
        version=__version__,
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
    )
    _add_errors(app)
    _add_page(app)
    _add_api(app, models, limits, bodies, gate)
    _add_state(app, models, bodies, gate, metrics)
    routes = [path for path in (getattr(route, "path", "") for route in app.routes) if path]
    app.add_middleware(Guard, metrics=metrics, routes=routes, hosts=hosts)
    return app


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        is_unknown = error.status_code == 404 and error.detail == "Not Found"
        reason = "There is no such address: see /openapi.json." if is_unknown else error.detail
        refused = Refused(error.status_code, reason)
        refused.headers.update(error.headers or {})
        return Failed(refused)


def _add_page(app: FastAPI) -> None:
    """Add the addresses of the page, whose files are read here, and not by a request."""
    for path, (name, kind) in _PAGE.items():
        content = (files(__package__) / "page" / name).read_bytes()
        app.add_api_route(path, _constant(content, kind), include_in_schema=False)


def _constant(content: bytes, kind: str) -> Callable[[], Any]:
    async def endpoint() -> Response:
        return Response(content, headers={"Cache-Control": "no-cache"}, media_type=kind)

    return endpoint


def _add_api(app: FastAPI, models: Models, limits: Limits, bodies: Bodies, gate: Gate) -> None:
    @app.get("/api/model")
    async def model() -> dict[str, Any]:
        """Return what the model takes and predicts, and the limits of requests."""
        allowed = {name: getattr(limits, name) for name in ("megabytes", "rows", "candidates")}
        return {**models.current.about(), "limits": allowed, "version": __version__}

    for path, schema, answer, work in (
        ("/api/predict", PredictRequest, Predictions, _predict),
        ("/api/rank", RankRequest, RankedRows, _rank),
        ("/api/identify", SpectraRequest, Identifications, _identify),
    ):
        endpoint = _endpoint(models, limits, bodies, gate, work)
        app.add_api_route(path, endpoint, **_described(schema, answer))


def _described(schema: Any, answer: Any) -> dict[str, Any]:
    """Return the OpenAPI description of an address, as bodies are parsed in another thread."""
    body = {"required": True, "content": {_JSON: {"schema": schema.model_json_schema()}}}
    failures = {code: {"model": Failure} for code in (400, 408, 413, 415, 422, 503)}
    good = {"model": answer, "content": {"text/csv": {}}}
    return {
        "methods": ["POST"],
        "openapi_extra": {"requestBody": body},
        "responses": {200: good, **failures},
        "response_class": Response,
    }


def _endpoint(
    models: Models, limits: Limits, bodies: Bodies, gate: Gate, work: Work
) -> Callable[..., Any]:
    """Return an endpoint that answers requests by `work`, or with the reason of a refusal."""

    async def endpoint(request: Request) -> Response:
        deadline, note = Deadline(limits.seconds), request.scope["skout"]
        wants_csv = "text/csv" in request.headers.get("accept", "")
        try:
            with bodies.share() as grow:
                body = await read_body(request, limits, deadline, grow)
                model = models.current
                note["model"] = model.id
                job = partial(_attempt, work, model, body, limits, wants_csv)
                answer = await gate.run(job, deadline, len(body))
        except Refused as refused:
            return Failed(refused)
        except ClientDisconnect:
            return Failed(Refused(400, "The body of the request is not complete."))
        except Exception as error:
            note["exception"] = error
            reason = "The server failed; its log says why."
            return Failed(Refused(500, reason))
        if isinstance(answer, Refused):
            return Failed(answer)
        content, kind, note["rows"] = answer
        headers = {"Cache-Control": "no-store", "X-Skout-Model": model.id}
        return Response(content, headers=headers, media_type=kind)

    endpoint.__name__, endpoint.__doc__ = work.__name__.strip("_"), work.__doc__
    return endpoint


def _attempt(work: Work, *arguments: Any) -> Answer | Refused:
    """Return an answer or a refusal, without its traceback, which would keep the rows in memory."""
    try:
        return work(*arguments)
    except Refused as refused:
        return Refused(refused.status, refused.reason, **refused.headers)
    except ValueError as error:  # what is wrong with the rows
        return Refused(422, " ".join(str(error).split()))


def _predict(
    model: Any, body: bytes, limits: Limits, wants_csv: bool, deadline: Deadline
) -> Answer:
    """Predict the output of each row, as `skout predict` does."""
    request = parse(PredictRequest, body, limits)
    blocks, unseen = _able(model, "predict")(request, limits, deadline)
    if wants_csv:
        return _csv(blocks)
    rows = model.as_rows(blocks)
    record = {
        "output": ", ".join(target.outputs.kind.name for target in model.saved.targets),
        "rows": rows,
        "unseen": [{**vars(value), "note": f"{value}."} for value in unseen],
    }
    return _json(model, record), _JSON, len(rows)


def _rank(model: Any, body: bytes, limits: Limits, wants_csv: bool, deadline: Deadline) -> Answer:
    """Rank candidates for each row, as `skout rank` does."""
    request = parse(RankRequest, body, limits)
    blocks = _able(model, "rank")(request, limits, deadline)
    if wants_csv:
        return _csv(blocks)
    kind = model.saved.outputs.kind
    rows = as_rankings(blocks, deadline, kind.picture if request.draw else None)
    return _json(model, {"output": kind.name, "rows": rows}), _JSON, len(rows)


def _identify(
    model: Any, body: bytes, limits: Limits, wants_csv: bool, deadline: Deadline
) -> Answer:
    """Name the molecules of spectra, as `skout identify` does."""
    request = parse(SpectraRequest, body, limits)
    if wants_csv:
        return _csv(hit_columns(_able(model, "identify")(request, limits, deadline)))
    spectra = _able(model, "identify_drawn")(request, limits, deadline)
    return _json(model, {"spectra": spectra}), _JSON, len(spectra)


def _able(model: Any, method: str) -> Callable[..., Any]:
    """Return a method of the model, or refuse the request if it has no such method."""
    function: Callable[..., Any] | None = getattr(model, method, None)
    if function is None:
        takes = "tables" if model.kind == "table" else model.kind
        raise Refused(404, f"The model takes {takes}: see /api/model.")
    return function


def _csv(blocks: Iterable[Columns]) -> Answer:
    text = as_csv(blocks)
    return text.encode(), _CSV, max(0, text.count("\n") - 1)


def _json(model: Any, record: dict[str, Any]) -> bytes:
    return json.dumps({"model": model.id, **record}, ensure_ascii=False, allow_nan=False).encode()


def _add_state(app: FastAPI, models: Models, bodies: Bodies, gate: Gate, metrics: Metrics) -> None:
    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Return which model answers, and what is wrong with a newer file."""
        return {
            "status": "ok",
            "model": models.current.id,
            "loaded": round(models.loaded, 3),
            "reload_error": models.error,
        }

    @app.get("/metrics", response_class=Response)
    async def counts() -> Response:
        """Return counts in the text format of Prometheus."""
        now = {
            "skout_running": gate.running,
            "skout_waiting": gate.waiting,
            "skout_body_bytes": bodies.held,
            "skout_model_loaded_timestamp_seconds": round(models.loaded, 3),
            **{f'skout_loads_total{{result="{k}"}}': n for k, n in models.loads.items()},
        }
        return Response(metrics.text(now), media_type="text/plain; version=0.0.4; charset=utf-8")
