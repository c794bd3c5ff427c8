"""The answers of a served model of spectra."""

import math
from dataclasses import dataclass
from typing import Any

from skout import SpectrumIdentifier
from skout.kinds import Smiles

from ...spectra.identify import Identification
from ...spectra.pools import MoleculePool
from ...spectra.readers import SpectraTable, fill_adducts, read_spectra_text
from ..spectra.work import scores_text
from .drawing import draw_all
from .limits import Deadline, Limits, Refused
from .schemas import SpectraRequest

# The most peaks of a spectrum, and of spectra whose molecules are drawn and peaks explained.
_MOST_PEAKS, _MOST_SHOWN = 10_000, 25
# Candidates that the first request is tried with, and widths in ppm that may hold so many.
_MANY, _WIDTHS = 1000, (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)


@dataclass(frozen=True)
class SpectraModel:
    """A model of `skout fit-spectra` that is served, with a pool of molecules."""

    identifier: SpectrumIdentifier
    pool: MoleculePool
    id: str = ""  # of the model's file

    kind = "spectra"

    def about(self) -> dict[str, Any]:
        """Return the number of candidates and the coverage of sets, for GET /api/model."""
        return {
            "model": self.id,
            "kind": self.kind,
            "summary": self._summary(),
            "candidates": len(self.pool),
            "coverage": self.identifier.coverage,
        }

    def warm(self) -> None:
        """Identify a spectrum, so that the first request waits neither for disk nor compiler.

        It has many candidates, since loops are compiled only where much is compared.
        """
        mass = float(self.pool.masses([len(self.pool) // 2])[0])
        widths = (ppm for ppm in _WIDTHS if len(self.pool.by_mass(mass, ppm)) >= _MANY)
        body = f"BEGIN IONS\nPEPMASS={mass + 1.00728}\nADDUCT=[M+H]+\n50 1\n60 1\nEND IONS\n"
        table, ppm = _read(body, 1), next(widths, _WIDTHS[-1])
        for _ in range(2):
            self.identifier.identify(table, self.pool, ppm=ppm, top=1)

    def _summary(self) -> str:
        known = self.identifier.validation_
        size = f"{len(self.pool):,} molecules"
        if not known["n_several"]:
            return size
        scores = scores_text(known).replace("+-", "±")
        return f"{size}; {known['n_several']:,} held-out spectra with several candidates: {scores}"

    def identify(
        self, request: SpectraRequest, limits: Limits, deadline: Deadline
    ) -> list[Identification]:
        """Return the best candidates of each spectrum of a request."""
        return self._identify(self._table(request, limits), request, limits, deadline)

    def identify_drawn(
        self, request: SpectraRequest, limits: Limits, deadline: Deadline
    ) -> list[dict[str, Any]]:
        """Return the same as JSON, with drawings and explanations if requested."""
        table = self._table(request, limits)
        records = [result.as_dict() for result in self._identify(table, request, limits, deadline)]
        for i, record in enumerate(records):
            shown = i < _MOST_SHOWN
            if request.draw and shown:
                drawn = draw_all(
                    Smiles().picture, (hit["smiles"] for hit in record["hits"]), deadline
                )
                for hit in record["hits"]:
                    hit["svg"] = drawn[hit["smiles"]]
            best = record["hits"][: request.explain] if shown else []
            record["explanations"] = [
                self._explained(table, i, hit, request, deadline) for hit in best
            ]
        return [_finite(record) for record in records]

    def _table(self, request: SpectraRequest, limits: Limits) -> SpectraTable:
        """Return the spectra of a request."""
        table = _read(request.spectra, limits.rows + 1)
        limits.check_rows(len(table), "spectra")
        sizes = table.spectra.indptr[1:] - table.spectra.indptr[:-1]
        if sizes.max(initial=0) > _MOST_PEAKS:
            raise Refused(413, f"A spectrum may have {_MOST_PEAKS:,} peaks.")
        return fill_adducts(table, request.adduct)

    def _identify(
        self, table: SpectraTable, request: SpectraRequest, limits: Limits, deadline: Deadline
    ) -> list[Identification]:
        limits.check_candidates(request.top)
        deadline.check()
        return self.identifier.identify(
            table,
            self.pool,
            ppm=request.ppm,
            top=request.top,
            progress=lambda done, total: deadline.check(),
        )

    def _explained(
        self,
        table: SpectraTable,
        i: int,
        hit: dict[str, Any],
        request: SpectraRequest,
        deadline: Deadline,
    ) -> dict[str, Any] | None:
        """Return the peaks that a candidate explains, None for one that cannot be fragmented."""
        deadline.check()
        adduct = str(table["adduct"][i]) or None
        spectrum = table.spectra[i : i + 1]
        try:
            explanation = self.identifier.explain(
                spectrum, hit["smiles"], ppm=request.ppm, adduct=adduct
            )
        except ValueError:
            return None
        return dict(explanation.as_dict())


def _read(text: str, limit: int) -> SpectraTable:
    """Return the spectra of a text; its errors do not name arguments of Python."""
    try:
        return read_spectra_text(text, limit)
    except ValueError as error:
        raise ValueError(str(error).replace(' Leave such out with on_error="skip".', "")) from error


def _finite(value: Any) -> Any:
    """Return a value with None for numbers that are not finite, which JSON cannot hold."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
