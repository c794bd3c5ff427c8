"""Commands on models that come ready: `models build` and `models show`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from ..options import AsJson, Debug, NewModel
from ..results import check_place, inside, show

_NAME = "massbank: the open spectra of MassBank and MIADB."
_POOL = "Candidates that the model is measured with; default the molecules that come with skout."
_ALIKE = "Also learn from records under CC BY-SA: pass such a model on under that license only."

models: Typer = Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Models of spectra that need no library of yours.",
)


@models.command()
def build(
    name: Annotated[str, Argument(help=_NAME)],
    out: NewModel,
    pool: Annotated[Path | None, Option(help=_POOL)] = None,
    share_alike: Annotated[bool, Option("--share-alike", help=_ALIKE)] = False,
    landmarks: Annotated[int, Option(min=10, help="Spectra that are kept in the file.")] = 800,
    seed: Annotated[int, Option(help="Seed of all draws.")] = 0,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Fit a model on open spectra, with sources and licenses in its file.

    The spectra are the data set msms_open: `skout datasets fetch msms_open` downloads them.

    Example: skout models build massbank -o massbank.skout
    """
    from skout.dev import check_choice

    from ...spectra.shipped import build_massbank_model
    from ..progress import is_terminal
    from .files import open_pool
    from .work import for_people

    check_choice(name, "name", ("massbank",))
    check_place(out, "--out")
    facts = build_massbank_model(
        out,
        open_pool(pool),
        share_alike=share_alike,
        n_landmarks=(landmarks, 5 * landmarks // 8),
        random_state=seed,
        verbose=is_terminal(),
    )
    facts = {"model": str(out), "left_out": 0, **facts}
    show(facts if as_json else for_people(facts), as_json)


@models.command("show")
def show_model(
    model: Annotated[Path | None, Argument(help="A file; default the one of skout.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say what a ready model learned from, under which licenses, and how good it was.

    Example: skout models show
    """
    from skout.persistence import describe

    from ...spectra.shipped.defaults import MODEL
    from .work import for_people

    path = MODEL if model is None else model
    facts = inside(describe(path)["about"], "metadata", "fit_spectra")
    if facts is None:
        raise ValueError(f"{path} is no model of spectra: `skout inspect` shows what it is.")
    if as_json:
        show(facts, as_json)
        return
    name = "the model that comes with skout" if model is None else str(path)
    people = for_people({"model": name, "left_out": 0, "seconds": None, **facts})
    people.pop("seconds")
    if "source" in facts:
        people |= {
            "source": facts["source"],
            "licenses": ", ".join(f"{name} ({n:,})" for name, n in facts["licenses"].items()),
            "contributors": ", ".join(facts["contributors"]),
            "changes": facts["changes"],
        }
    show(people, as_json)
