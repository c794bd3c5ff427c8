"""Open files of spectra, models, pools and priors."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from skout import SpectrumIdentifier, load
from skout.dev import chemistry, stack

from ...spectra.pools import MoleculePool, read_prior
from ...spectra.readers import SpectraTable, read_spectra_file
from ...spectra.shipped import default_model, default_pool
from ...spectra.shipped.defaults import is_built
from ..progress import is_terminal, note
from ..results import describe_file


def read_spectra_files(paths: Sequence[Path], skip_invalid: bool) -> SpectraTable:
    """Return the spectra of files; `skip_invalid` leaves out damaged ones with a warning."""
    tables = [_read(path, skip_invalid) for path in paths]
    problems = tuple(problem for table in tables for problem in table.problems)
    return SpectraTable(
        stack([table.spectra for table in tables]),
        {name: np.concatenate([t.fields[name] for t in tables]) for name in tables[0].fields},
        np.concatenate([table.record for table in tables]),
        problems,
    )


def _read(path: Path, skip_invalid: bool) -> SpectraTable:
    try:
        return read_spectra_file(path, "skip" if skip_invalid else "raise")
    except ValueError as error:
        raise for_the_shell(error) from error


def for_the_shell(error: ValueError) -> ValueError:
    """Return an error whose remedy is an option of the command line, and not of Python."""
    return ValueError(str(error).replace('on_error="skip"', "--skip-invalid"))


def open_identifier(path: Path | None) -> SpectrumIdentifier:
    """Load a model of spectra; without a path, the one that comes with skout."""
    if path is None:
        return default_model()
    describe_file(path)  # whose errors name the file
    model = load(path)
    if not isinstance(model, SpectrumIdentifier):
        raise ValueError(
            f"--model must be a file of `skout fit-spectra`. Got {str(path)!r}, which holds a "
            f"{type(model).__name__}."
        )
    return model


def open_pool(path: Path | None) -> MoleculePool:
    """Open a pool; without a path the default one, which is built the first time."""
    if path is not None:
        return MoleculePool.open(path)
    if not is_built():
        chemistry()  # raises before any work where RDKit is missing
        note("building the default pool, once: one to three minutes on two cores")
    return default_pool(verbose=is_terminal())


def read_prior_table(prior: str | None) -> dict[str, float] | None:
    """Return how well known molecules are by a table; None where there is none, and for "pool"."""
    return None if prior in (None, "pool") else read_prior(Path(str(prior)))


def prior_of_pool(pool: MoleculePool | None) -> dict[str, float]:
    """Return how well known molecules are by the tables that a pool was built from."""
    known = {} if pool is None else pool.prior()
    if not known:
        raise ValueError(
            "--prior pool needs a pool that was built from tables with a column prior, count, "
            "number or sources. Give such a --pool, or a table as --prior."
        )
    return known
