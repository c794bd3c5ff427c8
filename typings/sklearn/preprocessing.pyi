from typing import Any

from .base import BaseEstimator, TransformerMixin

def __getattr__(name: str) -> Any: ...

class KBinsDiscretizer(TransformerMixin, BaseEstimator): ...
