"""Which classes a file may name, what of their objects is saved, and how they are made again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import feature_selection
from sklearn.base import BaseEstimator

from .. import decoding, kernels, losses, predictor, predictors, regressors, sketches
from .._numerics.arrays import n_rows, take
from .._numerics.objects import Joint, Ragged
from ..basis import KernelBasis
from ..basis.moments import MaskedMoments, Moments, PartlyWhitened
from ..basis.passes import KnownRows
from ..basis.weights import OutputWeights
from ..decoding import CandidateDecoder, CandidateSets, EmbeddedPool, FaissIndex, StringDecoder
from ..decoding.euler import Graph
from ..kernels import PackedBits
from ..kernels.bags import Bags
from ..kernels.combine import _Images
from ..kernels.fingerprints import fingerprints
from ..kernels.spectrum_rows import Spectra
from ..predictors.crossing import Fold
from ..predictors.discoveries import AnswerConfidence
from ..predictors.end_to_end import MappedBasis
from ..predictors.ensemble import Ensemble
from ..predictors.joint import JointBasis, JointRegressor
from ..predictors.lists import Calibrated
from ..predictors.nonconformity import LearntScore, Softmax
from ..regressors import KernelRidge, PrivateRidge
from ..regressors.intervals import Calibration
from ..regressors.ridge import Kept
from .files import FileError

__all__ = [
    "BUILT",
    "CLASSES",
    "FUNCTIONS",
    "TYPES",
    "function_name",
    "name_of",
    "new_parameters",
    "not_attributes",
    "own_function",
    "public_name",
    "restored",
    "saved_state",
]

# scikit-learn's scores of features.
_SCORES = (
    *("chi2", "f_classif", "f_regression", "mutual_info_classif", "mutual_info_regression"),
    "r_regression",
)
# Modules whose classes are looked for when they are first needed.
_LATER = (
    "skout.predictors.reranker",
    *("skout.apps.spectra.identify", "skout.apps.tuning"),
    *("skout.apps.tables.encoder", "skout.apps.tables.encoders"),
)


def name_of(kind: type) -> str:
    """Return the name by which a file knows a class: of ours without the module, which may move."""
    return public_name(f"{kind.__module__}.{kind.__qualname__}")


def public_name(name: str) -> str:
    """Return a name without the module, if it is one of ours; files of old have one with it."""
    return f"skout.{name.rpartition('.')[2]}" if name.startswith("skout.") else name


class ByName(dict[str, Any]):
    """Classes by the name that a file has for them, with or without a module of ours.

    Those of `_LATER` are slow to import, and are there once a name is not found without them.
    """

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(self._known(name))

    def __contains__(self, name: object) -> bool:
        return super().__contains__(self._known(str(name)))

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(self._known(name), default)

    def _known(self, name: str) -> str:
        name = public_name(name)
        if not super().__contains__(name) and name.startswith("skout."):
            for module in map(import_module, _LATER):
                kinds = [getattr(module, one) for one in module.__all__]
                self.update({name_of(kind): kind for kind in kinds})
        return name


def function_name(item: Any, path: str) -> str:
    """Return the name under which a function, a class or a partial is to be given at load."""
    function = getattr(item, "func", item)  # of a functools.partial
    name = getattr(function, "__name__", type(item).__name__)
    if name == "<lambda>":
        raise TypeError(
            f"{path} is a lambda. Functions are not saved, but given to skout.load by name, and "
            "this one has none: use a function made by def."
        )
    return name


def _is_number_type(kind: Any) -> bool:
    """Whether this is a type of NumPy's scalars, such as np.float32 or np.number."""
    return isinstance(kind, type) and issubclass(kind, np.generic)


def _public_classes() -> list[type]:
    """Return the classes that skout's modules export; what they add is found here at once."""
    modules = (decoding, kernels, losses, predictor, predictors, regressors, sketches)
    found = [getattr(module, name) for module in modules for name in module.__all__]
    return [one for one in found if inspect.isclass(one) and not inspect.isabstract(one)]


