"""Both ways fitted, and how much the forward one counts: chosen on rows that they have not seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._numerics.arrays import row_slices
from .._numerics.types import Candidates, Estimator, Index, Objects, RandomState, Rows, Scoring
from .._numerics.validation import check_rng
from ..decoding import EmbeddedPool
from ..decoding.base import Decoder, plain_outputs, same_candidates
from ..decoding.pools import taken, truth_in
from ..decoding.search import TIE
from ..kernels import as_kernel
from ..metrics.scoring import score_objects
from .joint import JointBasis, JointRegressor, forward_scores
from .out_of_fold import OutOfFold, folds_of, params_of_rows

__all__ = [
    "NORMALISATIONS",
    "Option",
    "TwoWayScores",
    "Ways",
    "best_option",
    "choose_weight",
    "option_scores",
    "options_for",
    "reciprocal_ranks",
]

NORMALISATIONS = ("distance", "cosine")

# Weights that are tried, as multiples of the one that makes both scores vary equally.
_MULTIPLES = 2.0 ** np.arange(-4, 5)
# Rows that a weight is chosen on, and held-out rows of a fold that are scored, at most.
_MOST_ROWS, _MOST_SCORED = 50_000, 5_000
# Scores that are held at a time.
_SCORES = 2**22
# Queries that the spread of scores is taken from.
_SPREADS = 500

_RECIPROCAL = "mean_reciprocal_rank"


class _NoDecoder(Decoder):
    """In the forward model, which is asked for coordinates only."""

    takes_rows = True

    def fit(
        self,
        basis: Estimator,
        Y: Objects,
        coordinates: np.ndarray | None = None,
        *,
        rows: Rows = None,
    ) -> _NoDecoder:
        return self

    def drop_pool(self, limit: int) -> None:
        return None

    def decode(self, F: np.ndarray, candidates: Candidates = None) -> Any:
        raise TypeError("The forward model predicts coordinates only.")


@dataclass(frozen=True)
class Ways:
    """A backward and a forward model, to be fitted on some rows."""

    backward: Any
    forward: Any
    groups: np.ndarray | None
    fit_params: dict[str, Any]

    def fitted(
        self, X: Objects, Y: Objects, weight: float = 1.0, cosine: bool = False
    ) -> tuple[JointRegressor, JointBasis, Any]:
        """Return regressor, basis and decoder of both ways together, fitted on all rows."""
        back = clone(self.backward).fit(X, Y, groups=self.groups, **self.fit_params)
        forward, inputs = self._ahead(X, Y) if weight > 0.0 else (None, None)
        regressor = JointRegressor(back.regressor_, inputs, weight, cosine)
        n_forward = 0 if inputs is None else inputs.rank_
        basis = JointBasis(back.output_basis_, forward, n_forward, weight, cosine)
        return regressor, basis, same_candidates(back.decoder_, basis)

    def _ahead(self, X: Objects, Y: Objects) -> tuple[Any, Any]:
        """Return the forward map, and the vectors of queries that its predictions meet."""
        # it is not decoded, so its alpha is chosen by the error of the coordinates
        forward = clone(self.forward).set_params(decoder=_NoDecoder(), scoring="coordinates")
        outputs, inputs = plain_outputs(Y), plain_outputs(X, "X")
        forward.fit(outputs, inputs, groups=self.groups, **self.fit_params)
        return forward.regressor_, forward.output_basis_

    def check(self, X: Objects, Y: Objects) -> None:
        """Raise where the forward model does not take some of the outputs, or of the inputs."""
        regressor, basis = self.forward.regressor, self.forward.output_basis
        outputs = self.backward.output_basis
        with _blamed("forward must take outputs, as the output kernel of backward encodes them."):
            if hasattr(regressor, "kernel"):
                as_kernel(regressor.kernel).encode(_kernel_of(outputs).encode(Y))
        with _blamed("forward must predict coordinates of inputs: its output basis takes X."):
            _kernel_of(basis).encode(X)

    def of(self, rows: np.ndarray, n: int) -> Ways:
        """Return the ways for some of n rows."""
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, groups=groups, fit_params=params_of_rows(self.fit_params, rows, n))


def _kernel_of(basis: Estimator) -> Any:
    return as_kernel(getattr(basis, "kernel", basis))


@contextmanager
def _blamed(what: str) -> Iterator[None]:
    """Let errors say first which argument is wrong."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what} {error}") from error


# Choosing ----------------------------------------------------------------------------------------


def choose_weight(
    ways: Ways,
    rehearsal: OutOfFold,
    *,
    normalisations: tuple[str, ...],
    scoring: Scoring,
    cv: int,
    random_state: RandomState,
) -> dict[str, np.ndarray]:
    """Return "weight", "normalisation", "score" and "fold_score" of what was tried."""
    rng, n = check_rng(random_state), rehearsal.n
    inputs, outputs = rehearsal.inputs, rehearsal.outputs
    rows = np.sort(rng.permutation(n)[:_MOST_ROWS])
    groups = None if ways.groups is None else ways.groups[rows]
    # with a rank for a metric, the truth is among the candidates
    has_own = rehearsal.candidates is not None or scoring == _RECIPROCAL
    options: list[Option] = []
    table, counts = [], []
    for train, test in folds_of(cv, len(rows), groups, rng):
        train, test = rows[train], rows[np.sort(rng.permutation(test)[:_MOST_SCORED])]
        regressor, basis, decoder = ways.of(train, n).fitted(
            inputs.take(train), outputs.take(train)
        )
        pool = decoder.embed(rehearsal.own(test) if has_own else None).distinct()
        scores = TwoWayScores(pool, basis, regressor.predict(inputs.take(test)))
        options = options or options_for(scores.spreads(), normalisations)
        table.append(option_scores(scores, options, scoring, decoder, outputs.take(test)))
        counts.append(len(test))
    return {
        "weight": np.array([one.weight for one in options]),
        "normalisation": np.array([one.normalisation for one in options]),
        "score": np.average(table, axis=0, weights=counts),
        "fold_score": np.array(table),
    }


