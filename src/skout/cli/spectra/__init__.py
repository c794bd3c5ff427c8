"""`skout fit-spectra` and `skout identify`: a library of spectra, and the names of unknown ones.

`files` opens spectra, models and pools, `work` fits and identifies, `output` writes tables and
JSON, `page` writes HTML with what `drawings` draws.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    import typer

__all__ = ["add_spectra"]

Text = str | None

_LIBRARY = "Spectra with SMILES: .msp, .mgf, .mzML or MassBank .txt, also .gz; one file or several."
_SPECTRA = "Spectra to identify: .mgf, .msp, .mzML or MassBank .txt, also .gz; one file or several."
_POOL = "What `skout pool build` made."
_JUDGE = "Judge the model with candidates of this pool, as it will be used; default the library."
_ADDUCT = 'Of spectra that do not say theirs, such as "[M+H]+".'
_SKIP = "Leave out damaged records, and say which; default is to stop at the first."
_OUT = "hits.csv, .jsonl, .parquet (a row a hit), .json, .html (drawn structures), or - for CSV."
_LISTS = "A row a spectrum instead: query, and its SMILES with spaces between them."


def add_spectra(app: "typer.Typer") -> None:
    """Add the commands to the application."""
    _add_fit(app)
    _add_identify(app)


def _add_fit(app: "typer.Typer") -> None:
    """Add `skout fit-spectra`."""
    from typer import Argument, Option

    @app.command("fit-spectra")
    def fit_spectra(
        library: Annotated[list[Path], Argument(help=_LIBRARY)],
        out: Annotated[Path, Option("--out", "-o", help="The model's file.")],
        pool: Annotated[Path | None, Option(help=_JUDGE)] = None,
        ppm: Annotated[float, Option(help="Largest error of a candidate's mass.")] = 10.0,
        adduct: Annotated[Text, Option(help=_ADDUCT)] = None,
        folds: Annotated[int, Option(help="Folds of molecules to judge the model in.")] = 5,
        coverage: Annotated[float, Option(help="Share of prediction sets with the truth.")] = 0.9,
        skip_invalid: Annotated[bool, Option("--skip-invalid", help=_SKIP)] = False,
        seed: Annotated[int, Option(help="Seed of all draws.")] = 0,
        as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
        debug: Annotated[bool, Option("--debug", help="Show tracebacks.")] = False,
    ) -> None:
        """Learn to identify molecules from a library of spectra.

        Spectra of one molecule stay together: the printed top-1, top-10 and MRR@25 are of molecules
        that the model had not seen, with standard errors.

        Example: skout fit-spectra library.msp --pool pool.skpool -o m.skout
        """
        from ..results import check_place, show
        from .work import FitSettings, fit_library, for_people

        check_place(out, "--out", library)
        settings = FitSettings(pool, ppm, adduct, folds, coverage, skip_invalid, seed)
        found = fit_library(library, out, settings)
        show(found if as_json else for_people(found), as_json)


def _add_identify(app: "typer.Typer") -> None:
    """Add `skout identify`."""
    from typer import Argument, Option

    @app.command()
    def identify(
        spectra: Annotated[list[Path], Argument(help=_SPECTRA)],
        model: Annotated[Path, Option(help="What `skout fit-spectra` wrote.")],
        pool: Annotated[Path, Option(help=_POOL)],
        out: Annotated[str, Option("--out", "-o", help=_OUT)] = "-",
        ppm: Annotated[float, Option(help="Largest error of a candidate's mass.")] = 10.0,
        top: Annotated[int, Option(help="Candidates of a spectrum, at most.")] = 25,
        by: Annotated[
            str, Option(help="Candidates by mass, or by the formula in the file.")
        ] = "mass",
        adduct: Annotated[Text, Option(help=_ADDUCT)] = None,
        lists: Annotated[bool, Option("--lists", help=_LISTS)] = False,
        skip_invalid: Annotated[bool, Option("--skip-invalid", help=_SKIP)] = False,
        debug: Annotated[bool, Option("--debug", help="Show tracebacks.")] = False,
    ) -> None:
        """Name the molecules of spectra: candidates of a pool, best first.

        Example: skout identify spectra.mgf --model m.skout --pool pool.skpool -o hits.csv
        """
        from .output import check_form, write
        from .work import Asked, identify_files

        form = check_form(out, lists, [*spectra, model])
        asked = Asked(ppm, top, by, adduct, skip_invalid)
        found = identify_files(spectra, model, pool, asked)
        write(found, out, form)
