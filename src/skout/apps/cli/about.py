"""The commands `demo`, `datasets`, `inspect` and `skout card`."""

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Argument, Context, Option, Typer

from .options import AsJson, Text
from .results import check_page, check_place, describe_file, size_text, value_at

if TYPE_CHECKING:
    from rich.console import Console

    from .demo import DemoRun

_NOTE = (
    "kernel loss: 0 is perfect; pixel error: mean squared, pixels in [0, 1]; "
    "right digit: the chosen half is of the true class"
)
_DEMO_PAGE = "The page to write; a picture with the ending .png is written beside it."
_QUICK = "Use fewer digits: it takes seconds instead of half a minute."
_KIND = "List only data sets of this kind, such as multilabel or ranking."
_DRY = "Print what would be downloaded, and download nothing."
_FOLDER = "The folder to write both files to; default this one."
_TRAINED_ON = "What the model was trained on, in words."
_EVALUATION = "A file with what `skout report --json` or `skout evaluate --json` printed."
_README = "The file to write; sites such as Hugging Face show a README.md."
# Characters of a value that `skout inspect` prints.
_SHOWN = 300

datasets: Typer = Typer(add_completion=False)


def demo(
    out: Annotated[Path, Option(help=_DEMO_PAGE)] = Path("skout-demo.html"),
    seed: Annotated[int, Option(min=0, max=2**32 - 1, help="Seed of all random draws.")] = 0,
    quick: Annotated[bool, Option("--quick", help=_QUICK)] = False,
) -> None:
    """Complete handwritten digits with five methods; print a table, and write a page."""
    check_page(out)
    from .demo import run_demo, write_page, write_picture
    from .demo.page import load_matplotlib

    load_matplotlib()  # says what to install, before any work
    run = run_demo(seed=seed, quick=quick)
    _show_demo(run)
    print(f"wrote {write_page(run, out)}, {write_picture(run, out.with_suffix('.png'))}")


@datasets.callback(invoke_without_command=True)
def list_datasets(
    context: Context,
    kind: Annotated[Text, Option(help=_KIND)] = None,
    as_json: Annotated[bool, Option("--json", help="Print all fields, as JSON.")] = False,
) -> None:
    """List the data sets of skout.datasets; `fetch` downloads them, `films` writes an example."""
    if context.invoked_subcommand is not None:
        return
    rows = _dataset_rows(kind)
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        _show_datasets(rows)


@datasets.command()
def fetch(
    names: Annotated[list[str], Argument(help="Names of data sets, or `all`.")],
    dry_run: Annotated[bool, Option("--dry-run", help=_DRY)] = False,
) -> None:
    """Download the public files of data sets to the cache, and check them by their hashes.

    Example: skout datasets fetch yeast emotions
    """
    from skout.datasets import CATALOG, available
    from skout.datasets import fetch as download
    from skout.dev import resolve

    by_name: dict[str, list[Any]] = {}  # data sets of several kinds may share a name
    for source in CATALOG.values():
        by_name.setdefault(source.name, []).append(source)
    public = [name for name, group in by_name.items() if any(source.original for source in group)]
    for name in public if names == ["all"] else names:
        group = resolve(name, by_name, "data set")
        for source in [source for source in group if source.original] or group[:1]:
            if available(source):
                print(f"{source.name}: available")
            elif dry_run and source.original:
                sizes = [file.size for file in source.original.files]
                size = "files of unknown size" if None in sizes else size_text(sum(sizes))
                print(f"{source.name}: {size} from {source.original.repository} on GitHub")
            else:
                paths = download(source, progress=True)
                print(f"{source.name}: fetched {', '.join(path.name for path in paths)}")


@datasets.command()
def films(
    folder: Annotated[Path, Argument(help=_FOLDER)] = Path(),
) -> None:
    """Write a small example: films.csv to fit a model on, and new_films.csv to predict.

    Example: skout datasets films
    """
    from skout.datasets import load

    data = load("films")
    with data.files[0].open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    for name, part in (("films.csv", "train"), ("new_films.csv", "test")):
        path, numbers = folder / name, np.arange(len(rows))[data.split[part]]
        check_place(path, "FOLDER", data.files)
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *(rows[j] for j in numbers)])
        print(f"wrote {len(numbers)} films to {path}")


def _dataset_rows(kind: str | None) -> list[dict[str, object]]:
    """Return the fields of each data set, or of those of one kind, as JSON has them."""
    from skout.datasets import CATALOG, available
    from skout.dev import check_choice

    if kind is not None:
        check_choice(kind, "--kind", tuple(dict.fromkeys(group for group, _ in CATALOG)))
    return [
        {
            "name": source.name,
            "rows": source.shape[0],
            "features": source.shape[1] or None,
            "outputs": source.shape[2] or None,
            "kind": source.kind,
            "license": source.license,
            "available": available(source),
            "public_files": source.original is not None,
            "train_rows": source.n_train,
            "files": [vars(file) for file in source.files],
            "origin": source.origin,
            "citation": source.citation,
            "description": source.description,
        }
        for source in CATALOG.values()
        if kind in (None, source.kind)
    ]