#: The only classes whose objects a file may have (but for networks, see `networks`).
CLASSES: dict[str, type] = ByName(
    (name_of(kind), kind)
    for kind in [
        *_public_classes(),
        KernelBasis,
        *(Bags, Joint, Spectra, _Images),  # rows
        # parts of models
        *(Graph, JointBasis, JointRegressor, KnownRows, MappedBasis, Moments, OutputWeights),
        PartlyWhitened,
        *(AnswerConfidence, Fold, LearntScore, Softmax),
        *(Calibration, Kept, MaskedMoments),
    ]
)

CLASSES["skout.HoledMoments"] = MaskedMoments  # its name in files of earlier versions

#: The only classes that may be a value themselves: kinds of candidates, NumPy's scalars.
TYPES: dict[str, type] = ByName(CLASSES)
TYPES |= {
    name_of(kind): kind
    for kind in [
        *(bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset),
        *(type(None), np.ndarray, object),
        *filter(_is_number_type, vars(np).values()),
    ]
}

#: The only functions that a file may name: they make numbers of numbers or of SMILES. All others
#: are given at load.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "skout.molecules.fingerprints": fingerprints,
    **{f"sklearn.feature_selection.{name}": getattr(feature_selection, name) for name in _SCORES},
    **{f"numpy.{name}": one for name, one in vars(np).items() if isinstance(one, np.ufunc)},
}
_FUNCTION_NAMES = {id(function): name for name, function in FUNCTIONS.items()}


def own_function(item: Any) -> str | None:
    """Return the name of a function that a file may name, None for anything else."""
    return _FUNCTION_NAMES.get(id(item))


def saved_state(item: Any, candidates: bool) -> dict[str, Any]:
    """Return the attributes of an object that go into a file, default candidates if they shall."""
    if isinstance(item, tuple):
        return item._asdict()  # type: ignore[attr-defined]
    if isinstance(item, CandidateDecoder) and candidates:
        item.find_pool()  # which may be on a cluster still
    kind = type(item)
    state = {
        name: value
        for name, value in vars(item).items()
        if not isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)
    }
    if isinstance(item, Ensemble) and "_training" in state:
        state["_training"] = None  # made again where it is needed
    if isinstance(item, KernelRidge):
        state["checkpoint"] = None  # a file names no other file
    if isinstance(item, PrivateRidge):
        state["random_state"] = None  # its noise could be computed from it
    if isinstance(item, FaissIndex):
        state.pop("_index", None)  # faiss would have to read bytes that it cannot check
    if not candidates:
        _leave_out_candidates(item, state)
    return state


def _leave_out_candidates(item: Any, state: dict[str, Any]) -> None:
    if isinstance(item, StringDecoder) and "_outputs" in state:
        raise ValueError(
            "StringDecoder cannot work without its training outputs: save with candidates=True."
        )
    if hasattr(item, "decode") and CLASSES.get(name_of(type(item))) is not type(item):
        _leave_out_own(item, state)
    if isinstance(item, CandidateDecoder | Calibrated):
        state.pop("_outputs", None)
    if isinstance(item, CandidateDecoder) and "pool_" in state:
        is_plain = isinstance(item.pool_, list | tuple | np.ndarray) or sparse.issparse(item.pool_)
        state["pool_"] = take(item.pool_, slice(0)) if is_plain else None
        if "embedding_" in state:
            state["embedding_"] = item.embedding_[:0]
        state["_training"] = None


def _leave_out_own(item: Any, state: dict[str, Any]) -> None:
    """Let a decoder that a user wrote and fitted say what it is without candidates."""
    if state.keys() <= item.get_params(deep=False).keys():
        return
    if not hasattr(item, "without_pool"):
        raise ValueError(
            f"{type(item).__name__} has no method without_pool, which would return a copy without "
            "candidates: write it, or save with candidates=True."
        )
    light = vars(item.without_pool())
    for name in [name for name in state if name not in light]:
        del state[name]
    state |= light


def restored(kind: type, state: dict[str, Any]) -> Any:
    """Return the object of a class with these attributes; what could do harm is checked.

    Compiled loops and SciPy do not look where they read: positions must be inside.
    """
    if issubclass(kind, tuple):
        return kind(**state)
    if kind in _BUILDERS:
        return _BUILDERS[kind](state)
    for name in not_attributes(kind, state):
        raise FileError(f"{name!r} is no attribute of {kind.__name__} that a file can set.")
    item = object.__new__(kind)
    vars(item).update(new_parameters(kind) | _renewed(kind, state))
    if isinstance(item, Ragged):
        _check_ragged(item)
    return _REBUILT[kind](item) if kind in _REBUILT else item


