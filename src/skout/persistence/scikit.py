"""Estimators of scikit-learn in files: their attributes, as those of any other object.

Compiled code follows some of these without looking: the nodes of a tree must make up a tree, and
arrays must have the shapes that loops take for granted. This is checked before they are used, and
what nobody checks is not saved. What can be made again from the rest is not stored.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import sklearn
from sklearn.utils import Bunch

from .._numerics.saving import name_of, require
from .files import FileError

__all__ = [
    "advice",
    "built",
    "class_of",
    "finished",
    "is_built",
    "is_derived",
    "is_unchecked",
    "state_of",
]

# Modules of scikit-learn whose public classes may be in a file.
_MODULES = {
    f"sklearn.{name}"
    for name in (
        *("calibration", "compose", "covariance", "cross_decomposition", "decomposition"),
        *("discriminant_analysis", "dummy", "ensemble", "feature_extraction"),
        *("feature_extraction.text", "feature_selection", "gaussian_process"),
        *("gaussian_process.kernels", "impute", "isotonic", "kernel_approximation", "kernel_ridge"),
        *("linear_model", "mixture", "model_selection", "multiclass", "multioutput", "naive_bayes"),
        *("neighbors", "neural_network", "pipeline", "preprocessing", "random_projection", "svm"),
        "tree",
    )
}
# Classes of these modules: all that may be, and those that may not.
_ONLY = {
    "sklearn.neighbors": {"KNeighborsRegressor", "RadiusNeighborsRegressor"},
    "sklearn.svm": {"LinearSVC", "LinearSVR", "NuSVR", "SVR"},
}
_SEARCHES = {f"{kind}SearchCV" for kind in ("Grid", "HalvingGrid", "HalvingRandom", "Randomized")}
_NOT = {*_SEARCHES, "GradientBoostingClassifier", "IsolationForest"}
_TREE = "sklearn.tree._tree.Tree"
_SPLINE = "scipy.interpolate.BSpline"
# Parts of estimators.
_PARTS = {
    _TREE,
    _SPLINE,
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.impute._iterative._ImputerTriplet",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.utils.Bunch",
}
# What may stand between BaseEstimator and a class of skout or of users.
_MIXINS = ("sklearn.base", "sklearn.utils")
# Attributes that are made again at load.
_MADE = ("_tree", "_loss", "_base_loss", "f_")
_MOST_JOBS = 1024  # joblib would start a file's million threads
# Distances that are sums over features and have no arrays of their own, whose size none checks.
_DISTANCES = {
    *("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean"),
    *("hamming", "l1", "l2", "manhattan", "minkowski", "sqeuclidean"),
}
_SVM_KERNELS = ("linear", "poly", "rbf", "sigmoid")


# Classes ------------------------------------------------------------------------------------------


def class_of(name: str) -> Any:
    """Return the class that a file names, None if it may not."""
    module, _, last = name.rpartition(".")
    if name not in _PARTS:
        is_open = module in _MODULES and last in _ONLY.get(module, {last})
        if not is_open or last in _NOT or last.startswith("_"):
            return None
    if last == "IterativeImputer":  # which is there after an import
        import_module("sklearn.experimental.enable_iterative_imputer")
    return getattr(import_module(module), last, None)


@functools.cache
def _bases(kind: type) -> tuple[type, ...]:
    """Return the classes of scikit-learn that a class is or is derived from."""
    names = [(base, base.__module__) for base in kind.__mro__]
    return tuple(
        base
        for base, module in names
        if module.startswith("sklearn.") and not module.startswith(_MIXINS)
    )


def is_derived(kind: type) -> bool:
    """Whether objects are checked here: those of scikit-learn, and of classes derived from it."""
    return bool(_bases(kind)) or is_built(kind)


def is_built(kind: type) -> bool:
    """Whether objects are not just their attributes, but made by a function."""
    return name_of(kind) in _BUILT


def built(kind: type, states: list[dict[str, Any]]) -> list[Any]:
    """Return objects that are not just their attributes."""
    return _BUILT[name_of(kind)][1](states)


@functools.cache
def is_unchecked(kind: type) -> bool:
    """Whether compiled code may read the attributes of objects, and nobody checks them."""
    allowed = [base for base in _bases(kind) if class_of(name_of(base)) is base]
    # their checks are enough for the classes that they are derived from
    return not all(any(issubclass(one, base) for one in allowed) for base in _bases(kind))


def advice(item: Any) -> str:
    """Return what to do where an estimator is not saved."""
    if type(item).__name__ in _SEARCHES:
        return "Save the model that the search found: its attribute best_estimator_, after fit"
    return "Compiled code would read it unchecked: use another estimator, or fit it outside"


# Objects ------------------------------------------------------------------------------------------


def state_of(item: Any, path: str) -> dict[str, Any]:
    """Return what a file has of an estimator, or of a part of one; it must be able to load it."""
    kind = type(item)
    if is_built(kind):
        return _BUILT[name_of(kind)][0](item)
    try:
        _check(kind, [item])
    except (FileError, AttributeError) as error:
        why = str(error).removeprefix("The file has ")
        raise TypeError(
            f"{path or 'model'} is scikit-learn's {kind.__name__}, and is not saved: {why}"
        ) from error
    return {name: one for name, one in vars(item).items() if name not in _MADE}


def finished(kind: type, items: list[Any]) -> list[Any]:
    """Return estimators that have the attributes of a file, checked and fit for use."""
    for item in items:
        if not vars(item).keys().isdisjoint(_MADE):
            raise FileError(f"No file can set {_MADE} of {kind.__name__}.")
        if "memory" in vars(item):
            item.memory = None  # a file names no other file
    _check(kind, items)
    for base in kind.__mro__:
        for item in items if name_of(base) in _FINISHERS else ():
            _FINISHERS[name_of(base)](item)
    return items


def _check(kind: type, items: Sequence[Any]) -> None:
    for item in items:
        jobs = vars(item).get("n_jobs")
        if jobs is not None and not (isinstance(jobs, int) and abs(jobs) <= _MOST_JOBS):
            what = f"{kind.__name__} with n_jobs={jobs!r}, which must be None or at most"
            raise FileError(f"The file has {what} {_MOST_JOBS}.")
    for base in kind.__mro__:
        for attribute, check in _CHECKS.get(name_of(base), {}).items():
            check([item for item in items if attribute in vars(item)])


# Trees --------------------------------------------------------------------------------------------


def _depths(
    sizes: Sequence[int],
    children: tuple[np.ndarray, np.ndarray],
    inner: np.ndarray,
    feature: np.ndarray,
    n_features: Any,
) -> np.ndarray:
    """Return the depths of trees, one after the other, after a check that loops can follow them.

    `children` count within the tree of a node, `inner` marks the nodes that have them, and the
    others are leaves; `n_features` is a number, or one for each node.
    """
    require(len(sizes) == 0 or min(sizes) > 0, "a tree without nodes")
    starts = np.cumsum(sizes) - sizes
    offset, end = np.repeat(starts, sizes), np.repeat(np.cumsum(sizes), sizes)
    at = np.flatnonzero(inner)
    left, right = (offset + child.astype(np.int64) for child in children)
    below, above = np.concatenate([left[at], right[at]]), np.tile(at, 2)
    after = (below > above) & (below < end[above])
    require(np.all(after), "a tree with a child that is not among the nodes after its parent")
    once = np.bincount(below, minlength=len(inner))
    once[starts] += 1  # roots have no parent
    require(np.all(once == 1), "a tree with a node that is not the child of exactly one other")
    inside = (feature[at] >= 0) & (feature[at] < np.broadcast_to(n_features, feature.shape)[at])
    require(np.all(inside), "a tree that asks for a feature beyond those of its rows")
    depth, level, number = np.zeros(len(inner), dtype=np.int64), starts, 0
    while level.size:
        depth[level] = number
        level = level[inner[level]]
        level, number = np.concatenate([left[level], right[level]]), number + 1
    return np.maximum.reduceat(depth, starts) if len(starts) else depth


def _tree_state(tree: Any) -> dict[str, Any]:
    state = tree.__getstate__()
    n_classes = None if np.all(tree.n_classes == 1) else np.asarray(tree.n_classes)
    return {
        "n_features": int(tree.n_features),
        "n_classes": n_classes,
        "nodes": state["nodes"],
        "values": state["values"],
    }


def _trees(states: list[dict[str, Any]]) -> list[Any]:
    """Return trees, if their nodes are trees from the first one on."""
    from sklearn.tree import _tree

    wrong = [_wrong_in_tree(state, _tree.NODE_DTYPE) for state in states]
    require(not any(wrong), next(filter(None, wrong), ""))
    nodes = np.concatenate([state["nodes"] for state in states])
    sizes = [len(state["nodes"]) for state in states]
    left, right = nodes["left_child"], nodes["right_child"]
    inner = left != _tree.TREE_LEAF
    require(np.array_equal(inner, right != _tree.TREE_LEAF), "a node with only one child")
    widths = np.repeat([state["n_features"] for state in states], sizes)
    depths = _depths(sizes, (left, right), inner, nodes["feature"], widths)
    trees = []
    for state, depth in zip(states, depths.tolist(), strict=True):
        n_features, n_classes, nodes, values = state.values()
        n_outputs = values.shape[1]
        if n_classes is None:
            n_classes = np.array([1] * n_outputs, dtype=np.intp)
        tree = _tree.Tree(n_features, n_classes, n_outputs)
        arrays = {"nodes": nodes, "values": values}
        tree.__setstate__({"max_depth": depth, "node_count": len(nodes), **arrays})
        trees.append(tree)
    return trees


def _wrong_in_tree(state: dict[str, Any], dtype: np.dtype) -> str | None:
    """Return what is wrong with the arrays of a tree, if anything is."""
    if list(state) != ["n_features", "n_classes", "nodes", "values"]:
        return "a tree with other parts than a tree has"
    n_features, n_classes, nodes, values = state.values()
    if type(n_features) is not int or not 0 < n_features < 2**31:
        return "a tree without features"
    if not isinstance(nodes, np.ndarray) or nodes.ndim != 1 or nodes.dtype != dtype:
        return f"a tree whose nodes are not those of scikit-learn {sklearn.__version__}"
    fits = isinstance(values, np.ndarray) and values.dtype == np.float64 and values.ndim == 3
    if fits and n_classes is None:
        fits = values.shape[2] == 1
    elif fits:
        fits = isinstance(n_classes, np.ndarray) and n_classes.dtype == np.intp
        fits = fits and n_classes.shape == values.shape[1:2] and n_classes.min(initial=1) > 0
        fits = fits and n_classes.max(initial=0) == values.shape[2]
    if not fits or len(values) != len(nodes) or values.size == 0:
        return "a tree whose values do not fit its nodes"
    return None


def _check_tree(items: Sequence[Any]) -> None:
    for item in items:
        _check_width(item, [item.tree_])


def _check_width(item: Any, trees: list[Any]) -> None:
    """Raise unless the rows that an estimator lets pass have the features of its trees."""
    width = item.n_features_in_
    fits = [name_of(type(one)) == _TREE and one.n_features == width for one in trees]
    require(type(width) is int and all(fits), "a tree that is made for other rows than its owner")


def _check_forest(items: Sequence[Any]) -> None:
    for item in items:
        require(isinstance(item.estimators_, list), "a forest without a list of trees")
        _check_width(item, [getattr(one, "tree_", None) for one in item.estimators_])


def _check_boosting(items: Sequence[Any]) -> None:
    for item in items:
        stages, start = item.estimators_, item.init_
        is_column = isinstance(stages, np.ndarray) and stages.ndim == 2 and stages.shape[1] == 1
        require(is_column, "boosted trees that are not in one column")
        trees = [getattr(one, "tree_", None) for one in stages[:, 0]]
        _check_width(item, trees)
        fits = [one.n_outputs == 1 and one.max_n_classes == 1 for one in trees]
        require(all(fits), "a boosted tree of several outputs")
        require(item.n_trees_per_iteration_ == 1, "boosted trees that are not in one column")
        is_zero = isinstance(start, str) and start == "zero"
        is_mean = name_of(type(start)) == "sklearn.dummy.DummyRegressor" and start.n_outputs_ == 1
        require(
            is_zero or is_mean,
            "boosting that starts from another estimator: give init=None or 'zero'",
        )


def _check_histograms(items: Sequence[Any]) -> None:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    for item in items:
        parts = [one.nodes for stage in item._predictors for one in stage]
        fits = [isinstance(one, np.ndarray) and one.ndim == 1 for one in parts]
        fits += [one.dtype == PREDICTOR_RECORD_DTYPE for one in parts]
        require(parts and all(fits), "boosted trees whose nodes are not as in this scikit-learn")
        nodes, width = np.concatenate(parts), item.n_features_in_
        is_categorical = np.any(nodes["is_categorical"]) or np.any(item._bin_mapper.is_categorical_)
        require(not is_categorical, "boosted trees of categories: encode these as numbers first")
        require(type(width) is int, "boosted trees without features")
        children, inner = (nodes["left"], nodes["right"]), nodes["is_leaf"] == 0
        _depths([len(one) for one in parts], children, inner, nodes["feature_idx"], width)


# Other compiled code ------------------------------------------------------------------------------


def _check_neighbours(items: Sequence[Any]) -> None:
    for item in items:
        rows, metric, options = item._fit_X, item.metric, item.metric_params or {}
        is_matrix = getattr(rows, "ndim", 0) == 2 and rows.dtype in (np.float64, np.float32)
        fits = is_matrix and rows.shape[1] == item.n_features_in_ and len(item._y) == rows.shape[0]
        require(fits, "neighbours whose rows do not fit together")
        require(
            callable(metric) or (metric in _DISTANCES and options.keys() <= {"p"}),
            f"neighbours by the distance {metric!r} with {options}, which is not checked",
        )


def _fit_again(item: Any) -> None:
    """Grow the tree of neighbours again from the rows."""
    names = {k: v for k, v in vars(item).items() if k == "feature_names_in_"}
    if "_fit_X" in vars(item):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # which the user has seen
            item.fit(item._fit_X, item._y)
        vars(item).update(names)


def _check_svm(items: Sequence[Any]) -> None:
    for item in items:
        n, width = len(item.support_), item.n_features_in_
        shapes = {
            "support_": ("int32", (n,)),
            "_n_support": ("int32", (2,)),
            "support_vectors_": ("float64", (n, width)),
            "_dual_coef_": ("float64", (1, n)),
            "_intercept_": ("float64", (1,)),
            "_probA": ("float64", (0,)),
            "_probB": ("float64", (0,)),
        }
        for name, expected in shapes.items():
            array = getattr(item, name)
            fits = isinstance(array, np.ndarray) and (array.dtype.name, array.shape) == expected
            require(fits, "a support vector machine whose arrays do not fit together")
        is_known = item._sparse is False and item.kernel in _SVM_KERNELS
        require(is_known, f"a support vector machine that is not dense with one of {_SVM_KERNELS}")


def _check_vocabulary(items: Sequence[Any]) -> None:
    """Raise unless words have the columns 0, 1, ...: SciPy does not look whether they are there."""
    for item in items:
        words = item.vocabulary_
        numbers = list(words.values()) if isinstance(words, dict) else [None]
        are_numbers = all(isinstance(one, int | np.integer) for one in numbers)
        fits = are_numbers and sorted(map(int, numbers)) == list(range(len(numbers)))
        require(fits, "a vocabulary whose words are not numbered from 0")


# By the names of classes --------------------------------------------------------------------------

# What is checked of objects that have an attribute.
_CHECKS: dict[str, dict[str, Callable[[Sequence[Any]], None]]] = {
    "sklearn.tree.DecisionTreeClassifier": {"tree_": _check_tree},
    "sklearn.tree.DecisionTreeRegressor": {"tree_": _check_tree},
    **{
        f"sklearn.ensemble.{name}": {"estimators_": _check_forest}
        for name in (
            *("ExtraTreesClassifier", "ExtraTreesRegressor", "RandomForestClassifier"),
            *("RandomForestRegressor", "RandomTreesEmbedding"),
        )
    },
    "sklearn.ensemble.GradientBoostingRegressor": {"estimators_": _check_boosting},
    "sklearn.ensemble.HistGradientBoostingRegressor": {"_predictors": _check_histograms},
    "sklearn.ensemble.HistGradientBoostingClassifier": {"_predictors": _check_histograms},
    "sklearn.neighbors.KNeighborsRegressor": {"_fit_X": _check_neighbours},
    "sklearn.neighbors.RadiusNeighborsRegressor": {"_fit_X": _check_neighbours},
    "sklearn.svm.NuSVR": {"support_": _check_svm},
    "sklearn.svm.SVR": {"support_": _check_svm},
    "sklearn.feature_extraction.text.CountVectorizer": {"vocabulary_": _check_vocabulary},
}

# What makes of an object with the attributes of a file one that is fit for use.


def _make_loss(item: Any) -> None:
    if hasattr(item, "n_trees_per_iteration_"):
        item._loss = item._get_loss(sample_weight=None)


def _make_link(item: Any) -> None:
    if hasattr(item, "coef_"):
        item._base_loss = item._get_loss()


def _make_curve(item: Any) -> None:
    item.__setstate__({**vars(item), "_sklearn_version": sklearn.__version__})


_FINISHERS: dict[str, Callable[[Any], None]] = {
    **{
        f"sklearn.ensemble.{name}": _make_loss
        for name in (
            *("GradientBoostingRegressor", "HistGradientBoostingClassifier"),
            "HistGradientBoostingRegressor",
        )
    },
    **{
        f"sklearn.linear_model.{name}Regressor": _make_link
        for name in ("Gamma", "Poisson", "Tweedie")
    },
    "sklearn.isotonic.IsotonicRegression": _make_curve,
    "sklearn.neighbors.KNeighborsRegressor": _fit_again,
    "sklearn.neighbors.RadiusNeighborsRegressor": _fit_again,
}


# Objects that are not just their attributes: these, and what makes them of states.


def _spline_state(spline: Any) -> dict[str, Any]:
    return {name: getattr(spline, name) for name in ("t", "c", "k", "extrapolate", "axis")}


def _splines(states: list[dict[str, Any]]) -> list[Any]:
    from scipy.interpolate import BSpline  # which checks what it is made of

    return [BSpline(**state) for state in states]


_BUILT: dict[str, tuple[Callable[[Any], dict[str, Any]], Callable[[list[Any]], list[Any]]]] = {
    _TREE: (_tree_state, _trees),
    _SPLINE: (_spline_state, _splines),
    "sklearn.utils.Bunch": (dict, lambda states: [Bunch(**state) for state in states]),
}
