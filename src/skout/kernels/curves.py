"""Curves: real functions of one argument, known by their values at some points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from .._numerics.arrays import float_dtype
from .._numerics.namespace import cast, constant
from .metric import Transformed

__all__ = ["Curves"]


class Curves(Transformed):
    """k(f, g) of two functions by their L2 distance, for functional outputs (p. 26).

    Functions are known on a grid, and integrals are sums by the trapezoidal rule:
    <f, g> = sum_j w_j f(t_j) g(t_j). The kernel is `kernel` of the vectors sqrt(w_j) f(t_j): the
    linear one is <f, g>, the Gaussian one exp(-gamma ||f - g||^2). With the linear one
    `GradientDecoder` predicts no training output but the regression function itself.

    Parameters
    ----------
    kernel : kernel on vectors or str, default "linear"
    points : array of shape (q,), optional
        The grid t_1 < t_2 < ..., at least two points; default equally spaced in [0, 1].

    Notes
    -----
    Objects are an array of shape (n, q), the values on the grid, or a list of pairs (points,
    values), each function at points of its own, which are read on the grid by lines between them
    and as constants outside. Predictions that are built are values on the grid. `score` is R2 of
    the integrated squared error, see `skout.metrics.integrated_squared_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from skout import iokr
    >>> from skout.decoding import GradientDecoder
    >>> from skout.kernels import Curves
    >>> grid = np.linspace(0.0, 1.0, 101)
    >>> Curves(points=grid)([np.sin(np.pi * grid)]).round(3)  # the integral of its square
    array([[0.5]])
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> Y = np.sin(3.0 * X + grid)
    >>> model = iokr("gaussian", Curves(points=grid), decoder=GradientDecoder(), alpha=1e-6)
    >>> found = model.fit(X, Y).predict([[0.33]])
    >>> bool(np.abs(found - np.sin(3.0 * 0.33 + grid)).max() < 0.01)
    True
    """

    takes_vectors = False  # but pairs, too
    compares = "curves"

    def __init__(self, kernel: Any = "linear", points: Any = None) -> None:
        self.kernel = kernel
        self.points = points

    @property
    def is_linear(self) -> bool:  # type: ignore[override]
        return self._part("kernel").is_linear

    def encode(self, objects: Any) -> Any:
        """Return the values on the grid, shape (n, q)."""
        kernel = self._part("kernel")
        if not kernel.takes_vectors:
            raise TypeError(f"Curves takes a kernel on vectors. Got {kernel!r} instead.")
        if _are_pairs(objects):
            objects = self._on_grid(objects)
        rows = kernel.encode(objects.toarray() if hasattr(objects, "toarray") else objects)
        self._roots(rows.shape[1])
        return rows

    def _on_grid(self, pairs: Sequence[Any]) -> np.ndarray:
        """Return the values on the grid of functions at points of their own."""
        if self.points is None:
            raise ValueError("points must be given where functions have points of their own.")
        rows = []
        for i, (points, values) in enumerate(pairs):
            t, v = _checked(points, f"points of curve {i}"), np.asarray(values, dtype=np.float64)
            if v.shape != t.shape or not np.isfinite(v).all():
                raise ValueError(
                    f"Curve {i} must have one finite value for each of its {len(t)} points. "
                    f"Got an array of shape {v.shape}."
                )
            rows.append(np.interp(np.asarray(self.points, dtype=np.float64), t, v))
        return np.array(rows)

    def _roots(self, q: int) -> np.ndarray:
        """Return sqrt(w_j), w the weights of the trapezoidal rule."""
        t = np.linspace(0.0, 1.0, q) if self.points is None else _checked(self.points, "points")
        if len(t) != q or q < 2:
            raise ValueError(
                f"Curves need a value for each point of the grid, and two or more. Got {q} values"
                + ("." if self.points is None else f" and {len(t)} points.")
            )
        steps = np.diff(t)
        return np.sqrt(0.5 * (np.append(steps, 0.0) + np.append(0.0, steps)))

    def transform(self, A: Any) -> Any:
        # sqrt(w_j) f(t_j), whose Euclidean distances are those of functions
        return A * cast(constant(self._roots(A.shape[1]), A), float_dtype(A))

    @available_if(lambda self: hasattr(self._part("kernel"), "gradients"))
    def gradients(self, B: Any, coef: Any) -> Callable[[Any], Any]:
        """Return A -> gradients of the q functions sum_j coef_j k(., b_j) at rows of values.

        Parameters and result as those of `Gaussian.gradients`.
        """
        kernel: Any = self._part("kernel")
        base, roots = kernel.gradients(self.transform(B), coef), self._roots(B.shape[1])
        return lambda A: base(self.transform(A)) * cast(constant(roots, A), float_dtype(A))


def _checked(points: Any, name: str) -> np.ndarray:
    t = np.asarray(points, dtype=np.float64)
    if t.ndim != 1 or len(t) == 0 or not np.isfinite(t).all() or np.any(np.diff(t) <= 0.0):
        raise ValueError(f"{name} must be increasing numbers, shape (q,). Got {points!r}.")
    return t


def _are_pairs(objects: Any) -> bool:
    """Whether these are (points, values) pairs, not rows of values."""
    if getattr(objects, "ndim", 1) == 2 or len(objects) == 0:
        return False
    first = objects[0]
    return isinstance(first, tuple | list) and len(first) == 2 and np.ndim(first[0]) == 1
