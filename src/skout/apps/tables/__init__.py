"""Tables with columns of all kinds: `TableEncoder` encodes them as numbers, `files` reads them."""

from . import onnx  # noqa: F401  registers the ONNX form of encoders
from .encoder import TableEncoder
from .encoders import CategoryColumn as CategoryColumn  # files of models name these classes
from .encoders import DateColumn as DateColumn
from .encoders import HashedText as HashedText
from .encoders import ManyCategories as ManyCategories
from .encoders import NumberColumns as NumberColumns
from .encoders import SetColumn as SetColumn
from .encoders import TextColumn as TextColumn

__all__ = ["TableEncoder"]
