"""Scores of predicted coordinates of held-out rows, by which models are chosen."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import rankdata
from sklearn.base import clone

from skout.dev import n_rows, resolve, take
from skout.kinds import Kind, metrics

from .calibration import ProbabilityCalibration
from .data import column_means, column_variances, weighed
from .folds import Folds

# Multiplications above which decoders that compare held-out rows with all training outputs are left
# out, if there are others: they would take longer than all the rest.
_MOST_WORK = 4e9
# Weight of R2 of coordinates beside the metric: this over the root of the number of rows. Chosen on
# the training parts of the sets of experiments/ours/tuned.py (`--inside`).
_SMOOTH = 1.5
Objects = Any  # outputs of any kind
_TRIED = 1000  # rows that a scorer of scikit-learn is tried on before any trial
#: Short names of scikit-learn's scorers.
_SHORT = {
    "log_loss": "neg_log_loss",
    "auc": "roc_auc",
    "f1": "f1_macro",
    "macro_f1": "f1_macro",
    "micro_f1": "f1_micro",
    "mae": "neg_mean_absolute_error",
    "mean_absolute_error": "neg_mean_absolute_error",
    "rmse": "neg_root_mean_squared_error",
    "root_mean_squared_error": "neg_root_mean_squared_error",
    "mse": "neg_mean_squared_error",
    "mean_squared_error": "neg_mean_squared_error",
}
# Names of metrics in sentences.
_NAMES = {
    "example_f1": "F1",
    "kendall_tau": "Kendall's tau",
    "r2": "R2",
    "roc_auc": "AUC",
    "f1_macro": "macro F1",
    "f1_micro": "micro F1",
    "neg_mean_absolute_error": "MAE",
    "neg_root_mean_squared_error": "RMSE",
    "neg_mean_squared_error": "MSE",
}


def spoken(metric: str) -> str:
    """Return the name of a metric in a sentence: "log loss" for "neg_log_loss"."""
    return _NAMES.get(metric, metric.removeprefix("neg_").replace("_", " "))


def shown(metric: str, score: float) -> float:
    """Return the score, or for a negated error ("neg_...") the error itself."""
    return -score if metric.startswith("neg_") else score


@dataclass(frozen=True)
class OutputScoring:
    """The metric of predictions of a kind of output, from `scoring` of `Tuned`.

    `scoring` is None, a name in `skout.kinds.metrics` or of scikit-learn's scorers, such a scorer,
    or a function of true and predicted outputs.
    """

    kind: Kind
    scoring: str | Callable[..., float] | None = None

    @property
    def metric_name(self) -> str:
        """The name of the metric, the scorer's name of scikit-learn where it is one of these."""
        if self.scoring is None or isinstance(self.scoring, str):
            name = self.scoring or self.kind.metric
            return name if name in metrics() else _SHORT.get(name, name)
        if not callable(self.scoring):
            raise TypeError(
                "scoring must be None, the name of a metric, a scorer of scikit-learn or a "
                f"function of true and predicted outputs. Got {self.scoring!r} instead."
            )
        if (scorer := self._scorer) is not None:
            name = str(getattr(scorer._score_func, "__name__", "score"))
            return f"neg_{name}" if scorer._sign < 0 else name
        return getattr(self.scoring, "__name__", type(self.scoring).__name__)

    @cached_property
    def _scorer(self) -> Any:
        """The scorer of scikit-learn, None where the metric is of skout or a function."""
        if callable(self.scoring):
            return self.scoring if hasattr(self.scoring, "_score_func") else None
        if self.metric_name in metrics():
            return None
        from sklearn.metrics import get_scorer, get_scorer_names  # slow to import

        names = {*metrics(), *get_scorer_names(), *_SHORT}
        if self.metric_name not in names:
            close = get_close_matches(self.metric_name.replace(" ", "_"), sorted(names), n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"Unknown scoring {self.scoring!r}.{hint} Usual are accuracy, {', '.join(_SHORT)} "
                "and r2; there are those of skout.kinds.metrics() and of "
                "sklearn.metrics.get_scorer_names()."
            )
        return get_scorer(self.metric_name)

    @property
    def is_of_kind(self) -> bool:
        """Whether the metric is the default one of the kind."""
        return self.metric_name == self.kind.metric and not callable(self.scoring)

    @property
    def by_column(self) -> bool:
        """Whether each column of coordinates has a score, of which the score is the mean."""
        return self.is_of_kind and self.kind.estimator_type == "regressor"

    def seconds(self, n_calls: int) -> float:
        """Return the estimated seconds of calls of the metric; those of skout count as 0."""
        return 0.0 if self.is_of_kind or self.metric_name in {*_QUICK, *_SET_F1} else 1e-3 * n_calls

    @property
    def takes_probabilities(self) -> bool:
        """Whether scores are of probabilities, not of outputs."""
        if self._scorer is None:
            return False
        methods = self._scorer._response_method
        takes = methods != "predict" and methods != ("predict",)
        if takes and not self.kind.has_probabilities:
            raise ValueError(
                f"scoring={self.scoring!r} needs probabilities, which {self.kind.plural} do not "
                "have: give another metric."
            )
        return bool(takes)

    def check(self, Y: Objects) -> Objects:
        """Return outputs in the form of the kind, or raise where they are wrong."""
        Y = self.kind.check(Y)
        if self.kind.estimator_type != "regressor":
            return Y
        if (
            np.isnan(Y).any()
            and not self.is_of_kind
            and (self._scorer or not callable(self.scoring))
        ):
            raise ValueError(
                f"Y has gaps, NaN, and scoring={self.scoring!r} takes whole outputs: leave scoring "
                "out, give a function that passes NaN over, such as skout.metrics.r2, or leave "
                "the rows with gaps out."
            )
        return Y[:, 0] if Y.ndim == 2 and Y.shape[1] == 1 else Y  # one target, one dimension

    def check_scorer(self, Y: Objects) -> None:
        """Raise where the scorer does not exist, or does not take these classes, as MAE."""
        if self.takes_probabilities or self._scorer is None or self.kind.name != "classes":
            return
        classes = take(Y, slice(0, _TRIED))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.metric(None)(classes, classes)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"scoring={self.scoring!r} does not take these classes: {str(error).rstrip('.')}. "
                "Others are accuracy, f1, log_loss and auc."
            ) from error

    def check_weights(self) -> None:
        """Raise where scores cannot be weighted: a function must take weights, too."""
        function = self.scoring if self._scorer is None else self._scorer._score_func
        if callable(function) and not _takes_weights(function):
            raise TypeError(
                f"fit has a sample_weight, and scoring={self.metric_name} takes none: give a "
                "function of Y, predictions and sample_weight, as scikit-learn's metrics are."
            )

    def metric(self, basis: Any) -> Callable[..., float]:
        """Return the metric: a function of truth, prediction and `sample_weight`.

        The prediction is an output, or probabilities where the metric takes these.
        """
        if (scorer := self._scorer) is not None:
            return self._of_scorer(scorer, basis)
        if callable(self.scoring):
            return self.scoring
        if self.is_of_kind:
            return self.kind.score
        named = resolve(self.metric_name, metrics(), "scoring")
        return lambda true, pred, **weights: named(basis.kernel_, true, pred, **weights)

    def _of_scorer(self, scorer: Any, basis: Any) -> Callable[..., float]:
        """Return the metric of a scorer of scikit-learn; of several classes AUC is one-vs-rest."""
        classes = getattr(basis, "classes_", None)
        function, params = scorer._score_func, dict(scorer._kwargs)
        takes = set(inspect.signature(function).parameters)
        if self.takes_probabilities and classes is not None:
            if "multi_class" in takes and len(classes) > 2:
                params.setdefault("multi_class", "ovr")
            if "labels" in takes and (len(classes) > 2 or "multi_class" not in takes):
                params.setdefault("labels", classes)
        if "zero_division" in takes:
            params.setdefault("zero_division", 0.0)

        def score(true: Objects, pred: Objects, **weights: np.ndarray) -> float:
            if self.takes_probabilities and classes is not None and len(classes) == 2:
                pred = pred if "labels" in params else pred[:, 1]
                if "labels" not in params:
                    true = np.asarray(true) == classes[1]
            return float(scorer._sign * function(true, pred, **params, **weights))

        return score

    def on_folds(self, basis: Any, Y: Objects, folds: Folds) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function from coordinates of held-out rows to scores, (n_decoders, n_parts).

        A part whose score is undefined, such as AUC of one class, gets that of all held-out rows.
        """
        if self.by_column:
            return column_scores(basis.transform(take(Y, folds.held)), folds)
        if self.is_of_kind:
            return _row_scores(self.kind, basis, Y, folds)
        metric, all_rows = self.metric(basis), slice(0, folds.n_held)
        truth, weights = take(Y, folds.held), folds.held_weights
        quick = _QUICK.get(self.metric_name) if hasattr(basis, "classes_") else None
        if quick is not None and (weights is None or quick is not _auc):
            return quick_scores(quick, basis, truth, folds)

        def score(pred: Objects, rows: slice) -> float:
            try:
                more = weighed(None if weights is None else weights[rows])
                with warnings.catch_warnings():  # of scikit-learn, of parts without some classes
                    warnings.simplefilter("ignore", UserWarning)
                    return metric(take(truth, rows), pred, **more)
            except ValueError:
                if rows == all_rows or self._scorer is None:
                    raise
                return np.nan

        if not hasattr(basis, "classes_") and self.metric_name in _SET_F1:
            metric = _SET_F1[self.metric_name]
            truth = truth.toarray() if sparse.issparse(truth) else np.asarray(truth)
        decoders = list(self.kind.decoders(Y).values())
        if self.takes_probabilities:
            codes = codes_of(basis, truth)

            def of_probabilities(F: np.ndarray) -> np.ndarray:
                P = _calibrated(basis, F, codes, weights)
                scores = np.array([score(P[rows], rows) for rows, _ in folds.parts])
                if np.isnan(scores).any():
                    scores = np.where(np.isnan(scores), score(P, all_rows), scores)
                return np.tile(scores, (len(decoders), 1))

            return of_probabilities

        by_split = [
            [clone(decoder).fit(basis, take(Y, train)) for decoder in decoders]
            for train, _ in folds.splits
        ]

        def of_outputs(F: np.ndarray) -> np.ndarray:
            F = F.astype(np.float64, copy=False)
            table = np.empty((len(decoders), folds.n_parts))
            for part, (rows, split) in enumerate(folds.parts):
                for i, decoder in enumerate(by_split[split]):
                    table[i, part] = score(decoder.decode(F[rows]), rows)
            return table

        return of_outputs


def _calibrated(
    basis: Any, F: np.ndarray, codes: np.ndarray, weights: np.ndarray | None
) -> np.ndarray:
    """Return probabilities of held-out rows, calibrated on these rows: by two or three numbers."""
    P = basis.probabilities(F.astype(np.float64, copy=False))
    are_sets = not hasattr(basis, "classes_")
    how = ProbabilityCalibration.fitted(P, codes, are_sets=are_sets, weights=weights, quick=True)
    return how.apply(P)


# Metrics of classes that trials call thousands of times: those of scikit-learn, which check their
# arguments each time, take ten times longer. They take numbers of true classes (n,), predicted
# coordinates or probabilities (n, k), and weights (n,).


def _confusion(true: np.ndarray, pred: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weight of each pair of true and predicted class, shape (k, k)."""
    k = pred.shape[1]
    pairs = true * k + pred.argmax(axis=1)
    return np.bincount(pairs, weights, minlength=k * k).reshape(k, k)


