"""Make tables and figures of the papers again, and say what they show.

    make reproduce                           briefly, all that a CPU can do
    make reproduce ONLY=table-4.2            one of them, or several: ONLY=table-3.3,figure-4.2
    python -m experiments.reproduce --list   their names

A brief run has fewer draws, takes at most five minutes on two cores, writes its records and figures
to out/reproduce, and prints each statement of the paper with its verdict. `--full` makes the
committed records and the page; `--quick` is as small as tests want it.

What is finished is kept, in experiments/cache/parts, and taken from there while settings and the
code of skout are the same: start again after an interruption, and it goes on. `--again` runs
everything anew. Data that are not at hand are named first, with what their download takes.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

from tqdm import tqdm

from experiments.common import clock, kept_in
from experiments.messages import by_name
from experiments.page import word, write
from experiments.papers.entries import Config
from experiments.pieces import BRIEF, Plan, Size, carry_out
from skout.datasets import CATALOG, available


def reproduce(configs: list[Config], size: Size = "brief", again: bool = False) -> dict[str, str]:
    """Run some configs; return what happened to each."""
    said: dict[str, str] = {}
    done: dict[Callable[..., Any], str] = {}  # configs of one script share its run
    bar = tqdm(configs, desc="tables and figures")
    for config in bar:
        bar.set_postfix_str(config.name)
        if config.plan is None:
            said[config.name] = "from the record, which needed a GPU"
            continue
        if config.plan not in done:
            done[config.plan] = run(config.plan, size, again)
        said[config.name] = done[config.plan]
    return said


def run(plan: Callable[[Size], Plan], size: Size, again: bool) -> str:
    """Carry out a plan; without its data or packages, say so and go on."""
    with clock() as spent:
        try:
            carry_out(plan(size), size, again)
        except (OSError, ImportError) as error:
            return f"NOT RUN: {error}"
    return f"{spent.seconds:.0f} s"


def missing_data(configs: list[Config]) -> list[str]:
    """Say of each data set that is needed and not at hand what a download takes, or what to do."""
    needs = " ".join(config.needs for config in configs if config.plan is not None)
    patterns = [word.strip(",") for word in needs.split() if "." in word]
    lines = []
    for source in CATALOG.values():
        names = [file.name for file in source.files]
        wanted = any(fnmatch(name, pattern) for name in names for pattern in patterns)
        if not wanted or available(source):
            continue
        if source.original is None:
            lines.append(f"{source.name}: {', '.join(names)} in SKOUT_DATA, from {source.origin}")
            continue
        megabytes = sum(file.size or 0 for file in source.original.files) / 1e6
        lines.append(f"{source.name}: {megabytes:.1f} MB, skout datasets fetch {source.name}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--again", action="store_true", help="also what is finished")
    parser.add_argument("--size", choices=["quick", "brief", "full"], default="brief")
    parser.add_argument("--full", action="store_const", const="full", dest="size")
    parser.add_argument("--quick", action="store_const", const="quick", dest="size")
    options = parser.parse_args()
    if options.list:
        for config in by_name():
            print(f"{config.name:12} {config.title}" + (f" [{config.gpu}: GPU]" * bool(config.gpu)))
        return
    try:
        configs = by_name(options.only)
    except ValueError as error:
        parser.error(str(error))
    for line in missing_data(configs):
        print("not at hand:", line)
    with contextlib.nullcontext() if options.size == "full" else kept_in(BRIEF):
        said = reproduce(configs, options.size, options.again)
        for config in configs:
            print(f"\n{config.name}: {config.title} ({said[config.name]})")
            if options.size == "brief" and said[config.name].endswith(" s"):
                for row in config.verdict():
                    print(f"  {row.what}: paper {row.paper}, ours {row.ours}: {word(row)}")
    if options.size == "full":
        print("page:", write())
    elif options.size == "brief":
        print(f"\nrecords and figures: {BRIEF}")


if __name__ == "__main__":
    main()
