"""What skout uses of dask: all of it is `Any`."""

from typing import Any

def __getattr__(name: str) -> Any: ...
