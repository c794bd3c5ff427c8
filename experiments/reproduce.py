"""Make the tables and figures of the papers again, and the page that shows them.

    make reproduce                           all that a CPU can do, about 42 minutes on two cores
    make reproduce ONLY=table-4.2            one of them, or several: ONLY=table-3.3,figure-4.2
    python experiments/reproduce.py --list   their names

What is finished is kept, in experiments/cache/parts, and taken from there while settings and the
version of skout are the same: start again after an interruption, and it goes on. `--again` runs
everything anew, `--quick` runs small versions that leave records and page alone. Data that are not
at hand are named first, with what their download takes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

from common import clock
from page import write
from papers import CONFIGS, Config, by_name
from pieces import carry_out
from tqdm import tqdm

from skout.datasets.catalogue import CATALOGUE
from skout.datasets.files import available


def reproduce(configs: list[Config], again: bool = False, quick: bool = False) -> dict[str, str]:
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
            done[config.plan] = run(config, again, quick)
        said[config.name] = done[config.plan]
    return said


def run(config: Config, again: bool, quick: bool) -> str:
    """Run the plan of a config; without its data or packages, say so and go on."""
    assert config.plan is not None
    with clock() as spent:
        try:
            carry_out(config.plan(quick), again, quick)
        except (OSError, ImportError) as error:
            return f"NOT RUN, the page has the record: {error}"
    return f"{spent.seconds:.0f} s"


def missing_data(configs: list[Config]) -> list[str]:
    """Say of each data set that is needed and not at hand what a download takes, or what to do."""
    needs = " ".join(config.needs for config in configs if config.plan is not None)
    patterns = [word.strip(",") for word in needs.split() if "." in word]
    lines = []
    for source in CATALOGUE.values():
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
    parser.add_argument("--quick", action="store_true", help="small, leaves records and page alone")
    options = parser.parse_args()
    if options.list:
        for config in CONFIGS:
            print(f"{config.name:12} {config.title}" + (f" [{config.gpu}: GPU]" * bool(config.gpu)))
        return
    try:
        configs = by_name(options.only)
    except ValueError as error:
        parser.error(str(error))
    for line in missing_data(configs):
        print("not at hand:", line)
    for name, what in reproduce(configs, options.again, options.quick).items():
        print(f"{name:12} {what}")
    if not options.quick:
        print("page:", write())


if __name__ == "__main__":
    main()
