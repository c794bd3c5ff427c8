"""What several modules of tests need.

Libraries that only some tests of a module need: ``pd = extra("pandas")``, not ``import pandas``.

Without the library the tests that use it are skipped, and the others of the module run.
"""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

#: NumPy 1 leaves the archive open that it could not write, which is told when it is collected.
OPEN_ARCHIVE = (
    "ignore:Exception ignored in. <function ZipFile:pytest.PytestUnraisableExceptionWarning"
)


class Missing:
    """Stands for a library that is not installed: to use it skips the test."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> NoReturn:
        if attribute.startswith("__"):  # pytest and doctest look at what lies in a module
            raise AttributeError(attribute)
        if "PYTEST_CURRENT_TEST" not in os.environ:
            raise ModuleNotFoundError(f"use {self._name} inside tests, not in the body of a module")
        pytest.skip(f"{self._name} is not installed")


def extra(name: str) -> Any:
    """Return a module, or what skips the tests that use it where it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.split(".")[0]:
            raise  # it is installed and broken
        return Missing(name)


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond some bytes, as on a full disk."""
    resource = pytest.importorskip("resource")  # of Unix
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
