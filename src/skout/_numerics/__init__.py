"""Arrays, threads, factorizations, validation: imports nothing of the rest of skout."""

# what files name: rows
from .objects import Joint as Joint
from .objects import Ragged as Ragged
