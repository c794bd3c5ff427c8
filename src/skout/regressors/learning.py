"""The metric of a kernel, learnt from the targets: rounds of sketched ridge and its gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from .._numerics.arrays import float_dtype, to_device
from .._numerics.linalg import symmetric_eigen
from .._numerics.namespace import cast, namespace
from .._numerics.validation import check_alphas, check_rng
from ..basis import KernelBasis
from ..basis.passes import Sample
from ..kernels import Kernel, Learnt, Mahalanobis, as_kernel
from ..rows import Reduction, to_host
from ..sketches import SubSample
from ..solvers import ridge_errors, ridge_paths

__all__ = ["GradientProducts", "learnt_kernel"]

# Rows are dealt into so many groups, of which one at a time is held out. All of them, one after
# another, of few rows; one alone if there are _ENOUGH.
_GROUPS, _ENOUGH = 5, 3000
# Gradients of so many outputs are taken one by one; of more, the first _LEADING directions of the
# predictions, and _MIXED random mixtures of the rest.
_OUTPUTS, _LEADING, _MIXED = 16, 8, 8
# With more features a metric is a diagonal.
_MATRIX = 1000
# The mean of so many targets is subtracted from all of them, where they are not in memory.
_ORIGIN_ROWS = 8192
_HOLES = (
    "y has missing values, and a metric is learnt from whole rows: learn it from those, and give "
    "the kernel of that fit, its `kernel_`, to this one."
)


def learnt_kernel(model: Any, sample: Sample) -> Kernel:
    """Return the kernel of a model, in the metric learnt from the sample if it is one that learns.

    Parameters
    ----------
    model : estimator
        Its parameters are those of the rounds: kernel, alpha, of which each round takes the best,
        fit_intercept, random_state, n_jobs, verbose.
    sample : Sample
        Rows, targets and weights.

    Returns
    -------
    kernel : Kernel
        Words such as gamma="scale" are still to be resolved. What was held out says why: the model
        gets `metric_results_`.
    """
    model.__dict__.pop("metric_results_", None)
    kernel: Any = as_kernel(model.kernel)
    if not kernel.learns:
        return kernel
    kernel.check()
    if np.isnan(np.asarray(sample.targets.some(_ORIGIN_ROWS))).any():
        raise ValueError(_HOLES)
    seed = int(check_rng(model.random_state).integers(2**32))
    if model.fit_intercept:  # targets far from zero would lose their last digits
        origin = sample.targets.some(_ORIGIN_ROWS).mean(axis=0, dtype=np.float64)
        sample = replace(sample, origin=origin)
    alphas, intercept = check_alphas(model.alpha), model.fit_intercept
    learning = _Learning(kernel, sample, alphas, intercept, seed, model.n_jobs, model.verbose)
    kernel, model.metric_results_ = learning.chosen()
    return kernel


@dataclass(frozen=True)
class _Round:
    """A metric, what the held-out rows say about it for each alpha, and the coefficients."""

    scale: np.ndarray | None
    losses: np.ndarray
    coef: np.ndarray


@dataclass(frozen=True)
class _Learning:
    kernel: Learnt
    sample: Sample
    alphas: list[float]
    fit_intercept: bool
    seed: int
    n_jobs: int | None
    verbose: bool

    def chosen(self) -> tuple[Mahalanobis, dict[str, Any]]:
        """Hold out rows, and return the kernel in the metric of the round that serves them best.

        Also returns the table of held-out losses.
        """
        n = len(self.sample.rows)
        n_splits = min(_GROUPS, n, max(1, math.ceil(_ENOUGH / n)))
        groups = np.random.default_rng(self.seed).permutation(n) % _GROUPS
        bar = tqdm(range(n_splits), desc="metric", disable=not self.verbose)
        tries = [self._rounds(groups == held, self.kernel.rounds) for held in bar]
        losses = np.mean([[r.losses for r in rounds] for rounds in tries], axis=0)
        best, which = np.unravel_index(losses.argmin(), losses.shape)
        results: dict[str, Any] = {"alpha": np.array(self.alphas), "mean_loss": losses}
        results |= {"round": int(best), "best_alpha": self.alphas[int(which)]}
        if n_splits == 1 or best == 0:
            return self.kernel.in_metric(tries[0][best].scale), results
        # few rows: learn again from all of them, with the alphas that served best
        alphas = [self.alphas[k] for k in losses.argmin(axis=1)]
        return self.kernel.in_metric(self._rounds(None, int(best), alphas)[-1].scale), results

    def _rounds(
        self, held: np.ndarray | None, n_rounds: int, alphas: list[float] | None = None
    ) -> list[_Round]:
        """Return round 0, which is the metric of the rows themselves, and those learnt from it."""
        rounds: list[_Round] = []
        scale: np.ndarray | None = None
        for number in range(n_rounds + 1):
            penalties = self.alphas if alphas is None else alphas[number : number + 1]
            basis = self._basis(scale)
            found = self._fitted(basis, held, penalties)
            rounds.append(replace(found, scale=scale))
            if number < n_rounds:
                scale = self._metric(basis, scale, found.coef, held)
        return rounds

    def _basis(self, scale: np.ndarray | None) -> KernelBasis:
        """Return the basis of the landmarks, the same in each metric."""
        rows, weights = self.sample.rows, self.sample.weights
        basis = KernelBasis(sketch=SubSample(min(self.kernel.landmarks, len(rows))))
        basis.n_jobs = self.n_jobs
        rng = np.random.default_rng(self.seed)
        basis._fit_rows(self.kernel.in_metric(scale), rows, rng, weights, remember=True)
        return basis

    def _fitted(self, basis: KernelBasis, held: np.ndarray | None, alphas: list[float]) -> _Round:
        """Fit on the rows that are not held out, and judge by those that are."""
        groups = None if held is None else held.astype(int)
        sample = replace(self.sample, groups=groups, n_groups=1 if held is None else 2)
        moments = basis._moments(sample, min(alphas))
        if any(hasattr(part, "codes") for part in moments):
            raise ValueError(_HOLES)
        fits = ridge_paths(moments[0], alphas, self.fit_intercept)
        if held is None:
            losses = np.zeros(len(alphas))
        else:
            losses = np.array([ridge_errors(moments[1], *fit).mean() for fit in fits])
        coef = fits[int(losses.argmin())][0]
        return _Round(
            None, losses, basis._on_features(_few_outputs(coef, moments[0].zz, self.seed))
        )

    def _metric(
        self, basis: KernelBasis, W: np.ndarray | None, coef: np.ndarray, held: np.ndarray | None
    ) -> np.ndarray:
        """Return the next W, with W'W = M, the average gradient outer product; its trace is d."""
        kernel, rows = basis.kernel_, self.sample.rows
        products = GradientProducts(kernel, basis.landmarks_, coef, diagonal=self._is_diagonal)
        S = rows.reduce(products, self.sample.weights, held, n_jobs=self.n_jobs)
        d = rows.shape[1]
        if self._is_diagonal:
            M = S if W is None else S * W**2
            return np.sqrt(M * (d / M.sum())) if M.sum() > 0.0 else np.ones(d)
        M = S if W is None else W.T @ S @ W
        values, vectors = symmetric_eigen(0.5 * (M + M.T))
        values = np.maximum(values, 0.0)
        if values.sum() == 0.0:  # a constant function
            return np.eye(d)
        return (vectors * np.sqrt(values * (d / values.sum()))) @ vectors.T

    @functools.cached_property
    def _is_diagonal(self) -> bool:
        if self.kernel.diagonal is not None:
            return self.kernel.diagonal
        rows = self.sample.rows
        base = self.kernel._part("kernel")
        return (
            hasattr(rows.like, "indptr")
            or rows.shape[1] > _MATRIX
            or getattr(base, "adds_features", False)
        )


