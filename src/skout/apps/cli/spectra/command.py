"""The commands `skout fit-spectra` and `skout identify`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..options import AsJson, NewModel, Text

_FORMS = ".mgf, .msp, .mzML, .mzXML, .json (GNPS), .ms (SIRIUS) or .txt (MassBank), also .gz"
_LIBRARY = f"One or more files of spectra with SMILES: {_FORMS}."
_SPECTRA = f"One or more files of spectra to identify: {_FORMS}."
_MODEL = "A file of `skout fit-spectra`; default the model that comes with skout."
_POOL = "A folder of `skout pool build`; default the molecules that come with skout."
_MEASURE = "The pool of candidates to score the model with; default the molecules of the library."
_PRIOR = (
    "How well known molecules are: a table with inchikey or smiles and a number, or sources "
    "separated by |; `pool` takes the numbers of the pool. Default none."
)
_ADDUCT = 'The adduct of spectra without one, such as "[M+H]+", or by polarity "[M+H]+,[M-H]-".'
_FOLDS = "The number of folds, of laboratories where spectra have these, else of molecules."
_COVERAGE = "The share of prediction sets that hold the truth."
_TOP = "The most candidates of a spectrum."
_BY = 'Find candidates by "mass", or by the "formula" in the file.'
_MERGE = (
    "Give one result for all spectra of a compound: those with the name of one in the file, else "
    "with the same precursor and retention time (10 s)."
)
_SKIP = "Leave out damaged records, and list them; by default the first one is an error."
_OUT = (
    "The file to write: .csv, .jsonl or .parquet with a row for each hit, .json, or .html with "
    "drawn structures; - prints CSV."
)
_LISTS = "Write a row for each spectrum instead: query, and its SMILES separated by spaces."

Ppm = Annotated[float, Option(help="The largest error of a candidate's mass, in millionths.")]
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
    folds: Annotated[int, Option(help=_FOLDS)] = 5,
    coverage: Annotated[float, Option(help=_COVERAGE)] = 0.9,
    skip_invalid: SkipInvalid = False,
    seed: Annotated[int, Option(help="Seed of all random draws.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn to identify molecules from a library of spectra.

    It prints top-1, top-10 and MRR@25 with standard errors, beside those of a random order. They
    are of molecules, and of laboratories where spectra have these, that the model had not seen.

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
    top: Annotated[int, Option(help=_TOP)] = 25,
    by: Annotated[str, Option(help=_BY)] = "mass",
    adduct: Adduct = None,
    prior: Prior = None,
    merge: Annotated[bool, Option("--merge", help=_MERGE)] = False,
    lists: Annotated[bool, Option("--lists", help=_LISTS)] = False,
    skip_invalid: SkipInvalid = False,
) -> None:
    """Name the molecules of spectra: list candidates of a pool, the best first.

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
