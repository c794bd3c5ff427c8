"""Fit both directions of `TwoWay`, and choose the weight of the forward one on held-out rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._numerics.arrays import row_slices
from .._numerics.typing import (
    Candidates,
    Estimator,
    Floats,
    Index,
    Ints,
    Objects,
    RandomState,
    Rows,
    Scoring,
)
from .._numerics.validation import check_rng
from ..decoding import EmbeddedPool
from ..decoding.base import Decoder, plain_outputs, same_candidates
from ..decoding.pools import taken, truth_in
from ..decoding.search import TIE
from ..kernels import as_kernel
from ..kinds.scoring import score_objects
from .joint import JointBasis, JointParts, JointRegressor, forward_scores
from .out_of_fold import OutOfFold, folds_of, params_of_rows

NORMALIZATIONS = ("distance", "cosine")

# Weights that are compared, as multiples of the one that makes both scores vary equally: a factor
# of 16 either way, in steps of 2.
_MULTIPLES = 2.0 ** np.arange(-4, 5)
# Rows that a weight is chosen on, and held-out rows of a fold that are scored, at most: they bound
# the time.
_MOST_ROWS, _MOST_SCORED = 50_000, 5_000
# Scores of a block of queries: 32 MB for each direction.
_SCORES = 2**22
# Queries that the standard deviation of scores is estimated from.
_SPREADS = 500

_RECIPROCAL = "mean_reciprocal_rank"


class _NoDecoder(Decoder):
    """The decoder of the forward model, which predicts coordinates only."""

    takes_rows = True

    def fit(
        self,
        basis: Estimator,
        Y: Objects,
        coordinates: np.ndarray | None = None,
        *,
        rows: Rows | None = None,
    ) -> _NoDecoder:
        return self

    def drop_pool(self, limit: int) -> None:
        return None

    def decode(self, F: np.ndarray, candidates: Candidates = None) -> Any:
        raise TypeError("The forward model predicts coordinates only.")


@dataclass(frozen=True)
class Directions:
    """A backward and a forward model, with the parameters of their fits."""

    backward: Estimator
    forward: Estimator
    groups: np.ndarray | None
    fit_params: dict[str, Any]

    def fitted(
        self, X: Objects, Y: Objects, weight: float = 1.0, cosine: bool = False
    ) -> tuple[JointRegressor, JointBasis, Any]:
        """Return regressor, basis and decoder of both directions together, fitted on these rows."""
        back = clone(self.backward).fit(X, Y, groups=self.groups, **self.fit_params)
        forward: Any = None
        inputs: Any = None
        if weight > 0.0:
            forward, inputs = self._fitted_forward(X, Y)
        regressor = JointRegressor(back.regressor_, inputs, weight, cosine)
        n_forward = 0 if inputs is None else inputs.rank_
        basis = JointBasis(back.output_basis_, forward, n_forward, weight, cosine)
        return regressor, basis, same_candidates(back.decoder_, basis)

    def _fitted_forward(self, X: Objects, Y: Objects) -> tuple[Any, Any]:
        """Return the fitted forward regressor, and the basis of the inputs that it predicts."""
        # it is not decoded, so its alpha is chosen by the error of the coordinates
        forward = clone(self.forward).set_params(decoder=_NoDecoder(), scoring="coordinates")
        outputs, inputs = plain_outputs(Y), plain_outputs(X, "X")
        forward.fit(outputs, inputs, groups=self.groups, **self.fit_params)
        return forward.regressor_, forward.output_basis_

    def check(self, X: Objects, Y: Objects) -> None:
        """Raise unless the forward model takes outputs like Y and predicts inputs like X."""
        regressor, basis = self.forward.regressor, self.forward.output_basis
        outputs = self.backward.output_basis
        with _blamed("forward must take outputs, as the output kernel of backward encodes them."):
            if hasattr(regressor, "kernel"):
                as_kernel(regressor.kernel).encode(_kernel_of(outputs).encode(Y))
        with _blamed("forward must predict coordinates of inputs: its output basis takes X."):
            _kernel_of(basis).encode(X)

    def of(self, rows: np.ndarray, n: int) -> Directions:
        """Return the models with the groups and fit parameters of these of n rows."""
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, groups=groups, fit_params=params_of_rows(self.fit_params, rows, n))


def _kernel_of(basis: Estimator) -> Any:
    spec: Any = getattr(basis, "kernel", basis)
    return as_kernel(spec)


@contextmanager
def _blamed(what: str) -> Iterator[None]:
    """Raise errors of the block with `what` before their text."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what} {error}") from error


# Choosing ----------------------------------------------------------------------------------------


def choose_weight(
    directions: Directions,
    data: OutOfFold,
    *,
    normalizations: tuple[str, ...],
    scoring: Scoring,
    cv: int,
    random_state: RandomState,
) -> dict[str, np.ndarray]:
    """Return the cross-validated "score" and "fold_score" of each "weight" and "normalization"."""
    rng, n = check_rng(random_state), data.n
    inputs, outputs = data.inputs, data.outputs
    rows = np.sort(rng.permutation(n)[:_MOST_ROWS])
    groups = None if directions.groups is None else directions.groups[rows]
    # where the metric is a rank, the true object must be among the candidates
    has_candidates = data.candidates is not None or scoring == _RECIPROCAL
    options: list[Option] = []
    table, counts = [], []
    for train, test in folds_of(cv, len(rows), groups, rng):
        train, test = rows[train], rows[np.sort(rng.permutation(test)[:_MOST_SCORED])]
        regressor, basis, decoder = directions.of(train, n).fitted(
            inputs.take(train), outputs.take(train)
        )
        pool = decoder.embed(data.candidates_of(test) if has_candidates else None).distinct()
        scores = TwoWayScores(pool, basis, regressor.predict(inputs.take(test)))
        options = options or options_for(scores.spreads(), normalizations)
        table.append(option_scores(scores, options, scoring, decoder, outputs.take(test)))
        counts.append(len(test))
    return {
        "weight": np.array([option.weight for option in options]),
        "normalization": np.array([option.normalization for option in options]),
        "score": np.average(table, axis=0, weights=counts),
        "fold_score": np.array(table),
    }


