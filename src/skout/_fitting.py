"""A fit that succeeds as a whole, or leaves the estimator as it was."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["all_at_once"]

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_at_once(fit: Fit) -> Fit:
    """Let a method that fits work on a copy, whose state becomes the estimator's at the end.

    If it fails or is interrupted, the model that was fitted before still answers, and one that was
    not fitted is not.

    Examples
    --------
    >>> from skout._fitting import all_at_once
    >>> class Model:
    ...     @all_at_once
    ...     def fit(self, y):
    ...         self.first_ = y[0]
    ...         self.second_ = y[1]
    ...         return self
    >>> model = Model().fit([1, 2])
    >>> try:
    ...     model.fit([3])
    ... except IndexError:
    ...     print(model.first_, model.second_)
    1 2
    """

    @functools.wraps(fit)
    def fitted(self: Any, *args: Any, **params: Any) -> Any:
        fresh = copy.copy(self)
        fit(fresh, *args, **params)
        self.__dict__ = fresh.__dict__  # one assignment: no signal comes in between
        return self

    return cast(Fit, fitted)
