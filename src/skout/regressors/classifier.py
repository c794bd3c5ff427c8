"""Kernel classification: support vectors and logistic regression."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import overload

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._numerics.estimators import all_at_once, frames_out
from .._numerics.typing import Array, Inputs, Ints, Objects, RandomState, Weights
from ..basis.moments import TrainingSample
from ..kernels.base import KernelLike
from ..losses import Logistic, LossLike, MarginLoss, as_loss
from ..rows import Blocks, Memory, beside
from ..rows.encode import named
from ..sketches import SketchLike
from ..solvers.folds import CV, Alphas
from .base import KernelMachineBase, first_column


def _is_logistic(model: KernelClassifier) -> bool:
    if isinstance(as_loss(model.loss), Logistic):
        return True
    raise AttributeError(
        f'predict_proba needs loss="logistic". Got {model.loss!r}, which has no probabilities.'
    )


@frames_out
class KernelClassifier(ClassifierMixin, KernelMachineBase):
    """Kernel classification with a hinge, squared hinge or logistic loss.

    Minimizes mean_i loss(y_i f(x_i)) + alpha/2 ||f||^2, y = -1 or 1. Several classes are learned
    together, each against the rest.

    Parameters
    ----------
    kernel : kernel, str or callable, default "gaussian"
    sketch : sketch, str or None, default None
    alpha : float or sequence of floats, default 1e-3
        Penalty, above 0: 1/(n C) in the notation of support vector machines. Of a sequence, the
        value with the least cross-validated loss is taken.
    loss : Loss or str, default "hinge"
        "hinge", "squared_hinge" or "logistic".
    class_weight : None, "balanced" or dict, default None
        Weights of the classes; "balanced" gives each class the same total.
    cv : int, splitter or iterable of splits, default 5
        As in `KernelRidge`.
    fit_intercept : bool, default True
        Add an unpenalized constant to each decision function.
    tol, max_iter, random_state, n_jobs, verbose, device
        As in `KernelMachine`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    kernel_, basis_, coef_, intercept_, alpha_, objective_, duality_gap_, n_iter_, cv_results_
        As in `KernelMachine`.

    Notes
    -----
    Time grows linearly with rows and with classes: a Newton step takes n p^2 operations for each
    class, p the rank of the sketch, and there are about ten steps.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skout import KernelClassifier
    >>> from skout.sketches import PSparsified
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelClassifier("gaussian", PSparsified(100), alpha=1e-5, random_state=0)
    >>> bool(model.fit(X[:1000] / 16, y[:1000]).score(X[1000:] / 16, y[1000:]) > 0.9)
    True
    """

    classes_: Array

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        sketch: SketchLike = None,
        *,
        alpha: Alphas = 1e-3,
        loss: LossLike = "hinge",
        class_weight: Mapping[Hashable, float] | str | None = None,
        cv: CV = 5,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 200,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        device: str | None = None,
    ) -> None:
        self.loss = loss
        self.class_weight = class_weight
        self.kernel = kernel
        self.sketch = sketch
        self.alpha = alpha
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.device = device

    @overload
    def fit(self, X: Blocks, y: None = None) -> KernelClassifier: ...
    @overload
    def fit(self, X: Objects, y: Objects, sample_weight: Weights = None) -> KernelClassifier: ...

    @all_at_once
    def fit(
        self, X: Inputs, y: Objects | None = None, sample_weight: Weights = None
    ) -> KernelClassifier:
        """Fit the model.

        Parameters
        ----------
        X : array, CSR matrix or objects that the kernel encodes, n of them
        y : array of shape (n,)
            Labels.
        sample_weight : array of shape (n,), optional
        """
        loss = as_loss(self.loss)
        if not isinstance(loss, MarginLoss):
            raise ValueError(
                f'loss must be "hinge", "squared_hinge" or "logistic". Got {self.loss!r} instead; '
                "for regression use KernelMachine."
            )
        rows, y, weights = self._read(X, y, sample_weight)
        codes = self._codes(None if y is None else beside(y).load(), len(rows))
        if self.class_weight is not None:
            weights = self._class_weights(codes, weights)
        if weights is not None and len(np.unique(codes[weights > 0.0])) < 2:
            raise ValueError("Without the rows of weight 0, y has one class only.")
        if len(self.classes_) == 2:
            signs = np.where(codes == 1, 1.0, -1.0)[:, None]
        else:
            signs = np.where(codes[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)
        sample = TrainingSample(rows, Memory(signs, "y"), weights)
        self._take(self._learn(sample, loss, labels=self.classes_[codes]))
        return self

    def _class_weights(self, codes: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Multiply the weights of the rows by those of their classes."""
        weights = np.ones(len(codes)) if weights is None else weights
        if self.class_weight == "balanced":
            totals = np.bincount(codes, weights)
            totals[totals == 0.0] = np.inf
            return np.asarray(weights * (weights.sum() / len(totals) / totals)[codes])
        with named("class_weight"):
            factors = compute_sample_weight(self.class_weight, self.classes_[codes])
        if not np.all(np.isfinite(factors) & (factors >= 0.0)):
            raise ValueError(
                "class_weight must give each class a finite number >= 0. "
                f"Got {self.class_weight!r} instead."
            )
        return np.asarray(weights * factors)

    def _codes(self, y: Objects, n: int) -> np.ndarray:
        """Find the classes, and return the number of the class of each row."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        if np.asarray(y).dtype.kind == "f":
            assert_all_finite(y, input_name="y")
        with named("y"):
            _refuse_missing(y)
            check_classification_targets(y)
            _refuse_mixed(y)
            y = column_or_1d(y, warn=True)
        if len(y) != n:
            raise ValueError(
                "X and y must have the same number of rows: inconsistent numbers of samples, "
                f"{n} and {len(y)}."
            )
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least two classes. Got one class only: {self.classes_[0]}."
            )
        return codes

    def decision_function(self, X: Objects) -> np.ndarray:
        """Return f(x): of the second class if there are two, else of each class.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them

        Returns
        -------
        f : ndarray of shape (n,) or (n, n_classes)
        """
        check_is_fitted(self)
        if len(self.classes_) == 2:
            F: np.ndarray = self._map(X, (), first_column)
        else:
            F = self._map(X, self.classes_.shape)
        return F

    def predict(self, X: Objects) -> np.ndarray:
        """Predict the labels of new rows.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them

        Returns
        -------
        y : ndarray of shape (n,)
        """
        check_is_fitted(self)
        labels: np.ndarray = self._map(X, (), _Labels(self.classes_), self.classes_.dtype)
        return labels

    @available_if(_is_logistic)
    def predict_proba(self, X: Objects) -> np.ndarray:
        """Predict the probability of each class, with the logistic loss.

        Parameters
        ----------
        X : array, CSR matrix or objects, n of them

        Returns
        -------
        p : ndarray of shape (n, n_classes)
            With more than two classes, the one-against-rest probabilities over their sum.
        """
        check_is_fitted(self)
        p: np.ndarray = self._map(X, self.classes_.shape, _probabilities)
        return p


@dataclass(frozen=True)
class _Labels:
    """The class of the largest prediction; it can be sent to workers."""

    classes: np.ndarray

    def __call__(self, F: np.ndarray) -> np.ndarray:
        codes: Ints = (F[:, 0] > 0).astype(int) if F.shape[1] == 1 else F.argmax(axis=1)
        return self.classes[codes]


def _probabilities(F: np.ndarray) -> np.ndarray:
    """Return the logistic function of predictions; of several classes, shares of their sum."""
    if F.shape[1] == 1:
        return np.column_stack([expit(-F[:, 0]), expit(F[:, 0])])
    p = expit(F)
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, p / np.where(total > 0.0, total, 1.0), 1.0 / p.shape[1])


def _refuse_missing(y: Objects) -> None:
    """Raise where a label among objects is missing, which scikit-learn calls an unknown type."""
    labels = np.asarray(y)
    if labels.dtype != object:
        return
    for i, label in enumerate(labels.ravel()):
        is_nan = isinstance(label, float) and label != label
        if label is None or is_nan or type(label).__name__ == "NAType":
            raise ValueError(f"y has no label in row {i}: leave out rows whose label is missing.")


def _refuse_mixed(y: Objects) -> None:
    """Raise where NumPy would turn the numbers of a list into strings."""
    if isinstance(y, list | tuple) and len({isinstance(label, str) for label in y}) > 1:
        raise TypeError(
            "y must hold labels of one kind. Got strings and others: make them all strings."
        )
