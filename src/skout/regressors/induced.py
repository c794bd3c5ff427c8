"""Kernel machines with a kernel-induced loss: robust regression in an output basis (5.15-5.16).

The loss of an output y is a function of its distance to the prediction in the feature space,

    ||h(x) - psi(y)||^2 = ||f - z(y)||^2 + k(y, y) - ||z(y)||^2,

where the last two terms, the residual, are what the basis does not see of y. So it is a loss of
the norm on the targets [z(y), sqrt(residual)] with a last prediction that is always 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, overload

import numpy as np

from .._numerics.arrays import namespace, row_dots, sqrt
from .._numerics.estimators import all_at_once, frames_out
from .._numerics.typing import Array, Inputs, Objects, Weights
from ..losses import Curvature, Loss, RadialLoss, Ramp, as_loss
from ..rows import Blocks, Memory
from ..solvers.folds import Scorer
from .machine import KernelMachine
from .tasks import check_task_matrix

# Halvings of the interval in which a conjugate is attained, more than float64 has digits, and
# doublings to find it, by which 1e-3 reaches 1e15.
_HALVINGS, _DOUBLINGS = 60, 60


@frames_out
class InducedMachine(KernelMachine):
    """Kernel regression into an output basis with a kernel-induced loss, robust to wrong outputs.

    Minimizes mean_i h(||h(x_i) - psi(y_i)||) + alpha/2 ||f||^2 over the space of the kernel, or
    over the span of a sketch of it (5.15-5.16). With `residual` None or 0 it is `KernelMachine`;
    otherwise a loss knows that outputs which the basis does not see well are far from any
    prediction. `StructuredPredictor` gives the residual by itself.

    Parameters
    ----------
    kernel, sketch, alpha, task_matrix, cv, fit_intercept
        As in `KernelMachine`.
    loss : Loss or str, default "huber"
        Of the norm: "squared", "huber", "epsilon_insensitive", "squared_epsilon_insensitive", or
        such an object as `Huber(kappa=0.5)`. Distances between normalized outputs are at most 2,
        sqrt(2) if the kernel is not negative: choose kappa or epsilon well below.
    tol, max_iter, random_state, n_jobs, verbose, device
        As in `KernelMachine`.

    Attributes
    ----------
    kernel_, basis_, coef_, intercept_, alpha_, objective_, duality_gap_, n_iter_, cv_results_
        As in `KernelMachine`.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import InducedMachine, KernelBasis, StructuredPredictor
    >>> from skout.losses import Huber
    >>> from skout.sketches import SubSample
    >>> X = np.arange(20.0)[:, None]
    >>> Y = np.where(X < 10, [[1, 0, 1]], [[0, 1, 1]])
    >>> Y[3] = [0, 1, 0]  # a mistake
    >>> basis = KernelBasis("tanimoto", SubSample(2), random_state=1)
    >>> robust = InducedMachine("gaussian", alpha=1e-2, loss=Huber(0.1))
    >>> model = StructuredPredictor(robust, basis)
    >>> model.fit(X, Y).predict([[3.0], [18.0]])
    array([[1, 0, 1],
           [0, 1, 1]])
    """

    uses_residual = True

    @overload
    def fit(self, X: Blocks, y: None = None) -> InducedMachine: ...
    @overload
    def fit(
        self, X: Objects, y: Objects, sample_weight: Weights = None, *, residual: Weights = None
    ) -> InducedMachine: ...

    @all_at_once
    def fit(
        self,
        X: Inputs,
        y: Objects | None = None,
        sample_weight: Weights = None,
        *,
        residual: Weights = None,
    ) -> InducedMachine:
        """Fit the model.

        Parameters
        ----------
        X : array, CSR matrix or objects that the kernel encodes, n of them
        y : array of shape (n,) or (n, d)
            Coordinates of the outputs.
        sample_weight : array of shape (n,), optional
        residual : array of shape (n,), optional
            k(y, y) - ||z(y)||^2 >= 0 of each output, `KernelBasis.residual`; None is 0.
        """
        return self._fit(X, y, sample_weight, residual=residual)

    def _fit(
        self,
        X: Inputs,
        y: Objects | None,
        sample_weight: Weights,
        scorer: Scorer | None = None,
        residual: Weights = None,
    ) -> InducedMachine:
        loss = as_loss(self.loss)
        if not isinstance(loss, RadialLoss):
            raise ValueError(
                "loss must be one of the norm: squared, huber, epsilon_insensitive or "
                f"squared_epsilon_insensitive. Got {loss!r} instead."
            )
        sample = self._sample(X, y, sample_weight)
        n, d = sample.targets.shape
        residual, M = _check_residual(residual, n), self.task_matrix
        M = None if M is None else check_task_matrix(M, d)
        if residual is None:
            self._take(self._learn(sample, loss, M, scorer=scorer))
            return self
        Y = sample.targets.load().astype(np.float64)
        sample = replace(sample, targets=Memory(np.column_stack([Y, np.sqrt(residual)]), "y"))
        shown = np.zeros((d + 1, d + 1))
        shown[:d, :d] = np.eye(d) if M is None else M
        fit = self._learn(sample, _Induced(loss), shown, scorer=scorer, hidden=1)
        self._take(fit.of_outputs(slice(0, d)))
        return self


def _check_residual(residual: Weights, n: int) -> np.ndarray | None:
    """Return the residual as float64, None where it makes no difference."""
    if residual is None:
        return None
    residual = np.asarray(residual, dtype=np.float64)
    if residual.shape != (n,):
        raise ValueError(
            f"residual must have one number for each of the {n} rows. "
            f"Got shape {residual.shape} instead."
        )
    wrong = ~(residual >= 0.0) | np.isinf(residual)
    if wrong.any():
        raise ValueError(
            "residual must be finite and not negative: k(y, y) - ||z(y)||^2. "
            f"Got {residual[wrong][0]} instead."
        )
    return residual if residual.any() else None


class _Induced(Loss):
    """h(||[f, 0] - [z, rho]||): a loss of the norm, with the last prediction replaced by 0."""

    def __init__(self, base: RadialLoss) -> None:
        self.base = base

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        return self.base.smooth

    def variable(self, F: Array, Y: Array) -> Any:
        return self.base.variable(_without_last(F), Y)

    def along(self, dF: Array, F: Array, Y: Array) -> Any:
        return self.base.along(_without_last(dF), _without_last(F), Y)

    def lift(self, slope: Array, F: Array, Y: Array) -> Any:
        G = self.base.lift(slope, _without_last(F), Y)
        G[:, -1] = 0.0
        return G

    def lift_curvature(self, slope: Array, bend: Array, F: Array, Y: Array) -> Curvature:
        diagonal, weight, u = self.base.lift_curvature(slope, bend, _without_last(F), Y)
        return Curvature(_without_last(diagonal), weight, None if u is None else _without_last(u))

    def _h(self, s: Array) -> Any:
        return self.base._h(s)

    def _slope(self, s: Array) -> Any:
        return self.base._slope(s)

    def _bend(self, s: Array) -> Any:
        return self.base._bend(s)

    @property
    def ramps(self) -> tuple[Ramp, ...]:
        return self.base.ramps

    @property
    def limit(self) -> tuple[Loss, float] | None:
        if self.base.limit is None:
            return None
        loss, slope = self.base.limit
        assert isinstance(loss, RadialLoss)
        return _Induced(loss), slope

    def conjugate(self, G: Array, Y: Array) -> Any:
        """Return the least conjugate of the full loss over the slope t of the last output.

        Any t gives an upper bound, so the duality gap is valid even if t is not quite the best.
        """
        G = _without_last(G)
        size = sqrt(row_dots(G, G))
        G[:, -1] = -self._last_slope(size, Y[:, -1])
        return self.base.conjugate(G, Y)

    def _last_slope(self, size: Array, rho: Array) -> Any:
        """Return t = rho h'(q)/q, q^2 = r^2 + rho^2, where r h'(q)/q is the size of the gradient.

        r h'(q)/q increases with r. At a jump of h' it is `size`, between the values at both sides.
        """
        xp = namespace(size)
        low, high = self._bracket(size, rho)
        ends = rho * self._share(low, rho), rho * self._share(high, rho)
        t = xp.where(high > 0.0, rho * size, ends[1]) / xp.where(high > 0.0, high, 1.0)
        t = xp.clip(t, xp.minimum(*ends), xp.maximum(*ends))
        if np.isinf(self.lipschitz):
            return t
        return xp.minimum(t, xp.sqrt(xp.clip(self.lipschitz**2 - size**2, 0.0, None)))

    def _share(self, r: Array, rho: Array) -> Any:
        """Return h'(q)/q, and 0 where q is."""
        xp = namespace(r)
        q = xp.hypot(r, rho)
        return xp.where(q > 0.0, self.base._slope(q), 0.0) / xp.where(q > 0.0, q, 1.0)

    def _bracket(self, size: Array, rho: Array) -> tuple[Any, Any]:
        """Return the ends of a short interval in which r h'(q)/q reaches `size`."""
        xp = namespace(size)
        low, high = 0.0 * size, xp.clip(rho, 1e-3, None)
        for _ in range(_DOUBLINGS):
            short = high * self._share(high, rho) < size
            if not short.any():
                break
            low, high = xp.where(short, high, low), xp.where(short, 2.0 * high, high)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            short = middle * self._share(middle, rho) < size
            low, high = xp.where(short, middle, low), xp.where(short, high, middle)
        return low, high

    def clip(self, G: Array, Y: Array) -> Any:
        return self.base.clip(_without_last(G), Y)

    @property
    def lipschitz(self) -> float:
        return self.base.lipschitz


def _without_last(F: Array) -> Any:
    """Return a copy whose last column is 0."""
    F = 1.0 * F
    F[:, -1] = 0.0
    return F
