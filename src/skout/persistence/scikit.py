"""Estimators of scikit-learn in files: their attributes, as those of any other object.

Compiled code reads some of these without bounds checks: the nodes of a tree must form a tree, and
arrays must have the shapes that loops assume. This is checked before they are used; estimators that
are not checked here are not saved. What can be computed from the rest is not stored.
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
from .._numerics.typing import Estimator, State
from .files import FileError, Value

# Modules of scikit-learn whose public classes may be in a file, except those in `_REFUSED`. Of
# other modules, only classes with a rule or in `_PARTS` may.
_MODULES = {
    *("calibration", "compose", "covariance", "cross_decomposition", "decomposition", "dummy"),
    *("discriminant_analysis", "ensemble", "feature_extraction", "feature_extraction.text"),
    *("feature_selection", "gaussian_process", "gaussian_process.kernels", "impute", "isotonic"),
    *("kernel_approximation", "kernel_ridge", "linear_model", "mixture", "model_selection"),
    *("multiclass", "multioutput", "naive_bayes", "neural_network", "pipeline", "preprocessing"),
    *("random_projection", "tree"),
}
_SEARCHES = ("GridSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV", "RandomizedSearchCV")
_REFUSED = (*_SEARCHES, "GradientBoostingClassifier", "IsolationForest")
_TREE = "sklearn.tree._tree.Tree"
# Estimators of other modules, and parts of estimators.
_PARTS = {
    _TREE,
    "sklearn.svm.LinearSVC",
    "sklearn.svm.LinearSVR",
    "scipy.interpolate.BSpline",
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.impute._iterative._ImputerTriplet",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.utils.Bunch",
}
_MOST_JOBS = 1024  # joblib would start as many threads as a file says
# Distances that have no arrays among their parameters: nothing would check the size of such.
_DISTANCES = {
    *("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean"),
    *("hamming", "l1", "l2", "manhattan", "minkowski", "sqeuclidean"),
}
_SVM_KERNELS = ("linear", "poly", "rbf", "sigmoid")


def class_of(name: str) -> Value:
    """Return the class of a name, None if files may not name it."""
    module, _, last = name.rpartition(".")
    is_open = module[:8] == "sklearn." and module[8:] in _MODULES and last[:1] != "_"
    if name not in _RULES and name not in _PARTS and (not is_open or last in _REFUSED):
        return None
    if last == "IterativeImputer":  # scikit-learn has it after this import only
        import_module("sklearn.experimental.enable_iterative_imputer")
    return getattr(import_module(module), last, None)


@functools.cache
def _bases(kind: type) -> tuple[type, ...]:
    """Return the classes of scikit-learn that a class is or is derived from, without mixins."""
    bases = [base for base in kind.__mro__ if base.__module__.startswith("sklearn.")]
    mixins = ("sklearn.base", "sklearn.utils")
    return tuple(base for base in bases if not base.__module__.startswith(mixins))


def is_derived(kind: type) -> bool:
    """Whether a class is of scikit-learn or derived from it: its objects are checked here."""
    return bool(_bases(kind)) or kind is Bunch


@functools.cache
def is_unchecked(kind: type) -> bool:
    """Whether compiled code may read attributes of objects that no check covers."""
    allowed = [base for base in _bases(kind) if class_of(name_of(base)) is base]
    # the checks of an allowed class cover the classes that it is derived from
    return not all(any(issubclass(a, base) for a in allowed) for base in _bases(kind))


def advice(item: Estimator) -> str:
    """Return, for an error, what to do instead of saving an estimator."""
    if type(item).__name__ in _SEARCHES:
        return "Save the model that the search found: its attribute best_estimator_, after fit"
    return "Compiled code would read it unchecked: use another estimator, or fit it outside"


# Objects ------------------------------------------------------------------------------------------


def state_of(item: Estimator, path: str) -> State:
    """Return the attributes of an estimator that are saved, or raise if `load` would refuse it."""
    kind = type(item)
    try:
        _check(kind, [item])
    except (FileError, AttributeError) as error:
        why = str(error).removeprefix("The file has ")
        raise TypeError(
            f"{path or 'model'} is scikit-learn's {kind.__name__}, and is not saved: {why}"
        ) from error
    return {name: value for name, value in vars(item).items() if name not in _MADE}


def finished(kind: type, items: list[Value]) -> list[Value]:
    """Return estimators that have the attributes of a file, checked and completed."""
    _check(kind, items)
    for item in items:
        if not _MADE.isdisjoint(vars(item)):
            raise FileError(f"The file has {_MADE & vars(item).keys()}, which no file can set.")
        if "memory" in vars(item):
            item.memory = None  # a file names no other file
    for attribute, _, finish in _rules(kind):
        for item in [i for i in items if finish and attribute in vars(i)]:
            finish(item)
    return items


def _check(kind: type, items: list[Value]) -> None:
    """Raise where compiled code would read outside of arrays."""
    for item in items:
        jobs = vars(item).get("n_jobs")
        if not (jobs is None or (isinstance(jobs, int) and abs(jobs) <= _MOST_JOBS)):
            most = f"which must be None or at most {_MOST_JOBS}"
            raise FileError(f"The file has {kind.__name__} with n_jobs={jobs!r}, {most}.")
    for attribute, check, _ in _rules(kind):
        for item in [i for i in items if check and attribute in vars(i)]:
            check(item)


@functools.cache
def _rules(kind: type) -> list[tuple[str, Any, Any]]:
    """Return the rules of `_RULES` that apply to a class."""
    return [_RULES[name_of(base)] for base in _bases(kind) if name_of(base) in _RULES]


# Trees --------------------------------------------------------------------------------------------


def _depths(
    trees: Sequence[np.ndarray],
    names: Sequence[str],
    inner: Callable[[np.ndarray], np.ndarray],
    n_features: Sequence[int],
) -> list[int]:
    """Return the depths of trees, or raise unless their nodes form trees.

    `names` are the fields of the children, numbered within a tree, and of the feature; `inner`
    returns which nodes have children.
    """
    sizes = [len(nodes) for nodes in trees]
    require(sizes and min(sizes) > 0, "a tree without nodes")
    ends: np.ndarray = np.cumsum(sizes)
    starts, nodes = ends - np.array(sizes), np.concatenate(trees)
    left, right = (np.repeat(starts, sizes) + nodes[name].astype(np.int64) for name in names[:2])
    has_children, feature = inner(nodes), nodes[names[2]]
    at = np.flatnonzero(has_children)
    below, above = np.concatenate([left[at], right[at]]), np.tile(at, 2)
    after = (below > above) & (below < np.repeat(ends, sizes)[above])
    require(np.all(after), "a tree with a child that is not among the nodes after its parent")
    once = np.bincount(below, minlength=len(nodes))
    once[starts] += 1  # roots have no parent
    require(np.all(once == 1), "a tree with a node that is not the child of exactly one other")
    inside = (feature[at] >= 0) & (feature[at] < np.repeat(n_features, sizes)[at])
    require(np.all(inside), "a tree that asks for a feature beyond those of its rows")
    depth, level, number = np.zeros(len(nodes), dtype=np.int64), starts, 0
    while level.size:
        depth[level] = number
        level = level[has_children[level]]
        level, number = np.concatenate([left[level], right[level]]), number + 1
    return list(np.maximum.reduceat(depth, starts).tolist())


def _tree_state(tree: Any) -> State:
    """Return the state of a `Tree`: its nodes, values and numbers of features and classes."""
    _, (n_features, n_classes, _), state = tree.__reduce__()
    classes = None if np.all(n_classes == 1) else n_classes
    arrays = {name: state[name] for name in ("nodes", "values")}
    return {"n_features": n_features, "n_classes": classes, **arrays}


def _trees(states: list[State]) -> list[Value]:
    """Return trees of states, or raise unless nodes form trees; `__setstate__` checks dtypes."""
    from sklearn.tree import _tree

    widths = [state["n_features"] for state in states]
    depths = _depths([state["nodes"] for state in states], _CHILDREN, _has_children, widths)
    trees = []
    for state, width, depth in zip(states, widths, depths, strict=True):
        n_classes = state["n_classes"]
        if n_classes is None:
            n_classes = np.array([1] * state["values"].shape[1], dtype=np.intp)
        tree = _tree.Tree(width, n_classes, len(n_classes))
        # which raises unless nodes and values are of the right shapes and dtypes
        tree.__setstate__({**state, "max_depth": depth, "node_count": len(state["nodes"])})
        trees.append(tree)
    return trees


_CHILDREN = ("left_child", "right_child", "feature")


def _has_children(nodes: np.ndarray) -> np.ndarray:
    inner: np.ndarray = nodes["left_child"] != -1
    require(np.array_equal(inner, nodes["right_child"] != -1), "a node with only one child")
    return inner


def _check_trees(item: Estimator) -> None:
    """Raise unless the trees of an estimator take rows of its number of features."""
    owners, width = [item] if "tree_" in vars(item) else item.estimators_, item.n_features_in_
    for owner in owners.ravel() if isinstance(owners, np.ndarray) else owners:
        is_tree = f"{type(owner.tree_).__module__}.{type(owner.tree_).__name__}" == _TREE
        if not is_tree or type(width) is not int or owner.tree_.n_features != width:
            raise FileError("The file has a tree that is made for other rows than its owner.")


def _check_boosting(item: Estimator) -> None:
    _check_trees(item)
    stages, start = item.estimators_, item.init_
    kind: type = type(start)
    is_column = isinstance(stages, np.ndarray) and stages.ndim == 2 and stages.shape[1] == 1
    is_column = is_column and item.n_trees_per_iteration_ == 1
    require(is_column, "boosted trees that are not in one column")
    fits = [stage.tree_.n_outputs == stage.tree_.max_n_classes == 1 for stage in stages[:, 0]]
    require(all(fits), "a boosted tree of several outputs")
    is_mean = name_of(kind) == "sklearn.dummy.DummyRegressor" and start.n_outputs_ == 1
    is_known = is_mean or (isinstance(start, str) and start == "zero")
    require(is_known, "boosting that starts from another estimator: give init=None or 'zero'")


def _check_histograms(item: Estimator) -> None:
    trees = [tree.nodes for stage in item._predictors for tree in stage]
    is_categorical = np.any([np.any(nodes["is_categorical"]) for nodes in trees])
    is_categorical |= np.any(item._bin_mapper.is_categorical_)
    require(not is_categorical, "boosted trees of categories: encode these as numbers first")
    names, width = ("left", "right", "feature_idx"), item.n_features_in_
    _depths(trees, names, lambda nodes: nodes["is_leaf"] == 0, [width] * len(trees))


# Other compiled code ------------------------------------------------------------------------------


def _check_neighbors(item: Estimator) -> None:
    rows, metric, options = item._fit_X, item.metric, item.metric_params or {}
    is_matrix = getattr(rows, "ndim", 0) == 2 and rows.dtype in (np.float64, np.float32)
    fits = is_matrix and rows.shape[1] == item.n_features_in_ and len(item._y) == rows.shape[0]
    require(fits, "neighbors whose rows do not fit together")
    require(
        callable(metric) or (metric in _DISTANCES and options.keys() <= {"p"}),
        f"neighbors by the distance {metric!r} with {options}, which is not checked",
    )


def _fit_again(item: Estimator) -> None:
    """Build the search tree of neighbors again, from its rows."""
    names = {name: value for name, value in vars(item).items() if name == "feature_names_in_"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which the user has seen
        item.fit(item._fit_X, item._y)
    item.__dict__.update(names)


def _check_svm(item: Estimator) -> None:
    n, width = len(item.support_), item.n_features_in_
    shapes = {"support_": (n,), "_n_support": (2,), "support_vectors_": (n, width)}
    shapes |= {"_dual_coef_": (1, n), "_intercept_": (1,), "_probA": (0,), "_probB": (0,)}
    fits = [getattr(item, name).shape == shape for name, shape in shapes.items()]
    require(all(fits), "a support vector machine whose arrays do not fit together")
    is_known = item._sparse is False and item.kernel in _SVM_KERNELS
    require(is_known, f"a support vector machine that is not dense with one of {_SVM_KERNELS}")


def _check_vocabulary(item: Estimator) -> None:
    """Raise unless words have the columns 0, 1, ...: SciPy does not check column numbers."""
    words = item.vocabulary_
    numbers: list[Any] = list(words.values()) if isinstance(words, dict) else [None]
    are_numbers = all(isinstance(number, int | np.integer) for number in numbers)
    fits = are_numbers and sorted(numbers) == list(range(len(numbers)))
    require(fits, "a vocabulary whose words are not numbered from 0")


def _check_one_hot(item: Estimator) -> None:
    """Raise unless all categories have columns: SciPy does not check column numbers."""
    widths, drops = item._n_features_outs, item._drop_idx_after_grouping
    grouped = item._default_to_infrequent_mappings if item._infrequent_enabled else None
    for i, categories in enumerate(item.categories_):
        group = None if grouped is None else grouped[i]
        most = len(categories) if group is None else int(max(group)) + 1
        drop = None if drops is None else drops[i]
        is_dropped = isinstance(drop, int | np.integer) and 0 <= drop < most
        require(widths[i] >= most - is_dropped, "categories that have no columns")


def _make_loss(item: Estimator) -> None:
    vars(item)["_loss"] = item._get_loss(sample_weight=None)


def _make_link(item: Estimator) -> None:
    vars(item)["_base_loss"] = item._get_loss()


def _make_curve(item: Estimator) -> None:
    item.__setstate__({**vars(item), "_sklearn_version": sklearn.__version__})


# Attributes that are computed again at load.
_MADE = frozenset(("_tree", "_loss", "_base_loss", "_loss_function_", "f_"))
_TREES = ("tree_", _check_trees, None)
_FOREST = ("estimators_", _check_trees, None)
_HISTOGRAMS = ("_predictors", _check_histograms, _make_loss)
_NEIGHBORS = ("_fit_X", _check_neighbors, _fit_again)
_WORDS = ("vocabulary_", _check_vocabulary, None)
_LINK = ("coef_", None, _make_link)
# For a class: the attribute that fitted objects have, how they are checked, and how what is not
# stored is computed.
_RULES: dict[str, tuple[str, Callable[[Any], None] | None, Callable[[Any], None] | None]] = {
    "sklearn.ensemble.ExtraTreesClassifier": _FOREST,
    "sklearn.ensemble.ExtraTreesRegressor": _FOREST,
    "sklearn.ensemble.GradientBoostingRegressor": ("estimators_", _check_boosting, _make_loss),
    "sklearn.ensemble.HistGradientBoostingClassifier": _HISTOGRAMS,
    "sklearn.ensemble.HistGradientBoostingRegressor": _HISTOGRAMS,
    "sklearn.ensemble.RandomForestClassifier": _FOREST,
    "sklearn.ensemble.RandomForestRegressor": _FOREST,
    "sklearn.ensemble.RandomTreesEmbedding": _FOREST,
    "sklearn.feature_extraction.DictVectorizer": _WORDS,
    "sklearn.feature_extraction.text.CountVectorizer": _WORDS,
    "sklearn.isotonic.IsotonicRegression": ("X_thresholds_", None, _make_curve),
    "sklearn.linear_model.GammaRegressor": _LINK,
    "sklearn.linear_model.PoissonRegressor": _LINK,
    "sklearn.linear_model.TweedieRegressor": _LINK,
    "sklearn.neighbors.KNeighborsRegressor": _NEIGHBORS,
    "sklearn.neighbors.RadiusNeighborsRegressor": _NEIGHBORS,
    "sklearn.preprocessing.OneHotEncoder": ("categories_", _check_one_hot, None),
    "sklearn.svm.NuSVR": ("support_", _check_svm, None),
    "sklearn.svm.SVR": ("support_", _check_svm, None),
    "sklearn.tree.DecisionTreeClassifier": _TREES,
    "sklearn.tree.DecisionTreeRegressor": _TREES,
}


# Objects that are not just their attributes -------------------------------------------------------


def _spline_state(spline: Estimator) -> State:
    return {name: getattr(spline, name) for name in ("t", "c", "k", "extrapolate", "axis")}


def _splines(states: list[State]) -> list[Value]:
    from scipy.interpolate import BSpline  # which checks what it is made of

    return [BSpline(**state) for state in states]


Makers = tuple[Callable[[Any], dict[str, Any]], Callable[[list[dict[str, Any]]], list[Any]]]
_MAKERS: dict[str, Makers] = {
    _TREE: (_tree_state, _trees),
    "scipy.interpolate.BSpline": (_spline_state, _splines),
    "sklearn.utils.Bunch": (dict, lambda states: [Bunch(**state) for state in states]),
}


def makers(kind: type) -> Makers | None:
    """Return the functions from an object to its state and from states to objects, else None."""
    return _MAKERS.get(name_of(kind))