def _few_outputs(coef: np.ndarray, zz: np.ndarray, seed: int) -> np.ndarray:
    """Return coefficients of at most _OUTPUTS functions with the same gradient outer products.

    Rotating the outputs changes nothing in the sum over them. The leading directions of the
    predictions are kept; the others are mixed at random, R with E[R R'] = I.
    """
    if coef.shape[1] <= _OUTPUTS:
        return coef
    _, directions = symmetric_eigen(coef.T @ zz @ coef)  # the largest first
    rotated = coef @ directions
    rest = rotated[:, _LEADING:]
    R = np.random.default_rng(seed).standard_normal((rest.shape[1], _MIXED)) / np.sqrt(_MIXED)
    return np.column_stack([rotated[:, :_LEADING], rest @ R])


class GradientProducts(Reduction):
    """mean_i sum_q grad f_q(x_i) grad f_q(x_i)', where f_q(x) = sum_j coef_jq k(x, landmark_j).

    For a `Mahalanobis` the gradients are with respect to W x.

    Parameters
    ----------
    kernel : Kernel with `gradients`
    landmarks : rows, m of them
    coef : ndarray of shape (m, q)
    diagonal : bool, default False
        Only the diagonal of the matrix.
    """

    def __init__(self, kernel: Any, landmarks: Any, coef: Any, *, diagonal: bool = False) -> None:
        self.kernel, self.landmarks, self.coef, self.diagonal = kernel, landmarks, coef, diagonal
        m, q = coef.shape
        self.width = 3 * m + 3 * q * (landmarks.shape[1] + 1)

    @functools.cached_property
    def _gradients(self) -> Callable[[Any], Any]:
        return self.kernel.gradients(self.landmarks, self.coef)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what workers can compute from the rest."""
        return {name: value for name, value in self.__dict__.items() if name != "_gradients"}

    def on(self, place: Any) -> Reduction:
        landmarks = to_device(self.landmarks, place.device, place.dtype)
        coef = place.moved(self.coef)
        return GradientProducts(self.kernel, landmarks, coef, diagonal=self.diagonal)

    def __call__(self, rows: Any, weights: Any = None, held: Any = None) -> tuple[Any, Any]:
        G = self._gradients(cast(rows, float_dtype(self.landmarks)))  # (b, q, d)
        b, q, d = G.shape
        shares = G[:, 0, 0] * 0.0 + 1.0 if weights is None else cast(weights, G.dtype)
        if held is not None:
            shares = shares * cast(~held, G.dtype)
        G = G * namespace(G).sqrt(shares)[:, None, None]
        G = G.reshape(b * q, d)
        products = (G * G).sum(axis=0) if self.diagonal else G.T @ G
        return cast(products, np.float64), float(shares.sum())

    def combine(self, total: Any, part: Any) -> Any:
        return part if total is None else (total[0] + part[0], total[1] + part[1])

    def finish(self, total: Any) -> np.ndarray:
        products, weight = total
        return to_host(products) / weight
