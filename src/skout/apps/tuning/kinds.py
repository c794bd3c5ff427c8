"""Kinds of outputs: their coordinates, their decoders, and how good decoded predictions are."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from skout import KernelBasis
from skout._numerics.objects import column_of
from skout._numerics.validation import check_squares
from skout.decoding import CandidateDecoder, RankingDecoder
from skout.decoding.labels import label_matrix
from skout.dev import Registry, n_rows, resolve, take
from skout.kernels import Kendall, Mapped, NGram, PeakCosine, Tanimoto, WeisfeilerLehman
from skout.metrics.scoring import METRIC_OF_KIND, METRICS
from skout.molecules import fingerprints
from skout.sketches import SubSample

from ..tables.frames import coded_columns, is_gap
from .folds import Folds
from .means import column_means, column_variances, is_one_row, weighed
from .outputs import (
    BordaDecoder,
    ClassCodes,
    CodeDecoder,
    LabelFeatures,
    PairOrders,
    SetDecoder,
    StandardTargets,
    at_least_one,
    one_type,
)

__all__ = ["KINDS", "Kind", "guess_kind"]

Settings = dict[str, Any]
_THRESHOLDS = tuple(np.round(np.arange(0.06, 0.63, 0.04), 2).tolist())
# Items that the best ranking is found for exactly.
_MOST_ITEMS = 11
_OUTPUT_LANDMARKS = 1000
# Products of coordinates up to which held-out rows are compared with all training sets.
_MOST_WORK = 4e9
# Numbers that the coordinates of label sets may have, where there are fewer labels than that.
_MOST_NUMBERS = 1e8


class Kind:
    """A kind of outputs, judged by `scoring` of `Tuned`. By default they are chosen among those of
    training."""

    name: str
    metric: str
    #: whether outputs can be chosen among candidates
    has_candidates = True
    #: whether each column of coordinates has a score of its own
    by_column = False
    #: whether coordinates say yes or no
    is_binary = False

    def __init__(self, scoring: Any = None) -> None:
        self.scoring = scoring

    @property
    def metric_name(self) -> str:
        """What the score is called."""
        if self.scoring is None or isinstance(self.scoring, str):
            return self.scoring or self.metric
        if not callable(self.scoring):
            raise TypeError(
                "scoring must be None, the name of a metric or a function of true and predicted "
                f"outputs. Got {self.scoring!r} instead."
            )
        return getattr(self.scoring, "__name__", type(self.scoring).__name__)

    def check_weights(self) -> None:
        """Raise where scores cannot be weighted: a function must take weights, too."""
        if callable(self.scoring) and not _takes_weights(self.scoring):
            raise TypeError(
                f"fit has a sample_weight, and scoring={self.metric_name} takes none: give a "
                "function of Y, predictions and sample_weight, as scikit-learn's metrics are."
            )

    def known(self, Y: Any) -> np.ndarray | None:
        """Return which rows have an output, or a part of it; None where there are no gaps."""
        return None

    def checked(self, Y: Any) -> Any:
        """Return the outputs as the rest takes them, or say what is wrong with them."""
        Y = column_of(Y)
        return Y.to_numpy() if hasattr(Y, "to_numpy") else Y

    def basis(self, Y: Any, seed: int) -> Any:
        """Return the coordinates to fit."""
        raise NotImplementedError

    def decoders(self) -> list[Settings]:
        """Return the settings of the decoders that are compared."""
        return [{"decoder": "candidates"}]

    def decoder(self, settings: Settings) -> Any:
        """Return a decoder."""
        return CandidateDecoder()

    def constant(self, T: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Return the coordinates that a model without inputs predicts: the most frequent ones."""
        _, first, number = np.unique(T, axis=0, return_index=True, return_inverse=True)
        counts = np.bincount(number.ravel(), weights)
        return T[first[np.flatnonzero(counts == counts.max())].min()]

    def measured(self, basis: Any) -> Callable[..., float]:
        """Return the metric of objects: a function of truth, prediction and `sample_weight`."""
        if callable(self.scoring):
            return self.scoring
        metric = resolve(self.scoring or self.metric, METRICS, "scoring")
        return lambda true, pred, **weights: metric(basis.kernel_, true, pred, **weights)

    def judge(self, basis: Any, Y: Any, folds: Folds) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function from coordinates of held-out rows to scores, (n_decoders, n_parts)."""
        metric = self.measured(basis)
        truth, weights = take(Y, folds.held), folds.held_weights
        decoders = [
            [self.decoder(settings).fit(basis, take(Y, train)) for train, _ in folds.splits]
            for settings in self.decoders()
        ]

        def scores(F: np.ndarray) -> np.ndarray:
            table = np.empty((len(decoders), folds.n_parts))
            for i, own in enumerate(decoders):
                for part, (rows, split) in enumerate(folds.parts):
                    found = _quietly(own[split].decode, F[rows])
                    own_weights = None if weights is None else weights[rows]
                    table[i, part] = metric(take(truth, rows), found, **weighed(own_weights))
            return table

        return scores


def _takes_weights(function: Any) -> bool:
    try:
        params = inspect.signature(function).parameters
    except ValueError:  # a function of C that does not say
        return True
    return "sample_weight" in params or any(one.kind == one.VAR_KEYWORD for one in params.values())


def _kernel_basis(kernel: Any, Y: Any, seed: int) -> KernelBasis:
    sketch = SubSample(_OUTPUT_LANDMARKS) if n_rows(Y) > _OUTPUT_LANDMARKS else None
    return KernelBasis(kernel, sketch, random_state=seed)


def _quietly(decode: Callable[[np.ndarray], Any], F: np.ndarray) -> Any:
    """Decode without the warning that a search was not exact."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return decode(F.astype(np.float64, copy=False))


