"""The `skout` command: the only package that prints, and that needs typer and rich.

Commands: `models` fits and uses models of tables, `about` shows data sets, files and the demo,
`pools` keeps molecules on disk, `spectra` identifies molecules, `report` writes a page on a model,
`serve` answers requests, and `exporting` writes ONNX; `options` has the options that they share.

Behind them: `choosing` picks the columns, `columns` turns cells into inputs and outputs, `settings`
reads options and TOML files, `fitting` and `using` fit and apply models, `classes` scores classes,
`importance` ranks inputs, `unseen` lists new categories, and `results` writes files.
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
_DEBUG = "Print the traceback of an error, too; this option may follow any command."
_MISSING = 'skout: the command line needs typer and rich: pip install "skout[cli]"'


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit; an error is one line, and with --debug a traceback, too.

    `arguments` are the words after `skout`; None takes them from the shell.
    """
    given = sys.argv[1:] if arguments is None else arguments
    words = [word for word in given if word != "--debug"]  # an option of all commands
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
        except BrokenPipeError:  # the reader of the output, such as head, has closed it
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  closed by the end
            code = 1
        except Exception as error:
            if len(words) < len(given):
                traceback.print_exc()
            interrupted = isinstance(error.__cause__, KeyboardInterrupt)  # of an older typer
            text = "interrupted" if interrupted else _one_line(error)
            if text:  # a group of commands without one shows its help instead
                print(f"skout: {text}", file=sys.stderr)
            code = _INTERRUPTED if interrupted else getattr(error, "exit_code", 1)
    sys.exit(code)


class _Warnings:
    """Prints a warning on one line, and of each column only the first, as it is read many times."""

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
        debug: Annotated[bool, typer.Option("--debug", help=_DEBUG)] = False,
    ) -> None:
        """Learn from tables, texts or spectra to predict numbers, classes, sets or molecules."""
        if version:
            from skout import __version__

            typer.echo(f"skout {__version__}")
        elif context.invoked_subcommand is None:
            typer.echo(context.get_help())

    for command in (look, fit, predict, evaluate, report, serve, rank, embed, export, inspect):
        app.command()(command)
    app.command("card")(model_card)
    app.command("fit-spectra")(fit_spectra)
    app.command()(identify)
    app.add_typer(models, name="models")
    app.add_typer(pools, name="pool")
    app.add_typer(datasets, name="datasets")
    app.command()(demo)
    return app


def _one_line(error: Exception) -> str:
    """Return the message of an error on one line, with its class where skout may be at fault."""
    if hasattr(error, "format_message"):  # an error of the parser
        text, context = " ".join(error.format_message().split()), getattr(error, "ctx", None)
        if not text or context is None:
            return text
        usage = f" {context.get_usage()}" if "argument" in text else ""
        return f"{text}{usage} See `{context.command_path} --help`."
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"There is no file {str(error.filename)!r}."
    text = " ".join(str(error).split())
    if isinstance(error, OSError | ValueError | ImportError) and text:
        return text
    return f"{type(error).__name__}: {text} (--debug prints the traceback)".replace(": (", " (")
