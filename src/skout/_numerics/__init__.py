"""The ground floor: arrays, threads, factorisations, validation. It knows nothing of the rest."""

# what files name: rows
from .objects import Joint as Joint
from .objects import Ragged as Ragged
