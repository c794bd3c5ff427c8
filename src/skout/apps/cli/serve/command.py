"""The command `skout serve`."""

from pathlib import Path
from typing import Annotated

from typer import Option

from skout.dev import extra

from ..options import Model, SkipInvalid, Text

_POOL = "The outputs to choose from: a table, a file of `skout embed`, or a pool of molecules."
_HOST = "The address to listen at; the default is open to this computer only. There is no password."
_NAMES = "A host name that requests may have; give it again for each further name."
_IMAGE = "Input columns are pixels: 16x16, or 16x16:-1,1 with the values of black and white."
_OUTPUT_IMAGE = "Predicted columns are pixels, as for --input-image."
_WORKERS = "The most requests that are worked on at a time; default one for each core."
_QUEUE = "The most requests that wait; further ones get a 503."
_RELOAD = "Seconds between checks for a new model in the file."


def serve(
    model: Model,
    pool: Annotated[Path | None, Option(help=_POOL)] = None,
    host: Annotated[str, Option(help=_HOST)] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    allow_host: Annotated[list[str] | None, Option(help=_NAMES)] = None,
    skip_invalid: SkipInvalid = False,
    input_image: Annotated[Text, Option(help=_IMAGE)] = None,
    output_image: Annotated[Text, Option(help=_OUTPUT_IMAGE)] = None,
    max_mb: Annotated[float, Option(help="The most MB of a request.")] = 8.0,
    max_rows: Annotated[int, Option(help="The most rows of a request.")] = 1000,
    max_candidates: Annotated[int, Option(help="The most candidates of a row.")] = 100,
    max_seconds: Annotated[float, Option(help="The most seconds of a request.")] = 30.0,
    max_workers: Annotated[int | None, Option(help=_WORKERS)] = None,
    max_queue: Annotated[int, Option(help=_QUEUE)] = 64,
    reload_seconds: Annotated[float, Option(min=0.01, help=_RELOAD)] = 1.0,
) -> None:
    """Serve a model by a page for people and a REST API for programs.

    Example: skout serve model.skout --port 8000
    """
    with extra("serve", "skout serve needs FastAPI and uvicorn"):
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    from .drawing import picture_of
    from .limits import Limits
    from .models import Models
    from .server import open_served
    from .server import serve as run

    limits = Limits(max_mb, max_rows, max_candidates, max_seconds, max_workers, max_queue)
    images = {
        name: picture_of(text, f"--{name.replace('_', '-')}")
        for name, text in (("input_image", input_image), ("output_image", output_image))
        if text is not None
    }
    models = Models(
        [model] if pool is None else [model, pool],
        lambda: open_served(model, pool, skip_invalid=skip_invalid, **images),
    )
    run(models, limits, host, port, allowed=allow_host or (), reload_seconds=reload_seconds)
