"""A page of identifications that needs nothing else: drawn structures, explained peaks."""

import math
from html import escape
from pathlib import Path
from typing import Any

from skout.dev import Spectra, replacing
from skout.kinds import Smiles

from ...spectra.identify import Explanation, Fragment, Hit, Identification
from ..pages import bar, page_in_one_file
from ..results import digits
from .drawings import spectrum_svg
from .work import Identified

# Candidates of a spectrum that are drawn; the others are listed.
_DRAWN = 5
# Spectra of a page that has no overview, and nothing folded up.
_OPEN = 3
# Fragments that are drawn: of the largest peaks.
_FRAGMENTS = 6
_MARK = "<!-- here -->"
_HEADER = """<h1>{title}</h1>
<p class="dim">{about}</p>
<p class="dim">A blue frame: in the prediction set, which holds the molecule with a probability of
{coverage} where the pool has it. The bar is the confidence. Blue peaks weigh as a part of the first
candidate; point at a peak for its formula. The orange mark is the precursor.</p>"""


def write_page(identified: Identified, path: Path) -> None:
    """Write one HTML file: an overview, and a section a spectrum that opens on demand.

    It appears when all is written.
    """
    about = identified.about
    shown = (
        f"{about['pool']}: {about['molecules']:,} molecules, within {about['ppm']:g} ppm; "
        f"{digits(about['seconds'])} s"
    )
    n = len(identified.results)
    title = f"{n:,} {'spectrum' if n == 1 else 'spectra'} of {', '.join(about['spectra'])}"
    said = _HEADER.format(
        title=escape(title), about=escape(shown), coverage=f"{about['coverage']:g}"
    )
    page = page_in_one_file(__package__, title, said, _MARK)
    before, _, after = page.partition(_MARK)
    with replacing(path) as part, open(part, "w", encoding="utf-8") as file:
        file.write(before)
        if len(identified.results) > _OPEN:
            file.write(_overview(identified.results))
        for i, (result, row) in enumerate(zip(identified.results, identified.rows, strict=True)):
            file.write(_section(i, result, identified.table.spectra[row : row + 1], identified))
        file.write(after)


def _confidence(result: Identification) -> float:
    return result.hits[0].confidence if result.hits else -1.0


def _overview(results: list[Identification]) -> str:
    """Return a table of all spectra, the surest first, with links to their sections."""
    order = sorted(range(len(results)), key=lambda i: -_confidence(results[i]))
    head = (
        "<tr><th>spectrum</th><th>best candidate</th><th>confidence</th>"
        '<th class="wide">precursor</th><th class="wide">adduct</th>'
        '<th class="wide">candidates</th><th class="wide">in the set</th></tr>'
    )
    rows = "".join(_overview_row(i, results[i]) for i in order)
    return f'<section><h2>Overview</h2><table class="overview">{head}{rows}</table></section>\n'


def _overview_row(i: int, result: Identification) -> str:
    mz = "" if math.isnan(result.precursor_mz) else f"{result.precursor_mz:.4f}"
    facts = (mz, escape(result.adduct), f"{result.n_candidates:,}", f"{result.n_in_set:,}")
    wide = "".join(f'<td class="wide">{fact}</td>' for fact in facts)
    link = f'<td><a href="#s{i + 1}">{escape(result.query)}</a></td>'
    if not result.hits:
        return f'<tr>{link}<td colspan="2" class="dim">{escape(result.note)}</td>{wide}</tr>'
    best = result.hits[0]
    percent = f"{100 * best.confidence:.0f} %"
    return (
        f"<tr>{link}<td>{escape(best.name or best.formula)}</td>"
        f'<td class="share">{bar(best.confidence, percent)}{percent}</td>{wide}</tr>'
    )


