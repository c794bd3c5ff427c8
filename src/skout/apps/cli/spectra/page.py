"""The page of identifications: one HTML file with drawn structures and explained peaks."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from skout.dev import Spectra, replacing
from skout.kinds import Smiles

from ...spectra.identify import Explanation, Fragment, Hit, Identification
from ..pages import bar, page_in_one_file, table
from ..results import digits
from .drawings import spectrum_svg
from .work import Identified

# The most candidates of a spectrum that are drawn; the others are listed.
_DRAWN = 5
# The most spectra of a page without an overview, where no section is folded.
_OPEN = 3
# The most fragments that are drawn, those of the largest peaks.
_FRAGMENTS = 6
_MARK = "<!-- here -->"
_HEADER = """<h1>{title}</h1>
<p class="dim">{about}</p>
<p class="dim">Candidates in a blue frame are the prediction set: where the pool has the molecule,
it is among them in {coverage} of the cases. The bar is the confidence, the probability that a
candidate is right, again where the pool has the molecule. Blue peaks weigh as a part of the first
candidate; point at a peak for its formula. The orange mark is the precursor.</p>"""
# What is said of a candidate that has the mass or formula of its spectrum alone.
_ALONE = "the only candidate"


def write_page(identified: Identified, path: Path) -> None:
    """Write the page: an overview, and a section for each spectrum, which opens on demand.

    The file appears when all is written.
    """
    about = identified.about
    shown = (
        f"Candidates from {about['pool']}, {about['molecules']:,} molecules, within "
        f"{about['ppm']:g} ppm; {digits(about['seconds'])} s"
    )
    n = len(identified.results)
    title = f"{n:,} {'spectrum' if n == 1 else 'spectra'} of {', '.join(about['spectra'])}"
    said = _HEADER.format(
        title=escape(title), about=escape(shown), coverage=f"{100 * about['coverage']:g} %"
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


def _percent(confidence: float) -> str:
    return f"{100 * confidence:.0f} %" if confidence < 0.995 else "> 99 %"


def _place(result: Identification) -> float:
    """Return where a spectrum stands: the surest first, then those with one candidate or none.

    The confidence of a single candidate is 1, whatever the spectrum.
    """
    if not result.hits:
        return 2.0
    return -result.hits[0].confidence if result.n_candidates > 1 else 1.0


def _overview(results: list[Identification]) -> str:
    """Return a table of all spectra, by confidence, with links to their sections."""
    order = sorted(range(len(results)), key=lambda i: _place(results[i]))
    head = ["spectrum", "best candidate", "confidence", "precursor", "adduct", "candidates"]
    rows = [_overview_row(i, results[i]) for i in order]
    overview = table([*head, "prediction set"], rows, wide=range(3, 7), name="overview")
    return f"<section><h2>Overview</h2>{overview}</section>\n"


def _overview_row(i: int, result: Identification) -> list[str]:
    best, share = f'<span class="dim">{escape(result.note)}</span>', ""
    if result.hits:
        hit = result.hits[0]
        percent, best = _percent(hit.confidence), escape(hit.name or hit.formula)
        several = result.n_candidates > 1
        share = bar(hit.confidence, percent) + escape(percent) if several else _ALONE
    mz = "" if math.isnan(result.precursor_mz) else f"{result.precursor_mz:.4f}"
    link = f'<a href="#s{i + 1}">{escape(result.query)}</a>'
    counts = [f"{result.n_candidates:,}", f"{result.n_in_set:,}"]
    return [link, best, share, mz, escape(result.adduct), *counts]


def _section(i: int, result: Identification, spectrum: Spectra, identified: Identified) -> str:
    """Return the section of a spectrum, which is folded where there are many."""
    facts = [f"record {result.record} of the file"]
    if not math.isnan(result.precursor_mz):
        facts.append(f"precursor {result.precursor_mz:.4f}")
    facts += [escape(result.adduct)] if result.adduct else []
    is_alone = result.n_candidates == 1
    facts.append(
        f"{result.n_candidates:,} candidates, {result.n_in_set:,} in the prediction set"
        if not is_alone
        else _ALONE
    )
    short = result.note
    if result.hits:
        best = result.hits[0]
        sure = _ALONE if is_alone else _percent(best.confidence)
        short = f"{best.name or best.formula}, {sure}"
    is_open = len(identified.results) <= _OPEN
    kind, fold = ("", " open") if is_open else (' class="folded"', "")
    # a link to an element in folded details opens these
    lines = [
        f"<section{kind}><details{fold}><summary><h2>{escape(result.query)}</h2>"
        f'<span class="dim">{escape(short)}</span></summary>',
        f'<p class="dim" id="s{i + 1}">{" · ".join(facts)}</p>',
    ]
    if result.note:
        lines.append(f"<p>{escape(result.note)}</p>")
    if result.hits:
        lines.append(_peaks(result, spectrum, identified))
        drawn = (_drawn(hit, is_alone) for hit in result.hits[:_DRAWN])
        lines.append(f'<ol class="hits">{"".join(drawn)}</ol>')
    if len(result.hits) > _DRAWN:
        lines.append(_listed(result.hits[_DRAWN:]))
    return "\n".join([*lines, "</details></section>", ""])


def _peaks(result: Identification, spectrum: Spectra, identified: Identified) -> str:
    """Return the drawing of a spectrum, with the peaks that the first candidate explains."""
    adduct = result.adduct or "[M+H]+"
    try:
        explained = identified.model.explain(spectrum, result.hits[0].smiles, adduct=adduct)
    except ValueError as error:  # an element or a size that is not fragmented
        return f'<p class="dim">{escape(str(error))}</p>'
    return spectrum_svg(explained, result.precursor_mz) + _fragments(explained)


def _fragments(explained: Explanation) -> str:
    """Return drawings of the first candidate, each with the fragment of a large peak colored."""
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


def _drawn(hit: Hit, is_alone: bool) -> str:
    percent = _ALONE if is_alone else _percent(hit.confidence)
    said = f"{hit.rank}. {hit.name or hit.formula}"
    facts = [hit.formula, percent] if hit.name else [percent]
    return (
        f'<li class="{"in" if hit.in_set else "out"}">{Smiles().picture(hit.smiles)}'
        f'<div class="name">{escape(said)}</div>'
        f"{'' if is_alone else bar(hit.confidence, f'confidence {percent}')}"
        f'<div class="dim">{escape(" · ".join(facts))}</div>'
        f'<div class="smiles">{escape(hit.smiles)}</div></li>'
    )


def _listed(hits: Sequence[Hit]) -> str:
    """Return a table of candidates, for those that are not drawn."""
    rows = [
        [
            str(hit.rank),
            escape(hit.name or hit.formula),
            f'<span class="smiles">{escape(hit.smiles)}</span>',
            f"{100 * hit.confidence:.1f} %",
            "yes" if hit.in_set else "",
        ]
        for hit in hits
    ]
    head = ["rank", "name", "SMILES", "confidence", "in the prediction set"]
    others = table(head, rows)
    return (
        f'<details><summary>{len(hits)} more</summary><div class="scroll">{others}</div></details>'
    )
