"""Ensembles of structured predictors: mean of scores, best score, mean of ranks (5.19, 5.23).

A sketched predictor depends on the draw of its sketches, a network on its seed. Members that differ
by draw see the same candidates in coordinates of their own; what they share is the score of a
candidate, 2 <f(x), z(c)> - k(c, c), an estimate of k(c, c) - ||h(x) - psi(c)||^2 up to a constant.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.metadata_routing import _routing_enabled, process_routing
from sklearn.utils.validation import check_is_fitted

from .._numerics.arrays import has_rows, match, n_rows, take
from .._numerics.estimators import frames_out
from .._numerics.objects import stack
from .._numerics.typing import (
    Candidates,
    Estimator,
    Floats,
    Objects,
    RandomState,
    Rng,
    Weights,
)
from .._numerics.validation import check_choice, check_number, check_rng
from ..decoding import EmbeddedPool
from ..decoding.base import able
from ..decoding.ensembles import COMBINE, Blend, EmbeddedPools
from ..decoding.pools import in_own_set, truth_in
from ..decoding.search import Found
from ..metrics import mean_reciprocal_rank
from ..metrics.retrieval import share_of
from ..predictor import StructuredPredictor
from ..rows import reread
from .lists import RankingPredictor
from .out_of_fold import params_of_rows


@frames_out
class Ensemble(RankingPredictor):
    """Structured predictors that differ by seed, and rank candidates together.

    Searches are exact, whatever the `index` of the members' decoders.

    Parameters
    ----------
    predictor : StructuredPredictor
        A predictor that ranks candidates. Every `random_state` in it is drawn again for each
        member, and the number of the member is appended to the path of a checkpoint.
    n_members : int, default 3
        Number of members.
    combine : "mean", "max" or "rank", default "mean"
        A candidate's score is the weighted mean of the members' scores, the largest of them
        (5.19), or minus the weighted mean of its ranks by the members (5.23), where equal scores
        share the mean of their ranks. Ranks suit members whose scores are not on one scale.
    weights : sequence of n_members floats, optional
        Not negative; they are scaled to a sum of one. None is equal weights; `tune` finds better
        ones. A maximum is over the members of positive weight.
    split : bool, default False
        Whether each member gets a part of its own of the rows, drawn at random: batches (p. 116),
        whose fits take less time and memory than one of all rows. The mean of the members' scores
        is then the score of the mean of their regression functions.
    random_state : None, int or Generator
        Seed of the members' seeds.

    Attributes
    ----------
    members_ : list of StructuredPredictor
        The fitted members.
    weights_ : ndarray of shape (n_members,)
        Summing to one.
    combine_ : str
        The strategy in use.
    validation_score_ : float
        Mean reciprocal rank that `tune` reached.
    n_features_in_, feature_names_in_
        Those of the first member, if it has them.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import Ensemble, sisokr
    >>> X = np.arange(20.0)[:, None]
    >>> Y = np.where(X < 10, [[1, 0, 1]], [[0, 1, 1]])
    >>> model = Ensemble(sisokr("gaussian", "tanimoto"), 3, random_state=0).fit(X, Y)
    >>> model.predict([[1.0], [18.0]])
    array([[1, 0, 1],
           [0, 1, 1]])
    """

    _inner = "predictor"

    combine_: str
    members_: list[Estimator]
    weights_: np.ndarray
    validation_score_: float

    def __init__(
        self,
        predictor: Estimator,
        n_members: int = 3,
        *,
        combine: str = "mean",
        weights: Weights = None,
        split: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.predictor = predictor
        self.n_members = n_members
        self.combine = combine
        self.weights = weights
        self.split = split
        self.random_state = random_state

    @classmethod
    def of(
        cls, models: Sequence[Estimator], *, combine: str = "mean", weights: Weights = None
    ) -> Ensemble:
        """Make an ensemble of predictors that are fitted already.

        Their kernels, sketches and regressors may differ. If their training outputs do, too,
        `candidates` must be given.

        Parameters
        ----------
        models : sequence of fitted StructuredPredictor
            The members.
        combine : "mean", "max" or "rank", default "mean"
            How scores are combined, see `Ensemble`.
        weights : sequence of floats, optional
            One for each model, not negative; default equal weights.
        """
        if not isinstance(models, Iterable):
            raise TypeError(f"models must be a list of predictors. Got {models!r} instead.")
        models = list(models)
        if not models:
            raise ValueError("models is empty: give at least one fitted StructuredPredictor.")
        for model in models:
            _check_predictor(model, "models")
            check_is_fitted(model, "decoder_")
        ensemble = cls(models[0], len(models), combine=combine, weights=weights)
        return ensemble._ready(models, ensemble._checked_weights())

    def fit(self, X: Objects, Y: Objects | None = None, **fit_params: object) -> Ensemble:
        """Fit the members, one after another, each with seeds of its own.

        Parameters
        ----------
        X : what the predictor takes, n rows, or Blocks
        Y : objects, n of them
            None if X are `Blocks`, which have them.
        **fit_params
            Passed to the fit of each member.
        """
        _check_predictor(self.predictor, "predictor")
        weights = self._checked_weights()
        rng = check_rng(self.random_state)
        if _routing_enabled():
            fit_params = process_routing(self, "fit", **fit_params).predictor.fit
        params = self.predictor.get_params()
        # every seed, but for those of parts given by name, which are exact bases
        owners = {name: name.rpartition("__") for name in params}
        names = [
            name
            for name, (owner, _, last) in owners.items()
            if last == "random_state" and not isinstance(params.get(owner), str)
        ]
        if not names and self.n_members > 1 and not self.split:
            warnings.warn(
                "predictor has no random_state, so that its members may be copies of one another. "
                "Give it a sketch or a random regressor, or combine fitted models by Ensemble.of.",
                UserWarning,
                stacklevel=2,
            )
        paths = {
            name: path
            for name, path in params.items()
            if name.endswith("__checkpoint") and path is not None
        }
        inputs: Any = reread(X)
        parts = self._parts(inputs, Y, rng) if self.split else [None] * self.n_members
        models = []
        for t, part in enumerate(parts):
            changed: dict[str, Any] = {name: int(rng.integers(2**31 - 1)) for name in names}
            changed |= {name: f"{path}.{t}" for name, path in paths.items()}
            rows, objects, more = inputs, Y, fit_params
            if part is not None and Y is not None:
                rows, objects = take(inputs, part), take(Y, part)
                more = params_of_rows(fit_params, part, n_rows(Y))
            models.append(clone(self.predictor).set_params(**changed).fit(rows, objects, **more))
        return self._ready(models, weights)

    def _parts(self, X: Objects, Y: Objects | None, rng: Rng) -> list[np.ndarray]:
        """Return the numbers of the rows of each member, drawn at random."""
        if Y is None or not has_rows(X) or not has_rows(Y):
            raise TypeError("split=True needs rows in memory: give X and Y as arrays or lists.")
        if n_rows(Y) < 2 * self.n_members:
            raise ValueError(
                f"split=True needs at least two rows for each of the {self.n_members} members. "
                f"Got {n_rows(Y)} rows."
            )
        order = rng.permutation(n_rows(Y))
        return [np.sort(part) for part in np.array_split(order, self.n_members)]

    def _checked_weights(self) -> Floats:
        """Return the weights scaled to a sum of one, or raise where parameters are wrong."""
        check_number(self.n_members, "n_members", low=1, integer=True)
        check_choice(self.combine, "combine", COMBINE)
        if self.weights is None:
            return np.full(self.n_members, 1.0 / self.n_members)
        weights = np.asarray(self.weights, dtype=np.float64)
        valid = weights.shape == (self.n_members,) and np.all(np.isfinite(weights))
        if not valid or np.any(weights < 0.0) or weights.sum() == 0.0:
            raise ValueError(
                f"weights must be {self.n_members} numbers, one for each member, not negative and "
                f"not all zero. Got {self.weights!r} instead."
            )
        return weights / float(weights.sum())

    def _ready(self, models: list[Estimator], weights: np.ndarray) -> Ensemble:
        """Store the fitted members and their weights; return self."""
        self.members_, self.weights_, self.combine_ = models, weights, self.combine
        self.__dict__.pop("validation_score_", None)
        self._training: EmbeddedPools | None = None
        return self

    def __skout_state__(self) -> dict[str, object]:
        made_again = {"_training": None} if hasattr(self, "_training") else {}
        return {**vars(self), **made_again}

    def tune(
        self,
        X: Objects,
        Y: Objects,
        candidates: Candidates = None,
        *,
        combine: str | Sequence[str] | None = None,
        n_steps: int = 10,
    ) -> Ensemble:
        """Choose the weights, and the strategy if there are several, on held-out data.

        Members are added one at a time, in each step the one that raises the mean reciprocal rank
        of the truth most (ensemble selection); equal weights stay where nothing beats them. Sets
        `weights_`, `combine_` and `validation_score_`.

        Parameters
        ----------
        X : what the predictor takes, n rows that the members have not seen
        Y : objects, n of them
        candidates : optional
            As in `predict`. The truth must be among them for a row to count.
        combine : str or sequence of str, optional
            Strategies to choose from; default the one in use.
        n_steps : int, default 10
            Number of members to add: after t steps, weights are multiples of 1/t.
        """
        check_is_fitted(self, "members_")
        check_number(n_steps, "n_steps", low=1, integer=True)
        names = [combine or self.combine_] if isinstance(combine, str | None) else list(combine)
        for name in names:
            check_choice(name, "combine", COMBINE)
        pools = self.embed(candidates)
        queries, truth = self._queries(X, pools), self._truth(Y, pools, n_rows(X))

        def quality(name: str, weights: np.ndarray) -> float:
            return mean_reciprocal_rank(
                Blend(name, weights, queries, pools, self._n_jobs).truth_ranks(truth, 0.5)
            )

        results = [(name, *self._selected(name, quality, n_steps)) for name in names]
        best = max(results, key=lambda result: result[2])  # the first of equals
        self.combine_, self.weights_, self.validation_score_ = best
        return self

    def _selected(
        self, name: str, quality: Callable[[str, np.ndarray], float], n_steps: int
    ) -> tuple[np.ndarray, float]:
        """Return the best weights of ensemble selection, and their quality."""
        T = len(self.members_)
        best = np.full(T, 1.0 / T)
        best_quality = quality(name, best)
        counts = np.zeros(T)
        for step in range(1, n_steps + 1 if T > 1 else 1):
            qualities = [quality(name, (counts + member) / step) for member in np.eye(T)]
            counts[np.argmax(qualities)] += 1.0
            if max(qualities) > best_quality:
                best, best_quality = counts / step, max(qualities)
        return best, best_quality

    def embed(self, candidates: Candidates) -> EmbeddedPools:
        check_is_fitted(self, "members_")
        if candidates is None:
            if self._training is None:
                self._training = self._default_pools()
            return self._training
        if isinstance(candidates, EmbeddedPool):
            raise TypeError(
                "candidates were embedded by a single model. Embed them with the ensemble: "
                "ensemble.embed(pool.objects)."
            )
        if not isinstance(candidates, EmbeddedPools):
            return EmbeddedPools.of([member.embed(candidates) for member in self.members_])
        if len(candidates.parts) != len(self.members_):
            raise ValueError(
                f"candidates were embedded by {len(candidates.parts)} members, and this ensemble "
                f"has {len(self.members_)}. Embed them with it: ensemble.embed(pool.objects)."
            )
        for member, part in zip(self.members_, candidates.parts, strict=True):
            member.embed(part)  # raises where the part is of another model
        return candidates

    def _default_pools(self) -> EmbeddedPools:
        """Return the training outputs, which must be those of all members."""
        pools = [member.embed(None) for member in self.members_]
        if self.split:
            objects = [pool.objects for pool in pools]
            are_lists = isinstance(objects[0], list)
            return self.embed([*chain(*objects)] if are_lists else stack(objects))
        for member, pool in zip(self.members_[1:], pools[1:], strict=True):
            if not _same_objects(member, pools[0].objects, pool):
                raise ValueError(
                    "The members were fitted on different outputs, so that there is no default "
                    "pool. Give candidates."
                )
        return EmbeddedPools.of(pools)

    def rank(self, X: Objects, candidates: Candidates = None, k: int = 10) -> Found:
        pools = self.embed(candidates)
        return self._blend(self._queries(X, pools), pools).best(pools.pool.width(k))

    def truth_ranks(
        self, X: Objects, Y: Objects, candidates: Candidates = None, *, ties: str = "average"
    ) -> np.ndarray:
        share, pools = share_of(ties), self.embed(candidates)
        truth = self._truth(Y, pools, n_rows(X))
        return self._blend(self._queries(X, pools), pools).truth_ranks(truth, share)

    def matched(self, Y: Objects, candidates: Candidates = None) -> np.ndarray:
        """Return the number of the candidate that all members take for each object.

        Parameters
        ----------
        Y : objects, n of them
            If each query has a set of its own, one for each.
        candidates : objects, CandidateSets, list of lists or EmbeddedPools, optional

        Returns
        -------
        numbers : ndarray of int, shape (n,)
            Rows of the members' embeddings; -1 where the object is no candidate.
        """
        return self._truth(Y, self.embed(candidates), n_rows(Y))

    def _fitted_inner(self) -> Any:
        return self.members_[0]

    def _seen_outputs(self) -> Any:
        return self.members_[0].output_basis_

    @property
    def _n_jobs(self) -> int | None:
        return getattr(self.members_[0].decoder_, "n_jobs", None)

    def _blend(self, queries: list[np.ndarray], pools: EmbeddedPools) -> Blend:
        return Blend(self.combine_, self.weights_, queries, pools, self._n_jobs)

    def _queries(self, X: Objects, pools: EmbeddedPools) -> list[np.ndarray]:
        """Return the query vectors [2 f, 1] of each member."""
        return [
            _decoder_of(member, "queries").queries(member.predict_coordinates(X), part)
            for member, part in zip(self.members_, pools.parts, strict=True)
        ]

    def _truth(self, Y: Objects, pools: EmbeddedPools, n: int) -> np.ndarray:
        """Return the number of the candidate that all members take for the true object, or -1."""
        numbers = [
            truth_in(part, _decoder_of(member, "matched"), Y, n)
            for member, part in zip(self.members_, pools.parts, strict=True)
        ]
        if pools.table is None:
            return np.where(np.all(numbers == numbers[0], axis=0), numbers[0], -1)
        return in_own_set(match(np.column_stack(numbers), pools.table), pools.pool)


def _check_predictor(model: Estimator, name: str) -> None:
    """Raise unless this is a `StructuredPredictor`; `name` is the argument."""
    if not isinstance(model, StructuredPredictor):
        raise TypeError(
            f"{name} must be a StructuredPredictor, or a sequence of such for Ensemble.of. "
            f"Got {type(model).__name__} instead; of a search, give best_estimator_."
        )


def _decoder_of(model: Estimator, method: str) -> Any:
    """Return the decoder of a member, or raise where it lacks the method."""
    return able(model.decoder_, "embed", method, by="Ensemble")


def _same_objects(model: Estimator, objects: Objects, pool: EmbeddedPool) -> bool:
    """Whether the pool of a model has these objects in this order."""
    n = n_rows(objects)
    if n != len(pool):
        return False
    try:
        numbers = truth_in(pool, _decoder_of(model, "matched"), objects, n)
    except (TypeError, ValueError):  # of another kind, or another number of features
        return False
    return bool(np.array_equal(numbers, np.arange(n)))
