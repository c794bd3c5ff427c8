"""What a kernel ridge fit costs by either solver: the model of docs/scale.md, in operations."""

from __future__ import annotations

__all__ = ["cheaper", "cheapest_preconditioner", "exact_costs", "sketch_rank", "sketched_costs"]

# Passes of conjugate gradients until the default tolerance: about so many were seen.
_PASSES = 20
# What a kernel value costs besides its product, in operations of a matrix product that the
# machine could do meanwhile: an exponential on a core, memory traffic on a card.
_VALUE = {False: 100.0, True: 250.0}
# Conjugate gradients must promise to be so many times cheaper: the direct solver has no tolerance.
_MARGIN = 1.5
# Below these sizes the direct solver is used in any case, with landmarks and without.
_LEAST_LANDMARKS, _LEAST_ROWS = 2500, 8000
# Least rows of the sketch that preconditions an exact fit.
_LEAST_SKETCH = 500


def sketched_costs(n: int, m: int, d: int, q: int, on_card: bool = False) -> dict[str, float]:
    """Return the operations of a fit of n rows, m landmarks, d columns and q outputs.

    direct  n m (2 d + v + m + 2 q) + 2 m^3          values, Z'Z, Z'T; factors and the solution
    cg      passes n m (2 d + v + 4 q) + m^3         values, F V and F'(F V); the preconditioner
    """
    value = 2.0 * d + _VALUE[on_card]
    direct = n * m * (value + m + 2.0 * q) + 2.0 * m**3
    cg = _PASSES * n * m * (value + 4.0 * q) + 1.0 * m**3
    return {"direct": direct, "cg": cg}


def exact_costs(n: int, d: int, q: int, on_card: bool = False) -> dict[str, float]:
    """Return the operations of an exact fit.

    direct  n^2 (2 d + v) / 2 + n^3 / 3
    cg      passes n^2 ((2 d + v) / 2 + 2 q) + preconditioner, n r^2 of a sketch of r rows
    """
    value = 0.5 * (2.0 * d + _VALUE[on_card])
    rank = sketch_rank(n, on_card)
    direct = n * n * value + n**3 / 3.0
    cg = 2 * _PASSES * n * n * (value + 2.0 * q) + 3.0 * n * rank**2
    return {"direct": direct, "cg": cg}


def sketch_rank(n: int, on_card: bool = False) -> int:
    """Return the rows of the sketch that preconditions n rows: the more, the fewer passes."""
    return int(min(n, 20000, max(_LEAST_SKETCH, (15 if on_card else 10) * n**0.5)))


def cheapest_preconditioner(
    n: int, m: int, d: int, q: int, factors: int, on_card: bool
) -> tuple[str, int]:
    """Return the kind of preconditioner that makes setup and steps cheapest, and rows to sample.

    Setup: m^3 of two factors, m^3 / 3 of one in single precision, (s + m / 3) m^2 of s sampled
    rows; the steps each needs were measured. `factors` is how many m x m matrices there is room
    for: 2, 1 in single precision, or 0, where a second sketch must do.
    """
    if factors == 0:
        return "sketch", 0
    if factors == 1:
        return "one", 0
    double = 1.0 if on_card else 2.0
    a_pass = n * m * (2.0 * d + _VALUE[False] + 4.0 * q)
    cube = float(m) ** 3
    costs = {
        ("sampled", 4 * m): double * (4 + 1 / 3) * cube + 12 * a_pass,
        ("sampled", 2 * m): double * (2 + 1 / 3) * cube + 20 * a_pass,
        ("two", 0): double * cube + 30 * a_pass,
        ("one", 0): cube / 3 + 35 * a_pass,
    }
    return min(costs, key=lambda kind: costs[kind])


def cheaper(costs: dict[str, float], size: int, *, exact: bool = False) -> str:
    """Return the solver to take by itself."""
    least = _LEAST_ROWS if exact else _LEAST_LANDMARKS
    return "cg" if size >= least and costs["cg"] * _MARGIN < costs["direct"] else "direct"
