"""Table 4.4 as a plan: `massbank.py` in one piece, which writes its record itself."""

from __future__ import annotations

from typing import Any

from experiments.papers import massbank
from experiments.pieces import Plan, Size, alone


def run(quick: bool) -> list[dict[str, Any]]:
    """Run all methods, if the candidates are there."""
    path = massbank.CACHE / "massbank.npz"
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {path}: run massbank.py prepare, with --moses and the wheel of molsets "
            "for the candidates of the record."
        )
    massbank.run(quick)  # writes a new record, to which the others add
    for name, part in {"alignf": massbank.alignf, "landmarks": massbank.landmarks}.items():
        rows, settings = part(massbank.Problem(), quick)
        if not quick:
            massbank.extend(name, rows, settings)
    return []


def plan(size: Size) -> Plan:
    quick = size == "quick"
    settings = {"m_x": massbank.M_X, "m_y": massbank.M_Y, "n_exact": massbank.N_EXACT}
    settings |= {"gammas": massbank.GAMMAS, "alphas": massbank.ALPHAS, "quick": quick}
    return Plan("massbank", settings, {"all": alone(run, quick)}, rows=None)
