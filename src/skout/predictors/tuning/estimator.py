"""A model that chooses itself, by the metric of its outputs, within a budget."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..._numerics.arrays import n_rows, take, unique
from ..._numerics.pages import OnPages
from ..._numerics.validation import FramesOut, all_at_once, check_number, check_rng, resolve
from ...decoding import CandidateDecoder
from ...predictor import StructuredPredictor
from ...rows.encode import named
from .checkpoint import Checkpoint, digest_of
from .choosing import column_choices, last_seconds, steps, within
from .folds import make_folds
from .inputs import check_spread, column_groups, encoder_of, names_of, read_inputs, width_of
from .kinds import KINDS, Kind, guess_kind
from .maps import Averaged, build
from .report import drawn, line, rows_of
from .search import Budget, Search, Trial
from .space import family, profile_of
from .stacking import Judge, Votes, choose, cross_fitted, unit
from .trials import Sample

__all__ = ["Tuned"]

_LEAST_ROWS = 10
# Standard errors by which one member must be better than an average to be preferred.
_CLEARLY = 1.0
# Trees of a forest in the last fit, if there is time.
_TREES = 300
# Training outputs that are kept to choose from.
_MOST_CANDIDATES = 100_000


class Tuned(FramesOut, OnPages):
    """Choose a model by the metric of its outputs, within a budget, and fit it on all rows.

    Scalings of columns, input kernels and their widths, penalties, intercepts, sketches and the map
    itself (kernel ridge, forests, boosting, neighbours), decoders and averages of the best are
    compared on held-out rows. All maps predict the same output coordinates, so that what is
    averaged is decoded once. The plan follows the cost of trials on a reference machine, not the
    clock: the same seed makes the same choice.

    Parameters
    ----------
    kind : str, optional
        What the outputs are: "label_sets", "rankings", "numbers", "classes", "strings", "smiles",
        "graphs" or "spectra". None tells the first three from what Y holds, and classes where they
        are booleans or of a categorical type, and asks where that is not clear.
    scoring : None, str or callable (Y, predictions) -> float, default None
        None is the metric of the kind: example F1 of label sets, Kendall's tau of rankings, the
        mean over columns of R2 for numbers. Names are those of `skout.metrics.scoring.METRICS`.
    budget : float or str, default 60
        Seconds on two cores, of which about 85 % are planned; or a number of trials, "40 fits".
    random_state : None, int or Generator
    cv : int, splitter or iterable of splits, optional
        None is five folds, dealt several times where there are few rows; from 6,000 rows on, one
        split.
    outer_cv : int, splitter or iterable of splits, optional
        Repeat the whole search without each outer fold, and score it there: `outer_scores_`.
    ensemble : bool, default True
        Whether an average of the best trials may be chosen; it is where held-out rows say so.
    checkpoint : path, optional
        A folder that keeps finished trials. A search that was killed goes on from there, with the
        same choice; it needs a random_state that is an int. It is emptied when the fit is done.
    n_jobs : int, optional
        Threads; None means as many as BLAS would use, and all cores for forests.
    verbose : bool, default False
        Show a progress bar with the best score so far.
    device : str, optional
        "cuda" lets the last fit of a sketched kernel ridge run on a card.

    Attributes
    ----------
    best_estimator_ : StructuredPredictor
        The winner, fitted on all rows.
    best_settings_ : list of dict
        Of its members, each with its weight.
    results_ : list of dict
        One for each trial: settings, score, standard error, seconds, rows and stage, the best
        first; `pandas.DataFrame(results_)` is a table.
    score_, score_error_ : float
        The score of the choice and its standard error: each part of the held-out rows is scored by
        what the other parts choose, so that no row chooses for itself.
    outer_scores_ : ndarray
        The scores of the outer folds, if there are any.
    baselines_ : dict
        Scores of a forest and of a constant prediction on the same rows.
    candidates_ : outputs
        The distinct training outputs, of kinds that can be chosen among candidates.
    searcher_ : decoder
        What ranks candidates; what it has embedded, `searcher_.embed`, can be given as candidates.
    encoder_ : TableEncoder or None
        What made numbers of a table that has more than these.
    kind_ : str

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

    # A pipeline hands it on to `score`, also where it is None.
    __metadata_request__score: ClassVar = {"sample_weight": None}

    def __init__(
        self,
        kind: str | None = None,
        scoring: Any = None,
        budget: Any = 60,
        random_state: Any = None,
        *,
        cv: Any = None,
        outer_cv: Any = None,
        ensemble: bool = True,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        device: str | None = None,
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

    @all_at_once
    def fit(self, X: Any, Y: Any, groups: Any = None) -> Tuned:
        """Search, and fit the winner on all rows.

        Parameters
        ----------
        X : array or CSR matrix of numbers, data frame, texts, or graphs, n rows
            A data frame of pandas or polars, a table of pyarrow or a dict of columns may have
            categories, dates, texts, sets and gaps, see `skout.TableEncoder`.
        Y : outputs, n of them
        groups : array of n labels, optional
            Rows of one group are in one fold.

        Returns
        -------
        self : Tuned
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # of an earlier fit
        budget = as_budget(self.budget)
        if self.checkpoint is not None and not isinstance(self.random_state, int | np.integer):
            raise ValueError("checkpoint needs a random_state that is an int.")
        seed = int(check_rng(self.random_state).integers(2**31))
        kind, rows, Y = self._checked(X, Y)
        self.kind_ = kind.name
        self._kind = kind.metric_name
        search, basis = self._searched(kind, rows, Y, groups, budget, seed)
        weights, decoder = self._choose(kind, search)
        model = self._winner(search, weights, clone(basis), kind.decoder(decoder), seed)
        self.best_estimator_ = model.fit(rows, Y)
        if kind.has_candidates:
            distinct = unique(model.output_basis_.kernel_.encode(Y))[0]
            self.candidates_ = take(Y, distinct[:_MOST_CANDIDATES])
        self.searcher_ = self._searcher()
        self._describe(kind, search)
        if search.checkpoint is not None and not search.interrupted:
            search.checkpoint.remove()
        if self.outer_cv is not None:
            self.outer_scores_ = self._outer(X, Y, groups, seed)
        return self

    def _checked(self, X: Any, Y: Any) -> tuple[Kind, Any, Any]:
        if isinstance(Y, str | bytes | dict) or not hasattr(Y, "__len__"):
            raise TypeError(f"Y must be outputs, one for each row. Got {type(Y).__name__}.")
        name = guess_kind(Y) if self.kind is None else self.kind
        kind: Kind = resolve(name, KINDS, "kind")(self.scoring)
        with named("X"):
            self.encoder_ = encoder_of(X)
            names = names_of(X)
            rows = read_inputs(X, self.encoder_, names)
        if names is not None:
            self.feature_names_in_ = names
        if width_of(rows) is not None:
            self.n_features_in_ = width_of(rows) if names is None else len(names)
        with named("Y"):
            Y = kind.checked(Y)
        _check_lengths(rows, Y)
        if n_rows(rows) < _LEAST_ROWS:
            raise ValueError(
                f"Tuned needs at least {_LEAST_ROWS} rows to hold some out. Got {n_rows(rows)} "
                "sample(s): fit a model of your choice, e.g. skout.iokr."
            )
        check_spread(rows)
        return kind, rows, Y

    def _searched(
        self, kind: Kind, X: Any, Y: Any, groups: Any, budget: Budget, seed: int
    ) -> tuple[Search, Any]:
        """Run all trials, and return them with the output basis."""
        basis = kind.basis(Y, seed)
        with named("Y"):
            T = np.asarray(basis.fit_transform(Y))
        folds = make_folds(n_rows(X), seed, cv=self.cv, groups=groups, width=T.shape[1], y=Y)
        sample = Sample(X, T, folds, seed, self.n_jobs)
        columns = column_groups(self.encoder_)
        profile = profile_of(X, folds.n_train, T.shape[1], kind.is_binary, columns)
        judge = Judge(kind.judge(basis, Y, folds), T[folds.held].astype(np.float32), folds)
        checkpoint = None
        if self.checkpoint is not None:
            facts = digest_of(X, T, seed, self.kind_, str(self.budget), repr(self.scoring))
            checkpoint = Checkpoint(self.checkpoint, facts)
        search = Search(sample, profile, judge, kind.decoders(), budget, checkpoint, self.verbose)
        search.run()
        if not search.trials:
            why = search.failed[0]["error"] if search.failed else "the budget has no room for any"
            raise ValueError(f"No trial succeeded: {why}.")
        return search, basis

    def _candidates(self, search: Search) -> list[Trial]:
        """Return the trials to choose from, best first."""
        ranked = sorted(search.finalists(), key=lambda one: -one.merit)
        first: list[Trial] = []
        rest: list[Trial] = []
        met: set[str] = set()
        for one in ranked:  # the best of each map stays
            (rest if one.settings["map"] in met else first).append(one)
            met.add(one.settings["map"])
        kept = [*first, *rest][: steps(search)]
        return sorted(kept, key=lambda one: -one.merit)

    def _choose(self, kind: Kind, search: Search) -> tuple[np.ndarray, dict[str, Any]]:
        """Choose one trial, or an average where that does better on rows that did not choose it.

        Return the weights of `best_settings_`, of all outputs or of each, and what decodes them.
        """
        members, folds = self._candidates(search), search.sample.folds
        votes = Votes([one.F for one in members], search.judge)
        votes.known |= {unit(i, len(members)): one.table for i, one in enumerate(members)}
        honest, most = cross_fitted(votes, 1), 1
        if self.ensemble and len(votes.F) > 1:
            averaged = cross_fitted(votes, steps(search))
            # averages vary less with the rows: one member must be clearly better
            if (honest - averaged) @ folds.weights <= _CLEARLY * folds.error(honest - averaged):
                honest, most = averaged, steps(search)
        choice = choose(votes, np.arange(folds.n_parts), most)
        weights = np.tile(choice.weights[:, None], (1, votes.F[0].shape[1]))
        if most > 1 and kind.by_column and weights.shape[1] > 1:
            own, each = column_choices(votes, most)
            if own @ folds.weights > honest @ folds.weights:
                honest, weights = own, each
        self.score_, self.score_error_ = float(honest @ folds.weights), folds.error(honest)
        weights = within(weights, members, search)
        decoder = search.decoders[choice.decoder]
        used = np.flatnonzero(weights.any(axis=1))
        self.best_settings_ = [
            {**members[i].settings, **decoder, "weight": float(weights[i].mean())} for i in used
        ]
        return weights[used] if np.ptp(weights, axis=1).any() else weights[used, 0], decoder

    def _winner(
        self, search: Search, weights: np.ndarray, basis: Any, decoder: Any, seed: int
    ) -> StructuredPredictor:
        """Return the chosen members as a model to fit on all rows, larger where there is time."""
        share = search.budget.for_last_fits / len(self.best_settings_)

        def larger(settings: dict[str, Any], **more: int) -> dict[str, Any]:
            grown = settings | more
            return grown if last_seconds(search, [grown]) < share else settings

        members = []
        for settings in self.best_settings_:
            if settings.get("rows") is not None and settings.get("sketch") is not None:
                settings = larger(settings, sketch=2 * settings["sketch"])  # for more rows
            if "n_estimators" in settings:
                settings = larger(settings, n_estimators=_TREES)
            members.append(build(settings, seed, self.n_jobs, self.device))
        return StructuredPredictor(Averaged(members, weights), basis, decoder)

    def _describe(self, kind: Kind, search: Search) -> None:
        """Note the results of all trials and the baselines."""
        folds = search.sample.folds
        T = search.sample.T
        parts = [np.tile(kind.constant(T[train]), (len(held), 1)) for train, held in folds.splits]
        table = search.judge.metric(np.concatenate(parts).astype(np.float32))
        constant = float((table @ folds.weights).max())
        forests = [one for one in search.trials if family(one.settings) == "forest"]
        plain = [one for one in forests if one.stage == "baseline"]
        if plain and not plain[0].is_full:  # not a fair one
            plain = [one for one in forests if one.is_full] or plain
        self.baselines_ = {"constant": constant}
        if plain:
            self.baselines_["forest"] = plain[0].score
        self._forest_rows = plain[0].settings.get("rows") if plain else None
        self.results_ = rows_of(search, constant)
        self.n_splits_ = len(folds.splits)
        self.interrupted_ = search.interrupted

    def _outer(self, X: Any, Y: Any, groups: Any, seed: int) -> np.ndarray:
        """Return the score of the whole search on each outer fold."""
        folds = make_folds(n_rows(Y), seed + 1, cv=self.outer_cv, groups=groups, y=Y)
        scores = []
        for train, held in folds.splits:
            inner = clone(self).set_params(outer_cv=None, checkpoint=None, kind=self.kind_)
            inner.set_params(random_state=seed)
            own = None if groups is None else np.asarray(groups)[train]
            inner.fit(take(X, train), take(Y, train), own)
            scores.append(inner.score(take(X, held), take(Y, held)))
        return np.array(scores)

    def predict(self, X: Any, candidates: Any = None) -> Any:
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
        rows = self._rows(X)
        if candidates is None:
            return self.best_estimator_.predict(rows)
        F = self.best_estimator_.predict_coordinates(rows)
        return self.searcher_.decode(F, candidates)

    def _rows(self, X: Any) -> Any:
        """Return what the models take of X."""
        check_is_fitted(self)
        encoder = getattr(self, "encoder_", None)  # older files have none
        rows = read_inputs(X, encoder, getattr(self, "feature_names_in_", None))
        known = getattr(self, "n_features_in_", None)
        if encoder is None and known is not None and width_of(rows) != known:
            given = width_of(rows) or f"a {type(X).__name__} of objects"
            raise ValueError(f"X must have {known} columns, as in fit. Got {given}.")
        return rows

    def rank(self, X: Any, candidates: Any = None, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Rank the candidates of each row of X.

        Parameters
        ----------
        X : as in fit, n rows
        candidates : outputs, CandidateSets or list of lists, optional
            Default the distinct training outputs, `candidates_`.
        k : int, default 10

        Returns
        -------
        indices : ndarray of int, shape (n, k)
        scores : ndarray of shape (n, k)
            2 <f(x), z(c)> - k(c, c).
        """
        F = self.best_estimator_.predict_coordinates(self._rows(X))
        return self.searcher_.rank(F, candidates, k)

    def _searcher(self) -> Any:
        """Return what ranks candidates by the output coordinates."""
        decoder = self.best_estimator_.decoder_
        if not hasattr(self, "candidates_") or callable(getattr(decoder, "embed", None)):
            return decoder
        return CandidateDecoder().fit(self.best_estimator_.output_basis_, self.candidates_)

    def score(self, X: Any, Y: Any, candidates: Any = None) -> float:
        """Return how good predictions are, by the metric that chose the model.

        Parameters
        ----------
        X : as in fit, n rows
        Y : outputs, n of them
        candidates : optional
            As in `predict`.

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        kind: Kind = KINDS[self.kind_](self.scoring)
        metric = kind.measured(self.best_estimator_.output_basis_)
        with named("Y"):
            Y = kind.checked(Y)
        found = self.predict(X, candidates)
        _check_lengths(found, Y)
        return float(metric(Y, found))

    def summary(self) -> str:
        """Return one line on what was found.

        Returns
        -------
        line : str
            E.g. "F1 0.437 +- 0.006 in 5 folds; a forest 0.402; the most frequent set 0.210".
        """
        check_is_fitted(self)
        return line(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw the score of each trial against its seconds.

        Parameters
        ----------
        ax : matplotlib axes, optional

        Returns
        -------
        ax : matplotlib axes
        """
        check_is_fitted(self)
        return drawn(self, ax)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _check_lengths(rows: Any, Y: Any) -> None:
    if n_rows(rows) != n_rows(Y):
        raise ValueError(f"X and Y must be of equal length. Got {n_rows(rows)} and {n_rows(Y)}.")


def as_budget(budget: Any) -> Budget:
    """Return a budget from seconds, or from a text such as "40 fits"."""
    if isinstance(budget, str):
        found = re.fullmatch(r"\s*(\d+)\s*fits?\s*", budget)
        if found is None or int(found[1]) == 0:
            raise ValueError(
                f'budget must be seconds, or a number of fits such as "40 fits". Got {budget!r}.'
            )
        return Budget(fits=float(found[1]))
    return Budget(seconds=float(check_number(budget, "budget", strict=True)))
