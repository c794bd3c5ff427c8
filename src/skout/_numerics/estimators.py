"""What all estimators share: parts given by name, fits that succeed as a whole, frames on request.

scikit-learn's `set_output(transform="pandas")` makes frames of what transformers return.
`FramesOut` does the same for predictors: `set_output(predict="pandas")`.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Self, TypeVar, cast

from sklearn.utils.metaestimators import available_if

from .frames import in_frames
from .pages import OnPages

__all__ = ["FramesOut", "PartsByName", "all_at_once", "column_names", "no_frames"]

Fit = TypeVar("Fit", bound=Callable[..., Any])

_CONTAINERS = ("default", "pandas", "polars")
# Methods whose results become frames, and those within which nothing does.
_WRAPPED = ("predict", "predict_interval", "predict_proba", "rank")
_PLAIN = ("calibrate", "evaluate", "fit", "partial_fit", "score", "truth_ranks", "tune")
# Whether a method of an estimator runs: what it calls gets arrays.
_inside: ContextVar[bool] = ContextVar("_inside", default=False)

_SCORE_DOC = """Score the predictions of X, as scikit-learn's `{}` does.

        Parameters
        ----------
        X : what `predict` takes, n rows
        y : targets of these rows
        sample_weight : array of shape (n,), optional

        Returns
        -------
        score : float
        """


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


@contextmanager
def no_frames() -> Iterator[None]:
    """Within the block, predictions are arrays and objects, as by default."""
    before = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(before)


def column_names(Y: Any) -> list[str] | None:
    """Return the names of the columns of a data frame, or the name of a series; None without.

    Examples
    --------
    >>> from skout._numerics.estimators import column_names
    >>> column_names([[1, 2]]) is None
    True
    """
    names = getattr(Y, "column_names", None)  # of pyarrow
    if names is None and hasattr(Y, "shape"):
        names = getattr(Y, "columns", None)
    if names is None and hasattr(Y, "to_numpy") and getattr(Y, "name", None):
        names = [Y.name]
    return None if names is None or callable(names) else [str(name) for name in names]


class FramesOut:
    """Methods that predict give data frames, once `set_output(predict=...)` was called."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "predict"):
            return
        for names, wrap in ((_WRAPPED, _framed), (_PLAIN, _plain)):
            for name in names:
                method = inspect.getattr_static(cls, name, None)
                is_offered = hasattr(method, "check") and hasattr(method, "fn")  # by available_if
                function = method.fn if is_offered else method
                if not inspect.isfunction(function) or hasattr(function, "_is_wrapped"):
                    continue
                wrapped = wrap(function)
                setattr(cls, name, available_if(method.check)(wrapped) if is_offered else wrapped)

    @available_if(lambda self: hasattr(self, "predict"))
    def set_output(self, *, transform: str | None = None, predict: str | None = None) -> Self:
        """Say what predictions are given as.

        Parameters
        ----------
        transform : str, optional
            Of `transform`, as in scikit-learn; for estimators that have one.
        predict : {"default", "pandas", "polars"}, optional
            Of `predict`, `predict_proba`, `predict_interval` and `rank`: arrays and objects, or
            data frames. Columns have the names that the targets had in `fit`, and those of pandas
            the index of X. None leaves it as it is.

        Returns
        -------
        self : estimator
        """
        asked = {"transform": transform, "predict": predict}
        for name, value in asked.items():
            if value is not None and value not in _CONTAINERS:
                raise ValueError(
                    f"{name} must be one of {', '.join(map(repr, _CONTAINERS))}. Got {value!r}."
                )
        given = {name: value for name, value in asked.items() if value is not None}
        self._sklearn_output_config = {**getattr(self, "_sklearn_output_config", {}), **given}
        return self


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method work with arrays; one that fits notes the names of targets."""
    fits = method.__name__ in ("fit", "partial_fit")

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **params: Any) -> Any:
        with no_frames():
            found = method(self, *args, **params)
        if fits and not _inside.get():
            Y = args[1] if len(args) > 1 else params.get("Y", params.get("y"))
            names = column_names(Y)
            if names is not None:
                self.target_names_ = names
            elif method.__name__ == "fit":
                vars(self).pop("target_names_", None)
        return found

    if method.__module__.startswith("sklearn."):  # whose docstring refers to its own pages
        wrapped.__doc__ = _SCORE_DOC.format(method.__qualname__)
    wrapped._is_wrapped = True  # type: ignore[attr-defined]
    return wrapped


def _framed(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method return frames, if they are asked for and nobody inside needs arrays."""

    @functools.wraps(method)
    def wrapped(self: Any, X: Any, *args: Any, **params: Any) -> Any:
        container = getattr(self, "_sklearn_output_config", {}).get("predict", "default")
        plain = container == "default" or _inside.get()
        with no_frames():
            if plain:
                return method(self, X, *args, **params)
            return in_frames(container, method, self, X, *args, **params)

    wrapped._is_wrapped = True  # type: ignore[attr-defined]
    return wrapped


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
