"""Parameters, checked: every message names one, and says what was given and what to do."""

from __future__ import annotations

import difflib
import math
import numbers
import operator
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from .typing import RandomState

Named = TypeVar("Named")


class Registry(dict[str, Named]):
    """Classes by name, with underscores between words. Other spellings are found but not listed.

    Parameters
    ----------
    **aliases : str
        The name that each other spelling stands for; hyphens for underscores need none.
    """

    def __init__(self, **aliases: str) -> None:
        super().__init__()
        self.aliases = aliases

    def spelled(self, name: str) -> str:
        """Return the name as it is in here, given any spelling of it."""
        if name in self:
            return name
        name = name.replace("-", "_")
        return self.aliases.get(name, name)


def resolve(name: str, registry: Mapping[str, Named], kind: str) -> Named:
    """Return the value of `name` in `registry`, or raise with all names and the nearest one.

    The attribute `elsewhere` of a value lists its names in other libraries, which count as nearest.
    """
    if not isinstance(name, str):
        raise TypeError(f"{kind} must be a name. Got {name!r} instead. {_available(registry)}")
    if name in registry:
        return registry[name]
    aliases: Mapping[str, str] = getattr(registry, "aliases", {})
    spelled = registry.spelled(name) if isinstance(registry, Registry) else name
    if spelled in registry:
        return registry[spelled]
    elsewhere = [key for key, value in registry.items() if name in getattr(value, "elsewhere", ())]
    nearest = elsewhere or difflib.get_close_matches(name.lower(), [*registry, *aliases], n=1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"Unknown {kind} {name!r}.{hint} {_available(registry)}")


def _available(registry: Mapping[str, object]) -> str:
    return f"Available: {', '.join(sorted(registry))}."


