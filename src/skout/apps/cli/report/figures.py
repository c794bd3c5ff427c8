"""Plots for a page, as SVG."""

from collections.abc import Sequence
from html import escape

from .calibration import Level
from .sources import Point

_WIDTH, _HEIGHT = 560, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 540, 16, 204


def calibration_svg(levels: Sequence[Level]) -> str:
    """Return shares that were found against nominal ones; on the line both agree."""
    lines = [_segment(_at(0.0, 0.0), _at(1.0, 1.0), "promise")]
    for one in levels:
        low, high = max(0.0, one.found - one.error), min(1.0, one.found + one.error)
        lines.append(_segment(_at(one.promised, low), _at(one.promised, high), "bar2"))
        lines.append(_dot(_at(one.promised, one.found)))
    ticks = [_text(_at(x, 0.0), f"{x:.0%}", 18) for x in (0.0, 0.5, 1.0)]
    ticks += [_left(_at(0.0, y), f"{y:.0%}") for y in (0.0, 0.5, 1.0)]
    return _plot("nominal against found", [*lines, *ticks])


def curve_svg(points: Sequence[Point], name: str) -> str:
    """Return scores against the number of training rows."""
    most = max(one.rows for one in points)
    low, high = (end(one.score for one in points) for end in (min, max))
    spread = (high - low) or 1.0
    places = [_at(one.rows / most, 0.1 + 0.8 * (one.score - low) / spread) for one in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    lines = [f'<polyline class="line" points="{path}"/>', *map(_dot, places)]
    ends = {points[0].rows: places[0], points[-1].rows: places[-1]}
    ticks = [_text((x, float(_BOTTOM)), f"{rows:,}", 18) for rows, (x, _) in ends.items()]
    levels = {low: _at(0.0, 0.1), high: _at(0.0, 0.9)} if high > low else {low: _at(0.0, 0.1)}
    ticks += [_left(place, f"{value:.4g}") for value, place in levels.items()]
    return _plot(f"{name} against training rows", [*lines, *ticks])


def _at(x: float, y: float) -> tuple[float, float]:
    """Return the pixel of a point of the unit square."""
    return _LEFT + x * (_RIGHT - _LEFT), _BOTTOM - y * (_BOTTOM - _TOP)


def _segment(start: tuple[float, float], end: tuple[float, float], name: str) -> str:
    (a, b), (c, d) = start, end
    return f'<line class="{name}" x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}"/>'


def _dot(place: tuple[float, float]) -> str:
    return f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="4"/>'


def _text(place: tuple[float, float], text: str, below: int) -> str:
    x, y = place
    return f'<text x="{x:.1f}" y="{y + below:.1f}" text-anchor="middle">{escape(text)}</text>'


def _left(place: tuple[float, float], text: str) -> str:
    x, y = place[0] - 6, place[1] + 4
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end">{escape(text)}</text>'


def _plot(label: str, lines: Sequence[str]) -> str:
    axes = _segment(_at(0, 0), _at(1, 0), "axis") + _segment(_at(0, 0), _at(0, 1), "axis")
    return (
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(label)}" xmlns="http://www.w3.org/2000/svg">{axes}'
        f"{''.join(lines)}</svg>"
    )
