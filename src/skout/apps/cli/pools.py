"""Commands on pools of molecules: `pool build`, `pool append`, `pool info` and `pool find`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from .options import AsJson, Debug, Format, Rows, Text
from .results import check_format, show, tell, write_rows

if TYPE_CHECKING:
    from ..spectra.pools import MoleculePool

_FILES = "SMILES (.smi, .txt), tables (.csv, .tsv) or SDF, also with .gz, .bz2 or .xz."
_COLUMN = 'The column of SMILES in tables; default "smiles".'
_STRICT = "Stop at invalid molecules; by default they are left out."

_KIND = "Fingerprints: morgan, counts, pairs, rdkit, maccs, with commas between them."

Folder = Annotated[Path, Argument(help="What `skout pool build` made.")]
Files = Annotated[list[Path], Argument(help=_FILES)]
Jobs = Annotated[int, Option(help="Processes; -1 takes all cores.")]
Column = Annotated[Text, Option(help=_COLUMN)]
Batch = Annotated[int, Option(min=1, help="Molecules at a time in a process.")]
Strict = Annotated[bool, Option("--strict", help=_STRICT)]

pools: Typer = Typer(
    add_completion=False, no_args_is_help=True, help="Molecules on disk, found by mass or formula."
)


@pools.command()
def build(
    files: Files,
    out: Annotated[Path, Option("--out", "-o", help="The folder to make, NAME.skpool.")],
    n_jobs: Jobs = 1,
    kind: Annotated[str, Option(help=_KIND)] = "morgan,counts,pairs,rdkit,maccs",
    n_bits: Annotated[int, Option(min=1, help="Bits of a fingerprint.")] = 2048,
    radius: Annotated[int, Option(min=0, help="Of morgan fingerprints.")] = 2,
    column: Column = None,
    batch: Batch = 5000,
    strict: Strict = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make a pool: standardized, each molecule once, with masses, formulas and fingerprints.

    Killed while it builds, the same command goes on.

    Example: skout pool build molecules.smi -o molecules.skpool --n-jobs 2
    """
    from ..spectra.pools import MoleculePool

    kinds = [name.strip() for name in kind.split(",")]
    pool = MoleculePool.build(
        files,
        out,
        fingerprints={"kind": kinds if "," in kind else kind, "n_bits": n_bits, "radius": radius},
        **_work(n_jobs, batch, column, strict),
    )
    show(_about(pool, as_json), as_json)


@pools.command()
def append(
    pool: Folder,
    files: Files,
    n_jobs: Jobs = 1,
    column: Column = None,
    batch: Batch = 5000,
    strict: Strict = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Add molecules that a pool does not have yet.

    Example: skout pool append molecules.skpool more.sdf.gz
    """
    from ..spectra.pools import MoleculePool

    opened = MoleculePool.open(pool)
    added = opened.append(files, **_work(n_jobs, batch, column, strict))
    show({"added": added, **_about(opened, as_json)}, as_json)


@pools.command()
def info(
    pool: Folder,
    check: Annotated[bool, Option("--check", help="Read all files: are they as written?")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say what a pool has.

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
    mass: Annotated[float | None, Option(help="Neutral exact mass in Da.")] = None,
    ppm: Annotated[float, Option(help="Largest error of the mass, in millionths.")] = 10.0,
    formula: Annotated[Text, Option(help='Such as "C6H12O6".')] = None,
    key: Annotated[Text, Option(help="InChIKey; its first block counts.")] = None,
    top: Annotated[int | None, Option(min=1, help="Only so many.")] = None,
    out: Rows = "-",
    form: Format = None,
    debug: Debug = False,
) -> None:
    """Find molecules by mass, the nearest first, by formula, or by InChIKey.

    Example: skout pool find molecules.skpool --mass 180.0634 --ppm 5
    """
    form = check_format(out, form)
    given = [name for name in (mass, formula, key) if name is not None]
    if len(given) != 1:
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
    tell(write_rows([_rows(opened, numbers[:top], mass)], out, form), out)


def _work(n_jobs: int, batch: int, column: str | None, strict: bool) -> dict[str, Any]:
    """Return how files are read, as arguments of a pool."""
    from .progress import is_terminal

    on_error = "raise" if strict else "skip"
    named = {"n_jobs": n_jobs, "batch": batch, "column": column, "on_error": on_error}
    return named | {"verbose": is_terminal()}


def _about(pool: "MoleculePool", as_json: bool) -> dict[str, Any]:
    """Return what is known of a pool, for programs or for people."""
    record = pool.about()
    if as_json:
        return record
    settings = record.pop("fingerprints")
    kind = settings["kind"]
    record["fingerprints"] = kind if isinstance(kind, str) else "+".join(kind)
    return record | {"radius": settings["radius"]}


def _rows(pool: "MoleculePool", numbers: Any, mass: float | None) -> dict[str, list[Any]]:
    """Return molecules as columns to write."""
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