def best_option(results: dict[str, np.ndarray]) -> int:
    """Return which option to take: a single way where both together are hardly better.

    That is, by no more than the standard error of the difference, over the folds.
    """
    score, folds = results["score"], results["fold_score"]
    alone = np.flatnonzero((results["weight"] == 0.0) | np.isinf(results["weight"]))
    best, single = int(np.argmax(score)), int(alone[np.argmax(score[alone])])
    gains = folds[:, best] - folds[:, single]
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    return best if score[best] - score[single] > error else single


class Option(NamedTuple):
    """A weight of the forward way, and how its scores are scaled."""

    weight: float
    normalisation: str

    @property
    def factors(self) -> tuple[float, float, float]:
        """What the scores are multiplied by: backward, forward by distance and by cosine."""
        alone = np.isinf(self.weight)
        ahead = 1.0 if alone else self.weight
        by_distance = self.normalisation == "distance"
        return float(not alone), ahead * by_distance, ahead * (not by_distance)


def options_for(spreads: np.ndarray, normalisations: tuple[str, ...]) -> list[Option]:
    """Return what is tried: the backward way alone, the forward way alone, and both.

    The spreads, shape (3,), are how much the scores of `TwoWayScores` vary among a query's candidates.
    """
    found = [Option(0.0, normalisations[0])]
    for name in normalisations:
        own = spreads[1 + NORMALISATIONS.index(name)]
        unit = 2.0 ** np.round(np.log2(spreads[0] / own)) if min(spreads[0], own) > 0.0 else 1.0
        found += [Option(float(unit * one), name) for one in (*_MULTIPLES, np.inf)]
    return found


class TwoWayScores:
    """Scores of the candidates of each query, by each way.

    The pool is of a joint basis with weight 1 and by distance, without copies; F, of shape (n, p),
    is predicted in that basis.
    """

    def __init__(self, pool: EmbeddedPool, basis: JointBasis, F: np.ndarray) -> None:
        self.pool, self.n = pool, len(F)
        self.parts = basis.parts(F, pool.embedding)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the distinct candidates of a query, and their scores of shape (3, c)."""
        if self.pool.is_per_query:
            members, indptr = self.pool.members, self.pool.objects.indptr
            for i in range(self.n):
                own = members[indptr[i] : indptr[i + 1]]
                yield own, self._of(slice(i, i + 1), own)[:, 0]
            return
        everything = np.arange(len(self.pool.embedding))
        for some in row_slices(self.n, max(1, _SCORES // len(everything))):
            for S in self._of(some, slice(None)).swapaxes(0, 1):
                yield everything, S

    def _of(self, some: slice, own: Index) -> np.ndarray:
        """Return 2 <f, z> - k, 2 <zx, g> - |g|^2 and 2 cos(zx, g) - 1, shape (3, b, c)."""
        one = self.parts
        backward = 2.0 * one.f[some] @ one.z[own].T - one.norms[own]
        products, lengths = one.zx[some] @ one.g[own].T, one.lengths[some, None]
        return np.stack([backward, *forward_scores(products, lengths, one.squares[own])])

    def spreads(self) -> np.ndarray:
        """Return how much each of the scores varies among the candidates of a query, shape (3,)."""
        return np.mean([S.std(axis=1) for _, S in islice(self, _SPREADS)], axis=0)


def option_scores(
    scores: TwoWayScores,
    options: list[Option],
    scoring: Scoring,
    decoder: Estimator,
    truth: Objects,
) -> np.ndarray:
    """Return how good each option is, on average over the queries."""
    pool, factors = scores.pool, np.array([one.factors for one in options])
    by_rank = scoring == _RECIPROCAL or (scoring is None and pool.is_per_query)
    right = truth_in(pool, decoder, truth, scores.n)
    found = [
        reciprocal_ranks(factors @ S, own == t) if by_rank else own[(factors @ S).argmax(axis=1)]
        for t, (own, S) in zip(right, scores, strict=True)
    ]
    if by_rank:
        return np.mean(found, axis=0)
    basis = decoder.basis_
    return np.array(
        [
            score_objects(
                scoring, basis.kernel_, basis.landmarks_, truth, taken(pool.pool, pool.first[best])
            )
            for best in np.transpose(found)
        ]
    )


def reciprocal_ranks(S: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return 1 / rank of the true candidate by each option, S of shape (o, c); 0 without one."""
    if not right.any():
        return np.zeros(len(S))
    own = S[:, right]
    slack = TIE * np.abs(S).max(axis=1, keepdims=True)
    above, not_below = (own + slack < S).sum(axis=1), (own - slack <= S).sum(axis=1)
    return 2.0 / (1.0 + above + not_below)  # ties share the mean of their ranks
