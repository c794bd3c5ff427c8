"""Progress bars, on the screen or in a notebook, where somebody wants to see one."""

from __future__ import annotations

from typing import Any


def tqdm(*iterable: Any, disable: bool = False, **params: Any) -> Any:
    """Return a bar of tqdm.

    One that is disabled does not look for a notebook: where this has no widgets, tqdm warns.
    """
    if disable:
        from tqdm.std import tqdm as bar
    else:
        from tqdm.auto import tqdm as bar
    return bar(*iterable, disable=disable, **params)
