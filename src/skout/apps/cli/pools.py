"""The commands on pools of molecules: `pool build`, `append`, `info` and `find`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from .options import AsJson, Format, Rows, Text
from .results import check_format, say_written, show, write_rows

if TYPE_CHECKING:
    from ..spectra.pools import MoleculePool

_FILES = "Files of SMILES (.smi, .txt), tables (.csv, .tsv) or SDF, also .gz, .bz2 or .xz."
_COLUMN = 'The column of tables that has the SMILES; default "smiles".'
_STRICT = "Stop at the first invalid molecule; by default they are left out."
_KIND = "The fingerprints: morgan, counts, pairs, rdkit, maccs, with commas between them."
_CHECK = "Compare all files with their checksums."
_PPM = "The largest difference of masses, in millionths."
_KEY = "The InChIKey; only its first block is compared."

Folder = Annotated[Path, Argument(help="A folder that `skout pool build` made.")]
Files = Annotated[list[Path], Argument(help=_FILES)]
Jobs = Annotated[int, Option(help="The number of processes; -1 is one for each core.")]
Column = Annotated[Text, Option(help=_COLUMN)]
Strict = Annotated[bool, Option("--strict", help=_STRICT)]

pools: Typer = Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Keep molecules on disk, and find them by mass or formula.",
)


@pools.command()
def build(
    files: Files,
    out: Annotated[Path, Option("--out", "-o", help="The folder to make, NAME.skpool.")],
    n_jobs: Jobs = 1,
    kind: Annotated[str, Option(help=_KIND)] = "morgan,counts,pairs,rdkit,maccs",
    n_bits: Annotated[int, Option(min=1, help="The number of bits of a fingerprint.")] = 2048,
    radius: Annotated[int, Option(min=0, help="The radius of Morgan fingerprints.")] = 2,
    column: Column = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Make a pool of standardized, distinct molecules, with masses, formulas and fingerprints.

    After an interruption, the same command continues the build.

    Example: skout pool build molecules.smi -o molecules.skpool --n-jobs 2
    """
    from ..spectra.pools import MoleculePool

    kinds = [name.strip() for name in kind.split(",")]
    pool = MoleculePool.build(
        files,
        out,
        fingerprints={"kind": kinds if "," in kind else kind, "n_bits": n_bits, "radius": radius},
        **_reading(n_jobs, column, strict),
    )
    show(_about(pool, as_json), as_json)


@pools.command()
def append(
    pool: Folder,
    files: Files,
    n_jobs: Jobs = 1,
    column: Column = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Add to a pool the molecules of files that it does not have yet.

    Example: skout pool append molecules.skpool more.sdf.gz
    """
    from ..spectra.pools import MoleculePool

    opened = MoleculePool.open(pool)
    added = opened.append(files, **_reading(n_jobs, column, strict))
    show({"added": added, **_about(opened, as_json)}, as_json)


@pools.command()
def info(
    pool: Folder,
    check: Annotated[bool, Option("--check", help=_CHECK)] = False,
    as_json: AsJson = False,
) -> None:
    """Show the number of molecules in a pool, and its fingerprints.

    Example: skout pool info molecules.skpool --check
    """
    from ..spectra.pools import MoleculePool

    opened = MoleculePool.open(pool)
    if check:
        opened.check()
    show(_about(opened, as_json) | ({"checked": True} if check else {}), as_json)


@pools.command()
def find(
    pool: Folder,
    mass: Annotated[float | None, Option(help="The neutral exact mass, in Da.")] = None,
    ppm: Annotated[float, Option(help=_PPM)] = 10.0,
    formula: Annotated[Text, Option(help='The formula, such as "C6H12O6".')] = None,
    key: Annotated[Text, Option(help=_KEY)] = None,
    top: Annotated[int | None, Option(min=1, help="Return at most this many molecules.")] = None,
    out: Rows = "-",
    form: Format = None,
) -> None:
    """Find molecules by mass, the nearest first, by formula, or by InChIKey.

    Example: skout pool find molecules.skpool --mass 180.0634 --ppm 5
    """
    form = check_format(out, form)
    if sum(value is not None for value in (mass, formula, key)) != 1:
        raise ValueError("Give one of --mass, --formula and --key.")
    from ..spectra.pools import MoleculePool

    opened = MoleculePool.open(pool)
    if mass is not None:
        numbers = opened.by_mass(mass, ppm)
    elif formula is not None:
        numbers = opened.by_formula(formula)
    else:
        numbers = opened.by_key([str(key)])
        numbers = numbers[numbers >= 0]
    say_written(write_rows([_rows(opened, numbers[:top], mass)], out, form), out)


def _reading(n_jobs: int, column: str | None, strict: bool) -> dict[str, Any]:
    """Return the arguments of a pool that say how files are read."""
    from .progress import is_terminal

    on_error = "raise" if strict else "skip"
    named = {"n_jobs": n_jobs, "column": column, "on_error": on_error}
    return named | {"verbose": is_terminal()}


def _about(pool: "MoleculePool", as_json: bool) -> dict[str, Any]:
    """Return the size and the fingerprints of a pool, these in words unless `as_json`."""
    record = pool.about()
    if as_json:
        return record
    settings = record.pop("fingerprints")
    kind = settings["kind"]
    record["fingerprints"] = kind if isinstance(kind, str) else "+".join(kind)
    return record | {"radius": settings["radius"]}


def _rows(pool: "MoleculePool", numbers: Any, mass: float | None) -> dict[str, list[Any]]:
    """Return the columns to write of molecules."""
    masses = pool.masses(numbers)
    columns = {
        "number": numbers.tolist(),
        "smiles": list(pool.smiles(numbers)),
        "name": list(pool.names(numbers)),
        "formula": list(pool.formulas(numbers)),
        "inchikey_skeleton": list(pool.keys(numbers)),
        "mass": masses.round(6).tolist(),
    }
    if mass is not None:
        columns["error_ppm"] = (1e6 * (masses - mass) / mass).round(3).tolist()
    return columns
