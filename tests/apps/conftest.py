"""The command line as a fixture of all tests that use it."""

import warnings

import pytest

from skout.apps import cli


@pytest.fixture
def call(capsys):
    """Run the command line: its exit code, and what it wrote to both streams."""
    pytest.importorskip("typer")
    pytest.importorskip("pyarrow")

    def run(*words):
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # which it prints
            with pytest.raises(SystemExit) as end:
                cli.main([str(word) for word in words])
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return run
