"""What estimators share: parameters, checked; parts given by name; fits that succeed as a whole.

Every message names the parameter, and says what was given and what to do. scikit-learn's
`set_output(transform="pandas")` makes frames of what transformers return. `frames_out` lets
predictors do the same: `set_output(predict="pandas")`.
"""

from __future__ import annotations

import copy
import difflib
import functools
import inspect
import math
import numbers
import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from scipy import sparse
from sklearn.utils.metaestimators import available_if

from .frames import in_frames
from .pages import OnPages

__all__ = [
    "LEAST_WEIGHT",
    "MOST_WEIGHT",
    "PartsByName",
    "Registry",
    "all_at_once",
    "check_alphas",
    "check_choice",
    "check_level",
    "check_number",
    "check_rng",
    "check_size",
    "check_squares",
    "check_total_weight",
    "column_names",
    "frames_out",
    "no_frames",
    "resolve",
    "spawn_seed",
    "warn_user",
]

Fit = TypeVar("Fit", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

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


class Registry(dict[str, Any]):
    """Classes by name, with underscores between words. Other spellings are found but not listed.

    Parameters
    ----------
    **aliases : str
        The name that each other spelling stands for; hyphens for underscores need none.
    """

    def __init__(self, **aliases: str) -> None:
        super().__init__()
        self.aliases = aliases

    def spelled(self, name: str) -> str:
        """Return the name as it is in here, given any spelling of it."""
        if name in self:
            return name
        name = name.replace("-", "_")
        return self.aliases.get(name, name)


def resolve(name: str, registry: Mapping[str, Any], kind: str) -> Any:
    """Look `name` up in `registry`, or say which names there are and which one is nearest."""
    if not isinstance(name, str):
        raise TypeError(f"{kind} must be a name. Got {name!r} instead. {_available(registry)}")
    if name in registry:
        return registry[name]
    aliases: Mapping[str, str] = getattr(registry, "aliases", {})
    if isinstance(registry, Registry) and registry.spelled(name) in registry:
        return registry[registry.spelled(name)]
    near = difflib.get_close_matches(name.lower(), [*registry, *aliases], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"Unknown {kind} {name!r}.{hint} {_available(registry)}")


def _available(registry: Mapping[str, Any]) -> str:
    return f"Available: {', '.join(sorted(registry))}."


def check_choice(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        near = difflib.get_close_matches(str(value), [str(c) for c in choices], n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        listed = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be one of {listed}. Got {value!r} instead.{hint}")


def check_number(
    value: Any, name: str, *, low: float = 0.0, strict: bool = False, integer: bool = False
) -> Any:
    """Return `value` if it is a finite number above `low` (`strict`: not equal to it)."""
    kind: Any = numbers.Integral if integer else numbers.Real
    noun = "an integer" if integer else "a finite number"
    sign = ">" if strict else ">="
    message = f"{name} must be {noun} {sign} {low:g}. Got {value!r} instead."
    if integer and not isinstance(value, numbers.Number) and hasattr(value, "__index__"):
        value = operator.index(value)  # an object that stands for an integer
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(message)
    with suppress(OverflowError):  # of an integer beyond float64
        if math.isfinite(value) and (value > low or (value == low and not strict)):
            return value
    raise ValueError(message)


def check_level(value: Any, name: str) -> float:
    """Return `value` if it is a probability, strictly between 0 and 1."""
    if not isinstance(value, numbers.Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1. Got {value!r} instead.")
    return float(value)


def check_alphas(alpha: Any, *, strict: bool = False) -> list[float]:
    """Return one or several penalties as a list."""
    many = isinstance(alpha, Iterable) and not isinstance(alpha, str)
    alphas = list(alpha) if many else [alpha]
    if not alphas:
        raise ValueError("alpha must be a number or a non-empty sequence of numbers. Got [].")
    return [float(check_number(value, "alpha", strict=strict)) for value in alphas]


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of skout that led here: the user's, or that of scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("skout"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_size(size: Any, n: int, name: str) -> int:
    """Return a sketch size, or a number of folds, clipped to n with a warning."""
    size = check_number(size, name, low=1, integer=True)
    if size > n:
        warn_user(f"{name}={size} is larger than the number of rows, {n}; using {n}.")
    return min(int(size), n)


def check_rng(random_state: Any) -> np.random.Generator:
    """Turn None, an int, a Generator or a RandomState into a Generator."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be None, an int, a numpy Generator or a RandomState. "
            f"Got {random_state!r} instead."
        ) from error


def spawn_seed(random_state: Any) -> int | None:
    """Return a seed of a stream of its own: what it draws has nothing to do with `random_state`'s.

    A Generator or RandomState moves on by one draw; None stays None.
    """
    return None if random_state is None else int(check_rng(random_state).integers(2**31))


# What the weights of all rows come to, beyond which their products are lost to rounding.
LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100


def check_total_weight(total: float) -> None:
    """Raise where the weights of all rows sum to zero, or to what cannot be computed with."""
    if total <= 0.0:
        raise ValueError("sample_weight must have a positive sum. Got only zeros instead.")
    if not 0.5 * LEAST_WEIGHT <= total <= 1e20 * MOST_WEIGHT:
        raise ValueError(
            f"sample_weight must come to between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}, so that "
            f"products of it are no zeros. Got {total:g}: multiply all weights by one number, "
            "which changes nothing else."
        )


_SCALE = "Scale the features, for instance with scikit-learn's StandardScaler."


def check_squares(rows: Any, name: str, advice: str = _SCALE) -> None:
    """Raise where distances and products of rows would overflow."""
    values = rows.data if sparse.issparse(rows) else rows
    if values.size == 0:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        if values.flags.forc:
            flat = values.ravel(order="K")
            total = np.vdot(flat, flat)
        else:  # without a copy
            axes = "ij"[: values.ndim]
            total = np.einsum(f"{axes},{axes}->", values, values)
        if np.isfinite(total):  # then all parts of the sum are, too
            return
    largest = float(np.fmax.reduce(np.abs(values), axis=None))  # NaN are holes
    limit = float(np.sqrt(np.finfo(values.dtype).max / (4.0 * max(1, *rows.shape))))
    if largest > limit:
        raise ValueError(
            f"{name} holds numbers up to {largest:.3g}, whose squares overflow {values.dtype}. "
            f"{advice}"
        )


# Estimators ---------------------------------------------------------------------------------------


def all_at_once(fit: Fit) -> Fit:
    """Let a method that fits work on a copy, whose state becomes the estimator's at the end.

    If it fails or is interrupted, the model that was fitted before still answers, and one that was
    not fitted is not.

    Examples
    --------
    >>> from skout._numerics.validation import all_at_once
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


def frames_out(cls: Class) -> Class:
    """Let the methods of an estimator that predict return data frames: a decorator of its class.

    It gets `set_output`. `fit` notes the names of the targets, `target_names_`; within each method
    of the estimator, the estimators inside return arrays, whatever was set for them.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skout._numerics.validation import frames_out
    >>> @frames_out
    ... class Model(Ridge): ...
    >>> model = Model().set_output(predict="pandas")
    """
    for names, wrap in ((_WRAPPED, _framed), (_PLAIN, _plain)):
        for name in names:
            method = inspect.getattr_static(cls, name, None)
            is_offered = hasattr(method, "check") and hasattr(method, "fn")  # by available_if
            function = method.fn if is_offered else method
            if not inspect.isfunction(function) or hasattr(function, "_is_wrapped"):
                continue
            wrapped = wrap(function)
            offered = available_if(method.check)(wrapped) if is_offered else wrapped
            setattr(cls, name, offered)
    cls.set_output = set_output  # type: ignore[attr-defined]
    return cls


def set_output(self: Any, *, transform: str | None = None, predict: str | None = None) -> Any:
    """Choose what predictions are returned as.

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
    wanted = {"transform": transform, "predict": predict}
    for name, value in wanted.items():
        if value is not None and value not in _CONTAINERS:
            raise ValueError(
                f"{name} must be one of {', '.join(map(repr, _CONTAINERS))}. Got {value!r}."
            )
    chosen = {name: value for name, value in wanted.items() if value is not None}
    self._sklearn_output_config = {**getattr(self, "_sklearn_output_config", {}), **chosen}
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
    >>> from skout._numerics.validation import column_names
    >>> column_names([[1, 2]]) is None
    True
    """
    names = getattr(Y, "column_names", None)  # of pyarrow
    if names is None and hasattr(Y, "shape"):
        names = getattr(Y, "columns", None)
    if names is None and hasattr(Y, "to_numpy") and getattr(Y, "name", None):
        names = [Y.name]
    return None if names is None or callable(names) else [str(name) for name in names]


class PartsByName(OnPages):
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