def _section(i: int, result: Identification, spectrum: Spectra, identified: Identified) -> str:
    """Return the section of a spectrum; what is drawn is folded up where there are many."""
    facts = [f"record {result.record}"]
    if not math.isnan(result.precursor_mz):
        facts.append(f"precursor {result.precursor_mz:.4f}")
    facts += [escape(result.adduct)] if result.adduct else []
    facts.append(f"{result.n_candidates:,} candidates, {result.n_in_set:,} in the prediction set")
    best = result.hits[0] if result.hits else None
    short = f"{best.name or best.formula}, {100 * best.confidence:.0f} %" if best else result.note
    is_open = len(identified.results) <= _OPEN
    kind, fold = ("", " open") if is_open else (' class="folded"', "")
    # a link to what is inside of folded details opens them
    lines = [
        f"<section{kind}><details{fold}><summary><h2>{escape(result.query)}</h2>"
        f'<span class="dim">{escape(short)}</span></summary>',
        f'<p class="dim" id="s{i + 1}">{" · ".join(facts)}</p>',
    ]
    if result.note:
        lines.append(f"<p>{escape(result.note)}</p>")
    if result.hits:
        lines.append(_peaks(result, spectrum, identified))
        lines.append('<ol class="hits">' + "".join(map(_drawn, result.hits[:_DRAWN])) + "</ol>")
    if len(result.hits) > _DRAWN:
        lines.append(_listed(result.hits[_DRAWN:]))
    return "\n".join([*lines, "</details></section>", ""])


def _peaks(result: Identification, spectrum: Spectra, identified: Identified) -> str:
    """Return the spectrum with what the first candidate explains of it."""
    adduct = result.adduct or "[M+H]+"
    try:
        explained = identified.model.explain(spectrum, result.hits[0].smiles, adduct=adduct)
    except ValueError as error:  # an element or a size that is not tried
        return f'<p class="dim">{escape(str(error))}</p>'
    return spectrum_svg(explained, result.precursor_mz) + _fragments(explained)


def _fragments(explained: Explanation) -> str:
    """Return drawings of the first candidate with the fragments of the largest peaks colored."""
    fragments = [(i, fragment) for i, fragment in enumerate(explained.fragments) if fragment]
    largest = sorted(fragments, key=lambda pair: -explained.intensity[pair[0]])[:_FRAGMENTS]
    drawn = "".join(_fragment(explained, i, fragment) for i, fragment in largest)
    if not drawn:
        return ""
    return f'<details><summary>fragments</summary><ol class="hits">{drawn}</ol></details>'


def _fragment(explained: Explanation, i: int, fragment: Fragment) -> str:
    return (
        f"<li>{Smiles().picture(explained.smiles, fragment.atoms)}"
        f'<div class="name">m/z {explained.mz[i]:.4f}</div>'
        f'<div class="dim">{escape(explained.formula[i])} · {100 * explained.intensity[i]:.0f} % · '
        f"{explained.error_ppm[i]:+.1f} ppm · {fragment.hydrogens:+d} H</div></li>"
    )


def _drawn(hit: Hit) -> str:
    width = f"{100 * hit.confidence:.0f}"
    said = f"{hit.rank}. {hit.name or hit.formula}"
    return (
        f'<li class="{"in" if hit.in_set else "out"}">{Smiles().picture(hit.smiles)}'
        f'<div class="name">{escape(said)}</div>'
        f"{bar(hit.confidence, f'confidence {width} %')}"
        f'<div class="dim">{escape(hit.formula)} · {width} % · score {digits(hit.score)}</div>'
        f'<div class="smiles">{escape(hit.smiles)}</div></li>'
    )


def _listed(hits: Any) -> str:
    """Return a table of the candidates that are not drawn."""
    rows = "".join(
        f"<tr><td>{hit.rank}</td><td>{escape(hit.name or hit.formula)}</td>"
        f'<td class="smiles">{escape(hit.smiles)}</td><td>{100 * hit.confidence:.1f} %</td>'
        f"<td>{'yes' if hit.in_set else ''}</td></tr>"
        for hit in hits
    )
    head = (
        "<tr><th>rank</th><th>name</th><th>SMILES</th><th>confidence</th><th>in the set</th></tr>"
    )
    return (
        f"<details><summary>{len(hits)} more</summary>"
        f'<div class="scroll"><table>{head}{rows}</table></div></details>'
    )
