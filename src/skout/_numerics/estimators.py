"""What estimators share: fits that succeed as a whole, parts by name, data frames, pages.

scikit-learn's `set_output(transform="pandas")` makes frames of what transformers return.
`frames_out` lets predictors do the same: `set_output(predict="pandas")`, of pandas with the index
of X, or of polars.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module, metadata
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from .arrays import dense, take
from .objects import as_objects
from .typing import Estimator, State

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


def all_at_once(fit: Fit) -> Fit:
    """Decorate `fit`: it works on a copy of the estimator, whose state replaces it at the end.

    A fit that fails or is interrupted leaves the estimator as it was before, fitted or not.

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
    def fitted(self: Estimator, *args: object, **params: object) -> Any:
        fresh = copy.copy(self)
        result = fit(fresh, *args, **params)
        self.__dict__ = fresh.__dict__  # one assignment: no signal comes in between
        return self if result is fresh else result

    return cast(Fit, fitted)


@functools.cache
def computed(kind: type) -> frozenset[str]:
    """Return the names of the cached properties of a class."""
    pairs = [pair for base in kind.__mro__ for pair in vars(base).items()]
    return frozenset(name for name, value in pairs if isinstance(value, functools.cached_property))


def lasting(item: object) -> State:
    """Return the attributes of an object without its cached properties: a `__getstate__`.

    Copies, pickles and workers compute these again when they need them.
    """
    kind: type = type(item)
    return {name: value for name, value in vars(item).items() if name not in computed(kind)}


# Parts and pages ----------------------------------------------------------------------------------


def address() -> str:
    """Return the address of the documentation, "" if none is set.

    The environment variable SKOUT_DOCUMENTATION has it, or the installed package, whose
    pyproject.toml may name it (`[project.urls]`, `documentation`).
    """
    return (os.environ.get("SKOUT_DOCUMENTATION") or _declared()).rstrip("/")


@functools.cache
def _declared() -> str:
    try:
        lines = metadata.metadata("skout").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # used from its sources
        return ""
    urls = dict(line.split(", ", 1) for line in lines)
    return next((url for name, url in urls.items() if name.lower() == "documentation"), "")


# Parameters of scikit-learn that have another name here, and the message that says which.
_ELSEWHERE = {
    "gamma": "the width belongs to the kernel, as in Gaussian(gamma=0.1) of skout.kernels, or "
    "kernel__gamma in set_params and in grids",
    "degree": "it belongs to the kernel, as in Polynomial(degree=3) of skout.kernels",
    "coef0": "it belongs to the kernel, as in Polynomial(degree=3, coef0=1.0) of skout.kernels",
    "n_components": "a model of so many landmarks has a sketch, as in sketch=SubSample(100) of "
    "skout.sketches",
    "C": "the penalty is alpha = 1 / (n C), of n rows",
    "epsilon": "it belongs to the loss, as in loss=EpsilonInsensitive(0.1) of skout.losses",
    "probability": 'a KernelClassifier with loss="logistic" has predict_proba',
}


def new_regressor(cls: type, *_: object, **params: object) -> Any:
    """Create a regressor: a `__new__` that raises for parameters that have another name here.

    Kernels, sketches and losses do without it: every fit creates some, and the check takes time.
    """
    if theirs := params.keys() & _ELSEWHERE.keys():
        _refuse(cls, theirs, TypeError)
    return object.__new__(cls)


def _refuse(cls: type, theirs: Iterable[str], error: type[Exception]) -> None:
    """Raise an error that says what to write for a parameter of scikit-learn that a class lacks."""
    for name in sorted(theirs):
        if name not in inspect.signature(cls.__init__).parameters:  # type: ignore[misc]
            raise error(f"{cls.__name__} has no parameter {name!r}: {_ELSEWHERE[name]}.")


