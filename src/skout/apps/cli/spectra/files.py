"""Open files of spectra by their ending, models and pools."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skout import SpectrumIdentifier, load
from skout.dev import stack
from skout.persistence import FileError

from ...spectra.readers import SpectraTable, read_spectra_file


def read_spectra_files(paths: Sequence[Path], skip_invalid: bool) -> SpectraTable:
    """Return the spectra of files, one after the other; errors name the file and the remedy.

    With `skip_invalid`, damaged records are left out, with a warning.
    """
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
    """Return an error whose remedy is an option of the command line."""
    return ValueError(str(error).replace('on_error="skip"', "--skip-invalid"))


def open_identifier(path: Path) -> Any:
    """Load a model of spectra."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no model {str(path)!r}.")
    try:
        model = load(path)
    except FileError as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(model, SpectrumIdentifier):
        raise ValueError(
            f"--model must be what `skout fit-spectra` wrote. Got {str(path)!r}, which holds a "
            f"{type(model).__name__}."
        )
    return model
