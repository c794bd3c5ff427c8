"""Where the pages of the documentation are: estimators in notebooks link to theirs."""

from __future__ import annotations

import functools
import os
import sys
from importlib import metadata
from typing import Any

from sklearn.base import BaseEstimator

__all__ = ["OnPages", "address"]


def address() -> str:
    """Return the address of the documentation, "" if nobody said one.

    The environment variable SKOUT_DOCUMENTATION has it, or the installed package, whose
    pyproject.toml may name it (`[project.urls]`, `documentation`).
    """
    return (os.environ.get("SKOUT_DOCUMENTATION") or _declared()).rstrip("/")


@functools.cache
def _declared() -> str:
    try:
        lines = metadata.metadata("skout").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # used from its sources
        return ""
    urls = dict(line.split(", ", 1) for line in lines)
    return next((url for name, url in urls.items() if name.lower() == "documentation"), "")


class OnPages(BaseEstimator):
    """An estimator whose page of the reference scikit-learn links to, in its HTML."""

    _doc_link_module = "skout"

    @property
    def _doc_link_template(self) -> str:
        where = address()
        return f"{where}/generated/{{place}}.{{name}}.html" if where else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Return the name of the class, and the first module that it can be imported from."""
        kind: Any = type(self)
        parts = kind.__module__.split(".")
        places = [".".join(parts[:stop]) for stop in range(1, len(parts) + 1)]
        public = (p for p in places if getattr(sys.modules[p], kind.__name__, None) is kind)
        return {"place": next(public, kind.__module__), "name": kind.__name__}