def check_choice(value: object, name: str, choices: tuple[object, ...]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        nearest = difflib.get_close_matches(str(value), [str(c) for c in choices], n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        listed = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be one of {listed}. Got {value!r} instead.{hint}")


def check_number(
    value: object, name: str, *, low: float = 0.0, strict: bool = False, integer: bool = False
) -> Any:
    """Return `value` if it is a finite number above `low` (`strict`: not equal to it)."""
    kind: Any = numbers.Integral if integer else numbers.Real
    noun = "an integer" if integer else "a finite number"
    sign = ">" if strict else ">="
    message = f"{name} must be {noun} {sign} {low:g}. Got {value!r} instead."
    if integer and not isinstance(value, numbers.Number) and hasattr(value, "__index__"):
        value = operator.index(value)  # an object that stands for an integer
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(message)
    with suppress(OverflowError):  # of an integer beyond float64
        if math.isfinite(value) and (value > low or (value == low and not strict)):
            return value
    raise ValueError(message)


def check_level(value: object, name: str) -> float:
    """Return `value` if it is a probability, strictly between 0 and 1."""
    if not isinstance(value, numbers.Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1. Got {value!r} instead.")
    return float(value)


def check_alphas(alpha: object, *, strict: bool = False) -> list[float]:
    """Return one or several penalties as a list."""
    if isinstance(alpha, Iterable) and not isinstance(alpha, str):
        alphas = list(alpha)
    else:
        alphas = [alpha]
    if not alphas:
        raise ValueError("alpha must be a number or a non-empty sequence of numbers. Got [].")
    return [float(check_number(value, "alpha", strict=strict)) for value in alphas]


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the line of the first caller outside of skout: the user's, or scikit-learn's."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("skout"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_size(size: object, n: int, name: str) -> int:
    """Return a sketch size, or a number of folds, clipped to n with a warning."""
    checked = int(check_number(size, name, low=1, integer=True))
    if checked > n:
        warn_user(f"{name}={checked} is larger than the number of rows, {n}; using {n}.")
    return min(checked, n)


def check_rng(random_state: RandomState) -> np.random.Generator:
    """Return a Generator from None, an int, a Generator or a RandomState."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be None, an int, a numpy Generator or a RandomState. "
            f"Got {random_state!r} instead."
        ) from error


def spawn_seed(random_state: RandomState) -> int | None:
    """Return a seed whose draws are independent of those of `random_state`; None for None.

    A Generator or RandomState moves on by one draw.
    """
    return None if random_state is None else int(check_rng(random_state).integers(2**31))


# Least and largest weights of rows: products of two or three of them stay within float64, which
# ends at 1e-308 and 1e308. A sum of weights may be larger, by the number of rows.
LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100


def check_total_weight(total: float) -> None:
    """Raise where the weights of all rows sum to zero, or to what cannot be computed with."""
    if total <= 0.0:
        raise ValueError("sample_weight must have a positive sum. Got only zeros instead.")
    if not 0.5 * LEAST_WEIGHT <= total <= 1e20 * MOST_WEIGHT:
        raise ValueError(
            f"sample_weight must come to between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}, so that "
            f"products of it are no zeros. Got {total:g}: multiply all weights by one number, "
            "which changes nothing else."
        )


_SCALE = "Scale the features, for instance with scikit-learn's StandardScaler."
# Columns differ in scale where the largest standard deviation is more than so many times the
# smallest and the median one. Measured on the 44 tables of experiments/ours/scales.py, a Gaussian
# kernel on raw and on standardized columns: the table is in docs/regression.md. On the 27 of them
# with one target, any first number from 33 to 820 together with any second from 3 to 22 chooses the
# same tables. The second one spares images, whose border is nearly constant. Columns of two values
# do not count: those of rare categories vary little.
_SCALES, _FROM_MEDIAN = 100.0, 10.0
# Rows by which scales are measured: their standard deviations are known to about 2 %.
_SCALED_ROWS = 2000
# What `warn_of_scales` has said in this process.
_WARNED: set[str] = set()


def warn_of_scales(X: np.ndarray, names: Sequence[str] | None = None) -> None:
    """Warn where columns of a matrix differ so much in scale that distances see a few alone.

    A process says the same only once: a search fits many times, and Python's own record of what
    was shown is cleared by scikit-learn between two fits. The message has no number that changes
    with a few rows.
    """
    few = X[:: max(1, len(X) // _SCALED_ROWS)]
    low, high = few.min(axis=0), few.max(axis=0)
    counted = np.flatnonzero(((few != low) & (few != high)).any(axis=0))
    spread = few[:, counted].std(axis=0, dtype=np.float64)
    counted, spread = counted[spread > 0.0], spread[spread > 0.0]
    if len(spread) < 2:
        return
    wide, narrow = int(spread.argmax()), int(spread.argmin())
    ratio = spread[wide] / spread[narrow]
    if ratio <= _SCALES or spread[wide] <= _FROM_MEDIAN * np.median(spread):
        return
    called = [
        f"column {counted[j]}" if names is None else f"{names[counted[j]]!r}"
        for j in (wide, narrow)
    ]
    message = (
        f"The {X.shape[1]} columns of X have very different scale: the standard deviation of "
        f"{called[0]} is more than {10 ** int(np.log10(ratio)):,} times that of {called[1]}, so "
        f"that distances hardly see the latter. {_SCALE}"
    )
    if message not in _WARNED:
        warn_user(message)
        _WARNED.add(message)  # after it, so that one that is made an error is raised each time


def check_squares(rows: Any, name: str, advice: str = _SCALE) -> None:
    """Raise where distances and products of rows would overflow."""
    values = rows.data if sparse.issparse(rows) else rows
    if values.size == 0:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        if values.flags.forc:
            flat = values.ravel(order="K")
            total = np.vdot(flat, flat)
        else:  # without a copy
            axes = "ij"[: values.ndim]
            total = np.einsum(f"{axes},{axes}->", values, values)
        if np.isfinite(total):  # then all parts of the sum are, too
            return
    largest = float(np.fmax.reduce(np.abs(values), axis=None))  # NaN is missing
    limit = float(np.sqrt(np.finfo(values.dtype).max / (4.0 * max(1, *rows.shape))))
    if largest > limit:
        raise ValueError(
            f"{name} holds numbers up to {largest:.3g}, whose squares overflow {values.dtype}. "
            f"{advice}"
        )