def _show_datasets(rows: list[dict[str, object]]) -> None:
    """Print the table of data sets."""
    names = ["name", "rows", "features", "outputs", "kind", "license", "available"]
    cells = []
    for row in rows:
        counts = [f"{row[key]:,}" if row[key] else "" for key in ("rows", "features", "outputs")]
        mark = "yes" if row["available"] else "fetch" if row["public_files"] else "no"
        cells.append([str(row["name"]), *counts, str(row["kind"]), str(row["license"]), mark])
    _print_table(names, cells, left=("name", "kind", "license", "available"))


def _show_demo(run: "DemoRun") -> None:
    """Print the table of methods, with the best figure of each column in bold."""
    from .demo.run import table

    names, texts = table(run)
    styled = [[f"[bold]{text}[/]" if best else text for text, best in row] for row in texts]
    rows = [[method.name, *row] for method, row in zip(run.methods, styled, strict=True)]
    console = _print_table(["method", *names], rows, left=("method",))
    console.print(_NOTE, style="dim", highlight=False, soft_wrap=True)


def _print_table(names: list[str], rows: list[list[str]], left: tuple[str, ...]) -> "Console":
    """Print a table and return its console; all columns but those in `left` are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for name in names:
        justify: Any = "left" if name in left else "right"
        table.add_column(name, justify=justify, no_wrap=name != "license")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)  # one line a row
    console.print(table)
    return console


def inspect(
    file: Annotated[Path, Argument(help="A file of `skout fit` or `skout.save`.")],
    as_json: AsJson = False,
) -> None:
    """Show what is in the file of a model, without loading the model.

    Example: skout inspect model.skout
    """
    description = describe_file(file, parts=True)
    if as_json:
        print(json.dumps(description, indent=2))
    else:
        _show_description(description)


def model_card(
    file: Annotated[Path, Argument(help="A file of `skout fit` or `skout.save`.")],
    out: Annotated[Path, Option("--out", "-o", help=_README)] = Path("README.md"),
    name: Annotated[Text, Option(help="Name of the model; default that of the file.")] = None,
    data: Annotated[Text, Option(help=_TRAINED_ON)] = None,
    license: Annotated[Text, Option(help='License of the model, such as "mit".')] = None,
    evaluation: Annotated[Path | None, Option(help=_EVALUATION)] = None,
) -> None:
    """Write a model card: what a model is, how good it is, and how to load it.

    Example: skout card model.skout --data "tours of 2024" --license mit -o README.md
    """
    from skout.dev import replacing
    from skout.persistence.card import model_card

    check_place(out, "--out", [file, evaluation])
    describe_file(file)  # whose errors name the file
    text = model_card(
        file, name=name, data=data, license=license, evaluation=_evaluation(evaluation)
    )
    with replacing(out) as part:
        part.write_text(text, encoding="utf-8")
    print(f"wrote {out}")


def _evaluation(path: Path | None) -> dict[str, Any] | None:
    """Return the evaluation in a JSON file, None without one."""
    if path is None:
        return None
    try:
        evaluation = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"--evaluation: {path} is no JSON: {error}.") from error
    if not isinstance(evaluation, dict) or not isinstance(evaluation.get("metrics"), dict):
        raise ValueError(
            f"--evaluation: {path} has no metrics. Give a file with what `skout report --json` "
            "printed."
        )
    return evaluation


def _show_description(description: dict[str, Any]) -> None:
    """Print what a file says about itself, and the tree of its parts."""
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    def add(tree: Tree, part: dict[str, Any]) -> None:
        # not markup: texts come from the file
        line = Text.assemble((_printable(part["name"]), "bold"), "  ", _printable(part["what"]))
        if part["bytes"]:
            line.append(f"  {size_text(part['bytes'])}", "dim")
        branch = tree.add(line)
        for inner in part["parts"]:
            add(branch, inner)

    about = description["about"]
    lines = {
        "format": description["version"],
        "size": size_text(description["bytes"]),
        **_scores(value_at(about, "metadata", "command_line")),
        **about,
    }
    tree = Tree(Text("parts"), hide_root=True)
    add(tree, description["parts"])
    console = Console(soft_wrap=True)
    width = max(10, *(len(name) + 2 for name in lines))
    for name, value in lines.items():
        if value not in ({}, []):
            text = value if isinstance(value, str) else json.dumps(value)
            if len(text) > _SHOWN:  # such as the names of many columns
                text = f"{text[:_SHOWN]} ... (--json shows all)"
            console.print(Text.assemble((f"{_printable(name):{width}}", "bold"), _printable(text)))
    console.print(tree)


def _scores(record: Any) -> dict[str, str]:
    """Return the validation score that `skout fit` recorded, one for each target."""
    targets = value_at(record, "targets") or [record]
    summaries = [value_at(target, "validation", "summary") for target in targets]
    names = ["score"]
    if len(targets) > 1:
        columns = [value_at(target, "outputs", "columns") or [] for target in targets]
        names = [f"score of {', '.join(map(str, listed))}" for listed in columns]
    pairs = zip(names, summaries, strict=True)
    return {name: text for name, text in pairs if isinstance(text, str)}


def _printable(text: str) -> str:
    """Return a text with ? for control characters, which could steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
