"""The answers of a served model of tables."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from skout.decoding import EmbeddedPool

from ...tables.files import Part, Table
from ..results import Columns, as_records
from ..unseen import Unseen, UnseenValue, unseen_values
from ..using import SavedModel, predict_part, rank_part
from .drawing import Picture, draw_all
from .limits import Deadline, Limits, Refused
from .schemas import PredictRequest, RankRequest, RowsRequest
from .tables import table_of_records, table_of_text

# Rows between two checks of the clock, and the most new values of categories in an answer.
_AT_ONCE, _MOST_UNSEEN = 128, 50


@dataclass(frozen=True)
class TableModel:
    """A model of `skout fit` that is served."""

    saved: SavedModel
    candidates: EmbeddedPool | None = None  # to choose from; None for the training outputs
    id: str = ""  # of the model's file
    summary: str = ""  # the scores of its validation
    input_image: Picture | None = None  # where the columns of numbers are pixels
    output_image: Picture | None = None
    example: Mapping[str, float | str] = field(default_factory=dict)  # typical inputs

    kind = "table"

    def __post_init__(self) -> None:
        if self.input_image is not None:
            self.input_image.check(self.saved.inputs.numbers)
        if self.output_image is not None:
            self.output_image.check(self.saved.outputs.numbers)

    @cached_property
    def n_candidates(self) -> int:
        """The number of candidates to rank; 0 for a model that does not rank."""
        if self.saved.others or not self.saved.outputs.kind.has_candidates:
            return 0
        return self.saved.n_candidates(self.candidates)

    def about(self) -> dict[str, Any]:
        """Return the inputs, the targets and the candidates of the model, for GET /api/model."""
        inputs = self.saved.inputs
        targets = [self._described(target) for target in self.saved.targets]
        return {
            "model": self.id,
            "kind": self.kind,
            "summary": self.summary,
            "inputs": {
                "columns": inputs.columns,
                "text": inputs.is_text,
                "gaps": bool(inputs.gaps),
                "fields": [self._field(name) for name in inputs.columns],
                "image": self.input_image and asdict(self.input_image),
            },
            "outputs": targets[0],
            "targets": targets,
            "candidates": self.n_candidates,
        }

    def _field(self, name: str) -> dict[str, Any]:
        """Return the name, the values and an example of an input, for a form."""
        levels = self.saved.levels.get(name, ())
        return {
            "name": name,
            "number": name in set(self.saved.inputs.numbers),
            "values": list(levels),
            "example": self.example.get(name),
        }

    def _described(self, saved: SavedModel) -> dict[str, Any]:
        """Return the kind and the columns of a target, for the page."""
        outputs = saved.outputs
        return {
            "target": outputs.name,
            "kind": outputs.kind.name,
            "name": outputs.kind.plural,
            "style": outputs.kind.style,
            "columns": outputs.columns,
            "text": outputs.is_text,
            "separator": outputs.kind.separator,
            "image": self.output_image and asdict(self.output_image),
            "probabilities": bool(saved.classes),
        }

    def warm(self) -> None:
        """Predict one row, so that the first request does not wait for imports."""
        inputs = self.saved.inputs
        cell = "C" if inputs.is_text else 0.0  # a text, and a molecule
        row = {**dict.fromkeys(inputs.columns, cell), **dict.fromkeys(inputs.words)}
        table = table_of_records([row])
        for part in table.parts(inputs.numbers, inputs.texts):
            predict_part(self.saved, table, part, self.candidates)

    def predict(
        self, request: PredictRequest, limits: Limits, deadline: Deadline
    ) -> tuple[list[Columns], list[UnseenValue]]:
        """Return the predictions for a request, and the new values of categories in it."""
        if request.proba:
            self.saved.check_proba()
        blocks: list[Columns] = []
        unseen: Unseen = Counter()
        for table, part in self._parts(request, limits, deadline):
            columns, new = predict_part(
                self.saved, table, part, self.candidates, proba=request.proba
            )
            blocks.append(columns)
            unseen += new
        return blocks, list(unseen_values(unseen, self.saved.levels))[:_MOST_UNSEEN]

    def as_rows(self, blocks: Iterable[Columns]) -> list[dict[str, Any]]:
        """Return the columns of `predict` as a dict for each row, with one of its probabilities."""
        rows = list(as_records(blocks))
        for target in self.saved.targets:
            columns = dict(
                zip(self.saved.names_of_probabilities(target), target.classes, strict=True)
            )
            for row in rows:
                if columns and columns.keys() <= row.keys():
                    chances = {name: row.pop(column) for column, name in columns.items()}
                    by_target = row.setdefault("probabilities", {})
                    by_target |= {target.outputs.name: chances} if self.saved.others else chances
        return rows

    def rank(self, request: RankRequest, limits: Limits, deadline: Deadline) -> Iterator[Columns]:
        """Yield the best candidates for the rows of a request."""
        limits.check_candidates(request.top)
        if not self.n_candidates:
            raise Refused(422, "This model has no candidates to rank: use /api/predict.")
        for table, part in self._parts(request, limits, deadline):
            yield rank_part(self.saved, table, part, self.candidates, request.top)

    def _parts(
        self, request: RowsRequest, limits: Limits, deadline: Deadline
    ) -> Iterator[tuple[Table, Part]]:
        """Yield the rows of a request, a few at a time, when all are within the limits."""
        inputs, parts, n = self.saved.inputs, [], 0
        if request.rows is not None and request.table is None:
            limits.check_rows(len(request.rows))
            table = table_of_records(request.rows)
        elif request.table is not None and request.rows is None:
            table = table_of_text(request.table)
        else:
            raise Refused(422, "A request must have rows or a table, and not both.")
        for part in table.parts(inputs.numbers, inputs.texts, inputs.reading):
            deadline.check()
            n += len(part)
            limits.check_rows(n)
            parts.append(part)
        for part in parts:
            for a in range(0, len(part), _AT_ONCE):
                deadline.check()
                piece = part.take(range(a, min(a + _AT_ONCE, len(part))))
                yield table, replace(piece, start=part.start + a)


def as_rankings(
    blocks: Iterable[Columns], deadline: Deadline, draw: Callable[[str], str] | None
) -> list[dict[str, Any]]:
    """Return the columns of `rank` as a dict for each query; `draw` adds pictures."""
    by_query: dict[int, list[dict[str, Any]]] = {}
    for row in as_records(blocks):
        if not math.isfinite(row["score"]):  # an index found too few
            row["score"] = None
        by_query.setdefault(row.pop("query"), []).append(row)
    if draw is not None:
        candidates = [candidate for ranked in by_query.values() for candidate in ranked]
        drawn = draw_all(draw, (candidate["candidate"] for candidate in candidates), deadline)
        for candidate in candidates:
            candidate["svg"] = drawn[candidate["candidate"]]
    return [{"query": query, "candidates": candidates} for query, candidates in by_query.items()]