def _balanced_accuracy(true: np.ndarray, pred: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean recall of classes."""
    pairs = _confusion(true, pred, weights)
    total = pairs.sum(axis=1)
    return float(np.mean(pairs.diagonal()[total > 0.0] / total[total > 0.0]))


def _macro_f1(true: np.ndarray, pred: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean F1 of classes."""
    pairs = _confusion(true, pred, weights)
    total = pairs.sum(axis=0) + pairs.sum(axis=1)
    return float(np.mean(2.0 * pairs.diagonal()[total > 0.0] / total[total > 0.0]))


def _micro_f1(true: np.ndarray, pred: np.ndarray, weights: np.ndarray) -> float:
    """Return the accuracy, which micro F1 is where each row has one class."""
    return float(np.average(pred.argmax(axis=1) == true, weights=weights))


def _log_loss(true: np.ndarray, pred: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean log probability of the true classes."""
    of_truth = pred[np.arange(len(true)), true]
    return float(np.average(np.log(np.maximum(of_truth, 1e-15)), weights=weights))


def _auc(true: np.ndarray, pred: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean over classes of AUC against the rest, NaN where a class has no row."""
    k = pred.shape[1]
    ranks = rankdata(pred[:, 1:] if k == 2 else pred, axis=0)
    is_class = true[:, None] == np.arange(k)[1:] if k == 2 else true[:, None] == np.arange(k)
    n = is_class.sum(axis=0)
    pairs = n * (len(true) - n)
    if not pairs.all():
        return np.nan
    return float(np.mean(((ranks * is_class).sum(axis=0) - n * (n + 1) / 2) / pairs))


def _set_f1(is_macro: bool, true: Objects, pred: Objects, **weights: np.ndarray) -> float:
    """Return F1 of label sets: macro, the mean over labels, or micro, of all labels together."""
    pred = pred.toarray() if sparse.issparse(pred) else np.asarray(pred)
    counts = weights.get("sample_weight", np.ones(len(pred)))
    both, total = counts @ (true * pred), counts @ true + counts @ pred
    both, total = (both, total) if is_macro else (both.sum(), total.sum())
    return float(np.mean(2.0 * both / np.where(total > 0.0, total, 1.0)))


_SET_F1 = {"f1_macro": partial(_set_f1, True), "f1_micro": partial(_set_f1, False)}
QuickMetric = Callable[[np.ndarray, np.ndarray, np.ndarray], float]
_QUICK: dict[str, QuickMetric] = {
    "balanced_accuracy": _balanced_accuracy,
    "f1_macro": _macro_f1,
    "f1_micro": _micro_f1,
    "neg_log_loss": _log_loss,
    "roc_auc": _auc,
}


def quick_scores(
    metric: QuickMetric, basis: Any, truth: Objects, folds: Folds
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from coordinates of classes to scores of parts, shape (1, n_parts)."""
    codes = codes_of(basis, truth)
    true = codes.argmax(axis=1)
    weights = np.ones(len(true)) if folds.held_weights is None else folds.held_weights

    def scores(F: np.ndarray) -> np.ndarray:
        P = F
        if metric is _log_loss:
            P = _calibrated(basis, F, codes, folds.held_weights)
        elif metric is _auc:
            P = basis.probabilities(F.astype(np.float64, copy=False))
        each = np.array([metric(true[rows], P[rows], weights[rows]) for rows, _ in folds.parts])
        return np.where(np.isnan(each), metric(true, P, weights), each)[None]

    return scores


def codes_of(basis: Any, truth: Objects) -> np.ndarray:
    """Return classes or label sets as rows of 0 and 1, (n, n_classes) or (n, n_labels).

    `basis` is the fitted output basis.
    """
    if hasattr(basis, "classes_"):
        return np.asarray(basis.transform(truth))
    return truth.toarray() if sparse.issparse(truth) else np.asarray(truth)


def _row_scores(
    kind: Kind, basis: Any, Y: Objects, folds: Folds
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from coordinates to mean row scores, (n_decoders, n_parts).

    Decoders that choose among training outputs are fitted for each split, others once.
    """
    decoders = [decoder.fit(basis, Y) for decoder in kind.decoders(Y).values()]
    pools = [getattr(decoder, "pool_", None) for decoder in decoders]
    sizes = [0 if pool is None else n_rows(pool) for pool in pools]
    shared = [i for i, size in enumerate(sizes) if not size]
    chosen = [i for i, size in enumerate(sizes) if size]
    if shared and max(sizes) * folds.n_held * basis.rank_ > _MOST_WORK:
        chosen = []
    by_split = [
        [clone(decoders[i]).fit(basis, take(Y, train)) for i in chosen] for train, _ in folds.splits
    ]
    truth = take(Y, folds.held)

    def scores(F: np.ndarray) -> np.ndarray:
        table = np.full((len(decoders), folds.n_held), -np.inf)
        if shared:
            table[shared] = kind.decoded_scores([decoders[i] for i in shared], F, truth)
        for fitted, rows in zip(by_split, folds.spans, strict=True):
            if fitted:
                table[chosen, rows] = kind.decoded_scores(fitted, F[rows], take(truth, rows))
        return folds.part_means(table)

    return scores


def _takes_weights(function: Callable[..., float]) -> bool:
    """Whether a function has a parameter `sample_weight`."""
    try:
        params = inspect.signature(function).parameters
    except ValueError:  # a function of C that does not say
        return True
    return "sample_weight" in params or any(
        param.kind == param.VAR_KEYWORD for param in params.values()
    )


def column_scores(truth: np.ndarray, folds: Folds) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from predicted columns to their mean R2, shape (1, n_parts).

    Columns count the same: rows count the more in a column, the fewer rows have it.
    """
    weights, missing = folds.held_weights, np.isnan(truth)
    spread = np.maximum(column_variances(truth, folds.spread_weights), 1e-12)
    if missing.any():
        spread = spread * column_means(1.0 - missing, weights)

    def scores(F: np.ndarray) -> np.ndarray:
        lost = (np.where(missing, 0.0, (F - truth) ** 2) / spread).mean(axis=1)
        return 1.0 - folds.part_means(lost[None])

    return scores


@dataclass
class Merit:
    """The criterion that models are chosen by: merit = metric + share * R2 of coordinates.

    A metric of decoded objects is coarse where there are few rows, and many choices are equal: R2
    decides between these.
    """

    metric: Callable[[np.ndarray], np.ndarray]  # of coordinates: scores (n_decoders, n_parts)
    truth: np.ndarray  # (n_held, p) coordinates of the held-out rows, NaN where there is none
    folds: Folds
    name: str = "score"  # of the metric, in sentences
    seconds: float = 0.0  # estimate for one call of the metric, 0 for fast ones

    def __post_init__(self) -> None:
        squares = (self.truth - column_means(self.truth, self.folds.held_weights)) ** 2
        total = np.nansum(squares, axis=1)
        self._spread = max(float(np.average(total, weights=self.folds.spread_weights)), 1e-300)
        self.share: float = min(0.3, _SMOOTH / np.sqrt(len(np.unique(self.folds.held))))

    def smooth(self, F: np.ndarray) -> np.ndarray:
        """Return the second term of merit, share * R2 of coordinates, shape (n_parts,)."""
        errors = F - self.truth
        errors[np.isnan(errors)] = 0.0  # missing targets
        squares = np.einsum("ij,ij->i", errors, errors)
        return np.asarray(
            self.share * (1.0 - self.folds.part_means(squares[None])[0] / self._spread)
        )
