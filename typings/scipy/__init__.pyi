"""What skout uses of SciPy and is worth a type; all else of it is `Any`."""

from typing import Any

def __getattr__(name: str) -> Any: ...
