"""What a kernel ridge fit costs by either solver: the model of docs/scale.md, in operations.

Which solver is taken is decided by the numbers of a CPU on a GPU too, so that the same fit takes
the same solver on both. A GPU has numbers of its own for what changes the speed only: the kind of
preconditioner, and the size of its sketch.
"""

from __future__ import annotations

__all__ = [
    "LEAST_LANDMARKS",
    "cheaper",
    "exact_costs",
    "is_small",
    "preconditioner_costs",
    "sketch_rank",
    "sketched_costs",
]

# What a kernel value costs besides its product, in operations of a float32 matrix product that the
# machine could do meanwhile: on a CPU an exponential and its traffic in cache, on a GPU traffic in
# memory. What one costs that was kept. How much longer double precision takes than single. Round
# numbers, see docs/scale.md; the key is whether it is a GPU.
_VALUE = {False: 130.0, True: 400.0}
_KEPT = {False: 50.0, True: 100.0}
_DOUBLE = {False: 2.0, True: 1.0}
# Passes in double precision: the right side, and two checks of the residual.
_CHECKS = 3
# Steps until the default tolerance by kind of preconditioner; of an exact fit.
_STEPS = {"sampled 4": 12, "sampled 2": 20, "two": 30, "one": 35, "sketch": 60}
_EXACT_STEPS = 40
# Conjugate gradients must promise to be so many times cheaper: the direct solver has no tolerance.
_MARGIN = 1.5
# Below these sizes the direct solver is used in any case, with landmarks and without.
LEAST_LANDMARKS, _LEAST_ROWS = 2500, 8000
# About the rows whose tiles of K, in single precision, are kept by default.
_KEPT_ROWS = 40000
# Least rows of the sketch that preconditions an exact fit.
_LEAST_SKETCH = 500


def sketched_costs(
    n: int, m: int, d: int, q: int, *, factors: int = 2, kept: float = 1.0
) -> dict[str, float]:
    """Return the operations of a fit of n rows, m landmarks, d columns and q outputs.

    direct  n m (2 d + v + m + 2 q) + 4 m^3        values, Z'Z, Z'T; factors and the solution
    cg      3 n m (2 d + 1.5 v + 4 q) + setup + steps n m (k + 4 q)

    v and k are what a value costs that is computed, and one that is kept; a share of the values is
    kept, and k is 2 d + v for the others. Setup and steps depend on the preconditioner, see
    `preconditioner_costs`, and are those of the cheapest.
    """
    value, double = _VALUE[False], _DOUBLE[False]
    direct = n * m * (2.0 * d + value + m + 2.0 * q) + 2.0 * double * m**3
    cg = _CHECKS * n * m * (2.0 * d + 1.5 * value + 4.0 * q)
    cg += min(preconditioner_costs(n, m, d, q, factors=factors, kept=kept).values())
    return {"direct": direct, "cg": cg}


def preconditioner_costs(
    n: int, m: int, d: int, q: int, *, factors: int, kept: float, on_device: bool = False
) -> dict[str, float]:
    """Return setup and steps by kind of preconditioner, of those that there is memory for.

    Setup: m^3 of two factors, m^3 / 3 of one in single precision, (s + m / 3) m^2 of s = 2 m or 4 m
    sampled rows. `factors` is how many m x m matrices there is memory for: 2, 1 in single
    precision, or 0, where a second sketch must do.
    """
    double, cube = _DOUBLE[on_device], float(m) ** 3
    value = kept * _KEPT[on_device] + (1.0 - kept) * (2.0 * d + _VALUE[on_device])
    a_pass = n * m * (value + 4.0 * q)
    setup = {
        "sampled 4": double * (4 + 1 / 3) * cube,
        "sampled 2": double * (2 + 1 / 3) * cube,
        "two": double * cube,
        "one": cube / 3 if on_device else 2 * cube / 3,
        "sketch": 2.0 * m * min(m, 4000) ** 2,
    }
    names = {2: ("sampled 4", "sampled 2", "two", "one"), 1: ("one",), 0: ("sketch",)}[factors]
    return {name: setup[name] + _STEPS[name] * a_pass for name in names}


def exact_costs(n: int, d: int, q: int) -> dict[str, float]:
    """Return the operations of an exact fit.

    direct  n^2 (2 d + v) / 2 + n^3 / 3
    cg      3 n^2 (2 d + 1.5 v) / 2 + steps n^2 (k + 4 q) / 2 + 3 n r^2, r the rows of a sketch
    """
    value, double = 0.5 * (2.0 * d + _VALUE[False]), _DOUBLE[False]
    kept = 0.5 * (_KEPT[False] + 4.0 * q) if n <= _KEPT_ROWS else value + 2.0 * q
    direct = n * n * value + double * n**3 / 3.0
    cg = n * n * (1.5 * _CHECKS * value + _EXACT_STEPS * kept)
    return {"direct": direct, "cg": cg + 3.0 * double * n * sketch_rank(n) ** 2}


def sketch_rank(n: int, on_device: bool = False) -> int:
    """Return the rows of the sketch that preconditions n rows: the more, the fewer passes."""
    return int(min(n, 20000, max(_LEAST_SKETCH, (15 if on_device else 10) * n**0.5)))


def is_small(n: int) -> bool:
    """Return whether there are so few rows that the direct solver is taken for an exact fit."""
    return n < _LEAST_ROWS


def cheaper(costs: dict[str, float]) -> str:
    """Return the solver to take by itself."""
    return "cg" if costs["cg"] * _MARGIN < costs["direct"] else "direct"