def not_attributes(kind: type, names: Iterable[str]) -> list[str]:
    """Return the names that stand for methods and properties of a class, or for more."""
    found = []
    for name in names:
        own = inspect.getattr_static(kind, name, None)
        is_method = callable(own) or isinstance(own, property | classmethod | staticmethod)
        if is_method or name.startswith("__"):
            found.append(name)
    return found


def new_parameters(kind: type) -> dict[str, Any]:
    """Return the parameters of an estimator with a default, which older files may not have."""
    if not issubclass(kind, BaseEstimator):
        return {}
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


# What `Kept` calls the private attributes that a `KernelRidge` had before.
_KEPT = {
    "_matrix": "matrix", "_base": "moments", "_row_weights": "row_weights",
    "_row_count": "row_count", "_fitc_shift": "fitc_shift", "_origin": "origin",
    "_folds": "folds", "_n_seen": "n_added",
}  # fmt: skip


def _renewed(kind: type, state: dict[str, Any]) -> dict[str, Any]:
    """Return attributes that an earlier version has saved as this version has them."""
    if not issubclass(kind, KernelRidge):
        return state
    if "_fitc" in state or state.get("variance") == "fast":
        # with any `variance`, predictions were those of "dtc"
        state = {name: value for name, value in state.items() if name != "_fitc"}
        state["variance"] = "dtc"
    if "_matrix" in state:
        kept = {new: state[old] for old, new in _KEPT.items() if old in state}
        gone = {*_KEPT, "_n_outputs"}
        state = {name: value for name, value in state.items() if name not in gone}
        state["_kept"] = Kept(**kept)
    return state


def _check_ragged(rows: Ragged) -> None:
    indptr, lengths = rows.indptr, {len(column) for column in rows.columns}
    if (
        indptr.ndim != 1
        or indptr.dtype.kind not in "iu"
        or len(indptr) == 0
        or indptr[0] != 0
        or lengths != {int(indptr[-1])}
        or np.any(indptr[1:] < indptr[:-1])
        or any(column.ndim != 1 for column in rows.columns)
    ):
        raise FileError(f"The file has {type(rows).__name__} whose columns do not fit their rows.")


def _check_pool(pool: EmbeddedPool) -> EmbeddedPool:
    n, n_distinct = n_rows(pool.pool), len(pool.embedding)
    fits = (
        pool.embedding.ndim == 2
        and pool.first.shape == (n_distinct,)
        and pool.inverse.shape == (n,)
        and _are_positions(pool.first, 0, n)
        and _are_positions(pool.inverse, -1, n_distinct)
        and (pool.counts is None or pool.counts.shape == (n_distinct,))
    )
    if not fits or (pool.is_per_query and not _are_positions(pool.members, 0, n_distinct)):
        raise FileError("The file has candidates whose coordinates do not fit them.")
    return pool


def _are_positions(values: np.ndarray, low: int, high: int) -> bool:
    inside = (values >= low) & (values < high)
    return values.dtype.kind in "iu" and bool(np.all(inside))


def _with_index(item: FaissIndex) -> FaissIndex:
    """Build the index of faiss again from the candidates."""
    return item.build(item.embedding_) if hasattr(item, "embedding_") else item


def _arrays(state: dict[str, Any], *names: str) -> list[np.ndarray]:
    """Return arrays of a file; lists in their place could become far larger ones."""
    if not all(isinstance(state[name], np.ndarray) for name in names):
        raise FileError(f"The file has {' and '.join(names)} that are no arrays.")
    return [state[name] for name in names]


# Classes that check what they are made of, and those that need something after it.
_BUILDERS: dict[type, Callable[[dict[str, Any]], Any]] = {
    CandidateSets: lambda state: CandidateSets(state["pool"], *_arrays(state, "indptr", "indices")),
    PackedBits: lambda state: PackedBits(
        _arrays(state, "words")[0], state["n_bits"], state["dtype"]
    ),
}
_REBUILT: dict[type, Callable[[Any], Any]] = {EmbeddedPool: _check_pool, FaissIndex: _with_index}
#: Classes whose objects are not just their attributes.
BUILT = {*_BUILDERS, *_REBUILT}
