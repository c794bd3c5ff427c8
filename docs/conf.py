"""How Sphinx builds the site: `make docs`, which works without a network.

The links to the repository and to other versions of the site are those of pyproject.toml
(`[project.urls]`). With SKOUT_ONLINE set, names of NumPy, SciPy and others link to their pages, and
a menu has the versions of the site.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import skout

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["repository"]

project = "skout"
author = "skout developers"
copyright = f"2026, {author}"
version = release = skout.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "generated/records.md"]
default_role = "py:obj"
smartquotes = False  # quotes in these texts are those of code
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# others link to these pages by the file objects.inv, which Sphinx writes beside them
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "pandas": ("https://pandas.pydata.org/docs", None),
        "torch": ("https://docs.pytorch.org/docs/stable", None),
    }
    if os.environ.get("SKOUT_ONLINE")
    else {}
)
copybutton_prompt_text = r">>> |\.\.\. |\$ "  # is not copied, nor is what a command prints
copybutton_prompt_is_regexp = True

mathjax_path = "mathjax/tex-svg.js"  # in _static, with its license: pages need no network
mathjax3_config = {"options": {"enableMenu": False}}

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say the types
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = True
numpydoc_show_class_members = False  # the template of autosummary lists them


# What people want first; pages that are not named here come at the end.
GALLERY = (
    *("tuned", "tag_recommendation", "metabolites", "label_ranking", "digit_completion"),
    *("quantile_bands", "prediction_sets", "robust_regression", "robust_multioutput"),
    *("nearest_molecules", "spectrum_similarity", "string_completion", "output_kernel_forest"),
    *("deep_digits", "theory"),
)


class GalleryOrder:
    """The place of a page in the gallery: as listed, tables before all."""

    def __init__(self, folder: str) -> None:
        pass

    def __call__(self, file: str) -> tuple[int, str]:
        name = file.removeprefix("plot_").removesuffix(".py")
        if name in GALLERY:
            return GALLERY.index(name), name
        return (-1 if name.startswith("table") else len(GALLERY)), name


sphinx_gallery_conf = {
    "within_subsection_order": GalleryOrder,
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": "/plot_",
    "abort_on_example_error": True,
    "download_all_examples": True,
    "show_signature": False,
    "remove_config_comments": True,
    "doc_module": ("skout",),
    "backreferences_dir": "generated/backreferences",
}

# The menu of versions reads `_static/switcher.json` of the published site, see RELEASING.md.
SITE = PROJECT.get("urls", {}).get("documentation", "").rstrip("/")
SWITCHER: dict[str, object] = (
    {
        "switcher": {"json_url": f"{SITE}/_static/switcher.json", "version_match": release},
        "check_switcher": False,
        "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    }
    if os.environ.get("SKOUT_ONLINE")
    else {}
)

html_theme = "pydata_sphinx_theme"
html_title = f"skout {release}"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["skout.css"]
html_show_sourcelink = False
# A page without pages below it needs no navigation of its section, and 220 names of the API in a
# list help nobody: its page has them in groups, on the right.
html_sidebars = {"generated/*": [], "api": [], "index": [], "auto_examples/*": []}
html_theme_options = {
    "logo": {"text": f"skout {release}", "alt_text": "skout"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "show_nav_level": 1,
    "icon_links": [{"name": "Repository", "url": REPOSITORY, "icon": "fa-solid fa-code-branch"}],
    "navigation_with_keys": False,
    **SWITCHER,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
}


def collect_records(app) -> None:
    """Write the table of the records: when each was run, and how much has changed since."""
    lines = ["| record | run on | commit | changes since |", "|---|---|---|---:|"]
    for path in sorted(HERE.parent.glob("*/records/*.json")):
        name, text = path.relative_to(HERE.parent).as_posix(), path.read_text(encoding="utf-8")
        dates = re.findall(r'"date": "([^"]+)"', text)  # a record of several runs has several
        days = " to ".join(dict.fromkeys((min(dates), max(dates))))
        commits = ", ".join(dict.fromkeys(re.findall(r'"commit": "([^"]+)"', text)))
        lines.append(f"| `{name}` | {days} | {commits} | {changes_since(text)} |")
    write("records", lines)


def changes_since(text: str) -> str:
    """Return how many commits have changed what a record measures, or else the library, since.

    They are counted from the commit that a run names, or else from the last one of its day. Nothing
    where that is not known: outside of a repository, or in a shallow clone.
    """
    runs, counts = list(runs_of(json.loads(text))), []
    try:
        if git("rev-parse", "--is-shallow-repository").strip() != "false":
            return ""
        for run in runs:
            start = commit_of(run)
            files = run.get("measures", ["src/skout"])
            counts.append(int(git("rev-list", "--count", f"{start}..HEAD", "--", *files)))
    except (OSError, subprocess.CalledProcessError):
        return ""
    known = all("measures" in run for run in runs)
    return f"**{max(counts)}**" if known and max(counts) else str(max(counts))


def runs_of(record: object) -> Iterator[dict[str, Any]]:
    """Yield what has a date: a record, or the parts of one that was made in several runs."""
    if isinstance(record, dict) and "date" in record:
        yield record
    if isinstance(record, dict):
        record = list(record.get("parts", record).values())
    for part in record if isinstance(record, list) else []:
        yield from runs_of(part)


def commit_of(run: dict[str, Any]) -> str:
    """Return the commit that a run was made on, as far as that is known."""
    named = run.get("commit", "").removesuffix("-dirty")
    try:
        git("merge-base", "--is-ancestor", named, "HEAD")
    except subprocess.CalledProcessError:  # no commit, or one of another history
        return git("rev-list", "-1", f"--before={run['date']}T23:59:59Z", "HEAD").strip()
    return named


def git(*arguments: str) -> str:
    """Return what git says of this checkout."""
    command = ["git", "-C", str(HERE.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def write(name: str, lines: list[str]) -> None:
    """Write a file that a page includes, unless it is there already."""
    target = HERE / "generated" / f"{name}.md"
    target.parent.mkdir(exist_ok=True)
    text = "\n".join(lines)
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


def prepare(app, docname: str, source: list[str]) -> None:
    """Close code blocks without the blank line that doctest wants; leave out what is absent."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")
    if docname == "methods" and not (HERE / "scale.md").exists():  # written from benchmark records
        source[0] = source[0].replace("\nscale\n", "\n")


def add_data(app) -> None:
    """Add the tables that examples read to the archives of all examples."""
    for path in (HERE / "auto_examples").glob("*.zip"):
        with zipfile.ZipFile(path, "a") as archive:
            known = set(archive.namelist())
            for file in sorted((HERE.parent / "examples" / "data").iterdir()):
                if f"data/{file.name}" not in known:
                    archive.write(file, f"data/{file.name}")


def setup(app) -> None:
    os.environ.setdefault("TQDM_DISABLE", "1")  # no bars among the outputs of examples
    app.connect("builder-inited", collect_records, priority=1)
    app.connect("builder-inited", add_data, priority=900)  # after the gallery
    app.connect("source-read", prepare)