def best_option(results: dict[str, np.ndarray]) -> int:
    """Return the number of the best option by the one-standard-error rule.

    It is the better direction alone, unless both together are ahead by more than the standard error
    of the difference over the folds.
    """
    score, folds = results["score"], results["fold_score"]
    alone = np.flatnonzero((results["weight"] == 0.0) | np.isinf(results["weight"]))
    best, single = int(np.argmax(score)), int(alone[np.argmax(score[alone])])
    gains = folds[:, best] - folds[:, single]
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    return best if score[best] - score[single] > error else single


class Option(NamedTuple):
    """A weight of the forward model, and the normalization of its scores."""

    weight: float
    normalization: str

    @property
    def factors(self) -> tuple[float, float, float]:
        """The factors of the three scores: backward, forward by distance, forward by cosine."""
        alone = np.isinf(self.weight)
        forward = 1.0 if alone else self.weight
        by_distance = self.normalization == "distance"
        return float(not alone), forward * by_distance, forward * (not by_distance)


def options_for(spreads: np.ndarray, normalizations: tuple[str, ...]) -> list[Option]:
    """Return the options to compare: the backward model, the forward model, and both, by weight.

    `spreads`, shape (3,), are those of `TwoWayScores.spreads`.
    """
    options = [Option(0.0, normalizations[0])]
    for name in normalizations:
        back, forth = spreads[0], spreads[1 + NORMALIZATIONS.index(name)]
        unit = 2.0 ** np.round(np.log2(back / forth)) if min(back, forth) > 0.0 else 1.0
        options += [Option(float(unit * multiple), name) for multiple in (*_MULTIPLES, np.inf)]
    return options


class TwoWayScores:
    """Scores of the candidates of each query, by each direction.

    The pool is of a joint basis with weight 1 and by distance, without copies; F, of shape (n, p),
    is predicted in that basis.
    """

    n: int
    pool: EmbeddedPool

    def __init__(self, pool: EmbeddedPool, basis: JointBasis, F: np.ndarray) -> None:
        self.pool, self.n = pool, len(F)
        self.parts: JointParts = basis.parts(F, pool.embedding)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield for each query its distinct candidates and their three scores, shape (3, c)."""
        if self.pool.is_per_query:
            members, indptr = self.pool.members, self.pool.sets.indptr
            for i in range(self.n):
                numbers = members[indptr[i] : indptr[i + 1]]
                yield numbers, self._of(slice(i, i + 1), numbers)[:, 0]
            return
        everything = np.arange(len(self.pool.embedding))
        for queries in row_slices(self.n, max(1, _SCORES // len(everything))):
            for S in self._of(queries, slice(None)).swapaxes(0, 1):
                yield everything, S

    def _of(self, queries: slice, numbers: Index) -> np.ndarray:
        """Return 2 <f, z> - k, 2 <zx, g> - |g|^2 and 2 cos(zx, g) - 1, shape (3, b, c)."""
        p = self.parts
        backward = 2.0 * p.f[queries] @ p.z[numbers].T - p.norms[numbers]
        products, lengths = p.zx[queries] @ p.g[numbers].T, p.lengths[queries, None]
        return np.stack([backward, *forward_scores(products, lengths, p.squares[numbers])])

    def spreads(self) -> Floats:
        """Return the mean standard deviation of each score within queries, shape (3,)."""
        spreads: Floats = np.mean([S.std(axis=1) for _, S in islice(self, _SPREADS)], axis=0)
        return spreads


def option_scores(
    scores: TwoWayScores,
    options: list[Option],
    scoring: Scoring,
    decoder: Estimator,
    truth: Objects,
) -> Any:
    """Return the score of each option, by `scoring` of the best candidates, shape (o,)."""
    pool, factors = scores.pool, np.array([option.factors for option in options])
    by_rank = scoring == _RECIPROCAL or (scoring is None and pool.is_per_query)
    right = truth_in(pool, decoder, truth, scores.n)
    best = [
        reciprocal_ranks(factors @ S, members == t)
        if by_rank
        else members[(factors @ S).argmax(axis=1)]
        for t, (members, S) in zip(right, scores, strict=True)
    ]
    if by_rank:
        return np.mean(best, axis=0)
    basis = decoder.basis_
    return np.array(
        [
            score_objects(
                scoring,
                basis.kernel_,
                basis.landmarks_,
                truth,
                taken(pool.pool, pool.first[chosen]),
            )
            for chosen in np.transpose(best)
        ]
    )


def reciprocal_ranks(S: Floats, right: np.ndarray) -> Floats:
    """Return 1 / rank of the true candidate by each row of scores S (o, c), 0 without one."""
    if not right.any():
        return np.zeros(len(S))
    truth = S[:, right]
    slack = TIE * np.abs(S).max(axis=1, keepdims=True)
    above: Ints = (truth + slack < S).sum(axis=1)
    not_below: Ints = (truth - slack <= S).sum(axis=1)
    # ties share the mean of their ranks
    return np.asarray(2.0 / (1.0 + above + not_below), dtype=np.float64)