class LabelSets(Kind):
    """Rows of 0 and 1."""

    name = "label_sets"
    metric = "example_f1"
    is_binary = True

    def checked(self, Y: Any) -> Any:
        Y = super().checked(Y)
        labels = label_matrix(Y)  # raises
        Y = Y if sparse.issparse(Y) else np.asarray(Y)
        return labels.toarray().astype(int) if Y.dtype == object else Y

    def basis(self, Y: Any, seed: int) -> Any:
        n, n_labels = Y.shape
        return LabelFeatures(int(np.clip(_MOST_NUMBERS / n, n_labels, LabelFeatures().max_columns)))

    def decoders(self) -> list[Settings]:
        thresholds = [{"decoder": "threshold", "threshold": float(t)} for t in _THRESHOLDS]
        return [{"decoder": "f1"}, {"decoder": "candidates"}, *thresholds]

    def decoder(self, settings: Settings) -> Any:
        return SetDecoder(settings["decoder"], settings.get("threshold", 0.5))

    def judge(self, basis: Any, Y: Any, folds: Folds) -> Callable[[np.ndarray], np.ndarray]:
        if self.scoring not in (None, self.metric):
            return super().judge(basis, Y, folds)
        truth = label_matrix(Y)[folds.held].toarray() > 0
        best = SetDecoder("f1").fit(basis, Y)
        pools = [SetDecoder("candidates").fit(basis, take(Y, train)) for train, _ in folds.splits]
        spans = folds.spans
        work = max(len(pool.embedding_) for pool in pools) * folds.n_held * basis.rank_
        ranks_pool = work <= _MOST_WORK  # else candidates would take longer than all the rest

        def scores(F: np.ndarray) -> np.ndarray:
            found = [_row_f1(truth, best.sets(F)), np.full(len(F), -np.inf)]
            if ranks_pool:
                near = [pool.sets(F[rows]) for pool, rows in zip(pools, spans, strict=True)]
                found[1] = _row_f1(truth, np.concatenate(near))
            expected = basis.marginals(F)
            for threshold in _THRESHOLDS:
                chosen = at_least_one(expected > threshold, expected, basis.has_empty_)
                found.append(_row_f1(truth, chosen))
            return folds.part_means(np.array(found))

        return scores


