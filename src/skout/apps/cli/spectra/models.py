"""The commands `models build` and `models show`, on the model that comes with skout."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from ..options import AsJson, NewModel
from ..results import check_place, describe_file, show, value_at

_NAME = "The model to build: massbank, of the open spectra of MassBank and MIADB."
_POOL = "The pool of candidates to score the model with; default the one that comes with skout."
_ALIKE = "Learn from records under CC BY-SA, too; share such a model under that license only."
_FILE = "The file of the model; default the model that comes with skout."

models: Typer = Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Build or show a model of spectra that needs no library of yours.",
)


@models.command()
def build(
    name: Annotated[str, Argument(help=_NAME)],
    out: NewModel,
    pool: Annotated[Path | None, Option(help=_POOL)] = None,
    share_alike: Annotated[bool, Option("--share-alike", help=_ALIKE)] = False,
    seed: Annotated[int, Option(help="Seed of all random draws.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Fit a model on open spectra, and save it with their sources and licenses.

    The spectra are the data set msms_open, which `skout datasets fetch msms_open` downloads.

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
        random_state=seed,
        verbose=is_terminal(),
    )
    facts = {"model": str(out), "left_out": 0, **facts}
    show(facts if as_json else for_people(facts), as_json)


@models.command("show")
def show_model(
    model: Annotated[Path | None, Argument(help=_FILE)] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a model of spectra learned from, under which licenses, and how good it is.

    Example: skout models show
    """
    from ...spectra.shipped.defaults import MODEL
    from .work import for_people

    path = MODEL if model is None else model
    facts = value_at(describe_file(path)["about"], "metadata", "fit_spectra")
    if facts is None:
        raise ValueError(f"{path} is not a model of spectra: `skout inspect` shows what it is.")
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
