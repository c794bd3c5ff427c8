"""The `skout` command: the only package that prints, and that needs typer and rich.

`about` has the commands that show something, `pools` those on molecules on disk, `spectra` those
that name molecules, `models` those that fit and use a model of a table; `options` has what they
share. `tables` reads files by the block, `columns` makes inputs and outputs of cells, `settings` a
model of words, `fitting`, `tuning` and `using` do the work, `classes` scores classes, `unseen`
names new values, and `results` writes files. `report` writes a page on a model, `serve` answers
requests, and `exporting` writes ONNX.
"""

import os
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    import typer

__all__ = ["build_app", "main"]

# The exit code of a command that Ctrl-C stopped, as shells have it.
_INTERRUPTED = 130
_MISSING = 'skout: the command line needs typer and rich: pip install "skout[cli]"'


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; a mistake is one line, with --debug also a traceback.

    `arguments` are the words after the command's name; None takes them from the shell.
    """
    words = sys.argv[1:] if arguments is None else arguments
    try:
        app = build_app()
    except ImportError:
        sys.exit(_MISSING)
    with warnings.catch_warnings():
        warnings.showwarning = _Warnings()  # type: ignore[assignment]
        try:
            code = app(args=words, prog_name="skout", standalone_mode=False)
            if code == _INTERRUPTED:
                print("skout: interrupted", file=sys.stderr)
        except BrokenPipeError:  # who read the output has seen enough
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  closed by the end
            code = 1
        except Exception as error:
            if "--debug" in words:
                traceback.print_exc()
            interrupted = isinstance(error.__cause__, KeyboardInterrupt)  # of an older typer
            text = "interrupted" if interrupted else _one_line(error)
            if text:  # a group of commands without one shows its help instead
                print(f"skout: {text}", file=sys.stderr)
            code = _INTERRUPTED if interrupted else getattr(error, "exit_code", 1)
    sys.exit(code)


class _Warnings:
    """Prints a warning on one line; of a column once, though it is read many times."""

    def __init__(self) -> None:
        self._columns: set[str] = set()

    def __call__(self, message: Warning | str, *_: object) -> None:
        text = " ".join(str(message).split())
        column = text.partition("': ")[0] if text.startswith("column '") else ""
        if column not in self._columns:
            print(f"skout: warning: {text}", file=sys.stderr)
        self._columns |= {column} - {""}


def build_app() -> "typer.Typer":
    """Return the command line as a typer application, with all commands."""
    import rich  # noqa: F401  a missing extra shows here, before any work
    import typer

    from .about import datasets, demo, inspect, model_card
    from .exporting import export
    from .models import embed, evaluate, fit, look, predict, rank
    from .pools import pools
    from .report.command import report
    from .serve.command import serve
    from .spectra.command import fit_spectra, identify
    from .spectra.models import models

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

    @app.callback(invoke_without_command=True)
    def root(
        context: typer.Context,
        version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    ) -> None:
        """Learn from tables, texts or spectra to predict numbers, classes, sets, molecules."""
        if version:
            from skout import __version__

            typer.echo(f"skout {__version__}")
        elif context.invoked_subcommand is None:
            typer.echo(context.get_help())

    app.command()(demo)
    app.command()(inspect)
    app.command("card")(model_card)
    for command in (look, fit, predict, rank, embed, evaluate, report, serve, export):
        app.command()(command)
    app.command("fit-spectra")(fit_spectra)
    app.command()(identify)
    app.add_typer(datasets, name="datasets")
    app.add_typer(pools, name="pool")
    app.add_typer(models, name="models")
    return app


def _one_line(error: Exception) -> str:
    """Return the message of an error on one line; the kind too, where it is not a user's."""
    if hasattr(error, "format_message"):  # the parser's own errors
        text = " ".join(error.format_message().split())
        context = getattr(error, "ctx", None)
        if context is None or "argument" not in text:
            return text
        return f"{text.rstrip('.')}. {context.get_usage()}, see {context.command_path} --help"
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"There is no file {str(error.filename)!r}."
    text = " ".join(str(error).split())
    if isinstance(error, OSError | ValueError | ImportError) and text:
        return text
    return f"{type(error).__name__}: {text} (--debug shows where)".replace(": (", " (")