def _row_f1(true: np.ndarray, pred: np.ndarray) -> np.ndarray:
    common = np.count_nonzero(true & pred, axis=1)
    total = np.count_nonzero(true, axis=1) + np.count_nonzero(pred, axis=1)
    return np.where(total > 0, 2 * common / np.maximum(total, 1), 1.0)


class Rankings(Kind):
    """Rows of ranks; equal numbers are ties."""

    name = "rankings"
    metric = "kendall_tau"
    n_items = 0
    is_binary = True

    def checked(self, Y: Any) -> Any:
        Y = np.asarray(super().checked(Y))
        Kendall(ties=not _are_permutations(Y)).encode(Y)  # raises
        self.n_items = Y.shape[1]
        return Y

    def basis(self, Y: Any, seed: int) -> Any:
        self.is_binary = _are_permutations(Y)
        return PairOrders() if self.is_binary else _kernel_basis(Kendall(ties=True), Y, seed)

    def decoders(self) -> list[Settings]:
        sums = {"decoder": "borda"}
        return [sums] if self.n_items > _MOST_ITEMS else [sums, {"decoder": "rankings"}]

    def decoder(self, settings: Settings) -> Any:
        is_sum = settings["decoder"] == "borda"
        return BordaDecoder() if is_sum else RankingDecoder(max_exact=_MOST_ITEMS)

    def constant(self, T: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        return column_means(T, weights)  # decoded: the consensus

    def judge(self, basis: Any, Y: Any, folds: Folds) -> Callable[[np.ndarray], np.ndarray]:
        if self.scoring not in (None, self.metric):
            return super().judge(basis, Y, folds)
        truth = self._signs(Y[folds.held])
        decoders = [self.decoder(settings).fit(basis, Y) for settings in self.decoders()]

        def scores(F: np.ndarray) -> np.ndarray:
            found = [self._signs(_quietly(one.decode, F)) for one in decoders]
            return folds.part_means(np.array([(truth * signs).sum(axis=1) for signs in found]))

        return scores

    def _signs(self, ranks: np.ndarray) -> np.ndarray:
        """Return the order of each pair, of norm 1: inner products are Kendall's tau-b."""
        kernel = Kendall(ties=True)
        signs = kernel.features(kernel.encode(np.asarray(ranks, dtype=np.float64)))
        norms = np.linalg.norm(signs, axis=1, keepdims=True)
        return signs / np.where(norms > 0.0, norms, 1.0)


class Codes(Kind):
    """Outputs that their basis decodes by itself."""

    has_candidates = False

    def decoders(self) -> list[Settings]:
        return [{"decoder": "none"}]

    def decoder(self, settings: Settings) -> Any:
        return CodeDecoder()

    def constant(self, T: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        return column_means(T, weights)


class Numbers(Codes):
    """One column of numbers or several, each of which counts the same; NaN is a gap."""

    name = "numbers"
    metric = "r2"

    @property
    def by_column(self) -> bool:  # type: ignore[override]
        return self.scoring in (None, "r2")

    def checked(self, Y: Any) -> Any:
        Y = super().checked(Y)
        Y = Y.toarray() if sparse.issparse(Y) else np.asarray(Y)
        Y = _floats(Y) if Y.dtype == object else Y
        StandardTargets().fit(Y)  # raises
        check_squares(np.asarray(Y, dtype=np.float64), "Y", "Scale its columns.")
        if isinstance(self.scoring, str) and self.scoring != self.metric and _has_gaps(Y):
            raise ValueError(
                f"Y has gaps, NaN, and scoring={self.scoring!r} takes whole outputs: leave scoring "
                "out, give a function that passes NaN over, such as skout.metrics.r2, or leave "
                "the rows with gaps out."
            )
        return Y

    def known(self, Y: Any) -> np.ndarray | None:
        if not _has_gaps(Y):
            return None
        return np.asarray(~np.isnan(np.reshape(Y, (len(Y), -1))).all(axis=1))

    def basis(self, Y: Any, seed: int) -> Any:
        return StandardTargets()

    def measured(self, basis: Any) -> Callable[..., float]:
        return _mean_r2 if self.scoring in (None, self.metric) else super().measured(basis)

    def judge(self, basis: Any, Y: Any, folds: Folds) -> Callable[[np.ndarray], np.ndarray]:
        if self.scoring not in (None, self.metric):
            return super().judge(basis, Y, folds)
        return column_scores(basis.transform(take(Y, folds.held)), folds)


def column_scores(truth: np.ndarray, folds: Folds) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from predicted columns to the mean of their R2, shape (1, n_parts).

    A column with gaps counts as much as others: a row that has it counts the more, the fewer do.
    """
    weights, missing = folds.held_weights, np.isnan(truth)
    spread = np.maximum(column_variances(truth, folds.spread_weights), 1e-12)
    if missing.any():
        spread = spread * column_means(1.0 - missing, weights)

    def scores(F: np.ndarray) -> np.ndarray:
        lost = (np.where(missing, 0.0, (F - truth) ** 2) / spread).mean(axis=1)
        return 1.0 - folds.part_means(lost[None])

    return scores


def _has_gaps(Y: np.ndarray) -> bool:
    return Y.dtype.kind == "f" and bool(np.isnan(Y).any())


def _mean_r2(true: Any, pred: Any, sample_weight: np.ndarray | None = None) -> float:
    """Return the mean over columns of 1 - squared error / squared deviation from the mean."""
    true, pred = (np.reshape(values, (len(values), -1)) for values in (true, pred))
    if true.shape[1] != pred.shape[1]:
        raise ValueError(f"Y must have {pred.shape[1]} columns. Got {true.shape[1]} instead.")
    units = StandardTargets().fit(true)  # in which squares stay in range
    true, pred = units.transform(true), units.transform(pred)
    counts = None if is_one_row(sample_weight) else sample_weight  # it has no variance
    spread = np.maximum(column_variances(true, counts), np.finfo(np.float64).tiny)
    return float(1.0 - (column_means((true - pred) ** 2, sample_weight) / spread).mean())


class Classes(Codes):
    """One class for each row."""

    name = "classes"
    metric = "accuracy"
    is_binary = True

    def checked(self, Y: Any) -> Any:
        Y = one_type(super().checked(Y))
        if Y.ndim != 1:
            raise ValueError(
                f"Y must be one class for each row, in one axis. Got shape {Y.shape} instead: give "
                "Y.ravel(), or the one column of a data frame."
            )
        gaps = sum(map(is_gap, Y.tolist()))
        if gaps:
            raise ValueError(f"Y has no class in {gaps} rows: leave them out.")
        try:
            np.unique(Y)
        except TypeError as error:
            raise TypeError(f"Y must be classes that can be sorted: {error}.") from None
        return Y

    def basis(self, Y: Any, seed: int) -> Any:
        return ClassCodes()

    def measured(self, basis: Any) -> Callable[..., float]:
        is_share = self.scoring in (None, self.metric, "exact_matches")
        return _share_of_matches if is_share else super().measured(basis)


def _share_of_matches(true: Any, pred: Any, sample_weight: np.ndarray | None = None) -> float:
    return float(np.average(np.asarray(true) == np.asarray(pred), weights=sample_weight))


class Objects(Kind):
    """Objects that a kernel compares, chosen among those of training."""

    def __init__(self, scoring: Any = None, *, name: str, kernel: Any) -> None:
        super().__init__(scoring)
        self.name, self.kernel = name, kernel
        self.metric = METRIC_OF_KIND.get(name, "kernel")

    def basis(self, Y: Any, seed: int) -> Any:
        return _kernel_basis(self.kernel, Y, seed)


_KERNELS = {
    "strings": NGram((1, 2, 3), short="keep"),
    "smiles": Mapped(fingerprints, Tanimoto()),
    "graphs": WeisfeilerLehman(),
    "spectra": PeakCosine(),
}
#: Kinds of outputs by name: functions of `scoring`.
KINDS: Registry = Registry(label_set="label_sets", ranking="rankings", string="strings")
KINDS |= {one.name: one for one in (LabelSets, Rankings, Numbers, Classes)}
KINDS |= {name: partial(Objects, name=name, kernel=one) for name, one in _KERNELS.items()}


def guess_kind(Y: Any) -> str:
    """Return the name of the kind of outputs, or raise where it is unclear."""
    if coded_columns({"Y": Y}):  # to its library
        return "classes"
    Y = column_of(Y)
    Y = Y.to_numpy() if hasattr(Y, "to_numpy") else Y
    if sparse.issparse(Y):
        return "label_sets" if np.all(Y.data == 1) else "numbers"
    if _are_names(Y):
        return "label_sets"  # which says how to make rows of them
    values = _as_array(Y)
    if values is None or values.dtype.kind not in "biufcmMUS":
        raise _unclear("objects, or rows of unequal length", "strings, smiles, graphs or spectra")
    if values.dtype.kind in "US":
        raise _unclear("texts", "classes, strings or smiles")
    if values.ndim == 1:
        if values.dtype.kind == "b":
            return "classes"
        if values.dtype.kind in "iu" and len(np.unique(values)) <= max(2, len(values) // 10):
            raise _unclear("few different integers", "classes or numbers")
        return "numbers"
    if values.ndim != 2:
        raise ValueError(f"Y must have one axis or two. Got shape {values.shape}.")
    _check_whole(values)
    are_sets = bool(np.all((values == 0) | (values == 1)))
    if values.shape[1] > 1 and _are_permutations(values):
        if are_sets:
            raise _unclear("rows of one 0 and one 1", "label_sets or rankings")
        return "rankings"
    return "label_sets" if are_sets else "numbers"


def _check_whole(values: np.ndarray) -> None:
    """Raise where rows without gaps say that these are label sets or rankings: they have none."""
    gaps = np.isnan(values) if values.dtype.kind == "f" else np.zeros(0, dtype=bool)
    if gaps.any():
        whole = values[~gaps.any(axis=1)]
        are_sets = bool(np.isin(values[~gaps], (0.0, 1.0)).all())
        if are_sets or (len(whole) and _are_permutations(whole)):
            raise ValueError(
                f"Y has gaps, NaN, and else holds {'0 and 1' if are_sets else 'rankings'}: leave "
                'rows with gaps out, or say kind="numbers", whose columns may have some.'
            )


def _are_names(Y: Any) -> bool:
    """Whether these are lists or sets of words, the names of labels."""
    is_column = isinstance(Y, np.ndarray) and Y.dtype == object and Y.ndim == 1
    if not isinstance(Y, list | tuple) and not is_column:
        return False
    if not all(isinstance(one, list | tuple | set | frozenset) for one in Y):
        return False
    return any(map(len, Y)) and all(isinstance(word, str) for one in Y for word in one)


def _as_array(Y: Any) -> np.ndarray | None:
    """Return outputs as an array, without gaps if they are one column; None for objects."""
    try:
        values = np.asarray(Y)
        if values.dtype != object or values.ndim == 0:
            return values
        if values.ndim > 1:
            return _floats(values)
        filled = np.array([one for one in values if not is_gap(one)])
        return filled if filled.dtype != object else filled.astype(np.float64)
    except (ValueError, TypeError):
        return None


def _floats(values: np.ndarray) -> np.ndarray:
    """Return numbers in an array of objects; those that are missing are NaN."""
    found = [np.nan if is_gap(value) else value for value in values.ravel()]
    return np.array(found, dtype=np.float64).reshape(values.shape)


def _unclear(what: str, choices: str) -> ValueError:
    return ValueError(f"kind is None, and Y are {what}: say which kind they are, {choices}.")


def _are_permutations(Y: Any) -> bool:
    """Whether every row is a permutation of 0..d-1, or of 1..d."""
    Y = np.asarray(Y)
    if Y.ndim != 2 or Y.dtype.kind not in "biuf":
        return False
    low = Y.min(axis=1, keepdims=True) if Y.size else Y
    proper = np.sort(Y, axis=1) == low + np.arange(Y.shape[1])
    return bool(np.all(proper) and np.all(np.isin(low, (0, 1))))