class PartsByName(BaseEstimator):
    """Base of estimators whose parts can be given by name, with the parameters of these parts.

    `KernelRidge("gaussian")` has the parameter `kernel__gamma`, as `KernelRidge(Gaussian())` has.
    Setting it puts the object in the place of the name. The name itself stays what it is until
    then, also in a clone. In notebooks it links to its page of the reference.
    """

    #: From the parameters that may be names to what makes the objects.
    _by_name: ClassVar[Mapping[str, Callable[[str], Any]]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters and, if `deep`, those of the parts, also of parts given by name.

        Parameters
        ----------
        deep : bool, default True
        """
        params = super().get_params(deep)
        if deep:
            for name, part in list(self._named_parts(params)):
                params |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return params

    def set_params(self, **params: object) -> Self:
        """Set parameters, those of parts by names such as `kernel__gamma`.

        Parameters
        ----------
        **params
            A part that is given by name is replaced by the object with these parameters.
        """
        nested = {name: params.pop(name) for name in list(params) if "__" in name}
        if "kernel" in self._by_name and (theirs := params.keys() & _ELSEWHERE.keys()):
            _refuse(type(self), theirs, ValueError)
        super().set_params(**params)  # a new part first, then what is inside it
        for name, part in list(self._named_parts(vars(self))):
            inner = [key for key in nested if key.startswith(f"{name}__")]
            if inner:
                part_params = {key.partition("__")[2]: nested.pop(key) for key in inner}
                setattr(self, name, part.set_params(**part_params))
        self._check_have_parameters(nested)
        return super().set_params(**nested)

    def _named_parts(self, params: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
        """Yield the parts that are given by a known name, and the objects they stand for."""
        for name, make in self._by_name.items():
            value = params.get(name)
            if isinstance(value, str):
                try:
                    part = make(value)
                except ValueError:  # an unknown name, which `fit` reports
                    continue
                yield name, part

    def _check_have_parameters(self, nested: Mapping[str, object]) -> None:
        """Raise where a parameter is meant for a part that has none, such as sketch=None."""
        params = super().get_params(deep=False)
        for key in nested:
            name = key.partition("__")[0]
            part = params.get(name)
            if name in self._by_name and (part is None or isinstance(part, str)):
                raise ValueError(
                    f"Invalid parameter {key!r} of {type(self).__name__}: {name} is {part!r}, "
                    f"which has no parameters. Give {name} first, as an object or by its name."
                )

    # scikit-learn's HTML of an estimator links to its page
    _doc_link_module = "skout"

    @property
    def _doc_link_template(self) -> str:
        where = address()
        return f"{where}/generated/{{place}}.{{name}}.html" if where else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Return the name of the class, and the first module that it can be imported from."""
        kind: Any = type(self)
        parts = kind.__module__.split(".")
        places = [".".join(parts[:stop]) for stop in range(1, len(parts) + 1)]
        public = (p for p in places if getattr(sys.modules[p], kind.__name__, None) is kind)
        return {"place": next(public, kind.__module__), "name": kind.__name__}


# Data frames --------------------------------------------------------------------------------------


def frames_out(cls: Class) -> Class:
    """Decorate the class of an estimator: its predictions can be data frames, by `set_output`.

    `fit` stores the names of the targets, `target_names_`; within each method of the estimator, the
    estimators inside return arrays, whatever was set for them.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skout._numerics.estimators import frames_out
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


def set_output(self: Estimator, *, transform: str | None = None, predict: str | None = None) -> Any:
    """Choose the container of predictions: arrays and objects, or data frames.

    Parameters
    ----------
    transform : str, optional
        The container of `transform`, as in scikit-learn; for estimators that have one.
    predict : {"default", "pandas", "polars"}, optional
        The container of `predict`, `predict_proba`, `predict_interval` and `rank`: arrays and
        objects, or data frames. Columns have the names that the targets had in `fit`, and frames of
        pandas the index of X. None leaves it as it is.
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
    """Wrap a method: estimators inside return arrays, and `fit` stores the names of targets."""
    fits = method.__name__ in ("fit", "partial_fit")

    @functools.wraps(method)
    def wrapped(self: Any, *args: object, **params: object) -> Any:
        with no_frames():
            result = method(self, *args, **params)
        if fits and not _inside.get():
            Y = args[1] if len(args) > 1 else params.get("Y", params.get("y"))
            names = column_names(Y)
            if names is not None:
                self.target_names_ = names
            elif method.__name__ == "fit":
                vars(self).pop("target_names_", None)
        return result

    if method.__module__.startswith("sklearn."):  # whose docstring refers to its own pages
        wrapped.__doc__ = _SCORE_DOC.format(method.__qualname__)
    wrapped._is_wrapped = True  # type: ignore[attr-defined]
    return wrapped


def _framed(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method: it returns data frames if they are set and no other method calls it."""

    @functools.wraps(method)
    def wrapped(self: Estimator, X: object, *args: object, **params: object) -> Any:
        container = getattr(self, "_sklearn_output_config", {}).get("predict", "default")
        plain = container == "default" or _inside.get()
        with no_frames():
            if plain:
                return method(self, X, *args, **params)
            return _in_frames(container, method, self, X, *args, **params)

    wrapped._is_wrapped = True  # type: ignore[attr-defined]
    return wrapped


@contextmanager
def no_frames() -> Iterator[None]:
    """Make predictions arrays and objects within the block, as by default."""
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


def _in_frames(
    container: str,
    method: Callable[..., Any],
    model: Estimator,
    X: Any,
    *args: object,
    **params: object,
) -> Any:
    """Return the predictions of a method for X as data frames, of pandas or of polars."""
    index = X.index if hasattr(X, "iloc") else None
    if method.__name__ == "rank":
        columns = _ranked(model, method, X, *args, **params)
        return _frame(columns, container, index, repeated="row")
    result = method(model, X, *args, **params)
    if hasattr(result, "indptr") and hasattr(result, "pool"):
        return _frame(_set_columns(model, result), container, index, repeated="row")
    if isinstance(result, tuple):
        return tuple(_frame(_columns(model, part, method), container, index) for part in result)
    return _frame(_columns(model, result, method), container, index)


def _columns(model: Estimator, result: Any, method: Callable[..., Any]) -> dict[str, Any]:
    """Return predictions as columns by their names."""
    result = dense(result)
    values = np.asarray(result) if hasattr(result, "shape") else as_objects(result)
    if values.ndim > 2:
        raise ValueError(f"Predictions of shape {values.shape} are no table: use set_output().")
    if values.ndim == 1:
        values = values[:, None]
    names = _names(model, values.shape[1], method)
    return {name: values[:, j] for j, name in enumerate(names)}


def _names(model: Estimator, width: int, method: Callable[..., Any]) -> list[str]:
    """Return column names: classes, names of targets, levels of quantiles, or y0, y1, ..."""
    if method.__name__ == "predict_proba" and hasattr(model, "classes_"):
        return [str(label) for label in model.classes_]
    target_names = getattr(model, "target_names_", None) or []
    if len(target_names) == width:
        return list(target_names)
    base = target_names[0] if len(target_names) == 1 else "y"
    if width == 1:
        return [base]
    levels = getattr(model, "quantiles_", None)
    if levels is not None and len(levels) == width:
        return [f"{base}: {level:g}" for level in levels]
    return [f"{base}{j}" for j in range(width)]


def _ranked(
    model: Estimator,
    method: Callable[..., Any],
    X: object,
    candidates: object = None,
    *args: object,
    **params: object,
) -> dict[str, np.ndarray]:
    """Return a ranking as columns: query row, rank, position, candidate and score of each entry."""
    searcher = model if hasattr(model, "embed") else getattr(model, "searcher_", None)
    embed = getattr(searcher, "embed", None)
    if embed is not None and candidates is not None:  # once, and the columns need the pool
        candidates = embed(candidates)
    ranked = method(model, X, candidates, *args, **params)
    indices, scores = (np.asarray(array) for array in ranked)
    row, rank = np.nonzero(indices >= 0)  # shorter sets are padded with -1
    place = indices[row, rank]
    columns = {"row": row, "rank": rank + 1, "position": place}
    if embed is not None:
        pools = embed(None) if candidates is None else candidates
        pool = getattr(pools, "parts", [pools])[0]  # an ensemble embeds for each member
        if pool.is_per_query:
            place = pool.objects.indices[pool.objects.indptr[row] + place]
        columns |= _candidates(model, take(pool.pool, place))
    return columns | {"score": scores[row, rank]}


def _set_columns(model: Estimator, sets: Any) -> dict[str, np.ndarray]:
    """Return sets as columns: query row, rank, position in the pool, candidate of each member."""
    sizes, place = np.diff(sets.indptr), np.asarray(sets.indices)
    rank = np.arange(len(place)) - np.repeat(sets.indptr[:-1], sizes)
    row = np.repeat(np.arange(len(sizes)), sizes)
    candidates = _candidates(model, take(sets.pool, place))
    return {"row": row, "rank": rank + 1, "position": place, **candidates}


def _candidates(model: Estimator, objects: Any) -> dict[str, np.ndarray]:
    """Return candidates as one column, or a matrix as its columns; {} for other candidates."""
    if isinstance(objects, list | tuple):
        return {"candidate": as_objects(objects)}
    values = dense(objects)
    values = values.to_numpy() if hasattr(values, "to_numpy") else values
    if not isinstance(values, np.ndarray) or values.ndim > 2:
        return {}
    if values.ndim == 1:
        return {"candidate": values}
    inside = getattr(model, "model", None)  # of prediction sets
    names = getattr(model, "target_names_", None) or getattr(inside, "target_names_", None) or []
    names = names if len(names) == values.shape[1] else range(values.shape[1])
    return {f"candidate: {name}": values[:, j] for j, name in enumerate(names)}


def _frame(columns: dict[str, Any], container: str, index: Any, repeated: str = "") -> Any:
    """Return columns as a data frame; one of pandas has the row numbers, `repeated`, as index."""
    try:
        library = import_module(container)
    except ImportError as error:
        raise ImportError(
            f'set_output(predict="{container}") needs {container}: pip install {container}'
        ) from error
    if container == "polars":
        lists = {name: v.tolist() if v.dtype == object else v for name, v in columns.items()}
        return library.DataFrame(lists)
    if repeated:
        rows = columns.pop(repeated)
        index = rows if index is None else index[rows]
        frame = library.DataFrame(columns, index=index)
        frame.index.name = frame.index.name or repeated
        return frame
    return library.DataFrame(columns, index=index)
