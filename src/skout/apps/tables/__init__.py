"""Tables of all kinds of columns: `TableEncoder` makes numbers of them, `files` reads them."""

from . import onnx  # noqa: F401  which registers how encoders are exported
from .encoder import TableEncoder
from .encoders import CategoryColumn as CategoryColumn  # in files, as the others
from .encoders import DateColumn as DateColumn
from .encoders import HashedText as HashedText
from .encoders import ManyCategories as ManyCategories
from .encoders import NumberColumns as NumberColumns
from .encoders import SetColumn as SetColumn
from .encoders import TextColumn as TextColumn

__all__ = ["TableEncoder"]
