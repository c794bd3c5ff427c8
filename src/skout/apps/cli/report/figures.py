"""The plots of a report, as SVG."""

from collections.abc import Sequence
from html import escape

from ..results import digits
from .calibration import Level
from .measure import Point

_WIDTH, _HEIGHT = 560, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 540, 16, 204


def calibration_svg(levels: Sequence[Level]) -> str:
    """Return the plot of observed shares against nominal ones; on the dashed line both agree."""
    lines = [_segment(_at(0.0, 0.0), _at(1.0, 1.0), "nominal")]
    for level in levels:
        low, high = max(0.0, level.observed - level.error), min(1.0, level.observed + level.error)
        lines.append(_segment(_at(level.nominal, low), _at(level.nominal, high), "bar2"))
        lines.append(_dot(_at(level.nominal, level.observed)))
    ticks = [_text(_at(x, 0.0), f"{x:.0%}", 18) for x in (0.0, 0.5, 1.0)]
    ticks += [_left(_at(0.0, y), f"{y:.0%}") for y in (0.0, 0.5, 1.0)]
    return _plot("observed against nominal", "nominal", "observed", [*lines, *ticks])


def curve_svg(points: Sequence[Point], name: str) -> str:
    """Return the plot of scores against training rows; its axes begin at 0, or below."""
    most = max(point.rows for point in points)
    scores = [point.score for point in points]
    low, high = min(0.0, *scores), max(0.0, *scores)
    high = 1.0 if 0.2 < high <= 1.0 else 1.1 * high  # most scores are at most 1
    spread = (high - low) or 1.0
    places = [_at(p.rows / most, (p.score - low) / spread) for p in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    lines = [f'<polyline class="line" points="{path}"/>', *map(_dot, places)]
    ends = {points[0].rows: places[0], points[-1].rows: places[-1]}
    ticks = [_text((x, float(_BOTTOM)), f"{rows:,}", 18) for rows, (x, _) in ends.items()]
    ticks += [_left(_at(0.0, (y - low) / spread), digits(y)) for y in dict.fromkeys((low, high))]
    return _plot(f"{name} against training rows", "training rows", name, [*lines, *ticks])


def _at(x: float, y: float) -> tuple[float, float]:
    """Return the pixels of a point of the unit square."""
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


def _plot(label: str, below: str, left: str, lines: Sequence[str]) -> str:
    axes = _segment(_at(0, 0), _at(1, 0), "axis") + _segment(_at(0, 0), _at(0, 1), "axis")
    names = _text(_at(0.5, 0.0), below, 34)
    names += f'<text x="{_LEFT + 6}" y="{_TOP + 4}">{escape(left)}</text>'
    return (
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(label)}" xmlns="http://www.w3.org/2000/svg">{axes}'
        f"{names}{''.join(lines)}</svg>"
    )
