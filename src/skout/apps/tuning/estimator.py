"""`Tuned`: model selection by the metric of the outputs, within a budget."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import ClassifierTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skout import StructuredPredictor
from skout.decoding import CandidateDecoder
from skout.dev import (
    Checkpoint,
    PartsByName,
    all_at_once,
    check_rng,
    digest,
    frames_out,
    n_rows,
    named,
    resolve,
    take,
    unique,
)
from skout.kinds import KINDS, Kind
from skout.typing import CV, Candidates, Labels, Scoring, Targets

from ..tables.encoder import TableEncoder
from ..tables.frames import TableLike
from .averages import Averaged, Chosen, choice_of, last_sizes
from .calibration import ProbabilityCalibration, calibrated
from .clock import Clock
from .data import TuningData, counted, is_one_row, observed_rows, weighed, with_class_weight
from .folds import make_folds
from .inputs import (
    check_single_precision,
    column_groups,
    first_inputs,
    names_of,
    read_inputs,
    width_of,
)
from .maps import Map, checked_maps
from .maps.base import are_skewed
from .outputs import LabelNames, read_kind, without_target
from .report import baselines_of, drawn, line, page, progress_bar, rows_line, rows_of
from .samples import Sample, profile_of
from .scoring import Merit, OutputScoring, codes_of, spoken
from .search import Budget, Callback, ModelSearch, has_time_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST_ROWS = 10  # of fewer, hardly any could be held out
# Numbers of folds: the first of them that there is time for is taken.
_FOLDS = 5, 3, 2
# Shares of other rows in predictions whose scores identify a metric in a checkpoint.
_OTHER = (0.1, 0.3, 0.5, 1.0)
# Distinct training outputs that are kept as candidates, at most.
_MOST_CANDIDATES = 100_000
# Share of the budget by which the last fit of a further member may end beyond it.
_BEYOND = 0.1


def _has_probabilities(model: Tuned) -> bool:
    """Whether the kind of outputs has probabilities; raise AttributeError if not."""
    kind = _kind_of(model)
    if kind is not None and kind.has_probabilities:
        return True
    raise AttributeError(f"Only classes and label sets have probabilities. kind is {model.kind!r}.")


def _kind_of(model: Tuned) -> Kind | None:
    """Return the kind of outputs, None where it is not known yet."""
    return KINDS.get(KINDS.spelled(str(getattr(model, "kind_", model.kind))))


@frames_out
class Tuned(PartsByName):
    """Choose a model by the metric of its outputs, and fit it, within a budget.

    Scalings of columns, input kernels and their widths, penalties, intercepts, sketches and the map
    itself (kernel ridge, forests, boosting, neighbors), decoders and averages of the best are
    compared on held-out rows. All maps predict the same output coordinates, so that what is
    averaged is decoded once. The order of trials depends on scores and on estimated costs on a
    reference machine, so that it is the same everywhere for one seed; the clock only ends the
    search, and skips or stops trials that there is no time for.

    Parameters
    ----------
    kind : str, optional
        What the outputs are, a name in `skout.kinds.KINDS`: label_sets, rankings, classes, numbers,
        strings, smiles, graphs, spectra, or one of your own. None guesses it from what Y holds, and
        raises an error where that is not clear.
    scoring : None, str, scorer or callable (Y, predictions) -> float, default None
        None is the metric of the kind: example F1 of label sets, Kendall's tau of rankings,
        accuracy of classes, the mean over columns of R2 for numbers. Names are those of
        `skout.kinds.metrics`, and of scikit-learn's scorers: "balanced_accuracy", "log_loss",
        "auc", "f1_macro", "f1_micro" of classes, "mae" and "rmse" of numbers, with or without
        ``neg_``; the greater the better, so that errors are negative. AUC and log loss are those of
        calibrated probabilities. With weights, a function gets those of its rows as
        `sample_weight`, as scikit-learn's metrics do; of numbers with gaps it gets these as NaN.
    budget : float or str, default 60
        Seconds by the clock, last fits included; or a number of trials, "40 fits", which does not
        depend on the clock. A search ends before its seconds do where 30 trials brought no gain.
        Where seconds are too few for all rows, the best model is fitted on some of them, and a
        warning says on how many.
    random_state : None, int or Generator
        Seed of folds, sketches and trees.
    cv : int, splitter or iterable of splits, optional
        None is five folds, dealt several times where there are few rows, three or two where seconds
        are too few for these; from 6,000 rows on, one split. Each fold has its share of each class,
        and of each label of sets.
    outer_cv : int, splitter or iterable of splits, optional
        Repeat the whole search without each outer fold, and score it there: `outer_scores_`.
    ensemble : bool, default True
        Whether an average of the best trials may be chosen; it is where held-out rows say so.
    checkpoint : path, optional
        A file that keeps finished trials, written every half minute. A search that was killed goes
        on from there, with the same choice; it needs a random_state that is an int. The file is
        deleted when the fit is done.
    n_jobs : int, optional
        Threads; None means as many as BLAS would use, and all cores for forests.
    verbose : bool, default False
        Show a progress bar with what is tried and the best score so far. `fit(callback=...)`
        receives the same.
    device : str, optional
        "cuda" runs the last fit of a sketched kernel ridge on a GPU.
    encoder : TableEncoder, optional
        The encoder of a table with columns other than numbers, e.g. TableEncoder(strict=True).
    kinds : dict of str to str, optional
        The kinds of columns of a table, where they are not to be inferred: "category", "set" and
        so on, see `TableEncoder`.
    maps : sequence of str or of subclasses of `skout.apps.tuning.Map`, optional
        The maps that are tried; None is all of `skout.apps.tuning.MAPS`.
    class_weight : "balanced" or dict of class -> weight, optional
        Weight of the rows of each class in fits and in scores, times their `sample_weight`.
        "balanced" gives all classes the same total weight: accuracy is then balanced accuracy.

    Attributes
    ----------
    best_estimator_ : StructuredPredictor
        The chosen model, fitted on all rows, or on as many as there was time for.
    best_settings_ : list of dict
        The settings of its members, with weight and number of rows, None for all rows.
    results_ : list of dict
        One for each trial: metric, settings, score, standard error, seconds, rows and stage, the
        best first; `pandas.DataFrame(results_)` is a table. Trials that the clock cut off have the
        score NaN, and under "cut" the reason.
    score_, score_error_ : float
        The score of the choice and its standard error. It is cross-fitted: each part of the
        held-out rows is scored with the choice of the other parts. Trials have the settings of the
        members, and as many rows or fewer.
    outer_scores_ : ndarray
        The scores of the outer folds, if there are any.
    baselines_ : dict
        Scores of a forest and of a constant prediction on the same rows.
    candidates_ : outputs
        The distinct training outputs, of kinds that can be chosen among candidates.
    searcher_ : decoder
        The decoder that ranks candidates; candidates can be embedded once by `searcher_.embed`.
    encoder_ : TableEncoder or None
        The fitted encoder of a table with columns other than numbers.
    n_rows_ : int
        Number of rows of positive weight with an output.
    cut_ : int
        Number of trials that every search begins with, and of members, that the clock stopped,
        left out or made smaller; 0 where all of them were tried.
    left_out_ : dict
        Maps that were not tried, with the reason: with weights, neighbors.
    classes_ : ndarray
        The classes, in the order of the columns of `predict_proba`.
    labels_ : list of str
        The names of labels, if they have names, in the order of the columns of `predict_proba`.
    calibration_ : ProbabilityCalibration
        The calibration of probabilities, fitted on held-out rows.
    calibration_error_ : float
        The expected calibration error of held-out rows, cross-fitted.
    kind_ : str
        The name of the kind of outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import Tuned
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 3))
    >>> Y = (X @ rng.standard_normal((3, 4)) > 0).astype(int)  # label sets
    >>> model = Tuned(budget="4 fits", random_state=0).fit(X, Y)
    >>> model.predict(X[:2]).shape
    (2, 4)
    >>> model.kind_, len(model.results_)
    ('label_sets', 5)
    """

    #: the clock of budgets in seconds
    _now = staticmethod(time.perf_counter)
    _names: LabelNames | None = None
    labels_: list[str]
    calibration_: ProbabilityCalibration
    calibration_error_: float
    encoder_: TableEncoder | None
    score_: float
    score_error_: float
    baselines_: dict[str, float]
    interrupted_: bool
    cut_: int

    def __init__(
        self,
        kind: str | None = None,
        scoring: Scoring = None,
        budget: float | str = 60,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        *,
        cv: CV = None,
        outer_cv: CV = None,
        ensemble: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        device: str | None = None,
        encoder: TableEncoder | None = None,
        kinds: dict[str, str] | None = None,
        maps: Sequence[str | type[Map]] | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
    ) -> None:
        self.kind = kind
        self.scoring = scoring
        self.budget = budget
        self.random_state = random_state
        self.cv = cv
        self.outer_cv = outer_cv
        self.ensemble = ensemble
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.device = device
        self.encoder = encoder
        self.kinds = kinds
        self.maps = maps
        self.class_weight = class_weight

    @all_at_once
    def fit(
        self,
        X: TableLike,
        Y: Targets | None = None,
        groups: Labels = None,
        sample_weight: ArrayLike | None = None,
        callback: Callback | None = None,
        started: float | None = None,
    ) -> Tuned:
        """Search for the best model, and fit it on all rows.

        Parameters
        ----------
        X : array or CSR matrix of numbers, data frame, texts, or graphs, n rows
            A data frame of pandas or polars, a table of pyarrow or a dict of columns may have
            categories, dates, texts, sets and gaps, see `skout.TableEncoder`. Of arrays on disk
            or on a cluster, and of Blocks, all rows are brought into memory.
        Y : outputs, n of them
            None if X are `Blocks`, which have them, and weights where they do. Numbers may have
            gaps, NaN: each column is fitted and scored on the rows that have it. Label sets are
            rows of 0 and 1, lists of labels, or texts such as "a;b", and are predicted as such. A
            column of X that is Y itself is left out.
        groups : array of n labels, optional
            Rows of one group are in one fold.
        sample_weight : array of shape (n,), optional
            Weights of rows in fits and in scores; only their ratios matter. Rows of weight 0 are
            left out before anything is computed. Scales of columns and widths of kernels are those
            of the other rows, without weights.
        callback : callable, optional
            Called with a `skout.apps.tuning.TuningProgress` before and after each trial: its
            settings, its score, the best so far, seconds.
        started : float, optional
            The time, by `time.perf_counter`, from which the budget counts, e.g. before X was read.
            None is now.

        Returns
        -------
        self : Tuned
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # of an earlier fit
        budget = Budget.of(self.budget)
        clock = Clock(budget.seconds, self._now, started)
        if self.checkpoint is not None and not isinstance(self.random_state, int | np.integer):
            raise ValueError("checkpoint needs a random_state that is an int.")
        seed = int(check_rng(self.random_state).integers(2**31))
        X = without_target(X, Y)
        try:
            with progress_bar(self.verbose, callback) as on_trial:
                data = counted(X, Y, groups, sample_weight)
                return self._fit(data, budget, seed, clock, on_trial)
        except KeyboardInterrupt:
            text = "Tuned.fit was interrupted before it had a model."
            raise KeyboardInterrupt(text) from None

    def _fit(
        self, data: TuningData, budget: Budget, seed: int, clock: Clock, callback: Callback | None
    ) -> Tuned:
        """Search, choose, fit the chosen model on all rows, and return self."""
        scoring, rows, data = self._checked(data)
        kind = scoring.kind
        if is_one_row(data.weights):
            text = "sample_weight: one row counts more than all others together, in scores too."
            warnings.warn(text, UserWarning, stacklevel=5)
        self.kind_: str = kind.name
        self._kind = scoring.metric_name
        search, basis = self._searched(scoring, rows, data, budget, seed, clock, callback)
        chosen = choice_of(search, scoring.by_column, self.ensemble)
        winner, seconds = self._winner(search, chosen, seed)
        decoder = kind.decoders(data.Y)[chosen.decoder]
        model = StructuredPredictor(winner, clone(basis), decoder)

        def has_time(member: int) -> bool:
            return seconds[member] <= clock.left + _BEYOND * clock.seconds

        timed: dict[str, Any] = {"has_time": has_time} if np.isfinite(clock.seconds) else {}
        self.best_estimator_: StructuredPredictor = model.fit(
            rows, data.Y, **weighed(data.weights), **timed
        )
        if kind.has_candidates:
            distinct = unique(model.output_basis_.kernel_.encode(data.Y))[0]
            self.candidates_: Any = take(data.Y, distinct[:_MOST_CANDIDATES])
        self.searcher_: Any = self._searcher()
        self._describe(scoring, data.Y, basis, search, chosen, winner.rows)
        if kind.has_probabilities:
            self._calibrate(data.Y, basis, search, chosen)
        if search.checkpoint is not None and not search.interrupted:
            search.checkpoint.remove()
        if self.outer_cv is not None:
            self.outer_scores_: np.ndarray = self._outer(data, seed)
        return self

    def _calibrate(self, Y: Any, basis: Any, search: ModelSearch, chosen: Chosen) -> None:
        """Fit the calibration of probabilities on held-out rows, and its error."""
        folds = search.sample.folds
        block = np.empty(folds.n_held, dtype=int)
        for (rows, _), number in zip(folds.parts, folds.blocks, strict=True):
            block[rows] = number
        self.calibration_, self.calibration_error_ = calibrated(
            basis.probabilities(chosen.F.astype(np.float64)),
            codes_of(basis, take(Y, folds.held)),
            block,
            are_sets=not hasattr(basis, "classes_"),
            weights=folds.held_weights,
        )

    def _checked(self, data: TuningData) -> tuple[OutputScoring, Any, TuningData]:
        """Return the scoring of the outputs, rows as models take them, and the checked data."""
        name, names = read_kind(data.Y, self.kind)
        scoring = OutputScoring(resolve(name, KINDS, "kind"), self.scoring)
        if names is not None:
            self._names, self.labels_ = names, list(names.labels)
            data = replace(data, Y=names.read(data.Y))
        with named("X"):
            self.encoder_, rows = first_inputs(data.X, self.encoder, self.kinds)
            columns = names_of(data.X)
        if columns is not None:
            self.feature_names_in_ = columns
        if width_of(rows) is not None:
            self.n_features_in_: int | None = width_of(rows) if columns is None else len(columns)
        with named("Y"):
            data = replace(data, Y=scoring.check(data.Y))
        scoring.check_scorer(data.Y)
        if self.class_weight is not None:
            data = with_class_weight(data, self.class_weight, scoring.kind.name)
        if data.weights is not None:
            scoring.check_weights()
        kept = observed_rows(data.Y)
        if len(kept) < n_rows(rows):
            rows, data = take(rows, kept), data.at(kept)
        if n_rows(rows) < _LEAST_ROWS:
            raise ValueError(
                f"Tuned needs at least {_LEAST_ROWS} rows to hold some out. Got {n_rows(rows)} "
                "sample(s): fit a model of your choice, e.g. skout.iokr."
            )
        check_single_precision(rows)
        return scoring, rows, data

    def _searched(
        self,
        scoring: OutputScoring,
        X: Any,
        data: TuningData,
        budget: Budget,
        seed: int,
        clock: Clock,
        callback: Callback | None,
    ) -> tuple[ModelSearch, Any]:
        """Run the search, and return it with the fitted output basis."""
        kind, Y = scoring.kind, data.Y
        basis: Any = kind.basis(Y, seed)
        with named("Y"):
            T = np.asarray(basis.fit_transform(Y))
        maps = checked_maps(self.maps)
        labels = codes_of(basis, Y) if kind.has_probabilities else None
        for n_folds in _FOLDS:
            folds = make_folds(
                n_rows(X),
                seed,
                cv=self.cv,
                groups=data.groups,
                width=T.shape[1],
                y=Y,
                weights=data.weights,
                place=data.place,
                labels=labels,
                n_folds=n_folds,
            )
            sample = Sample(X, T, folds, seed, self.n_jobs, clock)
            outputs = sample.outputs()
            profile = profile_of(
                X,
                folds.n_train,
                max(part.T.shape[1] for _, part in outputs),
                is_binary=kind.is_binary(Y),
                groups=column_groups(self.encoder_),
                is_weighted=data.weights is not None,
                is_skewed=kind.estimator_type == "regressor" and bool(are_skewed(T).any()),
                n_models=sum(part.folds.n_train for _, part in outputs) / folds.n_train,
            )
            if len(folds.splits) < n_folds or has_time_for(maps, profile, folds, budget):
                break
        metric = scoring.on_folds(basis, Y, folds)
        truth, name = T[folds.held].astype(np.float32), spoken(scoring.metric_name)
        n_calls = folds.n_parts * len(kind.decoders(Y))
        merit = Merit(metric, truth, folds, name, scoring.seconds(n_calls))
        checkpoint = self._opened(sample, scoring, merit)
        decoders = list(kind.decoders(Y))
        search = ModelSearch(sample, profile, merit, decoders, budget, maps, checkpoint, callback)
        search.run()
        if not search.trials:
            why = search.failed[0] if search.failed else "the budget is too small for any"
            raise ValueError(f"No trial succeeded: {why}.")
        return search, basis

    def _opened(self, sample: Sample, scoring: OutputScoring, merit: Merit) -> Checkpoint | None:
        """Return the checkpoint, identified by all that the choice depends on, or None."""
        if self.checkpoint is None:
            return None
        folds, truth = sample.folds, np.nan_to_num(merit.truth)
        # a function is identified by its name, and by the scores of wrong predictions
        other = np.roll(truth, 1, axis=0)
        scores = [merit.metric((1.0 - share) * truth + share * other) for share in _OTHER]
        return Checkpoint(
            self.checkpoint,
            data=digest(sample.X, sample.T),
            sample_weight="" if folds.row_weights is None else digest(folds.row_weights),
            splits=digest(*(rows for split in folds.splits for rows in split)),
            random_state=self.random_state,
            kind=scoring.kind.name,
            budget=self.budget,
            scoring=[scoring.metric_name, np.round(scores, 6).tolist()],
            maps=[kind.name for kind in checked_maps(self.maps)],
        )

    def _winner(
        self, search: ModelSearch, chosen: Chosen, seed: int
    ) -> tuple[Averaged, list[float]]:
        """Return the average to fit, and the estimated seconds of each member's last fit."""
        sizes, has_gaps = last_sizes(search, chosen), bool(np.isnan(search.sample.T).any())
        built = [(size, size.build(seed, self.n_jobs, self.device)) for size in sizes]
        members = [size.estimator(model, has_gaps) for size, model in built]
        rows = [size.rows for size in sizes]
        is_whole = all(most is None for most in rows)
        winner = Averaged(members, chosen.weights, *(() if is_whole else (rows, seed)))
        pairs = zip(chosen.trials, sizes, strict=True)
        return winner, [search.last_seconds(trial, size) for trial, size in pairs]

    def _describe(
        self,
        scoring: OutputScoring,
        Y: Any,
        basis: Any,
        search: ModelSearch,
        chosen: Chosen,
        rows: Sequence[int | None] | None,
    ) -> None:
        """Set the attributes of what was chosen, of the results of all trials and of baselines."""
        self.score_, self.score_error_ = chosen.score, chosen.error
        fitted = self.best_estimator_.regressor_
        weights = fitted.weights_.reshape(len(fitted.used_), -1).mean(axis=1).tolist()
        self.best_settings_: list[dict[str, Any]] = [
            {
                **chosen.trials[k].settings.settings(),
                "rows": None if rows is None else rows[k],
                "decoder": chosen.decoder,
                "weight": weight,
            }
            for k, weight in zip(fitted.used_, weights, strict=True)
        ]
        self.baselines_, self._forest_rows = baselines_of(scoring, Y, basis, search)
        self.results_: list[dict[str, Any]] = rows_of(
            search, self._kind, self.baselines_["constant"]
        )
        self.n_splits_: int = len(search.sample.folds.splits)
        self.left_out_: dict[str, str] = search.left_out
        left = len(chosen.trials) - len(fitted.used_)
        self.interrupted_, self.cut_ = search.interrupted, len(search.cut) + chosen.cut + left
        self.n_rows_: int = n_rows(search.sample.X)
        fitted_rows = rows_line(self)
        if fitted_rows:
            warnings.warn(
                f"{fitted_rows.capitalize()}, as many as a budget of {self.budget:g} s has time "
                "for: a larger one takes more.",
                UserWarning,
                stacklevel=6,
            )

    def _outer(self, data: TuningData, seed: int) -> np.ndarray:
        """Return the score of the whole search on each outer fold."""
        n, how = n_rows(data.Y), {"groups": data.groups, "place": data.place}
        basis = self.best_estimator_.output_basis_
        labels = codes_of(basis, data.Y) if hasattr(self, "calibration_") else None
        folds = make_folds(n, seed + 1, cv=self.outer_cv, y=data.Y, labels=labels, **how)
        scores = []
        for train, held in folds.splits:
            inner = clone(self).set_params(outer_cv=None, checkpoint=None, kind=self.kind_)
            inner.set_params(random_state=seed)
            seen, new = data.at(train), data.at(held)
            inner.fit(seen.X, seen.Y, seen.groups, seen.weights)
            scores.append(inner.score(new.X, new.Y, sample_weight=new.weights))
        return np.array(scores)

    def predict(self, X: TableLike, candidates: Candidates = None) -> Any:
        """Predict an output for each row of X.

        Parameters
        ----------
        X : as in fit, n rows
        candidates : outputs, CandidateSets or list of lists, optional
            What to choose from. None is what the chosen decoder does: for label sets, rankings and
            numbers it builds the output; other objects are chosen among those of training.

        Returns
        -------
        outputs : n of them
        """
        outputs = self._predicted(X, candidates)
        return outputs if self._names is None else self._names.write(outputs)

    def _predicted(self, X: TableLike, candidates: Candidates = None) -> Any:
        """Return predictions of the model; label sets are rows of 0 and 1, without names."""
        rows = self._rows(X)
        if candidates is None:
            return self.best_estimator_.predict(rows)
        if self._names is not None:
            candidates = self._names.read(candidates)
        F = self.best_estimator_.predict_coordinates(rows)
        return self.searcher_.decode(F, candidates)

    def _rows(self, X: TableLike) -> Any:
        """Return X as the model takes it, or raise where it does not fit."""
        check_is_fitted(self)
        rows = read_inputs(X, self.encoder_, getattr(self, "feature_names_in_", None))
        width = getattr(self, "n_features_in_", None)
        if self.encoder_ is None and width is not None and width_of(rows) != width:
            what = width_of(rows) or f"a {type(X).__name__} of objects"
            raise ValueError(f"X must have {width} columns, as in fit. Got {what}.")
        return rows

    def rank(
        self, X: TableLike, candidates: Candidates = None, k: int = 10
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rank the candidates of each row of X.

        Parameters
        ----------
        X : as in fit, n rows
        candidates : outputs, CandidateSets or list of lists, optional
            Default the distinct training outputs, `candidates_`.
        k : int, default 10
            Number of candidates to return for each row.

        Returns
        -------
        indices : ndarray of int, shape (n, k)
            Positions of the candidates, best first.
        scores : ndarray of shape (n, k)
            2 <f(x), z(c)> - k(c, c).
        """
        F = self.best_estimator_.predict_coordinates(self._rows(X))
        indices, scores = self.searcher_.rank(F, candidates, k)
        return indices, scores

    @property
    def classes_(self) -> np.ndarray:
        """The classes, of outputs that are classes."""
        return np.asarray(self.best_estimator_.output_basis_.classes_)

    @available_if(_has_probabilities)
    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Return the calibrated probability of each class, or of each label.

        Coordinates of classes and label sets estimate probabilities, which `calibration_`, fitted
        on held-out rows, calibrates. The labels of a predicted set need not be those above 1/2:
        they are chosen for the metric.

        Parameters
        ----------
        X : as in fit, n rows

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes), rows of sum 1, or (n, n_labels)
        """
        F = self.best_estimator_.predict_coordinates(self._rows(X))
        estimates = self.best_estimator_.output_basis_.probabilities(F)
        calibration = getattr(self, "calibration_", None)  # older files have none
        return np.asarray(estimates if calibration is None else calibration.apply(estimates))

    @available_if(_has_probabilities)
    def decision_function(self, X: TableLike) -> np.ndarray:
        """Return the scores behind `predict_proba`, which are not clipped to [0, 1].

        Parameters
        ----------
        X : as in fit, n rows

        Returns
        -------
        scores : ndarray of shape (n, n_classes), (n,) of two classes, or (n, n_labels)
        """
        F = self.best_estimator_.predict_coordinates(self._rows(X))
        return np.asarray(self.best_estimator_.output_basis_.scores(F))

    def _searcher(self) -> Any:
        """Return the decoder that ranks candidates by the output coordinates."""
        decoder = self.best_estimator_.decoder_
        if not hasattr(self, "candidates_") or callable(getattr(decoder, "embed", None)):
            return decoder
        basis: Any = self.best_estimator_.output_basis_
        return CandidateDecoder().fit(basis, self.candidates_)

    def score(
        self,
        X: TableLike,
        Y: Targets,
        candidates: Candidates = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the score of predictions, by the metric that chose the model.

        Parameters
        ----------
        X : as in fit, n rows
        Y : outputs, n of them
        candidates : optional
            As in `predict`.
        sample_weight : array of shape (n,) of weights of rows, optional

        Returns
        -------
        score : float, the greater the better
        """
        check_is_fitted(self)
        scoring = OutputScoring(resolve(self.kind_, KINDS, "kind"), self.scoring)
        metric = scoring.metric(self.best_estimator_.output_basis_)
        with named("Y"):
            truth = scoring.check(Y if self._names is None else self._names.read(Y))
        if scoring.takes_probabilities:
            predicted = self.predict_proba(X)
        else:
            predicted = self._predicted(X, candidates)
        if self._names is not None and truth.shape[1] > predicted.shape[1]:  # labels that are new
            predicted = sparse.csr_matrix(predicted, copy=True)
            predicted.resize(truth.shape)
        data = counted(predicted, truth, None, sample_weight)
        if data.weights is not None:
            scoring.check_weights()
        data = data.with_outputs()
        return float(metric(data.Y, data.X, **weighed(data.weights)))

    def summary(self, *, brief: bool = False) -> str:
        """Return one line with the score, its standard error and the baselines.

        Parameters
        ----------
        brief : bool, default False
            Whether to leave out the number of rows, what the clock stopped, and the columns.

        Returns
        -------
        line : str
            E.g. "F1 0.437 +- 0.006 in 5 folds; a forest 0.402; the most frequent set 0.210".
        """
        check_is_fitted(self)
        return line(self, brief=brief)

    def plot(self, ax: Axes | None = None) -> Any:
        """Draw the score of each trial, with its standard error, against its seconds.

        Parameters
        ----------
        ax : matplotlib axes to draw on, default new ones

        Returns
        -------
        ax : matplotlib axes
        """
        check_is_fitted(self)
        return drawn(self, ax)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the trials, as a table and as a plot."""
        if not hasattr(self, "results_"):
            return super()._repr_html_()
        return page(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kind = _kind_of(self)
        if kind is not None and kind.estimator_type == "classifier":
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
