"""Tables of all kinds of columns: `TableEncoder` makes numbers of them, `files` reads them."""

from .encoder import TableEncoder

__all__ = ["TableEncoder"]
