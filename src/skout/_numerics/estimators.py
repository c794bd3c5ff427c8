"""What all estimators share: parts that are given by name, and fits that succeed as a whole."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar, cast

from .frames import FramesOut
from .pages import OnPages

__all__ = ["PartsByName", "all_at_once"]

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_at_once(fit: Fit) -> Fit:
    """Let a method that fits work on a copy, whose state becomes the estimator's at the end.

    If it fails or is interrupted, the model that was fitted before still answers, and one that was
    not fitted is not.

    Examples
    --------
    >>> from skout._numerics.estimators import all_at_once
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
        found = fit(fresh, *args, **params)
        self.__dict__ = fresh.__dict__  # one assignment: no signal comes in between
        return self if found is fresh else found

    return cast(Fit, fitted)


class PartsByName(FramesOut, OnPages):
    """An estimator whose parts may be given by name, and have their parameters all the same.

    `KernelRidge("gaussian")` has the parameter `kernel__gamma`, as `KernelRidge(Gaussian())` has.
    Setting it puts the object in the place of the name. The name itself stays what it is until
    then, also in a clone.
    """

    #: From the parameters that may be names to what makes the objects.
    _by_name: ClassVar[Mapping[str, Callable[[str], Any]]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; if `deep`, with those of the parts, also of parts given by name.

        Parameters
        ----------
        deep : bool, default True

        Returns
        -------
        params : dict
        """
        params = super().get_params(deep)
        if deep:
            for name, part in list(self._named_parts(params)):
                params |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of parts by names such as `kernel__gamma`.

        Parameters
        ----------
        **params
            A part that is given by name is replaced by the object with these parameters.

        Returns
        -------
        self : estimator
        """
        nested = {name: params.pop(name) for name in list(params) if "__" in name}
        super().set_params(**params)  # a new part first, then what is inside it
        for name, part in list(self._named_parts(vars(self))):
            inner = [key for key in nested if key.startswith(f"{name}__")]
            if inner:
                own = {key.partition("__")[2]: nested.pop(key) for key in inner}
                setattr(self, name, part.set_params(**own))
        self._check_have_parameters(nested)
        return super().set_params(**nested)

    def _named_parts(self, params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield the parts that are given by a known name, and the objects they stand for."""
        for name, make in self._by_name.items():
            value = params.get(name)
            if isinstance(value, str):
                try:
                    part = make(value)
                except ValueError:  # an unknown name, which `fit` reports
                    continue
                yield name, part

    def _check_have_parameters(self, nested: Mapping[str, Any]) -> None:
        """Raise where a parameter is meant for a part that has none, such as sketch=None."""
        own = super().get_params(deep=False)
        for key in nested:
            name = key.partition("__")[0]
            part = own.get(name)
            if name in self._by_name and (part is None or isinstance(part, str)):
                raise ValueError(
                    f"Invalid parameter {key!r} of {type(self).__name__}: {name} is {part!r}, "
                    f"which has no parameters. Give {name} first, as an object or by its name."
                )
