"""A page of identifications that needs nothing else: drawn structures, explained peaks."""

import math
from html import escape
from pathlib import Path
from typing import Any

from skout.dev import Spectra, replacing
from skout.kinds import Smiles

from ...spectra.identify import Hit, Identification
from ..pages import bar, page_in_one_file
from .drawings import spectrum_svg
from .work import Found

# Candidates of a spectrum that are drawn; the others are listed.
_DRAWN = 5
_MARK = "<!-- here -->"
_HEADER = """<h1>{title}</h1>
<p class="dim">{about}</p>
<p class="dim">A blue frame: in the prediction set, which holds the molecule with a probability of
{coverage} where the pool has it. The bar is the confidence. Blue peaks weigh as a part of the first
candidate; point at a peak for its formula.</p>"""


def write_page(found: Found, path: Path) -> None:
    """Write one HTML file, a section a spectrum, which appears when all is written."""
    about = found.about
    shown = (
        f"{about['pool']}: {about['molecules']:,} molecules, within {about['ppm']:g} ppm; "
        f"{about['seconds']:g} s"
    )
    title = f"{len(found.results)} spectra of {', '.join(about['spectra'])}"
    said = _HEADER.format(
        title=escape(title), about=escape(shown), coverage=f"{about['coverage']:g}"
    )
    page = page_in_one_file(__package__, title, said, _MARK)
    before, _, after = page.partition(_MARK)
    with replacing(path) as part, open(part, "w", encoding="utf-8") as file:
        file.write(before)
        for i, one in enumerate(found.results):
            file.write(_section(one, found.table.spectra[i : i + 1], found))
        file.write(after)


def _section(one: Identification, spectrum: Spectra, found: Found) -> str:
    """Return the section of a spectrum."""
    facts = [f"record {one.record}"]
    if not math.isnan(one.precursor_mz):
        facts.append(f"precursor {one.precursor_mz:.4f}")
    facts += [escape(one.adduct)] if one.adduct else []
    facts.append(f"{one.n_candidates:,} candidates, {one.n_in_set:,} in the prediction set")
    lines = [f"<section><h2>{escape(one.query)}</h2>", f'<p class="dim">{" · ".join(facts)}</p>']
    if one.note:
        lines.append(f"<p>{escape(one.note)}</p>")
    if one.hits:
        lines.append(_peaks(one, spectrum, found))
        lines.append('<ol class="hits">' + "".join(map(_drawn, one.hits[:_DRAWN])) + "</ol>")
    if len(one.hits) > _DRAWN:
        lines.append(_listed(one.hits[_DRAWN:]))
    return "\n".join([*lines, "</section>", ""])


def _peaks(one: Identification, spectrum: Spectra, found: Found) -> str:
    """Return the spectrum with what the first candidate explains of it."""
    adduct = one.adduct or "[M+H]+"
    try:
        explained = found.model.explain(spectrum, one.hits[0].smiles, adduct=adduct)
    except ValueError as error:  # an element or a size that is not tried
        return f'<p class="dim">{escape(str(error))}</p>'
    return spectrum_svg(explained, one.precursor_mz)


def _drawn(hit: Hit) -> str:
    width = f"{100 * hit.confidence:.0f}"
    said = f"{hit.rank}. {hit.name or hit.formula}"
    return (
        f'<li class="{"in" if hit.in_set else "out"}">{Smiles().picture(hit.smiles)}'
        f'<div class="name">{escape(said)}</div>'
        f"{bar(hit.confidence, f'confidence {width} %')}"
        f'<div class="dim">{escape(hit.formula)} · {width} % · score {hit.score:.3f}</div>'
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
