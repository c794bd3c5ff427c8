"""The drawing of a spectrum whose peaks a molecule explains, as SVG."""

from html import escape

import numpy as np

from ...spectra.identify import Explanation

_WIDTH, _HEIGHT = 640, 220
_LEFT, _BOTTOM, _TOP = 8, 24, 34
# The most peaks that are drawn, and that are labeled.
_MOST_PEAKS, _MOST_NAMES = 300, 8
_NEAREST_NAMES = 52.0  # pixels between labels


def spectrum_svg(explanation: Explanation, precursor: float = np.nan) -> str:
    """Return the drawing of a spectrum: explained peaks are colored, the largest are labeled."""
    mz, height = explanation.mz, explanation.intensity
    shown = np.sort(np.argsort(-height, kind="stable")[:_MOST_PEAKS])
    low, high = _ends(mz, precursor)
    x = _LEFT + (mz - low) / (high - low) * (_WIDTH - 2 * _LEFT)
    base, room = _HEIGHT - _BOTTOM, _HEIGHT - _BOTTOM - _TOP
    lines = [_peak(x[i], base, base - room * height[i], explanation, i) for i in shown]
    if np.isfinite(precursor):
        place = _LEFT + (precursor - low) / (high - low) * (_WIDTH - 2 * _LEFT)
        lines.append(f'<path class="precursor" d="M{place:.1f} {base}v6"/>')
    names = [
        _name(x[i], base - room * height[i], explanation.formula[i]) for i in _named(explanation, x)
    ]
    ticks = [_tick(low, high, value, base) for value in _round_values(low, high)]
    label = (
        f"{len(mz)} peaks, {100 * explanation.share:.0f} % of the intensity explained by "
        f"{escape(explanation.smiles, quote=True)}"
    )
    return (
        f'<svg class="spectrum" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}" '
        f'xmlns="http://www.w3.org/2000/svg">'
        f'<path class="axis" d="M{_LEFT} {base}H{_WIDTH - _LEFT}"/>'
        + "".join([*lines, *names, *ticks])
        + "</svg>"
    )


def _ends(mz: np.ndarray, precursor: float) -> tuple[float, float]:
    low, high = float(mz.min()), float(np.nanmax([mz.max(), precursor]))
    margin = max(5.0, 0.04 * (high - low))
    return max(0.0, low - margin), high + margin


def _peak(x: float, base: float, top: float, explanation: Explanation, i: int) -> str:
    formula, error = explanation.formula[i], explanation.error_ppm[i]
    said = f"m/z {explanation.mz[i]:.4f}, {100 * explanation.intensity[i]:.1f} %"
    if formula:
        said += f": {formula}, {error:+.1f} ppm"
    kind = "explained" if formula else "other"
    return (
        f'<path class="{kind}" d="M{x:.1f} {base}V{top:.1f}"><title>{escape(said)}</title></path>'
    )


def _named(explanation: Explanation, x: np.ndarray) -> list[int]:
    """Return the largest explained peaks whose labels do not overlap."""
    peaks: list[int] = []
    for i in np.argsort(-explanation.intensity, kind="stable"):
        apart = all(abs(x[i] - x[j]) > _NEAREST_NAMES for j in peaks)
        if explanation.formula[i] and apart:
            peaks.append(int(i))
        if len(peaks) == _MOST_NAMES:
            break
    return peaks


def _name(x: float, top: float, formula: str) -> str:
    half = 5.2 * len(formula)  # of the larger letters of a telephone
    place = min(max(x, half), _WIDTH - half)
    return f'<text class="formula" x="{place:.1f}" y="{top - 5:.1f}">{escape(formula)}</text>'


def _round_values(low: float, high: float) -> np.ndarray:
    """Return about six round numbers between `low` and `high`, for ticks."""
    step = 10.0 ** np.floor(np.log10((high - low) / 3))
    step *= next((k for k in (1, 2, 5) if (high - low) / (k * step) <= 7), 10)
    values: np.ndarray = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    return values


def _tick(low: float, high: float, value: float, base: float) -> str:
    text = f"{value:g}"
    half = 5.0 * len(text)  # of the larger letters of a telephone
    x = _LEFT + (value - low) / (high - low) * (_WIDTH - 2 * _LEFT)
    place = min(max(x, half), _WIDTH - half)
    return f'<text class="tick" x="{place:.1f}" y="{base + 18}">{text}</text>'
