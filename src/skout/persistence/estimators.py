"""Estimators of scikit-learn that skops leaves out, or that compiled code reads without looking.

A file has their attributes, and each is checked before it is used: the nodes of a tree must make
up a tree, and arrays must have the shapes that loops take for granted. Trees of neighbours are not
stored but grown again from the rows. Estimators that are all Python need no check.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .classes import name_of, new_parameters
from .files import FileError

__all__ = ["READERS", "UNCHECKED", "node", "restored"]

_INTEGERS = ("left_child", "right_child", "feature")
_LEAF = -1
# Distances that are sums over features and have no arrays of their own, whose size none checks.
_DISTANCES = {
    *("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean"),
    *("hamming", "l1", "l2", "manhattan", "minkowski", "sqeuclidean"),
}
_MOST_JOBS = 1024  # joblib would start a file's million threads
_SELECTORS = (
    *("GenericUnivariateSelect", "RFE", "RFECV", "SelectFdr", "SelectFpr", "SelectFromModel"),
    *("SelectFwe", "SelectKBest", "SelectPercentile", "SequentialFeatureSelector"),
)
_SVM_KERNELS = ("linear", "poly", "rbf", "sigmoid")
#: What may not come in an archive of skops, which does not check it: compiled code, read blindly.
UNCHECKED = (
    *(f"sklearn.svm._classes.{name}" for name in ("NuSVC", "NuSVR", "OneClassSVM", "SVC", "SVR")),
    *(f"sklearn.ensemble.{name}." for name in ("_forest", "_gb", "_hist_gradient_boosting")),
    *(f"sklearn.{name}." for name in ("cluster", "manifold", "neighbors", "tree")),
)


@functools.cache
def _finishers() -> dict[str, tuple[type, Callable[[Any], None]]]:
    """Return the classes that a file may name, and what makes their objects fit for use."""
    from sklearn import (
        compose,
        dummy,
        ensemble,
        feature_selection,
        gaussian_process,
        model_selection,
        multioutput,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )
    from sklearn.feature_extraction import text
    from sklearn.gaussian_process import kernels
    from sklearn.impute import MissingIndicator, SimpleImputer
    from sklearn.impute._iterative import IterativeImputer  # public after an import of experimental
    from sklearn.neural_network import _stochastic_optimizers as optimizers

    plain: list[type] = [
        *(compose.TransformedTargetRegressor, pipeline.Pipeline, neural_network.MLPRegressor),
        *(compose.ColumnTransformer, compose.make_column_selector, pipeline.FeatureUnion),
        *(SimpleImputer, IterativeImputer, MissingIndicator, text.HashingVectorizer),
        *(preprocessing.FunctionTransformer, preprocessing.SplineTransformer),
        *(getattr(feature_selection, name) for name in _SELECTORS),
        *(multioutput.MultiOutputRegressor, multioutput.RegressorChain),
        *(ensemble.AdaBoostRegressor, ensemble.BaggingRegressor, dummy.DummyRegressor),
        *(optimizers.AdamOptimizer, optimizers.SGDOptimizer),
        *(model_selection.KFold, model_selection.ShuffleSplit),
        gaussian_process.GaussianProcessRegressor,
        *(kernels.ConstantKernel, kernels.WhiteKernel, kernels.RBF, kernels.Matern),
        *(kernels.RationalQuadratic, kernels.ExpSineSquared, kernels.DotProduct),
        *(kernels.Sum, kernels.Product, kernels.Exponentiation),
    ]
    found: dict[type, Callable[[Any], None]] = {
        **dict.fromkeys(plain, lambda item: None),
        tree.DecisionTreeRegressor: _check_tree_regressor,
        tree.ExtraTreeRegressor: _check_tree_regressor,
        ensemble.RandomForestRegressor: _check_forest,
        ensemble.ExtraTreesRegressor: _check_forest,
        ensemble.GradientBoostingRegressor: _finish_boosting,
        ensemble.HistGradientBoostingRegressor: _check_not_fitted,
        neighbors.KNeighborsRegressor: _grow_neighbours,
        neighbors.RadiusNeighborsRegressor: _grow_neighbours,
        svm.SVR: _check_svm,
        svm.NuSVR: _check_svm,
        preprocessing.KBinsDiscretizer: _finish_bins,
        text.CountVectorizer: _check_vocabulary,
        text.TfidfVectorizer: _check_vocabulary,
    }
    return {name_of(kind): (kind, finish) for kind, finish in found.items()}


# Made at load from the other attributes, so not taken from a file.
_MADE = {"_tree", "_loss"}
# What is stored of an attribute instead of it.
_STORED: dict[str, Callable[[Any], Any]] = {"_encoder": lambda encoder: encoder.dtype}


def node(writer: Any, item: Any, path: str) -> dict[str, Any] | None:
    """Return the node of an estimator of the list here or a part of one, else None."""
    name = name_of(type(item))
    if name in _PARTS:
        return _PARTS[name](writer, item, path)
    kind, finish = _finishers().get(name, (None, None))
    if kind is not type(item) or finish is None:
        return None
    state = {
        key: _STORED[key](value) if key in _STORED else value
        for key, value in vars(item).items()
        if key not in _MADE
    }
    try:
        _made_again(kind, state, finish)  # else it could not be loaded
    except (FileError, AttributeError) as error:
        why = str(error).removeprefix("The file has ")
        raise TypeError(
            f"{path or 'model'} is scikit-learn's {kind.__name__}, and is not saved: {why}"
        ) from error
    return writer.object(name, state, path)


def restored(name: str, state: dict[str, Any]) -> Any:
    """Return the estimator of a class with these attributes, None for a class that is not here."""
    if not name.startswith("sklearn.") or name not in _finishers():
        return None
    kind, finish = _finishers()[name]
    for attribute in state:
        is_set = hasattr(kind, attribute) or attribute.startswith("__") or attribute in _MADE
        if is_set:
            raise FileError(f"{attribute!r} is no attribute of {name} that a file can set.")
    return _made_again(kind, new_parameters(kind) | state, finish)


def _made_again(kind: type, state: dict[str, Any], finish: Callable[[Any], None]) -> Any:
    jobs = state.get("n_jobs")
    _require(
        jobs is None or (isinstance(jobs, int) and abs(jobs) <= _MOST_JOBS),
        f"{kind.__name__} with n_jobs={jobs!r}, which must be None or at most {_MOST_JOBS}",
    )
    item: Any = object.__new__(kind)
    vars(item).update(state)
    finish(item)
    return item


def _require(fits: Any, what: str) -> None:
    if not fits:
        raise FileError(f"The file has {what}.")


# Trees --------------------------------------------------------------------------------------------


def _tree_node(writer: Any, item: Any, path: str) -> dict[str, Any]:
    state = item.__getstate__()
    nodes = state["nodes"]
    fields = {name: np.ascontiguousarray(nodes[name]) for name in nodes.dtype.names}
    return {
        "kind": "tree",
        "n_features": int(item.n_features),
        "nodes": writer.value(fields, path),
        "values": writer.value(state["values"], path),
    }


def _read_tree(reader: Any, spec: dict[str, Any]) -> Any:
    """Return the Tree of a regressor, if its nodes are a tree from the first one on."""
    from sklearn.tree import _tree

    n_features, values = spec["n_features"], reader.value(spec["values"])
    nodes = _nodes(reader.value(spec["nodes"]), _tree.NODE_DTYPE)
    _require(type(n_features) is int and 0 < n_features < 2**31, "a tree without features")
    _require(
        isinstance(values, np.ndarray)
        and values.dtype == np.float64
        and values.ndim == 3
        and (len(values), values.shape[2]) == (len(nodes), 1)
        and values.shape[1] > 0,
        "a tree whose values do not fit its nodes",
    )
    reader.charge(nodes.nbytes + values.nbytes)
    depth = _depth(nodes, n_features)
    n_outputs = values.shape[1]
    tree = _tree.Tree(n_features, np.ones(n_outputs, dtype=np.intp), n_outputs)
    state = {"max_depth": depth, "node_count": len(nodes), "nodes": nodes}
    tree.__setstate__(state | {"values": np.ascontiguousarray(values)})
    return tree


def _nodes(fields: Any, dtype: np.dtype) -> np.ndarray:
    """Return the nodes of a tree in the layout of this version of scikit-learn."""
    names = dtype.names or ()
    _require(
        isinstance(fields, dict) and fields.keys() == set(names),
        f"a tree whose nodes do not have the fields {sorted(names)} of this scikit-learn",
    )
    nodes = np.zeros(len(fields[names[0]]), dtype=dtype)
    for name in names:
        array = fields[name]
        _require(
            isinstance(array, np.ndarray)
            and array.dtype == dtype[name]
            and array.shape == nodes.shape
            and array.size > 0,
            f"a tree whose {name!r} is not one value of the dtype {dtype[name]} for each node",
        )
        nodes[name] = array
    return nodes


def _depth(nodes: np.ndarray, n_features: int) -> int:
    """Return the depth of a tree, after a check that it is one: loops follow it without looking."""
    left, right, feature = (nodes[name] for name in _INTEGERS)
    inner = np.flatnonzero(left != _LEAF)
    _require(np.array_equal(inner, np.flatnonzero(right != _LEAF)), "a node with only one child")
    children = np.concatenate([left[inner], right[inner]])
    after = (children > np.tile(inner, 2)) & (children < len(nodes))
    _require(np.all(after), "a tree with a child that is not among the nodes after its parent")
    once = np.bincount(children, minlength=len(nodes))[1:] == 1
    _require(np.all(once), "a tree with a node that is not the child of exactly one other")
    inside = (feature[inner] >= 0) & (feature[inner] < n_features)
    _require(np.all(inside), f"a tree that asks for a feature beyond its {n_features}")
    depth, level = 0, np.zeros(1, dtype=np.intp)
    while True:
        level = level[left[level] != _LEAF]
        if level.size == 0:
            return depth
        level, depth = np.concatenate([left[level], right[level]]), depth + 1


def _check_tree_regressor(item: Any) -> None:
    if "tree_" in vars(item):
        _check_width(item, [item.tree_])


def _check_forest(item: Any) -> None:
    if "estimators_" in vars(item):
        _require(isinstance(item.estimators_, list), "a forest without a list of trees")
        _check_width(item, _trees(item.estimators_))


def _trees(members: Iterable[Any]) -> list[Any]:
    """Return the trees of fitted tree regressors."""
    own = [_finishers().get(name_of(type(one)), (None, None))[1] for one in members]
    _require(all(f is _check_tree_regressor for f in own), "a forest of what is no tree")
    return [one.tree_ for one in members]


def _check_width(item: Any, trees: list[Any]) -> None:
    """Raise unless the rows that an estimator lets pass have the features of its trees."""
    width = item.n_features_in_
    fits = type(width) is int and all(
        name_of(type(one)) == "sklearn.tree._tree.Tree" and one.n_features == width for one in trees
    )
    _require(fits, "a tree that is made for other rows than its estimator")


def _check_not_fitted(item: Any) -> None:
    """Raise where an estimator has more than its parameters, which compiled code would read."""
    fitted = sorted(vars(item).keys() - item.get_params(deep=False).keys())
    _require(not fitted, f"{type(item).__name__} that is fitted ({', '.join(fitted[:3])})")


def _finish_boosting(item: Any) -> None:
    if "estimators_" not in vars(item):
        return
    from sklearn.dummy import DummyRegressor

    stages = item.estimators_
    is_column = isinstance(stages, np.ndarray) and stages.ndim == 2 and stages.shape[1] == 1
    _require(is_column, "boosted trees that are not in one column")
    trees = _trees(stages[:, 0])
    _check_width(item, trees)
    _require(all(one.n_outputs == 1 for one in trees), "a boosted tree of several outputs")
    start = item.init_
    known = type(start) is DummyRegressor or (isinstance(start, str) and start == "zero")
    _require(known, "boosting that starts from another estimator: give init=None or 'zero'")
    item._loss = item._get_loss(sample_weight=None)


# Other compiled code ------------------------------------------------------------------------------


def _grow_neighbours(item: Any) -> None:
    if "_fit_X" not in vars(item):
        return
    from sklearn.neighbors import BallTree, KDTree

    rows, method = item._fit_X, item._fit_method
    _require(
        getattr(rows, "ndim", 0) == 2
        and type(item.n_features_in_) is int
        and rows.shape == (item.n_samples_fit_, item.n_features_in_)
        and rows.dtype in (np.float64, np.float32)
        and len(item._y) == rows.shape[0],
        "neighbours whose rows do not fit together",
    )
    metric, options = item.effective_metric_, item.effective_metric_params_
    if not callable(metric):
        known = metric in _DISTANCES and options.keys() <= {"p"}
        _require(
            known, f"neighbours by the distance {metric!r} with {options}, which is not checked"
        )
    item._tree = None
    if method != "brute":
        grow = {"kd_tree": KDTree, "ball_tree": BallTree}[method]
        item._tree = grow(rows, item.leaf_size, metric=metric, **options)


def _check_svm(item: Any) -> None:
    if "support_" not in vars(item):
        return
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
    arrays = {name: getattr(item, name) for name in shapes}
    fits = all(
        isinstance(one, np.ndarray) and (one.dtype.name, one.shape) == shapes[name]
        for name, one in arrays.items()
    )
    _require(fits, "a support vector machine whose arrays do not fit together")
    known = item._sparse is False and item.kernel in _SVM_KERNELS
    _require(known, f"a support vector machine that is not dense with one of {_SVM_KERNELS}")


# Parts of preprocessors ---------------------------------------------------------------------------


def _check_vocabulary(item: Any) -> None:
    """Raise unless words have the columns 0, 1, ...: SciPy does not look whether they are there."""
    if "vocabulary_" not in vars(item):
        return
    words = item.vocabulary_
    numbers = list(words.values()) if isinstance(words, dict) else [None]
    fits = all(isinstance(one, int | np.integer) for one in numbers)
    _require(
        fits and np.array_equal(np.sort(np.array(numbers, dtype=int)), np.arange(len(numbers))),
        "a vocabulary whose words are not numbered from 0",
    )


def _finish_bins(item: Any) -> None:
    """Make the encoder of bins as `fit` does; the file has its dtype only."""
    if "_encoder" not in vars(item):
        return
    from sklearn.preprocessing import OneHotEncoder

    edges = item.bin_edges_
    _require(
        isinstance(edges, np.ndarray) and all(isinstance(one, np.ndarray) for one in edges),
        "bins whose edges are no arrays",
    )
    sizes = [len(one) - 1 for one in edges]
    fits = isinstance(item._encoder, type | np.dtype) and np.array_equal(item.n_bins_, sizes)
    _require(fits, "bins that are not as many as their edges say")
    item._encoder = OneHotEncoder(
        categories=[np.arange(size) for size in sizes],
        sparse_output=item.encode == "onehot",
        dtype=item._encoder,
    ).fit(np.zeros((1, len(sizes))))


def _spline_node(writer: Any, item: Any, path: str) -> dict[str, Any]:
    fields = {name: getattr(item, name) for name in ("t", "c", "k", "extrapolate", "axis")}
    return {"kind": "spline", "fields": writer.value(fields, path)}


def _read_spline(reader: Any, spec: dict[str, Any]) -> Any:
    """Return a BSpline, which checks what it is made of."""
    from scipy.interpolate import BSpline

    return BSpline(**reader.value(spec["fields"]))


def _triplet_node(writer: Any, item: Any, path: str) -> dict[str, Any]:
    return {"kind": "imputer", "items": [writer.value(one, path) for one in item]}


def _read_triplet(reader: Any, spec: dict[str, Any]) -> Any:
    """Return what an IterativeImputer has for a column: its number, those used, an estimator."""
    from sklearn.impute._iterative import _ImputerTriplet

    return _ImputerTriplet(*reader.values(spec["items"]))


# Of the classes of parts, by their names.
_PARTS: dict[str, Callable[[Any, Any, str], dict[str, Any]]] = {
    "sklearn.tree._tree.Tree": _tree_node,
    "scipy.interpolate._bsplines.BSpline": _spline_node,
    "sklearn.impute._iterative._ImputerTriplet": _triplet_node,
    # the columns that are left, of scikit-learn 1.6, with a warning for those who look at them
    "sklearn.compose._column_transformer._RemainderColsList": lambda writer, item, path: (
        writer.node(list(item.data), path)
    ),
}

READERS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "tree": _read_tree,
    "spline": _read_spline,
    "imputer": _read_triplet,
}
