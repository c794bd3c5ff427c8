"""The commands `skout fit-spectra` and `skout identify`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..options import AsJson, Debug, NewModel, Text

_FORMS = ".mgf, .msp, .mzML, .mzXML, .json (GNPS), .ms (SIRIUS) or .txt (MassBank), also .gz"
_LIBRARY = f"Spectra with SMILES: {_FORMS}; one file or several."
_SPECTRA = f"Spectra to identify: {_FORMS}; one file or several."
_MODEL = "What `skout fit-spectra` wrote; default the model that comes with skout."
_POOL = "What `skout pool build` made; default the molecules that come with skout."
_MEASURE = "Candidates to measure the model with, as it will be used; default the library."
_PRIOR = (
    "A table of known molecules: inchikey or smiles, and a number, or sources with | between; "
    "`pool` takes the numbers of the pool. Default none."
)
_ADDUCT = 'Of spectra that do not say theirs, such as "[M+H]+", or by polarity "[M+H]+,[M-H]-".'
_MERGE = (
    "One result for all spectra of a compound: by the compound that the file names, else by "
    "precursor and retention time (10 s)."
)
_SKIP = "Leave out damaged records, and say which; default is to stop at the first."
_OUT = "hits.csv, .jsonl, .parquet (a row a hit), .json, .html (drawn structures), or - for CSV."
_LISTS = "A row a spectrum instead: query, and its SMILES with spaces between them."

Ppm = Annotated[float, Option(help="Largest error of a candidate's mass.")]
Adduct = Annotated[Text, Option(help=_ADDUCT)]
Prior = Annotated[Text, Option(help=_PRIOR)]
SkipInvalid = Annotated[bool, Option("--skip-invalid", help=_SKIP)]


def fit_spectra(
    library: Annotated[list[Path], Argument(help=_LIBRARY)],
    out: NewModel,
    pool: Annotated[Path | None, Option(help=_MEASURE)] = None,
    ppm: Ppm = 10.0,
    adduct: Adduct = None,
    prior: Prior = None,
    folds: Annotated[int, Option(help="Folds of laboratories, else of molecules.")] = 5,
    coverage: Annotated[float, Option(help="Share of prediction sets with the truth.")] = 0.9,
    skip_invalid: SkipInvalid = False,
    seed: Annotated[int, Option(help="Seed of all draws.")] = 0,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Learn to identify molecules from a library of spectra.

    The printed top-1, top-10 and MRR@25 are of molecules, and of laboratories where the spectra
    say theirs, that the model had not seen, with standard errors; random order stands beside.

    Example: skout fit-spectra library.msp --pool pool.skpool -o m.skout
    """
    from ..results import check_place, show
    from .work import fit_library, for_people

    check_place(out, "--out", library)
    record = fit_library(
        library,
        out,
        pool=pool,
        ppm=ppm,
        adduct=adduct,
        prior=prior,
        folds=folds,
        coverage=coverage,
        skip_invalid=skip_invalid,
        seed=seed,
    )
    show(record if as_json else for_people(record), as_json)


def identify(
    spectra: Annotated[list[Path], Argument(help=_SPECTRA)],
    model: Annotated[Path | None, Option(help=_MODEL)] = None,
    pool: Annotated[Path | None, Option(help=_POOL)] = None,
    out: Annotated[str, Option("--out", "-o", help=_OUT)] = "-",
    ppm: Ppm = 10.0,
    top: Annotated[int, Option(help="Candidates of a spectrum, at most.")] = 25,
    by: Annotated[str, Option(help="Candidates by mass, or by the formula in the file.")] = "mass",
    adduct: Adduct = None,
    prior: Prior = None,
    merge: Annotated[bool, Option("--merge", help=_MERGE)] = False,
    lists: Annotated[bool, Option("--lists", help=_LISTS)] = False,
    skip_invalid: SkipInvalid = False,
    debug: Debug = False,
) -> None:
    """Name the molecules of spectra: candidates of a pool, best first.

    Example: skout identify spectra.mgf -o hits.html
    """
    from skout.dev import check_choice, check_number

    from .output import check_form, write
    from .work import Search, identify_files

    form = check_form(out, lists, [*spectra, *([model] if model else [])])
    check_choice(by, "--by", ("mass", "formula"))
    check_number(ppm, "--ppm", strict=True)
    check_number(top, "--top", low=1, integer=True)
    search = Search(ppm=ppm, top=top, by=by, adduct=adduct, prior=prior, merge=merge)
    write(identify_files(spectra, model, pool, skip_invalid, search), out, form)
